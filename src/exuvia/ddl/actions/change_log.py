"""EXUVIA_CHANGE_LOG = ON | OFF: commits that change rows of the table store their former values.

    on      absent -> write only     statements planned in this state write the log
            write only -> public     all writers do (law 1): the log is complete from here on
    off     public -> write only     no reader uses it any more
            write only -> absent     its range will be emptied

A log that is switched on again has a new number, so emptying the former one is harmless.

While it is on, changes that remove, move or rewrite rows without a record are refused. They are
TRUNCATE, MODIFY that rewrites rows, another clustered primary key, and all changes of partitions
except ADD.
(SQL Server also refuses TRUNCATE of a table under change data capture, 4711.) DROP TABLE drops the
log too.
"""

from typing import NamedTuple

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import ErrUnsupportedDDLOperation
from exuvia.catalog.model import SchemaState, evolve
from exuvia.ddl.action import Action, Element, JobGuard, Step, leaves, load
from exuvia.ddl.actions.shared import involved_tables, table_is_missing
from exuvia.ddl.delete_ranges import DeleteRange
from exuvia.ddl.elements import the_table
from exuvia.ddl.job import ActionCode, Job, arguments
from exuvia.ddl.snapshot import CatalogSnapshot
from exuvia.kv import keys

ABSENT, WRITE_ONLY, PUBLIC = SchemaState.ABSENT, SchemaState.WRITE_ONLY, SchemaState.PUBLIC


class ChangeLogArgs(NamedTuple):
    """Arguments of EXUVIA_CHANGE_LOG = ON | OFF."""

    on: bool


def _move(job: Job, snapshot: CatalogSnapshot, state: SchemaState) -> CatalogSnapshot:
    return evolve(snapshot, table=evolve(the_table(snapshot), exuvia_change_log=state))


def _allocate_log_id(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    table = the_table(snapshot)
    log_id = table.exuvia_change_log_id + 1
    return job, evolve(snapshot, table=evolve(table, exuvia_change_log_id=log_id))


def _setting_is_unchanged(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """8200 if an earlier job has already made the change."""
    target_state = PUBLIC if arguments(job, ChangeLogArgs).on else ABSENT
    table = the_table(snapshot)
    if table.exuvia_change_log != target_state:
        return None
    setting = "on" if target_state == PUBLIC else "off"
    return ErrUnsupportedDDLOperation.with_text(
        f"the change log of table '{table.name.O}' is {setting} already"
    )


def _records(job: Job, snapshot: CatalogSnapshot) -> tuple[DeleteRange, ...]:
    table = the_table(snapshot)
    return tuple(
        DeleteRange(
            physical_id, keys.span_of(keys.log_prefix(physical_id, table.exuvia_change_log_id))
        )
        for physical_id in table.physical_ids
    )


_LOG = Element("change log", follows_rows=False, move=_move)
_REFUSES = (table_is_missing, _setting_is_unchanged)

OFF = load(
    Action(
        ActionCode.EXUVIA_CHANGE_LOG,
        _LOG,
        path=(Step(PUBLIC, WRITE_ONLY), Step(WRITE_ONLY, ABSENT, causes=(leaves(_records),))),
        refuses=_REFUSES,
    )
)
ON = load(
    Action(
        ActionCode.EXUVIA_CHANGE_LOG,
        _LOG,
        path=(Step(ABSENT, WRITE_ONLY, edit=_allocate_log_id), Step(WRITE_ONLY, PUBLIC)),
        refuses=_REFUSES,
        undo=OFF,
        spares_hidden=True,
        ignores_lock=True,
    )
)


def _action_for(job: Job) -> Action:
    return ON if arguments(job, ChangeLogArgs).on else OFF


ACTIONS = (ON._replace(choose=_action_for),)


# -- refusals while it is on -----------------------------------------------------------------------


def log_would_miss(action: Action, job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """8200 for a change of rows without log records, if the log is on."""
    if action.unlogged is None or not action.unlogged(job):
        return None
    for table in involved_tables(job, snapshot):
        if table.exuvia_change_log != ABSENT:
            return ErrUnsupportedDDLOperation.with_text(
                f"table '{table.name.O}' has a change log, which would miss what this changes; "
                f"ALTER TABLE {table.name.O} EXUVIA_CHANGE_LOG = OFF first"
            )
    return None


GUARDS = (JobGuard(log_would_miss, rank=1),)
