"""MySQL's functions, by chapter of its manual; operators are in evaluate_operators.py."""

from exuvia.sql.functions import dates, encodings, json_functions, numeric, session_functions, text
from exuvia.sql.functions.table import Function

FUNCTIONS: dict[str, Function] = {
    **numeric.FUNCTIONS,
    **text.FUNCTIONS,
    **encodings.FUNCTIONS,
    **dates.FUNCTIONS,
    **json_functions.FUNCTIONS,
    **session_functions.FUNCTIONS,
}

__all__ = ["FUNCTIONS", "Function"]
