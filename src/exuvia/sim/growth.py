"""What a cluster asks of its store, by the number of nodes: counted, not timed.

N nodes, a front and a back each, with all the loops that node/ gives threads to, on one memory
store under one clock. A loop's step is one moment of the store; the loop is busy for the round
trips that the step asked for, and whoever waits on a channel that it notified is woken after them.

    idle       nobody changes a schema
    changes    ADD and DROP of columns and indexes, so many a second, of tables every front has used
    held       the same; beside every second one a transaction that wrote its table stays open

    snapshots   views taken                     commits   and the keys they wrote
    keys        read by get, get_many, scan     notices   of commits to channels
    rounds      times that somebody waits for   messages  loops that wait on those channels: each
                a store behind a network                  looks, and most look in vain

Rounds are those of kv/postgres/snapshot.py: what a loop asked for before after the same first
question comes with that (habits.py), a scan asks page by page, a presence is a question of its own.

A catalog of any size costs nothing here: a quiet table's keys are written when one of them is first
read (`WideCatalog`), and a scan of them reads them all, and is counted.

Not in it: processor time of nodes, conflicts of steps that overlap, statements of clients, and the
automatic analysis, whose owner reads all tables once (bench/queue_memory.py has its figures).
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
"""A step's own time, so that none takes no time. Unit: s."""
NOTICE_ROUNDS = 2
"""From a commit to the woken loop: the word of it, and the counter that is read."""
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
"""What goes by the clock: no change needs it."""


# -- counting --------------------------------------------------------------------------------------


@dataclass(slots=True)
class StoreUse:
    """What was asked of the store; see the module."""

    snapshots: float = 0
    keys: float = 0
    rounds: float = 0
    commits: float = 0
    written: float = 0
    notices: float = 0
    messages: float = 0

    def add(self, other: "StoreUse", times: float = 1) -> None:
        """So many times the other comes to it."""
        for each in fields(self):
            mine: float = getattr(self, each.name)
            setattr(self, each.name, mine + times * getattr(other, each.name))

    def over(self, divisor: float) -> "StoreUse":
        """A part of it: of a second, of a change."""
        found = StoreUse()
        found.add(self, 1 / divisor)
        return found


class UseTally:
    """Uses by purpose. `step` and `habits` are those of the loop that is being stepped."""

    def __init__(self) -> None:
        self.total: defaultdict[str, StoreUse] = defaultdict(StoreUse)
        self.step: defaultdict[str, StoreUse] = defaultdict(StoreUse)
        self.purpose = ""
        self.habits = Habits()

    def use(self, purpose: str) -> StoreUse:
        """Where the present step counts for that purpose; "": its own."""
        return self.step[purpose or self.purpose]

    def begin(self, purpose: str, habits: Habits) -> None:
        """A loop is stepped."""
        self.purpose, self.habits = purpose, habits
        self.step = defaultdict(StoreUse)

    def end(self, purpose: str = "") -> None:
        """The step has ended. `purpose`: all of it was for that."""
        for own, use in self.step.items():
            self.total[purpose or own].add(use)


