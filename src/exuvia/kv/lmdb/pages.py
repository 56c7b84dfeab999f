"""Usage of the data file's pages, pages that old readers retain, and estimates of key counts.

A commit writes new pages and frees those that they replace. A freed page is reused once all readers
are newer than the commit that freed it. Until then commits take pages from the end of the file,
which never shrinks (`exuvia store compact` makes it smaller). LMDB does not show which pages wait
for which reader, but it shows two numbers after every commit:

    free = pages of the file - pages of the data

A reader retains at most the pages freed since it began. It has *caused* at most the growth of
`free` since then. Growth of the data does not count; retained pages count only if other free pages
do not suffice. Readers are therefore judged by that growth, from the first look after they began.

LMDB cannot return a key's rank. Up to EXACT_KEYS keys are counted. Beyond that, keys are estimated
from headers of leaf pages, at most 65,536 at even distances (leaves.py, Outline).

If whole pages cannot be read, or are too many to list, the keys are treated as a binary tree. The
first bit in which the first and the last key differ divides them into two halves, both not empty.
Its size is estimated by random descents (Knuth, Estimating the efficiency of backtrack programs,
1975). Each descent chooses halves at random. Two to the number of choices, times the rest where the
end can be counted, has the right mean.

    cut    the heaviest piece is halved again and again, so that rare distant keys (one huge handle
           after a million small ones) do not spoil the rest
    weigh  then every piece is estimated again: the estimates that led the cutting are biased by it

Precision: exact up to EXACT_KEYS; by pages within 1 %. Descents are mostly within 5 % on integer
keys and 15 % on text, with any gaps and clusters, in 0.05 to 0.1 s for any number of keys.
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
from exuvia.base.decoding import from_json
from exuvia.kv.lmdb.leaves import Outline
from exuvia.kv.packet import Span

MOST_LOOKS = 4096
META_PAGES = 2

Reader = tuple[int, str, str]
"""(pid, thread, transaction) as LMDB lists them."""


class Pages(NamedTuple):
    """The file after a transaction; counts are of pages of `size` bytes."""

    transaction: int
    size: int
    total: int
    used: int
    entries: int

    @property
    def free(self) -> int:
        """Pages for reuse, now or once no reader needs them."""
        return max(0, self.total - self.used)


def pages_of(opened: lmdb.Environment) -> Pages:
    """The present usage of the file. Pages that old readers retain count as free."""
    info, stat = opened.info(), opened.stat()
    used = META_PAGES + stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"]
    return Pages(info["last_txnid"], stat["psize"], info["last_pgno"] + 1, used, stat["entries"])


def readers_of(table: str) -> set[Reader]:
    """(pid, thread, transaction) of each reader in LMDB's own listing."""
    rows = (line.split() for line in table.splitlines()[1:])
    return {(int(row[0]), row[1], row[2]) for row in rows if len(row) == 3 and row[2] != "-"}


class Growth:
    """The growth of `free` as one process sees it. Call `look` about every second."""

    def __init__(self) -> None:
        self._looks: deque[Pages] = deque(maxlen=MOST_LOOKS)

    def look(self, pages: Pages, oldest: int | None) -> None:
        """Record the present usage. `oldest`: the transaction of the oldest reader, or None."""
        if self._looks and self._looks[-1].transaction > pages.transaction:
            self._looks.clear()  # another file, with transaction numbers of its own
        if self._looks and self._looks[-1].transaction == pages.transaction:
            self._looks.pop()
        self._looks.append(pages)
        while len(self._looks) > 1 and (oldest is None or self._looks[0].transaction < oldest):
            self._looks.popleft()

    def kept_bytes(self, transaction: int) -> int:
        """Bytes of growth that a reader of that transaction has caused."""
        began = next((pages for pages in self._looks if pages.transaction >= transaction), None)
        if began is None:
            return 0
        now = self._looks[-1]
        return max(0, now.free - began.free) * now.size


class ReaderRow(msgspec.Struct, frozen=True):
    """A reader at a caretaker's check."""

    pid: int
    thread: str
    transaction: int
    age_s: float
    kept_bytes: int


class Seen(msgspec.Struct, frozen=True):
    """The readers as seen by the process whose caretaker has run longest; stored for people.

    Times are of the kernel's monotonic clock."""

    pid: int
    since_s: float
    at_s: float
    rows: tuple[ReaderRow, ...] = ()


