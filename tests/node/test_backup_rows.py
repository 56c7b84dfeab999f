"""A backup of rows is one moment and one schema version of a cluster in use.

A store restored from it, on either engine, has the same contents and can be used. A damaged backup
is found."""

import json
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import pymysql
import pytest
from typer.testing import CliRunner

from exuvia.backup import definitions
from exuvia.backup.folder import hasher, read
from exuvia.cli.main import app
from support.node_processes import NodeProcess, end_all, running_nodes, until
from support.postgres import shared_server

ACCOUNTS, MONEY, ROWS = 50, 1000, 4_000
REST_S = 0.005
"""A client's pause between two transactions: it shares the processor with the node."""
EVERY_TYPE = (
    "id INT PRIMARY KEY AUTO_INCREMENT, ti TINYINT, su SMALLINT UNSIGNED, bu BIGINT UNSIGNED, "
    "bi BIGINT, f FLOAT, dd DOUBLE, d5 DECIMAL(10,3), d30 DECIMAL(30,10), d65 DECIMAL(65,30), "
    "c CHAR(5), v VARCHAR(50), t TEXT, l VARCHAR(20) CHARACTER SET latin1, bn BINARY(4), "
    "vb VARBINARY(20), bl LONGBLOB, da DATE, dt DATETIME(6), ts TIMESTAMP(3) NULL, tm TIME(6), "
    "y YEAR, b1 BIT(1), b64 BIT(64), j JSON, e ENUM('x','','y'), s SET('a','','c'), "
    "g INT AS (ti + 1) STORED, vg INT AS (ti + 2) VIRTUAL, UNIQUE (bu), KEY (d30), KEY (v(3)), "
    "KEY ((ti * 2)), KEY (da, dt)"
)
LEAST = (
    "-128, 0, 0, -9223372036854775808, -3.25, -1e308, '-1234567.891', "
    "'-12345678901234567890.0123456789', "
    "'-99999999999999999999999999999999999.999999999999999999999999999999', '', '', '', '', '', "
    "'', '', '0000-00-00', '0000-00-00 00:00:00', '1970-01-01 00:00:01', '-838:59:59', 0, b'0', 0, "
    "'null', '', ''"
)
MOST = (
    "127, 65535, 18446744073709551615, 9223372036854775807, 1.5, 1e308, 1234567.891, "
    "'12345678901234567890.0123456789', "
    "'99999999999999999999999999999999999.999999999999999999999999999999', 'größe', 'größe 😀', "
    "'a\\0b\\n', 'é', 'ab', x'00ff', x'0001', '2026-02-28', '9999-12-31 23:59:59.999999', "
    "'2038-01-19 03:14:07.999', '838:59:59', 2155, b'1', 18446744073709551615, "
    "'{\"a\": [1, 2.5, null, \"é\"]}', 'y', 'a,c'"
)
ODD = (
    "1, 1, 2, 1, -0.0, -0.0, 0, 1, '0.000000000000000000000000000001', 'z', 'z', 'z', 'z', 'z', "
    "'z', 'z', '2020-00-10', '0001-01-01 00:00:00', '2026-11-25 01:02:03.456', '-00:00:00.000001', "
    "1901, b'1', 1, '[]', 'nonsense', 2"
)
NAMES = (
    "ti, su, bu, bi, f, dd, d5, d30, d65, c, v, t, l, bn, vb, bl, da, dt, ts, tm, y, b1, b64, j, "
    "e, s"
)
UNCHANGED = {
    "every": "SELECT *, HEX(bl), e + 0, s + 0, b64 + 0 FROM d.every ORDER BY id",
    "heap": "SELECT _tidb_rowid, a, b FROM d.heap ORDER BY 1",
    "parts": "SELECT * FROM d.parts ORDER BY id",
    "a part": "SELECT * FROM d.parts PARTITION (`a b`) ORDER BY id",
    "common": "SELECT * FROM d.common ORDER BY a, b",
    "child": "SELECT * FROM d.child ORDER BY id",
    "by elements": "SELECT id FROM d.tagged WHERE 'b' MEMBER OF (j) ORDER BY id",
    "index of elements": "SHOW CREATE TABLE d.tagged",
    "view": "SELECT * FROM d.v ORDER BY id",
    "definitions": "SHOW CREATE TABLE d.every",
    "definition without rows": "SHOW CREATE TABLE d.passing",
    "partitions": "SHOW CREATE TABLE d.parts",
    "keys": "SHOW CREATE TABLE d.child",
    "views": "SHOW CREATE VIEW d.v",
    "sequences": "SHOW CREATE SEQUENCE d.seq",
    "grants": "SHOW GRANTS FOR u",
    "settings": "SHOW GLOBAL VARIABLES LIKE 'max_connections'",
    "settings seen": "SELECT VARIABLE_VALUE FROM mysql.global_variables "
    "WHERE VARIABLE_NAME = 'max_connections'",
}


