"""Reading tables as they were: SELECT ... AS OF TIMESTAMP, and whatever else reads at a time.

    t AS OF TIMESTAMP x                        one query; every table of it, and the same time
    START TRANSACTION READ ONLY AS OF TIMESTAMP x       all queries of the transaction
    SET tidb_snapshot = 'x'                    all queries of the session, until it is ''

What is read is the last moment (events/change_log.py) that is not after the time: never what was
committed after it, and nothing older than a second or so before it; while nothing changed, what
stood there. Tables need a change log that was on since then and has not been emptied so far.

The rows are today's, in one snapshot, with everything taken back that was committed since: the
former rows, and their entries, are laid over the snapshot as own writes of a transaction that
nobody can commit. So every way to read a table reads it as it was, at the cost of what has changed.

The definition is today's too. A table that had another name or other columns then is refused
(8135), where TiDB reads it with the schema of that time.
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
"""Memory that a change which is taken back needs besides the bytes of the row before; measured with
two indexes whose keys changed (20,000 rows)."""
_LOGICAL_BITS = 18  # of TiDB's timestamps, behind milliseconds
_EPOCH = datetime(1970, 1, 1)


def read_time(context: Context, packed: int) -> ReadTime:
    """Of a packed DATETIME of the session's zone. Raises 1105 for the future."""
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
    """What a query sees that reads at a time. Its transaction is one of its own."""

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
        """As it was. Raises 8135 (no change log, or another definition then), 8055 (too old)."""
        found = super().table(database, name)
        if found.info.is_stored and found.info.id not in self._taken_back:
            self._take_back(found, self._required(found))
            self._taken_back.add(found.info.id)
        return found

    def _required(self, table: Table) -> View:
        """The view to be shown. Raises as `table`."""
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
        """Raises 8175: about more has changed than may be kept in memory."""
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
    """8055: there is no moment that is not after the time."""
    oldest = logs.first_moment(context.txn, lambda each: True)
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
    """The time of the query's tables: all have one, and the same.

    `evaluate`: the packed DATETIME of an expression. Raises 8135, 1105, 1292."""
    names = {cte.alias.lower() for cte in walks.find_all(tree, exp.CTE)}
    asked = set()
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
        asked.add(packed)
    if len(asked) != 1:
        raise ErrAsOf("can not set different time in the as of")
    if walks.find(tree, exp.Lock):
        raise ErrUnknown.with_text("select lock hasn't been supported in stale read yet")
    return read_time(context, asked.pop())
