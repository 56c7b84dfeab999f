"""Access paths to the rows of one table: by key if the WHERE allows it, else a scan of all rows.

    Points       equalities on every part of the handle   get the rows        a = 1 AND b IN (2, 3)
    UniquePoints equalities on all of a unique index      entry, then row
    KeyRange     a range of the clustered key             scan rows
    IndexRange   a range of an index                      scan entries, get rows
    PartialRange a range of a partial index               or another path, by the run's constants
    MergedRanges ranges of several keys                   scan entries, sort handles, get rows
    Path         no usable key                            scan all rows

A path is chosen once per plan, from the shape alone. Its bounds are computed at each run. Only
PUBLIC indexes are read. A path returns every row that matches the WHERE, and maybe others:
`PathRows.covered` is true if it returns only matching rows. `PathRows.rows` reads a snapshot: do
not write to the table during the iteration.

The path of a partitioned table is that path in each partition that the WHERE leaves.

    Everywhere(path, choice).open -> one partition: its rows in the path's order
                                     several: one partition after another, without order
    Throughout(path, choice).open -> by a global index: rows of all partitions in its order, without
                                     those of partitions that are not read
    Alternatives(path, choice)    -> either of them, for an EitherPath

Above the catalog, the handle of a row in a partitioned table begins with its partition's id
(catalog/table.py, `row_key`).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from functools import partial
from itertools import chain, islice
from typing import NamedTuple, Self

from exuvia.base.mysql_errors import ErrPartitionClauseOnNonpartitioned
from exuvia.base.types import Family
from exuvia.catalog import reader
from exuvia.catalog.codec import key_codec
from exuvia.catalog.model import IndexInfo
from exuvia.catalog.table import PART_BYTES, Table
from exuvia.kv import keys
from exuvia.kv.packet import Span, is_live
from exuvia.sql.access.implied import is_implied
from exuvia.sql.access.pruning import PartitionChoice
from exuvia.sql.access.ranger import (
    INEXACT,
    NOTHING,
    Match,
    Term,
    Terms,
    Values,
    combinations,
    shown_ranges,
    spans,
)
from exuvia.sql.env import Execution
from exuvia.sql.result import Row
from exuvia.sql.statement.measure import MeasuredStep, Reads, Watch

Rows = Iterator[tuple[bytes, Row]]


class PathRows(NamedTuple):
    """An opened path.

    `keys` were read one by one, also for missing rows: keys of rows, and of entries of a unique
    index. `ordered`: the rows are in the path's order."""

    rows: Rows
    covered: bool
    keys: tuple[bytes, ...] = ()
    ordered: bool = True


class Path:
    """A scan of all rows, and the base class. `name` is for EXPLAIN, `index` is the key it uses."""

    name = "TableFullScan"
    short = False
    index: IndexInfo | None = None
    bounded = False
    """Whether the range has bounds on both sides, so that it may be short."""
    narrows = False
    """Whether a condition on a key limits the rows that it reads."""
    used: tuple[int, ...] | None = None
    """Positions of the columns to decode; None means all."""

    def __init__(self, table: Table, covers: bool) -> None:
        self.table = table
        self.covers = covers

    def open(self, context: Execution, reverse: bool = False) -> PathRows:
        """All rows, ordered by handle."""
        return PathRows(self._all(context, reverse), self.covers)

    def _all(self, context: Execution, reverse: bool) -> Rows:
        return reader.scan(context.txn, self.table, None, reverse, self.used)

    def few(self, context: Execution, most: int) -> Iterable[bytes] | None:
        """The payloads of the rows in the path's order, if the path is exact, without handles.

        None if only `open` can be used, or for more than `most` rows."""
        return None

    def count(self, context: Execution, most: int = -1) -> int | None:
        """The number of rows as by reader.count; None if it is unknown without reading."""
        return reader.count(context.txn, self.table, most)

    def on(self, table: Table) -> Self:
        """The same path in another revision of its table that `reads_as` it."""
        path = copy(self)
        path.table = table
        return path

    def everything(self, context: Execution, reverse: bool) -> PathRows:
        """All rows, without order: used if a constant is no exact bound."""
        return PathRows(self._all(context, reverse), covered=False, ordered=False)

    def resolved(self, context: Execution) -> "Path":
        """The path used by a run with these constants."""
        return self

    @property
    def order(self) -> tuple[int, ...]:
        """Positions in whose ascending order the rows are, as far as handles store whole values."""
        form, lengths = self.table.handle_form, self.table.handle_lengths
        if form is None:
            return self.table.handle_positions
        return self.table.handle_positions[: _whole_parts(lengths)] if form.exact else ()

    @property
    def fixed(self) -> frozenset[int]:
        """Positions that have the same value in all rows of the path."""
        return frozenset()


