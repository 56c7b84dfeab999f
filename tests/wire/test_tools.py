"""Statements that tools of operators and analysts send on connect and later: none may fail."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pandas
import pymysql
import pytest
import sqlalchemy

from support.node_processes import NodeProcess

ON_CONNECT = """
SELECT @@session.auto_increment_increment, @@character_set_client, @@collation_connection, \
@@init_connect, @@interactive_timeout, @@license, @@lower_case_table_names, @@max_allowed_packet, \
@@net_write_timeout, @@performance_schema, @@sql_mode, @@system_time_zone, @@time_zone, \
@@transaction_isolation, @@wait_timeout
SET SESSION TRANSACTION READ ONLY
SET SESSION TRANSACTION READ WRITE
SET NAMES utf8mb4
SET CHARACTER SET utf8
SET SQL_SAFE_UPDATES=1
SET autocommit=1, sql_mode = CONCAT(@@sql_mode, ',STRICT_TRANS_TABLES')
SET @OLD_UNIQUE_CHECKS=@@UNIQUE_CHECKS, UNIQUE_CHECKS=0
SELECT @@version, @@version_compile_os, @@hostname, @@port, @@datadir, @@socket
SELECT @@global.gtid_mode, @@global.log_bin, @@server_id, @@server_uuid, @@binlog_format
SELECT @@have_ssl, @@tx_isolation, @@innodb_version, @@global.read_only, @@version_comment LIMIT 1
SHOW SESSION VARIABLES LIKE 'lower_case_table_names'
SHOW GLOBAL VARIABLES LIKE 'version%'
SHOW VARIABLES WHERE `Variable_name` IN ('version', 'version_comment')
SHOW /*!50002 GLOBAL */ STATUS
SHOW GLOBAL STATUS LIKE 'Uptime'
SHOW SESSION STATUS LIKE 'Ssl_cipher'
SHOW PLUGINS
SHOW ENGINES
SHOW CHARSET
SHOW COLLATION
SHOW FULL TABLES FROM test WHERE table_type = 'BASE TABLE'
SHOW TABLE STATUS FROM test
SHOW FUNCTION STATUS WHERE `Db`='test'
SHOW PROCEDURE STATUS WHERE `Db`='test'
SHOW TRIGGERS FROM test
SHOW EVENTS FROM test
SHOW OPEN TABLES
SHOW MASTER STATUS
SHOW REPLICA STATUS
SHOW BINARY LOGS
SHOW ENGINE INNODB STATUS
SHOW PROFILES
SHOW PRIVILEGES
SHOW GRANTS FOR CURRENT_USER()
SHOW CREATE USER CURRENT_USER()
SHOW COUNT(*) WARNINGS
SELECT * FROM information_schema.USER_PRIVILEGES
SELECT * FROM information_schema.COLUMN_PRIVILEGES
SELECT * FROM information_schema.APPLICABLE_ROLES
SELECT * FROM information_schema.ENABLED_ROLES
SELECT DTD_IDENTIFIER FROM information_schema.PARAMETERS
SELECT DTD_IDENTIFIER, DATABASE_COLLATION FROM information_schema.ROUTINES
SELECT * FROM information_schema.INNODB_TRX
SELECT * FROM performance_schema.session_variables WHERE VARIABLE_NAME = 'version'
SELECT * FROM mysql.general_log
SELECT * FROM mysql.slow_log
SELECT * FROM mysql.func
SELECT * FROM mysql.plugin
SELECT * FROM mysql.proc
SELECT * FROM mysql.help_topic LIMIT 1
SELECT `User`, `Host`, `Super_priv`, `account_locked` FROM mysql.user
START TRANSACTION /*!40100 WITH CONSISTENT SNAPSHOT */
UNLOCK TABLES
FLUSH TABLES
FLUSH NO_WRITE_TO_BINLOG TABLES
SELECT FOUND_ROWS()
EXPLAIN FORMAT='brief' SELECT 1
"""


@pytest.fixture
def client(node: NodeProcess) -> Iterator[pymysql.Connection]:
    with node.connect("test", autocommit=True) as opened:
        yield opened


def run(connection: pymysql.Connection, *texts: str) -> list[tuple[object, ...]]:
    with connection.cursor() as cursor:
        for text in texts:
            cursor.execute(text)
        return list(cursor.fetchall())


def test_statements_of_tools_on_connect_are_answered(client: pymysql.Connection) -> None:
    for text in ON_CONNECT.strip().splitlines():
        run(client, text)


def test_connection_attributes_of_a_program_are_shown(node: NodeProcess) -> None:
    with node.connect(autocommit=True, program_name="nightly") as one:
        own = dict(
            run(one, "SELECT ATTR_NAME, ATTR_VALUE FROM"
                     " performance_schema.session_account_connect_attrs")
        )  # fmt: skip
        assert own["program_name"] == "nightly"
        query = "SELECT COUNT(*) FROM performance_schema.session_connect_attrs"
        assert run(one, f"{query} WHERE PROCESSLIST_ID = CONNECTION_ID()") == [(len(own),)]


def test_the_nodes_are_listed(node: NodeProcess, client: pymysql.Connection) -> None:
    address = f"127.0.0.1:{node.port}"
    listed = run(client, "SELECT TYPE, INSTANCE FROM information_schema.cluster_info")
    assert listed == [("tidb", address)]
    servers = run(client, "SELECT IP, PORT FROM information_schema.tidb_servers_info")
    assert servers == [("127.0.0.1", node.port)]


def test_a_text_with_a_nul_at_its_end(client: pymysql.Connection) -> None:
    assert run(client, "SELECT 7\0") == [(7,)]


@pytest.mark.parametrize(
    "options",
    [
        "--single-transaction --routines --events --triggers toolbox",
        *(
            pytest.param(options, marks=pytest.mark.long)
            for options in (
                "--all-databases",
                "--xml toolbox",
                "--complete-insert --skip-extended-insert --hex-blob toolbox",
                "--no-data --add-drop-database --databases toolbox",
            )
        ),
    ],
)
def test_mysqldump_ends_well(node: NodeProcess, client: pymysql.Connection, options: str) -> None:
    run(client, "CREATE DATABASE IF NOT EXISTS toolbox")
    run(client, "CREATE TABLE IF NOT EXISTS toolbox.drawer (id INT PRIMARY KEY, b BLOB)")
    command = ["mysqldump", "--host=127.0.0.1", f"--port={node.port}", "--user=root"]
    command += ["--max-allowed-packet=64M"]  # its own limit is less than other tests' values
    # of all databases: other tests have left hundreds of tables there
    done = subprocess.run([*command, *options.split()], capture_output=True, timeout=400)
    assert done.returncode == 0
    messages = [line for line in done.stderr.splitlines() if b"_log ()" not in line]
    assert messages == []  # but that the two logs of statements are no tables
    assert b"drawer" in done.stdout
    last = done.stdout.rstrip().splitlines()[-1]
    assert last.startswith((b"-- Dump completed", b"</mysqldump>"))


def test_command_line_tools(node: NodeProcess, tmp_path: Path) -> None:
    where = ["--host=127.0.0.1", f"--port={node.port}", "--user=root"]
    for command in (
        ["mysqladmin", *where, "status", "processlist", "extended-status", "version", "ping"],
        ["mysqlshow", *where, "mysql"],
        ["mysqlcheck", *where, "--databases", "test"],
        ["mysqlslap", *where, "--auto-generate-sql", "--concurrency=2", "--number-of-queries=8"],
    ):
        done = subprocess.run(command, capture_output=True, timeout=120, cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, b""), command


def test_data_frames_go_in_and_come_out_the_same(node: NodeProcess) -> None:
    frame = pandas.DataFrame(
        {
            "number": [1, 2, 3],
            "share": [1.5, None, 2.5],
            "text": ["a", "ü", None],
            "day": pandas.to_datetime(["2020-01-01", "2021-02-03", "2022-01-01"]),
        }
    )
    engine = sqlalchemy.create_engine(f"mysql+pymysql://root@127.0.0.1:{node.port}/test")
    try:
        frame.to_sql("frame", engine, if_exists="replace", index=False)
        frame.to_sql("frame", engine, if_exists="append", index=False, method="multi", chunksize=2)
        stored = pandas.read_sql("SELECT * FROM frame", engine)
        pandas.testing.assert_frame_equal(
            stored, pandas.concat([frame, frame], ignore_index=True), check_dtype=False
        )
        assert pandas.read_sql_table("frame", engine).shape == (6, 4)
        parts = pandas.read_sql("SELECT * FROM frame", engine, chunksize=4)
        assert [len(part) for part in parts] == [4, 2]
    finally:
        engine.dispose()
