"""A reorg of a partitioned table: the reorg of each of its partitions, one after another.

    part 1: spans -> waves -> verified, then part 2 ...      Done when the last one is

A part that is done, verification too, is a row of mysql.tidb_ddl_reorg, like each finished span of
the part under way: a driver that takes over passes over the first and goes on in the second. What
was compared stays right, since every writer maintains it. The spans of one part run side by side,
as ever.
"""

from collections.abc import Callable, Sequence

from exuvia.catalog.table import Table
from exuvia.pipeline.kernels.summary import Keep, Summary, Together
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
        self._looked = False
        self._rows = 0
        self._spans = 0
        self._skipped = 0

    def step(self, now: float) -> Progress:
        """Go on a little. Raises Deposed, Conflict."""
        if not self._looked:
            self._looked = True
            before = self._reorg.found_whole()
            if before is not None:
                return self._over(before, None)
        reached = self._reorg.step(now)
        if isinstance(reached, Running | Waiting):
            return reached._replace(rows_done=self._rows + reached.rows_done)
        if not isinstance(reached, Done):
            return reached
        self._reorg.keep_whole(reached.rows)
        return self._over(reached, self._reorg.summary)

    def _over(self, reached: Done, summary: Summary | None) -> Progress:
        """A part is done: the next one begins, if there is one."""
        self._together.take(summary)
        if self._at == len(self._parts) - 1:
            self._kept()
            rows = self._rows + reached.rows
            skipped = self._skipped + reached.spans_skipped
            return Done(rows, self._spans + reached.spans_done, skipped)
        self._rows += reached.rows
        self._spans += reached.spans_done
        self._skipped += reached.spans_skipped
        self._at += 1
        self._reorg = self._make(self._parts[self._at])
        self._looked = False
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
