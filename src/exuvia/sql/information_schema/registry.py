"""information_schema: tables that are computed from the statement's snapshot when they are read.

    tables              SCHEMATA TABLES COLUMNS VIEWS SEQUENCES ...
    partitions          PARTITIONS
    keys                STATISTICS KEY_COLUMN_USAGE TABLE_CONSTRAINTS CHECK_CONSTRAINTS ...
    server              ENGINES COLLATIONS PROCESSLIST DDL_JOBS, CLUSTER_INFO, VARIABLES_INFO ...
                        USER_PRIVILEGES ... APPLICABLE_ROLES, AUTO_ANALYZE_QUEUE ANALYZE_STATUS
                        EXUVIA_CHANGE_LOGS EXUVIA_INSPECT_JOBS EXUVIA_INSPECT_ERRORS EXUVIA_UNDO
    placement           PLACEMENT_POLICIES ATTRIBUTES RESOURCE_GROUPS
    mysql_only          what MySQL 8 has and TiDB has not
    mysql_database      tables of `mysql`        performance_schema

A definition is a line of columns: `name` is text of 64 characters, `name:512` of more, `name#` a
bigint, `name%` a double, `name@` a datetime, `name!` one with microseconds.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import chain
from typing import NamedTuple

from exuvia.base.types import FieldType
from exuvia.catalog.model import ColumnInfo, DatabaseInfo, TableInfo, evolve, name
from exuvia.catalog.system_tables import INFORMATION_SCHEMA_ID, SHOWN_USER
from exuvia.sql.information_schema import mysql_tables, placement, server, tables
from exuvia.sql.result import BIGINT, DATETIME, DOUBLE, Row, text_type
from exuvia.sql.statement.context import Context, VirtualTable

Rows = Callable[[Context], Iterable[Row]]


class Definition(NamedTuple):
    """Name, columns and how to compute the rows."""

    name: str
    columns: tuple[ColumnInfo, ...]
    rows: Rows


def _type_of(mark: str) -> FieldType:
    if mark.endswith("#"):
        return BIGINT
    if mark.endswith("@"):
        return DATETIME
    if mark.endswith("!"):
        return evolve(DATETIME, Flen=26, Decimal=6)
    if mark.endswith("%"):
        return DOUBLE
    return text_type(int(mark.partition(":")[2] or 64))


def _columns(line: str) -> tuple[ColumnInfo, ...]:
    marks = line.split()
    return tuple(
        ColumnInfo(
            id=n + 1,
            name=name(mark.partition(":")[0].rstrip("#@!%")),
            offset=n,
            type=_type_of(mark),
        )
        for n, mark in enumerate(marks)
    )


@cache
def definitions() -> dict[str, Definition]:
    """Every table by its lower-case name."""
    found = (
        *tables.TABLES,
        *tables.PARTITIONS,
        *tables.KEYS,
        *server.TABLES,
        *mysql_tables.TABLES,
        *server.PRIVILEGES,
        *server.ANALYSES,
        *server.CHANGE_LOGS,
        *server.INSPECTIONS,
        *server.UNDO,
        *placement.TABLES,
    )
    own = {"TABLES": _own_tables, "COLUMNS": _own_columns}
    return {
        title.lower(): Definition(title, _columns(line), _behind(rows, own.get(title)))
        for title, line, rows in found
    }


# -- of the tables here ----------------------------------------------------------------------------

_HOME = DatabaseInfo(id=INFORMATION_SCHEMA_ID, db_name=name("information_schema"))
_COMPUTED = 1 << 62  # ids of computed tables, as in TiDB, are beyond those of stored ones


def _behind(rows: Rows, own: Rows | None) -> Rows:
    if own is None:
        return rows
    return lambda context: chain(rows(context), own(context))


@cache
def computed_tables() -> tuple[TableInfo, ...]:
    """The tables of information_schema, by name."""
    found = sorted(definitions().values(), key=lambda each: each.name)
    return tuple(
        TableInfo(id=_COMPUTED + n, name=name(each.name), cols=each.columns)
        for n, each in enumerate(found, 1)
    )


def _asked(context: Context) -> Iterator[TableInfo]:
    about = context.about
    if about.table_schema in (None, _HOME.db_name.L):
        yield from (each for each in computed_tables() if about.table_name in (None, each.name.L))


def _own_tables(context: Context) -> Iterator[Row]:
    for each in _asked(context):
        yield tables.computed_table_row(_HOME, each)


def _own_columns(context: Context) -> Iterator[Row]:
    for table in _asked(context):
        for n, column in enumerate(table.cols):
            yield tables.column_row(_HOME, table, column, n + 1, tables.PRIVILEGES)


# -- by their names --------------------------------------------------------------------------------


@cache
def _performance() -> dict[str, Definition]:
    return {
        title: Definition(title, _columns(line), rows)
        for title, line, rows in mysql_tables.PERFORMANCE_SCHEMA
    }


def performance_table(context: Context, wanted: str) -> VirtualTable | None:
    """A computed table of performance_schema, or None."""
    found = _performance().get(wanted.lower())
    if found is None:
        return None
    rows = found.rows
    return VirtualTable("performance_schema", found.name, found.columns, lambda: rows(context))


def system_view(context: Context, wanted: str) -> VirtualTable | None:
    """A computed table of the database `mysql`, or None."""
    name = wanted.lower()
    if name == "user":
        columns = SHOWN_USER.cols
        return VirtualTable(
            "mysql", name, columns, lambda: mysql_tables.user_rows(context), SHOWN_USER
        )
    if name == mysql_tables.MDL_VIEW:
        columns = _columns(mysql_tables.MDL_VIEW_COLUMNS)
        return VirtualTable("mysql", name, columns, lambda: mysql_tables.mdl_view_rows(context))
    line = mysql_tables.WITHOUT_ROWS.get(name)
    return None if line is None else VirtualTable("mysql", name, _columns(line), lambda: ())


def table(context: Context, wanted: str) -> VirtualTable | None:
    """The computed table of that name, or None."""
    found = definitions().get(wanted.lower())
    if found is None:
        return None
    rows, facts = found.rows, (found.name, found.columns)
    heeds = _heeds().get(found.name, ())
    is_view = found.name in mysql_tables.VIEWS
    return VirtualTable(
        "information_schema", *facts, lambda: rows(context), heeds=heeds, is_view=is_view
    )


@cache
def _heeds() -> dict[str, tuple[str, ...]]:
    about_tables = (*tables.TABLES, *tables.PARTITIONS, *tables.KEYS)
    return {
        **{each[0]: ("table_schema", "table_name") for each in about_tables},
        "DDL_JOBS": ("job_id",),
    }
