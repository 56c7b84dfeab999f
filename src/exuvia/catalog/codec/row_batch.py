"""Many rows at once: stored bytes to columns and back, by layout, without a Python object for each
value.

    raws of one layout   [seq 8][head: layout id, nulls, fixed columns, ends][variable bytes]
                             |                                                |
      heads cut out          v         fixed column = a view of one           v   raws joined once
                         structured array          value i = row start + head + ends, as Arrow views

    all of one length    raws joined are a matrix: head and value are slices of it
    layouts mixed        grouped by layout id, decoded separately, restored to their order
    type changed since   cast value by value (catalog/convert): rows from before a MODIFY COLUMN
    column added since   its origin default
    virtual column       its inputs by column, its expression row by row (decision 009), only if
                         the column is requested

The row codec (row_codec.py) defines the encoding; tests/catalog compares both for every type.
"""

from collections.abc import Sequence
from decimal import Decimal
from operator import add
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from exuvia.base.mysql_errors import ErrBadNull
from exuvia.base.types import Family, FieldType
from exuvia.catalog import decimals
from exuvia.catalog.codec.key_batch import index_keys
from exuvia.catalog.codec.row_codec import SIZES, Shape, cast_of, storage_of, stored_alike
from exuvia.catalog.columns import (
    DTYPES,
    Array,
    Columns,
    Keys,
    Vector,
    arrow_type,
    constant,
    mixed,
    to_arrow,
    vector_of,
)
from exuvia.catalog.convert.values import default_of, origin_default_of
from exuvia.catalog.model import TableInfo
from exuvia.catalog.table import Table, VirtualColumns
from exuvia.kv.keys import HANDLE_AT
from exuvia.kv.packet import Padded, RawRun

__all__ = ["Columns", "Vector", "decode", "encode", "index_keys", "to_arrow", "with_column"]

_INLINE = 12  # bytes stored inside an Arrow view
_SHORT = 1024  # below this length, joining rows is cheaper than slicing them
_MOST_BYTES = 1 << 31


def decode(
    table: Table,
    keys: list[bytes] | RawRun,
    raws: list[bytes] | RawRun,
    skip: int,
    positions: Sequence[int] | None = None,
) -> Columns:
    """Rows from the store's chunks or pieces, as columns at `positions` (all by default).

    Without `keys`, columns have no handles. `skip`: bytes before each payload (kv/packet.py).
    Raises SchemaChanged for a row of a later revision's layout."""
    requested = range(len(table.info.cols)) if positions is None else positions
    groups = _groups(table, raws, skip)
    virtual = table.virtual

    def make(columns: Columns, position: int) -> Vector:
        if virtual is not None and position in virtual.positions:
            return virtual_vector(table.info, virtual, position, columns)
        if len(groups) == 1:
            return groups[0].column(position)
        parts = [(group.at, group.column(position)) for group in groups]
        if not parts:
            return vector_of([], table.info.cols[position].type)
        return mixed(parts, len(raws))

    def padded(position: int) -> Padded | None:
        return groups[0].padded(position) if len(groups) == 1 else None

    fields = [table.info.cols[position].type for position in requested]
    names = [table.info.cols[position].name.O for position in requested]
    return Columns(fields, names, requested, handles_of(table, keys), make, len(raws), padded)


def beginnings(table: Table, run: RawRun, skip: int, position: int, size: int) -> Array | None:
    """The first `size` bytes of each value of a text column, with zeros after shorter ones and for
    NULL: shape (n, size), uint8.

    None if not all rows have one layout with the column's current type."""
    groups = _groups(table, run, skip)
    return groups[0].beginnings(position, size) if len(groups) == 1 else None


def handles_of(table: Table, keys: list[bytes] | RawRun) -> Keys:
    """The handles at the end of these row keys."""
    if table.info.is_common_handle:
        return [key[HANDLE_AT:] for key in (keys.keys() if isinstance(keys, RawRun) else keys)]
    if isinstance(keys, RawRun):
        return keys.cut(keys.key_at + HANDLE_AT, keys.key_lengths - HANDLE_AT)
    width = HANDLE_AT + 8
    whole = np.frombuffer(b"".join(keys), dtype=[("prefix", f"V{HANDLE_AT}"), ("handle", "V8")])
    assert whole.dtype.itemsize == width
    handles: Array = np.ascontiguousarray(whole["handle"])
    return handles


