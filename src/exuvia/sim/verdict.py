"""How a seed ended, with evidence that anyone can replay."""

import traceback
from typing import NamedTuple

from exuvia.base.errors import ExuviaError

DEEPEST = 6  # lines of a traceback


class Broke(Exception):
    """A law does not hold."""

    def __init__(self, law: str, evidence: str) -> None:
        super().__init__(f"{law}: {evidence}")
        self.law = law
        self.evidence = evidence


def broken_by(error: Exception) -> str:
    """What a world's exception means: what leaves a loop is a finding, a bug of Python's too."""
    if isinstance(error, Broke):
        return str(error)
    if isinstance(error, ExuviaError):
        return f"an error left its loop: {error!r}"
    lines = "".join(traceback.format_exception(error)).splitlines()
    return "\n    ".join([f"a fault nobody foresaw: {error!r}", *lines[-DEEPEST:]])


class SeedVerdict(NamedTuple):
    """One seed's outcome. `broken` is None or "law: evidence"; the trace's last lines led to it."""

    seed: int
    change: str
    ending: str
    steps: int
    commits: int
    crashes: int
    broken: str | None
    trace: tuple[str, ...]
    visited: frozenset[tuple[str, str, int, str]] = frozenset()

    def told(self, lines: int = 40) -> str:
        """For people: what broke, and the last lines before it."""
        head = f"seed {self.seed} ({self.change}): {self.broken or self.ending}"
        return "\n    ".join([head, *self.trace[-lines:]])
