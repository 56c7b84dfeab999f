"""A transaction that began before a step of a schema change, and writes after it, reads what it
wrote: by the definition that it began with, by each index and by none."""

import pytest

from exuvia.catalog.convert.type_change import BACK, LEFT
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


# -- the step after the swap -----------------------------------------------------------------------


class Swapped:
    """An ALTER TABLE t that a transaction holds in the step after the swap. `lags` has read before
    it, `other` uses the new definition."""

    def __init__(
        self,
        world: World,
        session: Session,
        alter: str,
        key: str = "INSERT INTO t (id) VALUES ({n})",
    ) -> None:
        self._session, self._world, self._key = session, world, key
        self.lags = self._begins(900)
        self._changing = SteppedAlter(world, session, alter)
        self._changing.start()
        for state in range(1, 12):
            assert self._changing.reaches_or_ends(state)
            if self._is_swapped():
                break
            following = self._begins(900 + state)
            run(self.lags, "COMMIT")
            self.lags.close()
            self.lags = following
        self.other = world.session(session.database)

    def _begins(self, n: int) -> Session:
        opened = self._world.session(self._session.database)
        run(opened, "BEGIN")
        rows(opened, "SELECT COUNT(*) FROM t")
        run(opened, self._key.format(n=n))
        return opened

    def _is_swapped(self) -> bool:
        with self._world.store.read() as txn:
            info = self._world.services.schemas.table(txn, self._session.database, "t").info
        return any(
            column.name.L.startswith("_tombstone$_")
            or {BACK, LEFT} & (column.change_state_info or {}).keys()
            for column in info.cols
        )

    def ends(self) -> list[list[object]]:
        """The rows after it, but those that held it."""
        run(self.lags, "COMMIT")
        self.lags.close()
        self._changing.ends()
        run(self.other, "ADMIN CHECK TABLE t")
        found = rows(self.other, "SELECT * FROM t")
        self.other.close()
        return sorted((line for line in found if "90" not in str(line[0])), key=str)


UNIQUE = "CREATE TABLE t (id INT PRIMARY KEY, c {} UNIQUE, x INT)"
CLUSTERED = "CREATE TABLE t (id {} PRIMARY KEY CLUSTERED, x INT)"
CI, BIN = ("VARCHAR(20) COLLATE utf8mb4_general_ci", "VARCHAR(20) COLLATE utf8mb4_bin")
BY_THE_NEW_ONE = {
    "a coarser collation": (
        (UNIQUE.format(CI), "INSERT INTO t VALUES (5, 'b', 0), (6, 'f', 0), (7, 'g', 0)"),
        f"MODIFY c {BIN}",
        (
            "INSERT INTO t VALUES (1, 'B', 7)",
            "REPLACE INTO t VALUES (2, 'F', 8)",
            "INSERT INTO t VALUES (3, 'G', 8) ON DUPLICATE KEY UPDATE x = 555",
            "INSERT IGNORE INTO t VALUES (4, 'g', 9), (8, 'b ', 9), (9, 'h', 9)",
        ),
        [[1, "B", 7], [2, "F", 8], [3, "G", 8], [5, "b", 0], [6, "f", 0], [7, "g", 0], [9, "h", 9]],
    ),
    "another expression": (
        (
            "CREATE TABLE t (id INT PRIMARY KEY, v INT, a INT AS (v + 7) STORED UNIQUE)",
            "INSERT INTO t (id, v) VALUES (5, 1)",
        ),
        "MODIFY a INT AS (v + 1) STORED",
        ("INSERT INTO t (id, v) VALUES (6, 7)", "REPLACE INTO t (id, v) VALUES (7, 8)"),
        [[5, 1, 2], [6, 7, 8], [7, 8, 9]],
    ),
    "a prefix": (
        (
            "CREATE TABLE t (id INT PRIMARY KEY, c VARCHAR(20), UNIQUE KEY uc (c(3)))",
            "INSERT INTO t VALUES (1, '1234'), (2, '7')",
        ),
        "MODIFY c INT",
        ("INSERT INTO t VALUES (3, 1235)", "REPLACE INTO t VALUES (4, 1236)"),
        [[1, 1234], [2, 7], [3, 1235], [4, 1236]],
    ),
    "texts of one number": (
        (UNIQUE.format("INT"), "INSERT INTO t VALUES (1, 1, 0), (2, 2, 0)"),
        "MODIFY c VARCHAR(20)",
        (
            "INSERT INTO t VALUES (3, '01', 0), (4, '001', 0), (5, '+1', 0), (6, 'abc', 0)",
            "UPDATE t SET c = '02' WHERE id = 2",
            "REPLACE INTO t VALUES (7, '2', 0), (8, 'def', 1)",
        ),
        [
            *([1, "1", 0], [2, "02", 0], [3, "01", 0], [4, "001", 0], [5, "+1", 0]),
            *([6, "abc", 0], [7, "2", 0], [8, "def", 1]),
        ],
    ),
    "keys without a former one": (
        (CLUSTERED.format("INT"), "INSERT INTO t VALUES (1, 0), (5, 0), (6, 0)"),
        "MODIFY id VARCHAR(20)",
        (
            "UPDATE t SET id = 'abc' WHERE id = '5'",
            "INSERT INTO t VALUES ('01', 7), ('12', 3)",
            "UPDATE t SET id = '8' WHERE id = '01'",
            "INSERT INTO t VALUES ('6', 1) ON DUPLICATE KEY UPDATE id = 'xyz'",
        ),
        [["1", 0], ["12", 3], ["8", 7], ["abc", 0], ["xyz", 0]],
    ),
    "keys of a coarser collation": (
        (CLUSTERED.format(CI), "INSERT INTO t VALUES ('1', 0), ('b', 0)"),
        f"MODIFY id {BIN}",
        (
            "INSERT INTO t VALUES ('a', 7), ('A', 7), ('B', 7)",
            "REPLACE INTO t VALUES ('B', 8)",
            "UPDATE t SET x = 9 WHERE id = 'A'",
            "UPDATE t SET id = 'C' WHERE id = 'a'",
        ),
        [["1", 0], ["A", 9], ["B", 8], ["C", 7], ["b", 0]],
    ),
}


