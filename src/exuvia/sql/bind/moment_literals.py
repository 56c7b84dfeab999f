"""DATE 'text', TIME 'text', TIMESTAMP 'text': held to their forms, unlike CAST.

The type keeps as many fractional digits as are written. What does not have the form, or is no
moment, is 1292."""

import re

from exuvia.base.mysql_errors import ErrTruncatedWrongValue
from exuvia.base.types import FieldType
from exuvia.sql import types
from exuvia.sql.bind.literals import text_constant
from exuvia.sql.bind.scope import Scope
from exuvia.sql.env import PlainEnv
from exuvia.sql.evaluate.compile import evaluate_constant
from exuvia.sql.expr import COERCIBLE, Cast, Constant, Expr

_DAY = r"0*\d{1,4}([^\d]0*\d{1,2}){2}"
LITERALS = {
    "date_literal": ("date", rf"({_DAY})|(\d{{2,4}}(\d{{2}}){{2}})"),
    "timestamp_literal": (
        "datetime",
        rf"{_DAY}\s+(0*\d{{0,2}}([^\d]0*\d{{1,2}}){{2}})?(\.\d*)?",
    ),
    "time_literal": (
        "time",
        r"-?(((\d{1,2}\s+)?0*\d{0,3}(:0*\d{1,2}){0,2})|(\d{1,7}))?(\.\d*)?",
    ),
}


def literal(name: str, text: str, scope: Scope) -> Expr:
    """The constant. Raises 1292."""
    word, form = LITERALS[name]
    digits = min(6, len(text.strip().rpartition(".")[2])) if "." in text else 0
    kind = _type_of(word, digits)
    given = Cast(type=kind, argument=text_constant(text, scope), explicit=True)
    value = evaluate_constant(given, PlainEnv())
    if value is None or not re.fullmatch(form, text.strip()):
        raise ErrTruncatedWrongValue.with_text(f"Incorrect {word} value: '{text}'")
    return Constant(type=kind, coercibility=COERCIBLE, value=value)


def _type_of(word: str, digits: int) -> FieldType:
    if word == "date":
        return types.DATE
    return types.time(digits) if word == "time" else types.datetime(digits)
