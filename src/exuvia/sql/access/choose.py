"""Which path a plan takes: the key that the WHERE narrows most, by rule or by statistics.

    1  every part of the clustered key        3  the longest run of equalities, and a range behind;
    2  every part of a unique index              among equals the clustered key
    4  nothing: all rows, or an index whose order saves a sort under a LIMIT

Where the table was analyzed, 3 is the key that keeps the smallest share (access/selectivity.py).

USE, FORCE and IGNORE INDEX leave only the indexes they name (or do not name).
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sqlglot import exp

from exuvia.base.mysql_errors import ErrKeyDoesNotExist
from exuvia.base.types import Flag
from exuvia.catalog.model import IndexColumn, IndexInfo, TableInfo, name
from exuvia.catalog.state import SchemaState
from exuvia.catalog.table import Table
from exuvia.sql.access.paths import IndexRange, KeyRange, Path, Points, UniquePoints
from exuvia.sql.access.ranger import Match, Terms, match
from exuvia.sql.access.selectivity import Shares


class WantedOrder(NamedTuple):
    """An order asked for: positions, all ascending or all descending.

    `limited`: only the first rows."""

    positions: tuple[int, ...] = ()
    descending: bool = False
    limited: bool = False


def choose(
    table: Table,
    terms: Terms,
    hints: Sequence[exp.IndexTableHint],
    wanted: WantedOrder,
    shares: Shares | None = None,
) -> Path:
    """The path for a WHERE. Raises 1176 for a hint that names no index."""
    indexes = _allowed(table, hints)
    matches = [match(table, index, _positions(table, index), terms) for index in indexes]
    used = [found for found in matches if found.used and not found.key.is_invisible]
    if used:
        best = _best(used, shares)
        return _path(table, best, best.covers(table, terms))
    covers = terms.conjuncts == 0
    if wanted.positions and (wanted.limited or hints) and not _handle_follows(table, wanted):
        for found in matches:
            path = IndexRange(table, found, covers)
            if not found.key.exuvia_clustered and follows(path, wanted):
                path.name = "IndexFullScan"
                return path
    return Path(table, covers)


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


def _positions(table: Table, index: IndexInfo) -> tuple[int, ...]:
    return table.handle_positions if index.exuvia_clustered else tuple(table.form(index).positions)


def _allowed(table: Table, hints: Sequence[exp.IndexTableHint]) -> list[IndexInfo]:
    indexes = list(shown_indexes(table.info))
    only: set[str] = set()
    never: set[str] = set()
    for hint in hints:
        names = {each.name.lower() for each in hint.expressions}
        for unknown in names - {index.idx_name.L for index in indexes}:
            raise ErrKeyDoesNotExist(unknown, table.info.name.O)
        if hint.name.upper() == "IGNORE":
            never |= names
        else:
            only |= names
    if only:
        indexes = [index for index in indexes if index.idx_name.L in only]
    return [index for index in indexes if index.idx_name.L not in never]


def _rank(found: Match) -> tuple[int, int, int, int]:
    clustered = found.key.exuvia_clustered
    unique = found.key.is_unique and not any(found.prefixed)
    point = 2 if found.whole and clustered else 1 if found.whole and unique else 0
    return point, len(found.equal), len(found.range), int(clustered)


def _path(table: Table, found: Match, covers: bool) -> Path:
    if found.key.exuvia_clustered:
        return Points(table, found, covers) if found.whole else KeyRange(table, found, covers)
    if found.whole and found.key.is_unique:
        return UniquePoints(table, found, covers)
    return IndexRange(table, found, covers)


def _handle_follows(table: Table, wanted: WantedOrder) -> bool:
    return follows(Path(table, False), wanted)


def follows(path: Path, wanted: WantedOrder) -> bool:
    """Whether the path's own order is the one asked for."""
    if isinstance(path, Points) and path.name == "Point_Get":
        return True
    asked = [position for position in wanted.positions if position not in path.fixed]
    given = [position for position in path.order if position not in path.fixed]
    return given[: len(asked)] == asked


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
