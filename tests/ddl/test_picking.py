"""Seed 000: which job may run, and what finding it costs.

The four sentences as a program, against the set kept in memory. The cost does not depend on how
many jobs wait: counted, not timed; the time among a hundred thousand is measured by
bench/picking.py.
"""

import random
import time

import pytest

from exuvia.ddl import manager, queue, requests
from exuvia.ddl.job import ActionCode, Job, schema_ids, table_ids, timestamp
from exuvia.ddl.queue import numbered
from exuvia.ddl.ready import ReadySet
from exuvia.ddl.submit import BATCH_JOBS
from support.small_cluster import SmallCluster
from support.tables import abc

DROP_SCHEMA = ActionCode.DROP_SCHEMA


def job(number, schema=1, table=0, action=ActionCode.ADD_COLUMN, tables=(), schemas=(), **more):
    """`tables` and `schemas`: others that it involves, as RENAME and EXCHANGE do."""
    return Job(
        **more,
        id=number,
        type=action,
        schema_id=schema,
        table_id=table,
        exuvia_tables=tables,
        exuvia_schemas=schemas,
    )


def may_run(one, unfinished, running):
    """The sentences of seed 000, word by word, over all unfinished jobs of both pools."""
    older = [each for each in unfinished if each.id < one.id]
    same_schema = [each for each in older if {*schema_ids(each)} & {*schema_ids(one)}]
    return (
        one.id not in running
        and not any({*table_ids(each)} & {*table_ids(one)} for each in older)
        and not any(each.type == DROP_SCHEMA for each in same_schema)
        and not (one.type == DROP_SCHEMA and same_schema)
    )


def taken(ready, reorg=False):
    found = []
    while (one := ready.take(reorg)) is not None:
        found.append(one.id)
    return found


def add_all(*jobs):
    ready = ReadySet()
    for one in jobs:
        ready.add(one)
    return ready


def test_rule_1_a_running_job_is_not_taken_again():
    ready = add_all(job(1, table=7))
    assert taken(ready) == [1] and taken(ready) == []


def test_rule_2_one_job_a_table_the_oldest_first():
    ready = add_all(job(1, table=7), job(2, table=7), job(3, table=8))
    assert taken(ready) == [1, 3]
    ready.remove(1)
    assert taken(ready) == [2]


def test_rule_2_counts_running_jobs_and_the_other_pool():
    ready = add_all(job(1, table=7, action=ActionCode.ADD_INDEX), job(2, table=7))
    assert taken(ready, reorg=True) == [1]
    assert taken(ready) == [] and ready.blocker(2) == 1
    ready.remove(1)
    assert taken(ready) == [2]


def test_rule_3_nothing_overtakes_a_drop_of_its_schema_and_others_do():
    ready = add_all(job(1, action=DROP_SCHEMA), job(2, table=7), job(3, schema=2, table=8))
    assert taken(ready) == [1, 3]
    ready.remove(1)
    assert taken(ready) == [2]


@pytest.mark.parametrize("dropped", [1, 2])
def test_rule_3_counts_every_schema_that_a_job_involves(dropped):
    """RENAME TABLE d1.t TO d2.t waits for the drop of either."""
    rename = job(2, schema=1, table=7, action=ActionCode.RENAME_TABLE, schemas=(2,))
    ready = add_all(job(1, schema=dropped, action=DROP_SCHEMA), rename)
    assert taken(ready) == [1] and ready.blocker(2) == 1
    ready.remove(1)
    assert taken(ready) == [2]


def test_rule_4_a_drop_of_a_schema_waits_for_every_older_job_in_it():
    ready = add_all(job(1, table=7), job(2, table=8), job(3, action=DROP_SCHEMA), job(4, table=9))
    assert taken(ready) == [1, 2]
    ready.remove(2)
    assert taken(ready) == []
    ready.remove(1)
    assert taken(ready) == [3]
    ready.remove(3)
    assert taken(ready) == [4]


