"""How a seed ended, with evidence that anyone can replay."""

from typing import NamedTuple


class Broke(Exception):
    """A law does not hold."""

    def __init__(self, law: str, evidence: str) -> None:
        super().__init__(f"{law}: {evidence}")
        self.law = law
        self.evidence = evidence


class Verdict(NamedTuple):
    """One seed's outcome. `broken` is None or "law: evidence"; the trace's last lines led to it."""

    seed: int
    change: str
    ending: str
    steps: int
    commits: int
    crashes: int
    broken: str | None
    trace: tuple[str, ...]

    def told(self, lines: int = 40) -> str:
        """For people: what broke, and the last lines before it."""
        head = f"seed {self.seed} ({self.change}): {self.broken or self.ending}"
        return "\n    ".join([head, *self.trace[-lines:]])
