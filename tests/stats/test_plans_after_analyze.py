"""Every front makes new plans after an analysis on any node."""

from exuvia.catalog.bootstrap import bootstrap
from exuvia.kv.memory import MemoryStore
from exuvia.stats import meta, records
from exuvia.stats.analyze_jobs import AnalyzeOrder
from exuvia.stats.cache import LEASE_S, FreshStatistics
from exuvia.stats.records import Statistics
from support.node_processes import until
from support.world import World, rows


def test_each_front_discards_its_plans_once_for_new_statistics() -> None:
    store = MemoryStore()
    bootstrap(store)
    forgotten: list[str] = []
    fronts = [FreshStatistics(store, lambda n=n: forgotten.append(n)) for n in ("one", "other")]

    def look() -> list[str]:
        forgotten.clear()
        assert [front.step(0.0) for front in fronts] == [LEASE_S, LEASE_S]
        return sorted(forgotten)

    assert look() == []
    txn = store.begin()
    meta.add(txn, {5: meta.Delta(3, 3)})  # row counts alone choose no other plan
    txn.commit()
    assert look() == []
    txn = store.begin()
    records.write(txn, [Statistics(5, False, 1, 3)], meta.draw_version(txn))
    txn.commit()
    assert look() == ["one", "other"]
    assert look() == []


def test_an_analysis_on_another_node_changes_the_chosen_index() -> None:
    with World() as world:
        s = world.session()
        rows(s, "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT, KEY ka (a), KEY kb (b))")
        values = ",".join(f"({n}, {n % 2}, {n})" for n in range(400))
        rows(s, f"INSERT INTO t VALUES {values}")
        query = "SELECT id FROM t WHERE a = 1 AND b = 7"
        assert rows(s, query) == [[7]]
        cached_plans = len(world.services.plans)
        table_id = world.services.schemas.table(world.store.begin(), "test", "t").info.id
        before = rows(s, f"EXPLAIN {query}")
        world.stats.analyst.analyze(AnalyzeOrder(table_id=table_id), lambda: False)
        until(lambda: len(world.services.plans) < cached_plans)  # the INSERT's stays
        after = rows(s, f"EXPLAIN {query}")
        assert "index:ka" in str(before) and "index:kb" in str(after)
        assert rows(s, query) == [[7]]
