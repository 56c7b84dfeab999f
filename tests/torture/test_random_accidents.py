"""kill -9 and SIGSTOP at random moments over all kinds of schema changes, with clients beside them.

    clients    rows of two tables, each row's value known to its writer; parents with their children
    changers   one random change after another, on whichever node lives
    accidents  a front, a back, both or a whole node is killed, and meanwhile a front or a back
               sleeps beyond its lease

From time to time the accidents stop: every job must end, every table must be whole (ADMIN CHECK
TABLE), hold what its clients wrote, and no child may be without its parent. One seed draws all; the
machine's own timing is not replayed.

`make torture` runs it for a while, `ACCIDENTS=1200 TORTURE_S=14400 make torture` until there were
so many (a sixth of them sleeps); `make test` has a dozen. The tables are small, so no JVM starts.
"""

import json
import os
import random
import signal
import threading
import time
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pymysql
import pytest

from support.budget import SEED, torture_s
from support.node_processes import ROOT, NodeProcess, children_of, until
from support.torture import (
    PATIENCE_S,
    SILENT,
    Nodes,
    Writer,
    end_by_pid,
    expected,
    jobs,
    nodes_to_hurt,
    run,
    served,
)

LEASE_S = 2.0
LONGEST_QUIET_S = 1.2
LONGEST_STILL_S = 3.0
REST_S = 0.05
HURRIED = (str(ROOT / "tests/support/faulty_nodes.py"), "hurried")
HARMLESS = ("the parent ended before its child began",)
ROWS = 300
TABLES = ("t0", "t1")
LOST = (0, 2003, 2006, 2013)
OVERTAKEN = (8028, 1213)  # a transaction that a change or another one overtook
RACED = {
    1050: "the table is there",
    1051: "the table is gone",
    1054: "the column is gone",
    1060: "the column is there",
    1061: "the index is there",
    1072: "the index's column is gone",
    1091: "what is dropped is gone",
    1146: "the table is gone",
    1176: "the index is gone",
    1347: "another kind of object",
    1452: "a child lost its parent while the second key was away",
    1505: "it has no partitions",
    1507: "the partition is gone",
    1508: "the other partitions are gone",
    1517: "the partition is there",
    1553: "a foreign key needs the index",
    1826: "the foreign key is there",
    1828: "a foreign key needs the column",
    3821: "the check is gone",
    3822: "the check is there",
    3837: "an index needs the column",
    3940: "the constraint is gone",
    4139: "the sequence is gone",
    8200: "not in this state",
}


class Client:
    """One of those who work beside the accidents, on a thread of its own, until it is stopped."""

    def __init__(self, nodes: Nodes, seed: str) -> None:
        self.errors: list[str] = []
        self.ended: Counter[tuple[str, str]] = Counter()  # (kind of change, how it ended)
        self.commits = 0
        self._nodes = nodes
        self._chance = random.Random(seed)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """After what is under way."""
        self._stopping.set()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), f"a {type(self).__name__} never ended"

    def _run(self) -> None:
        while not self._stopping.wait(REST_S):
            try:
                self._once(self._chance.choice(self._nodes.living()))
            except Exception as error:  # a thread that ends says nothing
                self.errors.append(repr(error))

    @abstractmethod
    def _once(self, node: NodeProcess) -> None:
        """One change, or one transaction."""


