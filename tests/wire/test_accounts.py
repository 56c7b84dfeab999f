"""Accounts over the wire: who is let in, by which proof, and what they may do on every node."""

import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import mysql.connector
import pymysql
import pytest

from support.node_processes import NodeProcess, running_nodes


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[NodeProcess]]:
    folder: Path = tmp_path_factory.mktemp("accounts")
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    command += ["-subj", "/CN=localhost", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    options = ("--ssl-cert", str(certificate), "--ssl-key", str(key))
    with running_nodes(folder, 2, options=options) as found:
        with found[0].connect() as root:
            root.query("CREATE DATABASE shop")
            root.query("CREATE TABLE shop.t (id INT PRIMARY KEY, a INT)")
            root.query("CREATE TABLE shop.hidden (id INT)")
            root.query("CREATE VIEW shop.v AS SELECT id FROM shop.hidden")
            root.query("INSERT INTO shop.t VALUES (1, 10)")
            root.commit()
        yield found


def connected(
    node: NodeProcess, user: str, password: str = "", **more: object
) -> pymysql.Connection:
    return pymysql.connect(
        host="127.0.0.1", port=node.port, user=user, password=password, autocommit=True, **more
    )  # type: ignore[call-overload, no-any-return]


def code(connection: pymysql.Connection, text: str) -> tuple[int, str]:
    with pytest.raises(pymysql.MySQLError) as caught:
        connection.cursor().execute(text)
    return caught.value.args


def rows(connection: pymysql.Connection, text: str) -> list[list[object]]:
    with connection.cursor() as cursor:
        cursor.execute(text)
        return [list(row) for row in cursor.fetchall()]


def test_only_who_knows_the_password_is_let_in(nodes: list[NodeProcess]) -> None:
    with nodes[0].connect() as root:
        root.query("CREATE USER ann IDENTIFIED BY 'sesame'")
        for user, password, using in (
            ("ann", "wrong", "YES"), ("ann", "", "NO"), ("root", "x", "YES"), ("nobody", "", "NO"),
        ):  # fmt: skip
            with pytest.raises(pymysql.err.OperationalError) as caught:
                connected(nodes[0], user, password)
            said = f"Access denied for user '{user}'@'127.0.0.1' (using password: {using})"
            assert caught.value.args == (1045, said)
        for node in nodes:
            with connected(node, "ann", "sesame") as ann:
                assert rows(ann, "SELECT CURRENT_USER()") == [["ann@%"]]
        root.query("ALTER USER ann ACCOUNT LOCK")
        with pytest.raises(pymysql.err.OperationalError) as caught:
            connected(nodes[0], "ann", "sesame")
        assert caught.value.args[0] == 3118
        root.query("DROP USER ann")


def test_caching_sha2_says_the_password_once_and_encrypted(nodes: list[NodeProcess]) -> None:
    node = nodes[0]
    unverified = ssl.create_default_context()
    unverified.check_hostname, unverified.verify_mode = False, ssl.CERT_NONE
    encrypted = {"ssl": unverified}
    with node.connect() as root:
        root.query("CREATE USER sha IDENTIFIED WITH caching_sha2_password BY 'sesame'")
        with pytest.raises(mysql.connector.Error):
            mysql.connector.connect(
                host="127.0.0.1", port=node.port, user="sha", password="sesame", use_pure=True,
                ssl_disabled=True,
            )  # fmt: skip
        with pytest.raises(pymysql.err.OperationalError):
            connected(node, "sha", "wrong", **encrypted)
        with connected(node, "sha", "sesame", **encrypted) as sha:
            assert rows(sha, "SELECT REPEAT('x', 100000)") == [["x" * 100_000]]
        with connected(node, "sha", "sesame") as sha:  # it is known now: the proof is enough
            assert rows(sha, "SELECT 1") == [[1]]
        with mysql.connector.connect(
            host="127.0.0.1", port=node.port, user="sha", password="sesame", use_pure=True
        ) as sha:
            assert sha.is_connected()
        root.query("DROP USER sha")


def test_an_account_may_have_to_encrypt(nodes: list[NodeProcess]) -> None:
    unverified = ssl.create_default_context()
    unverified.check_hostname, unverified.verify_mode = False, ssl.CERT_NONE
    with nodes[0].connect() as root:
        root.query("CREATE USER veiled IDENTIFIED BY 'sesame' REQUIRE SSL")
        with pytest.raises(pymysql.err.OperationalError) as caught:
            connected(nodes[0], "veiled", "sesame", ssl_disabled=True)
        assert caught.value.args[0] == 1045
        with connected(nodes[0], "veiled", "sesame", ssl=unverified) as veiled:
            assert rows(veiled, "SELECT CURRENT_USER()") == [["veiled@%"]]
        root.query("DROP USER veiled")


def test_the_mysql_client_over_tls(nodes: list[NodeProcess]) -> None:
    command = ["mysql", "-h", "127.0.0.1", "-P", str(nodes[0].port), "-u", "root", "--compress"]
    command += ["--ssl", "--ssl-verify-server-cert=0", "-N", "-e", "SELECT 1 + 1"]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == "2\n"


def test_statements_need_their_privileges(nodes: list[NodeProcess]) -> None:
    with nodes[0].connect() as root:
        root.query("CREATE USER bob")
        with connected(nodes[0], "bob") as bob:
            assert rows(bob, "SHOW DATABASES") == [["information_schema"]]
            assert code(bob, "USE shop") == (
                1044, "Access denied for user 'bob'@'%' to database 'shop'",
            )  # fmt: skip
            assert code(bob, "SELECT * FROM shop.t") == (
                1142, "SELECT command denied to user 'bob'@'%' for table 't'",
            )  # fmt: skip
            assert code(bob, "CREATE USER x")[0] == 1227
            assert code(bob, "SET GLOBAL tidb_ddl_reorg_worker_cnt = 1")[0] == 1227
            assert code(bob, "ADMIN SHOW DDL JOBS")[0] == 1227
            assert code(bob, "CREATE DATABASE mine")[0] == 1044
            assert code(bob, "SELECT * FROM mysql.user")[0] == 1142
            root.query("GRANT SELECT ON shop.t TO bob")
            assert rows(bob, "SELECT a FROM shop.t WHERE id = 1") == [[10]]
            assert rows(bob, "SHOW TABLES IN shop") == [["t"]]
            jobs = "SELECT DISTINCT table_name FROM information_schema.ddl_jobs"
            assert rows(bob, jobs) == [["t"]]
            own = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'shop'"
            assert rows(bob, own) == [["t"]]
            known = "SELECT DISTINCT table_schema FROM information_schema.tables ORDER BY 1"
            assert rows(bob, known) == [["information_schema"], ["shop"]]
            for text in (
                "INSERT INTO shop.t VALUES (2, 2)", "UPDATE shop.t SET a = 1", "DELETE FROM shop.t",
                "REPLACE INTO shop.t VALUES (1, 1)", "ALTER TABLE shop.t ADD c INT",
                "CREATE INDEX i ON shop.t (a)", "DROP TABLE shop.t", "TRUNCATE TABLE shop.t",
                "SELECT * FROM shop.t WHERE id IN (SELECT id FROM shop.hidden)",
                "WITH hidden AS (SELECT 1) SELECT * FROM shop.hidden", "SELECT * FROM shop.v",
                "CREATE VIEW shop.w AS SELECT 1", "EXPLAIN SELECT * FROM shop.hidden",
                "UPDATE shop.t, shop.hidden SET shop.t.a = 1", "DESCRIBE shop.hidden",
                "INSERT INTO shop.t SELECT * FROM shop.t", "SHOW CREATE TABLE shop.hidden",
                "GRANT SELECT ON shop.t TO bob", "RENAME TABLE shop.t TO shop.u",
            ):  # fmt: skip
                assert code(bob, text)[0] == 1142, text
            root.query("GRANT SELECT ON shop.v TO bob")
            assert rows(bob, "SELECT * FROM shop.v") == []  # its tables are the definer's affair
            root.query("GRANT ALL ON shop.* TO bob")
            bob.query("INSERT INTO shop.t VALUES (2, 20)")
            bob.query("CREATE TABLE shop.own (id INT)")
            root.query("REVOKE ALL ON shop.* FROM bob")
            assert code(bob, "SELECT * FROM shop.own")[0] == 1142
            root.query("DROP USER bob")
            assert code(bob, "SELECT a FROM shop.t WHERE id = 1")[0] == 1142


def test_a_kept_plan_is_shared_and_rights_are_not(nodes: list[NodeProcess]) -> None:
    text = "SELECT a FROM shop.t WHERE id = 1"
    with nodes[0].connect() as root, nodes[0].connect() as other:
        root.query("CREATE USER carl")
        assert rows(root, text) == [[10]]
        with connected(nodes[0], "carl") as carl:
            assert code(carl, text)[0] == 1142
            assert rows(other, text) == [[10]]
        root.query("DROP USER carl")


def test_change_user_proves_itself_too(nodes: list[NodeProcess]) -> None:
    with nodes[0].connect() as root:
        root.query("CREATE USER dora IDENTIFIED BY 'one'")
        with mysql.connector.connect(
            host="127.0.0.1", port=nodes[0].port, user="root", use_pure=True, ssl_disabled=True
        ) as client:
            client.cmd_change_user("dora", "one")
            cursor = client.cursor()
            cursor.execute("SELECT CURRENT_USER()")
            assert cursor.fetchall() == [("dora@%",)]
            with pytest.raises(mysql.connector.Error) as caught:
                client.cmd_change_user("root", "nonsense")
            assert caught.value.errno == 1045
        root.query("DROP USER dora")


def test_accounts_are_in_a_resource_group_and_their_sessions_begin_there(
    nodes: list[NodeProcess],
) -> None:
    with connected(nodes[0], "root") as root:
        for text in (
            "CREATE RESOURCE GROUP Gold RU_PER_SEC = 100",
            "CREATE RESOURCE GROUP tin RU_PER_SEC = 1",
            "CREATE USER grouped IDENTIFIED BY 'p' RESOURCE GROUP gold",
        ):
            rows(root, text)
        shown = "SHOW CREATE USER grouped"
        assert str(rows(root, shown)[0][0]).endswith(" RESOURCE GROUP `Gold`")
        wanted = (1105, "user [grouped] depends on the resource group to drop")
        assert code(root, "DROP RESOURCE GROUP gold") == wanted
        with connected(nodes[1], "grouped", "p") as mine:
            assert rows(mine, "SELECT CURRENT_RESOURCE_GROUP()") == [["Gold"]]
            for text in (
                "SET RESOURCE GROUP tin",
                "DROP RESOURCE GROUP tin",
                "ALTER USER grouped RESOURCE GROUP tin",
                "CREATE PLACEMENT POLICY p FOLLOWERS = 2",
            ):
                assert code(mine, text)[0] == 1227
            rows(root, "GRANT RESOURCE_GROUP_USER, PLACEMENT_ADMIN ON *.* TO grouped")
        with connected(nodes[1], "grouped", "p") as mine:
            rows(mine, "SET RESOURCE GROUP tin")
            assert rows(mine, "SELECT CURRENT_RESOURCE_GROUP()") == [["tin"]]
            rows(mine, "CREATE PLACEMENT POLICY p FOLLOWERS = 2")
            rows(mine, "DROP PLACEMENT POLICY p")
        rows(root, "RENAME USER grouped TO renamed")
        shown = "SHOW CREATE USER renamed"
        assert str(rows(root, shown)[0][0]).endswith(" RESOURCE GROUP `Gold`")
        rows(root, "ALTER USER renamed RESOURCE GROUP default")
        rows(root, "DROP RESOURCE GROUP gold")
        rows(root, "ALTER USER renamed RESOURCE GROUP tin")
        rows(root, "DROP USER renamed")
        rows(root, "DROP RESOURCE GROUP tin")
