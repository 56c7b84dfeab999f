"""kill -9 and SIGSTOP at random moments over all kinds of schema changes, with clients beside them.

    clients    rows of two tables, each row's value known to its writer; parents with their children
    changers   one random change after another, on whichever node lives
    accidents  a front, a back or a whole node is killed; a front or a back sleeps beyond its lease

From time to time the accidents stop: every job must end, every table must be whole (ADMIN CHECK
TABLE), hold what its clients wrote, and no child may be without its parent. One seed draws all; the
machine's own timing is not replayed.

`make torture` runs it for a while, `ACCIDENTS=1000 TORTURE_S=3600 make torture` until there were so
many; `make test` has a dozen.
"""

import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pymysql
import pytest

from support.node_processes import NodeProcess, children_of, command_of, until
from support.torture import PATIENCE_S, Nodes, end_by_pid, jobs, nodes_to_hurt, run
from support.torture_clients import Writer, expected

LEASE_S = 2.0
ROWS = 300
TABLES = ("t0", "t1")
LOST = (0, 2003, 2006, 2013)
SILENT = (8027,)  # a member that slept too long, until it has joined again
OVERTAKEN = (8028, 1412, 1213)  # a transaction that a change or another one overtook
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
    1505: "it has no partitions",
    1507: "the partition is gone",
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


class Changer:
    """A client that changes schemas; whoever lost its connection looks at history later."""

    def __init__(self, nodes: Nodes, seed: str) -> None:
        self.errors: list[str] = []
        self.ended: Counter[str] = Counter()
        self._nodes = nodes
        self._chance = random.Random(seed)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """After the change under way."""
        self._stopping.set()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), "a change never ended"

    def _run(self) -> None:
        while not self._stopping.is_set():
            kind, text = self.draw()
            node = self._chance.choice(self._nodes.living())
            try:
                run(node, text)
                self.ended[kind] += 1
            except pymysql.err.MySQLError as error:
                code = error.args[0]
                if code not in (*LOST, *SILENT, *OVERTAKEN, *RACED):
                    self.errors.append(f"{text}: {error!r}")
                self._stopping.wait(0.05)

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


class Family:
    """A client that adds parents with children, and removes parents; a refusal is an answer."""

    def __init__(self, nodes: Nodes, seed: str) -> None:
        self.errors: list[str] = []
        self.commits = 0
        self._nodes = nodes
        self._chance = random.Random(seed)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """After the transaction under way."""
        self._stopping.set()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        while not self._stopping.wait(0.02):
            try:
                self._once(self._chance.choice(self._nodes.living()))
                self.commits += 1
            except pymysql.err.MySQLError as error:
                if error.args[0] not in (*LOST, *SILENT, *OVERTAKEN, 1205, 1451, 1452, 1062):
                    self.errors.append(repr(error))

    def _once(self, node: NodeProcess) -> None:
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
    """What happens to whom, by seed."""

    def __init__(self, nodes: Nodes, seed: str) -> None:
        self.seen: Counter[str] = Counter()
        self._nodes = nodes
        self._chance = random.Random(seed)
        self._wait = threading.Event().wait

    def happen(self, count: int, until_s: float) -> None:
        """`count` accidents, or what comes before the time is up (monotonic)."""
        for _ in range(count):
            if time.monotonic() > until_s:
                return
            self._wait(self._chance.uniform(0.02, 0.7))
            slot = self._chance.randrange(len(self._nodes.slots))
            kind = self._chance.choices(
                ("front killed", "back killed", "node killed", "front sleeps", "back sleeps"),
                (3, 4, 2, 1, 1),
            )[0]
            if self._hit(kind, slot):
                self.seen[kind] += 1

    def _hit(self, kind: str, slot: int) -> bool:
        node = self._nodes.slots[slot]
        if kind == "node killed":
            self._nodes.kill_node(slot)
            self._nodes.begin_again(slot).wait_ready(PATIENCE_S)
            return True
        victim = node.pid if kind.startswith("front") else back_of(node)
        if not victim:
            return False  # it is being started again
        return self._sleeps(victim) if kind.endswith("sleeps") else end_by_pid(victim)

    def _sleeps(self, pid: int) -> bool:
        """For longer than the lease."""
        if not end_by_pid(pid, signal.SIGSTOP):
            return False
        self._wait(LEASE_S * self._chance.uniform(1.2, 2.0))
        end_by_pid(pid, signal.SIGCONT)
        return True


