"""How many rows a path reads, and whether it is worth its detour.

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
from exuvia.sql.access.partitioned import Everywhere, has_equality
from exuvia.sql.access.paths import Matched, Path, Points, UniquePoints
from exuvia.sql.access.ranger import spans
from exuvia.sql.statement.context import Context
from exuvia.stats import estimate

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
