"""information_schema: tables that are computed from the statement's snapshot when they are read.

    tables              SCHEMATA TABLES COLUMNS VIEWS SEQUENCES ...
    partitions          PARTITIONS
    keys                STATISTICS KEY_COLUMN_USAGE TABLE_CONSTRAINTS CHECK_CONSTRAINTS ...
    server              ENGINES COLLATIONS PROCESSLIST DDL_JOBS, CLUSTER_INFO, VARIABLES_INFO ...
                        USER_PRIVILEGES ... APPLICABLE_ROLES, AUTO_ANALYZE_QUEUE ANALYZE_STATUS
                        EXUVIA_CHANGE_LOGS EXUVIA_INSPECT_JOBS EXUVIA_INSPECT_ERRORS EXUVIA_UNDO
    placement           PLACEMENT_POLICIES ATTRIBUTES RESOURCE_GROUPS
    mysql_only          tables of MySQL 8 that TiDB does not have
    mysql_database      tables of `mysql`        performance_schema

A definition is a line of columns. `name` is text of 64 characters, `name:512` of more. `name#` is a
bigint, `name%` a double, `name@` a datetime, `name!` a datetime with microseconds.
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
    """Name and columns of a table, and the function that computes its rows."""

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
    tables_of_modules = (
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
        title.lower(): Definition(title, _columns(line), _chained(rows, own.get(title)))
        for title, line, rows in tables_of_modules
    }


# -- of the tables here ----------------------------------------------------------------------------

_HOME = DatabaseInfo(id=INFORMATION_SCHEMA_ID, db_name=name("information_schema"))
_COMPUTED = 1 << 62  # as in TiDB, ids of computed tables are greater than those of stored tables


def _chained(rows: Rows, own: Rows | None) -> Rows:
    if own is None:
        return rows
    return lambda context: chain(rows(context), own(context))


@cache
def computed_tables() -> tuple[TableInfo, ...]:
    """The tables of information_schema, by name."""
    ordered = sorted(definitions().values(), key=lambda definition: definition.name)
    return tuple(
        TableInfo(id=_COMPUTED + n, name=name(definition.name), cols=definition.columns)
        for n, definition in enumerate(ordered, 1)
    )


def _requested(context: Context) -> Iterator[TableInfo]:
    about = context.about
    if about.table_schema in (None, _HOME.db_name.L):
        yield from (
            computed
            for computed in computed_tables()
            if about.table_name in (None, computed.name.L)
        )


def _own_tables(context: Context) -> Iterator[Row]:
    for computed in _requested(context):
        yield tables.computed_table_row(_HOME, computed)


def _own_columns(context: Context) -> Iterator[Row]:
    for table in _requested(context):
        for n, column in enumerate(table.cols):
            yield tables.column_row(_HOME, table, column, n + 1, tables.PRIVILEGES)


# -- by their names --------------------------------------------------------------------------------


@cache
def _performance() -> dict[str, Definition]:
    return {
        title: Definition(title, _columns(line), rows)
        for title, line, rows in mysql_tables.PERFORMANCE_SCHEMA
    }


def performance_table(context: Context, table_name: str) -> VirtualTable | None:
    """A computed table of performance_schema, or None."""
    definition = _performance().get(table_name.lower())
    if definition is None:
        return None
    rows = definition.rows
    return VirtualTable(
        "performance_schema", definition.name, definition.columns, lambda: rows(context)
    )


def system_view(context: Context, table_name: str) -> VirtualTable | None:
    """A computed table of the database `mysql`, or None."""
    name = table_name.lower()
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


def table(context: Context, table_name: str) -> VirtualTable | None:
    """The computed table of that name, or None."""
    definition = definitions().get(table_name.lower())
    if definition is None:
        return None
    rows, facts = definition.rows, (definition.name, definition.columns)
    heeds = _heeds().get(definition.name, ())
    is_view = definition.name in mysql_tables.VIEWS
    return VirtualTable(
        "information_schema", *facts, lambda: rows(context), heeds=heeds, is_view=is_view
    )


@cache
def _heeds() -> dict[str, tuple[str, ...]]:
    about_tables = (*tables.TABLES, *tables.PARTITIONS, *tables.KEYS)
    return {
        **{listed[0]: ("table_schema", "table_name") for listed in about_tables},
        "DDL_JOBS": ("job_id",),
    }
