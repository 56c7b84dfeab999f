"""Seed 004, "Test Design": one test for each line of it, with its name. Further tests:

Priority Queue Operations             test_heap.py
DML, DDL, time                        test_queue.py
exactly-once delivery                 ../events, ../sim
an owner switch in the middle         test_auto*.py
Benchmark Tests                       bench/queue_memory.py, bench/notifier.py,
                                      bench/priority_queue.py
"""

import contextlib
import random
import threading

import pytest

from exuvia.base.errors import Conflict, Refused
from exuvia.catalog import meta as catalog
from exuvia.catalog.model import evolve, name, to_json
from exuvia.catalog.system_tables import LAST_SYSTEM_ID, TEST_ID
from exuvia.events import schema_change
from exuvia.events.notifier import NotReady
from exuvia.kv import keys
from exuvia.stats import meta
from exuvia.stats.cache import StatsCache
from exuvia.stats.meta import Delta
from exuvia.stats.priority import AnalysisJob, Indicators, score
from exuvia.stats.queue import Heap, Queue
from support.node_processes import until
from support.stats_owners import DAY, Place
from support.tables import abc, index
from support.world import World, rows, run

RANGE = (
    "PARTITION BY RANGE (a)"
    " (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20))"
)


NOTIFIER = "ADMIN SHOW DDL NOTIFIER"


def jobs_of(queue: Queue) -> dict[int, tuple]:
    """The jobs of a queue, without ages."""
    return {
        job.key: (job.table_id, job.change, job.size, sorted(job.partitions), job.indexes)
        for job in queue.snapshot().waiting
    }


# -- over SQL --------------------------------------------------------------------------------------


class Sql:
    """A session on a node whose queue no runner reads."""

    def __init__(self, world: World) -> None:
        self.world, self.session = world, world.session()
        self.ahead = 0.0
        run(self.session, "SET GLOBAL tidb_auto_analyze_concurrency = 0")

    def do(self, *statements: str) -> None:
        for statement in statements:
            run(self.session, statement)

    def physical(self, table: str) -> list[int]:
        txn = self.world.store.begin()
        table_id = catalog.find_table(txn, TEST_ID, table)
        info = catalog.get_table(txn, table_id)
        txn.rollback()
        return list(info.physical_ids)

    def count(self, physical_id: int, number: int) -> None:
        while True:
            txn = self.world.store.begin()
            meta.add(txn, {physical_id: Delta(number, number)})
            try:
                txn.commit()
                return
            except Conflict:  # a session's own counts came between
                pass

    def settle(self) -> dict[int, tuple]:
        """Deliver every event; returns the queue, which must equal a rebuilt one."""
        stats, clock = self.world.stats, self.world.clock
        waiting = "SELECT * FROM mysql.ddl_notifier"
        until(lambda: not rows(self.session, waiting), about=lambda: rows(self.session, NOTIFIER))
        cache = StatsCache(self.world.store)
        fresh = Queue(self.world.store, cache, lambda: clock.wall_ns() / 1e9)
        for _ in range(2):
            self.ahead += 10
            stats.cache.step(0.0)
            stats.queue.step(clock.monotonic() + self.ahead)
        fresh.step(0.0)
        updated, rebuilt = jobs_of(stats.queue), jobs_of(fresh)
        assert updated == rebuilt
        return updated


@pytest.fixture
def sql():
    with World() as world:
        yield Sql(world)


def test_ddl_change_handling(sql):
    """Each kind of change, from the statement to the queue."""
    sql.do("CREATE TABLE t (a INT, b INT)", f"CREATE TABLE p (a INT, b INT) {RANGE}")
    sql.do("CREATE TABLE u (a INT, b INT)")
    (t,), (u,), (p0, p1) = (sql.physical(name) for name in "tup")
    for id_, number in ((t, 2000), (u, 3000), (p0, 4000), (p1, 10)):
        sql.count(id_, number)
    assert {job[2] for job in sql.settle().values()} == {4000.0, 6000.0, 8000.0}
    sql.do("CREATE INDEX i ON t (a)", "ALTER TABLE t ADD COLUMN c INT")
    sql.settle()
    sql.do("ALTER TABLE p EXCHANGE PARTITION p1 WITH TABLE u")
    exchanged = sql.settle()
    table_id = next(key for key, job in exchanged.items() if job[3])
    assert exchanged[table_id][3] == sorted([p0, u])
    sql.do("ALTER TABLE p TRUNCATE PARTITION p0")
    assert sql.settle()[table_id][3] == [u]
    sql.do("ALTER TABLE p DROP PARTITION p1", "TRUNCATE TABLE t")
    assert sql.settle() == {}
    sql.count(sql.physical("t")[0], 5000)
    assert len(sql.settle()) == 1
    sql.do(f"ALTER TABLE t {RANGE}")
    sql.settle()
    sql.do("DROP DATABASE test")
    assert sql.settle() == {}