def back_of(node: NodeProcess) -> int:
    """The pid of its back; 0 while there is none."""
    for front in children_of(node.process.pid):
        for child in children_of(front):
            if "exuvia.node.back" in command_of(child):
                return child
    return 0


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
    for name, kind in run(node, "SHOW FULL TABLES"):
        if kind == "BASE TABLE":
            run(node, f"ADMIN CHECK TABLE {name}")
    for table in TABLES:
        found = {
            row[0]: (row[1], int(row[2])) for row in run(node, f"SELECT id, k, v FROM {table}")
        }
        assert found == expected(writers[table], ROWS)
    assert run(node, ORPHANS.format("id", "pid")) == [(0,)]
    if "fu" in run(node, "SHOW CREATE TABLE child")[0][1]:
        assert run(node, ORPHANS.format("code", "code")) == [(0,)]
    for other in nodes.living()[1:]:
        for table in TABLES:
            assert run(other, f"SELECT COUNT(*) FROM {table}") == run(
                node, f"SELECT COUNT(*) FROM {table}"
            )


def answers(node: NodeProcess) -> bool:
    try:
        return run(node, "SELECT 1") == [(1,)]
    except pymysql.err.MySQLError as error:
        assert error.args[0] in (*LOST, *SILENT), error
        return False


def unfinished(node: NodeProcess) -> list[dict[str, Any]]:
    return [job for job in jobs(node) if job["END_TIME"] is None]


def play(nodes: Nodes, seed: str, accidents: int, a_round: int, seconds: float) -> Counter[str]:
    """Rounds of accidents, each followed by a look at everything; what happened."""
    prepare(nodes.slots[0])
    hurt = Accidents(nodes, seed)
    writers: dict[str, list[Writer]] = {t: [] for t in TABLES}
    done: Counter[str] = Counter()
    deadline = time.monotonic() + seconds
    rounds = 0
    known: dict[tuple[str, int], dict[int, Any]] = {(t, n): {} for t in TABLES for n in range(2)}
    while sum(hurt.seen.values()) < accidents and (time.monotonic() < deadline or not rounds):
        rounds += 1
        for t in TABLES:
            writers[t] = [
                Writer(nodes, t, n, 2, ROWS // 2, known[t, n], SILENT, True) for n in range(2)
            ]
        others = [Changer(nodes, f"{seed} {rounds} {n}") for n in range(2)]
        others += [Family(nodes, f"{seed} {rounds} {n}") for n in range(2)]
        hurt.happen(min(a_round, accidents - sum(hurt.seen.values())), deadline)
        clients = [*others, *writers["t0"], *writers["t1"]]
        for each in clients:
            each.stop()
        for node in nodes.living():
            until(lambda node=node: answers(node), PATIENCE_S, "a node does not serve again")
        errors = [error for each in clients for error in each.errors]
        assert not errors, f"{len(errors)} errors: {errors[:20]}"
        for other in others:
            done += getattr(other, "ended", Counter())
        whole(nodes, writers)
        for t in TABLES:
            for n, writer in enumerate(writers[t]):
                known[t, n] = writer.changed
        print(
            f"{sum(hurt.seen.values())} accidents {dict(hurt.seen)}, {sum(done.values())} changes"
        )
    return hurt.seen + done


@pytest.fixture
def nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Nodes]:
    with nodes_to_hurt(tmp_path, monkeypatch, lease_s=LEASE_S) as running:
        yield running


def test_a_dozen_accidents_lose_nothing_and_leave_no_job_behind(nodes: Nodes) -> None:
    seen = play(nodes, os.environ.get("SEED", "1"), accidents=12, a_round=12, seconds=60)
    assert sum(n for kind, n in seen.items() if "killed" in kind or "sleeps" in kind) >= 8


@pytest.mark.torture
def test_accidents_for_as_long_as_asked_lose_nothing(nodes: Nodes) -> None:
    seconds = float(os.environ.get("TORTURE_S", "120"))
    most = int(os.environ.get("ACCIDENTS", "1000000"))
    seen = play(nodes, os.environ.get("SEED", "1"), most, a_round=25, seconds=seconds)
    assert sum(seen.values()) > 10
    print(dict(seen))
