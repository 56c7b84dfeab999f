"""Law 7 with the production handlers, statistics and queue, whichever process is killed."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from exuvia.catalog.model import TableInfo
from exuvia.cli.main import run_seeds
from exuvia.events.schema_change import Kind
from exuvia.sim.plants import flag_apart
from exuvia.sim.statistics import boundaries, killed_at, simulate
from exuvia.stats import ddl_handler, priority, queue

FEW, MANY = 20, 80
MOST_SEEDS = 300


@pytest.mark.parametrize("seeds", [FEW, pytest.param(MANY, marks=pytest.mark.long)])
def test_seeds_keep_the_laws_through_every_kind_of_change(seeds: int) -> None:
    verdicts = [simulate(seed) for seed in range(seeds)]
    for verdict in verdicts:
        assert verdict.broken is None, verdict.report()
    kinds = {kind for verdict in verdicts for kind in verdict.ending.split(", ")}
    # the worlds here have no UNDO of TRUNCATE; tests/stats/test_undo_truncate.py has
    assert kinds == {kind.value for kind in Kind} - {Kind.UNDO_TRUNCATE_TABLE.value}
    assert sum(verdict.crashes for verdict in verdicts) > 1.5 * seeds
    assert sum(verdict.steps for verdict in verdicts) > 10 * seeds  # events


@pytest.mark.parametrize("seed", [2, pytest.param(4, marks=pytest.mark.long)])
@pytest.mark.parametrize("fate", ["before", "after"])
def test_killed_at_every_transaction_boundary(seed: int, fate: str) -> None:
    commits = boundaries(seed)
    assert commits > 40
    for boundary in range(commits):
        verdict = killed_at(seed, boundary, fate)
        assert verdict.broken is None, f"killed {fate} commit {boundary}: {verdict.report()}"
        assert verdict.crashes == 1 and verdict.steps


def test_a_seed_replays_exactly() -> None:
    assert simulate(7) == simulate(7)
    assert killed_at(1, 30, "after") == killed_at(1, 30, "after")


def test_the_command_runs_the_statistics_world(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_seeds(3, 0, False, "statistics") == 0
    told = capsys.readouterr().out
    assert told.startswith("3 seeds, ")
    assert "statistics create table" in told


@contextmanager
def replaced(holder: Any, name: str, value: object) -> Iterator[None]:
    kept = getattr(holder, name)
    setattr(holder, name, value)
    try:
        yield
    finally:
        setattr(holder, name, kept)


def whole_left_alone() -> Any:
    """Partitions are dropped, and the table's rows are not updated."""
    return replaced(ddl_handler, "_shift", lambda *arguments: None)


def whole_under_its_tables_id() -> Any:
    """Uses the id of a partitioned table, which may be another table's partition."""
    wrong = property(lambda t: t.id if t.partition else t.exuvia_physical or t.id)
    return replaced(TableInfo, "statistics_id", wrong)


def jobs_of_any_table() -> Any:
    """A key is removed with its job, even if it is another one's."""
    honest = queue.affected
    everyone = frozenset(range(100_000))
    wrong = lambda change: honest(change)._replace(tables=everyone)  # noqa: E731
    return replaced(queue, "affected", wrong)


def dropped_databases_count() -> Any:
    """Definitions that remain are treated as tables."""
    honest = priority._facts
    return replaced(priority, "_facts", lambda table, there: honest(table, {table.exuvia_db}))


@pytest.mark.parametrize(
    ("plant", "law"),
    [
        (flag_apart, "law 7"),
        (whole_left_alone, "law 7"),
        (whole_under_its_tables_id, "law 7"),
        (jobs_of_any_table, "queue"),
        (dropped_databases_count, "queue"),
    ],
)
def test_a_planted_bug_is_found(plant: Callable[[], Any], law: str) -> None:
    with plant():
        found = next((v for v in map(simulate, range(MOST_SEEDS)) if v.broken), None)
    assert found is not None and law in found.report(0), f"no seed of {MOST_SEEDS} shows it"
