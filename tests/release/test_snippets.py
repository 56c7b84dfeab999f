"""Every fenced snippet of README.md and docs/ is run as it stands there, page by page, in order.

    ```sql           by a client of the page's node; `-- refused: 1062` before one that has to be
    ```sh            by bash, each command with exit code 0, or N behind `# ends with N`
    ```python        by a process of its own; `print(...)  # this` has to print this
    ```toml          read by `exuvia config show`
    ```text output   what the last statement or command before it prints: the same head, or for
    ```json output   lines of JSON the same keys and `op`
    ```sh no-run why not run here; `test_what_is_not_run_says_why` lists and counts them

Names of hosts, ports and folders are the reader's: `Page.here` has this machine's instead. Number
57 or 71 of a job stands for the newest one. What a page takes for granted is in PREPARED.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pymysql
import pytest

from exuvia.cli.client import Rows, table
from exuvia.server.statements import split
from support.node_processes import ROOT, NodeProcess, until
from support.postgres import free_port, own_server

PAGES = ("README.md", *sorted(f"docs/{each.name}" for each in (ROOT / "docs").glob("*.md")))
RUN = ("sql", "sh", "python", "toml")
SHOWN = ("text", "json", "yaml", "{toctree}")
MOMENT = "2026-11-25 10:00:00"
BOUND_S = 240


class Snippet(NamedTuple):
    """A fenced block. `line` is the one of its fence, counted from 1."""

    page: str
    line: int
    language: str
    mark: str
    text: str

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def has_spark(self) -> bool:
        return self.language == "python" and re.search(r"\bspark\b", self.text) is not None

    @property
    def runs(self) -> bool:
        return self.language in RUN and not self.mark


def snippets(page: str) -> list[Snippet]:
    found, text = [], (ROOT / page).read_text()
    for each in re.finditer(r"^```(\S*) ?(.*)\n((?:.*\n)*?)```$", text, re.MULTILINE):
        line = text.count("\n", 0, each.start()) + 1
        found.append(Snippet(page, line, each[1], each[2], each[3]))
    return found


# -- what pages take for granted -------------------------------------------------------------------

ORDERS = (
    "CREATE DATABASE IF NOT EXISTS shop",
    "CREATE TABLE shop.orders (id BIGINT PRIMARY KEY, customer INT, day DATE, note VARCHAR(20),"
    " total DECIMAL(8, 2), KEY (customer))",
    "INSERT INTO shop.orders VALUES (1, 3, '2026-11-25', 'a', 9.50), (901, 5, NULL, 'b', 1)",
)
SPARK = """
import os, sys
os.environ["PYSPARK_PYTHON"] = sys.executable
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
"""


class Prepared(NamedTuple):
    """Of a page: the store whose node runs before its first snippet ("": it starts one itself),
    statements for that node (or for the first that it starts), PostgreSQL's databases, and what
    stands before each of its snippets in Python."""

    store: str = ""
    statements: tuple[str, ...] = ()
    databases: tuple[str, ...] = ()
    python: str = ""


LOGGED = "ALTER TABLE shop.orders EXUVIA_CHANGE_LOG = ON"
PREPARED = {
    "README.md": Prepared(python=SPARK),
    "docs/tour.md": Prepared(),
    "docs/operations.md": Prepared(
        statements=(*ORDERS, "CREATE TABLE shop.items (id INT PRIMARY KEY)",
                    "CREATE TABLE shop.clients (id INT PRIMARY KEY, name VARCHAR(20))"),
    ),
    "docs/change-log.md": Prepared(
        "postgresql://exuvia@db1/app",
        (*ORDERS, "CREATE TABLE shop.t (id INT PRIMARY KEY)",
         "CREATE TABLE shop.a (id INT PRIMARY KEY)", "CREATE TABLE shop.b (id INT PRIMARY KEY)",
         LOGGED, *(f"ALTER TABLE shop.{each} EXUVIA_CHANGE_LOG = ON" for each in "ab"),
         "INSERT INTO shop.a VALUES (1)", "INSERT INTO shop.b VALUES (1)",
         *(f"SELECT 1 FROM shop.{each} AS OF TIMESTAMP NOW() - INTERVAL 1 SECOND"
           for each in ("orders", "a", "b"))),
        ("app",), SPARK,
    ),
    "docs/concepts.md": Prepared(
        "lmdb:///tmp/exuvia",
        ("CREATE DATABASE shop", "CREATE TABLE shop.t (id INT PRIMARY KEY, j JSON)"),
    ),
    "docs/security.md": Prepared("lmdb:///tmp/exuvia"),
    "docs/ci.md": Prepared("lmdb:///tmp/exuvia", (
        "CREATE DATABASE shop",
        "CREATE TABLE shop.customer (id bigint PRIMARY KEY AUTO_INCREMENT,"
        " city varchar(20) NOT NULL DEFAULT '')",
    )),
    "docs/clients.md": Prepared(
        "lmdb:///tmp/exuvia",
        (*ORDERS, "CREATE TABLE shop.lines (id INT PRIMARY KEY)"),
        (), SPARK,
    ),
    "docs/spark.md": Prepared(
        "lmdb:///tmp/exuvia", ORDERS, (), f"{SPARK}\nurl = 'lmdb:///tmp/exuvia'\n",
    ),
    "docs/limits.md": Prepared("lmdb:///tmp/exuvia"),
    "docs/tuning.md": Prepared("lmdb:///tmp/exuvia", ORDERS),
    "docs/stores.md": Prepared(databases=("app",)),
    "docs/declarative.md": Prepared("lmdb:///tmp/exuvia", (
        "CREATE DATABASE shop",
        "CREATE TABLE shop.customer (id bigint PRIMARY KEY AUTO_INCREMENT, city varchar(20))",
        "CREATE TABLE shop.sale (id bigint PRIMARY KEY, customer bigint, at timestamp NULL,"
        " CONSTRAINT who FOREIGN KEY (customer) REFERENCES shop.customer (id))",
    )),
}  # fmt: skip

LATER = (datetime.now(UTC).hour + 6) % 24
WAITING = (
    "SET exuvia_ddl_async = ON",
    f"SET exuvia_ddl_window = '{LATER:02}:00-{LATER:02}:30'",
    "ALTER TABLE shop.orders ADD INDEX later (note)",
)
BEFORE: dict[str, dict[str, tuple[str, ...]]] = {
    "README.md": {
        "ADMIN PAUSE DDL JOBS": WAITING,
        "ADMIN RESUME DDL JOBS": ("SELECT 1 FROM ddl_jobs WHERE state = 'paused'",),
    },
    "docs/tuning.md": {"ADMIN ALTER DDL JOBS": WAITING},
    "docs/operations.md": {
        "ADMIN END UNDO": (
            "SET exuvia_undo_s = 3600",
            "ALTER TABLE shop.orders DROP COLUMN total",
        ),
        "ADMIN CANCEL DDL GROUP": (
            "SELECT 1 FROM (SELECT COUNT(*) AS n FROM exuvia_ddl_groups) AS g WHERE n = 0",
            "ADMIN CREATE DDL GROUP release_7",
        ),
    },
}
"""By another client, before the statement of a page that begins so: the case that it is for. A
query is asked until it has a row."""

SHELL_BEFORE = {
    "exuvia move": (
        "createdb -h db1 -U exuvia shop",
        'python -c "from exuvia.catalog.bootstrap import bootstrap; from exuvia.kv.store import'
        " open_store; store = open_store('lmdb:///data/shop'); bootstrap(store); store.close()\"",
    ),
}
"""By the same shell, before the command that begins so."""

MEANWHILE = {"docs/change-log.md": "UPDATE shop.orders SET total = total + 2.5 WHERE id = 1"}
"""By another client, again and again while the page's commands run."""

