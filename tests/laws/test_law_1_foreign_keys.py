"""Law 1 for evidence in another table: a parent, its child and a schema change.

First as a small world, every interleaving: the rules hold, each is needed, and ADD FOREIGN KEY of
production gives both sides their duties in the order that the world asks for.

    world        one value; a row or none in either table; indexes u1, u2 on the parent's value and
                 i1, i2 on the child's; the mark beside the parent; three transactions, one
                 statement each
    schedule     what each step of the change leaves: both revisions, the states of the indexes, who
                 has which duty of the key

A statement plans and reads in one snapshot, takes its evidence from it, and requires it at commit:

    insert child    an entry of the parent's first public index, or its row, is there    that key
    delete parent   the child's first public index, or its rows, is empty               the mark

The search is breadth first, so the history of what breaks is the shortest one. `RULES` can be left
out by name. A fill is one step here, and what a removal leaves behind is nothing:
test_law_1_states_that_may_meet.py is about those.

Then in production: a `Play` is a schema change step by step between the statements of sessions, all
in one thread. Two writers meet it at pairs of its steps.

    one:   BEGIN, its statement after n steps ------------- COMMIT after m steps
    other: its statement, alone, right before that commit

One of them writes the child, the other removes its parent. No session holds a metadata lock: the
store alone decides. Whatever was committed, no child is without its parent. (With the lock,
`tests/sql/test_foreign_key_changes.py`, the change waits.)
"""

from collections import deque
from collections.abc import Callable, Iterator
from functools import cache
from itertools import product
from typing import Any, NamedTuple

import pytest

from exuvia.base.errors import Refused
from exuvia.catalog import meta, reader
from exuvia.catalog.autoid import IdAllocator
from exuvia.catalog.model import DUTIES, FkInfo, SchemaState
from exuvia.catalog.table import Table
from exuvia.ddl import actions, queue
from exuvia.ddl.action import Step
from exuvia.ddl.actions.foreign_key import ADD_FOREIGN_KEY, every_child_has_a_parent, place_key
from exuvia.ddl.actions.shared import add_constraint_path
from exuvia.ddl.decision import StepWait
from exuvia.ddl.job import Job
from exuvia.ddl.snapshot import CatalogSnapshot
from exuvia.ddl.submit import Admit
from exuvia.kv.memory import MemoryStore
from exuvia.kv.store import Store
from exuvia.node.assemble import JUDGE
from exuvia.pipeline.phase_runner import PhaseRunner
from exuvia.sql.session.session import Session
from exuvia.sql.statement.services import Services
from exuvia.sql.write import foreign_keys
from support.small_cluster import SmallCluster

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


# -- a schema change of production, step by step ---------------------------------------------------

ROUNDS = 500


