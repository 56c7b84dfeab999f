"""Nodes that meet with accidents, what of them still runs, and clients that keep writing.

    slot 0   node process, started again after it was killed   keeper -> front -> back -> JVM
    slot 1   likewise                                          -> daemon -> workers

Every process below a test carries the test's mark in its environment, so whatever is left behind
is found even after its parents are gone.

A `Writer` has a model of its rows. A statement whose connection was lost has an unknown outcome:
the row is read again, and must be as it was before or as the statement wanted it; everything else
is an error. Only a connection to a node that was killed may be lost.

`load` fills a table in bulk; `Checkpoint` watches what the store holds of a fill.
"""

import contextlib
import os
import random
import signal
import threading
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa
import pymysql
import pytest

from exuvia.catalog import reader
from exuvia.catalog.infoschema import Schemas
from exuvia.catalog.system_tables import SYSTEM
from exuvia.catalog.table import Table
from exuvia.kv import keys
from exuvia.kv.lmdb.process import is_stopped
from exuvia.kv.packet import STAMP_BYTES, Span
from exuvia.kv.store import Store, open_store
from exuvia.pipeline import bulk
from support.node_processes import NodeProcess, end_all, is_alive, until

Answer = TypeVar("Answer")

MARK = "EXUVIA_TEST_MARK"
PATIENCE_S = 240.0  # a busy machine starts nodes and Spark's workers again and again
SILENT = (8027, 1053)
"""What says that it does not serve: a member that slept too long, until it has joined again; a
keeper whose front was killed before it was ready, to who connects until the next one is."""


class Process(NamedTuple):
    """A process of a node, from /proc."""

    pid: int
    parent: int
    command: str


class Nodes:
    """Nodes on one store, each in a slot; a killed one is started again in its slot."""

    def __init__(
        self, folder: Path, mark: str, count: int, lease_s: float, program: tuple[str, ...] = ()
    ) -> None:
        self.url = f"lmdb://{folder / 'store'}"
        self.every: list[NodeProcess] = []
        self.killed: set[NodeProcess] = set()
        self.mark = mark
        self._folder, self._lease_s = folder, lease_s
        self._program = {"program": program} if program else {}
        self.slots = [self._started() for _ in range(count)]
        for node in self.slots:
            node.wait_ready(PATIENCE_S)

    def _started(self) -> NodeProcess:
        log = self._folder / f"node{len(self.every)}.log"
        self.every.append(NodeProcess(self.url, log, self._lease_s, **self._program))
        return self.every[-1]

    def kill_node(self, slot: int) -> None:
        """kill -9 of a slot's front and back at once."""
        node, back = self.slots[slot], self.slots[slot].status()["back_pid"]
        self.killed.add(node)
        front = node.pid
        node.send(signal.SIGKILL)
        for each in filter(None, (front, back)):
            end_by_pid(each)
        node.process.wait(PATIENCE_S)

    def kill_front(self, slot: int) -> None:
        """kill -9 of a slot's front; its back has to end by itself."""
        node = self.slots[slot]
        front = node.pid
        self.killed.add(node)
        node.send(signal.SIGKILL)
        node.process.wait(PATIENCE_S)
        until(lambda: not front or not is_alive(front))

    def begin_again(self, slot: int) -> NodeProcess:
        """Start the slot's node anew; returns before it is ready."""
        self.slots[slot] = self._started()
        return self.slots[slot]

    def living(self) -> list[NodeProcess]:
        """The nodes that are ready and were not killed."""
        return [node for node in self.slots if node.port and node not in self.killed]

    def owner_slot(self) -> int:
        """Whose back owns the jobs now; waited for."""
        return int(until(lambda: [n for n in range(len(self.slots)) if self._owns(n)], 60)[0])

    def _owns(self, slot: int) -> bool:
        node = self.slots[slot]
        if node not in self.living():
            return False
        status = node.status()
        pids = {each["id"]: each["pid"] for each in status["members"]}
        owner = status["owner"] and status["owner"]["member"]
        return status["back_pid"] is not None and pids.get(owner) == status["back_pid"]

    def processes(self) -> list[Process]:
        """Everything that runs and carries the mark."""
        wanted = f"{MARK}={self.mark}".encode()
        found = (_process(int(name)) for name in os.listdir("/proc") if name.isdigit())
        return [each for each in found if each and wanted in _environment(each.pid)]

    def spark_workers(self) -> list[int]:
        """Python processes that run Spark's tasks (not the daemon that forks them)."""
        known = {each.pid: each for each in self.processes() if "pyspark.daemon" in each.command}
        return [each.pid for each in known.values() if each.parent in known]

    def machines(self) -> list[int]:
        """Pids of the JVMs."""
        return [each.pid for each in self.processes() if "java" in each.command.split("\0")[0]]

    def logs(self) -> str:
        """The last lines of every node, for a failed test."""
        return "\n".join(node.log.read_text()[-6000:] for node in self.every)


