"""The rows that a change would refuse, found in one snapshot before there is a job.

    a column held to a type   runs of its values -> Offenders -> the refusal, all of them counted
    a column rewritten,       likewise; each rule on columns that are there; only of tables with at
    UNIQUE, PRIMARY KEY,      most exuvia_preflight_rows rows: with others the job's own reorg
    CHECK                     finds, counts and lists the same, in the same words

Nothing is written. It is for the early and whole answer only: rows that come later are judged by
the job, under the duty that its first step gives to writers.
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


def check_rows(at: AlterContext, old: ColumnInfo, found: Modification) -> None:
    """Raises what the first row that does not fit meets, with all of them counted and listed.

    Without a strict sql_mode only a NULL is refused: the others are warned of, all as one, as are
    digits that a DECIMAL loses. A strict rewrite of a large table converts every value anyway: then
    nobody looks twice."""
    table = _table(at)
    most = _most_rows(at) if found.strict else SPAN_ROWS
    if found.kind == ChangeKind.ROWS and _rows(at, table) > most:
        return
    place = table.position(old.name.L)
    new = found.column.type
    change = ColumnChange(
        place,
        place,
        converter(old.type, new, old.name.O, lenient=not found.strict, moments=found.moments),
        new.not_null and not old.not_null,
        found.column.name.O,
        found.null_value,
        old.type,
        new,
        next((n for n, c in enumerate(at.table.cols) if c.id == found.kept_column), -1),
    )
    seen = Offenders(table, change)
    warned = [Offenders(table, each) for each in _warned_of(change, found)]
    for run in _runs(at, table):
        for each in (seen, *warned):
            each.look(run, at.txn.snapshot.skip)
    if seen.error is not None:
        raise offending(seen.error, seen.number, seen.first)
    for each in warned:
        if each.error is not None:
            at.warn(each.error.code, _as_one(each.error.message, each.number))


def _warned_of(change: ColumnChange, found: Modification) -> list[ColumnChange]:
    """Changes that refuse what this one is only warned of."""
    old, new = found.old_type, found.column.type
    strict = converter(old, new, found.old_column_name, moments=found.moments)
    plain = change._replace(not_null=False)
    loses = old.family == new.family == Family.DECIMAL and new.Decimal < old.Decimal
    rounded = [plain._replace(convert=partial(_exact, change.convert))] if loses else []
    return rounded if found.strict else [plain._replace(convert=strict), *rounded]


def _exact(convert: Callable[[Value], Value], value: Value) -> Value:
    """Refuses a number that loses digits, but not one that is cut to the type's bounds."""
    found = convert(value)
    if abs(found - value) < 1 and found != value:
        raise ErrTruncatedWrongValue("DECIMAL", value)
    return found


def _as_one(message: str, number: int) -> str:
    """One warning for all rows with the same."""
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
    """Raises 1062, 1138 or 3819 for the first rule that rows break, all of them counted."""
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
    if not index.is_unique or any(each.exuvia_column not in there for each in index.idx_cols):
        return  # without columns that the same statement makes
    info = table.info
    placed = evolve(index, id=info.max_idx_id + 1, state=SchemaState.ABSENT)
    whole = _with(table, evolve(info, index_info=(*info.indexes, placed)))
    look = judge.DuplicateScan(placed)
    for part in whole.parts:
        look.rows(part, at.txn.snapshot, at.reader.check_interrupt)
    _raise(look.refusal(whole))


def _check_constraint(at: AlterContext, table: Table, job: Job) -> None:
    info, wanted = table.info, check_to_obey(job, table.info)
    there = {column.name.L for column in table.columns}
    if wanted is None or any(each.L not in there for each in wanted.constraint_cols):
        return
    others = tuple(each for each in info.checks if each.id != wanted.id)
    whole = _with(table, evolve(info, constraint_info=(*others, wanted)))
    rule = checks_judge.judge(at.txn, whole, TableRule("check", wanted.id))
    found = rules.Breaches(rule, whole)
    for part in whole.parts:
        for keys, raws in at.txn.snapshot.chunks(part.row_span(), CHUNK_ROWS):
            at.reader.check_interrupt()
            found.look(keys, raws, at.txn.snapshot.skip)
    if found.number:
        _raise(rules.refusal(rule, found.number, found.first))


def check_children(
    reader: SchemaReader, database: DatabaseInfo, info: TableInfo, link: int
) -> None:
    """Raises 1452 with the rows of a table whose parents, by that foreign key, are not there."""
    txn = reader.txn
    table = Table(info, meta.revision(txn, info.id), database, 0)
    rule = checks_judge.judge(txn, table, TableRule(FOREIGN_KEY, link))
    found = rules.Breaches(rule, table)
    for keys, raws in txn.snapshot.chunks(table.row_span(), CHUNK_ROWS):
        reader.check_interrupt()
        found.look(keys, raws, txn.snapshot.skip)
    if found.number:
        _raise(rules.refusal(rule, found.number, found.first))


def _raise(error: Refused | None) -> None:
    if error is not None:
        raise error


_LOOKS: dict[Judged, Callable[[AlterContext, Table, Job], None]] = {
    Judged.INDEXES: _check_indexes,
    Judged.CHECK: _check_constraint,
}
