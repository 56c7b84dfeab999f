"""Limits a reorg's speed while clients are active. It has one target, one controller and one
controlled variable: the share of time in which its tasks work.

    fronts     durations of clients' transactions, over 5 s          -> m/latency/{member}
    driver     twice a second: compares their p99 with the limit     -> m/share/{job}, with a reason
    tasks      work for their share of the time, then rest

The limit of p99 is `exuvia_ddl_p99_target_ms` if set, else `exuvia_ddl_p99_factor` times the p99 of
the minute before the first job. The aims, most important first:

    1   a reorg has at least `exuvia_ddl_min_share` of the time it has alone
    2   p99 stays below the limit
    3   the reorg is fast

Phases that only read have a share of their own, set by latencies measured while no phase wrote. So
the cost of writes does not slow a comparison down.

    Durations, LatencyReports   in a front: transaction durations by the second
    ShareController             in the driver: `decide_share` is the rule
    TaskPace                    in a task: rests
    BatchSize                   rows of one transaction
    Slot                        how many tasks write at once
    step_back                   processor priority
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

from exuvia.base.decoding import from_msgpack
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
# Low-priority work never makes clients wait for a lock that it owns.
#
#     the JVM, from its second wave nice 10   yields the processor to others
#     the JVM, until then           nice 0    a job waits for its start
#     thread of the kernel          nice 10   reads, decodes, sorts
#     thread of the writes          nice 0    acquires the store's writer, writes, releases it
#     the back's thread of a reorg  nice 10   reads, decodes, sorts, frees memory
#                                   nice 0    writes, and everything outside a reorg's steps
#
# Linux has a priority per thread. If writes had the kernel's priority, a batch with the store's
# only writer could be preempted, and all clients would wait for it (priority inversion). Returning
# to 0 needs a privilege (root, CAP_SYS_NICE, RLIMIT_NICE). Without it, writes stay at 10, in
# batches of a few milliseconds while clients commit, and the back's thread keeps its priority.
#
# Unlike Spark's kernels, the back's thread does not use the idle class. It may own the interpreter
# lock, which other threads of its process wait for. It lowers its priority even before
# clients are reported. Otherwise a client's finished commit could wait for up to a scheduler tick
# while the other processor is idle. A process has one kernel at a time, so one thread of each kind
# is enough.

NICE = 10

Answer = TypeVar("Answer")


def _priority() -> int:
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


def _set_priority(nice: int) -> None:
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), nice)


def step_back() -> None:
    """Lowers the calling thread's priority permanently."""
    _set_priority(NICE)


def step_back_process(pid: int) -> None:
    """Lowers the priority of all threads of a process permanently. Threads that they start later
    inherit it."""
    for thread in map(int, os.listdir(f"/proc/{pid}/task")):
        with suppress(ProcessLookupError):
            present = os.getpriority(os.PRIO_PROCESS, thread)
            os.setpriority(os.PRIO_PROCESS, thread, max(present, NICE))


def step_forward() -> None:
    """Sets ordinary priority for the calling thread, if permitted."""
    with suppress(PermissionError):
        _set_priority(0)


def run_idle(idle: bool) -> None:
    """Puts the calling thread into the idle scheduling class, or back into the ordinary one."""
    os.sched_setscheduler(0, os.SCHED_IDLE if idle else os.SCHED_OTHER, os.sched_param(0))


def is_idle() -> bool:
    """Whether the calling thread is in the idle scheduling class."""
    return os.sched_getscheduler(0) == os.SCHED_IDLE


SCHEDULE = Path("/proc/thread-self/schedstat")  # missing in some kernels and sandboxes


@cache
def can_step_back() -> bool:
    """Whether a thread may lower its priority temporarily. It needs the privilege to raise it
    again, and a system that reports whether the thread starves."""
    successes: list[bool] = []

    def try_idle() -> None:
        with suppress(PermissionError):
            run_idle(True)
            run_idle(False)
            successes.append(True)

    thread = threading.Thread(target=try_idle)
    thread.start()
    thread.join()
    return bool(successes) and SCHEDULE.exists()


