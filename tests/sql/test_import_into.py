"""IMPORT INTO: rows of files for an empty table, all of them or none."""

import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from exuvia.base.errors import Refused
from exuvia.kv.packet import Span
from exuvia.sql.session.session import Session
from support.node_processes import until
from support.world import World, rows, run

ROWS = 25_000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def world(folder: Path) -> Iterator[World]:
    with World() as found:
        found.services = replace(found.services, secure_file_priv=str(folder))
        yield found


@pytest.fixture
def session(world: World) -> Session:
    return world.session()


def refused(session: Session, text: str) -> tuple[int, str]:
    """Code and text."""
    with pytest.raises(Refused) as caught:
        session.execute(text)
    return caught.value.code, caught.value.message


def imported(session: Session, text: str) -> dict[str, Any]:
    found = run(session, text)
    (row,) = found.rows
    return dict(zip([column.name for column in found.columns], row, strict=True))


def test_a_csv_file_of_many_pieces(session: Session, folder: Path) -> None:
    lines = [
        f'{n},"name ""{n}"" of, them\nall",{n}.25,\\N,2026-01-{n % 28 + 1:02}\n'
        for n in range(ROWS)
    ]
    (folder / "a.csv").write_text("".join(lines))
    run(
        session,
        "CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(40), v DECIMAL(12, 2), x INT, d DATE,"
        " KEY by_v (v), UNIQUE KEY by_name (name))",
    )
    job = imported(session, "IMPORT INTO t FROM 'a.csv'")
    assert (job["Status"], job["Imported_Rows"]) == ("finished", ROWS)
    assert job["Target_Table"] == "`test`.`t`"
    assert job["Result_Message"] == ""
    assert rows(session, "SELECT COUNT(*), SUM(id), COUNT(x), MAX(v) FROM t") == [
        [ROWS, ROWS * (ROWS - 1) // 2, 0, pytest.approx(ROWS - 1 + 0.25)]
    ]
    assert rows(session, "SELECT name, d FROM t WHERE id = 7")[0][0] == 'name "7" of, them\nall'
    run(session, "ADMIN CHECK TABLE t")
    run(session, "INSERT INTO t (id) VALUES (-1)")
    assert rows(session, f"SHOW IMPORT JOB {job['Job_ID']}") == [list(job.values())]
    assert rows(session, "SHOW IMPORT JOBS WHERE status = 'finished'") == [list(job.values())]


def test_a_parquet_file_of_several_groups(session: Session, folder: Path) -> None:
    table = pa.table(
        {
            "ID": np.arange(ROWS),
            "v": pa.array([None if n % 3 else n / 4 for n in range(ROWS)], pa.float64()),
            "at": pa.array(np.arange(ROWS) * 1_000_000, pa.timestamp("us")),
            "blob": pa.array([b"\x00\xff"] * ROWS, pa.binary()),
        }
    )
    pq.write_table(table, folder / "a.parquet", row_group_size=7_000)
    run(
        session,
        "CREATE TABLE t (id BIGINT PRIMARY KEY, v DOUBLE, at DATETIME, `blob` BLOB,"
        " z INT DEFAULT 7, KEY (v))",
    )
    job = imported(session, "IMPORT INTO t FROM '*.parquet' WITH thread = 2")
    assert (job["Status"], job["Imported_Rows"]) == ("finished", ROWS)
    assert rows(session, "SELECT COUNT(*), COUNT(v), SUM(z) FROM t") == [
        [ROWS, (ROWS + 2) // 3, ROWS * 7]
    ]
    found = rows(session, "SELECT v, CAST(at AS CHAR), `blob` FROM t WHERE id = 3600")
    assert found == [[900.0, "1970-01-01 01:00:00", b"\x00\xff"]]
    run(session, "ADMIN CHECK TABLE t")


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ("1,a\n2,b\n1,c\n", "Duplicate entry '1' for key 't.PRIMARY': row 3 of"),
        ("1,a\n2,b\n1,a\n", "Duplicate entry '1' for key 't.PRIMARY': row 3 of"),
        ("1,a\n2,b\n3,a\n", "Duplicate entry 'a' for key 't.by_name'"),
    ],
)
def test_a_key_that_is_twice_is_told_and_leaves_the_table_empty(
    session: Session, folder: Path, lines: str, says: str
) -> None:
    (folder / "a.csv").write_text(lines)
    run(session, "CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(9), UNIQUE KEY by_name (name))")
    code, text = refused(session, "IMPORT INTO t FROM 'a.csv'")
    assert (code, says in text) == (1062, True), text
    assert rows(session, "SELECT * FROM t") == []
    (job,) = rows(session, "SHOW IMPORT JOBS")
    assert job[5] == "failed"
    assert says in job[8]
    run(session, "INSERT INTO t VALUES (1, 'a')")
    run(session, "ADMIN CHECK TABLE t")


