"""A ColumnDefinition becomes a ColumnInfo, with MySQL's refusals.

Flags are TiDB's: NOT_NULL, PRI_KEY, UNIQUE_KEY, MULTIPLE_KEY, AUTO_INCREMENT, NO_DEFAULT_VALUE
(NOT NULL without a default), TIMESTAMP with ON_UPDATE_NOW; `int unsigned NOT NULL PRIMARY KEY` is
4131 (seed 001).
"""

from collections.abc import Sequence

from sqlglot import exp

from exuvia.base.limits import COLUMNS, IDENTIFIER_CHARS
from exuvia.base.mysql_errors import (
    ErrDupFieldName,
    ErrPrimaryCantHaveNull,
    ErrTableMustHaveColumns,
    ErrTooLongIdent,
    ErrTooManyFields,
    ErrUnknown,
    ErrUnsupportedOnGeneratedColumn,
    ErrWrongAutoKey,
    ErrWrongColumnName,
    ErrWrongDBName,
    ErrWrongFieldSpec,
    ErrWrongTableName,
    MySQLError,
)
from exuvia.base.types import INTEGER_BITS, FieldType, Flag, TypeCode
from exuvia.catalog.model import ColumnInfo, evolve, name
from exuvia.sql.define.column_defaults import with_default
from exuvia.sql.define.column_types import Inherited, field_type
from exuvia.sql.define.generated import check_generated, with_generation
from exuvia.sql.define.modes import STRICT, Modes
from exuvia.sql.nodes import ColumnDefinition

_COMMENT_CHARS = 1024


def check_name(text: str, wrong: MySQLError) -> str:
    """The identifier, if it may be one. Refused 1059, or `wrong`."""
    if not text or text != text.rstrip(" ") or "\0" in text:
        raise wrong(text)
    if wrong is ErrWrongColumnName and text.lower() == "_tidb_rowid":
        raise wrong(text)
    if len(text) > IDENTIFIER_CHARS:
        raise ErrTooLongIdent(text)
    return text


def check_place(written: ColumnDefinition, database: str, table: str) -> None:
    """What the name was written with is where the column is. Raises 1102, 1103."""
    if written.place[1:] and written.place[-2].lower() != database.lower():
        raise ErrWrongDBName(written.place[-2])
    if written.place and written.place[-1].lower() != table.lower():
        raise ErrWrongTableName(written.place[-1])


def column_info(
    written: ColumnDefinition,
    offset: int,
    inherited: Inherited,
    primary: bool,
    modes: Modes = STRICT,
) -> ColumnInfo:
    """The column, its id one more than its offset. `primary`: it is part of the primary key."""
    text = check_name(written.name, ErrWrongColumnName)
    kind = _with_flags(written, field_type(text, written.type, inherited, modes), primary)
    info = ColumnInfo(
        id=offset + 1,
        name=name(text),
        offset=offset,
        type=kind,
        comment=_comment(text, written.comment or ""),
    )
    if written.generated is not None:
        return with_generation(info, written)
    return with_default(info, written, modes)


def _with_flags(written: ColumnDefinition, kind: FieldType, primary: bool) -> FieldType:
    flag = kind.Flag
    if written.auto_increment:
        if kind.Tp not in INTEGER_BITS and kind.Tp not in (TypeCode.FLOAT, TypeCode.DOUBLE):
            raise ErrWrongFieldSpec(written.name)
        flag |= int(Flag.AUTO_INCREMENT | Flag.NOT_NULL)
    if primary:
        null = isinstance(written.default, exp.Null) and not written.primary
        if written.not_null is False or null:
            raise ErrPrimaryCantHaveNull()
        flag |= int(Flag.PRI_KEY | Flag.NOT_NULL)
    if written.not_null:
        flag |= int(Flag.NOT_NULL)
    if written.unique:
        flag |= int(Flag.UNIQUE_KEY)
    return evolve(kind, Flag=flag)


def _comment(column: str, text: str) -> str:
    if len(text) > _COMMENT_CHARS:
        raise ErrUnknown(f"Comment for field '{column}' is too long (max = {_COMMENT_CHARS})")
    return text


def column_infos(
    written: Sequence[ColumnDefinition],
    inherited: Inherited,
    primary: frozenset[str],
    may_read_auto: bool = False,
    modes: Modes = STRICT,
) -> tuple[ColumnInfo, ...]:
    """All columns of a new table; `primary` holds lower-case names.

    `may_read_auto`: generated columns may name the AUTO_INCREMENT column. Raises 1060, 1113, 1117,
    1075, and what define/generated.py refuses."""
    if not written:
        raise ErrTableMustHaveColumns()
    if len(written) > COLUMNS:
        raise ErrTooManyFields()
    seen: set[str] = set()
    for each in written:
        if each.name.lower() in seen:
            raise ErrDupFieldName(each.name)
        seen.add(each.name.lower())
    if sum(each.auto_increment for each in written) > 1:
        raise ErrWrongAutoKey()
    found = tuple(
        column_info(each, n, inherited, each.primary or each.name.lower() in primary, modes)
        for n, each in enumerate(written)
    )
    for column in found:
        if column.is_generated:
            check_generated(found, column, may_read_auto)
            if column.is_virtual and column.type.Flag & Flag.PRI_KEY:
                raise ErrUnsupportedOnGeneratedColumn(
                    "Defining a virtual generated column as primary key"
                )
    return found
