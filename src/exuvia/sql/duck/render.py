"""Typed expressions as equivalent DuckDB SQL: `value` gives the value, `condition` a BOOLEAN.

    rendered natively     logic, comparison, exact arithmetic, CASE, parts of dates
    constants             computed now, by `evaluate`
    all others            a Python function over the batch: `evaluate`'s closure, row by row

An expression without an exact form in DuckDB is evaluated instead of rendered. The maker of a
call's form returns None if the form is not exact for the types.

DuckDB's memory limit does not include the texts of a vector: joined texts, keys and arguments of
Python functions. If texts may be long, a function first sums their lengths and claims this memory
for the statement: `fitting`.

    a + b        BIGINT and UBIGINT overflow is an error in both (1690)
    a % b        NULLIF(b, 0): MySQL's NULL for a zero divisor (without its warning 1365)
    YEAR(d)      d >> 9, the packed date
    a / b        evaluated: MySQL keeps whole words of digits

Aggregates and windows:

    SUM of integers       HUGEINT in DuckDB, DECIMAL(38, 0) here; of decimals DECIMAL(38, s); more
                          digits are 1690
    AVG of exact numbers  SUM / COUNT by MySQL's division (evaluated)
    MIN, MAX of text      by the collation's key: arg_min(x, key), arg_max(x, key)
    DISTINCT              texts are compared by key, too
    ORDER BY              NULLs are first if ascending, last if descending, as in MySQL

Other aggregates are computed in Python: DuckDB collects the values of a group in lists, and a
function registered for the query computes the result.

    GROUP_CONCAT(x ...)       in its order, DISTINCT by the collation; truncated to
                              group_concat_max_len bytes with 1260
    JSON_ARRAYAGG(x)          all values, NULL as null; NULL without rows
    JSON_OBJECTAGG(k, x)      the last value of a key counts; a NULL key is 3158
    APPROX_PERCENTILE(x, p)   the value with p percent of the values at or below it
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from inspect import Parameter as SignatureParameter
from inspect import Signature
from sys import getsizeof
from typing import Any

import numpy as np
from msgspec.structs import replace as evolve

from exuvia.base.interruption import checked
from exuvia.base.mysql_errors import (
    ErrCTEMaxRecursionDepth,
    ErrCutValueGroupConcat,
    ErrDataOutOfRange,
    ErrJSONDocumentNULLKey,
    ErrNotSupportedYet,
    ErrWindowFrameIllegal,
)
from exuvia.base.types import Family, FieldType, TypeCode, Value
from exuvia.catalog.collation import collation
from exuvia.catalog.convert.charset_codecs import CODECS
from exuvia.sql import types
from exuvia.sql.duck import engine as duck
from exuvia.sql.env import Compiled, Env, Row
from exuvia.sql.evaluate.cast import operation, shown
from exuvia.sql.evaluate.compile import compile_expression, is_volatile, may_be_long
from exuvia.sql.expr import (
    SEMI,
    Aggregate,
    Call,
    Cast,
    Column,
    Constant,
    Expr,
    FrameBound,
    Outer,
    Subquery,
    Windowed,
    WindowFrame,
    chain,
    children,
    divides,
    is_constant,
    replaced,
)
from exuvia.sql.functions import FUNCTIONS, json_functions

_CELL_BYTES = 16  # memory of a value in DuckDB's rows, without its text
_COPIES, _CLAIMED_BYTES = 3, 1 << 20
FITS = "exuvia_fits_"  # prefix of the function's name
_FULL_BATCH = 2048  # rows in a DuckDB vector
Leaf = Callable[[Expr], str]
LEAVES = (Column, Outer, Aggregate, Windowed, Subquery)


# -- the renderer ----------------------------------------------------------------------------------


class Renderer:
    """Renders the expressions of one query block.

    `leaf` returns the SQL of columns, aggregates, windows and subqueries. `functions` collects the
    Python functions that the query needs."""

    def __init__(self, leaf: Leaf, functions: "Functions", env: Env) -> None:
        self.leaf = leaf
        self.functions = functions
        self.env = env

    def value(self, expr: Expr) -> str:
        """SQL of the value, in the DuckDB type of its family (duck/engine.py)."""
        if isinstance(expr, LEAVES):
            return self.leaf(expr)
        if isinstance(expr, Constant):
            return duck.literal(expr.value, expr.type)
        if chain(expr):
            return self.functions.call(expr, self)  # DuckDB limits the depth of nesting
        if is_constant(expr) and not is_volatile(expr):
            return duck.literal(compile_expression(expr)((), self.env), expr.type)
        native = self._native(expr)
        return self.functions.call(expr, self) if native is None else native

    def condition(self, expr: Expr) -> str:
        """SQL of the expression as a BOOLEAN."""
        if isinstance(expr, Call) and not is_constant(expr):
            compared = self._compared(expr)
            if compared is not None:
                return compared
        if isinstance(expr, Subquery) and expr.kind != "scalar":
            return self.leaf(expr)
        return f"({self.number(expr)} <> 0)"

    def _compared(self, expr: Call) -> str | None:
        maker = CONDITIONS.get(expr.function)
        if maker is None or any(_is_null_column(part) for part in expr.arguments):
            return None
        return maker(expr, self)

    def filter(self, expr: Expr) -> str:
        """As `condition`, where NULL and false mean the same."""
        if isinstance(expr, Call) and expr.function == "and" and not is_constant(expr):
            return "(" + " AND ".join(self.filter(part) for part in expr.arguments) + ")"
        if isinstance(expr, Subquery) and expr.kind == "in":
            expr = evolve(expr, kind=SEMI)
        return self.condition(expr)

    def number(self, expr: Expr) -> str:
        """SQL of the value as a number, whose truth is tested."""
        if isinstance(expr, Subquery) and expr.kind != "scalar":
            return f"CAST({self.leaf(expr)} AS BIGINT)"
        if expr.family in (Family.STRING, Family.BYTES, Family.JSON):
            return self.value(Cast(type=types.DOUBLE, argument=expr))
        return self.value(expr)

    def key(self, expr: Expr, collate: str = "") -> str:
        """SQL of the key by which the value is compared."""
        value = self.value(expr)
        key = duck.key_of(value, expr.type, collate)
        return key if key == value else self.functions.fitting(key, self.sizes(expr))

    def order_key(self, expr: Expr, collate: str = "") -> str:
        """SQL of the key by which the value is sorted."""
        value = self.value(expr)
        key = duck.order_key_of(value, expr.type, collate)
        return key if key == value else self.functions.fitting(key, self.sizes(expr))

    def sizes(self, *parts: Expr) -> list[str]:
        """SQL of the sizes of long columns in these expressions, one for each column.

        [] if the expressions themselves are short. Results of subqueries, windows and aggregates
        have been claimed before."""
        if not may_be_long(*parts):
            return []
        counts: dict[Expr, int] = {}
        remaining = list(parts)
        while remaining:
            node = remaining.pop()
            if not isinstance(node, LEAVES):
                remaining += children(node)
            elif isinstance(node, Column | Outer) and may_be_long(node):
                counts[node] = counts.get(node, 0) + 1
        return [
            f"{count} * {size_of_text(self.leaf(node), node.type)}"
            for node, count in counts.items()
        ]

    def keys(self, parts: Sequence[Expr], collate: str, sign: str = "=") -> list[str]:
        """SQL of the keys by which these values are compared with the operator `sign`."""
        if duck.is_wide([part.type for part in parts]):
            return [duck.wide_key(self.value(part)) for part in parts]
        key = self.order_key if sign[0] in "<>" and sign != "<=>" else self.key
        return [key(part, collate) for part in parts]

    def _native(self, expr: Expr) -> str | None:
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
            compared = self._compared(expr)
            return None if compared is None else f"CAST({compared} AS BIGINT)"
        return None


def _is_null_column(expr: Expr) -> bool:
    """Whether this is a column of NULLs, which is text in MySQL and BIGINT in DuckDB."""
    return expr.type.Tp == TypeCode.NULL and not isinstance(expr, Constant)


class Functions:
    """The Python functions of one query: registered before it runs, removed afterwards."""

    def __init__(self, prefix: str, env: Env) -> None:
        self.prefix = prefix
        self.env = env
        self.registered: list[tuple[str, Any, list[str], str, bool]] = []
        self.failure: BaseException | None = None
        self.operations: list[tuple[str, bool, str]] = []  # sign, unsigned, text: for 1690
        self._names: dict[Any, str] = {}
        self._fits = ""
        self._vectors: list[int] = []  # bytes of each function's last vector of texts

    def call(self, expr: Expr, renderer: Renderer) -> str:
        """SQL that calls `evaluate`'s closure of the expression over its leaves."""
        leaves: list[Expr] = []
        body = _with_leaves(expr, leaves)
        volatile = is_volatile(expr)
        name = None if volatile else self._names.get(body)
        if name is None:
            name = f"{self.prefix}{len(self.registered)}"
            parameters = [duck.type_of(_rendered_type(leaf)) for leaf in leaves] or ["DOUBLE"]
            run = self._vectorised(body, len(leaves))
            self.registered.append((name, run, parameters, duck.type_of(expr.type), volatile))
            if not volatile:
                self._names[body] = name
        call_arguments = [
            f"CAST({renderer.value(leaf)} AS {duck.type_of(_rendered_type(leaf))})"
            for leaf in leaves
        ] or ["random()"]
        return self.fitting(f"{name}({', '.join(call_arguments)})", renderer.sizes(*leaves))

    def fitting(self, sql: str, sizes: Sequence[str]) -> str:
        """SQL that claims texts of these sizes before `sql` is computed; 8175 if they do not fit.

        Returns `sql` itself without sizes."""
        return f"CASE WHEN {self.fits(sizes)} THEN {sql} END" if sizes else sql

    def fits(self, sizes: Sequence[str]) -> str:
        """SQL that is true; 8175 if a vector of these sizes exceeds the statement's memory."""
        if not self._fits:
            self._fits = f"{FITS}{self.prefix}"
            self.registered.append(
                (self._fits, self._claim, ["BIGINT", "BIGINT"], "BOOLEAN", False)
            )
        self._vectors.append(0)
        return f"{self._fits}({' + '.join(sizes)}, {len(self._vectors) - 1})"

    def _claim(self, sizes: Any, places: Any) -> Any:
        import pyarrow
        import pyarrow.compute as pc

        try:
            if len(sizes):
                self._claim_vector(places[0].as_py(), _COPIES * (pc.sum(sizes).as_py() or 0))
        except BaseException as error:
            self.failure = error
            raise
        return pyarrow.array(np.ones(len(sizes), np.bool_))

    def _claim_vector(self, place: int, size: int) -> None:
        """Claims a vector in place of the previous one. Raises 8175."""
        tracker = self.env.tracker
        tracker.kept += size - self._vectors[place]
        self._vectors[place] = size
        tracker.keep(0)

    def over_lists(self, run: Callable[..., Any], kinds: Sequence[Any], result: Any) -> str:
        """Returns the name of a function from lists of values of these types to one value."""
        return self._named_function(run, [f"{duck.type_of(kind)}[]" for kind in kinds], result)

    def over_rows(self, run: Callable[..., Any], shape: str, result: Any) -> str:
        """Returns the name of a function from a list of rows to one value; `shape` is its type."""
        return self._named_function(run, [shape], result)

    def finite(self, sql: str, expression_text: str) -> str:
        """SQL of a DOUBLE; 1690 instead of DuckDB's inf."""

        def run(vector: Any) -> Any:
            import pyarrow.compute as pc

            if pc.all(pc.is_finite(vector)).as_py() is False:
                self.failure = ErrDataOutOfRange("DOUBLE", expression_text)
                raise self.failure
            return vector

        name = self._names.get((expression_text,))
        if name is None:
            name = self._names[expression_text,] = f"{self.prefix}{len(self.registered)}"
            self.registered.append((name, run, ["DOUBLE"], "DOUBLE", False))
        return f"{name}({sql})"

    def counted(self, most: int, enough: int | None = None, width: int = 1) -> str:
        """The name of a function that counts the rounds of a recursion: 3636 beyond `most`.

        The rows of a round come in batches; one that is not full is the last. The function returns
        1, and 0 after `enough` rows. Rows of `width` columns are 8175 if they do not fit."""
        name = f"{self.prefix}{len(self.registered)}"
        rounds, is_last, rows_seen, tracker = 0, True, 0, self.env.tracker

        def run(vector: Any) -> Any:
            nonlocal rounds, is_last, rows_seen
            rows_seen += len(vector)
            if enough is not None and rows_seen >= enough:
                return _arrow([0] * len(vector), types.BIGINT)
            if rows_seen * width * _CELL_BYTES > tracker.left:
                self.failure = tracker.exceeded()
                raise self.failure
            rounds += is_last
            is_last = len(vector) < _FULL_BATCH
            if rounds > most:
                self.failure = ErrCTEMaxRecursionDepth(rounds)
                raise self.failure
            return _arrow([1] * len(vector), types.BIGINT)

        self.registered.append((name, run, ["BIGINT"], "BIGINT", True))
        return name

    @contextmanager
    def created_on(self, cursor: Any) -> Iterator[None]:
        """Registers all functions on the cursor until the end of the block."""
        created: list[str] = []
        try:
            for name, run, parameters, result, volatile in self.registered:
                cursor.create_function(
                    name,
                    run,
                    parameters,
                    result,
                    type="arrow",
                    null_handling="special",
                    side_effects=volatile,
                )
                created.append(name)
            yield
        finally:
            self.env.tracker.kept -= sum(self._vectors)
            self._vectors[:] = [0] * len(self._vectors)
            for name in created:
                with suppress(Exception):  # the query may have failed or been interrupted
                    cursor.remove_function(name)

    def _named_function(self, run: Callable[..., Any], parameters: list[str], result: Any) -> str:
        name = f"{self.prefix}{len(self.registered)}"
        wrapped = self._guarded(lambda row, env: run(*row), result, len(parameters))
        self.registered.append((name, wrapped, parameters, duck.type_of(result), False))
        return name

    def _vectorised(self, body: Expr, leaves: int) -> Callable[..., Any]:
        return self._guarded(compile_expression(body), body.type, leaves)

    def _guarded(self, closure: Callable[..., Any], kind: Any, leaves: int) -> Callable[..., Any]:
        holder, env, place = self, self.env, len(self._vectors)
        self._vectors.append(0)
        grows = types.family_of(kind) in (Family.STRING, Family.BYTES, Family.JSON)

        def run(*vectors: Any) -> Any:
            try:
                columns = [vector.to_pylist() for vector in vectors]
                rows = checked(zip(*columns, strict=True) if leaves else [()] * len(columns[0]))
                if not grows:
                    return _arrow([closure(row, env) for row in rows], kind)
                return _arrow(self._texts(place, rows, closure), kind)
            except BaseException as error:
                holder.failure = error
                raise

        run.__signature__ = _signature(max(1, leaves))  # type: ignore[attr-defined]
        return run

    def _texts(self, place: int, rows: Iterable[Row], closure: Compiled) -> list[Value]:
        """The texts of a vector, claimed in place of the function's previous vector.

        They are claimed once for each copy in Python, Arrow and DuckDB. Raises 8175."""
        env, tracker = self.env, self.env.tracker
        self._claim_vector(place, 0)
        passing, values, size = tracker.passing, [], 0
        for row in rows:
            value = closure(row, env)
            tracker.passing = passing
            values.append(value)
            size += _COPIES * getsizeof(value)
            if size > _CLAIMED_BYTES:
                self._claim_vector(place, self._vectors[place] + size)
                size = 0
        return values


