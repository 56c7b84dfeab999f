"""One question, several ways to ask it, one answer: in transactions, beside others and changes.

The judge is support/select_judge.py. `make torture` lets it search: SEED=7 TORTURE_S=600.
"""

import os
import time

import pytest

from exuvia.kv.transaction import Transaction
from support.select_judge import Life, Wrong
from support.world import World

LIVES = 5
STEPS = 14
MOST_PLANTED = 40


def test_every_way_to_ask_gives_the_same_rows(world: World) -> None:
    asked = sum(Life(world, seed).play(STEPS) for seed in range(LIVES))
    assert asked > LIVES * STEPS * 20


def test_the_judge_finds_entries_of_the_snapshot_for_own_rows(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault 3 of issue 8, planted: index entries as they were before catalog/reader.py."""
    monkeypatch.setattr(Transaction, "is_mixed", False)
    with pytest.raises(Wrong):
        for seed in range(1000, 1000 + MOST_PLANTED):
            Life(world, seed).play(STEPS)


@pytest.mark.torture
def test_a_search_for_questions_with_two_answers(world: World) -> None:
    seed, end = int(os.environ.get("SEED", "1")) * 1_000_000, time.monotonic()
    end += float(os.environ.get("TORTURE_S", "120"))
    lives = asked = 0
    while time.monotonic() < end:
        asked += Life(world, seed + lives).play(STEPS)
        lives += 1
    print(f"{lives} lives, {asked} questions")
    assert asked > 20 * lives > 0
