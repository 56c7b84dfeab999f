"""Seed 002, the optimised delete: metadata first, data later, in batches, by the owner alone."""

import itertools

import msgspec
import pytest

from exuvia.catalog import reader, writer
from exuvia.catalog.infoschema import Schemas
from exuvia.catalog.model import ConstraintInfo, SchemaState, evolve, name
from exuvia.ddl import delete_ranges, queue, requests
from exuvia.ddl import requests as changes
from exuvia.ddl.actions.partition_exchange import Exchanging
from exuvia.ddl.job import JobState
from exuvia.kv import keys
from exuvia.pipeline.settings import TimeShare
from exuvia.pipeline.throttle import BatchSize
from exuvia.sql.access.partitions import MOVER
from support.script_actions import ranges as ranged
from support.small_cluster import SmallCluster
from support.tables import abc, index


def filled(rows, **options):
    cluster = SmallCluster(**options)
    indexes = (index("ia", "a"), index("ub", "b", unique=True))
    cluster.run(requests.create_table(cluster.database(), abc(indexes=indexes)))
    t = cluster.table("t")
    txn = cluster.store.begin()
    for n in range(rows):
        writer.insert(txn, t, [n, n % 5, n])
    txn.commit()
    return cluster, t


def rows_of(cluster, name):
    def read(txn):
        return [row for _, row in reader.scan(txn, queue.system_table(txn, name))]

    return cluster.read(read)


def test_a_dropped_table_is_emptied_after_its_job_has_ended():
    cluster, t = filled(50)
    cluster.owner.ddl.gc.pace = BatchSize(7, near=True)
    job = cluster.run(requests.drop_table(cluster.database(), t.info))
    span = keys.table_span(t.info.id)
    left = cluster.store.count(span)
    assert job.state == JobState.SYNCED and left > 0
    (row,) = rows_of(cluster, "gc_delete_range")
    assert [row[0], row[1], row[3]] == [job.id, t.info.id, span.end.hex()]
    counts = [left]
    while found := cluster.read(delete_ranges.pending_ranges):
        first = next(iter(cluster.store.begin().scan(span, limit=1)), (span.end, b""))[0]
        assert span.start <= found[0].span.start <= first
        cluster.step()
        counts.append(cluster.store.count(span))
    assert counts[-1] == 0
    assert all(0 <= before - after <= 7 for before, after in itertools.pairwise(counts))
    assert [row[:2] for row in rows_of(cluster, "gc_delete_range_done")] == [[job.id, t.info.id]]


@pytest.mark.parametrize("asked", [changes.drop_partition, changes.truncate_partition])
def test_a_partition_goes_as_one_range_not_row_by_row(asked):
    cluster = SmallCluster()
    info = evolve(abc(indexes=(index("ia", "a"),)), partition=ranged(p0="100", p1="MAXVALUE"))
    cluster.run(requests.create_table(cluster.database(), info))
    t = cluster.table("t")
    gone, kept = t.parts
    txn = cluster.store.begin()
    for n in range(200):
        writer.insert(txn, gone if n < 100 else kept, [n, n % 5, n])
    txn.commit()
    cluster.owner.ddl.gc.pace = BatchSize(7, near=True)
    job = cluster.run(asked(cluster.database(), t.info, ["p0"]))
    left = cluster.store.count(keys.table_span(gone.physical_id))
    assert job.state == JobState.SYNCED and left >= 200 - 7, "rows and entries stand yet"
    assert [row[:2] for row in rows_of(cluster, "gc_delete_range")] == [[job.id, gone.physical_id]]
    while cluster.read(delete_ranges.pending_ranges):
        cluster.step()
    assert cluster.store.count(keys.table_span(gone.physical_id)) == 0
    assert cluster.store.count(keys.table_span(kept.physical_id)) == 200