def read_seen(path: str) -> Seen | None:
    """The last stored report; None without a readable one."""
    try:
        with open(path, "rb") as file:
            return from_json(file.read(), Seen)
    except (FileNotFoundError, msgspec.DecodeError):
        return None


def note_seen(path: str, report: Seen, stale_s: float) -> bool:
    """Store the report, unless that of a process whose caretaker has run longer is recent.

    Returns whether it was stored."""
    last_report = read_seen(path)
    longer = (
        last_report is not None
        and last_report.pid != report.pid
        and last_report.since_s < report.since_s
    )
    if last_report is not None and longer and abs(report.at_s - last_report.at_s) < stale_s:
        return False
    draft = f"{path}.{report.pid}.{threading.get_native_id()}"
    with open(draft, "wb", opener=private_files.opener) as file:
        file.write(msgspec.json.encode(report))
    os.replace(draft, path)
    return True


# -- spans -----------------------------------------------------------------------------------------

EXACT_KEYS = 20_000
RUN_KEYS = 128
CHECK_EVERY = 4
PIECES = 128
MOST_PIECES = 1024
CUT_DESCENTS = 2
DESCENTS = 4


class KeyView(Protocol):
    """The part of a snapshot that estimates need."""

    def keys(self, span: Span, limit: int) -> list[bytes]:
        """The first `limit` keys of the span."""

    def last_key(self, span: Span) -> bytes | None:
        """The last key of the span."""

    def beside(self, key: bytes) -> tuple[bytes, bytes]:
        """The last key before and the first at or after `key`; both must exist."""

    def outline(self, span: Span) -> Outline | None:
        """The distribution of the span's keys, from whole pages, or None if that is not known."""


class Piece(NamedTuple):
    """Keys from first to last, both present. Sorts heaviest first."""

    minus_weight: float
    first: bytes
    last: bytes
    exact: bool


def count(view: KeyView, span: Span) -> int:
    """The approximate number of keys in the span."""
    keys = view.keys(span, EXACT_KEYS + 1)
    if len(keys) <= EXACT_KEYS:
        return len(keys)
    outline = view.outline(span)
    if outline is not None:
        return round(float(outline.weights.sum()))
    return round(-sum(piece.minus_weight for piece in _survey(view, span, PIECES)))


def split(view: KeyView, span: Span, parts: int) -> list[Span]:
    """At most `parts` adjacent spans of about equal size that cover `span`."""
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
    """The keys that divide the pieces into equal weights."""
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
    open_pieces = [_weigh(view, first[0], last, chance)]
    exact: list[Piece] = []
    while open_pieces and len(open_pieces) + len(exact) < pieces:
        heaviest = heapq.heappop(open_pieces)
        if heaviest.exact:
            exact.append(heaviest)
            continue
        before, after = view.beside(boundary(heaviest.first, heaviest.last))
        heapq.heappush(open_pieces, _weigh(view, heaviest.first, before, chance))
        heapq.heappush(open_pieces, _weigh(view, after, heaviest.last, chance))
    return exact + [
        piece if piece.exact else _estimate(view, piece.first, piece.last, chance, DESCENTS)
        for piece in open_pieces
    ]


def boundary(first: bytes, last: bytes) -> bytes:
    """A key b with first < b <= last, at which the first differing bit becomes one.

    Needs first < last."""
    size = max(len(first), len(last))
    low = int.from_bytes(first.ljust(size, b"\0"), "big")
    high = int.from_bytes(last.ljust(size, b"\0"), "big")
    bits = (low ^ high).bit_length()
    if not bits:
        return last
    return (high >> (bits - 1) << (bits - 1)).to_bytes(size, "big").rstrip(b"\0")


def _weigh(view: KeyView, first: bytes, last: bytes, chance: random.Random) -> Piece:
    """A piece with a weight that is good enough to continue cutting."""
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
    """The number of keys from first to last, or None if they are many."""
    keys = view.keys(Span(first, last + b"\0"), RUN_KEYS)
    return len(keys) if keys[-1] == last else None


def _descend(view: KeyView, first: bytes, last: bytes, chance: random.Random) -> float:
    """One random descent; its estimate of the number of keys from first to last."""
    weight = 1.0
    level = 0
    while first != last:
        if level % CHECK_EVERY == 0 and (run := _run(view, first, last)) is not None:
            return weight * run
        before, after = view.beside(boundary(first, last))
        first, last = (first, before) if chance.random() < 0.5 else (after, last)
        weight *= 2
        level += 1
    return weight
