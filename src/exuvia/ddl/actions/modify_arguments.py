"""What a MODIFY COLUMN job carries in its arguments, and what of it is known only once it runs.

raw_args[0]   Modification; the first step puts in the ids of what it places
"""

import msgspec

from exuvia.base.types import FieldType, Flag
from exuvia.catalog.change import Kind, kind_of
from exuvia.catalog.model import ColumnInfo, IndexInfo, TableInfo, evolve
from exuvia.ddl.job import Job

_KEY_FLAGS = int(Flag.PRI_KEY | Flag.UNIQUE_KEY | Flag.MULTIPLE_KEY)


class Modification(msgspec.Struct, frozen=True, kw_only=True):
    """MODIFY or CHANGE COLUMN, or a rename. Names of fields as TiDB's where it has them.

    `column` is as asked for, with the id of the column it changes; `after` is the neighbour's
    name, "" for FIRST, None to stay. `changing_idxs`: (index, its hidden copy)."""

    column: ColumnInfo
    old_column_name: str
    old_type: FieldType
    kind: Kind = Kind.METADATA
    strict: bool = True
    after: str | None = None
    null_value: int | None = None
    changing_column_id: int = 0
    changing_idxs: tuple[tuple[int, int], ...] = ()


def modification_of(job: Job) -> Modification:
    """The job's arguments."""
    return msgspec.convert(job.raw_args[0], Modification)


def with_modification(job: Job, found: Modification) -> Job:
    """The job with other arguments."""
    return evolve(job, raw_args=(msgspec.to_builtins(found),))


def indexes_with(table: TableInfo, column_id: int) -> tuple[IndexInfo, ...]:
    """The indexes that hold the column."""
    return tuple(
        index
        for index in table.indexes
        if any(part.exuvia_column == column_id for part in index.idx_cols)
    )


def without_keys(field: FieldType) -> FieldType:
    """A type without the flags that follow from the table's indexes."""
    return evolve(field, Flag=field.Flag & ~_KEY_FLAGS)


def is_still_meant(found: Modification, table: TableInfo, column: ColumnInfo) -> bool:
    """Whether the kind chosen when the statement was read is the one the table calls for now."""
    if without_keys(column.type) != without_keys(found.old_type):
        return False
    indexed = bool(indexes_with(table, column.id))
    kind = kind_of(column.type, found.column.type, indexed, found.strict)
    if kind == Kind.PRECHECKED:
        return found.kind in (Kind.CHECKED, Kind.ROWS)
    return kind == found.kind
