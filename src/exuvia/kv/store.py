"""The store protocol: all that Exuvia asks of a key-value engine.

A transaction reads one snapshot, buffers its writes, reads through them, and is validated when it
commits:

    begin --> snapshot with a view        reads: values of commits that it sees, own writes
    commit -> for each requirement:       it holds now, else Conflict / SchemaChanged / Deposed
              for each write:             see kv/packet.py (laws 5 and 6)
              then all writes appear at once, each with the stamp of this commit, or none

What is prevented: lost update (a written key that changed), dirty and non-repeatable reads
(snapshot). Write skew is prevented only where the reader calls `require`. Phantoms are not
prevented: a range that was scanned may grow before the commit; `require` a key that every writer
of the range touches if that matters.

Whoever stands above kv reads by `read` and writes by `transact`; `begin` is for a transaction that
lives on when the call ends.

Committed values are `[u64 little-endian stamp][payload]`. `get` and `scan` give payloads; `chunks`
gives the raw values, for vectorised readers.

What says which commit came before which; no engine need have one number for all of it:

    stamp      unique to a commit (a chain may have one for all its packets); compared for equality,
               and with a view
    view       which commits a snapshot sees, by their stamps
    order      which of two snapshots of a process was taken later
    sequence   of a snapshot: to draw numbers from that grow (kv/packet.py)
    position   where a reader of `changes` goes on, as text: a view

A ForwardingStore hands everything on to another; its decorators say only what they change.

    LocalStore       kv/local.py            a session's own keys laid over the shared store
    UnhurriedStore   pipeline/throttle.py   writes made by a thread of ordinary priority
    NodeStore        sim/process.py          a process that may be killed before or after any commit

Transactions begin on the decorator, so that their commits pass it.

`open_store` is the one way to a store, by URL:

    memory:                    in this process, gone with it
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
    """Proof that this process lives, seen by others on the same store; see `Store.hold`."""

    def release(self) -> None:
        """End it on purpose."""


class Store(Protocol):
    """An engine. Thread-safe."""

    @property
    def near(self) -> bool:
        """Whether a read waits for nobody: for no network, and no other process."""

    def read(self) -> ManagedTransaction:
        """A look at a fresh snapshot: `with store.read() as txn`. It cannot be committed."""

    def transact(self, work: Work[Answer], attempts: int = ATTEMPTS) -> Answer:
        """What `work(txn)` returns, committed. It is called anew on a fresh snapshot after each
        Conflict, by the rule of kv/transaction.py, so it reads whatever it needs by itself and
        changes nothing but `txn`; what follows from the commit is done by the caller, behind it.

        `attempts`: another budget; say why where it is given. Raises the last Conflict, and at
        once what else the work or the commit raises: nothing was applied, unless it is
        OutcomeUnknown."""

    def back_off(self, attempt: int) -> None:
        """Wait after attempt 0, 1, 2 ... of something that lost to others. At most 50 ms."""

    def begin(self) -> Transaction:
        """A transaction on a fresh snapshot that the caller ends, by `commit` or `rollback`."""

    def snapshot(self, use: SnapshotUse = SnapshotUse.SYSTEM) -> Snapshot:
        """A fresh view of all that is committed.

        A client's may be taken with its first read, or when it is asked what it sees. Engines whose
        views are few keep the clients of a process to a share of them and raise 1637 beyond it, so
        that the system's own find a place."""

    def limit_snapshots(self, idle_s: float, query_s: float) -> None:
        """How long snapshots may live from now on: unused, and at all."""

    def commit(self, packet: Packet) -> int:
        """Validate and apply; its sequence, once it survives power loss (or what is promised)."""

    def commit_chain(self, packets: Sequence[Packet]) -> list[int]:
        """Commit packets of kv/chain.py in order, nothing between them, one wait for the disk.

        Their sequences. Raises what the first that is refused deserves: those before it stand,
        it and those behind it do not."""

    def bulk(
        self,
        keys: Sequence[bytes],
        payloads: Sequence[bytes] | bytes,
        requirements: Sequence[Requirement] = (),
        puts: Sequence[tuple[bytes, bytes]] = (),
        report: bool = False,
        overwrite: bool = False,
    ) -> BulkResult:
        """Put sorted keys where nothing stands, neither entry nor tombstone: one transaction.

        `payloads` may be one payload for all. `puts` are written too (a checkpoint, a row count),
        unvalidated. `report` asks for the keys found taken. `overwrite` replaces instead (bulk
        load of an unpublished table)."""

    def bulk_chain(self, batches: Iterable[Bulk], most_s: float) -> list[BulkResult]:
        """Bulks one after another that wait for the disk once, each a transaction of its own with
        nothing between them. Does as many of the first of them, one at least, as fit into about
        `most_s`; fewer where others wait for the store's writer, or where one is refused. Raises
        what the first deserves; the results are of those that stand."""

    def wait(self, channel: str, after: int, timeout_s: float) -> int:
        """Wait until the channel's counter is > after or time is up; returns the counter.

        Crosses processes."""

    def counter(self, channel: str) -> int:
        """The channel's counter now."""

    def split(self, span: Span, parts: int) -> list[Span]:
        """At most `parts` adjoining spans of about equal size that cover `span`."""

    def count(self, span: Span) -> int:
        """About how many keys the span holds (exact on small spans)."""

    def free_bytes(self) -> int | None:
        """Free on the disk that the store's files are on; None where this process does not see it:
        of a server, which has a disk of its own, and of memory."""

    def changes(self, span: Span, after: str = "") -> Changes:
        """What stands in the span and was written by commits that the position does not see, each
        commit once; a key that was removed is not told. `after` "": everything that stands."""

    def view_at(self, position: str) -> View | None:
        """The view that the position is the text of; None: before all commits."""

    def hold(self, name: str) -> Presence:
        """Take the named presence; Unavailable if a living process has it."""

    def held(self, name: str) -> bool:
        """Whether a living process holds the name. False at once when its process has ended."""

    def measures(self) -> dict[str, float]:
        """What the engine tells of itself, for graphs: numbers by name. Raises Unavailable."""

    def lock_table(self) -> LockTable:
        """Who holds and who waits for which key, of all processes on this store's host."""

    def lock_server(self) -> LockServer | None:
        """The same for all hosts, where the store has a server that keeps locks."""

    def close(self) -> None: ...


