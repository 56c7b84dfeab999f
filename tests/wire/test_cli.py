"""The commands, as a user types them, against a real node."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from typer.testing import CliRunner

from exuvia.cli.main import app
from support.node_processes import ROOT, NodeProcess, until
from support.postgres import free_port


class Done(NamedTuple):
    """The result of a command."""

    returncode: int
    stdout: str
    stderr: str


def exuvia(*arguments: str) -> Done:
    """Run a command in this process, because starting a process takes a second."""
    done = CliRunner().invoke(app, arguments, env={"NO_COLOR": "1"}, prog_name="exuvia")
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return Done(done.exit_code, done.stdout, done.stderr)


def process(*arguments: str, text: str = "") -> Done:
    """Run a command in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "exuvia.cli.main", *arguments],
        input=text,
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src"), "NO_COLOR": "1"},
    )
    return Done(done.returncode, done.stdout, done.stderr)


def test_sql_prints_answers_and_stops_at_the_first_error(node: NodeProcess) -> None:
    port = f"-P{node.port}"
    done = process("sql", port, "SELECT 1 AS one, NULL AS nothing; SELECT 'a;b' AS text")
    assert done.stdout.splitlines() == [
        "one  nothing",
        "---  -------",
        "1    NULL",
        "text",
        "----",
        "a;b",
    ]
    assert json.loads(process("sql", port, "-o", "json", "SELECT 2 AS two").stdout) == [{"two": 2}]
    failed = process("sql", port, text="SELECT 1; SELECT * FROM test.none; SELECT 3")
    assert failed.returncode == 1
    assert failed.stderr == "ERROR 1146: Table 'test.none' doesn't exist\n"
    assert "3" not in failed.stdout


def test_ddl_lists_and_shows_jobs(node: NodeProcess) -> None:
    port = f"-P{node.port}"
    exuvia("sql", port, "CREATE TABLE test.listed (a INT PRIMARY KEY)")
    jobs = json.loads(exuvia("ddl", "ls", port, "-o", "json").stdout)
    job = next(job_row for job_row in jobs if job_row["TABLE_NAME"] == "listed")
    assert (job["JOB_TYPE"], job["STATE"]) == ("create table", "synced")
    output = exuvia("ddl", "show", port, str(job["JOB_ID"]))
    assert "CREATE TABLE test.listed (a INT PRIMARY KEY)" in output.stdout
    assert exuvia("ddl", "show", port, "99999999").returncode == 1
    assert exuvia("ddl", "watch", port).returncode == 0


def test_the_doctor_finds_what_is_there(node: NodeProcess) -> None:
    done = process("doctor")
    assert done.returncode == 0
    assert done.stdout.startswith("ok      python")
    wrong = exuvia("doctor", "--store", "nosuch:store")
    assert wrong.returncode == 1
    assert "error   store" in wrong.stdout


def test_every_command_has_a_help_text() -> None:
    assert process("--version").stdout.startswith("exuvia ")
    for command in ("serve", "sql", "ddl", "stats", "doctor", "demo"):
        done = exuvia(command, "--help")
        assert done.returncode == 0
        assert command in done.stdout


def test_the_feed_continues_after_a_bookmark(node: NodeProcess, tmp_path: Path) -> None:
    port, bookmark = f"-P{node.port}", tmp_path / "position"

    def lines(*options: str) -> list[dict[str, object]]:
        done = exuvia("ddl", "feed", port, *options)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    def has_event_of(table: str) -> bool:
        return any(table in json.dumps(line) for line in lines())

    exuvia("sql", port, "CREATE TABLE test.fed (a INT PRIMARY KEY)")
    until(lambda: has_event_of('"O": "fed"'))
    first = lines("--bookmark", str(bookmark))
    assert first[-1]["kind"] == "create table"
    assert [line["position"] for line in first] == sorted(line["position"] for line in first)
    assert lines("--bookmark", str(bookmark)) == []
    exuvia("sql", port, "ALTER TABLE test.fed ADD COLUMN b INT")
    until(lambda: lines("--after", str(first[-1]["position"])))
    (only,) = lines("--bookmark", str(bookmark))
    assert only["kind"] == "add column"
    output = exuvia("sql", port, "-o", "json", "ADMIN SHOW DDL NOTIFIER").stdout
    feed = next(handler for handler in json.loads(output) if handler["HANDLER"] == "feed")
    assert (feed["LAG"], feed["LAST_ERROR"]) == (0, "")


@pytest.mark.parametrize(
    "command", ["sql X", "ddl ls", "ddl cancel 1", "ddl feed", "stats queue", "schema dump -D shop"]
)
def test_without_a_node_a_command_ends_with_one_line(command: str) -> None:
    done = exuvia(*command.split(), f"-P{free_port()}")
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(
        r"ERROR 2003: Can't connect to MySQL server on '127\.0\.0\.1'.*\n", done.stderr
    )


def outcome(done: Done) -> list[tuple[str, ...]]:
    """Rows of JSON as tuples."""
    return [tuple(map(str, row.values())) for row in json.loads(done.stdout)]


def submitted(port: str, statement: str) -> str:
    """Submit a job without waiting. Returns its number."""
    done = exuvia("sql", port, "-ojson", f"SET exuvia_ddl_async = ON; {statement}")
    [row] = json.loads(done.stdout.splitlines()[-1])
    return str(row["JOB_ID"])


