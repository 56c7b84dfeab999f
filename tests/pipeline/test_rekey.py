"""Rows that move to hidden ids: by two concurrent attempts at one task, and under concurrent
writes."""

import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from exuvia.base.limits import REORG_BATCH_ROWS
from exuvia.catalog import reader, writer
from exuvia.catalog.model import SchemaState, TableInfo, evolve
from exuvia.catalog.table import Table
from exuvia.ddl.actions.rekey import with_hidden_id_rows
from exuvia.kv import keys as k
from exuvia.kv.memory import MemoryStore
from exuvia.kv.packet import Bulk, BulkResult
from exuvia.kv.store import ForwardingStore, Store, open_store
from exuvia.pipeline.kernels.attempt import TaskAttempt
from exuvia.pipeline.settings import Fixed, PipelineSettings
from exuvia.pipeline.task import DONE, Outcome, Task, TaskOrder
from support.postgres import shared_server
from support.slow_disk import chains_of, slow_disk
from support.tables import JOB, begin_reorg, publish, table_info

INFO = table_info(
    "id int not null", "v int", "u int", primary="id", plain={"iv": "v"}, unique={"uu": "u"}
)
ROWS = 40


def moving(info: TableInfo, state: SchemaState) -> TableInfo:
    info = with_hidden_id_rows(info, (777,))
    assert info.exuvia_rekey is not None
    return evolve(info, exuvia_rekey=evolve(info.exuvia_rekey, state=state))


@pytest.fixture(params=["memory", "lmdb", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    urls = {
        "memory": lambda: "memory:",
        "lmdb": lambda: f"lmdb://{tmp_path}/store?sync=0",
        "postgresql": lambda: shared_server().new_url(),
    }
    opened = open_store(urls[request.param]())
    yield opened
    opened.close()


def begun(store: Store, rows: int = ROWS) -> tuple[Table, Task]:
    """A table of some rows, and the task that moves them."""
    before = publish(store, INFO, 1)
    txn = store.begin()
    for n in range(rows):
        writer.insert(txn, before, [n, n % 3, n])
    txn.commit()
    table = publish(store, moving(INFO, SchemaState.WRITE_REORG), 2)
    begin_reorg(store, 1)
    assert table.other_guard is not None
    order = TaskOrder(
        job_id=JOB,
        epoch=1,
        info=table.info,
        revision=2,
        database=table.database,
        database_revision=1,
        index_ids=(table.other_guard.info.id,),
    )
    return table, Task(kind="move to ids", order=order, span=table.row_span())


def stands(store: Store, table: Table) -> None:
    """Each row has one copy, and each index points to the copies."""
    other = table.rekeyed
    txn = store.begin()
    wanted = sorted(row for _, row in reader.scan(txn, table))
    copies = dict(reader.scan(txn, other))
    assert sorted(copies.values()) == wanted
    for index in other.info.indexes:
        assert sorted(handle for _, handle in reader.scan_index(txn, other, index)) == sorted(
            copies
        )
    txn.rollback()


@pytest.mark.parametrize("writes", [False, True])
@pytest.mark.parametrize("late", range(4))
def test_each_row_gets_one_copy_even_if_a_task_runs_twice(
    store: Store, late: int, writes: bool
) -> None:
    """The second attempt begins after some steps of the first; rows change then, or do not."""
    table, task = begun(store)
    attempts = [TaskAttempt(store, task, Fixed(), lambda: 0.0) for _ in range(2)]
    ended: list[Outcome] = []
    step = 0
    while attempts:
        for each in tuple(attempts[: 1 if step < late else 2]):
            reached = each.advance()
            if isinstance(reached, Outcome):
                ended.append(reached)
                attempts.remove(each)
        if step == late and writes:
            txn = store.begin()
            writer.update(txn, table, k.i64(7), [7, 1, 7], [7, 5, 7])
            writer.delete(txn, table, k.i64(8), [8, 2, 8])
            writer.insert(txn, table, [100, 0, 8])
            writer.update(txn, table, k.i64(9), [9, 0, 9], [109, 0, 9])
            txn.commit()
        step += 1
    assert [each.kind for each in ended] == [DONE, DONE], ended
    stands(store, table)


class Busy(ForwardingStore):
    """A store whose writers change some rows before every other commit of a move."""

    def __init__(self, store: Store, table: Table, rows: int) -> None:
        super().__init__(store)
        self._table = table
        self._rows = rows
        self._next = 0
        self.attempts = 0

    def bulk_chain(self, batches: Iterable[Bulk], most_s: float) -> list[BulkResult]:
        self.attempts += 1
        txn = self.shared.begin()
        for _ in range(8 * (self.attempts % 2)):
            self._next = (self._next + 997) % self._rows
            handle = k.i64(self._next)
            row = reader.get(txn, self._table, handle)
            assert row is not None
            writer.update(txn, self._table, handle, row, [row[0], row[1] + 1, row[2]])
        txn.commit()
        return self.shared.bulk_chain(batches, most_s)


def test_a_slow_disk_does_not_make_the_commits_of_a_move_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wait for the disk counted as time in which clients wait for rows."""
    rows = 6_000
    store = open_store(f"lmdb://{tmp_path}/store?sync=0")
    _, task = begun(store, rows)
    slow_disk(monkeypatch, 0.06)
    chains = chains_of(monkeypatch)
    dial = Fixed(PipelineSettings(batch_s=0.003))
    attempt = TaskAttempt(store, task, dial, time.monotonic)
    copies = 3 * rows  # the row and its entries in two indexes
    while not isinstance(reached := attempt.advance(), Outcome):
        assert sum(map(len, chains)) < 2 * copies // REORG_BATCH_ROWS[1]
    assert reached.kind == DONE
    assert sum(map(sum, chains)) == copies
    store.close()


def test_rows_that_change_all_the_time_do_not_slow_a_move_down() -> None:
    """Each refusal halved the batches. Small batches took longer, so more rows had changed: 10,000
    rows took 24 to 99 s with four concurrent writers."""
    rows = 3_000
    store = MemoryStore()
    table, task = begun(store, rows)
    busy = Busy(store, table, rows)
    most = 2 * (1 + len(table.rekeyed.info.indexes)) * rows // REORG_BATCH_ROWS[1]
    attempt = TaskAttempt(busy, task, Fixed(), lambda: 0.0)
    while not isinstance(reached := attempt.advance(), Outcome):
        assert busy.attempts < most
    assert reached.kind == DONE
    stands(store, table)
