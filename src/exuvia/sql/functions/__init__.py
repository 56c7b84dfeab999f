"""MySQL's functions, by chapter of its manual; operators are in evaluate/operators.py."""

from exuvia.sql.functions import (
    dates,
    encodings,
    json_functions,
    numeric,
    session_functions,
    text,
    various,
)
from exuvia.sql.functions.table import Function

FUNCTIONS: dict[str, Function] = {
    **numeric.FUNCTIONS,
    **text.FUNCTIONS,
    **encodings.ENCODINGS,
    **dates.FUNCTIONS,
    **json_functions.FUNCTIONS,
    **session_functions.FUNCTIONS,
    **session_functions.SEQUENCES,
    **json_functions.CHANGES,
    **various.FUNCTIONS,
    **various.UUIDS,
    **session_functions.LOCKS,
    **dates.UNIX_TIME,
    **encodings.CIPHERS,
    **dates.ZONES,
}

__all__ = ["FUNCTIONS", "Function"]
