"""The thread of a loop: the errors that end it, the errors that it retries, its wake-ups."""

import logging
import threading
from collections.abc import Callable

import pytest

from exuvia.base.clock import SystemClock
from exuvia.base.errors import Broken, Conflict, Deposed, Unavailable
from exuvia.base.mysql_errors import ErrDiskFull, ErrRecordFileFull
from exuvia.kv.memory import MemoryStore
from exuvia.node import assemble as node_loops
from exuvia.node.assemble import Loops
from support.node_processes import until


class Scripted:
    """A loop that raises a script of errors, then returns `pause_s`."""

    channel = "job"

    def __init__(self, *script: Exception, pause_s: float = 0.0) -> None:
        self.script = list(script)
        self.pause_s = pause_s
        self.steps = 0

    def step(self, now: float) -> float:
        self.steps += 1
        if self.script:
            raise self.script.pop(0)
        return self.pause_s


class Running:
    def __init__(self, loop: Scripted, store: MemoryStore | None = None) -> None:
        self.store = store or MemoryStore()
        self.broken: list[str] = []
        self.loops = Loops(self.store, SystemClock(), self.broken.append)
        self.loops.start(loop)

    def __enter__(self) -> "Running":
        return self

    def __exit__(self, *_: object) -> None:
        assert self.loops.stop(5)


@pytest.mark.parametrize(
    "error",
    [
        Conflict("lost update"),
        Deposed("fenced"),
        Unavailable("the store is away"),
        ErrRecordFileFull.with_text("full"),
        OSError(24, "too many open files"),
    ],
)
def test_temporary_errors_are_retried(error: Exception) -> None:
    loop = Scripted(error, error, pause_s=0.01)
    with Running(loop) as running:
        until(lambda: loop.steps > 4)
        assert (running.broken, running.loops.broken()) == ([], [])


class FailingOnce(MemoryStore):
    """A store in which one call fails once."""

    def __init__(self, call: str, error: Exception) -> None:
        super().__init__()
        self.remaining = {call: error}

    def counter(self, channel: str) -> int:
        self._fail("counter")
        return super().counter(channel)

    def wait(self, channel: str, after: int, timeout_s: float) -> int:
        self._fail("wait")
        return super().wait(channel, after, timeout_s)

    def _fail(self, call: str) -> None:
        error = self.remaining.pop(call, None)
        if error is not None:
            raise error


@pytest.mark.parametrize("call", ["counter", "wait"])
@pytest.mark.parametrize(
    "error",
    [
        Unavailable("too many snapshots are open"),
        ErrDiskFull.with_text("input/output error"),
        OSError(5, "input/output error"),
    ],
)
def test_a_store_call_that_fails_once_outside_the_step_ends_no_loop(
    call: str, error: Exception
) -> None:
    loop, store = Scripted(pause_s=0.01), FailingOnce(call, error)
    with Running(loop, store) as running:
        until(lambda: loop.steps > 2)
        assert not store.remaining
        assert running.broken == []


@pytest.mark.parametrize("error", [Broken("two owners"), ZeroDivisionError("a bug")])
def test_an_unexpected_error_ends_the_loop_with_a_log_line(error: Exception, caplog) -> None:
    caplog.set_level(logging.CRITICAL)
    loop = Scripted(error)
    with Running(loop) as running:
        until(lambda: running.broken)
        assert running.broken == running.loops.broken() == ["Scripted"]
        assert loop.steps == 1
    assert [record.loop for record in caplog.records] == ["Scripted"]


def test_a_notice_wakes_a_sleeping_loop_and_one_during_its_step_is_not_lost(
    sleeps_on: None,
) -> None:
    loop = Scripted(pause_s=60.0)
    with Running(loop) as running:
        until(lambda: loop.steps == 1)
        notify(running.store)
        until(lambda: loop.steps == 2)

    during = Noticed(lambda: notify(store))
    with Running(during) as running:
        store = running.store
        during.go.set()
        until(lambda: during.steps == 2)


@pytest.mark.parametrize("channel", ["job", ""])
def test_a_sleeping_loop_ends_as_soon_as_it_is_stopped(channel: str, sleeps_on: None) -> None:
    loop = Scripted(pause_s=60.0)
    loop.channel = channel
    loops = Loops(MemoryStore(), SystemClock(), list[str]().append)
    loops.start(loop)
    until(lambda: loop.steps == 1)
    assert loops.stop(15.0)


@pytest.fixture
def sleeps_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops do not wake up by themselves within the time limit of a test."""
    monkeypatch.setattr(node_loops, "LONGEST_S", 60.0)


class Noticed(Scripted):
    """A loop that is notified during its first step."""

    def __init__(self, notice: Callable[[], None]) -> None:
        super().__init__(pause_s=60.0)
        self.go = threading.Event()
        self.notice = notice

    def step(self, now: float) -> float:
        if not self.steps:
            self.go.wait(5)
            self.notice()
        return super().step(now)


def notify(store: MemoryStore) -> None:
    txn = store.begin()
    txn.notify("job")
    txn.commit()
