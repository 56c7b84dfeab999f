"""The order of the data file's pages: its metrics, and the warning for operators."""

import logging
import random
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import lmdb
import numpy as np
import pytest
from typer.testing import CliRunner

from exuvia.cli import doctor
from exuvia.cli.main import app
from exuvia.kv import keys as k
from exuvia.kv.lmdb import scatter
from exuvia.kv.lmdb.compact import copy
from exuvia.kv.lmdb.leaves import META, free_tree_of
from exuvia.kv.lmdb.pages import pages_of
from exuvia.kv.lmdb.scatter import advice, free_pages, mean_run, scatter_of
from exuvia.kv.lmdb.store import LmdbStore
from exuvia.kv.store import open_store

ROWS = 20_000


def loaded(folder: Path) -> LmdbStore:
    """Rows in key order, written in large commits."""
    store = cast(LmdbStore, open_store(f"lmdb://{folder}?sync=0"))
    for start in range(0, ROWS, 5_000):
        store.bulk([b"t" + k.number(n) for n in range(start, start + 5_000)], b"r" * 200)
    return store


def update_here_and_there(store: LmdbStore, commits: int) -> None:
    dice = random.Random(5)
    for _ in range(commits):
        txn = store.begin()
        txn.put(b"t" + k.number(dice.randrange(ROWS)), b"s" * 200)
        txn.commit()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LmdbStore]:
    opened = loaded(tmp_path / "store")
    yield opened
    opened.close()


def share_in_order(store: LmdbStore) -> float:
    measured = scatter_of(store.environment)
    assert measured is not None
    return measured.leaves_in_order


def listed_free_pages(store: LmdbStore) -> list[int]:
    file = store.environment.pages
    assert file is not None
    reader = store.environment.read()
    free = free_tree_of(file, file.metas(), reader.id())
    assert free is not None
    pages = free_pages(free).tolist()
    reader.abort()
    return cast(list[int], pages)


def test_small_commits_scatter_the_leaves_and_a_compact_copy_puts_them_in_order(
    store: LmdbStore, tmp_path: Path
) -> None:
    assert share_in_order(store) > 0.9
    update_here_and_there(store, 800)
    assert share_in_order(store) < 0.4
    copy(store.environment.lmdb, str(tmp_path / "copy"))
    again = cast(LmdbStore, open_store(f"lmdb://{tmp_path}/copy"))
    assert share_in_order(again) > 0.9
    again.close()


def test_every_page_of_the_file_is_free_or_used(store: LmdbStore) -> None:
    """The list of free pages is whole: with the pages in use they are the file."""
    update_here_and_there(store, 300)
    store.bulk([b"u" + k.number(n) for n in range(5_000)], b"r" * 300)
    txn = store.begin()
    for n in range(5_000):
        txn.delete(b"u" + k.number(n))
    txn.commit()
    free, pages = listed_free_pages(store), pages_of(store.environment.lmdb)
    assert len(free) > 400, "their list has values that are longer than a page"
    assert len(set(free)) == len(free)
    assert min(free) > 1
    assert max(free) < pages.total
    file = store.environment.pages
    assert file is not None
    branches, leaves, overflows = META.unpack(file.metas()[pages.transaction & 1])[5:8]
    assert len(free) + branches + leaves + overflows == pages.free


def test_runs_of_free_pages() -> None:
    assert mean_run(np.zeros(0, np.int64)) == 0.0
    assert mean_run(np.array([7])) == 1.0
    assert mean_run(np.array([9, 3, 8, 4, 10])) == 2.5


def test_free_pages_are_counted_up_to_a_bound(
    store: LmdbStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    update_here_and_there(store, 50)
    everything = listed_free_pages(store)
    monkeypatch.setattr(scatter, "MOST_FREE", 1)
    oldest = listed_free_pages(store)
    assert 0 < len(oldest) < len(everything)
    assert oldest == everything[: len(oldest)]


def test_the_order_is_judged_by_some_of_the_branches(
    store: LmdbStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    update_here_and_there(store, 300)
    whole = share_in_order(store)
    monkeypatch.setattr(scatter, "MOST_BRANCHES", 3)
    assert share_in_order(store) == pytest.approx(whole, abs=0.2)


def test_an_operator_is_advised_once_the_pages_are_scattered(
    store: LmdbStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(scatter, "LEAST_BYTES", 1 << 20)
    store.caretaker_thread.close()
    url = f"lmdb://{store.environment.path}"
    caplog.set_level(logging.WARNING)
    store.caretaker.step(1e6)
    assert advice(store.measures()) == ""
    update_here_and_there(store, 800)
    assert not caplog.records
    for now in (1.001e6, 1.002e6):
        store.caretaker.step(now)
    (record,) = caplog.records
    assert record.message == "the store's pages are scattered"
    assert "exuvia store compact --swap" in record.__dict__["reason"]
    measures = store.measures()
    assert 0 < measures["leaves_in_order_ratio"] < 0.4
    assert measures["free_run_pages"] >= 1
    store.close()
    (warning,) = [one for one in doctor.examine(url, spark=False) if one.name == "pages"]
    assert (warning.level, warning.about) == ("warning", advice(measures))
    answer = CliRunner().invoke(app, ["store", "stat", "--store", url])
    assert "leaves_in_order" in answer.output


def test_a_small_store_needs_no_advice(store: LmdbStore) -> None:
    update_here_and_there(store, 800)
    assert share_in_order(store) < scatter.LEAST_IN_ORDER
    assert advice(store.measures()) == ""


def test_a_store_of_the_older_engine_has_no_such_metrics(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    lmdb.open(f"{tmp_path}/old", map_size=1 << 30).close()
    old = loaded(tmp_path / "old")
    assert scatter_of(old.environment) is None
    assert "leaves_in_order_ratio" not in old.measures()
    assert "used_bytes" in old.measures()
    old.close()
