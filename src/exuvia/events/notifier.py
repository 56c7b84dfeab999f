"""The notifier: every event to every handler exactly once, in order, on the one stats owner.

    for each event, by (job, part)          mysql.ddl_notifier, read in pages
      for each handler that has not seen it
        one transaction: owner's term guarded, handler(txn, change), its flag   (law 7)
          NotReady      later, silently            } the handler sees nothing behind it until then,
          an error      later, backed off, shown   } or until an operator lets it pass that event
                                                     over (below); other handlers go on
      seen by all       the last one's transaction removes it

Effects in the store are exactly once; effects in memory may come again after a failure, so such
handlers are idempotent. Job ids say in which order events are told, not in which they happened: a
long job's event may come after those of younger jobs, and is told when it is there.

Transactions of one handler for events behind one another, and those of all handlers, are a chain
(kv/chain.py): each reads what those before it wrote, and up to MOST_IN_CHAIN of each handler wait
for the disk once (decisions 022, 057). `step` does at most one chain. After a conflict the next
chain is that of one handler: who meets conflicts for ever holds nobody else back. What handlers are
waiting for stands in the store for people (ADMIN SHOW DDL NOTIFIER), from the first refusal on.

A handler's id is given once and for all: bit n of an event's flag (seed 004). An id that is no
longer used is never given again: events at rest may still have its bit.

Why handlers stand still, and what an operator did about it; in the store, for people.

    m/handler/{id}                 the event a handler refuses, how often, its words
    m/skipped/{id}{job}{part}      an event that an operator let a handler pass over

A handler that raises is called again, for ever, ever more seldom: nothing is dropped. Whoever
decides that an event is not to reach a handler says so (`skip`): that event, that handler, in one
transaction with a record that stays. Other handlers get the event all the same.

mysql.ddl_notifier: events from the step that ends their job until every handler has seen them.

    step of a job       put(txn, job, part, change)              with all else it does (laws 4, 7)
    handler's turn      flag or, for the last one, removal       with the handler's own effects

One row an event, by (job, part); `part` is -1, or the ordinal of a sub-job. Bit n of its flag is
the handler with id n.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple

import msgspec

from exuvia.base.errors import Broken, Conflict, Deposed, ExuviaError
from exuvia.base.mysql_errors import ErrUnknown
from exuvia.catalog import reader, writer
from exuvia.catalog.codec.key_codec import handle_from
from exuvia.catalog.system_tables import planned
from exuvia.cluster.owner import Campaign
from exuvia.events.schema_change import SchemaChange
from exuvia.kv import keys
from exuvia.kv.chain import Chain
from exuvia.kv.packet import Span
from exuvia.kv.store import Store
from exuvia.kv.transaction import ONCE, Transaction

TABLE = "ddl_notifier"
CHANNEL = "events"
WHOLE_JOB = -1


class Event(NamedTuple):
    """A row. `change` is JSON: read it with SchemaChange.from_json."""

    job_id: int
    part: int
    change: str
    flag: int

    @property
    def place(self) -> tuple[int, int]:
        """Its place in the order."""
        return self.job_id, self.part


def put(txn: Transaction, job_id: int, part: int, change: SchemaChange) -> None:
    """Tell of a finished change, in the transaction that finishes it."""
    writer.insert(txn, planned(txn, TABLE), [job_id, part, change.to_json(), 0])
    txn.notify(CHANNEL)


def pending(txn: Transaction, after: tuple[int, int] | None = None) -> Iterator[Event]:
    """Events in order, those behind `after` only."""
    table = planned(txn, TABLE)
    span = table.row_span()
    if after is not None:
        span = Span(keys.after(table.row_prefix + handle_from(table, after)), span.end)
    for _, row in reader.scan(txn, table, span):
        yield Event(*row)


def behind(txn: Transaction, most: int) -> dict[str, int]:
    """How many of the oldest `most` events each handler has not seen."""
    flags = [event.flag for event in islice(pending(txn), most)]
    return {
        name: sum(not flag & 1 << number for flag in flags)
        for number, name in sorted(NAMES.items())
    }


def is_awaited(txn: Transaction, handler_id: int, table_id: int) -> bool:
    """Whether the handler is still to see a change of that table. False where it refuses an event:
    nobody knows for how long."""
    mentioned = f'"id":{table_id},'
    for event in pending(txn):
        if not event.flag & 1 << handler_id and mentioned in event.change:
            change = SchemaChange.from_json(event.change, event.place)
            if table_id in change.table_ids:
                return handler_id not in troubles(txn)
    return False


def get(txn: Transaction, place: tuple[int, int]) -> Event | None:
    """The event as it stands now; None once all have seen it."""
    table = planned(txn, TABLE)
    row = reader.get(txn, table, handle_from(table, place))
    return None if row is None else Event(*row)


def pass_over(txn: Transaction, event: Event, handler_id: int) -> None:
    """As if the handler had seen it. The event stays for the notifier to remove."""
    table = planned(txn, TABLE)
    row = [event.job_id, event.part, event.change]
    told = [*row, event.flag], [*row, event.flag | 1 << handler_id]
    writer.update(txn, table, handle_from(table, event.place), *told)
    txn.notify(CHANNEL)


def purge(txn: Transaction, event: Event) -> None:
    """Remove an event that all have seen. Raises Conflict."""
    table = planned(txn, TABLE)
    handle = handle_from(table, event.place)
    row = reader.get(txn, table, handle)
    if row is not None:
        writer.delete(txn, table, handle, row)


def mark(txn: Transaction, event: Event, handler_id: int, mask: int) -> None:
    """The handler has seen the event, which `txn` has read; once all in `mask` have, it goes.
    Raises Conflict."""
    table = planned(txn, TABLE)
    handle, row = handle_from(table, event.place), [*event]
    flag = event.flag | 1 << handler_id
    if flag & mask == mask:
        writer.delete(txn, table, handle, row)
    else:
        writer.update(txn, table, handle, row, [*row[:3], flag])


# -- notifier --------------------------------------------------------------------------------------

TEST = 0
STATS_META = 1
PRIORITY_QUEUE = 2
FEED = 3

NAMES = {
    STATS_META: "stats meta",
    PRIORITY_QUEUE: "priority queue",
    FEED: "feed",
}


# -- trouble ---------------------------------------------------------------------------------------

MOST_SKIPPED = 100  # records kept of a handler, those of the greatest job ids


class Trouble(msgspec.Struct, frozen=True, kw_only=True):
    """Why a handler stands still: the event it refuses, how often, and its words."""

    handler: str
    job_id: int
    part: int
    attempts: int
    error: str

    @property
    def place(self) -> tuple[int, int]:
        """The event's place in the order."""
        return self.job_id, self.part

    @property
    def event(self) -> str:
        """The event as people name it: job, or job/part."""
        return f"{self.job_id}" if self.part == WHOLE_JOB else f"{self.job_id}/{self.part}"


