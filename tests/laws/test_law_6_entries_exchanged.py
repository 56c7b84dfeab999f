"""Law 6 for a backfill whose reads and writes are separate tasks: every interleaving of a small
world.

The world has two rows, two values, one index, and two transactions of one statement each. One key
range for each value. An owner's map tasks read a row each and spill it; its put tasks write one key
range each, one row at a time. A second owner may take over at any time and spills again. A spill
may be lost, a task may be repeated, and tasks of the first owner may run late.

    map 0, map 1 -> all spilled -> put range 0, put range 1 -> both finished -> PUBLIC

A breadth-first search visits every reachable world and stops at the first that breaks a law. Each
rule is also left out; the search must then find a broken law.
"""

from collections import deque
from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

import pytest

ROWS = VALUES = (0, 1)
TOMBSTONE = -1

RULES = {
    "barrier": "a put task starts after all rows are spilled",
    "spill exists": "a read row counts as long as its spill exists",
    "own element": "a finished key range is not taken for a finished part of the table",
    "complete": "the index becomes public after all key ranges are finished",
    "tombstone": "a removal leaves a tombstone before the index is public",
    "put if absent": "a put overwrites nothing",
    "epoch": "puts of an earlier owner, or of an ended reorg, are refused",
}

Row = tuple[int, str] | None  # value and version
Spilled = tuple[int, ...] | None  # value, () for a missing row; None: not spilled, or lost


class World(NamedTuple):
    public: bool
    owner: int
    rows: tuple[Row, ...]
    index: tuple[tuple[tuple[int, ...], int], ...]  # key to row number or TOMBSTONE
    transactions: tuple[object, ...]  # None, (row, value, image, planned while public), or "done"
    spills: tuple[tuple[Spilled, ...], ...]  # by owner and row
    counted: frozenset[int]  # rows that were read; used only without the rule "spill exists"
    puts: tuple[tuple[int, ...], ...]  # by owner and range: rows that are put
    finished: frozenset[int]  # key ranges
    accidents: int  # spills lost and tasks repeated
    failed: bool  # a duplicate was found


def key_of(unique: bool, value: int, row: int) -> tuple[int, ...]:
    return (value,) if unique else (value, row)


def replaced(values: tuple[object, ...], at: int, value: object) -> tuple[object, ...]:
    return (*values[:at], value, *values[at + 1 :])


def broken(w: World, unique: bool) -> str:
    live = {key: row for key, row in w.index if row != TOMBSTONE}
    expected = [(key_of(unique, row[0], n), n) for n, row in enumerate(w.rows) if row]
    if w.public and unique and len({key for key, _ in expected}) < len(expected):
        return "two rows with one key of a unique index"
    if w.public and any(live.get(key) != n for key, n in expected):
        return "a row without its entry in a public index"
    if any((key, n) not in expected for key, n in live.items()):
        return "an entry without its row"
    return ""


def committed(w: World, n: int, unique: bool, rules: set[str]) -> World | None:
    """Returns the world after transaction n, or None if the store refuses it."""
    number, value, image, planned_public = w.transactions[n]  # type: ignore[misc]
    if w.rows[number] != image:
        return None
    index = dict(w.index)
    if image:
        key = key_of(unique, image[0], number)
        is_own = index.get(key, number) in (number, TOMBSTONE)
        if is_own and not planned_public and "tombstone" in rules:
            index[key] = TOMBSTONE
        elif is_own:
            index.pop(key, None)
    if value is not None:
        key = key_of(unique, value, number)
        if unique and index.get(key, TOMBSTONE) not in (TOMBSTONE, number):
            return None  # 1062
        index[key] = number
    row = None if value is None else (value, f"t{n}")
    return w._replace(
        rows=replaced(w.rows, number, row),
        index=tuple(sorted(index.items())),
        transactions=replaced(w.transactions, n, "done"),
    )


def put(w: World, owner: int, part: int, unique: bool, rules: set[str]) -> World:
    """Returns the world after a put task's next row. The last one finishes the range."""
    number, index, failed = w.puts[owner][part], dict(w.index), w.failed
    spilled = w.spills[owner][number]
    if spilled and spilled[0] == part:
        key, row = key_of(unique, part, number), w.rows[number]
        present = index.get(key)
        if present is None or "put if absent" not in rules:
            index[key] = number
        elif unique and present != number and row and row[0] == part:  # judged with the rows
            if present == TOMBSTONE:
                index[key] = number
            else:
                failed = True
    puts = replaced(w.puts, owner, replaced(w.puts[owner], part, number + 1))
    is_last = number + 1 == len(ROWS)
    return w._replace(
        index=tuple(sorted(index.items())),
        puts=puts,
        failed=failed,
        finished=w.finished | {part} if is_last and not failed else w.finished,
    )


