"""Advice about a file: each rule finds what it is for, and nothing where it is not."""

import pytest

from exuvia.base.errors import Refused
from exuvia.sql.schema.lint import RULES, lint

HEALTHY = "CREATE TABLE t (id bigint unsigned PRIMARY KEY, a int, b int, d datetime, KEY i (a));\n"

FOUND = {
    "primary_key": ("CREATE TABLE x (a int)", "CREATE TABLE x (a int PRIMARY KEY)"),
    "auto_inc_capacity": (
        "CREATE TABLE x (a bigint PRIMARY KEY AUTO_INCREMENT) AUTO_INCREMENT = 9000000000000000000",
    ),
    "redundant_indexes": (
        "CREATE TABLE x (a bigint PRIMARY KEY, b int, KEY i (b), KEY j (b, a))",
        "CREATE TABLE x (a bigint PRIMARY KEY, b int, KEY i (a))",
        "CREATE TABLE x (a bigint PRIMARY KEY, b int, KEY i (b), UNIQUE KEY j (b))",
    ),
    "has_float": ("CREATE TABLE x (a bigint PRIMARY KEY, b double)",),
    "has_foreign_key": (
        "CREATE TABLE x (a bigint PRIMARY KEY, FOREIGN KEY (a) REFERENCES t (id))",
        "ALTER TABLE t ADD FOREIGN KEY (a) REFERENCES t (id)",
    ),
    "allow_charset": (
        "CREATE TABLE x (a bigint PRIMARY KEY) CHARSET latin1",
        "CREATE TABLE x (a bigint PRIMARY KEY, b varchar(3) CHARACTER SET latin1)",
    ),
    "name_case": ("CREATE TABLE Xs (a bigint PRIMARY KEY)",),
    "datetime_index_position": ("CREATE TABLE x (a bigint PRIMARY KEY, d date, KEY (d, a))",),
    "multiple_alter_table": ("ALTER TABLE t COMMENT 'x'; CREATE INDEX j ON t (b)",),
    "rename_column": (
        "ALTER TABLE t RENAME COLUMN a TO c",
        "ALTER TABLE t CHANGE COLUMN a c int",
    ),
    "renaming_table": ("ALTER TABLE t RENAME TO u", "RENAME TABLE t TO u"),
    "invisible_index_before_drop": ("ALTER TABLE t DROP INDEX i", "DROP INDEX i ON t"),
    "index_visibility_mixed": ("ALTER TABLE t ALTER INDEX i INVISIBLE, ADD KEY j (b)",),
    "unsafe": (
        "ALTER TABLE t DROP COLUMN a",
        "ALTER TABLE p DROP PARTITION p0",
        "DROP TABLE t",
        "TRUNCATE TABLE t",
    ),
    "adding_required_field": ("ALTER TABLE t ADD COLUMN c int NOT NULL",),
    "changing_column_type": ("ALTER TABLE t MODIFY COLUMN a smallint",),
}

FINE = (
    "CREATE TABLE x (a bigint PRIMARY KEY AUTO_INCREMENT) AUTO_INCREMENT = 4000000000",
    "CREATE TABLE x (a varchar(9), b int, PRIMARY KEY (a))",
    "CREATE TABLE x (a bigint PRIMARY KEY, b int, UNIQUE KEY i (b), KEY j (b, a))",
    "CREATE TABLE x (a bigint PRIMARY KEY, b text, KEY i (b(3)), KEY j (b(5)))",
    "CREATE TABLE x (a bigint PRIMARY KEY, d date, KEY (a, d))",
    "CREATE TABLE x (a bigint PRIMARY KEY, b int, KEY (b), KEY j (b) WHERE a > 3)",
    "ALTER TABLE t ADD COLUMN c int NOT NULL DEFAULT 1, MODIFY a bigint, CHANGE b b bigint",
    "ALTER TABLE t ADD COLUMN c int AS (a + 1) NOT NULL",
    "ALTER TABLE t ALTER INDEX i INVISIBLE, COMMENT 'x'",
    "ALTER TABLE t COMMENT 'x'; ALTER TABLE u COMMENT 'x'",
    "CREATE TABLE x (a bigint PRIMARY KEY, b int, KEY i (b) INVISIBLE); DROP INDEX i ON x",
    "SELECT 1; DROP VIEW v",
)


def found(text: str) -> list[str]:
    return [each.rule for each in lint(HEALTHY + text)]


@pytest.mark.parametrize(
    ("rule", "text"), [(rule, text) for rule, texts in FOUND.items() for text in texts]
)
def test_each_rule_finds_what_it_is_for(rule: str, text: str) -> None:
    assert found(text) == [rule]
    for comment in (rule, rule.replace("_", "-"), f"x,{rule}", "all"):
        last = text.rindex(";") + 1 if ";" in text else 0
        before = f"{text[:last]}\n-- exuvia:lint ignore={comment}\n{text[last:]}"
        assert found(before) == []
        assert found(f"{text} -- exuvia:lint ignore={comment}\n") == []
    assert found(f"{text}; -- exuvia:lint ignore={rule}\nSELECT 1") == []
    assert found(f"{text};\n-- exuvia:lint ignore={rule}\nSELECT 1") == [rule]
    assert found(f"{text}; SELECT 1;\n\n-- exuvia:lint ignore-file={rule}") == []
    assert found(f"{text} -- exuvia:lint ignore=another") == [rule]


@pytest.mark.parametrize("text", FINE)
def test_nothing_is_said_of_what_is_fine(text: str) -> None:
    assert found(text) == []


def test_all_rules_are_tried_and_told() -> None:
    from support.node_processes import ROOT

    assert set(FOUND) == set(RULES)
    page = (ROOT / "docs" / "declarative.md").read_text()
    assert all(f"| `{rule}` |" in page for rule in RULES)


def test_a_finding_says_where() -> None:
    [one] = lint("-- a file\n\n  CREATE TABLE Big (\n  a bigint PRIMARY KEY);")
    assert (one.line, one.table, one.severity) == (3, "Big", "warning")


@pytest.mark.parametrize("text", ["CREATE TABLE x (", "CREATE TABLE x (a int, a int)"])
def test_what_is_no_sql_is_an_error(text: str) -> None:
    with pytest.raises(Refused):
        lint(text)
    assert lint("") == lint("-- nothing") == []
