"""Law 2: a fill that is taken over has a new epoch, so tasks of the driver before it are over."""

from exuvia.catalog import writer
from exuvia.ddl import requests
from exuvia.ddl.codes import JobState
from exuvia.pipeline.reorg import Reorg
from exuvia.pipeline.settings import Fixed, Settings
from support.small_cluster import SmallCluster
from support.small_tables import abc, index

SETTINGS = Settings(workers=1, batch_rows=64, inline_rows=1 << 30, span_rows=300, verify="full")


def test_each_driver_of_a_fill_has_an_epoch_of_its_own():
    epochs = []

    def by_the_pipeline(store):
        def reorg(job_id, epoch, table, plan):
            epochs.append(epoch)
            return Reorg(store, job_id, epoch, table, list(plan.indexes), None, Fixed(SETTINGS))

        return reorg

    cluster = SmallCluster(reorgs=by_the_pipeline)
    cluster.run(requests.create_table(cluster.database(), abc()))
    t, txn = cluster.table("t"), cluster.store.begin()
    for n in range(1000):
        writer.insert(txn, t, [n, n % 700, n])
    txn.commit()
    job_id = cluster.submit(requests.add_index(cluster.database(), t.info, index("ib", "b")))
    while not epochs:
        cluster.step()
    cluster.crash_owner()
    job = cluster.finish(job_id)
    assert (job.state, job.row_count) == (JobState.SYNCED, 1000)
    assert len(epochs) == 2
    assert epochs[0] < epochs[1]
