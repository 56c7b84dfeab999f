"""The discipline of seeds 001 and 002, and what seed 000 says it costs."""

import pytest

from exuvia.catalog import meta, writer
from exuvia.catalog.sysvar import variables
from exuvia.ddl import queue, requests, two_queues
from exuvia.ddl.job import ActionCode, Job, JobState, decode
from exuvia.ddl.two_queues import TwoQueues
from exuvia.kv import keys
from exuvia.pipeline.reorg import Done, Running
from support.small_cluster import SmallCluster
from support.tables import abc, column, index
from support.world import World, error, rows, run

GENERAL, REORG = False, True


def job(number, table=0, action=ActionCode.ADD_COLUMN, schema=1):
    return Job(id=number, type=action, schema_id=schema, table_id=table)


def queues(*jobs):
    found = TwoQueues()
    for each in jobs:
        found.add(each)
    return found


def test_of_each_queue_only_the_first_runs_whatever_its_table():
    two = queues(job(1, table=7), job(2, table=8))
    assert two.take(GENERAL).id == 1
    assert two.take(GENERAL) is None and two.blocker(2) == 1
    two.remove(1)
    assert two.take(GENERAL).id == 2


def test_a_general_job_behind_a_reorg_of_its_table_holds_up_all_general_jobs():
    two = queues(job(1, 7, ActionCode.ADD_INDEX), job(2, 7), job(3, 9, ActionCode.CREATE_TABLE))
    assert two.take(REORG).id == 1
    assert two.take(GENERAL) is None
    assert (two.blocker(2), two.blocker(3)) == (1, 2)
    two.remove(1)
    assert two.take(GENERAL).id == 2


def test_a_drop_of_a_schema_depends_on_every_older_job_in_it():
    two = queues(job(1, 7, ActionCode.ADD_INDEX), job(2, 0, ActionCode.DROP_SCHEMA))
    assert two.blocker(2) == 1 and queues(job(1, 7, schema=2)).blocker(1) == 0
    two.give_back(1)
    assert two.take(REORG).id == 1 and two.is_running(1)


class Held:
    """A reorg that goes on until it is let go."""

    free = False

    def step(self, now):
        return Done(1) if self.free else Running(0, 1.0, 1.0, "fill", "")

    def stop(self):
        pass


@pytest.fixture
def held():
    return Held()


@pytest.fixture
def cluster(held):
    """Under the old discipline: two tables of one row."""
    found = SmallCluster(reorgs=lambda store: lambda *_: held)
    for name in ("t", "small"):
        found.run(requests.create_table(found.database(), abc(name)))
        txn = found.store.begin()
        writer.insert(txn, found.table(name), [1, 1, 1])
        txn.commit()
    txn = found.store.begin()
    variables.set_global(txn, "tidb_enable_concurrent_ddl", "OFF")
    txn.commit()
    return found


def ask_for_both_cases(cluster):
    """Seed 000's statements: an index on t, a column of t, a new table; an index on a small one."""
    database, t, small = cluster.database(), cluster.table("t").info, cluster.table("small").info
    return [
        cluster.submit(requests.add_index(database, t, index("ia", "a"))),
        cluster.submit(requests.add_column(database, t, column("c"))),
        cluster.submit(requests.create_table(database, abc("t1"))),
        cluster.submit(requests.add_index(database, small, index("ia", "a"))),
    ]


@pytest.mark.parametrize("concurrent", [False, True])
def test_both_cases_of_seed_000(cluster, held, concurrent):
    if concurrent:
        txn = cluster.store.begin()
        variables.reset_global(txn, "tidb_enable_concurrent_ddl")
        txn.commit()
    long_index, same_table, new_table, small_index = ask_for_both_cases(cluster)
    cluster.step(400)
    states = [cluster.job(each).state for each in (same_table, new_table)]
    waits = cluster.job(small_index)
    if concurrent:
        assert states == [JobState.QUEUEING, JobState.SYNCED]
        assert waits.state == JobState.RUNNING
    else:
        assert states == [JobState.QUEUEING, JobState.QUEUEING]
        assert waits.exuvia_wait == f"waiting: job {long_index} (add index test.t)"
        assert cluster.job(new_table).dependency_id == same_table
    held.free = True
    for each in (long_index, same_table, new_table, small_index):
        assert cluster.finish(each).state == JobState.SYNCED


def test_jobs_are_json_in_lists_under_m_and_history_too(cluster, held):
    job_ids = ask_for_both_cases(cluster)
    cluster.step(50)

    def listed(txn, name):
        return [decode(raw).id for _, raw in txn.scan(keys.span_of(keys.meta(name)))]

    reorg, general = [job_ids[0], job_ids[3]], job_ids[1:3]
    assert cluster.read(lambda txn: listed(txn, two_queues.ADD_INDEX_JOB_LIST_KEY)) == reorg
    assert cluster.read(lambda txn: listed(txn, two_queues.DEFAULT_JOB_LIST_KEY)) == general
    held.free = True
    for each in job_ids:
        cluster.finish(each)
    assert cluster.read(lambda txn: listed(txn, two_queues.HISTORY_KEY)) == job_ids
    newest = cluster.read(lambda txn: [each.id for each in queue.history(txn, 5)])
    assert newest == sorted(newest, reverse=True) and set(job_ids) < set(newest)


def test_an_owner_that_crashes_goes_on_with_the_lists(cluster, held):
    job_ids = ask_for_both_cases(cluster)
    cluster.step(50)
    cluster.crash_owner()
    held.free = True
    assert {cluster.finish(each).state for each in job_ids} == {JobState.SYNCED}


def test_by_sql_the_discipline_is_switched_between_jobs_only():
    with World() as world:
        session = world.session()
        run(session, "CREATE TABLE t (a int PRIMARY KEY)")
        run(session, "SET GLOBAL tidb_enable_concurrent_ddl = OFF")
        run(session, "ALTER TABLE t ADD COLUMN b int")
        run(session, "INSERT INTO t VALUES (1, 2)")
        run(session, "CREATE INDEX ib ON t (b)")
        shown = rows(session, "ADMIN SHOW DDL JOBS 2")
        assert [row[3] for row in shown] == ["add index", "add column"]
        run(session, "ADMIN CHECK TABLE t")
        txn = world.store.begin()
        info = world.services.schemas.table(txn, "test", "t").info
        waiting = Job(  # paused: the owner may look at it at any moment, and leaves it
            id=meta.next_ids(txn, 1),
            type=ActionCode.ADD_COLUMN,
            schema_id=info.exuvia_db,
            table_id=info.id,
            state=JobState.PAUSED,
        )
        two_queues.put(txn, waiting, reorg=False)
        txn.commit()
        assert error(session, "SET GLOBAL tidb_enable_concurrent_ddl = ON") == (1105, "HY000")
        assert error(session, "SET GLOBAL tidb_enable_metadata_lock = OFF") == (1105, "HY000")
        run(session, "SET GLOBAL tidb_enable_metadata_lock = ON")
        run(session, f"ADMIN CANCEL DDL JOBS {waiting.id}")
