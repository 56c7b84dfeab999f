"""SHOW and DESCRIBE: lists of what the snapshot and the session hold, in MySQL's columns.

KINDS   words of the statement -> the function that answers
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from exuvia.base.mysql_errors import (
    ErrEventDoesNotExist,
    ErrNoDB,
    ErrNotSupportedYet,
    ErrSpDoesNotExist,
    ErrTrgDoesNotExist,
    MySQLError,
)
from exuvia.catalog.model import ColumnInfo, DatabaseInfo, TableInfo, ViewInfo, evolve
from exuvia.catalog.sysvar import variables
from exuvia.catalog.table import Table
from exuvia.sql.access.choose import shown_indexes
from exuvia.sql.bind.zones import column_in, table_in
from exuvia.sql.information_schema.mysql_tables import status_rows
from exuvia.sql.information_schema.registry import definitions
from exuvia.sql.information_schema.server import character_sets, collations, engines, processes_seen
from exuvia.sql.information_schema.tables import (
    PRIVILEGES,
    Sizes,
    kind_of,
    next_auto,
    next_random,
    options_text,
    row_count,
)
from exuvia.sql.nodes import TableName
from exuvia.sql.nodes.session import Describe, Show
from exuvia.sql.result import BIGINT, OutputColumn, Result, Row
from exuvia.sql.show import create as show_objects
from exuvia.sql.show import statistics as show_statistics
from exuvia.sql.show.create import (
    constraint_lines,
    create_database_text,
    create_table_text,
    created_sequence,
    created_view,
)
from exuvia.sql.show.grants import privilege_rows
from exuvia.sql.show.listing import columns_of, listing
from exuvia.sql.statement.context import Context, VirtualTable
from exuvia.sql.type_text import (
    default_text,
    expression_of,
    extra_text,
    is_text,
    key_text,
    type_text,
)


class Named(NamedTuple):
    """A name in a list of tables, its kind, and the table unless it is computed."""

    name: str
    kind: str
    table: TableInfo | None


def _database(context: Context, name: str | None) -> DatabaseInfo:
    wanted = context.database_of(name or "")
    hidden = context.session.rights.hidden(wanted)
    if hidden is not None:
        raise hidden
    return context.session.services.schemas.database(context.txn, wanted)


def _named(context: Context, database: DatabaseInfo) -> Iterator[Named]:
    if database.db_name.L == "information_schema":
        for each in definitions().values():
            yield Named(each.name, "SYSTEM VIEW", None)
    rights = context.session.rights
    for table in context.session.services.schemas.tables(context.txn, database.db_name.O):
        if not rights.everything and not rights.sees_table(database.db_name.O, table.name.O):
            continue
        yield Named(table.name.O, kind_of(database, table), table)


def tables(context: Context, node: Show) -> Result:
    """SHOW [FULL] TABLES."""
    database = _database(context, node.database)
    title = f"Tables_in_{database.db_name.O}"
    if node.like is not None:
        title += f" ({node.like})"
    columns = [OutputColumn(title, columns_of("x")[0].type)]
    rows: list[Row] = [[each.name, each.kind] for each in _named(context, database)]
    if node.full:
        columns += columns_of("Table_type")
    else:
        rows = [row[:1] for row in rows]
    return listing(context, columns, sorted(rows), node.like, node.where)


_STATUS = (
    "Name Engine Version# Row_format Rows# Avg_row_length# Data_length# Max_data_length#"
    " Index_length# Data_free# Auto_increment# Create_time@ Update_time@ Check_time@ Collation"
    " Checksum# Create_options Comment:2048"
)


def table_status(context: Context, node: Show) -> Result:
    """SHOW TABLE STATUS."""
    database = _database(context, node.database)
    rows = []
    for each in _named(context, database):
        if each.table is None:
            continue
        if each.table.view is not None:
            rows.append([each.name, *[None] * 16, "VIEW"])
            continue
        facts: Row = [each.name, "InnoDB", 10, "Compact", row_count(context, each.table)]
        size = Sizes(context, each.table, facts[4])
        facts += [size.of_a_row, size.of_rows, 0, size.of_indexes, 0]
        facts += [next_auto(context, each.table), None, None, None, each.table.collate, None]
        rows.append([*facts, options_text(each.table), each.table.comment])
    return listing(context, columns_of(_STATUS), rows, node.like, node.where)


def _table(context: Context, name: TableName | None) -> TableInfo | VirtualTable:
    found = _named_table(context, name)
    if isinstance(found, VirtualTable) or found.view is None or name is None:
        return found
    return _view(context, context.table(name.db or "", name.name), found.view)


def _named_table(context: Context, name: TableName | None) -> TableInfo | VirtualTable:
    """As `_table`, and a view as it was made."""
    if name is None:
        raise ErrNoDB()
    database = context.database_of(name.db or "")
    virtual = context.virtual(database, name.name)
    return virtual if virtual is not None else context.table(database, name.name).info


def _view(context: Context, table: Table, view: ViewInfo) -> TableInfo:
    """A view with the columns its query has now. Raises 1356."""
    from exuvia.sql.select.build import Build
    from exuvia.sql.select.from_clause import plain_type, planned_view
    from exuvia.sql.select.query import plan_query

    planned = planned_view(table, view, Build(context, plan_query))
    pairs = zip(table.info.cols, planned.columns, strict=True)
    columns = tuple(evolve(own, type=plain_type(shown.type)) for own, shown in pairs)
    return evolve(table.info, cols=columns)


def columns(context: Context, node: Show) -> Result:
    """SHOW [FULL] COLUMNS, DESCRIBE."""
    found = _table(context, node.table)
    infos = found.columns if isinstance(found, VirtualTable) else found.public_columns
    infos = tuple(column_in(each, None, context.zone) for each in infos)
    line = "Field Type:65535 Null Key Default:65535 Extra"
    if node.full:
        line = "Field Type:65535 Collation Null Key Default:65535 Extra Privileges Comment:1024"
    rows = [_column(each, node.full) for each in infos]
    return listing(context, columns_of(line), rows, node.like, node.where)


def _column(column: ColumnInfo, full: bool) -> Row:
    facts: Row = ["NO" if column.not_null else "YES", key_text(column)]
    facts += [default_text(column), extra_text(column)]
    head: Row = [column.name.O, type_text(column.type)]
    if not full:
        return [*head, *facts]
    collate = column.type.Collate if is_text(column.type) else None
    return [*head, collate, *facts, PRIVILEGES, column.comment]


_INDEX = (
    "Table Non_unique# Key_name Seq_in_index# Column_name Collation Cardinality# Sub_part#"
    " Packed Null Index_type Comment Index_comment:1024 Visible Expression Clustered Global"
)


def indexes(context: Context, node: Show) -> Result:
    """SHOW INDEX."""
    found = _table(context, node.table)
    rows: list[Row] = []
    for index in () if isinstance(found, VirtualTable) else shown_indexes(found):
        clustered = "YES" if index.exuvia_clustered else "NO"
        for n, part in enumerate(index.idx_cols):
            column = found.cols[part.offset] if isinstance(found, TableInfo) else None
            null = "" if column is not None and column.not_null else "YES"
            row: Row = [found.name.O if isinstance(found, TableInfo) else found.name]
            text = expression_of(found, part) if isinstance(found, TableInfo) else None
            row += [0 if index.is_unique else 1, index.idx_name.O, n + 1]
            row += [part.name.O if text is None else None, "A", 0]
            row += [part.length if part.length > 0 else None, None, null, "BTREE", ""]
            row += [index.comment, "NO" if index.is_invisible else "YES", text, clustered, "NO"]
            rows.append(row)
    return listing(context, columns_of(_INDEX), rows, node.like, node.where)


def create_table(context: Context, node: Show) -> Result:
    """SHOW CREATE TABLE."""
    found = _named_table(context, node.table)
    if isinstance(found, TableInfo) and not found.is_stored:
        return created_view(found) if found.view is not None else created_sequence(found)
    if isinstance(found, VirtualTable):
        body = ",\n".join(f"  `{c.name.O}` {type_text(c.type)} DEFAULT NULL" for c in found.columns)
        options = "ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin"
        name, text = found.name, f"CREATE TABLE `{found.name}` (\n{body}\n) {options}"
    else:
        name = found.name.O
        text = create_table_text(
            table_in(found, None, context.zone),
            next_auto(context, found) or next_random(context, found),
            constraint_lines(context, found),
        )
    return Result(columns_of("Table ~Create_Table:65535"), [[name, text]])


# -- show ------------------------------------------------------------------------------------------

Shower = Callable[[Context, Show], Result]


def show(context: Context, node: Show) -> Result:
    """SHOW. Raises 1235 for a kind that is not done."""
    shower = KINDS.get(node.kind)
    if shower is None:
        raise ErrNotSupportedYet(f"SHOW {node.kind.upper()}")
    result = shower(context, node)
    if node.limit is not None:
        offset, count = node.limit
        result.rows = result.rows[offset : offset + count]
    return result


def describe(context: Context, node: Describe) -> Result:
    """DESCRIBE table [column or pattern]."""
    return columns(context, Show(kind="columns", table=node.table, like=node.pattern))


def _databases(context: Context, node: Show) -> Result:
    databases = context.session.services.schemas.databases(context.txn)
    rights = context.session.rights
    shown = [each for each in databases if rights.lists_database(each.db_name.O)]
    names = sorted(each.db_name.O for each in shown)
    title = f"Database ({node.like})" if node.like is not None else "Database"
    columns = [OutputColumn(title, columns_of("x")[0].type)]
    return listing(context, columns, [[each] for each in names], node.like, node.where)


def _create_database(context: Context, node: Show) -> Result:
    info = context.session.services.schemas.database(context.txn, node.database or "")
    columns = columns_of("Database ~Create_Database:1024")
    return Result(columns, [[info.db_name.O, create_database_text(info, node.if_not_exists)]])


def _variables(context: Context, node: Show) -> Result:
    if node.scope == "global":
        texts = variables.all_globals(context.txn)
    else:
        texts = context.session.texts()
    rows = [[name, texts[name]] for name in sorted(texts)]
    return listing(context, columns_of("Variable_name Value:1024"), rows, node.like, node.where)


def _status(context: Context, node: Show) -> Result:
    rows = status_rows(context)
    return listing(context, columns_of("Variable_name Value:1024"), rows, node.like, node.where)


def _warnings(context: Context, node: Show) -> Result:
    notes = context.session.warnings
    if node.kind == "errors":
        notes = [note for note in notes if note.level == "Error"]
    if node.count:
        title = "@@session.error_count" if node.kind == "errors" else "@@session.warning_count"
        result = Result([OutputColumn(title, BIGINT)], [[len(notes)]])
    else:
        result = Result(columns_of("Level Code# Message:1024"), [list(note) for note in notes])
    result.warnings = context.session.warnings
    return result


def _processlist(context: Context, node: Show) -> Result:
    columns = columns_of("Id# User Host db Command Time# State Info:65535")
    most = None if node.full else 100
    rows: list[Row] = [
        [*each[:3], each.database or None, *each[4:7], each.info[:most] or None]
        for each in processes_seen(context)
    ]
    return Result(columns, rows)


def _engines(context: Context, node: Show) -> Result:
    columns = columns_of("Engine Support Comment:80 Transactions XA Savepoints")
    return listing(context, columns, engines(context), node.like, node.where)


def _charsets(context: Context, node: Show) -> Result:
    mine = context.variable("default_collation_for_utf8mb4")
    rows = [
        [name, text, mine if name == "utf8mb4" else collate, n]
        for name, collate, text, n in character_sets(context)
    ]
    columns = columns_of("Charset Description ~Default_collation Maxlen#")
    return listing(context, columns, rows, node.like, node.where)


def _collations(context: Context, node: Show) -> Result:
    columns = columns_of("Collation Charset Id# Default Compiled Sortlen# Pad_attribute")
    mine = context.variable("default_collation_for_utf8mb4")
    rows: list[Row] = []
    for row in collations(context):
        if row[1] == "utf8mb4":
            row = [*row[:3], "Yes" if row[0] == mine else "", *row[4:]]
        rows.append(list(row))
    return listing(context, columns, rows, node.like, node.where)


def _in_flight(context: Context, node: Show) -> Result:
    return Result([OutputColumn("HistogramsInFlight", BIGINT)], [[0]])


def _empty(line: str) -> Shower:
    def shower(context: Context, node: Show) -> Result:
        rows: Iterable[Row] = ()
        return listing(context, columns_of(line), rows, node.like, node.where)

    return shower


def _missing(unknown: MySQLError, *words: str) -> Shower:
    """There are no such objects: whatever is named does not exist."""

    def shower(context: Context, node: Show) -> Result:
        assert node.table is not None
        shown = node.table.name if node.table.db is None else f"{node.table.db}.{node.table.name}"
        raise unknown(*words, shown) if unknown is not ErrTrgDoesNotExist else unknown()

    return shower


def _privileges(context: Context, node: Show) -> Result:
    columns = columns_of("Privilege Context Comment:255")
    return listing(context, columns, privilege_rows(), node.like, node.where)


_ROUTINES = (
    "Db Name Type Definer Modified@ Created@ Security_type Comment:1024 character_set_client"
    " collation_connection ~Database_Collation"
)

KINDS: dict[str, Shower] = {
    "databases": _databases,
    "histograms_in_flight": _in_flight,
    "create sequence": show_objects.create_sequence,
    "create view": show_objects.create_view,
    "create database": _create_database,
    "variables": _variables,
    "status": _status,
    "warnings": _warnings,
    "errors": _warnings,
    "processlist": _processlist,
    "engines": _engines,
    "character set": _charsets,
    "collation": _collations,
    "tables": tables,
    "table status": table_status,
    "columns": columns,
    "index": indexes,
    "create table": create_table,
    "open tables": _empty("Database Table In_use# Name_locked#"),
    "plugins": _empty("Name Status Type Library License"),
    "privileges": _privileges,
    "procedure status": _empty(_ROUTINES),
    "function status": _empty(_ROUTINES),
    "triggers": _empty(
        "Trigger Event Table Statement:65535 Timing Created@ sql_mode:8192 Definer"
        " character_set_client collation_connection ~Database_Collation"
    ),
    "events": _empty(
        "Db Name Definer ~Time_zone Type ~Execute_At@ ~Interval_Value ~Interval_Field Starts@"
        " Ends@ Status Originator# character_set_client collation_connection"
        " ~Database_Collation"
    ),
    "profiles": _empty("Query_ID# Duration Query:1024"),
    "bindings": _empty(
        "Original_sql:65535 Bind_sql:65535 Default_db Status Create_time@ Update_time@ Charset"
        " Collation Source Sql_digest Plan_digest"
    ),
    "master status": _empty("File Position# Binlog_Do_DB Binlog_Ignore_DB Executed_Gtid_Set:1024"),
    "binary log": _empty("File Position# Binlog_Do_DB Binlog_Ignore_DB Executed_Gtid_Set:1024"),
    "binary logs": _empty("Log_name File_size# Encrypted"),
    "master logs": _empty("Log_name File_size# Encrypted"),
    "binary log status": _empty(
        "File Position# Binlog_Do_DB Binlog_Ignore_DB Executed_Gtid_Set:1024"
    ),
    "binlog events": _empty("Log_name Pos# Event_type Server_id# End_log_pos# Info:1024"),
    "relaylog events": _empty("Log_name Pos# Event_type Server_id# End_log_pos# Info:1024"),
    "replicas": _empty("Server_Id# Host Port# Source_Id# Replica_UUID"),
    "slave hosts": _empty("Server_id# Host Port# Master_id# Slave_UUID"),
    "profile": _empty("Status Duration%"),
    "create procedure": _missing(ErrSpDoesNotExist, "PROCEDURE"),
    "create function": _missing(ErrSpDoesNotExist, "FUNCTION"),
    "create trigger": _missing(ErrTrgDoesNotExist),
    "create event": _missing(ErrEventDoesNotExist),
    "replica status": _empty("Replica_IO_State"),
    "slave status": _empty("Slave_IO_State"),
    "engine innodb": _empty("Type Name Status:65535"),
    **show_statistics.KINDS,
}
