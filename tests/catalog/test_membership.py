"""The bounds of each type: values inside are members, values outside are not."""

from decimal import Decimal
from typing import Any

import pytest

from exuvia.base.types import FieldType, Flag, TypeCode, pack_date, pack_datetime
from exuvia.catalog.columns import vector_of
from exuvia.catalog.membership import outsiders

DAY = pack_date(2024, 2, 29)
HOUR = 3_600_000_000
UNSIGNED = int(Flag.UNSIGNED)


def kind(code: TypeCode, flen: int = -1, scale: int = -1, **more: Any) -> FieldType:
    return FieldType(Tp=code, Flen=flen, Decimal=scale, **more)


def text(code: TypeCode, flen: int, charset: str = "utf8mb4") -> FieldType:
    return kind(code, flen, Charset=charset, Collate=f"{charset}_bin")


def moment(*parts: int, day: int = DAY) -> int:
    return pack_datetime(day, *parts)


CASES: list[tuple[FieldType, list[Any], list[Any]]] = [
    (kind(TypeCode.TINY), [-128, 127, None], [-129, 128]),
    (kind(TypeCode.TINY, Flag=UNSIGNED), [0, 255], [256]),
    (kind(TypeCode.LONG), [-(1 << 31), (1 << 31) - 1], [1 << 31]),
    (kind(TypeCode.LONGLONG), [-(1 << 63), (1 << 63) - 1], []),
    (kind(TypeCode.YEAR), [0, 1901, 2155], [1, 1900, 2156]),
    (kind(TypeCode.BIT, 3), [0, 7], [8]),
    (kind(TypeCode.BIT, 64), [(1 << 64) - 1], []),
    (kind(TypeCode.ENUM, Elems=("a", "b")), [0, 1, 2], [3]),
    (kind(TypeCode.SET, Elems=("a", "b")), [0, 3], [4]),
    (
        kind(TypeCode.NEWDECIMAL, 4, 2),
        [Decimal("99.99"), Decimal("-99.99")],
        [Decimal("100.00"), Decimal("-100.00")],
    ),
    (kind(TypeCode.NEWDECIMAL, 4, 2, Flag=UNSIGNED), [Decimal("0.00")], [Decimal("-0.01")]),
    (
        kind(TypeCode.NEWDECIMAL, 30, 5),
        [Decimal("9" * 25), Decimal(-1), Decimal("0.00001"), -Decimal("9" * 25)],
        [Decimal(10**25), -Decimal(10**25)],
    ),
    (
        kind(TypeCode.NEWDECIMAL, 20, 0, Flag=UNSIGNED),
        [Decimal(0), Decimal("9" * 20)],
        [Decimal(-1), Decimal(10**20)],
    ),
    (
        kind(TypeCode.NEWDECIMAL, 65, 0),
        [Decimal("9" * 65), Decimal("-" + "9" * 65), Decimal(-1), Decimal(1)],
        [Decimal(10**65), Decimal(-(10**65))],
    ),
    (kind(TypeCode.FLOAT), [0.5, 0.10000000149011612], [0.1, float("inf")]),
    (kind(TypeCode.DOUBLE, Flag=UNSIGNED), [0.1], [-0.1, float("nan")]),
    (text(TypeCode.VARCHAR, 3), ["äöü", "ab ", ""], ["abcd", "äöüß"]),
    (text(TypeCode.STRING, 3), ["äöü", ""], ["ab ", "abcd"]),
    (text(TypeCode.TINY_BLOB, 255), ["ä" * 127], ["ä" * 128]),
    (text(TypeCode.VARCHAR, 3, "ascii"), ["abc"], ["aä"]),
    (text(TypeCode.VARCHAR, 3, "utf8"), ["aä€"], ["a😀"]),
    (text(TypeCode.VARCHAR, 3, "gbk"), ["a中"], ["a😀"]),
    (kind(TypeCode.STRING, 2), [b"\0\0", b"ab"], [b"a", b"abc"]),
    (kind(TypeCode.VARCHAR, 2), [b"", b"ab"], [b"abc"]),
    (kind(TypeCode.DATE), [0, DAY, pack_date(2024, 0, 0), pack_date(2023, 2, 31)], [13 << 5]),
    (
        kind(TypeCode.DATETIME, 21, 1),
        [0, moment(23, 59, 59, 900_000)],
        [moment(24, 0, 0), moment(0, 60, 0), moment(0, 0, 60), moment(0, 0, 0, 950_000)],
    ),
    (
        kind(TypeCode.TIMESTAMP, 19, 0),
        [0, moment(10, 0, 0)],
        [moment(0, 0, 0, day=pack_date(1969, 1, 1)), moment(0, 0, 0, day=pack_date(2039, 1, 1))],
    ),
    (kind(TypeCode.TIME, 10, 0), [-838 * HOUR, 838 * HOUR], [839 * HOUR, 500_000]),
    (
        kind(TypeCode.JSON, Charset="utf8mb4", Collate="utf8mb4_bin"),
        ['{"a": [1, 2.5]}', "null", '"x"', "18446744073709551615", None],
        ["{", '{"a": 1', '"b": 2}', "1, 2", ""],
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0].Tp}-{case[0].Flen}")
def test_bounds_of_types(case: tuple[FieldType, list[Any], list[Any]]) -> None:
    field, members, others = case
    assert not outsiders(vector_of(members, field), field).tolist()
    for other in others:
        mixed = [*members, other, *members]
        outside = outsiders(vector_of(mixed, field), field)
        assert outside.tolist() == [len(members)], other
    strict = kind(
        TypeCode(field.Tp),
        field.Flen,
        field.Decimal,
        Charset=field.Charset,
        Collate=field.Collate,
        Elems=field.Elems,
        Flag=field.Flag | int(Flag.NOT_NULL),
    )
    plain = [value for value in members if value is not None]
    assert outsiders(vector_of([*plain, None], strict), strict).tolist() == [len(plain)]
