"""WordPress and MediaWiki: installed, used, upgraded, removed, by programs of their own."""

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from support.applications import SITES, Database, agree

pytestmark = [pytest.mark.long]


@pytest.mark.application("wordpress")
def test_wordpress(application: Path, databases: Sequence[Database]) -> None:
    blog = application / "root/usr/share/wordpress"
    shutil.copytree(SITES / "wordpress", blog, dirs_exist_ok=True)

    def use(step: str) -> str:
        command = ("php", "-c", str(application / "php.ini"), "use.php", step)
        said: str = agree(databases, lambda each: each.run(*command, folder=blog))
        return said

    assert "A blog" in use("install")
    assert '"Post 21"' in use("use")
    use("upgrade")
    use("remove")


@pytest.mark.application("mediawiki")
def test_mediawiki(application: Path, databases: Sequence[Database], tmp_path: Path) -> None:
    wiki = application / "root/usr/share/mediawiki"
    _laid_out(wiki)

    def program(name: str, *options: str) -> str:
        """One of MediaWiki's own; times and names of databases taken off."""

        def run(each: Database) -> str:
            folder = tmp_path / str(each.port)
            folder.mkdir(exist_ok=True)
            settings = folder / "LocalSettings.php"
            environment = {
                "LD_LIBRARY_PATH": ":".join(map(str, application.glob("root/usr/lib/*")))
            }
            if settings.exists():
                environment["MW_CONFIG_FILE"] = str(settings)
            command = ["php", "-c", str(application / "php.ini"), name, *options]
            said = each.run(
                *(word.format(port=each.port, name=each.name, folder=folder) for word in command),
                folder=wiki,
                **environment,
            )
            return re.sub(r"[\d.]+ ?(s\b|seconds)", "", said.replace("Dropping index...\n", ""))

        # Where a table says CHARSET=utf8 its collation is TiDB's default, utf8_bin
        said: str = agree(databases, run, differs="'searchindex', ")
        return said

    install = "--dbtype mysql --dbserver 127.0.0.1:{port} --dbname {name} --dbuser root --dbpass= "
    install += "--installdbuser root --confpath {folder} --scriptpath= --server http://localhost "
    install += "--pass secretsecret Wiki Admin"
    program("maintenance/install.php", *install.split())
    assert '"Success"' in program("use.php")
    program("maintenance/update.php", "--quick")
    for each in MAINTENANCE:
        program(*f"maintenance/{each}".split())


MAINTENANCE = (
    "rebuildrecentchanges.php",
    "refreshLinks.php",
    "initSiteStats.php --update --active",
    "deleteArchivedRevisions.php --delete",
    "deleteOldRevisions.php --delete",
    "namespaceDupes.php --fix",
    "removeUnusedAccounts.php --delete",
    "updateCollation.php --force",
    "cleanupTitles.php",
)


def _laid_out(wiki: Path) -> None:
    """Debian's links lead to where it would be installed."""
    for name in ("LocalSettings.php", "config", "extensions", "images"):
        if (wiki / name).is_symlink():
            (wiki / name).unlink()
    (wiki / "extensions").symlink_to("extensions-core")
    for name in ("cache", "images"):
        (wiki / name).mkdir(exist_ok=True)
    shutil.copy(SITES / "mediawiki/use.php", wiki)
