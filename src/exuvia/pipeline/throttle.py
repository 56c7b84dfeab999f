"""How the work of a reorg leaves room for clients that commit meanwhile.

    nobody else commits     a task goes on as fast as it can, on all processors
    clients commit          half of the processors compute, a task on each holds a seat; the others
                            wait; batches are short; what was no write rests longer than it took

A client's statement is a dozen wake-ups of short work. Lower priority is not enough: a core that
computes is given up late, and a dozen late wake-ups are what its p99 is made of. A core that idles
is there at once (measured: 500,000 rows, p99 17 ms with both cores computing).

    Traffic       whether others commit often
    Pace          how many rows one transaction holds, and how long the task rests after it
    Slot          how many tasks may write at once
    Place         on which processors a task computes
    step_back     at which priority
    Courtesy      all of these, for one task
"""

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple, TypeVar

from exuvia.base.errors import Deposed, Unavailable
from exuvia.base.limits import REORG_BATCH_ROWS
from exuvia.kv.packet import BulkResult, Packet, Requirement
from exuvia.kv.store import ForwardingStore, Presence, Store
from exuvia.pipeline import checkpoint
from exuvia.pipeline.settings import PipelineSettings
from exuvia.pipeline.task import Outcome, TaskOrder

# -- priorities ------------------------------------------------------------------------------------
#
# Work that steps back for clients never makes them wait for a lock it holds.
#
#     the JVM, and what it starts   nice 10   yields the processor to others
#     thread of the kernel          nice 10   reads, decodes, sorts
#     thread of the writes          nice 0    takes the store's writer, writes, gives it back
#
# Linux keeps a priority per thread. Were the writes made with the kernel's own, a batch that has
# the store's only writer could be put aside for others, and all of them would wait for it (priority
# inversion). To come back to 0 a process needs the right to (root, CAP_SYS_NICE, RLIMIT_NICE);
# without it the writes stay at 10, in batches of a few milliseconds while clients commit.
# One process has one kernel at a time, so one thread of each kind is enough.

NICE = 10

Answer = TypeVar("Answer")


def step_back() -> None:
    """Lower the calling thread's priority, for good."""
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)


def step_forward() -> None:
    """Ordinary priority for the calling thread, where the system allows it."""
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 0)


def run_idle(idle: bool) -> None:
    """Give way to whatever wakes up, or take turns again, for the calling thread."""
    os.sched_setscheduler(0, os.SCHED_IDLE if idle else os.SCHED_OTHER, os.sched_param(0))


def is_idle() -> bool:
    """Whether the calling thread gives way to whatever wakes up."""
    return os.sched_getscheduler(0) == os.SCHED_IDLE


@cache
def can_idle() -> bool:
    """Whether a thread that gives way may stop doing so: that takes the right to as well."""
    seen: list[bool] = []

    def there_and_back() -> None:
        with suppress(PermissionError):
            run_idle(True)
            run_idle(False)
            seen.append(True)

    thread = threading.Thread(target=there_and_back)
    thread.start()
    thread.join()
    return bool(seen)


class UnhurriedStore(ForwardingStore):
    """A store whose writes are made by a thread of ordinary priority; everything else as it is."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._hand = ThreadPoolExecutor(1, thread_name_prefix="exuvia-writes")
        self._hand.submit(step_forward).result()

    def commit(self, packet: Packet) -> int:
        return self._write(partial(self.shared.commit, packet))

    def commit_chain(self, packets: Sequence[Packet]) -> list[int]:
        return self._write(partial(self.shared.commit_chain, packets))

    def bulk(
        self,
        keys: Sequence[bytes],
        payloads: Sequence[bytes] | bytes,
        requirements: Sequence[Requirement] = (),
        puts: Sequence[tuple[bytes, bytes]] = (),
        report: bool = False,
        overwrite: bool = False,
    ) -> BulkResult:
        return self._write(
            partial(self.shared.bulk, keys, payloads, requirements, puts, report, overwrite)
        )

    def _write(self, work: Callable[[], Answer]) -> Answer:
        return self._hand.submit(work).result()

    def close(self) -> None:
        self._hand.shutdown()
        super().close()


# -- processors ------------------------------------------------------------------------------------
#
#     the JVM             always on half: it only steers, but its start is seconds of work
#     thread of a kernel  on half while clients commit, else on all
#     thread of writes    on all: who holds the store's writer should not wait for a processor
#
# Low priority gives a processor up late, up to a tick of the scheduler; one that idles is there at
# once. So on the half that is left the kernel's thread runs as the system's idle class: whatever
# wakes up runs at once. Where clients leave it less than a quarter of what it could compute, it
# takes turns with them at low priority until they leave it more.
#
# A process takes its processors from the one that starts it, so a worker, which the JVM's children
# start, is told those of the driver.

_LOOK_NS = 200_000_000
SCHEDULE = Path("/proc/thread-self/schedstat")  # not every kernel and sandbox has it

Cores = tuple[int, ...]


def allowed() -> Cores:
    """The processors of the calling thread."""
    return tuple(sorted(os.sched_getaffinity(0)))


def half_of(cores: Cores) -> Cores:
    """Those that work beside clients has; all where there is one."""
    return cores[-max(1, len(cores) // 2) :]


def move_to(cores: Sequence[int]) -> None:
    """The calling thread's processors from now on; what it starts has them, too. None: as it is."""
    if cores:
        with suppress(OSError):  # taken away meanwhile: then those that are left
            os.sched_setaffinity(0, cores)


