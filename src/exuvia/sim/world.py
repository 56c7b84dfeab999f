"""Two nodes of two processes each, a schema change, and a seed that interleaves them.

A step: some actor that is due (seldom: one that is not) does at most one transaction. Before it, a
process may be paused, as long as several leases; at any commit it may be killed, before or after;
a commit's wake-ups may be lost; at one version the owners linger. After every commit
the laws are judged that read what it wrote.
"""

import math
from collections.abc import Iterable, Sequence
from functools import cache
from random import Random

from exuvia.catalog import meta
from exuvia.catalog.bootstrap import bootstrap
from exuvia.catalog.model import DatabaseInfo, name
from exuvia.catalog.sysvar import variables
from exuvia.ddl import delete_range
from exuvia.ddl.codes import ActionCode
from exuvia.kv.memory import MemoryStore
from exuvia.sim import laws, news, process
from exuvia.sim.change import PLANS, Asker, Plan, table_of_the_world
from exuvia.sim.clock import SkewedClock, TrueClock
from exuvia.sim.faulty import Killed, NodeStore
from exuvia.sim.history import History
from exuvia.sim.process import LEASE_S, THOUGHTS_S, Actor, Process
from exuvia.sim.process import clients as process_clients
from exuvia.sim.seat import Seat
from exuvia.sim.session import HANDLES, PACES_S, Session

KILLS_A_COMMIT = 0.01
PAUSES_A_STEP = 0.004
LOST_WAKE_UPS = 0.1
EARLY_STEPS = 0.05
PAUSED_S = 2 * LEASE_S
LINGERS_S = 0.3
LINGERS_LATER_S = 0.1
BURSTS = 0.7
NEWS_SHARE = 0.25
ASKED_S = 0.05
CALM_S = 0.3


@cache
def template(indexed: bool) -> tuple[MemoryStore, int]:
    """A bootstrapped store with the database `world` and its table; the table's id."""
    store = MemoryStore()
    bootstrap(store)
    txn = store.begin()
    database_id = meta.next_ids(txn, 2)
    table_id = database_id + 1
    meta.put_database(txn, DatabaseInfo(id=database_id, db_name=name("world")))
    meta.put_table(txn, table_of_the_world(database_id, table_id, indexed))
    meta.publish(
        txn,
        type=int(ActionCode.CREATE_TABLE),
        schema_id=database_id,
        table_id=table_id,
        bumps={table_id: meta.STEP},
        database_bumps={database_id: meta.STEP},
    )
    txn.commit()
    return store, table_id


