"""PEP 249 on an embedded store, rule by rule; results are those of PyMySQL over the wire.

The rules are those tested by the standard suite for PEP 249 (dbapi20 by Stuart Bishop).
"""

import datetime
import decimal
import threading
from collections.abc import Iterator
from typing import Any

import pymysql
import pytest

import exuvia
from exuvia import dbapi
from support.node_processes import NodeProcess, running_nodes


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A store without a server; one connection keeps it open."""
    store_url = f"lmdb://{tmp_path_factory.mktemp('dbapi')}/store"
    with exuvia.connect(store_url) as connection:
        connection.cursor().execute("CREATE DATABASE shop")
        yield store_url


@pytest.fixture
def connection(url: str) -> Iterator[dbapi.EmbeddedConnection]:
    opened = exuvia.connect(url, "shop")
    opened.cursor().execute("CREATE TABLE booze (name VARCHAR(20))")
    yield opened
    if not opened.closed:
        opened.close()
    with exuvia.connect(url, "shop") as after:
        after.cursor().execute("DROP TABLE booze")


NAMES = ["Cooper's", "Carlton", "Pure Blonde", "100% Malt", "Victoria", "Étoile"]


def filled(connection: dbapi.EmbeddedConnection) -> dbapi.EmbeddedCursor:
    cursor = connection.cursor()
    cursor.executemany("INSERT INTO booze VALUES (%s)", [(name,) for name in NAMES])
    return cursor


def test_the_module(url: str) -> None:
    assert (exuvia.apilevel, exuvia.threadsafety, exuvia.paramstyle) == ("2.0", 1, "pyformat")
    for name in dbapi.__all__:
        assert getattr(exuvia, name) is getattr(dbapi, name)
    assert not hasattr(exuvia, "os") and not hasattr(exuvia, "_mapped")


def test_exceptions_are_pep_249s_tree_and_are_attributes_of_connections(
    connection: dbapi.EmbeddedConnection,
) -> None:
    assert issubclass(exuvia.Warning, Exception) and issubclass(exuvia.Error, Exception)
    assert issubclass(exuvia.InterfaceError, exuvia.Error)
    assert issubclass(exuvia.DatabaseError, exuvia.Error)
    for name in ("Operational", "Integrity", "Internal", "Programming", "NotSupported", "Data"):
        kind = getattr(exuvia, f"{name}Error")
        assert issubclass(kind, exuvia.DatabaseError)
        assert getattr(connection, f"{name}Error") is kind is getattr(pymysql.err, f"{name}Error")


def test_transactions(url: str, connection: dbapi.EmbeddedConnection) -> None:
    cursor = filled(connection)
    with exuvia.connect(url, "shop") as other:
        reader = other.cursor()
        reader.execute("SELECT COUNT(*) FROM booze")
        assert reader.fetchone() == (0,)
    connection.rollback()
    cursor.execute("SELECT * FROM booze")
    assert cursor.fetchall() == []
    filled(connection)
    connection.commit()
    connection.commit()  # without one
    connection.rollback()
    filled(connection)
    connection.close()  # undoes what is open
    with exuvia.connect(url, "shop") as other:
        reader = other.cursor()
        reader.execute("SELECT COUNT(*) FROM booze")
        assert reader.fetchone() == (len(NAMES),)


def test_cursors_of_a_connection_share_its_transaction(
    connection: dbapi.EmbeddedConnection,
) -> None:
    filled(connection)
    other = connection.cursor()
    other.execute("SELECT name FROM booze ORDER BY name LIMIT 1")
    assert other.fetchall() == [("100% Malt",)]


def test_description_and_rowcount(connection: dbapi.EmbeddedConnection) -> None:
    cursor = connection.cursor()
    assert (cursor.description, cursor.rowcount, cursor.connection) == (None, -1, connection)
    cursor.execute("INSERT INTO booze VALUES ('a'), ('b')")
    assert (cursor.description, cursor.rowcount) == (None, 2)
    cursor.execute("SELECT name FROM booze")
    assert cursor.description is not None
    [column] = cursor.description
    assert len(column) == 7 and column[0] == "name" and column[1] == exuvia.STRING
    assert (cursor.rowcount, cursor.rownumber) == (2, 0)
    cursor.execute("CREATE TABLE IF NOT EXISTS booze (a INT)")
    assert (cursor.description, cursor.rowcount) == (None, 0)
    cursor.setinputsizes([25])
    cursor.setoutputsize(1000)
    cursor.setoutputsize(2000, 0)


def test_what_is_closed_refuses(connection: dbapi.EmbeddedConnection) -> None:
    cursor = filled(connection)
    cursor.close()
    cursor.close()
    with pytest.raises(exuvia.Error):
        cursor.execute("SELECT 1")
    other = connection.cursor()
    connection.close()
    for call in (connection.commit, connection.rollback, connection.cursor, connection.close):
        with pytest.raises(exuvia.Error):
            call()
    with pytest.raises(exuvia.Error):
        other.execute("SELECT 1")


def test_commit_release_closes_the_connection(connection: dbapi.EmbeddedConnection) -> None:
    connection.cursor().execute("INSERT INTO booze VALUES ('a')")
    connection.cursor().execute("COMMIT AND NO CHAIN RELEASE")
    assert connection.closed


def test_fetching(connection: dbapi.EmbeddedConnection) -> None:
    cursor = connection.cursor()
    for fetch in (cursor.fetchone, cursor.fetchmany, cursor.fetchall):
        with pytest.raises(exuvia.Error):
            fetch()  # before any query
    filled(connection)
    cursor.execute("INSERT INTO booze VALUES ('x')")
    with pytest.raises(exuvia.Error):
        cursor.fetchone()  # after what has no rows
    cursor.execute("DELETE FROM booze WHERE name = 'x'")
    expected = sorted((name,) for name in NAMES)
    cursor.execute("SELECT name FROM booze ORDER BY name")
    fetched = [cursor.fetchone(), *cursor.fetchmany(), *cursor.fetchmany(2)]
    assert cursor.rownumber == 4
    fetched += cursor.fetchmany(10)
    assert fetched == expected
    assert (cursor.fetchone(), cursor.fetchmany(3), cursor.fetchall()) == (None, [], [])
    cursor.arraysize = 4
    cursor.execute("SELECT name FROM booze ORDER BY name")
    assert cursor.fetchmany() == expected[:4]
    assert cursor.fetchall() == expected[4:]
    cursor.execute("SELECT name FROM booze ORDER BY name")
    assert list(cursor) == expected
    cursor.execute("SELECT name FROM booze WHERE name = ''")
    assert (cursor.rowcount, cursor.fetchone(), cursor.fetchall()) == (0, None, [])


def test_parameters(connection: dbapi.EmbeddedConnection) -> None:
    cursor = connection.cursor()
    hard = r"""\'" ? %s %% ; -- \0"""
    cursor.execute("INSERT INTO booze VALUES (%s)", (hard,))
    cursor.execute("INSERT INTO booze VALUES (%(beer)s)", {"beer": "x", "other": 1})
    cursor.execute("INSERT INTO booze VALUES ('50%')")
    cursor.execute("INSERT INTO booze VALUES (CONCAT('60%%', %s))", ["!"])
    cursor.execute("INSERT INTO booze VALUES ('70%%')", ())
    cursor.execute("SELECT name FROM booze ORDER BY name")
    assert sorted(cursor) == sorted([(hard,), ("x",), ("50%",), ("60%!",), ("70%",)])
    cursor.execute("SELECT COUNT(*) FROM booze WHERE name IN %s", [("x", "50%", "?")])
    assert cursor.fetchone() == (2,)
    cursor.execute("SELECT COUNT(*) FROM booze WHERE name IN %(some)s", {"some": ["x"]})
    assert cursor.fetchone() == (1,)
    cursor.execute("SELECT %s LIKE 'a?%%'", "a?c")  # one that is no list
    assert cursor.fetchone() == (1,)
    for operation, parameters in (
        ("SELECT %s", ()),
        ("SELECT %s", (1, 2)),
        ("SELECT %(a)s", {"b": 1}),
        ("SELECT %(a)s", (1,)),
        ("SELECT %s", {"a": 1}),
        ("SELECT 5 % 3, %s", (1,)),
        ("SELECT %s", (object(),)),
        ("SELECT 1 IN %s", ([],)),
        ("SELEKT %s", (1,)),
        ("SELECT ?, %s", (1,)),
    ):
        with pytest.raises(exuvia.Error) as refused:
            cursor.execute(operation, parameters)
        assert isinstance(refused.value, exuvia.ProgrammingError | exuvia.OperationalError)


