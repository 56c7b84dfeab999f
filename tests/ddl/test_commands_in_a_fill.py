"""CANCEL, PAUSE, RESUME and ALTER of a fill that runs, by SQL: obeyed at its next batch.

The fill is slow by tidb_ddl_reorg_max_write_speed, so a batch lasts longer than any statement.
"""

import pytest

from support.node_processes import until
from support.world import Later, World, rows, run

ROWS = 900
INDEX = "CREATE INDEX ia ON t (a)"
SHOWN = (
    "SELECT state, comments FROM information_schema.ddl_jobs WHERE table_name = 't'"
    " AND job_type = 'add index'"
)


@pytest.fixture
def world():
    with World() as found:
        session = found.session()
        run(session, "CREATE TABLE t (id int PRIMARY KEY, a int)")
        run(session, f"INSERT INTO t VALUES {', '.join(f'({n}, {n})' for n in range(ROWS))}")
        run(session, "SET GLOBAL tidb_ddl_reorg_batch_size = 32")
        run(session, "SET GLOBAL tidb_ddl_reorg_max_write_speed = 4096")
        yield found


@pytest.fixture
def batches(world, monkeypatch):
    """Rows of each batch that was committed."""
    found, bulk = [], world.store.bulk

    def counted(keys, *arguments, **options):
        answer = bulk(keys, *arguments, **options)
        found.append(len(keys))
        return answer

    monkeypatch.setattr(world.store, "bulk", counted)
    return found


@pytest.fixture
def filling(world, batches):
    """(the statement that waits for its index, the job's id), once two batches are written."""
    statement = Later(world.session(), INDEX)
    until(lambda: len(batches) >= 2)
    ((job_id,),) = rows(
        world.session(), "SELECT job_id FROM information_schema.ddl_jobs WHERE state = 'running'"
    )
    return statement, job_id


def told(world, command, job_id):
    ((_, answer),) = rows(world.session(), f"ADMIN {command} DDL JOBS {job_id}")
    return answer


def state(world):
    return rows(world.session(), SHOWN)[0][0]


def test_a_cancel_is_obeyed_within_a_batch_and_all_of_it_is_removed(world, batches, filling):
    statement, job_id = filling
    assert told(world, "CANCEL", job_id) == "successful"
    before = len(batches)
    assert statement.answer() == 8214
    assert len(batches) <= before + 1
    assert {row[2] for row in rows(world.session(), "SHOW INDEX FROM t")} == {"PRIMARY"}
    left = "SELECT COUNT(*) FROM mysql.gc_delete_range"
    until(lambda: rows(world.session(), left) == [[0]])
    assert rows(world.session(), "SELECT COUNT(*) FROM mysql.tidb_ddl_reorg") == [[0]]


def test_a_pause_is_obeyed_within_a_batch_and_a_resume_goes_on(world, batches, filling):
    statement, job_id = filling
    assert told(world, "PAUSE", job_id) == "successful"
    before = len(batches)
    until(lambda: state(world) == "paused")
    assert len(batches) <= before + 1
    paused = len(batches)
    assert (
        told(world, "PAUSE", job_id) == f"error: [ddl:8262]Job [{job_id}] has already been paused"
    )
    run(world.session(), "SET GLOBAL tidb_ddl_reorg_max_write_speed = 0")
    assert len(batches) == paused and statement.waits()
    assert told(world, "RESUME", job_id) == "successful"
    assert statement.rows() == []
    run(world.session(), "ADMIN CHECK TABLE t")


def test_an_alter_is_obeyed_at_the_next_batch(world, batches, filling):
    statement, job_id = filling
    before = len(batches)
    run(
        world.session(),
        f"ADMIN ALTER DDL JOBS {job_id} THREAD = 2, BATCH_SIZE = 1024, MAX_WRITE_SPEED = '1GiB'",
    )
    ((_, comments),) = rows(world.session(), SHOWN)
    assert comments.startswith("thread=2, batch_size=1024, max_write_speed=1073741824")
    assert statement.rows() == []
    assert max(batches[:before]) <= 32 < max(batches)
    assert len(batches) <= before + 2 and sum(batches) == ROWS
