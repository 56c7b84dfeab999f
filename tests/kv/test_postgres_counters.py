"""Cached counters of channels: never above the true value, otherwise a wait would not end.

The process's own commits are included, whatever is read meanwhile."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from exuvia.base.clock import ManualClock
from exuvia.base.errors import Unavailable
from exuvia.kv.postgres.wake import Listener


class NoPool:
    def take(self) -> Any:
        raise Unavailable("nobody is told")


class Counted:
    """A counter on a server, and a process that listens.

    `during`: called during a read, after the value was taken."""

    def __init__(self) -> None:
        self.value = 3
        self.during: Callable[[], None] = lambda: None
        pool: Any = NoPool()
        self.listener = Listener(pool, pool, self._read, ManualClock())
        self.listener.close("no thread hears here")
        assert self.cached() == 3
        self.listener.is_listening = True

    def _read(self, channels: Sequence[str]) -> list[int]:
        value, during, self.during = self.value, self.during, lambda: None
        during()
        return [value for _ in channels]

    def cached(self) -> int:
        return self.listener.counter("job")

    def read(self) -> None:
        """Read the counter, as after a notification."""
        self.listener.is_listening = False
        self.cached()
        self.listener.is_listening = True

    def commit(self, meanwhile: Callable[[], None] = lambda: None) -> None:
        before = self.listener.reads(["job"])
        self.value += 1
        meanwhile()
        self.listener.announce(["job"], before)


def test_the_process_s_own_commit_is_counted_at_once() -> None:
    counted = Counted()
    counted.commit()
    counted.commit()
    assert counted.cached() == 5


def test_a_read_from_before_a_commit_does_not_lower_the_counter() -> None:
    counted = Counted()
    counted.during = counted.commit
    counted.read()
    assert counted.cached() == 4


@pytest.mark.parametrize("others", [0, 1])
def test_a_commit_included_in_a_read_is_not_counted_twice(others: int) -> None:
    counted = Counted()

    def meanwhile() -> None:
        counted.value += others
        counted.read()

    counted.commit(meanwhile)
    assert counted.cached() == counted.value == 4 + others


def test_a_commit_that_ends_during_a_read_is_counted() -> None:
    counted = Counted()

    def meanwhile() -> None:
        counted.value -= 1  # the commit is not visible to the read
        counted.read()
        counted.value += 1

    counted.commit(meanwhile)
    assert counted.cached() == counted.value == 4
