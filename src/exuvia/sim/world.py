"""Two nodes of two processes each, a schema change, and a seed that interleaves them.

A step: one actor that is due (rarely one that is not) runs at most one transaction. Before it, a
process may be paused for several leases. At any commit it may be killed, before or after, and a
commit's wake-ups may be lost. After every commit, the laws that read the written keys are judged.

A law typically breaks in a few states of the job, between a few transactions. With realistic clocks
a job takes only as long as some commits. So a seed draws a window for each version of the job: a
number of client steps that come before the owner continues. The answers of some fronts come after
the window. While a task runs, more client steps come between its transactions. Outside of windows
clients begin nothing, and end their transactions in their own time, perhaps in the next window.

The value of a world is its coverage (`visited`). It lists commits of clients by the age of their
plan, the state of the elements, and the accident before.

A seed has two phases: safety with faults, then the faults stop and the world must converge.
"""

import gc
import math
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from itertools import islice
from multiprocessing import get_context
from random import Random
from typing import NamedTuple

from exuvia.base.errors import Refused
from exuvia.catalog import meta, writer
from exuvia.catalog.bootstrap import bootstrap
from exuvia.catalog.model import STATE_TEXT, DatabaseInfo, SchemaState, name
from exuvia.catalog.sysvar import variables
from exuvia.ddl import delete_ranges
from exuvia.ddl.job import ActionCode
from exuvia.kv.memory import MemoryStore
from exuvia.kv.transaction import Transaction
from exuvia.sim import laws, news, process
from exuvia.sim.change import PLANS, ChangePlan, ChangeSubmitter, table_of_the_world
from exuvia.sim.laws import History, LawBroken, SeedVerdict, broken_by
from exuvia.sim.process import (
    LEASE_S,
    THOUGHTS_S,
    Actor,
    Killed,
    NodeStore,
    SimulatedProcess,
    SkewedClock,
    TrueClock,
)
from exuvia.sim.process import clients as process_clients
from exuvia.sim.session import HANDLES, PACES_S, VALUES, FrontSeat, SimulatedSession

PUBLIC = SchemaState.PUBLIC
Visit = tuple[str, str, int, str]

KILLS_A_COMMIT = 0.01
PAUSES_A_STEP = 0.002
LOST_WAKE_UPS = 0.1
EARLY_STEPS = 0.03
PAUSED_S = 2 * LEASE_S
NEWS_SHARE = 0.125
ASKED_S = 0.05
CALM_S = 0.3
BUSY_SHARE = 0.1
IN_TASK, EVENLY = -1, -2
FOCUS = (0, 1, 1, 1, 1, 2, 2, 2, 2, 2, 3, 3, 4, IN_TASK, IN_TASK, IN_TASK, IN_TASK, EVENLY)
STEPS_BEFORE, STEPS_AT_FOCUS, STEPS_ELSEWHERE = (0, 6, 10), (12, 24, 48), (0, 0, 0, 0, 4)
BETWEEN = (0.0, 0.3, 0.8)
FEW = (2, 8)
TASK_STEPS = range(1, 9)
ROWS_SHARE = 0.6
DELAYED_SHARE = 0.3
PATIENCE = 8.0
GOES_ON = 0.6
IMPATIENT_S = 0.02


class ClientWindow(NamedTuple):
    """A number of client steps. `between`: probability of client steps after a task's step;
    `delayed`: fronts that answer after the window."""

    between: float
    few: int
    delayed: frozenset[str]  # fronts


@cache
def template(indexed: bool) -> tuple[MemoryStore, int]:
    """Returns a bootstrapped store with the database `world` and its table, and the table's id."""
    store = MemoryStore()
    bootstrap(store)

    def create(txn: Transaction) -> int:
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
        return table_id

    return store, store.transact(create)


