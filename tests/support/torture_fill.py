"""A table loaded in bulk, and the checkpoint of its fill as the store holds it, watched."""

import threading
from itertools import pairwise

import pyarrow as pa

from exuvia.catalog import reader
from exuvia.catalog.infoschema import Schemas
from exuvia.catalog.system_tables import SYSTEM
from exuvia.catalog.table import Table
from exuvia.kv import keys
from exuvia.kv.packet import SEQUENCE_BYTES, Span
from exuvia.kv.store import Store
from exuvia.pipeline import bulk
from support.node_processes import NodeProcess
from support.torture import run
from support.torture_clients import first_cells

_LOOK_S = 0.05


def load(node: NodeProcess, store: Store, name: str, rows: int) -> Table:
    """Make table `name` (id, k, v) and load it through the bulk path."""
    run(node, f"CREATE TABLE {name} (id BIGINT PRIMARY KEY, k INT NOT NULL, v BIGINT NOT NULL)")
    table = plan(store, name)
    cells = [first_cells(n, rows) or (0, 0) for n in range(rows)]
    batch = pa.record_batch(
        {
            "id": pa.array(range(rows), pa.int64()),
            "k": pa.array([k for k, _ in cells], pa.int32()),
            "v": pa.array([v for _, v in cells], pa.int64()),
        }
    )
    assert bulk.load(store, table, [batch]) == rows
    return table


def plan(store: Store, name: str) -> Table:
    """The table as a session would plan with it now."""
    txn = store.begin()
    try:
        return Schemas(store).table(txn, "test", name)
    finally:
        txn.rollback()


class Checkpoint:
    """Rows of mysql.tidb_ddl_reorg of one job, looked at all the time until `stop`.

    `spans`: each finished span -> (its row's commit sequence, its rows), as first seen. A span done
    again would have written its row again: another sequence. `faults`: what ought not to be."""

    def __init__(self, store: Store, job_id: int) -> None:
        self.spans: dict[Span, tuple[int, bytes]] = {}
        self.faults: list[str] = []
        self.is_over = False
        self._store, self._job_id = store, job_id
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._stopping.set()
        self._thread.join(30)

    def _run(self) -> None:
        while not self._stopping.wait(_LOOK_S) and not self.is_over:
            self._look()

    def _look(self) -> None:
        txn = self._store.begin()
        try:
            sequences = _sequences(txn.snapshot, self._job_id)
            table = _reorg_table()
            at = {c.name.L: n for n, c in enumerate(table.info.cols)}
            seen = {}
            for handle, row in reader.scan(txn, table, _rows_of(self._job_id)):
                span = Span(row[at["start_key"]], row[at["end_key"]])
                seen[span] = (sequences[table.row_prefix + handle], row[at["reorg_meta"]])
        finally:
            txn.rollback()
        if self.spans and not seen:
            self.is_over = True  # the job's last step took them all
            return
        for span, (sequence, meta) in self.spans.items():
            if span not in seen:
                self.faults.append(f"a finished span is gone: {span}")
            elif seen[span][0] != sequence:
                self.faults.append(f"a finished span was done again: {span} {meta!r}")
        self.spans |= {span: found for span, found in seen.items() if span not in self.spans}

    def overlaps(self) -> list[str]:
        """Spans that were done in part by another span."""
        return [
            f"{one} and {other}"
            for one, other in pairwise(sorted(self.spans))
            if other.start < one.end
        ]


def _reorg_table() -> Table:
    from exuvia.pipeline.checkpoint import _table

    return _table()


def _rows_of(job_id: int) -> Span:
    prefix = keys.row_prefix(SYSTEM["tidb_ddl_reorg"].id)
    return Span(prefix + keys.i64(job_id << 32), prefix + keys.i64((job_id + 1) << 32))


def _sequences(snapshot: object, job_id: int) -> dict[bytes, int]:
    found = {}
    for names, raws in snapshot.chunks(_rows_of(job_id)):  # type: ignore[attr-defined]
        for key, raw in zip(names, raws, strict=True):
            found[key] = int.from_bytes(raw[:SEQUENCE_BYTES], "little")
    return found
