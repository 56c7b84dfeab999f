"""Law 1 of a multi-valued index: rows with several entries, or none, in the same pairs of states.

Two rows, elements 0 and 1: every database, every statement, every pair, by the writer and the
store. Entries come and go by their elements alone: an update leaves what both arrays have.
"""

from collections.abc import Iterator
from functools import cache
from itertools import product
from typing import Any, NamedTuple

import pytest

from exuvia.base.errors import Duplicate
from exuvia.base.types import FieldType, TypeCode
from exuvia.catalog import reader, writer
from exuvia.catalog.codec.key_codec import index_entries
from exuvia.catalog.model import DUTIES, DatabaseInfo, IndexColumn, SchemaState, evolve, name
from exuvia.catalog.table import Table, with_layout
from exuvia.ddl.action import compatible
from exuvia.ddl.elements import renumber
from exuvia.kv import keys
from exuvia.kv.memory import MemoryStore
from exuvia.kv.packet import LIVE, TOMBSTONE, WriteKind
from exuvia.kv.transaction import Transaction
from support.tables import EVALUATOR, PRIMARY, column, index, table

TOMB = -1
Array = tuple[int, ...] | None  # None: no row
VALUES: tuple[tuple[Array, ...], ...] = ((None, (), (0,), (1,), (0, 1)), (None, (0,)))
"""What each row may be."""
Key = tuple[int, ...]


class Small(NamedTuple):
    """One database: an array a row; key -> holder as in test_law_1_states_that_may_meet.py."""

    rows: tuple[Array, ...]
    index: frozenset[tuple[Key, int]]


class Statement(NamedTuple):
    """One row gets an array, or goes."""

    row: int
    value: Array


def key_of(element: int, row: int, unique: bool) -> Key:
    return (element,) if unique else (element, row)


def wanted(world: Small, unique: bool) -> set[tuple[Key, int]]:
    """The entries that the rows ask for."""
    return {
        (key_of(element, row, unique), row)
        for row, value in enumerate(world.rows)
        for element in value or ()
    }


def execute(world: Small, statement: Statement, state: SchemaState, unique: bool) -> Small:
    """The duty table, element by element; a duplicate changes nothing."""
    duty, found = DUTIES[state], dict(world.index)
    row, value = statement
    before, after = set(world.rows[row] or ()), set(value or ())
    for key in (key_of(each, row, unique) for each in sorted(before - after)):
        holder = found.get(key)
        if duty.removes and duty.entombs and (holder in (row, None) or not unique):
            found[key] = TOMB
        elif duty.removes and holder is not None and (holder == row or not unique):
            del found[key]
    for key in (key_of(each, row, unique) for each in sorted(after - before)):
        if duty.adds:
            if found.get(key, row) not in (row, TOMB):
                return world
            found[key] = row
        elif duty.removes and not unique:
            found.pop(key, None)
    rows = tuple(value if each == row else held for each, held in enumerate(world.rows))
    return Small(rows, frozenset(found.items()))


def origins(states: tuple[SchemaState, SchemaState], unique: bool) -> Iterator[Small]:
    """Databases that hold what both states promise before anybody acts."""
    complete = any(DUTIES[state].reads for state in states)
    for rows in product(*VALUES):
        held = wanted(Small(rows, frozenset()), unique)
        whole = len({key for key, _ in held}) == len(held)
        if whole and (complete or SchemaState.ABSENT not in states):
            yield Small(rows, frozenset(held))
        if not complete:
            yield Small(rows, frozenset())


def can_meet(one: SchemaState, other: SchemaState, unique: bool, run: Any) -> bool:
    """Whether no promise breaks whatever is done under both states."""
    states = (one, other)
    complete = any(DUTIES[state].reads for state in states)
    seen = set(origins(states, unique))
    todo = list(seen)
    while todo:
        world = todo.pop()
        live = {(key, holder) for key, holder in world.index if holder != TOMB}
        if live - wanted(world, unique) or (complete and wanted(world, unique) - live):
            return False
        for row, values in enumerate(VALUES):
            for value, state in product(values, states):
                if value == world.rows[row]:
                    continue
                after = run(world, Statement(row, value), state, unique)
                if after not in seen:
                    seen.add(after)
                    todo.append(after)
    return True


# -- by the writer and the store -------------------------------------------------------------------


@cache
def planned(state: SchemaState, unique: bool) -> Table:
    """t(id primary key, j JSON) with an index on CAST(j AS SIGNED ARRAY) in that state."""
    hidden = evolve(
        column("_V$_i_0"), hidden=True, generated_expr_string="cast(`j` as signed array)"
    )
    json = FieldType(Tp=TypeCode.JSON)
    columns = (column("id", PRIMARY), evolve(column("j"), type=json), evolve(hidden, type=json))
    info = table("t", *columns)
    columns = tuple(evolve(each, id=at + 1, offset=at) for at, each in enumerate(info.cols))
    array = FieldType(Tp=TypeCode.LONGLONG)
    part = IndexColumn(name=hidden.name, offset=2, exuvia_column=3, exuvia_array=array)
    made = evolve(index("i", "j", unique=unique), id=1, state=state, idx_cols=(part,))
    info = evolve(info, id=2, exuvia_db=1, cols=columns, index_info=(made,))
    database = DatabaseInfo(id=1, db_name=name("d"))
    return Table(with_layout(renumber(info)), 1, database, 1, EVALUATOR)


