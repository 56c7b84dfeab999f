"""Schema changes asked for by their statements, and stores in which such statements have ended.

StatementAsker   one statement of a seed; it may wait until the one before has ended
made(...)        a store with the database `world`, after these statements, one after another
person(store)    a session of nobody's node: what it asks for is in the queue (Asked)
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
from exuvia.sim.change import Asker, ChangePlan
from exuvia.sim.process import Actor, SimulatedProcess
from exuvia.sim.session import FrontSeat
from exuvia.sim.world import World
from exuvia.sql.session.session import Session
from exuvia.sql.statement.services import Services


def by_statement(table: TableInfo, database: DatabaseInfo) -> Job:
    """Stands in a plan whose changes are asked for by StatementAskers. Raises Broken."""
    raise Broken("its statements are asked for, not the plan")


class Asked(BaseException):
    """A job is in the queue; nobody waits for it. `job`: as it was asked for."""

    def __init__(self, job_id: int, job: Job) -> None:
        super().__init__(job_id)
        self.job_id = job_id
        self.job = job


class _Outsider:
    """Stands for a member that is never fenced: a person's client."""

    def guarding(self) -> Equal:
        return Equal(keys.FORMAT, keys.number(FORMAT_VERSION))  # what always holds

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
    """Puts a job into the queue and lets nobody wait."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def submit_nowait(self, job: Job, admit: Admit) -> int:
        """Raises Asked once the job is there, Conflict where it is to be asked for again."""

        def ask(txn: Transaction) -> int:
            admit(txn)
            (asked,) = numbered(txn, [job], 0)
            queue.insert(txn, asked)
            txn.notify("job")
            return asked.id

        raise Asked(self._store.transact(ask, ONCE), job)


def person(store: Store, database: str = "world") -> Session:
    """Who asks for schema changes."""
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


class StatementAsker(Asker):
    """See the module."""

    def __init__(
        self,
        store: Store,
        plan: ChangePlan,
        random: Random,
        statement: str,
        before: "StatementAsker | None",
    ) -> None:
        super().__init__(store, plan, 0, random)
        self._statement = statement
        self._before = before

    def _ask(self) -> None:
        if self._before is not None and self._before.ended() is None:
            return
        session = person(self._store)
        if "MODIFY" in self._statement:  # 3780 otherwise
            session.execute("SET foreign_key_checks = OFF")
        try:
            session.execute(self._statement)
        except Asked as asked:
            self.job_id = asked.job_id
        except Conflict:
            return  # asked again at the next step


def one_after_another(
    store: Store, plan: ChangePlan, random: Random, statements: Sequence[str]
) -> list[Asker]:
    """Askers of these statements."""
    found: list[StatementAsker] = []
    for text in statements:
        found.append(StatementAsker(store, plan, random, text, found[-1] if found else None))
    return [*found]


class _Making(World):
    """A world where nothing happens but what is asked for, one after another."""

    def __init__(self, statements: Sequence[str]) -> None:
        self._statements = statements
        super().__init__(0, (ChangePlan("making", by_statement),))

    def _stored(self) -> MemoryStore:
        self.faults = False
        store = MemoryStore()
        bootstrap(store)
        store.transact(_create_database)
        return store

    def _askers(self) -> list[Asker]:
        return one_after_another(self.people, self.plan, self.random, self._statements)

    def _populate(self) -> None:
        """There is no table yet."""

    def _teller(self, seed: int) -> None:
        return None

    def _clients(
        self, seat: FrontSeat, process: SimulatedProcess, thinking_s: tuple[float, ...]
    ) -> list[Actor]:
        return []

    def _judge(self, written: Iterable[bytes]) -> None:
        """Nothing to hold yet."""

    def ended(self) -> MemoryStore:
        """The store when all of it is done and every process has ended."""
        while not self.converged():
            self.step()
        for each in self.processes:
            each.kill(0.0)
        return self.shared


def made(statements: Sequence[str]) -> MemoryStore:
    """See the module."""
    return _Making(statements).ended()


def job_of(store: Store, statement: str) -> Job:
    """What a statement asks for; the store has it in its queue afterwards."""
    try:
        person(store).execute(statement)
    except Asked as asked:
        return asked.job
    raise Broken(f"nothing is asked for by {statement}")
