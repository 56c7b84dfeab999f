"""A node's view of the shared store. The node may be killed at any transaction boundary.

    before a commit   nothing of it is in the store, and the node is gone
    after a commit    all of it is in the store, and the node never learns that

`Killed` is no Exception: nothing of the node may catch it.
"""

from collections.abc import Callable, Iterable, Sequence

from exuvia.kv.chain import resolved
from exuvia.kv.memory import MemoryStore
from exuvia.kv.packet import BulkResult, Packet, Requirement, Snapshot
from exuvia.kv.store import ForwardingStore, Presence


class Killed(BaseException):
    """kill -9 at this point."""


class NodeStore(ForwardingStore):
    """A process's store, on a MemoryStore. `fate()` answers "", "before" or "after"."""

    def __init__(
        self,
        shared: MemoryStore,
        fate: Callable[[], str],
        committed: Callable[[Sequence[str], Iterable[bytes]], None],
        filled: Callable[[Sequence[bytes], dict[bytes, bytes | None]], None],
    ) -> None:
        super().__init__(shared)
        self._fate = fate
        self._committed = committed
        self._filled = filled
        self.alive = True
        self.presences: list[Presence] = []

    def _die(self) -> None:
        self.alive = False
        raise Killed

    def _guard(self, fate: str, moment: str) -> None:
        if not self.alive or fate == moment:
            self._die()

    def snapshot(self, for_client: bool = False) -> Snapshot:
        """A view of all that is committed."""
        self._guard("", "before")
        return self.shared.snapshot(for_client)

    def commit(self, packet: Packet) -> int:
        """As the shared store, unless fate has it otherwise."""
        fate = self._fate()
        self._guard(fate, "before")
        sequence = self.shared.commit(packet)
        self._committed(packet.channels, [write.key for write in packet.writes])
        self._guard(fate, "after")
        return sequence

    def commit_chain(self, packets: Sequence[Packet]) -> list[int]:
        """One after another: here the node may even be killed between two of them."""
        sequences: list[int] = []
        for packet in packets:
            sequences.append(self.commit(resolved(packet, sequences)))
        return sequences

    def bulk(
        self,
        keys: Sequence[bytes],
        payloads: Sequence[bytes] | bytes,
        requirements: Sequence[Requirement] = (),
        puts: Sequence[tuple[bytes, bytes]] = (),
        report: bool = False,
        overwrite: bool = False,
    ) -> BulkResult:
        """As the shared store; what stood before is shown to the law of fills."""
        fate = self._fate()
        self._guard(fate, "before")
        view = self.shared.snapshot()
        before = {key: view.get(key) for key in keys}
        view.close()
        result = self.shared.bulk(keys, payloads, requirements, puts, report, overwrite)
        self._filled(keys, before)
        self._committed((), [*keys, *(key for key, _ in puts)])
        self._guard(fate, "after")
        return result

    def hold(self, name: str) -> Presence:
        """Take a presence; it ends with the node."""
        presence = self.shared.hold(name)
        self.presences.append(presence)
        return presence

    def kill(self) -> None:
        """The process is gone: so are its presences."""
        self.alive = False
        for presence in self.presences:
            presence.release()
        self.presences.clear()

    def wait(self, channel: str, after: int, timeout_s: float) -> int:
        """Nobody waits in a simulation."""
        return self.shared.counter(channel)

    def back_off(self, attempt: int) -> None:
        """Nobody else runs meanwhile."""

    def limit_snapshots(self, idle_s: float, query_s: float) -> None:
        """Snapshots here end with their transactions."""

    def measures(self) -> dict[str, float]:
        return {}

    def close(self) -> None:
        """The shared store stays."""
