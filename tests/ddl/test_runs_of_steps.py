"""A front that is alone answers in advance: steps that nobody has to answer share a transaction."""

from functools import partial

import pytest

from exuvia.catalog import meta, reader, writer
from exuvia.catalog.infoschema import Schemas
from exuvia.cluster.assent import withdraw
from exuvia.ddl import queue, requests, worker
from exuvia.ddl.job import JobState, evolve
from exuvia.ddl.submit import Submitter
from exuvia.kv import keys
from exuvia.kv.packet import is_live
from support.small_cluster import SmallCluster
from support.tables import abc, column, index


@pytest.fixture
def cluster():
    """One front, which assents; table `t`."""
    found = SmallCluster()
    (front,) = found.fronts
    front.locks.withdraw = partial(withdraw, found.store, front.member)
    schemas = Schemas(found.store)
    found.submitter = Submitter(found.store, schemas, front.member, found.clock, locks=front.locks)
    found.run(requests.create_table(found.database(), abc()))
    return found


def add_column(cluster, name="d"):
    info = cluster.table("t").info
    return requests.add_column(cluster.database(), info, column(name, default="7"))


def add_index(cluster):
    return requests.add_index(cluster.database(), cluster.table("t").info, index("ia", "a"))


def commits(cluster, monkeypatch):
    """Versions of each commit that published any, as they come."""
    found, commit = [], cluster.store.commit

    def counted(packet):
        before = cluster.read(meta.version)
        sequence = commit(packet)
        if cluster.read(meta.version) > before:
            found.append(cluster.read(meta.version) - before)
        return sequence

    monkeypatch.setattr(cluster.store, "commit", counted)
    return found


def insert(cluster, table, number):
    """A transaction that has written a row with that plan; not committed."""
    txn = cluster.store.begin()
    row = [None] * len(table.info.cols)
    row[table.position("id")], row[table.position("a")] = number, 5
    writer.insert(txn, table, row)
    return txn


def indexed(cluster):
    """Live entries of `ia`."""
    table = cluster.table("t")
    (each,) = (found for found in table.info.indexes if found.idx_name.L == "ia")
    span = keys.span_of(keys.index_prefix(table.info.id, each.id))
    return cluster.read(lambda txn: sum(is_live(raw) for _, raw in txn.scan(span)))


def test_every_version_of_a_column_is_spent_in_one_transaction(cluster, monkeypatch):
    spent = commits(cluster, monkeypatch)
    assert cluster.run(add_column(cluster)).state == JobState.SYNCED
    assert spent == [4]


def test_an_index_takes_a_transaction_more_since_rows_are_looked_at(cluster, monkeypatch):
    spent = commits(cluster, monkeypatch)
    assert cluster.run(add_index(cluster)).state == JobState.SYNCED
    assert spent == [3, 1]


def test_a_table_with_rows_gets_every_entry(cluster):
    insert(cluster, cluster.table("t"), 1).commit()
    assert cluster.run(add_index(cluster)).state == JobState.SYNCED
    assert indexed(cluster) == 1


@pytest.mark.parametrize("reads_apart", [True, False])
def test_a_row_that_comes_while_the_steps_are_committed_is_in_the_index(
    cluster, monkeypatch, reads_apart
):
    """And would not be, were rows looked at in the transaction of the first steps."""
    if not reads_apart:
        monkeypatch.setattr(worker, "may_follow", lambda job: True)
    open_ = [insert(cluster, cluster.table("t"), 1)]
    commit = cluster.store.commit

    def interleaved(packet):
        if open_ and "version" in packet.channels:
            open_.pop().commit()  # by a client without the metadata lock, say
        return commit(packet)

    monkeypatch.setattr(cluster.store, "commit", interleaved)
    assert cluster.run(add_index(cluster)).state == JobState.SYNCED
    assert not open_ and indexed(cluster) == (1 if reads_apart else 0)


def test_who_wrote_before_is_waited_for(cluster, monkeypatch):
    (front,), table = cluster.fronts, cluster.table("t")
    front.locks.hold("transaction", table.info.id, table.revision, "wrote t")
    spent = commits(cluster, monkeypatch)
    job_id = cluster.submit(add_column(cluster))
    cluster.step(80)
    assert spent == [1] and "wrote t" in cluster.job(job_id).exuvia_wait
    front.locks.release("transaction")
    assert cluster.finish(job_id).state == JobState.SYNCED
    assert spent == [1, 1, 1, 1]


