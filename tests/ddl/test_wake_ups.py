"""A job finishes with any one of its wake-ups switched off, and with all but one."""

import threading
import time

import pytest

from exuvia.base.clock import SystemClock
from exuvia.base.errors import Unavailable
from exuvia.catalog.bootstrap import bootstrap
from exuvia.catalog.infoschema import Schemas
from exuvia.cluster.member import Member
from exuvia.cluster.owner import Campaign
from exuvia.ddl import requests
from exuvia.ddl.job import JobState
from exuvia.ddl.manager import Ddl, Pools
from exuvia.ddl.submit import Submitter
from exuvia.kv.memory import MemoryStore
from support.small_cluster import PlainReorg, SmallCluster
from support.tables import abc, column

SOURCES = ("local notice", "other node's notice", "ticker")
NEVER_S = 3600.0


class DeafStore(MemoryStore):
    """Its channels can be silenced: a commit wakes nobody and moves no counter."""

    silent: frozenset[str] = frozenset()

    def commit(self, packet):
        channels = [each for each in packet.channels if each not in self.silent]
        return super().commit(packet._replace(channels=channels))


class Running:
    """An owner whose loops have threads, as in a node; `sources` are the wake-ups it has."""

    def __init__(self, sources):
        self.store = DeafStore()
        bootstrap(self.store)
        clock = SystemClock()
        member = Member.join(self.store, clock, "back", "b")
        campaign = Campaign(self.store, member)
        campaign.step(0.0)
        ticker = "ticker" in sources
        self.ddl = Ddl(
            self.store,
            Schemas(self.store),
            member,
            campaign,
            clock,
            PlainReorg.factory(self.store),
            Pools(2, 1),
            tick_s=0.05 if ticker else NEVER_S,
        )
        self.nudged = threading.Event()
        if "other node's notice" not in sources:
            self.store.silent = frozenset({"job", "history"})
        self.submitter = Submitter(
            self.store,
            Schemas(self.store),
            member,
            clock,
            notice=self.notice if "local notice" in sources else lambda: None,
            poll_s=0.05 if ticker or "local notice" in sources or not sources else NEVER_S,
        )
        self.stopped = False
        self.thread = threading.Thread(target=self.loop)
        self.thread.start()

    def notice(self):
        self.ddl.nudge()
        self.nudged.set()

    def loop(self):
        """One thread: the channel, the local event, or the delay the loop asked for."""
        while not self.stopped:
            seen = self.store.counter("job")
            delay = min(loop.step(time.monotonic()) for loop in self.ddl.loops()[:2])
            until = time.monotonic() + delay
            while time.monotonic() < until and not self.stopped:
                if self.nudged.wait(0.001) or self.store.counter("job") != seen:
                    break
            self.nudged.clear()

    def stop(self):
        self.stopped = True
        self.thread.join()


@pytest.mark.parametrize("off", SOURCES)
def test_a_job_finishes_with_one_wake_up_off(off):
    running = Running([source for source in SOURCES if source != off])
    try:
        job = running.submitter.submit(requests.create_database("d"), timeout_s=10)
    finally:
        running.stop()
    assert job.state == JobState.SYNCED


@pytest.mark.parametrize("only", SOURCES)
def test_a_job_finishes_with_one_wake_up_alone(only):
    running = Running([only])
    try:
        job = running.submitter.submit(requests.create_database("d"), timeout_s=10)
    finally:
        running.stop()
    assert job.state == JobState.SYNCED


def test_without_any_wake_up_it_does_not():
    """Else the tests above prove nothing."""
    running = Running([])
    time_up = pytest.raises(Unavailable, match="continues")
    try:
        with time_up:
            running.submitter.submit(requests.create_database("d"), timeout_s=0.5)
    finally:
        running.stop()


def test_many_sessions_wait_and_one_of_them_reads_history():
    running = Running(SOURCES)
    try:
        ended = []

        def session(n):
            ended.append(running.submitter.submit(requests.create_database(f"d{n}"), 20))

        threads = [threading.Thread(target=session, args=(n,)) for n in range(24)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        running.stop()
    assert {job.state for job in ended} == {JobState.SYNCED} and len(ended) == 24
    assert running.submitter.waiting == 0


def test_a_worker_looks_for_acknowledgements_when_one_has_come_and_not_right_after_its_step():
    cluster = SmallCluster()
    cluster.run(requests.create_table(cluster.database(), abc("t")))
    add = requests.add_column(cluster.database(), cluster.table("t").info, column("c"))
    job_id, manager = cluster.submit(add), cluster.owner.ddl.manager
    now = cluster.clock.monotonic()
    while not cluster.job(job_id).begun:
        manager.step(now)
    transact, looks = cluster.store.transact, []
    cluster.store.transact = lambda *asked: looks.append(asked) or transact(*asked)
    assert manager.step_workers(now) > 0.0, "it waits for an answer"
    assert not looks
    cluster.fronts[0].step(now)
    looks.clear()
    before = cluster.job(job_id).schema_state
    manager.step_workers(now)
    assert len(looks) == 1 and cluster.job(job_id).schema_state != before
