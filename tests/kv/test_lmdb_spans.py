"""Counting and splitting large spans by reading a few of their keys."""

import random
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import cast

import pytest

from exuvia.kv import keys as k
from exuvia.kv.lmdb import leaves, pages
from exuvia.kv.lmdb.snapshot import LmdbSnapshot
from exuvia.kv.lmdb.store import LmdbStore
from exuvia.kv.packet import Span
from exuvia.kv.store import open_store

KEYS = 60_000
DICE = random.Random(5)
SHAPES = {
    "dense": [k.i64(n) for n in range(KEYS)],
    "random": [k.i64(DICE.randrange(-(1 << 62), 1 << 62)) for _ in range(KEYS)],
    "far away": [k.i64(n) for n in range(KEYS)] + [k.i64(1 << n) for n in range(25, 62)],
    "clusters": [k.i64(c * 10**12 + n) for c in range(12) for n in range(KEYS >> (c + 1))],
    "few values": [k.i64(DICE.randrange(40)) + k.i64(n) for n in range(KEYS)],
    "text": [
        "-".join(DICE.choices(["ab", "bc", "cde", "aaa"], k=6)).encode() + k.u64(n)
        for n in range(KEYS)
    ],
}


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LmdbStore, dict[str, Span]]]:
    store = cast(LmdbStore, open_store(f"lmdb://{tmp_path_factory.mktemp('spans')}/store?sync=0"))
    where = {}
    for number, (shape, handles) in enumerate(SHAPES.items()):
        prefix = k.row_prefix(number)
        store.bulk([prefix + handle for handle in sorted(set(handles))], b"")
        where[shape] = k.span_of(prefix)
    yield store, where
    store.close()


@pytest.fixture(params=["pages", "descents"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """By whole pages, and by descents as if they could not be read."""
    if request.param == "descents":
        monkeypatch.setattr(LmdbSnapshot, "outline", lambda view, span: None)
    return str(request.param)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_large_span_is_counted_nearly(
    shape: str, loaded: tuple[LmdbStore, dict[str, Span]], way: str
) -> None:
    store, where = loaded
    real = len(set(SHAPES[shape]))
    allowed = 0 if way == "pages" else 0.25 * real
    assert abs(store.count(where[shape]) - real) <= allowed


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("sampled", [8, 64])
def test_some_leaves_represent_their_neighbours(
    sampled: int, loaded: tuple[LmdbStore, dict[str, Span]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leaves, "OUTLINE_PAGES", sampled)
    store, where = loaded
    assert 0.75 * KEYS < store.count(where["dense"]) < 1.25 * KEYS
    sizes = [store.count(part) for part in store.split(where["dense"], 4)]
    assert sum(sizes) > 0.75 * KEYS
    assert max(sizes) < KEYS / 2


def test_a_store_of_too_many_leaves_is_estimated_by_descents(
    loaded: tuple[LmdbStore, dict[str, Span]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leaves, "MOST_OUTLINED", 10)
    store, where = loaded
    view = store.snapshot()
    assert view.outline(where["dense"]) is None
    view.close()
    assert 0.75 * KEYS < store.count(where["dense"]) < 1.25 * KEYS


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("shape", SHAPES)
def test_a_large_span_is_split_nearly_evenly(
    shape: str, loaded: tuple[LmdbStore, dict[str, Span]]
) -> None:
    store, where = loaded
    span = where[shape]
    parts = store.split(span, 6)
    assert (parts[0].start, parts[-1].end) == span
    assert all(a.end == b.start for a, b in pairwise(parts))
    view = store.snapshot()
    sizes = [len(view.keys(part, 10**6)) for part in parts]
    view.close()
    assert sum(sizes) == len(set(SHAPES[shape]))
    assert len(parts) == 6
    assert max(sizes) < 2.2 * sum(sizes) / 6


class Dense:
    """A thousand million keys; counts how many of them are read."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.touched = 0

    def outline(self, span: Span) -> None:
        return None

    def keys(self, span: Span, limit: int) -> list[bytes]:
        start = int.from_bytes(span.start[:8].ljust(8, b"\0"), "big")
        end = int.from_bytes(span.end[:8].ljust(8, b"\0"), "big") + (len(span.end) > 8)
        numbers = range(start, min(end, start + limit, self.size))
        self.touched += len(numbers)
        return [k.u64(number) for number in numbers]

    def last_key(self, span: Span) -> bytes | None:
        return k.u64(self.size - 1)

    def beside(self, key: bytes) -> tuple[bytes, bytes]:
        self.touched += 2
        number = int.from_bytes(key.ljust(8, b"\0"), "big")
        return k.u64(number - 1), k.u64(number)


def test_the_number_of_keys_read_does_not_depend_on_their_total() -> None:
    view = Dense(10**9)
    whole = Span(k.u64(0), k.u64(1 << 62))
    assert abs(pages.count(view, whole) / 10**9 - 1) < 0.05
    assert view.touched < 1_000_000
    cuts = [int.from_bytes(part.start, "big") for part in pages.split(view, whole, 50)]
    sizes = [b - a for a, b in zip(cuts, [*cuts[1:], 10**9], strict=True)]
    assert len(sizes) == 50
    assert max(sizes) < 1.7 * 10**9 / 50


@pytest.mark.parametrize(
    ("first", "last"),
    [
        (b"a", b"b"),
        (b"a", b"a\0"),
        (b"a", b"a\0\0b"),
        (b"a\0", b"a\0\0"),
        (b"", b"x"),
        (b"ab", b"b"),
    ],
)
def test_a_boundary_parts_two_keys(first: bytes, last: bytes) -> None:
    assert first < pages.boundary(first, last) <= last


def test_the_first_values_of_a_span_are_those_of_a_scan(tmp_path: Path) -> None:
    store = open_store(f"lmdb://{tmp_path}/first?sync=0")
    txn = store.begin()
    for n in range(300):
        txn.put(b"t%04d" % n, b"%d" % n)
    txn.commit()
    view = store.snapshot()
    for low in (b"", b"t0000", b"t0007", b"t0299", b"t9"):
        for high in (b"", b"t0007", b"t0008", b"t0016", b"t0100", b"t0300", b"u"):
            whole = [raw for _, raw in view.scan(Span(low, high))]
            for count in (0, 1, 8, 9, 24, 100, 301):
                assert view.first(Span(low, high), count) == whole[:count]
    view.close()
    store.close()
