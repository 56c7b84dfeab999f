"""The move: rows of a span of an old partition, and their entries, put into the new partitions.

    fresh snapshots        must show the reorg's revision of the table (law 1)
      -> some rows         the partition of each, by columns      (1526: the job ends)
      -> batches of rows   the bytes as they stand, under the new partition's id
      -> their entries     kept until all rows of the span are there
    then a run per index   of all new partitions, sorted, in batches like those of the rows;
                           several batches wait for the disk together (Store.bulk_chain)
    the last batch         says that the span is finished

Each batch is one transaction that puts where nothing stands, and requires the reorg's epoch (law 2)
and of every old row it is made of that it is still the one that was read. What it puts is thus true
at that very moment, and writers in WRITE_REORG keep both sets from then on: neither a lost write
nor a row or an entry that comes back. So no tombstones are needed, unlike a fill's (law 6): a row
has a version that the store compares, an index entry has none (decision 015).
    Conflict   a writer touched one of the rows: what is left of the batch is made of them anew
    taken      a writer put it, or this has run: the same, or 8223

Rows come first: a writer who changes a row whose twin stands writes the entries whose keys change
and leaves the others to the run; one who finds no twin puts it whole.

Entries of global indexes are not copied: theirs name another partition. They are put by a fill of
the new index, once all rows are there, beside those of the partitions that stay. Writers leave it
tombstones, so it may be blind (law 6); that the move, and no writer, has put a row that it reads
makes no difference to it (tests/laws has the model).

`check moved`, `check apart` and `check fits` read only: rows of either set of partitions, each
looked up in the other, where its twin must be, or where nothing may be that it could not stand
beside (1062: UNDO of a TRUNCATE); and rows that are to become a partition, each of which must
belong to it (1737).
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import cache, cached_property
from importlib import import_module
from typing import NamedTuple, Protocol

import numpy as np

from exuvia.base.errors import MOST_LISTED, Broken, Conflict, Duplicate, Refused
from exuvia.base.limits import REORG_BATCH_ROWS
from exuvia.base.mysql_errors import (
    ErrDataInconsistent,
    ErrDupEntry,
    ErrRowDoesNotMatchPartition,
)
from exuvia.catalog import writer
from exuvia.catalog.codec import row_batch
from exuvia.catalog.columns import Array, Columns, Keys
from exuvia.catalog.model import IndexInfo
from exuvia.catalog.table import Table
from exuvia.kv import keys as k
from exuvia.kv.keys import HANDLE_AT
from exuvia.kv.packet import (
    TOMBSTONE,
    Bulk,
    BulkResult,
    Padded,
    Requirement,
    Snapshot,
    Span,
    Standing,
)
from exuvia.kv.store import Store
from exuvia.pipeline import checkpoint
from exuvia.pipeline.checkpoint import TaskProgress
from exuvia.pipeline.kernels.entries import (
    AGAIN_ROWS,
    CHUNK_ROWS,
    Entries,
    as_bytes,
    fresh_snapshot,
    joined,
    of_columns,
    payloads,
    positions,
    positions_of,
    take,
)
from exuvia.pipeline.settings import Dial
from exuvia.pipeline.task import Outcome, Task, TaskOrder
from exuvia.pipeline.throttle import Batch, BatchSize, Steps, held_back

# -- where rows belong -----------------------------------------------------------------------------
#
# The pipeline knows no SQL: a *router*, "module:function", is a name that crosses to Spark's
# workers. For a table whose partitions change it gives two ways, each of which answers for many
# rows at once.

_ID = slice(1, 9)  # where a key has the physical id


class Way(Protocol):
    """One set of partitions. `positions`: of the columns that decide."""

    positions: list[int]

    def places(self, columns: Columns) -> Array:
        """The physical id each row belongs to, 0: nowhere. Shape (rows,), int64."""

    def refusal(self, columns: Columns, row: int) -> Refused:
        """1526, for a row that belongs nowhere."""


class Ways(NamedTuple):
    """To the set that is not read, and in the one that is."""

    other: Way
    read: Way


Router = Callable[[Table], Ways]


@cache
def router_named(text: str) -> Router:
    """The function of that name. Raises Broken where none is wired."""
    module, _, function = text.partition(":")
    if not function:
        raise Broken("rows are to be moved where no router is wired")
    router: Router = getattr(import_module(module), function)
    return router


def under(places: Array, keys: Keys) -> Keys:
    """The same keys (of rows or entries) under other physical ids."""
    ids = places.astype(">u8")
    if isinstance(keys, list):
        pairs = zip(ids.view("V8").tolist(), keys, strict=True)
        return [b"t" + physical_id + key[9:] for physical_id, key in pairs]
    if isinstance(keys, Padded):
        padded = keys.matrix.copy()
        padded[:, _ID] = ids.view(np.uint8).reshape(len(keys), 8)
        return Padded(padded, keys.lengths)
    width = keys.dtype.itemsize
    matrix = keys.view(np.uint8).reshape(len(keys), width).copy()
    matrix[:, _ID] = ids.view(np.uint8).reshape(len(keys), 8)
    return matrix.view(f"V{width}").reshape(len(keys))


# -- what is put -----------------------------------------------------------------------------------
#
# As columns: rows and index entries, each because of one row as it was read.
#
#     keys      values     because of             required when it is put
#     a row's   its bytes  the row it is copied   that one still has of `stamps`
#     an entry's  handle   from, by its handle    likewise
#
# `at` names the ones that are meant, in the order in which they are put; parts share the arrays.


class Copies(NamedTuple):
    """`values`: payloads of rows; suffixes of entries, None in a plain index.
    `index_id`: the entries', 0 for rows. `guards`: see rekey.py."""

    keys: Keys
    values: Keys | None
    handles: Keys
    stamps: Array
    at: Array
    index_id: int = 0
    guards: list[bytes] | None = None

    def __bool__(self) -> bool:
        return len(self.at) > 0

    def split(self, rows: int) -> "tuple[Copies, Copies]":
        """The first so many, and the rest."""
        return self._replace(at=self.at[:rows]), self._replace(at=self.at[rows:])

    def key_list(self) -> list[bytes]:
        """Where they are put."""
        return as_bytes(take(self.keys, self.at))

    def payloads(self) -> bytes | list[bytes]:
        """What is put there."""
        values = None if self.values is None else take(self.values, self.at)
        return as_bytes(values) if values is not None and not self.index_id else payloads(values)

    def sources(self, prefix: bytes) -> list[bytes]:
        """Keys of the rows they are because of."""
        return [prefix + handle for handle in as_bytes(take(self.handles, self.at))]

    def required(self, prefix: bytes) -> Standing:
        """That those rows are the ones that were read."""
        stamps = self.stamps[self.at].astype("<u8").tobytes()
        return Standing(self.sources(prefix), stamps, "lost update")


