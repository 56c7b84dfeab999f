"""MODIFY COLUMN: the cost of a change of a column's type, and the conversion of its values.

    from                  to                                             kind
    any                   the same storage, nothing lost                 METADATA
    integer               wider or equal, same sign                      METADATA
    integer               narrower                                       CHECKED
    integer               the other sign                                 CHECKED; indexed: INDEXES
    DECIMAL               another precision, scale or sign               ROWS
    FLOAT, DOUBLE         each other, fewer digits, the other sign       ROWS
    ENUM, SET             more elements at the end                       METADATA
    ENUM, SET             any other elements                             ROWS
    DATETIME .. TIME      fewer digits: ROWS                             more: METADATA
    CHAR, VARCHAR, TEXT   longer                                         METADATA
    CHAR, VARCHAR, TEXT   shorter, or a charset of fewer characters      CHECKED
    VARCHAR, TEXT         CHAR: its values end in no space               PRECHECKED
    CHAR                  VARCHAR, TEXT  as long: METADATA               shorter: CHECKED
    BINARY(n)             another length: it is filled up with zeros     ROWS
    anything else                                                        ROWS
    NULL                  NOT NULL, if METADATA would suffice            CHECKED

    METADATA    one step                          CHECKED   writers enforce the new type, rows are
                                                            read
    INDEXES     rows stay, indexes are rebuilt    ROWS      a hidden column is filled, then swapped
    PRECHECKED  CHECKED if the values allow it, else ROWS

Rows name their layout and are cast when read (catalog/codec/row_codec.py), so a number's new width
or sign rewrites nothing. In a lenient sql_mode values are adjusted: then ROWS replaces CHECKED.

A value is converted, or refused with the text of MODIFY COLUMN:

    Change(position, source, convert, not_null)      the duty of writers for a changing column
        position == source   a public column with a future type: the value must fit both
        else                 a hidden column: the converted value of the column it replaces
        former_at            the value at this position, if the row has one, is used instead (UNDO)
        BACK                 a replaced column: the value converted back
        computed             a hidden column: the value of its expression
        is_numbered          a hidden column: the next AUTO_INCREMENT id, constant from then on

A replaced column has the former values of another column, whose id is KEPT_OF in
`change_state_info`. It has them in rows in which that column has not changed since. With BACK, a
transaction that began before the swap may still read it. A writer that changes the other column, or
inserts a row, converts the value back. If no value of the old type becomes this one, it is NULL.
Later the column is removed, or left for UNDO, and these writers write NULL (catalog/writer.py).

With LENIENT in `change_state_info` (no strict sql_mode) only NULL is refused. A conversion follows
assignment in strict mode (catalog/convert), with two exceptions for BIT. Its text is that of its
number, and its JSON is the string of its bytes. Dates and times are converted with the settings of
the statement's session (Moments, below), in any process and at any time. The text of a refusal is
TiDB's for the CAST that failed:

    to integers    1690 constant 300 overflows tinyint         from text: 1292 Truncated ..
    to DECIMAL     1690 DECIMAL value is out of range in ..    to dates   1292 Incorrect datetime ..
    JSON           1292 Truncated incorrect INTEGER value: '[1]'   also FLOAT, DECIMAL
    to text, ENUM  1265 Data truncated for column 'c', value is 'x'
    to YEAR        1264 Out of range value for column 'c', the value is 'x'

Many values at once: type_change_batch.py.
"""

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from enum import IntEnum
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from exuvia.base.decoding import from_builtins
from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import (
    ErrBadNull,
    ErrDataOutOfRange,
    ErrDataTooLong,
    ErrTruncatedWrongValue,
    ErrWarnDataOutOfRange,
    WarnDataTruncated,
)
from exuvia.base.types import (
    INTEGER_BITS,
    STRINGS,
    TEXT_BLOBS,
    Family,
    FieldType,
    Flag,
    TypeCode,
    Value,
)
from exuvia.catalog import decimals, jsontext
from exuvia.catalog.collation import collation
from exuvia.catalog.convert.values import (
    COLUMN,
    ROW,
    Mode,
    convert,
    has_all_of,
    leading_number,
    narrowed,
    number_of,
    to_text,
    unfilled,
)
from exuvia.catalog.model import DUTIES, ColumnInfo, IndexColumn, TableInfo, evolve
from exuvia.catalog.temporal import zone_of

