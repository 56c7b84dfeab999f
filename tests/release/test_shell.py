"""At a shell: the manual page, and completion by bash, zsh and fish."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.installed import exuvia
from support.node_processes import ROOT

PROGRAM = Path(sys.executable).parent / "exuvia"


def test_the_manual_page_has_each_command() -> None:
    page = exuvia("man")
    for command in ("exuvia serve", "exuvia ddl ls", "exuvia config show", "exuvia bundle TO"):
        assert f"\n.SS {command}\n" in page, command
    assert ".B \\-\\-status\\-port\n" in page and "EXUVIA_STORE" in page
    man = shutil.which("man")
    if man is None:
        print("the page: not set here, there is no man")
        return
    done = subprocess.run(
        [man, "--warnings=w", "-l", "-"],
        input=page,
        capture_output=True,
        text=True,
        env=os.environ | {"MANWIDTH": "90", "LC_ALL": "C.UTF-8", "MAN_KEEP_FORMATTING": ""},
    )
    assert done.returncode == 0 and not done.stderr, done.stderr
    assert "exuvia config show" in done.stdout and "--drain-s" in done.stdout


def complete(**environment: str) -> str:
    own = {name: value for name, value in os.environ.items() if not name.startswith("EXUVIA_")}
    done = subprocess.run(
        [str(PROGRAM)],
        env=own | {"PYTHONPATH": str(ROOT / "src")} | environment,
        capture_output=True,
        text=True,
    )
    return done.stdout + done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_is_given_its_script(shell: str) -> None:
    script = complete(_EXUVIA_COMPLETE=f"source_{shell}")
    assert f"complete_{shell}" in script and "exuvia" in script


def test_commands_and_options_are_completed() -> None:
    words = {"_EXUVIA_COMPLETE": "complete_bash", "COMP_CWORD": "1"}
    assert "config" in complete(COMP_WORDS="exuvia con", **words).split()
    words["COMP_CWORD"] = "2"
    assert "--status-host" in complete(COMP_WORDS="exuvia serve --stat", **words).split()
