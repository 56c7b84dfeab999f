"""Forms of ALTER TABLE that only exuvia_compatibility = 'mysql' does, beside clients that write.

Without clients: transcripts/alter_as_mysql.txt.
"""

import pytest

from support.node_processes import until
from support.stepped_alter import SteppedAlter, ended
from support.world import error, rows, run


def held(world, session, another, change):
    """The change of t, held at its last step, and its job."""
    run(session, "SET exuvia_compatibility = 'mysql', exuvia_ddl_hold = 'public'")
    changing = SteppedAlter(world, session, f"ALTER TABLE t {change}")
    changing.start()
    until(lambda: rows(another, "ADMIN SHOW DDL JOBS 1")[0][11] == "held")
    return changing, rows(another, "ADMIN SHOW DDL JOBS 1")[0][0]


# -- AUTO_INCREMENT put on a column ----------------------------------------------------------------

TABLES = {
    "clustered key": "id INT PRIMARY KEY, a INT",
    "key": "id INT NOT NULL, a INT, KEY (id)",
    "unsigned": "id BIGINT UNSIGNED PRIMARY KEY, a INT",
    "partitioned": "id INT PRIMARY KEY, a INT) PARTITION BY HASH (id) (PARTITION p0, PARTITION p1",
}


@pytest.mark.parametrize("case", TABLES)
def test_ids_go_on_behind_rows_that_came_meanwhile(world, session, another, case):
    run(session, f"CREATE TABLE t ({TABLES[case]})")
    run(session, "INSERT INTO t VALUES (3, 0), (7, 0)")
    kind = "BIGINT UNSIGNED" if case == "unsigned" else "INT"
    changing, job = held(world, session, another, f"MODIFY id {kind} NOT NULL AUTO_INCREMENT")
    run(another, "INSERT INTO t VALUES (50, 1)")
    run(another, "UPDATE t SET id = 60 WHERE id = 3")
    run(another, "BEGIN")
    run(another, "INSERT INTO t VALUES (70, 1)")  # commits a version behind, or before the step
    run(another, "COMMIT")
    run(another, f"ADMIN COMPLETE DDL JOBS {job}")
    changing.ends()
    run(another, "INSERT INTO t (a) VALUES (2), (2)")
    ids = [each for (each,) in rows(another, "SELECT id FROM t WHERE a = 2 ORDER BY id")]
    assert ids[0] > 70 and ids[1] == ids[0] + 1
    assert rows(another, "ADMIN CHECK TABLE t EXTENDED") == []


def test_a_column_that_would_have_been_numbered_is_as_before(world, session, another):
    run(session, "CREATE TABLE t (id INT PRIMARY KEY, a INT)")
    changing, job = held(world, session, another, "MODIFY id INT AUTO_INCREMENT")
    run(another, "INSERT INTO t VALUES (50, 1)")
    run(another, f"ADMIN CANCEL DDL JOBS {job}")
    changing.ends(8214)
    assert error(another, "INSERT INTO t (a) VALUES (2)")[0] == 1364
    run(session, "SET exuvia_ddl_hold = 'off'")
    run(session, "ALTER TABLE t MODIFY id INT AUTO_INCREMENT")
    run(another, "INSERT INTO t (a) VALUES (2)")
    assert rows(another, "SELECT MIN(id) > 50 FROM t WHERE a = 2") == [[1]]


# -- columns that are filled -----------------------------------------------------------------------

NUMBERS = "COUNT(DISTINCT n) = COUNT(*) AND MIN(n) > 0"
FILLED = {
    "numbered": ("id INT PRIMARY KEY, a INT, KEY (a)", "ADD n INT AUTO_INCREMENT UNIQUE", NUMBERS),
    "numbered key": (
        "id INT, a INT, UNIQUE (id)",
        "ADD n BIGINT AUTO_INCREMENT PRIMARY KEY FIRST",
        NUMBERS,
    ),
    "numbered in partitions": (
        "id INT, a INT, UNIQUE (id)) PARTITION BY HASH (id) (PARTITION p0, PARTITION p1",
        "ADD n INT UNSIGNED AUTO_INCREMENT, ADD KEY (n), DROP COLUMN a, ADD a INT DEFAULT 5",
        NUMBERS,
    ),
    "stored": (
        "id INT PRIMARY KEY, a INT, v INT AS (a + 1)",
        "ADD n BIGINT AS (v * 2 + id) STORED, ADD KEY (n)",
        "SUM(n <=> (a + 1) * 2 + id) = COUNT(*)",
    ),
    "what a stored column reads": (
        "id INT PRIMARY KEY, a INT, n INT AS (a * 2) STORED, m INT AS (n + id) STORED, KEY (m)",
        "MODIFY a DECIMAL(9,1)",
        "SUM(n <=> a * 2 AND m <=> n + id AND a = a DIV 1) = COUNT(*)",
    ),
    "its expression": (
        "id INT, a INT, n INT AS (a * 2) STORED, UNIQUE (id), KEY (n), CHECK (a > 0)",
        "MODIFY n BIGINT AS (a * 3) STORED, DROP CHECK t_chk_1, RENAME COLUMN id TO id",
        "SUM(n <=> a * 3) = COUNT(*)",
    ),
}


