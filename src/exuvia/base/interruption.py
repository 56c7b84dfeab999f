"""A statement that ends before its time: KILL, max_execution_time, a client that has gone.

    the session       with running(interruption):    the thread that runs the statement
    anything long     check()                         raises what ends that statement
    another engine    with current().telling(stop):   is told at once, by the thread that ends it

A call into C that holds the interpreter's lock stops every other thread of the process until it
returns, and no check comes in between. So what may be long is done in pieces (`in_pieces`), or by
something that lets go of the lock, in a thread that may be left behind (`apart`).
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

PIECE = 1 << 16
MOST_LEFT_BEHIND = 4
LOOK_S = 0.02
T = TypeVar("T")


class Interruption:
    """Whether the statement of one session is to end, and by which error."""

    __slots__ = ("_listeners", "reason")

    def __init__(self) -> None:
        self.reason: Exception | None = None
        self._listeners: list[Callable[[], object]] = []

    def end(self, reason: Exception) -> None:
        """End what runs. Any thread; the first reason stays."""
        if self.reason is None:
            self.reason = reason
        for listener in list(self._listeners):
            listener()

    def clear(self) -> None:
        """What comes next begins."""
        self.reason = None

    def check(self) -> None:
        """Raises the reason, if there is one."""
        if self.reason is not None:
            raise self.reason

    @contextmanager
    def after(
        self, seconds: float, reason: Exception, wake: Callable[[], object]
    ) -> Iterator[None]:
        """End what runs inside when it has taken so long; `wake` those of it who wait. Unit: s.

        What comes after it is never ended by this."""
        turn, over = threading.Lock(), False

        def late() -> None:
            with turn:
                if over:
                    return
                self.end(reason)
            wake()

        timer = threading.Timer(seconds, late)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            with turn:
                over = True
                if self.reason is reason:
                    self.reason = None

    @contextmanager
    def telling(self, listener: Callable[[], object]) -> Iterator[None]:
        """Call the listener as soon as the statement is to end, from whatever thread."""
        self._listeners.append(listener)
        try:
            self.check()
            yield
        finally:
            self._listeners.remove(listener)


class _Here(threading.local):
    interruption = Interruption()  # where a thread runs no statement: it never ends anything


_here = _Here()


def current() -> Interruption:
    """Of the statement that this thread runs; one that never ends anything where it runs none."""
    return _here.interruption


def exchange(interruption: Interruption | None) -> Interruption:
    """From now on this thread runs a statement of that session, or of none; which it ran before."""
    before = _here.interruption
    _here.interruption = _Here.interruption if interruption is None else interruption
    return before


class running:  # noqa: N801  (used as the function it looks like)
    """with running(interruption): this thread runs a statement of that session.

    Each statement enters one: a class of its own costs a third of a generator."""

    __slots__ = ("_before", "_interruption")

    def __init__(self, interruption: Interruption) -> None:
        self._interruption = interruption

    def __enter__(self) -> None:
        self._before = _here.interruption
        _here.interruption = self._interruption

    def __exit__(self, *_: object) -> None:
        _here.interruption = self._before


def check() -> None:
    """Raises what ends the statement of this thread, if anything does."""
    current().check()


def checked(items: Iterable[T]) -> Iterator[T]:
    """The items, with a check before each."""
    interruption = current()
    for item in items:
        if interruption.reason is not None:
            raise interruption.reason
        yield item


def in_pieces(text: Any, run: Callable[[Any], Any], size: int = PIECE) -> list[Any]:
    """`run` of each piece of a text, of bytes or of a list, with a check before each."""
    if len(text) <= size:
        return [run(text)]
    interruption, found = current(), []
    for start in range(0, len(text), size):
        interruption.check()
        found.append(run(text[start : start + size]))
    return found


_left_behind = threading.BoundedSemaphore(MOST_LEFT_BEHIND)


def apart(run: Callable[[], T]) -> T:
    """The result of `run`, which lets go of the interpreter's lock and cannot be interrupted.

    It runs in a thread of its own; a statement that ends meanwhile leaves it behind. So many at a
    time, whether left behind or waited for: the next waits for its turn."""
    interruption = current()
    while not _left_behind.acquire(timeout=LOOK_S):
        interruption.check()
    results: list[T] = []
    failures: list[BaseException] = []
    done = threading.Event()

    def work() -> None:
        try:
            with running(interruption):
                results.append(run())
        except BaseException as error:  # it is for the thread that waits
            failures.append(error)
        finally:
            _left_behind.release()
            done.set()

    threading.Thread(target=work, name="exuvia-apart", daemon=True).start()
    while not done.wait(LOOK_S):
        interruption.check()
    if failures:
        raise failures[0]
    return results[0]
