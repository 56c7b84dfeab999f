"""The choice of a plan's path: by rule or by statistics, the key that narrows the rows most.

    1  all parts of the clustered key        3  the key with the most equalities, then a range;
    2  all parts of a unique index              on a tie the clustered key
    4  no key: all rows, or an index whose order saves a sort under a LIMIT

If the table was analyzed, 3 is the key that selects the smallest share of the rows:

    a = ?           1 / distinct values of a
    a IN (n of)     n / distinct values of a
    a > ?           a third; between two bounds, and LIKE 'text%', a quarter
    an OR           the sum over its sides

Plans are cached by shape, so the choice does not depend on constants: it uses averages. EXPLAIN
estimates the actual ranges (stats/estimate.py).

A partial index is used if the WHERE implies its predicate (access/implied.py). A second path is
chosen for runs whose constants do not imply it. As in TiDB, it is never used for point reads.

USE, FORCE and IGNORE INDEX allow only (or exclude) the named indexes. USE INDEX () allows only the
clustered key. Hints in comments and bindings do the same, but an unknown index is no error
(parse/hints.py).

A multi-valued index has no range and no order. It is used for conditions on elements of its array
(access/members.py), if no key narrows the rows by a value. Several keys are used for an OR with an
equality on each side, if no single key narrows the rows.

The number of rows that a path reads is estimated as follows:

    a point                    1
    ranges of an analyzed key  by its statistics, constants included (stats/estimate.py)
    other ranges               a tenth of the table
    no key                     all rows

Reading a row by a key costs about ten times as much as reading it in a scan, column by column. So a
multi-table statement reads a table by a key only if the key selects at most a tenth of the rows.
Without statistics an equality counts as selective, and a range does not. USE and FORCE INDEX make a
range count as selective.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sqlglot import exp

from exuvia.base.mysql_errors import ErrKeyDoesNotExist
from exuvia.base.types import Flag
from exuvia.catalog.model import IndexColumn, IndexInfo, SchemaState, TableInfo, name
from exuvia.catalog.table import Table
from exuvia.kv.transaction import Transaction
from exuvia.sql import walks
from exuvia.sql.access.implied import may_imply
from exuvia.sql.access.members import MemberTerm, merged
from exuvia.sql.access.paths import (
    Everywhere,
    IndexRange,
    KeyRange,
    Matched,
    MergedRanges,
    MergePath,
    PartialRange,
    Path,
    Points,
    UniquePoints,
    has_equality,
)
from exuvia.sql.access.ranger import LIKE, Match, Terms, match, spans
from exuvia.sql.bind.binding import Binding
from exuvia.sql.env import Execution
from exuvia.sql.parse import hints
from exuvia.stats import estimate, meta, records

# -- shares ----------------------------------------------------------------------------------------

ONE_SIDE, TWO_SIDES = 1 / 3, 1 / 4


class Shares:
    """The shares of rows that conditions select in one table and snapshot; loaded at first use."""

    def __init__(self, txn: Transaction, table: Table) -> None:
        self._txn = txn
        self._table = table
        self._distinct: dict[int, int] | None = None
        self._nulls: dict[int, float] = {}

    def of(self, matched: Match) -> float | None:
        """The share of rows that a match selects; None if its columns were not analyzed."""
        if self._distinct is None:
            self._distinct = self._read()
        if matched.any_of:
            shares = [self.of(side) for side in matched.any_of]
            return None if None in shares else min(1.0, sum(share or 0.0 for share in shares))
        share = 1.0
        for term in matched.equal:
            distinct = self._distinct.get(self._table.info.cols[term.position].id)
            if distinct is None:
                return None
            if term.asks_null:
                share *= self.nulls(term.position) or 1 / max(1, distinct)
                continue
            number = len(term.constants) if term.operator == "in" else 1
            share *= min(1.0, number / max(1, distinct))
        if matched.range:
            is_side = len(matched.range) == 1 and matched.range[0].operator != LIKE
            share *= ONE_SIDE if is_side else TWO_SIDES
        return share if self._distinct else None

    def of_terms(self, terms: Terms) -> float:
        """The share of rows that all terms select; 1 for columns that were not analyzed."""
        share = 1.0
        sides: dict[int, int] = {}
        for term in terms.usable:
            distinct = self.distinct(term.position)
            if distinct is None:
                continue
            if term.asks_null:
                share *= self.nulls(term.position) or 1 / max(1, distinct)
            elif term.operator in ("=", "in", "<=>"):
                share *= min(1.0, len(term.constants) / max(1, distinct))
            else:
                sides[term.position] = sides.get(term.position, 0) + 1
        for number in sides.values():
            share *= ONE_SIDE if number == 1 else TWO_SIDES
        return share

    @property
    def was_used(self) -> bool:
        """Whether a share was requested, so that the choice depends on statistics."""
        return self._distinct is not None

    def distinct(self, position: int) -> int | None:
        """The number of distinct values of a column; None if it was not analyzed."""
        if self._distinct is None:
            self._distinct = self._read()
        return self._distinct.get(self._table.info.cols[position].id)

    def nulls(self, position: int) -> float | None:
        """The share of NULLs in a column; None if it was not analyzed."""
        if self._distinct is None:
            self._distinct = self._read()
        return self._nulls.get(self._table.info.cols[position].id)

    def _read(self) -> dict[int, int]:
        table_id = meta.whole_id(self._table)
        statistics = meta.get(self._txn, table_id)
        if statistics is None or statistics.analyzed_count is None:
            return {}
        histograms = records.heads(self._txn, table_id, 0)
        rows = max(1, statistics.analyzed_count)
        self._nulls = {
            head.hist_id: min(1.0, head.nulls / rows) for head in histograms if head.is_analyzed
        }
        return {head.hist_id: head.distinct for head in histograms if head.is_analyzed}


class NoShares(Shares):
    """The shares of a table without loaded statistics."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._distinct = None
        self._nulls = {}

    def _read(self) -> dict[int, int]:
        return {}