def rows(node: NodeProcess, *statements: str) -> list[tuple[Any, ...]]:
    """The rows of the last statement."""
    with node.connect(autocommit=True) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        return list(cursor.fetchall())


def command(*words: str) -> tuple[int, str]:
    """(exit code, output)."""
    ended = CliRunner().invoke(app, list(words))
    return ended.exit_code, ended.output


def fill(node: NodeProcess) -> None:
    values = ", ".join(f"({n}, {n % 977})" for n in range(ROWS))
    accounts = ", ".join(f"({n}, {MONEY})" for n in range(ACCOUNTS))
    rows(
        node,
        "SET sql_mode = ''",
        "CREATE DATABASE d",
        f"CREATE TABLE d.every ({EVERY_TYPE})",
        "INSERT INTO d.every (id) VALUES (7)",
        *(f"INSERT INTO d.every ({NAMES}) VALUES ({value})" for value in (LEAST, MOST, ODD)),
        "CREATE TABLE d.heap (a INT, b VARCHAR(10), KEY (a))",
        "INSERT INTO d.heap VALUES (1, 'x'), (1, 'x'), (3, 'y'), (NULL, NULL)",
        "DELETE FROM d.heap WHERE a = 3",
        "CREATE TABLE d.parts (id INT, p INT, n VARCHAR(10), PRIMARY KEY (id, p), KEY (n)) "
        "PARTITION BY RANGE (p) (PARTITION `a b` VALUES LESS THAN (10), "
        "PARTITION p1 VALUES LESS THAN MAXVALUE)",
        "INSERT INTO d.parts VALUES (1, 1, 'a'), (2, 11, 'b'), (3, 12, 'c')",
        "CREATE TABLE d.common (a VARCHAR(20), b DATE, c INT, PRIMARY KEY (a, b), KEY (c))",
        "INSERT INTO d.common VALUES ('k', '2020-01-01', 1), ('K', '0000-00-00', 2)",
        "CREATE TABLE d.parent (id INT PRIMARY KEY, n INT UNIQUE)",
        "CREATE TABLE d.child (id INT PRIMARY KEY, p INT, CHECK (id > 0), "
        "CONSTRAINT fk FOREIGN KEY (p) REFERENCES d.parent (id) ON DELETE CASCADE)",
        "INSERT INTO d.parent VALUES (1, 1), (2, 2)",
        "INSERT INTO d.child VALUES (1, 1), (2, NULL), (3, 2)",
        "CREATE GLOBAL TEMPORARY TABLE d.passing (id INT PRIMARY KEY) ON COMMIT DELETE ROWS",
        "CREATE VIEW d.v AS SELECT id, n FROM d.parent",
        "CREATE SEQUENCE d.seq START WITH 5 INCREMENT BY 3",
        "SELECT NEXTVAL(d.seq)",
        "CREATE USER u IDENTIFIED BY 'secret'",
        "GRANT SELECT, INSERT ON d.* TO u",
        "SET GLOBAL max_connections = 77",
        "CREATE TABLE d.account (id INT PRIMARY KEY, money INT, INDEX (money))",
        "CREATE TABLE d.tagged (id INT PRIMARY KEY, j JSON, "
        "UNIQUE KEY m (id, (CAST(j AS CHAR(5) ARRAY))), KEY n ((CAST(j AS CHAR(5) ARRAY))))",
        """INSERT INTO d.tagged VALUES (1, '["a", "b", "b"]'), (2, '[]'), (3, NULL), (4, '"b"')""",
        "CREATE TABLE d.move (id INT PRIMARY KEY)",
        "CREATE TABLE d.big (id INT PRIMARY KEY, k INT)",
        f"INSERT INTO d.account VALUES {accounts}",
        f"INSERT INTO d.big VALUES {values}",
    )


