"""The notifier: every event to every handler exactly once, in order, on the one stats owner.

    for each event, by (job, part)          mysql.ddl_notifier, read in pages
      for each handler without the flag
        one transaction: owner's term guarded, handler(txn, change), its flag   (law 7)
          NotReady      retried later, no record   } the handler gets no later event until it
          an error      retried later, recorded    } takes this one, or until an operator skips
                                                   } it (below); other handlers continue
      flagged by all    the transaction of the last handler removes the event

Effects in the store happen exactly once. Effects in memory may be repeated after a failure, so such
handlers are idempotent. Events are delivered by job id, which is not the order of the changes. The
event of a long job comes after those of younger jobs.

The transactions of all handlers form a chain (kv/chain.py): each reads the writes of those before
it. Up to MOST_IN_CHAIN transactions of each handler wait for the disk once (decisions 022, 057).
`step` runs at most one chain. After a conflict the next chain has one handler only, so a handler
with permanent conflicts does not block the others. From the first error on, ADMIN SHOW DDL NOTIFIER
shows the event for which a handler waits.

A handler's id is permanent: it is bit n of an event's flag (seed 004). An id that is no longer used
is never assigned again, because stored events may have its bit.

Failures of handlers, and skips by operators, in the store:

    m/handler/{id}                 the event a handler refuses, how often, its error
    m/skipped/{id}{job}{part}      an event that an operator skipped for a handler

A handler that raises is retried for ever, with a growing pause: no event is dropped. An operator
can skip one event for one handler (`skip`), in one transaction with a permanent record. Other
handlers still get the event.

mysql.ddl_notifier: events from the step that ends their job until every handler has its flag set.

    step of a job       put(txn, job, part, change)              with its other effects (laws 4, 7)
    handler's turn      flag or, for the last one, removal       with the handler's own effects

One row an event, by (job, part); `part` is -1, or the ordinal of a sub-job. Bit n of its flag is
the handler with id n.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple

import msgspec

from exuvia.base.decoding import from_json
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
    """A row of mysql.ddl_notifier. `change` is JSON: read it with SchemaChange.from_json."""

    job_id: int
    part: int
    change: str
    flag: int

    @property
    def place(self) -> tuple[int, int]:
        """The event's place in the order of delivery."""
        return self.job_id, self.part


def put(txn: Transaction, job_id: int, part: int, change: SchemaChange) -> None:
    """Publish a finished change, in the transaction that finishes it."""
    writer.insert(txn, planned(txn, TABLE), [job_id, part, change.to_json(), 0])
    txn.notify(CHANNEL)


def pending(txn: Transaction, after: tuple[int, int] | None = None) -> Iterator[Event]:
    """The events after the place `after`, in order."""
    table = planned(txn, TABLE)
    span = table.row_span()
    if after is not None:
        span = Span(keys.after(table.row_prefix + handle_from(table, after)), span.end)
    for _, row in reader.scan(txn, table, span):
        yield Event(*row)


def behind(txn: Transaction, most: int) -> dict[str, int]:
    """The number of undelivered events of each handler, among the oldest `most` events."""
    flags = [event.flag for event in islice(pending(txn), most)]
    return {
        name: sum(not flag & 1 << number for flag in flags)
        for number, name in sorted(NAMES.items())
    }


def is_awaited(txn: Transaction, handler_id: int, table_id: int) -> bool:
    """Whether an undelivered event of the handler concerns the table. False if the handler refuses
    an event, because that may last for ever."""
    mentioned = f'"id":{table_id},'
    for event in pending(txn):
        if not event.flag & 1 << handler_id and mentioned in event.change:
            change = SchemaChange.from_json(event.change, event.place)
            if table_id in change.table_ids:
                return handler_id not in troubles(txn)
    return False


def get(txn: Transaction, place: tuple[int, int]) -> Event | None:
    """The event with its current flag; None once every handler has it."""
    table = planned(txn, TABLE)
    row = reader.get(txn, table, handle_from(table, place))
    return None if row is None else Event(*row)


def pass_over(txn: Transaction, event: Event, handler_id: int) -> None:
    """Set the handler's flag without calling it. The event stays for the notifier to remove."""
    table = planned(txn, TABLE)
    row = [event.job_id, event.part, event.change]
    rows = [*row, event.flag], [*row, event.flag | 1 << handler_id]
    writer.update(txn, table, handle_from(table, event.place), *rows)
    txn.notify(CHANNEL)


def purge(txn: Transaction, event: Event) -> None:
    """Remove an event that every handler has. Raises Conflict."""
    table = planned(txn, TABLE)
    handle = handle_from(table, event.place)
    row = reader.get(txn, table, handle)
    if row is not None:
        writer.delete(txn, table, handle, row)


def mark(txn: Transaction, event: Event, handler_id: int, mask: int) -> None:
    """Set the handler's flag of an event that `txn` has read; remove the event once all of `mask`
    are set. Raises Conflict."""
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

MOST_SKIPPED = 100  # records retained for a handler, those of the greatest job ids


