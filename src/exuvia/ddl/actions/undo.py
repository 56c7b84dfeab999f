"""UNDO restores the element of a finished DROP INDEX or DROP COLUMN within `exuvia_undo_s`.

    drop, kept     public -> write only       the job ends here: the element is hidden under another
                                              name; clients can reuse its name; writers maintain it
    undo           write only -> write reorganization =compare=> public
    end of undo    write only -> delete only -> delete reorganization -> absent, emptied later

The former values of a MODIFY (modify_column.py) end as a dropped column does.

A hidden element is an ordinary one in that state, so writers have no new duty. No writer has left
WRITE_ONLY since the drop, so an index is complete. It is only compared with the table before it is
public (law 9). An update keeps a row's value in a hidden column. A row inserted in the meantime has
the column's constant default, else NULL, or the zero of its type if it is NOT NULL.

An element that could refuse writes for reasons invisible to clients is not hidden. A unique index
(1062) and a multi-valued one (3903, 3752, 1235, ...) are dropped as usual; the definition is
retained, and UNDO is an ADD INDEX. Other indexes on expressions cannot be restored. The same
applies to columns that are generated, AUTO_INCREMENT, or have a UNIQUE or a CHECK of their own.

Each retained element has a record (ddl/kept.py), written by the transaction that hides it and
removed by the one that restores or removes it. The end of the retention is a job of its own. The
older one of UNDO and that job comes first, and the other one finds nothing. The clock only decides
when that job is submitted (law 3).

    changes of the table during the retention
    `spares_hidden`    allowed: they leave hidden elements as they are
    a DROP or MODIFY of a column that a hidden index is on, or whose former values are retained, and
    all others         8200 with the job whose UNDO would be lost

RECOVER TABLE and TRUNCATE begin with a table whose hidden elements nothing has maintained: they are
left out (`elements.without_hidden`).
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
from exuvia.ddl.action import Action, Element, JobGuard, Step, ends_retention, leaves, load, retains
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
    involved_tables,
    kept_until,
    private_name,
    stood_before,
    table_is_missing,
    with_undo_note,
)
from exuvia.ddl.decision import StepWait
from exuvia.ddl.delete_ranges import DeleteRange
from exuvia.ddl.effects import JobEvent
from exuvia.ddl.elements import (
    INDEX,
    hidden_columns_of,
    indexes_on_only,
    the_table,
    without_hidden,
)
from exuvia.ddl.job import ActionCode, Job, arguments, job_for
from exuvia.ddl.kept import Kept
from exuvia.ddl.snapshot import CatalogSnapshot
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


# -- limits of UNDO --------------------------------------------------------------------------------


def why_no_index(table: TableInfo, index: IndexInfo) -> str:
    """Why a DROP of that index cannot be undone; "" if it can."""
    if index.is_global:
        return "it is global: partitions may be added or dropped meanwhile"
    if hidden_columns_of(table, (index.id,)) and not index.is_multi_valued:
        return "it is on expressions, whose columns may be renamed meanwhile"
    if index.is_unique and index.is_partial:
        return "it is unique and partial: the columns of its predicate may be changed meanwhile"
    return ""


def refuses_writers(index: IndexInfo) -> bool:
    """Whether a write may fail because of the index: then only its definition is retained."""
    return index.is_unique or index.is_multi_valued


def why_no_column(table: TableInfo, column: ColumnInfo) -> str:
    """Why a DROP of that column cannot be undone; "" if it can."""
    if column.is_generated:
        return "it is generated"
    if column.auto_increment:
        return "it is AUTO_INCREMENT"
    alone = indexes_on_only(table, column.id)
    if any(index.is_unique for index in table.indexes if index.id in alone):
        return "it has a unique index, which would refuse rows inserted meanwhile"
    if any(
        {column_name.L for column_name in check.constraint_cols} == {column.name.L}
        for check in table.checks
    ):
        return "it has a CHECK, which rows inserted meanwhile might violate"
    return ""


def why_no_rows(table: TableInfo) -> str:
    """Why a TRUNCATE of that table cannot be undone; "" if it can."""
    if table.foreign_keys or table.exuvia_referred:
        return "it has foreign keys, or another table refers to it; rows there may be deleted"
    if any(index.is_partial for index in table.indexes):
        return "it has a partial index, so its rows cannot be moved"
    if table.global_indexes:
        return "it has a global index, which would not contain the restored rows"
    return ""


# -- arguments -------------------------------------------------------------------------------------


class UndoArgs(NamedTuple):
    """Arguments of UNDO and of the end of a retention: the record, and the name to restore.

    `router`: for rows of partitions, the function that finds a row's partition
    (pipeline/kernels/move.py).
    """

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
    args = UndoArgs(kept, new_name, router)
    job = job_for(ActionCode.EXUVIA_UNDO, database, table, args, query)
    return evolve(job, exuvia_elements=kept.elements)


def end_undo(database: DatabaseInfo, table: TableInfo, kept: Kept, *, query: str = "") -> Job:
    """The job that removes a hidden element."""
    args = UndoArgs(kept, kept.name)
    job = job_for(ActionCode.EXUVIA_END_UNDO, database, table, args, query)
    return evolve(job, exuvia_elements=kept.elements)


def kept_of(job: Job) -> Kept:
    return arguments(job, UndoArgs).kept


def drop_job(job: Job) -> int:
    """The job that is undone, or can no longer be."""
    return kept_of(job).job_id


# -- refusals --------------------------------------------------------------------------------------


def element_can_no_longer_be_retained(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """8028: the name belongs to another element than when the statement was built."""
    table = the_table(snapshot)
    if job.type == ActionCode.DROP_COLUMN:
        column = table.column(arguments(job, DropColumnArgs).name)
        fits = column is None or not why_no_column(table, column)
    else:
        indexes = map(table.index, arguments(job, tuple[str, ...]))
        fits = not any(
            refuses_writers(i) or why_no_index(table, i) for i in indexes if i is not None
        )
    return None if fits else ErrInfoSchemaChanged()


def nothing_is_hidden(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """1105: the retention has ended, or it was undone before."""
    if _hidden_states(the_table(snapshot), kept_of(job)) == {WRITE_ONLY}:
        return None
    return ErrUnknown(f"ddl job {drop_job(job)} cannot be undone: its data is no longer retained")


def _hidden_states(table: TableInfo, record: Kept) -> set[SchemaState]:
    if record.kind == "index":
        states = {index.id: index.state for index in table.indexes}
    else:
        states = {column.id: column.state for column in table.cols}
    return {states.get(element_id, ABSENT) for element_id in record.elements}


def is_hidden(table: TableInfo, record: Kept) -> bool:
    """Whether the record's elements are still in the table, and hidden from clients."""
    if record.kind == "table":
        return True  # nothing else uses the data of the old id
    return bool(record.elements) and not _hidden_states(table, record) & {ABSENT, PUBLIC}


