"""A long statement lets the other threads of its front run, and ends when it is told to.

What holds the interpreter's lock is counted, not timed: full collections of garbage while it is
planned, and nodes that are left for one. tests/wire/test_responsiveness.py times another client.
"""

import ctypes
import gc
import re
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise

import pytest
from sqlglot.errors import ParseError

from exuvia.base import interruption, long_text, long_work
from exuvia.base.errors import Refused, WouldWait
from exuvia.sql import walks
from exuvia.sql.parse import tokens
from exuvia.sql.parse.interpreted import InterpretedParser
from support.node_processes import until
from support.world import World, error, rows, run

N = 1_000
# a comment in it: no plan is kept, which might hold on to a tree
LONG = {
    "IN": lambda: "SELECT /**/ v FROM t WHERE v IN (" + ",".join(f"{n}+1" for n in range(N)) + ")",
    "OR": lambda: (
        "SELECT /**/ v FROM t WHERE " + " OR ".join(f"id={n} AND v={n}" for n in range(N))
    ),
    "items": lambda: "SELECT /**/ " + ",".join(f"v+{n}" for n in range(N)) + " FROM t",
    "UNION": lambda: " UNION ALL ".join(f"SELECT {n}" for n in range(N // 4)),
    "UPDATE": lambda: f"UPDATE /**/ t SET v={'+'.join(['v'] * 3 * N)} WHERE id=1",
    "VALUES": lambda: (
        "INSERT /**/ INTO t VALUES " + ",".join(f"({n}+1,{n}*2)" for n in range(N, 2 * N))
    ),
    "EXISTS": lambda: (
        "SELECT /**/ v FROM t WHERE EXISTS (SELECT 1 FROM t x WHERE x.v IN ("
        + ",".join(f"t.v+{n}" for n in range(N))
        + "))"
    ),
    "several": lambda: ";".join(f"SELECT {n}" for n in range(N)),
}


@pytest.fixture(autouse=True)
def _collects_as_a_node_does() -> Iterator[None]:
    usual = gc.get_threshold()  # of tests, which is seldom
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*usual)


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with World() as world:
        session = world.session()
        run(session, "CREATE TABLE t (id INT PRIMARY KEY, v INT)")
        run(session, "INSERT INTO t VALUES (1, 1), (2, 2)")
        rows(session, "SELECT 1 FROM t JOIN t u USING (id)")  # loads DuckDB
        session.close()
        yield world


@pytest.mark.parametrize("name", LONG)
def test_no_full_collection_while_it_is_planned_and_none_needed(world: World, name: str) -> None:
    session, text = world.session(), LONG[name]()
    collected: list[int] = []

    def note(phase: str, about: dict[str, int]) -> None:
        if about["generation"] == 2:
            collected.append(about["generation"])

    before = gc.get_threshold(), sys.getswitchinterval()
    gc.collect()
    gc.callbacks.append(note)
    try:
        session.execute(text)
    finally:
        gc.callbacks.remove(note)
    assert not collected
    assert (gc.get_threshold(), sys.getswitchinterval()) == before
    left = gc.collect()  # of subqueries, what the binder makes for each of them
    assert left < len(text), "its trees wait for a full collection"
    session.close()


HELD = 512, 600  # characters, tokens: compiled code reads them in a millisecond
WIDE = {
    "a row": lambda: f"INSERT /**/ INTO t VALUES {','.join(f'({n}+1,{n}*2)' for n in range(N))}",
    "a statement": lambda: ";".join([f"SELECT {'+'.join(['v'] * N)} FROM t"] * 3),
    "an expression": lambda: f"SELECT /**/ {'+'.join(['v'] * 3 * N)} FROM t",
}


@pytest.mark.parametrize("name", WIDE)
def test_compiled_code_gets_a_little_of_a_long_text(
    world: World, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    session, text = world.session(), WIDE[name]()
    read: dict[str, list[int]] = {"characters": [], "tokens": []}
    tokenizer, parser = tokens.DIALECT.tokenize, tokens.DIALECT.parser

    class Parser:
        def parse(self, given: list[tokens.Token], sql: str) -> object:
            read["tokens"].append(len(given))
            return parser().parse(given, sql)

    def tokenize(sql: str) -> list[tokens.Token]:
        read["characters"].append(len(sql))
        return tokenizer(sql)

    monkeypatch.setattr(tokens.DIALECT, "tokenize", tokenize)
    monkeypatch.setattr(tokens.DIALECT, "parser", Parser)
    with suppress(Refused):  # rows that are there
        session.execute(text)
    most = max(read["characters"]), max(read["tokens"], default=0)
    assert most[0] < 2 * HELD[0] and most[1] <= HELD[1], most
    session.close()


def test_statements_at_once_share_the_settings() -> None:
    usual = gc.get_threshold()
    long_work.begin()
    long_work.begin()
    assert gc.get_threshold()[1] < usual[1], "objects that a pass visits"
    long_work.end()
    assert gc.get_threshold()[2] > usual[2]
    long_work.end()
    assert gc.get_threshold() == usual


QUERIES = """
SELECT a, b AS c, COUNT(*) FROM t x LEFT JOIN u ON x.a = u.a AND u.b IS NOT NULL WHERE NOT a = 1
XOR b

SELECT DISTINCT a FROM t WHERE a IN (1, 2, NULL) OR b NOT BETWEEN 1 AND 2 GROUP BY a HAVING 1
ORDER BY 2

SELECT CASE a WHEN 1 THEN 'x' ELSE b END, CAST(a AS CHAR(3)), CONVERT('a' USING utf8mb4), x'41',
b'1'

WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 3) SELECT * FROM c LIMIT
2, 1

SELECT SUM(a) OVER (PARTITION BY b ORDER BY c ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM t
WINDOW w AS ()

SELECT (SELECT MAX(a) FROM t WHERE t.a = u.a), EXISTS (SELECT 1), a -> '$.x', INTERVAL 1 DAY + a
FROM u

SELECT * FROM (SELECT 1 AS a) d NATURAL JOIN t USE INDEX (i) FOR UPDATE SKIP LOCKED

SELECT 1 UNION (SELECT 2 INTERSECT SELECT 3) EXCEPT SELECT 4 ORDER BY 1 DESC

SELECT GROUP_CONCAT(DISTINCT a ORDER BY b SEPARATOR '-'), TRIM(LEADING 'a' FROM b), EXTRACT(DAY
FROM c) FROM t

SELECT a | b & c << 1 ^ 2, -a, ~b, !c, a DIV b, a % b, a <=> NULL, a LIKE 'x%' ESCAPE '!', a
REGEXP 'b' FROM t

SELECT @v := 1, @@sql_mode, ?, YEAR(a), DATE'2020-01-01', _utf8mb4'x' COLLATE utf8mb4_bin, (1, 2)
= (a, b) FROM t

SELECT a.*, t.`b c` FROM t AS a JOIN (u CROSS JOIN v) ON a.b = v.b WHERE MATCH (a) AGAINST ('x' IN
BOOLEAN MODE)
""".strip().split("\n\n")


@pytest.mark.parametrize("text", QUERIES)
def test_both_parsers_make_the_same_tree(text: str) -> None:
    read = tokens.without_ambiguity(text, tokens.rewritten(tokens.tokenize(text)))
    trees = tokens.DIALECT.parser().parse(read, text), InterpretedParser(dialect=tokens.DIALECT)
    assert repr(trees[0]) == repr(trees[1].parse(read, text))


def test_both_parsers_refuse_at_the_same_place() -> None:
    for text in ("SELECT 1 FROM", "SELECT (1", "SELECT a FROM t WHERE", "SELECT CASE 1 END"):
        places = []
        for parser in (tokens.DIALECT.parser(), InterpretedParser(dialect=tokens.DIALECT)):
            with pytest.raises(ParseError) as refused:
                parser.parse(tokens.tokenize(text), text)
            places.append((refused.value.errors[0]["line"], refused.value.errors[0]["col"]))
        assert places[0] == places[1]


@pytest.mark.parametrize("text", QUERIES)
def test_walks_visit_what_sqlglot_visits_in_its_order(text: str) -> None:
    tree = tokens.read(text, tokens.tokenize(text))
    assert [id(node) for node in walks.walk(tree)] == [id(node) for node in tree.walk()]
    copy = walks.copy(tree)
    assert repr(copy) == repr(tree)
    places = [[(type(n), n.arg_key, n.index) for n in walks.walk(each)] for each in (tree, copy)]
    assert places[0] == places[1]
    assert all(node.parent is not None for node in walks.walk(copy) if node is not copy)
    assert not {id(node) for node in walks.walk(copy)} & {id(node) for node in walks.walk(tree)}


@pytest.mark.parametrize(
    "place", [0, 1, long_work.WINDOW - 1, long_work.WINDOW, 3 * long_work.WINDOW]
)
def test_a_search_in_windows_finds_what_a_search_finds(place: int) -> None:
    text = "a" * place + "/*+" + "b" * long_work.WINDOW
    assert long_work.contains(text, "/*+")
    assert not long_work.contains(text, "/*!")
    match = long_work.search(re.compile(r"/\*|--(?=\s|$)"), text)
    assert match is not None and match.start() == place
    assert long_work.search(re.compile("b$"), text, place) is not None


KILLED = {
    "tokens": lambda: "SELECT 1" + "=a" * 1_000_000,
    "parser": lambda: "SELECT " + "+".join(["v"] * 90_000) + " FROM t",
    "binder": lambda: (
        "SELECT /**/ v FROM t WHERE v IN (" + ",".join(f"{n}+v" for n in range(40_000)) + ")"
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("name", KILLED)
def test_a_long_statement_ends_when_killed(world: World, name: str) -> None:
    session, text = world.session(), KILLED[name]()
    for after_s in (0.1, 0.5, 1.0):
        killed = threading.Timer(after_s, session.interrupt)
        killed.start()
        assert error(session, text)[0] == 1317
        late_s = time.monotonic()
        killed.join()
        assert time.monotonic() - late_s < 2.0
    session.close()


# -- joins -----------------------------------------------------------------------------------------


def joined(count: int) -> str:
    return "SELECT COUNT(*) FROM t t0" + "".join(
        f" JOIN t t{n} ON t{n}.id = t{n - 1}.id" for n in range(1, count)
    )


def test_a_join_has_at_most_61_tables(world: World) -> None:
    session = world.session()
    count = rows(session, "SELECT COUNT(*) FROM t")
    assert rows(session, joined(61)) == count
    assert error(session, joined(62)) == (1116, "HY000")
    commas = ",".join(f"t t{n}" for n in range(62))
    assert error(session, f"UPDATE {commas} SET t0.v = 1") == (1116, "HY000")
    assert error(session, f"SELECT 1 FROM t WHERE id IN ({joined(62)})") == (1116, "HY000")
    derived = ",".join(f"(SELECT 1) d{n}" for n in range(61))
    assert rows(session, f"SELECT COUNT(*) FROM {derived}") == [[1]]
    session.close()


@pytest.mark.long
def test_a_query_that_duckdb_orders_for_long_ends_when_killed(world: World) -> None:
    session = world.session()
    text = "SELECT v FROM t m WHERE " + " AND ".join(
        f"EXISTS (SELECT 1 FROM t x{n} WHERE x{n}.v > m.v)" for n in range(40)
    )
    killed_s: list[float] = []

    def kill() -> None:
        killed_s.append(time.monotonic())
        session.interrupt()

    timer = threading.Timer(0.7, kill)
    timer.start()
    assert error(session, text)[0] == 1317
    assert time.monotonic() - killed_s[0] < 1.0
    assert rows(session, "SELECT COUNT(*) FROM t a JOIN t b USING (id)")
    for thread in threading.enumerate():  # what was left behind ends by itself
        if thread.name == "exuvia-apart":
            thread.join(120)
    session.close()


# -- values in pieces ------------------------------------------------------------------------------

SIGNS = {"ascii": "abab", "latin": "ab\u00e9", "wide": "ab\u4e2d", "widest": "a\U0001f600b"}


@pytest.mark.parametrize("signs", SIGNS.values(), ids=SIGNS.keys())
def test_a_long_value_is_that_of_the_plain_expression(signs: str) -> None:
    size = (1 << 20) + 77  # by turns
    whole = signs * (size // len(signs))
    for text in (whole, whole[:-1] + "\u00e9", whole.encode()):
        empty, other, mark = text[:0], text[:70_001], text[1:3]
        same(long_text.joined(empty, [text, other]), empty.join([text, other]))
        same(long_text.joined(mark, [other] * 6), mark.join([other] * 6))
        same(long_text.repeated(text[:5], size // 5), text[:5] * (size // 5))
        same(long_text.part_of(text, 3, -300_000), text[3:-300_000])
        same(long_text.reversed_text(text), text[::-1])
        for old in (text[:1], mark, other, text[:2] * 2):
            same(long_text.replaced(text, old, mark * 2), text.replace(old, mark * 2))
            assert long_text.count_of(text, old) == text.count(old)
    same(long_text.encoded(whole), whole.encode())
    same(long_text.decoded(whole.encode()), whole)
    assert long_text.encoded_size(whole) == len(whole.encode())
    torn = whole.encode() + b"\xff" + whole.encode()[1:]
    same(long_text.decoded(torn, errors="replace"), torn.decode(errors="replace"))


def test_a_sign_that_was_encoded_before_makes_no_text_wider() -> None:
    keep = ctypes.pythonapi.PyUnicode_AsUTF8
    keep.restype, keep.argtypes = ctypes.c_void_p, [ctypes.py_object]
    keep("\xfd")  # from now on its only object has a copy in UTF-8
    text = "a" * long_text.SHORT
    same(long_text.joined("", [text, "\xfd"]), text + "\xfd")


def same(made: str | bytes, plain: str | bytes) -> None:
    """Equal in value, and in what makes texts equal for Python: form and hash."""
    assert made == plain
    assert hash(made) == hash(plain)
    assert sys.getsizeof(made) == sys.getsizeof(plain[:-1] + plain[-1:])


def test_one_thread_at_a_time_makes_long_values_and_passes_its_turn_on() -> None:
    working, lock = list[int](), threading.Lock()

    def work(number: int) -> None:
        with interruption.taking_turns():
            for _ in range(3 * interruption.CHECKS_OF_A_TURN):
                interruption.check()
                with lock:
                    working.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    with interruption.taking_turns():
        for thread in threads:
            thread.start()
        until(lambda: long_work.turn.is_wanted)
        assert not working
    for thread in threads:
        thread.join()
    changes = [a for a, b in pairwise(working) if a != b]
    assert len(working) == 12 * interruption.CHECKS_OF_A_TURN
    assert 4 <= len(changes) < 20


def test_a_thread_that_serves_clients_does_no_long_work() -> None:
    raised = list[BaseException]()

    def serve() -> None:
        interruption.serve_clients()
        long_text.repeated("x", 1000)
        try:
            long_text.repeated("x", 10_000_000)
        except WouldWait as error:
            raised.append(error)

    thread = threading.Thread(target=serve)
    thread.start()
    thread.join()
    assert len(raised) == 1


@pytest.mark.parametrize("item", ["REPEAT('x', v + 10000000)", "REPEAT('x', v + 100000)"])
def test_a_kept_plan_that_makes_long_texts_is_run_by_another_thread(
    world: World, item: str
) -> None:
    session, answers = world.session("test"), list[object]()
    text = f"SELECT {', '.join([item] * 12)} FROM t WHERE id = 1"
    for _ in range(3):
        expected = rows(session, text)
    short = "SELECT v FROM t WHERE id = 1"
    row = rows(session, short)

    def serve() -> None:
        interruption.serve_clients()
        for each in (text, short):
            try:
                answers.append(rows(session, each))
            except WouldWait:
                answers.append(None)

    thread = threading.Thread(target=serve)
    thread.start()
    thread.join()
    assert answers == [None, row]
    assert rows(session, text) == expected


def test_a_statement_ends_within_a_call_and_while_it_waits_for_its_turn() -> None:
    ending = interruption.Interruption()
    ended = list[str]()

    def work() -> None:
        with interruption.running(ending), suppress(Refused):
            long_text.repeated("x", 10_000_000)
            ended.append("not at all")

    with interruption.taking_turns():
        thread = threading.Thread(target=work)
        thread.start()
        ending.end(Refused(1317, "70100", "ended"))
        thread.join(5.0)
    assert not thread.is_alive()
    assert not ended


def test_long_white_space_is_not_tokenized_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    longest, tokenize = 0, tokens.DIALECT.tokenize

    def counted(text: str) -> list[tokens.Token]:
        nonlocal longest
        longest = max(longest, len(text))
        return tokenize(text)

    monkeypatch.setattr(tokens.DIALECT, "tokenize", counted)
    read = tokens.tokenize(f" SELECT {' ' * 1_000_000} 1")
    assert [token.text for token in read] == ["SELECT", "1"]
    assert longest < 1 << 17
