"""What a commit does inside the write transaction.

Called with the gate held; raises before it has written anything.

A stored value is `[u64 little-endian commit sequence][payload]`.
"""

from collections.abc import Sequence
from itertools import repeat
from typing import NamedTuple

from exuvia.base.errors import ExuviaError
from exuvia.kv import keys as k
from exuvia.kv.chain import resolved
from exuvia.kv.lmdb.environment import SEQUENCE_KEY
from exuvia.kv.lmdb.native import Reading, Writing
from exuvia.kv.packet import LONGEST_KEY, SEQUENCE_BYTES, BulkResult, Packet, Requirement
from exuvia.kv.validate import check, require_short, settle


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


def apply_packet(transaction: Writing, packet: Packet) -> int:
    """Validate and write one packet; its sequence. Raises what kv/validate.py raises."""
    after = settle(packet, transaction.get)
    for channel in packet.channels:
        key = k.meta("channel", channel)
        raw = transaction.get(key)
        after[key] = k.number(k.read_number(raw and raw[SEQUENCE_BYTES:]) + 1)
    sequence, stamp = _next_sequence(transaction)
    puts = [(key, stamp + payload) for key, payload in after.items() if payload is not None]
    puts.append((SEQUENCE_KEY, stamp))
    if len(puts) <= len(after):
        for key, payload in after.items():
            if payload is None:
                transaction.delete(key)
    with transaction.cursor() as cursor:
        cursor.putmulti(puts)
    return sequence


def apply_chain(
    transaction: Writing, packets: Sequence[Packet]
) -> tuple[list[int], ExuviaError | None]:
    """Packets of a chain up to the first that is refused: sequences, and why it was."""
    sequences: list[int] = []
    for packet in packets:
        try:
            sequences.append(apply_packet(transaction, resolved(packet, sequences)))
        except ExuviaError as refusal:  # it has written nothing; those before it have
            return sequences, refusal
    return sequences, None


def apply_bulk(transaction: Writing, bulk: Bulk) -> BulkResult:
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
        seen, added = cursor.putmulti(pairs, overwrite=bulk.overwrite)
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
