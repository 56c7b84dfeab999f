"""A statement that waits for a row lock blocks only its own client."""

import threading
from typing import Any

import pymysql
import pytest

from support.node_processes import NodeProcess

WAITS_S = 0.3
DONE_S = 20.0


def send(connection: Any, text: str) -> tuple[threading.Thread, list[Any]]:
    """Run a statement in a thread. Its rows or error code are added to the list."""
    answers: list[Any] = []

    def work() -> None:
        cursor = connection.cursor()
        try:
            answers.append(cursor.execute(text))
        except pymysql.MySQLError as error:
            answers.append(error.args[0])

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(WAITS_S)
    return thread, answers


@pytest.mark.parametrize("end", ["commit", "close", "kill query", "kill"])
def test_a_waiting_client_blocks_no_other(node: NodeProcess, end: str) -> None:
    first, second, third = (node.connect("test", autocommit=True) for _ in range(3))
    third.cursor().execute("CREATE TABLE IF NOT EXISTS held (id int PRIMARY KEY, v int)")
    third.cursor().execute("REPLACE INTO held VALUES (1, 0), (2, 0)")
    update = "UPDATE held SET v = v + 1 WHERE id = 1"
    for connection in (first, second):
        cursor = connection.cursor()
        cursor.execute("BEGIN")
        cursor.execute("UPDATE held SET v = v + 1 WHERE id = 3")  # its plan is kept: quick now
    first.cursor().execute(update)
    waiting, answers = send(second, update)
    assert waiting.is_alive(), answers
    cursor = third.cursor()
    cursor.execute("SELECT v FROM held WHERE id = 1")
    assert cursor.fetchone() == (0,)
    if end == "commit":
        first.commit()
    elif end == "close":
        first.close()
    else:
        cursor.execute(f"{end} {second.thread_id()}")
    waiting.join(DONE_S)
    assert not waiting.is_alive()
    assert answers[0] in ((1,) if end in ("commit", "close") else (1317, 1927, 2013))
    if end == "kill query":
        cursor = second.cursor()
        cursor.execute("UPDATE held SET v = 9 WHERE id = 2")
        second.commit()
        cursor.execute("SELECT v FROM held WHERE id = 2")
        assert cursor.fetchone() == (9,)
    for connection in (first, second, third):
        if connection.open:
            connection.close()