def _whole_parts(lengths: Sequence[int]) -> int:
    """The number of leading parts that are not prefixes."""
    return next((n for n, length in enumerate(lengths) if length >= 0), len(lengths))


class Matched(Path):
    """A path by a key."""

    def __init__(self, table: Table, match: Match, covers: bool) -> None:
        super().__init__(table, covers)
        self.match = match
        self.index = match.key
        self.narrows = match.used

    def count(self, context: Execution, most: int = -1) -> int | None:
        return None

    @property
    def order(self) -> tuple[int, ...]:
        """The key's parts, as far as they are ordered by value."""
        if not key_codec.is_exact(self.table, self.match.key):
            return ()
        lengths = [part.length for part in self.match.key.idx_cols]
        return self.match.positions[: _whole_parts(lengths)]

    within: frozenset[bytes] | None = None
    """For a global index: the partitions to read, as prefixes of handles.

    The index may have entries of other partitions: of those being dropped, and of those that only
    later plans read."""

    def is_exact(self, context: Execution) -> bool:
        """Whether the constants of a run are exact bounds of the key."""
        return spans(self.table, self.match, context) is not None

    @property
    def fixed(self) -> frozenset[int]:
        """Positions with a single equality."""
        return frozenset(term.position for term in self.match.equal if term.operator != "in")


class Points(Matched):
    """Reads rows by their whole handle."""

    name = "Point_Get"
    short = True

    def __init__(self, table: Table, match: Match, covers: bool) -> None:
        super().__init__(table, match, covers)
        first = match.equal[0]
        self._bound = match.equals[0]
        self._single = first.constants[0] if table.info.pk_is_handle else None
        if any(term.operator == "in" for term in match.equal):
            self.name, self._single = "Batch_Point_Get", None

    def open(self, context: Execution, reverse: bool = False) -> PathRows:
        """The rows with the handles of this run."""
        table = self.table
        if self._single is not None:
            value = self._bound(self._single(context))
            if value is INEXACT:
                return self.everything(context, reverse)
            handles = [] if value is NOTHING else [key_codec.handle_from(table, (value,))]
        else:
            rows = combinations(self.match, context)
            if rows is None:
                return self.everything(context, reverse)
            return self.of(rows, context, reverse)
        return self._rows_of(handles, context)

    def of(self, rows: Sequence[Values], context: Execution, reverse: bool = False) -> PathRows:
        """The existing rows with these handles."""
        handles = {key_codec.handle_from(self.table, values) for values in rows}
        return self._rows_of(sorted(handles, reverse=reverse), context)

    def _rows_of(self, handles: list[bytes], context: Execution) -> PathRows:
        prefix = self.table.row_prefix
        return PathRows(
            self._rows(context, handles),
            self.covers,
            tuple([prefix + handle for handle in handles]),
        )

    def few(self, context: Execution, most: int) -> Iterable[bytes] | None:
        if self._single is None or not self.covers:
            return None
        value = self._bound(self._single(context))
        if value is INEXACT:
            return None
        if value is NOTHING:
            return []
        table = self.table
        handle = key_codec.handle_from(table, (value,))
        payload = context.txn.get(table.row_prefix + handle)
        return [] if payload is None else [payload]

    def _rows(self, context: Execution, handles: list[bytes]) -> Rows:
        get, prefix = context.txn.get, self.table.row_prefix
        decode = self.table.decoding(self.used)
        for handle in handles:
            payload = get(prefix + handle)
            if payload is not None:
                yield handle, decode(payload)


class UniquePoints(Matched):
    """Reads rows by all values of a unique index."""

    name = "Point_Get"
    short = True

    def is_exact(self, context: Execution) -> bool:
        return combinations(self.match, context) is not None

    def open(self, context: Execution, reverse: bool = False) -> PathRows:
        """The rows of the entries with the keys of this run."""
        rows = combinations(self.match, context)
        if rows is None:
            return self.everything(context, reverse)
        key_set = {key_codec.unique_key(self.table, self.match.key, values) for values in rows}
        points = sorted(key_set, reverse=reverse)
        return PathRows(self._rows(context, points), self.covers, tuple(points))

    def _rows(self, context: Execution, points: list[bytes]) -> Rows:
        txn, table, within = context.txn, self.table, self.within
        form, decode = table.form(self.match.key), table.decoding(self.used)
        for key in points:
            for handle in reader.unique_handles(txn, table, form, key):
                if within is not None and handle[:PART_BYTES] not in within:
                    continue
                payload = txn.get(table.row_key(handle))
                if payload is not None:
                    yield handle, decode(payload)


