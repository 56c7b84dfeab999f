"""A site of Django: its applications' migrations up, used, some of them down, and up again."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from support.applications import SITES, Database, agree

DIFFERS = (
    r"'uuid'|'char\(32\)'"  # MariaDB has a type for UUIDs
    # MySQL drops the index made for a foreign key when another serves it, TiDB does not
    r"|_fk_\w+', 1, '\w+', 1, None|_user_id_2c513194'"
    # on MySQL, Django leaves the DEFAULT that it gave to an added column of texts or JSON
    "|'(headers|resource|settings)'"
)


@pytest.mark.long
@pytest.mark.application("django")
def test_django(application: Path, databases: Sequence[Database]) -> None:
    shutil.copytree(SITES / "django", application, dirs_exist_ok=True)

    def says(*words: str) -> str:
        said: str = agree(
            databases,
            lambda each: each.run("venv/bin/python", *words, folder=application),
            DIFFERS,
        )
        return said

    def manage(*words: str) -> str:
        return says("-m", "django", *words, "--settings=settings")

    assert "oauth2_provider.0001_initial... OK" in manage("migrate", "--no-color")
    used = manage("shell", "--no-imports", "-c", "import use; use.run()")
    assert "('r1', None)" in used
    for name, target in (
        ("oauth2_provider", "zero"),
        ("django_celery_beat", "0009"),
        ("account", "0002"),
    ):
        manage("migrate", name, target, "--no-color")
    manage("migrate", "--no-color")
