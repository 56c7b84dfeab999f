"""Many sessions' commits, one fsync; one session's commit, no hop to another thread.

The first caller who finds nobody committing becomes the leader: it passes the gate, then takes
every packet that has queued up meanwhile into *one* LMDB transaction, one after another, each
validated against what stands then, and each with a sequence of its own. A refused packet has
written nothing, so it leaves nothing. After the commit the leader wakes every follower with its
own result and hands the lead to the first who came since; nobody leads twice in a row, so
nobody's latency is more than two transactions.

If the shared transaction fails as a whole (map full, disk full) its packets are tried again one
by one: only those that do not fit are refused. After an error of the disk nothing is tried again:
everybody is told what is known."""

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import lmdb

from exuvia.base.errors import ExuviaError, OutcomeUnknown, StorageFailed, Unavailable
from exuvia.kv.lmdb.environment import Environment
from exuvia.kv.lmdb.native import Writing

Work = Callable[[Writing], Any]
MOST_IN_ONE = 256


class _Ticket:
    """One caller's work and, later, its outcome.

    The gate is a bare lock: released when there is something to do."""

    __slots__ = ("alone", "error", "gate", "leads", "result", "work")

    def __init__(self, work: Work, alone: bool) -> None:
        self.work = work
        self.alone = alone
        self.result: Any = None
        self.error: BaseException | None = None
        self.leads = False
        self.gate: threading.Lock | None = None

    def outcome(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.result


class Committer:
    """`run(work)` calls work(transaction) and returns what it returned, once it is durable."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._mutex = threading.Lock()
        self._idle = threading.Condition(self._mutex)
        self._busy = False
        self._queue: deque[_Ticket] = deque()
        self._closed = ""

    def run(self, work: Work, alone: bool = False) -> Any:
        """Work that raises must have written nothing, unless it is `alone`:

        in a transaction of its own."""
        ticket = _Ticket(work, alone)
        with self._mutex:
            if self._busy:
                ticket.gate = threading.Lock()
                ticket.gate.acquire()
                self._queue.append(ticket)
            else:
                self._busy = True
        if ticket.gate is not None:
            self._follow(ticket, ticket.gate)
            if not ticket.leads:
                return ticket.outcome()
        return self._lead(ticket)

    def _follow(self, ticket: _Ticket, gate: threading.Lock) -> None:
        try:
            gate.acquire()
        except BaseException:  # an interrupt must not leave a lead that nobody takes
            with self._mutex:
                if ticket in self._queue:
                    self._queue.remove(ticket)
            if ticket.leads:
                self._hand_over([ticket])
            raise

    def _lead(self, ticket: _Ticket) -> Any:
        batch = [ticket]
        try:
            if self._closed:
                raise Unavailable(self._closed)
            self._together(batch)
        except (StorageFailed, OutcomeUnknown) as error:
            for each in batch:
                each.error = type(error)(str(error))
        except ExuviaError as error:
            if len(batch) > 1:
                self._singly(batch)
            else:
                ticket.error = error
        except BaseException:
            for follower in batch[1:]:
                follower.error = OutcomeUnknown(
                    "the commit was interrupted; nobody knows whether it was applied; read and see"
                )
            raise
        finally:
            self._hand_over(batch)
        return ticket.outcome()

    def _together(self, batch: list[_Ticket]) -> None:
        """One transaction for the leader's ticket and all that queued up."""
        with self._environment.write() as transaction:
            done = 0
            while done < len(batch):
                self._do(batch[done], transaction)
                done += 1
                if done == len(batch) and not batch[0].alone:
                    self._join(batch)

    def _join(self, batch: list[_Ticket]) -> None:
        """Take what has queued up, in order, up to the first that wants to be alone."""
        with self._mutex:
            while self._queue and not self._queue[0].alone and len(batch) < MOST_IN_ONE:
                batch.append(self._queue.popleft())

    def _singly(self, batch: list[_Ticket]) -> None:
        for ticket in batch:
            try:
                with self._environment.write() as transaction:
                    self._do(ticket, transaction)
            except ExuviaError as error:
                ticket.error = error

    def _do(self, ticket: _Ticket, transaction: Writing) -> None:
        ticket.error = None
        try:
            ticket.result = ticket.work(transaction)
        except lmdb.Error:
            raise
        except Exception as error:  # whatever it is: it is this caller's, not its neighbours'
            if ticket.alone:
                raise
            ticket.error = error

    def _hand_over(self, batch: list[_Ticket]) -> None:
        """Wake everybody of the batch, and the next leader."""
        with self._mutex:
            following = self._queue.popleft() if self._queue else None
            if following is not None:
                following.leads = True
            else:
                self._busy = False
                self._idle.notify_all()
        if following is not None and following.gate is not None:
            following.gate.release()
        for ticket in batch[1:]:
            if ticket.gate is not None:
                ticket.gate.release()

    def close(self, why: str) -> None:
        """Wait for the commit under way; later ones raise Unavailable."""
        with self._mutex:
            self._closed = why
            self._idle.wait_for(lambda: not self._busy)
