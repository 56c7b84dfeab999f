"""Moments and the retention of change logs: a log that is reported complete is complete."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from exuvia.base.clock import ManualClock
from exuvia.base.errors import Refused
from exuvia.catalog import meta
from exuvia.catalog.model import SchemaState, TableInfo, evolve
from exuvia.catalog.sysvar import variables
from exuvia.events import change_log as kept
from exuvia.events.change_log import MOMENT_S, REMOVE_S, ChangeLogs
from exuvia.kv import change_log, keys
from exuvia.kv.packet import View
from exuvia.kv.store import Store, open_store
from exuvia.kv.transaction import ONCE, Transaction
from support.node_processes import until
from support.postgres import shared_server
from support.tables import DATABASE, table_info
from support.world import World, rows, run

TABLE = table_info("id bigint", "a bigint", table_id=100)
LOGGED = evolve(
    TABLE, exuvia_change_log=SchemaState.PUBLIC, exuvia_change_log_id=1, exuvia_db=DATABASE.id
)
ROWS, LOG = keys.row_prefix(100), keys.log_prefix(100, 1)


@pytest.fixture(params=["memory", "lmdb", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    urls = {"memory": lambda: "memory:", "lmdb": lambda: f"lmdb://{tmp_path}/store"}
    opened = open_store(urls.get(request.param, lambda: shared_server().new_url())())
    opened.transact(lambda txn: put_table(txn, LOGGED))
    yield opened
    opened.close()


def put_table(txn: Transaction, info: TableInfo) -> None:
    meta.put_table(txn, info)


def write(store: Store, n: int, value: bytes | None) -> None:
    def work(txn: Transaction) -> None:
        key = ROWS + keys.i64(n)
        txn.log(LOG, key)
        if value is None:
            txn.delete(key)
        else:
            txn.put(key, value)

    store.transact(work)


def settle(store: Store, logs: ChangeLogs, now: float, most: int = 1000) -> int:
    """Run all due work; returns the number of removed batches."""
    store.transact(lambda txn: logs.note(txn, now), ONCE)
    removed = 0
    while store.transact(lambda txn: logs.remove(txn, now, most), ONCE):
        removed += 1
    return removed


def state(store: Store) -> tuple[View, dict[bytes, bytes]]:
    with store.read() as txn:
        txn.open()
        return txn.snapshot.view, {k[keys.HANDLE_AT :]: v for k, v in txn.scan(keys.span_of(ROWS))}


def records(store: Store) -> int:
    with store.read() as txn:
        return sum(1 for _ in txn.scan(keys.span_of(LOG)))


def moments(store: Store) -> list[int]:
    with store.read() as txn:
        return [int.from_bytes(k[-8:], "big") for k, _ in txn.scan(keys.span_of(b"m/moment/"))]


def as_it_was(store: Store, view: View) -> dict[bytes, bytes]:
    """Rows at the view, from the current rows and the log. Raises 8055 if records are missing."""
    with store.read() as txn:
        txn.open()
        table = meta.get_table(txn, 100)
        assert table is not None
        kept.require_complete(txn, table, view)
        rows_then = {k[keys.HANDLE_AT :]: v for k, v in txn.scan(keys.span_of(ROWS))}
        for change in change_log.rows_changed(txn.snapshot, LOG, ROWS, view):
            if change.before is None:
                del rows_then[change.handle]
            else:
                rows_then[change.handle] = change.before
        return rows_then


def set_global(store: Store, name: str, value: int) -> None:
    store.transact(lambda txn: variables.set_global(txn, name, value))


@pytest.mark.parametrize("most", [0, 2_000])
def test_a_log_reported_complete_is_complete(store: Store, most: int) -> None:
    """Retention by time and by size: the rows of any former view are exact, or the read raises
    8055."""
    chance, clock = random.Random(most), ManualClock()
    set_global(store, kept.RETENTION, 40 if not most else 10_000)
    set_global(store, kept.MOST_BYTES, most)
    logs = ChangeLogs(store, clock)
    states, removed = [], 0
    for turn in range(200):
        clock.advance(chance.random())
        n = chance.randint(1, 8)
        write(store, n, None if chance.random() < 0.3 else b"%d" % turn * 10)
        if chance.random() < 0.3:
            states.append(state(store))
        if chance.random() < 0.5:
            removed += settle(store, logs, clock.monotonic(), most=chance.randint(1, 20))
    complete = refused_count = 0
    for view, expected in states:
        try:
            assert as_it_was(store, view) == expected
            complete += 1
        except Refused as refused:
            assert refused.code == 8055
            refused_count += 1
    assert complete > 5
    assert refused_count > 5
    assert removed > 3
    if most:
        with store.read() as txn:
            assert kept.size_of(store, txn, [keys.span_of(LOG)]).bytes < 2 * most


def test_a_change_writes_a_moment_whose_time_is_after_the_change(
    store: Store,
) -> None:
    clock = ManualClock()
    logs = ChangeLogs(store, clock)
    settle(store, logs, clock.monotonic())
    assert len(moments(store)) == 1  # the log began
    for _ in range(5):
        clock.advance(MOMENT_S)
        settle(store, logs, clock.monotonic())
    assert len(moments(store)) == 1
    write(store, 1, b"one")
    written_us = clock.wall_ns() // 1_000
    settle(store, logs, clock.monotonic())  # not due yet
    clock.advance(MOMENT_S)
    settle(store, logs, clock.monotonic())
    assert len(moments(store)) == 2
    with store.read() as txn:
        early, late = kept.moment_at(txn, written_us), kept.moment_at(txn, written_us + 1_000_000)
        assert early is not None and late is not None
        assert early < late == kept.newest_moment(txn)
    views = [store.view_at(moment.position) for moment in (early, late)]
    assert [as_it_was(store, view) for view in views if view is not None] == [
        {},
        {keys.i64(1): b"one"},
    ]
    store.transact(lambda txn: put_table(txn, evolve(LOGGED, comment="other")))
    clock.advance(MOMENT_S)
    settle(store, logs, clock.monotonic())
    assert len(moments(store)) == 3


def test_later_moments_have_later_times_though_the_clock_goes_back(store: Store) -> None:
    clock = ManualClock()
    for n, back_s in enumerate((0, 3600, 7200)):
        write(store, n, b"row")
        clock.now_s = 10_000.0 - back_s
        settle(store, ChangeLogs(store, clock), 1e9)
    with store.read() as txn:
        views = [store.view_at(p.decode()) for _, p in txn.scan(keys.span_of(b"m/moment/"))]
    horizons = [view.horizon for view in views if view is not None]
    assert len(horizons) == 3
    assert horizons == sorted(set(horizons))


def test_a_disabled_log_leaves_no_records(store: Store) -> None:
    clock = ManualClock()
    logs = ChangeLogs(store, clock)
    for n in range(30):
        write(store, n, b"row")
        clock.advance(MOMENT_S)
        settle(store, logs, clock.monotonic())
    set_global(store, kept.RETENTION, 20)
    clock.advance(REMOVE_S)
    settle(store, logs, clock.monotonic(), most=7)
    assert 0 < len(moments(store)) < 20
    assert 0 < records(store) < 20
    store.transact(lambda txn: put_table(txn, TABLE_OFF))
    clock.advance(REMOVE_S)
    settle(store, logs, clock.monotonic(), most=7)
    assert not moments(store)
    with store.read() as txn:
        assert not list(txn.scan(keys.span_of(b"m/changelog")))
        with pytest.raises(Refused, match="has no change log"):
            kept.require_complete(txn, TABLE_OFF, txn.snapshot.view)


TABLE_OFF = evolve(LOGGED, exuvia_change_log=SchemaState.ABSENT)


def test_a_table_dropped_during_removal_leaves_no_floor(store: Store) -> None:
    clock = ManualClock()
    logs = ChangeLogs(store, clock)
    set_global(store, kept.RETENTION, 1)
    for n in range(10):
        write(store, n, b"row")
    settle(store, logs, clock.monotonic())
    clock.advance(REMOVE_S)

    def work(txn: Transaction) -> bool:
        removed = logs.remove(txn, clock.monotonic(), 3)
        store.transact(lambda other: meta.drop_table(other, LOGGED))
        return removed

    with pytest.raises(Exception, match="write skew"):
        store.transact(work, ONCE)
    settle(store, logs, clock.monotonic())
    with store.read() as txn:
        assert not list(txn.scan(keys.span_of(b"m/changelog")))


def test_logs_are_listed_in_information_schema() -> None:
    with World() as world:
        session = world.session()
        run(session, "CREATE TABLE t (id INT PRIMARY KEY, a INT)")
        run(session, "CREATE TABLE plain (id INT PRIMARY KEY)")
        view = "SELECT * FROM information_schema.exuvia_change_logs"
        assert rows(session, view) == []
        run(session, "ALTER TABLE t EXUVIA_CHANGE_LOG = ON")
        run(session, "INSERT INTO t VALUES (1, 1), (2, 2)")
        run(session, "UPDATE t SET a = 3 WHERE id = 1")
        until(lambda: rows(session, view)[0][3] is not None)
        run(session, "DELETE FROM t WHERE id = 2")
        until(lambda: len({*rows(session, view)[0][3:5]}) == 2)
        ((*names, oldest, newest, number, size, removed),) = rows(session, view)
        assert names == ["test", "t", "public"]
        assert oldest < newest
        assert number == 4
        assert 60 < size < 400
        assert removed is None
        run(session, "SET GLOBAL exuvia_change_log_max_bytes = '64MiB'")
        values = rows(
            session, "SELECT @@exuvia_change_log_max_bytes, @@exuvia_change_log_retention_s"
        )
        assert values == [[64 << 20, 86400]]
