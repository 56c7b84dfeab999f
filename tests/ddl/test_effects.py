"""Effects of a decision: the state in memory and the store's state after a step are the same."""

import random

import pytest

from exuvia.base.errors import Broken
from exuvia.catalog import meta
from exuvia.ddl import requests, state_machine, worker
from exuvia.ddl.apply import WRITERS
from exuvia.ddl.decision import Decision
from exuvia.ddl.effects import (
    EFFECTS,
    ChangeDatabase,
    ChangeNamed,
    ChangeTable,
    Publish,
    applied,
    difference,
)
from exuvia.ddl.elements import GoneLinks
from exuvia.ddl.facts import LastId
from exuvia.ddl.snapshot import CatalogSnapshot, ReadSet
from exuvia.node.assemble import JUDGE
from exuvia.pipeline.phase_runner import PhaseRunner
from support.script_actions import SEVERAL
from support.scripts import ASKED, Traffic
from support.small_cluster import SmallCluster
from support.tables import abc

PREPARED = ASKED | {label: each[:2] for label, each in SEVERAL.items()}


def test_every_effect_is_written_and_the_version_follows_the_catalog():
    assert set(WRITERS) == set(EFFECTS)
    place = EFFECTS.index
    for catalog in (ChangeTable, ChangeDatabase, ChangeNamed):
        assert place(catalog) < place(Publish)


@pytest.fixture
def compared(monkeypatch):
    """Compares each applied step with the store, in its transaction. Has the compared decisions."""
    decisions = []
    apply = worker.apply

    def checked(txn, decision, owner):
        job = apply(txn, decision, owner)
        after = decision.after
        for change in (effect for effect in decision.effects if isinstance(effect, ChangeTable)):
            expected = next((info for info in after.tables if info.id == change.id), None)
            stored = meta.get_table(txn, change.id)
            assert (stored is None) == (expected is None)
            if stored is not None:
                assert meta.as_at_rest(txn, stored) == meta.as_at_rest(txn, expected)
        if decision.moves:
            assert meta.get_database(txn, decision.job.schema_id) == after.database
        for (kind, name), info in {**decision.before.records, **after.records}.items():
            assert kind.find(txn, name) == after.records.get((kind, name)), info
        decisions.append(decision)
        return job

    monkeypatch.setattr(worker, "apply", checked)
    return decisions


@pytest.fixture
def complete(monkeypatch):
    """Every step's effects lead from the snapshot before it to the one that its edit returned."""

    def checked(before, after):
        effects = difference(before, after)
        assert applied(before, effects) == after
        return effects

    monkeypatch.setattr(state_machine, "difference", checked)


@pytest.mark.parametrize("label", PREPARED)
def test_a_step_has_the_same_result_in_memory_and_in_the_store(label, compared, complete):
    cluster = SmallCluster(
        reorgs=lambda store: lambda *order: PhaseRunner(store, *order, None, JUDGE)
    )
    prepare, request = PREPARED[label]
    prepare(cluster)
    Traffic(cluster.store, "t", random.Random(1)).fill(3)
    compared.clear()
    cluster.run(request(cluster))
    assert any(decision.moves for decision in compared)


def test_an_undeclared_fact_is_a_fault_but_is_assumed_in_memory():
    snapshot = CatalogSnapshot(facts={LastId(5): 7})
    assert snapshot.fact(LastId(5)) == 7
    with pytest.raises(Broken, match="LastId"):
        snapshot.fact(LastId(6))
    supposed = CatalogSnapshot(facts={LastId(5): 7}, supposed=True)
    assert (supposed.fact(LastId(5)), supposed.fact(LastId(6))) == (7, 0)


def test_reads_of_several_changes_are_read_once():
    one = ReadSet(tables=(3, 4), facts=(GoneLinks(3),))
    other = ReadSet(tables=(4, 5), facts=(GoneLinks(3), LastId(3)))
    assert ReadSet.union([one, other]) == ReadSet((3, 4, 5), facts=(GoneLinks(3), LastId(3)))


def test_a_decision_without_effects_is_a_wait():
    cluster, snapshot = SmallCluster(), CatalogSnapshot()
    job = requests.create_table(cluster.database(), abc())
    assert not Decision(job=job, before=snapshot).commits
    step = Decision(job=job, before=snapshot, effects=(Publish(barrier=True),))
    assert step.commits and step.moves and step.barrier and step.after == snapshot
