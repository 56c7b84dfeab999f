"""MODIFY COLUMN beside clients: what its errors say, what they leave, who meets it on the way."""

import itertools
import threading

import pytest
from msgspec.structs import replace as evolve

from exuvia.base.errors import Refused
from exuvia.catalog import meta
from exuvia.cluster import member
from support.world import World, rows, run


@pytest.fixture
def session(world: World):
    """A session in an empty database."""
    session = world.session("")
    run(session, "CREATE DATABASE mc")
    run(session, "USE mc")
    yield session
    run(session, "DROP DATABASE mc")
    session.close()


def said(session, text):
    """The refusal's code and text."""
    with pytest.raises(Refused) as refused:
        session.execute(text)
    return refused.value.code, refused.value.message


def listed(session, code):
    """What the client reads beside the last refusal."""
    error, note = rows(session, "SHOW WARNINGS")
    assert (error[0], error[1]) == ("Error", code)
    assert (note[0], note[1]) == ("Note", code)
    return note[2]


def version(world):
    txn = world.store.begin()
    try:
        return meta.version(txn)
    finally:
        txn.rollback()


def jobs(session):
    return len(rows(session, "ADMIN SHOW DDL JOBS"))


def test_all_rows_that_do_not_fit_are_counted_and_the_first_listed(world, session):
    run(session, "CREATE TABLE t (id int PRIMARY KEY, a int, b varchar(5))")
    values = ", ".join(f"({n}, {n + 100}, NULL)" for n in range(60))
    run(session, f"INSERT INTO t VALUES {values}")
    before, asked = version(world), jobs(session)
    code, first = said(session, "ALTER TABLE t MODIFY a tinyint")
    second = listed(session, 1690)
    assert code == 1690
    assert first.startswith("constant 128 overflows tinyint (32 rows; the first 20: id 28, id 29,")
    assert second.startswith("32 rows do not fit: id 28 (128), id 29 (129), ")
    assert second.endswith(" id 47 (147), ...")
    code, first = said(session, "ALTER TABLE t MODIFY b varchar(5) NOT NULL")
    assert code == 1265
    assert first.startswith("Data truncated for column 'b' at row 1 (60 rows; the first 20: id 0,")
    assert listed(session, 1265).startswith("60 rows do not fit: id 0 (NULL), ")
    assert (version(world), jobs(session)) == (before, asked), "nothing has begun"


@pytest.mark.parametrize(
    ("definition", "change", "message"),
    [
        ("a char(8)", "a bit(1)", "modify column: [ddl:8200]Unsupported modify column: change from "
         "original type char(8) to bit(1) is currently unsupported yet"),
        ("a enum('x')", "a date", "modify column: [ddl:8200]Unsupported modify column: change from "
         "original type enum('x') to date is currently unsupported yet"),
        ("a int PRIMARY KEY", "a tinyint", "modify column: this column has primary key flag"),
        ("a int", "a int AUTO_INCREMENT", "modify column: can't set auto_increment"),
        ("a int PRIMARY KEY AUTO_INCREMENT", "a int", "modify column: can't remove auto_increment "
         "without @@tidb_allow_remove_auto_inc enabled"),
        ("a int", "a int REFERENCES u (a)", "modify column: can't modify with references"),
        ("a int", "a int CHECK (a > 1)", "modify column: can't modify with check"),
        ("a varbinary(9)", "a varchar(9)", "modify charset from binary to utf8mb4"),
        ("a varchar(9), KEY (a)", "a varchar(9) COLLATE utf8mb4_general_ci", "modifying collation "
         "of column 'a' from 'utf8mb4_bin' to 'utf8mb4_general_ci' when index is defined on it."),
    ],
)  # fmt: skip
def test_what_is_not_done(session, definition, change, message):
    run(session, f"CREATE TABLE t ({definition})")
    assert said(session, f"ALTER TABLE t MODIFY {change}") == (8200, f"Unsupported {message}")


def test_keys_are_not_changed_with_a_column(session):
    run(session, "CREATE TABLE t (a int)")
    for key in ("PRIMARY KEY", "UNIQUE KEY"):
        found = said(session, f"ALTER TABLE t MODIFY a int {key.removesuffix(' KEY')} KEY")
        assert found == (8200, f"can't change column constraint ({key})")


