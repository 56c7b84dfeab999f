"""Where settings come from: file < environment < flag, and what `exuvia config show` says of it."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from support.few import one_in
from support.installed import exuvia
from support.node_processes import ROOT


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "exuvia.toml"
    path.write_text(
        '[serve]\nstore = "lmdb:///of/the/file"\nport = 1\nfronts = 2\nstatus-host = "0.0.0.0"\n'
    )
    return path


def test_a_flag_beats_the_environment_and_that_beats_the_file(file: Path) -> None:
    said = exuvia(
        *("--config", str(file), "config", "show", "-o", "json", "--fronts", "4"),
        EXUVIA_SERVE_FRONTS="3",
        EXUVIA_SERVE_PORT="2",
        EXUVIA_SPARK_MASTER="local[2]",
    )
    settings = {name: tuple(each.values()) for name, each in json.loads(said).items()}
    assert settings["fronts"] == (4, "flag --fronts")
    assert settings["port"] == (2, "environment EXUVIA_SERVE_PORT")
    assert settings["spark-master"] == ("local[2]", "environment EXUVIA_SPARK_MASTER")
    assert settings["store"] == ("lmdb:///of/the/file", f"file {file}")
    assert settings["status-host"] == ("0.0.0.0", f"file {file}")
    assert settings["status-port"] == (10081, "default")


def test_what_is_shown_is_a_file_of_the_same_meaning(file: Path, tmp_path: Path) -> None:
    shown = exuvia("config", "show", "--drain-s", "2.5", EXUVIA_CONFIG=str(file))
    again = tmp_path / "again.toml"
    again.write_text(shown)
    assert tomllib.loads(shown)["serve"]["drain-s"] == 2.5
    assert exuvia("--config", str(again), "config", "show") == shown


def test_origins_stand_in_a_table_and_secrets_do_not(file: Path) -> None:
    said = exuvia(
        *("--config", str(file), "config", "show", "--origin"),
        EXUVIA_STORE="postgresql://me:s3cr3t@db1/app?password=s3cr3t",
    )
    assert re.search(r"^store .*db1/app.* environment EXUVIA_STORE$", said, re.MULTILINE)
    assert re.search(rf"^port +1 +file {file}$", said, re.MULTILINE)
    assert "s3cr3t" not in said
    assert re.search(r"^store +not set$", exuvia("config", "show", "--origin"), re.MULTILINE)


WRONG = [
    ("[serve]\nprot = 1", "[serve] has no 'prot'; did you mean 'port'?"),
    ("[serve]\nport = 'high'", "'port': Input should be a valid integer"),
    ("[serve]\nfronts = 65", "'fronts': "),
    ("[server]\nport = 1", "only the table [serve] is known, not 'server'"),
    ("port = 1", "only the table [serve] is known, not 'port'"),
    ("[serve", "exuvia.toml: "),
]


@pytest.mark.parametrize(("text", "answer"), one_in(3, WRONG))
def test_a_file_that_says_what_none_knows_is_refused_by_name(
    text: str, answer: str, tmp_path: Path
) -> None:
    path = tmp_path / "exuvia.toml"
    path.write_text(text)
    said = exuvia("--config", str(path), "config", "show", code=2)
    assert answer in said and str(path) in said, said


def test_what_needs_no_settings_runs_beside_a_bad_file(tmp_path: Path) -> None:
    path = tmp_path / "exuvia.toml"
    path.write_text("[serve]\nprot = 1")
    said = exuvia("--config", str(path), "serve", "--store", "memory:", code=2)
    assert "did you mean 'port'?" in said and str(path) in said, said
    assert exuvia("--config", str(path), "--version").startswith("exuvia ")


def test_a_file_that_was_named_has_to_be_there(tmp_path: Path) -> None:
    assert "is not there" in exuvia("--config", str(tmp_path / "no"), "config", "show", code=2)


@pytest.mark.parametrize(
    ("store", "reason"),
    [
        ("memory:", "a store in memory has no other processes"),
        ("nosuch:store", "no store at 'nosuch:store'"),
        ("lmdb://relative", "no store at 'lmdb://relative'"),
    ],
)
def test_a_node_does_not_start_on_a_store_that_its_processes_do_not_share(
    store: str, reason: str
) -> None:
    """A front and a back would have one each, and every change wait for ever. The next step that
    is named is one that `serve` takes."""
    said = exuvia("serve", "--store", store, "--port", "0", "--status-port", "0", code=1)
    assert reason in said and "give lmdb:///path or postgresql://user@host/database" in said
    assert "memory:" not in said.replace("memory: has", "")


def test_a_bad_variable_is_named() -> None:
    said = exuvia("config", "show", EXUVIA_SERVE_PORT="high", code=2)
    assert "environment EXUVIA_SERVE_PORT" in said


def test_a_node_heeds_its_file(tmp_path: Path) -> None:
    path = tmp_path / "exuvia.toml"
    path.write_text(
        f'[serve]\nstore = "lmdb://{tmp_path}/s"\nport = 0\nstatus-port = 0\ndrain-s = 0\n'
    )
    node = subprocess.Popen(
        [sys.executable, "-m", "exuvia.cli.main", "--config", str(path), "serve"],
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert node.stdout is not None
        assert f"store lmdb://{tmp_path}/s" in node.stdout.readline()
    finally:
        node.terminate()
        assert node.wait(60) == 0