class Submitted(BaseException):
    """A schema change that nobody waits for."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self.job = job


class _Asking:
    """Stands for the submitter."""

    def submit_nowait(self, job: Job, admit: Admit) -> int:
        raise Submitted(job)


def _reorgs(store: Store) -> Callable[..., Any]:
    return lambda job_id, epoch, table, plan: PhaseRunner(
        store, job_id, epoch, table, plan, None, JUDGE
    )


class _Cluster:
    """One front, one owner, stepped by hand."""

    def __init__(self, store: MemoryStore | None = None) -> None:
        self.cluster = SmallCluster(reorgs=_reorgs, store=store)
        self.cluster.step()
        front = self.cluster.fronts[0]
        self._services = Services(
            store=self.cluster.store,
            schemas=front.schemas,
            ids=IdAllocator(self.cluster.store),
            submitter=_Asking(),  # type: ignore[arg-type]
            locks=front.locks,
            member=front.member,
            clock=self.cluster.clock,
        )
        self._connections = 0

    def session(self) -> Session:
        """A client without metadata locks."""
        self._connections += 1
        session = Session(self._services, self._connections, database="test")
        session.settings.metadata_lock = False
        return session

    def asked(self, session: Session, text: str) -> Job:
        """The job that a statement asks for."""
        try:
            session.execute(text)
        except Submitted as asked:
            return asked.job
        raise AssertionError(f"no schema change: {text}")


@cache
def _prepared(statements: tuple[str, ...]) -> MemoryStore:
    made = _Cluster()
    session = made.session()
    for text in statements:
        try:
            session.execute(text)
        except Submitted as asked:
            job = made.cluster.run(asked.job)
            assert job.error() is None, (text, job.error())
    for each in (made.cluster.owner, *made.cluster.fronts):
        each.member.leave()
    return made.cluster.store


class Play(_Cluster):
    """See the module."""

    def __init__(self, *statements: str, change: str, checks: bool = True) -> None:
        super().__init__(_prepared(statements).fork())
        session = self.session()
        if not checks:
            session.execute("SET foreign_key_checks = OFF")
        self._job = self.cluster.submit(self.asked(session, change))

    def table(self, name: str) -> Table:
        """As it stands now."""
        return self.cluster.table(name)

    def step(self) -> Job | None:
        """Until a revision has moved, or the job has ended: it is told then."""
        before = self._revisions()
        for _ in range(ROUNDS):
            self.cluster.step()
            job = self.cluster.read(lambda txn: queue.finished(txn, self._job))
            if job is not None or self._revisions() != before:
                return job
        raise AssertionError("the job does not move")

    def _revisions(self) -> dict[str, int]:
        def look(txn: Any) -> dict[str, int]:
            (database,) = (each for each in meta.list_databases(txn) if each.db_name.L == "test")
            names = meta.table_names(txn, database.id)
            return {name: meta.revision(txn, table_id) for name, table_id in names}

        return self.cluster.read(look)


# -- the small world -------------------------------------------------------------------------------

NEEDED = {
    "fence": "add foreign key",
    "parent's fence": "drop index of parent",
    "key unchanged": "nothing changes",
    "mark": "nothing changes",
    "public index": "drop index of child",
}


@pytest.mark.parametrize("change", SCHEDULES)
def test_no_child_is_left_without_its_parent(change):
    found = search(SCHEDULES[change])
    assert found.history is None
    assert found.worlds > 400


@pytest.mark.parametrize("rule", NEEDED)
def test_each_rule_is_needed(rule):
    found = search(SCHEDULES[NEEDED[rule]], RULES - {rule})
    assert found.history is not None


def test_without_the_parents_fence_a_dropped_index_leaves_an_orphan():
    """The entry that the child requires is no longer kept by who removes the parent."""
    found = search(SCHEDULES["drop index of parent"], RULES - {"parent's fence"})
    assert found.history == (
        "0 insert child at step 0",
        *(f"owner: step {n}" for n in range(1, 5)),
        "1 delete parent at step 4",
        "1 commits",
        "0 commits",
    )


def test_the_parents_fence_is_needed_where_a_parent_is_truncated():
    assert search(SCHEDULES["truncate parent"], RULES - {"parent's fence"}).history


@pytest.mark.parametrize("change", SCHEDULES)
def test_the_marks_alone_keep_a_parents_writer_honest(change):
    """Fencing the child's revision too is law 1's one rule for all evidence, not a need."""
    assert search(SCHEDULES[change], RULES - {"child's fence"}).history is None


def test_duties_of_both_sides_that_begin_in_one_step_leave_an_orphan():
    """A writer from before the key leaves no mark; a parent's writer one step on trusts marks."""
    assert search(ADD_KEY_AT_ONCE).history == (
        "0 insert child at step 0",
        "owner: step 1",
        "1 delete parent at step 1",
        "0 commits",
        "owner: step 2",
        "owner has read every row",
        "1 commits",
        "owner: step 3",
    )


def test_the_job_gives_the_duties_in_the_order_of_the_world():
    play = Play(
        "CREATE TABLE p (id INT PRIMARY KEY)",
        "CREATE TABLE c (id INT PRIMARY KEY, p INT, KEY (p))",
        change="ALTER TABLE c ADD FOREIGN KEY (p) REFERENCES p (id)",
    )
    job: Job | None = None
    found = []
    while job is None:
        parent, child = play.table("p").info, play.table("c").info
        duty = (
            any(key.binds for key in child.foreign_keys),
            any(each.binds for each in parent.exuvia_referred),
        )
        found.append(duty)
        job = play.step()
    assert job.error() is None
    assert found == [(each.child_owes, each.parent_owes) for each in ADD_KEY]
    assert len(ADD_FOREIGN_KEY.path) == len(ADD_KEY) - 1


