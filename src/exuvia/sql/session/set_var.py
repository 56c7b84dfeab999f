"""The hint SET_VAR: a session variable has another value for one statement.

    SELECT /*+ SET_VAR(x = v) SET_VAR(y = w) */ ...      also INSERT, REPLACE, UPDATE, DELETE
    SELECT /*+ MAX_EXECUTION_TIME(n) */ ...              SET_VAR(max_execution_time = n)

3128 an unknown name · 3126 a name given twice, the first counts; both are warnings, and so is what
SET would refuse.
"""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import ErrUnresolvedHintName, ErrWarnConflictingHint
from exuvia.catalog.sysvar import variables
from exuvia.sql.result import Note, Result
from exuvia.sql.statement.settings import SessionSettings

_Found = TypeVar("_Found")
_HEAD = re.compile(
    r"[\s(]*(?:select|insert|replace|update|delete)\s*/\*\+(.*?)\*/", re.IGNORECASE | re.DOTALL
)
_ONE = re.compile(
    r"\bset_var\s*\(\s*([\w.]+)\s*=\s*('[^']*'|\"[^\"]*\"|[^\s)]+)\s*\)", re.IGNORECASE
)
_LIMIT = re.compile(r"\bmax_execution_time\s*\(\s*(\d+)\s*\)", re.IGNORECASE)


class SetVarHint(NamedTuple):
    """One SET_VAR."""

    name: str
    value: str


def wanted_by(text: str) -> tuple[SetVarHint, ...]:
    """What the statement's first hints ask for; mostly nothing."""
    if "/*+" not in text:
        return ()
    found = _HEAD.match(text)
    if found is None:
        return ()
    wanted = [
        SetVarHint(name.lower(), value.strip("'\"")) for name, value in _ONE.findall(found[1])
    ]
    limit = _LIMIT.search(found[1])
    return tuple(wanted if limit is None else [*wanted, SetVarHint("max_execution_time", limit[1])])


def hinted(
    settings: SessionSettings, wanted: Sequence[SetVarHint], work: Callable[[], _Found]
) -> _Found:
    """What the work answers while the settings have the wanted values; the hint's warnings stand
    before its own."""
    if not wanted:
        return work()
    before: dict[str, str] = {}
    errors = [_give(settings, each, before) for each in wanted]
    try:
        found = work()
    finally:
        settings.restore(before)
    if isinstance(found, Result):
        notes = [Note("Warning", error.code, error.message) for error in errors if error]
        found.warnings = [*notes, *found.warnings]
    return found


def _give(settings: SessionSettings, each: SetVarHint, before: dict[str, str]) -> Refused | None:
    if variables.canonical(each.name) not in variables.VARIABLES:
        return ErrUnresolvedHintName(each.name, "SET_VAR")
    if each.name in before:
        return ErrWarnConflictingHint(f"SET_VAR({each.name}={each.value})")
    try:
        kept = settings.get(each.name)
        warning = settings.set_session(each.name, each.value)
    except Refused as error:
        return error
    before[each.name] = kept
    return warning