def size_of_text(sql: str, kind: Any) -> str:
    """SQL of the size of a text or bytes in bytes; 0 for NULL."""
    name = "octet_length" if types.family_of(kind) is Family.BYTES else "strlen"
    return f"coalesce({name}({sql}), 0)"


def _signature(count: int) -> Signature:
    """A signature from which DuckDB gets the number of parameters."""
    kind = SignatureParameter.POSITIONAL_ONLY
    return Signature([SignatureParameter(f"v{n}", kind) for n in range(count)])


def _arrow(values: list[Any], kind: Any) -> Any:
    import pyarrow

    family = types.family_of(kind)
    if family is Family.DECIMAL:
        from exuvia.sql.evaluate.cast import round_to

        precision, scale = types.precision_of(kind)
        exact = [None if value is None else round_to(value, scale) for value in values]
        try:
            return pyarrow.array(exact, pyarrow.decimal128(min(precision, 38), scale))
        except pyarrow.ArrowInvalid as error:  # more than 38 digits
            raise ErrDataOutOfRange("DECIMAL", "an expression of the query") from error
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
    """The expression over a row of its leaves: each leaf is a column."""

    def column(leaf: Expr) -> Expr | None:
        if not isinstance(leaf, LEAVES):
            return None
        if leaf not in leaves:
            leaves.append(leaf)
        return Column(
            type=leaf.type,
            coercibility=leaf.coercibility,
            position=leaves.index(leaf),
            full=leaf.full if isinstance(leaf, Column | Outer) else "",
        )

    return replaced(expr, column)


