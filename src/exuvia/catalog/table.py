"""A table for planning a statement: its info at one revision, and what is derived from it, once.

    Table(info, revision, database, database_revision, evaluator of virtual columns)
      .columns        public columns, what clients see
      .layout         the layout of written rows: exactly the columns whose state adds
      .forms          an IndexForm for each index that writers maintain (catalog/model.py);
                      `IndexForm.entries` has the entries of a row: zero, one or several
      .handle_form    the encoding of a clustered key that is not one integer

Immutable. Building one takes microseconds; encoders and decoders are built on first use.

VIRTUAL columns are never stored, but computed whenever a row is read (decision 009).

    row as stored   (1, None, 5)          the evaluator's steps, in the columns' order:
    row as read     (1, 2, 5)             position 1 from the value at 0:  a + 1

The catalog does not depend on SQL. Each process is configured with an *evaluator*,
"module:function", that returns the steps of a table. It is a name, so that it can be sent to
Spark's workers.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, cached_property
from importlib import import_module
from typing import Any, NamedTuple

from msgspec.structs import replace

from exuvia.base.errors import Broken, SchemaChanged
from exuvia.base.types import Family, Flag, Value
from exuvia.catalog.codec.key_encoder import HANDLE_BYTES, VALUES_BYTES, KeyForm
from exuvia.catalog.codec.row_codec import (
    MOST_STRAIGHT,
    Decode,
    Row,
    RowDecoder,
    RowEncoder,
    Select,
    layout_of,
    selecting,
    straight,
    with_layout,
)
from exuvia.catalog.convert.type_change import (
    COMPUTED,
    NUMBERED,
    ColumnChange,
    Computation,
    changes_of,
    coming_changes_of,
    former_of,
    keyed_type,
    wrapped,
)
from exuvia.catalog.convert.values import hidden_value_of, origin_default_of
from exuvia.catalog.model import (
    DUTIES,
    ColumnInfo,
    DatabaseInfo,
    Duty,
    IndexInfo,
    Layout,
    SchemaState,
    TableInfo,
)
from exuvia.catalog.multi_valued import elements
from exuvia.catalog.predicate import Predicate
from exuvia.kv import keys
from exuvia.kv.packet import LIVE, Span

Many = Callable[[Sequence[Any]], list[Value] | None]
"""Values for many rows from those of the one column they depend on; None if they must be computed
row by row.
"""


_KEY_FLAGS = int(Flag.UNIQUE_KEY | Flag.MULTIPLE_KEY)


class VirtualStep(NamedTuple):
    """One column: its position, the positions that its expression reads, and its value for a row.

    `strict`: as `value`, but raises the errors of a strict write. Set while an index on the
    expression is backfilled; only the vectors of the backfill use it, and `many`, which raises no
    error."""

    position: int
    reads: tuple[int, ...]
    value: Callable[[Sequence[Value]], Value]
    strict: Callable[[Sequence[Value]], Value] | None = None
    many: Many | None = None


Evaluator = Callable[[TableInfo], tuple[VirtualStep, ...]]


@cache
def evaluator_named(name: str) -> Evaluator:
    """The function of that name. Raises Broken if no evaluator is configured."""
    function: Evaluator = getattr(*_evaluator(name))
    return function


@cache
def computations_named(name: str) -> Callable[[TableInfo], dict[int, Computation]]:
    """The function `computations` of the evaluator's module: the values of COMPUTED columns, by
    position."""
    module, _ = _evaluator(name)
    function: Callable[[TableInfo], dict[int, Computation]] = module.computations
    return function


def _evaluator(name: str) -> tuple[Any, str]:
    module, _, function = name.partition(":")
    if not function:
        raise Broken("a table with generated columns needs an evaluator, and none is configured")
    return import_module(module), function


class VirtualColumns:
    """The virtual columns of one table."""

    def __init__(self, info: TableInfo, evaluator: str) -> None:
        self.steps = evaluator_named(evaluator)(info)
        self.positions = frozenset(step.position for step in self.steps)

    def fill(self, row: Row) -> Row:
        """Computes the virtual columns of the row in place; returns the row."""
        return _computed(self.steps, row)

    def only(self, positions: Iterable[int]) -> tuple[VirtualStep, ...]:
        """The steps that compute the columns at these positions, and the steps they depend on."""
        needed = self.needed(positions)
        return tuple(step for step in self.steps if step.position in needed)

    def needed(self, positions: Iterable[int]) -> set[int]:
        """These positions and all that their expressions read."""
        all_positions = set(positions)
        for step in reversed(self.steps):
            if step.position in all_positions:
                all_positions.update(step.reads)
        return all_positions


def _computed(steps: Sequence[VirtualStep], row: Row) -> Row:
    for step in steps:
        row[step.position] = step.value(row)
    return row


def _computing(decode: Decode, steps: Sequence[VirtualStep]) -> Decode:
    return lambda payload: _computed(steps, decode(payload))


# -- table -----------------------------------------------------------------------------------------

__all__ = ["IndexForm", "Table", "with_layout"]

CUT_HANDLES = 2  # common_handle_version: handles have the prefixes of the key; 1: whole values


Entries = Sequence[tuple[bytes, bool]]


class IndexForm:
    """One index, prepared for encoding keys.

    `positions`: its parts in the table's columns. `array`: which part is an array, in a
    multi-valued index. `part`: the bytes before a row's handle in entries: the partition's id in a
    global index, else empty. Empty too for the logical table, whose handles begin with that id."""

    __slots__ = (
        "_encode_one",
        "_only",
        "_watched",
        "array",
        "duty",
        "info",
        "keys",
        "part",
        "positions",
        "predicate",
        "prefix",
        "types",
        "unique",
        "wraps",
    )

    def __init__(
        self, info: IndexInfo, table: TableInfo, physical_id: int, *, is_logical: bool = False
    ) -> None:
        self.info = info
        self.duty: Duty = DUTIES[state_for_writers(info, table)]
        self.unique = info.is_unique
        under = table.home if info.is_global else physical_id
        self.prefix = keys.index_prefix(under, info.id)
        self.part = keys.u64(physical_id) if info.is_global and not is_logical else b""
        self.positions = [
            _position(table, part.exuvia_column, part.name.L) for part in info.idx_cols
        ]
        self.types = [
            keyed_type(table.cols[position], part)
            for position, part in zip(self.positions, info.idx_cols, strict=True)
        ]
        self.wraps = any(part.exuvia_using_changing_type for part in info.idx_cols)
        lengths = [part.length for part in info.idx_cols]
        self.keys = KeyForm(list(zip(self.types, lengths, strict=True)), VALUES_BYTES)
        self.predicate = _predicate(table, info)
        more = () if self.predicate is None else self.predicate.positions
        self._watched = (*self.positions, *more)
        self._only = self.positions[0]
        arrays = (n for n, part in enumerate(info.idx_cols) if part.exuvia_array is not None)
        self.array = next(arrays, None)
        is_plain = not (self.unique or self.wraps or more or self.part or info.is_multi_valued)
        is_plain = is_plain and len(self.positions) == 1
        self._encode_one = self.keys.one if is_plain else None

    def is_same(self, old: Row, new: Row) -> bool:
        """Whether its entries are certainly the same in both rows, because the rows have the same
        objects.

        Equal values of different objects may have different keys."""
        if self._encode_one is not None:
            return old[self._only] is new[self._only]
        return all(old[position] is new[position] for position in self._watched)

    def entries(self, row: Row, handle: bytes) -> Entries:
        """(key, is_unique) of each entry of the row. A unique key has no NULL part and does not end
        in the handle.

        Empty if a partial index excludes the row. A multi-valued index has one entry for each
        element of its array."""
        if self._encode_one is not None:
            return ((self.prefix + self._encode_one(row[self._only]) + handle, False),)
        if self.predicate is not None and not self.predicate.holds(row):
            return ()
        values = [row[position] for position in self.positions]
        if self.wraps:
            values = [wrapped(v, kind) for v, kind in zip(values, self.types, strict=True)]
        if self.array is None:
            return (self._entry(values, handle),)
        keys_of_entries = []
        for element in elements(values[self.array], self.types[self.array]):
            values[self.array] = element
            keys_of_entries.append(self._entry(values, handle))
        return keys_of_entries

    def _entry(self, values: Sequence[Value], handle: bytes) -> tuple[bytes, bool]:
        encoded = self.keys.encode(values)
        if self.unique and None not in values:
            return self.prefix + encoded, True
        return self.prefix + encoded + self.part + handle, False

    def payload(self, handle: bytes) -> bytes:
        """The payload of a unique entry for this handle."""
        return LIVE + self.part + handle


def state_for_writers(index: IndexInfo, table: TableInfo) -> SchemaState:
    """The index's state for writers.

    A local index of a pair belongs to one set of partitions only, and is maintained like all of
    that set."""
    partition = table.partition
    is_apart = (
        partition is not None and not index.is_global and bool(partition.paired_with(index.id))
    )
    return SchemaState.PUBLIC if is_apart else index.state


def _predicate(table: TableInfo, index: IndexInfo) -> Predicate | None:
    terms = index.exuvia_predicate
    if not terms:
        return None
    positions = [_position(table, term.exuvia_column, term.name.L) for term in terms]
    return Predicate(terms, positions, [table.cols[position].type for position in positions])


class ComputingDecoder(RowDecoder):
    """Decodes rows of a table with virtual columns."""

    def __init__(
        self,
        layout: Layout,
        columns: tuple[ColumnInfo, ...],
        virtual: VirtualColumns,
        *,
        later: bool,
    ) -> None:
        super().__init__(layout, columns, later=later)
        self._virtual = virtual

    def decode(self, payload: bytes) -> Row:
        """The row, with its virtual columns."""
        return self._virtual.fill(super().decode(payload))


def _position(table: TableInfo, column_id: int, name: str) -> int:
    for position, column in enumerate(table.cols):
        if column.id == column_id or (not column_id and name == column.name.L):
            return position
    raise Broken(f"table {table.name.O} has an index on an unknown column")


MOST_DECODINGS = 64
PART_BYTES = 8
"""Length of a partition's id, in handles that begin with it."""


