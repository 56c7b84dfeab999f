"""How long the names of accounts may be."""

from exuvia.base.limits import HOST_CHARS, USER_CHARS
from exuvia.base.mysql_errors import ErrWrongStringLength

_TOLD_CHARS = 70  # of a name that is too long


def check_lengths(user: str, host: str) -> None:
    """Raises 1470."""
    for text, what, most in ((user, "user name", USER_CHARS), (host, "host name", HOST_CHARS)):
        if len(text) > most:
            raise ErrWrongStringLength(text[:_TOLD_CHARS], what, most)
