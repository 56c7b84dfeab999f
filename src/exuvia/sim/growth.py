"""A cluster's use of its store by the number of nodes: counted, not timed.

N nodes, a front and a back each, with all the loops that node/ runs in threads, on one memory store
under one clock. A loop's step sees the store at one moment. The loop is then busy for the round
trips of the step, after which the loops that wait on its notified channels are woken.

    idle       no schema changes
    changes    ADD and DROP of columns and indexes at a given rate, of tables every front has used
    held       the same; at every second change a transaction that wrote its table stays open

    snapshots   views opened                    commits   and the keys they wrote
    keys        read by get, get_many, scan     notices   of commits to channels
    rounds      waits for a store behind a      messages  loops that wait on those channels: each
                network                         polls, most without effect

Rounds are those of kv/postgres/snapshot.py. Keys that a loop has read before after the same first
key are read in the same round (habits.py). A scan reads page by page, and a presence is one round.

A catalog of any size costs nothing here: a quiet table's keys are written when one of them is first
read (`WideCatalog`). A scan reads and counts all of them.

Not included: processor time of nodes, conflicts of overlapping steps, statements of clients, and
automatic analysis, whose owner reads all tables once (figures in bench/queue_memory.py).
"""

import heapq
import math
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import partial
from itertools import count, cycle
from random import Random
from statistics import median
from typing import NamedTuple

from exuvia.base.clock import Loop, ManualClock
from exuvia.base.errors import Broken, Conflict, Deposed, Refused, Unavailable
from exuvia.catalog import meta, writer
from exuvia.catalog.bootstrap import bootstrap
from exuvia.catalog.infoschema import Loader, Schemas
from exuvia.catalog.model import (
    DatabaseInfo,
    IndexColumn,
    IndexInfo,
    TableInfo,
    evolve,
    name,
    to_json,
)
from exuvia.catalog.sysvar import variables
from exuvia.catalog.table import Table
from exuvia.cluster import nodes as node_states
from exuvia.cluster.member import Member
from exuvia.cluster.owner import Campaign, OwnerWatch
from exuvia.cluster.questions import Answering
from exuvia.cluster.versions import BLOCKED_S, Acknowledger, MetadataLocks, Waiter, writers
from exuvia.ddl import requests
from exuvia.ddl.job import ActionCode, Job
from exuvia.ddl.manager import AckLoop, Ddl, JobManager
from exuvia.ddl.submit import POLL_S, Submitter
from exuvia.ddl.upgrade import Upgrade
from exuvia.kv import keys
from exuvia.kv.memory import MemorySnapshot, MemoryStore
from exuvia.kv.packet import SnapshotUse, Span
from exuvia.kv.postgres.habits import Habits, Question
from exuvia.kv.transaction import Transaction
from exuvia.node.assemble import EVALUATOR, JUDGE, LONGEST_S, VersionFollower
from exuvia.pipeline.phase_runner import PhaseRunner
from exuvia.pipeline.reorg import Reorg
from exuvia.pipeline.settings import Fixed, PipelineSettings
from exuvia.pipeline.throttle import Durations, LatencyReports
from exuvia.server.processes import Connections, Reaper
from exuvia.server.slow_log import SlowLog
from exuvia.sim.change import INT, table_of_the_world
from exuvia.sim.process import NodeStore
from exuvia.sim.session import FrontSeat
from exuvia.sql.privileges.accounts import Accounts
from exuvia.sql.statement.bindings import BindingBook, BindingsFollower
from exuvia.stats.cache import FreshStatistics
from exuvia.stats.meta import Deltas
from exuvia.stats.owner import Stats

SIZES = (1, 3, 10, 30, 100)
USED_TABLES = 8
WARM_S = 4.0
MOST_DRAIN_S = 120.0
HELD_S = 0.8
HELD_EVERY = 2
ROUND_S = 0.0005
PROCESSOR_S = 0.0001
"""Processor time of a step, so that no step takes no time. Unit: s."""
NOTICE_ROUNDS = 2
"""From a commit to the woken loop: the notification, and the read of the counter."""
CONFLICT_S = 0.002
FIRST_PAGE, MOST_PAGE = 8, 2048
MOST_KNOWN = 256
SETTINGS = PipelineSettings(workers=1, inline_rows=1 << 30)
IDLE, CHANGES, HELD = PHASES = "idle", "changes", "held"

