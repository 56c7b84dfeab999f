"""CHECK constraints of a row that is about to be written: 3819 for the first that is false.

A condition sees the row alone: no session, no clock (schema/check.py refuses what would ask
for one), so what was once true of a row stays true. NULL is not false. Bound once for a table.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from exuvia.base.mysql_errors import ErrCheckConstraintViolated, ErrRowDoesNotMatchPartition
from exuvia.base.types import Value
from exuvia.catalog.model import ConstraintInfo
from exuvia.catalog.table import Table
from exuvia.sql.bind.bind import bind_condition
from exuvia.sql.bind.scope import Scope
from exuvia.sql.env import Env, PlainEnv
from exuvia.sql.evaluate.compile import compile_expression, truth
from exuvia.sql.expr import Expr, columns_of
from exuvia.sql.generated import scope_of
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

    return RowCheck(info.constraint_name.O, tuple(sorted(columns_of(bound))), breaks, bound)


class RowChecks:
    """What every row of a table must obey."""

    def __init__(self, checks: Sequence[RowCheck]) -> None:
        self._checks = checks

    def judge(self, row: Sequence[Value]) -> None:
        """Raises 3819."""
        env = PlainEnv()
        for each in self._checks:
            if each.breaks(row, env):
                raise ErrCheckConstraintViolated(each.name)


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
    if _KEPT not in table.kept:
        binding = [each for each in table.info.checks if each.binds]
        scope = scope_of(table.info.cols)
        found = [row_check(each, scope) for each in binding]
        table.kept[_KEPT] = RowChecks(found) if found else None
    kept: RowChecks | None = table.kept[_KEPT]
    return kept
