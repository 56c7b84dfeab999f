"""BATCH ... LIMIT n (non-transactional DML, as in TiDB): a statement split into jobs.

Each job is a transaction. For statements that are too large for one commit and need not be atomic.

    BATCH ON id LIMIT 1000 DELETE FROM t WHERE v < 10
      SELECT `id` FROM t WHERE v < 10 ORDER BY ..   one snapshot: every shard value, in order
      job 1   DELETE FROM t WHERE (`id` BETWEEN 1 AND 1350) AND (v < 10)
      job 2   DELETE FROM t WHERE (`id` BETWEEN 1351 AND 2700) AND (v < 10)
      number of jobs | job status

A job has at least n rows, except for the last one. It ends between two different shard values, so
no row is in two jobs. NULLs are in the first job. The shard column must be the first column of an
index; without ON it is the handle.

The statement is neither atomic nor isolated. Rows that others write meanwhile may or may not be in
a job. If a job fails, the jobs before it stay committed.

    the first job fails        its error: nothing was changed
    a later one fails          8143 with the job. With tidb_nontransactional_ignore_error the others
                               run, and 1105 lists the failed ones at the end
    KILL, max_execution_time   that error at once; its note has the number of finished jobs

Jobs are texts: DRY RUN prints exactly the statements that would run. Types whose values have no
exact text in their sort order (ENUM, SET, BIT, JSON, FLOAT) are refused for shard columns.

Source: TiDB's documentation, "Non-Transactional DML Statements"."""

import logging
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from sqlglot import exp

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import (
    ErrBadField,
    ErrMaxExecTimeExceeded,
    ErrNonTransactionalJobFailure,
    ErrQueryInterrupted,
    ErrUnknown,
)
from exuvia.base.types import Family, FieldType, TypeCode, Value
from exuvia.catalog.collation import sort_key
from exuvia.catalog.convert.values import to_text
from exuvia.catalog.model import ColumnInfo, SchemaState
from exuvia.catalog.table import Table
from exuvia.sql import planner
from exuvia.sql.access.single_table import ROW_ID
from exuvia.sql.nodes import Insert, NonTransactionalDml, Update
from exuvia.sql.parse.restore import name_text, string_text
from exuvia.sql.parse.text import parse_one
from exuvia.sql.result import BIGINT, OutputColumn, Result, text_type
from exuvia.sql.statement.context import Context, SessionApi

_UNORDERED = (TypeCode.ENUM, TypeCode.SET, TypeCode.BIT, TypeCode.JSON, TypeCode.FLOAT)
_AT_ONCE = (ErrQueryInterrupted.code, ErrMaxExecTimeExceeded.code)
_LONGEST_LIST = 500
_LONGEST_SHOWN = 65_535
log = logging.getLogger(__name__)


class Shard(NamedTuple):
    """The shard column: its qualified name in the statement, its table, its type."""

    name: str
    table: str
    type: FieldType
    info: ColumnInfo | None


class BatchJob(NamedTuple):
    """The rows with a shard value in [start, end]. `id` counts from 1."""

    id: int
    start: Value
    end: Value
    size: int
    text: str

    def __str__(self) -> str:
        return f"job id: {self.id}, estimated size: {self.size}, sql: {self.text}"


def run_batch(session: SessionApi, node: NonTransactionalDml, text: str) -> Result:
    """Runs BATCH. Raises 1105 if BATCH is not allowed here, 8143, and errors of its first job."""
    alone, open_ = session.settings.autocommit, session.current is not None
    if not alone or open_:
        raise ErrUnknown(
            "non-transactional DML can only run in auto-commit mode. "
            f"auto-commit:{str(alone).lower()}, inTxn:{str(open_).lower()}",
        )
    if session.variable("tidb_snapshot"):
        raise ErrUnknown("can't do non-transactional DML when tidb_snapshot is set")
    _check_statement(node)
    jobs: list[BatchJob] = []
    answer: list[Result] = []

    def look(context: Context) -> Result:
        jobs.clear()
        planner.plan(node.statement, context)  # checks names and privileges
        shard = _shard_of(node, context)
        where = f"({node.where})" if node.where else "TRUE"
        order = f"IF(ISNULL({shard.name}),0,1),{shard.name}"
        query = f"SELECT {shard.name} FROM {node.source} WHERE {where} ORDER BY {order}"
        if node.dry_run == "query":
            answer.append(_texts("query statement", [query]))
        else:
            jobs.extend(_jobs(node, shard, query, context))
        return Result()

    session.run(look)
    if answer:
        return answer[0]
    if node.dry_run:
        ends = [jobs[0], *jobs[1:][-1:]] if jobs else []
        return _texts("split statement examples", [job.text for job in ends])
    _run(session, jobs)
    columns = [OutputColumn("number of jobs", BIGINT), OutputColumn("job status", text_type(64))]
    return Result(columns, [[len(jobs), "all succeeded"]])


