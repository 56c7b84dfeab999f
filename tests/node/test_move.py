"""A store is moved into another one while clients write. No commit is lost, and the nodes
follow."""

import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pymysql
import pytest

from exuvia.base.clock import SystemClock
from exuvia.base.errors import Broken, Refused, StoreMoved, Unavailable
from exuvia.kv import keys
from exuvia.kv.packet import Snapshot, Span
from exuvia.kv.store import Store, open_store
from exuvia.kv.transaction import Transaction
from exuvia.node.move import StoreMove, give_up
from support.node_processes import NodeProcess, end_all, running_nodes, until
from support.postgres import shared_server

ACCOUNTS, MONEY, ROWS = 40, 1000, 6_000
REST_S = 0.005
"""A client's pause between two transactions: it shares the processor with the nodes."""
OTHERS_CAME_FIRST = (1213, 1205, 1062, 8028, 9007)


def rows(node: NodeProcess, *statements: str) -> list[tuple[Any, ...]]:
    """The rows of the last statement."""
    with node.connect(autocommit=True) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        return list(cursor.fetchall())


def filled(node: NodeProcess) -> None:
    values = ", ".join(f"({n}, {n % 977}, 'row {n}')" for n in range(ROWS))
    accounts = ", ".join(f"({n}, {MONEY}, {n})" for n in range(ACCOUNTS))
    rows(
        node,
        "CREATE DATABASE d",
        "CREATE TABLE d.account (id INT PRIMARY KEY, money INT, seat INT, UNIQUE (seat), "
        "KEY (money))",
        "CREATE TABLE d.done (id BIGINT AUTO_INCREMENT PRIMARY KEY, client INT, n INT, "
        "KEY (client))",
        "CREATE TABLE d.big (id INT, k INT, c VARCHAR(20), KEY (k)) "
        "PARTITION BY HASH (id) PARTITIONS 3",
        "CREATE TABLE d.gone (id INT PRIMARY KEY)",
        "CREATE VIEW d.rich AS SELECT id FROM d.account WHERE money > 0",
        "CREATE SEQUENCE d.numbers START 7",
        "CREATE USER app IDENTIFIED BY 'secret'",
        "GRANT SELECT ON d.* TO app",
        "SET GLOBAL tidb_ddl_reorg_batch_size = 77",
        f"INSERT INTO d.account VALUES {accounts}",
        f"INSERT INTO d.big VALUES {values}",
        "INSERT INTO d.gone VALUES (1), (2)",
        "DROP TABLE d.gone",
        "ALTER TABLE d.big EXUVIA_CHANGE_LOG = ON",
        "ALTER TABLE d.account EXUVIA_SCHEMA_LOCKED = ON",
    )


class Client(threading.Thread):
    """Moves money, exchanges seats, numbers its actions; connects again when it is refused.

    `longest_s`: the longest time between two acknowledged commits."""

    def __init__(self, number: int, node: NodeProcess) -> None:
        super().__init__()
        self.number, self.node = number, node
        self.acknowledged: list[int] = []
        self.unknown: list[int] = []
        self.longest_s = 0.0
        self.stopping = threading.Event()
        self._client: Any = None

    def run(self) -> None:
        n, last = 0, time.monotonic()
        while not self.stopping.is_set():
            n += 1
            try:
                if self._client is None:
                    self._client = self.node.connect("d")
                self._transfer(n)
                self._commit(n)
            except (pymysql.MySQLError, OSError) as error:
                if error.args and error.args[0] in OTHERS_CAME_FIRST:
                    self._client.rollback()
                    continue
                if self._client is not None:
                    with suppress(Exception):
                        self._client.close()
                self._client = None
                self.stopping.wait(0.01)
                continue
            self.acknowledged.append(n)
            self.longest_s = max(self.longest_s, time.monotonic() - last)
            last = time.monotonic()
            self.stopping.wait(REST_S)

    def _transfer(self, n: int) -> None:
        one, other = n % ACCOUNTS, (n * 7 + 1 + self.number) % ACCOUNTS
        with self._client.cursor() as cursor:
            cursor.execute(f"UPDATE account SET money = money - 1 WHERE id = {one}")
            cursor.execute(f"UPDATE account SET money = money + 1 WHERE id = {other}")
            if one != other:
                cursor.execute(f"SELECT id, seat FROM account WHERE id IN ({one}, {other})")
                seats = dict(cursor.fetchall())
                for who, seat in ((one, "NULL"), (other, seats[one]), (one, seats[other])):
                    cursor.execute(f"UPDATE account SET seat = {seat} WHERE id = {who}")
            cursor.execute(f"UPDATE big SET k = k + 1 WHERE id = {n % ROWS}")
            cursor.execute(f"INSERT INTO done (client, n) VALUES ({self.number}, {n})")

    def _commit(self, n: int) -> None:
        try:
            self._client.commit()
        except pymysql.OperationalError as error:
            if error.args[0] in (2006, 2013):  # the connection broke: the outcome is unknown
                self.unknown.append(n)
            raise


