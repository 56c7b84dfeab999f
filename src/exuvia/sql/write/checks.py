"""CHECK constraints of a row before it is written: 3819 for the first that is false.

A condition depends only on the row, not on the session or the clock (schema/check.py refuses
others). So a row that has satisfied it always does. NULL is not false. Conditions are bound once
per table.

While columns change, a CHECK that may have another result is also evaluated on the future row. This
row has the new types of its columns, and its generated columns are computed again
(catalog/rules.py).
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from exuvia.base.mysql_errors import ErrCheckConstraintViolated, ErrRowDoesNotMatchPartition
from exuvia.base.types import Value
from exuvia.catalog import writer
from exuvia.catalog.model import ConstraintInfo, SchemaState, TableInfo, evolve, final_name
from exuvia.catalog.rules import coming_checks, coming_columns
from exuvia.catalog.table import Table
from exuvia.sql.bind.bind import bind_condition
from exuvia.sql.bind.scope import Scope
from exuvia.sql.env import Env, PlainEnv
from exuvia.sql.evaluate.compile import compile_expression, truth
from exuvia.sql.expr import Expr, columns_of
from exuvia.sql.generated import GeneratedColumn, generated_columns, scope_of
from exuvia.sql.parse.text import parse_expression

_KEPT = "checks"


class RowCheck(NamedTuple):
    """A constraint: its name, the positions it reads, whether a row violates it, its condition."""

    name: str
    reads: tuple[int, ...]
    breaks: Callable[[Sequence[Value], Env], bool]
    bound: Expr


def row_check(info: ConstraintInfo, scope: Scope) -> RowCheck:
    """The constraint, bound to the positions of the columns of `scope` (generated.scope_of).

    Raises 1054, 1582, ... as `bind`."""
    bound = bind_condition(parse_expression(info.expr_string), scope)
    call, kind = compile_expression(bound), bound.type

    def breaks(row: Sequence[Value], env: Env) -> bool:
        return truth(call(row, env), kind) is False

    name = info.constraint_name.O
    name = name if info.state == SchemaState.PUBLIC else final_name(name)
    return RowCheck(name, tuple(sorted(columns_of(bound))), breaks, bound)


class ComingCheck(NamedTuple):
    """A constraint bound to the columns after the change, and the columns to compute before it."""

    check: RowCheck
    computed: tuple[GeneratedColumn, ...]
    reads: tuple[int, ...]  # positions of stored columns

    def breaks(self, row: list[Value], env: Env) -> bool:
        """Whether it is false for a row whose changing columns are converted.

        Computes columns of the row. Raises errors of generated columns."""
        for column in self.computed:
            row[column.position] = column.nearest(row, env)
        return self.check.breaks(row, env)


def coming_check(info: ConstraintInfo, table: TableInfo) -> ComingCheck:
    """The constraint with the table's `coming_columns`. Raises 1054, 1267, ... as `bind`."""
    columns = coming_columns(table)
    check = row_check(info, scope_of(columns))
    virtual = [
        column for column in generated_columns(evolve(table, cols=columns)) if _is_read(column)
    ]
    reads, computed = set(check.reads), list[GeneratedColumn]()
    for column in reversed(virtual):
        if column.position in reads:
            reads = reads - {column.position} | set(column.reads)
            computed.insert(0, column)
    return ComingCheck(check, tuple(computed), tuple(sorted(reads)))


def _is_read(column: GeneratedColumn) -> bool:
    return column.column.is_virtual and not column.is_array


class RowChecks:
    """The constraints of every row of a table."""

    def __init__(
        self, checks: Sequence[RowCheck], coming: Sequence[ComingCheck], table: Table
    ) -> None:
        self._checks = checks
        self._coming = coming
        self._table = table

    def judge(self, row: list[Value], env: Env, old: list[Value] | None = None) -> None:
        """Raises 3819, errors of conditions in a strict write (1292, 1365), and errors of changing
        columns. `old`: the row that is replaced."""
        for check in self._checks:
            if check.breaks(row, env):
                raise ErrCheckConstraintViolated(check.name)
        if self._coming:
            coming, lenient = writer.as_written(self._table, row, old), PlainEnv()
            for one in self._coming:
                if one.breaks(coming, lenient):
                    raise ErrCheckConstraintViolated(one.check.name)


def misfits(checks: Sequence[ConstraintInfo], table: Table) -> Callable[[Sequence[Value]], None]:
    """Returns a check of rows while they may be exchanged with rows of these constraints: 1737."""
    scope = scope_of(table.info.cols)
    checks_of_row = [row_check(constraint, scope) for constraint in checks]
    env = PlainEnv()

    def check(row: Sequence[Value]) -> None:
        if any(rule.breaks(row, env) for rule in checks_of_row):
            raise ErrRowDoesNotMatchPartition()

    return check


def row_checks(table: Table) -> RowChecks | None:
    """The constraints for writers of the table; None if it has no constraints."""
    if table.info.constraint_info is None:
        return None
    if _KEPT not in table.caches:
        binding = [constraint for constraint in table.info.checks if constraint.binds]
        scope = scope_of(table.info.cols)
        checks = [row_check(constraint, scope) for constraint in binding]
        coming = [coming_check(constraint, table.info) for constraint in coming_checks(table.info)]
        table.caches[_KEPT] = RowChecks(checks, coming, table) if checks else None
    cached: RowChecks | None = table.caches[_KEPT]
    return cached
