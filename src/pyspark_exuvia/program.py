"""Calls for programs, in classic sessions and in Connect: views of tables, statements of Exuvia.

They open the store in the program's process, so the program needs this package and the store. A
statement runs in a session of its own: it is committed, and variables of the session are lost.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType

from exuvia.base.errors import ExuviaError
from exuvia.base.types import FieldType, TypeCode, Value
from exuvia.catalog.columns import vector_of
from exuvia.node import embedded
from exuvia.node.embedded import Embedded
from exuvia.sql.result import BIGINT, OutputColumn, Result, text_type
from exuvia.sql.session.session import Session
from exuvia.sql.type_text import identifier
from pyspark_exuvia import merge, staging
from pyspark_exuvia.errors import show, wrong_state
from pyspark_exuvia.table import spark_array, spark_type

_TEXT = text_type(255)
_TABLES = (
    "SELECT table_name FROM information_schema.tables"
    " WHERE table_schema = ? AND table_type = 'BASE TABLE' ORDER BY table_name"
)
_COUNTS = [
    OutputColumn("affected", BIGINT),
    OutputColumn("last_insert_id", BIGINT),
    OutputColumn("info", _TEXT),
]


def sql(
    spark: Any, url: str, statement: str, database: str = "", parameters: Sequence[Value] = ()
) -> Any:
    """Runs a statement now and returns its rows as a DataFrame, or the counts of a statement
    without rows. `parameters` are the values of `?`. Raises the errors of the statement."""
    result = _run(url, statement, database, parameters)
    columns = result.columns
    if not columns:
        counts = [result.affected, result.last_insert_id, result.info]
        result = Result(_COUNTS, [counts])
    return _frame(spark, result)


def attach(spark: Any, url: str, database: str) -> list[str]:
    """Creates a temporary view of each table of the database, and returns their names. A view has
    the columns of now. Raises 1049."""
    with kept_session(url) as session:
        schemas = session.services.schemas
        session.look(lambda context: schemas.database(context.txn, database))
    names = [str(name) for (name,) in _run(url, _TABLES, "", [database]).rows]
    reader = spark.read.format("exuvia").option("url", url)
    for name in names:
        table = reader.option("dbtable", f"{database}.{name}").load()
        table.createOrReplaceTempView(identifier(name))
    return names


def schema_change(frame: Any, url: str, dbtable: str) -> str:
    """Returns the ALTER TABLE that `mergeSchema` would run for the DataFrame, or "".

    Raises 8200 for types that cannot be merged."""
    options = {"url": url, "dbtable": dbtable}
    with kept_session(url) as session:
        return merge.alter_table(session.services.store, options, frame.schema)


def _run(url: str, statement: str, database: str, parameters: Sequence[Value]) -> Result:
    with kept_session(url) as session:
        if database:
            session.execute(f"USE {identifier(database)}")
        return _run_one(session, statement, parameters)


_entered: dict[str, Embedded] = {}
"""Stores that this process keeps open, so that a statement need not open one. It leaves the cluster
when it is quiet, and closes them at its exit."""


@contextmanager
def kept_session(url: str) -> Iterator[Session]:
    """Yields a session in UTC. Errors show their code."""
    try:
        if url not in _entered or _entered[url].forked:
            _entered[url] = embedded.enter(url)
        with staging.session_of(url) as session:
            yield session
    except ExuviaError as error:
        show(error)
        raise


def _run_one(session: Session, statement: str, parameters: Sequence[Value]) -> Result:
    results = session.execute(statement, list(parameters) or None)
    if session.current is not None:
        session.rollback()
        raise wrong_state("sql() commits each statement: it cannot begin a transaction")
    return results if isinstance(results, Result) else results[-1]


def _frame(spark: Any, result: Result) -> Any:
    schema = StructType()
    arrays, rows = [], list(result.rows)
    for at, column in enumerate(result.columns):
        kind = _kind_of(column)
        array = spark_array(vector_of([row[at] for row in rows], kind))
        schema.add(column.name, spark_type(kind))
        arrays.append(array)
    table = pa.Table.from_arrays(arrays, names=schema.names)
    return spark.createDataFrame(table, schema)


def _kind_of(column: OutputColumn) -> FieldType:
    """Returns the type of the values. A TIMESTAMP's are times in UTC, the session's zone."""
    if column.type.Tp == TypeCode.NULL:
        return _TEXT
    declared = column.shown
    return declared if declared is not None and declared.Tp == TypeCode.TIMESTAMP else column.type


__all__ = ["attach", "schema_change", "sql"]
