"""How fast a reorg goes beside clients. One aim, one controller, one thing that changes: the share
of the time in which its tasks work.

    fronts     how long clients' transactions took, over 5 s          -> m/latency/{member}
    driver     twice a second: their p99 held against what it may be  -> m/share/{job}, and why
    tasks      work for a share of the time, rest for what is left of it

What p99 may be is `exuvia_ddl_p99_target_ms`, or else `exuvia_ddl_p99_factor` times what it was in
the minute before the first job. Three aims, in this order: a reorg has at least
`exuvia_ddl_min_share` of the time it has alone; p99 stays below what it may be; the reorg is fast.
Phases that only read have a share of their own, set by latencies measured while no phase wrote. So
the cost of writes does not slow a comparison down.

    Durations, LatencyReports   in a front: what transactions took, by the second
    ShareController             in the driver: `decided` is the rule
    TaskPace                    in a task: rests
    BatchSize                   rows of one transaction
    Slot                        how many tasks write at once
    step_back                   at which priority of the processor
"""

import math
import os
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

import msgspec
import numpy as np

from exuvia.base.errors import Deposed, Unavailable
from exuvia.base.limits import REORG_BATCH_ROWS
from exuvia.base.waits import CLIENTS_FIRST, NO_BASELINE
from exuvia.catalog.sysvar import variables
from exuvia.cluster.member import Member
from exuvia.kv import keys
from exuvia.kv.packet import Bulk, BulkResult, Equal, Packet, Requirement
from exuvia.kv.store import ForwardingStore, Presence, Store
from exuvia.kv.transaction import Transaction
from exuvia.pipeline.settings import ALONE_S, PipelineSettings, TimeShare, shares_of
from exuvia.pipeline.task import Outcome, TaskOrder

# -- priorities ------------------------------------------------------------------------------------
#
# Work that steps back for clients never makes them wait for a lock it holds.
#
#     the JVM, and what it starts   nice 10   yields the processor to others
#     thread of the kernel          nice 10   reads, decodes, sorts
#     thread of the writes          nice 0    takes the store's writer, writes, gives it back
#     the back's thread of a reorg  nice 10   reads, decodes, sorts, frees what it has read
#                                   nice 0    writes; and all it does outside a reorg's steps
#
# Linux keeps a priority per thread. Were the writes made with the kernel's own, a batch that has
# the store's only writer could be put aside for others, and all of them would wait for it (priority
# inversion). To come back to 0 a process needs the right to (root, CAP_SYS_NICE, RLIMIT_NICE);
# without it the writes stay at 10, in batches of a few milliseconds while clients commit, and the
# back's own thread keeps its priority. It is not put into the idle class, as Spark's kernels are:
# others of its process wait for the interpreter's lock, which it may hold. It steps back even
# before clients have been reported. Otherwise a client's commit that the disk has finished could
# wait for it, up to a tick of the scheduler, while the other processor is idle.
# One process has one kernel at a time, so one thread of each kind is enough.

NICE = 10

Answer = TypeVar("Answer")


def _priority() -> int:
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


def _set_priority(nice: int) -> None:
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), nice)


def step_back() -> None:
    """Lower the calling thread's priority, for good."""
    _set_priority(NICE)


def step_forward() -> None:
    """Ordinary priority for the calling thread, where the system allows it."""
    with suppress(PermissionError):
        _set_priority(0)


def run_idle(idle: bool) -> None:
    """Give way to whatever wakes up, or take turns again, for the calling thread."""
    os.sched_setscheduler(0, os.SCHED_IDLE if idle else os.SCHED_OTHER, os.sched_param(0))


def is_idle() -> bool:
    """Whether the calling thread gives way to whatever wakes up."""
    return os.sched_getscheduler(0) == os.SCHED_IDLE


SCHEDULE = Path("/proc/thread-self/schedstat")  # not every kernel and sandbox has it


@cache
def can_step_back() -> bool:
    """Whether a thread may lower its priority for a while. It needs the right to raise it again,
    and a system that reports whether the thread starves."""
    seen: list[bool] = []

    def there_and_back() -> None:
        with suppress(PermissionError):
            run_idle(True)
            run_idle(False)
            seen.append(True)

    thread = threading.Thread(target=there_and_back)
    thread.start()
    thread.join()
    return bool(seen) and SCHEDULE.exists()


def ran_and_waited_ns() -> tuple[int, int]:
    """How long the calling thread computed, and how long it could have and did not (proc(5),
    schedstat); 0 and 0 where the system does not say."""
    try:
        ran, waited, _ = SCHEDULE.read_text().split()
    except OSError:
        return 0, 0
    return int(ran), int(waited)


