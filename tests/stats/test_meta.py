"""Row counts: versions have the order of commits, a reader of `version > last` misses nothing, and
counts are exact once sessions are closed.
"""

import random
import threading

import pytest

from exuvia.base.clock import ManualClock
from exuvia.base.errors import Conflict, Deposed
from exuvia.cluster import member as members
from exuvia.cluster.member import Member
from exuvia.kv.memory import MemoryStore
from exuvia.stats import cache, meta, priority, records
from exuvia.stats.cache import StatsCache
from exuvia.stats.meta import Delta, Deltas, Meta
from exuvia.stats.records import Statistics
from support.stats_owners import Place
from support.tables import bootstrapped


def filled() -> MemoryStore:
    return bootstrapped()


def add(store: MemoryStore, **deltas: tuple[int, int]) -> int:
    txn = store.begin()
    version = meta.add(txn, {int(name[1:]): Delta(*delta) for name, delta in deltas.items()})
    txn.commit()
    return version


def test_a_transaction_that_begins_first_and_commits_last_is_not_lost():
    """With start timestamps: the first takes 5, the second takes 7 and is read, the first commits
    5: lost."""
    store = filled()
    first, second = store.begin(), store.begin()
    meta.add(first, {71: Delta(1, 1)})
    meta.add(second, {72: Delta(1, 1)})
    second.commit()
    reader = store.begin()
    high_water = [row.version for row in meta.changed(reader, 0)][-1]
    with pytest.raises(Conflict):
        first.commit()
    again = store.begin()
    meta.add(again, {71: Delta(1, 1)})
    again.commit()
    reader = store.begin()
    assert [row.table_id for row in meta.changed(reader, high_water)] == [71]


def test_rows_and_changes_add_up_and_rows_never_fall_below_zero():
    store = filled()
    add(store, t71=(10, 10), t72=(5, 5))
    add(store, t71=(-3, 3))
    last = add(store, t72=(-9, 9))
    txn = store.begin()
    assert meta.get(txn, 71) == Meta(meta.get(txn, 71).version, 71, 13, 7)
    assert meta.get(txn, 72) == Meta(last, 72, 14, 0)
    assert meta.get(txn, 73) is None
    assert [row.table_id for row in meta.changed(txn, 0)] == [71, 72]
    assert list(meta.changed(txn, last)) == []


def test_the_cache_reads_changes_up_to_its_high_water_mark(monkeypatch):
    monkeypatch.setattr(cache, "MOST_RECENT", 8)  # columns are made early
    chance, store = random.Random(5), filled()
    stats_cache = StatsCache(store)
    expected: dict[int, tuple[int, int]] = {}
    for round_ in range(40):
        table = chance.randrange(60, 90)
        delta = (chance.randrange(0, 9), chance.randrange(9))
        rows, modified = expected.get(table, (0, 0))
        expected[table] = (rows + delta[0], modified + delta[1])
        version = add(store, **{f"t{table}": delta})
        if round_ % 3 == 0:
            stats_cache.step(0.0)
            assert stats_cache.high_water == version
            for table_id, (rows, modified) in expected.items():
                row = stats_cache.get(table_id)
                assert (row.rows, row.modified) == (rows, modified)
    assert stats_cache.get(1) is None


def test_the_columns_have_the_results_of_an_analysis():
    store = filled()
    txn = store.begin()
    version = meta.draw_version(txn)
    meta.put(txn, Meta(version, 71, 0, 9, 4, 5, 9, 1_700_000_000, "1,3"))
    meta.put(txn, Meta(version, 72, 1, 2))
    txn.commit()
    cache = StatsCache(store)
    cache.load()
    assert cache.get(71) == Meta(version, 71, 0, 9, 0, None, 9, 1_700_000_000, "1,3")
    assert cache.get(71).index_ids == {1, 3}
    assert cache.get(72) == Meta(version, 72, 1, 2)


def test_rows_of_one_flush_are_read_together_despite_a_smaller_limit(monkeypatch):
    """They share a version: a reader of a part would never read the rest."""
    monkeypatch.setattr(cache, "MOST_RECENT", 8)
    monkeypatch.setattr(cache, "MOST_AT_FIRST", 8)
    store = filled()
    stats_cache = StatsCache(store)
    add(store, t50=(1, 1))
    assert stats_cache.step(0.0) > 0
    first = add(store, **{f"t{n}": (n, n) for n in range(60, 80)})
    second = add(store, t80=(80, 80), t50=(4, 4))
    txn = store.begin()
    assert [row.version for row in meta.changed(txn, 0, limit=8)] == [first] * 20
    assert [row for row, _ in meta.changed_ids(txn, first - 1, second, 20)] == [first] * 20
    while not stats_cache.step(0.0):
        pass
    assert stats_cache.high_water == second
    assert [stats_cache.get(n).rows for n in (50, *range(60, 81))] == [5, *range(60, 81)]