@contextmanager
def writing(*nodes: NodeProcess) -> Iterator[list[Client]]:
    clients = [Client(number, nodes[number % len(nodes)]) for number in range(3)]
    for client in clients:
        client.start()
    try:
        goes_on(clients)
        yield clients
    finally:
        for client in clients:
            client.stopping.set()
        for client in clients:
            client.join()


def goes_on(clients: list[Client]) -> None:
    marks = [len(client.acknowledged) + 20 for client in clients]
    until(lambda: all(len(c.acknowledged) > m for c, m in zip(clients, marks, strict=True)))


def check(node: NodeProcess, clients: list[Client]) -> None:
    """Acknowledged commits are there, no others are, and the tables match each other."""
    for client in clients:
        numbers = {n for (n,) in rows(node, f"SELECT n FROM d.done WHERE client = {client.number}")}
        assert set(client.acknowledged) <= numbers, set(client.acknowledged) - numbers
        assert numbers <= {*client.acknowledged, *client.unknown}
    assert rows(node, "SELECT SUM(money) FROM d.account") == [(ACCOUNTS * MONEY,)]
    seats = rows(node, "SELECT seat FROM d.account ORDER BY seat")
    assert seats == [(n,) for n in range(ACCOUNTS)]
    rows(node, "ADMIN CHECK TABLE d.account, d.done, d.big")


def command(*words: str) -> "subprocess.CompletedProcess[str]":
    line = [sys.executable, "-m", "exuvia.cli.main", *words]
    return subprocess.run(line, check=False, capture_output=True, text=True, timeout=120)


@pytest.fixture
def postgres() -> str:
    return shared_server().new_url()


def definitions(node: NodeProcess) -> list[str]:
    """The definitions without the next id."""
    tables = ("d.account", "d.done", "d.big", "d.rich")
    texts = (rows(node, f"SHOW CREATE TABLE {name}")[0][1] for name in tables)
    return [re.sub(r" AUTO_INCREMENT=\d+", "", text) for text in texts]


def test_no_commit_is_lost_and_the_nodes_follow(tmp_path: Path, postgres: str) -> None:
    """Two nodes, one with several fronts; a third one waits at the target."""
    with running_nodes(tmp_path) as (node,):
        filled(node)
        other = NodeProcess(node.store, tmp_path / "other.log", options=("--fronts", "2"))
        waiting: NodeProcess | None = None
        try:
            other.wait_ready()
            with writing(node, other) as clients:
                before = definitions(node)
                ended = command("move", "--from", node.store, "--to", postgres)
                assert ended.returncode == 0, ended.stderr
                goes_on(clients)
                waiting = NodeProcess(postgres, tmp_path / "new.log").wait_ready()
            print(ended.stdout, ended.stderr, *(client.longest_s for client in clients))
            for serving in (node, other, waiting):
                check(serving, clients)
            assert definitions(node) == before
            check_the_rest(node)
            rows(waiting, "ALTER TABLE d.done ADD INDEX (n), ADD COLUMN said INT DEFAULT 3")
            assert rows(other, "SELECT said FROM d.done LIMIT 1") == [(3,)]
        finally:
            end_all([other] + ([waiting] if waiting is not None else []))
        with pytest.raises(StoreMoved, match="postgresql"):  # readers get an error
            open_store(node.store)
        feed = command("changes", "d.big", "--store", node.store)
        assert feed.returncode == 1 and "the store has moved to" in feed.stderr, feed.stderr
        # a node of the source follows to the target
        again = NodeProcess(node.store, tmp_path / "again.log").wait_ready()
        try:
            assert rows(again, "SELECT COUNT(*) FROM d.big") == [(ROWS,)]
        finally:
            end_all([again])