BOTH_ENDS = 2
NARROW = 4096
"""The largest number of characters of a row that counts as quick to read."""


def _is_narrow(table: Table) -> bool:
    widths = [
        column.type.Flen
        for column in table.info.cols
        if column.type.family in (Family.STRING, Family.BYTES, Family.JSON)
    ]
    return all(width >= 0 for width in widths) and sum(widths) <= NARROW


class KeyRange(Matched):
    """Reads rows by a range of the clustered key."""

    name = "TableRangeScan"

    def __init__(self, table: Table, match: Match, covers: bool) -> None:
        super().__init__(table, match, covers)
        self.bounded = len(match.range) == BOTH_ENDS and _is_narrow(table)

    def open(self, context: Execution, reverse: bool = False) -> PathRows:
        """The rows of all ranges."""
        ranges = spans(self.table, self.match, context)
        if ranges is None:
            return self.everything(context, reverse)
        return PathRows(
            self._rows(context, ranges[::-1] if reverse else ranges, reverse), self.covers
        )

    def few(self, context: Execution, most: int) -> Iterable[bytes] | None:
        ranges = spans(self.table, self.match, context) if self.covers else None
        if ranges is None or len(ranges) > 1:
            return None
        return context.txn.few(ranges[0], most) if ranges else []

    def _rows(self, context: Execution, ranges: list[Span], reverse: bool) -> Rows:
        txn, table, used = context.txn, self.table, self.used
        if len(ranges) == 1:
            return reader.scan(txn, table, ranges[0], reverse, used)
        return chain.from_iterable(reader.scan(txn, table, span, reverse, used) for span in ranges)


class IndexRange(Matched):
    """Reads rows by a range of an index; without any term, all rows in the index's order."""

    name = "IndexRangeScan"

    def open(self, context: Execution, reverse: bool = False) -> PathRows:
        """The rows of the entries in all ranges."""
        ranges = spans(self.table, self.match, context)
        if ranges is None:
            return self.everything(context, reverse)
        return PathRows(
            self._rows(context, ranges[::-1] if reverse else ranges, reverse), self.covers
        )

    def _rows(self, context: Execution, ranges: list[Span], reverse: bool) -> Rows:
        txn, table, within = context.txn, self.table, self.within
        form, decode = table.form(self.match.key), table.decoding(self.used)
        for span in ranges:
            for key, payload in reader.entries(txn, table, form, span, reverse):
                if not is_live(payload):
                    continue
                handle = payload[1:] or key[form.keys.decode(key, keys.VALUES_AT)[1] :]
                if within is not None and handle[:PART_BYTES] not in within:
                    continue
                row_payload = txn.get(table.row_key(handle))
                if row_payload is not None:
                    yield handle, decode(row_payload)


class EitherPath(Path, ABC):
    """A path that is replaced by another one if the constants of a run do not allow it."""

    within: frozenset[bytes] | None = None
    """As in Matched."""

    def __init__(self, table: Table, other: Path) -> None:
        super().__init__(table, covers=False)
        self._other = other

    @abstractmethod
    def is_exact(self, context: Execution) -> bool:
        """Whether the constants of a run allow this path."""

    def instead(self) -> Path:
        """The other path, for the same table or partition and the same columns."""
        other = copy(self._other)
        other.table, other.used = self.table, self.used
        return other

    def resolved(self, context: Execution) -> Path:
        """The path that a run uses."""
        return self if self.is_exact(context) else self.instead().resolved(context)


class PartialRange(IndexRange):
    """A range of a partial index, if the constants of a run imply its predicate; else another path.

    Partitioned tables have no partial indexes."""

    def __init__(self, path: IndexRange, terms: tuple[Term, ...], other: Path) -> None:
        super().__init__(path.table, path.match, path.covers)
        self.name = path.name
        self._terms = terms
        self._other = other

    def on(self, table: Table) -> Self:
        path = super().on(table)
        path._other = self._other.on(table)
        return path

    def resolved(self, context: Execution) -> Path:
        """The path that a run uses."""
        predicate = self.table.form(self.match.key).predicate
        assert predicate is not None, "a partial index has a predicate"
        if is_implied(predicate, self._terms, context):
            return self
        other = copy(self._other)
        other.used = self.used
        return other

    def open(self, context: Execution, reverse: bool = False) -> PathRows:
        """The rows of the entries in all ranges, or those of the other path in its order."""
        path = self.resolved(context)
        if path is self:
            return super().open(context, reverse)
        return path.open(context)._replace(ordered=False)


