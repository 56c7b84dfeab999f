"""NEXTVAL(s), LASTVAL(s), SETVAL(s, n): the first argument is a name, not a column."""

from collections.abc import Sequence

from sqlglot import exp

from exuvia.sql.bind.calls import call
from exuvia.sql.bind.literals import text_constant
from exuvia.sql.bind.scope import Scope
from exuvia.sql.expr import Expr
from exuvia.sql.parse.syntax_error import Misplaced

CALLS = frozenset(("lastval", "nextval", "setval"))


def by_name(name: str, arguments: Sequence[exp.Expression], scope: Scope) -> Expr:
    """The call with the sequence's database ("" for the current one) and name as texts."""
    count = 2 if name == "setval" else 1
    if len(arguments) != count:
        raise Misplaced(")")
    named = arguments[0]
    if not isinstance(named, exp.Column) or named.args.get("db") is not None:
        raise Misplaced(named.sql(dialect="mysql"))
    places = [text_constant(part, scope) for part in (named.table, named.name)]
    return call(name, [*places, *map(scope.bind, arguments[1:])], scope)
