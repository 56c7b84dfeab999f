"""The schema versions that each action consumes, as TiDB; EXPLAIN foretells the very same steps."""

import random

import pytest

from exuvia.catalog import meta
from exuvia.ddl import worker
from exuvia.ddl.actions import ACTIONS
from exuvia.ddl.apply import read_snapshot
from exuvia.ddl.explain import decisions, step_text
from exuvia.ddl.job import JobState, evolve, timestamp
from exuvia.node.assemble import JUDGE
from exuvia.pipeline.phase_runner import PhaseRunner
from support.script_actions import SEVERAL
from support.scripts import ASKED, ROWS, Traffic
from support.small_cluster import SmallCluster

_ADD = _DROP = 4
_HIDDEN = 6
_CHECKED = 2
VERSIONS = {
    "create schema": 1,
    "drop schema": 3,
    "modify schema charset and collate": 1,
    "flashback schema": 1,
    "create table": 1,
    "create table, with a key": 2,
    "create tables": 1,
    "drop table": 3,
    "truncate table": 1,
    "exuvia import into": 2,
    "rename table": 1,
    "rename tables": 1,
    "recover table": 1,
    "modify table comment": 1,
    "modify table charset and collate": 1,
    "rebase auto_increment ID": 1,
    "modify auto id cache": 1,
    "shard row ID": 1,
    "alter table cache": 1,
    "exuvia schema locked": 1,
    "exuvia change log": 2,
    "exuvia fulltext": 1,
    "alter table nocache": 1,
    "create placement policy": 1,
    "alter placement policy": 1,
    "drop placement policy": 1,
    "create resource group": 1,
    "alter resource group": 1,
    "drop resource group": 1,
    "modify schema default placement": 1,
    "alter table placement": 1,
    "alter table partition placement": 1,
    "alter table attributes": 1,
    "alter table partition attributes": 1,
    "alter table affinity": 1,
    "alter table ttl": 1,
    "alter table no_ttl": 1,
    "create view": 1,
    "create view, or replace": 1,
    "drop view": 3,
    "create sequence": 1,
    "alter sequence": 1,
    "drop sequence": 3,
    "add column": _ADD,
    "add column, not null": _ADD,
    "add column, virtual": _ADD,
    "add column, stored": _ADD,
    "add column, numbered": _ADD,
    "add column, numbered in partitions": _ADD,
    "drop column": _DROP,
    "drop column, kept": 1,
    "drop index, kept": 1,
    "drop index, defined": _DROP,
    "exuvia undo": 2,
    "exuvia undo, column": 2,
    "truncate table, kept": 1,
    "exuvia undo, rows": 7,
    "exuvia undo, rows that meet": 7,
    "exuvia undo, partitions": 7,
    "exuvia end undo, rows": 0,
    "exuvia end undo": 3,
    "exuvia end undo, column": 3,
    "exuvia end undo, modify": 3,
    "set default value": 1,
    "modify column": 1,
    "modify column, checked": _CHECKED,
    "modify column, not null": _CHECKED,
    "modify column, indexes": _HIDDEN,
    "modify column, rows": _HIDDEN,
    "modify column, moved": _HIDDEN,
    "modify column, partitions": _HIDDEN,
    "modify column, kept": _HIDDEN - 1,
    "modify column, undone": _HIDDEN,
    "modify column, undone in partitions": _HIDDEN,
    "add index": _ADD,
    "add index, unique": _ADD,
    "add index, two": _ADD,
    "add index, expression": _ADD,
    "add primary key": _ADD,
    "add primary key, nullable": _ADD,
    "drop index": _DROP,
    "drop index, expression": _DROP,
    "drop primary key": _DROP,
    "rename index": 1,
    "rename index, expression": 1,
    "alter index visibility": 1,
    "add check constraint": 3,
    "drop check constraint": 2,
    "drop check constraint, at once": 1,
    "alter check constraint": 3,
    "alter check constraint, not enforced": 1,
    "add foreign key": 3,
    "drop foreign key": 1,
    "add partition": 2,
    "drop partition": 4,
    "drop partition, last": 4,
    "truncate partition": 4,
    "exchange partition": 2,
    "alter table reorganize partition": 6,
    "alter table reorganize partition, hash": 6,
    "alter table partition by": 6,
    "alter table partition by, again": 6,
    "alter table remove partitioning": 6,
    "add index, global": _ADD,
    "add index, global unique": _ADD,
    "drop index, global": _DROP,
    "add partition, global": 2,
    "drop partition, global": 4,
    "truncate partition, global": 4,
    "truncate table, global": 1,
    "drop table, global": 3,
    "alter table reorganize partition, global": 6,
    "alter table reorganize partition, global hash": 6,
    "alter table partition by, global": 6,
    "alter table partition by, becomes global": 6,
    "alter table partition by, becomes local": 6,
    "alter table remove partitioning, global": 6,
    "exuvia change primary key": 6,
    "exuvia change primary key, wider": 6,
    "exuvia change primary key, clustered": 6,
    "exuvia change primary key, dropped": 6,
    "exuvia change primary key, not clustered": 6,
    "add index, elements": _ADD,
    "add index, unique elements": _ADD,
    "drop index, elements": _DROP,
}
PREPARED = ASKED | {label: each[:2] for label, each in SEVERAL.items()}
SPENT = VERSIONS | {label: each.steps for label, each in SEVERAL.items()}


def test_every_action_is_in_the_table():
    assert set(VERSIONS) == set(ASKED)
    assert {label.split(",")[0] for label in ASKED} == {each.label for each in ACTIONS.values()}


@pytest.fixture
def committed(monkeypatch):
    """Every decision that was committed, in order."""
    found = []
    apply = worker.apply

    def applied(txn, decision, owner):
        if decision.commits:
            found.append(decision)
        return apply(txn, decision, owner)

    monkeypatch.setattr(worker, "apply", applied)
    return found


def prepared(label, rows):
    """A cluster, and the job that label asks for on a table of so many rows."""

    def production(store):
        return lambda *order: PhaseRunner(store, *order, None, JUDGE)

    cluster = SmallCluster(reorgs=production)
    prepare, request = PREPARED[label]
    prepare(cluster)
    Traffic(cluster.store, "t", random.Random(1)).fill(rows)
    return cluster, request(cluster)


def told(steps):
    """Each step in words."""
    befores = [None, *steps]
    return [step_text(before, step) for before, step in zip(befores, steps, strict=False)]


@pytest.mark.parametrize("rows", [0, ROWS])
@pytest.mark.parametrize("label", PREPARED)
def test_the_versions_are_those_and_explain_foretold_the_steps(label, rows, committed):
    cluster, job = prepared(label, rows)
    job_id = cluster.submit(job)
    waiting, before = cluster.job(job_id), cluster.read(meta.version)
    now = timestamp(cluster.clock.wall_ns())
    world = cluster.read(lambda txn: read_snapshot(txn, waiting, now))
    foretold = list(decisions(waiting, evolve(world, place=1)))
    committed.clear()
    assert cluster.finish(job_id).state == JobState.SYNCED
    assert told(committed) == told(foretold)
    spent = cluster.read(meta.version) - before
    assert spent == SPENT[label] == sum(text.count("version +1") for text in told(foretold))
