"""A PostgreSQL server and two nodes on three hosts, with bad links and different clocks.

Links are cut, lossy in one direction or slow. No acknowledged write is lost, every job ends, no
node serves without a lease, and each situation is reported. Prints durations: run it with -s."""

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pymysql
import pytest

from support.hosts import HostNode, Hosts, HostServer
from support.node_processes import end_all, until

LEASE_S = 5.0
ROWS = 20_000
FAR_S, LOSS = 0.2, 0.01
FAKETIME = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1"

pytestmark = [pytest.mark.long, pytest.mark.hosts]


def run(node: HostNode, *statements: str) -> list[tuple[Any, ...]]:
    """The rows of the last statement."""
    with node.connect(autocommit=True, read_timeout=240) as connection:
        cursor = connection.cursor()
        for statement in statements:
            cursor.execute(statement)
        return list(cursor.fetchall())


class Accounts:
    """Two clients on each node that move amounts between rows without pause.

    The sum stays the same, and acknowledged moves are not lost."""

    def __init__(self, nodes: list[HostNode]) -> None:
        self.acknowledged: list[int] = []
        self.codes: set[int] = set()
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._move, args=(node, 1 + n)) for n, node in enumerate(nodes)
        ]

    def __enter__(self) -> "Accounts":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _move(self, node: HostNode, number: int) -> None:
        key = number * 1_000_000
        while not self._stop.is_set():
            try:
                with node.connect("d", read_timeout=60) as client:
                    cursor = client.cursor()
                    while not self._stop.is_set():
                        key += 1
                        one, other = 1 + key % 10, 1 + (key * 7 + 3) % 10
                        cursor.execute(f"UPDATE a SET v = v - 1 WHERE id = {one}")
                        cursor.execute(f"UPDATE a SET v = v + 1 WHERE id = {other}")
                        cursor.execute(f"INSERT INTO t VALUES ({key}, {key % 977})")
                        client.commit()
                        self.acknowledged.append(key)
            except (pymysql.Error, OSError) as error:
                code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
                self.codes.add(code)
                key += 1000
                self._stop.wait(0.05)


class Situation:
    """Three hosts; `owner` is the node that owns schema changes."""

    def __init__(self, hosts: Hosts, server: HostServer, nodes: list[HostNode]) -> None:
        self.hosts, self.server, self.nodes = hosts, server, nodes
        address = until(lambda: run(nodes[0], "ADMIN SHOW DDL NODES WHERE roles LIKE '%ddl%'"))
        pid = address[0][4]
        self.owner = next(node for node in nodes if node.back_pid() == pid)
        self.other = next(node for node in nodes if node is not self.owner)

    def changing(self, statement: str, rows: int = 1) -> Future[list[tuple[Any, ...]]]:
        """Start a change by a client of the node that is not the owner's. Returns once `rows` rows
        are done."""
        future = ThreadPoolExecutor(1).submit(run, self.other, statement)
        until(lambda: (job := run(self.other, "ADMIN SHOW DDL JOBS 1")[0]) and job[7] >= rows)
        return future


def fill(hosts: Hosts, server: HostServer, folder: Path) -> None:
    """Fill the table by a node on the server's host, which stops before the others start."""
    url = f"postgresql://postgres@127.0.0.1:{server.port}/postgres?schema=far"
    node = HostNode(hosts, "db", url, folder / "log-db", LEASE_S)
    try:
        node.wait_ready()
        run(node, "CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, b INT)")
        run(node, "CREATE TABLE d.a (id INT PRIMARY KEY, v INT)")
        run(node, f"INSERT INTO d.a VALUES {', '.join(f'({n}, 0)' for n in range(1, 11))}")
        values = ", ".join(f"({n}, {n % 977})" for n in range(ROWS))
        run(node, f"INSERT INTO d.t VALUES {values}")
        run(node, "SET GLOBAL tidb_ddl_reorg_max_write_speed = 30000")
        node.stop()
    finally:
        end_all([node])


