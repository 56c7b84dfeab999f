"""Global indexes: answers are those without them, unique keys hold across partitions, partitions
come and go beside writers, faults are found, older nodes are waited for."""

import random
import threading
from collections.abc import Callable, Iterator

import pytest

from exuvia.base.errors import Refused
from exuvia.catalog import meta
from exuvia.catalog.codec import key_codec
from exuvia.cluster import member
from exuvia.kv.packet import LIVE
from exuvia.sql.session.session import Session
from support.few import one_in
from support.node_processes import until
from support.tables import only_entry
from support.world import PAUSE_S, World, error, rows, run

CUTS = (
    "PARTITION BY RANGE (b) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN"
    " (20), PARTITION p2 VALUES LESS THAN MAXVALUE)",
    "PARTITION BY HASH (b) PARTITIONS 3",
    "PARTITION BY LIST (b % 3) (PARTITION p0 VALUES IN (0), PARTITION p1 VALUES IN (1), PARTITION"
    " p2 VALUES IN (2), PARTITION p3 VALUES IN (NULL))",
)
KEYS = (
    "id INT",
    "id INT, PRIMARY KEY (id, b)",
    "id VARCHAR(5), PRIMARY KEY (id, b)",
    "id INT, PRIMARY KEY (id) NONCLUSTERED GLOBAL",
)


def made(session: Session, key: str = KEYS[0], cut: str = CUTS[0], more: str = "") -> None:
    """t (id, b, a, c), with a global unique index of a and plain ones of c and of (c, a)."""
    indexes = "UNIQUE KEY ua (a) GLOBAL, KEY ic (c) GLOBAL, KEY ica (c, a) GLOBAL, KEY lb (b)"
    b = "b INT NOT NULL" if "PRIMARY KEY (id, b)" in key else "b INT"
    run(session, f"CREATE TABLE t (a INT, c VARCHAR(5), {b}, {key}, {indexes}{more}) {cut}")


def test_the_definition_is_shown_and_read_again(session: Session) -> None:
    made(session, KEYS[3])
    ((_, text),) = rows(session, "SHOW CREATE TABLE t")
    assert "UNIQUE KEY `ua` (`a`) /*T![global_index] GLOBAL */" in text
    assert "/*T![clustered_index] NONCLUSTERED */ /*T![global_index] GLOBAL */" in text
    assert "KEY `lb` (`b`)\n" in text
    run(session, "RENAME TABLE t TO u")
    run(session, text)
    assert rows(session, "SHOW CREATE TABLE t")[0][1] == text
    run(session, "CREATE TABLE w LIKE t")
    assert rows(session, "SHOW CREATE TABLE w")[0][1] == text.replace("`t`", "`w`")
    found = rows(
        session,
        "SELECT DISTINCT key_name, is_global FROM information_schema.tidb_indexes"
        f" WHERE table_schema = '{session.database}' AND table_name = 't' ORDER BY 1",
    )
    assert found == [["PRIMARY", 1], ["ic", 1], ["ica", 1], ["lb", 0], ["ua", 1]]
    shown = {line[2]: line[-1] for line in rows(session, "SHOW INDEX FROM t")}
    assert shown == {"PRIMARY": "YES", "ic": "YES", "ica": "YES", "lb": "NO", "ua": "YES"}


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("CREATE TABLE x (a INT, KEY i (a) GLOBAL)", 8200, "Global Index on non-partitioned table"),
        (
            "CREATE TABLE x (a INT, b INT, UNIQUE KEY i (a)) PARTITION BY HASH (b)",
            8264,
            "Global Index is needed for index 'i'",
        ),
        (
            "CREATE TABLE x (a INT PRIMARY KEY, b INT) PARTITION BY HASH (b)",
            1503,
            "A CLUSTERED INDEX must include all columns",
        ),
        (
            "CREATE TABLE x (a INT, b INT, PRIMARY KEY (a) GLOBAL) PARTITION BY HASH (b)",
            8200,
            "both a global index and a clustered index",
        ),
        ("ALTER TABLE plain ADD INDEX i (a) GLOBAL", 8200, "on non-partitioned table"),
        ("ALTER TABLE t ADD UNIQUE i (c)", 8264, "Global Index is needed"),
        (
            "ALTER TABLE t EXCHANGE PARTITION p0 WITH TABLE plain",
            1731,
            "Non matching attribute 'global index: ua' between partition and table",
        ),
    ],
)
def test_what_cannot_be_is_refused(session: Session, text: str, code: int, said: str) -> None:
    made(session)
    run(session, "CREATE TABLE plain (a INT, c VARCHAR(5), b INT, id INT, KEY lb (b))")
    with pytest.raises(Refused) as refused:
        run(session, text)
    assert refused.value.code == code
    assert said in refused.value.message


