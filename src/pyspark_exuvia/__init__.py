"""Exuvia's tables and its feed of schema changes as Spark data. Found by Spark by its name.

    spark.read.format("exuvia").option("url", URL).option("dbtable", "shop.orders").load()
    spark.readStream.format("exuvia").option("url", URL).option("feed", "ddl").load()
    spark.readStream.format("exuvia").option("url", URL).option("feed", "rows")
        .option("dbtable", "shop.orders").load()
    frame.write.format("exuvia").option("url", URL).option("dbtable", "shop.orders")
        .mode("append").save()                                  or "overwrite"; write.py
    stream.writeStream.format("exuvia").option("url", URL).option("dbtable", "shop.orders")
        .option("checkpointLocation", PATH).start()             append, complete; sink.py

    url       a store as `exuvia serve --store` takes it
    dbtable   database.table                                    a batch read
    columns   a, b                                              only these, in this order
    numPartitions   how many spans the table is cut into        by size unless given
    fetchsize       rows of one Arrow batch                     10,000
    feed      "ddl": schema changes instead of a table          batch or stream
              "rows": changes of the rows of `dbtable`          likewise; changes.py
    startingPosition   where the feed begins                    schema changes: as far as it goes
                                                                back; rows: now
    maxRowsPerBatch    of a stream of row changes               all there are
    moment    what `one_moment` gives
    atomic    "false": an append may come in parts (parts.py)   one transaction
    writeId   names a write: a second one of that name does nothing

Every partition reads a snapshot of its own, taken when its task begins: a table that is written
meanwhile is read at slightly different moments. Where that matters, or several tables have to fit:

    from pyspark_exuvia.moment import one_moment
    with one_moment(URL) as moment:
        spark.read.format("exuvia").options(**moment).option("dbtable", "shop.orders").load()...

Where Spark pushes filters (`spark.sql.python.filterPushdown.enabled`), only ranges of keys are read
(filters.py). A table whose columns change meanwhile ends the read with 1412.

This module is imported whenever Spark looks for a source: it must be light.
"""

from typing import Any

from pyspark.sql.datasource import DataSource


class DefaultSource(DataSource):
    """See the module. Objects of it travel between processes: it holds nothing but options."""

    @classmethod
    def name(cls) -> str:
        """What `format` takes."""
        return "exuvia"

    def schema(self) -> Any:
        """The columns, read from the store."""
        from pyspark_exuvia import changes, feed, table

        if self._feed() == "rows":
            return changes.schema(self.options)
        return feed.SCHEMA if self._feed() else table.schema(self.options)

    def reader(self, schema: Any) -> Any:
        """For `spark.read`."""
        from pyspark_exuvia import changes, feed, table

        if self._feed() == "rows":
            return changes.ChangesReader(self.options, schema)
        if self._feed():
            return feed.FeedReader(self.options)
        return table.reader_of(self.options, schema)

    def writer(self, schema: Any, overwrite: bool) -> Any:
        """For `DataFrame.write`."""
        from pyspark_exuvia import write

        return write.TableWriter(self.options, schema, overwrite)

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:  # noqa: N802 - Spark's name
        """For `DataFrame.writeStream`."""
        from pyspark_exuvia import sink

        return sink.StreamWriter(self.options, schema, overwrite)

    def streamReader(self, schema: Any) -> Any:  # noqa: N802 - Spark's name
        """For `spark.readStream`: row changes; for schema changes Spark asks for the simple one."""
        from pyspark_exuvia import changes

        if self._feed() != "rows":
            return super().streamReader(schema)
        return changes.ChangesStream(self.options, schema)

    def simpleStreamReader(self, schema: Any) -> Any:  # noqa: N802 - Spark's name
        """For `spark.readStream`: schema changes as they come."""
        from pyspark_exuvia import feed

        if not self._feed():
            raise ValueError('only .option("feed", "ddl") and "rows" can be read as a stream')
        return feed.FeedStream(self.options)

    def _feed(self) -> str:
        wanted = self.options.get("feed", "").lower()
        if wanted not in ("", "ddl", "rows"):
            raise ValueError(f'there is no feed "{wanted}"; there are "ddl" and "rows"')
        return wanted
