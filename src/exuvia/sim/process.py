"""A process of a node: the loops it runs until it is killed. It restarts with empty memory.

front    acknowledger with the heartbeat · loader · clients
back     heartbeat · campaign · the owner's loops · in some worlds the notifier's

Time is virtual: one true clock, and each process's own clock, which is fast or slow and starts at
any value. The store's safety must not depend on any of them (law 3).

A node sees the shared store through NodeStore, and may be killed at any transaction boundary.

    before a commit   none of it is in the store, and the process is gone
    after a commit    all of it is in the store, and the process never learns that

`Killed` is not an Exception, so that no code of the node can catch it.
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
    """The world's time, advanced by the world. Unit: s."""

    def __init__(self) -> None:
        self.now_s = 0.0


class SkewedClock:
    """One process's clock. Implements Clock of base/clock.py."""

    def __init__(self, true: TrueClock, rate: float, offset_s: float) -> None:
        self._true = true
        self._rate = rate
        self._offset_s = offset_s

    def monotonic(self) -> float:
        """Returns the process's own time. Unit: s."""
        return self._true.now_s * self._rate + self._offset_s

    def wall_ns(self) -> int:
        """Returns the process's own date. Unit: ns."""
        return int((1_700_000_000 + self.monotonic()) * 1e9)


# -- store -----------------------------------------------------------------------------------------


class Killed(BaseException):
    """The process is killed (kill -9) at this point."""


class NodeStore(ForwardingStore):
    """A process's view of a MemoryStore. `fate()` returns "", "before" or "after"."""

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
        """Returns a view of all committed changes."""
        self._guard("", "before")
        return self.shared.snapshot(use)

    def commit(self, packet: Packet) -> int:
        """Commits to the shared store, unless the process is killed."""
        fate = self._fate()
        self._guard(fate, "before")
        sequence = self.shared.commit(packet)
        self._committed(packet.channels, [write.key for write in packet.writes])
        self._guard(fate, "after")
        return sequence

    def commit_chain(self, packets: Sequence[Packet]) -> list[int]:
        """Commits packets one after another; the process may be killed between two of them."""
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
        """Writes to the shared store, and gives the previous values to the law of fills. A
        rewrite's rows are excepted: they are replaced on purpose, and clients know their values."""
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
        """Writes only the first batch, so that a kill or another process may come after each."""
        return [self.bulk(*next(iter(batches)))]

    def hold(self, name: str) -> Presence:
        """Acquires a presence that ends with the process."""
        presence = self.shared.hold(name)
        self.presences.append(presence)
        return presence

    def kill(self) -> None:
        """Kills the process and releases its presences."""
        self.alive = False
        for presence in self.presences:
            presence.release()
        self.presences.clear()

    def wait(self, channel: str, after: int, timeout_s: float) -> int:
        """Returns at once: a simulation never waits."""
        return self.shared.counter(channel)

    def back_off(self, attempt: int) -> None:
        """Does nothing: no other process runs meanwhile."""

    def limit_snapshots(self, idle_s: float, query_s: float) -> None:
        """Does nothing: snapshots end with their transactions."""

    def measures(self) -> dict[str, float]:
        return {}

    def close(self) -> None:
        """Leaves the shared store open."""


# -- process ---------------------------------------------------------------------------------------

LEASE_S = 0.6
SESSIONS = 2
SETTINGS = PipelineSettings(
    workers=1, batch_rows=1, inline_rows=1 << 30, span_rows=2, verify="full"
)
THOUGHTS_S = (0.0, 0.01, 0.04)
LATE_S = (0.01, 0.2)


class SteppedLoop(Protocol):
    """A loop of a process or of the world."""

    def step(self, now: float) -> float:
        """Runs at most one transaction. Returns seconds until the next step."""


class Actor:
    """A loop with the time of its next step."""

    def __init__(self, name: str, loop: SteppedLoop) -> None:
        self.name = name
        self.loop = loop
        self.channel: str = getattr(loop, "channel", "")
        self.due = 0.0
        self.patience = 1.0  # factor of its rests while it finds nothing to do
        self.is_client = False
        self.is_task = isinstance(loop, FillLoop | Stragglers)
        self.may_wait = not isinstance(loop, Loader)  # a front with a late loader serves no client


class SimulatedProcess:
    """A process that may be killed and restarted. `start` creates the actors of each life."""

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
        """Whether the process runs."""
        return self.store is not None and self.store.alive

    def start(self, store: NodeStore, clock: Clock) -> None:
        self.store, self.clock = store, clock
        self.lives += 1
        self.actors = self._start(self)
        self.places = [(self, actor) for actor in self.actors]

    def kill(self, restart_at: float) -> None:
        """Kills the process, which loses its memory."""
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
    """Returns a front's clients, which write the world's table."""
    actors = []
    for n in range(SESSIONS):
        client = f"{process.name}/c{n}"
        session = SimulatedSession(seat, client, random, history, thinking_s, rows, versions)
        actors.append(Actor(client, session))
    return actors


def front(process: SimulatedProcess, clients: Callable[[FrontSeat], list[Actor]]) -> list[Actor]:
    """Starts a front and returns its actors, with its clients."""
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
    for client in people:
        client.is_client = True
    return [*actors, *people]


class Stragglers:
    """Late duplicates of every fill: tasks that could not be stopped."""

    channel = FillLoop.channel

    def __init__(self, random: Random) -> None:
        self._random = random
        self.reorgs: list[PhaseRunner] = []

    def step(self, now: float) -> float:
        """Runs one transaction of the oldest, which is dropped when it ends or is refused."""
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
    """Starts a back and returns its actors, with the notifier if `news_random` is given."""
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
        event_loops = news.owner(store, member, clock, news_random)
        actors += [Actor(f"stats {type(loop).__name__}", loop) for loop in event_loops]
    return actors
