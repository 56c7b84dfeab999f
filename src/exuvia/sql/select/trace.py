"""The reading order of a query in the row engine: printed by EXPLAIN, measured by EXPLAIN ANALYZE.

    Trace        all loops of a query, the rows of its parts, and why DuckDB has to run it
    ReadLoop     one item of FROM: how it is read, and the conditions that are checked

stream.py fills a trace while it compiles a query. Without a watch nothing is read. With one the run
counts the rows and the time of each part. A run without a trace pays one comparison a part.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from exuvia.sql.access.paths import Path, watched_path
from exuvia.sql.env import Env
from exuvia.sql.expr import Call, Expr, Subquery, walk
from exuvia.sql.result import Row
from exuvia.sql.select.scan import RowsScan
from exuvia.sql.select.tree import Block, FromItem, QueryTree
from exuvia.sql.statement.measure import MeasuredStep, Reads, Watch

Test = Callable[[Any, Env], bool]
LoopKey = FromItem | Block
"""The item whose loops they are, or the block if it has no FROM."""


def conjuncts_of(expr: Expr) -> list[Expr]:
    """The parts of a condition that all must be true."""
    if isinstance(expr, Call) and expr.function == "and":
        return [conjunct for part in expr.arguments for conjunct in conjuncts_of(part)]
    return [expr]


def subqueries_in(expr: Expr) -> list[Subquery]:
    """The queries that an expression contains."""
    return [node for node in walk(expr) if isinstance(node, Subquery)]


class LoopCondition(NamedTuple):
    """A condition of a loop, as it was bound. `is_whole`: checked when all columns are read.
    `after` counts the rows for which it is true."""

    expr: Expr
    is_whole: bool
    after: MeasuredStep


class ReadLoop:
    """One item of FROM in the nested loops over its block.

    path          how a stored table is read
    by            (position, condition) of key parts whose values come from other items or queries
    read, reads   rows of the path, and its reads of rows and entries
    joined        rows after this loop and before its conditions
    early         the number of leading conditions that are checked once, when the item is read
    is_repeated   the item is read again for each row of the loops around it
    """

    def __init__(
        self,
        item: FromItem | None,
        conditions: Sequence[LoopCondition] = (),
        path: Path | None = None,
        by: Sequence[tuple[int, Expr]] = (),
    ) -> None:
        self.item = item
        self.conditions = list(conditions)
        self.path = path
        self.by = by
        self.early = 0
        self.is_repeated = False
        self.read = MeasuredStep()
        self.reads = Reads()
        self.joined = MeasuredStep()


class Trace:
    """How one query is read. `reason`: why DuckDB has to run it, or empty. `steps`: the number of
    rows that the row engine read or combined. `completes`: it never leaves the query to DuckDB.

    `begin_read` is called for each loop over a stored table, before its first row is read."""

    def __init__(self, watch: Watch | None = None) -> None:
        self.watch = watch
        self.begin_read: Callable[[ReadLoop], None] | None = None
        self.loops: dict[LoopKey, list[ReadLoop]] = {}
        self.reason = ""
        self.completes = False
        self.steps = 0
        self._by_item: dict[FromItem, ReadLoop] = {}
        self._parts: dict[tuple[QueryTree, str], MeasuredStep] = {}

    def leave(self, reason: str) -> None:
        """Note why DuckDB has to run the query. The first reason counts."""
        self.reason = self.reason or reason

    def add(self, key: LoopKey, loop: ReadLoop) -> ReadLoop:
        """Append the next loop."""
        self.loops.setdefault(key, []).append(loop)
        if loop.item is not None:
            self._by_item[loop.item] = loop
        if loop.path is not None and self.begin_read is not None:
            self.begin_read(loop)
        return loop

    def step(self, query: QueryTree, part: str = "rows") -> MeasuredStep:
        """The rows after a part of a query: rows (its result), groups, having, distinct, or the
        number of a set operation."""
        return self._parts.setdefault((query, part), MeasuredStep())

    # -- measured functions, the same ones if nothing is measured ----------------------------------

    def rows(self, step: MeasuredStep, call: Callable[..., Any]) -> Callable[..., Any]:
        """A function that returns rows."""
        watch = self.watch
        if watch is None:
            return call

        def measured(*arguments: Any) -> Iterable[Row]:
            with watch.within(step):
                rows = call(*arguments)
            return watch.rows(step, rows)

        return measured

    def test(self, step: MeasuredStep, holds: Test) -> Test:
        """A condition."""
        watch = self.watch
        if watch is None:
            return holds
        step.count(0)

        def measured(row: Any, env: Env) -> bool:
            with watch.within(step):
                is_true = holds(row, env)
            step.count(bool(is_true))
            return is_true

        return measured

    def tests(self, loop: ReadLoop, tests: Sequence[Test]) -> list[Test]:
        """The conditions of a loop."""
        pairs = zip(loop.conditions, tests, strict=True)
        return [self.test(condition.after, holds) for condition, holds in pairs]

    def path(self, item: FromItem, path: Path) -> Path:
        """The path of an item."""
        loop = self._by_item.get(item)
        if self.watch is None or loop is None:
            return path
        return watched_path(path, self.watch, loop.read, loop.reads)

    def computed(self, item: FromItem, scan: RowsScan) -> Sequence[Row]:
        """The rows of a computed table."""
        loop = self._by_item.get(item)
        if self.watch is None or loop is None:
            return scan.rows
        with self.watch.within(loop.read):
            rows = scan.rows
        loop.read.count(len(rows))
        return rows
