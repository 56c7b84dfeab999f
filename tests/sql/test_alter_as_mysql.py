"""Forms of ALTER TABLE that only exuvia_compatibility = 'mysql' does, beside clients that write.

Without clients: transcripts/alter_as_mysql.txt.
"""

import pytest

from support.node_processes import until
from support.stepped_alter import SteppedAlter
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
