"""Many tables judged at once: stats/jobs.py by arrays, for a rebuild and for what has changed.

    facts        from the definitions               a Python object a table
    row counts   from the cache's columns           arrays, as long as the facts
    change, size, age, score                        arrays
    jobs         of those that need one             a Python object a job

Tables without partitions only; what each of them gets is what `judge_plain` gives it
(tests/stats/test_judging.py).
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache

import msgspec
import numpy as np

from exuvia.stats.cache import Counts, StatsCache
from exuvia.stats.facts import Facts
from exuvia.stats.jobs import NEVER, Job, Rules
from exuvia.stats.score import (
    NEVER_ANALYZED_AGE_S,
    NEVER_ANALYZED_CHANGE,
    Numbers,
    scores,
)


def judge_many(
    known: Sequence[Facts], cache: StatsCache, rules: Rules, now_s: float
) -> Iterator[Job]:
    """The jobs of tables without partitions, in their order; many have none."""
    counts = cache.counts([each.rows_id for each in known])
    never = counts.analyzed < 0
    change = _change(counts, never, rules)
    columns = np.fromiter((each.columns for each in known), np.float64, len(known))
    size = counts.rows * columns
    is_whole = counts.rows >= rules.least_rows
    missing = _missing(known, counts, is_whole & ~never)
    has_missing = np.fromiter(map(bool, missing), np.bool_, len(known))
    analyzed_at = np.where(never, NEVER, np.maximum(counts.analyzed_at, 0.0))
    weights = scores(change, size, _ages(analyzed_at, now_s), has_missing)
    needed = is_whole & (never | (change > 0) | has_missing)
    at = np.flatnonzero(needed)
    numbers = (each[at].tolist() for each in (change, size, analyzed_at, weights))
    for n, percent, cells, when, weight in zip(at.tolist(), *numbers, strict=True):
        facts = known[n]
        if facts.table_id in rules.locked:
            continue
        yield Job(
            minus_weight=-weight,
            key=facts.rows_id if rules.is_static else facts.table_id,
            table_id=facts.table_id,
            change=percent,
            size=cells,
            analyzed_at=when,
            indexes=missing[n],
        )


def rescored_many(jobs: Sequence[Job], now_s: float) -> Iterator[Job]:
    """Jobs at their present ages."""
    many = len(jobs)
    change = np.fromiter((job.change for job in jobs), np.float64, many)
    size = np.fromiter((job.size for job in jobs), np.float64, many)
    analyzed_at = np.fromiter((job.analyzed_at for job in jobs), np.float64, many)
    has_new = np.fromiter((job.has_new_index for job in jobs), np.bool_, many)
    weights = scores(change, size, _ages(analyzed_at, now_s), has_new).tolist()
    for job, weight in zip(jobs, weights, strict=True):
        yield msgspec.structs.replace(job, minus_weight=-weight)


def _ages(analyzed_at: Numbers, now_s: float) -> Numbers:
    since = np.maximum(now_s - analyzed_at, 0.0)
    return np.where(analyzed_at == NEVER, NEVER_ANALYZED_AGE_S, since)


def _change(counts: Counts, never: np.typing.NDArray[np.bool_], rules: Rules) -> Numbers:
    """In percent; 0 where it does not exceed the ratio."""
    base = np.where(counts.analyzed > 0, counts.analyzed, np.maximum(counts.rows, 1))
    change: Numbers = counts.modified / base
    change[(change <= rules.ratio) | (rules.ratio == 0)] = 0.0
    change *= 100
    change[never] = NEVER_ANALYZED_CHANGE
    return change


def _missing(
    known: Sequence[Facts], counts: Counts, looked_at: np.typing.NDArray[np.bool_]
) -> list[tuple[int, ...]]:
    """Indexes without statistics, of tables that were analyzed."""
    none: tuple[int, ...] = ()
    return [
        none if not looks or _numbers(text).issuperset(each.index_ids)
        else tuple([index for index in each.index_ids if index not in _numbers(text)])
        for each, text, looks in zip(known, counts.indexes, looked_at.tolist(), strict=True)
    ]  # fmt: skip


@lru_cache(maxsize=4096)
def _numbers(text: str) -> frozenset[int]:
    return frozenset(int(part) for part in text.split(",") if part)
