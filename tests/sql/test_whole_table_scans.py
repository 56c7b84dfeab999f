"""What reads a whole table by columns says what reading it row by row says: on every type, with
NULLs, rows of older layouts, long values, partitions, and a transaction's own writes."""

import random
from collections.abc import Iterator

import pytest

from exuvia.catalog.table import Table
from exuvia.kv.packet import RawRun
from exuvia.kv.store import open_store
from exuvia.sql.select.scan import TopRows
from exuvia.sql.session.session import Session
from support.world import World, rows, run

COLUMNS = {
    "i": ("INT", "-7", "0", "2147483647"),
    "u": ("BIGINT UNSIGNED", "0", "18446744073709551615", "5"),
    "f": ("DOUBLE", "-1.5", "0", "1e300"),
    "d": ("DECIMAL(12,3)", "-1.250", "0", "123456789.125"),
    "wide": ("DECIMAL(38,6)", "-1.25", "0", "12345678901234567890123456789012.5"),
    "widest": ("DECIMAL(65,30)", "-1.25", "0", "12345678.5"),
    "day": ("DATE", "'2024-02-29'", "'1999-01-01'", "'9999-12-31'"),
    "moment": ("DATETIME(3)", "'2024-02-29 01:02:03.004'", "'1999-01-01'", "'9999-12-31'"),
    "stamp": ("TIMESTAMP NULL", "'2024-02-29 01:02:03'", "'1999-01-01'", "'2030-12-31'"),
    "lasts": ("TIME(6)", "'-10:00:00.5'", "'00:00:00'", "'838:59:59'"),
    "y": ("YEAR", "2024", "1999", "2155"),
    "e": ("ENUM('a','b','c')", "'a'", "'b'", "'c'"),
    "s": ("SET('a','b','c')", "'a'", "'a,c'", "''"),
    "bits": ("BIT(12)", "b'101'", "b'0'", "b'111111111111'"),
    "word": (
        "VARCHAR(900) COLLATE utf8mb4_bin",
        "'x'",
        "'Äußerst 日本 😀'",
        "REPEAT('long ', 150)",
    ),
    "folded": ("VARCHAR(40) COLLATE utf8mb4_general_ci", "'b  '", "'A'", "'ä'"),
    "fixed": ("CHAR(20)", "'b'", "''", "'a'"),
    "raw": ("VARBINARY(30)", "x'00ff'", "''", "'a'"),
    "j": ("JSON", "'{\"a\": [1, 2]}'", "'null'", "'3'"),
    "t": ("TEXT", "'short'", "REPEAT('page', 3000)", "''"),
}
ROWS = 700