# -- rows read -------------------------------------------------------------------------------------

RANGE_SHARE = 10


def rows_there(parts: Sequence[Table], context: Execution) -> float:
    return float(sum(context.session.services.store.count(part.row_span()) for part in parts))


def is_worth(path: Path, context: Execution, hints: Sequence[exp.IndexTableHint]) -> bool:
    """Whether to read by the key instead of all rows.

    Always true for a range of an index in USE or FORCE INDEX."""
    parts, inner = _apart(path, context)
    if isinstance(inner, MergePath):
        return True
    if path.short or not isinstance(inner, Matched) or not inner.match.used:
        return path.short or has_equality(path)
    if any(hint.this.upper() != "IGNORE" for hint in hints):
        return True
    estimated = rows_by_statistics(inner, parts, context)
    if estimated is None:
        return has_equality(path)
    return estimated * RANGE_SHARE <= rows_there(parts, context)


def _apart(path: Path, context: Execution) -> tuple[Sequence[Table], Path]:
    if isinstance(path, Everywhere):
        return path.choice.parts(context), path.path
    return path.table.parts, path.resolved(context)


def rows_by_statistics(path: Matched, parts: Sequence[Table], context: Execution) -> float | None:
    """The estimated number of rows in the path's ranges; None without statistics."""
    total = 0.0
    for part in parts:
        ranges = spans(part, path.match, context)
        if ranges is None:
            return None
        rows = estimate.rows_in(context.txn, part, path.match.key, ranges)
        if rows is None:
            return None
        total += rows
    return total


# -- the choice ------------------------------------------------------------------------------------


def index_hints(tree: exp.Table, table: Table, binding: Binding) -> tuple[exp.IndexTableHint, ...]:
    """The index hints of a table in FROM.

    Hints from comments are limited to existing indexes. An unknown index is a warning; a hint
    without a known index is dropped."""
    kept_hints = []
    for hint in tree.args.get("hints") or ():
        if not isinstance(hint, exp.IndexTableHint):
            continue
        leniency = hint.meta.get(hints.LENIENT)
        if leniency is None or not hint.expressions:
            kept_hints.append(hint)
            continue
        names = {index.idx_name.L for index in _visible_indexes(table.info)}
        existing = [column for column in hint.expressions if column.name.lower() in names]
        for column in hint.expressions if leniency == hints.WARNED else ():
            if column not in existing:
                error = ErrKeyDoesNotExist(column.name, table.info.name.O)
                binding.note(error.code, error.message)
        if existing:
            copies = [walks.copy(column) for column in existing]
            kept_hints.append(exp.IndexTableHint(this=hint.name, expressions=copies))
    return tuple(kept_hints)


