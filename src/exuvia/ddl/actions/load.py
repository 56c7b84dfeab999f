"""CREATE TABLE ... SELECT: nobody sees the table before every row is in it.

    absent -> write only     its name is taken and its rows have a place; clients get 1146
    write only -> public     once its session has loaded all rows (sql/session/create_select.py)
        =fill, verify=>      and the pipeline has made the entries of all indexes, and compared them

Undo is DROP TABLE, entered at the state reached: when the query fails, when the job is cancelled,
or when the member whose session loads is gone. What was loaded is left to be emptied; the reorg's
epoch moved, so a session that wakes up late writes nothing more (law 2): every write of the load
requires that epoch, and so does `finish_load`, which says that all rows are there.
"""

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import ErrUnknown
from exuvia.base.waits import ROWS_OF_QUERY
from exuvia.catalog.model import SchemaState
from exuvia.cluster.member import Member
from exuvia.ddl.action import Action, Step, load
from exuvia.ddl.actions.foreign_key import with_keys
from exuvia.ddl.actions.shared import database_is_missing, table_name_is_taken
from exuvia.ddl.actions.table import CREATE_TABLE, DROP_TABLE, place_table, table_created
from exuvia.ddl.decision import CatalogSnapshot, ReadSet, StepWait
from exuvia.ddl.elements import TABLE, the_table
from exuvia.ddl.job import ActionCode, Job
from exuvia.kv import keys
from exuvia.kv.transaction import Transaction
from exuvia.pipeline import reorg

ABSENT, WRITE_ONLY, PUBLIC = SchemaState.ABSENT, SchemaState.WRITE_ONLY, SchemaState.PUBLIC


def loader_of(job: Job) -> str:
    """The member whose session loads the rows; "" for a plain CREATE TABLE."""
    further = job.raw_args[1] if len(job.raw_args) > 1 else None
    return str(further.get("loader", "")) if isinstance(further, dict) else ""


def looks_at_its_loader(job: Job) -> ReadSet:
    """Whether it lives, and whether it is done."""
    return ReadSet(loader=loader_of(job), own_name="table")


def rows_are_loaded(job: Job, snapshot: CatalogSnapshot) -> Refused | StepWait | None:
    """Every row is in the table, or will never be; then every entry (law 9)."""
    if snapshot.failure is not None:
        return snapshot.failure
    if not snapshot.is_loaded:
        if not snapshot.loader_lives:
            return ErrUnknown("the node that ran the query of CREATE TABLE is gone")
        return StepWait(ROWS_OF_QUERY())
    indexes = tuple(each.id for each in the_table(snapshot).indexes if not each.exuvia_clustered)
    if snapshot.table_is_empty or snapshot.filled or not indexes:
        return None
    return StepWait("", reorg.fill_indexes(indexes))


CREATE_LOADED = load(
    Action(
        "create table",
        ActionCode.CREATE_TABLE,
        TABLE,
        reads=looks_at_its_loader,
        refuses=(database_is_missing, table_name_is_taken),
        path=(
            Step(ABSENT, WRITE_ONLY, edit=place_table),
            Step(WRITE_ONLY, PUBLIC, after=rows_are_loaded, event=table_created),
        ),
        undo=DROP_TABLE,
    )
)


def way_of_creating(job: Job) -> Action:
    """The path a CREATE TABLE walks: with rows, with foreign keys, or plain."""
    return CREATE_LOADED if loader_of(job) else with_keys(job)


ACTIONS = (CREATE_TABLE._replace(choose=way_of_creating),)


# -- the session that loads ------------------------------------------------------------------------


def may_load(job: Job) -> bool:
    """Whether the table of the job has a place for its rows."""
    return job.schema_state == SchemaState.WRITE_ONLY


def epoch_of(txn: Transaction, job_id: int) -> int:
    """The reorg's epoch; it moves when the job goes on or back."""
    return keys.read_number(txn.get(keys.meta("reorg", job_id)))


def finish_load(txn: Transaction, member: Member, job_id: int, epoch: int, rows: int) -> None:
    """Say that every row is there. The commit raises Deposed once the job went back."""
    member.guard(txn)
    txn.require_equal(keys.meta("reorg", job_id), keys.number(epoch))
    txn.put(keys.meta("loaded", job_id), keys.number(rows))
    txn.notify("ack")


def is_loaded(txn: Transaction, job_id: int) -> bool:
    """Whether the rows are there."""
    return txn.get(keys.meta("loaded", job_id)) is not None


def forget_load(txn: Transaction, job_id: int) -> None:
    """The job has ended."""
    if is_loaded(txn, job_id):
        txn.delete(keys.meta("loaded", job_id))