def handles_of_run(table: Table, run: RawRun) -> Keys:
    """The handles at the end of the row keys of a run."""
    if table.info.is_common_handle:
        keys = run.keys()
        return [key[HANDLE_AT:] for key in keys]
    return _Joined.of(run, 0).cut(run.key_at + HANDLE_AT, 8)


def _groups(table: Table, raws: list[bytes] | RawRun, skip: int) -> list["_Group"]:
    if not len(raws):
        return []
    if isinstance(raws, RawRun):
        joined = _Joined.of(raws, skip)
        first = int(joined.heads(2, 1).view("<u2")[0])
        alone = _Group.of_joined(table, first, joined)
        if alone is not None:
            return [alone]
        ids = joined.heads(2).view("<u2")
        groups = []
        for layout_id in np.unique(ids).tolist():
            at = np.flatnonzero(ids == layout_id)
            group = _Group.of_joined(table, layout_id, _Joined.of(raws.take(at), skip))
            if group is None:
                raise AssertionError("rows of one layout id have heads of one layout")
            group.at = at
            groups.append(group)
        return groups
    return _groups_of_list(table, raws, skip)


def _groups_of_list(table: Table, raws: list[bytes], skip: int) -> list["_Group"]:
    single = _Group.of(table, layout_id_of(raws[0], skip), raws, skip)
    if single is not None:
        return [single]
    ids = layouts_of(raws, skip)
    groups = []
    for layout_id in np.unique(ids).tolist():
        at = np.flatnonzero(ids == layout_id)
        group = _Group.of(table, layout_id, [raws[n] for n in at.tolist()], skip)
        if group is None:
            raise AssertionError("rows of one layout id have heads of one layout")
        group.at = at
        groups.append(group)
    return groups


def layouts_of(raws: list[bytes] | RawRun, skip: int) -> Array:
    """The layout id of each row. Shape (n,), uint16."""
    if isinstance(raws, RawRun):
        return _Joined.of(raws, skip).heads(2).view("<u2")
    heads = b"".join([raw[skip : skip + 2] for raw in raws])
    return np.frombuffer(heads, dtype="<u2")


def layout_id_of(raw: bytes, skip: int) -> int:
    """The layout id of a stored row."""
    return raw[skip] | raw[skip + 1] << 8


class _Plan:
    """The numpy dtype of a layout's head, and the places of its columns."""

    def __init__(self, table: Table, layout_id: int) -> None:
        layout = table.layout_by_id(layout_id)
        self.is_later = layout not in table.info.exuvia_layouts
        shape = Shape(layout)
        names = ["layout", "nulls"]
        formats: list[Any] = ["<u2", (np.uint8, (shape.bitmap_bytes,))]
        offsets = [0, 2]
        for n, code in enumerate(shape.codes):
            names.append(f"f{n}")
            formats.append(DTYPES[code])
            offsets.append(shape.offset_of(n))
        if shape.variable:
            names.append("ends")
            formats.append(("<u4", (len(shape.variable),)))
            offsets.append(shape.ends_at)
        self.head_bytes = shape.head_bytes
        self.dtype = np.dtype(
            {"names": names, "formats": formats, "offsets": offsets, "itemsize": shape.head_bytes}
        )
        self.places: dict[int, tuple[int, str, int, FieldType]] = {}
        for k, (n, column) in enumerate(shape.fixed):
            self.places[column.column] = (n, f"f{k}", 0, column.type)
        for k, (n, column) in enumerate(shape.variable):
            self.places[column.column] = (n, "", k, column.type)


