"""Rows copied into another set of partitions, batch by batch, each batch one transaction.

    snapshot   some rows of an old partition      -> where each belongs now (1526: the job ends)
    writes     row and entries, where no such row stands yet     a writer put it, or this has run
    requires   the old rows as they were read, the reorg's epoch (law 2)
    Conflict   a writer touched one of them: again, from a newer snapshot, with fewer rows

A copy is thus what the old row is at the very moment of the commit, and writers in WRITE_REORG keep
both sets from then on: neither a lost write nor a row that comes back. So no tombstones are needed,
unlike a fill's (law 6): a row has a version that the store compares, an index entry has none.

`verify`: each row of either set is looked up in the other, in one snapshot of each span.

The pipeline knows no SQL: a *router*, "module:function", is a name that crosses to Spark's workers.
"""

from collections.abc import Callable, Generator
from functools import cache
from importlib import import_module
from itertools import islice

from exuvia.base.errors import Broken, Conflict, Refused, Unavailable
from exuvia.base.mysql import refuse
from exuvia.catalog import writer
from exuvia.catalog.layout import Row
from exuvia.catalog.table import Table
from exuvia.kv import keys
from exuvia.kv.packet import Span
from exuvia.kv.store import Store
from exuvia.kv.transaction import Transaction
from exuvia.pipeline import checkpoint
from exuvia.pipeline.checkpoint import Progress
from exuvia.pipeline.pace import Batch
from exuvia.pipeline.task import Outcome, Task

BATCH_ROWS = 256
_TRIES = 50
_CHECKED_ROWS = 1_000
Steps = Generator[Batch, None, Outcome]
Place = Callable[[Row], int]
Router = Callable[[Table], tuple[Place, Place]]


@cache
def router_named(text: str) -> Router:
    """(physical id of a row in the other set, in the set that is read). Raises Broken."""
    module, _, function = text.partition(":")
    if not function:
        raise Broken("rows are to be moved where no router is wired")
    found: Router = getattr(import_module(module), function)
    return found


def move_rows(store: Store, task: Task) -> Steps:
    """The kernel of one span of an old partition."""
    return (yield from _Move(store, task).steps())


class _Move:
    def __init__(self, store: Store, task: Task) -> None:
        self._store = store
        self._task = task
        order = task.order
        self._source = order.table
        self._logical = order.logical
        self._place, _ = router_named(order.router)(self._logical)
        self._rows = 0
        self._batch_rows = BATCH_ROWS
        self._ended = False
        self._batches = 0

    def steps(self) -> Steps:
        start, tries = self._task.span.start, 0
        while not self._ended:
            try:
                start, moved = self._batch(start)
                tries = 0
                self._batch_rows = min(BATCH_ROWS, self._batch_rows * 2)
                yield Batch(moved, 0.0)
            except Conflict:
                tries += 1
                self._batch_rows = max(1, self._batch_rows // 2)
                if tries >= _TRIES:
                    raise Unavailable("writers do not leave the rows of a batch alone") from None
        return Outcome(ordinal=self._task.ordinal, rows=self._rows, placed=self._rows)

    def _batch(self, start: bytes) -> tuple[bytes, int]:
        """One transaction; (where the next one begins, rows)."""
        txn = self._store.begin()
        try:
            _check_fresh(txn, self._logical)
            span = Span(start, self._task.span.end)
            found = list(islice(txn.scan(span, limit=self._batch_rows), self._batch_rows))
            for key, payload in found:
                self._copy(txn, key, payload)
            ends = len(found) < self._batch_rows
            self._rows += len(found)
            self._batches += 1
            progress = Progress(self._rows, self._rows, self._batches, self._batch_rows, ends)
            for key, payload in checkpoint.pairs_of(self._task, progress):
                txn.put(key, payload)
            for fence in self._task.order.fences:
                txn.require_equal(*fence)
            try:
                txn.commit()
            except Conflict:
                self._rows -= len(found)
                raise
            self._ended = ends
            return (found[-1][0] + b"\0" if found else start), len(found)
        finally:
            txn.rollback()

    def _copy(self, txn: Transaction, key: bytes, payload: bytes) -> None:
        row = self._source.decode(payload)
        target = self._logical.part(self._place(row))
        handle = key[keys.HANDLE_AT :]
        txn.require(key)
        held = txn.get(target.row_prefix + handle)
        if held is None:
            writer.insert(txn, target, row, handle)
        elif self._logical.decode(held) != row:
            raise fault(self._logical, [handle.hex()])  # another row's hidden id (decision 015)


def _check_fresh(txn: Transaction, table: Table) -> None:
    """Law 1: the snapshot shows the planned revision. Raises Unavailable."""
    if keys.read_number(txn.get(keys.revision(table.info.id))) < table.revision:
        raise Unavailable(f"the snapshot is older than revision {table.revision}")


def check_moved(store: Store, task: Task) -> Steps:
    """The kernel of verification: rows of one span, each looked up in the other set."""
    order = task.order
    here, logical = order.table, order.logical
    other, read = router_named(order.router)(logical)
    place = other if order.physical_id in order.sources else read
    seen, faults = 0, []
    start = task.span.start
    while True:
        txn = store.begin()
        try:
            _check_fresh(txn, logical)
            span = Span(start, task.span.end)
            found = list(islice(txn.scan(span, limit=_CHECKED_ROWS), _CHECKED_ROWS))
            for key, payload in found:
                row, handle = here.decode(payload), key[keys.HANDLE_AT :]
                twin = txn.get(logical.part(_placed(place, row)).row_prefix + handle)
                if twin is None or logical.decode(twin) != row:
                    faults.append(handle.hex())
        finally:
            txn.rollback()
        seen += len(found)
        if len(found) < _CHECKED_ROWS:
            return Outcome(ordinal=task.ordinal, rows=seen, result=(len(faults), faults[:5]))
        start = found[-1][0] + b"\0"
        yield Batch(len(found), 0.0)


def check_fits(store: Store, task: Task) -> Steps:
    """The kernel of an exchange: every row of the span belongs to the partition. Raises 1737."""
    order = task.order
    _, read = router_named(order.router)(order.logical)
    (partition,) = order.sources
    seen, start = 0, task.span.start
    while True:
        txn = store.begin()
        try:
            _check_fresh(txn, order.logical)
            span = Span(start, task.span.end)
            found = list(islice(txn.scan(span, limit=_CHECKED_ROWS), _CHECKED_ROWS))
        finally:
            txn.rollback()
        for _, payload in found:
            if _placed(read, order.table.decode(payload)) != partition:
                raise refuse(1737)
        seen += len(found)
        if len(found) < _CHECKED_ROWS:
            return Outcome(ordinal=task.ordinal, rows=seen)
        start = found[-1][0] + b"\0"
        yield Batch(len(found), 0.0)


def _placed(place: Place, row: Row) -> int:
    """Nowhere is a fault, not the user's error."""
    try:
        return place(row)
    except Refused:
        return 0


def fault(table: Table, handles: list[str]) -> Refused:
    """8223 for rows that are not the same in both sets."""
    return refuse(8223, table.info.name.O, "partitions that change", handles[0], "", "")
