"""Tables and the feed as Spark data, found by the format's name only."""

import datetime
from decimal import Decimal

import pytest

from exuvia.sql.session.session import Session
from support.spark import SparkStore
from support.world import World, rows, run


@pytest.fixture(scope="module")
def world(spark_store: SparkStore):
    with World(spark_store.store) as made:
        yield made


@pytest.fixture(scope="module")
def session(world: World) -> Session:
    opened = world.session("test")
    run(opened, "CREATE DATABASE shop")
    run(opened, "USE shop")
    return opened


def load(spark_store: SparkStore, **options):
    reader = spark_store.spark.session().read.format("exuvia").option("url", spark_store.url)
    for name, value in options.items():
        reader = reader.option(name, value)
    return reader.load()


def test_every_type_has_its_spark_type(spark_store, session):
    run(
        session,
        "CREATE TABLE every (id INT PRIMARY KEY, u BIGINT UNSIGNED, d DECIMAL(10,2), f DOUBLE, "
        "s VARCHAR(20), b VARBINARY(4), day DATE, at DATETIME(3), ts TIMESTAMP, t TIME, "
        "e ENUM('x','y'), j JSON, y YEAR)",
    )
    run(
        session,
        "INSERT INTO every VALUES (1, 18446744073709551615, 12.50, 1.5, 'grün', 'ab', "
        "'2024-02-29', '2024-02-29 01:02:03.004', '2024-01-01 00:00:00', '-10:00:01', 'y', "
        "'{\"a\": 1}', 2024), (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, "
        "NULL, NULL)",
    )
    frame = load(spark_store, dbtable="shop.every").orderBy("id")
    one, two = frame.collect()
    assert one.u == Decimal(2**64 - 1) and one.d == Decimal("12.50") and one.f == 1.5
    assert (one.s, bytes(one.b), one.t, one.e, one.y) == ("grün", b"ab", "-10:00:01", "y", 2024)
    assert one.day == datetime.date(2024, 2, 29)
    assert one["at"] == datetime.datetime(2024, 2, 29, 1, 2, 3, 4000)
    assert one.j == '{"a": 1}'
    assert [value for name, value in two.asDict().items() if name != "id"] == [None] * 12
    kinds = dict(frame.dtypes)
    assert (kinds["u"], kinds["d"], kinds["at"], kinds["ts"], kinds["e"]) == (
        "decimal(20,0)",
        "decimal(10,2)",
        "timestamp_ntz",
        "timestamp",
        "string",
    )


def test_numbers_equal_those_of_the_jdbc_source(spark_store, session):
    columns = {
        "a TINYINT": ("tinyint", -128),
        "b TINYINT UNSIGNED": ("smallint", 255),
        "c BOOL": ("boolean", True),
        "d SMALLINT": ("smallint", -32768),
        "e SMALLINT UNSIGNED": ("int", 65535),
        "f MEDIUMINT": ("int", -8388608),
        "g MEDIUMINT UNSIGNED": ("int", 16777215),
        "h INT": ("int", -(2**31)),
        "i INT UNSIGNED": ("bigint", 2**32 - 1),
        "j BIGINT": ("bigint", -(2**63)),
        "k BIGINT UNSIGNED": ("decimal(20,0)", Decimal(2**64 - 1)),
        "l FLOAT": ("float", 1.5),
        "m DOUBLE": ("double", 1e300),
        "n BIT(1)": ("boolean", True),
        "o BIT(12)": ("binary", b"\x0a\xbc"),
        "p YEAR": ("int", 2024),
        "q DECIMAL(50, 2)": ("string", "12.50"),
    }
    run(session, f"CREATE TABLE numbers (id INT PRIMARY KEY, {', '.join(columns)})")
    texts = {"c": "1", "n": "1", "o": "0xABC", "q": "12.5"}
    values = (texts.get(name[0], str(value)) for name, (_, value) in columns.items())
    run(session, f"INSERT INTO numbers VALUES (1, {', '.join(values)})")
    run(session, "INSERT INTO numbers (id) VALUES (2)")
    frame = load(spark_store, dbtable="shop.numbers").orderBy("id").drop("id")
    assert [kind for _, kind in frame.dtypes] == [kind for kind, _ in columns.values()]
    one, two = frame.collect()
    assert list(one) == [value for _, value in columns.values()]
    assert set(two) == {None}