class _Joined:
    """Concatenated rows: `data`, and where each begins in it.

    `width`: the common width, if all rows have one and are adjacent; else 0."""

    def __init__(self, data: Any, starts: Array, shortest: int, width: int, skip: int) -> None:
        self.data = data
        self.starts = starts
        self.shortest = shortest
        self.width = width
        self.skip = skip

    @classmethod
    def joined(cls, raws: list[bytes], skip: int) -> "_Joined":
        """The concatenation of a list of rows."""
        lengths = np.fromiter(map(len, raws), dtype=np.int64, count=len(raws))
        shortest = int(lengths.min())
        width = shortest if shortest == int(lengths.max()) else 0
        return cls(b"".join(raws), np.cumsum(lengths) - lengths, shortest, width, skip)

    @classmethod
    def of(cls, run: RawRun, skip: int) -> "_Joined":
        """Rows that are adjacent already."""
        return cls(run.data, run.at, int(run.lengths.min()), 0, skip)

    @property
    def matrix(self) -> Array:
        """Rows of one width. Shape (n, width), uint8."""
        return np.frombuffer(self.data, np.uint8).reshape(-1, self.width)

    @property
    def padded(self) -> Array:
        """The data, followed by at least _INLINE bytes. Shape (n,), uint8."""
        if isinstance(self.data, np.ndarray):
            return self.data
        return np.frombuffer(self.data + bytes(_INLINE), dtype=np.uint8)

    def heads(self, size: int, most: int | None = None) -> Array:
        """The first `size` bytes of each payload, of at most `most` payloads. Shape (n * size,),
        uint8, or (n,), V<size>."""
        if self.width:
            return np.ascontiguousarray(self.matrix[:, self.skip : self.skip + size])
        return self.cut(self.starts[:most] + self.skip, size)

    def cut(self, starts: Array, size: int) -> Array:
        """`size` bytes from each of these positions on. Shape (n,), V<size>."""
        places = len(self.data) - size + 1
        windows: Array = np.ndarray((places,), f"V{size}", self.data, strides=(1,))
        cells: Array = windows[starts]
        return cells


def _heads(raws: list[bytes], size: int, skip: int) -> tuple[memoryview | bytes, _Joined | None]:
    """The heads of rows, and the concatenated rows if that was the cheapest way."""
    end = skip + size
    if len(raws[0]) <= _SHORT:
        joined = _Joined.joined(raws, skip)
        if joined.shortest >= end:
            return joined.heads(size).data, joined
    return b"".join([raw[skip:end] for raw in raws]), None