def kept_waiting_s() -> float:
    """How long the calling thread could have computed and did not."""
    return ran_and_waited_ns()[1] / 1e9


LEAST_PART = 0.25
_LOOK_NS = 200_000_000


class StarvationWatch:
    """Whether a thread is kept from the processor. `look`: as `ran_and_waited_ns`."""

    def __init__(self, look: Callable[[], tuple[int, int]] = ran_and_waited_ns) -> None:
        self._look = look
        self._seen: tuple[int, int] | None = None
        self._starves = False

    def starves(self, least: float = LEAST_PART) -> bool:
        """Whether the thread recently ran for less than this part of the time it was ready to."""
        now = self._look()
        if self._seen is None:
            self._seen = now
        ran, waited = now[0] - self._seen[0], now[1] - self._seen[1]
        if ran + waited >= _LOOK_NS:
            self._starves, self._seen = ran < (ran + waited) * least, now
        return self._starves


class _Writes(ForwardingStore, ABC):
    """A store that writes by `_write`. Reads are unchanged."""

    @abstractmethod
    def _write(self, work: Callable[[], Answer]) -> Answer: ...

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

    def bulk_chain(self, batches: Iterable[Bulk], most_s: float) -> list[BulkResult]:
        return self._write(partial(self.shared.bulk_chain, batches, most_s))


class UnhurriedStore(_Writes):
    """A store whose writes run in a thread of ordinary priority."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._hand = ThreadPoolExecutor(1, thread_name_prefix="exuvia-writes")
        self._hand.submit(step_forward).result()

    def _write(self, work: Callable[[], Answer]) -> Answer:
        return self._hand.submit(work).result()

    def close(self) -> None:
        self._hand.shutdown()
        super().close()


class NiceStore(_Writes):
    """A store for one thread, which computes at low priority and writes at its ordinary one."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._ordinary = 0
        self._is_niced = False
        self._watch = StarvationWatch()

    @contextmanager
    def niced(self) -> Iterator[None]:
        """Low priority until then, unless the thread could not come back from it, or starves."""
        if not can_step_back() or self._watch.starves():
            yield
            return
        self._ordinary = _priority()
        self._is_niced = True
        _set_priority(max(NICE, self._ordinary))
        try:
            yield
        finally:
            self._is_niced = False
            _set_priority(self._ordinary)

    def _write(self, work: Callable[[], Answer]) -> Answer:
        if not self._is_niced:
            return work()
        _set_priority(self._ordinary)
        try:
            return work()
        finally:
            _set_priority(max(NICE, self._ordinary))


# -- what clients' transactions take: in a front ---------------------------------------------------
#
# The duration of a transaction is the sum of its statements' durations. So a wait in a COMMIT
# counts once, whether the transaction has one statement or twenty. Durations are counted in buckets
# that grow by a twentieth, so quantiles have that precision. Without a job, the counts of the last
# minute are the baseline. Jobs do not change the baseline. A job sees no latencies from the time of
# another job, and a reading phase none from the time of writes.

EVERY_S = 0.5
CHANNEL = "share"  # a driver begins to ask
_WINDOW = 10  # looks: five seconds
_KEPT = 4 * _WINDOW  # looks: of phases that take turns, too
_BASELINE = 120  # looks: the minute before the first job
_ASKED_S = 3.0  # a driver that said nothing new for so long has ended
_FIRST_S = 20e-6
_GROWTH = math.log(1.05)
_BUCKETS = 320  # the last one begins at two minutes
LEAST_SAMPLES = 100
"""Below which they have no p99."""
MOST_STATEMENTS = 100
"""Longer transactions are counted in parts, so that they are counted before they end."""


class Latency(msgspec.Struct, frozen=True, array_like=True):
    """A front's report about its clients' transactions, in seconds.

    `number` counts its reports. `asked`: the drivers that the report answers; reports for earlier
    jobs do not count. `reads`: the report covers a time in which no driver wrote. `active`: clients
    commit now. Fronts of older versions do not send `active` and count as active."""

    number: int
    p99_s: float
    samples: int
    before_s: float  # p99 of the minute before the first job
    samples_before: int
    asked: tuple[bytes, ...] = ()
    reads: bool = False
    active: bool = True


Counts = np.ndarray[tuple[int], np.dtype[np.int64]]


class Durations:
    """Durations of this process's transactions. Threads count without a lock and may lose one."""

    def __init__(self) -> None:
        self._counts = [0] * _BUCKETS

    def observe(self, seconds: float) -> None:
        """Count a transaction of this duration."""
        bucket = int(math.log(seconds / _FIRST_S) / _GROWTH) if seconds > _FIRST_S else 0
        self._counts[min(bucket, _BUCKETS - 1)] += 1

    def take(self) -> Counts:
        """The counts since it was last asked."""
        counts, self._counts = self._counts, [0] * _BUCKETS
        return np.array(counts)


