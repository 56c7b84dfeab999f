"""A row's bytes. A row names its layout, and layouts never change, so no change of a table rewrites
rows.

    [u16 layout id][null bitmap][fixed-width columns][u32 ends of variable columns][variable bytes]
                    1 bit each,  at static offsets,   counted from the first
                    low first    all little-endian    variable byte

    family                 fixed form            family                 variable form
    INT DATETIME TIME      int64                 STRING JSON            UTF-8
    UINT                   uint64                BYTES                  unchanged
    FLOAT                  float64
    DATE                   int32
    DECIMAL                8, 16, 32 byte scaled integer (catalog/decimals.py)

A NULL has its bit set, and zeros or no bytes. The store puts the 8 byte commit sequence in front.

    the row's layout                 the table now                  the value read
    has the column, stored equally   has it                         as stored
    has it, stored in another way    has it: its type was changed   cast from the layout's type
    lacks it                         has it: it was added later     its origin default
    has the column                   lacks it: it was dropped       none

Most rows have the newest layout and no NULL. `straight` builds a function for these rows and the
requested columns only. The first bytes identify them, one `struct` call reads the fixed columns,
and a list display builds the row. RowDecoder decodes all other rows, and is the reference.
"""

from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from functools import lru_cache
from itertools import accumulate, repeat
from operator import add
from struct import Struct
from types import CodeType
from typing import Any, NamedTuple

from exuvia.base.errors import Refused
from exuvia.base.types import Family, FieldType, Value
from exuvia.catalog import decimals
from exuvia.catalog.convert.values import convert, origin_default_of
from exuvia.catalog.model import DUTIES, ColumnInfo, Layout, LayoutColumn, TableInfo, evolve

Row = list[Value]
Change = Callable[[Value], Value]

SIZES = {"q": 8, "Q": 8, "d": 8, "i": 4, "16s": 16, "32s": 32, "I": 4}
_FIXED = {
    Family.INT: "q",
    Family.UINT: "Q",
    Family.FLOAT: "d",
    Family.DATE: "i",
    Family.DATETIME: "q",
    Family.TIME: "q",
}
_DECIMAL = {8: "q", 16: "16s", 32: "32s"}
TEXTS = (Family.STRING, Family.JSON)


class Storage(NamedTuple):
    """The stored form of a type. Values of types with equal forms need no cast."""

    family: Family
    code: str  # the code of struct; "" for a varying width
    scale: int = 0
    elements: tuple[str, ...] = ()


def storage_of(field: FieldType) -> Storage:
    """The storage of a type."""
    family = field.family
    if family == Family.DECIMAL:
        return Storage(family, _DECIMAL[decimals.width_of(field)], scale=decimals.scale_of(field))
    return Storage(family, _FIXED.get(family, ""), elements=field.Elems or ())


def stored_alike(one: FieldType, other: FieldType) -> bool:
    """Whether values of one type can be read as the other's. Elements of an ENUM or SET may be
    appended."""
    if one == other:
        return True
    a, b = storage_of(one), storage_of(other)
    shared = min(len(a.elements), len(b.elements))
    return a[:3] == b[:3] and a.elements[:shared] == b.elements[:shared]


def written_columns(info: TableInfo) -> tuple[ColumnInfo, ...]:
    """The columns that a writer stores: those whose state adds, except virtual ones."""
    return tuple(
        column for column in info.cols if DUTIES[column.state].adds and not column.is_virtual
    )


def layout_of(info: TableInfo) -> Layout | None:
    """The newest layout with exactly the written columns and their current stored forms, or
    None."""
    written = {column.id: column.type for column in written_columns(info)}
    for layout in reversed(info.exuvia_layouts):
        if len(layout.columns) == len(written) and all(
            column_.column in written and stored_alike(column_.type, written[column_.column])
            for column_ in layout.columns
        ):
            return layout
    return None


def with_layout(info: TableInfo) -> TableInfo:
    """The table with a layout for the written columns; unchanged if it has one."""
    if layout_of(info) is not None:
        return info
    last = max((layout.id for layout in info.exuvia_layouts), default=0)
    columns = tuple(LayoutColumn(column.id, column.type) for column in written_columns(info))
    return evolve(info, exuvia_layouts=(*info.exuvia_layouts, Layout(last + 1, columns)))


def brief_layouts(info: TableInfo) -> TableInfo:
    """The table with layouts as differences from the one before, if that is shorter.

    Otherwise each change would repeat all columns."""
    brief: list[Layout] = []
    before: Layout | None = None
    for layout in info.exuvia_layouts:
        brief.append(layout if before is None else _since(before, layout))
        before = layout
    return evolve(info, exuvia_layouts=tuple(brief))


