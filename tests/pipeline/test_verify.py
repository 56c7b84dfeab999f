"""Law 9: the fast and the slow way find planted faults, and live writes raise no alarm."""

import random
from collections.abc import Iterator
from contextlib import suppress

import pytest

from exuvia.base.errors import Conflict, Duplicate
from exuvia.catalog import reader, writer
from exuvia.catalog.table import Table
from exuvia.kv import keys as k
from exuvia.kv.memory import MemoryStore
from exuvia.kv.packet import LIVE, TOMBSTONE, InChunks, Piece, RawRun, Snapshot, Span
from exuvia.pipeline.executor import InlineTasks
from exuvia.pipeline.kernels.attempt import SCANS
from exuvia.pipeline.settings import Fixed
from exuvia.pipeline.task import order_for
from exuvia.pipeline.verify import compare
from exuvia.pipeline.verify.compare import check_index, verification
from exuvia.pipeline.verify.judge import FaultJudge
from support.tables import only_entry, publish, table_info

INFO = table_info(
    "id int not null",
    "k int",
    "u varchar(10)",
    primary="id",
    plain={"ik": "k"},
    unique={"iu": "u"},
)
PLAIN, UNIQUE = INFO.index("ik"), INFO.index("iu")
assert PLAIN and UNIQUE
ROWS = 600


def filled() -> tuple[MemoryStore, Table]:
    store = MemoryStore()
    table = publish(store, INFO, 1)
    txn = store.begin()
    for n in range(ROWS):
        writer.insert(txn, table, [n, n % 10 if n % 7 else None, f"u{n}" if n % 5 else None])
    txn.commit()
    return store, table


