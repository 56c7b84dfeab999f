"""Seed 000: what a pick costs does not depend on how many jobs wait. Counted, not timed; the time
among a hundred thousand is measured by bench/picking.py."""

import pytest

from exuvia.ddl import manager, queue, requests
from exuvia.ddl.codes import ActionCode
from exuvia.ddl.job import timestamp
from exuvia.ddl.ready import ReadySet
from exuvia.ddl.submit import BATCH_JOBS, numbered
from support.small_cluster import SmallCluster
from support.tables import abc

ENDED = 100


def with_waiting(jobs):
    """Changes of one table, new tables, and databases that are dropped among new tables."""
    cluster = SmallCluster()
    one = cluster.database()
    cluster.run(requests.create_table(one, abc()))
    cluster.run(requests.create_database("d"))
    t, other = cluster.table("t").info, cluster.database("d")
    kinds = (
        lambda n: requests.change_option(ActionCode.TABLE_COMMENT, one, t, f"number {n}"),
        lambda n: requests.create_table(one, abc(f"t{n}")),
        lambda n: (
            requests.drop_database(other)
            if n == jobs // 2 // 3 * 3 + 2
            else requests.create_table(other, abc(f"t{n}"))
        ),
    )
    asked = [kinds[n % 3](n) for n in range(jobs)]
    for first in range(0, jobs, BATCH_JOBS):
        txn = cluster.store.begin()
        now = timestamp(cluster.clock.wall_ns())
        for job in numbered(txn, asked[first : first + BATCH_JOBS], now):
            queue.insert(txn, job)
        txn.notify("job")
        txn.commit()
    return cluster


class Work:
    """What is done while jobs end: places looked at in lines, rows of jobs read from the queue."""

    def __init__(self, patch):
        self.judged = self.read = self.ended = 0
        judge, unfinished = ReadySet._find_blocker, queue.unfinished
        ended = manager.JobManager.ended

        def judged(ready, job):
            self.judged += 1
            return judge(ready, job)

        def read(txn, after=0):
            found = unfinished(txn, after)
            self.read += len(found)
            return found

        def counted(owner, job_id):
            self.ended += 1
            return ended(owner, job_id)

        patch.setattr(ReadySet, "_find_blocker", judged)
        patch.setattr(queue, "unfinished", read)
        patch.setattr(manager.JobManager, "ended", counted)

    def clear(self):
        self.judged = self.read = self.ended = 0


@pytest.mark.parametrize("jobs", [300, 5000])
def test_a_pick_among_many_costs_what_it_costs_among_few(jobs, monkeypatch):
    cluster, work = with_waiting(jobs), Work(monkeypatch)
    cluster.step()
    assert work.read == jobs, "a take-over reads each once"
    assert jobs <= work.judged <= jobs + work.ended
    work.clear()
    while work.ended < ENDED:
        cluster.step()
    assert work.read == 0, "what waits is not read again"
    assert work.judged <= 2 * work.ended
