"""Two stats owners with their real handlers, people who change tables and rows, and a seed.

What a back runs for statistics is put together as in production (stats/owner.py): campaign,
notifier with the handlers "stats meta", "priority queue" and "feed", cache, queue. A process may be
killed at any commit, before or after it, and paused for several leases. After every commit:

law 7      one commit handles one event for one handler at most, parts of a job in their order;
           stats_meta is what it must be if each event was handled once (sim/changer.py);
           the log has each event once, where its flag says so, and positions grow

and whenever people rest and all is quiet: the owner's queue, kept up by increments, holds what a
queue built from the store holds.

`simulate` draws faults by a seed; `boundaries` and `killed_at` kill at each commit in turn.
"""

from collections.abc import Callable, Iterable
from functools import cache
from random import Random

from exuvia.catalog.bootstrap import bootstrap
from exuvia.catalog.infoschema import Schemas
from exuvia.catalog.system_tables import SYSTEM
from exuvia.catalog.sysvar import variables
from exuvia.cluster.member import Member
from exuvia.events import feed, notifier
from exuvia.kv import keys
from exuvia.kv.memory import MemoryStore
from exuvia.kv.transaction import Transaction
from exuvia.sim.changer import Changer, RowCountModel, jobs_of, metas_of
from exuvia.sim.laws import Broke, SeedVerdict, broken_by, touched
from exuvia.sim.process import (
    LEASE_S,
    Actor,
    Killed,
    NodeStore,
    SimulatedProcess,
    SkewedClock,
    TrueClock,
)
from exuvia.stats import meta
from exuvia.stats.cache import StatsCache
from exuvia.stats.owner import Stats
from exuvia.stats.queue import Queue

KILLS_A_COMMIT = 0.03
PAUSES_A_STEP = 0.004
FAULTY_STEPS = 150
ROUNDS = 3
FEW = (1, 120)  # rounds and steps of a world in which each commit is a place to die
MOST_STEPS = 20_000
LONG_S = 700.0  # what is gone is removed after ten minutes
_JUDGED = (notifier.TABLE, meta.TABLE, feed.TABLE)
_STORED = (notifier.STATS_META, notifier.FEED)

Place = tuple[int, int]
Fate = Callable[[], str]


@cache
def template() -> MemoryStore:
    """A bootstrapped store where nothing is analyzed."""
    store = MemoryStore()
    bootstrap(store)
    store.transact(lambda txn: variables.set_global(txn, "tidb_auto_analyze_concurrency", "0"))
    return store


