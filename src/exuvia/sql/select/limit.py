"""LIMIT and OFFSET: whole numbers or parameters, known before the query runs."""

from typing import Any

from sqlglot import exp

from exuvia.base.mysql_errors import ErrWrongArguments
from exuvia.sql.bind.bind import bind
from exuvia.sql.bind.scope import Scope
from exuvia.sql.evaluate.compile import compile_expression
from exuvia.sql.parse.syntax_error import Misplaced
from exuvia.sql.select.build import Build


def limits(tree: exp.Expression, context: Any) -> tuple[int | None, int]:
    """(most rows or None, rows to skip)."""
    limit, offset = tree.args.get("limit"), tree.args.get("offset")
    if isinstance(limit, exp.Limit) and limit.args.get("offset") is not None:
        offset = limit
        skip = _whole(limit.args["offset"], context)
    else:
        skip = 0 if offset is None else _whole(offset.expression, context)
    if limit is None:
        return None, skip
    return _whole(limit.expression, context), skip


def _whole(tree: exp.Expression, context: Any) -> int:
    value = compile_expression(bind(tree, Scope.empty(context)))((), context)
    if not isinstance(value, int) or not 0 <= value < 1 << 64:
        if tree.find(exp.Placeholder):
            raise ErrWrongArguments("LIMIT")
        raise Misplaced(str(value))
    return value


def limit_clause(tree: exp.Expression, build: Build) -> str:
    """SQL of LIMIT, "" where there is none."""
    most, skip = limits(tree, build.context)
    sql = "" if most is None else f" LIMIT {min(most, (1 << 63) - 1)}"
    return sql + (f" OFFSET {skip}" if skip else "")
