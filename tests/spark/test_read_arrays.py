"""Columns of a read, and batches of it, are those of the rows, without Spark."""

from datetime import UTC, datetime

import pytest

from pyspark_exuvia import table
from support.world import rows, run
from support.writers import session, world

__all__ = ["session", "world"]

TIMES = (
    *("2024-02-29 01:02:03.4", "1970-01-01 00:00:00", "1969-12-31 23:59:59.999999"),
    *("0001-01-01 00:00:00", "9999-12-31 23:59:59.999999", "2023-02-31 10:00:00"),
    *("2023-02-29 00:00:00", "2000-02-29 00:00:00", "1900-02-29 00:00:00"),
    *("0000-00-00 00:00:00", "0000-01-01 00:00:00", "2024-00-10 00:00:00", "2024-01-00 00:00:00"),
)


def batches_of(**options: str) -> list:
    reader = table.TableReader(options, table.schema(options))
    return [batch for task in reader.partitions() for batch in reader.read(task)]


@pytest.fixture(autouse=True)
def _here(world, monkeypatch) -> None:
    """Readers use this process's store."""
    monkeypatch.setattr(table, "store_of", lambda options: world.store)


def calendar(text: str | None) -> datetime | None:
    try:
        return None if text is None else datetime.fromisoformat(text)
    except ValueError:
        return None


def test_each_date_is_that_of_the_calendar_or_null(session):
    run(session, "CREATE TABLE t (id INT PRIMARY KEY, d DATE, at DATETIME(6), ts TIMESTAMP NULL)")
    run(session, "SET sql_mode = 'ALLOW_INVALID_DATES'")
    for n, text in enumerate(TIMES):
        run(session, f"INSERT INTO t VALUES ({n}, '{text[:10]}', '{text}', NULL)")
    run(session, "INSERT INTO t VALUES (100, NULL, NULL, '2024-01-01 00:00:01')")
    (batch,) = batches_of(dbtable="goal.t")
    texts = rows(session, "SELECT CAST(d AS CHAR), CAST(at AS CHAR) FROM t ORDER BY id")
    assert len(texts) == len(TIMES) + 1
    found = batch.to_pydict()
    assert found["at"] == [calendar(at) for _, at in texts]
    assert found["d"] == [(at := calendar(day)) and at.date() for day, _ in texts]
    assert found["ts"][-1] == datetime(2024, 1, 1, 0, 0, 1, tzinfo=UTC)
    assert sum(at is None for at in found["at"]) == 8


def test_texts_of_numbers_are_those_of_a_client(session):
    run(session, "CREATE TABLE t (id INT PRIMARY KEY, e ENUM('x','y'), s SET('a','b'), h TIME(1))")
    values = ("'x', 'a,b', '-10:00:01.5'", "'y', '', '838:59:59'", "NULL, NULL, NULL")
    for n, row in enumerate((*values, *values)):
        run(session, f"INSERT INTO t VALUES ({n}, {row})")
    (batch,) = batches_of(dbtable="goal.t", columns="e, s, h")
    shown = rows(
        session, "SELECT CAST(e AS CHAR), CAST(s AS CHAR), CAST(h AS CHAR) FROM t ORDER BY id"
    )
    assert [list(row.values()) for row in batch.to_pylist()] == [list(row) for row in shown]


@pytest.mark.parametrize("key", ["INT", "VARCHAR(20)"])
def test_fetchsize_bounds_a_batch(session, key):
    run(session, f"CREATE TABLE t (id {key} PRIMARY KEY, a INT)")
    run(session, "INSERT INTO t VALUES " + ", ".join(f"({n}, {n})" for n in range(10, 99)))
    run(session, "ALTER TABLE t ADD COLUMN b INT DEFAULT 7")
    run(session, "INSERT INTO t VALUES (99, NULL, NULL)")
    batches = batches_of(dbtable="goal.t", fetchsize="40", columns="b,id, a")
    assert [batch.num_rows for batch in batches] == [40, 40, 10]
    assert batches[0].schema.names == ["b", "id", "a"]
    shown = [list(row.values()) for batch in batches for row in batch.to_pylist()]
    of_type = str if key != "INT" else int
    assert shown == [*([7, of_type(n), n] for n in range(10, 99)), [None, of_type(99), None]]
