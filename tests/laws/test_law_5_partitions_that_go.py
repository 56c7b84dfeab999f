"""Entries of a global unique index while a partition is dropped or truncated: every interleaving of
a small world.

World: one key, at most one row of it in each partition, p0 that goes and p1 (of TRUNCATE also n0,
which takes p0's place); two transactions of one statement each, planned with the state of their
snapshot or with the one before; an owner who walks the states; the cleaning.

    reader          rows of the partitions that his plan reads; by the index, what its entry names
    writer          puts a row (1062 where the key is another's, unless that is dead) or removes it
    commit          refused if the row changed or the plan is two states behind; the entry is judged
                    there: one of a dead partition is released first, then the key is claimed

A law is broken where a reader of this state or of the one before finds other rows by the index than
without it, or two under one key; and where the job has ended and an entry names what has gone.

Each rule can be left out by name, and the world notices.
"""

from collections import deque
from itertools import product
from typing import NamedTuple

import pytest

from exuvia.catalog.model import (
    DROPPING,
    TRUNCATING,
    PartitionDefinition,
    PartitionInfo,
    PartitionType,
    SchemaState,
    name,
)
from exuvia.ddl.actions import ACTIONS
from exuvia.ddl.job import ActionCode

P0, P1, N0 = "p0", "p1", "n0"
NOTHING = None
STATES = (
    SchemaState.PUBLIC,
    SchemaState.WRITE_ONLY,
    SchemaState.DELETE_ONLY,
    SchemaState.DELETE_REORG,
    SchemaState.ABSENT,
)
CLEANING, ENDED = 3, 4
RULES = frozenset(
    {
        "fence",  # a commit is refused when the state is more than one ahead of its plan
        "known",  # readers leave out what names a partition that their plan does not read
        "dead late",  # an entry counts as absent once no plan that uses its partition is left
        "judged",  # what an entry's removal and a claim meet is judged at the commit
        "clean late",  # entries are removed once no plan that uses their partition is left
        "clean",  # the job ends when they are removed
    }
)


class Shape(NamedTuple):
    """What a plan of each state reads and writes, and which entries count as absent for it."""

    uses: tuple[frozenset[str], ...]
    dead: tuple[frozenset[str], ...]


def shape_of(truncates: bool, rules: frozenset[str]) -> Shape:
    old, new = frozenset({P0, P1}), frozenset({N0, P1} if truncates else {P1})
    first = 2 if truncates else 1  # the first state whose plans do not use p0
    from_ = first + 1 if "dead late" in rules else first
    dead = tuple(frozenset({P0} if from_ <= n < ENDED else ()) for n in range(5))
    return Shape(tuple(old if n < first else new for n in range(5)), dead)


class World(NamedTuple):
    state: int
    rows: tuple[tuple[str, int], ...]  # (partition, version) of those that are there
    entry: str | None
    txns: tuple[object, ...]  # None, an open one, or "done"
    cleaned: bool


class Open(NamedTuple):
    puts: bool
    part: str
    plan: int
    image: int  # version of the row, 0: none
    over: str | None  # the dead entry that is released first


def broken(world: World, shape: Shape, rules: frozenset[str]) -> str:
    for plan in {world.state, max(world.state - 1, 0)}:
        seen = {part for part, _ in world.rows if part in shape.uses[plan]}
        known = world.entry in shape.uses[plan] or "known" not in rules
        by_index = {world.entry} if world.entry is not NOTHING and known else set()
        if len(seen) > 1:
            return f"a reader of state {plan} sees two rows with one key"
        if by_index != seen:
            return f"a reader of state {plan} finds {by_index} by the index, {seen} without"
    if world.state == ENDED and world.entry == P0:
        return "the job has ended, and an entry names the partition that has gone"
    return ""