class World:
    """See the module. Raises verdict.Broke from `step` when a law does not hold."""

    def __init__(self, seed: int, plans: Sequence[Plan] = PLANS) -> None:
        self.random = Random(seed)
        self.true = TrueClock()
        self.history = History()
        self.faults = True
        self.crashes = 0
        self.plan = self.random.choice(plans)
        self.shared = self._stored()
        self.handles = self.random.choice(HANDLES)
        self.span_rows = self.random.choice((2, 10))
        self.verifies = self.random.random() < 0.5
        self.thought_s = self.random.choice(THOUGHTS_S)
        self.lingers_at = self.random.randrange(1, 5)
        self.lingers_from = math.inf
        self.lingers_until = 0.0
        self.bursts = self.random.random() < BURSTS
        self.versions = 0
        self._unquiet_at = -1
        self._lock_metadata(self.random.random() < 0.5)
        self.people = NodeStore(self.shared, lambda: "", self._committed, self._filled)
        self.processes: list[Process] = []
        self.askers = self._askers()
        self._outside: list[tuple[Process | None, Actor]] = []
        for asker in self.askers:
            person = Actor("person", asker)
            person.due = self.random.random() * ASKED_S
            self._outside.append((None, person))
        self.teller = self._teller(seed)
        self.processes = [self._process(f"{kind}{n}") for n in (1, 2) for kind in ("front", "back")]
        for each in self.processes:
            self._start(each)

    def _stored(self) -> MemoryStore:
        """What there is at the beginning."""
        prepared, self.table_id = template(self.plan.indexed)
        self._reads = laws.reads(self.table_id)
        return prepared.fork()

    def _askers(self) -> list[Asker]:
        """Who asks for schema changes."""
        return [Asker(self.people, self.plan, self.table_id, self.random)]

    def _clients(self, seat: Seat, process: Process, thinking_s: tuple[float, ...]) -> list[Actor]:
        """Who reads and writes rows at a front."""
        return process_clients(seat, process, self.random, self.history, thinking_s, self.handles)

    def _lock_metadata(self, locks: bool) -> None:
        """With the lock, owners wait for old plans; without it, the fence refuses them (8028)."""
        txn = self.shared.begin()
        variables.set_global(txn, "tidb_enable_metadata_lock", "ON" if locks else "OFF")
        txn.commit()

    def _teller(self, seed: int) -> news.Teller | None:
        """In one world of four events are told: in a random order of their own, so that the other
        worlds are what they would be without."""
        self._news_random = Random(f"news {seed}")
        if self._news_random.random() >= NEWS_SHARE:
            return None
        table = table_of_the_world(1, self.table_id, False)
        teller = news.Teller(self.people, table, self._news_random)
        self._outside.append((None, Actor("teller", teller)))
        return teller

    # -- processes ------------------------------------------------------------------

    def _process(self, title: str) -> Process:
        if title.startswith("front"):
            thinking_s = self.random.choice(PACES_S)
            return Process(
                title, lambda p: process.front(p, lambda seat: self._clients(seat, p, thinking_s))
            )
        verify = "full" if self.verifies else "off"
        settings = process.SETTINGS._replace(verify=verify, span_rows=self.span_rows)
        news_random = self._news_random if self.teller is not None else None
        return Process(title, lambda p: process.back(p, self.random, settings, news_random))

    def _start(self, each: Process) -> None:
        view = NodeStore(self.shared, self._fate, self._committed, self._filled)
        clock = SkewedClock(
            self.true, self.random.choice((0.5, 1.0, 2.0)), self.random.random() * 1000
        )
        try:
            each.start(view, clock)
        except Killed:
            self._crashed(each)

    def _crashed(self, each: Process) -> None:
        self.crashes += 1
        self.history.note(f"{each.name} is killed")
        each.kill(self.true.now_s + self.random.random() * LEASE_S)

    # -- what a commit meets ------------------------------------------------------------------

    def _fate(self) -> str:
        if not self.faults or self.random.random() >= KILLS_A_COMMIT:
            return ""
        return self.random.choice(("before", "after"))

    def _judge(self, written: Iterable[bytes]) -> None:
        """The laws that read what a commit wrote."""
        sealed = False
        if self.history.is_attempted:
            txn = self.shared.begin()
            revision = meta.revision(txn, self.table_id)
            txn.rollback()
            sealed = self.history.sealed(revision)
        if sealed or laws.touched(written, self._reads):
            laws.check(self.shared, self.table_id, self.history)
            laws.seen_whole(self.shared, self.table_id, self.plan.views)

    def judge_end(self) -> None:
        """What must hold once all has converged. Raises Broke."""
        laws.check_end(self.shared, self.table_id)
        for asker in self.askers:
            laws.check_job(asker.ended())
        if self.teller is not None:
            news.judge_end(self.shared, self.teller)

    def _committed(self, channels: Sequence[str], written: Iterable[bytes]) -> None:
        self._judge(written)
        if self.teller is not None and laws.touched(written, news.reads()):
            news.judge(self.shared)
        if "version" in channels:
            self.versions += 1
            self._linger()
            self._rouse()
        for channel in channels:
            for actor in self._actors():
                if actor.channel == channel and not self._is_lost():
                    actor.due = self.true.now_s

    def _linger(self) -> None:
        """The owners stand still for a while, longest in one step of the job."""
        if self.versions in (self.lingers_at - 1, self.lingers_at):
            longest = self.versions == self.lingers_at
            self.lingers_from = self.true.now_s + self.random.random() * LINGERS_LATER_S
            self.lingers_until = self.lingers_from + (LINGERS_S if longest else LINGERS_LATER_S)

    def _is_busy(self, now: float) -> bool:
        """Whether clients work at their pace. In a burst: in the step where the owners linger, and
        in the one before it."""
        if not self.faults:
            return False
        if not self.bursts:
            return True
        begun = self.versions >= self.lingers_at - 1
        return begun and (self.versions < self.lingers_at or now < self.lingers_until)

    def _rouse(self) -> None:
        """A burst may begin with a version."""
        now = self.true.now_s
        if self._is_busy(now):
            for actor in self._actors():
                if isinstance(actor.loop, Session):
                    actor.due = min(actor.due, now + self.random.random() * 0.02)

    def _is_lost(self) -> bool:
        return self.faults and self.random.random() < LOST_WAKE_UPS

    def _filled(self, keys: Sequence[bytes], before: dict[bytes, bytes | None]) -> None:
        laws.fill_left_alone(self.shared, keys, before)

    # -- time ------------------------------------------------------------------

    def _actors(self) -> list[Actor]:
        return [actor for each in self.processes for actor in each.actors]

    def step(self) -> None:
        """One step of somebody."""
        if self.faults and self.random.random() < PAUSES_A_STEP:
            self._pause(self.random.choice(self.processes))
        owner, actor = self._choose()
        self.true.now_s += self.random.random() * 0.002
        self._run(owner, actor)

    def _pause(self, each: Process) -> None:
        each.paused_until = self.true.now_s + self.random.random() * PAUSED_S
        self.history.note(f"{each.name} is stopped")

    def _choose(self) -> tuple[Process | None, Actor]:
        """One of those that are due, seldom anybody. While nobody is, time goes on."""
        early = self.random.random() < EARLY_STEPS
        while True:
            now, later = self.true.now_s, math.inf
            ready: list[tuple[Process | None, Actor]] = [*self._outside]
            for each in self.processes:
                runs_at = self._runs_at(each)
                if runs_at > now:
                    later = min(later, runs_at)
                    continue
                if not each.places:
                    self._start(each)
                ready += each.places
            due = ready if early else [place for place in ready if place[1].due <= now]
            if due:
                return self.random.choice(due)
            self.true.now_s = min([later, *[place[1].due for place in ready]])

    def _runs_at(self, each: Process) -> float:
        """Not before it is started again, nor while it is paused or every back lingers."""
        if not each.places:
            return each.restart_at
        if not self.faults:
            return 0.0
        lingers = each.is_back and self.lingers_from <= self.true.now_s < self.lingers_until
        return max(self.lingers_until, each.paused_until) if lingers else each.paused_until

    def _run(self, owner: Process | None, actor: Actor) -> None:
        clock_s = self.true.now_s
        if owner is None or owner.clock is None:
            actor.due = clock_s + actor.loop.step(clock_s)
            return
        try:
            wanted_s = actor.loop.step(owner.clock.monotonic())
        except Killed:
            self._crashed(owner)
            return
        if isinstance(actor.loop, Session) and actor.loop.is_idle and not self._is_busy(clock_s):
            over = not self.faults and self.changes_are_over()
            wanted_s = math.inf if over else self.random.random() * CALM_S
        elif self.faults:
            wanted_s = max(wanted_s, self.random.random() * self.thought_s)
        actor.due = clock_s + wanted_s

    def changes_are_over(self) -> bool:
        """Whether every job is in history."""
        return all(asker.ended() is not None for asker in self.askers)

    def late_tasks(self) -> int:
        """Fill tasks that still run though nobody waits for them."""
        loops = (actor.loop for actor in self._actors())
        return sum(len(loop.reorgs) for loop in loops if isinstance(loop, process.Stragglers))

    # -- the end ------------------------------------------------------------------

    def converged(self) -> bool:
        """The job is in history, every event was told, deferred deletion has nothing left."""
        if not self.changes_are_over() or self.late_tasks():
            return False
        if self.shared.sequence == self._unquiet_at:
            return False  # nothing was committed since it was looked at
        self._unquiet_at = self.shared.sequence
        if self.teller is not None and not news.is_quiet(self.shared, self.teller):
            return False
        txn = self.shared.begin()
        try:
            return not any(True for _ in delete_range.waiting(txn))
        finally:
            txn.rollback()
