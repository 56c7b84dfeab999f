"""estRows: the estimated number of rows of an operator.

    an analyzed table    its row count; ranges of keys and distinct values by statistics
    any other            TiDB's pseudo statistics: 10000 rows, and these shares of them

    c = ?, c IS NULL    1/1000           c > ?               1/3
    c IN (n of)         n/1000           c < ?               1/3, without NULLs (1/1000)
    c <> ?              2/3, the same        two bounds, 'x%'    1/40
    c IS NOT NULL       999/1000         anything else       8/10
    a OR b              1 - (1 - a)(1 - b)
    a whole unique key  1                an index's prefix of i equalities: each a further 1/100
    distinct values     8/10 of the rows

    rows of a join  =  left * right / the greater number of distinct values, for each equality

If statistics have no answer for an analyzed column, these shares are used, too.

Source: TiDB's planner/cardinality (pseudo rates); Selinger et al. (1979) for joins.
"""

from collections.abc import Iterable, Mapping, Sequence

from exuvia.catalog.table import Table
from exuvia.sql.access.choose import Shares, rows_by_statistics
from exuvia.sql.access.paths import Matched, MergePath, Path, Points, UniquePoints
from exuvia.sql.access.ranger import Bounds, Match, bounds, combinations
from exuvia.sql.show.expression_text import CallText, ColumnText, ConstantText, ExpressionText
from exuvia.sql.statement.context import Context
from exuvia.stats import meta

PSEUDO_ROWS = 10_000.0
EQUAL, ONE_SIDE, TWO_SIDES, OTHER, DISTINCT = 1 / 1000, 1 / 3, 1 / 40, 0.8, 0.8
_LATER_PART = 100


class TableEstimate:
    """The estimates of one table in the statement's snapshot, for the partitions that are read."""

    def __init__(self, table: Table, parts: Sequence[Table], context: Context) -> None:
        self._table = table
        self._context = context
        self._parts = parts
        self._shares = Shares(context.txn, table)
        counts_now = meta.get(context.txn, meta.whole_id(table))
        self.is_pseudo = counts_now is None or counts_now.analyzed_count is None
        self.rows = PSEUDO_ROWS
        if counts_now is not None and not self.is_pseudo:
            self.rows = float(counts_now.rows)
            if table.is_partitioned and len(parts) < len(table.parts):
                counts = [meta.get(context.txn, part.physical_id) for part in parts]
                self.rows = float(sum(count.rows for count in counts if count is not None))

    def of_path(self, path: Path) -> float:
        """Rows that a path reads, with the bounds of this run."""
        context = self._context
        if isinstance(path, Points | UniquePoints):
            return float(len(set(combinations(path.match, context) or ())))
        if isinstance(path, MergePath):
            entry_rows = max(1.0, self.rows * EQUAL)
            number = len(path.scans(context) or ())
            return min(self.rows, entry_rows * number if "union" in path.kind else entry_rows)
        if not isinstance(path, Matched) or not path.match.used:
            return self.rows
        if not self.is_pseudo:
            estimated = rows_by_statistics(path, self._parts, context)
            if estimated is not None:
                return estimated
        return self._pseudo(path.match)

    def of_one_key(self, path: Matched) -> float:
        """Rows that a path reads for one value of each part of its key."""
        match, rows = path.match, self.rows
        if match.whole and (match.key.is_unique or match.key.exuvia_clustered):
            return min(1.0, rows)
        for term in match.equal:
            rows *= self._equal(term.position)
        return rows * (ONE_SIDE if match.range else 1.0)

    def _pseudo(self, match: Match) -> float:
        if match.any_of:
            return min(self.rows, sum(map(self._pseudo, match.any_of)))
        path_bounds = bounds(match, self._context)
        if path_bounds is None:
            return self.rows
        key = match.key
        by_handle = key.exuvia_clustered and self._table.info.pk_is_handle
        if match.whole and (key.is_unique or key.exuvia_clustered):
            return float(len(path_bounds.rows))
        equal = len(match.equal)
        if by_handle:
            share, most = _handle_range(path_bounds)
            return min(self.rows * share, most)
        one = self.rows * (_range(path_bounds) if match.range else EQUAL)
        before = equal if match.range else equal - 1
        total = len(path_bounds.rows) * one / _LATER_PART ** max(0, before)
        return total if total <= self.rows else self.rows * ONE_SIDE

    # -- conditions --------------------------------------------------------------------------------

    def share_of(self, conditions: Iterable[ExpressionText]) -> float:
        """The share of rows that fulfil all conditions."""
        share = 1.0
        sides: dict[int, set[str]] = {}
        for condition in conditions:
            column = self._compared(condition)
            if column is not None and isinstance(condition, CallText) and condition.name in _SIDES:
                sides.setdefault(column.position, set()).add(_SIDES[condition.name])
            else:
                share *= self._share(condition)
        for position, directions in sides.items():
            lower = ONE_SIDE if self._is_handle(position) else ONE_SIDE - EQUAL
            share *= (
                TWO_SIDES if len(directions) > 1 else ONE_SIDE if directions == {"low"} else lower
            )
        return share

    def _share(self, condition: ExpressionText) -> float:
        if isinstance(condition, ConstantText):
            return 0.0 if condition.is_null or condition.text == "0" else 1.0
        if not isinstance(condition, CallText):
            return OTHER
        if condition.name == "and":
            return self.share_of(condition.arguments)
        if condition.name == "or":
            excluded = 1.0
            for alternative in condition.arguments:
                excluded *= 1 - self.share_of([alternative])
            return 1 - excluded
        column = self._compared(condition)
        if column is None:
            return OTHER
        equal = self._equal(column.position)
        if condition.name in ("eq", "nulleq"):
            return equal
        if condition.name == "in":
            return min(1.0, equal * (len(condition.arguments) - 1))
        if condition.name == "isnull":
            return EQUAL
        if condition.name == "ne":
            both = 2 * ONE_SIDE - (0 if self._is_handle(column.position) else EQUAL)
            return both if self.is_pseudo or equal == EQUAL else 1 - equal
        if condition.name == "like" and not condition.arguments[1].text.startswith(('"%', '"_')):
            return TWO_SIDES
        if condition.name == "not" and isinstance(condition.arguments[0], CallText):
            return 1 - EQUAL if condition.arguments[0].name == "isnull" else OTHER
        return OTHER

    def _compared(self, condition: ExpressionText) -> ColumnText | None:
        """The column of this table, if it is the only one compared with constants."""
        if not isinstance(condition, CallText) or not condition.arguments:
            return None
        if condition.name == "not":
            return self._compared(condition.arguments[0])
        columns = [
            argument for argument in condition.arguments if not isinstance(argument, ConstantText)
        ]
        if len(columns) != 1 or not isinstance(columns[0], ColumnText):
            return None
        table = columns[0].table
        same = table is not None and table.info.id == self._table.info.id
        return columns[0] if same else None

    def _is_handle(self, position: int) -> bool:
        return self._table.info.pk_is_handle and self._table.handle_positions == (position,)

    def _equal(self, position: int) -> float:
        if self._is_handle(position):
            return 1 / max(1.0, self.rows)
        distinct_values = None if self.is_pseudo else self._shares.distinct(position)
        return EQUAL if distinct_values is None else 1 / max(1, distinct_values)

    def different(self, position: int) -> float:
        """The number of distinct values of a column."""
        if self._is_handle(position):
            return self.rows
        distinct_values = None if self.is_pseudo else self._shares.distinct(position)
        return DISTINCT * self.rows if distinct_values is None else float(distinct_values)


