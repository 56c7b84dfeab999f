"""The owner with the pipeline's own reorg, in this process: filled, verified, duplicates named."""

from exuvia.catalog import reader, writer
from exuvia.ddl import requests
from exuvia.ddl.job import JobState
from exuvia.kv import keys
from exuvia.pipeline.phase_runner import PhaseRunner
from exuvia.pipeline.settings import Fixed, PipelineSettings
from support.small_cluster import SmallCluster
from support.tables import abc, index

SETTINGS = PipelineSettings(
    workers=1, batch_rows=64, inline_rows=1 << 30, span_rows=300, verify="full"
)


def by_the_pipeline(store):
    dial = Fixed(SETTINGS)
    return lambda job_id, epoch, table, work: PhaseRunner(
        store, job_id, epoch, table, work, dial=dial
    )


def filled(rows):
    cluster = SmallCluster(reorgs=by_the_pipeline)
    cluster.run(requests.create_table(cluster.database(), abc()))
    t, txn = cluster.table("t"), cluster.store.begin()
    for n in range(rows):
        writer.insert(txn, t, [n, n % 700, n])
    txn.commit()
    return cluster, t.info


def test_two_indexes_are_filled_by_one_scan_and_verified():
    cluster, info = filled(1000)
    wanted = [index("ia", "a"), index("ub", "b", unique=True)]
    job = cluster.run(requests.add_index(cluster.database(), info, wanted))
    assert (job.state, job.row_count) == (JobState.SYNCED, 1000)
    t = cluster.table("t")

    def entries(txn):
        return [len(list(reader.scan_index(txn, t, each))) for each in t.info.indexes]

    assert cluster.read(entries) == [1000, 1000]


def test_the_duplicates_of_a_unique_build_are_all_named_and_the_rest_is_gone():
    cluster, info = filled(710)
    wanted = index("ua", "a", unique=True)
    job = cluster.run(requests.add_index(cluster.database(), info, wanted))
    assert job.state == JobState.ROLLBACK_DONE
    error = job.error()
    first, counted = error.message.split(" (", 1)
    lines = [first, *error.listing.splitlines()]
    assert counted.startswith("10 duplicates: ")
    assert sorted(lines) == [f"Duplicate entry '{n}' for key 't.ua'" for n in range(10)]
    cluster.step(20)
    assert cluster.store.count(keys.span_of(keys.index_prefix(info.id, 1))) == 0


def test_an_owner_that_dies_in_a_fill_is_followed_by_one_that_skips_what_is_done():
    cluster, info = filled(1000)
    wanted = index("ib", "b")
    job_id = cluster.submit(requests.add_index(cluster.database(), info, wanted))
    while cluster.job(job_id).row_count == 0:
        cluster.step()
    cluster.crash_owner()
    job = cluster.finish(job_id)
    assert (job.state, job.row_count) == (JobState.SYNCED, 1000)
