"""ALTER TABLE ADD COLUMN and DROP COLUMN, as jobs."""

from collections.abc import Sequence

from exuvia.base.limits import COLUMNS
from exuvia.base.mysql_errors import (
    ErrAddColumnWithSequenceAsDefault,
    ErrBadField,
    ErrCantDropFieldOrKey,
    ErrCantRemoveAllFields,
    ErrDependentByPartitionFunctional,
    ErrDupFieldName,
    ErrTableMustHaveColumns,
    ErrTooManyFields,
    ErrUnsupportedDDLOperation,
    ErrUnsupportedOnGeneratedColumn,
)
from exuvia.base.types import Flag, packed_moment
from exuvia.catalog.model import ColumnInfo, TableInfo
from exuvia.catalog.state import SchemaState
from exuvia.ddl import requests
from exuvia.ddl.elements import indexes_on_only
from exuvia.ddl.job import Job
from exuvia.sql.bind.zones import column_in
from exuvia.sql.define import check, foreign_key
from exuvia.sql.define.altering import Altering
from exuvia.sql.define.column_defaults import with_origin_default
from exuvia.sql.define.columns import check_place, column_info
from exuvia.sql.define.default_expressions import check_one_value
from exuvia.sql.define.generated import check_generated, check_independent
from exuvia.sql.define.partition_definition import partition_columns
from exuvia.sql.define.sequence_defaults import sequence_named
from exuvia.sql.nodes import AddColumn, ColumnDefinition, DropColumn


def add_column(at: Altering, spec: AddColumn) -> Job | None:
    """ADD COLUMN. Raises 1060, 1054 (AFTER an unknown column), 8200 (a key in the definition)."""
    written, table = spec.column, at.table
    check_place(written, at.database.db_name.O, table.name.O)
    held = table.column(written.name)
    if held is not None:
        error = ErrDupFieldName(written.name)
        if spec.if_not_exists and held.state == SchemaState.PUBLIC:
            return at.skip(error)
        raise error
    _refuse_constraints(at, written)
    if len(table.cols) >= COLUMNS:
        raise ErrTooManyFields()
    if spec.after and at.column(spec.after) is None:
        raise ErrBadField(spec.after, table.name.O)
    if written.default is not None and sequence_named(written.default) is not None:
        raise ErrAddColumnWithSequenceAsDefault(written.name)
    if written.default is not None and written.default_is_expr:
        check_one_value(written.default)
    info = column_info(written, len(table.cols), (table.charset, table.collate), False, at.modes)
    info = column_in(info, at.zone, None)
    if info.is_generated:
        _check_generated(at, info, spec.after)
    info = with_origin_default(info, packed_moment(at.session.services.clock.wall_ns()))
    return requests.add_column(at.database, table, info, spec.after, query=at.text)


def _refuse_constraints(at: Altering, written: ColumnDefinition) -> None:
    """No key comes with a column. Raises 8200."""
    found = (
        (written.auto_increment, "AUTO_INCREMENT"),
        (written.auto_random is not None, "AUTO_RANDOM"),
        (written.primary, "PRIMARY KEY"),
        (written.unique, "UNIQUE KEY"),
    )
    for given, constraint in found:
        if given:
            place = f"{at.database.db_name.O}.{at.table.name.O}"
            text = f"unsupported add column '{written.name}' constraint {constraint} "
            raise ErrUnsupportedDDLOperation.with_text(f"{text}when altering '{place}'")


def _check_generated(at: Altering, info: ColumnInfo, after: str | None) -> None:
    """The expression, where the column will stand. Raises 1054, 3107, 3109, 3106 (STORED)."""
    may_read = at.session.variable("tidb_enable_auto_increment_in_generated") == "ON"
    check_generated(_placed(at.table, info, after), info, may_read)
    if info.generated_stored:
        raise ErrUnsupportedOnGeneratedColumn("Adding generated stored column through ALTER TABLE")


def _placed(table: TableInfo, info: ColumnInfo, after: str | None) -> Sequence[ColumnInfo]:
    columns = list(table.cols)
    names = [each.name.L for each in columns]
    if after == "":
        place = 0
    elif after:
        place = names.index(after.lower()) + 1
    else:
        place = len(table.public_columns)
    columns.insert(place, info)
    return columns


def drop_column(at: Altering, spec: DropColumn) -> Job | None:
    """DROP COLUMN.

    Raises 1091, 1090, 1113, 3108 and 3837 (something is computed from it), 3522, 8200 (a column of
    the primary key or of an index of several)."""
    table, column = at.table, at.column(spec.name)
    if column is None:
        error = ErrCantDropFieldOrKey(spec.name)
        if spec.if_exists:
            return at.skip(error)
        raise error
    if len(table.public_columns) == 1:
        if any(each.hidden for each in table.cols):
            raise ErrTableMustHaveColumns()
        text = f"can't drop only column {column.name.O} in table {table.name.O}"
        raise ErrCantRemoveAllFields.with_text(text)
    check_independent(table, column)
    if table.partition is not None and column.name.L in partition_columns(table.partition):
        raise ErrDependentByPartitionFunctional(column.name.O)
    check.check_drop_column(at, column)
    foreign_key.check_drop_column(at, column)
    if table.pk_is_handle and column.type.Flag & Flag.PRI_KEY:
        raise ErrUnsupportedDDLOperation("drop integer primary key")
    _check_indexes(table, column)
    return requests.drop_column(at.database, table, spec.name, query=at.text)


def _check_indexes(table: TableInfo, column: ColumnInfo) -> None:
    alone = indexes_on_only(table, column.id)
    for index in table.indexes:
        if any(part.exuvia_column == column.id for part in index.idx_cols) and (
            index.is_primary or index.id not in alone
        ):
            name = column.name.O
            text = f"can't drop column {name} with composite index covered or Primary Key covered"
            raise ErrUnsupportedDDLOperation.with_text(f"{text} now")
