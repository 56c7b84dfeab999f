"""EXUVIA_CHANGE_LOG: every statement that changes a row leaves a record."""

import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Event

import pytest

from exuvia.base.errors import Refused, SchemaChanged
from exuvia.catalog import meta, writer
from exuvia.catalog.model import SchemaState, TableInfo
from exuvia.ddl import queue, requests
from exuvia.ddl.job import ActionCode
from exuvia.kv import change_log, keys
from exuvia.kv.packet import View
from exuvia.sql.session.session import Session
from support.small_cluster import SmallCluster
from support.tables import abc
from support.world import World, error, rows, run

ON, OFF = "ALTER TABLE t EXUVIA_CHANGE_LOG = ON", "ALTER TABLE t EXUVIA_CHANGE_LOG = OFF"
Stored = dict[tuple[int, bytes], bytes]


@pytest.fixture
def world():
    with World() as made:
        session = made.session()
        run(session, "CREATE DATABASE d")
        yield made


@pytest.fixture
def session(world: World) -> Session:
    return world.session("d")


def attempt(session: Session, statement: str) -> None:
    """Refused or not: what is refused leaves nothing."""
    with suppress(Refused):
        run(session, statement)


def info_of(world: World, name: str) -> TableInfo:
    with world.store.read() as txn:
        place = meta.find_database(txn, "d")
        found = meta.find_table(txn, place or 0, name)
        info = meta.get_table(txn, found or 0)
        assert info is not None
        return info


def stored(world: World | SmallCluster, info: TableInfo) -> tuple[View, Stored]:
    """The view, and all rows by partition and handle."""
    with world.store.read() as txn:
        found = {
            (each, key[keys.HANDLE_AT :]): payload
            for each in info.physical_ids
            for key, payload in txn.scan(keys.span_of(keys.row_prefix(each)))
        }
        return txn.snapshot.view, found


def replayed(world: World | SmallCluster, info: TableInfo, known: View, before: Stored) -> Stored:
    """What the log makes of what stood there at the view; each record must fit."""
    after = dict(before)
    with world.store.read() as txn:
        for each in info.physical_ids:
            log, prefix = keys.log_prefix(each, info.exuvia_change_log_id), keys.row_prefix(each)
            for change, payload in change_log.in_order(txn.snapshot, log, prefix, known):
                place = each, change.handle
                assert after.get(place) == change.before, place
                if payload is None:
                    after.pop(place, None)
                else:
                    after[place] = payload
    return after


TABLES = {
    "t": "CREATE TABLE t (id INT PRIMARY KEY, a INT, b VARCHAR(20), UNIQUE KEY (a), KEY (b))",
    "hidden ids": "CREATE TABLE t (id INT, a INT, b VARCHAR(20), UNIQUE KEY (a))",
    "clustered text": "CREATE TABLE t (id INT, a INT, b VARCHAR(20), PRIMARY KEY (b, id))",
    "partitions": "CREATE TABLE t (id INT PRIMARY KEY, a INT, b VARCHAR(20), KEY (b)) "
    "PARTITION BY HASH (id) PARTITIONS 3",
    "children": "CREATE TABLE t (id INT PRIMARY KEY, a INT, b VARCHAR(20), "
    "FOREIGN KEY (id) REFERENCES p (id) ON DELETE CASCADE ON UPDATE CASCADE)",
}


def statements(seed: int) -> list[str]:
    chance = random.Random(seed)

    def n() -> int:
        return chance.randint(1, 30)

    made = [
        lambda: f"INSERT IGNORE INTO t VALUES ({n()}, {n()}, 'new {n()}')",
        lambda: f"REPLACE INTO t VALUES ({n()}, {n()}, 'put {n()}')",
        lambda: f"INSERT INTO t VALUES ({n()}, {n()}, 'x') ON DUPLICATE KEY UPDATE b = 'twice'",
        lambda: f"UPDATE IGNORE t SET id = {n()} WHERE id = {n()}",
        lambda: f"UPDATE t SET b = CONCAT('up', a) WHERE id < {n()}",
        lambda: f"DELETE FROM t WHERE id > {n()} LIMIT 2",
        lambda: f"INSERT IGNORE INTO t SELECT id + {n()}, NULL, 'copied' FROM t",
        lambda: f"DELETE FROM p WHERE id = {n()}",
        lambda: f"UPDATE IGNORE p SET id = {n()} + 100 WHERE id = {n()}",
        lambda: "SAVEPOINT s",
        lambda: "ROLLBACK TO s",
        lambda: chance.choice(("BEGIN", "BEGIN PESSIMISTIC", "COMMIT", "ROLLBACK", "COMMIT")),
        lambda: f"SELECT * FROM t WHERE id = {n()} FOR UPDATE",
    ]
    return [chance.choice(made)() for _ in range(120)]


