"""Every fenced snippet of README.md and docs/ is run as it stands there, page by page, in order.

    ```sql           by a client of the page's node; `-- refused: 1062` before one that has to be
    ```sh            by bash, each command with exit code 0, or N behind `# ends with N`
    ```python        by a process of its own; `print(...)  # this` has to print this
    ```toml          read by `exuvia config show`
    ```text output   what the last statement or command before it prints: the same head, or for
    ```json output   lines of JSON the same keys and `op`
    ```text demo     lines of `exuvia demo`; tests/release/test_first_contact.py compares them
    ```sh no-run why not run here; `test_what_is_not_run_says_why` lists and counts them

Names of hosts, ports and folders are the reader's: `Page.here` has this machine's instead. Number
57 or 71 of a job stands for the newest one. What a page takes for granted is in PREPARED.

README.md and docs/tour.md are for newcomers, and EXACT:

- One client runs all statements of a page, as a reader would.
- Output is that of the `mysql` client, and is compared whole: tables, `ERROR 1062 (23000): ...`,
  `Query OK ...`. A statement followed by an ERROR has to be refused with it.
- Only what VARIES differs: times, durations, rates, ids, versions. A long ERROR goes on in a second
  line that begins with two spaces.
- A number of a job has to be one that an output of the page shows in JOB_ID.
- How many snippets run, and how many outputs are compared, is asserted.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import pymysql
import pytest

from exuvia.cli.client import Rows, table
from exuvia.server.statements import split
from support.node_processes import ROOT, NodeProcess, until
from support.postgres import free_port, own_server

EXACT = {"README.md": (6, 4), "docs/tour.md": (24, 18)}
"""Snippets that run without Spark, and outputs that are compared."""
PAGES = ("README.md", *sorted(f"docs/{each.name}" for each in (ROOT / "docs").glob("*.md")))
RUN = ("sql", "sh", "python", "toml")
SHOWN = ("text", "json", "yaml", "{toctree}")
MARKS = ("", "output", "demo")
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
    "docs/tour.md": {
        "ALTER TABLE customer ADD INDEX by_remark": (
            "SELECT 1 FROM processlist WHERE info LIKE 'SELECT SLEEP%'",
        ),
        "SELECT job_id, job_type": ("SELECT 1 FROM ddl_jobs WHERE state = 'held'",),
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
        "assert (globals().get('rows') or customers).count() == 2\n"
    ),
    "recent = orders": "assert [each.count() for each in (recent, wanted, nobody)] == [1, 2, 0]\n",
    "pyspark_exuvia.attach(": (
        "assert (big.count(), spark.table('orders').count()) == (0, 2) and jobs.count()\n"
    ),
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
backs() {
  for _ in $(seq 600); do
    [ "$(grep -c '"the back runs"' nodes)" -ge "$1" ] && return
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
        own = sorted(str(free_port()) for _ in range(4))  # nodes are listed by address
        self.ports = dict(zip(("4000", "4001", "10081", "10082"), own, strict=True))
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
        self.is_exact = name in EXACT
        self.compared = self.served = 0
        self.job_ids: dict[str, str] = {}  # that of the page -> that of the job that it stands for
        self.reader: Any = None  # the one client of an exact page
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
        """From here on statements go to that port; those of an exact page once its client does."""
        if not (self.is_exact and self.port):
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

    def run_sql(self, snippet: Snippet, following: Snippet | None) -> None:
        last_code = 0
        if self.is_exact and following is not None and following.mark == "output":
            refusal = re.match(r"ERROR (\d+) ", following.text)
            last_code = int(refusal[1]) if refusal else 0
        with self.session() as connection, connection.cursor() as cursor:
            written = snippet.text
            if MOMENT in written:
                cursor.execute("SELECT CAST(NOW() AS CHAR)")
                written = written.replace(MOMENT, cursor.fetchone()[0])
            texts = [text.strip() for text in split(written)]
            for text in texts:
                bare = re.sub(r"^(?:--.*\n\s*)+", "", text)
                for beginning, statements in BEFORE.get(self.name, {}).items():
                    if bare.startswith(beginning):
                        self.by_another_client(statements)
                refused = re.search(r"^-- refused: (\d+)$", text, re.MULTILINE)
                code, self.last = self.executed(cursor, self.localized(bare))
                expected = int(refused[1]) if refused else last_code if text is texts[-1] else 0
                assert code == expected, (snippet.place, text, self.last)
            if not self.is_exact:  # its client goes on, and SHOW WARNINGS may follow
                cursor.execute("SELECT DATABASE()")
                self.database = cursor.fetchone()[0]

    @contextmanager
    def session(self) -> Iterator[Any]:
        """A client for one snippet; on an exact page the one for all of them."""
        if not self.is_exact:
            with self.client() as connection:
                yield connection
            return
        if self.reader is None:
            self.reader = self.client()
        yield self.reader

    def executed(self, cursor: Any, text: str) -> tuple[int, str]:
        """Its error or 0, and its answer as `exuvia sql` prints it, or `mysql` on an exact page."""
        if self.is_exact:
            text = re.sub(r"(?<= JOB |JOBS )\d+\b", lambda found: self.job_ids[found[0]], text)
        elif JOB.search(text):
            view = "exuvia_inspect_jobs" if " INSPECT " in text else "ddl_jobs"
            cursor.execute(f"SELECT MAX(job_id) FROM information_schema.{view}")
            text = JOB.sub(str(cursor.fetchone()[0]), text)
        try:
            cursor.execute(text)
        except pymysql.MySQLError as error:
            code, told = error.args
            return code, f"ERROR {code}: {told}" if self.is_exact else str(error)
        names = [each[0] for each in cursor.description or ()]
        rows = cursor.fetchall()
        if text.startswith("ADMIN "):
            # an inspection of so few rows may have ended before somebody cancels it
            said = [str(cell) for row in rows for cell in row if "has ended" not in str(cell)]
            assert not any("error" in each for each in said), (text, rows)
        if self.is_exact:
            return 0, boxed(names, rows) if names else accepted(cursor)
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
        for port in re.findall(r"^mysql .*-P (\d+)", snippet.text, re.MULTILINE):
            self.port, self.reader = int(self.localized(port)), None
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
            yield "grep '^exuvia ready' nodes | tail -n 1"
            self.served += 1
            if self.is_exact:  # the back joins a moment after the front is ready
                yield f"backs {self.served}"
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
        """What the page shows has the shape of what came; on an exact page it is what came."""
        self.compared += 1
        if self.is_exact and shown.language == "text":
            self.compare_exactly(shown)
        elif shown.language == "json":
            have = [shape(each) for each in self.last.splitlines()]
            assert [shape(each) for each in shown.text.splitlines()] == have[
                : shown.text.count("\n")
            ]
        else:
            head = shown.text.splitlines()[0].split()
            assert head == self.last.splitlines()[0].split(), (shown.place, self.last)

    def compare_exactly(self, shown: Snippet) -> None:
        written, came = (Output(each) for each in (self.localized(shown.text), self.last))
        for line, actual in zip_longest(written.lines, came.lines, fillvalue=""):
            assert line == actual, (shown.place, self.last)
        self.job_ids |= dict(zip(written.job_ids, came.job_ids, strict=True))

    def end(self) -> None:
        if self.reader is not None:
            self.reader.close()
        for leader in self.shells:
            listed = subprocess.run(["pgrep", "-s", str(leader)], capture_output=True, text=True)
            for pid in map(int, listed.stdout.split()):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        for node in self.nodes:
            node.kill()


# -- output of the mysql client --------------------------------------------------------------------

VARIES = (
    (r"^ERROR (\d+) \(\w{5}\)", r"ERROR \1"),  # pymysql does not give the state
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?(?: \+0000 UTC)?", "TIME"),
    (r"\b[\d.]+ (ms|s|sec|rows/s)\b", r"N \1"),
    (r"\b[0-9a-f]{32}\b", "ID"),
    (r"\b\d+\.\d+\.\d+(?:\.dev\d+)?$", "VERSION"),
    (r"(?<= JOB |JOBS )\d+\b", "ID"),
    (r"(?<=schema change )\d+\b", "ID"),
    (r"(?<=connection )\d+\b", "ID"),
    (r"(?<=\"position\": )\d+|(?<=\"job_id\": )\d+", "N"),
    (r"(?<=revision )\d+\b", "N"),
)
VARYING_COLUMNS = re.compile(r"(?i)(?:\w+_(?:id|ver|ms)|pid|lag|host|version)")


class Output:
    """What a client printed, line by line, without borders and what VARIES."""

    def __init__(self, text: str) -> None:
        self.lines: list[str] = []
        self.job_ids: list[str] = []
        names: list[str] = []
        if text.startswith("ERROR "):
            text = text.replace("\n  ", " ")
        for line in text.rstrip().splitlines():
            if re.fullmatch(r"[+-]+", line):
                continue
            cells = [each.strip() for each in line.strip("|").split("|")]
            if not (line.startswith("|") and line.endswith("|")):
                self.lines.append(" ".join(unvarying(line).split()))
            elif not names:
                names = cells
                self.lines.append(" | ".join(cells))
            else:
                known = list(zip(names, cells, strict=len(names) == len(cells)))
                self.job_ids += [cell for name, cell in known if name.lower() == "job_id"]
                shown = ("ID" if VARYING_COLUMNS.fullmatch(n) else unvarying(c) for n, c in known)
                self.lines.append(" | ".join(shown))


def unvarying(text: str) -> str:
    for pattern, stands in VARIES:
        text = re.sub(pattern, stands, text)
    return text


def boxed(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A result as the mysql client prints it, but for the widths; borders are not compared."""
    listed = [names, *([cell_text(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(row)} |" for row in listed) if rows else "Empty set"


def cell_text(cell: Any) -> str:
    return "NULL" if cell is None else str(cell)


def accepted(cursor: Any) -> str:
    affected, warned = cursor.rowcount, cursor.warning_count
    told = f"Query OK, {affected} row{'s' * (affected != 1)} affected"
    return f"{told}{f', {warned} warning' + 's' * (warned != 1) if warned else ''} (0.1 sec)"


def shape(line: str) -> tuple[Any, ...]:
    found = json.loads(line)
    return (*found, found.get("op"), found["before"] is None, found["after"] is None)


def run_page(name: str, folder: Path, spark: bool) -> tuple[int, int]:
    """How many snippets ran, and how many outputs were compared."""
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
    return count, page.compared


WITH_SNIPPETS = [page for page in PAGES if any(each.runs for each in snippets(page))]
SHORT = [
    *("README.md", "docs/tour.md", "docs/tuning.md", "docs/change-log.md", "docs/concepts.md"),
]
WITH_SPARK = [
    page for page in PAGES if any(each.runs and each.has_spark for each in snippets(page))
]


@pytest.mark.parametrize("page", SHORT)
def test_the_snippets_of_a_page_run_as_they_stand(page: str, tmp_path: Path) -> None:
    ran, compared = run_page(page, tmp_path, spark=False)
    assert (ran, compared) == EXACT.get(page, (ran, compared)) and ran


@pytest.mark.long
@pytest.mark.parametrize(
    "page", [each for each in WITH_SNIPPETS if each in WITH_SPARK or each not in SHORT]
)
def test_the_snippets_of_each_other_page_and_with_spark(page: str, tmp_path: Path) -> None:
    ran, _ = run_page(page, tmp_path, spark=True)
    assert ran == sum(each.runs for each in snippets(page))


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


def test_only_what_varies_may_differ() -> None:
    shown = Output(
        "+--+\n| JOB_ID | ROWS | COMMENTS |\n+--+\n| 71 | 3 | waited 8 s for 12 rows |\n"
    )
    same = Output("| JOB_ID | ROWS | COMMENTS |\n| 5 |  3 | waited 0.5 s for 12 rows |")
    assert shown.lines == same.lines and (shown.job_ids, same.job_ids) == (["71"], ["5"])
    for other in ("| 5 | 4 | waited 8 s for 12 rows |", "| 5 | 3 | waited 8 s for 13 rows |"):
        assert Output(f"| JOB_ID | ROWS | COMMENTS |\n{other}").lines != shown.lines
    assert Output("ERROR 1062 (23000): a\n  (b)").lines == Output("ERROR 1062: a (b)").lines
    assert Output("ERROR 1062 (23000): a").lines != Output("ERROR 1063: a").lines
    assert Output("Query OK, 1 row affected (2 sec)").lines != Output("Empty set").lines


def test_each_fence_says_what_it_is() -> None:
    wrong = [
        f"{each.place}: {each.language or 'no language'} {each.mark}"
        for page in PAGES
        for each in snippets(page)
        if each.language not in (*RUN, *SHOWN)
        or not (each.mark in MARKS or re.fullmatch(r"no-run .{10,}", each.mark))
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
