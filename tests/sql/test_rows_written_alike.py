"""INSERTs of many rows that are written alike: by column they come to what they come to one by one.

Every case runs twice, in two databases: with the look for such rows, and without. Both must leave
the same bytes, counters, warnings and answers.
"""

import random
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from exuvia.base.errors import ExuviaError
from exuvia.kv import keys
from exuvia.kv.transaction import Transaction
from exuvia.sql.parse.literals import rows_of
from exuvia.sql.session import session as session_module
from exuvia.sql.session.session import Session
from support.world import World

NEVER = 1 << 40
ID = "id INT AUTO_INCREMENT PRIMARY KEY"


@contextmanager
def looking(monkeypatch: pytest.MonkeyPatch, looks: bool) -> Iterator[None]:
    """Whether texts of any length are looked at for rows that are written alike."""
    with monkeypatch.context() as patch:
        patch.setattr(session_module, "MANY_ROWS", 0 if looks else NEVER)
        yield


def stored(session: Session, name: str) -> list[tuple[bytes, bytes]]:
    """Rows and entries of a table, and how far its ids are given."""
    with session.services.store.read() as txn:
        table = session.services.schemas.table(txn, session.database, name)
        prefix = b"t" + keys.u64(table.info.id)
        span = keys.span_of(prefix)
        found = [(key[9:], payload) for key, payload in txn.scan(span) if key[9:10] in b"ri"]
        for kind in ("auto", "rowid"):
            found.append((kind.encode(), txn.get(keys.meta(kind, table.info.id)) or b""))
        return found


def outcome(session: Session, text: str) -> tuple[object, ...]:
    try:
        found = session.execute(text)
    except ExuviaError as refusal:
        return type(refusal).__name__, str(refusal), session.warnings, session.row_count
    assert not isinstance(found, list)
    answer = found.affected, found.last_insert_id, found.written_id, found.info
    return answer, session.warnings, session.row_count, session.last_insert_id


class Both:
    """Two databases that differ in the look alone."""

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        self._patch = monkeypatch
        self.written_by_column = 0
        self._put_new = Transaction.put_new
        self.sessions = []
        for name in ("fast", "slow"):
            session = world.session()
            session.execute(f"DROP DATABASE IF EXISTS {name}")
            session.execute(f"CREATE DATABASE {name}")
            self.sessions.append(world.session(name))

    def run(self, *texts: str) -> None:
        """Each text in both; both answer alike."""
        for text in texts:
            found = []
            for looks, session in zip((True, False), self.sessions, strict=True):
                with looking(self._patch, looks), self._counted(looks):
                    found.append(outcome(session, text))
            fast, slow = [repr(each).replace("`slow`", "`fast`") for each in found]
            assert fast == slow, text[:200]

    @contextmanager
    def _counted(self, looks: bool) -> Iterator[None]:
        def put_new(txn: Transaction, *given: object) -> bool:
            assert looks
            done = self._put_new(txn, *given)  # type: ignore[arg-type]
            self.written_by_column += done
            return done

        with self._patch.context() as patch:
            patch.setattr(Transaction, "put_new", put_new)
            yield

    def same(self, name: str = "t") -> None:
        fast, slow = self.sessions
        assert stored(fast, name) == stored(slow, name)
        for session in self.sessions:
            session.execute(f"ADMIN CHECK TABLE {name}")