def whole_layouts(info: TableInfo) -> TableInfo:
    """The table with all columns in each layout: the inverse of `brief_layouts`. Only the code that
    stores infos sees brief layouts."""
    if not any(layout.since for layout in info.exuvia_layouts):
        return info
    by_id: dict[int, Layout] = {}
    for layout in info.exuvia_layouts:
        by_id[layout.id] = _applied(layout, by_id[layout.since]) if layout.since else layout
    return evolve(info, exuvia_layouts=tuple(by_id.values()))


def _since(before: Layout, layout: Layout) -> Layout:
    former, ids = set(before.columns), {column_.column for column_ in layout.columns}
    removed = tuple(column_.column for column_ in before.columns if column_.column not in ids)
    changed = tuple(column_ for column_ in layout.columns if column_ not in former)
    shorter = Layout(layout.id, changed, before.id, removed)
    if (
        2 * (len(changed) + len(removed)) > len(layout.columns)
        or _applied(shorter, before) != layout
    ):
        return layout  # the columns have another order
    return shorter


def _applied(layout: Layout, before: Layout) -> Layout:
    """Columns of other types keep their positions; new ones come last."""
    changed, removed = {column_.column: column_ for column_ in layout.columns}, set(layout.gone)
    columns_ = [changed.pop(c.column, c) for c in before.columns if c.column not in removed]
    return Layout(layout.id, (*columns_, *changed.values()))


