"""Chains: consecutive transactions with one wait for the disk, on every engine."""

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
    """Commit one transaction of a store or of a chain."""
    txn = at.begin()
    for name, payload in payloads.items():
        txn.put(b"t" + name.encode(), payload.encode())
    return txn.commit()


def rows(at: Store) -> dict[str, str]:
    txn = at.begin()
    pairs = {key[1:].decode(): payload.decode() for key, payload in txn.scan(ALL)}
    txn.rollback()
    return pairs


def test_each_transaction_of_a_chain_reads_the_earlier_writes(store: Store) -> None:
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
    assert rows(store) == {"a": "1", "b": "2", "c": "3"}  # before the flush nothing is stored
    stamps = chain.flush()
    assert rows(store) == {"a": "6", "c": "3"}
    assert len(stamps) == 3
    assert all(one <= other for one, other in pairwise(stamps))
    with store.read() as reader:
        assert all(reader.snapshot.saw(stamp) for stamp in stamps)
        assert reader.sequence >= stamps[-1]


def test_the_first_refusal_ends_a_chain_and_earlier_packets_are_committed(store: Store) -> None:
    put(store, a="1", b="1")
    chain = Chain(store)
    put(chain, x="1")
    put(chain, b="2", y="1")
    put(chain, z="1")
    put(store, b="9")  # another session commits in between
    with pytest.raises(Conflict, match="lost update"):
        chain.flush()
    assert rows(store) == {"a": "1", "b": "9", "x": "1"}


def test_a_key_written_twice_in_a_chain_is_validated_for_both(store: Store) -> None:
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


def test_a_broken_fence_ends_a_chain(store: Store) -> None:
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


def test_packets_without_a_flush_and_rolled_back_ones_are_discarded(store: Store) -> None:
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


def test_sequences_of_transactions_are_never_repeated(store: Store) -> None:
    sequences: list[int] = []
    for size in (3, 1, 4):
        chain = Chain(store)
        for n in range(size):
            txn = chain.begin()
            sequences.append(txn.sequence)
            txn.put(b"t%d" % n, b"x")
            txn.commit()
        chain.flush()
    assert sequences == sorted(set(sequences))


def test_waiters_are_woken_after_the_flush(store: Store) -> None:
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
def test_a_chain_has_the_same_effect_as_single_commits(seed: int) -> None:
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
                    content = b"".join(payload for _, payload in txn.scan(ALL))
                    if act == "p":
                        txn.put(key, (txn.get(key) or b"")[-3:] + b"%d" % (len(content) % 10))
                    elif act == "d" and txn.get(key) is not None:
                        txn.delete(key)
                    elif act == "r":
                        txn.require(key)
                txn.commit()
        chain.flush()
        assert rows(chained) == rows(singly)


def test_a_chain_waits_once_for_the_disk(tmp_path: Path) -> None:
    store = open_store(f"lmdb://{tmp_path}/store")
    put(store, a="1")
    info = store.environment.lmdb.info  # type: ignore[attr-defined]
    before = info()["last_txnid"]
    chain = Chain(store)
    for n in range(50):
        put(chain, **{f"k{n}": "x"})
    assert len(chain.flush()) == 50 and info()["last_txnid"] - before == 1
    store.close()
