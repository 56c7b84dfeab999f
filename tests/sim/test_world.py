"""The laws hold in every seed, and each rule is needed: leave one out and a seed shows it."""

from collections import Counter

import pytest

from exuvia.sim.plants import KNOWN_GAP, PLANTS
from exuvia.sim.run import simulate

SEEDS = 2_000
MOST_SEEDS = 1_500


def test_two_thousand_seeds_keep_the_laws() -> None:
    endings: Counter[tuple[str, str]] = Counter()
    commits = crashes = 0
    for seed in range(SEEDS):
        verdict = simulate(seed)
        assert verdict.broken is None, verdict.told()
        endings[verdict.change, verdict.ending] += 1
        commits += verdict.commits
        crashes += verdict.crashes
    print(f"{SEEDS} seeds, {commits} client commits, {crashes} crashes, endings {dict(endings)}")
    changes = {change for change, _ in endings}
    assert len(changes) == 8
    assert commits > 5 * SEEDS and crashes > SEEDS / 4
    assert all(endings[change, "synced"] for change in changes)
    assert endings["several changes", "rollback_done"]
    assert endings["add index", "rollback_done"] and endings["add unique index", "rollback_done"]


def test_a_seed_replays_to_the_letter() -> None:
    assert simulate(7) == simulate(7)


@pytest.mark.parametrize("plant", PLANTS)
def test_a_planted_bug_is_found(plant: str) -> None:
    with PLANTS[plant]():
        found = next((v for v in map(simulate, range(MOST_SEEDS)) if v.broken), None)
    assert found is not None, f"{plant}: no seed of {MOST_SEEDS} shows it"
    assert "law" in found.told() or "rows" in found.told() or "end" in found.told()


def test_skipping_delete_only_is_safe_here_a_known_gap() -> None:
    with KNOWN_GAP():
        found = [v.told() for v in map(simulate, range(150)) if v.broken]
    assert not found
