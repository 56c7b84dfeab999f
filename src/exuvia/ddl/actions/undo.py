"""UNDO: a finished DROP INDEX or DROP COLUMN is taken back within `exuvia_undo_s`. What a MODIFY
left for it (modify_column.py) ends as a dropped column does.

    drop, kept     public -> write only       the job ends here: hidden under a name of its own,
                                              clients have the former name; writers go on with it
    undo           write only -> write reorganization =compare=> public
    end of undo    write only -> delete only -> delete reorganization -> absent, emptied later

Hidden it is what any element in that state is, so nobody has a new duty. No writer has left
WRITE_ONLY since the drop, so an index is complete, and is only compared with the table before it is
public (law 9); an update keeps what a row holds in a hidden column. A row that is inserted
meanwhile has the column's constant default in it, else NULL, or the zero of its type if it is NOT
NULL.

What would refuse writers for reasons that clients cannot see is not hidden. A unique index (1062)
and a multi-valued one (3903, 3752, 1235, ...) go as ever; the definition is kept, and UNDO is an
ADD INDEX. Another index on expressions, and a column that is generated, counts, or has a UNIQUE or
a CHECK of its own, cannot be taken back.

Each kept element has a record (ddl/kept.py), put by the transaction that hides it and removed by
the one that shows it or takes it away. Its end is a job of its own: whichever of UNDO and that job
is older comes first, and the other finds nothing (law 3: the clock says when the end is asked for).

    meanwhile                                           the table may be changed by what
    UNDO_SURVIVES      goes on beside a kept element    leaves hidden elements as they are
    a DROP or MODIFY of a column that a hidden index is on, or whose former values are kept, and
    what else                                                8200 with the job that is in the way

RECOVER TABLE and TRUNCATE begin another life of the table, in which nobody has written what was
hidden: it is left out (`elements.without_hidden`).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import (
    ErrDupFieldName,
    ErrDupKeyName,
    ErrInfoSchemaChanged,
    ErrUnknown,
    ErrUnsupportedDDLOperation,
)
from exuvia.catalog.convert.type_change import former_of
from exuvia.catalog.model import (
    ColumnInfo,
    DatabaseInfo,
    IndexInfo,
    SchemaState,
    TableInfo,
    evolve,
    name,
)
from exuvia.ddl.action import Action, Element, Step, load
from exuvia.ddl.actions.column import (
    DROP_COLUMN,
    DropColumnArgs,
    column_dropped,
    find_column,
    move_column,
    ranges_of_its_indexes,
)
from exuvia.ddl.actions.index import (
    DROP_INDEX,
    find_indexes,
    index_added,
    index_ranges,
    index_tombstones,
)
from exuvia.ddl.actions.modify_column import modification_of
from exuvia.ddl.actions.rekey import is_same_key, primary_key
from exuvia.ddl.actions.shared import (
    PRIVATE,
    WAS_NOT_KEPT,
    kept_until,
    noted,
    private_name,
    stood_before,
    table_is_missing,
)
from exuvia.ddl.decision import CatalogSnapshot, DeleteRange, JobEvent, Kept, StepWait
from exuvia.ddl.elements import (
    INDEX,
    hidden_columns_of,
    indexes_on_only,
    the_table,
    without_hidden,
)
from exuvia.ddl.job import ActionCode, Job, arguments, job_for
from exuvia.pipeline import reorg

ABSENT, DELETE_ONLY, WRITE_ONLY = (
    SchemaState.ABSENT,
    SchemaState.DELETE_ONLY,
    SchemaState.WRITE_ONLY,
)
WRITE_REORG, DELETE_REORG, PUBLIC = (
    SchemaState.WRITE_REORG,
    SchemaState.DELETE_REORG,
    SchemaState.PUBLIC,
)


# -- what can be kept ------------------------------------------------------------------------------


def why_no_index(table: TableInfo, index: IndexInfo) -> str:
    """Why a DROP of that index cannot be taken back; "" if it can."""
    if index.is_global:
        return "it is global: partitions may come and go meanwhile"
    if hidden_columns_of(table, (index.id,)) and not index.is_multi_valued:
        return "it is on expressions, whose columns may be renamed meanwhile"
    if index.is_unique and index.is_partial:
        return "it is unique and partial: the columns of its predicate may be changed meanwhile"
    return ""


def refuses_writers(index: IndexInfo) -> bool:
    """Whether a write may fail because of the index: then only its definition is kept."""
    return index.is_unique or index.is_multi_valued


def why_no_column(table: TableInfo, column: ColumnInfo) -> str:
    """Why a DROP of that column cannot be taken back; "" if it can."""
    if column.is_generated:
        return "it is generated"
    if column.auto_increment:
        return "it counts"
    alone = indexes_on_only(table, column.id)
    if any(each.is_unique for each in table.indexes if each.id in alone):
        return "it has a unique index, which would refuse rows whose values nobody gave"
    if any({each.L for each in check.constraint_cols} == {column.name.L} for check in table.checks):
        return "it has a CHECK, which rows inserted meanwhile might break"
    return ""


def why_no_rows(table: TableInfo) -> str:
    """Why a TRUNCATE of that table cannot be taken back; "" if it can."""
    if table.foreign_keys or table.exuvia_referred:
        return "foreign keys join it with other tables, whose rows may go meanwhile"
    if any(index.is_partial for index in table.indexes):
        return "it has a partial index, with which rows cannot be moved"
    if table.global_indexes:
        return "it has a global index, which the rows that come back would not be in"
    return ""


# -- asking ----------------------------------------------------------------------------------------


class UndoArgs(NamedTuple):
    """What UNDO and the end of a window are asked: the record, and the name to be given; for rows
    of partitions, who finds a row's (pipeline/kernels/move.py)."""

    kept: Kept
    name: str
    router: str = ""


