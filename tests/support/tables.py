"""Small tables for tests, without DDL: infos from the static notation, states set by hand."""

from exuvia.catalog.model import DatabaseInfo, TableInfo, evolve, name
from exuvia.catalog.state import SchemaState
from exuvia.catalog.system_tables import table as static_table
from exuvia.catalog.table import Table
from exuvia.kv import keys as k
from exuvia.kv.store import Store

DATABASE = DatabaseInfo(id=90, db_name=name("test"))
JOB = 77


def table_info(*lines: str, table_id: int = 100, title: str = "t", **parts: object) -> TableInfo:
    """A public table; see catalog/system_tables.py."""
    return static_table(table_id, title, *lines, database_id=DATABASE.id, **parts)  # type: ignore[arg-type]


def with_states(info: TableInfo, **states: SchemaState) -> TableInfo:
    """The table with indexes (by name) in other states."""
    indexes = tuple(
        evolve(index, state=states.get(index.idx_name.L, index.state)) for index in info.indexes
    )
    return evolve(info, index_info=indexes)


def publish(store: Store, info: TableInfo, revision: int) -> Table:
    """The table at a revision, which the store shows from now on."""
    txn = store.begin()
    txn.put(k.revision(info.id), k.number(revision))
    txn.put(k.database_revision(DATABASE.id), k.number(1))
    txn.commit()
    return Table(info, revision, DATABASE, 1)


def begin_reorg(store: Store, epoch: int, job_id: int = JOB) -> None:
    """Set a reorg's epoch."""
    txn = store.begin()
    txn.put(k.meta("reorg", job_id), k.number(epoch))
    txn.commit()
