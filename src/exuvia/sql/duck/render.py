"""Typed expressions to DuckDB SQL that means the same: `value` gives the value, `condition` a
BOOLEAN.

    rendered natively     logic, comparison, exact arithmetic, CASE, parts of dates (duck/calls.py)
    constants             computed now, by `evaluate`
    everything else       a Python function over the batch: `evaluate`'s closure, row by row

So nothing is passed through unchecked: what has no faithful form in DuckDB is not rendered, it is
evaluated."""

from collections.abc import Callable, Sequence
from inspect import Parameter as SignatureParameter
from inspect import Signature
from typing import Any

from msgspec.structs import replace as evolve

from exuvia.base.interruption import checked
from exuvia.base.mysql_errors import ErrCTEMaxRecursionDepth
from exuvia.base.types import Family, TypeCode
from exuvia.sql import types
from exuvia.sql.duck import engine as duck
from exuvia.sql.duck.quota import Account, exceeded, quota_of
from exuvia.sql.evaluate.compile import compile_expression, is_volatile
from exuvia.sql.expr import (
    SEMI,
    Aggregate,
    Assign,
    Call,
    Cast,
    Column,
    Constant,
    Expr,
    Outer,
    Subquery,
    Windowed,
    chain,
    is_constant,
)

_CELL_BYTES = 16  # of a value in DuckDB's rows, its text apart
_FULL_BATCH = 2048  # rows of DuckDB's vectors
Leaf = Callable[[Expr], str]
LEAVES = (Column, Outer, Aggregate, Windowed, Subquery)


class Renderer:
    """Renders the expressions of one query block.

    `leaf` gives the SQL of columns, aggregates, windows and subqueries; `functions` collects the
    Python functions that the query needs."""

    def __init__(self, leaf: Leaf, functions: "Functions", env: Any) -> None:
        self.leaf = leaf
        self.functions = functions
        self.env = env

    def value(self, expr: Expr) -> str:
        """SQL of the value, in the form duck/engine.py's table gives its family."""
        if isinstance(expr, LEAVES):
            return self.leaf(expr)
        if isinstance(expr, Constant):
            return duck.literal(expr.value, expr.type)
        if chain(expr):
            return self.functions.call(expr, self)  # DuckDB's own nesting is bounded
        if is_constant(expr) and not is_volatile(expr):
            return duck.literal(compile_expression(expr)((), self.env), expr.type)
        native = self._native(expr)
        return self.functions.call(expr, self) if native is None else native

    def condition(self, expr: Expr) -> str:
        """SQL of the expression as a BOOLEAN."""
        from exuvia.sql.duck.conditions import CONDITIONS

        if isinstance(expr, Call) and not is_constant(expr):
            maker = CONDITIONS.get(expr.function)
            found = None if maker is None else maker(expr, self)
            if found is not None:
                return found
        if isinstance(expr, Subquery) and expr.kind != "scalar":
            return self.leaf(expr)
        return f"({self.number(expr)} <> 0)"

    def filter(self, expr: Expr) -> str:
        """As `condition`, where what is NULL is left out like what is false."""
        if isinstance(expr, Call) and expr.function == "and" and not is_constant(expr):
            return "(" + " AND ".join(self.filter(part) for part in expr.arguments) + ")"
        if isinstance(expr, Subquery) and expr.kind == "in":
            expr = evolve(expr, kind=SEMI)
        return self.condition(expr)

    def number(self, expr: Expr) -> str:
        """The value where a number stands for truth."""
        if isinstance(expr, Subquery) and expr.kind != "scalar":
            return f"CAST({self.leaf(expr)} AS BIGINT)"
        if expr.family in (Family.STRING, Family.BYTES, Family.JSON):
            return self.value(Cast(type=types.DOUBLE, argument=expr))
        return self.value(expr)

    def key(self, expr: Expr, collate: str = "") -> str:
        """SQL of what the value compares by."""
        return duck.key_of(self.value(expr), expr.type, collate)

    def keys(self, parts: Sequence[Expr], collate: str) -> list[str]:
        """SQL of what values that are compared with one another compare by."""
        if duck.is_wide([part.type for part in parts]):
            return [duck.wide_key(self.value(part)) for part in parts]
        return [self.key(part, collate) for part in parts]

    def _native(self, expr: Expr) -> str | None:
        from exuvia.sql.duck.calls import NATIVE, native_cast
        from exuvia.sql.duck.conditions import CONDITIONS

        if isinstance(expr, Cast):
            return native_cast(expr, self)
        if not isinstance(expr, Call):
            return None
        maker = NATIVE.get(expr.function)
        if maker is not None and any(_is_null_column(part) for part in expr.arguments):
            return None
        if maker is not None:
            return maker(expr, self)
        if expr.function in CONDITIONS:
            found = CONDITIONS[expr.function](expr, self)
            return None if found is None else f"CAST({found} AS BIGINT)"
        return None


def _is_null_column(expr: Expr) -> bool:
    """A column that is NULL in every row is text to MySQL and BIGINT to DuckDB."""
    return expr.type.Tp == TypeCode.NULL and not isinstance(expr, Constant)


