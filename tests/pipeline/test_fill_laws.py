"""Law 6: a fill never overwrites, may be run twice, late, in any order, and misses nothing.

Random interleavings, by seed, of writers (whole transactions, held open over the fill's steps) and
of the fill's own transactions. At the end every row has its entry and every entry its row, by the
row codec.
"""

import random
import threading
from collections.abc import Iterable
from contextlib import closing, suppress
from pathlib import Path

import pytest

from exuvia.base.errors import Conflict, Deposed, Duplicate
from exuvia.base.waits import SNAPSHOT_BEHIND
from exuvia.catalog import reader, writer
from exuvia.catalog.model import SchemaState
from exuvia.catalog.table import Table
from exuvia.kv import keys as k
from exuvia.kv.memory import MemoryStore
from exuvia.kv.packet import Bulk, BulkResult
from exuvia.kv.store import Store, open_store
from exuvia.kv.transaction import Transaction
from exuvia.pipeline.kernels import exchange, fill
from exuvia.pipeline.phase_runner import PhaseRunner
from exuvia.pipeline.reorg import Done, Duplicates, Failed, Progress, Waiting, fill_indexes
from exuvia.pipeline.settings import Fixed, PipelineSettings
from exuvia.pipeline.verify.compare import check_index
from support.exchange_driver import Waves
from support.tables import JOB, begin_reorg, publish, table_info, with_states

TINY = Fixed(PipelineSettings(batch_rows=2, span_rows=6))
INFO = table_info(
    "id int not null",
    "k int",
    "u int",
    primary="id",
    plain={"ik": "k"},
    unique={"iu": "u"},
)
PLAIN, UNIQUE = INFO.index("ik"), INFO.index("iu")
assert PLAIN and UNIQUE
ROWS = 24


class World:
    """A table during a fill, its writers, and the fill."""

    def __init__(self, seed: int, store: Store | None = None) -> None:
        self.chance = random.Random(seed)
        self.store = store or MemoryStore()
        absent = {"ik": SchemaState.ABSENT, "iu": SchemaState.ABSENT}
        before = publish(self.store, with_states(INFO, **absent), 1)
        txn = self.store.begin()
        for n in range(0, ROWS, 2):
            writer.insert(txn, before, [n, self.chance.randrange(4), n])
        txn.commit()
        states = {"ik": SchemaState.WRITE_REORG, "iu": SchemaState.WRITE_REORG}
        self.table: Table = publish(self.store, with_states(INFO, **states), 2)
        begin_reorg(self.store, 1)
        self.open: list[Transaction] = []

    def reorg(self, index_ids: list[int]) -> PhaseRunner:
        return PhaseRunner(
            self.store, JOB, 1, self.table, fill_indexes(tuple(index_ids)), dial=TINY
        )

    def write(self) -> None:
        """Begins a transaction with some statements, or ends one."""
        if self.open and self.chance.random() < 0.6:
            txn = self.open.pop(self.chance.randrange(len(self.open)))
            with suppress(Conflict, Duplicate):
                txn.commit()
            return
        txn = self.store.begin()
        for _ in range(self.chance.randint(1, 3)):
            with suppress(Duplicate):
                self._statement(txn)
        self.open.append(txn)

    def _statement(self, txn: Transaction) -> None:
        row_id = self.chance.randrange(ROWS)
        handle = k.i64(row_id)
        old = reader.get(txn, self.table, handle)
        free = self.chance.choice([None, row_id, row_id, row_id + ROWS])
        new = [row_id, self.chance.choice([None, 0, 1, 2, 3]), free]
        if old is None:
            writer.insert(txn, self.table, new)
        elif self.chance.random() < 0.4:
            writer.delete(txn, self.table, handle, old)
        else:
            writer.update(txn, self.table, handle, old, new)

    def run(self, reorgs: list[PhaseRunner]) -> list[Progress]:
        """Interleaves writers and reorgs until each reorg has ended."""
        ended: dict[int, Progress] = {}
        for step in range(20_000):
            if len(ended) == len(reorgs):
                return [ended[n] for n in range(len(reorgs))]
            if self.chance.random() < 0.5:
                self.write()
                continue
            n = self.chance.randrange(len(reorgs))
            reached = reorgs[n].step(step / 100)
            if isinstance(reached, Done | Duplicates | Failed):
                ended[n] = reached
        raise AssertionError("the fill never ended")

    def faults(self) -> list[object]:
        for txn in self.open:
            txn.rollback()
        return [
            fault
            for index in (PLAIN, UNIQUE)
            for mode in ("fast", "slow")
            for fault in check_index(self.store, self.table, index, mode).faults
        ]


@pytest.mark.parametrize("seed", range(60))
def test_every_row_has_its_entry_and_every_entry_its_row(seed: int) -> None:
    world = World(seed)
    (ended,) = world.run([world.reorg([PLAIN.id, UNIQUE.id])])
    assert isinstance(ended, Done)
    assert world.faults() == []


