"""Finds rows that violate a change, in one snapshot, before the job is submitted.

    a column checked against a type   runs of its values -> Offenders -> one error, all rows counted
    a column rewritten,               the same, for rules on existing columns, and only for tables
    UNIQUE, PRIMARY KEY, CHECK        with at most exuvia_preflight_rows rows: for larger tables the
                                      reorg of the job finds the rows and raises the same error

Nothing is written. The purpose is an early and complete error. Later rows are checked by writers,
from the first step of the job on, and by the job.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import pyarrow.compute as pc

from exuvia.base.errors import Refused
from exuvia.base.limits import SPAN_ROWS
from exuvia.base.mysql_errors import ErrTruncatedWrongValue
from exuvia.base.types import Family, Value
from exuvia.catalog import meta
from exuvia.catalog.codec import row_batch
from exuvia.catalog.convert.type_change import ChangeKind, ColumnChange, converter
from exuvia.catalog.model import (
    ColumnInfo,
    DatabaseInfo,
    IndexInfo,
    SchemaState,
    TableInfo,
    evolve,
)
from exuvia.catalog.rules import FOREIGN_KEY
from exuvia.catalog.sysvar import variables
from exuvia.catalog.table import Table
from exuvia.ddl.action import Judged
from exuvia.ddl.actions import kind_of
from exuvia.ddl.actions.check import check_to_obey
from exuvia.ddl.actions.index import indexes_of
from exuvia.ddl.actions.modify_column import Modification
from exuvia.ddl.job import Job
from exuvia.kv.packet import RawRun
from exuvia.pipeline.kernels.entries import CHUNK_ROWS, runs_of
from exuvia.pipeline.kernels.rewrite import Offenders, offending
from exuvia.pipeline.reorg import TableRule
from exuvia.pipeline.verify import judge, rules
from exuvia.sql.schema.change import AlterContext, SchemaReader
from exuvia.sql.write import checks_judge

# -- a change of a column --------------------------------------------------------------------------


def check_rows(at: AlterContext, old: ColumnInfo, modification: Modification) -> None:
    """Raises the error of the first row that does not fit, with all such rows counted and listed.

    Without a strict sql_mode only NULL is refused. Other values, and digits that a DECIMAL loses,
    give one warning for all rows. A strict rewrite of a large table is not checked here, because it
    converts every value anyway."""
    table = _table(at)
    most = _most_rows(at) if modification.strict else SPAN_ROWS
    if modification.kind == ChangeKind.ROWS and _rows(at, table) > most:
        return
    place = table.position(old.name.L)
    new = modification.column.type
    change = ColumnChange(
        place,
        place,
        converter(
            old.type, new, old.name.O, lenient=not modification.strict, moments=modification.moments
        ),
        new.not_null and not old.not_null,
        modification.column.name.O,
        modification.null_value,
        old.type,
        new,
        next((n for n, c in enumerate(at.table.cols) if c.id == modification.kept_column), -1),
    )
    offenders = Offenders(table, change)
    warned = [
        Offenders(table, warned_change) for warned_change in _warning_changes(change, modification)
    ]
    for run in _runs(at, table):
        for scan in (offenders, *warned):
            scan.look(run, at.txn.snapshot.skip)
    if offenders.error is not None:
        raise offending(offenders.error, offenders.number, offenders.first)
    for scan in warned:
        if scan.error is not None:
            at.warn(scan.error.code, _combined_warning(scan.error.message, scan.number))


def _warning_changes(change: ColumnChange, modification: Modification) -> list[ColumnChange]:
    """Changes that refuse the values for which this one only warns."""
    old, new = modification.old_type, modification.column.type
    strict = converter(old, new, modification.old_column_name, moments=modification.moments)
    plain = change._replace(not_null=False)
    loses = old.family == new.family == Family.DECIMAL and new.Decimal < old.Decimal
    rounded = [plain._replace(convert=partial(_exact, change.convert))] if loses else []
    return rounded if modification.strict else [plain._replace(convert=strict), *rounded]


def _exact(convert: Callable[[Value], Value], value: Value) -> Value:
    """The converted number. Raises 1292 for lost digits, but not if it is cut to the range."""
    converted = convert(value)
    if abs(converted - value) < 1 and converted != value:
        raise ErrTruncatedWrongValue("DECIMAL", value)
    return converted


def _combined_warning(message: str, number: int) -> str:
    """One message for all rows with the same warning."""
    if number == 1:
        return message
    return f"{number} warnings with this error code, first warning: {message}"


def ends_in_spaces(at: AlterContext, old: ColumnInfo) -> bool:
    """Whether some value of a text column ends in a space, which CHAR does not keep."""
    table = _table(at)
    place = table.position(old.name.L)
    for run in _runs(at, table):
        values = row_batch.decode(table, [], run, at.txn.snapshot.skip, [place]).column(place)
        if pc.any(pc.ends_with(values.values, " ")).as_py():
            return True
    return False


def _table(at: AlterContext) -> Table:
    return at.reader.schemas.table(at.txn, at.database.db_name.O, at.table.name.O)


def _runs(at: AlterContext, table: Table) -> Iterator[RawRun]:
    for part in table.parts:
        for run in runs_of(at.txn.snapshot, part.row_span()):
            at.reader.check_interrupt()
            yield run


# -- rules -----------------------------------------------------------------------------------------


def check_rules(at: AlterContext, parts: Sequence[Job]) -> None:
    """Raises 1062, 1138 or 3819 for the first violated rule, with all its rows counted."""
    table = at.reader.schemas.table(at.txn, at.database.db_name.O, at.table.name.O)
    if _rows(at, table) > _most_rows(at):
        return
    for part in parts:
        _LOOKS[kind_of(part).judged](at, table, part)


def _rows(at: AlterContext, table: Table) -> int:
    return sum(at.reader.count(part.row_span()) for part in table.parts)


def _most_rows(at: AlterContext) -> int:
    return variables.read_int(at.txn, "exuvia_preflight_rows")


def _with(table: Table, info: TableInfo) -> Table:
    facts = table.revision, table.database, table.database_revision
    return Table(info, *facts, table.evaluator)


def _check_indexes(at: AlterContext, table: Table, job: Job) -> None:
    for index in indexes_of(job):
        _check_index(at, table, index)


def _check_index(at: AlterContext, table: Table, index: IndexInfo) -> None:
    there = {column.id for column in table.columns}
    if not index.is_unique or any(part.exuvia_column not in there for part in index.idx_cols):
        return  # not if the statement adds one of its columns
    info = table.info
    placed = evolve(index, id=info.max_idx_id + 1, state=SchemaState.ABSENT)
    whole = _with(table, evolve(info, index_info=(*info.indexes, placed)))
    look = judge.DuplicateScan(placed)
    for part in whole.parts:
        look.rows(part, at.txn.snapshot, at.reader.check_interrupt)
    _raise(look.refusal(whole))


def _check_constraint(at: AlterContext, table: Table, job: Job) -> None:
    info, constraint = table.info, check_to_obey(job, table.info)
    there = {column.name.L for column in table.columns}
    if constraint is None or any(column.L not in there for column in constraint.constraint_cols):
        return
    others = tuple(other for other in info.checks if other.id != constraint.id)
    whole = _with(table, evolve(info, constraint_info=(*others, constraint)))
    rule = checks_judge.judge(at.txn, whole, TableRule("check", constraint.id))
    breaches = rules.Breaches(rule, whole)
    for part in whole.parts:
        for keys, raws in at.txn.snapshot.chunks(part.row_span(), CHUNK_ROWS):
            at.reader.check_interrupt()
            breaches.look(keys, raws, at.txn.snapshot.skip)
    if breaches.number:
        _raise(rules.refusal(rule, breaches.number, breaches.first))


def check_children(
    reader: SchemaReader, database: DatabaseInfo, info: TableInfo, link: int
) -> None:
    """Raises 1452 for the rows of a table whose parents of this foreign key do not exist."""
    txn = reader.txn
    table = Table(info, meta.revision(txn, info.id), database, 0)
    rule = checks_judge.judge(txn, table, TableRule(FOREIGN_KEY, link))
    breaches = rules.Breaches(rule, table)
    for keys, raws in txn.snapshot.chunks(table.row_span(), CHUNK_ROWS):
        reader.check_interrupt()
        breaches.look(keys, raws, txn.snapshot.skip)
    if breaches.number:
        _raise(rules.refusal(rule, breaches.number, breaches.first))


def _raise(error: Refused | None) -> None:
    if error is not None:
        raise error


_LOOKS: dict[Judged, Callable[[AlterContext, Table, Job], None]] = {
    Judged.INDEXES: _check_indexes,
    Judged.CHECK: _check_constraint,
}
