"""AUTO_ID_CACHE 1 on two nodes with two fronts each.

One node is killed while clients insert, and comes back. Ids always ascend, and acknowledged rows
are kept."""

import threading
from pathlib import Path
from typing import Any

import pymysql

from support.node_processes import NodeProcess, running_nodes, until

LEASE_S = 4.0


def run(connection: Any, *texts: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        for text in texts:
            cursor.execute(text)
        return list(cursor.fetchall())


def insert(connection: Any) -> int:
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO d.t (v) VALUES (1)")
        return int(cursor.lastrowid)


def test_ids_ascend_over_nodes_fronts_and_kills(tmp_path: Path) -> None:
    with running_nodes(tmp_path, 2, LEASE_S, ("--fronts", "2")) as nodes:
        with nodes[0].connect(autocommit=True) as client:
            run(client, "CREATE DATABASE d")
            run(
                client,
                "CREATE TABLE d.t (id BIGINT AUTO_INCREMENT PRIMARY KEY, v INT) AUTO_ID_CACHE 1",
            )
        # one after another, over both nodes, each connection on whatever front it comes to
        ids = []
        for n in range(12):
            with nodes[n % 2].connect(autocommit=True) as client:
                ids.append(insert(client))
        assert ids == list(range(1, 13))
        acknowledged: list[int] = []
        stopped = threading.Event()

        def write(node: NodeProcess) -> None:
            try:
                with node.connect(autocommit=True) as client:
                    last = 0
                    while not stopped.is_set():
                        one = insert(client)
                        assert one > last
                        last = one
                        acknowledged.append(one)
            except (pymysql.Error, OSError):
                return  # its node was killed

        threads = [threading.Thread(target=write, args=(node,)) for node in nodes * 2]
        for thread in threads:
            thread.start()
        try:
            until(lambda: len(acknowledged) > 40)
            nodes[1].kill()
            before = len(acknowledged)
            until(lambda: len(acknowledged) > before + 20)
        finally:
            stopped.set()
            for thread in threads:
                thread.join()
        assert len(set(acknowledged)) == len(acknowledged)
        again = NodeProcess(nodes[1].store, tmp_path / "again.log", LEASE_S)
        nodes.append(again)
        again.wait_ready()
        with again.connect(autocommit=True) as later, nodes[0].connect(autocommit=True) as client:
            stands = [row[0] for row in run(client, "SELECT id FROM d.t ORDER BY id")]
            assert set(acknowledged) <= set(stands)
            # only ids of the killed clients may be missing
            assert stands[-1] - len(stands) <= 2
            turns = [insert(later), insert(client), insert(later)]
            assert turns[1:] == [turns[0] + 1, turns[0] + 2]
            assert turns[0] > stands[-1]
            run(client, "ADMIN CHECK TABLE d.t")
