"""A few nodes on one store and one hand-moved clock, stepped by the test.

As a program it is one in a process of its own, that bootstraps a store, joins it and campaigns; it
ends with its input. argv: store URL, name; prints "filled" or "found", then "owner" or "member".
"""

import sys
from collections.abc import Callable

from exuvia.base.clock import ManualClock, SystemClock
from exuvia.catalog.bootstrap import bootstrap
from exuvia.cluster import member as members
from exuvia.cluster.member import Member
from exuvia.cluster.owner import Campaign
from exuvia.cluster.versions import Acknowledger, Lag, MetadataLocks, Waiter, announce, finish
from exuvia.kv import keys
from exuvia.kv.store import Store, open_store
from exuvia.kv.transaction import Transaction

LEASE_S = 45.0


class Node:
    """A front and the owner side of a back in one member; `clock` is its own."""

    def __init__(self, store: Store, name: str, clock: ManualClock, kind: str = "front") -> None:
        self.store = store
        self.clock = clock
        self.member = Member.join(
            store, clock, kind=kind, address=name, lease_s=LEASE_S, identity=lambda: name
        )
        self.locks = MetadataLocks(clock)
        self.acknowledger = Acknowledger(store, self.member, self.locks)
        self.campaign = Campaign(store, self.member)
        self.waiter = Waiter(store, self.campaign.guard)

    def beats(self) -> None:
        """Its heart beats once, and it has loaded the schema."""
        now = self.clock.monotonic()
        self.member.step(now)
        self.member.loaded(1, now)

    def campaigns(self) -> bool:
        """One look at the owner."""
        self.campaign.step(self.clock.monotonic())
        return self.campaign.is_owner

    def acknowledges(self) -> float:
        """One look at what was announced."""
        return self.acknowledger.step(self.clock.monotonic())

    def waits_for(self, job_id: int) -> list[Lag]:
        """Who has not acknowledged."""
        return self.waiter.lagging(job_id, self.clock.monotonic())

    def announces(self, job_id: int, version: int, tables: dict[int, int]) -> None:
        """A step of a job, by the owner."""
        self.commits(lambda txn: announce(txn, job_id, version, tables), self.campaign.guard)

    def finishes(self, job_id: int) -> None:
        """The last step of a job."""
        self.commits(lambda txn: finish(txn, job_id), self.campaign.guard)

    def commits(
        self, edit: Callable[[Transaction], None], *guards: Callable[[Transaction], None]
    ) -> None:
        """One transaction under the guards given."""
        txn = self.store.begin()
        for guard in guards:
            guard(txn)
        edit(txn)
        txn.commit()

    def dies(self) -> None:
        """Its process ends: the presence is free, nothing else happens."""
        self.member.presence.release()


def put(key: str) -> Callable[[Transaction], None]:
    """An edit that writes a key."""
    return lambda txn: txn.put(key.encode(), b"written")


def read(store: Store, key: bytes) -> bytes | None:
    """What is committed at a key."""
    txn = store.begin()
    try:
        return txn.get(key)
    finally:
        txn.rollback()


def acks(store: Store, job_id: int) -> list[bytes]:
    """Keys of the acknowledgements kept for a job."""
    txn = store.begin()
    try:
        return [key for key, _ in txn.scan(keys.span_of(keys.meta("ack", job_id)))]
    finally:
        txn.rollback()


def live_ids(store: Store) -> list[str]:
    """Ids of the members that joined and were not fenced."""
    txn = store.begin()
    try:
        return [info.id for info in members.live(txn)]
    finally:
        txn.rollback()


def sequence(store: Store) -> int:
    """The last commit's sequence."""
    txn = store.begin()
    txn.rollback()
    return txn.sequence


# -- a process of its own --------------------------------------------------------------------------


def live(url: str, name: str) -> None:
    """Live until told to end."""
    store, clock = open_store(url), SystemClock()
    sys.stdin.readline()  # all of them go at once
    print("filled" if bootstrap(store) else "found", flush=True)
    member = Member.join(store, clock, "back", name, 45.0, identity=lambda: name)
    campaign = Campaign(store, member)
    campaign.step(clock.monotonic())
    print("owner" if campaign.is_owner else "member", flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    live(*sys.argv[1:])
