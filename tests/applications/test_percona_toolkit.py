"""Percona Toolkit: what works without triggers, with the same report on both products.

pt-archiver               moves rows in small transactions
pt-table-checksum         one server, without replicas
pt-duplicate-key-checker  reads SHOW CREATE TABLE
pt-show-grants            what it prints is a valid script
pt-online-schema-change   needs triggers, which are not here: it says so and leaves nothing
"""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from support.applications import Database, agree

pytestmark = [pytest.mark.long]
TABLES = (
    "CREATE TABLE a (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(20), k INT, KEY one (k), "
    "KEY two (k, v))",
    "CREATE TABLE old LIKE a",
)


def _dsn(database: Database, table: str = "") -> str:
    named = f",t={table}" if table else ""
    return f"h=127.0.0.1,P={database.port},u=root,A=utf8mb4,D={database.name}{named}"


@pytest.mark.application("percona-toolkit")
def test_percona_toolkit(databases: Sequence[Database]) -> None:
    for each in databases:
        with each.asked() as ask:
            for statement in TABLES:
                ask(statement)
            listed = ", ".join(f"({n}, 'v{n}', {n % 7})" for n in range(1, 300))
            ask(f"INSERT INTO a VALUES {listed}")

    def archive(each: Database) -> list[tuple[object, ...]]:
        options = ("--where", "k < 3", "--limit", "20", "--commit-each")
        source, target = _dsn(each, "a"), _dsn(each, "old")
        _run(each, "pt-archiver", "--source", source, "--dest", target, *options)
        with each.asked() as ask:
            return ask("SELECT COUNT(*), SUM(k) FROM a") + ask("SELECT SUM(id), SUM(k) FROM old")

    def checksum(each: Database) -> list[str]:
        where = _dsn(each).partition(",D=")[0]
        options = ("--databases", each.name, "--no-check-binlog-format", "--recursion-method=none")
        said = _run(each, "pt-table-checksum", where, *options)
        lines = [line.split() for line in said.splitlines() if f"{each.name}." in line]
        with each.asked() as ask:
            ask("DROP DATABASE percona")
        return [f"{line[-1]} errors {line[1]} differences {line[2]}" for line in lines]

    def duplicates(each: Database) -> list[str]:
        said = _run(each, "pt-duplicate-key-checker", _dsn(each), "-d", each.name)
        return re.findall(r"(?:ALTER|# Total).*", said)

    assert agree(databases, archive)[0][0] > 0
    assert len(agree(databases, checksum)) == 2
    assert any("DROP INDEX `one`" in line for line in agree(databases, duplicates))
    own = databases[0]
    assert "GRANT ALL PRIVILEGES ON *.*" in _run(own, "pt-show-grants", _dsn(own))
    with pytest.raises(AssertionError, match="Error creating triggers"):
        change = ("--alter", "ADD COLUMN c INT", "--execute")
        _run(own, "pt-online-schema-change", *change, _dsn(own, "a"))
    with own.asked() as ask:
        assert [row[0] for row in ask("SHOW TABLES")] == ["a", "old"]


def _run(database: Database, program: str, *options: str) -> str:
    return database.run(program, *options, folder=Path("/"))
