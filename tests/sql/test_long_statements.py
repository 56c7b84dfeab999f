"""Statements that run long: what they hold, and what ends them.

The engine under them ends a snapshot that nobody used for IDLE_S.
"""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from exuvia.kv.store import open_store
from exuvia.sql.session.session import Session
from support.world import Later, World, rows, run

IDLE_S = 0.4


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A node whose engine soon ends what is idle."""
    folder: Path = tmp_path_factory.mktemp("impatient")
    url = f"lmdb://{folder}/store?sync=0"
    with closing(open_store(url)) as patient, World(patient) as world:  # what is made takes a while
        first = world.session("")
        run(first, "CREATE TABLE test.t (id int PRIMARY KEY, v int)")
        run(first, "INSERT INTO test.t VALUES (1, 1), (2, 2)")
    with closing(open_store(f"{url}&idle_s={IDLE_S}")) as store, World(store) as world:
        yield world


@pytest.fixture
def patient(impatient: World) -> Iterator[Session]:
    """A session of it in a transaction that has read."""
    session = impatient.session("test")
    run(session, "BEGIN")
    assert rows(session, "SELECT v FROM t WHERE id = 1") == [[1]]
    yield session
    session.close()


def test_a_statement_that_reads_nothing_for_long_keeps_its_snapshot(patient: Session) -> None:
    assert rows(patient, f"SELECT SLEEP({4 * IDLE_S})") == [[0]]
    assert rows(patient, "SELECT v FROM t WHERE id = 2") == [[2]]
    assert rows(patient, f"SELECT SLEEP({4 * IDLE_S}), v FROM t WHERE id = 2") == [[0, 2]]
    run(patient, f"UPDATE t SET v = v + SLEEP({4 * IDLE_S}) WHERE id = 2")
    run(patient, "COMMIT")


def test_a_statement_that_waits_for_a_row_keeps_its_snapshot(
    impatient: World, patient: Session
) -> None:
    holder = impatient.session("test")
    run(holder, "BEGIN")
    run(holder, "UPDATE t SET v = 1 WHERE id = 1")
    waiting = Later(patient, "UPDATE t SET v = v + 0 WHERE id = 1")
    assert waiting.waits()
    run(holder, f"SELECT SLEEP({4 * IDLE_S})")
    run(holder, "COMMIT")
    assert waiting.answer()
    assert rows(patient, "SELECT v FROM t WHERE id = 2") == [[2]]
    holder.close()
