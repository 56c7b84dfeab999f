"""Keys put in order fill LMDB's leaves, whatever keys follow them.

The fences that cause this are removed before the end of the commit."""

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast

import lmdb
import pytest

from exuvia.kv import keys as k
from exuvia.kv.lmdb import committer
from exuvia.kv.lmdb.store import LmdbStore
from exuvia.kv.packet import Bulk, Span
from exuvia.kv.store import open_store
from support.few import one_in

ALL = Span(b"t", b"u")
STAMP, NODE, HEADER = 8, 10, 24  # bytes: of a value, of a key in its leaf, of a leaf
PAGE = 4096
ROWS = [(b"t1r" + k.number(n), b"r" * 200) for n in range(1, 400)]


@pytest.fixture(params=["1.0", "0.9"])
def opened(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[LmdbStore]:
    """A store on the engine of new stores, and on that of old stores."""
    if request.param == "0.9":
        (tmp_path / "store").mkdir()
        lmdb.open(f"{tmp_path}/store", map_size=1 << 30).close()
    store = cast(LmdbStore, open_store(f"lmdb://{tmp_path}/store?sync=0"))
    yield store
    store.close()


def leaves(store: LmdbStore) -> int:
    return int(store.environment.lmdb.stat()["leaf_pages"])


def ideal(pairs: Sequence[tuple[bytes, bytes]]) -> float:
    """The number of leaves that the pairs fill completely."""
    used_bytes = sum(NODE + len(key) + STAMP + len(payload) for key, payload in pairs)
    return used_bytes / (PAGE - HEADER)


def entries(number: int, width: int) -> list[tuple[bytes, bytes]]:
    return [(b"t1i" + k.number(n) + b"k" * width, b"x") for n in range(number)]


def put(store: LmdbStore, pairs: Sequence[tuple[bytes, bytes]]) -> None:
    txn = store.begin()
    for key, payload in pairs:
        txn.put(key, payload)
    txn.commit()


def bulks(pairs: Sequence[tuple[bytes, bytes]], rows: int) -> list[Bulk]:
    parts = [pairs[n : n + rows] for n in range(0, len(pairs), rows)]
    return [Bulk([key for key, _ in part], [payload for _, payload in part]) for part in parts]


def fill(store: LmdbStore, pairs: Sequence[tuple[bytes, bytes]], rows: int, together: int) -> None:
    """Put the pairs in chains of `together` bulks, each of `rows` rows."""
    waiting = bulks(pairs, rows)
    for n in range(0, len(waiting), together):
        assert len(store.bulk_chain(waiting[n : n + together], 60.0)) > 0


def state(store: LmdbStore) -> dict[bytes, bytes]:
    """The content of the file below "t", including any fence that was not removed."""
    with store.environment.lmdb.begin() as reader:
        return {key: raw[STAMP:] for key, raw in reader.cursor() if ALL.start <= key < ALL.end}


# -- full leaves -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("rows", "together"), [(256, 40), (1024, 8), (10_240, 1)])
@pytest.mark.parametrize("width", [1, 20, 70, 130, 400])
def test_an_index_before_the_rows_of_its_table(
    opened: LmdbStore, width: int, rows: int, together: int
) -> None:
    put(opened, ROWS)
    before, index = leaves(opened), entries(20_000, width)
    fill(opened, index, rows, together)
    assert (leaves(opened) - before) / ideal(index) < (1.15 if width < 400 else 1.2)


def test_an_index_followed_by_entries_of_clients(opened: LmdbStore) -> None:
    index = entries(20_000, 8)
    put(opened, ROWS + index[::100])
    before = leaves(opened)
    fill(opened, [key for n, key in enumerate(index) if n % 100], 99, 100)
    assert state(opened) == dict(ROWS + index)
    unfenced = leaves(opened) - before  # runs of 99 keys get no fences
    assert unfenced / ideal(index) > 1.3


def test_rows_of_one_transaction_before_another_table(opened: LmdbStore) -> None:
    put(opened, [(b"t2r" + k.number(n), b"r" * 200) for n in range(100)])
    before, whole = leaves(opened), [(b"t1r" + k.number(n), b"r" * 40) for n in range(20_000)]
    for n in range(0, len(whole), 1_000):
        put(opened, whole[n : n + 1_000])
    assert (leaves(opened) - before) / ideal(whole) < 1.25


def test_without_a_fence_leaves_are_not_full(
    opened: LmdbStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A planted fault: without fences these tests must fail."""
    monkeypatch.setattr(committer, "RUN", 1 << 30)
    put(opened, ROWS)
    before, index = leaves(opened), entries(20_000, 20)
    fill(opened, index, 256, 40)
    assert (leaves(opened) - before) / ideal(index) > 2


# -- no other changes ------------------------------------------------------------------------------


def key_at_random(dice: random.Random) -> bytes:
    """A key close to others: with zeros at its end, or with the same beginning."""
    key = b"t" + bytes([dice.choice([1, 2])]) + k.number(dice.choice([0, 1, 255, 256, 1 << 16]))
    return key + bytes(dice.choices([0, 1, 0xFE, 0xFF], k=dice.randrange(4)))


@pytest.mark.parametrize("longest", [509, 510, 511])
def test_the_longest_keys_have_no_room_for_a_fence(opened: LmdbStore, longest: int) -> None:
    """Engine 0.9 allows keys of 511 bytes."""
    behind = (b"t9r".ljust(longest, b"z"), b"x")
    put(opened, [behind])
    run = [((b"t1i" + k.number(n)).ljust(longest, b"z"), b"x") for n in range(300)]
    fill(opened, run[:150], 150, 1)
    put(opened, run[150:])
    short = entries(300, 1)
    fill(opened, [(b"t2" + key, payload) for key, payload in short], 300, 1)
    assert len(state(opened)) == 601


@pytest.mark.parametrize("by_transaction", [False, True])
def test_a_key_at_the_place_of_a_fence_is_kept(opened: LmdbStore, by_transaction: bool) -> None:
    """A key one byte longer than its neighbours, made like that of a fence."""
    run = [b"t1i" + k.number(n) for n in range(1, 500)]
    run[1:1] = [committer.key_before(key) for key in run[1:]]
    run = sorted(run)
    put(opened, [(run[0] + b"0", b"x"), ROWS[0]])
    at_end = [run[-1] + b"2", committer.key_before(ROWS[0][0])]  # the second follows the bulks
    if by_transaction:
        put(opened, [(key, b"x") for key in run])
        put(opened, [(key, b"x") for key in at_end])
    else:
        fill(opened, [(key, b"x") for key in run + at_end], 300, 100)
    assert state(opened).keys() == {*run, *at_end, run[0] + b"0", ROWS[0][0]}


@pytest.mark.parametrize("seed", one_in(3, range(6)))
def test_the_file_has_the_pairs_put_and_no_others(opened: LmdbStore, seed: int) -> None:
    dice = random.Random(seed)
    expected: dict[bytes, bytes] = {}
    for _ in range(25):
        singles = [(key_at_random(dice), bytes(dice.randrange(2_500))) for _ in range(2)]
        put(opened, singles)
        expected.update(singles)
        head, size = key_at_random(dice), dice.choice([0, 30, 300])
        numbers = sorted(dice.sample(range(5_000), dice.choice([100, 200, 1_500])))
        run = [(head + k.number(n), bytes([dice.randrange(1, 256)]) * size) for n in numbers]
        if dice.random() < 0.3:
            put(opened, run)
            expected.update(run)
        else:
            chain = bulks(run, dice.choice([64, 128, 300]))
            while chain:
                chain = chain[len(opened.bulk_chain(chain, 60.0)) :]
            expected = {**dict(run), **expected}
        if dice.random() < 0.3:
            removed = dice.sample(sorted(expected), len(expected) // 3)
            txn = opened.begin()
            for key in removed:
                txn.delete(key)
                del expected[key]
            txn.commit()
        assert state(opened) == expected
