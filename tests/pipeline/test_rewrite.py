"""The rewrite of a column: the notes of its job, and errors of a kernel that verification finds
(law 9)."""

import re
import time
from collections.abc import Callable, Iterator
from itertools import count, pairwise
from mmap import PAGESIZE
from pathlib import Path

import pytest
from msgspec.structs import replace

from exuvia.base.clock import SystemClock
from exuvia.base.limits import REORG_BATCH_ROWS
from exuvia.base.mysql_errors import ErrDataInconsistent
from exuvia.base.types import FieldType, Flag, TypeCode
from exuvia.catalog import reader, writer
from exuvia.catalog.codec.key_encoder import encoder_of
from exuvia.catalog.convert.type_change import ChangeKind
from exuvia.catalog.model import PredicateTerm, SchemaState, evolve
from exuvia.catalog.table import Table
from exuvia.cluster.member import Member
from exuvia.ddl.actions import modify_column
from exuvia.ddl.actions.modify_column import Modification
from exuvia.kv.keys import HANDLE_AT, i64
from exuvia.kv.lmdb.store import LmdbStore
from exuvia.kv.memory import MemoryStore
from exuvia.kv.packet import TOMBSTONE, Bulk, BulkResult
from exuvia.kv.store import Store, open_store
from exuvia.pipeline import bulk, checkpoint
from exuvia.pipeline.phase_runner import PhaseRunner
from exuvia.pipeline.reorg import Done, Failed, Phase, Progress, Reorg, Running, change_column
from exuvia.pipeline.settings import Fixed, PipelineSettings
from exuvia.pipeline.throttle import EVERY_S, Durations, LatencyReports
from exuvia.pipeline.verify.compare import check_index
from support.slow_disk import chains_of, slow_disk
from support.tables import begin_reorg, bootstrapped, publish, table_info

TEXT = FieldType(Tp=TypeCode.VARCHAR, Flen=9, Decimal=0, Charset="utf8mb4", Collate="utf8mb4_bin")
ROWS, BATCH = 1000, 64
DIAL = Fixed(PipelineSettings(span_rows=500, inline_rows=ROWS * 2, batch_rows=BATCH))


def changing(
    store: Store, partial: bool = False, rows: int = ROWS, pad: int = 0
) -> tuple[Table, Reorg]:
    """A table whose indexed column k becomes a text, in the state that writes rows. `partial`: its
    index contains the rows whose id is above a third of all. `pad`: length of a third column."""
    columns = ["id int not null", "k int", *(["pad varchar(255)"] if pad else [])]
    info = table_info(*columns, primary="id", plain={"ik": "k"})
    if partial:
        index, column = info.index("ik"), info.cols[0]
        assert index is not None
        above = encoder_of(column.type)(ROWS // 3).hex()
        term = PredicateTerm(
            name=column.name, operator=">", written=f"{ROWS // 3}", keys=(above,),
            exuvia_column=column.id,
        )  # fmt: skip
        less = evolve(index, exuvia_predicate=(term,))
        info = evolve(info, index_info=tuple(less if i is index else i for i in info.indexes))
    more = ["p" * pad] if pad else []
    bulk.load(store, publish(store, info, 1), [[[n, n % 90, *more] for n in range(rows)]])
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


def narrowing(
    store: MemoryStore, values: list[int | None], declared: str, keys: str, not_null: bool = False
) -> tuple[Table, Reorg]:
    """A table whose column k is checked to fit a byte."""
    info = table_info("id int not null", f"k {declared}", primary="id", plain={"ik": keys})
    bulk.load(store, publish(store, info, 1), [[[n, value] for n, value in enumerate(values)]])
    old = info.column("k")
    assert old is not None
    flags = old.type.Flag | (int(Flag.NOT_NULL) if not_null else 0)
    byte = evolve(old.type, Tp=TypeCode.TINY, Flen=4, Flag=flags)
    asked = Modification(
        column=evolve(old, type=byte),
        old_column_name="k",
        old_type=old.type,
        kind=ChangeKind.CHECKED,
    )
    begin_reorg(store, 1, info.id)
    announced = modify_column.with_announced_type(info, asked)
    return publish(store, announced, 2), change_column(old.id, 0, ())


def walk(store: MemoryStore, table: Table, plan: Reorg) -> Iterator[Progress]:
    """Yields the reorg's progress at each step, 3 ms apart."""
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


def update_here_and_there(store: LmdbStore, table: Table, commits: int) -> None:
    """Scatters the pages of the table and of the free list, as clients do."""
    with store.read() as txn:
        handles = [handle for handle, _ in reader.scan(txn, table)]
    for n in range(commits):
        txn = store.begin()
        key = table.row_prefix + handles[n * 7919 % len(handles)]
        txn.put(key, txn.get(key) or b"")
        txn.commit()


def pages_written() -> int:
    """The pages that this process has written so far. LMDB writes whole pages."""
    return int(Path("/proc/self/io").read_text().partition("wchar: ")[2].split()[0]) // PAGESIZE


@pytest.mark.parametrize("is_aged", [False, True])
def test_a_rewrite_commits_rarely_once_clients_are_inactive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_aged: bool
) -> None:
    """A minute of traffic before the first job made every later job commit every 3 ms."""
    rows, idle_looks = 40_000, 2
    store = open_store(f"lmdb://{tmp_path}/store?sync=0")
    assert isinstance(store, LmdbStore)
    table, plan = changing(bootstrapped(store), rows=rows, pad=180)
    if is_aged:
        update_here_and_there(store, table, 1_000)
    durations = Durations()
    reports = LatencyReports(store, Member.join(store, SystemClock(), "front"), durations)
    for look in range(-120 - idle_looks, 0):
        for _ in range(500 if look < -idle_looks else 0):
            durations.observe(0.004)
        reports.step(look * EVERY_S)
    chains, before = chains_of(monkeypatch), pages_written()
    reorg = PhaseRunner(store, table.info.id, 1, table, plan)
    began, reported_at = time.monotonic(), -1.0
    while not isinstance(reorg.step(now := time.monotonic() - began), Done | Failed):
        if now - reported_at >= EVERY_S:
            reports.step(reported_at := now)
    assert len(chains) <= 8 + 250 * rows // 1_000_000
    written = pages_written() - before
    assert 0.5 < written / store.environment.lmdb.stat()["leaf_pages"] <= 1.0
    store.close()


