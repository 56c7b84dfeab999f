"""Law 10: a job that waits says for what: the node, the older job, the worker slot, the error.

To an operator it is a column, and a number in the job's record.
"""

import json
import threading

from exuvia.base.errors import Unavailable
from exuvia.catalog import writer
from exuvia.catalog.sysvar import variables
from exuvia.cluster.versions import Waiter
from exuvia.ddl import admin, queue, requests
from exuvia.ddl.job import JobState, evolve
from exuvia.ddl.manager import Pools
from exuvia.ddl.worker import LAG_POLL_S, NOTE_EVERY_S
from exuvia.pipeline.reorg import Done, Running
from support.small_cluster import FROM_VARIABLES, SmallCluster
from support.tables import abc, column, index
from support.world import Later, World, rows, run


class Held:
    """A reorg that goes on until it is let go; `ready` False: it cannot run at all."""

    free = False
    ready = True

    def step(self, now):
        if not self.ready:
            raise Unavailable("no Java was found")
        return Done(3) if self.free else Running(2, 50.0, 9.0, "fill", "1 spans done")

    def stop(self):
        pass


def cluster_with(held, **options):
    cluster = SmallCluster(reorgs=lambda store: lambda *_: held, **options)
    for name in ("t1", "t2", "t3"):
        cluster.run(requests.create_table(cluster.database(), abc(name)))
        one_row(cluster, name)
    return cluster


def one_row(cluster, name):
    txn = cluster.store.begin()
    writer.insert(txn, cluster.table(name), [1, 1, 1])
    txn.commit()


def add_index(cluster, name):
    info = cluster.table(name).info
    return cluster.submit(requests.add_index(cluster.database(), info, index("i", "a")))


def wait_of(cluster, job_id, rounds=300):
    for _ in range(rounds):
        job = cluster.job(job_id)
        if job.exuvia_wait:
            return job
        cluster.step()
    return cluster.job(job_id)


def test_a_job_without_a_worker_says_how_many_are_busy():
    held = Held()
    cluster = cluster_with(held, pools=Pools(4, 2))
    first, second, third = (add_index(cluster, name) for name in ("t1", "t2", "t3"))
    waiting = wait_of(cluster, third)
    assert waiting.exuvia_wait == "waiting: reorg worker (2 of 2 busy)"
    assert waiting.state == JobState.QUEUEING
    held.free = True
    for job_id in (first, second, third):
        assert cluster.finish(job_id).exuvia_wait == ""


def test_the_pools_are_as_large_as_the_variables_say_at_each_look():
    held = Held()
    cluster = cluster_with(held, pools=FROM_VARIABLES)
    set_variable(cluster, "exuvia_ddl_reorg_workers", "1")
    first, second = add_index(cluster, "t1"), add_index(cluster, "t2")
    assert wait_of(cluster, second).exuvia_wait == "waiting: reorg worker (1 of 1 busy)"
    set_variable(cluster, "exuvia_ddl_reorg_workers", "2")
    cluster.step(300)
    assert cluster.job(second).state == JobState.RUNNING
    held.free = True
    assert cluster.finish(first).state == cluster.finish(second).state == JobState.SYNCED


def set_variable(cluster, name, text):
    txn = cluster.store.begin()
    variables.set_global(txn, name, text)
    txn.commit()


def test_a_job_behind_another_names_it():
    held = Held()
    cluster = cluster_with(held)
    first = add_index(cluster, "t1")
    info = cluster.table("t1").info
    second = cluster.submit(requests.add_column(cluster.database(), info, column("c")))
    waiting = wait_of(cluster, second)
    assert waiting.exuvia_wait == f"waiting: job {first} (add index test.t1)"
    assert waiting.dependency_id == first
    held.free = True
    assert cluster.finish(second).dependency_id == 0


def test_a_job_that_waits_for_a_front_names_it_and_its_blocker():
    cluster = SmallCluster()
    cluster.run(requests.create_table(cluster.database(), abc()))
    front, t = cluster.fronts[0], cluster.table("t")
    front.locks.hold("txn", t.info.id, t.revision, "open transaction of connection 12 wrote t")
    info = t.info
    job_id = cluster.submit(requests.add_column(cluster.database(), info, column("c")))
    for _ in range(400):
        cluster.step()
    reason = cluster.job(job_id).exuvia_wait
    assert reason.startswith("waiting: node front0: open transaction of connection 12 wrote t")
    front.locks.release("txn")
    assert cluster.finish(job_id).state == JobState.SYNCED


def test_a_silent_front_is_named_then_fenced_after_its_lease():
    cluster = SmallCluster(fronts=2)
    cluster.run(requests.create_table(cluster.database(), abc()))
    silent = cluster.fronts.pop()
    info = cluster.table("t").info
    job_id = cluster.submit(requests.add_column(cluster.database(), info, column("c")))
    cluster.step(70)
    assert "node front1: " in cluster.job(job_id).exuvia_wait
    assert cluster.finish(job_id).state == JobState.SYNCED
    silent.member.step(cluster.clock.monotonic())
    assert silent.member.fenced


