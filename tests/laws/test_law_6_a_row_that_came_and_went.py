"""Law 6 and absence: a key that is absent has no version, so a row may come and go unseen.

    A: delete only    begins, sees no row 1
    B: write only     insert 1, commit          entry (7, 1)
    C: write only     delete 1, commit          tombstone (7, 1)
    A:                insert 1, commit          no conflict: absent then, absent now
    fill              finds a tombstone and leaves it

Found by the simulator; the protocol's model shows it with three transactions instead of two. So a
writer who may not add removes what a former life of its row left where its entry will be.
"""

import pytest

from exuvia.base.types import TypeCode
from exuvia.catalog import reader, writer
from exuvia.catalog.infoschema import Schemas
from exuvia.catalog.model import SchemaState
from exuvia.ddl import requests
from exuvia.ddl.job import JobState
from exuvia.kv import keys
from exuvia.pipeline.phase_runner import PhaseRunner
from support.script_actions import changed, modify
from support.small_cluster import SmallCluster
from support.tables import abc, index

ROW = [1, 7, 7]


def reorgs(store):
    """As node/ wires them."""
    return lambda job_id, epoch, table, plan: PhaseRunner(store, job_id, epoch, table, plan, None)


def until(cluster, job_id, state):
    while cluster.job(job_id).schema_state != state:
        cluster.step()


def begin(cluster):
    txn = cluster.store.begin()
    return txn, Schemas(cluster.store).table(txn, "test", "t")


def insert(cluster, row):
    txn, t = begin(cluster)
    writer.insert(txn, t, row)
    txn.commit()


def delete(cluster, row_id):
    txn, t = begin(cluster)
    handle = keys.i64(row_id)
    writer.delete(txn, t, handle, reader.get(txn, t, handle))
    txn.commit()


@pytest.mark.parametrize("unique", [False, True], ids=["plain", "unique"])
@pytest.mark.parametrize("moves", [False, True], ids=["inserted", "moved there"])
def test_the_row_has_its_entry_in_the_end(unique, moves):
    cluster = SmallCluster()
    cluster.run(requests.create_table(cluster.database(), abc()))
    insert(cluster, [2, 7, 7])
    if not moves:
        delete(cluster, 2)
    info = cluster.table("t").info
    asked = requests.add_index(cluster.database(), info, index("ia", "a", unique=unique))
    job_id = cluster.submit(asked)
    until(cluster, job_id, SchemaState.DELETE_ONLY)
    a, planned = begin(cluster)
    until(cluster, job_id, SchemaState.WRITE_ONLY)
    if not moves or not unique:
        insert(cluster, ROW)
        delete(cluster, 1)
    if moves:
        writer.update(a, planned, keys.i64(2), [2, 7, 7], ROW)
    else:
        writer.insert(a, planned, ROW)
    a.commit()
    assert cluster.finish(job_id).state == JobState.SYNCED
    t = cluster.table("t")
    found = cluster.read(lambda txn: list(reader.scan_index(txn, t, t.info.index("ia"))))
    assert found == [((7,), keys.i64(1))]


def came_and_went_ahead(cluster, job_id, row, in_two_steps):
    """`row` comes and goes in WRITE_ONLY, and then comes by a transaction of DELETE_ONLY: as it is,
    or as another one that becomes it, which no snapshot shows either. The rows and the entries of
    the index in the end."""
    until(cluster, job_id, SchemaState.DELETE_ONLY)
    txn, planned = begin(cluster)
    until(cluster, job_id, SchemaState.WRITE_ONLY)
    insert(cluster, row)
    delete(cluster, 1)
    if in_two_steps:
        writer.insert(txn, planned, [1, 5, 7])
        writer.update(txn, planned, keys.i64(1), [1, 5, 7], row)
    else:
        writer.insert(txn, planned, row)
    txn.commit()
    assert cluster.finish(job_id).state == JobState.SYNCED
    t = cluster.table("t")
    return cluster.read(lambda txn: list(reader.scan_index(txn, t, t.info.index("ia"))))


@pytest.mark.parametrize("in_two_steps", [False, True], ids=["inserted", "then updated"])
def test_a_row_that_is_new_in_its_transaction_has_its_entry(in_two_steps):
    cluster = SmallCluster()
    cluster.run(requests.create_table(cluster.database(), abc()))
    info = cluster.table("t").info
    job_id = cluster.submit(requests.add_index(cluster.database(), info, index("ia", "a")))
    found = came_and_went_ahead(cluster, job_id, ROW, in_two_steps)
    assert found == [((7,), keys.i64(1))]


@pytest.mark.parametrize("in_two_steps", [False, True], ids=["inserted", "then updated"])
@pytest.mark.parametrize("value", [7, 0, None])
def test_a_row_whose_column_changes_has_its_entry_of_the_new_type(in_two_steps, value):
    """Its tombstone lies under the converted value, which that transaction does not write yet."""
    cluster = SmallCluster(reorgs=reorgs)
    cluster.run(requests.create_table(cluster.database(), abc(indexes=(index("ia", "a"),))))
    column = cluster.table("t").info.column("a")
    new = changed(column, Tp=TypeCode.DOUBLE, Decimal=-1)
    job_id = cluster.submit(modify(cluster, new))
    found = came_and_went_ahead(cluster, job_id, [1, value, 7], in_two_steps)
    assert [handle for _, handle in found] == [keys.i64(1)]
