"""A kept plan answers as a fresh one, whatever its session, its literals and its variables are."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from itertools import count, product
from typing import Any, cast

import pytest
from sqlglot import exp

from exuvia.base.errors import Refused
from exuvia.sql.bind.bind import bind
from exuvia.sql.bind.binding import PLAN_BASELINES, Binding, FactNames, Surroundings
from exuvia.sql.bind.calls import SPECIAL, UNIT_CALLS
from exuvia.sql.bind.scope import Scope
from exuvia.sql.expr import Expr
from exuvia.sql.functions import FUNCTIONS
from exuvia.sql.nodes import Update
from exuvia.sql.parse.literals import deciding_a_type, read_literal, shape_of
from exuvia.sql.privileges.rights import OnDatabase, Rights
from exuvia.sql.select import stream
from exuvia.sql.select.read import ReadRows
from exuvia.sql.session.session import Session
from exuvia.sql.statement.context import Context
from exuvia.sql.statement.plan_cache import PlanCache, StatementShape
from support.world import World, error, rows, run

NUMBERS = ("0.25", "0.5", "0.12345", "1.50", "12345678901.5")
_names = count(1)


@pytest.fixture
def client(session: Session) -> Session:
    """A session whose plans are its own."""
    session.services = replace(session.services, plans=PlanCache())
    return session


def plans_of(session: Session) -> int:
    """How many plans are kept."""
    return len(session.services.plans)


# -- literals and parameters -----------------------------------------------------------------------

Run = Callable[[Session, str, Any], None]


def by_text(session: Session, text: str, number: str) -> None:
    run(session, text.replace("?", number))


def by_execute(session: Session, text: str, number: str) -> None:
    run(session, f"PREPARE s FROM '{text}'")
    run(session, f"SET @v = {number}")
    run(session, "EXECUTE s USING " + ", ".join(["@v"] * text.count("?")))


def by_protocol(session: Session, text: str, number: str) -> None:
    prepared = session.prepare(text)
    value = int(number) if number.isdigit() else Decimal(number)
    session.execute_prepared(prepared, [value] * prepared.parameters)


WAYS = {"text": by_text, "execute": by_execute, "protocol": by_protocol}
TARGETS = ("varchar(20)", "text", "varbinary(20)")
WRITES = (
    "INSERT INTO t (a) VALUES (?)",
    "REPLACE INTO t (a) VALUES (?)",
    "INSERT INTO t (id, a) VALUES (1, 0) ON DUPLICATE KEY UPDATE a = ?",
    "UPDATE t SET a = ?",
    "INSERT INTO t (a) VALUES (CONCAT(?))",
    "UPDATE t SET a = CONCAT(?)",
    "UPDATE t SET a = IF(id > 0, ?, 0)",
)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
@pytest.mark.parametrize("write", WRITES)
def test_a_decimal_keeps_its_own_digits(client: Session, write: str, way: Run) -> None:
    for target in TARGETS:
        run(client, f"CREATE TABLE t (id int AUTO_INCREMENT PRIMARY KEY, a {target})")
        for number in NUMBERS:
            run(client, "DELETE FROM t")
            if not write.startswith(("INSERT INTO t (a)", "REPLACE")):
                run(client, "INSERT INTO t (id, a) VALUES (1, 'x')")
            way(client, write, number)
            (text,) = rows(client, "SELECT CONVERT(a, CHAR) FROM t")[0]
            assert text == number, target
        run(client, "DROP TABLE t")


def test_rows_of_one_insert_keep_their_own_digits(client: Session) -> None:
    run(client, "CREATE TABLE t (id int AUTO_INCREMENT PRIMARY KEY, a text)")
    for some in (("0.25", "0.5"), ("0.123", "0.12345"), ("1.50", "-7.125")):
        run(client, "DELETE FROM t")
        run(client, f"INSERT INTO t (a) VALUES ({some[0]}), ({some[1]})")
        assert rows(client, "SELECT a FROM t ORDER BY id") == [[some[0]], [some[1]]]


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
def test_a_decimal_is_compared_with_all_its_digits(client: Session, way: Run) -> None:
    run(client, "CREATE TABLE t (id int PRIMARY KEY, a varchar(20), d decimal(20, 5))")
    for place, number in enumerate(NUMBERS):
        run(client, f"INSERT INTO t VALUES ({place}, '{number}', {number})")
    for condition in ("a = CONCAT(?)", "d = ?", "d + ? = d * 2", "CONCAT(?) = a", "d = ? / 2 * 2"):
        for place, number in enumerate(NUMBERS):
            way(client, f"DELETE FROM t WHERE {condition}", number)
            assert place not in [row[0] for row in rows(client, "SELECT id FROM t")], condition
            run(client, f"INSERT INTO t VALUES ({place}, '{number}', {number})")


def test_a_lost_digit_is_warned_of(client: Session) -> None:
    run(client, "CREATE TABLE t (id int AUTO_INCREMENT PRIMARY KEY, d decimal(5, 2))")
    for number, lost in (("1.25", 0), ("1.255", 1), ("1.5", 0), ("1.2501", 1)):
        run(client, f"INSERT INTO t (d) VALUES ({number})")
        assert len(client.warnings) == lost, number


def test_prices_share_a_plan(client: Session) -> None:
    run(client, "CREATE TABLE t (id int AUTO_INCREMENT PRIMARY KEY, d decimal(10, 2), v text)")
    before = plans_of(client)
    for number in range(1, 2000, 7):
        price = f"{number / 100:.2f}"
        run(client, f"INSERT INTO t (d) VALUES ({price})")
        run(client, f"INSERT INTO t (v) VALUES ({price})")
        run(client, f"UPDATE t SET d = d + {price} WHERE id = {number}")
        run(client, f"DELETE FROM t WHERE d = {price} AND id = -1")
    assert plans_of(client) - before <= 4


def test_texts_of_any_length_share_a_plan(client: Session) -> None:
    run(client, "CREATE TABLE t (id int AUTO_INCREMENT PRIMARY KEY, v varchar(200))")
    before = plans_of(client)
    for length in range(1, 100):
        text = "x" * length
        run(client, f"INSERT INTO t (v) VALUES ('{text}')")
        run(client, f"UPDATE t SET v = CONCAT('{text}', v) WHERE id = -{length}")
        assert len(rows(client, f"SELECT id FROM t WHERE v IN ('{text}', 'y{text}')")) == 1
    assert plans_of(client) - before <= 3


EXPRESSIONS = (
    *("STR_TO_DATE('00/00/2024', '%m/%d/%Y')", "WEEK('2024-01-01')", "0.25 / 3", "5 DIV 2"),
    *("UNIX_TIMESTAMP('2024-01-01 00:00:00.25')", "TIMESTAMP('2024-01-01')", "'a' = 'A'"),
    *("CAST('2024-01-01 00:00:00+02:00' AS DATETIME)", "CONCAT('a' = 'A', 1.50)"),
    *("ROUND(1.255, 2)", "FORMAT(1234.5, 2)", "IF(1, 1.50, 2)", "GREATEST(1.5, 1.25)"),
    *("CASE WHEN 1 THEN 1.5 ELSE 1 END", "CEIL(1.5)", "FLOOR(123456789012.5)", "MOD(7.25, 2)"),
    *("-0.25", "1.5 IN (1.50, 2)", "JSON_ARRAY(1.50, 'a', 1)"),
    *("ADDTIME('10:00:00', '01:00:00.5')", "TIMEDIFF('10:00:00', '09:00:00.25')"),
    *(
        "LPAD(1.5, 6, '0')",
        "TRUNCATE(1.999, 1)",
        "1.10 * 2.20",
        "ELT(1, 1.50)",
        "CAST(1.50 AS JSON)",
    ),
    *("STRCMP('a', 'A')", "FIELD('a', 'A', 'b')", "MAKETIME(1, 2, 3.25)", "SEC_TO_TIME(1.25)"),
    *("DATE_ADD('2024-01-01', INTERVAL 1.5 SECOND)", "DATE_ADD('2024-01-01', INTERVAL 1 DAY)"),
    *("MICROSECOND('10:00:00.25')", "EXTRACT(SECOND FROM '10:00:01.5')", "HEX(1.5)", "MD5(1.50)"),
    *("EXTRACT(DAY_SECOND FROM '2024-01-02 10:00:01')", "CAST(20240101.5 AS DATETIME)", "~1.5"),
    *(
        "TIMESTAMPDIFF(SECOND, '10:00:00', '11:00:00')",
        "TIME('10:00:00.5')",
        "SUBTIME('1:0:0', '0:0:1')",
    ),
)


@pytest.mark.parametrize(
    "setting", ["sql_mode = ''", "sql_mode = '', collation_connection = utf8mb4_general_ci"]
)
def test_a_literal_means_the_same_in_a_kept_plan_and_in_a_parameter(
    client: Session, setting: str
) -> None:
    """Comments keep a text from having a shape."""
    run(client, "CREATE TABLE f (id int PRIMARY KEY, s varchar(60))")
    run(client, "INSERT INTO f VALUES (1, '')")
    run(client, f"SET {setting}")
    for expression in EXPRESSIONS:
        seen = []
        shaped = shape_of(f"SELECT {expression}")
        assert shaped is not None
        asked, values, _ = shaped
        prepared = client.prepare(f"UPDATE f SET s = {asked.removeprefix('SELECT ')}")
        for way in (
            (f"UPDATE f SET s = {expression}",) * 2,
            (f"UPDATE f SET s = {expression} /* */",),
            (),
        ):
            run(client, "UPDATE f SET s = '?'")
            for text in way:
                run(client, text)
            if not way:
                client.execute_prepared(prepared, values)
            notes = [note.code for note in client.warnings]
            seen.append((rows(client, "SELECT s FROM f"), notes))
        assert seen[0] == seen[1] == seen[2], expression


# -- variables -------------------------------------------------------------------------------------

VALUES = (
    "2",
    "'2abc'",
    "2.75",
    "NULL",
    "x'32'",
    "2e0",
    "'2'",
    "'abc'",
    "-7",
    "18446744073709551615",
)
QUERIES = (
    "SELECT id FROM w {0} WHERE @v = id",
    "SELECT id FROM w {0} WHERE id = @v",
    "SELECT id FROM w {0} WHERE a < @v",
    "SELECT @v + id FROM w {0} WHERE id < 9",
    "SELECT @v, id FROM w {0} WHERE id = 1",
    "SELECT id, CONCAT(@v) FROM w {0}",
    "SELECT IFNULL(@v, id) FROM w {0}",
    "SELECT id FROM w {0} WHERE id IN (@v, 3)",
    "SELECT id - @v FROM w {0}",
    "SELECT id FROM w {0} WHERE JSON_ARRAY(@v) = JSON_ARRAY(2)",
)


def answer(session: Session, text: str) -> object:
    """Rows, types and warnings, or the error."""
    try:
        result = session.execute(text)
    except Exception as raised:
        return getattr(raised, "code", raised)
    assert not isinstance(result, list)
    notes = [(note.code, note.message) for note in session.warnings]
    kinds = [(column.type, column.name) for column in result.columns]
    return [list(row) for row in result.rows], kinds, notes


@pytest.fixture
def words(client: Session) -> Session:
    run(client, "CREATE TABLE w (id int PRIMARY KEY, a varchar(9))")
    run(client, "INSERT INTO w VALUES (1, '1'), (2, '2abc'), (3, '3')")
    return client


def fresh(session: Session, text: str) -> object:
    """The answer by a plan that nobody has made before."""
    kept = session.services
    session.services = replace(kept, plans=PlanCache())
    try:
        return answer(session, text)
    finally:
        session.services = kept


def as_written(session: Session, text: str) -> object:
    """The answer by a plan of this text: a comment keeps it from having a shape."""
    return answer(session, text.replace(" ", " /* */ ", 1))


@pytest.mark.parametrize("text", QUERIES)
def test_a_user_variable_is_of_the_type_it_has_now(words: Session, text: str) -> None:
    text = text.format("")
    for first in VALUES:
        for value in (first, *VALUES[:5]):
            run(words, f"SET @v = {value}")
            assert answer(words, text) == fresh(words, text), value


def test_a_user_variable_found_by_its_new_type(words: Session) -> None:
    run(words, "SET @v = 2")
    assert rows(words, "SELECT id FROM w WHERE @v = id") == [[2]]
    run(words, "SET @v = '2abc'")
    assert rows(words, "SELECT id FROM w WHERE @v = id") == [[2]]
    run(words, "SET @v = 2.75")
    assert rows(words, "SELECT @v + id FROM w WHERE id = 1") == [[Decimal("3.75")]]
    run(words, "SET @v = NULL")
    assert rows(words, "SELECT id FROM w WHERE @v = id") == []


@pytest.mark.parametrize(
    "write",
    [
        "INSERT INTO {0} (a) VALUES (@v)",
        "INSERT INTO {0} (id, a) VALUES (1, 'x') ON DUPLICATE KEY UPDATE a = @v",
        "UPDATE {0} SET a = @v",
        "UPDATE {0} SET a = CONCAT(@v, id)",
    ],
)
def test_a_user_variable_is_written_by_the_type_it_has_now(client: Session, write: str) -> None:
    for name in ("kept", "new"):
        run(client, f"CREATE TABLE {name} (id int AUTO_INCREMENT PRIMARY KEY, a varchar(30))")
    for value in (*VALUES, "2.750", "DATE'2024-01-02'", *VALUES[:3]):
        for name in ("kept", "new"):
            run(client, f"TRUNCATE TABLE {name}")
            run(client, f"INSERT INTO {name} VALUES (1, 'x')")
        run(client, f"SET @v = {value}")
        assert answer(client, write.format("kept")) == fresh(client, write.format("new")), value
        kept = rows(client, "SELECT * FROM kept ORDER BY id")
        assert kept == rows(client, "SELECT * FROM new ORDER BY id"), value


def test_a_system_variable_is_of_the_sign_it_has_now(words: Session) -> None:
    run(words, "SET sql_select_limit = 18446744073709551615")
    text = "SELECT @@sql_select_limit - id FROM w WHERE id = 1"
    assert answer(words, text) == fresh(words, text)
    run(words, "SET sql_select_limit = 5")
    assert answer(words, text) == fresh(words, text)
    assert rows(words, text) == [[4]]
    run(words, "SET sql_select_limit = 18446744073709551615")
    assert answer(words, text) == fresh(words, text)


def test_a_global_variable_is_of_the_length_it_has_now(words: Session) -> None:
    text = "SELECT @@global.max_connections, id FROM w WHERE id = 1"
    before = rows(words, "SELECT @@global.max_connections")[0][0]
    try:
        for value in (7, 1000, 7):
            run(words, f"SET GLOBAL max_connections = {value}")
            assert answer(words, text) == fresh(words, text)
            assert rows(words, text) == [[value, 1]]
    finally:
        run(words, f"SET GLOBAL max_connections = {before}")


def test_a_variables_length_is_no_fact(words: Session) -> None:
    texts = ("SELECT id FROM w WHERE a = @v", "SELECT id FROM w WHERE a = CONCAT(@v, '')")
    texts += ("UPDATE w SET a = @v WHERE id = 99", "SELECT id FROM w WHERE id + @v = 1")
    values = [f"'{'x' * size}'" for size in range(1, 9)] + [str(10**size) for size in range(8)]
    before = plans_of(words)
    for value in values:
        run(words, f"SET @v = {value}")
        for text in texts:
            rows(words, text)
    assert plans_of(words) - before <= 2 * len(texts)
    for value in ("'a'", "'abc'", "1000000"):  # what a client is shown has its own length
        run(words, f"SET @v = {value}")
        text = "SELECT @v, CONCAT(@v, 'x') FROM w WHERE id = 1"
        assert answer(words, text) == fresh(words, text)


# -- queries of several tables ---------------------------------------------------------------------

SEVERAL = (
    "SELECT w.id, n.v FROM w JOIN n ON n.id = w.id WHERE w.a = @v",
    "SELECT w.id, n.at FROM w LEFT JOIN n ON n.id = w.id AND n.at > '2024-01-01 10:30:00'",
    "SELECT MAX(n.at), CONCAT(n.at, @v) FROM w JOIN n ON n.id = w.id GROUP BY n.id",
    "SELECT a, COUNT(*), id FROM w GROUP BY a",
    "SELECT id FROM w WHERE id IN (SELECT id FROM n WHERE v = @v) UNION SELECT @v",
    "SELECT (SELECT v FROM n WHERE n.id = w.id), 'a' || w.a FROM w",
    "SELECT w.id, n.v / 3 FROM w, n WHERE n.id = w.id AND w.a = 'A'",
    "SELECT n.v - w.id - 9 FROM w JOIN n ON n.id = w.id",
    "WITH c AS (SELECT * FROM n WHERE v > @v) SELECT * FROM c JOIN w ON w.id = c.id LIMIT 2",
    "SELECT * FROM moments WHERE at > '2024-01-01 10:30:00' OR v < @v",
    "SELECT w.a, d.third, d.at FROM w JOIN twice d ON d.id = w.id AND w.a = 'A'",
)
WITHOUT_TABLE = (
    "SELECT @v, @v + 1, 7 / 3, 'a' = 'A', 5 - 7",
    "SELECT @@time_zone, @@sql_mode, @@sql_select_limit, @@global.sql_mode",
    "SELECT 'a' || 'b', UNIX_TIMESTAMP('2024-01-01 10:00:00') WHERE @v IS NOT NULL ORDER BY 1",
    "SELECT COUNT(@v), COUNT(*) HAVING COUNT(*) > 0",
    "SELECT 1 UNION SELECT @v",
    "SELECT (SELECT MAX(id) FROM w), @v",
)
STATES = (
    *("time_zone = '+05:00'", "sql_mode = 'PIPES_AS_CONCAT'", "sql_mode = ''"),
    *("div_precision_increment = 8", "collation_connection = utf8mb4_general_ci"),
    *("@v = '2abc'", "@v = 2", "@v = 1.75", "@v = NULL", "@v = DATE'2024-01-02'"),
    "sql_select_limit = 1",
)


@pytest.fixture
def several(words: Session) -> Session:
    run(words, "CREATE TABLE n (id int PRIMARY KEY, v bigint unsigned, at timestamp)")
    run(words, "INSERT INTO n VALUES (1, 2, '2024-01-01 10:00:00'), (2, 3, '2024-01-01 11:00:00')")
    run(words, "CREATE VIEW moments AS SELECT id, v, v / 3 AS third, at, v - 9 < 0 AS low FROM n")
    run(
        words,
        "CREATE VIEW twice AS SELECT id, MAX(third) AS third, MAX(at) AS at FROM moments"
        " WHERE at > '2024-01-01' GROUP BY id",
    )
    return words


@pytest.mark.parametrize("text", (*SEVERAL, *WITHOUT_TABLE))
def test_a_kept_query_answers_as_the_session_is_now(several: Session, text: str) -> None:
    for state in STATES:
        answer(several, text)
        run(several, f"SET {state}")
        for _ in range(2):  # the first one finds which literals stay in the shape
            assert answer(several, text) == as_written(several, text), state
        before = plans_of(several)
        assert answer(several, text) == as_written(several, text), state
        assert plans_of(several) == before, state


def test_a_query_without_a_table_is_of_its_session() -> None:
    texts = (
        "SELECT CURRENT_USER(), USER(), DATABASE(), SCHEMA(), CONNECTION_ID(), CURRENT_ROLE()",
        "SELECT LAST_INSERT_ID(), @@last_insert_id, @@autocommit, @@warning_count, @own",
        "SELECT ROW_COUNT()",
        "SELECT FOUND_ROWS()",
        "SELECT RAND(3), NOW() = SYSDATE() IS NULL, VERSION()",
    )
    with World() as world:
        sessions = [world.session("test"), world.session("mysql")]
        run(sessions[0], "CREATE TABLE ids (id int AUTO_INCREMENT PRIMARY KEY)")
        sessions[1].user = "another"
        for number, session in enumerate(sessions * 2):
            run(session, f"SET @own = {number}")
            run(session, "INSERT INTO test.ids VALUES (NULL)")
            for text in texts:
                found = []
                for ask in (answer, as_written, fresh):
                    run(session, "SELECT id FROM test.ids")
                    if "ROW_COUNT" in text:
                        run(session, "INSERT INTO test.ids VALUES (NULL), (NULL)")
                    found.append(ask(session, text))
                assert found[0] == found[1] == found[2], text


def test_a_query_without_a_table_has_its_effect_once_a_run() -> None:
    with World() as world:
        session = world.session("test")
        run(session, "SET @n = 0")
        for n in range(1, 4):
            assert rows(session, "SELECT @n := @n + 1, LENGTH(REPEAT('a', 100000))") == [
                [n, 100000]
            ]
        assert rows(session, "SELECT GET_LOCK('one', 0), RELEASE_LOCK('one')") == [[1, 1]]
        run(session, "SET tidb_mem_quota_query = 200000")
        assert answer(session, "SELECT @n := @n + 1, REPEAT('a', 900000)") == 8175
        assert rows(session, "SELECT @n") == [[4]]
        schemas = "SELECT @n := @n + 1 FROM information_schema.schemata"
        assert rows(session, schemas)[0] == [5]


def test_a_variable_that_its_statement_gives_another_type(words: Session) -> None:
    """It has the type that it had before; an exact number keeps its digits."""
    for source in ("", " FROM w WHERE id = 1", " FROM w JOIN w AS x USING (id) WHERE id = 1"):
        for before, text, expected in (
            ("'2abc'", "SELECT @v := @v + 1, CONCAT(@v, 'x'), LENGTH(@v)", [3.0, "3x", 1]),
            ("5", "SELECT @v := 'abc', @v + 1", ["abc", 1]),
            ("0", "SELECT @v := @v + 10.25, @v + 0.5", [Decimal("10.25"), Decimal("10.75")]),
            ("0", "SELECT @v := 1.5e0, @v + 1.25", [1.5, Decimal("2.75")]),
            ("1.5e0", "SELECT @v := 2.25, @v * 2", [Decimal("2.25"), 4.5]),
            ("1.5", "SELECT @v := 2.5e0, @v + 1.5", [2.5, Decimal("4.0")]),
            ("'a'", "SELECT @v := DATE'2024-01-02', CONCAT(@v, '')", [None, "2024-01-02"]),
            ("NULL", "SELECT @v := 5, CONCAT(@v, 'x'), @v + 1", [5, "5x", 6.0]),
        ):
            run(words, f"SET @v = {before}")
            (found,) = rows(words, text + source)
            assert found[1:] == expected[1:], text
            assert expected[0] is None or found[0] == expected[0], text


@pytest.mark.parametrize("most", [0, 2, 3000])
def test_variables_are_assigned_row_by_row_and_once(
    several: Session, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """Also if the row engine gives the query up, after it has assigned some."""
    monkeypatch.setattr(stream, "MOST_STEPS", most)
    run(several, "INSERT INTO n VALUES (3, 4, NOW())")
    for before, text, expected in (
        ("0", "SELECT @v := @v + n.v FROM w JOIN n USING (id)", [[2], [5], [9]]),
        (
            "''",
            "SELECT @v := CONCAT(@v, w.a) FROM w JOIN n USING (id)",
            [["1"], ["12abc"], ["12abc3"]],
        ),
    ):
        run(several, f"SET @v = {before}")
        assert rows(several, text) == expected
        assert rows(several, "SELECT @v") == [expected[-1]]
    if most == 3000:
        run(several, "SET @v = 0")
        text = "SELECT @v := @v + 1, CONCAT(@v, w.a) FROM w JOIN n USING (id) ORDER BY id DESC"
        assert rows(several, text) == [[1, "13"], [2, "22abc"], [3, "31"]]


def test_a_kept_query_means_the_tables_of_now(several: Session) -> None:
    text = "SELECT * FROM w JOIN n USING (id) WHERE w.id < 9"
    run(several, "CREATE DATABASE elsewhere")
    for change in (
        "ALTER TABLE n ADD COLUMN x int DEFAULT 7",
        "ALTER TABLE w ADD INDEX (a)",
        "ALTER TABLE n DROP COLUMN v",
        "CREATE TABLE elsewhere.w (id int PRIMARY KEY, other int)",
        "INSERT INTO elsewhere.w VALUES (1, 99)",
        "CREATE TABLE elsewhere.n LIKE n",
        "INSERT INTO elsewhere.n SELECT * FROM n",
        "USE elsewhere",
        "CREATE TEMPORARY TABLE w (id int PRIMARY KEY, z int)",
        "INSERT INTO w VALUES (2, 5)",
        "DROP TABLE w",
        "DROP TABLE w",
        "CREATE VIEW w AS SELECT 1 AS id",
        "ALTER TABLE n RENAME TO m",
    ):
        answer(several, text)
        run(several, change)
        assert answer(several, text) == fresh(several, text), change
        assert answer(several, text) == fresh(several, text), change


TWINS = (
    (
        "SELECT w.id FROM w JOIN (SELECT id, v FROM n ORDER BY 1 DESC LIMIT 1) d USING (id)",
        "SELECT w.id FROM w JOIN (SELECT id, v FROM n ORDER BY 2 LIMIT 1) d USING (id)",
    ),
    (
        "SELECT w.id, d.x FROM w JOIN (SELECT id, 7 AS x FROM n) d USING (id)",
        "SELECT w.id, d.x FROM w JOIN (SELECT id, 700 AS x FROM n) d USING (id)",
    ),
    (
        "SELECT w.id, d.`5` FROM w JOIN (SELECT id, 5 FROM n) d USING (id)",
        "SELECT w.id, d.`5` FROM w JOIN (SELECT id, 6 FROM n) d USING (id)",
    ),
    (
        "SELECT id FROM w WHERE id IN (SELECT id FROM n) UNION SELECT v FROM n ORDER BY 1 LIMIT 2",
        "SELECT id FROM w WHERE id IN (SELECT id FROM n) UNION SELECT v FROM n ORDER BY 1 LIMIT 3",
    ),
    (
        "SELECT COUNT(*) FROM w, n WHERE w.id = n.id GROUP BY 1 + n.v",
        "SELECT COUNT(*) FROM w, n WHERE w.id = n.id GROUP BY 2 + n.v",
    ),
    (
        "SELECT w.id, n.at FROM w JOIN n USING (id) WHERE n.at < '2024-01-01 10:30:00'",
        "SELECT w.id, n.at FROM w JOIN n USING (id) WHERE n.at < 'x'",
    ),
    (
        "SELECT w.id FROM w JOIN n USING (id) WHERE NOW(3) > n.at AND n.v = 2",
        "SELECT w.id FROM w JOIN n USING (id) WHERE NOW(6) > n.at AND n.v = 3",
    ),
    ("SELECT 1 FROM w JOIN n USING (id) WHERE w.id > 1.5",) * 2,
)


@pytest.mark.parametrize("twins", TWINS)
def test_kept_queries_differ_by_literals_that_are_more_than_values(
    several: Session, twins: tuple[str, str]
) -> None:
    for text in (*twins, *twins, *twins):
        assert answer(several, text) == as_written(several, text), text


def test_a_kept_query_means_the_views_of_now(several: Session) -> None:
    texts = ("SELECT * FROM w JOIN twice d USING (id) WHERE id < 9", "SELECT id FROM moments")
    for change in (
        "CREATE OR REPLACE VIEW moments AS SELECT v AS id, v, 1 AS third, at, 7 AS low FROM n",
        "CREATE OR REPLACE VIEW moments AS SELECT * FROM n",
        "CREATE OR REPLACE VIEW twice AS SELECT id, at, v FROM moments WHERE v > 2",
        "CREATE TEMPORARY TABLE n (id int PRIMARY KEY)",  # a view does not see it
        "CREATE TEMPORARY TABLE moments (id int PRIMARY KEY)",
        "DROP TABLE moments",
        "DROP TABLE n",
        "ALTER TABLE n DROP COLUMN at",
        "ALTER TABLE n ADD COLUMN at DATE DEFAULT '2024-01-02'",
        "ALTER TABLE n RENAME TO m",
        "CREATE TABLE n (id int, v int, at time)",
        "DROP VIEW twice",
        "CREATE TABLE twice (id int, x int)",
        "INSERT INTO twice VALUES (1, 1)",
        "DROP VIEW moments",
        "CREATE VIEW moments AS SELECT table_name AS id FROM information_schema.tables"
        " WHERE table_schema = 'elsewhere'",
    ):
        for text in texts:
            answer(several, text)
        run(several, change)
        for text in (*texts, *texts):
            assert answer(several, text) == fresh(several, text), change
    one, other = several, Session(several.services, 79, user="root", database=several.database)
    run(one, "CREATE OR REPLACE VIEW moments AS SELECT id, v FROM m")
    run(other, "CREATE TEMPORARY TABLE m (id int PRIMARY KEY, v int)")
    text = "SELECT id FROM moments WHERE v > 0"
    assert answer(one, text) == answer(one, text) == answer(other, text) == fresh(other, text)
    other.close()


FOUND_WRITES = (
    "UPDATE w JOIN n ON n.id = w.id SET w.a = n.v + {0} WHERE n.id < {1}",
    "UPDATE w JOIN n ON n.id = w.id SET w.a = {0}, n.v = {1} WHERE n.v > @v OR w.id = 1",
    "UPDATE w SET a = (SELECT CONCAT(MAX(v), {0}) FROM n WHERE n.id >= {1}) WHERE id = 1",
    "UPDATE w SET a = {0} WHERE id IN (SELECT id FROM n WHERE v > {1})",
    "UPDATE w SET a = {0} WHERE id IN (SELECT 1 FROM n ORDER BY 1) OR id = @v",
    "UPDATE n SET at = at, v = {1} WHERE id = (SELECT MIN(id) FROM w WHERE a = {0})",
    "UPDATE n JOIN moments m ON m.id = n.id SET n.at = m.at + INTERVAL {1} DAY",
    "UPDATE IGNORE w JOIN n ON n.id = w.id SET w.id = {1} WHERE n.id = 2",
    "DELETE FROM n WHERE id IN (SELECT id FROM w WHERE a = {0}) ORDER BY id LIMIT {1}",
    "DELETE n FROM n JOIN w ON w.id = n.id WHERE w.a = {0} OR n.v / {1} > @v",
    "DELETE n, w FROM n JOIN w ON w.id = n.id AND n.at > '2024-01-01 10:30:00' WHERE {0} = {1}",
    "UPDATE w JOIN (SELECT id, 9 - v AS v FROM n ORDER BY {1} LIMIT 1) d USING (id) SET a = d.v",
    "UPDATE n JOIN moments m ON m.id = 3 - n.id SET n.at = m.at WHERE n.v < {1} + {0}",
    "UPDATE w SET a = {1} / 3 WHERE id IN (SELECT id FROM n)",
)


@pytest.mark.parametrize("most", [0, stream.MOST_STEPS])
@pytest.mark.parametrize("text", FOUND_WRITES)
def test_a_kept_write_by_a_query_does_what_a_new_one_does(
    several: Session, text: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As twins: the same write by a kept plan, and by one that is made for it. `most`: the rows
    that the row engine reads, before it leaves the query to DuckDB."""
    monkeypatch.setattr(stream, "MOST_STEPS", most)

    def after(write: Callable[[Session, str], object], pair: tuple[str, str]) -> object:
        run(several, "BEGIN")
        outcome = write(several, text.format(*pair))
        found = [rows(several, f"SELECT * FROM {name} ORDER BY id") for name in ("w", "n")]
        run(several, "ROLLBACK")
        return outcome, found

    pairs = [("'7'", "2"), ("8", "1"), ("'x'", "3"), ("0.25", "2"), ("1.125", "2.5"), ("NULL", "1")]
    for state in (*STATES, "time_zone = '-03:00'") if most else STATES[:2]:
        for pair in pairs:
            after(answer, pair)
        run(several, f"SET {state}")
        for pair in pairs:
            assert after(answer, pair) == after(as_written, pair), (state, pair)


