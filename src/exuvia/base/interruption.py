"""A statement that ends before its time: KILL, max_execution_time, a client that has gone.

    the session       with running(interruption):    the thread that runs the statement
    anything long     check()                         raises what ends that statement
    another engine    with current().telling(stop):   is told at once, by the thread that ends it

A call into C that holds the interpreter's lock stops every other thread of the process until it
returns, and no check can run meanwhile. Therefore long work is done in pieces (`in_pieces`).
Calls that release the lock run in a thread that an interrupted statement can abandon (`apart`).

    long work         with taking_turns():            one thread at a time; `check` passes it on

The thread that serves clients (`serve_clients`) never does long work: taking_turns raises WouldWait
there, and the statement is run again by another thread.
"""

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, TypeVar

from exuvia.base import long_work
from exuvia.base.errors import WouldWait
from exuvia.base.long_work import turn
from exuvia.base.memory import Tracker

PIECE = 1 << 16
MOST_ABANDONED = 4
LOOK_S = 0.02
CHECKS_OF_A_TURN = 64
LONG_PIECES = 16
_LOWEST = 19
T = TypeVar("T")


class Interruption:
    """Whether the statement of one session is to end, by which error, and its memory."""

    __slots__ = ("_listeners", "is_long", "memory", "reason")

    def __init__(self) -> None:
        self.reason: Exception | None = None
        self.is_long = False  # until it ends, other threads are considered: base/long_work.py
        self._listeners: list[Callable[[], object]] = []
        self.memory = Tracker(self)

    def end(self, reason: Exception) -> None:
        """End what runs. Any thread; the first reason stays."""
        if self.reason is None:
            self.reason = reason
        for listener in list(self._listeners):
            listener()

    def clear(self) -> None:
        """The next statement begins: forget the reason."""
        self.reason = None

    def check(self) -> None:
        """Raises the reason, if there is one."""
        if self.reason is not None:
            raise self.reason

    @contextmanager
    def after(
        self, seconds: float, reason: Exception, wake: Callable[[], object]
    ) -> Iterator[None]:
        """End the enclosed work after this time, and call `wake` for its waits. Unit: s.

        Later work is never ended by this."""
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
    serves_clients = False
    has_turn = False
    checks = 0  # since it got its turn


_here = _Here()


def current() -> Interruption:
    """The interruption of this thread's statement. Without a statement, one that is never set."""
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
        if self._interruption.memory.peak:
            self._interruption.memory.end()
        if self._interruption.is_long:
            self._interruption.is_long = False
            long_work.end()


def lengthen() -> None:
    """The statement of this thread is a long one, until it ends; see base/long_work.py."""
    interruption = _here.interruption
    if interruption is not _Here.interruption and not interruption.is_long:
        interruption.is_long = True
        long_work.begin()


def check() -> None:
    """Raises what ends the statement of this thread, if anything does. Passes the turn on."""
    _here.interruption.check()
    if _here.has_turn and turn.is_wanted:
        _here.checks += 1
        if _here.checks > CHECKS_OF_A_TURN:
            _leave_turn()
            _take_turn()


def serve_clients() -> None:
    """This thread serves clients from now on; see the module."""
    _here.serves_clients = True


def serves_clients() -> bool:
    """Whether this is a thread that serves clients."""
    return _here.serves_clients


def require_thread() -> None:
    """Raises WouldWait on the thread that serves clients: what comes next may take long."""
    if _here.serves_clients:
        raise WouldWait


@contextmanager
def taking_turns() -> Iterator[None]:
    """Long work of this thread: it waits until it is its turn. No lock may be taken inside that
    another thread keeps while it waits for its turn. Raises WouldWait, what ends the statement."""
    if _here.has_turn:
        yield
        return
    require_thread()
    _take_turn()
    try:
        yield
    finally:
        if _here.has_turn:
            _leave_turn()


@contextmanager
def out_of_turn() -> Iterator[None]:
    """Within this context, which waits for something else, the thread has no turn."""
    if not _here.has_turn:
        yield
        return
    _leave_turn()
    yield
    _take_turn()


