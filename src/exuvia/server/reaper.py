"""Ends transactions whose clients have been silent too long: a forgotten reader makes a store grow.

`exuvia_max_idle_snapshot_s` says how long; the session tells its client at the next statement.
"""

from exuvia.catalog import variables
from exuvia.kv.store import Store
from exuvia.server.connections import Connections

LOOK_S = 1.0


class Reaper:
    """A loop of the front."""

    channel = "idle"

    def __init__(self, store: Store, connections: Connections) -> None:
        self._store = store
        self._connections = connections

    def step(self, now: float) -> float:
        """Look at every session once; seconds until the next look."""
        txn = self._store.begin()
        try:
            idle_s = variables.read_int(txn, "exuvia_max_idle_snapshot_s")
        finally:
            txn.rollback()
        for client in self._connections.all():
            statements = client.statements
            if statements is not None and client.task is None:
                statements.session.reap(now, idle_s)
        return LOOK_S
