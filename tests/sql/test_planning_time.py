"""Planning takes time in proportion to a statement's length: nothing that a client sends may keep
the interpreter from other clients for long.

Each statement is run at several sizes. The exponent is that of a power of the size: 1 for linear
work, 2 for quadratic; the steeper of the line through all sizes and that through the last two.
Processor time of this thread.
"""

import gc
import math
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from exuvia.sql.session.session import Session
from support.world import World, run

SIZES = 10, 100, 1000
MANY = 9, 90, 900  # of common table expressions: 1436 from 1,000 on
FEW = 6, 20, 60  # of tables in a join, of keys
MOST = 1.4
SHORT_S = 0.025  # whatever its exponent, nobody waits for it


class Case(NamedTuple):
    """A statement by size, the tables that it needs, and the sizes."""

    name: str
    text: Callable[[int], str]
    tables: Callable[[int], list[str]] = lambda n: []
    sizes: tuple[int, int, int] = SIZES

    @property
    def short(self) -> tuple[int, ...]:
        """Two sizes for `make test`."""
        return self.sizes[1:] if self.sizes is FEW else (3 * self.sizes[0], 3 * self.sizes[1])


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


def chained(n: int) -> str:
    return "t t0" + "".join(f" JOIN t t{k} ON t{k}.id = t{k - 1}.id" for k in range(1, n))


def keyed(n: int) -> list[str]:
    columns, keys = listed(n, "c{0} INT"), listed(n, "KEY (c{0})")
    return [f"CREATE TABLE k (id INT PRIMARY KEY, {columns}, {keys})"]


def referring(n: int) -> list[str]:
    keys = listed(n, "FOREIGN KEY (c{0}) REFERENCES t (id)")
    return [*narrow(n), f"CREATE TABLE made (id INT PRIMARY KEY, {listed(n, 'c{0} INT')}, {keys})"]


def cut(n: int) -> list[str]:
    parts = listed(n, "PARTITION p{0} VALUES LESS THAN ({0})")
    return [f"CREATE TABLE p (id INT PRIMARY KEY, a INT) PARTITION BY RANGE (id) ({parts})"]


VALUE = "('x{0}')"


def quoted(n: int) -> str:
    return listed(n, "'x{0}'")


def named(n: int) -> list[str]:
    return [f"CREATE TABLE e (a ENUM({quoted(n)}))"]


def checked(n: int) -> list[str]:
    return [f"CREATE TABLE m (id INT PRIMARY KEY, {listed(n, 'c{0} INT CHECK (c{0}>0)')})"]


