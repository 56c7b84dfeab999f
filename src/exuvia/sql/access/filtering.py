"""Filtered rows of one table, in the requested order and within LIMIT.

    path (access/paths.py) -> evaluate conditions that it does not cover -> sort, if needed -> LIMIT

Shared by SELECT, UPDATE and DELETE of one table.
"""

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from functools import partial
from itertools import chain, islice
from sys import getsizeof, maxsize
from typing import NamedTuple, Self, TypeVar

from sqlglot import exp

from exuvia.base import interruption
from exuvia.base.errors import WouldWait
from exuvia.base.memory import LONG, Tracker
from exuvia.base.mysql_errors import ErrUpdateWithoutKeyInSafeMode, ErrWrongArguments
from exuvia.base.types import Family, Value
from exuvia.catalog.codec.row_codec import Select
from exuvia.catalog.table import Table
from exuvia.sql import expressions
from exuvia.sql.access.choose import Shares, WantedOrder, choose, chosen_again, follows
from exuvia.sql.access.members import member_terms
from exuvia.sql.access.paths import Path, PathRows, in_partitions, watched_path
from exuvia.sql.access.ranger import Terms, expressions_of, terms_of
from exuvia.sql.access.single_table import TableSource
from exuvia.sql.bind.binding import Binding
from exuvia.sql.bind.scope import is_shifted
from exuvia.sql.env import Execution
from exuvia.sql.expressions import Compiled, ConstantOf, comparable, constant_of
from exuvia.sql.nodes import Tree
from exuvia.sql.parse.syntax_error import Misplaced
from exuvia.sql.result import Row
from exuvia.sql.statement.measure import MeasuredStep, Reads, Watch
from exuvia.sql.statement.plan import KeptTablePlan

_TEXTS = (Family.STRING, Family.BYTES, Family.JSON)
Pairs = Iterator[tuple[bytes, Row]]
FEW_LONG_ROWS = 32
"""The number of rows read at a time if they may have some megabytes each."""
SHORT_BYTES = 1 << 20
LOOK_ROWS, LOOK_BYTES = 512, 32 << 20
"""The limits of the first read. Only if there are more rows, the path's number of rows is used."""


class SortKey(NamedTuple):
    """One part of ORDER BY. `position` is set for a plain column."""

    compiled: Compiled
    descending: bool
    position: int | None


class Limit(NamedTuple):
    """LIMIT [offset,] count, each a constant or `?`."""

    count: ConstantOf
    offset: ConstantOf | None

    def bounds(self, context: Execution) -> tuple[int, int]:
        """(first row, row after the last). Raises 1064 if a bound is not a whole number."""
        first = 0 if self.offset is None else whole(self.offset(context))
        return min(first, maxsize), min(first + whole(self.count(context)), maxsize)


def whole(value: Value) -> int:
    """A row count. Raises 1210 if a parameter is not a row count."""
    if not isinstance(value, int) or value < 0:
        raise ErrWrongArguments("LIMIT")
    return value


def limit_of(limit: Tree | None, offset: Tree | None) -> Limit | None:
    """The planned LIMIT. Raises 1064."""
    if limit is None:
        return None
    count = constant_of(limit)
    start = None if offset is None else constant_of(offset)
    if count is None or (offset is not None and start is None):
        raise Misplaced("LIMIT")
    return Limit(count, start)


