"""TopN and buckets of a sorted sample, compared with counts by hand."""

from itertools import groupby

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from exuvia.stats.analysis import begins_of, build

KEYS = st.lists(st.integers(0, 40), max_size=300).map(lambda n: [b"%03d" % v for v in sorted(n)])


@given(KEYS, st.integers(1, 5), st.integers(1, 12))
@settings(max_examples=150, deadline=None)
def test_every_row_is_counted_once_and_no_value_is_in_two_buckets(
    keys: list[bytes], times: int, most: int
) -> None:
    rows, distinct = len(keys) * times, len(set(keys))
    built = build(begins_of(keys), rows, distinct, 10, most)
    counts = {key: times * len(list(group)) for key, group in groupby(keys)}
    tops = {keys[common.at]: common.rows for common in built.top}
    assert tops == {key: counts[key] for key in tops}
    assert len(built.buckets) <= most
    rest = [key for key in counts if key not in tops]
    for bucket in built.buckets:
        inside = [key for key in rest if keys[bucket.lower] <= key <= keys[bucket.upper]]
        assert bucket.rows == sum(counts[key] for key in inside)
        assert bucket.repeats == counts[keys[bucket.upper]]
        assert bucket.distinct == len(inside)
        rest = [key for key in rest if key not in inside]
    assert rest == []


def test_buckets_are_of_equal_depth() -> None:
    begins = np.ones(100_000, dtype=bool)
    built = build(begins, 1_000_000, 1_000_000, 100, 256)
    assert built.top == []
    depths = [bucket.rows for bucket in built.buckets]
    assert len(depths) == 256
    assert max(depths) <= 1_000_000 / 256 + 20


def test_large_early_buckets_do_not_enlarge_the_last_one() -> None:
    begins = np.zeros(80_000, dtype=bool)
    begins[::160] = True  # 500 values: one is half a share, two are a little more than one
    built = build(begins, 80_000, 500, 0, 256)
    depths = [bucket.rows for bucket in built.buckets]
    assert sum(depths) == 80_000 and len(depths) <= 256
    assert max(depths) == 320


def test_a_common_value_is_in_no_bucket() -> None:
    keys = sorted([b"a"] * 500 + [b"%04d" % n for n in range(1000)])
    built = build(begins_of(keys), 1500, 1001, 100, 4)
    assert [(keys[common.at], common.rows) for common in built.top] == [(b"a", 500)]
    assert sum(bucket.rows for bucket in built.buckets) == 1000
