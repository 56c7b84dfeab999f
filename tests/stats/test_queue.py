"""The queue by rows, definitions and time; the updated queue equals a rebuilt one."""

import random

import pytest

from exuvia.catalog import meta as catalog
from exuvia.catalog import writer
from exuvia.catalog.model import TableInfo, evolve
from exuvia.catalog.system_tables import planned
from exuvia.events import schema_change
from exuvia.events.notifier import NotReady
from exuvia.events.schema_change import Kind
from exuvia.stats.priority import Indicators, score
from support.stats_owners import DAY, Place
from support.tables import index


def test_rows_make_jobs_by_the_rules():
    place = Place()
    for table_id in (100, 101, 102, 103, 104):
        place.table(table_id)
    place.go(1)
    assert place.queue.is_ready and place.keys() == []
    place.rows(100, 999, 999)  # too few rows
    place.rows(101, 2000, 2000)  # never analyzed
    place.analyzed(102, 2000)
    place.rows(102, 0, 1000)  # half of its rows: not more than the ratio
    place.analyzed(103, 2000, ago_s=DAY)
    place.rows(103, 0, 1500)
    place.go()
    assert sorted(place.keys()) == [101, 103]
    job = next(job for job in place.queue.snapshot().waiting if job.key == 103)
    assert job.change == 75.0 and job.size == 2000 * 3
    assert job.weight == pytest.approx(score(Indicators(75.0, 6000, DAY)), abs=1e-3)
    place.set("tidb_auto_analyze_ratio", "0.4")
    place.go(2)
    assert sorted(place.keys()) == [101, 102, 103]


def test_the_most_urgent_is_popped_first():
    place = Place()
    place.table(100)
    place.table(101)
    place.analyzed(100, 1000, ago_s=60)
    place.rows(100, 0, 900)
    place.rows(101, 5000, 5000)
    place.go()
    first = place.queue.pop()
    assert first is not None and first.key == 101
    place.rows(101, 1, 1)  # changed while it runs: again later, not twice at once
    place.go()
    assert place.keys() == [100]
    assert [job.key for job in place.queue.snapshot().running] == [101] and list(
        place.queue.snapshot().must_retry
    ) == [101]
    place.analyzed(101, 5001)
    place.queue.ended(first, well=True)
    place.go(400)
    assert place.keys() == [100] and list(place.queue.snapshot().must_retry) == []


def test_a_failed_job_is_queued_again_after_five_minutes():
    place = Place()
    place.table(100)
    place.rows(100, 5000, 5000)
    place.go()
    job = place.queue.pop()
    place.queue.ended(job, well=False)
    place.rows(100, 1, 1)
    place.go(30)
    assert place.keys() == [] and list(place.queue.snapshot().must_retry) == [100]
    place.go(300)
    assert place.keys() == [100]


def test_urgency_grows_with_age():
    place = Place()
    place.table(100)
    place.analyzed(100, 5000, ago_s=10)
    place.rows(100, 0, 5000)
    place.go()
    before = place.queue.snapshot().waiting[0].weight
    place.go(310)
    after = place.queue.snapshot().waiting[0].weight
    assert after > before + 0.1


def test_a_new_index_is_first_unless_it_has_statistics():
    place = Place()
    info = place.table(100)
    place.analyzed(100, 5000, ago_s=60)
    place.go()
    indexed = evolve(info, index_info=(evolve(index("i", "b"), id=4),))
    txn = place.store.begin()
    catalog.put_table(txn, indexed)
    txn.commit()
    place.tell(schema_change.add_index(indexed, indexed.indexes, analyzed=True))
    assert place.keys() == []
    place.tell(schema_change.add_index(indexed, indexed.indexes))
    (job,) = place.queue.snapshot().waiting
    assert job.has_new_index and job.indexes == (4,) and job.weight > 1.9
    place.analyzed(100, 5000, indexes="4")
    place.go()
    assert place.keys() == []


def test_events_are_refused_before_the_first_rebuild():
    place = Place()
    info = place.table(100)
    with pytest.raises(NotReady):
        place.tell(schema_change.drop_table(info))
    place.set("tidb_enable_auto_analyze", "OFF")
    place.tell(schema_change.drop_table(info))  # nobody needs it


