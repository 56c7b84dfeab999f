"""A statement that may wait for another session, in a thread of its own."""

import threading
from typing import Any

from exuvia.base.errors import Refused
from exuvia.sql.result import Result
from exuvia.sql.session.session import Session

WAITS_S = 0.1
DONE_S = 20.0


class Later(threading.Thread):
    """A statement that waits. `answer()` is its result or its error's code."""

    def __init__(self, session: Session, text: str) -> None:
        super().__init__(daemon=True)
        self._session = session
        self._text = text
        self._answer: Result | int | None = None
        self.start()
        self.join(WAITS_S)

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
