"""Roles, privileges of columns and dynamic ones, over real sockets, on two nodes."""

from collections.abc import Iterator

import pymysql
import pytest

from support.node_processes import NodeProcess, until


@pytest.fixture(scope="module")
def nodes(pair: list[NodeProcess]) -> Iterator[list[NodeProcess]]:
    with pair[0].connect(autocommit=True) as root:
        root.query("CREATE DATABASE shop")
        root.query("CREATE TABLE shop.t (id INT PRIMARY KEY, a INT, secret INT, KEY (secret))")
        root.query("CREATE TABLE shop.u (id INT PRIMARY KEY, b INT)")
        root.query("CREATE VIEW shop.v AS SELECT secret FROM shop.t")
        root.query("INSERT INTO shop.t VALUES (1, 10, 7), (2, 20, 8)")
        root.query("INSERT INTO shop.u VALUES (1, 5)")
    yield pair
    with pair[0].connect(autocommit=True) as root:
        root.query("DROP DATABASE shop")


@pytest.fixture
def root(nodes: list[NodeProcess]) -> Iterator[pymysql.Connection]:
    """A client of root; removes the objects of a test."""
    with nodes[0].connect(autocommit=True) as client:
        yield client
        for name in ("ann", "bob", "reader", "writer", "whole"):
            client.query(f"DROP USER IF EXISTS {name}")
        client.query("SET GLOBAL mandatory_roles = ''")
        client.query("SET GLOBAL activate_all_roles_on_login = OFF")


def entered(node: NodeProcess, user: str) -> pymysql.Connection:
    return pymysql.connect(host="127.0.0.1", port=node.port, user=user, autocommit=True)


def run(connection: pymysql.Connection, *texts: str) -> list[tuple[object, ...]]:
    with connection.cursor() as cursor:
        for text in texts:
            cursor.execute(text)
        return list(cursor.fetchall())


def code(connection: pymysql.Connection, text: str) -> tuple[int, str]:
    with pytest.raises(pymysql.MySQLError) as caught:
        run(connection, text)
    return caught.value.args


def first_column(connection: pymysql.Connection, text: str) -> list[object]:
    return [row[0] for row in run(connection, text)]


def test_a_role_gives_what_it_has_while_it_is_active(
    nodes: list[NodeProcess], root: pymysql.Connection
) -> None:
    run(root, "CREATE ROLE reader, 'writer'@'%'", "CREATE USER ann")
    run(root, "GRANT SELECT ON shop.* TO reader", "GRANT INSERT ON shop.t TO writer")
    run(root, "GRANT reader, writer TO ann")
    until(lambda: 1 == len(run(nodes[1].connect(), "SELECT 1 FROM mysql.user WHERE User = 'ann'")))
    with entered(nodes[1], "ann") as ann:
        assert first_column(ann, "SELECT CURRENT_ROLE()") == ["NONE"]
        assert code(ann, "SELECT a FROM shop.t")[0] == 1142
        run(ann, "SET ROLE reader")
        assert first_column(ann, "SELECT CURRENT_ROLE()") == ["`reader`@`%`"]
        assert first_column(ann, "SELECT a FROM shop.t WHERE id = 1") == [10]
        assert code(ann, "INSERT INTO shop.t VALUES (3, 3, 3)")[0] == 1142
        run(ann, "SET ROLE ALL")
        assert first_column(ann, "SELECT CURRENT_ROLE()") == ["`reader`@`%`,`writer`@`%`"]
        run(ann, "INSERT INTO shop.t VALUES (3, 3, 3)")
        run(ann, "SET ROLE ALL EXCEPT reader")
        assert code(ann, "SELECT a FROM shop.t")[0] == 1142
        run(ann, "SET ROLE NONE")
        assert code(ann, "SELECT a FROM shop.t")[0] == 1142
        message = "`root`@`%` is not granted to ann@%"
        assert code(ann, "SET ROLE root") == (3530, message)
        run(ann, "SET ROLE reader")
        run(root, "REVOKE reader FROM ann")
        until(lambda: first_column(ann, "SELECT CURRENT_ROLE()") == ["NONE"])
        assert code(ann, "SELECT a FROM shop.t")[0] == 1142
    run(root, "DELETE FROM shop.t WHERE id = 3")


