"""Law 4: a step is one transaction and one version; each action takes as many as TiDB's."""

import json

import pytest

from exuvia.catalog import meta, reader, writer
from exuvia.catalog.model import STATE_TEXT
from exuvia.catalog.system_tables import SYSTEM
from exuvia.ddl import queue, requests
from exuvia.ddl.job import JobState
from exuvia.kv import keys
from support.script_actions import OF_COLUMNS_CHANGED, OF_TABLES, OF_UNDO, OF_VIRTUAL_COLUMNS
from support.script_actions import WALKS as WALKS_OF_CHANGES
from support.small_cluster import SmallCluster
from support.tables import abc, column, index, table

_ADD = (4, "delete only, write only, write reorganization, public")
_DROP = (4, "write only, delete only, delete reorganization, none")
WALKS = {
    "create schema": (1, "public"),
    "drop schema": (3, "write only, delete only, none"),
    "create table": (1, "public"),
    "drop table": (3, "write only, delete only, none"),
    **dict.fromkeys(OF_TABLES, (1, "public")),
    "exuvia change log": (2, "write only, public"),
    **WALKS_OF_CHANGES,
    "drop index, kept": (1, "write only"),
    "drop index, defined": _DROP,
    "drop column, kept": (1, "write only"),
    "exuvia undo": (2, "write reorganization, public"),
    "exuvia undo, column": (2, "write reorganization, public"),
    "exuvia end undo": (3, "delete only, delete reorganization, none"),
    "exuvia end undo, column": (3, "delete only, delete reorganization, none"),
    "rename index": (1, "public"),
    "rename index, expression": (1, "public"),
    "alter index visibility": (1, "public"),
    "add index, expression": _ADD,
    "drop index, expression": _DROP,
    "add column, virtual": _ADD,
    "add primary key, nullable": _ADD,
    "truncate table": (1, "write only, public"),
    "exuvia import into": (2, "write only, public"),
    "add column": (4, "delete only, write only, write reorganization, public"),
    "drop column": (4, "write only, delete only, delete reorganization, none"),
    "add index": (4, "delete only, write only, write reorganization, public"),
    "drop index": (4, "write only, delete only, delete reorganization, none"),
    "add primary key": (4, "delete only, write only, write reorganization, public"),
    "drop primary key": (4, "write only, delete only, delete reorganization, none"),
}


SILENT = ("truncate table", "modify column, checked", "modify column, not null")


def asked(label, cluster):
    """A job of that action on t(id primary key, a, b; ia) or on u(a not null)."""
    described = OF_TABLES | OF_UNDO | OF_VIRTUAL_COLUMNS | OF_COLUMNS_CHANGED
    if label in described:
        prepare, request = described[label]
        prepare(cluster)
        return request(cluster)
    database = cluster.database()
    cluster.run(requests.create_table(database, abc(indexes=(index("ia", "a"),))))
    cluster.run(requests.create_table(database, table("u", column("a", 1))))
    t, u = cluster.table("t").info, cluster.table("u").info
    primary = index("PRIMARY", "a", primary=True)
    if label == "drop primary key":
        cluster.run(requests.add_primary_key(database, u, primary))
    return {
        "create schema": lambda: requests.create_database("d"),
        "drop schema": lambda: requests.drop_database(database),
        "create table": lambda: requests.create_table(database, abc("new")),
        "drop table": lambda: requests.drop_table(database, t),
        "add column": lambda: requests.add_column(database, t, column("c")),
        "drop column": lambda: requests.drop_column(database, t, "a"),
        "add index": lambda: requests.add_index(database, t, index("ib", "b")),
        "drop index": lambda: requests.drop_index(database, t, "ia"),
        "add primary key": lambda: requests.add_primary_key(database, u, primary),
        "drop primary key": lambda: requests.drop_primary_key(database, u),
    }[label]()


def walk(cluster, job_id):
    """Schema states of the job's row as a polling client sees them."""
    seen = []
    while (job := cluster.read(lambda txn: queue.get(txn, job_id))) is not None:
        if job.begun and STATE_TEXT[job.schema_state] not in seen:
            seen.append(STATE_TEXT[job.schema_state])
        cluster.step()
    return ", ".join(seen)


@pytest.mark.parametrize("label", WALKS)
def test_an_action_walks_its_states_one_version_each(label):
    cluster = SmallCluster()
    job = asked(label, cluster)
    before = cluster.read(meta.version)
    job_id = cluster.submit(job)
    states = walk(cluster, job_id)
    assert (cluster.read(meta.version) - before, states) == WALKS[label]
    assert cluster.job(job_id).state == JobState.SYNCED