def filled(session: Session, chance: random.Random, number: int = 300) -> None:
    cells = ", ".join(row(chance, n) for n in range(number))
    run(session, f"INSERT INTO t (id, a, c, b) VALUES {cells}")


def row(chance: random.Random, n: int) -> str:
    a = str(n) if chance.random() < 0.9 else "NULL"
    c = f"'{chance.choice('abcde')}'" if chance.random() < 0.9 else "NULL"
    return f"({n}, {a}, {c}, {chance.randrange(30)})"


def checked(session: Session) -> None:
    """Index and rows agree, by either way to look."""
    run(session, "ADMIN CHECK TABLE t")
    run(session, "SET tidb_enable_fast_table_check = OFF")
    run(session, "ADMIN CHECK TABLE t")
    run(session, "SET tidb_enable_fast_table_check = ON")


CONDITIONS = (
    "a = {n}", "a IN ({n}, {n} + 1, 4)", "a > {n} AND a < {n} + 20", "a IS NULL", "a <=> {n}",
    "c = '{w}'", "c > '{w}'", "c IN ('{w}', 'b')", "c IS NULL", "b = {b}", "b < {b}", "b >= {b}",
    "a = '{n}'", "a > {n}.5",
)  # fmt: skip


@pytest.mark.parametrize(
    ("key", "cut"),
    [
        pytest.param(key, cut, marks=pytest.mark.long if (n + m) % len(CUTS) else ())
        for n, key in enumerate(KEYS)
        for m, cut in enumerate(CUTS)
    ],
)
def test_answers_are_those_without_them(session: Session, key: str, cut: str) -> None:
    made(session, key, cut)
    chance = random.Random(5)
    filled(session, chance)
    taken = 0
    for n in range(120):
        if n == 60:  # some rows of the transaction's own
            run(session, "BEGIN")
            run(session, "UPDATE t SET b = b + 7, c = 'e' WHERE a % 11 = 3")
            run(session, "DELETE FROM t WHERE a % 13 = 5")
            run(session, "INSERT INTO t (id, a, c, b) VALUES (900, 900, 'a', 3), (901, 5, 'b', 9)")
        parts = [
            each.format(n=chance.randrange(300), w=chance.choice("abcde"), b=chance.randrange(30))
            for each in chance.sample(CONDITIONS, chance.randrange(1, 3))
        ]
        tail = chance.choice(["ORDER BY id", "ORDER BY c, a, id", "ORDER BY a DESC LIMIT 5"])
        named = chance.choice(["", "", " PARTITION (p1)"])
        forced = chance.choice(["", "FORCE INDEX (ua)", "FORCE INDEX (ic)", "FORCE INDEX (ica)"])
        where = " AND ".join(["a IS NOT NULL", *parts])
        text = f"SELECT id, a, c, b FROM t{named} {{}} WHERE {where} {tail}"
        expected = rows(session, text.format("IGNORE INDEX (ua, ic, ica, lb)"))
        assert rows(session, text.format(forced)) == expected, text.format(forced)
        plan = rows(session, "EXPLAIN " + text.format(forced))
        taken += any("index:ua" in line[3] or "index:ic" in line[3] for line in plan)
    run(session, "COMMIT")
    assert taken > 40, "nearly no query was answered by a global index"
    checked(session)


def test_an_order_is_that_of_the_index(session: Session) -> None:
    made(session)
    filled(session, random.Random(1))
    text = "SELECT a FROM t WHERE a > 17 ORDER BY a LIMIT 4"
    found = [line[0] for line in rows(session, text)]
    assert found == sorted(found) and len(found) == 4
    plan = rows(session, f"EXPLAIN {text}")
    assert not any("Sort" in line[0] for line in plan)
    assert any(line[3] == "partition:all" for line in plan)
    assert any("index:ua(a)" in line[3] for line in plan)
    assert any(line[4].startswith("in(_tidb_tid, ") for line in plan)
    point = rows(session, "EXPLAIN SELECT * FROM t WHERE a = 5")
    assert "Point_Get" in point[0][0] and "index:ua(a)" in point[0][3]


