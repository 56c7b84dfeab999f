"""Facts of a bound query that EXPLAIN prints: sides of joins, semi joins, correlation, windows."""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from exuvia.sql.expr import (
    SEMI,
    Call,
    Column,
    Constant,
    Expr,
    FrameBound,
    Outer,
    Parameter,
    Subquery,
    Windowed,
    WindowFrame,
    children,
    columns_of,
    walk,
)
from exuvia.sql.select.trace import LoopCondition, conjuncts_of, subqueries_in
from exuvia.sql.select.tree import (
    Block,
    Cross,
    DerivedRef,
    Frame,
    FromItem,
    Join,
    OneColumn,
    OrderedQuery,
    QueryTree,
    RowValues,
    SetOperation,
    With,
)
from exuvia.sql.show.expression_text import ColumnText, ExpressionText
from exuvia.sql.statement.measure import MeasuredStep


def sides_of(join: Join) -> tuple[FromItem, FromItem]:
    """The preserved item of an outer join, and the other one."""
    return (join.left, join.right) if join.side == "LEFT" else (join.right, join.left)


def unchecked(expr: Expr) -> LoopCondition:
    return LoopCondition(expr, bool(subqueries_in(expr)), MeasuredStep())


def conditions_of(join: Join) -> list[LoopCondition]:
    return [unchecked(part) for expr in join.conditions for part in conjuncts_of(expr)]


def column_name(column: Column) -> ColumnText:
    return ColumnText((column.full or column.name).lower())


class SemiJoin(NamedTuple):
    subquery: Subquery
    word: str


def semi_join_of(expr: Expr) -> SemiJoin | None:
    """A condition that is [NOT] IN (SELECT ..) or [NOT] EXISTS (..)."""
    is_negated = isinstance(expr, Call) and expr.function == "not"
    inner = expr.arguments[0] if isinstance(expr, Call) and is_negated else expr
    if not isinstance(inner, Subquery) or inner.kind not in ("in", SEMI, "exists"):
        return None
    if not is_negated:
        return SemiJoin(inner, "semi join")
    word = "anti semi join" if inner.kind == "exists" else "Null-aware anti semi join"
    return SemiJoin(inner, word)


def sides_of_equality(expr: Expr, own: frozenset[int]) -> tuple[Expr, Expr] | None:
    """The sides of an equality of other columns with an item's own ones, which come second."""
    if not isinstance(expr, Call) or expr.function not in ("=", "<=>"):
        return None
    sides = expr.arguments[0], expr.arguments[1]
    for theirs, mine in (sides, sides[::-1]):
        inside, outside = columns_of(mine), columns_of(theirs)
        if inside and inside <= own and outside and not outside & own:
            return theirs, mine
    return None


def equal_to_constant(expr: Expr) -> Iterator[int]:
    """The column that a condition compares with a constant."""
    if isinstance(expr, Call) and expr.function == "=":
        for column, other in (expr.arguments, expr.arguments[::-1]):
            if isinstance(column, Column) and isinstance(other, Constant | Parameter):
                yield column.position


def columns_outside(expr: Expr, computed: Mapping[Expr, ExpressionText]) -> Iterator[Expr]:
    """The columns outside of aggregates and grouping expressions."""
    if isinstance(expr, Column):
        yield expr
    elif expr not in computed:
        for part in children(expr):
            yield from columns_outside(part, computed)


def is_distinct_later(query: SetOperation, n: int) -> bool:
    """Whether a later UNION makes the rows distinct anyway."""
    for step in query.steps[n + 1 :] if query.steps[n].word == "UNION" else ():
        if step.word != "UNION":
            return False
        if step.distinct:
            return True
    return False


def over_text(node: Windowed, text: Callable[[Expr], ExpressionText]) -> str:
    """A window as in OVER (..)."""
    parts = []
    if node.partition:
        parts.append(f"partition by {', '.join(text(key).text for key in node.partition)}")
    if node.order:
        keys = (f"{text(key).text}{' desc' * descending}" for key, descending in node.order)
        parts.append(f"order by {', '.join(keys)}")
    return " ".join([*parts, *([_frame_text(node.frame, text)] if node.frame else [])])


def _frame_text(frame: WindowFrame, text: Callable[[Expr], ExpressionText]) -> str:
    def bound(side: FrameBound) -> str:
        amount = "" if side.amount is None else f"{text(side.amount).text} "
        return amount + side.side.lower()

    return f"{frame.kind.lower()} between {bound(frame.start)} and {bound(frame.end)}"


def is_correlated(query: QueryTree) -> bool:
    """Whether a query names columns of the queries around it."""
    frames, outer = set[Frame](), set[Frame]()
    for frame, expr in _expressions(query):
        frames.add(frame)
        for node in walk(expr):
            if isinstance(node, Outer):
                owner: Frame | None = frame
                for _ in range(node.depth):
                    owner = None if owner is None else owner.parent
                if owner is not None:
                    outer.add(owner)
    return bool(outer - frames)


def _expressions(query: QueryTree) -> Iterator[tuple[Frame, Expr]]:
    """All expressions of a query and of those in it, with their frames."""
    queries = [query]
    for tree in queries:
        own, frame = list[Expr](), None
        if isinstance(tree, Block):
            frame = tree.frame
            own = [item.expr for item in tree.items] + [key for key, _ in tree.order] + tree.group
            own += [expr for expr in (tree.where, tree.having) if expr is not None]
            items = [] if tree.source is None else [tree.source]
            for item in items:
                if isinstance(item, Join):
                    own += item.conditions
                    items += [item.left, item.right]
                elif isinstance(item, Cross):
                    items += item.items
                elif isinstance(item, DerivedRef):
                    queries.append(item.query)
        elif isinstance(tree, RowValues):
            own, frame = [expr for row in tree.rows for expr in row], tree.frame
        elif isinstance(tree, SetOperation):
            queries += tree.parts
        elif isinstance(tree, OrderedQuery | OneColumn):
            queries.append(tree.inner)
        elif isinstance(tree, With):
            queries.append(tree.body)
            for table in tree.tables:
                recursion = table.recursion
                inner = (recursion.seed, recursion.step) if recursion else (table.query,)
                queries += [part for part in inner if part is not None]
        for expr in own:
            assert frame is not None
            yield frame, expr
            queries += [subquery.query for subquery in subqueries_in(expr)]
