"""Another clustered primary key, or none: rows move to other handles, every index with them; keys
hold in every state, for writers of this state and of the one before."""

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from exuvia.base.errors import Refused
from exuvia.cluster import member
from exuvia.kv import keys
from exuvia.sql.session.session import Session
from support.few import one_in
from support.node_processes import until
from support.stepped_alter import SteppedAlter, ended
from support.world import PAUSE_S, World, error, rows, run

KEYS = (
    "",
    "PRIMARY KEY (id)",
    "PRIMARY KEY (id) NONCLUSTERED",
    "PRIMARY KEY (c)",
    "PRIMARY KEY (u, id)",
)
NEW = ("(id)", "(u)", "(c)", "(c(2), id)", "(d, c)", "(b, id)", "(u, c, d)")
CUT = "PARTITION BY HASH (id) PARTITIONS 3"
SPREAD = f"{CUT} -- with global indexes"
CUT_KEYS = ("", "PRIMARY KEY (id)", "PRIMARY KEY (id) NONCLUSTERED", "PRIMARY KEY (c, id)")
CUT_NEW = ("(id)", "(u, id)", "(c(2), id)", "(id, d)")


def made(session: Session, key: str = "", more: str = "", cut: str = "") -> None:
    """t (id, u, a, b, c, d, j), indexes of every kind; id, u and c are different in all rows.
    `cut`: its partitions, by id, which is in each unique key then, unless they are SPREAD."""
    also = ", id" if cut else ""
    parts = [
        "id INT NOT NULL, u BIGINT UNSIGNED NOT NULL, a INT, b DECIMAL(6,2), c VARCHAR(20) COLLATE"
        " utf8mb4_general_ci, d DATETIME NOT NULL, j JSON",
        f"KEY ka (a), UNIQUE KEY uc (c{also}), UNIQUE KEY ub (b, a{also}), KEY kl ((LOWER(c)))",
        *filter(None, (key, more)),
    ]
    if cut == SPREAD:
        parts[1] = parts[1].replace("ka (a)", "ka (a) GLOBAL").replace("(c, id)", "(c) GLOBAL")
        parts.append("KEY gu (u) GLOBAL")
    run(session, f"CREATE TABLE t ({', '.join(parts)}) {cut}")
    place = "GLOBAL" if cut == SPREAD else ""
    run(session, f"ALTER TABLE t ADD INDEX mj ((CAST(j AS SIGNED ARRAY))) {place}")
    if not cut:
        run(session, "ALTER TABLE t ADD UNIQUE INDEX pa (a, id) WHERE a > 3")


def line(n: int, a: object = None) -> str:
    if a is None:
        a = n % 7 if n % 5 else "NULL"
    more = (1 << 63) + n if n % 2 else n
    return f"({n}, {more}, {a}, {n}.25, 'x{n}', '2024-01-{n % 28 + 1:02}', '[{n % 3}, {n % 4}]')"


def filled(session: Session, number: int = 60) -> list[list[object]]:
    run(session, f"INSERT INTO t VALUES {', '.join(map(line, range(number)))}")
    return rows(session, "SELECT * FROM t ORDER BY id")


def asked(key: str, new: str) -> str:
    """The statement that makes `new` the clustered key; empty: none."""
    if not new:
        return "ALTER TABLE t DROP PRIMARY KEY"
    drops = "DROP PRIMARY KEY, " if key else ""
    kind = "" if "NONCLUSTERED" in new else " CLUSTERED"
    return f"ALTER TABLE t {drops}ADD PRIMARY KEY {new}{kind}"


def checked(session: Session) -> None:
    """Indexes and rows agree, by either way to look."""
    for fast in ("ON", "OFF"):
        run(session, f"SET tidb_enable_fast_table_check = {fast}")
        run(session, "ADMIN CHECK TABLE t")
    run(session, "SET tidb_enable_fast_table_check = ON")


def at_rest(world: World, session: Session) -> None:
    """Nothing of a change is left in the catalog, and rows lie under one id."""
    with world.store.read() as txn:
        info = world.services.schemas.table(txn, session.database, "t").info
    assert info.exuvia_rekey is None
    assert not any(index.idx_name.L.startswith("_idx$") for index in info.indexes)
    assert all(column.exuvia_changing_type is None for column in info.cols)


# -- what it leaves --------------------------------------------------------------------------------


OF_EITHER = [("", key, new) for key in KEYS for new in NEW]
OF_EITHER += [(CUT, key, new) for key in CUT_KEYS for new in CUT_NEW]
OF_EITHER += [(SPREAD, "", "(id)"), (SPREAD, "PRIMARY KEY (id)", "(c(2), id)")]
OF_ALL_PARTITIONS = "PRIMARY KEY (u) NONCLUSTERED GLOBAL"
OF_EITHER += [(CUT, OF_ALL_PARTITIONS, new) for new in CUT_NEW]
OF_EITHER += [(SPREAD, OF_ALL_PARTITIONS, "(id, d)")]


@pytest.mark.parametrize(("cut", "key", "new"), one_in(9, OF_EITHER))
def test_rows_and_indexes_are_what_they_were(
    world: World, session: Session, cut: str, key: str, new: str
) -> None:
    made(session, key, cut=cut)
    before = filled(session)
    run(session, asked(key, new))
    assert rows(session, "SELECT * FROM t ORDER BY id") == before
    checked(session)
    at_rest(world, session)
    shown = rows(session, "SHOW CREATE TABLE t")[0][1].replace("`", "")
    assert f"PRIMARY KEY {new.replace(', ', ',')} /*T![clustered_index] CLUSTERED */" in shown
    assert shown.count("PRIMARY") == 1
    kind = "SELECT TIDB_PK_TYPE FROM information_schema.tables WHERE table_name = 't'"
    assert ["CLUSTERED"] in rows(session, f"{kind} AND table_schema = DATABASE()")
    for place in ("a = 3", "c = 'X7'", "b = 8.25", "3 MEMBER OF (j)", "a > 3 AND a < 6"):
        wanted = [n for n in before if _meets(n, place)]
        assert rows(session, f"SELECT * FROM t WHERE {place} ORDER BY id") == wanted
    assert error(session, f"INSERT INTO t VALUES {line(7)}") == (1062, "23000")
    run(session, f"INSERT INTO t VALUES {line(70)}")
    run(session, "UPDATE t SET id = 99, c = 'new', u = 98 WHERE id = 70")
    run(session, "DELETE FROM t WHERE c = 'x3'")
    assert rows(session, "SELECT u FROM t WHERE c = 'NEW'") == [[98]]
    checked(session)


def _meets(found: list[object], place: str) -> bool:
    _, _, a, b, c, _, j = found
    tests: dict[str, Callable[[], bool]] = {
        "a = 3": lambda: a == 3,
        "c = 'X7'": lambda: c == "x7",
        "b = 8.25": lambda: str(b) == "8.25",
        "3 MEMBER OF (j)": lambda: "3" in str(j),
        "a > 3 AND a < 6": lambda: a in (4, 5),
    }
    return tests[place]()


