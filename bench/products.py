"""The products that are compared: started on an empty folder, spoken to, measured, ended.

    Exuvia       one node over LMDB, as `exuvia serve` starts it
    MariaDB      mariadbd with --no-defaults
    PostgreSQL   initdb and postgres; as the user postgres where we are root, which it refuses

Each gets a free loopback port and a data folder on the same disk, keeps its defaults, and is
durable: an acknowledged commit is on the disk. What is set besides stands in `settings` and in the
report. All get the same rows: the peers from a file, Exuvia from the same generator by its bulk
path.

A product is a tree of processes. `Meter` sums over it: processor time from /proc (children that
ended are counted in their parents, so a difference over the living tree is whole), and memory as
the private pages of all processes plus the largest shared segment. Mapped pages of files (LMDB's
map) are the page cache's; their most is given beside it.

Bytes written are the disk's own count, whoever wrote them. What the kernel counts for a process
(write_bytes in /proc/PID/io) is no measure: with large folios it counts the whole folio that a page
lies in, 250 times of what 4 KiB at random places of a file are (Linux 6.18, ext4).
"""

import contextlib
import getpass
import glob
import json
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import pymysql
from pyarrow import csv

from bench.add_index import load_table, rows_of
from exuvia.ddl.job import ROW_COLUMNS

START_S = 120.0
STOP_S = 60.0
ANSWER_S = 1200.0
TICKS = os.sysconf("SC_CLK_TCK")
TUNED_POOL = "4G"


class Change(NamedTuple):
    """One schema change to time. `after` brings the table to where the next change wants it."""

    work: str
    timed: tuple[str, ...]
    after: tuple[str, ...] = ()


class Session(Protocol):
    """A connection on which each statement is a transaction of its own."""

    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        """The rows that it answers."""

    def close(self) -> None:
        """End it."""


class MySession:
    """By PyMySQL, in the text protocol."""

    def __init__(self, port: int, database: str | None) -> None:
        self._connection = pymysql.connect(
            host="127.0.0.1",
            port=port,
            user="root",
            database=database,
            autocommit=True,
            read_timeout=ANSWER_S,
        )

    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        with self._connection.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall())

    def close(self) -> None:
        self._connection.close()


class PgError(Exception):
    """What PostgreSQL answered instead of a result."""


class PgSession:
    """PostgreSQL's simple query protocol (version 3.0): as much of it as a benchmark needs, as much
    work for the client as the text protocol of the others. Values are text."""

    def __init__(self, port: int, database: str) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), ANSWER_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._stream = self._socket.makefile("rb")
        words = f"user\0postgres\0database\0{database}\0\0".encode()
        self._socket.sendall(struct.pack("!ii", 8 + len(words), 196608) + words)
        self._answer()

    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        text = statement.encode() + b"\0"
        self._socket.sendall(b"Q" + struct.pack("!i", 4 + len(text)) + text)
        return self._answer()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.sendall(b"X\0\0\0\4")
        self._stream.close()
        self._socket.close()

    def _answer(self) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = []
        wrong = ""
        while True:
            head = self._stream.read(5)
            if len(head) < 5:
                raise PgError(wrong or "the server closed the connection")
            kind, size = head[:1], struct.unpack("!i", head[1:])[0]
            body = self._stream.read(size - 4)
            if kind == b"D":
                rows.append(_pg_row(body))
            elif kind == b"E":
                fields = {part[:1]: part[1:].decode() for part in body.split(b"\0") if part}
                wrong = f"{fields.get(b'C', '')} {fields.get(b'M', '')}"
            elif kind == b"Z":
                if wrong:
                    raise PgError(wrong)
                return rows


def _pg_row(body: bytes) -> tuple[str | None, ...]:
    count, at = struct.unpack_from("!h", body)[0], 2
    cells: list[str | None] = []
    for _ in range(count):
        size = struct.unpack_from("!i", body, at)[0]
        at += 4
        cells.append(None if size < 0 else body[at : at + size].decode())
        at += max(size, 0)
    return tuple(cells)