def test_an_exchange_moves_no_row():
    cluster = SmallCluster()
    info = evolve(abc("p"), partition=ranged(p0="100", p1="MAXVALUE"))
    cluster.run(requests.create_table(cluster.database(), info))
    cluster.run(requests.create_table(cluster.database(), abc("n")))
    p, n = cluster.table("p"), cluster.table("n")
    txn = cluster.store.begin()
    for each in range(50):
        writer.insert(txn, n, [each, each, each])
    txn.commit()
    before = dict(cluster.store.begin().snapshot.scan(n.row_span()))
    asked = Exchanging("p0", n.info.id, False, MOVER)
    database = cluster.database()
    cluster.run(changes.exchange_partition(database, p.info, asked, database.id))
    assert cluster.table("p").parts[0].physical_id == n.info.id
    assert cluster.table("n").physical_id == p.parts[0].physical_id
    assert dict(cluster.store.begin().snapshot.scan(n.row_span())) == before
    assert rows_of(cluster, "gc_delete_range") == []


def exchanged():
    """A cluster, and the ids of `p`, `t` and `u`: rows of `u` lie under the id of `t`."""
    cluster = SmallCluster()
    database = cluster.database()
    cluster.run(requests.create_table(database, evolve(abc("p"), partition=ranged(p0="100"))))
    for each in ("t", "u"):
        cluster.run(requests.create_table(database, abc(each)))
        asked = Exchanging("p0", cluster.table(each).info.id, False, MOVER)
        table = cluster.table("p").info
        cluster.run(changes.exchange_partition(database, table, asked, database.id))
    ids = {each: cluster.table(each).info.id for each in ("p", "t", "u")}
    assert cluster.table("u").physical_id == ids["t"]
    return cluster, ids


def test_counters_go_with_their_own_table_whoever_has_its_rows():
    """Were the counter of hidden row ids of a table taken that may yet be recovered, new rows would
    be put over old ones."""
    cluster, ids = exchanged()
    txn = cluster.store.begin()
    for each in ids.values():
        txn.put(keys.meta("rowid", each), keys.number(30))
    txn.commit()

    def counters():
        def read(txn):
            return {each for each in ids if txn.get(keys.meta("rowid", ids[each])) is not None}

        return cluster.read(read)

    cluster.keep_dropped(600)
    for each in ("u", "t"):
        cluster.run(requests.drop_table(cluster.database(), cluster.table(each).info))
        cluster.clock.advance(400)
    cluster.step(20)
    assert [row[1] for row in rows_of(cluster, "gc_delete_range_done")] == [ids["t"]]
    assert counters() == {"p", "t"}
    cluster.clock.advance(400)
    cluster.step(20)
    assert cluster.read(delete_ranges.pending_ranges) == []
    assert counters() == {"p"}


def test_marks_of_children_stay_with_their_own_table_whoever_has_its_rows():
    cluster, ids = exchanged()
    txn = cluster.store.begin()
    writer.insert(txn, cluster.table("u"), [1, 1, 1])
    txn.put(keys.mark_prefix(ids["t"], 9) + b"row", b"")
    txn.commit()
    cluster.run(requests.drop_table(cluster.database(), cluster.table("u").info))
    cluster.step(20)
    assert cluster.read(delete_ranges.pending_ranges) == []
    left = [key for key, _ in cluster.store.begin().scan(keys.table_span(ids["t"]))]
    assert left == [keys.mark_prefix(ids["t"], 9) + b"row"]


