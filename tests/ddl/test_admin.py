"""Cancel, pause, resume and alter: answers as TiDB's, effect within a step or a batch (law 10)."""

import pytest

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import ErrUnknown
from exuvia.catalog import writer
from exuvia.ddl import admin, queue, requests
from exuvia.ddl.job import JobState, evolve
from exuvia.ddl.manager import Pools
from exuvia.ddl.worker import JobWorker
from exuvia.kv import keys
from exuvia.pipeline.reorg import Done, Running
from exuvia.pipeline.settings import Own, PipelineSettings, Variables
from exuvia.pipeline.throttle import Batch, throttled
from support.small_cluster import SmallCluster
from support.tables import abc, column, index


class Held:
    """A reorg that goes on until it is let go."""

    free = False

    def step(self, now):
        return Done(3) if self.free else Running(2, 50.0, 9.0, "fill", "")

    def stop(self):
        pass


def cluster_with(held, **options):
    cluster = SmallCluster(reorgs=lambda store: lambda *_: held, **options)
    for name in ("t1", "t2"):
        cluster.run(requests.create_table(cluster.database(), abc(name)))
        txn = cluster.store.begin()
        writer.insert(txn, cluster.table(name), [1, 1, 1])
        txn.commit()
    return cluster


def add_index(cluster, name="t1"):
    info = cluster.table(name).info
    return cluster.submit(requests.add_index(cluster.database(), info, index("i", "a")))


def add_column(cluster, name="t1"):
    info = cluster.table(name).info
    return cluster.submit(requests.add_column(cluster.database(), info, column("c")))


def told(cluster, kind, job_id, by=admin.END_USER):
    """RESULT of a command on one job."""
    ((_, error),) = admin.command_now(cluster.store, kind, [job_id], by)
    return "successful" if error is None else f"{error.code} {error.message}"


def written(cluster, job_id, **fields):
    """The job's row as somebody else left it."""
    txn = cluster.store.begin()
    queue.update(txn, evolve(queue.get(txn, job_id), **fields))
    txn.commit()


def test_jobs_that_are_not_there():
    cluster = cluster_with(Held())
    assert told(cluster, "cancel", 12) == "8224 DDL Job:12 not found"
    ended = cluster.run(requests.create_database("d"))
    assert told(cluster, "pause", ended.id) == f"8224 DDL Job:{ended.id} not found"


@pytest.mark.parametrize(
    ("fields", "kind", "answer"),
    [
        ({"state": JobState.DONE}, "cancel", "8225 This job:{} is finished, so can't be cancelled"),
        ({"state": JobState.ROLLINGBACK}, "cancel", "successful"),
        ({"state": JobState.CANCELLING}, "cancel", "successful"),
        (
            {"exuvia_tail": True},
            "cancel",
            "8226 This job:{} is almost finished, can't be cancelled now",
        ),
        (
            {"exuvia_tail": True},
            "pause",
            "8260 Job [{}] can't be paused: state [running] or schema state [write reorganization]",
        ),
        ({"state": JobState.PAUSING}, "pause", "8262 Job [{}] has already been paused"),
        ({"state": JobState.PAUSED}, "pause", "8262 Job [{}] has already been paused"),
        (
            {},
            "resume",
            "8261 Job [{}] can't be resumed: job has not been paused, job state:running, "
            "schema state:write reorganization",
        ),
        (
            {"state": JobState.PAUSED, "admin_operator": admin.SYSTEM},
            "resume",
            "8261 Job [{}] can't be resumed: job has been paused by [System], should not resumed "
            "by [EndUser]",
        ),
    ],
)
def test_answers(fields, kind, answer):
    cluster = cluster_with(Held())
    job_id = add_index(cluster)
    cluster.step(100)
    written(cluster, job_id, **fields)
    assert told(cluster, kind, job_id) == answer.format(job_id)


def test_a_drop_that_has_begun_turns_back_no_more():
    cluster = cluster_with(Held())
    info = cluster.table("t1").info
    job_id = cluster.submit(requests.drop_column(cluster.database(), info, "b"))
    cluster.fronts[0].mute = True
    cluster.step(5)
    assert cluster.job(job_id).begun
    assert told(cluster, "cancel", job_id).startswith("8226")
    cluster.fronts[0].mute = False
    assert cluster.finish(job_id).state == JobState.SYNCED


def test_a_fill_is_cancelled_within_its_poll_and_leaves_nothing():
    cluster = cluster_with(Held())
    job_id = add_index(cluster)
    cluster.step(100)
    assert told(cluster, "cancel", job_id) == "successful"
    cluster.step(20)
    job = cluster.job(job_id)
    assert (job.state, job.error().message) == (JobState.ROLLBACK_DONE, "Cancelled DDL job")
    assert cluster.table("t1").info.indexes == ()


def test_a_job_that_waits_for_its_turn_is_cancelled_before_it():
    held = Held()
    cluster = cluster_with(held)
    first, second, third = add_index(cluster), add_column(cluster), add_column(cluster, "t2")
    cluster.step(100)
    assert cluster.job(third).state == JobState.SYNCED
    assert told(cluster, "cancel", second) == "successful"
    cluster.step(3)
    assert cluster.job(second).state == JobState.CANCELLED
    assert cluster.job(first).state == JobState.RUNNING
    held.free = True
    assert cluster.finish(first).state == JobState.SYNCED


