"""Every small database with one index, and what statements of two schema states make of it.

a world     rows (0 or 1 for each of two rows, or none), and the index: key -> holder
            plain key (value, row), unique key (value,); a holder is a row or TOMB
a statement row := value, or none; planned with one of two states
"""

from collections.abc import Callable, Iterator
from itertools import product
from typing import NamedTuple

from exuvia.catalog.state import DUTIES, SchemaState

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