@pytest.mark.parametrize("new", ["(u, id)", "(b, id)"])
def test_nothing_is_left_of_global_indexes(world: World, session: Session, new: str) -> None:
    """Of the set that is given up, once a change is done, and once one is refused."""
    made(session, "PRIMARY KEY (id)", cut=SPREAD)
    filled(session)
    if new == "(b, id)":
        run(session, "UPDATE t SET b = NULL WHERE id = 5")
        assert error(session, asked("PRIMARY KEY (id)", new))[0] == 1138
    else:
        run(session, asked("PRIMARY KEY (id)", new))
    waiting = "SELECT COUNT(*) FROM mysql.gc_delete_range"
    until(lambda: rows(session, waiting) == [[0]])
    with world.store.read() as txn:
        info = world.services.schemas.table(txn, session.database, "t").info
        found = {
            int.from_bytes(key[keys.HANDLE_AT : keys.VALUES_AT], "big")
            for key, _ in txn.scan(keys.span_of(keys.entries_prefix(info.id)))
        }
    assert found == {index.id for index in info.global_indexes}
    checked(session)


def test_it_goes_on_and_on(world: World, session: Session) -> None:
    made(session)
    before = filled(session)
    key = ""
    for new in (*NEW, "", *reversed(NEW), ""):
        run(session, asked(key, new))
        key = new
        assert rows(session, "SELECT * FROM t ORDER BY id") == before
        checked(session)


DROPPED = [("", key) for key in (*NEW, "(u)", "(c(2), id)")] + [(CUT, key) for key in CUT_NEW]
DROPPED += [(SPREAD, "(id)"), (SPREAD, "(u, id)")]


@pytest.mark.parametrize(("cut", "key"), one_in(5, DROPPED))
def test_a_key_is_dropped(world: World, session: Session, cut: str, key: str) -> None:
    made(session, f"PRIMARY KEY {key}", cut=cut)
    before = filled(session)
    plan = rows(session, "EXPLAIN ALTER TABLE t DROP PRIMARY KEY")
    assert "move rows to hidden row ids" in [step[3] for step in plan]
    run(session, "ALTER TABLE t DROP PRIMARY KEY")
    assert rows(session, "SELECT * FROM t ORDER BY id") == before
    checked(session)
    at_rest(world, session)
    assert "PRIMARY" not in rows(session, "SHOW CREATE TABLE t")[0][1]
    kind = "SELECT TIDB_PK_TYPE FROM information_schema.tables WHERE table_name = 't'"
    assert ["NONCLUSTERED"] in rows(session, f"{kind} AND table_schema = DATABASE()")
    ids = [n for (n,) in rows(session, "SELECT _tidb_rowid FROM t")]
    assert len(set(ids)) == len(before) and min(ids) > 0
    for place in ("a = 3", "c = 'X7'", "b = 8.25", "3 MEMBER OF (j)", "a > 3 AND a < 6"):
        wanted = [n for n in before if _meets(n, place)]
        assert rows(session, f"SELECT * FROM t WHERE {place} ORDER BY id") == wanted
    run(session, "INSERT INTO t SELECT id, u, NULL, b, CONCAT(c, 'y'), d, j FROM t WHERE id = 7")
    run(session, "UPDATE t SET id = 99, u = 98 WHERE id = 7")
    assert rows(session, "SELECT id, u FROM t WHERE c IN ('x7', 'x7y')") == [[99, 98]] * 2
    run(session, "DELETE FROM t WHERE id = 99 LIMIT 1")
    checked(session)
    run(session, f"ALTER TABLE t ADD PRIMARY KEY {key}")
    checked(session)


NOT_CLUSTERED = [(cut, key, key) for cut, key in DROPPED]
NOT_CLUSTERED += [("", "(id)", new) for new in NEW[1:]]
NOT_CLUSTERED += [("", "(c(2), id)", "(id)"), ("", "(u, c, d)", "(d, c)")]
NOT_CLUSTERED += [(cut, "(u, id)", new) for cut in (CUT, SPREAD) for new in ("(id)", "(c(2), id)")]


@pytest.mark.parametrize(("cut", "key", "new"), one_in(7, NOT_CLUSTERED))
def test_a_key_that_is_not_clustered(
    world: World, session: Session, cut: str, key: str, new: str
) -> None:
    """In the place of one that is, on its columns or on others."""
    made(session, f"PRIMARY KEY {key}", cut=cut)
    before = filled(session)
    change = asked(key, f"{new} NONCLUSTERED")
    work = ["fill and verify index PRIMARY (unique)"] * (new != key)
    work.append("move rows to hidden row ids")
    assert ", ".join(work) in [step[3] for step in rows(session, f"EXPLAIN {change}")]
    run(session, change)
    assert rows(session, "SELECT * FROM t ORDER BY id") == before
    checked(session)
    at_rest(world, session)
    shown = rows(session, "SHOW CREATE TABLE t")[0][1].replace("`", "")
    assert f"PRIMARY KEY {new.replace(', ', ',')} /*T![clustered_index] NONCLUSTERED */" in shown
    assert shown.count("PRIMARY") == 1
    first = new.strip("()").split(",")[0].partition("(")[0]
    assert rows(session, f"SHOW COLUMNS FROM t LIKE '{first}'")[0][3] == "PRI"
    ids = [n for (n,) in rows(session, "SELECT _tidb_rowid FROM t")]
    assert len(set(ids)) == len(before) and min(ids) > 0
    assert error(session, f"INSERT INTO t VALUES {line(7)}") == (1062, "23000")
    run(session, f"INSERT INTO t VALUES {line(70)}")
    run(session, "UPDATE t SET id = 99, c = 'new', u = 98 WHERE id = 70")
    run(session, "DELETE FROM t WHERE c = 'x3'")
    assert rows(session, "SELECT u FROM t WHERE c = 'NEW'") == [[98]]
    checked(session)
    run(session, asked(new, key))
    checked(session)
    at_rest(world, session)


@pytest.mark.parametrize("new", ["(id)", "(u)"])
def test_a_key_of_all_partitions(world: World, session: Session, new: str) -> None:
    made(session, "PRIMARY KEY (id)", cut=CUT)
    before = filled(session)
    run(session, asked("(id)", f"{new} NONCLUSTERED GLOBAL"))
    shown = rows(session, "SHOW CREATE TABLE t")[0][1].replace("`", "")
    kind = "/*T![clustered_index] NONCLUSTERED */ /*T![global_index] GLOBAL */"
    assert f"PRIMARY KEY {new} {kind}" in shown
    assert rows(session, "SELECT * FROM t ORDER BY id") == before
    checked(session)
    at_rest(world, session)


def test_a_foreign_key_stays_on_a_key_that_is_clustered_no_longer(session: Session) -> None:
    run(session, "CREATE TABLE p (id INT PRIMARY KEY)")
    run(session, "INSERT INTO p VALUES (1), (2)")
    run(session, "CREATE TABLE t (id INT PRIMARY KEY, FOREIGN KEY (id) REFERENCES p (id))")
    run(session, "INSERT INTO t VALUES (1)")
    for table in ("p", "t"):
        change = "DROP PRIMARY KEY, ADD PRIMARY KEY (id) NONCLUSTERED"
        run(session, f"ALTER TABLE {table} {change}")
    assert error(session, "INSERT INTO t VALUES (3)") == (1452, "23000")
    assert error(session, "DELETE FROM p WHERE id = 1") == (1451, "23000")
    run(session, "INSERT INTO t VALUES (2)")
    for table in ("p", "t"):
        run(session, f"ADMIN CHECK TABLE {table}")


