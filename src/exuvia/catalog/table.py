"""A table as a statement plans with it: its info at one revision, and everything that follows from
it, found once.

    Table(info, revision, database, database_revision, evaluator of virtual columns)
      .columns        public columns, what clients see
      .layout         what a writer's rows look like: exactly the columns whose state adds
      .forms          an IndexForm for each index that writers owe something (catalog/model.py);
                      `IndexForm.entries` says which entries a row has: none, one or several
      .handle_form    the encoding of a clustered key that is not one integer

Immutable. Building one costs microseconds; encoders and decoders are made when first asked for.

VIRTUAL columns: never stored, computed whenever a row is read (decision 009).

    row as stored   (1, None, 5)          the evaluator's steps, in the columns' order:
    row as read     (1, 2, 5)             position 1 from what stands at 0:  a + 1

The catalog knows no SQL. Who wires a process names an *evaluator*, "module:function", that makes
the steps of a table. It is a name and no object, so that it crosses to Spark's workers as it is.
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
"""Values for many rows from those of the one column that they follow from; None: ask row by row."""


_KEY_FLAGS = int(Flag.UNIQUE_KEY | Flag.MULTIPLE_KEY)


class VirtualStep(NamedTuple):
    """One column: where it stands, which positions its expression reads, its value for a row.

    `strict`: as `value`, but it raises what a strict write would. Set while an index on the
    expression is filled; only the fill's vectors use it, and `many`, which raises nothing."""

    position: int
    reads: tuple[int, ...]
    value: Callable[[Sequence[Value]], Value]
    strict: Callable[[Sequence[Value]], Value] | None = None
    many: Many | None = None


Evaluator = Callable[[TableInfo], tuple[VirtualStep, ...]]


@cache
def evaluator_named(name: str) -> Evaluator:
    """The function of that name. Raises Broken where none was wired."""
    found: Evaluator = getattr(*_evaluator(name))
    return found


@cache
def computations_named(name: str) -> Callable[[TableInfo], dict[int, Computation]]:
    """What stands beside an evaluator: it tells how COMPUTED columns are filled, by position."""
    module, _ = _evaluator(name)
    found: Callable[[TableInfo], dict[int, Computation]] = module.computations
    return found


def _evaluator(name: str) -> tuple[Any, str]:
    module, _, function = name.partition(":")
    if not function:
        raise Broken("a table with generated columns is read where no evaluator is wired")
    return import_module(module), function


class VirtualColumns:
    """The virtual columns of one table."""

    def __init__(self, info: TableInfo, evaluator: str) -> None:
        self.steps = evaluator_named(evaluator)(info)
        self.positions = frozenset(step.position for step in self.steps)

    def fill(self, row: Row) -> Row:
        """The row itself, its virtual columns computed."""
        return _computed(self.steps, row)

    def only(self, positions: Iterable[int]) -> tuple[VirtualStep, ...]:
        """The steps that compute the columns at these positions, and what they need first."""
        wanted = self.needed(positions)
        return tuple(step for step in self.steps if step.position in wanted)

    def needed(self, positions: Iterable[int]) -> set[int]:
        """These positions and all that their expressions read."""
        wanted = set(positions)
        for step in reversed(self.steps):
            if step.position in wanted:
                wanted.update(step.reads)
        return wanted


def _computed(steps: Sequence[VirtualStep], row: Row) -> Row:
    for step in steps:
        row[step.position] = step.value(row)
    return row


def _computing(decode: Decode, steps: Sequence[VirtualStep]) -> Decode:
    return lambda payload: _computed(steps, decode(payload))


# -- table -----------------------------------------------------------------------------------------

__all__ = ["IndexForm", "Table", "with_layout"]

CUT_HANDLES = (
    2  # common_handle_version: a key's prefixes are those of its handles; 1 keeps it whole
)


Entries = Sequence[tuple[bytes, bool]]


