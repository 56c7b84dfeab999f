"""What constraints hold fast: columns, indexes and tables that may not go or change.

1828 1829  DROP COLUMN of a key, of its own table or of another's       3959  or of a CHECK
1553       DROP INDEX that a key needs, on either side
1832 1833 3780   MODIFY COLUMN of a key to something narrower or of another type
3730 1701  DROP and TRUNCATE of a table that another one refers to (not with
           foreign_key_checks=OFF)
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from exuvia.base.mysql_errors import (
    ErrDependentByCheckConstraint,
    ErrDropIndexNeededInForeignKey,
    ErrFkColumnCannotDrop,
    ErrFkColumnCannotDropChild,
    ErrFKIncompatibleColumns,
    ErrForeignKeyCannotDropParent,
    ErrForeignKeyColumnCannotChange,
    ErrForeignKeyColumnCannotChangeChild,
    ErrTruncateIllegalForeignKey,
)
from exuvia.base.types import TypeCode
from exuvia.catalog import references
from exuvia.catalog.constraint_info import FkInfo
from exuvia.catalog.model import ColumnInfo, IndexInfo, TableInfo
from exuvia.catalog.table import Table
from exuvia.kv.transaction import Transaction
from exuvia.sql.define.altering import Altering
from exuvia.sql.define.constraints_alter import keys_are_checked
from exuvia.sql.define.constraints_foreign import covered
from exuvia.sql.session.running import Running
from exuvia.sql.write.foreign_keys_sides import key_linked, ref_ids


class Referring(NamedTuple):
    """A key of another table, or of the same, and the columns here that it refers to."""

    child: Table
    key: FkInfo
    columns: tuple[int, ...]


def referring(session: Running, txn: Transaction, info: TableInfo) -> Iterator[Referring]:
    """The keys that refer to the table."""
    table = session.services.schemas.table_by_id(txn, info.id)
    for each in info.exuvia_referred:
        child_id = references.child_of(txn, each.link)
        child = session.services.schemas.table_by_id(txn, child_id) if child_id else None
        key = key_linked(child.info, each.link) if child is not None else None
        if child is not None and key is not None and key.version and table is not None:
            yield Referring(child, key, ref_ids(key, table))


def check_drop_column(at: Altering, column: ColumnInfo) -> None:
    """Raises 3959, 1828, 1829."""
    for check in at.table.checks:
        names = [each.L for each in check.constraint_cols]
        if column.name.L in names and len(names) > 1:
            raise ErrDependentByCheckConstraint(check.constraint_name.O, column.name.O)
    if not keys_are_checked(at.session):
        return
    for key in at.table.foreign_keys:
        if column.id in key.exuvia_cols:
            raise ErrFkColumnCannotDrop(column.name.O, key.fk_name.O)
    for each in referring(at.session, at.txn, at.table):
        if column.id in each.columns:
            raise ErrFkColumnCannotDropChild(
                column.name.O, each.key.fk_name.O, each.child.info.name.O
            )


def check_drop_index(at: Altering, index: IndexInfo, gone: Sequence[int] = ()) -> None:
    """Raises 1553. `gone`: other indexes that go in the same statement."""
    if not keys_are_checked(at.session):
        return
    without = (index.id, *gone)
    first = [part.exuvia_column for part in index.idx_cols]
    needed = [(key.exuvia_cols, key.version) for key in at.table.foreign_keys]
    needed += [(each.columns, 1) for each in referring(at.session, at.txn, at.table)]
    for columns, version in needed:
        serves = first[: len(columns)] == list(columns)
        names = [c.name for n in columns for c in at.table.cols if c.id == n]
        if version and serves and not covered(at.table, names, without):
            raise ErrDropIndexNeededInForeignKey(index.idx_name.O)


def check_modify(at: Altering, old: ColumnInfo, new: ColumnInfo) -> None:
    """Raises 1832, 1833, 3780."""
    before, after = old.type, new.type
    same = (before.Tp, before.Flen, before.Decimal) == (after.Tp, after.Flen, after.Decimal)
    if same or not keys_are_checked(at.session):
        return
    schemas = at.session.services.schemas
    for key in at.table.foreign_keys:
        parent = schemas.table_by_id(at.txn, references.parent_of(at.txn, key.exuvia_link))
        if old.id not in key.exuvia_cols or parent is None:
            continue
        theirs = ref_ids(key, parent)[key.exuvia_cols.index(old.id)]
        column = parent.info.column_by_id(theirs)
        if column is not None and column.type.Tp != after.Tp:
            raise ErrFKIncompatibleColumns(new.name.O, column.name.O, key.fk_name.O)
        if _narrows(old, new):
            raise ErrForeignKeyColumnCannotChange(old.name.O, key.fk_name.O)
    for each in referring(at.session, at.txn, at.table):
        if old.id in each.columns:
            _check_parent(each, old, new)


def _check_parent(each: Referring, old: ColumnInfo, new: ColumnInfo) -> None:
    own = each.key.exuvia_cols[each.columns.index(old.id)]
    column = each.child.info.column_by_id(own)
    if column is not None and column.type.Tp != new.type.Tp:
        raise ErrFKIncompatibleColumns(column.name.O, old.name.O, each.key.fk_name.O)
    if _narrows(old, new):
        place = f"{each.child.database.db_name.L}.{each.child.info.name.L}"
        raise ErrForeignKeyColumnCannotChangeChild(old.name.O, each.key.fk_name.O, place)


_INTEGERS = (TypeCode.TINY, TypeCode.SHORT, TypeCode.INT24, TypeCode.LONG, TypeCode.LONGLONG)


def _narrows(old: ColumnInfo, new: ColumnInfo) -> bool:
    if new.type.Tp in _INTEGERS:
        return False
    return new.type.Tp == TypeCode.NEWDECIMAL or new.type.Flen < old.type.Flen


def check_drop_tables(session: Running, txn: Transaction, tables: Sequence[TableInfo]) -> None:
    """Raises 3730 where a table that stays refers to one of these."""
    if not keys_are_checked(session):
        return
    going = {table.id for table in tables}
    for table in tables:
        for each in referring(session, txn, table):
            if each.child.info.id not in going:
                raise ErrForeignKeyCannotDropParent(
                    table.name.O, each.key.fk_name.O, each.child.info.name.O
                )


def check_drop_database(session: Running, txn: Transaction, name: str) -> None:
    """Raises 3730 where a table of another database refers to one of this."""
    if keys_are_checked(session):
        check_drop_tables(session, txn, list(session.services.schemas.tables(txn, name)))


def check_truncate(session: Running, txn: Transaction, table: TableInfo) -> None:
    """Raises 1701 where another table refers to it."""
    if not keys_are_checked(session):
        return
    for each in referring(session, txn, table):
        child = each.child
        if child.info.id != table.id:
            names = (child.database.db_name.O, child.info.name.O, each.key.fk_name.O)
            raise ErrTruncateIllegalForeignKey("`{}`.`{}` CONSTRAINT `{}`".format(*names))