# -- two writers and a change, in production -------------------------------------------------------

PARENT_TABLE = "CREATE TABLE p (id INT PRIMARY KEY, u INT, v INT, UNIQUE u1 (u), UNIQUE u2 (u))"
KEY = "CONSTRAINT k FOREIGN KEY (p) REFERENCES p (u)"
BARE = "CREATE TABLE c (id INT PRIMARY KEY, p INT, w INT, KEY i1 (p), KEY i2 (p))"
CHILD_TABLE = f"{BARE[:-1]}, {KEY})"
ROW = "INSERT INTO p VALUES (1, 7, 0)"

INSERT, DELETE = "INSERT INTO c VALUES (1, 7, 0)", "DELETE FROM p WHERE id = 1"
MOVE = "UPDATE p SET u = 8 WHERE id = 1"
RENAMED = {"c": "d", "p": "q"}


class Change(NamedTuple):
    """A schema change, and what there is before it."""

    text: str
    before: tuple[str, ...] = (PARENT_TABLE, CHILD_TABLE, ROW)
    checks: bool = True
    takes_parents: bool = False  # the parents go with it: it is for who asks, a child of later not


CHANGES = {
    "drop index of parent": Change("ALTER TABLE p DROP INDEX u1"),
    "add index of parent": Change("ALTER TABLE p ADD INDEX u3 (u)"),
    "modify what is referred to": Change("ALTER TABLE p MODIFY u BIGINT", checks=False),
    "rename parent": Change("RENAME TABLE p TO q"),
    "drop index of child": Change("ALTER TABLE c DROP INDEX i1"),
    "modify what refers": Change("ALTER TABLE c MODIFY p BIGINT", checks=False),
    "rename child": Change("RENAME TABLE c TO d"),
    "truncate child": Change("TRUNCATE TABLE c"),
    "add key": Change(f"ALTER TABLE c ADD {KEY}", (PARENT_TABLE, BARE, ROW)),
    "drop key": Change("ALTER TABLE c DROP FOREIGN KEY k"),
    "create child": Change(CHILD_TABLE, (PARENT_TABLE, ROW)),
    "truncate parent": Change("TRUNCATE TABLE p", checks=False, takes_parents=True),
    "drop parent": Change("DROP TABLE p", checks=False, takes_parents=True),
}
STEPS = 6
PAIRS = [(n, m) for m in range(STEPS + 1) for n in range(m + 1)]
FEW = [(n, m) for n, m in PAIRS if n in (0, m - 2, m)]
WRITES = {
    "child first": (INSERT, DELETE),
    "parent first": (DELETE, INSERT),
    "moved": (MOVE, INSERT),
}


def orphans(play: Play) -> list[object]:
    """Values of children that refer to nothing, where there is a key that must hold."""

    def look(name: str):
        for each in (name, RENAMED[name]):
            try:
                return play.table(each)
            except Refused:
                continue
        return None

    child, parent = look("c"), look("p")
    if child is None or parent is None:
        return []
    known: list[FkInfo] = [key for key in child.info.foreign_keys if key.state.name == "PUBLIC"]
    if not known:
        return []

    def read(txn):
        found = {row[1] for _, row in reader.scan(txn, parent)}
        return [row for _, row in reader.scan(txn, child) if row[1] not in found]

    return play.cluster.read(read)


def execute(session, text):
    """Whether it was done. A table may have another name by now."""
    try:
        session.execute(text)
        return True
    except Refused as refused:
        if refused.code == 1146 and session.current is None:
            other = text.replace("INTO c", "INTO d").replace("FROM p", "FROM q")
            other = other.replace("UPDATE p", "UPDATE q")
            return other != text and execute(session, other)
        assert refused.code in (1146, 1213, 1451, 1452, 8028), refused
        return False


