"""tidb_server_memory_limit: a node that has too little memory ends its largest statement.

    node's memory       resident pages of the keeper and of all processes below it, without files
    a front's claims    the sum over the trackers of its statements (base/memory.py)

If either exceeds the limit, the front with the most memory ends the statement with the largest
claim, if that is at least tidb_server_memory_limit_sess_min_size (8176). It ends one statement at a
time: the next one when the first is over or END_S have passed. If the client then has not read its
rows, its connection is closed. Above tidb_server_memory_limit_gc_trigger of the limit, garbage is
collected and free memory returned to the system, at most once in GC_S.
"""

import gc
import logging
import os
from contextlib import suppress
from pathlib import Path

from exuvia.base import memory
from exuvia.base.mysql_errors import ErrMemoryExceedForInstance
from exuvia.catalog.sysvar import variables
from exuvia.catalog.sysvar.definition import memory_of
from exuvia.kv.store import Store
from exuvia.server.processes import ClientConnection, Connections
from exuvia.sql.parse.secrets import without_secrets

LOOK_S, NEAR_S = 0.25, 0.05  # between two looks; the second above half of the limit
READ_S = 1.0  # between two reads of the variables and of /proc
END_S = 1.0
GC_S = 60.0
_SHOWN_TEXT = 256
_CGROUPS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_log = logging.getLogger(__name__)


def total_memory() -> int:
    """Bytes of the machine, or of this process's control group if that has fewer."""
    total = _PAGE * os.sysconf("SC_PHYS_PAGES")
    for name in _CGROUPS:
        with suppress(OSError, ValueError):
            total = min(total, int(Path(name).read_text()))
    return total


def resident(pid: int) -> int:
    """Bytes of a process that are in memory and of no file; 0 if it has ended."""
    with suppress(OSError, ValueError):
        pages, shared = Path(f"/proc/{pid}/statm").read_text().split()[1:3]
        return (int(pages) - int(shared)) * _PAGE
    return 0


def children_of(pid: int) -> list[int]:
    """Ids of a process's children."""
    children: list[int] = []
    with suppress(OSError, ValueError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                children += map(int, (task / "children").read_text().split())
    return children


class MemoryLimit:
    """A loop of the front that enforces the limit."""

    channel = "memory"

    def __init__(self, store: Store, connections: Connections) -> None:
        self._store = store
        self._connections = connections
        self._limit = self._least = 0
        self._trigger = 1.0
        self._read_at = self._collect_at = 0.0
        self._keeper, self._own = os.getppid(), os.getpid()
        self._fronts: list[int] = []
        self._others: list[int] = []  # processes of the node that are not fronts
        self._ending: tuple[ClientConnection, float, bool] | None = None

    def step(self, now: float) -> float:
        """Look once. Returns the time until the next look. Unit: s."""
        if now >= self._read_at:
            self._read_at = now + READ_S
            self._read()
        if not self._limit:
            return READ_S
        own = resident(self._own)
        fronts = [resident(pid) for pid in self._fronts]
        used = own + sum(fronts) + sum(map(resident, self._others))
        claimed = sum(client.statements.session.memory.used for client in self._running())
        most = max(used, claimed)
        if most > self._trigger * self._limit and now >= self._collect_at:
            self._collect_at = now + GC_S
            gc.collect()
            memory.give_back()
        if most > self._limit and own >= max(fronts, default=0):
            self._end_largest(now, most)
        return NEAR_S if most > self._limit / 2 else LOOK_S

    def _read(self) -> None:
        with self._store.read() as txn:
            text = variables.get_global(txn, "tidb_server_memory_limit")
            self._limit = memory_of(text, total_memory())
            self._least = variables.read_int(txn, "tidb_server_memory_limit_sess_min_size")
            self._trigger = variables.read_float(txn, "tidb_server_memory_limit_gc_trigger")
        self._fronts = [pid for pid in children_of(self._keeper) if pid != self._own]
        self._others = [self._keeper]
        for pid in (self._own, *self._fronts):
            self._others += children_of(pid)
        for pid in self._others[1:]:
            self._others += children_of(pid)

    def _running(self) -> list[ClientConnection]:
        clients = self._connections.all()
        return [
            client
            for client in clients
            if client.task is not None and client.statements is not None
        ]

    def _end_largest(self, now: float, used: int) -> None:
        running = self._running()
        if self._ending is not None:
            client, until, is_closed = self._ending
            if client in running and now < until:
                return
            if client in running and not is_closed:
                self._ending = client, now + END_S, True
                self._connections.kill(client.id, query_only=False)
                return
            self._ending = None
        sizes = [(other.statements.session.memory.used, other.id, other) for other in running]
        size, number, largest = max(sizes, key=lambda size: size[:2], default=(0, 0, None))
        if largest is None or size < self._least:
            return
        task = largest.task
        fields = {
            "connection": number,
            "statement": "" if task is None else without_secrets(task.about)[:_SHOWN_TEXT],
            "statement_bytes": size,
            "node_bytes": used,
            "limit_bytes": self._limit,
        }
        _log.warning("tidb_server_memory_limit ends the largest statement", extra=fields)
        self._ending = largest, now + END_S, False
        largest.statements.session.end_statement(ErrMemoryExceedForInstance(number))
