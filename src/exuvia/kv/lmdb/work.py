"""What a commit does inside the write transaction.

    before the gate     a large one: arrange (kv/validate.py), touch: its pages are read in
    with the gate held  validate, judge | write in key order, a mark of progress every stride
                        a small one: settle (kv/validate.py) | write

An ExuviaError is raised left of the bar only: who is refused has written nothing. Any other error
may come from anywhere; the transaction it comes from must be aborted as a whole (see committer).

A stored value is `[u64 little-endian commit sequence][payload]`.
"""

import gc
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
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
    with transaction.cursor() as cursor:
        for run in arranged.runs():
            for start in range(0, len(run), STRIDE):
                _found(cursor, run[start : start + STRIDE])


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


@contextmanager
def uncollected(size: int) -> Iterator[None]:
    """A large commit makes and holds millions of objects: a full collection looks at each of them,
    again and again, and finds none to free."""
    if size < LARGE or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def apply_arranged(transaction: Writing, arranged: Arranged, moved: Moved) -> int:
    """The same for a large one. Nothing is done key by key here that LMDB does for a stride."""
    with uncollected(arranged.size):
        read_many = partial(_read_many, transaction, moved)
        validate(arranged, transaction.get, read_many)
        judged, gone = outcomes(arranged, read_many)
        for channel in arranged.channels:
            judged.append((k.meta("channel", channel), _counted(transaction, channel)))
        sequence, stamp = _next_sequence(transaction)
        judged.append((SEQUENCE_KEY, b""))
        _remove(transaction, arranged.gone, moved)
        _remove(transaction, gone, moved)
        with transaction.cursor() as cursor:
            values = map(stamp.__add__, arranged.payloads)
            _put(cursor, zip(arranged.puts, values, strict=True), moved)
            _put(cursor, ((key, stamp + payload) for key, payload in judged), moved)
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
        return _found(cursor, keys)


def _found(cursor: Cursor, keys: Sequence[bytes]) -> dict[bytes, bytes]:
    """What stands at these keys. New rows mostly lie where nothing is, which one look tells."""
    if not cursor.set_range(min(keys)) or cursor.key() > max(keys):
        return {}
    return dict(cursor.getmulti(keys))


def _remove(transaction: Writing, keys: Sequence[bytes], moved: Moved) -> None:
    for start in range(0, len(keys), STRIDE):
        deque(map(transaction.delete, keys[start : start + STRIDE]), maxlen=0)
        moved()


def _put(
    cursor: Cursor, pairs: Iterator[tuple[bytes, bytes]], moved: Moved, overwrite: bool = True
) -> tuple[int, int]:
    """How many pairs there were, and how many of them were put."""
    seen = added = 0
    while True:
        some_seen, some_added = cursor.putmulti(islice(pairs, STRIDE), overwrite=overwrite)
        seen, added = seen + some_seen, added + some_added
        if some_seen == 0:
            return seen, added
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
        seen, added = _put(cursor, pairs, moved, bulk.overwrite)
        placed = seen if bulk.overwrite else added
        present = _present(transaction, bulk.keys, stamp) if bulk.report and placed < seen else []
        cursor.putmulti([(SEQUENCE_KEY, stamp), *((key, stamp + put) for key, put in bulk.puts)])
    return BulkResult(sequence, placed, present)


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
