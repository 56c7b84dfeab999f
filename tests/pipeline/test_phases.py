"""A reorg is a tuple of phases: the names of finished spans, and where a runner continues."""

import pytest
from msgspec.structs import replace

from exuvia.base.errors import Unavailable
from exuvia.catalog import writer
from exuvia.catalog.model import SchemaState
from exuvia.catalog.table import Table
from exuvia.kv.memory import MemoryStore
from exuvia.kv.packet import Snapshot, SnapshotUse, Span
from exuvia.pipeline import checkpoint
from exuvia.pipeline.phase_runner import PACED_ROWS, PhaseRunner, Rate, order_of
from exuvia.pipeline.reorg import (
    Done,
    Phase,
    Reorg,
    Running,
    Waiting,
    change_column,
    exchange_rows,
    fill_indexes,
    move_rows,
)
from exuvia.pipeline.settings import Fixed, PipelineSettings, shares_of
from exuvia.pipeline.task import Task, decode_task, encode, order_for
from exuvia.pipeline.throttle import EVERY_S
from support.tables import DATABASE, JOB, begin_reorg, publish, table_info, with_states

SEVENTH = 7
INFO = table_info("id int", "k int", table_id=5, primary="id", plain={"ik": "k"})
TABLE = Table(INFO, 1, DATABASE, 1)
FILL, REWRITE = fill_indexes((2, 3)), change_column(2, 9, (3,))
READ, MOVE = change_column(2, 0, ()), move_rows("module:router", (11, 12), (13,))

AT_REST = [  # as written by versions before 0.2.0
    (FILL, False, 5, b"_idx_", 2, "800000072704797f"),
    (FILL, True, 5, b"_idx_whole_", 2, "80000007026f108e"),
    (REWRITE, False, 5, b"_col_", 9, "800000078163c61b"),
    (REWRITE, True, 5, b"_col_whole_", 9, "80000007f77c1114"),
    (READ, True, 5, b"_col_whole_", 2, "80000007394b99e9"),
    (MOVE, False, 11, b"_par_", 1, "80000007d2babe49"),
]


@pytest.mark.parametrize(("reorg", "whole", "physical_id", "type_", "element", "handle"), AT_REST)
def test_finished_spans_are_found_under_the_names_that_older_versions_gave_them(
    reorg: Reorg, whole: bool, physical_id: int, type_: bytes, element: int, handle: str
) -> None:
    phase = reorg.phases[0]
    order = replace(order_of(order_for(TABLE, (), SEVENTH, 1), phase), physical_id=physical_id)
    if whole:
        assert reorg.by_partition is not None
        order = replace(order, element=reorg.by_partition.whole)
    pairs = checkpoint.pairs(order, Span(b"a", b"m"), 17)
    assert pairs[0][0][-8:].hex() == handle
    store = MemoryStore()
    store.bulk([], b"", (), pairs)
    with store.read() as txn:
        (row,) = checkpoint.rows_of(txn, SEVENTH)
    assert (row.ele_type, row.ele_id, row.physical_id) == (type_, element, physical_id)


def test_every_phase_survives_its_encoding() -> None:
    exchange = exchange_rows("module:router", 5, 6, checks=True)
    phases = [phase for reorg in (FILL, REWRITE, READ, MOVE, exchange) for phase in reorg.phases]
    explained = [phase.explained_by for phase in phases if phase.explained_by is not None]
    for phase in (*phases, *explained):
        order = order_of(order_for(TABLE, (), SEVENTH, 1), phase)
        task = Task(kind=phase.kernel, order=order, span=Span(b"a", b"b"))
        assert decode_task(encode(task)) == task


class Refusing(MemoryStore):
    """A store that refuses one snapshot, when requested."""

    refuses = False

    def snapshot(self, use: SnapshotUse = SnapshotUse.SYSTEM) -> Snapshot:
        if self.refuses:
            self.refuses = False
            raise Unavailable("no snapshot")
        return super().snapshot(use)


def to_be_filled(store: MemoryStore, rows: int) -> tuple[Table, Reorg]:
    """A table of `rows` rows, and the reorg that fills its index."""
    before = publish(store, with_states(INFO, ik=SchemaState.ABSENT), 1)
    txn = store.begin()
    for n in range(rows):
        writer.insert(txn, before, [n, n])
    txn.commit()
    table = publish(store, with_states(INFO, ik=SchemaState.WRITE_REORG), 2)
    begin_reorg(store, 1)
    index = table.info.index("ik")
    assert index is not None
    return table, fill_indexes((index.id,))


def test_after_a_wait_the_current_phase_continues() -> None:
    store = Refusing()
    table, work = to_be_filled(store, 50)
    dial = Fixed(PipelineSettings(span_rows=10, batch_rows=5))
    runner = PhaseRunner(store, JOB, 1, table, work, dial=dial)
    labels: list[str] = []
    for n in range(1000):
        reached = runner.step(float(n))
        if isinstance(reached, Done):
            break
        assert isinstance(reached, Running | Waiting)
        labels.append(reached.phase if isinstance(reached, Running) else "wait")
        if labels[-1] == "verify" and labels.count("verify") == 1:
            store.refuses = True
    assert labels.count("wait") == 1
    assert set(labels[labels.index("wait") + 1 :]) == {"verify"}
    assert reached == Done(50, spans_done=5, spans_skipped=0), "what was filled is not looked at"


def test_fronts_are_notified_whether_a_phase_writes() -> None:
    store = MemoryStore()
    table, work = to_be_filled(store, PACED_ROWS)
    dial = Fixed(PipelineSettings(span_rows=3_000, batch_rows=1_000))
    runner = PhaseRunner(store, JOB, 1, table, work, dial=dial)
    told: list[tuple[str, bool]] = []
    reached, now = runner.step(0.0), 0.0
    while isinstance(reached, Running):
        now += EVERY_S
        label, reached = reached.phase, runner.step(now)
        with store.read() as txn:
            ((_, said),) = shares_of(txn)
        told.append((label, said.reads))
    assert isinstance(reached, Done)
    assert told[0] == ("fill", False)
    assert told[-1] == ("verify", True)
    assert len(set(told)) == 2, "each of them from its first step on"


def test_a_phase_without_checkpoint_writes_nothing() -> None:
    """Only phases that write have a checkpoint: a read starts again."""
    exchange = exchange_rows("module:router", 5, 6, checks=True)
    writers: list[Phase] = []
    for reorg in (FILL, REWRITE, READ, MOVE, exchange):
        writers += [phase for phase in reorg.phases if phase.element is not None]
    assert {phase.kernel for phase in writers} == {"fill", "rewrite", "move"}


def test_a_rate_is_not_negative_when_a_task_starts_again() -> None:
    rate = Rate()
    for now, rows in ((0.0, 0), (1.0, 500), (2.0, 1000), (3.0, 400)):
        rate.observe(now, rows)
        assert rate.rows_per_s() >= 0
    assert rate.eta_s(100) is None
    rate.observe(4.0, 700)
    assert rate.rows_per_s() == 300