def ran_and_waited_ns() -> tuple[int, int]:
    """Returns how long the calling thread ran, and how long it was ready but did not run. Source:
    schedstat, proc(5); (0, 0) if the system does not report it."""
    try:
        ran, waited, _ = SCHEDULE.read_text().split()
    except OSError:
        return 0, 0
    return int(ran), int(waited)


def kept_waiting_s() -> float:
    """Returns how long the calling thread was ready but did not run."""
    return ran_and_waited_ns()[1] / 1e9


LEAST_PART = 0.25
_LOOK_NS = 200_000_000


class StarvationWatch:
    """Detects that a thread is denied the processor. `look`: a function like
    `ran_and_waited_ns`."""

    def __init__(self, look: Callable[[], tuple[int, int]] = ran_and_waited_ns) -> None:
        self._look = look
        self._last_seen: tuple[int, int] | None = None
        self._starves = False

    def starves(self, least: float = LEAST_PART) -> bool:
        """Whether the thread recently ran for less than the fraction `least` of its ready time."""
        now = self._look()
        if self._last_seen is None:
            self._last_seen = now
        ran, waited = now[0] - self._last_seen[0], now[1] - self._last_seen[1]
        if ran + waited >= _LOOK_NS:
            self._starves, self._last_seen = ran < (ran + waited) * least, now
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
    """A store for one thread that computes at low priority and writes at its ordinary priority."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._ordinary = 0
        self._is_niced = False
        self._watch = StarvationWatch()

    @contextmanager
    def niced(self) -> Iterator[None]:
        """Low priority during the block, unless the thread could not return from it, or starves."""
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


# -- transaction durations: in a front -------------------------------------------------------------
#
# The duration of a transaction is the sum of its statements' durations. So a wait in a COMMIT
# counts once, whether the transaction has one statement or twenty. Durations are counted in buckets
# that grow by a twentieth, so quantiles have that precision. Without a job, the counts of the last
# minute are the baseline. Jobs do not change the baseline. A job sees no latencies from the time of
# another job, and a reading phase none from the time of writes.

EVERY_S = 0.5
CHANNEL = "share"  # notified when a driver starts to request reports
_WINDOW = 10  # looks: five seconds
_RETAINED = 4 * _WINDOW  # looks: enough for phases that alternate
_BASELINE = 120  # looks: the minute before the first job
_SENDER_TIMEOUT_S = 3.0  # a driver without a new decision for this long has ended
_FIRST_S = 20e-6
_GROWTH = math.log(1.05)
_BUCKETS = 320  # the last one begins at two minutes
LEAST_SAMPLES = 100
"""Minimum number of samples for a p99."""
MOST_STATEMENTS = 100
"""Longer transactions are counted in parts, so that they are counted before they end."""


class Latency(msgspec.Struct, frozen=True, array_like=True):
    """A front's report about its clients' transactions, in seconds.

    `number` counts its reports. `asked`: the drivers that the report answers; reports for earlier
    jobs do not count. `reads`: the report covers a time in which no driver wrote. `active`: clients
    commit now. Fronts of older releases do not send `active` and count as active."""

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
    """Durations of this process's transactions. Threads count without a lock; a count may be
    lost."""

    def __init__(self) -> None:
        self._counts = [0] * _BUCKETS

    def observe(self, seconds: float) -> None:
        """Counts a transaction of this duration."""
        bucket = int(math.log(seconds / _FIRST_S) / _GROWTH) if seconds > _FIRST_S else 0
        self._counts[min(bucket, _BUCKETS - 1)] += 1

    def take(self) -> Counts:
        """Returns the counts since the last call."""
        counts, self._counts = self._counts, [0] * _BUCKETS
        return np.array(counts)


def p99_of(counts: Sequence[Counts]) -> tuple[float, int]:
    """Returns (upper end of p99's bucket, number of transactions). Unit: s."""
    if not counts:
        return 0.0, 0
    whole = np.sum(counts, axis=0).cumsum()
    samples = int(whole[-1])
    bucket = int(np.searchsorted(whole, 0.99 * samples))
    return _FIRST_S * math.exp(_GROWTH * (bucket + 1)), samples


_QUIET = 3  # transactions of one look: fewer are from an administrator or a monitor


class ClientActivity:
    """Whether the clients of this front commit transactions now.

    They become active with `LEAST_SAMPLES` transactions within the last five seconds, and inactive
    with a look of fewer than `_QUIET`. So a job that slows them down does not make them inactive,
    and clients that disconnected before a job do not count. Just after a driver starts to request
    reports, two such looks are required, because the driver's earlier work may have blocked them.
    """

    def __init__(self) -> None:
        self._looks: deque[int] = deque([0], maxlen=_WINDOW)
        self._began = -math.inf  # start of the last look
        self.is_active = False

    def observe(self, transactions: int, now: float, is_asked_anew: bool) -> None:
        """Adds the transactions since the last call. An early call, made because a driver woke the
        front, extends the previous look."""
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


class RecentSenders:
    """Detects senders that are still alive: each message has a number, and an ended sender sends no
    new number. For one thread."""

    def __init__(self) -> None:
        self._last_numbers: dict[bytes, tuple[int, float]] = {}  # (number, time when it was new)

    def recent(self, numbers: dict[bytes, int], now: float) -> set[bytes]:
        """Returns the senders of a new number in the last seconds."""
        earlier = self._last_numbers
        self._last_numbers = {
            key: sender if (sender := earlier.get(key)) and sender[0] == number else (number, now)
            for key, number in numbers.items()
        }
        return {
            key for key, (_, since) in self._last_numbers.items() if now - since < _SENDER_TIMEOUT_S
        }


def drivers_in(txn: Transaction) -> dict[bytes, int]:
    """Returns the numbers of the drivers' last decisions."""
    return {key: share.number for key, share in shares_of(txn)}


def reports_in(txn: Transaction) -> dict[bytes, Latency]:
    """Returns the fronts' last reports, including those for jobs that have ended."""
    span = keys.span_of(keys.meta("latency"))
    return {key: from_msgpack(raw, Latency) for key, raw in txn.scan(span)}


class LatencyReports:
    """Reports this front's latencies to drivers of reorgs. A loop of the front."""

    channel = CHANNEL

    def __init__(self, store: Store, member: Member, durations: Durations) -> None:
        self._store = store
        self._member = member
        self._durations = durations
        self._window: deque[tuple[bool, Counts]] = deque(maxlen=_RETAINED)
        self._before: deque[Counts] = deque(maxlen=_BASELINE)
        self._activity = ClientActivity()
        self._drivers = RecentSenders()
        self._answered: set[bytes] = set()
        self._reads = False
        self._reported = 0

    def step(self, now: float) -> float:
        """Counts, and reports while a driver requests it. Returns seconds until the next look."""
        counts = self._durations.take()
        drivers, reads = self._asking_drivers(now)
        is_asked_anew = bool(drivers - self._answered)
        self._activity.observe(int(counts.sum()), now, is_asked_anew)
        if is_asked_anew:
            self._window.clear()  # and drops `counts`: they include the job's schema versions
        elif reads == self._reads:  # otherwise the counts mix both
            self._window.append((reads, counts))
        self._answered, self._reads = drivers, reads
        if drivers:
            self._reported += 1
            waits = *self._p99_while(reads), *p99_of(self._before)
            about = tuple(sorted(drivers)), reads, self._activity.is_active
            report = Latency(self._reported, *waits, *about)
            key = keys.meta("latency", self._member.info.number)
            self._store.transact(lambda txn: txn.put(key, msgspec.msgpack.encode(report)))
        else:
            self._before.append(counts)
        return EVERY_S

    def _p99_while(self, reads: bool) -> tuple[float, int]:
        return p99_of(
            [counts for is_reading, counts in self._window if is_reading == reads][-_WINDOW:]
        )

    def window(self) -> tuple[float, int]:
        """Returns (recent p99 of this front's transactions, their number). Any thread. Unit: s."""
        return p99_of([counts for _, counts in list(self._window)[-_WINDOW:]])

    def _asking_drivers(self, now: float) -> tuple[set[bytes], bool]:
        """The drivers that request reports, and whether all of them only read."""
        with self._store.read() as txn:
            shares = dict(shares_of(txn))
        asking = self._drivers.recent({key: share.number for key, share in shares.items()}, now)
        return asking, bool(asking) and all(shares[key].reads for key in asking)


# -- the share of the time: in the driver ----------------------------------------------------------


class Aim(NamedTuple):
    """The operator's target. `target_s` 0: the factor applies."""

    factor: float
    target_s: float
    least: float


_WITH_CLIENTS_S = 0.003
_TURNS_S = 0.05  # from writing to reading: small partitions alternate all the time
_FIRST_LOOKS = 4  # more frequent looks until fronts have reported whether clients are active
_RISE = 0.05  # a look
_HOLD_LOOKS = 6  # after a fall: earlier measurements are still in the window


def decide_share(
    share: float, clients: Sequence[Latency], aim: Aim, jobs: int
) -> tuple[float, str]:
    """Returns the new share and the reason. Concurrent `jobs` divide the share of one."""
    most, least = 1 / jobs, aim.least / jobs
    reports = [report for report in clients if report.samples >= LEAST_SAMPLES]
    if not reports:
        return most, ""
    judged = [
        (report.p99_s, aim.target_s or aim.factor * report.before_s)
        for report in reports
        if aim.target_s or report.samples_before >= LEAST_SAMPLES
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
    """The owner of a share: a reorg, or another job with many writes."""

    @property
    def job_id(self) -> int:
        """The unique number of the owner."""

    @property
    def fences(self) -> Sequence[Equal]:
        """Preconditions of the owner's writes."""


class ShareController:
    """The share of one reorg, controlled by its driver. One thread steps it."""

    def __init__(self, store: Store, order: ShareOrder) -> None:
        self._store = store
        self._fences = order.fences
        self._job_id = order.job_id
        self._key = keys.meta("share", order.job_id)
        self._reads = False
        self._shares = {False: 1.0, True: 1.0}  # by whether tasks only read
        self._hold_looks = {False: 0, True: 0}
        self._number = 0
        self._looked_at = -math.inf
        self._fronts = RecentSenders()
        self._drivers = RecentSenders()
        self.reason = ""

    def step(self, now: float, reads: bool = False) -> None:
        """Checks the clients' latency, twice a second. `reads`: tasks write nothing now. Raises
        Deposed, Conflict."""
        settled = reads == self._reads and self._number >= _FIRST_LOOKS
        every_s = EVERY_S if settled else _TURNS_S
        if now < self._looked_at + every_s or not self._job_id:
            return
        self._looked_at, self._reads = now, reads
        self._store.transact(lambda txn: self._look(txn, now))

    def _look(self, txn: Transaction, now: float) -> None:
        reports = reports_in(txn)
        answers = {
            key: report.number for key, report in reports.items() if self._key in report.asked
        }
        fresh = [reports[key] for key in self._fronts.recent(answers, now)]
        jobs = 1 + len(self._drivers.recent(drivers_in(txn), now) - {self._key})
        aim = Aim(
            variables.read_float(txn, "exuvia_ddl_p99_factor"),
            variables.read_int(txn, "exuvia_ddl_p99_target_ms") / 1e3,
            variables.read_float(txn, "exuvia_ddl_min_share"),
        )
        self._decide(
            [report for report in fresh if report.reads == self._reads], bool(fresh), aim, jobs
        )
        self._number += 1
        hold_s = _WITH_CLIENTS_S if any(report.active for report in fresh) else ALONE_S
        share = self._shares[self._reads]
        decision = TimeShare(self._number, share, hold_s, self.reason, self._reads)
        for fence in self._fences:
            txn.require_equal(*fence)
        txn.put(self._key, msgspec.msgpack.encode(decision))
        if self._number == 1:
            txn.notify(CHANNEL)

    def _decide(self, judged: Sequence[Latency], are_some: bool, aim: Aim, jobs: int) -> None:
        """Decides the share. Until reports cover the current kind of work, the share stays, or
        falls to the part that concurrent jobs leave."""
        current = self._shares[self._reads]
        if are_some and not judged:
            self._shares[self._reads], self.reason = min(current, 1 / jobs), ""
            return
        share, self.reason = decide_share(current, judged, aim, jobs)
        if share < current and self._hold_looks[self._reads]:
            self._hold_looks[self._reads] -= 1
        else:
            self._hold_looks[self._reads] = _HOLD_LOOKS if share < current else 0
            self._shares[self._reads] = share


# -- rests: in a task ------------------------------------------------------------------------------
#
# With a share of a quarter, a task that works alone for 4 ms rests for 12 ms. Time in which clients
# kept it from the processor (reported by the kernel) counts as rest. So a share is a fraction of
# the speed it has alone. The minimum share is reached even with the busiest clients, as far as
# there is processor time left.

_MOST_REST_S = 0.5


class TaskPace:
    """The rests of one task. For one thread."""

    def __init__(
        self, monotonic: Callable[[], float], waited_s: Callable[[], float] = kept_waiting_s
    ) -> None:
        self._monotonic = monotonic
        self._waited_s = waited_s
        self._began = (0.0, 0.0)

    def begin(self) -> None:
        """Marks the begin of a step."""
        self._began = (self._monotonic(), self._waited_s())

    def rest_s(self, share: float) -> float:
        """Returns the rest after the step. Unit: s."""
        if share >= 1:
            return 0.0
        spent_s = self._monotonic() - self._began[0]
        alone_s = max(0.0, spent_s - (self._waited_s() - self._began[1]))
        return min(_MOST_REST_S, max(0.0, alone_s / share - spent_s))


# -- the idle class: in a task of Spark ------------------------------------------------------------
#
# A low-priority thread yields a processor late, up to a scheduler tick. In the system's idle class
# it yields at once to any thread that wakes up. So with active clients the kernel's thread is in
# the idle class. If clients leave it less than its minimum share, it competes at low priority until
# they leave it more.


class IdleScheduling:
    """Puts one thread into the idle class while clients are active."""

    def __init__(self, look: Callable[[], tuple[int, int]] = ran_and_waited_ns) -> None:
        self._watch = StarvationWatch(look)
        self._idles = is_idle()  # may be set by an earlier task

    def update(self, are_active: bool, least: float = LEAST_PART) -> None:
        """Enters or leaves the idle class."""
        idles = are_active and can_step_back() and not self._watch.starves(least)
        if idles != self._idles:
            run_idle(idles)
            self._idles = idles


# -- how many tasks write at once ------------------------------------------------------------------
#
# `tidb_ddl_reorg_worker_cnt` slots, each the presence of one process.
#
#     slot 0   owned by the task of process 71   worker count 2: a task uses any free slot below 2
#     slot 1   owned by the task of process 72   set to 1: the owner of slot 1 releases it at its
#     slot 2   not available                     next batch and waits, checking the epoch
#
# A presence ends with its process (Store.hold), so a killed task blocks no other and needs no
# cleanup. Only tasks in processes of their own need slots: in this process tasks run one after
# another.


class Slot:
    """One task's slot among those that may write."""

    def __init__(self, store: Store, order: TaskOrder, ordinal: int, name: str = "") -> None:
        self._store = store
        self._order = order
        self._first = ordinal
        self._name = name or f"reorg/{order.job_id}"
        self._number = -1
        self._presence: Presence | None = None

    def acquire(self, workers: int) -> bool:
        """Acquires or keeps a slot. Returns False if none of `workers` slots is free.

        Raises Deposed if the reorg was abandoned."""
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
        """Releases the slot. Idempotent."""
        presence, self._presence, self._number = self._presence, None, -1
        if presence is not None:
            presence.release()


# -- rows of a transaction -------------------------------------------------------------------------
#
#     bound      tidb_ddl_reorg_batch_size, read again at every batch
#     size       grows by half after a success, halves after a conflict or, in a near store, after a
#                transaction that held the writer for too long
#     speed      tidb_ddl_reorg_max_write_speed: the rest grows until the bytes fit
#
# A store with one writer (LMDB) serves commits one after another: a client's commit that arrives
# while a batch is being written waits for it. So batches are short while clients are active. On
# PostgreSQL clients do not wait for a batch, and most of a commit's time may be the network. When
# batches shrank there, a backfill over 200 ms wrote 32 rows in two round trips. A batch that stays
# small after one early conflict would make a backfill crawl, so it grows again (fdb-record-layer
# issue 444).
#
# The waits for the writer and for the disk do not count as time that a chain holds the writer. They
# are as long for few rows as for many. When they counted, a disk whose sync takes 6 ms made chains
# of 32 rows. Each commit writes a dozen pages besides its rows, and takes them from all over the
# file (decision 137). Where a transaction's own time is not known, it keeps `least` rows.


class Batch(NamedTuple):
    """One finished transaction of a task.

    `rest_s`: how long the task should rest before the next."""

    rows: int
    seconds: float
    rest_s: float = 0.0


Steps = Generator[Batch, None, Outcome]
"""A running kernel: each `next` reads some rows, or runs one transaction."""


def throttled(batch: Batch, size: int, settings: PipelineSettings, at_once: int) -> Batch:
    """Returns the batch with a rest that limits all tasks to the write speed. `size`: bytes."""
    if not settings.write_speed:
        return batch
    share_s = size * min(settings.workers, at_once) / settings.write_speed
    return batch._replace(rest_s=max(batch.rest_s, share_s - batch.seconds))


class BatchSize:
    """The batch size of one task: initially the bound, or `rows`. `near`: see `Store.near`.

    `least`: a slow transaction does not make it smaller; a bound or a conflict does."""

    def __init__(
        self, bound: int, rows: int | None = None, *, near: bool, least: int = REORG_BATCH_ROWS[0]
    ) -> None:
        self.bound = bound
        self._near = near
        self._least = least
        self._rows = float(bound if rows is None else rows)

    @property
    def rows(self) -> int:
        """Rows for the next transaction."""
        return max(1, min(int(self._rows), self.bound))

    def bounded(self, bound: int) -> None:
        """Applies a newly read bound.

        A task that used all of the old bound uses all of the new one."""
        if self._rows >= self.bound:
            self._rows = max(self._rows, float(bound))
        self.bound = bound

    def succeeded(self, rows: int, seconds: float, allowed_s: float) -> None:
        """Records a transaction of `rows` that took `seconds` of the allowed time."""
        factor = min(1.5, max(0.5, allowed_s / max(seconds, 1e-6))) if self._near else 1.5
        if factor < 1:
            self._rows = max(self._least, self._rows * factor)
        elif rows >= self.rows:
            self._rows = min(self._rows * factor, float(self.bound))

    def chained(self, rows: int, number: int, seconds: float, allowed_s: float) -> None:
        """Records `number` transactions that shared one disk sync; the last may have been small."""
        self.succeeded(self.rows if number > 1 else rows, seconds / number, allowed_s)

    def refused(self) -> None:
        """Records a conflict; the transaction will be repeated."""
        self._rows = max(1.0, min(self._rows, float(self.bound)) / 2)
