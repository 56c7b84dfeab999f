"""What of a session's sql_mode counts when a column is defined.

                          strict             not strict
TEXT, BLOB, JSON DEFAULT ''   1101           no default (JSON: null), warning 1101
VARCHAR(n) too long       1074               TEXT(n), warning 1246
DEFAULT 0 of a moment     1067 under NO_ZERO_DATE, else the zero moment
"""

from collections.abc import Callable
from datetime import tzinfo
from typing import NamedTuple

Warn = Callable[[int, str], None]


def _silent(code: int, said: str) -> None:
    """Nobody listens."""


class Modes(NamedTuple):
    """`zero_dates`: a default may be the zero date; `zone`: where written moments are meant."""

    strict: bool = True
    zero_dates: bool = False
    warn: Warn = _silent
    note: Warn = _silent
    zone: tzinfo | None = None


STRICT = Modes()


def modes_of(sql_mode: str, warn: Warn, note: Warn = _silent, zone: tzinfo | None = None) -> Modes:
    """Of a session's sql_mode."""
    strict = "STRICT" in sql_mode
    return Modes(strict, not (strict and "NO_ZERO_DATE" in sql_mode), warn, note, zone)