class Changer(Client):
    """Changes schemas; what a change did whose client lost its connection, the jobs tell."""

    def __init__(self, nodes: Nodes, seed: str, changed: threading.Event) -> None:
        self._changed = changed
        super().__init__(nodes, seed)

    def _once(self, node: NodeProcess) -> None:
        kind, text = self.draw()
        try:
            run(node, text)
            how = "done"
        except pymysql.err.MySQLError as error:
            how = ended_by(error.args[0])
            if how == "unexpected":
                self.errors.append(f"{text}: {error!r}")
        self.ended[kind, how] += 1
        if how in ("done", "refused"):
            self._changed.set()
        else:
            self._stopping.wait(4 * REST_S)

    def draw(self) -> tuple[str, str]:
        """A change and its kind."""
        draw, t = self._chance.randrange, self._chance.choice(TABLES)
        n = draw(3)
        return self._chance.choice(
            (
                ("add index", f"ALTER TABLE {t} ADD INDEX i{n} (v, k)"),
                ("add unique index", f"ALTER TABLE {t} ADD UNIQUE INDEX u{n} (id, v)"),
                ("drop index", f"ALTER TABLE {t} DROP INDEX {self._chance.choice('iu')}{n}"),
                ("rename index", f"ALTER TABLE {t} RENAME INDEX i{n} TO i{(n + 1) % 3}"),
                ("index visibility", f"ALTER TABLE {t} ALTER INDEX i{n} INVISIBLE"),
                ("add column", f"ALTER TABLE {t} ADD COLUMN c{n} INT NOT NULL DEFAULT {n}"),
                ("drop column", f"ALTER TABLE {t} DROP COLUMN c{n}"),
                ("rename column", f"ALTER TABLE {t} RENAME COLUMN c{n} TO c{(n + 1) % 3}"),
                ("rewrite column", f"ALTER TABLE {t} MODIFY v VARCHAR(20)"),
                ("rewrite column back", f"ALTER TABLE {t} MODIFY v BIGINT"),
                ("check column", f"ALTER TABLE {t} MODIFY v INT"),
                ("change default", f"ALTER TABLE {t} ALTER COLUMN c{n} SET DEFAULT {draw(9)}"),
                ("add check", f"ALTER TABLE {t} ADD CONSTRAINT {t}k{n} CHECK (id >= 0)"),
                ("drop check", f"ALTER TABLE {t} DROP CHECK {t}k{n}"),
                (
                    "several",
                    f"ALTER TABLE {t} ADD COLUMN c{n} INT, ADD INDEX i{n} (c{n}), COMMENT 'x{n}'",
                ),
                ("comment", f"ALTER TABLE {t} COMMENT 'y{n}'"),
                ("add foreign key", "ALTER TABLE child ADD CONSTRAINT fu FOREIGN KEY (code) "
                 "REFERENCES parent (code)"),
                ("drop foreign key", "ALTER TABLE child DROP FOREIGN KEY fu"),
                ("parent's index", f"ALTER TABLE parent ADD UNIQUE INDEX p{n} (code)"),
                ("parent's index away", f"ALTER TABLE parent DROP INDEX p{n}"),
                ("parent's column", "ALTER TABLE parent ADD COLUMN x INT DEFAULT 3"),
                ("parent's column away", "ALTER TABLE parent DROP COLUMN x"),
                ("create table", f"CREATE TABLE s{n} (a INT PRIMARY KEY, b INT) PARTITION BY RANGE"
                 " (a) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20))"),
                ("create like", f"CREATE TABLE s{n} LIKE t0"),
                ("create as select", f"CREATE TABLE s{n} AS SELECT * FROM t1"),
                ("truncate", f"TRUNCATE TABLE s{n}"),
                ("drop table", f"DROP TABLE s{n}"),
                ("rename table", f"RENAME TABLE s{n} TO s{(n + 1) % 3}"),
                ("add partition", f"ALTER TABLE s{n} ADD PARTITION (PARTITION p2 VALUES LESS "
                 "THAN (30))"),
                ("drop partition", f"ALTER TABLE s{n} DROP PARTITION p1"),
                ("truncate partition", f"ALTER TABLE s{n} TRUNCATE PARTITION p0"),
                ("view", f"CREATE OR REPLACE VIEW w{n} AS SELECT id, v FROM {t}"),
                ("sequence", f"CREATE SEQUENCE q{n}"),
                ("drop sequence", f"DROP SEQUENCE q{n}"),
            )
        )  # fmt: skip


