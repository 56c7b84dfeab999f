"""How a TTL job deletes rows: as a client's DELETE does, in an internal session of the back.

It waits for clients' row locks, and writes what partition changes and statistics need
(sql/write/rows.py). Schema changes do not wait for a back to acknowledge a version. Instead its
commit is refused if the table is two revisions ahead.

Import this module only when rows are deleted: a back without TTL tables needs no sessions.
"""

from collections.abc import Callable, Sequence
from typing import Any

from exuvia.base.clock import Clock
from exuvia.catalog.autoid import IdAllocator
from exuvia.catalog.infoschema import Schemas
from exuvia.catalog.table import Table
from exuvia.cluster.member import Member
from exuvia.cluster.server_locks import row_locks_of
from exuvia.cluster.versions import MetadataLocks
from exuvia.ddl.submit import Submitter
from exuvia.kv import keys
from exuvia.kv.store import Store
from exuvia.kv.transaction import Transaction
from exuvia.sql.result import Result
from exuvia.sql.session.session import Session
from exuvia.sql.statement.context import Context
from exuvia.sql.statement.services import Services
from exuvia.sql.write.rows import RowWriter
from exuvia.stats.meta import Deltas

LOCK_WAIT_S = 1

Judge = Callable[[Transaction, Table | None], tuple[Table, int, int]]
Note = Callable[[Transaction, int], None]


class ExpiredRows:
    """Deletes expired rows in a session of its own. Use it in one thread only."""

    def __init__(
        self, store: Store, schemas: Schemas, member: Member, clock: Clock, deltas: Deltas
    ) -> None:
        row_locks = row_locks_of(store, lambda: member.fence)
        services = Services(
            store=store,
            schemas=schemas,
            ids=IdAllocator(store),
            submitter=Submitter(store, schemas, member),
            locks=MetadataLocks(clock),
            member=member,
            clock=clock,
            row_locks=row_locks,
            named_locks=row_locks,
            deltas=deltas,
        )
        session: Any = Session(services, 0, "root", "localhost")
        session.is_internal = True
        # override the global defaults that an operator set for clients' sessions
        session.execute("SET autocommit = 1, transaction_read_only = 0, foreign_key_checks = 1")
        session.execute(f"SET innodb_lock_wait_timeout = {LOCK_WAIT_S}")
        self._session = session

    def delete(self, table_id: int, handles: Sequence[bytes], judge: Judge, note: Note) -> int:
        """Delete those of the rows that have expired, in one transaction. Returns their number.

        `judge` returns the partition, the position of the column that decides, and the limit below
        which its value has expired. `note` saves the number of deleted rows. Raises the errors of
        both, Refused, Conflict."""

        def work(context: Context) -> Result:
            table = context.table_of_id(table_id)
            part, position, limit = judge(context.txn, table)
            assert table is not None, table_id
            prefix = keys.u64(part.physical_id) if table.is_partitioned else b""
            writes = RowWriter(table, context)
            deleted = 0
            for handle in handles:
                row = writes.read(prefix + handle)
                if row is not None and row[position] is not None and row[position] < limit:
                    writes.delete(prefix + handle, row)
                    deleted += 1
            writes.finish()
            note(context.txn, deleted)
            return Result(affected=deleted)

        result = self._session.run(work, locking=True)
        return int(result.affected)
