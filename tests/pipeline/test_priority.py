"""A kernel steps back for clients; what it writes does not."""

import os
import threading

from exuvia.kv.memory import MemoryStore
from exuvia.kv.packet import BulkResult, Packet, WriteKind
from exuvia.pipeline.throttle import NICE, UnhurriedStore, step_back


def nice() -> int:
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


class Recording(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self.nices: list[int] = []

    def bulk(self, *rest, **more) -> BulkResult:  # type: ignore[no-untyped-def]
        self.nices.append(nice())
        return super().bulk(*rest, **more)

    def commit(self, packet: Packet) -> int:
        self.nices.append(nice())
        return super().commit(packet)


def test_writes_keep_their_priority_when_the_kernel_steps_back() -> None:
    store, ordinary, seen = Recording(), nice(), []

    def kernel() -> None:
        unhurried = UnhurriedStore(store)
        step_back()
        seen.append(nice())
        unhurried.bulk([b"a"], b"1")
        txn = unhurried.begin()
        txn.write(WriteKind.PUT, b"b", b"2")
        txn.commit()

    thread = threading.Thread(target=kernel)
    thread.start()
    thread.join()
    assert seen == [max(NICE, ordinary)]
    assert store.nices == [ordinary, ordinary]
    assert store.begin().get(b"b") == b"2"
