"""What an analysis is asked to do, and how it may end early: known to those who ask, who need not
load what it takes to do it."""

from collections.abc import Callable
from typing import Protocol

import msgspec

BUCKETS = 256
TOP_N = 100


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """One analysis. `partitions`: physical ids, () for all there are; `indexes`: ids, () for all.

    `columns` are ids, () for all that tidb_analyze_skip_column_types leaves. `instance` and
    `process_id` say who asked, for SHOW ANALYZE STATUS."""

    table_id: int
    partitions: tuple[int, ...] = ()
    indexes: tuple[int, ...] = ()
    columns: tuple[int, ...] = ()
    buckets: int = BUCKETS
    top_n: int = TOP_N
    samples: int = 0  # rows to sample; 0: chosen
    automatic: bool = False
    instance: str = ""
    process_id: int = 0


class Gone(Exception):
    """The table, or a partition of it, is not there any more."""


class Stopped(Exception):
    """The analysis was told to stop."""


class Analyzes(Protocol):
    """Who does analyses: stats/analyze.py."""

    def analyze(self, order: Order, stopped: Callable[[], bool]) -> None:
        """Do one to the end. Raises Gone, Stopped."""
