"""A SELECT in DuckDB reads its transaction's snapshot and own writes, and only what it needs."""

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from exuvia.sql.parse.text import parse_one
from exuvia.sql.select import relational as select
from exuvia.sql.session.session import Session
from exuvia.sql.show.explain_plan import Explaining
from exuvia.sql.show.operators import explain_result
from exuvia.sql.statement.context import Context
from support.answers import answer_of, by_query
from support.world import World


@pytest.fixture
def world() -> Iterator[World]:
    """A node with a table of five rows."""
    with World() as found:
        session = found.session()
        session.execute("CREATE TABLE t (id INT PRIMARY KEY, k INT, s VARCHAR(10), KEY k (k))")
        session.execute(
            "INSERT INTO t VALUES (1,10,'a'),(2,20,'b'),(3,10,'c'),(4,30,'d'),(5,20,'e')"
        )
        yield found


def asked(session: Session, text: str) -> Any:
    """A query's answer through the relational engine."""
    return answer_of(session, by_query(text))


def test_own_writes_are_seen_and_others_are_not(world: World) -> None:
    mine, other = world.session(), world.session()
    mine.execute("BEGIN")
    mine.execute("UPDATE t SET k = 99 WHERE id = 2")
    mine.execute("DELETE FROM t WHERE id = 3")
    mine.execute("INSERT INTO t VALUES (9, 90, 'z')")
    other.execute("INSERT INTO t VALUES (7, 70, 'later')")
    query = "SELECT id, k FROM t WHERE k > 0 ORDER BY id"
    assert asked(mine, query) == [["1", "10"], ["2", "99"], ["4", "30"], ["5", "20"], ["9", "90"]]
    assert asked(other, "SELECT COUNT(*), SUM(k) FROM t") == [["6", "160"]]
    mine.execute("ROLLBACK")
    assert asked(mine, "SELECT COUNT(*) FROM t") == [["6"]]


def test_rows_of_several_layouts(world: World) -> None:
    session = world.session()
    session.execute("ALTER TABLE t ADD COLUMN n INT NOT NULL DEFAULT 7")
    session.execute("INSERT INTO t VALUES (6, 10, 'f', 8)")
    counted = asked(session, "SELECT n, COUNT(*) FROM t GROUP BY n ORDER BY n")
    assert counted == [["7", "5"], ["8", "1"]]


def planned(session: Session, text: str) -> list[tuple[str, ...]]:
    """EXPLAIN's rows, of a query that is bound to a tree."""

    found: list[tuple[str, ...]] = []

    def work(context: Context) -> Any:
        node = parse_one(text)
        top = Explaining(context).planned(select.plan(node, context))
        found.extend(map(tuple, explain_result([top], "brief", is_measured=False).rows))
        return []

    answer_of(session, work)
    return found


def test_only_the_columns_asked_for_are_read(world: World) -> None:
    def work(context: Context) -> Any:
        plan = select.plan(parse_one("SELECT COUNT(*) FROM t WHERE s > 'a'"), context)
        assert isinstance(plan, select.RelationalPlan)
        (scan,) = plan.scans
        assert scan.name in plan.sql
        assert scan.used == [2]
        return []

    answer_of(world.session(), work)


def test_a_selective_key_is_used(world: World) -> None:
    session = world.session()
    by_index = planned(session, "SELECT s FROM t WHERE k = 10 ORDER BY s")
    assert any("index:k" in line[3] for line in by_index)
    by_key = planned(session, "SELECT a.s FROM t a JOIN t b ON a.id = b.k WHERE a.id = 1")
    names = " ".join(line[0] for line in by_key)
    assert "Point_Get" in names and "IndexJoin" in names
    assert asked(session, "SELECT s FROM t WHERE k = 10 ORDER BY s DESC") == [["c"], ["a"]]


ERRORS = {
    "SELECT (SELECT id FROM t)": 1242,
    "SELECT id + 9223372036854775807 FROM t": 1690,
    "SELECT id FROM t UNION SELECT 1, 2": 1222,
    "SELECT * FROM (SELECT 1)": 1248,
    "SELECT id FROM t GROUP BY k": 1055,
    "SELECT id, COUNT(*) FROM t": 1140,
    "SELECT SUM(COUNT(id)) FROM t": 1111,
    "SELECT id FROM t HAVING nosuch > 1": 1054,
    "SELECT t.id FROM t JOIN t": 1066,
    "SELECT JSON_EXTRACT(s, '$.a') FROM t": 3140,
    "SELECT s REGEXP '[' FROM t": 1139,
    "SELECT s COLLATE utf8mb4_bin = s COLLATE utf8mb4_general_ci FROM t": 1267,
    "SELECT s COLLATE nosuch FROM t": 1273,
    "SELECT s COLLATE latin1_swedish_ci FROM t": 1253,
}


@pytest.mark.parametrize("text", ERRORS)
def test_errors_are_mysqls(world: World, text: str) -> None:
    assert asked(world.session(), text) == {"error": ERRORS[text]}


def test_a_query_leaves_nothing_behind(world: World) -> None:
    from exuvia.sql.duck import engine as duck

    session = world.session()
    for _ in range(3):
        asked(session, "SELECT MD5(s) FROM t")
        asked(session, "SELECT id + 9223372036854775807, MD5(s) FROM t")
    cursor = duck.cursor()
    names = cursor.execute(
        "SELECT count(*) FROM duckdb_functions() "
        "WHERE regexp_matches(function_name, '^x[0-9]+f[0-9]+$')"
    ).fetchone()
    cursor.close()
    assert names == (0,)


def test_duckdb_and_arrow_are_loaded_by_the_first_query_that_needs_them() -> None:
    program = (
        "import sys, exuvia.sql.session.session\n"
        "heavy = {'duckdb', 'pandas', 'pyspark'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr


def test_a_process_lets_its_database_go_though_threads_of_it_sleep_on() -> None:
    program = (
        "import threading\n"
        "from exuvia.sql.duck.engine import cursor, key_of\n"
        "cursor().close()\n"
        "begun = threading.Event()\n"
        "def sleep(held):\n"
        "    begun.set()\n"
        "    threading.Event().wait()\n"
        "threading.Thread(target=sleep, args=(key_of,), daemon=True).start()\n"
        "begun.wait()\n"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (found.returncode, found.stderr) == (0, "")