def may_idle() -> bool:
    """Whether a thread may go to the idle class and come back, and sees what it gets there."""
    return SCHEDULE.exists() and can_idle()


def ran_and_waited_ns() -> tuple[int, int]:
    """How long the calling thread computed, and how long it could have and did not (proc(5),
    schedstat)."""
    ran, waited, _ = SCHEDULE.read_text().split()
    return int(ran), int(waited)


class Processors:
    """Where and how one thread computes. Without cores: wherever it was put."""

    def __init__(
        self, cores: Cores = (), look: Callable[[], tuple[int, int]] = ran_and_waited_ns
    ) -> None:
        self._cores = cores
        self._look = look
        self._now: Cores = ()
        self._seen = (0, 0)
        self._starves = False
        self._idles = is_idle()  # an earlier task may have left it so

    def beside_clients(self, there_are_some: bool) -> None:
        """Make room, or take all."""
        if not self._cores:
            return
        cores = half_of(self._cores) if there_are_some else self._cores
        if cores != self._now:
            move_to(cores)
            self._now = cores
        idles = there_are_some and may_idle() and not self._is_starved()
        if idles != self._idles:
            run_idle(idles)
            self._idles = idles

    def _is_starved(self) -> bool:
        """Whether it got less than a quarter of what it wanted of late."""
        ran, waited = (now - before for now, before in zip(self._look(), self._seen, strict=True))
        if ran + waited >= _LOOK_NS:
            self._starves = ran < (ran + waited) / 4
            self._seen = (self._seen[0] + ran, self._seen[1] + waited)
        return self._starves


# -- how many tasks write at once ------------------------------------------------------------------
#
# `tidb_ddl_reorg_worker_cnt` slots, each the presence of one process.
#
#     slot 0   held by the task of process 71    worker count 2: a task takes any free slot below 2
#     slot 1   held by the task of process 72    set to 1: the holder of slot 1 lets it go at its
#     slot 2   not given                         next batch and waits, looking at the epoch
#
# A presence ends with its process (Store.hold), so a killed task blocks nobody and nothing has to
# be cleaned up. Only tasks in processes of their own need slots: in this process tasks run one
# after another.


class Slot:
    """One task's place among those that may write."""

    def __init__(self, store: Store, order: TaskOrder, ordinal: int, name: str = "") -> None:
        self._store = store
        self._order = order
        self._first = ordinal
        self._name = name or f"reorg/{order.job_id}"
        self._number = -1
        self._presence: Presence | None = None

    def taken(self, workers: int) -> bool:
        """Whether this task may go on, with so many workers allowed.

        Raises Deposed when the reorg was left."""
        if self._presence is not None and self._number < workers:
            return True
        self.release()
        for n in range(workers):
            number = (self._first + n) % workers
            with suppress(Unavailable):
                self._presence = self._store.hold(f"{self._name}/{number}")
                self._number = number
                return True
        with closing(self._store.snapshot()) as snapshot:
            for fence in self._order.fences:
                raw = snapshot.get(fence.key)
                if raw is None or raw[snapshot.skip :] != fence.payload:
                    raise Deposed("the reorg was left while a task waited for a worker slot")
        return False

    def release(self) -> None:
        """Let others have it. Twice is harmless."""
        presence, self._presence, self._number = self._presence, None, -1
        if presence is not None:
            presence.release()


# -- rows of a transaction, and rests --------------------------------------------------------------
#
#     bound      tidb_ddl_reorg_batch_size, read again at every batch
#     size       grows by half after a success, halves after a conflict or a slow commit
#     speed      tidb_ddl_reorg_max_write_speed: the rest grows until the bytes fit
#     rest       none while nobody else commits; longer than the batch took while clients do
#
# A store with one writer (LMDB) serves commits one after another: a client's commit that arrives
# while a batch is being written waits for it. So while clients commit, a batch is kept under
# `_SHARED_S`, and most of the time is theirs. A batch that shrank for ever after one early conflict
# would make a fill crawl (fdb-record-layer issue 444): it grows again.

_LEAST = REORG_BATCH_ROWS[0]
_ALONE_S = 0.25
_SHARED_S = 0.004
_REST_FACTOR = 1.5


class Batch(NamedTuple):
    """One finished transaction of a task.

    `rest_s`: how long the task should rest before the next."""

    rows: int
    seconds: float
    rest_s: float = 0.0


Steps = Generator[Batch, None, Outcome]
"""A kernel at work: each `next` reads some, or does one transaction."""


