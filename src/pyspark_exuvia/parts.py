"""Writes larger than a transaction: staged chunks are moved one by one, each by a transaction that
inserts its rows and removes it. So none is inserted twice, and who comes later moves the rest.

    append      into the table: readers see the rows come
    overwrite   into a table of the same definition that has no name; then TRUNCATE TABLE gives its
                id the name (exuvia/ddl/actions/truncate.py): readers see all the old rows, then all
                the new ones. A schema change that comes first ends it with 1412

    m/load/{id}         sealed: since when, and (attempt, chunks) of those that count. Tasks are
                        refused from then on, and so is who moves once it is another one
    m/written/{name}/{table}   since when, and the load, until it is done: another write of that
                               name goes on with this one, and leaves its own
    m/unnamed/{id}      the id that takes the name; its table goes with the load unless a job has it

Just before its job is submitted the record says anew since when it is, so nobody takes the load for
one that was left, unless its driver was stopped for a day between that transaction and the next.
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
    """The store's key of a named write. The table's name is hashed: keys have at most 511 bytes."""
    table = f"{name.database}.{name.table}".lower().encode()
    return keys.meta("written", f"{name.text}/{blake2b(table, digest_size=8).hexdigest()}")


class Sealed(NamedTuple):
    """A load whose chunks are moved; `record` is what stands at its key."""

    load: int
    record: bytes

    def chunks(self) -> Iterator[bytes]:
        """Keys."""
        numbers = [keys.read_number(self.record[n : n + 8]) for n in range(8, len(self.record), 8)]
        for attempt, count in zip(numbers[::2], numbers[1::2], strict=True):
            yield from Staged(self.load, attempt, count).chunk_keys()

    def require(self, txn: Transaction) -> None:
        """Raises ValueError; the commit conflicts with who changes it."""
        if txn.get(load_key(self.load)) != self.record:
            raise ValueError(GIVEN_UP)
        txn.require(load_key(self.load))


def under_way(txn: Transaction, name: WriteName | None) -> Sealed | None:
    """The incomplete write of that name, to be resumed. Raises ValueError if its rows are gone."""
    known = txn.get(written_key(name)) if name else None
    if name is None or known is None or len(known) == len(keys.number(0)):
        return None
    load = keys.read_number(known[8:])
    record = txn.get(load_key(load))
    if record is None or record == keys.number(0):
        raise ValueError(
            f"the write '{name.text}' stayed incomplete for more than a day, and its remaining rows"
            " were removed: check the table's rows, and write again under another name"
        )
    return Sealed(load, record)


def seal(
    load: int, opened: bytes, name: WriteName | None, staged: Sequence[Staged], txn: Transaction
) -> Sealed:
    """From here on these attempts count. Raises ValueError."""
    if txn.get(load_key(load)) != opened:
        raise ValueError(GIVEN_UP)
    counted = (keys.number(n) for each in staged for n in (each.attempt, each.chunks))
    sealed = Sealed(load, opened + b"".join(counted))
    txn.put(load_key(load), sealed.record)
    if name:
        txn.put(written_key(name), opened + keys.number(load))
    return sealed


def finish(load: int, name: WriteName | None, txn: Transaction) -> None:
    """All of it is where it belongs."""
    if name:
        txn.put(written_key(name), keys.number(staging.now()))
    if txn.get(unnamed_key(load)) is not None:
        txn.delete(unnamed_key(load))
    txn.put(load_key(load), keys.number(0))


def forget(load: int, name: WriteName | None, txn: Transaction) -> None:
    """An overwrite that failed: nothing of it is to be seen, so its name may be used again."""
    known = txn.get(written_key(name)) if name else None
    if name and known is not None and known[8:] == keys.number(load):
        txn.delete(written_key(name))


# -- to its place ----------------------------------------------------------------------------------


def go_on(
    session: Session, sealed: Sealed, options: Mapping[str, str], name: WriteName | None
) -> None:
    """Move what is left and end it. Raises what INSERT does, 1412; then an append is half there."""
    store = session.services.store
    with store.read() as txn:
        unnamed = keys.read_number(txn.get(unnamed_key(sealed.load)))
        info = meta.get_table(txn, unnamed) if unnamed else None
        jobs = [job for job in queue.unfinished(txn) if unnamed and unnamed in job.exuvia_ids]
    if jobs:  # of a driver that has died since
        session.services.submitter.wait(jobs[0].id, look=session.check_interrupt)
        with store.read() as txn:
            info = meta.get_table(txn, unnamed)
    if not unnamed:
        _move(session, sealed, options, 0)
    elif info is not None and info.state == SchemaState.WRITE_ONLY:
        _move(session, sealed, options, unnamed)
        sealed = _take_the_place(session, sealed, options, unnamed)
    store.transact(partial(finish, sealed.load, name))
    staging.remove(store, sealed.load)


def _move(session: Session, sealed: Sealed, options: Mapping[str, str], into: int) -> None:
    for moved, key in enumerate(sealed.chunks()):
        for left in reversed(range(_TRIES)):
            try:
                session.run(partial(_move_one, sealed, key, options, into), locking=True)
                break
            except OutcomeUnknown:  # then the chunk tells
                if not left:
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
        raise ValueError(GIVEN_UP)
    return Result(affected=staging.insert_chunk(context, options, chunk, table))


# -- in the table's place --------------------------------------------------------------------------


def place_unnamed(session: Session, sealed: Sealed, options: Mapping[str, str]) -> None:
    """A table as the one that is overwritten, without rows and name. Raises what TRUNCATE TABLE
    does, and for tables with foreign keys."""
    database, name = named_table(options)
    _truncation(session, options)

    def place(txn: Transaction) -> None:
        sealed.require(txn)
        found = session.services.schemas.table(txn, database, name)
        if found.info.foreign_keys or meta.with_children(txn, found.info).exuvia_referred:
            said = "a table with foreign keys is overwritten by one transaction, and this is more"
            raise ErrUnknown(f"{said} than exuvia_txn_total_size_limit lets it hold")
        if older := [each.title for each in before_0_4(txn)]:
            raise ErrUnknown(f"{', '.join(older)} of an older release serves: no large overwrite")
        count = len(truncate.ids_of(found.info))
        first = meta.next_ids(txn, count)
        ids = range(first, first + count)
        meta.put_unnamed(txn, truncate.unnamed(found.info, ids))
        txn.put(unnamed_key(sealed.load), keys.number(first))

    session.services.store.transact(place)


def _truncation(session: Session, options: Mapping[str, str]) -> Job:
    """TRUNCATE TABLE of the table."""
    database, name = named_table(options)
    node = TruncateTable(TableName(name, database))
    text = f"TRUNCATE TABLE {staging.quoted(database)}.{staging.quoted(name)}"
    change = session.look(
        lambda context: truncate_table(SchemaReader(context), node, f"{text} /* overwrite */")
    )
    [wanted] = change.jobs
    if not isinstance(wanted, JobRequest):
        raise ErrNoSuchTable(database, name)
    return wanted.job


def _take_the_place(
    session: Session, sealed: Sealed, options: Mapping[str, str], unnamed: int
) -> Sealed:
    """The load as it is sealed now, once the job has ended. Raises what it ended with."""
    job = _truncation(session, options)
    renewed = Sealed(sealed.load, keys.number(staging.now()) + sealed.record[8:])

    def renew(txn: Transaction) -> tuple[int, ...]:
        sealed.require(txn)
        txn.put(load_key(sealed.load), renewed.record)
        info = meta.get_table(txn, unnamed)
        if info is None:
            raise ValueError(GIVEN_UP)
        return truncate.ids_of(info)

    ids = session.services.store.transact(renew)
    submit(session, truncate.with_rows(job, ids))
    return renewed
