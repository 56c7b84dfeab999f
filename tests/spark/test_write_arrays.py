"""Rows inserted by columns are those that INSERT writes one by one, with the same errors."""

from contextlib import nullcontext as nothing
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from exuvia.base.errors import Refused
from pyspark_exuvia import staging
from support.world import rows, run
from support.writers import committing, here, left, session, world, writer_of

__all__ = ["committing", "here", "session", "world"]

INTEGERS = pa.array([1, -1, None, 127, 0], pa.int64())
LARGE = pa.array([1 << 40, None, 7, -(1 << 62), 255], pa.int64())
FLOATS = pa.array([1.5, -2.25, None, 1e10, 0.0], pa.float64())
DECIMALS = pa.array([Decimal("1.50"), None, Decimal("-7.25"), Decimal("99.99"), Decimal(0)])
TEXTS = pa.array(["a", "grün ", None, "12", ""])
BINARIES = pa.array([b"a", b"\xff\x00", None, b"12", b""])
DATES = pa.array([date(2024, 2, 29), None, date(1970, 1, 1), date(9999, 12, 31), date(1000, 1, 1)])
INSTANTS = pa.array(
    [datetime(2024, 2, 29, 1, 2, 3, 400_500, UTC), None, *[datetime(2000, 1, 1, tzinfo=UTC)] * 3],
    pa.timestamp("us", "UTC"),
)
TIMES = INSTANTS.cast(pa.timestamp("us"))
BOOLEANS = pa.array([True, False, None, True, False])
MOMENTS = pa.array(["2024-02-29", "2024-02-29 01:02:03.4", None, "10:00:00", "0000-00-00"])
NUMBERS = pa.array(["1", "2.5", None, "-3", "1e2"])

EVERY = [INTEGERS, LARGE, FLOATS, DECIMALS, TEXTS, BINARIES, DATES, INSTANTS, TIMES, BOOLEANS]
EVERY += [MOMENTS, NUMBERS, pa.nulls(5)]
COLUMNS = (
    *("TINYINT", "INT", "BIGINT UNSIGNED", "INT NOT NULL", "FLOAT", "DOUBLE", "DECIMAL(10,1)"),
    *("DECIMAL(50,2)", "CHAR(4)", "VARCHAR(4) COLLATE utf8mb4_general_ci", "VARBINARY(4)"),
    *("VARCHAR(9) CHARACTER SET latin1", "BINARY(4)", "DATE", "DATETIME", "DATETIME(6)"),
    *("TIMESTAMP(3) NULL", "TIME", "YEAR", "ENUM('a','12')", "SET('a','b')", "JSON", "BIT(8)"),
    *("TEXT", "BLOB"),
)
NO_KEY = ("JSON", "TEXT", "BLOB")


def answer_of(here, session, table: str, array: pa.Array) -> object:
    """What a write of the column leaves or raises."""
    writer = writer_of(here, table, schema="a long")
    staged = [writer.write(iter([pa.RecordBatch.from_arrays([array], names=["a"])]))]
    try:
        writer.commit(staged)
    except Refused as error:
        writer.abort(staged)
        return error.code, error.message
    return rows(session, f"SELECT a FROM {table} ORDER BY id")


@pytest.mark.usefixtures("committing")
def test_values_and_errors_are_those_of_rows_inserted_one_by_one(here, session, monkeypatch):
    by_columns = staging.insert_arrays
    certain = []

    def counted(*arguments):
        result = by_columns(*arguments)
        certain.append(result is not None)
        return result

    for number, column in enumerate(COLUMNS):
        key = "" if column.split("(")[0] in NO_KEY else ", KEY (a)"
        fast, slow = f"f{number}", f"s{number}"
        for table in (fast, slow):
            run(
                session,
                f"CREATE TABLE {table} (id INT AUTO_INCREMENT PRIMARY KEY, a {column}{key})",
            )
        for array in EVERY:
            monkeypatch.setattr(staging, "insert_arrays", counted)
            found = answer_of(here, session, fast, array)
            monkeypatch.setattr(staging, "insert_arrays", lambda *arguments: None)
            assert found == answer_of(here, session, slow, array), (column, array.type)
        run(session, f"ADMIN CHECK TABLE {fast}")
    assert sum(certain) > 100  # of 325; most others are errors
    assert not left(here)


