"""Every error of Exuvia, classed by what happens next.

    ExuviaError
    |-- Refused        the user's fault: MySQL code, SQLSTATE, text; a running job rolls back
    |   `-- Duplicate  1062, raised where a unique key is judged
    |-- Conflict       somebody else committed first: run the transaction again
    |   `-- SchemaChanged   the table moved more than one revision ahead of the plan (8028)
    |-- Deposed        an epoch was lost: stop at once, write nothing more
    |-- Unavailable    a wait ended or a resource is missing: wait, bounded, then say so
    |   |-- OutOfSpace      the disk or the store's map is full; nothing was applied
    |   |-- StorageFailed   the disk answered with an error; nothing was applied
    |   |-- StoreMoved      all of it is in another store now; nothing is committed here any more
    |   |-- StoreFilling    it is being filled by a move, and serves when that has ended
    |   `-- OutcomeUnknown  an error in a commit: nobody knows whether it was applied
    |-- WouldWait      this thread must not wait: run the statement again in one that may
    `-- Broken         an invariant does not hold: stop the loop that saw it, loudly

They are matched exhaustively in two places: the job worker (ddl/) and the wire (server/).

The text of a refusal that concerns several rows has their number and the first of them.

    Data truncated for column 'b' at row 1 (57 rows; the first 20: id 3, id 9, ...)

The text before the brackets is the one for a single row. MySQL's messages have at most 511 bytes,
so the list is shortened to fit.
"""

from collections.abc import Sequence


class ExuviaError(Exception):
    """Root of the tree."""


class Refused(ExuviaError):
    """A statement or job that cannot be done as asked. Carries MySQL's code and SQLSTATE.

    `listing` has the other findings, which the client can read as a note."""

    def __init__(self, code: int, state: str, message: str, listing: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.state = state
        self.message = message
        self.listing = listing

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.code, self.state, self.message, self.listing))


class Duplicate(Refused):
    """1062. `key` is the store key that was taken, `handle` the row that holds it."""

    def __init__(self, key: bytes, handle: bytes, entry: str = "", index: str = "") -> None:
        super().__init__(1062, "23000", f"Duplicate entry '{entry}' for key '{index}'")
        self.key = key
        self.handle = handle

    def __reduce__(self) -> tuple[object, ...]:
        return (_duplicate, (self.key, self.handle, self.message))


def _duplicate(key: bytes, handle: bytes, message: str) -> Duplicate:
    error = Duplicate(key, handle)
    error.message = message
    error.args = (message,)
    return error


class Conflict(ExuviaError):
    """Another transaction committed first. `anomaly` names what was prevented."""

    def __init__(self, anomaly: str, key: bytes = b"") -> None:
        super().__init__(f"{anomaly} prevented at {key!r}")
        self.anomaly = anomaly
        self.key = key

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.anomaly, self.key))


class RowLocked(Conflict):
    """Written, and locked by a transaction that the store's server knows of."""

    def __init__(self, key: bytes) -> None:
        super().__init__("write of a locked row", key)

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.key,))


class SchemaChanged(Conflict):
    """The table is more than one revision newer than in the plan, or is gone."""

    def __init__(self, key: bytes = b"") -> None:
        super().__init__("write under an outdated schema", key)

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.key,))


class Deposed(ExuviaError):
    """The writer's epoch is no longer the one in the store."""


class Unavailable(ExuviaError):
    """A needed resource is missing now. The text names the resource and the next step."""


class StoreMoved(Unavailable):
    """All of it is in the store `to` (its URL, without a password)."""

    def __init__(self, to: str) -> None:
        super().__init__(f"the store has moved to {to}")
        self.to = to

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.to,))


class StoreFilling(Unavailable):
    """A move fills it: node/move.py."""


class OutOfSpace(Unavailable):
    """No room for what was to be written; nothing of it was applied.

    `code`: 1021 where the disk is full, 1114 where the store's own bound is reached."""

    def __init__(self, message: str, code: int = 1021) -> None:
        super().__init__(message)
        self.code = code

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (str(self), self.code))


class StorageFailed(Unavailable):
    """The disk answered a write with an error; nothing of the transaction was applied."""


class OutcomeUnknown(Unavailable):
    """A commit met an error after which nobody can tell whether it was applied: read and see."""


class WouldWait(ExuviaError):
    """A statement that has to wait, on the thread that must not; nothing of it was done."""


class Broken(ExuviaError):
    """A promise of this program does not hold."""


# -- counted ---------------------------------------------------------------------------------------

MOST_LISTED = 20
MESSAGE_BYTES = 511


def counted(
    error: Refused,
    number: int,
    rows: Sequence[str],
    listing: str = "",
    noun: str = "rows",
    *,
    least: int = 2,
    at_least: bool = False,
) -> Refused:
    """The error with its count, if it is `least` or more.

    `rows` are the first ones, and `listing` is for SHOW WARNINGS. `noun` names the counted things.
    `at_least`: the search ended before all were counted."""
    message = error.message
    if number >= least:
        count = f"at least {number} {noun}" if at_least else f"{number} {noun}"
        message += _suffix(message, count, number, list(rows[:MOST_LISTED]))
    return Refused(error.code, error.state, message, listing)


def _suffix(message: str, count: str, number: int, rows: list[str]) -> str:
    room = MESSAGE_BYTES - len(message.encode())
    while rows:
        suffix = _listed(count, number, rows)
        if len(suffix.encode()) <= room:
            return suffix
        rows.pop()
    return f" ({count})"


def _listed(count: str, number: int, rows: list[str]) -> str:
    if len(rows) == number:
        return f" ({count}: {', '.join(rows)})"
    first = "first" if len(rows) == 1 else f"first {len(rows)}"
    return f" ({count}; the {first}: {', '.join(rows)}, ...)"
