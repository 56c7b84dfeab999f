"""Law 5 for a move whose copies are exchanged: every interleaving of a small world.

A row has a new key, its value. The new set has its copy under that key, and an entry. Two
transactions of one statement each write both sets, and after the switch the new one alone. One that
leaves the value as it is leaves the entry to the move if the row has a copy. Two owners: each reads
the row and spills its copy and its entry, then puts the copies of each key range, then the entries.

    spill -> all spilled -> rows of range 0, 1 -> all finished -> entries of range 0, 1 -> switch

A put requires that the source row is unchanged since it was spilled; otherwise the row is read
again, and what it needs now is put, in whatever range that is. A spill may be lost, a task may be
late, and another owner may take over. A breadth-first search visits every reachable world. Each
rule is also left out; the search must then find a broken law.
"""

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

import pytest

VALUES = (0, 1)
RANGES = tuple((kind, value) for kind in ("row", "entry") for value in VALUES)

RULES = {
    "required": "a put is refused if the source row has changed since it was spilled",
    "read again": "after a refusal the row as it is now is put",
    "barrier": "puts begin after the row is spilled",
    "rows first": "entries are put after all rows, because writers take a row without copy for new",
    "complete": "readers switch after all key ranges are finished",
    "epoch": "puts of an earlier owner, or of an ended move, are refused",
}

Row = tuple[int, str] | None
"""Value and version."""


class World(NamedTuple):
    switched: bool
    owner: int
    row: Row  # in the old set
    truth: int | None  # what clients have written
    copy: int | None
    entries: frozenset[int]
    transactions: tuple[object, ...]  # None, (new value, row, copy, switched), or "done"
    spills: tuple[tuple[Row] | None, ...]  # by owner; (None,): there was no row
    finished: frozenset[tuple[str, int]]
    accidents: int
    fault: str


def changed(values: tuple[object, ...], at: int, value: object) -> tuple[object, ...]:
    return (*values[:at], value, *values[at + 1 :])


def broken(w: World) -> str:
    if w.fault or not w.switched:
        return w.fault
    if w.copy != w.truth:
        return "readers find another row in the new set"
    if w.entries != frozenset([] if w.truth is None else [w.truth]):
        return "the entries of the new set are not those of its rows"
    return ""


def put(w: World, owner: int, part: tuple[str, int], rules: set[str]) -> World:
    """Returns the world after a put task of a key range."""
    after = w._replace(finished=w.finished | {part})
    spill = w.spills[owner]
    row = spill[0] if spill else None
    kind, value = part
    if row is None or row[0] != value:
        return after
    if w.row != row and "required" in rules:
        if w.row is None or "read again" not in rules:
            return after
        value = w.row[0]
    if kind == "entry":
        return after._replace(entries=w.entries | {value})
    if w.copy not in (None, value):
        return after._replace(fault="another row's copy is in the way")
    return after._replace(copy=value)


def tasks(w: World, owner: int, rules: set[str]) -> Iterator[tuple[str, World]]:
    is_late = owner < w.owner or w.switched
    if not w.switched and (w.spills[owner] is None or w.accidents < 2):
        again = w.spills[owner] is not None
        spills = changed(w.spills, owner, (w.row,))
        yield f"owner {owner} spills", w._replace(spills=spills, accidents=w.accidents + again)
        if again:
            lost = changed(w.spills, owner, None)
            yield "the spill is lost", w._replace(spills=lost, accidents=w.accidents + 1)
    if is_late and "epoch" in rules:
        return
    if w.spills[owner] is None and "barrier" in rules:
        return
    rows_are_put = all(("row", value) in w.finished for value in VALUES)
    for part in RANGES:
        if part in w.finished and not is_late:
            continue
        if part[0] == "row" or rows_are_put or "rows first" not in rules:
            yield f"owner {owner} puts {part}", put(w, owner, part, rules)


def committed(w: World, n: int) -> World | None:
    """Returns the world after transaction n, or None if the store refuses it."""
    value, row, copy, switched = w.transactions[n]  # type: ignore[misc]
    if w.copy != copy or (w.row != row and not switched) or w.switched != switched:
        return None
    entries = w.entries
    if copy != value or copy is None:
        if copy is not None:  # without a copy, the new set has nothing of the row
            entries -= {copy}
        if value is not None:
            entries |= {value}
    new = None if value is None else (value, f"t{n}")
    return w._replace(
        row=w.row if switched else new,
        truth=value,
        copy=value,
        entries=entries,
        transactions=changed(w.transactions, n, "done"),
    )


def neighbours(w: World, rules: set[str]) -> Iterator[tuple[str, World]]:
    if not w.switched and w.owner == 0:
        yield "another owner", w._replace(owner=1)
    rows = {part for part in RANGES if part[0] == "row"}
    is_complete = w.finished == set(RANGES) or ("complete" not in rules and rows <= w.finished)
    if not w.switched and is_complete:
        yield "switch", w._replace(switched=True)
    for owner in range(w.owner + 1):
        yield from tasks(w, owner, rules)
    for n, transaction in enumerate(w.transactions):
        if transaction is None and None not in w.transactions[:n]:
            for value in (None, *VALUES):
                if value is not None or w.truth is not None:
                    began = changed(w.transactions, n, (value, w.row, w.copy, w.switched))
                    yield f"{n}: value := {value}", w._replace(transactions=began)
        elif transaction not in (None, "done"):
            after = committed(w, n)
            if after is not None:
                yield f"{n} commits", after


def search(rules: set[str]) -> tuple[int, list[str]]:
    """Returns the number of worlds, and the history that breaks a law, or []."""
    first = World(
        False, 0, (0, "old"), 0, None, frozenset(), (None, None), (None, None), frozenset(), 0, ""
    )
    cause: dict[World, tuple[World, str] | None] = {first: None}
    waiting = deque(cause)
    while waiting:
        world = waiting.popleft()
        law = broken(world)
        if law:
            history = [law]
            step = cause[world]
            while step is not None:
                history.append(step[1])
                step = cause[step[0]]
            return len(cause), history[::-1]
        for what, after in neighbours(world, rules):
            if after not in cause:
                cause[after] = world, what
                waiting.append(after)
    return len(cause), []


def test_copies_may_be_put_long_after_they_were_read() -> None:
    worlds, history = search(set(RULES))
    assert history == []
    assert worlds > 10_000


@pytest.mark.parametrize("rule", RULES)
def test_each_rule_is_needed(rule: str) -> None:
    _, history = search(set(RULES) - {rule})
    assert history
