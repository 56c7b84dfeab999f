"""Global indexes while rows move into other partitions: the change leaves them right, whatever they
become; unique keys hold in every state, for writers of this state and of the one before."""

import random
import threading
from itertools import product

import pytest

from exuvia.base.errors import Refused
from exuvia.cluster import member
from exuvia.ddl import queue
from exuvia.kv.packet import LIVE
from exuvia.sql.session.session import Session
from support.few import one_in
from support.stepped_alter import SteppedAlter, ended
from support.world import PAUSE_S, World, error, rows, run

BY_RANGE = (
    "PARTITION BY RANGE (b) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN"
    " (20), PARTITION p2 VALUES LESS THAN MAXVALUE)"
)
BY_HASH = "PARTITION BY HASH (b) PARTITIONS 3"
BY_LIST = (
    "PARTITION BY LIST (b % 3) (PARTITION p0 VALUES IN (0), PARTITION p1 VALUES IN (1), PARTITION"
    " p2 VALUES IN (2), PARTITION p3 VALUES IN (NULL))"
)
SPLIT = (
    "REORGANIZE PARTITION p0, p1 INTO (PARTITION q0 VALUES LESS THAN (3), PARTITION q1 VALUES LESS"
    " THAN (12), PARTITION q2 VALUES LESS THAN (20))"
)
KEYS = ("id INT", "id INT, PRIMARY KEY (id, b)", "id INT, PRIMARY KEY (id) NONCLUSTERED GLOBAL")
CHANGES = (
    (BY_RANGE, SPLIT),
    (
        BY_RANGE,
        "REORGANIZE PARTITION p2 INTO (PARTITION p2 VALUES LESS THAN (22), PARTITION p3 VALUES LESS"
        " THAN MAXVALUE)",
    ),
    (BY_LIST, "REORGANIZE PARTITION p0, p3 INTO (PARTITION q VALUES IN (0, NULL))"),
    (BY_HASH, "ADD PARTITION PARTITIONS 2"),
    (BY_HASH, "COALESCE PARTITION 1"),
    ("PARTITION BY KEY (b) PARTITIONS 3", "ADD PARTITION PARTITIONS 1"),
    (BY_RANGE, "PARTITION BY HASH (b) PARTITIONS 2"),
    (BY_RANGE, "PARTITION BY KEY (b) PARTITIONS 4 UPDATE INDEXES (ic LOCAL, lb GLOBAL, ua GLOBAL)"),
    (BY_RANGE, "REMOVE PARTITIONING"),
)


def made(session: Session, key: str, cut: str) -> None:
    """t (id, b, a, c), with a global unique index of a, plain ones of c and of (c, a), and a local
    one of b."""
    indexes = "UNIQUE KEY ua (a) GLOBAL, KEY ic (c) GLOBAL, KEY ica (c, a) GLOBAL, KEY lb (b)"
    b = "b INT NOT NULL" if "PRIMARY KEY (id, b)" in key else "b INT"
    run(session, f"CREATE TABLE t (a INT, c VARCHAR(5), {b}, {key}, {indexes}) {cut}")


ELEMENTS = "JSON_ARRAY(IFNULL(a, -id), 9000000 + id)"
BY_ELEMENTS = f"ALTER TABLE t ADD UNIQUE INDEX ue ((CAST({ELEMENTS} AS SIGNED ARRAY))) GLOBAL"
"""Of several entries a row, of which some stay when `a` changes."""


def filled(session: Session, number: int = 200) -> None:
    chance = random.Random(1)
    cells = (
        f"({n}, {n if n % 9 else 'NULL'}, '{chance.choice('abcde')}', {chance.randrange(30)})"
        for n in range(number)
    )
    run(session, f"INSERT INTO t (id, a, c, b) VALUES {', '.join(cells)}")


def checked(session: Session) -> None:
    """Index and rows agree, by either way to look."""
    for fast in ("ON", "OFF"):
        run(session, f"SET tidb_enable_fast_table_check = {fast}")
        run(session, "ADMIN CHECK TABLE t")
    run(session, "SET tidb_enable_fast_table_check = ON")


def named(world: World, session: Session, index: str = "ua") -> tuple[set[bytes], set[bytes]]:
    """The ids of partitions that entries of a global index name, and of those there are."""
    txn = world.store.begin()
    table = world.services.schemas.table(txn, session.database, "t")
    found = table.info.index(index)
    assert found is not None and found.is_global
    held = [payload for _, payload in txn.scan(table.index_span(found))]
    txn.rollback()
    names = {payload[1:9] for payload in held if payload[:1] == LIVE and payload[1:]}
    return names, {part.row_prefix[1:9] for part in table.parts}