def test_ids_go_on_behind_those_that_rows_got(session: Session) -> None:
    run(session, "CREATE TABLE t (k INT AUTO_INCREMENT PRIMARY KEY, v INT)")
    run(session, f"INSERT INTO t VALUES {', '.join(f'({9 * n + 1}, {n})' for n in range(700))}")
    run(session, "ALTER TABLE t DROP PRIMARY KEY")
    run(session, "INSERT INTO t (v) VALUES (-1), (-2)")
    by_id = [n for (n,) in rows(session, "SELECT v FROM t ORDER BY _tidb_rowid")]
    assert by_id == [*range(700), -1, -2]
    [[k, after]] = rows(session, "SELECT MIN(k), MAX(k) FROM t WHERE v < 0")
    assert 9 * 699 + 1 < k < after
    checked(session)


def test_a_key_of_a_nullable_integer_holds(world: World, session: Session) -> None:
    run(session, "CREATE TABLE t (a INT, b INT, KEY kb (b))")
    run(session, "INSERT INTO t VALUES (3, 1), (1, 2)")
    run(session, "ALTER TABLE t ADD PRIMARY KEY (a) CLUSTERED")
    assert rows(session, "SELECT * FROM t") == [[1, 2], [3, 1]]
    assert error(session, "INSERT INTO t VALUES (3, 5)") == (1062, "23000")
    assert error(session, "INSERT INTO t VALUES (NULL, 5)") == (1048, "23000")
    assert "Point_Get" in rows(session, "EXPLAIN SELECT * FROM t WHERE a = 3")[0][0]
    checked(session)
    at_rest(world, session)


def test_the_new_key_is_clustered_as_the_old_one_was(session: Session) -> None:
    made(session, "PRIMARY KEY (id)")
    filled(session)
    run(session, "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (c)")
    assert (
        "PRIMARY KEY (`c`) /*T![clustered_index] CLUSTERED */"
        in rows(session, "SHOW CREATE TABLE t")[0][1]
    )
    plan = rows(session, "EXPLAIN SELECT * FROM t WHERE c = 'x3'")
    assert "Point_Get" in plan[0][0]


def test_columns_of_the_key_stay_not_null(session: Session) -> None:
    made(session)
    filled(session)
    run(session, "ALTER TABLE t ADD PRIMARY KEY (c) CLUSTERED")
    run(session, "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (id)")
    assert error(session, "UPDATE t SET c = NULL WHERE id = 1") == (1048, "23000")
    run(session, "ALTER TABLE t DROP PRIMARY KEY")
    assert error(session, "UPDATE t SET id = NULL WHERE id = 1") == (1048, "23000")


@pytest.mark.parametrize("cut", ["", "PARTITION BY HASH (a) PARTITIONS 2"])
def test_ids_and_statistics_go_on(world: World, session: Session, cut: str) -> None:
    key = "PRIMARY KEY (id, a)" if cut else "PRIMARY KEY (id)"
    columns = f"id INT AUTO_INCREMENT, {key}, a INT NOT NULL, KEY ka (a)"
    run(session, f"CREATE TABLE t ({columns}) {cut}")
    cells = ", ".join(f"({n})" for n in range(1200))
    run(session, f"INSERT INTO t (a) VALUES {cells}")
    run(session, "ANALYZE TABLE t")
    run(session, "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (a), ALGORITHM = INPLACE")
    highest = rows(session, "SELECT MAX(id) FROM t")[0][0]
    run(session, "INSERT INTO t (a) VALUES (5000)")
    assert rows(session, "SELECT id FROM t WHERE a = 5000")[0][0] > highest

    def healthy() -> bool:
        place = f"db_name = '{session.database}' AND table_name = 't'"
        found = rows(session, f"SHOW STATS_META WHERE {place}")
        told = rows(session, f"SHOW STATS_HISTOGRAMS WHERE {place}")
        parts = sum(line[5] for line in found if line[2] not in ("", "global"))
        return bool(found) and parts in (0, 1200, 1201) and len(told) >= 2 * len(found)

    until(healthy)


def test_events_tell_of_it(world: World, session: Session) -> None:
    made(session)
    filled(session)
    run(session, "ALTER TABLE t ADD PRIMARY KEY (id) CLUSTERED")
    with world.store.read() as txn:
        table = world.services.schemas.table(txn, session.database, "t")
    assert table.physical_id != table.info.id

    def told() -> bool:
        with world.store.read() as txn:
            span = keys.span_of(keys.meta("statsgone"))
            return any(keys.read_number(k[-8:]) == table.info.id for k, _ in txn.scan(span))

    until(told)  # the old place is to be forgotten


# -- what is met -----------------------------------------------------------------------------------


MET = [(key, "(d)") for key in KEYS]
MET += [(key, "(d) NONCLUSTERED") for key in KEYS if key and "NON" not in key]


@pytest.mark.parametrize(("key", "new"), MET)
def test_rows_that_have_one_key_are_named_and_nothing_changes(
    world: World, session: Session, key: str, new: str
) -> None:
    made(session, key)
    filled(session)
    shown = rows(session, "SHOW CREATE TABLE t")
    with pytest.raises(Refused) as refused:
        run(session, asked(key, new))
    assert refused.value.code == 1062
    assert "for key 't.PRIMARY'" in refused.value.message
    assert rows(session, "SHOW CREATE TABLE t") == shown
    at_rest(world, session)
    checked(session)


@pytest.mark.parametrize(
    ("key", "new"), [("", "(a, id)"), ("PRIMARY KEY (u)", "(a, id) NONCLUSTERED")]
)
def test_a_null_in_the_key_is_refused_and_let_in_again(
    world: World, session: Session, key: str, new: str
) -> None:
    made(session, key)
    filled(session)
    assert error(session, asked(key, new)) == (1138, "22004")
    at_rest(world, session)
    run(session, "INSERT INTO t VALUES (900, 900, NULL, 1, 'q', NOW(), '[]')")
    checked(session)
    run(session, "DELETE FROM t WHERE a IS NULL")
    run(session, asked(key, new))
    assert error(session, "UPDATE t SET a = NULL WHERE id = 1") == (1048, "23000")
    checked(session)


