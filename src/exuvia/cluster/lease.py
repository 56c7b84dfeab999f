"""Waiting for the silent, on one's own clock (law 3), and ending them.

    presence free                  the process has ended: fenced at once
    beat unchanged for its lease   silent, measured from when *this* process first saw that beat:
                                   fenced, then the waiter goes on
    else                           it lives

A clock that runs wrong can only make this fence too early or too late, which costs the member a
restart of its transactions or the waiter some time; what the member writes is refused either way.
"""

import threading
from typing import NamedTuple

from exuvia.cluster import member as members
from exuvia.cluster.member import MemberInfo
from exuvia.kv.store import Store
from exuvia.kv.transaction import Transaction


class _Seen(NamedTuple):
    beat: int
    since: float


class Silence:
    """How long each member's beat has stood still, as one process sees it. Thread-safe."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._seen: dict[str, _Seen] = {}

    def of(self, txn: Transaction, info: MemberInfo, now: float) -> float:
        """Seconds since the beat last changed, as seen from here. Unit: s."""
        beat = members.beat_of(txn, info.id)
        with self._lock:
            seen = self._seen.get(info.id)
            if seen is None or seen.beat != beat:
                seen = self._seen[info.id] = _Seen(beat, now)
            return now - seen.since

    def is_over(self, txn: Transaction, info: MemberInfo, now: float) -> bool:
        """Whether the member is dead, or silent for its whole lease."""
        silent_s = self.of(txn, info, now)
        return silent_s >= info.lease_s or not self._store.held(members.presence_of(info.id))

    def keep_only(self, known: list[MemberInfo]) -> None:
        """Forget members that are gone."""
        ids = {info.id for info in known}
        with self._lock:
            self._seen = {each: seen for each, seen in self._seen.items() if each in ids}
