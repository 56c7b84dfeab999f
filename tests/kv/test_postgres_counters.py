"""Counters of channels as one process knows them: never more than they are, or a wait would not
end, and with all of its own commits, whatever is read meanwhile."""

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
    """A counter on a server, and a process that listens; `during`: what happens while it reads, or
    before what it reads is taken."""

    def __init__(self) -> None:
        self.value = 3
        self.during: Callable[[], None] = lambda: None
        pool: Any = NoPool()
        self.listener = Listener(pool, pool, self._read, ManualClock())
        self.listener.close("no thread hears here")
        assert self.known() == 3
        self.listener.is_listening = True

    def _read(self, channels: Sequence[str]) -> list[int]:
        found, during, self.during = self.value, self.during, lambda: None
        during()
        return [found for _ in channels]

    def known(self) -> int:
        return self.listener.counter("job")

    def read(self) -> None:
        """As when somebody told of it."""
        self.listener.is_listening = False
        self.known()
        self.listener.is_listening = True

    def commit(self, meanwhile: Callable[[], None] = lambda: None) -> None:
        before = self.listener.reads(["job"])
        self.value += 1
        meanwhile()
        self.listener.announce(["job"], before)


def test_a_commit_of_its_own_is_known_at_once() -> None:
    counted = Counted()
    counted.commit()
    counted.commit()
    assert counted.known() == 5


def test_what_was_read_before_a_commit_and_comes_behind_it_takes_nothing_back() -> None:
    counted = Counted()
    counted.during = counted.commit
    counted.read()
    assert counted.known() == 4


@pytest.mark.parametrize("others", [0, 1])
def test_what_was_read_between_a_commit_and_its_word_is_not_counted_twice(others: int) -> None:
    counted = Counted()

    def meanwhile() -> None:
        counted.value += others
        counted.read()

    counted.commit(meanwhile)
    assert counted.known() == counted.value == 4 + others


def test_a_commit_that_ended_while_one_before_it_was_read_is_known() -> None:
    counted = Counted()

    def meanwhile() -> None:
        counted.value -= 1  # not there yet for who reads
        counted.read()
        counted.value += 1

    counted.commit(meanwhile)
    assert counted.known() == counted.value == 4
