"""A node in this process: store, catalog, member, owner and its loops in threads, sessions on top.

    with World() as world:
        session = world.session("test")
        rows(session, "SELECT 1")           [[1]]
        error(session, "SELEKT")            (1064, "42000")
        Later(session, "UPDATE ...")        a statement that may wait for another session

`World(store)` joins another node to a store that is in use.
"""

import threading
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from exuvia.base.clock import SystemClock
from exuvia.base.errors import Refused
from exuvia.catalog.autoid import IdAllocator
from exuvia.catalog.infoschema import Loader, Schemas
from exuvia.catalog.table import Table
from exuvia.cluster.assent import withdraw
from exuvia.cluster.member import Member
from exuvia.cluster.owner import Campaign
from exuvia.cluster.questions import Answering
from exuvia.cluster.server_locks import row_locks_of
from exuvia.cluster.versions import Acknowledger, MetadataLocks, Waiter, writers
from exuvia.ddl.manager import Ddl
from exuvia.ddl.submit import Submitter
from exuvia.kv.store import Store
from exuvia.node.assemble import EVALUATOR, JUDGE, Loops, in_thread
from exuvia.node.ttl import TtlWorker
from exuvia.node.ttl_rows import ExpiredRows
from exuvia.pipeline.phase_runner import PhaseRunner
from exuvia.pipeline.reorg import Reorg
from exuvia.sql.result import Result
from exuvia.sql.session.session import Session
from exuvia.sql.statement.bindings import BindingsFollower
from exuvia.sql.statement.services import Services
from exuvia.stats.cache import FreshStatistics
from exuvia.stats.ddl_handler import NewIndexes, rows_came
from exuvia.stats.meta import Deltas
from exuvia.stats.owner import Stats
from support.tables import bootstrapped

LEASE_S = 30.0


class World:
    """See the module. `owns` = False makes a node that only serves."""

    def __init__(self, store: Store | None = None, owns: bool = True) -> None:
        self.store: Store = bootstrapped(store)
        self.clock = SystemClock()
        self.broken: list[str] = []
        self.loops = Loops(self.store, self.clock, self.broken.append)
        self._members: list[Member] = []
        self.services = self._front()
        if owns:
            self._back()
        self._connections = 0

    def _front(self) -> Services:
        store, clock = self.store, self.clock
        member = self.member = Member.join(store, clock, "front", "127.0.0.1:4000", LEASE_S)
        self._members.append(member)
        schemas = Schemas(store, evaluator=EVALUATOR)
        loader = Loader(schemas, member.loaded)
        loader.step(clock.monotonic())
        locks = MetadataLocks(withdraw=partial(withdraw, store, member))
        self.deltas = Deltas(store, member)
        services = Services(
            store=store,
            schemas=schemas,
            ids=IdAllocator(store),
            submitter=Submitter(store, schemas, member, clock, locks=locks),
            locks=locks,
            member=member,
            clock=clock,
            row_locks=row_locks_of(store, lambda: member.fence),
            named_locks=row_locks_of(store, lambda: member.fence),
            deltas=self.deltas,
        )
        acknowledger = Acknowledger(store, member, locks)
        fresh = FreshStatistics(store, services.plans.forget)
        answering = Answering(store, member, [writers(locks)])
        bindings = BindingsFollower(store, services.bindings)
        self.loops.start(loader, acknowledger, self.deltas, fresh, bindings, answering)
        return services

    def _back(self) -> None:
        store, clock = self.store, self.clock
        member = self.back = Member.join(store, clock, "back", "127.0.0.1:4000", LEASE_S)
        self._members.append(member)
        schemas = Schemas(store, evaluator=EVALUATOR)
        loader = Loader(schemas, member.loaded)
        loader.step(clock.monotonic())
        campaign = Campaign(store, member)

        def reorg(job_id: int, epoch: int, table: Table, work: Reorg) -> Any:
            keep = NewIndexes(store)
            came = partial(rows_came, store)
            return PhaseRunner(store, job_id, epoch, table, work, None, JUDGE, keep, came)

        ddl = Ddl(store, schemas, member, campaign, clock, reorg)
        waiter = Waiter(store, campaign.guard)
        self.stats = Stats(store, member, clock, schemas, in_thread)
        expiry = TtlWorker(
            store,
            schemas,
            member,
            ddl.gc_campaign,
            clock,
            lambda: ExpiredRows(store, schemas, member, clock, self.deltas),
        )
        loops = (*ddl.loops(), *self.stats.loops(), expiry)
        self.loops.start(member, campaign, waiter, loader, *loops)

    def session(self, database: str = "test", client_found_rows: bool = False) -> Session:
        """A new connection's session."""
        self._connections += 1
        return Session(
            self.services,
            self._connections,
            database=database,
            client_found_rows=client_found_rows,
        )

    def close(self) -> None:
        """Stop every loop, and leave: nobody has to wait for a lease."""
        self.loops.stop(5.0)
        self.services.row_locks.close()
        self.services.named_locks.close()
        for member in self._members:
            member.leave()
        assert not self.broken, self.broken

    def __enter__(self) -> "World":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def run(session: Session, text: str, values: Sequence[Any] | None = None) -> Result:
    """The answer to one statement."""
    found = session.execute(text, values)
    assert isinstance(found, Result)
    return found


def rows(session: Session, text: str, values: Sequence[Any] | None = None) -> list[list[Any]]:
    """The rows a query answers."""
    return [list(row) for row in run(session, text, values).rows]


def error(session: Session, text: str, values: Sequence[Any] | None = None) -> tuple[int, str]:
    """Code and SQLSTATE of the refusal a statement meets."""
    try:
        session.execute(text, values)
    except Refused as refusal:
        return refusal.code, refusal.state
    raise AssertionError(f"not refused: {text}")


PAUSE_S = 0.002
"""Between two statements of a client beside a change. One that never waits takes the processor from
the change, which takes twice its time and more, for nothing."""


# -- a statement that may wait ---------------------------------------------------------------------

WAITS_S, OTHER_S = 5.0, 0.1
_OF_ROWS = ("SELECT", "INSERT", "UPDATE", "DELETE", "REPLACE")
_OF_NAMES = ("GET_LOCK", "SLEEP")
DONE_S = 20.0


class Later(threading.Thread):
    """A statement that waits. `answer()` is its result or its error's code; `computes`: it is one
    that runs for long and waits for nobody."""

    def __init__(self, session: Session, text: str, computes: bool = False) -> None:
        super().__init__(daemon=True)
        self._session = session
        self._text = text
        self._answer: Result | int | None = None
        self.start()
        of_others = computes or any(name in text for name in _OF_NAMES)
        of_rows = text.startswith(_OF_ROWS) and not of_others
        deadline = time.monotonic() + (WAITS_S if of_rows else OTHER_S)
        while self.is_alive() and not self._is_queued() and time.monotonic() < deadline:
            self.join(0.002)

    def _is_queued(self) -> bool:
        """Whether the table of locks has it among those who wait."""
        locks = self._session.services.row_locks
        return locks.is_queued(self._session.transactions.locker)

    def run(self) -> None:
        try:
            found = self._session.execute(self._text)
            assert isinstance(found, Result)
            self._answer = found
        except Refused as refusal:
            self._answer = refusal.code

    def waits(self) -> bool:
        return self.is_alive()

    def answer(self) -> Result | int | None:
        self.join(DONE_S)
        assert not self.is_alive(), self._text
        return self._answer

    def rows(self) -> list[list[Any]]:
        found = self.answer()
        assert isinstance(found, Result), found
        return [list(row) for row in found.rows]
