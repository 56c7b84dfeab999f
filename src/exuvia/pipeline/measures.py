"""Measures of tasks and the report of a wave, the same for each engine.

    MeteredStore  counts the bytes that one attempt reads from its store and writes to it
    WaveReport    the state of a wave; its text is a part of COMMENTS, and /metrics and the page
                  read it back from there, so that all three show the same

Bytes are those of keys and values, not of pages. So they do not depend on the store, nor on the
process that runs the task.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from exuvia.base.waits import SPARK_LOST
from exuvia.kv.packet import (
    Bulk,
    BulkResult,
    Packet,
    Piece,
    RawRun,
    Requirement,
    Snapshot,
    SnapshotUse,
    Span,
)
from exuvia.kv.store import ForwardingStore, Store
from exuvia.pipeline.task import Outcome, TaskCost

MB = 1 << 20
LOCAL, SPARK = "local", "spark"

# -- one attempt -----------------------------------------------------------------------------------


class _MeteredSnapshot:
    """Passes all calls to a snapshot, and counts the bytes of spans that are read."""

    def __init__(self, snapshot: Snapshot, meter: "MeteredStore") -> None:
        self._snapshot = snapshot
        self._meter = meter

    def __getattr__(self, name: str) -> Any:
        return getattr(self._snapshot, name)

    def chunks(self, span: Span, rows: int = 10_000) -> Iterator[tuple[list[bytes], list[bytes]]]:
        for keys, raws in self._snapshot.chunks(span, rows):
            self._meter.bytes_read += _size(keys) + _size(raws)
            yield keys, raws

    def pieces(self, span: Span) -> Iterator[Piece]:
        for piece in self._snapshot.pieces(span):
            yield partial(self._counted, piece)

    def _counted(self, piece: Piece) -> Iterator[RawRun]:
        for run in piece():
            self._meter.bytes_read += int(run.key_lengths.sum() + run.lengths.sum())
            yield run


class MeteredStore(ForwardingStore):
    """A store for one attempt at a task. `bytes_read` and `bytes_written` are
    sums since it was built."""

    def __init__(self, shared: Store) -> None:
        super().__init__(shared)
        self.bytes_read = self.bytes_written = 0

    def snapshot(self, use: SnapshotUse = SnapshotUse.SYSTEM) -> Snapshot:
        metered: Any = _MeteredSnapshot(self.shared.snapshot(use), self)
        return metered  # type: ignore[no-any-return]

    def commit(self, packet: Packet) -> int:
        sequence = self.shared.commit(packet)
        self.bytes_written += sum(len(write.key) + len(write.payload) for write in packet.writes)
        return sequence

    def bulk(
        self,
        keys: Sequence[bytes],
        payloads: Sequence[bytes] | bytes,
        requirements: Sequence[Requirement] = (),
        puts: Sequence[tuple[bytes, bytes]] = (),
        report: bool = False,
        overwrite: bool = False,
    ) -> BulkResult:
        result = self.shared.bulk(keys, payloads, requirements, puts, report, overwrite)
        self.bytes_written += _bulk_size(keys, payloads)
        return result

    def bulk_chain(self, batches: Iterable[Bulk], most_s: float) -> list[BulkResult]:
        sizes: list[int] = []
        results = self.shared.bulk_chain(_noting(batches, sizes), most_s)
        self.bytes_written += sum(sizes[: len(results)])
        return results


def _noting(batches: Iterable[Bulk], sizes: list[int]) -> Iterator[Bulk]:
    for bulk in batches:
        sizes.append(_bulk_size(bulk.keys, bulk.payloads))
        yield bulk


def _bulk_size(keys: Sequence[bytes], payloads: Sequence[bytes] | bytes) -> int:
    if isinstance(payloads, bytes):  # the same one for all keys
        return _size(keys) + len(payloads) * len(keys)
    return _size(keys) + _size(payloads)


def _size(values: Sequence[bytes]) -> int:
    return sum(map(len, values))


# -- a wave ----------------------------------------------------------------------------------------


class WaveReport(NamedTuple):
    """The tasks of the running wave, and the bytes of the phase.

    `engine`: LOCAL or SPARK. `executors`: processes that run tasks; 0 if not known. `failed`:
    attempts that ended without an outcome. `retried`: tasks that were begun again. `lost`:
    executors that ended."""

    engine: str
    executors: int = 0
    total: int = 0
    done: int = 0
    running: int = 0
    failed: int = 0
    retried: int = 0
    slowest_s: float = 0.0
    read: int = 0
    spilled: int = 0
    written: int = 0
    lost: tuple[str, ...] = ()
    page: str = ""

    @property
    def waiting(self) -> int:
        """Number of tasks that no process runs yet."""
        return max(0, self.total - self.done - self.running)

    def after(self, cost: TaskCost) -> "WaveReport":
        """Returns the report with the cost of ended tasks added."""
        return self._replace(
            read=self.read + cost.read,
            spilled=self.spilled + cost.spilled,
            written=self.written + cost.written,
            failed=self.failed + cost.attempt,
            retried=self.retried + cost.attempt,
            slowest_s=max(self.slowest_s, cost.seconds),
        )

    def beside(self, other: "WaveReport") -> "WaveReport":
        """Returns the report of both parts of one wave."""
        return WaveReport(
            engine=self.engine if self.engine == other.engine else SPARK,
            executors=self.executors + other.executors,
            total=self.total + other.total,
            done=self.done + other.done,
            running=self.running + other.running,
            failed=self.failed + other.failed,
            retried=self.retried + other.retried,
            slowest_s=max(self.slowest_s, other.slowest_s),
            read=self.read + other.read,
            spilled=self.spilled + other.spilled,
            written=self.written + other.written,
            lost=self.lost + other.lost,
            page=self.page or other.page,
        )

    def text(self) -> str:
        """Returns the report for COMMENTS; `report_in` is the inverse."""
        parts = [
            f"{self.engine}: {self.done} of {self.total} task(s) done",
            f"{self.running} running",
        ]
        if self.executors:
            parts.append(f"{self.executors} executor(s)")
        if self.failed or self.retried:
            parts.append(f"{self.failed} failed, {self.retried} retried")
        if self.slowest_s:
            parts.append(f"slowest {self.slowest_s:.1f} s")
        if self.read or self.spilled or self.written:
            sizes = (self.read / MB, self.spilled / MB, self.written / MB)
            parts.append("{:.1f} MB read, {:.1f} MB spilled, {:.1f} MB written".format(*sizes))
        if self.page:
            parts.append(f"see {self.page}")
        parts += [SPARK_LOST(one) for one in self.lost]
        return ", ".join(parts)


_ENGINE = re.compile(r"\b(local|spark): (\d+) of (\d+) task\(s\) done, (\d+) running")
_EXECUTORS = re.compile(r"(\d+) executor\(s\)")
_REPEATED = re.compile(r"(\d+) failed, (\d+) retried")
_SLOWEST = re.compile(r"slowest ([\d.]+) s")
_BYTES = re.compile(r"([\d.]+) MB read, ([\d.]+) MB spilled, ([\d.]+) MB written")
_PAGE = re.compile(r"see (http://\S+?)(?:[,;]|$)")
_LOST = SPARK_LOST.text.partition("%s")[0]


def report_in(note: str) -> WaveReport | None:
    """Returns the report in a job's note, or None. Bytes are rounded to 0.1 MB; `lost` stays
    empty."""
    head = _ENGINE.search(note)
    if head is None:
        return None
    note = note[head.start() :].partition(_LOST)[0]
    done, total, running = map(int, head.groups()[1:])
    report = WaveReport(head[1], 0, total, done, running)
    if match := _EXECUTORS.search(note):
        report = report._replace(executors=int(match[1]))
    if match := _REPEATED.search(note):
        report = report._replace(failed=int(match[1]), retried=int(match[2]))
    if match := _SLOWEST.search(note):
        report = report._replace(slowest_s=float(match[1]))
    if match := _BYTES.search(note):
        read, spilled, written = (round(float(size) * MB) for size in match.groups())
        report = report._replace(read=read, spilled=spilled, written=written)
    if match := _PAGE.search(note):
        report = report._replace(page=match[1])
    return report


def cost_of(outcomes: Iterable[Outcome]) -> TaskCost:
    """Returns the sum of the costs, with the time of the slowest task."""
    total = TaskCost()
    for outcome in outcomes:
        total = total.plus(outcome.cost)
    return total
