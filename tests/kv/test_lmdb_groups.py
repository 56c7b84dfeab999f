"""Many sessions' commits in one transaction: one fsync, each validated separately, none lost."""

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any, cast

import pytest

from exuvia.base.errors import Conflict, Unavailable
from exuvia.kv import keys as k
from exuvia.kv.lmdb import committer
from exuvia.kv.lmdb import store as store_module
from exuvia.kv.lmdb.committer import MOST_KEYS, _Ticket, apply_arranged
from exuvia.kv.lmdb.environment import Environment
from exuvia.kv.lmdb.gate import BULKS, Gate
from exuvia.kv.lmdb.native import Writing
from exuvia.kv.lmdb.store import LmdbStore
from exuvia.kv.packet import LIVE, Bulk, Span, WriteKind
from exuvia.kv.store import open_store
from exuvia.kv.validate import STRIDE
from support.node_processes import until

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
    """Run `work(number)` in one thread each, all queued before the first may write.

    The first or the second leads."""
    threads = [threading.Thread(target=work, args=(number,)) for number in numbers]
    with store.environment.write():
        for before, thread in enumerate(threads):
            thread.start()
            until(partial(lambda n: store.committer.waiting >= n, before), every_s=0.001)
    for thread in threads:
        thread.join()


def transactions(store: LmdbStore) -> int:
    """Number of committed LMDB transactions; each waits once for the disk."""
    return cast(int, store.environment.lmdb.info()["last_txnid"])


def test_commits_that_wait_share_one_fsync(opened: LmdbStore) -> None:
    before = transactions(opened)
    sequences: list[int] = []
    together(opened, lambda number: sequences.append(put(opened, number)), range(1, 31))
    assert transactions(opened) - before == 1
    assert sorted(sequences) == list(range(2, 32))
    assert opened.count(ALL) == 31


def test_each_packet_is_validated_against_the_result_of_the_earlier_ones(opened: LmdbStore) -> None:
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
    remaining = [b"t-same", b"t" + k.number(0), b"t" + k.number(winner)]
    assert [key for key, _ in txn.scan(ALL)] == sorted(remaining)
    txn.rollback()


def test_a_faulty_packet_fails_only_for_its_caller(opened: LmdbStore) -> None:
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
            sequences[number] = opened.bulk([b"t-bulk%d" % n for n in range(9)], b"x").stamp
        else:
            sequences[number] = put(opened, number)

    before = transactions(opened)
    together(opened, write, range(1, 11))
    assert sorted(sequences.values()) == list(range(2, 12))
    assert transactions(opened) - before <= 3
    assert opened.count(ALL) == 19


def bulks(number: int) -> list[Bulk]:
    return [Bulk([b"t-bulk%05d" % n], b"x") for n in range(number)]


def test_a_chain_of_bulks_shares_one_fsync(opened: LmdbStore) -> None:
    before = transactions(opened)
    results = opened.bulk_chain(bulks(100), 10.0)
    assert [result.placed for result in results] == [1] * 100
    assert transactions(opened) - before == 1
    assert opened.count(ALL) == 101


def test_a_chain_of_bulks_ends_when_its_time_is_over(opened: LmdbStore) -> None:
    assert len(opened.bulk_chain(bulks(100), 0.0)) == 1
    assert opened.count(ALL) == 2