@contextmanager
def going_on(*works: Callable[[], None]) -> Iterator[None]:
    """Repeats each of them, in a thread of its own."""
    stop = threading.Event()

    def go_on(work: Callable[[], None]) -> None:
        while not stop.wait(REST_S):
            work()

    threads = [threading.Thread(target=go_on, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


class Bank:
    """A client that moves money and numbers each move. `last`: the last acknowledged number."""

    def __init__(self, node: NodeProcess, last: int = 0) -> None:
        self.last = last
        self._client = node.connect("d")

    def move(self) -> None:
        number = self.last + 1
        giver, taker = number % ACCOUNTS, (number * 7 + 1) % ACCOUNTS
        cursor = self._client.cursor()
        try:
            cursor.execute(f"UPDATE account SET money = money - 1 WHERE id = {giver}")
            cursor.execute(f"UPDATE account SET money = money + 1 WHERE id = {taker}")
            cursor.execute(f"INSERT INTO move VALUES ({number})")
            self._client.commit()
            self.last = number
        except pymysql.OperationalError:  # the schema moved on under it
            self._client.rollback()


def url_of(engine: str, folder: Path) -> str:
    return shared_server().new_url() if engine == "postgres" else f"lmdb://{folder}/{engine}"


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("lmdb", "postgres"),
        pytest.param("postgres", "lmdb", marks=pytest.mark.long),
    ],
)
def test_one_moment_comes_back_on_the_other_engine(
    source: str, target: str, tmp_path: Path
) -> None:
    backup, new = str(tmp_path / "what? 100%" / "backup"), url_of(target, tmp_path)
    node = NodeProcess(url_of(source, tmp_path), tmp_path / "log").wait_ready()
    try:
        fill(node)
        rows(
            node,
            "SET GLOBAL tidb_ddl_reorg_batch_size = 32",
            "SET GLOBAL tidb_ddl_reorg_max_write_speed = 2000",
        )
        expected = {name: rows(node, text) for name, text in UNCHANGED.items()}
        bank = Bank(node)
        indexing = threading.Thread(
            target=rows, args=(node, "ALTER TABLE d.big ADD INDEX by_k (k)")
        )

        def change() -> None:
            rows(
                node,
                "ALTER TABLE d.account ADD COLUMN later INT NOT NULL DEFAULT 5",
                "ALTER TABLE d.account DROP COLUMN later",
            )

        with going_on(bank.move, change):
            indexing.start()
            until(lambda: bank.last > 20 and rows(node, "SHOW INDEX FROM d.account"))
            before = bank.last
            code, output = command("backup", "--store", node.store, "--to", backup)
            after = bank.last
            assert code == 0, output
            assert not rows(node, "SHOW INDEX FROM d.big WHERE key_name = 'by_k'"), "it has ended"
            rows(node, "SET GLOBAL tidb_ddl_reorg_max_write_speed = 0")
        indexing.join()
        next_id = rows(node, "INSERT INTO d.every (ti) VALUES (1)", "SELECT MAX(id) FROM d.every")
        value = rows(node, "SELECT NEXTVAL(d.seq)")
    finally:
        end_all([node])
    assert command("backup", "--store", node.store, "--to", backup)[0] == 1
    code, output = command("backup", "verify", backup)
    assert code == 0 and "is whole" in output, output
    code, output = command("restore", backup, "--store", new)
    assert code == 0 and "serve it: exuvia serve --store" in output, output
    code, output = command("restore", backup, "--store", new)
    assert code == 1 and "not empty" in output

    again = NodeProcess(new, tmp_path / "log-new").wait_ready()
    try:
        for name, text in UNCHANGED.items():
            assert rows(again, text) == expected[name], name
        [(last,)] = rows(again, "SELECT MAX(id) FROM d.move")
        assert before <= last <= after + 1  # the one after may be committed, and not yet counted
        assert rows(again, "SELECT COUNT(*) FROM d.move") == [(last,)]
        assert rows(again, "SELECT SUM(money) FROM d.account") == [(ACCOUNTS * MONEY,)]
        columns = [row[0] for row in rows(again, "SHOW COLUMNS FROM d.account")]
        assert columns in (["id", "money"], ["id", "money", "later"])
        assert not rows(again, "SHOW INDEX FROM d.big WHERE key_name = 'by_k'")
        assert rows(again, "ADMIN SHOW DDL JOBS 1")[0][11] == "synced", "no job is carried"
        counts = {row[1]: row[5] for row in rows(again, "SHOW STATS_META") if row[0] == "d"}
        assert counts["big"] == ROWS and counts["move"] == last
        rows(again, "SET GLOBAL tidb_ddl_reorg_max_write_speed = 0")
        named = "d.every, d.heap, d.parts, d.common, d.parent, d.child, d.account, d.move, d.big"
        rows(again, f"ADMIN CHECK TABLE {named}")
        with pytest.raises(pymysql.IntegrityError, match="foreign key constraint fails"):
            rows(again, "INSERT INTO d.child VALUES (9, 9)")
        rows(again, "DELETE FROM d.parent WHERE id = 2")
        assert rows(again, "SELECT COUNT(*) FROM d.child") == [(2,)]
        place = {"host": "127.0.0.1", "port": again.port, "database": "d"}
        with pymysql.connect(**place, user="u", password="secret") as client:
            assert client.cursor().execute("INSERT INTO heap VALUES (5, 'u')") == 1
        new_id = rows(again, "INSERT INTO d.every (ti) VALUES (1)", "SELECT MAX(id) FROM d.every")
        assert new_id >= next_id
        assert rows(again, "SELECT NEXTVAL(d.seq)") >= value
        goes_on = Bank(again, last)
        with going_on(goes_on.move):
            rows(again, "ALTER TABLE d.big ADD INDEX by_k (k)")
            until(lambda: goes_on.last > last + 20)
        rows(again, "ADMIN CHECK TABLE d.big, d.account", "CREATE TABLE d.another (id INT)")
    finally:
        end_all([again])