def stands_again(table: TableInfo, record: Kept) -> bool:
    """Whether an index, under any name, has the dropped definition.

    For a primary key: whether the key is another one than the change left.
    """
    if record.kind == "key":
        return not is_same_key(primary_key(table), record.key)
    definition = record.definition
    if definition is None:
        return False
    parts = _parts_by_id(definition, record.hidden, dict(record.reads))
    ids = {column.name.L: column.id for column in table.cols}
    return any(
        index.is_unique == definition.is_unique and _parts_by_id(index, table.cols, ids) == parts
        for index in table.indexes
    )


_QUOTED = re.compile("`((?:[^`]|``)+)`")


def _parts_by_id(
    index: IndexInfo, columns: Sequence[ColumnInfo], ids: Mapping[str, int]
) -> list[tuple[int | str, int]]:
    """The parts of an index as column ids, independent of the names of columns.

    An expression is its text with ids instead of names: `columns` has the hidden columns of
    expressions.
    """
    texts = {column.id: column.generated_expr_string for column in columns if column.hidden}

    def by_id(quoted: re.Match[str]) -> str:
        text = quoted[1].replace("``", "`")
        return f"`{ids.get(text.lower(), text)}`"

    return [
        (_QUOTED.sub(by_id, texts.get(part.exuvia_column, "")) or part.exuvia_column, part.length)
        for part in index.idx_cols
    ]