@pytest.fixture
def both(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[Both]:
    pair = Both(world, monkeypatch)
    yield pair
    for session in pair.sessions:
        session.close()


def values(*rows: str) -> str:
    return ", ".join(f"({row})" for row in rows)


def quoted(*texts: str) -> str:
    return values(*[f"'{text}'" for text in texts])


@pytest.mark.parametrize(
    ("text", "shape", "letters", "columns"),
    [
        ("INSERT INTO t VALUES (1),(-2)", "INSERT INTO t VALUES (?)", "i", [[1, -2]]),
        ("insert t values ('a') , ('(b,')", "insert t values (?)", "s", [["a", "(b,"]]),
        ("INSERT INTO t VALUES (1,2),(3,4)", "INSERT INTO t VALUES (?,?)", "ii", [(1, 3), (2, 4)]),
        (
            "INSERT INTO t (a, b) VALUES (NULL, 1, 'x', 'y', 2), (NULL, 3, '', '\"', 4);",
            "INSERT INTO t (a, b) VALUES (NULL, ?, ?, ?, ?)",
            "issi",
            [[1, 3], ["x", ""], ["y", '"'], [2, 4]],
        ),
    ],
)
def test_rows_alike_come_by_column(
    text: str, shape: str, letters: str, columns: list[list[object]]
) -> None:
    found = rows_of(text)
    assert found is not None
    assert (found.shape, found.letters) == (shape, letters)
    assert [list(each) for each in found.columns] == [list(each) for each in columns]


@pytest.mark.parametrize(
    "rows",
    [
        "(1)",
        "(1),(1.5)",
        "(1),(1e2)",
        "(1),(0x10)",
        "(1),(01)",
        "(1),(18446744073709551615)",
        "(1),('a')",
        "('a'),(1)",
        "(1),(NULL)",
        "('a'),('b''c')",
        "('a''b'),('c')",
        r"('a'),('b\'c')",
        "('a'),('b'),",
        "('a'),('b' 'c')",
        "('a'),(_utf8'b')",
        "(_utf8'a'),(_utf8'b')",
        "(x'41'),(x'42')",
        "('a'),(CONCAT('b'))",
        "(CONCAT('a')),(CONCAT('b'))",
        "(a+1),(a+2)",
        "(1+1),(2+2)",
        "(1 1),(2 2)",
        "(1,2),(3)",
        "(1),(2,3)",
        "('a','b'),('c'),('d','e','f')",
        "('a',1),('b')",
        "((1)),((2))",
        "(1)(2)",
        "(1),,(2)",
        "(?),(?)",
        "('a'),('b') ON DUPLICATE KEY UPDATE a = 5",
        "('a'),('b') AS n",
        "(1),(2); INSERT INTO t VALUES (3),(4)",
        "('a'),('b') -- c",
        "('a') /* c */,('b')",
        "('a'),('b'), ROW('c')",
    ],
)
def test_rows_that_are_not_alike_are_none(rows: str) -> None:
    assert rows_of(f"INSERT INTO t VALUES {rows}") is None


NUMBERS = [
    ["1", "2", "3"],
    ["-1", "127", "-128"],
    ["0", "255", "256"],
    ["-32769", "65536", "8388608"],
    ["2147483648", "4294967296", "20200101"],
    ["9223372036854775807", "-9223372036854775808", "5"],
    ["1999", "70", "0"],
]
TEXTS = [
    ["a", "b", ""],
    ["ab  ", " ", "c"],
    ["äöü", "ß", "日本"],
    ["12345678", "12345", "abcdefghijkl"],
    ["2020-01-02", "2020-02-30", "0000-00-00"],
    ["2020-01-02 03:04:05.678", "1969-01-01 00:00:00", "2020-1-1"],
    ["10:11:12", "-1:2:3", "850:00:00"],
    ["1.5", "-2.25", "3.999"],
    ["one", "two", "one,two"],
    ['{"a": 1}', "[1, 2]", "{"],
]
TYPES = [
    *("TINYINT", "TINYINT UNSIGNED NOT NULL", "SMALLINT", "MEDIUMINT", "INT", "BIGINT UNSIGNED"),
    *("BIGINT", "BOOLEAN", "DECIMAL(6, 2)", "DECIMAL(40, 3)", "FLOAT", "DOUBLE", "YEAR", "BIT(7)"),
    *("CHAR(8)", "VARCHAR(8)", "VARCHAR(8) CHARACTER SET ascii", "TEXT", "TINYTEXT", "BINARY(5)"),
    *("VARBINARY(6)", "BLOB", "DATE", "DATETIME", "DATETIME(2)", "TIMESTAMP", "TIME", "TIME(1)"),
    *("ENUM('one', 'two')", "SET('one', 'two')", "JSON", "CHAR(8) COLLATE utf8mb4_general_ci"),
]


@pytest.mark.parametrize("kind", TYPES)
def test_values_of_every_type_become_the_same(both: Both, kind: str) -> None:
    both.run(f"CREATE TABLE t ({ID}, a {kind}, b INT DEFAULT 7)")
    if kind not in ("TEXT", "TINYTEXT", "BLOB", "JSON"):
        both.run("ALTER TABLE t ADD INDEX (a, b)")
    for mode, verb in (("STRICT_TRANS_TABLES,NO_ZERO_DATE", "INSERT"), ("", "REPLACE")):
        both.run(f"SET sql_mode = '{mode}'")
        for row in (*NUMBERS, *([f"'{each}'" for each in texts] for texts in TEXTS)):
            both.run(f"{verb} INTO t (a) VALUES {values(*row)}")
            if verb == "INSERT":  # what all of them may refuse, two of them may not
                for one in row:
                    both.run(f"INSERT INTO t (a) VALUES {values(one, one)}")
        both.run("INSERT IGNORE INTO t (a, b) VALUES (NULL, 1), (NULL, 2)")
    assert both.written_by_column
    both.same()


TABLES = {
    "ids": f"CREATE TABLE t ({ID}, a INT, b VARCHAR(9))",
    "two plain indexes": f"CREATE TABLE t ({ID}, a INT, b VARCHAR(9), KEY (a), KEY (b, a))",
    "a unique index": f"CREATE TABLE t ({ID}, a INT, b VARCHAR(9), UNIQUE KEY (a))",
    "hidden ids": "CREATE TABLE t (id INT, a INT, b VARCHAR(9), KEY (id))",
    "a key of texts": "CREATE TABLE t (id INT, a INT, b VARCHAR(9) PRIMARY KEY CLUSTERED)",
    "a key of two": "CREATE TABLE t (id INT, a INT, b VARCHAR(9), PRIMARY KEY (a, id) CLUSTERED)",
    "a small id": "CREATE TABLE t (id TINYINT AUTO_INCREMENT PRIMARY KEY, a INT, b VARCHAR(9))",
    "ids without a cache": f"CREATE TABLE t ({ID}, a INT, b VARCHAR(9)) AUTO_ID_CACHE 1",
    "random ids": "CREATE TABLE t (id BIGINT AUTO_RANDOM PRIMARY KEY, a INT, b VARCHAR(9))",
    "a check": f"CREATE TABLE t ({ID}, a INT, b VARCHAR(9), CHECK (a < 30))",
    "a generated column": f"CREATE TABLE t ({ID}, a INT, b VARCHAR(9), g INT AS (a + 1) STORED)",
    "a virtual column": f"CREATE TABLE t ({ID}, a INT, b VARCHAR(9), g INT AS (a + 1), KEY (g))",
    "an expression index": f"CREATE TABLE t ({ID}, a INT, b VARCHAR(9), KEY ((a + 1)))",
    "partitions": f"CREATE TABLE t ({ID}, a INT, b VARCHAR(9)) PARTITION BY HASH (id) PARTITIONS 3",
    "a default that is computed": f"CREATE TABLE t ({ID}, a INT, b VARCHAR(9),"
    " m DATETIME(6) DEFAULT CURRENT_TIMESTAMP(6))",
    "a column without default": f"CREATE TABLE t ({ID}, a INT, b VARCHAR(9), m INT NOT NULL)",
    "a parent": f"CREATE TABLE t ({ID}, a INT, b VARCHAR(9), KEY (a),"
    " FOREIGN KEY (a) REFERENCES t (id))",
}
NAMED = ["", "(a, b)", "(id, a, b)", "(b, a)", "(b)", "(a)", "(b, id)"]


@pytest.mark.parametrize("name", TABLES)
def test_rows_of_every_table_become_the_same(both: Both, name: str) -> None:
    both.run(TABLES[name], "SET timestamp = 1700000000")
    chance = random.Random(name)
    for turn in range(40):
        columns = chance.choice(NAMED)
        names = columns.strip("()").split(", ") if columns else ["id", "a", "b"]
        verb = chance.choice(["INSERT", "INSERT", "INSERT IGNORE", "REPLACE"])
        start = chance.choice([0, 0, 1, 10 * turn, 10 * turn, 10 * turn])
        null_id = chance.random() < 0.3
        rows = []
        for number in range(chance.choice([2, 3, 7])):
            cells = {
                "id": "NULL" if null_id else str(start + number),
                "a": str(chance.randrange(50)),
                "b": f"'{chance.choice('xyz')}{turn}{number}'",
            }
            rows.append(", ".join(cells[each] for each in names))
        if chance.random() < 0.2:
            rows.append(rows[0])
        both.run(f"{verb} INTO t {columns} VALUES {values(*rows)}")
        if chance.random() < 0.1:
            both.run("BEGIN", "DELETE FROM t WHERE a < 5", "UPDATE t SET a = a + 1 WHERE a > 40")
        if chance.random() < 0.1:
            both.run(chance.choice(["COMMIT", "ROLLBACK"]))
    both.run("COMMIT")
    both.same()
    if name in ("ids", "two plain indexes", "hidden ids", "a key of texts"):
        assert both.written_by_column >= 10


def test_what_a_transaction_has_deleted_or_met_is_no_new_row(both: Both) -> None:
    both.run(
        f"CREATE TABLE t ({ID}, a INT, b VARCHAR(9), KEY (a))",
        "INSERT INTO t VALUES (1, 1, 'x'), (2, 2, 'x')",
        "BEGIN",
        "DELETE FROM t WHERE id = 1",
        "INSERT INTO t VALUES (1, 1, 'y'), (3, 3, 'y')",
        "SELECT * FROM t WHERE id = 9 FOR UPDATE",
        "INSERT INTO t VALUES (9, 1, 'y'), (10, 3, 'y')",
        "SAVEPOINT s",
        "INSERT INTO t VALUES (11, 1, 'y'), (12, 3, 'y')",
        "ROLLBACK TO s",
        "INSERT INTO t VALUES (12, 1, 'y'), (13, 3, 'y')",
        "COMMIT",
    )
    both.same()


def test_limits_say_the_same(both: Both) -> None:
    both.run(f"CREATE TABLE t ({ID}, a INT, b TEXT)", "SET exuvia_txn_total_size_limit = 100000")
    long = "x" * 3000
    both.run(f"INSERT INTO t (b) VALUES {quoted(*[long] * 50)}")
    both.run(f"INSERT INTO t (b) VALUES {quoted(*[long] * 20)}")
    both.same()
