"""A process of a node: what it runs, until it is killed; it starts again with nothing in memory.

front    acknowledger with the heartbeat · loader · clients
back     heartbeat · campaign · the owner's loops · in some worlds the notifier's

Virtual time: one true clock, and each process's view of it, fast or slow, begun anywhere.

Nothing of the store's safety may depend on any of them (law 3).

A node's view of the shared store. The node may be killed at any transaction boundary.

    before a commit   nothing of it is in the store, and the node is gone
    after a commit    all of it is in the store, and the node never learns that

`Killed` is no Exception: nothing of the node may catch it.
"""

from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Protocol

from exuvia.base.clock import Clock
from exuvia.base.errors import Conflict, Deposed, Unavailable
from exuvia.catalog.infoschema import Loader, Schemas
from exuvia.catalog.table import Table
from exuvia.cluster.member import Member
from exuvia.cluster.owner import Campaign
from exuvia.cluster.versions import Acknowledger, MetadataLocks
from exuvia.ddl.manager import Ddl, FillLoop, Pools
from exuvia.kv.chain import resolved
from exuvia.kv.memory import MemoryStore
from exuvia.kv.packet import Bulk, BulkResult, Packet, Requirement, Snapshot, SnapshotUse
from exuvia.kv.store import ForwardingStore, Presence
from exuvia.node.assemble import EVALUATOR, JUDGE
from exuvia.pipeline.phase_runner import PhaseRunner
from exuvia.pipeline.reorg import Reorg, Running, Waiting
from exuvia.pipeline.settings import Fixed, PipelineSettings
from exuvia.sim import news
from exuvia.sim.laws import History
from exuvia.sim.session import FrontSeat, Rows, SimulatedSession


class TrueClock:
    """Moves when the world says so. Unit: s."""

    def __init__(self) -> None:
        self.now_s = 0.0


class SkewedClock:
    """What one process reads. Implements base/clock.py's Clock."""

    def __init__(self, true: TrueClock, rate: float, offset_s: float) -> None:
        self._true = true
        self._rate = rate
        self._offset_s = offset_s

    def monotonic(self) -> float:
        """The process's own seconds."""
        return self._true.now_s * self._rate + self._offset_s

    def wall_ns(self) -> int:
        """The process's own idea of the date. Unit: ns."""
        return int((1_700_000_000 + self.monotonic()) * 1e9)


# -- faulty ----------------------------------------------------------------------------------------


class Killed(BaseException):
    """kill -9 at this point."""


class NodeStore(ForwardingStore):
    """A process's store, on a MemoryStore. `fate()` answers "", "before" or "after"."""

    def __init__(
        self,
        shared: MemoryStore,
        fate: Callable[[], str],
        committed: Callable[[Sequence[str], Iterable[bytes]], None],
        filled: Callable[[Sequence[bytes], dict[bytes, bytes | None]], None],
    ) -> None:
        super().__init__(shared)
        self._fate = fate
        self._committed = committed
        self._filled = filled
        self.alive = True
        self.presences: list[Presence] = []

    def _die(self) -> None:
        self.alive = False
        raise Killed

    def _guard(self, fate: str, moment: str) -> None:
        if not self.alive or fate == moment:
            self._die()

    def snapshot(self, use: SnapshotUse = SnapshotUse.SYSTEM) -> Snapshot:
        """A view of all that is committed."""
        self._guard("", "before")
        return self.shared.snapshot(use)

    def commit(self, packet: Packet) -> int:
        """As the shared store, unless fate has it otherwise."""
        fate = self._fate()
        self._guard(fate, "before")
        sequence = self.shared.commit(packet)
        self._committed(packet.channels, [write.key for write in packet.writes])
        self._guard(fate, "after")
        return sequence

    def commit_chain(self, packets: Sequence[Packet]) -> list[int]:
        """One after another: here the node may even be killed between two of them."""
        sequences: list[int] = []
        for packet in packets:
            sequences.append(self.commit(resolved(packet, sequences)))
        return sequences

    def bulk(
        self,
        keys: Sequence[bytes],
        payloads: Sequence[bytes] | bytes,
        requirements: Sequence[Requirement] = (),
        puts: Sequence[tuple[bytes, bytes]] = (),
        report: bool = False,
        overwrite: bool = False,
    ) -> BulkResult:
        """As the shared store; what stood before is shown to the law of fills. What is to replace
        is none: a rewrite's rows, whose values the clients know."""
        fate = self._fate()
        self._guard(fate, "before")
        view = self.shared.snapshot()
        before = {key: view.get(key) for key in keys}
        view.close()
        result = self.shared.bulk(keys, payloads, requirements, puts, report, overwrite)
        if not overwrite:
            self._filled(keys, before)
        self._committed((), [*keys, *(key for key, _ in puts)])
        self._guard(fate, "after")
        return result

    def bulk_chain(self, batches: Iterable[Bulk], most_s: float) -> list[BulkResult]:
        """The first alone: here the node may be killed, and others may come, after each."""
        return [self.bulk(*next(iter(batches)))]

    def hold(self, name: str) -> Presence:
        """Take a presence; it ends with the node."""
        presence = self.shared.hold(name)
        self.presences.append(presence)
        return presence

    def kill(self) -> None:
        """The process is gone: so are its presences."""
        self.alive = False
        for presence in self.presences:
            presence.release()
        self.presences.clear()

    def wait(self, channel: str, after: int, timeout_s: float) -> int:
        """Nobody waits in a simulation."""
        return self.shared.counter(channel)

    def back_off(self, attempt: int) -> None:
        """Nobody else runs meanwhile."""

    def limit_snapshots(self, idle_s: float, query_s: float) -> None:
        """Snapshots here end with their transactions."""

    def measures(self) -> dict[str, float]:
        return {}

    def close(self) -> None:
        """The shared store stays."""


