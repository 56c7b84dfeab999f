"""The laws hold in every seed, and each rule is needed: leave one out and a seed shows it."""

from collections import Counter

import pytest

from exuvia.cli.main import run_seeds
from exuvia.ddl import worker
from exuvia.sim import process
from exuvia.sim.change import PLANS
from exuvia.sim.plants import AIMED, PLANTS
from exuvia.sim.world import BATCH_SEEDS, search, simulate

FEW, MANY = 100, 2_000
MOST_SEEDS = 2_000


@pytest.mark.parametrize("seeds", [FEW, pytest.param(MANY, marks=pytest.mark.long)])
def test_every_seed_keeps_the_laws(seeds: int) -> None:
    endings: Counter[tuple[str, str]] = Counter()
    commits = crashes = 0
    for verdict in search(range(seeds)):
        assert verdict.broken is None, verdict.report()
        endings[verdict.change, verdict.ending] += 1
        commits += verdict.commits
        crashes += verdict.crashes
    print(f"{seeds} seeds, {commits} client commits, {crashes} crashes, endings {dict(endings)}")
    changes = {change for change, _ in endings}
    assert len(changes) == 10
    assert commits > 5 * seeds and crashes > seeds / 4
    assert all(endings[change, "synced"] for change in changes)
    assert endings["several changes", "rollback_done"]
    assert endings["add index", "rollback_done"] and endings["add unique index", "rollback_done"]


def test_a_seed_replays_exactly() -> None:
    assert simulate(7) == simulate(7)
    few = range(BATCH_SEEDS - 1, BATCH_SEEDS + 2)
    assert list(search(few)) == [simulate(seed) for seed in few]


def test_an_unexpected_error_is_reported_with_its_seed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def decide(*arguments: object) -> None:
        raise KeyError("no such thing")

    monkeypatch.setattr(worker, "decide", decide)
    verdict = simulate(11)
    broken = verdict.broken or ""
    assert broken.startswith("a fault nobody foresaw: KeyError('no such thing')")
    assert "in decide" in broken
    assert run_seeds(1, 11, trace=True) == 1
    assert "replay: exuvia sim --first 11 --seeds 1 --trace" in capsys.readouterr().out


def test_a_world_that_cannot_be_created_is_reported_with_its_seed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(process, "front", None)
    assert run_seeds(1, 11, trace=True) == 1
    assert "seed 11 (no world): a fault nobody foresaw" in capsys.readouterr().out


FIRST_SEEDS = {"no delete only": 4600, "former life": 6200, "blind release": 490, "same epoch": 70}
"""Few worlds reveal these bugs: the search starts at these seeds."""


@pytest.mark.parametrize("plant", PLANTS)
def test_a_planted_bug_is_found(plant: str) -> None:
    plans = [plan for plan in PLANS if plan.title == AIMED.get(plant, plan.title)]
    with PLANTS[plant]():
        first = FIRST_SEEDS.get(plant, 0)
        verdicts = (simulate(seed, plans) for seed in range(first, first + MOST_SEEDS))
        found = next((each for each in verdicts if each.broken), None)
    assert found is not None, f"{plant}: no seed of {MOST_SEEDS} shows it"
    assert "law" in found.report() or "rows" in found.report() or "end" in found.report()