class Trouble(msgspec.Struct, frozen=True, kw_only=True):
    """A handler that waits: the event it refuses, the number of attempts, and its error."""

    handler: str
    job_id: int
    part: int
    attempts: int
    error: str

    @property
    def place(self) -> tuple[int, int]:
        """The event's place in the order of delivery."""
        return self.job_id, self.part

    @property
    def event(self) -> str:
        """The event for display: job, or job/part."""
        return f"{self.job_id}" if self.part == WHOLE_JOB else f"{self.job_id}/{self.part}"


class Skipped(msgspec.Struct, frozen=True, kw_only=True):
    """An event skipped by an operator. `at`: nanoseconds since 1970."""

    trouble: Trouble
    by: str
    at: int


def _key(handler: int) -> bytes:
    return keys.meta("handler", handler)


def show(txn: Transaction, handler: int, trouble: Trouble) -> None:
    """Record that a handler refuses an event."""
    txn.put(_key(handler), msgspec.json.encode(trouble))


def clear(txn: Transaction, handler: int) -> None:
    if txn.get(_key(handler)) is not None:
        txn.delete(_key(handler))


def troubles(txn: Transaction) -> dict[int, Trouble]:
    """The refused event of each waiting handler, by its id."""
    prefix = keys.meta("handler")
    return {
        keys.read_number(key[len(prefix) :]): from_json(raw, Trouble)
        for key, raw in txn.scan(keys.span_of(prefix))
    }


def skip(txn: Transaction, handler: int, place: tuple[int, int], by: str, at: int) -> Skipped:
    """Skip the event that the handler refuses. Raises 1105 for any other event."""
    trouble, event = troubles(txn).get(handler), get(txn, place)
    if trouble is None or trouble.place != place or event is None:
        raise ErrUnknown(
            f"handler {handler} does not refuse an event of job {place[0]}; "
            "see ADMIN SHOW DDL NOTIFIER"
        )
    pass_over(txn, event, handler)
    skipped = Skipped(trouble=trouble, by=by, at=at)
    txn.put(keys.meta("skipped", handler, place[0], place[1] + 1), msgspec.json.encode(skipped))
    records = txn.scan(keys.span_of(keys.meta("skipped", handler)), reverse=True)
    for key, _ in list(islice(records, MOST_SKIPPED, None)):
        txn.delete(key)
    clear(txn, handler)
    return skipped


def skipped(txn: Transaction, handler: int) -> list[Skipped]:
    """The events that operators skipped for the handler, by job."""
    pairs = txn.scan(keys.span_of(keys.meta("skipped", handler)))
    return [from_json(raw, Skipped) for _, raw in pairs]


# -- notifier --------------------------------------------------------------------------------------

MOST_HANDLERS = 64  # bits of a flag
POLL_S = 1.0
NO_OWNER_S = 0.1  # between two checks of the ownership, which cost nothing
NOT_READY_S = 0.1
LEAST_BACK_OFF_S = 0.05
MOST_BACK_OFF_S = 5.0
GATHER_S = 0.05  # between two reads of new events; each ends in a commit, for which no change waits
PAGE = 1024
MOST_IN_CHAIN = 64

_GONE = -1  # the flag of an event on the page that was removed from the store: every bit

Handler = Callable[[Transaction, SchemaChange], None]


class NotReady(Exception):
    """A handler cannot take events yet; the same event is delivered again a little later."""


class _Registered:
    """A handler, and the event for which it waits."""

    def __init__(self, number: int, name: str, call: Handler) -> None:
        self.number, self.name, self.call = number, name, call
        self.waiting_for: tuple[int, int] | None = None
        self.attempts = 0
        self.again_at = 0.0
        self.most = 1  # transactions in its next chain


