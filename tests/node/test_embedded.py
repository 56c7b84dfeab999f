"""Programs with an embedded store, with and without nodes on it.

Real processes are stopped, killed, forked and kept busy. No schema change waits longer than a lease
for one.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import exuvia
from exuvia.cluster import member as members
from exuvia.kv.store import open_store
from support.node_processes import (
    ROOT,
    NodeProcess,
    children_of,
    command_of,
    is_alive,
    running_nodes,
    until,
)

LEASE_S, LONG_LEASE_S = 2.0, 60.0
SOON_S = 20.0
"""Far below the wait without a lease: exuvia_max_idle_snapshot_s, 60 s."""

PROGRAM = """
import ctypes, json, os, sys, threading
import exuvia

connection = exuvia.connect(sys.argv[1], lease_s=float(sys.argv[2]))
cursor = connection.cursor()

def rows(text):
    cursor.execute(text)
    return cursor.fetchall()

def spin():
    while True:
        pass

def in_a_child(work):
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            said = work()
        except exuvia.InterfaceError as error:
            said = str(error)
        os.write(write, json.dumps(said).encode())
        sys.exit(0)  # and all that waits for the end of a process
    os.close(write)
    os.waitpid(child, 0)
    with open(read) as told:
        return json.load(told)

def insert_anew(number):
    with exuvia.connect(sys.argv[1], "shop") as own:
        own.cursor().execute("INSERT INTO t (id) VALUES (%s)", (number,))
        return own.connection_id

print(json.dumps(["ready", None]), flush=True)
for line in sys.stdin:
    try:
        said = [None, eval(line)]
    except exuvia.Error as error:
        said = [error.args[0], str(error)]
    print(json.dumps(said, default=str), flush=True)
