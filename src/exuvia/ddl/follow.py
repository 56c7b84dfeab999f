"""A follower: the catalog rebuilt from the history of jobs alone, as change capture does (000).

    Store.changes(span of mysql.tidb_ddl_history, after)      every job that ended, since a position
    job.binlog          what it left: tables and their database as they stood at its last step, ids
                        of what it took away, the schema version of that step
    Follower.step       newer versions win; `position` says what it has seen

Jobs of one table end in their order, but a job may also tell of tables it only looked at: of two
tales the one of the greater schema version is right, since every step that touches the catalog
makes a version of its own. Once no job is unfinished, the follower has what the store has.

A database that goes leaves its tables behind, unreachable, as in the store: FLASHBACK DATABASE
brings them back. Jobs done under the two-queue discipline (ddl/two_queues.py) are not in
that table.
"""

from operator import attrgetter

from exuvia.catalog import meta
from exuvia.catalog.codec.row_codec import whole_layouts
from exuvia.catalog.model import DatabaseInfo, TableInfo, evolve
from exuvia.catalog.system_tables import DATABASES, MYSQL_ID, SYSTEM
from exuvia.catalog.table import Table
from exuvia.ddl.decision import CatalogSnapshot, Decision
from exuvia.ddl.job import Binlog, decode
from exuvia.kv.store import Store
from exuvia.kv.transaction import Transaction

_MYSQL = next(each for each in DATABASES if each.id == MYSQL_ID)
_HISTORY = Table(SYSTEM["tidb_ddl_history"], 0, _MYSQL, 0)
_JOB_META = _HISTORY.position("job_meta")


def left_behind(txn: Transaction, binlog: Binlog, decision: Decision, version: int) -> Binlog:
    """What a job's last step leaves, from the transaction that holds it."""
    before, after = _tables(decision.before), _tables(decision.after)
    own = decision.after.table
    database = decision.after.database
    others = [_as_at_rest(txn, meta.get_table(txn, each.id)) for each in decision.after.others]
    told = evolve(binlog, SchemaVersion=version, FinishedTS=decision.before.now)
    own_now = binlog.TableInfo if own is None else meta.get_table(txn, own.id)
    told = evolve(told, TableInfo=_as_at_rest(txn, own_now))
    if database is not None:
        told = evolve(told, DBInfo=database)
    if any(others):
        told = evolve(told, MultipleTableInfos=tuple(each for each in others if each is not None))
    gone = tuple(each for each in before if each not in after)
    if decision.before.database is not None and database is None:
        gone = (*gone, decision.before.database.id)
    return evolve(told, exuvia_gone=gone) if gone else told


def _as_at_rest(txn: Transaction, info: TableInfo | None) -> TableInfo | None:
    return None if info is None else meta.as_at_rest(txn, info)


def _tables(snapshot: CatalogSnapshot) -> dict[int, TableInfo]:
    own = (snapshot.table,) if snapshot.table is not None else ()
    return {each.id: each for each in (*own, *snapshot.others)}


class Follower:
    """See the module. `position`: where to go on; nothing of the store is read but the history."""

    def __init__(self) -> None:
        self.position = ""
        self.databases: dict[int, DatabaseInfo] = {}
        self._tables: dict[int, TableInfo] = {}
        self._versions: dict[int, int] = {}  # of databases and tables, those that are gone too

    @property
    def tables(self) -> dict[int, TableInfo]:
        """Every table of a database that is there, by id."""
        found = self._tables.items()
        return {key: each for key, each in found if each.exuvia_db in self.databases}

    def step(self, store: Store) -> int:
        """Read what ended since; how many jobs."""
        found = store.changes(_HISTORY.row_span(), self.position)
        news = [decode(_HISTORY.decode(payload)[_JOB_META]).binlog for _, payload in found.pairs]
        for left in sorted(news, key=attrgetter("SchemaVersion")):
            self._take(left)
        self.position = found.position
        return len(news)

    def _take(self, left: Binlog) -> None:
        gone = frozenset(left.exuvia_gone or ())
        tables = (*((left.TableInfo,) if left.TableInfo else ()), *(left.MultipleTableInfos or ()))
        for info in tables:
            if info.id not in gone and self._is_newer(info.id, left.SchemaVersion):
                self._tables[info.id] = whole_layouts(info)
        database = left.DBInfo
        if database is None or database.id in gone:
            pass
        elif self._is_newer(database.id, left.SchemaVersion):
            self.databases[database.id] = database
        for each in gone:
            if self._is_newer(each, left.SchemaVersion):
                self._tables.pop(each, None)
                self.databases.pop(each, None)

    def _is_newer(self, element_id: int, version: int) -> bool:
        if self._versions.get(element_id, -1) > version:
            return False
        self._versions[element_id] = version
        return True