def test_anybody_reads_the_files(tmp_path: Path) -> None:
    """The files have plain types, and further fields for values that these cannot hold. The
    statements are MySQL's."""
    backup = tmp_path / "backup"
    with running_nodes(tmp_path) as (node,):
        fill(node)
        code, output = command("backup", "--store", node.store, "--to", str(backup))
        assert code == 0, output
        statements = (backup / "schema.sql").read_text()
        rows(node, "DROP DATABASE d", "SET GLOBAL tidb_ddl_reorg_batch_size = 256")
        with node.connect(autocommit=True) as client, client.cursor() as cursor:
            for statement in re.split(r";\n", statements):
                if statement.strip():
                    cursor.execute(statement)
        assert rows(node, "SHOW TABLES FROM d")

    def of(table: str, columns: str) -> list[tuple[Any, ...]]:
        query = f"SELECT {columns} FROM '{backup}/rows/d.{table}/*.parquet'"
        return duckdb.sql(query).fetchall()

    assert sorted(of("every", "bu, tm, da, e, s, _exuvia_exact"), key=str) == [
        (0, "-838:59:59.000000", None, "", "", '{"da": 0, "dt": 0}'),
        (2**64 - 1, "838:59:59.000000", date(2026, 2, 28), "y", "a,c", None),
        (2, "-00:00:00.000001", None, None, None, '{"da": 1034250, "e": 0, "s": 2}'),
        (None, None, None, None, None, None),
    ]
    assert sorted(of("parts", "id, p, n")) == [(1, 1, "a"), (2, 11, "b"), (3, 12, "c")]
    assert len({row[0] for row in of("heap", "_tidb_rowid")}) == 3

    (file,) = (backup / "rows" / "d.big").iterdir()
    assert "is damaged" in damaged(backup, file, flipped)
    at = next(n for n, t in enumerate(read(str(backup)).tables) if t.info.name.L == "big")
    record = backup / "backup.json"
    other = resealed(lambda record: record["tables"][at]["files"][0].update(checksum="0" * 64))
    record.write_bytes(other(record.read_bytes()))
    for words in (("backup", "verify"), ("restore", "--store", f"lmdb://{tmp_path}/other")):
        code, output = command(*words, str(backup))
        assert code == 1 and "checksum" in output, output


