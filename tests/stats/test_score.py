"""The score of seed 004, by a golden table and by its rules.

Tables judged by arrays get the jobs that each gets alone, and both reads of the cache agree.
"""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exuvia.base.types import FieldType, TypeCode
from exuvia.catalog import meta as catalog
from exuvia.catalog.model import evolve
from exuvia.catalog.system_tables import TEST_ID, table
from exuvia.kv.memory import MemoryStore
from exuvia.stats import meta, priority
from exuvia.stats.analysis import is_skipped
from exuvia.stats.cache import StatsCache
from exuvia.stats.meta import Meta
from exuvia.stats.priority import (
    AnalysisJob,
    Facts,
    Indicators,
    Rules,
    judge_many,
    judge_plain,
    parts,
    rescored,
    rescored_many,
    score,
    scores,
)
from support.tables import bootstrapped

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
def test_changed_old_and_small_tables_come_first(change, size, age, more):
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


# -- judged by arrays ------------------------------------------------------------------------------

NOW_S = 1_700_000_000.0
IDS = range(100, 400)


def write(store: MemoryStore, chance: random.Random, table_ids: list[int]) -> None:
    txn = store.begin()
    version = meta.draw_version(txn)
    for table_id in table_ids:
        counts = chance.choice((0, 999, 1000, 5000)), chance.randrange(4000)
        analyzed: tuple[int | None, int | None] = (None, None)
        if chance.random() < 0.7:
            when = chance.choice((0, int(NOW_S) - 60, int(NOW_S) + 5))
            analyzed = chance.choice((0, 1, 1000, 4000)), when
        texts = chance.choice(("", "1", "1,2", "2,7"))
        put = Meta(version, table_id, counts[1], counts[0], 0, None, *analyzed, texts)
        meta.put(txn, put)
    txn.commit()


@pytest.mark.parametrize("seed", range(12))
def test_many_tables_get_the_jobs_that_each_gets_alone(seed: int) -> None:
    chance, store = random.Random(seed), bootstrapped()
    cache = StatsCache(store)
    if seed % 3:  # else the columns are empty
        write(store, chance, chance.sample(IDS, 250))
        cache.load()
    if seed % 4:  # else nothing is newer than the columns
        write(store, chance, chance.sample(IDS, 60))
    cache.step(0.0)
    tables = [
        Facts(n, chance.randrange(1, 9), chance.choice(((), (1,), (1, 2))), (), n + seed % 2)
        for n in IDS
    ]
    rules = Rules(
        ratio=chance.choice((0.0, 0.5)),
        is_static=bool(seed % 2),
        locked=frozenset(chance.sample(IDS, 20)),
    )
    metas = cache.get_many([facts.whole_id for facts in tables])
    alone = [
        judge_plain(facts, row, rules, NOW_S) for facts, row in zip(tables, metas, strict=True)
    ]
    expected = [job for job in alone if job is not None]
    jobs = list(judge_many(tables, cache, rules, NOW_S))
    assert [fields_of_job(job) for job in jobs] == [fields_of_job(job) for job in expected]
    for one, other in zip(jobs, expected, strict=True):
        assert (one.change, one.weight) == pytest.approx((other.change, other.weight))
    assert seed % 3 == 0 or len(jobs) > 20
    later = [rescored(job, NOW_S + 1000) for job in jobs]
    together = list(rescored_many(jobs, NOW_S + 1000))
    assert [fields_of_job(job) for job in together] == [fields_of_job(job) for job in later]
    assert [job.weight for job in together] == pytest.approx([job.weight for job in later])


def fields_of_job(job: AnalysisJob) -> tuple[object, ...]:
    return job.key, job.table_id, job.size, job.analyzed_at, job.indexes, job.partitions


def test_no_tables() -> None:
    store = bootstrapped()
    assert list(judge_many([], StatsCache(store), Rules(), NOW_S)) == []
    assert list(rescored_many([], NOW_S)) == []


def test_facts_and_analyze_choose_the_same_columns() -> None:
    """TEXT is analyzed, BLOB and the long types are not: priority.py reads JSON, analysis.py
    types."""
    codes = (TypeCode.LONG, TypeCode.BLOB, TypeCode.TINY_BLOB, TypeCode.LONG_BLOB, TypeCode.JSON)
    types = [FieldType(Tp=code, Charset=text) for code in codes for text in ("binary", "utf8mb4")]
    definition = table(100, "t", *(f"c{n} int" for n in range(len(types))), database_id=TEST_ID)
    typed = tuple(evolve(c, type=kind) for c, kind in zip(definition.cols, types, strict=True))
    store = bootstrapped()
    txn = store.begin()
    catalog.put_table(txn, evolve(definition, cols=typed))
    facts = priority.facts_of(txn, [100])[100]
    txn.rollback()
    assert facts is not None
    assert facts.columns == sum(not is_skipped(kind) for kind in types) == 5
