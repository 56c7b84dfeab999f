"""Transactions behind one another that wait for the disk once.

    chain.begin() -> commit -> chain.begin() -> commit -> ... -> chain.flush()

Each is a transaction of its own: its own requirements, its own packet, its own sequence. It reads
what those before it have written, as if they were committed. `flush` has the packets validated and
applied in their order with nothing between them (Store.commit_chain); the first that is refused
ends the chain: those before it stand, it and all behind it do not. Until `flush` has returned
nothing of the chain is in the store, and what is not flushed is forgotten.

A key written in the chain bears a provisional stamp, the place of its packet; the engine puts the
true one into the requirements of later packets (`resolved`).

`sequence` of the n-th transaction is the snapshot's plus n: different from those of the others of
its chain. Whether each has a stamp of its own is the engine's matter.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Protocol

from exuvia.kv.packet import (
    STAMP_BYTES,
    InChunks,
    Packet,
    Requirement,
    Snapshot,
    Span,
    Unchanged,
)
from exuvia.kv.transaction import Transaction, merged
from exuvia.kv.validate import settle

_PROVISIONAL = 1 << 63


class Engine(Protocol):
    """What a chain needs of a store."""

    def snapshot(self) -> Snapshot: ...

    def commit_chain(self, packets: Sequence[Packet]) -> list[int]: ...


class Chain:
    """See the module. Not thread-safe. One transaction of it at a time."""

    def __init__(self, store: Engine) -> None:
        self._store = store
        self._base = store.snapshot()
        self._view = _View(self._base)
        self._packets: list[Packet] = []

    def begin(self) -> Transaction:
        """The next transaction; its `commit` puts it behind those before."""
        return Transaction(self, self._view)

    def commit(self, packet: Packet) -> int:
        """A transaction of this chain commits; its provisional stamp. Raises Duplicate where
        that shows already; all else is validated by `flush`."""
        stamp = _PROVISIONAL + len(self._packets)
        self._view.write(settle(packet._replace(requirements=()), self._view.get), stamp)
        self._packets.append(packet)
        return stamp

    def flush(self) -> list[int]:
        """Commit them all; their sequences. Raises what the first that is refused deserves, those
        before it are committed."""
        packets, self._packets = self._packets, []
        try:
            return self._store.commit_chain(packets) if packets else []
        finally:
            self.close()

    def close(self) -> None:
        """Give the snapshot back; what was not flushed is forgotten. Twice is harmless."""
        self._base.close()


def resolved(packet: Packet, sequences: Sequence[int]) -> Packet:
    """The packet as it is validated, given the sequences of those before it in its chain."""
    if not any(map(_is_provisional, packet.requirements)):
        return packet
    requirements = [
        each._replace(stamp=sequences[each.stamp - _PROVISIONAL])
        if isinstance(each, Unchanged) and _is_provisional(each)
        else each
        for each in packet.requirements
    ]
    return packet._replace(requirements=requirements)


def _is_provisional(requirement: Requirement) -> bool:
    return isinstance(requirement, Unchanged) and requirement.stamp >= _PROVISIONAL


class _View(InChunks):
    """A snapshot with what the chain has written over it. Implements kv/packet.py's Snapshot.

    What one transaction of a chain reads the next reads too (epochs, revisions), so raw values are
    kept."""

    def __init__(self, base: Snapshot) -> None:
        self._base = base
        self._known: dict[bytes, bytes | None] = {}
        self._written: dict[bytes, bytes | None] = {}
        self.sequence, self.order = base.sequence, base.order
        self.view = base.view
        self.skip, self.stamps = base.skip, base.stamps

    def write(self, after: dict[bytes, bytes | None], stamp: int) -> None:
        """What a transaction leaves behind."""
        raw = stamp.to_bytes(STAMP_BYTES, "little")
        for key, payload in after.items():
            self._written[key] = self._known[key] = None if payload is None else raw + payload
        self.sequence += 1
        self.order += 1

    def saw(self, stamp: int) -> bool:
        """What the chain has written, too."""
        return stamp >= _PROVISIONAL or self._base.saw(stamp)

    def get(self, key: bytes) -> bytes | None:
        """Raw value or None."""
        try:
            return self._known[key]
        except KeyError:
            raw = self._known[key] = self._base.get(key)
            return raw

    def get_many(self, keys: list[bytes]) -> dict[bytes, bytes]:
        """Raw values of those keys that are there."""
        written = self._written
        found = self._base.get_many([key for key in keys if key not in written])
        for key in keys:
            raw = written.get(key)
            if raw is not None:
                found[key] = raw
        return found

    def scan(self, span: Span, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """Raw pairs in key order."""
        own = [pair for pair in self._written.items() if span.start <= pair[0] < span.end]
        own.sort(reverse=reverse)
        committed = self._base.scan(span, reverse)
        return merged(committed, own, reverse) if own else committed

    def chunks(self, span: Span, rows: int = 10_000) -> Iterator[tuple[list[bytes], list[bytes]]]:
        """Raw keys and values, `rows` at a time."""
        pairs = self.scan(span)
        while part := list(islice(pairs, rows)):
            yield [key for key, _ in part], [raw for _, raw in part]

    def ahead(self, keys: Sequence[bytes]) -> None:
        self._base.ahead([key for key in keys if key not in self._known])

    def require_open(self) -> None:
        self._base.require_open()

    def in_use(self, running: bool) -> None:
        self._base.in_use(running)

    def close(self) -> None:
        """The snapshot is the chain's."""
