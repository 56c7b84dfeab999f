"""Chains: consecutive transactions that share one wait for the disk.

    chain.begin() -> commit -> chain.begin() -> commit -> ... -> chain.flush()

Each is a transaction with its own requirements, packet and sequence. It reads the writes of the
earlier ones as if they were committed. `flush` validates and applies the packets in order, without
other commits between them (Store.commit_chain). The first refused packet ends the chain: earlier
packets are committed, later ones are not. Before `flush` has returned, nothing of the chain is in
the store; without `flush` all of it is discarded.

A key written in the chain has a provisional stamp, the position of its packet. The engine replaces
it in the requirements of later packets by the true stamp (`resolved`).

`sequence` of the n-th transaction is that of the snapshot plus n, so it is unique in the chain.
Whether each transaction has a stamp of its own depends on the engine.
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
    """The part of a store that a chain needs."""

    def snapshot(self) -> Snapshot: ...

    def commit_chain(self, packets: Sequence[Packet]) -> list[int]: ...


class Chain:
    """A chain on one snapshot. Not thread-safe. One transaction of it at a time."""

    def __init__(self, store: Engine) -> None:
        self._store = store
        self._base = store.snapshot()
        self._view = _View(self._base)
        self._packets: list[Packet] = []

    def begin(self) -> Transaction:
        """The next transaction; its `commit` adds it to the end of the chain."""
        return Transaction(self, self._view)

    def commit(self, packet: Packet) -> int:
        """Add a transaction's packet. Returns its provisional stamp.

        Raises Duplicate if the chain already shows one; `flush` validates everything else."""
        stamp = _PROVISIONAL + len(self._packets)
        self._view.write(settle(packet._replace(requirements=()), self._view.get), stamp)
        self._packets.append(packet)
        return stamp

    def flush(self) -> list[int]:
        """Commit all packets. Returns their sequences.

        Raises the error of the first refused packet; those before it are committed."""
        packets, self._packets = self._packets, []
        try:
            return self._store.commit_chain(packets) if packets else []
        finally:
            self.close()

    def close(self) -> None:
        """Release the snapshot and discard packets that were not flushed. Harmless if repeated."""
        self._base.close()


def resolved(packet: Packet, sequences: Sequence[int]) -> Packet:
    """The packet with true stamps, given the sequences of the earlier packets of its chain."""
    if not any(map(_is_provisional, packet.requirements)):
        return packet
    requirements = [
        requirement._replace(stamp=sequences[requirement.stamp - _PROVISIONAL])
        if isinstance(requirement, Unchanged) and _is_provisional(requirement)
        else requirement
        for requirement in packet.requirements
    ]
    return packet._replace(requirements=requirements)


def _is_provisional(requirement: Requirement) -> bool:
    return isinstance(requirement, Unchanged) and requirement.stamp >= _PROVISIONAL


class _View(InChunks):
    """A snapshot with the chain's writes. Implements kv/packet.py's Snapshot.

    Transactions of a chain read the same keys (epochs, revisions), so raw values are cached."""

    def __init__(self, base: Snapshot) -> None:
        self._base = base
        self._cache: dict[bytes, bytes | None] = {}
        self._written: dict[bytes, bytes | None] = {}
        self.sequence, self.order = base.sequence, base.order
        self.view = base.view
        self.skip, self.stamps = base.skip, base.stamps

    def write(self, after: dict[bytes, bytes | None], stamp: int) -> None:
        """Add a transaction's writes."""
        raw = stamp.to_bytes(STAMP_BYTES, "little")
        for key, payload in after.items():
            self._written[key] = self._cache[key] = None if payload is None else raw + payload
        self.sequence += 1
        self.order += 1

    def saw(self, stamp: int) -> bool:
        """Whether it sees the commit; also true for commits of the chain."""
        return stamp >= _PROVISIONAL or self._base.saw(stamp)

    def get(self, key: bytes) -> bytes | None:
        """The raw value, or None."""
        try:
            return self._cache[key]
        except KeyError:
            raw = self._cache[key] = self._base.get(key)
            return raw

    def get_many(self, keys: list[bytes]) -> dict[bytes, bytes]:
        """The raw values of the keys that exist."""
        written = self._written
        raws = self._base.get_many([key for key in keys if key not in written])
        for key in keys:
            raw = written.get(key)
            if raw is not None:
                raws[key] = raw
        return raws

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
        self._base.ahead([key for key in keys if key not in self._cache])

    def require_open(self) -> None:
        self._base.require_open()

    def in_use(self, running: bool) -> None:
        self._base.in_use(running)

    def close(self) -> None:
        """Does nothing: the snapshot belongs to the chain."""