_HANDLES = 4096
_HANDLE_BYTES = 120
"""The size of a short handle in a set and a list."""


class MergeScan(NamedTuple):
    """One of the scans of a MergePath. `text` returns its ranges as in EXPLAIN."""

    key: IndexInfo
    spans: list[Span]
    text: Callable[[], str]


class MergePath(EitherPath, ABC):
    """Reads rows by the entries of several scans, each row once. TiDB's IndexMerge.

    Another path is used if a constant of a run is no exact bound."""

    name = "IndexMerge"
    narrows = True
    kind = "type: union"

    def count(self, context: Execution, most: int = -1) -> int | None:
        return None

    @property
    def order(self) -> tuple[int, ...]:
        """(): rows are in the order of their handles."""
        return ()

    @abstractmethod
    def scans(self, context: Execution) -> list[MergeScan] | None:
        """The scans of a run; None if another path has to be used."""

    def is_exact(self, context: Execution) -> bool:
        """Whether the constants of a run allow this path."""
        return self.scans(context) is not None

    def open(self, context: Execution, reverse: bool = False) -> PathRows:
        """The rows of the scanned entries."""
        scans = self.scans(context)
        if scans is None:
            return self.resolved(context).open(context)._replace(ordered=False)
        handles = [self._handles(context, scan) for scan in scans]
        join = set.union if "union" in self.kind else set.intersection
        return PathRows(self._read(context, sorted(join(*handles))), covered=False, ordered=False)

    def _handles(self, context: Execution, scan: MergeScan) -> set[bytes]:
        handles, scanned = set[bytes](), self._scanned(context, scan)
        while batch := list(islice(scanned, _HANDLES)):
            number = len(handles)
            handles.update(batch)
            context.tracker.keep((len(handles) - number) * _HANDLE_BYTES)
        return handles

    def _scanned(self, context: Execution, scan: MergeScan) -> Iterator[bytes]:
        txn, table, within = context.txn, self.table, self.within
        if scan.key.exuvia_clustered:
            columns = table.handle_positions
            for span in scan.spans:
                yield from (row[0] for row in reader.scan(txn, table, span, False, columns))
            return
        form = table.form(scan.key)
        for key, payload in chain.from_iterable(
            reader.entries(txn, table, form, span) for span in scan.spans
        ):
            handle = reader.handle_of_entry(form, key, payload)
            if is_live(payload) and (within is None or handle[:PART_BYTES] in within):
                yield handle

    def _read(self, context: Execution, handles: list[bytes]) -> Rows:
        get, row_key = context.txn.get, self.table.row_key
        decode = self.table.decoding(self.used)
        for handle in handles:
            payload = get(row_key(handle))
            if payload is not None:
                yield handle, decode(payload)


class MergedRanges(MergePath):
    """Reads rows by ranges of several keys: of one for each side of an OR."""

    def __init__(self, table: Table, matches: Sequence[Match], other: Path) -> None:
        super().__init__(table, other)
        self.matches = tuple(matches)

    def scans(self, context: Execution) -> list[MergeScan] | None:
        """A scan for each side; None if a constant is no exact bound."""
        scans = []
        for matched in self.matches:
            ranges = spans(self.table, matched, context)
            if ranges is None:
                return None
            scans.append(MergeScan(matched.key, ranges, partial(self._text, matched, context)))
        return scans

    def _text(self, matched: Match, context: Execution) -> str:
        return ", ".join(shown_ranges(self.table, matched, context))


def watched_path(path: Path, watch: Watch, read: MeasuredStep, reads: Reads) -> Path:
    """The same path; the watch measures its rows and its reads."""

    def opened(context: Execution, reverse: bool = False) -> PathRows:
        own = copy(context)
        own.txn = watch.reading(context.txn, reads)
        with watch.within(read):
            path_rows = path.open(own, reverse)
        return path_rows._replace(rows=watch.rows(read, path_rows.rows))

    measured = copy(path)
    vars(measured)["open"] = opened
    return measured


# -- partitioned tables ----------------------------------------------------------------------------

MOST_SHORT = 16


