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

from exuvia.catalog import reader, writer
from exuvia.catalog.infoschema import Schemas
from exuvia.catalog.state import SchemaState
from exuvia.ddl import requests
from exuvia.ddl.codes import JobState
from exuvia.kv import keys
from support.small_cluster import SmallCluster
from support.small_tables import abc, index

ROW = [1, 7, 7]


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