def _texts(title: str, rows: Sequence[str]) -> Result:
    return Result([OutputColumn(title, text_type(_LONGEST_SHOWN))], [[row] for row in rows])


# -- checks ----------------------------------------------------------------------------------------


def _check_statement(node: NonTransactionalDml) -> None:
    statement = node.statement
    if isinstance(statement, Insert):
        if statement.query is None:
            raise ErrUnknown("Non-transactional insert supports insert select stmt only")
        query = statement.query
        if not isinstance(query, exp.Select) or not node.source or query.args.get("with_"):
            raise ErrUnknown("Non-transactional insert doesn't support non-select source")
        limit, order = query.args.get("limit"), query.args.get("order")
    else:
        limit, order = statement.limit, statement.order
    if limit is not None:
        raise ErrUnknown("Non-transactional statements don't support limit")
    if order is not None:
        raise ErrUnknown("Non-transactional statements don't support order by")
    if node.limit <= 0:
        raise ErrUnknown("Non-transactional DML, batch size should be positive")


# -- the shard column ------------------------------------------------------------------------------


def _tables(node: NonTransactionalDml) -> list[exp.Table]:
    """The tables of the statement, in order. Raises 1105 for a derived table."""
    statement = node.statement
    select = statement.query if isinstance(statement, Insert) else statement.source
    assert select is not None
    origin = select.args.get("from_") or select.args.get("from")
    waiting = [] if origin is None else [origin.this]
    waiting += [join.this for join in select.args.get("joins") or ()]
    tables = []
    for tree in waiting:
        if not isinstance(tree, exp.Table) or not isinstance(tree.this, exp.Identifier):
            raise ErrUnknown("Non-transactional DML, table name not found in join")
        tables.append(tree)
        nested = [join.this for join in tree.args.get("joins") or ()]
        if not all(isinstance(joined, exp.Table) for joined in nested):
            raise ErrUnknown("Non-transactional DML, table name not found in join")
        tables += nested
    if not tables:
        raise ErrUnknown("Non-transactional DML, no tables found in table refs")
    return tables


def _shard_of(node: NonTransactionalDml, context: Context) -> Shard:
    """The shard column.

    Raises 1105 if it is unknown, not indexed, or written by the statement. Raises 1054 if it is
    qualified with another table."""
    tables = _tables(node)
    tree = tables[0]
    if len(tables) > 1 and node.column:
        tree = _named(node, tables, context)
    elif not _means(node.column, tree, context):
        raise ErrBadField(".".join(node.column), "where clause")
    table = context.table(tree.db, tree.name)
    name = node.column[-1].lower() if node.column else _handle_of(table)
    info = None
    if name != ROW_ID or table.handle_positions:
        info = next((column for column in table.info.public_columns if column.name.L == name), None)
        if info is None:
            raise ErrUnknown(f"shard column {name} not found")
        if node.column and not _is_indexed(table, name):
            raise ErrUnknown(f"Non-transactional DML, shard column {name} is not indexed")
        if info.type.Tp in _UNORDERED:
            raise ErrUnknown(
                "Failed to restore the DML statement, probably because of unsupported type of the "
                "shard column",
            )
    alias = tree.alias or tree.name
    _check_written(node, name, alias, len(tables) == 1)
    column_name = info.name.O if info is not None else ROW_ID
    qualified = (
        name_text(column_name)
        if len(tables) == 1
        else f"{name_text(alias)}.{name_text(column_name)}"
    )
    return Shard(qualified, alias, BIGINT if info is None else info.type, info)


def _means(column: Sequence[str], tree: exp.Table, context: Context) -> bool:
    """Whether `[[database.]table.]column` may be a column of the table, by its alias if any."""
    database, named = (part.lower() for part in ("", "", *column[:-1])[-2:])
    of = context.database_of(tree.db).lower()
    return named in ("", (tree.alias or tree.name).lower()) and database in ("", of)


def _named(node: NonTransactionalDml, tables: Sequence[exp.Table], context: Context) -> exp.Table:
    if len(node.column) != 3:
        raise ErrUnknown(
            "Non-transactional DML, shard column must be fully specified (i.e. `BATCH ON "
            "dbname.tablename.colname`) when multiple tables are involved",
        )
    database, table_name, _ = (part.lower() for part in node.column)
    for tree in tables:
        of = context.database_of(tree.db).lower()
        if of == database and (tree.alias or tree.name).lower() == table_name:
            return tree
    name = ".".join(node.column).lower()
    text = f"shard column {name} is not in the tables involved in the join"
    raise ErrUnknown(f"Non-transactional DML, {text}")


def _handle_of(table: Table) -> str:
    positions = table.handle_positions
    if len(positions) > 1:
        raise ErrUnknown(
            "Non-transactional DML, the clustered index contains multiple columns. Please specify "
            "a shard column",
        )
    return table.info.cols[positions[0]].name.L if positions else ROW_ID


