"""Writes larger than a transaction: moves staged chunks one at a time.

One transaction inserts a chunk's rows and removes the chunk. No chunk is inserted twice, and a
later process can move the rest.

    append      into the table: readers see rows appear during the move
    overwrite   into a table of the same definition that has no name; then TRUNCATE TABLE gives its
                id the name (exuvia/ddl/actions/truncate.py): readers see all the old rows, then all
                the new ones. A concurrent schema change ends the write with 1412

    m/load/{id}         sealed: start time, and (attempt, chunks) of each counted attempt.
                        Later tasks are refused. A mover is refused when the record has changed
    m/written/{name}/{table}   start time and load id until the write is done: another write of
                               the name resumes this one and discards its own chunks
    m/unnamed/{id}      id of the new table; the table is removed with the load unless a job uses it

Just before the job is submitted, the time in the record is renewed. So no other writer treats the
load as abandoned, unless the driver stops for a day between that transaction and the next.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from typing import NamedTuple

from exuvia.base.errors import ExuviaError, OutcomeUnknown
from exuvia.base.mysql_errors import ErrNoSuchTable, ErrUnknown
from exuvia.catalog import meta
from exuvia.catalog.model import SchemaState
from exuvia.cluster.member import before_0_4
from exuvia.ddl import queue
from exuvia.ddl.actions import truncate
from exuvia.ddl.job import Job
from exuvia.kv import keys
from exuvia.kv.transaction import Transaction
from exuvia.sql.nodes import TableName, TruncateTable
from exuvia.sql.result import Result
from exuvia.sql.schema.change import JobRequest, SchemaReader
from exuvia.sql.schema.drop_table import truncate_table
from exuvia.sql.session.schema_change import submit
from exuvia.sql.session.session import Session
from exuvia.sql.statement.context import Context
from pyspark_exuvia import staging
from pyspark_exuvia.errors import wrong_state
from pyspark_exuvia.staging import Staged, load_key, unnamed_key
from pyspark_exuvia.table import named_table

_TRIES = 5
GIVEN_UP = "the write was given up: it is older than a day, or was aborted"


class WriteName(NamedTuple):
    """The name that `writeId` gives to a write of one table."""

    text: str
    database: str
    table: str


def written_key(name: WriteName) -> bytes:
    """Returns the store's key of a named write. The table's name is hashed because keys have at
    most 511 bytes."""
    table = f"{name.database}.{name.table}".lower().encode()
    return keys.meta("written", f"{name.text}/{blake2b(table, digest_size=8).hexdigest()}")


class Sealed(NamedTuple):
    """A load whose chunks are being moved. `record`: the contents of its key."""

    load: int
    record: bytes

    def chunks(self) -> Iterator[bytes]:
        """Yields the keys of the load's chunks."""
        numbers = [keys.read_number(self.record[n : n + 8]) for n in range(8, len(self.record), 8)]
        for attempt, count in zip(numbers[::2], numbers[1::2], strict=True):
            yield from Staged(self.load, attempt, count).chunk_keys()

    def require(self, txn: Transaction) -> None:
        """Requires an unchanged record, now and at commit. Raises ValueError."""
        if txn.get(load_key(self.load)) != self.record:
            raise wrong_state(GIVEN_UP)
        txn.require(load_key(self.load))


def unfinished_write(txn: Transaction, name: WriteName | None) -> Sealed | None:
    """Returns the incomplete write of that name, to be resumed. Raises ValueError if its rows are
    gone."""
    written = txn.get(written_key(name)) if name else None
    if name is None or written is None or len(written) == len(keys.number(0)):
        return None
    load = keys.read_number(written[8:])
    record = txn.get(load_key(load))
    if record is None or record == keys.number(0):
        raise wrong_state(
            f"the write '{name.text}' stayed incomplete for more than a day, and its remaining rows"
            " were removed: check the table's rows, and write again under another name"
        )
    return Sealed(load, record)


def seal(
    load: int, opened: bytes, name: WriteName | None, staged: Sequence[Staged], txn: Transaction
) -> Sealed:
    """Fixes the attempts whose chunks are written. Raises ValueError."""
    if txn.get(load_key(load)) != opened:
        raise wrong_state(GIVEN_UP)
    counted = (keys.number(n) for part in staged for n in (part.attempt, part.chunks))
    sealed = Sealed(load, opened + b"".join(counted))
    txn.put(load_key(load), sealed.record)
    if name:
        txn.put(written_key(name), opened + keys.number(load))
    return sealed


def finish(load: int, name: WriteName | None, txn: Transaction) -> None:
    """Marks the load as done: all of its rows are in the table."""
    if name:
        txn.put(written_key(name), keys.number(staging.now()))
    if txn.get(unnamed_key(load)) is not None:
        txn.delete(unnamed_key(load))
    txn.put(load_key(load), keys.number(0))


