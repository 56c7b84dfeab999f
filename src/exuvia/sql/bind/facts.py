"""Calls that ask about an expression, not about its value: known when it is bound.

CHARSET(x) COLLATION(x) COERCIBILITY(x)      of its type
NAME_CONST('n', x)                           x itself
"""

from exuvia.base.types import Family
from exuvia.sql import types
from exuvia.sql.bind.choice import Special, expect
from exuvia.sql.bind.literals import text_constant
from exuvia.sql.bind.scope import Scope
from exuvia.sql.expr import Constant, Expr


def _charset(name: str, arguments: list[Expr], scope: Scope) -> Expr:
    expect(name, arguments, 1, 1)
    kind = arguments[0].type
    is_text = types.family_of(kind) is Family.STRING
    found = (kind.Charset if name == "charset" else kind.Collate) if is_text else "binary"
    return text_constant(found, scope)


def _coercibility(name: str, arguments: list[Expr], scope: Scope) -> Expr:
    expect(name, arguments, 1, 1)
    return Constant(type=types.BIGINT, value=int(arguments[0].coercibility))


def _name_const(name: str, arguments: list[Expr], scope: Scope) -> Expr:
    expect(name, arguments, 2, 2)
    return arguments[1]


SPECIAL: dict[str, Special] = {
    "charset": _charset,
    "coercibility": _coercibility,
    "collation": _charset,
    "name_const": _name_const,
}