class Everywhere(Path):
    """A path in each partition. `path` is the path of the logical table and is never opened."""

    def __init__(self, path: Path, choice: PartitionChoice) -> None:
        super().__init__(path.table, path.covers)
        self.path = path
        self.choice = choice
        self.name = path.name
        self.index = path.index
        self.narrows = path.narrows
        self.short = path.short and choice.route.number <= MOST_SHORT
        self._paths: dict[int, Path] = {}

    @property
    def order(self) -> tuple[int, ...]:
        """The order of the path."""
        return self.path.order

    @property
    def fixed(self) -> frozenset[int]:
        """The fixed positions of the path."""
        return self.path.fixed

    def open(self, context: Execution, reverse: bool = False) -> PathRows:
        """The rows of all remaining partitions."""
        parts = self.choice.parts(context)
        handles = self._by_part(context) if len(parts) > 1 else None
        if handles is None:
            opened = [self._in(part).open(context, reverse) for part in parts]
        else:
            parts = tuple(part for part in parts if part.physical_id in handles)
            opened = []
            for part in parts:
                points = self._in(part)
                assert isinstance(points, Points)
                opened.append(points.of(handles[part.physical_id], context, reverse))
        read_keys = tuple(key for rows in opened for key in rows.keys)
        covered = all(rows.covered for rows in opened)
        ordered = len(opened) == 1 and opened[0].ordered
        return PathRows(_chained(parts, opened), covered, read_keys, ordered)

    def _by_part(self, context: Execution) -> dict[int, list[Values]] | None:
        """Handles by partition, so that each handle is read only in its own partition.

        None if the condition is not a list of handles."""
        path = self.path
        if type(path) is not Points or path.match.positions != path.table.handle_positions:
            return None
        rows = combinations(path.match, context)
        return None if rows is None else self.choice.by_part(path.match.positions, rows)

    def count(self, context: Execution, most: int = -1) -> int | None:
        total = 0
        for part in self.choice.parts(context):
            rows = self._in(part).count(context, most)
            if rows is None:
                return None
            total += rows
            if 0 <= most < total:
                break
        return total

    def _in(self, part: Table) -> Path:
        path = self._paths.get(part.physical_id)
        if path is None:
            path = copy(self.path)
            path.table = part
            self._paths[part.physical_id] = path
        return path


class Throughout(Everywhere):
    """A path by a global index of the logical table."""

    def __init__(self, path: Matched | EitherPath, choice: PartitionChoice) -> None:
        super().__init__(path, choice)
        self._by = path
        self.short = path.short

    def open(self, context: Execution, reverse: bool = False) -> PathRows:
        """The rows of the remaining partitions, from one scan of the index.

        If a constant is no exact bound: all rows of each partition."""
        if not self._by.is_exact(context):
            return super().open(context, reverse)
        path = copy(self._by)
        path.within = frozenset(keys.u64(part.physical_id) for part in self.choice.parts(context))
        return path.open(context, reverse)


class Alternatives(Everywhere):
    """The path of an EitherPath on a partitioned table.

    Each of its two paths reads the partitions in its own way: only one may use a global index."""

    def __init__(self, path: EitherPath, choice: PartitionChoice) -> None:
        super().__init__(path, choice)
        self._either = path
        is_global = path.index is not None and path.index.is_global
        self._first = (Throughout if is_global else Everywhere)(path, choice)

    def open(self, context: Execution, reverse: bool = False) -> PathRows:
        """The rows of the path that the run uses."""
        return self.resolved(context).open(context)._replace(ordered=False)

    def resolved(self, context: Execution) -> Path:
        """The path that the run uses, over the partitions."""
        if self._either.is_exact(context):
            return self._first
        return over_partitions(self._either.instead(), self.choice).resolved(context)


def over_partitions(path: Path, choice: PartitionChoice) -> Everywhere:
    """The path over the partitions of a table; `path` is the path of the logical table."""
    if isinstance(path, EitherPath):
        return Alternatives(path, choice)
    if isinstance(path, Matched) and path.match.key.is_global:
        return Throughout(path, choice)
    return Everywhere(path, choice)


def _chained(parts: Sequence[Table], opened: Sequence[PathRows]) -> Rows:
    for part, path_rows in zip(parts, opened, strict=True):
        physical = keys.u64(part.physical_id)
        for handle, row in path_rows.rows:
            yield physical + handle, row


def in_partitions(path: Path, terms: Terms, named: Sequence[str]) -> Path:
    """The path of a table, partitioned or not. Raises 1735, 1747."""
    if not path.table.is_partitioned:
        if named:
            raise ErrPartitionClauseOnNonpartitioned()
        return path
    return over_partitions(path, PartitionChoice(path.table, terms, named))


def has_equality(path: Path) -> bool:
    """Whether a key narrows the rows by an equality."""
    inner = path.path if isinstance(path, Everywhere) else path
    match = getattr(inner, "match", None)
    return match is not None and match.has_equality