def test_two_columns_of_one_index_change_in_one_statement(session):
    run(session, "CREATE TABLE t (id int PRIMARY KEY, a int, b int, UNIQUE KEY ab (a, b), KEY (b))")
    run(session, "INSERT INTO t VALUES (1, 1, 2), (2, 1, 3), (3, NULL, 4)")
    run(session, "ALTER TABLE t MODIFY a varchar(9), MODIFY b decimal(5,1)")
    assert rows(session, "SELECT id FROM t WHERE a = '1' AND b = 3") == [[2]]
    assert said(session, "INSERT INTO t VALUES (4, '1', 2)")[0] == 1062
    run(session, "ADMIN CHECK TABLE t")
    assert len(rows(session, "SHOW INDEX FROM t")) == 4


def test_clients_write_while_it_walks(world, session):
    run(session, "CREATE TABLE t (id int PRIMARY KEY, a int, n int, UNIQUE KEY ua (a))")
    values = ", ".join(f"({n}, {n}, 0)" for n in range(400))
    run(session, f"INSERT INTO t VALUES {values}")
    over = threading.Event()
    done: list[int] = []

    def client() -> None:
        mine = world.session("mc")
        while not over.is_set():
            number = len(done)
            run(mine, f"UPDATE t SET n = n + 1, a = a + 1000 WHERE id = {number % 400}")
            run(mine, f"INSERT INTO t VALUES ({1000 + number}, {-1 - number}, 1)")
            done.append(number)
        mine.close()

    thread = threading.Thread(target=client)
    thread.start()
    try:
        for kind in ("varchar(20)", "decimal(12,2)", "bigint"):
            run(session, f"ALTER TABLE t MODIFY a {kind}")
    finally:
        over.set()
        thread.join()
    run(session, "ADMIN CHECK TABLE t")
    expected = 400 + len(done), 2 * len(done)
    assert rows(session, "SELECT COUNT(*), SUM(n) FROM t") == [[*expected]]
    assert rows(session, "SELECT COUNT(*) FROM t WHERE id < 400 AND a % 1000 <> id") == [[0]]


def test_new_rows_owe_nothing_to_what_was_replaced(session):
    """Without a value in the old column, no old unique index may judge them."""
    run(session, "CREATE TABLE t (id int PRIMARY KEY, a int NOT NULL, UNIQUE KEY (a))")
    run(session, "INSERT INTO t VALUES (1, 0)")
    run(session, "ALTER TABLE t MODIFY a varchar(5) NOT NULL")
    run(session, "INSERT INTO t VALUES (2, 'x'), (3, 'y')")
    assert rows(session, "SELECT a FROM t ORDER BY id") == [["0"], ["x"], ["y"]]


@pytest.mark.parametrize("modify_first", [True, False])
@pytest.mark.parametrize(
    ("change", "left"),
    [
        ("DROP INDEX i", []),
        ("RENAME INDEX i TO j", [("j", "YES")]),
        ("ALTER INDEX i INVISIBLE", [("i", "NO")]),
    ],
)
def test_an_index_that_changes_beside_its_column(session, change, left, modify_first):
    """The index that MODIFY has built anew is the one that the other change means."""
    run(session, "CREATE TABLE t (a INT PRIMARY KEY, b INT, c INT, KEY i (b, c))")
    run(session, "INSERT INTO t VALUES (1, 2, 3), (4, 5, 6)")
    both = ["MODIFY b VARCHAR(20)", change]
    run(session, f"ALTER TABLE t {', '.join(both if modify_first else reversed(both))}")
    found = rows(session, "SHOW INDEX FROM t WHERE key_name <> 'PRIMARY' AND seq_in_index = 1")
    assert [(row[2], row[13]) for row in found] == left
    run(session, "ADMIN CHECK TABLE t")
    if not left:
        run(session, "ALTER TABLE t DROP COLUMN c")
    run(session, "DROP TABLE t")


