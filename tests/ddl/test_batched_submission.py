"""Seed 001: jobs of many sessions join the queue in one transaction; ids are in commit order."""

import threading

from exuvia.base.errors import Deposed
from exuvia.catalog.sysvar import variables
from exuvia.cluster import member as members
from exuvia.ddl import queue, requests
from exuvia.ddl.job import JobState, evolve
from support.small_cluster import SmallCluster
from support.tables import abc


def submit_at_once(cluster, count, changed=lambda n, job: job):
    """Job ids and commits when `count` sessions submit while a commit is held up. An error stands
    in the place of an id."""
    store, commits = cluster.store, []
    gate, commit = threading.Event(), store.commit

    def slow(packet):
        commits.append(packet)
        if len(commits) == 1:
            gate.wait(10)
        return commit(packet)

    store.commit = slow
    ids, database = [], cluster.database()

    def session(n):
        try:
            asked = changed(n, requests.create_table(database, abc(f"t{n}")))
            ids.append(cluster.submit(asked))
        except TypeError as error:
            ids.append(error)

    threads = [threading.Thread(target=session, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    while cluster.submitter.queued + 1 < count:
        threading.Event().wait(0.001)
    gate.set()
    for thread in threads:
        thread.join()
    store.commit = commit
    return ids, commits


def test_jobs_that_gather_while_one_commits_are_inserted_together():
    cluster = SmallCluster()
    txn = cluster.store.begin()
    variables.set_global(txn, "tidb_enable_fast_create_table", "OFF")  # each is a job of its own
    txn.commit()
    ids, commits = submit_at_once(cluster, 40)
    assert len(commits) == 2
    jobs = cluster.read(queue.unfinished)
    assert sorted(ids) == [job.id for job in jobs] and len(set(ids)) == 40
    assert {job.state for job in jobs} == {JobState.QUEUEING}
    assert {job.table_id for job in jobs}.isdisjoint(ids)
    assert all(job.table_id == job.id - 1 for job in jobs)


def test_a_job_that_cannot_be_inserted_is_refused_alone():
    cluster = SmallCluster()

    def one_is_broken(n, job):
        return evolve(job, raw_args=(object(),)) if n == 19 else job

    found, _ = submit_at_once(cluster, 20, one_is_broken)
    errors = [each for each in found if isinstance(each, TypeError)]
    assert len(errors) == 1 and len(found) == 20
    ids = {each for each in found if not isinstance(each, TypeError)}
    assert ids == {job.id for job in cluster.read(queue.unfinished)}


def test_two_fronts_that_submit_at_once_get_different_ids():
    cluster = SmallCluster(fronts=2)
    other = cluster.submitter_of(cluster.fronts[1])
    store, commit = cluster.store, cluster.store.commit
    database = cluster.database()
    between = []

    def interleaved(packet):
        if not between:
            between.append(0)
            between[0] = other.submit_nowait(requests.create_table(database, abc("t1")))
        return commit(packet)

    store.commit = interleaved
    first = cluster.submit(requests.create_table(database, abc("t2")))
    store.commit = commit
    assert between[0] < first
    assert [job.id for job in cluster.read(queue.unfinished)] == [between[0], first]


def test_a_fenced_front_submits_nothing():
    cluster = SmallCluster()
    txn = cluster.store.begin()
    members.fence(txn, cluster.fronts[0].member.id)
    txn.commit()
    try:
        cluster.submit(requests.create_database("d"))
    except Deposed:
        pass
    else:
        raise AssertionError("a fenced member's job was taken")
    assert cluster.read(queue.unfinished) == []


def test_a_session_that_is_gone_loses_no_job():
    cluster = SmallCluster(fronts=2)
    job_id = cluster.submit(requests.create_database("d"))
    gone = cluster.fronts.pop(0)
    cluster.store.end_presence(f"member-{gone.member.id}")
    assert cluster.finish(job_id).state == JobState.SYNCED