@pytest.mark.parametrize(
    ("cut", "change", "key"), one_in(5, [(*change, key) for change in CHANGES for key in KEYS])
)
def test_a_change_of_partitions_keeps_them(
    world: World, session: Session, key: str, cut: str, change: str
) -> None:
    made(session, key, cut)
    filled(session)
    before = rows(session, "SELECT * FROM t ORDER BY id")
    shown = rows(session, "SHOW CREATE TABLE t")[0][1].split("\n) ")[0]
    run(session, f"ALTER TABLE t {change}")
    assert rows(session, "SELECT * FROM t ORDER BY id") == before
    checked(session)
    after = rows(session, "SHOW CREATE TABLE t")[0][1].split("\n) ")[0]
    spread = " /*T![global_index] GLOBAL */"
    if change.startswith("REMOVE"):
        assert after == shown.replace(spread, "")
    elif "UPDATE INDEXES" in change:
        assert "KEY `ic` (`c`),\n" in after and f"KEY `lb` (`b`){spread}" in after
        names, there = named(world, session, "ua")
        assert names <= there
    else:
        assert after == shown
        names, there = named(world, session)
        assert names <= there and len(names) > 1
    a, b = next((line[0], line[2]) for line in before if line[0] and line[2] is not None)
    assert rows(session, f"SELECT b FROM t WHERE a = {a}") == [[b]]
    plan = rows(session, f"EXPLAIN SELECT b FROM t WHERE a = {a}")
    assert "Point_Get" in plan[-1][0] and "index:ua(a)" in plan[-1][3]
    new = f"INSERT INTO t (id, a, c, b) VALUES (900, {a}, 'x', {29 - b})"
    assert error(session, new) == (1062, "23000")
    run(session, f"UPDATE t SET b = {29 - b} WHERE a = {a}")
    assert rows(session, f"SELECT b FROM t FORCE INDEX (ua) WHERE a = {a}") == [[29 - b]]
    run(session, f"DELETE FROM t WHERE a = {a}")
    run(session, new)
    assert rows(session, f"SELECT id FROM t WHERE a = {a}") == [[900]]
    run(session, "ANALYZE TABLE t")
    checked(session)


def test_it_can_be_done_again_and_again(world: World, session: Session) -> None:
    made(session, KEYS[1], BY_RANGE)
    filled(session)
    before = rows(session, "SELECT * FROM t ORDER BY id")
    for change in (
        SPLIT,
        "REORGANIZE PARTITION q0, q1, q2, p2 INTO (PARTITION p VALUES LESS THAN MAXVALUE)",
        "PARTITION BY HASH (b) PARTITIONS 2 UPDATE INDEXES (ic LOCAL)",
        "PARTITION BY HASH (b) PARTITIONS 3 UPDATE INDEXES (ic GLOBAL, ica LOCAL)",
        "COALESCE PARTITION 2",
        "REMOVE PARTITIONING",
        f"{BY_RANGE} UPDATE INDEXES (ua GLOBAL, lb GLOBAL)",
        "DROP PARTITION p0",
        "REMOVE PARTITIONING",
    ):
        run(session, f"ALTER TABLE t {change}")
        checked(session)
    assert rows(session, "SELECT * FROM t ORDER BY id") == [
        each for each in before if each[2] >= 10
    ]


# -- in each state ---------------------------------------------------------------------------------


WALKED = (
    SPLIT,
    "PARTITION BY HASH (b) PARTITIONS 2 UPDATE INDEXES (ic LOCAL)",
    "REMOVE PARTITIONING",
)