"""


class Program:
    """A user's program. `ask` evaluates an expression and returns its value or its error code."""

    def __init__(self, url: str, lease_s: float = LEASE_S) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, url, str(lease_s)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        )  # fmt: skip
        assert self.read() == "ready"

    def send(self, expression: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(expression + "\n")
        self.process.stdin.flush()

    def read(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        code, value = json.loads(line)
        return value if code is None else code

    def ask(self, expression: str) -> Any:
        self.send(expression)
        return self.read()

    def run(self, *statements: str) -> None:
        for statement in statements:
            value = self.ask(f"cursor.execute({statement!r}) is None")
            assert value is False, (statement, value)

    def end(self) -> int:
        """Wait for its own end. Returns the exit code."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(30)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()


@contextmanager
def program(url: str, lease_s: float = LEASE_S) -> Iterator[Program]:
    started = Program(url, lease_s)
    try:
        yield started
    finally:
        started.close()


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    with running_nodes(tmp_path_factory.mktemp("embedded"), lease_s=LEASE_S) as [started_node]:
        with started_node.connect() as connection:
            connection.query("CREATE DATABASE shop")
        yield started_node


@pytest.fixture
def table(node: NodeProcess) -> Iterator[Any]:
    """A client of the node, and a table `shop.t`."""
    with node.connect("shop") as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE t (id INT PRIMARY KEY, a INT)")
        cursor.execute("INSERT INTO t (id) VALUES (1)")
        connection.commit()
        yield cursor
        cursor.execute("DROP TABLE t")


def alter_takes_s(cursor: Any) -> float:
    """The duration of a schema change. Unit: s."""
    began = time.monotonic()
    cursor.execute("ALTER TABLE t ADD COLUMN b INT")
    return time.monotonic() - began


def fronts(url: str) -> list[str]:
    """Addresses of the fronts that have joined."""
    store = open_store(url)
    try:
        with store.read() as txn:
            return [member.address for member in members.live(txn) if member.kind == "front"]
    finally:
        store.close()


# -- alone -----------------------------------------------------------------------------------------


def test_without_any_server_it_changes_schemas_by_a_child_of_its_own(tmp_path: Path) -> None:
    url = f"lmdb://{tmp_path}/store"
    with program(url) as one:
        assert children_of(one.process.pid) == []
        one.run("CREATE DATABASE shop", "USE shop", "CREATE TABLE t (id INT PRIMARY KEY, a INT)")
        one.run("INSERT INTO t VALUES (1, 2), (2, 3)", "COMMIT")
        [back] = children_of(one.process.pid)
        assert "exuvia.node.back" in command_of(back)
        one.run("ALTER TABLE t ADD UNIQUE INDEX by_a (a), ADD COLUMN c INT DEFAULT 5")
        one.run("ANALYZE TABLE t")
        with program(url) as other:  # it finds a back
            other.run("USE shop", "ALTER TABLE t ADD INDEX by_c (c)", "ADMIN CHECK TABLE t")
            assert other.ask("rows('SELECT * FROM t')") == [[1, 2, 5], [2, 3, 5]]
            assert children_of(other.process.pid) == []
            assert other.end() == 0
        assert one.end() == 0
        until(lambda: not is_alive(back))
    assert fronts(url) == []


def test_a_program_that_dies_leaves_its_change_to_the_next(tmp_path: Path) -> None:
    url = f"lmdb://{tmp_path}/store"
    with program(url) as one:
        one.run("CREATE DATABASE shop", "USE shop", "CREATE TABLE t (id INT PRIMARY KEY, a INT)")
        values = ", ".join(f"({n}, {n})" for n in range(20_000))
        one.run(f"INSERT INTO t VALUES {values}", "COMMIT", "SET exuvia_ddl_async = ON")
        [back] = children_of(one.process.pid)
        os.kill(back, signal.SIGSTOP)  # nobody makes the next step
        one.run("ALTER TABLE t ADD INDEX by_a (a)")
        one.process.kill()
        with suppress(ProcessLookupError):  # it may have been stopped inside the write gate
            os.kill(back, signal.SIGKILL)
    with program(url) as two:
        two.run("USE shop")
        key = "rows(\"SELECT key_name FROM information_schema.tidb_indexes WHERE table_name='t'\")"
        until(lambda: ["by_a"] in two.ask(f"(connection.rollback(), {key})[1]"), every_s=0.2)
        two.run("ADMIN CHECK TABLE t")
        assert two.end() == 0


# -- with nodes ------------------------------------------------------------------------------------


def test_it_is_a_member_only_while_something_is_open(node: NodeProcess, table: Any) -> None:
    with program(node.store) as one:
        one.run("USE shop", "INSERT INTO t (id) VALUES (2)")
        own = f"embedded:{one.process.pid}"
        assert own in fronts(node.store)
        table.execute("SELECT info, state FROM information_schema.cluster_processlist")
        assert (None, "in transaction") in [tuple(row) for row in table.fetchall()]
        one.run("COMMIT")
        until(lambda: own not in fronts(node.store), 10.0)
        os.kill(one.process.pid, signal.SIGSTOP)
        assert alter_takes_s(table) < LEASE_S  # nobody waits for it
        os.kill(one.process.pid, signal.SIGCONT)
        assert one.ask("rows('SELECT id, b FROM t')") == [[1, None], [2, None]]
        assert own in fronts(node.store)
        assert children_of(one.process.pid) == []  # the node has a back
        assert one.end() == 0
    assert own not in fronts(node.store)


def test_one_that_is_stopped_in_a_transaction_is_fenced(node: NodeProcess, table: Any) -> None:
    with program(node.store) as one:
        one.run("USE shop", "INSERT INTO t (id) VALUES (2)")
        os.kill(one.process.pid, signal.SIGSTOP)
        assert alter_takes_s(table) < SOON_S
        os.kill(one.process.pid, signal.SIGCONT)
        assert one.ask("connection.commit()") == 8027  # it can never commit by the old schema
        assert one.ask("rows('SELECT id, b FROM t')") == [[1, None]]
        one.run("INSERT INTO t (id, b) VALUES (3, 4)")
        assert one.ask("connection.commit()") is None
        assert one.end() == 0
    table.execute("SELECT id, b FROM t")
    assert table.fetchall() == ((1, None), (3, 4))


def test_one_that_waits_for_a_person_is_undone_when_a_change_waits(
    node: NodeProcess, table: Any
) -> None:
    """A debugger stops one thread: the program answers, but its transaction does not continue."""
    with program(node.store) as one:
        one.run("USE shop", "INSERT INTO t (id) VALUES (2)")
        assert alter_takes_s(table) < SOON_S
        assert one.ask("connection.commit()") == 8055
        assert one.ask("rows('SELECT id, b FROM t')") == [[1, None]]
        assert one.end() == 0


def test_one_that_is_killed_is_not_waited_for(node: NodeProcess, table: Any) -> None:
    with program(node.store, LONG_LEASE_S) as one:
        one.run("USE shop", "INSERT INTO t (id) VALUES (2)")
        one.process.kill()
        one.process.wait()
        assert alter_takes_s(table) < SOON_S
    table.execute("SELECT id FROM t")
    assert table.fetchall() == ((1,),)


def test_a_busy_interpreter_still_answers(node: NodeProcess, table: Any) -> None:
    with program(node.store, LONG_LEASE_S) as one:
        one.run("USE shop")
        one.ask("threading.Thread(target=spin, daemon=True).start()")
        assert one.ask("rows('SELECT id FROM t')") == [[1]]
        time_s = alter_takes_s(table)
        assert time_s < SOON_S
        assert f"embedded:{one.process.pid}" in fronts(node.store)  # it was not fenced: it answered
        one.run("ROLLBACK", "INSERT INTO t (id, b) VALUES (2, 3)")
        assert one.ask("connection.commit()") is None


@pytest.mark.long
def test_an_interpreter_that_a_library_holds_is_fenced(node: NodeProcess, table: Any) -> None:
    with program(node.store) as one:
        one.run("USE shop", "INSERT INTO t (id) VALUES (2)")
        one.send("ctypes.PyDLL(None).sleep(12)")  # with the interpreter's lock
        assert alter_takes_s(table) < 10.0
        assert one.read() == 0
        assert one.ask("connection.commit()") == 8027
        assert one.end() == 0


def test_a_forked_child_must_connect_again(node: NodeProcess, table: Any) -> None:
    with program(node.store) as one:
        one.run("USE shop", "INSERT INTO t (id) VALUES (2)")
        message = one.ask("in_a_child(lambda: connection.commit())")
        assert "before this process was forked" in message
        assert "before this process was forked" in one.ask("in_a_child(lambda: rows('SELECT 1'))")
        assert one.ask("in_a_child(lambda: insert_anew(3)) > 0") is True
        assert one.ask("rows('SELECT COUNT(*) FROM t')") == [[2]]  # its own snapshot, and row
        assert one.ask("connection.commit()") is None
        assert alter_takes_s(table) < SOON_S
        assert one.end() == 0
    table.execute("SELECT id FROM t")
    assert table.fetchall() == ((1,), (2,), (3,))


def test_kill_ends_what_it_runs_and_its_session(node: NodeProcess, table: Any) -> None:
    with program(node.store) as one:
        number = one.ask("connection.connection_id")
        one.run("USE shop", "INSERT INTO t (id) VALUES (2)")
        one.send("rows('SELECT SLEEP(60)')")
        sleeps = "SELECT COUNT(*) FROM information_schema.cluster_processlist WHERE id = %s AND "
        sleeps += "info LIKE 'SELECT SLEEP%%'"
        until(lambda: table.execute(sleeps, (number,)) and table.fetchone() == (1,), every_s=0.1)
        table.execute(f"KILL QUERY {number}")
        assert one.read() in ([[1]], 1317)
        table.execute(f"KILL {number}")
        assert one.ask("connection.commit()") == 1317
        assert alter_takes_s(table) < SOON_S
    table.execute("SELECT id FROM t")
    assert table.fetchall() == ((1,),)


# -- ended by other processes ----------------------------------------------------------------------

READER = """
import sys
from exuvia.kv.store import open_store

store = open_store(sys.argv[1], embedded=bool(int(sys.argv[2])))
view = store.snapshot()
view.get(b"m")
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("embedded", [0, 1])
def test_a_stopped_program_is_not_ended_for_its_snapshot(tmp_path: Path, embedded: int) -> None:
    url = f"lmdb://{tmp_path}/store"
    store = open_store(f"{url}?idle_s=0.2&query_s=0.2")
    child = subprocess.Popen(
        [sys.executable, "-c", READER, url, str(embedded)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
    )  # fmt: skip
    try:
        assert child.stdout is not None and child.stdout.readline() == b"ready\n"
        os.kill(child.pid, signal.SIGSTOP)
        looks = store.caretaker.overdue
        until(lambda: any(row.age_s > 2.0 for row in looks.rows(store.caretaker.growth))
              or child.poll() is not None)  # fmt: skip
        assert (child.poll() is None) == bool(embedded)
    finally:
        child.kill()
        child.communicate()
        store.close()


def test_a_program_that_ends_with_a_connection_open_ends_in_silence(tmp_path: Path) -> None:
    program = "import sys, exuvia; c = exuvia.connect(sys.argv[1]); c.cursor().execute('SELECT 1')"
    done = subprocess.run(
        [sys.executable, "-c", program, f"lmdb://{tmp_path}/store"], capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")}, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_importing_the_package_loads_nothing() -> None:
    loaded = "import sys, exuvia; print(len([m for m in sys.modules if m.startswith('exuvia.')]))"
    done = subprocess.run(
        [sys.executable, "-c", loaded], capture_output=True, text=True, check=True,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
    )  # fmt: skip
    assert done.stdout == "0\n"
    assert exuvia.apilevel == "2.0"
