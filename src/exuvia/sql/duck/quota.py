"""How much memory one query may hold: tidb_mem_quota_query (8175 beyond; 0 and less: no limit).

    what DuckDB holds      its one limit: the greatest quota of the queries that run in the process;
                           sorts, joins and groups go to disk first
    one batch of texts     counted where a Python function makes it
    an answer's rows       counted where they are collected

`tidb_mem_oom_action` = 'LOG' lets a query go on, as long as the process has the memory.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from exuvia.base.mysql_errors import ErrMemoryExceedForQuery
from exuvia.sql.evaluate.bounded import bytes_of

_ROW_BYTES, _VALUE_BYTES = 72, 40  # what Python needs beside the texts, measured
Row = Sequence[Any]


def quota_of(context: Any) -> int:
    """Bytes; 0 where there is no limit, as without a session."""
    asked = getattr(context, "variable", None)
    if asked is None or asked("tidb_mem_oom_action").upper() == "LOG":
        return 0
    return max(0, int(asked("tidb_mem_quota_query")))


def exceeded(context: Any) -> Exception:
    """8175."""
    return ErrMemoryExceedForQuery(context.session.connection_id)


class Account:
    """The memory of one statement's rows. Raises 8175 where it is more than the quota."""

    def __init__(self, context: Any) -> None:
        self._context = context
        self._quota = quota_of(context)
        self._held = 0

    def texts(self, values: Iterable[Any]) -> list[Any]:
        """Texts of one batch, which is gone when the next one comes."""
        if not self._quota:
            return list(values)
        total, made = 0, []
        for value in values:
            made.append(value)
            total += bytes_of(value)
            if total > self._quota:
                raise exceeded(self._context)
        return made

    def rows(self, batch: Sequence[Row], texts: Sequence[int]) -> None:
        """Rows that are kept; `texts`: the places of values whose length differs."""
        if not self._quota or not batch:
            return
        self._held += len(batch) * (_ROW_BYTES + _VALUE_BYTES * len(batch[0]))
        for place in texts:
            self._held += sum([bytes_of(row[place]) for row in batch])
        if self._held > self._quota:
            raise exceeded(self._context)