def test_executemany_is_done_or_undone_as_one(
    url: str, connection: dbapi.EmbeddedConnection
) -> None:
    cursor = connection.cursor()
    cursor.execute("CREATE TABLE keyed (id INT PRIMARY KEY AUTO_INCREMENT, n INT UNIQUE)")
    assert cursor.executemany("INSERT INTO keyed (n) VALUES (%s)", [(n,) for n in range(9)]) == 9
    assert cursor.rowcount == 9
    connection.commit()
    connection.autocommit = True
    with pytest.raises(exuvia.IntegrityError):
        cursor.executemany("INSERT INTO keyed (n) VALUES (%(n)s)", [{"n": 20}, {"n": 3}])
    cursor.execute("SELECT MAX(n), COUNT(*) FROM keyed")
    assert cursor.fetchall() == [(8, 9)]
    cursor.executemany("INSERT INTO keyed (n) VALUES (%s)", [(20,), (21,)])
    with exuvia.connect(url, "shop") as other:
        reader = other.cursor()
        reader.execute("SELECT COUNT(*) FROM keyed")
        assert reader.fetchone() == (11,)
    cursor.execute("INSERT INTO keyed (n) VALUES (%s)", (30,))
    first = cursor.lastrowid
    cursor.execute("SELECT LAST_INSERT_ID()")
    assert cursor.fetchone() == (first,)
    assert cursor.executemany("INSERT INTO keyed (n) VALUES (%s)", []) == 0 or cursor.rowcount == 0
    with pytest.raises(exuvia.ProgrammingError):
        cursor.executemany("SELECT %s", [(1,)])
    cursor.execute("DROP TABLE keyed")