@pytest.mark.parametrize("case", BY_THE_NEW_ONE)
def test_after_the_swap_writes_obey_the_new_definition_only(
    world: World, session: Session, case: str
) -> None:
    """No key of the old one refuses or replaces a row, although its readers are not gone."""
    run(session, "SET exuvia_compatibility = 'mysql'")
    made, change, written, expected = BY_THE_NEW_ONE[case]
    for text in made:
        run(session, text)
    swapped = Swapped(world, session, f"ALTER TABLE t {change}")
    for text in written:
        run(swapped.other, text)
    assert swapped.ends() == expected


def test_nor_do_they_obey_the_definition_that_undo_gives_up(world: World, session: Session) -> None:
    run(session, "SET exuvia_undo_s = 3600")
    run(session, UNIQUE.format("VARCHAR(20)"))
    run(session, "INSERT INTO t VALUES (1, '01', 0), (2, '7', 0)")
    run(session, "ALTER TABLE t MODIFY c INT")
    undo = f"ADMIN UNDO DDL JOB {rows(session, 'ADMIN SHOW DDL JOBS 1')[0][0]}"
    swapped = Swapped(world, session, undo)
    run(swapped.other, "REPLACE INTO t VALUES (10, '1', 7), (11, '07', 7)")
    assert swapped.ends() == [[1, "01", 0], [10, "1", 7], [11, "07", 7], [2, "7", 0]]


def test_undo_of_a_change_has_the_values_that_were_written_after_the_swap(
    world: World, session: Session
) -> None:
    run(session, "SET exuvia_undo_s = 3600")
    run(session, UNIQUE.format("INT"))
    run(session, "INSERT INTO t VALUES (1, 1, 0), (2, 2, 0)")
    swapped = Swapped(world, session, "ALTER TABLE t MODIFY c VARCHAR(20)")
    run(swapped.other, "INSERT INTO t VALUES (3, '01', 0), (4, '4', 0), (5, '05', 0)")
    run(swapped.other, "UPDATE t SET c = '22' WHERE id = 2")
    swapped.ends()
    undo = f"ADMIN UNDO DDL JOB {rows(session, 'ADMIN SHOW DDL JOBS 1')[0][0]}"
    assert error(session, undo)[0] == 1062
    run(session, "DELETE FROM t WHERE id = 3")
    run(session, undo)
    found = rows(session, "SELECT id, c FROM t WHERE id < 900 ORDER BY id")
    assert found == [[1, 1], [2, 22], [4, 4], [5, 5]]
    run(session, "ADMIN CHECK TABLE t")