def test_writes_by_a_query_are_kept(several: Session) -> None:
    for text in FOUND_WRITES:
        if "ORDER BY {1}" in text:
            continue  # a position decides more than a value
        for _ in range(2):
            answer(several, text.format("'1'", 1))
        before = plans_of(several)
        for number in range(2, 6):
            answer(several, text.format("'1'", number))
        assert plans_of(several) == before, text


def test_a_kept_write_by_a_query_means_the_tables_of_now(several: Session) -> None:
    texts = (
        "UPDATE w SET a = 'k' WHERE id IN (SELECT id FROM n WHERE v > 2)",
        "UPDATE w JOIN moments m ON m.id = w.id SET w.a = m.v WHERE m.id = 1",
        "DELETE FROM w WHERE id IN (SELECT id FROM n WHERE v > 2)",
    )
    for change in (
        "ALTER TABLE w ADD INDEX (a)",
        "ALTER TABLE w ADD COLUMN x int DEFAULT 7",
        "ALTER TABLE w ADD CONSTRAINT c CHECK (a <> 'k')",
        "ALTER TABLE w DROP CONSTRAINT c",
        "ALTER TABLE w MODIFY a char(9) NOT NULL",
        "CREATE OR REPLACE VIEW moments AS SELECT id + 1 AS id, 'z' AS v FROM n",
        "CREATE TEMPORARY TABLE n (id int PRIMARY KEY, v int)",
        "INSERT INTO n VALUES (3, 3)",
        "DROP TABLE n",
        "ALTER TABLE n RENAME TO m",
        "CREATE TABLE n (id int, v int)",
        "INSERT INTO n VALUES (1, 9)",
        "ALTER TABLE w RENAME TO z",
        "CREATE VIEW w AS SELECT * FROM z",
    ):
        for text in texts:
            run(several, "BEGIN")
            answer(several, text)
            run(several, "ROLLBACK")
        run(several, change)
        for text in texts:
            found = []
            for write in (answer, fresh):
                run(several, "BEGIN")
                found.append((write(several, text), answer(several, "SELECT * FROM w ORDER BY id")))
                run(several, "ROLLBACK")
            assert found[0] == found[1], (change, text)


