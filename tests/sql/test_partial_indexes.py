"""Partial indexes: answers are those without them, fills run beside rows that come and go, faults
are found, older nodes are waited for."""

import random
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from exuvia.base.errors import Refused
from exuvia.cluster import member
from exuvia.kv import keys as k
from exuvia.kv.packet import LIVE
from exuvia.sql.session.session import Session
from support.tables import only_entry
from support.world import World, error, rows, run

PREDICATES = (
    "b > 2",
    "b <= 3",
    "b != 2",
    "b IN (1, 4)",
    "b IS NULL",
    "b IS NOT NULL",
    "b = 3 AND c > 'B'",
    "c IN ('a', 'D')",
    "d >= 1.5",
    "t > '2025-01-03'",
    "e = 'y'",
    "e != 'y' AND b < 4",
)
CONDITIONS = (
    "b > {n}", "b >= {n}", "b < {n}", "b <= {n}", "b = {n}", "b != {n}", "{n} < b",
    "b IN ({n}, 4)", "b IN ({n}, NULL)", "b BETWEEN {n} AND 4", "b IS NULL", "b IS NOT NULL",
    "b > '{n}'", "b > {n}.5", "b <=> {n}", "(b > {n} OR a = 1)", "NOT b = {n}",
    "c > '{w}'", "c = '{w}'", "c IN ('{w}', 'd')", "c LIKE '{w}%'", "c != '{w}'",
    "d > {n}", "d >= {n}.5", "d IN (1.5, {n})", "t > '2025-01-0{d}'", "t = '2025-01-0{d}'",
    "e = 'Y'", "e = {n}", "e > 1", "e IS NOT NULL", "e IN ('x', 'z')", "b > NULL",
)  # fmt: skip


@pytest.fixture
def filled(session: Session) -> Iterator[Session]:
    """A table with a partial index for each predicate, and rows."""
    run(
        session,
        "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT, c VARCHAR(5) COLLATE utf8mb4_general_ci,"
        " d DECIMAL(6,2), t TIMESTAMP NULL, e ENUM('x', 'y', 'z'))",
    )
    chance = random.Random(3)
    cells = [values(chance, n) for n in range(300)]
    run(session, f"INSERT INTO t VALUES {', '.join(cells)}")
    for n, predicate in enumerate(PREDICATES):
        run(session, f"ALTER TABLE t ADD INDEX p{n} (a) WHERE {predicate}")
    yield session


def values(chance: random.Random, n: int) -> str:
    def maybe(text: str) -> str:
        return text if chance.random() < 0.85 else "NULL"

    cells = [
        str(n),
        maybe(str(chance.randrange(6))),
        maybe(str(chance.randrange(6))),
        maybe(f"'{chance.choice('aAbBcCdD')}'"),
        maybe(f"{chance.randrange(4)}.{chance.choice(['00', '50'])}"),
        maybe(f"'2025-01-0{chance.randrange(1, 7)}'"),
        maybe(f"'{chance.choice('xyz')}'"),
    ]
    return f"({', '.join(cells)})"


@pytest.mark.parametrize("asked", [150, pytest.param(700, marks=pytest.mark.long)])
def test_answers_are_those_without_them(filled: Session, asked: int) -> None:
    chance = random.Random(7)
    taken = 0
    none = ", ".join(f"p{n}" for n in range(len(PREDICATES)))
    for _ in range(asked):
        parts = [
            each.format(n=chance.randrange(6), w=chance.choice("aBcD"), d=chance.randrange(1, 7))
            for each in chance.sample(CONDITIONS, chance.randrange(1, 4))
        ]
        if chance.random() < 0.7:
            parts.append(f"a {chance.choice(['=', '>', '<='])} {chance.randrange(6)}")
        where = " AND ".join(parts)
        if chance.random() < 0.2:
            run(filled, f"SET time_zone = '{chance.choice(['+00:00', '+05:00', 'UTC'])}'")
        tail = chance.choice(["ORDER BY id", "ORDER BY a, id", "ORDER BY a DESC, id LIMIT 5"])
        forced = chance.choice(["", f"FORCE INDEX (p{chance.randrange(len(PREDICATES))})"])
        text = f"SELECT id, a FROM t {{}} WHERE {where} {tail}"
        expected = rows(filled, text.format(f"IGNORE INDEX ({none})"))
        assert rows(filled, text.format(forced)) == expected, text.format(forced)
        plan = rows(filled, "EXPLAIN " + text.format(forced))
        taken += any("index:p" in line[3] for line in plan)
    assert taken > asked / 7, "nearly no query was answered by a partial index"


