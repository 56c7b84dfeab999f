"""Engines are equivalent: random histories of interleaved transactions have the same results.

All answers are compared: results of reads, refusals, and the final content.
"""

import random
from pathlib import Path

import pytest

from exuvia.base.errors import ExuviaError
from exuvia.kv import validate
from exuvia.kv.lmdb import committer
from exuvia.kv.packet import (
    LIVE,
    STAMP_BYTES,
    AllAbsent,
    AtMost,
    Equal,
    Span,
    Standing,
    Unchanged,
    WriteKind,
)
from exuvia.kv.store import Store, open_store
from exuvia.kv.transaction import Transaction
from support.postgres import shared_server

KEYS = [b"t%d" % n for n in range(9)]
NUMBERS = [b"m%d" % n for n in range(3)]
ROWS = [LIVE + b"r1", LIVE + b"r2"]
STEPS = 400


class World:
    """One store with three open transactions; `act` returns each outcome as plain data."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.open: list[Transaction] = [store.begin() for _ in range(3)]
        self.marks = [0, 0, 0]

    def act(self, dice: random.Random) -> object:
        slot = dice.randrange(3)
        try:
            return getattr(self, dice.choice(ACTS))(slot, dice)
        except ExuviaError as error:
            return (type(error).__name__, str(error))

    def read(self, slot: int, dice: random.Random) -> object:
        keys = dice.sample(KEYS, 3)
        return (self.open[slot].get(keys[0]), self.open[slot].get_many(keys))

    def scan(self, slot: int, dice: random.Random) -> object:
        low, high = sorted(dice.sample([*KEYS, b"t", b"u"], 2))
        limit = dice.choice([None, 0, 1, 3])
        return list(self.open[slot].scan(Span(low, high), limit, dice.random() < 0.5))

    def few(self, slot: int, dice: random.Random) -> object:
        """Payloads equal to those of a scan, or that `few` returned none."""
        low, high = sorted(dice.sample([*KEYS, b"t", b"u"], 2))
        most = dice.choice([0, 1, 3, 9])
        payloads = self.open[slot].few(Span(low, high), most)
        scanned = [payload for _, payload in self.open[slot].scan(Span(low, high))]
        if payloads is None:
            return len(scanned)
        payloads = list(payloads)
        assert payloads == scanned
        assert len(payloads) <= most
        return payloads

    def write(self, slot: int, dice: random.Random) -> object:
        kind = dice.randint(WriteKind.PUT, WriteKind.BURY)
        self.open[slot].write(kind, dice.choice(KEYS), dice.choice(ROWS))
        return None

    def remove_all(self, slot: int, dice: random.Random) -> object:
        removed = dice.sample(KEYS, k=3)
        self.open[slot].remove_all(removed)
        return [self.open[slot].get(key) for key in removed]

    def number(self, slot: int, dice: random.Random) -> object:
        self.open[slot].put(dice.choice(NUMBERS), dice.randrange(4).to_bytes(8, "big"))
        return None

    def require(self, slot: int, dice: random.Random) -> object:
        self.open[slot].require(dice.choice(KEYS))
        self.open[slot].require_at_most(dice.choice(NUMBERS), dice.randrange(4))
        if dice.random() < 0.3:
            self.open[slot].require_equal(NUMBERS[0], dice.randrange(4).to_bytes(8, "big"))
        return None

    def mark(self, slot: int, dice: random.Random) -> object:
        self.marks[slot] = self.open[slot].mark()
        return self.marks[slot]

    def back(self, slot: int, dice: random.Random) -> object:
        self.open[slot].back_to(self.marks[slot])
        return self.open[slot].has_writes

    def commit(self, slot: int, dice: random.Random) -> object:
        txn = self.open[slot]
        if dice.random() < 0.3:
            txn.notify("job")
        try:
            return txn.commit() >= 0
        finally:
            self.open[slot], self.marks[slot] = self.store.begin(), 0

    def bulk(self, slot: int, dice: random.Random) -> object:
        keys = sorted(dice.choices(KEYS, k=4))
        needs = [Equal(NUMBERS[1], bytes(8)), AtMost(NUMBERS[2], 3), Unchanged(KEYS[0], 0, "seen")]
        wants = needs[: dice.choice([0, 0, 0, 1, 2, 3])]
        if dice.random() < 0.3:
            wants.append(self.standing(dice))
        if dice.random() < 0.2:
            wants.append(AllAbsent(dice.sample(KEYS, k=2), "seen"))
        puts = [(dice.choice(NUMBERS), bytes(8))]
        payloads = dice.choice([LIVE, [LIVE + b"%d" % n for n in range(4)]])
        result = self.store.bulk(keys, payloads, wants, puts, report=dice.random() < 0.7)
        return (result.placed, result.present)

    def standing(self, dice: random.Random) -> Standing:
        """A requirement that some keys are unchanged, now or since a moment ago."""
        view = self.store.snapshot()
        raws = view.get_many(dice.sample([*KEYS, *NUMBERS], k=3))
        view.close()
        present = sorted(raws)
        stamps = b"".join(raws[key][:STAMP_BYTES] for key in present)
        if present and dice.random() < 0.3:
            return Standing(present, bytes(8) + stamps[8:], "seen", view.sequence - 1)
        return Standing(present, stamps, "seen", dice.choice([0, view.sequence]))

    def look(self, slot: int, dice: random.Random) -> object:
        return (self.store.count(Span(b"t", b"u")), self.store.counter("job"))

    def end(self) -> object:
        for txn in self.open:
            txn.rollback()
        last = self.store.begin()
        pairs = list(last.scan(Span(b"m", b"u")))
        last.rollback()
        return (pairs, self.store.changes(Span(b"m", b"u")).pairs)


ACTS = [
    *["write"] * 6,
    *["read", "scan", "few", "number", "commit"] * 2,
    *["require", "mark", "back", "bulk", "look", "remove_all"],
]


def run(seed: int, other: str, named: bool) -> set[object]:
    """Compare all answers. `named`: also the texts of refusals."""
    worlds = [World(open_store("memory:")), World(open_store(other))]
    dice = [random.Random(seed) for _ in worlds]
    outcomes: set[object] = set()
    for step in range(STEPS):
        answers = [world.act(die) for world, die in zip(worlds, dice, strict=True)]
        refused = [isinstance(answer, tuple) and isinstance(answer[0], str) for answer in answers]
        outcome_kind = answers[0][0] if isinstance(answers[0], tuple) else "plain"
        if all(refused) and not named:
            answers = [("refused",) for _ in answers]
        assert answers[0] == answers[1], f"step {step}"
        outcomes.add(outcome_kind if isinstance(outcome_kind, str) else "plain")
    assert worlds[0].end() == worlds[1].end()
    worlds[1].store.close()
    return outcomes


@pytest.mark.parametrize("seed", range(12))
def test_random_histories_have_the_same_results(seed: int, tmp_path: Path) -> None:
    assert {"Conflict", "Duplicate"} <= run(seed, f"lmdb://{tmp_path}/store?sync=0", named=True)


@pytest.mark.parametrize("seed", range(12))
def test_random_histories_have_the_same_results_on_a_server(seed: int) -> None:
    """Without texts: each engine names another one of several broken requirements."""
    assert {"Conflict", "Duplicate"} <= run(seed, shared_server().new_url(), named=False)


@pytest.mark.parametrize("seed", range(4))
def test_random_histories_have_the_same_results_if_every_packet_is_arranged(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every packet is handled as a large one, with two keys per read.

    Without texts: each way names another one of several broken keys."""
    for name, value in {"SMALL": 0, "FEW": 0, "STRIDE": 2}.items():
        monkeypatch.setattr(committer, name, value)
    monkeypatch.setattr(validate, "STRIDE", 2)
    assert {"Conflict", "Duplicate"} <= run(seed, f"lmdb://{tmp_path}/store?sync=0", named=False)
