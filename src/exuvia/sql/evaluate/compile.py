"""Expressions as Python closures: `compile_expression(expr)(row, env) -> value`.

    compile once per plan        closure(row, env), one call per node; NULL is None, true is 1
    constant parts               computed once per statement (`env.memory`)
    functions                    the table in functions/, with the conversions of arguments
    long texts                   claimed before they are created (base/memory.py); a call releases
                                 the claims of its arguments

The semantics are MySQL's. The binder has added a Cast to each change of type, so the operands of an
operator have the same family here. Subqueries are run by sql/select and do not occur here.
"""

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from exuvia.base.interruption import require_thread
from exuvia.base.memory import LONG, size_of, size_of_document
from exuvia.base.mysql_errors import ErrNotSupportedYet
from exuvia.base.types import Family, FieldType, Value
from exuvia.catalog.sysvar import variables
from exuvia.sql import types
from exuvia.sql.env import Compiled, Env, PlainEnv
from exuvia.sql.evaluate.cast import caster, number_from_text, text_of
from exuvia.sql.evaluate.operators import OPERATORS
from exuvia.sql.expr import (
    Assign,
    Call,
    Cast,
    Column,
    ComputedValue,
    Constant,
    Expr,
    Parameter,
    VariableRef,
    chain,
    is_constant,
    walk,
)
from exuvia.sql.functions import FUNCTIONS, Function
from exuvia.sql.functions.table import GROWING, MOST_SERVED, WIDENS, bounded

Row = Sequence[Value]

__all__ = ["Env", "PlainEnv", "compile_expression", "evaluate_constant", "predicate", "truth"]


def compile_expression(expr: Expr) -> Compiled:
    """The closure of an expression. Raises Refused 1235 if it cannot be computed row by row."""
    maker = _MAKERS.get(type(expr))
    if maker is None:
        raise ErrNotSupportedYet(f"{type(expr).__name__.lower()} here")
    closure = maker(expr)
    if isinstance(expr, Call | Cast) and may_be_long(expr, *_operands(expr)):
        closure = _settled(closure)
    if isinstance(expr, Constant | Parameter | Column) or not is_constant(expr):
        return closure
    return closure if is_volatile(expr) else _remembered(expr, closure)


def is_volatile(expr: Expr) -> bool:
    """Whether two evaluations in one statement may differ, or have effects."""
    for node in walk(expr):
        if isinstance(node, Assign) or (isinstance(node, VariableRef) and node.scope == "user"):
            return True
        if isinstance(node, Call):
            function = FUNCTIONS.get(node.function)
            if function is not None and function.volatile:
                return True
    return False


def _remembered(expr: Expr, inner: Compiled) -> Compiled:
    place = object()

    def run(row: Row, env: Env) -> Value:
        memory = env.memory
        if place in memory:
            return memory[place]
        tracker, parts = env.tracker, len(memory)
        passing, claimed = tracker.passing, tracker.kept
        value = inner(row, env)
        while len(memory) > parts:  # parts of a constant are not needed again
            memory.popitem()
        tracker.passing, tracker.kept = passing, claimed
        env.remember(place, value, size_of(value))
        return value

    return run


# -- memory ----------------------------------------------------------------------------------------

_TEXTS = (Family.STRING, Family.BYTES, Family.JSON)
_HANDS_ON = frozenset(("case", "coalesce", "collate", "nullif", "and", "or", "xor"))
"""Calls that return one of their arguments."""


def may_be_long(*exprs: Expr) -> bool:
    """Whether one of the expressions may have a value of more than LONG characters."""
    for expr in exprs:
        if expr.family not in _TEXTS:
            continue
        if isinstance(expr, Constant):
            is_long = isinstance(expr.value, str | bytes) and len(expr.value) > LONG
        else:
            is_long = (
                isinstance(expr, Parameter | VariableRef | Assign)
                or (isinstance(expr, Call) and expr.function in WIDENS)
                or expr.family is Family.JSON
                or types.width_of(expr.type) > LONG
            )
        if is_long:
            return True
    return False


