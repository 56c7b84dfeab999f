"""Why handlers stand still, and what an operator did about it; in the store, for people.

    m/handler/{id}                 the event a handler refuses, how often, its words
    m/skipped/{id}{job}{part}      an event that an operator let a handler pass over

A handler that raises is called again, for ever, ever more seldom: nothing is dropped. Whoever
decides that an event is not to reach a handler says so (`skip`): that event, that handler, in one
transaction with a record that stays. Other handlers get the event all the same.
"""

from itertools import islice

import msgspec

from exuvia.base.mysql_errors import ErrUnknown
from exuvia.events import outbox
from exuvia.kv import keys
from exuvia.kv.transaction import Transaction

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
        return f"{self.job_id}" if self.part == outbox.WHOLE_JOB else f"{self.job_id}/{self.part}"


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
    """It goes on."""
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
    trouble, event = troubles(txn).get(handler), outbox.get(txn, place)
    if trouble is None or trouble.place != place or event is None:
        raise ErrUnknown(f"handler {handler} does not refuse an event of job {place[0]}")
    outbox.pass_over(txn, event, handler)
    skipped = Skipped(trouble=trouble, by=by, at=at)
    txn.put(_skipped_key(handler, place), msgspec.json.encode(skipped))
    known = txn.scan(keys.span_of(keys.meta("skipped", handler)), reverse=True)
    for key, _ in list(islice(known, MOST_SKIPPED, None)):
        txn.delete(key)
    clear(txn, handler)
    return skipped


def skipped(txn: Transaction, handler: int) -> list[Skipped]:
    """What operators let it pass over, by job."""
    pairs = txn.scan(keys.span_of(keys.meta("skipped", handler)))
    return [msgspec.json.decode(raw, type=Skipped) for _, raw in pairs]


def _skipped_key(handler: int, place: tuple[int, int]) -> bytes:
    return keys.meta("skipped", handler, place[0], place[1] + 1)
