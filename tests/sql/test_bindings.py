"""Bindings: what a statement is to them, which one of several is used, and what plans are kept."""

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from exuvia.base.errors import Refused
from exuvia.sql.parse.literals import shape_of
from exuvia.sql.parse.normalized import digest, normalized, restored
from exuvia.sql.parse.text import parse_one
from exuvia.sql.session.session import Session
from exuvia.sql.statement import bindings
from exuvia.sql.statement.bindings import SessionBindings
from support.node_processes import until
from support.world import World, rows, run

ASKED = "SELECT * FROM t WHERE a = 1 AND b = 1"


@pytest.fixture
def table(session: Session) -> Iterator[Session]:
    """With a table whose rows one of two indexes finds; what is bound is loosed again."""
    run(session, "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT, KEY a (a), KEY b (b))")
    run(session, "INSERT INTO t VALUES (1, 1, 1), (2, 2, 2)")
    yield session
    run(session, f"DROP GLOBAL BINDING FOR {ASKED}")


def index_of(session: Session, text: str = ASKED) -> str:
    """Name of the index that EXPLAIN shows, "" for none."""
    places = [row[3] for row in rows(session, f"EXPLAIN {text}") if "index:" in row[3]]
    return places[0].partition("index:")[2].partition("(")[0] if places else ""


def is_bound(session: Session, text: str = ASKED) -> bool:
    """Whether the statement was run by a binding."""
    run(session, text)
    return rows(session, "SELECT @@last_plan_from_binding") == [[1]]


# -- what a statement is ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("SELECT * FROM T WHERE A=1", "select * from `d` . `t` where `a` = ?"),
        ("select *from e.t x where x.a='q'", "select * from `e` . `t` as `x` where `x` . `a` = ?"),
        ("SELECT /*+ USE_INDEX(t, a) */ a FROM t USE INDEX (b)", "select `a` from `d` . `t`"),
        ("SELECT 1 FROM t WHERE a IN (1)", "select ? from `d` . `t` where `a` in ( ... )"),
        ("SELECT 1 FROM t WHERE a IN (1, -2)", "select ? from `d` . `t` where `a` in ( ... )"),
        ("SELECT 1 FROM t WHERE a IN (b, 2)", "select ? from `d` . `t` where `a` in ( `b` , ? )"),
        ("SELECT x'41', NULL FROM t", "select ? , null from `d` . `t`"),
        (
            "WITH c AS (SELECT 1) SELECT * FROM c, t",
            "with `c` as ( select ? ) select * from `c` , `d` . `t`",
        ),
        (
            "UPDATE t SET a = a + 1 WHERE b = 2 ORDER BY a LIMIT 3",
            "update `d` . `t` set `a` = `a` + ? where `b` = ? order by `a` limit ?",
        ),
        ("DELETE FROM t WHERE a = 1", "delete from `d` . `t` where `a` = ?"),
        (
            "INSERT INTO t (a) SELECT 1 FROM u",
            "insert into `d` . `t` ( `a` ) select ? from `d` . `u`",
        ),
        ("INSERT INTO t VALUES (1)", None),
        ("CREATE TABLE t (a INT)", None),
    ],
)
def test_statements_that_differ_in_literals_and_hints_are_one(text: str, found: str | None) -> None:
    assert normalized(parse_one(text), "d") == found


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a, 'x' FROM t WHERE a = -1 AND b IN (1, 2) ORDER BY a DESC LIMIT 5, 3",
        "UPDATE t, u SET t.a = 1.5, b = 'q' WHERE t.id = u.id",
        "DELETE t FROM t JOIN u USING (id) WHERE u.a BETWEEN 1 AND 2",
        "SELECT COUNT(DISTINCT a) FROM t GROUP BY b HAVING MAX(a) > 7 FOR UPDATE",
    ],
)
def test_a_shape_is_what_its_statements_are_and_so_is_what_is_kept(text: str) -> None:
    found = normalized(parse_one(text), "d")
    assert found is not None
    shaped = shape_of(text)
    assert shaped is not None
    assert normalized(parse_one(shaped[0]), "d") == found
    kept = restored(parse_one(text), "d")
    assert kept is not None
    assert normalized(parse_one(kept), "") == found


def test_a_digest_is_the_sha_256_of_the_text() -> None:
    assert digest("select ?") == "e1c71d1661ae46e09b7aaec1c390957f0d6260410df4e4bc71b9c8d681021471"


