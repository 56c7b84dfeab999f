"""What a change of a column's type costs: one table, five kinds.

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
    CHAR, VARCHAR, TEXT   shorter                                        CHECKED
    VARCHAR, TEXT         CHAR: its values end in no space               PRECHECKED
    CHAR                  VARCHAR, TEXT                                  CHECKED
    BINARY(n)             another length: it is filled up with zeros     ROWS
    anything else                                                        ROWS
    NULL                  NOT NULL, where METADATA would do              CHECKED

    METADATA    one step                          CHECKED   writers obey the new type, rows are read
    INDEXES     rows stay, indexes are built anew ROWS      a hidden column is filled, then swapped
    PRECHECKED  a look at the values says whether CHECKED is enough, else ROWS

Rows name their layout and are cast when read (catalog/layout.py), so a number's new width or sign
rewrites nothing. In a lenient sql_mode values are adjusted: then ROWS stands for CHECKED.
"""

from enum import IntEnum

from exuvia.base.types import INTEGER_BITS, STRINGS, TEXT_BLOBS, Family, FieldType, TypeCode

_CHARACTER_BYTES = 4
_TIMES = (TypeCode.DATETIME, TypeCode.TIMESTAMP, TypeCode.TIME)
_FIXED_POINT = (TypeCode.FLOAT, TypeCode.DOUBLE)


class Kind(IntEnum):
    """See the module."""

    METADATA = 0
    CHECKED = 1
    INDEXES = 2
    ROWS = 3
    PRECHECKED = 4


def kind_of(old: FieldType, new: FieldType, indexed: bool = False, strict: bool = True) -> Kind:
    """The kind of a change of type; `indexed`: some index holds the column."""
    kind = _of_types(old, new, indexed)
    if kind == Kind.METADATA and new.not_null and not old.not_null:
        return Kind.CHECKED
    if kind != Kind.METADATA and not strict:
        return Kind.ROWS
    return kind


def _of_types(old: FieldType, new: FieldType, indexed: bool) -> Kind:
    if old.Tp in INTEGER_BITS and new.Tp in INTEGER_BITS:
        return _of_integers(old, new, indexed)
    if is_string(old) and is_string(new) and old.family == new.family:
        return _of_strings(old, new)
    if old.Tp != new.Tp or old.family != new.family:
        return Kind.ROWS
    return Kind.METADATA if _holds(old, new) else Kind.ROWS


def _of_integers(old: FieldType, new: FieldType, indexed: bool) -> Kind:
    if old.unsigned != new.unsigned:
        return Kind.INDEXES if indexed else Kind.CHECKED
    wider = INTEGER_BITS[TypeCode(new.Tp)] >= INTEGER_BITS[TypeCode(old.Tp)]
    return Kind.METADATA if wider else Kind.CHECKED


def _of_strings(old: FieldType, new: FieldType) -> Kind:
    fixed = TypeCode.STRING in (old.Tp, new.Tp)
    if old.family == Family.BYTES and fixed:
        return Kind.METADATA if (old.Tp, old.Flen) == (new.Tp, new.Flen) else Kind.ROWS
    if old.Tp != new.Tp and fixed:
        return Kind.PRECHECKED if new.Tp == TypeCode.STRING else Kind.CHECKED
    return Kind.METADATA if _fits(old, new) else Kind.CHECKED


def _fits(old: FieldType, new: FieldType) -> bool:
    """Whether the longest value of a string type is one of the other. TEXT and BLOB count bytes."""
    if new.Tp in TEXT_BLOBS and old.Tp not in TEXT_BLOBS:
        return new.Flen >= old.Flen * (1 if old.family == Family.BYTES else _CHARACTER_BYTES)
    return new.Flen >= old.Flen


def _holds(old: FieldType, new: FieldType) -> bool:
    """Whether every value of a type is one of the other, both of one type code."""
    if new.Tp == TypeCode.NEWDECIMAL:
        return (old.Flen, old.Decimal, old.unsigned) == (new.Flen, new.Decimal, new.unsigned)
    if new.Tp in (TypeCode.ENUM, TypeCode.SET):
        kept = len(old.Elems or ())
        return (new.Elems or ())[:kept] == (old.Elems or ())
    if new.Tp in _FIXED_POINT:
        shorter = new.Decimal >= 0 and (new.Flen < old.Flen or new.Decimal < old.Decimal)
        rounds = new.Decimal >= 0 > old.Decimal
        return old.unsigned == new.unsigned and not shorter and not rounds
    if new.Tp in _TIMES:
        return max(new.Decimal, 0) >= max(old.Decimal, 0)
    return new.Flen >= old.Flen or new.Tp != TypeCode.BIT


def is_string(field: FieldType) -> bool:
    """CHAR, VARCHAR, TEXT and their binary kin."""
    return field.Tp in STRINGS
