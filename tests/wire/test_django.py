"""A Django site with its admin and PyMySQL: migrated forward and back, used, inspected.

The site is `tests/wire/django_site`; commands run in processes of their own.
The database ignores case, as Django expects of MySQL. It is one for all tests, in their order.
"""

import os
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest

from support.node_processes import NodeProcess

SITE = Path(__file__).parent / "django_site"


class Site:
    """The site with a database of its own."""

    def __init__(self, node: NodeProcess, database: str) -> None:
        with node.connect() as connection:
            connection.query(f"CREATE DATABASE {database} COLLATE utf8mb4_general_ci")
        self.node = node
        self.database = database
        self._environment = os.environ | {
            "DJANGO_SETTINGS_MODULE": "settings",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": str(SITE),
            "SHOP_DATABASE": database,
            "SHOP_PORT": str(node.port),
        }

    def manage(self, *commands: str) -> str:
        """Run Django commands in one process. Returns their output; all must succeed."""
        return self.python("commands.py", *commands)

    def python(self, *arguments: str) -> str:
        """Run Python in a process with the site's settings. Returns its output; it must succeed."""
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=SITE, env=self._environment, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    def rows(self, text: str) -> list[tuple[object, ...]]:
        """The rows of a query by another client."""
        with self.node.connect(self.database) as connection, connection.cursor() as cursor:
            cursor.execute(text)
            return list(cursor.fetchall())


@pytest.fixture(scope="module")
def site(node: NodeProcess) -> Site:
    return Site(node, "django_shop")


def test_migrations_run_forward_back_and_forward(site: Site) -> None:
    site.manage("migrate shop first")
    with site.node.connect(site.database, autocommit=True) as connection:
        connection.query("INSERT INTO shop_author (name, email) VALUES ('Bob', 'b@x')")
        connection.query("INSERT INTO shop_tag (word) VALUES ('old')")
    output = site.manage("migrate", "makemigrations --check --dry-run", "check --database default")
    assert "Applying shop.second... OK" in output
    assert "No changes detected" in output
    assert site.rows("SELECT full_name, bio FROM shop_author") == [("Bob", "Bob wrote.")]
    assert site.rows("SELECT slug, parent_id FROM shop_label") == [("old", None)]
    assert "Unapplying shop.second... OK" in site.manage("migrate shop first")
    assert site.rows("SELECT name FROM shop_author") == [("Bob",)]
    assert site.rows("SELECT word FROM shop_tag") == [("old",)]
    assert "Applying shop.second... OK" in site.manage("migrate", "flush --no-input")


INSPECTED = (
    "author = models.ForeignKey('ShopAuthor', models.DO_NOTHING)",
    "parent = models.ForeignKey('self', models.DO_NOTHING, blank=True, null=True)",
    "price = models.DecimalField(max_digits=8, decimal_places=2)",
    "email = models.CharField(unique=True, max_length=254, blank=True, null=True)",
    "meta = models.JSONField()",
    "pages = models.PositiveIntegerField()",
    "('author', 'title', 'pages')",
)


def test_an_application_works_is_inspected_dumped_and_loaded(site: Site, tmp_path: Path) -> None:
    site.python("exercise.py")
    query = "SELECT title, cost, HEX(raw), meta FROM shop_book"
    book = ("One", Decimal("7.50"), "00FF", '{"k": [1, {"z": null}], "s": "x"}')
    assert site.rows(query) == [book]
    dump = f"dumpdata shop auth.user --output {tmp_path / 'shop.json'}"
    output = site.manage("inspectdb shop_book shop_author shop_label", dump, "flush --no-input")
    for line in INSPECTED:
        assert line in output, output
    assert site.rows(query) == []
    assert site.manage(f"loaddata {tmp_path / 'shop.json'}").startswith("Installed ")
    assert site.rows(query) == [book]


@pytest.mark.long
def test_migrations_run_back_to_nothing(site: Site) -> None:
    apps = ("shop", "admin", "auth", "sessions", "contenttypes")
    site.manage(*(f"migrate {app} zero" for app in apps))
    assert site.rows("SHOW TABLES") == [("django_migrations",)]
