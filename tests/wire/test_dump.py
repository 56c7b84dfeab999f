"""mysqldump of a database, loaded into another one, dumps the same again."""

import re
import subprocess
from collections.abc import Iterator

import pytest

from support.node_processes import NodeProcess

TABLES = r"""
CREATE TABLE item (id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(30) NOT NULL,
    price DECIMAL(10,2) UNSIGNED DEFAULT '1.50', at TIMESTAMP NULL DEFAULT '2024-01-01 00:00:00',
    kind ENUM('a','b') DEFAULT 'a', note TEXT, raw BLOB, j JSON, f BIT(4) DEFAULT b'101',
    b BOOL DEFAULT 1, d DOUBLE, UNIQUE KEY un (name), KEY kp (price, kind),
    KEY ka ((CAST(j->'$.a' AS SIGNED ARRAY)))) COMMENT='it''s';
CREATE TABLE part (a INT NOT NULL, b VARCHAR(5) NOT NULL, c DATE, PRIMARY KEY (a, b));
CREATE TABLE loose (x INT, y VARCHAR(10) CHARACTER SET latin1);
CREATE TABLE a_child (id INT PRIMARY KEY, item_id INT, a INT, b VARCHAR(5), up INT,
    whole INT AS (id * 10) VIRTUAL, kept VARCHAR(20) AS (CONCAT(b, '-', id)) STORED, KEY kw (whole),
    KEY low ((LOWER(b))), CONSTRAINT fk_item FOREIGN KEY (item_id) REFERENCES item (id)
    ON DELETE SET NULL, CONSTRAINT fk_part FOREIGN KEY (a, b) REFERENCES part (a, b),
    CONSTRAINT fk_self FOREIGN KEY (up) REFERENCES a_child (id),
    CONSTRAINT id_is_positive CHECK (id > 0 AND b <> 'it''s'));
CREATE TABLE cut (id INT, at DATE, PRIMARY KEY (id, at)) PARTITION BY RANGE COLUMNS (at)
    (PARTITION p0 VALUES LESS THAN ('2024-01-01'), PARTITION p1 VALUES LESS THAN (MAXVALUE));
CREATE TABLE hashed (id INT PRIMARY KEY) PARTITION BY HASH (id) PARTITIONS 3;
CREATE VIEW a_names AS SELECT id, name AS `the name` FROM item WHERE name LIKE '%o%';
CREATE VIEW later AS SELECT c.id, n.`the name` FROM a_child c JOIN a_names n ON n.id = c.item_id;
INSERT INTO item (name, price, note, raw, j, d) VALUES
    ('one', 2.5, 'it''s; "q"', x'00ff0a275cc3', '{"a":1}', 1.5),
    ('two', NULL, NULL, NULL, NULL, NULL), ('drei\\ß', 3, 'line\nline', '', '[1]', -1e-7);
INSERT INTO part VALUES (1, 'a', '2024-01-01'), (1, 'b', NULL);
INSERT INTO loose VALUES (1, 'a'), (1, 'a'), (NULL, NULL);
INSERT INTO a_child (id, item_id, a, b, up) VALUES (1, 1, 1, 'a', NULL), (2, 2, NULL, NULL, 1);
INSERT INTO cut VALUES (1, '2023-05-05'), (2, '2024-05-05');
INSERT INTO hashed VALUES (1), (2), (3);
"""
# settings that a dump contains unless it is --compact
LOADING = "--init-command=SET foreign_key_checks = 0, sql_mode = 'NO_AUTO_VALUE_ON_ZERO'"
PLAIN = ("--skip-comments", "--no-tablespaces")


def counted(dump: bytes) -> bytes:
    """A dump without the next ids, because loading rows moves them on by a block, as in TiDB."""
    return re.sub(rb" AUTO_INCREMENT=\d+", b"", dump)


def client(node: NodeProcess, program: str, *options: str, text: bytes = b"") -> bytes:
    """Run a client program. Returns its output; it must succeed."""
    command = [program, "-h127.0.0.1", f"-P{node.port}", "-uroot", *options]
    done = subprocess.run(command, input=text, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(autouse=True)
def as_mysql(node: NodeProcess) -> Iterator[None]:
    """TiDB's CHECK has one pair of parentheses more after each load."""
    client(node, "mysql", "-e", "SET GLOBAL exuvia_compatibility = 'mysql'")
    yield
    client(node, "mysql", "-e", "SET GLOBAL exuvia_compatibility = 'tidb'")


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
    client(node, "mysql", LOADING, "loaded", text=dump)
    plain = client(node, "mysqldump", *PLAIN, "dumped")
    assert plain.count(b"INSERT INTO") == 6
    assert b"\xff" in plain
    again = client(node, "mysqldump", *PLAIN, "loaded")
    assert counted(again) == counted(plain)  # a view names its tables' database, as in TiDB
    query = "SELECT * FROM later ORDER BY id; SELECT id, whole, kept FROM a_child"
    output = client(node, "mysql", "-N", "loaded", "-e", query)
    assert output.split() == [*b"1 one 2 two".split(), *b"1 10 a-1 2 20 NULL".split()]


def test_a_dump_of_databases_loads_where_they_are(node: NodeProcess) -> None:
    client(node, "mysql", "-e", "DROP DATABASE IF EXISTS kept; CREATE DATABASE kept")
    client(node, "mysql", "kept", text=TABLES.encode())
    dump = client(node, "mysqldump", *PLAIN, "--databases", "kept")
    client(node, "mysql", text=dump)
    again = client(node, "mysqldump", *PLAIN, "--databases", "kept")
    assert counted(again) == counted(dump)
