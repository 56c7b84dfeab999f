"""The public log of schema changes, for readers outside: nothing is missed, however late they come.

    handler "feed"    copies each event, in the order told, to mysql.exuvia_ddl_events
    position          a counter that only the handler moves, in the transaction of each copy
    reader            read(after=position it has) -> entries behind it, as far as the retention goes

Job ids would not do as positions: a long job's event comes after those of younger jobs. Entries
older than exuvia_ddl_feed_retention_s are removed as new ones come.

Schema changes to a URL: one POST an event, in order, at least once.

    POST exuvia_ddl_webhook_url
    Content-Type: application/json        {"position": 812, "job_id": 71, "sub_job_id": -1,
    Idempotency-Key: 71--1                 "kind": "add index", "schema_change": {...}}

Only an answer 2xx moves the bookmark; anything else comes again, backed off. A receiver that keeps
the keys it has seen gets each change once. Runs on the stats owner; another owner goes on from the
bookmark.
"""

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from exuvia.base.clock import Clock
from exuvia.base.errors import Conflict, Deposed
from exuvia.base.types import packed_moment
from exuvia.catalog import reader, writer
from exuvia.catalog.codec.key_codec import handle_from
from exuvia.catalog.system_tables import planned
from exuvia.catalog.sysvar import variables
from exuvia.catalog.table import Table
from exuvia.cluster.owner import Campaign
from exuvia.events.schema_change import SchemaChange
from exuvia.kv import keys
from exuvia.kv.packet import Span
from exuvia.kv.store import Store, open_store
from exuvia.kv.transaction import ONCE, Transaction

TABLE = "exuvia_ddl_events"
CHANNEL = "feed"
_POSITION = b"m/feedposition"
MOST_REMOVED = 64
PAGE = 256
LOOK_S = 1.0


class Entry(NamedTuple):
    """A change in the log. `logged_at`: packed DATETIME in UTC."""

    position: int
    change: SchemaChange
    logged_at: int


class Feed:
    """The handler: one event a transaction, and nobody else writes the log."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def __call__(self, txn: Transaction, change: SchemaChange) -> None:
        """Copy one event, behind all those before it."""
        table = planned(txn, TABLE)
        position = _next_position(txn, table)
        now_ns = self._clock.wall_ns()
        told = (change.kind.value, change.to_json(), packed_moment(now_ns))
        row = [position, *change.origin, *told]
        writer.insert(txn, table, row)
        kept_ns = variables.read_int(txn, "exuvia_ddl_feed_retention_s") * 1_000_000_000
        old = packed_moment(max(0, now_ns - kept_ns))
        for handle, entry in islice(reader.scan(txn, table), MOST_REMOVED):
            if entry[-1] >= old:
                break
            writer.delete(txn, table, handle, entry)
        txn.notify(CHANNEL)


def _next_position(txn: Transaction, table: Table) -> int:
    """Up to release 0.1.0 it was the store's sequence; a program of that time may still write."""
    last = next(txn.scan(table.row_span(), limit=1, reverse=True), None)
    known = txn.get(_POSITION)
    begin = txn.sequence if known is None else keys.read_number(known)
    position = max(begin, 0 if last is None else keys.read_i64(last[0][keys.HANDLE_AT :])) + 1
    txn.put(_POSITION, keys.number(position))
    return position


def read(txn: Transaction, after: int = 0, limit: int = PAGE) -> list[Entry]:
    """Entries behind a position, oldest first, at most `limit`."""
    table = planned(txn, TABLE)
    begin = table.row_prefix + handle_from(table, (after + 1,))
    rows = reader.scan(txn, table, Span(begin, table.row_span().end))
    return [
        Entry(row[0], SchemaChange.from_json(row[4], (row[1], row[2])), row[5])
        for _, row in islice(rows, limit)
    ]