@pytest.mark.parametrize("key", KEYS[:3])
def test_a_unique_key_holds_across_partitions(session: Session, key: str) -> None:
    made(session, key)
    run(session, "INSERT INTO t (id, a, c, b) VALUES (1, 1, 'x', 1), (2, 2, 'y', 15)")
    assert error(session, "INSERT INTO t (id, a, c, b) VALUES (3, 1, 'z', 25)") == (1062, "23000")
    assert error(session, "UPDATE t SET a = 1 WHERE a = 2") == (1062, "23000")
    run(session, "INSERT IGNORE INTO t (id, a, c, b) VALUES (3, 1, 'z', 25)")
    run(
        session,
        "INSERT INTO t (id, a, c, b) VALUES (3, 1, 'z', 25) ON DUPLICATE KEY UPDATE c = 'new'",
    )
    assert rows(session, "SELECT a, c, b FROM t ORDER BY a") == [[1, "new", 1], [2, "y", 15]]
    run(session, "REPLACE INTO t (id, a, c, b) VALUES (3, 1, 'z', 25)")
    assert rows(session, "SELECT a, c, b FROM t ORDER BY a") == [[1, "z", 25], [2, "y", 15]]
    run(session, "UPDATE t SET b = 5 WHERE a = 1")  # its partition changes, its key does not
    assert rows(session, "SELECT b FROM t WHERE a = 1") == [[5]]
    run(
        session,
        "INSERT INTO t (id, a, c, b) VALUES (9, 2, 'q', 1) ON DUPLICATE KEY UPDATE b = 29",
    )
    assert rows(session, "SELECT b FROM t WHERE a = 2") == [[29]]
    assert error(session, "UPDATE t SET b = b + 10, a = 2 WHERE a = 1") == (1062, "23000")
    run(session, "UPDATE t SET a = 3 - a, b = 29 - b WHERE a = 1 AND 1 = 0")
    run(session, "BEGIN")
    run(session, "DELETE FROM t WHERE a = 1")
    run(session, "INSERT INTO t (id, a, c, b) VALUES (4, 1, 'w', 15)")
    run(session, "UPDATE t SET b = 25 WHERE a = 1")
    run(session, "COMMIT")
    assert rows(session, "SELECT c, b FROM t WHERE a = 1") == [["w", 25]]
    checked(session)


def test_two_writers_of_one_key_meet_at_the_commit(session: Session, another: Session) -> None:
    made(session)
    for each in (session, another):
        run(each, "BEGIN OPTIMISTIC")
    run(session, "INSERT INTO t (id, a, b) VALUES (1, 7, 1)")
    run(another, "INSERT INTO t (id, a, b) VALUES (2, 7, 25)")
    run(session, "COMMIT")
    with pytest.raises(Refused, match=r"Duplicate entry '7' for key 't\.ua'"):
        run(another, "COMMIT")
    checked(session)


# -- indexes that come and go ----------------------------------------------------------------------


@pytest.mark.parametrize("key", one_in(2, KEYS))
def test_indexes_are_added_over_all_partitions_beside_writers(
    world: World, session: Session, key: str
) -> None:
    b = "b INT NOT NULL" if "PRIMARY KEY (id, b)" in key else "b INT"
    run(session, f"CREATE TABLE t (a INT, c VARCHAR(5), {b}, {key}) {CUTS[0]}")
    filled(session, random.Random(2))
    stop = threading.Event()
    failed: list[BaseException] = []

    def writes(seed: int) -> None:
        chance = random.Random(seed)
        writer = world.session(session.database)
        try:
            while not stop.wait(PAUSE_S):
                n = chance.randrange(300)
                text = chance.choice(
                    (
                        f"UPDATE t SET b = {chance.randrange(30)} WHERE id = {n}",
                        f"UPDATE t SET c = '{chance.choice('abc')}' WHERE id = {n}",
                        f"DELETE FROM t WHERE id = {n}",
                        f"INSERT INTO t (id, a, c, b) VALUES {row(chance, 1000 + n)}",
                        f"UPDATE t SET a = a + 10000 WHERE id = {n}",
                    )
                )
                try:
                    writer.execute(text)
                except Refused as refused:
                    assert refused.code in (1062, 1213, 8028), refused
        except BaseException as error:
            failed.append(error)
        finally:
            writer.close()

    threads = [threading.Thread(target=writes, args=(n,), daemon=True) for n in range(2)]
    for each in threads:
        each.start()
    run(session, "ALTER TABLE t ADD INDEX gc (c) GLOBAL, ADD INDEX lc (c, a)")
    run(session, "ALTER TABLE t ADD INDEX gca (c, a) GLOBAL, ADD INDEX gb (b) GLOBAL")
    run(session, "ALTER TABLE t RENAME INDEX gb TO gbb, DROP INDEX lc")
    stop.set()
    for each in threads:
        each.join(20)
    assert not failed, failed
    checked(session)
    run(session, "ALTER TABLE t DROP INDEX gc")
    run(session, "ALTER TABLE t MODIFY a DECIMAL(12)")  # rows are written anew, and gca with them
    checked(session)
    run(session, "ALTER TABLE t MODIFY a BIGINT UNSIGNED")
    checked(session)