def test_a_query_of_views_is_kept(several: Session) -> None:
    answer(several, "SELECT * FROM twice WHERE id = 1")
    before = plans_of(several)
    for number in range(2, 9):
        answer(several, f"SELECT * FROM twice WHERE id = {number}")
    assert plans_of(several) == before


def test_a_kept_query_is_not_of_computed_rows(several: Session) -> None:
    text = "SELECT table_name FROM information_schema.tables t, w WHERE t.table_name = 'y'"
    for change in ("SET @a = 1", "CREATE TABLE y (id int)", "DROP TABLE y"):
        run(several, change)
        for _ in range(2):
            assert answer(several, text) == fresh(several, text), change


def test_the_limit_of_a_kept_query_is_that_of_now(several: Session) -> None:
    text = "SELECT w.id FROM w LEFT JOIN n USING (id) ORDER BY w.id LIMIT ?"
    prepared, before = several.prepare(text), plans_of(several)
    for most in (1, 3, 0, 2):
        expected = [[n] for n in range(1, most + 1)]
        assert rows(several, text.replace("?", str(most))) == expected
        executed = several.execute_prepared(prepared, [most])
        assert [list(row) for row in executed.rows] == expected
    assert plans_of(several) - before <= 2
    for wrong in (-1, "x", None):
        with pytest.raises(Refused) as refused:
            several.execute_prepared(prepared, [wrong])
        assert refused.value.code == 1210


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
def test_a_negative_number_beyond_bigint_is_a_decimal(client: Session, way: Run) -> None:
    run(client, "CREATE TABLE t (id int PRIMARY KEY, a varchar(30))")
    least = (1 << 63, (1 << 63) + 1, (1 << 64) - 1)
    for number in (*least, *least):
        run(client, "REPLACE INTO t VALUES (1, '')")
        way(client, "UPDATE t SET a = -?", str(number))
        assert rows(client, "SELECT a FROM t") == [[str(-number)]]
        way(client, "DELETE FROM t WHERE id < -?", str(number))
        way(client, "REPLACE INTO t VALUES (1, -?)", str(number))
        assert rows(client, "SELECT a FROM t") == [[str(-number)]]
        way(client, "DELETE FROM t WHERE id > -?", str(number))
        assert rows(client, "SELECT a FROM t") == []


