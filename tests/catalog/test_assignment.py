"""Assignment as in MySQL's strict mode: the value that each type makes of a text or number, or its
refusal.

The expected values are those of MariaDB 10.11, except that MySQL rounds fractions of seconds.
"""

from datetime import timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exuvia.base.errors import Refused
from exuvia.base.types import FieldType, Flag, TypeCode, pack_date
from exuvia.catalog.convert import values
from exuvia.catalog.convert.values import (
    LENIENT,
    Mode,
    convert,
    from_text,
    named,
    to_bytes,
    to_text,
)
from support.tables import (
    BIGINT,
    BIT,
    BLOB,
    CHAR,
    DATE,
    DECIMAL,
    DOUBLE,
    ENUM,
    INT,
    JSON,
    SET,
    TIME,
    TIMESTAMP,
    UNSIGNED,
    VALUES,
    YEAR,
    kind,
    numbered_column,
    text,
)

TINY = kind(TypeCode.TINY, flen=4)
SECONDS = kind(TypeCode.DATETIME, scale=0)
MILLIS = kind(TypeCode.DATETIME, scale=3)
CLOCK = kind(TypeCode.TIME, scale=0)
FLOAT = kind(TypeCode.FLOAT, flen=12)
FIXED = kind(TypeCode.FLOAT, flen=5, scale=2)
POSITIVE = kind(TypeCode.DOUBLE, Flag.UNSIGNED, 22)
FIVE = text(characters=5)
BINARY = kind(TypeCode.STRING, flen=4)

TAKEN: list[tuple[FieldType, str, str]] = [
    (TINY, " 5 ", "5"),
    (TINY, "2.5", "3"),
    (TINY, "-2.5", "-3"),
    (INT, "1e3", "1000"),
    (UNSIGNED, "18446744073709551615", "18446744073709551615"),
    (DECIMAL, "999.995", "1000.00"),
    (DECIMAL, "-0.004", "0.00"),
    (DECIMAL, "1e3", "1000.00"),
    (DOUBLE, "1e15", "1e15"),
    (DOUBLE, "1e14", "100000000000000"),
    (DOUBLE, "0.1", "0.1"),
    (DOUBLE, "1e-7", "0.0000001"),
    (FLOAT, "16777217", "16777216"),
    (FLOAT, "123456.789", "123456.79"),
    (FIXED, "0.005", "0.00"),
    (FIXED, "999.994", "999.99"),
    (FIVE, "hello   ", "hello"),
    (CHAR, "a  ", "a"),
    (text(), "a  ", "a  "),
    (BINARY, "ab", "ab\0\0"),
    (DATE, "26-1-2", "2026-01-02"),
    (DATE, "69-1-1", "2069-01-01"),
    (DATE, "70-1-1", "1970-01-01"),
    (DATE, "261121", "2026-11-21"),
    (DATE, "2026.11.21", "2026-11-21"),
    (DATE, " 2026-11-21 ", "2026-11-21"),
    (SECONDS, "2026/11/21 10:11:12", "2026-11-21 10:11:12"),
    (SECONDS, "2026-11-21T10:11", "2026-11-21 10:11:00"),
    (SECONDS, "20261121101112", "2026-11-21 10:11:12"),
    (SECONDS, "2026-12-31 23:59:59.5", "2027-01-01 00:00:00"),
    (MILLIS, "2026-11-21 10:11:12.9994", "2026-11-21 10:11:12.999"),
    (MILLIS, "2026-11-21 10:11:12+02:00", "2026-11-21 08:11:12.000"),
    (TIMESTAMP, "1970-01-01 00:00:01", "1970-01-01 00:00:01"),
    (CLOCK, "-10:11:12", "-10:11:12"),
    (CLOCK, "1 10:11:12", "34:11:12"),
    (CLOCK, "101112", "10:11:12"),
    (CLOCK, "1011", "00:10:11"),
    (CLOCK, "10:11", "10:11:00"),
    (CLOCK, "838:59:59", "838:59:59"),
    (CLOCK, "2026-11-21 10:11:12", "10:11:12"),
    (CLOCK, "2026-11-21", "00:00:00"),
    (TIME, "10:11:12.98765", "10:11:12.988"),
    (YEAR, "70", "1970"),
    (YEAR, "0", "2000"),
    (YEAR, "2155", "2155"),
    (ENUM, "green", "green"),
    (ENUM, "3", "blue"),
    (SET, "c,a,c", "a,c"),
    (SET, "3", "a,b"),
    (SET, "", ""),
    (BIT, "A", "\0A"),
    (JSON, '{"bb":1,"a":[1.0,1e2,true,null],"a":2}', '{"a": 2, "bb": 1}'),
    (JSON, ' "é\\n\\u0001" ', '"é\\n\\u0001"'),
    (JSON, "[1.0, 1e2, 12345678901234567890123]", "[1.0, 100.0, 1.2345678901234568e22]"),
    (BLOB, "é", "é"),
]