class World:
    """A simulated cluster. `step` raises LawBroken if a law does not hold."""

    titles = "front1", "back1", "front2", "back2"

    def __init__(self, seed: int, plans: Sequence[ChangePlan] = PLANS) -> None:
        self.random = Random(seed)
        self.true = TrueClock()
        self.history = History()
        self.faults = True
        self.crashes = 0
        self.plan = self.random.choice(plans)
        self.shared = self._stored()
        self.visited: set[Visit] = set()
        self.accident = ""
        self.handles = self.random.choice(HANDLES)
        self.values = self.random.choice(VALUES)
        self._populate()
        self.span_rows = self.random.choice((2, 10))
        self.verifies = self.random.random() < 0.5
        self.thought_s = self.random.choice(THOUGHTS_S)
        self.is_busy = self.random.random() < BUSY_SHARE
        self.focus = self.random.choice(FOCUS)
        self.versions = 0
        self.window = ClientWindow(0.0, 1, frozenset())
        self.latest: tuple[SimulatedProcess | None, Actor] | None = None  # in a window
        self.client_steps = 0  # client steps until the owners continue
        self.until_window = self.random.choice(TASK_STEPS)  # steps of tasks
        self._unquiet_at = -1
        # With the lock, owners wait for old plans; without it, the fence refuses them (8028)
        metadata_lock = "ON" if self.random.random() < 0.5 else "OFF"
        self.shared.transact(
            lambda txn: variables.set_global(txn, "tidb_enable_metadata_lock", metadata_lock)
        )
        self.people = NodeStore(self.shared, lambda: "", self._committed, self._filled)
        self.processes: list[SimulatedProcess] = []
        self.submitters = self._submitters()
        self._outside: list[tuple[SimulatedProcess | None, Actor]] = []
        self._people = [Actor("person", submitter) for submitter in self.submitters]
        for person in self._people:
            person.due = self.random.random() * ASKED_S
            self._outside.append((None, person))
        self.event_source = self._event_source(seed)
        self.processes = [self._process(title) for title in self.titles]
        for process_ in self.processes:
            self._start(process_)

    def _stored(self) -> MemoryStore:
        """Returns the initial store."""
        prepared, self.table_id = template(self.plan.indexed)
        self._reads = laws.reads(self.table_id)
        return prepared.fork()

    def _populate(self) -> None:
        """Inserts the initial rows."""

        def insert(txn: Transaction) -> None:
            table = laws.present_table(txn, self.table_id)
            assert table is not None
            for number in self.handles:
                if self.random.random() < ROWS_SHARE:
                    row = [number, self.random.choice(self.values), self.random.choice(self.values)]
                    try:
                        writer.insert(txn, table, row)
                    except Refused:
                        continue
                    values: dict[str, object] = dict(zip(["id", "a", "b"], row, strict=True))
                    self.history.add(laws.RowChange(number, values))

        self.shared.transact(insert)

    def _submitters(self) -> list[ChangeSubmitter]:
        """Returns the submitters of schema changes."""
        return [ChangeSubmitter(self.people, self.plan, self.table_id, self.random)]

    def _clients(
        self, seat: FrontSeat, process: SimulatedProcess, thinking_s: tuple[float, ...]
    ) -> list[Actor]:
        """Returns a front's clients."""
        return process_clients(
            seat,
            process,
            self.random,
            self.history,
            thinking_s,
            (self.handles, self.values),
            lambda: self.versions,
        )

    def _event_source(self, seed: int) -> news.EventSource | None:
        """Returns an event source in one world of eight. It has a random generator of its own, so
        the other worlds are the same as without it."""
        self._news_random = Random(f"news {seed}")
        if self._news_random.random() >= NEWS_SHARE:
            return None
        table = table_of_the_world(1, self.table_id, False)
        event_source = news.EventSource(self.people, table, self._news_random)
        self._outside.append((None, Actor("event_source", event_source)))
        return event_source

    # -- processes ------------------------------------------------------------------

    def _process(self, title: str) -> SimulatedProcess:
        if title.startswith("front"):
            thinking_s = self.random.choice(PACES_S)
            return SimulatedProcess(
                title, lambda p: process.front(p, lambda seat: self._clients(seat, p, thinking_s))
            )
        verify = "full" if self.verifies else "off"
        settings = process.SETTINGS._replace(verify=verify, span_rows=self.span_rows)
        news_random = self._news_random if self.event_source is not None else None
        return SimulatedProcess(
            title, lambda p: process.back(p, self.random, settings, news_random)
        )

    def _start(self, started: SimulatedProcess) -> None:
        view = NodeStore(self.shared, self._fate, self._committed, self._filled)
        clock = SkewedClock(
            self.true, self.random.choice((0.5, 1.0, 2.0)), self.random.random() * 1000
        )
        try:
            started.start(view, clock)
        except Killed:
            self._crashed(started)

    def _crashed(self, killed: SimulatedProcess) -> None:
        self.crashes += 1
        self.accident = f"{'back' if killed.is_back else 'front'} killed"
        self.history.note(f"{killed.name} is killed")
        killed.kill(self.true.now_s + self.random.random() * LEASE_S)

    # -- commits ------------------------------------------------------------------------------

    def _fate(self) -> str:
        if not self.faults or self.random.random() >= KILLS_A_COMMIT:
            return ""
        return self.random.choice(("before", "after"))

    def _judge(self, written: Iterable[bytes]) -> None:
        """Judges the laws that read the written keys."""
        if not self.history.is_attempted and not laws.touched(written, self._reads):
            return
        with self.shared.read() as txn:
            if self.history.is_attempted:
                lag = self.history.sealed(meta.revision(txn, self.table_id))
                self.visited.add((self.plan.title, self._states(txn), lag, self.accident))
            laws.check(txn, self.table_id, self.history, self.plan.views)

    def _states(self, txn: Transaction) -> str:
        """Returns the states of the elements that are not public, as text."""
        table = laws.present_table(txn, self.table_id)
        if table is None:
            return "dropped"
        states: str | None = table.caches.get("sim states")
        if states is None:
            elements = [(c.name.L, c.state) for c in table.info.cols]
            elements += [(index.idx_name.L, index.state) for index in table.info.indexes]
            table.caches["sim states"] = states = ", ".join(
                f"{name} {STATE_TEXT[state]}" for name, state in elements if state != PUBLIC
            )
        return states

    def judge_end(self) -> None:
        """Checks everything that must hold after convergence. Raises LawBroken."""
        laws.check_end(self.shared, self.table_id)
        for submitter in self.submitters:
            laws.check_job(submitter.ended())
        if self.event_source is not None:
            news.judge_end(self.shared, self.event_source)

    def _committed(self, channels: Sequence[str], written: Iterable[bytes]) -> None:
        self._judge(written)
        if self.event_source is not None and laws.touched(written, news.reads()):
            news.judge(self.shared)
        if "version" in channels:
            self.versions += 1
            self._open_window()
        elif not self.versions and "job" in channels:
            self._open_window()
        for actor, submitter in zip(self._people, self.submitters, strict=True):
            if submitter.wants_to_cancel(self.versions, channels):
                actor.due = self.true.now_s + self.random.random() * IMPATIENT_S
        for channel in channels:
            for actor in self._actors():
                if actor.channel == channel and not self._is_lost():
                    actor.due, actor.patience = self.true.now_s, 1.0

    def _open_window(self) -> None:
        """Opens a window, after a step of the job was published."""
        near = self.focus - self.versions
        before = near == 1 or self.focus == EVENLY
        if self.faults:
            lengths = STEPS_BEFORE if before else STEPS_AT_FOCUS if near == 0 else STEPS_ELSEWHERE
            self.client_steps = max(self.client_steps, self.random.choice(lengths))
        fronts = (process_.name for process_ in self.processes if not process_.is_back)
        delayed = frozenset(front for front in fronts if self.random.random() < DELAYED_SHARE)
        between = self.random.choice(BETWEEN) if near == 0 or self.focus < 0 else 0.0
        self.window = ClientWindow(between, self.random.choice(FEW), delayed)

    def _is_lost(self) -> bool:
        return self.faults and self.random.random() < LOST_WAKE_UPS

    def _filled(self, keys: Sequence[bytes], before: dict[bytes, bytes | None]) -> None:
        laws.require_fill_kept(self.shared, keys, before)

    # -- time ------------------------------------------------------------------

    def _actors(self) -> list[Actor]:
        return [actor for process_ in self.processes for actor in process_.actors]

    def step(self) -> None:
        """Runs one step of an actor."""
        if self.faults and self.random.random() < PAUSES_A_STEP:
            self._pause(self.random.choice(self.processes))
        owner, actor = self._choose()
        self.true.now_s += self.random.random() * 0.002
        self._run(owner, actor)

    def _pause(self, paused: SimulatedProcess) -> None:
        self.accident = f"{'back' if paused.is_back else 'front'} stopped"
        paused.paused_until = self.true.now_s + self.random.random() * PAUSED_S
        self.history.note(f"{paused.name} is stopped")

    def _choose(self) -> tuple[SimulatedProcess | None, Actor]:
        """Returns an actor that is due, rarely any other. Advances the time until one is due."""
        if self.client_steps > 0:
            self.client_steps -= 1
            chosen = self._in_window()
            if chosen is not None:
                return chosen
        early = self.random.random() < EARLY_STEPS
        while True:
            now, later = self.true.now_s, math.inf
            ready: list[tuple[SimulatedProcess | None, Actor]] = [*self._outside]
            for process_ in self.processes:
                runs_at = self._runs_at(process_)
                if runs_at > now:
                    later = min(later, runs_at)
                    continue
                if not process_.places:
                    self._start(process_)
                ready += process_.places
            due = ready if early else [place for place in ready if place[1].due <= now]
            if due:
                return self.random.choice(due)
            self.true.now_s = min([later, *[place[1].due for place in ready]])

    def _in_window(self) -> tuple[SimulatedProcess | None, Actor] | None:
        """Returns a client, often the previous one, because clients in turn would only conflict.
        Or returns another due actor of a front that is not delayed."""
        now = self.true.now_s
        candidates: list[tuple[SimulatedProcess | None, Actor]] = []
        for process_ in self.processes:
            if not process_.is_back and process_.places and self._runs_at(process_) <= now:
                is_delayed = process_.name in self.window.delayed
                candidates += [
                    (owner, actor)
                    for owner, actor in process_.places
                    if (actor.is_client and not self._sleeps(actor))
                    or (actor.due <= now and not is_delayed)
                ]
        if self.latest in candidates and self.random.random() < GOES_ON:
            return self.latest
        self.latest = self.random.choice(candidates) if candidates else None
        return self.latest

    def _sleeps(self, actor: Actor) -> bool:
        return isinstance(actor.loop, SimulatedSession) and actor.loop.sleeps(
            self.versions, self.client_steps
        )

    def _runs_at(self, process_: SimulatedProcess) -> float:
        """Returns the time of restart, or of the end of a pause."""
        if not process_.places:
            return process_.restart_at
        return process_.paused_until if self.faults else 0.0

    def _run(self, owner: SimulatedProcess | None, actor: Actor) -> None:
        clock_s, before = self.true.now_s, self.shared.sequence
        if owner is None or owner.clock is None:
            actor.due = clock_s + actor.loop.step(clock_s)
            return
        try:
            rest_s = actor.loop.step(owner.clock.monotonic())
        except Killed:
            self._crashed(owner)
            return
        if actor.is_client:
            rest_s = self._rest_of(actor, rest_s)
        elif self.shared.sequence != before:
            actor.patience = 1.0
        elif rest_s and actor.may_wait:  # nothing to do: it polls less and less often
            rest_s *= actor.patience
            actor.patience = min(2 * actor.patience, PATIENCE)
        if self.faults:
            rest_s = max(rest_s, self.random.random() * self.thought_s)
            if actor.is_task and self.focus == IN_TASK:
                self.until_window -= 1  # a window may open at this step of a task
                if not self.until_window:
                    self.client_steps = max(self.client_steps, self.random.choice(STEPS_AT_FOCUS))
            if actor.is_task and self.random.random() < self.window.between:
                self.client_steps = max(
                    self.client_steps, self.random.randrange(self.window.few) + 1
                )
        actor.due = clock_s + rest_s

    def _rest_of(self, actor: Actor, rest_s: float) -> float:
        """Returns a client's rest; an idle client rests until the next window."""
        if not getattr(actor.loop, "is_idle", False):
            return rest_s
        if not self.faults and self.changes_are_over():
            return math.inf
        if not isinstance(actor.loop, SimulatedSession):
            return rest_s
        return self.random.random() * CALM_S if self.is_busy and self.faults else math.inf

    def changes_are_over(self) -> bool:
        """Whether every job is in history."""
        return all(submitter.ended() is not None for submitter in self.submitters)

    def late_tasks(self) -> int:
        """Returns the number of abandoned fill tasks that still run."""
        loops = (actor.loop for actor in self._actors())
        return sum(len(loop.reorgs) for loop in loops if isinstance(loop, process.Stragglers))

    # -- the end ------------------------------------------------------------------

    def converged(self) -> bool:
        """Whether all jobs are in history, all events delivered, and no deletion is pending."""
        if not self.changes_are_over() or self.late_tasks():
            return False
        if self.shared.sequence == self._unquiet_at:
            return False  # no commit since the last check
        self._unquiet_at = self.shared.sequence
        if self.event_source is not None and not news.is_quiet(self.shared, self.event_source):
            return False
        with self.shared.read() as txn:
            return not any(True for _ in delete_ranges.pending_ranges(txn))


