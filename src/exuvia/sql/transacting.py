"""Running work in transactions: the open one of a session, or one for each statement.

alone     again on a fresh snapshot while others win the race, a bounded number of times
within    a failure undoes this statement; a lost race or a lost snapshot undoes the transaction
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from itertools import count

from exuvia.base.errors import Conflict, Duplicate, Refused, Unavailable
from exuvia.base.mysql import refuse
from exuvia.sql.context import Context
from exuvia.sql.result import Result, Value
from exuvia.sql.services import Services
from exuvia.sql.settings import Settings
from exuvia.sql.transactions import OpenTransaction, lost

ATTEMPTS = 64
Work = Callable[[Context], Result]
_serial = count(1)


class Transacting(ABC):
    """What a session is to its transactions. `statement` is the text that runs now."""

    def __init__(self, services: Services, connection_id: int) -> None:
        self.services = services
        self.connection_id = connection_id
        self.settings = Settings(services)
        self.current: OpenTransaction | None = None
        self.statement = ""
        self.next_is_read_only = False

    @abstractmethod
    def context_in(
        self, open_: OpenTransaction, parameters: Sequence[Value], letters: str
    ) -> Context:
        """What a statement sees of that transaction; a session knows."""

    def transact(self, work: Work, parameters: Sequence[Value] = (), letters: str = "") -> Result:
        """Run work in the open transaction, or in one of its own."""
        current = self.current
        if current is None and not self.settings.autocommit:
            current = self.begin()
        if current is None:
            return self._alone(work, parameters, letters)
        return self._within(current, work, parameters, letters)

    def _alone(self, work: Work, parameters: Sequence[Value], letters: str) -> Result:
        failure: Exception | None = None
        for attempt in range(ATTEMPTS):
            open_ = self._open(explicit=False)
            try:
                context = self.context_in(open_, parameters, letters)
                result = work(context)
                if context.warnings:
                    result.warnings = context.warnings
                failure = _commit_alone(open_)
            except Conflict as conflict:
                failure = lost(conflict)
            finally:
                open_.close()
            if failure is None:
                return result
            self.services.pause(attempt)
        raise failure or refuse(1213)

    def _within(
        self, current: OpenTransaction, work: Work, parameters: Sequence[Value], letters: str
    ) -> Result:
        current.about = self.statement
        mark = current.txn.mark()
        context = self.context_in(current, parameters, letters)
        try:
            result = work(context)
        except Conflict as conflict:
            self.rollback()
            raise lost(conflict) from None
        except Unavailable:
            self.rollback()
            raise
        except Refused:
            current.txn.back_to(mark)
            raise
        if context.warnings:
            result.warnings = context.warnings
        return result

    def _open(self, explicit: bool, read_only: bool = False) -> OpenTransaction:
        token = (self.connection_id, next(_serial))
        open_ = OpenTransaction(
            self.services, token, explicit, read_only, self.settings.metadata_lock
        )
        open_.about = self.statement
        return open_

    def begin(self, read_only: bool = False) -> OpenTransaction:
        """Open a transaction; one that is open is committed first."""
        self.commit()
        read_only, self.next_is_read_only = read_only or self.next_is_read_only, False
        self.current = self._open(explicit=True, read_only=read_only)
        return self.current

    def commit(self) -> None:
        """Commit the open transaction, if any.

        Raises 1213, 1412, 8028, 1062, 8027: all is undone then."""
        current, self.current = self.current, None
        if current is not None:
            current.commit_for_client()

    def rollback(self) -> None:
        """Undo the open transaction, if any."""
        current, self.current = self.current, None
        if current is not None:
            current.close()


def _commit_alone(open_: OpenTransaction) -> Exception | None:
    """Commit; the error to raise if no attempt succeeds, or None."""
    if not open_.writes:
        return None
    try:
        open_.commit()
    except Conflict as conflict:
        return lost(conflict)
    except Duplicate as duplicate:
        return open_.explain(duplicate)
    return None
