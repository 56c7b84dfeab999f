"""Index entries as columns: the ones that rows should have, and the ones that stand in an index.

    rows     t{table}r{handle}   -> vector.decode -> vector.index_keys -> Entries per index
    index    t{table}i{index}... -> tombstones dropped                -> Entries

Both sides of a comparison come from here, and what a fill writes. `suffixes` are what an entry's
payload holds behind LIVE: the handle in a unique index (empty where one of the values is NULL,
whose key ends in the handle instead), None in a plain index, where it is always empty.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from exuvia.base.errors import Unavailable
from exuvia.base.mysql_errors import ErrInvalidUseOfNull
from exuvia.catalog.codec import row_batch
from exuvia.catalog.codec.key_encoder import NUMBERS
from exuvia.catalog.model import IndexInfo
from exuvia.catalog.table import Table
from exuvia.kv import keys as k
from exuvia.kv.packet import LIVE, SEQUENCE_BYTES, Snapshot, Span
from exuvia.kv.store import Store
from exuvia.pipeline.order import Array, Keys, as_bytes

CHUNK_ROWS = 10_000
LEAST_SPAN_ROWS = 100_000
_NARROW = 4
"""How many times the rows a span may have where an entry is a few numbers, not a text: the fewer
runs there are, the fewer pages of the index each of them has to write anew."""
_NEAR_ROWS = 2_000  # read, join and cut out within the processor's cache: a fifth less time
_PLAIN = SEQUENCE_BYTES + len(LIVE)
Look = Callable[[row_batch.Columns], None]


class Entries(NamedTuple):
    """Some entries of one index. `handles` are known where the entries were made from rows."""

    keys: Keys
    suffixes: Keys | None
    handles: Keys | None = None


def fresh_snapshot(store: Store, table: Table) -> Snapshot:
    """A view that shows the table at the planned revision or later (law 1).

    Raises Unavailable if it does not."""
    snapshot = store.snapshot()
    raw = snapshot.get(k.revision(table.info.id))
    seen = 0 if raw is None else k.read_number(raw[SEQUENCE_BYTES:])
    if seen >= table.revision:
        return snapshot
    snapshot.close()
    raise Unavailable(
        f"the snapshot shows revision {seen} of table {table.info.name.O}, "
        f"the scan needs {table.revision}"
    )


def positions_of(table: Table, indexes: Sequence[IndexInfo]) -> list[int]:
    """Positions (in info.cols) of the columns that the indexes hold."""
    ids = {part.exuvia_column for index in indexes for part in index.idx_cols}
    return [n for n, column in enumerate(table.info.cols) if column.id in ids]


def is_narrow(table: Table, index_ids: Sequence[int]) -> bool:
    """Whether the indexes' entries are a few words each, all in the key."""
    forms = [form for form in table.forms if form.info.id in index_ids]
    families = {kind.family for form in forms for kind in form.types}
    plain = not any(form.unique for form in forms)
    return plain and not table.info.is_common_handle and families <= NUMBERS


def run_rows(table: Table, index_ids: Sequence[int], wanted: int, is_fill: bool) -> int:
    """Rows of one run where a span is to have `wanted`: more where entries are narrow, less where
    several indexes are filled in one pass, for memory's sake."""
    if is_fill and wanted >= LEAST_SPAN_ROWS and is_narrow(table, index_ids):
        wanted *= _NARROW
    return max(min(wanted, LEAST_SPAN_ROWS), wanted // len(index_ids))


def of_rows(
    snapshot: Snapshot,
    table: Table,
    indexes: Sequence[IndexInfo],
    span: Span,
    look: Look | None = None,
) -> Iterator[list[Entries]]:
    """Entries that the rows of a span should have: chunk by chunk, one Entries per index.

    `look` is shown the indexes' columns."""
    wanted = positions_of(table, indexes)
    for keys, raws in snapshot.chunks(span, _NEAR_ROWS):
        columns = row_batch.decode(table, keys, raws, wanted)
        if look is not None:
            look(columns)
        yield [of_columns(table, index, columns) for index in indexes]


def of_columns(table: Table, index: IndexInfo, columns: row_batch.Columns) -> Entries:
    """Entries that rows should have in an index, of which these are the columns."""
    keys, nulls = row_batch.index_keys(table, index, columns)
    if not index.is_unique:
        return Entries(keys, None, columns.handles)
    if nulls is None:
        return Entries(keys, columns.handles, columns.handles)
    if index.is_primary and nulls.any():
        raise ErrInvalidUseOfNull()
    suffixes = [
        b"" if null else handle
        for null, handle in zip(nulls.tolist(), as_bytes(columns.handles), strict=True)
    ]
    return Entries(keys, suffixes, columns.handles)


def of_index(snapshot: Snapshot, span: Span) -> Iterator[Entries]:
    """The live entries of a span of an index, chunk by chunk."""
    for keys, raws in snapshot.chunks(span, _NEAR_ROWS):
        yield _live_plain(keys, raws) or _live(keys, raws)


def _live_plain(keys: list[bytes], raws: list[bytes]) -> Entries | None:
    """The fast way, for values that are no longer than a sequence and LIVE; None where some are."""
    if set(map(len, raws)) != {_PLAIN}:
        return None
    states = np.frombuffer(b"".join(raws), np.uint8)[SEQUENCE_BYTES::_PLAIN]
    if states.any():
        keys = [keys[n] for n in np.flatnonzero(states == LIVE[0]).tolist()]
    return Entries(keys, None)


def _live(keys: list[bytes], raws: list[bytes]) -> Entries:
    live = [n for n, raw in enumerate(raws) if raw[SEQUENCE_BYTES:_PLAIN] == LIVE]
    suffixes = [raws[n][_PLAIN:] for n in live]
    return Entries([keys[n] for n in live], suffixes if any(suffixes) else None)


def payloads(suffixes: Keys | None) -> bytes | list[bytes]:
    """What entries hold: one payload for all, or a list."""
    if suffixes is None:
        return LIVE
    if isinstance(suffixes, list):
        return [LIVE + suffix for suffix in suffixes]
    width = suffixes.dtype.itemsize
    whole: Array = np.zeros((len(suffixes), len(LIVE) + width), dtype=np.uint8)
    whole[:, : len(LIVE)] = np.frombuffer(LIVE, np.uint8)
    whole[:, len(LIVE) :] = suffixes.view(np.uint8).reshape(len(suffixes), width)
    return as_bytes(whole.view(f"V{len(LIVE) + width}").reshape(len(suffixes)))