def test_a_slow_disk_does_not_make_the_commits_of_a_rewrite_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wait for the disk counted as time in which clients wait for rows. Commits shrank to 32
    rows, which waited as long."""
    rows = 20_000
    store = open_store(f"lmdb://{tmp_path}/store?sync=0")
    table, plan = changing(bootstrapped(store), rows=rows)
    slow_disk(monkeypatch, 0.006)
    chains = chains_of(monkeypatch)
    dial = Fixed(PipelineSettings(span_rows=rows, inline_rows=2 * rows, batch_s=0.003))
    reorg = PhaseRunner(store, table.info.id, 1, table, plan, dial=dial)
    while not isinstance(reorg.step(time.monotonic()), Done | Failed):
        assert len(chains) < 2 * rows // REORG_BATCH_ROWS[1]
    assert sum(map(sum, chains)) == 2 * rows, "rows and entries"
    store.close()


def test_spans_are_counted_as_they_end() -> None:
    """Those of a wave were counted when all of them had ended."""
    store = MemoryStore()
    table, plan = changing(store)
    notes = [step.note for step in walk(store, table, plan) if isinstance(step, Running)]
    rewriting = [note for note in notes if note]
    numbers = [int(re.split("[,;]", note.partition("spans done: ")[2])[0]) for note in rewriting]
    assert numbers == sorted(numbers)
    assert set(numbers) == {0, 1, 2}


def test_the_number_of_rows_never_falls_during_a_phase() -> None:
    store = MemoryStore()
    table, plan = changing(store)
    said = [each for each in walk(store, table, plan) if isinstance(each, Running)]
    fills = [each for each in said if each.phase == "rewrite"]
    assert len(fills) > ROWS // BATCH
    assert min(each.rows_per_s for each in fills) >= 0
    assert all(one.rows_done <= next_.rows_done for one, next_ in pairwise(fills))


@pytest.mark.parametrize("changed", [3, BATCH + 3, 5 * BATCH, 7 * BATCH])
@pytest.mark.parametrize("batch", [0, 1])
@pytest.mark.parametrize("partial", [False, True])
def test_a_concurrently_written_row_is_read_again_and_the_others_are_written(
    changed: int, batch: int, partial: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of an earlier batch, of this one, of a later one change after they were read. An index
    that does not have every row is compared with its rows too."""
    store = MemoryStore()
    table, plan = changing(store, partial)
    taken: list[bytes] = []
    bulk_of = MemoryStore.bulk
    key = table.row_prefix + i64(changed)

    def beside_a_writer(self: MemoryStore, keys: list[bytes], *rest: object) -> BulkResult:
        if len(keys) > 1 and keys[0].startswith(table.row_prefix):
            taken.append(keys[0])
            if len(taken) == batch + 1:
                txn = store.begin()
                handle = key[len(table.row_prefix) :]
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
        [n, 77 if n == changed else n % 90, str(77 if n == changed else n % 90)]
        for n in range(ROWS)
    ]
    hidden = next(index for index in table.info.indexes if index.id in plan.phases[-1].index_ids)
    assert check_index(store, table, hidden, "slow").faults == []