def tasks(w: World, unique: bool, rules: set[str]) -> Iterator[tuple[str, World]]:
    for owner in range(w.owner + 1):
        is_late = owner < w.owner or w.public
        counted = {n for n in ROWS if w.spills[owner][n] is not None}
        if "spill exists" not in rules:
            counted |= w.counted
        if "own element" not in rules:
            counted |= w.finished
        for n in ROWS:
            row, present = w.rows[n], w.spills[owner][n]
            spilled = (row[0],) if row else ()
            again = present is not None
            if (n in counted and not again) or (again and w.accidents) or w.public:
                continue
            if again and spilled == present:
                continue
            spills = replaced(w.spills, owner, replaced(w.spills[owner], n, spilled))
            after = w._replace(spills=spills, counted=w.counted | {n})
            yield f"owner {owner} reads row {n}", after._replace(accidents=w.accidents + again)
            if again:
                lost = replaced(w.spills, owner, replaced(w.spills[owner], n, None))
                yield f"spill {n} is lost", w._replace(spills=lost, accidents=w.accidents + 1)
        if is_late and "epoch" in rules:
            continue
        if "barrier" in rules and len(counted) < len(ROWS):
            continue
        for part in VALUES:
            is_due = is_late or part not in w.finished  # a late task began before that
            if is_due and w.puts[owner][part] < len(ROWS):
                if "spill exists" in rules and "barrier" in rules and "own element" in rules:
                    assert w.spills[owner][w.puts[owner][part]] is not None
                yield f"owner {owner} puts in range {part}", put(w, owner, part, unique, rules)


def neighbours(w: World, unique: bool, rules: set[str]) -> Iterator[tuple[str, World]]:
    if not w.public and w.owner == 0:
        yield "another owner", w._replace(owner=1)
    is_complete = len(w.finished) == len(VALUES) or (w.finished and "complete" not in rules)
    if not w.public and not w.failed and is_complete:
        yield "public", w._replace(public=True)
    yield from tasks(w, unique, rules)
    for n, transaction in enumerate(w.transactions):
        if transaction is None and None not in w.transactions[:n]:
            for row, value in product(ROWS, (None, *VALUES)):
                image = w.rows[row]
                if (image[0] if image else None) != value:
                    began = replaced(w.transactions, n, (row, value, image, w.public))
                    yield f"{n}: row {row} := {value}", w._replace(transactions=began)
        elif transaction not in (None, "done"):
            after = committed(w, n, unique, rules)
            if after is not None:
                yield f"{n} commits", after


def search(unique: bool, rules: set[str]) -> tuple[int, list[str]]:
    """Returns the number of worlds, and the history that breaks a law, or []."""
    nothing: tuple[tuple[Spilled, ...], ...] = ((None, None), (None, None))
    cause: dict[World, tuple[World, str] | None] = {}
    for values in ((0, 1), (0, 0)):
        rows = tuple(None if value is None else (value, "old") for value in values)
        first = World(
            False, 0, rows, (), (None, None), nothing, frozenset(), ((0, 0), (0, 0)),
            frozenset(), 0, False,
        )  # fmt: skip
        cause[first] = None
    waiting = deque(cause)
    while waiting:
        world = waiting.popleft()
        law = broken(world, unique)
        if law:
            history = [law]
            step = cause[world]
            while step is not None:
                history.append(step[1])
                step = cause[step[0]]
            return len(cause), history[::-1]
        for what, after in neighbours(world, unique, rules):
            if after not in cause:
                cause[after] = world, what
                waiting.append(after)
    return len(cause), []


@pytest.mark.parametrize("unique", [False, True], ids=["plain", "unique"])
def test_reads_and_writes_may_be_separate_tasks(unique: bool) -> None:
    worlds, history = search(unique, set(RULES))
    assert history == []
    assert worlds > 10_000


@pytest.mark.parametrize("unique", [False, True], ids=["plain", "unique"])
@pytest.mark.parametrize("rule", RULES)
def test_each_rule_is_needed(rule: str, unique: bool) -> None:
    _, history = search(unique, set(RULES) - {rule})
    assert history