def _process(pid: int) -> Process | None:
    try:
        state, parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
        command = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return None
    return None if state == "Z" else Process(pid, int(parent), command)


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def end_by_pid(pid: int, number: int = signal.SIGKILL) -> bool:
    """Send a signal; False if the process had ended already."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
        return True
    return False


def stop_outside_the_gate(pid: int, store: Any) -> None:
    """SIGSTOP, neither inside a write transaction nor next in turn for one: whoever stops there is
    ended by those who wait, and until then they wait."""
    while True:
        end_by_pid(pid, signal.SIGSTOP)
        until(lambda: is_stopped(pid))
        holders = store.environment.gate.holders()
        if pid not in (holders.turn, holders.writer):
            return
        end_by_pid(pid, signal.SIGCONT)
        threading.Event().wait(0.03)  # let it finish what it was stopped in


@contextlib.contextmanager
def nodes_to_hurt(
    folder: Path,
    patch: pytest.MonkeyPatch,
    count: int = 2,
    lease_s: float = 45.0,
    program: tuple[str, ...] = (),
) -> Iterator[Nodes]:
    """Nodes on a fresh store (`program`: see NodeProcess); at the end all are stopped, and nothing
    of them may still run."""
    mark = uuid.uuid4().hex
    patch.setenv(MARK, mark)
    patch.setenv("PYTHONFAULTHANDLER", "1")
    nodes = Nodes(folder, mark, count, lease_s, program)
    try:
        yield nodes
    finally:
        for each in nodes.processes():
            end_by_pid(each.pid, signal.SIGCONT)
        end_all([node for node in nodes.every if node.process.poll() is None])
        left = _left_after(nodes, 20)
        for each in left:
            end_by_pid(each.pid)
        print(nodes.logs())  # shown when the test failed
    assert not left, f"left behind: {left}"


def _left_after(nodes: Nodes, timeout_s: float) -> list[Process]:
    """What does not end; each says in its log where it hangs."""
    with contextlib.suppress(AssertionError):
        until(lambda: not nodes.processes(), timeout_s)
    left = nodes.processes()
    for each in left:
        print(each, _waits(each.pid))
        end_by_pid(each.pid, signal.SIGABRT)
    with contextlib.suppress(AssertionError):
        until(lambda: not nodes.processes(), 5 if left else 0)
    return left


def _waits(pid: int) -> str:
    found = []
    with contextlib.suppress(OSError):
        for task in sorted(Path(f"/proc/{pid}/task").iterdir()):
            call = (task / "syscall").read_text().split()[0]
            found.append(f"{(task / 'comm').read_text().strip()}: system call {call}")
    return "; ".join(found)


@contextlib.contextmanager
def own_store(url: str) -> Iterator[Store]:
    """The nodes' store, opened in this process too."""
    store = open_store(url)
    try:
        yield store
    finally:
        store.close()


def run(node: NodeProcess, *statements: str) -> list[tuple[Any, ...]]:
    """Rows of the last statement."""
    with node.connect("test", autocommit=True) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        return list(cursor.fetchall())


def served(question: Callable[[], Answer]) -> Answer:
    """Its answer; asked again while a busy machine keeps the node from renewing its lease."""
    told: list[Answer] = []

    def answered() -> bool:
        try:
            told.append(question())
        except pymysql.err.OperationalError as error:
            if error.args[0] not in SILENT:
                raise
        return bool(told)

    until(answered, PATIENCE_S, "a node does not serve")
    return told[0]


def begin(node: NodeProcess, statement: str) -> Any:
    """Send a statement and do not wait for its answer; the connection.

    The node keeps it: a client that goes at once may end its statement before it has begun."""
    connection = node.connect("test", autocommit=True)
    node.begun.append(connection)
    connection.send_command(pymysql.constants.COMMAND.COM_QUERY, statement)
    return connection


def jobs(node: NodeProcess, ended: int = 10) -> list[dict[str, Any]]:
    """ADMIN SHOW DDL JOBS by column name: those under way, and the last `ended` others."""

    def shown() -> list[dict[str, Any]]:
        made = node.connect(cursorclass=pymysql.cursors.DictCursor)
        with made as connection, connection.cursor() as cursor:
            cursor.execute(f"ADMIN SHOW DDL JOBS {ended}")
            return list(cursor.fetchall())

    return served(shown)


