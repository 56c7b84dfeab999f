"""Detects table changes between planning a statement and the first step of its job.

    ALTER TABLE, built in a snapshot  --seen_by-->  Job.exuvia_seen: ((fact, checksum), ...)
    other jobs of the table end in the meantime
    the job's first look              --has_changed-->  1412, nothing was done

A session validates a change, and chooses how to do it, by the table that it reads. Earlier jobs in
the queue may change that table. Missing or existing names are checked by each action's own rules.
The facts here are those that these rules do not check, by `Action.uses`:

    use column c       its type, as far as an index or an expression on it depends on it
    use type c         its type (for a partial index's predicate)
    use key c          its type, and the indexes on it (for a foreign key)
    modify, drop       the column, and all that names it: indexes, generated columns, checks,
                       foreign keys of either side, the partitioning
    drop index i       the index, and foreign keys of either side
    use table          types of all columns, unique keys, and all that binds several columns

A session that waits for its statement builds it again (sql/session/schema_change.py). A job without
a waiting session (exuvia_ddl_async) ends with 1412.
"""

from collections.abc import Callable, Iterable, Iterator
from zlib import crc32

import msgspec

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import ErrTableDefChanged
from exuvia.base.types import Family, FieldType, Flag
from exuvia.catalog.convert.type_change import is_string
from exuvia.catalog.model import ColumnInfo, IndexInfo, PartitionInfo, TableInfo
from exuvia.ddl.action import ElementUse
from exuvia.ddl.actions import kind_of
from exuvia.ddl.job import Job
from exuvia.ddl.multi_schema_change import sub_jobs
from exuvia.ddl.snapshot import CatalogSnapshot

_NOT_OF_TYPE = Flag.PRI_KEY | Flag.UNIQUE_KEY | Flag.MULTIPLE_KEY | Flag.NO_DEFAULT_VALUE

Seen = tuple[tuple[str, int], ...]


def seen_by(job: Job, table: TableInfo) -> Seen:
    """The facts of its table that the job's statement depends on. The job has not begun."""
    uses = (use for sub in sub_jobs(job) if (of := kind_of(sub).uses) for use in of(sub))
    facts = dict.fromkeys(what for use in uses for what in _looked_at(use, table))
    return tuple((what, _sum(table, what)) for what in facts)


def has_changed(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """1412 if a fact has changed before the job's first step, or None."""
    table = snapshot.table
    if job.begun or table is None:
        return None
    changed = any(_sum(table, what) != checksum for what, checksum in job.exuvia_seen)
    return ErrTableDefChanged() if changed else None


def _looked_at(use: ElementUse, table: TableInfo) -> Iterator[str]:
    """The facts that a use depends on, as texts."""
    if (use.verb, use.noun) in _FACTS:
        yield f"{use.verb} {use.noun} {use.name}"
    if use.noun == "table":
        for column in table.public_columns:
            yield f"use type {column.name.L}"


def _sum(table: TableInfo, what: str) -> int:
    verb, noun, name = what.split(" ", 2)
    facts = _FACTS[verb, noun](table, name)
    return crc32(msgspec.json.encode(facts))


# -- facts, which must be the same in every release ------------------------------------------------


def _kind(field: FieldType) -> object:
    """The part of a type that keys of an index depend on: for prefixes, byte lengths, functions."""
    if field.family == Family.JSON:
        return "json"
    return (field.Charset, field.Flen) if is_string(field) else "number or moment"


def _type(field: FieldType) -> object:
    flags = int(field.Flag & ~_NOT_OF_TYPE)
    return [field.Tp, flags, field.Flen, field.Decimal, field.Charset, field.Collate, field.Elems]


def _used(table: TableInfo, name: str) -> object:
    column = table.column(name)
    return None if column is None else _kind(column.type)


def _typed(table: TableInfo, name: str) -> object:
    column = table.column(name)
    return None if column is None else _type(column.type)


def _keyed(table: TableInfo, name: str) -> object:
    column = table.column(name)
    return None if column is None else [_type(column.type), *_indexes(table, column)]


def _modified(table: TableInfo, name: str) -> object:
    column = table.column(name)
    if column is None:
        return None
    return [
        [column.id, _type(column.type), column.default, column.default_bit, column.default_is_expr],
        column.id in table.key_columns,
        *_indexes(table, column),
        *(
            referring.name.L
            for referring in table.cols
            if name in map(str.lower, referring.dependences or ())
        ),
        *(check.constraint_name.L for check in table.checks if _names(check.constraint_cols, name)),
        *(key.fk_name.L for key in table.foreign_keys if column.id in key.exuvia_cols),
        *(link.link for link in table.exuvia_referred if column.id in link.columns),
        _cut(table.partition),
    ]


def _dropped_index(table: TableInfo, name: str) -> object:
    index = table.index(name)
    return None if index is None else [_index(index), *_foreign_keys(table)]


def _whole(table: TableInfo, _: str) -> object:
    return [
        [table.charset, table.collate, *table.key_columns],
        *(_index(index) for index in table.indexes if index.is_unique),
        *([check.constraint_name.L, check.expr_string] for check in table.checks),
        *_foreign_keys(table),
        _cut(table.partition),
    ]


_FACTS: dict[tuple[str, str], Callable[[TableInfo, str], object]] = {
    ("use", "column"): _used,
    ("use", "type"): _typed,
    ("use", "key"): _keyed,
    ("modify", "column"): _modified,
    ("drop", "column"): _modified,
    ("drop", "index"): _dropped_index,
    ("use", "table"): _whole,
}


def _names(names: Iterable[object], name: str) -> bool:
    return any(getattr(column_name, "L", None) == name for column_name in names)


def _indexes(table: TableInfo, column: ColumnInfo) -> list[object]:
    return [
        _index(index)
        for index in table.indexes
        if any(part.exuvia_column == column.id for part in index.idx_cols)
        or any(term.exuvia_column == column.id for term in index.exuvia_predicate)
    ]


def _index(index: IndexInfo) -> object:
    parts = [[part.name.L, part.length] for part in index.idx_cols]
    return [parts, index.is_unique, index.is_primary, index.is_global, index.is_partial]


def _foreign_keys(table: TableInfo) -> list[object]:
    own = [[key.fk_name.L, *key.exuvia_cols] for key in table.foreign_keys]
    return [*own, *([link.link, *link.columns] for link in table.exuvia_referred)]


def _cut(partition: PartitionInfo | None) -> object:
    if partition is None:
        return None
    columns = [column.L for column in partition.columns]
    return [int(partition.type), partition.expr, columns, len(partition.definitions)]