@pytest.mark.parametrize(
    ("table", "change", "code", "said"),
    [
        ("id INT PRIMARY KEY", "ADD PRIMARY KEY (id) CLUSTERED", 1068, "Multiple primary key"),
        ("id INT", "DROP PRIMARY KEY, ADD PRIMARY KEY (id) CLUSTERED", 1091, "PRIMARY"),
        ("id INT", "DROP PRIMARY KEY", 1091, "PRIMARY"),
        ("id BIGINT AUTO_RANDOM PRIMARY KEY", "DROP PRIMARY KEY", 8200, "with AUTO_RANDOM"),
        (
            "id INT PRIMARY KEY, a INT, KEY ka (a)",
            "DROP PRIMARY KEY, DROP INDEX ka",
            8200,
            "multi schema change",
        ),
        ("id INT", "ADD PRIMARY KEY (nope) CLUSTERED", 1072, "nope"),
        (
            "id INT, v INT AS (id + 1)",
            "ADD PRIMARY KEY (v) CLUSTERED",
            3106,
            "virtual generated column",
        ),
        (
            "id INT, a INT) PARTITION BY HASH (id) PARTITIONS 2 -- (",
            "ADD PRIMARY KEY (a) CLUSTERED",
            1503,
            "A CLUSTERED INDEX must include all columns",
        ),
        (
            "id INT PRIMARY KEY) PARTITION BY HASH (id) PARTITIONS 2 -- (",
            "DROP PRIMARY KEY, ADD PRIMARY KEY (id) GLOBAL",
            8200,
            "both a global index and a clustered index",
        ),
        (
            "id BIGINT AUTO_RANDOM PRIMARY KEY, a INT NOT NULL",
            "DROP PRIMARY KEY, ADD PRIMARY KEY (a)",
            8200,
            "with AUTO_RANDOM",
        ),
        (
            "id INT NOT NULL) SHARD_ROW_ID_BITS = 2 -- (",
            "ADD PRIMARY KEY (id) CLUSTERED",
            8200,
            "with SHARD_ROW_ID_BITS",
        ),
        (
            "id INT NOT NULL) EXUVIA_CHANGE_LOG = ON -- (",
            "ADD PRIMARY KEY (id) CLUSTERED",
            8200,
            "has a change log",
        ),
        (
            "id INT NOT NULL",
            "ADD PRIMARY KEY (id) CLUSTERED, ADD COLUMN c INT",
            8200,
            "multi schema change",
        ),
        (
            "id INT NOT NULL, PRIMARY KEY (id) NONCLUSTERED, a INT NOT NULL, KEY ka (a)",
            "DROP PRIMARY KEY, ADD PRIMARY KEY (a) CLUSTERED, DROP INDEX ka",
            8200,
            "multi schema change",
        ),
    ],
)
def test_what_is_refused(session: Session, table: str, change: str, code: int, said: str) -> None:
    written = (
        f"CREATE TABLE t ({table})" if "-- (" not in table else f"CREATE TABLE t ({table[:-5]}"
    )
    if "EXUVIA_CHANGE_LOG" in table:
        run(session, "CREATE TABLE t (id INT NOT NULL)")
        run(session, "ALTER TABLE t EXUVIA_CHANGE_LOG = ON")
    else:
        run(session, written)
    shown = rows(session, "SHOW CREATE TABLE t")
    with pytest.raises(Refused) as refused:
        run(session, f"ALTER TABLE t {change}")
    assert refused.value.code == code, refused.value.message
    assert said in refused.value.message
    assert rows(session, "SHOW CREATE TABLE t") == shown


def test_a_foreign_key_keeps_the_index_that_it_needs(session: Session) -> None:
    run(session, "CREATE TABLE p (id INT PRIMARY KEY, u INT NOT NULL UNIQUE)")
    run(session, "CREATE TABLE t (id INT PRIMARY KEY, r INT, FOREIGN KEY (r) REFERENCES p (id))")
    change = "ALTER TABLE p DROP PRIMARY KEY, ADD PRIMARY KEY (u)"
    assert error(session, change) == (1553, "HY000")
    assert error(session, "ALTER TABLE p DROP PRIMARY KEY") == (1553, "HY000")
    run(session, "ALTER TABLE p ADD INDEX k (id)")
    run(session, change)
    run(session, "INSERT INTO p VALUES (1, 10)")
    run(session, "INSERT INTO t VALUES (5, 1)")
    assert error(session, "INSERT INTO t VALUES (6, 2)") == (1452, "23000")
    assert error(session, "DELETE FROM p") == (1451, "23000")


def test_an_older_node_is_waited_for(
    session: Session, monkeypatch: pytest.MonkeyPatch, world: World
) -> None:
    made(session)
    with world.store.read() as txn:
        front, *_ = member.live(txn)
    monkeypatch.setattr(member, "before_0_5", lambda txn: [front])
    with pytest.raises(Refused) as refused:
        run(session, "ALTER TABLE t ADD PRIMARY KEY (id) CLUSTERED")
    assert refused.value.code == 8200
    assert "older release" in refused.value.message


# -- in each state ---------------------------------------------------------------------------------


CHANGES = (
    ("", "", "(id)"),
    ("", "PRIMARY KEY (id)", "(c)"),
    ("", "PRIMARY KEY (c)", "(u, id)"),
    ("", "PRIMARY KEY (id)", ""),
    ("", "PRIMARY KEY (c, u)", ""),
    ("", "PRIMARY KEY (id)", "(id) NONCLUSTERED"),
    ("", "PRIMARY KEY (c, u)", "(c, u) NONCLUSTERED"),
    ("", "PRIMARY KEY (id)", "(c) NONCLUSTERED"),
    ("", "PRIMARY KEY (c, u)", "(u, id) NONCLUSTERED"),
    (CUT, "PRIMARY KEY (c, id)", "(c, id) NONCLUSTERED"),
    (CUT, "PRIMARY KEY (c, id)", "(u, id) NONCLUSTERED"),
    (CUT, "", "(id)"),
    (CUT, "PRIMARY KEY (id)", "(c, id)"),
    (CUT, "PRIMARY KEY (c, id)", ""),
    (SPREAD, "", "(id)"),
    (SPREAD, "PRIMARY KEY (id)", "(c, id)"),
    (SPREAD, "PRIMARY KEY (c, id)", ""),
    (CUT, OF_ALL_PARTITIONS, "(id)"),
    (SPREAD, OF_ALL_PARTITIONS, "(c, id)"),
    (CUT, "PRIMARY KEY (c, id)", "(u) NONCLUSTERED GLOBAL"),
    (SPREAD, "PRIMARY KEY (id)", "(u) NONCLUSTERED GLOBAL"),
    (SPREAD, "PRIMARY KEY (id)", "(id) NONCLUSTERED"),
    (SPREAD, "PRIMARY KEY (id)", "(c, id) NONCLUSTERED"),
)


BEGINS = ("BEGIN", "BEGIN OPTIMISTIC")


