"""Errors as clients of Spark see them: one line with MySQL's code, SQLSTATE and message.

    without    [PYTHON_DATA_SOURCE_ERROR] Failed to commit or abort Python data source write:
               Traceback (most recent call last): ...
    with       [PYTHON_DATA_SOURCE_ERROR] Failed to commit or abort Python data source write:
               MySQLError: 1062 (23000): Duplicate entry '7' for key 'orders.PRIMARY'

A worker of Spark sends the class, text and traceback of an error. It omits the traceback if
SPARK_HIDE_TRACEBACK is set. `shows_errors` sets it in the worker, which ends after it has sent the
error, so later code is not affected. Faults of this program keep class and traceback.
"""

import os
import sys
from collections.abc import Callable, Generator, Iterator
from functools import wraps
from typing import Any, TypeVar

from exuvia.base.errors import Broken, ExuviaError, Refused
from exuvia.base.mysql_errors import ErrUnknown, ErrWrongArguments, MySQLError
from exuvia.server.packets import explain

Kind = TypeVar("Kind", bound=type)


class WrongUse(Refused, ValueError):
    """An option that cannot be used, or a write that cannot be finished."""


def wrong_option(text: str) -> WrongUse:
    """Returns 1210: an option is missing or has a wrong value."""
    return _wrong_use(ErrWrongArguments, text)


def wrong_state(text: str) -> WrongUse:
    """Returns 1105: the write was given up, or its task is late."""
    return _wrong_use(ErrUnknown, text)


def _wrong_use(kind: MySQLError, text: str) -> WrongUse:
    return WrongUse(kind.code, kind.state, text)


def line_of(error: ExuviaError) -> str:
    """Returns the error as code, SQLSTATE and message."""
    explained = explain(error)
    reason = "" if str(error) in explained.message else f": {error}"
    return f"{explained.code} ({explained.state}): {explained.message}{reason}"


def _shown_class(kind: type[ExuviaError]) -> type[ExuviaError]:
    members = {"__module__": "builtins", "__str__": lambda error: error.shown_line}
    return type("MySQLError", (kind,), members)


def show(error: ExuviaError) -> None:
    """Changes the error's class to a subclass whose text has the code."""
    if isinstance(error, Broken) or hasattr(error, "shown_line"):
        return
    renamed: Any = error
    renamed.shown_line = line_of(error)
    renamed.__class__ = _shown_class(type(error))
    if _is_worker():
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"


def _is_worker() -> bool:
    """Whether Spark started this process."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return spec is not None and spec.name.startswith("pyspark.")


def shows_errors(kind: Kind) -> Kind:
    """Decorates a class: its public methods raise errors that show their code."""
    for name, member in list(vars(kind).items()):
        if callable(member) and not name.startswith("_"):
            setattr(kind, name, showing(member))
    return kind


def showing(method: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the method with errors that show their code."""

    @wraps(method)
    def call(*arguments: Any, **named: Any) -> Any:
        try:
            answer = method(*arguments, **named)
        except ExuviaError as error:
            show(error)
            raise
        return _iterated(answer) if isinstance(answer, Generator) else answer

    return call


def _iterated(values: Iterator[Any]) -> Iterator[Any]:
    try:
        yield from values
    except ExuviaError as error:
        show(error)
        raise
