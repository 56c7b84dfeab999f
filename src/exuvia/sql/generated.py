"""Generated columns: their expressions, bound once for a table, each after those it reads.

    b AS (a + 8) VIRTUAL, c AS (b + 2) STORED    ->    [b: a + 8]  [c: b + 2]

VIRTUAL columns are computed when a row is read (catalog/table.py, which finds `virtual_steps` by
its name), all of them when a row is written (sql/write/rows.py). Both ways give one value for
one row: an expression sees no session, its time zone is UTC, its literals are utf8mb4_bin.
Reading never fails on a value that does not fit its column: the nearest one is shown, as in TiDB.

The hidden column of a multi-valued index, CAST(j AS UNSIGNED ARRAY), holds the array that its
entries follow from (catalog/multi_valued.py): the document's elements as json_arrays.py
has them.
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
PREFIX = "_V$"  # of the name of an index's hidden column
STRICT = "exuvia_strict"  # in `change_state_info` of an index's column: its fill refuses


class GeneratedColumn(NamedTuple):
    """One column: where it stands, what it reads, and how its value is computed."""

    position: int
    column: ColumnInfo
    reads: tuple[int, ...]
    bound: Expr  # of an array the document's
    call: Callable[[Sequence[Value], Env], Value]
    is_array: bool = False
    many: Many | None = None

    def value(self, row: Sequence[Value], env: Env) -> Value:
        """The column's value in a row. Raises 1264, 1265, 1406, ..., 1048 without a row number."""
        found = self.call(row, env)
        if self.is_array:
            return found
        return assign_to(self.column, self.bound.type)(found, 1)

    def nearest(self, row: Sequence[Value], env: Env) -> Value:
        """As `value`, but what does not fit becomes the nearest value that does."""
        found = None
        with suppress(Refused, ArithmeticError):
            found = self.call(row, env)
        if self.is_array:
            return found
        if found is None:
            return zero_of(self.column.type) if self.column.not_null else None
        try:
            return assign_to(self.column, self.bound.type)(found, 1)
        except (Refused, ArithmeticError):
            return narrowed(found, self.bound.type, self.column)


def scope_of(columns: Sequence[ColumnInfo]) -> Scope:
    """Their names, by place. Of two with one name, the one that clients see."""
    known = [(n, each) for n, each in enumerate(columns) if each.state != SchemaState.ABSENT]
    public = {each.name.L for _, each in known if each.state == SchemaState.PUBLIC}
    fields = [
        Field(n, each.name.O, each.type, column=each)
        for n, each in known
        if each.state == SchemaState.PUBLIC or each.name.L not in public
    ]
    return Scope(fields, clause=PLACE)


def bound_expression(text: str, columns: Sequence[ColumnInfo]) -> Expr:
    """The typed expression. Raises 1054, 1582, ... as binding does."""
    return bind(parse_expression(text), scope_of(columns))


def names_in(tree: exp.Expression) -> list[str]:
    """The columns that it names, in lower case, each once."""
    return list(dict.fromkeys(each.name.lower() for each in walks.find_all(tree, exp.Column)))


def generated_columns(info: TableInfo) -> tuple[GeneratedColumn, ...]:
    """All generated columns of a table that exist, each behind those it reads."""
    positions = [n for n, each in enumerate(info.cols) if each.is_generated and each.state != 0]
    scope = scope_of(info.cols)
    made = {position: _computed(position, info.cols[position], scope) for position in positions}
    order: dict[int, GeneratedColumn] = {}
    entered: set[int] = set()
    waiting = positions[::-1]
    while waiting:
        position = waiting[-1]
        inputs = [] if position in entered else made[position].reads
        entered.add(position)
        missing = [at for at in inputs if at in made and at not in entered]
        if missing:
            waiting += reversed(missing)
        else:
            order.setdefault(waiting.pop(), made[position])
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


def index_name_of(hidden: ColumnInfo) -> str:
    """The name of the index on expressions of which that is a column: `_V$_name_0`."""
    return hidden.name.O.removeprefix(PREFIX + "_").rpartition("_")[0]


def virtual_steps(info: TableInfo) -> tuple[VirtualStep, ...]:
    """The steps of catalog/table.py for a table."""
    return tuple(
        VirtualStep(each.position, each.reads, _reading(each), _strictly(each), each.many)
        for each in generated_columns(info)
        if each.column.is_virtual
    )


def is_computed_hidden(column: ColumnInfo) -> bool:
    """Whether a change fills it: its writers' duty is `computations`."""
    return COMPUTED in (column.change_state_info or {})


def computations(info: TableInfo) -> dict[int, Computation]:
    """How the hidden columns that a change fills follow from a row, each behind those it reads: by
    their expressions over the columns as they will be."""
    order = generated_columns(evolve(info, cols=coming_columns(info, also_hidden=True)))
    kept = {each.position for each in order if not each.column.is_virtual}
    found = {}
    for n, each in enumerate(order):
        if not is_computed_hidden(info.cols[each.position]):
            continue
        wanted, first = set(each.reads), []
        for step in reversed(order[:n]):
            if step.position in wanted - kept:
                wanted.update(step.reads)
                first.append(step)
        virtual = {step.position for step in first}
        found[each.position] = Computation(
            tuple(sorted(wanted - virtual)), _filling(each, tuple(reversed(first)))
        )
    return found


def _filling(
    column: GeneratedColumn, first: Sequence[GeneratedColumn]
) -> Callable[[Sequence[Value]], Value]:
    """Its value in a row of all columns; `first`: what is computed before it, and not stored. A
    strict one raises what a strict write would."""
    is_strict = LENIENT not in (column.column.change_state_info or {})
    steps = [(step.position, _reading(step)) for step in first]
    env = PlainEnv(strict=is_strict)

    def value(row: Sequence[Value]) -> Value:
        seen = list(row)
        for position, read in steps:
            seen[position] = read(seen)
        env.warnings.clear()
        return column.value(seen, env) if is_strict else column.nearest(seen, env)

    return value


def _strictly(column: GeneratedColumn) -> Callable[[Sequence[Value]], Value] | None:
    info = column.column
    is_asked = info.state == SchemaState.WRITE_REORG and STRICT in (info.change_state_info or {})
    if not (is_asked or column.is_array):  # an element that is none has no entry, in no mode
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
