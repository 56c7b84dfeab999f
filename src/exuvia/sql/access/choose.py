"""Which path a plan takes: the key that the WHERE narrows most, by rule or by statistics.

    1  every part of the clustered key        3  the longest run of equalities, and a range behind;
    2  every part of a unique index              among equals the clustered key
    4  nothing: all rows, or an index whose order saves a sort under a LIMIT

Where the table was analyzed, 3 is the key that keeps the smallest share of the rows:

    a = ?           1 / different values of a
    a IN (n of)     n / different values of a
    a > ?           a third; between two bounds a quarter

Plans are kept by shape, so a choice may not look at constants: an average value stands for all.
EXPLAIN estimates the ranges themselves (stats/estimate.py).

A partial index is taken where the WHERE implies its predicate (access/implied.py); what is taken
where a run's constants do not is chosen beside it. As in TiDB it is never read by points.

USE, FORCE and IGNORE INDEX leave only the indexes they name (or do not name); USE INDEX () leaves
the clustered key. So do the hints of comments and bindings, for which an index that is not there
is no error (parse/hints.py).

A multi-valued index serves no range and no order: it is read for the elements that a WHERE asks of
its array (access/members.py), where no key narrows the rows by a value.

How many rows a path reads, and whether it is worth its detour:

    a point                    1
    ranges of an analyzed key  by its statistics, constants included (stats/estimate.py)
    other ranges               a tenth of the table
    no key                     all rows

A row found by a key costs about ten times as much as one that is read with all others, column by
column, so a multi-table statement reads a table by a key that keeps at most a tenth of its rows.
Without statistics an equality is taken to be selective, and a range not to be; USE and FORCE INDEX
say that it is.
"""

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
from exuvia.sql.access.members import IndexMerge, MemberTerm, merged
from exuvia.sql.access.paths import (
    Everywhere,
    IndexRange,
    KeyRange,
    Matched,
    PartialRange,
    Path,
    Points,
    UniquePoints,
    has_equality,
)
from exuvia.sql.access.ranger import Match, Terms, match, spans
from exuvia.sql.bind.binding import Binding
from exuvia.sql.env import Execution
from exuvia.sql.parse import hints
from exuvia.stats import estimate, meta, records

# -- shares ----------------------------------------------------------------------------------------

ONE_SIDE, TWO_SIDES = 1 / 3, 1 / 4


class Shares:
    """Of one table in one snapshot; read when first asked for."""

    def __init__(self, txn: Transaction, table: Table) -> None:
        self._txn = txn
        self._table = table
        self._distinct: dict[int, int] | None = None
        self._nulls: dict[int, float] = {}

    def of(self, found: Match) -> float | None:
        """The share that a match keeps; None where nobody analyzed its columns."""
        if self._distinct is None:
            self._distinct = self._read()
        share = 1.0
        for term in found.equal:
            distinct = self._distinct.get(self._table.info.cols[term.position].id)
            if distinct is None:
                return None
            if term.asks_null:
                share *= self.nulls(term.position) or 1 / max(1, distinct)
                continue
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
    def asked(self) -> bool:
        """Whether anything was asked that statistics answer."""
        return self._distinct is not None

    def distinct(self, position: int) -> int | None:
        """How many different values a column has, if somebody analyzed it."""
        if self._distinct is None:
            self._distinct = self._read()
        return self._distinct.get(self._table.info.cols[position].id)

    def nulls(self, position: int) -> float | None:
        """The share of rows with NULL in a column, if somebody analyzed it."""
        if self._distinct is None:
            self._distinct = self._read()
        return self._nulls.get(self._table.info.cols[position].id)

    def _read(self) -> dict[int, int]:
        table_id = meta.whole_id(self._table)
        known = meta.get(self._txn, table_id)
        if known is None or known.analyzed_count is None:
            return {}
        found = records.heads(self._txn, table_id, 0)
        rows = max(1, known.analyzed_count)
        self._nulls = {e.hist_id: min(1.0, e.nulls / rows) for e in found if e.is_analyzed}
        return {each.hist_id: each.distinct for each in found if each.is_analyzed}


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
    """Whether to read by the key, and not all rows. A range of an index that USE or FORCE names is
    read whatever its size."""
    parts, inner = _apart(path, context)
    if isinstance(inner, IndexMerge):
        return True
    if path.short or not isinstance(inner, Matched) or not inner.match.used:
        return path.short or has_equality(path)
    if any(hint.this.upper() != "IGNORE" for hint in hints):
        return True
    known = rows_by_statistics(inner, parts, context)
    if known is None:
        return has_equality(path)
    return known * RANGE_SHARE <= rows_there(parts, context)


