"""Planning takes time in proportion to a statement's length: nothing that a client sends may keep
the interpreter from other clients for long.

Each statement is run at two sizes, ten times apart. The exponent is that of a power of the size: 1
for linear work, 2 for quadratic. Processor time of this thread, the least of several runs.
"""

import gc
import math
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from exuvia.sql.session.session import Session
from support.world import World, run

SMALL, LARGE = 60, 600
MOST = 1.4
RUNS = 2
SHORT_S = 0.025  # whatever its exponent, nobody waits for it


class Case(NamedTuple):
    """A statement by size, and the tables that it needs."""

    name: str
    text: Callable[[int], str]
    tables: Callable[[int], list[str]] = lambda n: []


def listed(n: int, pattern: str = "c{0}", by: str = ",") -> str:
    return by.join(pattern.format(i) for i in range(n))


def wide(n: int, name: str = "w") -> str:
    return f"CREATE TABLE {name} (id INT PRIMARY KEY, {listed(n, 'c{0} INT')})"


def wide_only(n: int) -> list[str]:
    return [wide(n)]


def two_wide(n: int) -> list[str]:
    return [wide(n), f"CREATE TABLE x (id INT PRIMARY KEY, {listed(n, 'd{0} INT')})"]


def with_view(n: int) -> list[str]:
    return [wide(n), f"CREATE VIEW v AS SELECT {listed(n)} FROM w"]


def narrow(n: int) -> list[str]:
    return ["CREATE TABLE t (id INT PRIMARY KEY, a INT, b VARCHAR(20))"]


CASES = [
    Case("columns", lambda n: f"SELECT {listed(n)} FROM w", wide_only),
    Case("expressions", lambda n: f"SELECT {listed(n, 'c{0}+1')} FROM w WHERE id = 1", wide_only),
    Case("where", lambda n: f"SELECT id FROM w WHERE {listed(n, 'c{0}=1', ' AND ')}", wide_only),
    Case("group by", lambda n: f"SELECT COUNT(*) FROM w GROUP BY {listed(n)}", wide_only),
    Case("order by", lambda n: f"SELECT {listed(n)} FROM w ORDER BY {listed(n)}", wide_only),
    Case("aggregates", lambda n: f"SELECT {listed(n, 'SUM(c{0})')} FROM w", wide_only),
    Case("update", lambda n: f"UPDATE w SET {listed(n, 'c{0}=c{0}+1')} WHERE id = 1", wide_only),
    Case("delete", lambda n: f"DELETE FROM w WHERE {listed(n, 'c{0}=1', ' OR ')}", wide_only),
    Case(
        "insert",
        lambda n: (
            f"INSERT INTO w (id, {listed(n)}) VALUES (1, {listed(n, '1+1')})"
            f" ON DUPLICATE KEY UPDATE {listed(n, 'c{0}=VALUES(c{0})+c{0}')}"
        ),
        wide_only,
    ),
    Case(
        "insert select",
        lambda n: f"INSERT INTO w (id, {listed(n)}) SELECT id, {listed(n, 'd{0}')} FROM x",
        two_wide,
    ),
    Case(
        "join",
        lambda n: f"SELECT {listed(n)} FROM w JOIN x ON {listed(n, 'c{0}=d{0}', ' AND ')}",
        two_wide,
    ),
    Case("view", lambda n: f"SELECT {listed(n)} FROM v", with_view),
    Case(
        "information_schema",
        lambda n: (
            "SELECT * FROM information_schema.columns"
            " WHERE table_schema = DATABASE() AND table_name = 'w'"
        ),
        wide_only,
    ),
    Case("create table", lambda n: wide(n, "made")),
    Case(
        "checks",
        lambda n: f"CREATE TABLE made (id INT PRIMARY KEY, {listed(n, 'c{0} INT CHECK (c{0}>0)')})",
    ),
    Case(
        "generated columns",
        lambda n: (
            "CREATE TABLE made (c INT PRIMARY KEY, c_ INT AS (c), "
            + ",".join(f"c{i} INT AS (c{i - 1 if i else '_'} + 1)" for i in range(n))
            + ")"
        ),
    ),
    Case("terms", lambda n: f"SELECT {listed(n, 'a', '+')} FROM t WHERE id = 1", narrow),
    Case("and", lambda n: f"SELECT id FROM t WHERE {listed(n, 'a<>{0}', ' AND ')}", narrow),
    Case("or", lambda n: f"SELECT id FROM t WHERE {listed(n, 'id={0}', ' OR ')}", narrow),
    Case(
        "pairs", lambda n: f"SELECT id FROM t WHERE {listed(n, '(id={0} AND a=1)', ' OR ')}", narrow
    ),
    Case("in", lambda n: f"SELECT id FROM t WHERE a IN ({listed(n, 'id+{0}')})", narrow),
    Case(
        "case", lambda n: f"SELECT CASE {listed(n, 'WHEN a={0} THEN {0}', ' ')} END FROM t", narrow
    ),
    Case(
        "values", lambda n: f"INSERT INTO t VALUES {listed(n, '({0}+1, 2*{0}, CHAR(65))')}", narrow
    ),
    Case("union", lambda n: listed(n, "SELECT {0}", " UNION ALL ")),
    Case("ctes", lambda n: f"WITH {listed(n, 'q{0} AS (SELECT {0})')} SELECT * FROM q0"),
]


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with World() as world:
        yield world


def seconds_of(session: Session, case: Case, size: int) -> float:
    """The least time of several runs, each in a database of its own: no plan is kept for it."""
    times = []
    for n in range(RUNS):
        database = f"{case.name.replace(' ', '_')}_{size}_{n}"
        run(session, f"CREATE DATABASE {database}")
        run(session, f"USE {database}")
        for table in case.tables(size):
            run(session, table)
        text = case.text(size)
        gc.disable()
        began = time.thread_time()
        run(session, text)
        times.append(time.thread_time() - began)
        gc.enable()
        run(session, f"DROP DATABASE {database}")
    return min(times)


@pytest.mark.alone
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_planning_is_linear_in_the_length_of_the_statement(case: Case, world: World) -> None:
    session = world.session("")
    small, large = (seconds_of(session, case, size) for size in (SMALL, LARGE))
    session.close()
    exponent = math.log(large / small) / math.log(LARGE / SMALL)
    assert exponent < MOST or large < SHORT_S, f"{small:.4f} s, then {large:.4f} s"
