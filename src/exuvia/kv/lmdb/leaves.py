"""Whole leaf pages of one commit's tree, read as arrays, without a call or an object per key.

    meta pages --commit's number--> root --branch pages--> numbers of leaf pages, in key order
    a piece of the leaves, copied --> one RawRun: where each key and value is in the copy

LMDB returns one key and value a call, each under the interpreter's lock. But the format of its
pages is fixed, and a reader prevents the pages of its commit from being reused. The kernel shows
the same content in two maps of a file. So this process maps the data file a second time, and copies
pages out of it.

    page    [u64 number][u64 commit][u16][u16 flags][u16 lower][u16 upper][u16 places ...]   nodes
            a node begins at its place + 24; there are lower / 2 nodes
    node    [u32 size][u16 flags][u16 key size][key, padded to even][value]
            branch: the number of the child is in the first six bytes; the first key counts as the
            least one
            flag 1: the value is long; here is the number of its first page, in which it begins at
            the 24th byte

The root belongs to the reader's commit if the root page has its own number and no later commit's.
This also detects a meta page that is being overwritten. Every page is copied first and checked
afterwards. The reader must still be alive then: pages copied before it ended were not yet reused.

This module supports only the format of LMDB 1.0 (data version 3). With other formats, or if the
meta pages were overwritten twice since the reader began, there is no Tree, and cursors read.

Source: LMDB's mdb.c, MDB_meta, MDB_page_header, MDB_node, mdb_node_read.
"""

import ctypes
import mmap
import os
import struct
import weakref
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from exuvia.base import interruption
from exuvia.kv.packet import Piece, RawRun, Span

Array = NDArray[Any]

HEADER = 24
MAGIC, DATA_VERSION = 0xBEEFC0DE, 3
META = struct.Struct("<II16xIHHQQQQQIHHQQQQQQQ")
"""Magic, version. For the tree of free pages, then for the main tree: page size (key size), flags,
depth, pages (3), entries and root. The last page. The commit."""
_FREE_TREE, _MAIN_TREE = slice(2, 10), slice(10, 18)
META_END = HEADER + META.size
BRANCH, LEAF, OVERFLOW = 1, 2, 4
LONG_VALUE = 1
FIRST_PAGES, MOST_PAGES = 16, 512
"""Pages of a piece: few at first, for readers that stop soon; at most 2 MB."""
MOST_BYTES = 8 << 20
BRANCHES = 256
OUTLINE_PAGES, MOST_OUTLINED = 1 << 16, 1 << 22
"""Leaves whose headers are read to count keys; maximum number of leaves listed, 16 GB."""
Metas = tuple[bytes, bytes]
EVERYTHING = Span(b"", b"\xff" * 9)
"""All keys: none begins with nine bytes of 255."""


class Outline(NamedTuple):
    """Leaves at even distances in key order.

    `weights`: the number of keys that each represents, shape (n,). `first_key(n)`: the first key of
    the n-th."""

    weights: Array
    first_key: Callable[[int], bytes]


class Damaged(Exception):
    """A page does not match the tree."""


_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_int64]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_FAILED = ctypes.c_void_p(-1).value


class DataFile:
    """The data file mapped for reading, in addition to LMDB's own map and of the same size.

    It shows the file's growth without a new map, whose pages would have to be loaded again one by
    one. Raises OSError if the path has another file."""

    def __init__(self, path: str, identity: tuple[int, int], page_bytes: int, most: int) -> None:
        self.page_bytes = page_bytes
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        weakref.finalize(self, os.close, self._file).atexit = False
        status = os.fstat(self._file)
        if (status.st_dev, status.st_ino) != identity:
            raise OSError(f"{path} was replaced")
        self._bytes = status.st_size
        size = max(most, self._bytes) // page_bytes * page_bytes
        begin = _libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, self._file, 0)
        if begin == _FAILED:
            raise OSError(ctypes.get_errno(), f"{path} cannot be mapped")
        weakref.finalize(self, _libc.munmap, begin, size).atexit = False
        whole = np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(begin))
        self._pages: Array = whole.reshape(-1, page_bytes)
        self._metas = mmap.mmap(self._file, 2 * page_bytes, mmap.MAP_SHARED, mmap.PROT_READ)
        self._second = HEADER + page_bytes, HEADER + page_bytes + META.size

    def metas(self) -> Metas:
        """The present content of both meta pages."""
        begin, end = self._second
        return self._metas[HEADER:META_END], self._metas[begin:end]

    def pages(self, last: int) -> Array:
        """All pages, valid while this object lives, for reading up to page `last`.

        Shape (n, page bytes), uint8. Raises Damaged if the file is too short for it."""
        if (last + 1) * self.page_bytes > self._bytes:
            self._bytes = os.fstat(self._file).st_size
            if (last + 1) * self.page_bytes > self._bytes:
                raise Damaged(f"page {last} lies behind the file's end")
        return self._pages


