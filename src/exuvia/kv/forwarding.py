"""A store that hands everything on to another; what its decorators do not say, they inherit.

    LocalStore       kv/local.py            a session's own keys laid over the shared store
    UnhurriedStore   pipeline/throttle.py   writes made by a thread of ordinary priority
    NodeStore        sim/faulty.py          a process that may be killed before or after any commit

Transactions begin on the decorator, so that their commits pass it.
"""

from collections.abc import Iterator, Sequence

from exuvia.kv.lock_table import LockTable
from exuvia.kv.packet import BulkResult, Packet, Requirement, Snapshot, Span
from exuvia.kv.store import Presence, Store
from exuvia.kv.transaction import Transaction


class ForwardingStore:
    """See the module, and kv/store.py for what each method promises."""

    def __init__(self, shared: Store) -> None:
        self.shared = shared

    def begin(self) -> Transaction:
        return Transaction(self, self.snapshot())

    def snapshot(self, for_client: bool = False) -> Snapshot:
        return self.shared.snapshot(for_client)

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

    def wait(self, channel: str, after: int, timeout_s: float) -> int:
        return self.shared.wait(channel, after, timeout_s)

    def counter(self, channel: str) -> int:
        return self.shared.counter(channel)

    def split(self, span: Span, parts: int) -> list[Span]:
        return self.shared.split(span, parts)

    def count(self, span: Span) -> int:
        return self.shared.count(span)

    def watch(self, span: Span, after: int) -> Iterator[tuple[bytes, bytes | None, int]]:
        return self.shared.watch(span, after)

    def hold(self, name: str) -> Presence:
        return self.shared.hold(name)

    def held(self, name: str) -> bool:
        return self.shared.held(name)

    def measures(self) -> dict[str, float]:
        return self.shared.measures()

    def lock_table(self) -> LockTable:
        return self.shared.lock_table()

    def close(self) -> None:
        self.shared.close()