@pytest.mark.parametrize("case", FILLED)
def test_rows_written_at_every_step_have_what_the_column_asks(world, session, another, case):
    columns, change, holds = FILLED[case]
    run(session, f"CREATE TABLE t ({columns})")
    run(session, f"INSERT INTO t (id, a) VALUES {', '.join(f'({n}, {n + 1})' for n in range(40))}")
    run(session, "SET exuvia_compatibility = 'mysql'")
    lags, changing = (
        world.session(session.database),
        SteppedAlter(world, session, f"ALTER TABLE t {change}"),
    )
    run(lags, "BEGIN")
    run(lags, "UPDATE t SET a = 100 WHERE id = 0")
    changing.start()
    for state in range(1, 5):
        changing.reaches(state)
        following = world.session(session.database)
        run(following, "BEGIN")
        run(following, f"UPDATE t SET a = 100 WHERE id = {state}")
        for n, each in ((10 + state, another), (20 + state, lags)):
            run(each, f"UPDATE t SET a = a + 1 WHERE id = {n}")
            run(each, f"UPDATE t SET id = id + 1000 WHERE id = {n}")
            run(each, f"UPDATE t SET id = {n} WHERE id = {n + 1000}")
            run(each, f"INSERT INTO t (id, a) VALUES ({n + 100}, 1), ({n + 200}, 2)")
            run(each, f"REPLACE INTO t (id, a) VALUES ({n + 100}, 3)")
            run(each, f"INSERT INTO t (id, a) VALUES ({n}, 4) ON DUPLICATE KEY UPDATE a = 9")
            run(each, f"INSERT INTO t (id, a) SELECT id + 2000, a FROM t WHERE id = {n}")
            run(each, f"DELETE FROM t WHERE id = {n + 200}")
        ended(lags)
        lags = following
    ended(lags)
    changing.ends()
    run(another, "INSERT INTO t (id, a) VALUES (9000, 1)")
    assert rows(another, f"SELECT {holds}, COUNT(*) > 45 FROM t") == [[1, 1]]
    assert rows(another, "ADMIN CHECK TABLE t EXTENDED") == []


@pytest.mark.parametrize("case", FILLED)
def test_a_filled_column_that_is_taken_back_leaves_no_trace(world, session, another, case):
    columns, change, _ = FILLED[case]
    run(session, f"CREATE TABLE t ({columns})")
    run(session, "INSERT INTO t (id, a) VALUES (1, 1), (2, 2)")
    before = rows(session, "SHOW CREATE TABLE t")
    changing, job = held(world, session, another, change)
    run(another, "INSERT INTO t (id, a) VALUES (3, 3)")
    run(another, f"ADMIN CANCEL DDL JOBS {job}")
    changing.ends(8214)
    assert rows(another, "SHOW CREATE TABLE t") == before
    run(another, "UPDATE t SET a = a + 1")
    assert rows(another, "SELECT id, a FROM t ORDER BY id") == [[1, 2], [2, 3], [3, 4]]
    run(session, "SET exuvia_ddl_hold = 'off'")
    run(session, f"ALTER TABLE t {change}")
    if "AUTO_INCREMENT" in change:
        assert rows(another, "SELECT MIN(n), MAX(n) FROM t") == [[1, 3]]
    assert rows(another, "ADMIN CHECK TABLE t EXTENDED") == []


def test_writers_obey_the_type_of_a_stored_column_that_comes(world, session, another):
    run(session, "CREATE TABLE t (id INT PRIMARY KEY, a INT)")
    run(session, "INSERT INTO t VALUES (1, 1), (2, 2)")
    changing, job = held(world, session, another, "ADD n TINYINT NOT NULL AS (a * 10) STORED")
    assert error(another, "INSERT INTO t VALUES (3, 13)")[0] == 1264
    assert error(another, "UPDATE t SET a = NULL WHERE id = 1")[0] == 1048
    run(another, f"ADMIN COMPLETE DDL JOBS {job}")
    changing.ends()
    assert rows(another, "SELECT n FROM t ORDER BY id") == [[10], [20]]


# -- indexes that are built again ------------------------------------------------------------------

REBUILT = {
    "converted": (
        "a VARCHAR(9), b INT, UNIQUE (a), KEY (b, a)",
        "CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci",
        "('X', 2)",
    ),
    "shorter": ("a VARCHAR(9), b INT, UNIQUE (a, b), KEY (b, a)", "DROP COLUMN b", "('x', 2)"),
}


@pytest.mark.parametrize("case", REBUILT)
@pytest.mark.parametrize("is_cancelled", [False, True])
def test_writers_obey_the_unique_key_that_comes(world, session, another, case, is_cancelled):
    columns, change, twice = REBUILT[case]
    run(
        session,
        f"CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, {columns}) COLLATE utf8mb4_bin",
    )
    run(session, "INSERT INTO t (a, b) VALUES ('x', 1), ('y', 1)")
    changing, job = held(world, session, another, change)
    run(another, "INSERT INTO t (a, b) VALUES ('z', 1)")
    run(another, "UPDATE t SET a = 'w' WHERE a = 'y'")
    assert error(another, f"INSERT INTO t (a, b) VALUES {twice}")[0] == 1062
    run(another, f"ADMIN {'CANCEL' if is_cancelled else 'COMPLETE'} DDL JOBS {job}")
    changing.ends(8214 if is_cancelled else 0)
    assert rows(another, "SELECT a FROM t ORDER BY a") == [["w"], ["x"], ["z"]]
    if is_cancelled:
        run(another, f"INSERT INTO t (a, b) VALUES {twice}")
    else:
        assert error(another, "INSERT INTO t (a) VALUES ('x')")[0] == 1062
    assert rows(another, "ADMIN CHECK TABLE t EXTENDED") == []