class Skipped(msgspec.Struct, frozen=True, kw_only=True):
    """A decision of an operator. `at`: nanoseconds since 1970."""

    trouble: Trouble
    by: str
    at: int


def _key(handler: int) -> bytes:
    return keys.meta("handler", handler)


def show(txn: Transaction, handler: int, trouble: Trouble) -> None:
    """A handler refuses an event."""
    txn.put(_key(handler), msgspec.json.encode(trouble))


def clear(txn: Transaction, handler: int) -> None:
    if txn.get(_key(handler)) is not None:
        txn.delete(_key(handler))


def troubles(txn: Transaction) -> dict[int, Trouble]:
    """What handlers stand still for, by their ids."""
    prefix = keys.meta("handler")
    return {
        keys.read_number(key[len(prefix) :]): msgspec.json.decode(raw, type=Trouble)
        for key, raw in txn.scan(keys.span_of(prefix))
    }


def skip(txn: Transaction, handler: int, place: tuple[int, int], by: str, at: int) -> Skipped:
    """The handler passes over the event that it refuses. Raises 1105 for any other event."""
    trouble, event = troubles(txn).get(handler), get(txn, place)
    if trouble is None or trouble.place != place or event is None:
        raise ErrUnknown(f"handler {handler} does not refuse an event of job {place[0]}")
    pass_over(txn, event, handler)
    skipped = Skipped(trouble=trouble, by=by, at=at)
    txn.put(keys.meta("skipped", handler, place[0], place[1] + 1), msgspec.json.encode(skipped))
    known = txn.scan(keys.span_of(keys.meta("skipped", handler)), reverse=True)
    for key, _ in list(islice(known, MOST_SKIPPED, None)):
        txn.delete(key)
    clear(txn, handler)
    return skipped