def test_a_plan_kept_by_shape_looks_at_each_runs_constants(filled: Session) -> None:
    for n in (4, 1, 5, 0, 2, 3):
        found = rows(filled, f"SELECT COUNT(*) FROM t FORCE INDEX (p0) WHERE a = 1 AND b > {n}")
        assert found == rows(
            filled, f"SELECT COUNT(*) FROM t IGNORE INDEX (p0) WHERE a = 1 AND b > {n} AND 1 = 1"
        )


def test_an_outer_join_reads_no_index_of_nulls_for_is_null(filled: Session) -> None:
    run(filled, "CREATE TABLE o (id INT PRIMARY KEY)")
    run(filled, "INSERT INTO o VALUES (1), (2), (900)")
    text = "SELECT o.id FROM o LEFT JOIN t {} ON t.id = o.id WHERE t.b IS NULL ORDER BY 1"
    assert rows(filled, text.format("FORCE INDEX (p4)")) == rows(
        filled, text.format("IGNORE INDEX (p4)")
    )


def test_entries_come_and_go_with_the_predicate(filled: Session) -> None:
    chance = random.Random(11)
    for n in range(60):
        column = chance.choice("abcdte")
        cell = values(chance, n)[1:-1].split(", ")["idabcdte".index(column) - 1]
        run(filled, f"UPDATE t SET {column} = {cell} WHERE id % 7 = {chance.randrange(7)}")
        if n % 10 == 0:
            run(filled, f"DELETE FROM t WHERE id = {chance.randrange(300)}")
    run(filled, "ADMIN CHECK TABLE t")
    run(filled, "SET GLOBAL tidb_enable_fast_table_check = OFF")
    run(filled, "SET tidb_enable_fast_table_check = OFF")
    run(filled, "ADMIN CHECK TABLE t")
    run(filled, "SET GLOBAL tidb_enable_fast_table_check = ON")


def test_planted_faults_are_found_and_put_right(world: World, filled: Session) -> None:
    run(filled, "UPDATE t SET a = 5, b = 5 WHERE id = 7")
    run(filled, "UPDATE t SET a = 5, b = 0 WHERE id = 8")

    def entry(number: int) -> bytes:
        txn = world.store.begin()
        table = world.services.schemas.table(txn, filled.database, "t")
        index = table.info.index("p0")
        assert index is not None
        held: list[Any] = [number, 5, 5, None, None, None, None]
        found = only_entry(table, index, held, k.i64(number))
        txn.rollback()
        assert found is not None
        return found[0]

    def told() -> str:
        with pytest.raises(Refused) as caught:
            run(filled, "ADMIN CHECK INDEX t p0")
        return f"{caught.value.code} {caught.value.message}"

    missing, surplus = entry(7), entry(8)
    txn = world.store.begin()
    txn.delete(missing)
    txn.commit()
    assert told().startswith("8223") and "handle: 7" in told()
    run(filled, "ADMIN RECOVER INDEX t p0")
    run(filled, "ADMIN CHECK INDEX t p0")
    txn = world.store.begin()
    txn.put(surplus, LIVE)  # the row is there, and outside of the predicate
    txn.commit()
    assert "handle: 8" in told() and "outside of the predicate" in told()
    run(filled, "ADMIN CLEANUP INDEX t p0")
    run(filled, "ADMIN CHECK TABLE t")


