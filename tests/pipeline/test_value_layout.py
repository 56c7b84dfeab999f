"""The engine defines the bytes before a payload; kernels skip as many as the snapshot reports.

Here an engine adds eight bytes before the commit's sequence and five after it."""

from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from exuvia.catalog import writer
from exuvia.catalog.model import SchemaState
from exuvia.kv.memory import MemoryStore
from exuvia.kv.packet import STAMP_BYTES, InChunks, Snapshot, SnapshotUse, Span
from exuvia.kv.store import ForwardingStore, Store
from exuvia.pipeline.kernels.entries import of_rows
from exuvia.pipeline.phase_runner import PhaseRunner
from exuvia.pipeline.reorg import Done, fill_indexes
from exuvia.pipeline.settings import Fixed, PipelineSettings
from exuvia.pipeline.verify.compare import check_index
from support.tables import JOB, begin_reorg, publish, table_info, with_states

BEFORE, BEHIND = b"\xff" * 8, b"\xee" * 5
INFO = table_info(
    "id int not null",
    "k int",
    "u varchar(10)",
    primary="id",
    plain={"ik": "k"},
    unique={"iu": "u"},
)
ROWS = 300


def laid_out(raw: bytes) -> bytes:
    return BEFORE + raw[:STAMP_BYTES] + BEHIND + raw[STAMP_BYTES:]


class OtherSnapshot(InChunks):
    """Another snapshot's values in a different layout."""

    skip = len(BEFORE) + STAMP_BYTES + len(BEHIND)

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self.sequence = snapshot.sequence

    def stamps(self, raws: Sequence[bytes]) -> NDArray[np.uint64]:
        begin, end = len(BEFORE), len(BEFORE) + STAMP_BYTES
        return np.frombuffer(b"".join([raw[begin:end] for raw in raws]), "<u8")

    def get(self, key: bytes) -> bytes | None:
        raw = self._snapshot.get(key)
        return None if raw is None else laid_out(raw)

    def get_many(self, keys: list[bytes]) -> dict[bytes, bytes]:
        return {key: laid_out(raw) for key, raw in self._snapshot.get_many(keys).items()}

    def scan(self, span: Span, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        return ((key, laid_out(raw)) for key, raw in self._snapshot.scan(span, reverse))

    def chunks(self, span: Span, rows: int = 10_000) -> Iterator[tuple[list[bytes], list[bytes]]]:
        for keys, raws in self._snapshot.chunks(span, rows):
            yield keys, [laid_out(raw) for raw in raws]

    def require_open(self) -> None:
        self._snapshot.require_open()

    def in_use(self, running: bool) -> None:
        self._snapshot.in_use(running)

    def close(self) -> None:
        self._snapshot.close()


class OtherStore(ForwardingStore):
    """Its transactions use the engine's layout; other snapshots show the different one."""

    def snapshot(self, use: SnapshotUse = SnapshotUse.SYSTEM) -> Snapshot:
        snapshot = self.shared.snapshot(use)
        return snapshot if use is SnapshotUse.LOOK else OtherSnapshot(snapshot)


def rows_of_three_kinds(store: Store) -> None:
    """Rows written before the indexes existed."""
    before = publish(store, with_states(INFO, ik=SchemaState.ABSENT, iu=SchemaState.ABSENT), 1)
    txn = store.begin()
    for n in range(ROWS):
        writer.insert(txn, before, [n, n % 10 if n % 7 else None, f"u{n}" if n % 5 else None])
    txn.commit()


@pytest.mark.parametrize("name", ["ik", "iu"])
def test_an_index_is_filled_and_verified_with_another_value_layout(name: str) -> None:
    shared = MemoryStore()
    rows_of_three_kinds(shared)
    absent = {"ik", "iu"} - {name}
    states = {name: SchemaState.WRITE_REORG, absent.pop(): SchemaState.ABSENT}
    table = publish(shared, with_states(INFO, **states), 2)
    begin_reorg(shared, 1)
    index = table.info.index(name)
    assert index is not None
    dial = Fixed(PipelineSettings(span_rows=70, batch_rows=50))
    runner = PhaseRunner(OtherStore(shared), JOB, 1, table, fill_indexes((index.id,)), dial=dial)
    reached = None
    for n in range(1000):
        reached = runner.step(float(n))
        if isinstance(reached, Done):
            break
    assert isinstance(reached, Done) and reached.rows == ROWS
    assert check_index(shared, table, index).faults == []


def test_entries_made_of_rows_are_the_same_in_either_layout() -> None:
    shared = MemoryStore()
    rows_of_three_kinds(shared)
    table = publish(shared, INFO, 2)
    here, there = (
        list(of_rows(snapshot, table, [f.info for f in table.forms], table.row_span()))
        for snapshot in (shared.snapshot(), OtherStore(shared).snapshot())
    )
    assert [(rows, [list(map(bytes, e.keys)) for e in chunk]) for rows, chunk in here] == [
        (rows, [list(map(bytes, e.keys)) for e in chunk]) for rows, chunk in there
    ]
