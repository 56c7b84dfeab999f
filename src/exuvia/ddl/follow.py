"""A follower rebuilds the catalog from the history of jobs alone, as change capture does.

    Store.changes(span of mysql.tidb_ddl_history, after)      jobs ended since a position
    job.binlog          tables and their database after the job's last step, ids of removed
                        elements, the schema version of that step
    Follower.step       newer versions win; `position` is how far it has read

Jobs of one table end in order, but a job may also contain tables that it only read. If two jobs
contain the same table, the one with the greater schema version is right. Every step that changes
the catalog has its own version. Once no job is unfinished, the follower's catalog equals the
store's (decision 000).

A dropped database leaves its tables unreachable, as in the store; FLASHBACK DATABASE restores them.
Jobs of the two-queue discipline (ddl/two_queues.py) are not in that table.
"""

from operator import attrgetter

from exuvia.catalog import meta
from exuvia.catalog.codec.row_codec import whole_layouts
from exuvia.catalog.model import DatabaseInfo, TableInfo, evolve
from exuvia.catalog.system_tables import DATABASES, MYSQL_ID, SYSTEM
from exuvia.catalog.table import Table
from exuvia.ddl.decision import Decision
from exuvia.ddl.job import Binlog, decode
from exuvia.kv.store import Store
from exuvia.kv.transaction import Transaction

_MYSQL = next(database for database in DATABASES if database.id == MYSQL_ID)
_HISTORY = Table(SYSTEM["tidb_ddl_history"], 0, _MYSQL, 0)
_JOB_META = _HISTORY.position("job_meta")


def left_behind(txn: Transaction, binlog: Binlog, decision: Decision, version: int) -> Binlog:
    """The binlog of a job's last step, from the step's transaction."""
    after = {info.id for info in decision.after.tables}
    own = decision.after.table
    database = decision.after.database
    others = [_as_at_rest(txn, meta.get_table(txn, info.id)) for info in decision.after.others]
    ended_binlog = evolve(binlog, SchemaVersion=version, FinishedTS=decision.before.now)
    own_now = binlog.TableInfo if own is None else meta.get_table(txn, own.id)
    ended_binlog = evolve(ended_binlog, TableInfo=_as_at_rest(txn, own_now))
    if database is not None:
        ended_binlog = evolve(ended_binlog, DBInfo=database)
    if any(others):
        ended_binlog = evolve(
            ended_binlog, MultipleTableInfos=tuple(info for info in others if info is not None)
        )
    removed = tuple(info.id for info in decision.before.tables if info.id not in after)
    if decision.before.database is not None and database is None:
        removed = (*removed, decision.before.database.id)
    return evolve(ended_binlog, exuvia_gone=removed) if removed else ended_binlog


def _as_at_rest(txn: Transaction, info: TableInfo | None) -> TableInfo | None:
    return None if info is None else meta.as_at_rest(txn, info)


class Follower:
    """A catalog built from the history table only. `position`: the end of what it has read."""

    def __init__(self) -> None:
        self.position = ""
        self.databases: dict[int, DatabaseInfo] = {}
        self._tables: dict[int, TableInfo] = {}
        # versions of databases and tables, including removed ones
        self._versions: dict[int, int] = {}

    @property
    def tables(self) -> dict[int, TableInfo]:
        """Every table of an existing database, by id."""
        tables = self._tables.items()
        return {key: table for key, table in tables if table.exuvia_db in self.databases}

    def step(self, store: Store) -> int:
        """Read the jobs that ended since the last step. Returns their number."""
        changes = store.changes(_HISTORY.row_span(), self.position)
        news = [decode(_HISTORY.decode(payload)[_JOB_META]).binlog for _, payload in changes.pairs]
        for left in sorted(news, key=attrgetter("SchemaVersion")):
            self._take(left)
        self.position = changes.position
        return len(news)

    def _take(self, left: Binlog) -> None:
        removed = frozenset(left.exuvia_gone or ())
        tables = (*((left.TableInfo,) if left.TableInfo else ()), *(left.MultipleTableInfos or ()))
        for info in tables:
            if info.id not in removed and self._is_newer(info.id, left.SchemaVersion):
                self._tables[info.id] = whole_layouts(info)
        database = left.DBInfo
        if database is None or database.id in removed:
            pass
        elif self._is_newer(database.id, left.SchemaVersion):
            self.databases[database.id] = database
        for element_id in removed:
            if self._is_newer(element_id, left.SchemaVersion):
                self._tables.pop(element_id, None)
                self.databases.pop(element_id, None)

    def _is_newer(self, element_id: int, version: int) -> bool:
        if self._versions.get(element_id, -1) > version:
            return False
        self._versions[element_id] = version
        return True