class Filter:
    """A planned filter; `rows` runs it."""

    def __init__(
        self,
        source: TableSource,
        where: Tree | None,
        order: Sequence[SortKey],
        limit: Limit | None,
        binding: Binding,
        used: tuple[int, ...] | None = None,
    ) -> None:
        self.source = source
        self.partitions = source.partitions
        self.where = where
        self.order = order
        self.limit = limit
        requested = _requested_order(order, limit is not None)
        terms = _terms(source, where, binding)
        shares = Shares(binding.statistics, source.table)
        members = member_terms(where, source.resolve, source.table, binding)
        self._choice = None if members or source.hints else (terms, requested)
        path = choose(source.table, terms, source.hints, requested, shares, members)
        path.used = used
        self.texts = long_columns(source.table, used)
        self.has_long_rows = bool(self.texts)  # updated by runs
        self.by_statistics = shares.was_used  # whether other statistics might choose another path
        self.path = in_partitions(path, terms.plain, source.partitions)
        self.follows = bool(requested.positions) and follows(self.path, requested)
        self.reverse = self.follows and requested.descending
        self.sorts = bool(order) and not self.follows
        self._where: Callable[[Row, Execution], bool] | None = None
        if where is not None:
            self._where = expressions.condition(where, [source.visible], binding)

    def on(self, table: Table) -> Self | None:
        """This filter for another revision of its table that `stores_as` it.

        None if the revision might be read by another key."""
        path: Path | None = None
        if table.reads_as(self.source.table):
            path = self.path.on(table)
        elif self._choice is not None and not self.by_statistics:
            path = chosen_again(self.path, table, *self._choice)
        if path is None:
            return None
        filter_now = copy(self)
        filter_now.source = self.source._replace(table=table)
        filter_now.texts = long_columns(table, self.path.used)
        filter_now.path = path
        return filter_now

    def check_safe(self, context: Execution) -> None:
        """Raises 1175 under sql_safe_updates if neither a key nor a LIMIT limits the rows."""
        if self.limit is None and not self.path.narrows and context.session.settings.safe_updates:
            raise ErrUpdateWithoutKeyInSafeMode()

    @property
    def is_exact(self) -> bool:
        """Whether the path alone gives the result: exact, without a LIMIT, and not reversed."""
        return self.path.covers and self.limit is None and not self.reverse

    def few(
        self, context: Execution, most: int, positions: Sequence[int], select: Select
    ) -> list[Row] | None:
        """The result rows of a filter that `is_exact`, in order, decoded by `select`.

        `select` returns stored values at these positions. None if `rows` has to be used: for more
        than `most` rows, or for a sort by another column or expression."""
        if self.sorts and not all(key.position in positions for key in self.order):
            return None
        if self.has_long_rows:
            most = min(most, FEW_LONG_ROWS)
        payloads = self.path.few(context, most)
        if payloads is None:
            return None
        if self.texts and not self.has_long_rows:
            payloads = list(payloads)
            self.has_long_rows = sum(map(len, payloads)) > SHORT_BYTES
        selected = select(payloads)
        if not self.sorts:
            return selected
        for key in reversed(self.order):
            place = next(n for n, position in enumerate(positions) if position == key.position)
            selected = _in_order(selected, key, [row[place] for row in selected])
        return selected

    def rows(
        self,
        context: Execution,
        most: int = -1,
        skipped: Callable[[bytes], bool] | None = None,
        at_once: int = 0,
    ) -> tuple[Pairs, PathRows] | None:
        """(handle, row) pairs, and the opened path; None if more than `most` rows are read, or a
        larger table has to be scanned.

        A LIMIT that stops reading early avoids this None. Rows with `skipped` handles are left out.
        Raises WouldWait, before any row is filtered, if the path has more than `at_once` rows
        (0: no limit)."""
        opened = self.path.open(context, self.reverse)
        if at_once:
            first_rows = list(islice(opened.rows, at_once + 1))
            if len(first_rows) > at_once:
                raise WouldWait
            opened = opened._replace(rows=iter(first_rows))
        gives_up = most >= 0 and self.meets_all
        if gives_up:
            first_rows, is_all = self._first(opened.rows)
            if not is_all and self.is_beyond(most, context):
                return None
            opened = opened._replace(rows=chain(first_rows, opened.rows))
        pairs = opened.rows if opened.covered else self._filtered(opened.rows, context)
        if skipped is not None:
            pairs = (pair for pair in pairs if not skipped(pair[0]))
        if self.texts and (gives_up or self.sorts):
            pairs = _claimed(pairs, self.texts, context.tracker)
        if gives_up:
            claimed = context.tracker.kept
            first = list(islice(pairs, most + 1))
            if len(first) > most:
                context.tracker.kept = claimed
                return None
            pairs = iter(first)
        if self.sorts or (self.order and not opened.ordered):
            pairs = iter(self._sorted(list(pairs), context))
        if self.limit is not None:
            pairs = islice(pairs, *self.limit.bounds(context))
        return pairs, opened

    def _first(self, rows: Pairs) -> tuple[list[tuple[bytes, Row]], bool]:
        """The first LOOK_ROWS rows or LOOK_BYTES, and whether these are all rows."""
        texts = self.texts
        if not texts:
            first_rows = list(islice(rows, LOOK_ROWS))
            return first_rows, len(first_rows) < LOOK_ROWS
        first_rows, size = [], 0
        for pair in islice(rows, LOOK_ROWS):
            first_rows.append(pair)
            row = pair[1]
            for position in texts:
                value = row[position]
                if value is not None and len(value) > LONG:
                    size += len(value)
            if size > LOOK_BYTES:
                return first_rows, False
        if size < SHORT_BYTES:
            self.has_long_rows = False
        return first_rows, len(first_rows) < LOOK_ROWS

    @property
    def meets_all(self) -> bool:
        """Whether no LIMIT ends the reading early."""
        return self.limit is None or self.sorts

    def is_beyond(self, most: int, context: Execution) -> bool:
        """Whether more than `most` rows would be read, if this is known without reading."""
        return (self.path.count(context, most) or 0) > most

    def all_rows(self, context: Execution) -> Pairs:
        """All (handle, row) pairs."""
        opened = self.rows(context)
        assert opened is not None
        return opened[0]

    def _filtered(self, pairs: Pairs, context: Execution) -> Pairs:
        if self._where is None:
            yield from pairs
            return
        keeps = self._where
        for pair in interruption.checked(pairs):
            if keeps(pair[1], context):
                yield pair

    def _sorted(
        self, pairs: list[tuple[bytes, Row]], context: Execution
    ) -> list[tuple[bytes, Row]]:
        for key in reversed(self.order):
            call = key.compiled.call
            pairs = _in_order(pairs, key, [call(row, context) for _, row in pairs])
        return pairs