class IndexForm:
    """One index, ready to make keys. `positions` are those of its parts in the table's columns.
    `array`: which of them is an array, in a multi-valued index.

    `part`: what its entries have before a row's handle: nothing; of a global index the partition's
    id. For the logical table, whose handles begin with it, nothing either."""

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
        """Whether its entries are certainly the same in both rows: they have the same objects.
        Values that are only equal may have keys of their own."""
        if self._encode_one is not None:
            return old[self._only] is new[self._only]
        return all(old[position] is new[position] for position in self._watched)

    def entries(self, row: Row, handle: bytes) -> Entries:
        """The keys of the row's entries, each once, and whether each is a unique one (no part is
        NULL): then it does not end in the handle.

        None where a partial index does not hold the row; in a multi-valued one as many as its
        array has elements."""
        if self._encode_one is not None:
            return ((self.prefix + self._encode_one(row[self._only]) + handle, False),)
        if self.predicate is not None and not self.predicate.holds(row):
            return ()
        values = [row[position] for position in self.positions]
        if self.wraps:
            values = [wrapped(v, kind) for v, kind in zip(values, self.types, strict=True)]
        if self.array is None:
            return (self._entry(values, handle),)
        found = []
        for element in elements(values[self.array], self.types[self.array]):
            values[self.array] = element
            found.append(self._entry(values, handle))
        return found

    def _entry(self, values: Sequence[Value], handle: bytes) -> tuple[bytes, bool]:
        encoded = self.keys.encode(values)
        if self.unique and None not in values:
            return self.prefix + encoded, True
        return self.prefix + encoded + self.part + handle, False

    def payload(self, handle: bytes) -> bytes:
        """What a unique entry of the row of this handle holds."""
        return LIVE + self.part + handle


def state_for_writers(index: IndexInfo, table: TableInfo) -> SchemaState:
    """Its state. A local one of a pair is that of one set of partitions alone, and kept like all
    that lies there."""
    found = table.partition
    is_apart = found is not None and not index.is_global and bool(found.paired_with(index.id))
    return SchemaState.PUBLIC if is_apart else index.state


def _predicate(table: TableInfo, index: IndexInfo) -> Predicate | None:
    terms = index.exuvia_predicate
    if not terms:
        return None
    positions = [_position(table, term.exuvia_column, term.name.L) for term in terms]
    return Predicate(terms, positions, [table.cols[position].type for position in positions])


class ComputingDecoder(RowDecoder):
    """Rows of a table with virtual columns."""

    def __init__(
        self, layout: Layout, columns: tuple[ColumnInfo, ...], virtual: VirtualColumns
    ) -> None:
        super().__init__(layout, columns)
        self._virtual = virtual

    def decode(self, payload: bytes) -> Row:
        """The row, with what is computed."""
        return self._virtual.fill(super().decode(payload))


def _position(table: TableInfo, column_id: int, name: str) -> int:
    for position, column in enumerate(table.cols):
        if column.id == column_id or (not column_id and name == column.name.L):
            return position
    raise Broken(f"table {table.name.O} has an index on a column it has not")


MOST_DECODINGS = 64
PART_BYTES = 8
"""Of a partition's id, where handles begin with it."""


