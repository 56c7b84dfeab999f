"""CREATE TEMPORARY TABLE, and what happens to one afterwards (sql/statement/temporary.py).

    CREATE, DROP     at once, in the session; an open transaction stays open
    TRUNCATE         the same table under a new id; ends an open transaction
    any other DDL    8200, as in TiDB

LIKE and AS SELECT are refused by TiDB and expected by users of MySQL: they are done. Foreign keys
are 1215, partitions 1562, and what is about regions of a cluster 8006.
"""

from collections.abc import Sequence

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import (
    ErrCannotAddForeign,
    ErrOptOnTemporaryTable,
    ErrPartitionNoTemporary,
    ErrTableExists,
    ErrUnsupportedDDLOperation,
)
from exuvia.catalog.model import LOCAL_TEMPORARY, DatabaseInfo, TableInfo, evolve
from exuvia.catalog.table import Table
from exuvia.ddl.actions.table import placed
from exuvia.sql import planner
from exuvia.sql.bind.zones import table_in
from exuvia.sql.nodes import CreateTable, TableName
from exuvia.sql.result import Note, Result
from exuvia.sql.schema.check import table_with_checks
from exuvia.sql.schema.create_select import columns_with, converted, row_of
from exuvia.sql.schema.jobs import database_named, noted
from exuvia.sql.schema.like import like_source
from exuvia.sql.schema.modes import modes_of
from exuvia.sql.schema.table_definition import Warn, table_info
from exuvia.sql.statement.context import Context, SessionApi
from exuvia.sql.statement.temporary import new_id
from exuvia.sql.write.insert import InsertTarget, RowInserter


def create_temporary(session: SessionApi, node: CreateTable, text: str) -> Result:
    """CREATE TEMPORARY TABLE [IF NOT EXISTS]. Raises 1050, 1215, 1562, 8006, all of
    define/table_definition.py, and what a query raises."""
    warnings: list[Note] = []

    def warn(code: int, said: str) -> None:
        warnings.append(Note("Warning", code, said))

    txn = session.services.store.begin()
    try:
        database = database_named(session, txn, node.table.db)
        source = None if node.like is None else like_source(session, txn, node)
    finally:
        txn.rollback()
    if temporary_named(session, TableName(node.table.name, database.db_name.O)) is not None:
        taken = ErrTableExists(f"{database.db_name.O}.{node.table.name}")
        if node.if_not_exists:
            return noted(taken)
        raise taken
    if node.query is not None:
        return _create_select(session, node, database, warn)
    _add(session, _info(session, node, database, warn, source), database)
    return Result(warnings=warnings)


def _info(
    session: SessionApi,
    node: CreateTable,
    database: DatabaseInfo,
    warn: Warn,
    source: TableInfo | None = None,
) -> TableInfo:
    if node.foreign_keys or any(column.references for column in node.columns):
        raise ErrCannotAddForeign()
    if source is None:
        modes = modes_of(session.variable, warn, warn)
        defined = table_info(node, database, warn, modes)
        info = table_in(defined, session.settings.zone, None)
        txn = session.services.store.begin()
        try:
            info = table_with_checks(txn, node, info, warn)
        finally:
            txn.rollback()
    else:
        info = source
    _refuse_what_it_cannot_have(info)
    return evolve(placed(info, new_id(), database.id), temp_table_type=LOCAL_TEMPORARY)


def _refuse_what_it_cannot_have(info: TableInfo) -> None:
    if info.partition is not None:
        raise ErrPartitionNoTemporary()
    for what, there in (
        ("auto_random", info.auto_random_bits),
        ("pre split regions", info.pre_split_regions),
        ("shard_row_id_bits", info.ShardRowIDBits),
    ):
        if there:
            raise ErrOptOnTemporaryTable(what)


def _add(session: SessionApi, info: TableInfo, database: DatabaseInfo) -> Table:
    temporary = session.temporary_tables()
    temporary.add(info, database)
    found = temporary.by_id(info.id)
    assert found is not None
    return found


def _create_select(
    session: SessionApi, node: CreateTable, database: DatabaseInfo, warn: Warn
) -> Result:
    query = node.query
    assert query is not None
    found = session.run(lambda context: planner.plan(query, context).run(context))
    defined = evolve(node, columns=columns_with(node, found.columns), query=None)
    table = _add(session, _info(session, defined, database, warn), database)
    policy = "replace" if node.replace else "ignore" if node.ignore else "insert"

    def fill(context: Context) -> Result:
        target = InsertTarget(table, tuple(column.name for column in found.columns))
        inserting = RowInserter(target, policy, context, None)
        for number, values in enumerate(converted(target, found), 1):
            inserting.add(row_of(context, target, values), number)
        return inserting.result(True)

    try:
        return session.run(fill)
    except Refused:
        session.temporary_tables().drop(table)
        raise


# -- what is done to one ---------------------------------------------------------------------------


def temporary_named(session: SessionApi, name: TableName) -> Table | None:
    """The session's temporary table of that name."""
    if session.temporary is None:
        return None
    return session.temporary.find(name.db or session.database, name.name)


def refuse_temporary(session: SessionApi, name: TableName, what: str) -> None:
    """8200 for a schema change of a temporary table."""
    if temporary_named(session, name) is not None:
        raise ErrUnsupportedDDLOperation(f"{what} for local temporary table")


def without_temporary(session: SessionApi, names: Sequence[TableName]) -> list[TableName]:
    """Drop those that are temporary; the names that are left."""
    found = [temporary_named(session, name) for name in names]
    for table in found:
        if table is not None:
            session.temporary_tables().drop(table)
    session.settle_temporary()
    return [name for name, table in zip(names, found, strict=True) if table is None]


def truncate_temporary(session: SessionApi, table: Table) -> Result:
    """TRUNCATE TABLE."""
    session.commit()
    temporary = session.temporary_tables()
    temporary.drop(table)
    temporary.add(evolve(table.info, id=new_id(), auto_inc_id=0), table.database)
    return Result()
