"""Sites of Django: their migrations up, used, and some of them down."""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from support.applications import SITES, Database, agree

DIFFERS = (
    r"'uuid'|'char\(32\)'"  # MariaDB has a type for UUIDs
    # on MySQL, Django leaves the DEFAULT that it gave to an added column of texts or JSON
    "|'(headers|resource|settings|dismissibles)'"
    # MODIFY takes away the CHECK that MariaDB keeps with a column
    r"|\('wagtaildocs_document', \d\)"
)


APPLIED_S = 600


@pytest.fixture
def manage(
    request: pytest.FixtureRequest, application: Path, databases: Sequence[Database]
) -> Callable[..., str]:
    """A command of Django on each database, answered alike."""
    name = request.node.get_closest_marker("application").args[0]
    shutil.copytree(SITES / name, application, dirs_exist_ok=True)

    def run(*words: str) -> str:
        command = ("venv/bin/python", "-m", "django", *words, "--settings=settings")
        said: str = agree(
            databases,
            lambda each: each.run(*command, folder=application, limit_s=APPLIED_S),
            DIFFERS,
        )
        return said

    return run


@pytest.mark.long
@pytest.mark.application("django")
def test_django(manage: Callable[..., str]) -> None:
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


@pytest.mark.long
@pytest.mark.application("wagtail")
def test_wagtail(manage: Callable[..., str]) -> None:
    assert "wagtailcore.0093_uploadedfile... OK" in manage("migrate", "--no-color")
    used = manage("shell", "--no-imports", "-c", "import use; use.run()")
    assert "('/a', 'localhost', 's2')" in used
    assert "Unapplying" in manage("migrate", "wagtailimages", "0023", "--no-color")
