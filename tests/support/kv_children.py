"""What other processes do to a store in the tests: one function a role, started by `start`.

A child says what it has reached by one line on its standard output; `hear` waits for one.
"""

import errno
import os
import random
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO, cast

from exuvia.base.clock import SystemClock
from exuvia.base.errors import Conflict, ExuviaError, OutOfSpace, Refused, Unavailable
from exuvia.cluster import row_locks
from exuvia.cluster.row_locks import Locker, RowLocks
from exuvia.kv import keys as k
from exuvia.kv.lmdb import committer, compact
from exuvia.kv.lmdb.environment import Environment
from exuvia.kv.lmdb.store import LmdbStore
from exuvia.kv.packet import LIVE, Span, WriteKind
from exuvia.kv.store import Store, lmdb_place, open_store
from support.node_processes import until
from support.store_faults import FOREVER, SYNC, inherited

ROOT = Path(__file__).resolve().parents[2]


def start(role: str, *arguments: object) -> subprocess.Popen[str]:
    """A process that runs a function of this module."""
    code = f"from support import kv_children; kv_children.{role}{arguments!r}"
    return subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'tests'}"},
    )


def hear(child: subprocess.Popen[str]) -> str:
    """The child's next line."""
    return cast(IO[str], child.stdout).readline().strip()


def stop(*children: subprocess.Popen[str]) -> None:
    """End children, whatever they do, and close their pipes."""
    for child in children:
        child.kill()
        child.communicate()


def say(text: object) -> None:
    """Tell the parent."""
    print(text, flush=True)