@pytest.mark.usefixtures("committing")
@pytest.mark.parametrize(
    ("definition", "is_certain"),
    [
        ("a INT, b INT DEFAULT 5, KEY (b, a)", True),
        ("a INT, b DATETIME(3) DEFAULT '2020-01-01 00:00:00.5', KEY (b)", True),
        ("a INT, b DECIMAL(8,2) DEFAULT 1.5, c DATE DEFAULT '2020-02-29', KEY (c, b)", True),
        ("a INT PRIMARY KEY", True),
        ("a BIGINT UNSIGNED PRIMARY KEY, b VARCHAR(9) DEFAULT 'x', KEY (b)", True),
        ("a INT, b VARCHAR(3) DEFAULT 'k', PRIMARY KEY (b, a) CLUSTERED, KEY (a)", True),
        ("a INT, b SMALLINT AUTO_INCREMENT PRIMARY KEY, KEY (a)", False),  # ids run out soon
        ("a INT, b BIGINT AUTO_INCREMENT PRIMARY KEY, KEY (a)", True),
        ("a INT UNIQUE", False),
        ("a INT, CHECK (a < 50000)", False),
        ("a INT, b INT AS (a + 1) STORED, KEY (b)", False),
        ("a INT, b TIMESTAMP DEFAULT CURRENT_TIMESTAMP", False),
        ("a INT, KEY k ((a + 1))", False),
        ("a INT) PARTITION BY HASH (a) PARTITIONS 3 /*", False),
    ],
)
def test_tables_whose_rows_need_no_check_are_written_by_columns(
    here, session, monkeypatch, definition, is_certain
):
    by_columns, results = staging.insert_arrays, []
    monkeypatch.setattr(
        staging, "insert_arrays", lambda *given: results.append(by_columns(*given)) or results[-1]
    )
    end = " */" if definition.endswith("/*") else ")"
    run(session, f"CREATE TABLE t ({definition}{end}")
    writer = writer_of(here, "t")
    frames = [pa.RecordBatch.from_pydict({"a": [*range(at, at + 500)]}) for at in (1, 2001)]
    writer.commit([writer.write(iter([frame])) for frame in frames])
    assert [result is not None for result in results] == [is_certain] * 2
    assert rows(session, "SELECT COUNT(*), SUM(a) FROM t") == [[1000, 1_250_500]]
    run(session, "ADMIN CHECK TABLE t")
    run(session, "INSERT INTO t (a) VALUES (4000)")
    run(session, "ADMIN CHECK TABLE t")
    signs = ("a INT PRIM", "UNSIGNED PRIM", "(b, a) C", "UNIQ")
    is_unique = any(sign in definition for sign in signs)
    with pytest.raises(Refused, match="Duplicate entry") if is_unique else nothing():
        writer = writer_of(here, "t")
        writer.commit([writer.write(iter([pa.RecordBatch.from_pydict({"a": [8000, 4000]})]))])
    expected = [[1, 0]] if is_unique else [[2, 1]]
    found = "SELECT COUNT(IF(a = 4000, 1, NULL)), COUNT(IF(a = 8000, 1, NULL)) FROM t"
    assert rows(session, found) == expected


@pytest.mark.usefixtures("committing")
@pytest.mark.parametrize("ids", [(5, None, 7), (5, 0, 7), (5, 6, 7)])
def test_ids_that_are_generated_among_given_ones(here, session, ids):
    run(session, "CREATE TABLE t (a BIGINT AUTO_INCREMENT PRIMARY KEY, b INT)")
    writer = writer_of(here, "t")
    writer.commit([writer.write(iter([pa.RecordBatch.from_pydict({"a": list(ids)})]))])
    run(session, "INSERT INTO t (b) VALUES (1)")
    assert rows(session, "SELECT a FROM t ORDER BY a") == [[5], [6], [7], [8]]
