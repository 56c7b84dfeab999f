"""Fences on PostgreSQL, guarded in both ways that the store knows: gates (advisory locks, which
write nothing and queue), and FOR SHARE (which marks the row, and whoever wants it alone waits for a
moment without sharers).

Eight writers commit without pause, each a row of its own; all require one table's revision and
their member's epoch. Beside them somebody raises the revision five times a second, as the steps of
schema changes do. In turn, so that neither has the quieter machine.

Command: python -m bench.fences postgresql://postgres@127.0.0.1:5432/postgres
"""

import argparse
import itertools
import threading
import time
from typing import NamedTuple
from unittest.mock import patch

import psycopg

from bench.cluster import figure, headline, quantile
from exuvia.base.errors import ExuviaError
from exuvia.kv import keys as k
from exuvia.kv.postgres.server import Server
from exuvia.kv.store import Store, open_store

WRITERS = 8
PAUSE_S = 0.2
WAYS = {True: "gates", False: "FOR SHARE"}
TABLE = 7
EPOCH = k.meta("fence", "writer")


class Run(NamedTuple):
    """Of one turn. Units: s; bytes."""

    commits: int
    refused: int
    seconds: float
    log_bytes: int
    steps: list[float]


def turn(store: Store, server: psycopg.Connection, seconds: float) -> Run:
    """Writers and one who raises the revision, for so long."""
    revision, epoch = k.revision(TABLE), EPOCH
    stop = threading.Event()
    done, refused = [0] * WRITERS, [0] * WRITERS
    numbers = itertools.count(time.time_ns())

    def write(number: int) -> None:
        while not stop.is_set():
            txn = store.begin()
            seen = txn.get(revision)
            assert seen is not None
            txn.require_at_most(revision, k.read_number(seen) + 1)
            txn.require_equal(epoch, b"1")
            txn.put(b"tw" + k.u64(next(numbers)), b"x" * 100)
            try:
                txn.commit()
                done[number] += 1
            except ExuviaError:
                refused[number] += 1

    def log_bytes() -> int:
        found = server.execute("SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint")
        return int((found.fetchone() or (0,))[0])

    writers = [threading.Thread(target=write, args=(n,)) for n in range(WRITERS)]
    steps: list[float] = []
    for each in writers:
        each.start()
    time.sleep(1.0)
    before, counted, began = log_bytes(), sum(done), time.monotonic()
    while time.monotonic() - began < seconds:
        step = time.monotonic()
        txn = store.begin()
        seen = txn.get(revision)
        assert seen is not None
        txn.put(revision, k.number(k.read_number(seen) + 1))
        txn.commit()
        steps.append(time.monotonic() - step)
        stop.wait(PAUSE_S)
    took_s, written = time.monotonic() - began, log_bytes() - before
    committed = sum(done) - counted
    stop.set()
    for each in writers:
        each.join()
    return Run(committed, sum(refused), took_s, written, steps)


def opened(url: str, gated: bool) -> Store:
    """A store whose server has advisory locks, or is taken for one without."""
    if gated:
        return open_store(url)
    with patch.object(Server, "has_gates", return_value=False):
        return open_store(url)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("server", help="postgresql://..., a database that may have a new schema")
    parser.add_argument("--seconds", type=float, default=10, help="of each turn")
    parser.add_argument("--turns", type=int, default=3, help="of each way")
    asked = parser.parse_args()
    headline(f"{WRITERS} writers that require one revision, and steps that raise it")
    server = psycopg.connect(asked.server, autocommit=True)
    runs: dict[bool, list[Run]] = {True: [], False: []}
    for number, gated in itertools.product(range(asked.turns), WAYS):
        schema = f"fences{int(time.time())}_{number}_{int(gated)}"
        joined = "&" if "?" in asked.server else "?"
        store = opened(f"{asked.server}{joined}schema={schema}&connections=72", gated)
        try:
            txn = store.begin()
            txn.put(k.revision(TABLE), k.number(1))
            txn.put(EPOCH, b"1")
            txn.commit()
            runs[gated].append(turn(store, server, asked.seconds))
        finally:
            store.close()
            server.execute(f"DROP SCHEMA {schema} CASCADE".encode())
    for gated, name in WAYS.items():
        of = runs[gated]
        steps = [step for each in of for step in each.steps]
        rates = [each.commits / each.seconds for each in of]
        figure(f"{name}: commits a second, each turn", " ".join(f"{rate:.0f}" for rate in rates))
        figure(
            f"{name}: log (WAL) a commit",
            f"{sum(r.log_bytes for r in of) / sum(r.commits for r in of):.0f} bytes",
        )
        for share in (0.5, 0.99):
            figure(f"{name}: a step, p{share * 100:.0f}", f"{quantile(steps, share) * 1e3:.1f} ms")
        figure(f"{name}: a step, longest of {len(steps)}", f"{max(steps) * 1e3:.1f} ms")
        figure(f"{name}: commits refused", str(sum(r.refused for r in of)))


if __name__ == "__main__":
    main()
