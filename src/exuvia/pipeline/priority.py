"""Work that steps back for clients, without ever making them wait for a lock it holds.

    the JVM, and what it starts   nice 10   yields the processor to others
    thread of the kernel          nice 10   reads, decodes, sorts
    thread of the writes          nice 0    takes the store's writer, writes, gives it back

Linux keeps a priority per thread. Were the writes made with the kernel's own, a batch that has the
store's only writer could be put aside for others, and all of them would wait for it (priority
inversion). To come back to 0 a process needs the right to (root, CAP_SYS_NICE, RLIMIT_NICE);
without it the writes stay at 10, in batches of a few milliseconds while clients commit.
One process has one kernel at a time, so one thread of each kind is enough.
"""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache, partial
from typing import TypeVar

from exuvia.kv.lock_table import LockTable
from exuvia.kv.packet import BulkResult, Packet, Requirement, Snapshot, Span
from exuvia.kv.store import Presence, Store
from exuvia.kv.transaction import Transaction

NICE = 10

Answer = TypeVar("Answer")


def step_back() -> None:
    """Lower the calling thread's priority, for good."""
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)


def step_forward() -> None:
    """Ordinary priority for the calling thread, where the system allows it."""
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 0)


def run_idle(idle: bool) -> None:
    """Give way to whatever wakes up, or take turns again, for the calling thread."""
    os.sched_setscheduler(0, os.SCHED_IDLE if idle else os.SCHED_OTHER, os.sched_param(0))


def is_idle() -> bool:
    """Whether the calling thread gives way to whatever wakes up."""
    return os.sched_getscheduler(0) == os.SCHED_IDLE


@cache
def can_idle() -> bool:
    """Whether a thread that gives way may stop doing so: that takes the right to as well."""
    seen: list[bool] = []

    def there_and_back() -> None:
        with suppress(PermissionError):
            run_idle(True)
            run_idle(False)
            seen.append(True)

    thread = threading.Thread(target=there_and_back)
    thread.start()
    thread.join()
    return bool(seen)


class UnhurriedStore:
    """A store whose writes are made by a thread of ordinary priority; everything else as it is."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._hand = ThreadPoolExecutor(1, thread_name_prefix="exuvia-writes")
        self._hand.submit(step_forward).result()

    def begin(self) -> Transaction:
        """A transaction on a fresh snapshot."""
        return Transaction(self, self._store.snapshot())

    def snapshot(self, for_client: bool = False) -> Snapshot:
        """A fresh view of all that is committed."""
        return self._store.snapshot(for_client)

    def commit(self, packet: Packet) -> int:
        """See Store.commit."""
        return self._write(partial(self._store.commit, packet))

    def commit_chain(self, packets: Sequence[Packet]) -> list[int]:
        """See Store.commit_chain."""
        return self._write(partial(self._store.commit_chain, packets))

    def bulk(
        self,
        keys: Sequence[bytes],
        payloads: Sequence[bytes] | bytes,
        requirements: Sequence[Requirement] = (),
        puts: Sequence[tuple[bytes, bytes]] = (),
        report: bool = False,
        overwrite: bool = False,
    ) -> BulkResult:
        """See Store.bulk."""
        return self._write(
            partial(self._store.bulk, keys, payloads, requirements, puts, report, overwrite)
        )

    def _write(self, work: Callable[[], Answer]) -> Answer:
        return self._hand.submit(work).result()

    def wait(self, channel: str, after: int, timeout_s: float) -> int:
        """See Store.wait."""
        return self._store.wait(channel, after, timeout_s)

    def counter(self, channel: str) -> int:
        """The channel's counter now."""
        return self._store.counter(channel)

    def split(self, span: Span, parts: int) -> list[Span]:
        """See Store.split."""
        return self._store.split(span, parts)

    def count(self, span: Span) -> int:
        """See Store.count."""
        return self._store.count(span)

    def watch(self, span: Span, after: int) -> Iterator[tuple[bytes, bytes | None, int]]:
        """See Store.watch."""
        return self._store.watch(span, after)

    def hold(self, name: str) -> Presence:
        """Take a presence."""
        return self._store.hold(name)

    def held(self, name: str) -> bool:
        """Whether a living process has the presence."""
        return self._store.held(name)

    def lock_table(self) -> LockTable:
        """See Store.lock_table."""
        return self._store.lock_table()

    def limit_snapshots(self, idle_s: float, query_s: float) -> None:
        """See Store.limit_snapshots."""
        self._store.limit_snapshots(idle_s, query_s)

    def measures(self) -> dict[str, float]:
        """See Store.measures."""
        return self._store.measures()

    def close(self) -> None:
        """Give everything back."""
        self._hand.shutdown()
        self._store.close()