SAID = {
    "exuvia doctor --store": r"warning server +synchronous_standby_names is empty",
    "exuvia ddl ls": r"add index[^\n]*synced",
    'exuvia sql -P 4001 "ADMIN SHOW DDL NODES"': r"(?s)(?=.*0\.1:4000)(?=.*0\.1:4001)",
    "exuvia schema diff shop.sql -D shop --exit-code": r"^$",
    "exuvia schema diff shop.sql -D shop": r"MODIFY COLUMN `city` varchar\(40\) DEFAULT NULL;",
    "exuvia schema apply": r"MODIFY COLUMN `city` varchar\(40\) DEFAULT NULL;",
    "exuvia schema history shop.customer --at": r"`city` varchar\(40\)",
    "exuvia schema lint": "has_foreign_key",
    ".venv/bin/exuvia ddl feed": r'"kind": "',
    "exuvia backup verify": "is whole: as of",
}
"""What commands that begin so have to say, besides ending well: the longest beginning counts."""

AFTER = {
    'create_engine(\n    "mysql+pymysql': (
        "with engine.connect() as held:\n"
        "    text = sqlalchemy.text('SELECT @@exuvia_compatibility')\n"
        "    assert held.scalar(text) == 'mysql'\n"
    ),
    "DATABASES = {": (
        "import django\n"
        "from django.conf import settings\n"
        "settings.configure(DATABASES=DATABASES)\n"
        "django.setup()\n"
        "from django.db import connection\n"
        "connection.ensure_connection()\n"
        "assert connection.vendor == 'mysql'\n"
    ),
    'option("feed", "rows")': "assert '_change_type' in changes.columns, changes.columns\n",
    'option("feed", "ddl")': (
        "assert (globals().get('changes') or schema_changes).isStreaming\n"
        "assert (globals().get('rows') or orders).count() == 2\n"
    ),
    "recent = orders": "assert [each.count() for each in (recent, wanted, nobody)] == [1, 2, 0]\n",
    "one_moment(": "assert spark.read.parquet('/backups/orders').count() == 2\n",
}  # fmt: skip
"""What has to hold behind a snippet of Python that has this in it."""


