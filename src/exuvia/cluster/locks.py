"""The metadata lock: which open transactions of this front wrote which table, planned with what.
A table that gave evidence for a write elsewhere counts as written.

    hold(transaction, table, revision)    when it first writes the table
    release(transaction)                  when it ends, however it ends
    blockers(table, below)                who planned with a revision older than `below`

It lets transactions live through a schema change: a front acknowledges a step only when nobody
blocks it. Nothing becomes wrong without it, the store's fence decides at commit (law 1). Readers
never appear here: they are safe in their snapshot, so an idle BEGIN or a dump blocks nothing.
"""

import threading
from collections.abc import Hashable
from typing import NamedTuple

from exuvia.base.clock import Clock, SystemClock


class Hold(NamedTuple):
    """A table written by an open transaction. `since` is this front's monotonic clock. Unit: s.

    `session`: the connection's number, where it has one."""

    about: str
    revision: int
    since: float
    session: int = 0

    def reason(self, now: float) -> str:
        """Who waits must read what for (law 10)."""
        return f"{self.about} (revision {self.revision}) {now - self.since:.0f} s ago"


class MetadataLocks:
    """Thread-safe. Tokens stand for transactions."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._tables: dict[int, dict[Hashable, Hold]] = {}
        self._tokens: dict[Hashable, set[int]] = {}

    def hold(
        self, token: Hashable, table_id: int, revision: int, about: str = "", session: int = 0
    ) -> None:
        """The transaction wrote the table with a plan of that revision; the oldest plan counts.

        `about` tells who and what: "open transaction of connection 12 wrote t"."""
        with self._lock:
            holds = self._tables.setdefault(table_id, {})
            known = holds.get(token)
            if known is None or revision < known.revision:
                since = self._clock.monotonic() if known is None else known.since
                told = about or f"open transaction {token!r} wrote"
                holds[token] = Hold(told, revision, since, session)
                self._tokens.setdefault(token, set()).add(table_id)

    def release(self, token: Hashable) -> None:
        """The transaction has ended. Twice is harmless."""
        with self._lock:
            for table_id in self._tokens.pop(token, ()):
                holds = self._tables[table_id]
                del holds[token]
                if not holds:
                    del self._tables[table_id]

    def blockers(self, table_id: int, below_revision: int) -> list[Hold]:
        """Open transactions that wrote the table with an older plan, oldest first."""
        with self._lock:
            holds = list(self._tables.get(table_id, {}).values())
        return sorted((h for h in holds if h.revision < below_revision), key=lambda h: h.since)