@pytest.mark.parametrize(
    ("cut", "key", "new", "begin"),
    one_in(11, [(*change, begin) for change in CHANGES for begin in BEGINS]),
)
def test_keys_hold_in_every_state(
    world: World, session: Session, cut: str, key: str, new: str, begin: str
) -> None:
    """Of a transaction one state behind, and of statements of this one."""
    made(session, key, "UNIQUE KEY uid (id)", cut)
    filled(session, 40)
    run(session, "UPDATE t SET a = id + 100")
    before = rows(session, "SELECT id, u, a, c FROM t ORDER BY id")
    other, lags = world.session(session.database), world.session(session.database)
    changing = SteppedAlter(world, session, asked(key, new))
    run(lags, begin)
    run(lags, "UPDATE t SET b = 1 WHERE id = 0")
    changing.start()
    for state in range(1, 7):
        changing.reaches(state)
        following = world.session(session.database)
        run(following, begin)
        run(following, f"UPDATE t SET b = 1 WHERE id = {state}")
        for each, n in ((other, 10 + state), (lags, 20 + state)):
            run(each, f"UPDATE t SET b = b + 1 WHERE id = {n}")
            run(each, f"UPDATE t SET id = id + 2000 WHERE id = {n}")  # all other keys stay
            run(each, f"UPDATE t SET id = {n} WHERE id = {n + 2000}")
            run(each, f"UPDATE t SET id = id + 1000, c = 'moved{n}', u = u + 1000 WHERE id = {n}")
            assert rows(each, f"SELECT c FROM t WHERE id = {n + 1000}") == [[f"moved{n}"]]
            taken = f"INSERT INTO t VALUES ({n + 1000}, 5, 5, 5.5, 'moved{n}', NOW(), '[1]')"
            assert error(each, taken) == (1062, "23000")
            run(each, f"UPDATE t SET id = {n}, c = 'x{n}', u = u - 1000 WHERE id = {n + 1000}")
            run(each, f"DELETE FROM t WHERE c = 'x{n}'")
            assert rows(each, f"SELECT * FROM t WHERE id = {n}") == []
            again = line(n, n + 100)
            run(each, f"INSERT INTO t VALUES {again}")
            run(each, f"REPLACE INTO t VALUES {again}")
            run(each, f"INSERT INTO t VALUES {again} ON DUPLICATE KEY UPDATE b = b + 1")
            assert rows(each, f"SELECT a, b FROM t WHERE id = {n}")[0][0] == 100 + n
            fresh = f"({n + 500}, {n + 500}, 1, {n}.5, 'f{state}{n}', NOW(), '[7]')"
            run(each, f"INSERT IGNORE INTO t VALUES {fresh}, {fresh}")
            run(each, f"DELETE FROM t WHERE id = {n + 500}")
        ended(lags)
        lags = following
    ended(lags)
    changing.ends()
    assert rows(other, "SELECT id, u, a, c FROM t ORDER BY id") == before
    checked(other)
    at_rest(world, session)
    other.close()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("INT AUTO_INCREMENT", "INT UNSIGNED AUTO_INCREMENT"),
        ("BIGINT UNSIGNED AUTO_INCREMENT", "INT AUTO_INCREMENT"),
        ("INT AUTO_INCREMENT", "VARCHAR(20)"),
        ("VARCHAR(20)", "INT"),
    ],
)
def test_rows_come_and_go_in_every_state_of_a_new_type(
    world: World, session: Session, old: str, new: str
) -> None:
    """Of a transaction one state behind, and of statements of this one. A row that comes after the
    readers' switch has its former key as well, while an older transaction may read it."""
    run(session, "SET exuvia_compatibility = 'mysql'")
    run(session, f"CREATE TABLE t (id {old} PRIMARY KEY, a INT, UNIQUE KEY ua (a))")
    given = ", ".join(f"({n}, {n})" for n in range(1, 41))
    run(session, f"INSERT INTO t VALUES {given}")
    other, lags = world.session(session.database), world.session(session.database)
    changing = SteppedAlter(world, session, f"ALTER TABLE t MODIFY id {new}")
    run(lags, "BEGIN")
    run(lags, "UPDATE t SET a = a + 100 WHERE id = 40")
    changing.start()
    came, numbered = {}, "AUTO_INCREMENT" in old and "AUTO_INCREMENT" in new
    for state in range(1, 8):
        changing.reaches(state)
        following = world.session(session.database)
        run(following, "BEGIN")
        run(following, f"UPDATE t SET a = a + 100 WHERE id = {30 + state}")
        for each, n in ((other, 10 * state + 1000), (lags, 10 * state + 2000)):
            for more in range(3):
                values = (
                    f"(a) VALUES ({n + more})" if numbered else f"VALUES ({n + more}, {n + more})"
                )
                run(each, f"INSERT INTO t {values}")
            run(each, f"UPDATE t SET a = -a WHERE a = {n + 1}")
            run(each, f"UPDATE t SET id = {n + 5000} WHERE a = {n}")
            assert rows(each, f"SELECT a FROM t WHERE id = {n + 5000}") == [[n]]
            run(each, f"DELETE FROM t WHERE a = {n + 2}")
            came[n] = f"{n + 5000}"
        # the counter follows the value of an UPDATE: each is below those before
        run(other, f"UPDATE t SET id = {99000 - 100 * state} WHERE id = {state}")
        run(other, f"DELETE FROM t WHERE id = {10 + state}")
        ended(lags)
        lags = following
    ended(lags)
    changing.ends()
    found = {a: str(number) for number, a in rows(other, "SELECT id, a FROM t WHERE a >= 1000")}
    assert found.items() <= came.items() and {1000 + 10 * n for n in range(1, 8)} <= set(found)
    assert len(rows(other, "SELECT a FROM t WHERE id > 90000 AND a BETWEEN 1 AND 5")) == 5
    for a in (20, 1010):
        ((number,),) = rows(other, f"SELECT id FROM t WHERE a = {a}")
        assert rows(other, f"SELECT a FROM t WHERE id = '{number}'") == [[a]]
    checked(other)
    at_rest(world, session)
    other.close()


def test_who_brings_a_key_that_is_there_is_refused_before_the_fill(
    world: World, session: Session
) -> None:
    """Two rows have one new key, one of them with a copy: neither's writer takes the other's; once
    one of them is gone, the change ends well."""
    run(session, "CREATE TABLE t (k INT NOT NULL, v INT, KEY kv (v))")
    run(session, "INSERT INTO t VALUES (1, 1), (1, 2), (2, 3)")
    other, blocker = world.session(session.database), world.session(session.database)
    second = world.session(session.database)
    changing = SteppedAlter(world, session, "ALTER TABLE t ADD PRIMARY KEY (k) CLUSTERED")
    run(blocker, "BEGIN")
    run(blocker, "UPDATE t SET v = 4 WHERE v = 3")
    changing.start()
    changing.reaches(1)  # delete only
    run(second, "BEGIN")
    run(second, "UPDATE t SET v = v WHERE k = 9")
    run(second, "INSERT INTO t VALUES (7, 7)")
    run(blocker, "COMMIT")
    changing.reaches(2)  # write only
    run(other, "UPDATE t SET v = 10 WHERE v = 1")  # its copy is put
    run(other, "UPDATE t SET v = 20 WHERE v = 2")  # and it has none
    assert error(other, "INSERT INTO t VALUES (1, 5)") == (1062, "23000")
    assert error(other, "REPLACE INTO t VALUES (1, 5)") == (1062, "23000")
    run(other, "INSERT IGNORE INTO t VALUES (1, 5), (3, 30)")
    run(other, "DELETE FROM t WHERE v = 20")
    run(other, "UPDATE t SET v = 11 WHERE v = 10")
    run(second, "COMMIT")
    changing.ends()
    assert rows(other, "SELECT * FROM t ORDER BY k") == [[1, 11], [2, 4], [3, 30], [7, 7]]
    checked(session)
    for each in (other, blocker, second):
        each.close()


@pytest.mark.parametrize(
    ("cut", "key", "new"),
    [
        ("", "PRIMARY KEY (u) NONCLUSTERED", "(id)"),
        ("", "PRIMARY KEY (u)", "(id) NONCLUSTERED"),
        (CUT, OF_ALL_PARTITIONS, "(id)"),
    ],
)
def test_the_former_key_holds_once_readers_have_switched(
    world: World, session: Session, cut: str, key: str, new: str
) -> None:
    """For one state: nobody is named who is in the way, for REPLACE to remove."""
    made(session, key, cut=cut)
    filled(session, 20)
    other, before = world.session(session.database), None
    changing = SteppedAlter(world, session, asked(key, new))
    for state in range(4):  # the last one holds the change where it is
        blocker = world.session(session.database)
        run(blocker, "BEGIN")
        run(blocker, f"UPDATE t SET b = 1 WHERE id = {state}")
        if before is None:
            changing.start()
        else:
            ended(before)
        before = blocker
        changing.reaches(state + 1)
    taken = line(40).replace("(40, 40,", "(40, 8,")
    for text in (f"INSERT INTO t VALUES {taken}", "UPDATE t SET u = 8 WHERE id = 10"):
        assert error(other, text) == (1062, "23000")
    assert rows(other, "SELECT id FROM t WHERE u = 8") == [[8]]
    assert before is not None
    ended(before)
    changing.ends()
    run(other, f"INSERT INTO t VALUES {taken}")
    checked(session)
    other.close()