class _Group:
    """Rows of one layout. `at`: their positions among all rows."""

    def __init__(
        self,
        table: Table,
        plan: _Plan,
        raws: list[bytes] | None,
        skip: int,
        heads: Array,
        joined: _Joined | None,
    ) -> None:
        self.at: Array = np.arange(0)
        self._table = table
        self._plan = plan
        self._raws = raws
        self._skip = skip
        self._heads = heads
        self._joined = joined
        self._has_nulls = bool(heads["nulls"].any())

    @classmethod
    def of(cls, table: Table, layout_id: int, raws: list[bytes], skip: int) -> "_Group | None":
        """The rows as a group, or None if not all of them have that layout."""
        plan = plan_of(table, layout_id)
        cut, joined = _heads(raws, plan.head_bytes, skip)
        size = cut.nbytes if isinstance(cut, memoryview) else len(cut)
        if size != len(raws) * plan.head_bytes:
            return None
        heads = np.frombuffer(cut, dtype=plan.dtype)
        if not (heads["layout"] == layout_id).all():
            return None
        return cls(table, plan, raws, skip, heads, joined)

    @classmethod
    def of_joined(cls, table: Table, layout_id: int, joined: _Joined) -> "_Group | None":
        """The rows as a group, or None if not all of them have that layout."""
        plan = plan_of(table, layout_id)
        if joined.shortest < joined.skip + plan.head_bytes:
            return None
        heads = joined.heads(plan.head_bytes).view(plan.dtype)
        if not (heads["layout"] == layout_id).all():
            return None
        return cls(table, plan, None, joined.skip, heads, joined)

    def column(self, position: int) -> Vector:
        """One column of these rows, with the table's current type."""
        column = self._table.info.cols[position]
        place = self._plan.places.get(column.id)
        if place is None:
            return constant(origin_default_of(column), column.type, len(self._heads))
        number, name, variable, field = place
        nulls = self._nulls(number)
        if name:
            stored = Vector(field, np.ascontiguousarray(self._heads[name]), nulls)
        else:
            stored = Vector(field, self._texts(variable, field, nulls), nulls)
        cast = cast_of(field, column.type, later=self._plan.is_later)
        if cast is None:
            return Vector(column.type, stored.values, nulls)
        values = [None if v is None else cast(v) for v in stored.to_list()]
        return vector_of(values, column.type)

    def with_column(
        self, shape: Shape, column_id: int, new: Vector, run: RawRun
    ) -> list[bytes] | None:
        """The rows, which are adjacent in the run, in that layout; see the function
        `with_column`."""
        if len(run.data) >= _MOST_BYTES:
            return None
        rows, places = len(self._heads), self._plan.places
        head: Array = np.zeros((rows, shape.head_bytes), dtype=np.uint8)
        head[:, :2] = np.frombuffer(shape.layout.id.to_bytes(2, "little"), np.uint8)
        self._move_fixed(head, shape, column_id, new)
        if not shape.variable:
            return _cut_rows(head)
        old: Array = np.zeros((rows, 1), np.int64)
        if "ends" in (self._heads.dtype.names or ()):
            old = np.concatenate([old, self._heads["ends"]], axis=1)  # as i64: starts and ends
        new_texts = None
        lengths: Array = np.empty((rows, len(shape.variable)), np.int64)
        pieces: list[list[int]] = []  # [first, last + 1] of old texts; [] the new one
        for n, (_, column_) in enumerate(shape.variable):
            if column_.column == column_id:
                new_texts = _variable(new.values)
                lengths[:, n] = np.asarray(pc.binary_length(new_texts))
                pieces.append([])
                continue
            at = places[column_.column][2]
            lengths[:, n] = old[:, at + 1] - old[:, at]
            if pieces and pieces[-1][1:] == [at]:
                pieces[-1][1] = at + 1
            else:
                pieces.append([at, at + 1])
        ends = np.cumsum(lengths, axis=1).astype("<u4")
        head[:, shape.ends_at :] = ends.view(np.uint8).reshape(rows, -1)
        begin = run.at + self._skip + self._plan.head_bytes
        cells: list[Keys] = []
        for piece in pieces:
            if piece:
                size = old[:, piece[1]] - old[:, piece[0]]
                cells.append(run.padded(begin + old[:, piece[0]], size))
            else:
                assert new_texts is not None
                cells.append(_padded(new_texts))
        return _side_by_side(head, cells)

    def _move_fixed(self, head: Array, shape: Shape, column_id: int, new: Vector) -> None:
        """Write nulls and fixed columns into the heads."""
        places, fields = self._plan.places, self._plan.dtype.fields
        assert fields is not None
        old = self._heads.view(np.uint8).reshape(len(head), self._plan.head_bytes)
        for number, column_ in enumerate(shape.layout.columns):
            nulls = (
                new.nulls if column_.column == column_id else self._nulls(places[column_.column][0])
            )
            if nulls is not None:
                head[:, 2 + number // 8] |= (nulls << number % 8).astype(np.uint8)
        for n, (_, column_) in enumerate(shape.fixed):
            start, width = shape.offset_of(n), SIZES[shape.codes[n]]
            if column_.column == column_id:
                cells = np.ascontiguousarray(new.values).view(np.uint8).reshape(len(head), width)
                if new.nulls is not None:
                    cells = np.where(new.nulls[:, None], np.uint8(0), cells)
            else:
                at = fields[places[column_.column][1]][1]
                cells = old[:, at : at + width]
            head[:, start : start + width] = cells

    def _nulls(self, number: int) -> Array | None:
        if not self._has_nulls:
            return None
        bits: Array = self._heads["nulls"][:, number >> 3] & (1 << (number & 7)) != 0
        return bits if bits.any() else None

    def _places(self, variable: int) -> tuple[_Joined, Array, Array, Array]:
        """The concatenated rows, and for each value of a variable column its start, its length, and
        its distance from the row's head."""
        if self._joined is None:
            assert self._raws is not None, "rows that are not joined are a list"
            self._joined = _Joined.joined(self._raws, self._skip)
        ends = self._heads["ends"]
        begin = ends[:, variable - 1].astype(np.int64) if variable else np.zeros(len(ends), "i8")
        lengths = ends[:, variable].astype(np.int64) - begin
        starts = self._joined.starts + self._skip + self._plan.head_bytes + begin
        return self._joined, starts, lengths, begin

    def beginnings(self, position: int, size: int) -> Array | None:
        """The first `size` bytes of a text column, with zeros after shorter ones and for NULL:
        shape (n, size), uint8. None if the stored type is not the current one."""
        column = self._table.info.cols[position]
        place = self._plan.places.get(column.id)
        if place is None or place[1] or cast_of(place[3], column.type) is not None:
            return None
        joined, starts, lengths, _ = self._places(place[2])
        if size > RawRun.PADDING:
            raise AssertionError("no more than the padding after the data")
        first_bytes: Array = joined.cut(starts, size).view(np.uint8).reshape(-1, size)
        if int(lengths.min()) < size:
            first_bytes[np.arange(size) >= lengths[:, None]] = 0
        return first_bytes

    def padded(self, position: int) -> Padded | None:
        """See `Columns.padded`."""
        column = self._table.info.cols[position]
        place = self._plan.places.get(column.id)
        if place is None or place[1] or cast_of(place[3], column.type) is not None:
            return None
        joined, starts, lengths, _ = self._places(place[2])
        if self._nulls(place[0]) is not None:
            return None
        return Padded.if_wise(joined.padded, starts, lengths)

    def _texts(self, variable: int, field: FieldType, nulls: Array | None) -> pa.Array:
        joined, starts, lengths, begin = self._places(variable)
        if len(joined.data) >= _MOST_BYTES:
            pairs = zip(starts.tolist(), lengths.tolist(), strict=True)
            parts = [bytes(joined.data[start : start + length]) for start, length in pairs]
            gathered = pa.array(parts, type=pa.binary(), mask=nulls)
            return gathered.cast(arrow_type(field))
        if joined.width and nulls is None and _is_constant(begin) and _is_constant(lengths):
            start = int(starts[0])
            return _cells(joined.matrix[:, start : start + int(lengths[0])], field)
        width = int(lengths[0])
        if nulls is None and width and _is_constant(lengths):
            cells = joined.cut(starts, width).view(np.uint8).reshape(-1, width)
            return _cells(cells, field)
        return texts_of(joined.padded, starts, lengths, field, nulls)


def _padded(texts: pa.Array) -> Keys:
    """The bytes of texts without NULL, in the form of `RawRun.padded`."""
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    cells = np.frombuffer(b"" if data is None else data, np.uint8)
    cells_of_texts = Padded.if_wise(cells, ends[:-1], np.diff(ends))
    return list(texts.to_pylist()) if cells_of_texts is None else cells_of_texts


def _side_by_side(head: Array, cells: list[Keys]) -> list[bytes]:
    """Each row's head followed by its cells.

    One matrix as long as all have one width, with zeros after the last cell; else bytes."""
    blocks, last = [head], len(cells)
    for n, cell in enumerate(cells):
        if isinstance(cell, Padded) and n == len(cells) - 1:
            matrix = np.concatenate([*blocks, cell.matrix], axis=1)
            return Padded(matrix, cell.lengths + (matrix.shape[1] - cell.matrix.shape[1])).tolist()
        if not isinstance(cell, np.ndarray):
            last = n
            break
        blocks.append(cell.view(np.uint8).reshape(len(head), -1))
    joined_rows = _cut_rows(np.concatenate(blocks, axis=1))
    for cell in cells[last:]:
        joined_rows = list(map(add, joined_rows, cell if isinstance(cell, list) else cell.tolist()))
    return joined_rows


def _cut_rows(matrix: Array) -> list[bytes]:
    """The rows of a matrix of bytes."""
    return list(matrix.view(f"V{matrix.shape[1]}").reshape(len(matrix)).tolist())


def _is_constant(values: Array) -> bool:
    return bool((values == values[0]).all())


def _cells(cells: Array, field: FieldType) -> pa.Array:
    """Texts of one width as an Arrow array. Shape (n, width), uint8."""
    rows, width = cells.shape
    ends = np.arange(rows + 1, dtype=np.int32) * np.int32(width)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(np.ascontiguousarray(cells))]
    return pa.Array.from_buffers(arrow_type(field), rows, buffers)