def count_up(url: str, times: int, threads: int = 1) -> None:
    """Add one to `m/sum`, `times` times in each thread, trying again when somebody was faster."""
    store = open_store(url)
    say("open")
    sys.stdin.readline()

    def work() -> None:
        done = 0
        while done < times:
            txn = store.begin()
            txn.put(b"m/sum", k.number(k.read_number(txn.get(b"m/sum")) + 1))
            try:
                txn.commit()
                done += 1
            except Conflict:
                continue

    workers = [threading.Thread(target=work) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    store.close()
    say("done")


def write_on(url: str, name: str) -> None:
    """Commit `t{name}{n}` for n = 0, 1, ... and say each n once it is acknowledged."""
    store = open_store(url)
    number = 0
    while True:
        txn = store.begin()
        txn.put(b"t" + name.encode() + k.number(number), b"x" * 200)
        txn.commit()
        say(number)
        number += 1


def stop_inside(url: str, where: str) -> None:
    """Be stopped inside a write transaction, or on the way to it."""
    store = cast(LmdbStore, open_store(url))
    environment = store.environment
    say(os.getpid())

    def freeze(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGSTOP)

    if where == "writing":
        with environment.write():
            freeze()
    gate = environment.gate
    if where == "half written":
        committer.STRIDE, committer.SMALL = 1, 0  # small packets show no progress
        steps = iter(range(50))
        gate.progress = lambda: freeze() if next(steps) == 40 else None  # type: ignore[method-assign]
        _put_many(store, 100)
    if where == "in a circle":
        gate.progress = lambda: _circle()  # type: ignore[method-assign]
        committer.STRIDE, committer.SMALL = 1, 0  # small packets show no progress
        _put_many(store, 100)
    take = gate.locks.take
    if where == "turn taken":
        gate.locks.take = lambda byte: (take(byte), freeze())[0]  # type: ignore[method-assign]
    if where == "not yet counted":
        steps = iter((lambda: None, freeze))
        gate.locks.take = lambda byte: (take(byte), next(steps)())[0]  # type: ignore[method-assign]
    with environment.write():
        say("was not stopped")


def _circle() -> None:
    while True:
        pass


def _put_many(store: LmdbStore, keys: int) -> None:
    txn = store.begin()
    for number in range(keys):
        txn.put(b"tm" + k.number(number), b"x")
    txn.commit()


def commit_slowly(url: str, keys: int, pause_s: float) -> None:
    """Commit so many keys, with a pause before each."""
    store = cast(LmdbStore, open_store(url))
    committer.STRIDE = 1
    gate = store.environment.gate
    progress = gate.progress
    said: list[str] = []

    def slowly() -> None:
        if not said:
            said.append("begun")
            say("begun")
        time.sleep(pause_s)
        progress()

    gate.progress = slowly  # type: ignore[method-assign]
    _put_many(store, keys)
    store.close()
    say("done")


def commit_table(url: str, rows: int) -> None:
    """Commit so many rows of 70 bytes with two plain indexes and a unique one; say how long the
    write lock was held and the processor time of that, in seconds."""
    store = cast(LmdbStore, open_store(url))
    gate, numbers = store.environment.gate, random.Random(35)
    used: list[float] = []
    enter, leave = gate.enter, gate.leave
    gate.enter = lambda: (enter(), used.append(time.thread_time()))[0]  # type: ignore[method-assign]
    gate.leave = lambda: (used.append(time.thread_time()), leave())[1]  # type: ignore[method-assign]
    txn = store.begin()
    for row in range(rows):
        handle = k.i64(row)
        txn.write(WriteKind.PUT, k.row_prefix(9) + handle, bytes(70))
        for index in (1, 2):
            value = k.u64(numbers.getrandbits(40))
            txn.write(WriteKind.PLACE, k.index_prefix(9, index) + value + handle, LIVE)
        value = k.u64(numbers.getrandbits(60))
        txn.write(WriteKind.CLAIM, k.index_prefix(9, 3) + value, LIVE + handle)
    say(f"begun {txn.size}")
    txn.commit()
    say(f"done {gate.longest_s} {max(b - a for a, b in zip(used[::2], used[1::2], strict=True))}")
    store.close()


def wait_for(url: str, channel: str, times: int) -> None:
    """Wait on a channel again and again; say when each wake-up came, in nanoseconds."""
    store = open_store(url)
    seen = store.counter(channel)
    say("waiting")
    for _ in range(times):
        seen = store.wait(channel, seen, 20)
        say(f"{seen} {time.monotonic_ns()}")
    store.close()


def hold_on(url: str, name: str) -> None:
    """Hold a presence until the end."""
    store = open_store(url)
    presence = store.hold(name)
    say("held")
    sys.stdin.readline()
    presence.release()
    say("released")
    sys.stdin.readline()


def lock_keys(url: str, names: str, where: str = "") -> None:
    """Lock keys named by one letter each; let go of them, by commit, after a line. `where`: be
    stopped or end "inside" the table, with the guard held."""
    store = open_store(url)
    locks = RowLocks(store.lock_table())
    locker = Locker(tag=os.getpid())
    if where:
        table = store.lock_table()
        fill = table.fill

        def stay(*entry: int) -> None:
            fill(*entry)
            say(os.getpid())
            os.kill(os.getpid(), signal.SIGSTOP if where == "stopped" else signal.SIGKILL)

        table.fill = stay  # type: ignore[method-assign]
    locks.take(locker, [name.encode() for name in names], locks.now)
    say("locked")
    sys.stdin.readline()
    locks.release(locker, committed=True)
    say("released")
    sys.stdin.readline()


def wait_for_key(url: str, name: str, holding: str) -> None:
    """Hold one key, wait for another, without ever looking by itself; say how that ended."""
    row_locks.LOOK_S = 60.0
    store = open_store(url)
    locks = RowLocks(store.lock_table())
    locker = Locker(tag=os.getpid())
    locks.take(locker, [holding.encode()], locks.now)
    say("waiting")
    try:
        locks.wait(locker, name.encode(), 20.0, lambda: None)
        say(f"has {[key.decode() for key in locker.keys]} {time.monotonic_ns()}")
    except Refused as error:
        say(error.code)
    sys.stdin.readline()
    locks.release(locker)


def read_on(url: str) -> None:
    """Keep a snapshot open until the end."""
    store = open_store(url)
    view = store.snapshot()
    say("reading")
    sys.stdin.readline()
    view.close()


def open_there(url: str) -> None:
    """Try to open; say how it went."""
    try:
        open_store(url).close()
        say("opened")
    except ExuviaError as error:
        say(f"{type(error).__name__}: {error}")


def run_out_of_disk(url: str, most_bytes: int) -> None:
    """Write until the file may not grow, say the code, get room again, write once more."""
    store = open_store(url)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    kept = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, kept[1]))
    code = 0
    number = 0
    while not code:
        txn = store.begin()
        txn.put(b"t" + k.number(number), b"x" * 50_000)
        try:
            txn.commit()
            number += 1
        except OutOfSpace as refused:
            code = refused.code
    say(f"{code} {number}")
    resource.setrlimit(resource.RLIMIT_FSIZE, kept)
    txn = store.begin()
    txn.put(b"t" + k.number(number), b"there is room again")
    txn.commit()
    store.close()
    say("done")


def stop_while_reading(url: str) -> None:
    """Be stopped with a snapshot open."""
    store = open_store(url)
    view = store.snapshot()
    say(view.sequence)
    os.kill(os.getpid(), signal.SIGSTOP)


def keep_writing(url: str) -> None:
    """Pass the gate again and again, without a pause between two tenures."""
    gate = cast(LmdbStore, open_store(url)).environment.gate
    say("open")
    while True:
        gate.enter()
        until = time.monotonic() + 0.0002
        while time.monotonic() < until:
            pass
        gate.leave()


# -- under a failing disk (support/store_faults.py) ------------------------------------------------


def _put(store: Store, key: bytes, payload: bytes = b"1") -> None:
    txn = store.begin()
    txn.put(key, payload)
    txn.commit()


def _error_of(call: Callable[[], object]) -> str:
    try:
        call()
    except ExuviaError as error:
        return f"{type(error).__name__} | {error}"
    return "no error | "


def commit_under_faults(url: str, error: int) -> None:
    """Fail each call of a commit in turn; say the error, what is there, and how it goes on."""
    faults = inherited()
    store = open_store(url)
    _put(store, b"t0")
    before = faults.calls
    _put(store, b"t0")
    for number in range(1, faults.calls - before + 1):
        key = b"tk%d" % number
        faults.fail(number, error)
        said = _error_of(partial(_put, store, key))
        txn = store.begin()
        found = "absent" if txn.get(key) is None else "present"
        txn.rollback()
        after = _error_of(partial(_put, store, key)).split()[0]
        say(f"{number} | {said} | {found} | {'written' if after == 'no' else after}")
    say("end")
    store.close()


