"""What rows refuse is counted in the error, before there is a job: the first 20 of them are named.

One row alone meets the text as it has always been; a pair of rows with one key is named.
"""

import pytest

from exuvia.base.errors import MESSAGE_BYTES, Refused, counted
from exuvia.base.mysql_errors import ErrInvalidUseOfNull, ErrUnknown
from support.world import World, rows, run

LARGE = "SET GLOBAL exuvia_preflight_rows = 0"
SMALL = "SET GLOBAL exuvia_preflight_rows = 50000"
CHANGES = {
    "ALTER TABLE t MODIFY a int NOT NULL": (
        1265,
        "Data truncated for column 'a' at row 1 (2 rows: id 8, id 9)",
    ),
    "ALTER TABLE t MODIFY b tinyint": (
        1690,
        "constant 300 overflows tinyint (3 rows: id 3, id 4, id 5)",
    ),
    "ALTER TABLE t MODIFY s varchar(2)": (1265, "Data truncated for column 's', value is 'x22'"),
    "ALTER TABLE t ADD CONSTRAINT k CHECK (b < 300)": (
        3819,
        "Check constraint 'k' is violated. (3 rows: id 3, id 4, id 5)",
    ),
    "ALTER TABLE t ALTER CHECK late ENFORCED": (
        3819,
        "Check constraint 'late' is violated. (2 rows: id 4, id 5)",
    ),
    "ALTER TABLE t ADD UNIQUE KEY ub (b)": (
        1062,
        "Duplicate entry '0' for key 't.ub'"
        " (4 duplicates: '0' of id 1 and id 2, '310' of id 4 and id 5, '0' of id 1 and id 6,"
        " '0' of id 1 and id 7)",
    ),
    "CREATE UNIQUE INDEX us ON t (s(1))": (
        1062,
        "Duplicate entry 'x' for key 't.us' (3 duplicates: 'x' of id 1 and id 2,"
        " 'x' of id 1 and id 3, 'x' of id 1 and id 4)",
    ),
    "ALTER TABLE t ADD UNIQUE KEY us2 (s(2))": (
        1062,
        "Duplicate entry 'xy' for key 't.us2' (1 duplicate: 'xy' of id 2 and id 3)",
    ),
}


@pytest.fixture
def session(world: World):
    session = world.session("")
    run(session, "CREATE DATABASE pf")
    run(session, "USE pf")
    run(session, "SET GLOBAL tidb_enable_check_constraint = ON")
    columns = "id int PRIMARY KEY, a int, b int, s varchar(9), CONSTRAINT late CHECK (b < 310)"
    run(session, f"CREATE TABLE t ({columns} NOT ENFORCED)")
    values = "(1,1,0,'x1'), (2,2,0,'xy'), (3,3,300,'xy'), (4,4,310,'x22'), (5,5,310,NULL)"
    run(session, f"INSERT INTO t VALUES {values}, (6,6,0,NULL), (7,7,0,NULL)")
    run(session, "INSERT INTO t VALUES (8,NULL,1,NULL), (9,NULL,2,NULL)")
    yield session
    run(session, SMALL)
    run(session, "DROP DATABASE pf")
    session.close()


def said(session, text):
    with pytest.raises(Refused) as refused:
        session.execute(text)
    return refused.value.code, refused.value.message


def last_job(session):
    return max(row[0] for row in rows(session, "ADMIN SHOW DDL JOBS"))


@pytest.mark.parametrize("text", CHANGES)
def test_rows_are_counted_before_there_is_a_job(session, text):
    asked = last_job(session)
    assert said(session, text) == CHANGES[text]
    assert last_job(session) == asked


@pytest.mark.parametrize("text", [text for text in CHANGES if "MODIFY" not in text])
def test_large_tables_hear_the_same_from_the_job(session, text):
    run(session, LARGE)
    asked = last_job(session)
    code, message = CHANGES[text]
    found = said(session, text)
    assert last_job(session) > asked
    if code != 1062:
        assert found == (code, message)
    else:  # which of equal keys is met first is the fill's own affair
        assert found[0] == code and found[1].split(" (")[0] == message.split(" (")[0]
        assert found[1].split(":")[0] == message.split(":")[0]


def test_only_columns_that_are_there_are_looked_at(session):
    asked = last_job(session)
    found = said(session, "ALTER TABLE t ADD COLUMN n int DEFAULT 5, ADD UNIQUE KEY un (n)")
    assert found[1].startswith("Duplicate entry '5' for key 't.un' (8 duplicates: '5' of id ")
    assert last_job(session) > asked