# -- seeds -----------------------------------------------------------------------------------------

FAULTY_STEPS = 260
MOST_STEPS = 20_000
BATCH_SEEDS = 20


def simulate(seed: int, plans: Sequence[ChangePlan] = PLANS) -> SeedVerdict:
    """Returns the verdict of a seed with one of `plans` as its change."""
    return play(World(seed, plans), seed)


def play(world: World, seed: int) -> SeedVerdict:
    """Runs a world and returns its verdict, which depends only on the store."""
    steps, broken = 0, None
    try:
        for steps in range(1, MOST_STEPS):
            world.step()
            looks = steps % 8 == 0
            if world.faults and (steps >= FAULTY_STEPS or (looks and world.changes_are_over())):
                world.faults = False
            if looks and not world.faults and world.converged():
                break
        else:
            raise LawBroken("liveness", f"not converged after {MOST_STEPS} steps")
        world.judge_end()
    except Exception as error:  # the search continues, and reports the seed
        broken = broken_by(error)
    jobs = [submitter.ended() for submitter in world.submitters]
    endings = [job.state.name.lower() if job is not None else "unfinished" for job in jobs]
    return SeedVerdict(
        seed,
        world.plan.title,
        ", ".join(endings),
        steps,
        world.history.commits,
        world.crashes,
        broken,
        tuple(world.history.trace),
        frozenset(world.visited),
    )