def test_a_job_that_waits_is_paused_at_once_and_stays_so_when_its_turn_comes():
    held = Held()
    cluster = cluster_with(held)
    first, second = add_index(cluster), add_column(cluster)
    cluster.step(50)
    assert told(cluster, "pause", second) == "successful"
    cluster.step(3)
    assert cluster.job(second).state == JobState.PAUSED
    held.free = True
    cluster.finish(first)
    cluster.step(300)
    assert cluster.job(second).state == JobState.PAUSED
    assert told(cluster, "resume", second) == "successful"
    assert cluster.finish(second).state == JobState.SYNCED


def test_a_paused_fill_gives_its_worker_away_and_may_be_cancelled():
    held = Held()
    cluster = cluster_with(held, pools=Pools(4, 1))
    first, second = add_index(cluster), add_index(cluster, "t2")
    cluster.step(100)
    assert told(cluster, "pause", first) == "successful"
    cluster.step(50)
    assert cluster.job(first).state == JobState.PAUSED
    assert cluster.job(second).state == JobState.RUNNING
    assert told(cluster, "cancel", first) == "successful"
    held.free = True
    assert cluster.finish(second).state == JobState.SYNCED
    assert cluster.finish(first).state == JobState.ROLLBACK_DONE


def test_paused_jobs_cost_nothing_until_they_are_resumed(monkeypatch):
    cluster = cluster_with(Held())
    cluster.fronts[0].mute = True
    first = [add_column(cluster), add_column(cluster, "t2")]  # these are stuck at their first step
    cluster.step(5)
    jobs = [
        cluster.submit(requests.create_table(cluster.database(), abc(f"n{n}"))) for n in range(250)
    ]
    answers = admin.command_now(cluster.store, "pause", jobs)
    assert all(error is None for _, error in answers)
    cluster.step(1200)
    assert {cluster.job(each).state for each in jobs} == {JobState.PAUSED}
    cluster.fronts[0].mute = False
    for each in first:
        cluster.finish(each)
    looked, step = [], JobWorker.step
    monkeypatch.setattr(JobWorker, "step", lambda w, now: looked.append(w.job_id) or step(w, now))
    cluster.step(1000)  # ten seconds
    assert len(looked) <= len(jobs), "a look at each now and then, not at every tick"
    admin.command_now(cluster.store, "resume", jobs)
    cluster.step(700)
    assert {cluster.job(each).state for each in jobs} == {JobState.SYNCED}


def test_what_a_job_ends_with_is_its_first_error():
    cluster = cluster_with(Held())
    job_id = add_index(cluster)
    cluster.step(100)
    job = cluster.job(job_id)
    written(cluster, job_id, err=Refusal("the disk is full").at(job), err_count=3)
    told(cluster, "cancel", job_id)
    error = cluster.finish(job_id).error()
    assert (error.code, error.message) == (1105, "DDL job rollback, error msg: the disk is full")


class Refusal(str):
    """A job's error, from its text."""

    def at(self, job):
        from exuvia.ddl.job import failed

        return failed(job, ErrUnknown(str(self))).err


def test_a_reorgs_own_settings_stand_before_the_variables():
    cluster = cluster_with(Held())
    job_id = add_index(cluster)
    cluster.step(100)
    dial = Variables(cluster.store, lambda: 0.0, job_id=job_id)
    txn = cluster.store.begin()
    admin.alter(txn, job_id, Own(concurrency=7, max_write_speed=1 << 20))
    txn.commit()
    txn = cluster.store.begin()
    admin.alter(txn, job_id, Own(batch_size=64))
    txn.commit()
    settings = dial.read()
    assert (settings.workers, settings.batch_rows, settings.write_speed) == (7, 64, 1 << 20)
    comments = cluster.job(job_id).row()[12]
    assert comments.startswith("thread=7, batch_size=64, max_write_speed=1048576")
    told(cluster, "cancel", job_id)
    cluster.finish(job_id)
    assert cluster.read(lambda txn: txn.get(keys.meta("dial", job_id))) is None


def test_a_job_without_a_reorg_is_not_altered():
    cluster = cluster_with(Held())
    cluster.fronts[0].mute = True
    job_id = add_column(cluster)
    txn = cluster.store.begin()
    with pytest.raises(Refused, match=r"unsupported DDL operation: add column\. Supported DDL"):
        admin.alter(txn, job_id, Own(concurrency=7))
    txn.rollback()


def test_bytes_a_second_are_kept_by_resting():
    slow = PipelineSettings(workers=4, write_speed=1000)
    assert throttled(Batch(5, 0.5), 2000, slow, 1).rest_s == 1.5
    assert throttled(Batch(5, 0.5), 2000, slow, 16).rest_s == 7.5
    assert throttled(Batch(5, 0.5, 0.2), 2000, PipelineSettings(), 16).rest_s == 0.2