# -- conditions ------------------------------------------------------------------------------------

Maker = Callable[[Call, Renderer], str | None]


def _exact(kind: FieldType) -> FieldType:
    """The DECIMAL of a quotient, with the digits that its type does not show."""
    whole = kind.Flen - max(0, kind.Decimal)
    return types.decimal(duck.MOST_DIGITS, 18 if whole <= 18 else max(9, kind.Decimal))


def _rendered_type(expr: Expr) -> FieldType:
    """The type of an expression's SQL; an aggregate of quotients keeps all their digits."""
    is_exact = isinstance(expr, Aggregate | Windowed) and divides(expr)
    return _exact(expr.type) if is_exact else expr.type


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
        one, other = renderer.keys(call.arguments, call.extra[0], call.function)
        return f"({one} {sign} {other})"

    return make


def _in(call: Call, renderer: Renderer) -> str | None:
    if any(divides(part) or part.family is Family.JSON for part in call.arguments):
        return None
    needle, *items = renderer.keys(call.arguments, call.extra[0])
    return f"({needle} IN ({', '.join(items)}))"


def _like(call: Call, renderer: Renderer) -> str | None:
    """LIKE with only % in the pattern: DuckDB searches for the parts one after another.

    With `_` or ESCAPE DuckDB backtracks without interruption, so it is evaluated
    (sql/matching.py)."""
    text, pattern, escape = call.arguments
    if text.family is not Family.STRING or not collation(call.extra[0]).is_exact:
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