def test_a_value_without_a_former_one_reads_as_null(world: World, session: Session) -> None:
    run(session, UNIQUE.format("INT"))
    run(session, "INSERT INTO t VALUES (1, 1, 0)")
    swapped = Swapped(world, session, "ALTER TABLE t MODIFY c VARCHAR(20)")
    run(swapped.lags, "INSERT INTO t VALUES (10, '10', 0), (11, 'abc', 0)")
    assert rows(swapped.lags, "SELECT id, c FROM t WHERE id > 9 AND id < 20") == [
        [10, 10],
        [11, None],
    ]
    assert rows(swapped.lags, "SELECT id FROM t WHERE c = 10") == [[10]]
    assert swapped.ends() == [[1, "1", 0], [10, "10", 0], [11, "abc", 0]]


def test_a_number_beyond_a_former_type_that_rows_keep_reads_as_null(
    world: World, session: Session
) -> None:
    """MODIFY to another sign rewrites no row."""
    run(session, "CREATE TABLE t (id INT PRIMARY KEY, d BIGINT UNSIGNED, KEY kd (d))")
    run(session, "INSERT INTO t VALUES (1, 1)")
    swapped = Swapped(world, session, "ALTER TABLE t MODIFY d BIGINT")
    run(swapped.lags, "INSERT INTO t VALUES (13, -4), (14, 4)")
    found = rows(swapped.lags, "SELECT * FROM t WHERE id < 100 ORDER BY id")
    assert found == [[1, 1], [13, None], [14, 4]]
    window = "SELECT id, d, ROW_NUMBER() OVER (ORDER BY id) FROM t WHERE id < 100"
    assert rows(swapped.lags, window) == [[1, 1, 1], [13, None, 2], [14, 4, 3]]
    assert rows(swapped.lags, "SELECT id FROM t WHERE d = 4") == [[14]]
    assert swapped.ends() == [[1, 1], [13, -4], [14, 4]]


def test_a_stored_column_over_a_changed_one(world: World, session: Session) -> None:
    run(session, "SET exuvia_compatibility = 'mysql'")
    run(session, "CREATE TABLE t (id INT PRIMARY KEY, v INT, g INT AS (v + 7) STORED, KEY kg (g))")
    run(session, "INSERT INTO t (id, v) VALUES (1, 1), (2, 2)")
    swapped = Swapped(world, session, "ALTER TABLE t MODIFY v VARCHAR(20)")
    run(swapped.lags, "UPDATE t SET v = 22 WHERE id = 2")
    assert rows(swapped.lags, "SELECT * FROM t WHERE g = 29") == [[2, 22, 29]]
    assert swapped.ends() == [[1, "1", 8], [2, "22", 29]]


@pytest.mark.parametrize("key", ["id, c", "c, id"])
def test_a_unique_index_beside_a_key_of_a_coarser_collation(
    world: World, session: Session, key: str
) -> None:
    run(session, "SET exuvia_compatibility = 'mysql'")
    made = f"id INT, c {CI}, x INT, PRIMARY KEY ({key}) CLUSTERED, UNIQUE KEY uc (c)"
    run(session, f"CREATE TABLE t ({made})")
    run(session, "INSERT INTO t VALUES (1, 'C', 0), (3, 'd', 0), (4, 'e', 0)")
    new = f"ALTER TABLE t MODIFY c {BIN}"
    swapped = Swapped(world, session, new, "INSERT INTO t (id, c) VALUES ({n}, 'n{n}')")
    run(swapped.other, "INSERT INTO t VALUES (2, 'c', 0)")
    run(swapped.other, "UPDATE t SET c = 'D' WHERE id = 4")
    run(swapped.lags, "INSERT INTO t VALUES (5, 'f', 5)")
    assert swapped.ends() == [[1, "C", 0], [2, "c", 0], [3, "d", 0], [4, "D", 0], [5, "f", 5]]