def p99_of(counts: Sequence[Counts]) -> tuple[float, int]:
    """(the upper end of the bucket that p99 lies in, how many transactions). Unit: s."""
    if not counts:
        return 0.0, 0
    whole = np.sum(counts, axis=0).cumsum()
    samples = int(whole[-1])
    bucket = int(np.searchsorted(whole, 0.99 * samples))
    return _FIRST_S * math.exp(_GROWTH * (bucket + 1)), samples


_QUIET = 3  # transactions of one look: fewer are an administrator's or a monitor's


class ClientActivity:
    """Whether the clients of this front commit transactions now, whatever jobs run.

    They are active from `LEAST_SAMPLES` transactions within the last five seconds until a look with
    next to none. A job that slows them down does not make them inactive, and clients that left
    before a job do not count for it. Just when a driver begins to ask, two such looks are required:
    what it did before may have stopped them.
    """

    def __init__(self) -> None:
        self._looks: deque[int] = deque([0], maxlen=_WINDOW)
        self._began = -math.inf  # of the last look
        self.is_active = False

    def observe(self, transactions: int, now: float, is_asked_anew: bool) -> None:
        """Add the transactions since the last call. A call that comes early, because a driver woke
        the front, extends the look before it."""
        if now - self._began < EVERY_S / 2:
            self._looks[-1] += transactions
        else:
            self._looks.append(transactions)
            self._began = now
        most = max(list(self._looks)[-2:]) if is_asked_anew else self._looks[-1]
        if most < _QUIET:
            self.is_active = False
        elif sum(self._looks) >= LEAST_SAMPLES:
            self.is_active = True


class Heard:
    """Who goes on speaking: what is said has a number, and who has ended says nothing new. For one
    thread."""

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[int, float]] = {}  # (number, when it was new)

    def lately(self, numbers: dict[bytes, int], now: float) -> set[bytes]:
        """Who said something new in the last seconds."""
        known = self._known
        self._known = {
            key: seen if (seen := known.get(key)) and seen[0] == number else (number, now)
            for key, number in numbers.items()
        }
        return {key for key, (_, since) in self._known.items() if now - since < _ASKED_S}


def drivers_in(txn: Transaction) -> dict[bytes, int]:
    """The numbers of what drivers of reorgs said last."""
    return {key: share.number for key, share in shares_of(txn)}


def reports_in(txn: Transaction) -> dict[bytes, Latency]:
    """What fronts reported last, also of jobs that have ended."""
    span = keys.span_of(keys.meta("latency"))
    return {key: msgspec.msgpack.decode(raw, type=Latency) for key, raw in txn.scan(span)}


class LatencyReports:
    """Tells drivers of reorgs what this front's clients wait. A loop of the front."""

    channel = CHANNEL

    def __init__(self, store: Store, member: Member, durations: Durations) -> None:
        self._store = store
        self._member = member
        self._durations = durations
        self._window: deque[tuple[bool, Counts]] = deque(maxlen=_KEPT)
        self._before: deque[Counts] = deque(maxlen=_BASELINE)
        self._activity = ClientActivity()
        self._drivers = Heard()
        self._answered: set[bytes] = set()
        self._reads = False
        self._reported = 0

    def step(self, now: float) -> float:
        """Count on; report while a driver asks. Seconds until the next look."""
        counts = self._durations.take()
        asked, reads = self._asking_drivers(now)
        is_asked_anew = bool(asked - self._answered)
        self._activity.observe(int(counts.sum()), now, is_asked_anew)
        if is_asked_anew:
            self._window.clear()  # and `counts` is dropped: the job's schema versions came in it
        elif reads == self._reads:  # else they are of both
            self._window.append((reads, counts))
        self._answered, self._reads = asked, reads
        if asked:
            self._reported += 1
            waits = *self._p99_while(reads), *p99_of(self._before)
            about = tuple(sorted(asked)), reads, self._activity.is_active
            report = Latency(self._reported, *waits, *about)
            key = keys.meta("latency", self._member.info.number)
            self._store.transact(lambda txn: txn.put(key, msgspec.msgpack.encode(report)))
        else:
            self._before.append(counts)
        return EVERY_S

    def _p99_while(self, reads: bool) -> tuple[float, int]:
        return p99_of([counts for each, counts in self._window if each == reads][-_WINDOW:])

    def window(self) -> tuple[float, int]:
        """(p99 of this front's transactions of late, how many). Any thread. Unit: s."""
        return p99_of([counts for _, counts in list(self._window)[-_WINDOW:]])

    def _asking_drivers(self, now: float) -> tuple[set[bytes], bool]:
        """The drivers that request reports, and whether all of them only read."""
        with self._store.read() as txn:
            shares = dict(shares_of(txn))
        asking = self._drivers.lately({key: share.number for key, share in shares.items()}, now)
        return asking, bool(asking) and all(shares[key].reads for key in asking)


