"""A column type as written becomes a FieldType: lengths, charset and flags as in TiDB's JSON.

    int unsigned    Tp 3   Flen 10 Decimal 0     varchar(255)  Tp 15  Flen 255 Decimal 0
    decimal(12,2)   Tp 246 Flen 12 Decimal 2     datetime(3)   Tp 12  Flen 23  Decimal 3

Limits and refusals are those of MySQL's manual ("Data Types"): 1074, 1425, 1426, 1427, 1439,
1291.
"""

from exuvia.base.mysql_errors import (
    ErrAutoConvert,
    ErrDuplicatedValueInType,
    ErrInvalidFieldSize,
    ErrInvalidYearColumnLength,
    ErrMBiggerThanD,
    ErrTooBigDisplaywidth,
    ErrTooBigFieldlength,
    ErrTooBigPrecision,
    ErrTooBigScale,
    ErrTooBigSet,
    ErrWrongFieldSpec,
)
from exuvia.base.types import FieldType, Flag, TypeCode
from exuvia.sql.charsets import CHARSETS, resolve
from exuvia.sql.define.modes import STRICT, Modes
from exuvia.sql.nodes import DataType
from exuvia.sql.parse.near import Misplaced

# name: (code, display width signed, unsigned)
_INTEGERS = {
    "tinyint": (TypeCode.TINY, 4, 3),
    "smallint": (TypeCode.SHORT, 6, 5),
    "mediumint": (TypeCode.INT24, 9, 8),
    "int": (TypeCode.LONG, 11, 10),
    "bigint": (TypeCode.LONGLONG, 20, 20),
}
# name: (code, bytes at most)
_TEXTS = {
    "tinytext": (TypeCode.TINY_BLOB, 255),
    "text": (TypeCode.BLOB, 65535),
    "mediumtext": (TypeCode.MEDIUM_BLOB, 16777215),
    "longtext": (TypeCode.LONG_BLOB, 4294967295),
}
_BLOBS = {
    "tinyblob": (TypeCode.TINY_BLOB, 255),
    "blob": (TypeCode.BLOB, 65535),
    "mediumblob": (TypeCode.MEDIUM_BLOB, 16777215),
    "longblob": (TypeCode.LONG_BLOB, 4294967295),
}
_TIMES = {
    "datetime": (TypeCode.DATETIME, 19),
    "timestamp": (TypeCode.TIMESTAMP, 19),
    "time": (TypeCode.TIME, 10),
}
_DISPLAY_WIDTH = 255
_ROW_BYTES = 65535
Inherited = tuple[str, str]


def field_type(
    column: str, written: DataType, inherited: Inherited, modes: Modes = STRICT
) -> FieldType:
    """The type of a column; `inherited` is the table's (charset, collation). Raises Refused."""
    written = written if modes.strict else _widened(column, written, inherited, modes)
    name = written.name
    if name in _INTEGERS:
        return _integer(column, written)
    if name in ("decimal", "float", "double"):
        return _fraction(column, written)
    if name in _TIMES:
        return _time(column, written)
    if name in ("enum", "set"):
        return _enumeration(column, written, inherited)
    if name in _PLAIN:
        return _PLAIN[name](column, written)
    return _string(column, written, inherited)


def _sign(written: DataType) -> int:
    flag = Flag.UNSIGNED if written.unsigned or written.zerofill else Flag(0)
    return int(flag | Flag.ZEROFILL if written.zerofill else flag)


def _integer(column: str, written: DataType) -> FieldType:
    code, signed, unsigned = _INTEGERS[written.name]
    if written.length is not None and written.length > _DISPLAY_WIDTH:
        raise ErrTooBigDisplaywidth(column, _DISPLAY_WIDTH)
    width = written.length or (unsigned if written.unsigned else signed)
    return FieldType(Tp=code, Flag=_sign(written), Flen=width, Decimal=0)


def _fraction(column: str, written: DataType) -> FieldType:
    if written.name == "decimal":
        return _decimal(column, written)
    double = written.name == "double"
    code, width = (TypeCode.DOUBLE, 22) if double else (TypeCode.FLOAT, 12)
    length, scale = written.length, written.scale
    if scale is None and length is not None and not double:
        if length > 53:
            raise ErrWrongFieldSpec(column)
        code, width = (TypeCode.FLOAT, 12) if length <= 24 else (TypeCode.DOUBLE, 22)
        length = None
    if length is not None and scale is not None:
        _check_digits(column, length, scale, 255)
        return FieldType(Tp=code, Flag=_sign(written), Flen=length, Decimal=scale)
    return FieldType(Tp=code, Flag=_sign(written), Flen=width, Decimal=-1)


def _decimal(column: str, written: DataType) -> FieldType:
    length, scale = written.length or 10, written.scale or 0
    _check_digits(column, length, scale, 65)
    return FieldType(Tp=TypeCode.NEWDECIMAL, Flag=_sign(written), Flen=length, Decimal=scale)


def _check_digits(column: str, length: int, scale: int, most: int) -> None:
    if scale > 30:
        raise ErrTooBigScale(scale, column, 30)
    if length > most:
        raise ErrTooBigPrecision(length, column, most)
    if scale > length:
        raise ErrMBiggerThanD(column)


def _time(column: str, written: DataType) -> FieldType:
    code, width = _TIMES[written.name]
    digits = written.length or 0
    if digits > 6:
        raise ErrTooBigPrecision(digits, column, 6)
    flag = Flag.BINARY
    return FieldType(
        Tp=code, Flag=int(flag), Flen=width + (digits + 1 if digits else 0), Decimal=digits
    )


