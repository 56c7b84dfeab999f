"""A dropped table is brought back or its rows are deleted, never both: either comes first."""

import pytest

from exuvia.base.errors import Conflict
from exuvia.catalog import meta, reader
from exuvia.catalog.infoschema import Schemas
from exuvia.catalog.model import TableInfo, name
from exuvia.ddl import delete_ranges, requests
from exuvia.ddl.job import JobState
from exuvia.kv import keys
from exuvia.pipeline.throttle import BatchSize
from support.scripts import Traffic
from support.small_cluster import SmallCluster
from support.tables import abc, index

ROWS = 40


@pytest.fixture
def cluster():
    made = SmallCluster()
    made.keep_dropped(600)
    indexes = (index("ia", "a"),)
    made.run(requests.create_table(made.database(), abc(indexes=indexes)))
    Traffic(made.store, "t", None).fill(ROWS)
    return made


def dropped(cluster):
    return cluster.run(requests.drop_table(cluster.database(), cluster.table("t").info))


def recovering(cluster, job, wanted="t"):
    table = job.exuvia_dropped or job.binlog.TableInfo
    return requests.recover_table(cluster.database(), table, wanted, job.id)


def rows_of(cluster, wanted="t"):
    return cluster.read(lambda txn: len(list(reader.scan(txn, cluster.table(wanted)))))


def gc_steps(cluster, times):
    gc = cluster.owner.ddl.gc
    gc.pace = BatchSize(5, near=True)
    for _ in range(times):
        gc.step(cluster.clock.monotonic())


def test_a_dropped_table_is_kept_as_long_as_it_may_be_recovered(cluster):
    job = dropped(cluster)
    gc_steps(cluster, 20)
    assert cluster.store.count(keys.table_span(job.table_id)) == 2 * ROWS
    cluster.clock.advance(601)
    gc_steps(cluster, 40)
    assert cluster.store.count(keys.table_span(job.table_id)) == 0
    assert cluster.read(delete_ranges.pending_ranges) == []


def test_a_recovered_table_has_its_rows_its_id_and_nothing_is_deleted_later(cluster):
    before = cluster.table("t")
    job = dropped(cluster)
    assert cluster.run(recovering(cluster, job, "back")).state == JobState.SYNCED
    cluster.keep_dropped(0)
    cluster.step(50)
    after = cluster.table("back")
    assert rows_of(cluster, "back") == ROWS and after.info.id == before.info.id
    assert after.revision >= before.revision + 2  # law 1: no plan of its former life may write


def test_what_was_begun_to_be_deleted_is_not_recovered(cluster):
    job = dropped(cluster)
    cluster.keep_dropped(0)
    gc_steps(cluster, 2)
    assert 0 < cluster.store.count(keys.table_span(job.table_id)) < 2 * ROWS
    cluster.keep_dropped(600)
    ended = cluster.run(recovering(cluster, job))
    assert (ended.state, ended.error().code) == (JobState.CANCELLED, 8055)


def test_what_was_deleted_is_not_recovered(cluster):
    job = dropped(cluster)
    cluster.keep_dropped(0)
    cluster.step(50)
    assert cluster.run(recovering(cluster, job)).error().code == 8055


def test_a_batch_that_was_read_before_the_recovery_deletes_nothing(cluster):
    job = dropped(cluster)
    cluster.keep_dropped(0)
    gc, commit = cluster.owner.ddl.gc, cluster.store.commit
    asked = recovering(cluster, job)

    def late(packet):
        cluster.store.commit = commit
        cluster.owner.ddl.gc = Nothing()
        assert cluster.run(asked).state == JobState.SYNCED
        return commit(packet)

    cluster.store.commit = late
    gc.step(cluster.clock.monotonic())
    assert rows_of(cluster) == ROWS and cluster.read(delete_ranges.pending_ranges) == []


def test_a_recovery_that_was_read_before_a_batch_is_judged_again(cluster):
    job = dropped(cluster)
    txn = cluster.store.begin()
    delete_ranges.restore_ranges(txn, job.id)
    cluster.keep_dropped(0)
    gc_steps(cluster, 1)
    with pytest.raises(Conflict):
        txn.commit()


def test_a_truncated_table_comes_back_beside_the_new_one(cluster):
    job = cluster.run(requests.truncate_table(cluster.database(), cluster.table("t").info))
    assert rows_of(cluster) == 0
    assert cluster.run(recovering(cluster, job, "old")).state == JobState.SYNCED
    assert rows_of(cluster, "old") == ROWS and rows_of(cluster) == 0
    again = cluster.run(recovering(cluster, job, "older"))
    assert again.error().message == (
        "Table 'older' already been recover to 'old', can't be recover repeatedly"
    )


def test_a_dropped_database_comes_back_with_its_tables(cluster):
    former = cluster.table("t")
    job = cluster.run(requests.drop_database(cluster.database()))
    asked = requests.flashback_database(job.binlog.DBInfo, "again", job.id)
    assert cluster.run(asked).state == JobState.SYNCED
    cluster.keep_dropped(0)
    cluster.step(20)
    found = cluster.table("t", "again")
    assert found.database_revision >= former.database_revision + 2
    assert cluster.read(lambda txn: len(list(reader.scan(txn, found)))) == ROWS


def test_a_database_whose_tables_were_begun_to_be_deleted_does_not_come_back(cluster):
    job = cluster.run(requests.drop_database(cluster.database()))
    cluster.keep_dropped(0)
    gc_steps(cluster, 1)
    asked = requests.flashback_database(job.binlog.DBInfo, "again", job.id)
    assert cluster.run(asked).error().code == 8055


@pytest.mark.parametrize("tables", [2, 30])
def test_a_drop_of_a_database_writes_as_little_for_many_tables(cluster, tables):
    place = cluster.database()
    for n in range(tables):
        txn = cluster.store.begin()
        info = TableInfo(id=10_000 + n, name=name(f"n{n}"), exuvia_db=place.id)
        meta.put_table(txn, info)
        txn.put(keys.revision(info.id), keys.number(1))
        txn.commit()
    largest, commit = [], cluster.store.commit

    def counted(packet):
        largest.append(len(packet.writes))
        return commit(packet)

    cluster.store.commit = counted
    cluster.run(requests.drop_database(place))
    assert max(largest) < 20
    cluster.store.commit = commit
    cluster.keep_dropped(0)
    cluster.step(40 + 3 * tables)
    assert cluster.read(delete_ranges.pending_ranges) == []
    assert cluster.store.count(keys.span_of(keys.meta("name", place.id))) == 0
    assert Schemas(cluster.store).table_by_id(cluster.store.begin(), 10_000) is None


def test_another_gc_owner_goes_on_where_the_first_one_stopped(cluster):
    job = dropped(cluster)
    cluster.keep_dropped(0)
    gc_steps(cluster, 3)
    (left,) = cluster.read(delete_ranges.pending_ranges)
    cluster.crash_owner()
    cluster.owner.ddl.gc_campaign.step(cluster.clock.monotonic())
    starts = []
    while found := cluster.read(delete_ranges.pending_ranges):
        starts.append(found[0].span.start)
        gc_steps(cluster, 1)
    assert starts == sorted(starts) and starts[0] == left.span.start
    assert cluster.store.count(keys.table_span(job.table_id)) == 0


class Nothing:
    """A loop that does nothing."""

    channel = "history"

    def step(self, now):
        return 1.0
