"""Law 1 for evidence in another table: a parent, its child and a schema change, all interleavings.

    world        one value; a row or none in either table; indexes u1, u2 on the parent's value and
                 i1, i2 on the child's; the mark beside the parent; three transactions, one
                 statement each
    schedule     what each step of the change leaves: both revisions, the states of the indexes, who
                 has which duty of the key

A statement plans and reads in one snapshot, takes its evidence from it, and requires it at commit:

    insert child    an entry of the parent's first public index, or its row, is there    that key
    delete parent   the child's first public index, or its rows, is empty               the mark

The search is breadth first, so the history of what breaks is the shortest one. `RULES` can be left
out by name. A fill is one step here, and what a removal leaves behind is nothing: `state_worlds`
is about those.
"""

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from exuvia.catalog.state import DUTIES, SchemaState

ABSENT, DELETE_ONLY, WRITE_ONLY = (
    SchemaState.ABSENT,
    SchemaState.DELETE_ONLY,
    SchemaState.WRITE_ONLY,
)
WRITE_REORG, PUBLIC, DELETE_REORG = (
    SchemaState.WRITE_REORG,
    SchemaState.PUBLIC,
    SchemaState.DELETE_REORG,
)
PARENT, CHILD = 0, 1
TRANSACTIONS = 3
STATEMENTS = ("insert child", "delete child", "insert parent", "delete parent")

RULES = frozenset(
    {
        "fence",  # a commit validates the revision of the table it wrote
        "parent's fence",  # ... and of the parent its evidence is from
        "child's fence",  # ... and of the child where it saw none
        "key unchanged",  # the parent's key that was found is as it was
        "mark",  # a child leaves a mark, which whoever removes its parent requires unchanged
        "public index",  # evidence is from an index that is PUBLIC in the plan
    }
)


class Schema(NamedTuple):
    """What a statement plans with. `indexes`: u1, u2, i1, i2."""

    revisions: tuple[int, int] = (0, 0)
    indexes: tuple[SchemaState, ...] = (PUBLIC, PUBLIC, PUBLIC, PUBLIC)
    child_owes: bool = True  # a child's writer finds its parent and leaves a mark
    parent_owes: bool = True  # a parent's writer looks for children
    holds: bool = True  # no child may be without its parent
    child_exists: bool = True
    lives: tuple[int, int] = (0, 0)  # of either table: another one after a truncation
    scans: bool = False  # the step that follows has seen every row, and found no orphan


Schedule = tuple[Schema, ...]


class Running(NamedTuple):
    """A transaction that has read: its statement, the step it plans with, what it expects."""

    statement: str
    step: int
    row: int | None  # version of the row it writes
    key: int | None = (
        None  # where the parent was found: the position of an index, or -1 for the row
    )
    version: int | None = None  # of that key, or of the mark


class World(NamedTuple):
    """Versions: who wrote it, None if absent; -1 was there before anybody."""

    step: int
    rows: tuple[int | None, int | None]
    entries: tuple[int | None, ...]
    mark: int | None
    scanned: bool
    running: tuple[Running | str | None, ...]


def moved(before: Schema, parent: int = 0, child: int = 0, **changes: object) -> Schema:
    """The next step: revisions moved by so much."""
    one, other = before.revisions
    return before._replace(revisions=(one + parent, other + child), **changes)  # type: ignore[arg-type]


def _index_walks(position: int, *states: SchemaState) -> Schedule:
    """One index through these states, the others public."""
    indexes = list(Schema().indexes)
    indexes[position] = states[0]
    found = [Schema(indexes=tuple(indexes))]
    for state in states[1:]:
        indexes[position] = state
        side = {"parent": 1} if position < 2 else {"child": 1}
        found.append(moved(found[-1], **side, indexes=tuple(indexes)))
    return tuple(found)


def _adding_a_key(*steps: dict[str, object]) -> Schedule:
    found = [Schema(child_owes=False, parent_owes=False, holds=False)]
    for step in steps:
        found.append(moved(found[-1], 1, 1, **step))
    return tuple(found)


_DOWN = (PUBLIC, WRITE_ONLY, DELETE_ONLY, DELETE_REORG, ABSENT)
_UP = (ABSENT, DELETE_ONLY, WRITE_ONLY, WRITE_REORG, PUBLIC)
_LAST = {"holds": True, "scans": False}