def plan_of(table: Table, layout_id: int) -> _Plan:
    """The numpy plan of a layout, cached with the table."""
    plan = table.plans.get(layout_id)
    if not isinstance(plan, _Plan):
        plan = table.plans[layout_id] = _Plan(table, layout_id)
    return plan


def texts_of(
    padded: Array, starts: Array, lengths: Array, field: FieldType, nulls: Array | None
) -> pa.Array:
    """The texts at these positions of the data, as an Arrow array: views into the data first, then
    one copy by Arrow.

    The data is followed by at least _INLINE bytes that do not count. Source of a view's form: Arrow
    columnar format, "Variable-size Binary View Layout"."""
    rows = len(starts)
    places = len(padded) - _INLINE + 1
    windows = np.lib.stride_tricks.as_strided(padded, (places, _INLINE), (1, 1))
    head = windows[starts]
    head[np.arange(_INLINE) >= lengths[:, None]] = 0
    views = np.zeros((rows, 16), dtype=np.uint8)
    views[:, :4] = lengths.astype("<i4").view(np.uint8).reshape(rows, 4)
    views[:, 4:] = head
    far = np.flatnonzero(lengths > _INLINE)
    if len(far):
        views[far, 8:12] = 0
        views[far, 12:] = starts[far].astype("<i4").view(np.uint8).reshape(len(far), 4)
    validity = None
    if nulls is not None:
        validity = pa.py_buffer(np.packbits(~nulls, bitorder="little").tobytes())
    kind = arrow_type(field)
    view_type = pa.binary_view() if kind == pa.binary() else pa.string_view()
    buffers = [validity, pa.py_buffer(views), pa.py_buffer(padded)]
    return pa.Array.from_buffers(view_type, rows, buffers).cast(kind)


