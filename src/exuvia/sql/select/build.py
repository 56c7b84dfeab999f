"""What the parts of one SELECT share while it is planned: names, scans, Python functions, the
environment.

    Build        one a statement
    Planned      one query block, or a UNION of them: its SQL and its columns o0, o1, ...
    Frame        one block's scope, and where its columns stand in the SQL

Every table reference has a name of its own in the whole statement, so a correlated subquery simply
names the outer one's columns.

Leaves of expressions over rows: columns, and nested queries with what they are compared with.

(SELECT ..)            scalar: more than one row is 1242
EXISTS (..)
a IN (SELECT ..)       by the key of the winning collation, NULLs as in SQL
(a, b) IN (SELECT ..)  as EXISTS, and a second one for what is unknown; a WHERE alone, which
                       cannot tell NULL from false, does without
a > ANY / ALL (..)

LIMIT and OFFSET: whole numbers or parameters, known before the query runs.
"""

from collections.abc import Callable, Sequence
from datetime import tzinfo
from itertools import count
from typing import Any, NamedTuple

from sqlglot import exp

from exuvia.base.mysql_errors import ErrInvalidGroupFuncUse, ErrNotSupportedYet, ErrWrongArguments
from exuvia.sql import walks
from exuvia.sql.access.single_table import ROW_ID
from exuvia.sql.bind.bind import bind
from exuvia.sql.bind.operators import comparable
from exuvia.sql.bind.scope import Field, Scope, local, nullable
from exuvia.sql.duck import engine as duck
from exuvia.sql.duck.render import Functions, Renderer
from exuvia.sql.evaluate.compile import compile_expression
from exuvia.sql.expr import COERCIBLE, MEMBER, SEMI, Column, Expr, Outer, Subquery, Windowed
from exuvia.sql.parse.syntax_error import Misplaced
from exuvia.sql.result import OutputColumn
from exuvia.sql.select.scan import HANDLE_NAME, Scan
from exuvia.sql.statement.context import Context

_UNSHOWN = (HANDLE_NAME, ROW_ID)
_statements = count(1)
Place = Callable[[], str]


class Planned(NamedTuple):
    """A query as DuckDB SQL;

    its columns are named o0, o1, ... there. `levels` keeps coercibility. `merges`: as a derived
    table it adds nothing to the rows of its FROM (no group, no DISTINCT, no LIMIT)."""

    sql: str
    columns: list[OutputColumn]
    levels: list[int]
    merges: bool = False

    def member(self, place: int, zone: tzinfo | None) -> Expr:
        """One column of the query's only row, in the session's zone."""
        column = self.columns[place]
        sql = f"SELECT o{place} AS o0 FROM ({self.sql}) q"
        alone = self._replace(sql=sql, columns=[column], levels=[self.levels[place]])
        found = Subquery(
            type=nullable(column.type),
            coercibility=COERCIBLE,
            kind="scalar",
            query=alone,
            operator=MEMBER,
        )
        return local(found, zone)


class CommonTable(NamedTuple):
    """A common table expression in sight."""

    name: str
    columns: list[OutputColumn]
    merges: bool = False


PlanQuery = Callable[[Any, "Build", "Frame | None", dict[str, CommonTable]], Planned]
"""(tree, build, the frame around it, common table expressions in sight) -> its SQL"""


class Build:
    """See the module. `plan_query` plans the queries within it (sql/select/query.py)."""

    def __init__(self, context: Context, plan_query: PlanQuery) -> None:
        self._plan_query = plan_query
        number = next(_statements)
        self.context = context
        self.prefix = f"x{number}"
        self.scans: list[Scan] = []
        self.functions = Functions(f"{self.prefix}f", context)
        self.handles = False
        self.notes: list[tuple[str, str]] = []
        self.blocks: list[Any] = []  # (SelectBlock, Frame) of each SELECT planned
        self.views: list[int] = []  # ids of the views that are being planned, outermost first
        self._names = count()

    def plan(self, tree: Any, parent: "Frame | None", commons: dict[str, CommonTable]) -> Planned:
        """A query within the statement."""
        return self._plan_query(tree, self, parent, commons)

    def name(self) -> str:
        """A name that nothing else in the statement has."""
        return f"{self.prefix}t{next(self._names)}"


class Frame:
    """A block's scope and the SQL of its columns.

    `places[position]` gives a column's SQL when it is used."""

    def __init__(
        self, build: Build, parent: "Frame | None", commons: dict[str, CommonTable]
    ) -> None:
        self.build = build
        self.parent = parent
        self.commons = commons
        self.fields: list[Field] = []
        self.places: list[Place] = []
        self.hidden: set[int] = set()
        self.order: list[int] = []  # of what `*` shows
        self.commons_of: set[int] = set()  # columns of common table expressions

    def add(self, fields: Sequence[Field], places: Sequence[Place]) -> list[Field]:
        """More columns; they stand behind those that are there."""
        offset = len(self.places)
        moved = [field._replace(position=offset + n) for n, field in enumerate(fields)]
        self.fields += moved
        self.order += [field.position for field in moved if field.name not in _UNSHOWN]
        self.places += places
        return moved

    def scope(self, clause: str = "field list", since: int = 0) -> Scope:
        """The names in sight; those of an ON begin with the columns of its own join."""
        outer = None if self.parent is None else self.parent.scope()
        found = Scope(self.fields[since:], self.build.context.binding, outer, clause)
        found.hidden = self.hidden
        found.query = self._query
        return found

    def _query(self, tree: Any, scope: Scope) -> Planned:
        return self.build.plan(tree, self, self.commons)

    def column(self, expr: Expr) -> str:
        """SQL of a column of this scope or one further out."""
        if isinstance(expr, Column):
            return self.places[expr.position]()
        if not isinstance(expr, Outer):
            raise ErrNotSupportedYet(type(expr).__name__)
        frame = self
        for _ in range(expr.depth):
            if frame.parent is None:
                raise ErrNotSupportedYet("outer reference")
            frame = frame.parent
        return frame.places[expr.position]()

    def renderer(self, leaf: Callable[[Expr], str] | None = None) -> Renderer:
        """Renders expressions over the rows of this frame."""
        build = self.build
        return Renderer(leaf or nested_leaf(self), build.functions, build.context)