ACKNOWLEDGER, LOADER, METADATA_LOCK = "acknowledger", "loader", "metadata lock"
OWNER_STEPS, OWNER_LOOKS, CLIENTS = "owner's steps", "owner's looks", "clients"
HEARTBEAT, SILENCE, SUBMIT = "heartbeat of backs", "who is silent", "submit and wait"
QUESTIONS, OTHERS = "questions", "other loops"
CAMPAIGNS, ACCOUNTS, STATISTICS = "campaigns", "accounts", "statistics, events"
PURPOSES = {
    "Member": HEARTBEAT,
    "Waiter": SILENCE,
    "Campaign": CAMPAIGNS,
    "Loader": LOADER,
    "VersionFollower": ACKNOWLEDGER,
    "JobManager": OWNER_STEPS,
    "AckLoop": OWNER_STEPS,
    "FillLoop": "reorganisation",
    "GcWorker": "deferred deletion",
    "Answering": QUESTIONS,
    "OwnerAnswering": QUESTIONS,
    "StatsCache": STATISTICS,
    "FreshStatistics": STATISTICS,
    "BindingsFollower": STATISTICS,
    "Queue": STATISTICS,
    "Runner": STATISTICS,
    "Notifier": STATISTICS,
    "Webhook": STATISTICS,
    "Accounts": ACCOUNTS,
    "Submitting": SUBMIT,
    "AwaitedChange": SUBMIT,
    "HeldTransaction": CLIENTS,
}
TIMED = frozenset({HEARTBEAT, SILENCE, CAMPAIGNS, ACCOUNTS, QUESTIONS, OTHERS, CLIENTS})
"""Purposes that run by the clock, independent of schema changes."""


# -- counting --------------------------------------------------------------------------------------


@dataclass(slots=True)
class StoreUse:
    """Counts of the use of a store."""

    snapshots: float = 0
    keys: float = 0
    rounds: float = 0
    commits: float = 0
    written: float = 0
    notices: float = 0
    messages: float = 0

    def add(self, other: "StoreUse", times: float = 1) -> None:
        """Adds `times` times the other counts."""
        for counter in fields(self):
            mine: float = getattr(self, counter.name)
            setattr(self, counter.name, mine + times * getattr(other, counter.name))

    def over(self, divisor: float) -> "StoreUse":
        """Returns the counts divided, for example by seconds or by changes."""
        part = StoreUse()
        part.add(self, 1 / divisor)
        return part


class UseTally:
    """Uses by purpose. `step` and `habits` belong to the loop in its step."""

    def __init__(self) -> None:
        self.total: defaultdict[str, StoreUse] = defaultdict(StoreUse)
        self.step: defaultdict[str, StoreUse] = defaultdict(StoreUse)
        self.purpose = ""
        self.habits = Habits()

    def use(self, purpose: str) -> StoreUse:
        """Returns the current step's counts for a purpose; "": the step's own purpose."""
        return self.step[purpose or self.purpose]

    def begin(self, purpose: str, habits: Habits) -> None:
        """Begins the step of a loop."""
        self.purpose, self.habits = purpose, habits
        self.step = defaultdict(StoreUse)

    def end(self, purpose: str = "") -> None:
        """Ends the step. `purpose`: overrides the purpose of all its counts."""
        for own, use in self.step.items():
            self.total[purpose or own].add(use)