class Notifier:
    """Delivers events to the handlers, which register before the first step."""

    channel = CHANNEL

    def __init__(self, store: Store, campaign: Campaign) -> None:
        self._store = store
        self._campaign = campaign
        self.handlers: dict[int, _Registered] = {}
        self._started = False
        self.mask = 0  # the bits of all handlers
        self._page: list[Event] = []
        self._at = 0
        self._seen_counter = -1
        self._looked_at = float("-inf")
        self._together = True  # all handlers in one chain

    def register(self, number: int, name: str, handler: Handler) -> None:
        """Register a handler under its permanent id, 0 to 63. Raises Broken."""
        if self._started:
            raise Broken(f"handler '{name}' was registered after the start of the notifier")
        if not 0 <= number < MOST_HANDLERS:
            raise Broken(f"handler '{name}' has the id {number}; ids are 0 to {MOST_HANDLERS - 1}")
        if number in self.handlers:
            raise Broken(f"handler '{name}' has the id of '{self.handlers[number].name}'")
        self.handlers[number] = _Registered(number, name, handler)
        self.mask |= 1 << number

    def step(self, now: float) -> float:
        """Run at most one chain of transactions; returns the seconds until the next."""
        self._started = True
        if not self._campaign.is_owner or not self.handlers:
            self._page = []
            return NO_OWNER_S
        try:
            return self._advance(now)
        except Conflict:
            self._page = []
            return 0.0
        except Deposed:
            self._campaign.deposed()
            return POLL_S

    def _advance(self, now: float) -> float:
        while self._at < len(self._page):
            event = self._page[self._at]
            if event.flag & self.mask == self.mask and event.flag != _GONE:
                self._purge(event)
                return 0.0
            runs = [(handler, list(self._run(handler, now))) for handler in self.handlers.values()]
            runs = [(handler, run) for handler, run in runs if run]
            if runs:
                self._deliver(runs if self._together else runs[:1], now)
                return 0.0
            self._at += 1
        # Read the next page, or the first one again if there may be new events; seconds to wait
        counter = self._store.counter(self.channel)
        after = self._page[-1].place if len(self._page) == PAGE else None
        due = [
            handler.again_at
            for handler in self.handlers.values()
            if handler.waiting_for is not None
        ]
        news = counter != self._seen_counter or now - self._looked_at >= POLL_S
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
        self._at, self._seen_counter, self._looked_at = 0, counter, now
        return 0.0 if self._has_work(now) else min([POLL_S, *(max(0.0, at - now) for at in due)])

    def _run(self, handler: _Registered, now: float) -> Iterator[int]:
        """Indexes of the page's events, from the current one on, for the handler's next chain."""
        alone = handler.waiting_for is not None
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
        """Whether the event may be delivered now: the handler waits for no earlier one."""
        if handler.waiting_for is None or event.place < handler.waiting_for:
            return True
        return event.place == handler.waiting_for and now >= handler.again_at

    # -- one event, one handler --------------------------------------------------------------------

    def _deliver(self, runs: list[tuple[_Registered, list[int]]], now: float) -> None:
        """Deliver to each handler the events of its run, in one chain."""
        most = [handler.most for handler, _ in runs]
        for handler, _ in runs:
            handler.most = 1  # after a conflict, one event at a time
        self._together = False
        flags: list[dict[int, int]] = []
        errors: list[Exception | None] = []
        chain = Chain(self._store)
        try:
            for handler, run in runs:
                flags_set: dict[int, int] = {}
                error = self._take(chain, handler, run, flags_set)
                if error is not None and not isinstance(error, NotReady):
                    # Record the error, in the chain after the events that the handler took
                    event = self._page[run[len(flags_set)]]
                    attempts = handler.attempts + 1 if handler.waiting_for == event.place else 1
                    trouble = Trouble(
                        handler=handler.name,
                        job_id=event.job_id,
                        part=event.part,
                        attempts=attempts,
                        error=f"{type(error).__name__}: {error}",
                    )
                    txn = chain.begin()
                    self._campaign.guard(txn)
                    show(txn, handler.number, trouble)
                    txn.commit()
                flags.append(flags_set)
                errors.append(error)
            chain.flush()
        finally:
            chain.close()
        self._together = True
        for (handler, run), before, flags_set, error in zip(runs, most, flags, errors, strict=True):
            handler.most = min(2 * before, MOST_IN_CHAIN)
            for at, flag in flags_set.items():
                self._page[at] = self._page[at]._replace(flag=flag)
            if flags_set:
                handler.waiting_for = None
            if error is not None:
                self._hold(handler, self._page[run[len(flags_set)]], now, error)

    def _take(
        self, chain: Chain, handler: _Registered, run: list[int], flags: dict[int, int]
    ) -> Exception | None:
        """Deliver events to the handler, one transaction each, until it refuses one.

        Fills `flags` with the new flag of each event; returns the handler's error, or None."""
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
            except Exception as error:  # an error of a subscriber stops that subscriber only
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
        again = handler.waiting_for == event.place
        handler.waiting_for = event.place
        if isinstance(error, NotReady):
            handler.again_at = now + NOT_READY_S
            return
        handler.attempts = handler.attempts + 1 if again else 1
        pause_s = min(LEAST_BACK_OFF_S * (1 << min(handler.attempts, 10)), MOST_BACK_OFF_S)
        handler.again_at = now + pause_s

    def _purge(self, event: Event) -> None:
        """Remove an event with all flags: the last one was set by a skip, or its handler no longer
        exists."""

        def remove(txn: Transaction) -> None:
            self._campaign.guard(txn)
            purge(txn, event)

        self._store.transact(remove, ONCE)
        self._page[self._at] = event._replace(flag=_GONE)

    # -- pages -------------------------------------------------------------------------------------

    def _release(self, txn: Transaction) -> None:
        """Stop waiting for events that an operator skipped."""
        for handler in self.handlers.values():
            if handler.waiting_for is not None:
                event = get(txn, handler.waiting_for)
                if event is None or event.flag & 1 << handler.number:
                    handler.waiting_for, handler.attempts = None, 0

    def _has_work(self, now: float) -> bool:
        return any(
            event.flag & self.mask == self.mask
            or (not event.flag & 1 << handler.number and self._may(handler, event, now))
            for event in self._page
            for handler in self.handlers.values()
        )
