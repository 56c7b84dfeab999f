"""The predicate of a partial index: it has the rows for which every term is true.

    INDEX (a) WHERE b > 3 AND c IS NOT NULL        Term(b, >, 3)  Term(c, is not null)

A term compares a column with constants in their key encoding (codec/key_encoder.py). So writers of
one row, kernels for many rows, and the planner's bounds agree in every collation. Numbers are
compared by value. NULL makes every term false except IS NULL.

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
    """The comparison of a value, which is not NULL, with the constants."""
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
    """The term's constants: numbers, or key bytes for other families."""
    encoded = [bytes.fromhex(constant) for constant in term.keys]
    if kind.family not in NUMBERS:
        return list(encoded)
    decode = decoder_of(kind)
    return [decode(constant, 0)[0] for constant in encoded]


class Predicate:
    """The terms of one index. `positions`: their columns in the table's rows."""

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
        """Whether the index has this row."""
        return all(test(row[position]) for position, test in self._tests)
