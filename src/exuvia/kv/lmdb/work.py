"""What a commit does inside the write transaction.

    before the gate     a large one: arrange (kv/validate.py), touch: its pages are read in
    with the gate held  validate, judge | write in key order, a mark of progress every stride
                        a small one: settle (kv/validate.py) | write

An ExuviaError is raised left of the bar only: who is refused has written nothing. Any other error
may come from anywhere; the transaction it comes from must be aborted as a whole (see committer).

A stored value is `[u64 little-endian commit sequence][payload]`.
"""

import gc
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice, repeat
from typing import NamedTuple

from exuvia.base.errors import ExuviaError
from exuvia.kv import keys as k
from exuvia.kv.chain import resolved
from exuvia.kv.lmdb.environment import SEQUENCE_KEY
from exuvia.kv.lmdb.native import Cursor, Reading, Writing
from exuvia.kv.packet import LONGEST_KEY, SEQUENCE_BYTES, BulkResult, Packet, Requirement
from exuvia.kv.validate import (
    FEW,
    STRIDE,
    Arranged,
    arrange,
    check,
    outcomes,
    require_short,
    settle,
    validate,
)

Moved = Callable[[], None]
SMALL = 256
"""Writes and requirements below which sorting them first is no gain."""
LARGE = 10_000
TOUCHED = 256
"""Keys from which a commit's pages are worth a look beforehand."""


class Bulk(NamedTuple):
    """The arguments of Store.bulk."""

    keys: Sequence[bytes]
    payloads: Sequence[bytes] | bytes
    requirements: Sequence[Requirement]
    puts: Sequence[tuple[bytes, bytes]]
    report: bool
    overwrite: bool


def read_sequence(transaction: Reading) -> int:
    """The last commit sequence that the transaction sees."""
    return int.from_bytes(transaction.get(SEQUENCE_KEY) or b"", "little")


def _next_sequence(transaction: Writing) -> tuple[int, bytes]:
    sequence = read_sequence(transaction) + 1
    return sequence, sequence.to_bytes(SEQUENCE_BYTES, "little")


def recover(_transaction: Writing) -> None:
    """Nothing: that a write transaction began is what puts a killed writer's commit in order."""


def touch(transaction: Reading, arranged: Arranged) -> None:
    """Read what a large commit will look at and write beside, so that nobody waits for the disk
    with the gate held."""
    keys = arranged.keys()
    with transaction.cursor() as cursor:
        while part := list(islice(keys, STRIDE)):
            cursor.getmulti(part)


def apply_packet(transaction: Writing, packet: Packet, moved: Moved) -> int:
    """Validate and write a small packet; its sequence. Raises what kv/validate.py raises."""
    after = settle(packet, transaction.get, partial(_read_many, transaction, moved))
    for channel in packet.channels:
        after[k.meta("channel", channel)] = _counted(transaction, channel)
    sequence = int.from_bytes(transaction.get(SEQUENCE_KEY) or b"", "little") + 1
    stamp = sequence.to_bytes(SEQUENCE_BYTES, "little")
    puts = [(key, stamp + payload) for key, payload in after.items() if payload is not None]
    if len(puts) < len(after):
        for key, payload in after.items():
            if payload is None:
                transaction.delete(key)
    puts.append((SEQUENCE_KEY, stamp))
    with transaction.cursor() as cursor:
        cursor.putmulti(puts)
    return sequence


def _counted(transaction: Writing, channel: str) -> bytes:
    """What the channel's counter becomes."""
    raw = transaction.get(k.meta("channel", channel))
    return k.number(k.read_number(raw and raw[SEQUENCE_BYTES:]) + 1)


def apply_arranged(transaction: Writing, arranged: Arranged, moved: Moved) -> int:
    """The same for a large one."""
    if arranged.size < LARGE or not gc.isenabled():
        return _apply(transaction, arranged, moved)
    gc.disable()  # a full collection looks at millions of objects and finds none to free
    try:
        return _apply(transaction, arranged, moved)
    finally:
        gc.enable()


