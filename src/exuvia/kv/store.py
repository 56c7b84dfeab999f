"""The store protocol: everything that Exuvia requires of a key-value engine.

A transaction reads one snapshot, buffers its writes, reads through them, and is validated at
commit:

    begin --> snapshot with a view        reads: values of commits that it sees, own writes
    commit -> for each requirement:       must hold now, else Conflict / SchemaChanged / Deposed
              for each write:             see kv/packet.py (laws 5 and 6)
              then all writes appear at once, each with the stamp of this commit, or none

Lost updates (a written key that changed), dirty reads and non-repeatable reads are prevented. Write
skew is prevented only for keys that the reader passes to `require`. Phantoms are not prevented: a
scanned range may grow before the commit. If that matters, `require` a key that every writer of the
range touches.

Layers above kv use `read` and `transact`; `begin` is for transactions that outlive the call.

Committed values are `[u64 little-endian stamp][payload]`. `get` and `scan` return payloads;
`chunks` returns the raw values, for vectorised readers.

Five numbers describe the order of commits; an engine need not have one number for all of them:

    stamp      unique to a commit (a chain may have one for all its packets); compared for equality,
               and with a view
    view       the set of commits that a snapshot sees, by their stamps
    order      of two snapshots of a process, the later one has the greater order
    sequence   of a snapshot: the base of numbers that must grow (kv/packet.py)
    position   where a reader of `changes` continues, as text: a view

A ForwardingStore passes all calls to another store; its subclasses describe only their changes.

    LocalStore       kv/local.py            adds a session's own keys
    UnhurriedStore   pipeline/throttle.py   writes in a thread of ordinary priority
    NodeStore        sim/process.py         a process that may be killed before or after any commit

Transactions begin on the subclass, so that their commits go through it.

`open_store` opens a store by its URL:

    memory:                    in this process, lost at its end
    lmdb:///path?stall_s=5     embedded, one host, many processes; settings: kv/lmdb/environment.py
    postgresql://user@host/db  a server's, any number of hosts; settings: kv/postgres/settings.py
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol
from urllib.parse import unquote, urlsplit

from exuvia.base.clock import Clock, SystemClock
from exuvia.base.errors import ExuviaError, StoreMoved, Unavailable
from exuvia.kv.lock_server import LockServer
from exuvia.kv.lock_table import LockTable
from exuvia.kv.packet import (
    Bulk,
    BulkResult,
    Packet,
    Requirement,
    Snapshot,
    SnapshotUse,
    Span,
    View,
)
from exuvia.kv.transaction import (
    ATTEMPTS,
    Answer,
    Changes,
    ManagedTransaction,
    Transaction,
    TransactionalStore,
    Work,
    require_here,
)


class Presence(Protocol):
    """Proof that this process lives, visible to others on the same store; see `Store.hold`."""

    def release(self) -> None:
        """End it."""


class Store(Protocol):
    """A storage engine. Thread-safe."""

    @property
    def near(self) -> bool:
        """Whether reads need no network and no other process."""

    def read(self) -> ManagedTransaction:
        """A transaction that cannot be committed, on a fresh snapshot: `with store.read() as t`."""

    def transact(self, work: Work[Answer], attempts: int = ATTEMPTS) -> Answer:
        """Call `work(txn)`, commit, and return its result.

        After a Conflict it is called again on a fresh snapshot (rules: kv/transaction.py). It must
        therefore read everything it needs and change nothing but `txn`; the caller acts on the
        commit after this returns.

        `attempts`: another limit, with a reason at the call. Raises the last Conflict. All other
        errors of the work or the commit are raised at once. Nothing was applied then, except after
        OutcomeUnknown."""

    def back_off(self, attempt: int) -> None:
        """Wait after failed attempt 0, 1, 2 ... for at most 50 ms."""

    def begin(self) -> Transaction:
        """A transaction on a fresh snapshot that the caller ends by `commit` or `rollback`."""

    def snapshot(self, use: SnapshotUse = SnapshotUse.SYSTEM) -> Snapshot:
        """A fresh view of all commits.

        A client's snapshot may be taken lazily, at its first read or use of its view. Engines with
        few snapshots limit the clients of each process to a share and raise 1637 beyond it, so that
        system work can still take one."""

    def limit_snapshots(self, idle_s: float, query_s: float) -> None:
        """Set how long snapshots may live: unused, and in total. Unit: s."""

    def commit(self, packet: Packet) -> int:
        """Validate and apply the packet. Returns its sequence once the commit is durable.

        How durable depends on the engine's settings."""

    def commit_chain(self, packets: Sequence[Packet]) -> list[int]:
        """Commit packets of kv/chain.py in order, without other commits between them, in one wait.

        Returns their sequences. Raises the error of the first packet that is refused: earlier
        packets are committed, later ones are not."""

    def bulk(
        self,
        keys: Sequence[bytes],
        payloads: Sequence[bytes] | bytes,
        requirements: Sequence[Requirement] = (),
        puts: Sequence[tuple[bytes, bytes]] = (),
        report: bool = False,
        overwrite: bool = False,
    ) -> BulkResult:
        """Put sorted keys that have neither an entry nor a tombstone, in one transaction.

        `payloads`: may be one payload for all. `puts`: also written, without validation (a
        checkpoint, a row count). `report`: return the keys that exist already. `overwrite`: replace
        existing keys (bulk load of an unpublished table)."""

    def bulk_chain(self, batches: Iterable[Bulk], most_s: float) -> list[BulkResult]:
        """Run bulks one after another, each a transaction, with one wait for the disk.

        No other commit comes between them. Runs at least one, and as many as fit into about
        `most_s`. Stops early if others wait for the store's writer, or if one is refused. Returns
        the results of the committed ones. Raises the error of the first."""

    def wait(self, channel: str, after: int, timeout_s: float) -> int:
        """Wait until the channel's counter is > `after`, or for the timeout. Returns the counter.

        Works across processes."""

    def counter(self, channel: str) -> int:
        """The channel's counter now."""

    def split(self, span: Span, parts: int) -> list[Span]:
        """At most `parts` adjacent spans of about equal size that cover `span`."""

    def count(self, span: Span) -> int:
        """About the number of keys in the span; exact for small spans."""

    def free_bytes(self) -> int | None:
        """Free bytes on the disk of the store's files.

        None for servers, which have their own disks, and for memory."""

    @property
    def folder(self) -> str | None:
        """The folder of the store's files, which all its processes share.

        None for servers and for memory."""

    def changes(self, span: Span, after: str = "") -> Changes:
        """Pairs of the span that were written by commits that `after` does not see.

        Each commit appears once; removed keys do not appear. `after` "": all pairs."""

    def view_at(self, position: str) -> View | None:
        """The view with this position; None for the position before all commits."""

    def hold(self, name: str) -> Presence:
        """Take the named presence; Unavailable if a living process has it."""

    def held(self, name: str) -> bool:
        """Whether a living process holds the name. False as soon as its process has ended."""

    def measures(self) -> dict[str, float]:
        """The engine's metrics by name. Raises Unavailable."""

    def lock_table(self) -> LockTable:
        """The holders and waiters of locks of all processes on this host."""

    def lock_server(self) -> LockServer | None:
        """The store's lock server for all hosts, or None."""

    def close(self) -> None: ...