@pytest.mark.parametrize("kind", TABLES)
def test_the_log_of_any_statements_leads_from_what_was_to_what_is(
    world: World, session: Session, kind: str
) -> None:
    run(session, "CREATE TABLE p (id INT PRIMARY KEY)")
    run(session, "INSERT INTO p VALUES " + ", ".join(f"({n})" for n in range(1, 131)))
    run(session, TABLES[kind])
    run(session, "INSERT INTO t VALUES (1, 1, 'one'), (2, 2, 'two'), (25, NULL, 'x')")
    run(session, ON)
    info = info_of(world, "t")
    known, before = stored(world, info)
    for statement in statements(17):
        attempt(session, statement)
    attempt(session, "COMMIT")
    _, now = stored(world, info)
    assert now != before
    assert replayed(world, info, known, before) == now
    run(session, "ADMIN CHECK TABLE t")


def test_whoever_writes_when_it_is_public_writes_the_log(world: World, session: Session) -> None:
    """Writers in all states of the log, switched on and off again and again: from each moment at
    which it was public on, it is complete."""
    run(session, TABLES["t"])
    done = Event()

    def write(seed: int) -> None:
        mine = world.session("d")
        chance = random.Random(seed)
        while not done.is_set():
            n = chance.randint(1, 20)
            if chance.random() < 0.3:
                attempt(mine, "BEGIN")
            attempt(mine, f"REPLACE INTO t VALUES ({n}, {chance.randint(1, 99)}, 'by {seed}')")
            attempt(mine, f"DELETE FROM t WHERE id = {chance.randint(1, 20)}")
            attempt(mine, "COMMIT")

    with ThreadPoolExecutor(3) as pool:
        writers = [pool.submit(write, seed) for seed in range(3)]
        for _ in range(6):
            run(session, ON)
            info = info_of(world, "t")
            assert info.exuvia_change_log == SchemaState.PUBLIC
            known, before = stored(world, info)
            run(session, "DO SLEEP(0.1)")
            with world.store.read() as txn:  # one moment for both
                prefix = keys.row_prefix(info.id)
                log = keys.log_prefix(info.id, info.exuvia_change_log_id)
                after = {
                    (info.id, key[keys.HANDLE_AT :]): payload
                    for key, payload in txn.scan(keys.span_of(prefix))
                }
                for change, payload in change_log.in_order(txn.snapshot, log, prefix, known):
                    place = info.id, change.handle
                    assert before.get(place) == change.before
                    before[place] = payload
            assert {place: p for place, p in before.items() if p is not None} == after
            run(session, OFF)
        done.set()
        for each in writers:
            each.result()
    with world.store.read() as txn:
        assert not list(txn.scan(keys.span_of(keys.meta("changelog"))))


def test_at_the_moment_it_is_public_whoever_may_still_commit_writes_it() -> None:
    cluster = SmallCluster()
    cluster.run(requests.create_table(cluster.database(), abc("t")))
    plans = {}
    job_id = cluster.submit(
        requests.change_option(
            ActionCode.EXUVIA_CHANGE_LOG, cluster.database(), cluster.table("t").info, True
        )
    )
    while cluster.read(lambda txn: queue.get(txn, job_id)) is not None:
        table = cluster.table("t")
        plans.setdefault(table.info.exuvia_change_log, table)
        cluster.step()
    public = cluster.table("t")
    assert public.info.exuvia_change_log == SchemaState.PUBLIC
    known, before = stored(cluster, public.info)
    for n, state in enumerate((SchemaState.ABSENT, SchemaState.WRITE_ONLY, SchemaState.PUBLIC)):
        txn = cluster.store.begin()
        plan = plans.get(state, public)
        writer.insert(txn, plan, [n, n, n][: len(plan.info.cols)], keys.i64(n))
        if state == SchemaState.ABSENT:
            with pytest.raises(SchemaChanged):
                txn.commit()
        else:
            txn.commit()
    after = stored(cluster, public.info)[1]
    assert len(after) == 2
    assert replayed(cluster, public.info, known, before) == after


