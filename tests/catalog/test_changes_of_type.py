"""The cost of a change of type; conversions one by one and by columns agree."""

from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exuvia.base.errors import Refused
from exuvia.base.types import INTEGER_BITS, FieldType, Flag, TypeCode
from exuvia.catalog.columns import vector_of
from exuvia.catalog.convert import type_change_batch
from exuvia.catalog.convert.type_change import (
    ChangeKind,
    ColumnChange,
    applied,
    converter,
    kind_of,
)

UNSIGNED, NOT_NULL = int(Flag.UNSIGNED), int(Flag.NOT_NULL)


def integer(code=TypeCode.LONG, flag=0):
    return FieldType(Tp=code, Flag=flag, Flen=11, Decimal=0)


def text(code=TypeCode.VARCHAR, length=10, charset="utf8mb4"):
    collate = "binary" if charset == "binary" else f"{charset}_bin"
    return FieldType(Tp=code, Flen=length, Decimal=0, Charset=charset, Collate=collate)


def decimal(precision=10, scale=2):
    return FieldType(Tp=TypeCode.NEWDECIMAL, Flen=precision, Decimal=scale)


def named(*elements, code=TypeCode.ENUM):
    return FieldType(Tp=code, Elems=elements, Charset="utf8mb4", Collate="utf8mb4_bin")


BIG, INT, TINY = integer(TypeCode.LONGLONG), integer(), integer(TypeCode.TINY)
DOUBLE, FLOAT = FieldType(Tp=TypeCode.DOUBLE, Flen=22), FieldType(Tp=TypeCode.FLOAT, Flen=12)
CHAR, BINARY = text(TypeCode.STRING), text(TypeCode.STRING, charset="binary")
TEXT = text(TypeCode.BLOB, 65535)


def moment(digits):
    return FieldType(Tp=TypeCode.DATETIME, Flen=20 + digits, Decimal=digits)


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        (INT, BIG, ChangeKind.METADATA),
        (INT, INT, ChangeKind.METADATA),
        (BIG, INT, ChangeKind.CHECKED),
        (INT, integer(flag=NOT_NULL), ChangeKind.CHECKED),
        (integer(flag=NOT_NULL), INT, ChangeKind.METADATA),
        (INT, integer(flag=UNSIGNED), ChangeKind.CHECKED),
        (INT, decimal(), ChangeKind.ROWS),
        (decimal(), decimal(12), ChangeKind.ROWS),
        (decimal(), decimal(), ChangeKind.METADATA),
        (FLOAT, DOUBLE, ChangeKind.ROWS),
        (DOUBLE, DOUBLE, ChangeKind.METADATA),
        (text(), text(length=20), ChangeKind.METADATA),
        (text(), text(length=5), ChangeKind.CHECKED),
        (text(), TEXT, ChangeKind.METADATA),
        (TEXT, text(), ChangeKind.CHECKED),
        (text(length=100), text(TypeCode.TINY_BLOB, 255), ChangeKind.CHECKED),
        (text(), CHAR, ChangeKind.PRECHECKED),
        (CHAR, text(), ChangeKind.METADATA),
        (CHAR, text(length=5), ChangeKind.CHECKED),
        (CHAR, TEXT, ChangeKind.METADATA),
        (CHAR, text(TypeCode.STRING, 20), ChangeKind.METADATA),
        (BINARY, text(TypeCode.STRING, 20, "binary"), ChangeKind.ROWS),
        (text(charset="binary"), text(length=20, charset="binary"), ChangeKind.METADATA),
        (text(), text(charset="binary"), ChangeKind.ROWS),
        (named("a"), named("a", "b"), ChangeKind.METADATA),
        (named("a", "b"), named("b", "a"), ChangeKind.ROWS),
        (named("a", "b"), named("a"), ChangeKind.ROWS),
        (named("a"), named("a", code=TypeCode.SET), ChangeKind.ROWS),
        (moment(0), moment(3), ChangeKind.METADATA),
        (moment(3), moment(0), ChangeKind.ROWS),
        (text(), INT, ChangeKind.ROWS),
        (INT, text(), ChangeKind.ROWS),
    ],
)
def test_the_kind_of_a_change(old, new, kind):
    assert kind_of(old, new) == kind


def test_an_index_and_a_lenient_mode_change_the_kind():
    unsigned = integer(flag=UNSIGNED)
    assert kind_of(INT, unsigned, indexed=True) == ChangeKind.INDEXES
    assert kind_of(BIG, INT, indexed=True) == ChangeKind.CHECKED
    assert kind_of(BIG, INT, strict=False) == ChangeKind.ROWS
    assert kind_of(INT, BIG, strict=False) == ChangeKind.METADATA


