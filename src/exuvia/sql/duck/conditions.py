"""Conditions as DuckDB BOOLEANs: logic, comparison by key, LIKE.

A maker answers None where the types at hand are not faithful; the call is then evaluated in Python.
"""

from collections.abc import Callable
from decimal import Decimal

from exuvia.base.types import Family
from exuvia.catalog.collation import collation
from exuvia.sql.duck import engine as duck
from exuvia.sql.duck.render import Renderer
from exuvia.sql.expr import Call, Cast, Constant, Expr, chain

Maker = Callable[[Call, Renderer], str | None]


def divides(expr: Expr) -> bool:
    """Whether a decimal is a quotient, which has more digits than its type shows."""
    if isinstance(expr, Constant) and isinstance(expr.value, Decimal):
        exponent = expr.value.as_tuple().exponent
        return isinstance(exponent, int) and -exponent > max(0, expr.type.Decimal)
    calls = chain(expr)
    if calls:
        parts = [calls[-1].arguments[0], *(call.arguments[1] for call in calls)]
        return any(call.function == "/" for call in calls) or any(map(divides, parts))
    if isinstance(expr, Call) and expr.family is Family.DECIMAL:
        return expr.function == "/" or any(divides(part) for part in expr.arguments)
    return isinstance(expr, Cast) and expr.family is Family.DECIMAL and divides(expr.argument)


def _connective(word: str) -> Maker:
    def make(call: Call, renderer: Renderer) -> str:
        parts = [renderer.condition(part) for part in call.arguments]
        return "(" + f" {word} ".join(parts) + ")"

    return make


def _xor(call: Call, renderer: Renderer) -> str:
    left, right = (renderer.condition(part) for part in call.arguments)
    return f"({left} <> {right})"


def _not(call: Call, renderer: Renderer) -> str:
    return f"(NOT {renderer.condition(call.arguments[0])})"


def _is_null(call: Call, renderer: Renderer) -> str:
    return f"({renderer.value(call.arguments[0])} IS NULL)"


def _is_true(call: Call, renderer: Renderer) -> str:
    return f"coalesce({renderer.condition(call.arguments[0])}, FALSE)"


def _is_false(call: Call, renderer: Renderer) -> str:
    return f"coalesce(NOT {renderer.condition(call.arguments[0])}, FALSE)"


def _comparison(sign: str) -> Maker:
    def make(call: Call, renderer: Renderer) -> str | None:
        left, right = call.arguments
        if divides(left) or divides(right) or Family.JSON in (left.family, right.family):
            return None
        one, other = renderer.keys(call.arguments, call.extra[0])
        return f"({one} {sign} {other})"

    return make


def _in(call: Call, renderer: Renderer) -> str | None:
    if any(divides(part) or part.family is Family.JSON for part in call.arguments):
        return None
    needle, *items = renderer.keys(call.arguments, call.extra[0])
    return f"({needle} IN ({', '.join(items)}))"


def _like(call: Call, renderer: Renderer) -> str | None:
    """DuckDB looks for the parts between % one after another, if nothing else is in the pattern;
    with `_` or ESCAPE it backtracks, and nothing interrupts it (sql/matching.py)."""
    text, pattern, escape = call.arguments
    if text.family is not Family.STRING or collation(call.extra[0]).fold is not None:
        return None
    if not (isinstance(pattern, Constant) and isinstance(escape, Constant)):
        return None
    if pattern.value is None or "_" in pattern.value or "\\" in pattern.value:
        return None
    if escape.value and escape.value in pattern.value:
        return None
    return f"({renderer.value(text)} LIKE {duck.text_literal(pattern.value)})"


CONDITIONS: dict[str, Maker] = {
    "and": _connective("AND"),
    "or": _connective("OR"),
    "xor": _xor,
    "not": _not,
    "is null": _is_null,
    "is true": _is_true,
    "is false": _is_false,
    "=": _comparison("="),
    "!=": _comparison("<>"),
    "<": _comparison("<"),
    "<=": _comparison("<="),
    ">": _comparison(">"),
    ">=": _comparison(">="),
    "<=>": _comparison("IS NOT DISTINCT FROM"),
    "in": _in,
    "like": _like,
}
