"""The schema change of a seed: submitted once, and perhaps cancelled later."""

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from random import Random
from typing import NamedTuple

from exuvia.base.errors import Conflict, Deposed
from exuvia.base.types import FieldType, Flag, TypeCode
from exuvia.catalog import meta
from exuvia.catalog.codec.key_encoder import encoder_of
from exuvia.catalog.convert.type_change import kind_of
from exuvia.catalog.model import (
    ColumnInfo,
    DatabaseInfo,
    IndexColumn,
    IndexInfo,
    PredicateTerm,
    TableInfo,
    evolve,
    name,
)
from exuvia.catalog.table import with_layout
from exuvia.cluster.owner import owner_of
from exuvia.ddl import queue, requests
from exuvia.ddl.actions.modify_column import Modification
from exuvia.ddl.job import Job, JobState
from exuvia.ddl.multi_schema_change import combined
from exuvia.kv.store import Store
from exuvia.kv.transaction import ONCE, Transaction

INT = FieldType(Tp=TypeCode.LONG, Flen=11, Decimal=0)
KEY = evolve(INT, Flag=Flag.NOT_NULL | Flag.PRI_KEY | Flag.BINARY)
CANCELLED_SHARE = 0.3
CANCELS_AT = (1, 2, 3, 4, 5, None, None, None, None)
"""Versions of the job at which it is cancelled; None: when its reorg starts."""


class ChangePlan(NamedTuple):
    """A seed's change: its title, and the function that returns its job."""

    title: str
    ask: Callable[[TableInfo, DatabaseInfo], Job]
    indexed: bool = False  # the table has an index on the column from the start
    views: tuple[frozenset[str], ...] = ()  # all sets of names that clients may see, if known


_BOTH = IndexInfo(
    id=1,
    idx_name=name("by_both"),
    idx_cols=(
        IndexColumn(name=name("b"), offset=2, exuvia_column=3),
        IndexColumn(name=name("a"), offset=1, exuvia_column=2),
    ),
    is_unique=True,
)


def table_of_the_world(database_id: int, table_id: int, indexed: bool) -> TableInfo:
    """Returns t(id INT PRIMARY KEY, a INT, b INT DEFAULT 5), optionally with an index on b and
    a."""
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
            max_idx_id=1,
            index_info=(_BOTH,) if indexed else None,
            exuvia_db=database_id,
        )
    )


def _index(unique: bool) -> IndexInfo:
    part = IndexColumn(name=name("a"), offset=1, exuvia_column=2)
    return IndexInfo(id=0, idx_name=name("by_a"), idx_cols=(part,), is_unique=unique)


def _partial(unique: bool) -> IndexInfo:
    """Returns an index on b for rows with a > 0: an update of a alone adds or removes an entry."""
    above = PredicateTerm(
        name=name("a"),
        operator=">",
        written="0",
        keys=(encoder_of(INT)(0).hex(),),
        exuvia_column=2,
    )
    return IndexInfo(
        id=0,
        idx_name=name("by_both" if unique else "by_b"),
        idx_cols=_BOTH.idx_cols if unique else _BOTH.idx_cols[:1],
        is_unique=unique,
        exuvia_predicate=(above,),
    )


_NEW = ColumnInfo(id=0, name=name("c"), offset=3, type=INT, default="7", origin_default="7")

_PLAIN = ChangePlan("add index", lambda t, d: requests.add_index(d, t, _index(False)))
_PARTIAL = ChangePlan("add partial index", lambda t, d: requests.add_index(d, t, _partial(False)))
_PARTIAL_UNIQUE = ChangePlan(
    "add partial unique index", lambda t, d: requests.add_index(d, t, _partial(True))
)
_UNIQUE = ChangePlan("add unique index", lambda t, d: requests.add_index(d, t, _index(True)))


def _changed(flag: int = 0, **kind: object) -> Callable[[TableInfo, DatabaseInfo], Job]:
    """Returns a function that submits MODIFY COLUMN a."""

    def ask(table: TableInfo, database: DatabaseInfo) -> Job:
        old = table.cols[1]
        new = evolve(old, type=evolve(INT, Flag=flag, **kind))
        modification = Modification(
            column=new,
            old_column_name="a",
            old_type=old.type,
            kind=kind_of(old.type, new.type, bool(table.indexes)),
        )
        return requests.modify_column(database, table, modification)

    return ask