_CHARACTER_BYTES = 4
_TIMES = (TypeCode.DATETIME, TypeCode.TIMESTAMP, TypeCode.TIME)
_FIXED_POINT = (TypeCode.FLOAT, TypeCode.DOUBLE)


class ChangeKind(IntEnum):
    """The cost of a change of type, as in the module's table."""

    METADATA = 0
    CHECKED = 1
    INDEXES = 2
    ROWS = 3
    PRECHECKED = 4


def kind_of(
    old: FieldType, new: FieldType, indexed: bool = False, strict: bool = True
) -> ChangeKind:
    """The kind of a change of type. `indexed`: an index has the column."""
    kind = _of_types(old, new, indexed)
    if kind == ChangeKind.METADATA and new.not_null and not old.not_null:
        return ChangeKind.CHECKED
    if kind != ChangeKind.METADATA and not strict:
        return ChangeKind.ROWS
    return kind


def _of_types(old: FieldType, new: FieldType, indexed: bool) -> ChangeKind:
    if old.Tp in INTEGER_BITS and new.Tp in INTEGER_BITS:
        return _of_integers(old, new, indexed)
    if is_string(old) and is_string(new) and old.family == new.family:
        is_sorted_anew = indexed and not _sort_alike(old.Collate, new.Collate)
        return ChangeKind.ROWS if is_sorted_anew else _of_strings(old, new)
    if old.Tp != new.Tp or old.family != new.family:
        return ChangeKind.ROWS
    return ChangeKind.METADATA if _holds(old, new) else ChangeKind.ROWS


def _of_integers(old: FieldType, new: FieldType, indexed: bool) -> ChangeKind:
    if old.unsigned != new.unsigned:
        return ChangeKind.INDEXES if indexed else ChangeKind.CHECKED
    wider = INTEGER_BITS[TypeCode(new.Tp)] >= INTEGER_BITS[TypeCode(old.Tp)]
    return ChangeKind.METADATA if wider else ChangeKind.CHECKED


def _of_strings(old: FieldType, new: FieldType) -> ChangeKind:
    fixed = TypeCode.STRING in (old.Tp, new.Tp)
    if old.family == Family.BYTES and fixed:
        return ChangeKind.METADATA if (old.Tp, old.Flen) == (new.Tp, new.Flen) else ChangeKind.ROWS
    if old.Tp != new.Tp and new.Tp == TypeCode.STRING:
        return ChangeKind.PRECHECKED
    whole = _fits(old, new) and has_all_of(new.Charset, old.Charset)
    return ChangeKind.METADATA if whole else ChangeKind.CHECKED


def _sort_alike(collate: str, other: str) -> bool:
    """Whether texts have the same keys under both collations."""
    one, two = collation(collate), collation(other)
    return (one.fold, one.pads) == (two.fold, two.pads)


def _fits(old: FieldType, new: FieldType) -> bool:
    """Whether the longest value of a string type fits the other. TEXT and BLOB count bytes."""
    if new.Tp in TEXT_BLOBS and old.Tp not in TEXT_BLOBS:
        return new.Flen >= old.Flen * (1 if old.family == Family.BYTES else _CHARACTER_BYTES)
    return new.Flen >= old.Flen


def _holds(old: FieldType, new: FieldType) -> bool:
    """Whether every value of a type fits the other; both have one type code."""
    if new.Tp == TypeCode.NEWDECIMAL:
        return (old.Flen, old.Decimal, old.unsigned) == (new.Flen, new.Decimal, new.unsigned)
    if new.Tp in (TypeCode.ENUM, TypeCode.SET):
        old_count = len(old.Elems or ())
        return (new.Elems or ())[:old_count] == (old.Elems or ())
    if new.Tp in _FIXED_POINT:
        shorter = new.Decimal >= 0 and (new.Flen < old.Flen or new.Decimal < old.Decimal)
        rounds = new.Decimal >= 0 > old.Decimal
        return old.unsigned == new.unsigned and not shorter and not rounds
    if new.Tp in _TIMES:
        return max(new.Decimal, 0) >= max(old.Decimal, 0)
    return new.Flen >= old.Flen or new.Tp != TypeCode.BIT


def is_string(field: FieldType) -> bool:
    """Whether the type is CHAR, VARCHAR, TEXT or a binary one of them."""
    return field.Tp in STRINGS


# -- a value whose column changes ---------------------------------------------------------------

Convert = Callable[[Value], Value]