def skipped(txn: Transaction, handler: int) -> list[Skipped]:
    """What operators let it pass over, by job."""
    pairs = txn.scan(keys.span_of(keys.meta("skipped", handler)))
    return [msgspec.json.decode(raw, type=Skipped) for _, raw in pairs]


# -- notifier --------------------------------------------------------------------------------------

MOST_HANDLERS = 64  # bits of a flag
POLL_S = 1.0
NO_OWNER_S = 0.1  # until it looks again whether it owns: costs nothing
NOT_READY_S = 0.1
LEAST_BACK_OFF_S = 0.05
MOST_BACK_OFF_S = 5.0
GATHER_S = 0.05  # between two looks for news: a commit a look, and changes wait for none of them
PAGE = 1024
MOST_IN_CHAIN = 64

_GONE = -1  # the flag of an event on the page that is not in the store any more: every bit

Handler = Callable[[Transaction, SchemaChange], None]


class NotReady(Exception):
    """A handler cannot take events yet: the same one comes again a little later."""


class _Registered:
    """A handler and what it waits for."""

    def __init__(self, number: int, name: str, call: Handler) -> None:
        self.number, self.name, self.call = number, name, call
        self.held: tuple[int, int] | None = None
        self.attempts = 0
        self.again_at = 0.0
        self.most = 1  # transactions in its next chain


