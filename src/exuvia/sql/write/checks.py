"""CHECK constraints of a row that is about to be written: 3819 for the first that is false.

A condition depends on the row alone, not on the session or the clock (schema/check.py refuses
others). So a row that once satisfied it always does. NULL is not false. Bound once for a table.

While columns change, a CHECK that may have another result is also evaluated on the future row. That
has the new types of its columns, and generated columns computed again (catalog/rules.py).
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
    """One constraint: its name, the positions it reads, whether a row breaks it, its condition."""

    name: str
    reads: tuple[int, ...]
    breaks: Callable[[Sequence[Value], Env], bool]
    bound: Expr


def row_check(info: ConstraintInfo, scope: Scope) -> RowCheck:
    """The constraint, bound to the positions of the columns of `scope` (generated.scope_of). Raises
    1054, 1582, ... as binding does."""
    bound = bind_condition(parse_expression(info.expr_string), scope)
    call, kind = compile_expression(bound), bound.type

    def breaks(row: Sequence[Value], env: Env) -> bool:
        return truth(call(row, env), kind) is False

    name = info.constraint_name.O
    name = name if info.state == SchemaState.PUBLIC else final_name(name)
    return RowCheck(name, tuple(sorted(columns_of(bound))), breaks, bound)


class ComingCheck(NamedTuple):
    """One constraint, bound to the columns as they will be, and what is computed for it first."""

    check: RowCheck
    computed: tuple[GeneratedColumn, ...]
    reads: tuple[int, ...]  # positions of stored columns

    def breaks(self, row: list[Value], env: Env) -> bool:
        """Whether it is false of a row whose changing columns are converted. Computes into the row.
        Raises what a generated column refuses."""
        for each in self.computed:
            row[each.position] = each.nearest(row, env)
        return self.check.breaks(row, env)


def coming_check(info: ConstraintInfo, table: TableInfo) -> ComingCheck:
    """The constraint under the table's `coming_columns`. Raises 1054, 1267, ... as binding does."""
    columns = coming_columns(table)
    check = row_check(info, scope_of(columns))
    virtual = [each for each in generated_columns(evolve(table, cols=columns)) if _is_read(each)]
    reads, computed = set(check.reads), list[GeneratedColumn]()
    for each in reversed(virtual):
        if each.position in reads:
            reads = reads - {each.position} | set(each.reads)
            computed.insert(0, each)
    return ComingCheck(check, tuple(computed), tuple(sorted(reads)))


def _is_read(each: GeneratedColumn) -> bool:
    return each.column.is_virtual and not each.is_array


class RowChecks:
    """What every row of a table must obey."""

    def __init__(
        self, checks: Sequence[RowCheck], coming: Sequence[ComingCheck], table: Table
    ) -> None:
        self._checks = checks
        self._coming = coming
        self._table = table

    def judge(self, row: list[Value], env: Env, old: list[Value] | None = None) -> None:
        """Raises 3819, what a condition refuses in a strict write (1292, 1365), and what the row
        meets in a column that changes. `old`: the row that it replaces."""
        for each in self._checks:
            if each.breaks(row, env):
                raise ErrCheckConstraintViolated(each.name)
        if self._coming:
            coming, lenient = writer.as_written(self._table, row, old), PlainEnv()
            for one in self._coming:
                if one.breaks(coming, lenient):
                    raise ErrCheckConstraintViolated(one.check.name)


def misfits(checks: Sequence[ConstraintInfo], table: Table) -> Callable[[Sequence[Value]], None]:
    """What a row must pass while it may change places with rows that obey these: 1737."""
    scope = scope_of(table.info.cols)
    found = [row_check(each, scope) for each in checks]
    env = PlainEnv()

    def check(row: Sequence[Value]) -> None:
        if any(each.breaks(row, env) for each in found):
            raise ErrRowDoesNotMatchPartition()

    return check


def row_checks(table: Table) -> RowChecks | None:
    """The constraints a writer of the table obeys; None where there are none."""
    if table.info.constraint_info is None:
        return None
    if _KEPT not in table.caches:
        binding = [each for each in table.info.checks if each.binds]
        scope = scope_of(table.info.cols)
        found = [row_check(each, scope) for each in binding]
        coming = [coming_check(each, table.info) for each in coming_checks(table.info)]
        table.caches[_KEPT] = RowChecks(found, coming, table) if found else None
    kept: RowChecks | None = table.caches[_KEPT]
    return kept
