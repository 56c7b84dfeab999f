"""The notifier in a simulated world: jobs that end, two handlers, and law 7 after every commit.

EventSource  an actor without a process: jobs of other tables end, their ids in random order
Ledger       a handler that counts in the store how often it handled each event
judge        an event's flag has a handler's bit if and only if that handler's count is 1
judge_end    no event is pending, and each handler has handled every published event once
"""

import math
from collections.abc import Callable, Iterator
from functools import cache
from random import Random

from exuvia.base.clock import Clock
from exuvia.base.errors import Conflict
from exuvia.catalog.model import TableInfo, evolve, name
from exuvia.catalog.system_tables import SYSTEM
from exuvia.cluster.member import Member
from exuvia.cluster.owner import Campaign
from exuvia.events import notifier, schema_change
from exuvia.events.notifier import Notifier, NotReady
from exuvia.events.schema_change import SchemaChange
from exuvia.kv import keys
from exuvia.kv.memory import MemoryStore
from exuvia.kv.store import Store
from exuvia.kv.transaction import ONCE, Transaction
from exuvia.sim.laws import LawBroken

HANDLERS = (0, 5)
JOBS = 4
PACE_S = 0.2
NOT_READY_SHARE = 0.2
_JOB_IDS = 1_000_000  # above the ids of real jobs


class Ledger:
    """A handler that counts its events in the store."""

    def __init__(self, handler: int, random: Random) -> None:
        self._prefix = b"zz/ledger/" + keys.u64(handler)
        self._random = random

    def __call__(self, txn: Transaction, change: SchemaChange) -> None:
        if self._random.random() < NOT_READY_SHARE:
            raise NotReady
        job_id, part = change.origin
        key = self._prefix + keys.i64(job_id) + keys.i64(part)
        txn.put(key, keys.number(keys.read_number(txn.get(key)) + 1))


class EventSource:
    """Publishes events of other tables. `published`: places of committed events."""

    channel = ""

    def __init__(self, store: Store, table: TableInfo, random: Random) -> None:
        self._store = store
        self._table = table
        self._random = random
        self._jobs = random.sample(range(_JOB_IDS, 2 * _JOB_IDS), JOBS)
        self.published: list[tuple[int, int]] = []

    def step(self, now: float) -> float:
        if self._jobs:
            parts = self._random.choice((1, 1, 3))
            places = [
                (self._jobs[-1], n if parts > 1 else notifier.WHOLE_JOB) for n in range(parts)
            ]

            def publish(txn: Transaction) -> None:
                for place in places:
                    info = evolve(self._table, name=name(f"t{place[0]}"))
                    notifier.put(txn, *place, schema_change.create_table(info))

            try:
                self._store.transact(publish, ONCE)
            except Conflict:
                return 0.0
            self._jobs.pop()
            self.published += places
        return self._random.random() * PACE_S if self._jobs else math.inf

    @property
    def is_done(self) -> bool:
        """Whether every job has ended."""
        return not self._jobs


def owner(
    store: Store, member: Member, clock: Clock, random: Random
) -> Iterator[Campaign | Notifier]:
    """Yields the loops that a back runs to deliver events."""
    campaign = Campaign(store, member, "stats")
    notifier = Notifier(store, campaign)
    for handler in HANDLERS:
        notifier.register(handler, f"ledger {handler}", Ledger(handler, random))
    yield campaign
    yield notifier


def _effects_of(txn: Transaction, handler: int) -> dict[tuple[int, int], int]:
    span = keys.span_of(b"zz/ledger/" + keys.u64(handler))
    return {
        (keys.read_i64(key[-16:-8]), keys.read_i64(key[-8:])): keys.read_number(payload)
        for key, payload in txn.scan(span)
    }


@cache
def reads() -> tuple[bytes, ...]:
    """Returns the prefixes of all keys that `judge` reads; other commits need no judgement."""
    return b"zz/ledger/", keys.row_prefix(SYSTEM[notifier.TABLE].id)


def judge(store: MemoryStore) -> None:
    """Checks law 7. Raises LawBroken."""

    def compare(txn: Transaction) -> None:
        events = list(notifier.pending(txn))
        for handler in HANDLERS:
            effects = _effects_of(txn, handler)
            repeated = [place for place, times in effects.items() if times != 1]
            if repeated:
                raise LawBroken("law 7", f"handler {handler} took {repeated} more than once")
            for event in events:
                if bool(event.flag & 1 << handler) != (event.place in effects):
                    raise LawBroken(
                        "law 7", f"flag and effect of {event.place} differ at {handler}"
                    )

    _with_transaction(store, compare)


def judge_end(store: MemoryStore, event_source: EventSource) -> None:
    """Checks that each handler has handled all events. Raises LawBroken."""

    def compare(txn: Transaction) -> None:
        for handler in HANDLERS:
            missing = set(event_source.published) - _effects_of(txn, handler).keys()
            if missing:
                raise LawBroken("law 7", f"handler {handler} never took {sorted(missing)}")

    _with_transaction(store, compare)


def is_quiet(store: MemoryStore, event_source: EventSource) -> bool:
    """Whether every event was published and handled by all handlers."""
    with store.read() as txn:
        return event_source.is_done and not any(True for _ in notifier.pending(txn))


def _with_transaction(store: MemoryStore, look: Callable[[Transaction], None]) -> None:
    with store.read() as txn:
        look(txn)