def test_duplicates_in_several_files_name_the_file(session: Session, folder: Path) -> None:
    for name in ("a", "b"):
        (folder / f"{name}.csv").write_text("1,2\n")
    run(session, "CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    _, text = refused(session, "IMPORT INTO t FROM 'a.csv', 'b.csv'")
    assert f"row 1 of {folder / 'b.csv'}" in text


# -- columns ---------------------------------------------------------------------------------------

EVERY_TYPE = """CREATE TABLE {} (
    id BIGINT PRIMARY KEY, i TINYINT, u INT UNSIGNED, b BIGINT UNSIGNED, d DECIMAL(10, 3),
    wide DECIMAL(45, 5), f FLOAT, g DOUBLE, c CHAR(5), v VARCHAR(20),
    ascii VARCHAR(9) CHARSET ascii,
    t TEXT, bi BINARY(4), vb VARBINARY(9), bl BLOB, da DATE, dt DATETIME(3), ts TIMESTAMP NULL,
    ti TIME(2), y YEAR, bits BIT(12), e ENUM('x', 'y', 'a,b'), s SET('p', 'q', 'r'), j JSON,
    KEY (v), KEY (d, da), UNIQUE KEY (e, id))"""
COLUMNS = [
    "id",
    "i",
    "u",
    "b",
    "d",
    "wide",
    "f",
    "g",
    "c",
    "v",
    "ascii",
    "t",
    "bi",
    "vb",
    "bl",
    "da",
    "dt",
    "ts",
    "ti",
    "y",
    "bits",
    "e",
    "s",
    "j",
]

CELLS = {
    "i": ["1", "-128", "127", " 5 ", "3.5", "\\N"],
    "u": ["0", "4294967295", "7", "\\N"],
    "b": ["18446744073709551615", "0", "\\N"],
    "d": ["1.5", "-9999999.999", "0.0005", "1e2", "\\N"],
    "wide": ["1234567890123456789012345678901234567890.12345", "-1", "\\N"],
    "f": ["1.5", "3e10", "0.1", "\\N"],
    "g": ["1.25", "-2e-300", "0.1", "\\N"],
    "c": ["ab", '"a  "', '""', "\\N"],
    "v": [
        '"a ""b"" c"',
        '"line\nend, comma"',
        "plain",
        "äöü",
        '"\\N"',
        "\\N",
        "back\\\\slash",
        "\\t",
    ],
    "ascii": ["abc", "\\N"],
    "t": ["x" * 300, '"NULL"', "\\N"],
    "bi": ["ab", "\\N"],
    "vb": ['"a\\0b"', "\\N"],
    "bl": ["bytes", "\\N"],
    "da": ["2026-02-28", "20260101", "9999-12-31", "\\N"],
    "dt": ["2026-02-28 01:02:03", "2026-02-28 01:02:03.1239", "2026-02-28T01:02:03", "\\N"],
    "ts": ["2026-02-28 01:02:03", "2026-02-28 01:02:03.7", "\\N"],
    "ti": ["-838:59:59", "12:00", "1:2:3.456", "\\N"],
    "y": ["2026", "70", "\\N"],
    "bits": ["a", "\\N"],
    "e": ["x", '"a,b"', "2", "\\N"],
    "s": ['"p,r"', "", "q", "\\N"],
    "j": ['"{""a"": [1, null]}"', '"1"', "\\N"],
}


def some_lines(count: int, seed: int, end: str = "\n") -> str:
    dice = random.Random(seed)
    lines = []
    for n in range(count):
        quiet = dice.random() < 0.7  # most lines have no escape: Arrow splits them
        cells = [str(n)]
        for name in COLUMNS[1:]:
            choices = [c for c in CELLS[name] if not quiet or "\\" not in c or c == "\\N"]
            cells.append(dice.choice(choices))
        lines.append(",".join(cells) + end)
    return "".join(lines)


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_null_is_stored_as_an_insert_stores_it(
    world: World, session: Session, folder: Path, form: str
) -> None:
    """Checksums of rows compare their bytes, and a cell of fixed width is there if it is NULL."""
    kinds = ["DATE", "DATETIME(6)", "TIMESTAMP NULL", "TIME(3)", "DECIMAL(9,2)", "BIGINT", "DOUBLE"]
    columns = ", ".join(f"c{n} {kind}" for n, kind in enumerate(kinds))
    cells = ["2024-03-31", "2024-03-31 10:11:12", "2024-03-31 10:11:12", "01:02:03", "1.50", "7"]
    cells.append("0.5")
    for name in ("file", "made"):
        run(session, f"CREATE TABLE {name} (id INT PRIMARY KEY, {columns})")
    run(session, f"INSERT INTO made VALUES (1, {', '.join(map(repr, cells))})")
    run(session, "INSERT INTO made (id) VALUES (2)")
    if form == "csv":
        missing = ",\\N" * len(kinds)
        (folder / "a.csv").write_text(f"1,{','.join(cells)}\n2{missing}\n")
    else:
        day = datetime(2024, 3, 31)
        moment = day.replace(hour=10, minute=11, second=12)
        values = [day.date(), moment, moment, time(1, 2, 3), Decimal("1.50"), 7, 0.5]
        arrays = {f"c{n}": [value, None] for n, value in enumerate(values)}
        pq.write_table(pa.table({"id": [1, 2], **arrays}), folder / "a.parquet")
    run(session, f"IMPORT INTO file FROM 'a.{form}'")
    stored = []
    with world.store.read() as txn:
        for name in ("file", "made"):
            prefix = world.services.schemas.table(txn, session.database, name).row_prefix
            stored.append([raw for _, raw in txn.scan(Span(prefix, prefix + b"\xff"))])
    assert stored[0] == stored[1]


@pytest.mark.parametrize("zone", ["+00:00", "+05:30"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_values_are_what_load_data_makes_of_them(
    session: Session, folder: Path, zone: str, end: str
) -> None:
    run(session, f"SET time_zone = '{zone}'")
    (folder / "a.csv").write_bytes(some_lines(700, 7, end).encode())
    run(session, EVERY_TYPE.format("loaded"))
    run(session, EVERY_TYPE.format("imported"))
    form = f"FIELDS TERMINATED BY ',' ENCLOSED BY '\"' LINES TERMINATED BY '{end}'"
    run(session, f"LOAD DATA INFILE 'a.csv' INTO TABLE loaded {form}")
    job = imported(session, f"IMPORT INTO imported FROM 'a.csv' WITH lines_terminated_by = '{end}'")
    assert job["Imported_Rows"] == 700
    assert rows(session, "SELECT * FROM imported") == rows(session, "SELECT * FROM loaded")
    run(session, "ADMIN CHECK TABLE imported")


@pytest.mark.parametrize(
    ("column", "cell", "code"),
    [
        ("i TINYINT", "128", 1264),
        ("i TINYINT", "x", 1366),
        ("i INT NOT NULL", "\\N", 1048),
        ("i VARCHAR(2)", "abc", 1406),
        ("i DECIMAL(4, 2)", "100", 1264),
        ("i DATE", "2026-02-30", 1292),
        ("i DATETIME", "0000-00-00 00:00:00", 1292),
        ("i TIMESTAMP NULL", "2050-01-01 00:00:00", 1292),
        ("i ENUM('a')", "b", 1265),
        ("i JSON", "{", 3140),
        ("i INT UNSIGNED", "-1", 1264),
        ("i VARCHAR(9) CHARSET ascii", "ä", 1366),
        ("i INT, CHECK (i < 5)", "7", 3819),
        ("i INT", "1,2", 1262),
        ("i INT, k INT", "1", 1261),
    ],
)
def test_a_value_that_cannot_be_is_told_with_its_row(
    session: Session, folder: Path, column: str, cell: str, code: int
) -> None:
    good = ",1" if ", k" in column else ""
    lines = [f"\\N{good}\n" if "NOT NULL" not in column else f"1{good}\n"] * 20
    (folder / "a.csv").write_text("".join([*lines, cell + "\n", *lines]))
    run(session, f"CREATE TABLE t ({column})")
    found, text = refused(session, "IMPORT INTO t FROM 'a.csv'")
    assert found == code, text
    if code != 3819:
        assert "row 21" in text.lower(), text
        assert "a.csv" in text
    assert rows(session, "SELECT * FROM t") == []


@pytest.mark.parametrize(
    ("text", "taking", "refusing"),
    [
        ("0000-00-00", "NO_ZERO_IN_DATE", "NO_ZERO_DATE"),
        ("2020-00-10", "NO_ZERO_DATE", "NO_ZERO_IN_DATE"),
        ("2020-02-31", "ALLOW_INVALID_DATES", "NO_ZERO_DATE"),
    ],
)
def test_dates_are_judged_by_the_sql_mode(
    session: Session, folder: Path, text: str, taking: str, refusing: str
) -> None:
    (folder / "a.csv").write_text(f"{text}\n")
    run(session, "CREATE TABLE t (d DATE)")
    run(session, f"SET sql_mode = 'STRICT_ALL_TABLES,{refusing}'")
    assert refused(session, "IMPORT INTO t FROM 'a.csv'")[0] == 1292
    run(session, f"SET sql_mode = 'STRICT_ALL_TABLES,{taking}'")
    imported(session, "IMPORT INTO t FROM 'a.csv'")
    assert rows(session, "SELECT CONCAT(d) FROM t") == [[text]]


def test_ids_go_on_behind_those_that_came(session: Session, folder: Path) -> None:
    (folder / "a.csv").write_text("\\N,1\n50,2\n0,3\n")
    run(session, "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v INT)")
    imported(session, "IMPORT INTO t FROM 'a.csv'")
    run(session, "INSERT INTO t (v) VALUES (4)")
    assert rows(session, "SELECT * FROM t ORDER BY v") == [[1, 1], [50, 2], [3, 3], [51, 4]]

    run(session, "CREATE TABLE hidden (v INT, a INT UNIQUE AUTO_INCREMENT)")
    imported(session, "IMPORT INTO hidden (@x, v) FROM 'a.csv' WITH skip_rows = 1")
    run(session, "INSERT INTO hidden (v) VALUES (9), (10)")
    assert rows(session, "SELECT _tidb_rowid, v, a FROM hidden ORDER BY v") == [
        [1, 2, 1], [2, 3, 2], [3, 9, 3], [4, 10, 4]
    ]  # fmt: skip

    run(session, "CREATE TABLE r (id BIGINT PRIMARY KEY AUTO_RANDOM, v INT)")
    imported(session, "IMPORT INTO r (@x, v) FROM 'a.csv'")
    run(session, "INSERT INTO r (v) VALUES (4)")
    found = rows(session, "SELECT id & 0x3ffffffffffffff, v FROM r ORDER BY v")
    assert found == [[1, 1], [2, 2], [3, 3], [4, 4]]


def test_a_compound_key_and_defaults(session: Session, folder: Path) -> None:
    (folder / "a.csv").write_text("id;name\n1;b\n1;a\n")
    run(
        session,
        "CREATE TABLE t (name VARCHAR(9), id INT, at DATETIME DEFAULT CURRENT_TIMESTAMP,"
        " w INT AS (id * 2) VIRTUAL, n INT NOT NULL DEFAULT 4, PRIMARY KEY (id, name), KEY (w))",
    )
    imported(
        session,
        "IMPORT INTO t (id, name) FROM 'a.csv' FORMAT 'csv'"
        " WITH skip_rows = 1, fields_terminated_by = ';', fields_enclosed_by = ''",
    )
    found = rows(session, "SELECT name, id, w, n, at IS NULL FROM t ORDER BY name")
    assert found == [["a", 1, 2, 4, 0], ["b", 1, 2, 4, 0]]
    run(session, "ADMIN CHECK TABLE t")


# -- what is refused, and what happens meanwhile ---------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("IMPORT INTO nope FROM 'a.csv'", 1146),
        ("IMPORT INTO t FROM 'none.csv'", 8173),
        ("IMPORT INTO t FROM '../a.csv'", 1290),
        ("IMPORT INTO t FROM '/etc/passwd'", 1290),
        ("IMPORT INTO t FROM 'a\\0b.csv'", 29),
        (f"IMPORT INTO t FROM '{'a' * 300}.csv'", 8173),
        (f"LOAD DATA INFILE '{'a' * 300}' INTO TABLE t", 29),
        (f"SELECT 1 INTO OUTFILE '{'a' * 300}'", 1),
        ("IMPORT INTO t FROM 'a.csv' FORMAT 'sql'", 8157),
        ("IMPORT INTO t FROM 'a.csv' WITH nothing", 8163),
        ("IMPORT INTO t FROM 'a.csv' WITH skip_rows = 'x'", 8164),
        ("IMPORT INTO t FROM 'a.csv' WITH skip_rows", 8164),
        ("IMPORT INTO t FROM 'a.csv' WITH detached = 1", 8164),
        ("IMPORT INTO t FROM 'a.csv' WITH fields_enclosed_by = 'ab'", 8164),
        ("IMPORT INTO t FROM 'a.csv' WITH lines_terminated_by = ''", 8164),
        ("IMPORT INTO t FROM 'a.csv' WITH thread = 0", 8164),
        ("IMPORT INTO t FROM 'a.csv' WITH thread = 1, thread = 2", 8165),
        ("IMPORT INTO t FROM 'a.parquet' WITH skip_rows = 1", 8166),
        ("IMPORT INTO t FROM 'a.csv' WITH cloud_storage_uri = 's3://x'", 8166),
        ("IMPORT INTO t FROM 'a.csv' WITH character_set = 'gbk'", 8166),
        ("IMPORT INTO full FROM 'a.csv'", 8173),
        ("IMPORT INTO cut FROM 'a.csv'", 8173),
        ("IMPORT INTO parent FROM 'a.csv'", 8173),
        ("IMPORT INTO child FROM 'a.csv'", 8173),
        ("IMPORT INTO seen FROM 'a.csv'", 8173),
        ("IMPORT INTO computed FROM 'a.csv'", 8173),
        ("IMPORT INTO t (x) FROM 'a.csv'", 8173),
        ("IMPORT INTO t (v) FROM 'a.csv'", 1364),
        ("IMPORT INTO t SET v = 1 FROM 'a.csv'", 1235),
        ("IMPORT INTO t FROM SELECT 1", 1235),
        ("IMPORT INTO mysql.user FROM 'a.csv'", 8200),
        ("IMPORT INTO t FROM broken.parquet", 1235),
        ("IMPORT INTO t FROM 'broken.parquet'", 8160),
        ("IMPORT INTO t FROM 'other.parquet'", 8173),
        ("SHOW IMPORT JOB 77", 8170),
        ("CANCEL IMPORT JOB 77", 8170),
        ("IMPORT INTO", 1064),
        ("CANCEL IMPORT JOB", 1064),
    ],
)
def test_what_is_refused(session: Session, folder: Path, statement: str, code: int) -> None:
    (folder / "a.csv").write_text("1,2\n")
    (folder / "broken.parquet").write_text("PAR1 and no more")
    pq.write_table(pa.table({"other": [1]}), folder / "other.parquet")
    for text in (
        "CREATE TABLE t (id INT PRIMARY KEY, v INT)",
        "CREATE TABLE full (id INT PRIMARY KEY, v INT)",
        "INSERT INTO full VALUES (1, 1)",
        "CREATE TABLE cut (id INT PRIMARY KEY, v INT) PARTITION BY HASH (id) PARTITIONS 2",
        "CREATE TABLE parent (id INT PRIMARY KEY, v INT)",
        "CREATE TABLE child (id INT PRIMARY KEY, v INT, FOREIGN KEY (v) REFERENCES parent (id))",
        "CREATE TABLE computed (id INT PRIMARY KEY, v INT, w INT AS (v) STORED)",
        "CREATE VIEW seen AS SELECT 1",
    ):
        run(session, text)
    assert refused(session, statement)[0] == code
    run(session, "INSERT INTO t VALUES (1, 1)")


def test_it_is_no_part_of_a_transaction(session: Session, folder: Path) -> None:
    (folder / "a.csv").write_text("1\n")
    run(session, "CREATE TABLE t (id INT PRIMARY KEY)")
    run(session, "BEGIN")
    assert refused(session, "IMPORT INTO t FROM 'a.csv'")[0] == 1105


def test_writers_are_refused_and_readers_see_nothing_until_the_end(
    world: World, session: Session, folder: Path
) -> None:
    (folder / "a.csv").write_text("".join(f"{n},{n}\n" for n in range(ROWS)))
    run(session, "CREATE TABLE t (id INT PRIMARY KEY, v INT, KEY (v))")
    other = world.session()
    run(session, "SET exuvia_ddl_hold = 'public'")
    job = imported(session, "IMPORT INTO t FROM 'a.csv' WITH detached")
    assert job["Status"] in ("pending", "running")

    def state() -> str:
        return str(rows(session, f"ADMIN SHOW DDL JOBS WHERE job_id = {job['Job_ID']}")[0][11])

    until(lambda: state() == "held")
    for text in (
        "INSERT INTO t VALUES (1, 1)",
        "REPLACE INTO t VALUES (1, 1)",
        "UPDATE t SET v = 1",
        "DELETE FROM t",
        "DELETE FROM t WHERE id = 1",
    ):
        assert refused(other, text) == (8258, "Table t is in mode Import")
    assert rows(other, "SELECT COUNT(*) FROM t") == [[0]]
    assert refused(other, "IMPORT INTO t FROM 'a.csv'")[0] == 8173
    run(session, f"ADMIN COMPLETE DDL JOBS {job['Job_ID']}")
    until(lambda: state() == "synced")
    assert rows(other, "SELECT COUNT(*) FROM t") == [[ROWS]]
    run(other, "INSERT INTO t VALUES (-1, 1)")
    assert refused(session, f"CANCEL IMPORT JOB {job['Job_ID']}")[0] == 8171
    until(lambda: rows(session, "SHOW STATS_META WHERE table_name = 't'")[0][5] >= ROWS)


def test_a_cancel_leaves_the_table_as_it_was(session: Session, folder: Path) -> None:
    (folder / "a.csv").write_text("1,1\n")
    run(session, "CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    run(session, "SET exuvia_ddl_hold = 'public'")
    job = imported(session, "IMPORT INTO t FROM 'a.csv' WITH detached")["Job_ID"]
    run(session, f"CANCEL IMPORT JOB {job}")
    until(lambda: rows(session, f"SHOW IMPORT JOB {job}")[0][5] == "cancelled")
    run(session, "INSERT INTO t VALUES (1, 2)")
    assert rows(session, "SELECT * FROM t") == [[1, 2]]


def test_rows_that_come_before_the_job_begins_stand(world: World, folder: Path) -> None:
    """The look of the statement is older by a queue."""
    (folder / "a.csv").write_text("1,1\n")
    session, other = world.session(), world.session()
    run(session, "CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    run(session, "SET exuvia_ddl_hold = 'start'")
    job = imported(session, "IMPORT INTO t FROM 'a.csv' WITH detached")["Job_ID"]
    run(other, "INSERT INTO t VALUES (5, 5)")
    run(session, f"ADMIN COMPLETE DDL JOBS {job}")
    until(lambda: rows(session, f"SHOW IMPORT JOB {job}")[0][5] == "failed")
    assert "target table is not empty" in rows(session, f"SHOW IMPORT JOB {job}")[0][8]
    assert rows(session, "SELECT * FROM t") == [[5, 5]]
    run(session, "INSERT INTO t VALUES (6, 6)")
    run(session, "SET exuvia_ddl_hold = 'off'")
    assert refused(session, "IMPORT INTO t FROM 'a.csv'")[0] == 8173


def test_a_file_that_changes_meanwhile_ends_it(session: Session, folder: Path) -> None:
    (folder / "a.csv").write_text("1,1\n")
    run(session, "CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    run(session, "SET exuvia_ddl_hold = 'start'")
    job = imported(session, "IMPORT INTO t FROM 'a.csv' WITH detached")["Job_ID"]
    (folder / "a.csv").write_text("1,1\n2,2\n")
    run(session, f"ADMIN COMPLETE DDL JOBS {job}")
    until(lambda: rows(session, f"SHOW IMPORT JOB {job}")[0][5] == "failed")
    assert "has changed" in rows(session, f"SHOW IMPORT JOB {job}")[0][8]


def test_elements_of_a_multi_valued_index_are_held_to_its_type(
    session: Session, folder: Path
) -> None:
    (folder / "bad.csv").write_text('1,"[1, 2]"\n2,"[""x""]"\n')
    (folder / "good.csv").write_text('1,"[1, 2]"\n2,"[2, 3, 3]"\n3,"[]"\n')
    run(session, "CREATE TABLE l (id INT PRIMARY KEY, j JSON, KEY i ((CAST(j AS UNSIGNED ARRAY))))")
    code, text = refused(session, "IMPORT INTO l FROM 'bad.csv'")
    assert (code, "expression index 'i'" in text) == (3903, True)
    assert rows(session, "SELECT * FROM l") == []
    imported(session, "IMPORT INTO l FROM 'good.csv'")
    assert rows(session, "SELECT id FROM l WHERE 2 MEMBER OF (j)") == [[1], [2]]
    run(session, "ADMIN CHECK TABLE l")