def test_default_and_mandatory_roles_are_active_from_the_login_on(
    nodes: list[NodeProcess], root: pymysql.Connection
) -> None:
    run(root, "CREATE ROLE reader, writer", "CREATE USER ann", "GRANT reader, writer TO ann")
    run(root, "SET DEFAULT ROLE reader TO ann")
    rows = "SELECT USER, DEFAULT_ROLE_USER FROM mysql.default_roles"
    assert run(root, rows) == [("ann", "reader")]
    with entered(nodes[0], "ann") as ann:
        assert first_column(ann, "SELECT CURRENT_ROLE()") == ["`reader`@`%`"]
        run(ann, "SET DEFAULT ROLE ALL TO ann", "SET ROLE DEFAULT")
        assert first_column(ann, "SELECT CURRENT_ROLE()") == ["`reader`@`%`,`writer`@`%`"]
        run(ann, "SET DEFAULT ROLE NONE TO ann")
        assert code(ann, "SET DEFAULT ROLE root TO ann") == (
            3530,
            "`root`@`%` is not granted to ann@%",
        )
    assert run(root, rows) == []
    run(root, "SET GLOBAL activate_all_roles_on_login = ON")
    with entered(nodes[0], "ann") as ann:
        assert first_column(ann, "SELECT CURRENT_ROLE()") == ["`reader`@`%`,`writer`@`%`"]
    run(root, "CREATE ROLE whole", "GRANT SELECT ON shop.u TO whole")
    run(root, "SET GLOBAL mandatory_roles = '`whole`@`%`'", "CREATE USER bob")

    def everybody_has_it() -> bool:
        with entered(nodes[0], "bob") as bob:
            return first_column(bob, "SELECT CURRENT_ROLE()") == ["`whole`@`%`"]

    until(everybody_has_it)


def test_roles_of_roles_and_what_goes_with_a_role(
    nodes: list[NodeProcess], root: pymysql.Connection
) -> None:
    run(root, "CREATE ROLE reader, whole", "CREATE USER ann")
    run(root, "GRANT SELECT ON shop.u TO reader", "GRANT reader TO whole", "GRANT whole TO ann")
    run(root, "GRANT whole TO reader")  # a cycle does no harm
    edges = "SELECT FROM_USER, TO_USER, WITH_ADMIN_OPTION FROM mysql.role_edges ORDER BY 1, 2"
    assert run(root, edges) == [
        ("reader", "whole", "N"), ("whole", "ann", "N"), ("whole", "reader", "N"),
    ]  # fmt: skip
    run(root, "SET DEFAULT ROLE whole TO ann")
    with entered(nodes[0], "ann") as ann:
        assert first_column(ann, "SELECT b FROM shop.u") == [5]
        run(root, "RENAME USER whole TO writer")
        run(ann, "SET ROLE DEFAULT")
        assert first_column(ann, "SELECT CURRENT_ROLE()") == ["`writer`@`%`"]
        assert first_column(ann, "SELECT b FROM shop.u") == [5]
        run(root, "DROP ROLE writer")
        assert code(ann, "SELECT b FROM shop.u")[0] == 1142
    assert run(root, edges) == []
    assert run(root, "SELECT * FROM mysql.default_roles") == []
    with pytest.raises(pymysql.err.OperationalError) as caught:
        entered(nodes[0], "reader")  # a role is locked
    assert caught.value.args[0] == 3118


def test_errors_of_roles(nodes: list[NodeProcess], root: pymysql.Connection) -> None:
    run(root, "CREATE ROLE reader", "CREATE USER ann", "CREATE USER bob")
    assert code(root, "CREATE ROLE reader") == (
        1396,
        "Operation CREATE ROLE failed for 'reader'@'%'",
    )
    run(root, "CREATE ROLE IF NOT EXISTS reader", "DROP ROLE IF EXISTS nobody")
    assert code(root, "DROP ROLE nobody") == (1396, "Operation DROP ROLE failed for 'nobody'@'%'")
    assert code(root, "GRANT nobody TO ann") == (3523, "Unknown authorization ID `nobody`@`%`")
    assert code(root, "GRANT reader TO nobody") == (
        1396,
        "Operation GRANT ROLE failed for nobody@%",
    )
    assert code(root, "REVOKE nobody FROM ann")[0] == 1396
    with entered(nodes[0], "ann") as ann:
        assert code(ann, "CREATE ROLE other")[0] == 1227
        assert code(ann, "GRANT reader TO ann")[0] == 1227
        run(root, "GRANT reader TO ann WITH ADMIN OPTION")
        run(ann, "GRANT reader TO bob")
        run(ann, "REVOKE reader FROM bob")
        run(root, "GRANT ROLE_ADMIN ON *.* TO bob")
    with entered(nodes[0], "bob") as bob:
        run(bob, "GRANT reader TO bob")


