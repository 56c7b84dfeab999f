"""MySQL's column types: codes, flags, families. Source: MySQL client/server protocol, field types.

A *family* decides how a value is stored and how its key is encoded. Keys depend on the family only,
never on width or precision, so a change of width cannot break an index.

    family      Python value in rows and evaluators          stored in a row as
    INT         int (signed 64 bit)                          int64
    UINT        int (unsigned 64 bit), also BIT, SET, ENUM   uint64
    DECIMAL     decimal.Decimal, scale of the column         scaled int64 / 16 / 32 bytes
    FLOAT       float (FLOAT rounded to 4 bytes)             float64
    STRING      str                                          variable, UTF-8
    BYTES       bytes                                        variable
    DATE        int, packed `pack_date`                      int32
    DATETIME    int, packed `pack_datetime`; TIMESTAMP in UTC  int64
    TIME        int, microseconds, signed                    int64
    JSON        str, normalised JSON text                    variable, UTF-8
"""

from datetime import UTC, datetime
from enum import IntEnum, IntFlag
from typing import Any

import msgspec

Value = Any
"""A value of its family's Python type, as above, or None. The type is in a FieldType and known only
when the program runs, so no type checker can verify it."""


class TypeCode(IntEnum):
    """Type bytes of the MySQL protocol; `Tp` in a table's JSON."""

    TINY = 1
    SHORT = 2
    LONG = 3
    FLOAT = 4
    DOUBLE = 5
    NULL = 6
    TIMESTAMP = 7
    LONGLONG = 8
    INT24 = 9
    DATE = 10
    TIME = 11
    DATETIME = 12
    YEAR = 13
    VARCHAR = 15
    BIT = 16
    JSON = 245
    NEWDECIMAL = 246
    ENUM = 247
    SET = 248
    TINY_BLOB = 249
    MEDIUM_BLOB = 250
    LONG_BLOB = 251
    BLOB = 252
    VAR_STRING = 253
    STRING = 254


class Flag(IntFlag):
    """Column flags of the MySQL protocol; `Flag` in a table's JSON."""

    NOT_NULL = 1
    PRI_KEY = 2
    UNIQUE_KEY = 4
    MULTIPLE_KEY = 8
    BLOB = 16
    UNSIGNED = 32
    ZEROFILL = 64
    BINARY = 128
    ENUM = 256
    AUTO_INCREMENT = 512
    TIMESTAMP = 1024
    SET = 2048
    NO_DEFAULT_VALUE = 4096
    ON_UPDATE_NOW = 8192


class Family(IntEnum):
    """How values are stored and compared."""

    INT = 1
    UINT = 2
    DECIMAL = 3
    FLOAT = 4
    STRING = 5
    BYTES = 6
    DATE = 7
    DATETIME = 8
    TIME = 9
    JSON = 10


INTEGER_BITS = {
    TypeCode.TINY: 8,
    TypeCode.SHORT: 16,
    TypeCode.INT24: 24,
    TypeCode.LONG: 32,
    TypeCode.LONGLONG: 64,
}
TEXT_BLOBS = {TypeCode.TINY_BLOB, TypeCode.BLOB, TypeCode.MEDIUM_BLOB, TypeCode.LONG_BLOB}
STRINGS = {TypeCode.VARCHAR, TypeCode.VAR_STRING, TypeCode.STRING} | TEXT_BLOBS


# An IntFlag's own `&` makes a new flag: it costs twenty times what the number's does.
_NOT_NULL, _UNSIGNED = int(Flag.NOT_NULL), int(Flag.UNSIGNED)
_AUTO_INCREMENT = int(Flag.AUTO_INCREMENT)


class FieldType(msgspec.Struct, frozen=True, kw_only=True):
    """A column's type as the table's JSON holds it (names of seed 001)."""

    Tp: int
    Flag: int = 0
    Flen: int = -1
    Decimal: int = -1
    Charset: str = "binary"
    Collate: str = "binary"
    Elems: tuple[str, ...] | None = None

    @property
    def unsigned(self) -> bool:
        """True for UNSIGNED numbers."""
        return bool(self.Flag & _UNSIGNED)

    @property
    def not_null(self) -> bool:
        """True where NULL is refused."""
        return bool(self.Flag & _NOT_NULL)

    @property
    def auto_increment(self) -> bool:
        """True for a column that is given the next id."""
        return bool(self.Flag & _AUTO_INCREMENT)

    @property
    def family(self) -> Family:
        """The storage family, see the table at the top."""
        return family_of(self)


def family_of(field: FieldType) -> Family:
    """Family of a field type. Raises KeyError for a code that no column can have."""
    code = field.Tp  # TypeCode is an int: making one costs more than all the rest
    if code in INTEGER_BITS:
        return Family.UINT if field.unsigned else Family.INT
    if code in STRINGS:
        return Family.BYTES if field.Charset == "binary" else Family.STRING
    return _FAMILY[code]


_FAMILY: dict[int, Family] = {
    TypeCode.YEAR: Family.UINT,
    TypeCode.BIT: Family.UINT,
    TypeCode.ENUM: Family.UINT,
    TypeCode.SET: Family.UINT,
    TypeCode.FLOAT: Family.FLOAT,
    TypeCode.DOUBLE: Family.FLOAT,
    TypeCode.NEWDECIMAL: Family.DECIMAL,
    TypeCode.DATE: Family.DATE,
    TypeCode.DATETIME: Family.DATETIME,
    TypeCode.TIMESTAMP: Family.DATETIME,
    TypeCode.TIME: Family.TIME,
    TypeCode.JSON: Family.JSON,
}


def pack_date(year: int, month: int, day: int) -> int:
    """DATE as an int of 23 bits that sorts like the date and admits zero parts."""
    return year << 9 | month << 5 | day


def unpack_date(packed: int) -> tuple[int, int, int]:
    """(year, month, day) of `pack_date`."""
    return packed >> 9, packed >> 5 & 15, packed & 31


def pack_datetime(date: int, hour: int, minute: int, second: int, micro: int = 0) -> int:
    """DATETIME as an int of 60 bits that sorts like the time. `date` is a packed date."""
    return date << 37 | hour << 32 | minute << 26 | second << 20 | micro


def unpack_datetime(packed: int) -> tuple[int, int, int, int, int]:
    """(packed date, hour, minute, second, microsecond) of `pack_datetime`."""
    return packed >> 37, packed >> 32 & 31, packed >> 26 & 63, packed >> 20 & 63, packed & 0xFFFFF


def packed_moment(wall_ns: int) -> int:
    """Nanoseconds since 1970 as a packed DATETIME in UTC with microseconds."""
    at = datetime.fromtimestamp(wall_ns // 1_000 / 1e6, UTC)
    date = pack_date(at.year, at.month, at.day)
    return pack_datetime(date, at.hour, at.minute, at.second, at.microsecond)
