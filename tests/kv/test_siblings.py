"""Bulks that name the same `among` do not look again at rows while only they commit (Standing);
whoever else commits makes them look."""

from pathlib import Path

import pytest

from exuvia.base.errors import Conflict
from exuvia.kv import keys
from exuvia.kv.packet import LIVE, STAMP_BYTES, Bulk, Standing
from exuvia.kv.store import Store, open_store

ROWS = [b"t/%d" % n for n in range(4)]
AMONG = keys.meta("rewrite", 7)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    opened = open_store(f"lmdb://{tmp_path}/store?sync=0")
    opened.bulk(ROWS, LIVE + b"old", overwrite=True)
    return opened


def standing(store: Store, rows: list[bytes], among: bytes = AMONG, known: bool = True) -> Standing:
    """They are what they are now; or, not `known`, what nobody would find if he looked."""
    view = store.snapshot()
    found = view.get_many(rows)
    stamps = b"".join(found[key][:STAMP_BYTES] for key in rows)
    as_of = view.sequence
    view.close()
    return Standing(rows, stamps if known else bytes(len(stamps)), "seen", as_of, among)


def written(store: Store, required: Standing, payload: bytes = b"new") -> None:
    store.bulk(required.keys, LIVE + payload, [required], overwrite=True)


def test_siblings_do_not_look_at_what_only_they_wrote_since(store: Store) -> None:
    first, second = standing(store, ROWS[:2]), standing(store, ROWS[2:], known=False)
    written(store, first)
    written(store, first._replace(keys=ROWS[1:2], stamps=bytes(8)))
    written(store, second)  # would be a conflict if it looked


def test_they_look_once_another_has_committed(store: Store) -> None:
    first, second = standing(store, ROWS[:2]), standing(store, ROWS[2:], known=False)
    written(store, first)
    store.transact(lambda txn: txn.put(b"t/9", LIVE))
    with pytest.raises(Conflict):
        written(store, second)
    written(store, standing(store, ROWS[:2]))  # from now on nobody else has
    written(store, standing(store, ROWS[2:], known=False))


def test_what_was_read_before_another_committed_is_looked_at_for_ever(store: Store) -> None:
    early = standing(store, ROWS[2:], known=False)
    store.transact(lambda txn: txn.put(ROWS[2], LIVE + b"theirs"))
    for n in range(3):
        written(store, standing(store, ROWS[:2]), b"%d" % n)
    with pytest.raises(Conflict):
        written(store, early)


def test_other_names_are_others(store: Store) -> None:
    second = standing(store, ROWS[2:], known=False)
    written(store, standing(store, ROWS[:2], among=keys.meta("rewrite", 8)))
    with pytest.raises(Conflict):
        written(store, second)


def test_a_refused_bulk_says_nothing(store: Store) -> None:
    wrong = standing(store, ROWS[:2])._replace(as_of=0, stamps=bytes(16))
    second = standing(store, ROWS[2:], known=False)
    with pytest.raises(Conflict):
        written(store, wrong)
    written(store, second)


def test_a_chain_says_it_for_all_of_its_bulks(store: Store) -> None:
    second = standing(store, ROWS[2:], known=False)
    first = standing(store, ROWS[:2])
    bulks = [
        Bulk([key], LIVE + b"new", [first._replace(keys=[key], stamps=bytes(8))], overwrite=True)
        for key in first.keys
    ]
    assert len(store.bulk_chain(iter(bulks), 1.0)) == 2
    written(store, second)
