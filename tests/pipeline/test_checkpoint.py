"""Progress is a set of finished spans: restarts, overlaps and late tasks are harmless, and finished
work is not repeated."""

import pytest

from exuvia.base.errors import Deposed, Unavailable
from exuvia.catalog import reader, writer
from exuvia.catalog.model import SchemaState
from exuvia.catalog.system_tables import DATABASES, SYSTEM
from exuvia.catalog.table import Table
from exuvia.kv import keys as k
from exuvia.kv.memory import MemoryStore
from exuvia.kv.packet import BulkResult, Span
from exuvia.pipeline import checkpoint
from exuvia.pipeline.phase_runner import PhaseRunner
from exuvia.pipeline.reorg import Done, Failed, Progress, Running, Waiting, fill_indexes
from exuvia.pipeline.settings import Fixed, PipelineSettings
from exuvia.pipeline.verify.compare import check_index
from support.tables import JOB, begin_reorg, publish, table_info, with_states

INFO = table_info("id int not null", "k int", primary="id", plain={"ik": "k"})
INDEX = INFO.index("ik")
assert INDEX
DIAL = Fixed(PipelineSettings(batch_rows=10, span_rows=25))


class Counting(MemoryStore):
    """Counts how often each index entry was put."""

    def __init__(self) -> None:
        super().__init__()
        self.offered: list[bytes] = []

    def bulk(self, keys, *rest, **more) -> BulkResult:  # type: ignore[no-untyped-def]
        result = super().bulk(keys, *rest, **more)
        self.offered.extend(keys)
        return result


def world(rows: int = 100) -> tuple[Counting, Table]:
    store = Counting()
    before = publish(store, with_states(INFO, ik=SchemaState.ABSENT), 1)
    txn = store.begin()
    for n in range(rows):
        writer.insert(txn, before, [n, n * 7 % 100])
    txn.commit()
    table = publish(store, with_states(INFO, ik=SchemaState.WRITE_REORG), 2)
    begin_reorg(store, 1)
    return store, table


def reorg_of(store: MemoryStore, table: Table, epoch: int = 1) -> PhaseRunner:
    return PhaseRunner(store, JOB, epoch, table, fill_indexes((INDEX.id,)), dial=DIAL)


def finish(reorg: PhaseRunner, start: float = 0.0) -> Progress:
    for n in range(10_000):
        reached = reorg.step(start + n)
        if not isinstance(reached, Running | Waiting):
            return reached
    raise AssertionError("never ended")


@pytest.mark.parametrize("steps", [0, 3, 9, 17, 25, 31])
def test_a_restart_does_not_redo_finished_spans(steps: int) -> None:
    store, table = world()
    first = reorg_of(store, table)
    for n in range(steps):
        first.step(float(n))
    done = first.spans_done
    finished = checkpoint.finished(store.begin(), first.order, store.count)
    first.stop()
    offered = set(store.offered)
    store.offered.clear()
    begin_reorg(store, 2)
    second = reorg_of(store, table, epoch=2)
    ended = finish(second)
    assert isinstance(ended, Done)
    assert (ended.rows, ended.spans_skipped) == (100, finished.number)
    assert ended.spans_done + ended.spans_skipped == 4
    assert done <= finished.number
    again = len(offered & set(store.offered))
    assert again <= 25, "at most the span under way is done again"
    assert check_index(store, table, INDEX, "slow").faults == []


