"""Law 1: which two schema states may live side by side, found by trying everything.

Two rows, two values, one index, plain and unique: every database, every statement, every pair.

    a world      rows (0 or 1 for each of two rows, or none), and the index: key -> holder
                 plain key (value, row), unique key (value,); a holder is a row or TOMB
    a statement  row := value, or none; planned with one of two states

`execute` does a statement by the duty table alone, `execute_by_writer` by the writer and the store.
"""

from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise, product
from typing import NamedTuple

import pytest

from exuvia.base.errors import Broken, Duplicate
from exuvia.catalog import reader, writer
from exuvia.catalog.model import DUTIES, DatabaseInfo, SchemaState, evolve, name
from exuvia.catalog.table import Table, with_layout
from exuvia.ddl.action import Action, Step, compatible, load
from exuvia.ddl.actions import ACTIONS
from exuvia.ddl.elements import INDEX, renumber
from exuvia.ddl.job import ActionCode
from exuvia.kv import keys
from exuvia.kv.memory import MemoryStore
from exuvia.kv.packet import LIVE, TOMBSTONE
from support.tables import PRIMARY, column, index, only_entry, table

ROWS, VALUES, TOMB = (0, 1), (0, 1), -1
Key = tuple[int, ...]


class Small(NamedTuple):
    """One database; hashable."""

    rows: tuple[int | None, ...]
    index: frozenset[tuple[Key, int]]


class Statement(NamedTuple):
    """One row gets a value, or goes."""

    row: int
    value: int | None


Execute = Callable[[Small, Statement, SchemaState, bool], Small]


def key_of(value: int, row: int, unique: bool) -> Key:
    """Where the entry of a row stands."""
    return (value,) if unique else (value, row)


def wanted(world: Small, unique: bool) -> set[tuple[Key, int]]:
    """The entries that the rows ask for."""
    return {
        (key_of(value, row, unique), row)
        for row, value in enumerate(world.rows)
        if value is not None
    }


def live(world: Small) -> set[tuple[Key, int]]:
    """Entries that are not tombstones."""
    return {(key, holder) for key, holder in world.index if holder != TOMB}


def statements(world: Small) -> Iterator[Statement]:
    """Everything a client can do to one row."""
    for row, value in product(ROWS, (None, *VALUES)):
        if world.rows[row] != value:
            yield Statement(row, value)


def execute(world: Small, statement: Statement, state: SchemaState, unique: bool) -> Small:
    """The duty table and the store's judgement as a model; a duplicate changes nothing."""
    duty, index = DUTIES[state], dict(world.index)
    row, value = statement
    old = world.rows[row]
    if old is not None and duty.removes:
        key = key_of(old, row, unique)
        holder = index.get(key)
        if duty.entombs and (holder in (row, None) or not unique):
            index[key] = TOMB
        elif holder is not None and (holder == row or not unique):
            del index[key]
    if value is not None and duty.removes and not duty.adds and not unique:
        index.pop(key_of(value, row, unique), None)
    if value is not None and duty.adds:
        key = key_of(value, row, unique)
        if index.get(key, row) not in (row, TOMB):
            return world
        index[key] = row
    rows = tuple(value if each == row else held for each, held in enumerate(world.rows))
    return Small(rows, frozenset(index.items()))


def origins(states: tuple[SchemaState, SchemaState], unique: bool) -> Iterator[Small]:
    """Databases that hold what both states promise before anybody acts."""
    complete = any(DUTIES[state].reads for state in states)
    for rows in product((None, *VALUES), repeat=len(ROWS)):
        entries = wanted(Small(rows, frozenset()), unique)
        whole = len({key for key, _ in entries}) == len(entries)
        if complete:
            if whole:
                yield Small(rows, frozenset(entries))
            continue
        yield Small(rows, frozenset())
        if SchemaState.ABSENT not in states and whole:
            yield Small(rows, frozenset(entries))


def can_meet(
    one: SchemaState, other: SchemaState, unique: bool, run: Execute = execute
) -> tuple[bool, int]:
    """(whether no promise breaks whatever is done under both states, worlds visited)."""
    states = (one, other)
    complete = any(DUTIES[state].reads for state in states)
    seen = set(origins(states, unique))
    todo = list(seen)
    while todo:
        world = todo.pop()
        orphans = live(world) - wanted(world, unique)
        missing = wanted(world, unique) - live(world)
        if orphans or (complete and missing):
            return False, len(seen)
        for statement in statements(world):
            for state in states:
                after = run(world, statement, state, unique)
                if after not in seen:
                    seen.add(after)
                    todo.append(after)
    return True, len(seen)


