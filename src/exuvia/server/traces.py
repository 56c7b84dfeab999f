"""Spans of statements for OpenTelemetry: which statements get one, and its content.

    a parent in a comment at its beginning or end (W3C Trace Context, as sqlcommenter writes it):
        SELECT 1 /*traceparent='00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'*/
                         a span if the parent is sampled
    no parent            a span for a share of these statements, by trace id

`exuvia serve --trace-statements` turns it on. Then each statement costs one search for a comment,
and each sampled one a span. Spans have names and texts without literals and passwords.
"""

import random
import re
from collections.abc import Callable
from typing import NamedTuple

from exuvia.base.clock import Clock
from exuvia.sql.parse.secrets import without_secrets
from exuvia.sql.statement.context import SessionApi

OFF, PARENT = "off", "parent"
MOST_TEXT = 4096
_MOST_COMMENT = 1024
_PARENT = re.compile(r"traceparent\s*=\s*'?00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})\b")
_HIDDEN = re.compile(
    r"""/\*.*?\*/\s*|'(?:[^'\\]|\\.|'')*+(?:'|\Z)|"(?:[^"\\]|\\.|"")*+(?:"|\Z)"""
    r"|(?<![\w$@.`])[0-9][\w.]*",
    re.DOTALL,
)
_SAMPLED = 1
_HALF = (1 << 64) - 1  # the part of a trace id that OpenTelemetry compares with the share
_WORD = re.compile(r"\s*([A-Za-z]+)")


class Parent(NamedTuple):
    """The client's span, from its traceparent."""

    trace: int
    span: int
    sampled: bool


class StatementSpan(NamedTuple):
    """A span. `parent` 0: the statement begins its trace. Unit: ns.

    `error`: MySQL's code, or "". Its message may quote rows and is not sent."""

    trace: int
    parent: int
    name: str
    began_ns: int
    ended_ns: int
    attributes: dict[str, str | int]
    error: str


def share_of(text: str) -> float | None:
    """The share of statements without a parent that `--trace-statements` selects; None for off.

    Raises ValueError for a text that is neither `off`, `parent`, nor a number from 0 to 1."""
    if text in (OFF, PARENT):
        return None if text == OFF else 0.0
    share = float(text)
    if not 0 <= share <= 1:
        raise ValueError(text)
    return share


def parent_of(text: str) -> Parent | None:
    """The parent in a comment at the beginning or the end of a statement, or None."""
    for comment in _outer_comments(text):
        match = _PARENT.search(comment)
        if match and (trace := int(match[1], 16)) and (span := int(match[2], 16)):
            return Parent(trace, span, bool(int(match[3], 16) & _SAMPLED))
    return None


def _outer_comments(text: str) -> list[str]:
    end = text[-_MOST_COMMENT:].rstrip("; \t\r\n")
    comments = [end[max(0, end.rfind("/*")) :]] if end.endswith("*/") else []
    beginning = text[:_MOST_COMMENT].lstrip()
    if beginning.startswith("/*"):
        comments.append(beginning.partition("*/")[0])
    return comments


def without_literals(text: str) -> str:
    """The statement without comments, literals and passwords."""
    return _HIDDEN.sub(_sign, without_secrets(text, MOST_TEXT)).strip()


def _sign(match: re.Match[str]) -> str:
    return "" if match[0].startswith("/*") else "?"


class StatementTraces:
    """Decides which statements are traced, and passes their spans to `emit`. Any thread."""

    def __init__(
        self,
        share: float,
        clock: Clock,
        emit: Callable[[StatementSpan], None],
        ids: random.Random,
    ) -> None:
        self._least = round(share * (1 << 64))
        self._clock = clock
        self._emit = emit
        self._ids = ids

    def ended(self, session: SessionApi, kind: str, text: str, took_s: float) -> None:
        """Trace a command that has ended. `kind`: its name in metrics; `text`: its statement."""
        if not text:
            return
        parent = parent_of(text)
        if parent is None:
            trace = self._ids.getrandbits(128) or 1
            if (trace & _HALF) >= self._least:
                return
            parent = Parent(trace, 0, sampled=True)
        if parent.sampled:
            self._emit(self._span(session, kind, text, took_s, parent))

    def _span(
        self, session: SessionApi, kind: str, text: str, took_s: float, parent: Parent
    ) -> StatementSpan:
        query = without_literals(text)
        word = _WORD.match(query)
        name = word[1].upper() if word else kind
        attributes: dict[str, str | int] = {
            "db.system.name": "exuvia",
            "db.namespace": session.database,
            "db.operation.name": name,
            "db.query.text": query,
            "enduser.id": session.user,
            "exuvia.connection.id": session.connection_id,
        }
        error = next(
            (f"{warning.code}" for warning in session.warnings if warning.level == "Error"), ""
        )
        if error:
            attributes |= {"db.response.status_code": error, "error.type": error}
        ended_ns = self._clock.wall_ns()
        began_ns = ended_ns - round(took_s * 1e9)
        return StatementSpan(parent.trace, parent.span, name, began_ns, ended_ns, attributes, error)
