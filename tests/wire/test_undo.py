"""Drops that are undone, and drops whose time is over, while clients of a real node write."""

import threading
from collections.abc import Iterator

import pymysql
import pytest

from support.node_processes import NodeProcess, until

ROWS = 60


@pytest.fixture
def client(node: NodeProcess) -> Iterator[pymysql.Connection]:
    with node.connect("test", autocommit=True) as opened:
        run(opened, "DROP TABLE IF EXISTS kept_t")
        run(opened, "CREATE TABLE kept_t (id INT PRIMARY KEY, a INT, b VARCHAR(20), KEY ia (a))")
        values = ", ".join(f"({n}, {n}, 'b{n}')" for n in range(ROWS))
        run(opened, f"INSERT INTO kept_t VALUES {values}")
        yield opened
        run(opened, "DROP TABLE IF EXISTS kept_t")


def run(connection: pymysql.Connection, *texts: str) -> list[tuple[object, ...]]:
    with connection.cursor() as cursor:
        for text in texts:
            cursor.execute(text)
        return list(cursor.fetchall())


class Writer(threading.Thread):
    """Adds 1 to `a` of each row in turn, by id. `done`: acknowledged updates of each row."""

    def __init__(self, node: NodeProcess, rows: range) -> None:
        super().__init__()
        self._node = node
        self._rows = rows
        self.stopped = threading.Event()
        self.done = dict.fromkeys(rows, 0)
        self.errors: list[str] = []

    def run(self) -> None:
        with self._node.connect("test", autocommit=True) as connection:
            while not self.stopped.is_set():
                for row in self._rows:
                    try:
                        run(connection, f"UPDATE kept_t SET a = a + 1 WHERE id = {row}")
                        self.done[row] += 1
                    except pymysql.err.Error as error:
                        self.errors.append(str(error))


class Writers:
    """Three writers, each with its own rows."""

    def __init__(self, node: NodeProcess) -> None:
        self._every = [Writer(node, range(first, ROWS, 3)) for first in range(3)]
        for writer in self._every:
            writer.start()

    def total(self) -> int:
        return sum(sum(writer.done.values()) for writer in self._every)

    def go_on(self) -> None:
        """Wait until every row is written once more, at least."""
        before = self.total()
        until(lambda: self.total() > before + 2 * ROWS)

    def stop(self) -> None:
        for writer in self._every:
            writer.stopped.set()
            writer.join()

    def end(self) -> dict[int, int]:
        """Stop. Returns the number of updates of each row."""
        self.stop()
        assert not [error for writer in self._every for error in writer.errors]
        return {row: times for writer in self._every for row, times in writer.done.items()}


@pytest.fixture
def writers(node: NodeProcess, client: pymysql.Connection) -> Iterator[Writers]:
    started = Writers(node)
    yield started
    started.stop()


@pytest.mark.parametrize(("change", "name"), [("DROP INDEX ia", "ia"), ("DROP COLUMN b", "b")])
def test_writes_to_a_hidden_element_are_restored(
    client: pymysql.Connection, writers: Writers, change: str, name: str
) -> None:
    run(client, "SET exuvia_undo_s = 600", f"ALTER TABLE kept_t {change}")
    ((job,),) = run(
        client, f"SELECT job_id FROM information_schema.exuvia_undo WHERE name = '{name}'"
    )
    run(client, "DELETE FROM kept_t WHERE id = 7", "INSERT INTO kept_t (id, a) VALUES (100, 1000)")
    writers.go_on()
    run(client, f"ADMIN UNDO DDL JOB {job}")
    writers.go_on()
    done = writers.end()
    run(client, "ADMIN CHECK TABLE kept_t")
    expected = [(n, n + done[n], f"b{n}") for n in range(ROWS) if n != 7] + [(100, 1000, None)]
    assert run(client, "SELECT id, a, b FROM kept_t ORDER BY id") == expected
    indexed = run(client, "SELECT id FROM kept_t FORCE INDEX (ia) WHERE a >= 0")
    assert {pair[0] for pair in indexed} == {pair[0] for pair in expected}


