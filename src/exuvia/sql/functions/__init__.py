"""MySQL's functions, by chapter of its manual; operators are in evaluate/operators.py."""

from exuvia.sql.functions import (
    ciphers,
    dates,
    encodings,
    identities,
    json_changes,
    json_functions,
    lock_functions,
    numeric,
    sequence_functions,
    session_functions,
    text,
    unix_time,
    various,
    zone_functions,
)
from exuvia.sql.functions.table import Function

FUNCTIONS: dict[str, Function] = {
    **numeric.FUNCTIONS,
    **text.FUNCTIONS,
    **encodings.FUNCTIONS,
    **dates.FUNCTIONS,
    **json_functions.FUNCTIONS,
    **session_functions.FUNCTIONS,
    **sequence_functions.FUNCTIONS,
    **json_changes.FUNCTIONS,
    **various.FUNCTIONS,
    **identities.FUNCTIONS,
    **lock_functions.FUNCTIONS,
    **unix_time.FUNCTIONS,
    **ciphers.FUNCTIONS,
    **zone_functions.FUNCTIONS,
}

__all__ = ["FUNCTIONS", "Function"]
