"""goose and golang-migrate: the same three migrations, up and down."""

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from support.applications import SITES, Database, agree

pytestmark = [pytest.mark.long, pytest.mark.application("go")]

ADDRESS = "root@tcp(127.0.0.1:{port})/{name}?multiStatements=true"
SKIPS = "&tidb_skip_isolation_level_check=1"
"""golang-migrate asks for SERIALIZABLE, which is 8048 unless the session says that it need not be
had (docs/isolation.md)."""


@pytest.mark.parametrize(
    ("command", "up", "down"),
    [
        pytest.param(
            ("bin/goose", "-dir", "goose", "mysql", f"{ADDRESS}&parseTime=true"),
            ("up",),
            ("down-to", "0"),
            id="goose",
        ),
        pytest.param(
            ("bin/migrate", "-path", "migrations", "-database", f"mysql://{ADDRESS}{{skips}}"),
            ("up",),
            ("down", "-all"),
            id="migrate",
        ),
    ],
)
def test_go(
    application: Path,
    databases: Sequence[Database],
    command: Sequence[str],
    up: Sequence[str],
    down: Sequence[str],
) -> None:
    shutil.copytree(SITES / "go", application, dirs_exist_ok=True)

    def run(each: Database, words: Sequence[str]) -> str:
        skips = SKIPS if each.own else ""
        facts = {"port": each.port, "name": each.name, "skips": skips}
        asked = [word.format(**facts) for word in (*command, *words)]
        return re.sub(r"[\d.]+m?s\b", "", each.run(*asked, folder=application))

    for words in (up, down, up):
        agree(databases, lambda each, words=words: run(each, words))