def test_a_dropped_database_leaves_a_range_for_each_table():
    cluster, t = filled(5)
    check = ConstraintInfo(
        id=1, constraint_name=name("c"), tbl_name=name("t2"), expr_string="`a` < 6"
    )
    checked = evolve(abc("t2"), constraint_info=(check,), max_cst_id=1)
    cluster.run(requests.create_table(cluster.database(), checked))
    other = cluster.table("t2")
    named = keys.span_of(keys.meta("checkname", cluster.database().id))
    assert cluster.store.count(named) == 1
    job = cluster.run(requests.drop_database(cluster.database()))
    while cluster.read(delete_ranges.pending_ranges):
        cluster.step()
    done = [(row[0], row[1]) for row in rows_of(cluster, "gc_delete_range_done")]
    assert set(done) == {(job.id, each) for each in (job.schema_id, t.info.id, other.info.id)}
    assert len(done) == 3 and job.state == JobState.SYNCED
    assert cluster.store.count(keys.table_span(t.info.id)) == 0
    for kind in ("name", "table", "rev", "auto", "rowid"):
        assert cluster.store.count(keys.span_of(keys.meta(kind, t.info.id))) == 0
    assert cluster.store.count(keys.span_of(keys.meta("name", job.schema_id))) == 0
    assert cluster.store.count(named) == 0
    cluster.step(20)
    assert cluster.store.count(keys.table_span(t.info.id)) == 0


def test_a_failed_unique_build_leaves_nothing_and_names_every_duplicate():
    cluster, t = filled(20)
    wanted = index("ua", "a", unique=True)
    job = cluster.run(requests.add_index(cluster.database(), t.info, wanted))
    assert job.state == JobState.ROLLBACK_DONE
    error = job.error()
    lines = [error.message, *error.listing.splitlines()]
    assert lines[0] == "Duplicate entry '0' for key 't.ua'"
    assert set(lines) == {f"Duplicate entry '{n}' for key 't.ua'" for n in range(5)}
    assert (job.error().code, job.error().state) == (1062, "23000")
    cluster.step(20)
    built = keys.span_of(keys.index_prefix(t.info.id, 3))
    assert cluster.store.count(built) == 0
    assert [i.idx_name.O for i in cluster.table("t").info.indexes] == ["ia", "ub"]


def test_an_owner_that_was_deposed_empties_nothing():
    cluster, t = filled(20)
    cluster.run(requests.drop_table(cluster.database(), t.info))
    sleeper = cluster.owner.ddl.gc
    left = cluster.store.count(keys.table_span(t.info.id))
    cluster.owner.step = lambda now: None
    cluster.crash_owner()
    sleeper.step(cluster.clock.monotonic())
    assert cluster.store.count(keys.table_span(t.info.id)) == left


def test_law_2_who_is_deposed_between_its_look_and_its_commit_deletes_nothing():
    """The term of the owner is checked by the very transaction that deletes."""
    cluster, t = filled(20)
    gc = cluster.owner.take_gc()
    cluster.run(requests.drop_table(cluster.database(), t.info))
    commit = cluster.store.commit
    left = cluster.store.count(keys.table_span(t.info.id))
    assert cluster.owner.ddl.gc_campaign.is_owner and left > 0

    def overtaken(packet):
        cluster.store.commit = commit
        cluster.store.end_presence(f"member-{cluster.owner.member.id}")
        another = cluster.another_owner()
        another.ddl.gc_campaign.step(cluster.clock.monotonic())
        assert another.ddl.gc_campaign.is_owner
        return commit(packet)

    cluster.store.commit = overtaken
    gc.step(cluster.clock.monotonic())
    assert cluster.store.count(keys.table_span(t.info.id)) == left
    assert not cluster.owner.ddl.gc_campaign.is_owner


def test_the_end_of_a_job_wakes_who_deletes():
    """No look at the ranges at a fixed pace is needed."""
    cluster, t = filled(3)
    channel = cluster.owner.ddl.gc.channel
    job_id, woken = cluster.submit(requests.drop_table(cluster.database(), t.info)), 0
    while cluster.read(lambda txn: queue.get(txn, job_id)) is not None:
        woken = cluster.store.counter(channel)
        cluster.step()
    assert cluster.store.counter(channel) > woken
    assert cluster.job(job_id).state == JobState.SYNCED


