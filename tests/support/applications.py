"""Real applications, unchanged: installed from their registries, run on two products, compared.

missing(name)      installs it once; why it cannot be, "" where it is there
Database           one database of one product, and the application's programs run on it
agree(databases)   a step on each of them: what it printed, the schema and the numbers of rows are
                   equal, and Exuvia's tables are consistent

An application lies in `.venv/applications/NAME` (or below `EXUVIA_APPLICATIONS`) between runs.
"""

import difflib
import fcntl
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pymysql

from support.node_processes import ROOT

FOLDER = Path(os.environ.get("EXUVIA_APPLICATIONS", ROOT / ".venv" / "applications"))
SITES = ROOT / "tests" / "applications"
INSTALL_S, STEP_S = 300, 180


@dataclass(frozen=True)
class Application:
    """Programs it needs on this machine, and the commands that install it in a folder, which is
    where they run. A change of them installs it anew."""

    needs: tuple[str, ...]
    install: tuple[tuple[str, ...], ...]


def _python(name: str) -> Application:
    """A virtual environment of its own. All packages are in a file beside the tests, in the
    versions of the day when they were pinned."""
    packages = (SITES / name / "requirements.txt").read_text().split()
    venv = (sys.executable, "-m", "venv", "venv")
    return Application((), (venv, ("venv/bin/pip", "install", "-q", "--no-deps", *packages)))


def _npm(before: str, *packages: str) -> Application:
    """What they need is of the day before which all of them came out."""
    flags = ("--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error")
    return Application(
        ("node", "npm"),
        (("npm", "init", "-y"), ("npm", "install", f"--before={before}", *flags, *packages)),
    )


_GOOSE_HAS = "no_clickhouse no_libsql no_mssql no_postgres no_sqlite3 no_vertica no_ydb"


def _go(*programs: str) -> Application:
    """Programs and their build tags in turn, built into `bin`."""
    build = 'GOBIN=$PWD/bin go install -tags "$2" "$1"'
    pairs = zip(programs[::2], programs[1::2], strict=True)
    return Application(("go",), tuple(("sh", "-ec", build, "sh", *pair) for pair in pairs))


SCHEMAS = (
    *("roundcube-mysql", "roundcube-core", "icinga2-ido-mysql", "icingaweb2"),
    *("icingaweb2-module-director", "tt-rss", "request-tracker5", "pdns-backend-mysql"),
    "rsyslog-mysql",
)
"""Packages with files of SQL that make their tables, and change those of older releases."""
_UNPACK = """
apt-get download "$@"
for each in *.deb; do dpkg -x "$each" root; done
rm *.deb
"""
_PHP = """
version=$(php -r 'echo PHP_MAJOR_VERSION.".".PHP_MINOR_VERSION;')
icu=$(apt-cache depends php$version-intl | sed -n 's/.*Depends: \\(libicu[0-9]*\\)$/\\1/p')
apt-get download "$@" $icu php$version-mysql php$version-mbstring php$version-xml php$version-intl
for each in *.deb; do dpkg -x "$each" root; done
rm *.deb
echo display_errors=stderr >php.ini
echo error_reporting=22519 >>php.ini # neither notices nor what is deprecated
for each in mysqlnd mysqli mbstring xml dom xmlreader intl; do
  php -m | grep -qx $each || echo extension=$(ls $PWD/root/usr/lib/php/*/$each.so) >>php.ini
done
"""


def _php(*packages: str) -> Application:
    """Debian's packages, and PHP's extensions that are not there: unpacked and not installed, in
    the version that the machine's sources name, for older ones are not kept there."""
    return Application(("php", "apt-get", "dpkg"), (("sh", "-ec", _PHP, "sh", *packages),))


def _jars(*artifacts: str) -> Application:
    """Archives of a Maven repository in `lib`, without what they depend on."""
    copy = ("mvn", "-q", "-B", "dependency:copy", "-DoutputDirectory=lib")
    return Application(("mvn", "mysql"), tuple((*copy, f"-Dartifact={jar}") for jar in artifacts))


def _debian(package: str) -> Application:
    """A package that is installed on this machine, as sysbench is."""
    return Application(("apt-get",), (("sh", str(ROOT / "tools" / "apt.sh"), package),))


