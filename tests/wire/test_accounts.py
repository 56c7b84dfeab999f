"""Accounts over the wire: authentication, and the privileges of accounts on every node."""

import socket
import ssl
import struct
import subprocess
import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from time import monotonic

import mysql.connector
import pymysql
import pytest

from exuvia.server.connection import REFUSED_S
from exuvia.server.transport import context_of, why_refused
from exuvia.sql.show.show import KINDS
from support.node_processes import NodeProcess, running_nodes, until


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[NodeProcess]]:
    folder: Path = tmp_path_factory.mktemp("accounts")
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    command += ["-subj", "/CN=localhost", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    options = ("--ssl-cert", str(certificate), "--ssl-key", str(key))
    with running_nodes(folder, 2, options=options) as started:
        with started[0].connect() as root:
            root.query("CREATE DATABASE shop")
            root.query("CREATE TABLE shop.t (id INT PRIMARY KEY, a INT)")
            root.query("CREATE TABLE shop.hidden (id INT)")
            root.query("CREATE VIEW shop.v AS SELECT id FROM shop.hidden")
            root.query("INSERT INTO shop.t VALUES (1, 10)")
            root.commit()
        yield started


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


def test_a_login_needs_the_password(nodes: list[NodeProcess]) -> None:
    with nodes[0].connect() as root:
        root.query("CREATE USER ann IDENTIFIED BY 'sesame'")
        for user, password, using in (
            ("ann", "wrong", "YES"), ("ann", "", "NO"), ("root", "x", "YES"), ("nobody", "", "NO"),
        ):  # fmt: skip
            with pytest.raises(pymysql.err.OperationalError) as caught:
                connected(nodes[0], user, password)
            message = f"Access denied for user '{user}'@'127.0.0.1' (using password: {using})"
            assert caught.value.args == (1045, message)
        for node in nodes:
            with connected(node, "ann", "sesame") as ann:
                assert rows(ann, "SELECT CURRENT_USER()") == [["ann@%"]]
        root.query("ALTER USER ann ACCOUNT LOCK")
        with pytest.raises(pymysql.err.OperationalError) as caught:
            connected(nodes[0], "ann", "sesame")
        assert caught.value.args[0] == 3118
        root.query("DROP USER ann")


def test_caching_sha2_sends_the_password_once_and_encrypted(nodes: list[NodeProcess]) -> None:
    node = nodes[0]
    encrypted = {"ssl": unverified()}
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
    with nodes[0].connect() as root:
        root.query("CREATE USER veiled IDENTIFIED BY 'sesame' REQUIRE SSL")
        with pytest.raises(pymysql.err.OperationalError) as caught:
            connected(nodes[0], "veiled", "sesame", ssl_disabled=True)
        assert caught.value.args[0] == 1045
        with connected(nodes[0], "veiled", "sesame", ssl=unverified()) as veiled:
            assert rows(veiled, "SELECT CURRENT_USER()") == [["veiled@%"]]
        root.query("DROP USER veiled")


def unverified() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def test_require_secure_transport(nodes: list[NodeProcess]) -> None:
    """Only an encrypted client may require it, as in TiDB.

    Otherwise clients without encryption would be locked out, and everybody on a node without a
    certificate."""
    with nodes[0].connect(autocommit=True, ssl_disabled=True) as plain:
        assert code(plain, "SET GLOBAL require_secure_transport = ON")[0] == 1105
        assert code(plain, "SET PERSIST require_secure_transport = 1")[0] == 1105
        assert rows(plain, "SELECT @@require_secure_transport") == [[0]]
        with connected(nodes[0], "root", ssl=unverified()) as root:
            rows(root, "SET GLOBAL require_secure_transport = ON")
            try:
                for node in nodes:
                    with pytest.raises(pymysql.MySQLError) as caught:
                        connected(node, "root", ssl_disabled=True)
                    assert caught.value.args[0] == 3159
                    connected(node, "root", ssl=unverified()).close()
                with pytest.raises(pymysql.MySQLError) as caught:
                    plain.send_command(0x1F, b"")
                    plain.read_ok()
                assert caught.value.args[0] == 3159, "nor does COM_RESET_CONNECTION let it in"
            finally:
                rows(root, "SET GLOBAL require_secure_transport = DEFAULT")


def test_a_node_shows_what_it_was_started_with(nodes: list[NodeProcess]) -> None:
    names = "have_ssl", "have_openssl", "tls_version", "port", "ssl_cert"
    for node in nodes:
        with connected(node, "root") as root:
            values = rows(root, f"SELECT {', '.join(f'@@global.{name}' for name in names)}")[0]
            assert values[:4] == ["YES", "YES", "TLSv1.2,TLSv1.3", node.port]
            assert str(values[4]).endswith("certificate.pem")
            listed = dict(rows(root, "SHOW GLOBAL VARIABLES"))
            assert [listed[name] for name in names] == list(map(str, values))


def tls_client(port: int, is_mysql: bool, context: ssl.SSLContext, name: str = "") -> ssl.SSLSocket:
    """An encrypted connection to either port. Raises what the handshake does."""
    raw = socket.create_connection(("127.0.0.1", port), timeout=20)
    if is_mysql:
        raw.recv(4096)
        raw.sendall(b"\x20\0\0\x01" + struct.pack("<IIB23x", 0x0AAE8D, 1 << 24, 45))
    return context.wrap_socket(raw, server_hostname=name or "127.0.0.1")


@pytest.mark.parametrize("is_mysql", [True, False])
def test_tls_is_new_and_its_certificate_is_judged_by_clients(
    nodes: list[NodeProcess], is_mysql: bool
) -> None:
    node = nodes[0]
    port = node.port if is_mysql else node.status_port
    for version in (ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1):
        old = unverified()
        old.set_ciphers("ALL:@SECLEVEL=0")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            old.minimum_version = old.maximum_version = version
        with pytest.raises(ssl.SSLError, match="PROTOCOL_VERSION"):
            tls_client(port, is_mysql, old)
    with tls_client(port, is_mysql, unverified()) as client:
        certificate = client.getpeercert(binary_form=True)
        assert client.version() == "TLSv1.3" and certificate
    with pytest.raises(ssl.SSLCertVerificationError, match="self-signed"):
        tls_client(port, is_mysql, ssl.create_default_context())
    trusting = ssl.create_default_context(cadata=certificate)
    with tls_client(port, is_mysql, trusting, "localhost") as client:
        assert client.version() == "TLSv1.3"
    with pytest.raises(ssl.SSLCertVerificationError, match="is not valid for"):
        tls_client(port, is_mysql, trusting, "elsewhere")


@pytest.mark.parametrize("is_mysql", [True, False])
def test_half_a_handshake_holds_up_nobody(nodes: list[NodeProcess], is_mysql: bool) -> None:
    """Neither do bytes that are not TLS, nor plain text sent after the request for TLS."""
    node = nodes[0]
    port = node.port if is_mysql else node.status_port
    to_server = ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        unverified().wrap_bio(ssl.MemoryBIO(), to_server).do_handshake()
    hello = to_server.read()
    request = b"\x20\0\0\x01" + struct.pack("<IIB23x", 0x0AAE8D, 1 << 24, 45)
    head = request if is_mysql else b""
    clients = []
    for sent in (
        hello[:1],
        hello[: len(hello) // 2],
        hello,
        b"\x16\x03\x01\xff\xff" + b"x" * 40_000,
    ):
        for _ in range(10):
            client = socket.create_connection(("127.0.0.1", port), timeout=20)
            client.sendall(head + sent)
            clients.append(client)
    with connected(node, "root", ssl=unverified()) as root:
        assert rows(root, "SELECT 1") == [[1]]
    assert "connections" in node.status()
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        client.sendall(head + b"\x16\x03\x01\0\x05hello" + b"\x03SELECT 1")
        answer = b""
        with suppress(ConnectionResetError):
            while piece := client.recv(4096):
                answer += piece
        assert b"HTTP/1.1" not in answer and b"\x01\x00\x00\x01\x01" not in answer
    for client in clients:
        client.close()


def test_an_expired_certificate_is_logged(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"]
    command += ["-subj", "/CN=localhost", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    context = context_of(str(certificate), str(key))
    assert why_refused(str(certificate), context) == ""
    old = tmp_path / "old.pem"
    command = ["openssl", "x509", "-in", str(certificate), "-signkey", str(key), "-days", "-1"]
    subprocess.run([*command, "-out", str(old)], check=True, capture_output=True)
    reason = why_refused(str(old), context_of(str(old), str(key)))
    assert reason == "certificate has expired"
    locked = tmp_path / "locked.pem"
    command = ["openssl", "pkey", "-in", str(key), "-aes256", "-passout", "pass:sesame"]
    subprocess.run([*command, "-out", str(locked)], check=True, capture_output=True)
    other = tmp_path / "other.pem"
    subprocess.run(
        ["openssl", "genrsa", "-out", str(other), "2048"], check=True, capture_output=True
    )
    for file, why in (
        (locked, "has a passphrase"),
        (other, "KEY_VALUES_MISMATCH"),
        (tmp_path / "missing.pem", "No such file"),
        (tmp_path, str(certificate)),
    ):
        with pytest.raises(OSError, match=why) as caught:
            context_of(str(certificate), str(file))
        assert str(file) in str(caught.value)


HIDDEN = (
    "CREATE DATABASE zqhome",
    "CREATE TABLE zqhome.zqtable (id INT PRIMARY KEY, zqcolumn VARCHAR(30) DEFAULT 'zqdefault',"
    " n INT, KEY zqindex (zqcolumn), UNIQUE zqunique (n))",
    "CREATE TABLE zqhome.zqparts (id INT PRIMARY KEY) PARTITION BY RANGE (id)"
    " (PARTITION zqpart VALUES LESS THAN (100))",
    "CREATE VIEW zqhome.zqview AS SELECT zqcolumn FROM zqhome.zqtable",
    "CREATE SEQUENCE zqhome.zqsequence",
    "INSERT INTO zqhome.zqtable VALUES (1, 'zqa', 1), (2, 'zqa', 2), (3, 'zqb', 3)",
    "ANALYZE TABLE zqhome.zqtable, zqhome.zqparts",
    "LOCK STATS zqhome.zqtable",
)
REFUSED = (
    (1142, "SELECT * FROM zqhome.zqtable"),
    (1142, "SELECT 1 FROM zqhome.missing"),
    (1142, "EXPLAIN ANALYZE SELECT * FROM zqhome.zqtable"),
    (1142, "SELECT * FROM zqhome.zqtable AS OF TIMESTAMP NOW(6)"),
    (1142, "SELECT id FROM shop.t WHERE id = 1 FOR UPDATE"),
    (1143, "SELECT DEFAULT(a) FROM shop.t"),
    (1143, "SELECT id FROM shop.t ORDER BY a"),
    (1142, "CREATE VIEW shop.mine AS SELECT 1"),
    (1142, "SHOW CREATE TABLE zqhome.zqtable"),
    (1044, "USE zqhome"),
    (1227, "ADMIN SHOW DDL JOBS"),
    (1227, "ADMIN SHOW SLOW RECENT 9"),
    (1094, "KILL 1"),
)


def test_an_account_with_one_grant_sees_nothing_else_at_any_door(nodes: list[NodeProcess]) -> None:
    """Statistics are filled, and a job has failed with a row's value in its text."""
    with connected(nodes[0], "root") as root:
        for text in HIDDEN:
            rows(root, text)
        add = "ALTER TABLE zqhome.zqtable ADD UNIQUE zqfails (zqcolumn)"
        assert "zqa" in code(root, add)[1]
        rows(root, "CREATE USER low")
        rows(root, "GRANT SELECT (id) ON shop.t TO low")
        listed = "SELECT table_schema, table_name FROM information_schema.tables"
        schemas = "('information_schema', 'mysql', 'performance_schema', 'sys')"
        tables = rows(root, f"{listed} WHERE LOWER(table_schema) IN {schemas}")
        doors = [f"SELECT * FROM `{schema}`.`{table}`" for schema, table in tables]
        doors += [f"SHOW {kind}" for kind in KINDS]
        revealing = [door for door in doors if "zq" in answered(root, door)]
        assert len(revealing) > 30
        with connected(nodes[1], "low") as low:
            until(lambda: rows(low, "SELECT id FROM shop.t") == [[1]])
            assert [door for door in doors if "zq" in answered(low, door)] == []
            for number, text in REFUSED:
                assert code(low, text)[0] == number, text
            rows(root, "GRANT CREATE VIEW ON shop.* TO low")
            statement = "CREATE DEFINER = root VIEW shop.mine AS SELECT 1"
            until(lambda: code(low, statement)[0] == 1227)
        rows(root, "UNLOCK STATS zqhome.zqtable")
        rows(root, "DROP DATABASE zqhome")
        rows(root, "DROP USER low")


def answered(connection: pymysql.Connection, text: str) -> str:
    """The rows of an answer as text; "" for a refusal."""
    try:
        return str(rows(connection, text))
    except pymysql.MySQLError:
        return ""


@pytest.mark.parametrize("plugin", ["mysql_native_password", "caching_sha2_password"])
def test_a_name_without_an_account_is_not_revealed_by_texts_or_by_time(
    nodes: list[NodeProcess], plugin: str
) -> None:
    with connected(nodes[0], "root") as root:
        rows(root, f"CREATE USER known IDENTIFIED WITH {plugin} BY 'sesame'")
        took: dict[str, list[float]] = {"known": [], "nobody": []}
        texts = set()
        for _ in range(3):
            for user, times in took.items():
                began = monotonic()
                with pytest.raises(pymysql.MySQLError) as caught:
                    connected(nodes[0], user, "wrong", ssl=unverified())
                times.append(monotonic() - began)
                texts.add(str(caught.value.args).replace(user, "?"))
        assert len(texts) == 1
        assert all(min(times) >= REFUSED_S for times in took.values())
        rows(root, "DROP USER known")


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
            query = "SELECT DISTINCT table_schema FROM information_schema.tables ORDER BY 1"
            assert rows(bob, query) == [["information_schema"], ["shop"]]
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
        query = "SHOW CREATE USER grouped"
        assert str(rows(root, query)[0][0]).endswith(" RESOURCE GROUP `Gold`")
        expected = (1105, "user [grouped] depends on the resource group to drop")
        assert code(root, "DROP RESOURCE GROUP gold") == expected
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
        query = "SHOW CREATE USER renamed"
        assert str(rows(root, query)[0][0]).endswith(" RESOURCE GROUP `Gold`")
        rows(root, "ALTER USER renamed RESOURCE GROUP default")
        rows(root, "DROP RESOURCE GROUP gold")
        rows(root, "ALTER USER renamed RESOURCE GROUP tin")
        rows(root, "DROP USER renamed")
        rows(root, "DROP RESOURCE GROUP tin")


def test_kept_plans_of_views_need_the_definers_and_the_readers_privileges(
    nodes: list[NodeProcess],
) -> None:
    """A plan that is kept, and one of the text with a comment, which is planned each time."""
    texts = ("SELECT * FROM shop.by_definer WHERE id < 9", "SELECT id FROM shop.by_reader, shop.t")

    def outcome(connection: pymysql.Connection, text: str) -> object:
        try:
            return rows(connection, text)
        except pymysql.MySQLError as error:
            return error.args

    with nodes[0].connect(autocommit=True) as root:
        for text in (
            "CREATE TABLE shop.base (id INT PRIMARY KEY, a INT)",
            "INSERT INTO shop.base VALUES (1, 7)",
            "CREATE USER maker, looker",
            "GRANT SELECT ON shop.* TO maker",
            "GRANT SELECT ON shop.t TO looker",
            "CREATE DEFINER = maker VIEW shop.by_definer AS SELECT id, a FROM shop.base",
            "CREATE DEFINER = maker SQL SECURITY INVOKER VIEW shop.by_reader AS"
            " SELECT a FROM shop.base",
            "GRANT SELECT ON shop.by_definer TO looker",
            "GRANT SELECT ON shop.by_reader TO looker",
            "GRANT INSERT ON shop.base TO looker",  # so it may know of the table
        ):
            root.query(text)
        seen = []
        with connected(nodes[0], "looker") as looker:
            for change in (
                "GRANT SELECT ON shop.base TO looker",
                "REVOKE SELECT ON shop.base FROM looker",
                "REVOKE SELECT ON shop.* FROM maker",
                "GRANT SELECT ON shop.base TO looker",
                "GRANT SELECT ON shop.* TO maker",
                "REVOKE SELECT ON shop.* FROM maker",
                "GRANT SELECT ON shop.base TO maker",
                "GRANT SELECT (id) ON shop.base TO maker; REVOKE SELECT ON shop.base FROM maker",
                "GRANT SELECT (a) ON shop.base TO maker",
                "REVOKE SELECT (a) ON shop.base FROM maker",
                "GRANT SELECT ON shop.base TO maker",
                "REVOKE SELECT ON shop.by_definer FROM looker",
                "GRANT SELECT ON shop.by_definer TO looker",
                "DROP USER maker",
            ):
                for connection in (root, looker):
                    for text in texts:
                        outcome(connection, text)
                for each in change.split("; "):
                    root.query(each)
                for connection in (root, looker):
                    for text in (*texts, *texts):
                        planned = text.replace("SELECT ", "SELECT /* */ ", 1)
                        found = outcome(connection, text)
                        assert found == outcome(connection, planned), (change, text)
                        seen.append(found)
        assert [[1, 7]] in seen
        assert {1142, 1356, 1449} <= {one[0] for one in seen if isinstance(one, tuple)}
        for text in ("DROP USER looker", "DROP VIEW shop.by_definer, shop.by_reader"):
            root.query(text)
        root.query("DROP TABLE shop.base")
