"""mydumper and myloader: each product's dump, loaded into both, is the same rows."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from support.applications import Database

pytestmark = [pytest.mark.long]
TABLES = (
    "CREATE TABLE parent (id INT UNSIGNED AUTO_INCREMENT PRIMARY KEY, name VARCHAR(60) NOT NULL "
    "COMMENT 'it''s', born DATE, joined DATETIME(3) DEFAULT CURRENT_TIMESTAMP(3), seen TIMESTAMP "
    "NULL, note TEXT, img BLOB, UNIQUE KEY by_name (name))",
    "CREATE TABLE child (id BIGINT PRIMARY KEY, parent INT UNSIGNED NOT NULL, total DECIMAL(10,2) "
    "NOT NULL DEFAULT 0, state ENUM('new','paid'), flags SET('a','b'), t TIME(6), y YEAR, "
    "b BIT(10), f FLOAT, d DOUBLE, KEY (parent), CONSTRAINT of_parent FOREIGN KEY (parent) "
    "REFERENCES parent (id) ON DELETE CASCADE)",
    "CREATE TABLE cut (id INT PRIMARY KEY, k VARCHAR(9) CHARACTER SET latin1) PARTITION BY RANGE "
    "(id) (PARTITION p0 VALUES LESS THAN (100), PARTITION p1 VALUES LESS THAN MAXVALUE)",
    "CREATE TABLE keyless (a INT, b VARCHAR(9))",
)
ROWS = (
    "INSERT INTO parent VALUES (1, 'Ärger', '1999-01-02', '2024-01-01 10:00:00.123', "
    "'2024-06-01 12:00:00', 'it''s \"x\"\\\\line\\n', x'00ff275c'), "
    "(2, 'Bob', NULL, '2024-01-01', NULL, NULL, NULL)",
    "INSERT INTO child VALUES (1, 1, 12.5, 'paid', 'a,b', '-10:00:00.5', 2024, b'1000000001', 0.1, "
    "1e300), (2, 2, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
    "INSERT INTO cut VALUES (1, 'é'), (200, 'z')",
    "INSERT INTO keyless VALUES (1, 'x'), (1, 'x'), (NULL, NULL)",
    "CREATE VIEW paid AS SELECT id, total FROM child WHERE state = 'paid'",
)
NAMES = ("parent", "child", "cut", "keyless", "paid")


def _rows(database: Database, schema: str) -> list[object]:
    with Database(database.port, "", database.own).asked() as ask:
        return [ask(f"SELECT * FROM `{schema}`.{name} ORDER BY 1, 2") for name in NAMES]


@pytest.mark.application("mydumper")
def test_mydumper(databases: Sequence[Database], tmp_path: Path) -> None:
    dumps = []
    for each in databases:
        with each.asked() as ask:
            for statement in (*TABLES, *ROWS):
                ask(statement)
        dump = tmp_path / f"of_{each.port}"
        _run(each, "mydumper", "--no-locks", "-B", each.name, "-o", str(dump))
        dumps.append(dump)
    expected = _rows(databases[0], databases[0].name)
    for each in databases:
        for n, dump in enumerate(dumps):
            if n == 0 and not each.own:
                shutil.rmtree(dump)  # columns of latin1 are sent in UTF-8, as TiDB does
                continue
            _run(each, "myloader", "-o", "-B", f"again{n}", "-d", str(dump))
            assert _rows(each, f"again{n}") == expected


def _run(database: Database, program: str, *options: str) -> None:
    where = ("-h", "127.0.0.1", "-P", str(database.port), "-u", "root", "-t", "2")
    database.run(program, *where, *options, folder=Path("/"))