def commit(world: World, n: int, txn: Open, rules: frozenset[str]) -> World | None:
    if "fence" in rules and world.state - txn.plan > 1:
        return None
    rows = dict(world.rows)
    if rows.get(txn.part, 0) != txn.image:
        return None
    entry = world.entry
    if txn.puts:
        if "judged" in rules and entry not in (NOTHING, txn.part, txn.over):
            return None  # 1062 at the commit
        rows[txn.part], entry = n + 2, txn.part
    else:
        del rows[txn.part]
        if entry == txn.part or "judged" not in rules:
            entry = NOTHING
    done = tuple("done" if at == n else each for at, each in enumerate(world.txns))
    return world._replace(rows=tuple(sorted(rows.items())), entry=entry, txns=done)


def neighbours(world: World, shape: Shape, rules: frozenset[str]):
    may_end = world.cleaned or "clean" not in rules
    if world.state < CLEANING or (world.state == CLEANING and may_end):
        yield f"owner: {STATES[world.state + 1].name}", world._replace(state=world.state + 1)
    first = CLEANING if "clean late" in rules else 1
    if first <= world.state <= CLEANING and not world.cleaned:
        left = NOTHING if world.entry == P0 else world.entry
        yield "clean", world._replace(entry=left, cleaned=True)
    for n, txn in enumerate(world.txns):
        if isinstance(txn, Open):
            after = commit(world, n, txn, rules)
            if after is not None:
                yield f"txn {n} commits", after
        if txn is not None:
            continue
        for plan in {world.state, max(world.state - 1, 0)}:
            for part, puts in product(sorted(shape.uses[plan]), (True, False)):
                image = dict(world.rows).get(part, 0)
                if puts == bool(image):
                    continue
                held = world.entry if puts else NOTHING
                over = held if held in shape.dead[plan] else NOTHING
                if held is not NOTHING and over is NOTHING:
                    continue  # 1062 at the statement
                begun = Open(puts, part, plan, image, over)
                txns = tuple(begun if at == n else each for at, each in enumerate(world.txns))
                what = f"txn {n} {'puts' if puts else 'removes'} {part}, plans {plan}"
                yield what, world._replace(txns=txns)


def search(truncates: bool, rules: frozenset[str] = RULES) -> tuple[int, str]:
    """How many worlds there are, and the shortest history that breaks a law."""
    shape = shape_of(truncates, rules)
    starts = [World(0, ((part, 1),), part, (None, None), False) for part in (P0, P1)]
    starts.append(World(0, (), NOTHING, (None, None), False))
    cause: dict[World, tuple[World, str] | None] = dict.fromkeys(starts)
    queue = deque(cause)
    while queue:
        world = queue.popleft()
        law = broken(world, shape, rules)
        if law:
            history, at = [law], cause[world]
            while at is not None:
                history.append(at[1])
                at = cause[at[0]]
            return len(cause), " < ".join(history)
        for what, after in neighbours(world, shape, rules):
            if after not in cause:
                cause[after] = world, what
                queue.append(after)
    return len(cause), ""


@pytest.mark.parametrize("truncates", [False, True])
def test_no_two_states_that_meet_give_a_wrong_answer(truncates: bool) -> None:
    worlds, found = search(truncates)
    assert not found
    assert worlds > 300


@pytest.mark.parametrize("truncates", [False, True])
@pytest.mark.parametrize("rule", sorted(RULES))
def test_each_rule_is_needed(rule: str, truncates: bool) -> None:
    _, found = search(truncates, RULES - {rule})
    assert found, f"without {rule!r} nothing is noticed"


@pytest.mark.parametrize(("truncates", "action"), [(False, DROPPING), (True, TRUNCATING)])
def test_the_catalog_says_what_the_model_does(truncates: bool, action: int) -> None:
    """The states, and from which one on entries are dead."""
    walked = ACTIONS[ActionCode(action)]
    steps = [*walked.path, *walked.post_commit]
    assert (*(step.source for step in steps), steps[-1].target) == STATES
    shape = shape_of(truncates, RULES)
    gone = PartitionDefinition(id=7, name=name(P0))
    for n, state in enumerate(STATES[1:-1], 1):
        info = PartitionInfo(
            type=PartitionType.RANGE,
            dropping_definitions=(gone,),
            ddl_action=action,
            ddl_state=state,
        )
        assert bool(info.dead) == bool(shape.dead[n]), state