class CountedSnapshot(MemorySnapshot):
    """A view that counts reads, and the round trips that a server would need for them."""

    def __init__(self, store: MemoryStore, sequence: int, use: StoreUse, habits: Habits) -> None:
        super().__init__(store, sequence)
        self._use = use
        self._habits = habits
        self._questions: dict[Question, int] = {}
        self._ahead: set[bytes] = set()
        self._known_keys: set[bytes] = set()
        self._spans_ahead: dict[Question, int] = {}
        self._spans_known: dict[Question, int] = {}
        use.snapshots += 1

    def ahead(self, keys: Sequence[bytes]) -> None:
        self._ahead.update(keys)

    def _round(self) -> None:
        self._use.rounds += 1
        self._known_keys |= self._ahead
        self._spans_known |= self._spans_ahead
        self._ahead.clear()
        self._spans_ahead.clear()

    def _expect(self, question: Question) -> None:
        if len(self._questions) >= Habits.LONGEST:
            return
        if not self._questions:
            for other, (rows, _) in self._habits.after(question).items():
                if len(other) == 2:
                    self._spans_ahead[other] = max(FIRST_PAGE, 2 * rows)
                else:
                    self._ahead.add(other[0])
        self._questions.setdefault(question, 0)

    def get(self, key: bytes) -> bytes | None:
        self._use.keys += 1
        self._expect((key,))
        if key not in self._known_keys:
            self._round()
            if len(self._known_keys) < MOST_KNOWN:
                self._known_keys.add(key)
        return super().get(key)

    def get_many(self, keys: list[bytes]) -> dict[bytes, bytes]:
        self._use.keys += len(keys)
        for key in keys:
            self._expect((key,))
        if not self._known_keys.issuperset(keys):
            self._round()
            self._known_keys.update(keys)
        return super().get_many(keys)

    def scan(self, span: Span, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        page_left, size, question = 0, FIRST_PAGE, (span.start, span.end)
        if not reverse:
            self._expect(question)
            page_left = self._spans_known.get(question, 0)
        for pair in super().scan(span, reverse):
            if question in self._questions:
                self._questions[question] += 1
            if not page_left:
                self._round()
                page_left, size = size, min(2 * size, MOST_PAGE)
            page_left -= 1
            self._use.keys += 1
            yield pair
        if not page_left:
            self._round()

    def close(self) -> None:
        if self.is_open and len(self._questions) > 1:
            self._habits.keep(self._questions)
        super().close()


Committed = Callable[[Sequence[str], Iterable[bytes]], None]


class CountedStore(NodeStore):
    """A process's store. `purpose`: of all counts from this object; "": the loop's own."""

    def __init__(
        self, shared: MemoryStore, tally: UseTally, committed: Committed, purpose: str = ""
    ) -> None:
        super().__init__(shared, lambda: "", self._count, lambda keys, before: None)
        self._memory = shared
        self._tally = tally
        self._report = committed
        self._purpose = purpose

    def snapshot(self, use: SnapshotUse = SnapshotUse.SYSTEM) -> CountedSnapshot:
        view = self._memory.snapshot(use)
        own = self._tally.use(self._purpose)
        return CountedSnapshot(self._memory, view.sequence, own, self._tally.habits)

    def held(self, name: str) -> bool:
        self._tally.use(self._purpose).rounds += 1
        return self._memory.held(name)

    def _count(self, channels: Sequence[str], written: Iterable[bytes]) -> None:
        written_keys = list(written)
        use = self._tally.use(self._purpose)
        use.rounds += 1
        use.commits += 1
        use.written += len(written_keys)
        use.notices += len(channels)
        self._report(channels, written_keys)


# -- a catalog of any size -------------------------------------------------------------------------

FIRST_TABLE = 1000
DATABASE = "wide"
_STAMP = (1).to_bytes(MemorySnapshot.skip, "little")


class WideCatalog(MemoryStore):
    """A store with a database of many tables. A quiet table uses no memory until one of its keys is
    read; then that key is stored."""

    def __init__(self, tables: int) -> None:
        super().__init__()
        self._kinds: tuple[tuple[bytes, Callable[[int], bytes], Callable[[int], bytes]], ...] = ()
        bootstrap(self)
        self._ids = range(FIRST_TABLE, FIRST_TABLE + tables)
        self._touched: set[bytes] = set()
        self._database_id = self.transact(self._create)
        self._info = table_of_the_world(self._database_id, 1, indexed=False)
        self._kinds = (
            (keys.meta("table"), partial(keys.meta, "table"), self._json),
            (keys.revision(0)[:-8], keys.revision, lambda table_id: keys.number(2)),
            (keys.meta("name", self._database_id), self._name_key, keys.number),
        )

    def _create(self, txn: Transaction) -> int:
        database_id = meta.next_ids(txn)
        meta.put_database(txn, DatabaseInfo(id=database_id, db_name=name(DATABASE)))
        txn.put(keys.LAST_ID, keys.number(self._ids.stop))
        meta.publish(
            txn,
            type=int(ActionCode.CREATE_SCHEMA),
            schema_id=database_id,
            database_bumps={database_id: meta.STEP},
        )
        # automatic analysis would read all tables once when its owner starts
        variables.set_global(txn, "tidb_enable_auto_analyze", "OFF")
        return database_id

    @staticmethod
    def title(table_id: int) -> str:
        """Returns the table's name; names sort like ids."""
        return f"t{table_id:012}"

    def _name_key(self, table_id: int) -> bytes:
        return keys.meta("name", self._database_id, self.title(table_id))

    def _json(self, table_id: int) -> bytes:
        return to_json(evolve(self._info, id=table_id, name=name(self.title(table_id))))

    @property
    def touched(self) -> int:
        """The number of quiet tables' keys that were read."""
        return len(self._touched)

    def _touch(self, key: bytes) -> None:
        """Stores the key, if it is a quiet table's."""
        for prefix, key_of, payload_of in self._kinds:
            if key.startswith(prefix) and key not in self._touched:
                at = bisect_left(self._ids, key, key=key_of)
                if at < len(self._ids) and key_of(self._ids[at]) == key:
                    self._touched.add(key)
                    insort(self._keys, key)
                    self._versions[key] = ((1, _STAMP + payload_of(self._ids[at])),)

    def value_at(self, key: bytes, sequence: int) -> bytes | None:
        if key not in self._versions:
            self._touch(key)
        return super().value_at(key, sequence)

    def _now(self, key: bytes) -> bytes | None:
        if key not in self._versions:
            self._touch(key)
        return super()._now(key)

    def keys_in(self, span: Span, reverse: bool) -> list[bytes]:
        for _, key_of, _ in self._kinds:
            first = bisect_left(self._ids, span.start, key=key_of)
            for table_id in self._ids[first : bisect_left(self._ids, span.end, key=key_of)]:
                self._touch(key_of(table_id))
        return super().keys_in(span, reverse)


# -- loops in time ---------------------------------------------------------------------------------


class Lane:
    """A thread or a lock, whose work is sequential. Unit: s."""

    def __init__(self) -> None:
        self.free_at = 0.0
        self.busy_s = 0.0


class ScheduledLoop:
    """A loop with the time of its next step, and its pending wake-ups."""

    def __init__(self, loop: Loop, lane: Lane, due: float, longest_s: float) -> None:
        self.loop = loop
        self.channel = loop.channel
        self.lane = lane
        self.due = due
        self.longest_s = longest_s if loop.channel else math.inf
        self.purpose = PURPOSES.get(type(loop).__name__, OTHERS)
        self.wakes: list[float] = []
        self.habits = Habits()


class SimulatedFront(NamedTuple):
    """A front with clients."""

    seat: FrontSeat
    submitter: Submitter


class GrowthFigures(NamedTuple):
    """The measurements of one phase of one cluster. `uses`: per second. Unit: s."""

    nodes: int
    phase: str
    uses: dict[str, StoreUse]
    submitted: int
    ended: int
    steps_s: list[float]
    changes_s: list[float]
    round_s: float
    owner_busy: float

    @property
    def total(self) -> StoreUse:
        """The sum over all purposes but clients."""
        whole = StoreUse()
        for purpose, use in self.uses.items():
            if purpose != CLIENTS:
                whole.add(use)
        return whole

    @property
    def step_s(self) -> float:
        """Median time from one step of a change to the next; 0 if one commit does everything."""
        return median(self.steps_s) if self.steps_s else 0.0

    @property
    def change_s(self) -> float:
        """Median time from submission to the answer."""
        return median(self.changes_s) if self.changes_s else 0.0


class GrowingCluster:
    """A simulated cluster. The same arguments give the same figures."""

    def __init__(self, nodes: int, tables: int, seed: int = 0, round_s: float = ROUND_S) -> None:
        self.clock = ManualClock()
        self.store = WideCatalog(tables)
        self.random = Random(seed)
        self.fronts: list[SimulatedFront] = []
        self._nodes = nodes
        self._round_s = round_s
        self._tally = UseTally()
        self._tally.begin(OTHERS, Habits())
        self._due: list[tuple[float, int, ScheduledLoop]] = []
        self._numbers = count()
        self._waiting: defaultdict[str, dict[int, ScheduledLoop]] = defaultdict(dict)
        self._woken: list[ScheduledLoop] = []
        self._managers: list[Lane] = []
        self._announced: dict[int, float] = {}
        self.steps_s: list[float] = []
        for n in range(nodes):
            self._begin_front(n)
            self._begin_back(n)
        self.people = Submitting(self, range(FIRST_TABLE, FIRST_TABLE + min(USED_TABLES, tables)))
        self._people = self.add(self.people, math.inf)
        self.run(WARM_S)
        self.people.use_tables()

    # -- nodes ---------------------------------------------------------------------------------

    def view(self, purpose: str = "") -> CountedStore:
        """Returns a process's view of the store."""
        return CountedStore(self.store, self._tally, self._committed, purpose)

    def _begin_front(self, n: int) -> None:
        store, clock = self.view(), self.clock
        title = f"front{n:04}"
        address = f"node{n}:4000"
        member = Member.join(store, clock, "front", address, identity=lambda: title)
        schemas = Schemas(self.view(LOADER), evaluator=EVALUATOR)
        locks = MetadataLocks(clock)
        follower = VersionFollower(
            store,
            Acknowledger(self.view(ACKNOWLEDGER), member, locks, OwnerWatch(store)),
            Loader(schemas, member.loaded),
        )
        handlers = writers(locks), node_states.handler(member, clock)
        for loop in (
            follower,
            Reaper(store, Connections(clock), SlowLog(clock)),
            Deltas(store, member),
            FreshStatistics(store, lambda: None),
            BindingsFollower(store, BindingBook()),
            Accounts(store),
            Answering(store, member, handlers),
            LatencyReports(store, member, Durations()),
        ):
            self._begin_loop(loop)
        submitter = Submitter(store, schemas, member, clock, locks=locks)
        self.fronts.append(
            SimulatedFront(FrontSeat(store, schemas, member, locks, clock), submitter)
        )

    def _begin_back(self, n: int) -> None:
        store, clock = self.view(), self.clock
        title = f"back{n:04}"
        member = Member.join(store, clock, "back", f"node{n}:4000", identity=lambda: title)
        schemas = Schemas(store, evaluator=EVALUATOR)
        campaign = Campaign(store, member)

        def reorg(job_id: int, epoch: int, table: Table, work: Reorg) -> PhaseRunner:
            order = store, job_id, epoch, table, work
            dial = Fixed(SETTINGS)
            return PhaseRunner(*order, judge=JUDGE, dial=dial, monotonic=clock.monotonic)

        ddl = Ddl(store, schemas, member, campaign, clock, reorg)
        stats = Stats(store, member, clock, schemas, _spawn_nothing)
        lane = Lane()
        self._managers.append(lane)
        loops: tuple[Loop, ...] = (
            member,
            campaign,
            Waiter(store, campaign.guard),
            Loader(schemas, member.loaded, channel=""),
            Answering(store, member, (node_states.handler(member, clock),)),
            Upgrade(store, campaign, Submitter(store, schemas, member, clock)),
            *ddl.loops(),
            *stats.loops(),
        )
        for loop in loops:
            self._begin_loop(loop, lane if isinstance(loop, JobManager | AckLoop) else None)

    def _begin_loop(self, loop: Loop, lane: Lane | None = None) -> None:
        """Adds a loop that starts within a second, so that loops do not poll at one moment."""
        self.add(loop, self.clock.now_s + self.random.random(), lane)

    # -- time ----------------------------------------------------------------------------------

    def add(
        self, loop: Loop, due: float, lane: Lane | None = None, longest_s: float = LONGEST_S
    ) -> ScheduledLoop:
        """Adds a loop with a lane of its own, or with a shared one."""
        added = ScheduledLoop(loop, lane or Lane(), due, longest_s)
        self._waiting[added.channel][id(added)] = added
        self.schedule(added, due)
        return added

    def schedule(self, loop: ScheduledLoop, due: float) -> None:
        """Sets the time of the loop's next step."""
        loop.due = due
        if due < math.inf:
            heapq.heappush(self._due, (due, next(self._numbers), loop))

    def run(self, seconds: float) -> None:
        """Runs the cluster for this time."""
        until = self.clock.now_s + seconds
        while self._due and self._due[0][0] <= until:
            due, _, loop = heapq.heappop(self._due)
            if due != loop.due:
                continue
            if loop.lane.free_at > due:
                self.schedule(loop, loop.lane.free_at)
                continue
            self.clock.now_s = max(self.clock.now_s, due)
            self._step(loop)
        self.clock.now_s = until

    def _step(self, loop: ScheduledLoop) -> None:
        began = self.clock.now_s
        while loop.wakes and loop.wakes[0] <= began:
            heapq.heappop(loop.wakes)
        tally = self._tally
        tally.begin(loop.purpose, loop.habits)
        try:
            pause_s = loop.loop.step(began)
        except Conflict:
            pause_s = CONFLICT_S
        if loop.loop.channel != loop.channel:
            self._waiting[loop.channel].pop(id(loop), None)
            loop.channel = loop.loop.channel
            self._waiting[loop.channel][id(loop)] = loop
        took_s = PROCESSOR_S + self._round_s * sum(use.rounds for use in tally.step.values())
        commits = sum(use.commits for use in tally.step.values())
        purpose = ""
        if loop.purpose == ACKNOWLEDGER and pause_s == BLOCKED_S:
            purpose = METADATA_LOCK
        elif loop.purpose == OWNER_STEPS and not commits:
            purpose = OWNER_LOOKS
        tally.end(purpose)
        ended = began + took_s
        loop.lane.free_at = ended
        loop.lane.busy_s += took_s
        self._wake(ended + NOTICE_ROUNDS * self._round_s)
        if pause_s == math.inf:
            self._waiting[loop.channel].pop(id(loop), None)
            self.schedule(loop, math.inf)
            return
        due = ended + min(max(pause_s, 0.0), loop.longest_s)
        self.schedule(loop, min([due, *(max(ended, at) for at in loop.wakes[:1])]))

    def _committed(self, channels: Sequence[str], written: Iterable[bytes]) -> None:
        for channel in channels:
            woken = self._waiting[channel].values()
            self._tally.use("").messages += len(woken)
            self._woken += woken
        for key in written:
            if key.startswith(_SYNC):
                self._announce(keys.read_number(key[len(_SYNC) :]))

    def _announce(self, job_id: int) -> None:
        """Records that the job took a step, or has ended."""
        now = self.clock.now_s
        if job_id in self._announced:
            self.steps_s.append(now - self._announced[job_id])
        self._announced[job_id] = now

    def _wake(self, at: float) -> None:
        woken, self._woken = self._woken, []
        for loop in woken:
            heapq.heappush(loop.wakes, at)
            if max(at, loop.lane.free_at) < loop.due:
                self.schedule(loop, max(at, loop.lane.free_at))

    # -- phases --------------------------------------------------------------------------------

    def measure(self, phase: str, seconds: float, changes_s: float) -> GrowthFigures:
        """Runs a phase for `seconds` with `changes_s` changes a second, and returns its figures."""
        self._tally.total.clear()
        for lane in self._managers:
            lane.busy_s = 0.0
        self.steps_s = []
        people = self.people
        people.begin(0.0 if phase == IDLE else changes_s, phase == HELD)
        self.schedule(self._people, self.clock.now_s + people.pause_s / 2)
        self.run(seconds)
        uses = {purpose: use.over(seconds) for purpose, use in sorted(self._tally.total.items())}
        busy = max(lane.busy_s for lane in self._managers) / seconds
        times = list(self.steps_s), list(people.changes_s)
        ended = len(people.changes_s)
        figures = GrowthFigures(
            self._nodes, phase, uses, people.submitted, ended, *times, self._round_s, busy
        )
        self._drain()
        return figures

    def _drain(self) -> None:
        """Runs until all submitted changes have ended."""
        self.schedule(self._people, math.inf)
        until = self.clock.now_s + MOST_DRAIN_S
        while self.people.busy and self.clock.now_s < until:
            self.run(1.0)
        self.run(2 * HELD_S)


_SYNC = keys.meta("sync")


def _spawn_nothing(call: Callable[[], None]) -> None:
    raise Broken("no table is analyzed here")


# -- users -----------------------------------------------------------------------------------------

_NEW = "c"
_INDEX = IndexInfo(
    id=0,
    idx_name=name("by_a"),
    idx_cols=(IndexColumn(name=name("a"), offset=1, exuvia_column=2),),
)


def next_change(database: DatabaseInfo, table: TableInfo) -> Job:
    """Returns the table's next change: add a column, add an index, drop the column, drop the
    index."""
    has_column = table.column(_NEW) is not None
    if not has_column and not table.indexes:
        column = evolve(table.cols[1], id=0, name=name(_NEW), offset=len(table.cols), type=INT)
        return requests.add_column(database, table, column)
    if has_column and not table.indexes:
        return requests.add_index(database, table, _INDEX)
    if has_column:
        return requests.drop_column(database, table, _NEW)
    return requests.drop_index(database, table, "by_a")


class Submitting:
    """Submits the next change of a free table, at some front."""

    channel = ""

    def __init__(self, cluster: GrowingCluster, tables: Sequence[int]) -> None:
        self._cluster = cluster
        self._tables = tables
        self._free = list(tables)
        self.begin(0.0, False)

    def begin(self, rate: float, holds: bool) -> None:
        """Sets the number of changes a second. `holds`: with transactions that stay open."""
        self.pause_s = 1 / rate if rate else math.inf
        self._holds = holds
        self.submitted = 0
        self.changes_s: list[float] = []

    @property
    def busy(self) -> bool:
        """Whether a change is in progress."""
        return len(self._free) < len(self._tables)

    def use_tables(self) -> None:
        """Loads every table into the cache of every front."""
        for front in self._cluster.fronts:
            with front.seat.store.read() as txn:
                for table_id in self._tables:
                    front.seat.schemas.table(txn, DATABASE, WideCatalog.title(table_id))

    def step(self, now: float) -> float:
        """Submits one change."""
        if not self._free:
            return self.pause_s
        self.submitted += 1
        table_id = self._free.pop()  # the table freed last, so each goes through all kinds
        cluster = self._cluster
        if self._holds and self.submitted % HELD_EVERY == 0:
            holder = HeldTransaction(cluster.random.choice(cluster.fronts).seat, table_id)
            cluster.add(holder, now)
        cluster.add(
            AwaitedChange(cluster.random.choice(cluster.fronts), table_id, self._ended),
            now + PROCESSOR_S,
            longest_s=POLL_S,
        )
        return self.pause_s

    def _ended(self, table_id: int, took_s: float) -> None:
        self._free.append(table_id)
        self.changes_s.append(took_s)


class AwaitedChange:
    """A session's side of one change: submits it, then polls the history when that changes."""

    channel = "history"

    def __init__(
        self, front: SimulatedFront, table_id: int, ended: Callable[[int, float], None]
    ) -> None:
        self._front = front
        self._table_id = table_id
        self._ended = ended
        self._job_id = 0
        self._began = 0.0

    def step(self, now: float) -> float:
        """Submits, or polls. Returns seconds until the next step."""
        seat, submitter = self._front
        if not self._job_id:
            with seat.store.read() as txn:
                table = seat.schemas.table(txn, DATABASE, WideCatalog.title(self._table_id))
                job = next_change(table.database, table.info)
            self._job_id, self._began = submitter.submit_nowait(job), now
            return POLL_S
        try:
            job = submitter.wait(self._job_id, 0.0)
        except Unavailable:
            return POLL_S
        if job.error() is not None:
            raise Broken(f"a change was refused: {job.error()}")
        self._ended(self._table_id, now - self._began)
        return math.inf


class HeldTransaction:
    """A client's transaction that writes a table and stays open for a while."""

    channel = ""

    def __init__(self, seat: FrontSeat, table_id: int) -> None:
        self._seat = seat
        self._table_id = table_id
        self._txn: Transaction | None = None

    def step(self, now: float) -> float:
        """Begins and writes; commits at the second step."""
        seat = self._seat
        if self._txn is not None:
            try:
                self._txn.commit()
            except (Conflict, Deposed, Refused):
                self._txn.rollback()
            seat.locks.leave(self)
            seat.locks.release(self)
            return math.inf
        seat.locks.enter(self)
        txn = self._txn = seat.store.begin()
        seat.member.guard(txn)
        table = seat.schemas.table(txn, DATABASE, WideCatalog.title(self._table_id))
        row: list[object] = [None] * len(table.info.cols)
        row[table.position("id")] = int(now * 1000)
        writer.insert(txn, table, row)
        seat.locks.hold(self, table.info.id, table.revision, "open transaction wrote", 1)
        return HELD_S


# -- tables of figures -----------------------------------------------------------------------------


def sizes_up_to(nodes: int) -> list[int]:
    """Returns a growing list of numbers of nodes that ends with `nodes`."""
    return [*(size for size in SIZES if size < nodes), nodes]


def measure_sizes(
    nodes: int,
    tables: int,
    changes_s: float,
    seconds: float,
    seed: int = 0,
    round_s: float = ROUND_S,
) -> Iterator[GrowthFigures]:
    """Yields the figures of each phase of each size up to `nodes`."""
    for size in sizes_up_to(nodes):
        cluster = GrowingCluster(size, tables, seed, round_s)
        for phase in PHASES:
            yield cluster.measure(phase, seconds, changes_s)


def exponent(smaller: float, larger: float, times: float) -> float:
    """Returns 1 for growth in proportion to nodes, 2 for their square, 0 for none. `times`: ratio
    of the numbers of nodes."""
    return math.log(larger / smaller) / math.log(times) if smaller and larger else 0.0


HEADER = (
    "nodes  phase      keys/s  rounds/s  snaps/s  commits/s  written/s  notices/s  messages/s"
    "    ended  step ms  rounds  change ms, most  owner busy"
)


def figures_line(figures: GrowthFigures) -> str:
    """Returns a line of the table."""
    use = figures.total
    most_ms = 1000 * max(figures.changes_s, default=0.0)
    return (
        f"{figures.nodes:>5}  {figures.phase:<8} {use.keys:>8,.0f} {use.rounds:>9,.0f}"
        f" {use.snapshots:>8,.0f} {use.commits:>10,.1f} {use.written:>10,.1f}"
        f" {use.notices:>10,.1f} {use.messages:>11,.0f} {f'{figures.ended}/{figures.submitted}':>8}"
        f" {1000 * figures.step_s:>8.1f} {figures.step_s / figures.round_s:>7.0f}"
        f" {1000 * figures.change_s:>10.0f} {most_ms:>5.0f} {figures.owner_busy:>11.0%}"
    )


def purposes_table(figures: GrowthFigures) -> str:
    """Returns the uses by purpose."""
    lines = [f"{figures.nodes} nodes, {figures.phase}: a second"]
    lines += [
        f"  {purpose:<20} keys {use.keys:>9,.0f}  rounds {use.rounds:>8,.0f}  commits"
        f" {use.commits:>7,.1f}  notices {use.notices:>7,.1f}  messages {use.messages:>8,.0f}"
        for purpose, use in sorted(figures.uses.items(), key=lambda entry: -entry[1].rounds)
    ]
    return "\n".join(lines)


def per_change(idle: GrowthFigures, busy: GrowthFigures, seconds: float) -> StoreUse:
    """Returns the use of one change beyond that of an idle cluster."""
    use = StoreUse()
    for purpose in busy.uses.keys() - TIMED:
        use.add(busy.uses[purpose])
        use.add(idle.uses.get(purpose, StoreUse()), -1)
    return use.over(max(busy.ended, 1) / seconds)


def growth_table(figures_list: Sequence[GrowthFigures], seconds: float) -> str:
    """Returns the use of a change at each size, and the exponents between the last two sizes."""
    sizes = sorted({figures.nodes for figures in figures_list})
    at = {(figures.nodes, figures.phase): figures for figures in figures_list}
    lines = ["a node, idle, a second:    keys     rounds    commits    notices   messages"]
    lines += [
        f"{nodes:>5} nodes           {_use_columns(at[nodes, IDLE].total.over(nodes))}"
        for nodes in sizes
    ]
    lines.append("a change, beyond idle:     keys     rounds    commits    notices   messages")
    for nodes in sizes:
        for phase in (CHANGES, HELD):
            use = per_change(at[nodes, IDLE], at[nodes, phase], seconds)
            lines.append(f"{nodes:>5} nodes, {phase:<8} {_use_columns(use)}")
    if len(sizes) > 1:
        less, more = sizes[-2:]
        lines.append(f"exponents, {less} to {more} nodes: 1 is in proportion, 2 the square")
        for phase in PHASES:
            one, other = at[less, phase].total, at[more, phase].total
            texts = []
            for counter in fields(StoreUse):
                grew = exponent(
                    getattr(one, counter.name), getattr(other, counter.name), more / less
                )
                texts.append(f"{counter.name} {grew:.1f}")
            lines.append(f"  {phase:<8} {', '.join(texts)}")
    return "\n".join(lines)


def _use_columns(use: StoreUse) -> str:
    return (
        f"{use.keys:>10,.0f} {use.rounds:>10,.0f} {use.commits:>10,.1f} {use.notices:>10,.1f}"
        f" {use.messages:>10,.0f}"
    )


# -- SVG -------------------------------------------------------------------------------------------

ACROSS, WIDTH, HEIGHT, LEFT, TOP, APART = 2, 260, 220, 60, 50, 240
COLOURS = ("#084594", "#e6550d", "#31a354", "#756bb1", "#636363", "#d6aa00", "#c51b8a", "#17becf")
SHOWN = 8


class Panel(NamedTuple):
    """Lines over the number of nodes, both axes logarithmic."""

    title: str
    lines: dict[str, list[float]]


def panels(figures_list: Sequence[GrowthFigures]) -> list[Panel]:
    """Returns the diagrams."""
    sizes = sorted({figures.nodes for figures in figures_list})
    at = {(figures.nodes, figures.phase): figures for figures in figures_list}

    def by_phase(read: Callable[[GrowthFigures], float], *phases: str) -> dict[str, list[float]]:
        return {phase: [read(at[nodes, phase]) for nodes in sizes] for phase in phases}

    def by_purpose(phase: str, what: str) -> dict[str, list[float]]:
        largest = at[sizes[-1], phase].uses
        ranked = sorted(largest, key=lambda purpose: -float(getattr(largest[purpose], what)))[
            :SHOWN
        ]
        return {
            purpose: [getattr(at[n, phase].uses.get(purpose, StoreUse()), what) for n in sizes]
            for purpose in ranked
            if getattr(largest[purpose], what) > 0
        }

    return [
        Panel("keys read a second", by_phase(lambda figures: figures.total.keys, *PHASES)),
        Panel("messages a second", by_phase(lambda figures: figures.total.messages, *PHASES)),
        Panel("commits a second", by_phase(lambda figures: figures.total.commits, *PHASES)),
        Panel("a step's time, ms", by_phase(lambda figures: 1000 * figures.step_s, CHANGES, HELD)),
        Panel("rounds a second, idle", by_purpose(IDLE, "rounds")),
        Panel("rounds a second, changes", by_purpose(CHANGES, "rounds")),
        Panel("rounds a second, held", by_purpose(HELD, "rounds")),
        Panel("messages a second, changes", by_purpose(CHANGES, "messages")),
    ]


def as_svg(figures_list: Sequence[GrowthFigures], about: str) -> str:
    """Returns the figures as an SVG."""
    sizes = sorted({figures.nodes for figures in figures_list})
    drawn_panels = panels(figures_list)
    width, high = LEFT + ACROSS * (WIDTH + APART), HEIGHT + 2 * TOP
    rows = math.ceil(len(drawn_panels) / ACROSS)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{rows * high + 30}"'
        ' font-family="sans-serif" font-size="11">',
        f'<text x="{LEFT}" y="18" font-size="13">{about}</text>',
    ]
    for n, panel in enumerate(drawn_panels):
        left, top = LEFT + n % ACROSS * (WIDTH + APART), 30 + n // ACROSS * high
        parts += _panel(panel, sizes, left, top)
    return "\n".join([*parts, "</svg>", ""])


