"""A growing cluster's use of its store stays in proportion, and a violation would be noticed."""

import xml.dom.minidom
from pathlib import Path

import pytest

from exuvia.catalog import meta
from exuvia.catalog.model import DatabaseInfo
from exuvia.cli.main import run_growth
from exuvia.kv.store import Store
from exuvia.server.processes import Reaper
from exuvia.sim.growth import (
    CHANGES,
    CLIENTS,
    DATABASE,
    FIRST_TABLE,
    HELD,
    IDLE,
    METADATA_LOCK,
    SILENCE,
    GrowingCluster,
    GrowthFigures,
    WideCatalog,
    as_svg,
    exponent,
    per_change,
)

SECONDS = 4.0
RATE = 2.0
FEW, MANY = 4, 12


def measured(nodes: int, tables: int = 1000) -> dict[str, GrowthFigures]:
    cluster = GrowingCluster(nodes, tables)
    return {each: cluster.measure(each, SECONDS, RATE) for each in (IDLE, CHANGES, HELD)}


@pytest.fixture(scope="module")
def few() -> dict[str, GrowthFigures]:
    return measured(FEW)


@pytest.fixture(scope="module")
def many() -> dict[str, GrowthFigures]:
    return measured(MANY)


def test_every_change_ends(few: dict[str, GrowthFigures], many: dict[str, GrowthFigures]) -> None:
    for found in (few, many):
        assert found[IDLE].submitted == 0 and found[CHANGES].submitted == RATE * SECONDS
        assert found[CHANGES].ended == found[CHANGES].submitted
        assert min(found[CHANGES].steps_s) > 0


def test_reads_and_commits_of_a_change_grow_in_proportion_to_nodes(
    few: dict[str, GrowthFigures], many: dict[str, GrowthFigures]
) -> None:
    for phase in (CHANGES, HELD):
        less = per_change(few[IDLE], few[phase], SECONDS)
        more = per_change(many[IDLE], many[phase], SECONDS)
        for what in ("keys", "rounds", "commits", "notices"):
            grew = exponent(getattr(less, what), getattr(more, what), MANY / FEW)
            assert 0.3 < grew < 1.2, f"{phase}, {what}: {grew}"


def test_an_idle_node_makes_few_requests(
    few: dict[str, GrowthFigures], many: dict[str, GrowthFigures]
) -> None:
    """Except for the search of silent members, a node's use does not depend on their number."""
    for nodes, found in ((FEW, few), (MANY, many)):
        total = found[IDLE].total.over(nodes)
        assert total.commits < 1.5
        assert total.messages < 1
        silence = found[IDLE].uses[SILENCE].over(nodes)
        assert silence.keys < 4.5 * nodes  # it reads the heartbeats of 2 n members
        assert total.keys - silence.keys < 95
        assert total.rounds - silence.rounds < 55


def test_only_a_blocked_acknowledger_polls(few: dict[str, GrowthFigures]) -> None:
    assert METADATA_LOCK not in few[IDLE].uses and METADATA_LOCK not in few[CHANGES].uses
    assert few[HELD].uses[METADATA_LOCK].rounds > 10
    assert max(few[HELD].changes_s) > 5 * few[CHANGES].change_s
    assert few[HELD].uses[CLIENTS].commits > 0


def test_figures_are_the_same_for_any_number_of_tables(few: dict[str, GrowthFigures]) -> None:
    """A second measurement gives the same figures."""
    assert measured(FEW, 1_000_000) == few


def test_a_read_of_all_tables_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    def step(self: Reaper, now: float, store: Store) -> float:
        with store.read() as txn:
            wide = meta.find_database(txn, DATABASE)
            assert wide is not None
            assert len(list(meta.table_names(txn, wide))) > 0
        return 1.0

    found = []
    for tables in (50, 500):
        cluster = GrowingCluster(1, tables)
        store = cluster.view()
        monkeypatch.setattr(Reaper, "step", lambda self, now, s=store: step(self, now, s))
        found.append(cluster.measure(IDLE, 2.0, 0.0).total.keys)
    assert found[1] - found[0] > 400


def test_a_wide_catalog_equals_a_written_one() -> None:
    store = WideCatalog(300)
    assert store.touched == 0
    with store.read() as txn:
        database_id = meta.find_database(txn, DATABASE)
        assert database_id is not None
        assert isinstance(meta.get_database(txn, database_id), DatabaseInfo)
        info = meta.get_table(txn, FIRST_TABLE + 7)
        assert info is not None and info.id == FIRST_TABLE + 7
        assert meta.find_table(txn, database_id, info.name.L) == info.id
        assert meta.get_table(txn, FIRST_TABLE + 300) is None
        assert store.touched == 2
    store.transact(lambda txn: meta.drop_table(txn, info))
    with store.read() as txn:
        assert meta.get_table(txn, info.id) is None
        names = dict(meta.table_names(txn, database_id))
        assert list(names.values()) == [n for n in range(1000, 1300) if n != info.id]
        assert meta.revision(txn, FIRST_TABLE) == 2


def test_the_table_and_the_svg_are_written(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    few: dict[str, GrowthFigures],
    many: dict[str, GrowthFigures],
) -> None:
    picture = tmp_path / "growth.svg"
    run_growth(2, 100, 1.0, 2.0, 0.0005, svg=str(picture))
    told = capsys.readouterr().out
    assert "2 nodes, held: a second" in told and "exponents, 1 to 2 nodes" in told
    assert xml.dom.minidom.parse(str(picture)).documentElement.tagName == "svg"
    text = as_svg([*few.values(), *many.values()], "about")
    assert text.count("<polyline") > 12
