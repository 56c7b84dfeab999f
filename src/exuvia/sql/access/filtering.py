"""Rows of one table that a WHERE keeps, in the order asked for, as many as LIMIT says.

    path (access/paths.py) -> what it does not cover is evaluated -> sort, unless in order -> LIMIT

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
from exuvia.sql.statement.plan import KeptPlan

_TEXTS = (Family.STRING, Family.BYTES, Family.JSON)
Pairs = Iterator[tuple[bytes, Row]]
FEW_LONG_ROWS = 32
"""Rows that are read at once where they may be of some megabytes."""
SHORT_BYTES = 1 << 20
LOOK_ROWS, LOOK_BYTES = 512, 32 << 20
"""Read before a path is asked how many rows it has: short ones need not be."""


class SortKey(NamedTuple):
    """One part of ORDER BY. `position` where it is a plain column."""

    compiled: Compiled
    descending: bool
    position: int | None


class Limit(NamedTuple):
    """LIMIT [offset,] count, each a constant or `?`."""

    count: ConstantOf
    offset: ConstantOf | None

    def bounds(self, context: Execution) -> tuple[int, int]:
        """(first, after the last). Raises 1064 for what is no whole number."""
        first = 0 if self.offset is None else whole(self.offset(context))
        return min(first, maxsize), min(first + whole(self.count(context)), maxsize)


def whole(value: Value) -> int:
    """A row count. Raises 1210 for a parameter that is none."""
    if not isinstance(value, int) or value < 0:
        raise ErrWrongArguments("LIMIT")
    return value


def limit_of(limit: Tree | None, offset: Tree | None) -> Limit | None:
    """LIMIT as planned. Raises 1064."""
    if limit is None:
        return None
    count = constant_of(limit)
    start = None if offset is None else constant_of(offset)
    if count is None or (offset is not None and start is None):
        raise Misplaced("LIMIT")
    return Limit(count, start)


class Filter:
    """Planned once; `rows` runs it."""

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
        wanted = _wanted(order, limit is not None)
        terms = _terms(source, where, binding)
        shares = Shares(binding.statistics, source.table)
        members = member_terms(where, source.resolve, source.table, binding)
        self._choice = None if members or source.hints else (terms, wanted)
        path = choose(source.table, terms, source.hints, wanted, shares, members)
        path.used = used
        self.texts = long_columns(source.table, used)
        self.has_long_rows = bool(self.texts)  # as far as its runs have shown
        self.by_statistics = shares.asked  # whether others might choose another path
        self.path = in_partitions(path, terms.plain, source.partitions)
        self.follows = bool(wanted.positions) and follows(self.path, wanted)
        self.reverse = self.follows and wanted.descending
        self.sorts = bool(order) and not self.follows
        self._where: Callable[[Row, Execution], bool] | None = None
        if where is not None:
            self._where = expressions.condition(where, [source.visible], binding)

    def on(self, table: Table) -> Self | None:
        """The same filter of another revision of its table, one that `stores_as` it; None where it
        might be read by another key."""
        path: Path | None = None
        if table.reads_as(self.source.table):
            path = self.path.on(table)
        elif self._choice is not None and not self.by_statistics:
            path = chosen_again(self.path, table, *self._choice)
        if path is None:
            return None
        made = copy(self)
        made.source = self.source._replace(table=table)
        made.texts = long_columns(table, self.path.used)
        made.path = path
        return made

    def check_safe(self, context: Execution) -> None:
        """Raises 1175 under sql_safe_updates, where neither a key nor a LIMIT bounds the rows."""
        if self.limit is None and not self.path.narrows and context.session.settings.safe_updates:
            raise ErrUpdateWithoutKeyInSafeMode()

    @property
    def is_exact(self) -> bool:
        """Whether its path finds the rows it keeps and no others, and all are asked for."""
        return self.path.covers and self.limit is None and not self.reverse

    def few(
        self, context: Execution, most: int, positions: Sequence[int], select: Select
    ) -> list[Row] | None:
        """The rows as `select` makes them, with the values at these positions as they are stored,
        in order, of a filter that `is_exact`. None where only `rows` tells: where more than `most`
        are met, or they are sorted by anything else."""
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
        found = select(payloads)
        if not self.sorts:
            return found
        for key in reversed(self.order):
            place = next(n for n, position in enumerate(positions) if position == key.position)
            found = _in_order(found, key, [row[place] for row in found])
        return found

    def rows(
        self,
        context: Execution,
        most: int = -1,
        skipped: Callable[[bytes], bool] | None = None,
        at_once: int = 0,
    ) -> tuple[Pairs, PathRows] | None:
        """(handle, row) pairs, and the opened path; None where more than `most` rows are met, or a
        table of more has to be read whole.

        A LIMIT that ends the reading early is no reason to give up. Rows whose handle is to be
        `skipped` are as if they were not there. WouldWait, before any row is looked at, where the
        path meets more than `at_once` (0: however many)."""
        found = self.path.open(context, self.reverse)
        if at_once:
            met = list(islice(found.rows, at_once + 1))
            if len(met) > at_once:
                raise WouldWait
            found = found._replace(rows=iter(met))
        gives_up = most >= 0 and self.meets_all
        if gives_up:
            met, is_all = self._first(found.rows)
            if not is_all and self.is_beyond(most, context):
                return None
            found = found._replace(rows=chain(met, found.rows))
        pairs = found.rows if found.covered else self._kept(found.rows, context)
        if skipped is not None:
            pairs = (pair for pair in pairs if not skipped(pair[0]))
        if self.texts and (gives_up or self.sorts):
            pairs = _kept(pairs, self.texts, context.tracker)
        if gives_up:
            kept = context.tracker.kept
            first = list(islice(pairs, most + 1))
            if len(first) > most:
                context.tracker.kept = kept
                return None
            pairs = iter(first)
        if self.sorts or (self.order and not found.ordered):
            pairs = iter(self._sorted(list(pairs), context))
        if self.limit is not None:
            pairs = islice(pairs, *self.limit.bounds(context))
        return pairs, found

    def _first(self, rows: Pairs) -> tuple[list[tuple[bytes, Row]], bool]:
        """The first LOOK_ROWS rows or LOOK_BYTES, and whether they are all."""
        texts = self.texts
        if not texts:
            met = list(islice(rows, LOOK_ROWS))
            return met, len(met) < LOOK_ROWS
        met, taken = [], 0
        for pair in islice(rows, LOOK_ROWS):
            met.append(pair)
            row = pair[1]
            for position in texts:
                value = row[position]
                if value is not None and len(value) > LONG:
                    taken += len(value)
            if taken > LOOK_BYTES:
                return met, False
        if taken < SHORT_BYTES:
            self.has_long_rows = False
        return met, len(met) < LOOK_ROWS

    @property
    def meets_all(self) -> bool:
        """Whether no LIMIT ends the reading early."""
        return self.limit is None or self.sorts

    def is_beyond(self, most: int, context: Execution) -> bool:
        """Whether more than `most` rows would be read, as far as that is known without reading."""
        return (self.path.count(context, most) or 0) > most

    def all_rows(self, context: Execution) -> Pairs:
        """(handle, row) pairs, however many."""
        opened = self.rows(context)
        assert opened is not None
        return opened[0]

    def _kept(self, pairs: Pairs, context: Execution) -> Pairs:
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


def _kept(pairs: Pairs, texts: Sequence[int], tracker: Tracker) -> Pairs:
    """The rows of a list; those with long values are claimed."""
    for pair in pairs:
        row = pair[1]
        for position in texts:
            value = row[position]
            if value is not None and len(value) > LONG:
                tracker.keep(getsizeof(value))
        yield pair


def long_columns(table: Table, used: Sequence[int] | None) -> tuple[int, ...]:
    """Positions of the columns read that may have values of more than LONG characters."""
    columns = table.info.cols
    places = range(len(columns)) if used is None else used
    return tuple(
        n
        for n in places
        if columns[n].type.family in _TEXTS and not 0 <= columns[n].type.Flen <= LONG
    )


class FilteredPlan(KeptPlan):
    """A plan of the rows that one filter finds."""

    filter: Filter

    def on(self, table: Table) -> Self | None:
        made = super().on(table)
        found = None if made is None else self.filter.on(table)
        if made is None or found is None:
            return None
        made.filter = found
        return made


class FilterSteps(NamedTuple):
    """What the parts of a filter's run are noted as."""

    read: MeasuredStep
    reads: Reads
    kept: MeasuredStep
    sorted: MeasuredStep
    given: MeasuredStep