def free_port() -> int:
    """A loopback port that nobody listens on."""
    with socket.socket() as chosen:
        chosen.bind(("127.0.0.1", 0))
        return int(chosen.getsockname()[1])


def rows_file(folder: Path, rows: int) -> Path:
    """sysbench's rows as CSV, written once for all who load them."""
    path = folder / f"rows-{rows}.csv"
    if not path.exists():
        options = csv.WriteOptions(include_header=False)
        batches = rows_of(rows)
        first = next(batches)
        with csv.CSVWriter(str(path), first.schema, write_options=options) as out:
            out.write_batch(first)
            for batch in batches:
                out.write_batch(batch)
        path.chmod(0o644)
    return path


class Product:
    """What all have in common. `folder` is shared by products; each has its data below it."""

    name = ""
    title = ""
    remark = ""
    database = "sbtest"
    table = ""

    def __init__(self, folder: Path, tuned: bool = False) -> None:
        self.folder = folder
        self.tuned = tuned
        self.data = folder / f"data-{self.name}"
        self.port = 0
        self._process: subprocess.Popen[Any] | None = None

    @property
    def settings(self) -> tuple[str, ...]:
        """What its command line says; the rest are its defaults."""
        return ()

    @staticmethod
    def installed() -> bool:
        """Whether its programs are here."""
        return True

    def version(self) -> str:
        """Of a running server."""
        return str(self.execute("SELECT version()")[0][0])

    def start(self) -> None:
        """Start the server on its data folder, which is made if it is not there."""
        raise NotImplementedError

    def stop(self) -> None:
        """End it politely, then by force."""
        process, self._process = self._process, None
        if process is None or process.poll() is not None:
            return
        self._end(process)
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _end(self, process: "subprocess.Popen[Any]") -> None:
        process.terminate()

    @contextlib.contextmanager
    def running(self) -> Iterator["Product"]:
        """On an empty data folder, which is removed at the end."""
        shutil.rmtree(self.data, ignore_errors=True)
        try:
            self.start()
            self.execute_in(None, f"CREATE DATABASE {self.database}")
            yield self
        finally:
            self.stop()
            shutil.rmtree(self.data, ignore_errors=True)

    @property
    def pid(self) -> int:
        """Of the process that is the root of its tree."""
        assert self._process is not None
        return self._process.pid

    def session(self, database: str | None = "sbtest") -> Session:
        """A new connection."""
        return MySession(self.port, database)

    def execute(self, *statements: str) -> list[tuple[Any, ...]]:
        """On a connection of their own; the last one's answer."""
        return self.execute_in(self.database, *statements)

    def execute_in(self, database: str | None, *statements: str) -> list[tuple[Any, ...]]:
        session = self.session(database)
        try:
            rows: list[tuple[Any, ...]] = []
            for statement in statements:
                rows = session.execute(statement)
            return rows
        finally:
            session.close()

    def load(self, rows: int) -> None:
        """Table sbtest1 with so many of sysbench's rows and no secondary index."""
        self.execute(self.table)
        self._load(rows)

    def _load(self, rows: int) -> None:
        raise NotImplementedError

    def changes(self) -> tuple[Change, ...]:
        """What is timed, in an order in which each finds what it needs."""
        return MY_CHANGES

    def add_index(self, index: str, columns: str) -> str:
        """The statement that lets clients read and write meanwhile."""
        return f"ALTER TABLE sbtest1 ADD INDEX {index} ({columns})"

    def drop_index(self, index: str) -> str:
        return f"ALTER TABLE sbtest1 DROP INDEX {index}"

    def progress(self, session: Session, rows: int) -> float | None:
        """How many rows of `rows` the index that is being built has, None if nobody says."""
        return None

    def commits(self) -> int:
        """Returns the number of commits of the store so far; 0 if the product does not say."""
        return 0

    def layout(self) -> dict[str, float]:
        """Returns figures of the data files: `file_per_data`, `leaves_in_order`, ..."""
        return {}

    def sysbench(self) -> list[str]:
        """The options that lead it here."""
        return [
            "--db-driver=mysql",
            "--mysql-host=127.0.0.1",
            f"--mysql-port={self.port}",
            "--mysql-user=root",
            f"--mysql-db={self.database}",
        ]

    def _wait_until_it_answers(self) -> None:
        assert self._process is not None
        end = time.monotonic() + START_S
        while True:
            try:
                self.execute_in(None, "SELECT 1")
                return
            except (pymysql.Error, OSError, PgError):
                if time.monotonic() > end or self._process.poll() is not None:
                    log = self.folder / f"{self.name}.log"
                    raise RuntimeError(f"it did not start: {_end_of(log)}") from None
                time.sleep(0.1)


