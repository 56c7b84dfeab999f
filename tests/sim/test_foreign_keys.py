"""Every child has its parent in every seed, and each rule for that is needed."""

from collections import Counter

import pytest

from exuvia.sim.foreign_keys import CASES, KEY_PLANS, simulate
from exuvia.sim.plants import KEY_PLANTS
from exuvia.sim.world import search

FEW, MANY = 40, 1_500
MOST_SEEDS = 250
AIMED = {"no evidence fence": ("drop index of parent", "both tables")}


def judged(seeds: range) -> Counter[str]:
    endings: Counter[str] = Counter()
    commits = 0
    for verdict in search(seeds, simulate):
        assert verdict.broken is None, verdict.report()
        endings.update(f"{verdict.change}: {each}" for each in verdict.ending.split(", "))
        commits += verdict.commits
    print(f"{len(seeds)} seeds, {commits} client commits, endings {dict(endings)}")
    assert commits > 10 * len(seeds)
    assert all(endings[f"{change}: synced"] for change in CASES)
    return endings


def test_no_seed_leaves_a_child_without_its_parent() -> None:
    judged(range(FEW))


@pytest.mark.long
def test_many_seeds_leave_no_child_without_its_parent() -> None:
    endings = judged(range(FEW, MANY))
    assert endings["add foreign key: rollback_done"], "no seed found an orphan to refuse"


def test_a_seed_replays_exactly() -> None:
    assert simulate(3) == simulate(3)


LONG = {"no evidence fence": [pytest.mark.long]}  # tests/laws shows the same in a small world


@pytest.mark.parametrize(
    "plant", [pytest.param(plant, marks=LONG.get(plant, [])) for plant in KEY_PLANTS]
)
def test_a_planted_bug_is_found(plant: str) -> None:
    wanted = AIMED.get(plant, tuple(CASES))
    plans = tuple(plan for plan in KEY_PLANS if plan.title in wanted)
    with KEY_PLANTS[plant]():
        verdicts = (simulate(seed, plans) for seed in range(MOST_SEEDS))
        found = next((each for each in verdicts if each.broken), None)
    assert found is not None, f"{plant}: no seed of {MOST_SEEDS} shows it"
    assert (found.broken or "").startswith("foreign keys:")