def test_show_grants_with_and_without_roles(
    nodes: list[NodeProcess], root: pymysql.Connection
) -> None:
    run(root, "CREATE ROLE reader, writer", "CREATE USER ann")
    run(
        root,
        "GRANT SELECT ON shop.* TO reader",
        "GRANT INSERT (a, id), SELECT (a) ON shop.t TO ann",
    )
    run(root, "GRANT ROLE_ADMIN, CONNECTION_ADMIN ON *.* TO ann", "GRANT reader TO ann")
    alone = [
        "GRANT USAGE ON *.* TO 'ann'@'%'",
        "GRANT SELECT(a), INSERT(a, id) ON `shop`.`t` TO 'ann'@'%'",
        "GRANT 'reader'@'%' TO 'ann'@'%'",
        "GRANT CONNECTION_ADMIN,ROLE_ADMIN ON *.* TO 'ann'@'%'",
    ]
    assert first_column(root, "SHOW GRANTS FOR ann") == alone
    using = [alone[0], "GRANT SELECT ON `shop`.* TO 'ann'@'%'", *alone[1:]]
    assert first_column(root, "SHOW GRANTS FOR ann USING reader") == using
    assert code(root, "SHOW GRANTS FOR ann USING writer")[0] == 3530
    with entered(nodes[0], "ann") as ann:
        assert first_column(ann, "SHOW GRANTS") == alone
        run(ann, "SET ROLE reader")
        assert first_column(ann, "SHOW GRANTS") == using
    assert len(run(root, "SHOW PRIVILEGES")) > 40


def test_privileges_of_columns(nodes: list[NodeProcess], root: pymysql.Connection) -> None:
    run(root, "CREATE USER ann")
    run(root, "GRANT SELECT (id, a), INSERT (id, a), UPDATE (a) ON shop.t TO ann")
    assert run(root, "SELECT Column_name, Column_priv FROM mysql.columns_priv ORDER BY 1") == [
        ("a", "Select,Insert,Update"), ("id", "Select,Insert"),
    ]  # fmt: skip
    denied = "command denied to user 'ann'@'%' for column 'secret' in table 't'"
    reads = (
        "SELECT secret FROM shop.t",
        "SELECT * FROM shop.t",
        "SELECT t.* FROM shop.t WHERE id = 1",
        "SELECT secret FROM shop.t WHERE id = 1",
        "SELECT id FROM shop.t WHERE secret = 7",
        "SELECT id FROM shop.t ORDER BY secret",
        "SELECT id FROM shop.t WHERE id IN (SELECT secret FROM shop.t)",
        "SELECT x.a FROM shop.t x JOIN shop.t y ON x.id = y.secret",
        "SELECT a, COUNT(secret) FROM shop.t GROUP BY a",
        "SELECT SUM(secret) FROM shop.t",
        "UPDATE shop.t SET a = secret",
        "UPDATE shop.t SET a = 1 WHERE secret = 7",
        "INSERT INTO shop.t (id, a) SELECT secret, secret FROM shop.t",
    )
    with entered(nodes[0], "ann") as ann:
        assert run(ann, "SELECT id, a FROM shop.t WHERE id = 1") == [(1, 10)]
        assert run(ann, "SELECT COUNT(*), MAX(a) FROM shop.t WHERE a > 5") == [(2, 20)]
        assert run(ann, "SELECT x.a FROM shop.t x JOIN shop.t y USING (id) WHERE y.a = 20") == [
            (20,)
        ]
        for text in reads:
            assert code(ann, text) == (1143, f"SELECT {denied}"), text
        assert code(ann, "UPDATE shop.t SET secret = 1") == (1143, f"UPDATE {denied}")
        assert code(ann, "INSERT INTO shop.t VALUES (9, 9, 9)") == (1143, f"INSERT {denied}")
        assert code(ann, "REPLACE INTO shop.t (id, a) VALUES (9, 9)")[0] == 1142
        assert code(ann, "DELETE FROM shop.t")[0] == 1142
        assert code(ann, "SELECT b FROM shop.u")[0] == 1142
        run(
            ann, "INSERT INTO shop.t (id, a) VALUES (9, 9)", "UPDATE shop.t SET a = 90 WHERE id = 9"
        )
        with ann.cursor() as cursor:
            for _ in range(3):
                cursor.execute("SELECT a FROM shop.t WHERE id = %s", (9,))
                assert cursor.fetchall() == ((90,),)
    run(root, "SELECT secret FROM shop.t WHERE id = 1")
    with entered(nodes[0], "ann") as ann:  # not by a plan that root made either
        assert code(ann, "SELECT secret FROM shop.t WHERE id = 1")[0] == 1143
    run(root, "REVOKE SELECT (a) ON shop.t FROM ann", "DELETE FROM shop.t WHERE id = 9")
    with entered(nodes[0], "ann") as ann:
        assert code(ann, "SELECT a FROM shop.t")[0] == 1143
    assert code(root, "GRANT SELECT (nothing) ON shop.t TO ann")[0] == 1054
    assert code(root, "GRANT DELETE (a) ON shop.t TO ann")[0] == 1221
    run(root, "GRANT SELECT ON shop.t TO ann")
    with entered(nodes[0], "ann") as ann:
        assert len(run(ann, "SELECT * FROM shop.t")) == 2


