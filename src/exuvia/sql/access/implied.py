"""Whether a WHERE implies the predicate of a partial index, so that the index holds all its rows.

    INDEX (a) WHERE b > 3        WHERE a = 1 AND b > 5        yes: 5 >= 3
                                 WHERE a = 1 AND b IN (4, 9)  yes, each of them
                                 WHERE a = 1                  no

Each term of the predicate must follow from one condition on its column. From the shape of the WHERE
alone follows only that it may (`may_imply`): constants are looked at at each run (`is_implied`), as
plans are kept by shape. Both sides are compared as they stand in keys (catalog/predicate.py), so a
collation's equal texts are equal here. What is in doubt does not imply.
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

# which conditions of a query may say enough for a term of a predicate
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
    """What a constant is as a value of the column's type, exactly; NOTHING, INEXACT or Doubtful as
    in ranger.py. ENUM, SET and BIT compare with numbers by their numbers."""
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
        any(_says(asked, position, term) for asked in (*terms.usable, *terms.others))
        for term, position in zip(predicate.terms, predicate.positions, strict=True)
    )


def _says(asked: Term, position: int, term: PredicateTerm) -> bool:
    if asked.position != position or asked.computed:
        return False
    return asked.operator in _ENOUGH[term.operator]


def is_implied(predicate: Predicate, terms: Sequence[Term], context: Execution) -> bool:
    """Whether these conditions, with their constants, imply all of the predicate."""
    return all(
        any(_implies(asked, term, kind, context) for asked in terms if _says(asked, position, term))
        for term, position, kind in zip(
            predicate.terms, predicate.positions, predicate.kinds, strict=True
        )
    )


def _implies(asked: Term, term: PredicateTerm, kind: FieldType, context: Execution) -> bool:
    if term.operator.startswith("is"):
        return True  # the shape has said it: a comparison is never true of NULL
    operator, encode = asked.operator, encoder_of(kind)
    wanted = [bytes.fromhex(each) for each in term.keys]
    found: list[bytes] = []
    for constant in asked.constants:
        value = value_bound(kind, operator, constant(context), asked.zone)
        if value is INEXACT:
            return False
        if value is NOTHING:
            continue
        if isinstance(value, Doubtful):
            value = value.first if operator[0] == ">" else value.last
            operator = f"{operator[0]}="
        found.append(encode(value))
    if not found:
        return True  # compared with NULL alone: no row
    if operator in ("=", "in"):
        return all(is_true(term.operator, each, wanted) for each in found)
    (edge,), (bound,) = found, wanted
    if operator == "!=":
        return edge == bound
    inside = edge >= bound if operator[0] == ">" else edge <= bound
    is_open = term.operator in ("<", ">", "!=")
    return inside and not (is_open and edge == bound and operator.endswith("="))


# -- how conditions are written --------------------------------------------------------------------

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
    """The sign of a comparison; None for any other tree."""
    return _OPERATORS.get(type(tree))