def test_several_statements_have_an_answer_each(connection: dbapi.EmbeddedConnection) -> None:
    cursor = connection.cursor()
    cursor.execute("SELECT ';'; INSERT INTO booze VALUES ('x'); SELECT 2, 3")
    assert cursor.fetchall() == [(";",)]
    assert cursor.nextset() is True and cursor.rowcount == 1
    assert cursor.nextset() is True and cursor.fetchall() == [(2, 3)]
    assert cursor.nextset() is None


def test_contexts(url: str, connection: dbapi.EmbeddedConnection) -> None:
    with exuvia.connect(url, "shop") as writer, writer.cursor() as cursor:
        cursor.execute("INSERT INTO booze VALUES ('kept')")
    with pytest.raises(ZeroDivisionError), exuvia.connect(url, "shop") as lost:
        lost.cursor().execute("INSERT INTO booze VALUES ('lost')")
        raise ZeroDivisionError
    assert writer.closed and lost.closed
    reader = connection.cursor()
    reader.execute("SELECT * FROM booze")
    assert reader.fetchall() == [("kept",)]


def test_errors_are_those_of_pymysql(connection: dbapi.EmbeddedConnection) -> None:
    cursor = connection.cursor()
    cursor.execute("CREATE TABLE one (id INT PRIMARY KEY, n INT NOT NULL)")
    cursor.execute("INSERT INTO one VALUES (1, 1)")
    for text, kind, code, state in (
        ("SELEKT", exuvia.ProgrammingError, 1064, "42000"),
        ("SELECT * FROM nowhere", exuvia.ProgrammingError, 1146, "42S02"),
        ("SELECT nothing FROM one", exuvia.OperationalError, 1054, "42S22"),
        ("INSERT INTO one VALUES (1, 2)", exuvia.IntegrityError, 1062, "23000"),
        ("INSERT INTO one VALUES (2, NULL)", exuvia.IntegrityError, 1048, "23000"),
        ("INSERT INTO one VALUES (2, 99999999999)", exuvia.DataError, 1264, "22003"),
        ("SAVEPOINT x; ROLLBACK TO y", exuvia.OperationalError, 1305, "42000"),
    ):
        with pytest.raises(exuvia.Error) as refused:
            cursor.execute(text)
        assert type(refused.value) is kind, text
        assert (refused.value.args[0], refused.value.sqlstate) == (code, state)
    cursor.execute("DROP TABLE one")
    for bad in ("lmdb://", "memory:", "nothing:///x"):
        with pytest.raises(exuvia.OperationalError):
            exuvia.connect(bad)


def test_constructors_and_types() -> None:
    assert exuvia.Date(2002, 12, 25) == datetime.date(2002, 12, 25)
    assert exuvia.Time(13, 45, 30) == datetime.time(13, 45, 30)
    assert exuvia.Timestamp(2002, 12, 25, 13, 45, 30) == datetime.datetime(2002, 12, 25, 13, 45, 30)
    assert exuvia.DateFromTicks(0) and exuvia.TimeFromTicks(0) and exuvia.TimestampFromTicks(0)
    assert exuvia.Binary(b"\0") == b"\0"
    for kind in (exuvia.STRING, exuvia.BINARY, exuvia.NUMBER, exuvia.DATETIME, exuvia.ROWID):
        assert kind is not None