def filled(session: Session, name: str, tail: str, key: str = "PRIMARY KEY (id)") -> None:
    """Rows of three layouts: a column is dropped, one added, one changed between them."""
    dice = random.Random(name)
    body = ", ".join(f"{column} {kind[0]}" for column, kind in COLUMNS.items())
    run(session, f"CREATE TABLE {name} (id INT NOT NULL, gone INT, {body}, {key}) {tail}")

    def more(first: int, last: int) -> None:
        for begin in range(first, last, 50):
            values = []
            for n in range(begin, min(begin + 50, last)):
                cells = [
                    "NULL" if n > 60 and dice.random() < 0.2 else dice.choice(kind[1:])
                    for kind in COLUMNS.values()
                ]
                values.append(f"({n}, {', '.join(cells)})")
            run(
                session, f"INSERT INTO {name} (id, {', '.join(COLUMNS)}) VALUES {', '.join(values)}"
            )

    more(0, ROWS // 3)
    run(session, f"ALTER TABLE {name} DROP COLUMN gone, ADD COLUMN late INT NOT NULL DEFAULT 7")
    more(ROWS // 3, 2 * ROWS // 3)
    run(session, f"ALTER TABLE {name} MODIFY COLUMN fixed VARCHAR(30)")
    more(2 * ROWS // 3, ROWS)


TABLES = {
    "plain": ("", "PRIMARY KEY (id)"),
    "hidden": ("", "UNIQUE KEY (id)"),
    "parted": ("PARTITION BY HASH (id) PARTITIONS 3", "PRIMARY KEY (id)"),
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    store = open_store(f"lmdb://{tmp_path_factory.mktemp('scans')}/store?sync=0")
    with World(store) as world:
        first = world.session("test")
        for name, (tail, key) in TABLES.items():
            filled(first, name, tail, key)
        yield world
    store.close()


@pytest.fixture(autouse=True)
def by_duckdb(monkeypatch: pytest.MonkeyPatch) -> None:
    """The row engine would read so few rows by itself."""
    monkeypatch.setattr("exuvia.sql.select.stream.MOST_STEPS", 0)


def agrees(session: Session, name: str, columns: str = "*") -> None:
    by_rows = rows(session, f"SELECT {columns} FROM {name} ORDER BY id")
    assert len(by_rows) >= ROWS
    whole = f"SELECT {columns} FROM (SELECT * FROM {name}) q ORDER BY id"
    assert rows(session, f"EXPLAIN {whole}")[0][2] == "duckdb"
    assert rows(session, whole) == by_rows


@pytest.mark.parametrize("name", TABLES)
def test_every_type_is_read_by_columns_as_by_rows(world: World, name: str) -> None:
    session = world.session("test")
    agrees(session, name)
    for column in COLUMNS:
        agrees(session, name, column)
    agrees(session, name, "late, id, fixed")
    assert rows(session, f"SELECT COUNT(*) FROM {name}") == [[ROWS]]


@pytest.mark.parametrize("name", TABLES)
def test_own_writes_are_among_them(world: World, name: str) -> None:
    session = world.session("test")
    run(session, "BEGIN")
    run(session, f"DELETE FROM {name} WHERE id BETWEEN 100 AND 109")
    run(session, f"UPDATE {name} SET word = 'mine', j = NULL WHERE id IN (0, 5, 400)")
    run(session, f"INSERT INTO {name} (id, word) SELECT id + 10000, word FROM {name} LIMIT 20")
    agrees(session, name)
    assert rows(session, f"SELECT COUNT(*) FROM {name}") == [[ROWS + 10]]
    assert rows(session, f"SELECT COUNT(*) FROM {name} WHERE word = 'mine'") >= [[3]]
    run(session, "ROLLBACK")
    agrees(session, name)


# -- ORDER BY .. LIMIT told to the scan ------------------------------------------------------------

UNTOLD = ("wide", "widest", "j")
LIMITS = ("1", "3", "40", "5 OFFSET 7")


@pytest.mark.parametrize("direction", ["ASC", "DESC"])
@pytest.mark.parametrize("name", TABLES)
def test_the_first_rows_are_those_of_a_whole_sort(
    world: World, name: str, direction: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = world.session("test")
    told: list[TopRows] = []
    left = TopRows.left

    def watched(top: TopRows, table: Table, run: RawRun, skip: int) -> RawRun:
        told.append(top)
        return left(top, table, run, skip)

    monkeypatch.setattr(TopRows, "left", watched)
    for column in COLUMNS:
        for limit in LIMITS[-1:]:
            query = (
                f"SELECT id, {column} FROM {name} ORDER BY {column} {direction}, id LIMIT {limit}"
            )
            del told[:]
            assert rows(session, f"SELECT * FROM ({query}) q") == rows(session, query), query
            assert bool(told) == (column not in UNTOLD), column


def test_a_zone_with_summer_time_is_not_the_order_of_what_is_stored(world: World) -> None:
    session = world.session("test")
    run(session, "SET time_zone = 'Europe/Berlin'")
    query = "SELECT id, stamp FROM plain ORDER BY stamp DESC, id LIMIT 9"
    assert rows(session, f"SELECT * FROM ({query}) q") == rows(session, query)


COLLATIONS = ("utf8mb4_bin", "utf8mb4_general_ci", "utf8mb4_unicode_ci", "utf8mb4_0900_bin")


@pytest.fixture(scope="module")
def texts(world: World) -> Session:
    """Texts of all lengths around the eight bytes that the scan looks at, alike in most of them."""
    dice = random.Random(5)
    session = world.session("test")
    columns = [f"{name} VARCHAR(20) COLLATE {name}" for name in COLLATIONS]
    run(
        session, f"CREATE TABLE texts (id INT PRIMARY KEY, {', '.join(columns)}, raw VARBINARY(60))"
    )
    for first in range(0, 4000, 200):
        values = []
        for n in range(first, first + 200):
            text = "".join(
                dice.choices(" abAB\tä日😀\0", (9, 9, 3, 3, 3, 1, 1, 1, 1, 1), k=dice.randrange(12))
            )
            text = dice.choice(("", "        ", "aaaaaaa", "bbbbbbbb ", "µ", "日")) + text[:11]
            values.append([n, *[None if dice.random() < 0.002 else text] * 4, text.encode()])
        marks = ", ".join(["(?, ?, ?, ?, ?, ?)"] * 200)
        run(session, f"INSERT INTO texts VALUES {marks}", [each for row in values for each in row])
    return session


@pytest.mark.parametrize("direction", ["ASC", "DESC"])
@pytest.mark.parametrize("column", [*COLLATIONS, "raw"])
def test_the_first_texts_are_those_of_a_whole_sort(
    texts: Session, column: str, direction: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for limit in (*LIMITS, "1000", "100 OFFSET 2000"):
        query = f"SELECT id, {column} FROM texts ORDER BY {column} {direction}, id LIMIT {limit}"
        told = rows(texts, f"SELECT * FROM ({query}) q")
        with monkeypatch.context() as patch:
            patch.setattr(TopRows, "fits", lambda kind: False)
            assert rows(texts, f"SELECT * FROM ({query}) q") == told, query


def test_a_scan_passes_over_what_comes_too_late(world: World) -> None:
    with world.store.read() as txn:
        plain = world.services.schemas.table(txn, "test", "plain")
        found = [run for piece in txn.snapshot.pieces(plain.row_span()) for run in piece()]
        for n, column in enumerate(plain.info.cols):
            if column.name.O in ("id", "u", "d"):
                top = TopRows(n, column.type, False, 3)
                kept = [len(top.left(plain, each, txn.snapshot.skip)) for each in found]
                assert sum(kept) >= 3, column.name.O
                assert kept[-1] < len(found[-1]) / 2, column.name.O
