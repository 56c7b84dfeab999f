"""Bulks with the same `among` do not check rows again while only they commit (`Standing`).

Any other commit makes them check."""

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


def standing(
    store: Store, rows: list[bytes], among: bytes = AMONG, is_known: bool = True
) -> Standing:
    """Requires the present rows; not `is_known`: requires stamps that a check would refuse."""
    view = store.snapshot()
    raws = view.get_many(rows)
    stamps = b"".join(raws[key][:STAMP_BYTES] for key in rows)
    as_of = view.sequence
    view.close()
    return Standing(rows, stamps if is_known else bytes(len(stamps)), "seen", as_of, among)


def written(store: Store, required: Standing, payload: bytes = b"new") -> None:
    store.bulk(required.keys, LIVE + payload, [required], overwrite=True)


def test_siblings_do_not_check_rows_while_only_siblings_commit(store: Store) -> None:
    first, second = standing(store, ROWS[:2]), standing(store, ROWS[2:], is_known=False)
    written(store, first)
    written(store, first._replace(keys=ROWS[1:2], stamps=bytes(8)))
    written(store, second)  # a check would raise a conflict


def test_siblings_check_rows_after_another_commit(store: Store) -> None:
    first, second = standing(store, ROWS[:2]), standing(store, ROWS[2:], is_known=False)
    written(store, first)
    store.transact(lambda txn: txn.put(b"t/9", LIVE))
    with pytest.raises(Conflict):
        written(store, second)
    written(store, standing(store, ROWS[:2]))  # from now on there are no other commits
    written(store, standing(store, ROWS[2:], is_known=False))


def test_rows_read_before_another_commit_are_always_checked(store: Store) -> None:
    early = standing(store, ROWS[2:], is_known=False)
    store.transact(lambda txn: txn.put(ROWS[2], LIVE + b"theirs"))
    for n in range(3):
        written(store, standing(store, ROWS[:2]), b"%d" % n)
    with pytest.raises(Conflict):
        written(store, early)


def test_bulks_with_another_name_are_no_siblings(store: Store) -> None:
    second = standing(store, ROWS[2:], is_known=False)
    written(store, standing(store, ROWS[:2], among=keys.meta("rewrite", 8)))
    with pytest.raises(Conflict):
        written(store, second)


def test_a_refused_bulk_does_not_record_its_name(store: Store) -> None:
    wrong = standing(store, ROWS[:2])._replace(as_of=0, stamps=bytes(16))
    second = standing(store, ROWS[2:], is_known=False)
    with pytest.raises(Conflict):
        written(store, wrong)
    written(store, second)


def test_a_chain_records_the_name_for_all_of_its_bulks(store: Store) -> None:
    second = standing(store, ROWS[2:], is_known=False)
    first = standing(store, ROWS[:2])
    bulks = [
        Bulk([key], LIVE + b"new", [first._replace(keys=[key], stamps=bytes(8))], overwrite=True)
        for key in first.keys
    ]
    assert len(store.bulk_chain(iter(bulks), 1.0)) == 2
    written(store, second)