@pytest.mark.parametrize("cut", ["", CUT])
def test_a_row_whose_new_key_another_copy_has_is_left_alone(
    world: World, session: Session, cut: str
) -> None:
    """Until one of the two rows is gone: nobody who brings no key is refused one, nor loses."""
    run(session, f"CREATE TABLE t (id INT PRIMARY KEY, k INT NOT NULL, v INT, KEY kv (v)) {cut}")
    run(session, "INSERT INTO t VALUES (1, 1, 1), (2, 1, 2), (3, 3, 3)")
    kind = "NONCLUSTERED GLOBAL" if cut else "NONCLUSTERED"
    other, blocker = world.session(session.database), world.session(session.database)
    second = world.session(session.database)
    changing = SteppedAlter(world, session, asked("(id)", f"(k) {kind}"))
    run(blocker, "BEGIN")
    run(blocker, "UPDATE t SET v = 4 WHERE v = 3")
    changing.start()
    changing.reaches(1)  # delete only
    run(second, "BEGIN")
    run(second, "UPDATE t SET v = v WHERE id = 9")
    run(second, "INSERT INTO t VALUES (7, 7, 7)")
    run(blocker, "COMMIT")
    changing.reaches(2)  # write only
    run(blocker, "BEGIN OPTIMISTIC")
    run(blocker, "UPDATE t SET v = 19 WHERE id = 2")  # its copy would be the first
    run(other, "UPDATE t SET v = 10 WHERE id = 1")  # its copy is put
    assert error(blocker, "COMMIT")[0] == 1213  # the transaction may be tried again
    run(other, "UPDATE t SET v = 20 WHERE id = 2")  # it has none
    run(other, "UPDATE t SET id = 22 WHERE id = 2")
    assert error(other, "INSERT INTO t VALUES (5, 1, 5)") == (1062, "23000")
    assert error(other, "UPDATE t SET k = 1 WHERE id = 3") == (1062, "23000")
    run(other, "INSERT IGNORE INTO t VALUES (5, 1, 5), (6, 6, 30)")
    assert rows(other, "SELECT id, k, v FROM t WHERE k = 1") == [[1, 1, 10], [22, 1, 20]]
    run(other, "DELETE FROM t WHERE id = 1")
    run(other, "UPDATE t SET v = 11 WHERE id = 22")
    run(second, "COMMIT")
    changing.ends()
    assert rows(other, "SELECT * FROM t ORDER BY k") == [
        [22, 1, 11], [3, 3, 4], [6, 6, 30], [7, 7, 7],
    ]  # fmt: skip
    checked(session)
    for each in (other, blocker, second):
        each.close()


def test_a_key_of_all_partitions_is_one_row_s_before_rows_move(
    world: World, session: Session
) -> None:
    """A row of a later partition has the same one, and has its copy already."""
    run(session, f"CREATE TABLE t (id INT PRIMARY KEY, k INT NOT NULL, v INT) {CUT}")
    run(session, "INSERT INTO t VALUES (3, 1, 1), (4, 1, 2), (5, 5, 3), (6, 6, 6)")
    other, blocker = world.session(session.database), world.session(session.database)
    changing = SteppedAlter(world, session, asked("(id)", "(k) NONCLUSTERED GLOBAL"))
    run(other, "BEGIN")
    run(other, "UPDATE t SET v = 4 WHERE id = 5")
    changing.start()
    changing.reaches(1)  # delete only
    run(blocker, "BEGIN")
    run(blocker, "UPDATE t SET v = 5 WHERE id = 6")
    run(other, "COMMIT")
    changing.reaches(2)  # write only
    run(other, "UPDATE t SET v = 20 WHERE id = 4")  # its copy is put
    ended(blocker)
    changing.ends(1062)
    at_rest(world, session)
    checked(session)
    other.close()


@pytest.mark.parametrize(
    ("cut", "key", "new", "state"),
    one_in(8, [(*change, state) for change in CHANGES for state in (1, 2, 3)]),
)
def test_a_change_that_is_cancelled_leaves_the_key_as_it_was(
    world: World, session: Session, cut: str, key: str, new: str, state: int
) -> None:
    made(session, key, "UNIQUE KEY uid (id)", cut)
    filled(session, 40)
    shown = rows(session, "SHOW CREATE TABLE t")
    other = world.session(session.database)
    changing = SteppedAlter(world, session, asked(key, new))
    blockers = [world.session(session.database) for _ in range(state)]
    for n, each in enumerate(blockers):
        if n:
            changing.reaches(n)
        run(each, "BEGIN")
        run(each, f"UPDATE t SET b = 1 WHERE id = {n}")
        if n:
            ended(blockers[n - 1])
        else:
            changing.start()
    changing.reaches(state)
    for n in range(10, 20):
        run(other, f"INSERT INTO t VALUES ({n + 900}, {n}900, {n}, {n}, 'n{n}', NOW(), '[2]')")
        run(other, f"UPDATE t SET c = 'u{n}', u = u + 5000 WHERE id = {n}")
        run(other, f"DELETE FROM t WHERE id = {n + 10}")
    found = rows(other, "SELECT * FROM t ORDER BY id")
    (job, *_) = (line[0] for line in rows(other, "ADMIN SHOW DDL JOBS 1"))
    run(other, f"ADMIN CANCEL DDL JOBS {job}")
    ended(blockers[-1])
    changing.ends(8214)
    assert rows(session, "SHOW CREATE TABLE t") == shown
    now = rows(session, "SELECT * FROM t ORDER BY id")
    assert [r for r in now if r[0] > 9] == [r for r in found if r[0] > 9]
    at_rest(world, session)
    checked(session)
    other.close()


