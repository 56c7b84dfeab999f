"""TopN and an equal-depth histogram from a sorted sample.

    values, sorted    a a a a b c c d e e f g g g ...          runs of equal ones
    TopN              a: 4, g: 3                               those that stand out
    buckets           [b .. d] [e .. f] ...                    the rest, about as many rows in each

A value stands out when its share in the sample is larger than chance would make the largest of so
many average ones: sqrt(2 ln n) standard deviations, at least two, without replacement (PostgreSQL's
ANALYZE asks for two). Where all values there are fit into the TopN, they are all in it and there
are no buckets; where no two are equal, none is.
Counts are of the table, not of the sample. A value is in one bucket only.
"""

from collections.abc import Sequence
from itertools import pairwise
from math import log, sqrt
from typing import NamedTuple


class Common(NamedTuple):
    """A value that stands out: where it is in the sorted sample, and its rows."""

    at: int
    rows: int


class Bucket(NamedTuple):
    """Values from the one at `lower` to the one at `upper`: `rows` rows, `repeats` of them the
    upper value, `distinct` values in the sample."""

    lower: int
    upper: int
    rows: int
    repeats: int
    distinct: int


class Built(NamedTuple):
    """A column's or index's distribution."""

    top: list[Common]
    buckets: list[Bucket]


class _Run(NamedTuple):
    at: int
    rows: int


def build(keys: Sequence[bytes], rows: int, distinct: int, most_top: int, most: int) -> Built:
    """The distribution of `rows` values of which `keys` are a sorted sample, NULLs in neither.

    `distinct`: different ones among the rows. At most `most_top` common values, `most` buckets."""
    if not keys:
        return Built([], [])
    starts = [n for n, (one, next_) in enumerate(pairwise(keys), 1) if one != next_]
    runs = [_Run(at, end - at) for at, end in pairwise([0, *starts, len(keys)])]
    factor = rows / len(keys)
    top = _common(runs, len(keys), rows, distinct, most_top)
    chosen = {run.at for run in top}
    rest = [run for run in runs if run.at not in chosen]
    common = [Common(run.at, round(run.rows * factor)) for run in top]
    return Built(common, _buckets(rest, factor, most))


def _common(runs: list[_Run], sampled: int, rows: int, distinct: int, most_top: int) -> list[_Run]:
    if sampled == len(runs):
        return []  # all differ
    if max(distinct, len(runs)) <= most_top:
        return runs
    found = sorted((run for run in runs if run.rows > 1), key=lambda run: (-run.rows, run.at))
    found = found[:most_top]
    taken = sum(run.rows for run in found)
    while found:
        last = found[-1].rows
        others = max(1, distinct - len(found))
        share = max(0.0, 1 - taken / sampled) / others
        far = max(2.0, sqrt(2 * log(others)))
        if last > share * sampled + far * _deviation(share, sampled, rows) + 0.5:
            break
        taken -= last
        found.pop()
    return sorted(found, key=lambda run: run.at)


def _deviation(share: float, sampled: int, rows: int) -> float:
    """Of the number of rows with a value of that share in such a sample: hypergeometric."""
    if rows < 2:
        return 0.0
    having = rows * share
    variance = sampled * having * (rows - having) * (rows - sampled)
    return sqrt(max(0.0, variance / (float(rows) * rows * (rows - 1))))


def _buckets(runs: list[_Run], factor: float, most: int) -> list[Bucket]:
    depth = sum(run.rows for run in runs) / most
    found: list[Bucket] = []
    seen = told = 0
    open_: list[_Run] = []
    held = 0

    def close() -> None:
        nonlocal told, held
        total = round(seen * factor)
        last = open_[-1]
        found.append(
            Bucket(open_[0].at, last.at, total - told, round(last.rows * factor), len(open_))
        )
        told, held = total, 0
        open_.clear()

    for run in runs:
        if open_ and held + run.rows > depth + 1:
            close()
        open_.append(run)
        held += run.rows
        seen += run.rows
    if open_:
        close()
    return found[: most - 1] + _joined(found[most - 1 :])


def _joined(last: list[Bucket]) -> list[Bucket]:
    """Buckets beyond the most there may be, as one."""
    if not last:
        return []
    end = last[-1]
    count, distinct = (
        sum(each) for each in zip(*((b.rows, b.distinct) for b in last), strict=True)
    )
    return [Bucket(last[0].lower, end.upper, count, end.repeats, distinct)]