class Bookmark:
    """A reader's position, kept in the store under its name."""

    def __init__(self, store: Store, name: str) -> None:
        self._store = store
        self._key = keys.meta("feed", name)

    def position(self, txn: Transaction) -> int:
        """Where the reader goes on; 0 before its first."""
        return keys.read_number(txn.get(self._key))

    def put(self, txn: Transaction, position: int) -> None:
        """Note the position, in the transaction of whatever was done with the change."""
        txn.put(self._key, keys.number(position))


def subscribe(
    store: Store | str,
    after: int = 0,
    follow: bool = True,
    stop: threading.Event | None = None,
) -> Iterator[Entry]:
    """Every change behind a position, and with `follow` every one that comes, until `stop` is set.

    `store`: an open one, or its URL. The position of the last entry is where to go on later."""
    opened = open_store(store) if isinstance(store, str) else store
    try:
        while stop is None or not stop.is_set():
            seen = opened.counter(CHANNEL)
            with opened.read() as txn:
                entries = read(txn, after)
            for entry in entries:
                yield entry
                after = entry.position
            if not entries:
                if not follow:
                    return
                opened.wait(CHANNEL, seen, LOOK_S)
    finally:
        if opened is not store:
            opened.close()


# -- webhook ---------------------------------------------------------------------------------------

URL_VARIABLE = "exuvia_ddl_webhook_url"
IDLE_S = 1.0
ANSWER_S = 5.0
LEAST_BACK_OFF_S = 0.2
MOST_BACK_OFF_S = 30.0


class Webhook:
    """See the module."""

    channel = CHANNEL

    def __init__(self, store: Store, campaign: Campaign) -> None:
        self._store = store
        self._campaign = campaign
        self._bookmark = Bookmark(store, "webhook")
        self._again_at = 0.0
        self.failures = 0
        self.last_error = ""

    def step(self, now: float) -> float:
        """Send one event; seconds until the next."""
        if not self._campaign.is_owner:
            return IDLE_S
        if now < self._again_at:
            return self._again_at - now
        url, entry = self._next()
        if entry is None:
            return IDLE_S
        self.last_error = _post(url, entry)
        if self.last_error:
            self.failures += 1
            pause_s = min(LEAST_BACK_OFF_S * (1 << min(self.failures, 10)), MOST_BACK_OFF_S)
            self._again_at = now + pause_s
            return pause_s
        self.failures = 0

        def move(txn: Transaction) -> None:
            self._campaign.guard(txn)
            self._bookmark.put(txn, entry.position)

        try:
            self._store.transact(move, ONCE)
        except Conflict:
            pass  # sent again: at least once
        except Deposed:
            self._campaign.deposed()
        return 0.0

    def _next(self) -> tuple[str, Entry | None]:
        with self._store.read() as txn:
            url = variables.get_global(txn, URL_VARIABLE)
            if not url:
                return "", None
            found = read(txn, self._bookmark.position(txn), 1)
            return url, found[0] if found else None


def body(entry: Entry) -> bytes:
    """An entry as the JSON that readers outside get."""
    job_id, part = entry.change.origin
    told = {
        "position": entry.position,
        "job_id": job_id,
        "sub_job_id": part,
        "kind": entry.change.kind.value,
        "schema_change": json.loads(entry.change.to_json()),
    }
    return json.dumps(told).encode()


def _post(url: str, entry: Entry) -> str:
    """Why it was not accepted; "" when it was."""
    job_id, part = entry.change.origin
    request = urllib.request.Request(
        url,
        data=body(entry),
        headers={"Content-Type": "application/json", "Idempotency-Key": f"{job_id}-{part}"},
    )
    try:
        with urllib.request.urlopen(request, timeout=ANSWER_S) as answer:
            return "" if 200 <= answer.status < 300 else f"answered {answer.status}"
    except (OSError, ValueError) as error:  # urllib's errors are OSErrors; a bad URL a ValueError
        return str(error)