class CountedSnapshot(MemorySnapshot):
    """A view whose reads are counted, and the round trips that they are to a server."""

    def __init__(self, store: MemoryStore, sequence: int, use: StoreUse, habits: Habits) -> None:
        super().__init__(store, sequence)
        self._use = use
        self._habits = habits
        self._asked: dict[Question, int] = {}
        self._ahead: set[bytes] = set()
        self._known: set[bytes] = set()
        self._spans_ahead: dict[Question, int] = {}
        self._spans_known: dict[Question, int] = {}
        use.snapshots += 1

    def ahead(self, keys: Sequence[bytes]) -> None:
        self._ahead.update(keys)

    def _round(self) -> None:
        self._use.rounds += 1
        self._known |= self._ahead
        self._spans_known |= self._spans_ahead
        self._ahead.clear()
        self._spans_ahead.clear()

    def _expect(self, question: Question) -> None:
        if len(self._asked) >= Habits.LONGEST:
            return
        if not self._asked:
            for other, (rows, _) in self._habits.after(question).items():
                if len(other) == 2:
                    self._spans_ahead[other] = max(FIRST_PAGE, 2 * rows)
                else:
                    self._ahead.add(other[0])
        self._asked.setdefault(question, 0)

    def get(self, key: bytes) -> bytes | None:
        self._use.keys += 1
        self._expect((key,))
        if key not in self._known:
            self._round()
            if len(self._known) < MOST_KNOWN:
                self._known.add(key)
        return super().get(key)

    def get_many(self, keys: list[bytes]) -> dict[bytes, bytes]:
        self._use.keys += len(keys)
        for key in keys:
            self._expect((key,))
        if not self._known.issuperset(keys):
            self._round()
            self._known.update(keys)
        return super().get_many(keys)

    def scan(self, span: Span, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        left, size, question = 0, FIRST_PAGE, (span.start, span.end)
        if not reverse:
            self._expect(question)
            left = self._spans_known.get(question, 0)
        for pair in super().scan(span, reverse):
            if question in self._asked:
                self._asked[question] += 1
            if not left:
                self._round()
                left, size = size, min(2 * size, MOST_PAGE)
            left -= 1
            self._use.keys += 1
            yield pair
        if not left:
            self._round()

    def close(self) -> None:
        if self.is_open and len(self._asked) > 1:
            self._habits.keep(self._asked)
        super().close()


Committed = Callable[[Sequence[str], Iterable[bytes]], None]


class CountedStore(NodeStore):
    """A process's store. `purpose`: what all that comes this way is for; "": the loop's own."""

    def __init__(
        self, shared: MemoryStore, tally: UseTally, committed: Committed, purpose: str = ""
    ) -> None:
        super().__init__(shared, lambda: "", self._count, lambda keys, before: None)
        self._memory = shared
        self._tally = tally
        self._told = committed
        self._purpose = purpose

    def snapshot(self, use: SnapshotUse = SnapshotUse.SYSTEM) -> CountedSnapshot:
        view = self._memory.snapshot(use)
        own = self._tally.use(self._purpose)
        return CountedSnapshot(self._memory, view.sequence, own, self._tally.habits)

    def held(self, name: str) -> bool:
        self._tally.use(self._purpose).rounds += 1
        return self._memory.held(name)

    def _count(self, channels: Sequence[str], written: Iterable[bytes]) -> None:
        found = list(written)
        use = self._tally.use(self._purpose)
        use.rounds += 1
        use.commits += 1
        use.written += len(found)
        use.notices += len(channels)
        self._told(channels, found)


# -- a catalog of any size -------------------------------------------------------------------------

FIRST_TABLE = 1000
DATABASE = "wide"
_STAMP = (1).to_bytes(MemorySnapshot.skip, "little")


class WideCatalog(MemoryStore):
    """A store with so many tables of one database. Before one of its keys is first read, a quiet
    table takes no room; from then on the key is as any other."""

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
        # its owner reads all tables once, when it takes over: not what is counted here
        variables.set_global(txn, "tidb_enable_auto_analyze", "OFF")
        return database_id

    @staticmethod
    def title(table_id: int) -> str:
        """The table's name, in the order of ids."""
        return f"t{table_id:012}"

    def _name_key(self, table_id: int) -> bytes:
        return keys.meta("name", self._database_id, self.title(table_id))

    def _json(self, table_id: int) -> bytes:
        return to_json(evolve(self._info, id=table_id, name=name(self.title(table_id))))

    @property
    def touched(self) -> int:
        """Keys of quiet tables that somebody read."""
        return len(self._touched)

    def _touch(self, key: bytes) -> None:
        """Have the key stand there, if it is a quiet table's."""
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
    """What one thread, or one lock, does one after another. Unit: s."""

    def __init__(self) -> None:
        self.free_at = 0.0
        self.busy_s = 0.0


class ScheduledLoop:
    """A loop, when it is due, and which wake-ups are on their way to it."""

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
    """Where clients are."""

    seat: FrontSeat
    submitter: Submitter


class GrowthFigures(NamedTuple):
    """What one phase of one cluster needed. Of `uses`: a second. Unit: s."""

    nodes: int
    phase: str
    uses: dict[str, StoreUse]
    asked: int
    ended: int
    steps_s: list[float]
    changes_s: list[float]
    round_s: float
    owner_busy: float

    @property
    def total(self) -> StoreUse:
        """Of all but clients."""
        found = StoreUse()
        for purpose, use in self.uses.items():
            if purpose != CLIENTS:
                found.add(use)
        return found

    @property
    def step_s(self) -> float:
        """Median from one step of a change to the next; 0 where one commit has all."""
        return median(self.steps_s) if self.steps_s else 0.0

    @property
    def change_s(self) -> float:
        """Median from asking to the answer."""
        return median(self.changes_s) if self.changes_s else 0.0


class GrowingCluster:
    """See the module. The same arguments give the same figures."""

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
        """The store as a process has it."""
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
        """Processes begin at some time of a second, so their looks are not at one moment."""
        self.add(loop, self.clock.now_s + self.random.random(), lane)

    # -- time ----------------------------------------------------------------------------------

    def add(
        self, loop: Loop, due: float, lane: Lane | None = None, longest_s: float = LONGEST_S
    ) -> ScheduledLoop:
        """A loop of its own lane, or of one with others."""
        added = ScheduledLoop(loop, lane or Lane(), due, longest_s)
        self._waiting[added.channel][id(added)] = added
        self.schedule(added, due)
        return added

    def schedule(self, loop: ScheduledLoop, due: float) -> None:
        """Step it then, and not before."""
        loop.due = due
        if due < math.inf:
            heapq.heappush(self._due, (due, next(self._numbers), loop))

    def run(self, seconds: float) -> None:
        """Let so much time pass."""
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
        """The job took a step, or has ended."""
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
        """What a phase of so many seconds needs, with so many changes a second."""
        self._tally.total.clear()
        for lane in self._managers:
            lane.busy_s = 0.0
        self.steps_s = []
        people = self.people
        people.begin(0.0 if phase == IDLE else changes_s, phase == HELD)
        self.schedule(self._people, self.clock.now_s + people.pause_s / 2)
        self.run(seconds)
        uses = {each: use.over(seconds) for each, use in sorted(self._tally.total.items())}
        busy = max(lane.busy_s for lane in self._managers) / seconds
        times = list(self.steps_s), list(people.changes_s)
        ended = len(people.changes_s)
        found = GrowthFigures(
            self._nodes, phase, uses, people.asked, ended, *times, self._round_s, busy
        )
        self._drain()
        return found

    def _drain(self) -> None:
        """Let what was asked for come to its end."""
        self.schedule(self._people, math.inf)
        until = self.clock.now_s + MOST_DRAIN_S
        while self.people.busy and self.clock.now_s < until:
            self.run(1.0)
        self.run(2 * HELD_S)


_SYNC = keys.meta("sync")


def _spawn_nothing(call: Callable[[], None]) -> None:
    raise Broken("no table is analyzed here")


# -- people ----------------------------------------------------------------------------------------

_NEW = "c"
_INDEX = IndexInfo(
    id=0,
    idx_name=name("by_a"),
    idx_cols=(IndexColumn(name=name("a"), offset=1, exuvia_column=2),),
)


def next_change(database: DatabaseInfo, table: TableInfo) -> Job:
    """A column is added, an index of another one, then both go: in turn."""
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
    """Asks for the next change of a table that has none under way, at some front."""

    channel = ""

    def __init__(self, cluster: GrowingCluster, tables: Sequence[int]) -> None:
        self._cluster = cluster
        self._tables = tables
        self._free = list(tables)
        self.begin(0.0, False)

    def begin(self, rate: float, holds: bool) -> None:
        """So many changes a second from now on. `holds`: beside transactions that stay open."""
        self.pause_s = 1 / rate if rate else math.inf
        self._holds = holds
        self.asked = 0
        self.changes_s: list[float] = []

    @property
    def busy(self) -> bool:
        """Whether a change is under way."""
        return len(self._free) < len(self._tables)

    def use_tables(self) -> None:
        """Every front has every table in its cache."""
        for front in self._cluster.fronts:
            with front.seat.store.read() as txn:
                for table_id in self._tables:
                    front.seat.schemas.table(txn, DATABASE, WideCatalog.title(table_id))

    def step(self, now: float) -> float:
        """One change more."""
        if not self._free:
            return self.pause_s
        self.asked += 1
        table_id = self._free.pop()  # of the one that is free since last: all kinds in turn
        cluster = self._cluster
        if self._holds and self.asked % HELD_EVERY == 0:
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
    """A session's side of one change: submits, then looks into history when that moves."""

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
        """Submit, or look; seconds until the next look, none once it has ended."""
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
        """Begin and write; the second time commit."""
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


# -- told ------------------------------------------------------------------------------------------


def sizes_up_to(nodes: int) -> list[int]:
    """A growing number of nodes, that one last."""
    return [*(each for each in SIZES if each < nodes), nodes]


def grown(
    nodes: int,
    tables: int,
    changes_s: float,
    seconds: float,
    seed: int = 0,
    round_s: float = ROUND_S,
) -> Iterator[GrowthFigures]:
    """The figures of each phase of each size up to so many nodes."""
    for size in sizes_up_to(nodes):
        cluster = GrowingCluster(size, tables, seed, round_s)
        for phase in PHASES:
            yield cluster.measure(phase, seconds, changes_s)


def exponent(smaller: float, larger: float, times: float) -> float:
    """1: in proportion to nodes, 2: to their square, 0: flat. `times`: as many nodes."""
    return math.log(larger / smaller) / math.log(times) if smaller and larger else 0.0


HEADER = (
    "nodes  phase      keys/s  rounds/s  snaps/s  commits/s  written/s  notices/s  messages/s"
    "    ended  step ms  rounds  change ms, most  owner busy"
)


def told_figures(found: GrowthFigures) -> str:
    """A line of the table."""
    use = found.total
    most_ms = 1000 * max(found.changes_s, default=0.0)
    return (
        f"{found.nodes:>5}  {found.phase:<8} {use.keys:>8,.0f} {use.rounds:>9,.0f}"
        f" {use.snapshots:>8,.0f} {use.commits:>10,.1f} {use.written:>10,.1f}"
        f" {use.notices:>10,.1f} {use.messages:>11,.0f} {f'{found.ended}/{found.asked}':>8}"
        f" {1000 * found.step_s:>8.1f} {found.step_s / found.round_s:>7.0f}"
        f" {1000 * found.change_s:>10.0f} {most_ms:>5.0f} {found.owner_busy:>11.0%}"
    )


def told_purposes(found: GrowthFigures) -> str:
    """Who asked for it."""
    lines = [f"{found.nodes} nodes, {found.phase}: a second"]
    lines += [
        f"  {purpose:<20} keys {use.keys:>9,.0f}  rounds {use.rounds:>8,.0f}  commits"
        f" {use.commits:>7,.1f}  notices {use.notices:>7,.1f}  messages {use.messages:>8,.0f}"
        for purpose, use in sorted(found.uses.items(), key=lambda each: -each[1].rounds)
    ]
    return "\n".join(lines)


def per_change(idle: GrowthFigures, busy: GrowthFigures, seconds: float) -> StoreUse:
    """What one change needs beyond an idle cluster."""
    found = StoreUse()
    for purpose in busy.uses.keys() - TIMED:
        found.add(busy.uses[purpose])
        found.add(idle.uses.get(purpose, StoreUse()), -1)
    return found.over(max(busy.ended, 1) / seconds)


def told_growth(found: Sequence[GrowthFigures], seconds: float) -> str:
    """What a change needs at each size, and the exponents between the last two."""
    sizes = sorted({each.nodes for each in found})
    at = {(each.nodes, each.phase): each for each in found}
    lines = ["a node, idle, a second:    keys     rounds    commits    notices   messages"]
    lines += [
        f"{nodes:>5} nodes           {_told_use(at[nodes, IDLE].total.over(nodes))}"
        for nodes in sizes
    ]
    lines.append("a change, beyond idle:     keys     rounds    commits    notices   messages")
    for nodes in sizes:
        for phase in (CHANGES, HELD):
            use = per_change(at[nodes, IDLE], at[nodes, phase], seconds)
            lines.append(f"{nodes:>5} nodes, {phase:<8} {_told_use(use)}")
    if len(sizes) > 1:
        less, more = sizes[-2:]
        lines.append(f"exponents, {less} to {more} nodes: 1 is in proportion, 2 the square")
        for phase in PHASES:
            one, other = at[less, phase].total, at[more, phase].total
            texts = []
            for each in fields(StoreUse):
                grew = exponent(getattr(one, each.name), getattr(other, each.name), more / less)
                texts.append(f"{each.name} {grew:.1f}")
            lines.append(f"  {phase:<8} {', '.join(texts)}")
    return "\n".join(lines)


def _told_use(use: StoreUse) -> str:
    return (
        f"{use.keys:>10,.0f} {use.rounds:>10,.0f} {use.commits:>10,.1f} {use.notices:>10,.1f}"
        f" {use.messages:>10,.0f}"
    )


# -- drawn -----------------------------------------------------------------------------------------

ACROSS, WIDTH, HEIGHT, LEFT, TOP, APART = 2, 260, 220, 60, 50, 240
COLOURS = ("#084594", "#e6550d", "#31a354", "#756bb1", "#636363", "#d6aa00", "#c51b8a", "#17becf")
SHOWN = 8


class Panel(NamedTuple):
    """Lines over the number of nodes, both axes logarithmic."""

    title: str
    lines: dict[str, list[float]]


def panels(found: Sequence[GrowthFigures]) -> list[Panel]:
    """What is drawn."""
    sizes = sorted({each.nodes for each in found})
    at = {(each.nodes, each.phase): each for each in found}

    def by_phase(read: Callable[[GrowthFigures], float], *phases: str) -> dict[str, list[float]]:
        return {phase: [read(at[nodes, phase]) for nodes in sizes] for phase in phases}

    def by_purpose(phase: str, what: str) -> dict[str, list[float]]:
        largest = at[sizes[-1], phase].uses
        ranked = sorted(largest, key=lambda each: -float(getattr(largest[each], what)))[:SHOWN]
        return {
            each: [getattr(at[n, phase].uses.get(each, StoreUse()), what) for n in sizes]
            for each in ranked
            if getattr(largest[each], what) > 0
        }

    return [
        Panel("keys read a second", by_phase(lambda each: each.total.keys, *PHASES)),
        Panel("messages a second", by_phase(lambda each: each.total.messages, *PHASES)),
        Panel("commits a second", by_phase(lambda each: each.total.commits, *PHASES)),
        Panel("a step's time, ms", by_phase(lambda each: 1000 * each.step_s, CHANGES, HELD)),
        Panel("rounds a second, idle", by_purpose(IDLE, "rounds")),
        Panel("rounds a second, changes", by_purpose(CHANGES, "rounds")),
        Panel("rounds a second, held", by_purpose(HELD, "rounds")),
        Panel("messages a second, changes", by_purpose(CHANGES, "messages")),
    ]


def drawn(found: Sequence[GrowthFigures], about: str) -> str:
    """The figures as an SVG."""
    sizes = sorted({each.nodes for each in found})
    shown = panels(found)
    width, high = LEFT + ACROSS * (WIDTH + APART), HEIGHT + 2 * TOP
    rows = math.ceil(len(shown) / ACROSS)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{rows * high + 30}"'
        ' font-family="sans-serif" font-size="11">',
        f'<text x="{LEFT}" y="18" font-size="13">{about}</text>',
    ]
    for n, panel in enumerate(shown):
        left, top = LEFT + n % ACROSS * (WIDTH + APART), 30 + n // ACROSS * high
        parts += _panel(panel, sizes, left, top)
    return "\n".join([*parts, "</svg>", ""])


def _panel(panel: Panel, sizes: Sequence[int], left: float, top: float) -> Iterator[str]:
    values = [each for line in panel.lines.values() for each in line if each > 0] or [1.0]
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
    for title, line in sorted(panel.lines.items(), key=lambda each: -each[1][-1]):
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