def test_a_text_keeps_its_collation_in_execute(client: Session) -> None:
    run(client, "CREATE TABLE t (id int PRIMARY KEY, b varchar(9), c varchar(9))")
    run(client, "ALTER TABLE t MODIFY c varchar(9) COLLATE utf8mb4_general_ci")
    run(client, "INSERT INTO t VALUES (1, 'a', 'a'), (2, 'B', 'B')")
    for name, text in (
        ("alike", "SELECT id FROM t WHERE ? = ?"),
        ("same", "SELECT id FROM t WHERE COLLATION(?) = COLLATION(?)"),
        ("by_column", "SELECT id FROM t WHERE CONCAT(b) = ? AND ? IS NOT NULL"),
        ("united", "SELECT COUNT(*) FROM (SELECT ? AS x UNION SELECT ?) q"),
    ):
        run(client, f"PREPARE {name} FROM '{text}'")
    strong = " COLLATE utf8mb4_general_ci"
    for _ in range(2):
        run(client, "SET @a = 'b', @b = 'B'")
        assert rows(client, "EXECUTE alike USING @a, @b") == []
        assert rows(client, "EXECUTE united USING @a, @b") == [[2]]
        run(client, f"SET @a = 'b'{strong}, @b = 'B'{strong}")
        assert rows(client, "EXECUTE alike USING @a, @b") == [[1], [2]]
        assert rows(client, "EXECUTE united USING @a, @b") == [[1]]
        assert rows(client, "EXECUTE by_column USING @a, @b") == []
        run(client, "SELECT c INTO @c FROM t WHERE id = 2")
        assert rows(client, "EXECUTE alike USING @a, @c") == [[1], [2]]
        run(client, "SET @b = 'B'")
        assert rows(client, "EXECUTE same USING @a, @b") == []
        run(client, "SET @a = _latin1'b'")  # converted: it is the connection's
        assert rows(client, "EXECUTE same USING @a, @b") == [[1], [2]]


