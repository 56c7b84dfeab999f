"""Moves rows of a span of an old partition, and their entries, to the new partitions.

    fresh snapshots        must show the reorg's revision of the table (law 1)
      -> some rows         each one's partition, computed by columns   (1526: the job ends)
      -> batches of rows   their bytes unchanged, under the new partition's id
      -> their entries     collected until all rows of the span are written
    then a run per index   of all new partitions, sorted, in batches like those of the rows;
                           several batches share one disk sync (Store.bulk_chain)
    the last batch         marks the span as finished

Each batch is one transaction that puts only where no key is present. It requires the reorg's epoch
(law 2) and that every copied row is unchanged since it was read. So it is correct at the moment of
its commit, and writers in WRITE_REORG maintain both sets from then on. Neither a write is lost, nor
does a deleted row or entry come back. A backfill needs tombstones (law 6), a
move does not: the store compares versions of rows, which index entries do not have (decision 015).
    Conflict   a writer changed one of the rows: the rest of the batch is copied again
    present    put by a writer or an earlier run: must be equal, else 8223

A large table goes through an exchange (exchange.py). Tasks put rows and spill their entries. When
all are spilled, the entries are put by key range, under the same requirements; so their age does
not matter. No span is finished before all entries are put.

Rows are written before entries. A writer that changes a row with a copy writes the entries whose
keys change and leaves the others to the run. A writer that finds no copy puts row and entries.

Entries of global indexes are not copied, because they contain the partition's id. A backfill of the
new index puts them once all rows are moved, together with those of the partitions that stay.
Writers leave tombstones for that backfill, so it need not check again the rows it has read (law 6).
It makes no difference to it whether the move or a writer has put a row (model in tests/laws).

Three kernels only read:

    check moved   looks up rows of each set in the other one, where the copy must be
    check apart   UNDO of a TRUNCATE: no key may be present in the other set (1062)
    check fits    rows that become a partition must belong to it (1737)
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, closing
from functools import cache, cached_property, partial
from importlib import import_module
from typing import BinaryIO, NamedTuple, Protocol

import msgspec
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
    CHUNK_ROWS,
    REREAD_ROWS,
    Entries,
    InPlace,
    as_bytes,
    fresh_snapshot,
    joined,
    of_columns,
    payloads,
    positions,
    positions_of,
    take,
)
from exuvia.pipeline.kernels.exchange import in_turn, turn_of
from exuvia.pipeline.kernels.spilled_runs import (
    RunReader,
    Slice,
    SpilledColumn,
    SpilledRun,
    decode_runs,
    paced,
    places_in,
    reporting,
    require_room,
    shared_prefix,
    slices_of,
    spilled_file,
    write_column,
)
from exuvia.pipeline.settings import Dial
from exuvia.pipeline.task import Outcome, Task, TaskCost, TaskOrder
from exuvia.pipeline.throttle import Batch, BatchSize, Steps, throttled

# -- routers ---------------------------------------------------------------------------------------
#
# The pipeline does not depend on SQL. A *router* is a name, "module:function", that is sent to
# Spark's workers. For a table whose partitions change it returns both sets of partitions, each of
# which computes the partitions of many rows at once.
_ID = slice(1, 9)  # position of the physical id in a key


class PartitionSet(Protocol):
    """One set of partitions. `positions`: the columns that decide a row's partition."""

    positions: list[int]

    def places(self, columns: Columns) -> Array:
        """Returns each row's physical id, 0 if no partition fits. Shape (rows,), int64."""

    def refusal(self, columns: Columns, row: int) -> Refused:
        """Returns 1526 for a row that fits no partition."""


class PartitionSets(NamedTuple):
    """The set of partitions that is not read yet, and the one that is."""

    other: PartitionSet
    read: PartitionSet


Router = Callable[[Table], PartitionSets]


@cache
def router_by_name(text: str) -> Router:
    """Returns the function of that name. Raises Broken if the name is empty."""
    module, _, function = text.partition(":")
    if not function:
        raise Broken("rows are to be moved where no router is wired")
    router: Router = getattr(import_module(module), function)
    return router


