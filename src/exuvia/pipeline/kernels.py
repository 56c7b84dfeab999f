"""The table of kernels, and one attempt at a task: where errors become outcomes.

Deposed        the epoch was lost: stop quietly            -> deposed
Unavailable    store full, snapshot too old, ...           -> unavailable, a reason to wait
Conflict       writers never left a key alone              -> unavailable
Refused        the data cannot be done                     -> failed
"""

from collections.abc import Callable, Generator

from exuvia.base.errors import Conflict, Deposed, Refused, Unavailable
from exuvia.kv.store import Store
from exuvia.pipeline import move, rewrite, summary
from exuvia.pipeline.fill import Fill
from exuvia.pipeline.settings import Dial
from exuvia.pipeline.task import DEPOSED, FAILED, UNAVAILABLE, Outcome, Task
from exuvia.pipeline.throttle import Batch
from exuvia.pipeline.verify import checksum, rows, scan

Steps = Generator[Batch, None, Outcome]


SCANS: dict[str, Callable[[Store, Task], Steps]] = {
    "sum rows": scan.sum_rows,
    "sum entries": scan.sum_entries,
    "collect rows": scan.collect_rows,
    "collect entries": scan.collect_entries,
    "checksum": checksum.checksum,
    "check rows": rows.check_rows,
    "check moved": rows.check_moved,
    "check fits": rows.check_fits,
    "check column": rows.check_column,
    "verify column": rows.verify_column,
    "summarize": summary.summarize,
}


class TaskAttempt:
    """A task being done, one transaction at a time."""

    def __init__(
        self, store: Store, task: Task, dial: Dial, monotonic: Callable[[], float]
    ) -> None:
        self.task = task
        if task.kind == "fill":
            self._steps = Fill(store, task, dial, monotonic).steps()
        elif task.kind == "rewrite":
            self._steps = rewrite.Rewrite(store, task, dial, monotonic).steps()
        elif task.kind == "move":
            self._steps = move.Move(store, task, dial, monotonic).steps()
        else:
            self._steps = SCANS[task.kind](store, task)

    def advance(self) -> Batch | Outcome:
        """The next transaction, or how it ended."""
        ordinal = self.task.ordinal
        try:
            return next(self._steps)
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
        """Leave it where it is."""
        self._steps.close()
