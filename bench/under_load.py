"""A fill under load: clients arrive at a fixed rate (open loop) while indexes are built.

A closed loop hides stalls, because a slow answer delays the next question; here each transaction
has an appointed time, and its latency counts from then. First the clients alone, then the same with
ADD INDEX and DROP INDEX repeated for the whole time. Goals: no client error, and a p99 at most
twice that without the fill. What the job is at is read from the store ten times a second, so that
each phase shows its own p99.
"""

import argparse
import json
import random
import subprocess
import sys
import threading
import time
from bisect import bisect_right
from typing import Any

import pymysql

from bench.cluster import Cluster, cluster, figure, headline, quantile
from exuvia.ddl import queue
from exuvia.ddl.job import Job
from exuvia.kv.store import open_store

CLIENTS = 4
LOOK_S = 0.1
RETRY = {1213, 1412, 8028, 9007}


def transaction(cursor: Any, rng: random.Random, rows: int) -> None:
    """Like sysbench's oltp_read_write, a third of its size."""
    cursor.execute("BEGIN")
    for _ in range(3):
        cursor.execute("SELECT c FROM sbtest1 WHERE id = %s", (rng.randrange(1, rows),))
    low = rng.randrange(1, rows - 20)
    cursor.execute("SELECT SUM(k) FROM sbtest1 WHERE id BETWEEN %s AND %s", (low, low + 19))
    one, other, moved = rng.sample(range(1, rows), 3)
    cursor.execute("UPDATE sbtest1 SET k = k + 1 WHERE id = %s", (one,))
    cursor.execute("UPDATE sbtest1 SET c = %s WHERE id = %s", (f"{rng.random():.17f}", other))
    cursor.execute("DELETE FROM sbtest1 WHERE id = %s", (moved,))
    values = (moved, rng.randrange(1, rows), "c" * 119, "p" * 59)
    cursor.execute("INSERT INTO sbtest1 (id, k, c, pad) VALUES (%s, %s, %s, %s)", values)
    cursor.execute("COMMIT")


def client(port: int, seed: int, rate: float, seconds: float, rows: int) -> None:
    """One client process; prints when each was due and its latency (ms), retries and errors as
    JSON."""
    connection = pymysql.connect(
        host="127.0.0.1", port=port, user="root", database="sbtest", autocommit=True
    )
    rng, latencies, errors, retries = random.Random(seed), [], [], 0
    begin = time.monotonic() + rng.random() / rate
    for n in range(int(seconds * rate)):
        due = begin + n / rate
        time.sleep(max(0.0, due - time.monotonic()))
        try:
            with connection.cursor() as cursor:
                for _ in range(50):
                    try:
                        transaction(cursor, rng, rows)
                        break
                    except pymysql.err.MySQLError as error:
                        if error.args[0] not in RETRY:
                            raise
                        retries += 1
                        cursor.execute("ROLLBACK")
        except pymysql.err.MySQLError as error:
            errors.append(str(error.args))
        latencies.append((due, (time.monotonic() - due) * 1000))
    sys.stdout.write(json.dumps({"latencies": latencies, "errors": errors, "retries": retries}))


def load(running: Cluster, rate: float, seconds: float, rows: int) -> dict[str, list[Any]]:
    """Run all clients and gather what they print."""
    processes = []
    for seed in range(CLIENTS):
        port = running.nodes[seed % len(running.nodes)].port
        command = [sys.executable, "-m", "bench.under_load", "--client", str(port), str(seed)]
        command += [str(rate / CLIENTS), str(seconds), str(rows)]
        processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
    gathered: dict[str, list[Any]] = {"latencies": [], "errors": [], "retries": []}
    for process in processes:
        report = json.loads(process.communicate()[0])
        gathered["latencies"] += report["latencies"]
        gathered["errors"] += report["errors"]
        gathered["retries"].append(report["retries"])
    return gathered


def build(running: Cluster, stop: threading.Event, built: list[float]) -> None:
    """Add and drop an index until told to stop; the seconds each took."""
    with running.connect(0, "sbtest") as connection, connection.cursor() as cursor:
        while not stop.is_set():
            started = time.monotonic()
            cursor.execute("ALTER TABLE sbtest1 ADD INDEX filled (k, c)")
            built.append(time.monotonic() - started)
            cursor.execute("ALTER TABLE sbtest1 DROP INDEX filled")


