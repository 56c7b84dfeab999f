"""A unique build judges each present key, and lists all duplicates, not only the first."""

from collections.abc import Iterable
from itertools import islice
from pathlib import Path

import pytest

from exuvia.catalog import writer
from exuvia.catalog.codec import key_codec
from exuvia.catalog.model import SchemaState, TableInfo, evolve
from exuvia.catalog.table import Table
from exuvia.kv import keys as k
from exuvia.kv.memory import MemoryStore
from exuvia.kv.packet import LIVE, TOMBSTONE, Bulk, BulkResult
from exuvia.kv.store import Store, open_store
from exuvia.pipeline.kernels import fill
from exuvia.pipeline.phase_runner import PhaseRunner
from exuvia.pipeline.reorg import Done, Duplicates, Progress, Running, fill_indexes
from exuvia.pipeline.settings import Fixed, PipelineSettings
from exuvia.pipeline.verify.compare import check_index
from support.tables import JOB, begin_reorg, only_entry, publish, table_info, with_states

INFO = table_info("id int not null", "a varchar(20)", "b int", primary="id", unique={"ab": "a, b"})
INDEX = INFO.index("ab")
assert INDEX


def build(
    rows: list[list[object]],
    store: Store | None = None,
    info: TableInfo = INFO,
    **settings: int,
) -> tuple[Store, Table, PhaseRunner]:
    store = store or MemoryStore()
    before = publish(store, with_states(info, ab=SchemaState.ABSENT), 1)
    txn = store.begin()
    for row in rows:
        writer.insert(txn, before, row)
    txn.commit()
    table = publish(store, with_states(info, ab=SchemaState.WRITE_REORG), 2)
    begin_reorg(store, 1)
    dial = Fixed(PipelineSettings(**settings))
    return store, table, PhaseRunner(store, JOB, 1, table, fill_indexes((INDEX.id,)), dial=dial)


def finish(reorg: PhaseRunner) -> Progress:
    for n in range(1000):
        reached = reorg.step(float(n))
        if not isinstance(reached, Running):
            return reached
    raise AssertionError("never ended")


def key_of(table: Table, row: list[object]) -> bytes:
    return only_entry(table, INDEX, row, key_codec.handle_of(table, row))[0]


def test_all_duplicates_are_listed_in_mysqls_format() -> None:
    rows = [[1, "x", 1], [2, "x", 1], [3, "y", 2], [4, "x", 1], [5, "y", 2], [6, "z", 3]]
    for span_rows in (2, 100):
        _, _, reorg = build(rows, span_rows=span_rows)
        ended = finish(reorg)
        assert isinstance(ended, Duplicates)
        texts = sorted(ended.texts)
        assert texts == ["Duplicate entry 'x-1' for key 't.ab'"] * 2 + [
            "Duplicate entry 'y-2' for key 't.ab'"
        ]
        first, _, others = ended.error.message.partition(" (")
        assert (ended.error.code, first) == (1062, ended.texts[0])
        assert others.startswith("3 duplicates: ")


def test_a_duplicate_is_reported_with_the_value_of_the_row_not_of_the_folded_key() -> None:
    a = INFO.cols[1]
    folded = evolve(a, type=evolve(a.type, Collate="utf8mb4_unicode_ci"))
    cols = tuple(folded if each is a else each for each in INFO.cols)
    _, _, reorg = build([[1, "Émile", 1], [2, "émile", 1]], info=evolve(INFO, cols=cols))
    ended = finish(reorg)
    assert isinstance(ended, Duplicates)
    assert ended.texts == ["Duplicate entry 'émile-1' for key 't.ab'"]


@pytest.mark.parametrize("piece_rows", [fill.PIECE_ROWS, 50, 1])
def test_present_keys_in_the_middle_of_a_chain_are_each_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece_rows: int
) -> None:
    """On disk many batches are one chain: the present keys are in different batches of it."""
    monkeypatch.setattr(fill, "REORG_BATCH_ROWS", (1, 1, 1))
    monkeypatch.setattr(fill, "PIECE_ROWS", piece_rows)
    store = open_store(f"lmdb://{tmp_path}/store?sync=0")
    try:
        rows: list[list[object]] = [[n, f"x{n:04}", 1] for n in range(600)]
        _, table, reorg = build(rows, store, batch_rows=20)
        taken, gone = [205, 417, 418], [3, 309]
        for n in taken:  # its writer put the entry of a newer row, which exists
            store.bulk([key_of(table, rows[n])], LIVE + k.i64(9000 + n))
            values = table.encoder.encode([9000 + n, *rows[n][1:]])
            store.bulk([table.row_prefix + k.i64(9000 + n)], values, overwrite=True)
        store.bulk([key_of(table, rows[n]) for n in gone], TOMBSTONE)
        ended = finish(reorg)
        assert isinstance(ended, Duplicates)
        assert sorted(ended.texts) == [f"Duplicate entry 'x{n:04}-1' for key 't.ab'" for n in taken]
        for n in gone:
            assert store.begin().get(key_of(table, rows[n])) == LIVE + k.i64(n)
        assert store.count(table.index_span(INDEX)) == len(rows)
    finally:
        store.close()