@pytest.mark.parametrize("label", WALKS)
def test_a_job_takes_one_commit_a_step_and_one_to_end(label):
    """Submit, one for each version, the end: the commits that write a row of the job's tables."""
    cluster = SmallCluster()
    job = asked(label, cluster)
    commits, commit = [], cluster.store.commit

    def counted(packet):
        rows = [keys.row_prefix(SYSTEM[name].id) for name in ("tidb_ddl_job", "tidb_ddl_history")]
        if any(write.key.startswith(tuple(rows)) for write in packet.writes):
            commits.append(packet)
        return commit(packet)

    cluster.store.commit = counted
    cluster.run(job)
    silent = label in SILENT  # a step that only waits for writers, without a version
    assert len(commits) == WALKS[label][0] + 2 + silent


def test_a_refused_job_changes_no_version_and_is_in_history():
    cluster = SmallCluster()
    database = cluster.database()
    cluster.run(requests.create_table(database, abc()))
    before = cluster.read(meta.version)
    job = cluster.run(requests.create_table(database, abc()))
    assert cluster.read(meta.version) == before
    assert job.state == JobState.CANCELLED
    assert (job.error().code, job.error().message) == (1050, "Table 'test.t' already exists")


def test_a_version_that_a_front_has_not_acknowledged_stops_the_next_step():
    cluster = SmallCluster()
    job = asked("add index", cluster)
    cluster.fronts[0].mute = True
    job_id = cluster.submit(job)
    before = cluster.read(meta.version)
    cluster.step(30)
    assert cluster.read(meta.version) == before + 1
    assert STATE_TEXT[cluster.job(job_id).schema_state] == "delete only"
    cluster.fronts[0].mute = False
    assert cluster.finish(job_id).state == JobState.SYNCED


def test_a_new_owner_waits_for_the_version_last_announced():
    cluster = SmallCluster()
    job = asked("add index", cluster)
    job_id = cluster.submit(job)
    cluster.fronts[0].mute = True
    cluster.step(5)
    before = cluster.read(meta.version)
    cluster.crash_owner()
    cluster.step(30)
    assert cluster.owner.campaign.is_owner
    assert cluster.read(meta.version) == before
    cluster.fronts[0].mute = False
    assert cluster.finish(job_id).state == JobState.SYNCED


def test_nothing_of_a_job_is_left_when_it_is_in_history():
    cluster = SmallCluster()
    cluster.run(asked("add index", cluster))
    cluster.step(10)
    for name in ("tidb_ddl_job", "tidb_mdl_info", "tidb_ddl_reorg", "gc_delete_range"):
        rows = cluster.read(
            lambda txn, name=name: list(txn.scan(queue.system_table(txn, name).row_span()))
        )
        assert rows == []
    for kind in ("sync", "ack", "reorg", "progress"):
        assert cluster.store.count(keys.span_of(keys.meta(kind))) == 0


def events(cluster):
    def read(txn):
        return [row for _, row in reader.scan(txn, queue.system_table(txn, "ddl_notifier"))]

    return [(row[0], row[1], json.loads(row[2]), row[3]) for row in cluster.read(read)]


@pytest.mark.parametrize("label", ["create table", "add column", "add index", "drop table"])
def test_law_7_an_event_is_written_by_the_transaction_that_ends_the_job(label):
    cluster = SmallCluster()
    job = asked(label, cluster)
    known = len(events(cluster))
    job_id = cluster.submit(job)
    while cluster.read(lambda txn: queue.get(txn, job_id)) is not None:
        ends = cluster.job(job_id).state == JobState.DONE
        assert len(events(cluster)) == known + ends
        cluster.step()
    job_number, part, event, mask = events(cluster)[-1]
    assert (job_number, part, event["type"], mask) == (job_id, -1, label, 0)
    told = event.get("table_info") or event["old_table_info"]
    assert told["name"]["O"] in ("t", "new")


def test_a_change_that_was_undone_tells_nobody():
    cluster = SmallCluster()
    cluster.run(requests.create_table(cluster.database(), abc()))
    known = events(cluster)
    txn, t = cluster.store.begin(), cluster.table("t")
    for row_id in (1, 2):
        writer.insert(txn, t, [row_id, 7, 7])
    txn.commit()
    asked_for = requests.add_index(cluster.database(), t.info, index("ua", "a", unique=True))
    assert cluster.run(asked_for).state == JobState.ROLLBACK_DONE
    assert events(cluster) == known


def test_jobs_are_numbered_as_they_enter_history():
    cluster = SmallCluster()
    jobs = [cluster.run(requests.create_database(f"d{n}")) for n in range(3)]
    assert [job.seq_num for job in jobs] == [1, 2, 3]
    cluster.crash_owner()
    assert cluster.run(requests.create_database("d3")).seq_num == 1