def job_of(node: NodeProcess, kind: str) -> dict[str, Any]:
    """The newest job of a kind ("add index"), waited for."""

    def newest() -> dict[str, Any] | None:
        found = [job for job in jobs(node) if job["JOB_TYPE"].startswith(kind)]
        return max(found, key=lambda job: int(job["JOB_ID"]), default=None)

    found: dict[str, Any] = until(newest, PATIENCE_S)
    return found


def wait_for_job(node: NodeProcess, kind: str, state: str = "synced") -> dict[str, Any]:
    """The newest job of a kind once it has that state; on the way no other end is accepted."""

    def reached() -> dict[str, Any] | None:
        job = job_of(node, kind)
        assert job["STATE"] in ("none", "queueing", "running", "rollingback", "done", state), job
        return job if job["STATE"] == state else None

    found: dict[str, Any] = until(reached, PATIENCE_S, f"no {kind} became {state}")
    return found


# -- clients that keep writing ---------------------------------------------------------------------

Cells = tuple[int, int]
_GONE = (2003, 2006, 2013)
_REST_S = 0.02
_AWAY_S = 0.1


class Writer:
    """One client on a thread of its own; its rows are those whose id % of == number."""

    def __init__(
        self,
        nodes: Nodes,
        table: str,
        number: int,
        of: int,
        rows: int,
        known: Mapping[int, Cells | None] = MappingProxyType({}),
        refusals: Collection[int] = (),
        may_lose: bool = False,
        rest_s: float = _REST_S,
    ) -> None:
        """`refusals` are codes that say a statement was not done, and that are no fault.
        `may_lose`: any connection may be lost, its node may be started again by its keeper."""
        self._may_lose = may_lose
        self._rest_s = rest_s
        self.changed: dict[int, Cells | None] = dict(known)  # what one before it has changed
        self.errors: list[str] = []
        self.refused = 0
        self._refusals = refusals
        self.written = 0
        self.lost = 0
        self._nodes, self._table = nodes, table
        self._number, self._of, self._rows = number, of, rows
        self._chance = random.Random(number)
        self._stopping = threading.Event()
        self._node: NodeProcess | None = None
        self._connection: pymysql.Connection | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Finish the statement under way."""
        self._stopping.set()
        self._thread.join(60)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        while not self._stopping.wait(self._rest_s):
            try:
                self._change_one()
            except pymysql.err.MySQLError as error:
                if error.args[0] in self._refusals:
                    self.refused += 1
                    self._stopping.wait(_AWAY_S)
                    continue
                self.errors.append(f"{error!r} on {self._node and self._node.log.name}")
        self._hang_up()

    def _change_one(self) -> None:
        row_id = self._chance.randrange(self._rows * 11 // 10) * self._of + self._number
        before = self.changed.get(row_id, first_cells(row_id, self._rows * self._of))
        wish: Cells = (self._chance.randrange(5000), self._chance.randrange(1 << 30))
        after = None if before and self._chance.random() < 0.3 else wish
        if before is None:
            text = f"INSERT INTO {self._table} (id, k, v) VALUES ({row_id}, {wish[0]}, {wish[1]})"
        elif after is None:
            text = f"DELETE FROM {self._table} WHERE id = {row_id}"
        else:
            text = f"UPDATE {self._table} SET k = {wish[0]}, v = {wish[1]} WHERE id = {row_id}"
        if self._execute(text) is None:
            after = self._resolved(row_id, before, after)
        self.changed[row_id] = after
        self.written += 1

    def _execute(self, text: str) -> list[tuple[int, ...]] | None:
        """Rows, or None when the connection to a killed node was lost."""
        try:
            with self._connected().cursor() as cursor:
                cursor.execute(text)
                return list(cursor.fetchall())
        except (pymysql.err.OperationalError, pymysql.err.InterfaceError) as error:
            accident = self._may_lose or self._node in self._nodes.killed
            if not accident or error.args[0] not in (0, *_GONE):
                raise
            self.lost += 1
            self._hang_up()
            self._stopping.wait(_AWAY_S)
            return None

    def _resolved(self, row_id: int, before: Cells | None, after: Cells | None) -> Cells | None:
        found = None
        while found is None:
            found = self._asked(f"SELECT k, v FROM {self._table} WHERE id = {row_id}")
        seen = (int(found[0][0]), int(found[0][1])) if found else None
        if seen not in (before, after):
            self.errors.append(f"row {row_id}: {seen}, neither {before} nor {after}")
        return seen

    def _asked(self, text: str) -> list[tuple[int, ...]] | None:
        """Rows, or None when there is no answer yet: who is refused here must ask again, or it
        would forget that a statement may have been done."""
        try:
            return self._execute(text)
        except pymysql.err.MySQLError as error:
            if error.args[0] not in self._refusals:
                raise
            self._stopping.wait(_AWAY_S)
            return None

    def _connected(self) -> pymysql.Connection:
        """To the node of its own slot, or to another one while that is down."""
        if self._connection is None:
            own = self._nodes.slots[self._number % len(self._nodes.slots)]
            living = self._nodes.living()
            self._node = own if own in living else living[0]
            self._connection = self._node.connect("test", autocommit=True)
        return self._connection

    def _hang_up(self) -> None:
        if self._connection is not None and self._connection.open:
            self._connection.close()
        self._connection = None


def first_cells(row_id: int, rows: int) -> Cells | None:
    """What was loaded: ids 0..rows-1."""
    return (row_id * 31 % 5000, row_id) if row_id < rows else None


def expected(writers: list[Writer], rows: int) -> dict[int, Cells]:
    """What the table must hold when its writers have stopped."""
    found: dict[int, Cells | None] = {n: first_cells(n, rows) for n in range(rows)}
    for writer in writers:
        found |= writer.changed
    return {row_id: cells for row_id, cells in found.items() if cells is not None}


# -- a table loaded in bulk, and the checkpoint of its fill ----------------------------------------

_LOOK_S = 0.05


def load(node: NodeProcess, store: Store, name: str, rows: int) -> Table:
    """Make table `name` (id, k, v) and load it through the bulk path."""
    run(node, f"CREATE TABLE {name} (id BIGINT PRIMARY KEY, k INT NOT NULL, v BIGINT NOT NULL)")
    table = plan(store, name)
    cells = [first_cells(n, rows) or (0, 0) for n in range(rows)]
    batch = pa.record_batch(
        {
            "id": pa.array(range(rows), pa.int64()),
            "k": pa.array([k for k, _ in cells], pa.int32()),
            "v": pa.array([v for _, v in cells], pa.int64()),
        }
    )
    assert bulk.load(store, table, [batch]) == rows
    return table


def plan(store: Store, name: str) -> Table:
    """The table as a session would plan with it now."""
    txn = store.begin()
    try:
        return Schemas(store).table(txn, "test", name)
    finally:
        txn.rollback()


class Checkpoint:
    """Rows of mysql.tidb_ddl_reorg of one job, looked at all the time until `stop`.

    `spans`: each finished span -> (its row's commit sequence, its rows), as first seen. A span done
    again would have written its row again: another sequence. `faults`: what ought not to be."""

    def __init__(self, store: Store, job_id: int) -> None:
        self.spans: dict[Span, tuple[int, bytes]] = {}
        self.faults: list[str] = []
        self.is_over = False
        self._store, self._job_id = store, job_id
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._stopping.set()
        self._thread.join(30)

    def _run(self) -> None:
        while not self._stopping.wait(_LOOK_S) and not self.is_over:
            self._look()

    def _look(self) -> None:
        txn = self._store.begin()
        try:
            sequences = _sequences(txn.snapshot, self._job_id)
            table = _reorg_table()
            at = {c.name.L: n for n, c in enumerate(table.info.cols)}
            seen = {}
            for handle, row in reader.scan(txn, table, _rows_of(self._job_id)):
                span = Span(row[at["start_key"]], row[at["end_key"]])
                seen[span] = (sequences[table.row_prefix + handle], row[at["reorg_meta"]])
        finally:
            txn.rollback()
        if self.spans and not seen:
            self.is_over = True  # the job's last step took them all
            return
        for span, (sequence, meta) in self.spans.items():
            if span not in seen:
                self.faults.append(f"a finished span is gone: {span}")
            elif seen[span][0] != sequence:
                self.faults.append(f"a finished span was done again: {span} {meta!r}")
        self.spans |= {span: found for span, found in seen.items() if span not in self.spans}

    def overlaps(self) -> list[str]:
        """Spans that were done in part by another span."""
        return [
            f"{one} and {other}"
            for one, other in pairwise(sorted(self.spans))
            if other.start < one.end
        ]


def _reorg_table() -> Table:
    from exuvia.pipeline.checkpoint import reorg_table

    return reorg_table()


def _rows_of(job_id: int) -> Span:
    prefix = keys.row_prefix(SYSTEM["tidb_ddl_reorg"].id)
    return Span(prefix + keys.i64(job_id << 32), prefix + keys.i64((job_id + 1) << 32))


def _sequences(snapshot: object, job_id: int) -> dict[bytes, int]:
    found = {}
    for names, raws in snapshot.chunks(_rows_of(job_id)):  # type: ignore[attr-defined]
        for key, raw in zip(names, raws, strict=True):
            found[key] = int.from_bytes(raw[:STAMP_BYTES], "little")
    return found
