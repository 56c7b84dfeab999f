"""A store's password is read from libpq's password file on each host and is visible nowhere else.

It is not in a node's output or tables, and not passed to the processes that it starts."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.node_processes import ROOT, NodeProcess, children_of, command_of, end_all
from support.postgres import PostgresServer, own_server

PASSWORD = "planted-7f31c9"
SCHEMA = "kept_apart"  # is part of the URL, and so visible wherever that is
PAGES = ("/livez", "/readyz", "/status", "/metrics", "/stats/priority-queue")
PAGES += ("/page/live", "/page/cluster", "/page/history", "/page/table?database=d&table=t")
SHOWN = (
    "SHOW FULL PROCESSLIST",
    "SHOW VARIABLES",
    "SHOW GLOBAL VARIABLES",
    "SHOW STATUS",
    "ADMIN SHOW DDL",
    "ADMIN SHOW DDL NODES",
    "ADMIN SHOW DDL JOBS 100",
    "ADMIN SHOW DDL JOB QUERIES LIMIT 100",
)

pytestmark = pytest.mark.long


def requires_passwords(server: PostgresServer) -> str:
    """The URL of a store whose user needs a password."""
    server.ask(f"CREATE ROLE keeper LOGIN PASSWORD '{PASSWORD}'")
    server.ask("CREATE DATABASE app OWNER keeper")
    (server.data / "pg_hba.conf").write_text(
        "host all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n"
    )
    server.ask("SELECT pg_reload_conf()")
    return f"postgresql://keeper@127.0.0.1:{server.port}/app?schema={SCHEMA}"


def rows(node: NodeProcess, *statements: str) -> list[tuple[Any, ...]]:
    """The rows of the last statement."""
    with node.connect(autocommit=True) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        return list(cursor.fetchall())


def processes(pid: int) -> list[int]:
    """The process and all its descendants."""
    return [pid, *(descendant for child in children_of(pid) for descendant in processes(child))]


def what_a_client_sees(node: NodeProcess) -> str:
    """The output of SHOW, ADMIN SHOW and every system table."""
    outputs = [str(rows(node, statement)) for statement in SHOWN]
    for schema in ("mysql", "information_schema"):
        tables = rows(node, f"SHOW TABLES FROM {schema}")
        assert len(tables) > 20
        for (table,) in tables:
            outputs.append(str(rows(node, f"SELECT * FROM `{schema}`.`{table}`")))
    return "\n".join(outputs)


def test_a_password_of_the_store_is_shown_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with own_server() as server:
        url = requires_passwords(server)
        without = NodeProcess(url, tmp_path / "log-without")
        assert without.process.wait(60) == 1
        assert "password" in without.log.read_text()

        file = tmp_path / "passwords"
        file.write_text(f"127.0.0.1:{server.port}:app:keeper:{PASSWORD}\n")
        file.chmod(0o600)
        monkeypatch.setenv("PGPASSFILE", str(file))
        node = NodeProcess(url, tmp_path / "log").wait_ready()
        try:
            rows(
                node,
                "CREATE DATABASE d",
                "CREATE TABLE d.t (a INT PRIMARY KEY, b INT)",
                f"INSERT INTO d.t VALUES {', '.join(f'({n}, {n})' for n in range(2_000))}",
                "SET GLOBAL exuvia_pipeline_inline_rows = 0",  # so Spark and its workers are there
                "ALTER TABLE d.t ADD INDEX (b)",
            )
            started = processes(node.process.pid)
            assert any("java" in command_of(pid) for pid in started)
            outputs = {
                "commands": "\n".join(map(command_of, started)),
                "pages": "\n".join(node.get(page)[1] for page in PAGES),
                "clients": what_a_client_sees(node),
                "first line": node.line,
                "log": node.log.read_text(),
                "queries": str(server.ask("SELECT query FROM pg_stat_activity")),
            }
            query = f"SELECT count(*) FROM {SCHEMA}.kv WHERE position('%s'::bytea IN k || v) > 0"
            assert server.ask(query % PASSWORD, "app") == [(0,)]
            assert server.ask(query % "d.t", "app") != [(0,)]  # so it would be found
        finally:
            end_all([node])
        assert [place for place, text in outputs.items() if PASSWORD in text] == []
        assert {"commands", "first line"} <= {p for p, text in outputs.items() if SCHEMA in text}


def test_a_password_in_the_url_is_not_repeated(tmp_path: Path) -> None:
    """No command that takes a URL repeats its password."""
    url = f"postgresql://keeper:{PASSWORD}@127.0.0.1:1/app"
    for words in (
        ["serve", "--port", "0", "--status-port", "0", "--store", url],
        ["doctor", "--store", url],
        ["store", "stat", "--store", url],
    ):
        ended = subprocess.run(
            [sys.executable, "-m", "exuvia.cli.main", *words],
            check=False, capture_output=True, text=True, timeout=120, cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        )  # fmt: skip
        output = ended.stdout + ended.stderr
        assert ended.returncode == 1, words
        assert PASSWORD not in output, words
        assert "keeper@127.0.0.1" in output or words[0] == "store", output
