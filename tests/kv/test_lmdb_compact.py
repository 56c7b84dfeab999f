"""Compacting: as a copy, and in place under load; kills at every step lose nothing."""

import json
import os
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
from typer.testing import CliRunner

from exuvia.base.clock import SystemClock
from exuvia.base.errors import Conflict, Unavailable
from exuvia.cli.main import app
from exuvia.kv import keys as k
from exuvia.kv.lmdb.compact import Swap, copy
from exuvia.kv.lmdb.environment import Environment, LmdbSettings
from exuvia.kv.lmdb.store import LmdbStore
from exuvia.kv.packet import Span
from exuvia.kv.store import open_store
from support.kv_children import hear, start, stop, tell
from support.node_processes import until

ALL = Span(b"t", b"u")
ROWS = 4000
STEPS = ("writers stopped", "copied", "all were asked to close", "all have closed", "renamed")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LmdbStore]:
    """A file of 20 MB, nine tenths of it free."""
    opened = cast(LmdbStore, open_store(f"lmdb://{tmp_path}/store"))
    opened.bulk([b"t" + k.number(n) for n in range(ROWS)], b"x" * 4000)
    txn = opened.begin()
    for n in range(ROWS):
        if n % 10:
            txn.delete(b"t" + k.number(n))
    txn.commit()
    yield opened
    opened.close()


def file_bytes(store: LmdbStore) -> int:
    return os.path.getsize(store.environment.data_path)


def put(store: LmdbStore, number: int) -> None:
    txn = store.begin()
    txn.put(b"t" + k.number(number), b"new")
    txn.commit()


def test_a_copy_is_small_and_whole_and_the_store_stays_as_it_is(
    store: LmdbStore, tmp_path: Path
) -> None:
    before, count = file_bytes(store), store.count(ALL)
    copied = copy(store.environment.lmdb, str(tmp_path / "copy"))
    assert copied < before / 5
    assert file_bytes(store) == before
    with pytest.raises(Unavailable, match="not empty"):
        copy(store.environment.lmdb, str(tmp_path / "copy"))
    other = open_store(f"lmdb://{tmp_path}/copy")
    assert other.count(ALL) == count
    other.close()


def test_a_swap_under_load_loses_nothing_and_ends_no_process(store: LmdbStore) -> None:
    """A child and this process write and read during a swap by a third process."""
    url = f"lmdb://{store.environment.path}"
    before, old = file_bytes(store), store.begin()
    child = start("write_on_through", url, "w")
    assert hear(child) == "0"
    acknowledged: list[int] = []
    over = threading.Event()

    def write() -> None:
        number = 100_000
        while not over.is_set():
            try:
                put(store, number)
                acknowledged.append(number)
                number += 1
            except (Unavailable, Conflict):
                continue

    writer = threading.Thread(target=write)
    writer.start()
    swapper = start("swap", url, "")
    assert hear(swapper).startswith("swapped")
    done = len(acknowledged)
    until(lambda: len(acknowledged) >= done + 20)
    over.set()
    writer.join()
    stop(swapper)
    child.kill()
    output = [int(line) for line in cast(str, child.stdout.read()).split()]  # type: ignore[union-attr]
    stop(child)
    assert file_bytes(store) < before / 3
    with pytest.raises(Unavailable, match="being exchanged; repeat the transaction"):
        old.get(b"ta")
    txn = store.begin()
    assert all(txn.get(b"t" + k.number(n)) == b"new" for n in acknowledged)
    assert all(txn.get(b"tw" + k.number(n)) is not None for n in output)
    assert sum(1 for n in range(ROWS) if txn.get(b"t" + k.number(n))) == ROWS // 10
    txn.rollback()
    assert child.returncode == -signal.SIGKILL


@pytest.mark.parametrize("step", STEPS)
def test_a_swap_that_is_killed_leaves_a_whole_store(store: LmdbStore, step: str) -> None:
    before = file_bytes(store)
    put(store, 100_000)
    swapper = start("swap", f"lmdb://{store.environment.path}", step)
    assert hear(swapper) == step
    swapper.wait(10)
    assert swapper.returncode == -signal.SIGKILL
    stop(swapper)
    put(store, 100_001)
    assert store.count(ALL) == ROWS // 10 + 2
    renamed = step == "renamed"
    assert (file_bytes(store) < before / 3) is renamed
    other = start("count_all", f"lmdb://{store.environment.path}")
    assert hear(other) == str(ROWS // 10 + 2)
    stop(other)
    again = start("swap", f"lmdb://{store.environment.path}", "")
    assert hear(again).startswith("swapped")
    stop(again)
    put(store, 100_002)
    assert store.count(ALL) == ROWS // 10 + 3
    assert file_bytes(store) < before / 3
    assert not Path(store.environment.file("data.mdb.compact")).exists()


def test_a_process_that_does_not_close_ends_the_swap_and_nothing_is_changed(
    store: LmdbStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"lmdb://{store.environment.path}"
    child = start("read_on", url)
    assert hear(child) == "reading"
    os.kill(child.pid, signal.SIGSTOP)
    before = file_bytes(store)
    swapper = start("swap", url, "", 2.0)
    assert f"process {child.pid} does not close the store's file" in hear(swapper)
    os.kill(child.pid, signal.SIGCONT)
    stop(swapper)
    put(store, 100_000)
    assert file_bytes(store) >= before
    tell(child)
    stop(child)


def test_a_swap_without_other_processes(store: LmdbStore) -> None:
    path = store.environment.path
    store.close()
    environment = Environment(path, LmdbSettings(), SystemClock())
    before, after = Swap(environment).run()
    environment.close()
    assert after < before / 5
    again = open_store(f"lmdb://{path}")
    assert again.count(ALL) == ROWS // 10
    again.close()


# -- the command line ----------------------------------------------------------------------------


def test_stat_shows_sizes_and_readers(store: LmdbStore) -> None:
    store.caretaker_thread.close()
    reader = store.begin()
    for _ in range(3):
        put(store, 0)
    store.caretaker.step(time.monotonic() + 10)
    status = command("stat", "-o", "json", store=store)
    assert status["pages_free"] * status["page_bytes"] > 10 << 20
    assert status["file_bytes"] == file_bytes(store)
    (row,) = status["readers"]
    assert row["pid"] == os.getpid()
    assert row["age_s"] >= 0
    assert row["kept_bytes"] >= 0
    reader.rollback()


def command(*arguments: str, store: LmdbStore) -> dict:  # type: ignore[type-arg]
    """Run `exuvia store ...` in a process of its own."""
    child = start("run_command", "store", *arguments, "--store", f"lmdb://{store.environment.path}")
    output = hear(child)
    stop(child)
    return cast(dict, json.loads(output))  # type: ignore[type-arg]


def test_compact_reports_its_result(store: LmdbStore, tmp_path: Path) -> None:
    path = store.environment.path
    store.close()
    runner = CliRunner()
    url = ["--store", f"lmdb://{path}"]
    both = runner.invoke(app, ["store", "compact", *url, str(tmp_path / "c"), "--swap"])
    assert both.exit_code == 2
    copied = runner.invoke(app, ["store", "compact", *url, str(tmp_path / "c")])
    assert "is a copy of" in copied.output
    assert "The store itself is as large as before" in copied.output
    swapped = runner.invoke(app, ["store", "compact", *url, "--swap"], input="y\n")
    assert "nodes will wait for about" in swapped.output
    assert "writers waited for" in swapped.output
    shutil.rmtree(path)
    missing = runner.invoke(app, ["store", "stat", *url])
    assert missing.exit_code == 1
    assert not Path(path).exists()
