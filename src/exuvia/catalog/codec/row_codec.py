"""A row's bytes. A row names its layout, and layouts never change, so no change of a table rewrites
rows.

    [u16 layout id][null bitmap][fixed-width columns][u32 ends of variable columns][variable bytes]
                    1 bit each,  at static offsets,   counted from the first
                    low first    all little-endian    variable byte

    family                 fixed form            family                 variable form
    INT DATETIME TIME      int64                 STRING JSON            UTF-8
    UINT                   uint64                BYTES                  as it is
    FLOAT                  float64
    DATE                   int32
    DECIMAL                8, 16, 32 byte scaled integer (catalog/decimals.py)

A NULL has its bit set, and zeros or no bytes. The store puts the 8 byte commit sequence in front.

    the row's layout                 the table now                  the value read
    has the column, stored alike     has it                         as stored
    has it, stored in another way    has it: its type was changed   cast from the layout's type
    has not                          has it: it was added later     its origin default
    has the column                   has not: it was dropped        none

Most rows have the newest layout and no NULL. `straight` makes a function for these alone, of the
columns that are asked for: the first bytes tell, one `struct` call takes the fixed columns, and a
list display makes the row. All other rows are decoded by RowDecoder, which says what is right.
"""

from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from functools import lru_cache
from itertools import accumulate, repeat
from operator import add
from struct import Struct
from types import CodeType
from typing import Any, NamedTuple

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
    """How a type stands in a row. Two types stored alike need no cast between them."""

    family: Family
    code: str  # of struct; "" where the width varies
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
    """The columns a writer puts into rows: those whose state adds, but no virtual ones."""
    return tuple(
        column for column in info.cols if DUTIES[column.state].adds and not column.is_virtual
    )


def layout_of(info: TableInfo) -> Layout | None:
    """The newest layout that holds exactly the columns to be written, stored as now; None if there
    is none."""
    wanted = {column.id: column.type for column in written_columns(info)}
    for layout in reversed(info.exuvia_layouts):
        if len(layout.columns) == len(wanted) and all(
            each.column in wanted and stored_alike(each.type, wanted[each.column])
            for each in layout.columns
        ):
            return layout
    return None


def with_layout(info: TableInfo) -> TableInfo:
    """The table with a layout for the columns that are to be written; itself where one serves
    already."""
    if layout_of(info) is not None:
        return info
    last = max((layout.id for layout in info.exuvia_layouts), default=0)
    columns = tuple(LayoutColumn(column.id, column.type) for column in written_columns(info))
    return evolve(info, exuvia_layouts=(*info.exuvia_layouts, Layout(last + 1, columns)))


def brief_layouts(info: TableInfo) -> TableInfo:
    """The table, whose layouts say how each differs from the one before it, where that is shorter:
    they would else name all of its columns once more for each change."""
    found: list[Layout] = []
    before: Layout | None = None
    for each in info.exuvia_layouts:
        found.append(each if before is None else _since(before, each))
        before = each
    return evolve(info, exuvia_layouts=tuple(found))


def whole_layouts(info: TableInfo) -> TableInfo:
    """The table, each of whose layouts has all of its columns: `brief_layouts` undone. Only what
    reads and writes infos at rest meets others."""
    if not any(each.since for each in info.exuvia_layouts):
        return info
    found: dict[int, Layout] = {}
    for each in info.exuvia_layouts:
        found[each.id] = _applied(each, found[each.since]) if each.since else each
    return evolve(info, exuvia_layouts=tuple(found.values()))


def _since(before: Layout, layout: Layout) -> Layout:
    known, ids = set(before.columns), {each.column for each in layout.columns}
    gone = tuple(each.column for each in before.columns if each.column not in ids)
    said = tuple(each for each in layout.columns if each not in known)
    shorter = Layout(layout.id, said, before.id, gone)
    if 2 * (len(said) + len(gone)) > len(layout.columns) or _applied(shorter, before) != layout:
        return layout  # another order of columns
    return shorter