@pytest.mark.parametrize("new", ["(r, id)", "", "(r, id) NONCLUSTERED"])
@pytest.mark.parametrize("cascades", ["", " ON DELETE CASCADE ON UPDATE CASCADE"])
def test_foreign_keys_hold_in_every_state(
    world: World, session: Session, cascades: str, new: str
) -> None:
    """t refers to p and is referred to by c, and has new handles."""
    run(session, "CREATE TABLE p (id INT PRIMARY KEY)")
    run(session, f"INSERT INTO p VALUES {', '.join(f'({n})' for n in range(40))}")
    run(
        session,
        "CREATE TABLE t (id INT PRIMARY KEY, r INT NOT NULL, UNIQUE KEY k (id), KEY kr (r),"
        f" FOREIGN KEY (r) REFERENCES p (id){cascades})",
    )
    run(
        session,
        f"CREATE TABLE c (x INT PRIMARY KEY, f INT, FOREIGN KEY (f) REFERENCES t (id){cascades})",
    )
    run(session, f"INSERT INTO t VALUES {', '.join(f'({n}, {n})' for n in range(30))}")
    run(session, f"INSERT INTO c VALUES {', '.join(f'({n}, {n})' for n in range(30))}")
    other, lags = world.session(session.database), world.session(session.database)
    changing = SteppedAlter(world, session, asked("(id)", new))
    run(lags, "BEGIN")
    run(lags, "UPDATE t SET r = 35 WHERE id = 29")
    changing.start()
    for state in range(1, 7):
        changing.reaches(state)
        following = world.session(session.database)
        run(following, "BEGIN")
        run(following, f"UPDATE t SET r = 36 WHERE id = {28 - state}")
        n = state
        assert error(other, f"INSERT INTO t VALUES ({n + 100}, 77)") == (1452, "23000")
        assert error(other, f"INSERT INTO c VALUES ({n + 100}, 777)") == (1452, "23000")
        run(other, f"INSERT INTO t VALUES ({n + 100}, 39)")
        run(other, f"INSERT INTO c VALUES ({n + 100}, {n + 100})")
        if cascades:
            run(other, f"UPDATE p SET id = {n + 500} WHERE id = {n}")
            assert rows(other, f"SELECT r FROM t WHERE id = {n}") == [[n + 500]]
            run(other, f"DELETE FROM p WHERE id = {n + 500}")
            assert rows(other, f"SELECT 1 FROM c WHERE x = {n}") == []
            assert rows(other, f"SELECT 1 FROM t WHERE id = {n}") == []
        else:
            assert error(other, f"DELETE FROM t WHERE id = {n}") == (1451, "23000")
            assert error(other, f"DELETE FROM p WHERE id = {n}") == (1451, "23000")
            run(other, f"DELETE FROM c WHERE x = {n}")
            run(other, f"DELETE FROM t WHERE id = {n}")
            run(other, f"DELETE FROM p WHERE id = {n}")
        ended(lags)
        lags = following
    ended(lags)
    changing.ends()
    lost = "SELECT COUNT(*) FROM {0} LEFT JOIN {1} ON {0}.{2} = {1}.id WHERE {1}.id IS NULL"
    assert rows(session, lost.format("t", "p", "r")) == [[0]]
    assert rows(session, lost.format("c", "t", "f")) == [[0]]
    checked(session)
    other.close()


LOST = (1213, 8028)
"""Of a transaction that a copy, or a step of the change, came before."""


@contextmanager
def suppress_lost() -> Iterator[None]:
    try:
        yield
    except Refused as refused:
        assert refused.code in LOST, refused


@pytest.mark.parametrize(
    ("cut", "first"),
    [
        (SPREAD, "another node"),
        pytest.param("", "another node", marks=pytest.mark.long),
        pytest.param("", "owner", marks=pytest.mark.long),
        pytest.param(CUT, "another node", marks=pytest.mark.long),
    ],
)
@pytest.mark.parametrize("changes", [4, pytest.param(9, marks=pytest.mark.long)])
def test_rows_are_kept_beside_writers(
    owner: World, session: Session, cut: str, first: str, changes: int
) -> None:
    """Several keys, one after the other, beside writers of one node or of two. Rows that were there
    before change their ids, with them their partitions, and keep all of their other keys."""
    made(session, "", "UNIQUE KEY uid (id)", cut)
    filled(session, 300)
    stop, failed = threading.Event(), []
    models: list[dict[int, int]] = [{}, {}]
    joined = None if first == "owner" else World(owner.store, owns=False)
    places = [owner, joined or owner]

    def writes(place: int) -> None:
        chance, model = random.Random(place), models[place]
        writer = places[place].session(session.database)
        try:
            while not stop.wait(PAUSE_S):
                n, a = 1000 * (place + 1) + chance.randrange(30), chance.randrange(9)
                if chance.random() < 0.4:
                    old = 2 * chance.randrange(150) + place
                    other_id = f"IF(id < 301, id + 301, id - 301) WHERE id IN ({old}, {old + 301})"
                    with suppress_lost():
                        writer.execute(f"UPDATE t SET id = {other_id}")
                    continue
                new = f"({n}, {n}, {a}, {n}.5, 'w{n}', '2025-01-01', '[{a}, {a + 1}]')"
                text, after = chance.choice(
                    (
                        (f"INSERT INTO t VALUES {new}", a),
                        (f"REPLACE INTO t VALUES {new}", a),
                        (f"UPDATE t SET a = {a} WHERE id = {n}", a),
                        (f"UPDATE t SET a = {a}, u = u + 10000, d = NOW() WHERE id = {n}", a),
                        (f"UPDATE t SET a = {a}, u = u + 10000 WHERE id = {n}", a),
                        (f"DELETE FROM t WHERE id = {n}", None),
                    )
                )
                if text.startswith("INSERT") and n in model:
                    assert error(writer, text)[0] in (1062, *LOST)
                    continue
                try:
                    writer.execute(text)
                except Refused as refused:
                    assert refused.code in LOST, refused
                    continue
                if after is None:
                    model.pop(n, None)
                elif not text.startswith("UPDATE") or n in model:
                    model[n] = a
                wanted = [] if n not in model else [[model[n]]]
                assert rows(writer, f"SELECT a FROM t WHERE id = {n}") == wanted
        except BaseException as error_:
            failed.append(error_)
        finally:
            writer.close()

    threads = [threading.Thread(target=writes, args=(n,), daemon=True) for n in range(2)]
    for each in threads:
        each.start()
    key = ""
    keys_ = ("(id)", "(c) NONCLUSTERED", "(u, id)", "", "(c)", "(c) NONCLUSTERED", "(c)", "", "(u)")
    of_parts = ("(id)", "(c, id) NONCLUSTERED", "(u, id)", "", "(id, d)", "(id, d) NONCLUSTERED")
    for new in (of_parts if cut else keys_)[:changes]:
        run(session, asked(key, new))
        key = new
    stop.set()
    for each in threads:
        each.join(20)
    assert not failed, failed
    found = rows(session, "SELECT id, a FROM t WHERE id >= 1000")
    assert dict(map(tuple, found)) == models[0] | models[1]
    assert rows(session, "SELECT COUNT(*) FROM t WHERE id < 1000") == [[300]]
    checked(session)
    if joined is not None:
        joined.close()


# -- taken back ------------------------------------------------------------------------------------

BACK = [
    ("", "", "(c)"), ("", "", "(d, c)"), ("", "PRIMARY KEY (id)", "(c(2), id)"),
    ("", "PRIMARY KEY (c)", "(u)"), ("", "PRIMARY KEY (u, id)", "(d, c)"),
    ("", "PRIMARY KEY (id)", ""), ("", "PRIMARY KEY (c(2), id)", ""),
    ("", "PRIMARY KEY (id)", "(id) NONCLUSTERED"), ("", "PRIMARY KEY (c)", "(c) NONCLUSTERED"),
    ("", "PRIMARY KEY (id) NONCLUSTERED", "(id)"), ("", "PRIMARY KEY (id) NONCLUSTERED", "(c)"),
    ("", "PRIMARY KEY (u, id)", "(c(2), id) NONCLUSTERED"),
    (CUT, "PRIMARY KEY (id)", "(c, id) NONCLUSTERED"),
    (CUT, OF_ALL_PARTITIONS, "(id)"), (CUT, "PRIMARY KEY (id)", "(c) NONCLUSTERED GLOBAL"),
    (SPREAD, "PRIMARY KEY (id)", "(id) NONCLUSTERED GLOBAL"),
    (CUT, "PRIMARY KEY (id) NONCLUSTERED GLOBAL", "(id)"),
    (CUT, "", "(id)"), (CUT, "PRIMARY KEY (c, id)", "(u, id)"), (CUT, "PRIMARY KEY (id)", ""),
]  # fmt: skip


