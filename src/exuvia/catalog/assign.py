"""Assignment in MySQL's strict mode: a value of one type becomes a value of another, or the
statement is refused.

    target        from numbers                  from text                            refused with
    integers      rounded, within the range     numeric prefix must be all of it     1264 1265 1366
    DECIMAL       rounded to the scale          likewise                             1264 1265 1366
    FLOAT         nearest                       likewise                             1264 1265 1366
    text, bytes   MySQL's text                  within the length                    1406, 1366
    dates, times  YYYYMMDD..., hhmmss           catalog/temporal.py                  1292
    ENUM, SET     index, bits                   names under the collation            1265
    YEAR          1901..2155, 1..99, 0          likewise                             1264 1366
    BIT           within its width              its bytes                            1406
    JSON          the number                    parsed and normalised                3140

NULL into NOT NULL is 1048. Source: MySQL manual, "Data Types", "Server SQL Modes".
"""

from collections.abc import Callable
from typing import Any

from exuvia.base.types import Family, FieldType, TypeCode
from exuvia.catalog import assign_numbers, assign_texts, assign_times
from exuvia.catalog.assignment import STRICT, Mode, is_null

Value = Any
Assigner = Callable[[Value, FieldType, FieldType, Mode], Value]

_BY_TYPE: dict[int, Assigner] = {
    TypeCode.ENUM: assign_texts.to_enum,
    TypeCode.SET: assign_texts.to_set,
    TypeCode.BIT: assign_numbers.to_bit,
    TypeCode.YEAR: assign_times.to_year,
}
_BY_FAMILY: dict[Family, Assigner] = {
    Family.INT: assign_numbers.to_integer,
    Family.UINT: assign_numbers.to_integer,
    Family.DECIMAL: assign_numbers.to_decimal,
    Family.FLOAT: assign_numbers.to_float,
    Family.STRING: assign_texts.to_string,
    Family.BYTES: assign_texts.to_binary,
    Family.JSON: assign_texts.to_json,
    Family.DATE: assign_times.to_date,
    Family.DATETIME: assign_times.to_datetime,
    Family.TIME: assign_times.to_time,
}


def assigner_of(target: FieldType) -> Assigner:
    """The function (value, its type, target, mode) that assigns to a type; for values that are not
    NULL."""
    return _BY_TYPE.get(target.Tp) or _BY_FAMILY[target.family]


def convert(value: Value, source: FieldType, target: FieldType, mode: Mode = STRICT) -> Value:
    """The value as a column of `target` holds it. Raises Refused, see the module."""
    if value is None:
        return is_null() if target.not_null else None
    return assigner_of(target)(value, source, target, mode)