# -- forwarding ------------------------------------------------------------------------------------


class ForwardingStore(TransactionalStore):
    """Passes all calls to `shared`; see `Store` for the methods."""

    def __init__(self, shared: Store) -> None:
        self.shared = shared

    @property
    def near(self) -> bool:
        return self.shared.near

    def back_off(self, attempt: int) -> None:
        self.shared.back_off(attempt)

    def snapshot(self, use: SnapshotUse = SnapshotUse.SYSTEM) -> Snapshot:
        return self.shared.snapshot(use)

    def limit_snapshots(self, idle_s: float, query_s: float) -> None:
        self.shared.limit_snapshots(idle_s, query_s)

    def commit(self, packet: Packet) -> int:
        return self.shared.commit(packet)

    def commit_chain(self, packets: Sequence[Packet]) -> list[int]:
        return self.shared.commit_chain(packets)

    def bulk(
        self,
        keys: Sequence[bytes],
        payloads: Sequence[bytes] | bytes,
        requirements: Sequence[Requirement] = (),
        puts: Sequence[tuple[bytes, bytes]] = (),
        report: bool = False,
        overwrite: bool = False,
    ) -> BulkResult:
        return self.shared.bulk(keys, payloads, requirements, puts, report, overwrite)

    def bulk_chain(self, batches: Iterable[Bulk], most_s: float) -> list[BulkResult]:
        return self.shared.bulk_chain(batches, most_s)

    def wait(self, channel: str, after: int, timeout_s: float) -> int:
        return self.shared.wait(channel, after, timeout_s)

    def counter(self, channel: str) -> int:
        return self.shared.counter(channel)

    def split(self, span: Span, parts: int) -> list[Span]:
        return self.shared.split(span, parts)

    def count(self, span: Span) -> int:
        return self.shared.count(span)

    def free_bytes(self) -> int | None:
        return self.shared.free_bytes()

    @property
    def folder(self) -> str | None:
        return self.shared.folder

    def changes(self, span: Span, after: str = "") -> Changes:
        return self.shared.changes(span, after)

    def view_at(self, position: str) -> View | None:
        return self.shared.view_at(position)

    def hold(self, name: str) -> Presence:
        return self.shared.hold(name)

    def held(self, name: str) -> bool:
        return self.shared.held(name)

    def measures(self) -> dict[str, float]:
        return self.shared.measures()

    def lock_table(self) -> LockTable:
        return self.shared.lock_table()

    def lock_server(self) -> LockServer | None:
        return self.shared.lock_server()

    def close(self) -> None:
        self.shared.close()


