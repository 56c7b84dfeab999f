"""What of a session's settings counts when a column or a key is defined.

                          strict             not strict
TEXT, BLOB, JSON DEFAULT ''   1101           no default (JSON: null), warning 1101
VARCHAR(n) too long       1074               TEXT(n), warning 1246
DEFAULT 0 of a moment     1067 under NO_ZERO_DATE, else the zero moment

tidb_enable_clustered_index: which primary keys that do not say it themselves hold the rows; ON all,
OFF none, INT_ONLY those of one integer.
"""

from collections.abc import Callable
from datetime import tzinfo
from typing import NamedTuple

Warn = Callable[[int, str], None]


def _silent(code: int, said: str) -> None: ...


class Modes(NamedTuple):
    """`zero_dates`: a default may be the zero date; `zone`: where written moments are meant."""

    strict: bool = True
    zero_dates: bool = False
    warn: Warn = _silent
    note: Warn = _silent
    zone: tzinfo | None = None
    clustered: str = "ON"


STRICT = Modes()


def modes_of(
    variable: Callable[[str], str],
    warn: Warn,
    note: Warn = _silent,
    zone: tzinfo | None = None,
) -> Modes:
    """Of a session, by the texts of its variables."""
    sql_mode = variable("sql_mode")
    strict = "STRICT" in sql_mode
    zero_dates = not (strict and "NO_ZERO_DATE" in sql_mode)
    return Modes(strict, zero_dates, warn, note, zone, variable("tidb_enable_clustered_index"))
