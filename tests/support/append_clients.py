"""Clients that append to lists through accidents and schema changes, and keep their history."""

import itertools
import random
import threading
import time

import pymysql

from support.appends import FAILED, OK, UNKNOWN, Lists, Read, Write
from support.node_processes import NodeProcess
from support.torture import Nodes

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
            self._connection._force_close()
            self._connection = None


def _values(items: str) -> tuple[int, ...]:
    return tuple(map(int, items.split(",")[:-1]))


def all_lists(node: NodeProcess) -> Lists:
    """What stands there in the end."""
    with node.connect("test") as connection, connection.cursor() as cursor:
        cursor.execute("SELECT id, items FROM lists")
        return {key: _values(items) for key, items in cursor.fetchall()}
