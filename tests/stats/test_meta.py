"""Row counts: versions come in the order of commits, a reader of `version > last` misses nothing,
and what sessions did is exact once they are closed."""

import random

import pytest

from exuvia.base.clock import ManualClock
from exuvia.base.errors import Conflict, Deposed
from exuvia.catalog.bootstrap import bootstrap
from exuvia.cluster import member as members
from exuvia.cluster.member import Member
from exuvia.kv.memory import MemoryStore
from exuvia.stats import cache, meta
from exuvia.stats.cache import StatsCache
from exuvia.stats.deltas import Deltas
from exuvia.stats.meta import Delta, Meta


def filled() -> MemoryStore:
    store = MemoryStore()
    bootstrap(store)
    return store


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