def _end_of(log: Path) -> str:
    return log.read_text(errors="replace")[-1000:] if log.exists() else ""


MY_TABLE = (
    "CREATE TABLE sbtest1 (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, k INT NOT NULL DEFAULT 0, "
    "c CHAR(120) NOT NULL DEFAULT '', pad CHAR(60) NOT NULL DEFAULT '')"
)
MY_CHANGES = (
    Change(
        "index_k",
        ("ALTER TABLE sbtest1 ADD INDEX k_1 (k)",),
        ("ALTER TABLE sbtest1 DROP INDEX k_1",),
    ),
    Change(
        "index_c",
        ("ALTER TABLE sbtest1 ADD INDEX c_1 (c)",),
        ("ALTER TABLE sbtest1 DROP INDEX c_1",),
    ),
    Change(
        "two_indexes",
        ("ALTER TABLE sbtest1 ADD INDEX k_1 (k), ADD INDEX c_1 (c)",),
        ("ALTER TABLE sbtest1 DROP INDEX c_1",),
    ),
    Change("to_varchar", ("ALTER TABLE sbtest1 MODIFY k VARCHAR(20) NOT NULL DEFAULT '0'",)),
    Change("to_int", ("ALTER TABLE sbtest1 MODIFY k INT NOT NULL DEFAULT 0",)),
    Change(
        "narrower",
        ("ALTER TABLE sbtest1 MODIFY k MEDIUMINT NOT NULL DEFAULT 0",),
        ("ALTER TABLE sbtest1 MODIFY k INT NOT NULL DEFAULT 0",),
    ),
    Change(
        "analyze",
        ("ANALYZE TABLE sbtest1 ALL COLUMNS",),
        ("ALTER TABLE sbtest1 DROP INDEX k_1",),
    ),
)


class Exuvia(Product):
    """One node of this tree. `fronts` above 1 asks for as many front processes on its port."""

    name = "exuvia"
    title = "Exuvia"
    table = MY_TABLE
    fronts = 1

    @property
    def settings(self) -> tuple[str, ...]:
        return (f"--fronts {self.fronts}",) if self.fronts > 1 else ()

    @property
    def url(self) -> str:
        """Its store."""
        return f"lmdb://{self.data}/store"

    def version(self) -> str:
        from exuvia import __version__

        return f"{__version__} ({self.execute('SELECT version()')[0][0]})"

    def start(self) -> None:
        self.data.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "exuvia.cli.main", "serve", "--store", self.url]
        command += ["--host", "127.0.0.1", "--port", "0", "--status-port", "0"]
        for each in self.settings:
            command += each.split()
        log = self.folder / f"{self.name}.log"
        with log.open("w") as errors:
            self._process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=errors, text=True
            )
        line: list[str] = []
        output = self._process.stdout
        assert output is not None
        reader = threading.Thread(target=lambda: line.append(output.readline()), daemon=True)
        reader.start()
        reader.join(START_S)
        found = re.search(r"127\.0\.0\.1:(\d+)", line[0] if line else "")
        if found is None:
            raise RuntimeError(f"it did not start: {_end_of(log)}")
        self.port = int(found[1])

    def _load(self, rows: int) -> None:
        load_table(self.url, self.database, "sbtest1", rows)

    def commits(self) -> int:
        return int(self._stat()["transaction"])

    def layout(self) -> dict[str, float]:
        stat = self._stat()
        return {
            "file_per_data": int(stat["pages"]) / int(stat["pages_used"]),
            "leaves_in_order": float(stat["leaves_in_order"]),
            "free_run_pages": float(stat["free_run_pages"]),
        }

    def _stat(self) -> dict[str, Any]:
        command = [sys.executable, "-m", "exuvia.cli.main", "store", "stat", "-o", "json"]
        command += ["--store", self.url]
        answer = subprocess.run(command, capture_output=True, check=True)
        return dict(json.loads(answer.stdout))

    def progress(self, session: Session, rows: int) -> float | None:
        job = session.execute("ADMIN SHOW DDL JOBS 1")
        return float(job[0][ROW_COLUMNS.index("ROW_COUNT")] or 0) if job else None