def test_a_finished_span_is_a_row_of_tidb_ddl_reorg_until_the_job_ends() -> None:
    store, table = world()
    assert isinstance(finish(reorg_of(store, table)), Done)
    system = Table(SYSTEM["tidb_ddl_reorg"], 1, DATABASES[2], 1)
    at = {column.name.L: n for n, column in enumerate(system.info.cols)}
    rows = [row for _, row in reader.scan(store.begin(), system)]
    assert len(rows) == 4
    assert {row[at["job_id"]] for row in rows} == {JOB}
    assert {row[at["physical_id"]] for row in rows} == {table.info.id}
    assert {row[at["ele_id"]] for row in rows} == {INDEX.id}
    starts = sorted(row[at["start_key"]] for row in rows)
    assert starts[0] == table.row_span().start
    txn = store.begin()
    checkpoint.forget(txn, JOB)
    txn.commit()
    assert list(reader.scan(store.begin(), system)) == []
    assert store.count(k.span_of(k.meta("progress", JOB))) == 0


def test_rows_of_overlapping_spans_count_once() -> None:
    """A late task finished a span of an earlier cut."""
    store, table = world()
    reorg = reorg_of(store, table)
    row = table.row_prefix
    for start, end in ((0, 30), (20, 50), (25, 45), (60, 70)):
        span = Span(row + k.i64(start), row + k.i64(end))
        store.bulk([], b"", (), checkpoint.pairs(reorg.order, span, end - start))
    found = checkpoint.finished(store.begin(), reorg.order, store.count)
    assert (found.rows, found.number, len(found.spans)) == (60, 4, 2)


def test_rows_done_grow_and_never_pass_the_tables_rows() -> None:
    store, table = world()
    reorg = reorg_of(store, table)
    seen = []
    for n in range(10_000):
        reached = reorg.step(n / 10)
        if isinstance(reached, Done):
            break
        assert isinstance(reached, Running)
        seen.append(reached.rows_done)
    assert seen == sorted(seen)
    assert len(set(seen)) > 8
    assert seen[-1] == 100
    assert reorg.step(1e6) == reached, "an ended reorg stays ended"


def test_an_empty_table_is_done_at_once() -> None:
    store, table = world(rows=0)
    assert finish(reorg_of(store, table)) == Done(0, 1, 0)


def test_a_full_store_makes_the_reorg_wait_with_a_reason_and_continue_later() -> None:
    store, table = world()
    real = store.bulk
    reorg = reorg_of(store, table)
    reorg.step(0.0)

    def full(*_: object, **__: object) -> BulkResult:
        raise Unavailable("the store is full")

    store.bulk = full  # type: ignore[method-assign]
    reached: Progress = reorg.step(1.0)
    while isinstance(reached, Running):
        reached = reorg.step(1.0)
    assert isinstance(reached, Waiting)
    assert reached.reason == "the store is full"
    assert isinstance(reorg.step(1.5), Waiting), "not tried again before its time"
    store.bulk = real  # type: ignore[method-assign]
    assert isinstance(finish(reorg, 10.0), Done)


def test_a_snapshot_before_the_reorgs_revision_is_not_read() -> None:
    store, table = world()
    ahead = Table(table.info, 3, table.database, 1)
    reorg = reorg_of(store, ahead)
    reached = reorg.step(0.0)
    while isinstance(reached, Running):
        reached = reorg.step(0.0)
    assert isinstance(reached, Waiting)
    assert "revision 2" in reached.reason and "3" in reached.reason


def test_a_new_epoch_stops_the_old_driver_for_good() -> None:
    store, table = world()
    old = reorg_of(store, table)
    old.step(0.0)
    begin_reorg(store, 2)
    with pytest.raises(Deposed):
        finish(old)
    assert isinstance(finish(reorg_of(store, table, epoch=2)), Done)


@pytest.mark.parametrize("mode", ["full", "sample", "off"])
def test_a_fault_stops_the_index_unless_verification_is_off(mode: str) -> None:
    store, table = world(40)
    ghost = table.form(INDEX).entries([500, 3], k.i64(500))[0][0]
    store.bulk([ghost], b"\0")
    dial = Fixed(PipelineSettings(span_rows=25, verify=mode))
    ended = finish(PhaseRunner(store, JOB, 1, table, fill_indexes((INDEX.id,)), dial=dial))
    assert isinstance(ended, Done if mode == "off" else Failed)