REFUSED = (
    "TRUNCATE TABLE t",
    "ALTER TABLE t MODIFY a VARCHAR(20)",
    "ALTER TABLE t DROP PARTITION p0",
    "ALTER TABLE t TRUNCATE PARTITION p0",
    "ALTER TABLE t EXCHANGE PARTITION p0 WITH TABLE o",
    "ALTER TABLE t REORGANIZE PARTITION p0 INTO (PARTITION n0 VALUES LESS THAN (10))",
    "ALTER TABLE t REMOVE PARTITIONING",
    "ALTER TABLE t PARTITION BY HASH (id) PARTITIONS 2",
)
TAKEN = (
    "ALTER TABLE t ADD PARTITION (PARTITION p2 VALUES LESS THAN (300))",
    "ALTER TABLE t ADD INDEX (a)",
    "ALTER TABLE t ADD COLUMN c INT DEFAULT 3",
    "ALTER TABLE t DROP COLUMN c",
    "ALTER TABLE t MODIFY a BIGINT",
    "RENAME TABLE t TO u",
    "DROP TABLE u",
)


def test_what_would_leave_no_record_is_refused_while_it_is_on(session: Session) -> None:
    cut = "PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (200)"
    run(session, f"CREATE TABLE t (id INT PRIMARY KEY, a INT) PARTITION BY RANGE (id) ({cut})")
    run(session, "CREATE TABLE o (id INT PRIMARY KEY, a INT)")
    run(session, "INSERT INTO t VALUES (1, 1), (100, 100)")
    run(session, ON)
    for statement in REFUSED:
        code, said = error(session, statement)[:2]
        assert code == 8200, (statement, said)
    assert rows(session, "SELECT * FROM t ORDER BY id") == [[1, 1], [100, 100]]
    for statement in TAKEN:
        run(session, statement)


def test_what_is_switched_off_is_emptied_and_harms_no_later_log(
    world: World, session: Session
) -> None:
    run(session, TABLES["t"])
    run(session, ON)
    run(session, ON)  # stands so
    run(session, "INSERT INTO t VALUES (1, 1, 'one')")
    first = info_of(world, "t")
    run(session, OFF)
    run(session, OFF)
    run(session, "INSERT INTO t VALUES (2, 2, 'unlogged')")
    run(session, ON)
    run(session, "INSERT INTO t VALUES (3, 3, 'three')")
    again = info_of(world, "t")

    def records(info: TableInfo) -> int:
        prefix = keys.log_prefix(info.id, info.exuvia_change_log_id)
        with world.store.read() as txn:
            return sum(1 for _ in txn.scan(keys.span_of(prefix)))

    assert records(again) == 1
    waiting = rows(session, "SELECT COUNT(*) FROM mysql.gc_delete_range")
    assert records(first) == 0 or waiting == [[1]]


def test_bad_input(session: Session) -> None:
    run(session, TABLES["t"])
    run(session, "CREATE VIEW v AS SELECT 1")
    run(session, "CREATE TEMPORARY TABLE m (a INT)")
    assert error(session, "ALTER TABLE t EXUVIA_CHANGE_LOG = maybe")[0] == 1231
    assert error(session, "CREATE TABLE w (a INT) EXUVIA_CHANGE_LOG = ON")[0] == 8200
    assert error(session, "ALTER TABLE v EXUVIA_CHANGE_LOG = ON")[0] == 1347
    assert error(session, "ALTER TABLE m EXUVIA_CHANGE_LOG = ON")[0] in (1347, 8200)
    assert "CHANGE_LOG" not in rows(session, "SHOW CREATE TABLE t")[0][1]
    run(session, "ALTER TABLE t /*T! EXUVIA_CHANGE_LOG = ON */")
    assert "EXUVIA_CHANGE_LOG=ON" in rows(session, "SHOW CREATE TABLE t")[0][1]
