"""Only rows in a key's ranges are read, and the result equals that of Spark's own filters."""

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql.datasource import EqualTo, GreaterThan

from exuvia.base.errors import Refused
from exuvia.sql.session.session import Session
from pyspark_exuvia import table as source
from support.few import one_in
from support.spark import SparkStore
from support.world import World, run

PUSH = "spark.sql.python.filterPushdown.enabled"
ROWS = 2_000


@pytest.fixture(scope="module")
def world(spark_store: SparkStore):
    with World(spark_store.store) as made:
        yield made


@pytest.fixture(scope="module")
def session(world: World, spark_store: SparkStore) -> Session:
    opened = world.session("test")
    run(opened, "CREATE DATABASE push")
    run(opened, "USE push")
    run(
        opened,
        "CREATE TABLE t (id BIGINT PRIMARY KEY, n INT, u BIGINT UNSIGNED, d DECIMAL(10,2), "
        "s VARCHAR(20), b VARCHAR(20) COLLATE utf8mb4_0900_bin, day DATE, at DATETIME(6), "
        "ts TIMESTAMP NULL, e ENUM('x', 'y'), f BOOL, UNIQUE KEY (n), KEY (u), KEY (d), KEY (s), "
        "KEY (b), KEY (day), KEY (at), KEY (ts), KEY (e), KEY (f), KEY (s(1), u))",
    )
    # a few of each in two thousand, and values that both sides interpret differently
    values = [
        f"({i}, {i if i % 100 else 'NULL'}, {i // 4 + 2**63}, {i / 4}, 'Name {i % 500}', "
        f"'text {i % 500:03}', '2024-01-01' + INTERVAL {i // 4} DAY, "
        f"'2024-01-01 00:00:00.25' + INTERVAL {i // 4} HOUR, "
        f"'2024-01-01' + INTERVAL {i // 4} HOUR, '{'xy'[i % 500 == 0]}', {i % 500 != 0})"
        for i in range(ROWS - 4)
    ]
    run(opened, f"INSERT INTO t VALUES {', '.join(values)}")
    run(opened, "SET sql_mode = ''")
    run(
        opened,
        "INSERT INTO t VALUES (5001, 5001, 7, 9000, 'name 7', 'TEXT 007', '0000-00-00', "
        "'0000-00-00', NULL, '', 2), (5002, 5002, 7, 9000, 'Name 7 ', 'text 007 ', NULL, NULL, "
        "NULL, NULL, NULL), (5003, -5003, 7, -9000, NULL, '', NULL, NULL, NULL, NULL, 0), "
        "(-5004, NULL, 7, 9000, NULL, NULL, NULL, NULL, NULL, NULL, 0)",
    )
    return opened


@pytest.fixture(scope="module")
def everything(spark_store: SparkStore, session: Session) -> DataFrame:
    """All rows of t cached in Spark, for comparison with its own filters."""
    frame = table(spark_store, push=False).cache()
    assert frame.count() == ROWS
    return frame


def table(
    spark_store: SparkStore, push: bool = True, name: str = "push.t", **options: Any
) -> DataFrame:
    spark = spark_store.spark.session()
    spark.conf.set(PUSH, str(push).lower())
    reader = spark.read.format("exuvia").options(url=spark_store.url, dbtable=name, **options)
    return reader.load()


def found(frame: DataFrame) -> list[Any]:
    return sorted(frame.collect(), key=str)


def received(frame: Any) -> int:
    """Returns the number of rows that Python gave to Spark for a collected frame."""
    leaves = frame._jdf.queryExecution().executedPlan().collectLeaves()
    assert leaves.size() == 1 and leaves.apply(0).nodeName().startswith("BatchScan")
    return leaves.apply(0).metrics().apply("numOutputRows").value()


WHERE = {
    "id = 17": 1,
    "id >= 10 AND id < 20 AND d > 0": 10,
    "id > 1990": 8,
    "id < 3": 4,
    "id IN (1, 5, 9, 1000000)": 3,
    "id IN (1, 5, NULL) AND id > 2": 2,
    "id = 3000000000": 0,
    "n = 17": 1,
    "n IN (17, 18)": 2,
    "n IS NULL": 21,
    "n <=> NULL": 21,
    "n < 3": 3,
    "u = 9223372036854775809": 4,
    "u > 9223372036854776300 AND u <= 9223372036854776304": 16,
    "d = 12.25": 1,
    "d BETWEEN 12.25 AND 13": 4,
    "d < 0": 1,
    "s = 'Name 7'": 6,
    "s IN ('Name 7', 'Name 8')": 10,
    "s IS NULL": 2,
    "b = 'text 007'": 4,
    "b > 'text 007' AND b < 'text 009'": 5,
    "b = 'TEXT 007'": 1,
    "day = '2024-02-29'": 4,
    "day > '2024-02-28' AND day < '2024-03-02'": 8,
    "at = TIMESTAMP_NTZ '2024-01-02 00:00:00.25'": 4,
    "at <= TIMESTAMP_NTZ '2024-01-01 02:00:00'": 9,
    "ts = TIMESTAMP '2024-01-02 00:00:00+00:00'": 4,
    "e = 'y'": 4,
    "NOT f": 6,
}
LEFT_TO_SPARK = [
    "day IS NULL",
    "f",
    "s > 'Name 7'",
    "id + 1 = 5",
    "id = 1 OR n = 3",
    "e > 'x'",
    "id <> 4",
    "n > -10000",
]


@pytest.mark.parametrize("where", one_in(2, WHERE, first=1))
def test_only_rows_in_range_are_read(
    spark_store: SparkStore, everything: DataFrame, where: str
) -> None:
    read = table(spark_store).where(where)
    rows = found(read)
    assert rows == found(everything.where(where))
    assert len(rows) <= received(read) <= WHERE[where], where