def forget(load: int, name: WriteName | None, txn: Transaction) -> None:
    """Frees the name of a failed overwrite: none of its rows became visible."""
    written = txn.get(written_key(name)) if name else None
    if name and written is not None and written[8:] == keys.number(load):
        txn.delete(written_key(name))


# -- moving chunks ---------------------------------------------------------------------------------


def resume(
    session: Session, sealed: Sealed, options: Mapping[str, str], name: WriteName | None
) -> None:
    """Moves the remaining chunks and finishes the load. Raises the errors of INSERT, and 1412;
    a failed append is then partly written."""
    store = session.services.store
    with store.read() as txn:
        unnamed = keys.read_number(txn.get(unnamed_key(sealed.load)))
        info = meta.get_table(txn, unnamed) if unnamed else None
        jobs = [job for job in queue.unfinished(txn) if unnamed and unnamed in job.exuvia_ids]
    if jobs:  # submitted by a driver that has died since
        session.services.submitter.wait(jobs[0].id, look=session.check_interrupt)
        with store.read() as txn:
            info = meta.get_table(txn, unnamed)
    if not unnamed:
        _move(session, sealed, options, 0)
    elif info is not None and info.state == SchemaState.WRITE_ONLY:
        _move(session, sealed, options, unnamed)
        sealed = _swap_in(session, sealed, options, unnamed)
    store.transact(partial(finish, sealed.load, name))
    staging.remove(store, sealed.load)


def _move(session: Session, sealed: Sealed, options: Mapping[str, str], into: int) -> None:
    for moved, key in enumerate(sealed.chunks()):
        for tries_left in reversed(range(_TRIES)):
            try:
                session.run(partial(_move_one, sealed, key, options, into), locking=True)
                break
            except OutcomeUnknown:  # the next try sees whether the chunk is still there
                if not tries_left:
                    raise
            except ExuviaError as error:
                if not into:
                    error.add_note(f"{moved} parts of the write are in the table before this one")
                raise


def _move_one(
    sealed: Sealed, key: bytes, options: Mapping[str, str], into: int, context: Context
) -> Result:
    txn = context.txn
    sealed.require(txn)
    chunk = txn.get(key)
    if chunk is None:
        return Result()
    txn.delete(key)
    table = context.session.services.schemas.table_by_id(txn, into) if into else None
    if into and table is None:
        raise wrong_state(GIVEN_UP)
    return Result(affected=staging.insert_chunk(context, options, chunk, table))


# -- replacing the table ---------------------------------------------------------------------------


def place_unnamed(session: Session, sealed: Sealed, options: Mapping[str, str]) -> None:
    """Creates the unnamed table: the overwritten table's definition without rows. Raises the errors
    of TRUNCATE TABLE, and refuses tables with foreign keys."""
    database, name = named_table(options)
    _truncation(session, options)

    def place(txn: Transaction) -> None:
        sealed.require(txn)
        table = session.services.schemas.table(txn, database, name)
        if table.info.foreign_keys or meta.with_children(txn, table.info).exuvia_referred:
            reason = "a table with foreign keys is overwritten by one transaction, and this is more"
            raise ErrUnknown(f"{reason} than exuvia_txn_total_size_limit lets it hold")
        if older := [member.title for member in before_0_4(txn)]:
            raise ErrUnknown(f"{', '.join(older)} of an older release serves: no large overwrite")
        count = len(truncate.ids_of(table.info))
        first = meta.next_ids(txn, count)
        ids = range(first, first + count)
        meta.put_unnamed(txn, truncate.unnamed(table.info, ids))
        txn.put(unnamed_key(sealed.load), keys.number(first))

    session.services.store.transact(place)


def _truncation(session: Session, options: Mapping[str, str]) -> Job:
    """Returns the TRUNCATE TABLE job of the table."""
    database, name = named_table(options)
    node = TruncateTable(TableName(name, database))
    text = f"TRUNCATE TABLE {staging.quoted(database)}.{staging.quoted(name)}"
    change = session.look(
        lambda context: truncate_table(SchemaReader(context), node, f"{text} /* overwrite */")
    )
    [request] = change.jobs
    if not isinstance(request, JobRequest):
        raise ErrNoSuchTable(database, name)
    return request.job


def _swap_in(session: Session, sealed: Sealed, options: Mapping[str, str], unnamed: int) -> Sealed:
    """Gives the table's name to the unnamed table and returns the renewed seal. Raises the job's
    error."""
    job = _truncation(session, options)
    renewed = Sealed(sealed.load, keys.number(staging.now()) + sealed.record[8:])

    def renew(txn: Transaction) -> tuple[int, ...]:
        sealed.require(txn)
        txn.put(load_key(sealed.load), renewed.record)
        info = meta.get_table(txn, unnamed)
        if info is None:
            raise wrong_state(GIVEN_UP)
        return truncate.ids_of(info)

    ids = session.services.store.transact(renew)
    submit(session, truncate.with_rows(job, ids))
    return renewed
