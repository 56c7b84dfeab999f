"""AS OF TIMESTAMP: tables as they were at a moment, or a refusal that says why not."""

import random
import threading
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from exuvia.base.errors import Refused
from exuvia.catalog import reader
from exuvia.events import change_log
from exuvia.events.change_log import Moment
from exuvia.kv import keys
from exuvia.kv.store import open_store
from exuvia.sql.session.session import Session
from support.node_processes import until
from support.postgres import shared_server
from support.world import World, error, rows, run

TABLES = (
    "CREATE TABLE t (id INT PRIMARY KEY, a INT, b VARCHAR(20), UNIQUE KEY (b), KEY (a))",
    "CREATE TABLE u (id INT, a INT, b VARCHAR(20), KEY (a, b)) PARTITION BY HASH (id) PARTITIONS 3",
)
ON = "ALTER TABLE {} EXUVIA_CHANGE_LOG = ON"


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ahead of the world, whose first look sets the time of the second."""
    monkeypatch.setattr(change_log, "MOMENT_S", 0.2)
    monkeypatch.setattr(change_log, "REMOVE_S", 0.3)


@pytest.fixture(params=["memory", "lmdb", pytest.param("postgres", marks=pytest.mark.long)])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    urls = {
        "lmdb": lambda: f"lmdb://{tmp_path}/store",
        "postgres": lambda: shared_server().new_url(),
    }
    url = urls.get(request.param, lambda: "memory:")()
    made = World(None if url == "memory:" else open_store(url))
    session = made.session()
    for table in TABLES:
        run(session, table)
    yield made
    made.close()
    made.store.close()


@pytest.fixture
def session(world: World) -> Session:
    found = world.session()
    run(found, "SET time_zone = '+00:00'")
    return found


def moments(world: World) -> list[Moment]:
    with world.store.read() as txn:
        return [
            Moment(int.from_bytes(key[-8:], "big"), position.decode())
            for key, position in txn.scan(keys.span_of(keys.meta("moment")))
        ]


def switch_on(world: World, session: Session, *tables: str) -> None:
    """And wait until a moment can be read."""
    for table in tables:
        run(session, ON.format(table))
    settle(world)


def settle(world: World) -> None:
    """Until a moment has been noted that sees what is committed now."""
    with world.store.read() as txn:
        txn.open()
        horizon = txn.snapshot.view.horizon

    def noted() -> bool:
        found = moments(world)
        view = world.store.view_at(found[-1].position) if found else None
        return view is not None and view.horizon >= horizon

    with suppress(AssertionError):
        until(noted, 3.0)


def now() -> str:
    return f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S.%f}"


def passed() -> str:
    """A time between what was committed and what will be."""
    begun = now()
    until(lambda: now() > begun)
    between = now()
    until(lambda: now() > between)
    return between


def text_of(moment: Moment) -> str:
    return f"{datetime.fromtimestamp(moment.wall_us / 1e6, UTC):%Y-%m-%d %H:%M:%S.%f}"


def test_the_rows_of_each_moment_are_found_again(world: World, session: Session) -> None:
    """Random writers; the truth is read by the very view that was noted as a moment."""
    run(session, "INSERT INTO t VALUES (1, 1, 'one'), (2, 2, 'two')")
    switch_on(world, session, "t", "u")
    truth: dict[str, list[Any]] = {}
    noted = change_log.ChangeLogs.note

    def note(self: Any, txn: Any, at: float) -> bool:
        found = noted(self, txn, at)
        if found:
            written = [each for each in txn.written_since(0) if each.startswith(b"m/moment/")]
            wall_us = int.from_bytes(written[0][-8:], "big")
            both = []
            for name in ("t", "u"):
                table = world.services.schemas.table(txn, "test", name)
                both.append(
                    sorted(row for part in table.parts for _, row in reader.scan(txn, part))
                )
            truth[text_of(Moment(wall_us, ""))] = both
        return found

    stop = threading.Event()
    broken: list[BaseException] = []

    def write(seed: int) -> None:
        chance, mine = random.Random(seed), world.session()

        def n() -> int:
            return chance.randint(1, 12)

        try:
            while not stop.is_set():
                name = chance.choice("tu")
                statement = chance.choice(
                    (
                        f"REPLACE INTO {name} VALUES ({n()}, {n()}, '{n()}')",
                        f"UPDATE IGNORE {name} SET id = {n()} WHERE id = {n()}",
                        f"UPDATE IGNORE {name} SET b = '{n()}' WHERE a = {n()}",
                        f"DELETE FROM {name} WHERE id < {n()} LIMIT 3",
                        "BEGIN",
                        "COMMIT",
                    )
                )
                with suppress(Refused):
                    run(mine, statement)
                stop.wait(0.002)
        except BaseException as failure:
            broken.append(failure)
        with suppress(Refused):
            run(mine, "COMMIT")

    change_log.ChangeLogs.note = note  # type: ignore[method-assign]
    writers = [threading.Thread(target=write, args=(seed,)) for seed in range(3)]
    try:
        for each in writers:
            each.start()
        until(lambda: len(truth) >= 4 or broken)
    finally:
        change_log.ChangeLogs.note = noted  # type: ignore[method-assign]
        stop.set()
        for each in writers:
            each.join()
    assert not broken
    assert len({str(each) for each in truth.values()}) > 2
    for at, (t, u) in truth.items():
        as_of = f"AS OF TIMESTAMP '{at}'"
        assert rows(session, f"SELECT * FROM t {as_of} ORDER BY id") == t
        assert sorted(rows(session, f"SELECT * FROM u {as_of}"), key=order) == sorted(
            ([*row][:3] for row in u), key=order
        )
        for n in range(1, 13):
            here = [row for row in t if row[0] == n]
            assert rows(session, f"SELECT * FROM t {as_of} WHERE id = {n}") == here
            named = [row for row in t if row[2] == str(n)]
            assert rows(session, f"SELECT * FROM t {as_of} WHERE b = '{n}'") == named
            counted = [[sum(row[1] == n for row in t)]]
            assert rows(session, f"SELECT COUNT(*) FROM t {as_of} WHERE a = {n}") == counted
            partly = sum(row[1] == n for row in u)
            assert rows(session, f"SELECT COUNT(*) FROM u {as_of} WHERE a = {n}") == [[partly]]
        joined = sorted([a[0], b[2]] for a in t for b in u if a[1] == b[1])
        query = f"SELECT x.id, y.b FROM t x {as_of} JOIN u y {as_of} ON x.a = y.a"
        assert sorted(rows(session, query)) == joined
        sums = [[len(t), sum(row[0] for row in t)]] if t else [[0, None]]
        assert rows(session, f"SELECT COUNT(*), SUM(id) FROM t {as_of}") == sums


def order(row: list[Any]) -> str:
    return str(row)


def test_nothing_that_came_after_the_time_is_seen(world: World, session: Session) -> None:
    """Who deleted too much a second ago gets it back."""
    run(session, "INSERT INTO t VALUES (1, 1, 'one'), (2, 2, 'two')")
    switch_on(world, session, "t")
    run(session, "UPDATE t SET a = 5 WHERE id = 1")
    settle(world)
    before = passed()
    run(session, "DELETE FROM t")
    run(session, "INSERT INTO t VALUES (3, 3, 'one')")
    settle(world)
    as_of = f"AS OF TIMESTAMP '{before}'"
    assert rows(session, f"SELECT * FROM t {as_of}") == [[1, 5, "one"], [2, 2, "two"]]
    assert rows(session, f"SELECT id FROM t {as_of} WHERE b = 'one'") == [[1]]
    assert rows(session, f"SELECT MAX(id), COUNT(*) FROM t {as_of}") == [[2, 2]]
    assert rows(session, f"SELECT a FROM t s {as_of} ORDER BY a DESC LIMIT 1") == [[5]]
    assert rows(session, "SELECT id FROM t AS OF TIMESTAMP NOW(6)") == [[3]]
    kept = f"SELECT id FROM t {as_of} WHERE id = 1"
    assert [rows(session, kept), rows(session, kept)] == [[[1]], [[1]]]
    assert rows(session, "SELECT id FROM t WHERE id = 1") == []
    query = "SELECT id FROM t AS OF TIMESTAMP ? WHERE id > ?"
    assert rows(session, query, [before, 1]) == [[2]]
    assert rows(session, query, [now(), 1]) == [[3]]
    run(session, f"SET @at = '{before}'")
    assert rows(session, "WITH c AS (SELECT id FROM t AS OF TIMESTAMP @at) SELECT * FROM c") == [
        [1],
        [2],
    ]
    run(session, "SET time_zone = '+05:00'")
    assert rows(session, "SELECT id FROM t AS OF TIMESTAMP NOW(6)") == [[3]]
    assert run(session, "EXPLAIN ANALYZE SELECT * FROM t AS OF TIMESTAMP NOW(6)").rows


def test_a_transaction_and_a_session_read_at_a_time(world: World, session: Session) -> None:
    run(session, "INSERT INTO t VALUES (1, 1, 'one')")
    switch_on(world, session, "t")
    before = now()
    run(session, "UPDATE t SET a = 2")
    run(session, f"START TRANSACTION READ ONLY AS OF TIMESTAMP '{before}'")
    assert rows(session, "SELECT a FROM t WHERE id = 1") == [[1]]
    assert rows(session, "SELECT a FROM t WHERE id = ?", [1]) == [[1]]
    assert message(session, "UPDATE t SET a = 3") == (
        1105,
        "only support read-only statement during read-only staleness transactions",
    )
    assert "while already set" in message(session, "SELECT * FROM t AS OF TIMESTAMP NOW()")[1]
    run(session, "COMMIT")
    assert rows(session, "SELECT a FROM t WHERE id = 1") == [[2]]
    run(session, f"SET tidb_snapshot = '{before}'")
    assert rows(session, "SELECT a FROM t WHERE id = 1") == [[1]]
    assert rows(session, "SELECT @@tidb_snapshot") == [[before]]
    for statement in (
        "INSERT INTO t VALUES (7, 7, '7')",
        "DROP TABLE t",
        "SELECT 1 FROM t FOR UPDATE",
        "EXPLAIN ANALYZE DELETE FROM t",
    ):
        assert message(session, statement) == (
            1105,
            "can not execute write statement when 'tidb_snapshot' is set",
        )
    assert rows(session, "EXPLAIN DELETE FROM t")
    run(session, "SET tidb_snapshot = ''")
    assert rows(session, "SELECT a FROM t WHERE id = 1") == [[2]]
    run(session, "UPDATE t SET a = 3")


def message(session: Session, statement: str) -> tuple[int, str]:
    with pytest.raises(Refused) as caught:
        session.execute(statement)
    return caught.value.code, caught.value.message


def test_what_cannot_be_read_is_refused(world: World, session: Session) -> None:
    early = passed()
    run(session, "CREATE TABLE plain (id INT PRIMARY KEY)")
    switch_on(world, session, "t")
    none = "invalid as of timestamp: table 'plain' has no change log"
    assert none in message(session, "SELECT * FROM plain AS OF TIMESTAMP NOW(6)")[1]
    assert message(session, f"SELECT * FROM t AS OF TIMESTAMP '{early}'")[0] == 8055
    assert message(session, f"SET tidb_snapshot = '{early}'")[0] == 8055
    future = message(session, "SELECT * FROM t AS OF TIMESTAMP NOW() + INTERVAL 1 DAY")
    assert future[0] == 1105
    assert future[1].startswith("cannot set read timestamp to a future time, readTS: ")
    for query, said in (
        ("SELECT * FROM t AS OF TIMESTAMP NULL", "as of timestamp cannot be NULL"),
        (
            "SELECT * FROM t AS OF TIMESTAMP NOW(6), plain",
            "can not set different time in the as of",
        ),
        (
            f"SELECT * FROM t AS OF TIMESTAMP NOW(), t x AS OF TIMESTAMP '{early}'",
            "can not set different time in the as of",
        ),
        (
            "INSERT INTO plain SELECT id FROM t AS OF TIMESTAMP NOW(6)",
            "it is allowed only in queries",
        ),
        (
            "DELETE FROM t WHERE id IN (SELECT id FROM t AS OF TIMESTAMP NOW())",
            "it is allowed only",
        ),
    ):
        code, text = message(session, query)
        assert (code, said in text) == (8135, True), (query, text)
    view = "CREATE VIEW v AS SELECT id FROM t AS OF TIMESTAMP NOW(6)"
    assert message(session, view)[0] == 1356
    assert message(session, "SELECT * FROM t AS OF TIMESTAMP 'nonsense'")[0] == 1292
    assert message(session, "SELECT * FROM t AS OF TIMESTAMP")[0] == 1064
    locked = message(session, "SELECT * FROM t AS OF TIMESTAMP NOW(6) FOR UPDATE")
    assert locked == (1105, "select lock hasn't been supported in stale read yet")
    run(session, "BEGIN")
    assert (
        "can't be set in transaction"
        in message(session, "SELECT * FROM t AS OF TIMESTAMP NOW(6)")[1]
    )
    run(session, "COMMIT")


EVERYWHERE = {
    "SELECT * FROM v @": [[1], [2]],
    "SELECT id FROM t @ WHERE a + 1 = 3": [[2]],
    "SELECT id FROM t @ FORCE INDEX (g) WHERE g = 4": [[2]],
    "SELECT id FROM t @ UNION SELECT a FROM t @": [[1], [2]],
    "SELECT * FROM (SELECT id FROM t x @ ORDER BY id DESC LIMIT 1) y": [[2]],
    "SELECT id FROM t @ WHERE id IN (SELECT MAX(a) FROM t @)": [[2]],
    "SELECT (SELECT COUNT(*) FROM t @)": [[2]],
    "SELECT COUNT(*) FROM t @ LEFT JOIN (SELECT 1 AS o) k ON o = a WHERE o IS NULL": [[1]],
    "SELECT id FROM t PARTITION (p0) AS y @ ORDER BY id": [[1], [2]],
    "/*T! SELECT */ SELECT id FROM t @ WHERE id > 1": None,
    "SELECT id FROM t FORCE INDEX (g) @": None,
    "SELECT id FROM t FOR SYSTEM_TIME AS OF NOW()": None,
    "START TRANSACTION AS OF TIMESTAMP NOW()": None,
}


def test_it_stands_wherever_a_table_is_read() -> None:
    with World() as world:
        session = world.session()
        run(session, "SET time_zone = '+00:00'")
        run(
            session,
            "CREATE TABLE t (id INT PRIMARY KEY, a INT, g INT AS (a * 2) VIRTUAL, KEY ((a + 1)), "
            "KEY g (g)) PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (100))",
        )
        run(session, "CREATE VIEW v AS SELECT a FROM t")
        run(session, "INSERT INTO t (id, a) VALUES (1, 1), (2, 2)")
        switch_on(world, session, "t")
        as_of = f"AS OF TIMESTAMP '{passed()}'"
        run(session, "UPDATE t SET a = a + 10")
        run(session, "DELETE FROM t WHERE id = 2")
        run(session, "INSERT INTO t (id, a) VALUES (3, 3)")
        for query, expected in EVERYWHERE.items():
            text = query.replace("@", as_of)
            if expected is None:
                assert message(session, text)[0] == 1064, query
            else:
                assert rows(session, text) == expected, query


def test_beside_temporary_tables_and_within_the_quota() -> None:
    with World() as world:
        session = world.session()
        run(session, "SET time_zone = '+00:00'")
        run(session, TABLES[0])
        run(session, "INSERT INTO t VALUES (1, 1, 'one')")
        switch_on(world, session, "t")
        as_of = f"AS OF TIMESTAMP '{passed()}'"
        run(session, "CREATE TEMPORARY TABLE m (id INT PRIMARY KEY)")
        run(session, "UPDATE t SET a = 2")
        assert rows(session, f"SELECT a FROM t {as_of}") == [[1]]
        assert message(session, f"SELECT * FROM m {as_of}") == (
            1105,
            "can not stale read temporary table",
        )
        values = ", ".join(f"({n}, {n}, '{n}')" for n in range(10, 3000))
        run(session, f"INSERT INTO t VALUES {values}")
        run(session, "SET tidb_mem_quota_query = 1000000")
        assert message(session, f"SELECT a FROM t {as_of}")[0] == 8175
        run(session, "SET tidb_mem_quota_query = 100000000")
        assert rows(session, f"SELECT a FROM t {as_of}") == [[1]]


CHANGED = (
    "ALTER TABLE t ADD COLUMN c INT DEFAULT 3",
    "ALTER TABLE t DROP COLUMN a",
    "ALTER TABLE t MODIFY a BIGINT",
    "ALTER TABLE t RENAME COLUMN a TO z",
    "RENAME TABLE t TO old, u TO t",
)


@pytest.mark.parametrize("change", CHANGED)
def test_another_definition_is_refused_and_an_index_is_not(change: str) -> None:
    with World() as world:
        session = world.session()
        run(session, "SET time_zone = '+00:00'")
        for table in TABLES:
            run(session, table)
        run(session, "INSERT INTO t VALUES (1, 1, 'one')")
        switch_on(world, session, "t", "u")
        before = passed()
        run(session, "UPDATE t SET a = 2")
        run(session, "ALTER TABLE t ADD INDEX new (a), DROP INDEX b")
        settle(world)
        as_of = f"AS OF TIMESTAMP '{before}'"
        read = f"SELECT id FROM t {as_of} WHERE a = 1 AND b = 'one'"
        assert rows(session, read) == [[1]]
        run(session, change)
        settle(world)
        assert message(session, f"SELECT * FROM t {as_of}") == (
            8135,
            "invalid as of timestamp: table 't' had another name or other columns then",
        )
        until(lambda: is_readable(session))
        assert rows(session, "SELECT COUNT(*) FROM t AS OF TIMESTAMP NOW(6)") == rows(
            session, "SELECT COUNT(*) FROM t"
        )


def is_readable(session: Session) -> bool:
    try:
        run(session, "SELECT * FROM t AS OF TIMESTAMP NOW(6)")
    except Refused:
        return False
    return True


@pytest.mark.parametrize(
    "setting", ["exuvia_change_log_retention_s = 1", "exuvia_change_log_max_bytes = 1"]
)
def test_removed_records_are_missed_by_name(world: World, session: Session, setting: str) -> None:
    switch_on(world, session, "t")
    run(session, "INSERT INTO t VALUES (1, 1, 'one')")
    settle(world)
    before = now()
    run(session, "UPDATE t SET a = 2")
    settle(world)
    read = f"SELECT a FROM t AS OF TIMESTAMP '{before}'"
    assert rows(session, read) == [[1]]
    run(session, f"SET GLOBAL {setting}")
    until(lambda: rows_or_none(session, read) is None)
    assert error(session, read)[0] == 8055


def rows_or_none(session: Session, read: str) -> list[Any] | None:
    try:
        found = rows(session, read)
    except Refused:
        return None
    assert found == [[1]]
    return found
