"""Emptying a range batch by batch: what a drop left behind, and tombstones nobody needs any more.

    empty    every key goes, whatever it holds: nobody writes there any more (the table or the index
             is gone, and its last writers were fenced), so nothing is validated
    purge    tombstones of a public index go, live entries stay. An entry may be placed over a
             tombstone at any time, so each removal is validated: Conflict, and the batch is read
             anew

Both write into the caller's transaction, which notes there how far it came: so a range is resumed
by anybody at the key where the last commit left it, and harmless twice. Neither commits.
"""

from exuvia.kv.entry import TOMBSTONE, WriteKind
from exuvia.kv.packet import SEQUENCE_BYTES, Span
from exuvia.kv.transaction import Transaction

BATCH_KEYS = 5_000
SCAN_BATCHES = 20  # how many batches of live entries one purge may look at


def empty(txn: Transaction, span: Span, most: int = BATCH_KEYS) -> bytes | None:
    """Remove at most so many keys; where to go on, None when nothing is left behind them."""
    for found, _ in txn.snapshot.chunks(span, most):
        for key in found:
            txn.write(WriteKind.REMOVE, key, b"")
        return None if len(found) < most else found[-1] + b"\0"
    return None


def purge(txn: Transaction, span: Span, most: int = BATCH_KEYS) -> bytes | None:
    """Remove at most so many tombstones; where to go on, None at the end of the span."""
    removed = seen = 0
    for found, raws in txn.snapshot.chunks(span, most):
        for key, raw in zip(found, raws, strict=True):
            if raw[SEQUENCE_BYTES:] == TOMBSTONE:
                txn.delete(key)
                removed += 1
        seen += len(found)
        if removed + len(found) > most or seen >= SCAN_BATCHES * most:
            return found[-1] + b"\0"
    return None
