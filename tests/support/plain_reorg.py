"""The pipeline's rules in short: one row a step, put if absent, unique entries judged singly.

For tests that step everything in one thread; the pipeline's own kernels have tests of their own.
"""

from collections.abc import Iterator

from exuvia.base.mysql_errors import ErrDupEntry
from exuvia.catalog import reader
from exuvia.catalog.codec import key_codec
from exuvia.catalog.model import IndexInfo
from exuvia.catalog.table import Table
from exuvia.ddl.reorg_runner import ReorgFactory
from exuvia.kv import keys
from exuvia.kv.packet import LIVE, TOMBSTONE, Equal
from exuvia.kv.store import Store
from exuvia.pipeline.progress import Done, Duplicates, Progress, Running


class PlainReorg:
    """A reorg that reads when it is first stepped and then writes one row a step."""

    def __init__(
        self, store: Store, job_id: int, epoch: int, table: Table, index_ids: list[int]
    ) -> None:
        self._store = store
        self._require = Equal(keys.meta("reorg", job_id), keys.number(epoch))
        self._table = table
        self._indexes = [i for i in table.info.indexes if i.id in index_ids]
        self._life = self._live()
        self._found: list[str] = []
        self.stopped = False

    @classmethod
    def factory(cls, store: Store) -> ReorgFactory:
        """As node/ wires one."""
        return lambda job_id, epoch, table, plan: cls(
            store, job_id, epoch, table, list(plan.indexes)
        )

    def step(self, now: float) -> Progress:
        return next(self._life)

    def stop(self) -> None:
        self.stopped = True

    def _live(self) -> Iterator[Progress]:
        txn = self._store.begin()
        rows = list(reader.scan(txn, self._table))
        txn.rollback()
        for done, (handle, row) in enumerate(rows):
            yield Running(done, 1.0, None, "fill", "")
            for index in self._indexes:
                self._put(index, handle, row)
        if self._found:
            yield Duplicates(self._found, ErrDupEntry.with_text(self._found[0]))
        yield Done(len(rows))

    def _put(self, index: IndexInfo, handle: bytes, row: list[object]) -> None:
        key, unique = key_codec.index_key(self._table, index, row, handle)
        payload = LIVE + handle if unique else LIVE
        result = self._store.bulk([key], payload, [self._require], report=True)
        for _, held in result.present:
            if unique and held != payload:
                self._judge(index, key, payload, handle, row)

    def _judge(
        self, index: IndexInfo, key: bytes, payload: bytes, handle: bytes, row: list[object]
    ) -> None:
        txn = self._store.begin()
        held, now = txn.get(key), reader.get(txn, self._table, handle)
        same = now is not None and key_codec.index_key(self._table, index, now, handle)[0] == key
        txn.rollback()
        if not same or held == payload:
            return
        if held is None or held == TOMBSTONE:
            self._store.bulk([key], payload, [self._require], overwrite=True)
        else:
            values = "-".join(str(row[part.offset]) for part in index.idx_cols)
            where = f"{self._table.info.name.O}.{index.idx_name.O}"
            self._found.append(f"Duplicate entry '{values}' for key '{where}'")
