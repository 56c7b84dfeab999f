"""Paths that several actions walk."""

from exuvia.base.errors import Refused
from exuvia.catalog.state import SchemaState
from exuvia.ddl.action import After, Edit, Leave, Publish, Step
from exuvia.ddl.decision import CatalogSnapshot, StepWait
from exuvia.ddl.job import Job
from exuvia.pipeline import reorg

ABSENT, DELETE_ONLY = SchemaState.ABSENT, SchemaState.DELETE_ONLY
WRITE_ONLY, PUBLIC = SchemaState.WRITE_ONLY, SchemaState.PUBLIC
WRITE_REORG = SchemaState.WRITE_REORG


def drop_path(leaves: Leave | None = None, event: Publish | None = None) -> tuple[Step, ...]:
    """DROP of what has a name of its own: no client finds it from the first step on, whoever has
    it may finish, and with the last one it is gone."""
    return (
        Step(PUBLIC, WRITE_ONLY),
        Step(WRITE_ONLY, DELETE_ONLY),
        Step(DELETE_ONLY, ABSENT, leaves=leaves, event=event),
    )


def add_constraint_path(place: Edit, judge: After) -> tuple[Step, ...]:
    """ADD of a rule for rows: who writes obeys it before the rows that stand are judged."""
    return (
        Step(ABSENT, WRITE_ONLY, edit=place),
        Step(WRITE_ONLY, WRITE_REORG),
        Step(WRITE_REORG, PUBLIC, after=judge),
    )


def rows_obey(
    job: Job, snapshot: CatalogSnapshot, kind: str, is_asked: bool
) -> Refused | StepWait | None:
    """Whether the rows that stand obey the job's rule, of that kind (pipeline/verify/rules.py)."""
    if snapshot.failure is not None:
        return snapshot.failure
    if snapshot.table_is_empty or snapshot.filled or not is_asked:
        return None
    (element,) = job.exuvia_elements
    return StepWait("", reorg.check_rows(kind, element))
