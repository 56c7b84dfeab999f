"""mysqldump of a database, loaded into another one, dumps the same again."""

import subprocess

import pytest

from support.node_processes import NodeProcess

TABLES = r"""
CREATE TABLE item (id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(30) NOT NULL,
    price DECIMAL(10,2) UNSIGNED DEFAULT '1.50', at TIMESTAMP NULL DEFAULT '2024-01-01 00:00:00',
    kind ENUM('a','b') DEFAULT 'a', note TEXT, raw BLOB, j JSON, f BIT(4) DEFAULT b'101',
    b BOOL DEFAULT 1, d DOUBLE, UNIQUE KEY un (name), KEY kp (price, kind)) COMMENT='it''s';
CREATE TABLE part (a INT NOT NULL, b VARCHAR(5) NOT NULL, c DATE, PRIMARY KEY (a, b));
CREATE TABLE loose (x INT, y VARCHAR(10) CHARACTER SET latin1);
INSERT INTO item (name, price, note, raw, j, d) VALUES
    ('one', 2.5, 'it''s; "q"', x'00ff0a275cc3', '{"a":1}', 1.5),
    ('two', NULL, NULL, NULL, NULL, NULL), ('drei\\ß', 3, 'line\nline', '', '[1]', -1e-7);
INSERT INTO part VALUES (1, 'a', '2024-01-01'), (1, 'b', NULL);
INSERT INTO loose VALUES (1, 'a'), (1, 'a'), (NULL, NULL);
"""
PLAIN = ("--skip-comments", "--no-tablespaces")


def client(node: NodeProcess, program: str, *options: str, text: bytes = b"") -> bytes:
    """What a client program prints; it must succeed."""
    command = [program, "-h127.0.0.1", f"-P{node.port}", "-uroot", *options]
    done = subprocess.run(command, input=text, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--hex-blob", "--skip-extended-insert", "--complete-insert"),
        ("--single-transaction", "--routines", "--triggers", "--events"),
        ("--compact", "--replace", "--order-by-primary"),
    ],
    ids=lambda options: "".join(options[:1]) or "plain",
)
def test_a_dump_loads_and_dumps_the_same(node: NodeProcess, options: tuple[str, ...]) -> None:
    for name in ("dumped", "loaded"):
        client(node, "mysql", "-e", f"DROP DATABASE IF EXISTS {name}; CREATE DATABASE {name}")
    client(node, "mysql", "dumped", text=TABLES.encode())
    dump = client(node, "mysqldump", *PLAIN, *options, "dumped")
    client(node, "mysql", "loaded", text=dump)
    plain = client(node, "mysqldump", *PLAIN, "dumped")
    assert plain.count(b"INSERT INTO") == 3
    assert b"\xff" in plain
    assert client(node, "mysqldump", *PLAIN, "loaded") == plain


def test_a_dump_of_databases_loads_where_they_are(node: NodeProcess) -> None:
    client(node, "mysql", "-e", "DROP DATABASE IF EXISTS kept; CREATE DATABASE kept")
    client(node, "mysql", "kept", text=TABLES.encode())
    dump = client(node, "mysqldump", *PLAIN, "--databases", "kept")
    client(node, "mysql", text=dump)
    assert client(node, "mysqldump", *PLAIN, "--databases", "kept") == dump