class StatisticsWorld:
    """See the module. Raises verdict.Broke. `fate` says what becomes of each commit of a process;
    without it, and with `faults`, the seed does."""

    def __init__(self, seed: int, fate: Fate | None = None) -> None:
        self.random = Random(f"statistics {seed}")
        self.true = TrueClock()
        self.shared = template().fork()
        self.faults = fate is None
        self._fate_of = fate or self._drawn
        self.crashes = self.commits = 0
        self.trace: list[str] = []
        self.counts = RowCountModel()
        self.changer = Changer(self.shared, self.random, self.counts)
        self._logged = 0
        self._position = 0  # of the log, up to which it is right
        self._reads = tuple(keys.row_prefix(SYSTEM[name].id) for name in _JUDGED)
        self._done: dict[int, list[Place]] = {number: [] for number in _STORED}
        self._owners: dict[str, Stats] = {}
        people = Actor("people", self.changer)
        self._outside = people
        self.processes = [SimulatedProcess(f"back{n}", self._life) for n in (1, 2)]
        for each in self.processes:
            self._start(each)

    # -- processes ---------------------------------------------------------------------------------

    def _life(self, process: SimulatedProcess) -> list[Actor]:
        assert process.store is not None and process.clock is not None
        store, clock = process.store, process.clock
        title = f"{process.name}.{process.lives}"
        member = Member.join(store, clock, "back", title, LEASE_S, identity=lambda: title)
        stats = Stats(store, member, clock, Schemas(store), lambda work: work())
        self._owners[process.name] = stats
        loops = [Actor(type(loop).__name__, loop) for loop in stats.loops()]
        return [Actor("beat", member), *loops]

    def _start(self, each: SimulatedProcess) -> None:
        view = NodeStore(self.shared, self._fate, self._committed, lambda keys, before: None)
        try:
            each.start(view, SkewedClock(self.true, 1.0, 0.0))
        except Killed:
            self._crashed(each)

    def _crashed(self, each: SimulatedProcess) -> None:
        self.crashes += 1
        self.trace.append(f"{each.name} is killed")
        each.kill(self.true.now_s + self.random.random() * LEASE_S)

    def _drawn(self) -> str:
        if not self.faults or self.random.random() >= KILLS_A_COMMIT:
            return ""
        return self.random.choice(("before", "after"))

    def _fate(self) -> str:
        self.commits += 1
        return self._fate_of()

    # -- laws --------------------------------------------------------------------------------------

    def _committed(self, channels: Iterable[str], written: Iterable[bytes]) -> None:
        if touched(written, self._reads):
            self.judge()

    def judge(self) -> None:
        """What must hold after every commit. Raises Broke."""
        with self.shared.read() as txn:
            flags = {event.place: event.flag for event in notifier.pending(txn)}
            for handler in _STORED:
                self._handled(handler, flags)
            wrong = self.counts.differing(metas_of(txn))
            if wrong:
                raise Broke("law 7", f"stats_meta differs at {'; '.join(wrong)}")
            self._log_is_right(txn)

    def _handled(self, handler: int, flags: dict[Place, int]) -> None:
        done = self._done[handler]
        known = set(done)
        now = [
            place
            for place in self.changer.told
            if place not in flags or flags[place] & 1 << handler
        ]
        new = [place for place in now if place not in known]
        if len(new) > 1 or len(now) != len(known) + len(new):
            raise Broke("law 7", f"handler {handler} took {new} at once, or gave some back")
        for job, part in new:
            earlier = [(job, n) for n in range(part)]
            if not known.issuperset(earlier):
                raise Broke("law 7", f"handler {handler} took part {part} of {job} too early")
            self.trace.append(f"handler {handler} takes {job}/{part}")
            if handler == notifier.STATS_META:
                self.counts.take(self.changer.told[job, part])
        done += new

    def _log_is_right(self, txn: Transaction) -> None:
        entries = feed.read(txn, self._position)
        done = self._done[notifier.FEED]
        new = [entry.change.origin for entry in entries]
        if new != done[self._logged :]:
            raise Broke("law 7", f"the log has {new} more, flags say {done[self._logged :]}")
        if entries:
            self._position, self._logged = entries[-1].position, len(done)

    def judge_queue(self) -> None:
        """What must hold of the owner's queue when all is quiet. Raises Broke."""
        (owner,) = [each for each in self._present() if each.queue.is_ready]
        fresh = Queue(self.shared, StatsCache(self.shared), self._wall_s)
        fresh.step(0.0)
        kept, found = jobs_of(owner.queue), jobs_of(fresh)
        if kept != found:
            raise Broke("queue", f"kept up {sorted(kept)}, built anew {sorted(found)}")

    def _wall_s(self) -> float:
        return SkewedClock(self.true, 1.0, 0.0).wall_ns() / 1e9

    def _present(self) -> list[Stats]:
        return [self._owners[each.name] for each in self.processes if each.alive]

    # -- time --------------------------------------------------------------------------------------

    def step(self) -> None:
        """One step of somebody."""
        now = self.true.now_s
        for each in self.processes:
            if not each.alive and each.restart_at <= now:
                self._start(each)
        if self.faults and self.random.random() < PAUSES_A_STEP:
            paused = self.random.choice(self.processes)
            paused.paused_until = now + self.random.random() * 4 * LEASE_S
        ready: list[tuple[SimulatedProcess | None, Actor]] = [(None, self._outside)]
        for each in self.processes:
            if each.alive and not (self.faults and each.paused_until > now):
                ready += [(each, actor) for actor in each.actors]
        due = [pair for pair in ready if pair[1].due <= now]
        if not due:
            self.true.now_s = max(now + 1e-4, min(pair[1].due for pair in ready))
            return
        self.true.now_s += self.random.random() * 0.002
        self._run(*self.random.choice(due))

    def _run(self, process: SimulatedProcess | None, actor: Actor) -> None:
        now = self.true.now_s
        if process is None or process.clock is None:
            actor.due = now + actor.loop.step(now)
            self.judge()
            return
        try:
            wanted_s = actor.loop.step(process.clock.monotonic())
            actor.due = now + max(wanted_s, self.random.random() * 0.02)
        except Killed:
            self._crashed(process)

    # -- rest --------------------------------------------------------------------------------------

    def rest(self) -> None:
        """Faults stop and people rest until all is quiet; then the queue is judged."""
        self.changer.is_resting = True
        for step in range(MOST_STEPS):
            self.step()
            if step % 16 == 0 and self._is_quiet():
                break
        else:
            raise Broke("liveness", f"not quiet after {MOST_STEPS} steps")
        self.judge_queue()
        self.changer.is_resting = False

    def _is_quiet(self) -> bool:
        owners = [each for each in self._present() if each.queue.is_ready]
        if len(owners) != 1 or len(self._present()) < len(self.processes):
            return False
        with self.shared.read() as txn:
            newest = max((each.version for each in metas_of(txn)), default=0)
            told = not any(True for _ in notifier.pending(txn))
        (owner,) = owners
        return told and owner.cache.high_water >= newest <= owner.queue.next_version

    def run(self, faults: bool, rounds: int = ROUNDS, steps: int = FAULTY_STEPS) -> None:
        """Some rounds of changes and rest; long pauses between."""
        for _ in range(rounds):
            self.faults = faults
            for _ in range(steps):
                self.step()
            self.faults = False
            self.rest()
            self.true.now_s += LONG_S


def simulate(seed: int) -> SeedVerdict:
    """The verdict of a seed: faults drawn."""
    return _verdict(seed, StatisticsWorld(seed), lambda world: world.run(True))


def boundaries(seed: int) -> int:
    """How many commits the processes of a seed make where nobody is killed."""
    world = StatisticsWorld(seed, lambda: "")
    world.run(False, *FEW)
    return world.commits


def killed_at(seed: int, boundary: int, fate: str) -> SeedVerdict:
    """The verdict of a seed where one process is killed once, before or after that commit."""
    left = iter(range(boundary, -1, -1))
    world = StatisticsWorld(seed, lambda: fate if next(left, -1) == 0 else "")
    return _verdict(seed, world, lambda world: world.run(False, *FEW))


def _verdict(
    seed: int, world: StatisticsWorld, run: Callable[[StatisticsWorld], None]
) -> SeedVerdict:
    broken = None
    try:
        run(world)
    except Exception as error:  # the search goes on, and says the seed
        broken = broken_by(error)
    kinds = ", ".join(sorted(kind.value for kind in world.changer.kinds))
    told = len(world.changer.told)
    trace = tuple(world.trace)
    return SeedVerdict(seed, "statistics", kinds, told, world.commits, world.crashes, broken, trace)
