"""A transaction that began before a step of a schema change, and writes after it, reads what it
wrote: by the definition that it began with, by each index and by none."""

import pytest

from exuvia.sql.session.session import Session
from support.few import one_in
from support.stepped_alter import SteppedAlter
from support.world import World, error, rows, run

CHANGES = (
    "MODIFY v VARCHAR(20)",
    "MODIFY v VARCHAR(20) -- kept",
    "MODIFY v DECIMAL(12,2) NOT NULL FIRST",
    "MODIFY v INT UNSIGNED",
    "MODIFY v BIGINT UNSIGNED",
    "MODIFY v MEDIUMINT",
    "MODIFY v BIGINT",
    "MODIFY u VARCHAR(20)",
    "MODIFY u BIGINT UNSIGNED",
    "MODIFY c VARCHAR(20) COLLATE utf8mb4_bin",
    "MODIFY c VARCHAR(10)",
    "MODIFY c CHAR(20)",
    "MODIFY e ENUM('z', 'y', 'x')",
    "MODIFY a INT AS (v + 1) STORED",
    "MODIFY v VARCHAR(20), MODIFY c CHAR(30), MODIFY u DECIMAL(12,1)",
    "MODIFY v VARCHAR(20), DROP INDEX kv, ADD INDEX kn (v)",
    "MODIFY v VARCHAR(20), DROP PRIMARY KEY, ADD PRIMARY KEY (u)",
    "MODIFY id BIGINT UNSIGNED",
    "MODIFY id DECIMAL(12,2)",
    "MODIFY id VARCHAR(20)",
    "CHANGE d dd DATETIME",
    "CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
    "ADD COLUMN n INT DEFAULT 3",
    "DROP COLUMN d",
    "RENAME COLUMN d TO dd",
    "ADD INDEX ka (a)",
    "ADD UNIQUE INDEX ui (id, a)",
    "DROP INDEX kv",
    "DROP INDEX uu",
    "RENAME INDEX kv TO kk",
    "ALTER INDEX kv INVISIBLE",
    "DROP PRIMARY KEY",
    "DROP PRIMARY KEY, ADD PRIMARY KEY (u)",
    "DROP PRIMARY KEY, ADD PRIMARY KEY (id) NONCLUSTERED",
    "PARTITION BY HASH (id) PARTITIONS 3 UPDATE INDEXES (uu GLOBAL)",
    "ADD CHECK (v <> 0)",
)
OF_PARTITIONS = (
    "REMOVE PARTITIONING",
    "REORGANIZE PARTITION p0, p1 INTO (PARTITION q VALUES LESS THAN (1000))",
    "REORGANIZE PARTITION p1 INTO (PARTITION q VALUES LESS THAN (300),"
    " PARTITION r VALUES LESS THAN (1000))",
    "PARTITION BY HASH (id) PARTITIONS 2",
    "MODIFY v VARCHAR(20)",
    "MODIFY c CHAR(20)",
    "DROP PARTITION p2",
    "DROP PRIMARY KEY, ADD PRIMARY KEY (id) NONCLUSTERED",
    "DROP INDEX uu",
)
CUT = """PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (50),
 PARTITION p1 VALUES LESS THAN (1000), PARTITION p2 VALUES LESS THAN (100000))"""
READ = "id, v, u, c, CONCAT(e)"
Rows = dict[int, tuple[int, int, str, str]]
CASES = [("", change) for change in CHANGES] + [(CUT, change) for change in OF_PARTITIONS]


@pytest.mark.parametrize(("cut", "change"), one_in(3, CASES))
def test_it_reads_what_it_wrote(world: World, session: Session, cut: str, change: str) -> None:
    run(session, "SET exuvia_compatibility = 'mysql'")
    if "kept" in change:
        run(session, "SET exuvia_undo_s = 3600")
    place = "GLOBAL" if cut else ""
    run(
        session,
        "CREATE TABLE t (id INT PRIMARY KEY, v INT, u INT NOT NULL, c VARCHAR(20) COLLATE"
        " utf8mb4_general_ci, e ENUM('x', 'y', 'z'), d DATETIME DEFAULT '2024-01-01 10:11:12',"
        f" a INT, KEY kv (v), UNIQUE KEY uu (u) {place}, KEY kc (c), KEY ke (e, v)) {cut}",
    )
    if "AS (" in change:
        computed = "a INT AS (v + 7) STORED"
        run(session, f"ALTER TABLE t DROP COLUMN a, ADD COLUMN {computed}, ADD KEY (a)")
    committed: Rows = {}
    write(session, committed, 1, 40)
    lags, view = begins(world, session, committed, 1)
    changing = SteppedAlter(world, session, f"ALTER TABLE t {change}")
    changing.start()
    try:
        for state in range(1, 20):
            if not changing.reaches_or_ends(state):
                break
            writes(lags, view, state)
            reads(lags, view, state)
            following, its_view = begins(world, session, committed, state + 1)
            run(lags, "COMMIT")
            committed = committed_by(committed, view, state)
            lags.close()
            lags, view = following, its_view
    finally:
        lags.close()
        changing.ends()
    other = world.session(session.database)
    run(other, "ADMIN CHECK TABLE t")
    assert of_all_rows(other) == as_texts(committed)
    other.close()


def begins(world: World, session: Session, committed: Rows, state: int) -> tuple[Session, Rows]:
    """A transaction that has read and written, and what it sees."""
    opened = world.session(session.database)
    run(opened, "BEGIN")
    rows(opened, "SELECT COUNT(*) FROM t")
    view = dict(committed)
    write(opened, view, 100 * state + 60, 100 * state + 61)
    return opened, view