class Notifier:
    """See the module. Handlers register before the first step."""

    channel = CHANNEL

    def __init__(self, store: Store, campaign: Campaign) -> None:
        self._store = store
        self._campaign = campaign
        self.handlers: dict[int, _Registered] = {}
        self._started = False
        self.mask = 0  # the bits of all handlers
        self._page: list[Event] = []
        self._at = 0
        self._seen = -1
        self._looked_at = float("-inf")
        self._together = True  # all handlers in one chain

    def register(self, number: int, name: str, handler: Handler) -> None:
        """A handler under its fixed id, for good: 0..63. Raises Broken."""
        if self._started:
            raise Broken(f"handler '{name}' came after the notifier was started")
        if not 0 <= number < MOST_HANDLERS:
            raise Broken(f"handler '{name}' has the id {number}; ids are 0 to {MOST_HANDLERS - 1}")
        if number in self.handlers:
            raise Broken(f"handler '{name}' wants the id of '{self.handlers[number].name}'")
        self.handlers[number] = _Registered(number, name, handler)
        self.mask |= 1 << number

    def step(self, now: float) -> float:
        """At most one chain of transactions; seconds until the next."""
        self._started = True
        if not self._campaign.is_owner or not self.handlers:
            self._page = []
            return NO_OWNER_S
        try:
            return self._go_on(now)
        except Conflict:
            self._page = []
            return 0.0
        except Deposed:
            self._campaign.deposed()
            return POLL_S

    def _go_on(self, now: float) -> float:
        while self._at < len(self._page):
            event = self._page[self._at]
            if event.flag & self.mask == self.mask and event.flag != _GONE:
                self._purge(event)
                return 0.0
            runs = [(each, list(self._run(each, now))) for each in self.handlers.values()]
            runs = [(each, run) for each, run in runs if run]
            if runs:
                self._deliver(runs if self._together else runs[:1], now)
                return 0.0
            self._at += 1
        # Read on, or from the beginning when something new may be there; seconds to wait
        counter = self._store.counter(self.channel)
        after = self._page[-1].place if len(self._page) == PAGE else None
        due = [each.again_at for each in self.handlers.values() if each.held is not None]
        news = counter != self._seen or now - self._looked_at >= POLL_S
        if after is None and not any(at <= now for at in due):
            if not news:
                return max(0.0, min([POLL_S, *(at - now for at in due)]))
            if now < self._looked_at + GATHER_S:
                return self._looked_at + GATHER_S - now
        try:
            with self._store.read() as txn:
                self._page = list(islice(pending(txn, after), PAGE))
                self._release(txn)
        except ExuviaError:
            self._page = []
            raise
        self._at, self._seen, self._looked_at = 0, counter, now
        return 0.0 if self._has_work(now) else min([POLL_S, *(max(0.0, at - now) for at in due)])

    def _run(self, handler: _Registered, now: float) -> Iterator[int]:
        """Places on the page, the first one included, that the handler may take in one chain."""
        alone = handler.held is not None
        for at in range(self._at, min(self._at + handler.most, len(self._page))):
            event = self._page[at]
            if event.flag & 1 << handler.number:
                if at == self._at:
                    return
                continue
            if not self._may(handler, event, now) or (alone and at > self._at):
                return
            yield at

    def _may(self, handler: _Registered, event: Event, now: float) -> bool:
        """Whether the handler may see that event: nothing before it waits for it."""
        if handler.held is None or event.place < handler.held:
            return True
        return event.place == handler.held and now >= handler.again_at

    # -- one event, one handler --------------------------------------------------------------------

    def _deliver(self, runs: list[tuple[_Registered, list[int]]], now: float) -> None:
        """To each handler the events of its run, in one chain."""
        most = [handler.most for handler, _ in runs]
        for handler, _ in runs:
            handler.most = 1  # what meets a conflict comes again one by one
        self._together = False
        flags: list[dict[int, int]] = []
        errors: list[Exception | None] = []
        chain = Chain(self._store)
        try:
            for handler, run in runs:
                taken: dict[int, int] = {}
                error = self._take(chain, handler, run, taken)
                if error is not None and not isinstance(error, NotReady):
                    # Show it, behind what the handler took before
                    event = self._page[run[len(taken)]]
                    attempts = handler.attempts + 1 if handler.held == event.place else 1
                    shown = Trouble(
                        handler=handler.name,
                        job_id=event.job_id,
                        part=event.part,
                        attempts=attempts,
                        error=f"{type(error).__name__}: {error}",
                    )
                    txn = chain.begin()
                    self._campaign.guard(txn)
                    show(txn, handler.number, shown)
                    txn.commit()
                flags.append(taken)
                errors.append(error)
            chain.flush()
        finally:
            chain.close()
        self._together = True
        for (handler, run), before, taken, error in zip(runs, most, flags, errors, strict=True):
            handler.most = min(2 * before, MOST_IN_CHAIN)
            for at, flag in taken.items():
                self._page[at] = self._page[at]._replace(flag=flag)
            if taken:
                handler.held = None
            if error is not None:
                self._hold(handler, self._page[run[len(taken)]], now, error)

    def _take(
        self, chain: Chain, handler: _Registered, run: list[int], flags: dict[int, int]
    ) -> Exception | None:
        """Events to the handler, a transaction each; what each one's flag is then, up to the first
        that it does not take, and why it does not."""
        is_first = True
        for at in run:
            txn = chain.begin()
            event = get(txn, self._page[at].place)
            if event is None or event.flag & 1 << handler.number:
                flags[at] = _GONE if event is None else event.flag
                continue
            self._campaign.guard(txn)
            try:
                handler.call(txn, SchemaChange.from_json(event.change, event.place))
            except (Conflict, Deposed):
                raise
            except Exception as error:  # whatever a subscriber raises holds back that one alone
                return error
            mark(txn, event, handler.number, self.mask)
            if is_first:
                clear(txn, handler.number)
                is_first = False
            txn.commit()
            flag = event.flag | 1 << handler.number
            flags[at] = _GONE if flag & self.mask == self.mask else flag
        return None

    def _hold(self, handler: _Registered, event: Event, now: float, error: Exception) -> None:
        again = handler.held == event.place
        handler.held = event.place
        if isinstance(error, NotReady):
            handler.again_at = now + NOT_READY_S
            return
        handler.attempts = handler.attempts + 1 if again else 1
        pause_s = min(LEAST_BACK_OFF_S * (1 << min(handler.attempts, 10)), MOST_BACK_OFF_S)
        handler.again_at = now + pause_s

    def _purge(self, event: Event) -> None:
        """Seen by all, the last time by an operator's word, or by a handler that is no more."""

        def remove(txn: Transaction) -> None:
            self._campaign.guard(txn)
            purge(txn, event)

        self._store.transact(remove, ONCE)
        self._page[self._at] = event._replace(flag=_GONE)

    # -- pages -------------------------------------------------------------------------------------

    def _release(self, txn: Transaction) -> None:
        """Nobody waits for an event that an operator had passed over."""
        for handler in self.handlers.values():
            if handler.held is not None:
                event = get(txn, handler.held)
                if event is None or event.flag & 1 << handler.number:
                    handler.held, handler.attempts = None, 0

    def _has_work(self, now: float) -> bool:
        return any(
            event.flag & self.mask == self.mask
            or (not event.flag & 1 << handler.number and self._may(handler, event, now))
            for event in self._page
            for handler in self.handlers.values()
        )
