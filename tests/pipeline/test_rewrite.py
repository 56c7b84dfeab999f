"""The rewrite of a column: what its row says on the way, and that verification finds what a kernel
did wrong (law 9)."""

from collections.abc import Callable, Iterator
from itertools import count

import pytest

from exuvia.base.mysql_errors import ErrDataInconsistent
from exuvia.base.types import FieldType, TypeCode
from exuvia.catalog import reader, writer
from exuvia.catalog.convert.type_change import ChangeKind
from exuvia.catalog.model import SchemaState, evolve
from exuvia.catalog.table import Table
from exuvia.ddl.actions import modify_column
from exuvia.ddl.actions.modify_column import Modification
from exuvia.kv.keys import HANDLE_AT
from exuvia.kv.memory import MemoryStore
from exuvia.kv.packet import Bulk, BulkResult
from exuvia.pipeline import bulk
from exuvia.pipeline.phase_runner import PhaseRunner
from exuvia.pipeline.reorg import Done, Failed, Progress, Reorg, Running, change_column
from exuvia.pipeline.settings import Fixed, PipelineSettings
from exuvia.pipeline.verify.compare import check_index
from support.tables import begin_reorg, publish, table_info

TEXT = FieldType(Tp=TypeCode.VARCHAR, Flen=9, Decimal=0, Charset="utf8mb4", Collate="utf8mb4_bin")
ROWS, BATCH = 1000, 64
DIAL = Fixed(PipelineSettings(span_rows=500, inline_rows=ROWS * 2, batch_rows=BATCH))


def changing(store: MemoryStore) -> tuple[Table, Reorg]:
    """A table whose indexed column k is to become a text, in the state that writes rows."""
    info = table_info("id int not null", "k int", primary="id", plain={"ik": "k"})
    bulk.load(store, publish(store, info, 1), [[[n, n % 90] for n in range(ROWS)]])
    old = info.column("k")
    assert old is not None
    asked = Modification(
        column=evolve(old, type=TEXT), old_column_name="k", old_type=old.type, kind=ChangeKind.ROWS
    )
    placed, asked = modify_column.with_hidden_elements(info, asked)
    begin_reorg(store, 1, info.id)
    table = publish(store, modify_column.hidden_in_state(placed, asked, SchemaState.WRITE_REORG), 2)
    hidden = tuple(index for _, index in asked.changing_idxs)
    return table, change_column(old.id, asked.changing_column_id, hidden)


def walk(store: MemoryStore, table: Table, plan: Reorg) -> Iterator[Progress]:
    """What the reorg says at each step, 3 ms apart."""
    reorg = PhaseRunner(store, table.info.id, 1, table, plan, dial=DIAL)
    now = 0.0
    while True:
        reached = reorg.step(now)
        yield reached
        if isinstance(reached, Done | Failed):
            return
        now += 0.003


def end_of(store: MemoryStore, table: Table, plan: Reorg) -> Progress:
    *_, end = walk(store, table, plan)
    return end


def test_rows_are_never_taken_back_while_a_phase_goes_on() -> None:
    store = MemoryStore()
    table, plan = changing(store)
    said = [each for each in walk(store, table, plan) if isinstance(each, Running)]
    fills = [each for each in said if each.phase == "fill"]
    assert len(fills) > ROWS // BATCH
    assert min(each.rows_per_s for each in fills) >= 0
    starts = [n for n in range(1, len(fills)) if fills[n].rows_done < fills[n - 1].rows_done]
    assert len(starts) <= 1, "only where the fill of the index begins"


def test_a_row_written_meanwhile_is_read_again_and_the_others_are_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = MemoryStore()
    table, plan = changing(store)
    taken: list[int] = []
    bulk_of = MemoryStore.bulk

    def beside_a_writer(self: MemoryStore, keys: list[bytes], *rest: object) -> BulkResult:
        if len(keys) > 1 and keys[0].startswith(table.row_prefix) and not taken:
            taken.append(1)
            txn = store.begin()
            handle = keys[3][len(table.row_prefix) :]
            row = reader.get(txn, table, handle)
            assert row is not None
            writer.update(txn, table, handle, row, [row[0], 77, *row[2:]])
            txn.commit()
        return bulk_of(self, keys, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(MemoryStore, "bulk", beside_a_writer)
    assert isinstance(end_of(store, table, plan), Done)
    assert taken
    with store.read() as txn:
        rows = [row for _, row in reader.scan(txn, table)]
    assert rows == [
        [n, 77 if n == 3 else n % 90, str(77 if n == 3 else n % 90)] for n in range(ROWS)
    ]
    hidden = next(index for index in table.info.indexes if index.id in plan.phases[-1].index_ids)
    assert check_index(store, table, hidden, "slow").faults == []


# -- planted ---------------------------------------------------------------------------------------


Pairs = tuple[list[bytes], list[bytes]]


def spoil(patch: pytest.MonkeyPatch, kind: bytes, how: Callable[[Pairs], Pairs]) -> None:
    """The second batch that a kernel writes of rows (kind r) or entries (i) is another one."""
    bulk_of, batches = MemoryStore.bulk, count()

    def spoilt(self: MemoryStore, *arguments: object) -> BulkResult:
        asked = Bulk(*arguments)  # type: ignore[arg-type]
        if (
            len(asked.keys) > 1
            and asked.keys[0][HANDLE_AT - 1 : HANDLE_AT] == kind
            and next(batches) == 1
        ):
            payloads = asked.payloads
            each = [payloads] * len(asked.keys) if isinstance(payloads, bytes) else [*payloads]
            keys, each = how(([*asked.keys], each))
            asked = asked._replace(keys=keys, payloads=each, requirements=())
        return bulk_of(self, *asked)

    patch.setattr(MemoryStore, "bulk", spoilt)


def a_batch_of_rows_is_dropped(patch: pytest.MonkeyPatch) -> None:
    spoil(patch, b"r", lambda _: ([], []))


def a_row_is_written_wrong(patch: pytest.MonkeyPatch) -> None:
    spoil(patch, b"r", lambda pairs: (pairs[0], [pairs[1][0][:-1] + b"x", *pairs[1][1:]]))


def a_batch_of_entries_is_dropped(patch: pytest.MonkeyPatch) -> None:
    spoil(patch, b"i", lambda _: ([], []))


def an_entry_is_wrong(patch: pytest.MonkeyPatch) -> None:
    spoil(patch, b"i", lambda pairs: ([*pairs[0][:-1], pairs[0][-1] + b"\1"], pairs[1]))


@pytest.mark.parametrize(
    "plant",
    [
        a_batch_of_rows_is_dropped,
        a_row_is_written_wrong,
        a_batch_of_entries_is_dropped,
        an_entry_is_wrong,
    ],
    ids=lambda plant: plant.__name__,
)
def test_verification_finds_what_a_kernel_did_wrong(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryStore()
    table, plan = changing(store)
    plant(monkeypatch)
    end = end_of(store, table, plan)
    assert isinstance(end, Failed), end
    assert end.error.code == ErrDataInconsistent.code
