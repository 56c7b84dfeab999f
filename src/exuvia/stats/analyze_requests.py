"""ANALYZE TABLE asked on one node, done on another (cluster/questions.py).

An owner that ends leaves the question, and the next one does it again; what the former had begun is
marked failed in mysql.analyze_jobs. A session that is interrupted takes its question back: the
analysis ends within moments.

Whoever asks need not load what it takes to do it.
"""

from collections.abc import Callable
from typing import Protocol

import msgspec

from exuvia.base.clock import Clock
from exuvia.base.mysql_errors import ErrQueryInterrupted, ErrUnknown
from exuvia.cluster.owner import Campaign
from exuvia.cluster.questions import OwnerAnswering, Stop, Topic
from exuvia.kv.store import Store
from exuvia.kv.transaction import Transaction
from exuvia.stats import analysis_log

BUCKETS = 256
TOP_N = 100


class AnalyzeOrder(msgspec.Struct, frozen=True, kw_only=True):
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

    def analyze(self, order: AnalyzeOrder, stopped: Callable[[], bool]) -> None:
        """Do one to the end. Raises Gone, Stopped."""


ANALYZE: Topic[AnalyzeOrder, None] = Topic("analyze", AnalyzeOrder, None, role="stats")


def answering(
    store: Store, campaign: Campaign, analyzer: Analyzes, clock: Clock
) -> OwnerAnswering[AnalyzeOrder, None]:
    """The owner's side of ANALYZE: one analysis at a time, others wait in the store."""

    def analyze(order: AnalyzeOrder, stop: Stop) -> None:
        try:
            analyzer.analyze(order, stop)
        except Stopped:
            raise ErrQueryInterrupted() from None
        except Gone as gone:
            raise ErrUnknown(str(gone)) from None

    def take_over(txn: Transaction) -> None:
        reason = "the node that did it is no longer the owner of statistics"
        analysis_log.fail_the_unfinished(txn, clock.wall_ns(), reason)

    return OwnerAnswering(store, campaign, ANALYZE, analyze, clock, take_over)
