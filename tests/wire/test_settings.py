"""System variables about connections: each test sets one and observes its effect."""

from collections.abc import Iterator

import pymysql
import pytest
from pymysql.constants import CLIENT

from exuvia.cli.client import NodeAddress, NodeClient
from support.node_processes import NodeProcess, until


@pytest.fixture
def root(node: NodeProcess) -> Iterator[pymysql.Connection]:
    """A client with all privileges; also creates an account without administrative ones."""
    with node.connect("test", autocommit=True) as client:
        run(client, "CREATE USER IF NOT EXISTS plain", "GRANT ALL ON test.* TO plain")
        yield client


def run(connection: pymysql.Connection, *texts: str) -> list[tuple[object, ...]]:
    with connection.cursor() as cursor:
        for text in texts:
            cursor.execute(text)
        return list(cursor.fetchall())


def entered(node: NodeProcess) -> pymysql.Connection:
    return pymysql.connect(
        host="127.0.0.1", port=node.port, user="plain", database="test", autocommit=True
    )


def code(connection: pymysql.Connection, text: str) -> int:
    with pytest.raises(pymysql.MySQLError) as caught:
        run(connection, text)
    return int(caught.value.args[0])


def test_init_connect(node: NodeProcess, root: pymysql.Connection) -> None:
    """It runs before the first command, except for administrators.

    If it fails, the first command is refused and the connection ends."""
    try:
        run(root, "SET GLOBAL init_connect = 'SET @greeting = 7; SET time_zone = \"+05:00\"'")
        with entered(node) as plain:
            assert run(plain, "SELECT @greeting, @@time_zone") == [(7, "+05:00")]
        with node.connect("test") as another:
            assert run(another, "SELECT @greeting, @@time_zone") == [(None, "SYSTEM")]
        run(root, "SET GLOBAL init_connect = 'SELECT * FROM nowhere'")
        with pytest.raises(pymysql.MySQLError) as caught:
            entered(node)  # PyMySQL's first command is SET NAMES
        assert caught.value.args[0] == 1184
        with node.connect("test") as another:
            assert run(another, "SELECT 1") == [(1,)]
    finally:
        run(root, "SET GLOBAL init_connect = DEFAULT")


def test_max_user_connections(node: NodeProcess, root: pymysql.Connection) -> None:
    try:
        run(root, "SET GLOBAL max_user_connections = 2")
        with entered(node), entered(node):
            with pytest.raises(pymysql.MySQLError) as caught:
                entered(node)
            assert caught.value.args[0] == 1203
            run(root, "SELECT 1")
        until(
            lambda: (
                not run(root, "SELECT * FROM information_schema.processlist WHERE user = 'plain'")
            )
        )
        with entered(node) as plain:
            assert run(plain, "SELECT 1") == [(1,)]
    finally:
        run(root, "SET GLOBAL max_user_connections = DEFAULT")


def test_max_connections(node: NodeProcess, root: pymysql.Connection) -> None:
    def is_full() -> bool:
        try:
            entered(node).close()
        except pymysql.MySQLError as error:
            assert error.args[0] == 1040
            return True
        return False

    try:
        run(root, "SET GLOBAL max_connections = 1")
        until(is_full)
        run(root, "SET GLOBAL max_connections = DEFAULT")
        until(lambda: not is_full())
    finally:
        run(root, "SET GLOBAL max_connections = DEFAULT")


@pytest.mark.parametrize("text", ["COMMIT RELEASE", "ROLLBACK RELEASE", "COMMIT"])
def test_completion_type(node: NodeProcess, root: pymysql.Connection, text: str) -> None:
    """RELEASE is answered, and then the connection is closed."""
    with entered(node) as plain:
        if text == "COMMIT":
            run(plain, "SET completion_type = 2")
        run(plain, text)
        assert code(plain, "SELECT 1") in (0, 2006, 2013)


def test_interactive_timeout(node: NodeProcess, root: pymysql.Connection) -> None:
    """It is the wait_timeout of a client that declares itself interactive."""
    run(root, "SET GLOBAL interactive_timeout = 77")
    try:
        with pymysql.connect(
            host="127.0.0.1", port=node.port, user="plain", client_flag=CLIENT.INTERACTIVE
        ) as client:
            assert run(client, "SELECT @@wait_timeout") == [(77,)]
        with entered(node) as plain:
            assert run(plain, "SELECT @@wait_timeout") != [(77,)]
    finally:
        run(root, "SET GLOBAL interactive_timeout = DEFAULT")


def test_tidb_idle_transaction_timeout(node: NodeProcess, root: pymysql.Connection) -> None:
    """A silent client is disconnected within a transaction."""
    run(root, "CREATE TABLE IF NOT EXISTS idle (a INT)", "INSERT INTO idle VALUES (1)")
    with entered(node) as silent, entered(node) as patient:
        for client in (silent, patient):
            run(client, "SET tidb_idle_transaction_timeout = 1")
        run(silent, "BEGIN", "SELECT * FROM idle")
        listed = f"SELECT 1 FROM information_schema.processlist WHERE ID = {silent.thread_id()}"
        until(lambda: not run(root, listed))
        assert code(silent, "SELECT 1") in (4031, 2006, 2013)
        assert run(patient, "SELECT 1") == [(1,)]  # it is in no transaction


def test_commands_list_all_rows_despite_limits_of_sessions(
    node: NodeProcess, root: pymysql.Connection
) -> None:
    run(root, "SET GLOBAL sql_select_limit = 1")
    try:
        client = NodeClient(NodeAddress("127.0.0.1", node.port, "root", ""))
        assert len(client.ask("SELECT * FROM information_schema.schemata").rows) > 1
        client.close()
    finally:
        run(root, "SET GLOBAL sql_select_limit = DEFAULT")
