"""A reorg of a partitioned table: the reorg of each of its partitions, one after another.

    part 1: spans -> waves -> verified, then part 2 ...      Done when the last one is

Each part knows by its own checkpoint rows (their physical id) what of it is finished, so a driver
that takes over walks all of them and finds the finished ones done. The spans of one part run side
by side, as ever.
"""

from collections.abc import Callable, Sequence

from exuvia.catalog.table import Table
from exuvia.pipeline.gathering import Keep, Together
from exuvia.pipeline.progress import Done, Progress, Running, Waiting
from exuvia.pipeline.reorg import Reorg


class EachPart:
    """See the module. It is stepped like the reorg of one table."""

    def __init__(
        self, parts: Sequence[Table], make: Callable[[Table], Reorg], keep: Keep | None = None
    ) -> None:
        self._parts = parts
        self._make = make
        self._keep = keep
        self._together = Together()
        self._at = 0
        self._reorg = make(parts[0])
        self._rows = 0
        self._spans = 0
        self._skipped = 0

    def step(self, now: float) -> Progress:
        """Go on a little. Raises Deposed."""
        reached = self._reorg.step(now)
        if isinstance(reached, Running | Waiting):
            return reached._replace(rows_done=self._rows + reached.rows_done)
        if not isinstance(reached, Done):
            return reached
        self._together.take(self._reorg.summary)
        if self._at == len(self._parts) - 1:
            self._kept()
            rows = self._rows + reached.rows
            return Done(rows, self._spans + reached.spans_done, self._skipped)
        self._rows += reached.rows
        self._spans += reached.spans_done
        self._skipped += reached.spans_skipped
        self._at += 1
        self._reorg = self._make(self._parts[self._at])
        said = f"partition {self._at + 1} of {len(self._parts)}"
        return Running(self._rows, 0.0, None, "fill", said, 0.0)

    def _kept(self) -> None:
        """Statistics of the table as a whole, where each part has its own."""
        summary, order = self._together.summary, self._reorg.order
        if self._keep is not None and summary is not None:
            self._keep(order, order.logical, summary)

    def stop(self) -> None:
        """Let everything go; a later step goes on with the same part."""
        self._reorg.stop()