class ExuviaTwoFronts(Exuvia):
    """The same with two front processes on its port."""

    name = "exuvia2"
    title = "Exuvia, two fronts"
    fronts = 2

    @staticmethod
    def installed() -> bool:
        """Whether `serve` knows --fronts."""
        command = [sys.executable, "-m", "exuvia.cli.main", "serve", "--help"]
        told = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        return "--fronts" in told


class MariaDB(Product):
    """InnoDB. ADD INDEX is online; until 11.2, MODIFY that rewrites blocks writers."""

    name = "mariadb"
    title = "MariaDB"
    remark = (
        "ADD INDEX lets clients write; a MODIFY that copies the table blocks writers before 11.2. "
        "ANALYZE is PERSISTENT FOR ALL, which reads every row."
    )
    table = MY_TABLE + " ENGINE=InnoDB"

    @property
    def settings(self) -> tuple[str, ...]:
        durable = ("--innodb-flush-log-at-trx-commit=1",)
        return (*durable, f"--innodb-buffer-pool-size={TUNED_POOL}") if self.tuned else durable

    @staticmethod
    def _program() -> str:
        return shutil.which("mariadbd") or "/usr/sbin/mariadbd"

    @staticmethod
    def installed() -> bool:
        return os.access(MariaDB._program(), os.X_OK) and bool(shutil.which("mariadb-install-db"))

    def start(self) -> None:
        user = getpass.getuser()
        log = self.folder / f"{self.name}.log"
        with log.open("ab") as errors:
            if not self.data.exists():
                install = ["mariadb-install-db", "--no-defaults", f"--datadir={self.data}"]
                install += [f"--user={user}", "--auth-root-authentication-method=normal"]
                install += ["--skip-test-db"]
                subprocess.run(install, check=True, stdout=errors, stderr=errors)
            self.port = free_port()
            command = [self._program(), "--no-defaults", f"--datadir={self.data}"]
            command += [f"--user={user}", f"--port={self.port}", "--bind-address=127.0.0.1"]
            command += [f"--socket={self.data / 'socket'}", *self.settings]
            self._process = subprocess.Popen(command, stdout=errors, stderr=errors)
        self._wait_until_it_answers()

    def _load(self, rows: int) -> None:
        self.execute(
            f"LOAD DATA INFILE '{rows_file(self.folder, rows)}' INTO TABLE sbtest1 "
            "FIELDS TERMINATED BY ',' ENCLOSED BY '\"'"
        )

    def changes(self) -> tuple[Change, ...]:
        everything = ("ANALYZE TABLE sbtest1 PERSISTENT FOR ALL",)
        return tuple(
            each._replace(timed=everything) if each.work == "analyze" else each
            for each in MY_CHANGES
        )

    def progress(self, session: Session, rows: int) -> float | None:
        found = session.execute(
            "SELECT stage, max_stage, progress FROM information_schema.processlist "
            "WHERE info LIKE 'ALTER%'"
        )
        if not found or not found[0][1]:
            return None
        stage, stages, percent = (float(each) for each in found[0])
        return rows * (stage - 1 + percent / 100) / stages


