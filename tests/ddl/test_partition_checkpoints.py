"""A job on a partitioned table is finished partition by partition: who takes it over does none of
them again, neither its rows nor its verification."""

from collections import Counter

import pytest

from exuvia.base.errors import Deposed
from exuvia.base.types import Flag, TypeCode
from exuvia.catalog import writer
from exuvia.catalog.model import evolve
from exuvia.catalog.sysvar import variables
from exuvia.ddl import requests
from exuvia.ddl.job import JobState
from exuvia.ddl.queue import system_table
from exuvia.kv import keys
from exuvia.node.assemble import JUDGE
from exuvia.pipeline import checkpoint
from exuvia.pipeline.executor import Executor
from exuvia.pipeline.phase_runner import PhaseRunner
from exuvia.pipeline.task import order_for
from support.script_actions import changed, modify, ranges
from support.small_cluster import SmallCluster
from support.tables import abc, index

PARTS = 4
ROWS_EACH = 30


def modified(cluster, column, **kind):
    return modify(cluster, changed(cluster.table("t").info.column(column), **kind))


WORK = {
    "ADD INDEX": lambda cluster: requests.add_index(
        cluster.database(), cluster.table("t").info, index("ia", "a")
    ),
    "MODIFY, rows are written": lambda c: modified(c, "b", Tp=TypeCode.DOUBLE, Decimal=-1),
    "MODIFY, rows are read": lambda c: modified(c, "a", Flag=int(Flag.NOT_NULL)),
}


@pytest.fixture
def cluster():
    """t in four partitions, with an index on b."""

    def production(store):
        return lambda *order: PhaseRunner(store, *order, None, JUDGE)

    found = SmallCluster(reorgs=production)
    bounds = {f"p{n}": str(100 * (n + 1)) for n in range(PARTS)}
    info = evolve(abc(indexes=(index("ib", "b"),)), partition=ranges(**bounds))
    found.run(requests.create_table(found.database(), info))
    txn = found.store.begin()
    variables.set_global(txn, "exuvia_ddl_reorg_span_rows", 8)
    for n, part in enumerate(found.table("t").parts):
        for row in range(ROWS_EACH):
            writer.insert(txn, part, [100 * n + row, row, row])
    txn.commit()
    return found


@pytest.fixture
def done(monkeypatch):
    """(kernel, partition) -> spans begun, in the order they came."""
    found, start = [], Executor.start

    def counted(crew, tag, tasks, *more):
        found.extend((each.kind, each.order.physical_id) for each in tasks)
        start(crew, tag, tasks, *more)

    monkeypatch.setattr(Executor, "start", counted)
    return found


def until_partition(cluster, done, physical_id):
    for _ in range(3000):
        if any(each == physical_id for _, each in done):
            return
        cluster.step()
    raise AssertionError("it does not come that far")


@pytest.mark.parametrize("work", WORK)
def test_a_kill_does_not_redo_finished_partitions(cluster, done, work):
    parts = [part.physical_id for part in cluster.table("t").parts]
    job_id = cluster.submit(WORK[work](cluster))
    until_partition(cluster, done, parts[2])
    before = Counter(done)
    done.clear()
    cluster.crash_owner()
    job = cluster.finish(job_id)
    assert (job.state, job.row_count) == (JobState.SYNCED, PARTS * ROWS_EACH)
    after = Counter(done)
    assert {physical_id for _, physical_id in after} == {*parts[2:]}
    for kind in {kind for kind, _ in before}:
        spans = {(before + after)[kind, each] for each in (parts[0], parts[1], parts[3])}
        assert len(spans) == 1 and spans != {0}, "as many for each, and so none of them twice"


@pytest.mark.parametrize("work", WORK)
def test_what_was_remembered_goes_with_the_job(cluster, work):
    cluster.run(WORK[work](cluster))
    span = cluster.read(lambda txn: system_table(txn, "tidb_ddl_reorg").row_span())
    assert cluster.store.count(span) == 0


def test_a_driver_that_was_left_remembers_nothing(cluster):
    """Law 2: what it says to be finished is refused, like what it writes."""
    part = cluster.table("t").parts[0]
    txn = cluster.store.begin()
    txn.put(keys.meta("reorg", 77), keys.number(2))
    txn.commit()
    span = part.row_span()

    def remember(order):
        cluster.store.transact(lambda txn: checkpoint.put_whole(txn, order, span, ROWS_EACH))

    def remembered(table, *index_ids):
        return cluster.read(lambda txn: checkpoint.whole(txn, order_for(table, index_ids, 77, 2)))

    with pytest.raises(Deposed):
        remember(order_for(part, (1,), 77, 1))
    assert remembered(part, 1) is None
    remember(order_for(part, (1,), 77, 2))
    assert remembered(part, 1).rows == ROWS_EACH
    assert remembered(cluster.table("t").parts[1], 1) is None
    assert remembered(part, 2) is None
