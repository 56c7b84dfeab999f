"""CHECK, OPTIMIZE ... TABLE, in MySQL's columns, SPLIT TABLE in TiDB's, and DO."""

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import ErrNotSupportedYet
from exuvia.sql import constants
from exuvia.sql.context import Context
from exuvia.sql.nodes import TableName
from exuvia.sql.nodes.session import AdminCheckTable, Do, TableMaintenance
from exuvia.sql.result import Result, Row
from exuvia.sql.session.running import Running
from exuvia.sql.show import admin
from exuvia.sql.show.listing import columns_of

_COLUMNS = "Table Op Msg_type Msg_text:1024"


def maintain(session: Running, node: TableMaintenance, text: str) -> Result:
    """CHECK TABLE compares indexes with rows.

    OPTIMIZE, REPAIR and SPLIT have nothing to do: a table is one run of keys in one store."""
    if node.kind == "split":
        admin.existing_table(session, node.tables[0])
        return Result(columns_of("TOTAL_SPLIT_REGION# SCATTER_FINISH_RATIO#"), [[0, 1]])
    if node.kind == "checksum":
        raise ErrNotSupportedYet("CHECKSUM TABLE")
    rows = [row for table in node.tables for row in _maintain(session, node.kind, table)]
    return Result(columns_of(_COLUMNS), rows)


def _maintain(session: Running, kind: str, table: TableName) -> list[Row]:
    shown = f"{table.db or session.database}.{table.name}"
    try:
        if kind == "check":
            admin.check_table(session, AdminCheckTable((table,)), "")
        else:
            admin.existing_table(session, table)
    except Refused as error:
        return [[shown, kind, "Error", error.message], [shown, kind, "status", "Operation failed"]]
    if kind in ("optimize", "repair"):
        return [[shown, kind, "note", "Nothing to do: rows and indexes need no upkeep"]]
    return [[shown, kind, "status", "OK"]]


def do(context: Context, node: Do) -> Result:
    """DO: evaluate and forget."""
    for tree in node.expressions:
        constants.evaluate(tree, context)
    return Result()
