"""Logic, comparison and choice: three-valued, by the collation's key where text is compared.

AND     0 if either is 0, else NULL if either is NULL, else 1          (OR, XOR likewise)
= < ..  NULL if either is NULL; strings by their collation's key
<=>     never NULL
"""

import operator
from collections.abc import Callable

from exuvia.base.types import Family, Value
from exuvia.catalog.collation import collation
from exuvia.sql.env import Compiled, Env, Maker, Row
from exuvia.sql.expr import Call, Expr
from exuvia.sql.functions import json_functions


def _and(call: Call, arguments: list[Compiled]) -> Compiled:
    left, right = arguments

    def run(row: Row, env: Env) -> int | None:
        a = left(row, env)
        if a is not None and not a:
            return 0
        b = right(row, env)
        if b is not None and not b:
            return 0
        return None if a is None or b is None else 1

    return run


def _or(call: Call, arguments: list[Compiled]) -> Compiled:
    left, right = arguments

    def run(row: Row, env: Env) -> int | None:
        a = left(row, env)
        if a:
            return 1
        b = right(row, env)
        if b:
            return 1
        return None if a is None or b is None else 0

    return run


def _xor(call: Call, arguments: list[Compiled]) -> Compiled:
    left, right = arguments

    def run(row: Row, env: Env) -> int | None:
        a, b = left(row, env), right(row, env)
        return None if a is None or b is None else int(bool(a) != bool(b))

    return run


def _not(call: Call, arguments: list[Compiled]) -> Compiled:
    inner = arguments[0]

    def run(row: Row, env: Env) -> int | None:
        value = inner(row, env)
        return None if value is None else int(not value)

    return run


def _is_null(call: Call, arguments: list[Compiled]) -> Compiled:
    inner = arguments[0]
    return lambda row, env: int(inner(row, env) is None)


def _is_true(call: Call, arguments: list[Compiled]) -> Compiled:
    inner = arguments[0]
    return lambda row, env: int(bool(inner(row, env)))


def _is_false(call: Call, arguments: list[Compiled]) -> Compiled:
    inner = arguments[0]

    def run(row: Row, env: Env) -> int:
        value = inner(row, env)
        return int(value is not None and not value)

    return run


_COMPARE: dict[str, Callable[[Value, Value], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def key_of(argument: Expr, collate: str) -> Callable[[Value], Value] | None:
    """How a value compares: None where it compares as it stands."""
    family = argument.family
    if family is Family.STRING:
        found = collation(collate)
        return None if found.fold is None and not found.pads else found.sort_key
    return json_functions.key if family is Family.JSON else None


def comparison(name: str) -> Maker:
    """The maker of =, <, ... by values or by keys."""
    compare = _COMPARE[name]

    def make(call: Call, arguments: list[Compiled]) -> Compiled:
        left, right = arguments
        key = key_of(call.arguments[0], call.extra[0])

        def plain(row: Row, env: Env) -> int | None:
            a = left(row, env)
            if a is None:
                return None
            b = right(row, env)
            return None if b is None else int(compare(a, b))

        def by_key(row: Row, env: Env) -> int | None:
            a = left(row, env)
            if a is None:
                return None
            b = right(row, env)
            if b is None:
                return None
            return int(compare(key(a), key(b)))  # type: ignore[misc]

        return plain if key is None else by_key

    return make


def _null_safe(call: Call, arguments: list[Compiled]) -> Compiled:
    left, right = arguments
    key = key_of(call.arguments[0], call.extra[0]) or (lambda value: value)

    def run(row: Row, env: Env) -> int:
        a, b = left(row, env), right(row, env)
        if a is None or b is None:
            return int(a is b)
        return int(key(a) == key(b))

    return run


def _in(call: Call, arguments: list[Compiled]) -> Compiled:
    needle, *items = arguments
    key = key_of(call.arguments[0], call.extra[0]) or (lambda value: value)
    comparisons = [comparison("=")(call, [needle, item]) for item in items]
    same = len({argument.family for argument in call.arguments}) == 1

    def by_set(row: Row, env: Env) -> int | None:
        value = needle(row, env)
        if value is None:
            return None
        found = env.memory.get(comparisons[0])
        if found is None:
            values = [item(row, env) for item in items]
            known = {key(each) for each in values if each is not None}
            found = env.memory[comparisons[0]] = (known, None in values)
        return 1 if key(value) in found[0] else None if found[1] else 0

    def one_by_one(row: Row, env: Env) -> int | None:
        unknown = False
        for comparison in comparisons:
            answer = comparison(row, env)
            if answer:
                return 1
            unknown = unknown or answer is None
        return None if unknown else 0

    return by_set if call.extra[1] and same else one_by_one


def _case(call: Call, arguments: list[Compiled]) -> Compiled:
    """Arguments: condition, value, condition, value, ..., else."""
    pairs = list(zip(arguments[:-1:2], arguments[1:-1:2], strict=True))
    otherwise = arguments[-1]

    def run(row: Row, env: Env) -> Value:
        for condition, value in pairs:
            if condition(row, env):
                return value(row, env)
        return otherwise(row, env)

    return run


def _coalesce(call: Call, arguments: list[Compiled]) -> Compiled:
    def run(row: Row, env: Env) -> Value:
        for argument in arguments:
            value = argument(row, env)
            if value is not None:
                return value
        return None

    return run


def _null_if(call: Call, arguments: list[Compiled]) -> Compiled:
    """Arguments: the value, and the comparison that makes it NULL."""
    value, equal = arguments
    return lambda row, env: None if equal(row, env) else value(row, env)


def _extreme(sign: str) -> Maker:
    def make(call: Call, arguments: list[Compiled]) -> Compiled:
        key = key_of(call.arguments[0], call.extra[0]) or (lambda value: value)
        pick = max if sign == ">" else min

        def run(row: Row, env: Env) -> Value:
            values = [argument(row, env) for argument in arguments]
            return None if None in values else pick(values, key=key)

        return run

    return make


OPERATORS: dict[str, Maker] = {
    "and": _and,
    "or": _or,
    "xor": _xor,
    "not": _not,
    "is null": _is_null,
    "is true": _is_true,
    "is false": _is_false,
    **{name: comparison(name) for name in _COMPARE},
    "<=>": _null_safe,
    "in": _in,
    "case": _case,
    "coalesce": _coalesce,
    "nullif": _null_if,
    "greatest": _extreme(">"),
    "least": _extreme("<"),
}
