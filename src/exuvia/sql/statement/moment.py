"""Reading tables at a past time: SELECT ... AS OF TIMESTAMP, and other reads at a time.

    t AS OF TIMESTAMP x                        one query; all its tables, at the same time
    START TRANSACTION READ ONLY AS OF TIMESTAMP x       all queries of the transaction
    SET tidb_snapshot = 'x'                    all queries of the session, until it is ''

A query reads the last moment (events/change_log.py) that is not after the time. It never reads
later commits. The moment may be about a second older than the time; without changes in between this
makes no difference. The tables' change log must have been on since then and still be complete.

The rows are those of the current snapshot, with all later commits undone. The former rows and their
entries are laid over the snapshot as writes of a transaction that cannot be committed. So all ways
to read a table work, at the cost of the number of changes since then.

The definition is the current one. A table that had another name or other columns then is refused
(8135), whereas TiDB reads it with the schema of that time.
"""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from sqlglot import exp

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import (
    ErrAsOf,
    ErrMemoryExceedForQuery,
    ErrSnapshotTooOld,
    ErrUnknown,
)
from exuvia.base.types import Value, packed_moment
from exuvia.catalog import writer
from exuvia.catalog.table import Table
from exuvia.catalog.temporal import shift_zone, to_moment
from exuvia.events import change_log as logs
from exuvia.events.change_log import ReadTime
from exuvia.kv import change_log
from exuvia.kv.packet import View
from exuvia.kv.transaction import Transaction
from exuvia.sql import walks
from exuvia.sql.statement.context import Context, SessionApi

RECORD_BYTES = 1500
"""Memory of an undone change in addition to the bytes of the former row. Measured with two indexes
whose keys changed (20,000 rows)."""
_LOGICAL_BITS = 18  # the logical part of TiDB's timestamps, below the milliseconds
_EPOCH = datetime(1970, 1, 1)


def read_time(context: Context, packed: int) -> ReadTime:
    """The read time of a packed DATETIME in the session's zone. Raises 1105 for the future."""
    utc = to_moment(shift_zone(packed, context.zone, None))
    wall_us = (utc - _EPOCH) // timedelta(microseconds=1)
    now_us = context.session.services.clock.wall_ns() // 1_000
    if wall_us > now_us:
        tso = [us // 1_000 << _LOGICAL_BITS for us in (wall_us, now_us)]
        raise ErrUnknown.with_text(
            f"cannot set read timestamp to a future time, readTS: {tso[0]}, currentTS: {tso[1]}"
        )
    context.txn.open()
    return ReadTime(wall_us, logs.moment_at(context.txn, wall_us))


class MomentContext(Context):
    """The context of a query that reads at a time, in a separate transaction."""

    __slots__ = ("_quota", "_taken_back", "_view")

    def __init__(
        self,
        session: SessionApi,
        txn: Transaction,
        time: ReadTime,
        parameters: Sequence[Value] = (),
        letters: str = "",
    ) -> None:
        super().__init__(session, session.services.schemas, txn, None, parameters, letters)
        moment = time.moment
        store = session.services.store
        self._view = None if moment is None else store.view_at(moment.position)
        self._taken_back: set[int] = set()
        self._quota = int(session.settings.get("tidb_mem_quota_query"))

    def table(self, database: str, name: str) -> Table:
        """The table with its former rows. Raises 8135 (no log, new definition), 8055 (too old)."""
        table = super().table(database, name)
        if table.info.is_stored and table.info.id not in self._taken_back:
            self._take_back(table, self._required(table))
            self._taken_back.add(table.info.id)
        return table

    def _required(self, table: Table) -> View:
        """The view of the table to read. Raises as `table`."""
        info = table.info
        if info.is_temporary:
            raise ErrUnknown.with_text("can not stale read temporary table")
        if logs.log_of(self.txn, info) is None:
            raise ErrAsOf(logs.no_log(info).message)
        view = self._view
        if view is None:
            raise too_old(self)
        logs.require_complete(self.txn, info, view)
        if logs.has_other_shape(self.txn, info, view):
            raise ErrAsOf(f"table '{info.name.O}' had another name or other columns then")
        return view

    def _take_back(self, table: Table, view: View) -> None:
        """Undoes later changes. Raises 8175 if more has changed than fits into memory."""
        ids = table.info.physical_ids if table.is_partitioned else ()
        parts = list(map(table.part, ids)) if ids else [table]
        if self._quota > 0:
            spans = [change_log.above(part.log_prefix, view.horizon) for part in parts]
            size = logs.size_of(self.session.services.store, self.txn, spans)
            if size.bytes + size.records * RECORD_BYTES > self._quota:
                raise ErrMemoryExceedForQuery(self.session.connection_id)
        changes = []
        for part in parts:
            places = part.log_prefix, part.row_prefix
            changes.append((part, change_log.rows_changed(self.txn.snapshot, *places, view)))
            self.session.check_interrupt()
        writer.restore_former(self.txn, changes)


def too_old(context: Context) -> Refused:
    """Error 8055: there is no moment before the time."""
    oldest = logs.first_moment(context.txn, lambda moment: True)
    text = "snapshot is older than GC safe point"
    if oldest is not None:
        packed = shift_zone(packed_moment(oldest.wall_us * 1_000), None, context.zone)
        text += f" {to_moment(packed)}"
    return ErrSnapshotTooOld.with_text(text)


# -- AS OF TIMESTAMP in a query --------------------------------------------------------------------


def time_asked(
    tree: exp.Expression,
    context: Context,
    evaluate: Callable[[exp.Expression, Context], int | None],
) -> ReadTime:
    """The read time of the query's tables, which must all have the same.

    `evaluate`: the packed DATETIME of an expression. Raises 8135, 1105, 1292."""
    names = {cte.alias.lower() for cte in walks.find_all(tree, exp.CTE)}
    times = set()
    for table in walks.find_all(tree, exp.Table):
        version = table.args.get("version")
        if version is None:
            is_common = not table.db and table.name.lower() in names
            is_named = isinstance(table.this, exp.Identifier) and table.name.lower() != "dual"
            if is_named and not is_common:
                raise ErrAsOf("can not set different time in the as of")
            continue
        packed = evaluate(version.expression, context)
        if packed is None:
            raise ErrAsOf("as of timestamp cannot be NULL")
        times.add(packed)
    if len(times) != 1:
        raise ErrAsOf("can not set different time in the as of")
    if walks.find(tree, exp.Lock):
        raise ErrUnknown.with_text("select lock hasn't been supported in stale read yet")
    return read_time(context, times.pop())