def test_threads_share_the_module(url: str, connection: dbapi.EmbeddedConnection) -> None:
    results: list[Any] = []

    def work(n: int) -> None:
        with exuvia.connect(url, "shop") as own:
            own.cursor().execute("INSERT INTO booze VALUES (%s)", (str(n),))
        results.append(n)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    cursor = connection.cursor()
    cursor.execute("SELECT COUNT(*) FROM booze")
    assert (len(results), cursor.fetchone()) == (8, (8,))


# -- compared with the wire ------------------------------------------------------------------------

TYPES = """
    i INT, u BIGINT UNSIGNED, z INT(5) ZEROFILL, y YEAR, b BIT(10), d DECIMAL(12, 4), f FLOAT,
    g DOUBLE, h FLOAT(7, 2), c CHAR(5), v VARCHAR(50), t TEXT, bi BINARY(4), vb VARBINARY(9),
    bl BLOB, e ENUM('a', 'b'), s SET('a', 'b', 'c'), j JSON, da DATE, dt DATETIME, dm DATETIME(6),
    ts TIMESTAMP(3) NULL, ti TIME, tm TIME(6)
"""
VALUES = (
    *(-5, 2**64 - 1, 7, 2024, 513, decimal.Decimal("12345678.1234"), 0.1, 1e200, 3.5, "ab"),
    *("größe", "x" * 1000, b"abcd", b"\0\xff", b"l'\\", "b", "a,c", '{"a": [1, null]}'),
    *(datetime.date(2024, 2, 29), datetime.datetime(2024, 2, 29, 1, 2, 3)),
    *(datetime.datetime(2024, 2, 29, 1, 2, 3, 123456), datetime.datetime(2024, 1, 1, 0, 0, 0)),
    *(datetime.timedelta(hours=-30, seconds=1), datetime.timedelta(microseconds=5)),
)
QUERIES = (
    "SELECT * FROM kinds",
    "SELECT COUNT(*), SUM(i), AVG(d), MAX(dm), MIN(ti), GROUP_CONCAT(v), "
    "MAX(JSON_EXTRACT(j, '$.a[0]')) FROM kinds",
    "SELECT 1, -1.50, 'x', NULL, TRUE, 1e3, x'00ff', DATE'2024-01-02', TIME'10:11:12.5', NOW() > 0",
    "SELECT CAST('0000-00-00' AS DATE), 18446744073709551615, 1 / 3, 5 DIV 2, i + u FROM kinds",
    "SHOW TABLES",
    "SHOW COLUMNS FROM kinds",
    "SHOW VARIABLES LIKE 'autocommit'",
    "SELECT * FROM information_schema.tables WHERE table_name = 'kinds'",
)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, Any]]:
    """Two clients of one store: embedded on the host of a node, and PyMySQL over the wire."""
    with running_nodes(tmp_path_factory.mktemp("both")) as [node]:
        yield from _both(node)


def _both(node: NodeProcess) -> Iterator[tuple[Any, Any]]:
    with node.connect(autocommit=True) as wire, wire.cursor() as cursor:
        cursor.execute("CREATE DATABASE shop")
        cursor.execute("USE shop")
        cursor.execute(f"CREATE TABLE kinds ({TYPES})")
        with exuvia.connect(node.store, "shop", autocommit=True) as own:
            yield own, wire


def test_values_and_descriptions_are_as_over_the_wire(both: tuple[Any, Any]) -> None:
    own, wire = both[0].cursor(), both[1].cursor()
    marks = ", ".join(["%s"] * len(VALUES))
    for cursor in (own, wire):  # bound here, pasted there
        cursor.execute(f"INSERT INTO kinds VALUES ({marks})", VALUES)
    own.execute("SELECT * FROM kinds")
    first, second = own.fetchall()
    assert first == second
    for query in QUERIES:
        own.execute(query)
        wire.execute(query)
        assert own.fetchall() == list(wire.fetchall()), query
        embedded_columns, wire_columns = own.description, wire.description
        for one, other in zip(embedded_columns, wire_columns, strict=True):
            assert one == other, query
        assert own.rowcount == wire.rowcount