def _applied(layout: Layout, before: Layout) -> Layout:
    """Columns of other types stand where they stood, new ones behind all."""
    said, gone = {each.column: each for each in layout.columns}, set(layout.gone)
    taken = [said.pop(c.column, c) for c in before.columns if c.column not in gone]
    return Layout(layout.id, (*taken, *said.values()))


class Shape:
    """Where the bytes of a layout are. `fixed` and `variable` hold (number in the layout,
    column)."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        numbered = list(enumerate(layout.columns))
        codes = [storage_of(c.type).code for c in layout.columns]
        self.fixed = [each for each, code in zip(numbered, codes, strict=True) if code]
        self.variable = [each for each, code in zip(numbered, codes, strict=True) if not code]
        self.bitmap_bytes = -(-len(numbered) // 8)
        self.codes = [code for code in codes if code]
        self.fixed_at = 2 + self.bitmap_bytes
        self.ends_at = self.fixed_at + sum(SIZES[code] for code in self.codes)
        self.head_bytes = self.ends_at + 4 * len(self.variable)
        self.head = Struct(f"<H{self.bitmap_bytes}s{''.join(self.codes)}{'I' * len(self.variable)}")

    def offset_of(self, fixed_number: int) -> int:
        """Where a fixed column (by its place among the fixed ones) begins in the payload."""
        return self.fixed_at + sum(SIZES[code] for code in self.codes[:fixed_number])


def packer_of(field: FieldType) -> Change | None:
    """What a value becomes before it stands in a row; None where it stands as it is."""
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


def cast_of(stored: FieldType, now: FieldType) -> Change | None:
    """What a stored value becomes when its column's type was changed; None where nothing."""
    if stored_alike(stored, now):
        return None
    return lambda value: convert(value, stored, now)


def _chain(first: Change | None, second: Change | None) -> Change | None:
    if first is None or second is None:
        return first or second
    inner, outer = first, second
    return lambda value: outer(inner(value))


class RowEncoder:
    """Rows (in the order of `columns`) to payloads of one layout."""

    def __init__(self, layout: Layout, columns: Sequence[ColumnInfo]) -> None:
        shape = Shape(layout)
        at = {column.id: n for n, column in enumerate(columns)}
        self._columns = [at[each.column] for each in layout.columns]
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
        """As `encode`, of rows that are given by column: nothing is done in Python for each."""
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
    """Payloads of one layout to rows in the order of `columns`."""

    def __init__(self, layout: Layout, columns: Sequence[ColumnInfo]) -> None:
        shape = Shape(layout)
        at = {column.id: n for n, column in enumerate(columns)}
        kept = {each.column for each in layout.columns}
        self._blank = [None if c.id in kept else origin_default_of(c) for c in columns]
        self._positions = [at.get(each.column) for each in layout.columns]
        self._fixed = [
            (field, at[c.column], _read_of(c, columns[at[c.column]]))
            for field, (_, c) in enumerate(shape.fixed, 2)
            if c.column in at
        ]
        first = 2 + len(shape.fixed)
        self._variable = [
            (
                field,
                at.get(c.column),
                _read_of(c, columns[at[c.column]]) if c.column in at else None,
            )
            for field, (_, c) in enumerate(shape.variable, first)
        ]
        self._unpack = shape.head.unpack_from
        self._head_bytes = shape.head_bytes
        self._no_nulls = bytes(shape.bitmap_bytes)

    def decode(self, payload: bytes) -> Row:
        """The row; a new list."""
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


def _read_of(stored: LayoutColumn, now: ColumnInfo) -> Change | None:
    return _chain(unpacker_of(stored.type), cast_of(stored.type, now.type))


# -- rows of one layout without a NULL -------------------------------------------------------------

Decode = Callable[[bytes], Row]
Select = Callable[[Iterable[bytes]], list[Row]]
MOST_STRAIGHT = 256
"""Columns from which a function of its own is not worth its making."""