@pytest.mark.parametrize("first", [0, 1])
def test_indexed_expressions_serve_by_all_that_they_ask(client: Session, first: int) -> None:
    """Whoever was first to look: which expressions mean the same is found once for each state."""
    run(client, "CREATE TABLE t (id int PRIMARY KEY, d date, a int)")
    run(client, "ALTER TABLE t ADD INDEX w ((WEEK(d))), ADD INDEX q ((a / 3))")
    run(client, "INSERT INTO t VALUES (1, '2021-01-03', 1)")
    states = ("default_week_format = 0, div_precision_increment = 4",)
    states += ("default_week_format = 3, div_precision_increment = 8",)
    ci = "collation_connection = utf8mb4_general_ci"
    for state in (states[first], states[1 - first], states[first]):
        run(client, f"SET {ci}, {state}")
        for text in ("WEEK(d) = 1", "WEEK(d) = 53", "a / 3 = 0.3333", "a / 3 = 0.33333333"):
            told = [row[0] for row in rows(client, f"EXPLAIN SELECT id FROM t WHERE {text}")]
            assert any("Index" in line for line in told) == (state == states[0])
            hinted = f"SELECT id FROM t IGNORE INDEX (w, q) WHERE {text}"
            assert rows(client, f"SELECT id FROM t WHERE {text}") == rows(client, hinted), text


