"""Histories of transactions that append to lists and read them, for a checker of isolation levels.

    HISTORIES=folder   each run writes {name}.jsonl there: one JSON object a line, in the order in
                       which things happened: {"process": 0, "type": "invoke" | "ok" | "fail" |
                       "info", "f": "txn", "value": [["append", "k1", 1], ["r", "k2", [3, 4]]]}

    snapshot        BEGIN OPTIMISTIC, plain reads                 to be judged snapshot isolation
    present         every read FOR UPDATE, lists begin as rows    to be judged serializable
    absent          every read FOR UPDATE, no list is there yet   likewise

A statement reads or appends to one list or several. Every read asks by the primary key and by a
secondary index (a unique one, which can be locked where there is no row), and both must tell the
same. Meanwhile the table is changed (in the long runs) and one node is killed now and then. The
test itself asks what needs no checker: what was acknowledged is there once, in one order, and what
was refused is not.
"""

import itertools
import json
import os
import threading
import time
from pathlib import Path
from random import Random
from typing import Any

import pymysql
import pytest

from support.budget import SEED, torture_s
from support.node_processes import NodeProcess, until
from support.torture import Nodes, nodes_to_hurt, run

CLIENTS, LISTS, APPENDS, LEAST = 6, 192, 12, 120
APPENDED = (1, 2, 4, 8)  # lists at a time
READ = {"snapshot": (2, 16, 64, 192), "present": (1, 8, 24, 64), "absent": (1, 8, 24, 64)}
PAUSE_S = 20.0  # between two kills
GONE = (0, 2003, 2006, 2013)
REFUSED = (1213, 1205, 1062, 8028, 8027, 3572)
CHANGES = (
    "ADD COLUMN c INT NOT NULL DEFAULT 7",
    "ADD INDEX by_c (c, name)",
    "MODIFY c BIGINT NOT NULL DEFAULT 7",
    "ADD UNIQUE once (name, c)",
    "DROP INDEX by_c",
    "DROP INDEX once",
    "DROP COLUMN c",
)
Ops = list[tuple[str, str, Any]]


