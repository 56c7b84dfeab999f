"""What is forgotten is ended, and what an operator allows is obeyed; once a second.

    a transaction of a silent client   exuvia_max_idle_snapshot_s   told at its next statement
    a connection of a silent client    wait_timeout of its session  closed (4031)
    new connections                    max_connections, 0: as many as at the start     (1040)

A forgotten reader makes a store grow.
"""

from exuvia.catalog.sysvar import variables
from exuvia.kv.store import Store
from exuvia.server.processes import Connections

LOOK_S = 1.0


class Reaper:
    """A loop of the front."""

    channel = "idle"

    def __init__(self, store: Store, connections: Connections) -> None:
        self._store = store
        self._connections = connections

    def step(self, now: float) -> float:
        """Look at every session once; seconds until the next look. Unit: s."""
        txn = self._store.begin()
        try:
            idle_s = variables.read_int(txn, "exuvia_max_idle_snapshot_s")
            self._connections.allowed = variables.read_int(txn, "max_connections")
        finally:
            txn.rollback()
        for client in self._connections.all():
            statements = client.statements
            if statements is None or client.task is not None:
                continue
            statements.session.reap(now, idle_s)
            wait_s = int(statements.session.variable("wait_timeout"))
            if wait_s and now - client.since > wait_s:
                self._connections.forget(client)
        return LOOK_S
