"""TTL of a table: the jobs of ALTER TABLE, and the options of a new table.

The checks are TiDB's (ddl/actions/ttl.py; the job there repeats them).
"""

import json

from exuvia.base.mysql_errors import ErrUnsupportedTTLReferencedByFK, ErrWrongValue
from exuvia.catalog import meta
from exuvia.catalog.model import TIME_UNITS, DatabaseInfo, TableInfo, TtlInfo, evolve, name
from exuvia.catalog.ttl import amount_of
from exuvia.ddl import requests
from exuvia.ddl.actions.ttl import AlterTtlArgs, changed, misfit
from exuvia.ddl.job import Job
from exuvia.sql.functions.moment import add
from exuvia.sql.nodes import CreateTable
from exuvia.sql.schema.change import AlterContext, SchemaReader
from exuvia.sql.schema.placement import check_members

OPTIONS = ("ttl", "ttl_enable", "ttl_job_interval")


def _arguments(options: dict[str, str], moment: int) -> AlterTtlArgs:
    """The TTL options. Raises 1525 for an interval that exceeds the range of dates."""
    ttl = None
    if "ttl" in options:
        column, literal, unit = json.loads(options["ttl"])
        ttl = TtlInfo(
            column=name(column),
            interval_expr=literal,
            interval_time_unit=TIME_UNITS.index(unit),
        )
        if add(moment, amount_of(ttl), unit, -1) is None:
            raise ErrWrongValue(unit, literal.strip("'"))
    enabled = options.get("ttl_enable")
    return AlterTtlArgs(ttl, None if enabled is None else enabled == "ON", options.get(OPTIONS[2]))


def with_ttl(
    reader: SchemaReader, database: DatabaseInfo, node: CreateTable, info: TableInfo
) -> TableInfo:
    """The new table with its TTL options. Raises 8148, 8150 to 8153, 1054, 1525, 8200."""
    if not any(option in node.options for option in OPTIONS):
        check_new(reader, database, info)
        return info
    info = changed(info, _arguments(node.options, reader.moment()))
    check_new(reader, database, info)
    for key in node.foreign_keys:
        home = (key.reference.table.db or database.db_name.O).lower()
        if (home, key.reference.table.name.lower()) == (database.db_name.L, info.name.L):
            raise ErrUnsupportedTTLReferencedByFK()  # the table refers to itself
    return info


def check_new(reader: SchemaReader, database: DatabaseInfo, info: TableInfo) -> None:
    """Check the TTL of a new table. Raises 1054, 8148, 8151 to 8153, 8200."""
    if info.exuvia_ttl is None:
        return
    check_members(reader.txn, "TTL")
    error = misfit(info)
    if error is not None:
        raise error
    for waiting in meta.waiting_for(reader.txn, database.db_name.L, info.name.L):
        child = meta.child_of(reader.txn, waiting.link)
        if child and reader.schemas.table_by_id(reader.txn, child) is not None:
            raise ErrUnsupportedTTLReferencedByFK()  # a foreign key waits for this table


def alter_ttl(at: AlterContext, options: dict[str, str]) -> Job:
    """ALTER TABLE t TTL, TTL_ENABLE, TTL_JOB_INTERVAL. Raises the errors of `with_ttl`."""
    arguments = _arguments(options, at.reader.moment())
    later = changed(meta.with_children(at.txn, at.table), arguments)
    check_members(at.txn, "TTL")
    error = misfit(later)
    if error is not None and arguments.ttl is not None:
        raise error
    return requests.alter_ttl(at.database, at.table, arguments, query=at.text)


def remove_ttl(at: AlterContext, value: str) -> Job | None:
    """ALTER TABLE t REMOVE TTL; None if the table has no TTL."""
    if at.table.exuvia_ttl is None:
        return None
    return requests.remove_ttl(at.database, at.table, query=at.text)


def without_ttl(info: TableInfo) -> TableInfo:
    """The table without its TTL, for a temporary table LIKE it."""
    return info if info.exuvia_ttl is None else evolve(info, exuvia_ttl=None)