OF_KEYS = [
    ("PRIMARY KEY (id)", "DROP PRIMARY KEY, ADD PRIMARY KEY (x)"),
    ("PRIMARY KEY (id)", "DROP PRIMARY KEY, ADD PRIMARY KEY (x) NONCLUSTERED"),
    ("PRIMARY KEY (id)", "DROP PRIMARY KEY"),
    ("PRIMARY KEY (c) NONCLUSTERED", "DROP PRIMARY KEY, ADD PRIMARY KEY (id) CLUSTERED"),
    ("PRIMARY KEY (c)", "DROP PRIMARY KEY"),
]


@pytest.mark.parametrize(("key", "new"), OF_KEYS)
@pytest.mark.parametrize("kind", ["c", "c(3)"])
def test_old_indexes_beside_a_change_of_the_primary_key(
    world: World, session: Session, key: str, new: str, kind: str
) -> None:
    run(session, "SET exuvia_compatibility = 'mysql'")
    column = f"id INT NOT NULL, c {CI} NOT NULL, x INT NOT NULL AUTO_INCREMENT UNIQUE"
    run(session, f"CREATE TABLE t ({column}, {key}, UNIQUE KEY uc ({kind}))")
    first, values = ("b", ["B", "bc"]) if kind == "c" else ("1234", ["1235", "1236"])
    run(session, f"INSERT INTO t (id, c) VALUES (1, '{first}'), (2, '777')")
    change = f"MODIFY c {BIN} NOT NULL" if kind == "c" else "MODIFY c INT NOT NULL"
    swapped = Swapped(
        world, session, f"ALTER TABLE t {change}, {new}", "INSERT INTO t (id, c) VALUES ({n}, {n})"
    )
    for n, value in enumerate(values, 10):
        run(swapped.other, f"INSERT INTO t (id, c) VALUES ({n}, '{value}')")
    run(swapped.other, "UPDATE t SET c = '778' WHERE id = 2")
    found = [[line[0], str(line[1])] for line in swapped.ends()]
    assert found == [[1, first], [10, values[0]], [11, values[1]], [2, "778"]]


def test_two_transactions_with_one_former_key(world: World, session: Session) -> None:
    run(session, "SET exuvia_compatibility = 'mysql'")
    run(session, CLUSTERED.format(CI))
    swapped = Swapped(world, session, f"ALTER TABLE t MODIFY id {BIN}")
    second = world.session(session.database)
    for opened, value in ((swapped.other, "q"), (second, "Q")):
        run(opened, "SET innodb_lock_wait_timeout = 1")
        run(opened, "BEGIN")
        run(opened, f"INSERT INTO t VALUES ('{value}', 1)")
    run(swapped.other, "COMMIT")
    run(second, "COMMIT")
    second.close()
    assert swapped.ends() == [["Q", 1], ["q", 1]]


@pytest.mark.parametrize("first", ["a INT UNSIGNED, MODIFY b", "b VARCHAR(20), MODIFY a"])
def test_an_index_of_two_changed_columns(world: World, session: Session, first: str) -> None:
    run(
        session,
        "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT, UNIQUE ab (a, b), KEY ba (b, a))",
    )
    run(session, "INSERT INTO t VALUES (1, 1, 1), (5, 5, 5)")
    last = "VARCHAR(20)" if first.endswith("b") else "INT UNSIGNED"
    swapped = Swapped(world, session, f"ALTER TABLE t MODIFY {first} {last}")
    run(swapped.lags, "INSERT INTO t VALUES (10, 10, '10')")
    run(swapped.lags, "UPDATE t SET a = 15 WHERE id = 5")
    for hint in ("FORCE INDEX (ab)", "FORCE INDEX (ba)", "IGNORE INDEX (ab, ba)"):
        found = rows(swapped.lags, f"SELECT * FROM t {hint} WHERE a IN (5, 10, 15) ORDER BY id")
        assert found == [[5, 15, 5], [10, 10, 10]], hint
    assert swapped.ends() == [[1, 1, "1"], [10, 10, "10"], [5, 15, "5"]]
