"""A new kind of schema element is one file: this one adds labels, and nothing else is changed.

A label names a table and lets it not be dropped. Here are its record, its facts, its two actions
and its guard; the state machine, the store's transaction, EXPLAIN and the queue serve them like all
others. Only the numbers of its actions are borrowed: a real one gets its own (ddl/job.py).
"""

import ast
from pathlib import Path
from typing import ClassVar

import msgspec
import pytest

from exuvia.base.errors import Broken, Refused
from exuvia.base.mysql_errors import ErrUnknown
from exuvia.catalog.model import SchemaState, evolve, to_json
from exuvia.ddl import admin, requests, state_machine
from exuvia.ddl.action import Action, Element, JobGuard, Step, leaves, load
from exuvia.ddl.actions import ACTIONS
from exuvia.ddl.apply import read_snapshot
from exuvia.ddl.delete_ranges import DeleteRange
from exuvia.ddl.explain import decisions, explain
from exuvia.ddl.job import ActionCode, Job, JobState, arguments, raw
from exuvia.ddl.snapshot import CatalogSnapshot, Fact, FactReader, ReadSet, RecordKind
from exuvia.kv import keys
from support.small_cluster import SmallCluster
from support.tables import abc

ABSENT, WRITE_ONLY, PUBLIC = SchemaState.ABSENT, SchemaState.WRITE_ONLY, SchemaState.PUBLIC
CREATE, DROP = ActionCode.CREATE_RESOURCE_GROUP, ActionCode.DROP_RESOURCE_GROUP

# -- the element -----------------------------------------------------------------------------------


class LabelInfo(msgspec.Struct, frozen=True):
    name: str
    text: str
    state: SchemaState = ABSENT


def _find(txn, name):
    payload = txn.get(keys.meta("label", name))
    return None if payload is None else msgspec.json.decode(payload, type=LabelInfo)


LABEL = RecordKind(
    "label",
    _find,
    lambda txn, info: txn.put(keys.meta("label", info.name), to_json(info)),
    lambda txn, info: txn.delete(keys.meta("label", info.name)),
)


class LabelUses(Fact[int], frozen=True):
    """The number of uses of a label."""

    assumed: ClassVar[int] = 0
    name: str

    def read(self, source: FactReader) -> int:
        return len(list(source.txn.scan(keys.span_of(keys.meta("labeluse", self.name)))))


def _reads(job: Job) -> ReadSet:
    return ReadSet(
        records=((LABEL, job.schema_name),),
        facts=(LabelUses(job.schema_name),) if job.type == DROP else (),
    )


