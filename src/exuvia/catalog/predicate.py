"""Which rows a partial index holds: those of which each term of its predicate is true.

    INDEX (a) WHERE b > 3 AND c IS NOT NULL        Term(b, >, 3)  Term(c, is not null)

A term compares a column with constants as both stand in keys (codec/key_encoder.py): so a writer
that looks at one row and a kernel that looks at many columns see the same, in every collation, and
so do the planner's bounds. Numbers have values that compare alike, and are compared as they are.
NULL makes every term false but IS NULL.

    family                        one row             many
    numbers                       Python              numpy
    DECIMAL, STRING, BYTES        encoded bytes       Arrow, of encoded bytes (codec/key_batch.py)
"""

import operator as op
from collections.abc import Callable, Sequence
from typing import Any

from exuvia.base.types import FieldType, Value
from exuvia.catalog.codec.key_encoder import NUMBERS, decoder_of, encoder_of
from exuvia.catalog.model import PredicateTerm

COMPARED: dict[str, Callable[[Any, Any], Any]] = {
    "=": op.eq,
    "!=": op.ne,
    "<": op.lt,
    "<=": op.le,
    ">": op.gt,
    ">=": op.ge,
}


def is_true(operator: str, value: Any, constants: Sequence[Any]) -> bool:
    """Whether a value, NULL excepted, compares so with the constants."""
    if operator == "in":
        return value in constants
    return bool(COMPARED[operator](value, constants[0]))


def _test(term: PredicateTerm, kind: FieldType) -> Callable[[Value], bool]:
    if term.operator == "is null":
        return lambda value: value is None
    if term.operator == "is not null":
        return lambda value: value is not None
    operator, constants = term.operator, constants_of(term, kind)
    if kind.family in NUMBERS:
        if operator == "in":
            return lambda value: value is not None and value in constants
        compare, constant = COMPARED[operator], constants[0]
        return lambda value: value is not None and compare(value, constant)
    encode = encoder_of(kind)
    return lambda value: value is not None and is_true(operator, encode(value), constants)


def constants_of(term: PredicateTerm, kind: FieldType) -> list[Any]:
    """Values of numbers, else bytes of keys."""
    encoded = [bytes.fromhex(each) for each in term.keys]
    if kind.family not in NUMBERS:
        return list(encoded)
    decode = decoder_of(kind)
    return [decode(each, 0)[0] for each in encoded]


class Predicate:
    """The terms of one index. `positions` are those of their columns in the table's rows."""

    def __init__(
        self, terms: Sequence[PredicateTerm], positions: Sequence[int], kinds: Sequence[FieldType]
    ) -> None:
        self.terms = tuple(terms)
        self.positions = tuple(positions)
        self.kinds = tuple(kinds)
        self._tests = [
            (position, _test(term, kind))
            for term, position, kind in zip(terms, positions, kinds, strict=True)
        ]

    def holds(self, row: Sequence[Value]) -> bool:
        """Whether the index holds this row."""
        return all(test(row[position]) for position, test in self._tests)
