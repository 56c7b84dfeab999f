"""EXUVIA_CHANGE_LOG = ON | OFF: each commit that changes rows of the table leaves a record of what
was there before (kv/change_log.py).

    on      absent -> write only     who plans with it writes it
            write only -> public     everybody who writes does (law 1): it is complete from here on
    off     public -> write only     nobody reads it any more
            write only -> absent     its range is left to be emptied

A log that is switched on again has a number of its own, so emptying the former one harms nothing.

While it is on, what would take rows away, move them or write them anew without a record is refused:
TRUNCATE, MODIFY that rewrites rows, another clustered primary key, and all changes of partitions
but ADD. (SQL Server refuses
TRUNCATE of a table under change data capture likewise, 4711.) DROP TABLE takes the log along.
"""

from typing import NamedTuple

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import ErrUnsupportedDDLOperation
from exuvia.catalog.convert.type_change import ChangeKind
from exuvia.catalog.model import SchemaState, evolve
from exuvia.ddl.action import Action, Element, Step, load
from exuvia.ddl.actions.modify_column import modification_of
from exuvia.ddl.actions.shared import table_is_missing
from exuvia.ddl.decision import CatalogSnapshot, DeleteRange
from exuvia.ddl.elements import the_table
from exuvia.ddl.job import ActionCode, Job, arguments
from exuvia.kv import keys

ABSENT, WRITE_ONLY, PUBLIC = SchemaState.ABSENT, SchemaState.WRITE_ONLY, SchemaState.PUBLIC


class ChangeLogArgs(NamedTuple):
    """What EXUVIA_CHANGE_LOG = ON | OFF is asked."""

    on: bool


def _move(job: Job, snapshot: CatalogSnapshot, state: SchemaState) -> CatalogSnapshot:
    return evolve(snapshot, table=evolve(the_table(snapshot), exuvia_change_log=state))


def _number_it(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    table = the_table(snapshot)
    log_id = table.exuvia_change_log_id + 1
    return job, evolve(snapshot, table=evolve(table, exuvia_change_log_id=log_id))


def _stands_so(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """An earlier job has done it."""
    wanted = PUBLIC if arguments(job, ChangeLogArgs).on else ABSENT
    table = the_table(snapshot)
    if table.exuvia_change_log != wanted:
        return None
    stands = "on" if wanted == PUBLIC else "off"
    return ErrUnsupportedDDLOperation.with_text(
        f"the change log of table '{table.name.O}' is {stands} already"
    )


def _records(job: Job, snapshot: CatalogSnapshot) -> tuple[DeleteRange, ...]:
    table = the_table(snapshot)
    return tuple(
        DeleteRange(each, keys.span_of(keys.log_prefix(each, table.exuvia_change_log_id)))
        for each in table.physical_ids
    )


_LOG = Element("change log", follows_rows=False, move=_move)
_REFUSES = (table_is_missing, _stands_so)

OFF = load(
    Action(
        "exuvia change log",
        ActionCode.EXUVIA_CHANGE_LOG,
        _LOG,
        path=(Step(PUBLIC, WRITE_ONLY), Step(WRITE_ONLY, ABSENT, leaves=_records)),
        refuses=_REFUSES,
    )
)
ON = load(
    Action(
        "exuvia change log",
        ActionCode.EXUVIA_CHANGE_LOG,
        _LOG,
        path=(Step(ABSENT, WRITE_ONLY, edit=_number_it), Step(WRITE_ONLY, PUBLIC)),
        refuses=_REFUSES,
        undo=OFF,
    )
)


def _asked(job: Job) -> Action:
    return ON if arguments(job, ChangeLogArgs).on else OFF


ACTIONS = (ON._replace(choose=_asked),)


# -- what is refused while it is on ----------------------------------------------------------------

_WITHOUT_RECORDS = frozenset(
    {
        ActionCode.TRUNCATE_TABLE,
        ActionCode.DROP_PARTITION,
        ActionCode.TRUNCATE_PARTITION,
        ActionCode.EXCHANGE_PARTITION,
        ActionCode.REORGANIZE_PARTITION,
        ActionCode.PARTITION_BY,
        ActionCode.REMOVE_PARTITIONING,
        ActionCode.EXUVIA_IMPORT_INTO,
        ActionCode.EXUVIA_CHANGE_PRIMARY_KEY,
    }
)


def log_would_miss(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """8200 for a change of rows that leaves no records, of a table whose log is on."""
    rewrites = job.type == ActionCode.MODIFY_COLUMN and modification_of(job).kind == ChangeKind.ROWS
    if not (rewrites or job.type in _WITHOUT_RECORDS):
        return None
    tables = (*((snapshot.table,) if snapshot.table is not None else ()), *snapshot.others)
    involved = {job.table_id, *job.exuvia_tables}
    for table in tables:
        if table.id in involved and table.exuvia_change_log != ABSENT:
            return ErrUnsupportedDDLOperation.with_text(
                f"table '{table.name.O}' has a change log, which would miss what this changes; "
                f"ALTER TABLE {table.name.O} EXUVIA_CHANGE_LOG = OFF first"
            )
    return None