# -- opening ---------------------------------------------------------------------------------------

if TYPE_CHECKING:
    from exuvia.kv.lmdb.environment import LmdbSettings


def open_store(
    url: str,
    clock: Clock | None = None,
    stall_s: float | None = None,
    allow_moved: bool = False,
    embedded: bool = False,
) -> Store:
    """Open the store at the URL. Raises Unavailable with the reason, or StoreMoved.

    StoreMoved is raised here, because readers would not notice a move; `allow_moved` suppresses it.
    `stall_s`: how long another process may delay all writers, unless the URL sets it. `embedded`:
    this process is a user's program, which must not be ended because of an old snapshot."""
    store = _opened(url, clock, stall_s, embedded)
    if allow_moved:
        return store
    try:
        with store.read() as txn:
            require_here(txn)
    except StoreMoved:
        store.close()
        raise
    except ExuviaError:
        pass  # a damaged page, or no room for a snapshot: later reads raise the error
    return store


_SHARED = "give lmdb:///path or postgresql://user@host/database"


def _opened(url: str, clock: Clock | None, stall_s: float | None, embedded: bool) -> Store:
    parts = urlsplit(url)
    if parts.scheme == "memory":
        from exuvia.kv.memory import MemoryStore

        return MemoryStore()
    if parts.scheme == "lmdb" and not parts.netloc and parts.path.strip("/"):
        from exuvia.kv.lmdb.environment import from_query
        from exuvia.kv.lmdb.store import LmdbStore

        settings = from_query(parts.query)
        if stall_s is not None and "stall_s=" not in parts.query:
            settings = replace(settings, stall_s=stall_s)
        return LmdbStore(unquote(parts.path), settings, clock or SystemClock(), embedded)
    if parts.scheme in ("postgresql", "postgres"):
        try:
            from exuvia.kv.postgres.store import PostgresStore
        except ImportError as error:
            raise Unavailable(
                f"a store on PostgreSQL needs psycopg: install exuvia[postgres] ({error})"
            ) from error
        return PostgresStore(url, clock or SystemClock())
    raise Unavailable(
        f"no store at {_quoted(url)}: {_SHARED}, or memory: for one that ends with this process"
    )


def _quoted(url: str) -> str:
    """The URL for an error text, without secrets: a mistyped postgresql:// may have a password."""
    from exuvia.kv.postgres.settings import without_secrets

    return repr(without_secrets(url))


def lmdb_place(url: str) -> "tuple[str, LmdbSettings]":
    """Folder and settings of an embedded store. Raises Unavailable for another URL."""
    parts = urlsplit(url)
    if parts.scheme != "lmdb" or parts.netloc or not parts.path.strip("/"):
        raise Unavailable(f"no embedded store at {_quoted(url)}: give lmdb:///path")
    from exuvia.kv.lmdb.environment import from_query

    return unquote(parts.path), from_query(parts.query)


def require_shared(url: str) -> None:
    """Raises Unavailable for a store that other processes cannot open, and for invalid URLs."""
    parts = urlsplit(url)
    if parts.scheme == "memory":
        raise Unavailable(f"a store in memory has no other processes: {_SHARED}")
    is_lmdb = parts.scheme == "lmdb" and not parts.netloc and parts.path.strip("/")
    if not is_lmdb and parts.scheme not in ("postgresql", "postgres"):
        raise Unavailable(f"no store at {_quoted(url)}: {_SHARED}")


def pinned(url: str) -> str:
    """The URL with the id of the present store: it opens no other store and creates none."""
    parts = urlsplit(url)
    if parts.scheme != "lmdb" or "id=" in parts.query:
        return url
    from exuvia.kv.lmdb.process import RECORD, read_place

    place = read_place(f"{unquote(parts.path)}/{RECORD}")
    if place is None or not place.id:
        return url
    return f"{url}{'&' if parts.query else '?'}id={place.id}"
