"""Rooms are booked on two nodes by who locks the room FOR UPDATE and finds it free.

Nodes are killed meanwhile. A client locks a room, looks whether somebody has it, thinks, and books
it elsewhere. No room has two bookings for a day, whatever happens to the holder of a lock, and
nobody waits for a dead one. Rooms of odd numbers are rows, those of even ones are not there.
"""

import threading
import time
from pathlib import Path
from random import Random

import pymysql
import pytest

from support.budget import SEED, torture_s
from support.node_processes import until
from support.torture import Nodes, nodes_to_hurt, run

ROOMS, DAYS, CLIENTS = 6, 400, 6
RETRIED = {1205, 1213, 8027, 8028, 1053, 9005, 1026, 1180}
LONGEST_S = 20.0


class Guest(threading.Thread):
    """Books rooms, day after day, on whichever node lives."""

    def __init__(self, nodes: Nodes, number: int, seed: int) -> None:
        super().__init__(daemon=True)
        self.booked = 0
        self.tries = 0
        self.slowest_s = 0.0
        self.errors: list[str] = []
        self._nodes = nodes
        self._number = number
        self._random = Random(seed * 100 + number)
        self._stopping = threading.Event()

    def stop(self) -> None:
        self._stopping.set()
        self.join(60)
        assert not self.is_alive()

    def run(self) -> None:
        while not self._stopping.is_set():
            try:
                node = self._nodes.slots[self._random.randrange(2)]
                connection = node.connect("test")
            except (pymysql.err.MySQLError, OSError):
                self._stopping.wait(0.05)
                continue
            try:
                with connection, connection.cursor() as cursor:
                    for _ in range(20):
                        self._book(cursor)
            except pymysql.err.MySQLError as error:
                if error.args[0] not in RETRIED and error.args[0] not in (0, 2006, 2013):
                    self.errors.append(repr(error))
            except OSError:
                continue

    def _book(self, cursor: pymysql.cursors.Cursor) -> None:
        room, day = self._random.randrange(ROOMS), self._random.randrange(DAYS)
        mode = self._random.choice(("PESSIMISTIC", "PESSIMISTIC", "OPTIMISTIC"))
        began = time.monotonic()
        self.tries += 1
        cursor.execute(f"BEGIN {mode}")
        cursor.execute(f"SELECT * FROM room WHERE id = {room} FOR UPDATE")
        cursor.execute(
            f"SELECT COUNT(*) FROM booking WHERE room = {room} AND day = {day} FOR UPDATE"
        )
        [(count,)] = cursor.fetchall()
        if self._random.random() < 0.2:
            self._stopping.wait(0.01)
        if count == 0:
            cursor.execute(
                f"INSERT INTO booking (room, day, guest) VALUES ({room}, {day}, {self._number})"
            )
        cursor.execute("COMMIT")
        self.booked += count == 0
        self.slowest_s = max(self.slowest_s, time.monotonic() - began)


def more(guests: list[Guest], count: int) -> None:
    """Wait until they have tried so many more."""

    def tries() -> int:
        return sum(guest.tries for guest in guests)

    before = tries()
    until(lambda: tries() > before + count, 60, "nobody books any more")


def play(nodes: Nodes, seconds: float, seed: int) -> None:
    """Book and kill for so long, then look."""
    first, random = nodes.slots[0], Random(seed)
    run(first, "CREATE DATABASE IF NOT EXISTS test")
    run(first, "CREATE TABLE test.room (id INT PRIMARY KEY, name VARCHAR(9))")
    rooms = ",".join(f"({n}, 'r{n}')" for n in range(1, ROOMS, 2))
    run(first, f"INSERT INTO test.room VALUES {rooms}")
    run(
        first,
        "CREATE TABLE test.booking (id BIGINT AUTO_INCREMENT PRIMARY KEY, room INT, day INT,"
        " guest INT, KEY (room, day))",
    )
    guests = [Guest(nodes, number, seed) for number in range(CLIENTS)]
    for guest in guests:
        guest.start()
    kills, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        more(guests, 30)
        slot = random.randrange(2)
        nodes.kill_node(slot)
        nodes.begin_again(slot).wait_ready()
        kills += 1
    for guest in guests:
        guest.stop()
    booked = run(nodes.slots[0], "SELECT room, day, COUNT(*) FROM test.booking GROUP BY room, day")
    run(nodes.slots[0], "ADMIN CHECK TABLE test.booking")
    run(nodes.slots[0], "ADMIN CHECK TABLE test.room")
    tries, sure = sum(guest.tries for guest in guests), sum(guest.booked for guest in guests)
    slowest_s = max(guest.slowest_s for guest in guests)
    print(
        f"\n{tries} tries, {sure} bookings, {kills} kills, slowest {slowest_s:.2f} s, seed {seed}"
    )
    assert [error for guest in guests for error in guest.errors] == []
    assert [row for row in booked if row[2] > 1] == [], "a double booking"
    assert sum(row[2] for row in booked) >= sure
    assert sure > 20 and slowest_s < LONGEST_S


@pytest.mark.long
def test_no_room_is_booked_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with nodes_to_hurt(tmp_path, monkeypatch) as nodes:
        play(nodes, 2.5, 1)


@pytest.mark.torture
def test_no_room_is_booked_twice_for_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with nodes_to_hurt(tmp_path, monkeypatch) as nodes:
        play(nodes, torture_s("bookings"), SEED)
