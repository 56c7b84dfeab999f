"""A refusal that more than one row meets says how many they are, and the first of them.

    Data truncated for column 'b' at row 1 (57 rows; the first 20: id 3, id 9, ...)

Before the brackets stands the text as it is for one row alone. MySQL's messages have at most 511
bytes: the list is shortened to fit, the number never is.
"""

from collections.abc import Sequence

from exuvia.base.errors import Refused

MOST_LISTED = 20
MESSAGE_BYTES = 511


def counted(
    error: Refused,
    number: int,
    rows: Sequence[str],
    listing: str = "",
    noun: str = "rows",
    *,
    at_least: bool = False,
) -> Refused:
    """The error with its count. `rows` are the first of them, `listing` is for SHOW WARNINGS;
    `noun` is what is counted, `at_least` says that nobody looked further."""
    message = error.message
    if number > 1:
        count = f"at least {number} {noun}" if at_least else f"{number} {noun}"
        message += _suffix(message, count, number, list(rows[:MOST_LISTED]))
    return Refused(error.code, error.state, message, listing)


def _suffix(message: str, count: str, number: int, rows: list[str]) -> str:
    room = MESSAGE_BYTES - len(message.encode())
    while rows:
        found = _listed(count, number, rows)
        if len(found.encode()) <= room:
            return found
        rows.pop()
    return f" ({count})"


def _listed(count: str, number: int, rows: list[str]) -> str:
    if len(rows) == number:
        return f" ({count}: {', '.join(rows)})"
    first = "first" if len(rows) == 1 else f"first {len(rows)}"
    return f" ({count}; the {first}: {', '.join(rows)}, ...)"
