"""Keys of one row: its handle, its index entries, and ranges of them.

    t{table}r{handle}                     handle: 8 bytes (integer, hidden id) or the key's values
    t{table}i{index}{values}{handle}      plain entry, or a unique one with a NULL
    t{table}i{index}{values}              unique entry; the handle is in its payload

Values are encoded by key_encoder.py. A range over values that may have been cut (`is_exact` is
False) is wider than requested; its scan must check the rows.
"""

from collections.abc import Sequence

from exuvia.base.errors import Broken
from exuvia.base.types import Value
from exuvia.catalog.codec.key_encoder import HASH_BYTES, KeyForm
from exuvia.catalog.codec.row_codec import Row
from exuvia.catalog.collation import END_PAD
from exuvia.catalog.model import IndexInfo
from exuvia.catalog.table import Entries, Table
from exuvia.kv import keys
from exuvia.kv.packet import Span


def index_entries(table: Table, index: IndexInfo, row: Row, handle: bytes) -> Entries:
    """(key, is_unique) of the row's entries; a unique entry has the handle in its payload.

    There is one, except for rows outside a partial index and in a multi-valued index."""
    return table.form(index).entries(row, handle)


def handle_of(table: Table, row: Row) -> bytes:
    """The handle computed from the row. Raises Broken if rows have hidden ids."""
    if table.info.pk_is_handle:
        value = row[table.handle_positions[0]]
        return keys.u64(value) if table.handle_is_unsigned else keys.i64(value)
    form = table.handle_form
    if form is None:
        raise Broken(
            f"rows of {table.info.name.O} have hidden ids, which are not computed from their values"
        )
    return form.encode([row[position] for position in table.handle_positions])


def handle_from(table: Table, values: Sequence[Value]) -> bytes:
    """The handle of these primary key values, all of them, in the key's order."""
    if table.info.pk_is_handle:
        return keys.u64(values[0]) if table.handle_is_unsigned else keys.i64(values[0])
    form = table.handle_form
    if form is None:
        raise Broken(f"rows of {table.info.name.O} have hidden ids, not key values")
    return form.encode(values)


def handle_values(table: Table, handle: bytes) -> tuple[Value, ...] | None:
    """Primary key values of a handle, as folded by collations; None for hidden ids and cut keys."""
    if table.info.pk_is_handle:
        number = int.from_bytes(handle, "big")
        return (number if table.handle_is_unsigned else number - (1 << 63),)
    form = table.handle_form
    return None if form is None else form.decode(handle, 0)[0]


def encode_values(table: Table, index: IndexInfo, values: Sequence[Value]) -> bytes:
    """The encoding, not cut, of the first values of an index or of the clustered primary key."""
    if not index.exuvia_clustered:
        return table.form(index).keys.whole(values)
    if table.info.pk_is_handle:
        return handle_from(table, values) if values else b""
    return _handle_form(table).whole(values)


def is_exact(table: Table, index: IndexInfo) -> bool:
    """Whether the index's order is always its values' order: no value can be too long for a key."""
    if not index.exuvia_clustered:
        return table.form(index).keys.exact
    return table.info.pk_is_handle or _handle_form(table).exact


def _handle_form(table: Table) -> KeyForm:
    form = table.handle_form
    if form is None:
        raise Broken(f"{table.info.name.O} has no clustered key")
    return form


def index_range(
    table: Table,
    index: IndexInfo,
    low: Sequence[Value] = (),
    high: Sequence[Value] = (),
    low_inclusive: bool = True,
    high_inclusive: bool = True,
) -> Span:
    """Keys whose first values are within the bounds (tuples of the first few values; () is no
    bound).

    `index_range(t, i, (5,), (5,))` has all entries that begin with 5; a full unique point is one
    key. NULL is a value here and the least one. Exclude it by `low=(*same, None),
    low_inclusive=False`. The clustered primary key gives a range of rows. Bounds that are longer
    than keys can be are widened."""
    if index.exuvia_clustered:
        prefix, most = (
            table.row_prefix,
            _uncut_bytes(None if table.info.pk_is_handle else table.handle_form),
        )
    else:
        form = table.form(index)
        prefix, most = form.prefix, _uncut_bytes(form.keys)
    whole = keys.span_of(prefix)
    start, end = whole
    if low:
        bound = encode_values(table, index, low)
        is_cut = most is not None and len(bound) > most
        start = prefix + bound[:most]
        start = start if low_inclusive or is_cut else keys.after(start)
    if high:
        bound = encode_values(table, index, high)
        is_cut = most is not None and len(bound) > most
        end = prefix + bound[:most]
        end = keys.after(end) if high_inclusive or is_cut else end
    return Span(start, max(start, end))


def prefix_range(table: Table, index: IndexInfo, values: Sequence[Value]) -> Span:
    """Keys whose first values are these; the last one is a text with which texts begin.

    Its collation `keeps_prefixes`. It does not end in spaces."""
    if index.exuvia_clustered:
        prefix, most = table.row_prefix, _uncut_bytes(_handle_form(table))
    else:
        form = table.form(index)
        prefix, most = form.prefix, _uncut_bytes(form.keys)
    encoded = encode_values(table, index, values)[: -len(END_PAD)]
    start = prefix + encoded[:most]
    return Span(start, keys.after(start))


def _uncut_bytes(form: KeyForm | None) -> int | None:
    return None if form is None else form.limit - HASH_BYTES


def unique_key(table: Table, index: IndexInfo, values: Sequence[Value]) -> bytes:
    """The key of these values (not NULL) in a unique index; also for point reads of long values."""
    form = table.form(index)
    return form.prefix + form.keys.encode(values)


def split_entry(
    table: Table, index: IndexInfo, key: bytes, payload: bytes
) -> tuple[tuple[Value, ...] | None, bytes]:
    """(values in the key, or None if cut; handle) of an index entry."""
    form = table.form(index)
    values, end = form.keys.decode(key, keys.VALUES_AT)
    return values, payload[1:] or key[end:]
