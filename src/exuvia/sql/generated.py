"""Generated columns: their expressions, bound once per table, ordered by dependency.

    b AS (a + 8) VIRTUAL, c AS (b + 2) STORED    ->    [b: a + 8]  [c: b + 2]

VIRTUAL columns are computed when a row is read (catalog/table.py, which finds `virtual_steps` by
its name). All generated columns are computed when a row is written (sql/write/rows.py). Both ways
give the same value: an expression has no session, its time zone is UTC, its literals are
utf8mb4_bin. Reading never fails if a value does not fit its column: the nearest value is returned,
as in TiDB.

The hidden column of a multi-valued index, CAST(j AS UNSIGNED ARRAY), contains an array
(json_arrays.py). The entries of the index follow from it (catalog/multi_valued.py).
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from sqlglot import exp

from exuvia.base.errors import Refused
from exuvia.base.types import Value
from exuvia.catalog.convert.type_change import COMPUTED, LENIENT, Computation
from exuvia.catalog.convert.values import zero_of
from exuvia.catalog.model import ColumnInfo, SchemaState, TableInfo, evolve
from exuvia.catalog.rules import coming_columns
from exuvia.catalog.table import Many, VirtualStep
from exuvia.sql import walks
from exuvia.sql.bind.bind import bind
from exuvia.sql.bind.cast import element_type
from exuvia.sql.bind.scope import Field, Scope
from exuvia.sql.cells import assign_to, narrowed
from exuvia.sql.env import Env, PlainEnv
from exuvia.sql.evaluate.compile import compile_expression
from exuvia.sql.expr import Expr, columns_of
from exuvia.sql.json_arrays import array_maker, documents_of, many_maker
from exuvia.sql.parse.text import parse_expression

PLACE = "generated column function"
PREFIX = "_V$"  # the prefix of the name of an index's hidden column
STRICT = "exuvia_strict"  # in `change_state_info` of an index's column: its backfill is strict


class GeneratedColumn(NamedTuple):
    """A generated column: its position, the columns that it reads, and its function."""

    position: int
    column: ColumnInfo
    reads: tuple[int, ...]
    bound: Expr  # for an array, the expression of the document
    call: Callable[[Sequence[Value], Env], Value]
    is_array: bool = False
    many: Many | None = None

    def value(self, row: Sequence[Value], env: Env) -> Value:
        """The column's value in a row. Raises 1264, 1265, 1406, ..., 1048 without a row number."""
        computed = self.call(row, env)
        if self.is_array:
            return computed
        return assign_to(self.column, self.bound.type)(computed, 1)

    def nearest(self, row: Sequence[Value], env: Env) -> Value:
        """As `value`, but a value that does not fit becomes the nearest one that fits."""
        computed = None
        with suppress(Refused, ArithmeticError):
            computed = self.call(row, env)
        if self.is_array:
            return computed
        if computed is None:
            return zero_of(self.column.type) if self.column.not_null else None
        try:
            return assign_to(self.column, self.bound.type)(computed, 1)
        except (Refused, ArithmeticError):
            return narrowed(computed, self.bound.type, self.column)


def scope_of(columns: Sequence[ColumnInfo]) -> Scope:
    """The columns by position. If two have the same name, the public one is in the scope."""
    existing = [
        (n, column) for n, column in enumerate(columns) if column.state != SchemaState.ABSENT
    ]
    public = {column.name.L for _, column in existing if column.state == SchemaState.PUBLIC}
    fields = [
        Field(n, column.name.O, column.type, column=column)
        for n, column in existing
        if column.state == SchemaState.PUBLIC or column.name.L not in public
    ]
    return Scope(fields, clause=PLACE)


def bound_expression(text: str, columns: Sequence[ColumnInfo]) -> Expr:
    """The typed expression. Raises 1054, 1582, ... as `bind`."""
    return bind(parse_expression(text), scope_of(columns))


def names_in(tree: exp.Expression) -> list[str]:
    """The distinct columns in the expression, in lower case."""
    return list(dict.fromkeys(column.name.lower() for column in walks.find_all(tree, exp.Column)))


