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

import numpy as np

from exuvia.catalog.columns import Array


class CommonValue(NamedTuple):
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

    top: list[CommonValue]
    buckets: list[Bucket]


class Runs(NamedTuple):
    """Equal values of a sorted sample. `at`: where each begins; `rows`: how many there are.

    Shape (n,), int64."""

    at: Array
    rows: Array

    def take(self, chosen: Array) -> "Runs":
        """Some of them, by places or by a mask."""
        return Runs(self.at[chosen], self.rows[chosen])


def runs_of(begins: Array) -> Runs:
    """The runs of a sample; `begins`: whether a value differs from the one before. Shape (n,)."""
    at = np.flatnonzero(begins)
    return Runs(at, np.diff(at, append=len(begins)))


def begins_of(keys: Sequence[bytes]) -> Array:
    """Whether each of some sorted keys differs from the one before. Shape (n,), bool."""
    return np.array([True, *(a != b for a, b in pairwise(keys))][: len(keys)], dtype=bool)


def build(begins: Array, rows: int, distinct: int, most_top: int, most: int) -> Built:
    """The distribution of `rows` values of which there is a sorted sample, NULLs in neither.

    `begins`: see runs_of. `distinct`: different ones among the rows. At most `most_top` common
    values, `most` buckets."""
    sampled = len(begins)
    if not sampled:
        return Built([], [])
    runs = runs_of(begins)
    factor = rows / sampled
    top = _common(runs, sampled, rows, distinct, most_top)
    is_rest = np.ones(len(runs.at), dtype=bool)
    is_rest[top] = False
    common = [
        CommonValue(at, round(number * factor))
        for at, number in zip(runs.at[top].tolist(), runs.rows[top].tolist(), strict=True)
    ]
    return Built(common, _buckets(runs.take(is_rest), factor, most))


def _common(runs: Runs, sampled: int, rows: int, distinct: int, most_top: int) -> Array:
    """Places of the runs that stand out, in order."""
    number = len(runs.at)
    if sampled == number:
        return np.zeros(0, np.int64)  # all differ
    if max(distinct, number) <= most_top:
        return np.arange(number)
    often = np.flatnonzero(runs.rows > 1)
    found = often[np.argsort(-runs.rows[often], kind="stable")][:most_top]
    counts = runs.rows[found].tolist()
    taken = sum(counts)
    while counts:
        last = counts[-1]
        others = max(1, distinct - len(counts))
        share = max(0.0, 1 - taken / sampled) / others
        far = max(2.0, sqrt(2 * log(others)))
        if last > share * sampled + far * _deviation(share, sampled, rows) + 0.5:
            break
        taken -= last
        counts.pop()
    return np.sort(found[: len(counts)])


def _deviation(share: float, sampled: int, rows: int) -> float:
    """Of the number of rows with a value of that share in such a sample: hypergeometric."""
    if rows < 2:
        return 0.0
    having = rows * share
    variance = sampled * having * (rows - having) * (rows - sampled)
    return sqrt(max(0.0, variance / (float(rows) * rows * (rows - 1))))


def _buckets(runs: Runs, factor: float, most: int) -> list[Bucket]:
    """Runs in order, as many to a bucket as fit into its share of the rows, at least one."""
    ends = np.append(0, np.cumsum(runs.rows))  # rows before each run, and in all
    depth = int(ends[-1]) / most
    found: list[Bucket] = []
    first = told = 0
    while first < len(runs.at):
        full = int(np.searchsorted(ends, ends[first] + depth + 1, side="right")) - 1
        next_ = max(first + 1, full)
        total = round(int(ends[next_]) * factor)
        bounds = int(runs.at[first]), int(runs.at[next_ - 1])
        repeats = round(int(runs.rows[next_ - 1]) * factor)
        found.append(Bucket(*bounds, total - told, repeats, next_ - first))
        first, told = next_, total
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