# in `change_state_info`; LEFT: `exuvia_changing_type` is the former type, which is not enforced
OLD_COLUMN, NULL_VALUE, LEFT = "exuvia_column", "exuvia_null", "exuvia_left"
LENIENT, MOMENTS = "exuvia_lenient", "exuvia_moments"
# EXPRESSION: the future expression of a generated column; TOGETHER: ids of the columns that change
# in the same statement
EXPRESSION, TOGETHER = "exuvia_expression", "exuvia_together"
# KEPT_OF: the id of the column whose former values it has. KEPT: for a column that UNDO fills, the
# id of the column with the former values
KEPT_OF, KEPT = "exuvia_kept_of", "exuvia_kept"
# BACK: set for a replaced column while transactions may read it
BACK = "exuvia_back"
# for hidden columns without a source column. NUMBERED: each row gets the next AUTO_INCREMENT id.
# COMPUTED: the value of its expression over the future columns
NUMBERED, COMPUTED = "exuvia_numbered", "exuvia_computed"
_INTEGERS = {
    TypeCode.TINY: "tinyint",
    TypeCode.SHORT: "smallint",
    TypeCode.INT24: "mediumint",
    TypeCode.LONG: "int",
    TypeCode.LONGLONG: "bigint",
}
_ALL, _HALF = (1 << 64) - 1, 1 << 63
_TEXTS = (Family.STRING, Family.BYTES)
_MOMENTS = {
    TypeCode.DATE: "date",
    TypeCode.DATETIME: "datetime",
    TypeCode.TIMESTAMP: "timestamp",
    TypeCode.TIME: "time",
}


def is_by_arrays(old: FieldType, new: FieldType) -> bool:
    """Whether type_change_batch.py converts ordinary values of these types by arrays; else each
    distinct value once."""
    if old.Tp in INTEGER_BITS:
        numbers = new.Tp in INTEGER_BITS or new.Tp == TypeCode.DOUBLE
        return numbers or new.family in (Family.DECIMAL, Family.STRING)
    if old.family == Family.STRING:
        return new.Tp in INTEGER_BITS or new.family == Family.STRING
    both = old.family == new.family == Family.BYTES
    return both and TypeCode.STRING not in (old.Tp, new.Tp)


class Moments(msgspec.Struct, frozen=True):
    """The session settings for a change of dates and times.

    `zone`: that of a TIMESTAMP, as in time_zone. `today`: the packed date for a TIME. `zero_dates`,
    `any_day` and `zero_parts` as in values.Mode. Stored in the hidden column's `change_state_info`
    (MOMENTS) if it has an effect."""

    zone: str = ""
    today: int = 0
    zero_dates: bool = False
    any_day: bool = False
    zero_parts: bool | None = None

    def mode(self) -> Mode:
        zone = zone_of(self.zone)
        return Mode(self.zero_dates, self.any_day, zone, self.today, self.zero_parts)

    def of(self, old: FieldType, new: FieldType) -> "Moments":
        """The settings that have an effect between these types; others have their defaults."""
        local = TypeCode.TIMESTAMP in (old.Tp, new.Tp) and old.Tp != new.Tp
        dated = new.family in (Family.DATE, Family.DATETIME)
        written = dated and old.family in (*_TEXTS, Family.JSON)
        matters = (local or written) and zone_of(self.zone) is not None
        return Moments(
            self.zone if matters else "",
            self.today if dated and old.family == Family.TIME else 0,
            dated and self.zero_dates,
            dated and self.any_day,
            self.zero_parts if dated else None,
        )


PLAIN_MOMENTS = Moments()


def is_converted_differently(old: FieldType, new: FieldType, moments: Moments) -> bool:
    """Whether releases up to 0.4.0 convert it to other values, or refuse it."""
    numbers = (Family.INT, Family.UINT, Family.DECIMAL, Family.FLOAT)
    times = (Family.DATE, Family.DATETIME, Family.TIME)
    from_json = old.family == Family.JSON and new.family in (*numbers, *times)
    bits = old.Tp == TypeCode.BIT and new.family == Family.JSON
    rounded = old.family == Family.FLOAT and new.Tp == TypeCode.BIT
    return from_json or bits or rounded or moments.of(old, new) != PLAIN_MOMENTS


class Computation(NamedTuple):
    """The computation of a COMPUTED column's value from a row. `reads`: positions of stored
    columns."""

    reads: tuple[int, ...]
    value: Callable[[Sequence[Value]], Value]


