"""Law 10 as an operator sees it: what a job waits for is a column, and a number in its record."""

import json
import threading

from support.world import Later, World, rows, run

LOOKS = 400
LOOK_S = 0.02


def until_waits(session, table, text):
    """The job of that table, once it says so."""
    query = f"SELECT JOB_ID FROM information_schema.ddl_jobs WHERE TABLE_NAME = '{table}'"
    for _ in range(LOOKS):
        found = rows(session, f"{query} AND COMMENTS = '{text}'")
        if found:
            return found[0][0]
        threading.Event().wait(LOOK_S)
    raise AssertionError(rows(session, "ADMIN SHOW DDL JOBS"))


def test_the_older_job_and_the_busy_workers_are_named():
    with World() as world:
        session = world.session()
        for name in ("big", "small"):
            run(session, f"CREATE TABLE {name} (id int PRIMARY KEY, a int)")
            values = ", ".join(f"({n}, {n})" for n in range(600))
            run(session, f"INSERT INTO {name} VALUES {values}")
        run(session, "SET GLOBAL exuvia_ddl_reorg_workers = 1")
        run(session, "SET GLOBAL tidb_ddl_reorg_batch_size = 32")
        run(session, "SET GLOBAL tidb_ddl_reorg_max_write_speed = 2048")
        fills = Later(world.session(), "CREATE INDEX ia ON big (a)")
        assert fills.waits()
        ((first,),) = rows(
            session, "SELECT JOB_ID FROM information_schema.ddl_jobs WHERE JOB_TYPE = 'add index'"
        )
        behind = Later(world.session(), "ALTER TABLE big ADD COLUMN b int")
        crowded = Later(world.session(), "CREATE INDEX ia ON small (a)")
        second = until_waits(session, "big", f"waiting: job {first} (add index test.big)")
        until_waits(session, "small", "waiting: reorg worker (1 of 1 busy)")
        meta = f"SELECT job_meta FROM mysql.tidb_ddl_job WHERE job_id = {second}"
        ((record,),) = rows(session, meta)
        assert json.loads(record)["dependency_id"] == first
        run(session, "SET GLOBAL tidb_ddl_reorg_max_write_speed = 0")
        for each in (fills, behind, crowded):
            assert each.answer()