def _apart(path: Path, context: Execution) -> tuple[Sequence[Table], Path]:
    if isinstance(path, Everywhere):
        return path.choice.parts(context), path.path
    return path.table.parts, path.resolved(context)


def rows_by_statistics(path: Matched, parts: Sequence[Table], context: Execution) -> float | None:
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


# -- the choice ------------------------------------------------------------------------------------


def index_hints(tree: exp.Table, table: Table, binding: Binding) -> tuple[exp.IndexTableHint, ...]:
    """The hints of a table in FROM. Of one from a comment only the indexes that are there: others
    are a warning, and nothing is left of one that names no other."""
    found = []
    for hint in tree.args.get("hints") or ():
        if not isinstance(hint, exp.IndexTableHint):
            continue
        told = hint.meta.get(hints.LENIENT)
        if told is None or not hint.expressions:
            found.append(hint)
            continue
        names = {index.idx_name.L for index in _visible_indexes(table.info)}
        there = [each for each in hint.expressions if each.name.lower() in names]
        for each in hint.expressions if told == hints.WARNED else ():
            if each not in there:
                error = ErrKeyDoesNotExist(each.name, table.info.name.O)
                binding.note(error.code, error.message)
        if there:
            copies = [walks.copy(each) for each in there]
            found.append(exp.IndexTableHint(this=hint.name, expressions=copies))
    return tuple(found)


class WantedOrder(NamedTuple):
    """An order asked for: positions, all ascending or all descending.

    `limited`: only the first rows."""

    positions: tuple[int, ...] = ()
    descending: bool = False
    limited: bool = False


def choose(
    table: Table,
    terms: Terms,
    hinted: Sequence[exp.IndexTableHint],
    wanted: WantedOrder,
    shares: Shares | None = None,
    members: Sequence[MemberTerm] = (),
) -> Path:
    """The path for a WHERE; `members`: what it asks of arrays. Raises 1176 for a hint that names no
    index."""
    indexes = _visible_indexes(table.info)
    only: set[str] = set()
    never: set[str] = set()
    restricted = False
    for hint in hinted:
        names = {each.name.lower() for each in hint.expressions}
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
    best = _ordinary(table, terms, indexes, wanted, bool(hinted), shares)
    if best.short or has_equality(best):
        return best
    arrays = (index for index in indexes if index.is_multi_valued)
    return merged(table, list(arrays), terms, members, best) or best


_PLAIN = (Path, Points, UniquePoints, KeyRange, IndexRange)


def chosen_again(path: Path, table: Table, terms: Terms, wanted: WantedOrder) -> Path | None:
    """The path for this revision of the table, if it reads as `path` does, otherwise None.

    The revision may have other secondary indexes. None, too, if statistics would have to decide.
    `path` was chosen for these terms without hints."""
    if type(path) not in _PLAIN:
        return None
    shares = NoShares(table)
    made = choose(table, terms, (), wanted, shares)
    facts = type(path), path.name, path.index, path.covers
    if shares.asked or facts != (type(made), made.name, made.index, made.covers):
        return None
    made.used = path.used
    return made


