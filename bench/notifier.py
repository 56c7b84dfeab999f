"""Events through two handlers, exactly once, while the process that tells them is killed.

Real processes on one LMDB store: one owns, one stands by; the owner gets SIGKILL ten times, the
other takes over and a new one stands by. The effect of a handler is a counter in the store, so an
event that was taken twice or never is seen in the end. Goal: 2,000 events/s, kills included.
Command: python -m bench.notifier --events 50000
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

from bench.cluster import figure, headline
from exuvia.base.clock import SystemClock
from exuvia.catalog.bootstrap import bootstrap
from exuvia.catalog.system_tables import SYSTEM, TEST_ID, table
from exuvia.cluster import member as members
from exuvia.cluster.member import Member
from exuvia.cluster.owner import Campaign, owner_of
from exuvia.events import notifier, schema_change
from exuvia.events.notifier import Handler, Notifier
from exuvia.events.schema_change import SchemaChange
from exuvia.kv import keys
from exuvia.kv.store import Store, open_store
from exuvia.kv.transaction import Transaction
from exuvia.node.assemble import Loops

HANDLERS = (1, 3)
FIRST_JOB = 1000
BATCH = 500
LEASE_S = 5.0
PATIENCE_S = 600.0
EVENTS = keys.span_of(keys.row_prefix(SYSTEM[notifier.TABLE].id))


def ledger(number: int) -> Handler:
    """A handler that counts in the store how often it took each event."""

    def take(txn: Transaction, change: SchemaChange) -> None:
        key = b"zz/" + keys.u64(number) + keys.u64(change.origin[0])
        txn.put(key, keys.number(keys.read_number(txn.get(key)) + 1))

    return take


def candidate(url: str) -> None:
    """A process that would own statistics; it runs until it is killed."""
    store, clock = open_store(url), SystemClock()
    member = Member.join(store, clock, "back", "127.0.0.1:0", LEASE_S)
    campaign = Campaign(store, member, "stats")
    notifier = Notifier(store, campaign)
    for number in HANDLERS:
        notifier.register(number, f"ledger {number}", ledger(number))
    Loops(store, clock, lambda name: os._exit(70)).start(member, campaign, notifier)
    signal.pause()


def tell(store: Store, events: int) -> None:
    """Jobs end: their events, some hundred a transaction."""
    made = table(FIRST_JOB, "t", "a bigint", "b bigint", database_id=TEST_ID)
    change = schema_change.create_table(made)
    for first in range(0, events, BATCH):
        txn = store.begin()
        for n in range(first, min(first + BATCH, events)):
            notifier.put(txn, FIRST_JOB + n, notifier.WHOLE_JOB, change)
        txn.commit()


def read(store: Store, look: Callable[[Transaction], int]) -> int:
    """A number from a fresh snapshot."""
    txn = store.begin()
    try:
        return look(txn)
    finally:
        txn.rollback()


def owner_pid(txn: Transaction) -> int:
    """The process of the stats owner, 0 while there is none."""
    held = owner_of(txn, "stats")
    found = None if held is None else members.find(txn, held.member)
    return 0 if found is None else found.pid


class Fleet:
    """An owner and one that stands by."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        for _ in range(2):
            self._begin()

    def _begin(self) -> None:
        command = [sys.executable, "-m", "bench.notifier", "--candidate", self._url]
        child = subprocess.Popen(command)
        self._running[child.pid] = child

    def kill(self, pid: int) -> bool:
        """SIGKILL to one of them; another begins."""
        child = self._running.pop(pid, None)
        if child is None:
            return False
        child.kill()
        child.wait()
        self._begin()
        return True

    def end(self) -> None:
        """All of them."""
        for child in self._running.values():
            child.kill()
            child.wait()


def run(url: str, events: int, kills: int) -> None:
    """Tell, kill, wait for the end, look."""
    store = open_store(url)
    bootstrap(store)
    fleet = Fleet(url)
    try:
        until(lambda: read(store, owner_pid) != 0)
        began = time.perf_counter()
        tell(store, events)
        left = store.count(EVENTS)
        killed = 0
        while left:
            left = store.count(EVENTS)
            due = (events - left) * (kills + 1) // events
            if killed < min(due, kills):
                killed += fleet.kill(read(store, owner_pid))
            time.sleep(0.005)
        took = time.perf_counter() - began
    finally:
        fleet.end()
    figure(f"{events:,} events, {killed} kills", f"{events / took:,.0f} events/s", "2,000 events/s")
    figure("taken twice or never", f"{wrong(store, events)}", "0")
    store.close()


def wrong(store: Store, events: int) -> int:
    """(event, handler) pairs that did not happen exactly once."""

    def look(txn: Transaction) -> int:
        found = {key: keys.read_number(value) for key, value in txn.scan(keys.span_of(b"zz/"))}
        return len(HANDLERS) * events - sum(times == 1 for times in found.values())

    return read(store, look)


def until(condition: Callable[[], bool]) -> None:
    """Wait for it."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.01)


def main() -> None:
    """A fresh store in a temporary directory."""
    options = argparse.ArgumentParser()
    options.add_argument("--events", type=int, default=50_000)
    options.add_argument("--kills", type=int, default=10)
    options.add_argument("--candidate", default="")
    chosen = options.parse_args()
    if chosen.candidate:
        candidate(chosen.candidate)
        return
    headline("events through two handlers, the owner killed again and again")
    with tempfile.TemporaryDirectory(prefix="exuvia-bench-") as folder:
        run(f"lmdb://{folder}/store", chosen.events, chosen.kills)


if __name__ == "__main__":
    main()