def test_partitions_static_and_dynamic():
    place = Place()
    info = place.table(100, partitions=(201, 202, 203))
    for partition, rows in ((201, 5000), (202, 10), (203, 5000)):
        place.rows(partition, rows, rows)
    place.go()
    (job,) = place.queue.snapshot().waiting
    assert (job.key, job.partitions) == (100, (201, 203))
    place.set("tidb_partition_prune_mode", "static")
    place.go(2)
    assert sorted(place.keys()) == [201, 203]
    place.set("tidb_partition_prune_mode", "dynamic")
    place.go(2)
    remaining = evolve(
        info, partition=evolve(info.partition, definitions=info.partition.definitions[1:])
    )
    txn = place.store.begin()
    catalog.put_table(txn, remaining)
    txn.commit()
    place.tell(
        schema_change.partitions(
            Kind.DROP_PARTITION, remaining, (), [schema_change.Partition(201, "p201")]
        )
    )
    (job,) = place.queue.snapshot().waiting
    assert job.partitions == (203,)


def test_locked_tables_have_no_jobs():
    place = Place()
    place.table(100)
    place.rows(100, 5000, 5000)
    txn = place.store.begin()
    writer.insert(txn, planned(txn, "stats_table_locked"), [100, 0, 0, 0])
    txn.commit()
    place.go()
    assert place.keys() == []


def test_next_version_never_passes_the_cache():
    place = Place()
    place.table(100)
    place.go(1)
    place.rows(100, 5000, 5000)  # the cache has not seen it
    place.queue.step(place.clock.monotonic() + 10)
    assert place.queue.next_version <= place.cache.high_water
    assert place.keys() == []
    place.go(20)
    assert place.keys() == [100]


@pytest.mark.parametrize("seed", range(12))
def test_an_updated_queue_equals_a_rebuilt_one(seed):
    chance, place = random.Random(seed), Place()
    live: dict[int, TableInfo] = {}
    following = iter(range(100, 10_000))
    place.go(1)

    def create() -> None:
        table_id = next(following)
        cut = tuple(next(following) for _ in range(3)) if chance.random() < 0.3 else ()
        live[table_id] = place.table(table_id, cut)
        place.tell(schema_change.create_table(live[table_id]))

    def drop() -> None:
        info = live.pop(chance.choice(list(live)))
        place.drop(info)
        place.tell(schema_change.drop_table(info))

    def add_index() -> None:
        info = live[chance.choice(list(live))]
        added = evolve(index(f"i{len(info.indexes)}", "b"), id=len(info.indexes) + 1)
        changed = live[info.id] = evolve(info, index_info=(*info.indexes, added))
        txn = place.store.begin()
        catalog.put_table(txn, changed)
        txn.commit()
        place.tell(schema_change.add_index(changed, [added]))

    def physical() -> int:
        info = live[chance.choice(list(live))]
        return chance.choice(info.partition.physical_ids) if info.partition else info.id

    for _ in range(150):
        act = chance.random()
        if len(live) < 3 or act < 0.15:
            create()
        elif act < 0.25:
            drop()
        elif act < 0.35:
            add_index()
        elif act < 0.7:
            place.rows(physical(), chance.randrange(0, 1500), chance.randrange(0, 1500))
        elif act < 0.85:
            place.analyzed(physical(), chance.randrange(500, 3000), chance.randrange(0, DAY))
        else:
            place.go(chance.choice((1.0, 5.0)))
    place.go(10)
    kept_up = place.queue
    place.go(0.5)
    kept_up._rescore(place.clock.monotonic())
    fresh = place.new_queue()
    fresh.step(place.clock.monotonic())
    updated, rebuilt = (
        {job.key: job for job in queue_.snapshot().waiting} for queue_ in (kept_up, fresh)
    )
    assert {key: _facts(job) for key, job in updated.items()} == {
        key: _facts(job) for key, job in rebuilt.items()
    }
    for key, job in updated.items():
        assert job.weight == pytest.approx(rebuilt[key].weight, abs=0.01)  # averages of ages move


def _facts(job):
    return job.change, job.size, sorted(job.partitions), job.indexes