def _take_turn() -> None:
    turn.take(_here.interruption.check)
    _here.has_turn, _here.checks = True, 0


def _leave_turn() -> None:
    _here.has_turn = False
    turn.leave()


def checked(items: Iterable[T]) -> Iterator[T]:
    """The items, with a check before each."""
    interruption = current()
    for item in items:
        if interruption.reason is not None:
            raise interruption.reason
        yield item


def in_pieces(text: Any, run: Callable[[Any], Any], size: int = PIECE) -> list[Any]:
    """The results of `run` for the pieces of a text, bytes or a list. Checks before each piece."""
    if len(text) <= size:
        return [run(text)]
    starts = range(0, len(text), size)
    if len(starts) < LONG_PIECES:
        return _run_pieces(text, run, starts)
    with taking_turns():
        return _run_pieces(text, run, starts)


def _run_pieces(text: Any, run: Callable[[Any], Any], starts: range) -> list[Any]:
    results = []
    for start in starts:
        check()
        results.append(run(text[start : start + starts.step]))
    return results


_abandoned = threading.BoundedSemaphore(MOST_ABANDONED)


def apart(run: Callable[[], T]) -> T:
    """The result of `run`, which releases the interpreter's lock and cannot be interrupted.

    It runs in its own thread. If the statement is interrupted, the statement ends at once and the
    thread continues in the background. At most MOST_ABANDONED threads run at a time, abandoned
    or not; further calls wait."""
    interruption = current()
    with out_of_turn():
        while not _abandoned.acquire(timeout=LOOK_S):
            interruption.check()
        thread, done, outcome = _start(run, interruption, _abandoned.release)
        while not done.wait(LOOK_S):
            if interruption.reason is not None:
                _step_back(thread)
                raise interruption.reason
        return outcome()


def apart_until(run: Callable[[], T], leave: Callable[[], bool], resources: ExitStack) -> T:
    """As `apart`, for work that can be abandoned only while `leave` returns True.

    Starts at once, whatever else runs. An interrupted statement calls `leave`. If it returns True,
    the statement ends, and the resources are closed when `run` has returned. Otherwise the
    statement waits for `run`, which must end on its own."""
    interruption, turn = current(), threading.Lock()
    is_over, abandoned = False, list[ExitStack]()

    def over() -> None:
        nonlocal is_over
        with turn:
            is_over = True
        for stack in abandoned:
            with suppress(Exception):
                stack.close()
            _abandoned.release()

    thread, done, outcome = _start(run, interruption, over)
    while not done.wait(LOOK_S):
        if interruption.reason is None or not leave():
            continue
        with turn:
            if is_over or not _abandoned.acquire(blocking=False):
                continue
            abandoned.append(resources.pop_all())
        _step_back(thread)
        raise interruption.reason
    return outcome()


def _start(
    run: Callable[[], T], interruption: Interruption, over: Callable[[], object]
) -> tuple[threading.Thread, threading.Event, Callable[[], T]]:
    """Starts a thread that calls `run`, then `over`. Returns the thread, the event that is set at
    its end, and a function that returns the result of `run` or raises its error."""
    results: list[T] = []
    failures: list[BaseException] = []
    done = threading.Event()

    def work() -> None:
        try:
            exchange(interruption)
            results.append(run())
        except BaseException as error:  # it is for the thread that waits
            failures.append(error)
        finally:
            over()
            done.set()

    def outcome() -> T:
        if failures:
            raise failures[0]
        return results[0]

    thread = threading.Thread(target=work, name="exuvia-apart", daemon=True)
    thread.start()
    return thread, done, outcome


def _step_back(thread: threading.Thread) -> None:
    """Nobody waits for what it does: it takes the processor only where nobody else wants it."""
    if thread.native_id is not None:
        with suppress(OSError):  # it has ended; the system has no priorities of threads
            os.setpriority(os.PRIO_PROCESS, thread.native_id, _LOWEST)
