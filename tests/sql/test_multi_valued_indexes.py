"""Multi-valued indexes: answers are those without them, fills run beside elements that come and go,
faults are found, older nodes are waited for."""

import json
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from exuvia.base.errors import Refused
from exuvia.catalog.codec.key_codec import index_entries
from exuvia.cluster import member
from exuvia.kv import keys as k
from exuvia.kv.packet import LIVE, WriteKind
from exuvia.kv.transaction import Transaction
from exuvia.sql.session.session import Session
from support.few import one_in
from support.world import PAUSE_S, World, error, rows, run

INDEXES = {
    "s": "(CAST(j->'$.n' AS SIGNED ARRAY))",
    "u": "a, (CAST(j->'$.n' AS SIGNED ARRAY))",
    "d": "(CAST(j->'$.d' AS DOUBLE ARRAY))",
    "c": "(CAST(j->'$.c' AS CHAR(3) ARRAY)), a",
    "b": "(CAST(k AS BINARY(8) ARRAY))",
    "t": "(CAST(j->'$.t' AS DATE ARRAY))",
}
ASKED = (
    "{n} MEMBER OF (j->'$.n')", "'{n}' MEMBER OF (j->'$.n')", "{n}.0 MEMBER OF (j->'$.n')",
    "JSON_CONTAINS(j->'$.n', '[{n}, {m}]')", "JSON_CONTAINS(j->'$.n', '{n}')",
    "JSON_CONTAINS(j->'$.n', '[]')", "JSON_CONTAINS(j->'$.n', '[{n}, \"x\"]')",
    "JSON_OVERLAPS(j->'$.n', '[{n}, {m}]')", "JSON_OVERLAPS(JSON_ARRAY({n}, {m}), j->'$.n')",
    "JSON_OVERLAPS(j->'$.n', NULL)", "JSON_OVERLAPS(j->'$.n', '{{\"n\": 1}}')",
    "{n} MEMBER OF (j->'$.d')", "{n}.5 MEMBER OF (j->'$.d')", "JSON_CONTAINS(j->'$.d', '[{n}.5]')",
    "'{w}' MEMBER OF (j->'$.c')", "JSON_OVERLAPS(j->'$.c', '[\"{w}\", \"zz\"]')",
    "JSON_CONTAINS(j->'$.c', CAST('[\"{w}\"]' AS JSON))", "'{w}' MEMBER OF (k)",
    "CAST('2024-01-0{d}' AS DATE) MEMBER OF (j->'$.t')", "'2024-01-0{d}' MEMBER OF (j->'$.t')",
    "NOT {n} MEMBER OF (j->'$.n')", "({n} MEMBER OF (j->'$.n') OR a = 1)",
)  # fmt: skip


def document(chance: random.Random) -> str:
    def some(make: Any) -> Any:
        number = chance.randrange(6)
        if number == 5:
            return make()
        return [make() for _ in range(number)]

    whole = {
        "n": some(lambda: chance.randrange(-2, 9)),
        "d": some(lambda: chance.choice([1, 1.5, 2.5, -0.0, 3])),
        "c": some(lambda: chance.choice(["a", "a ", "A", "ü", "abc", ""])),
        "t": some(lambda: f"2024-01-0{chance.randrange(1, 7)}"),
    }
    kept = {key: value for key, value in whole.items() if chance.random() < 0.85}
    return json.dumps(kept, ensure_ascii=False)


def values(chance: random.Random, n: int) -> str:
    k = '["a ", "ü"]' if chance.random() < 0.5 else '["a"]'
    a = chance.choice(["NULL", *map(str, range(4))])
    j = "NULL" if chance.random() < 0.1 else f"'{document(chance)}'"
    return f"({n}, {a}, {j}, '{k}')"


@pytest.fixture
def filled(session: Session) -> Iterator[Session]:
    """A table with each index, half of the rows there before they were filled."""
    run(session, "CREATE TABLE t (id INT PRIMARY KEY, a INT, j JSON, k JSON)")
    chance = random.Random(3)
    run(session, f"INSERT INTO t VALUES {', '.join(values(chance, n) for n in range(150))}")
    for name, parts in INDEXES.items():
        run(session, f"ALTER TABLE t ADD INDEX {name} ({parts})")
    run(session, f"INSERT INTO t VALUES {', '.join(values(chance, n) for n in range(150, 300))}")
    yield session


