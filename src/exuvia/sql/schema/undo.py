"""ADMIN UNDO DDL JOB n [AS name] | ADMIN END UNDO DDL JOB n, for retained data (undo_window.py).

UNDO does one of these:

    makes a hidden column or index public again
    brings the rows of a truncated table back
    changes a column or a clustered key back
    builds an index again of which only the definition was retained

END UNDO discards the retained data early. Raises 8224 (unknown job), 1105 (nothing is retained,
with the reason), 1146.
"""

from collections.abc import Mapping

from sqlglot import exp

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import (
    ErrDDLJobNotFound,
    ErrNoSuchTable,
    ErrUnknown,
    ErrWrongColumnName,
    ErrWrongNameForIndex,
)
from exuvia.catalog import meta
from exuvia.catalog.model import (
    ColumnInfo,
    DatabaseInfo,
    IndexInfo,
    Name,
    SchemaState,
    TableInfo,
    evolve,
    name,
)
from exuvia.ddl import kept, queue, requests
from exuvia.ddl.actions import kind_of
from exuvia.ddl.actions.undo import is_hidden, stands_again
from exuvia.ddl.actions.undo_truncate import changed_since, why_no_restore
from exuvia.ddl.job import Job, JobState
from exuvia.ddl.kept import Kept
from exuvia.kv.transaction import Transaction
from exuvia.sql import walks
from exuvia.sql.access.partitions import MOVER
from exuvia.sql.generated import PREFIX, names_in
from exuvia.sql.nodes import AdminEndUndo, AdminUndo
from exuvia.sql.parse.restore import restored
from exuvia.sql.parse.text import parse_expression
from exuvia.sql.schema.alter_column import undo_modify
from exuvia.sql.schema.alter_index import check_added, undo_key_change
from exuvia.sql.schema.change import AlterContext, Change, SchemaReader, of_job
from exuvia.sql.schema.column_definition import check_name

# -- ADMIN -----------------------------------------------------------------------------------------


def undo(reader: SchemaReader, node: AdminUndo, text: str) -> Change:
    """ADMIN UNDO DDL JOB."""
    retained, database, table = _retained(reader.txn, node.job)
    if retained.kind == "table":
        return of_job(
            _undo_truncate(database, meta.with_children(reader.txn, table), retained, node, text)
        )
    if retained.kind == "modify":
        new_name = check_name(node.new_name or retained.name, ErrWrongColumnName)
        at = AlterContext(reader, database, table, text)
        return of_job(undo_modify(at, retained, new_name), at.notes)
    if retained.kind == "key":
        if stands_again(table, retained):
            raise _cannot_undo(node.job, "its table has another primary key since")
        former = None
        if retained.definition is not None:
            former, _ = _as_named_now(node.job, table, retained, retained.name)
        at = AlterContext(reader, database, table, text)
        return of_job(undo_key_change(at, former, node.job), at.notes)
    error = ErrWrongNameForIndex if retained.kind == "index" else ErrWrongColumnName
    new_name = check_name(node.new_name or retained.name, error)
    if retained.definition is None:
        return of_job(requests.undo(database, table, retained, new_name, query=text))
    if stands_again(table, retained):
        raise _cannot_undo(node.job, "such an index exists again")
    index, hidden_columns = _as_named_now(node.job, table, retained, new_name)
    check_added(reader.txn, table, index)
    return of_job(requests.add_index(database, table, index, hidden=hidden_columns, query=text))


def _undo_truncate(
    database: DatabaseInfo, table: TableInfo, retained: Kept, node: AdminUndo, text: str
) -> Job:
    if node.new_name is not None:
        raise changed_since(retained, "the rows return to their own table: omit AS")
    why = why_no_restore(table, retained)
    if why:
        raise changed_since(retained, why)
    return requests.undo(database, table, retained, retained.name, MOVER, query=text)


def _as_named_now(
    job_id: int, table: TableInfo, retained: Kept, new_name: str
) -> tuple[IndexInfo, tuple[ColumnInfo, ...]]:
    """The retained index with the new name and the current names of its columns, and its hidden
    columns."""
    assert retained.definition is not None
    hidden_columns = {column.id: column for column in retained.hidden}
    current_names = {column.id: column.name for column in table.public_columns}
    names = {text: current_names.get(column_id) for text, column_id in retained.reads}
    parts, columns = [], []
    for number, part in enumerate(retained.definition.idx_cols):
        text = current_names.get(part.exuvia_column)
        if part.exuvia_column in hidden_columns:
            text = name(f"{PREFIX}_{new_name}_{number}")
            columns.append(evolve(_renamed(hidden_columns[part.exuvia_column], names), name=text))
        parts.append(None if text is None else evolve(part, name=text))
    if None in parts or None in names.values():
        raise _cannot_undo(job_id, "a column of its index has been dropped or changed")
    named = tuple(part for part in parts if part is not None)
    return evolve(retained.definition, idx_name=name(new_name), idx_cols=named), tuple(columns)


def _renamed(column: ColumnInfo, names: Mapping[str, Name | None]) -> ColumnInfo:
    """The generated column with renamed columns in its expression.

    `names`: former lower-case name -> current name."""
    tree = parse_expression(column.generated_expr_string)
    for node in list(walks.find_all(tree, exp.Column)):
        new_name = names.get(node.name.lower())
        if new_name is not None:
            node.set("this", exp.to_identifier(new_name.O, quoted=True))
    needs: dict[str, object] = {column_name: {} for column_name in names_in(tree)}
    return evolve(column, generated_expr_string=restored(tree), dependences=needs)


def end_undo(reader: SchemaReader, node: AdminEndUndo, text: str) -> Change:
    """ADMIN END UNDO DDL JOB."""
    retained, database, table = _retained(reader.txn, node.job)
    if retained.is_definition:
        raise ErrUnknown(
            f"ddl job {node.job} retains only a definition: END UNDO has nothing to discard"
        )
    return of_job(requests.end_undo(database, table, retained, query=text))


def _retained(txn: Transaction, job_id: int) -> tuple[Kept, DatabaseInfo, TableInfo]:
    """The retained data of the job, its database and its table. Raises 8224, 1105, 1146."""
    retained = kept.get(txn, job_id)
    if retained is None:
        raise _nothing_kept(txn, job_id)
    table = meta.get_table(txn, retained.table_id)
    database = None if table is None else meta.get_database(txn, table.exuvia_db)
    if table is None or database is None or table.state != SchemaState.PUBLIC:
        job = queue.finished(txn, job_id)
        raise ErrNoSuchTable(job.schema_name, job.table_name) if job else ErrDDLJobNotFound(job_id)
    if not retained.is_definition and not is_hidden(table, retained):
        raise _cannot_undo(job_id, "its table was brought back without it, or it has been undone")
    return retained, database, table


def _nothing_kept(txn: Transaction, job_id: int) -> Refused:
    job = queue.get(txn, job_id) or queue.finished(txn, job_id)
    if job is None:
        return ErrDDLJobNotFound(job_id)
    if not job.in_history:
        return _cannot_undo(job_id, "it has not finished: ADMIN CANCEL DDL JOBS may roll it back")
    if job.state != JobState.SYNCED:
        return _cannot_undo(job_id, "it changed nothing")
    hint = kind_of(job).without_undo
    if job.exuvia_undo is None:
        return _cannot_undo(job_id, hint or f"UNDO does not support {job.action_text}")
    return _cannot_undo(job_id, "its time is over, or it has been undone")


def _cannot_undo(job_id: int, why: str) -> Refused:
    return ErrUnknown(f"ddl job {job_id} cannot be undone: {why}")