@pytest.mark.long
def test_policies_groups_and_rules_of_passwords_come_back(tmp_path: Path) -> None:
    statements = (
        *("SHOW CREATE TABLE d.t", "SHOW CREATE DATABASE d", "SHOW CREATE RESOURCE GROUP g"),
        *("SHOW CREATE USER u", "SELECT * FROM mysql.password_history"),
    )
    backup, back = tmp_path / "made", tmp_path / "back"
    back.mkdir()
    with running_nodes(tmp_path) as (node,):
        rows(
            node,
            "CREATE PLACEMENT POLICY p FOLLOWERS = 2",
            "CREATE RESOURCE GROUP g RU_PER_SEC = 7",
            "CREATE DATABASE d PLACEMENT POLICY = p",
            "CREATE TABLE d.t (a INT) PARTITION BY HASH (a) PARTITIONS 2",
            "ALTER TABLE d.t PARTITION p1 PLACEMENT POLICY = p",
            "CREATE USER u IDENTIFIED BY 'a' RESOURCE GROUP g PASSWORD HISTORY 2 REQUIRE SSL"
            " FAILED_LOGIN_ATTEMPTS 3 PASSWORD_LOCK_TIME 1",
        )
        before = [rows(node, statement) for statement in statements]
        code, output = command("backup", "--store", node.store, "--to", str(backup))
        assert code == 0, output
    assert (
        "CREATE PLACEMENT POLICY IF NOT EXISTS `p` FOLLOWERS=2;"
        in (backup / "schema.sql").read_text()
    )
    code, output = command("restore", str(backup), "--store", f"lmdb://{back}/store")
    assert code == 0, output
    with running_nodes(back) as (node,):
        assert [rows(node, statement) for statement in statements] == before
        for text, refused in (("PLACEMENT POLICY p", 8241), ("RESOURCE GROUP g", 1105)):
            with pytest.raises(pymysql.MySQLError) as caught:
                rows(node, f"DROP {text}")
            assert caught.value.args[0] == refused


@pytest.mark.long
def test_rows_of_a_restored_table_do_not_expire_by_themselves(tmp_path: Path) -> None:
    backup, back = tmp_path / "made", tmp_path / "back"
    back.mkdir()
    with running_nodes(tmp_path) as (node,):
        rows(
            node,
            "CREATE DATABASE d",
            "CREATE TABLE d.t (c DATE) TTL = c + INTERVAL 1 DAY TTL_ENABLE = 'OFF'",
            "INSERT INTO d.t VALUES ('2020-01-01')",
            "SET GLOBAL tidb_ttl_job_enable = OFF",
            "ALTER TABLE d.t TTL_ENABLE = 'ON'",
        )
        code, output = command("backup", "--store", node.store, "--to", str(backup))
        assert code == 0, output
    code, output = command("restore", str(backup), "--store", f"lmdb://{back}/store")
    assert code == 0, output
    with running_nodes(back) as (node,):
        assert "TTL_ENABLE='OFF'" in rows(node, "SHOW CREATE TABLE d.t")[0][1]
        assert rows(node, "SELECT COUNT(*) FROM d.t") == [(1,)]


def damaged(folder: Path, path: Path, change: Callable[[bytes], bytes]) -> str:
    """The output of verify for a backup with a changed file, which is then restored."""
    whole = path.read_bytes()
    path.write_bytes(change(whole))
    try:
        return verdict(folder)
    finally:
        path.write_bytes(whole)


def verdict(folder: Path) -> str:
    code, output = command("backup", "verify", str(folder))
    assert code == 1, output
    refused, why = command("restore", str(folder), "--store", f"lmdb://{folder.parent}/new")
    assert refused == 1 and not (folder.parent / "new").exists()
    assert why == output
    return output


def flipped(raw: bytes) -> bytes:
    middle = len(raw) // 2
    return raw[:middle] + bytes([raw[middle] ^ 1]) + raw[middle + 1 :]


def resealed(change: Callable[[Any], None]) -> Callable[[bytes], bytes]:
    """backup.json with another record and a digest that matches."""

    def work(raw: bytes) -> bytes:
        record = json.loads(raw)["record"]
        change(record)
        text = json.dumps(record).encode()
        digest = hasher(text).hexdigest().encode()
        return b'{"kind": "rows", "digest": "' + digest + b'", "record": ' + text + b"}"

    return work


