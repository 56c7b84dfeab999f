"""Advice about a file: each rule finds what it is for, and nothing where it is not."""

import pytest

from exuvia.sql.schema.lint import RULES, lint

HEALTHY = "CREATE TABLE t (id bigint unsigned PRIMARY KEY, a int, b int, d datetime, KEY i (a));\n"

FOUND = {
    "primary_key": ("CREATE TABLE x (p int)", "CREATE TABLE x (p int PRIMARY KEY)"),
    "auto_inc_capacity": (
        "CREATE TABLE x (p bigint PRIMARY KEY AUTO_INCREMENT) AUTO_INCREMENT = 9000000000000000000",
    ),
    "redundant_indexes": (
        "CREATE TABLE x (p bigint PRIMARY KEY, q int, KEY i (q), KEY j (q, p))",
        "CREATE TABLE x (p bigint PRIMARY KEY, q int, KEY i (p))",
        "CREATE TABLE x (p bigint PRIMARY KEY, q int, KEY i (q), UNIQUE KEY j (q))",
    ),
    "has_float": (
        "CREATE TABLE x (p bigint PRIMARY KEY, c double)",
        "ALTER TABLE t ADD COLUMN c float",
        "ALTER TABLE other MODIFY COLUMN c double",
    ),
    "has_timestamp": (
        "CREATE TABLE x (p bigint PRIMARY KEY, c timestamp)",
        "ALTER TABLE t ADD COLUMN c timestamp(3) NULL",
    ),
    "zero_date": (
        "ALTER TABLE t ADD COLUMN c date DEFAULT '0000-00-00'",
        "ALTER TABLE other MODIFY c datetime DEFAULT '2024-00-01 00:00:00'",
    ),
    "reserved_words": (
        "CREATE TABLE x (p bigint PRIMARY KEY, `rank` int)",
        "CREATE TABLE `groups` (p bigint PRIMARY KEY)",
        "ALTER TABLE t ADD COLUMN `Order` int",
    ),
    "refused": (
        "CREATE TABLE x (c int, c int)",
        "CREATE TABLE x (",
        "ALTER TABLE t ADD COLUMN c varchar",
        "INSERT INTO",
    ),
    "type_pedantic": (
        "CREATE TABLE x (id bigint unsigned PRIMARY KEY, t_id int)",
        "CREATE TABLE x (id bigint unsigned PRIMARY KEY); ALTER TABLE x ADD t_id bigint",
    ),
    "has_foreign_key": (
        "CREATE TABLE x (p bigint PRIMARY KEY, FOREIGN KEY (p) REFERENCES t (id))",
        "ALTER TABLE t ADD FOREIGN KEY (a) REFERENCES t (id)",
    ),
    "allow_charset": (
        "CREATE TABLE x (p bigint PRIMARY KEY) CHARSET latin1",
        "CREATE TABLE x (p bigint PRIMARY KEY, q varchar(3) CHARACTER SET latin1)",
    ),
    "name_case": ("CREATE TABLE Xs (p bigint PRIMARY KEY)",),
    "datetime_index_position": ("CREATE TABLE x (p bigint PRIMARY KEY, m date, KEY (m, p))",),
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
    "CREATE TABLE x (p bigint PRIMARY KEY AUTO_INCREMENT) AUTO_INCREMENT = 4000000000",
    "CREATE TABLE x (p varchar(9), q int, PRIMARY KEY (p))",
    "CREATE TABLE x (p bigint PRIMARY KEY, q int, UNIQUE KEY i (q), KEY j (q, p))",
    "CREATE TABLE x (p bigint PRIMARY KEY, q text, KEY i (q(3)), KEY j (q(5)))",
    "CREATE TABLE x (p bigint PRIMARY KEY, m date, KEY (p, m))",
    "CREATE TABLE x (p bigint PRIMARY KEY, q int, KEY (q), KEY j (q) WHERE p > 3)",
    "ALTER TABLE t ADD COLUMN c int NOT NULL DEFAULT 1, MODIFY a bigint, CHANGE b b bigint",
    "ALTER TABLE t ADD COLUMN c int AS (a + 1) NOT NULL",
    "ALTER TABLE t ALTER INDEX i INVISIBLE, COMMENT 'x'",
    "ALTER TABLE t COMMENT 'x'; ALTER TABLE u COMMENT 'x'",
    "CREATE TABLE x (p bigint PRIMARY KEY, q int, KEY i (q) INVISIBLE); DROP INDEX i ON x",
    "SELECT 1; DROP VIEW v",
    "CREATE TABLE x (id bigint unsigned PRIMARY KEY, t_id bigint unsigned, c bigint)",
    "CREATE TABLE x (p bigint PRIMARY KEY, c datetime DEFAULT '2024-01-01', ranks int)",
    "CREATE TABLE x (id bigint unsigned PRIMARY KEY, q bigint)",  # b has no index
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


def test_a_refused_statement_ends_nothing() -> None:
    text = """CREATE TABLE one (c int, c int);
    SELEC 1;
    CREATE TABLE two (a int PRIMARY KEY, d date DEFAULT '0000-00-00', f float);
    ALTER TABLE one RENAME TO Two;"""
    assert sorted((each.line, each.rule) for each in lint(text)) == [
        *((1, "refused"), (2, "refused"), (3, "has_float"), (3, "refused")),
        *((3, "zero_date"), (4, "name_case"), (4, "renaming_table")),
    ]
    [unended] = lint("SELECT 'x")
    assert (unended.rule, unended.line) == ("refused", 1)
    assert "1064" in unended.message
    assert lint("") == lint("-- nothing") == []


def test_types_are_compared_as_the_file_leaves_them() -> None:
    """By majority; if no type is the usual one, at each column."""

    def told(text: str) -> list[tuple[int, str]]:
        return [(each.line, each.table) for each in lint(text) if each.rule == "type_pedantic"]

    tables = """CREATE TABLE a (id bigint PRIMARY KEY, code varchar(9), KEY (code));
    CREATE TABLE b (id bigint PRIMARY KEY, code varchar(9));
    CREATE TABLE c (id bigint PRIMARY KEY, code varchar(20));
    """
    assert told(tables) == [(3, "c")]
    assert told(f"{tables} ALTER TABLE c MODIFY code varchar(9)") == []
    assert told(f"{tables} ALTER TABLE c RENAME COLUMN code TO word") == []
    assert told(f"{tables} ALTER TABLE c DROP COLUMN code, ADD word int") == []
    assert told(f"{tables} DROP TABLE c") == []
    assert told(f"{tables} DROP TABLE b") == [(1, "a"), (3, "c")]
    assert told(f"{tables} ALTER TABLE b MODIFY code varchar(9) COLLATE utf8mb4_general_ci") == [
        *((1, "a"), (3, "c"), (4, "b")),
    ]
    assert told(f"{tables} ALTER TABLE c RENAME TO d; ALTER TABLE d DROP COLUMN code") == []
    plural = "CREATE TABLE users (id bigint PRIMARY KEY);\nCREATE TABLE x (user_id int)"
    assert told(plural) == [(2, "x")]