def held_back(batch: Batch, size: int, settings: PipelineSettings, at_once: int) -> Batch:
    """The batch with as much rest as keeps all tasks below the write speed. `size`: bytes."""
    if not settings.write_speed:
        return batch
    share_s = size * min(settings.workers, at_once) / settings.write_speed
    return batch._replace(rest_s=max(batch.rest_s, share_s - batch.seconds))


class BatchSize:
    """The batch size of one task: the bound at first, or `rows`."""

    def __init__(self, bound: int, rows: int | None = None) -> None:
        self.bound = bound
        self._rows = float(bound if rows is None else rows)

    @property
    def rows(self) -> int:
        """Rows for the next transaction."""
        return max(1, min(int(self._rows), self.bound))

    def bounded(self, bound: int) -> None:
        """The bound was read again.

        A task that used all of the old bound uses all of the new one."""
        if self._rows >= self.bound:
            self._rows = max(self._rows, float(bound))
        self.bound = bound

    def succeeded(self, rows: int, seconds: float, busy: bool) -> Batch:
        """A transaction of `rows` took `seconds`; `busy`: clients commit too."""
        allowed = _SHARED_S if busy else _ALONE_S
        factor = min(1.5, max(0.5, allowed / max(seconds, 1e-6)))
        if factor < 1:
            self._rows = max(_LEAST, self._rows * factor)
        elif rows >= self.rows:
            self._rows = min(self._rows * factor, float(self.bound))
        return Batch(rows, seconds, seconds * _REST_FACTOR if busy else 0.0)

    def read(self, seconds: float) -> Batch:
        """Some rows were read while clients commit: they want the processor, too."""
        return Batch(0, seconds, seconds * _REST_FACTOR)

    def refused(self) -> None:
        """A transaction met a conflict and will be tried again."""
        self._rows = max(1.0, min(self._rows, float(self.bound)) / 2)


# -- whether clients commit ------------------------------------------------------------------------
#
#     commits of all      the store's sequence grows with each
#     commits of ours     every task of the reorg writes how many it made into its progress
#     commits of others   the difference, per second, looked at every `_EVERY_S`
#
# Any engine can tell this, and no client has to announce itself.

_EVERY_S = 0.1
_BUSY_PER_S = 20.0  # heartbeats, statistics and the owner's own steps stay below it


class Others(ABC):
    """Whether others commit often. `_count` says (commits of all, commits of ours)."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._seen = (monotonic(), *self._count())
        self._busy = False

    @abstractmethod
    def _count(self) -> tuple[int, int]: ...

    def busy(self) -> bool:
        """Whether others commit often."""
        now = self._monotonic()
        elapsed_s = now - self._seen[0]
        if elapsed_s >= _EVERY_S:
            sequence, ours = self._count()
            others = (sequence - self._seen[1]) - (ours - self._seen[2])
            self._busy = others / elapsed_s > _BUSY_PER_S
            self._seen = (now, sequence, ours)
        return self._busy


class Traffic(Others):
    """What one task of a reorg knows of the others' commits."""

    def __init__(self, store: Store, order: TaskOrder, monotonic: Callable[[], float]) -> None:
        self._store = store
        self._order = order
        super().__init__(monotonic)

    def _count(self) -> tuple[int, int]:
        with self._store.read() as txn:
            ours = sum(p.batches for p in checkpoint.read_progress(txn, self._order))
            return txn.sequence, ours


class Besides(Others):
    """What one writer that counts its own commits knows of the others'."""

    def __init__(self, store: Store, monotonic: Callable[[], float]) -> None:
        self._store = store
        self.ours = 0
        super().__init__(monotonic)

    def _count(self) -> tuple[int, int]:
        with self._store.read() as txn:
            return txn.sequence, self.ours


# -- one task --------------------------------------------------------------------------------------


SEATS = max(1, (os.cpu_count() or 1) // 2)
_MOST_REST_S = 0.5


class Courtesy:
    """One task's manners."""

    def __init__(
        self,
        store: Store,
        order: TaskOrder,
        monotonic: Callable[[], float],
        place: Processors | None = None,
    ) -> None:
        self._place = place or Processors()
        self._traffic = Traffic(store, order, monotonic)
        self._seat = Slot(store, order, 0, "seat")
        self._monotonic = monotonic
        self._began = 0.0

    def may_go_on(self) -> bool:
        """Whether the task may compute now. Raises Deposed when the reorg was left."""
        self._began = self._monotonic()
        busy = self._traffic.busy()
        self._place.beside_clients(busy)
        if not busy:
            self._seat.release()
            return True
        return self._seat.taken(SEATS)

    def rest_s(self, batch: Batch) -> float:
        """How long to rest after what was just done. Unit: s."""
        if batch.rest_s or not self._traffic.busy():
            return batch.rest_s
        return min(_REST_FACTOR * (self._monotonic() - self._began), _MOST_REST_S)

    def release(self) -> None:
        """Let others have the seat."""
        self._seat.release()