def generated_columns(info: TableInfo) -> tuple[GeneratedColumn, ...]:
    """All existing generated columns of a table, each after those that it reads."""
    positions = [
        n for n, column in enumerate(info.cols) if column.is_generated and column.state != 0
    ]
    scope = scope_of(info.cols)
    generated = {
        position: _computed(position, info.cols[position], scope) for position in positions
    }
    order: dict[int, GeneratedColumn] = {}
    entered: set[int] = set()
    waiting = positions[::-1]
    while waiting:
        position = waiting[-1]
        inputs = [] if position in entered else generated[position].reads
        entered.add(position)
        missing = [at for at in inputs if at in generated and at not in entered]
        if missing:
            waiting += reversed(missing)
        else:
            order.setdefault(waiting.pop(), generated[position])
    return tuple(order.values())


def _computed(position: int, column: ColumnInfo, scope: Scope) -> GeneratedColumn:
    tree = parse_expression(column.generated_expr_string)
    kind = element_type(tree) if column.hidden else None
    expr = bind(tree if kind is None else tree.this, scope)
    reads = tuple(sorted(columns_of(expr) - {position}))
    if kind is None:
        return GeneratedColumn(position, column, reads, expr, compile_expression(expr))
    call = array_maker(documents_of(expr), kind, index_name_of(column))
    many = many_maker(expr, kind)
    return GeneratedColumn(position, column, reads, expr, call, is_array=True, many=many)


def index_name_of(column: ColumnInfo) -> str:
    """The name of the index that the hidden column `_V$_name_0` belongs to."""
    return column.name.O.removeprefix(PREFIX + "_").rpartition("_")[0]


def virtual_steps(info: TableInfo) -> tuple[VirtualStep, ...]:
    """The steps of catalog/table.py for a table."""
    return tuple(
        VirtualStep(column.position, column.reads, _reading(column), _strictly(column), column.many)
        for column in generated_columns(info)
        if column.column.is_virtual
    )


def is_computed_hidden(column: ColumnInfo) -> bool:
    """Whether a schema change backfills the column; writers meanwhile use `computations`."""
    return COMPUTED in (column.change_state_info or {})


def computations(info: TableInfo) -> dict[int, Computation]:
    """How to compute the hidden columns under backfill from a row, in order of dependency.

    Their expressions are bound to the columns after the change."""
    order = generated_columns(evolve(info, cols=coming_columns(info, also_hidden=True)))
    stored = {column.position for column in order if not column.column.is_virtual}
    computed = {}
    for n, column in enumerate(order):
        if not is_computed_hidden(info.cols[column.position]):
            continue
        inputs, first = set(column.reads), []
        for step in reversed(order[:n]):
            if step.position in inputs - stored:
                inputs.update(step.reads)
                first.append(step)
        virtual = {step.position for step in first}
        computed[column.position] = Computation(
            tuple(sorted(inputs - virtual)), _filling(column, tuple(reversed(first)))
        )
    return computed


def _filling(
    column: GeneratedColumn, first: Sequence[GeneratedColumn]
) -> Callable[[Sequence[Value]], Value]:
    """Returns the function that computes the column's value in a full row.

    `first` are virtual columns to compute before it. In strict mode it raises as a strict write."""
    is_strict = LENIENT not in (column.column.change_state_info or {})
    steps = [(step.position, _reading(step)) for step in first]
    env = PlainEnv(strict=is_strict)

    def value(row: Sequence[Value]) -> Value:
        row_values = list(row)
        for position, read in steps:
            row_values[position] = read(row_values)
        env.warnings.clear()
        return column.value(row_values, env) if is_strict else column.nearest(row_values, env)

    return value


def _strictly(column: GeneratedColumn) -> Callable[[Sequence[Value]], Value] | None:
    info = column.column
    is_asked = info.state == SchemaState.WRITE_REORG and STRICT in (info.change_state_info or {})
    if not (is_asked or column.is_array):  # an element of another type is refused in every mode
        return None
    env = PlainEnv(strict=True)
    return lambda row: column.value(row, env)


def _reading(column: GeneratedColumn) -> Callable[[Sequence[Value]], Value]:
    env = PlainEnv()
    assign = assign_to(column.column, column.bound.type)
    call = column.call
    if column.is_array:

        def array(row: Sequence[Value]) -> Value:
            try:
                return call(row, env)
            except Refused:
                return None

        return array

    def value(row: Sequence[Value]) -> Value:
        env.warnings.clear()
        try:
            return assign(call(row, env), 1)
        except (Refused, ArithmeticError):
            return column.nearest(row, env)

    return value