def check_the_rest(node: NodeProcess) -> None:
    """State that is not in rows of tables."""
    who = {"user": "app", "password": "secret"}
    with pymysql.connect(host="127.0.0.1", port=node.port, **who) as app, app.cursor() as cursor:
        cursor.execute("SELECT COUNT(*) > 0 FROM d.rich")
        assert cursor.fetchall() == ((1,),)
    assert rows(node, "SELECT @@GLOBAL.tidb_ddl_reorg_batch_size") == [(77,)]
    assert rows(node, "SELECT NEXTVAL(d.numbers)") == [(7,)]
    assert rows(node, "RECOVER TABLE d.gone", "SELECT * FROM d.gone ORDER BY id") == [(1,), (2,)]
    # a new id: 1062 if blocks were given out twice. Those of two nodes are in no order
    rows(node, "INSERT INTO d.done (client, n) VALUES (9, 9)")
    assert rows(node, "SELECT COUNT(*) FROM d.done WHERE client = 9") == [(1,)]
    rows(node, "DELETE FROM d.done WHERE client = 9")
    history = rows(node, "ADMIN SHOW DDL JOBS 30")
    assert {"create view", "exuvia change log"} <= {row[3] for row in history}


@pytest.mark.long
def test_back_to_one_machine_it_is_a_move_like_any_other(tmp_path: Path, postgres: str) -> None:
    node = NodeProcess(postgres, tmp_path / "log").wait_ready()
    try:
        filled(node)
        there = f"lmdb://{tmp_path}/there"
        with writing(node) as clients:
            ended = command("move", "--from", postgres, "--to", there)
            assert ended.returncode == 0, ended.stderr
            goes_on(clients)
        check(node, clients)
    finally:
        end_all([node])


@pytest.mark.long
def test_a_store_that_nobody_serves_is_left_first(tmp_path: Path, postgres: str) -> None:
    """A killed node does not serve; a node that joins in the meantime follows to the target."""
    with running_nodes(tmp_path) as (node,):
        filled(node)
        rows(node, "INSERT INTO d.done (client, n) VALUES (1, 1)")
        node.kill()
        ended = command("move", "--from", node.store, "--to", postgres)
        assert ended.returncode == 0 and "no node serves" in ended.stderr, ended.stderr
    again = NodeProcess(node.store, tmp_path / "again.log").wait_ready()
    try:
        check(again, [])
        assert "CHANGE_LOG=ON" in rows(again, "SHOW CREATE TABLE d.big")[0][1]
        assert "CHANGE_LOG" not in rows(again, "SHOW CREATE TABLE d.done")[0][1]
        check_the_rest(again)
    finally:
        end_all([again])


# -- failures --------------------------------------------------------------------------------------

STOPS = """
import sys, time
from exuvia.node import move
def stop(*_):
    print("here", flush=True)
    time.sleep(600)
setattr(move.StoreMove, sys.argv.pop(1), stop)
from exuvia.cli.main import app
app()
"""


def killed_in(step: str, source: str, target: str) -> None:
    """A move that is killed by force at the given step."""
    line = [sys.executable, "-c", STOPS, step, "move", "--from", source, "--to", target]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as mover:
        assert mover.stdout is not None
        assert mover.stdout.readline() == b"here\n"
        mover.send_signal(signal.SIGKILL)


@pytest.mark.long
@pytest.mark.parametrize("step", ["copy", "compare", "switch"])
def test_a_move_that_dies_before_its_switch_harms_nothing(
    tmp_path: Path, postgres: str, step: str
) -> None:
    """Schemas can change again once its lease is over. Another move empties the target and
    succeeds."""
    with running_nodes(tmp_path, lease_s=3.0) as (node,):
        filled(node)
        with writing(node) as clients:
            killed_in(step, node.store, postgres)
            goes_on(clients)
            rows(node, "ALTER TABLE d.done ADD INDEX (n)")
            ended = command("move", "--from", node.store, "--to", postgres)
            assert ended.returncode == 0 and "a former move left" in ended.stderr, ended.stderr
            goes_on(clients)
        check(node, clients)


@pytest.mark.long
def test_a_move_that_dies_after_its_switch_is_undone(tmp_path: Path, postgres: str) -> None:
    with running_nodes(tmp_path, lease_s=3.0) as (node,):
        filled(node)
        with writing(node) as clients:
            killed_in("open", node.store, postgres)
            until(lambda: "the node waits" in node.log.read_text())
            counts = [len(client.acknowledged) for client in clients]
            ended = command("move", "--abort", "--from", node.store, "--to", postgres)
            assert ended.returncode == 0, ended.stderr
            goes_on(clients)
            assert counts != [len(client.acknowledged) for client in clients]
            late = NodeProcess(postgres, tmp_path / "late.log")
            assert late.process.wait(60) == 1
            assert "was aborted" in late.log.read_text()
            ended = command("move", "--from", node.store, "--to", postgres)
            assert ended.returncode == 0, ended.stderr
            goes_on(clients)
            refused = command("move", "--abort", "--from", node.store, "--to", postgres)
            assert refused.returncode == 1 and "the target is open" in refused.stderr
        check(node, clients)