def straight(
    layout: Layout,
    columns: Sequence[ColumnInfo],
    used: Sequence[int],
    other: Decode,
) -> Decode:
    """What decodes payloads of that layout without NULLs as RowDecoder does, but only the columns
    at the positions `used`: None stands for the others. `other` decodes whatever else comes."""
    test, read, cells, given = _straight(layout, columns, used)
    row = ", ".join(cells.get(n, "None") for n in range(len(columns)))
    lines = ["def decode(p):", f" if {test}: return other(p)", f" {read}", f" return [{row}]"]
    decode: Decode = _made("decode", lines, {**given, "other": other})
    return decode


def selecting(
    layout: Layout, columns: Sequence[ColumnInfo], wanted: Sequence[int], other: Decode
) -> Select:
    """As `straight`, of many payloads by one call, and the rows, `other`'s too, have nothing but
    the columns `wanted`, in that order."""
    test, read, cells, given = _straight(layout, columns, wanted)
    row = ", ".join(cells[n] for n in wanted)
    lines = ["def select(payloads):", " rows = []", " add = rows.append", " for p in payloads:"]
    lines += [f"  if {test}:", "   add(other(p))", "   continue", f"  {read}", f"  add([{row}])"]
    select: Select = _made("select", [*lines, " return rows"], {**given, "other": other})
    return select


def _straight(
    layout: Layout, columns: Sequence[ColumnInfo], used: Sequence[int]
) -> tuple[str, str, dict[int, str], dict[str, Any]]:
    """What tells that a payload p is another one, what reads its fields, then the expression of
    each column; and what all that names."""
    shape = Shape(layout)
    at = {column.id: n for n, column in enumerate(columns)}
    wanted = set(used)
    kept = {each.column for each in layout.columns}
    given: dict[str, Any] = {}
    cells = {}
    for n in wanted:
        if columns[n].id not in kept:
            cells[n] = f"d{n}"
            given[f"d{n}"] = origin_default_of(columns[n])
    codes, names = [], []
    for code, (number, column) in zip(shape.codes, shape.fixed, strict=True):
        place = at.get(column.column)
        if place is None or place not in wanted:
            codes.append(f"{SIZES[code]}x")
            continue
        codes.append(code)
        names.append(f"f{number}")
        cells[place] = _call(given, place, f"f{number}", _read_of(column, columns[place]))
    texts = [at.get(column.column) for _, column in shape.variable]
    last = max((n for n, place in enumerate(texts) if place in wanted), default=-1)
    for n, place in enumerate(texts[: last + 1]):
        is_used = place in wanted or (n < last and texts[n + 1] in wanted)
        codes.append("I" if is_used else "4x")
        names += [f"e{n}"] if is_used else []
        if place is not None and place in wanted:
            base = shape.head_bytes
            start = f"{base}+e{n - 1}" if n else f"{base}"
            read = _read_of(shape.variable[n][1], columns[place])
            cells[place] = _call(given, place, f"p[{start}:{base}+e{n}]", read)
    head = layout.id.to_bytes(2, "little") + bytes(shape.bitmap_bytes)
    given["head"] = head
    given["unpack"] = Struct(f"<{len(head)}x{''.join(codes)}").unpack_from
    fields = f"{', '.join(names)}, = unpack(p)" if names else "pass"
    return f"p[:{len(head)}] != head", fields, cells, given


def _made(name: str, lines: Sequence[str], given: dict[str, Any]) -> Any:
    exec(_code("\n".join(lines)), given)  # noqa: S102 - see _code
    return given[name]


def _call(given: dict[str, Any], place: int, cell: str, read: Change | None) -> str:
    """The expression that reads a stored value."""
    if read is None:
        return cell
    if read is bytes.decode:
        return f"{cell}.decode()"
    given[f"r{place}"] = read
    return f"r{place}({cell})"


@lru_cache(512)
def _code(source: str) -> CodeType:
    """Tables of one form have one text. It is numbers and our own words: nobody's input."""
    return compile(source, "<row>", "exec")