def commit_and_stay_failed(url: str, error: int) -> None:
    """From the fdatasync of a commit on every call fails, until it is healed."""
    faults = inherited()
    store = open_store(url)
    _put(store, b"t0")
    faults.fail(1, error, times=FOREVER, kinds=SYNC)
    say(_error_of(partial(_put, store, b"tk")))
    say(_error_of(store.begin))
    faults.heal()
    txn = store.begin()
    found = "absent" if txn.get(b"tk") is None else "present"
    txn.rollback()
    written = _error_of(partial(_put, store, b"tk")).startswith("no error")
    say(f"healed: {found}, {'written' if written else 'not written'}")
    store.close()


def read_across_a_failure(url: str) -> None:
    """A snapshot from before a failed commit, and one from after it."""
    faults = inherited()
    store = open_store(url)
    _put(store, b"t0", b"before")
    old = store.begin()
    faults.fail(1, errno.EIO)
    _error_of(partial(_put, store, b"t0", b"after"))
    say(_error_of(partial(old.get, b"t0")))
    txn = store.begin()
    say(f"fresh: {(txn.get(b't0') or b'').decode()}")
    txn.rollback()
    store.close()


def commit_together_under_faults(url: str) -> None:
    """Four commits that share one transaction, whose fdatasync fails; how many stand."""
    faults = inherited()
    store = cast(LmdbStore, open_store(url))
    _put(store, b"t0")
    said: dict[int, str] = {}

    def work(number: int) -> None:
        said[number] = _error_of(partial(_put, store, b"tk%d" % number)).split()[0]

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    with store.environment.write():
        for thread in threads:
            thread.start()
        until(lambda: store.committer.waiting >= 3)
        # Before the gate is let go: the first of them may sync at once.
        faults.fail(1, errno.EIO, kinds=SYNC)
    for thread in threads:
        thread.join()
    say(" ".join(said.values()))
    txn = store.begin()
    say(sum(txn.get(b"tk%d" % n) is not None for n in range(4)))
    store.close()


def take_all_slots(url: str) -> None:
    """Every reader slot there is, until the end; says how many it got."""
    store = open_store(url)
    kept = []
    try:
        while True:
            kept.append(store.begin())
    except ExuviaError:
        say(len(kept))
    sys.stdin.readline()


# -- beside and within a swap of the file ----------------------------------------------------------


def tell(child: subprocess.Popen[str]) -> None:
    """Let a child that waits for a line go on."""
    stdin = cast(IO[str], child.stdin)
    stdin.write("\n")
    stdin.flush()


def swap(url: str, kill_at: str, close_wait_s: float = 15.0) -> None:
    """Exchange the store's file; say that, or the error, or the step at which it is killed."""
    compact.CLOSE_WAIT_S = close_wait_s

    def at(step: str) -> None:
        if step == kill_at:
            say(step)
            os.kill(os.getpid(), signal.SIGKILL)

    path, settings = lmdb_place(url)
    environment = Environment(path, settings, SystemClock())
    try:
        before, after = compact.Swap(environment, at).run()
        say(f"swapped {before} {after}")
    except ExuviaError as error:
        say(error)
    environment.close()


def write_on_through(url: str, name: str) -> None:
    """As write_on, and go on whatever cannot be done for a while."""
    store = open_store(url)
    number = 0
    while True:
        with suppress(OutOfSpace, Conflict, Unavailable):
            _put(store, b"t" + name.encode() + k.number(number))
            say(number)
            number += 1


def count_all(url: str) -> None:
    """How many keys there are below t."""
    store = open_store(url)
    say(store.count(Span(b"t", b"u")))
    store.close()


def run_command(*arguments: str) -> None:
    """`exuvia ...`."""
    from exuvia.cli.main import app

    app(arguments)


def read_all(url: str) -> None:
    """Read and write everything; say the class and text of the first error, or "whole"."""
    store = open_store(url)
    try:
        txn = store.begin()
        sum(len(value) for _, value in txn.scan(Span(b"t", b"u")))
        txn.rollback()
        for number in range(0, 4000, 40):
            _put(store, b"t" + k.number(number))
        say("whole")
    except ExuviaError as error:
        say(f"{type(error).__name__} | {error}")


def commit_when_told(url: str, key: str) -> None:
    """Commit, say so, and commit the key after a line."""
    store = open_store(url)
    _put_many(cast(LmdbStore, store), 1)
    say("ready")
    sys.stdin.readline()
    txn = store.begin()
    txn.put(key.encode(), b"x")
    txn.commit()
    say("committed")


def stand_in_the_gate(url: str) -> None:
    """Take the write lock after a line, and do not begin to write."""
    store = cast(LmdbStore, open_store(url))
    say("ready")
    sys.stdin.readline()
    store.environment.gate.enter()
    say("in")
    sys.stdin.readline()
