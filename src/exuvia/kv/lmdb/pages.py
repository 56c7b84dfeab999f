"""What the data file's pages are used for, and what old readers keep from being used again.

A commit writes new pages and frees those that they replace. A freed page is used again once no
reader is as old as the commit that freed it; until then new commits take pages from the end of the
file, which never shrinks (`exuvia store compact` is for that). LMDB does not tell which pages wait
for which reader, but it tells two numbers after every commit:

    free = pages of the file - pages of the data

A reader keeps at most what was freed since it began. It has *caused* no more than the growth of
`free` since then: what grows because data grows is not its fault, nor is what it keeps while other
free pages are enough. So it is judged by that growth, from the first look after it began.

How many keys, and where to cut, without reading them all.

LMDB cannot tell a key's rank. Up to EXACT_KEYS are counted. Beyond that leaf pages are: their
headers, of at most 65,536 at even distances, say how many keys they hold (leaves.py, Outline).

Where whole pages cannot be read, or are too many to number, the keys are looked at as a binary
tree: the first bit in which the first and the last key differ parts them in two halves, neither of
them empty. Its size is estimated by random descents (Knuth, Estimating the efficiency of backtrack
programs, 1975): go down choosing halves by chance, and two to the number of choices, times what is
left where the end can be counted, has the right mean.

    cut    the heaviest piece is halved again and again, so that what is rare and far away (one huge
           handle behind a million small ones) does not spoil the rest
    weigh  then every piece is estimated anew: the estimates that led the cutting are biased by it

Precision: exact up to EXACT_KEYS; by pages within 1 %; by descents mostly within 5 % on integer
keys, 15 % on text, whatever gaps and clusters they have, in 0.05 to 0.1 s however many keys.
"""

import heapq
import os
import random
import threading
from collections import deque
from itertools import pairwise
from typing import NamedTuple, Protocol

import lmdb
import msgspec
import numpy as np

from exuvia.base import private_files
from exuvia.kv.lmdb.leaves import Outline
from exuvia.kv.packet import Span

MOST_LOOKS = 4096
META_PAGES = 2

Reader = tuple[int, str, str]
"""(pid, thread, transaction) as LMDB lists them."""


class Pages(NamedTuple):
    """After a transaction; counts are of pages of `size` bytes."""

    transaction: int
    size: int
    total: int
    used: int
    entries: int

    @property
    def free(self) -> int:
        """To be used again, now or once no reader needs them."""
        return max(0, self.total - self.used)


def pages_of(opened: lmdb.Environment) -> Pages:
    """How the file's pages are used now. What old readers keep counts as free."""
    info, stat = opened.info(), opened.stat()
    used = META_PAGES + stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"]
    return Pages(info["last_txnid"], stat["psize"], info["last_pgno"] + 1, used, stat["entries"])


def readers_of(table: str) -> set[Reader]:
    """(pid, thread, transaction) of each reader in LMDB's own listing of them."""
    rows = (line.split() for line in table.splitlines()[1:])
    return {(int(row[0]), row[1], row[2]) for row in rows if len(row) == 3 and row[2] != "-"}


class Growth:
    """The growth of `free` as one process saw it. `look` is called about every second."""

    def __init__(self) -> None:
        self._looks: deque[Pages] = deque(maxlen=MOST_LOOKS)

    def look(self, pages: Pages, oldest: int | None) -> None:
        """`oldest`: the transaction of the oldest reader, None without any."""
        if self._looks and self._looks[-1].transaction > pages.transaction:
            self._looks.clear()  # another file, whose transactions are counted from anew
        if self._looks and self._looks[-1].transaction == pages.transaction:
            self._looks.pop()
        self._looks.append(pages)
        while len(self._looks) > 1 and (oldest is None or self._looks[0].transaction < oldest):
            self._looks.popleft()

    def kept_bytes(self, transaction: int) -> int:
        """What a reader of that transaction has caused."""
        began = next((each for each in self._looks if each.transaction >= transaction), None)
        if began is None:
            return 0
        now = self._looks[-1]
        return max(0, now.free - began.free) * now.size


class ReaderRow(msgspec.Struct, frozen=True):
    """A reader as a caretaker saw it."""

    pid: int
    thread: str
    transaction: int
    age_s: float
    kept_bytes: int


class Seen(msgspec.Struct, frozen=True):
    """What the process that looks after the store for longest knows of the readers; for people.

    Times are of the kernel's monotonic clock."""

    pid: int
    since_s: float
    at_s: float
    rows: tuple[ReaderRow, ...] = ()


def read_seen(path: str) -> Seen | None:
    """What was noted last; None if nothing was, or it cannot be read."""
    try:
        with open(path, "rb") as file:
            return msgspec.json.decode(file.read(), type=Seen)
    except (FileNotFoundError, msgspec.DecodeError):
        return None


def note_seen(path: str, seen: Seen, stale_s: float) -> None:
    """Note it, unless a process that has looked for longer still does."""
    found = read_seen(path)
    longer = found is not None and found.pid != seen.pid and found.since_s < seen.since_s
    if found is not None and longer and abs(seen.at_s - found.at_s) < stale_s:
        return
    draft = f"{path}.{seen.pid}.{threading.get_native_id()}"
    with open(draft, "wb", opener=private_files.opener) as file:
        file.write(msgspec.json.encode(seen))
    os.replace(draft, path)


# -- spans -----------------------------------------------------------------------------------------