class WantedOrder(NamedTuple):
    """A requested order: positions, all ascending or all descending.

    `limited`: only the first rows are needed."""

    positions: tuple[int, ...] = ()
    descending: bool = False
    limited: bool = False


def choose(
    table: Table,
    terms: Terms,
    hinted: Sequence[exp.IndexTableHint],
    order: WantedOrder,
    shares: Shares | None = None,
    members: Sequence[MemberTerm] = (),
) -> Path:
    """The path for a WHERE; `members` are its conditions on arrays.

    Raises 1176 for a hint with an unknown index."""
    indexes = _visible_indexes(table.info)
    only: set[str] = set()
    never: set[str] = set()
    restricted = False
    for hint in hinted:
        names = {column.name.lower() for column in hint.expressions}
        for unknown in names - {index.idx_name.L for index in indexes}:
            raise ErrKeyDoesNotExist(unknown, table.info.name.O)
        if hint.name.upper() == "IGNORE":
            never |= names
        else:
            only |= names or {index.idx_name.L for index in indexes if index.exuvia_clustered}
            restricted = True
    if restricted:
        indexes = [index for index in indexes if index.idx_name.L in only]
    indexes = [index for index in indexes if index.idx_name.L not in never]
    best = _ordinary(table, terms, indexes, order, bool(hinted), shares)
    if best.short or has_equality(best):
        return best
    arrays = [index for index in indexes if index.is_multi_valued]
    by_array = merged(table, arrays, terms, members, best)
    return by_array or _by_several_keys(table, terms, indexes, shares, best) or best


def _by_several_keys(
    table: Table,
    terms: Terms,
    indexes: Sequence[IndexInfo],
    shares: Shares | None,
    other: Path,
) -> Path | None:
    """The path for the first OR each of whose sides has an equality of some key, if no key limits
    the rows. With statistics, only if the sides select few rows."""
    if not terms.alternatives or other.narrows:
        return None
    by_first_column: defaultdict[int, list[tuple[IndexInfo, tuple[int, ...]]]] = defaultdict(list)
    for index in indexes:
        if index.holds_every_row and not index.is_global:
            positions = positions_of(table, index)
            by_first_column[positions[0]].append((index, positions))
    for sides in terms.alternatives:
        best_matches = []
        for side in sides:
            on_side = Terms((*terms.usable, *side), 0)
            keys = (
                key for first in {term.position for term in side} for key in by_first_column[first]
            )
            matches = [match(table, index, positions, on_side) for index, positions in keys]
            matches = [candidate for candidate in matches if candidate.equal]
            if not matches:
                break
            best_matches.append(_best(matches, shares))
        else:
            side_shares = [] if shares is None else map(shares.of, best_matches)
            total = sum(share for share in side_shares if share is not None)
            if total * RANGE_SHARE <= 1:
                return MergedRanges(table, best_matches, other)
    return None


_PLAIN = (Path, Points, UniquePoints, KeyRange, IndexRange)


def chosen_again(path: Path, table: Table, terms: Terms, order: WantedOrder) -> Path | None:
    """The path in this revision of the table, if it reads in the same way as `path`, else None.

    The revision may have other secondary indexes. Also None if the choice would depend on
    statistics. `path` was chosen for these terms without hints."""
    if type(path) not in _PLAIN:
        return None
    shares = NoShares(table)
    path_now = choose(table, terms, (), order, shares)
    facts = type(path), path.name, path.index, path.covers
    if shares.was_used or facts != (type(path_now), path_now.name, path_now.index, path_now.covers):
        return None
    path_now.used = path.used
    return path_now


def _ordinary(
    table: Table,
    terms: Terms,
    indexes: Sequence[IndexInfo],
    order: WantedOrder,
    hinted: bool,
    shares: Shares | None,
) -> Path:
    whole = [index for index in indexes if index.holds_every_row]
    best = _chosen(table, terms, whole, order, hinted, shares)
    indexes = [index for index in indexes if not index.is_multi_valued]
    if len(whole) == len(indexes):
        return best
    able = [index for index in indexes if may_imply(table, index, terms)]
    partial_path = _chosen(table, terms, able, order, hinted, shares)
    if not isinstance(partial_path, IndexRange) or not partial_path.match.key.is_partial:
        return best
    return PartialRange(partial_path, (*terms.usable, *terms.others), best)