def _all_of(table: TableInfo, database: DatabaseInfo) -> Job:
    """Returns DROP COLUMN b, ADD COLUMN c, ADD INDEX by_a as one job."""
    return combined(
        [
            requests.drop_column(database, table, "b"),
            requests.add_column(database, table, _NEW),
            requests.add_index(database, table, _index(False)),
        ]
    )


_SEVERAL = ChangePlan(
    "several changes",
    _all_of,
    views=(frozenset({"id", "a", "b"}), frozenset({"id", "a", "c", "by_a"})),
)
_DOUBLE = {"Tp": TypeCode.DOUBLE, "Flen": 22, "Decimal": -1}
_REWRITTEN = ChangePlan("modify column", _changed(**_DOUBLE), indexed=True)
_REBUILT = ChangePlan("modify column, indexes", _changed(int(Flag.UNSIGNED)), indexed=True)
_CHECKED = ChangePlan("modify column, checked", _changed(int(Flag.NOT_NULL)))

PLANS = (
    _PLAIN,
    _PLAIN,
    _UNIQUE,
    _UNIQUE,
    _PARTIAL,
    _PARTIAL_UNIQUE,
    ChangePlan("add column", lambda t, d: requests.add_column(d, t, _NEW)),
    ChangePlan("drop column", lambda t, d: requests.drop_column(d, t, "b")),
    _REWRITTEN,
    _REWRITTEN,
    _REBUILT,
    _CHECKED,
    _CHECKED,
    _SEVERAL,
    _SEVERAL,
)


class ChangeSubmitter:
    """Puts the job into the queue, and may cancel it later. An actor without a process."""

    def __init__(self, store: Store, plan: ChangePlan, table_id: int, random: Random) -> None:
        self._store = store
        self._plan = plan
        self._table_id = table_id
        self._random = random
        self.job_id = 0
        self._ended: Job | None = None
        self._cancels = random.random() < CANCELLED_SHARE
        self._cancels_at = random.choice(CANCELS_AT)

    def step(self, now: float) -> float:
        """Submits, or cancels. Returns seconds until the next step."""
        if not self.job_id:
            self._ask()
            return math.inf if self.job_id else 0.01
        if self._cancels:
            self._cancel()
            return 0.01 if self._cancels else math.inf
        return math.inf

    def wants_to_cancel(self, version: int, channels: Sequence[str]) -> bool:
        """Whether the current commit is the one at which it cancels."""
        if not self._cancels or not self.job_id:
            return False
        now = "reorg" in channels if self._cancels_at is None else "version" in channels
        return now and self._cancels_at in (None, version)

    def _ask(self) -> None:
        def ask(txn: Transaction) -> int:
            table = meta.get_table(txn, self._table_id)
            if owner_of(txn, "ddl") is None:
                return 0  # without an owner no job starts, so clients' writes would not matter
            assert table is not None
            database = meta.get_database(txn, table.exuvia_db)
            assert database is not None
            (job,) = queue.numbered(txn, [self._plan.ask(table, database)], 0)
            queue.insert(txn, self._with_assent(txn, job))
            txn.notify("job")
            return job.id

        with suppress(Conflict):  # submitted again at the next step
            self.job_id = self._store.transact(ask, ONCE)

    def _with_assent(self, txn: Transaction, job: Job) -> Job:
        """Returns the job, in a subclass with a front's acknowledgement in advance."""
        return job

    def _cancel(self) -> None:
        def cancel(txn: Transaction) -> None:
            job = queue.get(txn, self.job_id)
            if job is not None and job.state in (
                JobState.QUEUEING,
                JobState.RUNNING,
                JobState.NONE,
            ):
                queue.update(txn, evolve(job, state=JobState.CANCELLING))
                txn.notify("job")

        self._cancels = False
        try:
            self._store.transact(cancel, ONCE)
        except (Conflict, Deposed):
            self._cancels = True  # the owner committed a step concurrently

    def ended(self) -> Job | None:
        """Returns the job once it is in history, else None."""
        if self._ended is None and self.job_id:
            with self._store.read() as txn:
                self._ended = queue.finished(txn, self.job_id)
        return self._ended
