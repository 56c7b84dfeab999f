"""The public log of schema changes for external readers; a late reader misses nothing.

    handler "feed"    copies each event, in order of delivery, to mysql.exuvia_ddl_events
    position          a counter that only the handler advances, in the transaction of each copy
    reader            read(after=its position) -> later entries, within the retention

Job ids cannot be positions: a long job's event comes after those of younger jobs. New entries
remove those older than exuvia_ddl_feed_retention_s.

Schema changes to a URL: one POST an event, in order, at least once.

    POST exuvia_ddl_webhook_url
    Content-Type: application/json        {"position": 812, "job_id": 71, "sub_job_id": -1,
    Idempotency-Key: 71--1                 "kind": "add index", "schema_change": {...}}

Only a 2xx response advances the bookmark; any other is retried with a growing pause. A receiver
that stores the keys gets each change once. Runs on the stats owner; a new owner continues from the
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
    """The notifier's handler and the only writer of the log: one event a transaction."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def __call__(self, txn: Transaction, change: SchemaChange) -> None:
        """Append one event to the log."""
        table = planned(txn, TABLE)
        position = _next_position(txn, table)
        now_ns = self._clock.wall_ns()
        content = (change.kind.value, change.to_json(), packed_moment(now_ns))
        row = [position, *change.origin, *content]
        writer.insert(txn, table, row)
        kept_ns = variables.read_int(txn, "exuvia_ddl_feed_retention_s") * 1_000_000_000
        old = packed_moment(max(0, now_ns - kept_ns))
        for handle, entry in islice(reader.scan(txn, table), MOST_REMOVED):
            if entry[-1] >= old:
                break
            writer.delete(txn, table, handle, entry)
        txn.notify(CHANNEL)


def _next_position(txn: Transaction, table: Table) -> int:
    """The next position. Until release 0.1.0 positions were the store's sequence; a program of that
    release may still write."""
    last = next(txn.scan(table.row_span(), limit=1, reverse=True), None)
    stored = txn.get(_POSITION)
    begin = txn.sequence if stored is None else keys.read_number(stored)
    position = max(begin, 0 if last is None else keys.read_i64(last[0][keys.HANDLE_AT :])) + 1
    txn.put(_POSITION, keys.number(position))
    return position


def read(txn: Transaction, after: int = 0, limit: int = PAGE) -> list[Entry]:
    """At most `limit` entries after a position, oldest first."""
    table = planned(txn, TABLE)
    begin = table.row_prefix + handle_from(table, (after + 1,))
    rows = reader.scan(txn, table, Span(begin, table.row_span().end))
    return [
        Entry(row[0], SchemaChange.from_json(row[4], (row[1], row[2])), row[5])
        for _, row in islice(rows, limit)
    ]


class Bookmark:
    """The position of a named reader, in the store."""

    def __init__(self, store: Store, name: str) -> None:
        self._store = store
        self._key = keys.meta("feed", name)

    def position(self, txn: Transaction) -> int:
        """The position of the last entry handled; 0 before the first."""
        return keys.read_number(txn.get(self._key))

    def put(self, txn: Transaction, position: int) -> None:
        """Store the position, in the transaction that handles the change."""
        txn.put(self._key, keys.number(position))


def subscribe(
    store: Store | str,
    after: int = 0,
    follow: bool = True,
    stop: threading.Event | None = None,
) -> Iterator[Entry]:
    """Every change after a position; `follow` continues with new ones until `stop` is set.

    `store`: an open one, or its URL. Continue later from the position of the last entry."""
    opened = open_store(store) if isinstance(store, str) else store
    try:
        while stop is None or not stop.is_set():
            counter = opened.counter(CHANNEL)
            with opened.read() as txn:
                entries = read(txn, after)
            for entry in entries:
                yield entry
                after = entry.position
            if not entries:
                if not follow:
                    return
                opened.wait(CHANNEL, counter, LOOK_S)
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
    """Posts each change to exuvia_ddl_webhook_url, and retries until a 2xx response."""

    channel = CHANNEL

    def __init__(self, store: Store, campaign: Campaign) -> None:
        self._store = store
        self._campaign = campaign
        self._bookmark = Bookmark(store, "webhook")
        self._again_at = 0.0
        self.failures = 0
        self.last_error = ""

    def step(self, now: float) -> float:
        """Send at most one event; returns the seconds until the next."""
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
            entries = read(txn, self._bookmark.position(txn), 1)
            return url, entries[0] if entries else None


def body(entry: Entry) -> bytes:
    """The JSON of an entry for external readers."""
    job_id, part = entry.change.origin
    fields = {
        "position": entry.position,
        "job_id": job_id,
        "sub_job_id": part,
        "kind": entry.change.kind.value,
        "schema_change": json.loads(entry.change.to_json()),
    }
    return json.dumps(fields).encode()


def _post(url: str, entry: Entry) -> str:
    """POST the entry; returns the reason of a failure, or ""."""
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