def row_of(t: Table, row: int, value: tuple[int, ...]) -> list[Any]:
    return t.virtual.fill([row, str(list(value)), None])


@cache
def stored(unique: bool) -> dict[Key, bytes]:
    """Model key -> store key."""
    t = planned(SchemaState.PUBLIC, unique)
    found = {}
    for row, element in product((0, 1), (0, 1)):
        handle = keys.i64(row)
        ((key, _),) = index_entries(t, t.info.indexes[0], row_of(t, row, (element,)), handle)
        found[key_of(element, row, unique)] = key
    return found


def execute_by_writer(
    world: Small, statement: Statement, state: SchemaState, unique: bool
) -> Small:
    store, t = MemoryStore(), planned(state, unique)
    txn = store.begin()
    txn.put(keys.revision(2), keys.number(1))
    txn.put(keys.database_revision(1), keys.number(1))
    for row, value in enumerate(world.rows):
        if value is not None:
            key = t.row_prefix + keys.i64(row)
            txn.put(key, t.encoder.encode(row_of(t, row, value)))
    for key, holder in world.index:
        live = LIVE + keys.i64(holder) if unique else LIVE
        txn.put(stored(unique)[key], TOMBSTONE if holder == TOMB else live)
    txn.commit()
    txn = store.begin()
    handle = keys.i64(statement.row)
    old = reader.get(txn, t, handle)
    try:
        if statement.value is None:
            writer.delete(txn, t, handle, old)
        elif old is None:
            writer.insert(txn, t, row_of(t, statement.row, statement.value))
        else:
            writer.update(txn, t, handle, old, row_of(t, statement.row, statement.value))
        txn.commit()
    except Duplicate:
        txn.rollback()
    return _seen(store, t, world, unique)


def _seen(store: MemoryStore, t: Table, world: Small, unique: bool) -> Small:
    txn = store.begin()
    rows = [reader.get(txn, t, keys.i64(row)) for row in range(len(VALUES))]
    found = []
    for key, place in stored(unique).items():
        payload = txn.get(place)
        if payload is not None:
            holder = keys.read_i64(payload[1:]) if unique and payload[1:] else key[-1]
            found.append((key, TOMB if payload == TOMBSTONE else holder))
    txn.rollback()
    arrays = {str(list(v)): v for values in VALUES for v in values if v is not None}
    return Small(tuple(row and arrays[row[1]] for row in rows), frozenset(found))


# -- what holds ------------------------------------------------------------------------------------

STATES = [state for state in SchemaState if state != SchemaState.REPLICA_ONLY]  # not partitions
PAIRS = list(product(STATES, repeat=2))


@pytest.mark.parametrize("unique", [False, True], ids=["plain", "unique"])
@pytest.mark.parametrize(
    "forgotten",
    [
        {WriteKind.ENTOMB, WriteKind.BURY},
        {WriteKind.REMOVE, WriteKind.RELEASE},
        {WriteKind.PLACE, WriteKind.CLAIM},
    ],
    ids=["a tombstone", "a removal", "an entry"],
)
def test_what_is_forgotten_of_one_of_several_entries_is_seen(
    forgotten, unique, monkeypatch: pytest.MonkeyPatch
):
    """A planted fault: a transaction does of its entries only the first."""
    honest = Transaction.write
    done = set()

    def write(txn, kind, key, payload):
        if kind not in forgotten or id(txn) not in done:
            honest(txn, kind, key, payload)
        done.update({id(txn)} if kind in forgotten else ())

    def run(world, statement, state, unique):
        done.clear()
        after = execute_by_writer(world, statement, state, unique)
        assert after == execute(world, statement, state, unique)
        return after

    monkeypatch.setattr(Transaction, "write", write)
    with pytest.raises(AssertionError):
        for pair in PAIRS:
            can_meet(*pair, unique, run)


@pytest.mark.parametrize("unique", [False, True], ids=["plain", "unique"])
def test_the_writer_keeps_each_element_as_the_duty_table_says(unique):
    """The same pairs may meet as where each row has one entry, and production code does what the
    model does in every world it reaches."""
    compared = 0

    @cache
    def run(world, statement, state, unique):
        nonlocal compared
        compared += 1
        after = execute_by_writer(world, statement, state, unique)
        assert after == execute(world, statement, state, unique), (world, statement, state.name)
        return after

    found = {pair: can_meet(*pair, unique, run) for pair in PAIRS}
    assert found == {pair: compatible(*pair) for pair in PAIRS}
    assert compared > 1_000