CHANGES = (
    "CREATE TABLE {t} (a INT, b INT)",
    f"CREATE TABLE {{t}} (a INT, b INT) {RANGE}",
    "DROP TABLE {t}",
    "TRUNCATE TABLE {t}",
    "RENAME TABLE {t} TO {u}",
    "ALTER TABLE {t} ADD INDEX (a)",
    "ALTER TABLE {t} ADD COLUMN c INT, ADD INDEX (b)",
    "ALTER TABLE {t} DROP COLUMN c",
    "ALTER TABLE {t} ADD PARTITION (PARTITION p2 VALUES LESS THAN (30))",
    "ALTER TABLE {t} TRUNCATE PARTITION p0",
    "ALTER TABLE {t} EXCHANGE PARTITION p1 WITH TABLE {u}",
    "ALTER TABLE {t} REMOVE PARTITIONING",
    f"ALTER TABLE {{t}} {RANGE}",
    "RECOVER TABLE {t}",
)


@pytest.mark.parametrize("mode", ["dynamic", "static"])
def test_mixed_dml_and_ddl_changes(sql, mode):
    """Mixed statements of a day: updated scores equal scores computed from the start."""
    chance = random.Random(mode)
    sql.do(f"SET GLOBAL tidb_partition_prune_mode = '{mode}'")
    done = 0
    for turn in range(120):
        place = {"t": chance.choice("tuv"), "u": chance.choice("tuv")}
        try:
            sql.do(chance.choice(CHANGES).format(**place))
            done += 1
        except Refused:
            pass
        tables = [row[0] for row in rows(sql.session, "SHOW TABLES")]
        if tables:
            physical = sql.physical(chance.choice(tables))
            sql.count(chance.choice(physical), chance.randrange(100, 3000))
        if turn % 40 == 39:
            sql.settle()
    assert done > 30


def test_priority_queue_rebuild_after_node_restart_and_owner_switch():
    with World() as first:
        sql = Sql(first)
        sql.do("CREATE TABLE t (a INT)", "CREATE TABLE u (a INT)")
        sql.count(sql.physical("t")[0], 5000)
        before = sql.settle()
        assert len(before) == 1
        second = World(first.store)
        try:
            assert len(second.stats.queue) == 0  # it does not own
            for member in (first.member, first.back):
                member.leave()
            first.loops.stop(5.0)
            first.stats.queue.step(first.clock.monotonic())
            other = Sql(second)
            until(lambda: second.stats.queue.is_ready)
            assert jobs_of(second.stats.queue) == before
            assert len(first.stats.queue) == 0 and not first.stats.queue.is_ready
            other.do("DROP TABLE t")
            other.count(other.physical("u")[0], 5000)
            assert [job[2] for job in other.settle().values()] == [5000.0]
        finally:
            second.close()


# -- by themselves ---------------------------------------------------------------------------------


def job_of(key: int, weight: float) -> AnalysisJob:
    return AnalysisJob(
        key=key, table_id=key, change=1.0, size=1.0, analyzed_at=0.0, minus_weight=-weight
    )


def test_priority_queue_operations():
    """Add, Update, Delete, Pop, Get."""
    heap: Heap[int, AnalysisJob] = Heap(lambda job: job.key)
    for key, weight in ((1, 0.5), (2, 1.5), (3, 1.0)):
        heap.add(job_of(key, weight))
    heap.update(job_of(1, 2.0))
    heap.delete_key(3)
    assert heap.get_key(1).weight == 2.0 and heap.get_key(3) is None
    assert [heap.pop().key, heap.pop().key] == [1, 2]


