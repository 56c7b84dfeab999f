"""Clocks and loops, which get the time as an argument. Logic never calls `time` itself.

Clocks are for liveness only (law 3): no safety argument uses one.
"""

import time
from collections.abc import Callable
from typing import Protocol


class Clock(Protocol):
    """Where loops and leases read time."""

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back. Unit: s."""

    def wall_ns(self) -> int:
        """Nanoseconds since 1970 UTC, for display and timestamps in rows. Unit: ns."""


class Loop(Protocol):
    """Background work: node/ gives each loop a thread, the simulator interleaves them."""

    @property
    def channel(self) -> str:
        """The channel that wakes it after this step."""

    def step(self, now: float) -> float:
        """At most one transaction; seconds until it wants to run again."""


Then = Callable[[], float]
"""A loop's action after the commit of its transaction; returns seconds until the next step."""


class SystemClock:
    """The machine's own clocks."""

    def monotonic(self) -> float:
        return time.monotonic()

    def wall_ns(self) -> int:
        return time.time_ns()


class ManualClock:
    """A clock that only `advance` moves; for tests and the simulator."""

    def __init__(self, start_s: float = 1000.0) -> None:
        self.now_s = start_s

    def monotonic(self) -> float:
        return self.now_s

    def wall_ns(self) -> int:
        return int((1_700_000_000 + self.now_s) * 1e9)

    def advance(self, seconds: float) -> None:
        """Move forward. Unit: s."""
        self.now_s += seconds
