"""On which processors a reorg computes: on all while nobody else commits, on half beside clients.

    the JVM             always on half: it only steers, but its start is seconds of work
    thread of a kernel  on half while clients commit (pipeline/courtesy.py), else on all
    thread of writes    on all: who holds the store's writer should not wait for a processor

Low priority (pipeline/priority.py) gives a processor up late, up to a tick of the scheduler; one
that idles is there at once. So on the half that is left the kernel's thread runs as the system's
idle class: whatever wakes up runs at once. Where clients leave it less than a quarter of what it
could compute, it takes turns with them at low priority until they leave it more.

A process takes its processors from the one that starts it, so a worker, which the JVM's children
start, is told those of the driver.
"""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from exuvia.pipeline.priority import can_idle, is_idle, run_idle

_LOOK_NS = 200_000_000
_SCHEDULE = Path("/proc/thread-self/schedstat")  # not every kernel and sandbox has it

Cores = tuple[int, ...]


def allowed() -> Cores:
    """The processors of the calling thread."""
    return tuple(sorted(os.sched_getaffinity(0)))


def half_of(cores: Cores) -> Cores:
    """Those that work beside clients has; all where there is one."""
    return cores[-max(1, len(cores) // 2) :]


def move_to(cores: Sequence[int]) -> None:
    """The calling thread's processors from now on; what it starts has them, too. None: as it is."""
    if cores:
        with suppress(OSError):  # taken away meanwhile: then those that are left
            os.sched_setaffinity(0, cores)


def may_idle() -> bool:
    """Whether a thread may go to the idle class and come back, and sees what it gets there."""
    return _SCHEDULE.exists() and can_idle()


def ran_and_waited_ns() -> tuple[int, int]:
    """How long the calling thread computed, and how long it could have and did not (proc(5),
    schedstat)."""
    ran, waited, _ = _SCHEDULE.read_text().split()
    return int(ran), int(waited)


class Place:
    """Where and how one thread computes. Without cores: wherever it was put."""

    def __init__(
        self, cores: Cores = (), look: Callable[[], tuple[int, int]] = ran_and_waited_ns
    ) -> None:
        self._cores = cores
        self._look = look
        self._now: Cores = ()
        self._seen = (0, 0)
        self._starves = False
        self._idles = is_idle()  # an earlier task may have left it so

    def beside_clients(self, there_are_some: bool) -> None:
        """Make room, or take all."""
        if not self._cores:
            return
        wanted = half_of(self._cores) if there_are_some else self._cores
        if wanted != self._now:
            move_to(wanted)
            self._now = wanted
        idles = there_are_some and may_idle() and not self._is_starved()
        if idles != self._idles:
            run_idle(idles)
            self._idles = idles

    def _is_starved(self) -> bool:
        """Whether it got less than a quarter of what it wanted of late."""
        ran, waited = (now - before for now, before in zip(self._look(), self._seen, strict=True))
        if ran + waited >= _LOOK_NS:
            self._starves = ran < (ran + waited) / 4
            self._seen = (self._seen[0] + ran, self._seen[1] + waited)
        return self._starves