def test_a_scan_can_be_made_to_rest_after_every_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    def small(snapshot: Snapshot, span: Span) -> Iterator[Piece]:
        for keys, raws in snapshot.chunks(span, 100):
            yield lambda keys=keys, raws=raws: iter([RawRun.of(keys, raws)])

    monkeypatch.setattr(InChunks, "pieces", small)
    store, table = filled()
    order = order_for(table, (PLAIN.id,))
    rows, standing = next(verification(store, order, ROWS))
    for task in (rows, standing):
        steps = SCANS[task.kind](store, task)
        assert [each.rows for each in steps] == [100] * (ROWS // 100)


def plant(store: MemoryStore, table: Table, kind: str, unique: bool) -> None:
    index = UNIQUE if unique else PLAIN
    row = [121, 121 % 10, "u121"]
    key, _ = only_entry(table, index, row, k.i64(121))
    txn = store.begin()
    if kind == "missing":
        txn.delete(key)
    elif kind == "entombed":
        txn.put(key, TOMBSTONE)
    elif kind == "orphan":
        ghost, _ = only_entry(table, index, [ROWS + 5, 3, "ghost"], k.i64(ROWS + 5))
        txn.put(ghost, LIVE + (k.i64(ROWS + 5) if unique else b""))
    elif kind == "wrong values":
        stale, _ = only_entry(table, index, [121, 8, "stale"], k.i64(121))
        txn.put(stale, LIVE + (k.i64(121) if unique else b""))
    else:
        txn.put(key, LIVE + k.i64(122))
    txn.commit()


FAULTS = [
    ("missing", False, "missing"),
    ("missing", True, "missing"),
    ("entombed", False, "missing"),
    ("entombed", True, "missing"),
    ("orphan", False, "orphan"),
    ("orphan", True, "orphan"),
    ("wrong values", False, "wrong"),
    ("wrong values", True, "wrong"),
    ("wrong handle", True, "wrong"),
    ("wrong handle", False, "wrong"),
]


@pytest.mark.parametrize("mode", ["fast", "slow"])
@pytest.mark.parametrize(("kind", "unique", "verdict"), FAULTS)
def test_a_planted_fault_is_found(mode: str, kind: str, unique: bool, verdict: str) -> None:
    store, table = filled()
    index = UNIQUE if unique else PLAIN
    assert check_index(store, table, index, mode).faults == []
    plant(store, table, kind, unique)
    faults = check_index(store, table, index, mode).faults
    assert [fault.kind for fault in faults][:1] == [verdict]
    assert len(faults) <= 2
    assert {fault.handle for fault in faults} <= {"121", "122", str(ROWS + 5)}


def test_a_fault_is_reported_as_error_8223_with_the_values_of_both_sides() -> None:
    store, table = filled()
    plant(store, table, "wrong values", unique=True)
    (fault,) = check_index(store, table, UNIQUE, "slow").faults
    error = fault.refusal("t")
    assert error.code == 8223
    for part in ("t", "iu", "121", "[stale]", "[u121]"):
        assert part in error.message


def test_the_report_of_an_empty_index_is_capped() -> None:
    store, table = filled()
    txn = store.begin()
    for key, _ in list(txn.scan(table.index_span(PLAIN))):
        txn.delete(key)
    txn.commit()
    assert len(check_index(store, table, PLAIN, "fast").faults) == 100


@pytest.mark.parametrize("seed", range(25))
def test_live_writes_between_the_scans_raise_no_alarm(seed: int) -> None:
    """Every task of both rounds reads another snapshot; writers commit between them."""
    store, table = filled()
    chance = random.Random(seed)
    differed = 0
    for index in (PLAIN, UNIQUE):
        waves = verification(store, order_for(table, (index.id,)), 100)
        tasks = next(waves)
        try:
            while True:
                wave = InlineTasks(store, tasks, Fixed(), lambda: 0.0)
                while not wave.done():
                    write(store, table, chance)
                    wave.step()
                differed += tasks[0].kind == "collect rows"
                tasks = waves.send(sorted(wave.outcomes, key=lambda o: o.ordinal))
        except StopIteration as end:
            assert end.value == []
    assert differed


@pytest.mark.parametrize("seed", range(5))
def test_scans_of_one_snapshot_need_no_second_look(seed: int) -> None:
    """Concurrent writes cause no difference; a fault does."""
    store, table = filled()
    chance = random.Random(seed)
    for planted in (False, True):
        kinds = []
        if planted:
            plant(store, table, "orphan", unique=False)
        order = order_for(table, (PLAIN.id, UNIQUE.id))
        waves = verification(store, order, 100, together=True)
        tasks = next(waves)
        try:
            while True:
                kinds.append([task.kind for task in tasks])
                wave = InlineTasks(store, tasks, Fixed(), lambda: 0.0)
                while not wave.done():
                    write(store, table, chance)
                    wave.step()
                tasks = waves.send(sorted(wave.outcomes, key=lambda o: o.ordinal))
        except StopIteration as end:
            assert len(end.value) == planted
        assert kinds[0] == ["sum both"]
        assert len(kinds) == 1 + planted


def test_a_large_table_is_not_compared_in_one_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare, "TOGETHER_ROWS", ROWS - 1)
    store, table = filled()
    tasks = next(verification(store, order_for(table, (PLAIN.id,)), ROWS, together=True))
    assert [task.kind for task in tasks] == ["sum rows", "sum entries"]


def write(store: MemoryStore, table: Table, chance: random.Random) -> None:
    txn = store.begin()
    n = chance.randrange(ROWS)
    old = reader.get(txn, table, k.i64(n))
    new = [n, chance.randrange(10), f"u{chance.randrange(2 * ROWS)}"]
    with suppress(Conflict, Duplicate):
        if old is None:
            writer.insert(txn, table, new)
        elif chance.random() < 0.3:
            writer.delete(txn, table, k.i64(n), old)
        else:
            writer.update(txn, table, k.i64(n), old, new)
        txn.commit()


def test_a_key_that_changed_since_the_scans_is_no_fault() -> None:
    store, table = filled()
    judge = FaultJudge(table, PLAIN)
    gone, _ = only_entry(table, PLAIN, [1, 99, None], k.i64(1))
    assert judge.compare(store, [], [(gone, b"", b"")]) == []
    assert judge.compare(store, [(gone, b"", k.i64(1))], []) == []