def as_before(plan: Reorg) -> Reorg:
    """The same reorg in versions that filled the index after all rows were written."""
    rewrite, fill, compare = plan.phases
    verify = Phase(kernel="verify column", changing=rewrite.changing, verifies=True)
    return replace(plan, phases=(replace(rewrite, index_ids=()), verify, fill, compare))


def finished_spans(store: MemoryStore, job_id: int) -> set[bytes]:
    with store.read() as txn:
        return {row.ele_type for row in checkpoint.rows_of(txn, job_id)}


@pytest.mark.parametrize("older_begins", [True, False])
@pytest.mark.parametrize("steps", [2, 12, 25, 40, 60])
def test_a_reorg_begun_by_another_version_continues(older_begins: bool, steps: int) -> None:
    """Rows are written, their entries are not; then an older version takes over."""
    store = MemoryStore()
    table, plan = changing(store)
    first, second = (as_before(plan), plan) if older_begins else (plan, as_before(plan))
    reorg = PhaseRunner(store, table.info.id, 1, table, first, dial=DIAL)
    for n in range(steps):
        assert not isinstance(reorg.step(n * 0.003), Failed)
    reorg.stop()
    assert isinstance(end_of(store, table, second), Done)
    assert finished_spans(store, table.info.id) == {b"_col_", b"_idx_"}
    hidden = next(index for index in table.info.indexes if index.id in plan.phases[-1].index_ids)
    assert check_index(store, table, hidden, "slow").faults == []
    with store.read() as txn:
        assert all(row[2] == str(row[1]) for _, row in reader.scan(txn, table))


def test_a_row_is_read_for_its_new_value_and_its_entry_once() -> None:
    """The fill that follows the rewrite has nothing to do."""
    store = MemoryStore()
    table, plan = changing(store)
    kernels: list[str] = []
    reorg = PhaseRunner(store, table.info.id, 1, table, plan, dial=DIAL)
    while not isinstance(reorg.step(float(len(kernels))), Done):
        kernels.append(reorg.kernel)
    assert set(kernels) == {"rewrite", "compare"}


@pytest.mark.parametrize(
    ("values", "declared", "keys", "read"),
    [
        ([-128, 5, 127], "int", "k", False),
        ([0, 255], "int unsigned", "k", False),
        ([None, 5], "int", "k, id", False),
        ([], "int", "k", False),
        ([None], "int", "k", False),
        ([1, 2], "int", "id, k", True),
        ([1, 2], "int", "id", True),
    ],
)
def test_a_narrower_type_is_checked_by_the_ends_of_an_index(
    values: list[int | None], declared: str, keys: str, read: bool
) -> None:
    store = MemoryStore()
    table, plan = narrowing(store, values, declared, keys)
    said = list(walk(store, table, plan))
    assert isinstance(said[-1], Done), said[-1]
    assert any(isinstance(each, Running) for each in said) == read


@pytest.mark.parametrize(
    ("values", "declared", "keys", "wrong"),
    [
        ([128, 1, 130], "int", "k", 2),
        ([-129, 1], "int", "k", 1),
        ([256, None], "int unsigned", "k", 1),
        ([128, 300], "int", "k, id", 2),
    ],
)
def test_all_misfits_are_counted_if_an_index_shows_one(
    values: list[int | None], declared: str, keys: str, wrong: int
) -> None:
    store = MemoryStore()
    end = end_of(store, *narrowing(store, values, declared, keys))
    assert isinstance(end, Failed)
    assert (f"{wrong} rows" if wrong > 1 else "overflows") in end.error.message


def test_a_removed_entry_is_no_end_of_an_index() -> None:
    """Tombstones precede the least entry and follow the greatest."""
    store = MemoryStore()
    table, plan = narrowing(store, [1, 2], "int", "k")
    (form,) = table.forms
    for value in (-500, 500):
        key = form.prefix + b"\1" + i64(value) + i64(9)
        store.bulk([key], TOMBSTONE)
    assert isinstance(end_of(store, table, plan), Done)


def test_a_null_is_found_before_the_numbers_of_an_index() -> None:
    store = MemoryStore()
    end = end_of(store, *narrowing(store, [1, None], "int", "k", not_null=True))
    assert isinstance(end, Failed)
    assert end.error.message.startswith("Data truncated")


# -- planted ---------------------------------------------------------------------------------------


Pairs = tuple[list[bytes], list[bytes]]


def spoil(patch: pytest.MonkeyPatch, kind: bytes, how: Callable[[Pairs], Pairs]) -> None:
    """Changes the second batch of rows (kind r) or entries (kind i) that a kernel writes."""
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
def test_verification_finds_errors_of_a_kernel(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryStore()
    table, plan = changing(store)
    plant(monkeypatch)
    end = end_of(store, table, plan)
    assert isinstance(end, Failed), end
    assert end.error.code == ErrDataInconsistent.code