class ColumnChange(NamedTuple):
    """The duty of a writer for one column, as in the module's text.

    `null`: the replacement of NULL, or None if NULL is refused. `former_at`: the position of former
    values, or -1. `computed`: for a COMPUTED column. `is_numbered`: for a NUMBERED column; the
    owner of the table's ids sets its number (autoid.py)."""

    position: int
    source: int
    convert: Convert
    not_null: bool
    name: str
    null: Value = None
    old: FieldType | None = None
    new: FieldType | None = None
    former_at: int = -1
    computed: Computation | None = None
    is_numbered: bool = False

    def of(self, value: Value) -> Value:
        """The converted value. Raises 1048 for NULL, and the errors of the module's text."""
        if value is not None:
            return self.convert(value)
        if self.not_null and self.null is None:
            raise ErrBadNull(self.name)
        return self.null


def changes_of(
    info: TableInfo, computed: Mapping[int, Computation] = MappingProxyType({})
) -> tuple[ColumnChange, ...]:
    """The duties of writers for changing columns; nearly always none. `computed`: by position, each
    after those it reads."""
    changes = [
        _narrowing(at, column)
        for at, column in enumerate(info.cols)
        if column.exuvia_changing_type and LEFT not in (column.change_state_info or {})
    ]
    changes += _hidden_changes(info, computed, adds=True)
    return tuple(changes)


def coming_changes_of(
    info: TableInfo, computed: Mapping[int, Computation] = MappingProxyType({})
) -> tuple[ColumnChange, ...]:
    """The future duties of writers for columns whose state does not add yet."""
    return tuple(_hidden_changes(info, computed, adds=False))


def _hidden_changes(
    info: TableInfo, computed: Mapping[int, Computation], adds: bool
) -> list[ColumnChange]:
    converted, numbered, former = [], [], []
    for at, element in enumerate(info.cols):
        change = element.change_state_info or {}
        if DUTIES[element.state].adds != adds:
            continue
        if NUMBERED in change:
            numbered.append(_without_source(at, element)._replace(is_numbered=True))
        elif OLD_COLUMN in change and COMPUTED not in change:
            converted.append(_converted_column(info, at, element))
        elif BACK in change and adds:
            former.append(_former_column(info, at, element))
    last = [
        _without_source(at, info.cols[at])._replace(computed=element)
        for at, element in computed.items()
        if DUTIES[info.cols[at].state].adds == adds
    ]
    return [*numbered, *converted, *last, *former]


def _without_source(at: int, column: ColumnInfo) -> ColumnChange:
    """A change without a source column."""
    types = column.type, column.type
    return ColumnChange(at, at, _as_is, column.not_null, column.name.O, None, *types)


def _as_is(value: Value) -> Value:
    return value


def _narrowing(at: int, column: ColumnInfo) -> ColumnChange:
    new = column.exuvia_changing_type
    assert new is not None
    convert_it = converter(column.type, new, column.name.O)
    return ColumnChange(at, at, convert_it, new.not_null, column.name.O, None, column.type, new)


def _converted_column(info: TableInfo, at: int, column: ColumnInfo) -> ColumnChange:
    change = column.change_state_info or {}
    source, old = next((n, c) for n, c in enumerate(info.cols) if c.id == change[OLD_COLUMN])
    name = old.name.O
    moments = from_builtins(change.get(MOMENTS, {}), Moments)
    convert_it = converter(old.type, column.type, name, lenient=LENIENT in change, moments=moments)
    null = change.get(NULL_VALUE)
    former_at = next((n for n, c in enumerate(info.cols) if c.id == change.get(KEPT)), -1)
    types = old.type, column.type
    return ColumnChange(at, source, convert_it, column.not_null, name, null, *types, former_at)


def _former_column(info: TableInfo, at: int, column: ColumnInfo) -> ColumnChange:
    """The change of a replaced column, from the column that clients write."""
    change = column.change_state_info or {}
    source, new = next((n, c) for n, c in enumerate(info.cols) if c.id == former_of(column))
    moments = from_builtins(change.get(MOMENTS, {}), Moments)
    convert_it = converter(column.type, new.type, new.name.O, moments=moments)
    back = partial(
        _former, converter(new.type, column.type, new.name.O, moments=moments), convert_it
    )
    return ColumnChange(
        at, source, back, False, new.name.O, None, new.type, column.type, former_at=at
    )