def _ordinary(
    table: Table,
    terms: Terms,
    indexes: Sequence[IndexInfo],
    wanted: WantedOrder,
    hinted: bool,
    shares: Shares | None,
) -> Path:
    whole = [index for index in indexes if index.holds_every_row]
    best = _chosen(table, terms, whole, wanted, hinted, shares)
    indexes = [index for index in indexes if not index.is_multi_valued]
    if len(whole) == len(indexes):
        return best
    able = [index for index in indexes if may_imply(table, index, terms)]
    taken = _chosen(table, terms, able, wanted, hinted, shares)
    if not isinstance(taken, IndexRange) or not taken.match.key.is_partial:
        return best
    return PartialRange(taken, (*terms.usable, *terms.others), best)


def _chosen(
    table: Table,
    terms: Terms,
    indexes: Sequence[IndexInfo],
    wanted: WantedOrder,
    hinted: bool,
    shares: Shares | None,
) -> Path:
    matches = [match(table, index, positions_of(table, index), terms) for index in indexes]
    used = [found for found in matches if found.used]
    if not hinted:
        used = [found for found in used if not _is_mostly_null(found, shares)]
    if used:
        best = _best(used, shares)
        return _path(table, best, best.covers(table, terms))
    covers = terms.conjuncts == 0
    if wanted.positions and (wanted.limited or hinted) and not follows(Path(table, False), wanted):
        for found in matches:
            path = IndexRange(table, found, covers)
            if not found.key.exuvia_clustered and follows(path, wanted):
                path.name = "IndexFullScan"
                return path
    return Path(table, covers)


def _is_mostly_null(found: Match, shares: Shares | None) -> bool:
    """Whether only IS NULL is asked, and it keeps many rows: those are read faster all at once."""
    if shares is None or found.range or not all(term.asks_null for term in found.equal):
        return False
    known = [shares.nulls(term.position) for term in found.equal]
    return all(share is not None and share * RANGE_SHARE > 1 for share in known)


def _best(used: list[Match], shares: Shares | None) -> Match:
    """By the rule; among ranges the one that keeps the smallest share, where that is known."""
    best = max(used, key=_rank)
    if shares is None or len(used) < 2 or _rank(best)[0]:
        return best
    known = [shares.of(each) for each in used]
    if None in known:
        return best
    pairs = [(-(share or 0.0), each) for share, each in zip(known, used, strict=True)]
    return max(pairs, key=lambda pair: (pair[0], _rank(pair[1])))[1]


def positions_of(table: Table, index: IndexInfo) -> tuple[int, ...]:
    """Positions of the columns of an index, in its order."""
    return table.handle_positions if index.exuvia_clustered else tuple(table.form(index).positions)


def _rank(found: Match) -> tuple[int, int, int, int]:
    clustered = found.key.exuvia_clustered
    unique = found.key.is_unique and not any(found.prefixed) and not found.key.is_partial
    point = 2 if found.whole and clustered else 1 if found.whole and unique else 0
    return point, len(found.equal), len(found.range), int(clustered)


def _path(table: Table, found: Match, covers: bool) -> Path:
    if found.key.exuvia_clustered:
        return Points(table, found, covers) if found.whole else KeyRange(table, found, covers)
    if found.whole and found.key.is_unique and not found.key.is_partial:
        return UniquePoints(table, found, covers)
    return IndexRange(table, found, covers)


def follows(path: Path, wanted: WantedOrder) -> bool:
    """Whether the path's own order is the one asked for."""
    if isinstance(path, Points) and path.name == "Point_Get":
        return True
    asked = [position for position in wanted.positions if position not in path.fixed]
    given = [position for position in path.order if position not in path.fixed]
    return given[: len(asked)] == asked


def _visible_indexes(table: TableInfo) -> list[IndexInfo]:
    """Those a read may take. An invisible one is none that a hint could name."""
    return [index for index in shown_indexes(table) if not index.is_invisible]


def shown_indexes(table: TableInfo) -> Iterator[IndexInfo]:
    """Public indexes, before them the primary key that is only a handle."""
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
