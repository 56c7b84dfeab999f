"""No child without its parent: clients on two nodes write both while both tables change.

    p (id, u, v; unique u1, u2 on u)  <-  c (id, p)  by key k, always there
                                      <-  d (id, p)  by key k, dropped and added again and again

The short form has both nodes in this process and takes seconds. `make torture` has real ones.
"""

import itertools
import random
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pymysql
import pytest

from exuvia.base.errors import Refused
from support.budget import SEED, torture_s
from support.node_processes import NodeProcess
from support.torture import nodes_to_hurt
from support.world import World

Execute = Callable[[str], Sequence[Sequence[Any]]]
Connect = Callable[[], Execute]

TABLES = (
    "CREATE TABLE p (id INT PRIMARY KEY, u INT, v INT, UNIQUE u1 (u), UNIQUE u2 (u))",
    "CREATE TABLE c (id INT PRIMARY KEY, p INT, KEY i1 (p), KEY i2 (p),"
    " CONSTRAINT k FOREIGN KEY (p) REFERENCES p (u))",
    "CREATE TABLE d (id INT PRIMARY KEY, p INT, KEY i1 (p))",
)
ON_PARENT = (
    "ALTER TABLE p DROP INDEX u1",
    "ALTER TABLE p ADD UNIQUE u1 (u)",
    "ALTER TABLE p DROP INDEX u2",
    "ALTER TABLE p ADD COLUMN w INT DEFAULT 7",
    "ALTER TABLE p ADD UNIQUE u2 (u)",
    "ALTER TABLE p DROP COLUMN w",
)
ON_CHILD = (
    "ALTER TABLE c DROP INDEX i1",
    "ALTER TABLE c ADD INDEX i1 (p, id)",
    "ALTER TABLE c DROP INDEX i2",
    "ALTER TABLE c ADD INDEX i2 (p)",
)
KEY = "ALTER TABLE d ADD CONSTRAINT k FOREIGN KEY (p) REFERENCES p (u)"
ORPHANS = "SELECT c.* FROM c LEFT JOIN p ON c.p = p.u WHERE c.p IS NOT NULL AND p.u IS NULL"
PARENTS = range(6)
LOST = (1062, 1205, 1213, 1451, 1452, 8028)