class Family(Client):
    """Adds parents with children, and removes parents; a refusal is an answer."""

    def _once(self, node: NodeProcess) -> None:
        try:
            self._write(node)
            self.commits += 1
        except pymysql.err.MySQLError as error:
            if error.args[0] not in (*LOST, *SILENT, *OVERTAKEN, 1205, 1451, 1452, 1062):
                self.errors.append(repr(error))
            elif error.args[0] in (*LOST, *SILENT):
                self._stopping.wait(4 * REST_S)

    def _write(self, node: NodeProcess) -> None:
        n = self._chance.randrange(40)
        with node.connect("test") as connection, connection.cursor() as cursor:
            for text in self._chance.choice(
                (
                    (f"INSERT INTO parent (id, code) VALUES ({n}, {n})",),
                    (f"INSERT INTO child (id, pid, code) VALUES ({n}, {n}, {n})",),
                    (f"DELETE FROM parent WHERE id = {n}",),
                    (f"DELETE FROM child WHERE pid = {n}", f"DELETE FROM parent WHERE id = {n}"),
                    (f"UPDATE child SET pid = {n} WHERE id = {(n * 7) % 40}",),
                )
            ):
                cursor.execute(text)
            self._stopping.wait(self._chance.random() * 0.05)
            connection.commit()


