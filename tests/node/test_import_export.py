"""`exuvia export` and `exuvia import` on a real node: imported data equals exported data."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.node_processes import NodeProcess, running_nodes, until

COLUMNS = """(
    id BIGINT, i TINYINT, u BIGINT UNSIGNED, d DECIMAL(10, 3), wide DECIMAL(45, 5), f FLOAT,
    g DOUBLE, c CHAR(5), v VARCHAR(50), t TEXT, bi BINARY(4), vb VARBINARY(9), bl BLOB, da DATE,
    dt DATETIME(6), ts TIMESTAMP(3) NULL, ti TIME(2), y YEAR, bits BIT(12), e ENUM('x', 'a,b'),
    s SET('p', 'q', 'r'), j JSON, w INT AS (i + 1) VIRTUAL, KEY (v), KEY (d, da){key})"""
NULLS = "(1" + ", NULL" * 21 + ")"
VALUES = r"""
    (2, -128, 18446744073709551615, -9999999.999, 1234567890123456789012345678901234567890.12345,
     0.1, -2e-300, 'ab', 'a "b", \\ \n\t äöü', '\\N', 'ab', x'00ff5c22', x'0a2c220d', '9999-12-31',
     '2026-02-28 01:02:03.123456', '2026-02-28 01:02:03.123', '-838:59:59', 1901, b'101010101010',
     'a,b', 'p,r', '{"a": [1, null, "\\"x\\""]}'),
    (3, 127, 0, 0, -1, 1.5, 0, '', '', '', '', '', '', '0000-00-00', '0000-00-00', '2026-01-01',
     '00:00:00', 0, 0, 'x', '', '"NULL"'),
    (4, 0, 1, 0.001, 0.00001, -3e10, 1e300, 'NULL', 'NULL', 'line\r\nend', 'a', 'b', 'c',
     '2026-05-00', '2026-00-01 00:00:00', NULL, '23:59:59.99', 2155, 1, NULL, 'q', '1')
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


@pytest.fixture(scope="module")
def node(folder: Path) -> Iterator[NodeProcess]:
    with running_nodes(folder, options=("--secure-file-priv", str(folder))) as [started]:
        yield started


def rows_of(node: NodeProcess, *statements: str) -> list[tuple[Any, ...]]:
    """The rows of the last statement."""
    with node.connect(autocommit=True) as client, client.cursor() as cursor:
        for text in statements:
            cursor.execute(text)
        return list(cursor.fetchall())


# A shell starts background processes, and so perhaps this run, with SIGINT ignored
HEEDING = """
import runpy, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
runpy.run_module("exuvia.cli.main", run_name="__main__")
"""


