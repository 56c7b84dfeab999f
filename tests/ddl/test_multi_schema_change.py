"""One job of several changes: what is the job's and what a part's, versions, events, refusals."""

import json

from exuvia.catalog import meta, reader, writer
from exuvia.catalog.model import evolve
from exuvia.ddl import multi_schema_change, queue, requests
from exuvia.ddl.explain import explain
from exuvia.ddl.job import ActionCode, Job, JobState, SubJob
from exuvia.ddl.snapshot import CatalogSnapshot
from support.small_cluster import SmallCluster
from support.tables import abc, column, index

_NAMES = (
    "id schema_id table_id schema_name table_name err err_count snapshot_ver start_ts dependency_id"
    " query binlog version reorg_meta multi_schema_info priority seq_num charset collate"
    " involving_schema_info admin_operator last_schema_version exuvia_dropped exuvia_ids"
    " exuvia_wait exuvia_by exuvia_assent exuvia_hold exuvia_held exuvia_filled exuvia_verified"
    " exuvia_wait_timeout_s exuvia_wait_kills exuvia_overdue exuvia_ended exuvia_window"
    " exuvia_group"
    " exuvia_undo exuvia_reached exuvia_policies exuvia_seen"
)
THE_JOBS = set(_NAMES.split())


def cluster_with_t():
    cluster = SmallCluster()
    cluster.run(requests.create_table(cluster.database(), abc(indexes=(index("ia", "a"),))))
    return cluster


def events(cluster):
    """(job, part, type) of what was told."""

    def look(txn):
        found = reader.scan(txn, queue.system_table(txn, "ddl_notifier"))
        return [(row[0], row[1], json.loads(row[2])["type"]) for _, row in found]

    return cluster.read(look)


def of_table(cluster):
    return CatalogSnapshot(database=cluster.database(), table=cluster.table("t").info)


def asked(cluster):
    """ADD INDEX ib (b), ADD COLUMN c, DROP INDEX ia, ADD UNIQUE ub (b)."""
    database, info = cluster.database(), cluster.table("t").info
    return multi_schema_change.combined(
        [
            requests.add_index(database, info, index("ib", "b")),
            requests.add_column(database, info, column("c", default="7")),
            requests.drop_index(database, info, "ia"),
            requests.add_index(database, info, index("ub", "b", unique=True)),
        ]
    )


def test_every_field_of_a_job_is_the_jobs_or_a_parts():
    assert set(Job.__struct_fields__) == THE_JOBS | set(multi_schema_change.OWN)
    assert not THE_JOBS & set(multi_schema_change.OWN)
    assert set(multi_schema_change.OWN) <= set(SubJob.__struct_fields__)


def test_indexes_are_added_by_one_part_and_the_job_takes_a_reorg_worker():
    job = asked(cluster_with_t())
    types = [sub.type for sub in multi_schema_change.stored(job)]
    assert types == [ActionCode.ADD_COLUMN, ActionCode.DROP_INDEX, ActionCode.ADD_INDEX]
    assert job.reorg_meta == {} and len(multi_schema_change.stored(job)[2].raw_args) == 2


def test_the_decisions_in_their_order():
    cluster = cluster_with_t()
    lines = explain(asked(cluster), of_table(cluster))
    assert [" ".join(line.split()) for line in lines] == [
        "alter table multi-schema change test.t",
        "1 add column: none -> delete only version +1",
        "2 add column: delete only -> write only version +1",
        "3 add column: write only -> write reorganization version +1",
        "4 add index: none -> delete only version +1",
        "5 add index: delete only -> write only version +1",
        "6 add index: write only -> write reorganization reorg begins, version +1",
        "7 reorg ends",
        "8 add column: write reorganization -> public; drop index: public -> write only; "
        "add index: write reorganization -> public version +1, 2 range(s) tombstones to purge",
        "9 drop index: write only -> delete only version +1",
        "10 drop index: delete only -> delete reorganization version +1",
        "11 drop index: delete reorganization -> none version +1, 1 range(s) to empty",
        "12 into history: synced",
    ]


