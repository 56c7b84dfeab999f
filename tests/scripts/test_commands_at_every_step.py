"""CANCEL, PAUSE, RESUME and ALTER of a job of every action, asked at every step it stands at.

    CANCELLABLE   the states in which TiDB turns the action back; in these a pause is taken too
    any other     8226 and 8260; 8225 once it is done, 8224 once it is in history

The answers are asked for in transactions that are rolled back, so one walk shows all of them. What
a command that was taken does is in test_actions_under_accidents.py and test_paused_actions.py.
"""

import random

import pytest

from exuvia.base.errors import Refused
from exuvia.catalog.model import STATE_TEXT
from exuvia.ddl import admin, multi_schema_change
from exuvia.ddl.job import ACTION_TEXT, JOB_STATE_TEXT, JobState
from exuvia.node.assemble import JUDGE
from exuvia.pipeline.phase_runner import PhaseRunner
from exuvia.pipeline.settings import Own
from support.script_actions import OF_COLUMNS_KEPT, SEVERAL
from support.scripts import ASKED, ROWS, Traffic
from support.small_cluster import SmallCluster

PREPARED = ASKED | {label: each[:2] for label, each in SEVERAL.items()}
_WRITES = "delete only, write only"
_FILLS = f"{_WRITES}, write reorganization"
_OBEYS = "write only, write reorganization"
CANCELLABLE = {  # besides the moment before the first step
    "add column": _FILLS,
    "add index": _FILLS,
    "add primary key": _FILLS,
    "modify column, checked": _OBEYS,
    "modify column, not null": _OBEYS,
    **dict.fromkeys(
        (f"modify column, {each}" for each in ("indexes", "rows", "moved", "partitions")), _FILLS
    ),
    **dict.fromkeys(OF_COLUMNS_KEPT, _FILLS),
    "exuvia end undo, modify": "",
    "add check constraint": _OBEYS,
    "alter check constraint": _OBEYS,
    "alter check constraint, not enforced": "",
    "add foreign key": _FILLS,
    "create table, with a key": "delete only",
    "add partition": "replica only",
    "truncate partition": "write only",
    "exuvia import into": "write only",
    "exuvia change log": "write only",
    "exuvia change primary key": f"{_FILLS}, delete reorganization",
    "exuvia undo": "write reorganization",
    "exuvia undo, column": "write reorganization",
    "exuvia undo, rows": _OBEYS,
    "exuvia undo, rows that meet": _OBEYS,
    "exuvia undo, partitions": _OBEYS,
    "exchange partition": f"{_OBEYS}, delete reorganization",
    "alter table reorganize partition": f"{_FILLS}, delete reorganization",
    "alter table partition by": f"{_FILLS}, delete reorganization",
    "alter table remove partitioning": f"{_FILLS}, delete reorganization",
}
ALTERABLE = (
    "add column, stored",
    "add column, numbered",
    "exuvia import into",
    "exuvia change primary key",
    "add index",
    "add primary key",
    "alter table re",
    "alter table partition by",
    "modify column",
)
NOT_ALTERABLE = "Supported DDL operations are: ADD INDEX, MODIFY COLUMN, and ALTER TABLE REORGANIZE"


class Asked(SmallCluster):
    """Answers of all commands for the job as it stands, and none of it done."""

    def answers(self, job_id):
        found = []
        for kind in ("cancel", "pause", "resume"):
            txn = self.store.begin()
            ((_, error),) = admin.command(txn, kind, [job_id])
            txn.rollback()
            found.append("successful" if error is None else f"{error.code} {error.message}")
        return (*found, self._altered(job_id))

    def _altered(self, job_id):
        txn = self.store.begin()
        try:
            admin.alter(txn, job_id, Own(concurrency=2))
        except Refused as error:
            return f"{error.code} {error.message}"
        finally:
            txn.rollback()
        return "successful"


def production(store):
    return lambda *order: PhaseRunner(store, *order, None, JUDGE)


def turns_back(label, job):
    """Whether TiDB's operators may still end it."""
    if not job.begun:
        return True
    if job.multi_schema_info:
        return job.multi_schema_info.revertible
    states = CANCELLABLE.get(label, CANCELLABLE.get(label.split(",")[0], ""))
    stands = STATE_TEXT[job.schema_state]
    return not job.exuvia_tail and stands in states.split(", ")


def wanted(label, job):
    """The answers as TiDB words them."""
    number, state, schema = job.id, JOB_STATE_TEXT[job.state], STATE_TEXT[job.schema_state]
    turns = turns_back(label, job)
    if job.state == JobState.DONE:
        cancel, turns = f"8225 This job:{number} is finished, so can't be cancelled", False
    elif turns:
        cancel = "successful"
    else:
        cancel = f"8226 This job:{number} is almost finished, can't be cancelled now"
    where = f"state [{state}] or schema state [{schema}]"
    pause = "successful" if turns else f"8260 Job [{number}] can't be paused: {where}"
    stands = f"job state:{state}, schema state:{schema}"
    resume = f"8261 Job [{number}] can't be resumed: job has not been paused, {stands}"
    return cancel, pause, resume


def may_be_altered(label, job):
    """Whether rows are read or written in many batches by it."""
    if job.multi_schema_info:
        of_several = (*ALTERABLE, "add check constraint")
        return any(
            ACTION_TEXT[each.type].startswith(of_several)
            for each in multi_schema_change.stored(job)
        )
    return label.startswith(ALTERABLE) and label != "modify column"


@pytest.mark.parametrize("label", PREPARED)
def test_what_operators_are_told_at_each_step(label):
    cluster = Asked(reorgs=production)
    prepare, request = PREPARED[label]
    prepare(cluster)
    Traffic(cluster.store, "t", random.Random(1)).fill(ROWS)
    job_id, stood = cluster.submit(request(cluster)), set()
    while not (job := cluster.job(job_id)).in_history:
        *answers, altered = cluster.answers(job_id)
        assert tuple(answers) == wanted(label, job), job.describe()
        if may_be_altered(label, job):
            assert altered == "successful"
        else:
            said = f"1105 unsupported DDL operation: {job.action_text}. {NOT_ALTERABLE}"
            assert altered.startswith(said)
        stood.add((job.begun, job.state, job.schema_state))
        cluster.step()
    assert len(stood) >= 2 and job.state == JobState.SYNCED
    gone = f"8224 DDL Job:{job_id} not found"
    assert cluster.answers(job_id) == (gone, gone, gone, f"1105 ddl job {job_id} is not running")
