r"""The modes of sql_mode that change what a text says: NO_BACKSLASH_ESCAPES, PIPES_AS_CONCAT,
HIGH_NOT_PRECEDENCE. Wherever a text comes in; what is stored keeps its meaning in every mode.

ANSI_QUOTES: test_ansi_quotes.py. MySQL 8.0 manual, "Server SQL Modes"; answers are MySQL's.
"""

from dataclasses import replace

import pytest

from exuvia import dbapi
from exuvia.server.statements import in_turn, split
from exuvia.sql.parse.sql_mode import Grammar, grammar_of, written_out
from support.world import error, rows, run


@pytest.fixture
def table(session):
    run(session, "CREATE TABLE t (id INT PRIMARY KEY, a INT, c VARCHAR(20))")
    run(session, r"INSERT INTO t VALUES (1, 1, 'a\\b'), (2, 0, 'a%'), (3, NULL, 'ab')")
    return session


def mode(session, name):
    run(session, f"SET sql_mode = '{name}'" if name else "SET sql_mode = DEFAULT")


# -- NO_BACKSLASH_ESCAPES --------------------------------------------------------------------------


def test_a_backslash_ends_no_string_that_was_quoted_for_this_mode(table):
    mode(table, "NO_BACKSLASH_ESCAPES")
    name = "\\' OR 1=1 -- ".replace("'", "''")  # as such a client escapes
    assert rows(table, f"SELECT id FROM t WHERE c = '{name}'") == []
    assert rows(
        table,
        r"SELECT '\', LENGTH('\n'), 'it''s', "
        '"x\\"',
    ) == [["\\", 2, "it's", "x\\"]]


@pytest.mark.parametrize("times", range(2))
def test_one_text_in_two_modes_has_two_meanings(table, times):
    text = r"SELECT id, '\\' FROM t WHERE c = 'a\\b'"
    for _ in range(times + 1):
        mode(table, "")
        assert rows(table, text) == [[1, "\\"]]
        mode(table, "NO_BACKSLASH_ESCAPES")
        assert rows(table, text) == []
        assert rows(table, r"SELECT id FROM t WHERE c = 'a\b'") == [[1]]


@pytest.mark.parametrize(
    ("condition", "matches"),
    [
        (r"c LIKE 'a\b'", [1]),
        (r"c LIKE 'a\%'", [1]),
        (r"c NOT LIKE 'a\%'", [2, 3]),
        (r"NOT c LIKE 'a\_'", [2, 3]),
        (r"c LIKE 'a!%' ESCAPE '!'", [2]),
        (r"c LIKE 'a\%' ESCAPE '\'", [2]),
        (r"c LIKE c AND c LIKE '%\%'", [1]),
        (r"c LIKE CONCAT('a', '\%')", [1]),
        (r"(SELECT MAX(c LIKE 'a\%') FROM t) AND id = 2", [2]),
    ],
)
def test_like_has_no_escape_character(table, condition, matches):
    mode(table, "NO_BACKSLASH_ESCAPES")
    text = f"SELECT id FROM t WHERE {condition} ORDER BY id"
    grouped = f"SELECT MAX(id) FROM t WHERE {condition} GROUP BY id ORDER BY 1"  # by DuckDB
    assert [row[0] for row in rows(table, text)] == matches
    assert [row[0] for row in rows(table, grouped)] == matches


def test_prepared_texts(table):
    mode(table, "NO_BACKSLASH_ESCAPES")
    run(table, r"PREPARE s FROM 'SELECT id, ''\'' FROM t WHERE c LIKE ? OR c = ''a\b'''")
    kept = table.prepare(r"SELECT id FROM t WHERE c = 'a\b' AND a = ?")
    run(table, r"SET @p = 'a\%'")
    assert rows(table, "EXECUTE s USING @p") == [[1, "\\"]]
    assert rows(table, r"SELECT id FROM t WHERE c LIKE ?", ["a\\%"]) == [[1]]
    mode(table, "")  # what was prepared keeps its meaning
    assert rows(table, "EXECUTE s USING @p") == [[1, "\\"]]
    assert table.execute_prepared(kept, [1]).rows == [[1]]
    assert rows(table, r"SELECT id FROM t WHERE c LIKE ?", ["a\\%"]) == [[2]]