@pytest.mark.long
def test_a_damaged_backup_of_rows_is_found(tmp_path: Path) -> None:
    """The damage may be a byte, a file, a number, or values that differ from the store's."""
    backup = tmp_path / "backup"
    with running_nodes(tmp_path) as (node,):
        fill(node)
        assert command("backup", "--store", node.store, "--to", str(backup))[0] == 0
    record = backup / "backup.json"
    assert resealed(lambda _: None)(record.read_bytes()) != record.read_bytes()
    (file,) = (backup / "rows" / "d.big").iterdir()
    at = next(n for n, t in enumerate(read(str(backup)).tables) if t.info.name.L == "big")

    def of_file(**facts: Any) -> Callable[[Any], None]:
        return lambda record_read: record_read["tables"][at]["files"][0].update(facts)

    def of_table(record_read: Any) -> None:
        record_read["tables"][at]["rows"] += 1

    def of_both(record_read: Any) -> None:
        of_table(record_read)
        of_file(rows=ROWS + 1)(record_read)

    assert "is damaged" in damaged(backup, file, flipped)
    assert "is damaged" in damaged(backup, file, lambda raw: raw[:-4096])
    assert "was changed" in damaged(backup, record, lambda raw: raw.replace(b"4000", b"4001", 1))
    assert "4,001 rows of d.big" in damaged(backup, record, resealed(of_table))
    code, output = resealed_verdict(backup, record, of_both)
    assert code == 1 and "4,000 rows" in output
    code, output = resealed_verdict(backup, record, of_file(checksum="0" * 64))
    assert code == 1 and "checksum" in output
    later = resealed(lambda record_read: record_read.update(format=2))
    assert "does not know" in damaged(backup, record, later)
    moved = file.rename(tmp_path / "away")
    assert "is not there" in verdict(backup)
    moved.rename(file)
    written = record.read_bytes()
    record.unlink()
    assert "written last" in verdict(backup)
    record.write_bytes(written)
    code, output = command("backup", "verify", str(backup), "--scratch", str(tmp_path))
    assert code == 0 and "whole and right" in output, output
    assert not list(tmp_path.glob("exuvia-*"))


def resealed_verdict(backup: Path, record: Path, change: Callable[[Any], None]) -> tuple[int, str]:
    """The verdict on damage that only the rows show. A store whose restore began reports that it is
    not whole."""
    whole = record.read_bytes()
    record.write_bytes(resealed(change)(whole))
    store = f"lmdb://{backup.parent}/half-{hasher(record.read_bytes()).hexdigest()[:8]}"
    try:
        code, output = command("backup", "verify", str(backup))
        refused, why = command("restore", str(backup), "--store", store)
        # on a busy machine lines of progress come first
        assert (refused, why.splitlines()[-1:]) == (code, output.splitlines()[-1:])
        assert_not_whole(store)
        return code, output
    finally:
        record.write_bytes(whole)


def assert_not_whole(store: str) -> None:
    """No node serves the store, no backup is made of it, nothing is restored into it."""
    words = [sys.executable, "-m", "exuvia.cli.main", "serve", "--store", store]
    served = subprocess.run(
        [*words, "--port", "0", "--status-port", "0"], capture_output=True, text=True, timeout=60
    )
    assert served.returncode == 1 and "the store is not whole" in served.stderr
    code, output = command("backup", "--store", store, "--to", f"{store[7:]}-backup")
    assert code == 1 and "the store is not whole" in output


def test_a_restoration_that_was_interrupted_leaves_no_store_that_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backup, new = str(tmp_path / "backup"), f"lmdb://{tmp_path}/new"
    with running_nodes(tmp_path) as (node,):
        fill(node)
        assert command("backup", "--store", node.store, "--to", backup)[0] == 0

    def killed(*_: object) -> None:
        raise OSError("the power went")

    with monkeypatch.context() as planted:
        planted.setattr(definitions, "finish", killed)
        code, output = command("restore", backup, "--store", new)
    assert code == 1 and "the power went" in output
    assert_not_whole(new)
    assert command("restore", backup, "--store", new)[0] == 1


def test_a_killed_backup_is_no_backup(tmp_path: Path) -> None:
    backup = tmp_path / "backup"
    with running_nodes(tmp_path) as (node,):
        fill(node)
        words = [sys.executable, "-m", "exuvia.cli.main", "backup", "--store", node.store]
        making = subprocess.Popen([*words, "--to", str(backup)], stderr=subprocess.PIPE)
        until(backup.exists)
        making.send_signal(signal.SIGKILL)
        making.communicate()
        assert not (backup / "backup.json").exists()
        code, output = command("backup", "--store", node.store, "--to", str(backup))
        assert code == 1 and "not empty" in output
    assert "written last" in command("backup", "verify", str(backup))[1]


@pytest.mark.parametrize("store", ["postgresql://me@127.0.0.1:1/db", "lmdb:///nowhere/at/all"])
def test_a_missing_store_is_one_line_of_error(store: str, tmp_path: Path) -> None:
    code, output = command("backup", "--store", store, "--to", str(tmp_path / "backup"))
    assert code == 1
    assert output.startswith("exuvia: ") and output.count("\n") == 1, output
