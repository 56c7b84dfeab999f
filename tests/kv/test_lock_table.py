"""The lock table: first come, first served across seats and processes; no lock stays for ever.

First seats of one process, on each engine; then processes that are killed and stopped.
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from hashlib import blake2b
from pathlib import Path
from subprocess import Popen

import pytest

from exuvia.base.errors import Refused
from exuvia.cluster.row_locks import STALE, Locker, RowLocks
from exuvia.kv import lock_table
from exuvia.kv.lmdb.shared_locks import PATIENCE_S
from exuvia.kv.lock_table import BUCKETS, WAYS, Alone, LockTable, Seat, WaitOutcome, hash_of
from exuvia.kv.store import Store, open_store
from support.kv_children import hear, start, stop

A, B, C = 1, 2, 3
SOON_S = 5.0


def seats(table: LockTable, number: int, woken: list[tuple[int, int, int]]) -> list[Seat]:
    outcomes = []
    for seat in range(number):

        def note(locker: int, key: int, seat: int = seat) -> None:
            woken.append((seat, locker, key))

        joined = table.join(note, lambda: (b"", b""))
        assert joined is not None
        outcomes.append(joined)
    return outcomes


@pytest.fixture
def woken() -> list[tuple[int, int, int]]:
    return []


@pytest.fixture
def two(store: Store, woken: list[tuple[int, int, int]]) -> Iterator[tuple[Seat, Seat]]:
    one, other = seats(store.lock_table(), 2, woken)
    yield one, other
    one.leave()
    other.leave()


# -- seats -----------------------------------------------------------------------------------------


def test_keys_are_taken_all_or_none(two: tuple[Seat, Seat]) -> None:
    one, other = two
    assert one.take(1, [A, B], 7) == (-1, [0, 1])
    assert one.take(1, [A, B, C], 7) == (-1, [2])
    assert other.take(1, [C + 1, B, C], 8) == (1, [])
    assert other.take(1, [C + 1], 8) == (-1, [0]), "nothing was kept of it"
    assert one.take(2, [A], 7) == (0, []), "another locker of the same seat"
    holder = other.other(1, A)
    assert holder is not None and holder[1] == 7
    assert one.other(1, A) is None


def test_a_key_is_handed_to_its_waiters_in_their_order(
    two: tuple[Seat, Seat], woken: list[tuple[int, int, int]]
) -> None:
    one, other = two
    one.take(1, [A, B], 0)
    assert other.wait(5, A, 9) is WaitOutcome.WAITS
    assert one.wait(2, A, 8) is WaitOutcome.WAITS
    assert one.wait(3, B, 8) is WaitOutcome.WAITS
    one.release(1, [A, B], committed=True)
    assert woken == [(1, 5, A), (0, 3, B)]
    assert other.has(5, A) and one.has(3, B) and not one.has(2, A)
    assert (one.others_commits, other.others_commits) == (0, 1)
    holder = one.other(0, A)
    assert holder is not None and holder[1] == 9
    other.release(5, [A], committed=False)
    assert woken[2:] == [(0, 2, A)]
    assert one.stop_waiting(2, A), "it was given meanwhile"
    one.release(2, [A], committed=False)
    assert other.take(1, [A], 0) == (-1, [0])


def test_a_waiter_that_gives_up_is_skipped(
    two: tuple[Seat, Seat], woken: list[tuple[int, int, int]]
) -> None:
    one, other = two
    one.take(1, [A], 0)
    assert other.wait(5, A, 0) is WaitOutcome.WAITS
    assert one.wait(2, A, 0) is WaitOutcome.WAITS
    assert not other.stop_waiting(5, A)
    one.release(1, [A], committed=False)
    assert woken == [(0, 2, A)]


def test_a_wait_that_closes_a_cycle_is_refused(two: tuple[Seat, Seat]) -> None:
    one, other = two
    one.take(1, [A], 0)
    other.take(1, [B], 0)
    one.take(2, [C], 0)
    assert one.wait(1, B, 0) is WaitOutcome.WAITS
    assert other.wait(1, C, 0) is WaitOutcome.WAITS
    assert one.wait(2, A, 0) is WaitOutcome.CIRCLE
    assert one.wait(2, 99, 0) is WaitOutcome.FREE
    assert one.wait(2, C, 0) is WaitOutcome.FREE, "its own"
    assert not other.stop_waiting(1, C)
    assert one.wait(2, A, 0) is WaitOutcome.WAITS


# -- shared ----------------------------------------------------------------------------------------


def test_an_exclusive_lock_waits_for_all_sharers(
    two: tuple[Seat, Seat], woken: list[tuple[int, int, int]]
) -> None:
    one, other = two
    assert one.take(1, [A], 7, shared=True) == (-1, [0])
    assert other.take(1, [A], 8, shared=True) == (-1, [0])
    assert one.take(1, [A], 7, shared=True) == (-1, []), "it has it"
    assert one.take(2, [B, A], 7) == (1, []), "alone"
    assert other.take(3, [B], 7) == (-1, [0]), "nothing was kept of it"
    assert one.other(2, A) is not None and one.other(2, A, shared=True) is None
    assert one.wait(2, A, 5, shared=True) is WaitOutcome.FREE
    assert one.wait(2, A, 5) is WaitOutcome.WAITS
    one.release(1, [A], committed=True)
    assert woken == [] and not one.has(2, A) and not one.is_over(2, A)
    other.release(1, [A], committed=True)
    assert woken == [(0, 2, A)] and one.has(2, A)
    assert other.take(1, [A], 8, shared=True) == (0, [])
    holder = other.other(1, A, shared=True)
    assert holder is not None and holder[1] == 5


def test_a_shared_lock_waits_for_an_earlier_exclusive_waiter(
    two: tuple[Seat, Seat], woken: list[tuple[int, int, int]]
) -> None:
    """Writers are not starved, and the sharers that wait after one get the key together."""
    one, other = two
    one.take(1, [A], 0, shared=True)
    assert other.wait(2, A, 0) is WaitOutcome.WAITS
    assert one.take(3, [A], 0, shared=True) == (0, [])
    assert one.other(3, A, shared=True) is not None
    assert one.wait(3, A, 0, shared=True) is WaitOutcome.WAITS
    assert other.wait(4, A, 0, shared=True) is WaitOutcome.WAITS
    assert one.wait(5, A, 0) is WaitOutcome.WAITS
    assert not one.is_over(3, A, shared=True)
    one.release(1, [A], committed=False)
    assert woken == [(1, 2, A)]
    other.release(2, [A], committed=False)
    assert woken[1:] == [(0, 3, A), (1, 4, A)]
    assert one.has(3, A, shared=True) and other.has(4, A, shared=True) and not one.has(3, A)


def test_when_an_exclusive_waiter_gives_up_sharers_get_the_key(
    two: tuple[Seat, Seat], woken: list[tuple[int, int, int]]
) -> None:
    one, other = two
    one.take(1, [A], 0, shared=True)
    assert other.wait(2, A, 0) is WaitOutcome.WAITS
    assert one.wait(3, A, 0, shared=True) is WaitOutcome.WAITS
    assert not other.stop_waiting(2, A)
    assert woken == [(0, 3, A)] and one.has(3, A, shared=True)


def test_an_upgrade_to_exclusive_goes_first_and_a_second_one_closes_a_cycle(
    two: tuple[Seat, Seat], woken: list[tuple[int, int, int]]
) -> None:
    one, other = two
    one.take(1, [A], 0, shared=True)
    assert one.take(1, [A], 0) == (-1, []), "nobody else holds it: its own alone"
    assert other.take(1, [A], 0, shared=True) == (0, [])
    one.release(1, [A], committed=False)
    one.take(1, [A], 0, shared=True)
    other.take(1, [A], 0, shared=True)
    assert other.wait(9, A, 0) is WaitOutcome.WAITS
    assert one.take(1, [A], 0) == (0, [])
    assert one.wait(1, A, 0) is WaitOutcome.WAITS
    assert other.wait(1, A, 0) is WaitOutcome.CIRCLE
    other.release(1, [A], committed=False)
    assert woken == [(0, 1, A)] and one.has(1, A)
    one.release(1, [A], committed=False)
    assert woken[1:] == [(1, 9, A)]


def test_a_blocked_statement_keeps_its_shared_locks_shared(
    two: tuple[Seat, Seat],
) -> None:
    one, other = two
    one.take(1, [A], 0, shared=True)
    other.take(1, [B], 0)
    assert one.take(1, [A, B], 0) == (1, [])
    assert other.take(1, [A], 0, shared=True) == (-1, [0])


def test_a_cycle_may_lead_through_a_waiting_writer(two: tuple[Seat, Seat]) -> None:
    """1 shares A. 2 wants it exclusively. 3 waits after 2 to share it. Then 1 wants a key of 3."""
    one, other = two
    one.take(1, [A], 0, shared=True)
    other.take(3, [B], 0)
    assert one.wait(2, A, 0) is WaitOutcome.WAITS
    assert other.wait(3, A, 0, shared=True) is WaitOutcome.WAITS
    assert one.wait(1, B, 0) is WaitOutcome.CIRCLE


def test_a_cycle_may_lead_through_any_sharer(two: tuple[Seat, Seat]) -> None:
    one, other = two
    for number in (1, 2, 3):
        one.take(number, [A], 0, shared=True)
    other.take(4, [B], 0)
    assert other.wait(4, A, 0) is WaitOutcome.WAITS
    assert one.wait(3, B, 0) is WaitOutcome.CIRCLE
    assert not other.stop_waiting(4, A)
    assert one.wait(3, B, 0) is WaitOutcome.WAITS
    assert other.wait(4, A, 0) is WaitOutcome.CIRCLE


def test_a_key_has_at_most_as_many_sharers_as_a_bucket_and_the_next_waits(
    two: tuple[Seat, Seat], woken: list[tuple[int, int, int]]
) -> None:
    one, other = two
    for number in range(WAYS):
        assert one.take(1 + number, [A], 0, shared=True) == (-1, [0])
    assert other.take(1, [A], 0, shared=True) == (0, [])
    assert other.wait(1, A, 0, shared=True) is WaitOutcome.WAITS
    one.release(3, [A], committed=False)
    assert woken == [(1, 1, A)] and other.has(1, A, shared=True)


def test_many_keys_are_shared_and_released_together(two: tuple[Seat, Seat]) -> None:
    one, other = two
    keys = [hash_of(b"%d" % n) for n in range(200)]
    assert one.take(1, keys, 0, shared=True) == (-1, list(range(200)))
    assert other.take(1, keys, 0, shared=True) == (-1, list(range(200)))
    assert one.take(2, keys, 0)[0] == 0
    one.release(1, keys, committed=False)
    assert one.take(2, keys, 0)[0] == 0
    other.release(1, keys, committed=False)
    assert one.take(2, keys, 0) == (-1, list(range(200)))


def test_sharers_that_left_or_were_fenced_are_not_waited_for(
    store: Store, two: tuple[Seat, Seat], woken: list[tuple[int, int, int]]
) -> None:
    one, other = two
    (third,) = seats(store.lock_table(), 1, woken)
    third.take(1, [A], 0, shared=True)
    other.take(1, [A], 0, shared=True)
    assert one.wait(1, A, 0) is WaitOutcome.WAITS
    third.leave()
    assert not one.is_over(1, A)
    other.leave()
    assert one.is_over(1, A)
    assert not one.stop_waiting(1, A)
    assert one.take(1, [A], 0) == (-1, [0])


def test_an_older_process_treats_shared_locks_as_exclusive(
    two: tuple[Seat, Seat],
) -> None:
    """It reads the first slot of a key, and checks that seat and instance live and are not its own.

    Its own entries have no mark, so they are exclusive."""
    one, other = two
    one.take(1, [A], 0, shared=True)
    table = one._table
    holder = table.holder_at(table.slot(A))
    assert holder >> 56 == one._number and table.lives(holder)
    assert holder != other._id(1)
    table.put_word(table.slot(A), 0)
    table.fill(table.slots(B)[0] if table.slots(B) else table.free_slot(B), B, other._id(4), 3)
    assert one.take(1, [B], 0, shared=True) == (0, [])


def test_a_seat_that_is_left_has_no_locks_and_no_waits(
    store: Store, two: tuple[Seat, Seat], woken: list[tuple[int, int, int]]
) -> None:
    one, other = two
    (third,) = seats(store.lock_table(), 1, woken)
    third.take(1, [A], 0)
    one.take(1, [B], 0)
    assert third.wait(2, B, 0) is WaitOutcome.WAITS
    assert other.wait(1, B, 0) is WaitOutcome.WAITS
    third.leave()
    assert other.other(0, A) is None
    assert other.take(9, [A], 0) == (-1, [0])
    one.release(1, [B], committed=False)
    assert other.has(1, B)
    (again,) = seats(store.lock_table(), 1, woken)
    assert again.other(0, A) is not None, "the seat is the same, what it held is not"
    again.leave()


def test_a_fenced_seat_is_ended_by_a_waiter_and_begins_again(store: Store) -> None:
    key, table = b"m/fence/someone", store.lock_table()
    epoch = [(7).to_bytes(8, "big")]
    txn = store.begin()
    txn.put(key, epoch[0])
    txn.commit()
    holder = table.join(lambda number, key: None, lambda: (key, epoch[0]))
    waiter = table.join(lambda number, key: None, lambda: (b"", b""))
    assert holder is not None and waiter is not None
    holder.take(1, [A], 0)
    assert waiter.wait(1, A, 0) is WaitOutcome.WAITS
    assert not waiter.is_over(1, A)
    txn = store.begin()
    txn.delete(key)
    txn.commit()
    assert waiter.is_over(1, A)
    assert not waiter.stop_waiting(1, A)
    assert waiter.take(1, [A], 0) == (-1, [0])
    epoch[0] = (8).to_bytes(8, "big")
    holder.release(1, [A], committed=False)
    assert waiter.has(1, A), "what it held before is another's now"
    assert holder.take(1, [B], 0) == (-1, [0])
    holder.leave()
    waiter.leave()


def test_a_member_that_joined_again_locks_under_its_new_epoch(store: Store) -> None:
    """Even if no waiter has ended its locks of the former epoch."""
    key, table = b"m/fence/someone", store.lock_table()
    epoch = [(7).to_bytes(8, "big")]
    holder = table.join(lambda number, key: None, lambda: (key, epoch[0]))
    waiter = table.join(lambda number, key: None, lambda: (b"", b""))
    assert holder is not None and waiter is not None
    holder.take(1, [A], 0)
    epoch[0] = (8).to_bytes(8, "big")
    txn = store.begin()
    txn.put(key, epoch[0])
    txn.commit()
    holder.take(1, [B], 0)
    assert waiter.wait(1, B, 0) is WaitOutcome.WAITS
    assert not waiter.is_over(1, B)
    waiter.stop_waiting(1, B)
    assert waiter.take(1, [A], 0) == (-1, [0])
    holder.leave()
    waiter.leave()


def test_a_full_bucket_takes_no_more_keys_and_frees_dead_entries(two: tuple[Seat, Seat]) -> None:
    one, other = two
    same = [7 + n * BUCKETS for n in range(WAYS + 2)]
    blocked, positions = one.take(1, same, 0)
    assert (blocked, positions) == (-1, list(range(WAYS)))
    assert other.take(1, same[WAYS:], 0) == (-1, []), "the commit decides"
    one.leave()
    assert other.take(1, same[:4], 0) == (-1, [0, 1, 2, 3])


def test_waiters_beyond_the_table_s_room_still_get_the_key(
    two: tuple[Seat, Seat], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = two
    one.take(1, [A], 0)
    for number in range(lock_table.WAITS):
        assert other.wait(10 + number, A, 0) is WaitOutcome.WAITS
    assert one.wait(2, A, 0) is WaitOutcome.WAITS
    for number in range(lock_table.WAITS):
        other.stop_waiting(10 + number, A)
    one.release(1, [A], committed=False)
    assert one.is_over(2, A)


def test_without_access_to_the_table_no_lock_is_taken_and_none_remains() -> None:
    class Door(Alone):
        is_open = True

        def enter(self) -> bool:
            return self.is_open

    door = Door()
    table = LockTable(bytearray(lock_table.TABLE_BYTES), door, lambda key: None)
    one, other = seats(table, 2, [])
    one.take(1, [A], 0)
    assert other.wait(1, A, 0) is WaitOutcome.WAITS
    door.is_open = False
    assert other.take(2, [B], 0) == (-1, [])
    assert other.wait(2, A, 0) is WaitOutcome.FREE
    assert not other.stop_waiting(1, A)
    one.release(1, [A], committed=True)
    assert one.has(1, A), "owed"
    door.is_open = True
    assert one.take(3, [C], 0) == (-1, [0])
    assert other.take(2, [A], 0)[0] in (-1, 0)
    other.take(4, [C + 1], 0)
    assert one.take(5, [A], 0) == (-1, [0]) or other.has(2, A)


def test_hashes_are_the_same_everywhere_and_never_zero() -> None:
    assert hash_of(b"t1") == int.from_bytes(blake2b(b"t1", digest_size=8).digest(), "little")
    assert len({hash_of(b"%d" % n) for n in range(10_000)}) == 10_000
    assert 0 not in {hash_of(b"%d" % n) for n in range(1_000)}


@pytest.mark.parametrize("engine", ["memory", "lmdb"])
def test_a_lock_costs_microseconds(
    engine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = open_store("memory:" if engine == "memory" else f"lmdb://{tmp_path}/store")
    locks, locker = RowLocks(store.lock_table()), Locker()
    best = []
    for _ in range(20):
        began = time.perf_counter()
        for n in range(100):
            locks.take(locker, [b"%d" % n], locks.now)
        locks.release(locker)
        best.append((time.perf_counter() - began) / 100)
    many = [b"%d" % n for n in range(10_000)]
    began = time.perf_counter()
    locks.take(locker, many, locks.now)
    locks.release(locker, committed=True)
    seconds_per_key = (time.perf_counter() - began) / len(many)
    with capsys.disabled():
        one_us, many_us = min(best) * 1e6, seconds_per_key * 1e6
        print(f"\n{engine}: a lock {one_us:.1f} µs, one of many {many_us:.1f} µs")
    locks.close()
    store.close()
    assert min(best) < 100e-6


# -- processes -------------------------------------------------------------------------------------

Children = list[Popen[str]]


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"lmdb://{tmp_path}/store"


@pytest.fixture
def children() -> Iterator[Children]:
    started: Children = []
    yield started
    for child in started:
        if child.poll() is None:
            os.kill(child.pid, signal.SIGCONT)
    stop(*started)


@pytest.fixture
def locks(url: str) -> Iterator[RowLocks]:
    store = open_store(url)
    yield RowLocks(store.lock_table())
    store.close()


def line(child: Popen[str]) -> None:
    assert child.stdin is not None
    child.stdin.write("\n")
    child.stdin.flush()


def in_time(call: Callable[[], object]) -> float:
    began = time.monotonic()
    call()
    lasted_s = time.monotonic() - began
    assert lasted_s < SOON_S
    return lasted_s


def test_processes_exclude_each_other_and_wake_each_other(
    url: str, locks: RowLocks, children: Children
) -> None:
    child = start("lock_keys", url, "ab")
    children.append(child)
    assert hear(child) == "locked"
    mine = Locker()
    assert locks.take(mine, [b"c", b"b"], locks.now) == b"b"
    assert locks.tag_of(b"a") == child.pid and locks.is_others(mine, b"a")
    before = locks.commits_elsewhere(mine)
    done: list[float] = []

    def wait() -> None:
        locks.wait(mine, b"b", 20.0, lambda: None)
        done.append(time.monotonic())

    thread = threading.Thread(target=wait)
    thread.start()
    thread.join(0.3)
    assert not done
    line(child)
    thread.join(SOON_S)
    assert done and mine.keys == [b"b"]
    assert hear(child) == "released"
    assert locks.commits_elsewhere(mine) == before + 1
    locks.release(mine)
    assert len(locks) == 0


def test_a_killed_holder_frees_what_it_held(url: str, locks: RowLocks, children: Children) -> None:
    child = start("lock_keys", url, "ab")
    children.append(child)
    assert hear(child) == "locked"
    mine = Locker()
    threading.Timer(0.3, child.kill).start()
    in_time(lambda: locks.wait(mine, b"a", 20.0, lambda: None))
    assert locks.take(mine, [b"a", b"b"], locks.now) is None
    assert locks.tag_of(b"a") == 0


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_a_process_stopped_inside_the_table_does_not_block_others(
    url: str, locks: RowLocks, children: Children, how: str
) -> None:
    child = start("lock_keys", url, "a", how)
    children.append(child)
    assert hear(child) == str(child.pid)
    if how == "killed":
        child.wait()
    mine = Locker()
    in_time(lambda: locks.take(mine, [b"a", b"b"], locks.now))
    assert mine.keys == ([b"a", b"b"] if how == "killed" else [])
    began = time.monotonic()
    for n in range(50):
        locks.take(mine, [b"%d" % n], locks.now)
        locks.release(mine)
    assert time.monotonic() - began < 50 * PATIENCE_S / 4, "it is waited for once"
    if how == "stopped":
        os.kill(child.pid, signal.SIGCONT)
        assert hear(child) == "locked"
        assert locks.take(mine, [b"a"], locks.now) == b"a"
        assert locks.take(mine, [b"b"], locks.now) is None


def test_a_deadlock_of_two_processes_is_1213_within_a_second(
    url: str, locks: RowLocks, children: Children
) -> None:
    mine = Locker()
    locks.take(mine, [b"a"], locks.now)
    child = start("wait_for_key", url, "a", "b")
    children.append(child)
    assert hear(child) == "waiting"
    deadline = time.monotonic() + SOON_S
    while not locks._seat._table.waiting:
        assert time.monotonic() < deadline
    began = time.monotonic()
    with pytest.raises(Refused) as refusal:
        locks.wait(mine, b"b", 20.0, lambda: None)
    assert refusal.value.code == 1213
    assert time.monotonic() - began < SOON_S, "it is refused, it did not wait"
    released = time.monotonic_ns()
    locks.release(mine, committed=True)
    has, _, at = hear(child).rpartition(" ")
    assert has == "has ['b', 'a']"
    assert int(at) - released < SOON_S * 1e9, "it was woken"
    assert locks.take(mine, [b"a"], 0) == b"a"
    line(child)
    deadline = time.monotonic() + SOON_S
    while locks.take(mine, [b"a"], 0) == b"a":
        assert time.monotonic() < deadline
    locks.release(mine)
    assert locks.take(mine, [b"a"], 0) == STALE