def _chosen(
    table: Table,
    terms: Terms,
    indexes: Sequence[IndexInfo],
    order: WantedOrder,
    hinted: bool,
    shares: Shares | None,
) -> Path:
    matches = [match(table, index, positions_of(table, index), terms) for index in indexes]
    used = [candidate for candidate in matches if candidate.used]
    if not hinted:
        used = [candidate for candidate in used if not _is_mostly_null(candidate, shares)]
    if used:
        best = _best(used, shares)
        return _path(table, best, best.covers(table, terms))
    covers = terms.conjuncts == 0
    if order.positions and (order.limited or hinted) and not follows(Path(table, False), order):
        for candidate in matches:
            path = IndexRange(table, candidate, covers)
            if not candidate.key.exuvia_clustered and follows(path, order):
                path.name = "IndexFullScan"
                return path
    return Path(table, covers)


def _is_mostly_null(matched: Match, shares: Shares | None) -> bool:
    """Whether only IS NULL conditions are used, and select many rows: a scan is faster then."""
    if shares is None or not matched.equal or matched.range:
        return False
    if not all(term.asks_null for term in matched.equal):
        return False
    shares_of_nulls = [shares.nulls(term.position) for term in matched.equal]
    return all(share is not None and share * RANGE_SHARE > 1 for share in shares_of_nulls)


def _best(used: list[Match], shares: Shares | None) -> Match:
    """The best match by the rule; among ranges the one with the smallest share, if known."""
    best = max(used, key=_rank)
    if shares is None or len(used) < 2 or _rank(best)[0]:
        return best
    candidate_shares = [shares.of(candidate) for candidate in used]
    if None in candidate_shares:
        return best
    pairs = [
        (-(share or 0.0), candidate)
        for share, candidate in zip(candidate_shares, used, strict=True)
    ]
    return max(pairs, key=lambda pair: (pair[0], _rank(pair[1])))[1]


def positions_of(table: Table, index: IndexInfo) -> tuple[int, ...]:
    """Positions of the columns of an index, in its order."""
    return table.handle_positions if index.exuvia_clustered else tuple(table.form(index).positions)


def _rank(matched: Match) -> tuple[int, int, int, int]:
    if matched.any_of:
        return 0, *min(_rank(side)[1:] for side in matched.any_of)
    clustered = matched.key.exuvia_clustered
    unique = matched.key.is_unique and not any(matched.prefixed) and not matched.key.is_partial
    point = 2 if matched.whole and clustered else 1 if matched.whole and unique else 0
    sides = 0 if any(term.operator == LIKE for term in matched.range) else len(matched.range)
    return point, len(matched.equal), sides, int(clustered)


def _path(table: Table, matched: Match, covers: bool) -> Path:
    if matched.key.exuvia_clustered:
        return Points(table, matched, covers) if matched.whole else KeyRange(table, matched, covers)
    if matched.whole and matched.key.is_unique and not matched.key.is_partial:
        return UniquePoints(table, matched, covers)
    return IndexRange(table, matched, covers)


def follows(path: Path, requested: WantedOrder) -> bool:
    """Whether the path's order is the requested one."""
    if isinstance(path, Points) and path.name == "Point_Get":
        return True
    requested_positions = [
        position for position in requested.positions if position not in path.fixed
    ]
    path_positions = [position for position in path.order if position not in path.fixed]
    return path_positions[: len(requested_positions)] == requested_positions


def _visible_indexes(table: TableInfo) -> list[IndexInfo]:
    """The indexes that reads may use. Excludes invisible indexes, even when hinted."""
    return [index for index in shown_indexes(table) if not index.is_invisible]


def shown_indexes(table: TableInfo) -> Iterator[IndexInfo]:
    """The public indexes, after the primary key if it is only a handle."""
    primary = table.index("PRIMARY")
    if table.pk_is_handle and primary is None:
        column = next(c for c in table.cols if c.type.Flag & Flag.PRI_KEY)
        part = IndexColumn(name=column.name, offset=column.offset, exuvia_column=column.id)
        yield IndexInfo(
            id=0,
            idx_name=name("PRIMARY"),
            idx_cols=(part,),
            is_unique=True,
            is_primary=True,
            exuvia_clustered=True,
        )
    yield from (index for index in table.indexes if index.state == SchemaState.PUBLIC)
