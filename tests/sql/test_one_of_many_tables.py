"""Clients ask about one table at a time (mysqldump, ORMs): only that table is read, and the answer
is the one that reading all of them gives."""

from collections.abc import Iterator

import pytest

from exuvia.catalog import meta
from exuvia.sql.information_schema.registry import definitions
from exuvia.sql.matching import like_matcher, only_text
from exuvia.sql.session.session import Session
from support.world import World, rows, run

MADE = [
    "CREATE DATABASE d",
    "CREATE DATABASE Other",
    "USE d",
    "CREATE TABLE parent (id INT PRIMARY KEY, CHECK (id > 0))",
    "CREATE TABLE Mixed_Case (id INT PRIMARY KEY, p INT REFERENCES parent (id), KEY (p))",
    "ALTER TABLE Mixed_Case ADD FOREIGN KEY (p) REFERENCES parent (id)",
    "CREATE TABLE cut (id INT PRIMARY KEY) PARTITION BY HASH (id) PARTITIONS 3",
    "CREATE VIEW v AS SELECT id FROM parent",
    "CREATE SEQUENCE s",
    "CREATE TABLE Other.parent (a INT)",
]
NAMES = ["parent", "PARENT", "Mixed_Case", "mixed_case", "cut", "v", "s", "parent ", "none", "par%"]


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with World() as world:
        made = world.session()
        for statement in MADE:
            run(made, statement)
        yield made


BY_TABLE = [
    title
    for title, each in definitions().items()
    if {"TABLE_SCHEMA", "TABLE_NAME"} <= {column.name.O for column in each.columns}
]


@pytest.mark.parametrize("title", BY_TABLE)
def test_the_answer_is_that_of_reading_all(session: Session, title: str) -> None:
    """OR reads all tables: the same WHERE, in words that are not looked into."""
    for database in ("'d'", "DATABASE()", "'D'", "'other'", "'Other'"):
        for name in NAMES:
            asked = f"table_schema = {database} AND '{name}' = table_name"
            found = rows(session, f"SELECT * FROM information_schema.{title} WHERE {asked}")
            slow = f"SELECT * FROM information_schema.{title} WHERE ({asked}) OR 1 = 0"
            assert found == rows(session, slow), asked


JOINS = [
    "SELECT t.table_name, c.table_name FROM information_schema.tables t LEFT JOIN"
    " information_schema.columns c ON c.column_name = 'p' WHERE {}",
    "SELECT t.table_name, c.table_name FROM information_schema.tables t RIGHT JOIN"
    " information_schema.columns c ON t.table_name = c.table_name WHERE {}",
    "SELECT * FROM information_schema.tables t, d.parent c WHERE {}",
    "SELECT (SELECT COUNT(*) FROM information_schema.columns c WHERE {}) FROM"
    " information_schema.tables t",
    "SELECT table_name FROM information_schema.tables WHERE table_name IN"
    " (SELECT c.table_name FROM information_schema.columns c, information_schema.tables t"
    " WHERE {})",
]


@pytest.mark.parametrize("query", JOINS)
def test_on_either_side_of_a_join_the_answer_is_that_of_reading_all(
    session: Session, query: str
) -> None:
    run(session, "INSERT IGNORE INTO d.parent VALUES (1)")
    for name in ("parent", "Mixed_Case", "none"):
        for asked in (
            f"t.table_name = '{name}'",
            f"t.table_schema = 'd' AND t.table_name = '{name}'",
            f"'{name}' = t.table_name AND t.table_schema = DATABASE()",
        ):
            found = sorted(rows(session, query.format(asked)), key=str)
            assert found == sorted(rows(session, query.format(f"({asked}) OR 1 = 0")), key=str)
            asked = asked.replace("t.table", "c.table")
            if "d.parent" not in query:
                found = sorted(rows(session, query.format(asked)), key=str)
                assert found == sorted(rows(session, query.format(f"({asked}) OR 1 = 0")), key=str)


def test_two_names_at_once_are_nothings_and_a_prepared_one_is_asked_anew(session: Session) -> None:
    tables = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'd'"
    assert rows(session, f"{tables} AND table_name = 'cut' AND table_name = 'v'") == []
    run(session, f'PREPARE one FROM "{tables} AND table_name = ?"')
    for name in ("cut", "v", "none", "cut"):
        run(session, f"SET @name = '{name}'")
        found = rows(session, "EXECUTE one USING @name")
        assert found == ([] if name == "none" else [[name]])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("asked", ["TABLES", "FULL TABLES", "TABLE STATUS"])
def test_show_like_one_name_is_show_like_any(session: Session, asked: str, name: str) -> None:
    found = rows(session, f"SHOW {asked} FROM d LIKE '{name}'")
    fits = like_matcher(name.lower())
    everything = rows(session, f"SHOW {asked} FROM d")
    assert found == [row for row in everything if fits(str(row[0]).lower())]


@pytest.mark.parametrize(
    "asked",
    [
        "SELECT engine FROM information_schema.tables"
        " WHERE table_schema = DATABASE() AND table_name = 'cut'",
        "SELECT * FROM information_schema.columns WHERE table_schema = 'd' AND table_name = 'cut'",
        "SELECT COUNT(*) FROM (SELECT DISTINCT index_name FROM information_schema.statistics"
        " WHERE table_name = 'cut') AS i",
        "SELECT c.column_name FROM information_schema.tables t JOIN information_schema.columns c"
        " USING (table_name) WHERE t.table_name = 'cut' AND c.table_name = 'cut'",
        "SHOW TABLES LIKE 'cut'",
        r"SHOW TABLE STATUS LIKE 'c\ut'",
    ],
)
def test_no_other_table_is_read(
    session: Session, asked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(session, "USE d")
    before = rows(session, asked)

    def read_all(*_: object) -> None:
        raise AssertionError("it reads every table")

    monkeypatch.setattr(meta, "list_tables", read_all)
    assert rows(session, asked) == before != []


@pytest.mark.parametrize(
    ("pattern", "text"),
    [("a", "a"), (r"a\_b", "a_b"), (r"a\%", "a%"), ("a_b", None), ("%", None), ("a\\", None)],
)
def test_a_pattern_without_wildcards_is_a_text(pattern: str, text: str | None) -> None:
    assert only_text(pattern) == text