class WatchedFilter(Filter):
    """The same filter in a plan of its own, which runs once: for EXPLAIN ANALYZE."""

    def __init__(self, found: Filter, watch: Watch, steps: FilterSteps) -> None:
        self.__dict__.update(found.__dict__)
        self._watch = watch
        self._steps = steps
        self.path = watched_path(found.path, watch, steps.read, steps.reads)

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
        return self._watch.rows(self._steps.given, opened[0]), opened[1]

    def _kept(self, pairs: Pairs, context: Execution) -> Pairs:
        return self._watch.rows(self._steps.kept, super()._kept(pairs, context))

    def _sorted(
        self, pairs: list[tuple[bytes, Row]], context: Execution
    ) -> list[tuple[bytes, Row]]:
        with self._watch.within(self._steps.sorted):
            found = super()._sorted(pairs, context)
        if self.limit is None:
            self._steps.sorted.count(len(found))
        return found


Sorted = TypeVar("Sorted")


def _in_order(rows: list[Sorted], key: SortKey, values: Sequence[Value]) -> list[Sorted]:
    """Rows by their values for that part of ORDER BY."""
    keys = comparable(key.compiled.type, values)
    order = sorted(range(len(rows)), key=keys.__getitem__, reverse=key.descending)
    return [rows[n] for n in order]


def _terms(source: TableSource, where: Tree | None, binding: Binding) -> Terms:
    """What the WHERE offers; TIMESTAMPs are kept in UTC and compared as local time."""
    columns, zone = source.table.info.cols, binding.zone

    def resolve(column: exp.Column, shifted: bool = False) -> int | None:
        position = source.resolve(column)
        if position is None or is_shifted(columns[position].type, zone) != shifted:
            return None
        return position

    zoned = partial(resolve, shifted=True)
    return terms_of(where, resolve, expressions_of(source.table, binding), zoned, zone)


def _wanted(order: Sequence[SortKey], limited: bool) -> WantedOrder:
    positions = [key.position for key in order]
    if not order or None in positions or len({key.descending for key in order}) > 1:
        return WantedOrder()
    return WantedOrder(tuple(p for p in positions if p is not None), order[0].descending, limited)


def sort_keys(order: exp.Order | None, source: TableSource, binding: Binding) -> list[SortKey]:
    """ORDER BY over the table's own columns. Raises 1054."""
    found = []
    for each in order.expressions if order is not None else ():
        tree = each.this if isinstance(each, exp.Ordered) else each
        position = source.resolve(tree) if isinstance(tree, exp.Column) else None
        compiled = expressions.compiled(tree, [source.visible], binding, "order clause")
        descending = bool(isinstance(each, exp.Ordered) and each.args.get("desc"))
        found.append(SortKey(compiled, descending, position))
    return found