def under(places: Array, keys: Keys) -> Keys:
    """Returns the same keys (of rows or entries) under other physical ids."""
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


# -- copies ----------------------------------------------------------------------------------------
#
# Columns of rows and index entries. Each is derived from one source row.
#
#     keys          values      source row           required at the commit
#     a row's       its bytes   the copied row       the row still has its stamp in `stamps`
#     an entry's    handle      found by `sources`   the row still has its stamp in `stamps`
#
# `at` selects the copies to put, in that order; parts share the arrays.


class Copies(NamedTuple):
    """Copies to put. `values`: payloads of rows; suffixes of entries, None in a plain index.
    `sources`: keys of the source rows. `index_id`: 0 for rows. `guards`: see rekey.py."""

    keys: Keys
    values: Keys | None
    sources: Keys
    stamps: Array
    at: Array
    index_id: int = 0
    guards: list[bytes] | None = None

    def __bool__(self) -> bool:
        return len(self.at) > 0

    def split(self, rows: int) -> "tuple[Copies, Copies]":
        """Returns the first `rows` copies, and the rest."""
        return self._replace(at=self.at[:rows]), self._replace(at=self.at[rows:])

    def key_list(self) -> list[bytes]:
        """Returns the selected keys."""
        return as_bytes(take(self.keys, self.at))

    def payloads(self) -> bytes | list[bytes]:
        """Returns the selected payloads."""
        values = None if self.values is None else take(self.values, self.at)
        return as_bytes(values) if values is not None and not self.index_id else payloads(values)

    def source_keys(self) -> list[bytes]:
        """Returns the keys of the selected copies' source rows."""
        return as_bytes(take(self.sources, self.at))

    def required(self) -> Standing:
        """Returns the requirement that the source rows are unchanged."""
        stamps = self.stamps[self.at].astype("<u8").tobytes()
        return Standing(self.source_keys(), stamps, "lost update")


def in_key_order(copies: Copies) -> Copies:
    """Returns the selected copies in key order."""
    keys = take(copies.keys, copies.at)
    return copies._replace(at=copies.at[positions(keys)])


