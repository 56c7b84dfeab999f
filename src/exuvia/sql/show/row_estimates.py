"""estRows: how many rows a step is expected to give.

    a table that was analyzed    the rows it has; ranges of keys and different values by statistics
    any other                    TiDB's pseudo statistics: 10000 rows, and of them

    c = ?, c IS NULL    1/1000           c > ?               1/3
    c IN (n of)         n/1000           c < ?               1/3, without NULLs (1/1000)
    c <> ?              2/3, likewise    two bounds, 'x%'    1/40
    c IS NOT NULL       999/1000         anything else       8/10
    a OR b              1 - (1 - a)(1 - b)
    a whole unique key  1                an index's prefix of i equalities: each a further 1/100
    different values    8/10 of the rows

    rows of a join  =  left * right / the greater number of different values, of each equality

What statistics do not tell of a column that was analyzed is taken from the rates above.

Source: TiDB's planner/cardinality (pseudo rates); Selinger et al. (1979) for joins.
"""

from collections.abc import Iterable, Mapping, Sequence

from exuvia.catalog.table import Table
from exuvia.sql.access.choose import Shares, rows_by_statistics
from exuvia.sql.access.members import IndexMerge
from exuvia.sql.access.paths import Matched, Path, Points, UniquePoints
from exuvia.sql.access.ranger import Bounds, bounds, combinations
from exuvia.sql.show.expression_text import CallText, ColumnText, ConstantText, ExpressionText
from exuvia.sql.statement.context import Context
from exuvia.stats import meta

PSEUDO_ROWS = 10_000.0
EQUAL, ONE_SIDE, TWO_SIDES, OTHER, DISTINCT = 1 / 1000, 1 / 3, 1 / 40, 0.8, 0.8
_LATER_PART = 100


