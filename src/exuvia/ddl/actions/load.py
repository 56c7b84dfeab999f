"""CREATE TABLE ... SELECT: clients do not see the table before every row is in it.

    absent -> write only     its name is in use and its rows can be loaded; clients get 1146
    write only -> public     once its session has loaded all rows (sql/session/create_select.py)
        =fill, verify=>      and the pipeline has filled and compared all indexes

Undo is DROP TABLE, entered at the state reached. It runs when the query fails, when the job is
cancelled, or when the member whose session loads is gone. The loaded rows will be emptied. The
reorg's epoch moves, so a session that wakes up late writes nothing more (law 2). Every write of the
load requires that epoch, and so does `finish_load`, which stores that all rows are loaded.
"""

from typing import ClassVar

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import ErrUnknown
from exuvia.base.waits import ROWS_OF_QUERY
from exuvia.catalog.model import SchemaState
from exuvia.cluster import member as members
from exuvia.cluster.member import Member
from exuvia.ddl.action import Action, Step, load
from exuvia.ddl.actions.foreign_key import with_keys
from exuvia.ddl.actions.shared import database_is_missing, own_table_name, table_name_is_taken
from exuvia.ddl.actions.table import CREATE_TABLE, DROP_TABLE, place_table, table_created
from exuvia.ddl.decision import StepWait
from exuvia.ddl.elements import TABLE, the_table
from exuvia.ddl.job import ActionCode, Job
from exuvia.ddl.snapshot import CatalogSnapshot, Fact, FactReader, ReadSet
from exuvia.kv import keys
from exuvia.kv.transaction import Transaction
from exuvia.pipeline import reorg

ABSENT, WRITE_ONLY, PUBLIC = SchemaState.ABSENT, SchemaState.WRITE_ONLY, SchemaState.PUBLIC


def loader_of(job: Job) -> str:
    """The member whose session loads the rows; "" for a plain CREATE TABLE."""
    further = job.raw_args[1] if len(job.raw_args) > 1 else None
    return str(further.get("loader", "")) if isinstance(further, dict) else ""


class LoaderLives(Fact[bool], frozen=True):
    """Whether the member whose session loads rows has not been fenced."""

    assumed: ClassVar[bool] = False
    member: str

    def read(self, source: FactReader) -> bool:
        return members.find(source.txn, self.member) is not None


class IsLoaded(Fact[bool], frozen=True):
    """Whether all rows of the job's table are loaded."""

    assumed: ClassVar[bool] = False
    job_id: int

    def read(self, source: FactReader) -> bool:
        return is_loaded(source.txn, self.job_id)


def reads_loader(job: Job) -> ReadSet:
    """Reads whether the loader lives, and whether it has finished."""
    return ReadSet(facts=(own_table_name(job), LoaderLives(loader_of(job)), IsLoaded(job.id)))


def rows_are_loaded(job: Job, snapshot: CatalogSnapshot) -> Refused | StepWait | None:
    """A wait until every row is loaded and every entry filled (law 9); an error without the
    loader."""
    if not snapshot.fact(IsLoaded(job.id)):
        if not snapshot.fact(LoaderLives(loader_of(job))):
            return ErrUnknown("the node that ran the query of CREATE TABLE is gone")
        return StepWait(ROWS_OF_QUERY())
    indexes = tuple(index.id for index in the_table(snapshot).indexes if not index.exuvia_clustered)
    if snapshot.table_is_empty or snapshot.reorg.filled or not indexes:
        return None
    return StepWait("", reorg.fill_indexes(indexes))


CREATE_LOADED = load(
    Action(
        ActionCode.CREATE_TABLE,
        TABLE,
        reads=reads_loader,
        refuses=(database_is_missing, table_name_is_taken),
        path=(
            Step(ABSENT, WRITE_ONLY, edit=place_table),
            Step(WRITE_ONLY, PUBLIC, after=rows_are_loaded, event=table_created),
        ),
        undo=DROP_TABLE,
    )
)


def action_of_create(job: Job) -> Action:
    """The action of a CREATE TABLE: with rows, with foreign keys, or plain."""
    return CREATE_LOADED if loader_of(job) else with_keys(job)


ACTIONS = (CREATE_TABLE._replace(choose=action_of_create),)


# -- the session that loads ------------------------------------------------------------------------


def may_load(job: Job) -> bool:
    """Whether rows of the job's table can be loaded."""
    return job.schema_state == SchemaState.WRITE_ONLY


def epoch_of(txn: Transaction, job_id: int) -> int:
    """The reorg's epoch; it moves when the job continues or rolls back."""
    return keys.read_number(txn.get(keys.meta("reorg", job_id)))


def finish_load(txn: Transaction, member: Member, job_id: int, epoch: int, rows: int) -> None:
    """Store that every row is loaded. The commit raises Deposed once the job was rolled back."""
    member.guard(txn)
    txn.require_equal(keys.meta("reorg", job_id), keys.number(epoch))
    txn.put(keys.meta("loaded", job_id), keys.number(rows))
    txn.notify("ack")


def is_loaded(txn: Transaction, job_id: int) -> bool:
    """Whether all rows are loaded."""
    return txn.get(keys.meta("loaded", job_id)) is not None