ADD_KEY = _adding_a_key(
    {"child_owes": True},
    {"parent_owes": True},
    {"scans": True},
    _LAST,
)
ADD_KEY_AT_ONCE = _adding_a_key(
    {"child_owes": True, "parent_owes": True},
    {"scans": True},
    _LAST,
)
"""Both sides begin in one step: who removes a parent may look before every child leaves a mark."""

_NO_CHILD = Schema(child_exists=False, parent_owes=False)

SCHEDULES: dict[str, Schedule] = {
    "nothing changes": (Schema(),),
    "drop index of parent": _index_walks(0, *_DOWN),
    "drop index of child": _index_walks(2, *_DOWN),
    "add index of parent": _index_walks(0, *_UP),
    "add index of child": _index_walks(2, *_UP),
    "add foreign key": ADD_KEY,
    "drop foreign key": (
        Schema(),
        moved(Schema(), 1, 1, child_owes=False, parent_owes=False, holds=False),
    ),
    "create child": (
        _NO_CHILD,
        moved(_NO_CHILD, 1, 1, parent_owes=True),
        moved(moved(_NO_CHILD, 1, 1), 1, 1, parent_owes=True, child_exists=True),
    ),
    "truncate parent": (Schema(), moved(Schema(), 1), moved(Schema(), 3, lives=(1, 0))),
    "truncate child": (Schema(), moved(Schema(), 0, 1), moved(Schema(), 0, 3, lives=(0, 1))),
}


class Found(NamedTuple):
    """How many worlds were visited, and the shortest history that leaves an orphan, if any."""

    worlds: int
    history: tuple[str, ...] | None


def search(schedule: Schedule, rules: frozenset[str] = RULES) -> Found:
    """Visit every world that can be reached."""
    starts = [
        _start(schedule[0], parent, child) for parent in (True, False) for child in (True, False)
    ]
    cause: dict[World, tuple[World, str] | None] = {
        world: None for world in starts if not _is_broken(world, schedule)
    }
    queue = deque(cause)
    while queue:
        world = queue.popleft()
        if _is_broken(world, schedule):
            return Found(len(cause), _history(cause, world))
        for what, after in _following(world, schedule, rules):
            if after not in cause:
                cause[after] = world, what
                queue.append(after)
    return Found(len(cause), None)


def _history(cause: dict[World, tuple[World, str] | None], world: World) -> tuple[str, ...]:
    found: list[str] = []
    while (before := cause[world]) is not None:
        world, what = before
        found.append(what)
    return tuple(reversed(found))


def _start(schema: Schema, parent: bool, child: bool) -> World:
    rows = (-1 if parent else None, -1 if child and schema.child_exists else None)
    entries = tuple(
        rows[_side(n)] if DUTIES[state].reads else None for n, state in enumerate(schema.indexes)
    )
    mark = rows[CHILD] if schema.child_owes else None
    return World(0, rows, entries, mark, False, (None,) * TRANSACTIONS)


def _side(index: int) -> int:
    return PARENT if index < 2 else CHILD


def _is_broken(world: World, schedule: Schedule) -> bool:
    return (
        schedule[world.step].holds and world.rows[CHILD] is not None and world.rows[PARENT] is None
    )


def _following(
    world: World, schedule: Schedule, rules: frozenset[str]
) -> Iterator[tuple[str, World]]:
    yield from _owner(world, schedule)
    for n, running in enumerate(world.running):
        if running is None:
            for statement in STATEMENTS:
                begun = _begin(world, schedule[world.step], statement, rules)
                if begun is not None:
                    yield f"{n} {statement} at step {world.step}", _with(world, n, begun)
        elif isinstance(running, Running):
            after = _commit(world, n, running, schedule, rules)
            if after is not None:
                yield f"{n} commits", _with(after, n, "done")


def _with(world: World, n: int, running: Running | str) -> World:
    return world._replace(running=(*world.running[:n], running, *world.running[n + 1 :]))


def _owner(world: World, schedule: Schedule) -> Iterator[tuple[str, World]]:
    schema = schedule[world.step]
    orphan = world.rows[CHILD] is not None and world.rows[PARENT] is None
    if schema.scans and not world.scanned and not orphan:
        yield "owner has read every row", world._replace(scanned=True)
    if world.step + 1 < len(schedule) and (world.scanned or not schema.scans):
        after = schedule[world.step + 1]
        if after.lives[PARENT] > schema.lives[PARENT] and world.rows[CHILD] is not None:
            return  # with foreign_key_checks=OFF: whoever does that wants the orphans
        yield f"owner: step {world.step + 1}", _stepped(world, schema, after)
    if any(
        state == ABSENT and world.entries[n] is not None for n, state in enumerate(schema.indexes)
    ):
        kept = tuple(
            None if state == ABSENT else entry
            for state, entry in zip(schema.indexes, world.entries, strict=True)
        )
        yield "what a dropped index left is emptied", world._replace(entries=kept)