class Recording(MemoryStore):
    """Records the transactions of chains; a chain takes a few of them."""

    def __init__(self) -> None:
        super().__init__()
        self.bulks: list[Bulk] = []

    def bulk_chain(self, batches: Iterable[Bulk], most_s: float) -> list[BulkResult]:
        some = list(islice(batches, 7))
        results = [super(Recording, self).bulk_chain([bulk], most_s)[0] for bulk in some]
        self.bulks += some
        return results


@pytest.mark.parametrize("kind", ["unique", "plain"])
@pytest.mark.parametrize("piece_rows", [fill.PIECE_ROWS, 50, 1])
def test_each_key_is_put_once_and_the_mark_of_the_span_comes_last(
    monkeypatch: pytest.MonkeyPatch, piece_rows: int, kind: str
) -> None:
    monkeypatch.setattr(fill, "REORG_BATCH_ROWS", (1, 1, 1))
    monkeypatch.setattr(fill, "PIECE_ROWS", piece_rows)
    columns = "id int not null", "a varchar(20)", "b int"
    info = INFO if kind == "unique" else table_info(*columns, primary="id", plain={"ab": "a, b"})
    index = info.index("ab")
    assert index is not None
    assert index.id == INDEX.id
    rows: list[list[object]] = [[n, f"x{n * 7 % 600:04}", 1] for n in range(600)]
    store = Recording()
    _, table, reorg = build(rows, store, info, batch_rows=20)
    assert isinstance(finish(reorg), Done)
    handles = [key_codec.handle_of(table, row) for row in rows]
    pairs = zip(rows, handles, strict=True)
    wanted = sorted(only_entry(table, index, row, handle)[0] for row, handle in pairs)
    assert [key for bulk in store.bulks for key in bulk.keys] == wanted
    assert {len(bulk.keys) for bulk in store.bulks} <= {20, 0}
    told = [len(bulk.puts) for bulk in store.bulks]
    assert told.index(max(told)) == len(told) - 1, "progress, and what is finished"
    assert check_index(store, table, index, "slow").faults == []


def test_at_most_a_hundred_duplicates_are_listed() -> None:
    rows = [[n, "same", 1] for n in range(300)]
    _, _, reorg = build(rows, span_rows=50, batch_rows=20)
    ended = finish(reorg)
    assert isinstance(ended, Duplicates)
    assert len(ended.texts) == 100
    assert " (299 duplicates; the first 15: " in ended.error.message


def test_rows_with_null_are_never_duplicates() -> None:
    store, table, reorg = build([[n, None, 1] for n in range(9)] + [[9, "x", None]])
    assert isinstance(finish(reorg), Done)
    assert check_index(store, table, INDEX, "slow").faults == []


def test_a_tombstone_over_a_row_that_still_has_the_key_becomes_its_entry() -> None:
    """Row 1 had the key, and its writer left a tombstone. Row 2 has it now, written before the
    index existed."""
    store, table, reorg = build([[2, "x", 1]])
    store.bulk([key_of(table, [2, "x", 1])], TOMBSTONE)
    assert isinstance(finish(reorg), Done)
    assert store.begin().get(key_of(table, [2, "x", 1])) == LIVE + k.i64(2)


def test_a_tombstone_of_a_deleted_row_stays() -> None:
    store, table, reorg = build([[1, "x", 1], [2, "y", 1]], span_rows=1)
    reorg.step(0.0)
    txn = store.begin()
    writer.delete(txn, table, k.i64(2), [2, "y", 1])
    txn.commit()
    assert isinstance(finish(reorg), Done)
    assert store.begin().get(key_of(table, [2, "y", 1])) == TOMBSTONE
    assert check_index(store, table, INDEX, "fast").faults == []


def test_an_entry_put_by_its_writer_is_kept_and_is_no_duplicate() -> None:
    store, table, reorg = build([[1, "x", 1], [2, "y", 1]])
    txn = store.begin()
    writer.update(txn, table, k.i64(1), [1, "x", 1], [1, "z", 1])
    writer.insert(txn, table, [3, "x", 1])
    txn.commit()
    assert isinstance(finish(reorg), Done)
    assert check_index(store, table, INDEX, "slow").faults == []


def test_spans_with_duplicates_are_not_finished_so_that_a_restart_finds_them_again() -> None:
    store, table, reorg = build([[n, "x", n // 2] for n in range(10)], span_rows=4)
    first = finish(reorg)
    again = finish(
        PhaseRunner(
            store,
            JOB,
            1,
            table,
            fill_indexes((INDEX.id,)),
            dial=Fixed(PipelineSettings(span_rows=4)),
        )
    )
    assert isinstance(first, Duplicates) and isinstance(again, Duplicates)
    assert sorted(first.texts) == sorted(again.texts)