# -- which is used ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("own", "everybodys", "used"),
    list(product(("", "own"), ("", "enabled", "disabled"), ("ON", "OFF"))),
)
def test_the_sessions_own_come_before_all_others(
    table: Session, another: Session, own: str, everybodys: str, used: str
) -> None:
    assert index_of(table) == "a"  # without any; both are kept by shape before
    run(table, ASKED)
    if everybodys:
        hinted = ASKED.replace("FROM t", "FROM t USE INDEX (b)")
        run(another, f"CREATE GLOBAL BINDING FOR {ASKED} USING {hinted}")
    if everybodys == "disabled":
        run(another, f"SET BINDING DISABLED FOR {ASKED}")
    if own:
        hinted = ASKED.replace("SELECT", "SELECT /*+ IGNORE_INDEX(t, a, b) */")
        run(table, f"CREATE SESSION BINDING FOR {ASKED} USING {hinted}")
    run(table, f"SET tidb_use_plan_baselines = {used}")
    bound = used == "ON" and bool(own or everybodys == "enabled")
    assert index_of(table) == ("a" if not bound else "" if own else "b")
    assert [is_bound(table) for _ in range(3)] == [bound] * 3
    assert index_of(another) == ("b" if everybodys == "enabled" else "a")


def test_a_binding_is_seen_in_a_transaction_that_stays_open(table: Session) -> None:
    run(table, "BEGIN")
    run(table, "INSERT INTO t VALUES (3, 3, 3)")
    run(table, f"CREATE GLOBAL BINDING USING {ASKED.replace('FROM t', 'FROM t USE INDEX (b)')}")
    assert index_of(table) == "b"
    run(table, "ROLLBACK")
    assert rows(table, "SELECT COUNT(*) FROM t") == [[2]]
    assert index_of(table) == "b"


def test_another_database_has_other_tables(table: Session, world: World) -> None:
    run(table, f"CREATE GLOBAL BINDING USING {ASKED.replace('FROM t', 'FROM t USE INDEX (b)')}")
    qualified = ASKED.replace("FROM t", f"FROM {table.database}.t")
    elsewhere = world.session("test")
    assert index_of(elsewhere, qualified) == "b"
    run(elsewhere, "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT, KEY a (a), KEY b (b))")
    assert index_of(elsewhere) == "a"
    run(elsewhere, "DROP TABLE t")
    elsewhere.close()


def test_another_node_hears_of_it(table: Session, owner: World) -> None:
    hinted = ASKED.replace("FROM t", "FROM t USE INDEX (b)")
    with World(owner.store, owns=False) as other:
        far = other.session(table.database)
        prepared = far.prepare(ASKED.replace("1", "?"))
        far.execute_prepared(prepared, [1, 1])
        assert not is_bound(far)
        for verb, expected in (
            (f"CREATE GLOBAL BINDING FOR {ASKED} USING {hinted}", True),
            (f"SET BINDING DISABLED FOR {ASKED}", False),
            (f"SET BINDING ENABLED FOR {ASKED}", True),
            ("ALTER TABLE t ALTER INDEX b INVISIBLE", True),
            (f"DROP GLOBAL BINDING FOR {ASKED}", False),
        ):
            run(table, verb)
            until(lambda expected=expected: is_bound(far) == expected)
            far.execute_prepared(prepared, [1, 1])
            assert rows(far, "SELECT @@last_plan_from_binding") == [[int(expected)]]
        far.close()


# -- what it costs ---------------------------------------------------------------------------------


def test_nothing_is_looked_up_without_a_binding_and_once_a_shape_with_one(
    table: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    found = SessionBindings.find

    def counted(self: SessionBindings, node: Any, database: str, size: int) -> Any:
        asked.append(node)
        return found(self, node, database, size)

    monkeypatch.setattr(SessionBindings, "find", counted)
    for number in range(3):
        run(table, ASKED.replace("1", str(number)))
    run(table, "SELECT t.a FROM t JOIN t AS u USING (id) WHERE u.a = 1")  # a plan that is not kept
    assert asked == []
    run(table, f"CREATE GLOBAL BINDING USING {ASKED.replace('FROM t', 'FROM t USE INDEX (b)')}")
    for number in range(3):
        run(table, ASKED.replace("1", str(number)))
    assert len(asked) == 1
    run(table, f"DROP GLOBAL BINDING FOR {ASKED}")
    run(table, ASKED)
    assert len(asked) == 1


def test_older_nodes_are_waited_for(table: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    class Older:
        title = "127.0.0.1:4000 (0.3.0)"

    monkeypatch.setattr(bindings, "before_0_4", lambda txn: [Older])
    with pytest.raises(Refused, match="of an older release serves") as refused:
        run(table, f"CREATE GLOBAL BINDING USING {ASKED}")
    assert refused.value.code == 8200
    run(table, f"CREATE BINDING USING {ASKED}")  # nobody else has to know
    assert is_bound(table)