def test_versions_are_the_parts_and_one_for_the_edge_and_each_part_has_its_event():
    cluster = cluster_with_t()
    before = cluster.read(meta.version)
    job = cluster.run(asked(cluster))
    assert job.state == JobState.SYNCED
    assert cluster.read(meta.version) - before == 3 + 3 + 1 + 3
    told = [event for event in events(cluster) if event[0] == job.id]
    assert told == [(job.id, 0, "add column"), (job.id, 2, "add index")]


def spent(columns, more=(), drop=False):
    """The versions of a job that adds or drops that number of columns, and its end."""
    cluster = cluster_with_t()
    names = [f"c{n}" for n in range(columns)]
    rows = ([1, 5, 5], [2, 6, 5])
    table = cluster.table("t")
    cluster.store.transact(lambda txn: [writer.insert(txn, table, list(row)) for row in rows])
    for dropping in (False, True) if drop else (False,):
        database, info = cluster.database(), cluster.table("t").info
        wanted = [
            requests.drop_column(database, info, name)
            if dropping
            else requests.add_column(database, info, column(name, default="7"))
            for name in names
        ]
        before = cluster.read(meta.version)
        job = cluster.run(multi_schema_change.combined([*wanted, *(of(cluster) for of in more)]))
    return cluster.read(meta.version) - before, job, cluster


def test_columns_of_one_statement_take_their_steps_together():
    """The versions do not depend on the number of columns, and rows get no layout for each."""
    versions, job, cluster = spent(30)
    assert (versions, job.state) == (3 + 1, JobState.SYNCED)
    info = cluster.table("t").info
    assert [column.name.L for column in info.public_columns][3:] == [f"c{n}" for n in range(30)]
    assert len(info.exuvia_layouts) == 2
    assert len([event for event in events(cluster) if event[0] == job.id]) == 30
    assert spent(30, drop=True)[0] == spent(2, drop=True)[0] == 1 + 3


def test_a_column_computed_from_a_new_one_walks_alone():
    cluster = cluster_with_t()
    database, info = cluster.database(), cluster.table("t").info
    computed = evolve(column("d"), generated_expr_string="`c` + 1", dependences={"c": {}})
    wanted = [requests.add_column(database, info, each) for each in (column("c"), computed)]
    wanted.append(requests.add_column(database, info, column("e")))
    lines = explain(multi_schema_change.combined(wanted), of_table(cluster))
    assert ["; add column" in line for line in lines[1:8]] == [True] * 3 + [False] * 3 + [True]


def test_columns_of_one_statement_go_back_together():
    def duplicate(cluster):
        return requests.add_index(
            cluster.database(), cluster.table("t").info, index("ub", "b", unique=True)
        )

    ends = [spent(columns, [duplicate]) for columns in (2, 30)]
    assert {job.state for _, job, _ in ends} == {JobState.ROLLBACK_DONE}
    assert ends[0][0] == ends[1][0]
    for _, _, cluster in ends:
        assert [column.name.L for column in cluster.table("t").info.cols] == ["id", "a", "b"]


def test_a_part_that_is_refused_cancels_all_before_anything_moves():
    cluster = cluster_with_t()
    database, info = cluster.database(), cluster.table("t").info
    before = cluster.read(meta.version)
    wanted = [
        requests.add_column(database, info, column("c")),
        requests.drop_index(database, info, "nope"),
    ]
    job = cluster.run(multi_schema_change.combined(wanted))
    assert (job.state, job.error().code) == (JobState.CANCELLED, 1091)
    assert cluster.read(meta.version) == before
    assert {sub.state for sub in multi_schema_change.stored(job)} == {JobState.CANCELLED}


def test_an_index_may_name_a_column_of_its_own_statement():
    cluster = cluster_with_t()
    database, info = cluster.database(), cluster.table("t").info
    wanted = [
        requests.add_column(database, info, column("c", default="7")),
        requests.add_index(database, info, index("ic", "c")),
    ]
    assert cluster.run(multi_schema_change.combined(wanted)).state == JobState.SYNCED
    assert cluster.table("t").info.index("ic").idx_cols[0].exuvia_column == 4
