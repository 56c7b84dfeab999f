"""Tables judged by arrays get what each of them gets alone, and the cache's two ways agree."""

import random

import pytest

from exuvia.base.types import FieldType, TypeCode
from exuvia.catalog import meta as catalog
from exuvia.catalog.model import evolve
from exuvia.catalog.system_tables import TEST_ID, table
from exuvia.kv.memory import MemoryStore
from exuvia.stats import facts, meta
from exuvia.stats.analysis import is_skipped
from exuvia.stats.analysis_jobs import (
    AnalysisJob,
    Rules,
    judge_many,
    judge_plain,
    rescored,
    rescored_many,
)
from exuvia.stats.cache import StatsCache
from exuvia.stats.facts import Facts
from exuvia.stats.meta import Meta
from support.tables import bootstrapped

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
def test_many_get_what_each_gets_alone(seed: int) -> None:
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
    metas = cache.get_many([each.rows_id for each in tables])
    alone = [
        judge_plain(each, known, rules, NOW_S) for each, known in zip(tables, metas, strict=True)
    ]
    expected = [job for job in alone if job is not None]
    found = list(judge_many(tables, cache, rules, NOW_S))
    assert [parts(job) for job in found] == [parts(job) for job in expected]
    for one, other in zip(found, expected, strict=True):
        assert (one.change, one.weight) == pytest.approx((other.change, other.weight))
    assert seed % 3 == 0 or len(found) > 20
    later = [rescored(job, NOW_S + 1000) for job in found]
    together = list(rescored_many(found, NOW_S + 1000))
    assert [parts(job) for job in together] == [parts(job) for job in later]
    assert [job.weight for job in together] == pytest.approx([job.weight for job in later])


def parts(job: AnalysisJob) -> tuple[object, ...]:
    return job.key, job.table_id, job.size, job.analyzed_at, job.indexes, job.partitions


def test_none_at_all() -> None:
    store = bootstrapped()
    assert list(judge_many([], StatsCache(store), Rules(), NOW_S)) == []
    assert list(rescored_many([], NOW_S)) == []


def test_what_is_analyzed_of_a_table_is_what_analyze_takes() -> None:
    """TEXT is, BLOB and the long ones are not: facts.py reads JSON, analysis.py types."""
    codes = (TypeCode.LONG, TypeCode.BLOB, TypeCode.TINY_BLOB, TypeCode.LONG_BLOB, TypeCode.JSON)
    types = [FieldType(Tp=code, Charset=text) for code in codes for text in ("binary", "utf8mb4")]
    made = table(100, "t", *(f"c{n} int" for n in range(len(types))), database_id=TEST_ID)
    typed = tuple(evolve(c, type=kind) for c, kind in zip(made.cols, types, strict=True))
    store = bootstrapped()
    txn = store.begin()
    catalog.put_table(txn, evolve(made, cols=typed))
    known = facts.many(txn, [100])[100]
    txn.rollback()
    assert known is not None
    assert known.columns == sum(not is_skipped(kind) for kind in types) == 5
