"""Schema changes to a URL: one POST an event, in order, at least once.

    POST exuvia_ddl_webhook_url
    Content-Type: application/json        {"position": 812, "job_id": 71, "sub_job_id": -1,
    Idempotency-Key: 71--1                 "kind": "add index", "schema_change": {...}}

Only an answer 2xx moves the bookmark; anything else comes again, backed off. A receiver that keeps
the keys it has seen gets each change once. Runs on the stats owner; another owner goes on from the
bookmark.
"""

import json
import urllib.error
import urllib.request

from exuvia.base.errors import Conflict, Deposed
from exuvia.catalog.sysvar import variables
from exuvia.cluster.owner import Campaign
from exuvia.events import feed
from exuvia.events.feed import Bookmark, Entry
from exuvia.kv.store import Store

URL_VARIABLE = "exuvia_ddl_webhook_url"
IDLE_S = 1.0
ANSWER_S = 5.0
LEAST_BACK_OFF_S = 0.2
MOST_BACK_OFF_S = 30.0


class Webhook:
    """See the module."""

    channel = feed.CHANNEL

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
        return self._move_on(entry)

    def _next(self) -> tuple[str, Entry | None]:
        txn = self._store.begin()
        try:
            url = variables.get_global(txn, URL_VARIABLE)
            if not url:
                return "", None
            found = feed.read(txn, self._bookmark.position(txn), 1)
            return url, found[0] if found else None
        finally:
            txn.rollback()

    def _move_on(self, entry: Entry) -> float:
        txn = self._store.begin()
        try:
            self._campaign.guard(txn)
            self._bookmark.put(txn, entry.position)
            txn.commit()
        except Conflict:
            pass  # sent again: at least once
        except Deposed:
            self._campaign.deposed()
        finally:
            txn.rollback()
        return 0.0


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