class History:
    """What happened, in order."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []
        self._lock = threading.Lock()

    def add(self, process: int, kind: str, value: Ops) -> None:
        with self._lock:
            self.lines.append({"process": process, "type": kind, "f": "txn", "value": value})

    def write(self, name: str) -> None:
        """Where the environment says."""
        folder = os.environ.get("HISTORIES")
        if folder:
            Path(folder).mkdir(parents=True, exist_ok=True)
            text = "".join(json.dumps(line) + "\n" for line in self.lines)
            (Path(folder) / f"{name}.jsonl").write_text(text)


class Client(threading.Thread):
    """One session after another; `mode` as in the module."""

    values = itertools.count(1)

    def __init__(self, nodes: Nodes, number: int, mode: str, history: History, seed: int) -> None:
        super().__init__(daemon=True)
        self.errors: list[str] = []
        self._nodes, self._mode, self._history = nodes, mode, history
        self._process = number
        self._random = Random(seed * 1000 + number)
        self.stopping = threading.Event()

    def stop(self) -> None:
        self.stopping.set()
        self.join(60)
        assert not self.is_alive()

    def run(self) -> None:
        while not self.stopping.is_set():
            try:
                living: list[NodeProcess] = self._nodes.living()
                connection = living[self._process % len(living)].connect("test", autocommit=True)
            except (pymysql.err.MySQLError, OSError, ZeroDivisionError):
                self.stopping.wait(0.05)
                continue
            try:
                with connection.cursor() as cursor:
                    while not self.stopping.is_set() and self._transact(cursor):
                        pass
            finally:
                connection.break_off()

    def _transact(self, cursor: pymysql.cursors.Cursor) -> bool:
        """One transaction; whether the connection is of further use."""
        newest = next(self.values)
        first = newest // APPENDS
        statements: list[Ops] = []
        for _ in range(self._random.choice((1, 2, 2, 3, 4))):
            appends = self._random.random() < 0.5
            width = self._random.choice(APPENDED if appends else READ[self._mode])
            lists = [f"k{first + n}" for n in self._random.sample(range(LISTS), width)]
            if appends:
                statements.append([("append", key, next(self.values)) for key in lists])
            else:
                statements.append([("r", key, None) for key in lists])
        asked = [each for ops in statements for each in ops]
        self._history.add(self._process, "invoke", asked)
        outcome, done, of_use = "fail", asked, True
        try:
            cursor.execute("BEGIN OPTIMISTIC" if self._mode == "snapshot" else "BEGIN PESSIMISTIC")
            done = [each for ops in statements for each in self._do(cursor, ops)]
            outcome = "info"
            cursor.execute("COMMIT")
            outcome = "ok"
        except (pymysql.err.MySQLError, OSError) as error:
            code = error.args[0] if error.args else 0
            if code in REFUSED:
                outcome = "fail"
            else:
                of_use = False
                if code not in GONE and not isinstance(error, OSError):
                    self.errors.append(repr(error))
        self._history.add(self._process, outcome, done if outcome == "ok" else asked)
        if outcome == "info":
            self._process += CLIENTS  # nobody knows: its process never acts again
        if outcome == "fail" and of_use:
            try:
                cursor.execute("ROLLBACK")
            except (pymysql.err.MySQLError, OSError):
                return False
        return of_use

    def _do(self, cursor: pymysql.cursors.Cursor, ops: Ops) -> Ops:
        """One statement that appends, or two that read the same."""
        numbers = [int(key[1:]) for _, key, _ in ops]
        if ops[0][0] == "append":
            rows = ((n, key, value) for n, (_, key, value) in zip(numbers, ops, strict=True))
            cursor.execute(
                "INSERT INTO lists (id, name, items) VALUES "
                + ", ".join(f"({n}, '{key}', '{value},')" for n, key, value in rows)
                + " ON DUPLICATE KEY UPDATE items = CONCAT(items, VALUES(items))"
            )
            return ops
        names = ", ".join(f"'{key}'" for _, key, _ in ops)
        lock = "" if self._mode == "snapshot" else " FOR UPDATE"
        found: list[dict[str, list[int]]] = []
        for way in (f"id IN ({', '.join(map(str, numbers))})", f"name IN ({names})"):
            cursor.execute(f"SELECT name, items FROM lists WHERE {way}{lock}")
            found.append({name: numbers_of(items) for name, items in cursor.fetchall()})
        if found[0] != found[1]:
            self.errors.append(f"{names} by their keys {found[0]}, by their index {found[1]}")
        return [(f, key, found[0].get(key, [])) for f, key, _ in ops]


class Changer(threading.Thread):
    """Changes the table round and round on the node that lives."""

    def __init__(self, node: NodeProcess) -> None:
        super().__init__(daemon=True)
        self.done, self.errors = 0, list[str]()
        self._node, self.stopping = node, threading.Event()

    def run(self) -> None:
        for change in itertools.cycle(CHANGES):
            if self.stopping.wait(1.0):
                return
            try:
                run(self._node, f"ALTER TABLE lists {change}")
                self.done += 1
            except Exception as error:
                self.errors.append(f"{change}: {error!r}")
                return

    def stop(self) -> None:
        self.stopping.set()
        self.join(90)
        assert not self.is_alive()


def numbers_of(items: str) -> list[int]:
    """'3,4,' is [3, 4]."""
    return [int(each) for each in items.split(",")[:-1]]


def play(nodes: Nodes, mode: str, seconds: float, seed: int, accidents: bool) -> History:
    """Clients on both nodes for so long; with accidents, one node is killed now and then and the
    table changes."""
    first = nodes.slots[0]
    run(first, "CREATE DATABASE IF NOT EXISTS test")
    run(
        first,
        "CREATE TABLE test.lists"
        " (id INT PRIMARY KEY, name VARCHAR(20) UNIQUE, items MEDIUMTEXT NOT NULL)",
    )
    Client.values = itertools.count(1)
    if mode != "absent":
        rows = ",".join(f"({n}, 'k{n}', '')" for n in range(10_000))
        run(first, f"INSERT INTO test.lists VALUES {rows}")
    history = History()
    clients = [Client(nodes, number, mode, history, seed) for number in range(CLIENTS)]
    for client in clients:
        client.start()
    changer = Changer(first)
    if accidents:
        changer.start()
    until(lambda: len(history.lines) > 2 * LEAST, 90)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        clients[0].stopping.wait(min(PAUSE_S, max(0.0, end - time.monotonic())))
        if accidents and time.monotonic() < end:
            nodes.kill_node(1)
            nodes.begin_again(1).wait_ready()
    if accidents:
        changer.stop()
    for client in clients:
        client.stop()
    history.write(f"{mode}-{seed}")
    errors = [error for each in (*clients, changer) for error in each.errors]
    assert errors == []
    final = {
        f"k{number}": numbers_of(items)
        for number, items in run(nodes.slots[0], "SELECT id, items FROM test.lists")
    }
    run(nodes.slots[0], "ADMIN CHECK TABLE test.lists")
    judge(history, final)
    return history


def judge(history: History, final: dict[str, list[int]]) -> None:
    """What needs no checker."""
    for line in history.lines:
        for f, key, value in line["value"]:
            stands = final.get(key, [])
            if f == "append" and line["type"] in ("ok", "fail"):
                assert stands.count(value) == (line["type"] == "ok"), (line, stands)
            if f == "r" and line["type"] == "ok":
                own = [v for g, k, v in line["value"] if g == "append" and k == key]
                assert [v for v in value if v not in own] == stands[: len(value)][
                    : len([v for v in value if v not in own])
                ], (line, stands)


def told(history: History, mode: str, seed: int) -> None:
    kinds = {kind: sum(line["type"] == kind for line in history.lines) for kind in ("ok", "fail")}
    ops = sum(len(line["value"]) for line in history.lines if line["type"] == "ok")
    print(f"\n{mode}, seed {seed}: {kinds}, {ops} operations committed")
    assert kinds["ok"] > LEAST // 3


@pytest.mark.parametrize(
    "mode",
    ["snapshot", *(pytest.param(mode, marks=pytest.mark.long) for mode in ("present", "absent"))],
)
def test_lists_of_two_nodes(mode: str, calm: Nodes) -> None:
    run(calm.slots[0], "DROP TABLE IF EXISTS test.lists")
    told(play(calm, mode, 1.0, 1, accidents=False), mode, 1)


@pytest.mark.torture
@pytest.mark.parametrize("mode", ["snapshot", "present", "absent"])
def test_lists_of_two_nodes_for_long(
    mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with nodes_to_hurt(tmp_path, monkeypatch) as nodes:
        seconds = torture_s(f"histories, {mode}")
        told(play(nodes, mode, seconds, SEED, accidents=True), mode, SEED)
