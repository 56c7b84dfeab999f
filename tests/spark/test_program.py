"""Statements of Exuvia as DataFrames, without Spark."""

from contextlib import contextmanager
from datetime import UTC, date, datetime
from decimal import Decimal
from types import SimpleNamespace

import pytest
from pyspark.sql.types import StructType

import pyspark_exuvia
from exuvia.base.errors import Refused
from pyspark_exuvia import program
from support.world import rows, run
from support.writers import here, session, world

__all__ = ["here", "session", "world"]


class Program:
    """Takes the place of a Spark session: frames are lists, views are names."""

    def __init__(self) -> None:
        self.views: list[tuple[str, str]] = []
        self.read = self
        self.options: dict[str, str] = {}

    def createDataFrame(self, table, schema):  # noqa: N802 - Spark's name
        return schema.simpleString(), [tuple(row.values()) for row in table.to_pylist()]

    def format(self, name: str) -> "Program":
        return self

    def option(self, name: str, value: str) -> "Program":
        self.options[name] = value
        return self

    def load(self) -> SimpleNamespace:
        table = self.options["dbtable"]
        return SimpleNamespace(
            createOrReplaceTempView=lambda name: self.views.append((name, table))
        )


@pytest.fixture
def spark(world, monkeypatch) -> Program:
    @contextmanager
    def one(url: str):
        try:
            yield world.session("")
        except Refused as error:
            program.show(error)
            raise

    monkeypatch.setattr(program, "kept_session", one)
    return Program()


def test_rows_have_the_types_of_their_columns(spark, session):
    run(
        session,
        "CREATE TABLE t (id INT PRIMARY KEY, b BOOL, d DECIMAL(10,2), at DATETIME(3), ts TIMESTAMP "
        "NULL, day DATE, j JSON, x VARBINARY(3), u BIGINT UNSIGNED, e ENUM('v'), h TIME)",
    )
    run(
        session,
        "INSERT INTO t VALUES (1, true, 1.5, '2024-01-01 00:00:01.5', '2024-01-01 00:00:02', "
        "'2024-02-29', '{\"a\": 1}', 'ab', 18446744073709551615, 'v', '10:00:00')",
    )
    run(session, "INSERT INTO t (id) VALUES (2)")
    kinds, found = pyspark_exuvia.sql(spark, "", "SELECT * FROM t ORDER BY id", "goal")
    assert kinds == (
        "struct<id:int,b:boolean,d:decimal(10,2),at:timestamp_ntz,ts:timestamp,day:date,j:string,"
        "x:binary,u:decimal(20,0),e:string,h:string>"
    )
    second = datetime(2024, 1, 1, 0, 0, 2, tzinfo=UTC)
    assert found == [
        (1, True, Decimal("1.50"), datetime(2024, 1, 1, 0, 0, 1, 500_000), second,
         date(2024, 2, 29), '{"a": 1}', b"ab", Decimal(18446744073709551615), "v", "10:00:00"),
        (2, *[None] * 10),
    ]  # fmt: skip


def test_statements_of_every_kind(spark, session):
    run(session, "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, a INT)")
    counts = "struct<affected:bigint,last_insert_id:bigint,info:string>"
    for statement, parameters, expected in (
        ("INSERT INTO t (a) VALUES (?), (?)", [5, 6], (counts, [(2, 1, "Records: 2  Duplicates: 0"
                                                                     "  Warnings: 0")])),
        ("SELECT COUNT(*), NULL n, 'x' t FROM t WHERE a > ?", [5],
         ("struct<COUNT(*):bigint,n:string,t:string>", [(1, None, "x")])),
        ("ALTER TABLE t ADD COLUMN b INT", (), (counts, [(0, 0, "")])),
        ("SELECT id FROM t WHERE id > 5", (), ("struct<id:int>", [])),
    ):  # fmt: skip
        assert pyspark_exuvia.sql(spark, "", statement, "goal", parameters) == expected
    assert pyspark_exuvia.sql(spark, "", "ADMIN SHOW DDL JOBS 1", "goal")[1][0][1] == "goal"
    for statement, line in (
        ("SELEKT", "1064 (42000): "),
        ("SELECT * FROM none", "1146 (42S02): Table 'goal.none' doesn't exist"),
        ("INSERT INTO t (id) VALUES (1)", "1062 (23000): Duplicate entry '1' for key 't.PRIMARY'"),
        ("BEGIN", "1105 (HY000): sql() commits each statement"),
    ):
        with pytest.raises(Refused) as refused:
            pyspark_exuvia.sql(spark, "", statement, "goal")
        assert str(refused.value).startswith(line)


def test_every_table_becomes_a_view(spark, session):
    run(session, "CREATE TABLE `a``b` (id INT)")
    run(session, "CREATE TABLE c (id INT)")
    run(session, "CREATE VIEW v AS SELECT 1 FROM c")
    assert pyspark_exuvia.attach(spark, "", "goal") == ["a`b", "c"]
    assert spark.views == [("`a``b`", "goal.a`b"), ("`c`", "goal.c")]
    with pytest.raises(Refused, match=r"^1049 \(42000\): Unknown database 'nope'"):
        pyspark_exuvia.attach(spark, "", "nope")


def test_the_schema_change_of_a_frame_is_explained_and_not_run(spark, session):
    run(session, "CREATE TABLE t (a INT)")
    frame = SimpleNamespace(schema=StructType().add("a", "long").add("b", "string"))
    statement = pyspark_exuvia.schema_change(frame, "", "goal.t")
    assert statement == (
        "ALTER TABLE `goal`.`t` MODIFY COLUMN `a` BIGINT DEFAULT NULL, ADD COLUMN `b` LONGTEXT"
    )
    explained = pyspark_exuvia.sql(spark, "", f"EXPLAIN {statement}")[1]
    assert any("modify column" in str(row) for row in explained), explained
    assert [row[0] for row in rows(session, "SHOW COLUMNS FROM t")] == ["a"]
    run(session, statement)
    assert pyspark_exuvia.schema_change(frame, "", "goal.t") == ""
