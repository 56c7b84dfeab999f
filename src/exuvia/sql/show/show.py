"""SHOW and DESCRIBE: lists of what the snapshot and the session hold, in MySQL's columns.

KINDS   words of the statement -> the function that answers
"""

from collections.abc import Callable, Iterable

from exuvia.base.mysql_errors import (
    ErrEventDoesNotExist,
    ErrNotSupportedYet,
    ErrSpDoesNotExist,
    ErrTrgDoesNotExist,
    MySQLError,
)
from exuvia.catalog.sysvar import variables
from exuvia.sql.information_schema.mysql_tables import status_rows
from exuvia.sql.information_schema.server import character_sets, collations, engines, processes_seen
from exuvia.sql.nodes.session import Describe, Show
from exuvia.sql.result import BIGINT, OutputColumn, Result, Row
from exuvia.sql.show import create as show_objects
from exuvia.sql.show import statistics as show_statistics
from exuvia.sql.show import tables as show_tables
from exuvia.sql.show.create import create_database_text
from exuvia.sql.show.grants import privilege_rows
from exuvia.sql.show.listing import columns_of, listing
from exuvia.sql.statement.context import Context

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
    return show_tables.columns(context, Show(kind="columns", table=node.table, like=node.pattern))


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
    "tables": show_tables.tables,
    "table status": show_tables.table_status,
    "columns": show_tables.columns,
    "index": show_tables.indexes,
    "create table": show_tables.create_table,
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
