"""What passes between a transaction and its engine:

spans, snapshots, requirements, writes. Plain data."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

SEQUENCE_BYTES = 8
LONGEST_KEY = 1978
"""Bytes a key may have on every engine (LMDB's bound with pages of 4 KiB)."""


def sequence_of(raw: bytes) -> int:
    """The commit sequence a stored value begins with."""
    return int.from_bytes(raw[:SEQUENCE_BYTES], "little")


class Span(NamedTuple):
    """Keys k with start <= k < end."""

    start: bytes
    end: bytes


class Unchanged(NamedTuple):
    """The key's value is still the one of this sequence (0: absent), as the snapshot saw it.

    Broken: Conflict(anomaly)."""

    key: bytes
    sequence: int
    anomaly: str


class Equal(NamedTuple):
    """The key's payload is exactly this when committing: an epoch. Broken: Deposed."""

    key: bytes
    payload: bytes


class AtMost(NamedTuple):
    """The key holds a u64 (see keys.number) and it is <= limit: a revision fence.

    Broken or absent: SchemaChanged."""

    key: bytes
    limit: int


class Standing(NamedTuple):
    """`Unchanged` for many keys that are all there; `stamps`: their sequences as the values begin
    with them, 8 bytes each.

    Broken: Conflict(anomaly)."""

    keys: Sequence[bytes]
    stamps: bytes
    anomaly: str

    @property
    def key(self) -> bytes:
        """The first of them."""
        return self.keys[0]


class HeldKeys(NamedTuple):
    """Keys that a transaction held since the snapshot of that sequence: written, or locked.

    `modes`: marks of which locks of others would have stood in its way."""

    since: int
    modes: tuple[bytes, ...]
    keys: Sequence[bytes]


class Unlocked(NamedTuple):
    """No transaction that locked one of these keys has committed since they were held; all are of
    the table of this header.

    Broken: Conflict. Source: decision 039."""

    header: bytes
    groups: Sequence[HeldKeys]

    @property
    def key(self) -> bytes:
        """The first of them."""
        return self.groups[0].keys[0]


Requirement = Unchanged | Equal | AtMost | Standing | Unlocked


class Write(NamedTuple):
    """One buffered write; `kind` is one of kv/entry.py's Kind."""

    kind: int
    key: bytes
    payload: bytes


class Packet(NamedTuple):
    """A transaction ready to be validated and applied: plain data, so any thread may do it."""

    writes: Sequence[Write]
    requirements: Sequence[Requirement]
    channels: Sequence[str]


class BulkResult(NamedTuple):
    """What a bulk put-if-absent met:

    how many keys it `placed`, and, only if asked for, those `present`.

    `present` holds (position in keys, payload that stands there). A key that is twice in the list
    is present the second time, with the payload that the first has placed."""

    sequence: int
    placed: int
    present: list[tuple[int, bytes]]


class Snapshot(Protocol):
    """One consistent view. Not thread-safe; raises Unavailable once it outlived its allowed age."""

    sequence: int

    def get(self, key: bytes) -> bytes | None:
        """Raw committed value (with its sequence) or None."""

    def get_many(self, keys: list[bytes]) -> dict[bytes, bytes]:
        """Raw committed values of those of the keys that are there."""

    def scan(self, span: Span, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """Raw (key, value) pairs in key order. Safe to abandon half way."""

    def chunks(self, span: Span, rows: int = 10_000) -> Iterator[tuple[list[bytes], list[bytes]]]:
        """The same as lists of at most `rows` keys and values: the fast way to read much."""

    def in_use(self, running: bool) -> None:
        """A statement runs on it, or no longer: what a statement runs on is not idle."""

    def close(self) -> None:
        """Give the snapshot back. Twice is harmless."""


class Committer(Protocol):
    """What a transaction needs of a store."""

    def commit(self, packet: Packet) -> int: ...