class Accidents:
    """What happens to whom, by seed. Kills and sleeps overlap, and nobody waits for the cluster to
    be well again: mostly for one change to have ended since the last kill, so that there is
    something to hit, and not even that for long."""

    def __init__(self, nodes: Nodes, seed: str) -> None:
        self.seen: Counter[str] = Counter()
        self.changed = threading.Event()
        self._nodes = nodes
        self._kills, self._sleeps = random.Random(f"{seed} kills"), random.Random(f"{seed} sleeps")
        self._wait = threading.Event().wait
        self._beginning: threading.Thread | None = None  # a node that is started anew

    @property
    def count(self) -> int:
        """All so far."""
        return sum(self.seen.values())

    def happen(self, count: int, until_s: float) -> None:
        """`count` accidents, a sixth of them sleeps, or what comes before that time (monotonic)."""
        sleeps = -(-count // 6)
        sleeper = threading.Thread(target=self._repeat, args=(self._sleep, sleeps, until_s))
        sleeper.start()
        self._repeat(self._kill, count - sleeps, until_s)
        sleeper.join()
        if self._beginning is not None:
            self._beginning.join()

    def _repeat(self, accident: Callable[[], str], count: int, until_s: float) -> None:
        while count and time.monotonic() < until_s:
            kind = accident()
            if kind:
                self.seen[kind] += 1
                count -= 1
            else:
                self._wait(0.05)  # who was to be hit is being started

    def _kill(self) -> str:
        """kill -9 of somebody; what it was, "" if nobody was there."""
        self._wait(self._kills.uniform(0.1, LONGEST_QUIET_S))
        if self._kills.random() < 0.8:
            self.changed.wait(LONGEST_STILL_S)
        self.changed.clear()
        slot = self._kills.randrange(len(self._nodes.slots))
        kind = self._kills.choices(
            ("front killed", "back killed", "front and back killed", "node killed"), (8, 12, 4, 1)
        )[0]
        node = self._nodes.slots[slot]
        front, back = node.pid, back_of(node)
        if kind == "node killed":
            return kind if self._kill_node(slot, front, back) else ""
        victims = {"front killed": (front,), "back killed": (back,)}.get(kind, (front, back))
        if not (node.port and all(victims)):  # a front that has never served is not begun again
            return ""
        return kind if sum(map(end_by_pid, victims)) else ""

    def _kill_node(self, slot: int, front: int, back: int) -> bool:
        """The keeper too: a new node begins in its slot, while other accidents happen."""
        if self._beginning is not None and self._beginning.is_alive():
            return False
        node = self._nodes.slots[slot]
        self._nodes.killed.add(node)
        for pid in filter(None, (node.process.pid, front, back)):
            end_by_pid(pid)
        node.process.wait(PATIENCE_S)
        anew = self._nodes.begin_again(slot)
        self._beginning = threading.Thread(target=anew.wait_ready, args=(PATIENCE_S,))
        self._beginning.start()
        return True

    def _sleep(self) -> str:
        """Somebody does not run for longer than the lease; who it was, "" if nobody was there."""
        self._wait(self._sleeps.uniform(0.1, 2 * LONGEST_QUIET_S))
        node = self._sleeps.choice(self._nodes.slots)
        who = self._sleeps.choice(("front", "back"))
        pid = node.pid if who == "front" else back_of(node)
        if not pid or not end_by_pid(pid, signal.SIGSTOP):
            return ""
        self._wait(LEASE_S * self._sleeps.uniform(1.2, 2.0))
        return f"{who} slept" if end_by_pid(pid, signal.SIGCONT) else ""


class Logs:
    """What the nodes say of themselves: processes end by kill -9 only, and no loop breaks."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._read: dict[Path, int] = {}

    def faults(self) -> list[str]:
        """New lines that should not be there."""
        return [line for node in self._nodes.every for line in self._new(node.log) if _is_bad(line)]

    def _new(self, path: Path) -> list[str]:
        text = path.read_text()
        whole = text.rfind("\n") + 1
        begin, self._read[path] = self._read.get(path, 0), whole
        return text[begin:whole].splitlines()


def _is_bad(line: str) -> bool:
    try:
        said = json.loads(line)
    except ValueError:
        return bool(line.strip()) and line not in HARMLESS
    ended = said.get("message") in ("the front ended", "the back ended")
    return said["level"] == "critical" or (ended and said["exit_code"] != -signal.SIGKILL)


def ended_by(code: int) -> str:
    """How a change ended whose client was told this."""
    known = {"lost": LOST, "not served": SILENT, "overtaken": OVERTAKEN, "refused": RACED}
    return next((how for how, codes in known.items() if code in codes), "unexpected")


def back_of(node: NodeProcess) -> int:
    """The pid of its back; 0 while there is none."""
    front = node.pid
    nurseries = children_of(front) if front else []
    return next((back for nursery in nurseries for back in children_of(nursery)), 0)


def prepare(node: NodeProcess) -> None:
    values = ",".join(f"({n},{n * 31 % 5000},{n})" for n in range(ROWS))
    run(
        node,
        *(f"CREATE TABLE {t} (id INT PRIMARY KEY, k INT, v BIGINT)" for t in TABLES),
        *(f"INSERT INTO {t} VALUES {values}" for t in TABLES),
        "CREATE TABLE parent (id INT PRIMARY KEY, code INT NOT NULL, UNIQUE KEY always (code))",
        "CREATE TABLE child (id INT PRIMARY KEY, pid INT, code INT, KEY (code), "
        "CONSTRAINT fp FOREIGN KEY (pid) REFERENCES parent (id))",
    )


ORPHANS = (
    "SELECT COUNT(*) FROM child c LEFT JOIN parent p ON p.{0} = c.{1} "
    "WHERE c.{1} IS NOT NULL AND p.{0} IS NULL"
)


def whole(nodes: Nodes, writers: dict[str, list[Writer]]) -> None:
    """Everything has ended, and holds."""
    node = nodes.living()[0]
    until(lambda: not unfinished(node), PATIENCE_S, f"stuck: {unfinished(node)}")
    for name, kind in asked(node, "SHOW FULL TABLES"):
        if kind == "BASE TABLE":
            asked(node, f"ADMIN CHECK TABLE {name}")
    for table in TABLES:
        found = {
            row[0]: (row[1], int(row[2])) for row in asked(node, f"SELECT id, k, v FROM {table}")
        }
        assert found == expected(writers[table], ROWS)
    assert asked(node, ORPHANS.format("id", "pid")) == [(0,)]
    if "fu" in asked(node, "SHOW CREATE TABLE child")[0][1]:
        assert asked(node, ORPHANS.format("code", "code")) == [(0,)]
    for other in nodes.living()[1:]:
        for table in TABLES:
            assert asked(other, f"SELECT COUNT(*) FROM {table}") == run(
                node, f"SELECT COUNT(*) FROM {table}"
            )


def asked(node: NodeProcess, statement: str) -> list[tuple[Any, ...]]:
    return served(lambda: run(node, statement))


def answers(node: NodeProcess) -> bool:
    try:
        return run(node, "SELECT 1") == [(1,)]
    except pymysql.err.MySQLError as error:
        assert error.args[0] in (*LOST, *SILENT), error
        return False


def unfinished(node: NodeProcess) -> list[dict[str, Any]]:
    return [job for job in jobs(node) if job["END_TIME"] is None]


class Told(NamedTuple):
    """What happened in all."""

    accidents: Counter[str]
    changes: Counter[tuple[str, str]]
    commits: int
    """Of clients, each checked."""

    def __str__(self) -> str:
        ends: Counter[str] = Counter()
        kinds: Counter[str] = Counter()
        for (kind, how), count in self.changes.items():
            ends[how] += count
            if how == "done":
                kinds[kind] += count
        killed = sum(n for kind, n in self.accidents.items() if kind.endswith("killed"))
        return (
            f"{killed} times kill -9 and {self.accidents.total() - killed} sleeps beyond the lease "
            f"({dict(self.accidents)}); {self.changes.total()} changes ({dict(ends)}; done: "
            f"{dict(kinds)}); {self.commits} commits of clients checked"
        )


def play(nodes: Nodes, seed: str, accidents: int, a_round: int, seconds: float) -> Told:
    """Rounds of accidents, each followed by a look at everything."""
    prepare(nodes.slots[0])
    hurt, logs = Accidents(nodes, seed), Logs(nodes)
    told = Told(hurt.seen, Counter(), 0)
    began = time.monotonic()
    deadline = began + seconds
    rounds = 0
    known: dict[tuple[str, int], dict[int, Any]] = {(t, n): {} for t in TABLES for n in range(2)}
    while hurt.count < accidents and (time.monotonic() < deadline or not rounds):
        rounds += 1
        writers = {
            t: [
                Writer(nodes, t, n, 2, ROWS // 2, known[t, n], SILENT, True, 2 * REST_S)
                for n in range(2)
            ]
            for t in TABLES
        }
        others: list[Client] = [
            Changer(nodes, f"{seed} {rounds} {n}", hurt.changed) for n in range(2)
        ]
        others += [Family(nodes, f"{seed} {rounds} {n}") for n in range(2)]
        hurt.happen(min(a_round, accidents - hurt.count), deadline)
        clients = [*others, *writers["t0"], *writers["t1"]]
        for each in clients:
            each.stop()
        for node in nodes.living():
            until(lambda node=node: answers(node), PATIENCE_S, "a node does not serve again")
        errors = [error for each in clients for error in each.errors] + logs.faults()
        assert not errors, f"{len(errors)} errors: {errors[:20]}"
        whole(nodes, writers)
        for t in TABLES:
            for n, writer in enumerate(writers[t]):
                known[t, n] = writer.changed
        commits = sum(each.commits for each in others) + sum(
            each.written for t in TABLES for each in writers[t]
        )
        told = Told(
            hurt.seen, sum((each.ended for each in others), told.changes), told.commits + commits
        )
        print(f"{time.monotonic() - began:.0f} s: {told}", flush=True)
    ends = Counter(f"{job['STATE']}" for job in jobs(nodes.living()[0], 1_000_000))
    print(f"jobs by their ends: {dict(ends)}")
    return told


@pytest.fixture
def nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Nodes]:
    with nodes_to_hurt(tmp_path, monkeypatch, 2, LEASE_S, HURRIED) as running:
        yield running


@pytest.mark.long
def test_a_few_accidents_lose_nothing_and_leave_no_job_behind(nodes: Nodes) -> None:
    told = play(nodes, f"{SEED}", accidents=8, a_round=8, seconds=60)
    assert told.accidents.total() >= 5
    assert told.commits > 20


@pytest.mark.torture
def test_accidents_for_as_long_as_asked_lose_nothing(nodes: Nodes) -> None:
    most = int(os.environ.get("ACCIDENTS", "1000000"))
    told = play(nodes, f"{SEED}", most, a_round=40, seconds=torture_s("accidents"))
    assert told.accidents.total() > 10
