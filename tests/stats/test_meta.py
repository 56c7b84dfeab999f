"""Row counts: versions come in the order of commits, a reader of `version > last` misses nothing,
and what sessions did is exact once they are closed."""

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


def test_who_begins_first_and_commits_last_is_not_lost():
    """With start timestamps: first draws 5, second draws 7 and is read, first commits 5: lost."""
    store = filled()
    first, second = store.begin(), store.begin()
    meta.add(first, {71: Delta(1, 1)})
    meta.add(second, {72: Delta(1, 1)})
    second.commit()
    reader = store.begin()
    high_water = [each.version for each in meta.changed(reader, 0)][-1]
    with pytest.raises(Conflict):
        first.commit()
    again = store.begin()
    meta.add(again, {71: Delta(1, 1)})
    again.commit()
    reader = store.begin()
    assert [each.table_id for each in meta.changed(reader, high_water)] == [71]


def test_rows_and_changes_add_up_and_rows_never_fall_below_zero():
    store = filled()
    add(store, t71=(10, 10), t72=(5, 5))
    add(store, t71=(-3, 3))
    last = add(store, t72=(-9, 9))
    txn = store.begin()
    assert meta.get(txn, 71) == Meta(meta.get(txn, 71).version, 71, 13, 7)
    assert meta.get(txn, 72) == Meta(last, 72, 14, 0)
    assert meta.get(txn, 73) is None
    assert [each.table_id for each in meta.changed(txn, 0)] == [71, 72]
    assert list(meta.changed(txn, last)) == []


def test_a_cache_follows_and_asks_for_no_more_than_it_has_seen(monkeypatch):
    monkeypatch.setattr(cache, "MOST_RECENT", 8)  # columns are made early
    chance, store = random.Random(5), filled()
    known = StatsCache(store)
    expected: dict[int, tuple[int, int]] = {}
    for round_ in range(40):
        table = chance.randrange(60, 90)
        delta = (chance.randrange(0, 9), chance.randrange(9))
        rows, modified = expected.get(table, (0, 0))
        expected[table] = (rows + delta[0], modified + delta[1])
        version = add(store, **{f"t{table}": delta})
        if round_ % 3 == 0:
            known.step(0.0)
            assert known.high_water == version
            for each, (rows, modified) in expected.items():
                found = known.get(each)
                assert (found.rows, found.modified) == (rows, modified)
    assert known.get(1) is None


def test_what_an_analysis_noted_is_in_the_columns():
    store = filled()
    txn = store.begin()
    version = meta.draw_version(txn)
    meta.put(txn, Meta(version, 71, 0, 9, 4, 5, 9, 1_700_000_000, "1,3"))
    meta.put(txn, Meta(version, 72, 1, 2))
    txn.commit()
    known = StatsCache(store)
    known.load()
    assert known.get(71) == Meta(version, 71, 0, 9, 0, None, 9, 1_700_000_000, "1,3")
    assert known.get(71).index_ids == {1, 3}
    assert known.get(72) == Meta(version, 72, 1, 2)


def test_rows_of_one_flush_are_read_together_however_few_are_asked_for(monkeypatch):
    """They share a version: who had some of them would never ask for the others."""
    monkeypatch.setattr(cache, "MOST_RECENT", 8)
    monkeypatch.setattr(cache, "MOST_AT_FIRST", 8)
    store = filled()
    known = StatsCache(store)
    add(store, t50=(1, 1))
    assert known.step(0.0) > 0
    first = add(store, **{f"t{n}": (n, n) for n in range(60, 80)})
    second = add(store, t80=(80, 80), t50=(4, 4))
    txn = store.begin()
    assert [each.version for each in meta.changed(txn, 0, limit=8)] == [first] * 20
    assert [each for each, _ in meta.changed_ids(txn, first - 1, second, 20)] == [first] * 20
    while not known.step(0.0):
        pass
    assert known.high_water == second
    assert [known.get(n).rows for n in (50, *range(60, 81))] == [5, *range(60, 81)]


def test_news_go_into_the_columns_as_a_load_would_have_them(monkeypatch):
    monkeypatch.setattr(cache, "MOST_RECENT", 5)
    monkeypatch.setattr(cache, "MOST_AT_FIRST", 5)
    chance, store = random.Random(3), filled()
    known = StatsCache(store)
    add(store, **{f"t{n}": (n, n) for n in range(70, 90, 2)})
    known.step(0.0)
    for _ in range(60):
        txn = store.begin()
        version = meta.draw_version(txn)
        for n in chance.sample(range(60, 100), 4):
            analyzed = (n, 1_700_000_000 + n, chance.choice(("", "1", "1,3")))
            meta.put(txn, Meta(version, n, chance.randrange(99), chance.randrange(99), 0, None))
            if chance.random() < 0.5:
                meta.put(txn, Meta(version, n, 1, 2, 0, None, *analyzed))
        txn.commit()
        known.step(0.0)
        fresh = StatsCache(store)
        fresh.load()
        ids = range(55, 105)
        assert known.get_many(ids) == fresh.get_many(ids)
        for mine, theirs in zip(known.counts(ids), fresh.counts(ids), strict=True):
            assert list(mine) == list(theirs)


def test_tables_that_are_gone_do_not_pile_up(monkeypatch):
    monkeypatch.setattr(cache, "MOST_RECENT", 5)
    store = filled()
    known = StatsCache(store)
    for n in range(100, 300):
        add(store, **{f"t{n}": (1, 1)})
        known.step(0.0)
        txn = store.begin()
        meta.delete(txn, n)
        txn.commit()
    assert len(known._columns) + len(known._recent) < 30


def test_a_queue_in_the_middle_of_a_pass_does_not_delay_the_cache(monkeypatch):
    """Nor one that rebuilds: the cache takes no lock of the queue."""
    place = Place()
    place.table(100)
    place.go(1)
    place.rows(100, 5000, 5000)
    begun, go_on = threading.Event(), threading.Event()
    honest = priority.facts_of

    def slow(*arguments):
        begun.set()
        assert go_on.wait(20)
        return honest(*arguments)

    monkeypatch.setattr(priority, "facts_of", slow)
    place.cache.step(0.0)
    at = place.cache.high_water
    passing = threading.Thread(target=place.queue.step, args=(place.clock.monotonic() + 10,))
    passing.start()
    try:
        assert begun.wait(20)
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


def test_statistics_are_written_on_a_store_whose_numbers_are_large() -> None:
    """As after it came to another server: each such move adds 2 ** 48. The rows of before stay."""
    store = filled()
    for version in (7, 8, 1 << 48, 3 << 48):
        txn = store.begin()
        found = [Statistics(version, False, 1, 5, top=((b"x", version),))]
        records.write(txn, found, version)
        txn.commit()
    txn = store.begin()
    for version in (7, 8, 1 << 48, 3 << 48):
        assert [each.top for each in records.read(txn, version)] == [((b"x", version),)]
