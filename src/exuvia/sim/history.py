"""What clients did, in commit order, and the table that follows from it.

An attempt is told before its commit and sealed by the commit itself, so that a client which is
killed right after its commit has still written what the store says.
"""

from typing import NamedTuple

from exuvia.sim.verdict import Broke


class RowChange(NamedTuple):
    """One row as its client left it: name -> value of the public columns, None if deleted."""

    number: int
    shown: dict[str, object] | None


class CommitAttempt(NamedTuple):
    """A commit under way."""

    name: str
    revision: int
    changes: list[RowChange]


class History:
    """`rows`: row number -> the columns that clients gave it; a missing one has its default."""

    def __init__(self) -> None:
        self.rows: dict[int, dict[str, object]] = {}
        self.trace: list[str] = []
        self.commits = 0
        self.refusals = 0
        self._attempt: CommitAttempt | None = None

    def note(self, text: str) -> None:
        """One more line of the trace."""
        self.trace.append(text)

    def attempt(self, name: str, revision: int, changes: list[RowChange]) -> None:
        """A client is about to commit."""
        self._attempt = CommitAttempt(name, revision, changes)

    @property
    def is_attempted(self) -> bool:
        """Whether a client's commit is under way."""
        return self._attempt is not None

    def settled(self, name: str) -> None:
        """The client knows how its commit ended; if it was not sealed, it was refused."""
        if self._attempt is not None:
            self._attempt = None
            self.refusals += 1
            self.note(f"{name}: refused")

    def sealed(self, revision_now: int) -> int:
        """The store committed the attempt, which has so happened: how many revisions its plan was
        behind. Judges law 1."""
        attempt, self._attempt = self._attempt, None
        assert attempt is not None
        self.commits += 1
        self.note(f"{attempt.name}: commits {_told(attempt.changes)} planned at {attempt.revision}")
        if not revision_now or revision_now > attempt.revision + 1:
            raise Broke("law 1", f"planned at {attempt.revision}, committed at {revision_now}")
        for change in attempt.changes:
            self._apply(change)
        return revision_now - attempt.revision

    def _apply(self, change: RowChange) -> None:
        if change.shown is None:
            self.rows.pop(change.number, None)
        else:
            self.rows[change.number] = {**self.rows.get(change.number, {}), **change.shown}


def _told(changes: list[RowChange]) -> str:
    return ", ".join(
        f"-{c.number}" if c.shown is None else f"{c.number}={list(c.shown.values())}"
        for c in changes
    )