EXACT_KEYS = 20_000
RUN_KEYS = 128
CHECK_EVERY = 4
PIECES = 128
MOST_PIECES = 1024
CUT_DESCENTS = 2
DESCENTS = 4


class KeyView(Protocol):
    """What is asked of a snapshot."""

    def keys(self, span: Span, limit: int) -> list[bytes]:
        """The first `limit` keys of the span."""

    def last_key(self, span: Span) -> bytes | None:
        """The last key of the span."""

    def beside(self, key: bytes) -> tuple[bytes, bytes]:
        """The last key before and the first at or after, both of which must exist."""

    def outline(self, span: Span) -> Outline | None:
        """How the keys of the span lie, from whole pages; None where that is not known."""


class Piece(NamedTuple):
    """Keys from first to last, both there. Sorts heaviest first."""

    minus_weight: float
    first: bytes
    last: bytes
    exact: bool


def count(view: KeyView, span: Span) -> int:
    """About how many keys the span holds."""
    keys = view.keys(span, EXACT_KEYS + 1)
    if len(keys) <= EXACT_KEYS:
        return len(keys)
    outline = view.outline(span)
    if outline is not None:
        return round(float(outline.weights.sum()))
    return round(-sum(piece.minus_weight for piece in _survey(view, span, PIECES)))


def split(view: KeyView, span: Span, parts: int) -> list[Span]:
    """At most `parts` adjoining spans of about equal size that cover `span`."""
    parts = max(1, parts)
    if parts == 1:
        return [span] if span.start < span.end else []
    keys = view.keys(span, EXACT_KEYS + 1)
    if len(keys) <= EXACT_KEYS:
        size = max(1, -(-len(keys) // parts))
        bounds = [span.start, *keys[size::size], span.end]
    elif (outline := view.outline(span)) is not None:
        before = np.cumsum(outline.weights)
        shares = before[-1] / parts * np.arange(1, parts)
        ends = np.unique(np.searchsorted(before, shares) + 1)
        inner = ends[ends < len(before)].tolist()
        bounds = [span.start, *map(outline.first_key, inner), span.end]
    else:
        pieces = _survey(view, span, min(MOST_PIECES, max(PIECES, 4 * parts)))
        bounds = [span.start, *_cuts(pieces, parts), span.end]
    return [Span(a, b) for a, b in pairwise(bounds) if a < b]


def _cuts(pieces: list[Piece], parts: int) -> list[bytes]:
    """The keys that part the pieces into equal weights."""
    share = -sum(piece.minus_weight for piece in pieces) / parts
    cuts: list[bytes] = []
    before = 0.0
    for piece in sorted(pieces, key=lambda piece: piece.first):
        if before >= share * (len(cuts) + 1) and len(cuts) + 1 < parts:
            cuts.append(piece.first)
        before -= piece.minus_weight
    return cuts


def _survey(view: KeyView, span: Span, pieces: int) -> list[Piece]:
    """The span as pieces with estimated weights."""
    chance = random.Random(0)
    first = view.keys(span, 1)
    last = view.last_key(span)
    if not first or last is None:
        return []
    found = [_weigh(view, first[0], last, chance)]
    exact: list[Piece] = []
    while found and len(found) + len(exact) < pieces:
        heaviest = heapq.heappop(found)
        if heaviest.exact:
            exact.append(heaviest)
            continue
        left, right = view.beside(boundary(heaviest.first, heaviest.last))
        heapq.heappush(found, _weigh(view, heaviest.first, left, chance))
        heapq.heappush(found, _weigh(view, right, heaviest.last, chance))
    return exact + [
        piece if piece.exact else _estimate(view, piece.first, piece.last, chance, DESCENTS)
        for piece in found
    ]


def boundary(first: bytes, last: bytes) -> bytes:
    """A key b with first < b <= last:

    where the first bit that differs turns to one. Needs first < last."""
    size = max(len(first), len(last))
    low = int.from_bytes(first.ljust(size, b"\0"), "big")
    high = int.from_bytes(last.ljust(size, b"\0"), "big")
    bits = (low ^ high).bit_length()
    if not bits:
        return last
    return (high >> (bits - 1) << (bits - 1)).to_bytes(size, "big").rstrip(b"\0")


def _weigh(view: KeyView, first: bytes, last: bytes, chance: random.Random) -> Piece:
    """A piece to go on cutting with."""
    run = _run(view, first, last)
    if run is not None:
        return Piece(-run, first, last, True)
    return _estimate(view, first, last, chance, CUT_DESCENTS)


def _estimate(
    view: KeyView, first: bytes, last: bytes, chance: random.Random, descents: int
) -> Piece:
    total = sum(_descend(view, first, last, chance) for _ in range(descents))
    return Piece(-total / descents, first, last, False)


def _run(view: KeyView, first: bytes, last: bytes) -> int | None:
    """The number of keys from first to last, if it is small."""
    keys = view.keys(Span(first, last + b"\0"), RUN_KEYS)
    return len(keys) if keys[-1] == last else None


def _descend(view: KeyView, first: bytes, last: bytes, chance: random.Random) -> float:
    """One random way down; its estimate of the number of keys from first to last."""
    weight = 1.0
    level = 0
    while first != last:
        if level % CHECK_EVERY == 0 and (run := _run(view, first, last)) is not None:
            return weight * run
        left, right = view.beside(boundary(first, last))
        first, last = (first, left) if chance.random() < 0.5 else (right, last)
        weight *= 2
        level += 1
    return weight