class Shape:
    """The places of a layout's bytes. `fixed` and `variable`: (number in the layout, column)."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        numbered = list(enumerate(layout.columns))
        codes = [storage_of(c.type).code for c in layout.columns]
        self.fixed = [pair for pair, code in zip(numbered, codes, strict=True) if code]
        self.variable = [pair for pair, code in zip(numbered, codes, strict=True) if not code]
        self.bitmap_bytes = -(-len(numbered) // 8)
        self.codes = [code for code in codes if code]
        self.fixed_at = 2 + self.bitmap_bytes
        self.ends_at = self.fixed_at + sum(SIZES[code] for code in self.codes)
        self.head_bytes = self.ends_at + 4 * len(self.variable)
        self.head = Struct(f"<H{self.bitmap_bytes}s{''.join(self.codes)}{'I' * len(self.variable)}")

    def offset_of(self, fixed_number: int) -> int:
        """The offset of a fixed column in the payload, by its number among the fixed ones."""
        return self.fixed_at + sum(SIZES[code] for code in self.codes[:fixed_number])


def packer_of(field: FieldType) -> Change | None:
    """The conversion of a value to its stored form, or None if none is needed."""
    storage = storage_of(field)
    if storage.family in TEXTS:
        return str.encode
    if storage.family != Family.DECIMAL:
        return None
    scale, width = storage.scale, decimals.width_of(field)

    def pack(value: Decimal) -> int | bytes:
        integer = decimals.scaled(value, scale)
        return integer if width == 8 else integer.to_bytes(width, "little", signed=True)

    return pack


def unpacker_of(field: FieldType) -> Change | None:
    """Inverse of `packer_of`."""
    storage = storage_of(field)
    if storage.family in TEXTS:
        return bytes.decode
    if storage.family != Family.DECIMAL:
        return None
    scale = storage.scale

    def unpack(value: int | bytes) -> Decimal:
        if isinstance(value, bytes):
            value = int.from_bytes(value, "little", signed=True)
        return decimals.unscaled(value, scale)

    return unpack


def cast_of(stored: FieldType, now: FieldType, *, later: bool = False) -> Change | None:
    """The conversion of a stored value to the column's current type, or None if none is needed.

    `later`: the value was stored under a later definition. It is NULL if this type lacks it."""
    if stored_alike(stored, now):
        return None

    if not later:
        return lambda value: convert(value, stored, now)

    def cast(value: Value) -> Value:
        try:
            return convert(value, stored, now)
        except Refused:
            return None

    return cast


def _chain(first: Change | None, second: Change | None) -> Change | None:
    if first is None or second is None:
        return first or second
    inner, outer = first, second
    return lambda value: outer(inner(value))


class RowEncoder:
    """Encodes rows (in the order of `columns`) as payloads of one layout."""

    def __init__(self, layout: Layout, columns: Sequence[ColumnInfo]) -> None:
        shape = Shape(layout)
        at = {column.id: n for n, column in enumerate(columns)}
        self._columns = [at[column_.column] for column_ in layout.columns]
        self._fixed = [(at[c.column], packer_of(c.type)) for _, c in shape.fixed]
        self._plain = [p for p, pack in self._fixed if pack is None]
        self._all_plain = len(self._plain) == len(self._fixed)
        self._variable = [(at[c.column], packer_of(c.type)) for _, c in shape.variable]
        self._zeros = [bytes(SIZES[c]) if c.endswith("s") else 0 for c in shape.codes]
        self._head = shape.head.pack
        self._id = layout.id
        self._no_nulls = bytes(shape.bitmap_bytes)

    def encode(self, row: Row) -> bytes:
        """The payload. Raises struct.error for a number beyond its storage."""
        if None in row:
            return self._with_nulls(row)
        if self._all_plain:
            fixed = [row[p] for p in self._plain]
        else:
            fixed = [row[p] if pack is None else pack(row[p]) for p, pack in self._fixed]
        texts = [row[p] if pack is None else pack(row[p]) for p, pack in self._variable]
        ends = accumulate([len(text) for text in texts])
        return self._head(self._id, self._no_nulls, *fixed, *ends) + b"".join(texts)

    def encode_many(self, columns: Sequence[Sequence[Value]]) -> list[bytes]:
        """`encode` for rows given by column, without Python code for each row."""
        if any(None in column for column in columns):
            return [self.encode(list(row)) for row in zip(*columns, strict=True)]
        fixed = [columns[p] if pack is None else map(pack, columns[p]) for p, pack in self._fixed]
        texts = [
            columns[p] if pack is None else list(map(pack, columns[p]))
            for p, pack in self._variable
        ]
        ends: list[list[int]] = []
        for text in texts:
            lengths = map(len, text)
            ends.append(list(map(add, ends[-1], lengths) if ends else lengths))
        heads = map(self._head, repeat(self._id), repeat(self._no_nulls), *fixed, *ends)
        return list(map(b"".join, zip(heads, *texts, strict=True)) if fixed or texts else heads)

    def _with_nulls(self, row: Row) -> bytes:
        bits = sum(1 << n for n, p in enumerate(self._columns) if row[p] is None)
        fixed = [
            zero if row[p] is None else (row[p] if pack is None else pack(row[p]))
            for (p, pack), zero in zip(self._fixed, self._zeros, strict=True)
        ]
        texts = [
            b"" if row[p] is None else (row[p] if pack is None else pack(row[p]))
            for p, pack in self._variable
        ]
        nulls = bits.to_bytes(len(self._no_nulls), "little")
        ends = accumulate([len(text) for text in texts])
        return self._head(self._id, nulls, *fixed, *ends) + b"".join(texts)


class RowDecoder:
    """Decodes payloads of one layout to rows in the order of `columns`.

    `later`: the layout is of a later definition. A value that its column's type does not have is
    NULL then."""

    def __init__(
        self, layout: Layout, columns: Sequence[ColumnInfo], *, later: bool = False
    ) -> None:
        shape = Shape(layout)
        at = {column.id: n for n, column in enumerate(columns)}
        stored_ids = {column_.column for column_ in layout.columns}
        self._blank = [None if c.id in stored_ids else origin_default_of(c) for c in columns]
        self._positions = [at.get(column_.column) for column_ in layout.columns]
        self._fixed = [
            (field, at[c.column], _read_of(c, columns[at[c.column]], later))
            for field, (_, c) in enumerate(shape.fixed, 2)
            if c.column in at
        ]
        first = 2 + len(shape.fixed)
        self._variable = [
            (
                field,
                at.get(c.column),
                _read_of(c, columns[at[c.column]], later) if c.column in at else None,
            )
            for field, (_, c) in enumerate(shape.variable, first)
        ]
        self._unpack = shape.head.unpack_from
        self._head_bytes = shape.head_bytes
        self._no_nulls = bytes(shape.bitmap_bytes)

    def decode(self, payload: bytes) -> Row:
        """The row, as a new list."""
        fields = self._unpack(payload)
        row = self._blank.copy()
        nulls = fields[1] != self._no_nulls and self._nulls(fields[1])
        for field, position, read in self._fixed:
            if nulls and position in nulls:
                continue
            row[position] = fields[field] if read is None else read(fields[field])
        start = base = self._head_bytes
        for field, place, read in self._variable:
            end = base + fields[field]
            if place is not None and not (nulls and place in nulls):
                row[place] = payload[start:end] if read is None else read(payload[start:end])
            start = end
        return row

    def _nulls(self, bitmap: bytes) -> set[int | None]:
        bits = int.from_bytes(bitmap, "little")
        return {position for n, position in enumerate(self._positions) if bits >> n & 1}


def _read_of(stored: LayoutColumn, now: ColumnInfo, later: bool = False) -> Change | None:
    return _chain(unpacker_of(stored.type), cast_of(stored.type, now.type, later=later))


# -- rows of one layout without a NULL -------------------------------------------------------------

Decode = Callable[[bytes], Row]
Select = Callable[[Iterable[bytes]], list[Row]]
MOST_STRAIGHT = 256
"""The number of columns from which generating a function is not worth its cost."""


def straight(
    layout: Layout,
    columns: Sequence[ColumnInfo],
    used: Sequence[int],
    other: Decode,
) -> Decode:
    """A decoder for payloads of that layout without NULLs, which sets only the columns at the
    positions `used` and leaves None in others.

    `other` decodes all other payloads."""
    test, read, cells, names = _straight(layout, columns, used)
    row = ", ".join(cells.get(n, "None") for n in range(len(columns)))
    lines = ["def decode(p):", f" if {test}: return other(p)", f" {read}", f" return [{row}]"]
    decode: Decode = _generated("decode", lines, {**names, "other": other})
    return decode


def selecting(
    layout: Layout, columns: Sequence[ColumnInfo], positions: Sequence[int], other: Decode
) -> Select:
    """The same for many payloads in one call; all rows have only the columns at `positions`, in
    that order."""
    test, read, cells, names = _straight(layout, columns, positions)
    row = ", ".join(cells[n] for n in positions)
    lines = ["def select(payloads):", " rows = []", " add = rows.append", " for p in payloads:"]
    lines += [f"  if {test}:", "   add(other(p))", "   continue", f"  {read}", f"  add([{row}])"]
    select: Select = _generated("select", [*lines, " return rows"], {**names, "other": other})
    return select


def _straight(
    layout: Layout, columns: Sequence[ColumnInfo], used: Sequence[int]
) -> tuple[str, str, dict[int, str], dict[str, Any]]:
    """Source code: the test for another kind of payload, the statement that reads fields, the
    expression of each column, and the objects they name."""
    shape = Shape(layout)
    at = {column.id: n for n, column in enumerate(columns)}
    used_positions = set(used)
    stored_ids = {column_.column for column_ in layout.columns}
    named_objects: dict[str, Any] = {}
    cells = {}
    for n in used_positions:
        if columns[n].id not in stored_ids:
            cells[n] = f"d{n}"
            named_objects[f"d{n}"] = origin_default_of(columns[n])
    codes, names = [], []
    for code, (number, column) in zip(shape.codes, shape.fixed, strict=True):
        place = at.get(column.column)
        if place is None or place not in used_positions:
            codes.append(f"{SIZES[code]}x")
            continue
        codes.append(code)
        names.append(f"f{number}")
        cells[place] = _call(named_objects, place, f"f{number}", _read_of(column, columns[place]))
    texts = [at.get(column.column) for _, column in shape.variable]
    last = max((n for n, place in enumerate(texts) if place in used_positions), default=-1)
    for n, place in enumerate(texts[: last + 1]):
        is_used = place in used_positions or (n < last and texts[n + 1] in used_positions)
        codes.append("I" if is_used else "4x")
        names += [f"e{n}"] if is_used else []
        if place is not None and place in used_positions:
            base = shape.head_bytes
            start = f"{base}+e{n - 1}" if n else f"{base}"
            read = _read_of(shape.variable[n][1], columns[place])
            cells[place] = _call(named_objects, place, f"p[{start}:{base}+e{n}]", read)
    head = layout.id.to_bytes(2, "little") + bytes(shape.bitmap_bytes)
    named_objects["head"] = head
    named_objects["unpack"] = Struct(f"<{len(head)}x{''.join(codes)}").unpack_from
    fields = f"{', '.join(names)}, = unpack(p)" if names else "pass"
    return f"p[:{len(head)}] != head", fields, cells, named_objects


def _generated(name: str, lines: Sequence[str], names: dict[str, Any]) -> Any:
    exec(_code("\n".join(lines)), names)  # noqa: S102 - see _code
    return names[name]


def _call(names: dict[str, Any], place: int, cell: str, read: Change | None) -> str:
    """The expression that reads a stored value."""
    if read is None:
        return cell
    if read is bytes.decode:
        return f"{cell}.decode()"
    names[f"r{place}"] = read
    return f"r{place}({cell})"


@lru_cache(512)
def _code(source: str) -> CodeType:
    """Compile generated code. It consists of numbers and fixed words, never of input; equal tables
    share it."""
    return compile(source, "<row>", "exec")