RENAMED = (
    {
        "table_id": 7,
        "old_schema_id": 1,
        "old_schema": "d",
        "old_name": "T",
        "new_schema_id": 2,
        "new_schema": "e",
        "new_name": "U",
    },
)
FREES_T = {
    "drop": {"action": ActionCode.DROP_TABLE, "table_name": "T"},
    "rename": {"action": ActionCode.RENAME_TABLE, "raw_args": RENAMED, "schemas": (2,)},
}


@pytest.mark.parametrize("freed", sorted(FREES_T))
def test_a_name_is_taken_after_the_job_that_frees_it_has_ended(freed):
    """Else history could tell of a second table of that name before the first has gone."""
    create = {"action": ActionCode.CREATE_TABLE, "table_name": "t"}
    many = {"action": ActionCode.CREATE_TABLES, "raw_args": ({"name": {"O": "t", "L": "t"}},)}
    ready = add_all(
        job(1, table=7, **FREES_T[freed]),
        job(2, table=8, **create),
        job(3, schema=3, table=9, **create),
        job(4, **many),
    )
    assert taken(ready) == [1, 3] and ready.blocker(2) == 1
    ready.remove(1)
    assert taken(ready) == [2]
    ready.remove(2)
    assert taken(ready) == [4]


def test_a_job_that_leaves_from_the_middle_frees_who_waited_for_it():
    ready = add_all(job(1, table=7), job(2, table=7), job(3, table=7))
    assert taken(ready) == [1]
    ready.remove(2)
    assert ready.blocker(3) == 1
    ready.remove(1)
    assert taken(ready) == [3]


def test_a_job_given_back_is_taken_again():
    ready = add_all(job(1, table=7))
    assert taken(ready) == [1]
    ready.give_back(1)
    assert taken(ready) == [1]


@pytest.mark.parametrize("seed", range(60))
def test_the_set_says_what_the_sentences_say(seed):
    chance = random.Random(seed)
    ready, unfinished, running = ReadySet(), {}, set()
    actions = [ActionCode.ADD_COLUMN] * 4 + [ActionCode.ADD_INDEX, DROP_SCHEMA]
    for number in range(1, 120):
        action = chance.choice(actions)
        table = 0 if action == DROP_SCHEMA else chance.randrange(1, 6)
        schema = 1 + table % 2 if table else chance.randrange(1, 4)
        others = {"tables": (chance.randrange(1, 6),), "schemas": (chance.randrange(1, 4),)}
        several = others if table and chance.random() < 0.3 else {}
        one = job(number, schema=schema, table=table, action=action, **several)
        ready.add(one)
        unfinished[number] = one
        for reorg in (False, True):
            if chance.random() < 0.6:
                pool = {n for n, each in unfinished.items() if (each.type == 7) == reorg}
                allowed = {n for n in pool if may_run(unfinished[n], unfinished.values(), running)}
                found = taken(ready, reorg)
                assert set(found) == allowed and found == sorted(found)
                running |= allowed
        for ended in chance.sample(sorted(unfinished), chance.randrange(0, 3) % len(unfinished)):
            ready.remove(ended)
            running.discard(ended)
            del unfinished[ended]


def test_a_pick_stays_cheap_with_a_hundred_thousand_waiting():
    """A line of 50,000 jobs at one table and 50,000 tables: no pass over all of them a pick."""
    ready = ReadySet()
    for number in range(1, 50_001):
        ready.add(job(number, table=7))
    for number in range(50_001, 100_001):
        ready.add(job(number, table=number))
    start, picked = time.process_time(), 0
    while picked < 2_000:
        one = ready.take(False)
        ready.remove(one.id)
        picked += 1
    assert (time.process_time() - start) / picked < 0.0005


# -- what a pick costs -----------------------------------------------------------------------------

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

        def counted(owner, job_id, **more):
            self.ended += 1
            return ended(owner, job_id, **more)

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
