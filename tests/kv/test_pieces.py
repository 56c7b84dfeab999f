"""Pieces and counts of a span equal its chunks, on every engine.

On LMDB they are read as whole pages, without LMDB's calls."""

import random
from pathlib import Path

import pytest

from exuvia.base.errors import Unavailable
from exuvia.kv.lmdb import leaves
from exuvia.kv.lmdb.snapshot import LmdbSnapshot
from exuvia.kv.packet import Snapshot, Span
from exuvia.kv.store import Store, open_store

ALL = Span(b"t", b"u")
LONG = (3000, 4072, 4096, 20_000)


def grown(store: Store, dice: random.Random, commits: int, rows: int) -> None:
    """Commit keys and values of many lengths; some are removed or written again."""
    for _ in range(commits):
        txn = store.begin()
        for _ in range(rows):
            key = b"t" + dice.randbytes(dice.choice((1, 2, 3, 8, 40, 400)))
            if dice.random() < 0.2:
                txn.delete(key)
            else:
                size = dice.choice(LONG) if dice.random() < 0.02 else dice.randrange(300)
                txn.put(key, dice.randbytes(size))
        txn.commit()


def in_chunks(view: Snapshot, span: Span) -> list[tuple[bytes, bytes]]:
    return [pair for keys, raws in view.chunks(span) for pair in zip(keys, raws, strict=True)]


def in_pieces(view: Snapshot, span: Span) -> list[tuple[bytes, bytes]]:
    runs = [run for piece in view.pieces(span) for run in piece()]
    return [pair for run in runs for pair in zip(run.keys(), run.raws(), strict=True)]


@pytest.fixture
def lmdb(tmp_path: Path) -> Store:
    return open_store(f"lmdb://{tmp_path}/store?sync=0")


def is_by_pages(view: Snapshot) -> bool:
    assert isinstance(view, LmdbSnapshot)
    return view.tree() is not None


def test_pieces_and_counts_equal_chunks(store: Store) -> None:
    dice = random.Random(7)
    grown(store, dice, 20, 300)
    view = store.snapshot()
    everything = in_chunks(view, ALL)
    assert len(everything) > 3000
    assert in_pieces(view, ALL) == everything
    bounds = [b"t", b"tz", b"u", *dice.sample([key for key, _ in everything], 12)]
    bounds += [dice.choice(bounds) + b"\0" for _ in range(4)]
    for _ in range(60):
        span = Span(*sorted(dice.sample(bounds, 2)))
        chunked = in_chunks(view, span)
        assert in_pieces(view, span) == chunked
        assert view.count(span) == len(chunked)
        assert view.count(span, len(chunked)) == len(chunked)
        if chunked:
            assert view.count(span, len(chunked) - 1) >= len(chunked)
    assert in_pieces(view, Span(b"t", b"t")) == []
    assert view.count(Span(b"ta", b"ta")) == 0
    view.close()
    store.close()


def test_an_empty_store_has_no_pieces(store: Store) -> None:
    view = store.snapshot()
    assert in_pieces(view, ALL) == []
    assert view.count(ALL) == 0
    view.close()


def test_pieces_of_a_snapshot_do_not_change_while_others_commit(lmdb: Store) -> None:
    dice = random.Random(8)
    grown(lmdb, dice, 5, 400)
    view = lmdb.snapshot()
    before, pieces = in_chunks(view, ALL), view.pieces(ALL)
    first = next(pieces)
    grown(lmdb, dice, 30, 100)
    assert is_by_pages(view)
    runs = [*first(), *[run for piece in pieces for run in piece()]]
    assert sum([run.keys() for run in runs], []) == [key for key, _ in before]  # noqa: RUF017
    assert in_pieces(view, ALL) == before
    newer = lmdb.snapshot()
    assert in_pieces(newer, ALL) == in_chunks(newer, ALL) != before
    lmdb.close()


def test_the_root_is_found_after_any_number_of_commits(lmdb: Store) -> None:
    dice = random.Random(9)
    grown(lmdb, dice, 3, 200)
    view = lmdb.snapshot()
    before = in_chunks(view, ALL)
    grown(lmdb, dice, 7, 50)
    assert is_by_pages(view)
    assert in_pieces(view, ALL) == before
    lmdb.close()


def test_meta_pages_of_another_commit_give_no_tree(lmdb: Store) -> None:
    grown(lmdb, random.Random(10), 3, 200)
    view = lmdb.snapshot()
    assert isinstance(view, LmdbSnapshot)
    assert view.metas is not None
    file, metas = view.metas
    commit = view.transaction_number()
    assert commit is not None
    assert leaves.tree_of(file, metas, commit) is not None
    assert leaves.tree_of(file, metas, commit + 2) is None
    assert leaves.tree_of(file, metas, commit - 2) is None
    torn = bytearray(metas[commit & 1])  # the root of one commit, the number of another
    other = leaves.META.unpack(metas[(commit + 1) & 1])[-3]
    torn[-24:-16] = (other + 1).to_bytes(8, "little")
    pair = (bytes(torn), bytes(torn))
    assert leaves.tree_of(file, pair, commit) is None
    view.metas = (file, pair)
    assert in_pieces(view, ALL) == in_chunks(view, ALL)
    assert view.count(ALL) == len(in_chunks(view, ALL))
    assert not is_by_pages(view)
    lmdb.close()


def test_reads_after_the_end_of_a_snapshot_are_not_returned(lmdb: Store) -> None:
    grown(lmdb, random.Random(11), 4, 400)
    view = lmdb.snapshot()
    assert isinstance(view, LmdbSnapshot)
    pieces = view.pieces(ALL)
    piece = next(pieces)
    assert list(piece())
    view.end("the snapshot was open for too long")
    grown(lmdb, random.Random(12), 30, 200)  # reuses its pages
    with pytest.raises(Unavailable, match="too long"):
        list(piece())
    with pytest.raises(Unavailable, match="too long"):
        assert not [list(piece()) for piece in pieces]
    with pytest.raises(Unavailable, match="too long"):
        view.count(ALL)
    lmdb.close()


def test_a_store_that_grows_needs_no_new_map(lmdb: Store) -> None:
    dice = random.Random(13)
    grown(lmdb, dice, 2, 100)
    assert in_pieces(lmdb.snapshot(), ALL)
    grown(lmdb, dice, 20, 1000)
    view = lmdb.snapshot()
    assert is_by_pages(view)
    assert in_pieces(view, ALL) == in_chunks(view, ALL)
    lmdb.close()


def test_runs_of_long_values_are_short(lmdb: Store) -> None:
    txn = lmdb.begin()
    for n in range(300):
        txn.put(b"t%04d" % n, bytes([n % 256]) * (200_000 if n % 3 else 20))
    txn.commit()
    view = lmdb.snapshot()
    assert is_by_pages(view)
    assert in_pieces(view, ALL) == in_chunks(view, ALL)
    runs = [len(run.data) for piece in view.pieces(ALL) for run in piece()]
    assert max(runs) < 2 * leaves.MOST_BYTES
    lmdb.close()