def test_moments_are_of_the_session_that_asked_whoever_writes(world, session):
    """A writer in another zone, on another day, makes of a value what the rewrite makes of it."""
    run(session, "SET time_zone = '+08:00'")
    run(session, "CREATE TABLE t (id int PRIMARY KEY, a timestamp, t time, KEY ia (a))")
    run(session, "INSERT INTO t SELECT 1, '2020-01-01 12:00:00', '10:00:00'")
    for power in range(8):
        run(session, f"INSERT INTO t SELECT id + {2**power}, a, t FROM t")
    over, done = threading.Event(), []

    def client() -> None:
        mine = world.session("mc")
        run(mine, "SET time_zone = '-05:00'")
        run(mine, "SET timestamp = 1000000000")
        while not over.is_set():
            number = 1000 + len(done)
            eleven = "CAST('11:00:00' AS TIME)"
            run(mine, f"INSERT INTO t VALUES ({number}, FROM_UNIXTIME({number}), {eleven})")
            run(mine, f"UPDATE t SET t = CAST('12:00:00' AS TIME) WHERE id = {number % 256}")
            done.append(number)
        mine.close()

    run(session, "SET timestamp = 1577836800")
    thread = threading.Thread(target=client)
    thread.start()
    try:
        run(session, "ALTER TABLE t MODIFY a datetime, MODIFY t datetime")
    finally:
        over.set()
        thread.join()
    run(session, "ADMIN CHECK TABLE t")
    # those written before the columns were new, and those after
    zones = {
        "2020-01-01 11:00:00": "1970-01-01 08:00:00",
        "2001-09-08 11:00:00": "1969-12-31 19:00:00",
    }
    counts = [
        rows(session, f"SELECT COUNT(*) FROM t WHERE id >= 1000 AND t = '{time}'"
             f" AND a = '{zero}' + INTERVAL id SECOND")[0][0]
        for time, zero in zones.items()
    ]  # fmt: skip
    assert counts[0] and sum(counts) == len(done)
    days = "DATE(t) IN (DATE '2020-01-01', DATE '2001-09-08')"
    right = f"id < 1000 AND a = '2020-01-01 12:00:00' AND {days}"
    assert rows(session, f"SELECT COUNT(*) FROM t WHERE {right}") == [[256]]


def test_an_older_node_is_waited_for(world, session, monkeypatch):
    """0.4.0 would make other values of these, and of no others."""
    run(session, "CREATE TABLE t (j json, n json, t time, ts timestamp, s varchar(30), a int)")
    honest = member.live
    monkeypatch.setattr(
        member, "live", lambda txn: [evolve(each, release="0.4.0") for each in honest(txn)]
    )
    for change in ("j int", "j year", "j datetime", "t datetime"):
        code, message = said(session, f"ALTER TABLE t MODIFY {change}")
        assert code == 8200 and "of an older release serves" in message, change
    for change in ("n varchar(30)", "ts datetime", "s timestamp", "a varchar(9)"):
        run(session, f"ALTER TABLE t MODIFY {change}")
    run(session, "ALTER TABLE t MODIFY ts timestamp, MODIFY s varchar(30)")
    run(session, "SET time_zone = '+01:00'")
    for change in ("ts datetime", "ts varchar(30)", "s timestamp"):
        assert said(session, f"ALTER TABLE t MODIFY {change}")[0] == 8200, change


def test_a_charset_without_a_character_refuses_it(session):
    """utf8 has three bytes a character, ascii one: also where MODIFY only checks the rows."""
    run(session, "CREATE TABLE t (id int PRIMARY KEY, a varchar(9), b varchar(9) CHARSET utf8)")
    run(session, "INSERT INTO t VALUES (1, 'ab', 'ab'), (2, '\u4e2d', '\u4e2d')")
    assert said(session, "INSERT INTO t VALUES (3, '', '\U0001f600')") == (
        1366,
        "Incorrect string value '\\xF0\\x9F\\x98\\x80' for column 'b'",
    )
    run(session, "INSERT INTO t VALUES (3, '\U0001f600', '')")
    for charset in ("ascii", "utf8"):
        assert said(session, f"ALTER TABLE t MODIFY a varchar(8) CHARSET {charset}")[0] == 1366
    run(session, "DELETE FROM t WHERE id = 3")
    run(session, "ALTER TABLE t MODIFY a varchar(8) CHARSET utf8")
    assert said(session, "ALTER TABLE t MODIFY a varchar(7) CHARSET ascii")[0] == 1366
    run(session, "DELETE FROM t WHERE id = 2")
    run(session, "ALTER TABLE t MODIFY a varchar(7) CHARSET ascii")
    assert said(session, "UPDATE t SET a = '\xe9'")[0] == 1366


PLACED = (
    "MODIFY a INT FIRST",
    "MODIFY f INT FIRST",  # its rows are written
    "ADD COLUMN n INT FIRST",
    "MODIFY b BIGINT FIRST",
    "MODIFY c TINYINT FIRST",  # its rows are read
    "DROP COLUMN z",
)


@pytest.mark.parametrize("clauses", list(itertools.permutations(PLACED, 3))[::7])
def test_columns_come_to_their_places_in_the_order_of_the_clauses(session, clauses):
    """Whatever each of them has to do before it is seen."""
    create = "(k INT PRIMARY KEY, z INT, a INT, b INT, c INT, f VARCHAR(9), KEY i (f))"
    run(session, f"CREATE TABLE t {create}")
    run(session, f"CREATE TABLE s {create}")
    run(session, f"ALTER TABLE t {', '.join(clauses)}")
    for each in clauses:
        run(session, f"ALTER TABLE s {each}")
    assert rows(session, "SHOW COLUMNS FROM t") == rows(session, "SHOW COLUMNS FROM s")