def test_what_is_stored_keeps_its_meaning(table):
    mode(table, "NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT,HIGH_NOT_PRECEDENCE")
    run(
        table,
        r"CREATE VIEW v AS SELECT id, c LIKE 'a\%', '\'||c AS d, NOT a BETWEEN 0 AND 0 AS n"
        r" FROM t WHERE c NOT LIKE '\'||'_'",
    )
    run(
        table,
        r"CREATE TABLE g (c VARCHAR(9), l INT AS (c LIKE 'a\%'), j VARCHAR(9) AS (c||'\'),"
        r" d VARCHAR(9) DEFAULT '\', n INT, CHECK (c NOT LIKE 'x\%'),"
        r" CHECK (NOT n BETWEEN 0 AND 0), UNIQUE u (j) WHERE d = '\')",
    )
    run(table, r"INSERT INTO g (c, n) VALUES ('a\x', 5)")
    for each in ("", "NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT,HIGH_NOT_PRECEDENCE"):
        mode(table, each)
        assert rows(table, "SELECT * FROM v ORDER BY id") == [
            [1, 1, "\\a\\b", 1],
            [2, 0, "\\a%", 0],
            [3, 0, "\\ab", None],
        ]
        assert rows(table, "SELECT l, j, d FROM g") == [[1, "a\\x\\", "\\"]]
        assert error(table, "INSERT INTO g (c, n) VALUES ('b', 0)") == (3819, "HY000")
        assert (
            error(table, "INSERT INTO g (c, n) VALUES (CONCAT('x', CHAR(92), 'y'), 1)")[0] == 3819
        )
        assert (
            error(table, "INSERT INTO g (c, n) VALUES (CONCAT('a', CHAR(92), 'x'), 1)")[0] == 1062
        )
    shown = rows(table, "SHOW CREATE VIEW v")[0][1] + rows(table, "SHOW CREATE TABLE g")[0][1]
    assert "\x02" not in shown and "||" not in shown.replace("`", "")


def test_files(table, tmp_path, client):
    held, client.services = (
        client.services,
        replace(client.services, secure_file_priv=str(tmp_path)),
    )
    table.services = client.services
    try:
        mode(table, "NO_BACKSLASH_ESCAPES")
        run(table, f"SELECT c, NULL FROM t WHERE id = 1 INTO OUTFILE '{tmp_path}/a'")
        run(
            table,
            f"SELECT c FROM t WHERE id = 1 INTO OUTFILE '{tmp_path}/b'"
            r" FIELDS ESCAPED BY '\'",
        )
        assert (tmp_path / "a").read_bytes() == b"a\\b\tNULL\n"
        assert (tmp_path / "b").read_bytes() == b"a\\\\b\n"
        run(table, "CREATE TABLE l (c VARCHAR(9))")
        (tmp_path / "c").write_bytes(b"a\\tb\n")
        run(table, f"LOAD DATA INFILE '{tmp_path}/c' INTO TABLE l")
        assert rows(table, "SELECT c FROM l") == [["a\\tb"]]
        mode(table, "")
        run(table, f"LOAD DATA INFILE '{tmp_path}/c' INTO TABLE l")
        assert sorted(rows(table, "SELECT c FROM l")) == [["a\tb"], ["a\\tb"]]
    finally:
        client.services = held


class _Modes:
    plain_quotes = ""


def test_where_a_statement_ends():
    assert split(r"SELECT '\'; SELECT 1", "'\"") == [r"SELECT '\'", " SELECT 1"]
    assert split(r"SELECT '\'; SELECT 1'") == [r"SELECT '\'; SELECT 1'"]
    settings, seen = _Modes(), []
    for piece, is_last in in_turn(r"SET x; SELECT '\'; SELECT '\';", settings):
        settings.plain_quotes = "'\""
        seen.append((piece.strip(), is_last))
    assert seen == [("SET x", False), (r"SELECT '\'", False), (r"SELECT '\'", True)]


def test_the_embedded_door(tmp_path):
    with dbapi.connect(f"lmdb://{tmp_path}/s") as connection, connection.cursor() as cursor:
        cursor.execute(r"SELECT '\\', %s", [1])
        assert cursor.fetchall() == [("\\", 1)]
        cursor.execute(r"SET sql_mode = 'NO_BACKSLASH_ESCAPES'; SELECT '\', ';'")
        assert cursor.nextset() and cursor.fetchall() == [("\\", ";")]
        cursor.execute(r"SELECT '\\', %s", [1])
        assert cursor.fetchall() == [("\\\\", 1)]


# -- PIPES_AS_CONCAT -------------------------------------------------------------------------------

PIPED = [
    ("'a'||'b'", "ab"),
    ("1+2||3", 24.0),
    ("1||2^3", 15),
    ("2*1||0", 20.0),
    ("-1||2", "-12"),
    ("NULL||'a'", None),
    ("'a'||NULL||'b'", None),
    ("'a'||'b' = 'ab'", 1),
    ("'b' LIKE 'a'||'%' OR 0", 0),
    ("'ab' LIKE 'a'||'%'", 1),
    ("'a' COLLATE utf8mb4_bin||'b'", "ab"),
    ("0 || 0 OR 0", 0),
    ("(SELECT 'x'||1)||'y'", "x1y"),
    ("1 || 0 XOR 10", 0),
]


@pytest.mark.parametrize(("expression", "answer"), PIPED)
def test_concatenation(table, expression, answer):
    text = f"SELECT {expression} FROM t WHERE id = 1"
    mode(table, "PIPES_AS_CONCAT")
    assert rows(table, text) == [[answer]]
    assert rows(table, f"SELECT MAX({expression}) FROM t GROUP BY id LIMIT 1") == [[answer]]
    mode(table, "")
    assert rows(table, "SELECT 0||1||'x', NULL||1") == [[1, 1]]


