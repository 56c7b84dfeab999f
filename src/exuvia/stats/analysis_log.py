"""mysql.analyze_jobs: every analysis of a (physical) table, while it runs and after it.

    pending --> running --> finished            rows read so far are told while it runs
                       `--> failed, with why    also when its owner went away

Ids are given in order; the last MOST_KEPT analyses are kept.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from exuvia.base.types import packed_moment
from exuvia.catalog import reader, writer
from exuvia.catalog.system_rows import planned
from exuvia.kv import keys
from exuvia.kv.transaction import Transaction

TABLE = "analyze_jobs"
MOST_KEPT = 10_000
PENDING, RUNNING, FINISHED, FAILED = 1, 2, 3, 4
STATES = ("", "pending", "running", "finished", "failed")


class Logged(NamedTuple):
    """One row. Moments are packed, UTC; `state` is one of those above."""

    id: int
    update_time: int
    schema: str
    table: str
    partition: str
    info: str
    rows: int = 0
    started: int | None = None
    ended: int | None = None
    state: int = PENDING
    reason: str | None = None
    instance: str = ""
    process_id: int | None = None


def last_id(txn: Transaction) -> int:
    """The greatest id given."""
    for key, _ in txn.scan(planned(txn, TABLE).row_span(), limit=1, reverse=True):
        return keys.read_number(key[keys.HANDLE_AT :])
    return 0


def begin(txn: Transaction, found: Sequence[Logged]) -> list[int]:
    """Put rows, their ids yet to be given; the ids."""
    table, first = planned(txn, TABLE), last_id(txn) + 1
    for number, each in enumerate(found, first):
        writer.insert(txn, table, list(each._replace(id=number)))
        stale = get(txn, number - MOST_KEPT) if number > MOST_KEPT else None
        if stale is not None:
            writer.delete(txn, table, keys.u64(stale.id), list(stale))
    return list(range(first, first + len(found)))


def get(txn: Transaction, number: int) -> Logged | None:
    """One row."""
    row = reader.get(txn, planned(txn, TABLE), keys.u64(number))
    return None if row is None else Logged._make(row)


def change(txn: Transaction, number: int, wall_ns: int, **fields: object) -> None:
    """Change fields of a row; nothing where it is gone."""
    old = get(txn, number)
    if old is None:
        return
    new = old._replace(update_time=packed_moment(wall_ns), **fields)  # type: ignore[arg-type]
    writer.update(txn, planned(txn, TABLE), keys.u64(number), list(old), list(new))


def newest(txn: Transaction, most: int = MOST_KEPT) -> Iterator[Logged]:
    """All rows, the latest first."""
    table = planned(txn, TABLE)
    for number, (_, row) in enumerate(reader.scan(txn, table, None, True)):
        if number == most:
            return
        yield Logged._make(row)


def fail_the_unfinished(txn: Transaction, wall_ns: int, reason: str) -> int:
    """What another owner left behind; how many."""
    left = [each for each in newest(txn) if each.state in (PENDING, RUNNING)]
    for each in left:
        moment = packed_moment(wall_ns)
        change(txn, each.id, wall_ns, state=FAILED, reason=reason, ended=moment)
    return len(left)