@contextlib.contextmanager
def three_hosts(folder: Path, late: str = "", far: bool = False) -> Iterator[Situation]:
    """`late`: the host whose clock is an hour ahead. `far`: both nodes are FAR_S from the server,
    and LOSS of the packets is lost."""
    with Hosts("db", "a", "b") as hosts:
        server = HostServer(hosts, "db")
        nodes: list[HostNode] = []
        try:
            server.make()
            server.start()
            fill(hosts, server, folder)
            wires = [hosts.slow(host, "db", FAR_S / 2, LOSS) for host in "ab" if far]
            for host in ("a", "b"):
                url = (
                    f"postgresql://postgres@{hosts.address('db')}:{server.port}/postgres?schema=far"
                )
                if host == late:
                    os.environ |= {"LD_PRELOAD": FAKETIME, "FAKETIME": "+1h"}
                    os.environ["FAKETIME_DONT_FAKE_MONOTONIC"] = "1"
                try:
                    lease_s = 4 * LEASE_S if far else LEASE_S  # lost packets come seconds late
                    nodes.append(HostNode(hosts, host, url, folder / f"log-{host}", lease_s))
                finally:
                    for name in ("LD_PRELOAD", "FAKETIME", "FAKETIME_DONT_FAKE_MONOTONIC"):
                        os.environ.pop(name, None)
                nodes[-1].wait_ready()
            yield Situation(hosts, server, nodes)
            assert all(wire.lost for wire in wires)
        finally:
            end_all(nodes)
            server.remove()


def all_is_there(node: HostNode, accounts: Accounts) -> None:
    """All acknowledged transactions are there, and none in part; indexes match their tables."""
    there = {row[0] for row in run(node, "SELECT id FROM d.t WHERE id >= 1000000")}
    assert set(accounts.acknowledged) <= there
    assert run(node, "SELECT SUM(v) FROM d.a") == [(0,)]
    run(node, "ADMIN CHECK TABLE d.t")
    assert not run(node, "ADMIN SHOW DDL JOBS 0")


def refuses(node: HostNode) -> str:
    """The error that a client gets from a node whose lease is over."""

    def error_of() -> tuple[int, str]:
        with pytest.raises(pymysql.Error) as caught:
            run(node, "SELECT * FROM d.a")
        code, text = caught.value.args
        assert code in (8022, 8027), text  # the store does not answer; nor does it any more
        return code, text

    return until(lambda: (error := error_of())[0] == 8027 and error[1], 3 * LEASE_S)


FILL, REWRITE = "ALTER TABLE d.t ADD INDEX ib (b)", "ALTER TABLE d.t MODIFY b VARCHAR(20)"


def owner_pid(node: HostNode) -> int:
    """The pid of the back that owns schema changes, or 0."""
    rows = run(node, "ADMIN SHOW DDL NODES WHERE roles LIKE '%ddl%'")
    return int(rows[0][4]) if rows else 0


def goes_on(accounts: Accounts, within_s: float = 30.0, more: int = 20) -> None:
    """Transactions are acknowledged again."""
    before = len(accounts.acknowledged)
    until(lambda: len(accounts.acknowledged) > before + more, within_s)


@pytest.mark.parametrize("statement", [FILL, REWRITE])
@pytest.mark.parametrize("how", ["cut", "deaf"])
def test_the_owner_s_host_is_away_for_three_leases(
    tmp_path: Path, statement: str, how: str
) -> None:
    """The host is cut off in the middle of a reorg, or all its packets to the server are lost."""
    with three_hosts(tmp_path) as at:
        with Accounts(at.nodes) as accounts:
            future, began = at.changing(statement), time.monotonic()
            if how == "cut":
                at.hosts.cut(at.owner.host)
            else:
                at.hosts.deafen(at.owner.host, "db")
            back = at.other.back_pid()
            until(lambda: owner_pid(at.other) == back, 4 * LEASE_S)
            succeeded_s = time.monotonic() - began
            until(lambda: at.owner.get("/readyz")[0] == 503, 4 * LEASE_S)
            message = refuses(at.owner)
            goes_on(accounts)
            threading.Event().wait(max(0.0, began + 3 * LEASE_S - time.monotonic()))
            at.hosts.mend(at.owner.host)
            until(lambda: at.owner.get("/readyz")[0] == 200, 6 * LEASE_S)
            future.result(180)
            goes_on(accounts)
        all_is_there(at.other, accounts)
        all_is_there(at.owner, accounts)
    print(f"\n{how}: the other owned after {succeeded_s:.1f} s; a client got: {message}")