def undo(
    database: DatabaseInfo,
    table: TableInfo,
    kept: Kept,
    new_name: str,
    router: str = "",
    *,
    query: str = "",
) -> Job:
    """UNDO of a drop whose element is hidden, or of a TRUNCATE."""
    asked = UndoArgs(kept, new_name, router)
    job = job_for(ActionCode.EXUVIA_UNDO, database, table, asked, query)
    return evolve(job, exuvia_elements=kept.elements)


def end_undo(database: DatabaseInfo, table: TableInfo, kept: Kept, *, query: str = "") -> Job:
    """What is hidden goes."""
    asked = UndoArgs(kept, kept.name)
    job = job_for(ActionCode.EXUVIA_END_UNDO, database, table, asked, query)
    return evolve(job, exuvia_elements=kept.elements)


def kept_of(job: Job) -> Kept:
    return arguments(job, UndoArgs).kept


def drop_job(job: Job) -> int:
    """The job that is taken back, or can be no more."""
    return kept_of(job).job_id


# -- refusals --------------------------------------------------------------------------------------


def it_can_be_kept_no_more(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """8028: what stands under the name now is something else than when the statement looked."""
    table = the_table(snapshot)
    if job.type == ActionCode.DROP_COLUMN:
        column = table.column(arguments(job, DropColumnArgs).name)
        fits = column is None or not why_no_column(table, column)
    else:
        found = map(table.index, arguments(job, tuple[str, ...]))
        fits = not any(refuses_writers(i) or why_no_index(table, i) for i in found if i is not None)
    return None if fits else ErrInfoSchemaChanged()


def nothing_is_hidden(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """1105: the window has ended, or it was taken back before."""
    if _hidden_states(the_table(snapshot), kept_of(job)) == {WRITE_ONLY}:
        return None
    return ErrUnknown(f"ddl job {drop_job(job)} cannot be undone: nothing of it is kept any more")


def _hidden_states(table: TableInfo, kept: Kept) -> set[SchemaState]:
    if kept.kind == "index":
        found = {each.id: each.state for each in table.indexes}
    else:
        found = {each.id: each.state for each in table.cols}
    return {found.get(each, ABSENT) for each in kept.elements}


def is_hidden(table: TableInfo, kept: Kept) -> bool:
    """Whether the record's elements are still in the table, and no client sees them."""
    if kept.kind == "table":
        return True  # nobody else takes what lies under the old id
    return bool(kept.elements) and not _hidden_states(table, kept) & {ABSENT, PUBLIC}


def stands_again(table: TableInfo, kept: Kept) -> bool:
    """Whether there is an index, under whatever name, that is what was dropped; or another primary
    key than the change left, that of before or a third."""
    if kept.kind == "key":
        return not is_same_key(primary_key(table), kept.key)
    wanted = kept.definition
    if wanted is None:
        return False
    parts = _meant(wanted, kept.hidden, dict(kept.reads))
    ids = {column.name.L: column.id for column in table.cols}
    return any(
        index.is_unique == wanted.is_unique and _meant(index, table.cols, ids) == parts
        for index in table.indexes
    )


_QUOTED = re.compile("`((?:[^`]|``)+)`")


def _meant(
    index: IndexInfo, columns: Sequence[ColumnInfo], ids: Mapping[str, int]
) -> list[tuple[int | str, int]]:
    """Its parts, whatever its columns are called. A part that is an expression is the text of it
    with ids in the place of names: `columns` are those that expressions stand in, among others."""
    texts = {each.id: each.generated_expr_string for each in columns if each.hidden}

    def by_id(quoted: re.Match[str]) -> str:
        text = quoted[1].replace("``", "`")
        return f"`{ids.get(text.lower(), text)}`"

    return [
        (_QUOTED.sub(by_id, texts.get(part.exuvia_column, "")) or part.exuvia_column, part.length)
        for part in index.idx_cols
    ]


def its_name_is_taken(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """1060, 1061: an element of that name came meanwhile."""
    table, (kept, wanted, _) = the_table(snapshot), arguments(job, UndoArgs)
    hint = f": ADMIN UNDO DDL JOB {kept.job_id} AS another_name"
    if kept.kind == "column":
        error = ErrDupFieldName(wanted) if table.column(wanted) is not None else None
    else:
        error = ErrDupKeyName(wanted) if table.index(wanted) is not None else None
    if error is None:
        for _, text in kept.index_names if kept.kind == "column" else ():
            if table.index(text) is not None:
                error, hint = ErrDupKeyName(text), "; rename that index first"
    return None if error is None else Refused(error.code, error.state, error.message + hint)


# -- hiding ----------------------------------------------------------------------------------------


def _named(table: TableInfo, names: dict[int, str]) -> TableInfo:
    """The table with those names of indexes, by id."""
    indexes = tuple(
        evolve(each, idx_name=name(names[each.id])) if each.id in names else each
        for each in table.indexes
    )
    return evolve(table, index_info=indexes or None)


def _with_column_name(table: TableInfo, column_id: int, text: str) -> TableInfo:
    columns = tuple(
        evolve(each, name=name(text)) if each.id == column_id else each for each in table.cols
    )
    indexes = tuple(
        evolve(
            index,
            idx_cols=tuple(
                evolve(part, name=name(text)) if part.exuvia_column == column_id else part
                for part in index.idx_cols
            ),
        )
        for index in table.indexes
    )
    return evolve(table, cols=columns, index_info=indexes or None)


def _privately(job: Job, ids: tuple[int, ...]) -> dict[int, str]:
    return {each: private_name(job, each) for each in ids}


def hide_indexes(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """The indexes named, under names of their own."""
    job, snapshot = find_indexes(job, snapshot)
    table = _named(the_table(snapshot), _privately(job, job.exuvia_elements))
    return noted(job, snapshot), evolve(snapshot, table=table)


def hide_column(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """The column named, and the indexes on it alone, likewise."""
    job, snapshot = find_column(job, snapshot)
    (column_id,) = job.exuvia_elements
    table = the_table(snapshot)
    table = _named(table, _privately(job, indexes_on_only(table, column_id)))
    table = _with_column_name(table, column_id, private_name(job, column_id))
    return noted(job, snapshot), evolve(snapshot, table=table)


def _names(table: TableInfo, ids: tuple[int, ...]) -> tuple[tuple[int, str], ...]:
    return tuple((each.id, each.idx_name.O) for each in table.indexes if each.id in ids)


def column_hidden(job: Job, before: CatalogSnapshot, after: CatalogSnapshot) -> JobEvent:
    """As a DROP COLUMN tells it: clients see the column no more."""
    seen = evolve(after, table=without_hidden(the_table(after)))
    return column_dropped(job, before, seen)


def hidden_indexes(job: Job, before: CatalogSnapshot) -> tuple[Kept, ...]:
    """The record of DROP INDEX."""
    table = the_table(before)
    names = _names(table, job.exuvia_elements)
    kept = Kept(
        job_id=job.id,
        kind="index",
        table_id=table.id,
        until=kept_until(job, before),
        name=names[0][1],
        elements=job.exuvia_elements,
        index_names=names,
    )
    return (kept,)


def hidden_column(job: Job, before: CatalogSnapshot) -> tuple[Kept, ...]:
    """The record of DROP COLUMN."""
    table = the_table(before)
    (column_id,) = job.exuvia_elements
    column = table.column_by_id(column_id)
    assert column is not None
    kept = Kept(
        job_id=job.id,
        kind="column",
        table_id=table.id,
        until=kept_until(job, before),
        name=column.name.O,
        elements=job.exuvia_elements,
        index_names=_names(table, indexes_on_only(table, column_id)),
        before=tuple(each.id for each in stood_before(table, column)),
        before_names=tuple(each.name.L for each in stood_before(table, column)),
    )
    return (kept,)


def definition_kept(job: Job, before: CatalogSnapshot) -> tuple[Kept, ...]:
    """The record of DROP INDEX where the index is not hidden."""
    table = the_table(before)
    index = table.index_by_id(job.exuvia_elements[0])
    assert index is not None
    ids = hidden_columns_of(table, (index.id,))
    hidden = tuple(column for column in table.cols if column.id in ids)
    named = {text for column in hidden for text in column.dependences or ()}
    kept = Kept(
        job_id=job.id,
        kind="index",
        table_id=table.id,
        until=kept_until(job, before),
        name=index.idx_name.O,
        definition=evolve(index, state=ABSENT),
        hidden=hidden,
        reads=tuple((c.name.L, c.id) for c in table.cols if c.name.L in named),
    )
    return (kept,)


HIDE_INDEX = load(
    DROP_INDEX._replace(
        refuses=(*DROP_INDEX.refuses, it_can_be_kept_no_more),
        path=(Step(PUBLIC, WRITE_ONLY, edit=hide_indexes, keeps=hidden_indexes),),
        hides=True,
    )
)
DROP_DEFINED_INDEX = load(
    DROP_INDEX._replace(
        path=(*DROP_INDEX.path[:-1], DROP_INDEX.path[-1]._replace(keeps=definition_kept)),
    )
)
HIDE_COLUMN = load(
    DROP_COLUMN._replace(
        refuses=(*DROP_COLUMN.refuses, it_can_be_kept_no_more),
        path=(
            Step(PUBLIC, WRITE_ONLY, edit=hide_column, keeps=hidden_column, event=column_hidden),
        ),
        hides=True,
    )
)


def _index_drop(job: Job) -> Action:
    if job.exuvia_undo is None:
        return DROP_INDEX
    return HIDE_INDEX if job.exuvia_undo.hides else DROP_DEFINED_INDEX


def _column_drop(job: Job) -> Action:
    return DROP_COLUMN if job.exuvia_undo is None else HIDE_COLUMN


# -- taking back -----------------------------------------------------------------------------------


def show_index(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """It has its name again, or the one it is given."""
    kept, wanted, _ = arguments(job, UndoArgs)
    names = {**dict(kept.index_names), kept.elements[0]: wanted}
    return job, evolve(snapshot, table=_named(the_table(snapshot), names))


def show_column(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """So have the column and its indexes."""
    kept, wanted, _ = arguments(job, UndoArgs)
    table = _named(the_table(snapshot), dict(kept.index_names))
    return job, evolve(snapshot, table=_with_column_name(table, kept.elements[0], wanted))


def _former_place(job: Job, others: list[ColumnInfo], state: SchemaState) -> int:
    """Behind the last of the columns that stood before it; hidden ones stand behind all."""
    if state != PUBLIC:
        return len(others)
    public = [each for each in others if each.state == PUBLIC]
    neighbour = kept_of(job).neighbour(public)
    return 0 if neighbour is None else others.index(neighbour) + 1


_COLUMN = Element("column", follows_rows=True, move=partial(move_column, place=_former_place))


def compare_indexes(job: Job, snapshot: CatalogSnapshot) -> Refused | StepWait | None:
    """They hold what writers kept in them, and the pipeline has compared them (law 9)."""
    if snapshot.failure is not None:
        return snapshot.failure
    hidden = tuple(each for each, _ in kept_of(job).index_names)
    if not hidden or snapshot.table_is_empty or snapshot.filled:
        return None
    return StepWait("", reorg.verify_indexes(hidden))


def _tombstones_of_its_indexes(job: Job, snapshot: CatalogSnapshot) -> tuple[DeleteRange, ...]:
    found = ranges_of_its_indexes(job, snapshot)
    return tuple(evolve(each, tombstones_only=True) for each in found)


def column_came_back(job: Job, before: CatalogSnapshot, after: CatalogSnapshot) -> JobEvent:
    """Clients see the column, with what rows held in it."""
    return JobEvent(type="undo drop column", table=after.table, elements=job.exuvia_elements)


def _undo(element: Element, last: Step) -> Action:
    back = load(
        Action(
            "exuvia undo",
            ActionCode.EXUVIA_UNDO,
            element,
            path=(Step(WRITE_REORG, WRITE_ONLY),),
            hides=True,
        )
    )
    return load(
        Action(
            "exuvia undo",
            ActionCode.EXUVIA_UNDO,
            element,
            refuses=(table_is_missing, nothing_is_hidden, its_name_is_taken),
            path=(Step(WRITE_ONLY, WRITE_REORG), last),
            undo=back,
            reorg=True,
            hides=True,
        )
    )


UNDO_INDEX = _undo(
    INDEX,
    Step(
        WRITE_REORG,
        PUBLIC,
        edit=show_index,
        after=compare_indexes,
        leaves=index_tombstones,
        event=index_added,
        ends_undo_of=drop_job,
    ),
)
UNDO_COLUMN = _undo(
    _COLUMN,
    Step(
        WRITE_REORG,
        PUBLIC,
        edit=show_column,
        after=compare_indexes,
        leaves=_tombstones_of_its_indexes,
        event=column_came_back,
        ends_undo_of=drop_job,
    ),
)


# -- the end of the window -------------------------------------------------------------------------


def _end(element: Element, last: Step) -> Action:
    return load(
        Action(
            "exuvia end undo",
            ActionCode.EXUVIA_END_UNDO,
            element,
            refuses=(table_is_missing, nothing_is_hidden),
            path=(
                Step(WRITE_ONLY, DELETE_ONLY),
                Step(DELETE_ONLY, DELETE_REORG),
                last._replace(ends_undo_of=drop_job),
            ),
            hides=True,
        )
    )


END_INDEX = _end(INDEX, Step(DELETE_REORG, ABSENT, leaves=index_ranges))
END_COLUMN = _end(_COLUMN, Step(DELETE_REORG, ABSENT, leaves=ranges_of_its_indexes))

ACTIONS = (
    DROP_INDEX._replace(choose=_index_drop, without_undo=WAS_NOT_KEPT),
    DROP_COLUMN._replace(choose=_column_drop, without_undo=WAS_NOT_KEPT),
)


# -- other changes meanwhile -----------------------------------------------------------------------

UNDO_SURVIVES = frozenset(
    {
        ActionCode.ADD_INDEX,
        ActionCode.DROP_INDEX,
        ActionCode.ADD_COLUMN,
        ActionCode.DROP_COLUMN,
        ActionCode.RENAME_INDEX,
        ActionCode.INDEX_VISIBILITY,
        ActionCode.RENAME_TABLE,
        ActionCode.RENAME_TABLES,
        ActionCode.DROP_TABLE,
        ActionCode.DROP_SCHEMA,
        ActionCode.SET_DEFAULT,
        ActionCode.TABLE_COMMENT,
        ActionCode.REBASE_AUTO_ID,
        ActionCode.AUTO_ID_CACHE,
        ActionCode.SHARD_ROW_ID,
        ActionCode.CACHE_TABLE,
        ActionCode.NO_CACHE_TABLE,
        ActionCode.RECOVER_TABLE,
        ActionCode.FLASHBACK_SCHEMA,
        ActionCode.EXUVIA_SCHEMA_LOCKED,
        ActionCode.EXUVIA_CHANGE_LOG,
        ActionCode.EXUVIA_FULLTEXT,
        ActionCode.EXUVIA_UNDO,
        ActionCode.EXUVIA_END_UNDO,
    }
)


def undo_would_be_lost(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """8200 for a change that cannot go on beside what is kept. Nobody else's change of the table
    runs while it is judged, so what clients do not see there is kept."""
    involved = {job.table_id, *job.exuvia_tables}
    tables = (*((snapshot.table,) if snapshot.table is not None else ()), *snapshot.others)
    for table in tables:
        if table.id not in involved or table.state != PUBLIC:
            continue
        for private in _in_the_way(job, table):
            of = private.split("_")[3]
            return ErrUnsupportedDDLOperation.with_text(
                f"table '{table.name.O}' keeps what was before DDL job {of}, which this change "
                f"cannot go on beside: ADMIN UNDO DDL JOB {of} takes it back, "
                f"ADMIN END UNDO DDL JOB {of} gives it up"
            )
    return None


def _in_the_way(job: Job, table: TableInfo) -> Iterator[str]:
    """Private names of what is kept and cannot stay as it is."""
    indexes = [each for each in table.indexes if each.idx_name.L.startswith(PRIVATE)]
    columns = [each for each in table.cols if each.name.L.startswith(PRIVATE)]
    column, undo_of = _column_that_changes(job, table)
    if column:
        yield from (
            index.idx_name.L
            for index in indexes
            if any(part.exuvia_column == column for part in index.idx_cols)
            or any(term.exuvia_column == column for term in index.exuvia_predicate)
        )
        for each in columns:
            if former_of(each) == column and not each.name.L.startswith(f"{PRIVATE}{undo_of}_"):
                yield each.name.L
    elif job.type not in UNDO_SURVIVES:
        yield from (each.idx_name.L for each in indexes)
        yield from (each.name.L for each in columns)


def _column_that_changes(job: Job, table: TableInfo) -> tuple[int, int]:
    """The column that is dropped or modified, and the job that an UNDO takes back; 0: none."""
    if job.type == ActionCode.MODIFY_COLUMN:
        found = modification_of(job)
        return found.column.id, found.undo_of
    if job.type == ActionCode.DROP_COLUMN:
        column = table.column(arguments(job, DropColumnArgs).name)
        return (column.id if column is not None else 0), 0
    return 0, 0