class Failed(Exception):
    """A statement was refused."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(code, text)
        self.code = code


class Judge:
    """Threads until `stop`; then `wrong` says what did not hold, and `done` counts what was."""

    def __init__(self, connects: Sequence[Connect], seed: int, clients: int) -> None:
        self._connects = connects
        self._stopping = threading.Event()
        self.wrong: list[str] = []
        self.done: Counter[str] = Counter()
        execute = connects[0]()
        for text in TABLES:
            execute(text)
        self._threads = [
            threading.Thread(target=self._guarded, args=(work, n, seed), daemon=True)
            for n, work in enumerate(
                [self._write] * clients
                + [self._change(ON_PARENT), self._change(ON_CHILD), self._key, self._look]
            )
        ]
        for each in self._threads:
            each.start()

    def wait(self, seconds: float) -> None:
        """As long, or until something is wrong."""
        for _ in range(int(seconds * 10)):
            if self.wrong or self._stopping.wait(0.1):
                return

    def stop(self) -> None:
        """End what is under way, and look for the last time."""
        self._stopping.set()
        for each in self._threads:
            each.join(120)
            if each.is_alive():
                self.wrong.append("a client did not end")
        execute = self._connects[0]()
        self._check(execute, "p, c")
        self._orphans(execute)

    def _guarded(self, work: Callable[[Execute, random.Random], None], n: int, seed: int) -> None:
        chance = random.Random(f"{seed} {n}")
        try:
            execute = self._connects[n % len(self._connects)]()
            while not self._stopping.is_set() and not self.wrong:
                work(execute, chance)
        except Exception as error:
            self.wrong.append(repr(error))

    def _write(self, execute: Execute, chance: random.Random) -> None:
        """A transaction of a few statements; some are open for long."""
        kind = chance.choice(("PESSIMISTIC", "PESSIMISTIC", "OPTIMISTIC"))
        try:
            execute(f"BEGIN {kind}")
            for _ in range(chance.randrange(1, 4)):
                execute(self._statement(chance))
            if chance.random() < 0.1:
                self._stopping.wait(chance.random() * 0.3)
            execute("COMMIT")
            self.done["commits"] += 1
        except Failed as failed:
            self.done[f"refused {failed.code}"] += 1
            execute("ROLLBACK")
            if failed.code not in LOST:
                raise

    def _statement(self, chance: random.Random) -> str:
        u, n = chance.choice(PARENTS), chance.randrange(1000)
        return chance.choice(
            (
                f"INSERT INTO p (id, u, v) VALUES ({u}, {u}, {n})",
                f"DELETE FROM p WHERE u = {u}",
                f"DELETE FROM p WHERE id = {u}",
                f"UPDATE p SET v = {n} WHERE u = {u}",
                f"INSERT INTO c VALUES ({n}, {u})",
                f"INSERT INTO c VALUES ({n}, {u})",
                f"INSERT INTO d SELECT {n}, u FROM p WHERE u = {u}",
                f"UPDATE c SET p = {u} WHERE id >= {n} LIMIT 1",
                f"DELETE FROM {chance.choice('cd')} WHERE p = {u}",
            )
        )

    def _change(self, texts: Sequence[str]) -> Callable[[Execute, random.Random], None]:
        following = itertools.cycle(texts)

        def change(execute: Execute, chance: random.Random) -> None:
            execute(next(following))
            self.done["changes"] += 1

        return change

    def _key(self, execute: Execute, chance: random.Random) -> None:
        """Without orphans the key is added, or 1452; with it there are none."""
        execute("DELETE FROM d WHERE p NOT IN (SELECT u FROM p)")
        try:
            execute(KEY)
        except Failed as failed:
            if failed.code != 1452:
                raise
            self.done["key refused"] += 1
            return
        self._check(execute, "d")
        self.done["key added"] += 1
        execute("ALTER TABLE d DROP FOREIGN KEY k")

    def _look(self, execute: Execute, chance: random.Random) -> None:
        self._orphans(execute)
        self._check(execute, "p, c")
        self._stopping.wait(0.1)

    def _orphans(self, execute: Execute) -> None:
        found = execute(ORPHANS)
        if found:
            self.wrong.append(f"without a parent: {[list(row) for row in found]}")
        self.done["looks"] += 1

    def _check(self, execute: Execute, tables: str) -> None:
        try:
            execute(f"ADMIN CHECK TABLE {tables}")
        except Failed as failed:
            self.wrong.append(f"ADMIN CHECK TABLE {tables}: {failed}")


# -- what holds ------------------------------------------------------------------------------------

SHORT_S = 4.0


def inside(world: World) -> Connect:
    def connect() -> Execute:
        session = world.session("test")

        def execute(text: str) -> list[list[object]]:
            try:
                found = session.execute(text)
            except Refused as refused:
                raise Failed(refused.code, f"{text}: {refused}") from refused
            assert not isinstance(found, list)
            return [list(row) for row in found.rows]

        return execute

    return connect


def outside(node: NodeProcess) -> Connect:
    def connect() -> Execute:
        connection = node.connect("test", autocommit=True, read_timeout=120)

        def execute(text: str) -> tuple[tuple[object, ...], ...]:
            try:
                with connection.cursor() as cursor:
                    cursor.execute(text)
                    return tuple(cursor.fetchall())
            except pymysql.err.MySQLError as error:
                raise Failed(error.args[0], f"{text}: {error}") from error

        return execute

    return connect


def judged(connects: list[Connect], clients: int, seconds: float) -> Judge:
    judge = Judge(connects, SEED, clients)
    judge.wait(seconds)
    judge.stop()
    print(f"\nSEED={SEED}: {dict(judge.done)}")
    assert judge.wrong == []
    return judge


def test_no_child_is_left_without_its_parent_in_short() -> None:
    with World() as one, World(one.store, owns=False) as other:
        done = judged([inside(one), inside(other)], 3, SHORT_S).done
    assert done["commits"] > 20 and done["changes"] >= 2 and done["looks"] > 2


@pytest.mark.torture
def test_no_child_is_left_without_its_parent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = torture_s("foreign keys")
    with nodes_to_hurt(tmp_path, monkeypatch) as nodes:
        connects = [outside(node) for node in nodes.slots]
        done = judged(connects, 6, seconds).done
    assert done["commits"] > 3 * seconds and done["changes"] > 3
    assert done["key added"] or seconds < 33