def test_a_fill_beside_rows_that_come_and_go(world: World, session: Session) -> None:
    run(session, "CREATE TABLE f (id INT PRIMARY KEY, a INT, b INT)")
    run(session, f"INSERT INTO f VALUES {', '.join(f'({n}, {n}, {n % 2})' for n in range(3000))}")
    stop, wrong = threading.Event(), []

    def flip(seed: int) -> None:
        client, chance = world.session(session.database), random.Random(seed)
        while not stop.is_set():
            n = chance.randrange(3000)
            try:
                run(client, f"UPDATE f SET b = 1 - b WHERE id BETWEEN {n} AND {n + 5}")
            except Refused as refused:  # another client's row
                wrong.append(refused)
        client.close()

    clients = [threading.Thread(target=flip, args=(seed,)) for seed in range(3)]
    for each in clients:
        each.start()
    try:
        run(session, "ALTER TABLE f ADD INDEX p (a) WHERE b = 1")
        run(session, "ALTER TABLE f ADD UNIQUE u (a) WHERE b = 0")
    finally:
        stop.set()
        for each in clients:
            each.join()
    run(session, "ADMIN CHECK TABLE f")
    (held,) = rows(session, "SELECT COUNT(*) FROM f WHERE b = 1")
    assert rows(session, "SELECT COUNT(*) FROM f FORCE INDEX (p) WHERE b = 1 AND a >= 0") == [held]


def test_duplicates_outside_of_the_predicate_are_none(session: Session) -> None:
    run(session, "CREATE TABLE q (id INT PRIMARY KEY, a INT, b INT)")
    run(session, "INSERT INTO q VALUES (1, 1, 0), (2, 1, 0), (3, 1, 1), (4, 2, 1), (5, 2, 1)")
    assert error(session, "ALTER TABLE q ADD UNIQUE u (a) WHERE b = 1") == (1062, "23000")
    run(session, "UPDATE q SET b = 0 WHERE id = 5")
    run(session, "ALTER TABLE q ADD UNIQUE u (a) WHERE b = 1")
    run(session, "ADMIN CHECK TABLE q")


def test_a_column_and_a_partial_index_on_it_in_one_statement(session: Session) -> None:
    run(session, "CREATE TABLE s (id INT PRIMARY KEY, a INT)")
    run(session, "INSERT INTO s VALUES (1, 1), (2, 2)")
    run(session, "ALTER TABLE s ADD COLUMN c INT DEFAULT 4, ADD INDEX p (a) WHERE c > 3")
    run(session, "UPDATE s SET c = 1 WHERE id = 1")
    run(session, "ALTER TABLE s MODIFY a BIGINT UNSIGNED")
    run(session, "ADMIN CHECK TABLE s")
    assert rows(session, "SELECT id FROM s FORCE INDEX (p) WHERE c > 3 AND a > 0") == [[2]]


def test_an_older_node_is_waited_for(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    run(session, "CREATE TABLE w (id INT PRIMARY KEY, a INT, b INT)")
    honest = member.live
    monkeypatch.setattr(
        member, "live", lambda txn: [each_of(each, "0.3.0") for each in honest(txn)]
    )
    with pytest.raises(Refused, match="of an older release serves"):
        run(session, "ALTER TABLE w ADD INDEX p (a) WHERE b > 1")
    with pytest.raises(Refused, match="of an older release serves"):
        run(session, "CREATE TABLE v (a INT, KEY (a) WHERE a > 1)")
    with pytest.raises(Refused, match="of an older release serves"):
        run(session, "ADMIN CREATE DDL GROUP g")
    run(session, "ALTER TABLE w ADD INDEX p (a)")
    run(session, "SET exuvia_undo_s = 600")
    run(session, "ALTER TABLE w DROP INDEX p")
    ((_, _, said),) = rows(session, "SHOW WARNINGS")
    assert "'p' is not kept for UNDO" in said and "of an older release serves" in said
    assert rows(session, "SELECT name FROM information_schema.exuvia_undo") == []


def each_of(info: member.MemberInfo, release: str) -> member.MemberInfo:
    from msgspec.structs import replace

    return replace(info, release=release)
