"""The parts of a node that sessions use, wired by node/ (or by a test)."""

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
    """One line of SHOW PROCESSLIST.

    `time_s`: for how long the command has been running, or the connection idle. `attributes`: the
    client program's description of itself."""

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
    """One slow command. `ended_ns` is wall time.

    `plan`: the lines of EXPLAIN with tabs between the cells, "" without a plan."""

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
    """The connections of this node, and access to those of other nodes."""

    @property
    def uptime_s(self) -> int:
        """For how long the node has accepted connections. Unit: s."""

    def here(self) -> Everywhere:
        """This node's connections with its address, and errors of fronts that did not answer."""

    def everywhere(self) -> Everywhere:
        """The cluster's connections with their nodes' addresses, and errors of nodes."""

    def kill(self, connection_id: int, query_only: bool, only_of: str | None = None) -> Killed:
        """Ends a connection of any node, or its statement; with `only_of`, only that user's.

        Raises 1105 if its node does not answer."""


class NoProcesses:
    """A node without connections: tests and embedded sessions."""

    uptime_s = 0

    def here(self) -> Everywhere:
        return [], []

    def everywhere(self) -> Everywhere:
        return [], []

    def kill(self, connection_id: int, query_only: bool, only_of: str | None = None) -> Killed:
        """No connection is known."""
        return "unknown"


class SlowStatements(Protocol):
    """The recent slow commands."""

    def here(self) -> SlowEverywhere:
        """On this node, with its address, and errors of fronts that did not answer."""

    def everywhere(self) -> SlowEverywhere:
        """In the cluster."""


class NoSlowStatements:
    """A node that records no slow commands."""

    def here(self) -> SlowEverywhere:
        return [], []

    def everywhere(self) -> SlowEverywhere:
        return [], []


@dataclass(frozen=True)
class Services:
    """The parts of one node that sessions use."""

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
    # values of system variables that each node has
    node_values: Mapping[str, str] = field(default_factory=dict)
    secure_file_priv: str = ""  # folder of files for statements; "": no files
    owner: OwnerWatch | None = None  # None: its liveness is not watched
    accounts: Accounts | None = None  # None: all privileges are granted
    prepared: WeakSet[Any] = field(default_factory=WeakSet)  # statements of all sessions
    deltas: Deltas | None = None  # collects changes of row counts; None: not counted