def test_dml_change_handling():
    """Score recalculation, by increments from the cache."""
    place = Place()
    place.table(100)
    place.analyzed(100, 2000, ago_s=DAY)
    place.rows(100, 0, 1500)
    place.go()
    (job,) = place.queue.snapshot().waiting
    assert job.weight == pytest.approx(score(Indicators(75.0, 6000, DAY)), abs=1e-3)
    place.rows(100, 2000, 2000)
    place.go()
    (job,) = place.queue.snapshot().waiting
    assert job.weight == pytest.approx(score(Indicators(175.0, 12000, DAY)), abs=1e-3)
    assert place.queue.next_version == place.cache.high_water


def test_time_based_updates():
    place = Place()
    place.table(100)
    place.analyzed(100, 2000, ago_s=60)
    place.rows(100, 0, 1500)
    place.go()
    place.go(301)
    (job,) = place.queue.snapshot().waiting
    assert job.weight == pytest.approx(score(Indicators(75.0, 6000, 364)), abs=0.01)


def test_large_scale():
    """20,000 tables here; a million in bench/priority_queue.py."""
    place, tables = Place(), 20_000
    definition = evolve(abc("t"), exuvia_db=TEST_ID)
    first = LAST_SYSTEM_ID + 100
    ids = range(first, first + tables)
    infos = [to_json(evolve(definition, id=n, name=name(f"t{n}"))) for n in ids]
    place.store.bulk([keys.meta("table", n) for n in ids], infos)
    txn = place.store.begin()
    meta.add(txn, {n: Delta(1000 + n, 500) for n in ids})
    txn.commit()
    place.go(1)
    assert len(place.queue) == tables
    assert [place.queue.pop().key for _ in range(3)] == [first, first + 1, first + 2]
    changed = random.Random(1).sample(range(first + 100, first + tables), 1000)
    txn = place.store.begin()
    meta.add(txn, {n: Delta(10**6, 0) for n in changed})
    txn.commit()
    place.go()
    sizes = {job.key: job.size for job in place.queue.snapshot().waiting}
    assert all(sizes[n] == 3 * (1000 + n + 10**6) for n in changed)
    for n in changed:
        place.tell(schema_change.drop_table(evolve(definition, id=n)))
    assert len(place.queue) == tables - 3 - len(changed)


def test_concurrent_operations():
    """Sessions, the notifier, the queue's own loop and its runner, concurrently."""
    place = Place()
    infos = {n: place.table(n) for n in range(100, 140)}
    place.go(1)
    over = threading.Event()
    failures: list[BaseException] = []

    def guarded(work):
        def loop() -> None:
            chance = random.Random(repr(work))
            try:
                while not over.is_set():
                    work(chance)
            except BaseException as error:
                failures.append(error)

        return loop

    def sessions(chance: random.Random) -> None:
        with contextlib.suppress(Conflict):
            place.rows(chance.choice(list(infos)), chance.randrange(100), chance.randrange(1000))

    def notifier(chance: random.Random) -> None:
        table_id = chance.randrange(100, 120)
        added = evolve(index("i", "b"), id=chance.randrange(1, 5))
        changed = evolve(infos[table_id], index_info=(added,))
        txn = place.store.begin()
        catalog.put_table(txn, changed)
        txn.commit()
        with contextlib.suppress(NotReady):
            place.tell(schema_change.add_index(changed, [added]))

    def loop(chance: random.Random) -> None:
        place.clock.advance(1.0)
        place.cache.step(0.0)
        place.queue.step(place.clock.monotonic())

    def runner(chance: random.Random) -> None:
        job = place.queue.pop()
        if job is not None:
            assert place.queue.snapshot().running
            place.queue.ended(job, well=chance.random() < 0.5)

    works = (sessions, sessions, notifier, loop, runner)
    threads = [threading.Thread(target=guarded(work)) for work in works]
    for thread in threads:
        thread.start()
    over.wait(1.5)
    over.set()
    for thread in threads:
        thread.join(10)
    assert failures == []
    for n in infos:  # a job popped meanwhile is queued again by its next change
        place.rows(n, 1000, 1000)
    place.go(700)
    fresh = place.new_queue()
    fresh.step(place.clock.monotonic())
    assert jobs_of(place.queue) == jobs_of(fresh) and len(fresh) == len(infos)