def its_name_is_taken(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """1060, 1061: another element has that name now."""
    table, (record, new_name, _) = the_table(snapshot), arguments(job, UndoArgs)
    hint = f": ADMIN UNDO DDL JOB {record.job_id} AS another_name"
    if record.kind == "column":
        error = ErrDupFieldName(new_name) if table.column(new_name) is not None else None
    else:
        error = ErrDupKeyName(new_name) if table.index(new_name) is not None else None
    if error is None:
        for _, text in record.index_names if record.kind == "column" else ():
            if table.index(text) is not None:
                error, hint = ErrDupKeyName(text), "; rename that index first"
    return None if error is None else Refused(error.code, error.state, error.message + hint)


# -- hiding ----------------------------------------------------------------------------------------


def _named(table: TableInfo, names: dict[int, str]) -> TableInfo:
    """The table with those names of indexes, by id."""
    indexes = tuple(
        evolve(index, idx_name=name(names[index.id])) if index.id in names else index
        for index in table.indexes
    )
    return evolve(table, index_info=indexes or None)


def _with_column_name(table: TableInfo, column_id: int, text: str) -> TableInfo:
    columns = tuple(
        evolve(column, name=name(text)) if column.id == column_id else column
        for column in table.cols
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
    return {element_id: private_name(job, element_id) for element_id in ids}


def hide_indexes(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """The named indexes, under other names."""
    job, snapshot = find_indexes(job, snapshot)
    table = _named(the_table(snapshot), _privately(job, job.exuvia_elements))
    return with_undo_note(job, snapshot), evolve(snapshot, table=table)


def hide_column(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """The named column, and the indexes on it alone, under other names."""
    job, snapshot = find_column(job, snapshot)
    (column_id,) = job.exuvia_elements
    table = the_table(snapshot)
    table = _named(table, _privately(job, indexes_on_only(table, column_id)))
    table = _with_column_name(table, column_id, private_name(job, column_id))
    return with_undo_note(job, snapshot), evolve(snapshot, table=table)


def _names(table: TableInfo, ids: tuple[int, ...]) -> tuple[tuple[int, str], ...]:
    return tuple((index.id, index.idx_name.O) for index in table.indexes if index.id in ids)


def column_hidden(job: Job, before: CatalogSnapshot, after: CatalogSnapshot) -> JobEvent:
    """The event of a DROP COLUMN: clients no longer see the column."""
    visible = evolve(after, table=without_hidden(the_table(after)))
    return column_dropped(job, before, visible)


def hidden_indexes(job: Job, before: CatalogSnapshot) -> tuple[Kept, ...]:
    """The record of DROP INDEX."""
    table = the_table(before)
    names = _names(table, job.exuvia_elements)
    record = Kept(
        job_id=job.id,
        kind="index",
        table_id=table.id,
        until=kept_until(job, before),
        name=names[0][1],
        elements=job.exuvia_elements,
        index_names=names,
    )
    return (record,)


def hidden_column(job: Job, before: CatalogSnapshot) -> tuple[Kept, ...]:
    """The record of DROP COLUMN."""
    table = the_table(before)
    (column_id,) = job.exuvia_elements
    column = table.column_by_id(column_id)
    assert column is not None
    record = Kept(
        job_id=job.id,
        kind="column",
        table_id=table.id,
        until=kept_until(job, before),
        name=column.name.O,
        elements=job.exuvia_elements,
        index_names=_names(table, indexes_on_only(table, column_id)),
        before=tuple(other.id for other in stood_before(table, column)),
        before_names=tuple(other.name.L for other in stood_before(table, column)),
    )
    return (record,)


def definition_kept(job: Job, before: CatalogSnapshot) -> tuple[Kept, ...]:
    """The record of DROP INDEX if the index is not hidden."""
    table = the_table(before)
    index = table.index_by_id(job.exuvia_elements[0])
    assert index is not None
    ids = hidden_columns_of(table, (index.id,))
    hidden_columns = tuple(column for column in table.cols if column.id in ids)
    named = {text for column in hidden_columns for text in column.dependences or ()}
    record = Kept(
        job_id=job.id,
        kind="index",
        table_id=table.id,
        until=kept_until(job, before),
        name=index.idx_name.O,
        definition=evolve(index, state=ABSENT),
        hidden=hidden_columns,
        reads=tuple((c.name.L, c.id) for c in table.cols if c.name.L in named),
    )
    return (record,)


HIDE_INDEX = load(
    DROP_INDEX._replace(
        refuses=(*DROP_INDEX.refuses, element_can_no_longer_be_retained),
        path=(Step(PUBLIC, WRITE_ONLY, edit=hide_indexes, causes=(retains(hidden_indexes),)),),
        has_hidden_end=True,
    )
)
DROP_DEFINED_INDEX = load(
    DROP_INDEX._replace(
        path=(
            *DROP_INDEX.path[:-1],
            DROP_INDEX.path[-1]._replace(
                causes=(*DROP_INDEX.path[-1].causes, retains(definition_kept))
            ),
        ),
    )
)
HIDE_COLUMN = load(
    DROP_COLUMN._replace(
        refuses=(*DROP_COLUMN.refuses, element_can_no_longer_be_retained),
        path=(
            Step(
                PUBLIC,
                WRITE_ONLY,
                edit=hide_column,
                causes=(retains(hidden_column),),
                event=column_hidden,
            ),
        ),
        has_hidden_end=True,
    )
)


def _index_drop(job: Job) -> Action:
    if job.exuvia_undo is None:
        return DROP_INDEX
    return HIDE_INDEX if job.exuvia_undo.hides else DROP_DEFINED_INDEX


def _column_drop(job: Job) -> Action:
    return DROP_COLUMN if job.exuvia_undo is None else HIDE_COLUMN


# -- restoring -------------------------------------------------------------------------------------


def show_index(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """The index has its former name, or the requested one."""
    record, new_name, _ = arguments(job, UndoArgs)
    names = {**dict(record.index_names), record.elements[0]: new_name}
    return job, evolve(snapshot, table=_named(the_table(snapshot), names))


def show_column(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """The column has its former name, or the requested one; its indexes have their former names."""
    record, new_name, _ = arguments(job, UndoArgs)
    table = _named(the_table(snapshot), dict(record.index_names))
    return job, evolve(snapshot, table=_with_column_name(table, record.elements[0], new_name))


def _former_place(job: Job, others: list[ColumnInfo], state: SchemaState) -> int:
    """After the last of the columns that preceded it; at the end while it is hidden."""
    if state != PUBLIC:
        return len(others)
    public = [column for column in others if column.state == PUBLIC]
    neighbour = kept_of(job).neighbour(public)
    return 0 if neighbour is None else others.index(neighbour) + 1


_COLUMN = Element("column", follows_rows=True, move=partial(move_column, place=_former_place))


def compare_indexes(job: Job, snapshot: CatalogSnapshot) -> Refused | StepWait | None:
    """A wait until the hidden indexes are compared with the rows (law 9)."""
    hidden_ids = tuple(index_id for index_id, _ in kept_of(job).index_names)
    if not hidden_ids or snapshot.table_is_empty or snapshot.reorg.filled:
        return None
    return StepWait("", reorg.verify_indexes(hidden_ids))


def _tombstones_of_its_indexes(job: Job, snapshot: CatalogSnapshot) -> tuple[DeleteRange, ...]:
    delete_ranges = ranges_of_its_indexes(job, snapshot)
    return tuple(evolve(delete_range, tombstones_only=True) for delete_range in delete_ranges)


def column_came_back(job: Job, before: CatalogSnapshot, after: CatalogSnapshot) -> JobEvent:
    """The event once clients see the column, with its values."""
    return JobEvent(type="undo drop column", table=after.table, elements=job.exuvia_elements)


def _undo(element: Element, last: Step) -> Action:
    back = load(
        Action(
            ActionCode.EXUVIA_UNDO,
            element,
            path=(Step(WRITE_REORG, WRITE_ONLY),),
            has_hidden_end=True,
        )
    )
    return load(
        Action(
            ActionCode.EXUVIA_UNDO,
            element,
            refuses=(table_is_missing, nothing_is_hidden, its_name_is_taken),
            path=(Step(WRITE_ONLY, WRITE_REORG), last),
            undo=back,
            reorg=True,
            has_hidden_end=True,
            spares_hidden=True,
        )
    )


UNDO_INDEX = _undo(
    INDEX,
    Step(
        WRITE_REORG,
        PUBLIC,
        edit=show_index,
        after=compare_indexes,
        causes=(
            leaves(index_tombstones),
            ends_retention(drop_job),
        ),
        event=index_added,
    ),
)
UNDO_COLUMN = _undo(
    _COLUMN,
    Step(
        WRITE_REORG,
        PUBLIC,
        edit=show_column,
        after=compare_indexes,
        causes=(
            leaves(_tombstones_of_its_indexes),
            ends_retention(drop_job),
        ),
        event=column_came_back,
    ),
)


# -- the end of the window -------------------------------------------------------------------------


def _end(element: Element, last: Step) -> Action:
    return load(
        Action(
            ActionCode.EXUVIA_END_UNDO,
            element,
            refuses=(table_is_missing, nothing_is_hidden),
            path=(
                Step(WRITE_ONLY, DELETE_ONLY),
                Step(DELETE_ONLY, DELETE_REORG),
                last._replace(causes=(*last.causes, ends_retention(drop_job))),
            ),
            has_hidden_end=True,
            spares_hidden=True,
            ignores_lock=True,
        )
    )


END_INDEX = _end(INDEX, Step(DELETE_REORG, ABSENT, causes=(leaves(index_ranges),)))
END_COLUMN = _end(_COLUMN, Step(DELETE_REORG, ABSENT, causes=(leaves(ranges_of_its_indexes),)))

ACTIONS = (
    DROP_INDEX._replace(choose=_index_drop, without_undo=WAS_NOT_KEPT),
    DROP_COLUMN._replace(choose=_column_drop, without_undo=WAS_NOT_KEPT),
)


# -- other changes during the retention ------------------------------------------------------------


def undo_would_be_lost(action: Action, job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """8200 for a change during the retention that would lose retained data.

    No other change of the table runs at this moment, so every hidden element of it is retained
    data.
    """
    for table in involved_tables(job, snapshot):
        if table.state != PUBLIC:
            continue
        for private in _endangered_names(action, job, table):
            undo_job = private.split("_")[3]
            return ErrUnsupportedDDLOperation.with_text(
                f"table '{table.name.O}' retains data for UNDO of DDL job {undo_job}, which "
                f"this change would lose: ADMIN UNDO DDL JOB {undo_job} restores it, "
                f"ADMIN END UNDO DDL JOB {undo_job} discards it"
            )
    return None


def _endangered_names(action: Action, job: Job, table: TableInfo) -> Iterator[str]:
    """Private names of retained elements that the change would damage."""
    indexes = [index for index in table.indexes if index.idx_name.L.startswith(PRIVATE)]
    columns = [
        other_column for other_column in table.cols if other_column.name.L.startswith(PRIVATE)
    ]
    column, undo_of = _column_that_changes(job, table)
    if column:
        yield from (
            index.idx_name.L
            for index in indexes
            if any(part.exuvia_column == column for part in index.idx_cols)
            or any(term.exuvia_column == column for term in index.exuvia_predicate)
        )
        for other_column in columns:
            if former_of(other_column) == column and not other_column.name.L.startswith(
                f"{PRIVATE}{undo_of}_"
            ):
                yield other_column.name.L
    elif not action.spares_hidden:
        yield from (index.idx_name.L for index in indexes)
        yield from (other_column.name.L for other_column in columns)


def _column_that_changes(job: Job, table: TableInfo) -> tuple[int, int]:
    """The dropped or modified column, and the job that an UNDO reverts; each may be 0."""
    if job.type == ActionCode.MODIFY_COLUMN:
        change = modification_of(job)
        return change.column.id, change.undo_of
    if job.type == ActionCode.DROP_COLUMN:
        column = table.column(arguments(job, DropColumnArgs).name)
        return (column.id if column is not None else 0), 0
    return 0, 0


GUARDS = (JobGuard(undo_would_be_lost, rank=2),)
