"""What a statement asks for, as a job that nobody has picked yet.

A caller has resolved names and types; ids of new elements are 0 and are given later: a new table's
or database's id by the submitter, a new column's or index's by the step that places it. `query` is
the statement's text.
"""

from collections.abc import Collection, Sequence
from typing import Any

import msgspec

from exuvia.catalog.change import Kind
from exuvia.catalog.model import (
    ColumnInfo,
    DatabaseInfo,
    IndexInfo,
    TableInfo,
    evolve,
    name,
)
from exuvia.catalog.sequence_info import SequenceInfo
from exuvia.ddl.actions.modify_column import Modification
from exuvia.ddl.codes import ActionCode
from exuvia.ddl.job import Job


def plain(value: msgspec.Struct) -> Any:
    """A record as a job's arguments hold it."""
    return msgspec.to_builtins(value)


def create_database(
    database: str, charset: str = "utf8mb4", collate: str = "utf8mb4_bin", *, query: str = ""
) -> Job:
    """CREATE DATABASE."""
    wanted = DatabaseInfo(id=0, db_name=name(database), charset=charset, collate=collate)
    return Job(
        type=ActionCode.CREATE_SCHEMA,
        schema_name=database,
        raw_args=(plain(wanted),),
        charset=charset,
        collate=collate,
        query=query,
    )


def drop_database(database: DatabaseInfo, *, checks: bool = False, query: str = "") -> Job:
    """DROP DATABASE with all tables in it; `checks`: not if a table elsewhere refers to one."""
    asked = ({"fk_check": True},) if checks else ()
    return job_for(ActionCode.DROP_SCHEMA, database, None, asked, query)


def create_table(database: DatabaseInfo, table: TableInfo, *, query: str = "") -> Job:
    """CREATE TABLE; the table's id is 0, those of its columns and indexes begin at 1."""
    job = job_for(ActionCode.CREATE_TABLE, database, table, (plain(table),), query)
    wanted = 0 if table.partition is None else len(table.partition.definitions)
    return evolve(job, exuvia_ids=(0,) * wanted)


def drop_table(
    database: DatabaseInfo,
    table: TableInfo,
    going: Collection[int] | None = None,
    *,
    query: str = "",
) -> Job:
    """DROP TABLE of one table; `going`: ids of the only tables that may refer to it, None for any
    (foreign_key_checks=OFF)."""
    asked = () if going is None else ({"fk_check": True, "going": list(going)},)
    return job_for(ActionCode.DROP_TABLE, database, table, asked, query)


def create_view(
    database: DatabaseInfo, view: TableInfo, former: int = 0, *, query: str = ""
) -> Job:
    """CREATE VIEW; `former`: id of the view it replaces (OR REPLACE), 0 for none."""
    job = job_for(
        ActionCode.CREATE_VIEW, database, view, (plain(view), bool(former), former), query
    )
    return evolve(job, exuvia_tables=(former,) if former else ())


def drop_view(database: DatabaseInfo, view: TableInfo, *, query: str = "") -> Job:
    """DROP VIEW of one view."""
    return job_for(ActionCode.DROP_VIEW, database, view, (), query)


def create_sequence(database: DatabaseInfo, sequence: TableInfo, *, query: str = "") -> Job:
    """CREATE SEQUENCE; `sequence.sequence` has the options."""
    return job_for(ActionCode.CREATE_SEQUENCE, database, sequence, (plain(sequence),), query)


def alter_sequence(
    database: DatabaseInfo, sequence: TableInfo, options: SequenceInfo, *, query: str = ""
) -> Job:
    """ALTER SEQUENCE to these options."""
    return job_for(ActionCode.ALTER_SEQUENCE, database, sequence, (plain(options),), query)