def test_a_primary_key_counts_nulls_first(session):
    run(session, "CREATE TABLE h (a int, b int)")
    run(session, "INSERT INTO h VALUES (1, 1), (NULL, 2), (1, 3), (NULL, 4)")
    found = said(session, "ALTER TABLE h ADD PRIMARY KEY (a)")
    assert found == (1138, "Invalid use of NULL value (2 rows: _tidb_rowid 2, _tidb_rowid 4)")
    run(session, "DELETE FROM h WHERE a IS NULL")
    assert said(session, "ALTER TABLE h ADD PRIMARY KEY (a)") == (
        1062,
        "Duplicate entry '1' for key 'h.PRIMARY'"
        " (1 duplicate: '1' of _tidb_rowid 1 and _tidb_rowid 3)",
    )


def test_partitions_are_looked_at_one_by_one(session):
    run(session, "CREATE TABLE p (a int, b int) PARTITION BY HASH (a) PARTITIONS 3")
    run(session, "INSERT INTO p VALUES (1, 5), (2, 5), (1, 5), (4, 6), (4, 6)")
    code, message = said(session, "ALTER TABLE p ADD UNIQUE KEY (a, b)")
    assert code == 1062 and message.count(" of ") == 2 and "(2 duplicates: " in message


@pytest.mark.parametrize("mode", ["tidb", "mysql"])
@pytest.mark.parametrize("explained", ["", "EXPLAIN "])
def test_duplicates_of_all_partitions_are_listed_in_both_modes(session, mode, explained):
    run(session, f"SET exuvia_compatibility = '{mode}'")
    run(session, "CREATE TABLE g (a int PRIMARY KEY, b int) PARTITION BY HASH (a) PARTITIONS 3")
    run(session, "INSERT INTO g VALUES (1, 5), (2, 6), (3, 5), (4, 7), (5, 6)")
    assert said(session, f"{explained}ALTER TABLE g ADD UNIQUE KEY ub (b) GLOBAL") == (
        1062,
        "Duplicate entry '5' for key 'g.ub' (2 duplicates: '5' of a 1 and a 3, '6' of a 2 and a 5)",
    )
    run(session, "CREATE TABLE l (a int, b int) PARTITION BY HASH (a) PARTITIONS 2")
    run(session, "INSERT INTO l VALUES (1, 5), (1, 5), (2, 6), (2, 6)")
    code, message = said(session, f"{explained}ALTER TABLE l ADD UNIQUE KEY (a, b)")
    assert code == 1062 and "(2 duplicates: " in message and "'1-5' of " in message
    assert "'2-6' of " in message
    run(session, "DELETE FROM g WHERE a = 5")
    assert said(session, f"{explained}ALTER TABLE g ADD UNIQUE KEY ub (b) GLOBAL")[1].endswith(
        "(1 duplicate: '5' of a 1 and a 3)"
    )


@pytest.mark.parametrize("most", [50_000, 0])
def test_rows_have_the_names_of_a_nonclustered_key(session, most):
    run(session, f"SET GLOBAL exuvia_preflight_rows = {most}")
    run(session, "CREATE TABLE n (id int, u varchar(9), s varchar(9), b int)")
    run(session, "ALTER TABLE n ADD PRIMARY KEY (id, u) NONCLUSTERED")
    run(session, "INSERT INTO n VALUES (7, 'a', '1', 1), (8, 'b', 'x', 2), (9, 'c', 'y', 3)")
    code, message = said(session, "ALTER TABLE n MODIFY s int")
    assert code == 1292 and message.endswith("(2 rows: id-u 8-b, id-u 9-c)")
    assert "id-u 8-b (x), id-u 9-c (y)" in rows(session, "SHOW WARNINGS")[1][2]
    code, message = said(session, "ALTER TABLE n ADD CHECK (b < 2)")
    assert code == 3819 and message.endswith("(2 rows: id-u 8-b, id-u 9-c)")


def test_the_notes_stay_and_the_list_ends_where_a_message_does(session):
    run(session, "CREATE TABLE w (id varchar(30) PRIMARY KEY, a int)")
    values = ", ".join(f"('{'k' * 20}{n:03}', NULL)" for n in range(45))
    run(session, f"INSERT INTO w VALUES {values}")
    _, message = said(session, "ALTER TABLE w MODIFY a int NOT NULL")
    assert message.startswith(
        f"Data truncated for column 'a' at row 1 (45 rows; the first 15: id {'k' * 20}000, id "
    )
    assert message.endswith(", ...)") and len(message.encode()) <= MESSAGE_BYTES
    assert rows(session, "SHOW WARNINGS")[1][2].startswith("45 rows do not fit: id kkk")


def test_where_there_is_no_room_the_count_is_still_said():
    long = ErrUnknown("x" * 600)
    assert counted(long, 7, ["id 1"]).message == "x" * 600 + " (7 rows)"
    assert counted(long, 1, ["id 1"]).message == "x" * 600
    seen = counted(ErrInvalidUseOfNull(), 9, ["id 1"], at_least=True).message
    assert seen == "Invalid use of NULL value (at least 9 rows; the first: id 1, ...)"