def _panel(panel: Panel, sizes: Sequence[int], left: float, top: float) -> Iterator[str]:
    values = [value for line in panel.lines.values() for value in line if value > 0] or [1.0]
    low = math.floor(math.log10(min(values)))
    decades = max(math.ceil(math.log10(max(values))), low + 1) - low
    reach = max(math.log10(sizes[-1] / sizes[0]), 1e-9)
    base = top + TOP + HEIGHT

    def x_of(nodes: int) -> float:
        return left + math.log10(nodes / sizes[0]) / reach * WIDTH

    def y_of(value: float) -> float:
        return base - (math.log10(value) - low) / decades * HEIGHT

    yield f'<text x="{left}" y="{top + TOP - 12}" font-size="12">{panel.title}</text>'
    for power in range(low, low + decades + 1):
        y = y_of(10.0**power)
        yield f'<path d="M{left} {y:.1f}h{WIDTH}" stroke="#ddd"/>'
        yield f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{10.0**power:,g}</text>'
    for nodes in sizes:
        yield f'<text x="{x_of(nodes):.1f}" y="{base + 16}" text-anchor="middle">{nodes}</text>'
    yield f'<text x="{left + WIDTH}" y="{base + 30}" text-anchor="end">nodes</text>'
    lowest = top
    colours = dict(zip(panel.lines, cycle(COLOURS), strict=False))
    for title, line in sorted(panel.lines.items(), key=lambda entry: -entry[1][-1]):
        colour = colours[title]
        points = [(x_of(s), y_of(v)) for s, v in zip(sizes, line, strict=True) if v > 0]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>'
        yield from (f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2" fill="{colour}"/>' for x, y in points)
        y = lowest = max(points[-1][1] if points else base, lowest + 13)
        yield (
            f'<text x="{left + WIDTH + 8}" y="{y + 4:.1f}" fill="{colour}">'
            f"{line[-1]:,.{0 if line[-1] >= 10 else 1}f} {title}</text>"
        )
