"""Foreign keys by seed: a parent and its child, clients that write both, a change of either.

Clients are real sessions (sql/session) in optimistic transactions, which never wait. Nodes, kills,
pauses and late tasks are those of `world`. After every commit that wrote one of the tables:

keys     where a foreign key is public, every child has its parent
law 5    the indexes of both tables are as their states require
"""

import threading
from collections.abc import Callable, Iterable
from functools import cache
from random import Random
from typing import NamedTuple

from exuvia.base.errors import Conflict, Deposed, Refused, Unavailable, WouldWait
from exuvia.catalog import meta, reader
from exuvia.catalog.autoid import IdAllocator
from exuvia.catalog.infoschema import Schemas
from exuvia.ddl.gc_worker import GcWorker
from exuvia.kv.memory import MemoryStore
from exuvia.node.assemble import EVALUATOR
from exuvia.sim import laws
from exuvia.sim.change import ChangePlan, ChangeSubmitter
from exuvia.sim.laws import History, SeedVerdict
from exuvia.sim.process import SESSIONS, Actor, SimulatedProcess, SteppedLoop
from exuvia.sim.session import FrontSeat
from exuvia.sim.statements import (
    QueueWriter,
    StatementSubmitter,
    by_statement,
    outside_session,
    store_after,
    submitters_in_turn,
)
from exuvia.sim.world import World, play
from exuvia.sql.session.session import Session
from exuvia.sql.statement.services import Services

PARENTS, CHILDREN = range(1, 5), range(1, 9)
SLOWER = 4.0
MOST_STATEMENTS = 2
LINGERS, LINGERS_S = 0.3, 1.0
PATIENT, PATIENT_S, LATE_S = 0.5, 4.0, 0.5
HURRIES = 0.1

PARENT = "CREATE TABLE p (id INT PRIMARY KEY, u INT, v INT, UNIQUE u1 (u), UNIQUE u2 (u))"
CHILD = "CREATE TABLE c (id INT PRIMARY KEY, p INT, w INT, KEY i1 (p), KEY i2 (p))"
KEY = "ALTER TABLE c ADD CONSTRAINT k FOREIGN KEY (p) REFERENCES p (u)"


class Case(NamedTuple):
    """The submitted statements. `keyed`: whether the foreign key exists before."""

    statements: tuple[str, ...]
    keyed: bool = True
    in_turn: bool = False


CASES = {
    "drop index of parent": Case(("ALTER TABLE p DROP INDEX u1",)),
    "drop index of child": Case(("ALTER TABLE c DROP INDEX i1",)),
    "add foreign key": Case((KEY,), keyed=False),
    "drop and add a key": Case(
        ("ALTER TABLE c DROP FOREIGN KEY k", KEY.replace(" k ", " k2 ")), in_turn=True
    ),
    "both tables": Case(("ALTER TABLE p DROP INDEX u1", "ALTER TABLE c DROP INDEX i1")),
    "index and key": Case(("ALTER TABLE p ADD UNIQUE u3 (u)", KEY), keyed=False),
    "types": Case(("ALTER TABLE p MODIFY u BIGINT", "ALTER TABLE c MODIFY p BIGINT")),
}


KEY_PLANS = tuple(ChangePlan(title, by_statement) for title in CASES)


class ForeignKeyClient:
    """A client that begins, writes a few rows of either table and commits, without waiting. One of
    its transactions may be patient: it commits one row after the changes have ended
    (`are_over`)."""

    def __init__(
        self,
        services: Services,
        name: str,
        random: Random,
        history: History,
        thinking_s: tuple[float, ...],
        are_over: Callable[[], bool],
    ) -> None:
        self.name = name
        self._session = Session(services, 1, database="world")
        self._random = random
        self._history = history
        self._thinking_s = thinking_s
        self._statements: list[str] = []
        self._statement_count = 0
        self._are_over = are_over
        self._is_patient = True
        self._until_s = 0.0  # end of its patience, by its node's clock

    @property
    def is_idle(self) -> bool:
        """Whether no transaction is open."""
        return self._session.current is None

    def step(self, now: float) -> float:
        """Runs one statement. Returns seconds until the next."""
        if self._session.current is not None and self._until_s > now:
            if self._are_over():
                self._until_s = 0.0
                return self._random.random() * LATE_S
            return 0.1
        try:
            self._act(now)
        except (Refused, Conflict, Deposed, Unavailable, WouldWait) as error:
            self._note(f"{self._session.statement}: {error!r}")
        if len(self._statements) == self._statement_count and self._random.random() < LINGERS:
            return self._random.random() * LINGERS_S
        return self._random.random() * self._random.choice(self._thinking_s) * SLOWER

    def _act(self, now: float) -> None:
        session = self._session
        if session.current is None:
            self._statements.clear()
            self._statement_count = self._random.randrange(1, MOST_STATEMENTS + 1)
            session.execute("BEGIN OPTIMISTIC")
            self._until_s = 0.0
            if self._is_patient and self._random.random() < PATIENT and not self._are_over():
                self._is_patient = False
                self._statement_count, self._until_s = 0, now + PATIENT_S
                number, u = self._random.randrange(100, 1000), self._random.choice(PARENTS)
                insert, delete = (
                    f"INSERT INTO c VALUES ({number}, {u}, 0)",
                    f"DELETE FROM p WHERE u = {u}",
                )
                text = self._random.choice((insert, insert, delete))
                self._statements.append(text)
                self._note(f"patiently: {text}")
                session.execute(text)
                return
        if len(self._statements) < self._statement_count:
            text = self._statement()
            self._statements.append(text)
            session.execute(text)
            return
        self._note("commits " + "; ".join(self._statements))
        session.execute("COMMIT")
        self._history.commits += 1

    def _note(self, text: str) -> None:
        self._history.note(f"{self.name}: {text}")

    def _statement(self) -> str:
        n, u = self._random.choice(CHILDREN), self._random.choice(PARENTS)
        number = self._random.randrange(9)
        texts = (
            f"INSERT INTO p VALUES ({u}, {u}, {n})",
            f"INSERT INTO p VALUES ({u}, {u}, {n})",
            f"DELETE FROM p WHERE u = {u}",
            f"DELETE FROM p WHERE u = {u}",
            f"UPDATE p SET v = v + {n} WHERE id = {u}",
            f"INSERT INTO c VALUES ({n}, {u}, 0)",
            f"INSERT INTO c VALUES ({n}, {u}, 0)",
            f"DELETE FROM c WHERE id = {n}",
            f"UPDATE c SET p = {u} WHERE id = {n}",
        )
        return texts[number]


