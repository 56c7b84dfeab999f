"""An expression as 1690 shows it: columns in full, operators as functions inside others.

a - 1            (shop.t.a - 1)
(a + b) * 2      (plus(shop.t.a, shop.t.b) * 2)
"""

from collections.abc import Sequence

from exuvia.sql.evaluate.texts import text_of
from exuvia.sql.expr import Call, Cast, Column, Constant, Expr, Outer, Parameter, VariableRef, chain

_NAMES = {
    "+": "plus",
    "-": "minus",
    "*": "mul",
    "/": "div",
    "%": "mod",
    "negative": "unaryminus",
    "extract": "extract",
}


def operation(call: Call, sign: str, values: Sequence[object] = ()) -> str:
    """`(left sign right)` of an operator's call, `-(operand)` of one with a single operand.

    `values` are the operands', for those that are parameters."""
    parts = [shown(part) for part in call.arguments]
    for n, value in enumerate(values[: len(parts)]):
        if isinstance(call.arguments[n], Parameter):
            parts[n] = str(value)
    return f"{sign}({parts[0]})" if len(parts) == 1 else f"({parts[0]} {sign} {parts[1]})"


def shown(expr: Expr) -> str:
    """The text of an operand."""
    if isinstance(expr, Column | Outer):
        return expr.full or expr.name
    if isinstance(expr, Constant):
        return "NULL" if expr.value is None else _text(expr)
    if isinstance(expr, Cast):
        return shown(expr.argument)
    if isinstance(expr, VariableRef):
        return f"@{expr.name}"
    if isinstance(expr, Parameter):
        return "?"
    calls = chain(expr)
    if calls:
        text = shown(calls[-1].arguments[0])
        for call in reversed(calls):
            text = f"{_NAMES.get(call.function, call.function)}({text}, {shown(call.arguments[1])})"
        return text
    if isinstance(expr, Call):
        name = _NAMES.get(expr.function, expr.function)
        return f"{name}({', '.join(shown(part) for part in expr.arguments)})"
    return type(expr).__name__.lower()


def _text(constant: Constant) -> str:
    found = text_of(constant.type)(constant.value)
    return found.decode("utf-8", "replace") if isinstance(found, bytes) else found
