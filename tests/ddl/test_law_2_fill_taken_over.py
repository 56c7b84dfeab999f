"""Law 2: a fill that is taken over has a new epoch, so tasks of the driver before it are over."""

from exuvia.catalog import writer
from exuvia.ddl import requests
from exuvia.ddl.apply import take_epoch
from exuvia.ddl.job import JobState
from exuvia.pipeline.phase_runner import PhaseRunner
from exuvia.pipeline.settings import Fixed, PipelineSettings
from support.small_cluster import SmallCluster
from support.tables import abc, index

SETTINGS = PipelineSettings(
    workers=1, batch_rows=64, inline_rows=1 << 30, span_rows=300, verify="full"
)


class Filled:
    """A cluster whose table t of 1,000 rows gets an index: `epochs`, those of its fills so far."""

    def __init__(self):
        self.epochs = []
        self.cluster = SmallCluster(reorgs=self.by_the_pipeline)
        cluster = self.cluster
        cluster.run(requests.create_table(cluster.database(), abc()))
        t, txn = cluster.table("t"), cluster.store.begin()
        for n in range(1000):
            writer.insert(txn, t, [n, n % 700, n])
        txn.commit()
        wanted = requests.add_index(cluster.database(), t.info, index("ib", "b"))
        self.job_id = cluster.submit(wanted)
        while not self.epochs:
            cluster.step()

    def by_the_pipeline(self, store):
        def reorg(job_id, epoch, table, work):
            self.epochs.append(epoch)
            return PhaseRunner(store, job_id, epoch, table, work, dial=Fixed(SETTINGS))

        return reorg

    def finish(self):
        job = self.cluster.finish(self.job_id)
        assert (job.state, job.row_count) == (JobState.SYNCED, 1000)


def test_each_driver_of_a_fill_has_an_epoch_of_its_own():
    fill = Filled()
    fill.cluster.crash_owner()
    fill.finish()
    assert len(fill.epochs) == 2
    assert fill.epochs[0] < fill.epochs[1]


def test_a_fill_that_was_refused_is_let_go_and_never_stepped_again():
    fill = Filled()
    fill.cluster.step()
    txn = fill.cluster.store.begin()
    taken = take_epoch(txn, fill.job_id)
    txn.commit()
    fill.finish()  # an error in a fill is raised here
    assert fill.epochs[0] < taken < fill.epochs[1]