class Table:
    """See the module. Thread-safe: what is made later is made from what never changes."""

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
        self.plans: dict[int, object] = {}  # of catalog/codec/row_batch.py, by layout
        self.kept: dict[str, Any] = {}  # what higher layers made of it once
        self.is_partitioned = info.partition is not None and not physical_id
        self.route: Any = None  # of sql/access/partitions.py, made once
        self._parts: dict[int, Table] = {}

    @cached_property
    def marks(self) -> tuple[tuple[bytes, bytes], tuple[bytes, bytes]]:
        """Where its revision and its database's stand, and what stands there while it is this."""
        return (
            (keys.revision(self.info.id), keys.number(self.revision)),
            (keys.database_revision(self.database.id), keys.number(self.database_revision)),
        )

    @cached_property
    def place(self) -> tuple[str, str] | None:
        """Under which database and name, in lower case, clients find it; None while they do not."""
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
        """Where the column of that name stands in rows. Raises KeyError."""
        return self._positions[name.lower()]

    @cached_property
    def as_read(self) -> TableInfo:
        """Its info without what only writers and jobs know: indexes that are not public yet or any
        more, the greatest id of an index, when it was changed."""
        public = tuple(i for i in self.info.indexes if i.state == SchemaState.PUBLIC)
        return replace(self.info, index_info=public, max_idx_id=0, update_timestamp=0)

    def reads_as(self, other: "Table") -> bool:
        """Whether this revision is read as that one: by the same names, columns, layouts, keys."""
        return self._same_apart_from_info(other) and self.as_read == other.as_read

    @cached_property
    def _as_stored(self) -> TableInfo:
        clustered = tuple(i for i in self.as_read.indexes if i.exuvia_clustered)
        columns = tuple(
            replace(each, type=replace(each.type, Flag=each.type.Flag & ~_KEY_FLAGS))
            for each in self.info.cols
        )
        return replace(self.as_read, cols=columns, index_info=clustered)

    def stores_as(self, other: "Table") -> bool:
        """Whether it is read as that one but for secondary indexes, and flags that tell of them."""
        return self._same_apart_from_info(other) and self._as_stored == other._as_stored

    def _same_apart_from_info(self, other: "Table") -> bool:
        """Whether all that their infos do not hold is the same."""
        return (
            self.physical_id == other.physical_id
            and self.evaluator == other.evaluator
            and self.database == other.database
        )

    # -- partitions --------------------------------------------------------------------------------

    def part(self, physical_id: int) -> "Table":
        """One partition: the same table, its keys under that id."""
        found = self._parts.get(physical_id)
        if found is None:
            facts = self.info, self.revision, self.database, self.database_revision
            found = self._parts[physical_id] = Table(*facts, self.evaluator, physical_id)
        return found

    @cached_property
    def parts(self) -> "tuple[Table, ...]":
        """What readers read: its partitions in order, or itself."""
        if self.info.partition is None or not self.is_partitioned:
            return (self,)
        return tuple(self.part(each.id) for each in self.info.partition.definitions)

    @cached_property
    def dead(self) -> frozenset[bytes]:
        """The partitions whose entries in global indexes count as absent, as handles begin."""
        found = self.info.partition
        return frozenset(map(keys.u64, found.dead)) if found is not None else frozenset()

    def holder(self, form: IndexForm, handle: bytes) -> "tuple[Table, bytes]":
        """The physical table of the row that an entry names, and the row's handle there."""
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
        """The other set of its rows, while its primary key changes, as the one that is read; of a
        partition the same one there. Raises Broken where there is none."""
        if self.info.exuvia_rekey is None:
            raise Broken(f"the primary key of table {self.info.name.O} does not change")
        is_part = self.info.partition is not None and not self.is_partitioned
        physical_id = self.info.rekeyed_id(self.physical_id) if is_part else 0
        facts = self.revision, self.database, self.database_revision, self.evaluator
        return Table(self.info.rekeyed, *facts, physical_id)

    @cached_property
    def other(self) -> "Table | None":
        """Its rows under their other handles, while its primary key changes and writers owe that
        set something: as a table whose key does not change."""
        if self.info.exuvia_rekey is None:
            return None
        found = self.rekeyed
        info = replace(found.info, exuvia_rekey=None)
        facts = self.revision, self.database, self.database_revision, self.evaluator
        return Table(info, *facts, 0 if found.is_partitioned else found.physical_id)

    @cached_property
    def other_adds(self) -> bool:
        """Whether writers put rows there, too."""
        found = self.info.exuvia_rekey
        assert found is not None
        return found.state == SchemaState.DELETE_REORG or DUTIES[found.state].adds

    @cached_property
    def guard(self) -> IndexForm | None:
        """The unique index on the key that comes, or is dropped, where it is this set's: it tells a
        row's handle."""
        found = self.info.exuvia_rekey
        return None if found is None else self._forms.get(found.guard)

    @cached_property
    def other_guard(self) -> IndexForm | None:
        """Likewise, where it is the other set's."""
        found, other = self.info.exuvia_rekey, self.other
        return None if found is None or other is None else other._forms.get(found.guard)

    @cached_property
    def other_keys(self) -> tuple[IndexForm, ...]:
        """Unique indexes of the other set that this one has not, but guards: its rows must obey
        them too. (Of a global index each set has its own, unless it is a primary key.)"""
        found, other = self.info.exuvia_rekey, self.other
        if found is None or other is None:
            return ()
        known = {found.guard, found.key_guard, *(index.id for index in self.info.indexes)}
        return tuple(
            form
            for form in other.forms
            if form.unique
            and form.info.id not in known
            and (form.info.is_primary or not form.info.is_global)
        )

    # -- where things are --------------------------------------------------------------------------

    @cached_property
    def log_prefix(self) -> bytes:
        """Prefix of its change log; empty where writers owe it none."""
        logged = DUTIES[self.info.exuvia_change_log].adds
        return keys.log_prefix(self.physical_id, self.info.exuvia_change_log_id) if logged else b""

    def row_span(self) -> Span:
        return keys.span_of(self.row_prefix)

    def index_span(self, index: IndexInfo) -> Span:
        """All entries of an index: of a global one those of all partitions."""
        under = self.info.home if index.is_global else self.physical_id
        return keys.span_of(keys.index_prefix(under, index.id))

    # -- rows --------------------------------------------------------------------------------------

    @cached_property
    def layout(self) -> Layout:
        """The layout of rows written under this revision. Raises Broken if `with_layout` was
        forgotten."""
        found = layout_of(self.info)
        if found is None:
            raise Broken(f"table {self.info.name.O} has no layout for the columns it writes")
        return found

    @cached_property
    def encoder(self) -> RowEncoder:
        return RowEncoder(self.layout, self.info.cols)

    def decode(self, payload: bytes) -> Row:
        """A payload of any layout to a row."""
        layout_id = payload[0] | payload[1] << 8
        decoder = self._decoders.get(layout_id) or self._decoder(layout_id)
        return decoder.decode(payload)

    def decoding(self, used: Iterable[int] | None = None) -> Decode:
        """What decodes payloads of any layout as `decode` does, faster where there are many. Where
        only some columns are `used`, the others may be None: a virtual one is not computed."""
        columns = self.info.cols
        positions = tuple(range(len(columns)) if used is None else sorted(set(used)))
        found = self._straight.get(positions)
        if found is None:
            layout = layout_of(self.info)
            virtual = self.virtual
            steps = () if virtual is None else virtual.only(positions)
            found = self.decode if virtual is None else self._stored
            if layout is not None and len(columns) <= MOST_STRAIGHT:
                read = positions if virtual is None else sorted(virtual.needed(positions))
                found = straight(layout, columns, read, found)
            if steps:
                found = _computing(found, steps)
            if len(self._straight) >= MOST_DECODINGS:  # other plans have them still
                self._straight.clear()
            self._straight[positions] = found
        return found

    def _stored(self, payload: bytes) -> Row:
        """As `decode`, but its virtual columns are not computed."""
        layout_id = payload[0] | payload[1] << 8
        decoder = self._decoders.get(layout_id) or self._decoder(layout_id)
        return RowDecoder.decode(decoder, payload)

    def selecting(self, positions: Sequence[int]) -> Select:
        """What makes rows of payloads, as `decode` does, with the values at these positions, in
        that order, and no others. Not kept here: it is its plan's."""

        def other(payload: bytes) -> Row:
            row = self.decode(payload)
            return [row[position] for position in positions]

        columns, layout = self.info.cols, layout_of(self.info)
        if layout is None or self.virtual is not None or len(columns) > MOST_STRAIGHT:
            return lambda payloads: list(map(other, payloads))
        return selecting(layout, columns, positions, other)

    def _decoder(self, layout_id: int) -> RowDecoder:
        layout, columns = self.layout_by_id(layout_id), self.info.cols
        if self.virtual is None:
            made = RowDecoder(layout, columns)
        else:
            made = ComputingDecoder(layout, columns, self.virtual)
        self._decoders[layout_id] = made
        return made

    def learn(self, later: TableInfo) -> None:
        """Layouts of a later revision: rows that this plan's own transaction wrote under it."""
        self._later = later.exuvia_layouts
        for part in self._parts.values():
            part.learn(later)

    def layout_by_id(self, layout_id: int) -> Layout:
        """That layout. One we do not know was made by a later revision: SchemaChanged."""
        for layout in (*self.info.exuvia_layouts, *self._later):
            if layout.id == layout_id:
                return layout
        raise SchemaChanged(keys.revision(self.info.id))

    @cached_property
    def hidden(self) -> tuple[tuple[int, Value, bool, int], ...]:
        """(position, value, kept on update, of whose former values) of each column that clients do
        not write. The last is the position of a column that they do, -1 for none.

        A column in a state that does not add is not in the layout and reads as its origin default,
        so that is its value."""
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
        """What writers owe columns whose type is changing."""
        return changes_of(self.info, self._computations)

    @cached_property
    def coming_changes(self) -> tuple[ColumnChange, ...]:
        """What writers one state ahead owe such columns, and this plan does not yet."""
        return coming_changes_of(self.info, self._computations)

    @cached_property
    def _computations(self) -> Mapping[int, Computation]:
        """Of hidden columns that are COMPUTED."""
        if not any(COMPUTED in (each.change_state_info or {}) for each in self.info.cols):
            return {}
        return computations_named(self.evaluator)(self.info)

    @cached_property
    def numbered(self) -> int:
        """The position of a hidden column that gets AUTO_INCREMENT ids, -1 for none."""
        found = (
            n
            for n, each in enumerate(self.info.cols)
            if NUMBERED in (each.change_state_info or {}) and DUTIES[each.state].adds
        )
        return next(found, -1)

    @cached_property
    def virtual(self) -> VirtualColumns | None:
        """How its virtual columns are computed; None where it has none."""
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
        """Positions of the columns the handle is made of; empty for a hidden row id."""
        if self.clustered is not None:
            parts = self.clustered.idx_cols
            return tuple(_position(self.info, p.exuvia_column, p.name.L) for p in parts)
        if not self.info.pk_is_handle:
            return ()
        found = [n for n, c in enumerate(self.info.cols) if c.type.Flag & Flag.PRI_KEY]
        return tuple(found[:1])

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
        """Characters that a common handle keeps of each part, -1 for all."""
        if self.clustered is None or self.info.common_handle_version < CUT_HANDLES:
            return (-1,) * len(self.handle_positions)
        return tuple(part.length for part in self.clustered.idx_cols)

    @property
    def handle_is_faithful(self) -> bool:
        """Whether the primary key's values can be read back from a handle."""
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
        """The indexes a writer owes something: of a partition those that hold rows of it."""
        cut = self.info.partition
        is_part = cut is not None and not self.is_partitioned
        apart = cut.without_rows_of(self.physical_id) if cut is not None and is_part else ()
        forms = self._forms.values()
        return tuple(form for form in forms if form.duty.removes and form.info.id not in apart)

    @cached_property
    def forms_not_added(self) -> tuple[IndexForm, ...]:
        """Those of them that get no entries: nearly always none."""
        return tuple(form for form in self.forms if not form.duty.adds)

    def form(self, index: IndexInfo) -> IndexForm:
        """An index's form, in any state. Raises KeyError for a clustered primary key, which has no
        entries."""
        return self._forms[index.id]
