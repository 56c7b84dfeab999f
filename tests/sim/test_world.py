"""The laws hold in every seed, and each rule is needed: leave one out and a seed shows it."""

from collections import Counter

import pytest

from exuvia.sim.change import PLANS
from exuvia.sim.plants import AIMED, FIRST_SEED, PLANTS
from exuvia.sim.run import BATCH_SEEDS, search, simulate

FEW, MANY = 600, 2_000
MOST_SEEDS = 1_500


@pytest.mark.parametrize("seeds", [FEW, pytest.param(MANY, marks=pytest.mark.long)])
def test_every_seed_keeps_the_laws(seeds: int) -> None:
    endings: Counter[tuple[str, str]] = Counter()
    commits = crashes = 0
    for verdict in search(range(seeds)):
        assert verdict.broken is None, verdict.told()
        endings[verdict.change, verdict.ending] += 1
        commits += verdict.commits
        crashes += verdict.crashes
    print(f"{seeds} seeds, {commits} client commits, {crashes} crashes, endings {dict(endings)}")
    changes = {change for change, _ in endings}
    assert len(changes) == 8
    assert commits > 5 * seeds and crashes > seeds / 4
    assert all(endings[change, "synced"] for change in changes)
    assert endings["several changes", "rollback_done"]
    assert endings["add index", "rollback_done"] and endings["add unique index", "rollback_done"]


def test_a_seed_replays_to_the_letter() -> None:
    assert simulate(7) == simulate(7)
    few = range(BATCH_SEEDS - 1, BATCH_SEEDS + 2)
    assert list(search(few)) == [simulate(seed) for seed in few]


@pytest.mark.parametrize("plant", PLANTS)
def test_a_planted_bug_is_found(plant: str) -> None:
    plans = [plan for plan in PLANS if plan.title == AIMED.get(plant, plan.title)]
    with PLANTS[plant]():
        first = FIRST_SEED.get(plant, 0)
        verdicts = (simulate(seed, plans) for seed in range(first, first + MOST_SEEDS))
        found = next((each for each in verdicts if each.broken), None)
    assert found is not None, f"{plant}: no seed of {MOST_SEEDS} shows it"
    assert "law" in found.told() or "rows" in found.told() or "end" in found.told()
