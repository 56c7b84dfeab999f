"""ADMIN UNDO DDL JOB n [AS name] | ADMIN END UNDO DDL JOB n, of what was kept (undo_window.py).

UNDO shows what is hidden, brings rows back, changes a column back, or asks for an index anew of
which only the definition was kept; END UNDO gives it up before its time. Raises 8224 (no such job),
1105 (nothing of it is kept, and why), 1146.
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
from exuvia.ddl.actions.undo_truncate import changed_since, why_not_again
from exuvia.ddl.decision import Kept
from exuvia.ddl.job import Job, JobState
from exuvia.kv.transaction import Transaction
from exuvia.sql import walks
from exuvia.sql.access.partitions import MOVER
from exuvia.sql.generated import PREFIX, names_in
from exuvia.sql.nodes import AdminEndUndo, AdminUndo
from exuvia.sql.parse.restore import restored
from exuvia.sql.parse.text import parse_expression
from exuvia.sql.schema.alter_column import modify_back
from exuvia.sql.schema.alter_index import check_added, key_back
from exuvia.sql.schema.change import AlterContext, Change, SchemaReader, of_job
from exuvia.sql.schema.column_definition import check_name

# -- ADMIN -----------------------------------------------------------------------------------------


def undo(reader: SchemaReader, node: AdminUndo, text: str) -> Change:
    """ADMIN UNDO DDL JOB."""
    found, database, table = _found(reader.txn, node.job)
    if found.kind == "table":
        return of_job(
            _undo_truncate(database, meta.with_children(reader.txn, table), found, node, text)
        )
    if found.kind == "modify":
        wanted = check_name(node.new_name or found.name, ErrWrongColumnName)
        at = AlterContext(reader, database, table, text)
        return of_job(modify_back(at, found, wanted), at.notes)
    if found.kind == "key":
        if stands_again(table, found):
            raise _gone(node.job, "its table has another primary key since")
        former = None
        if found.definition is not None:
            former, _ = _as_named_now(node.job, table, found, found.name)
        at = AlterContext(reader, database, table, text)
        return of_job(key_back(at, former, node.job), at.notes)
    error = ErrWrongNameForIndex if found.kind == "index" else ErrWrongColumnName
    wanted = check_name(node.new_name or found.name, error)
    if found.definition is None:
        return of_job(requests.undo(database, table, found, wanted, query=text))
    if stands_again(table, found):
        raise _gone(node.job, "an index like it stands again")
    index, hidden = _as_named_now(node.job, table, found, wanted)
    check_added(reader.txn, table, index)
    return of_job(requests.add_index(database, table, index, hidden=hidden, query=text))


def _undo_truncate(
    database: DatabaseInfo, table: TableInfo, found: Kept, node: AdminUndo, text: str
) -> Job:
    if node.new_name is not None:
        raise changed_since(found, "rows come back into the table that they were in, AS no other")
    why = why_not_again(table, found)
    if why:
        raise changed_since(found, why)
    return requests.undo(database, table, found, found.name, MOVER, query=text)


def _as_named_now(
    job_id: int, table: TableInfo, found: Kept, wanted: str
) -> tuple[IndexInfo, tuple[ColumnInfo, ...]]:
    """The index under that name, and what its expressions stand in, by the names that its columns
    have."""
    assert found.definition is not None
    hidden = {each.id: each for each in found.hidden}
    shown = {column.id: column.name for column in table.public_columns}
    names = {text: shown.get(column_id) for text, column_id in found.reads}
    parts, columns = [], []
    for number, part in enumerate(found.definition.idx_cols):
        text = shown.get(part.exuvia_column)
        if part.exuvia_column in hidden:
            text = name(f"{PREFIX}_{wanted}_{number}")
            columns.append(evolve(_renamed(hidden[part.exuvia_column], names), name=text))
        parts.append(None if text is None else evolve(part, name=text))
    if None in parts or None in names.values():
        raise _gone(job_id, "a column of its index has been dropped or changed")
    named = tuple(each for each in parts if each is not None)
    return evolve(found.definition, idx_name=name(wanted), idx_cols=named), tuple(columns)


def _renamed(column: ColumnInfo, names: Mapping[str, Name | None]) -> ColumnInfo:
    """A generated column whose expression names those that it reads by other names; `names`: by
    what they were called, in lower case."""
    tree = parse_expression(column.generated_expr_string)
    for each in list(walks.find_all(tree, exp.Column)):
        found = names.get(each.name.lower())
        if found is not None:
            each.set("this", exp.to_identifier(found.O, quoted=True))
    needs: dict[str, object] = {each: {} for each in names_in(tree)}
    return evolve(column, generated_expr_string=restored(tree), dependences=needs)


def end_undo(reader: SchemaReader, node: AdminEndUndo, text: str) -> Change:
    """ADMIN END UNDO DDL JOB."""
    found, database, table = _found(reader.txn, node.job)
    if found.is_definition:
        raise ErrUnknown(f"ddl job {node.job} costs nothing until it is undone: nothing is hidden")
    return of_job(requests.end_undo(database, table, found, query=text))


def _found(txn: Transaction, job_id: int) -> tuple[Kept, DatabaseInfo, TableInfo]:
    """What the job dropped, and where. Raises."""
    found = kept.get(txn, job_id)
    if found is None:
        raise _nothing_kept(txn, job_id)
    table = meta.get_table(txn, found.table_id)
    database = None if table is None else meta.get_database(txn, table.exuvia_db)
    if table is None or database is None or table.state != SchemaState.PUBLIC:
        job = queue.finished(txn, job_id)
        raise ErrNoSuchTable(job.schema_name, job.table_name) if job else ErrDDLJobNotFound(job_id)
    if not found.is_definition and not is_hidden(table, found):
        raise _gone(job_id, "its table was brought back without it, or it has been undone")
    return found, database, table


def _nothing_kept(txn: Transaction, job_id: int) -> Refused:
    job = queue.get(txn, job_id) or queue.finished(txn, job_id)
    if job is None:
        return ErrDDLJobNotFound(job_id)
    if not job.in_history:
        return _gone(job_id, "it has not finished: ADMIN CANCEL DDL JOBS may turn it back")
    if job.state != JobState.SYNCED:
        return _gone(job_id, "it changed nothing")
    hint = kind_of(job).without_undo
    if job.exuvia_undo is None:
        return _gone(job_id, hint or f"{job.action_text} is none of those that are kept")
    return _gone(job_id, "its time is over, or it has been undone")


def _gone(job_id: int, why: str) -> Refused:
    return ErrUnknown(f"ddl job {job_id} cannot be undone: {why}")
