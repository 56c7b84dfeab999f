"""What a statement asks for, as a job that nobody has picked yet.

A caller has resolved names and types; ids of new elements are 0 and are given later: a new table's
or database's id by the submitter, a new column's or index's by the step that places it. `query` is
the statement's text.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from exuvia.catalog.model import ColumnInfo, DatabaseInfo, IndexInfo, TableInfo, name
from exuvia.ddl.codes import ActionCode
from exuvia.ddl.job import Job


def _plain(value: msgspec.Struct) -> Any:
    return msgspec.to_builtins(value)


def create_database(
    database: str, charset: str = "utf8mb4", collate: str = "utf8mb4_bin", *, query: str = ""
) -> Job:
    """CREATE DATABASE."""
    wanted = DatabaseInfo(id=0, db_name=name(database), charset=charset, collate=collate)
    return Job(
        type=ActionCode.CREATE_SCHEMA,
        schema_name=database,
        raw_args=(_plain(wanted),),
        charset=charset,
        collate=collate,
        query=query,
    )


def drop_database(database: DatabaseInfo, *, query: str = "") -> Job:
    """DROP DATABASE with all tables in it."""
    return _job(ActionCode.DROP_SCHEMA, database, None, (), query)


def create_table(database: DatabaseInfo, table: TableInfo, *, query: str = "") -> Job:
    """CREATE TABLE; the table's id is 0, those of its columns and indexes begin at 1."""
    return _job(ActionCode.CREATE_TABLE, database, table, (_plain(table),), query)


def drop_table(database: DatabaseInfo, table: TableInfo, *, query: str = "") -> Job:
    """DROP TABLE of one table."""
    return _job(ActionCode.DROP_TABLE, database, table, (), query)


def add_column(
    database: DatabaseInfo,
    table: TableInfo,
    column: ColumnInfo,
    after: str | None = None,
    *,
    query: str = "",
) -> Job:
    """ADD COLUMN. `after`: a column's name, "" for FIRST, None for the end.

    `origin_default` of the column is what rows written before it show; the caller puts it there.
    """
    arguments = (_plain(column), {"after": after})
    return _job(ActionCode.ADD_COLUMN, database, table, arguments, query)


def drop_column(database: DatabaseInfo, table: TableInfo, column: str, *, query: str = "") -> Job:
    """DROP COLUMN; indexes on that column alone go along."""
    return _job(ActionCode.DROP_COLUMN, database, table, (column,), query)


def add_index(
    database: DatabaseInfo,
    table: TableInfo,
    indexes: IndexInfo | Sequence[IndexInfo],
    *,
    query: str = "",
) -> Job:
    """ADD INDEX or ADD UNIQUE, one or several that one scan fills."""
    wanted = [indexes] if isinstance(indexes, IndexInfo) else list(indexes)
    arguments = tuple(_plain(index) for index in wanted)
    return _job(ActionCode.ADD_INDEX, database, table, arguments, query)


def drop_index(
    database: DatabaseInfo, table: TableInfo, index: str | Sequence[str], *, query: str = ""
) -> Job:
    """DROP INDEX, one or several."""
    wanted = (index,) if isinstance(index, str) else tuple(index)
    return _job(ActionCode.DROP_INDEX, database, table, wanted, query)


def add_primary_key(
    database: DatabaseInfo, table: TableInfo, index: IndexInfo, *, query: str = ""
) -> Job:
    """ADD PRIMARY KEY, which is never clustered: rows keep their handles."""
    return _job(ActionCode.ADD_PRIMARY_KEY, database, table, (_plain(index),), query)


def drop_primary_key(database: DatabaseInfo, table: TableInfo, *, query: str = "") -> Job:
    """DROP PRIMARY KEY; a clustered one is refused (8200)."""
    return _job(ActionCode.DROP_PRIMARY_KEY, database, table, ("PRIMARY",), query)


def _job(
    action: ActionCode,
    database: DatabaseInfo,
    table: TableInfo | None,
    arguments: tuple[Any, ...],
    query: str,
) -> Job:
    return Job(
        type=action,
        schema_id=database.id,
        table_id=table.id if table else 0,
        schema_name=database.db_name.O,
        table_name=table.name.O if table else "",
        raw_args=arguments,
        query=query,
    )