@pytest.mark.parametrize(
    ("change", "begin", "key"), one_in(7, product(WALKED, ["BEGIN", "BEGIN OPTIMISTIC"], KEYS[:2]))
)
def test_unique_keys_hold_in_every_state(
    world: World, session: Session, key: str, change: str, begin: str
) -> None:
    """Of a transaction one state behind, and of statements of this one. Rows go from partition to
    partition, among those that move, those that stay, and between both, and keep their keys."""
    made(session, key, BY_RANGE)
    filled(session, 60)
    run(session, "UPDATE t SET a = 1000 + id, b = 5 WHERE id < 30")
    run(session, BY_ELEMENTS)
    model = {line[0]: line[1] for line in rows(session, "SELECT id, a FROM t")}
    other, lags = world.session(session.database), world.session(session.database)
    changing = SteppedAlter(world, session, f"ALTER TABLE t {change}")
    run(lags, begin)
    run(lags, "UPDATE t SET c = 'z' WHERE a = 1020")
    changing.start()
    for state in range(1, 7):
        changing.reaches(state)
        following = world.session(session.database)
        run(following, begin)
        run(following, f"UPDATE t SET c = 'z' WHERE a = {1020 + state}")
        for each, base in ((other, 1001), (lags, 1010 + state)):
            for b in (25, 15, 1, 28, 4):  # stays, moves
                run(each, f"UPDATE t SET b = {b} WHERE a = {base}")
                read = f"SELECT b FROM t FORCE INDEX (ua) WHERE a = {base} FOR UPDATE"
                assert rows(each, read) == [[b]]
                for element in (base, 9000000 + base - 1000):
                    read = f"SELECT b FROM t WHERE {element} MEMBER OF ({ELEMENTS})"
                    assert rows(each, read) == [[b]]
            run(each, f"UPDATE t SET a = a + 5000 WHERE a = {base}")
            run(each, f"UPDATE t SET b = 29 - b, a = a - 5000 WHERE a = {base + 5000}")
            taken = f"INSERT INTO t (id, a, b) VALUES (700, {base}, 27)"
            assert error(each, taken) == (1062, "23000")
            met = f"INSERT INTO t (id, a, b) VALUES ({base - 1000}, 800 + {base}, 27)"
            assert error(each, met) == (1062, "23000")
            run(each, f"DELETE FROM t WHERE a = {base}")
            run(each, f"INSERT INTO t (id, a, b) VALUES ({base - 1000}, {base}, 12)")
            run(each, f"REPLACE INTO t (id, a, b) VALUES ({base - 1000}, {base}, 3)")
            run(each, f"UPDATE t SET a = 2000 - a, b = 11 WHERE a = {base}")
            run(each, f"UPDATE t SET a = 2000 - a, b = 2 WHERE a = {2000 - base}")
        found = rows(other, "SELECT id, a FROM t FORCE INDEX (ua) WHERE a > 0 ORDER BY a")
        assert found == rows(other, "SELECT id, a FROM t IGNORE INDEX (ua) WHERE a > 0 ORDER BY a")
        ended(lags)
        lags = following
    ended(lags)
    changing.ends()
    assert {line[0]: line[1] for line in rows(other, "SELECT id, a FROM t")} == model
    checked(other)
    other.close()


def test_a_row_that_comes_again_has_its_entries(world: World, session: Session) -> None:
    """It came and went, written in both sets, and comes again by one who does not know the new
    index yet: no tombstone is to stop the fill."""
    made(session, KEYS[1], BY_RANGE)
    filled(session, 30)
    row = "INSERT INTO t (id, a, c, b) VALUES (900, 900, 'q', 5)"
    other = world.session(session.database)
    blocker = world.session(session.database)
    lags = world.session(session.database)
    run(blocker, "BEGIN")
    run(blocker, "UPDATE t SET c = 'z' WHERE a = 1")
    changing = SteppedAlter(world, session, f"ALTER TABLE t {SPLIT}")
    changing.start()
    changing.reaches(1)  # delete only
    run(lags, "BEGIN OPTIMISTIC")
    run(lags, "UPDATE t SET c = 'y' WHERE a = 2")
    run(blocker, "COMMIT")
    changing.reaches(2)  # write only
    run(other, row)
    run(other, "DELETE FROM t WHERE id = 900")
    run(lags, row)
    run(lags, "COMMIT")
    changing.ends()
    assert rows(other, "SELECT id FROM t FORCE INDEX (ic) WHERE c = 'q'") == [[900]]
    checked(session)
    for each in (other, lags, blocker):
        each.close()