def test_a_unique_index_finds_what_is_twice_in_two_partitions(session: Session) -> None:
    run(session, f"CREATE TABLE t (a INT, c VARCHAR(5), b INT, id INT) {CUTS[0]}")
    run(session, "INSERT INTO t VALUES (1, 'x', 1, 1), (1, 'y', 25, 2), (NULL, 'z', 1, 3)")
    add = "ALTER TABLE t ADD UNIQUE INDEX ua (a) GLOBAL"
    for most in (100_000, 0):  # before there is a job, and by the fill
        run(session, f"SET GLOBAL exuvia_preflight_rows = {most}")
        with pytest.raises(Refused, match=r"Duplicate entry '1' for key 't\.ua'") as refused:
            run(session, add)
        assert refused.value.code == 1062
    run(session, "SET GLOBAL exuvia_preflight_rows = DEFAULT")
    run(session, "DELETE FROM t WHERE b = 25")
    run(session, add)
    assert error(session, "INSERT INTO t VALUES (1, 'y', 25, 2)") == (1062, "23000")
    checked(session)


def test_older_nodes_are_waited_for(
    world: World, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    (front, *_) = member.live(world.store.begin())
    monkeypatch.setattr(member, "before_0_4", lambda txn: [front])
    for text in (
        f"CREATE TABLE t (a INT, b INT, KEY i (a) GLOBAL) {CUTS[0]}",
        "ALTER TABLE u ADD INDEX i (a) GLOBAL",
    ):
        if text.startswith("ALTER"):
            run(session, f"CREATE TABLE u (a INT, b INT) {CUTS[0]}")
        with pytest.raises(Refused, match="of an older release serves") as refused:
            run(session, text)
        assert refused.value.code == 8200


def test_planted_faults_are_found_and_put_right(world: World, session: Session) -> None:
    made(session, KEYS[1])
    run(session, "INSERT INTO t (id, a, c, b) VALUES (1, 7, 'x', 1), (2, 8, 'y', 15)")

    def entry(a: int, number: int, b: int) -> tuple[bytes, bytes]:
        txn = world.store.begin()
        table = world.services.schemas.table(txn, session.database, "t")
        index = table.info.index("ua")
        assert index is not None and table.info.partition is not None
        part = table.parts[0 if b < 10 else 1]
        handle = key_codec.handle_of(part, [a, None, b, number])
        found = only_entry(part, index, [a, None, b, number], handle)
        assert found is not None
        txn.rollback()
        return found[0], part.form(index).payload(handle)

    missing, payload = entry(7, 1, 1)
    txn = world.store.begin()
    assert txn.get(missing) == payload
    txn.delete(missing)
    txn.put(entry(99, 2, 15)[0], entry(99, 2, 15)[1])
    txn.commit()
    for fast in ("ON", "OFF"):
        run(session, f"SET tidb_enable_fast_table_check = {fast}")
        assert error(session, "ADMIN CHECK INDEX t ua")[0] == 8223
    run(session, "SET tidb_enable_fast_table_check = ON")
    assert rows(session, "ADMIN RECOVER INDEX t ua") == [[1, 2]]
    assert rows(session, "ADMIN CLEANUP INDEX t ua") == [[1]]
    checked(session)


# -- partitions that come and go -------------------------------------------------------------------


@pytest.fixture
def revision(world: World, session: Session) -> Callable[[], int]:
    """The revision of t now."""

    def found() -> int:
        txn = world.store.begin()
        try:
            table = world.services.schemas.table(txn, session.database, "t")
            return meta.revision(txn, table.info.id)
        finally:
            txn.rollback()

    return found


@pytest.fixture
def blocker(world: World, session: Session) -> Iterator[Session]:
    """Another session; a change waits for what it has written."""
    found = world.session(session.database)
    yield found
    found.close()


def entries(world: World, session: Session) -> set[bytes]:
    """The ids of partitions that entries of ua name."""
    txn = world.store.begin()
    table = world.services.schemas.table(txn, session.database, "t")
    index = table.info.index("ua")
    assert index is not None
    held = [payload for _, payload in txn.scan(table.index_span(index))]
    txn.rollback()
    return {payload[1:9] for payload in held if payload[:1] == LIVE}


@pytest.mark.parametrize("change", ["DROP", "TRUNCATE"])
def test_a_partition_goes_with_its_entries(world: World, session: Session, change: str) -> None:
    made(session)
    filled(session, random.Random(3))
    before = entries(world, session)
    kept = rows(session, "SELECT a FROM t WHERE a IS NOT NULL AND b >= 10 ORDER BY a")
    gone = rows(session, "SELECT a FROM t WHERE a IS NOT NULL AND b < 10 ORDER BY a LIMIT 1")[0][0]
    run(session, f"ALTER TABLE t {change} PARTITION p0")
    assert len(entries(world, session)) == len(before) - 1
    assert rows(session, "SELECT a FROM t FORCE INDEX (ua) WHERE a >= 0 ORDER BY a") == kept
    assert rows(session, f"SELECT * FROM t WHERE a = {gone}") == []
    run(session, f"INSERT INTO t (id, a, c, b) VALUES (1, {gone}, 'n', 3)")
    assert rows(session, f"SELECT c FROM t WHERE a = {gone}") == [["n"]]
    checked(session)


@pytest.mark.parametrize(("change", "waits"), [("DROP", 1), ("TRUNCATE", 1), ("TRUNCATE", 2)])
def test_a_key_of_a_partition_that_goes_is_free_once_nobody_uses_it(
    world: World,
    session: Session,
    blocker: Session,
    revision: Callable[[], int],
    change: str,
    waits: int,
) -> None:
    """While writers one state behind may use the partition its keys are taken; who met one gets
    1062, as if its row were there, and whatever he asks for leaves it alone."""
    made(session)
    run(session, "INSERT INTO t (id, a, c, b) VALUES (1, 7, 'x', 1), (2, 8, 'y', 15)")
    other = world.session(session.database)
    run(blocker, "BEGIN")
    run(blocker, "UPDATE t SET c = 'z' WHERE a = 8")
    began = revision()
    text = f"ALTER TABLE t {change} PARTITION p0"
    changing = threading.Thread(target=run, args=(session, text), daemon=True)
    changing.start()
    until(lambda: revision() == began + 1)
    if waits == 2:  # the new ids are used, the old ones are not dead yet
        second = world.session(session.database)
        run(second, "BEGIN")
        run(second, "UPDATE t SET c = 'w' WHERE a = 7")
        run(blocker, "COMMIT")
        until(lambda: revision() == began + 2)
        blocker = second
    hidden = change == "DROP" or waits == 2
    assert rows(other, "SELECT c FROM t WHERE a = 7") == ([] if hidden else [["x"]])
    assert error(other, "INSERT INTO t (id, a, b) VALUES (3, 7, 15)") == (1062, "23000")
    if hidden:
        for tail in (" ON DUPLICATE KEY UPDATE c = 'no'", ""):
            verb = "INSERT" if tail else "REPLACE"
            asked = f"{verb} INTO t (id, a, b) VALUES (3, 7, 15){tail}"
            assert error(other, asked) == (1062, "23000")
        assert rows(other, "SELECT * FROM t FORCE INDEX (ic) WHERE c = 'x'") == []
    run(blocker, "COMMIT")
    changing.join(20)
    assert not changing.is_alive()
    run(other, "INSERT INTO t (id, a, b) VALUES (3, 7, 15)")
    assert rows(other, "SELECT id FROM t WHERE a = 7") == [[3]]
    assert rows(other, "SELECT id FROM t FORCE INDEX (ua) WHERE a > 0 ORDER BY a") == [[3], [2]]
    checked(session)
    other.close()


def test_each_snapshot_has_the_partitions_of_its_own_moment(
    world: World, session: Session, blocker: Session, revision: Callable[[], int]
) -> None:
    made(session, cut=CUTS[0].replace("MAXVALUE", "(30)"))
    run(session, "INSERT INTO t (id, a, c, b) VALUES (1, 7, 'x', 1)")
    run(blocker, "BEGIN")
    run(blocker, "UPDATE t SET c = 'z' WHERE a = 7")
    began = revision()
    text = "ALTER TABLE t ADD PARTITION (PARTITION p9 VALUES LESS THAN (40))"
    changing = threading.Thread(target=run, args=(session, text), daemon=True)
    changing.start()
    until(lambda: revision() == began + 1)
    lags = world.session(session.database)
    run(lags, "BEGIN")
    run(lags, "UPDATE t SET c = 'w' WHERE a = 1000")
    run(lags, "INSERT INTO t (id, a, b) VALUES (5, 5, 5)")
    run(blocker, "COMMIT")
    until(lambda: revision() == began + 2)
    other = world.session(session.database)
    run(other, "INSERT INTO t (id, a, c, b) VALUES (9, 9, 'n', 35)")
    read = "SELECT id, c FROM t FORCE INDEX (ua) WHERE a > 0 ORDER BY a"
    assert rows(lags, read) == [[5, None], [1, "x"]]
    assert rows(lags, f"{read} FOR UPDATE") == [[5, None], [1, "z"], [9, "n"]]
    run(lags, "INSERT INTO t (id, a, b) VALUES (6, 9, 5) ON DUPLICATE KEY UPDATE c = 'd'")
    run(lags, "COMMIT")
    changing.join(20)
    assert not changing.is_alive()
    assert rows(other, read) == [[5, None], [1, "z"], [9, "d"]]
    checked(session)
    for each in (lags, other):
        each.close()


def test_partitions_go_beside_writers_of_their_keys(world: World, session: Session) -> None:
    made(session, KEYS[1])
    stop = threading.Event()
    failed: list[BaseException] = []

    def writes(seed: int) -> None:
        chance = random.Random(seed)
        writer = world.session(session.database)
        try:
            while not stop.wait(PAUSE_S):
                n, b = chance.randrange(40), chance.randrange(30)
                text = chance.choice(
                    (
                        f"INSERT INTO t (id, a, c, b) VALUES ({n}, {n}, 'c', {b})",
                        f"REPLACE INTO t (id, a, c, b) VALUES ({n}, {n}, 'r', {b})",
                        f"UPDATE t SET b = {b} WHERE a = {n}",
                        f"DELETE FROM t WHERE a = {n}",
                        f"INSERT INTO t (id, a, c, b) VALUES ({n}, {n}, 'u', {b})"
                        " ON DUPLICATE KEY UPDATE c = 'd'",
                    )
                )
                try:
                    writer.execute(text)
                except Refused as refused:
                    assert refused.code in (1062, 1213, 1526, 8028), refused
                found = rows(writer, f"SELECT a FROM t FORCE INDEX (ua) WHERE a = {n}")
                assert len(found) <= 1
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
    assert len(entries(world, session)) <= 1


def test_a_table_that_was_cut_later_has_an_id_of_its_own_for_them(
    world: World, session: Session
) -> None:
    """Its own id was that of rows that are emptied, or are another table's by now."""
    run(session, "CREATE TABLE t (a INT, b INT)")
    run(session, "INSERT INTO t VALUES (1, 1), (2, 15)")
    run(session, f"ALTER TABLE t {CUTS[0]}")
    run(session, "ALTER TABLE t ADD UNIQUE INDEX ua (a) GLOBAL")
    txn = world.store.begin()
    table = world.services.schemas.table(txn, session.database, "t")
    txn.rollback()
    assert table.info.home not in (table.info.id, *table.info.physical_ids)
    assert rows(session, "SELECT b FROM t WHERE a = 2") == [[15]]
    run(session, "TRUNCATE TABLE t")
    run(session, "INSERT INTO t VALUES (1, 1), (2, 15)")
    checked(session)
    run(session, "DROP TABLE t")
    run(session, "FLASHBACK TABLE t")
    assert rows(session, "SELECT b FROM t WHERE a = 2") == [[15]]
    checked(session)
