"""Rows per second, the time that is left, and silence in words."""

from collections import deque

_WINDOW_S = 5.0
_SILENCE_S = 10.0


class Rate:
    """A sliding window over (time, rows done)."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()
        self._moved_at: float | None = None

    def seen(self, now: float, rows: int) -> None:
        """So many rows are done at this time. Unit: s."""
        if self._moved_at is None or (self._seen and rows != self._seen[-1][1]):
            self._moved_at = now
        self._seen.append((now, rows))
        while len(self._seen) > 2 and self._seen[1][0] <= now - _WINDOW_S:
            self._seen.popleft()

    def rows_per_s(self) -> float:
        """Over the window; 0 until two moments are known."""
        if len(self._seen) < 2:
            return 0.0
        (start, before), (end, after) = self._seen[0], self._seen[-1]
        return (after - before) / (end - start) if end > start else 0.0

    def eta_s(self, missing: int) -> float | None:
        """Seconds for the missing rows at this rate; None while nothing moves."""
        rate = self.rows_per_s()
        return missing / rate if rate > 0 else None

    def silence_s(self, now: float) -> float:
        """For how long nothing has moved, 0 while that is not worth a word."""
        silent = now - self._moved_at if self._moved_at is not None else 0.0
        return silent if silent >= _SILENCE_S else 0.0
