"""Partitions with global indexes, arrays, keys that change: the laws hold in every seed, and each
rule is needed."""

from collections import Counter

import pytest

from exuvia.sim.plants import SHAPE_PLANTS
from exuvia.sim.shapes import SHAPE_PLANS, SHAPES, simulate
from exuvia.sim.world import search
from support.few import one_in

FEW, MANY = 60, 1_500
MOST_SEEDS = 300
FIRST_SEEDS = {"twin not required": 45, "copy not required": 385, "not looked again": 70}
"""Few worlds reveal these bugs: the search starts at these seeds."""
KEPT = {"drop partition", "truncate partition", "drop global index", "drop array index"}
"""Only a cancellation at once undoes these changes, which is rare."""
REKEY_STATES = ("DELETE_ONLY", "WRITE_ONLY", "WRITE_REORG", "DELETE_REORG")


def judged(seeds: range) -> tuple[Counter[tuple[str, str]], set[tuple[str, str, int, str]]]:
    endings: Counter[tuple[str, str]] = Counter()
    visited: set[tuple[str, str, int, str]] = set()
    commits = crashes = 0
    for verdict in search(seeds, simulate):
        assert verdict.broken is None, verdict.report()
        endings[verdict.change, verdict.ending] += 1
        visited |= verdict.visited
        commits += verdict.commits
        crashes += verdict.crashes
    print(f"{len(seeds)} seeds, {commits} client commits, {crashes} crashes, {dict(endings)}")
    assert commits > 8 * len(seeds) and crashes > len(seeds) / 8
    return endings, visited


def test_every_seed_keeps_the_laws() -> None:
    judged(range(FEW))


@pytest.mark.long
def test_many_seeds_keep_the_laws_in_every_state() -> None:
    endings, visited = judged(range(FEW, MANY))
    assert all(endings[change, "synced"] for change in SHAPES)
    taken_back = {change for change, ending in endings if ending == "rollback_done"}
    assert taken_back >= set(SHAPES) - KEPT
    for behind in (0, 1):  # plans of that state, and of the previous one
        met = {(change, states) for change, states, lag, _ in visited if lag == behind}
        for state in REKEY_STATES:
            for change in ("change primary key", "drop primary key", "change key of partitions"):
                assert any(
                    change == title and f"other set {state}" in states for title, states in met
                ), f"no commit {behind} behind in {state} of {change}"
            assert any(
                title == "reorganize partition" and f"partitions {state}" in states
                for title, states in met
            ), f"no commit {behind} behind in {state} of reorganize partition"


def test_a_seed_replays_exactly() -> None:
    assert simulate(5) == simulate(5)


@pytest.mark.parametrize("name", one_in(3, SHAPE_PLANTS))
def test_a_planted_bug_is_found(name: str) -> None:
    found = SHAPE_PLANTS[name]
    plans = tuple(plan for plan in SHAPE_PLANS if plan.title in found.plans)
    assert len(plans) == len(found.plans)
    first = FIRST_SEEDS.get(name, 0)
    with found.plant():
        verdicts = (simulate(seed, plans) for seed in range(first, first + MOST_SEEDS))
        broken = next((each.broken for each in verdicts if each.broken), "")
    assert broken.startswith(found.laws), f"{name}: {broken or 'no seed shows it'}"