assert SIZES.keys() - {"I"} == DTYPES.keys(), "every stored form has a numpy type"


def virtual_vector(
    info: TableInfo, virtual: VirtualColumns, position: int, columns: Columns
) -> Vector:
    """The column at that position; `columns` has the stored columns it depends on."""
    needed = virtual.needed([position])
    steps = [step for step in virtual.steps if step.position in needed]
    stored = sorted(needed - virtual.positions)
    lists = [columns.column(stored_position).to_list() for stored_position in stored]
    if len(steps) == len(lists) == 1 and steps[0].many is not None:
        many_values = steps[0].many(lists[0])
        if many_values is not None:
            return vector_of(many_values, info.cols[position].type)
    rows = zip(*lists, strict=True) if lists else iter([()] * columns.rows)
    row: list[Any] = [None] * len(info.cols)
    results = []
    for values in rows:
        for at, value in zip(stored, values, strict=True):
            row[at] = value
        for step in steps:
            row[step.position] = (step.strict or step.value)(row)
        results.append(row[position])
    return vector_of(results, info.cols[position].type)


# -- Arrow columns to payloads ---------------------------------------------------------------------
#
# For bulk loads and rewrites.
#
#     family                      Arrow type                              form in the row
#     INT UINT ENUM SET BIT YEAR  integers                                 8 bytes
#     FLOAT                       numbers                                  8 bytes
#     DECIMAL                     decimals, integers, numbers              scaled, 8, 16 or 32 bytes
#     DATE                        date32, or integers packed already       4 bytes
#     DATETIME                    timestamps, or integers packed already   8 bytes
#     TIME                        durations, time64, or microseconds       8 bytes
#     STRING JSON BYTES           strings, binaries                        variable
#
# Heads of rows are a numpy matrix of bytes; Arrow joins it with the variable columns. Values are
# not checked: a load is for data that fits its columns. NULL in a NOT NULL column
# is refused.

