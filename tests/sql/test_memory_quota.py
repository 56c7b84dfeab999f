"""No statement takes all memory: tidb_mem_quota_query (8175), max_allowed_packet (1301)."""

import tracemalloc
from collections.abc import Iterator

import pytest

from exuvia.base.interruption import Interruption, running
from exuvia.server.statements import in_turn
from exuvia.sql.parse.text import parse
from exuvia.sql.parse.tokens import TOKEN_BYTES, TREE_BYTES
from exuvia.sql.session.session import Session
from support.world import World, error, rows, run

QUOTA = 10_000_000
PACKET = 1 << 20


@pytest.fixture
def held(world: World) -> Iterator[Session]:
    """A session with a small quota and ten rows in `n`."""
    session = world.session("")
    run(session, "CREATE DATABASE held")
    run(session, "USE held")
    run(session, "CREATE TABLE n (a INT)")
    run(session, "INSERT INTO n VALUES (1), (2), (3), (4), (5), (6), (7), (8), (9), (10)")
    run(session, "SET @x = REPEAT('x', 3000000)")
    run(session, f"SET tidb_mem_quota_query = {QUOTA}")
    yield session
    run(session, "DROP DATABASE held")
    session.close()


TOO_MUCH = [
    "SELECT a.a FROM n a, n b, n c, n d, n e, n f",
    "SELECT REPEAT('a', 100000) FROM n a, n b, n c",
    "SELECT GROUP_CONCAT(REPEAT('a', 100000)) FROM n a, n b, n c, n d",
    "SELECT JSON_ARRAYAGG(REPEAT('a', 100000)) FROM n a, n b, n c, n d",
    "WITH RECURSIVE c AS (SELECT 1 AS x UNION ALL SELECT c.x FROM c, n) SELECT COUNT(*) FROM c",
    "UPDATE n x, n y, n z, n u, n v, n w SET x.a = 1",
    "SELECT REPEAT('a', 4000000), REPEAT('b', 4000000), REPEAT('c', 4000000)",
    "SELECT REPEAT(a, 2000000) FROM n",
    "SELECT a FROM n ORDER BY REPEAT(a, 2000000)",
    "SELECT UPPER(@x), LOWER(@x), REVERSE(@x), HEX(@x)",
    "SELECT " + ", ".join(["@x IN (@x, 'y')"] * 3),
    f"SELECT 1{',1' * 20_000}",
    f"SELECT a FROM n WHERE a IN (0{',1' * 20_000})",
    f"INSERT INTO n VALUES (1+1){',(2)' * 10_000}",
]


@pytest.mark.parametrize("statement", TOO_MUCH)
def test_a_query_that_needs_more_than_its_quota_is_cancelled(held: Session, statement: str) -> None:
    assert error(held, statement) == (8175, "HY000")
    assert rows(held, "SELECT COUNT(*), SUM(a) FROM n") == [[10, 55]]


def test_what_is_not_held_does_not_count(held: Session) -> None:
    assert rows(held, "SELECT COUNT(*) FROM n a, n b, n c, n d, n e, n f") == [[10**6]]
    assert rows(held, "SELECT SUM(LENGTH(REPEAT('a', 10000))) FROM n a, n b, n c") == [[10**7]]


def test_empty_statements_and_comments_take_no_memory(held: Session) -> None:
    assert rows(held, f"{'; ' * 500_000}SELECT 1{';' * 500_000}") == [[1]]
    assert rows(held, f"SELECT {' ' * 1_000_000} 2 /*{',' * 1_000_000}*/") == [[2]]
    assert rows(held, f"/*!99999 {'x' * 1_000_000}*/ SELECT 3") == [[3]]


def test_the_tokens_of_a_text_do_not_count_once_it_is_read(held: Session) -> None:
    before = held.memory.used
    run(held, f"INSERT INTO n VALUES (1+1){',(2)' * 2_000}")
    tree, tokens = 8_000 * TREE_BYTES, 8_000 * TOKEN_BYTES
    assert tree < held.memory.used - before < tree + tokens < held.memory.peak - before
    run(held, "DELETE FROM n WHERE a = 2")
    run(held, "INSERT INTO n VALUES (2)")
    statement = Interruption()
    with running(statement):
        parse(f"SELECT 1{',1' * 5_000}")
        assert statement.memory.passing == 0 < statement.memory.kept


def test_the_statements_of_a_text_are_cut_one_at_a_time(held: Session) -> None:
    text = "SELECT 'a'; " * 50_000
    tracemalloc.start()
    try:
        count = sum(1 for _ in in_turn(text, held.settings))
        assert (count, tracemalloc.get_traced_memory()[1] < 1 << 20) == (50_000, True)
    finally:
        tracemalloc.stop()


def test_what_is_gone_before_the_next_value_does_not_count(held: Session) -> None:
    lengths = ", ".join(["LENGTH(REPEAT('a', 4000000))"] * 9)
    assert rows(held, f"SELECT {lengths}") == [[4_000_000] * 9]
    assert rows(held, f"SELECT {lengths} FROM n") == [[4_000_000] * 9] * 10
    assert rows(held, "SELECT a FROM n WHERE LENGTH(REPEAT(a, 3000000)) > 3000000") == [[10]]


def test_values_of_user_variables_count_while_they_are_there(held: Session) -> None:
    run(held, "SET @y = REPEAT('y', 3000000)")
    assert error(held, "SET @z = REPEAT('z', 5000000)") == (8175, "HY000")
    run(held, "SET @y = NULL")
    run(held, "SET @z = REPEAT('z', 5000000)")
    assert rows(held, "SELECT LENGTH(@x), LENGTH(@y), LENGTH(@z)") == [[3000000, None, 5000000]]


def test_a_session_without_a_quota_is_not_held(held: Session) -> None:
    run(held, "SET tidb_mem_quota_query = 0")
    assert len(rows(held, "SELECT a.a FROM n a, n b, n c, n d, n e")) == 10**5


GROWING = [
    ("REPEAT('a', {n})", PACKET),
    ("SPACE({n})", PACKET),
    ("CONCAT(REPEAT('a', {n} / 2), REPEAT('b', {n} / 2))", PACKET),
    ("CONCAT_WS('', REPEAT('a', {n} / 2), REPEAT('b', {n} / 2))", PACKET),
    ("INSERT(REPEAT('a', {n} / 2), 1, 0, REPEAT('b', {n} / 2))", PACKET),
    ("REPLACE(REPEAT('a', {n} / 4), 'a', 'bbbb')", PACKET),
    ("LPAD('a', {n} / 4, 'b')", PACKET // 4),
    ("RPAD('a', {n} / 4, 'b')", PACKET // 4),
]


@pytest.mark.parametrize(("text", "length"), GROWING, ids=[text for text, _ in GROWING])
def test_no_text_is_longer_than_a_packet(world: World, text: str, length: int) -> None:
    admin = world.session("")
    run(admin, f"SET GLOBAL max_allowed_packet = {PACKET}")
    try:
        session = world.session("")
        longest = f"SELECT LENGTH({text.format(n=PACKET)})"
        assert rows(session, longest) == [[length]]
        found = run(session, f"SELECT LENGTH({text.format(n=PACKET + 4)})")
        assert [list(row) for row in found.rows] == [[None]]
        name = text.partition("(")[0].lower()
        said = f"Result of {name}() was larger than max_allowed_packet ({PACKET}) - truncated"
        assert said in [note.message for note in session.warnings]
        session.close()
    finally:
        run(admin, "SET GLOBAL max_allowed_packet = DEFAULT")
        admin.close()