class PostgreSQL(Product):
    """Indexes are built CONCURRENTLY, so that clients can write; ALTER TYPE blocks readers and
    writers."""

    name = "postgresql"
    title = "PostgreSQL"
    remark = (
        "Indexes are built CONCURRENTLY (two indexes are two statements, one after another); "
        "ALTER ... TYPE blocks readers and writers; the narrower INT is BIGINT to INT (there is no "
        "MEDIUMINT), and rewrites; ANALYZE reads a sample of 30,000 rows."
    )
    table = (
        "CREATE TABLE sbtest1 (id SERIAL PRIMARY KEY, k INTEGER NOT NULL DEFAULT 0, "
        "c CHAR(120) NOT NULL DEFAULT '', pad CHAR(60) NOT NULL DEFAULT '')"
    )

    @property
    def settings(self) -> tuple[str, ...]:
        durable = ("fsync=on", "synchronous_commit=on")
        if self.tuned:
            return (
                *durable,
                "shared_buffers=4GB",
                "maintenance_work_mem=512MB",
                "max_wal_size=4GB",
            )
        return durable

    @staticmethod
    def _folder_of_programs() -> Path | None:
        found = sorted(
            glob.glob("/usr/lib/postgresql/*/bin/postgres"),
            key=lambda path: int(path.split("/")[4]),
        )
        here = found[-1] if found else shutil.which("postgres")
        return Path(here).parent if here else None

    @staticmethod
    def installed() -> bool:
        return PostgreSQL._folder_of_programs() is not None

    def start(self) -> None:
        programs = self._folder_of_programs()
        assert programs is not None
        root = os.geteuid() == 0
        them: dict[str, Any] = (
            {"user": "postgres", "group": "postgres", "extra_groups": []} if root else {}
        )
        fresh = not self.data.exists()
        self.data.mkdir(parents=True, exist_ok=True)
        if root:
            shutil.chown(self.data, "postgres", "postgres")
        log = self.folder / f"{self.name}.log"
        with log.open("ab") as errors:
            place = {"cwd": self.data, "stdout": errors, "stderr": errors, **them}
            if fresh:
                command = [str(programs / "initdb"), "-D", str(self.data), "-U", "postgres"]
                command += ["-A", "trust", "-E", "UTF8", "--locale=C.UTF-8"]
                subprocess.run(command, check=True, **place)
            self.port = free_port()
            command = [str(programs / "postgres"), "-D", str(self.data), "-p", str(self.port)]
            command += ["-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="]
            for each in self.settings:
                command += ["-c", each]
            self._process = subprocess.Popen(command, **place)
        self._wait_until_it_answers()

    def _end(self, process: "subprocess.Popen[Any]") -> None:
        import signal

        process.send_signal(signal.SIGINT)  # its fast shutdown: clients are sent away

    def session(self, database: str | None = "sbtest") -> Session:
        return PgSession(self.port, database or "postgres")

    def _load(self, rows: int) -> None:
        self.execute(
            f"COPY sbtest1 FROM '{rows_file(self.folder, rows)}' CSV",
            f"SELECT setval('sbtest1_id_seq', {rows})",
        )

    def changes(self) -> tuple[Change, ...]:
        alter = "ALTER TABLE sbtest1 "
        no_default, zero = "ALTER k DROP DEFAULT", "ALTER k SET DEFAULT 0"
        add_k, add_c = self.add_index("k_1", "k"), self.add_index("c_1", "c")
        drop_k, drop_c = self.drop_index("k_1"), self.drop_index("c_1")
        to_int = f"{alter}{no_default}, ALTER k TYPE INTEGER USING k::integer, {zero}"
        to_varchar = f"{alter}{no_default}, ALTER k TYPE VARCHAR(20), ALTER k SET DEFAULT '0'"
        return (
            Change("index_k", (add_k,), (drop_k,)),
            Change("index_c", (add_c,), (drop_c,)),
            Change("two_indexes", (add_k, add_c), (drop_c,)),
            Change("to_varchar", (to_varchar,)),
            Change("to_int", (to_int,), (f"{alter}ALTER k TYPE BIGINT",)),
            Change("narrower", (f"{alter}ALTER k TYPE INTEGER",)),
            Change("analyze", ("ANALYZE sbtest1",), (drop_k,)),
        )

    def add_index(self, index: str, columns: str) -> str:
        return f"CREATE INDEX CONCURRENTLY {index} ON sbtest1 ({columns})"

    def drop_index(self, index: str) -> str:
        return f"DROP INDEX IF EXISTS {index}"

    def progress(self, session: Session, rows: int) -> float | None:
        found = session.execute(
            "SELECT blocks_done, blocks_total FROM pg_stat_progress_create_index "
            "WHERE phase LIKE 'building index%'"
        )
        if not found or not int(found[0][1] or 0):
            return None
        return rows * int(found[0][0]) / int(found[0][1])

    def sysbench(self) -> list[str]:
        return [
            "--db-driver=pgsql",
            "--pgsql-host=127.0.0.1",
            f"--pgsql-port={self.port}",
            "--pgsql-user=postgres",
            f"--pgsql-db={self.database}",
        ]