def _operands(expr: Call | Cast) -> Sequence[Expr]:
    if isinstance(expr, Cast):
        return (expr.argument,)
    calls = chain(expr)
    return [part for call in calls for part in call.arguments] if calls else expr.arguments


def _settled(inner: Compiled) -> Compiled:
    """As `inner`; afterwards only its value is claimed."""

    def run(row: Row, env: Env) -> Value:
        tracker = env.tracker
        before = tracker.passing
        value = inner(row, env)
        if tracker.passing != before:
            tracker.passing = before + size_of(value)
        return value

    return run


_TIMES = {"hex": 4, "quote": 4, "json_quote": 2, "weight_string": 6}
"""The memory of a call in pieces and joined, as a multiple of the text's size; 1 for others."""


def _claiming(expr: Expr, inner: Compiled, is_read: bool, times: int = 1) -> Compiled:
    """The closure of a call's argument; claims the memory that the call needs for a long text.

    `is_read`: the call parses it as a JSON document."""
    if not may_be_long(expr):
        return inner
    size = size_of_document if is_read or expr.family is Family.JSON else size_of

    def run(row: Row, env: Env) -> Value:
        value = inner(row, env)
        if claim := size(value):
            if env.tracker.used + claim > MOST_SERVED:
                require_thread()
            env.tracker.claim(claim * times)
        return value

    return run


def predicate(expr: Expr) -> Callable[[Row, Env], bool]:
    """The closure of a condition: True only if it is true."""
    run = compile_expression(expr)
    family = expr.family
    if family in (Family.STRING, Family.BYTES, Family.JSON):
        kind = expr.type
        return lambda row, env: truth(run(row, env), kind) is True
    return lambda row, env: bool(run(row, env))


def truth(value: Value, kind: FieldType) -> bool | None:
    """A value as a condition: None for NULL, else whether it is not zero."""
    if value is None:
        return None
    if isinstance(value, str | bytes):
        return number_from_text(text_of(kind)(value), PlainEnv()) != 0
    return bool(value != 0)


def evaluate_constant(expr: Expr, env: Env | None = None) -> Value:
    """The value of an expression without columns."""
    return compile_expression(expr)((), PlainEnv() if env is None else env)


# -- nodes -----------------------------------------------------------------------------------------


def _column(expr: Column) -> Compiled:
    position = expr.position
    return lambda row, env: row[position]


def _computed(expr: ComputedValue) -> Compiled:
    run: Compiled = expr.call
    return run


def _constant(expr: Constant) -> Compiled:
    value = expr.value
    return lambda row, env: value


def _parameter(expr: Parameter) -> Compiled:
    index = expr.index
    return lambda row, env: env.parameters[index]


def _variable(expr: VariableRef) -> Compiled:
    name, scope = expr.name, expr.scope
    if scope == "user":
        return _user_variable(expr)
    convert: Callable[[str], Value] = _FROM_TEXT.get(expr.family, str)
    is_nullable = variables.find(name).nullable  # then "" is NULL

    def run(row: Row, env: Env) -> Value:
        text = env.global_variable(name) if scope == "global" else env.variable(name)
        return None if is_nullable and not text else convert(text)

    return run


def _user_variable(expr: VariableRef) -> Compiled:
    """A user variable has the type that it had when the statement was bound. If the statement
    assigns a value of another type, this value is converted."""
    name, target, family = expr.name, expr.type, expr.family
    is_number = family in types.NUMERIC

    def read(row: Row, env: Env) -> Value:
        value, kind = env.session.user_variable(name)
        if value is None or kind.family is family:
            return value
        if is_number and kind.family in types.NUMERIC and family is not Family.FLOAT:
            # an exact number keeps its digits, as in a running total that begins with 0
            return Decimal(repr(value)) if isinstance(value, float) else value
        convert = caster(kind, target, False)
        return value if convert is None else convert(value, env)

    return read