def _stepped(world: World, before: Schema, after: Schema) -> World:
    rows, entries, mark = list(world.rows), list(world.entries), world.mark
    for side in (PARENT, CHILD):
        if after.lives[side] > before.lives[side]:
            rows[side] = None
            entries = [None if _side(n) == side else entry for n, entry in enumerate(entries)]
            mark = None if side == PARENT else mark
    for n, state in enumerate(after.indexes):  # the fill
        if DUTIES[state].reads and not DUTIES[before.indexes[n]].reads:
            entries[n] = rows[_side(n)] if entries[n] is None else entries[n]
    return world._replace(step=world.step + 1, rows=tuple(rows), entries=tuple(entries), mark=mark)


def _begin(world: World, schema: Schema, statement: str, rules: frozenset[str]) -> Running | None:
    """The statement in this snapshot; None where it is refused."""
    verb, table = statement.split()
    side = PARENT if table == "parent" else CHILD
    row = world.rows[side]
    if (row is None) != (verb == "insert") or (side == CHILD and not schema.child_exists):
        return None
    begun = Running(statement, world.step, row)
    if statement == "insert child" and schema.child_owes:
        key = _index(schema, PARENT, rules)
        version = world.rows[PARENT] if key < 0 else world.entries[key]
        return None if version is None else begun._replace(key=key, version=version)
    if statement == "delete parent" and schema.parent_owes:
        key = _index(schema, CHILD, rules)
        child = world.rows[CHILD] if key < 0 else world.entries[key]
        return None if child is not None else begun._replace(key=key, version=world.mark)
    return begun


def _index(schema: Schema, side: int, rules: frozenset[str]) -> int:
    """Where evidence is taken: the position of an index, or -1 for the rows."""
    own = [n for n in range(4) if _side(n) == side]
    if "public index" not in rules:
        return next((n for n in own if DUTIES[schema.indexes[n]].removes), -1)
    return next((n for n in own if schema.indexes[n] == PUBLIC), -1)


def _commit(
    world: World, n: int, running: Running, schedule: Schedule, rules: frozenset[str]
) -> World | None:
    """The world after it; None where the store refuses it."""
    plan, now = schedule[running.step], schedule[world.step]
    verb, table = running.statement.split()
    side = PARENT if table == "parent" else CHILD
    takes_evidence = running.key is not None
    behind = [now.revisions[each] - plan.revisions[each] for each in (PARENT, CHILD)]
    if "fence" in rules and behind[side] > 1:
        return None
    other = CHILD if side == PARENT else PARENT
    fence = "child's fence" if side == PARENT else "parent's fence"
    if takes_evidence and fence in rules and behind[other] > 1:
        return None
    if now.lives[side] != plan.lives[side] or world.rows[side] != running.row:
        return None
    if takes_evidence and not _stands(world, running, plan, now, rules):
        return None
    rows, entries, mark = list(world.rows), list(world.entries), world.mark
    rows[side] = n if verb == "insert" else None
    for at, state in enumerate(plan.indexes):
        if _side(at) == side:
            duty = DUTIES[state]
            if verb == "insert" and duty.adds:
                entries[at] = n
            elif verb == "delete" and duty.removes:
                entries[at] = None
    if takes_evidence and "mark" in rules and now.lives[PARENT] == plan.lives[PARENT]:
        mark = n if verb == "insert" else None
    return world._replace(rows=tuple(rows), entries=tuple(entries), mark=mark)


def _stands(
    world: World, running: Running, plan: Schema, now: Schema, rules: frozenset[str]
) -> bool:
    """Whether what it found is as it was. A key of a former life nobody writes: it always is."""
    if now.lives[PARENT] != plan.lives[PARENT]:
        return True
    if running.statement == "delete parent":
        return "mark" not in rules or world.mark == running.version
    key = running.key
    assert key is not None
    held = world.rows[PARENT] if key < 0 else world.entries[key]
    return "key unchanged" not in rules or held == running.version