@pytest.mark.parametrize("where", one_in(2, LEFT_TO_SPARK))
def test_filters_without_a_key_are_left_to_spark(
    spark_store: SparkStore, everything: DataFrame, where: str
) -> None:
    read = table(spark_store).where(where)
    assert found(read) == found(everything.where(where))
    assert received(read) == ROWS


def test_a_partial_index_is_not_used_for_filters(spark_store: SparkStore, session: Session) -> None:
    run(session, "CREATE TABLE few (id INT PRIMARY KEY, a INT, b INT, KEY (a) WHERE b > 3)")
    values = ", ".join(f"({n}, {n % 50}, {n % 7})" for n in range(1_000))
    run(session, f"INSERT INTO few VALUES {values}")
    read = table(spark_store, name="push.few").where("a = 5")
    rows = found(read)
    assert rows == found(table(spark_store, False, "push.few").where("a = 5"))
    assert len(rows) == 20 and received(read) == 1_000


def test_ranges_of_composite_keys_and_of_partitions(
    spark_store: SparkStore, session: Session
) -> None:
    run(
        session,
        "CREATE TABLE parts (a INT, b VARCHAR(10), c INT, PRIMARY KEY (a, b) CLUSTERED, KEY (c)) "
        "PARTITION BY RANGE (a) (PARTITION p VALUES LESS THAN (100), "
        "PARTITION q VALUES LESS THAN MAXVALUE)",
    )
    values = ", ".join(f"({n // 10}, 'b{n % 10}', {n})" for n in range(2_000))
    run(session, f"INSERT INTO parts VALUES {values}")
    all_rows = table(spark_store, False, "push.parts").cache()
    for where, most in {
        "a = 5": 10,
        "a = 5 AND b = 'b3'": 1,
        "a IN (5, 150) AND b IN ('b1', 'b2')": 4,
        "a >= 99 AND a < 101": 20,
        "c IN (7, 1007)": 2,
        "c IS NULL": 0,
    }.items():
        read = table(spark_store, name="push.parts", numPartitions=3).where(where)
        rows = found(read)
        assert rows == found(all_rows.where(where)), where
        assert received(read) == len(rows) == most, where


def test_a_table_replaced_after_planning_is_not_read(
    spark_store: SparkStore, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs between the plan of a query and its first task."""
    monkeypatch.setattr(source, "store_of", lambda options: spark_store.store)
    options = {"url": spark_store.url, "dbtable": "push.moving"}

    def planned(*filters: Any) -> tuple[source.FilteredReader, Any]:
        reader = source.FilteredReader(options, source.schema(options))
        reader.pushFilters(list(filters))
        [partition] = reader.partitions()
        return reader, partition

    def ids(reader: source.FilteredReader, partition: Any) -> list[int]:
        return [n for batch in reader.read(partition) for n in batch.column("id").to_pylist()]

    run(session, "CREATE TABLE moving (id INT PRIMARY KEY, n INT, KEY k (n))")
    run(session, f"INSERT INTO moving VALUES {', '.join(f'({n}, {n})' for n in range(300))}")
    by_index = planned(EqualTo(("n",), 7))
    assert by_index[1].value.index_id
    by_key = planned(GreaterThan(("id",), 297))
    run(session, "ALTER TABLE moving ADD COLUMN later INT FIRST")
    assert ids(*by_index) == [7] and ids(*by_key) == [298, 299]
    run(session, "ALTER TABLE moving DROP INDEX k")
    with pytest.raises(Refused, match="definition has changed"):
        ids(*by_index)
    run(session, "ALTER TABLE moving MODIFY n BIGINT")
    with pytest.raises(Refused, match="definition has changed"):
        ids(*by_key)
    by_key = planned(GreaterThan(("id",), 297))
    run(session, "TRUNCATE TABLE moving")
    with pytest.raises(Refused, match="definition has changed"):
        ids(*by_key)


def test_the_examples_of_the_guide(spark_store: SparkStore, session: Session) -> None:
    run(
        session,
        "CREATE TABLE push.orders (id INT PRIMARY KEY, customer INT, note TEXT, KEY (customer))",
    )
    values = ", ".join(f"({n}, {n % 50 or 'NULL'}, 'n')" for n in range(1_000))
    run(session, f"INSERT INTO push.orders VALUES {values}")
    guide = (Path(__file__).parents[2] / "docs" / "spark.md").read_text()
    names: dict[str, Any] = {"spark": spark_store.spark.session(), "url": spark_store.url}
    code, *_ = re.findall(r"```python\n(.*?)```", guide, re.DOTALL)
    exec(code.replace("shop.", "push."), names)
    for name, rows in {"recent": 99, "wanted": 40, "nobody": 20}.items():
        assert len(names[name].collect()) == received(names[name]) == rows


def test_a_decimal_of_many_digits_is_found(spark_store: SparkStore, session: Session) -> None:
    """PySpark rounds it to 28 digits, so no key is used."""
    number = "1234567890123456789012345678.0123456789"
    run(session, "CREATE TABLE many (id INT PRIMARY KEY, d DECIMAL(38,10), KEY (d))")
    few = ", ".join(f"({n}, {n}.5)" for n in range(2, 300))
    run(session, f"INSERT INTO many VALUES (1, {number}), {few}")
    for where, ids in ((f"d = {number}", [1]), (f"d >= {number}", [1]), ("d = 7.5", [7])):
        rows = table(spark_store, name="push.many").where(where).collect()
        assert [row.id for row in rows] == ids, where