_BINARY = pa.large_binary()
_PACK = {"q": "<i8", "Q": "<u8", "d": "<f8", "i": "<i4"}

ArrowColumn = Any


def encode(table: Table, columns: dict[str, ArrowColumn], rows: int) -> list[bytes]:
    """Payloads of `rows` rows.

    `columns` by lower-case name; a missing one has its default."""
    shape = Shape(table.layout)
    by_id = {column.id: column for column in table.info.cols}
    head: Array = np.zeros((rows, shape.head_bytes), dtype=np.uint8)
    head[:, :2] = np.frombuffer(shape.layout.id.to_bytes(2, "little"), np.uint8)
    arrow_columns = {}
    for number, column_ in enumerate(shape.layout.columns):
        info = by_id[column_.column]
        column = columns.get(info.name.L)
        column = _defaults(info, rows) if column is None else _one_array(column)
        if column.null_count:
            if info.not_null:
                raise ErrBadNull(info.name.O)
            nulls = np.asarray(column.is_null())
            head[:, 2 + number // 8] |= (nulls << number % 8).astype(np.uint8)
        arrow_columns[number] = column
    for place, (number, column_) in enumerate(shape.fixed):
        start, width = shape.offset_of(place), SIZES[shape.codes[place]]
        head[:, start : start + width] = _fixed(arrow_columns[number], column_.type, width)
    texts = [_variable(arrow_columns[number]) for number, _ in shape.variable]
    ends: Array = np.zeros(rows, dtype=np.uint32)
    for place, text in enumerate(texts):
        ends = ends + np.asarray(pc.binary_length(text)).astype(np.uint32)
        at = shape.ends_at + 4 * place
        head[:, at : at + 4] = ends.astype("<u4").view(np.uint8).reshape(rows, 4)
    return _payloads(head, texts)


def _one_array(column: ArrowColumn) -> pa.Array:
    if isinstance(column, pa.ChunkedArray):
        return column.combine_chunks()
    return column if isinstance(column, pa.Array) else pa.array(column)


def _defaults(info: Any, rows: int) -> pa.Array:
    value = default_of(info)
    return pa.nulls(rows) if value is None else pa.array([value] * rows)


def _payloads(head: Array, texts: list[pa.Array]) -> list[bytes]:
    rows, width = head.shape
    if not rows:
        return []
    offsets = np.arange(0, (rows + 1) * width, width, dtype=np.int64)
    heads = pa.Array.from_buffers(
        _BINARY, rows, [None, pa.py_buffer(offsets), pa.py_buffer(head.tobytes())]
    )
    if not texts:
        joined = heads
    else:
        nothing = pa.scalar(b"", _BINARY)
        joined = pc.binary_join_element_wise(heads, *texts, nothing)
    payloads: list[bytes] = joined.to_pylist()
    return payloads


def _variable(column: pa.Array) -> pa.Array:
    if pa.types.is_null(column.type):
        column = column.cast(pa.large_string())
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_string(column.type) or pa.types.is_string_view(column.type):
        column = column.cast(pa.large_string())
    return column.cast(_BINARY).fill_null(b"")


def _fixed(column: pa.Array, field: FieldType, width: int) -> Array:
    """The bytes of a fixed-width column. Shape (rows, width), uint8; zeros for NULL."""
    storage = storage_of(field)
    if storage.family == Family.DECIMAL:
        return _decimals(column, decimals.scale_of(field), width)
    numbers = _numbers(column, storage.family).astype(_PACK[storage.code])
    return numbers.view(np.uint8).reshape(len(numbers), width)


def _numbers(column: pa.Array, family: Family) -> Array:
    kind = column.type
    if pa.types.is_boolean(kind) or pa.types.is_null(kind):
        column = column.cast(pa.int64())
    if family == Family.DATE and pa.types.is_date(kind):
        days = _plain(column.cast(pa.date32()).cast(pa.int32()))
        return _zero_where_null(_packed_dates(days), column)
    if family == Family.DATETIME and (pa.types.is_timestamp(kind) or pa.types.is_date(kind)):
        # Microseconds since 1970 to the packed form of base/types.py
        micros = _plain(column.cast(pa.timestamp("us")).cast(pa.int64())).astype(np.int64)
        day_us = 86_400_000_000
        days, rest = micros // day_us, micros % day_us
        seconds, micro = rest // 1_000_000, rest % 1_000_000
        hour, minute, second = seconds // 3600, seconds // 60 % 60, seconds % 60
        packed: Array = _packed_dates(days) << 37 | hour << 32 | minute << 26 | second << 20 | micro
        return _zero_where_null(packed, column)
    if family == Family.TIME and not pa.types.is_integer(kind):
        unit = pa.duration("us") if pa.types.is_duration(kind) else pa.time64("us")
        column = column.cast(unit).cast(pa.int64())
    return _plain(column)


def packed_numbers(column: pa.Array, family: Family) -> Array:
    """Packed dates or date-times of rows (base/types.py), 0 for NULL."""
    return _numbers(column, family)


def _plain(column: pa.Array) -> Array:
    """Numbers as a numpy array, 0 for NULL."""
    filled = column.fill_null(0) if column.null_count else column
    return np.asarray(filled)


def _zero_where_null(packed: Array, column: pa.Array) -> Array:
    """The packed values with 0 for NULL; the number 0 is the first day of 1970."""
    return packed * np.asarray(column.is_valid()) if column.null_count else packed


def _packed_dates(days: Array) -> Array:
    """Days since 1970 as packed dates of base/types.py."""
    dates = days.astype("M8[D]")
    years, months = dates.astype("M8[Y]"), dates.astype("M8[M]")
    year = years.astype(np.int64) + 1970
    month = (months - years).astype(np.int64) + 1
    day = (dates - months).astype(np.int64) + 1
    packed: Array = year << 9 | month << 5 | day
    return packed


def _decimals(column: pa.Array, scale: int, width: int) -> Array:
    """Scaled little-endian integers. Shape (rows, width), uint8."""
    rows, kind = len(column), column.type
    if pa.types.is_null(kind):
        return np.zeros((rows, width), dtype=np.uint8)
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    if width > 16 or not (is_number or pa.types.is_decimal128(kind)):
        scaled = (
            0 if value is None else decimals.scaled(Decimal(value), scale)
            for value in column.to_pylist()
        )
        stored = b"".join(number.to_bytes(width, "little", signed=True) for number in scaled)
        return np.frombuffer(stored, np.uint8).reshape(rows, width)
    if pa.types.is_floating(kind):
        column = column.cast(pa.decimal128(38, scale), safe=False)
    whole = column.cast(pa.decimal128(38, scale)).fill_null(Decimal(0))
    raw = np.frombuffer(whole.buffers()[1], np.uint8)[
        whole.offset * 16 : (whole.offset + rows) * 16
    ]
    return raw.reshape(rows, 16)[:, :width]


# -- rows with one column more ---------------------------------------------------------------------
#
# A rewrite computes one column; the bytes of all others are moved from the old row:
#
#     old    [id][nulls][a][b][x][ends of s, t]      [s][t]       x: a dropped column
#     new    [id][nulls][a][b][new][ends of s, t]    [s][t]       a fixed one
#            [id][nulls][a][b][ends of s, t, new]    [s][t][new]  a text
#
# All heads are one matrix, and so are the rows where all are of one width.


def with_column(
    table: Table, run: RawRun, skip: int, column_id: int, new: Vector
) -> list[bytes] | None:
    """Payloads in the newest layout for rows without the column, with its new values.

    None if moving bytes is not enough: rows of several layouts, or a column that was added or
    changed its type since."""
    joined = _Joined.of(run, skip)
    layout_id = int(joined.heads(2, 1).view("<u2")[0])
    plan = plan_of(table, layout_id)
    shape = Shape(table.layout)
    others = [column_ for column_ in table.layout.columns if column_.column != column_id]
    places = plan.places
    if any(
        column_.column not in places or not stored_alike(places[column_.column][3], column_.type)
        for column_ in others
    ):
        return None
    group = _Group.of_joined(table, layout_id, joined)
    return None if group is None else group.with_column(shape, column_id, new, run)
