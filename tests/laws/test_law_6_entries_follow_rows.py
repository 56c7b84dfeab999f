"""Law 6 for a rewrite whose entries are exchanged: every interleaving of a small world.

One row lacks a column that gets numbers, as AUTO_INCREMENT does: each attempt at the rewrite would
give it another one. Two transactions of one statement each; a writer fills the column of the row
that it writes. Two owners, two attempts each.

    attempt   reads the row -> commits it with its number -> spills its entry
              reads a row that has the column             -> spills its entry
    puts      one key range for each number, after the row is spilled -> both finished -> PUBLIC

A spill may be lost, an attempt may be late or repeated, and another owner may take over. A
breadth-first search visits every reachable world. Each rule is also left out; the search must then
find a broken law.
"""

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

import pytest

VALUES = ATTEMPTS = OWNERS = (0, 1)
TOMBSTONE, LIVE = -1, 1
LACKING = -1

RULES = {
    "after commit": "an entry is spilled after its row was committed, or read, with the column",
    "unchanged": "a rewrite is refused if the row has changed since it was read",
    "spill exists": "a rewritten row is read again if its spill is lost",
    "barrier": "puts begin after the row is spilled",
    "complete": "the index becomes public after all key ranges are finished",
    "tombstone": "a removal leaves a tombstone before the index is public",
    "put if absent": "a put overwrites nothing",
    "epoch": "commits of an earlier owner, or of an ended reorg, are refused",
}

Row = tuple[int, str] | None
"""Number, or LACKING, and version."""
Transaction = tuple[int | None, Row, bool]
"""New number, or None to remove the row; the row that was read; whether the index was public."""


class World(NamedTuple):
    public: bool
    owner: int
    row: Row
    index: tuple[tuple[int, int], ...]  # number to LIVE or TOMBSTONE
    transactions: tuple[Transaction | str | None, ...]
    read: tuple[tuple[str, ...], ...]  # by owner and attempt: the version that is to be written
    spills: tuple[tuple[int, ...] | None, ...]  # by owner
    rewritten: bool
    finished: frozenset[int]
    accidents: int


def changed(values: tuple[object, ...], at: int, value: object) -> tuple[object, ...]:
    return (*values[:at], value, *values[at + 1 :])


def broken(w: World) -> str:
    live = {number for number, state in w.index if state == LIVE}
    number = w.row[0] if w.row else LACKING
    if live - {number}:
        return "an entry without its row"
    if w.public and w.row and number not in live:
        return "a row without its entry in a public index"
    return ""


def attempts(w: World, owner: int, rules: set[str]) -> Iterator[tuple[str, World]]:
    """The steps of an owner's rewrite."""
    may_commit = (owner == w.owner and not w.public) or "epoch" not in rules
    for n in ATTEMPTS:
        name = f"owner {owner}, attempt {n}"
        version = w.read[owner][n]
        if not version and not w.public and (not n or w.accidents < 2):
            after = w._replace(accidents=w.accidents + bool(n))
            if w.row and w.row[0] == LACKING:
                read = changed(w.read, owner, changed(w.read[owner], n, w.row[1]))
                after = after._replace(read=read)
                if "after commit" not in rules:
                    after = after._replace(spills=changed(w.spills, owner, (n,)))
            else:
                spilled = (w.row[0],) if w.row else ()
                after = after._replace(spills=changed(w.spills, owner, spilled))
            yield f"{name} reads", after
        if version and may_commit:
            again = changed(w.read, owner, changed(w.read[owner], n, ""))
            is_same = w.row is not None and w.row[1] == version
            if w.row is not None and (is_same or "unchanged" not in rules):
                yield (
                    f"{name} commits and spills",
                    w._replace(
                        row=(n, f"r{owner}{n}"),
                        read=again,
                        spills=changed(w.spills, owner, (n,)),
                        rewritten=True,
                    ),
                )
            else:
                yield f"{name} is refused", w._replace(read=again)


def puts(w: World, owner: int, rules: set[str]) -> Iterator[tuple[str, World]]:
    spilled = w.spills[owner]
    is_late = owner < w.owner or w.public
    if is_late and "epoch" in rules:
        return
    counts_as_read = "barrier" not in rules or ("spill exists" not in rules and w.rewritten)
    if spilled is None and not counts_as_read:
        return
    for number in VALUES:
        if number in w.finished and not is_late:
            continue
        index = dict(w.index)
        if number in (spilled or ()) and (number not in index or "put if absent" not in rules):
            index[number] = LIVE
        after = w._replace(index=tuple(sorted(index.items())), finished=w.finished | {number})
        yield f"owner {owner} puts range {number}", after


def committed(w: World, n: int, rules: set[str]) -> World | None:
    """Returns the world after transaction n, or None if the store refuses it."""
    transaction = w.transactions[n]
    assert isinstance(transaction, tuple)
    number, row, planned_public = transaction
    if w.row != row:
        return None
    index = dict(w.index)
    if row and row[0] != LACKING:
        if planned_public or "tombstone" not in rules:
            index.pop(row[0], None)
        else:
            index[row[0]] = TOMBSTONE
    if number is not None:
        index[number] = LIVE
    return w._replace(
        row=None if number is None else (number, f"t{n}"),
        index=tuple(sorted(index.items())),
        transactions=changed(w.transactions, n, "done"),
    )


def neighbours(w: World, rules: set[str]) -> Iterator[tuple[str, World]]:
    if not w.public and w.owner == 0:
        yield "another owner", w._replace(owner=1)
    is_complete = len(w.finished) == len(VALUES) or (w.finished and "complete" not in rules)
    if not w.public and is_complete:
        yield "public", w._replace(public=True)
    for owner in range(w.owner + 1):
        yield from attempts(w, owner, rules)
        yield from puts(w, owner, rules)
        if w.spills[owner] is not None and w.accidents < 2:
            lost = changed(w.spills, owner, None)
            yield "the spill is lost", w._replace(spills=lost, accidents=w.accidents + 1)
    for n, transaction in enumerate(w.transactions):
        if transaction is None and None not in w.transactions[:n]:
            for number in (None, *VALUES):
                if (w.row[0] if w.row else None) != number:
                    began = changed(w.transactions, n, (number, w.row, w.public))
                    yield f"{n}: number := {number}", w._replace(transactions=began)
        elif isinstance(transaction, tuple):
            after = committed(w, n, rules)
            if after is not None:
                yield f"{n} commits", after


def search(rules: set[str]) -> tuple[int, list[str]]:
    """Returns the number of worlds, and the history that breaks a law, or []."""
    first = World(
        False, 0, (LACKING, "old"), (), (None, None), (("", ""), ("", "")), (None, None),
        False, frozenset(), 0,
    )  # fmt: skip
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


def test_entries_may_be_put_long_after_their_rows() -> None:
    worlds, history = search(set(RULES))
    assert history == []
    assert worlds > 10_000


@pytest.mark.parametrize("rule", RULES)
def test_each_rule_is_needed(rule: str) -> None:
    _, history = search(set(RULES) - {rule})
    assert history