@pytest.mark.parametrize(
    ("old", "value", "new", "message"),
    [
        (INT, 300, TINY, "1690 constant 300 overflows tinyint"),
        (decimal(13, 7), Decimal("-258.1234500"), TINY, "1690 constant -258 overflows tinyint"),
        (
            decimal(13, 7),
            Decimal("-258.1234500"),
            integer(TypeCode.LONGLONG, UNSIGNED),
            "1690 constant -258.1234500 overflows bigint",
        ),
        (DOUBLE, 2000000.2, TINY, "1690 constant 2e+06 overflows tinyint"),
        (DOUBLE, 323232323.3, TINY, "1690 constant 3.23232323e+08 overflows tinyint"),
        (text(), "123x", INT, "1292 Truncated incorrect DOUBLE value: '123x'"),
        (text(), "abc", decimal(), "1292 Truncated incorrect DECIMAL value: 'abc'"),
        (
            decimal(5, 2),
            Decimal("111.22"),
            decimal(3, 1),
            "1690 DECIMAL value is out of range in '(3, 1)'",
        ),
        (INT, 11111, named("11111", "2"), "1265 Data truncated for column 'c', value is '11111'"),
        (
            CHAR,
            "0123456789",
            text(length=3),
            "1265 Data truncated for column 'c', value is '0123456789'",
        ),
        (text(), "date", moment(0), "1292 Incorrect datetime value: 'date'"),
        (INT, 0, moment(0), "1292 Incorrect datetime value: '0'"),
        (
            FieldType(Tp=TypeCode.TIME, Flen=10, Decimal=0),
            36_610_000_000,
            FieldType(Tp=TypeCode.YEAR, Flag=UNSIGNED, Flen=4),
            "1264 Out of range value for column 'c', the value is '10:10:10'",
        ),
    ],
)
def test_a_value_that_does_not_fit(old, value, new, message):
    with pytest.raises(Refused) as refused:
        converter(old, new, "c")(value)
    assert f"{refused.value.code} {refused.value.message}" == message


def test_a_bit_becomes_the_text_of_its_number():
    bits = FieldType(Tp=TypeCode.BIT, Flag=UNSIGNED, Flen=5)
    assert converter(bits, text(), "c")(21) == "21"


PAIRS = [
    (INT, TINY),
    (BIG, integer(TypeCode.LONGLONG, UNSIGNED)),
    (INT, decimal(9, 2)),
    (INT, DOUBLE),
    (INT, text(length=4)),
    (INT, CHAR),
    (INT, named("a", "b", "c")),
    (decimal(), decimal(6, 1)),
    (decimal(), INT),
    (text(), text(length=3)),
    (text(), CHAR),
    (text(), INT),
    (text(), TINY),
    (text(length=25), BIG),
    (text(length=25), integer(TypeCode.LONGLONG, UNSIGNED)),
    (text(charset="binary"), text(length=3, charset="binary")),
    (text(charset="binary"), BINARY),
]
VALUES = {
    TypeCode.LONG: st.integers(-(2**31), 2**31 - 1) | st.integers(-200, 200),
    TypeCode.LONGLONG: st.integers(-(2**63), 2**63 - 1) | st.integers(0, 9),
    TypeCode.NEWDECIMAL: st.decimals(-99999999, 99999999, places=2),
}
TEXTS = st.text("12a .", max_size=6)
DIGITS = st.from_regex(r"[-+]?[0-9]{1,20}\n?", fullmatch=True) | st.integers(-200, 300).map(str)


@pytest.mark.parametrize(("old", "new"), PAIRS)
@given(data=st.data())
def test_conversions_by_column_equal_those_one_by_one(old, new, data):
    texts = TEXTS if old.Charset != "binary" else TEXTS.map(str.encode)
    if old.Charset != "binary" and new.Tp in INTEGER_BITS:
        texts = DIGITS | TEXTS
    one = VALUES.get(old.Tp, texts)
    values = data.draw(st.lists(st.none() | one, max_size=6))
    change = ColumnChange(0, 0, converter(old, new, "c"), False, "c", None, old, new)
    vector = vector_of(values, old)
    singly, wrong = [], []
    for at, value in enumerate(values):
        try:
            singly.append(None if value is None else change.convert(value))
        except Refused:
            wrong.append(at)
    assert type_change_batch.offenders(change, vector) == wrong
    if not wrong:
        assert type_change_batch.converted_batch(change, vector).to_list() == singly
        assert np.all(type_change_batch.converted_batch(change, vector).field == new)


@pytest.mark.parametrize(("old", "new"), PAIRS)
@given(data=st.data())
def test_former_values_replace_converted_ones(old, new, data):
    texts = TEXTS if old.Charset != "binary" else TEXTS.map(str.encode)
    one = st.none() | VALUES.get(old.Tp, texts)
    pairs = data.draw(st.lists(st.tuples(one, one), max_size=6))
    change = ColumnChange(0, 0, converter(old, new, "c"), False, "c", None, old, new, 1)
    former, singly, wrong = [], [], []
    for at, (value, before) in enumerate(pairs):
        former.append(_converted_or_none(change, before))
        try:
            (row,) = [applied([change], [value, former[at]])]
            singly.append(row[0])
        except Refused:
            wrong.append(at)
    values, former_values = vector_of([value for value, _ in pairs], old), vector_of(former, new)
    assert type_change_batch.offenders(change, values, former_values) == wrong
    if not wrong:
        actual = type_change_batch.converted_batch(change, values, former_values)
        assert actual.to_list() == singly and np.all(actual.field == new)
        assert all(b in (None, c) for b, c in zip(former, singly, strict=True))


def _converted_or_none(change, value):
    try:
        return None if value is None else change.convert(value)
    except Refused:
        return None


def test_null_in_a_column_that_becomes_not_null():
    new = integer(flag=NOT_NULL)
    change = ColumnChange(0, 0, converter(INT, new, "c"), True, "c", None, INT, new)
    assert type_change_batch.offenders(change, vector_of([1, None], INT)) == [1]
    with pytest.raises(Refused, match="Data truncated for column 'c' at row 1"):
        type_change_batch.converted_batch(change, vector_of([1, None], INT))
    now = change._replace(null=7)
    assert type_change_batch.converted_batch(now, vector_of([1, None], INT)).to_list() == [1, 7]