# -- the share of the time: in the driver ----------------------------------------------------------


class Aim(NamedTuple):
    """What the operator wants. `target_s` 0: the factor counts."""

    factor: float
    target_s: float
    least: float


_BESIDE_S = 0.003
_TURNS_S = 0.05  # from writing to reading: small partitions do so all the time
_FIRST_LOOKS = (
    4  # before the first long writes, until fronts have reported whether clients are active
)
_RISE = 0.05  # a look
_HOLD_LOOKS = 6  # after a fall: what was measured before it is still in the window


def decided(share: float, clients: Sequence[Latency], aim: Aim, jobs: int) -> tuple[float, str]:
    """The share from now on, and why. `jobs` divide what one would have."""
    most, least = 1 / jobs, aim.least / jobs
    told = [each for each in clients if each.samples >= LEAST_SAMPLES]
    if not told:
        return most, ""
    judged = [
        (each.p99_s, aim.target_s or aim.factor * each.before_s)
        for each in told
        if aim.target_s or each.samples_before >= LEAST_SAMPLES
    ]
    if not judged:
        return most, NO_BASELINE(f"{most:.0%}")
    p99_s, allowed_s = max(judged, key=lambda pair: pair[0] / pair[1])
    if p99_s > allowed_s:
        share = share * max(0.5, allowed_s / p99_s)
    elif p99_s < 0.9 * allowed_s:
        share += _RISE
    share = min(most, max(least, share))
    floor = ", its least (exuvia_ddl_min_share)" if share == least and p99_s > allowed_s else ""
    return share, CLIENTS_FIRST(p99_s * 1e3, allowed_s * 1e3, f"{share:.0%}{floor}")


class ShareOrder(Protocol):
    """Who has a share: a reorg, or another job of many writes."""

    @property
    def job_id(self) -> int:
        """The number that no other has."""

    @property
    def fences(self) -> Sequence[Equal]:
        """What its writes require."""


class ShareController:
    """One reorg's, in its driver. One thread steps it."""

    def __init__(self, store: Store, order: ShareOrder) -> None:
        self._store = store
        self._fences = order.fences
        self._job_id = order.job_id
        self._key = keys.meta("share", order.job_id)
        self._reads = False
        self._shares = {False: 1.0, True: 1.0}  # of what writes, of what reads
        self._held = {False: 0, True: 0}
        self._number = 0
        self._looked_at = -math.inf
        self._fronts = Heard()
        self._drivers = Heard()
        self.reason = ""

    def step(self, now: float, reads: bool = False) -> None:
        """Look at the clients, twice a second. `reads`: its tasks write nothing now. Raises
        Deposed, Conflict."""
        settled = reads == self._reads and self._number >= _FIRST_LOOKS
        every_s = EVERY_S if settled else _TURNS_S
        if now < self._looked_at + every_s or not self._job_id:
            return
        self._looked_at, self._reads = now, reads
        self._store.transact(lambda txn: self._look(txn, now))

    def _look(self, txn: Transaction, now: float) -> None:
        told = reports_in(txn)
        answers = {key: each.number for key, each in told.items() if self._key in each.asked}
        fresh = [told[key] for key in self._fronts.lately(answers, now)]
        jobs = 1 + len(self._drivers.lately(drivers_in(txn), now) - {self._key})
        aim = Aim(
            variables.read_float(txn, "exuvia_ddl_p99_factor"),
            variables.read_int(txn, "exuvia_ddl_p99_target_ms") / 1e3,
            variables.read_float(txn, "exuvia_ddl_min_share"),
        )
        self._decide([each for each in fresh if each.reads == self._reads], bool(fresh), aim, jobs)
        self._number += 1
        hold_s = _BESIDE_S if any(report.active for report in fresh) else ALONE_S
        share = self._shares[self._reads]
        said = TimeShare(self._number, share, hold_s, self.reason, self._reads)
        for fence in self._fences:
            txn.require_equal(*fence)
        txn.put(self._key, msgspec.msgpack.encode(said))
        if self._number == 1:
            txn.notify(CHANNEL)

    def _decide(self, judged: Sequence[Latency], are_some: bool, aim: Aim, jobs: int) -> None:
        """The share from now on, and why. It stays, as far as jobs let it, until there are answers
        for what is done now."""
        known = self._shares[self._reads]
        if are_some and not judged:
            self._shares[self._reads], self.reason = min(known, 1 / jobs), ""
            return
        share, self.reason = decided(known, judged, aim, jobs)
        if share < known and self._held[self._reads]:
            self._held[self._reads] -= 1
        else:
            self._held[self._reads] = _HOLD_LOOKS if share < known else 0
            self._shares[self._reads] = share