def test_who_writes_after_it_was_asked_for_is_waited_for(cluster, monkeypatch):
    (front,), table = cluster.fronts, cluster.table("t")
    spent = commits(cluster, monkeypatch)
    job_id = cluster.submit(add_column(cluster))
    front.locks.hold("transaction", table.info.id, table.revision, "wrote t")
    cluster.step(80)
    assert spent == [1] and "wrote t" in cluster.job(job_id).exuvia_wait
    front.locks.release("transaction")
    assert cluster.finish(job_id).state == JobState.SYNCED


def test_an_explicit_transaction_may_write_one_version_late_as_ever(cluster, monkeypatch):
    """It has read and not written yet: it holds no table."""
    (front,) = cluster.fronts
    spent = commits(cluster, monkeypatch)
    front.locks.enter("before")
    assert cluster.run(add_column(cluster)).state == JobState.SYNCED
    assert spent == [1, 1, 1, 1]
    front.locks.leave("before")
    job_id = cluster.submit(add_column(cluster, "e"))
    front.locks.enter("after")
    assert cluster.finish(job_id).state == JobState.SYNCED
    assert spent == [1] * 8


def test_who_writes_between_an_owners_look_and_its_commit_is_waited_for(cluster, monkeypatch):
    (front,), table = cluster.fronts, cluster.table("t")
    job_id = cluster.submit(add_column(cluster))
    commit, held = cluster.store.commit, []

    def interleaved(packet):
        if not held and "history" in packet.channels:
            held.append(1)
            front.locks.hold("transaction", table.info.id, table.revision, "wrote t")
        return commit(packet)

    monkeypatch.setattr(cluster.store, "commit", interleaved)
    cluster.step(80)
    assert held and "wrote t" in cluster.job(job_id).exuvia_wait
    row = insert(cluster, table, 1)
    row.commit()  # it is one version late at most
    front.locks.release("transaction")
    assert cluster.finish(job_id).state == JobState.SYNCED


def test_a_writer_of_the_plan_before_is_refused_once_the_steps_are_committed(cluster):
    late = insert(cluster, cluster.table("t"), 1)
    cluster.run(add_column(cluster))
    with pytest.raises(Exception, match=r"schema|changed|revision"):
        late.commit()
    rows = cluster.read(lambda txn: list(reader.scan(txn, cluster.table("t"), None)))
    assert rows == []


def test_another_front_is_waited_for(cluster, monkeypatch):
    job_id = cluster.submit(add_column(cluster))
    other = cluster.add_front()
    spent = commits(cluster, monkeypatch)
    cluster.step(10)  # its row is there, but it does not answer
    assert spent == [1] and not cluster.job(job_id).in_history
    cluster.fronts.append(other)
    assert cluster.finish(job_id).state == JobState.SYNCED


def test_a_front_that_joins_wakes_the_one_that_has_answered_ahead(cluster):
    before = cluster.store.counter("version")
    cluster.add_front()
    assert cluster.store.counter("version") > before


def test_no_front_assents_beside_another(cluster):
    cluster.fronts.append(cluster.add_front())
    job_id = cluster.submit(add_column(cluster))
    assert cluster.job(job_id).exuvia_assent is None
    assert cluster.finish(job_id).state == JobState.SYNCED


def test_a_front_that_was_fenced_has_assented_to_nothing(cluster, monkeypatch):
    job_id = cluster.submit(add_column(cluster))
    (front,) = cluster.fronts
    front.member.deposed()
    front.member.step(cluster.clock.monotonic())  # joined again, in another epoch
    spent = commits(cluster, monkeypatch)
    assert cluster.finish(job_id).state == JobState.SYNCED
    assert spent == [1, 1, 1, 1]


def test_a_job_that_is_turned_back_is_answered_as_ever(cluster):
    insert(cluster, cluster.table("t"), 1).commit()
    job_id = cluster.submit(add_index(cluster))

    def cancel(txn):
        queue.update(txn, evolve(queue.get(txn, job_id), state=JobState.CANCELLING))
        txn.notify("job")

    cluster.owner.step(cluster.clock.monotonic())
    cluster.store.transact(cancel)
    assert cluster.finish(job_id).state == JobState.ROLLBACK_DONE


def test_a_reservation_ends_with_its_job(cluster):
    (front,) = cluster.fronts
    withdrawn = []
    front.locks.withdraw = lambda: withdrawn.append(1)
    job_id = cluster.submit(add_column(cluster))
    cluster.finish(job_id)
    cluster.submitter.wait(job_id)
    front.locks.hold("transaction", cluster.table("t").info.id, 9)
    assert not withdrawn
