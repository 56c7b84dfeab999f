"""On which processors a reorg computes: on all while nobody else commits, on half beside clients.

    the JVM             always on half: it only steers, but its start is seconds of work
    thread of a kernel  on half while clients commit (pipeline/courtesy.py), else on all
    thread of writes    on all: who holds the store's writer should not wait for a processor

Low priority (pipeline/priority.py) gives a processor up late; one that idles is there at once. A
process takes its processors from the one that starts it, so a worker, which the JVM's children
start, is told those of the driver.
"""

import os
from collections.abc import Sequence
from contextlib import suppress

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


class Place:
    """Where one thread computes. Without cores: wherever it was put."""

    def __init__(self, cores: Cores = ()) -> None:
        self._cores = cores
        self._now: Cores = ()

    def beside_clients(self, there_are_some: bool) -> None:
        """Make room, or take all."""
        wanted = half_of(self._cores) if there_are_some else self._cores
        if wanted != self._now:
            move_to(wanted)
            self._now = wanted