PRODUCTS: dict[str, type[Product]] = {
    each.name: each for each in (Exuvia, ExuviaTwoFronts, MariaDB, PostgreSQL)
}


# -- what a product takes from the machine ---------------------------------------------------------


class Usage(NamedTuple):
    """Of all processes of a product while something was timed."""

    wall_s: float
    cpu_s: float
    memory_mb: float
    mapped_mb: float
    written_mb: float


class Meter:
    """`with Meter(product.pid) as meter: ...` and then `meter.usage`."""

    EVERY_S = 0.1
    TREE_S = 0.5

    def __init__(self, root: int) -> None:
        self._root = root
        self._stop = threading.Event()
        self._memory = self._mapped = 0
        self.usage = Usage(0, 0, 0, 0, 0)

    def __enter__(self) -> "Meter":
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._before = _spent(tree(self._root)), _disk_bytes()
        self._watcher.start()
        self._began = time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        wall = time.perf_counter() - self._began
        self._stop.set()
        self._watcher.join()
        processes = tree(self._root)
        self._look(processes)
        cpu, written = _spent(processes) - self._before[0], _disk_bytes() - self._before[1]
        mb = 1 / 1048576
        self.usage = Usage(wall, cpu, self._memory * mb, self._mapped * mb, written * mb)

    def _watch(self) -> None:
        processes, looked = tree(self._root), time.monotonic()
        while True:
            self._look(processes)
            if self._stop.wait(self.EVERY_S):
                return
            if time.monotonic() - looked > self.TREE_S:
                processes, looked = tree(self._root), time.monotonic()

    def _look(self, processes: Sequence[int]) -> None:
        own = shared = mapped = 0
        for process in processes:
            sizes = _fields(f"/proc/{process}/status", 1024)
            own += sizes.get("RssAnon", 0)
            shared = max(shared, sizes.get("RssShmem", 0))
            mapped = max(mapped, sizes.get("RssFile", 0))
        self._memory = max(self._memory, own + shared)
        self._mapped = max(self._mapped, mapped)


def tree(root: int) -> list[int]:
    """A process and all that descend from it."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            fields = _stat(int(name))
            if fields:
                children.setdefault(int(fields[1]), []).append(int(name))
    found = [root]
    for each in found:
        found += children.get(each, [])
    return found


def _stat(process: int) -> list[str]:
    """Fields of /proc/PID/stat behind the name: state, ppid, ..."""
    try:
        with open(f"/proc/{process}/stat") as text:
            return text.read().rpartition(")")[2].split()
    except OSError:
        return []


def _spent(processes: Sequence[int]) -> float:
    """Processor time of processes and of their children that ended. Unit: s."""
    return sum(int(each) for process in processes for each in _stat(process)[11:15]) / TICKS


def _disk_bytes() -> int:
    """What the disk of the data folders was given to write so far; 0 where it does not say.

    Source: Linux, Documentation/block/stat.rst: the seventh number, in sectors of 512 bytes."""
    device = os.stat(tempfile.gettempdir()).st_dev
    with contextlib.suppress(OSError):
        number = f"{os.major(device)}:{os.minor(device)}"
        return int(Path(f"/sys/dev/block/{number}/stat").read_text().split()[6]) * 512
    return 0


def _fields(path: str, unit: int) -> dict[str, int]:
    try:
        with open(path) as text:
            lines = [line.split() for line in text]
    except OSError:
        return {}
    return {
        line[0][:-1]: int(line[1]) * unit for line in lines if len(line) > 1 and line[1].isdigit()
    }