def _bit(column: str, written: DataType) -> FieldType:
    length = 1 if written.length is None else written.length
    if not 1 <= length <= 64:
        raise (ErrTooBigDisplaywidth(column, 64) if length else ErrInvalidFieldSize(column))
    return FieldType(Tp=TypeCode.BIT, Flag=int(Flag.UNSIGNED), Flen=length, Decimal=0)


def _year(column: str, written: DataType) -> FieldType:
    if written.length not in (None, 4):
        raise ErrInvalidYearColumnLength()
    return FieldType(Tp=TypeCode.YEAR, Flag=int(Flag.UNSIGNED | Flag.ZEROFILL), Flen=4, Decimal=0)


def _date(column: str, written: DataType) -> FieldType:
    return FieldType(Tp=TypeCode.DATE, Flag=int(Flag.BINARY), Flen=10, Decimal=0)


def _json(column: str, written: DataType) -> FieldType:
    return FieldType(Tp=TypeCode.JSON, Flag=int(Flag.BINARY), Flen=4294967295, Decimal=0)


_PLAIN = {"bit": _bit, "year": _year, "date": _date, "json": _json}


def _enumeration(column: str, written: DataType, inherited: Inherited) -> FieldType:
    charset, collate = _charset(written, inherited)
    elements = tuple(each.rstrip(" ") for each in written.elems or ())
    is_set = written.name == "set"
    for at, each in enumerate(elements):
        if each.lower() in (other.lower() for other in elements[:at]):
            raise ErrDuplicatedValueInType(column, each, "SET" if is_set else "ENUM")
    if is_set and len(elements) > 64:
        raise ErrTooBigSet(column)
    lengths = [len(each) for each in elements]
    width = sum(lengths) + len(lengths) - 1 if is_set else max(lengths, default=0)
    return FieldType(
        Tp=TypeCode.SET if is_set else TypeCode.ENUM,
        Flen=width,
        Decimal=0,
        Charset=charset,
        Collate=collate,
        Elems=elements,
    )


def _charset(written: DataType, inherited: Inherited) -> Inherited:
    charset, collate = resolve(written.charset, written.collate, inherited)
    if written.binary and written.collate is None:
        collate = "binary" if charset == "binary" else f"{charset}_bin"
    return charset, collate


def _string(column: str, written: DataType, inherited: Inherited) -> FieldType:
    name = written.name
    if name in _BLOBS:
        code, most = _sized(_BLOBS, name, written.length, 1)
        return FieldType(Tp=code, Flag=int(Flag.BLOB | Flag.BINARY), Flen=most, Decimal=0)
    if name in ("binary", "varbinary"):
        return _bytes(column, written)
    charset, collate = _charset(written, inherited)
    width = CHARSETS[charset][2]
    flag = Flag.BINARY if charset == "binary" else Flag(0)
    if name in _TEXTS:
        code, most = _sized(_TEXTS, name, written.length, width)
        flag |= Flag.BLOB
        return FieldType(
            Tp=code, Flag=int(flag), Flen=most, Decimal=0, Charset=charset, Collate=collate
        )
    most = 255 if name == "char" else _ROW_BYTES // width
    length = _length(column, written, most)
    code = TypeCode.STRING if name == "char" else TypeCode.VARCHAR
    return FieldType(
        Tp=code, Flag=int(flag), Flen=length, Decimal=0, Charset=charset, Collate=collate
    )


def _widened(column: str, written: DataType, inherited: Inherited, modes: Modes) -> DataType:
    """A VARCHAR or VARBINARY that is too long as TEXT or BLOB, with a warning."""
    if written.name not in ("varchar", "varbinary") or written.length is None:
        return written
    binary = written.name == "varbinary" or _charset(written, inherited)[0] == "binary"
    width = 1 if binary else CHARSETS[_charset(written, inherited)[0]][2]
    if written.length <= _ROW_BYTES // width:
        return written
    name = "blob" if binary else "text"
    said = f"Converting column '{column}' from {'VARBINARY' if binary else 'VARCHAR'}"
    modes.warn(ErrAutoConvert.code, f"{said} to {name.upper()}")
    fields = {each: getattr(written, each) for each in written.__struct_fields__}
    return DataType(**{**fields, "name": name})


def _bytes(column: str, written: DataType) -> FieldType:
    fixed = written.name == "binary"
    length = _length(column, written, 255 if fixed else _ROW_BYTES)
    code = TypeCode.STRING if fixed else TypeCode.VARCHAR
    return FieldType(Tp=code, Flag=int(Flag.BINARY), Flen=length, Decimal=0)


def _length(column: str, written: DataType, most: int) -> int:
    if written.length is None:
        if written.name in ("char", "binary"):
            return 1
        raise Misplaced(column)
    if written.length > most:
        raise ErrTooBigFieldlength(column, most)
    return written.length


def _sized(
    kinds: dict[str, tuple[TypeCode, int]], name: str, length: int | None, width: int
) -> tuple[TypeCode, int]:
    """TEXT(n) and BLOB(n) are the smallest type that holds n characters."""
    if length is None or name not in ("text", "blob"):
        return kinds[name]
    fitting = [kind for kind in kinds.values() if length * width <= kind[1]]
    return fitting[0] if fitting else kinds[name]