# -- the same statements by the writer and the store -----------------------------------------------

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
        key_of(value, row, unique): only_entry(t, t.info.indexes[0], [row, value], keys.i64(row))[0]
        for row in ROWS
        for value in VALUES
    }


def execute_by_writer(
    world: Small, statement: Statement, state: SchemaState, unique: bool
) -> Small:
    """By the writer and the store."""
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


# -- what holds ------------------------------------------------------------------------------------

ABSENT, DELETE_ONLY, WRITE_ONLY = (
    SchemaState.ABSENT,
    SchemaState.DELETE_ONLY,
    SchemaState.WRITE_ONLY,
)
WRITE_REORG, DELETE_REORG, PUBLIC = (
    SchemaState.WRITE_REORG,
    SchemaState.DELETE_REORG,
    SchemaState.PUBLIC,
)
OF_ROWS = [state for state in SchemaState if state != SchemaState.REPLICA_ONLY]  # not partitions
PAIRS = list(product(OF_ROWS, repeat=2))


@pytest.mark.parametrize("unique", [False, True], ids=["plain", "unique"])
def test_the_relation_is_the_one_that_trying_everything_finds(unique):
    found = {pair: can_meet(*pair, unique)[0] for pair in PAIRS}
    assert found == {pair: compatible(*pair) for pair in PAIRS}


@pytest.mark.parametrize("unique", [False, True], ids=["plain", "unique"])
def test_the_writer_and_the_store_do_what_the_relation_needs(unique):
    """The same search, each statement done by production code; what it made is the model's too."""
    compared = 0

    @cache
    def run(world, statement, state, unique):
        nonlocal compared
        compared += 1
        after = execute_by_writer(world, statement, state, unique)
        assert after == execute(world, statement, state, unique), (world, statement, state.name)
        return after

    found = {pair: can_meet(*pair, unique, run)[0] for pair in PAIRS}
    assert found == {pair: compatible(*pair) for pair in PAIRS}
    assert compared > 500


def test_the_search_is_not_trivial():
    visited = [can_meet(*pair, unique)[1] for pair in PAIRS for unique in (False, True)]
    apart = [pair for pair in PAIRS if not compatible(*pair)]
    assert len(visited) == 72 and sum(visited) > 3_000
    assert len(apart) == 10


@pytest.mark.parametrize("action", ACTIONS.values(), ids=lambda action: action.label)
def test_every_action_walks_through_neighbours_that_may_meet(action):
    steps = [(step.source, step.target) for step in action.path]
    if action.undo:
        steps += [
            (reached, action.undo.step_from(reached).target)
            for reached in (step.target for step in action.path[:-1])
        ]
    if action.element.follows_rows:
        for unique in (False, True):
            assert [pair for pair in steps if not can_meet(*pair, unique)[0]] == []


def path(*states):
    return tuple(Step(a, b) for a, b in pairwise(states))


@pytest.mark.parametrize(
    "bad",
    [
        path(ABSENT, WRITE_ONLY, WRITE_REORG, PUBLIC),
        path(ABSENT, DELETE_ONLY, PUBLIC),
        path(ABSENT, DELETE_ONLY, WRITE_ONLY, PUBLIC),
        path(PUBLIC, DELETE_ONLY, ABSENT),
        path(PUBLIC, WRITE_ONLY, ABSENT),
        path(ABSENT, DELETE_ONLY, WRITE_ONLY),
        (Step(ABSENT, DELETE_ONLY), Step(WRITE_ONLY, WRITE_REORG), Step(WRITE_REORG, PUBLIC)),
    ],
    ids=lambda bad: ">".join(step.target.name for step in bad),
)
def test_a_bad_table_of_steps_is_rejected_when_it_is_loaded(bad):
    with pytest.raises(Broken):
        load(Action(ActionCode.ADD_INDEX, INDEX, bad))


def test_an_undo_that_cannot_be_entered_is_rejected():
    add = path(ABSENT, DELETE_ONLY, WRITE_ONLY, WRITE_REORG, PUBLIC)
    undo = Action(ActionCode.DROP_INDEX, INDEX, path(PUBLIC, WRITE_ONLY))
    with pytest.raises(Broken):
        load(Action(ActionCode.ADD_INDEX, INDEX, add, undo=undo))