# -- running them ----------------------------------------------------------------------------------

READY = """
ready() {
  for _ in $(seq 600); do
    python -c "import urllib.request as u; u.urlopen('http://127.0.0.1:$1/readyz')" 2>/dev/null && return
    kill -0 $! || return 1
    sleep 0.1
  done
  return 1
}
says() {
  for _ in $(seq 600); do
    [ "$(wc -l < "$1")" -ge "$2" ] && return
    sleep 0.1
  done
  return 1
}
set -em
"""  # noqa: E501
ENDLESS = re.compile(r" changes | ddl feed --follow")
JOB = re.compile(r"(?<=\bJOB )(?:57|71)\b|(?<=\bJOBS )(?:57|71)\b")


def has_row(cursor: Any, query: str) -> bool:
    """Whether it has one by now. A look back may be refused until there is a moment to look at."""
    try:
        return bool(cursor.execute(query))
    except pymysql.MySQLError as error:
        if error.args[0] != 8055:
            raise
        return False


class Page:
    """Runs a page's snippets in a folder; `end` has to be called at last."""

    def __init__(self, name: str, folder: Path, postgres: str) -> None:
        self.name, self.folder = name, folder
        self.ports = {each: str(free_port()) for each in ("4000", "4001", "10081", "10082")}
        self.here = (
            *((rf"\b{port}\b", own) for port, own in self.ports.items()),
            (r"-h db1 -U exuvia", f"-h 127.0.0.1 -p {postgres.rpartition(':')[2]} -U postgres"),
            (r"\w+@db1(?:,db2)?(?::5432)?/", f"{postgres}/"),
            (r"sslmode=verify-full", "sslmode=disable"),
            (r"INTERVAL 5 MINUTE", "INTERVAL 0 SECOND"),  # a page's tables are younger
            (r"\b0\.0\.0\.0\b", "127.0.0.1"),
            (r"(?<![\w.])/(?=(?:tmp|data|backups|var/lib)/)", f"{folder}/"),
        )
        self.postgres = postgres
        self.prepared = PREPARED.get(name, Prepared())
        self.is_prepared = False
        self.port = 0
        self.database: str | None = None
        self.last = ""  # what was printed last
        self.nodes: list[NodeProcess] = []
        self.shells: list[int] = []
        for each in ("tmp", "data", "backups", "var/lib/copy"):
            (folder / each).mkdir(parents=True, exist_ok=True)
        if not (folder / ".venv").exists():
            (folder / ".venv").symlink_to(sys.prefix)
        self.environment = os.environ | {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT / "src"),
            "HOME": str(folder),
            "NO_COLOR": "1",
            "EXUVIA_PORT": self.ports["4000"],
            "EXUVIA_SERVE_PORT": self.ports["4000"],
            "EXUVIA_SERVE_STATUS_PORT": self.ports["10081"],
        }

    def localized(self, text: str) -> str:
        for there, own in self.here:
            text = re.sub(there, own, text)
        return text

    def begin(self) -> None:
        if self.prepared.store:
            store, port = self.localized(self.prepared.store), self.ports["4000"]
            node = NodeProcess(store, self.folder / "node.log", options=("--port", port))
            self.nodes.append(node)
            self.serve(node.wait_ready().port)

    def serve(self, port: int) -> None:
        """From here on statements go to that port."""
        self.port = port
        if not self.is_prepared:
            self.is_prepared = True
            self.by_another_client(self.prepared.statements)
            if self.prepared.statements:
                self.database = "shop"

    def client(self) -> Any:
        return pymysql.connect(
            host="127.0.0.1", port=self.port, user="root", database=self.database,
            autocommit=True, read_timeout=BOUND_S,
        )  # fmt: skip

    def by_another_client(self, statements: Sequence[str]) -> None:
        with self.client() as connection, connection.cursor() as cursor:
            for each in statements:
                if each.startswith("SELECT "):
                    cursor.execute("USE information_schema")
                    until(lambda each=each: has_row(cursor, each))
                else:
                    cursor.execute(each)

    def run(self, each: Snippet, following: Snippet | None) -> None:
        getattr(self, f"run_{each.language}")(each, following)

    # SQL ------------------------------------------------------------------------------------------

    def run_sql(self, snippet: Snippet, _: Snippet | None) -> None:
        with self.client() as connection, connection.cursor() as cursor:
            cursor.execute("SELECT CAST(NOW() AS CHAR)")
            written = snippet.text.replace(MOMENT, cursor.fetchone()[0])
            for text in map(str.strip, split(written)):
                bare = re.sub(r"^(?:--.*\n\s*)+", "", text)
                for beginning, statements in BEFORE.get(self.name, {}).items():
                    if bare.startswith(beginning):
                        self.by_another_client(statements)
                refused = re.search(r"^-- refused: (\d+)$", text, re.MULTILINE)
                code, self.last = self.executed(cursor, self.localized(bare))
                expected = int(refused[1]) if refused else 0
                assert code == expected, (snippet.place, text, self.last)
            cursor.execute("SELECT DATABASE()")
            self.database = cursor.fetchone()[0]

    def executed(self, cursor: Any, text: str) -> tuple[int, str]:
        """Its error or 0, and its answer as `exuvia sql` prints it."""
        if JOB.search(text):
            view = "exuvia_inspect_jobs" if " INSPECT " in text else "ddl_jobs"
            cursor.execute(f"SELECT MAX(job_id) FROM information_schema.{view}")
            text = JOB.sub(str(cursor.fetchone()[0]), text)
        try:
            cursor.execute(text)
        except pymysql.MySQLError as error:
            return error.args[0], str(error)
        names = [each[0] for each in cursor.description or ()]
        rows = cursor.fetchall()
        if text.startswith("ADMIN "):
            # an inspection of so few rows may have ended before somebody cancels it
            said = [str(cell) for row in rows for cell in row if "has ended" not in str(cell)]
            assert not any("error" in each for each in said), (text, rows)
        return 0, table(Rows(names, rows, 0)) if names else ""

    # the shell ------------------------------------------------------------------------------------

    def run_sh(self, snippet: Snippet, following: Snippet | None) -> None:
        lines = following.text.count("\n") if following and following.mark == "output" else 1
        commands = [each for each in snippet.text.splitlines() if each.strip()]
        script = [READY]
        for number, command in enumerate(commands):
            for beginning, before in SHELL_BEFORE.items():
                if command.startswith(beginning):
                    script += map(self.localized, before)
            script += [f"echo @@{number}", *self.shell_lines(command, lines)]
        process = subprocess.Popen(
            ["bash", "-c", "\n".join(script)],
            cwd=self.folder, env=self.environment, text=True, stdin=subprocess.DEVNULL,
            stdout=(self.folder / "said").open("w"), stderr=(self.folder / "errors").open("w"),
            start_new_session=True,
        )  # fmt: skip
        self.shells.append(process.pid)
        self.wait(process)
        said = (self.folder / "said").read_text()
        told = said[-2000:] + (self.folder / "errors").read_text()[-3000:]
        if (self.folder / "nodes").exists():
            told += (self.folder / "nodes").read_text()[-2000:]
        assert process.returncode == 0, (snippet.place, told)
        parts = re.split(r"^@@\d+\n", said, flags=re.MULTILINE)[1:]
        for command, part in zip(commands, parts, strict=True):
            wanted = max((each for each in SAID if command.startswith(each)), key=len, default="")
            pattern = self.localized(SAID.get(wanted, ""))
            assert re.search(pattern, part), (snippet.place, command, part)
        self.last = parts[-1]
        served = [each for each in map(self.localized, commands) if "exuvia serve " in each]
        if served:  # the last node of a block is there when it ends
            port = re.search(r" --port (\d+)", served[-1])
            self.serve(int(port[1] if port else self.ports["4000"]))

    def shell_lines(self, command: str, lines: int) -> Iterator[str]:
        command, served = self.localized(command), " serve " in command
        code = re.search(r"# ends with (\d+)", command)
        if served:
            port = re.search(r"--status-port (\d+)", command)
            yield f"{command.removesuffix('&')} >>nodes 2>&1 &"
            yield f"ready {port[1] if port else self.ports['10081']}"
        elif ENDLESS.search(command):
            yield f"{command.partition(' #')[0]} >lines &"
            yield f"says lines {lines}; kill %+; wait %+ || true; cat lines"
        elif code:
            yield f"code=0; {command.partition(' #')[0]} || code=$?; [ $code -eq {code[1]} ]"
        else:
            yield command
            if command.startswith("kill -TERM %"):
                yield f"wait {command.split()[-1]}"

    def wait(self, process: "subprocess.Popen[str]") -> None:
        for _ in range(BOUND_S * 5):
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.2)
                return
            if self.name in MEANWHILE:
                self.by_another_client([MEANWHILE[self.name]])
        process.kill()
        raise AssertionError(
            (self.folder / "said").read_text() + (self.folder / "errors").read_text()
        )

    # Python, settings -----------------------------------------------------------------------------

    def run_python(self, snippet: Snippet, _: Snippet | None) -> None:
        after = [text for part, text in AFTER.items() if part in snippet.text]
        before = self.prepared.python if snippet.has_spark else ""
        file = self.folder / f"{Path(self.name).stem}_{snippet.line}.py"
        file.write_text(self.localized("\n".join([before, snippet.text, *after])))
        done = subprocess.run(
            [sys.executable, str(file)],
            cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=BOUND_S,
        )  # fmt: skip
        assert done.returncode == 0, (snippet.place, done.stderr[-3000:])
        printed = re.findall(r"^\s*print\(.*\)  # (.*)$", snippet.text, re.MULTILINE)
        assert done.stdout.splitlines() == printed, snippet.place

    def run_toml(self, snippet: Snippet, _: Snippet | None) -> None:
        file = self.folder / "exuvia.toml"
        file.write_text(snippet.text)
        done = subprocess.run(
            ["exuvia", "--config", str(file), "config", "show"],
            env=self.environment, capture_output=True, text=True, timeout=BOUND_S,
        )  # fmt: skip
        assert done.returncode == 0, (snippet.place, done.stderr)

    # what is shown --------------------------------------------------------------------------------

    def compare(self, shown: Snippet) -> None:
        """What the page shows has the shape of what came."""
        if shown.language == "json":
            have = [shape(each) for each in self.last.splitlines()]
            assert [shape(each) for each in shown.text.splitlines()] == have[
                : shown.text.count("\n")
            ]
        else:
            head = shown.text.splitlines()[0].split()
            assert head == self.last.splitlines()[0].split(), (shown.place, self.last)

    def end(self) -> None:
        for leader in self.shells:
            listed = subprocess.run(["pgrep", "-s", str(leader)], capture_output=True, text=True)
            for pid in map(int, listed.stdout.split()):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        for node in self.nodes:
            node.kill()