# -- process ---------------------------------------------------------------------------------------

LEASE_S = 0.6
SESSIONS = 2
SETTINGS = PipelineSettings(
    workers=1, batch_rows=1, inline_rows=1 << 30, span_rows=2, verify="full"
)
THOUGHTS_S = (0.0, 0.01, 0.04)
LATE_S = (0.01, 0.2)


class SteppedLoop(Protocol):
    """Anything that is stepped."""

    def step(self, now: float) -> float:
        """At most one transaction; seconds until the next."""


class Actor:
    """A loop with its place in time."""

    def __init__(self, name: str, loop: SteppedLoop) -> None:
        self.name = name
        self.loop = loop
        self.channel: str = getattr(loop, "channel", "")
        self.due = 0.0
        self.patience = 1.0  # how many times longer than it would it rests before it looks again
        self.is_client = False
        self.is_task = isinstance(loop, FillLoop | Stragglers)
        self.may_wait = not isinstance(loop, Loader)  # who loads late serves nobody


class SimulatedProcess:
    """See the module. `start` is called for each life of it."""

    def __init__(self, name: str, start: Callable[["SimulatedProcess"], list[Actor]]) -> None:
        self.name = name
        self._start = start
        self.store: NodeStore | None = None
        self.actors: list[Actor] = []
        self.places: list[tuple[SimulatedProcess, Actor]] = []
        self.clock: Clock | None = None
        self.paused_until = 0.0
        self.restart_at = 0.0
        self.lives = 0
        self.is_back = name.startswith("back")

    @property
    def alive(self) -> bool:
        """Whether there is a process."""
        return self.store is not None and self.store.alive

    def start(self, store: NodeStore, clock: Clock) -> None:
        self.store, self.clock = store, clock
        self.lives += 1
        self.actors = self._start(self)
        self.places = [(self, actor) for actor in self.actors]

    def kill(self, restart_at: float) -> None:
        """End it; all it had in memory is gone."""
        if self.store is not None:
            self.store.kill()
        self.actors, self.places = [], []
        self.restart_at = restart_at


def clients(
    seat: FrontSeat,
    process: SimulatedProcess,
    random: Random,
    history: History,
    thinking_s: tuple[float, ...],
    rows: Rows,
    versions: Callable[[], int],
) -> list[Actor]:
    """Who writes the table of the world at a front."""
    found = []
    for n in range(SESSIONS):
        client = f"{process.name}/c{n}"
        session = SimulatedSession(seat, client, random, history, thinking_s, rows, versions)
        found.append(Actor(client, session))
    return found


def front(process: SimulatedProcess, clients: Callable[[FrontSeat], list[Actor]]) -> list[Actor]:
    """A front's life, with its clients."""
    assert process.store is not None and process.clock is not None
    store, clock = process.store, process.clock
    name = f"{process.name}.{process.lives}"
    member = Member.join(store, clock, "front", name, LEASE_S, identity=lambda: name)
    schemas, locks = Schemas(store, evaluator=EVALUATOR), MetadataLocks(clock)
    seat = FrontSeat(store, schemas, member, locks, clock)
    actors = [
        Actor("ack", Acknowledger(store, member, locks)),
        Actor("load", Loader(schemas, member.loaded, LEASE_S / 4)),
    ]
    people = clients(seat)
    for each in people:
        each.is_client = True
    return [*actors, *people]


class Stragglers:
    """Late duplicates of every fill: what a task does that nobody could stop."""

    channel = FillLoop.channel

    def __init__(self, random: Random) -> None:
        self._random = random
        self.reorgs: list[PhaseRunner] = []

    def step(self, now: float) -> float:
        """One transaction of the oldest; it is forgotten when it ends or is refused."""
        if not self.reorgs:
            return 0.5
        try:
            ended = not isinstance(self.reorgs[0].step(now), Running | Waiting)
        except (Conflict, Unavailable):
            ended = False
        except Deposed:
            ended = True
        if ended:
            self.reorgs.pop(0)
        return self._random.choice(LATE_S)


def back(
    process: SimulatedProcess,
    random: Random,
    settings: PipelineSettings,
    news_random: Random | None = None,
) -> list[Actor]:
    """A back's life. With `news_random` it tells events too."""
    assert process.store is not None and process.clock is not None
    store, clock = process.store, process.clock
    name = f"{process.name}.{process.lives}"
    member = Member.join(store, clock, "back", name, LEASE_S, identity=lambda: name)
    campaign = Campaign(store, member)
    stragglers = Stragglers(random)

    def reorg(job_id: int, epoch: int, table: Table, work: Reorg) -> PhaseRunner:
        def one() -> PhaseRunner:
            dial, now = Fixed(settings), clock.monotonic
            order = store, job_id, epoch, table, work
            return PhaseRunner(*order, judge=JUDGE, dial=dial, monotonic=now)

        if random.random() < 0.5:
            stragglers.reorgs.append(one())
        return one()

    schemas = Schemas(store, evaluator=EVALUATOR)
    ddl = Ddl(store, schemas, member, campaign, clock, reorg, Pools(1, 1), LEASE_S)
    loops = [Actor(type(loop).__name__, loop) for loop in ddl.loops()]
    late = Actor("stragglers", stragglers)
    actors = [Actor("beat", member), Actor("campaign", campaign), late, *loops]
    if news_random is not None:
        telling = news.owner(store, member, clock, news_random)
        actors += [Actor(f"stats {type(loop).__name__}", loop) for loop in telling]
    return actors