class Functions:
    """The Python functions of one query: registered before it runs, removed behind it."""

    def __init__(self, prefix: str, env: Any) -> None:
        self.prefix = prefix
        self.env = env
        self.made: list[tuple[str, Any, list[str], str, bool]] = []
        self.failure: BaseException | None = None
        self.operations: list[tuple[str, bool, str]] = []  # sign, unsigned, text: for 1690
        self._known: dict[Any, str] = {}

    def call(self, expr: Expr, renderer: Renderer) -> str:
        """SQL that calls `evaluate`'s closure of the expression over its leaves."""
        leaves: list[Expr] = []
        body = _with_leaves(expr, leaves)
        volatile = is_volatile(expr)
        name = None if volatile else self._known.get(body)
        if name is None:
            name = f"{self.prefix}{len(self.made)}"
            parameters = [duck.type_of(leaf.type) for leaf in leaves] or ["DOUBLE"]
            run = self._vectorised(body, len(leaves))
            self.made.append((name, run, parameters, duck.type_of(expr.type), volatile))
            if not volatile:
                self._known[body] = name
        given = [
            f"CAST({renderer.value(leaf)} AS {duck.type_of(leaf.type)})" for leaf in leaves
        ] or ["random()"]
        return f"{name}({', '.join(given)})"

    def over_lists(self, run: Callable[..., Any], kinds: Sequence[Any], result: Any) -> str:
        """The name of a function that makes one value of lists of values of these types."""
        return self._made(run, [f"{duck.type_of(kind)}[]" for kind in kinds], result)

    def over_rows(self, run: Callable[..., Any], shape: str, result: Any) -> str:
        """The same of one list of rows, `shape` its DuckDB type."""
        return self._made(run, [shape], result)

    def counted(self, most: int, wanted: int | None = None, width: int = 1) -> str:
        """The name of a function that counts the rounds of a recursion: 3636 beyond so many.

        It sees the rows of a round in batches; one that is not full is the last. It gives 1, and 0
        once it has seen as many rows as are `wanted`; rows of so many columns are 8175 where they
        are too much."""
        name = f"{self.prefix}{len(self.made)}"
        rounds, is_last, seen, quota = 0, True, 0, quota_of(self.env)

        def run(vector: Any) -> Any:
            nonlocal rounds, is_last, seen
            seen += len(vector)
            if wanted is not None and seen >= wanted:
                return _arrow([0] * len(vector), types.BIGINT)
            if 0 < quota < seen * width * _CELL_BYTES:
                self.failure = exceeded(self.env)
                raise self.failure
            rounds += is_last
            is_last = len(vector) < _FULL_BATCH
            if rounds > most:
                self.failure = ErrCTEMaxRecursionDepth(rounds)
                raise self.failure
            return _arrow([1] * len(vector), types.BIGINT)

        self.made.append((name, run, ["BIGINT"], "BIGINT", True))
        return name

    def _made(self, run: Callable[..., Any], parameters: list[str], result: Any) -> str:
        name = f"{self.prefix}{len(self.made)}"
        wrapped = self._guarded(lambda row, env: run(*row), result, len(parameters))
        self.made.append((name, wrapped, parameters, duck.type_of(result), False))
        return name

    def _vectorised(self, body: Expr, leaves: int) -> Callable[..., Any]:
        return self._guarded(compile_expression(body), body.type, leaves)

    def _guarded(self, closure: Callable[..., Any], kind: Any, leaves: int) -> Callable[..., Any]:
        holder, env = self, self.env
        grows = types.family_of(kind) in (Family.STRING, Family.BYTES, Family.JSON)

        def run(*vectors: Any) -> Any:
            try:
                columns = [vector.to_pylist() for vector in vectors]
                rows = checked(zip(*columns, strict=True) if leaves else [()] * len(columns[0]))
                if not grows:
                    return _arrow([closure(row, env) for row in rows], kind)
                made = (closure(row, env) for row in rows)
                return _arrow(Account(env).texts(made), kind)
            except BaseException as error:
                holder.failure = error
                raise

        run.__signature__ = _signature(max(1, leaves))  # type: ignore[attr-defined]
        return run


def _signature(count: int) -> Signature:
    """DuckDB counts a function's parameters by its signature."""
    kind = SignatureParameter.POSITIONAL_ONLY
    return Signature([SignatureParameter(f"v{n}", kind) for n in range(count)])


def _arrow(values: list[Any], kind: Any) -> Any:
    import pyarrow

    family = types.family_of(kind)
    if family is Family.DECIMAL:
        from exuvia.sql.evaluate.texts import round_to

        precision, scale = types.precision_of(kind)
        exact = [None if value is None else round_to(value, scale) for value in values]
        return pyarrow.array(exact, pyarrow.decimal128(min(precision, 38), scale))
    if family is Family.UINT:
        return pyarrow.array(values, pyarrow.uint64())
    if family is Family.FLOAT:
        return pyarrow.array(values, pyarrow.float64())
    if family in (Family.STRING, Family.JSON):
        return pyarrow.array(values, pyarrow.string())
    if family is Family.BYTES:
        return pyarrow.array(values, pyarrow.binary())
    return pyarrow.array(values, pyarrow.int64())


def _with_leaves(expr: Expr, leaves: list[Expr]) -> Expr:
    """The expression over a row of its leaves: each leaf becomes the column of its place."""
    if isinstance(expr, LEAVES):
        if expr in leaves:
            position = leaves.index(expr)
        else:
            position = len(leaves)
            leaves.append(expr)
        full = expr.full if isinstance(expr, Column | Outer) else ""
        level = expr.coercibility
        return Column(type=expr.type, coercibility=level, position=position, full=full)
    if isinstance(expr, Cast):
        return evolve(expr, argument=_with_leaves(expr.argument, leaves))
    calls = chain(expr)
    if calls:
        found = _with_leaves(calls[-1].arguments[0], leaves)
        for call in reversed(calls):
            found = evolve(call, arguments=(found, _with_leaves(call.arguments[1], leaves)))
        return found
    if isinstance(expr, Call):
        return evolve(expr, arguments=tuple(_with_leaves(a, leaves) for a in expr.arguments))
    if isinstance(expr, Assign):
        return evolve(expr, value=_with_leaves(expr.value, leaves))
    return expr