# -- arithmetic ------------------------------------------------------------------------------------

_SMALL_DIGITS = 18


def _arithmetic(sign: str) -> Maker:
    def make(call: Call, renderer: Renderer) -> str | None:
        family = call.family
        operation_facts = (sign, family is Family.UINT, operation(call, sign))
        renderer.functions.operations.append(operation_facts)
        if family is Family.FLOAT:
            return renderer.functions.finite(_plain(call, renderer, sign), operation(call, sign))
        if family is Family.DECIMAL:
            scales = [max(0, part.type.Decimal) for part in call.arguments]
            if any(divides(part) for part in call.arguments):
                return None
            if sum(scales) > types.MOST_SCALE or max(scales) > duck.MOST_DIGITS:
                return None
            left, right = (renderer.value(part) for part in call.arguments)
            if call.type.Flen > _SMALL_DIGITS:  # DuckDB stays at 18 digits if both operands do
                left = f"CAST({left} AS DECIMAL({duck.MOST_DIGITS},{scales[0]}))"
            computed = f"({left} {sign} {right})"
            if call.type.Flen <= duck.MOST_DIGITS:
                return f"CAST({computed} AS {duck.type_of(call.type)})"
            return computed
        if all(part.family is Family.INT for part in call.arguments) and family is Family.INT:
            return _plain(call, renderer, sign)
        left, right = (f"CAST({renderer.value(part)} AS HUGEINT)" for part in call.arguments)
        return f"CAST(({left} {sign} {right}) AS {duck.type_of(call.type)})"

    return make


def _plain(call: Call, renderer: Renderer, sign: str) -> str:
    left, right = (renderer.value(part) for part in call.arguments)
    return f"({left} {sign} {right})"