def checked(session: Session, table: str) -> None:
    """By sums, and entry by entry."""
    run(session, f"ADMIN CHECK TABLE {table}")
    run(session, "SET tidb_enable_fast_table_check = OFF")
    run(session, f"ADMIN CHECK TABLE {table}")
    run(session, "SET tidb_enable_fast_table_check = ON")


@pytest.mark.parametrize("asked", [150, pytest.param(800, marks=pytest.mark.long)])
def test_answers_are_those_without_them(filled: Session, asked: int) -> None:
    chance = random.Random(7)
    taken, found = 0, 0
    none = ", ".join(INDEXES)
    for _ in range(asked):
        parts = [
            each.format(
                n=chance.randrange(-2, 9),
                m=chance.randrange(9),
                w=chance.choice(["a", "a ", "A", "ü", "abc", ""]),
                d=chance.randrange(1, 8),
            )
            for each in chance.sample(ASKED, chance.choice([1, 1, 2]))
        ]
        if chance.random() < 0.4:
            parts.append(f"a {chance.choice(['=', '>', '<='])} {chance.randrange(4)}")
        where = " AND ".join(parts)
        tail = chance.choice(["ORDER BY id", "ORDER BY a DESC, id", "ORDER BY id DESC LIMIT 5"])
        forced = chance.choice(["", "", f"FORCE INDEX ({chance.choice(list(INDEXES))})"])
        text = f"SELECT id, a FROM t @hint WHERE {where} {tail}"
        without = f"IGNORE INDEX ({none})"
        expected = rows(filled, text.replace("@hint", without))
        assert rows(filled, text.replace("@hint", forced)) == expected, text
        joined = f"SELECT COUNT(*) FROM t x JOIN t @hint ON x.id = t.id WHERE {where}"
        joined = joined.replace("(j->", "(t.j->").replace(", j->", ", t.j->")
        joined = joined.replace("(k)", "(t.k)").replace("a =", "t.a =")
        if "a >" not in where and "a <" not in where and chance.random() < 0.2:
            counted = rows(filled, joined.replace("@hint", without))
            assert rows(filled, joined.replace("@hint", "")) == counted, joined
        plan = rows(filled, "EXPLAIN " + text.replace("@hint", forced))
        taken += any("IndexMerge" in line[0] for line in plan)
        found += bool(expected)
    assert taken > asked / 3, "nearly no query was answered by a multi-valued index"
    assert found > asked / 4, "nearly no query found a row"


def test_a_prepared_statement_looks_at_each_runs_constants(filled: Session) -> None:
    run(filled, "PREPARE p FROM 'SELECT COUNT(*) FROM t WHERE ? MEMBER OF (j->''$.n'')'")
    for constant in ("1", "'x'", "NULL", "7", "1.0", "'1'", "3"):
        run(filled, f"SET @c = {constant}")
        without = (
            f"SELECT COUNT(*) FROM t IGNORE INDEX (s, u) WHERE {constant} MEMBER OF (j->'$.n')"
        )
        assert rows(filled, "EXECUTE p USING @c") == rows(filled, without), constant


def test_own_writes_are_seen_through_it(filled: Session, another: Session) -> None:
    """Also beside rows that others have changed since the transaction's snapshot."""
    text = "SELECT id FROM t {} WHERE 5 MEMBER OF (j->'$.n') ORDER BY id"
    run(filled, "BEGIN")
    rows(filled, "SELECT COUNT(*) FROM t")
    run(another, "UPDATE t SET j = '{\"n\": [5, 6]}' WHERE id IN (1, 2, 3)")
    run(another, "UPDATE t SET j = '{\"n\": [6]}' WHERE id IN (4, 5)")
    run(filled, "UPDATE t SET a = 9 WHERE id IN (1, 4)")
    run(filled, "UPDATE t SET j = JSON_SET(j, '$.n', JSON_ARRAY(5, 7)) WHERE id IN (2, 5, 7)")
    run(filled, "DELETE FROM t WHERE id = 3")
    assert rows(filled, text.format("")) == rows(filled, text.format("IGNORE INDEX (s, u)"))
    run(filled, "COMMIT")
    assert rows(filled, text.format("")) == rows(filled, text.format("IGNORE INDEX (s, u)"))
    checked(filled, "t")