def test_a_change_is_explained_waited_for_and_undone(node: NodeProcess) -> None:
    port = f"-P{node.port}"
    exuvia("sql", port, "CREATE TABLE test.undone (a INT PRIMARY KEY, b INT)")
    exuvia("sql", port, "INSERT INTO test.undone VALUES (1, 7)")
    alter = "ALTER TABLE undone DROP COLUMN b"
    explained = exuvia("ddl", "explain", port, "-Dtest", alter, "-ojson")
    assert "drop column" in str(json.loads(explained.stdout)[0])
    refused = exuvia("ddl", "explain", port, "-Dtest", "ALTER TABLE undone DROP COLUMN c")
    assert (refused.returncode, refused.stderr[:11]) == (1, "ERROR 1091:")
    job = submitted(port, f"SET exuvia_undo_s = 60; {alter.replace('undone', 'test.undone')}")
    waited = exuvia("ddl", "wait", port, job, "-ojson")
    assert (waited.returncode, outcome(waited)) == (0, [(job, "synced", "successful")])
    undone = exuvia("ddl", "undo", port, job)
    assert undone.returncode == 0, undone.stderr
    assert "7" in exuvia("sql", port, "SELECT b FROM test.undone").stdout
    again = exuvia("ddl", "undo", port, job)
    assert again.returncode == 1 and again.stderr.startswith("ERROR 1105")
    job = submitted(port, "SET exuvia_undo_s = 60; ALTER TABLE test.undone DROP COLUMN b")
    assert exuvia("ddl", "wait", port, job, "--timeout", "60").returncode == 0
    assert exuvia("ddl", "undo", "--end", port, job).returncode == 0
    assert exuvia("ddl", "undo", port, job).returncode == 1
    assert exuvia("ddl", "undo", "--end", "--as", "x", port, job).returncode == 2


def test_waiting_for_a_job_that_does_not_end_fails(node: NodeProcess) -> None:
    port = f"-P{node.port}"
    exuvia("sql", port, "CREATE TABLE test.waited (a INT PRIMARY KEY, b INT)")
    job = submitted(port, "SET exuvia_ddl_hold = 'public'; ALTER TABLE test.waited ADD INDEX (b)")
    waited = exuvia("ddl", "wait", port, job, "999999", "--timeout", "1", "-ojson")
    [(_, state, _), (missing, _, error)] = outcome(waited)
    assert waited.returncode == 1
    assert state in ("running", "held") and missing == "999999" and error.startswith("error: ")
    assert exuvia("ddl", "complete", port, job, "--all").returncode == 2
    assert exuvia("ddl", "complete", port, "--all").returncode == 0
    assert exuvia("ddl", "wait", port, job).returncode == 0


def test_a_group_is_made_listed_completed_and_cancelled(node: NodeProcess) -> None:
    port = f"-P{node.port}"
    exuvia("sql", port, "CREATE TABLE test.grouped (a INT PRIMARY KEY, b INT)")
    for name, verb in (("rel 1", "complete"), ("rel`2", "cancel")):
        assert exuvia("ddl", "group", "create", port, name).returncode == 0
        join = f"SET exuvia_ddl_group = '{name}'; ALTER TABLE test.grouped ADD INDEX {verb} (b)"
        job = submitted(port, join)
        assert job in exuvia("ddl", "group", "ls", port).stdout
        done = exuvia("ddl", "group", verb, port, name, "-ojson")
        assert (done.returncode, outcome(done)) == (0, [(job, "successful")])
        ended = exuvia("ddl", "wait", port, job)
        assert ended.returncode == (verb == "cancel"), ended.stdout
    created = exuvia("sql", port, "SHOW CREATE TABLE test.grouped").stdout
    assert "`complete`" in created and "`cancel`" not in created
    missing = exuvia("ddl", "group", "complete", port, "none")
    assert missing.returncode == 1 and missing.stderr.startswith("ERROR 1105")


def test_a_password_comes_from_a_file_or_the_environment(
    node: NodeProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port, file = f"-P{node.port}", tmp_path / "password"
    exuvia("sql", port, "CREATE USER operator IDENTIFIED BY 'se cret'")
    file.write_text("se cret\nnot this\n")
    login = ("sql", port, "-u", "operator", "SELECT CURRENT_USER()")
    denied = exuvia(*login)
    assert denied.returncode == 1 and denied.stderr.startswith("ERROR 1045")
    assert "operator@%" in exuvia(*login, "--password-file", str(file)).stdout
    monkeypatch.setenv("EXUVIA_PASSWORD", "se cret")
    assert "operator@%" in exuvia(*login).stdout
    file.write_text("wrong")
    assert exuvia(*login, "--password-file", str(file)).returncode == 1  # the file counts
    missing = exuvia(*login, "--password-file", str(tmp_path / "none"))
    assert missing.returncode == 2


def test_an_answer_is_printed_as_markdown(node: NodeProcess) -> None:
    done = exuvia("sql", f"-P{node.port}", "-omarkdown", "SELECT 'a|b' AS x, NULL AS y")
    assert done.stdout == "| x | y |\n| --- | --- |\n| a\\|b | NULL |\n"