def _claimed(pairs: Pairs, texts: Sequence[int], tracker: Tracker) -> Pairs:
    """The pairs; claims memory for long values of rows that will be in a list."""
    for pair in pairs:
        row = pair[1]
        for position in texts:
            value = row[position]
            if value is not None and len(value) > LONG:
                tracker.keep(getsizeof(value))
        yield pair


def long_columns(table: Table, used: Sequence[int] | None) -> tuple[int, ...]:
    """Positions of the read columns whose values may exceed LONG characters."""
    columns = table.info.cols
    places = range(len(columns)) if used is None else used
    return tuple(
        n
        for n in places
        if columns[n].type.family in _TEXTS and not 0 <= columns[n].type.Flen <= LONG
    )


class FilteredPlan(KeptTablePlan):
    """A plan over the rows of one filter."""

    filter: Filter

    def on(self, table: Table) -> Self | None:
        plan = super().on(table)
        filter_now = None if plan is None else self.filter.on(table)
        if plan is None or filter_now is None:
            return None
        plan.filter = filter_now
        return plan


class FilterSteps(NamedTuple):
    """The measured steps of a filter's run."""

    read: MeasuredStep
    reads: Reads
    filtered: MeasuredStep
    sorted: MeasuredStep
    returned: MeasuredStep


class WatchedFilter(Filter):
    """A filter for one run of EXPLAIN ANALYZE."""

    def __init__(self, original: Filter, watch: Watch, steps: FilterSteps) -> None:
        self.__dict__.update(original.__dict__)
        self._watch = watch
        self._steps = steps
        self.path = watched_path(original.path, watch, steps.read, steps.reads)

    def rows(
        self,
        context: Execution,
        most: int = -1,
        skipped: Callable[[bytes], bool] | None = None,
        at_once: int = 0,
    ) -> tuple[Pairs, PathRows] | None:
        opened = super().rows(context, most, skipped, at_once)
        if opened is None:
            return None
        return self._watch.rows(self._steps.returned, opened[0]), opened[1]

    def _filtered(self, pairs: Pairs, context: Execution) -> Pairs:
        return self._watch.rows(self._steps.filtered, super()._filtered(pairs, context))

    def _sorted(
        self, pairs: list[tuple[bytes, Row]], context: Execution
    ) -> list[tuple[bytes, Row]]:
        with self._watch.within(self._steps.sorted):
            rows = super()._sorted(pairs, context)
        if self.limit is None:
            self._steps.sorted.count(len(rows))
        return rows


Sorted = TypeVar("Sorted")


def _in_order(rows: list[Sorted], key: SortKey, values: Sequence[Value]) -> list[Sorted]:
    """The rows sorted by one part of ORDER BY, whose values these are."""
    keys = comparable(key.compiled.type, values)
    order = sorted(range(len(rows)), key=keys.__getitem__, reverse=key.descending)
    return [rows[n] for n in order]


def _terms(source: TableSource, where: Tree | None, binding: Binding) -> Terms:
    """The terms of the WHERE. TIMESTAMPs are stored in UTC and compared as local time."""
    columns, zone = source.table.info.cols, binding.zone

    def resolve(column: exp.Column, shifted: bool = False) -> int | None:
        position = source.resolve(column)
        if position is None or is_shifted(columns[position].type, zone) != shifted:
            return None
        return position

    zoned = partial(resolve, shifted=True)
    expressions_there = expressions_of(source.table, binding)
    return terms_of(where, resolve, expressions_there, zoned, zone, binding)


def _requested_order(order: Sequence[SortKey], limited: bool) -> WantedOrder:
    positions = [key.position for key in order]
    if not order or None in positions or len({key.descending for key in order}) > 1:
        return WantedOrder()
    return WantedOrder(tuple(p for p in positions if p is not None), order[0].descending, limited)


def sort_keys(order: exp.Order | None, source: TableSource, binding: Binding) -> list[SortKey]:
    """ORDER BY over the table's own columns. Raises 1054."""
    keys = []
    for part in order.expressions if order is not None else ():
        tree = part.this if isinstance(part, exp.Ordered) else part
        position = source.resolve(tree) if isinstance(tree, exp.Column) else None
        compiled = expressions.compiled(tree, [source.visible], binding, "order clause")
        descending = bool(isinstance(part, exp.Ordered) and part.args.get("desc"))
        keys.append(SortKey(compiled, descending, position))
    return keys