def test_entries_come_and_go_with_elements(filled: Session) -> None:
    chance = random.Random(11)
    for n in range(60):
        cells = f"j = '{document(chance)}'" if n % 3 else f"a = {chance.randrange(4)}"
        run(filled, f"UPDATE t SET {cells} WHERE id % 11 = {chance.randrange(11)}")
        if n % 10 == 0:
            run(filled, f"DELETE FROM t WHERE {chance.randrange(9)} MEMBER OF (j->'$.n')")
            run(filled, f"REPLACE INTO t VALUES {values(chance, chance.randrange(300))}")
            run(filled, f"UPDATE t SET id = {1000 + n} WHERE id = (SELECT MAX(id) FROM t)")
    checked(filled, "t")
    expected = rows(filled, "SELECT COUNT(*) FROM t IGNORE INDEX (s) WHERE 2 MEMBER OF (j->'$.n')")
    assert rows(filled, "SELECT COUNT(*) FROM t WHERE 2 MEMBER OF (j->'$.n')") == expected


def test_a_unique_one_is_about_elements_of_other_rows(session: Session) -> None:
    run(session, "CREATE TABLE q (id INT PRIMARY KEY, a INT, j JSON)")
    run(session, "INSERT INTO q VALUES (1, 1, '[1, 2, 2]'), (2, 1, '[2]'), (3, 1, '[]')")
    text = "ALTER TABLE q ADD UNIQUE u ((CAST(j AS UNSIGNED ARRAY)))"
    with pytest.raises(Refused, match=r"Duplicate entry '2' for key 'q.u'"):
        run(session, text)
    run(session, "UPDATE q SET j = '[3]' WHERE id = 2")
    run(session, text)
    run(session, "INSERT INTO q VALUES (4, 1, '[]'), (5, 1, NULL), (6, 1, NULL), (7, 1, '[9, 9]')")
    with pytest.raises(Refused, match=r"Duplicate entry '3' for key 'q.u'"):
        run(session, "INSERT INTO q VALUES (8, 1, '[18446744073709551615, 3]')")
    with pytest.raises(Refused, match=r"Duplicate entry '1' for key 'q.u'"):
        run(session, "UPDATE q SET j = '[9, 1]' WHERE id = 7")
    run(session, "INSERT IGNORE INTO q VALUES (8, 1, '[1]'), (9, 1, '[18446744073709551615]')")
    run(
        session, "INSERT INTO q VALUES (8, 1, '[7, 9]') ON DUPLICATE KEY UPDATE a = 5, j = '[9, 4]'"
    )
    run(session, "REPLACE INTO q VALUES (8, 2, '[1, 3, 5]')")
    found = rows(session, "SELECT id, a, j FROM q ORDER BY id")
    assert found == [
        *([3, 1, "[]"], [4, 1, "[]"], [5, 1, None], [6, 1, None], [7, 5, "[9, 4]"]),
        *([8, 2, "[1, 3, 5]"], [9, 1, "[18446744073709551615]"]),
    ]
    checked(session, "q")


@contextmanager
def writers_beside(world: World, session: Session) -> Iterator[None]:
    """Two clients change arrays and numbers of `f` and remove rows meanwhile."""
    run(session, "CREATE TABLE f (id INT PRIMARY KEY, a INT, j JSON)")
    cells = [f"({n}, {n}, '[{n}, {n + 1}, {n % 7}]')" for n in range(600)]
    run(session, f"INSERT INTO f VALUES {', '.join(cells)}")
    stop, wrong, done = threading.Event(), [], []

    def change(seed: int) -> None:
        client, chance = world.session(session.database), random.Random(seed)
        while not stop.wait(PAUSE_S):
            n = chance.randrange(600)
            array = [chance.randrange(9) for _ in range(chance.randrange(4))]
            try:
                run(client, f"UPDATE f SET j = '{array}' WHERE id BETWEEN {n} AND {n + 3}")
                run(client, f"UPDATE f SET a = a + 1 WHERE id = {chance.randrange(600)}")
                run(client, f"DELETE FROM f WHERE id = {chance.randrange(600)}")
                done.append(n)
            except Refused as refused:  # another client's row
                wrong.append(refused)
        client.close()

    clients = [threading.Thread(target=change, args=(seed,)) for seed in range(2)]
    for each in clients:
        each.start()
    try:
        yield
    finally:
        stop.set()
        for each in clients:
            each.join()
    assert done