def shape(line: str) -> tuple[Any, ...]:
    found = json.loads(line)
    return (*found, found.get("op"), found["before"] is None, found["after"] is None)


def run_page(name: str, folder: Path, spark: bool) -> int:
    """How many snippets ran."""
    listed, count = snippets(name), 0
    with ExitStack() as stack:
        postgres = ""
        if any("@db1" in each.text for each in listed):
            server = stack.enter_context(own_server("fsync=off"))
            postgres = f"postgres@127.0.0.1:{server.port}"
            for database in PREPARED.get(name, Prepared()).databases:
                server.ask(f"CREATE DATABASE {database}")
        page = Page(name, folder, postgres)
        try:
            page.begin()
            for each, following in zip(listed, [*listed[1:], None], strict=True):
                if each.mark == "output":
                    page.compare(each)
                elif each.runs and (spark or not each.has_spark):
                    began = time.monotonic()
                    page.run(each, following)
                    print(f"{each.place} {each.language} {time.monotonic() - began:.1f} s")
                    count += 1
        finally:
            page.end()
    return count


WITH_SNIPPETS = [page for page in PAGES if any(each.runs for each in snippets(page))]
SHORT = [
    *("README.md", "docs/tour.md", "docs/tuning.md", "docs/change-log.md", "docs/concepts.md"),
]
WITH_SPARK = [
    page for page in PAGES if any(each.runs and each.has_spark for each in snippets(page))
]


