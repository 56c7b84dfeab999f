"""Many sessions' commits, one fsync; one session's commit, no hop to another thread.

The first caller who finds nobody committing becomes the leader: it passes the gate, then takes
every packet that has queued up meanwhile into *one* LMDB transaction, one after another, each
validated against what stands then, and each with a sequence of its own. A refused packet has
written nothing, so it leaves nothing. After the commit the leader wakes every follower with its
own result and hands the lead to the first who came since; nobody leads twice in a row, so
nobody's latency is more than two transactions.

Work that raises an ExuviaError has written nothing (see work); whatever else it raises, MemoryError
for one, may have come in the middle of its writes. Then, and if the transaction itself fails (map
full, disk full), the whole transaction is aborted and its packets are tried again one by one: each
stands as a whole or not at all, and only those that cannot be done are refused. An interrupt
(KeyboardInterrupt, SystemExit) ends the leader alone: its followers go back into the queue. What
happens after the last packet, while LMDB commits, has an outcome that nobody knows, unless it is
LMDB's own error. After an error of the disk nothing is tried again: all are told what is known.

One group takes at most `MOST_IN_ONE` packets and, besides the leader's, `MOST_KEYS` keys: whoever
waits for the gate waits for one large packet at a time."""

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from exuvia.base.errors import ExuviaError, OutcomeUnknown, StorageFailed, Unavailable
from exuvia.kv.lmdb.environment import Environment
from exuvia.kv.lmdb.native import Writing

Work = Callable[[Writing], Any]
MOST_IN_ONE = 256
MOST_KEYS = 50_000
UNKNOWN = "the commit was interrupted; nobody knows whether it was applied; read and see"


class _Ticket:
    """One caller's work and, later, its outcome.

    The gate is a bare lock: released when there is something to do."""

    __slots__ = ("alone", "error", "gate", "leads", "result", "settled", "size", "work")

    def __init__(self, work: Work, alone: bool, size: int = 1) -> None:
        self.work = work
        self.alone = alone
        self.size = size
        self.settled = False
        self.result: Any = None
        self.error: BaseException | None = None
        self.leads = False
        self.gate: threading.Lock | None = None

    def outcome(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.result


class GroupCommitter:
    """`run(work)` calls work(transaction) and returns what it returned, once it is durable."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._mutex = threading.Lock()
        self._idle = threading.Condition(self._mutex)
        self._busy = False
        self._queue: deque[_Ticket] = deque()
        self._under_way: list[_Ticket] = []  # in LMDB's transaction; only its leader looks
        self._committing = False  # LMDB has been asked to commit it
        self._closed = ""

    def run(self, work: Work, alone: bool = False, size: int = 1) -> Any:
        """`size`: how many keys it writes. Work may be run more than once, and stands once.

        Work that raises an ExuviaError must have written nothing, unless it is `alone`: in a
        transaction of its own."""
        ticket = _Ticket(work, alone, size)
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
        batch = self._under_way = [ticket]
        self._committing = False
        try:
            if self._closed:
                raise Unavailable(self._closed)
            self._together(batch, joins=not ticket.alone)
        except Exception as error:
            if len(batch) == 1 or self._is_final(error):
                self._fail(error)
            else:
                self._singly(batch)
        except BaseException:
            self._give_up(batch)
            raise
        finally:
            self._hand_over(batch)
        return ticket.outcome()

    def _together(self, batch: list[_Ticket], joins: bool) -> None:
        """One transaction for these tickets and, if it `joins`, all that queued up."""
        self._under_way, self._committing = batch, False
        with self._environment.write() as transaction:
            done = 0
            while done < len(batch):
                self._do(batch[done], transaction)
                done += 1
                if done == len(batch) and joins:
                    self._join(batch)
            self._committing = True
        for ticket in batch:
            ticket.settled = True

    def _join(self, batch: list[_Ticket]) -> None:
        """Take what has queued up, in order, up to the first that wants to be alone."""
        if not self._queue:
            return
        room = MOST_KEYS - sum(ticket.size for ticket in batch[1:])
        with self._mutex:
            while self._queue and len(batch) < MOST_IN_ONE:
                room -= self._queue[0].size
                if self._queue[0].alone or room < 0:
                    return
                batch.append(self._queue[0])
                self._queue.popleft()

    def _singly(self, batch: list[_Ticket]) -> None:
        for ticket in batch:
            try:
                self._together([ticket], joins=False)
            except Exception as error:
                self._fail(error)

    def _is_final(self, error: Exception) -> bool:
        """Whether nothing must be tried again."""
        if isinstance(error, ExuviaError):
            return isinstance(error, StorageFailed | OutcomeUnknown)
        return self._committing

    def _fail(self, error: Exception) -> None:
        """The transaction under way has failed: nothing of it stands, or nobody knows."""
        for ticket in self._under_way:
            ticket.settled = True
            if isinstance(error, StorageFailed | OutcomeUnknown):
                ticket.error = type(error)(str(error))
            elif self._committing and not isinstance(error, ExuviaError):
                ticket.error = OutcomeUnknown(UNKNOWN)
                ticket.error.__cause__ = error
            else:
                ticket.error = error

    def _give_up(self, batch: list[_Ticket]) -> None:
        """The leader ends: what has no outcome yet goes back to the head of the queue."""
        if self._committing:
            for ticket in self._under_way:
                ticket.settled = True
                ticket.error = OutcomeUnknown(UNKNOWN)
        again = [ticket for ticket in batch[1:] if not ticket.settled]
        batch[1:] = [ticket for ticket in batch[1:] if ticket.settled]
        with self._mutex:
            self._queue.extendleft(reversed(again))

    def _do(self, ticket: _Ticket, transaction: Writing) -> None:
        ticket.error = None
        try:
            ticket.result = ticket.work(transaction)
        except ExuviaError as error:  # it is this caller's, not its neighbours'
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
