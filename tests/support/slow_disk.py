"""A store on LMDB whose commits wait for a slow disk, and the chains of bulks that it runs."""

import threading
from collections.abc import Iterable, Iterator

import pytest

from exuvia.kv.lmdb.environment import Environment
from exuvia.kv.lmdb.native import Writing
from exuvia.kv.lmdb.store import LmdbStore
from exuvia.kv.packet import Bulk, BulkResult


def slow_disk(monkeypatch: pytest.MonkeyPatch, sync_s: float) -> None:
    """Each commit takes `sync_s` longer."""
    commit, disk = Environment.commit, threading.Event()

    def slowly(self: Environment, transaction: Writing) -> None:
        disk.wait(sync_s)
        commit(self, transaction)

    monkeypatch.setattr(Environment, "commit", slowly)


def chains_of(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """Returns the list to which each chain is added as its bulks' numbers of keys. A chain is one
    commit."""
    chains: list[list[int]] = []
    run_chain = LmdbStore.bulk_chain

    def counted(self: LmdbStore, batches: Iterable[Bulk], most_s: float) -> list[BulkResult]:
        sizes: list[int] = []

        def noted() -> Iterator[Bulk]:
            for batch in batches:
                sizes.append(len(batch.keys))
                yield batch

        results = run_chain(self, noted(), most_s)
        chains.append(sizes[: len(results)])
        return results

    monkeypatch.setattr(LmdbStore, "bulk_chain", counted)
    return chains
