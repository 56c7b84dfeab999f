"""A store of the two-queue layout becomes one of tables while its old owner is alive and busy."""

import json

import msgspec
import pytest

from exuvia.base.errors import Unavailable
from exuvia.catalog import bootstrap, meta, system_tables, writer
from exuvia.catalog.system_tables import table as static_table
from exuvia.catalog.sysvar import variables
from exuvia.ddl import queue, requests, two_queues
from exuvia.ddl import upgrade as upgrades
from exuvia.ddl.follow import Follower
from exuvia.ddl.job import JobState, decode
from exuvia.ddl.upgrade import Upgrade
from exuvia.kv import keys
from exuvia.pipeline import checkpoint
from exuvia.pipeline.phase_runner import PhaseRunner
from support.small_cluster import SmallCluster
from support.tables import abc, column, index

ROWS = 40
SPAN_ROWS = 8


class Slow:
    """A production reorg that stops after some steps until it is let go."""

    free = False

    def __init__(self, reorg):
        self.reorg = reorg
        self.left = 6

    def step(self, now):
        self.left -= 1
        if self.left > 0 or Slow.free:
            self.told = self.reorg.step(now)
        return self.told

    def stop(self):
        self.reorg.stop()


@pytest.fixture
def cluster():
    """A store of format 1 with a table of ROWS rows, and its owner."""
    Slow.free = False

    def factory(store):
        return lambda job, epoch, table, plan: Slow(
            PhaseRunner(store, job, epoch, table, plan, None)
        )

    found = SmallCluster(reorgs=factory)
    txn = found.store.begin()
    txn.put(keys.FORMAT, keys.number(upgrades.LISTS_FORMAT))
    variables.set_global(txn, "exuvia_ddl_reorg_span_rows", SPAN_ROWS)
    txn.commit()
    for name in ("t", "u"):
        found.run(requests.create_table(found.database(), abc(name)))
    txn = found.store.begin()
    for n in range(ROWS):
        writer.insert(txn, found.table("t"), [n, n, n])
    txn.commit()
    return found


def submit_jobs(cluster):
    """A fill on t, a column of t behind it, a new table."""
    database, t = cluster.database(), cluster.table("t").info
    return [
        cluster.submit(requests.add_index(database, t, index("ia", "a"))),
        cluster.submit(requests.add_column(database, t, column("c"))),
        cluster.submit(requests.create_table(database, abc("n"))),
    ]


def until(cluster, holds, rounds=600):
    for _ in range(rounds):
        if holds():
            return
        cluster.step()
    raise AssertionError("it did not come")


def spans_listed(cluster, job_id):
    return cluster.read(lambda txn: two_queues.spans(txn, job_id))


def new_node(cluster, old):
    """A node of a newer program: it campaigns, and upgrades. The old owner goes on beside it."""
    newer = cluster.another_owner()
    upgrade = Upgrade(cluster.store, newer.campaign, cluster.submitter_of(newer))

    class Both:
        def step(self, now):
            old.step(now)
            newer.step(now)
            upgrade.step(now)

    return newer, upgrade, Both()


def store_format(cluster):
    return cluster.read(lambda txn: keys.read_number(txn.get(keys.FORMAT)))


def test_jobs_and_their_progress_move_while_the_old_owner_is_busy(cluster):
    fill, _, create = job_ids = submit_jobs(cluster)
    until(cluster, lambda: len(spans_listed(cluster, fill)) >= 1)
    done = spans_listed(cluster, fill)
    forget_rows(cluster, fill)  # a program of that format knew only the list
    assert cluster.read(listed) == 3
    old, term = cluster.owner, cluster.owner.campaign.term
    newer, upgrade, cluster.owner = new_node(cluster, cluster.owner)
    until(cluster, lambda: store_format(cluster) >= upgrades.TABLES_FORMAT)
    assert newer.campaign.is_owner and newer.campaign.term > term
    assert cluster.read(listed) == 0
    moved = cluster.read(lambda txn: checkpoint.rows_of(txn, fill))
    assert {msgspec.json.encode(each) for each in done} <= {msgspec.json.encode(m) for m in moved}
    Slow.free = True
    assert [cluster.finish(each).state for each in job_ids] == [JobState.SYNCED] * 3
    t = cluster.table("t")
    assert cluster.store.count(t.index_span(t.info.indexes[0])) == ROWS
    assert cluster.read(lambda txn: two_queues.finished(txn, create)) is None
    assert not old.campaign.is_owner
    until(cluster, lambda: upgrade.done)


def listed(txn):
    return len(two_queues.unfinished(txn))


def forget_rows(cluster, job_id):
    txn = cluster.store.begin()
    for key, _ in list(txn.scan(checkpoint.handles_of(job_id))):
        txn.delete(key)
    txn.commit()


def test_history_of_the_old_layout_stays_readable(cluster):
    before = cluster.read(lambda txn: [job.id for job in queue.history(txn, 10)])
    _, upgrade, cluster.owner = new_node(cluster, cluster.owner)
    until(cluster, lambda: upgrade.done)
    job = cluster.run(requests.create_table(cluster.database(), abc("later")))
    after = cluster.read(lambda txn: [each.id for each in queue.history(txn, 10)])
    assert after == [job.id, *before] and len(before) == 2
    assert cluster.read(lambda txn: queue.finished(txn, before[0])).state == JobState.SYNCED