def _is_there(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    there = snapshot.record(LABEL, job.schema_name) is not None
    return ErrUnknown(f"label '{job.schema_name}' exists") if there else None


def _is_used(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    uses = snapshot.fact(LabelUses(job.schema_name))
    return ErrUnknown(f"label '{job.schema_name}' has {uses} use(s)") if uses else None


def _place(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    (info,) = arguments(job, tuple[LabelInfo])
    return job, snapshot.with_record(LABEL, info.name, info)


def _move(job: Job, snapshot: CatalogSnapshot, state: SchemaState) -> CatalogSnapshot:
    info = snapshot.record(LABEL, job.schema_name)
    if info is None:
        raise Broken("the label of a running job is gone")
    moved = None if state == ABSENT else evolve(info, state=state)
    return snapshot.with_record(LABEL, info.name, moved)


def _its_notes(job: Job, snapshot: CatalogSnapshot) -> tuple[DeleteRange, ...]:
    return (DeleteRange(1, keys.span_of(keys.meta("labelnote", job.schema_name))),)


_ELEMENT = Element("label", follows_rows=False, move=_move)
DROP_LABEL = load(
    Action(
        DROP,
        _ELEMENT,
        path=(Step(PUBLIC, WRITE_ONLY), Step(WRITE_ONLY, ABSENT, causes=(leaves(_its_notes),))),
        refuses=(_is_used,),
        reads=_reads,
    )
)
CREATE_LABEL = load(
    Action(
        CREATE,
        _ELEMENT,
        path=(Step(ABSENT, WRITE_ONLY, edit=_place), Step(WRITE_ONLY, PUBLIC)),
        refuses=(_is_there,),
        reads=_reads,
        undo=DROP_LABEL,
    )
)


def _table_is_labelled(action: Action, job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    if job.type == ActionCode.DROP_TABLE and snapshot.record(LABEL, job.table_name) is not None:
        return ErrUnknown(f"table '{job.table_name}' has a label")
    return None


def _reads_label_of_table(job: Job) -> ReadSet:
    return ReadSet(records=((LABEL, job.table_name.lower()),) if job.table_name else ())


GUARD = JobGuard(_table_is_labelled, _reads_label_of_table, rank=9)


def _create(name: str, text: str = "") -> Job:
    return Job(type=CREATE, schema_name=name, raw_args=raw((LabelInfo(name, text),)))


# -- what follows without another change -----------------------------------------------------------


@pytest.fixture
def cluster(monkeypatch):
    for action in (CREATE_LABEL, DROP_LABEL):
        monkeypatch.setitem(ACTIONS, action.code, action)
    monkeypatch.setattr(state_machine, "GUARDS", (*state_machine.GUARDS, GUARD))
    cluster = SmallCluster()
    cluster.run(requests.create_table(cluster.database(), abc()))
    return cluster


def label_of(cluster, name="t"):
    return cluster.read(lambda txn: _find(txn, name))


def test_it_walks_its_path_and_is_stored(cluster):
    assert cluster.run(_create("t", "text")).state == JobState.SYNCED
    assert label_of(cluster) == LabelInfo("t", "text", PUBLIC)
    assert cluster.run(_create("t")).err.message == "label 't' exists"
    note = keys.meta("labelnote", "t", 1)
    cluster.store.transact(lambda txn: txn.put(note, b"gone with its label"))
    assert cluster.run(Job(type=DROP, schema_name="t")).state == JobState.SYNCED
    cluster.step(10)
    assert label_of(cluster) is None and cluster.read(lambda txn: txn.get(note)) is None


def test_its_fact_is_read_in_the_step_s_snapshot(cluster):
    cluster.run(_create("t"))
    cluster.store.transact(lambda txn: txn.put(keys.meta("labeluse", "t", 1), b""))
    assert cluster.run(Job(type=DROP, schema_name="t")).err.message == "label 't' has 1 use(s)"
    assert label_of(cluster) is not None


def test_its_guard_refuses_jobs_of_other_actions(cluster):
    cluster.run(_create("t"))
    drop = requests.drop_table(cluster.database(), cluster.table("t").info)
    assert cluster.run(drop).err.message == "table 't' has a label"
    cluster.run(Job(type=DROP, schema_name="t"))
    assert cluster.run(drop).state == JobState.SYNCED


def test_explain_and_cancel_know_the_state_after_each_step(cluster):
    job = evolve(_create("t", "text"), id=99)
    world = cluster.read(lambda txn: read_snapshot(txn, job, 1))
    lines = [" ".join(line.split()) for line in explain(job, world)]
    assert lines[1:3] == [
        "1 none -> write only version +1",
        "2 write only -> public version +1",
    ]
    *_, last = decisions(job, world)
    assert last.after.record(LABEL, "t") == LabelInfo("t", "text", PUBLIC)
    begun = next(decisions(job, world))
    back = state_machine.without_begun(begun.job, begun.after)
    assert back.record(LABEL, "t") is None and back.records == world.records


def test_a_cancelled_job_walks_back(cluster):
    job_id = cluster.submit(_create("t"))
    while cluster.job(job_id).schema_state != WRITE_ONLY:
        cluster.step()
    assert label_of(cluster).state == WRITE_ONLY
    assert admin.command_now(cluster.store, "cancel", [job_id]) == [(job_id, None)]
    assert cluster.finish(job_id).state == JobState.ROLLBACK_DONE
    assert label_of(cluster) is None


# -- what outside of an element's own files names it -----------------------------------------------

SOURCE = Path(state_machine.__file__).parents[1]
MACHINERY = (
    "action",
    "apply",
    "decision",
    "effects",
    "explain",
    "facts",
    "follow",
    "queue",
    "runs",
    "snapshot",
    "state_machine",
    "worker",
)
OUTSIDE = (
    4  # docs/adding-a-schema-change.md: the list of actions, its code, its syntax, its builder
)


def test_the_machinery_knows_no_action():
    """None of these files imports a file of an action, nor compares with a code."""
    for name in MACHINERY:
        tree = ast.parse((SOURCE / "ddl" / f"{name}.py").read_text())
        imports = [n for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and n.module]
        assert not [n.module for n in imports if n.module.startswith("exuvia.ddl.actions.")], name
        codes = [n for n in ast.walk(tree) if ast.unparse(n).startswith("ActionCode.")]
        assert not codes, name


def test_an_action_s_code_is_named_in_few_other_files():
    """Besides its own file: its number, and a builder that chooses among codes."""
    texts = {
        path.relative_to(SOURCE).as_posix(): path.read_text()
        for path in SOURCE.rglob("*.py")
        if not path.is_relative_to(SOURCE / "ddl/actions")
    }
    for code in ActionCode:
        named = [path for path, text in texts.items() if f"ActionCode.{code.name}" in text]
        assert "ddl/job.py" in named and len(named) <= OUTSIDE - 1, (code, named)