def test_values_that_a_modify_lost_are_restored_and_new_writes_are_kept(
    client: pymysql.Connection, writers: Writers
) -> None:
    run(client, "ALTER TABLE kept_t ADD COLUMN p DECIMAL(8,2), ADD INDEX ip (p)")
    run(client, "UPDATE kept_t SET p = id + 0.25")
    run(client, "SET exuvia_undo_s = 600", "ALTER TABLE kept_t MODIFY p INT")
    ((job,),) = run(client, "SELECT job_id FROM information_schema.exuvia_undo")
    run(client, "UPDATE kept_t SET p = 1000 WHERE id % 10 = 3")
    run(client, "DELETE FROM kept_t WHERE id = 7", "INSERT INTO kept_t (id, p) VALUES (100, 5)")
    writers.go_on()
    run(client, f"ADMIN UNDO DDL JOB {job}")
    writers.go_on()
    done = writers.end()
    run(client, "ADMIN CHECK TABLE kept_t")
    expected = {n: (n + done[n], 1000 if n % 10 == 3 else n + 0.25) for n in range(ROWS) if n != 7}
    expected[100] = (None, 5)
    rows = run(client, "SELECT id, a, p FROM kept_t")
    assert {row: (a, p) for row, a, p in rows} == expected
    indexed = run(client, "SELECT id, p FROM kept_t FORCE INDEX (ip) WHERE p >= 0")
    assert dict(indexed) == {row: p for row, (_, p) in expected.items()}


def test_truncated_rows_are_restored_and_new_writes_are_kept(
    client: pymysql.Connection, node: NodeProcess
) -> None:
    """Writers add rows of their own, change and remove some, while the others are restored."""
    run(client, "SET exuvia_undo_s = 600", "TRUNCATE TABLE kept_t")
    ((job,),) = run(client, "SELECT job_id FROM information_schema.exuvia_undo")
    stopped = threading.Event()
    rows: list[dict[int, int]] = [{}, {}]
    errors: list[str] = []

    def write(number: int) -> None:
        with node.connect("test", autocommit=True) as connection:
            row = 1000 * (number + 1)
            while not stopped.is_set():
                try:
                    run(connection, f"INSERT INTO kept_t VALUES ({row}, {row}, 'new')")
                    rows[number][row] = row
                    if row % 3 == 0:
                        run(connection, f"UPDATE kept_t SET a = a + 1 WHERE id = {row}")
                        rows[number][row] += 1
                    if row % 5 == 0:
                        run(connection, f"DELETE FROM kept_t WHERE id = {row}")
                        del rows[number][row]
                except pymysql.err.Error as error:
                    errors.append(str(error))
                    stopped.set()
                row += 1

    writers = [threading.Thread(target=write, args=(number,)) for number in range(2)]
    for thread in writers:
        thread.start()
    try:
        until(lambda: all(len(ids) > 10 for ids in rows))
        counts_seen = {len(run(client, "SELECT id FROM kept_t WHERE id < 1000"))}
        run(client, f"ADMIN UNDO DDL JOB {job}")
        counts = [len(ids) for ids in rows]
        until(
            lambda: stopped.is_set() or all(len(r) > n for r, n in zip(rows, counts, strict=True))
        )
    finally:
        stopped.set()
        for thread in writers:
            thread.join()
    assert not errors and counts_seen == {0}
    run(client, "ADMIN CHECK TABLE kept_t")
    expected = {n: n for n in range(ROWS)} | rows[0] | rows[1]
    assert dict(run(client, "SELECT id, a FROM kept_t")) == expected
    indexed = run(client, "SELECT id, a FROM kept_t FORCE INDEX (ia) WHERE a >= 0")
    assert dict(indexed) == expected
    with pytest.raises(pymysql.err.Error) as caught:
        run(client, "INSERT INTO kept_t VALUES (5, 5, 'again')")
    assert caught.value.args[0] == 1062


def test_the_owner_removes_it_when_its_time_is_over(
    client: pymysql.Connection, writers: Writers
) -> None:
    run(client, "SET exuvia_undo_s = 1", "ALTER TABLE kept_t DROP INDEX ia")
    ((job,),) = run(client, "SELECT job_id FROM information_schema.exuvia_undo")
    until(lambda: not run(client, "SELECT job_id FROM information_schema.exuvia_undo"))
    with pytest.raises(pymysql.err.Error) as caught:
        run(client, f"ADMIN UNDO DDL JOB {job}")
    assert caught.value.args[0] == 1105
    writers.end()
    last = run(client, "ADMIN SHOW DDL JOBS 3")
    assert "exuvia end undo" in {job_row[3] for job_row in last}
    run(client, "ADMIN CHECK TABLE kept_t")