def shown(session: Session) -> list[str]:
    """SHOW CREATE TABLE, whatever may be NULL: columns of a key that was stay NOT NULL. The key is
    the first of the indexes now."""
    text = str(rows(session, "SHOW CREATE TABLE t")[0][1])
    text = text.replace(" NOT NULL", "").replace(" DEFAULT NULL", "")
    return sorted(line.strip(" ,") for line in text.splitlines())


def last_change(session: Session) -> int:
    text = "SELECT MAX(job_id) FROM information_schema.ddl_jobs"
    return int(str(rows(session, f"{text} WHERE job_type LIKE '%primary key%'")[0][0]))


def kept(session: Session) -> list[list[object]]:
    text = "SELECT job_id, kind, name, state FROM information_schema.exuvia_undo"
    return rows(session, f"{text} WHERE table_schema = DATABASE()")


@pytest.mark.parametrize(("cut", "key", "new"), one_in(5, BACK))
def test_a_change_is_taken_back(
    world: World, session: Session, cut: str, key: str, new: str
) -> None:
    made(session, key, cut=cut)
    before, wanted = filled(session), shown(session)
    run(session, "SET exuvia_undo_s = 3600")
    change = asked(key, new) if new else "ALTER TABLE t DROP PRIMARY KEY"
    run(session, change)
    assert not rows(session, "SHOW WARNINGS")
    job = last_change(session)
    assert kept(session) == [[job, "key", "PRIMARY", "definition"]]
    assert shown(session) != wanted
    run(session, f"INSERT INTO t VALUES {line(70)}")
    run(session, "DELETE FROM t WHERE c = 'x3'")
    now = rows(session, "SELECT * FROM t ORDER BY id")
    run(session, f"ADMIN UNDO DDL JOB {job}")
    assert shown(session) == wanted
    assert rows(session, "SELECT * FROM t ORDER BY id") == now != before
    checked(session)
    at_rest(world, session)
    back = last_change(session)
    assert back > job
    assert kept(session) == [[back, "key", "PRIMARY", "definition"]]  # UNDO is taken back alike
    said = f"ddl job {job} cannot be undone: its time is over, or it has been undone"
    with pytest.raises(Refused, match=said):
        run(session, f"ADMIN UNDO DDL JOB {job}")
    run(session, f"ADMIN UNDO DDL JOB {back}")
    assert shown(session) != wanted
    checked(session)


def test_rows_that_the_former_key_refuses_are_named_and_nothing_changes(session: Session) -> None:
    made(session, "PRIMARY KEY (id)")
    filled(session)
    run(session, "SET exuvia_undo_s = 3600")
    run(session, asked("PRIMARY KEY (id)", "(u)"))
    job = last_change(session)
    run(session, "INSERT INTO t SELECT id, 1000, 90, b, 'other', d, j FROM t WHERE id = 7")
    with pytest.raises(Refused, match="Duplicate entry '7' for key"):
        run(session, f"ADMIN UNDO DDL JOB {job}")
    checked(session)
    run(session, "DELETE FROM t WHERE u = 1000")
    run(session, f"ADMIN UNDO DDL JOB {job}")
    checked(session)
    assert any("PRIMARY KEY (`id`)" in line for line in shown(session))


def test_columns_of_the_former_key_are_those_of_then(session: Session) -> None:
    made(session, "PRIMARY KEY (u, id)")
    filled(session)
    run(session, "SET exuvia_undo_s = 3600")
    run(session, asked("PRIMARY KEY (u, id)", "(d, c)"))
    job = last_change(session)
    run(session, "SET exuvia_undo_s = 0")
    run(session, "ALTER TABLE t RENAME COLUMN u TO was")
    run(session, "ALTER TABLE t ADD COLUMN u INT FIRST")
    run(session, f"ADMIN UNDO DDL JOB {job}")
    assert any("PRIMARY KEY (`was`,`id`)" in line for line in shown(session))
    checked(session)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("ALTER TABLE t DROP COLUMN u", "a column of its index has been dropped or changed"),
        ("ALTER TABLE t DROP PRIMARY KEY", "its table has another primary key since"),
    ],
)
def test_what_cannot_come_back_says_why(session: Session, change: str, why: str) -> None:
    made(session, "PRIMARY KEY (u)")
    filled(session)
    run(session, "SET exuvia_undo_s = 3600")
    run(session, asked("PRIMARY KEY (u)", "(id)"))
    job = last_change(session)
    run(session, change)
    with pytest.raises(Refused, match=why):
        run(session, f"ADMIN UNDO DDL JOB {job}")


def test_explain_says_what_a_kept_change_costs(session: Session) -> None:
    made(session, "PRIMARY KEY (id)")
    filled(session)
    run(session, "SET exuvia_undo_s = 3600")
    plan = rows(session, f"EXPLAIN {asked('PRIMARY KEY (id)', '(u)')}")
    cost = "no extra write meanwhile; UNDO moves 60 row(s) to the handles of the former key"
    assert any(cost in str(step) for step in plan)


def comment_of_key(session: Session) -> str:
    [line] = [each for each in shown(session) if "PRIMARY KEY" in each]
    return line.partition(" COMMENT ")[2].partition("/*")[0].strip()


def test_the_key_has_the_comment_that_was_written(session: Session) -> None:
    made(session, "PRIMARY KEY (c) COMMENT 'first'")
    assert comment_of_key(session) == "'first'"
    filled(session)
    run(session, "SET exuvia_undo_s = 3600")
    for written in (
        "(c) NONCLUSTERED",
        "(c) CLUSTERED",
        "(u, id) CLUSTERED",
        "(u, id) NONCLUSTERED",
    ):
        before = comment_of_key(session)
        change = f"ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY {written} COMMENT '{written}'"
        run(session, change)
        assert comment_of_key(session) == f"'{written}'"
        checked(session)
        run(session, f"ADMIN UNDO DDL JOB {last_change(session)}")
        assert comment_of_key(session) == before
        run(session, change)
    run(session, "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (c) COMMENT 'last' CLUSTERED")
    [row] = rows(session, "SHOW INDEX FROM t WHERE Key_name = 'PRIMARY'")
    assert "last" in row


def test_jobs_are_called_what_tidb_calls_them_where_a_key_only_comes_or_goes(
    session: Session,
) -> None:
    made(session, "")
    filled(session)
    change = "exuvia change primary key"
    for text, wanted in (
        ("ADD PRIMARY KEY (c) CLUSTERED", "add primary key"),
        ("DROP PRIMARY KEY, ADD PRIMARY KEY (u, id)", change),
        ("DROP PRIMARY KEY, ADD PRIMARY KEY (u, id) NONCLUSTERED", change),
        ("DROP PRIMARY KEY", "drop primary key"),
        ("ADD PRIMARY KEY (c) NONCLUSTERED", "add primary key"),
        ("DROP PRIMARY KEY, ADD PRIMARY KEY (c) CLUSTERED", change),
        ("DROP PRIMARY KEY", "drop primary key"),
    ):
        run(session, f"ALTER TABLE t {text}")
        assert rows(session, "ADMIN SHOW DDL JOBS 1")[0][3] == wanted
