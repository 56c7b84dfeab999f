"""The parts of a node that sessions stand on, wired by node/ (or by a test)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol
from weakref import WeakSet

from exuvia.base.clock import Clock
from exuvia.catalog.autoid import IdAllocator
from exuvia.catalog.infoschema import Schemas
from exuvia.cluster.member import Member
from exuvia.cluster.owner import OwnerWatch
from exuvia.cluster.row_locks import RowLocks
from exuvia.cluster.versions import MetadataLocks
from exuvia.ddl.submit import Submitter
from exuvia.kv.store import Store
from exuvia.sql.privileges.accounts import Accounts
from exuvia.sql.statement.bindings import BindingBook
from exuvia.sql.statement.plan_cache import PlanCache
from exuvia.stats.meta import Deltas


class ProcessInfo(NamedTuple):
    """One line of SHOW PROCESSLIST. `time_s` is the age of what it does now; `attributes` are what
    the client's program says of itself."""

    id: int
    user: str
    host: str
    database: str
    command: str
    time_s: int
    state: str
    info: str
    attributes: tuple[tuple[str, str], ...] = ()


class SlowStatement(NamedTuple):
    """One command that took long. `ended_ns` is wall time; `plan`: EXPLAIN's lines, a tab between
    their cells, "" where there is none."""

    ended_ns: int
    took_s: float
    connection: int
    user: str
    host: str
    database: str
    succeeded: bool
    plan: str
    query: str


Killed = Literal["killed", "unknown", "denied"]
Everywhere = tuple[list[tuple[str, ProcessInfo]], list[str]]


SlowEverywhere = tuple[list[tuple[str, SlowStatement]], list[str]]


class Processes(Protocol):
    """The connections of this node, and how to learn of those of others."""

    @property
    def uptime_s(self) -> int:
        """How long the node has been taking connections. Unit: s."""

    def here(self) -> Everywhere:
        """All of this node with its address, and why those of some of its fronts are missing."""

    def everywhere(self) -> Everywhere:
        """All of the cluster with their node's address, and why some nodes' are missing."""

    def kill(self, connection_id: int, query_only: bool, only_of: str | None = None) -> Killed:
        """End a connection of any node, or what it runs; `only_of`: if it is that user's.

        Raises 1105 where its node does not answer."""


class NoProcesses:
    """A node without connections: tests and embedded sessions."""

    uptime_s = 0

    def here(self) -> Everywhere:
        return [], []

    def everywhere(self) -> Everywhere:
        return [], []

    def kill(self, connection_id: int, query_only: bool, only_of: str | None = None) -> Killed:
        """There is nothing to end."""
        return "unknown"


class SlowStatements(Protocol):
    """What took long of late."""

    def here(self) -> SlowEverywhere:
        """On this node, with its address, and why those of some of its fronts are missing."""

    def everywhere(self) -> SlowEverywhere:
        """In the cluster."""


class NoSlowStatements:
    """A node that notes none."""

    def here(self) -> SlowEverywhere:
        return [], []

    def everywhere(self) -> SlowEverywhere:
        return [], []


@dataclass(frozen=True)
class Services:
    """What sessions stand on, of one node."""

    store: Store
    schemas: Schemas
    ids: IdAllocator
    submitter: Submitter
    locks: MetadataLocks
    member: Member
    clock: Clock
    processes: Processes = field(default_factory=NoProcesses)
    slow: SlowStatements = field(default_factory=NoSlowStatements)
    plans: PlanCache = field(default_factory=PlanCache)
    bindings: BindingBook = field(default_factory=BindingBook)
    row_locks: RowLocks = field(default_factory=RowLocks)
    named_locks: RowLocks = field(default_factory=RowLocks)
    node_values: Mapping[str, str] = field(default_factory=dict)  # of system variables
    secure_file_priv: str = ""  # folder whose files statements may read and make; none without
    owner: OwnerWatch | None = None  # None: what becomes of it is not looked at
    accounts: Accounts | None = None  # None: everybody may do everything
    prepared: WeakSet[Any] = field(default_factory=WeakSet)  # statements, of all sessions
    deltas: Deltas | None = None  # where row counts go; None: nowhere