def _apply(transaction: Writing, arranged: Arranged, moved: Moved) -> int:
    read_many = partial(_read_many, transaction, moved)
    validate(arranged, transaction.get, read_many)
    judged, unjudged = outcomes(arranged, read_many)
    for channel in arranged.channels:
        judged.append((k.meta("channel", channel), _counted(transaction, channel)))
    sequence, stamp = _next_sequence(transaction)
    judged.append((SEQUENCE_KEY, b""))
    _remove(transaction, arranged.gone, moved)
    _remove(transaction, unjudged, moved)
    with transaction.cursor() as cursor:
        _put(cursor, arranged.puts, stamp, moved)
        _put(cursor, judged, stamp, moved)
    return sequence


def is_small(packet: Packet) -> bool:
    """Whether it is settled key by key."""
    return len(packet.writes) + len(packet.requirements) < SMALL


def apply_either(transaction: Writing, packet: Packet, moved: Moved) -> int:
    """Validate and write a packet of any size, all of it with the gate held."""
    if is_small(packet):
        return apply_packet(transaction, packet, moved)
    return apply_arranged(transaction, arrange(packet), moved)


def _read_many(transaction: Reading, moved: Moved, keys: Sequence[bytes]) -> dict[bytes, bytes]:
    if len(keys) < FEW:
        get = transaction.get
        return {key: raw for key in keys if (raw := get(key)) is not None}
    moved()
    with transaction.cursor() as cursor:
        return dict(cursor.getmulti(keys))


def _remove(transaction: Writing, keys: Sequence[bytes], moved: Moved) -> None:
    for number, key in enumerate(keys, 1):
        transaction.delete(key)
        if number % STRIDE == 0:
            moved()


def _put(cursor: Cursor, pairs: Sequence[tuple[bytes, bytes]], stamp: bytes, moved: Moved) -> None:
    for start in range(0, len(pairs), STRIDE):
        cursor.putmulti([(key, stamp + payload) for key, payload in pairs[start : start + STRIDE]])
        moved()


def apply_chain(
    transaction: Writing, packets: Sequence[Packet], moved: Moved
) -> tuple[list[int], ExuviaError | None]:
    """Packets of a chain up to the first that is refused: sequences, and why it was."""
    sequences: list[int] = []
    for packet in packets:
        try:
            sequences.append(apply_either(transaction, resolved(packet, sequences), moved))
        except ExuviaError as refusal:  # it has written nothing; those before it have
            return sequences, refusal
    return sequences, None


def apply_bulk(transaction: Writing, bulk: Bulk, moved: Moved) -> BulkResult:
    """Put sorted keys where nothing stands; see Store.bulk."""
    for requirement in bulk.requirements:
        check(requirement, transaction.get)
    if bulk.keys and max(map(len, bulk.keys)) > LONGEST_KEY:
        require_short(max(bulk.keys, key=len))
    sequence, stamp = _next_sequence(transaction)
    if isinstance(bulk.payloads, bytes):
        pairs = zip(bulk.keys, repeat(stamp + bulk.payloads))
    else:
        pairs = zip(bulk.keys, map(stamp.__add__, bulk.payloads), strict=True)
    with transaction.cursor() as cursor:
        seen, added = _put_bulk(cursor, pairs, bulk.overwrite, moved)
        placed = seen if bulk.overwrite else added
        present = _present(transaction, bulk.keys, stamp) if bulk.report and placed < seen else []
        cursor.putmulti([(SEQUENCE_KEY, stamp), *((key, stamp + put) for key, put in bulk.puts)])
    return BulkResult(sequence, placed, present)


def _put_bulk(
    cursor: Cursor, pairs: Iterator[tuple[bytes, bytes]], overwrite: bool, moved: Moved
) -> tuple[int, int]:
    seen = added = 0
    while part := list(islice(pairs, STRIDE)):
        some_seen, some_added = cursor.putmulti(part, overwrite=overwrite)
        seen, added = seen + some_seen, added + some_added
        moved()
    return seen, added


def _present(transaction: Writing, keys: Sequence[bytes], stamp: bytes) -> list[tuple[int, bytes]]:
    """What is not ours bears another stamp, or stands twice in the list."""
    found = []
    before = None
    for position, key in enumerate(keys):
        raw = transaction.get(key) or b""
        if raw[:SEQUENCE_BYTES] != stamp or key == before:
            found.append((position, raw[SEQUENCE_BYTES:]))
        before = key
    return found