def write_reorg(cluster, info):
    """A job that adds an index on b, walked to where the fill would begin."""
    asked = requests.add_index(cluster.database(), info, index("ib", "b"))
    job_id = cluster.submit(asked)
    while cluster.job(job_id).schema_state != SchemaState.WRITE_REORG:
        cluster.step()
    return job_id


def removed(cluster, row_ids):
    """These rows are deleted by writers who plan with WRITE_REORG."""
    txn = cluster.store.begin()
    t = Schemas(cluster.store).table(txn, "test", "t")
    for row_id in row_ids:
        handle = keys.i64(row_id)
        writer.delete(txn, t, handle, reader.get(txn, t, handle))
    txn.commit()


def test_law_6_tombstones_are_purged_once_the_index_is_public_and_entries_stay():
    cluster, t = filled(20)
    span = keys.span_of(keys.index_prefix(t.info.id, 3))
    gc = cluster.owner.take_gc()
    job_id = write_reorg(cluster, t.info)
    removed(cluster, range(5, 12))
    assert cluster.finish(job_id).state == JobState.SYNCED
    assert cluster.store.count(span) == 13 + 7
    while cluster.read(delete_ranges.pending_ranges):
        gc.step(cluster.clock.monotonic())
    assert cluster.store.count(span) == 13


def test_law_6_a_purge_never_takes_an_entry_placed_over_the_tombstone():
    cluster, t = filled(20)
    gc = cluster.owner.take_gc()
    job_id = write_reorg(cluster, t.info)
    removed(cluster, [7])
    cluster.finish(job_id)
    commit = cluster.store.commit

    def with_a_row_in_between(packet):
        cluster.store.commit = commit
        now, txn = cluster.table("t"), cluster.store.begin()
        writer.insert(txn, now, [7, 1, 7])
        txn.commit()
        return commit(packet)

    cluster.store.commit = with_a_row_in_between
    while cluster.read(delete_ranges.pending_ranges):
        gc.step(cluster.clock.monotonic())
    t = cluster.table("t")
    found = cluster.read(lambda txn: list(reader.scan_index(txn, t, t.info.index("ib"))))
    assert len(found) == 20


def test_emptying_rests_beside_clients_and_longer_while_a_reorg_goes_on():
    cluster, t = filled(100)
    gc, clock = cluster.owner.take_gc(), cluster.clock
    gc.pace = BatchSize(5, near=True)
    cluster.run(requests.drop_table(cluster.database(), t.info))
    commit = cluster.store.commit

    def slowly(packet):
        clock.advance(0.002)
        return commit(packet)

    def others(commits):
        for n in range(commits):
            cluster.store.transact(lambda txn, n=n: txn.put(keys.meta("others", n), b""))
        clock.advance(0.2)

    def rest_s():
        cluster.store.commit = slowly
        try:
            return gc.step(clock.monotonic())
        finally:
            cluster.store.commit = commit

    def driver_says(number):
        said = msgspec.msgpack.encode(TimeShare(number, 1.0, 0.01, ""))
        cluster.store.transact(lambda txn: txn.put(keys.meta("share", 99), said))

    assert rest_s() == 0, "nobody else commits"
    others(100)
    assert rest_s() == pytest.approx(0.002 * 9)
    driver_says(1)
    clock.advance(1)
    assert rest_s() == pytest.approx(0.002 * 50)
    clock.advance(4)
    others(500)
    assert rest_s() == pytest.approx(0.002 * 9), "a driver that says nothing new has ended"
    job_id = cluster.submit(requests.create_database("other"))
    assert rest_s() == pytest.approx(0.002 * 50)
    cluster.finish(job_id)
    assert rest_s() == pytest.approx(0.002 * 9)
    cluster.submit(requests.create_database("last"))
    clock.advance(0.2)
    rest_s()
    clock.advance(0.2)
    assert rest_s() == 0, "it waits beside nobody"
    assert cluster.read(delete_ranges.pending_ranges), "it was not yet at its end"