def writes(lags: Session, view: Rows, state: int) -> None:
    n = 100 * state
    write(lags, view, n, n + 6)
    run(lags, f"UPDATE t SET v = {80000 + n} WHERE id = {state}")
    view[state] = (80000 + n, *view[state][1:])
    run(lags, f"UPDATE t SET c = 'N{n}' WHERE v = {7000 + n + 1}")
    view[n + 1] = (*view[n + 1][:2], f"N{n}", view[n + 1][3])
    run(lags, f"UPDATE t SET id = {n + 50} WHERE u = {n + 2}")
    view[n + 50] = view.pop(n + 2)
    run(lags, f"DELETE FROM t WHERE c = 'c{n + 3}'")
    del view[n + 3]
    run(lags, f"DELETE FROM t WHERE id = {state + 20}")
    del view[state + 20]


def write(session: Session, view: Rows, low: int, high: int) -> None:
    lines = ", ".join(f"({n}, {7000 + n}, {n}, 'c{n}', 'x')" for n in range(low, high + 1))
    run(session, f"INSERT INTO t (id, v, u, c, e) VALUES {lines}")
    view |= {n: (7000 + n, n, f"c{n}", "x") for n in range(low, high + 1)}


def committed_by(committed: Rows, view: Rows, state: int) -> Rows:
    n = 100 * state
    own = {*range(n, n + 100), state, state + 20}
    others = {at: values for at, values in committed.items() if at not in own}
    return others | {at: view[at] for at in view if at in own}


def reads(lags: Session, view: Rows, state: int) -> None:
    n = 100 * state
    assert of_all_rows(lags) == as_texts(view)
    for m in (n, n + 1, n + 50, n + 4, n + 6, state, 40):
        v, u, c, e = view[m]
        by = (f"id = {m}", f"v = {v}", f"u = {u}", f"c = '{c}'", f"e = '{e}' AND v = {v}")
        for condition in by:
            found = plain(rows(lags, f"SELECT {READ} FROM t WHERE {condition}"))
            assert found == [[str(m), str(v), str(u), c, e]], condition
    gone = (f"c = 'c{n + 1}'", f"id = {n + 2}", f"id = {n + 3}", f"u = {n + 3}", f"c = 'c{n + 3}'")
    was = (f"id = {state + 20}", f"v = {7020 + state}", f"v = {7000 + state}")
    for condition in (*gone, *was):
        assert rows(lags, f"SELECT {READ} FROM t WHERE {condition}") == [], condition


def of_all_rows(session: Session) -> list[list[str]]:
    return sorted(plain(rows(session, f"SELECT {READ} FROM t WHERE CONCAT(id, '') <> ''")))


def as_texts(view: Rows) -> list[list[str]]:
    return sorted([str(n), *map(str, values)] for n, values in view.items())


def plain(found: list[list[object]]) -> list[list[str]]:
    """In one notation, since a type may have changed."""
    texts = ([e.decode() if isinstance(e, bytes) else str(e) for e in line] for line in found)
    return [[e.rstrip("0").rstrip(".") if "." in e else e for e in line] for line in texts]


@pytest.mark.parametrize("kept", [0, 3600])
def test_values_that_the_old_type_lacks_are_taken_after_the_swap(
    world: World, session: Session, kept: int
) -> None:
    """They are NULL in the old column, so its unique index refuses none of them; UNDO may do so."""
    run(session, f"SET exuvia_undo_s = {kept}")
    run(session, "CREATE TABLE t (id INT PRIMARY KEY, u INT NOT NULL UNIQUE)")
    run(session, "INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)")
    holds, other = world.session(session.database), world.session(session.database)
    changing = SteppedAlter(world, session, "ALTER TABLE t MODIFY u VARCHAR(20) NOT NULL")
    changing.start()
    for state in range(4):
        changing.reaches(state)
        following = world.session(session.database)
        run(following, "BEGIN")
        rows(following, "SELECT COUNT(*) FROM t")
        run(following, f"INSERT INTO t VALUES ({state + 50}, {state + 50})")
        run(holds, "COMMIT")
        holds.close()
        holds = following
    changing.reaches(4)
    run(other, "INSERT INTO t VALUES (4, '01'), (5, '001'), (6, '+1'), (7, '6')")
    run(other, "UPDATE t SET u = '02' WHERE id = 2")
    run(other, "INSERT INTO t VALUES (8, '2')")
    assert error(other, "INSERT INTO t VALUES (9, '6')") == (1062, "23000")
    run(holds, "INSERT INTO t VALUES (10, '10'), (11, '011')")
    own = "SELECT id, u FROM t WHERE id IN (10, 11)"
    assert rows(holds, own) == [[10, 10], [11, None]]
    assert rows(holds, "SELECT id FROM t WHERE u = 10") == [[10]]
    run(holds, "COMMIT")
    changing.ends()
    expected = [[1, "1"], [2, "02"], [3, "3"], [4, "01"], [5, "001"], [6, "+1"], [7, "6"]]
    expected += [[8, "2"], [10, "10"], [11, "011"], *[[n, str(n)] for n in range(50, 54)]]
    assert rows(other, "SELECT * FROM t ORDER BY id") == expected
    run(other, "ADMIN CHECK TABLE t")
    if kept:
        undo = f"ADMIN UNDO DDL JOB {rows(other, 'ADMIN SHOW DDL JOBS 1')[0][0]}"
        assert error(other, undo)[0] == 1062
        run(other, "DELETE FROM t WHERE id IN (2, 4, 5, 6, 11)")
        run(other, undo)
        expected = [[n, n] for n in (1, 3, 10, *range(50, 54))] + [[7, 6], [8, 2]]
        assert sorted(rows(other, "SELECT * FROM t")) == sorted(expected)
        run(other, "ADMIN CHECK TABLE t")
    holds.close()
    other.close()