def test_a_job_submitted_while_it_is_migrated_is_in_the_new_layout_or_migrated(cluster):
    """Whichever of the two commits first: no job is left behind in the lists."""
    database = cluster.database()
    commit, between = cluster.store.commit, []

    def interleaved(packet):
        migrates = any(write.key == keys.FORMAT for write in packet.writes)
        if migrates and not between:
            between.append(1)
            between.append(cluster.submit(requests.create_table(database, abc("raced"))))
        return commit(packet)

    cluster.store.commit = interleaved
    _, upgrade, cluster.owner = new_node(cluster, cluster.owner)
    until(cluster, lambda: upgrade.done)
    assert cluster.finish(between[1]).state == JobState.SYNCED
    assert cluster.read(listed) == 0


def test_a_column_of_a_job_table_is_added_by_the_owner_of_the_older_program(cluster, monkeypatch):
    txn = cluster.store.begin()
    txn.put(keys.FORMAT, keys.number(upgrades.TABLES_FORMAT))
    txn.commit()
    wider = with_column("tidb_ddl_job", "exuvia_region varchar(64) default 'here'")
    old, cluster_term = cluster.owner, cluster.owner.campaign.term
    job_id = cluster.submit(requests.add_index(cluster.database(), cluster.table("t").info, KEY))
    cluster.step(60)  # the old owner is busy with it
    _, upgrade, both = new_node(cluster, old)
    monkeypatch.setattr(upgrades, "SYSTEM", {"tidb_ddl_job": wider})
    newest = bootstrap.FORMAT_VERSION + 1
    monkeypatch.setattr(bootstrap, "FORMAT_VERSION", newest)
    cluster.owner = both
    until(cluster, lambda: upgrade.done)
    stored = cluster.read(lambda txn: meta.get_table(txn, wider.id))
    assert [c.name.O for c in stored.cols][-1] == "exuvia_region"
    assert store_format(cluster) == newest
    (added,) = [j for j in cluster.read(queue.history) if j.table_name == "tidb_ddl_job"]
    assert added.state == JobState.SYNCED and cluster_term == 1
    assert cluster.job(job_id).state == JobState.RUNNING
    Slow.free = True
    assert cluster.finish(job_id).state == JobState.SYNCED
    another = cluster.submit(requests.create_table(cluster.database(), abc("m")))
    table = cluster.read(lambda txn: queue.system_table(txn, "tidb_ddl_job"))
    raw = cluster.read(lambda txn: txn.get(table.row_prefix + keys.i64(another)))
    assert table.decode(raw)[-1] == "here" and decode(table.decode(raw)[4]).id == another
    assert cluster.finish(another).state == JobState.SYNCED


KEY = index("ia", "a")


def test_an_older_member_that_serves_on_is_waited_for(cluster, monkeypatch):
    cluster.store.transact(lambda txn: txn.delete(keys.BRIEF))
    older = ["a front of 0.3.0"]
    monkeypatch.setattr(upgrades.members, "before_0_4", lambda txn: older)
    _, upgrade, cluster.owner = new_node(cluster, cluster.owner)
    until(cluster, lambda: store_format(cluster) == bootstrap.FORMAT_VERSION)
    cluster.step(20)
    assert not upgrade.done and cluster.read(lambda txn: txn.get(keys.BRIEF)) is None
    older.clear()
    until(cluster, lambda: upgrade.done)
    assert cluster.read(lambda txn: txn.get(keys.BRIEF)) is not None


def at_rest(cluster, table_id):
    return cluster.read(lambda txn: json.loads(txn.get(keys.meta("table", table_id))))


@pytest.mark.parametrize("is_brief", [False, True])
def test_layouts_are_brief_once_nobody_reads_whole_ones_only(is_brief):
    """Also in what jobs left, from which RECOVER TABLE and followers go on."""
    cluster = SmallCluster()
    cluster.run(requests.create_table(cluster.database(), abc("t")))
    if not is_brief:
        cluster.store.transact(lambda txn: txn.delete(keys.BRIEF))
    for n in range(3):
        job_id = cluster.submit(
            requests.add_column(cluster.database(), cluster.table("t").info, column(f"c{n}"))
        )
        assert cluster.finish(job_id).state == JobState.SYNCED
    info = cluster.table("t").info
    stored = at_rest(cluster, info.id)["exuvia_layouts"]
    assert [each.get("since", 0) for each in stored[1:]] == ([1, 2, 3] if is_brief else [0, 0, 0])
    assert all(len(each.columns) > 1 and not each.since for each in info.exuvia_layouts)
    (left,) = [each for each in cluster.read(queue.history) if each.id == job_id]
    assert json.loads(msgspec.json.encode(left.binlog.TableInfo.exuvia_layouts)) == stored
    follower = Follower()
    follower.step(cluster.store)
    assert follower.tables[info.id] == info


def with_column(name, line):
    """The system table as a newer program has it."""
    info = system_tables.SYSTEM[name]
    extra = static_table(info.id, name, "x bigint not null", line, primary="x").cols[-1]
    position = len(info.cols)
    moved = msgspec.structs.replace(extra, id=position + 1, offset=position)
    return msgspec.structs.replace(info, cols=(*info.cols, moved))


def test_a_store_of_a_newer_program_is_refused_with_what_to_do(cluster):
    txn = cluster.store.begin()
    txn.put(keys.FORMAT, keys.number(99))
    txn.put(keys.RELEASE, b"9.9.0")
    txn.commit()
    with pytest.raises(Unavailable, match=r"format 99, which Exuvia 9.9.0 wrote.*start Exuvia 9"):
        bootstrap.bootstrap(cluster.store)