_FLAGS = {"ON": 1, "OFF": 0}


def _number(text: str) -> int:
    flag = _FLAGS.get(text)
    return int(text) if flag is None else flag


_FROM_TEXT: dict[Family | None, Callable[[str], Value]] = {
    Family.INT: _number,
    Family.UINT: int,
    Family.FLOAT: float,
}


def _assign(expr: Assign) -> Compiled:
    name, kind, run = expr.name, expr.type, compile_expression(expr.value)

    def assign(row: Row, env: Env) -> Value:
        value = run(row, env)
        env.session.set_user_variable(name, value, kind)
        return value

    return assign


def _cast(expr: Cast) -> Compiled:
    inner = compile_expression(expr.argument)
    source = expr.argument
    convert = caster(source.type, expr.type, isinstance(source, Constant) and source.hexadecimal)
    if convert is None:
        return inner

    def run(row: Row, env: Env) -> Value:
        value = inner(row, env)
        return None if value is None else convert(value, env)

    if may_be_long(source):
        inner = _claiming(source, inner, expr.family is Family.JSON)
    return run


def _chained(calls: Sequence[Call]) -> Compiled:
    """A long chain of operators, without recursion: each step gets (previous value, row)."""
    first = compile_expression(calls[-1].arguments[0])
    steps = []
    for call in reversed(calls):
        right = compile_expression(call.arguments[1])
        operands: list[Compiled] = [_first_of, _of_second(right)]
        steps.append(OPERATORS[call.function](call, operands))

    def run(row: Row, env: Env) -> Value:
        value = first(row, env)
        for step in steps:
            value = step((value, row), env)
        return value

    return run


def _first_of(pair: Row, env: Env) -> Value:
    return pair[0]


def _of_second(inner: Compiled) -> Compiled:
    return lambda pair, env: inner(pair[1], env)


def _call(expr: Call) -> Compiled:
    calls = chain(expr)
    if calls:
        return _chained(calls)
    arguments = [compile_expression(argument) for argument in expr.arguments]
    is_read = expr.function.startswith("json")
    if expr.function not in GROWING and expr.function not in _HANDS_ON:
        reads = is_read or any(part.family is Family.JSON for part in expr.arguments)
        if reads or expr.family in _TEXTS:
            pairs = zip(expr.arguments, arguments, strict=True)
            times = _TIMES.get(expr.function, 1)
            arguments = [_claiming(part, inner, is_read, times) for part, inner in pairs]
    special = OPERATORS.get(expr.function)
    if special is not None:
        return special(expr, arguments)
    function = FUNCTIONS[expr.function]
    if expr.function in GROWING:
        return bounded(expr.function, function.run, arguments, function.nulls)
    return _apply(function, arguments)


def _apply(function: Function, arguments: list[Compiled]) -> Compiled:
    run = function.run
    if function.nulls:
        if function.env:
            return lambda row, env: run(env, *[argument(row, env) for argument in arguments])
        return lambda row, env: run(*[argument(row, env) for argument in arguments])
    if function.env:

        def apply(row: Row, env: Env) -> Value:
            values = [argument(row, env) for argument in arguments]
            return None if None in values else run(env, *values)

        return apply
    if len(arguments) == 1:
        only = arguments[0]

        def one(row: Row, env: Env) -> Value:
            value = only(row, env)
            return None if value is None else run(value)

        return one

    def many(row: Row, env: Env) -> Value:
        values = [argument(row, env) for argument in arguments]
        return None if None in values else run(*values)

    return many


_MAKERS: dict[type, Callable[[Any], Compiled]] = {
    Column: _column,
    ComputedValue: _computed,
    Constant: _constant,
    Parameter: _parameter,
    VariableRef: _variable,
    Assign: _assign,
    Cast: _cast,
    Call: _call,
}