def drop_sequence(database: DatabaseInfo, sequence: TableInfo, *, query: str = "") -> Job:
    """DROP SEQUENCE of one sequence."""
    return job_for(ActionCode.DROP_SEQUENCE, database, sequence, (), query)


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
    arguments = (plain(column), {"after": after})
    return job_for(ActionCode.ADD_COLUMN, database, table, arguments, query)


def drop_column(database: DatabaseInfo, table: TableInfo, column: str, *, query: str = "") -> Job:
    """DROP COLUMN; indexes on that column alone go along."""
    return job_for(ActionCode.DROP_COLUMN, database, table, (column,), query)


def modify_column(
    database: DatabaseInfo, table: TableInfo, found: Modification, *, query: str = ""
) -> Job:
    """MODIFY, CHANGE and RENAME COLUMN; `found.kind` says how (catalog/change.py)."""
    job = job_for(ActionCode.MODIFY_COLUMN, database, table, (plain(found),), query)
    return job if found.kind == Kind.METADATA else evolve(job, reorg_meta={})


def set_default(
    database: DatabaseInfo, table: TableInfo, column: ColumnInfo, *, query: str = ""
) -> Job:
    """ALTER COLUMN SET DEFAULT and DROP DEFAULT: the column with the default it is to have."""
    return job_for(ActionCode.SET_DEFAULT, database, table, (plain(column),), query)


def add_index(
    database: DatabaseInfo,
    table: TableInfo,
    indexes: IndexInfo | Sequence[IndexInfo],
    *,
    hidden: Sequence[ColumnInfo] = (),
    query: str = "",
) -> Job:
    """ADD INDEX or ADD UNIQUE, one or several that one scan fills. `hidden`: columns that hold
    expressions of a single index."""
    wanted = [indexes] if isinstance(indexes, IndexInfo) else list(indexes)
    columns = [plain(column) for column in hidden]
    more = {"hidden_cols": columns} if columns else {}
    arguments = tuple({**plain(index), **more} for index in wanted)
    return job_for(ActionCode.ADD_INDEX, database, table, arguments, query)


def drop_index(
    database: DatabaseInfo, table: TableInfo, index: str | Sequence[str], *, query: str = ""
) -> Job:
    """DROP INDEX, one or several."""
    wanted = (index,) if isinstance(index, str) else tuple(index)
    return job_for(ActionCode.DROP_INDEX, database, table, wanted, query)


def rename_index(
    database: DatabaseInfo, table: TableInfo, index: str, new_name: str, *, query: str = ""
) -> Job:
    """RENAME INDEX."""
    return job_for(ActionCode.RENAME_INDEX, database, table, (index, new_name), query)


def set_visibility(
    database: DatabaseInfo, table: TableInfo, index: str, visible: bool, *, query: str = ""
) -> Job:
    """ALTER INDEX VISIBLE or INVISIBLE."""
    return job_for(ActionCode.INDEX_VISIBILITY, database, table, (index, visible), query)


def add_primary_key(
    database: DatabaseInfo, table: TableInfo, index: IndexInfo, *, query: str = ""
) -> Job:
    """ADD PRIMARY KEY, which is never clustered: rows keep their handles."""
    return job_for(ActionCode.ADD_PRIMARY_KEY, database, table, (plain(index),), query)


def drop_primary_key(database: DatabaseInfo, table: TableInfo, *, query: str = "") -> Job:
    """DROP PRIMARY KEY; a clustered one is refused (8200)."""
    return job_for(ActionCode.DROP_PRIMARY_KEY, database, table, ("PRIMARY",), query)


def job_for(
    action: ActionCode,
    database: DatabaseInfo,
    table: TableInfo | None,
    arguments: tuple[Any, ...],
    query: str,
) -> Job:
    """A job about a table, or about a whole database, with these arguments."""
    return Job(
        type=action,
        schema_id=database.id,
        table_id=table.id if table else 0,
        schema_name=database.db_name.O,
        table_name=table.name.O if table else "",
        raw_args=arguments,
        query=query,
    )
