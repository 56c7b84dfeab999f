"""A predicate has the same result for one row, for many columns, and in SQL's own evaluator, for
every type and collation.
"""

from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exuvia.base.types import FieldType, Flag, TypeCode
from exuvia.catalog.codec.key_batch import held_rows
from exuvia.catalog.codec.key_encoder import encoder_of
from exuvia.catalog.columns import Columns, vector_of
from exuvia.catalog.model import PredicateTerm, name
from exuvia.catalog.predicate import COMPARED, Predicate

WORDS = st.text(alphabet="aAbBäÄ z\0", max_size=4)


def text(collate: str) -> FieldType:
    return FieldType(Tp=TypeCode.VARCHAR, Flen=40, Charset="utf8mb4", Collate=collate)


KINDS: dict[str, tuple[FieldType, st.SearchStrategy[Any]]] = {
    "int": (FieldType(Tp=TypeCode.LONGLONG), st.integers(-(1 << 63), (1 << 63) - 1)),
    "small": (FieldType(Tp=TypeCode.LONG), st.integers(-2, 2)),
    "uint": (
        FieldType(Tp=TypeCode.LONGLONG, Flag=Flag.UNSIGNED),
        st.integers(0, (1 << 64) - 1) | st.sampled_from([0, (1 << 64) - 1]),
    ),
    "double": (
        FieldType(Tp=TypeCode.DOUBLE),
        st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([0.0, -0.0]),
    ),
    "decimal": (
        FieldType(Tp=TypeCode.NEWDECIMAL, Flen=10, Decimal=2),
        st.decimals(-99, 99, places=2, allow_nan=False).map(Decimal),
    ),
    "wide decimal": (
        FieldType(Tp=TypeCode.NEWDECIMAL, Flen=40, Decimal=10),
        st.decimals(-99, 99, places=10, allow_nan=False).map(Decimal),
    ),
    "general_ci": (text("utf8mb4_general_ci"), WORDS),
    "utf8mb4_bin": (text("utf8mb4_bin"), WORDS),
    "0900": (text("utf8mb4_0900_ai_ci"), WORDS),
    "bytes": (FieldType(Tp=TypeCode.VARCHAR, Flen=9), st.binary(max_size=4)),
    "date": (FieldType(Tp=TypeCode.DATE), st.integers(0, 1 << 22)),
}
OPERATORS = [*COMPARED, "in", "is null", "is not null"]


def columns_of(values: list[Any], kind: FieldType) -> Columns:
    vector = vector_of(values, kind)
    handles = np.zeros(len(values), "V8")
    return Columns([kind], ["b"], [0], handles, lambda _, position: vector, len(values))


@pytest.mark.parametrize("title", KINDS)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_rows_and_columns_have_the_same_result(title: str, data: st.DataObject) -> None:
    kind, values_of = KINDS[title]
    some = data.draw(st.lists(st.none() | values_of, min_size=1, max_size=12))
    encode, terms = encoder_of(kind), []
    for operator in data.draw(st.lists(st.sampled_from(OPERATORS), min_size=1, max_size=2)):
        number = 3 if operator == "in" else 0 if operator.startswith("is") else 1
        near = st.sampled_from([value_ for value_ in some if value_ is not None] or [None])
        constants = [data.draw(near | values_of) for _ in range(number)]
        constants = [value_ for value_ in constants if value_ is not None] or [data.draw(values_of)]
        keys = tuple(encode(value_).hex() for value_ in constants) if number else ()
        terms.append(PredicateTerm(name=name("b"), operator=operator, keys=keys))
    predicate = Predicate(terms, [0] * len(terms), [kind] * len(terms))
    one_by_one = [predicate.holds([value]) for value in some]
    assert held_rows(predicate, columns_of(some, kind)).tolist() == one_by_one
    for value, is_member in zip(some, one_by_one, strict=True):
        assert is_member == all(by_keys(term, value, encode) for term in terms)


def by_keys(term: PredicateTerm, value: Any, encode: Any) -> bool:
    """The result of the term, computed from keys only."""
    if term.operator.startswith("is"):
        return (value is None) == (term.operator == "is null")
    if value is None:
        return False
    key, constants = encode(value), [bytes.fromhex(constant) for constant in term.keys]
    if term.operator == "in":
        return key in constants
    return bool(COMPARED[term.operator](key, constants[0]))