def test_a_role_brings_privileges_of_columns_and_a_view_hides_its_tables(
    nodes: list[NodeProcess], root: pymysql.Connection
) -> None:
    run(root, "CREATE ROLE reader", "CREATE USER ann", "GRANT reader TO ann")
    run(root, "GRANT SELECT (id) ON shop.t TO reader", "GRANT SELECT ON shop.v TO reader")
    with entered(nodes[0], "ann") as ann:
        assert code(ann, "SELECT id FROM shop.t")[0] == 1142
        run(ann, "SET ROLE reader")
        assert first_column(ann, "SELECT id FROM shop.t ORDER BY id") == [1, 2]
        assert code(ann, "SELECT a FROM shop.t")[0] == 1143
        assert first_column(ann, "SELECT secret FROM shop.v ORDER BY 1") == [7, 8]


def test_dynamic_privileges(nodes: list[NodeProcess], root: pymysql.Connection) -> None:
    run(root, "CREATE USER ann", "CREATE USER bob")
    assert code(root, "GRANT NO_SUCH_ADMIN ON *.* TO ann") == (
        3929,
        "Dynamic privilege 'NO_SUCH_ADMIN' is not registered with the server.",
    )
    assert code(root, "GRANT ROLE_ADMIN ON shop.* TO ann") == (
        3619,
        "Illegal privilege level specified for ROLE_ADMIN",
    )
    with entered(nodes[0], "ann") as ann, entered(nodes[1], "bob") as bob:
        assert code(ann, "SET GLOBAL tidb_ddl_reorg_worker_cnt = 4")[0] == 1227
        run(root, "GRANT SYSTEM_VARIABLES_ADMIN, CONNECTION_ADMIN ON *.* TO ann")
        assert run(root, "SELECT PRIV FROM mysql.global_grants ORDER BY PRIV") == [
            ("CONNECTION_ADMIN",), ("SYSTEM_VARIABLES_ADMIN",),
        ]  # fmt: skip
        run(ann, "SET GLOBAL tidb_ddl_reorg_worker_cnt = 4")
        run(ann, f"KILL {bob.thread_id()}")
        run(root, "REVOKE SYSTEM_VARIABLES_ADMIN ON *.* FROM ann")
        assert code(ann, "SET GLOBAL tidb_ddl_reorg_worker_cnt = 4")[0] == 1227
    run(root, "DROP USER ann")
    assert run(root, "SELECT PRIV FROM mysql.global_grants") == []


def test_a_view_reads_with_the_privileges_of_its_definer(
    nodes: list[NodeProcess], root: pymysql.Connection
) -> None:
    run(root, "CREATE USER ann", "CREATE USER bob")
    run(root, "GRANT SELECT, CREATE VIEW ON shop.* TO ann")
    definition = "VIEW shop.x AS SELECT secret FROM shop.t"
    with entered(nodes[0], "ann") as ann, entered(nodes[0], "bob") as bob:
        needed = "Access denied; you need (at least one of) the SUPER or SET_USER_ID privilege(s)"
        refused, message = code(ann, f"CREATE DEFINER=root {definition}")
        assert refused == 1227 and message.startswith(needed)
        run(ann, f"CREATE {definition}")
        run(root, "GRANT SELECT ON shop.x TO bob")
        read = "SELECT secret FROM shop.x ORDER BY 1"
        assert first_column(ann, read) == first_column(bob, read) == [7, 8]
        run(root, "REVOKE SELECT ON shop.* FROM ann", "GRANT SELECT ON shop.x TO ann")
        assert [code(client, read)[0] for client in (ann, bob)] == [1356, 1356]
        run(root, "GRANT SELECT (secret) ON shop.t TO ann")
        assert first_column(bob, read) == [7, 8]
        run(root, "DROP USER ann")
        assert code(bob, read) == (
            1449,
            "The user specified as a definer ('ann'@'%') does not exist",
        )
        assert first_column(root, read) == [7, 8]
        run(root, "GRANT CREATE VIEW, DROP ON shop.* TO bob", "GRANT SET_USER_ID ON *.* TO bob")
        run(bob, "CREATE OR REPLACE DEFINER=root VIEW shop.x AS SELECT 9 AS secret")
        assert first_column(bob, read) == [9]
    run(root, "DROP VIEW shop.x")