def _remainder(call: Call, renderer: Renderer) -> str | None:
    if call.family not in types.WHOLE:
        return None
    if any(part.family is not Family.INT for part in call.arguments):
        return None
    left, right = (renderer.value(part) for part in call.arguments)
    return f"({left} % nullif({right}, 0))"


def _negative(call: Call, renderer: Renderer) -> str | None:
    operand = call.arguments[0]
    if operand.family is Family.UINT or divides(operand):
        return None
    return f"(- {renderer.value(operand)})"


# -- choice ----------------------------------------------------------------------------------------


def _case(call: Call, renderer: Renderer) -> str | None:
    if any(divides(part) for part in call.arguments):
        return None
    parts = call.arguments
    whens = [
        f"WHEN {renderer.condition(parts[n])} THEN {_typed(renderer.value(parts[n + 1]), call)}"
        for n in range(0, len(parts) - 1, 2)
    ]
    return f"(CASE {' '.join(whens)} ELSE {_typed(renderer.value(parts[-1]), call)} END)"


def _typed(text: str, call: Call) -> str:
    """Casts each branch, since DuckDB's common type of two decimals may drop digits."""
    return f"CAST({text} AS {duck.type_of(call.type)})"


def _coalesce(call: Call, renderer: Renderer) -> str | None:
    if any(divides(part) for part in call.arguments):
        return None
    parts = ", ".join(_typed(renderer.value(part), call) for part in call.arguments)
    return f"coalesce({parts})"


def _null_if(call: Call, renderer: Renderer) -> str | None:
    value, same = call.arguments
    if divides(value):
        return None
    return f"CASE WHEN {renderer.condition(same)} THEN NULL ELSE {renderer.value(value)} END"


# -- functions -------------------------------------------------------------------------------------

_PARTS = {
    "YEAR": "({0} >> 46)",
    "MONTH": "(({0} >> 42) & 15)",
    "DAY": "(({0} >> 37) & 31)",
    "HOUR": "(({0} >> 32) & 31)",
    "MINUTE": "(({0} >> 26) & 63)",
    "SECOND": "(({0} >> 20) & 63)",
}


def _extract(call: Call, renderer: Renderer) -> str | None:
    template = _PARTS.get(call.extra[0])
    return None if template is None else template.format(renderer.value(call.arguments[0]))


def _templated(name: str, template: str) -> Maker:
    def make(call: Call, renderer: Renderer) -> str:
        return template.format(*[renderer.value(part) for part in call.arguments])

    return make


def _of_text(template: str) -> Maker:
    """The maker for functions of text that differ for bytes."""

    def make(call: Call, renderer: Renderer) -> str | None:
        if any(part.family is Family.BYTES for part in call.arguments):
            return None
        return template.format(*[renderer.value(part) for part in call.arguments])

    return make


def _substring(call: Call, renderer: Renderer) -> str | None:
    text, *sizes = call.arguments
    first = sizes[0]
    if text.family is not Family.STRING or not all(_is_count(size, 1) for size in sizes):
        return None
    parts = [renderer.value(text), str(first.value)]  # type: ignore[attr-defined]
    parts += [str(size.value) for size in sizes[1:]]  # type: ignore[attr-defined]
    return f"substring({', '.join(parts)})"


def _is_count(expr: Expr, least: int) -> bool:
    """Whether this is a constant in the range of DuckDB's text functions."""
    value = expr.value if isinstance(expr, Constant) else None
    return isinstance(value, int) and least <= value < 1 << 31


def _left(call: Call, renderer: Renderer) -> str | None:
    text, size = call.arguments
    if text.family is not Family.STRING or not _is_count(size, 0):
        return None
    return f"left({renderer.value(text)}, {size.value})"  # type: ignore[attr-defined]


def _concat(call: Call, renderer: Renderer) -> str | None:
    if any(part.family is not Family.STRING for part in call.arguments):
        return None
    if any(is_constant(part) and may_be_long(part) for part in call.arguments):
        return None
    joined = " || ".join(renderer.value(part) for part in call.arguments)
    return renderer.functions.fitting(f"({joined})", renderer.sizes(*call.arguments))


def _absolute(call: Call, renderer: Renderer) -> str | None:
    operand = call.arguments[0]
    if divides(operand) or operand.family not in (Family.DECIMAL, Family.FLOAT):
        return None
    return f"abs({renderer.value(operand)})"


def _collated(call: Call, renderer: Renderer) -> str:
    return renderer.value(call.arguments[0])


NATIVE: dict[str, Maker] = {
    "+": _arithmetic("+"),
    "-": _arithmetic("-"),
    "*": _arithmetic("*"),
    "%": _remainder,
    "negative": _negative,
    "case": _case,
    "coalesce": _coalesce,
    "nullif": _null_if,
    "extract": _extract,
    "abs": _absolute,
    "char_length": _of_text("length({0})"),
    "character_length": _of_text("length({0})"),
    "length": _of_text("strlen({0})"),
    "octet_length": _of_text("strlen({0})"),
    "concat": _concat,
    "substring": _substring,
    "substr": _substring,
    "mid": _substring,
    "left": _left,
    "collate": _collated,
    **{
        name: _templated(name, function.duck)
        for name, function in FUNCTIONS.items()
        if function.duck and name != "bit_length"
    },
}


