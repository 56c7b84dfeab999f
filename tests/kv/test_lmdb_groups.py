"""Many sessions' commits in one transaction: one fsync, each judged by itself, nobody left."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest

from exuvia.base.errors import Conflict, Unavailable
from exuvia.kv import keys as k
from exuvia.kv.lmdb.committer import _Ticket
from exuvia.kv.lmdb.store import LmdbStore
from exuvia.kv.open import open_store
from exuvia.kv.packet import Span

ALL = Span(b"t", b"u")


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[LmdbStore]:
    store = cast(LmdbStore, open_store(f"lmdb://{tmp_path}/store"))
    txn = store.begin()
    txn.put(b"t" + k.number(0), b"x")
    txn.commit()
    yield store
    store.close()


def put(store: LmdbStore, number: int) -> int:
    txn = store.begin()
    txn.put(b"t" + k.number(number), b"x")
    return txn.commit()


def together(store: LmdbStore, work: Callable[[int], object], numbers: range) -> None:
    """Let `work(number)` run in a thread each, all of them queued before the first may write."""
    threads = [threading.Thread(target=work, args=(number,)) for number in numbers]
    with store._environment.write():
        for thread in threads:
            thread.start()
        while len(store._committer._queue) < len(threads) - 1:
            time.sleep(0.001)
    for thread in threads:
        thread.join()


def transactions(store: LmdbStore) -> int:
    """How many LMDB transactions were committed; each cost one wait for the disk."""
    return cast(int, store._environment.lmdb.info()["last_txnid"])


def test_commits_that_wait_share_one_fsync(opened: LmdbStore) -> None:
    before = transactions(opened)
    sequences: list[int] = []
    together(opened, lambda number: sequences.append(put(opened, number)), range(1, 31))
    assert transactions(opened) - before == 1
    assert sorted(sequences) == list(range(2, 32))
    assert opened.count(ALL) == 31


def test_each_packet_is_judged_by_what_the_one_before_it_left(opened: LmdbStore) -> None:
    outcomes: list[str] = []

    def write(number: int) -> None:
        txn = opened.begin()
        txn.put(b"t-same", b"%d" % number)
        txn.put(b"t" + k.number(number), b"mine")
        try:
            txn.commit()
            outcomes.append("done")
        except Conflict:
            outcomes.append("conflict")

    before = transactions(opened)
    together(opened, write, range(1, 11))
    assert sorted(outcomes) == ["conflict"] * 9 + ["done"]
    assert transactions(opened) - before == 1
    txn = opened.begin()
    winner = int(cast(bytes, txn.get(b"t-same")))
    left = [b"t-same", b"t" + k.number(0), b"t" + k.number(winner)]
    assert [key for key, _ in txn.scan(ALL)] == sorted(left)
    txn.rollback()


def test_a_faulty_packet_is_its_own_callers_fault(opened: LmdbStore) -> None:
    outcomes: list[str] = []

    def write(number: int) -> None:
        txn = opened.begin()
        if number == 1:
            txn.delete(b"t" + k.number(0))
        txn.put(b"t" + k.number(number), cast(bytes, "text" if number == 1 else b"x"))
        try:
            txn.commit()
            outcomes.append(f"{number} done")
        except TypeError:
            outcomes.append(f"{number} refused")

    together(opened, write, range(1, 4))
    assert sorted(outcomes) == ["1 refused", "2 done", "3 done"]
    assert opened.count(ALL) == 3


def test_a_bulk_is_alone_and_in_its_turn(opened: LmdbStore) -> None:
    sequences: dict[int, int] = {}

    def write(number: int) -> None:
        if number == 5:
            sequences[number] = opened.bulk([b"t-bulk%d" % n for n in range(9)], b"x").sequence
        else:
            sequences[number] = put(opened, number)

    before = transactions(opened)
    together(opened, write, range(1, 11))
    assert sorted(sequences.values()) == list(range(2, 12))
    assert transactions(opened) - before <= 3
    assert opened.count(ALL) == 19


@pytest.fixture
def interruptible() -> Iterator[None]:
    """SIGINT raises KeyboardInterrupt, also where the tests were started with it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupted_wait_leaves_nobody_behind(opened: LmdbStore) -> None:
    """Ctrl-C in a session that waits for its commit: the others go on, and so does the next."""
    writers = [threading.Thread(target=put, args=(opened, number)) for number in range(1, 5)]
    release = threading.Event()
    held = threading.Event()

    def hold() -> None:
        with opened._environment.write():
            held.set()
            release.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    for writer in writers:
        writer.start()
    while len(opened._committer._queue) < 3:
        time.sleep(0.001)

    def interrupt() -> None:
        while len(opened._committer._queue) < 4:
            time.sleep(0.001)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        while len(opened._committer._queue) > 3:
            time.sleep(0.001)
        release.set()

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        put(opened, 9)
    for thread in (holder, *writers):
        thread.join()
    assert put(opened, 10) > 0
    assert opened.count(Span(b"t" + k.number(1), b"t" + k.number(10))) == 4


def test_an_interrupted_wait_that_was_given_the_lead_passes_it_on(opened: LmdbStore) -> None:
    committer = opened._committer
    ticket = _Ticket(lambda transaction: None, alone=False)

    class Gate:
        def acquire(self) -> bool:
            ticket.leads = True
            raise KeyboardInterrupt

    committer._busy = True
    with pytest.raises(KeyboardInterrupt):
        committer._follow(ticket, cast(threading.Lock, Gate()))
    assert put(opened, 1) > 0


def test_closing_waits_for_commits_and_refuses_later_ones(tmp_path: Path) -> None:
    store = cast(LmdbStore, open_store(f"lmdb://{tmp_path}/store"))
    acknowledged: list[int] = []
    ends: list[str] = []

    def write(base: int) -> None:
        try:
            for number in range(base, base + 100_000):
                put(store, number)
                acknowledged.append(number)
        except Unavailable as error:
            ends.append(str(error))

    threads = [threading.Thread(target=write, args=(n * 1_000_000,)) for n in range(3)]
    waiting = threading.Thread(target=lambda: ends.append(_wait_is_refused(store)))
    for thread in [*threads, waiting]:
        thread.start()
    time.sleep(0.1)
    store.close()
    for thread in [*threads, waiting]:
        thread.join()
    assert ends == ["the store is closed"] * 4
    again = open_store(f"lmdb://{tmp_path}/store")
    assert again.count(ALL) == len(acknowledged) > 10
    again.close()


def _wait_is_refused(store: LmdbStore) -> str:
    with pytest.raises(Unavailable) as refused:
        store.wait("job", 0, 30)
    return str(refused.value)