def test_concatenation_in_kept_and_prepared_plans(table):
    text = "SELECT id FROM t WHERE id||id = ?"
    for name, found in (
        ("PIPES_AS_CONCAT", [[1]]),
        ("", [[1], [2], [3]]),
        ("PIPES_AS_CONCAT", [[1]]),
    ):
        mode(table, name)
        assert rows(table, "SELECT id FROM t WHERE id||id = 11") == found
        assert rows(table, text, [11]) == found
        run(table, "SET @v = 'SELECT id FROM t WHERE id||id = 11'")
        run(table, "PREPARE s FROM @v")
        assert rows(table, "EXECUTE s") == found


VIEWED = [
    "c||'x'||-a",
    "UPPER(c)||(a||'z')",
    "CASE WHEN a||'' = '1' THEN 1 END||'q'",
    "a+1||2",
    "_utf8mb4'x'||DATE'2020-01-01'",
    "t.c COLLATE utf8mb4_bin||t.c",
    "(SELECT MAX(a)||'' FROM t)||id",
    "COUNT(*) OVER () || 'n'",
    "LEFT(c,1)||RIGHT(c,1)",
    "-a||-id",
    "c||'' <> '' AND 'x'||c IN ('xab')",
    "a BETWEEN 0||'1' AND '3'||4",
    "(SELECT GROUP_CONCAT(u.c||'' SEPARATOR '|') FROM t u)",
]


@pytest.mark.parametrize("expression", VIEWED)
def test_a_view_says_concat(table, expression):
    mode(table, "PIPES_AS_CONCAT")
    expected = rows(table, f"SELECT {expression} FROM t ORDER BY id")
    run(table, f"CREATE VIEW v AS SELECT {expression} FROM t ORDER BY id")
    assert table.execute("SELECT * FROM v").columns[0].name == expression
    mode(table, "")
    assert rows(table, "SELECT * FROM v") == expected
    assert "\x02" not in rows(table, "SHOW CREATE VIEW v")[0][1]


def test_views_keep_every_kind_of_text(session):
    items = "DATE'2020-01-01' a, TIME '10:00:00' b, {ts '2020-01-01 00:00:00'} c, {d'2020-01-01'} d"
    items += ", 'a' 'b' \"c\" e, 'x|%' LIKE 'x||%' ESCAPE '|' f, JSON_OBJECT('k', 'v')->>'$.k' g"
    items += ", _latin1'x' h, (SELECT GROUP_CONCAT('x' SEPARATOR ';') FROM dual) i"
    run(session, f"CREATE VIEW v AS SELECT {items}")
    assert rows(session, "SELECT * FROM v") == rows(session, f"SELECT {items}")
    assert rows(session, "SELECT e, f FROM v") == [["abc", 1]]


# -- HIGH_NOT_PRECEDENCE ---------------------------------------------------------------------------


def test_not_binds_closely(table):
    text = "SELECT NOT 1 BETWEEN -5 AND 5, not a + 1, a IS NOT NULL, a NOT IN (7)"
    text += ", c NOT LIKE 'x', a NOT BETWEEN 3 AND 4, NOT EXISTS (SELECT 1), NOT(1) + 1"
    text += " FROM t WHERE id = 1"
    mode(table, "HIGH_NOT_PRECEDENCE")
    assert rows(table, text) == [[1, 1, 1, 1, 1, 1, 0, 1]]
    run(table, "CREATE TABLE IF NOT EXISTS n (a INT NOT NULL)")
    assert error(table, "INSERT INTO n VALUES (NULL)")[0] == 1048
    mode(table, "")
    assert rows(table, text) == [[0, 0, 1, 1, 1, 1, 0, 0]]


# -- both ------------------------------------------------------------------------------------------


def test_errors_and_names_show_what_was_written(table):
    mode(table, "PIPES_AS_CONCAT,HIGH_NOT_PRECEDENCE,NO_BACKSLASH_ESCAPES")
    answer = table.execute("SELECT 'a' || 'b', not 1, 'a' like 'b'")
    assert [column.name for column in answer.columns] == ["'a' || 'b'", "not 1", "'a' like 'b'"]
    with pytest.raises(Exception, match="near \"|| 'c'\"".replace("|", r"\|")):
        table.execute("SELECT 'a' || || 'c'")


def test_combinations():
    assert grammar_of("STRICT_TRANS_TABLES") is None
    assert grammar_of("ANSI_QUOTES,PIPES_AS_CONCAT") == Grammar(True, False, True, False, False)
    assert written_out("SELECT 1") == "SELECT 1"
    ansi = Grammar(True, False, False, False, False)
    assert ansi.canonical('SELECT "a\\", \'"\\\'"\'') == "SELECT `a\\`, '\"\\'\"'"
