"""What share of a table's rows a key's terms keep, by statistics: for the choice between indexes.

    a = ?           1 / different values of a
    a IN (n of)     n / different values of a
    a > ?           a third; between two bounds a quarter

Plans are kept by shape, so a choice may not look at constants: an average value stands for all.
EXPLAIN estimates the ranges themselves (stats/estimate.py).

How many rows a path reads, and whether it is worth its detour.

    a point                    1
    ranges of an analyzed key  by its statistics, constants included (stats/estimate.py)
    other ranges               a tenth of the table
    no key                     all rows

A row found by a key costs about ten times as much as one that is read with all others, column by
column, so a multi-table statement reads a table by a key that keeps at most a tenth of its rows.
Without statistics an equality is taken to be selective, and a range not to be.
"""

from collections.abc import Sequence

from exuvia.catalog.table import Table
from exuvia.kv.transaction import Transaction
from exuvia.sql.access.partitioned import Everywhere, has_equality
from exuvia.sql.access.paths import Matched, Path, Points, UniquePoints
from exuvia.sql.access.ranger import Match, Terms, spans
from exuvia.sql.statement.context import Context
from exuvia.stats import estimate, meta, records

ONE_SIDE, TWO_SIDES = 1 / 3, 1 / 4


class Shares:
    """Of one table in one snapshot; read when first asked for."""

    def __init__(self, txn: Transaction, table: Table) -> None:
        self._txn = txn
        self._table = table
        self._distinct: dict[int, int] | None = None

    def of(self, found: Match) -> float | None:
        """The share that a match keeps; None where nobody analyzed its columns."""
        if self._distinct is None:
            self._distinct = self._read()
        share = 1.0
        for term in found.equal:
            distinct = self._distinct.get(self._table.info.cols[term.position].id)
            if distinct is None:
                return None
            number = len(term.constants) if term.operator == "in" else 1
            share *= min(1.0, number / max(1, distinct))
        if found.range:
            share *= ONE_SIDE if len(found.range) == 1 else TWO_SIDES
        return share if self._distinct else None

    def kept(self, terms: Terms) -> float:
        """The share of rows that all terms keep; 1 for those of columns nobody analyzed."""
        share = 1.0
        sides: dict[int, int] = {}
        for term in terms.usable:
            distinct = self.distinct(term.position)
            if distinct is None:
                continue
            if term.operator in ("=", "in"):
                share *= min(1.0, len(term.constants) / max(1, distinct))
            else:
                sides[term.position] = sides.get(term.position, 0) + 1
        for number in sides.values():
            share *= ONE_SIDE if number == 1 else TWO_SIDES
        return share

    def distinct(self, position: int) -> int | None:
        """How many different values a column has, if somebody analyzed it."""
        if self._distinct is None:
            self._distinct = self._read()
        return self._distinct.get(self._table.info.cols[position].id)

    def _read(self) -> dict[int, int]:
        table_id = meta.whole_id(self._table)
        known = meta.get(self._txn, table_id)
        if known is None or known.analyzed_count is None:
            return {}
        found = records.heads(self._txn, table_id, 0)
        return {each.hist_id: each.distinct for each in found if each.is_analyzed}


# -- estimated -------------------------------------------------------------------------------------

RANGE_SHARE = 10


def rows_read(path: Path, context: Context) -> float:
    """About how many rows a path reads, of all partitions together."""
    parts, inner = _apart(path, context)
    if isinstance(inner, Points | UniquePoints):
        return 1.0
    if isinstance(inner, Matched) and inner.match.used:
        known = _known(inner, parts, context)
        return rows_there(parts, context) / RANGE_SHARE if known is None else known
    return rows_there(parts, context)


def rows_there(parts: Sequence[Table], context: Context) -> float:
    return sum(context.session.services.store.count(part.row_span()) for part in parts)


def is_worth(path: Path, context: Context, is_hinted: bool) -> bool:
    """Whether to read by the key, and not all rows."""
    parts, inner = _apart(path, context)
    if path.short or not isinstance(inner, Matched) or not inner.match.used or is_hinted:
        return path.short or has_equality(path)
    known = _known(inner, parts, context)
    if known is None:
        return has_equality(path)
    return known * RANGE_SHARE <= rows_there(parts, context)


def _apart(path: Path, context: Context) -> tuple[Sequence[Table], Path]:
    if isinstance(path, Everywhere):
        return path.choice.parts(context), path.path
    return path.table.parts, path


def _known(path: Matched, parts: Sequence[Table], context: Context) -> float | None:
    """What statistics say of the rows in the path's ranges; None without any."""
    total = 0.0
    for part in parts:
        ranges = spans(part, path.match, context)
        if ranges is None:
            return None
        found = estimate.rows_in(context.txn, part, path.match.key, ranges)
        if found is None:
            return None
        total += found
    return total