@pytest.mark.parametrize(("field", "given_text", "stored_text"), TAKEN)
def test_accepted_texts(field: FieldType, given_text: str, stored_text: str) -> None:
    assert to_text(from_text(given_text, field), field) == stored_text


REFUSED: list[tuple[FieldType, str, int, str]] = [
    (TINY, "128", 1264, "Out of range value for column 'c' at row 2"),
    (TINY, "2026-11-21", 1264, "Out of range value for column 'c' at row 2"),
    (INT, "12abc", 1265, "Data truncated for column 'c' at row 2"),
    (INT, "abc", 1366, "Incorrect int value: 'abc' for column 'c' at row 2"),
    (INT, "", 1366, "Incorrect int value: '' for column 'c' at row 2"),
    (UNSIGNED, "-1", 1264, "Out of range value for column 'c' at row 2"),
    (DECIMAL, "123456789", 1264, "Out of range value for column 'c' at row 2"),
    (DECIMAL, "x", 1366, "Incorrect decimal value: 'x' for column 'c' at row 2"),
    (DOUBLE, "1e400", 1264, "Out of range value for column 'c' at row 2"),
    (DOUBLE, "NaN", 1366, "Incorrect double value: 'NaN' for column 'c' at row 2"),
    (FLOAT, "3.5e38", 1264, "Out of range value for column 'c' at row 2"),
    (FIXED, "1000", 1264, "Out of range value for column 'c' at row 2"),
    (POSITIVE, "-1", 1264, "Out of range value for column 'c' at row 2"),
    (FIVE, "hello!", 1406, "Data too long for column 'c' at row 2"),
    (BINARY, "hello", 1406, "Data too long for column 'c' at row 2"),
    (DATE, "2026-02-30", 1292, "Incorrect date value: '2026-02-30' for column 'c' at row 2"),
    (DATE, "0000-00-00", 1292, "Incorrect date value: '0000-00-00' for column 'c' at row 2"),
    (DATE, "2026-00-10", 1292, "Incorrect date value: '2026-00-10' for column 'c' at row 2"),
    (SECONDS, "2026-11-21 25:00:00", 1292, "Incorrect datetime value: '2026-11-21 25:00:00'"),
    (TIMESTAMP, "2039-01-01", 1292, "Incorrect timestamp value: '2039-01-01' for column 'c'"),
    (TIMESTAMP, "1969-12-31", 1292, "Incorrect timestamp value: '1969-12-31' for column 'c'"),
    (CLOCK, "839:00:00", 1292, "Incorrect time value: '839:00:00' for column 'c' at row 2"),
    (CLOCK, "10:61:00", 1292, "Incorrect time value: '10:61:00' for column 'c' at row 2"),
    (YEAR, "2156", 1264, "Out of range value for column 'c' at row 2"),
    (ENUM, "pink", 1265, "Data truncated for column 'c' at row 2"),
    (SET, "a,z", 1265, "Data truncated for column 'c' at row 2"),
    (BIT, "abc", 1406, "Data too long for column 'c' at row 2"),
    (
        JSON,
        "{",
        3140,
        "Invalid JSON text: The document root must not be followed by other values.",
    ),
]


@pytest.mark.parametrize(("field", "given_text", "code", "message"), REFUSED)
def test_refused_texts(field: FieldType, given_text: str, code: int, message: str) -> None:
    with pytest.raises(Refused) as caught:
        from_text(given_text, field)
    error = named(caught.value, "c", 2)
    assert error.code == code
    assert error.message.startswith(message)
    assert "\0" not in error.message


TIMED = pack_date(2026, 11, 21) << 37 | 10 << 32 | 11 << 26 | 12 << 20 | 500_000
MICROS = kind(TypeCode.DATETIME, scale=6)
ZONED = Mode(zone=timezone(timedelta(hours=2)), today=pack_date(2026, 11, 21))

BETWEEN: list[tuple[Any, FieldType, FieldType, Any]] = [
    (2.5, DOUBLE, INT, 2),
    (3.5, DOUBLE, INT, 4),
    (Decimal("2.5"), DECIMAL, INT, 3),
    (7, INT, DECIMAL, Decimal("7.00")),
    (7, INT, FIVE, "7"),
    (TIMED, MICROS, BIGINT, 20261121101113),
    (TIMED, MICROS, DATE, pack_date(2026, 11, 21)),
    (TIMED, MICROS, CLOCK, (10 * 3600 + 11 * 60 + 13) * 1_000_000),
    (pack_date(2026, 11, 21), DATE, SECONDS, pack_date(2026, 11, 21) << 37),
    (pack_date(2026, 11, 21), DATE, BIGINT, 20261121),
    (pack_date(2026, 11, 21), DATE, YEAR, 2026),
    (3_723_000_000, TIME, BIGINT, 10203),
    (20261121, BIGINT, DATE, pack_date(2026, 11, 21)),
    (101112, BIGINT, CLOCK, 36_672_000_000),
    (2, ENUM, text(), "green"),
    (2, ENUM, INT, 2),
    (5, SET, text(), "a,c"),
    (65, BIT, text(), "\0A"),
    (3, INT, SET, 3),
    (1.5, DOUBLE, JSON, "1.5"),
    ("[1]", JSON, text(), "[1]"),
    (b"12", BLOB, INT, 12),
]