def started_command(*words: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", HEEDING, *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def command(*words: str) -> tuple[int, str]:
    process = started_command(*words)
    output = "".join(process.communicate(timeout=100))
    return process.returncode, output


def imported(node: NodeProcess, *words: str) -> tuple[int, str]:
    return command("import", "--port", str(node.port), *words)


@pytest.mark.parametrize(
    ("form", "key"),
    [
        ("parquet", ""),
        pytest.param("parquet", ", PRIMARY KEY (id)", marks=pytest.mark.long),
        pytest.param("parquet", ", PRIMARY KEY (v, id)", marks=pytest.mark.long),
        pytest.param("csv", "", marks=pytest.mark.long),
        pytest.param("csv", ", PRIMARY KEY (id)", marks=pytest.mark.long),
        ("csv", ", PRIMARY KEY (v, id)"),
    ],
)
def test_what_was_exported_comes_back(node: NodeProcess, folder: Path, form: str, key: str) -> None:
    name = f"{form}{len(key)}"
    columns = COLUMNS.replace("{key}", key)
    if key:
        columns = columns.replace("v VARCHAR(50)", "v VARCHAR(50) NOT NULL")
    nulls = NULLS if not key else "(1" + ", NULL" * 7 + ", 'v'" + ", NULL" * 13 + ")"
    names = columns.replace("(\n    ", "").split(", w INT")[0]
    listed = ", ".join(part.split()[0] for part in _split(names))
    rows_of(
        node,
        "SET sql_mode = '', time_zone = '+00:00'",
        f"CREATE TABLE test.{name} {columns}",
        f"INSERT INTO test.{name} ({listed}) VALUES {nulls}, {VALUES}",
    )
    place = folder / name
    code, output = command(
        "export", str(place), "--table", f"test.{name}", "--format", form, "--store", node.store
    )
    assert (code, f"4 rows of test.{name} are in {place}" in output) == (0, True), output
    code, output = command("export", str(place), "--table", f"test.{name}", "--store", node.store)
    assert (code, "already" in output) == (1, True)

    rows_of(node, f"CREATE TABLE test.{name}_2 {columns}")
    (file,) = map(str, place.iterdir())
    code, output = imported(node, "--table", f"test.{name}_2", file)
    assert code == 0, output
    both = [
        rows_of(node, f"SELECT * FROM test.{table} ORDER BY id") for table in (name, f"{name}_2")
    ]
    assert both[0] == both[1]
    assert len(both[0]) == 4
    rows_of(node, f"ADMIN CHECK TABLE test.{name}_2")


def _split(columns: str) -> list[str]:
    """Split at commas outside of parentheses."""
    columns_split, depth = [""], 0
    for sign in columns:
        depth += {"(": 1, ")": -1}.get(sign, 0)
        if sign == "," and not depth:
            columns_split.append("")
        else:
            columns_split[-1] += sign
    return columns_split


def test_many_rows_in_several_files_of_one_moment(node: NodeProcess, folder: Path) -> None:
    rows_of(
        node,
        "CREATE TABLE test.many (id BIGINT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(20))",
        "INSERT INTO test.many (v) VALUES ('a'), ('b'), ('c'), ('d')",
        *["INSERT INTO test.many (v) SELECT v FROM test.many"] * 10,
        "CREATE TABLE test.many_2 LIKE test.many",
    )
    code, output = command(
        "export", str(folder), "--table", "test.many", "--format", "csv", "--store", node.store
    )
    assert (code, "4,096 rows" in output) == (0, True), output
    code, output = imported(node, "--table", "test.many_2", str(folder / "test.many.*.csv"))
    assert (code, "4,096 rows imported" in output) == (0, True), output
    sums = "SELECT COUNT(*), SUM(id), MAX(v) FROM test."
    assert rows_of(node, sums + "many") == rows_of(node, sums + "many_2")
    code, output = imported(node, "--table", "test.many_2", str(folder / "test.many.*.csv"))
    assert (code, "8173" in output) == (1, True), output


def test_duplicates_are_reported_by_the_command(node: NodeProcess, folder: Path) -> None:
    (folder / "twice.csv").write_text("1,2\n1,3\n")
    rows_of(node, "CREATE TABLE test.twice (id INT PRIMARY KEY, v INT)")
    code, output = imported(node, "--table", "test.twice", str(folder / "twice.csv"))
    assert (code, "Duplicate entry '1' for key 'twice.PRIMARY': row 2 of" in output) == (1, True)
    code, output = imported(node, "--table", "test.nope", str(folder / "twice.csv"))
    assert (code, "1146" in output) == (1, True)
    code, output = imported(node, "--table", "nope", str(folder / "twice.csv"))
    assert code == 2
    code, output = imported(
        node, "--table", "test.twice", str(folder / "twice.csv"), "--with", "skip_rows=1"
    )
    assert (code, "1 rows imported" in output) == (0, True), output


def test_an_interrupt_detaches(node: NodeProcess, folder: Path) -> None:
    (folder / "slow.csv").write_text("1,2\n")
    rows_of(node, "CREATE TABLE test.slow (id INT PRIMARY KEY, v INT)")
    with node.connect() as holder:
        holder.query("BEGIN")
        holder.query("INSERT INTO test.slow VALUES (7, 7)")
        process = started_command(
            "import", "--port", str(node.port), "--table", "test.slow", str(folder / "slow.csv")
        )
        assert process.stderr is not None
        line = process.stderr.readline()
        assert line.startswith("import job "), line
        process.send_signal(signal.SIGINT)
        _, output = process.communicate(timeout=60)
        assert (process.returncode, "detached: import job" in output) == (130, True), output
        holder.rollback()

    def status() -> Any:
        jobs = rows_of(node, "SHOW IMPORT JOBS")
        return [row[5] for row in jobs if row[2] == "`test`.`slow`"]

    until(lambda: status() == ["finished"])
    assert rows_of(node, "SELECT * FROM test.slow") == [(1, 2)]
