"""Writes a DataFrame to a table: tasks stage rows in the store, one transaction inserts them.

    plan       the driver puts m/load/{id}; an unknown column is refused here with 1054
    a task     stages its rows (staging.py)
    commit     one transaction: DELETE of all rows for an overwrite, INSERT of the chunks of the
               attempts that Spark names, and close of the load; then its chunks are removed
    abort      closes the load and removes its chunks

Every write of a task requires an open load. So abandoned attempts (a speculative duplicate, or one
of a driver that gave up) are refused. The load is closed by the transaction that inserts. After a
commit with an unknown outcome, the load's record shows whether it was committed, and nothing is
inserted twice.

Above `exuvia_txn_total_size_limit` (parts.py), an overwrite fills a second table and then swaps it
in. An append ends with 8004 and writes nothing, or is split with atomic=false.

`writeId` names the write of a table. Another write of that name into the same table does nothing
once the first is done. The name is kept for NAMES_KEPT_S (m/written/{name}/{table}).
"""

import secrets
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from exuvia.base.errors import OutcomeUnknown, Refused
from exuvia.base.mysql_errors import ErrTxnTooLarge
from exuvia.kv import keys
from exuvia.kv.transaction import Transaction
from exuvia.sql.result import Result
from exuvia.sql.session.session import Session
from exuvia.sql.statement.context import Context
from pyspark_exuvia import merge, parts, staging, upserts
from pyspark_exuvia.errors import shows_errors, wrong_option, wrong_state
from pyspark_exuvia.staging import Staged, load_key
from pyspark_exuvia.table import named_table, store_of

LONGEST_NAME = 64


@shows_errors
class TableWriter(DataSourceArrowWriter):
    """Writes a DataFrame. Made where the query is planned; copies are sent to the tasks and to the
    process that commits. Raises ValueError, Refused 1049, 1054, 1146."""

    def __init__(self, options: Mapping[str, str], planned: StructType, overwrite: bool) -> None:
        self._options = dict(options)
        self._overwrite = overwrite
        text = self._options.get("writeid", "")
        if len(text) > LONGEST_NAME:
            raise wrong_option(f"a writeId has at most {LONGEST_NAME} characters")
        self._name = parts.WriteName(text, *named_table(options)) if text else None
        upserts.require_append(self._options, overwrite)
        self._in_parts = not overwrite and not _is_atomic(self._options)
        if merge.is_merging(options):
            merge.merge(options, planned)
        store = store_of(options)
        staging.require_fitting(store, options, planned)
        now_s = staging.now()
        staging.remove_leftovers(store, now_s)
        self.load = secrets.randbits(63)
        self._opened = keys.number(now_s)
        store.transact(lambda txn: txn.insert(load_key(self.load), self._opened))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        """Stages the rows of a task attempt. Raises Deposed if the load is closed."""
        staged = Staged(self.load)
        return staging.stage(store_of(self._options), staged, iterator, self._require_open)

    def _require_open(self, txn: Transaction) -> None:
        txn.require_equal(load_key(self.load), self._opened)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Inserts the staged chunks. Raises the errors of INSERT."""
        staged = [message for message in messages if isinstance(message, Staged)]
        with staging.session_of(self._options["url"]) as session:
            with session.services.store.read() as txn:
                session.transactions.admit(txn, writes=True)
                unfinished = parts.unfinished_write(txn, self._name)
            if unfinished is not None:
                parts.resume(session, unfinished, self._options, self._name)
                staging.give_up(session.services.store, self.load)
            elif self._in_parts:
                chunks = staging.chunks_of(staged)
                session.look(lambda c: staging.require_distinct(c, self._options, chunks))
                self._move(session, staged)
            else:
                self._insert_or_replace(session, staged)

    def _insert_or_replace(self, session: Session, staged: Sequence[Staged]) -> None:
        limit = int(session.variable("exuvia_txn_total_size_limit"))
        if not self._overwrite or sum(attempt.size for attempt in staged) <= limit:
            try:
                self._insert_at_once(session, staged)
                return
            except Refused as error:
                if error.code != ErrTxnTooLarge.code:
                    raise
                if not self._overwrite:
                    error.add_note('.option("atomic", "false") writes it in parts')
                    raise
        self._move(session, staged)

    def _insert_at_once(self, session: Session, staged: Sequence[Staged]) -> None:
        store = session.services.store
        try:
            session.run(partial(self._insert, staging.chunks_of(staged)), locking=True)
        except OutcomeUnknown:
            with store.read() as txn:
                if txn.get(load_key(self.load)) == self._opened:
                    raise
        staging.remove(store, self.load)

    def _insert(self, staged: Sequence[bytes], context: Context) -> Result:
        txn = context.txn
        if txn.get(load_key(self.load)) != self._opened:
            raise wrong_state(parts.GIVEN_UP)
        txn.put(load_key(self.load), keys.number(0))
        if self._name:
            name = parts.written_key(self._name)
            if txn.get(name) is not None:
                return Result()
            txn.put(name, self._opened)
        return staging.insert_chunks(context, self._options, staged, self._overwrite)

    def _move(self, session: Session, staged: Sequence[Staged]) -> None:
        store = session.services.store

        def seal(txn: Transaction) -> parts.Sealed | None:
            if self._name and txn.get(parts.written_key(self._name)) is not None:
                return None
            return parts.seal(self.load, self._opened, self._name, staged, txn)

        sealed = store.transact(seal)
        if sealed is None:
            staging.give_up(store, self.load)
            return
        if self._overwrite:
            parts.place_unnamed(session, sealed, self._options)
        parts.resume(session, sealed, self._options, self._name)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Removes the load, except a partly written append that has a name: the next write of that
        name resumes it."""
        store = store_of(self._options)
        with store.read() as txn:
            record = txn.get(load_key(self.load))
        is_sealed = record is not None and len(record) > len(self._opened)
        if is_sealed and self._name and not self._overwrite:
            return
        store.transact(partial(parts.forget, self.load, self._name))
        staging.give_up(store, self.load)


def _is_atomic(options: Mapping[str, str]) -> bool:
    """Returns the option `atomic`. Raises ValueError."""
    text = options.get("atomic", "true").lower()
    if text not in ("true", "false"):
        raise wrong_option(f'atomic is "true" or "false", not "{text}"')
    return text == "true"
