"""The conditions under which a process that keeps the write gate is ended."""

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest

from exuvia.kv.lmdb import caretaker
from exuvia.kv.lmdb.caretaker import Watchdog
from exuvia.kv.lmdb.gate import Gate, Holders
from exuvia.kv.lmdb.process import HostProcess, Motion, end, identify, is_stopped, motion

STALL_S, TICK_S = 5.0, 1.0


class FakeGate:
    """A gate with a state set by the test."""

    def __init__(self, holders: Holders) -> None:
        self.waiting = True
        self.state = holders

    def holders(self) -> Holders:
        return self.state


@pytest.fixture
def suspect() -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen(["sleep", "60"])
    yield child
    child.kill()
    child.wait()


def watched(suspect: subprocess.Popen[bytes]) -> tuple[FakeGate, Watchdog]:
    gate = FakeGate(Holders(turn=0, writer=suspect.pid, turns=1, tenures=1))
    return gate, Watchdog(cast(Gate, gate), STALL_S, TICK_S)


def test_one_tenure_that_lasts_is_ended(suspect: subprocess.Popen[bytes]) -> None:
    _, dog = watched(suspect)
    for now in range(100, 105):
        dog.step(now)
    assert dog.ended == []
    dog.step(105)
    assert [process.pid for process in dog.ended] == [suspect.pid]
    assert suspect.wait(5) == -signal.SIGKILL


def test_the_turn_is_watched_when_nobody_writes(suspect: subprocess.Popen[bytes]) -> None:
    gate, dog = watched(suspect)
    gate.state = Holders(turn=suspect.pid, writer=0, turns=1, tenures=1)
    for now in range(100, 106):
        dog.step(now)
    assert suspect.wait(5) == -signal.SIGKILL


def test_many_tenures_of_one_process_are_not_ended(suspect: subprocess.Popen[bytes]) -> None:
    gate, dog = watched(suspect)
    for now in range(100, 200):
        gate.state = gate.state._replace(tenures=now)
        dog.step(now)
        dog.step(now + 0.5)
    assert dog.ended == []


def test_a_long_tenure_with_progress_is_not_ended(suspect: subprocess.Popen[bytes]) -> None:
    gate, dog = watched(suspect)
    for now in range(100, 200):
        if now % 4 == 0:
            gate.state = gate.state._replace(progress=now)
        dog.step(now)
    assert dog.ended == []
    for now in range(200, 206):
        dog.step(now)
    assert len(dog.ended) == 1


DISK = [
    ("it waits for the disk", lambda now: Motion(0, 0, in_disk=True), False),
    ("it writes", lambda now: Motion(0, now, in_disk=False), False),
    ("it reads cold pages", lambda now: Motion(now, 0, in_disk=False), False),
    ("nothing of it moves", lambda now: Motion(7, 7, in_disk=False), True),
    ("its thread is gone", lambda now: None, True),
]


@pytest.mark.parametrize(
    ("motion", "ends"), [row[1:] for row in DISK], ids=[row[0] for row in DISK]
)
def test_a_thread_that_waits_for_the_disk_is_not_ended(
    suspect: subprocess.Popen[bytes],
    motion: Callable[[int], Motion | None],
    ends: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One long fsync of a large transaction marks no progress, but is no reason to end it."""
    gate, dog = watched(suspect)
    gate.state = gate.state._replace(thread=suspect.pid)
    for now in range(100, 120):
        monkeypatch.setattr(caretaker, "motion", lambda pid, thread, now=now: motion(now))
        dog.step(now)
    assert bool(dog.ended) is ends


def test_the_disk_activity_of_a_thread_is_visible(tmp_path: Path) -> None:
    thread = threading.get_native_id()
    before = motion(os.getpid(), thread)
    (tmp_path / "written").write_bytes(bytes(10_000))
    after = motion(os.getpid(), thread)
    assert before is not None and after is not None
    assert after.moved >= before.moved + 10_000
    assert motion(os.getpid(), 1) is None


def test_no_process_is_ended_without_waiters(suspect: subprocess.Popen[bytes]) -> None:
    gate, dog = watched(suspect)
    for now in range(100, 200):
        gate.waiting = now % 4 != 0
        dog.step(now)
    assert dog.ended == []


def test_a_waiter_that_was_stopped_itself_counts_no_gap(suspect: subprocess.Popen[bytes]) -> None:
    _, dog = watched(suspect)
    dog.step(100)
    dog.step(100_000)
    dog.step(200_000)
    assert dog.ended == []
    dog.step(300_000)
    assert len(dog.ended) == 1


def test_a_later_process_with_the_same_pid_is_spared(suspect: subprocess.Popen[bytes]) -> None:
    process = identify(suspect.pid)
    assert process is not None
    assert not end(process._replace(started=process.started - 1), lambda: True)
    assert not end(process, lambda: False)
    assert suspect.poll() is None
    assert end(process, lambda: True)
    suspect.wait()
    assert not end(process, lambda: True)
    assert identify(suspect.pid) is None


def test_a_stopped_process_is_distinguished_from_a_running_one(
    suspect: subprocess.Popen[bytes],
) -> None:
    assert not is_stopped(suspect.pid)
    suspect.send_signal(signal.SIGSTOP)
    os.waitpid(suspect.pid, os.WUNTRACED)
    assert is_stopped(suspect.pid)
    suspect.send_signal(signal.SIGCONT)
    assert identify(os.getpid()) == HostProcess(
        os.getpid(), cast(HostProcess, identify(os.getpid())).started
    )
