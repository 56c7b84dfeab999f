"""What is computed from groups, as SQL: aggregates, the group's own values, and WITH ROLLUP.

In a row of ROLLUP that sums over a key the key is NULL, also where an expression names it; GROUPING
tells it apart. DuckDB groups by ROLLUP itself, so a key is written alike wherever it stands.
"""

from collections.abc import Sequence

from exuvia.base.mysql_errors import ErrFieldInGroupingNotGroupBy, ErrInvalidGroupFuncUse
from exuvia.sql.duck.groups import aggregate, windowed
from exuvia.sql.duck.render import Leaf, Renderer
from exuvia.sql.expr import Aggregate, Column, Expr, Outer, Subquery, Windowed, walk
from exuvia.sql.select.build import Frame, nested_leaf, subquery


def grouped_renderer(group: Sequence[Expr], rollup: bool, frame: Frame) -> Renderer:
    """The renderer of what stands behind GROUP BY."""
    rows = frame.renderer()
    outer = nested_leaf(frame)

    def leaf(expr: Expr) -> str:
        if isinstance(expr, Aggregate):
            return aggregate(expr, rows, finished)
        if isinstance(expr, Windowed):
            return windowed(expr, finished)
        if isinstance(expr, Column):
            return finished.of_group(expr)
        if isinstance(expr, Subquery):
            return subquery(expr, frame, leaf)
        return outer(expr)

    finished = _GroupRenderer(leaf, rows, group, rollup)
    return finished


def group_clause(group: Sequence[Expr], rollup: bool, rows: Renderer) -> str:
    """GROUP BY, or nothing."""
    if not group:
        return ""
    keys = ", ".join(rows.key(key) for key in group)
    return f" GROUP BY ROLLUP ({keys})" if rollup else f" GROUP BY {keys}"


def check_grouping(nodes: Sequence[Expr], group: Sequence[Expr], rollup: bool) -> None:
    """GROUPING needs ROLLUP (1111) and keys of the group (3602)."""
    for node in nodes:
        for part in walk(node):
            if not (isinstance(part, Aggregate) and part.function == "grouping"):
                continue
            if not rollup:
                raise ErrInvalidGroupFuncUse()
            for place, key in enumerate(part.arguments):
                if key not in group:
                    raise ErrFieldInGroupingNotGroupBy(place)


class _GroupRenderer(Renderer):
    """A renderer that knows the group's expressions: each stands for its one value in the group."""

    def __init__(self, leaf: Leaf, rows: Renderer, group: Sequence[Expr], rollup: bool) -> None:
        super().__init__(leaf, rows.functions, rows.env)
        self._rows = rows
        self._keys = group
        self._group = [key for key in group if not isinstance(key, Column | Outer)]
        self._rollup = rollup

    def value(self, expr: Expr) -> str:
        """The value in the group."""
        return self.of_group(expr) if expr in self._group else super().value(expr)

    def of_group(self, expr: Expr) -> str:
        """The value of a key, or of a column that follows from the keys."""
        value = f"any_value({self._rows.value(expr)})"
        if not self._rollup or expr not in self._keys:
            return value
        return f"CASE WHEN grouping({self._rows.key(expr)}) = 0 THEN {value} END"
