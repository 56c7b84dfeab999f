"""Lock marks are removed in time; nobody takes their absence for the absence of a lock."""

import pytest

from exuvia.base.errors import Conflict
from exuvia.ddl import gc_worker
from exuvia.ddl.gc_worker import BATCH, KEPT_S, LockMarks
from exuvia.kv import keys as k
from exuvia.kv.packet import Span
from exuvia.kv.store import Store
from exuvia.kv.transaction import ONCE, Transaction
from support.small_cluster import SmallCluster

TABLES = (3, 7, 7 << 20)


def row(table: int, n: int) -> bytes:
    return k.row_prefix(table) + k.i64(n)


def lock(store: Store, table: int, *numbers: int) -> int:
    txn = store.begin()
    for n in numbers:
        txn.lock(row(table, n), exclusive=n % 2 == 0)
    return txn.commit()


def marks(store: Store) -> list[bytes]:
    txn = store.begin()
    try:
        return [
            key
            for table in TABLES
            for key, _ in txn.scan(k.span_of(k.lock_header(row(table, 0)) + b"x"))
        ] + [
            key
            for table in TABLES
            for key, _ in txn.scan(k.span_of(k.lock_header(row(table, 0)) + b"s"))
        ]
    finally:
        txn.rollback()


def sweep(store: Store, sweeper: LockMarks, now: float) -> int:
    """Steps until nothing is due."""
    steps = 0
    while sweeper.is_due(now):
        store.transact(lambda txn: sweeper.step(txn, now), ONCE)()
        steps += 1
    return steps


@pytest.fixture
def store() -> Store:
    return SmallCluster().store


def writer(store: Store, table: int, n: int) -> Transaction:
    txn = store.begin()
    txn.put(row(table, n), b"row")
    return txn


def test_marks_of_all_tables_go_and_younger_ones_stay(store: Store) -> None:
    sweeper = LockMarks()
    for table in TABLES:
        filled = store.begin()
        for n in range(50, 60):
            filled.put(row(table, n), b"row")
        filled.commit()
        lock(store, table, 1, 2, 3)
    old = writer(store, 7, 4)
    assert len(marks(store)) == 9
    assert sweep(store, sweeper, 0.0) == 1
    lock(store, 7, 5)
    young = writer(store, 7, 1)
    assert sweep(store, sweeper, KEPT_S - 1) == 0
    assert len(marks(store)) == 10
    assert sweep(store, sweeper, KEPT_S) == 1
    assert marks(store) == [k.lock_mark(k.SHARE, row(7, 5))]
    young.commit()
    lock(store, 7, 6)
    old.commit()  # as old as the floor: it needs no mark that was removed


def test_who_is_older_than_the_floor_is_refused_where_marks_were_left_since(store: Store) -> None:
    sweeper = LockMarks()
    old, elsewhere = writer(store, 7, 1), writer(store, 3, 1)
    lock(store, 7, 1)
    sweep(store, sweeper, 0.0)
    sweep(store, sweeper, KEPT_S)
    assert marks(store) == []
    with pytest.raises(Conflict):
        old.commit()
    elsewhere.commit()


def test_many_go_in_batches_beside_lockers(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gc_worker, "BATCH", 10)
    sweeper = LockMarks()
    for table in TABLES:
        lock(store, table, *range(25))
    sweep(store, sweeper, 0.0)
    conflicts = 0
    for n in range(100):
        if not sweeper.is_due(KEPT_S):
            break
        txn = store.begin()
        if n == 3:
            lock(store, 7, *range(10, 20))  # left anew while it is being removed
        try:
            then = sweeper.step(txn, KEPT_S)
            txn.commit()
            then()
        except Conflict:
            conflicts += 1
    assert conflicts <= 1 and BATCH == 1_000
    assert {key[-1] for key in marks(store)} <= set(range(10, 20))
    assert len(marks(store)) == 10


def test_the_gc_owner_removes_them_and_a_dropped_table_takes_its_own_along() -> None:
    cluster = SmallCluster()
    lock(cluster.store, 7, 1, 2)
    gc = cluster.owner.ddl.gc
    cluster.owner.ddl.gc_campaign.step(cluster.clock.monotonic())
    for now in (0.0, KEPT_S, KEPT_S):
        gc.step(now)
    assert marks(cluster.store) == []
    lock(cluster.store, 7, 1)
    header = k.lock_header(row(7, 0))
    table = k.table_span(7)
    assert table.start < header < table.end
    rows_and_entries = Span(k.entries_prefix(7), k.after(k.row_prefix(7)))
    assert rows_and_entries.start < header < rows_and_entries.end, "emptied with its partition"
