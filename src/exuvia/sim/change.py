"""The schema change of a seed: asked for once, perhaps cancelled by somebody who cannot wait."""

from collections.abc import Callable
from random import Random
from typing import NamedTuple

from exuvia.base.errors import Conflict, Deposed
from exuvia.base.types import FieldType, Flag, TypeCode
from exuvia.catalog import meta
from exuvia.catalog.model import (
    ColumnInfo,
    DatabaseInfo,
    IndexColumn,
    IndexInfo,
    TableInfo,
    evolve,
    name,
)
from exuvia.catalog.table import with_layout
from exuvia.ddl import queue, requests
from exuvia.ddl.codes import JobState
from exuvia.ddl.job import Job
from exuvia.kv.store import Store

INT = FieldType(Tp=TypeCode.LONG, Flen=11, Decimal=0)
KEY = evolve(INT, Flag=Flag.NOT_NULL | Flag.PRI_KEY | Flag.BINARY)
CANCELLED_SHARE = 0.3


class Plan(NamedTuple):
    """What a seed changes: a title, and how to ask for it."""

    title: str
    ask: Callable[[TableInfo, DatabaseInfo], Job]


def table_of_the_world(database_id: int, table_id: int) -> TableInfo:
    """t(id INT PRIMARY KEY, a INT, b INT DEFAULT 5)."""
    columns = (
        ColumnInfo(id=1, name=name("id"), offset=0, type=KEY),
        ColumnInfo(id=2, name=name("a"), offset=1, type=INT),
        ColumnInfo(id=3, name=name("b"), offset=2, type=INT, default="5", origin_default="5"),
    )
    return with_layout(
        TableInfo(
            id=table_id,
            name=name("t"),
            cols=columns,
            pk_is_handle=True,
            max_col_id=3,
            exuvia_db=database_id,
        )
    )


def _index(unique: bool) -> IndexInfo:
    part = IndexColumn(name=name("a"), offset=1, exuvia_column=2)
    return IndexInfo(id=0, idx_name=name("by_a"), idx_cols=(part,), is_unique=unique)


_NEW = ColumnInfo(id=0, name=name("c"), offset=3, type=INT, default="7", origin_default="7")

_PLAIN = Plan("add index", lambda t, d: requests.add_index(d, t, _index(False)))
_UNIQUE = Plan("add unique index", lambda t, d: requests.add_index(d, t, _index(True)))

PLANS = (
    _PLAIN,
    _PLAIN,
    _UNIQUE,
    _UNIQUE,
    Plan("add column", lambda t, d: requests.add_column(d, t, _NEW)),
    Plan("drop column", lambda t, d: requests.drop_column(d, t, "b")),
)


class Asker:
    """Writes the job into the queue, and may cancel it later. An actor of no process."""

    def __init__(self, store: Store, plan: Plan, table_id: int, random: Random) -> None:
        self._store = store
        self._plan = plan
        self._table_id = table_id
        self._random = random
        self.job_id = 0
        self._cancels = random.random() < CANCELLED_SHARE
        self._patience = random.randrange(1, 60)

    def step(self, now: float) -> float:
        """Ask, or cancel; seconds until the next thought."""
        if not self.job_id:
            self._ask()
        elif self._cancels:
            self._patience -= 1
            if self._patience < 0:
                self._cancel()
        return 0.01

    def _ask(self) -> None:
        txn = self._store.begin()
        table = meta.get_table(txn, self._table_id)
        assert table is not None
        database = meta.get_database(txn, table.exuvia_db)
        assert database is not None
        job = evolve(self._plan.ask(table, database), id=meta.next_ids(txn))
        queue.insert(txn, job)
        txn.notify("job")
        try:
            txn.commit()
            self.job_id = job.id
        except Conflict:
            txn.rollback()  # asked again at the next step

    def _cancel(self) -> None:
        txn = self._store.begin()
        job = queue.get(txn, self.job_id)
        self._cancels = False
        if job is None or job.state not in (JobState.QUEUEING, JobState.RUNNING, JobState.NONE):
            txn.rollback()
            return
        queue.update(txn, evolve(job, state=JobState.CANCELLING))
        txn.notify("job")
        try:
            txn.commit()
        except (Conflict, Deposed):
            self._cancels = True  # the owner stepped meanwhile

    def ended(self) -> Job | None:
        """The job, once it is in history."""
        txn = self._store.begin()
        try:
            return queue.finished(txn, self.job_id) if self.job_id else None
        finally:
            txn.rollback()
