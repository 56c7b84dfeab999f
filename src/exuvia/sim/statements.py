"""Schema changes submitted as statements, and stores after such statements.

StatementSubmitter    one statement of a seed; it may wait for the end of the previous one
store_after(...)      a store with the database `world`, after these statements, one after another
outside_session(s)    a session without a node: its jobs are only put into the queue (Submitted)
"""

from collections.abc import Iterable, Sequence
from random import Random

from exuvia.base.clock import ManualClock
from exuvia.base.errors import Broken, Conflict
from exuvia.catalog import meta
from exuvia.catalog.autoid import IdAllocator
from exuvia.catalog.bootstrap import FORMAT_VERSION, bootstrap
from exuvia.catalog.infoschema import Schemas
from exuvia.catalog.model import DatabaseInfo, TableInfo, name
from exuvia.cluster.versions import MetadataLocks
from exuvia.ddl import queue
from exuvia.ddl.job import ActionCode, Job
from exuvia.ddl.queue import numbered
from exuvia.ddl.submit import Admit
from exuvia.kv import keys
from exuvia.kv.memory import MemoryStore
from exuvia.kv.packet import Equal
from exuvia.kv.store import Store
from exuvia.kv.transaction import ONCE, Transaction
from exuvia.node.assemble import EVALUATOR
from exuvia.sim.change import ChangePlan, ChangeSubmitter
from exuvia.sim.process import Actor, SimulatedProcess
from exuvia.sim.session import FrontSeat
from exuvia.sim.world import World
from exuvia.sql.session.session import Session
from exuvia.sql.statement.services import Services


def by_statement(table: TableInfo, database: DatabaseInfo) -> Job:
    """Placeholder for a plan whose changes are submitted as statements. Raises Broken."""
    raise Broken("its statements are asked for, not the plan")


class Submitted(BaseException):
    """A job is in the queue, and no session waits for it. `job`: as submitted."""

    def __init__(self, job_id: int, job: Job) -> None:
        super().__init__(job_id)
        self.job_id = job_id
        self.job = job


class _Outsider:
    """A member that is never fenced, for an outside session."""

    def guarding(self) -> Equal:
        return Equal(keys.FORMAT, keys.number(FORMAT_VERSION))  # always true

    def guard(self, txn: Transaction) -> None: ...

    def serving(self, now: float) -> bool:
        return True


def _create_database(txn: Transaction) -> None:
    database = DatabaseInfo(id=meta.next_ids(txn), db_name=name("world"))
    meta.put_database(txn, database)
    meta.publish(
        txn,
        type=int(ActionCode.CREATE_SCHEMA),
        schema_id=database.id,
        database_bumps={database.id: meta.STEP},
    )


class QueueWriter:
    """Puts a job into the queue without waiting for it."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def submit_nowait(self, job: Job, admit: Admit) -> int:
        """Raises Submitted once the job is in the queue, Conflict if it must be submitted again."""

        def submit(txn: Transaction) -> int:
            admit(txn)
            (queued,) = numbered(txn, [job], 0)
            queue.insert(txn, queued)
            txn.notify("job")
            return queued.id

        raise Submitted(self._store.transact(submit, ONCE), job)


def outside_session(store: Store, database: str = "world") -> Session:
    """Returns a session that submits schema changes."""
    services = Services(
        store=store,
        schemas=Schemas(store, evaluator=EVALUATOR),
        ids=IdAllocator(store),
        submitter=QueueWriter(store),  # type: ignore[arg-type]
        locks=MetadataLocks(),
        member=_Outsider(),  # type: ignore[arg-type]
        clock=ManualClock(),
    )
    return Session(services, 1, database=database)


class StatementSubmitter(ChangeSubmitter):
    """Submits one statement, after the end of `before`."""

    def __init__(
        self,
        store: Store,
        plan: ChangePlan,
        random: Random,
        statement: str,
        before: "StatementSubmitter | None",
    ) -> None:
        super().__init__(store, plan, 0, random)
        self._statement = statement
        self._before = before

    def _ask(self) -> None:
        if self._before is not None and self._before.ended() is None:
            return
        session = outside_session(self._store)
        if "MODIFY" in self._statement:  # otherwise refused with 3780
            session.execute("SET foreign_key_checks = OFF")
        try:
            session.execute(self._statement)
        except Submitted as submitted:
            self.job_id = submitted.job_id
        except Conflict:
            return  # submitted again at the next step


def submitters_in_turn(
    store: Store, plan: ChangePlan, random: Random, statements: Sequence[str]
) -> list[ChangeSubmitter]:
    """Returns submitters of these statements; each waits for the previous one."""
    submitters: list[StatementSubmitter] = []
    for text in statements:
        submitters.append(
            StatementSubmitter(store, plan, random, text, submitters[-1] if submitters else None)
        )
    return [*submitters]


class _StatementsWorld(World):
    """A world that runs only the given statements, one after another."""

    def __init__(self, statements: Sequence[str]) -> None:
        self._statements = statements
        super().__init__(0, (ChangePlan("making", by_statement),))

    def _stored(self) -> MemoryStore:
        self.faults = False
        store = MemoryStore()
        bootstrap(store)
        store.transact(_create_database)
        return store

    def _submitters(self) -> list[ChangeSubmitter]:
        return submitters_in_turn(self.people, self.plan, self.random, self._statements)

    def _populate(self) -> None:
        """Inserts nothing: there is no table yet."""

    def _event_source(self, seed: int) -> None:
        return None

    def _clients(
        self, seat: FrontSeat, process: SimulatedProcess, thinking_s: tuple[float, ...]
    ) -> list[Actor]:
        return []

    def _judge(self, written: Iterable[bytes]) -> None:
        """Checks nothing: there is no table yet."""

    def ended(self) -> MemoryStore:
        """Returns the store once all statements have ended and every process has been killed."""
        while not self.converged():
            self.step()
        for process in self.processes:
            process.kill(0.0)
        return self.shared


def store_after(statements: Sequence[str]) -> MemoryStore:
    """Returns the store after these statements."""
    return _StatementsWorld(statements).ended()


def job_of(store: Store, statement: str) -> Job:
    """Returns the job of a statement, and leaves it in the store's queue."""
    try:
        outside_session(store).execute(statement)
    except Submitted as submitted:
        return submitted.job
    raise Broken(f"nothing is asked for by {statement}")