def in_key_order(copies: Copies) -> Copies:
    """Those that are meant, in key order."""
    keys = take(copies.keys, copies.at)
    return copies._replace(at=copies.at[positions(keys)])


def sorted_copies(parts: Sequence[Copies]) -> Copies:
    """Copies of one index, or rows, as one run in key order."""
    keys = joined([part.keys for part in parts])
    values = [part.values for part in parts if part.values is not None]
    return Copies(
        keys,
        joined(values) if values else None,
        joined([part.handles for part in parts]),
        np.concatenate([part.stamps for part in parts]),
        positions(keys),
        parts[0].index_id,
    )


# -- the kernel ------------------------------------------------------------------------------------


class Move:
    """The kernel for one task; `steps()` is the generator."""

    def __init__(
        self, store: Store, task: Task, dial: Dial, monotonic: Callable[[], float]
    ) -> None:
        self._store = store
        self._task = task
        self._source = task.order.table
        self._logical = task.order.logical
        self._indexes = copied_indexes(self._logical)
        self._dial = dial
        self._monotonic = monotonic
        self._pace = BatchSize(dial.read().batch_rows, near=store.near)
        self._of = store.count(task.span)
        self._rows = self._puts = self._placed = self._batches = 0

    def steps(self) -> Steps:
        """Rows, then entries; returns the outcome. Raises Deposed, Refused."""
        kept: list[list[Copies]] = [[] for _ in self._indexes]
        start, end = self._task.span
        while True:
            began = self._monotonic()
            with closing(fresh_snapshot(self._store, self._source)) as snapshot:
                keys, raws = next(iter(snapshot.chunks(Span(start, end), CHUNK_ROWS)), ([], []))
                if not keys:
                    break
                rows, *entries = self._copied(snapshot, self._indexes, keys, raws)
            yield self._has_read(began)
            yield from self._put(in_key_order(rows))
            made = self._entries_since(keys, entries)
            for kept_of_index, copies in zip(kept, made, strict=False):
                kept_of_index.append(copies)
            self._rows += len(keys)
            start = k.after(keys[-1])
        for part in filter(None, kept):
            began = self._monotonic()
            run = sorted_copies(part)
            part.clear()
            yield self._has_read(began)
            yield from self._put(run)
        yield self._finish()
        return Outcome(ordinal=self._task.ordinal, rows=self._rows, placed=self._placed)

    def _copied(
        self,
        snapshot: Snapshot,
        indexes: Sequence[IndexInfo],
        keys: list[bytes],
        raws: list[bytes],
    ) -> list[Copies]:
        """Of rows as the store's chunks give them, then of their entries in each index."""
        return copied(snapshot, self._source, self._way, indexes, keys, raws)

    def _entries_since(self, keys: list[bytes], entries: list[Copies]) -> list[Copies]:
        """Of rows that have been put, what their entries are; none where no such row is left."""
        return entries

    @cached_property
    def _way(self) -> Way:
        return router_named(self._task.order.router)(self._logical).other

    def _unlike(self, key: bytes) -> Refused:
        return unlike(self._logical, key[k.HANDLE_AT :].hex())

    def _has_read(self, began: float) -> Batch:
        return Batch(0, self._monotonic() - began)

    def _put(self, copies: Copies) -> Iterator[Batch]:
        """Write all copies in batches. A refused batch is read and copied again.

        If the batch was read long ago, its age is the reason: it and the following rows are read
        again with the same batch size. If it was read just before, clients write its rows all the
        time, and batches become smaller."""
        waiting = [(copies, False)]
        while waiting:
            part, is_fresh = waiting.pop()
            if not part:
                continue
            self._pace.bounded(self._dial.read().batch_rows)
            size = self._pace.rows
            try:
                done = self._chain(part, size)
                waiting.append((part.split(done.rows)[1], False))
            except Conflict:
                if is_fresh:
                    self._pace.refused()
                batch, rest = part.split(size if is_fresh else max(size, AGAIN_ROWS))
                waiting += [(rest, False), (self._as_they_stand(batch), True)]
                done = Batch(0, 0.0, 0.0)
            yield done

    def _as_they_stand(self, batch: Copies) -> Copies:
        """The same of the rows of now; those that are gone are nobody's any more."""
        with closing(fresh_snapshot(self._store, self._source)) as snapshot:
            raws = snapshot.get_many(batch.sources(self._source.row_prefix))
            if not raws:
                return batch.split(0)[0]
            keys = sorted(raws)
            indexes = [index for index in self._indexes if index.id == batch.index_id]
            made = self._copied(snapshot, indexes, keys, [raws[key] for key in keys])[-1]
        return in_key_order(made)

    def _chain(self, copies: Copies, size: int) -> Batch:
        """Transactions of `size` of them, as many as may wait for the disk together."""
        settings = self._dial.read()
        starts = range(0, len(copies.at), size)
        if settings.write_speed or settings.batch_rows < REORG_BATCH_ROWS[1]:
            starts = starts[:1]  # who set that wants it slow
        sent: list[Bulk] = []
        began = self._monotonic()

        def bulks() -> Iterator[Bulk]:
            nonlocal began
            began = self._monotonic()  # the store has its writer: the wait for it is nobody's fault
            for start in starts:
                part = copies._replace(at=copies.at[start : start + size])
                sent.append(self._bulk(part, len(sent) + 1, start + len(part.at)))
                yield sent[-1]

        results = self._store.bulk_chain(bulks(), settings.batch_s)
        seconds = self._monotonic() - began
        rows = min(len(copies.at), len(results) * size)
        self._batches, self._puts = self._batches + len(results), self._puts + rows
        self._placed += sum(result.placed for result in results)
        for bulk, result in zip(sent, results, strict=False):
            self._require_alike(bulk, result, is_entry=copies.index_id != 0)
        paced = self._pace.chained(rows, len(results), seconds, settings.batch_s)
        if settings.write_speed:
            keys, values = sent[0].keys, sent[0].payloads
            put = sum(map(len, keys)) + (0 if isinstance(values, bytes) else sum(map(len, values)))
            paced = held_back(paced, put, settings, self._task.order.at_once)
        return paced

    def _bulk(self, copies: Copies, number: int, puts: int) -> Bulk:
        """One transaction. `puts`: of the chain, this one's among them."""
        order = self._task.order
        done = min(self._of, (self._puts + puts) // (1 + len(self._indexes)))
        progress = TaskProgress(done, self._of, self._batches + number, len(copies.at), False)
        own = checkpoint.pairs_of(self._task, progress)
        required: list[Requirement] = [
            *order.fences,
            copies.required(self._source.row_prefix),
        ]
        return Bulk(copies.key_list(), copies.payloads(), required, own, report=True)

    def _require_alike(self, bulk: Bulk, result: BulkResult, is_entry: bool) -> None:
        """What stood there is ours, or the same row in another layout."""
        logical = self._logical
        for n, stands in result.present:
            value = bulk.payloads if isinstance(bulk.payloads, bytes) else bulk.payloads[n]
            if stands != value and (is_entry or logical.decode(stands) != logical.decode(value)):
                raise self._unlike(bulk.keys[n])

    def _finish(self) -> Batch:
        """The last transaction of a task: its span is finished."""
        progress = TaskProgress(self._rows, self._of, self._batches + 1, 0, True)
        began = self._monotonic()
        self._store.bulk(
            [], b"", self._task.order.fences, checkpoint.pairs_of(self._task, progress)
        )
        return Batch(0, self._monotonic() - began)


def indexes_of(table: Table) -> list[IndexInfo]:
    """The indexes that writers keep."""
    return [form.info for form in table.forms if form.duty.adds]


def copied_indexes(table: Table) -> list[IndexInfo]:
    """Those whose entries lie with the rows, in the set that is not read. A global one of it is
    filled, once the rows are there."""
    cut = table.info.partition
    if cut is None or not cut.others:
        return indexes_of(table)
    return [each for each in indexes_of(table.part(cut.others[0].id)) if not each.is_global]


def copied(
    snapshot: Snapshot,
    source: Table,
    way: Way,
    indexes: Sequence[IndexInfo],
    keys: list[bytes],
    raws: list[bytes],
) -> list[Copies]:
    """Copies of rows as the store's chunks give them, then of their entries in each index. Raises
    1526."""
    wanted = sorted({*way.positions, *positions_of(source, indexes)})
    columns = row_batch.decode(source, keys, raws, snapshot.skip, wanted)
    places = way.places(columns)
    if not places.all():
        raise way.refusal(columns, int(np.flatnonzero(places == 0)[0]))
    stamps = snapshot.stamps(raws)
    at: Array = np.arange(len(keys))
    vary = isinstance(columns.handles, list)
    old = keys if vary else np.frombuffer(b"".join(keys), dtype=f"V{len(keys[0])}")
    new = under(places, old)
    values = [raw[snapshot.skip :] for raw in raws]
    copies = [Copies(new, values, columns.handles, stamps, at)]
    for index in indexes:
        made = of_columns(source, index, columns)
        numbers = numbers_of_rows(index, columns.handles, made)
        if numbers is None:
            entry_keys = under(places, made.keys)
            copies.append(Copies(entry_keys, made.suffixes, columns.handles, stamps, at, index.id))
        else:
            entry_keys = under(places[numbers], made.keys)
            copies.append(entries_of(index, made, entry_keys, columns.handles, stamps, numbers))
    return copies


def numbers_of_rows(index: IndexInfo, names: Keys, found: Entries) -> Array | None:
    """Of which row each entry is, shape (entries,); None where each row has one. `names`: by what
    entries name the rows."""
    if index.holds_every_row:
        return None
    assert found.handles is not None
    number_of = {name: n for n, name in enumerate(as_bytes(names))}
    return np.array([number_of[each] for each in as_bytes(found.handles)], np.int64)


def entries_of(
    index: IndexInfo, found: Entries, keys: Keys, handles: Keys, stamps: Array, numbers: Array
) -> Copies:
    """Entries under `keys`, because of the rows of these handles and stamps whose numbers those
    are."""
    every: Array = np.arange(len(numbers))
    of = take(handles, numbers)
    return Copies(keys, found.suffixes, of, stamps[numbers], every, index.id)


# -- what reads only -------------------------------------------------------------------------------


def check_moved(store: Store, task: Task) -> Steps:
    """The kernel of verification: rows of one span, each looked up in the other set in the same
    snapshot."""
    order = task.order
    ways = router_named(order.router)(order.logical)
    way = ways.other if order.physical_id in order.sources else ways.read
    table, seen = order.table, 0
    faults: list[str] = []
    with closing(fresh_snapshot(store, table)) as snapshot:
        for keys, raws in snapshot.chunks(task.span, CHUNK_ROWS):
            columns = row_batch.decode(table, keys, raws, snapshot.skip, way.positions)
            twin_keys = as_bytes(under(way.places(columns), keys))
            faults += unlike_twins(table, snapshot, keys, raws, twin_keys)
            seen += len(keys)
            yield Batch(len(keys), 0.0)
    return Outcome(ordinal=task.ordinal, rows=seen, result=(len(faults), faults[:MOST_LISTED]))


def unlike_twins(
    table: Table, snapshot: Snapshot, keys: list[bytes], raws: list[bytes], twin_keys: list[bytes]
) -> list[str]:
    """Handles, as hex, of rows of `table` that are not the same under their twins' keys. An empty
    key: there is no twin."""
    twins = snapshot.get_many([key for key in twin_keys if key])
    skip = snapshot.skip
    handles = []
    for key, twin_key, raw in zip(keys, twin_keys, raws, strict=True):
        twin = twins.get(twin_key)
        if twin is not None and twin[skip:] == raw[skip:]:
            continue  # the same bytes are the same row
        if twin is None or table.decode(twin[skip:]) != table.decode(raw[skip:]):
            handles.append(key[HANDLE_AT:].hex())
    return handles


def unlike(table: Table, handle: str) -> Refused:
    """8223 for a row that is not the same in both sets."""
    return ErrDataInconsistent(table.info.name.O, "partitions that change", handle, "", "")


def fault_of(store: Store, order: TaskOrder, outcomes: Sequence[Outcome]) -> Refused | None:
    """8223, where tasks of `check moved` found rows without a twin."""
    handles = [handle for outcome in outcomes for handle in outcome.result[1]]
    return unlike(order.logical, handles[0]) if handles else None


def check_apart(store: Store, task: Task) -> Steps:
    """The kernel of what two sets must fulfil before one joins the other: no row of the span has
    the handle, or a unique key, of a row there. Raises 1062."""
    order = task.order
    way = router_named(order.router)(order.logical).other
    unique = [index for index in indexes_of(order.table) if index.is_unique]
    wanted = sorted({*way.positions, *positions_of(order.table, unique)})
    seen = 0
    with closing(fresh_snapshot(store, order.table)) as snapshot:
        for keys, raws in snapshot.chunks(task.span, CHUNK_ROWS):
            columns = row_batch.decode(order.table, keys, raws, snapshot.skip, wanted)
            places = way.places(columns)
            _refuse_met(order, snapshot, as_bytes(under(places, keys)))
            for index in unique:
                made = of_columns(order.table, index, columns)
                numbers = numbers_of_rows(index, columns.handles, made)
                theirs = places if numbers is None else places[numbers]
                _refuse_met(order, snapshot, as_bytes(under(theirs, made.keys)))
            seen += len(keys)
            yield Batch(len(keys), 0.0)
    return Outcome(ordinal=task.ordinal, rows=seen)


def _refuse_met(order: TaskOrder, snapshot: Snapshot, keys: list[bytes]) -> None:
    """1062 where one of these keys, of rows or of entries, stands."""
    found = snapshot.get_many(keys)
    for key in keys:
        if key in found and found[key][snapshot.skip :] != TOMBSTONE:
            there = order.logical.part(int.from_bytes(key[_ID], "big"))
            met = writer.explain_duplicate(there, Duplicate(key, b""))
            raise ErrDupEntry.with_text(f"{met.message}, by a row of both before and since")


def check_fits(store: Store, task: Task) -> Steps:
    """The kernel of an exchange: every row of the span belongs to the partition. Raises 1737."""
    order = task.order
    way = router_named(order.router)(order.logical).read
    (partition,) = order.sources
    seen = 0
    with closing(fresh_snapshot(store, order.table)) as snapshot:
        for keys, raws in snapshot.chunks(task.span, CHUNK_ROWS):
            columns = row_batch.decode(order.table, keys, raws, snapshot.skip, way.positions)
            places: Array = way.places(columns)
            if not bool(np.all(places == partition)):
                raise ErrRowDoesNotMatchPartition()
            seen += len(keys)
            yield Batch(len(keys), 0.0)
    return Outcome(ordinal=task.ordinal, rows=seen)
