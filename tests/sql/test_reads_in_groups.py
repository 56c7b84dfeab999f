"""Point selects of a remote store: on the thread that serves, in shared questions."""

import threading
from collections.abc import Iterator
from contextlib import closing
from types import SimpleNamespace
from typing import Any, cast

import pytest

from exuvia.base.errors import WouldWait
from exuvia.kv.store import Store, open_store
from exuvia.server.packets import Login
from exuvia.server.statements import Statements
from exuvia.sql.session.session import Session
from exuvia.sql.statement.context import Course
from support.node_processes import until
from support.postgres import shared_server
from support.serving import Serving
from support.world import World, error, rows, run

SELECT = "SELECT a FROM t WHERE id = {}".format
RANGE = "SELECT a FROM t WHERE id BETWEEN {} AND {}".format
ROWS = 40


@pytest.fixture
def url() -> str:
    return shared_server().new_url()


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with closing(open_store(url)) as store:
        yield store


@pytest.fixture
def world(store: Store) -> Iterator[World]:
    with World(store) as world:
        session = world.session("test")
        rows(session, "CREATE TABLE t (id INT PRIMARY KEY, a INT)")
        rows(session, f"INSERT INTO t VALUES {', '.join(f'({n}, {n})' for n in range(ROWS))}")
        yield world


def opened(serving: Serving, session: Session) -> None:
    """Plans the statements, and has the connection made."""
    for text in (SELECT(1), RANGE(1, 3)):
        rows(session, text)

    def is_grouped() -> bool:
        serving.turn(0.01)
        serving.outcomes.clear()
        serving.begin(lambda: rows(session, SELECT(1)))
        serving.go_on(1)
        return serving.outcomes.pop() == [[1]]

    until(is_grouped, 20.0)


def together(serving: Serving, sessions: list[Session], texts: list[str]) -> list[Any]:
    """The answers of statements of one turn; of those sent away, WouldWait."""
    serving.outcomes.clear()
    for session, text in zip(sessions, texts, strict=True):
        serving.begin(lambda session=session, text=text: (text, rows(session, text)))  # type: ignore[misc]
    serving.go_on(len(texts))
    answers = dict(outcome for outcome in serving.outcomes if isinstance(outcome, tuple))
    return [answers.get(text, WouldWait) for text in texts]


def test_sessions_share_a_question(world: World, store: Store) -> None:
    serving, sessions = Serving(), [world.session("test") for _ in range(6)]
    opened(serving, sessions[0])
    before = store.measures()
    texts = [*(SELECT(n) for n in range(4)), SELECT(1000), RANGE(5, 8)]
    answers = together(serving, sessions, texts)
    after = store.measures()
    assert answers == [[[0]], [[1]], [[2]], [[3]], [], [[5], [6], [7], [8]]]
    assert after["grouped_reads"] - before["grouped_reads"] == 6
    assert after["grouped_questions"] - before["grouped_questions"] == 1


@pytest.mark.parametrize(
    ("before", "text", "course"),
    [
        ("SELECT 1", SELECT(1), Course.ASIDE),
        ("SELECT 1", RANGE(1, 3), Course.ASIDE),
        ("SELECT 1", "SELECT SUM(a) FROM t", Course.POOL),
        ("SELECT 1", "UPDATE t SET a = a WHERE id = 1", Course.POOL),
        ("SET autocommit = 0", SELECT(1), Course.POOL),
        ("SET TRANSACTION READ ONLY", SELECT(1), Course.POOL),
        ("BEGIN", SELECT(1), Course.POOL),
        ("BEGIN; " + SELECT(1), RANGE(1, 3), Course.POOL),
        ("BEGIN; " + SELECT(1), "COMMIT", Course.ASIDE),
        ("BEGIN; " + SELECT(1), "ROLLBACK", Course.ASIDE),
        ("BEGIN; " + SELECT(1), "BEGIN", Course.ASIDE),
        ("BEGIN; " + SELECT(1), "START TRANSACTION WITH CONSISTENT SNAPSHOT", Course.POOL),
        ("BEGIN; UPDATE t SET a = 7 WHERE id = 1", SELECT(2), Course.POOL),
        ("BEGIN; UPDATE t SET a = 7 WHERE id = 1", "COMMIT", Course.POOL),
        ("BEGIN; UPDATE t SET a = 7 WHERE id = 1", "ROLLBACK", Course.POOL),
        ("BEGIN; UPDATE t SET a = 7 WHERE id = 1", "BEGIN", Course.POOL),
        ("BEGIN; SELECT a FROM t WHERE id = 1 FOR UPDATE", "COMMIT", Course.POOL),
    ],
)
def test_which_statements_run_on_the_thread_that_serves(
    world: World, before: str, text: str, course: Course
) -> None:
    session = world.session("test")
    run(session, text)
    run(session, "ROLLBACK")
    for statement in before.split("; "):
        run(session, statement)
    assert session.course(text) is course