def _former(back: Convert, convert_it: Convert, value: Value) -> Value:
    """The value that is converted to this one, or None.

    So two rows have the same one only if they have the same new value. By a collation or on a
    prefix, they may nevertheless have the same key in an old index."""
    try:
        former = back(value)
        return former if convert_it(former) == value else None
    except Refused:
        return None


def former_of(column: ColumnInfo) -> int:
    """Id of the column whose former values it has, or 0."""
    former_id = (column.change_state_info or {}).get(KEPT_OF, 0)
    return former_id if isinstance(former_id, int) else 0


def applied(changes: Sequence[ColumnChange], row: list[Value]) -> list[Value]:
    """The row for writing, as a new list: every changing column is converted."""
    changed = list(row)
    for change in changes:
        if change.is_numbered:
            continue
        if change.computed is not None:
            changed[change.position] = change.computed.value(changed)
            continue
        former = row[change.former_at] if change.former_at >= 0 else None
        value = change.of(row[change.source]) if former is None else former
        changed[change.position] = value
    return changed


def keyed_type(column: ColumnInfo, part: IndexColumn) -> FieldType:
    """The type of an index part's keys; for an array, that of its elements."""
    if part.exuvia_array is not None:
        return part.exuvia_array
    return (part.exuvia_using_changing_type and column.exuvia_changing_type) or column.type


def has_other_keys(column: ColumnInfo) -> bool:
    """Whether keys of the announced type differ from those of the present one."""
    coming = column.exuvia_changing_type
    if coming is None or LEFT in (column.change_state_info or {}):
        return False
    return kind_of(column.type, coming, indexed=True) == ChangeKind.INDEXES


def wrapped(value: Value, field: FieldType) -> Value:
    """An integer in the form of the other sign, for keys.

    A value that the new type cannot hold has a key too, until its row is found and the change is
    refused."""
    if not isinstance(value, int):
        return value
    return value & _ALL if field.family == Family.UINT else (value + _HALF & _ALL) - _HALF


def converter(
    old: FieldType,
    new: FieldType,
    name: str,
    *,
    lenient: bool = False,
    moments: Moments = PLAIN_MOMENTS,
) -> Convert:
    """The conversion of values that are not NULL.

    Raises Refused as in the module's text; a lenient one returns the nearest value instead."""
    source = unfilled(old)
    if old.Tp == TypeCode.BIT and new.Tp not in (TypeCode.BIT, TypeCode.JSON):
        source = evolve(old, Tp=TypeCode.LONGLONG, Flag=int(Flag.UNSIGNED))
    target = evolve(new, Flag=new.Flag & ~int(Flag.NOT_NULL))
    mode = moments.mode()
    return partial(_adjusted if lenient else _converted, source, target, name, mode)


def _adjusted(source: FieldType, target: FieldType, name: str, mode: Mode, value: Value) -> Value:
    try:
        return _converted(source, target, name, mode, value)
    except Refused:
        widened = mode._replace(zero_dates=True, zero_parts=mode.takes_zero_parts)
        return _nearest(source, target, widened, value)


def _nearest(source: FieldType, target: FieldType, mode: Mode, value: Value) -> Value:
    try:
        return convert(value, source, target, mode)
    except Refused:
        return narrowed(value, source, target, mode)


def _converted(source: FieldType, target: FieldType, name: str, mode: Mode, value: Value) -> Value:
    if _is_filled(source) and target.family not in (*_TEXTS, Family.DECIMAL):
        value = value.rstrip(b"\0")
    if target.Tp == TypeCode.YEAR and source.family == Family.FLOAT:
        value = float(round(value))
    try:
        return convert(value, source, target, mode)
    except Refused as error:
        raise _as_cast(error, value, source, target, name) from None


def _is_filled(field: FieldType) -> bool:
    """Whether it is BINARY(n): values are padded with zero bytes."""
    return field.Tp == TypeCode.STRING and field.family == Family.BYTES