APPLICATIONS = {
    "django": _python("django"),
    "go": _go(
        *("github.com/pressly/goose/v3/cmd/goose@v3.22.1", _GOOSE_HAS),
        *("github.com/golang-migrate/migrate/v4/cmd/migrate@v4.18.1", "mysql"),
    ),
    "java": Application(
        ("mvn", "java", "javac"),
        (
            ("cp", str(SITES / "java" / "pom.xml"), "."),
            ("mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib"),
        ),
    ),
    "mariadb-java": Application(
        ("java", "apt-get", "dpkg"), (("sh", "-ec", _UNPACK, "sh", "libmariadb-java"),)
    ),
    "mydumper": _debian("mydumper"),
    "percona-toolkit": _debian("percona-toolkit"),
    "mediawiki": _php("mediawiki", "mediawiki-classes"),
    "node": _npm(
        "2026-11-01",
        *(
            "sequelize@6.37.8",
            "sequelize-cli@6.6.5",
            "knex@3.3.0",
            "typeorm@1.1.1",
            "mysql2@3.24.6",
        ),
        *("@mikro-orm/core@6.6.16", "@mikro-orm/mysql@6.6.16"),
    ),
    "schemas": Application(("apt-get", "dpkg", "mysql"), (("sh", "-ec", _UNPACK, "sh", *SCHEMAS),)),
    "wagtail": _python("wagtail"),
    "wordpress": _php("wordpress"),
    "workflow": _jars(
        "org.camunda.bpm:camunda-engine:7.21.0",
        "org.activiti:activiti-engine:5.22.0",
        "org.quartz-scheduler:quartz:2.3.2",
    ),
}


def missing(name: str) -> str:
    """Installs it where it is not there yet; why that cannot be, or "". One process at a time."""
    application = APPLICATIONS[name]
    absent = [each for each in application.needs if shutil.which(each) is None]
    if absent:
        return f"{name} needs {', '.join(absent)}, not installed here"
    folder, done = FOLDER / name, FOLDER / f"{name}.installed"
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if done.exists() and done.read_text() == repr(application):
            return ""
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for command in application.install:
            try:
                _run(command, folder, os.environ, INSTALL_S)
            except (AssertionError, subprocess.TimeoutExpired) as failure:
                return f"{name} cannot be installed: {str(failure)[-300:]}"
        done.write_text(repr(application))
        return ""


def _run(command: Sequence[str], folder: Path, environment: Any, limit_s: float) -> str:
    """Its standard output. AssertionError with both streams where it does not end with 0."""
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=limit_s,
    )
    assert done.returncode == 0, f"{command}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout


@dataclass
class Database:
    """One of a product. `own` is Exuvia's."""

    port: int
    name: str
    own: bool

    def run(self, *command: str, folder: Path, limit_s: float = STEP_S, **environment: str) -> str:
        """What a program prints that finds the database by APP_PORT and APP_DATABASE."""
        told = {"APP_PORT": str(self.port), "APP_DATABASE": self.name}
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
        return _run(command, folder, inherited | told | environment, limit_s)

    @contextmanager
    def asked(self) -> Iterator[Callable[[str], list[tuple[Any, ...]]]]:
        """Rows of queries, by a client of the test's own."""
        with (
            pymysql.connect(
                host="127.0.0.1", port=self.port, user="root", database=self.name, autocommit=True
            ) as connection,
            connection.cursor() as cursor,
        ):

            def rows(statement: str) -> list[tuple[Any, ...]]:
                cursor.execute(statement)
                return list(cursor.fetchall())

            yield rows

    def counts(self) -> dict[str, int]:
        """Rows of each table. Each row of Exuvia's has its index entries and fits its types."""
        found = {}
        with self.asked() as rows:
            tables = [name for name, kind in rows("SHOW FULL TABLES") if kind == "BASE TABLE"]
            for table in tables:
                if self.own:
                    rows(f"ADMIN CHECK TABLE `{table}` EXTENDED")
                found[table.lower()] = rows(f"SELECT COUNT(*) FROM `{table}`")[0][0]
        return found


def agree(
    databases: Sequence[Database], step: Callable[[Database], Any], differs: str = "^$"
) -> Any:
    """What the step returned on Exuvia; the other's answer, schema and numbers of rows are equal.
    `differs`: lines of the schema that hold this expression are not compared."""
    answers, counts = [], []
    for database in databases:
        answers.append(step(database))
        counts.append(database.counts())
    own, *others = databases
    for other in others:
        assert answers[0] == answers[1], _unlike(answers)
        assert counts[0] == counts[1], _unlike(counts)
        ours, theirs = schema(own), schema(other)
        for aspect, lines in ours.items():
            unlike = set(lines) ^ set(theirs[aspect])
            told = sorted(map(str, (each for each in unlike if not re.search(differs, str(each)))))
            assert not told, (aspect, told[:20])
    return answers[0]