@pytest.mark.parametrize("page", SHORT)
def test_the_snippets_of_a_page_run_as_they_stand(page: str, tmp_path: Path) -> None:
    assert run_page(page, tmp_path, spark=False)


@pytest.mark.long
@pytest.mark.parametrize(
    "page", [each for each in WITH_SNIPPETS if each in WITH_SPARK or each not in SHORT]
)
def test_the_snippets_of_each_other_page_and_with_spark(page: str, tmp_path: Path) -> None:
    assert run_page(page, tmp_path, spark=True) == sum(each.runs for each in snippets(page))


def test_what_is_said_of_snippets_is_said_of_some() -> None:
    """A page that changed may leave nothing behind here that no snippet meets."""
    listed = {page: snippets(page) for page in PAGES}
    lines = [line for each in listed.values() for one in each for line in one.text.splitlines()]
    for beginning in (*SAID, *SHELL_BEFORE):
        assert any(line.startswith(beginning) for line in lines), beginning
    for page, cases in BEFORE.items():
        for beginning in cases:
            assert any(beginning in each.text for each in listed[page]), beginning
    for part in AFTER:
        assert any(part in one.text for each in listed.values() for one in each), part
    assert PREPARED.keys() | MEANWHILE.keys() | set(SHORT) <= set(WITH_SNIPPETS)


def test_each_fence_says_what_it_is() -> None:
    wrong = [
        f"{each.place}: {each.language or 'no language'} {each.mark}"
        for page in PAGES
        for each in snippets(page)
        if each.language not in (*RUN, *SHOWN)
        or not (each.mark in ("", "output") or re.fullmatch(r"no-run .{10,}", each.mark))
    ]
    assert not wrong
    for page in PAGES:  # what is indented would be run by nobody
        text = (ROOT / page).read_text()
        assert not re.search(r"\n\n    (?:exuvia|SELECT|SET|ALTER|ADMIN|pip) ", text), page


def test_what_is_not_run_says_why() -> None:
    left = [each for page in PAGES for each in snippets(page) if each.mark.startswith("no-run")]
    run = [each for page in PAGES for each in snippets(page) if each.runs]
    listed = "\n".join(f"{each.place} {each.language} {each.mark}" for each in left)
    print(f"{len(run)} snippets are run, {len(left)} are not:\n{listed}")
    assert len(left) == 12, listed
    assert len(run) > 40
