"""Virtual time: one true clock, and each process's view of it, fast or slow, begun anywhere.

Nothing of the store's safety may depend on any of them (law 3).
"""


class TrueClock:
    """Moves when the world says so. Unit: s."""

    def __init__(self) -> None:
        self.now_s = 0.0


class SkewedClock:
    """What one process reads. Implements base/clock.py's Clock."""

    def __init__(self, true: TrueClock, rate: float, offset_s: float) -> None:
        self._true = true
        self._rate = rate
        self._offset_s = offset_s

    def monotonic(self) -> float:
        """The process's own seconds."""
        return self._true.now_s * self._rate + self._offset_s

    def wall_ns(self) -> int:
        """The process's own idea of the date. Unit: ns."""
        return int((1_700_000_000 + self.monotonic()) * 1e9)
