"""CREATE TABLE ... SELECT as a job: it waits for its rows, and turns back without them."""

import pytest

from exuvia.base.errors import Deposed
from exuvia.catalog import meta, reader
from exuvia.catalog.model import SchemaState
from exuvia.ddl import requests
from exuvia.ddl.actions.load import epoch_of, finish_load, may_load
from exuvia.ddl.job import JobState, evolve
from exuvia.kv import keys
from exuvia.pipeline import bulk
from exuvia.pipeline.executor import Executor
from exuvia.pipeline.phase_runner import PhaseRunner
from support.small_cluster import SmallCluster
from support.tables import abc, index

ROWS = [[n, n, n] for n in range(20)]


def production(store):
    return lambda *order: PhaseRunner(store, *order, None)


class Loading:
    """A job whose rows are to be loaded by a session of the second front."""

    def __init__(self, rows: list[list[int]] = ROWS) -> None:
        self.rows = rows
        self.cluster = SmallCluster(fronts=2, reorgs=production)
        self.member = self.cluster.fronts[1].member
        table = abc(indexes=(index("ia", "a"), index("ub", "b", unique=True)))
        job = requests.create_table(self.cluster.database(), table)
        raw_args = (job.raw_args[0], {"loader": self.member.id})
        self.before = self.cluster.read(meta.version)
        self.job_id = self.cluster.submit(evolve(job, raw_args=raw_args, reorg_meta={}))
        while not may_load(self.cluster.job(self.job_id)):
            self.cluster.step()
        self.epoch = self.cluster.read(lambda txn: epoch_of(txn, self.job_id))
        table_id = self.cluster.job(self.job_id).table_id
        schemas = self.cluster.fronts[0].schemas
        self.table = self.cluster.read(lambda txn: schemas.table_by_id(txn, table_id))

    def load(self) -> None:
        bulk.load(
            self.cluster.store,
            self.table,
            [self.rows],
            job_id=self.job_id,
            epoch=self.epoch,
            judged=True,
        )

    def finish(self) -> None:
        txn = self.cluster.store.begin()
        finish_load(txn, self.member, self.job_id, self.epoch, len(ROWS))
        txn.commit()


@pytest.fixture
def it():
    return Loading()


def test_it_becomes_public_once_its_rows_are_there(it):
    it.cluster.step(20)
    assert it.cluster.job(it.job_id).schema_state == SchemaState.WRITE_ONLY
    it.load()
    it.finish()
    assert it.cluster.finish(it.job_id).state == JobState.SYNCED
    assert it.cluster.read(meta.version) - it.before == 2
    found = it.cluster.table("t")
    assert len(it.cluster.read(lambda txn: list(reader.scan(txn, found)))) == len(ROWS)
    assert it.cluster.store.count(keys.span_of(keys.meta("loaded"))) == 0


def entries(it):
    """How many each index has."""
    return [it.cluster.store.count(it.table.index_span(each)) for each in it.table.info.indexes]


def test_its_indexes_are_built_and_verified_by_the_job(it, monkeypatch):
    """On the owner's side, by the pipeline; the session's process only writes rows (law 9)."""
    kinds, start = [], Executor.start

    def noted(crew, tag, tasks, *more):
        kinds.extend(each.kind for each in tasks)
        start(crew, tag, tasks, *more)

    monkeypatch.setattr(Executor, "start", noted)
    it.load()
    assert entries(it) == [0, 0]
    it.finish()
    job = it.cluster.finish(it.job_id)
    assert (job.state, job.row_count) == (JobState.SYNCED, len(ROWS))
    assert entries(it) == [len(ROWS)] * 2
    assert kinds[0] == "fill" and len({*kinds}) > 1


def test_a_duplicate_takes_the_table_back():
    it = Loading([[1, 1, 7], [2, 2, 7], [3, 3, 8]])
    it.load()
    it.finish()
    job = it.cluster.finish(it.job_id)
    assert (job.state, job.error().code) == (JobState.ROLLBACK_DONE, 1062)
    assert job.error().message == (
        "Duplicate entry '7' for key 't.ub' (1 duplicate: '7' of id 1 and id 2)"
    )
    it.cluster.step(40)
    assert it.cluster.store.count(keys.table_span(job.table_id)) == 0


def test_another_owner_builds_them_once_the_loader_is_done(it):
    it.load()
    it.finish()
    while not it.cluster.read(lambda txn: epoch_of(txn, it.job_id)) > it.epoch:
        it.cluster.step()
    it.cluster.store.end_presence(f"member-{it.member.id}")
    it.cluster.fronts.pop()
    it.cluster.crash_owner()
    assert it.cluster.finish(it.job_id).state == JobState.SYNCED
    assert entries(it) == [len(ROWS)] * 2


def test_another_owner_goes_on_waiting(it):
    it.cluster.crash_owner()
    it.cluster.step(20)
    it.load()
    it.finish()
    assert it.cluster.finish(it.job_id).state == JobState.SYNCED


def test_without_its_loader_it_turns_back_and_leaves_nothing(it):
    it.load()
    it.cluster.store.end_presence(f"member-{it.member.id}")
    it.cluster.fronts.pop()
    job = it.cluster.finish(it.job_id)
    assert job.state == JobState.ROLLBACK_DONE
    assert job.error().message == "the node that ran the query of CREATE TABLE is gone"
    it.cluster.step(40)
    assert it.cluster.store.count(keys.table_span(job.table_id)) == 0


def test_law_2_a_loader_that_wakes_up_late_writes_nothing(it):
    it.cluster.store.end_presence(f"member-{it.member.id}")
    it.cluster.fronts.pop()
    job = it.cluster.finish(it.job_id)
    with pytest.raises(Deposed):
        it.load()
    with pytest.raises(Deposed):
        it.finish()
    assert it.cluster.store.count(keys.table_span(job.table_id)) == 0