def _is_indexed(table: Table, name: str) -> bool:
    if [table.info.cols[position].name.L for position in table.handle_positions] == [name]:
        return True
    return any(
        index.state == SchemaState.PUBLIC
        and not index.is_invisible
        and index.holds_every_row
        and index.idx_cols[0].name.L == name
        for index in table.info.indexes
    )


def _check_written(node: NonTransactionalDml, name: str, alias: str, alone: bool) -> None:
    statement = node.statement
    pairs: Sequence[tuple[exp.Column, Any]] = ()
    if isinstance(statement, Update):
        pairs = statement.assignments
    elif isinstance(statement, Insert):
        pairs, alone = statement.on_duplicate, False
    for column, _ in pairs:
        here = column.table.lower() == alias.lower() or (alone and not column.table)
        if here and column.name.lower() == name:
            raise ErrUnknown("Non-transactional DML, shard column cannot be updated")


# -- the jobs --------------------------------------------------------------------------------------


def _jobs(
    node: NonTransactionalDml, shard: Shard, query: str, context: Context
) -> Iterator[BatchJob]:
    """Jobs of at least `limit` rows; rows with equal shard values are in one job."""
    number = size = 0
    start = end = ended = None
    for value in _values(query, context):
        key = _key(value, shard.type)
        if size >= node.limit and key != ended:
            number += 1
            yield BatchJob(number, start, end, size, _text(node, shard, start, end))
            size = 0
        if not size:
            start = value
        end, ended = value, key
        size += 1
    if size:
        yield BatchJob(number + 1, start, end, size, _text(node, shard, start, end))


def _values(query: str, context: Context) -> Iterator[Value]:
    tree = parse_one(query)
    assert isinstance(tree, exp.Query)
    for rows in planner.plan(tree, context).batches(context):
        for (value,) in rows:
            yield value
        context.session.check_interrupt()


def _key(value: Value, field: FieldType) -> object:
    """A key that is the same for equal values."""
    if isinstance(value, str) and field.family == Family.STRING:
        return sort_key(value, field.Collate)
    return value


def _text(node: NonTransactionalDml, shard: Shard, start: Value, end: Value) -> str:
    condition = _condition(shard, start, end)
    where = f"({condition}) AND ({node.where})" if node.where else condition
    return f"{node.head} WHERE {where} {node.tail}".rstrip()


def _condition(shard: Shard, start: Value, end: Value) -> str:
    if start is not None:
        return f"{shard.name} BETWEEN {_literal(start, shard.type)} AND {_literal(end, shard.type)}"
    if end is None:
        return f"{shard.name} IS NULL"
    return f"{shard.name} <= {_literal(end, shard.type)} OR {shard.name} IS NULL"


def _literal(value: Value, field: FieldType) -> str:
    family = field.family
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    if family in (Family.INT, Family.UINT):
        return str(int(value))
    if family == Family.FLOAT:
        return repr(float(value))
    if family == Family.DECIMAL:
        return to_text(value, field)
    return string_text(value if isinstance(value, str) else to_text(value, field))


def _run(session: SessionApi, jobs: Sequence[BatchJob]) -> None:
    failed: list[tuple[BatchJob, Refused]] = []
    ignores = session.variable("tidb_nontransactional_ignore_error") == "ON"
    outer = session.statement
    try:
        for job in jobs:
            done = job.id - 1 - len(failed)
            try:
                session.check_interrupt()
                session.statement = f"/* job {job.id}/{len(jobs)} */ {job.text}"
                session.run_statement(parse_one(job.text), job.text)
            except Refused as error:
                if error.code in _AT_ONCE:
                    note = f"{done} of {len(jobs)} jobs of the statement were done before"
                    raise Refused(error.code, error.state, error.message, note) from error
                failed.append((job, error))
                if job.id == 1:
                    early = "Early return: error occurred in the first job. All jobs are canceled"
                    raise Refused(error.code, error.state, f"{early}: {error.message}") from error
                if not ignores:
                    start, end = (_value_text(bound) for bound in (job.start, job.end))
                    where = (job.id, len(jobs), start, end)
                    raise ErrNonTransactionalJobFailure(*where, str(job), error.message) from error
    finally:
        session.statement = outer
    if failed:
        failures = ";\n".join(f"{job}, {error.message}" for job, error in failed)
        log.error("jobs of a BATCH failed", extra={"failed": len(failed), "jobs": failures})
        raise ErrUnknown(
            f"{len(failed)}/{len(jobs)} jobs failed in the non-transactional DML: "
            f"{failures[:_LONGEST_LIST]}, ...(more in logs)",
        )


def _value_text(value: Value) -> str:
    return "NULL" if value is None else str(value)
