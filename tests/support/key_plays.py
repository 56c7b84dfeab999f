"""A schema change step by step between the statements of real sessions, all in one thread.

    play = Play("CREATE TABLE ..", "INSERT ..", change="ALTER TABLE ..")
    one, other = play.session(), play.session()
    play.step()           the change's next step has been committed; its job, once that has ended

The sessions hold no metadata locks: the store alone decides what may commit (law 1). The tables are
made once for the same statements; every play begins on a copy.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

from exuvia.catalog import meta
from exuvia.catalog.autoid import IdAllocator
from exuvia.catalog.table import Table
from exuvia.ddl import queue
from exuvia.ddl.job import Job
from exuvia.kv.memory import MemoryStore
from exuvia.kv.store import Store
from exuvia.node.assemble import JUDGE
from exuvia.pipeline.reorgs import open_reorg
from exuvia.sql.session.session import Session
from exuvia.sql.statement.services import Services
from support.small_cluster import SmallCluster

ROUNDS = 500


class Asked(BaseException):
    """A schema change that nobody waits for."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self.job = job


class _Asking:
    """Stands for the submitter."""

    def submit_nowait(self, job: Job) -> int:
        raise Asked(job)


def _reorgs(store: Store) -> Callable[..., Any]:
    return lambda job_id, epoch, table, plan: open_reorg(
        store, job_id, epoch, table, plan, None, JUDGE
    )


class _Cluster:
    """One front, one owner, stepped by hand."""

    def __init__(self, store: MemoryStore | None = None) -> None:
        self.cluster = SmallCluster(reorgs=_reorgs, store=store)
        self.cluster.step()
        front = self.cluster.fronts[0]
        self._services = Services(
            store=self.cluster.store,
            schemas=front.schemas,
            ids=IdAllocator(self.cluster.store),
            submitter=_Asking(),  # type: ignore[arg-type]
            locks=front.locks,
            member=front.member,
            clock=self.cluster.clock,
            pause=lambda attempt: None,
        )
        self._connections = 0

    def session(self) -> Session:
        """A client without metadata locks."""
        self._connections += 1
        session = Session(self._services, self._connections, database="test")
        session.settings.metadata_lock = False
        return session

    def asked(self, session: Session, text: str) -> Job:
        """The job that a statement asks for."""
        try:
            session.execute(text)
        except Asked as asked:
            return asked.job
        raise AssertionError(f"no schema change: {text}")


@cache
def _prepared(statements: tuple[str, ...]) -> MemoryStore:
    made = _Cluster()
    session = made.session()
    for text in statements:
        try:
            session.execute(text)
        except Asked as asked:
            job = made.cluster.run(asked.job)
            assert job.error() is None, (text, job.error())
    for each in (made.cluster.owner, *made.cluster.fronts):
        each.member.leave()
    return made.cluster.store


class Play(_Cluster):
    """See the module."""

    def __init__(self, *statements: str, change: str, checks: bool = True) -> None:
        super().__init__(_prepared(statements).fork())
        session = self.session()
        if not checks:
            session.execute("SET foreign_key_checks = OFF")
        self._job = self.cluster.submit(self.asked(session, change))

    def table(self, name: str) -> Table:
        """As it stands now."""
        return self.cluster.table(name)

    def step(self) -> Job | None:
        """Until a revision has moved, or the job has ended: it is told then."""
        before = self._revisions()
        for _ in range(ROUNDS):
            self.cluster.step()
            job = self.cluster.read(lambda txn: queue.finished(txn, self._job))
            if job is not None or self._revisions() != before:
                return job
        raise AssertionError("the job does not move")

    def _revisions(self) -> dict[str, int]:
        def look(txn: Any) -> dict[str, int]:
            (database,) = (each for each in meta.list_databases(txn) if each.db_name.L == "test")
            names = meta.table_names(txn, database.id)
            return {name: meta.revision(txn, table_id) for name, table_id in names}

        return self.cluster.read(look)
