"""The score of seed 004, by a golden table and by its rules."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exuvia.stats.analysis_jobs import Indicators, parts, score, scores

# change %, size, age s, new index -> score: worked out apart, with thirty decimal digits
GOLDEN = [
    (0, 0, 0, False, 0.100000),
    (100, 1_000, 1800, False, 1.493876),
    (50, 100_000, 3600, False, 1.160141),
    (100, 1_000_000, 86400, False, 1.443512),
    (10, 10_000_000, 604800, False, 0.892245),
    (0, 1_000_000, 86400, True, 2.240920),
    (200, 1, 60, False, 1.734357),
]


@pytest.mark.parametrize(("change", "size", "age", "new_index", "expected"), GOLDEN)
def test_golden(change, size, age, new_index, expected):
    assert score(Indicators(change, size, age), new_index) == pytest.approx(expected, abs=1e-6)


NUMBERS = st.floats(0, 1e12)


@given(NUMBERS, NUMBERS, NUMBERS, st.booleans())
def test_arrays_and_numbers_agree(change, size, age, new_index):
    one = score(Indicators(change, size, age), new_index)
    many = scores(np.array([change]), np.array([size]), np.array([age]), np.array([new_index]))
    assert many[0] == pytest.approx(one)
    assert parts(Indicators(change, size, age), new_index).total == one


@given(NUMBERS, NUMBERS, NUMBERS, st.floats(1, 1e9))
def test_more_change_longer_waiting_and_smaller_tables_come_first(change, size, age, more):
    base = score(Indicators(change, size, age))
    assert score(Indicators(change + more, size, age)) >= base
    assert score(Indicators(change, size, age + more)) >= base
    assert score(Indicators(change, size + more, age)) <= base


def test_a_new_index_comes_before_any_usual_change():
    fresh = score(Indicators(0, 1_000_000, 0), True)
    assert fresh > score(Indicators(100, 1_000, 1800))


@pytest.mark.parametrize("bad", [(-1, 0, 0), (0, -1, 0), (0, 0, -1)])
def test_negative_indicators_are_refused(bad):
    with pytest.raises(ValueError, match="negative"):
        score(Indicators(*bad))