# -- casts -----------------------------------------------------------------------------------------


def native_cast(cast: Cast, renderer: Renderer) -> str | None:
    """A cast that DuckDB does in the same way, or None."""
    source, target = cast.argument, types.family_of(cast.type)
    family = source.family
    if source.type.Tp in (TypeCode.ENUM, TypeCode.SET, TypeCode.BIT) or divides(source):
        return None
    if family is target and family in (Family.STRING, Family.JSON) and cast.type.Tp != 254:
        other = source.type.Charset != cast.type.Charset and cast.type.Charset in CODECS
        return None if other else renderer.value(source)
    if family is Family.DATE and target is Family.DATETIME:
        return f"({renderer.value(source)} * 137438953472)"
    if family is Family.DATETIME and target is Family.DATE:
        return f"({renderer.value(source)} >> 37)"
    if target is Family.FLOAT and family in (Family.INT, Family.UINT):
        return f"CAST({renderer.value(source)} AS DOUBLE)"
    if target is Family.DECIMAL and _fits(source, cast):
        return f"CAST({renderer.value(source)} AS {duck.type_of(cast.type)})"
    whole = family in (Family.INT, Family.UINT) and not source.type.Flag & 64
    if target is Family.STRING and whole and cast.type.Tp != 254 and source.type.Tp != 13:
        return f"CAST({renderer.value(source)} AS VARCHAR)"
    return None


def _fits(source: Expr, cast: Cast) -> bool:
    """Whether the DECIMAL can store every value of an exact number unchanged."""
    if source.family not in (Family.INT, Family.UINT, Family.DECIMAL):
        return False
    precision, scale = types.precision_of(source.type)
    return (
        cast.type.Flen <= duck.MOST_DIGITS
        and cast.type.Decimal >= scale
        and cast.type.Flen - cast.type.Decimal >= precision - scale
    )


__all__ = ["CONDITIONS", "NATIVE", "native_cast"]


# -- aggregates computed in Python ----------------------------------------------------------------

Gather = Callable[..., Value]
Gathered = tuple[Gather, Sequence[Any]]


def gathered(node: Aggregate | Windowed, rows: Renderer, over: str) -> str | None:
    """SQL of an aggregate computed in Python; None for other aggregates."""
    maker = GATHERED.get(node.function)
    if maker is None:
        return None
    run, sources = maker(node)
    kinds = [source.type for source in sources]
    lists = []
    sizes = []
    for source, kind in zip(sources, kinds, strict=True):
        value = f"CAST({rows.value(source)} AS {duck.type_of(kind)})"
        lists.append(f"list({'DISTINCT ' if node.distinct else ''}{value}){over}")
        sizes += [f"CAST(sum({size}){over} AS BIGINT)" for size in rows.sizes(source)]
    name = rows.functions.over_lists(run, kinds, node.type)
    call = f"{name}({', '.join(lists)})"
    return rows.functions.fitting(call, sizes)


def _array(node: Aggregate | Windowed) -> Gathered:
    kind = node.arguments[0].type

    def run(values: list[Value] | None) -> str | None:
        if values is None:
            return None
        return json_functions.dump([json_functions.scalar(value, kind) for value in values])

    return run, node.arguments


def _object(node: Aggregate | Windowed) -> Gathered:
    kind = node.arguments[1].type

    def run(keys: list[str | None] | None, values: list[Value] | None) -> str | None:
        if keys is None or values is None:
            return None
        members: dict[str, Value] = {}
        for name, value in zip(keys, values, strict=True):
            if name is None:
                raise ErrJSONDocumentNULLKey()
            members[name] = json_functions.scalar(value, kind)
        return json_functions.dump(members)

    return run, node.arguments


