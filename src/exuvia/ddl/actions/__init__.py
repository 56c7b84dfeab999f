"""All actions by their codes, and all guards. Each file has the tables of steps of its actions."""

from operator import attrgetter
from types import ModuleType

from exuvia.ddl.action import Action, JobGuard
from exuvia.ddl.actions import (  # noqa: F401 - found below by their tuples
    change_log,
    check,
    column,
    database,
    foreign_key,
    import_into,
    index,
    load,
    modify_column,
    options,
    partition,
    partition_exchange,
    partition_move,
    placement,
    recover,
    rekey,
    rename,
    sequence,
    table,
    truncate,
    ttl,
    undo,
    undo_truncate,
    view,
)
from exuvia.ddl.actions.shared import WAS_NOT_KEPT
from exuvia.ddl.elements import TABLE_IN_PLACE
from exuvia.ddl.job import ActionCode, Job

# the modules imported above, each with the tuples ACTIONS and GUARDS
_FILES = sorted(
    (file for file in tuple(vars().values()) if isinstance(file, ModuleType)),
    key=attrgetter("__name__"),
)
ACTIONS: dict[ActionCode, Action] = {
    action.code: action for file in _FILES for action in getattr(file, "ACTIONS", ())
}
GUARDS: tuple[JobGuard, ...] = tuple(
    sorted(
        (guard for file in _FILES for guard in getattr(file, "GUARDS", ())),
        key=attrgetter("rank"),
    )
)

SEVERAL = Action(
    ActionCode.MULTI_SCHEMA_CHANGE,
    TABLE_IN_PLACE,
    path=(),
    alterable=True,
    mixes=True,
    without_undo=WAS_NOT_KEPT,
)


def kind_of(job: Job) -> Action:
    """The action of the job's code, for properties common to all its paths; SEVERAL for
    sub-jobs."""
    return ACTIONS.get(job.type, SEVERAL)


def is_reorg(job: Job) -> bool:
    """Whether the job reads or writes many rows, and so needs a reorg worker."""
    return job.reorg_meta is not None or kind_of(job).reorg


def action_of(job: Job) -> Action:
    """The job's action: its code's, or the one of several paths that its arguments choose."""
    action = ACTIONS[job.type]
    return action.choose(job) if action.choose else action