# -- leaves, and nested queries --------------------------------------------------------------------


_QUANTIFIED = {"=": "=", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


def nested_leaf(frame: Frame) -> Callable[[Expr], str]:
    """The SQL of a leaf of this frame."""

    def leaf(expr: Expr) -> str:
        if isinstance(expr, Column | Outer):
            return frame.column(expr)
        if isinstance(expr, Subquery):
            return subquery(expr, frame, leaf)
        if isinstance(expr, Windowed):
            from exuvia.sql.duck.render import windowed

            return windowed(expr, frame.renderer(leaf))
        raise ErrInvalidGroupFuncUse()

    return leaf


def subquery(expr: Subquery, frame: Frame, leaf: Callable[[Expr], str]) -> str:
    """SQL of a nested query."""
    planned = expr.query
    if expr.operator == MEMBER or (expr.kind == "in" and len(expr.operands) > 1):
        # the query stands in the statement more than once
        for scan in frame.build.scans:
            if scan.name in planned.sql:
                scan.is_repeated = True
    if expr.kind == "scalar":
        return f"CAST((SELECT o0 FROM ({planned.sql}) q) AS {duck.type_of(expr.type)})"
    if expr.kind == "exists":
        return f"EXISTS ({planned.sql})"
    pairs = [_pair(operand, n, expr, frame, leaf) for n, operand in enumerate(expr.operands)]
    if len(pairs) > 1:
        same = " AND ".join(f"{left} = {right}" for left, right in pairs)
        found = f"EXISTS (SELECT 1 FROM ({planned.sql}) q WHERE {same})"
        if expr.kind == SEMI:
            return found
        unknown = f"EXISTS (SELECT 1 FROM ({planned.sql}) q WHERE ({same}) IS NULL)"
        return f"CASE WHEN {found} THEN TRUE WHEN {unknown} THEN NULL ELSE FALSE END"
    left, right = pairs[0]
    inner = f"SELECT {right} FROM ({planned.sql}) q"
    if expr.kind in ("in", SEMI):
        return f"({left} IN ({inner}))"
    sign = _QUANTIFIED.get(expr.operator)
    if sign is None:
        raise ErrNotSupportedYet(f"{expr.operator} {expr.kind.upper()}")
    return f"({left} {sign} {expr.kind.upper()} ({inner}))"


def _pair(
    operand: Expr, place: int, expr: Subquery, frame: Frame, leaf: Callable[[Expr], str]
) -> tuple[str, str]:
    """The SQL of an operand and of the nested query's column, in the domain where they compare."""
    planned = expr.query
    column = planned.columns[place]
    found = Column(type=column.type, coercibility=planned.levels[place], position=place)
    inner = local(found, frame.build.context.zone)
    (left, right), collate = comparable((operand, inner), expr.operator)

    def of_query(part: Expr) -> str:
        if isinstance(part, Column):
            return f"q.o{part.position}"
        return leaf(part)

    outside, inside = frame.renderer(leaf), frame.renderer(of_query)
    if duck.is_wide([left.type, right.type]):
        return duck.wide_key(outside.value(left)), duck.wide_key(inside.value(right))
    if expr.operator[:1] in "<>" and expr.kind in ("any", "all"):
        return outside.order_key(left, collate), inside.order_key(right, collate)
    return outside.key(left, collate), inside.key(right, collate)


# -- DISTINCT and LIMIT ----------------------------------------------------------------------------


def distinct_rows(sql: str, columns: Sequence[OutputColumn]) -> str:
    """The query's rows, each once, by key."""
    keys = [duck.key_of(f"o{n}", column.type) for n, column in enumerate(columns)]
    names = ", ".join(f"o{n}" for n in range(len(columns)))
    if keys == [f"o{n}" for n in range(len(columns))]:
        return f"SELECT DISTINCT {names} FROM ({sql}) q"
    return f"SELECT DISTINCT ON ({', '.join(keys)}) {names} FROM ({sql}) q"


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
    value = compile_expression(bind(tree, Scope.empty(context.binding)))((), context)
    if not isinstance(value, int) or not 0 <= value < 1 << 64:
        if walks.find(tree, exp.Placeholder):
            raise ErrWrongArguments("LIMIT")
        raise Misplaced(str(value))
    return value


def limit_clause(tree: exp.Expression, build: Build) -> str:
    """SQL of LIMIT, "" where there is none."""
    most, skip = limits(tree, build.context)
    sql = "" if most is None else f" LIMIT {min(most, (1 << 63) - 1)}"
    return sql + (f" OFFSET {skip}" if skip else "")