def generated(n: int) -> list[str]:
    return [f"CREATE TABLE g (c INT PRIMARY KEY, {listed(n, 'c{0} INT AS (c+{0})')})"]


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
    Case("tables", lambda n: f"SELECT COUNT(*) FROM {chained(n)}", narrow, FEW),
    Case(
        "left join",
        lambda n: f"SELECT COUNT(*) FROM t {listed(n, 'LEFT JOIN t t{0} ON t{0}.id = t.a', ' ')}",
        narrow,
        FEW,
    ),
    Case(
        "exists",
        lambda n: (
            "SELECT a FROM t WHERE "
            + listed(n, "EXISTS (SELECT 1 FROM t x WHERE x.a = t.id)", " AND ")
        ),
        narrow,
        FEW,
    ),
    Case(
        "derived",
        lambda n: f"SELECT * FROM {'(SELECT * FROM ' * n}t{listed(n, ') d{0}', '')}",
        narrow,
        FEW,
    ),
    Case(
        "chained ctes",
        lambda n: (
            f"WITH q AS (SELECT 1 a), q0 AS (SELECT * FROM q)"
            f"{listed(n, ', r{0} AS (SELECT a FROM q0)', '')} SELECT * FROM r{n - 1}"
        ),
        sizes=MANY,
    ),
    Case("in numbers", lambda n: f"SELECT a FROM t WHERE id IN ({listed(n, '{0}')})", narrow),
    Case("in rows", lambda n: f"SELECT a FROM t WHERE (id, a) IN ({listed(n, '({0},1)')})", narrow),
    Case("concat", lambda n: f"SELECT CONCAT({listed(n, 'b,{0}')}) FROM t", narrow),
    Case(
        "grouped items",
        lambda n: f"SELECT {listed(n, 'a+{0}')} FROM t GROUP BY {listed(n, 'a+{0}')}",
        narrow,
    ),
    Case(
        "distinct items in order",
        lambda n: f"SELECT DISTINCT {listed(n, 'a+{0}')} FROM t ORDER BY {listed(n, 'a+{0}')}",
        narrow,
    ),
    Case("set variables", lambda n: f"SET {listed(n, '@v{0} = {0}')}"),
    Case("variables", lambda n: f"SELECT {listed(n, '@v{0}')}"),
    Case("statements", lambda n: listed(n, "SELECT {0} /*a*/", ";")),
    Case(
        "having",
        lambda n: f"SELECT a FROM t GROUP BY a HAVING {listed(n, 'a<>{0}', ' AND ')}",
        narrow,
    ),
    Case(
        "mixed",
        lambda n: f"SELECT id FROM w WHERE {listed(n, '(c{0}=1 AND id=2)', ' OR ')}",
        wide_only,
    ),
    Case("using", lambda n: f"SELECT w.id FROM w JOIN w x USING ({listed(n)})", wide_only),
    Case("keys", lambda n: f"SELECT id FROM k WHERE {listed(n, 'c{0}=1', ' AND ')}", keyed, FEW),
    Case("keys or", lambda n: f"SELECT id FROM k WHERE {listed(n, 'c{0}=1', ' OR ')}", keyed, FEW),
    Case("create keys", lambda n: keyed(n)[0], sizes=FEW),
    Case("foreign keys", lambda n: referring(n)[1], lambda n: referring(n)[:1], FEW),
    Case("create partitions", lambda n: cut(n)[0]),
    Case("partitions", lambda n: "SELECT * FROM p WHERE id = 3 OR a = 1", cut),
    Case("partitions in", lambda n: f"SELECT * FROM p WHERE id IN ({listed(n, '{0}')})", cut),
    Case("enum", lambda n: f"CREATE TABLE e (a ENUM({quoted(n)}))"),
    Case("enum values", lambda n: f"INSERT INTO e VALUES {listed(n, VALUE)}", named),
    Case("insert checks", lambda n: "INSERT INTO m (id) VALUES (1)", checked),
    Case("insert generated", lambda n: "INSERT INTO g (c) VALUES (1)", generated),
    Case(
        "create view",
        lambda n: f"CREATE VIEW v AS SELECT {listed(n, 'a+{0} AS c{0}')} FROM t",
        narrow,
    ),
    Case(
        "prepare",
        lambda n: f"PREPARE s FROM 'SELECT a FROM t WHERE id IN ({listed(n, '?')})'",
        narrow,
    ),
    Case(
        "explain", lambda n: f"EXPLAIN SELECT a FROM t WHERE {listed(n, 'id={0}', ' OR ')}", narrow
    ),
    Case(
        "ctes",
        lambda n: f"WITH {listed(n, 'q{0} AS (SELECT {0})')} SELECT * FROM q0",
        sizes=MANY,
    ),
]


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with World() as world:
        session = world.session("")
        run(session, "CREATE DATABASE loaded")
        run(session, "CREATE TABLE loaded.t (id INT PRIMARY KEY)")
        run(session, "SELECT 1 FROM loaded.t JOIN loaded.t u USING (id)")  # loads DuckDB
        session.close()
        yield world


def seconds_of(session: Session, case: Case, size: int) -> float:
    """In a database of its own: no plan is kept for it."""
    database = f"{case.name.replace(' ', '_')}_{size}"
    run(session, f"CREATE DATABASE {database}")
    run(session, f"USE {database}")
    for table in case.tables(size):
        run(session, table)
    text = case.text(size)
    gc.disable()
    began = time.thread_time()
    session.execute(text)
    took_s = time.thread_time() - began
    gc.enable()
    run(session, f"DROP DATABASE {database}")
    return took_s


def is_linear(session: Session, case: Case, sizes: tuple[int, ...]) -> str:
    """ "" where it is, else what was measured."""
    took_s = [seconds_of(session, case, size) for size in sizes]
    logs = [(math.log(size), math.log(s)) for size, s in zip(sizes, took_s, strict=True)]
    x, y = (sum(each) / len(logs) for each in zip(*logs, strict=True))
    fit = sum((a - x) * (b - y) for a, b in logs) / sum((a - x) ** 2 for a, _ in logs)
    last = (logs[-1][1] - logs[-2][1]) / (logs[-1][0] - logs[-2][0])
    if max(fit, last) < MOST or took_s[-1] < SHORT_S:
        return ""
    shown = ", ".join(f"{size}: {s:.4f} s" for size, s in zip(sizes, took_s, strict=True))
    return f"exponents {fit:.2f} and {last:.2f}: {shown}"


def check_linear(world: World, case: Case, sizes: tuple[int, ...]) -> None:
    session = world.session("")
    found = is_linear(session, case, sizes)
    if found:  # another process took the caches, or something was loaded
        found = is_linear(session, case, sizes)
    session.close()
    assert not found


@pytest.mark.alone
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_planning_is_linear_in_the_length_of_the_statement(case: Case, world: World) -> None:
    check_linear(world, case, case.short)


@pytest.mark.alone
@pytest.mark.long
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_planning_is_linear_at_three_sizes(case: Case, world: World) -> None:
    check_linear(world, case, case.sizes)
