"""mysql.ddl_notifier: events from the step that ends their job until every handler has seen them.

    step of a job       put(txn, job, part, change)              with all else it does (laws 4, 7)
    handler's turn      flag or, for the last one, removal       with the handler's own effects

One row an event, by (job, part); `part` is -1, or the ordinal of a sub-job. Bit n of its flag is
the handler with id n.
"""

from collections.abc import Iterator
from typing import NamedTuple

from exuvia.catalog import reader, writer
from exuvia.catalog.codec.key_codec import handle_from
from exuvia.catalog.system_rows import planned
from exuvia.events.schema_change import SchemaChange
from exuvia.kv import keys
from exuvia.kv.packet import Span
from exuvia.kv.transaction import Transaction

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