@pytest.mark.parametrize("state", [1, 2, 3, 4])
@pytest.mark.parametrize(
    "change", [SPLIT, "PARTITION BY HASH (b) UPDATE INDEXES (ic LOCAL)", "REMOVE PARTITIONING"]
)
def test_a_change_that_is_cancelled_leaves_them_as_they_were(
    world: World, session: Session, change: str, state: int
) -> None:
    """In the last of these states readers read the new indexes already."""
    made(session, KEYS[1], BY_RANGE)
    filled(session, 60)
    run(session, BY_ELEMENTS)
    shown = rows(session, "SHOW CREATE TABLE t")
    other = world.session(session.database)
    changing = SteppedAlter(world, session, f"ALTER TABLE t {change}")
    blockers = [world.session(session.database) for _ in range(state)]
    for n, each in enumerate(blockers):
        if n:
            changing.reaches(n)
        run(each, "BEGIN")
        run(each, f"UPDATE t SET c = 'z' WHERE a = {n + 1}")
        if n:
            ended(blockers[n - 1])
        else:
            changing.start()
    changing.reaches(state)
    for n in range(10, 30):
        run(other, f"INSERT INTO t (id, a, c, b) VALUES ({n + 900}, {n + 900}, 'n', {n})")
        run(other, f"UPDATE t SET b = 29 - b WHERE id = {n}")
        run(other, f"DELETE FROM t WHERE a = {n + 20}")
        run(other, f"UPDATE t SET c = 'm', a = a + 4000 WHERE id = {n}")
    (job, *_) = (line[0] for line in rows(other, "ADMIN SHOW DDL JOBS 1"))
    run(other, f"ADMIN CANCEL DDL JOBS {job}")
    ended(blockers[-1])
    changing.ends(8214)
    assert rows(session, "SHOW CREATE TABLE t") == shown
    for index in ("ua", "ue"):
        names, there = named(world, session, index)
        assert names <= there
    checked(session)
    txn = world.store.begin()
    table = world.services.schemas.table(txn, session.database, "t").info
    assert table.partition is not None and not table.partition.exuvia_index_pairs
    known = ("primary", "ua", "ic", "ica", "lb", "ue")
    assert all(index.idx_name.L in known for index in table.indexes)
    txn.rollback()
    other.close()


@pytest.mark.parametrize("key", one_in(4, KEYS, first=1))
def test_they_are_kept_beside_writers(world: World, session: Session, key: str) -> None:
    """And a local one that has several entries a row."""
    made(session, key, BY_RANGE)
    filled(session)
    array = "JSON_ARRAY(IFNULL(a, -1), IFNULL(b, -1), 7)"
    run(session, f"ALTER TABLE t ADD INDEX mv ((CAST({array} AS SIGNED ARRAY)))")
    stop, failed = threading.Event(), []
    models: list[dict[int, tuple[int, int]]] = [{}, {}]

    def writes(place: int) -> None:
        chance, model = random.Random(place), models[place]
        writer = world.session(session.database)
        try:
            while not stop.wait(PAUSE_S):
                n, b = 1000 * (place + 1) + chance.randrange(30), chance.randrange(30)
                a = 1000 + chance.randrange(60)
                text, after = chance.choice(
                    (
                        (f"INSERT INTO t (id, a, c, b) VALUES ({n}, {a}, 'c', {b})", (a, b)),
                        (f"UPDATE t SET b = {b} WHERE id = {n}", b),
                        (f"UPDATE t SET b = {b}, a = {a} WHERE id = {n}", (a, b)),
                        (f"DELETE FROM t WHERE id = {n}", None),
                    )
                )
                if text.startswith("INSERT") and n in model:
                    continue
                try:
                    writer.execute(text)
                except Refused as refused:
                    assert refused.code in (1062, 1213, 8028), refused
                    continue
                if after is None:
                    model.pop(n, None)
                elif text.startswith("INSERT") or n in model:
                    model[n] = after if isinstance(after, tuple) else (model[n][0], after)
                found = rows(writer, f"SELECT a FROM t FORCE INDEX (ua) WHERE a = {a}")
                assert len(found) <= 1
        except BaseException as error:
            failed.append(error)
        finally:
            writer.close()

    threads = [threading.Thread(target=writes, args=(n,), daemon=True) for n in range(2)]
    for each in threads:
        each.start()
    for change in (
        SPLIT,
        "REORGANIZE PARTITION q0, q1 INTO (PARTITION q1 VALUES LESS THAN (12))",
        "PARTITION BY HASH (b) PARTITIONS 3 UPDATE INDEXES (ic LOCAL)",
        "ADD PARTITION PARTITIONS 2",
        "REMOVE PARTITIONING",
        f"{BY_RANGE} UPDATE INDEXES (ua GLOBAL, ic GLOBAL"
        + (", `primary` GLOBAL)" if "NONCLUSTERED" in key else ")"),
    ):
        run(session, f"ALTER TABLE t {change}")
    stop.set()
    for each in threads:
        each.join(20)
    assert not failed, failed
    found = rows(session, "SELECT id, a, b FROM t WHERE id >= 1000")
    assert {line[0]: (line[1], line[2]) for line in found} == models[0] | models[1]
    checked(session)


