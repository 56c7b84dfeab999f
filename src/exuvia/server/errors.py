"""What a client is told of an error: the one place where the error tree meets the wire.

Refused        its own code, SQLSTATE and text
SchemaChanged  8028, retryable          Conflict   1213 / 40001, retryable
Deposed        8027: this node was fenced and is joining again
Unavailable    8022 with the reason     Broken     1105, and the log
OutOfSpace     1021 or 1114             StorageFailed  1026
OutcomeUnknown 1180 with SQLSTATE 08007 (transaction resolution unknown): the one class 08 and 40
               of clients' retry rules do not retry
anything else  1105, and the log with its traceback: one statement's fault must not end the others
"""

import logging

from exuvia.base.errors import (
    Broken,
    Conflict,
    Deposed,
    ExuviaError,
    OutcomeUnknown,
    OutOfSpace,
    Refused,
    SchemaChanged,
    StorageFailed,
    Unavailable,
)
from exuvia.base.mysql_errors import (
    ErrErrorDuringCommit,
    ErrErrorOnWrite,
    ErrInfoSchemaChanged,
    ErrInfoSchemaExpired,
    ErrInvalidCharacterString,
    ErrLockDeadlock,
    ErrTxnRetryable,
    ErrUnknown,
)

_log = logging.getLogger(__name__)


def explain(error: BaseException) -> Refused:
    """The refusal that stands for any error."""
    if isinstance(error, Refused):
        return error
    if isinstance(error, ExuviaError):
        return _classed(error)
    if isinstance(error, RecursionError):
        return ErrUnknown("the statement is nested too deeply")
    if isinstance(error, UnicodeEncodeError):
        return ErrInvalidCharacterString("utf8mb4", ascii(error.object[error.start : error.end]))
    if isinstance(error, MemoryError):
        return ErrUnknown("the statement needs more memory than there is")
    _log.error("a statement failed inside", exc_info=error)
    return ErrUnknown(f"internal error: {type(error).__name__}: {error}")


def _classed(error: ExuviaError) -> Refused:
    match error:
        case SchemaChanged():
            return ErrInfoSchemaChanged()
        case Conflict():
            return ErrLockDeadlock()
        case Deposed():
            return ErrInfoSchemaExpired()
        case OutOfSpace():
            return Refused(error.code, "HY000", str(error))
        case StorageFailed():
            return ErrErrorOnWrite.with_text(str(error))
        case OutcomeUnknown():
            return ErrErrorDuringCommit.with_text(str(error))
        case Unavailable():
            return ErrTxnRetryable(f"{error}")
        case Broken():
            _log.error("a promise of this program does not hold", exc_info=error)
            return ErrUnknown(f"{error}")
        case _:
            return ErrUnknown(f"{error}")