_SIDES = {"gt": "low", "ge": "low", "lt": "high", "le": "high"}


def _range(path_bounds: Bounds) -> float:
    """The share of the rows of one range."""
    if not path_bounds.high.values:
        return ONE_SIDE
    return ONE_SIDE - EQUAL if path_bounds.low.values == (None,) else TWO_SIDES


def _handle_range(path_bounds: Bounds) -> tuple[float, float]:
    """The share of a range of integer handles, and its largest possible number of values."""
    low = path_bounds.low.values[0] if path_bounds.low.values else None
    high = path_bounds.high.values[0] if path_bounds.high.values else None
    if not isinstance(low, int) or not isinstance(high, int):
        return ONE_SIDE, float("inf")
    return TWO_SIDES, float(max(1, high - low))


def joined(left_rows: float, right_rows: float, different: Iterable[float]) -> float:
    """Rows of a join. `different`: for each equality the greater number of distinct values."""
    rows = left_rows * right_rows
    for distinct_values in different:
        rows /= max(1.0, distinct_values)
    return rows


def grouped(
    texts: Sequence[ExpressionText], rows: float, tables: Mapping[int, TableEstimate]
) -> float:
    """The number of groups of `rows` rows by these expressions. `tables`: by table id."""
    most = 0.0
    for text in texts:
        estimate = None
        if isinstance(text, ColumnText) and text.table is not None:
            estimate = tables.get(text.table.info.id)
        if estimate is None or not isinstance(text, ColumnText):
            most = max(most, rows * DISTINCT)
        else:
            share = min(1.0, rows / max(1.0, estimate.rows))
            most = max(most, estimate.different(text.position) * share)
    return min(rows, most)
