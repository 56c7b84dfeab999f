"""The operators that read one table, by the access path that a run with these constants takes.

    Points            Point_Get, Batch_Point_Get             handle:1
    KeyRange, all     TableReader over a Table..Scan         range:[1,5], keep order:false
    IndexRange        IndexLookUp: entries, then rows        no index is read without its rows
    MergePath         IndexMerge: several scans, then rows   type: union
    no range at all   TableDual                              rows:0

A key is not used if its constants are not bounds of it, because a run would not use it either. The
reads of a path (sql/statement/measure.py) are the steps of its operators.
"""

from collections.abc import Sequence
from typing import NamedTuple

from exuvia.base.types import STRINGS, TypeCode
from exuvia.catalog.model import ColumnInfo, IndexInfo
from exuvia.catalog.table import Table
from exuvia.sql.access.filtering import Filter
from exuvia.sql.access.paths import (
    Everywhere,
    IndexRange,
    Matched,
    MergePath,
    Path,
    Points,
    Throughout,
    UniquePoints,
)
from exuvia.sql.access.ranger import bounds, combinations, shown_ranges, shown_value
from exuvia.sql.schema.index_definition import part_bytes
from exuvia.sql.show.operators import ROOT, STORE, KeyOfOthers, Operator, lookup
from exuvia.sql.show.row_estimates import EQUAL, TableEstimate
from exuvia.sql.statement.context import Context
from exuvia.sql.statement.measure import Reads
from exuvia.sql.type_text import expression_of


def parts_of(path: Path, context: Context) -> Sequence[Table]:
    """The partitions that a path reads."""
    return path.choice.parts(context) if isinstance(path, Everywhere) else path.table.parts


def _is_inexact(path: Path, context: Context) -> bool:
    """Whether a constant is not a bound of the path's key, so that the path reads all rows."""
    if isinstance(path, Points | UniquePoints):
        return combinations(path.match, context) is None
    return isinstance(path, Matched) and bounds(path.match, context) is None


def taken_path(path: Path, context: Context) -> tuple[Path, bool]:
    """The path of the logical table that a run takes, and whether it finds no additional rows."""
    inner = path.path if isinstance(path, Everywhere) else path
    inner = inner.resolved(context)
    if _is_inexact(inner, context):
        return Path(inner.table, covers=False), False
    return inner, inner.covers


def is_unordered(path: Path, context: Context) -> bool:
    """Whether a run sorts although the path was chosen for its order."""
    inner = path.path if isinstance(path, Everywhere) else path
    if isinstance(path, Everywhere) and not isinstance(path, Throughout):
        return len(parts_of(path, context)) != 1 or _is_inexact(inner, context)
    resolved = inner.resolved(context)
    return resolved is not inner or _is_inexact(resolved, context)


class ScanOrder(NamedTuple):
    """The order in which a scan reads, and the title of its table."""

    title: str
    follows: bool = False
    reverse: bool = False
    top: str = ""


def filter_operators(
    filtering: Filter, path: Path, estimate: TableEstimate, context: Context
) -> tuple[Operator, Reads, bool]:
    """The operators of a path, its reads, and whether it finds no additional rows."""
    in_order = filtering.follows and not is_unordered(path, context)
    keeps = ScanOrder(filtering.source.alias, in_order, in_order and filtering.reverse)
    return path_operators(path, keeps, estimate, context)


_EVERY = "partition:all"


def path_operators(
    path: Path, keeps: ScanOrder, estimate: TableEstimate, context: Context
) -> tuple[Operator, Reads, bool]:
    """Same result as `filter_operators`, for a path and an order."""
    path = path.resolved(context)
    inner, exact = taken_path(path, context)
    rows, table = estimate.of_path(inner), inner.table
    place = f"partition:{path.choice.names(context)}" if isinstance(path, Everywhere) else ""
    title = f"table:{keeps.title}"
    pseudo = "stats:pseudo" if estimate.is_pseudo else ""
    order = f"keep order:{'true' if keeps.follows else 'false'}"
    order += ", desc" if keeps.reverse else ""

    def info_text(*parts: str) -> str:
        return ", ".join(part for part in (*parts, pseudo) if part)

    if isinstance(inner, Points | UniquePoints):
        return _point(inner, place, keeps, rows, context), Reads(), exact
    if isinstance(inner, MergePath):
        probe = Operator("TableRowIDScan", rows, STORE, title, info_text("keep order:false"))
        build, by_start, one = [], {}, max(1.0, estimate.rows * EQUAL)
        for index, spans, text in inner.scans(context) or ():
            info = info_text(f"range:{text()}", "keep order:false")
            by_rows = index.exuvia_clustered
            name = "TableRangeScan" if by_rows else "IndexRangeScan"
            access = title if by_rows else f"{title}, {_index(table, index)}"
            range_scan = Operator(name, one, STORE, access, info)
            build.append(_within(path, range_scan, context))
            by_start.update({span.start: range_scan.done for span in spans})
        top = lookup(Operator("IndexMerge", rows, ROOT, place, inner.kind), build, probe)
        return top, Reads(probe.done, None, by_start), exact
    ranges = shown_ranges(table, inner.match, context) if isinstance(inner, Matched) else []
    if isinstance(inner, Matched) and inner.match.used and not ranges:
        return Operator("TableDual", 0.0, info="rows:0"), Reads(), exact
    range_text = (
        f"range:{', '.join(ranges)}" if isinstance(inner, Matched) and inner.match.used else ""
    )
    if isinstance(inner, IndexRange):
        info = info_text(range_text, order)
        scan = Operator(inner.name, rows, STORE, f"{title}, {_index(table, inner.match.key)}", info)
        scan.key_length = _key_length(inner)
        entries = _within(path, scan, context)
        probe = Operator("TableRowIDScan", rows, STORE, title, info_text("keep order:false"))
        top = lookup(Operator("IndexLookUp", rows, ROOT, place), [entries], probe)
        return top, Reads(probe.done, scan.done), exact
    scan = Operator(inner.name, rows, STORE, title, info_text(range_text, order, keeps.top))
    scan.key_length = _key_length(inner) if range_text else None
    top = Operator("TableReader", rows, ROOT, place, below=[scan], data="data")
    return top, Reads(scan.done, None), exact