def test_the_server_s_host_is_away_from_everybody(tmp_path: Path) -> None:
    with three_hosts(tmp_path) as at:
        with Accounts(at.nodes) as accounts:
            future, began = at.changing(FILL), time.monotonic()
            at.hosts.cut("db")
            for node in at.nodes:
                until(lambda node=node: node.get("/readyz")[0] == 503, 4 * LEASE_S)  # type: ignore[misc]
                refuses(node)
            threading.Event().wait(max(0.0, began + 3 * LEASE_S - time.monotonic()))
            at.hosts.mend("db")
            mended = time.monotonic()
            for node in at.nodes:
                until(lambda node=node: node.get("/readyz")[0] == 200, 6 * LEASE_S)  # type: ignore[misc]
            served_s = time.monotonic() - mended
            with contextlib.suppress(pymysql.Error):  # its session was without a store: 8022
                future.result(180)
            goes_on(accounts)
            until(lambda: not run(at.other, "ADMIN SHOW DDL JOBS 0"), 60)
            assert run(at.other, "ADMIN SHOW DDL JOBS 1")[0][11] == "synced"
        all_is_there(at.other, accounts)
    print(f"\nafter the server was back both served in {served_s:.1f} s; codes {accounts.codes}")


def test_clocks_are_an_hour_apart(tmp_path: Path) -> None:
    """Wall clocks differ: law 3 depends on the monotonic clock."""
    with three_hosts(tmp_path, late="b") as at:
        started = {row[0] for row in run(at.other, "SELECT UNIX_TIMESTAMP()")}
        elsewhere = {row[0] for row in run(at.owner, "SELECT UNIX_TIMESTAMP()")}
        assert abs(abs(started.pop() - elsewhere.pop()) - 3600) < 60
        with Accounts(at.nodes) as accounts:
            at.changing(FILL).result(180)
            run(at.owner, "ADMIN RESIGN DDL OWNER")
            run(at.owner, REWRITE)
            goes_on(accounts)
        assert 8027 not in accounts.codes  # 8028: a change overtook them, as with equal clocks
        all_is_there(at.other, accounts)


def test_the_server_is_200_ms_away_and_packets_are_lost(tmp_path: Path) -> None:
    """Each step of a change makes about ten round trips: it is slow, but it ends."""
    with three_hosts(tmp_path, far=True) as at:
        run(at.other, "SET GLOBAL tidb_ddl_reorg_max_write_speed = 0")
        run(at.other, "SET GLOBAL tidb_ddl_reorg_batch_size = 10240")  # as for any link so slow
        with Accounts(at.nodes) as accounts:
            goes_on(accounts, 180, 3)
            took: list[float] = []
            for statement in ("ALTER TABLE d.a ADD COLUMN c INT DEFAULT 7", FILL):
                began = time.monotonic()
                at.changing(statement, rows=0).result(240)
                took.append(time.monotonic() - began)
                print(f"\n{statement}: {took[-1]:.0f} s", end="", flush=True)
            goes_on(accounts, 180, 3)
        for node in at.nodes:
            assert node.get("/readyz")[0] == 200
            all_is_there(node, accounts)
        assert run(at.owner, "SELECT DISTINCT c FROM d.a") == [(7,)]
    print(f"\n{len(accounts.acknowledged)} transactions meanwhile; codes {accounts.codes}")