def test_a_fill_beside_writers(world: World, session: Session) -> None:
    with writers_beside(world, session):
        run(session, "ALTER TABLE f ADD INDEX i ((CAST(j AS SIGNED ARRAY)))")
        run(session, "ALTER TABLE f ADD UNIQUE u (id, (CAST(j AS SIGNED ARRAY)))")
    checked(session, "f")


def test_a_rewrite_of_another_column_beside_writers(world: World, session: Session) -> None:
    """Each row's entries go with its new value, as many as it has."""
    with writers_beside(world, session):
        run(
            session,
            "ALTER TABLE f ADD INDEX i (a, (CAST(j AS SIGNED ARRAY))),"
            " ADD UNIQUE u ((CAST(j AS SIGNED ARRAY)), a, id)",
        )
        run(session, "SET GLOBAL tidb_ddl_reorg_batch_size = 32")
        run(session, "ALTER TABLE f MODIFY a VARCHAR(20)")
        run(session, "ALTER TABLE f MODIFY a BIGINT")
        run(session, "SET GLOBAL tidb_ddl_reorg_batch_size = DEFAULT")
    checked(session, "f")
    [[key]] = rows(session, "SELECT a FROM f WHERE 3 MEMBER OF (j) ORDER BY id LIMIT 1")
    asked = f"SELECT COUNT(*) FROM f {{}} WHERE a = {key} AND 3 MEMBER OF (j)"
    assert rows(session, asked.format("")) == rows(session, asked.format("IGNORE INDEX (i, u)"))


def entry(world: World, session: Session, index: str, row: list[Any], element: int) -> bytes:
    """The key of the entry of that element, of a row of `t`."""
    txn = world.store.begin()
    table = world.services.schemas.table(txn, session.database, "t")
    info = table.info.index(index)
    whole = table.virtual.fill([*row, *[None] * (len(table.info.cols) - len(row))])
    found = index_entries(table, info, whole, k.i64(row[0]))
    form = table.form(info)
    txn.rollback()
    (key,) = (each for each, _ in found if form.keys.decode(each, k.VALUES_AT)[0][0] == element)
    return key


def test_planted_faults_are_found_and_put_right(world: World, filled: Session) -> None:
    row = [7, 1, '{"n": [3, 4, 5]}', None]
    run(filled, "REPLACE INTO t VALUES (7, 1, '{\"n\": [3, 4, 5]}', NULL)")

    def told() -> str:
        with pytest.raises(Refused) as caught:
            run(filled, "ADMIN CHECK INDEX t s")
        assert caught.value.code == 8223
        return str(caught.value.message)

    missing = entry(world, filled, "s", row, 4)
    surplus = entry(world, filled, "s", [7, 1, '{"n": [6]}', None], 6)
    txn = world.store.begin()
    txn.delete(missing)
    txn.commit()
    assert "handle: 7" in told() and "[4]" in told()
    assert rows(filled, "ADMIN RECOVER INDEX t s")[0][0] == 1
    checked(filled, "t")
    txn = world.store.begin()
    txn.put(surplus, LIVE)  # the row is there, without that element
    txn.commit()
    assert "handle: 7" in told() and "[6]" in told()
    assert rows(filled, "ADMIN CLEANUP INDEX t s") == [[1]]
    checked(filled, "t")