def test_a_date_outside_the_calendar_is_null(spark_store, session):
    """Zero dates, parts that are zero, days that the month does not have; also in NOT NULL."""
    run(
        session,
        "CREATE TABLE no_days (id INT PRIMARY KEY, day DATE NOT NULL, at DATETIME NOT NULL)",
    )
    run(session, "SET sql_mode = 'ALLOW_INVALID_DATES'")
    texts = ["0000-00-00", "2023-02-31", "2023-00-05", "2023-05-00", "0000-01-01", "2024-02-29"]
    values = ", ".join(f"({n}, '{text}', '{text} 10:00:00')" for n, text in enumerate(texts))
    try:
        run(session, f"INSERT INTO no_days VALUES {values}")
    finally:
        run(session, "SET sql_mode = DEFAULT")
    frame = load(spark_store, dbtable="shop.no_days")
    there = frame.where("day IS NOT NULL AND at IS NOT NULL").collect()
    assert [(row.id, str(row.day)) for row in there] == [(5, "2024-02-29")]
    assert frame.where("day IS NULL").count() == frame.where("at IS NULL").count() == 5
    assert frame.where("year(day) = 1970").count() == 0


def test_spans_columns_and_aggregates(spark_store, session):
    run(session, "CREATE TABLE big (id INT PRIMARY KEY, v INT, note VARCHAR(10) DEFAULT 'n')")
    values = ",".join(f"({n},{n % 7})" for n in range(5000))
    run(session, f"INSERT INTO big (id, v) VALUES {values}")
    frame = load(spark_store, dbtable="shop.big", columns="v, id", numPartitions=4, fetchsize=300)
    assert frame.columns == ["v", "id"]
    assert frame.rdd.getNumPartitions() == 4
    found = {row.v: row["count"] for row in frame.groupBy("v").count().collect()}
    assert found == dict(rows(session, "SELECT v, COUNT(*) FROM big GROUP BY v"))


def test_missing_objects_are_named_in_errors(spark_store, session):
    for options, said in [
        ({"dbtable": "shop.none"}, "1146 (42S02): Table 'shop.none' doesn't exist"),
        (
            {"dbtable": "shop.big", "columns": "id, zz"},
            "1054 (42S22): Unknown column 'zz' in 'opti",
        ),
        ({}, '1210 (HY000): .option("dbtable"'),
        ({"feed": "dml"}, '1210 (HY000): there is no feed "dml"'),
    ]:
        with pytest.raises(Exception, match="MySQLError") as failed:
            load(spark_store, **options).collect()
        assert said in str(failed.value).splitlines()[0]


def test_a_missing_store_is_not_created(spark_store, tmp_path):
    with pytest.raises(Exception, match=r"8022 \(HY000\): .*there is no store at"):
        load(spark_store, url=f"lmdb://{tmp_path}/typo", dbtable="shop.big")
    assert not list(tmp_path.iterdir())


def test_the_feed_as_a_batch_and_as_a_stream_that_continues_where_it_stopped(
    spark_store, session, tmp_path
):
    def stream() -> list[tuple[int, int, str]]:
        """Returns everything that a query reads from now on until no more rows come."""
        found = []

        def take(frame, batch: int) -> None:
            found.extend((row.job_id, row.sub_job_id, row.kind) for row in frame.collect())

        reader = spark_store.spark.session().readStream.format("exuvia")
        changes = reader.option("url", spark_store.url).option("feed", "ddl").load()
        writer = changes.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.foreachBatch(take).start()
        try:
            query.processAllAvailable()
        finally:
            query.stop()
        return found

    def told(count: int) -> None:
        def look() -> bool:
            return len(rows(session, "SELECT 1 FROM mysql.exuvia_ddl_events")) >= count

        world_store = spark_store.store
        for _ in range(200):
            if look():
                return
            world_store.wait("feed", world_store.counter("feed"), 0.1)
        raise AssertionError("the feed does not come")

    before = len(rows(session, "SELECT 1 FROM mysql.exuvia_ddl_events"))
    run(session, "CREATE TABLE s1 (a INT PRIMARY KEY)")
    run(session, "ALTER TABLE s1 ADD COLUMN b INT")
    told(before + 2)
    batch = load(spark_store, feed="ddl").orderBy("position").collect()
    assert [row.kind for row in batch][-2:] == ["create table", "add column"]
    first = stream()
    assert [kind for _, _, kind in first][-2:] == ["create table", "add column"]
    run(session, "DROP TABLE s1")
    told(before + 3)
    again = stream()
    assert [kind for _, _, kind in again] == ["drop table"]


def test_alter_table_of_spark_leaves_the_store_as_it_was(spark_store, session):
    """The trap of docs/spark.md, and the way out of it."""
    run(session, "CREATE TABLE trap (id INT PRIMARY KEY)")
    spark = spark_store.spark.session()
    spark.sql(
        f"CREATE TABLE trapped USING exuvia OPTIONS (url '{spark_store.url}', dbtable 'shop.trap')"
    )
    spark.sql("ALTER TABLE trapped ADD COLUMN extra INT")
    assert spark.table("trapped").columns == ["id", "extra"]
    spark.sql("DROP TABLE trapped")
    assert [row[0] for row in rows(session, "SHOW COLUMNS FROM trap")] == ["id"]
    run(session, "ALTER TABLE trap ADD COLUMN extra INT")
    assert load(spark_store, dbtable="shop.trap").columns == ["id", "extra"]
