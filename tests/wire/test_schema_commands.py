"""`exuvia schema`: each way a command ends. The page's tour: tests/release/test_snippets.py."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.node_processes import ROOT, NodeProcess
from wire.test_cli import Done, exuvia

SHOP = (
    "CREATE TABLE customer (id bigint PRIMARY KEY AUTO_INCREMENT, city varchar(20), KEY (city))",
    "CREATE TABLE sale (id bigint PRIMARY KEY, customer bigint, at timestamp NULL,"
    " CONSTRAINT who FOREIGN KEY (customer) REFERENCES customer (id))",
    "INSERT INTO customer (city) VALUES ('Basel'), ('Genova')",
    "CREATE VIEW cities AS SELECT DISTINCT city FROM customer",
)


@pytest.fixture
def shop(node: NodeProcess) -> Iterator[str]:
    """The option with the node's port; creates the database `shop`."""
    with node.connect() as connection:
        connection.query("CREATE DATABASE shop")
        connection.query("USE shop")
        for text in SHOP:
            connection.query(text)
        yield f"-P{node.port}"
        connection.query("DROP DATABASE shop")


@pytest.fixture
def file(tmp_path: Path, shop: str) -> Path:
    """A file with the output of `dump`."""
    path = tmp_path / "shop.sql"
    path.write_text(exuvia("schema", "dump", shop, "-Dshop").stdout)
    return path