def tree_of(file: DataFile, metas: Metas, commit: int) -> "Tree | None":
    """The tree that a reader of that commit sees, or None if these meta pages do not have it."""
    return _tree(file, metas, commit, _MAIN_TREE)


def free_tree_of(file: DataFile, metas: Metas, commit: int) -> "Tree | None":
    """The tree of free pages at that commit, or None; see `tree_of`.

    A key is the commit that freed the pages, 8 bytes, little-endian. A value is their number and
    their numbers, 8 bytes each."""
    return _tree(file, metas, commit, _FREE_TREE)


def _tree(file: DataFile, metas: Metas, commit: int, which: slice) -> "Tree | None":
    meta = META.unpack(metas[commit & 1])
    magic, version, page_bytes, *_, last, number = meta
    if (magic, version, page_bytes) != (MAGIC, DATA_VERSION, file.page_bytes):
        return None
    _, _, depth, *_, entries, root = meta[which]
    if number != commit or not depth or root > last:
        return None
    tree = Tree(file, commit, root, depth, entries)
    try:
        tree.copied(np.array([root]), LEAF if depth == 1 else BRANCH)
    except Damaged:
        return None
    return tree


class Tree:
    """A commit's tree. `alive` raises once the reader has ended. Methods raise Damaged."""

    def __init__(self, file: DataFile, commit: int, root: int, depth: int, entries: int) -> None:
        self._file = file
        self._commit = commit
        self._root = root
        self._depth = depth
        self.entries = entries

    def copied(self, numbers: Array, kind: int) -> tuple[Array, Array]:
        """Copies of these pages, each of that kind and of this tree, uint8.

        Returned as a RawRun's data, and as a matrix of shape (n, page bytes) on the same memory."""
        pages = self._file.pages(int(numbers.max()))
        size = self._file.page_bytes
        data = np.empty(len(numbers) * size + RawRun.PADDING, np.uint8)
        matrix: Array = data[: len(numbers) * size].reshape(-1, size)
        np.take(pages, numbers, axis=0, out=matrix, mode="clip")
        heads = matrix[:, :16].view("<u8")
        flags = matrix[:, 18:20].view("<u2")
        if (heads[:, 0] != numbers).any() or (heads[:, 1] > self._commit).any():
            raise Damaged("a page bears another number, or is a later commit's")
        if (flags != kind).any():
            raise Damaged("a page is of another kind")
        return data, matrix

    # -- from the root to the leaves ---------------------------------------------------------------

    def leaves(self, span: Span) -> Iterator[tuple[Array, bool, bool]]:
        """(numbers of leaf pages that may have keys of the span, is first, is last), in key order.

        Many pages at a time. `is first`: the span may begin in the first page. `is last`: it may
        end in the last one."""
        if self._depth < 2:
            yield np.array([self._root]), True, True
            return
        level = self._last_branches(span)
        for at in range(0, len(level), BRANCHES):
            first, last = at == 0, at + BRANCHES >= len(level)
            yield self._children(level[at : at + BRANCHES], span, first, last), first, last

    def _last_branches(self, span: Span) -> Array:
        """The numbers of the branch pages whose children are leaves of the span."""
        level = np.array([self._root])
        for _ in range(self._depth - 2):
            level = self._children(level, span, first=True, last=True)
        return level

    def share_in_order(self, most: int) -> float:
        """The share of leaves whose page directly follows that of the previous leaf in key order.

        Judged by the leaves below at most `most` branch pages, at even distances. 1.0 for a single
        leaf."""
        if self._depth < 2:
            return 1.0
        level = self._last_branches(EVERYTHING)
        some = level[:: -(-len(level) // most)]
        leaves = self._children(some, EVERYTHING, first=False, last=False)
        pairs = len(leaves) - (1 if len(some) == len(level) else len(some))
        return int((np.diff(leaves) == 1).sum()) / pairs

    def all_runs(self) -> Iterator[RawRun]:
        """The whole tree as runs."""
        for piece in self.pieces(EVERYTHING, lambda: None):
            yield from piece()

    def _children(self, numbers: Array, span: Span, first: bool, last: bool) -> Array:
        _, pages = self.copied(numbers, BRANCH)
        nodes, counts = _nodes(pages)
        heads = _words(pages, nodes)
        children = (heads & np.uint64(0xFFFF_FFFF_FFFF)).astype(np.int64)
        low, high = 0, len(children)
        if last:
            keys = _keys(pages, nodes[high - int(counts[-1]) + 1 :])
            high -= len(keys) - bisect_left(keys, span.end)
        if first:
            keys = _keys(pages, nodes[1 : int(counts[0])])
            low = bisect_right(keys, span.start)
        return children[low : max(high, low + 1)]

    # -- leaves ------------------------------------------------------------------------------------

    def pieces(self, span: Span, alive: Callable[[], object]) -> Iterator[Piece]:
        """The pieces of the span; the first ones have few pages."""
        size = FIRST_PAGES
        for numbers, first, last in self.leaves(span):
            alive()
            at = 0
            while at < len(numbers):
                part = numbers[at : at + size]
                low = span.start if first and at == 0 else b""
                at += size
                high = span.end if last and at >= len(numbers) else b""
                yield partial(self.runs, part, low, high, alive)
                size = min(2 * size, MOST_PAGES)

    def count(self, span: Span, most: int, alive: Callable[[], object]) -> Iterator[int]:
        """Yields the number of keys, as Snapshot.count.

        For all but the first and last page it reads only headers."""
        total = 0
        for numbers, first, last in self.leaves(span):
            end = len(numbers) - 1
            for at in {0: first, end: last}:
                low = span.start if first and at == 0 else b""
                high = span.end if last and at == end else b""
                if low or high:
                    total += len(self._leaves(numbers[at : at + 1], low, high).nodes)
            inner = numbers[int(first) : len(numbers) - int(last)]
            if len(inner):
                total += int(self._counted(inner).sum(dtype=np.int64))
            alive()
            interruption.check()
            if 0 <= most < total:
                break
        yield total

    def outline(self, span: Span, alive: Callable[[], object]) -> Iterator[Outline]:
        """Yields the approximate distribution of the span's keys, from headers of some leaves.

        Yields nothing if there are too many leaves to list them all."""
        parts: list[Array] = []
        for numbers, _, _ in self.leaves(span):
            parts.append(numbers)
            alive()
            if sum(map(len, parts)) > MOST_OUTLINED:
                return
        whole = np.concatenate(parts)
        step = -(-len(whole) // OUTLINE_PAGES)
        some = whole[::step]
        weights = self._counted(some).astype(np.float64) * (len(whole) / len(some))
        for end, low, high in ((0, span.start, b""), (-1, b"", span.end)):
            page = whole[[end]]
            weights[end] -= int(self._counted(page)[0]) - len(self._leaves(page, low, high).nodes)
        weights = np.maximum(weights, 0)
        alive()
        yield Outline(weights, partial(self._first_key, some, alive))

    def _first_key(self, numbers: Array, alive: Callable[[], object], n: int) -> bytes:
        _, pages = self.copied(numbers[n : n + 1], LEAF)
        (key,) = _keys(pages, _nodes(pages)[0][:1])
        alive()
        return key

    def _counted(self, numbers: Array) -> Array:
        """The number of keys of each of these leaves."""
        words = self._file.pages(int(numbers.max())).view("<u8")
        number, commit, rest = (words[numbers, place] for place in range(HEADER // 8))
        rest = rest.view("<u2").reshape(-1, 4)
        same = (number == numbers).all() and (commit <= self._commit).all()
        if not same or (rest[:, 1] != LEAF).any():
            raise Damaged("a page is not the leaf it should be")
        counts: Array = rest[:, 2] >> 1
        return counts

    def _leaves(self, numbers: Array, low: bytes, high: bytes) -> "_Leaves":
        """The nodes of these leaves whose keys are from `low` on and before `high` (b"": all)."""
        data, pages = self.copied(numbers, LEAF)
        nodes, _ = _nodes(pages)
        if low or high:
            keys = _keys(pages, nodes)
            begin = bisect_left(keys, low) if low else 0
            nodes = nodes[begin : bisect_left(keys, high) if high else len(keys)]
        return _Leaves(data, nodes, _words(pages, nodes))

    def runs(
        self, numbers: Array, low: bytes, high: bytes, alive: Callable[[], object]
    ) -> Iterator[RawRun]:
        """The keys of these leaves from `low` on and before `high` (b"": all), as runs.

        One run, or several if there are long values: each has at most MOST_BYTES of them, or one
        value."""
        data, nodes, heads = self._leaves(numbers, low, high)
        lengths = (heads & np.uint64(0xFFFF_FFFF)).astype(np.int64)
        flags = (heads >> np.uint64(32)).astype(np.uint16)
        key_lengths = (heads >> np.uint64(48)).astype(np.int64)
        at = nodes + 8 + (key_lengths + 1 & -2)
        whole = RawRun(data, nodes + 8, key_lengths, at, lengths)
        if not flags.any():
            if len(at) and int((at + lengths).max()) > len(data) - RawRun.PADDING:
                raise Damaged("a node ends behind its page")
            alive()
            yield whole
            return
        if (flags & ~np.uint16(LONG_VALUE)).any():
            raise Damaged("a node is of an unknown kind")
        shares = np.cumsum(np.where(flags != 0, lengths, 0)) // MOST_BYTES
        for share in np.unique(shares).tolist():
            which = np.flatnonzero(shares == share)
            run = self._with_long_values(whole.take(which), flags[which])
            alive()
            yield run

    def _with_long_values(self, run: RawRun, flags: Array) -> RawRun:
        """The run with the values that are on pages of their own."""
        size, data, at = self._file.page_bytes, run.data, run.at.copy()
        begin = len(data) - RawRun.PADDING
        parts = [data[:begin]]
        for n in np.flatnonzero(flags).tolist():
            number = int(data[at[n] : at[n] + 8].view("<u8")[0])
            length = int(run.lengths[n])
            pages = self._file.pages(number + (HEADER + length - 1) // size).reshape(-1)
            value = pages[number * size : number * size + HEADER + length].copy()
            named, commit = value[:16].view("<u8").tolist()
            kind = int(value[18:20].view("<u2")[0])
            if named != number or commit > self._commit or kind != OVERFLOW:
                raise Damaged("a long value's page is another one")
            parts.append(value[HEADER:])
            at[n] = begin
            begin += length
        parts.append(np.zeros(RawRun.PADDING, np.uint8))
        return RawRun(np.concatenate(parts), run.key_at, run.key_lengths, at, run.lengths)


class _Leaves(NamedTuple):
    """Copied leaves: a RawRun's data, the begin of each node in it, and its first eight bytes."""

    data: Array
    nodes: Array
    heads: Array


def _nodes(pages: Array) -> tuple[Array, Array]:
    """The begin of each node in the pages, flat, in key order; and the number of nodes per page."""
    words = pages.view("<u2")
    counts = words[:, 10] >> 1
    most = int(counts.max())
    places = words[:, HEADER // 2 : HEADER // 2 + most]
    if places.shape[1] < most:
        raise Damaged("a page has more nodes than it can hold")
    begins = np.arange(len(pages), dtype=np.int64) * pages.shape[1] + HEADER
    nodes: Array = (places + begins[:, None])[np.arange(most) < counts[:, None]]
    if len(nodes) and int(nodes.max()) > pages.size - 8:
        raise Damaged("a node begins behind its page")
    return nodes, counts


def _words(pages: Array, nodes: Array) -> Array:
    """The first eight bytes of each node. Shape (n,), uint64."""
    flat = pages.reshape(-1)
    windows: Array = np.ndarray((len(flat) // 2 - 3,), "<u8", flat.data, strides=(2,))
    heads: Array = windows[nodes >> 1]
    return heads


def _keys(pages: Array, nodes: Array) -> list[bytes]:
    """The keys of these nodes."""
    flat = pages.reshape(-1)
    sizes = (_words(pages, nodes) >> np.uint64(48)).tolist()
    begins = (nodes + 8).tolist()
    return [flat[a : a + size].tobytes() for a, size in zip(begins, sizes, strict=True)]
