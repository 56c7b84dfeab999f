"""A physical backup, taken while clients write and schemas change, is a cluster of one moment.

A damaged backup is found before it is used."""

import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pymysql
import pytest
from typer.testing import CliRunner

from exuvia.catalog.infoschema import Schemas
from exuvia.cli.main import app
from exuvia.kv.lmdb import backup as lmdb_backup
from exuvia.kv.packet import WriteKind
from exuvia.kv.store import open_store
from support.node_processes import NodeProcess, end_all, running_nodes, until
from support.postgres import PostgresServer, own_server, programs

ACCOUNTS, MONEY, ROWS = 50, 1000, 4_000


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


@contextmanager
def transfers(node: NodeProcess) -> Iterator[list[int]]:
    """A client that moves money and numbers each move. Yields the last acknowledged number."""
    acknowledged = [0]
    stop = threading.Event()

    def move() -> None:
        with node.connect("d") as client, client.cursor() as cursor:
            while not stop.is_set():
                number = acknowledged[0] + 1
                giver, taker = number % ACCOUNTS, (number * 7 + 1) % ACCOUNTS
                try:
                    cursor.execute(f"UPDATE account SET money = money - 1 WHERE id = {giver}")
                    cursor.execute(f"UPDATE account SET money = money + 1 WHERE id = {taker}")
                    cursor.execute(f"INSERT INTO move VALUES ({number})")
                    client.commit()
                    acknowledged[0] = number
                except pymysql.OperationalError:  # the schema moved on under it
                    client.rollback()

    mover = threading.Thread(target=move)
    mover.start()
    try:
        yield acknowledged
    finally:
        stop.set()
        mover.join()


def filled(node: NodeProcess) -> None:
    values = ", ".join(f"({n}, {n % 977})" for n in range(ROWS))
    accounts = ", ".join(f"({n}, {MONEY})" for n in range(ACCOUNTS))
    rows(
        node,
        "CREATE DATABASE d",
        "CREATE TABLE d.account (id INT PRIMARY KEY, money INT, INDEX (money))",
        "CREATE TABLE d.move (id INT PRIMARY KEY)",
        "CREATE TABLE d.big (id INT PRIMARY KEY, k INT)",
        f"INSERT INTO d.account VALUES {accounts}",
        f"INSERT INTO d.big VALUES {values}",
    )


def test_a_backup_under_writes_and_schema_changes_is_one_moment_and_usable(tmp_path: Path) -> None:
    backup, new = str(tmp_path / "what? 100%" / "backup"), f"lmdb://{tmp_path}/new"
    with running_nodes(tmp_path) as (node,):
        filled(node)
        with transfers(node) as acknowledged:
            rows(
                node,
                "SET GLOBAL tidb_ddl_reorg_batch_size = 32",
                "SET GLOBAL tidb_ddl_reorg_max_write_speed = 2000",
            )
            changing = threading.Thread(
                target=rows, args=(node, "ALTER TABLE d.big ADD INDEX by_k (k)")
            )
            changing.start()
            until(lambda: rows(node, "ADMIN SHOW DDL JOBS 1")[0][7] > 0)
            before = acknowledged[0]
            code, output = command("backup", "--store", node.store, "--to", backup, "--physical")
            after = acknowledged[0]
            assert code == 0, output
            assert [job[4] for job in rows(node, "ADMIN SHOW DDL JOBS 1")] != ["public"], output
            rows(node, "SET GLOBAL tidb_ddl_reorg_max_write_speed = 0")
            changing.join()
            rows(node, "ALTER TABLE d.account ADD COLUMN later INT")
        assert command("backup", "--store", node.store, "--to", backup, "--physical")[0] == 1
    code, output = command("backup", "verify", backup)
    assert code == 0, output
    code, output = command("restore", backup, "--store", new)
    assert code == 0 and output.endswith(f"serve it: exuvia serve --store {new}\n"), output
    assert command("restore", backup, "--store", new)[0] == 1

    again = NodeProcess(new, tmp_path / "log-new").wait_ready()
    try:
        version = lmdb_backup.read(backup).schema_version
        [(last,)] = rows(again, "SELECT MAX(id) FROM d.move")
        assert before <= last <= after + 1  # the one after may be committed, and not yet counted
        assert rows(again, "SELECT COUNT(*) FROM d.move") == [(last,)]
        assert rows(again, "SELECT SUM(money) FROM d.account") == [(ACCOUNTS * MONEY,)]
        columns = [row[0] for row in rows(again, "SHOW COLUMNS FROM d.account")]
        assert columns == ["id", "money"]
        rows(again, "SET GLOBAL tidb_ddl_reorg_max_write_speed = 0")
        until(lambda: rows(again, "SHOW INDEX FROM d.big WHERE key_name = 'by_k'"))
        rows(again, "ADMIN CHECK TABLE d.big, d.account", "ALTER TABLE d.account ADD INDEX (id)")
        with transfers(again) as goes_on:
            goes_on[0] = last
            until(lambda: goes_on[0] > last + 20)
        assert version > 0
    finally:
        end_all([again])