def test_a_chain_reports_its_time_of_writing_without_its_waits(
    opened: LmdbStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the wait for the writer, nor that for the disk."""
    enter, commit = Gate.enter, Environment.commit

    takes = threading.Event().wait

    def late(self: Gate) -> None:
        takes(0.3)
        enter(self)

    def slowly(self: Environment, transaction: Writing) -> None:
        takes(0.3)
        commit(self, transaction)

    def slow_bulks() -> Iterator[Bulk]:
        for bulk in bulks(3):
            takes(0.01)
            yield bulk

    monkeypatch.setattr(Gate, "enter", late)
    monkeypatch.setattr(Environment, "commit", slowly)
    results = opened.bulk_chain(slow_bulks(), 10.0)
    assert 0.03 <= results[-1].written_s < 0.3


def test_a_chain_of_bulks_stops_early_for_waiting_commits(opened: LmdbStore) -> None:
    """It continues while its caller has batches, unless another session wants to write."""
    waits, others = threading.Event(), []

    def endless() -> Iterator[Bulk]:
        for n in itertools.count():
            yield Bulk([b"t-bulk%05d" % n], b"x")
            if n == 10:
                waits.set()

    def writer() -> None:
        waits.wait()
        others.append(put(opened, 1))

    thread = threading.Thread(target=writer)
    thread.start()
    results = opened.bulk_chain(endless(), 60.0)
    thread.join()
    assert len(results) > 10
    assert others[0] > results[-1].stamp


@pytest.mark.parametrize("has_bulks", [False, True])
def test_a_chain_of_bulks_stops_early_for_another_process(
    opened: LmdbStore, has_bulks: bool
) -> None:
    """It continues if the other process waits with bulks, too."""
    gate = opened.environment.gate
    assert not gate.has_waiter
    script = (
        "import fcntl, os, sys; f = open(sys.argv[1], 'r+'); fcntl.lockf(f, fcntl.LOCK_EX, 1, 1);"
    )
    if has_bulks:
        script += f"fcntl.lockf(f, fcntl.LOCK_EX, 1, {BULKS} + os.getpid());"
    script += "print(flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", script, opened.environment.file("locks")]
    with Popen(command, stdin=PIPE, stdout=PIPE) as other:
        assert other.stdout
        other.stdout.readline()
        assert gate.has_waiter is not has_bulks
        other.communicate()
    assert not gate.has_waiter


def test_a_process_that_writes_bulks_is_marked_as_such(opened: LmdbStore) -> None:
    locks = opened.environment.locks
    script = (
        "import sys; from exuvia.kv.lmdb.gate import *; print(LockFile(sys.argv[1]).holder(BULKS"
    )
    script += " + int(sys.argv[2])), flush=True)"
    observed = []

    def look() -> str:
        path = opened.environment.file("locks")
        return subprocess.check_output(
            [sys.executable, "-c", script, path, str(os.getpid())]
        ).decode()

    def watched() -> Iterator[Bulk]:
        yield Bulk([b"t-bulk"], b"x")
        observed.append(look())

    assert locks.holder(BULKS + os.getpid()) is None
    opened.bulk_chain(watched(), 60.0)
    assert str(os.getpid()) in observed[0]
    assert look() == "None\n"


class _Failing:
    """LMDB's write transaction whose `putmulti` fails in the middle of a list with that key."""

    def __init__(self, real: Any, key: bytes, error: Callable[[], BaseException]) -> None:
        self._real = real
        self._key = key
        self._error = error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    @contextmanager
    def cursor(self) -> Iterator["_Failing"]:
        with self._real.cursor() as cursor:
            yield _Failing(cursor, self._key, self._error)

    def putmulti(self, items: Any, overwrite: bool = True) -> tuple[int, int]:
        listed = list(items)
        if self._key not in [key for key, _ in listed]:
            return cast(tuple[int, int], self._real.putmulti(listed, overwrite=overwrite))
        self._real.putmulti(listed[: len(listed) // 2])
        raise self._error()


def fail_at(
    store: LmdbStore,
    key: bytes,
    error: type[BaseException],
    monkeypatch: pytest.MonkeyPatch,
    times: int = 1000,
) -> None:
    """Plant an error in the middle of writing a packet with this key."""
    write = store.environment.write
    remaining = [times]

    def planted() -> BaseException:
        remaining[0] -= 1
        return error("planted")

    @contextmanager
    def failing() -> Iterator[Any]:
        with write() as transaction:
            yield transaction if remaining[0] <= 0 else _Failing(transaction, key, planted)

    monkeypatch.setattr(store.environment, "write", failing)


def write_three(store: LmdbStore, number: int) -> int:
    txn = store.begin()
    for part in range(3):
        txn.put(b"t" + k.number(number) + b"-%d" % part, b"x")
    return txn.commit()


def standing(store: LmdbStore, numbers: range) -> dict[int, int]:
    """For each number, how many keys of its packet are stored."""
    txn = store.begin()
    counts = {}
    for number in numbers:
        start = b"t" + k.number(number) + b"-"
        counts[number] = len(list(txn.scan(Span(start, start + b"\xff"))))
    txn.rollback()
    return counts


@pytest.mark.parametrize("failed", [1, 4, 8])
@pytest.mark.parametrize("error", [MemoryError, RuntimeError])
def test_an_error_in_the_middle_of_a_packet_leaves_no_write_of_it(
    opened: LmdbStore, failed: int, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Packets that shared its transaction are all committed, whichever of them led."""
    outcomes: dict[int, object] = {}

    def write(number: int) -> None:
        try:
            outcomes[number] = write_three(opened, number)
        except error as refused:
            outcomes[number] = refused

    before = opened.begin()
    before.rollback()
    fail_at(opened, b"t" + k.number(failed) + b"-1", error, monkeypatch)
    together(opened, write, range(1, 9))
    assert isinstance(outcomes.pop(failed), error)
    others = sorted(cast(int, sequence) for sequence in outcomes.values())
    assert others == list(range(before.sequence + 1, before.sequence + 8))
    expected = {number: 0 if number == failed else 3 for number in range(1, 9)}
    assert standing(opened, range(1, 9)) == expected


def test_after_a_transient_error_all_packets_are_committed(
    opened: LmdbStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_at(opened, b"t" + k.number(3) + b"-1", MemoryError, monkeypatch, times=1)
    together(opened, lambda number: write_three(opened, number), range(1, 6))
    assert standing(opened, range(1, 6)) == dict.fromkeys(range(1, 6), 3)


def test_an_interrupted_leader_leaves_its_followers_to_another(
    opened: LmdbStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[int] = []

    def write(number: int) -> None:
        try:
            write_three(opened, number)
        except KeyboardInterrupt:  # in the thread that led at this moment
            ended.append(number)

    fail_at(opened, b"t" + k.number(4) + b"-1", KeyboardInterrupt, monkeypatch, times=1)
    together(opened, write, range(1, 9))
    assert len(ended) == 1
    expected = {number: 0 if number in ended else 3 for number in range(1, 9)}
    assert standing(opened, range(1, 9)) == expected
    assert put(opened, 99) > 0


def test_a_group_has_bounded_size(opened: LmdbStore) -> None:
    """Small packets share a group; large ones come one at a time, so no session waits for two."""
    committer = opened.committer
    group = [_Ticket(lambda transaction: None, alone=False, size=MOST_KEYS * 9)]
    sizes = [1, 1, MOST_KEYS - 10, 1, MOST_KEYS, 1]
    committer._queue.extend(_Ticket(lambda _: None, alone=False, size=size) for size in sizes)
    committer._join(group)
    assert [ticket.size for ticket in group[1:]] == sizes[:4]
    committer._queue.clear()


def test_a_large_commit_works_in_strides_with_the_gate_held_and_shows_progress(
    opened: LmdbStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows with a plain and a unique index: inserted, then changed, then deleted."""
    rows, calls, moves = 3_000, 0, 0
    progress, gate = opened.environment.gate.progress, opened.environment.gate

    def count(*_: object) -> None:
        nonlocal calls
        calls += 1

    def counted(*arguments: Any, **named: Any) -> int:
        sys.setprofile(count)
        try:
            return apply_arranged(*arguments, **named)
        finally:
            sys.setprofile(None)

    def move() -> None:
        nonlocal moves
        moves += 1
        progress()

    monkeypatch.setattr(store_module, "apply_arranged", counted)
    monkeypatch.setattr(gate, "progress", move)
    for old, new in ((None, 1), (1, 2), (2, None)):
        calls, moves, before = 0, 0, gate.holders().progress
        txn = opened.begin()
        for row in range(rows):
            handle = k.i64(row)
            if old is not None:
                txn.write(WriteKind.REMOVE, k.index_prefix(9, 1) + k.u64(row * old) + handle, b"")
                txn.write(
                    WriteKind.RELEASE, k.index_prefix(9, 2) + k.u64(row * 2 + old), LIVE + handle
                )
            if new is None:
                txn.delete(k.row_prefix(9) + handle)
                continue
            txn.put(k.row_prefix(9) + handle, bytes(new))
            txn.write(WriteKind.PLACE, k.index_prefix(9, 1) + k.u64(row * new) + handle, LIVE)
            txn.write(WriteKind.CLAIM, k.index_prefix(9, 2) + k.u64(row * 2 + new), LIVE + handle)
        txn.commit()
        assert calls < rows // 2, "of Python's functions, for at least 9,000 keys"
        looked_up, written = 2 * rows, 3 * rows
        assert gate.holders().progress - before == moves >= (looked_up + written) // STRIDE
        for prefix in (k.row_prefix(9), k.index_prefix(9, 1), k.index_prefix(9, 2)):
            assert opened.count(k.span_of(prefix)) == (0 if new is None else rows)


def test_a_large_commit_reads_its_pages_before_the_gate(
    opened: LmdbStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, inside = opened.environment.gate, []

    def touch(*arguments: Any) -> None:
        inside.append(gate.inside)
        committer.touch(*arguments)

    monkeypatch.setattr(store_module, "touch", touch)
    txn = opened.begin()
    for number in range(committer.TOUCHED):
        txn.put(b"t" + k.number(number), b"y")
    txn.commit()
    assert inside == [False]


def test_the_gate_shows_the_writing_thread(opened: LmdbStore) -> None:
    """Waiters need the thread to see its disk activity."""
    gate = opened.environment.gate
    with opened.environment.write():
        assert gate.holders().thread == threading.get_native_id()
    assert gate.holders().thread == 0


@pytest.fixture
def interruptible() -> Iterator[None]:
    """SIGINT raises KeyboardInterrupt, even if the tests were started with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupted_wait_does_not_block_others(opened: LmdbStore) -> None:
    """Ctrl-C in a session that waits for its commit: the others and the next one continue."""
    writers = [threading.Thread(target=put, args=(opened, number)) for number in range(1, 5)]
    release = threading.Event()
    is_held = threading.Event()

    def hold() -> None:
        with opened.environment.write():
            is_held.set()
            release.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    is_held.wait()
    for writer in writers:
        writer.start()
    until(lambda: opened.committer.waiting >= 3, every_s=0.001)

    def interrupt() -> None:
        until(lambda: opened.committer.waiting >= 4, every_s=0.001)
        looks = 0
        while opened.committer.waiting > 3:
            if looks % 1000 == 0:  # a signal just before the wait begins does not end it
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            looks += 1
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
    committer = opened.committer
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
    until(lambda: len(acknowledged) > 10, every_s=0.001)
    store.close()
    for thread in [*threads, waiting]:
        thread.join()
    assert ends == ["the store is closed"] * 4
    again = open_store(f"lmdb://{tmp_path}/store")
    assert again.count(ALL) == len(acknowledged) > 10
    again.close()


def test_a_transaction_begun_during_close_does_not_open_the_store_again(tmp_path: Path) -> None:
    ends: list[str] = []
    have_read: set[int] = set()

    def read(store: LmdbStore) -> None:
        try:
            while True:
                txn = store.begin()
                txn.get(b"m")
                txn.rollback()
                have_read.add(threading.get_ident())
        except Unavailable as error:
            ends.append(str(error))

    for _ in range(20):
        store = cast(LmdbStore, open_store(f"lmdb://{tmp_path}/store?sync=0"))
        threads = [threading.Thread(target=read, args=(store,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        until(lambda: len(have_read) == 4, every_s=0.001)
        store.close()
        for thread in threads:
            thread.join()
        have_read.clear()
    open_store(f"lmdb://{tmp_path}/store?sync=0").close()
    assert ends == ["the store is closed"] * 80


def _wait_is_refused(store: LmdbStore) -> str:
    with pytest.raises(Unavailable) as refused:
        store.wait("job", 0, 30)
    return str(refused.value)