def _unlike(both: Sequence[object]) -> str:
    """Lines of the first, and of the second where they are others."""
    first, second = (str(each).replace(", '", ",\n'").splitlines() for each in both)
    return "\n".join(islice(difflib.unified_diff(first, second, lineterm=""), 60))


# What information_schema says. MariaDB writes defaults as SQL, keeps JSON as a text with a CHECK,
# and display widths that MySQL 8 has given up; FULLTEXT indexes are not made here (warning 1214).

_COLUMNS = """SELECT table_name, ordinal_position, column_name, column_default, is_nullable,
    column_type, character_set_name, collation_name, extra FROM information_schema.columns
    JOIN information_schema.tables USING (table_schema, table_name)
    WHERE table_schema = DATABASE() AND table_type = 'BASE TABLE'"""
_INDEXES = """SELECT table_name, index_name, seq_in_index, column_name, non_unique, sub_part
    FROM information_schema.statistics
    WHERE table_schema = DATABASE() AND index_type <> 'FULLTEXT'"""
_CONSTRAINTS = """SELECT table_name, constraint_name, constraint_type
    FROM information_schema.table_constraints
    WHERE table_schema = DATABASE() AND constraint_type <> 'CHECK'"""
_KEYS = """SELECT table_name, constraint_name, ordinal_position, column_name,
    referenced_table_name, referenced_column_name FROM information_schema.key_column_usage
    WHERE table_schema = DATABASE()"""
_RULES = """SELECT table_name, constraint_name, REPLACE(update_rule, 'NO ACTION', 'RESTRICT'),
    REPLACE(delete_rule, 'NO ACTION', 'RESTRICT'), unique_constraint_name
    FROM information_schema.referential_constraints WHERE constraint_schema = DATABASE()"""
_CHECKS = """SELECT t.table_name, COUNT(DISTINCT c.constraint_name)
    FROM information_schema.table_constraints t
    JOIN information_schema.check_constraints c USING (constraint_schema, constraint_name)
    WHERE t.constraint_schema = DATABASE() AND t.constraint_type = 'CHECK'
    AND c.check_clause NOT LIKE 'json_valid(%' GROUP BY t.table_name"""
_VIEWS = "SELECT table_name FROM information_schema.views WHERE table_schema = DATABASE()"
_WIDTH = re.compile(r"\b((?:small|medium|big)?int|year)\(\d+\)|\b(tinyint)\((?!1\))\d+\)")


def schema(database: Database) -> dict[str, list[tuple[Any, ...]]]:
    """By aspect, its lines in any order, in the same words for both products."""
    asked = {"indexes": _INDEXES, "constraints": _CONSTRAINTS, "keys": _KEYS, "rules": _RULES}
    asked |= {"checks": _CHECKS, "views": _VIEWS}
    with database.asked() as rows:
        found = {aspect: rows(text) for aspect, text in asked.items()}
        found["columns"] = [_column(*row) for row in rows(_COLUMNS)]
    return {aspect: [_lower(line) for line in lines] for aspect, lines in found.items()}


def _lower(line: tuple[Any, ...]) -> tuple[Any, ...]:
    """Programs choose the case of names by what the server says of their tables' files."""
    return tuple(each.lower() if isinstance(each, str) else each for each in line)


def _column(table: str, place: int, name: str, default: str | None, *rest: Any) -> tuple[Any, ...]:
    nullable, kind, charset, collation, extra = rest
    if kind == "json":
        kind, charset, collation = "longtext", "utf8mb4", "utf8mb4_bin"
    if collation == "utf8mb4_0900_ai_ci":  # the default of utf8mb4: MariaDB has another
        collation = "utf8mb4_general_ci"
    kind = _WIDTH.sub(r"\1\2", kind)
    if default is not None:
        default = re.sub(r"(?i)current_timestamp(\(\))?", "CURRENT_TIMESTAMP", default)
        default = default.replace("\\0", "\0")
        default = (
            None if default == "NULL" else re.sub(r"^'(.*)'$", r"\1", default, flags=re.DOTALL)
        )
    extra = extra.lower().replace("default_generated", "").replace("()", "").strip()
    mb3 = (each and each.replace("utf8mb3", "utf8") for each in (charset, collation))
    return table, place, name, default, nullable, kind, *mb3, extra
