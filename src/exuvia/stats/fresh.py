"""New statistics reach the plans of every front.

    analysis, on whatever node --> m/freshstats = version, channel "stats"
    every front                --> reads it when woken, or after 3 s: another one than before?
                                   plans are made anew

Plans are kept by the shape of their text and prove themselves fresh against definitions only; which
index they read was chosen by statistics.
"""

from collections.abc import Callable

from exuvia.kv.store import Store
from exuvia.stats import meta, records
from exuvia.stats.cache import LEASE_S


class FreshStatistics:
    """A front's loop. `forget`: plan anew."""

    channel = meta.CHANNEL

    def __init__(self, store: Store, forget: Callable[[], None]) -> None:
        self._store = store
        self._forget = forget
        self._known = self._version()

    def step(self, now: float) -> float:
        """Look; seconds until the next look."""
        version = self._version()
        if version != self._known:
            self._known = version
            self._forget()
        return LEASE_S

    def _version(self) -> int:
        txn = self._store.begin()
        try:
            return records.last_version(txn)
        finally:
            txn.rollback()
