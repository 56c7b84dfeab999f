"""Upgrades a store of an older format to this program's while nodes run (seed 000).

    format 1, jobs in lists     become owner -> one transaction moves every job and its finished
                                spans into the tables: format 2 -> this owner continues with them
    a system table lacks a      ADD COLUMN, an ordinary job: any owner runs it, also an older
    column of this program      program, which need not know what the column is for
    nothing is missing          become owner -> the format is this program's
    older members live          no older member joins any more, and the present ones run until they
                                are replaced; then layouts of tables may be brief (keys.BRIEF), and
                                names of CHECKs get their keys (keys.CHECK_NAMES)

Each is one step of a loop, and any number of new nodes may try: a second migration finds nothing, a
second column is refused (1060). No user job is paused: jobs step under both formats. Only a step
that overlaps the migration is refused, and is tried again.
"""

from collections.abc import Iterator
from functools import partial

from exuvia import __version__
from exuvia.base.clock import Then
from exuvia.base.errors import Conflict, Deposed
from exuvia.catalog import bootstrap, meta
from exuvia.catalog.model import evolve
from exuvia.catalog.system_tables import DATABASES, SYSTEM
from exuvia.cluster import member as members
from exuvia.cluster.owner import Campaign
from exuvia.ddl import queue, requests, two_queues
from exuvia.ddl.job import Job
from exuvia.ddl.submit import Submitter
from exuvia.kv import keys
from exuvia.kv.store import Store
from exuvia.kv.transaction import ONCE, Transaction

LISTS_FORMAT = 1
TABLES_FORMAT = 2
DONE_S = 1.0
AGAIN_S = 0.05
MOST_TABLES = 500  # per transaction that writes the names of their CHECKs


class Upgrade:
    """Upgrades the store: stepped until `done`, then idle."""

    channel = "history"

    def __init__(self, store: Store, campaign: Campaign, submitter: Submitter) -> None:
        self._store = store
        self._campaign = campaign
        self._submitter = submitter
        self._column_job = 0
        self._named = 0  # CHECK names of tables up to this id have their keys
        self.done = False

    def step(self, now: float) -> float:
        """One step of the upgrade. Returns seconds until the next."""
        if self.done:
            return DONE_S
        try:
            return self._store.transact(self._advance, ONCE)()
        except (Conflict, Deposed):
            return AGAIN_S

    def _advance(self, txn: Transaction) -> Then:
        store_format = keys.read_number(txn.get(keys.FORMAT))
        if store_format >= bootstrap.FORMAT_VERSION:
            return self._with_brief_layouts(txn)
        if store_format == LISTS_FORMAT:
            return self._as_owner(txn, TABLES_FORMAT)
        if self._column_job and queue.get(txn, self._column_job) is not None:
            return lambda: AGAIN_S  # the owner, of any release, runs it
        missing = next(lacking(txn), None)
        if missing is not None:
            return partial(self._submit_column, missing)
        return self._as_owner(txn, bootstrap.FORMAT_VERSION)

    def _with_brief_layouts(self, txn: Transaction) -> Then:
        if txn.get(keys.BRIEF) is None:
            if members.before_0_4(txn):
                return lambda: DONE_S
            txn.put(keys.BRIEF, b"")
        return self._with_check_names(txn)

    def _with_check_names(self, txn: Transaction) -> Then:
        if txn.get(keys.CHECK_NAMES) is not None:
            return self._end
        if members.before_0_5(txn):
            return lambda: DONE_S
        last = meta.fill_check_names(txn, self._named, MOST_TABLES)
        return partial(self._go_on, last)

    def _go_on(self, last: int | None) -> float:
        self._named = last or self._named
        return 0.0

    def _end(self) -> float:
        self.done = True
        return DONE_S

    def _submit_column(self, missing: Job) -> float:
        self._column_job = self._submitter.submit_nowait(missing)
        return 0.0

    def _demand(self) -> float:
        self._campaign.demand()
        return 0.0

    def _as_owner(self, txn: Transaction, target_format: int) -> Then:
        """Write the next format as the owner, or demand the ownership first."""
        if not self._campaign.is_owner:
            return self._demand
        self._campaign.guard(txn)
        jobs = two_queues.migrate(txn) if target_format == TABLES_FORMAT else []
        txn.put(keys.FORMAT, keys.number(target_format))
        txn.put(keys.RELEASE, __version__.encode())
        for job in jobs:
            queue.insert(txn, job)
        txn.notify("job")
        return lambda: 0.0


def lacking(txn: Transaction) -> Iterator[Job]:
    """A job for each column of this program's system tables that the stored tables lack."""
    for expected in SYSTEM.values():
        stored = meta.get_table(txn, expected.id)
        if stored is not None:
            names = {column.name.L for column in stored.cols}
            for column in expected.cols:
                if column.name.L not in names:
                    query = f"ALTER TABLE mysql.{stored.name.O} ADD COLUMN {column.name.O}"
                    # the value of rows written before it
                    added = evolve(column, origin_default=column.default)
                    yield requests.add_column(DATABASES[-1], stored, added, query=query)
