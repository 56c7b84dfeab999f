"""Running kernels in this process, one transaction a step: small tables, tests, the simulator.

The same tasks and outcomes as on Spark (pipeline/spark.py), one task after another. No thread, no
sleep.
"""

from collections.abc import Callable, Sequence

from exuvia.kv.store import Store
from exuvia.pipeline.kernels import Attempt
from exuvia.pipeline.settings import Dial
from exuvia.pipeline.task import Outcome, Task
from exuvia.pipeline.throttle import Batch


class InlineWave:
    """Tasks being done one after another. See spark.Wave, which it stands in for."""

    def __init__(
        self, store: Store, tasks: Sequence[Task], dial: Dial, monotonic: Callable[[], float]
    ) -> None:
        self._waiting = [Attempt(store, task, dial, monotonic) for task in reversed(tasks)]
        self.outcomes: list[Outcome] = []
        self.error: str | None = None

    def step(self) -> float:
        """Do one transaction. Returns how long to rest before the next. Unit: s."""
        if not self._waiting:
            return 0.0
        reached = self._waiting[-1].advance()
        if isinstance(reached, Batch):
            return reached.rest_s
        self._waiting.pop()
        self.outcomes.append(reached)
        return 0.0

    def done(self) -> bool:
        """Whether nothing more will come."""
        return not self._waiting

    def cancel(self) -> None:
        """Drop what is not done."""
        while self._waiting:
            self._waiting.pop().close()

    def run(self) -> list[Outcome]:
        """All steps at once, resting never; for callers that have a thread of their own."""
        while not self.done():
            self.step()
        return self.outcomes