def moved(
    source: Store, target: Store, to: str = "memory:", lines: list[str] | None = None
) -> None:
    tell = (lambda line: None) if lines is None else lines.append
    StoreMove(source, target, to, SystemClock(), 3.0, tell).run()


@pytest.mark.long
def test_a_failure_after_the_switch_is_undone_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_nodes(tmp_path) as (node,):
        filled(node)
        to = f"lmdb://{tmp_path}/to"
        with closing(open_store(node.store)) as source, closing(open_store(to)) as target:
            monkeypatch.setattr(StoreMove, "open", lambda *_: 1 / 0)
            with writing(node) as clients:
                with pytest.raises(ZeroDivisionError):
                    moved(source, target, to)
                goes_on(clients)
            check(node, clients)
            until(lambda: "CHANGE_LOG" not in rows(node, "SHOW CREATE TABLE d.done")[0][1])
            assert "CHANGE_LOG" in rows(node, "SHOW CREATE TABLE d.big")[0][1]


def test_a_copy_that_differs_is_found_and_nothing_is_switched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_nodes(tmp_path) as (node,):
        filled(node)
        compare = StoreMove.compare
        with closing(open_store(node.store)) as source, closing(open_store("memory:")) as target:

            def damage(txn: Transaction) -> None:
                entries = [key for key, _ in txn.scan(Span(b"t", b"u")) if key[9:10] == b"i"]
                txn.delete(entries[len(entries) // 2])

            def plant(self: StoreMove, snapshot: Snapshot) -> None:
                target.transact(damage)
                compare(self, snapshot)

            monkeypatch.setattr(StoreMove, "compare", plant)
            with pytest.raises(Broken, match="differs at or before key"):
                moved(source, target)
            with source.read() as txn:
                assert txn.get(keys.MOVED) is None
        rows(node, "ALTER TABLE d.done ADD COLUMN later INT")


@pytest.mark.long
def test_a_job_that_has_begun_is_waited_for(tmp_path: Path) -> None:
    with running_nodes(tmp_path) as (node,):
        filled(node)
        rows(
            node,
            "SET GLOBAL tidb_ddl_reorg_batch_size = 32",
            "SET GLOBAL tidb_ddl_reorg_max_write_speed = 2000",
        )
        changing = threading.Thread(target=rows, args=(node, "ALTER TABLE d.big ADD INDEX (c)"))
        changing.start()
        until(lambda: rows(node, "ADMIN SHOW DDL JOBS 1")[0][7] > 0)
        lines: list[str] = []
        with closing(open_store(node.store)) as source, closing(open_store("memory:")) as target:
            mover = threading.Thread(target=moved, args=(source, target, "memory:", lines))
            mover.start()
            until(lambda: any("waits for job" in line for line in lines))
            rows(node, "SET GLOBAL tidb_ddl_reorg_max_write_speed = 0")
            changing.join()
            mover.join()
            with target.read() as txn:
                assert txn.get(keys.FORMAT) is not None and txn.get(keys.FILLING) is None


def test_refusals(tmp_path: Path) -> None:
    with running_nodes(tmp_path) as (node,):
        here, full = node.store, f"lmdb://{tmp_path}/full"
        with closing(open_store(full)) as occupied:
            occupied.transact(lambda txn: txn.put(b"t", b"something"))
        ended = command("move", "--from", here, "--to", full)
        assert ended.returncode == 1 and "the target is not empty" in ended.stderr
        ended = command("move", "--from", f"lmdb://{tmp_path}/none", "--to", f"lmdb://{tmp_path}/n")
        assert ended.returncode == 1 and "there is no store at" in ended.stderr
        assert not (tmp_path / "none").exists() and not (tmp_path / "n").exists()
        secret = "postgresql://me:hush@127.0.0.1:1/db"
        ended = command("move", "--from", here, "--to", secret)
        assert ended.returncode == 2 and "hush" not in ended.stderr
        with closing(open_store(here)) as source, closing(open_store("memory:")) as target:
            mark = target.hold("move")
            with pytest.raises(Unavailable, match="another move"):
                moved(source, target)
            mark.release()
            target.transact(lambda txn: txn.put(keys.FORMAT, keys.number(4)))
            with pytest.raises(Refused, match="move the other way"):
                give_up(source, target)
        rows(node, "CREATE DATABASE d")
