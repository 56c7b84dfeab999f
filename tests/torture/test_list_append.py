"""Clients append to lists on two nodes while their table is changed and nodes are killed.

Each read names its whole past, so lost, doubled, half seen and reordered writes show themselves.

    a list        one row; its value names every append in order, so each read tells its whole past
    a writer      appends to one or two lists, or reads one FOR UPDATE and appends to it
    a reader      reads all lists in one snapshot

`violations` says what of it nobody may ever see, whatever was killed or changed meanwhile.
"""

import itertools
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pymysql
import pytest

from support.node_processes import NodeProcess, until
from support.torture import Nodes, nodes_to_hurt, run

Lists = dict[int, tuple[int, ...]]
OK, FAILED, UNKNOWN = "ok", "failed", "unknown"


class Write(NamedTuple):
    """A transaction that appended; times are of one monotonic clock. Unit: s.

    `locked`: what it read FOR UPDATE of the lists it appended to."""

    began: float
    ended: float
    outcome: str
    appends: dict[int, int]
    locked: Lists


class Read(NamedTuple):
    """A snapshot of all lists."""

    began: float
    ended: float
    lists: Lists


def violations(writes: list[Write], reads: list[Read], final: Lists) -> list[str]:
    """What was wrong; empty if nothing was."""
    place = {value: (key, at) for key, values in final.items() for at, value in enumerate(values)}
    honest = [read for read in reads if not list(_no_prefix([read], final))]
    return [
        *_twice(final),
        *_outcomes(writes, place),
        *_locked(writes, place),
        *_no_prefix(reads, final),
        *_half_seen(writes, honest, place),
        *_unordered(honest),
        *_too_old(writes, honest, place),
    ]


def _twice(final: Lists) -> Iterator[str]:
    seen = Counter(value for values in final.values() for value in values)
    yield from (f"{value} was appended {n} times" for value, n in seen.items() if n > 1)


def _outcomes(writes: list[Write], place: dict[int, tuple[int, int]]) -> Iterator[str]:
    """Acknowledged appends are there, refused ones are not, no transaction is there by half."""
    for write in writes:
        there = [place.get(value, (None, 0))[0] == key for key, value in write.appends.items()]
        if write.outcome == OK and not all(there):
            yield f"lost: {write}"
        if write.outcome == FAILED and any(there):
            yield f"refused, but there: {write}"
        if any(there) and not all(there):
            yield f"half there: {write}"


def _locked(writes: list[Write], place: dict[int, tuple[int, int]]) -> Iterator[str]:
    """What was read FOR UPDATE was the newest: the append stands right behind it."""
    for write in writes:
        for key, before in write.locked.items():
            found = place.get(write.appends[key])
            if found is not None and found[1] != len(before):
                yield f"lost update: {write} stands at {found}"


def _no_prefix(reads: list[Read], final: Lists) -> Iterator[str]:
    """Nobody sees what is not committed, or another order."""
    for read in reads:
        for key, values in read.lists.items():
            if final[key][: len(values)] != values:
                yield f"list {key} was read as {values[-5:]} ({len(values)})"


def _half_seen(
    writes: list[Write], reads: list[Read], place: dict[int, tuple[int, int]]
) -> Iterator[str]:
    """A snapshot has a transaction whole or not at all."""
    whole = [write for write in writes if len(write.appends) > 1 and write.outcome != FAILED]
    for write in whole:
        spots = [place[value] for value in write.appends.values() if value in place]
        for read in reads:
            seen = {len(read.lists[key]) > at for key, at in spots}
            if len(seen) > 1:
                yield f"half seen: {write}"


def _unordered(reads: list[Read]) -> Iterator[str]:
    """Commits have one order for all: of two snapshots one is the older in every list."""
    sizes = sorted([len(values) for _, values in sorted(read.lists.items())] for read in reads)
    for one, other in pairwise(sorted(sizes, key=sum)):
        if any(a > b for a, b in zip(one, other, strict=True)):
            yield f"snapshots without order: {one} {other}"


def _too_old(
    writes: list[Write], reads: list[Read], place: dict[int, tuple[int, int]]
) -> Iterator[str]:
    """What was acknowledged before a transaction began is seen by it, on any node."""
    done = sorted((write for write in writes if write.outcome == OK), key=lambda w: w.ended)
    least = dict.fromkeys(reads[0].lists, 0) if reads else {}
    at = 0
    for read in sorted(reads, key=lambda r: r.began):
        while at < len(done) and done[at].ended < read.began:
            for value in done[at].appends.values():
                key, position = place.get(value, (None, 0))
                if key is not None:
                    least[key] = max(least[key], position + 1)
            at += 1
        for key, count in least.items():
            if len(read.lists[key]) < count:
                yield f"list {key}: {len(read.lists[key])} of {count} acknowledged appends seen"