def test_a_damaged_backup_is_found(tmp_path: Path) -> None:
    """The damage may be bytes, the length, the record, or an entry missing in the copied store."""
    backup = tmp_path / "backup"
    with running_nodes(tmp_path) as (node,):
        filled(node)
        store = node.store
    assert command("backup", "--store", store, "--to", str(backup), "--physical")[0] == 0
    data, record = backup / "data.mdb", backup / "backup.json"
    whole, record_bytes = data.read_bytes(), record.read_bytes()
    assert json.loads(record_bytes)["bytes"] == len(whole)

    def verdict() -> str:
        code, output = command("backup", "verify", str(backup))
        assert code == 1, output
        refused, why = command("restore", str(backup), "--store", f"lmdb://{tmp_path}/new")
        assert refused == 1 and not list(tmp_path.glob("new/*"))
        assert why == output
        return output

    data.write_bytes(whole[:-4096])
    assert "is damaged" in verdict()
    middle = len(whole) // 2
    data.write_bytes(whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :])
    assert "is damaged" in verdict()
    data.write_bytes(whole)
    record.unlink()
    assert "written last" in verdict()
    record.write_bytes(record_bytes.replace(b'"format": 1', b'"format": 2'))
    assert "does not know" in verdict()
    record.write_bytes(record_bytes)
    data.unlink()
    assert "is not there" in verdict()


def test_a_backup_whose_index_lacks_an_entry_is_found(tmp_path: Path) -> None:
    """A backup is the store as it was, so the fault was there before."""
    backup = str(tmp_path / "backup")
    with running_nodes(tmp_path) as (node,):
        filled(node)
        url = node.store
    with closing(open_store(url)) as store:
        txn = store.begin()
        table = Schemas(store).table(txn, "d", "account")
        [(key, _)] = txn.scan(table.index_span(table.info.indexes[0]), limit=1)
        txn.write(WriteKind.REMOVE, key, b"")
        txn.commit()
    assert command("backup", "--store", url, "--to", backup, "--physical")[0] == 0
    code, output = command("backup", "verify", backup)
    assert code == 1
    assert "d.account: " in output
    assert not list(tmp_path.glob("exuvia-verify-*"))


def at(server: PostgresServer) -> str:
    return f"postgresql://postgres@127.0.0.1:{server.port}/postgres"


@pytest.mark.long
def test_a_dump_of_a_store_on_postgresql_is_a_backup(tmp_path: Path) -> None:
    """Taken by pg_dump during writes and read by another server, whose transaction ids start again.

    Data read before must still be older than data written after."""
    tools = programs()
    assert tools is not None
    with own_server() as server, own_server() as other:
        url = server.new_url()
        schema = url.rpartition("schema=")[2]
        node = NodeProcess(url, tmp_path / "log").wait_ready()
        try:
            filled(node)
            with transfers(node) as acknowledged:
                until(lambda: acknowledged[0] > 50)
                before = acknowledged[0]
                dump = subprocess.run(
                    [tools / "pg_dump", "--schema", schema, at(server)],
                    check=True,
                    capture_output=True,
                    timeout=60,
                ).stdout
                after = acknowledged[0]
        finally:
            end_all([node])
        subprocess.run(
            [tools / "psql", "-q", "-v", "ON_ERROR_STOP=1", at(other)],
            check=True,
            input=dump,
            stdout=subprocess.DEVNULL,
            timeout=60,
        )
        again = NodeProcess(other.url(schema), tmp_path / "log-other", 5.0).wait_ready()
        try:
            [(last,)] = rows(again, "SELECT MAX(id) FROM d.move")
            assert before <= last <= after + 1
            assert rows(again, "SELECT SUM(money) FROM d.account") == [(ACCOUNTS * MONEY,)]
            with transfers(again) as goes_on:
                goes_on[0] = last
                until(lambda: goes_on[0] > last + 20)
            rows(again, "ALTER TABLE d.big ADD INDEX by_k (k)")
            rows(again, "ADMIN CHECK TABLE d.big, d.account, d.move")
            assert rows(again, "SELECT SUM(money) FROM d.account") == [(ACCOUNTS * MONEY,)]
        finally:
            end_all([again])


@pytest.mark.parametrize("url", ["postgresql://me@127.0.0.1:1/db", "lmdb:///nowhere/at/all"])
def test_a_store_that_cannot_be_backed_up_is_an_error(url: str, tmp_path: Path) -> None:
    code, output = command("backup", "--store", url, "--to", str(tmp_path / "backup"), "--physical")
    assert code == 1
    assert "pg_dump" in output or "no store at" in output