# -- what is asked and refused ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "code", "said"),
    [
        ("HASH (b) UPDATE INDEXES (nope GLOBAL)", 1280, "Incorrect index name 'nope'"),
        ("HASH (b) UPDATE INDEXES (ic GLOBAL, IC LOCAL)", 1280, "Incorrect index name 'IC'"),
        ("HASH (b) UPDATE INDEXES (ua LOCAL)", 8264, "Global Index is needed for index 'ua'"),
        ("HASH (id)", 1503, "A CLUSTERED INDEX must include all columns"),
        (
            "HASH (b) UPDATE INDEXES (`primary` GLOBAL)",
            8200,
            "both a global index and a clustered index",
        ),
        ("HASH (b) UPDATE INDEXES (ic NOWHERE)", 1064, ""),
        ("HASH (b) UPDATE INDEXES ()", 1064, ""),
    ],
)
def test_what_update_indexes_refuses(session: Session, asked: str, code: int, said: str) -> None:
    run(
        session,
        "CREATE TABLE t (id VARCHAR(5), b INT, a INT, c INT, PRIMARY KEY (id, b), UNIQUE KEY ua (a)"
        f" GLOBAL, KEY ic (c)) {BY_RANGE}",
    )
    if asked == "HASH (id)":
        asked = "KEY (c) UPDATE INDEXES (ua GLOBAL)"
    with pytest.raises(Refused) as refused:
        run(session, f"ALTER TABLE t PARTITION BY {asked}")
    assert refused.value.code == code
    assert said in refused.value.message


def test_an_integer_key_that_rows_lie_under_is_none_of_the_indexes(session: Session) -> None:
    run(session, "CREATE TABLE t (id INT PRIMARY KEY, b INT)")
    asked = "ALTER TABLE t PARTITION BY HASH (id) UPDATE INDEXES (`primary` GLOBAL)"
    with pytest.raises(Refused, match="A CLUSTERED INDEX must include all columns") as refused:
        run(session, asked)
    assert refused.value.code == 1503


def test_a_new_table_updates_its_indexes_too(session: Session) -> None:
    run(
        session,
        "CREATE TABLE t (a INT, b INT, UNIQUE KEY ua (a), KEY ib (b)) PARTITION BY HASH (b)"
        " PARTITIONS 2 UPDATE INDEXES (ua GLOBAL, ib LOCAL)",
    )
    ((_, text),) = rows(session, "SHOW CREATE TABLE t")
    assert (
        "UNIQUE KEY `ua` (`a`) /*T![global_index] GLOBAL */" in text and "KEY `ib` (`b`)\n" in text
    )


def test_a_key_without_the_columns_becomes_global(session: Session) -> None:
    run(session, "CREATE TABLE t (a INT, b INT, UNIQUE KEY ua (a))")
    run(session, "INSERT INTO t VALUES (1, 1), (2, 15), (NULL, 3), (NULL, 3)")
    assert error(session, f"ALTER TABLE t {BY_RANGE}")[0] == 8264
    run(session, f"ALTER TABLE t {BY_RANGE} UPDATE INDEXES (ua GLOBAL)")
    assert error(session, "INSERT INTO t VALUES (1, 25)") == (1062, "23000")
    checked(session)


def test_the_plan_says_what_is_filled(session: Session) -> None:
    made(session, KEYS[0], BY_RANGE)
    filled(session, 30)
    plan = "\n".join(" ".join(line) for line in rows(session, f"EXPLAIN ALTER TABLE t {SPLIT}"))
    assert "move rows of 2 to 3 partition(s), fill and verify index ua (unique), ic, ica" in plan
    assert "5 range(s) to empty, 3 range(s) tombstones to purge" in plan


def test_older_nodes_are_waited_for(
    world: World, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    (front, *_) = member.live(world.store.begin())
    monkeypatch.setattr(member, "before_0_5", lambda txn: [front])
    made(session, KEYS[0], BY_RANGE)
    run(session, "CREATE TABLE u (a INT, b INT, KEY i (a))")
    for text in (
        f"ALTER TABLE t {SPLIT}",
        "ALTER TABLE t REMOVE PARTITIONING",
        "ALTER TABLE u PARTITION BY HASH (b) UPDATE INDEXES (i GLOBAL)",
    ):
        with pytest.raises(Refused, match="of an older release serves") as refused:
            run(session, text)
        assert refused.value.code == 8200
    run(session, "ALTER TABLE u PARTITION BY HASH (b) UPDATE INDEXES (i LOCAL)")  # as ever
    txn = world.store.begin()
    (job, *_) = queue.newest(txn, 1)
    txn.rollback()
    assert len(job.raw_args) == 3
