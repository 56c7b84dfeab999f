"""One spelling for one thing: help texts, exit codes and former spellings of all commands."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from exuvia.cli.main import app
from exuvia.cli.program import MEANINGS, OLD_COMMANDS, OLD_OPTIONS, ExitCode, spelled_today
from exuvia.node.supervise import CRASHED
from support.installed import exuvia
from support.node_processes import ROOT
from wire.test_cli import exuvia as in_process

OF_FILES = {"export", "import"}  # whose --format is that of files


def commands() -> Iterator[tuple[str, Any]]:
    def below(command: Any, words: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
        yield " ".join(words), command
        for word, sub in getattr(command, "commands", {}).items():
            yield from below(sub, (*words, word))

    yield from below(typer.main.get_command(app), ())


ALL = dict(commands())


def options(command: Any) -> set[str]:
    return {flag for each in command.params for flag in each.opts if flag.startswith("--")}


def test_no_help_text_names_the_type_of_a_flag() -> None:
    assert len(ALL) > 40
    for words, command in ALL.items():
        done = in_process(*words.split(), "--help")
        assert done.returncode == 0, words
        assert "<bool>" not in done.stdout, words
        assert "--help" in done.stdout, words
        for each in command.params:
            assert each.name == "help" or getattr(each, "help", ""), (words, each.name)


def test_one_thing_has_one_spelling() -> None:
    """What prints rows takes --output; --format is for files; looks have an --interval."""
    for words, command in ALL.items():
        found = options(command)
        assert not found & {"--json", "--every", "--back", "--password"}, words
        assert "--format" not in found or words in OF_FILES, words
        assert ("--user" in found) == ("--password-file" in found) == ("--host" in found) or (
            words == "serve"
        ), words
    for words in ("ddl ls", "ddl group ls", "store stat", "config show", "schema lint", "sql"):
        assert "--output" in options(ALL[words]), words


def test_each_verb_of_sql_is_a_command() -> None:
    verbs = {words.removeprefix("ddl ") for words in ALL if words.startswith("ddl ")}
    assert {
        *("cancel", "pause", "resume", "hold", "complete", "alter", "wait", "undo", "explain"),
        *("group create", "group complete", "group cancel"),
    } <= verbs


def test_exit_codes_are_one_table() -> None:
    assert set(MEANINGS) == set(ExitCode)
    assert {int(each) for each in ExitCode} == {0, 1, 2, 3, 4, CRASHED, 130}
    shown = " ".join(in_process("--help").stdout.split())
    page = in_process("man").stdout
    for code, words in MEANINGS.items():
        assert f"{code} {words}" in shown
        assert f".B {code}\n{words.replace('-', chr(92) + '-')}\n" in page


def test_only_the_table_has_exit_codes() -> None:
    """A number that stands at an exit is one that no table explains."""
    sources = ROOT / "src/exuvia/cli"
    for file in sources.glob("*.py"):
        assert not re.search(r"typer\.Exit\((code=)?\d", file.read_text()), file.name


@pytest.mark.parametrize(
    ("command", "old"), [(c, o) for c, each in OLD_OPTIONS.items() for o in each]
)
def test_a_former_option_is_its_new_spelling(
    command: str, old: str, capsys: pytest.CaptureFixture[str]
) -> None:
    *more, new = OLD_OPTIONS[command][old]
    option = more[0] if more else new
    assert option in options(ALL[command]) and old not in options(ALL[command])
    assert spelled_today(command, ["a", old, "b"]) == ["a", *more, new, "b"]
    note = capsys.readouterr().err
    assert note.startswith(f"exuvia: note: {old} is spelled {' '.join([*more, new])} now")
    if not more:
        assert spelled_today(command, [f"{old}=b"]) == [f"{new}=b"]
    assert spelled_today(command, ["--", old]) == ["--", old]
    assert spelled_today("export", [old]) == [old]


def test_former_spellings_work_with_a_note() -> None:
    assert set(OLD_COMMANDS) == {"verify-backup"}
    said = exuvia("verify-backup", "/nowhere", code=1)
    assert "note: verify-backup is spelled backup verify now" in said and "/nowhere" in said
    said = exuvia("config", "show", "--json", EXUVIA_SERVE_PORT="7")
    settings, _, note = said.rpartition("}\n")
    assert json.loads(settings + "}")["port"]["value"] == 7
    assert note.startswith("exuvia: note: --json is spelled --output json now")


def test_a_backup_says_what_it_lacks() -> None:
    assert "--to is missing" in exuvia("backup", "--store", "lmdb:///nowhere", code=2)
    assert "--store is missing" in exuvia("backup", code=2)


LINTED = "\nCREATE TABLE t (a int, b FLOAT)"


def test_advice_is_printed_for_people_and_for_programs(tmp_path: Path) -> None:
    file = tmp_path / "x.sql"
    file.write_text(LINTED)
    lint = ("schema", "lint", str(file), "-o")
    listed = json.loads(in_process(*lint, "json").stdout)
    assert {each["severity"] for each in listed} == {"error", "warning"}
    for form in ("table", "markdown", "github", "sarif"):
        done = in_process(*lint, form)
        assert done.returncode == ExitCode.ERRORS
        for each in listed:
            assert each["rule"] in done.stdout, form
    lines = in_process(*lint, "github").stdout.splitlines()
    assert len(lines) == len(listed)
    assert lines[0].startswith("::error file=") and ",line=2,title=primary_key::" in lines[0]
    [run] = json.loads(in_process(*lint, "sarif").stdout)["runs"]
    assert {each["level"] for each in run["results"]} == {"error", "warning"}
    assert {each["id"] for each in run["tool"]["driver"]["rules"]} == {x["rule"] for x in listed}
    [place, *_] = run["results"][0]["locations"]
    assert place["physicalLocation"]["region"]["startLine"] == 2
    file.write_text("CREATE TABLE t (a bigint PRIMARY KEY)")
    assert in_process(*lint, "github").stdout == in_process(*lint, "markdown").stdout == ""
    assert json.loads(in_process(*lint, "sarif").stdout)["runs"][0]["results"] == []
