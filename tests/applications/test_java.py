"""Flyway, Liquibase and Hibernate's hbm2ddl, by MySQL Connector/J."""

import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from support.applications import SITES, Database, agree

pytestmark = [pytest.mark.long, pytest.mark.application("java")]

Use = Callable[..., str]


@pytest.fixture
def use(application: Path, databases: Sequence[Database]) -> Use:
    """Run one of the classes with words; what it printed on both."""
    shutil.copytree(SITES / "java", application, dirs_exist_ok=True)

    def use(program: str, *words: str, differs: str = "^$") -> str:
        def run(each: Database) -> str:
            classes = application / "classes" / program
            if not classes.exists():
                compiler = ("javac", "-nowarn", "-cp", "lib/*", "-d", str(classes))
                each.run(*compiler, f"{program}.java", folder=application)
            options = "useSSL=false&allowPublicKeyRetrieval=true&connectionTimeZone=UTC"
            url = f"jdbc:mysql://127.0.0.1:{each.port}/{each.name}?{options}"
            java = ("java", "-cp", f"lib/*:{classes}", program, url, *words)
            said = each.run(*java, folder=application)
            return re.sub(r"\S*\d:\d+\S*|Rows affected.*", "", said)

        said: str = agree(databases, run, differs)
        return said

    shutil.rmtree(application / "classes", ignore_errors=True)
    return use


def test_flyway(use: Use) -> None:
    assert use("UseFlyway", "migrate") == "4\n"
    assert "3 SUCCESS" in use("UseFlyway", "validate")
    use("UseFlyway", "clean")


def test_hibernate(use: Use) -> None:
    # Hibernate gives CHECKs to a server that it takes for MySQL 8.0.16
    for step in ("create", "update", "validate"):
        use("UseHibernate", step, differs=r"\('person', 1\)")
    assert "Book 2" in use("UseHibernate", "use", differs=r"\('person', 1\)")
    use("UseHibernate", "drop")


def test_liquibase(use: Use) -> None:
    # NVARCHAR is MySQL's utf8; Liquibase gives MySQL 8 no display width
    differs = "'street'|'tinyint"

    def step(*words: str) -> str:
        return use("UseLiquibase", "changes.xml", *words, differs=differs)

    step("update")
    assert "Column remark" in step("snapshot")
    step("rollback", "6")
    step("update")
    step("clean")