@pytest.mark.parametrize("seed", range(30))
def test_two_drivers_and_a_late_third_put_the_same_entries(seed: int) -> None:
    world = World(1000 + seed)
    ids = [PLAIN.id, UNIQUE.id]
    late = world.reorg(ids)
    late.step(0.0)
    for ended in world.run([world.reorg(ids), world.reorg(ids)]):
        assert isinstance(ended, Done)
    (ended,) = world.run([late])
    assert isinstance(ended, Done)
    assert world.faults() == []


@pytest.mark.parametrize("seed", range(6))
def test_the_same_holds_on_disk(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On disk several batches are one chain."""
    monkeypatch.setattr(fill, "REORG_BATCH_ROWS", (1, 1, 1))
    store = open_store(f"lmdb://{tmp_path}/store?sync=0")
    try:
        world = World(2000 + seed, store)
        (ended,) = world.run([world.reorg([PLAIN.id, UNIQUE.id])])
        assert isinstance(ended, Done)
        assert world.faults() == []
    finally:
        store.close()


def test_law_1_a_backfill_waits_for_a_snapshot_of_its_definition() -> None:
    """Writers of the former definition would add no entries after the backfill has read a row."""
    world = World(1)
    world.table = Table(world.table.info, 3, world.table.database, 1)
    reorg = world.reorg([PLAIN.id])
    waited = [reorg.step(step / 100) for step in range(50)]
    assert isinstance(waited[-1], Waiting)
    assert waited[-1].reason == SNAPSHOT_BEHIND(2, "t", 3)
    publish(world.store, world.table.info, 3)
    (ended,) = world.run([reorg])
    assert isinstance(ended, Done)


class Spilling(MemoryStore):
    """A store whose backfills exchange their entries through files."""

    folder = ""


@pytest.mark.parametrize("seed", range(60))
def test_the_same_holds_if_entries_are_exchanged(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "LEAST_ROWS", 0)
    monkeypatch.setattr(Spilling, "folder", str(tmp_path))
    world = World(3000 + seed, Spilling())
    ids = [PLAIN.id, UNIQUE.id]
    late = world.reorg(ids)
    late.step(0.0)
    with closing(Waves()) as waves:
        for ended in world.run([world.reorg(ids) for _ in range(1 + seed % 2)]):
            assert isinstance(ended, Done)
    assert waves.of("spill") and waves.of("merge")
    (ended,) = world.run([late])
    assert isinstance(ended, Done)
    assert world.faults() == []
    assert list(tmp_path.iterdir()) == [], "nothing is left on disk"


class Far(MemoryStore):
    """Each transaction exceeds the time limit, whatever its size."""

    near = False
    chains = 0

    def bulk_chain(self, batches: Iterable[Bulk], most_s: float) -> list[BulkResult]:
        self.chains += 1
        threading.Event().wait(2 * most_s)
        return super().bulk_chain(batches, most_s)


def test_a_fill_over_a_network_makes_one_transaction_a_batch() -> None:
    store = Far()
    world = World(1, store)
    txn = store.begin()
    for n in range(ROWS, 3 * fill.CHAIN_ROWS[0]):
        writer.insert(txn, world.table, [n, n, n])
    txn.commit()
    settings = PipelineSettings(batch_rows=10_240, batch_s=0.005)
    work = fill_indexes((PLAIN.id,))
    reorg = PhaseRunner(store, JOB, 1, world.table, work, dial=Fixed(settings))
    (ended,) = world.run([reorg])
    assert isinstance(ended, Done)
    assert store.chains <= 4


class Overwriting(MemoryStore):
    """A planted bug: the fill puts its entry over a present key."""

    def bulk(self, keys, payloads, requirements=(), puts=(), report=False, overwrite=False):  # type: ignore[no-untyped-def]
        return super().bulk(keys, payloads, requirements, puts, report, True)


def test_a_fill_that_overwrites_is_found_and_stops_the_index_from_becoming_public() -> None:
    failed = 0
    for seed in range(40):
        world = World(seed, Overwriting())
        (ended,) = world.run([world.reorg([PLAIN.id])])
        if isinstance(ended, Failed):
            failed += 1
            assert ended.error.code == 8223
            assert check_index(world.store, world.table, PLAIN, "slow").faults
    assert failed


def test_a_fill_of_an_abandoned_reorg_stops_at_its_next_commit_and_writes_nothing() -> None:
    world = World(7)
    reorg = world.reorg([PLAIN.id])
    reorg.step(0.0)
    before = world.store.count(world.table.index_span(PLAIN))
    begin_reorg(world.store, 2)
    with pytest.raises(Deposed):
        for n in range(100):
            reorg.step(n / 10)
    assert world.store.count(world.table.index_span(PLAIN)) == before
