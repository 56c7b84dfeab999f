"""Global indexes of the elements of arrays: answers are those without them, unique elements hold
across partitions, partitions come, go and move beside writers, faults are found."""

import json
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product

import pytest
from msgspec.structs import replace

from exuvia.base.errors import Refused
from exuvia.catalog import meta
from exuvia.catalog.codec.key_codec import index_entries
from exuvia.cluster import member
from exuvia.kv import keys as k
from exuvia.kv.packet import LIVE, WriteKind, is_live
from exuvia.kv.transaction import Transaction
from exuvia.sql.session.session import Session
from support.few import one_in
from support.node_processes import until
from support.world import PAUSE_S, World, error, rows, run

BY_RANGE = (
    "PARTITION BY RANGE (b) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN"
    " (20), PARTITION p2 VALUES LESS THAN MAXVALUE)"
)
BY_HASH = "PARTITION BY HASH (b) PARTITIONS 3"
SPLIT = (
    "REORGANIZE PARTITION p0, p1 INTO (PARTITION q0 VALUES LESS THAN (3), PARTITION q1 VALUES LESS"
    " THAN (12), PARTITION q2 VALUES LESS THAN (20))"
)
KEYS = (
    "id INT",
    "id INT, PRIMARY KEY (id, b)",
    "id VARCHAR(5), PRIMARY KEY (id, b)",
    "id INT, PRIMARY KEY (id) NONCLUSTERED GLOBAL",
)
INDEXES = {
    "n": "INDEX n ((CAST(j->'$.n' AS SIGNED ARRAY))) GLOBAL",
    "an": "INDEX an (a, (CAST(j->'$.n' AS SIGNED ARRAY))) GLOBAL",
    "ca": "INDEX ca ((CAST(j->'$.c' AS CHAR(3) ARRAY)), a) GLOBAL",
    "q": "UNIQUE INDEX q ((CAST(j->'$.q' AS UNSIGNED ARRAY))) GLOBAL",
    "d": "INDEX d ((CAST(j->'$.d' AS DATE ARRAY))) GLOBAL",
    "ln": "INDEX ln ((CAST(j->'$.n' AS SIGNED ARRAY)), b)",
    "ga": "INDEX ga (a) GLOBAL",
}
ELEMENTS = 400
"""That are unique: numbers below it."""


def document(chance: random.Random, unique: list[int]) -> str:
    whole: dict[str, object] = {
        "n": [chance.randrange(-2, 9) for _ in range(chance.randrange(5))],
        "c": [chance.choice(["a", "a ", "ü", "abc"]) for _ in range(chance.randrange(3))],
        "d": f"2024-01-0{chance.randrange(1, 7)}",
        "q": unique,
    }
    kept = {name: each for name, each in whole.items() if chance.random() < 0.9}
    return json.dumps(kept, ensure_ascii=False)


def cells(chance: random.Random, n: int, unique: list[int]) -> str:
    a = chance.choice(["NULL", *map(str, range(4))])
    j = "NULL" if chance.random() < 0.1 else f"'{document(chance, unique)}'"
    return f"({n}, {a}, {chance.randrange(30)}, {j})"