def sorted_copies(parts: Sequence[Copies]) -> Copies:
    """Returns all copies of rows, or of one index, as one run in key order."""
    keys = joined([part.keys for part in parts])
    values = [part.values for part in parts if part.values is not None]
    return Copies(
        keys,
        joined(values) if values else None,
        joined([part.sources for part in parts]),
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
        self._of = 0 if task.spilled else store.count(task.span)
        self._rows = self._puts = self._placed = self._batches = self._copies = 0

    spills_rows = False
    """Whether rows are exchanged, too: their new keys are not in the order of the old ones."""

    def steps(self) -> Steps:
        """Moves rows, then entries; returns the outcome. Raises Deposed, Refused."""
        return self._merge() if self._task.spilled else self._move()

    def _move(self) -> Steps:
        groups: list[list[Copies]] = [[] for _ in (None, *self._indexes)]
        start, end = self._task.span
        while True:
            began = self._monotonic()
            with closing(fresh_snapshot(self._store, self._source)) as snapshot:
                keys, raws = next(iter(snapshot.chunks(Span(start, end), CHUNK_ROWS)), ([], []))
                if not keys:
                    break
                rows, *entries = self._copy(snapshot, self._indexes, keys, raws)
            yield self._has_read(began)
            if self._task.folder and self.spills_rows:
                groups[0].append(rows)
            else:
                yield from self._put(in_key_order(rows))
                entries = self._entries_after_put(keys, entries)
            for group, copies in zip(groups[1:], entries, strict=False):
                group.append(copies)
            self._rows += len(keys)
            start = k.after(keys[-1])
        if self._task.folder:
            return (yield from self._spill(groups))
        for group in filter(None, groups):
            began = self._monotonic()
            run = sorted_copies(group)
            group.clear()
            yield self._has_read(began)
            yield from self._put(run)
        yield self._finish()
        return Outcome(ordinal=self._task.ordinal, rows=self._rows, placed=self._placed)

    # -- through sorted runs on disk, see exchange.py

    def _spill(self, groups: list[list[Copies]]) -> Steps:
        """Writes copies to a file; returns the outcome, whose result is a `Spilled`."""
        finish = partial(self._report, finished=True)
        steps = spilled_file(self._task, partial(self._written_runs, groups), finish)
        spilled = yield from reporting(steps, self._report, self._monotonic)
        return Outcome(
            ordinal=self._task.ordinal,
            rows=self._rows,
            placed=self._placed,
            result=msgspec.msgpack.encode(spilled),
            cost=TaskCost(spilled=spilled.size),
        )

    def _written_runs(
        self, groups: list[list[Copies]], file: BinaryIO, name: str
    ) -> Generator[Batch, None, list[SpilledRun]]:
        """Writes a run of rows, and one of each index."""
        runs = []
        for group in filter(None, groups):
            began = self._monotonic()
            copies = sorted_copies(group)
            group.clear()
            keys = InPlace(copies.keys, copies.at)
            spans = places_in(keys, self._task.ranges, copies.index_id)
            yield self._has_read(began)
            if not spans:
                continue
            require_room(self._store, self._dial, self._task.folder)
            stamps = copies.stamps[copies.at].astype("<u8").view("V8")
            values = None if copies.values is None else InPlace(copies.values, copies.at)
            columns = (
                (keys, shared_prefix(keys, spans)),
                (values, b""),
                (InPlace(copies.sources, copies.at), self._source.row_prefix),
                (stamps, b""),
            )
            written = list[SpilledColumn | None]()
            for column, prefix in columns:
                place = None
                if column is not None:
                    steps = write_column(file, column, spans, prefix)
                    place = yield from paced(steps, self._dial, self._monotonic)
                written.append(place)
            of_keys, *others = written
            assert of_keys is not None
            rows = sum(end - start for start, end in spans)
            runs.append(SpilledRun(copies.index_id, name, rows, of_keys, *others))
        return runs

    def _report(self, finished: bool = False) -> None:
        """Stores the progress, which also checks the epoch. A row counts half when it is read."""
        progress = TaskProgress(self._rows // 2, self._of, 1, 0, finished)
        puts = [checkpoint.progress_pair(self._task, progress)]
        self._store.bulk([], b"", self._task.order.fences, puts)

    def _merge(self) -> Steps:
        """Puts the copies in one key range of rows or of one index, from all spilled runs."""
        task = self._task
        self._rows = self._of = task.rows
        turn = turn_of(self._store, task.order)
        with ExitStack() as stack:
            stack.callback(turn.release)
            runs = [run for run in decode_runs(task.spilled) if run.index_id == task.index_id]
            readers = [stack.enter_context(closing(RunReader(task.folder, run))) for run in runs]
            steps = _merged(slices_of(readers, task.span), task.index_id)
            copies = yield from paced(steps, self._dial, self._monotonic)
            if copies is not None:
                self._copies = len(copies.at)
                yield from in_turn(turn, self._put(copies))
            yield self._finish()
            cost = TaskCost(read=sum(reader.bytes_read for reader in readers))
        return Outcome(ordinal=task.ordinal, rows=task.rows, placed=self._placed, cost=cost)

    def _share(self, puts: int) -> int:
        """Returns the rows that count as done after this number of puts."""
        if self._task.spilled:
            return min(self._rows, self._rows * puts // self._copies)
        if self._task.folder:
            return puts // 2
        return min(self._of, puts // (1 + len(self._indexes)))

    def _copy(
        self,
        snapshot: Snapshot,
        indexes: Sequence[IndexInfo],
        keys: list[bytes],
        raws: list[bytes],
    ) -> list[Copies]:
        """Returns copies of rows of one chunk, then of their entries in each index."""
        return copied(snapshot, self._source, self._target_set, indexes, keys, raws)

    def _entries_after_put(self, keys: list[bytes], entries: list[Copies]) -> list[Copies]:
        """Returns the entries of rows that have been put; empty if no such row is left."""
        return entries

    @cached_property
    def _target_set(self) -> PartitionSet:
        return router_by_name(self._task.order.router)(self._logical).other

    def _mismatch(self, key: bytes) -> Refused:
        return mismatch(self._logical, key[k.HANDLE_AT :].hex())

    def _has_read(self, began: float) -> Batch:
        return Batch(0, self._monotonic() - began)

    def _put(self, copies: Copies) -> Iterator[Batch]:
        """Writes all copies in batches. A refused batch is read and copied again.

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
                batch, rest = part.split(size if is_fresh else max(size, REREAD_ROWS))
                waiting += [(rest, False), (self._read_again(batch), True)]
                done = Batch(0, 0.0, 0.0)
            yield done

    def _read_again(self, batch: Copies) -> Copies:
        """Returns the same copies from the current rows; deleted rows are left out."""
        with closing(fresh_snapshot(self._store, self._source)) as snapshot:
            raws = snapshot.get_many(batch.source_keys())
            if not raws:
                return batch.split(0)[0]
            keys = sorted(raws)
            indexes = [index for index in self._indexes if index.id == batch.index_id]
            copies = self._copy(snapshot, indexes, keys, [raws[key] for key in keys])[-1]
        return in_key_order(copies)

    def _chain(self, copies: Copies, size: int) -> Batch:
        """Runs transactions of `size` copies, as many as may share one disk sync."""
        settings = self._dial.read()
        starts = range(0, len(copies.at), size)
        if settings.write_speed or settings.batch_rows < REORG_BATCH_ROWS[1]:
            starts = starts[:1]  # the operator asked for small writes
        sent: list[Bulk] = []

        def bulks() -> Iterator[Bulk]:
            for start in starts:
                part = copies._replace(at=copies.at[start : start + size])
                sent.append(self._bulk(part, len(sent) + 1, start + len(part.at)))
                yield sent[-1]

        began = self._monotonic()
        results = self._store.bulk_chain(bulks(), settings.batch_s)
        seconds = self._monotonic() - began
        rows = min(len(copies.at), len(results) * size)
        self._batches, self._puts = self._batches + len(results), self._puts + rows
        self._placed += sum(result.placed for result in results)
        for bulk, result in zip(sent, results, strict=False):
            self._require_same(bulk, result, is_entry=copies.index_id != 0)
        self._pace.chained(rows, len(results), results[-1].written_s, settings.batch_s)
        paced = Batch(rows, seconds)
        if settings.write_speed:
            keys, values = sent[0].keys, sent[0].payloads
            put = sum(map(len, keys)) + (0 if isinstance(values, bytes) else sum(map(len, values)))
            paced = throttled(paced, put, settings, self._task.order.at_once)
        return paced

    def _bulk(self, copies: Copies, number: int, puts: int) -> Bulk:
        """Returns one transaction. `puts`: copies of the chain up to and including this one."""
        order = self._task.order
        done = self._share(self._puts + puts)
        progress = TaskProgress(done, self._of, self._batches + number, len(copies.at), False)
        own = checkpoint.pairs_of(self._task, progress)
        required: list[Requirement] = [
            *order.fences,
            copies.required(),
        ]
        return Bulk(copies.key_list(), copies.payloads(), required, own, report=True)

    def _require_same(self, bulk: Bulk, result: BulkResult, is_entry: bool) -> None:
        """Requires that each present key has the same entry, or the same row in any layout."""
        logical = self._logical
        for n, present in result.present:
            value = bulk.payloads if isinstance(bulk.payloads, bytes) else bulk.payloads[n]
            if present != value and (is_entry or logical.decode(present) != logical.decode(value)):
                raise self._mismatch(bulk.keys[n])

    def _finish(self) -> Batch:
        """Runs the last transaction of a task, which marks its span as finished."""
        progress = TaskProgress(self._rows, self._of, self._batches + 1, 0, True)
        began = self._monotonic()
        self._store.bulk(
            [], b"", self._task.order.fences, checkpoint.pairs_of(self._task, progress)
        )
        return Batch(0, self._monotonic() - began)


def _merged(slices: list[Slice], index_id: int) -> Generator[None, None, Copies | None]:
    """Reads copies of several runs, in steps. Returns one run, or None if all are empty."""
    parts = []
    for reader, start, end in slices:
        for entries, sources, stamps in reader.copies(start, end):
            at: Array = np.arange(len(stamps))
            parts.append(Copies(entries.keys, entries.suffixes, sources, stamps, at, index_id))
            yield
    return sorted_copies(parts) if parts else None


def exchanged_ranges(order: TaskOrder, targets: Sequence[int]) -> list[tuple[int, Span]]:
    """Returns the index id and the whole key range of the entries that tasks spill. `targets`: ids
    of the new partitions."""
    first, last = (order.logical.part(pick(targets)) for pick in (min, max))
    return [
        (index.id, Span(first.index_span(index).start, last.index_span(index).end))
        for index in copied_indexes(order.logical)
    ]


def indexes_of(table: Table) -> list[IndexInfo]:
    """Returns the indexes that writers maintain."""
    return [form.info for form in table.forms if form.duty.adds]


def copied_indexes(table: Table) -> list[IndexInfo]:
    """Returns the indexes of the new set whose entries are stored with the rows. Global indexes are
    left out: they are filled after the rows."""
    cut = table.info.partition
    if cut is None or not cut.others:
        return indexes_of(table)
    return [index for index in indexes_of(table.part(cut.others[0].id)) if not index.is_global]


def copied(
    snapshot: Snapshot,
    source: Table,
    way: PartitionSet,
    indexes: Sequence[IndexInfo],
    keys: list[bytes],
    raws: list[bytes],
) -> list[Copies]:
    """Returns copies of rows of one chunk, then of their entries in each index. Raises 1526."""
    needed = sorted({*way.positions, *positions_of(source, indexes)})
    columns = row_batch.decode(source, keys, raws, snapshot.skip, needed)
    places = way.places(columns)
    if not places.all():
        raise way.refusal(columns, int(np.flatnonzero(places == 0)[0]))
    stamps = snapshot.stamps(raws)
    at: Array = np.arange(len(keys))
    old = keys_of(keys, columns)
    new = under(places, old)
    values = [raw[snapshot.skip :] for raw in raws]
    copies = [Copies(new, values, old, stamps, at)]
    for index in indexes:
        entries = of_columns(source, index, columns)
        numbers = numbers_of_rows(index, columns.handles, entries)
        if numbers is None:
            entry_keys = under(places, entries.keys)
            copies.append(Copies(entry_keys, entries.suffixes, old, stamps, at, index.id))
        else:
            entry_keys = under(places[numbers], entries.keys)
            copies.append(entries_of(index, entries, entry_keys, old, stamps, numbers))
    return copies


def keys_of(keys: list[bytes], columns: Columns) -> Keys:
    """Returns the keys of the rows in `columns`, as an array if all have the same width."""
    if isinstance(columns.handles, list):
        return keys
    whole: Array = np.frombuffer(b"".join(keys), dtype=f"V{len(keys[0])}")
    return whole


def numbers_of_rows(index: IndexInfo, names: Keys, entries: Entries) -> Array | None:
    """Returns each entry's row number, shape (entries,); None if every row has one entry. `names`:
    the row handles that entries contain."""
    if index.holds_every_row:
        return None
    assert entries.handles is not None
    number_of = {name: n for n, name in enumerate(as_bytes(names))}
    return np.array([number_of[handle] for handle in as_bytes(entries.handles)], np.int64)


def entries_of(
    index: IndexInfo, entries: Entries, keys: Keys, sources: Keys, stamps: Array, numbers: Array
) -> Copies:
    """Returns copies of entries under `keys`. `numbers`: each one's row in `sources` and
    `stamps`."""
    every: Array = np.arange(len(numbers))
    of = take(sources, numbers)
    return Copies(keys, entries.suffixes, of, stamps[numbers], every, index.id)


# -- kernels that only read ------------------------------------------------------------------------


def check_moved(store: Store, task: Task) -> Steps:
    """Kernel of verification: looks up the rows of a span in the other set, in one snapshot."""
    order = task.order
    ways = router_by_name(order.router)(order.logical)
    way = ways.other if order.physical_id in order.sources else ways.read
    table, rows = order.table, 0
    faults: list[str] = []
    with closing(fresh_snapshot(store, table)) as snapshot:
        for keys, raws in snapshot.chunks(task.span, CHUNK_ROWS):
            columns = row_batch.decode(table, keys, raws, snapshot.skip, way.positions)
            copy_keys = as_bytes(under(way.places(columns), keys))
            faults += differing_rows(table, snapshot, keys, raws, copy_keys)
            rows += len(keys)
            yield Batch(len(keys), 0.0)
    return Outcome(ordinal=task.ordinal, rows=rows, result=(len(faults), faults[:MOST_LISTED]))


def differing_rows(
    table: Table, snapshot: Snapshot, keys: list[bytes], raws: list[bytes], copy_keys: list[bytes]
) -> list[str]:
    """Returns the handles, as hex, of rows that differ from their copies. An empty copy key means
    that there is no copy."""
    copies = snapshot.get_many([key for key in copy_keys if key])
    skip = snapshot.skip
    handles = []
    for key, copy_key, raw in zip(keys, copy_keys, raws, strict=True):
        copy = copies.get(copy_key)
        if copy is not None and copy[skip:] == raw[skip:]:
            continue  # equal bytes are the same row
        if copy is None or table.decode(copy[skip:]) != table.decode(raw[skip:]):
            handles.append(key[HANDLE_AT:].hex())
    return handles


def mismatch(table: Table, handle: str) -> Refused:
    """Returns 8223 for a row that differs between both sets."""
    return ErrDataInconsistent(table.info.name.O, "partitions that change", handle, "", "")


def fault_of(store: Store, order: TaskOrder, outcomes: Sequence[Outcome]) -> Refused | None:
    """Returns 8223 if tasks of `check moved` found rows without an equal copy."""
    handles = [handle for outcome in outcomes for handle in outcome.result[1]]
    return mismatch(order.logical, handles[0]) if handles else None


def check_apart(store: Store, task: Task) -> Steps:
    """Kernel that precedes the join of two sets. No row of the span may have the handle, or a
    unique key, of a row in the other set. Raises 1062."""
    order = task.order
    way = router_by_name(order.router)(order.logical).other
    unique = [index for index in indexes_of(order.table) if index.is_unique]
    needed = sorted({*way.positions, *positions_of(order.table, unique)})
    rows = 0
    with closing(fresh_snapshot(store, order.table)) as snapshot:
        for keys, raws in snapshot.chunks(task.span, CHUNK_ROWS):
            columns = row_batch.decode(order.table, keys, raws, snapshot.skip, needed)
            places = way.places(columns)
            _refuse_present(order, snapshot, as_bytes(under(places, keys)))
            for index in unique:
                entries = of_columns(order.table, index, columns)
                numbers = numbers_of_rows(index, columns.handles, entries)
                theirs = places if numbers is None else places[numbers]
                _refuse_present(order, snapshot, as_bytes(under(theirs, entries.keys)))
            rows += len(keys)
            yield Batch(len(keys), 0.0)
    return Outcome(ordinal=task.ordinal, rows=rows)


def _refuse_present(order: TaskOrder, snapshot: Snapshot, keys: list[bytes]) -> None:
    """Raises 1062 if one of these keys, of rows or entries, is present."""
    present = snapshot.get_many(keys)
    for key in keys:
        if key in present and present[key][snapshot.skip :] != TOMBSTONE:
            partition = order.logical.part(int.from_bytes(key[_ID], "big"))
            error = writer.explain_duplicate(partition, Duplicate(key, b""))
            raise ErrDupEntry.with_text(f"{error.message}, by a row of both before and since")


def check_fits(store: Store, task: Task) -> Steps:
    """Kernel of an exchange: every row of the span belongs to the partition. Raises 1737."""
    order = task.order
    way = router_by_name(order.router)(order.logical).read
    (partition,) = order.sources
    rows = 0
    with closing(fresh_snapshot(store, order.table)) as snapshot:
        for keys, raws in snapshot.chunks(task.span, CHUNK_ROWS):
            columns = row_batch.decode(order.table, keys, raws, snapshot.skip, way.positions)
            places: Array = way.places(columns)
            if not bool(np.all(places == partition)):
                raise ErrRowDoesNotMatchPartition()
            rows += len(keys)
            yield Batch(len(keys), 0.0)
    return Outcome(ordinal=task.ordinal, rows=rows)