def test_an_element_that_an_update_forgets_is_found(
    filled: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer itself is broken: of the entries that are to go it removes the first."""
    honest, seen = Transaction.write, []

    def write(txn: Transaction, kind: int, key: bytes, payload: bytes) -> None:
        seen.extend([kind] if kind == WriteKind.REMOVE else [])
        if kind != WriteKind.REMOVE or len(seen) % 2:
            honest(txn, kind, key, payload)

    monkeypatch.setattr(Transaction, "write", write)
    run(filled, "UPDATE t SET j = '{\"n\": [3, 4, 5]}', k = NULL WHERE id = 7")
    run(filled, "UPDATE t SET j = '{\"n\": [8]}' WHERE id = 7")
    with pytest.raises(Refused, match="handle: 7"):
        run(filled, "ADMIN CHECK TABLE t")


def test_an_older_node_is_waited_for(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    run(session, "CREATE TABLE w (id INT PRIMARY KEY, a INT, j JSON)")
    honest = member.live
    monkeypatch.setattr(
        member, "live", lambda txn: [replace(each, release="0.4.0") for each in honest(txn)]
    )
    with pytest.raises(Refused, match="of an older release serves"):
        run(session, "ALTER TABLE w ADD INDEX p ((CAST(j AS UNSIGNED ARRAY)))")
    with pytest.raises(Refused, match="of an older release serves"):
        run(session, "CREATE TABLE v (j JSON, KEY ((CAST(j AS UNSIGNED ARRAY))))")
    run(session, "ALTER TABLE w ADD INDEX p ((a + 1))")


@pytest.mark.parametrize(
    ("cut", "most"),
    one_in(
        3,
        [
            ("HASH (id) PARTITIONS 3", 30),
            ("HASH (id) PARTITIONS 3", 100),
            ("KEY (id) PARTITIONS 2", 100),
        ],
    ),
)
def test_rows_of_partitions_have_them_and_take_them_along(
    session: Session, cut: str, most: int
) -> None:
    columns = "(id INT PRIMARY KEY, a INT, j JSON, k JSON)"
    run(session, f"CREATE TABLE t {columns} PARTITION BY {cut}")
    chance = random.Random(3)
    run(session, f"INSERT INTO t VALUES {', '.join(values(chance, n) for n in range(150))}")
    for name, parts in INDEXES.items():
        run(session, f"ALTER TABLE t ADD INDEX {name} ({parts})")
    run(session, "ALTER TABLE t ADD UNIQUE INDEX q (id, (CAST(j->'$.n' AS SIGNED ARRAY)))")
    run(session, f"INSERT INTO t VALUES {', '.join(values(chance, n) for n in range(150, 300))}")
    checked(session, "t")
    test_answers_are_those_without_them(session, most)
    for change in (
        "PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN (40),"
        " PARTITION q VALUES LESS THAN MAXVALUE)",
        "REORGANIZE PARTITION q INTO (PARTITION q VALUES LESS THAN (100),"
        " PARTITION r VALUES LESS THAN MAXVALUE)",
        "TRUNCATE PARTITION q",
        "REMOVE PARTITIONING",
    ):
        run(session, f"ALTER TABLE t {change}")
        checked(session, "t")
        run(session, "UPDATE t SET id = id + 1000 WHERE id % 7 = 0 AND id < 900")
        run(session, "DELETE FROM t WHERE id % 11 = 0")
        checked(session, "t")
        test_answers_are_those_without_them(session, 3 * most // 10)


def test_a_partition_is_exchanged_with_its_entries(session: Session) -> None:
    columns = "(id INT PRIMARY KEY, j JSON, KEY i ((CAST(j AS SIGNED ARRAY))))"
    run(session, f"CREATE TABLE t {columns} PARTITION BY HASH (id) PARTITIONS 2")
    run(session, f"CREATE TABLE x {columns}")
    run(session, "INSERT INTO t VALUES (1, '[1, 2]'), (2, '[2, 3]'), (4, '[]')")
    run(session, "INSERT INTO x VALUES (6, '[2, 9]')")
    run(session, "ALTER TABLE t EXCHANGE PARTITION p0 WITH TABLE x")
    asked = "SELECT id FROM {} WHERE 2 MEMBER OF (j) ORDER BY id"
    assert rows(session, asked.format("t")) == [[1], [6]]
    assert rows(session, asked.format("x")) == [[2]]
    for each in "tx":
        checked(session, each)


def test_truncate_is_taken_back_with_its_entries(session: Session) -> None:
    run(session, "SET exuvia_undo_s = 600")
    run(session, "CREATE TABLE t (id INT PRIMARY KEY, j JSON)")
    run(session, "ALTER TABLE t ADD UNIQUE INDEX i ((CAST(j AS SIGNED ARRAY)))")
    run(session, "INSERT INTO t VALUES (1, '[1, 2]'), (2, '[3, 4, 5]'), (3, NULL), (4, '[]')")
    run(session, "TRUNCATE TABLE t")
    [[job, *_]] = rows(session, "ADMIN SHOW DDL JOBS 1")
    run(session, "INSERT INTO t VALUES (9, '[6, 4]')")
    assert error(session, f"ADMIN UNDO DDL JOB {job}") == (1062, "23000")
    run(session, "UPDATE t SET j = '[6, 7]'")
    run(session, f"ADMIN UNDO DDL JOB {job}")
    assert rows(session, "SELECT id FROM t WHERE JSON_OVERLAPS(j, '[2, 5, 7]') ORDER BY id") == [
        [1],
        [2],
        [9],
    ]
    assert error(session, "INSERT INTO t VALUES (10, '[8, 5]')") == (1062, "23000")
    checked(session, "t")


def test_it_serves_nothing_else(session: Session) -> None:
    run(session, "CREATE TABLE p (a INT PRIMARY KEY)")
    run(
        session,
        "CREATE TABLE x (id INT PRIMARY KEY, a INT, j JSON,"
        " KEY m (a, (CAST(j AS UNSIGNED ARRAY))), FOREIGN KEY (a) REFERENCES p (a))",
    )
    names = [row[0] for row in rows(session, "SELECT DISTINCT index_name FROM"
             f" information_schema.statistics WHERE table_schema = '{session.database}'"
             " AND table_name = 'x' ORDER BY 1")]  # fmt: skip
    assert names == ["PRIMARY", "fk_1", "m"], "a foreign key has an index of its own"
    run(session, "ALTER TABLE x DROP FOREIGN KEY fk_1")
    run(session, "ALTER TABLE x DROP INDEX fk_1")
    run(session, "INSERT INTO x VALUES (1, 1, '[]'), (2, 2, '[1, 2, 3]'), (3, 1, NULL)")
    for text in ("WHERE a = 1", "WHERE a > 0", "ORDER BY a LIMIT 2", "FORCE INDEX (m) ORDER BY a"):
        plan = rows(session, f"EXPLAIN SELECT a FROM x {text}")
        assert not any("index:m" in line[3] for line in plan), text
    assert rows(session, "SELECT id FROM x FORCE INDEX (m) WHERE a = 1 ORDER BY id") == [[1], [3]]
    assert rows(session, "SELECT COUNT(*), COUNT(DISTINCT a) FROM x FORCE INDEX (m)") == [[3, 2]]
    for refused in (
        "ALTER TABLE x ADD KEY w ((CAST(j AS UNSIGNED ARRAY))) GLOBAL",
        "ALTER TABLE x MODIFY j TEXT",
        "ALTER TABLE x ADD KEY w ((CAST(j AS UNSIGNED ARRAY))) WHERE a > 1",
    ):
        assert error(session, refused) == (8200, "HY000"), refused
    run(
        session,
        "ALTER TABLE x MODIFY a INT COMMENT 'x', ADD COLUMN n INT FIRST, RENAME INDEX m TO o",
    )
    run(session, "INSERT INTO x VALUES (0, 5, 1, '[3]')")
    assert rows(session, "SELECT id FROM x WHERE a = 1 AND 3 MEMBER OF (j)") == [[5]]
    with pytest.raises(Refused, match="expression index 'o'"):
        run(session, "INSERT INTO x VALUES (0, 6, 1, '[\"3\"]')")
    checked(session, "x")
    run(session, "CREATE TABLE y LIKE x")
    run(session, "INSERT INTO y SELECT * FROM x")
    checked(session, "y")
    run(session, "ALTER TABLE x DROP INDEX o")
    run(session, "ALTER TABLE x DROP COLUMN a")
    run(session, "INSERT INTO x VALUES (0, 6, '[\"3\"]')")
    text = "ALTER TABLE x ADD INDEX ((CAST(j AS UNSIGNED ARRAY)))"
    assert error(session, text) == (3903, "22018")
    assert rows(session, "SELECT COUNT(*) FROM x WHERE 3 MEMBER OF (j)") == [[2]]