def made(session: Session, key: str = KEYS[0], cut: str = BY_RANGE, *, number: int = 200) -> None:
    """t (id, a, b, j) with all indexes, the first of them in its definition; half of the rows are
    there before the others are added."""
    chance = random.Random(4)
    b = "b INT NOT NULL" if "PRIMARY KEY (id, b)" in key else "b INT"
    first = f"{INDEXES['n']}, {INDEXES['q']}"
    run(session, f"CREATE TABLE t (a INT, {b}, j JSON, {key}, {first}) {cut}")
    free = list(range(ELEMENTS))
    chance.shuffle(free)

    def put(part: range) -> None:
        some = [cells(chance, n, [free.pop() for _ in range(chance.randrange(3))]) for n in part]
        if some:
            run(session, f"INSERT INTO t (id, a, b, j) VALUES {', '.join(some)}")

    put(range(number // 2))
    for each in (each for name, each in INDEXES.items() if name not in "nq"):
        run(session, f"ALTER TABLE t ADD {each}")
    put(range(number // 2, number))


def checked(session: Session) -> None:
    """By sums, and entry by entry."""
    for fast in ("ON", "OFF"):
        run(session, f"SET tidb_enable_fast_table_check = {fast}")
        run(session, "ADMIN CHECK TABLE t")
    run(session, "SET tidb_enable_fast_table_check = ON")


def named(world: World, session: Session, index: str) -> tuple[set[bytes], set[bytes]]:
    """The ids of partitions that live entries of a global index name, and of those there are."""
    txn = world.store.begin()
    table = world.services.schemas.table(txn, session.database, "t")
    found = table.info.index(index)
    assert found is not None and found.is_global
    form, names = table.form(found), set()
    for key, payload in txn.scan(table.index_span(found)):
        if is_live(payload):
            handle = payload[1:] or key[form.keys.decode(key, k.VALUES_AT)[1] :]
            names.add(handle[:8])
    txn.rollback()
    return names, {part.row_prefix[1:9] for part in table.parts}


# -- what is read ----------------------------------------------------------------------------------


ASKED = (
    "{n} MEMBER OF (j->'$.n')", "'{n}' MEMBER OF (j->'$.n')", "{n}.0 MEMBER OF (j->'$.n')",
    "JSON_CONTAINS(j->'$.n', '[{n}, {m}]')", "JSON_CONTAINS(j->'$.n', '[]')",
    "JSON_OVERLAPS(j->'$.n', '[{n}, {m}]')", "JSON_OVERLAPS(j->'$.n', '[{n}, \"x\"]')",
    "JSON_OVERLAPS(j->'$.q', '[{u}, {v}]')", "{u} MEMBER OF (j->'$.q')",
    "'{w}' MEMBER OF (j->'$.c')", "JSON_OVERLAPS(j->'$.c', '[\"{w}\", \"zz\"]')",
    "'2024-01-0{m}' MEMBER OF (j->'$.d')",
)  # fmt: skip
BESIDE = ("a = {a}", "a > {a}", "b < {b}", "b = {b}", "b IN ({b}, 3)", "a IS NULL")


def answers(session: Session, number: int, seed: int = 9) -> None:
    """Whatever is asked, all rows say the same."""
    chance = random.Random(seed)
    taken, found = 0, 0
    for _ in range(number):
        asked = [chance.choice(ASKED), *chance.sample(BESIDE, chance.choice([0, 1, 1, 2]))]
        where = " AND ".join(asked).format(
            n=chance.randrange(-2, 9), m=chance.randrange(1, 7), a=chance.randrange(4),
            u=chance.randrange(ELEMENTS), v=chance.randrange(ELEMENTS), b=chance.randrange(30),
            w=chance.choice(["a", "a ", "A", "ü", "abc"]),
        )  # fmt: skip
        hint = chance.choice(["", "", f"USE INDEX ({chance.choice(list(INDEXES))})"])
        part = chance.choice(["", "", " PARTITION (p1)"])
        tail = chance.choice(["", "FOR UPDATE"])
        text = f"SELECT id, a, b, j FROM t{part} {{}} WHERE {where} ORDER BY id, b {tail}"
        expected = rows(session, text.format(f"IGNORE INDEX ({', '.join(INDEXES)})"))
        assert rows(session, text.format(hint)) == expected, text.format(hint)
        plan = rows(session, "EXPLAIN " + text.format(hint))
        taken += any("IndexMerge" in line[0] for line in plan)
        found += bool(expected)
    assert taken > number / 3, "nearly no query was answered by elements"
    assert found > number / 5, "nearly no query found a row"


CUTS = (BY_RANGE, BY_HASH.replace("HASH", "KEY"), BY_RANGE, BY_RANGE)


@pytest.mark.parametrize(("key", "cut"), one_in(4, zip(KEYS, CUTS, strict=True)))
def test_answers_are_those_without_them(session: Session, key: str, cut: str) -> None:
    made(session, key, cut)
    checked(session)
    answers(session, 120)
    run(session, "BEGIN")  # some rows of the transaction's own
    run(session, "UPDATE t SET b = 29 - b WHERE a = 1")
    run(session, "UPDATE t SET j = JSON_SET(j, '$.n', JSON_ARRAY(3, 4, 3)) WHERE a = 2")
    run(session, "DELETE FROM t WHERE a = 3 AND b < 9")
    run(session, 'INSERT INTO t (id, a, b, j) VALUES (901, 1, 4, \'{"n": [3, 5], "q": 9999}\')')
    answers(session, 60, 2)
    run(session, "COMMIT")
    run(session, "ANALYZE TABLE t")
    answers(session, 30, 3)
    checked(session)


def test_rows_that_others_changed_are_seen_beside_own_ones(
    session: Session, another: Session
) -> None:
    made(session)
    run(session, "BEGIN")
    rows(session, "SELECT COUNT(*) FROM t")
    run(another, "UPDATE t SET b = 29 - b, j = JSON_SET(j, '$.n', JSON_ARRAY(5)) WHERE id < 40")
    run(another, "DELETE FROM t WHERE id BETWEEN 40 AND 60")
    run(session, "UPDATE t SET a = 3, b = (b + 10) % 30 WHERE id IN (2, 5, 70, 71)")
    answers(session, 60)
    run(session, "COMMIT")
    checked(session)


def test_a_path_that_is_read_instead_spans_partitions_too(session: Session) -> None:
    """Where the constants of a run are no elements another index is read: a global one as that."""
    made(session)
    asked = "SELECT id FROM t {} WHERE a > 1 AND JSON_OVERLAPS(j->'$.n', {}) ORDER BY id"
    for first in ("ln", "n", "an"):
        hint = f"USE INDEX ({first}, ga)"
        text = asked.format(hint, "?").replace("'", "''")
        run(session, f"PREPARE p FROM '{text}'")
        for constant in ("[3]", '[3, "x"]', "3", '["x"]', "[4, 1.5, 5]", "[]", "[3, 5]"):
            run(session, f"SET @c = '{constant}'")
            expected = rows(session, asked.format("USE INDEX ()", f"'{constant}'"))
            assert rows(session, "EXECUTE p USING @c") == expected, (first, constant)
            assert bool(expected) == any(each in constant for each in "345")
    plan = rows(session, "EXPLAIN " + asked.format("USE INDEX (ln, ga)", "'[3, \"x\"]'"))
    assert any("index:ga(a)" in line[3] for line in plan), plan


def test_it_is_shown_and_explained(session: Session) -> None:
    made(session)
    ((_, text),) = rows(session, "SHOW CREATE TABLE t")
    assert (
        "UNIQUE KEY `q` ((cast(json_extract(`j`, _utf8mb4'$.q') as unsigned array)))"
        " /*T![global_index] GLOBAL */" in text
    )
    run(session, "RENAME TABLE t TO u")
    run(session, text)
    assert rows(session, "SHOW CREATE TABLE t")[0][1] == text
    run(session, "CREATE TABLE w LIKE t")
    assert rows(session, "SHOW CREATE TABLE w")[0][1] == text.replace("`t`", "`w`")
    shown = {line[2]: line[-1] for line in rows(session, "SHOW INDEX FROM t")}
    assert shown["q"] == shown["an"] == "YES" and shown["ln"] == "NO"
    asked = "SELECT id FROM u USE INDEX (n) WHERE JSON_OVERLAPS(j->'$.n', '[3, 4]') AND b < 20"
    plan = rows(session, f"EXPLAIN {asked}")
    titles = [line[0].strip("└─├│ ").rpartition("_")[0] for line in plan]
    assert "IndexMerge" in titles and titles.count("Selection") >= 2, plan
    assert any(line[3] == "partition:p0,p1" for line in plan)
    assert sum(line[4].startswith("in(_tidb_tid, ") for line in plan) == 2
    ((found,),) = rows(session, asked.replace("SELECT id", "SELECT COUNT(*)"))
    counted = rows(session, f"EXPLAIN ANALYZE {asked}")
    (top,) = [line for line in counted if "IndexMerge" in line[0]]
    assert found > 0 and top[2] == str(found), counted


# -- unique elements -------------------------------------------------------------------------------


@pytest.mark.parametrize("key", KEYS)
def test_unique_elements_hold_across_partitions(session: Session, key: str) -> None:
    made(session, key, number=0)

    def put(text: str) -> None:
        run(session, text.replace("INTO t ", "INTO t (id, a, b, j) "))

    def refused(text: str, element: int) -> None:
        with pytest.raises(Refused, match=rf"Duplicate entry '{element}' for key 't\.q'"):
            put(text)

    put("INSERT INTO t VALUES (1, 1, 1, '{\"q\": [1, 2, 2]}'), (2, 2, 15, '{\"q\": [3]}')")
    put("INSERT INTO t VALUES (3, 3, 25, '{\"q\": []}'), (4, 4, 1, NULL), (5, 5, 15, '{}')")
    refused("INSERT INTO t VALUES (6, 6, 25, '{\"q\": [8, 2]}')", 2)
    refused("UPDATE t SET j = '{\"q\": [9, 1]}' WHERE id = 2", 1)
    refused("UPDATE t SET j = '{\"q\": [9, 1]}', b = 1 WHERE id = 2", 1)
    run(session, "UPDATE t SET b = 25 WHERE id = 1")  # its partition changes, its elements do not
    run(session, "UPDATE t SET b = 5, j = '{\"q\": [2, 4]}' WHERE id = 1")  # some of them do
    put("INSERT IGNORE INTO t VALUES (6, 6, 25, '{\"q\": [4]}'), (7, 7, 25, '{\"q\": [1]}')")
    put("INSERT INTO t VALUES (8, 8, 15, '{\"q\": [7, 4]}') ON DUPLICATE KEY UPDATE"
        " j = '{\"q\": [4, 8]}', b = 15")  # fmt: skip
    put("REPLACE INTO t VALUES (9, 9, 5, '{\"q\": [3, 1, 5]}')")
    found = rows(session, "SELECT id, b, j->'$.q' FROM t ORDER BY a")
    assert [[int(line[0]), *line[1:]] for line in found] == [
        *([1, 15, "[4, 8]"], [3, 25, "[]"], [4, 1, None], [5, 15, None], [9, 5, "[3, 1, 5]"]),
    ]
    run(session, "BEGIN")
    run(session, "DELETE FROM t WHERE id = 9")
    put("INSERT INTO t VALUES (11, 10, 25, '{\"q\": [5, 6]}')")
    run(session, "UPDATE t SET b = 1, j = '{\"q\": [6, 3]}' WHERE a = 10")
    run(session, "UPDATE t SET b = 15, j = '{\"q\": [5, 3]}' WHERE a = 10")
    run(session, "COMMIT")
    assert rows(session, "SELECT a FROM t WHERE 3 MEMBER OF (j->'$.q')") == [[10]]
    assert rows(session, "SELECT a FROM t WHERE 6 MEMBER OF (j->'$.q')") == []
    checked(session)


def test_two_writers_of_one_element_meet_at_the_commit(session: Session, another: Session) -> None:
    made(session, number=0)
    for each in (session, another):
        run(each, "BEGIN OPTIMISTIC")
    run(session, "INSERT INTO t (id, b, j) VALUES (1, 1, '{\"q\": [7, 8]}')")
    run(another, "INSERT INTO t (id, b, j) VALUES (2, 25, '{\"q\": [9, 8]}')")
    run(session, "COMMIT")
    with pytest.raises(Refused, match=r"Duplicate entry '8' for key 't\.q'"):
        run(another, "COMMIT")
    checked(session)


def test_a_fill_finds_what_is_twice_in_two_partitions(session: Session) -> None:
    made(session, number=0)
    run(session, "ALTER TABLE t DROP INDEX q")
    run(session, "INSERT INTO t (id, b, j) VALUES (1, 1, '{\"q\": [1, 2]}'),"
        " (2, 25, '{\"q\": [3, 2]}'), (3, 15, '{\"q\": [4, 4]}'), (4, 1, NULL)")  # fmt: skip
    for most in (100_000, 0):  # before there is a job, and by the fill
        run(session, f"SET GLOBAL exuvia_preflight_rows = {most}")
        with pytest.raises(Refused, match=r"Duplicate entry '2' for key 't\.q'"):
            run(session, f"ALTER TABLE t ADD {INDEXES['q']}")
    run(session, 'UPDATE t SET j = \'{"q": [3, 5, "x"]}\' WHERE id = 2')
    for most in (100_000, 0):
        run(session, f"SET GLOBAL exuvia_preflight_rows = {most}")
        assert error(session, f"ALTER TABLE t ADD {INDEXES['q']}") == (3903, "22018")
    run(session, "SET GLOBAL exuvia_preflight_rows = DEFAULT")
    run(session, "UPDATE t SET j = '{\"q\": [3, 5]}' WHERE id = 2")
    run(session, f"ALTER TABLE t ADD {INDEXES['q']}")
    taken = "INSERT INTO t (id, b, j) VALUES (5, 15, '{\"q\": [9, 5]}')"
    assert error(session, taken) == (1062, "23000")
    checked(session)


# -- beside writers --------------------------------------------------------------------------------


@contextmanager
def writers_beside(world: World, session: Session, key: str) -> Iterator[Callable[[], None]]:
    """Two clients change, move, remove and add rows of t, each its own ones, with elements that
    both want. Yields what waits until they have done some more."""
    stop, failed, done = threading.Event(), [], []
    models: list[dict[int, list[int]]] = [{}, {}]

    def writes(place: int) -> None:
        chance, model = random.Random(place), models[place]
        writer = world.session(session.database)
        try:
            while not stop.wait(PAUSE_S):
                n, b = 1000 * (place + 1) + chance.randrange(30), chance.randrange(30)
                q = chance.sample(range(1000, 1060), chance.randrange(4))
                j = json.dumps({"q": q, "n": [e % 7 for e in q]})
                new = q if n in model else None
                text, after = chance.choice((
                    (f"INSERT INTO t (id, a, b, j) VALUES ({n}, 1, {b}, '{j}')", q),
                    (f"UPDATE t SET b = {b} WHERE id = '{n}'", model.get(n)),
                    (f"UPDATE t SET b = {b}, j = '{j}' WHERE id = '{n}'", new),
                    (f"UPDATE t SET j = '{j}' WHERE id = '{n}'", new),
                    (f"DELETE FROM t WHERE id = '{n}'", None),
                ))  # fmt: skip
                if text.startswith("INSERT") and n in model:
                    continue
                try:
                    run(writer, text)
                except Refused as refused:
                    assert refused.code in (1062, 1213, 1526, 8028), refused
                    continue
                if after is None:
                    model.pop(n, None)
                else:
                    model[n] = after
                for element in q[:1]:
                    asked = f"SELECT id FROM t WHERE {element} MEMBER OF (j->'$.q')"
                    assert len(rows(writer, asked)) <= 1
                done.append(n)
        except BaseException as error:
            failed.append(error)
        finally:
            writer.close()

    def more() -> None:
        seen = len(done)
        while len(done) < seen + 10 and not failed:
            threads[0].join(0.01)

    threads = [threading.Thread(target=writes, args=(n,), daemon=True) for n in range(2)]
    for each in threads:
        each.start()
    try:
        more()
        yield more
        more()
    finally:
        stop.set()
        for each in threads:
            each.join(20)
    assert not failed, failed
    found = rows(session, "SELECT id, j FROM t WHERE a = 1 AND id >= 1000")
    assert {int(line[0]): json.loads(line[1])["q"] for line in found} == models[0] | models[1]
    checked(session)


@pytest.mark.parametrize("key", one_in(4, KEYS, first=1))
def test_they_are_added_and_written_anew_beside_writers(
    world: World, session: Session, key: str
) -> None:
    made(session, key, number=120)
    run(session, "UPDATE t SET a = 0")
    with writers_beside(world, session, key) as more:
        run(session, "ALTER TABLE t DROP INDEX an, DROP INDEX ca")
        run(session, "ALTER TABLE t RENAME INDEX n TO by_n")
        for each in (INDEXES["an"], INDEXES["ca"], INDEXES["n"]):
            run(session, f"ALTER TABLE t ADD {each}")
            more()
        run(
            session, "ALTER TABLE t MODIFY a DECIMAL(12)"
        )  # rows are written anew, and an with them
        more()
        run(session, "ALTER TABLE t MODIFY a BIGINT UNSIGNED")
    run(session, "ALTER TABLE t DROP INDEX by_n")
    answers(session, 40)


CHANGES = (
    (SPLIT, "REORGANIZE PARTITION q1, q2 INTO (PARTITION p1 VALUES LESS THAN (20))"),
    (
        "PARTITION BY HASH (b) PARTITIONS 2 UPDATE INDEXES (n LOCAL, ca LOCAL, ln GLOBAL)",
        "ADD PARTITION PARTITIONS 2",
        "COALESCE PARTITION 1",
        f"{BY_RANGE} UPDATE INDEXES (n GLOBAL, ln LOCAL)",
    ),
    (
        "REMOVE PARTITIONING",
        f"{BY_RANGE} UPDATE INDEXES (q GLOBAL, n GLOBAL, an GLOBAL, ca GLOBAL, ga GLOBAL)",
    ),
)


@pytest.mark.parametrize(
    ("key", "changes"),
    one_in(13, product(KEYS[:3], CHANGES), first=5),
)
def test_rows_move_into_other_partitions_beside_writers(
    world: World, session: Session, key: str, changes: tuple[str, ...]
) -> None:
    made(session, key, number=120)
    run(session, "UPDATE t SET a = 0")
    before = rows(session, "SELECT * FROM t WHERE a = 0 ORDER BY id, b")
    with writers_beside(world, session, key) as more:
        for each in changes:
            run(session, f"ALTER TABLE t {each}")
            more()
    names, there = named(world, session, "q")
    assert names <= there and len(names) > 1
    assert rows(session, "SELECT * FROM t WHERE a = 0 ORDER BY id, b") == before
    answers(session, 40)
    text = rows(session, "SHOW CREATE TABLE t")[0][1]
    spread = {"q", "n", "an", "ca", "ga"} - ({"ca"} if "HASH" in changes[0] else set())
    for name in spread:
        (line,) = [each for each in text.split("\n") if f"KEY `{name}` " in each]
        assert line.rstrip(",").endswith("/*T![global_index] GLOBAL */"), line


def test_partitions_go_beside_writers_of_their_elements(world: World, session: Session) -> None:
    made(session, KEYS[1], number=60)
    stop, failed = threading.Event(), []

    def writes(seed: int) -> None:
        chance, writer = random.Random(seed), world.session(session.database)
        try:
            while not stop.wait(PAUSE_S):
                n, b = chance.randrange(40), chance.randrange(30)
                q = [2 * n + 1000, 2 * n + 1000 + chance.randrange(3)]
                j = json.dumps({"q": q, "n": [n]})
                text = chance.choice((
                    f"INSERT INTO t (id, a, j, b) VALUES ({n}, {n}, '{j}', {b})",
                    f"REPLACE INTO t (id, a, j, b) VALUES ({n}, {n}, '{j}', {b})",
                    f"UPDATE t SET b = {b} WHERE {q[0]} MEMBER OF (j->'$.q')",
                    f"DELETE FROM t WHERE {q[1]} MEMBER OF (j->'$.q')",
                    f"INSERT INTO t (id, a, j, b) VALUES ({n}, {n}, '{j}', {b})"
                    " ON DUPLICATE KEY UPDATE a = 3",
                ))  # fmt: skip
                try:
                    run(writer, text)
                except Refused as refused:
                    assert refused.code in (1062, 1213, 1526, 8028), refused
                for element in q:
                    asked = f"SELECT id FROM t WHERE {element} MEMBER OF (j->'$.q')"
                    assert len(rows(writer, asked)) <= 1
        except BaseException as error:
            failed.append(error)
        finally:
            writer.close()

    threads = [threading.Thread(target=writes, args=(n,), daemon=True) for n in range(2)]
    for each in threads:
        each.start()
    for n in range(6):
        run(session, f"ALTER TABLE t TRUNCATE PARTITION {('p0', 'p1', 'p2')[n % 3]}")
    run(session, "ALTER TABLE t DROP PARTITION p0")
    run(session, "ALTER TABLE t DROP PARTITION p1")
    stop.set()
    for each in threads:
        each.join(20)
    assert not failed, failed
    checked(session)
    for index in ("q", "n", "an"):
        names, there = named(world, session, index)
        assert names <= there


@pytest.mark.parametrize("change", ["DROP", "TRUNCATE"])
def test_a_partition_goes_with_its_entries(world: World, session: Session, change: str) -> None:
    made(session)
    (gone,) = rows(session, "SELECT j->'$.q[0]' FROM t WHERE b < 10 AND j->'$.q[0]' > 0 LIMIT 1")[0]
    before, _ = named(world, session, "q")
    run(session, f"ALTER TABLE t {change} PARTITION p0")
    after, there = named(world, session, "q")
    assert len(after) == len(before) - 1 and after <= there
    assert rows(session, f"SELECT * FROM t WHERE {gone} MEMBER OF (j->'$.q')") == []
    run(session, f"INSERT INTO t (id, b, j) VALUES (900, 3, '{{\"q\": [9999, {gone}]}}')")
    assert rows(session, f"SELECT id FROM t WHERE {gone} MEMBER OF (j->'$.q')") == [[900]]
    answers(session, 30)
    checked(session)


def test_elements_of_a_partition_that_goes_are_free_once_nobody_uses_it(
    world: World, session: Session
) -> None:
    """One state before they are taken; then who claims some of them takes over these."""
    made(session, number=0)
    run(session, "INSERT INTO t (id, b, j) VALUES (1, 1, '{\"q\": [7, 8, 9]}'),"
        " (2, 15, '{\"q\": [1]}'), (3, 15, '{\"q\": [2]}')")  # fmt: skip
    blockers = [world.session(session.database) for _ in range(2)]
    other = world.session(session.database)

    def revision() -> int:
        with world.store.read() as txn:
            table = world.services.schemas.table(txn, session.database, "t")
            return meta.revision(txn, table.info.id)

    def blocks(n: int) -> None:
        run(blockers[n], "BEGIN")
        run(blockers[n], f"UPDATE t SET a = 9 WHERE id = {n + 2}")

    blocks(0)
    began = revision()
    text = "ALTER TABLE t DROP PARTITION p0"
    changing = threading.Thread(target=run, args=(session, text), daemon=True)
    changing.start()
    until(lambda: revision() == began + 1)
    blocks(1)
    claims = "INSERT INTO t (id, b, j) VALUES (4, 25, '{\"q\": [9, 5, 7]}')"
    assert error(other, claims) == (1062, "23000")
    assert rows(other, "SELECT id FROM t WHERE 8 MEMBER OF (j->'$.q')") == []
    run(blockers[0], "COMMIT")
    until(lambda: revision() == began + 2)
    run(other, claims)
    run(other, "UPDATE t SET j = '{\"q\": [1, 8, 6]}' WHERE 1 MEMBER OF (j->'$.q')")
    run(other, "UPDATE t SET b = 15, j = '{\"q\": [9, 5]}' WHERE 5 MEMBER OF (j->'$.q')")
    run(blockers[1], "COMMIT")
    changing.join(20)
    assert not changing.is_alive()
    for element, of in ((9, [[4]]), (7, []), (8, [[2]]), (5, [[4]])):
        assert rows(other, f"SELECT id FROM t WHERE {element} MEMBER OF (j->'$.q')") == of
    checked(session)
    for each in (*blockers, other):
        each.close()


def test_a_table_goes_and_comes_back_with_them(session: Session) -> None:
    made(session)
    run(session, "TRUNCATE TABLE t")
    assert rows(session, "SELECT * FROM t WHERE 3 MEMBER OF (j->'$.n')") == []
    run(session, "INSERT INTO t (id, b, j) VALUES (1, 1, '{\"n\": [3], \"q\": [1, 2]}'),"
        " (2, 15, '{\"n\": [3, 4], \"q\": [3]}')")  # fmt: skip
    run(session, "DROP TABLE t")
    run(session, "FLASHBACK TABLE t")
    checked(session)
    found = rows(session, "SELECT id FROM t WHERE 3 MEMBER OF (j->'$.n') ORDER BY id")
    assert found == [[1], [2]]


# -- faults ----------------------------------------------------------------------------------------


def entry(world: World, session: Session, index: str, row: list[object], element: int) -> bytes:
    """The key of the entry of that element, of a row (a, b, j, id) of the first partition."""
    txn = world.store.begin()
    table = world.services.schemas.table(txn, session.database, "t")
    info = table.info.index(index)
    assert info is not None and table.virtual is not None
    part = table.parts[0]
    whole = table.virtual.fill([*row, *[None] * (len(table.info.cols) - len(row))])
    (handle,) = [key[k.HANDLE_AT :] for key, raw in txn.scan(part.row_span())
                 if part.decode(raw)[3] == row[3]]  # fmt: skip
    form = part.form(info)
    txn.rollback()
    (key,) = (
        each
        for each, _ in index_entries(part, info, whole, handle)
        if form.keys.decode(each, k.VALUES_AT)[0][0] == element
    )
    return key


@pytest.mark.parametrize("index", ["n", "q"])
def test_planted_faults_are_found_and_put_right(world: World, session: Session, index: str) -> None:
    made(session)
    run(session, "DELETE FROM t WHERE id = 7")
    text = '{"n": [3, 4, 5], "q": [2003, 2004, 2005]}'
    run(session, f"INSERT INTO t (id, a, b, j) VALUES (7, 1, 5, '{text}')")
    element = {"n": 0, "q": 2000}[index]

    def told() -> str:
        messages = []
        for fast in ("ON", "OFF"):
            run(session, f"SET tidb_enable_fast_table_check = {fast}")
            with pytest.raises(Refused) as caught:
                run(session, f"ADMIN CHECK INDEX t {index}")
            assert caught.value.code == 8223
            messages.append(str(caught.value.message))
        run(session, "SET tidb_enable_fast_table_check = ON")
        assert messages[0] == messages[1]
        return messages[0]

    def planted(key: bytes, payload: bytes | None) -> bytes:
        txn = world.store.begin()
        stood = txn.get(key)
        txn.put(key, payload) if payload is not None else txn.delete(key)
        txn.commit()
        return stood or b""

    row = [1, 5, text, 7]
    payload = planted(entry(world, session, index, row, element + 4), None)
    assert f"[{element + 4}]" in told()
    assert rows(session, f"ADMIN RECOVER INDEX t {index}")[0][0] == 1
    checked(session)
    other = [1, 5, '{"n": [6], "q": [2006]}', 7]
    surplus = entry(world, session, index, other, element + 6)
    planted(surplus, payload)  # the row is there, without that element
    assert f"[{element + 6}]" in told()
    assert rows(session, f"ADMIN CLEANUP INDEX t {index}") == [[1]]
    checked(session)
    if index == "q":  # the entry names a row of the same handle in another partition
        key = entry(world, session, index, row, 2003)
        second = world.services.schemas.table(world.store.begin(), session.database, "t").parts[1]
        planted(key, LIVE + second.row_prefix[1:9] + payload[9:])
        assert "[2003]" in told()
        assert rows(session, "ADMIN CLEANUP INDEX t q") == [[1]]
        assert rows(session, "ADMIN RECOVER INDEX t q")[0][0] == 1
        checked(session)


def test_an_element_that_a_move_forgets_is_found(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer itself is broken: of the entries that are to go it removes every second one."""
    made(session)
    run(session, "INSERT INTO t (id, b, j) VALUES (700, 5, '{\"n\": [3, 4, 5]}')")
    honest, seen = Transaction.write, []

    def write(txn: Transaction, kind: int, key: bytes, payload: bytes) -> None:
        seen.extend([kind] if kind == WriteKind.REMOVE else [])
        if kind != WriteKind.REMOVE or len(seen) % 2:
            honest(txn, kind, key, payload)

    monkeypatch.setattr(Transaction, "write", write)
    run(session, "UPDATE t SET b = 25 WHERE id = 700")
    assert error(session, "ADMIN CHECK INDEX t n")[0] == 8223


# -- what is asked and refused ---------------------------------------------------------------------


def test_what_cannot_be_is_refused(session: Session) -> None:
    array = "((CAST(j AS UNSIGNED ARRAY)))"
    run(session, "CREATE TABLE x (id INT, b INT, j JSON)")
    plain = f"ALTER TABLE x ADD INDEX i {array} GLOBAL"
    assert error(session, plain) == (8200, "HY000")
    made = f"CREATE TABLE t (id INT, b INT, j JSON, UNIQUE KEY i {array} {{}}) {BY_RANGE}"
    assert error(session, made.format(""))[0] == 8264
    assert error(session, f"ALTER TABLE x ADD UNIQUE i {array}, {BY_RANGE}")[0] in (8200, 8264)
    run(session, f"{made.format('')} UPDATE INDEXES (i GLOBAL)")
    assert "GLOBAL" in rows(session, "SHOW CREATE TABLE t")[0][1]
    run(session, "ALTER TABLE x ADD INDEX i ((CAST(j AS UNSIGNED ARRAY)))")
    exchange = "ALTER TABLE t EXCHANGE PARTITION p0 WITH TABLE x"
    with pytest.raises(Refused, match="global index: i") as caught:
        run(session, exchange)
    assert caught.value.code == 1731
    run(session, "SET exuvia_undo_s = 600")
    run(session, f"ALTER TABLE t ADD INDEX g {array} GLOBAL")
    warned = run(session, "ALTER TABLE t DROP INDEX g").warnings
    assert any("is not kept for UNDO: it is global" in each.message for each in warned)
    local = "ALTER TABLE t PARTITION BY HASH (b) UPDATE INDEXES (i LOCAL)"
    assert error(session, local)[0] == 8264
    where = f"ALTER TABLE t ADD INDEX w {array} WHERE b > 1 GLOBAL"
    assert error(session, where)[0] in (1064, 8200)


def test_older_nodes_are_waited_for(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    made(session, number=0)
    run(session, "ALTER TABLE t DROP INDEX n")
    honest = member.live
    monkeypatch.setattr(
        member, "live", lambda txn: [replace(each, release="0.4.0") for each in honest(txn)]
    )
    for text in (
        f"ALTER TABLE t ADD {INDEXES['n']}",
        "ALTER TABLE t REMOVE PARTITIONING",
        "ALTER TABLE t PARTITION BY HASH (b) UPDATE INDEXES (ln GLOBAL)",
    ):
        with pytest.raises(Refused, match="of an older release serves"):
            run(session, text)
