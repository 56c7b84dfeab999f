"""Locks with names (manual, "Locking Functions"); who holds them is the session's to know."""

from typing import Any

from exuvia.base.mysql_errors import ErrTruncatedWrongValue
from exuvia.sql import types
from exuvia.sql.functions.session_functions import session_of
from exuvia.sql.functions.table import Function, always

_NUMBER = always(types.integer(20))


def _get(env: Any, name: str | None, timeout_s: float | None) -> int:
    if timeout_s is not None and timeout_s < 0:
        env.note(
            ErrTruncatedWrongValue.code, f"Truncated incorrect get_lock value: '{timeout_s:g}'"
        )
    return int(session_of(env).named_locks.get(name, timeout_s or 0.0))


def _release(env: Any, name: str | None) -> int:
    return int(session_of(env).named_locks.release(name))


def _release_all(env: Any) -> int:
    return int(session_of(env).named_locks.release_all())


def _is_free(env: Any, name: str | None) -> int:
    return int(session_of(env).named_locks.user_of(name) is None)


def _user(env: Any, name: str | None) -> Any:
    return session_of(env).named_locks.user_of(name)


def _entry(count: int, kinds: str, run: Any) -> Function:
    return Function(count, count, kinds, _NUMBER, run, nulls=True, env=True, volatile=True)


FUNCTIONS = {
    "get_lock": _entry(2, "sf", _get),
    "is_free_lock": _entry(1, "s", _is_free),
    "is_used_lock": _entry(1, "s", _user),
    "release_all_locks": _entry(0, "", _release_all),
    "release_lock": _entry(1, "s", _release),
}