@pytest.mark.parametrize(("value", "source", "target", "expected"), BETWEEN)
def test_values_between_types(
    value: Any, source: FieldType, target: FieldType, expected: Any
) -> None:
    actual = convert(value, source, target)
    assert (actual, type(actual)) == (expected, type(expected))


def test_bytes_that_are_not_text_are_refused() -> None:
    with pytest.raises(Refused, match=r"Incorrect string value '\\xFFa'") as caught:
        convert(b"\xffa", BLOB, text())
    assert caught.value.code == 1366


def test_null_into_not_null_is_refused() -> None:
    must = kind(TypeCode.LONG, Flag.NOT_NULL)
    assert convert(None, INT, INT) is None
    with pytest.raises(Refused) as caught:
        convert(None, INT, must)
    assert named(caught.value, "c", 1).message == "Column 'c' cannot be null"


def test_a_timestamp_is_stored_in_utc_and_displayed_in_the_sessions_zone() -> None:
    stored = from_text("2026-11-21 01:00:00", TIMESTAMP, ZONED)
    assert to_text(stored, TIMESTAMP) == "2026-11-20 23:00:00"
    assert convert(stored, TIMESTAMP, text(), ZONED) == "2026-11-21 01:00:00"
    assert to_text(convert(stored, TIMESTAMP, DATE, ZONED), DATE) == "2026-11-21"


def test_times_outside_the_calendar_are_the_same_in_every_zone() -> None:
    for written in ("0000-00-00 00:00:00", "2026-00-10 01:00:00", "0000-05-05 01:00:00"):
        stored = from_text(written, SECONDS, LENIENT)
        assert convert(stored, SECONDS, MICROS, LENIENT._replace(zone=ZONED.zone)) == stored
        assert convert(stored, TIMESTAMP, text(), ZONED) == written
        with pytest.raises(Refused, match="Incorrect datetime value"):
            from_text(f"{written}+02:00", SECONDS, LENIENT)


def test_a_time_becomes_a_datetime_of_today() -> None:
    actual = convert(3_600_000_000 * 25, TIME, SECONDS, ZONED)
    assert to_text(actual, SECONDS) == "2026-11-22 01:00:00"
    with pytest.raises(Refused, match="Incorrect datetime value"):
        convert(0, TIME, SECONDS)


def test_zero_dates_by_mode() -> None:
    assert from_text("0000-00-00", DATE, LENIENT) == 0
    assert to_text(from_text("2026-00-10", DATE, LENIENT), DATE) == "2026-00-10"
    with pytest.raises(Refused, match="Incorrect date value"):
        from_text("2026-02-31", DATE, LENIENT)


ROUND_TRIP = {n: v for n, v in VALUES.items() if n not in ("bit", "json", "blob", "char")}


@pytest.mark.parametrize("name", ROUND_TRIP)
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_a_values_text_is_read_back_as_the_value(name: str, data: st.DataObject) -> None:
    field, drawn = ROUND_TRIP[name]
    value = data.draw(drawn)
    if name == "time":
        value = value // 1000 * 1000
    again = from_text(to_text(value, field), field, LENIENT)
    assert again == value or (name == "year" and value == 0)


def test_a_bit_is_sent_as_its_bytes() -> None:
    assert to_bytes(0x141, BIT) == b"\x01\x41"
    assert to_bytes("é", text()) == "é".encode()


# -- defaults --------------------------------------------------------------------------------------


def test_defaults_are_values_of_the_column() -> None:
    assert values.default_of(numbered_column(1, INT, default="5")) == 5
    assert values.default_of(numbered_column(1, DATE, default="0000-00-00")) == 0
    assert values.default_of(numbered_column(1, BLOB, default_bit="00ff")) == b"\x00\xff"
    assert values.default_of(numbered_column(1, BIT, default_bit="0101")) == 257
    assert values.default_of(numbered_column(1, TIMESTAMP, default="CURRENT_TIMESTAMP(3)")) is None
    assert values.default_of(numbered_column(1, INT, default="1 + 1", default_is_expr=True)) is None
    assert values.origin_default_of(numbered_column(1, INT, default="5")) is None
    assert values.origin_default_of(numbered_column(1, text(), origin_default="x")) == "x"


def test_implicit_defaults() -> None:
    zeros = {
        name: values.zero_of(field)
        for name, (field, _) in VALUES.items()
        if name in ("int", "decimal", "double", "date", "enum", "blob", "bin", "json")
    }
    assert zeros == {
        "int": 0,
        "decimal": Decimal("0.00"),
        "double": 0.0,
        "date": 0,
        "enum": 1,
        "blob": b"",
        "bin": "",
        "json": "null",
    }
