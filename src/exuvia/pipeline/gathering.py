"""What a fill learns of its rows for statistics, while it has them in its hands anyway.

    fill task -> its span's Summary -> Gathered       one Summary of the index's parts, when every
                                                      span was filled for this driver

A driver that took over from another has not what that one's tasks found: nothing is made of a part,
and the index is analyzed later like any other.
"""

from collections.abc import Callable, Sequence

import msgspec

from exuvia.catalog.table import Table
from exuvia.kv.packet import Span
from exuvia.pipeline.sampling import ROWS, limit_of
from exuvia.pipeline.spans import SpanSet
from exuvia.pipeline.summary import Summary, parts_of, types_of
from exuvia.pipeline.task import DONE, Outcome, Task, TaskOrder

LEAST_ROWS = 1000
"""A smaller table's statistics would cost more than they tell."""

Keep = Callable[[TaskOrder, Table, Summary], None]
"""What is done with the summary of a table's new indexes; the table is a partition, or a whole."""


class Gathered:
    """See the module. `rows`: how many the table has, about."""

    def __init__(self, order: TaskOrder, rows: int) -> None:
        self._parts = list(dict.fromkeys(parts_of(order.table, (), order.index_ids)))
        self._fields = types_of(order.table, self._parts)
        self._limit = limit_of(ROWS, rows)
        self._found: dict[bytes, tuple[Span, bytes]] = {}

    def asking(self, tasks: Sequence[Task]) -> list[Task]:
        """The fill's tasks, which are to look at their rows too."""
        asked = {"samples": ROWS, "limit": self._limit}
        return [msgspec.structs.replace(each, **asked) for each in tasks]

    def take(self, tasks: Sequence[Task], outcomes: Sequence[Outcome]) -> None:
        """Take in what tasks found."""
        for outcome in outcomes:
            if outcome.kind == DONE and isinstance(outcome.result, bytes):
                span = tasks[outcome.ordinal].span
                self._found[span.start] = span, outcome.result

    def whole(self, span: Span) -> Summary | None:
        """Of all rows of the span, None where some were not looked at."""
        if span not in SpanSet(each for each, _ in self._found.values()):
            return None
        found = Summary(len(self._parts), ROWS, span, self._limit)
        for start in sorted(self._found):
            each, raw = self._found[start]
            found.merge(Summary.decode(raw, ROWS, each, self._fields))
        return found


class Together:
    """Summaries of partitions as one, as long as each has one."""

    def __init__(self) -> None:
        self._found: Summary | None = None
        self._lacks = False

    def take(self, summary: Summary | None) -> None:
        """The next partition's."""
        if summary is None or self._found is None:
            self._lacks = self._lacks or summary is None
            self._found = summary
        else:
            self._found.merge(summary)

    @property
    def summary(self) -> Summary | None:
        """Of all of them."""
        return None if self._lacks else self._found
