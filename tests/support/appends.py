"""Histories of transactions that append to lists, and what snapshot isolation lets them show.

    a list        one row; its value names every append in order, so each read tells its whole past
    a writer      appends to one or two lists, or reads one FOR UPDATE and appends to it
    a reader      reads all lists in one snapshot

`violations` says what of it nobody may ever see, whatever was killed or changed meanwhile.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

Lists = dict[int, tuple[int, ...]]
OK, FAILED, UNKNOWN = "ok", "failed", "unknown"


class Write(NamedTuple):
    """A transaction that appended; times are of one monotonic clock. Unit: s.

    `locked`: what it read FOR UPDATE of the lists it appended to."""

    began: float
    ended: float
    outcome: str
    appends: dict[int, int]
    locked: Lists


class Read(NamedTuple):
    """A snapshot of all lists."""

    began: float
    ended: float
    lists: Lists


def violations(writes: list[Write], reads: list[Read], final: Lists) -> list[str]:
    """What was wrong; empty if nothing was."""
    place = {value: (key, at) for key, values in final.items() for at, value in enumerate(values)}
    honest = [read for read in reads if not list(_no_prefix([read], final))]
    return [
        *_twice(final),
        *_outcomes(writes, place),
        *_locked(writes, place),
        *_no_prefix(reads, final),
        *_half_seen(writes, honest, place),
        *_unordered(honest),
        *_too_old(writes, honest, place),
    ]


def _twice(final: Lists) -> Iterator[str]:
    seen = Counter(value for values in final.values() for value in values)
    yield from (f"{value} was appended {n} times" for value, n in seen.items() if n > 1)


def _outcomes(writes: list[Write], place: dict[int, tuple[int, int]]) -> Iterator[str]:
    """Acknowledged appends are there, refused ones are not, no transaction is there by half."""
    for write in writes:
        there = [place.get(value, (None, 0))[0] == key for key, value in write.appends.items()]
        if write.outcome == OK and not all(there):
            yield f"lost: {write}"
        if write.outcome == FAILED and any(there):
            yield f"refused, but there: {write}"
        if any(there) and not all(there):
            yield f"half there: {write}"


def _locked(writes: list[Write], place: dict[int, tuple[int, int]]) -> Iterator[str]:
    """What was read FOR UPDATE was the newest: the append stands right behind it."""
    for write in writes:
        for key, before in write.locked.items():
            found = place.get(write.appends[key])
            if found is not None and found[1] != len(before):
                yield f"lost update: {write} stands at {found}"


def _no_prefix(reads: list[Read], final: Lists) -> Iterator[str]:
    """Nobody sees what is not committed, or another order."""
    for read in reads:
        for key, values in read.lists.items():
            if final[key][: len(values)] != values:
                yield f"list {key} was read as {values[-5:]} ({len(values)})"


def _half_seen(
    writes: list[Write], reads: list[Read], place: dict[int, tuple[int, int]]
) -> Iterator[str]:
    """A snapshot has a transaction whole or not at all."""
    whole = [write for write in writes if len(write.appends) > 1 and write.outcome != FAILED]
    for write in whole:
        spots = [place[value] for value in write.appends.values() if value in place]
        for read in reads:
            seen = {len(read.lists[key]) > at for key, at in spots}
            if len(seen) > 1:
                yield f"half seen: {write}"


def _unordered(reads: list[Read]) -> Iterator[str]:
    """Commits have one order for all: of two snapshots one is the older in every list."""
    sizes = sorted([len(values) for _, values in sorted(read.lists.items())] for read in reads)
    for one, other in pairwise(sorted(sizes, key=sum)):
        if any(a > b for a, b in zip(one, other, strict=True)):
            yield f"snapshots without order: {one} {other}"


def _too_old(
    writes: list[Write], reads: list[Read], place: dict[int, tuple[int, int]]
) -> Iterator[str]:
    """What was acknowledged before a transaction began is seen by it, on any node."""
    done = sorted((write for write in writes if write.outcome == OK), key=lambda w: w.ended)
    least = dict.fromkeys(reads[0].lists, 0) if reads else {}
    at = 0
    for read in sorted(reads, key=lambda r: r.began):
        while at < len(done) and done[at].ended < read.began:
            for value in done[at].appends.values():
                key, position = place.get(value, (None, 0))
                if key is not None:
                    least[key] = max(least[key], position + 1)
            at += 1
        for key, count in least.items():
            if len(read.lists[key]) < count:
                yield f"list {key}: {len(read.lists[key])} of {count} acknowledged appends seen"
