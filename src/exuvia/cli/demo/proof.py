"""What must hold after the demo, with evidence. A broken promise raises AssertionError."""

import time
from typing import Any, NamedTuple

import pymysql

from exuvia.cli.demo.watch import Clients, Progress

LEAST_WRITES = 200
QUERY = (
    "SELECT COUNT(*), SUM(l_extendedprice * l_discount) FROM lineitem {hint} "
    "WHERE l_shipdate >= '1994-03-01' AND l_shipdate < '1994-03-08' "
    "AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24"
)


class Proof(NamedTuple):
    """The five lines the demo ends with."""

    lines: tuple[str, ...]


def prove(connection: Any, clients: Clients, changes: list[Progress]) -> Proof:
    """Check everything; `connection` is a pymysql connection in the database `tpch`."""
    return Proof(
        (
            _finished(changes),
            _served(clients),
            _wrote_meanwhile(clients, changes),
            _same_answer(connection),
            _checked(connection),
        )
    )


def _finished(changes: list[Progress]) -> str:
    failed = [f"{p.change.title}: {p.error}" for p in changes if p.error]
    assert not failed, failed
    return "; ".join(f"{p.change.title} in {p.seconds:.1f} s" for p in changes)


def _served(clients: Clients) -> str:
    assert not clients.errors, clients.errors[:5]
    latencies = sorted(clients.latencies_ms)
    p50, p99 = latencies[len(latencies) // 2], latencies[int(len(latencies) * 0.99)]
    return (
        f"{len(clients.commits):,} client writes on two nodes: 0 errors, {clients.retries} "
        f"conflicts retried, p50 {p50:.1f} ms, p99 {p99:.1f} ms"
    )


def _wrote_meanwhile(clients: Clients, changes: list[Progress]) -> str:
    counts = {
        p.change.title: clients.committed_between(*p.time_in("write reorganization"))
        for p in changes
        if "write reorganization" in p.states
    }
    total = sum(counts.values())
    assert total >= LEAST_WRITES, f"only {counts} writes while an index was being filled"
    return f"{total:,} of them committed while an index was in write reorganization"


def _same_answer(connection: Any) -> str:
    with connection.cursor() as cursor:
        cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        with_index, index_s = _timed(cursor, QUERY.format(hint="USE INDEX (shipped)"))
        without, scan_s = _timed(cursor, QUERY.format(hint="IGNORE INDEX (shipped)"))
        cursor.execute("COMMIT")
        cursor.execute("EXPLAIN " + QUERY.format(hint="USE INDEX (shipped)"))
        plan = str(cursor.fetchall())
    assert "shipped" in plan, plan
    assert with_index == without and with_index[0], (with_index, without)
    return (
        f"a TPC-H revenue query gives {with_index[1]} over {with_index[0]} rows, through the new "
        f"index ({index_s * 1000:.0f} ms) and without it ({scan_s * 1000:.0f} ms)"
    )


def _timed(cursor: Any, query: str) -> tuple[Any, float]:
    started = time.monotonic()
    cursor.execute(query)
    return cursor.fetchone(), time.monotonic() - started


def _checked(connection: Any) -> str:
    started = time.monotonic()
    try:
        with connection.cursor() as cursor:
            cursor.execute("ADMIN CHECK TABLE lineitem")
    except pymysql.err.MySQLError as error:
        raise AssertionError(f"ADMIN CHECK TABLE found: {error}") from error
    seconds = time.monotonic() - started
    return f"ADMIN CHECK TABLE: each row has its entries, each entry its row ({seconds:.1f} s)"