def _percentile(node: Aggregate | Windowed) -> Gathered:
    value, share = node.arguments
    percent = share.value if isinstance(share, Constant) else 0

    def run(values: list[Value] | None) -> Value:
        present = sorted(value for value in values or () if value is not None)
        if not present:
            return None
        return present[-(-len(present) * percent // 100) - 1]

    return run, (value,)


def group_concat(node: Aggregate, rows: Renderer) -> str:
    """SQL of GROUP_CONCAT."""
    parts = " || ".join(rows.value(argument) for argument in node.arguments)
    fields = {"v": (parts, node.type)}
    if node.distinct:
        sources = [part.argument if isinstance(part, Cast) else part for part in node.arguments]
        for n, (part, source) in enumerate(zip(node.arguments, sources, strict=True)):
            key = rows.key(part)
            fields[f"k{n}"] = (key, part.type if source.family is not Family.JSON else source.type)
    keys = [
        f"{rows.order_key(key)} {'DESC NULLS LAST' if descending else 'ASC NULLS FIRST'}"
        for key, descending in node.order
    ]
    order = f" ORDER BY {', '.join(keys)}" if keys else ""
    row = ", ".join(
        f"'{name}': CAST({sql} AS {duck.type_of(kind)})" for name, (sql, kind) in fields.items()
    )
    shape = ", ".join(f"{name} {duck.type_of(kind)}" for name, (_, kind) in fields.items())
    run = joined_texts(node, rows.env)
    name = rows.functions.over_rows(run, f"STRUCT({shape})[]", node.type)
    call = f"{name}(list({{{row}}}{order}))"
    sizes = [f"CAST(sum({size}) AS BIGINT)" for size in rows.sizes(*node.arguments)]
    return rows.functions.fitting(call, sizes)


def joined_texts(node: Aggregate, env: Env) -> Gather:
    """Returns the function that joins the rows of a GROUP_CONCAT; `v` is the text, then its key."""
    most = int(env.variable("group_concat_max_len"))
    separator: Any = node.separator
    if node.family is Family.BYTES:
        separator = separator.encode()

    def run(rows: list[dict[str, Value]] | None) -> Value:
        present = [row for row in rows or () if row["v"] is not None]
        if node.distinct:
            present = list({tuple(row.values())[1:]: row for row in reversed(present)}.values())[
                ::-1
            ]
        if not present:
            return None
        whole = separator.join(row["v"] for row in present)
        raw = whole if isinstance(whole, bytes) else whole.encode()
        if len(raw) <= most:
            return whole
        env.warn(ErrCutValueGroupConcat, f"GROUPCONCAT({_named(node, env)})")
        return raw[:most] if isinstance(whole, bytes) else raw[:most].decode(errors="ignore")

    return run


def _named(node: Aggregate, env: Env) -> str:
    """The arguments as printed in messages."""
    names = []
    for part in node.arguments:
        source = part.argument if isinstance(part, Cast) else part
        if isinstance(source, Column):
            database = getattr(env, "database", "")
            names.append(".".join(filter(None, (database, source.table, source.name))))
    return ", ".join(names)


GATHERED: dict[str, Callable[[Any], Gathered]] = {
    "json_arrayagg": _array,
    "json_objectagg": _object,
    "approx_percentile": _percentile,
}


# -- aggregates and windows ------------------------------------------------------------------------

_SPREADS = {"stddev_pop", "stddev_samp", "var_pop", "var_samp"}


def sort_keys(keys: Sequence[tuple[Expr, bool]], renderer: Renderer) -> str:
    """The list of ORDER BY."""
    return ", ".join(
        f"{renderer.order_key(key)} {'DESC NULLS LAST' if descending else 'ASC NULLS FIRST'}"
        for key, descending in keys
    )


def aggregate(node: Aggregate | Windowed, rows: Renderer, whole: Renderer, over: str = "") -> str:
    """SQL of an aggregate.

    `rows` renders its arguments, `whole` renders expressions over aggregates."""
    name, arguments = node.function, node.arguments
    kind = _rendered_type(node)
    if name == "avg" and node.family is Family.DECIMAL:
        return whole.value(evolve(_average(node), type=kind))
    if name == "count":
        return _count(node, rows) + over
    if name == "grouping":
        return f"grouping({', '.join(rows.key(argument) for argument in arguments)})"
    sql = gathered(node, rows, over)
    if sql is not None:
        return sql
    argument = arguments[0]
    if kind is not node.type:
        argument = Cast(type=_exact(argument.type), argument=argument)
    value = rows.value(argument)
    distinct = "DISTINCT " if node.distinct else ""
    call_text = f"{name}({shown(arguments[0])})"
    if name == "sum":
        sql = f"CAST(sum({distinct}{value}){over} AS {duck.type_of(kind)})"
        return rows.functions.finite(sql, call_text) if node.family is Family.FLOAT else sql
    if name == "avg":
        return rows.functions.finite(f"avg({distinct}{value}){over}", call_text)
    if name in ("min", "max"):
        return _extreme(name, arguments[0], value, rows) + over
    if name == "any_value":
        return f"any_value({value}){over}"
    if name in _SPREADS:
        return rows.functions.finite(f"{name}({value}){over}", call_text)
    if name == "group_concat" and isinstance(node, Aggregate):
        return group_concat(node, rows)
    if name.startswith("bit_"):
        empty = "18446744073709551615" if name == "bit_and" else "0"
        bits = f"CAST(CAST({value} AS HUGEINT) & 18446744073709551615 AS UBIGINT)"
        return f"coalesce({name}({bits}){over}, CAST({empty} AS UBIGINT))"
    raise ErrNotSupportedYet(name.upper())


def _average(node: Aggregate | Windowed) -> Expr:
    argument = node.arguments[0]
    number = types.as_decimal(argument.type)
    total = types.decimal(*_sum_size(number.Flen, number.Decimal))
    parts = {name: getattr(node, name) for name in node.__struct_fields__}
    summed = type(node)(**{**parts, "function": "sum", "type": total})
    counted = type(node)(**{**parts, "function": "count", "type": types.integer(21)})
    divisor = Cast(type=types.decimal(20, 0), argument=counted)
    more = node.type.Decimal - max(0, number.Decimal)
    extra = () if more == types.DIVISION_DIGITS else (more,)
    return Call(type=node.type, function="/", arguments=(summed, divisor), extra=extra)


def _sum_size(precision: int, scale: int) -> tuple[int, int]:
    return precision + 22, max(0, scale)


def _count(node: Aggregate | Windowed, rows: Renderer) -> str:
    if not node.arguments:
        return "count(*)"
    if not node.distinct:
        return f"count({rows.value(node.arguments[0])})"
    keys = [rows.key(argument) for argument in node.arguments]
    if len(keys) == 1:
        return f"count(DISTINCT {keys[0]})"
    present = " AND ".join(f"{key} IS NOT NULL" for key in keys)
    return f"count(DISTINCT CASE WHEN {present} THEN row({', '.join(keys)}) END)"


def _extreme(name: str, argument: Expr, value: str, rows: Renderer) -> str:
    if argument.family in (Family.STRING, Family.JSON):
        return f"arg_{name}({value}, {rows.order_key(argument)})"
    return f"{name}({value})"


_RANKING = {"row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile"}
_VALUES = {"lag", "lead", "first_value", "last_value", "nth_value"}
_WITHOUT_FRAME = _RANKING | {"lag", "lead"}  # computed over the whole partition, as in MySQL


def windowed(node: Windowed, rows: Renderer) -> str:
    """SQL of a call OVER (...)."""
    parts = []
    frame = _Measured(node, rows)
    if node.partition:
        parts.append("PARTITION BY " + ", ".join(rows.key(key) for key in node.partition))
    if node.order:
        parts.append("ORDER BY " + (frame.order() or sort_keys(node.order, rows)))
    if node.frame is not None and node.function not in _WITHOUT_FRAME:
        start, end = frame.bound(node.frame.start), frame.bound(node.frame.end)
        parts.append(f"{node.frame.kind} BETWEEN {start} AND {end}")
    over = f" OVER ({' '.join(parts)})"
    if node.function in _RANKING:
        ranking_arguments = ", ".join(
            f"CAST({rows.value(argument)} AS BIGINT)" for argument in node.arguments
        )
        call = f"{node.function}({ranking_arguments}){over}"
        return f"CAST({call} AS {duck.type_of(node.type)})"
    if node.function in _VALUES:
        first, *rest = node.arguments
        parts = [rows.value(first)]
        parts += [f"CAST({rows.value(argument)} AS INTEGER)" for argument in rest[:1]]
        parts += [rows.value(argument) for argument in rest[1:]]
        return f"{node.function}({', '.join(parts)}){over}"
    if node.distinct:
        raise ErrNotSupportedYet("DISTINCT in a window")
    return aggregate(node, rows, rows, over)


class _Measured:
    """A RANGE frame of a window.

    DuckDB adds an offset to a number. Dates and times are packed numbers, so their offset is
    computed for each row in MySQL's calendar. It is the distance to the date moved by the interval.
    If the interval cannot be added to a DATE, there is no bound on that side."""

    def __init__(self, node: Windowed, rows: Renderer) -> None:
        self.node, self.frame, self.rows = node, node.frame, rows
        key = node.frame.key if node.frame is not None else None
        self.type = "" if node.frame is None or key is None else _measure(key, node.frame)
        self.key = f"CAST({rows.value(key)} AS {self.type})" if key is not None else ""

    def order(self) -> str:
        """The ORDER BY of a RANGE with amounts, else ''."""
        if not self.key:
            return ""
        return f"{self.key} {'DESC NULLS LAST' if self.node.order[0][1] else 'ASC NULLS FIRST'}"

    def bound(self, end: FrameBound) -> str:
        """One end of the frame. Raises 3586 if its amount is negative or NULL."""
        if end.amount is None:
            return end.side
        value = compile_expression(end.amount)((), self.rows.env)
        if _is_negative(value) or (not self.key and not isinstance(value, int)):
            assert self.frame is not None
            raise ErrWindowFrameIllegal(self.frame.window)
        if not self.key:
            return f"{value} {end.side}"
        if end.moved is None:
            return f"CAST({self.rows.value(end.amount)} AS {self.type}) {end.side}"
        there = f"CAST({self.rows.value(end.moved)} AS {self.type})"
        return f"coalesce(abs({there} - {self.key}), {_FARTHEST}) {end.side}"


_FARTHEST = 1 << 62  # beyond the distance of any two packed dates or times


def _is_negative(amount: Value) -> bool:
    if isinstance(amount, str | bytes):
        text = amount.decode("latin1") if isinstance(amount, bytes) else amount
        return text.lstrip().startswith("-")
    return amount is None or amount < 0


def _measure(key: Expr, frame: WindowFrame) -> str:
    """The DuckDB type in which the key and the amounts are added."""
    kinds = [key.type]
    ends = (frame.start, frame.end)
    kinds += [end.amount.type for end in ends if end.amount is not None and end.moved is None]
    families = {types.family_of(kind) for kind in kinds}
    if Family.FLOAT in families:
        return "DOUBLE"
    if Family.DECIMAL not in families:
        return "HUGEINT"
    sizes = [types.precision_of(types.as_decimal(kind)) for kind in kinds]
    scale = max(size[1] for size in sizes)
    whole = max(size[0] - size[1] for size in sizes) + 1
    return f"DECIMAL({min(duck.MOST_DIGITS, whole + scale)},{scale})"
