"""The clients people use, against a real node: mysql, PyMySQL, mysql-connector-python."""

import datetime
import re
import subprocess
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import mysql.connector
import pymysql
import pytest
from pymysql.constants import SERVER_STATUS

from support.node_processes import NodeProcess, until


def shell(node: NodeProcess, text: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run a text through the mysql command line."""
    command = ["mysql", "-h127.0.0.1", f"-P{node.port}", "-uroot", *options]
    return subprocess.run(command, input=text, capture_output=True, text=True, timeout=30)


@pytest.fixture
def driver(node: NodeProcess) -> Iterator[Any]:
    connection = mysql.connector.connect(
        host="127.0.0.1", port=node.port, user="root", database="test", use_pure=True
    )
    yield connection
    connection.close()


def test_a_driver_that_raises_warnings_raises_them_once(node: NodeProcess) -> None:
    """SHOW WARNINGS causes no warnings itself, so the driver does not repeat it."""
    connection = mysql.connector.connect(
        host="127.0.0.1", port=node.port, user="root", raise_on_warnings=True, use_pure=True
    )
    with connection, connection.cursor() as cursor:
        with pytest.raises(mysql.connector.Error) as caught:
            cursor.execute("SET unique_checks = 0")
        assert caught.value.errno == 1681
        cursor.execute("SELECT @@unique_checks")
        assert cursor.fetchall() == [(0,)]


def test_the_first_session_of_a_newcomer(node: NodeProcess) -> None:
    text = """
        CREATE DATABASE shop; USE shop;
        CREATE TABLE item
            (id BIGINT PRIMARY KEY AUTO_INCREMENT, name VARCHAR(40), price DECIMAL(8,2));
        INSERT INTO item (name, price) VALUES ('pen', 1.20), ('book', 9.90);
        ALTER TABLE item ADD INDEX by_name (name);
        SELECT id, name, price FROM item WHERE name = 'book';
        UPDATE item SET price = price + 1 WHERE id = 2;
        BEGIN; DELETE FROM item; ROLLBACK;
        SELECT COUNT(*), SUM(price) FROM item;
        SHOW TABLES; ADMIN SHOW DDL JOBS 1; DROP DATABASE shop;
    """
    done = shell(node, text, "-vvv", "--table")
    assert done.returncode == 0, done.stderr
    assert "|  2 | book |  9.90 |" in done.stdout
    assert "12.10 |" in done.stdout
    assert "Rows matched: 1  Changed: 1  Warnings: 0" in done.stdout
    assert "add index" in done.stdout


def test_a_partial_index_and_a_dump_of_it(node: NodeProcess) -> None:
    text = """
        CREATE DATABASE part; USE part;
        CREATE TABLE job (id INT PRIMARY KEY, owner INT, state ENUM('open', 'done'));
        INSERT INTO job VALUES (1, 7, 'open'), (2, 7, 'done'), (3, 7, 'done'), (4, 8, 'open');
        ALTER TABLE job ADD UNIQUE one_open (owner) WHERE state = 'open';
        UPDATE job SET state = 'done' WHERE id = 1;
        UPDATE job SET state = 'open' WHERE id = 2;
        ADMIN CHECK TABLE job;
        SELECT id FROM job WHERE owner = 7 AND state = 'open';
    """
    done = shell(node, text, "--batch")
    assert (done.returncode, done.stdout.split()) == (0, ["id", "2"]), done.stderr
    duplicate = shell(node, "INSERT INTO part.job VALUES (5, 7, 'open')")
    assert (
        "ERROR 1062 (23000)" in duplicate.stderr
        and "'7' for key 'job.one_open'" in duplicate.stderr
    )
    definition = shell(node, "SHOW CREATE TABLE part.job", "--batch", "--raw", "-N").stdout
    assert "UNIQUE KEY `one_open` (`owner`) WHERE `state` = _utf8mb4'open'" in definition
    again = definition.split("\t", 1)[1].replace("`job`", "part.copied", 1)
    assert shell(node, again).returncode == 0
    assert shell(node, "DROP DATABASE part").returncode == 0


def test_the_command_line_shows_errors_and_status(node: NodeProcess) -> None:
    bad = shell(node, "SELECT * FROM test.nothing")
    assert bad.returncode == 1
    message = "ERROR 1146 (42S02) at line 1: Table 'test.nothing' doesn't exist"
    assert bad.stderr.strip().endswith(message)
    assert "ERROR 1064 (42000)" in shell(node, "SELEKT 1").stderr
    status = shell(node, "status").stdout
    assert "8.0.33-exuvia" in status.lower()
    assert re.search(r"Threads: \d", status)
    completing = shell(node, "SELECT 1", "--auto-rehash", "mysql")
    assert completing.returncode == 0, completing.stderr


def test_pymysql_sees_counts_transactions_and_found_rows(node: NodeProcess) -> None:
    with node.connect("test") as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE counts (a INT PRIMARY KEY AUTO_INCREMENT, b INT)")
        assert cursor.execute("INSERT INTO counts (b) VALUES (1), (1), (2)") == 3
        assert cursor.lastrowid == 1
        assert connection.server_status & SERVER_STATUS.SERVER_STATUS_IN_TRANS
        connection.rollback()
        cursor.executemany("INSERT INTO counts (b) VALUES (%s)", [(5,), (6,)])
        connection.commit()
        assert cursor.execute("UPDATE counts SET b = 5") == 1
        cursor.execute("SELECT b FROM counts")
        assert cursor.fetchall() == ((5,), (5,))
    found_rows = pymysql.constants.CLIENT.FOUND_ROWS
    with node.connect("test", client_flag=found_rows) as connection, connection.cursor() as cursor:
        assert cursor.execute("UPDATE counts SET b = 5") == 2


TYPES = """CREATE TABLE kinds (id INT PRIMARY KEY, ti TINYINT, su SMALLINT UNSIGNED, mi MEDIUMINT,
    i INT, bu BIGINT UNSIGNED, d DECIMAL(20,4), f FLOAT, db DOUBLE, c CHAR(5), v VARCHAR(20),
    t TEXT, bi BINARY(3), vb VARBINARY(8), bl BLOB, da DATE, dt DATETIME(6), tm TIME(3),
    j JSON, e ENUM('a','b'), bt BIT(10))"""
ROW = (
    1, -128, 65535, -8388608, -(2**31), 2**64 - 1, Decimal("-1234567.8901"), 1.5, -2.25e300, "ab",
    "größe", "long", b"\0\1\2", b"\xff\0", b"blob", datetime.date(2024, 2, 29),
    datetime.datetime(2024, 2, 29, 23, 59, 59, 123456),
    datetime.timedelta(hours=37, minutes=1, seconds=2, milliseconds=345), '{"k": [1, 2]}',
    "b", 513,
)  # fmt: skip


def test_every_type_goes_in_and_comes_out_the_same_in_text_and_binary(driver: Any) -> None:
    prepared, plain = driver.cursor(prepared=True), driver.cursor()
    plain.execute(TYPES)
    marks = ", ".join(["%s"] * len(ROW))
    prepared.execute(f"INSERT INTO kinds VALUES ({marks})", ROW)
    prepared.execute(f"INSERT INTO kinds VALUES ({marks})", (2, *[None] * (len(ROW) - 1)))
    driver.commit()
    select = "SELECT * FROM kinds WHERE id = "
    plain.execute(select + "1")
    text = plain.fetchone()
    for _ in range(2):
        prepared.execute(select + "%s", (1,))
        assert _plain(prepared.fetchone()) == _plain(text) == _plain(ROW)
    prepared.execute(select + "%s", (2,))
    assert prepared.fetchone() == (2, *[None] * (len(ROW) - 1))
    plain.execute(select + "2")
    assert plain.fetchone() == (2, *[None] * (len(ROW) - 1))


def _plain(row: Any) -> list[Any]:
    """Normalises values of different drivers: bytearrays, bits as bytes."""
    values = [bytes(value) if isinstance(value, bytearray) else value for value in row]
    bits = values[-1]
    values[-1] = int.from_bytes(bits, "big") if isinstance(bits, bytes) else bits
    return values


def test_prepared_statements_find_and_change_rows(driver: Any) -> None:
    driver.cursor().execute("CREATE TABLE prepared (a INT PRIMARY KEY, b VARCHAR(10))")
    cursor = driver.cursor(prepared=True)
    for n in range(20):
        cursor.execute("INSERT INTO prepared VALUES (%s, %s)", (n, f"v{n}"))
        assert cursor.rowcount == 1
    cursor.execute("UPDATE prepared SET b = %s WHERE a >= %s", ("new", 18))
    assert cursor.rowcount == 2
    cursor.execute("SELECT b FROM prepared WHERE a IN (%s, %s) ORDER BY a", (3, 19))
    assert cursor.fetchall() == [("v3",), ("new",)]
    with pytest.raises(mysql.connector.IntegrityError) as caught:
        cursor.execute("INSERT INTO prepared VALUES (%s, %s)", (3, "twice"))
    assert (caught.value.errno, caught.value.sqlstate) == (1062, "23000")


def test_a_client_that_disconnects_leaves_nothing_open(node: NodeProcess) -> None:
    with node.connect("test", autocommit=True) as watching, watching.cursor() as cursor:
        cursor.execute("CREATE TABLE vanish (a INT PRIMARY KEY)")
        leaving = node.connect("test")
        leaving.query("BEGIN")
        leaving.query("INSERT INTO vanish VALUES (1)")
        leaving.break_off()
        until(lambda: node.status()["connections"] == 1)
        cursor.execute("ALTER TABLE vanish ADD COLUMN b INT")
        cursor.execute("SELECT COUNT(*) FROM vanish")
        assert cursor.fetchall() == ((0,),)


def test_a_client_that_disconnects_in_a_schema_change_does_not_stop_it(node: NodeProcess) -> None:
    with node.connect("test", autocommit=True) as watching, watching.cursor() as cursor:
        cursor.execute("CREATE TABLE going (a INT PRIMARY KEY)")
        leaving = node.connect("test")
        leaving.send_command(3, "ALTER TABLE going ADD COLUMN later INT")
        leaving.break_off()
        until(lambda: cursor.execute("SHOW COLUMNS FROM going LIKE 'later'"))


BAD = [
    ("SELECT * FROM", 1064),
    ("SELECT nothing FROM mysql.tidb", 1054),
    ("INSERT INTO test.nothing VALUES (1)", 1146),
    ("USE nothing", 1049),
    ("CREATE TABLE test.twice (a INT, a INT)", 1060),
    ("CREATE TABLE test.bad (a INT, KEY k (a), KEY k (a))", 1061),
    (f"CREATE TABLE test.{'n' * 65} (a INT)", 1059),
    ("CREATE TABLE test.long (a VARCHAR(4000), KEY k (a))", 1071),
    ("INSERT INTO test.narrow VALUES (300)", 1264),
    ("INSERT INTO test.narrow VALUES ('abc')", 1366),
    ("INSERT INTO mysql.tidb_ddl_job VALUES (1,0,'','',NULL,0,0)", 1142),
    ("DROP DATABASE nothing", 1008),
    ("DROP TABLE test.nothing", 1051),
    ("", 1065),
    ("SELECT 1; SELECT \0", 1064),
]


@pytest.mark.parametrize(("statement", "code"), BAD, ids=[str(n) for n in range(len(BAD))])
def test_bad_input_has_its_code_and_the_connection_lives_on(
    node: NodeProcess, statement: str, code: int
) -> None:
    with node.connect("test", autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE IF NOT EXISTS narrow (a TINYINT)")
        with pytest.raises(pymysql.err.MySQLError) as caught:
            cursor.execute(statement)
        assert caught.value.args[0] == code, caught.value
        cursor.execute("SELECT 1 + 1")
        assert cursor.fetchall() == ((2,),)


@pytest.mark.long
def test_a_statement_of_16_mb_and_a_value_of_16_mb(node: NodeProcess) -> None:
    most = 1 << 26
    with (
        node.connect("test", autocommit=True, max_allowed_packet=most) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("CREATE TABLE large (a INT PRIMARY KEY, b LONGBLOB)")
        value = b"\xff\0'x" * (4 << 20)
        with pytest.raises(pymysql.err.MySQLError) as refused:
            cursor.execute("INSERT INTO large VALUES (1, %s)", (value,))
        assert refused.value.args[0] == 8025, "6 MB, as in TiDB"
        cursor.execute(f"SET tidb_txn_entry_size_limit = {most}")
        cursor.execute("INSERT INTO large VALUES (1, %s)", (value,))
        cursor.execute("SELECT b FROM large WHERE a = 1")
        assert cursor.fetchone()[0] == value
        with pytest.raises(pymysql.err.MySQLError) as caught:
            cursor.execute("SELECT " + "(" * (1 << 20))
        assert caught.value.args[0] in (1064, 1105)
        connection.ping()


def test_kill_ends_another_connection(node: NodeProcess) -> None:
    with node.connect(autocommit=True) as connection, connection.cursor() as cursor:
        victim = node.connect()
        cursor.execute("SHOW PROCESSLIST")
        assert victim.thread_id() in {row[0] for row in cursor.fetchall()}
        cursor.execute(f"KILL {victim.thread_id()}")
        with pytest.raises(pymysql.err.OperationalError):
            until(lambda: victim.ping(reconnect=False))
        with pytest.raises(pymysql.err.MySQLError) as caught:
            cursor.execute("KILL 999999")
        assert caught.value.args[0] == 1094


def test_kill_query_ends_a_schema_change_that_shows_what_it_waits_for(
    node: NodeProcess,
) -> None:
    with node.connect("test") as blocking, node.connect("test", autocommit=True) as changing:
        changing.query("CREATE TABLE blocked (a INT PRIMARY KEY)")
        blocking.query("BEGIN")
        blocking.query("INSERT INTO blocked VALUES (1)")
        changing.send_command(3, "ALTER TABLE blocked ADD COLUMN b INT")
        waits = until(lambda: [job["wait"] for job in node.status()["jobs"] if job["wait"]])
        assert "INSERT INTO blocked" in waits[0]
        with node.connect(autocommit=True) as killing:
            killing.query(f"KILL QUERY {changing.thread_id()}")
        with pytest.raises(pymysql.err.OperationalError) as caught:
            changing.read_result()
        assert caught.value.args[0] == 1317
        blocking.commit()
        with changing.cursor() as cursor:
            ended = "SELECT 1 FROM information_schema.ddl_jobs WHERE state = 'rollback done'"
            until(lambda: cursor.execute(ended))
            cursor.execute("SELECT * FROM blocked")
            assert cursor.fetchall() == ((1,),)