def watch(url: str, stop: threading.Event, seen: list[tuple[float, str]]) -> None:
    """Note what the schema change is at, until told to stop."""
    store = open_store(url)
    while not stop.wait(LOOK_S):
        txn = store.begin()
        jobs = queue.unfinished(txn)
        txn.rollback()
        seen.append((time.monotonic(), phase_of(jobs[0]) if jobs else "between jobs"))
    store.close()


def phase_of(job: Job) -> str:
    """In a word or two."""
    note = job.exuvia_note or ""
    if "Spark is starting" in note:
        return "Spark starts"
    for phase in ("fill", "verify"):
        if note.startswith(phase):
            return phase
    return "steps"


def by_phase(
    latencies: list[tuple[float, float]], seen: list[tuple[float, str]]
) -> dict[str, list[float]]:
    """The latencies of what was due in each phase."""
    starts = [at for at, _ in seen]
    found: dict[str, list[float]] = {}
    for due, latency in latencies:
        phase = seen[max(0, bisect_right(starts, due) - 1)][1]
        found.setdefault(phase, []).append(latency)
    return found


def prepare(running: Cluster, rows: int) -> None:
    """A sysbench table by the bulk path."""
    from bench.add_index import load_table

    with running.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE sbtest")
        cursor.execute(
            "CREATE TABLE sbtest.sbtest1 (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, "
            "k INT NOT NULL DEFAULT 0, c CHAR(120) NOT NULL DEFAULT '', "
            "pad CHAR(60) NOT NULL DEFAULT '', KEY k_1 (k))"
        )
    load_table(running.url, "sbtest", "sbtest1", rows)


def report(name: str, result: dict[str, list[Any]]) -> float:
    """Print one phase; its p99 in ms."""
    latencies = [latency for _, latency in result["latencies"]]
    p50, p99 = quantile(latencies, 0.5), quantile(latencies, 0.99)
    figure(
        f"{name}: transactions; p50; p99; most",
        f"{len(latencies)}; {p50:.1f}; {p99:.1f}; {max(latencies):.0f} ms",
    )
    figure(
        f"{name}: errors; conflicts retried", f"{len(result['errors'])}; {sum(result['retries'])}"
    )
    for error in result["errors"][:3]:
        figure("   error", error)
    return p99


def main() -> None:
    """Both phases and their ratio."""
    options = argparse.ArgumentParser()
    options.add_argument("--client", nargs=5)
    options.add_argument("--rows", type=int, default=1_000_000)
    options.add_argument("--rate", type=float, default=40.0, help="transactions/s, all clients")
    options.add_argument("--seconds", type=float, default=60.0)
    chosen = options.parse_args()
    if chosen.client:
        port, seed, rate, seconds, rows = chosen.client
        client(int(port), int(seed), float(rate), float(seconds), int(rows))
        return
    headline(f"fill under load: {chosen.rows:,} rows, {chosen.rate:g} transactions/s, open loop")
    with cluster() as running:
        prepare(running, chosen.rows)
        load(running, chosen.rate, 5, chosen.rows)
        alone = report("alone", load(running, chosen.rate, chosen.seconds, chosen.rows))
        stop, built = threading.Event(), list[float]()
        seen: list[tuple[float, str]] = [(0.0, "before")]
        threads = [
            threading.Thread(target=build, args=(running, stop, built)),
            threading.Thread(target=watch, args=(running.url, stop, seen)),
        ]
        for thread in threads:
            thread.start()
        result = load(running, chosen.rate, chosen.seconds, chosen.rows)
        filled = report("with fill", result)
        for phase, latencies in by_phase(result["latencies"], seen).items():
            p50, p99 = quantile(latencies, 0.5), quantile(latencies, 0.99)
            figure(f"   {phase}: transactions; p50; p99", f"{len(latencies)}; {p50:.1f}; {p99:.1f}")
        stop.set()
        for thread in threads:
            thread.join()
        figure("indexes built meanwhile; seconds each", f"{len(built)}; {quantile(built, 0.5):.1f}")
        figure("p99 with fill / alone", f"{filled / alone:.2f}", "goal <= 2")


if __name__ == "__main__":
    main()