def _as_cast(error: Refused, value: Value, old: FieldType, new: FieldType, name: str) -> Refused:
    """The refusal of an assignment with the text of a failed CAST."""
    text = text_in_error(value, old)
    if new.Tp in INTEGER_BITS or new.family in (Family.DECIMAL, Family.FLOAT):
        return _as_number(error, value, text, old, new)
    if new.Tp == TypeCode.YEAR:
        if error.code == ErrWarnDataOutOfRange.code:
            reason = f"Out of range value for column '{name}', the value is '{text}'"
            return ErrWarnDataOutOfRange.with_text(reason)
        return ErrTruncatedWrongValue(*_no_number(value, text, old, new))
    if new.Tp in _MOMENTS:
        kind = _MOMENTS[TypeCode(new.Tp)]
        if old.family == Family.JSON:
            text = _unquoted(value)
        if old.family in (*_TEXTS, Family.JSON) and new.Tp != TypeCode.TIME:
            return ErrTruncatedWrongValue.with_text(f"Incorrect datetime value: '{text}'")
        if old.family in (Family.DATE, Family.DATETIME, Family.FLOAT, Family.DECIMAL):
            kind = "time" if old.family in (Family.FLOAT, Family.DECIMAL) else kind
            return ErrTruncatedWrongValue.with_text(f"Incorrect {kind} value: '{text}'")
        if (old.Tp in INTEGER_BITS or old.Tp == TypeCode.YEAR) and new.Tp != TypeCode.TIME:
            kind = "time" if value else kind
            return ErrTruncatedWrongValue.with_text(f"Incorrect {kind} value: '{value}'")
        return ErrTruncatedWrongValue(kind, text)
    if (new.family in _TEXTS and error.code == ErrDataTooLong.code) or new.Tp in (
        TypeCode.ENUM,
        TypeCode.SET,
    ):
        return WarnDataTruncated.with_text(f"Data truncated for column '{name}', value is '{text}'")
    if new.family == Family.JSON:
        return Refused(
            error.code, error.state, error.message.split(" at position ")[0].replace('"', "")
        )
    return Refused(error.code, error.state, error.message.replace(COLUMN, name).replace(ROW, "1"))


def text_in_error(value: Value, field: FieldType) -> str:
    """A value in the form of error texts."""
    if isinstance(value, bytes):
        return value.rstrip(b"\0").decode("utf-8", "replace")
    return to_text(value, field)


def _as_number(error: Refused, value: Value, text: str, old: FieldType, new: FieldType) -> Refused:
    if (
        error.code != ErrWarnDataOutOfRange.code
        and _is_filled(old)
        and new.family == Family.DECIMAL
    ):
        kind = f"decimal({decimals.precision_of(new)},{decimals.scale_of(new)})"
        return ErrTruncatedWrongValue(kind, text)
    if error.code != ErrWarnDataOutOfRange.code:
        return ErrTruncatedWrongValue(*_no_number(value, text, old, new))
    if new.family == Family.DECIMAL:
        where = f"({decimals.precision_of(new)}, {decimals.scale_of(new)})"
        return ErrDataOutOfRange("DECIMAL", where)
    if new.family == Family.FLOAT:
        return ErrDataOutOfRange("DOUBLE", text)
    number = _number(value, old)
    unsigned_refuses = new.unsigned and number < 0 and isinstance(number, Decimal)
    constant = text if unsigned_refuses else _rounded(number)
    return ErrDataOutOfRange.with_text(
        f"constant {constant} overflows {_INTEGERS[TypeCode(new.Tp)]}"
    )


def _no_number(value: Value, text: str, old: FieldType, new: FieldType) -> tuple[str, str]:
    """The expected type, and the text of the value."""
    kind = "DECIMAL" if new.family == Family.DECIMAL else "DOUBLE"
    if old.family != Family.JSON:
        return kind, text
    if value.startswith('"'):
        return kind, _unquoted(value)
    if new.family == Family.DECIMAL:
        return kind, text
    return "FLOAT" if new.family == Family.FLOAT else "INTEGER", text


def _unquoted(value: str) -> str:
    document = jsontext.read(value)
    return document if isinstance(document, str) else value


def _number(value: Value, old: FieldType) -> Value:
    if old.family == Family.BYTES:
        value = value.decode("latin-1")
    if old.family in _TEXTS:
        return leading_number(value, "integer")[0]
    return number_of(value, old, "", PLAIN_MOMENTS.mode())


def _rounded(number: Value) -> str:
    """An integer unchanged; a DOUBLE with few digits, as servers print constants."""
    if isinstance(number, Decimal):
        return str(int(decimals.rounded(number, 0)))
    if not isinstance(number, float):
        return str(number)
    whole = float(round(number))
    if abs(whole) < 1e6:
        return str(int(whole))
    mantissa, exponent = f"{Decimal(repr(whole)).normalize():e}".split("e")
    return f"{mantissa}e{exponent[0]}{exponent[1:].rjust(2, '0')}"