# -- forwarding ------------------------------------------------------------------------------------


class ForwardingStore(TransactionalStore):
    """See the module, and `Store` for what each method promises."""

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
    left: bool = False,
    embedded: bool = False,
) -> Store:
    """The store at the URL. Raises Unavailable where it cannot be opened; the text says why; and
    StoreMoved, which would not be noticed by who only reads, unless one that was `left` will do.

    `stall_s`: how long another process may keep all writers waiting, if the URL does not say.
    `embedded`: this process is somebody's program, which nobody ends for an old snapshot."""
    store = _opened(url, clock, stall_s, embedded)
    if left:
        return store
    try:
        with store.read() as txn:
            require_here(txn)
    except StoreMoved:
        store.close()
        raise
    except ExuviaError:
        pass  # a damaged page, no room for a look: whoever reads is told
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
    """Of an unknown scheme, a mistyped postgresql:// among them."""
    from exuvia.kv.postgres.settings import shown

    return repr(shown(url))


def lmdb_place(url: str) -> "tuple[str, LmdbSettings]":
    """Folder and settings of an embedded store. Raises Unavailable for another URL."""
    parts = urlsplit(url)
    if parts.scheme != "lmdb" or parts.netloc or not parts.path.strip("/"):
        raise Unavailable(f"no embedded store at {_quoted(url)}: give lmdb:///path")
    from exuvia.kv.lmdb.environment import from_query

    return unquote(parts.path), from_query(parts.query)


def require_shared(url: str) -> None:
    """Raises Unavailable for a store that other processes cannot open, and for no store at all."""
    parts = urlsplit(url)
    if parts.scheme == "memory":
        raise Unavailable(f"a store in memory has no other processes: {_SHARED}")
    is_lmdb = parts.scheme == "lmdb" and not parts.netloc and parts.path.strip("/")
    if not is_lmdb and parts.scheme not in ("postgresql", "postgres"):
        raise Unavailable(f"no store at {_quoted(url)}: {_SHARED}")


def pinned(url: str) -> str:
    """The URL of the very store that is there now: it opens no other one, and makes none."""
    parts = urlsplit(url)
    if parts.scheme != "lmdb" or "id=" in parts.query:
        return url
    from exuvia.kv.lmdb.process import RECORD, read_place

    place = read_place(f"{unquote(parts.path)}/{RECORD}")
    if place is None or not place.id:
        return url
    return f"{url}{'&' if parts.query else '?'}id={place.id}"
