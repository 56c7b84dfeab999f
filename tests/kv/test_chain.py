"""Transactions behind one another: each by itself, one wait for the disk, on every engine alike."""

import random
from itertools import pairwise
from pathlib import Path

import pytest

from exuvia.base.errors import Conflict, Deposed, Duplicate
from exuvia.kv.chain import Chain
from exuvia.kv.memory import MemoryStore
from exuvia.kv.packet import LIVE, Span, WriteKind
from exuvia.kv.store import Store, open_store

ALL = Span(b"t", b"u")


def put(at: Store | Chain, **payloads: str) -> int:
    """One transaction of a store or of a chain."""
    txn = at.begin()
    for name, payload in payloads.items():
        txn.put(b"t" + name.encode(), payload.encode())
    return txn.commit()


def rows(at: Store) -> dict[str, str]:
    txn = at.begin()
    found = {key[1:].decode(): payload.decode() for key, payload in txn.scan(ALL)}
    txn.rollback()
    return found


def test_each_reads_what_those_before_it_wrote(store: Store) -> None:
    put(store, a="1", b="2", c="3")
    chain = Chain(store)
    put(chain, a="4", d="5")
    txn = chain.begin()
    assert txn.get(b"ta") == b"4"
    assert txn.get_many([b"td", b"tb", b"tx"]) == [b"5", b"2", None]
    txn.delete(b"tb")
    txn.delete(b"td")
    txn.commit()
    third = chain.begin()
    forwards = [(key, value) for key, value in third.scan(ALL)]
    assert forwards == [(b"ta", b"4"), (b"tc", b"3")]
    assert list(third.scan(ALL, reverse=True)) == forwards[::-1]
    assert [keys for keys, _ in third.snapshot.chunks(ALL)] == [[b"ta", b"tc"]]
    third.put(b"ta", b"6")
    third.commit()
    assert rows(store) == {"a": "1", "b": "2", "c": "3"}  # nothing is there before the flush
    stamps = chain.flush()
    assert rows(store) == {"a": "6", "c": "3"}
    assert len(stamps) == 3
    assert all(one <= other for one, other in pairwise(stamps))
    with store.read() as reader:
        assert all(reader.snapshot.saw(stamp) for stamp in stamps)
        assert reader.sequence >= stamps[-1]


def test_the_first_that_is_refused_ends_it_and_those_before_it_stand(store: Store) -> None:
    put(store, a="1", b="1")
    chain = Chain(store)
    put(chain, x="1")
    put(chain, b="2", y="1")
    put(chain, z="1")
    put(store, b="9")  # a session between
    with pytest.raises(Conflict, match="lost update"):
        chain.flush()
    assert rows(store) == {"a": "1", "b": "9", "x": "1"}


def test_a_key_that_two_of_them_write_is_validated_for_both(store: Store) -> None:
    put(store, a="1")
    chain = Chain(store)
    for payload in "234":
        txn = chain.begin()
        assert txn.get(b"ta") is not None
        txn.require(b"tread")
        txn.put(b"ta", payload.encode())
        txn.commit()
    put(store, a="9")
    with pytest.raises(Conflict):
        chain.flush()
    assert rows(store) == {"a": "9"}
    chain = Chain(store)
    put(chain, a="5")
    txn = chain.begin()
    txn.delete(b"ta")
    txn.commit()
    put(chain, a="6")
    assert len(chain.flush()) == 3
    assert rows(store) == {"a": "6"}


def test_a_fence_that_falls_ends_it(store: Store) -> None:
    put(store, epoch="1")
    chain = Chain(store)
    for name in "ab":
        txn = chain.begin()
        txn.require_equal(b"tepoch", b"1")
        txn.put(b"t" + name.encode(), b"x")
        txn.commit()
    put(store, epoch="2")
    with pytest.raises(Deposed):
        chain.flush()
    assert rows(store) == {"epoch": "2"}


def test_entries_are_judged_in_their_order(store: Store) -> None:
    chain = Chain(store)
    for kind, row in ((WriteKind.CLAIM, b"1"), (WriteKind.RELEASE, b"1"), (WriteKind.CLAIM, b"2")):
        txn = chain.begin()
        txn.write(kind, b"tk", LIVE + row)
        txn.commit()
    txn = chain.begin()
    with pytest.raises(Duplicate):
        txn.write(WriteKind.CLAIM, b"tk", LIVE + b"3")
    assert len(chain.flush()) == 3
    assert rows(store) == {"k": "\x002"}


def test_what_is_not_flushed_is_forgotten_and_a_rollback_is_no_part_of_it(store: Store) -> None:
    chain = Chain(store)
    put(chain, a="1")
    chain.close()
    chain = Chain(store)
    txn = chain.begin()
    txn.put(b"tb", b"1")
    txn.rollback()
    put(chain, c="1")
    assert len(chain.flush()) == 1
    assert rows(store) == {"c": "1"}
    assert Chain(store).flush() == []


def test_sequences_that_transactions_see_never_come_twice(store: Store) -> None:
    seen: list[int] = []
    for size in (3, 1, 4):
        chain = Chain(store)
        for n in range(size):
            txn = chain.begin()
            seen.append(txn.sequence)
            txn.put(b"t%d" % n, b"x")
            txn.commit()
        chain.flush()
    assert seen == sorted(set(seen))


def test_waiters_are_woken_once_it_is_flushed(store: Store) -> None:
    before = store.counter("bell")
    chain = Chain(store)
    for name in "ab":
        txn = chain.begin()
        txn.put(b"t" + name.encode(), b"x")
        txn.notify("bell")
        txn.commit()
    assert store.counter("bell") == before
    chain.flush()
    assert store.wait("bell", before, 5.0) == before + 2


@pytest.mark.parametrize("seed", range(20))
def test_a_chain_leaves_what_one_by_one_leaves(seed: int) -> None:
    chance = random.Random(seed)
    chained, singly = MemoryStore(), MemoryStore()
    for _ in range(10):
        chain = Chain(chained)
        for _ in range(chance.randrange(1, 6)):
            acts = [(chance.choice("pdr"), chance.choice("abcde")) for _ in range(4)]
            for at in (chain, singly):
                txn = at.begin()
                for act, name in acts:
                    key = b"t" + name.encode()
                    seen = b"".join(payload for _, payload in txn.scan(ALL))
                    if act == "p":
                        txn.put(key, (txn.get(key) or b"")[-3:] + b"%d" % (len(seen) % 10))
                    elif act == "d" and txn.get(key) is not None:
                        txn.delete(key)
                    elif act == "r":
                        txn.require(key)
                txn.commit()
        chain.flush()
        assert rows(chained) == rows(singly)


def test_one_wait_for_the_disk(tmp_path: Path) -> None:
    store = open_store(f"lmdb://{tmp_path}/store")
    put(store, a="1")
    info = store.environment.lmdb.info  # type: ignore[attr-defined]
    before = info()["last_txnid"]
    chain = Chain(store)
    for n in range(50):
        put(chain, **{f"k{n}": "x"})
    assert len(chain.flush()) == 50 and info()["last_txnid"] - before == 1
    store.close()