def changed(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def diff(file: Path, shop: str, *options: str) -> Done:
    return exuvia("schema", "diff", str(file), shop, "-Dshop", "--exit-code", *options)


def apply(file: Path, shop: str, *options: str) -> Done:
    return exuvia("schema", "apply", str(file), shop, "-Dshop", "--yes", *options)


def test_a_dump_is_equal_and_makes_the_same_tables(shop: str, file: Path) -> None:
    assert diff(file, shop) == Done(0, "", "")
    assert "AUTO_INCREMENT=" not in file.read_text()
    assert "cities" not in file.read_text()
    exuvia("sql", shop, "DROP DATABASE shop; CREATE DATABASE shop")
    assert diff(file, shop).returncode == 2
    done = apply(file, shop)
    assert (done.returncode, done.stderr) == (0, "1. shop.customer: done\n2. shop.sale: done\n")
    assert exuvia("schema", "dump", shop, "-Dshop").stdout == file.read_text()
    done = apply(file, shop)
    assert (done.returncode, done.stderr) == (0, "nothing to do\n")


def test_a_dump_has_backquotes_whatever_the_mode_is(shop: str, file: Path) -> None:
    exuvia("sql", shop, "SET GLOBAL sql_mode = CONCAT(@@GLOBAL.sql_mode, ',ANSI_QUOTES')")
    try:
        assert exuvia("schema", "dump", shop, "-Dshop").stdout == file.read_text()
        assert diff(file, shop) == Done(0, "", "")
    finally:
        exuvia("sql", shop, "SET GLOBAL sql_mode = DEFAULT")


def test_a_difference_for_people_and_for_programs(shop: str, file: Path) -> None:
    changed(file, "KEY `city` (`city`)", "KEY `city` (`city`,`id`)")
    done = diff(file, shop)
    assert done.returncode == 2
    assert "-- 1. shop.customer\n" in done.stdout
    assert "-- alter table multi-schema change_1  " in done.stdout
    listed = json.loads(diff(file, shop, "--output", "json").stdout)
    assert [step["statement"] for step in listed] == [
        "ALTER TABLE `customer` RENAME INDEX `city` TO `old_city`",
        "ALTER TABLE `customer` ADD KEY `city` (`city`,`id`), DROP INDEX `old_city`",
    ]
    assert listed[0]["plan"][0]["id"] == "rename index_1"
    assert listed[1]["follows"] == 1 and listed[1]["plan"]
    changed(file, "`city` varchar(20) DEFAULT NULL", "`city` int DEFAULT NULL")
    assert "-- planned once 1 is done\n" in diff(file, shop).stdout


def test_nothing_is_lost_unless_it_is_allowed(shop: str, file: Path) -> None:
    changed(file, "  `city` varchar(20) DEFAULT NULL,\n", "")
    changed(file, ",\n  KEY `city` (`city`)", "")
    done = apply(file, shop)
    assert done.returncode == 1
    assert "-- refused without --allow-drop: drops column city" in done.stdout
    assert "renamed from" in done.stderr
    assert "Basel" in exuvia("sql", shop, "SELECT city FROM shop.customer").stdout
    assert apply(file, shop, "--allow-drop").returncode == 0
    assert diff(file, shop) == Done(0, "", "")
    file.write_text(file.read_text().partition("CREATE TABLE `sale`")[0])
    result = diff(file, shop)
    assert (result.returncode, result.stderr) == (
        0,
        "shop.sale is not in the file: left as it is\n",
    )
    done = apply(file, shop, "--allow-drop")
    assert done.stdout.endswith("DROP TABLE `sale`;\n")
    assert diff(file, shop) == Done(0, "", "")


def test_a_renamed_column_keeps_its_values(shop: str, file: Path) -> None:
    changed(file, "`city` varchar(20) DEFAULT NULL,", "`town` varchar(20), -- renamed from city")
    changed(file, "(`city`)", "(`town`)")
    assert apply(file, shop).returncode == 0
    assert "Genova" in exuvia("sql", shop, "SELECT town FROM shop.customer").stdout
    assert diff(file, shop).returncode == 0


def test_nothing_is_done_where_the_server_would_refuse(shop: str, file: Path) -> None:
    changed(file, "`customer` bigint DEFAULT NULL", "`customer` int DEFAULT NULL")
    changed(file, "  `city` varchar(20)", "  `note` text,\n  `city` varchar(20)")
    done = apply(file, shop, "--allow-drop")
    assert done.returncode == 1
    assert "-- the server refuses it: 3780" in done.stdout
    assert done.stderr == "refused: the server would not do all of it; nothing was done\n"
    assert "note" not in exuvia("schema", "dump", shop, "-Dshop").stdout


def test_the_first_error_ends_it_and_reports_what_is_done(shop: str, file: Path) -> None:
    """A later statement fails because of rows; if there are many, that is known only when it
    runs."""
    changed(file, "KEY `city` (`city`)", "UNIQUE KEY `city` (`city`)")
    exuvia("sql", shop, "INSERT INTO shop.customer (city) VALUES ('Basel')")
    done = apply(file, shop)
    assert (done.returncode, done.stderr) == (
        1,
        "refused: the server would not do all of it; nothing was done\n",
    )
    assert "-- the server refuses it: 1062: Duplicate entry 'Basel'" in done.stdout
    exuvia("sql", shop, "SET GLOBAL exuvia_preflight_rows = 0")
    done = apply(file, shop)
    exuvia("sql", shop, "SET GLOBAL exuvia_preflight_rows = DEFAULT")
    assert done.returncode == 1
    assert "1. shop.customer: done\nERROR 1062: Duplicate entry 'Basel'" in done.stderr
    assert done.stderr.endswith("2. shop.customer has failed. done: 1; not done: 2\n")
    exuvia("sql", shop, "DELETE FROM shop.customer ORDER BY id DESC LIMIT 1")
    assert apply(file, shop).returncode == 0
    assert diff(file, shop) == Done(0, "", "")


def test_it_asks_and_shows_its_progress(shop: str, file: Path, node: NodeProcess) -> None:
    changed(file, "`city` varchar(20)", "`city` varchar(30)")
    command = [sys.executable, "-m", "exuvia.cli.main", "schema", "apply", str(file), shop]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    refused = subprocess.run(
        [*command, "-Dshop"], input="n\n", capture_output=True, text=True, env=environment
    )
    assert refused.returncode == 1
    assert "Run 1 statement(s)? [y/N]" in refused.stdout
    assert "nothing was done" in refused.stderr
    with node.connect() as holder:
        holder.query("BEGIN")
        holder.query("UPDATE shop.customer SET city = 'Roma' WHERE id = 1")
        running = subprocess.Popen(
            [*command, "-Dshop", "--yes", "--interval", "0.1"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        assert running.stderr is not None
        line = running.stderr.readline()
        assert re.match(r"job \d+: modify column, ", line), line
        holder.query("COMMIT")
        _, errors = running.communicate(timeout=60)
    assert running.returncode == 0
    assert errors.endswith("1. shop.customer: done\n")


def test_the_schema_of_a_table_at_any_version(shop: str) -> None:
    exuvia("sql", shop, "ALTER TABLE shop.sale ADD COLUMN n int")
    versions = json.loads(exuvia("schema", "history", shop, "shop.sale", "-ojson").stdout)
    assert [version["JOB_TYPE"] for version in versions] == ["add column", "create table"]
    last, first = (version["VERSION"] for version in versions)
    for version, has in ((first, False), (last - 1, False), (last, True), (last + 5, True)):
        done = exuvia("schema", "history", shop, "shop.sale", "--at-version", str(version))
        assert done.returncode == 0
        assert ("`n` int" in done.stdout) == has
        assert done.stdout.startswith("CREATE TABLE `sale` (")
    done = exuvia("schema", "history", shop, "shop.sale", "--at-version", str(first - 1))
    assert (done.returncode, done.stdout) == (1, "")
    exuvia("sql", shop, "DROP TABLE shop.sale")
    done = exuvia("schema", "history", shop, "shop.sale", "--at-version", "1000000")
    assert "was dropped at version" in done.stderr
    assert exuvia("schema", "history", shop, "shop.none").stderr.startswith("ERROR 1146")


def test_two_files_are_compared_without_a_node(tmp_path: Path) -> None:
    present, wanted = tmp_path / "present.sql", tmp_path / "wanted.sql"
    tables = f"{SHOP[1]};\n{SHOP[0]};\nCREATE TABLE apart.x (a int PRIMARY KEY);\n"
    present.write_text(tables)
    wanted.write_text(tables)
    two = ("schema", "diff", str(present), str(wanted), "--exit-code")
    assert exuvia(*two) == Done(0, "", "")
    wanted.write_text(
        tables.replace("city varchar(20)", "city varchar(40), born date").replace(
            "x (a int", "x (a bigint"
        )
    )
    done = exuvia(*two)
    assert (done.returncode, done.stderr) == (2, "")
    assert "-- 1. test.customer\n" in done.stdout and "-- 2. apart.x\n" in done.stdout
    listed = json.loads(exuvia(*two, "-Dshop", "-ojson").stdout)
    assert [step["table"] for step in listed] == ["shop.customer", "apart.x"]
    assert listed[0]["statement"] == (
        "ALTER TABLE `customer` MODIFY COLUMN `city` varchar(40) DEFAULT NULL,"
        " ADD COLUMN `born` date DEFAULT NULL"
    )
    assert listed[0]["plan"]
    wanted.write_text(SHOP[0])
    kept = exuvia(*two)
    assert kept.returncode == 0 and "test.sale is not in the file: left as it is" in kept.stderr
    assert "DROP TABLE `sale`" in exuvia(*two, "--allow-drop").stdout
    for text, error in (("CREATE TABLE t (a", "1064"), ("CREATE TABLE t (a int, a int)", "1060")):
        present.write_text(text)
        done = exuvia(*two)
        assert done.returncode == 1 and error in done.stderr
    present.write_text(SHOP[0])
    wanted.write_text("DROP TABLE customer")
    done = exuvia(*two)
    assert done.returncode == 1 and "1235" in done.stderr


def test_lint_ends_by_severity(tmp_path: Path) -> None:
    file = tmp_path / "x.sql"
    for text, code in (
        ("CREATE TABLE t (a bigint PRIMARY KEY)", 0),
        ("ALTER TABLE t COMMENT 'a'; ALTER TABLE t COMMENT 'b'", 0),
        ("CREATE TABLE t (a int PRIMARY KEY)", 3),
        ("CREATE TABLE t (a int)", 4),
        ("CREATE TABLE t (a", 4),
    ):
        file.write_text(text)
        assert exuvia("schema", "lint", str(file)).returncode == code
    file.write_text("\nCREATE TABLE t (a int)")
    [finding] = json.loads(exuvia("schema", "lint", str(file), "--output", "json").stdout)
    assert finding["file"] == str(file)
    assert (finding["rule"], finding["line"], finding["severity"]) == ("primary_key", 2, "error")


def test_errors_are_one_line(tmp_path: Path, shop: str) -> None:
    file = tmp_path / "x.sql"
    file.write_text("DROP TABLE customer")
    done = diff(file, shop)
    assert done.returncode == 1
    assert done.stderr.startswith("ERROR 1235: ")
    file.write_text("CREATE TABLE t (a int) COMMENT 'a\\\\b''c'")
    assert "COMMENT='a\\\\b''c'" in diff(file, shop).stdout
    assert exuvia("schema", "dump", shop, "-Dnosuch").stderr.startswith("ERROR 1049")
    assert diff(file, "-P1").returncode == 1


@pytest.mark.parametrize("command", ["lint", "diff", "apply", "diff of two"])
def test_a_file_is_utf_8(tmp_path: Path, shop: str, command: str) -> None:
    latin1, marked = tmp_path / "latin1.sql", tmp_path / "marked.sql"
    latin1.write_bytes("CREATE TABLE t (\n  a int COMMENT 'Stück'\n);\n".encode("latin-1"))
    marked.write_text("CREATE TABLE t (id int PRIMARY KEY);\n", encoding="utf-8-sig")

    def run(file: Path) -> Done:
        if command == "lint":
            return exuvia("schema", "lint", str(file))
        if command == "diff of two":
            return exuvia("schema", "diff", str(marked), str(file))
        return exuvia("schema", command, str(file), shop, "-Dshop")

    done = run(latin1)
    assert done.returncode == 1
    assert done.stderr.startswith(f"{latin1} is not UTF-8: byte 0xfc in line 2;")
    assert "ERROR" not in run(marked).stderr


def test_line_ends_of_windows_make_no_difference(tmp_path: Path) -> None:
    file, windows = tmp_path / "file.sql", tmp_path / "windows.sql"
    file.write_bytes(b"CREATE TABLE t (id int PRIMARY KEY) COMMENT 'a\nb';\n")
    windows.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    assert exuvia("schema", "diff", str(file), str(windows)) == Done(0, "", "")
