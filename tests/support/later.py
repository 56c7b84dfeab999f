"""A statement that may wait for another session, in a thread of its own.

It has its place among those who wait for a row when `Later(...)` returns, or is done: so who comes
first, and whose wait closes a circle, is as the test says it on a busy machine too. What waits for
anything else (a schema change, a named lock) was given OTHER_S to begin.
"""

import threading
import time
from typing import Any

from exuvia.base.errors import Refused
from exuvia.sql.result import Result
from exuvia.sql.session.session import Session

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
        seat = self._session.services.row_locks._seat
        me = seat._id(self._session.transactions.locker.number)
        return any(waiter == me for _, waiter, _, _, _ in seat._table.waits())

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