WRITTEN = ("'10:11:12.5'", "'2024-01-01 10:11:12.25'", "'%Y-%m-%d'", "3", "1.25")
NOT_OF_VALUES = UNIT_CALLS | {"nextval", "lastval", "setval"}


def test_every_function_whose_type_a_literal_decides_is_known(client: Session) -> None:
    """All others have with a parameter the type that they have with the literal."""

    def meaning(expr: Expr) -> tuple[object, ...]:
        kind = expr.type
        return kind.family, kind.unsigned, kind.Decimal, kind.Collate

    def literal(text: str) -> exp.Expression:
        is_text = text[0] == "'"
        return exp.Literal.string(text[1:-1]) if is_text else exp.Literal.number(text)

    def bound(context: Context, name: str, arguments: list[exp.Expression], keeps: bool) -> Expr:
        return bind(
            exp.Anonymous(this=name, expressions=arguments), Scope((), Binding(context, keeps))
        )

    def compare(context: Context, name: str, texts: list[str]) -> None:
        signs: list[exp.Expression] = [exp.Placeholder(this=str(n)) for n in range(len(texts))]
        written = bound(context, name, [literal(each) for each in texts], False)
        read = [read_literal(each) for each in texts]
        context.parameters = [value for value, _ in read]
        context.letters = "".join(letter for _, letter in read)
        by_parameters = bound(context, name, signs, True)
        call = signs[0].parent
        statement = Update(source=exp.Select(), assignments=((exp.Column(), call),))
        if deciding_a_type(statement, context.letters):
            return
        assert meaning(by_parameters) == meaning(written), (name, texts)
        counted.append(name)

    counted: list[str] = []

    def work(context: Context) -> None:
        for name in sorted({*FUNCTIONS, *SPECIAL} - NOT_OF_VALUES):
            for count_of in (1, 2, 3):
                for place, text in product(range(count_of), WRITTEN):
                    texts = ["2"] * count_of
                    texts[place] = text
                    try:
                        compare(context, name, texts)
                    except Refused as refused:
                        if refused.code in (1582, 1064):
                            break

    client.look(work)
    assert len(set(counted)) > 150


# -- settings --------------------------------------------------------------------------------------

SETTINGS = (
    ("sql_mode", "''", "'STRICT_TRANS_TABLES,NO_ZERO_DATE'"),
    ("time_zone", "'+05:00'", "'UTC'"),
    ("collation_connection", "utf8mb4_general_ci", "utf8mb4_bin"),
    ("default_week_format", "0", "3"),
    ("div_precision_increment", "2", "4"),
    ("sql_select_limit", "1", "18446744073709551615"),
)
ASKING = (
    "SELECT id, t, WEEK(d), s FROM f WHERE s = 'A' OR t > '2024-03-31 01:00:00' OR id / 7 > 0.1",
    "SELECT id / 7, WEEK(d), t FROM f WHERE WEEK(d) > 0",
    "SELECT id FROM f WHERE 'a' = 'A' OR s LIKE 'A%'",
    "UPDATE f SET n = 'x12', t = '2024-03-31 02:30:00', s = WEEK(d)",
    "INSERT INTO f (id, d, n) VALUES (9, '0000-00-00', 300)",
    "DELETE FROM f WHERE t = '2024-03-31 02:30:00'",
)


@pytest.mark.parametrize("name", [name for name, *_ in SETTINGS])
def test_a_setting_matters_at_every_statement(client: Session, name: str) -> None:
    (values,) = [each[1:] for each in SETTINGS if each[0] == name]
    run(
        client,
        "CREATE TABLE f (id int PRIMARY KEY, d date, t timestamp NULL, n tinyint, s varchar(20))",
    )
    for text in ASKING:
        for value in (*values, *values):
            seen = []
            for ask in (answer, fresh):
                run(client, "SET sql_mode = DEFAULT, time_zone = DEFAULT")
                run(client, "DELETE FROM f")
                run(client, "INSERT INTO f VALUES (1, '2024-01-01', '2024-03-31 02:30:00', 1, 'a')")
                run(client, f"SET {name} = {value}")
                seen.append((ask(client, text), rows(client, "SELECT * FROM f ORDER BY id")))
                run(client, f"SET {name} = DEFAULT")
            assert seen[0] == seen[1], (text, value)


# -- the database of a prepared statement ----------------------------------------------------------