# -- rests: in a task ------------------------------------------------------------------------------
#
# A task that has the processor for itself and works for 4 ms rests 12 ms for a quarter of the time.
# Where clients keep it from the processor (the kernel says how long it could have run and did not)
# it has waited already, and that counts as rest: so a share is a share of what it does alone, and
# the least one is kept beside the hungriest clients as well, as far as there is a processor left.

_MOST_REST_S = 0.5


class TaskPace:
    """One task's rests. One thread has it."""

    def __init__(
        self, monotonic: Callable[[], float], waited_s: Callable[[], float] = kept_waiting_s
    ) -> None:
        self._monotonic = monotonic
        self._waited_s = waited_s
        self._began = (0.0, 0.0)

    def begin(self) -> None:
        """A step of the task begins."""
        self._began = (self._monotonic(), self._waited_s())

    def rest_s(self, share: float) -> float:
        """How long to rest after the step. Unit: s."""
        if share >= 1:
            return 0.0
        spent_s = self._monotonic() - self._began[0]
        alone_s = max(0.0, spent_s - (self._waited_s() - self._began[1]))
        return min(_MOST_REST_S, max(0.0, alone_s / share - spent_s))


# -- the idle class: in a task of Spark ------------------------------------------------------------
#
# Low priority gives a processor up late, up to a tick of the scheduler. In the system's idle class
# a thread gives it up at once to whatever wakes up. So beside clients the kernel's thread runs
# there; where they leave it less than its least share it takes turns with them at low priority,
# until they leave it more.


class GivingWay:
    """Whether one thread computes only when nobody else wants to."""

    def __init__(self, look: Callable[[], tuple[int, int]] = ran_and_waited_ns) -> None:
        self._watch = StarvationWatch(look)
        self._idles = is_idle()  # an earlier task may have left it so

    def beside_clients(self, there_are_some: bool, least: float = LEAST_PART) -> None:
        """Give way, or take turns."""
        idles = there_are_some and can_step_back() and not self._watch.starves(least)
        if idles != self._idles:
            run_idle(idles)
            self._idles = idles


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


# -- rows of a transaction -------------------------------------------------------------------------
#
#     bound      tidb_ddl_reorg_batch_size, read again at every batch
#     size       grows by half after a success, halves after a conflict or, in a near store, a slow
#                commit
#     speed      tidb_ddl_reorg_max_write_speed: the rest grows until the bytes fit
#
# A store with one writer (LMDB) serves commits one after another: a client's commit that arrives
# while a batch is being written waits for it. So batches are short while clients are active. On
# PostgreSQL clients do not wait for a batch, and most of a commit's time may be the network. When
# batches shrank there, a fill over 200 ms wrote 32 rows in two round trips. A batch that stays
# small after one early conflict would make a fill crawl, so it grows again (fdb-record-layer issue
# 444).

_LEAST = REORG_BATCH_ROWS[0]


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
    """The batch size of one task: the bound at first, or `rows`. `near`: as `Store.near`."""

    def __init__(self, bound: int, rows: int | None = None, *, near: bool) -> None:
        self.bound = bound
        self._near = near
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

    def succeeded(self, rows: int, seconds: float, allowed_s: float) -> Batch:
        """A transaction of `rows` took `seconds` of those that one may take."""
        factor = min(1.5, max(0.5, allowed_s / max(seconds, 1e-6))) if self._near else 1.5
        if factor < 1:
            self._rows = max(_LEAST, self._rows * factor)
        elif rows >= self.rows:
            self._rows = min(self._rows * factor, float(self.bound))
        return Batch(rows, seconds)

    def chained(self, rows: int, number: int, seconds: float, allowed_s: float) -> Batch:
        """So many transactions that waited for the disk together; the last may have been small."""
        self.succeeded(self.rows if number > 1 else rows, seconds / number, allowed_s)
        return Batch(rows, seconds)

    def refused(self) -> None:
        """A transaction met a conflict and will be tried again."""
        self._rows = max(1.0, min(self._rows, float(self.bound)) / 2)
