"""mergeSchema: the table gets the columns and wider types of a DataFrame before the write."""

import pyarrow as pa
import pytest
from pyspark.sql.types import ArrayType, LongType, StructType

from exuvia.base.errors import Refused
from pyspark_exuvia import merge
from support.world import rows, run
from support.writers import committing, here, left, session, world, writer_of

__all__ = ["committing", "here", "session", "world"]


CASES = (
    ("INT", "long", "BIGINT"),
    ("INT UNSIGNED", "long", ""),
    ("SMALLINT UNSIGNED", "long", "BIGINT"),
    ("BIGINT", "integer", ""),
    ("TINYINT(1)", "byte", "TINYINT"),
    ("TINYINT(1)", "boolean", ""),
    ("TINYINT", "boolean", ""),
    ("INT", "double", "DOUBLE"),
    ("SMALLINT", "float", "DOUBLE"),
    ("FLOAT", "double", "DOUBLE"),
    ("DOUBLE", "float", ""),
    ("DOUBLE", "integer", ""),
    ("BIGINT", "double", None),
    ("DOUBLE", "long", None),
    ("DECIMAL(10,2)", "double", None),
    ("DECIMAL(10,2)", "decimal(12,1)", "DECIMAL(13,2)"),
    ("DECIMAL(10,2)", "decimal(10,4)", "DECIMAL(12,4)"),
    ("DECIMAL(10,2)", "decimal(9,1)", ""),
    ("DECIMAL(10,2)", "integer", "DECIMAL(12,2)"),
    ("INT", "decimal(5,0)", ""),
    ("BIGINT UNSIGNED", "decimal(22,2)", "DECIMAL(22,2)"),
    ("DATE", "timestamp_ntz", "DATETIME(6)"),
    ("DATE", "timestamp", None),
    ("DATETIME", "date", ""),
    ("DATETIME", "timestamp", ""),
    ("VARCHAR(5)", "string", ""),
    ("VARCHAR(5)", "integer", ""),
    ("VARCHAR(5)", "binary", None),
    ("INT", "string", None),
    ("INT", "array", None),
    ("YEAR", "long", None),
    ("BIT(1)", "integer", None),
    ("VARBINARY(5)", "string", None),
)
"""A column, the type of the DataFrame's column, and the new type: "" none, None refused."""


def test_only_types_that_hold_all_values_of_both_are_changed(here, session):
    for number, (column, kind, expected) in enumerate(CASES):
        run(session, f"CREATE TABLE t{number} (a {column})")
        planned = StructType().add("a", ArrayType(LongType()) if kind == "array" else kind)
        options = {"dbtable": f"goal.t{number}"}
        if expected is None:
            with pytest.raises(Refused, match=r"Unsupported mergeSchema: column 'a' is .*: cast"):
                merge.alter_table(here.store, options, planned)
            continue
        statement = merge.alter_table(here.store, options, planned)
        clause = f"MODIFY COLUMN `a` {expected} DEFAULT NULL"
        assert statement == (f"ALTER TABLE `goal`.`t{number}` {clause}" if expected else "")
        if statement:
            run(session, statement)
            assert merge.alter_table(here.store, options, planned) == "", column


@pytest.mark.usefixtures("committing")
def test_new_columns_and_wider_types_are_one_job(here, session, monkeypatch):
    monkeypatch.setattr(merge, "store_of", lambda options: here.store)
    run(session, "CREATE TABLE t (a INT NOT NULL DEFAULT 7 COMMENT 'it''s' PRIMARY KEY, `b``` INT)")
    run(session, "INSERT INTO t VALUES (1, 1)")
    for _ in range(2):
        writer = writer_of(
            here, "t", schema="a integer, b` long, N string, at timestamp_ntz", mergeschema="true"
        )
        row = {"a": 2 + _, "b`": 1 << 40, "N": "new", "at": None}
        writer.commit([writer.write(iter([pa.RecordBatch.from_pylist([row])]))])
    assert rows(session, "SELECT a, `b```, N FROM t") == [
        [1, 1, None], [2, 1 << 40, "new"], [3, 1 << 40, "new"],
    ]  # fmt: skip
    [[_, text]] = rows(session, "SHOW CREATE TABLE t")
    assert "`a` int NOT NULL DEFAULT '7' COMMENT 'it''s'" in text
    assert "`b``` bigint DEFAULT NULL" in text and "`at` datetime(6) DEFAULT NULL" in text
    jobs = [row for row in rows(session, "ADMIN SHOW DDL JOBS") if "alter table multi" in row[3]]
    assert len({row[0] for row in jobs if "/*" not in row[3]}) == 1, jobs
    assert not left(here)


@pytest.mark.usefixtures("committing")
def test_without_the_option_or_with_a_wrong_one_nothing_changes(here, session, monkeypatch):
    monkeypatch.setattr(merge, "store_of", lambda options: here.store)
    run(session, "CREATE TABLE t (a INT PRIMARY KEY, s VARCHAR(9))")
    before = rows(session, "SHOW CREATE TABLE t")
    for schema, options, code in (
        ("a long, n long", {}, 1054),
        ("a long, n long", {"mergeschema": "yes"}, 1210),
        ("a string, n long", {"mergeschema": "true"}, 8200),
        ("n long", {"mergeschema": "true", "onduplicate": "update"}, 1210),
        ("a long", {"mergeschema": "true", "onduplicate": "other"}, 1210),
    ):
        with pytest.raises(Refused) as refused:
            writer_of(here, "t", schema=schema, **options)
        assert refused.value.code == code
    assert rows(session, "SHOW CREATE TABLE t") == before
    assert not left(here)


@pytest.mark.usefixtures("committing")
def test_another_write_has_just_added_the_column(here, session, monkeypatch):
    monkeypatch.setattr(merge, "store_of", lambda options: here.store)
    run(session, "CREATE TABLE t (a INT PRIMARY KEY)")
    own, first = merge.alter_table, []

    def late(*arguments):
        statement = own(*arguments)
        if not first:
            first.append(statement)
            run(session, statement)
        return statement

    monkeypatch.setattr(merge, "alter_table", late)
    writer_of(here, "t", schema="a integer, b long", mergeschema="true").abort([])
    assert first == ["ALTER TABLE `goal`.`t` ADD COLUMN `b` BIGINT"]
    assert [row[0] for row in rows(session, "SHOW COLUMNS FROM t")] == ["a", "b"]