def played(change: Change, writes: tuple[str, str], begins: int, commits: int) -> str:
    """What is wrong with it, or nothing."""
    play = Play(*change.before, change=change.text, checks=change.checks)
    one, other = play.session(), play.session()
    job = None
    for step in range(commits + 1):
        if step == begins:
            one.execute("BEGIN OPTIMISTIC")
            if not execute(one, writes[0]):
                one.rollback()
        if step < commits and job is None:
            job = play.step()
    gone = job is not None and change.takes_parents
    second = execute(other, writes[1])
    first = one.current is not None and execute(one, "COMMIT")
    while job is None:
        job = play.step()
    one.rollback()
    if change.takes_parents:
        came = first if writes[0] == INSERT else second
        return "a child of a parent that is gone" if gone and came else ""
    left = orphans(play)
    return f"{left} without a parent" if left else ""


@pytest.mark.long
@pytest.mark.parametrize("writes", WRITES)
@pytest.mark.parametrize("change", CHANGES)
def test_two_writers_and_a_change_leave_no_orphan(change, writes):
    asked = CHANGES[change]
    found = {pair: played(asked, WRITES[writes], *pair) for pair in PAIRS}
    assert {pair: wrong for pair, wrong in found.items() if wrong} == {}


@pytest.mark.parametrize("change", CHANGES)
def test_two_writers_and_a_change_leave_no_orphan_in_short(change):
    """Each pair of steps with one of the orders."""
    asked, orders = CHANGES[change], list(WRITES.values())
    found = {pair: played(asked, orders[n % len(orders)], *pair) for n, pair in enumerate(FEW)}
    assert {pair: wrong for pair, wrong in found.items() if wrong} == {}


def added_between(monkeypatch, path: tuple[Step, ...], looks: int) -> list[object]:
    """Orphans after ADD FOREIGN KEY: the child's writer plans without the key, the parent's looks
    `looks` steps later; they end at any pair of steps, or the parent's right after the rows were
    found to obey."""
    found, last = [], len(path)
    for commits, ends in product(range(looks, last + 1), range(looks, last + 2)):
        change = CHANGES["add key"]
        open_ = []

        def judged(
            job: Job, world: CatalogSnapshot, late: bool = ends > last, open_: list[Session] = open_
        ) -> Refused | StepWait | None:
            answer = every_child_has_a_parent(job, world)
            if answer is None and late:
                execute(open_[0], "COMMIT")
            return answer

        walked = ADD_FOREIGN_KEY._replace(path=(*path[:-1], path[-1]._replace(after=judged)))
        monkeypatch.setattr(actions, "ACTIONS", {**actions.ACTIONS, ADD_FOREIGN_KEY.code: walked})
        play = Play(*change.before, change=change.text)
        child, parent = play.session(), play.session()
        child.execute("BEGIN OPTIMISTIC")
        child.execute(INSERT)
        job = None
        for step in range(1, last + 1):
            job = job or play.step()
            if step == looks:
                parent.execute("BEGIN OPTIMISTIC")
                parent.execute(DELETE)
                open_.append(parent)
            if step == commits:
                execute(child, "COMMIT")
            if step == ends:
                execute(parent, "COMMIT")
        while job is None:
            job = play.step()
        found += orphans(play)
    return found


@pytest.mark.parametrize("looks", [1, 2, 3])
def test_a_key_is_added_between_two_open_transactions(monkeypatch, looks):
    assert added_between(monkeypatch, ADD_FOREIGN_KEY.path, looks) == []


def test_duties_that_begin_in_one_step_leave_an_orphan(monkeypatch):
    assert added_between(monkeypatch, add_constraint_path(place_key, every_child_has_a_parent), 1)


def test_a_parent_that_is_not_fenced_leaves_an_orphan(monkeypatch):
    honest = foreign_keys.ForeignKeyChecker._find

    def unfenced(self, up, values):
        self._context.relying = lambda table: None
        honest(self, up, values)

    monkeypatch.setattr(foreign_keys.ForeignKeyChecker, "_find", unfenced)
    change = CHANGES["drop index of parent"]
    assert any(played(change, (INSERT, DELETE), *pair) for pair in PAIRS)
