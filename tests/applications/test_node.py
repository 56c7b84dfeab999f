"""Sequelize, Knex, TypeORM and MikroORM: each makes tables, changes them, asks them what they are,
uses and removes them."""

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from support.applications import SITES, Database, agree

pytestmark = [pytest.mark.long, pytest.mark.application("node")]


@pytest.fixture
def folder(application: Path) -> Path:
    """The programs, beside the packages that they load."""
    shutil.copytree(SITES / "node", application, dirs_exist_ok=True)
    return application


def test_sequelize(folder: Path, databases: Sequence[Database]) -> None:
    def says(*words: str, place: str = ".") -> str:
        def run(each: Database) -> str:
            return re.sub(r"\([\d.]+s\)", "", each.run(*words, folder=folder / place))

        said: str = agree(databases, run)
        return said

    command = "../node_modules/.bin/sequelize-cli"
    assert "2-second: migrated" in says(command, "db:migrate", place="sequelize")
    assert "u3@example.com" in says("node", "sequelize/use.js")
    assert "1-first: reverted" in says(command, "db:migrate:undo:all", place="sequelize")


@pytest.mark.parametrize(
    ("program", "steps"),
    [
        pytest.param("knex.js", ("up", "use", "down"), id="knex"),
        pytest.param("typeorm.js", ("first", "second", "use", "down"), id="typeorm"),
        pytest.param("mikroorm.js", ("first", "second", "use", "down"), id="mikroorm"),
    ],
)
def test_programs(
    folder: Path, databases: Sequence[Database], program: str, steps: Sequence[str]
) -> None:
    for step in steps:
        agree(databases, lambda each, s=step: each.run("node", program, s, folder=folder))
