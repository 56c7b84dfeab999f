"""EXPLAIN of a schema change: the decisions, printed before anything is done."""

import pytest

from exuvia.ddl import requests
from exuvia.ddl.apply import read_snapshot
from exuvia.ddl.explain import explain
from exuvia.ddl.job import evolve
from support.small_cluster import SmallCluster
from support.tables import abc, column, index

GOLDEN = {
    "add index": """\
add index test.t
  1  none -> delete only                     version +1
  2  delete only -> write only               version +1
  3  write only -> write reorganization      reorg begins, version +1
  4  write reorganization -> public          reorg ends, version +1, \
1 range(s) tombstones to purge, event add index
  5  into history: synced""",
    "drop index": """\
drop index test.t
  1  public -> write only                    version +1
  2  write only -> delete only               version +1
  3  delete only -> delete reorganization    version +1
  4  delete reorganization -> none           version +1, 1 range(s) to empty
  5  into history: synced""",
    "add column": """\
add column test.t
  1  none -> delete only                     version +1
  2  delete only -> write only               version +1
  3  write only -> write reorganization      version +1
  4  write reorganization -> public          version +1, event add column
  5  into history: synced""",
    "drop table": """\
drop table test.t
  1  public -> write only                    version +1
  2  write only -> delete only               version +1
  3  delete only -> none                     version +1, 1 range(s) to empty, event drop table
  4  into history: synced""",
    "refused": """\
add column test.t
  1  into history: cancelled, Duplicate column name 'a'""",
}


@pytest.mark.parametrize("label", GOLDEN)
def test_the_plan_is_printed_and_nothing_is_done(label):
    cluster = SmallCluster()
    cluster.run(requests.create_table(cluster.database(), abc(indexes=(index("ia", "a"),))))
    database, info = cluster.database(), cluster.table("t").info
    job = {
        "add index": lambda: requests.add_index(database, info, index("ib", "b")),
        "drop index": lambda: requests.drop_index(database, info, "ia"),
        "add column": lambda: requests.add_column(database, info, column("c")),
        "drop table": lambda: requests.drop_table(database, info),
        "refused": lambda: requests.add_column(database, info, column("a")),
    }[label]()
    sequence = cluster.store.snapshot().sequence
    world = cluster.read(lambda txn: read_snapshot(txn, evolve(job, id=1), 1))
    assert explain(job, world) == GOLDEN[label].splitlines()
    assert cluster.store.snapshot().sequence == sequence