def search(
    seeds: Iterable[int], judge: Callable[[int], SeedVerdict] = simulate
) -> Iterator[SeedVerdict]:
    """Yields verdicts in the order of seeds. All cores are used: seeds are independent.

    `judge`: a module-level function, which other processes import."""
    workers = len(os.sched_getaffinity(0))
    batches = _batches(seeds)
    pool = ProcessPoolExecutor(workers, get_context("spawn"))
    try:
        waiting = deque(pool.submit(_all, judge, batch) for batch in islice(batches, 2 * workers))
        while waiting:
            yield from waiting.popleft().result()
            waiting.extend(pool.submit(_all, judge, batch) for batch in islice(batches, 1))
    finally:
        pool.shutdown(cancel_futures=True)


def _batches(seeds: Iterable[int]) -> Iterator[list[int]]:
    numbers = iter(seeds)
    while batch := list(islice(numbers, BATCH_SEEDS)):
        yield batch


def _all(judge: Callable[[int], SeedVerdict], seeds: Sequence[int]) -> list[SeedVerdict]:
    # Collecting cycles repeatedly takes a seventh of a seed's time; a batch retains a few MB.
    gc.collect()
    gc.disable()
    return [judged(judge, seed) for seed in seeds]


def judged(judge: Callable[[int], SeedVerdict], seed: int) -> SeedVerdict:
    """Returns the seed's verdict, even if its world could not be created."""
    try:
        return judge(seed)
    except Exception as error:
        return SeedVerdict(seed, "no world", "unmade", 0, 0, 0, broken_by(error), ())