def test_a_database_is_chosen_by_another_thread(world: World) -> None:
    """COM_INIT_DB reads whether it exists."""
    login = cast(Login, SimpleNamespace(capabilities=0, codec="utf-8"))
    statements = Statements(world.session("test"), login, 1 << 20)
    assert statements.use(b"test").course is Course.POOL


def test_what_cannot_be_read_in_a_group_is_sent_away_unharmed(world: World) -> None:
    """A plan that is outdated, a session that may not read, rows that need a thread."""
    serving, session, other = Serving(), world.session("test"), world.session("test")
    opened(serving, session)
    rows(other, "ALTER TABLE t MODIFY a VARCHAR(20)")
    assert together(serving, [session], [SELECT(3)]) == [WouldWait]
    assert rows(session, SELECT(3)) == [["3"]]
    assert together(serving, [session], [SELECT(3)]) == [[["3"]]]
    rows(other, "DROP TABLE t")
    assert together(serving, [session], [SELECT(3)]) == [WouldWait]
    assert error(session, SELECT(3)) == (1146, "42S02")


def test_a_write_is_read_by_the_next_select_of_any_session(world: World) -> None:
    serving, session, other = Serving(), world.session("test"), world.session("test")
    opened(serving, session)
    for n in range(20):
        rows(other, f"UPDATE t SET a = {n} WHERE id = 1")
        assert together(serving, [session, other], [SELECT(1), SELECT(2)]) == [[[n]], [[2]]]


def test_answers_of_one_node_while_the_other_changes_the_table(world: World, url: str) -> None:
    """Each answer is a row as a definition of that time decodes it; the questions go on."""
    serving = Serving()
    changes = ("a VARCHAR(20)", "a BIGINT", "a CHAR(12)", "a INT")
    with closing(open_store(url)) as second, World(second, owns=False) as node:
        sessions = [node.session("test") for _ in range(4)]
        opened(serving, sessions[0])
        done = threading.Event()

        def change() -> None:
            session = world.session("test")
            for column in changes:
                rows(session, f"ALTER TABLE t MODIFY {column}")
            done.set()

        changing = threading.Thread(target=change)
        changing.start()
        grouped, sent_away, kinds, turns = 0, 0, set(), 0
        while not done.is_set() or turns < 50:
            turns += 1
            ids = [(turns + 7 * n) % ROWS for n in range(4)]
            texts = [SELECT(number) for number in ids]
            for number, text, session, answer in zip(
                ids, texts, sessions, together(serving, sessions, texts), strict=True
            ):
                grouped += answer is not WouldWait
                sent_away += answer is WouldWait
                ((value,),) = rows(session, text) if answer is WouldWait else answer
                kinds.add(type(value))
                assert str(value) == str(number)
        changing.join()
    assert kinds == {int, str}
    assert grouped > sent_away


# -- within transactions ---------------------------------------------------------------------------


def test_transactions_begin_and_end_on_the_thread_that_serves(world: World) -> None:
    """Their reads are sent away unharmed: each has the connection of its snapshot."""
    serving, sessions = Serving(), [world.session("test") for _ in range(3)]
    opened(serving, sessions[0])
    for session in sessions:
        assert together(serving, [session], ["BEGIN"]) == [[]]
    texts = [SELECT(1), SELECT(2), RANGE(3, 4)]
    answers = [rows(session, text) for session, text in zip(sessions, texts, strict=True)]
    assert answers == [[[1]], [[2]], [[3], [4]]]
    rows(world.session("test"), "UPDATE t SET a = a + 100")
    assert together(serving, sessions, texts) == [WouldWait] * 3
    again = [rows(session, text) for session, text in zip(sessions, texts, strict=True)]
    assert again == answers
    assert together(serving, sessions, ["COMMIT", "ROLLBACK", "BEGIN"]) == [[], [], []]
    assert together(serving, sessions[:2], texts[:2]) == [[[101]], [[102]]]
    assert rows(sessions[2], texts[2]) == [[103], [104]]
