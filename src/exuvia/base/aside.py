"""Lets a thread that serves many clients continue while one task waits.

    the thread that serves    Aside(work, over, soon).begin()     work runs here, in a greenlet
    the work                  with stepping_aside():              it may step aside in here:
                                                                  it holds no lock
    what it waits for         waiting().until(begin)              the thread goes on with others
    any thread                the function that `begin` got       work goes on, in its own thread
    what waits otherwise      require_waiting()                   work is done again by another

Work that runs in a thread of its own, or outside of `stepping_aside`, blocks its thread.
`waiting()` is None there.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from greenlet import greenlet

from exuvia.base import interruption
from exuvia.base.errors import WouldWait

Soon = Callable[[Callable[[], None]], object]


class Aside:
    """`over` is called with the result of work that stepped aside; work must not raise. `soon`
    schedules a function on the serving thread, and may be called from any thread."""

    def __init__(self, work: Callable[[], Any], over: Callable[[Any], None], soon: Soon) -> None:
        self._greenlet = greenlet(work)
        self._over = over
        self._soon = soon
        self.may_step = False

    def begin(self) -> Any:
        """Runs the work. Returns its result, or None if it has stepped aside."""
        result = self._switch()
        return result if self._greenlet.dead else None

    def _switch(self) -> Any:
        _here.work = self
        try:
            return self._greenlet.switch()
        finally:
            _here.work = None

    def until(self, begin: Callable[[Callable[[], None]], None]) -> None:
        """Step aside until any thread calls the function that is passed to `begin`.

        Errors of `begin` are raised at once."""
        begin(self._come_back)
        statement = interruption.exchange(None)
        self._greenlet.parent.switch()
        interruption.exchange(statement)

    def _come_back(self) -> None:
        with suppress(RuntimeError):  # the thread serves nobody any more
            self._soon(self._go_on)

    def _go_on(self) -> None:
        result = self._switch()
        if self._greenlet.dead:
            self._over(result)


class _Here(threading.local):
    work: Aside | None = None


_here = _Here()


def waiting() -> Aside | None:
    """The work of this thread that may step aside; None where it waits as any other."""
    work = _here.work
    return work if work is not None and work.may_step else None


def require_waiting() -> None:
    """Raises WouldWait in work that another thread should do: it would hold up all others here."""
    if _here.work is not None:
        raise WouldWait


@contextmanager
def stepping_aside() -> Iterator[None]:
    """Within this context, work that has to wait may step aside."""
    work = _here.work
    if work is None:
        yield
        return
    work.may_step = True
    try:
        yield
    finally:
        work.may_step = False
