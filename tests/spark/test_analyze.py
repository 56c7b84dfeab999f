"""A table's statistics read on Spark are those read in this process."""

from exuvia.base.clock import SystemClock
from exuvia.catalog.sysvar import variables
from exuvia.stats.analysis import statistics_of, subject_of
from exuvia.stats.analyze import AnalyzeSettings
from support.spark import SparkStore
from support.world import World, rows


def test_spark_computes_the_same_statistics_as_this_process(spark_store: SparkStore) -> None:
    with World(spark_store.store) as world:
        s = world.session()
        rows(s, "CREATE TABLE seen (id INT PRIMARY KEY, v INT, w VARCHAR(9), KEY vw (v, w))")
        for start in range(0, 3000, 1000):
            values = ((n, n % 70, f"w{n % 900}") for n in range(start, start + 1000))
            rows(s, f"INSERT INTO seen VALUES {','.join(map(str, values))}")
        store = world.store
        txn = store.begin()
        table = world.services.schemas.table(txn, "test", "seen")
        before = variables.get_global(txn, "exuvia_pipeline_inline_rows")
        variables.set_global(txn, "exuvia_pipeline_inline_rows", "0")
        txn.commit()
        subject = subject_of(table)
        found = []
        told: list[int] = []
        for spark in (None, spark_store.spark):
            reading = AnalyzeSettings(store, spark, SystemClock())
            read = reading.read(table, subject, 0, lambda: False, told.append)
            found.append(statistics_of(read, table, subject, table.physical_id, 100, 256))
        txn = store.begin()
        variables.set_global(txn, "exuvia_pipeline_inline_rows", before)
        txn.commit()
    assert found[0] == found[1]
    assert [each.distinct for each in found[0]] == [3000, 70, 900, 3000]
    assert told[-1] == 3000