@pytest.fixture
def two(client: Session) -> Iterator[tuple[Session, str, str]]:
    """A session, and two databases with a table `w` each."""
    names = [f"facts{next(_names)}" for _ in range(2)]
    for name in names:
        run(client, f"CREATE DATABASE {name}")
        run(client, f"CREATE TABLE {name}.w (id int PRIMARY KEY, a varchar(9))")
        run(client, f"INSERT INTO {name}.w VALUES (1, '{name}')")
    yield client, *names
    for name in names:
        run(client, f"DROP DATABASE {name}")


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("INSERT INTO w VALUES (2, ''x'')", "SELECT id FROM {0}.w"),
        ("UPDATE w SET a = ''x''", "SELECT a FROM {0}.w"),
        ("DELETE FROM w", "SELECT a FROM {0}.w"),
        ("REPLACE INTO w SELECT 7, a FROM w", "SELECT id, a FROM {0}.w"),
        ("CREATE TABLE x (id int)", "SHOW TABLES FROM {0}"),
        ("CREATE TABLE x AS SELECT * FROM w", "SHOW TABLES FROM {0}"),
        ("CREATE TABLE x LIKE w", "SHOW TABLES FROM {0}"),
        ("CREATE VIEW x AS SELECT * FROM w", "SHOW TABLES FROM {0}"),
        ("CREATE INDEX x ON w (a)", "SHOW INDEX FROM {0}.w"),
        ("ALTER TABLE w ADD COLUMN b int", "SHOW COLUMNS FROM {0}.w"),
        ("TRUNCATE TABLE w", "SELECT * FROM {0}.w"),
        ("RENAME TABLE w TO x", "SHOW TABLES FROM {0}"),
        ("DROP TABLE w", "SHOW TABLES FROM {0}"),
    ],
)
def test_a_prepared_statement_works_where_it_was_prepared(
    two: tuple[Session, str, str], text: str, seen: str
) -> None:
    client, first, second = two
    before = [rows(client, seen.format(name)) for name in (first, second)]
    run(client, f"USE {first}")
    run(client, f"PREPARE s FROM '{text}'")
    run(client, f"USE {second}")
    run(client, "EXECUTE s")
    assert rows(client, seen.format(first)) != before[0]
    assert rows(client, seen.format(second)) == before[1]
    assert rows(client, "SELECT DATABASE()") == [[second]]


def test_a_prepared_query_reads_where_it_was_prepared(two: tuple[Session, str, str]) -> None:
    client, first, second = two
    run(client, f"USE {first}")
    run(client, "PREPARE s FROM 'SELECT a FROM w WHERE id = ?'")
    prepared = client.prepare("SELECT a FROM w WHERE id = ?")
    run(client, "SET @one = 1")
    for name in (second, first, second):
        run(client, f"USE {name}")
        assert rows(client, "EXECUTE s USING @one") == [[first]]
        assert client.execute_prepared(prepared, [1]).rows == [[first]]
        assert rows(client, "SELECT a FROM w WHERE id = 1") == [[name]]
    run(client, f"DROP TABLE {first}.w")
    assert error(client, "EXECUTE s USING @one") == (1146, "42S02")
    assert rows(client, "SELECT DATABASE()") == [[second]]


# -- zero bytes, and warnings of hints -------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "SELECT HEX('a\0b')",
        'SELECT HEX("a\0b")',
        "SELECT HEX('a\0b') -- why",
        "SELECT HEX(N'a\0b')",
    ],
)
def test_a_zero_byte_may_stand_in_a_string(client: Session, text: str) -> None:
    assert rows(client, text) == [["610062"]]
    run(client, "CREATE TABLE t (a varchar(9) DEFAULT 'x\0')")
    run(client, "INSERT INTO t VALUES (DEFAULT), ('\0'), (\"\0\")")
    run(client, "UPDATE t SET a = '\0y' WHERE a = '\0' /* both */")
    assert rows(client, "SELECT HEX(a) FROM t") == [["7800"], ["0079"], ["0079"]]


@pytest.mark.parametrize(
    "text", ["SELECT 1 \0", "SELECT 1 AS `a\0b`", "SELECT\0 'a\0b'", "\0SELECT 1"]
)
def test_a_zero_byte_stands_nowhere_else(client: Session, text: str) -> None:
    assert error(client, text) == (1064, "42000")


def test_a_hint_warns_at_every_run(words: Session) -> None:
    for way in (
        "SELECT /*+ USE_INDEX(w, nope) */ id FROM w WHERE id = 1",
        "SELECT /*+ USE_INDEX(w, nope) */ id FROM w WHERE a = 'x'",
        "UPDATE /*+ USE_INDEX(w, nope) */ w SET a = 'x' WHERE id = 7",
        "DELETE /*+ USE_INDEX(w, nope) */ FROM w WHERE id = 7",
    ):
        for _ in range(3):
            run(words, way)
            assert [note.code for note in words.warnings] == [1176], way
    prepared = words.prepare("SELECT /*+ USE_INDEX(w, nope) */ id FROM w WHERE id = ?")
    for _ in range(3):
        words.execute_prepared(prepared, [1])
        assert [note.code for note in words.warnings] == [1176]
    run(words, "ALTER TABLE w ADD INDEX nope (a)")
    words.execute_prepared(prepared, [1])
    assert not words.warnings


@pytest.mark.parametrize(
    "hint", ["SET_VAR(nosuch=1)", "SET_VAR(sql_mode=bogus)", "USE_INDEX(w, x)"]
)
def test_warnings_of_hints_are_shown_by_every_way(words: Session, hint: str) -> None:
    text = f"SELECT /*+ {hint} */ id FROM w WHERE a = 'x'"
    run(words, f"PREPARE s FROM '{text.replace(chr(39), chr(39) * 2)}'")
    prepared = words.prepare(text)
    ways = (
        lambda: run(words, text),
        lambda: run(words, "EXECUTE s"),
        lambda: words.execute_prepared(prepared, ()),
        lambda: run(words, text, []),
    )
    for way in (*ways, *ways):
        assert len(way().warnings) == 1
        assert len(rows(words, "SHOW WARNINGS")) == 1


# -- facts are complete, and none is superfluous ---------------------------------------------------

WATCHED = (
    "SELECT id, t, s FROM f WHERE t > '2024-03-31 01:00:00'",
    "SELECT id, WEEK(d) FROM f WHERE WEEK(d) > 0",
    "SELECT id FROM f WHERE 'a' = 'A' OR s = CONCAT('a', 1.25)",
    "SELECT id FROM f WHERE id = @v OR s = CONCAT(@v)",
    "SELECT @@sql_select_limit - id FROM f",
    "UPDATE f SET n = 'x12', t = '2024-03-31 02:30:00', s = CONCAT(2.5)",
    "INSERT INTO f (id, d, n) VALUES (9, '0000-00-00', 300)",
    "INSERT INTO f (id, s) VALUES (1, 'b') ON DUPLICATE KEY UPDATE s = CONCAT(@v, 0.125)",
    "DELETE FROM f WHERE t = '2024-03-31 02:30:00'",
)


