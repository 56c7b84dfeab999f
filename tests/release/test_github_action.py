"""The steps of the GitHub action run in a git repository, as a runner does. Only `gh`, which asks
GitHub, is a program of this test: it writes down its arguments."""

import os
import subprocess
from pathlib import Path

import pytest
import yaml

from support.node_processes import ROOT

ACTION = ROOT / "deploy" / "github-action"
STEPS = {
    step["name"]: step
    for step in yaml.safe_load((ACTION / "action.yml").read_text())["runs"]["steps"]
}
BEFORE = "CREATE TABLE customer (id bigint PRIMARY KEY, city varchar(20));\n"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A branch `main` with shop.sql, checked out."""
    tools = tmp_path / "tools"
    tools.mkdir()
    gh = tools / "gh"
    gh.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/gh.txt\ncp review.md {tmp_path}/sent.md\n')
    gh.chmod(0o755)
    tree = tmp_path / "tree"
    for words in (
        ["init", "-q", "-b", "main", str(tree)],
        ["-C", str(tree), "config", "user.email", "a@example.com"],
        ["-C", str(tree), "config", "user.name", "a"],
    ):
        subprocess.run(["git", *words], check=True)
    (tree / "shop.sql").write_text(BEFORE)
    subprocess.run(["git", "-C", str(tree), "add", "."], check=True)
    subprocess.run(["git", "-C", str(tree), "commit", "-qm", "tables"], check=True)
    return tree


def ran(name: str, repository: Path, **inputs: str) -> subprocess.CompletedProcess[str]:
    """A step, with the values that a runner would put in place of its expressions."""
    step = STEPS[name]
    assert step["shell"] == "bash"
    given = {"file": "shop.sql", "base": "main", "database": "shop", "fail-on": "error", **inputs}
    values = {f"${{{{ inputs.{key} }}}}": value for key, value in given.items()}
    values["${{ github.action_path }}"] = str(ACTION)
    values["${{ github.event.pull_request.number }}"] = "7"
    values["${{ github.token }}"] = "secret"
    env = {key: values[value] for key, value in step["env"].items()}
    path = f"{repository.parent / 'tools'}:{ROOT / '.venv' / 'bin'}:{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-c", step["run"]],
        cwd=repository,
        env={**os.environ, **env, "PATH": path},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_a_change_is_reviewed_and_commented(repository: Path) -> None:
    text = BEFORE.replace("varchar(20)", "varchar(40)") + "CREATE TABLE Sale (a int);\n"
    (repository / "shop.sql").write_text(text)
    done = ran("Review", repository)
    assert done.returncode == 4, done.stderr
    assert "::error file=shop.sql,line=2,title=primary_key::" in done.stdout
    review = (repository / "review.md").read_text()
    assert "ALTER TABLE `customer` MODIFY COLUMN `city` varchar(40)" in review
    assert "CREATE TABLE `Sale`" in review
    assert "| shop.sql:2 | error | primary_key | Sale |" in review
    assert ran("Comment", repository).returncode == 0
    assert (repository.parent / "sent.md").read_text() == review
    assert (repository.parent / "gh.txt").read_text().startswith("pr comment 7 --body-file")


@pytest.mark.parametrize(
    ("text", "fail_on", "code", "said"),
    [
        (BEFORE, "warning", 0, "No table changes."),
        (BEFORE.replace("bigint", "int"), "error", 0, "MODIFY COLUMN `id` int"),
        (BEFORE.replace("bigint", "int"), "warning", 3, "| warning | primary_key |"),
        ("CREATE TABLE customer (id bigint", "error", 1, "They cannot be compared"),
        ("CREATE TABLE customer (id bigint", "never", 0, "They cannot be compared"),
    ],
)
def test_the_job_fails_from_a_severity_on(
    repository: Path, text: str, fail_on: str, code: int, said: str
) -> None:
    (repository / "shop.sql").write_text(text)
    done = ran("Review", repository, **{"fail-on": fail_on})
    assert done.returncode == code, done.stderr
    assert said in (repository / "review.md").read_text()


def test_a_new_file_is_compared_with_nothing(repository: Path) -> None:
    (repository / "new.sql").write_text(BEFORE)
    assert ran("Review", repository, file="new.sql").returncode == 0
    assert "CREATE TABLE `customer`" in (repository / "review.md").read_text()


def test_the_package_of_the_action_is_this_one() -> None:
    text = (ACTION / "action.yml").read_text()
    assert (ACTION / "../..").resolve() == ROOT.resolve()
    assert yaml.safe_load(text)["inputs"]["package"]["default"] == "${{ github.action_path }}/../.."
