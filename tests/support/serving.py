"""A thread that serves several, as the wire's own does (base/aside.py).

Serving          its loop: what comes back waits in a queue until `go_on`
served(work)     what work returns or raises where it must not wait
"""

from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

from exuvia.base.aside import Aside

WAIT_S = 20


class Serving:
    """One thread, this one, that serves several sessions."""

    def __init__(self) -> None:
        self.outcomes: list[Any] = []
        self._come: SimpleQueue[Callable[[], None]] = SimpleQueue()

    def begin(self, work: Callable[[], Any]) -> bool:
        """Whether it stepped aside."""

        def kept() -> Any:
            try:
                return (work(),)
            except Exception as failure:  # it is looked at by the test
                return (failure,)

        def over(found: tuple[Any]) -> None:
            self.outcomes.append(found[0])

        found = Aside(kept, over, self._come.put).begin()
        if found is not None:
            over(found)
        return found is None

    def go_on(self, number: int) -> None:
        """Until so many have an outcome."""
        while len(self.outcomes) < number:
            self._come.get(timeout=WAIT_S)()


def served(work: Callable[[], Any]) -> Any:
    serving = Serving()
    assert not serving.begin(work)
    if isinstance(serving.outcomes[0], Exception):
        raise serving.outcomes[0]
    return serving.outcomes[0]