class OnlySurroundings:
    """A context of which only what Binding may ask is there."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def __getattr__(self, name: str) -> Any:
        if name not in ALLOWED:
            raise AssertionError(f"binding asked for {name}")
        return getattr(self._context, name)


ALLOWED = frozenset(
    name for name in {*vars(Surroundings), *Surroundings.__annotations__} if name[0] != "_"
)


def reset(session: Session) -> None:
    """The table as it was, the settings as they were."""
    for name, *_ in SETTINGS:
        run(session, f"SET {name} = DEFAULT")
    run(session, "DELETE FROM f")
    run(session, "INSERT INTO f VALUES (1, '2024-01-01', '2024-03-31 02:30:00', 1, 'a')")


@pytest.fixture
def watched(client: Session, monkeypatch: pytest.MonkeyPatch) -> Session:
    """A session that plans with nothing but a Binding, and a table."""

    def strict(context: Context) -> Binding:
        found = Binding(cast(Any, OnlySurroundings(context)), keeps=True)
        found.variable("sql_mode")
        return found

    monkeypatch.setattr(Context, "binding_of_shape", strict)
    run(
        client,
        "CREATE TABLE f (id int PRIMARY KEY, d date, t timestamp NULL, n tinyint, s varchar(20))",
    )
    reset(client)
    return client


def outcome(session: Session, ask: Callable[[Session, str], object], text: str) -> object:
    """The answer, and what is in the table then."""
    found = ask(session, text)
    run(session, "SET sql_mode = DEFAULT, time_zone = DEFAULT, sql_select_limit = DEFAULT")
    return found, rows(session, "SELECT * FROM f ORDER BY id")


def facts_of(session: Session, text: str) -> FactNames:
    """The facts that the cached plan of a text depends on."""
    shaped = shape_of(text)
    assert shaped is not None
    kept = session.services.plans.of_shape(StatementShape(shaped[0], shaped[2]))
    assert kept is not None, text
    return kept.fact_names


@pytest.mark.parametrize("text", WATCHED)
def test_what_a_plan_did_not_ask_does_not_matter(watched: Session, text: str) -> None:
    """Bound in one state, and right in one that agrees on the facts alone."""
    run(watched, "SET @v = 'a', @w = 1")
    outcome(watched, answer, text)
    reset(watched)
    asked, before = facts_of(watched, text), plans_of(watched)
    changes = [(name, value) for name, *both in SETTINGS for value in both]
    others = [(name, value) for name, value in changes if name not in asked.settings]
    if not any("sql_select_limit" in names for names in asked.variables):
        others += [("sql_auto_is_null", "OFF"), ("@w", "'other'")]
    if "v" not in [name for _, name in asked.variables]:
        others.append(("@v", "2.75"))
    for some in (others, others[::-1]):
        seen = []
        for ask in (answer, fresh):
            reset(watched)
            for name, value in some:
                run(watched, f"SET {name} = {value}")
            seen.append(outcome(watched, ask, text))
        assert seen[0] == seen[1]
    assert facts_of(watched, text) == asked
    assert plans_of(watched) >= before


NEEDED: tuple[tuple[Any, str, str, str], ...] = (
    # a fact, a statement, and two states between which the statement's plan differs by it alone
    (
        "sql_mode",
        "UPDATE f SET n = 'x12'",
        "SET sql_mode = ''",
        "SET sql_mode = 'STRICT_TRANS_TABLES'",
    ),
    ("time_zone", WATCHED[0], "SET time_zone = '+05:00'", "SET time_zone = 'UTC'"),
    (
        "collation_connection",
        "SELECT id FROM f WHERE 'a' = 'A'",
        "SET collation_connection = utf8mb4_general_ci",
        "SET collation_connection = utf8mb4_bin",
    ),
    (
        "default_week_format",
        WATCHED[1],
        "SET default_week_format = 0",
        "SET default_week_format = 3",
    ),
    (
        "sql_select_limit",
        "SELECT id FROM f",
        "SET sql_select_limit = 0",
        "SET sql_select_limit = 7",
    ),
    ("current database", "SELECT id FROM tables", "USE {0}", "USE information_schema"),
    (("open", "v"), "SELECT id FROM f WHERE s = CONCAT(@v)", "SET @v = 2.5", "SET @v = 'a'"),
    (("user", "v"), "SELECT @v FROM f", "SET @v = 2.5", "SET @v = 'a'"),
    (
        ("session", "net_read_timeout"),
        "SELECT @@net_read_timeout FROM f",
        "SET net_read_timeout = 5",
        "SET net_read_timeout = 5000",
    ),
)


@pytest.mark.parametrize(("fact", "text", "one", "other"), NEEDED, ids=lambda each: None)
def test_no_fact_is_superfluous(
    watched: Session, monkeypatch: pytest.MonkeyPatch, fact: Any, text: str, one: str, other: str
) -> None:
    """Without it a plan answers for a state that it was not made for."""
    home = watched.database
    run(watched, "CREATE TABLE tables LIKE f")

    def right() -> bool:
        watched.services = replace(watched.services, plans=PlanCache())
        for state in (one, other):
            run(watched, f"USE {home}")
            reset(watched)
            run(watched, state.format(home))
            kept = answer(watched, text)
            run(watched, f"USE {home}")
            reset(watched)
            run(watched, state.format(home))
            if kept != fresh(watched, text):
                return False
        return True

    assert right()
    record = Binding.record

    def forgetful(binding: Binding, group: int, name: Any, value: Any) -> None:
        if name != fact:
            record(binding, group, name, value)

    monkeypatch.setattr(Binding, "record", forgetful)
    assert not right()


def test_a_decimals_size_is_a_fact(watched: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    def right() -> bool:
        watched.services = replace(watched.services, plans=PlanCache())
        texts = [f"SELECT id FROM f WHERE CONCAT({number}) = '{number}'" for number in NUMBERS]
        return all(rows(watched, text) == [[1]] for text in texts)

    assert right()
    record = Binding.record
    monkeypatch.setattr(
        Binding, "record", lambda self, group, *rest: group == 2 or record(self, group, *rest)
    )
    assert not right()


def test_a_binding_of_hints_is_a_fact(watched: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    run(watched, "ALTER TABLE f ADD INDEX ks (s), ADD INDEX kn (n)")
    text = "SELECT id FROM f WHERE s = 'a' AND n = 1"

    def right() -> bool:
        watched.services = replace(watched.services, plans=PlanCache())
        used = []
        for hint in ("", "ks", "kn"):
            if hint:
                hinted = text.replace(" W", f" USE INDEX ({hint}) W")
                run(watched, f"CREATE BINDING FOR {text} USING {hinted}")
            rows(watched, text)
            kept = watched.services.plans.find(
                StatementShape(*(shape_of(text) or ("", [], ""))[::2]), watched, ["a", 1]
            )
            assert isinstance(kept, ReadRows)
            used.append(kept.filter.path.index.idx_name.L if kept.filter.path.index else "")
        run(watched, f"DROP BINDING FOR {text}")
        return used[1:] == ["ks", "kn"]

    assert right()
    record = Binding.record
    monkeypatch.setattr(
        Binding,
        "record",
        lambda self, group, name, value: name == PLAN_BASELINES or record(self, group, name, value),
    )
    assert not right()


class Inserter(Session):
    """A session of an account that may only insert."""

    @property
    def rights(self) -> Rights:
        own = OnDatabase("writer", "%", self.database, frozenset({"INSERT"}))
        return Rights(frozenset(), [own], account=("writer", "%"))


def test_a_cached_plan_needs_the_privilege_of_each_account(client: Session) -> None:
    """The account may name the table, because it has another privilege for it."""
    point = "SELECT a FROM t WHERE id = 1"
    run(client, "CREATE TABLE t (id int PRIMARY KEY, a int)")
    run(client, "INSERT INTO t VALUES (1, 7)")
    assert rows(client, point) == rows(client, point) == [[7]]
    writer = Inserter(client.services, 78, user="writer", database=client.database)
    assert error(writer, point)[0] == 1142
    run(writer, "INSERT INTO t VALUES (2, 8)")
    writer.close()


class Reader(Session):
    """A session of an account that may only read."""

    @property
    def rights(self) -> Rights:
        own = OnDatabase("reader", "%", self.database, frozenset({"SELECT"}))
        return Rights(frozenset(), [own], account=("reader", "%"))


@pytest.mark.parametrize(
    "text",
    (
        "UPDATE w JOIN n ON n.id = w.id SET w.a = n.v",
        "UPDATE w SET a = '5' WHERE id IN (SELECT id FROM n)",
        "DELETE FROM n WHERE id IN (SELECT id FROM w WHERE a = '5')",
    ),
)
def test_a_kept_write_by_a_query_needs_the_privilege(several: Session, text: str) -> None:
    for _ in range(2):
        run(several, text)
    before = plans_of(several)
    for kind in (Reader, Inserter):
        other = kind(several.services, 78, user="reader", database=several.database)
        assert error(other, text)[0] == 1142
        other.close()
    assert plans_of(several) == before
