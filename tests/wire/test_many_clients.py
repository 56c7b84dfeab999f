"""Seed 003, 7.5: creating tables from very many clients at once meets no key conflict."""

import threading
from itertools import count
from typing import Any

import pytest

from support.node_processes import NodeProcess

CLIENTS = 200


@pytest.mark.parametrize("tables", [200, pytest.param(5000, marks=pytest.mark.long)])
def test_200_clients_create_tables_and_none_meets_an_error(node: NodeProcess, tables: int) -> None:
    with node.connect() as first, first.cursor() as cursor:
        cursor.execute("CREATE DATABASE many")
    connections = [node.connect("many", autocommit=True) for _ in range(CLIENTS)]
    numbers, errors = iter(range(tables)), []
    lock, done = threading.Lock(), count()

    def client(connection: Any) -> None:
        with connection.cursor() as cursor:
            while not errors:
                with lock:
                    n = next(numbers, None)
                if n is None:
                    return
                try:
                    cursor.execute(f"CREATE TABLE t{n} (id INT PRIMARY KEY, a INT)")
                except Exception as error:  # any error fails the test
                    errors.append(error)
                next(done)

    threads = [threading.Thread(target=client, args=(connection,)) for connection in connections]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == [] and next(done) == tables
    with connections[0].cursor() as cursor:
        cursor.execute("SHOW tables")
        assert len(cursor.fetchall()) == tables
        cursor.execute("DROP DATABASE many")
    for connection in connections:
        connection.close()