# -- clients ---------------------------------------------------------------------------------------

LISTS = 6
GONE = (0, 2003, 2006, 2013)
CONFLICT = 1213


class Client:
    """One connection at a time, on a living node; what it did."""

    _values = itertools.count(1)

    def __init__(self, nodes: Nodes, number: int) -> None:
        self.writes: list[Write] = []
        self.reads: list[Read] = []
        self.errors: list[str] = []
        self.conflicts = 0
        self._nodes, self._number = nodes, number
        self._chance = random.Random(number)
        self._stopping = threading.Event()
        self._node: NodeProcess | None = None
        self._connection: pymysql.Connection | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Finish the transaction under way."""
        self._stopping.set()
        self._thread.join(60)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        while not self._stopping.wait(0.004):
            try:
                cursor = self._connected().cursor()
                if self._chance.random() < 0.3:
                    self._read(cursor)
                else:
                    self._write(cursor)
            except pymysql.err.MySQLError as error:
                if not self._was_killed(error):
                    self.errors.append(repr(error))
        self._hang_up()

    def _read(self, cursor: pymysql.cursors.Cursor) -> None:
        began = time.monotonic()
        cursor.execute("BEGIN")
        lists: Lists = {}
        for half in ("<", ">="):  # two statements, one snapshot
            cursor.execute(f"SELECT id, items FROM lists WHERE id {half} {LISTS // 2}")
            lists |= {key: _values(items) for key, items in cursor.fetchall()}
        cursor.execute("COMMIT")
        self.reads.append(Read(began, time.monotonic(), lists))

    def _write(self, cursor: pymysql.cursors.Cursor) -> None:
        began, outcome = time.monotonic(), FAILED
        keys = sorted(self._chance.sample(range(LISTS), self._chance.choice((1, 1, 2))))
        appends = {key: next(self._values) for key in keys}
        locked: Lists = {}
        try:
            cursor.execute("BEGIN")
            for key, value in appends.items():
                if self._chance.random() < 0.4:
                    cursor.execute("SELECT items FROM lists WHERE id = %s FOR UPDATE", (key,))
                    locked[key] = _values(cursor.fetchall()[0][0])
                text = "UPDATE lists SET items = CONCAT(items, %s) WHERE id = %s"
                cursor.execute(text, (f"{value},", key))
            outcome = UNKNOWN
            cursor.execute("COMMIT")
            outcome = OK
        except pymysql.err.OperationalError as error:
            if error.args[0] == CONFLICT:  # of a client of the other node
                self.conflicts += 1
                outcome = FAILED
            elif not self._was_killed(error):
                raise
        finally:
            self.writes.append(Write(began, time.monotonic(), outcome, appends, locked))

    def _was_killed(self, error: pymysql.err.MySQLError) -> bool:
        """Whether its node was killed; it looks for another one then."""
        if self._node not in self._nodes.killed or error.args[0] not in GONE:
            return False
        self._hang_up()
        return True

    def _connected(self) -> pymysql.Connection:
        if self._connection is None:
            living = self._nodes.living()
            self._node = living[self._number % len(living)]
            self._connection = self._node.connect("test", autocommit=True, read_timeout=60)
        return self._connection

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.break_off()
            self._connection = None


def _values(items: str) -> tuple[int, ...]:
    return tuple(map(int, items.split(",")[:-1]))


def all_lists(node: NodeProcess) -> Lists:
    """What stands there in the end."""
    with node.connect("test") as connection, connection.cursor() as cursor:
        cursor.execute("SELECT id, items FROM lists")
        return {key: _values(items) for key, items in cursor.fetchall()}


# -- what holds ------------------------------------------------------------------------------------

CLIENTS = 6
WRITES = 1500
CHANGES = [
    "ALTER TABLE lists ADD COLUMN c INT NOT NULL DEFAULT 7",
    "ALTER TABLE lists ADD INDEX by_c (c, id)",
    "ALTER TABLE lists MODIFY c BIGINT NOT NULL DEFAULT 7",
    "ALTER TABLE lists ADD UNIQUE once (id, c), ALTER INDEX by_c INVISIBLE",
    "ALTER TABLE lists MODIFY c VARCHAR(9) NOT NULL DEFAULT '7'",
    "ALTER TABLE lists DROP INDEX by_c, DROP INDEX once",
    "ALTER TABLE lists DROP COLUMN c",
]


class Changer:
    """Runs the changes round and round on a node that lives."""

    def __init__(self, nodes: Nodes) -> None:
        self.done = 0
        self.errors: list[str] = []
        self._nodes = nodes
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def another(self) -> None:
        """Wait until one more is done."""
        before = self.done
        until(lambda: self.done > before or self.errors, 60)

    def stop(self) -> None:
        """Finish the change under way."""
        self._stopping.set()
        self._thread.join(90)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        for text in itertools.cycle(CHANGES):
            if self._stopping.is_set():
                return
            try:
                run(self._nodes.slots[0], text)
                if "c" in {row[0] for row in run(self._nodes.slots[0], "DESCRIBE lists")}:
                    seen = run(self._nodes.slots[0], "SELECT DISTINCT c FROM lists")
                    assert [str(value) for (value,) in seen] == ["7"], seen
                self.done += 1
            except Exception as error:
                self.errors.append(f"{text}: {error!r}")
                return


def more(clients: list[Client], count: int) -> None:
    """Wait until they have done so many more transactions."""

    def done() -> int:
        return sum(len(client.writes) for client in clients)

    before = done()
    until(lambda: done() >= before + count, 60)


@pytest.mark.long
def test_no_append_is_lost_doubled_or_half_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with nodes_to_hurt(tmp_path, monkeypatch) as nodes:
        run(nodes.slots[0], "CREATE TABLE lists (id INT PRIMARY KEY, items MEDIUMTEXT NOT NULL)")
        empty = ",".join(f"({n}, '')" for n in range(LISTS))
        run(nodes.slots[0], f"INSERT INTO lists VALUES {empty}")
        clients = [Client(nodes, number) for number in range(CLIENTS)]
        changer = Changer(nodes)
        for accident in (nodes.kill_front, nodes.kill_node):
            more(clients, WRITES // 3)
            changer.another()
            accident(1)
            nodes.begin_again(1).wait_ready()
        more(clients, WRITES // 3)
        changer.stop()
        for client in clients:
            client.stop()
        final = all_lists(nodes.slots[0])
        run(nodes.slots[0], "ADMIN CHECK TABLE lists")
    writes = [write for client in clients for write in client.writes]
    reads = [read for client in clients for read in client.reads]
    outcomes = {name: sum(w.outcome == name for w in writes) for name in (OK, FAILED, UNKNOWN)}
    print(f"\n{outcomes}, {len(reads)} snapshots, {changer.done} changes")
    assert changer.errors == []
    assert [error for client in clients for error in client.errors] == []
    assert violations(writes, reads, final) == []
    assert outcomes[OK] > WRITES // 2 and len(reads) > 100 and changer.done > len(CHANGES)


def at(time_s: float, outcome: str, **appends: int) -> Write:
    """A short transaction; a=1 appends 1 to list 0, b=2 appends 2 to list 1."""
    lists = {"ab".index(name): value for name, value in appends.items()}
    return Write(time_s, time_s + 0.1, outcome, lists, {})


@pytest.mark.parametrize(
    ("writes", "reads", "final", "found"),
    [
        ([at(1, OK, a=1)], [], {0: (), 1: ()}, "lost"),
        ([at(1, OK, a=1)], [], {0: (1, 1), 1: ()}, "appended 2 times"),
        ([at(1, FAILED, a=1)], [], {0: (1,), 1: ()}, "refused, but there"),
        ([at(1, UNKNOWN, a=1, b=2)], [], {0: (1,), 1: ()}, "half there"),
        ([at(1, OK, a=1)._replace(locked={0: ()})], [], {0: (9, 1), 1: ()}, "lost update"),
        ([], [Read(1, 2, {0: (7,), 1: ()})], {0: (), 1: ()}, "was read as"),
        ([at(1, OK, a=1, b=2)], [Read(1, 2, {0: (1,), 1: ()})], {0: (1,), 1: (2,)}, "half seen"),
        ([at(1, OK, a=1)], [Read(3, 4, {0: (), 1: ()})], {0: (1,), 1: ()}, "0 of 1"),
        (
            [],
            [Read(1, 2, {0: (1,), 1: ()}), Read(1, 2, {0: (), 1: (2,)})],
            {0: (1,), 1: (2,)},
            "without order",
        ),
    ],
)
def test_a_planted_anomaly_is_found(
    writes: list[Write], reads: list[Read], final: dict[int, tuple[int, ...]], found: str
) -> None:
    assert any(found in each for each in violations(writes, reads, final))
