"""The table of kernels, and one attempt at a task, which turns errors into outcomes.

Deposed        the epoch was lost: stop quietly            -> deposed
Unavailable    store full, snapshot too old, ...           -> unavailable, a reason to wait
Conflict       writers kept changing a key                 -> unavailable
Refused        impossible with these rows                  -> failed
"""

import os
import threading
import time
from collections.abc import Callable

from msgspec.structs import replace

from exuvia.base.errors import Conflict, Deposed, Refused, Unavailable
from exuvia.kv.store import Store, open_store
from exuvia.pipeline import checkpoint
from exuvia.pipeline.kernels import load_files, move, rekey, rewrite, summary
from exuvia.pipeline.kernels.clean import Clean
from exuvia.pipeline.kernels.exchange import Merge, Spill
from exuvia.pipeline.kernels.fill import Fill
from exuvia.pipeline.kernels.renumber import renumber
from exuvia.pipeline.measures import MeteredStore
from exuvia.pipeline.settings import ALONE_S, Dial, Variables
from exuvia.pipeline.task import (
    DEPOSED,
    FAILED,
    UNAVAILABLE,
    WARM,
    Outcome,
    Task,
    TaskCost,
    decode_task,
    encode,
)
from exuvia.pipeline.throttle import (
    Batch,
    IdleScheduling,
    Slot,
    Steps,
    TaskPace,
    UnhurriedStore,
    step_back,
)
from exuvia.pipeline.verify import rules, scan

SCANS: dict[str, Callable[[Store, Task], Steps]] = {
    "sum rows": scan.sum_rows,
    "sum entries": scan.sum_entries,
    "sum both": scan.sum_both,
    "collect rows": scan.collect_rows,
    "collect entries": scan.collect_entries,
    "checksum": scan.checksum,
    "check rows": rules.check_rows,
    "renumber": renumber,
    "check moved": move.check_moved,
    "check apart": move.check_apart,
    "check fits": move.check_fits,
    "check rekeyed": rekey.check_rekeyed,
    "check column": rewrite.check_column,
    "verify column": rewrite.verify_column,
    "summarize": summary.summarize,
}
WRITERS: dict[str, type[Fill | rewrite.Rewrite | move.Move | load_files.Import | Clean]] = {
    "fill": Fill,
    "spill": Spill,
    "merge": Merge,
    "clean": Clean,
    "rewrite": rewrite.Rewrite,
    "move": move.Move,
    "rekey": rekey.RekeyMove,
    "move to ids": rekey.MoveToIds,
    "import": load_files.Import,
}


class TaskAttempt:
    """A running task, one transaction at a time."""

    def __init__(
        self, store: Store, task: Task, dial: Dial, monotonic: Callable[[], float]
    ) -> None:
        self.task = task
        self._dial = dial
        self._pace = TaskPace(monotonic)
        self._monotonic = monotonic
        self._began = monotonic()
        self._meter = store = MeteredStore(store)
        if task.kind in WRITERS:
            self._steps = _unless_finished(store, task, dial, monotonic)
        else:
            self._steps = SCANS[task.kind](store, task)

    def advance(self) -> Batch | Outcome:
        """Runs the next transaction. Returns it with its rest, or the outcome of the task, with its
        cost."""
        reached = self._advance()
        if isinstance(reached, Batch):
            return reached
        used = TaskCost(
            read=self._meter.bytes_read,
            written=self._meter.bytes_written,
            seconds=self._monotonic() - self._began,
        )
        return replace(reached, cost=reached.cost.plus(used))

    def _advance(self) -> Batch | Outcome:
        ordinal = self.task.ordinal
        try:
            self._pace.begin()
            batch = next(self._steps)
            rest_s = max(batch.rest_s, self._pace.rest_s(self._dial.read().share))
            return batch._replace(rest_s=rest_s)
        except StopIteration as end:
            outcome: Outcome = end.value
            return outcome
        except Deposed:
            return Outcome(ordinal=ordinal, kind=DEPOSED)
        except (Unavailable, Conflict) as error:
            return Outcome(ordinal=ordinal, kind=UNAVAILABLE, text=str(error))
        except Refused as error:
            return Outcome(
                ordinal=ordinal, kind=FAILED, code=error.code, state=error.state, text=error.message
            )

    def close(self) -> None:
        """Stops the task where it is."""
        self._steps.close()


def _unless_finished(store: Store, task: Task, dial: Dial, monotonic: Callable[[], float]) -> Steps:
    """Skips a task that is finished: Spark repeats one whose process died after its last commit."""
    with store.read() as txn:
        is_finished = checkpoint.is_finished(txn, task)
    if is_finished:
        return Outcome(ordinal=task.ordinal)
    return (yield from WRITERS[task.kind](store, task, dial, monotonic).steps())


# -- in one of Spark's Python workers --------------------------------------------------------------
#
# A worker opens the store once and runs tasks. It has no connection to the driver: settings, epoch
# and slots are all in the store. It stops at the next batch if its parent is gone.
# Its parent, a daemon, ends with the JVM, and the JVM with the driver.

_SLOT_POLL_S = 0.05

_stores: dict[tuple[str, int], Store] = {}


def store_of(url: str) -> Store:
    """Returns this process's store for a URL, never one opened before a fork; see
    pipeline/throttle.py."""
    key = (url, os.getpid())
    if key not in _stores:
        _stores[key] = UnhurriedStore(open_store(url))
        step_back()
    return _stores[key]


def perform(url: str, raw: bytes, attempt: int = 0) -> bytes:
    """Runs an encoded task (WARM: no task) and returns its encoded outcome. `attempt`: number of
    earlier attempts."""
    store = store_of(url)
    if raw == WARM:
        return encode(Outcome())
    outcome = _perform(store, decode_task(raw))
    return encode(replace(outcome, cost=outcome.cost.plus(TaskCost(attempt=attempt))))


def _perform(store: Store, task: Task) -> Outcome:
    dial = Variables(store, time.monotonic, job_id=task.order.job_id)
    slot = Slot(store, task.order, task.ordinal)
    scheduling = IdleScheduling()
    parent = os.getppid()
    rest = threading.Event()  # never set, used for its timeout
    attempt: TaskAttempt | None = None
    try:
        while os.getppid() == parent:
            settings = dial.read()
            scheduling.update(settings.batch_s < ALONE_S)
            if not slot.acquire(settings.workers):
                rest.wait(_SLOT_POLL_S)
                continue
            attempt = attempt or TaskAttempt(store, task, dial, time.monotonic)
            reached = attempt.advance()
            if not isinstance(reached, Batch):
                return reached
            if reached.rest_s:
                rest.wait(reached.rest_s)
    except Deposed:
        pass
    finally:
        slot.release()
        if attempt is not None:
            attempt.close()
    return Outcome(ordinal=task.ordinal, kind=DEPOSED)
