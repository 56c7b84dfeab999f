"""The small worlds of state_worlds.py; a statement is done by the writer and the store."""

from functools import cache

from exuvia.base.errors import Duplicate
from exuvia.catalog import reader, writer
from exuvia.catalog.codec import key_codec
from exuvia.catalog.model import DatabaseInfo, evolve, name
from exuvia.catalog.state import SchemaState
from exuvia.catalog.table import Table, with_layout
from exuvia.ddl.elements import renumber
from exuvia.kv import keys
from exuvia.kv.memory import MemoryStore
from exuvia.kv.packet import LIVE, TOMBSTONE
from support.small_tables import PRIMARY, column, index, table
from support.state_worlds import ROWS, TOMB, VALUES, Small, Statement, key_of

DATABASE = DatabaseInfo(id=1, db_name=name("d"))


@cache
def planned(state: SchemaState, unique: bool) -> Table:
    """t(id primary key, a) with one index on a in that state."""
    info = table("t", column("id", PRIMARY), column("a"))
    columns = tuple(evolve(each, id=at + 1, offset=at) for at, each in enumerate(info.cols))
    part = evolve(index("i", "a").idx_cols[0], exuvia_column=2)
    the_index = evolve(index("i", "a", unique=unique), id=1, state=state, idx_cols=(part,))
    info = evolve(info, id=2, exuvia_db=1, cols=columns, index_info=(the_index,))
    return Table(with_layout(renumber(info)), 1, DATABASE, 1)


@cache
def entries(unique: bool) -> dict[tuple[int, ...], bytes]:
    """Model key -> store key."""
    t = planned(SchemaState.PUBLIC, unique)
    return {
        key_of(value, row, unique): key_codec.index_key(
            t, t.info.indexes[0], [row, value], keys.i64(row)
        )[0]
        for row in ROWS
        for value in VALUES
    }


def execute(world: Small, statement: Statement, state: SchemaState, unique: bool) -> Small:
    """As state_worlds.execute, by production code."""
    store, t = MemoryStore(), planned(state, unique)
    _prepare(store, world, t, unique)
    txn = store.begin()
    handle = keys.i64(statement.row)
    old = reader.get(txn, t, handle)
    new = [statement.row, statement.value]
    try:
        if statement.value is None:
            writer.delete(txn, t, handle, old)
        elif old is None:
            writer.insert(txn, t, new)
        else:
            writer.update(txn, t, handle, old, new)
        txn.commit()
    except Duplicate:
        txn.rollback()
    return _seen(store, t, unique)


def _prepare(store: MemoryStore, world: Small, t: Table, unique: bool) -> None:
    txn = store.begin()
    txn.put(keys.revision(2), keys.number(1))
    txn.put(keys.database_revision(1), keys.number(1))
    for row, value in enumerate(world.rows):
        if value is not None:
            txn.put(t.row_prefix + keys.i64(row), t.encoder.encode([row, value]))
    for key, holder in world.index:
        live = LIVE + keys.i64(holder) if unique else LIVE
        txn.put(entries(unique)[key], TOMBSTONE if holder == TOMB else live)
    txn.commit()


def _seen(store: MemoryStore, t: Table, unique: bool) -> Small:
    txn = store.begin()
    rows = [reader.get(txn, t, keys.i64(row)) for row in ROWS]
    index_ = []
    for key, stored in entries(unique).items():
        payload = txn.get(stored)
        if payload is not None:
            holder = keys.read_i64(payload[1:]) if unique and payload[1:] else key[-1]
            index_.append((key, TOMB if payload == TOMBSTONE else holder))
    txn.rollback()
    return Small(tuple(row and row[1] for row in rows), frozenset(index_))