def test_a_fill_shows_rows_rate_and_time_left():
    held = Held()
    cluster = cluster_with(held)
    job_id = add_index(cluster, "t1")
    cluster.step(200)
    job = cluster.job(job_id)
    assert (job.row_count, job.exuvia_note) == (2, "fill, 50 rows/s, 9 s left, 1 spans done")
    held.free = True
    assert cluster.finish(job_id).row_count == 3


def test_a_fill_that_cannot_run_says_why_and_goes_on_later():
    held = Held()
    held.ready = False
    cluster = cluster_with(held)
    job_id = add_index(cluster, "t1")
    cluster.step(200)
    assert cluster.job(job_id).row()[12] == "waiting: no Java was found"
    assert cluster.job(job_id).err_count == 0
    held.ready = held.free = True
    assert cluster.finish(job_id).state == JobState.SYNCED


def test_a_cancel_is_seen_in_the_middle_of_a_fill():
    held = Held()
    cluster = cluster_with(held)
    job_id = add_index(cluster, "t1")
    cluster.step(100)
    assert cluster.job(job_id).exuvia_note.startswith("fill, 50 rows/s")
    txn = cluster.store.begin()
    queue.update(txn, evolve(queue.get(txn, job_id), state=JobState.CANCELLING))
    txn.commit()
    noted = {}
    while not cluster.job(job_id).in_history:
        cluster.step()
        noted[cluster.job(job_id).state] = cluster.job(job_id).exuvia_note
    assert noted[JobState.ROLLINGBACK] == ""  # no rate, no time left: nothing is filled any more
    job = cluster.finish(job_id)
    assert job.state == JobState.ROLLBACK_DONE
    assert (job.error().code, job.error().message) == (8214, "Cancelled DDL job")


def test_a_paused_job_keeps_its_place_and_gives_its_worker_back():
    held = Held()
    cluster = cluster_with(held, pools=Pools(4, 1))
    first, second = add_index(cluster, "t1"), add_index(cluster, "t2")
    info = cluster.table("t1").info
    third = cluster.submit(requests.add_column(cluster.database(), info, column("c")))
    cluster.step(100)
    admin.command_now(cluster.store, "pause", [first])
    held.free = True
    assert cluster.finish(second).state == JobState.SYNCED
    cluster.step(300)
    assert cluster.job(first).state == JobState.PAUSED
    assert cluster.job(third).state == JobState.QUEUEING
    admin.command_now(cluster.store, "resume", [first])
    assert cluster.finish(third).state == cluster.finish(first).state == JobState.SYNCED


def test_many_that_wait_are_written_down_now_and_then_so_that_others_can_step():
    held = Held()
    cluster = cluster_with(held)
    add_index(cluster, "t1")
    database, info = cluster.database(), cluster.table("t1").info
    waiting = [
        cluster.submit(requests.add_column(database, info, column(f"c{n}"))) for n in range(200)
    ]
    cluster.step(100)
    notes, now = cluster.owner.ddl.manager.status_writer, cluster.clock.monotonic() + 2
    assert [notes.step(now) for _ in range(3)] == [True, False, False]
    assert cluster.job(waiting[0]).exuvia_wait
    cluster.step(600)
    assert all(cluster.job(each).exuvia_wait for each in waiting), "in the end all of them"


def test_a_cancel_that_comes_while_a_wait_is_noted_is_not_lost(monkeypatch):
    cluster = SmallCluster()
    cluster.run(requests.create_table(cluster.database(), abc()))
    front, t = cluster.fronts[0], cluster.table("t")
    front.locks.hold("txn", t.info.id, t.revision, "an open transaction")
    job_id = cluster.submit(requests.add_column(cluster.database(), t.info, column("c")))
    lagging, calls, answers = Waiter.lagging, [], []

    def cancelled_meanwhile(waiter, job_id, now):
        """Between the worker's look at its job and its first note of what that waits for."""
        lags = lagging(waiter, job_id, now)
        if not lags or (calls and now - calls[-1] > 2 * LAG_POLL_S):
            calls.clear()
        calls.append(now)
        if not answers and now - calls[0] >= NOTE_EVERY_S:
            answers.extend(admin.command_now(cluster.store, "cancel", [job_id]))
        return lags

    monkeypatch.setattr(Waiter, "lagging", cancelled_meanwhile)
    cluster.step(400)
    assert answers == [(job_id, None)]
    front.locks.release("txn")
    assert cluster.finish(job_id).state == JobState.ROLLBACK_DONE


# -- as an operator sees it ------------------------------------------------------------------------

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