class Table:
    """A table at one revision. Thread-safe: derived values depend on immutable ones only."""

    def __init__(
        self,
        info: TableInfo,
        revision: int,
        database: DatabaseInfo,
        database_revision: int,
        evaluator: str = "",
        physical_id: int = 0,
    ) -> None:
        self.info = info
        self.evaluator = evaluator
        self.revision = revision
        self.database = database
        self.database_revision = database_revision
        self.physical_id = physical_id or info.exuvia_physical or info.id
        self.row_prefix = keys.row_prefix(self.physical_id)
        self.fences: tuple[tuple[bytes, int], ...] = (
            (keys.revision(info.id), revision + 1),
            (keys.database_revision(database.id), database_revision + 1),
        )
        self._decoders: dict[int, RowDecoder] = {}
        self._straight: dict[tuple[int, ...], Decode] = {}
        self._later: tuple[Layout, ...] = ()
        self.plans: dict[int, object] = {}  # plans of catalog/codec/row_batch.py, by layout
        self.caches: dict[str, Any] = {}  # caches of higher layers
        self.is_partitioned = info.partition is not None and not physical_id
        self.route: Any = None  # the route of sql/access/partitions.py, built once
        self._parts: dict[int, Table] = {}

    @cached_property
    def marks(self) -> tuple[tuple[bytes, bytes], tuple[bytes, bytes]]:
        """The keys of its revision and its database's, and their values at this revision."""
        return (
            (keys.revision(self.info.id), keys.number(self.revision)),
            (keys.database_revision(self.database.id), keys.number(self.database_revision)),
        )

    @cached_property
    def place(self) -> tuple[str, str] | None:
        """Its database and name, in lower case, for clients; None if it is not public."""
        public = self.info.state == SchemaState.PUBLIC == self.database.state
        return (self.database.db_name.L, self.info.name.L) if public else None

    @cached_property
    def columns(self) -> tuple[ColumnInfo, ...]:
        """Public columns, in order."""
        return self.info.public_columns

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {column.name.L: n for n, column in enumerate(self.info.cols)}

    @cached_property
    def public_positions(self) -> dict[str, int]:
        """Positions of the columns that clients see, by lower-case name."""
        return {column.name.L: self._positions[column.name.L] for column in self.columns}

    def position(self, name: str) -> int:
        """The position of the column of that name in rows. Raises KeyError."""
        return self._positions[name.lower()]

    @cached_property
    def as_read(self) -> TableInfo:
        """Its info for readers: without indexes that are not public, the greatest index id, and the
        time of the last change."""
        public = tuple(i for i in self.info.indexes if i.state == SchemaState.PUBLIC)
        return replace(self.info, index_info=public, max_idx_id=0, update_timestamp=0)

    def reads_as(self, other: "Table") -> bool:
        """Whether reads of both revisions are the same: same names, columns, layouts, keys."""
        return self._same_apart_from_info(other) and self.as_read == other.as_read

    @cached_property
    def _as_stored(self) -> TableInfo:
        clustered = tuple(i for i in self.as_read.indexes if i.exuvia_clustered)
        columns = tuple(
            replace(column, type=replace(column.type, Flag=column.type.Flag & ~_KEY_FLAGS))
            for column in self.info.cols
        )
        return replace(self.as_read, cols=columns, index_info=clustered)

    def stores_as(self, other: "Table") -> bool:
        """Whether both revisions are read the same, except for secondary indexes and the flags of
        those."""
        return self._same_apart_from_info(other) and self._as_stored == other._as_stored

    def _same_apart_from_info(self, other: "Table") -> bool:
        """Whether everything outside their infos is the same."""
        return (
            self.physical_id == other.physical_id
            and self.evaluator == other.evaluator
            and self.database == other.database
        )

    # -- partitions --------------------------------------------------------------------------------

    def part(self, physical_id: int) -> "Table":
        """One partition: the same table with the keys of that id."""
        partition = self._parts.get(physical_id)
        if partition is None:
            facts = self.info, self.revision, self.database, self.database_revision
            partition = self._parts[physical_id] = Table(*facts, self.evaluator, physical_id)
        return partition

    @cached_property
    def parts(self) -> "tuple[Table, ...]":
        """Its partitions in order, or itself: the physical tables of reads."""
        if self.info.partition is None or not self.is_partitioned:
            return (self,)
        return tuple(self.part(definition.id) for definition in self.info.partition.definitions)

    @cached_property
    def dead(self) -> frozenset[bytes]:
        """The partitions whose entries in global indexes count as absent, as prefixes of
        handles."""
        partition = self.info.partition
        return frozenset(map(keys.u64, partition.dead)) if partition is not None else frozenset()

    def holder(self, form: IndexForm, handle: bytes) -> "tuple[Table, bytes]":
        """The physical table of the row of an entry, and the row's handle in it."""
        if not form.info.is_global:
            return self, handle
        return self.part(int.from_bytes(handle[:PART_BYTES], "big")), handle[PART_BYTES:]

    def row_key(self, handle: bytes) -> bytes:
        """A row's key. Handles of a partitioned table begin with the partition's id, 8 bytes."""
        if self.is_partitioned:
            return b"t" + handle[:8] + b"r" + handle[8:]
        return self.row_prefix + handle

    # -- a primary key that changes ----------------------------------------------------------------

    @property
    def rekeyed(self) -> "Table":
        """The other set of its rows as the one that is read, while its primary key changes.

        For a partition, the same partition there. Raises Broken if the primary key does not
        change."""
        if self.info.exuvia_rekey is None:
            raise Broken(f"the primary key of table {self.info.name.O} does not change")
        is_part = self.info.partition is not None and not self.is_partitioned
        physical_id = self.info.rekeyed_id(self.physical_id) if is_part else 0
        facts = self.revision, self.database, self.database_revision, self.evaluator
        return Table(self.info.rekeyed, *facts, physical_id)

    @cached_property
    def other(self) -> "Table | None":
        """Its rows under their other handles, while its primary key changes and writers maintain
        that set: a table whose key does not change."""
        if self.info.exuvia_rekey is None:
            return None
        rekeyed = self.rekeyed
        info = replace(rekeyed.info, exuvia_rekey=None)
        facts = self.revision, self.database, self.database_revision, self.evaluator
        return Table(info, *facts, 0 if rekeyed.is_partitioned else rekeyed.physical_id)

    @cached_property
    def other_adds(self) -> bool:
        """Whether writers insert rows there, too."""
        rekey = self.info.exuvia_rekey
        assert rekey is not None
        return rekey.state == SchemaState.DELETE_REORG or DUTIES[rekey.state].adds

    @cached_property
    def is_keyed_by_replaced(self) -> bool:
        """Whether its clustered key has a column that another one has replaced."""
        return any(former_of(self.info.cols[at]) for at in self.handle_positions)

    @cached_property
    def guard(self) -> IndexForm | None:
        """The unique index on the added or dropped key, if it is in this set: it has the handle of
        a row."""
        rekey = self.info.exuvia_rekey
        return None if rekey is None else self._forms.get(rekey.guard)

    @cached_property
    def other_guard(self) -> IndexForm | None:
        """The same, if it is in the other set."""
        rekey, other = self.info.exuvia_rekey, self.other
        return None if rekey is None or other is None else other._forms.get(rekey.guard)

    @cached_property
    def other_keys(self) -> tuple[IndexForm, ...]:
        """Unique indexes of the other set that this one lacks, except guards: its rows must satisfy
        them too.

        (Each set has its own copy of a global index, unless it is a primary key.)"""
        rekey, other = self.info.exuvia_rekey, self.other
        if rekey is None or other is None:
            return ()
        excluded = {rekey.guard, rekey.key_guard, *(index.id for index in self.info.indexes)}
        return tuple(
            form
            for form in other.forms
            if form.unique
            and form.info.id not in excluded
            and (form.info.is_primary or not form.info.is_global)
        )

    # -- where things are --------------------------------------------------------------------------

    @cached_property
    def log_prefix(self) -> bytes:
        """Prefix of its change log; empty if writers do not write one."""
        logged = DUTIES[self.info.exuvia_change_log].adds
        return keys.log_prefix(self.physical_id, self.info.exuvia_change_log_id) if logged else b""

    def row_span(self) -> Span:
        return keys.span_of(self.row_prefix)

    def index_span(self, index: IndexInfo) -> Span:
        """All entries of an index; for a global one, those of all partitions."""
        under = self.info.home if index.is_global else self.physical_id
        return keys.span_of(keys.index_prefix(under, index.id))

    # -- rows --------------------------------------------------------------------------------------

    @cached_property
    def layout(self) -> Layout:
        """The layout of rows written under this revision. Raises Broken if `with_layout` was not
        called."""
        current = layout_of(self.info)
        if current is None:
            raise Broken(f"table {self.info.name.O} has no layout for the columns it writes")
        return current

    @cached_property
    def encoder(self) -> RowEncoder:
        return RowEncoder(self.layout, self.info.cols)

    def decode(self, payload: bytes) -> Row:
        """Decode a payload of any layout."""
        layout_id = payload[0] | payload[1] << 8
        decoder = self._decoders.get(layout_id) or self._decoder(layout_id)
        return decoder.decode(payload)

    def decoding(self, used: Iterable[int] | None = None) -> Decode:
        """A decoder for payloads of any layout, faster than `decode` for many rows.

        With `used`, other columns may have the value None, and other virtual columns are not
        computed."""
        columns = self.info.cols
        positions = tuple(range(len(columns)) if used is None else sorted(set(used)))
        decode = self._straight.get(positions)
        if decode is None:
            layout = layout_of(self.info)
            virtual = self.virtual
            steps = () if virtual is None else virtual.only(positions)
            decode = self.decode if virtual is None else self._stored
            if layout is not None and len(columns) <= MOST_STRAIGHT:
                read = positions if virtual is None else sorted(virtual.needed(positions))
                decode = straight(layout, columns, read, decode)
            if steps:
                decode = _computing(decode, steps)
            if len(self._straight) >= MOST_DECODINGS:  # other plans still have references to them
                self._straight.clear()
            self._straight[positions] = decode
        return decode

    def _stored(self, payload: bytes) -> Row:
        """Decode without computing virtual columns."""
        layout_id = payload[0] | payload[1] << 8
        decoder = self._decoders.get(layout_id) or self._decoder(layout_id)
        return RowDecoder.decode(decoder, payload)

    def selecting(self, positions: Sequence[int]) -> Select:
        """A decoder of many payloads that returns only the values at these positions, in that
        order.

        The plan caches it, not the table."""

        def other(payload: bytes) -> Row:
            row = self.decode(payload)
            return [row[position] for position in positions]

        columns, layout = self.info.cols, layout_of(self.info)
        if layout is None or self.virtual is not None or len(columns) > MOST_STRAIGHT:
            return lambda payloads: list(map(other, payloads))
        return selecting(layout, columns, positions, other)

    def _decoder(self, layout_id: int) -> RowDecoder:
        layout, columns = self.layout_by_id(layout_id), self.info.cols
        later = layout not in self.info.exuvia_layouts
        if self.virtual is None:
            decoder = RowDecoder(layout, columns, later=later)
        else:
            decoder = ComputingDecoder(layout, columns, self.virtual, later=later)
        self._decoders[layout_id] = decoder
        return decoder

    def learn(self, later: TableInfo) -> None:
        """Add the layouts of a later revision, for rows that this plan's own transaction wrote
        under it."""
        self._later = later.exuvia_layouts
        for part in self._parts.values():
            part.learn(later)

    def layout_by_id(self, layout_id: int) -> Layout:
        """That layout. An unknown one was created by a later revision: raises SchemaChanged."""
        for layout in (*self.info.exuvia_layouts, *self._later):
            if layout.id == layout_id:
                return layout
        raise SchemaChanged(keys.revision(self.info.id))

    @cached_property
    def hidden_columns(self) -> tuple[tuple[int, Value, bool, int], ...]:
        """(position, value, kept on update, position of its former column) of each column that
        clients do not write.

        The last is the column that clients write instead, or -1. A column in a state that does not
        add is not in the layout and reads as its origin default, so that is its value."""
        at = {c.id: n for n, c in enumerate(self.info.cols) if DUTIES[c.state].reads}
        return tuple(
            (n, hidden_value_of(c), True, at.get(former_of(c), -1))
            if DUTIES[c.state].adds
            else (n, origin_default_of(c), False, -1)
            for n, c in enumerate(self.info.cols)
            if not DUTIES[c.state].reads and not c.is_virtual
        )

    @cached_property
    def changes(self) -> tuple[ColumnChange, ...]:
        """The duties of writers for columns whose type changes."""
        return changes_of(self.info, self._computations)

    @cached_property
    def coming_changes(self) -> tuple[ColumnChange, ...]:
        """The duties for such columns of writers one state ahead, which this plan does not have
        yet."""
        return coming_changes_of(self.info, self._computations)

    @cached_property
    def _computations(self) -> Mapping[int, Computation]:
        """Computations of hidden COMPUTED columns, by position."""
        if not any(COMPUTED in (column.change_state_info or {}) for column in self.info.cols):
            return {}
        return computations_named(self.evaluator)(self.info)

    @cached_property
    def numbered(self) -> int:
        """The position of a hidden column that gets AUTO_INCREMENT ids, or -1."""
        positions = (
            n
            for n, column in enumerate(self.info.cols)
            if NUMBERED in (column.change_state_info or {}) and DUTIES[column.state].adds
        )
        return next(positions, -1)

    @cached_property
    def virtual(self) -> VirtualColumns | None:
        """Its virtual columns, or None."""
        if not any(column.is_virtual for column in self.info.cols):
            return None
        return VirtualColumns(self.info, self.evaluator)

    # -- handles -----------------------------------------------------------------------------------

    @cached_property
    def clustered(self) -> IndexInfo | None:
        """The primary key whose values are the handle, if it is listed."""
        return next((i for i in self.info.indexes if i.exuvia_clustered), None)

    @cached_property
    def handle_positions(self) -> tuple[int, ...]:
        """Positions of the columns of the handle; empty for a hidden row id."""
        if self.clustered is not None:
            parts = self.clustered.idx_cols
            return tuple(_position(self.info, p.exuvia_column, p.name.L) for p in parts)
        if not self.info.pk_is_handle:
            return ()
        positions = [n for n, c in enumerate(self.info.cols) if c.type.Flag & Flag.PRI_KEY]
        return tuple(positions[:1])

    @cached_property
    def handle_is_unsigned(self) -> bool:
        """Whether the handle is an unsigned integer."""
        if not self.info.pk_is_handle:
            return False
        return self.info.cols[self.handle_positions[0]].type.family == Family.UINT

    @cached_property
    def handle_form(self) -> KeyForm | None:
        """The encoding of a handle that is not one integer; None otherwise."""
        if not self.info.is_common_handle:
            return None
        types = [self.info.cols[position].type for position in self.handle_positions]
        return KeyForm(list(zip(types, self.handle_lengths, strict=True)), HANDLE_BYTES)

    @cached_property
    def handle_lengths(self) -> tuple[int, ...]:
        """The number of characters of each part in a common handle, -1 for all."""
        if self.clustered is None or self.info.common_handle_version < CUT_HANDLES:
            return (-1,) * len(self.handle_positions)
        return tuple(part.length for part in self.clustered.idx_cols)

    @property
    def handle_is_faithful(self) -> bool:
        """Whether the primary key's values can be decoded from a handle."""
        return self.handle_form is None or self.handle_form.faithful

    # -- indexes -----------------------------------------------------------------------------------

    @cached_property
    def _forms(self) -> dict[int, IndexForm]:
        return {
            index.id: IndexForm(index, self.info, self.physical_id, is_logical=self.is_partitioned)
            for index in self.info.indexes
            if not index.exuvia_clustered
        }

    @cached_property
    def forms(self) -> tuple[IndexForm, ...]:
        """The indexes that a writer maintains; for a partition, those with rows of it."""
        cut = self.info.partition
        is_part = cut is not None and not self.is_partitioned
        apart = cut.without_rows_of(self.physical_id) if cut is not None and is_part else ()
        forms = self._forms.values()
        return tuple(form for form in forms if form.duty.removes and form.info.id not in apart)

    @cached_property
    def forms_not_added(self) -> tuple[IndexForm, ...]:
        """Those of them that get no entries; nearly always empty."""
        return tuple(form for form in self.forms if not form.duty.adds)

    def form(self, index: IndexInfo) -> IndexForm:
        """An index's form, in any state. Raises KeyError for a clustered primary key, which has no
        entries."""
        return self._forms[index.id]
