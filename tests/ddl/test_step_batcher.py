"""Steps of independent jobs that are due together are one commit; each keeps its own version."""

from exuvia.catalog import meta
from exuvia.ddl import queue, requests
from exuvia.ddl.job import JobState, evolve
from exuvia.ddl.manager import Pools
from exuvia.ddl.worker import JobWorker
from support.small_cluster import SmallCluster
from support.tables import abc, column

TABLES = 8


def cluster_with_tables():
    cluster = SmallCluster(pools=Pools(TABLES, 2))
    for n in range(TABLES):
        cluster.run(requests.create_table(cluster.database(), abc(f"t{n}")))
    return cluster


def add_columns(cluster):
    database = cluster.database()
    infos = [cluster.table(f"t{n}").info for n in range(TABLES)]
    return [cluster.submit(requests.add_column(database, info, column("c"))) for info in infos]


def drain(cluster, job_ids):
    """Commits that moved the version until all jobs have ended."""
    commits, commit = [], cluster.store.commit

    def counted(packet):
        before = cluster.read(meta.version)
        sequence = commit(packet)
        moved = cluster.read(meta.version) - before
        commits.extend([moved] if moved else [])
        return sequence

    cluster.store.commit = counted
    jobs = [cluster.finish(job_id) for job_id in job_ids]
    cluster.store.commit = commit
    return jobs, commits


def test_steps_that_are_due_together_share_a_commit_and_no_version():
    cluster = cluster_with_tables()
    first = cluster.read(meta.version)
    jobs, commits = drain(cluster, add_columns(cluster))
    assert {job.state for job in jobs} == {JobState.SYNCED}
    assert sum(commits) == cluster.read(meta.version) - first == 4 * TABLES
    assert max(commits) == TABLES and len(commits) <= 2 * 4
    diffs = cluster.read(lambda txn: meta.diffs(txn, first, first + 4 * TABLES))
    assert sorted(d.table_id for d in diffs) == sorted(4 * [job.table_id for job in jobs])
    assert len({job.seq_num for job in jobs}) == TABLES
    assert {job.binlog.SchemaVersion for job in jobs} == {d.version for d in diffs[-TABLES:]}


def test_the_fault_of_one_job_undoes_nothing_of_the_others(monkeypatch):
    cluster = cluster_with_tables()
    job_ids = add_columns(cluster)
    cluster.step(2)
    prepare, bad = JobWorker.prepare, job_ids[3]

    def broken(worker, txn, now, ended):
        if worker.job_id == bad:
            raise KeyError("planted")
        return prepare(worker, txn, now, ended)

    monkeypatch.setattr(JobWorker, "prepare", broken)
    jobs, commits = drain(cluster, job_ids)
    assert {job.state for job in jobs} == {JobState.SYNCED}
    assert 1 in commits, "each was stepped by itself"


def test_a_cancel_that_comes_between_meets_its_own_job_only():
    cluster = cluster_with_tables()
    job_ids = add_columns(cluster)
    commit, seen = cluster.store.commit, []

    def cancelling(packet):
        if not seen and cluster.job(job_ids[2]).begun:
            seen.append(1)
            txn = cluster.store.begin()
            job = queue.get(txn, job_ids[2])
            queue.update(txn, evolve(job, state=JobState.CANCELLING))
            txn.commit()
        return commit(packet)

    cluster.store.commit = cancelling
    states = [cluster.finish(job_id).state for job_id in job_ids]
    assert states.count(JobState.SYNCED) == TABLES - 1
    assert states[2] == JobState.ROLLBACK_DONE
