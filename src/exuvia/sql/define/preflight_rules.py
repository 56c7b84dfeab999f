"""The rows that a UNIQUE, a PRIMARY KEY or a CHECK would refuse, found before there is a job.

    the jobs of one ALTER TABLE -> for each rule on columns that are there, a look at one snapshot

Only of tables with at most exuvia_preflight_rows rows: with others the job's
own reorg finds, counts and lists the same, in the same words. Rows that come after the snapshot
are judged by the job in any case.
"""

from collections.abc import Callable, Sequence

from exuvia.base.errors import Refused
from exuvia.catalog import variables
from exuvia.catalog.constraint_info import ConstraintInfo
from exuvia.catalog.model import IndexInfo, TableInfo, evolve
from exuvia.catalog.state import SchemaState
from exuvia.catalog.table import Table
from exuvia.ddl.actions.arguments import indexes_of
from exuvia.ddl.actions.check import wanted_check
from exuvia.ddl.codes import ActionCode
from exuvia.ddl.job import Job
from exuvia.ddl.parts import all_of
from exuvia.pipeline import checking, twice
from exuvia.pipeline.entries import CHUNK_ROWS
from exuvia.pipeline.plans import CheckRows
from exuvia.sql.define.altering import Altering
from exuvia.sql.write import checks_judge


def check_rules(at: Altering, jobs: Sequence[Job]) -> None:
    """Raises 1062, 1138 or 3819 for the first rule that rows break, all of them counted."""
    parts = [part for job in jobs for part in all_of(job) if part.type in _LOOKS]
    table = at.session.services.schemas.table(at.txn, at.database.db_name.O, at.table.name.O)
    if not _is_small(at, table):
        return
    for part in parts:
        _LOOKS[part.type](at, table, part)


def _is_small(at: Altering, table: Table) -> bool:
    rows = sum(at.session.services.store.count(part.row_span()) for part in table.parts)
    return rows <= variables.read_int(at.txn, "exuvia_preflight_rows")


def _with(table: Table, info: TableInfo) -> Table:
    facts = table.revision, table.database, table.database_revision
    return Table(info, *facts, table.evaluator)


def _check_indexes(at: Altering, table: Table, job: Job) -> None:
    for index in indexes_of(job):
        _check_index(at, table, index)


def _check_index(at: Altering, table: Table, index: IndexInfo) -> None:
    there = {column.id for column in table.columns}
    if not index.is_unique or any(each.exuvia_column not in there for each in index.idx_cols):
        return  # without columns that the same statement makes
    info = table.info
    placed = evolve(index, id=info.max_idx_id + 1, state=SchemaState.ABSENT)
    whole = _with(table, evolve(info, index_info=(*info.indexes, placed)))
    for part in whole.parts:
        look = twice.Look(part, placed)
        look.rows(at.txn.snapshot, at.session.check_interrupt)
        _raise(look.refusal())


def _check_constraint(at: Altering, table: Table, job: Job) -> None:
    info, wanted = table.info, _constraint(table, job)
    there = {column.name.L for column in table.columns}
    if wanted is None or any(each.L not in there for each in wanted.constraint_cols):
        return
    others = tuple(each for each in info.checks if each.id != wanted.id)
    whole = _with(table, evolve(info, constraint_info=(*others, wanted)))
    rule = checks_judge.judge(at.txn, whole, CheckRows("check", wanted.id))
    found = checking.Breaches(rule, whole)
    for part in whole.parts:
        for keys, raws in at.txn.snapshot.chunks(part.row_span(), CHUNK_ROWS):
            at.session.check_interrupt()
            found.look(keys, raws)
    if found.number:
        _raise(checking.refusal(rule, found.number, found.first))


def _constraint(table: Table, job: Job) -> ConstraintInfo | None:
    """What rows are to obey from now on; None where the job asks nothing of them."""
    if job.type == ActionCode.ADD_CHECK:
        asked = wanted_check(job)
        return evolve(asked, id=table.info.max_cst_id + 1) if asked.enforced else None
    name, enforced = str(job.raw_args[0]).lower(), bool(job.raw_args[1])
    found = (each for each in table.info.checks if each.constraint_name.L == name)
    return next(found, None) if enforced else None


def _raise(error: Refused | None) -> None:
    if error is not None:
        raise error


_LOOKS: dict[ActionCode, Callable[[Altering, Table, Job], None]] = {
    ActionCode.ADD_INDEX: _check_indexes,
    ActionCode.ADD_PRIMARY_KEY: _check_indexes,
    ActionCode.ADD_CHECK: _check_constraint,
    ActionCode.ALTER_CHECK: _check_constraint,
}