class _Unhurried:
    """A loop that rarely runs."""

    def __init__(self, loop: SteppedLoop, random: Random) -> None:
        self._loop = loop
        self._random = random

    def step(self, now: float) -> float:
        """Runs the loop with probability HURRIES. Returns seconds until the next step."""
        return self._loop.step(now) if self._random.random() < HURRIES else 0.2


class KeysWorld(World):
    """A world with a parent and a child table."""

    def __init__(self, seed: int, plans: tuple[ChangePlan, ...] = KEY_PLANS) -> None:
        super().__init__(seed, plans)

    def _stored(self) -> MemoryStore:
        store = _template(CASES[self.plan.title].keyed).fork()
        with store.read() as txn:
            (database,) = (e for e in meta.list_databases(txn) if e.db_name.L == "world")
            names = dict(meta.table_names(txn, database.id))
        self._parent, self._child = names["p"], names["c"]
        self._reads = (*laws.reads(self._parent), *laws.reads(self._child))
        return store

    def _populate(self) -> None:
        """Inserts nothing: the template has rows."""

    def _submitters(self) -> list[ChangeSubmitter]:
        case = CASES[self.plan.title]
        if case.in_turn:
            return submitters_in_turn(self.people, self.plan, self.random, case.statements)
        return [
            StatementSubmitter(self.people, self.plan, self.random, text, None)
            for text in case.statements
        ]

    def _start(self, process: SimulatedProcess) -> None:
        """Deletes a dropped index's entries late, so that old entries stay for a while."""
        super()._start(process)
        for actor in process.actors:
            if isinstance(actor.loop, GcWorker):
                actor.loop, actor.channel = _Unhurried(actor.loop, self.random), ""

    def _event_source(self, seed: int) -> None:
        return None

    def _clients(
        self, seat: FrontSeat, process: SimulatedProcess, thinking_s: tuple[float, ...]
    ) -> list[Actor]:
        services = Services(
            store=seat.store,
            schemas=Schemas(seat.store, evaluator=EVALUATOR),
            ids=IdAllocator(seat.store),
            submitter=QueueWriter(seat.store),  # type: ignore[arg-type]
            locks=seat.locks,
            member=seat.member,
            clock=seat.clock,
        )
        services.row_locks.unwaiting = threading.get_ident()
        actors = []
        for n in range(SESSIONS):
            name = f"{process.name}/c{n}"
            client = ForeignKeyClient(
                services, name, self.random, self.history, thinking_s, self.changes_are_over
            )
            actors.append(Actor(name, client))
        return actors

    def _judge(self, written: Iterable[bytes]) -> None:
        if not laws.touched(written, self._reads):
            return
        with self.shared.read() as txn:
            parent = laws.present_table(txn, self._parent)
            child = laws.present_table(txn, self._child)
            if parent is None or child is None:
                return
            laws.require_parents(txn, child, parent)
            for table in (parent, child):
                laws.require_index_promises(txn, table, dict(reader.scan(txn, table)))

    def judge_end(self) -> None:
        for table_id in (self._parent, self._child):
            laws.check_end(self.shared, table_id)
        for submitter in self.submitters:
            laws.check_job(submitter.ended())


@cache
def _template(keyed: bool) -> MemoryStore:
    store = store_after((PARENT, CHILD, *((KEY,) if keyed else ())))
    outside_session(store).execute(
        "INSERT INTO p VALUES " + ", ".join(f"({n}, {n}, 0)" for n in PARENTS)
    )
    return store


def simulate(seed: int, plans: tuple[ChangePlan, ...] = KEY_PLANS) -> SeedVerdict:
    """Returns the verdict of a seed."""
    return play(KeysWorld(seed, plans), seed)