class TableEstimate:
    """Of one table in the statement's snapshot, of the partitions that are read."""

    def __init__(self, table: Table, parts: Sequence[Table], context: Context) -> None:
        self._table = table
        self._context = context
        self._parts = parts
        self._shares = Shares(context.txn, table)
        known = meta.get(context.txn, meta.whole_id(table))
        self.is_pseudo = known is None or known.analyzed_count is None
        self.rows = PSEUDO_ROWS
        if known is not None and not self.is_pseudo:
            self.rows = float(known.rows)
            if table.is_partitioned and len(parts) < len(table.parts):
                counts = [meta.get(context.txn, part.physical_id) for part in parts]
                self.rows = float(sum(each.rows for each in counts if each is not None))

    def of_path(self, path: Path) -> float:
        """Rows that a path reads, its bounds those of this run."""
        context = self._context
        if isinstance(path, Points | UniquePoints):
            return float(len(set(combinations(path.match, context) or ())))
        if isinstance(path, IndexMerge):
            each = max(1.0, self.rows * EQUAL)
            number = sum(1 for _ in path.ranges(context))
            return min(self.rows, each * number if "union" in path.kind else each)
        if not isinstance(path, Matched) or not path.match.used:
            return self.rows
        if not self.is_pseudo:
            known = rows_by_statistics(path, self._parts, context)
            if known is not None:
                return known
        return self._pseudo(path)

    def _pseudo(self, path: Matched) -> float:
        met = bounds(path.match, self._context)
        if met is None:
            return self.rows
        key = path.match.key
        by_handle = key.exuvia_clustered and self._table.info.pk_is_handle
        if path.match.whole and (key.is_unique or key.exuvia_clustered):
            return float(len(met.rows))
        equal = len(path.match.equal)
        if by_handle:
            share, most = _handle_range(met)
            return min(self.rows * share, most)
        one = self.rows * (_range(met) if path.match.range else EQUAL)
        before = equal if path.match.range else equal - 1
        total = len(met.rows) * one / _LATER_PART ** max(0, before)
        return total if total <= self.rows else self.rows * ONE_SIDE

    # -- conditions --------------------------------------------------------------------------------

    def kept(self, conditions: Iterable[ExpressionText]) -> float:
        """The share of rows that all of the conditions keep."""
        share = 1.0
        sides: dict[int, set[str]] = {}
        for each in conditions:
            column = self._compared(each)
            if column is not None and isinstance(each, CallText) and each.name in _SIDES:
                sides.setdefault(column.position, set()).add(_SIDES[each.name])
            else:
                share *= self._share(each)
        for position, met in sides.items():
            lower = ONE_SIDE if self._is_handle(position) else ONE_SIDE - EQUAL
            share *= TWO_SIDES if len(met) > 1 else ONE_SIDE if met == {"low"} else lower
        return share

    def _share(self, found: ExpressionText) -> float:
        if isinstance(found, ConstantText):
            return 0.0 if found.is_null or found.text == "0" else 1.0
        if not isinstance(found, CallText):
            return OTHER
        if found.name == "and":
            return self.kept(found.arguments)
        if found.name == "or":
            left = 1.0
            for each in found.arguments:
                left *= 1 - self.kept([each])
            return 1 - left
        column = self._compared(found)
        if column is None:
            return OTHER
        equal = self._equal(column.position)
        if found.name in ("eq", "nulleq"):
            return equal
        if found.name == "in":
            return min(1.0, equal * (len(found.arguments) - 1))
        if found.name == "isnull":
            return EQUAL
        if found.name == "ne":
            both = 2 * ONE_SIDE - (0 if self._is_handle(column.position) else EQUAL)
            return both if self.is_pseudo or equal == EQUAL else 1 - equal
        if found.name == "like" and not found.arguments[1].text.startswith(('"%', '"_')):
            return TWO_SIDES
        if found.name == "not" and isinstance(found.arguments[0], CallText):
            return 1 - EQUAL if found.arguments[0].name == "isnull" else OTHER
        return OTHER

    def _compared(self, found: ExpressionText) -> ColumnText | None:
        """The only column of this table that is compared with constants."""
        if not isinstance(found, CallText) or not found.arguments:
            return None
        if found.name == "not":
            return self._compared(found.arguments[0])
        columns = [each for each in found.arguments if not isinstance(each, ConstantText)]
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
        known = None if self.is_pseudo else self._shares.distinct(position)
        return EQUAL if known is None else 1 / max(1, known)

    def different(self, position: int) -> float:
        """How many different values a column has."""
        if self._is_handle(position):
            return self.rows
        known = None if self.is_pseudo else self._shares.distinct(position)
        return DISTINCT * self.rows if known is None else float(known)


_SIDES = {"gt": "low", "ge": "low", "lt": "high", "le": "high"}


def _range(met: Bounds) -> float:
    """The share of one range's rows."""
    if not met.high.values:
        return ONE_SIDE
    return ONE_SIDE - EQUAL if met.low.values == (None,) else TWO_SIDES


def _handle_range(met: Bounds) -> tuple[float, float]:
    """The share of an integer handle's range, and how many values it has at most."""
    low = met.low.values[0] if met.low.values else None
    high = met.high.values[0] if met.high.values else None
    if not isinstance(low, int) or not isinstance(high, int):
        return ONE_SIDE, float("inf")
    return TWO_SIDES, float(max(1, high - low))


def joined(left: float, right: float, different: Iterable[float]) -> float:
    """Rows of a join; `different`: of each equality the greater number of different values."""
    rows = left * right
    for each in different:
        rows /= max(1.0, each)
    return rows


def grouped(
    texts: Sequence[ExpressionText], rows: float, tables: Mapping[int, TableEstimate]
) -> float:
    """Groups of so many rows by these expressions. `tables`: by their ids."""
    most = 0.0
    for each in texts:
        estimate = None
        if isinstance(each, ColumnText) and each.table is not None:
            estimate = tables.get(each.table.info.id)
        if estimate is None or not isinstance(each, ColumnText):
            most = max(most, rows * DISTINCT)
        else:
            share = min(1.0, rows / max(1.0, estimate.rows))
            most = max(most, estimate.different(each.position) * share)
    return min(rows, most)
