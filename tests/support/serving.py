"""A thread that serves several, as the wire's own does (base/aside.py).

Serving          its loop: what comes back waits until `go_on`
served(work)     what work returns or raises where it must not wait
"""

import asyncio
from collections.abc import Callable
from typing import Any

from exuvia.base.aside import Aside

WAIT_S = 20


class Serving:
    """One thread, this one, that serves several sessions."""

    def __init__(self) -> None:
        self.outcomes: list[Any] = []
        self._loop = asyncio.new_event_loop()
        self._number = 0

    def __del__(self) -> None:
        self._loop.close()

    def begin(self, work: Callable[[], Any]) -> bool:
        """Whether it stepped aside."""

        def kept() -> Any:
            try:
                return (work(),)
            except Exception as failure:  # it is looked at by the test
                return (failure,)

        def over(found: tuple[Any]) -> None:
            self.outcomes.append(found[0])
            if self._number and len(self.outcomes) >= self._number:
                self._loop.stop()

        found = Aside(kept, over, self._loop).begin()
        if found is not None:
            over(found)
        return found is None

    def turn(self, for_s: float = 0.0) -> None:
        """Handle the events of one turn, or of a time."""
        self._loop.call_later(for_s, self._loop.stop)
        self._loop.run_forever()

    def go_on(self, number: int) -> None:
        """Until so many have an outcome."""
        if len(self.outcomes) < number:
            self._number = number
            late = self._loop.call_later(WAIT_S, self._loop.stop)
            self._loop.run_forever()
            late.cancel()
            self._number = 0
        assert len(self.outcomes) >= number


def served(work: Callable[[], Any]) -> Any:
    serving = Serving()
    assert not serving.begin(work)
    if isinstance(serving.outcomes[0], Exception):
        raise serving.outcomes[0]
    return serving.outcomes[0]