def _within(path: Path, scan: Operator, context: Context) -> Operator:
    """The scan of an index. For a global index a Selection drops entries of other partitions."""
    if not isinstance(path, Throughout):
        return scan
    ids = ", ".join(str(part.physical_id) for part in path.choice.parts(context)) or "dual"
    return Operator("Selection", scan.rows, info=f"in(_tidb_tid, {ids})", below=[scan])


def _point(
    path: Points | UniquePoints, place: str, keeps: ScanOrder, rows: float, context: Context
) -> Operator:
    table = path.table
    # the entry of a global index has the row's partition: no other is searched
    is_told = isinstance(path, UniquePoints) and path.match.key.is_global and place == _EVERY
    access = [f"table:{table.info.name.O}", "" if is_told else place]
    values = sorted(set(combinations(path.match, context) or ()))
    if not values:
        return Operator("TableDual", 0.0, info="rows:0")
    by_integer = isinstance(path, Points) and table.info.pk_is_handle
    if not by_integer:
        access.append(
            ("clustered " if isinstance(path, Points) else "") + _index(table, path.match.key)
        )
    is_batch = any(term.operator == "in" for term in path.match.equal)
    info = []
    if by_integer:
        kind = table.info.cols[path.match.positions[0]].type
        handles = " ".join(shown_value(row[0], kind) for row in values)
        info.append(f"handle:[{handles}]" if is_batch else f"handle:{handles}")
    if is_batch:
        order, desc = (str(flag).lower() for flag in (keeps.follows, keeps.reverse))
        info.append(f"keep order:{order}, desc:{desc}")
    name = "Batch_Point_Get" if is_batch else "Point_Get"
    operator = Operator(name, rows, ROOT, ", ".join(filter(None, access)), ", ".join(info))
    operator.key_length = _key_length(path)
    return operator


def _bytes_in_mysql(column: ColumnInfo, length: int) -> int:
    """Bytes of a part in MySQL's format. TiDB counts 8 for DATETIME and SET, and 2 for ENUM."""
    kind, members = column.type, len(column.type.Elems or ())
    if kind.Tp == TypeCode.ENUM:
        return 1 if members < 256 else 2
    if kind.Tp == TypeCode.SET:
        return 8 if members > 32 else max(1, (members + 7) // 8)
    if kind.Tp == TypeCode.DATETIME:
        return 5 + (max(kind.Decimal, 0) + 1) // 2
    return part_bytes(column, length)


def _key_length(path: Path) -> int | None:
    """Bytes of the key parts that a path uses; all parts if it reads the whole index.

    MySQL adds 1 to a part that may be NULL, and 2 to one of variable length."""
    if not isinstance(path, Matched):
        return None
    match = path.match
    depths = (len(side.equal) + bool(side.range) for side in match.any_of or (match,))
    used = max(depths) or len(match.positions)
    total = 0
    for position, part in zip(match.positions[:used], match.key.idx_cols, strict=False):
        column = path.table.info.cols[position]
        total += _bytes_in_mysql(column, part.length) + (not column.not_null)
        total += 2 * (column.type.Tp in STRINGS and column.type.Tp != TypeCode.STRING)
    return total


def _index(table: Table, index: IndexInfo) -> str:
    parts = [expression_of(table.info, part) or part.name.O for part in index.idx_cols]
    return f"index:{index.idx_name.O}({', '.join(parts)})"


class KeyedRead(NamedTuple):
    """A read by a key whose values come from other rows. `scan`: the operator with the range."""

    top: Operator
    scan: Operator
    reads: Reads


def keyed_operators(path: Path, title: str, estimate: TableEstimate, context: Context) -> KeyedRead:
    """The operators of a path that is opened for each row of other items; estimates are for one."""
    place = f"partition:{path.choice.names(context)}" if isinstance(path, Everywhere) else ""
    inner, table = path.path if isinstance(path, Everywhere) else path, f"table:{title}"
    assert isinstance(inner, Matched)
    info = ", ".join(filter(None, ("keep order:false", "stats:pseudo" * estimate.is_pseudo)))
    key, rows = inner.match.key, estimate.of_one_key(inner)
    if key.exuvia_clustered:
        scan = Operator("TableRangeScan", rows, STORE, table, info)
        top = Operator("TableReader", rows, ROOT, place, below=[scan], data="data")
        reads = Reads(scan.done, None)
    else:
        scan = Operator("IndexRangeScan", rows, STORE, f"{table}, {_index(inner.table, key)}", info)
        probe = Operator("TableRowIDScan", rows, STORE, table, info)
        top = lookup(Operator("IndexLookUp", rows, ROOT, place), [scan], probe)
        reads = Reads(probe.done, scan.done)
    scan.key_length = _key_length(inner)
    is_unique = inner.match.whole and (key.is_unique or key.exuvia_clustered)
    scan.key = KeyOfOthers(is_unique, "func", rows)
    return KeyedRead(top, scan, reads)
