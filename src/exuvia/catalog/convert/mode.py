"""What every assignment shares: how strict it is, and its refusals with places for column and row.

The texts hold COLUMN and ROW; `values.named` fills them in where both are known.
"""

from datetime import tzinfo
from typing import NamedTuple, NoReturn

from exuvia.base.mysql_errors import (
    ErrBadNull,
    ErrDataTooLong,
    ErrInvalidJSONText,
    ErrTruncatedWrongValue,
    ErrTruncatedWrongValueForField,
    ErrWarnDataOutOfRange,
    WarnDataTruncated,
)

NO_DOCUMENT = "The document root must not be followed by other values."
EMPTY_DOCUMENT = "The document is empty"
COLUMN, ROW = "\x00column\x00", "\x00row\x00"


class Mode(NamedTuple):
    """How strict an assignment is, and where its clock stands.

    `any_day`: every month has 31 days (ALLOW_INVALID_DATES). `zone` is the session's (None: UTC):
    TIMESTAMPs are kept in UTC. `today` is a packed date, for a TIME that becomes a DATETIME."""

    zero_dates: bool = False
    any_day: bool = False
    zone: tzinfo | None = None
    today: int = 0


STRICT = Mode()
LENIENT = Mode(zero_dates=True)


def out_of_range() -> NoReturn:
    raise ErrWarnDataOutOfRange(COLUMN, ROW)


def truncated() -> NoReturn:
    raise WarnDataTruncated(COLUMN, ROW)


def too_long() -> NoReturn:
    raise ErrDataTooLong(COLUMN, ROW)


def is_null() -> NoReturn:
    raise ErrBadNull(COLUMN)


def incorrect(kind: str, text: object) -> NoReturn:
    raise ErrTruncatedWrongValueForField(kind, text, COLUMN, ROW)


def incorrect_time(kind: str, text: object) -> NoReturn:
    """1292, as an assignment words it."""
    message = f"Incorrect {kind} value: '{text}' for column '{COLUMN}' at row {ROW}"
    raise ErrTruncatedWrongValue.with_text(message)


def invalid_json(text: str) -> NoReturn:
    """3140 in TiDB's words: it knows two reasons."""
    raise ErrInvalidJSONText(EMPTY_DOCUMENT if not text else NO_DOCUMENT)
