"""Stats owners on one memory store, and events put as finished jobs put them.

news = News()
news.finish(7)                    job 7 ends: its event is in the outbox
news.run()                        the owner's notifier, until it has nothing to do
news.replace_owner()              the process is gone; another one, with new memory, takes over
"""

from collections.abc import Callable

from exuvia.base.clock import ManualClock
from exuvia.cluster.member import Member
from exuvia.cluster.owner import Campaign
from exuvia.events import notifier, schema_change
from exuvia.events.notifier import Handler, Notifier
from exuvia.events.schema_change import SchemaChange
from exuvia.kv import keys
from exuvia.kv.memory import MemoryStore
from exuvia.kv.packet import WriteKind
from exuvia.kv.transaction import Transaction
from support.small_tables import abc
from support.stores import bootstrapped

MOST_STEPS = 100_000


class Ledger:
    """A handler whose effect is in the store: one key an event, written by insert, so that a
    second time would be an error; and a list of what it was called with."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.called: list[tuple[int, int]] = []
        self.refuses: Callable[[SchemaChange], Exception | None] = lambda change: None

    def __call__(self, txn: Transaction, change: SchemaChange) -> None:
        self.called.append(change.origin)
        refusal = self.refuses(change)
        if refusal is not None:
            raise refusal
        job_id, part = change.origin
        txn.write(WriteKind.CLAIM, self.key(job_id, part), b"\1" + keys.u64(job_id))

    def key(self, job_id: int, part: int) -> bytes:
        return f"zz/{self.name}/".encode() + keys.i64(job_id) + keys.i64(part)

    def effects(self, store: MemoryStore) -> list[tuple[int, int]]:
        prefix = f"zz/{self.name}/".encode()
        txn = store.begin()
        found = [key[len(prefix) :] for key, _ in txn.scan(keys.span_of(prefix))]
        txn.rollback()
        return [(keys.read_i64(each[:8]), keys.read_i64(each[8:])) for each in found]


class News:
    def __init__(self, *handlers: tuple[int, str, Handler], store: MemoryStore | None = None):
        self.store = bootstrapped(store)
        self.clock = ManualClock()
        self.handlers = list(handlers)
        self._owners = 0
        self.start()

    def start(self) -> None:
        self._owners += 1
        name = f"back-{self._owners}"
        self.member = Member.join(
            self.store, self.clock, "back", name, lease_s=1.0, identity=lambda: name
        )
        self.campaign = Campaign(self.store, self.member, "stats")
        self.notifier = Notifier(self.store, self.campaign)
        for handler in self.handlers:
            self.notifier.register(*handler)

    def finish(self, job_id: int, *parts: SchemaChange) -> None:
        """The transaction of a job's last step. Without parts: CREATE TABLE."""
        txn = self.store.begin()
        if parts:
            for part, change in enumerate(parts):
                notifier.put(txn, job_id, part, change)
        else:
            notifier.put(
                txn, job_id, notifier.WHOLE_JOB, schema_change.create_table(abc(f"t{job_id}"))
            )
        txn.commit()

    def step(self) -> float:
        now = self.clock.monotonic()
        self.member.step(now)
        self.campaign.step(now)
        return self.notifier.step(now)

    def run(self, seconds: float = 30.0) -> None:
        """Step until so much time has gone by with nothing to do in between."""
        until = self.clock.monotonic() + seconds
        for _ in range(MOST_STEPS):
            self.clock.advance(min(self.step(), 0.2))
            if self.clock.monotonic() > until:
                return
        raise AssertionError("the notifier does not come to rest")

    def replace_owner(self) -> None:
        self.start()
        for _ in range(40):  # silence lasts a lease
            self.campaign.step(self.clock.monotonic())
            self.clock.advance(0.1)

    def pending(self) -> list[tuple[int, int]]:
        txn = self.store.begin()
        found = [event.place for event in notifier.pending(txn)]
        txn.rollback()
        return found
