"""Whether a WHERE implies the predicate of a partial index: the index then has all its rows.

    INDEX (a) WHERE b > 3        WHERE a = 1 AND b > 5        yes: 5 >= 3
                                 WHERE a = 1 AND b IN (4, 9)  yes, both values do
                                 WHERE a = 1                  no

Each term of the predicate must follow from one condition on its column. Plans are cached by shape:
`may_imply` decides by the shape of the WHERE alone, `is_implied` by the constants of each run. Both
sides are compared as encoded in keys (catalog/predicate.py), so texts that are equal in a collation
are equal here. In doubt, a condition does not imply.
"""

from collections.abc import Sequence
from datetime import tzinfo

from sqlglot import exp

from exuvia.base.types import FieldType, TypeCode, Value
from exuvia.catalog.codec.key_encoder import encoder_of
from exuvia.catalog.model import IndexInfo, PredicateTerm
from exuvia.catalog.predicate import Predicate, is_true
from exuvia.catalog.table import Table
from exuvia.sql.access.ranger import (
    INEXACT,
    NOTHING,
    Doubtful,
    Term,
    Terms,
    bounder,
    zoned_bounder,
)
from exuvia.sql.env import Execution

_FIRST_YEAR, _LAST_YEAR = 1901, 2155
_NUMBERED = (TypeCode.ENUM, TypeCode.SET, TypeCode.BIT)

# the conditions of a query that may imply a term of a predicate
_ENOUGH = {
    "is null": {"is null"},
    "is not null": {"=", "in", "!=", "<", "<=", ">", ">=", "is not null"},
    "=": {"=", "in"},
    "in": {"=", "in"},
    "!=": {"=", "in", "!=", "<", "<=", ">", ">="},
    "<": {"=", "in", "<", "<="},
    "<=": {"=", "in", "<", "<="},
    ">": {"=", "in", ">", ">="},
    ">=": {"=", "in", ">", ">="},
}


def value_bound(kind: FieldType, operator: str, value: Value, zone: tzinfo | None) -> Value:
    """The constant as an exact value of the column's type, or NOTHING, INEXACT or Doubtful.

    See ranger.py. ENUM, SET and BIT are compared with numbers by their numbers."""
    if value is None:
        return NOTHING
    if kind.Tp == TypeCode.YEAR:
        return value if isinstance(value, int) and _FIRST_YEAR <= value <= _LAST_YEAR else INEXACT
    equality = operator in ("=", "!=", "in")
    if kind.Tp in _NUMBERED and not equality and not isinstance(value, int):
        return INEXACT
    if zone is not None:
        return zoned_bounder(kind, equality, zone)(value)
    return bounder(kind, equality or kind.Tp in _NUMBERED)(value)


def may_imply(table: Table, index: IndexInfo, terms: Terms) -> bool:
    """Whether a WHERE of this shape can imply the index's predicate; True for a whole index."""
    if not index.exuvia_predicate:
        return True
    predicate = table.form(index).predicate
    assert predicate is not None, index.idx_name.O
    return all(
        any(
            _may_imply_term(condition, position, term)
            for condition in (*terms.usable, *terms.others)
        )
        for term, position in zip(predicate.terms, predicate.positions, strict=True)
    )


def _may_imply_term(condition: Term, position: int, term: PredicateTerm) -> bool:
    if condition.position != position or condition.computed:
        return False
    return condition.operator in _ENOUGH[term.operator]


def is_implied(predicate: Predicate, terms: Sequence[Term], context: Execution) -> bool:
    """Whether these conditions, with their constants, imply the whole predicate."""
    return all(
        any(
            _implies(condition, term, kind, context)
            for condition in terms
            if _may_imply_term(condition, position, term)
        )
        for term, position, kind in zip(
            predicate.terms, predicate.positions, predicate.kinds, strict=True
        )
    )


def _implies(condition: Term, term: PredicateTerm, kind: FieldType, context: Execution) -> bool:
    if term.operator.startswith("is"):
        return True  # may_imply has decided: a comparison is never true of NULL
    operator, encode = condition.operator, encoder_of(kind)
    term_keys = [bytes.fromhex(key) for key in term.keys]
    constants: list[bytes] = []
    for constant in condition.constants:
        value = value_bound(kind, operator, constant(context), condition.zone)
        if value is INEXACT:
            return False
        if value is NOTHING:
            continue
        if isinstance(value, Doubtful):
            value = value.first if operator[0] == ">" else value.last
            operator = f"{operator[0]}="
        constants.append(encode(value))
    if not constants:
        return True  # compared only with NULL: no row
    if operator in ("=", "in"):
        return all(is_true(term.operator, constant, term_keys) for constant in constants)
    (edge,), (bound,) = constants, term_keys
    if operator == "!=":
        return edge == bound
    inside = edge >= bound if operator[0] == ">" else edge <= bound
    is_open = term.operator in ("<", ">", "!=")
    return inside and not (is_open and edge == bound and operator.endswith("="))


# -- operators of conditions -----------------------------------------------------------------------

_OPERATORS: dict[type, str] = {
    exp.EQ: "=",
    exp.NEQ: "!=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.LT: "<",
    exp.LTE: "<=",
}
MIRRORED = {"=": "=", "!=": "!=", ">": "<", ">=": "<=", "<": ">", "<=": ">="}


def operator_of(tree: exp.Expression) -> str | None:
    """The operator of a comparison; None for any other tree."""
    return _OPERATORS.get(type(tree))