def test_changes_update_the_columns_like_a_load(monkeypatch):
    monkeypatch.setattr(cache, "MOST_RECENT", 5)
    monkeypatch.setattr(cache, "MOST_AT_FIRST", 5)
    chance, store = random.Random(3), filled()
    stats_cache = StatsCache(store)
    add(store, **{f"t{n}": (n, n) for n in range(70, 90, 2)})
    stats_cache.step(0.0)
    for _ in range(60):
        txn = store.begin()
        version = meta.draw_version(txn)
        for n in chance.sample(range(60, 100), 4):
            analyzed = (n, 1_700_000_000 + n, chance.choice(("", "1", "1,3")))
            meta.put(txn, Meta(version, n, chance.randrange(99), chance.randrange(99), 0, None))
            if chance.random() < 0.5:
                meta.put(txn, Meta(version, n, 1, 2, 0, None, *analyzed))
        txn.commit()
        stats_cache.step(0.0)
        fresh = StatsCache(store)
        fresh.load()
        ids = range(55, 105)
        assert stats_cache.get_many(ids) == fresh.get_many(ids)
        for mine, theirs in zip(stats_cache.counts(ids), fresh.counts(ids), strict=True):
            assert list(mine) == list(theirs)


def test_rows_of_dropped_tables_are_removed(monkeypatch):
    monkeypatch.setattr(cache, "MOST_RECENT", 5)
    store = filled()
    stats_cache = StatsCache(store)
    for n in range(100, 300):
        add(store, **{f"t{n}": (1, 1)})
        stats_cache.step(0.0)
        txn = store.begin()
        meta.delete(txn, n)
        txn.commit()
    assert len(stats_cache._columns) + len(stats_cache._recent) < 30


def test_a_queue_in_the_middle_of_a_pass_does_not_delay_the_cache(monkeypatch):
    """A rebuild does not delay it either: the cache takes no lock of the queue."""
    place = Place()
    place.table(100)
    place.go(1)
    place.rows(100, 5000, 5000)
    started, go_on = threading.Event(), threading.Event()
    honest = priority.facts_of

    def slow(*arguments):
        started.set()
        assert go_on.wait(20)
        return honest(*arguments)

    monkeypatch.setattr(priority, "facts_of", slow)
    place.cache.step(0.0)
    at = place.cache.high_water
    passing = threading.Thread(target=place.queue.step, args=(place.clock.monotonic() + 10,))
    passing.start()
    try:
        assert started.wait(20)
        for n in range(5):
            place.rows(101, 10, 10)
            place.cache.step(0.0)
            assert place.cache.get(101).rows == 10 * (n + 1)
        assert place.cache.high_water > at and place.queue.next_version <= at
    finally:
        go_on.set()
        passing.join(20)
    assert place.queue.next_version == at and place.keys() == [100]


def front(store: MemoryStore, clock: ManualClock, name: str) -> tuple[Member, Deltas]:
    member = Member.join(store, clock, "front", name, lease_s=1.0, identity=lambda: name)
    return member, Deltas(store, member)


def test_two_fronts_flush_and_nothing_is_lost_or_counted_twice():
    store, clock = filled(), ManualClock()
    fronts = [front(store, clock, name)[1] for name in ("a", "b")]
    for n in range(50):
        for deltas in fronts:
            deltas.merge({71: Delta(1, 1), 72 + n % 3: Delta(-1, 1)})
            deltas.step(0.0)
    for deltas in fronts:
        deltas.flush()
    txn = store.begin()
    assert (meta.get(txn, 71).rows, meta.get(txn, 71).modified) == (100, 100)
    assert sum(meta.get(txn, table).modified for table in (72, 73, 74)) == 100


def test_law_2_a_fenced_front_adds_nothing():
    store, clock = filled(), ManualClock()
    member, deltas = front(store, clock, "a")
    deltas.merge({71: Delta(1, 1)})
    txn = store.begin()
    members.fence(txn, member.id)
    txn.commit()
    with pytest.raises(Deposed):
        deltas.step(0.0)
    txn = store.begin()
    assert meta.get(txn, 71) is None


def test_statistics_on_a_store_with_large_numbers() -> None:
    """A store that moved to another server has large numbers: each move adds 2 ** 48. Earlier rows
    stay."""
    store = filled()
    for version in (7, 8, 1 << 48, 3 << 48):
        txn = store.begin()
        statistics = [Statistics(version, False, 1, 5, top=((b"x", version),))]
        records.write(txn, statistics, version)
        txn.commit()
    txn = store.begin()
    for version in (7, 8, 1 << 48, 3 << 48):
        assert [stats.top for stats in records.read(txn, version)] == [((b"x", version),)]
