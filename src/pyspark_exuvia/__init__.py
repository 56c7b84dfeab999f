"""Exuvia's tables and change feeds as a Spark data source. Spark finds this module by its name.

    spark.read.format("exuvia").option("url", URL).option("dbtable", "shop.orders").load()
    spark.readStream.format("exuvia").option("url", URL).option("feed", "ddl").load()
    spark.readStream.format("exuvia").option("url", URL).option("feed", "rows")
        .option("dbtable", "shop.orders").load()
    frame.write.format("exuvia").option("url", URL).option("dbtable", "shop.orders")
        .mode("append").save()                                  or "overwrite"; write.py
    stream.writeStream.format("exuvia").option("url", URL).option("dbtable", "shop.orders")
        .option("checkpointLocation", PATH).start()             append, complete; sink.py

    url       store URL, as for `exuvia serve --store`
    dbtable   database.table                                    a batch read
    columns   a, b                                              only these, in this order
    numPartitions   number of spans the table is cut into       default: by size
    fetchsize       most rows of one Arrow batch                10,000
    feed      "ddl": schema changes instead of a table          batch or stream
              "rows": changes of the rows of `dbtable`          batch or stream; changes.py
    startingPosition   where the feed begins                    schema changes: the oldest retained;
                                                                rows: now
    maxRowsPerBatch    rows per batch of a row change stream    unlimited
    moment    set by `one_moment`
    atomic    "false": an append may be split (parts.py)        one transaction
    onDuplicate       "error", "ignore" or "update"             appends; upserts.py
    onDuplicateKey    the unique key of onDuplicate             the primary key
    mergeSchema       "true": missing columns and wider types   "false"
                      are added to the table first; merge.py
    writeId   names a write: a second write of the name does nothing

    attach(spark, URL, "shop")                      a view of every table; program.py
    sql(spark, URL, "ADMIN SHOW DDL JOBS")          a statement of Exuvia, as a DataFrame
    schema_change(frame, URL, "shop.orders")        the ALTER TABLE of `mergeSchema`

Each partition reads a snapshot of its own, taken when its task begins. If clients write meanwhile,
partitions show slightly different moments. For one moment for a table, or for several tables:

    from pyspark_exuvia.moment import one_moment
    with one_moment(URL) as moment:
        spark.read.format("exuvia").options(**moment).option("dbtable", "shop.orders").load()...

With filter pushdown (`spark.sql.python.filterPushdown.enabled`) only ranges of keys are read
(filters.py). If the table's columns change during a read, it ends with 1412.

Spark imports this module whenever it looks up a source, so it imports little.
"""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from pyspark.sql.datasource import DataSource


def _showing(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def call(*arguments: Any, **named: Any) -> Any:
        from pyspark_exuvia import errors

        return errors.showing(method)(*arguments, **named)

    return call


class DefaultSource(DataSource):
    """The data source `exuvia`. Its objects are pickled between processes and hold only options."""

    @classmethod
    def name(cls) -> str:
        """Returns the name for `format`."""
        return "exuvia"

    @_showing
    def schema(self) -> Any:
        """Returns the columns, read from the store."""
        from pyspark_exuvia import changes, feed, table

        if self._feed() == "rows":
            return changes.schema(self.options)
        return feed.SCHEMA if self._feed() else table.schema(self.options)

    @_showing
    def reader(self, schema: Any) -> Any:
        """Returns the reader for `spark.read`."""
        from pyspark_exuvia import changes, feed, table

        if self._feed() == "rows":
            return changes.ChangesReader(self.options, schema)
        if self._feed():
            return feed.FeedReader(self.options)
        return table.reader_of(self.options, schema)

    @_showing
    def writer(self, schema: Any, overwrite: bool) -> Any:
        """Returns the writer for `DataFrame.write`."""
        from pyspark_exuvia import write

        return write.TableWriter(self.options, schema, overwrite)

    @_showing
    def streamWriter(self, schema: Any, overwrite: bool) -> Any:  # noqa: N802 - Spark's name
        """Returns the writer for `DataFrame.writeStream`."""
        from pyspark_exuvia import sink

        return sink.StreamWriter(self.options, schema, overwrite)

    @_showing
    def streamReader(self, schema: Any) -> Any:  # noqa: N802 - Spark's name
        """Returns the stream of row changes; for schema changes Spark uses simpleStreamReader."""
        from pyspark_exuvia import changes

        if self._feed() != "rows":
            return super().streamReader(schema)
        return changes.ChangesStream(self.options, schema)

    @_showing
    def simpleStreamReader(self, schema: Any) -> Any:  # noqa: N802 - Spark's name
        """Returns the stream of schema changes."""
        from pyspark_exuvia import feed
        from pyspark_exuvia.errors import wrong_option

        if not self._feed():
            raise wrong_option('only .option("feed", "ddl") and "rows" can be read as a stream')
        return feed.FeedStream(self.options)

    def _feed(self) -> str:
        feed = self.options.get("feed", "").lower()
        if feed not in ("", "ddl", "rows"):
            from pyspark_exuvia.errors import wrong_option

            raise wrong_option(f'there is no feed "{feed}"; there are "ddl" and "rows"')
        return feed


def attach(spark: Any, url: str, database: str) -> list[str]:
    """Creates a temporary view of each table of the database, and returns their names."""
    from pyspark_exuvia import program

    return program.attach(spark, url, database)


def sql(
    spark: Any, url: str, statement: str, database: str = "", parameters: Sequence[Any] = ()
) -> Any:
    """Runs a statement of Exuvia now, and returns its rows as a DataFrame."""
    from pyspark_exuvia import program

    return program.sql(spark, url, statement, database, parameters)


def schema_change(frame: Any, url: str, dbtable: str) -> str:
    """Returns the ALTER TABLE that `mergeSchema` would run for the DataFrame, or ""."""
    from pyspark_exuvia import program

    return program.schema_change(frame, url, dbtable)
