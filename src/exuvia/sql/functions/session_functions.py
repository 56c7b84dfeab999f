"""Functions of the session: its user, database, version (manual, "Information Functions").

Without a session they raise 1105.

Functions of named locks (manual, "Locking Functions"). The session has the locks.

NEXTVAL, LASTVAL and SETVAL for a sequence named `[db.]s` (TiDB's manual, "Sequence functions").

LASTVAL is the last value of NEXTVAL in this session, NULL before. SETVAL is NULL if the sequence
has already passed the value.
"""

import uuid
from collections.abc import Callable
from typing import Any

from exuvia.base.mysql_errors import (
    ErrTruncatedWrongValue,
    ErrUnknown,
    ErrWrongArguments,
    ErrWrongObject,
)
from exuvia.base.types import Value
from exuvia.sql import types
from exuvia.sql.env import Env
from exuvia.sql.functions.table import Function, always
from exuvia.sql.privileges import password_policy

_TEXT = always(types.text(255))
SERVER_VERSION = "version"


def session_of(env: Env) -> Any:
    """The session of a statement. Raises 1105 without one."""
    session = getattr(env, "session", None)
    if session is None:
        raise ErrUnknown("no session here")
    return session


def _user(env: Env) -> str:
    session = session_of(env)
    return f"{session.user}@{session.host}"


def _account(env: Env) -> str:
    session = session_of(env)
    user, host = getattr(session, "account_name", (session.user, session.host))
    return f"{user}@{host}"


def _role(env: Env) -> str:
    return str(getattr(session_of(env), "current_role", "NONE"))


def _resource_group(env: Env) -> str:
    return str(getattr(session_of(env), "resource_group", "default"))


def _database(env: Env) -> str | None:
    return getattr(env, "database", "") or None


def _version(env: Env) -> str:
    return str(env.variable(SERVER_VERSION))


def _unique(env: Env) -> str:
    return str(uuid.uuid1())


def _sleep(env: Env, seconds: float | None) -> int:
    """SLEEP, which KILL interrupts."""
    if seconds is None or seconds < 0:
        env.raise_or_note(ErrWrongArguments("sleep"))
        return 0
    if seconds > 0:
        session_of(env).named_locks.sleep(seconds)
    return 0


def _last_insert_id(env: Env, value: int | None = None) -> int:
    if value is not None:
        session_of(env).last_insert_id = value
        return value
    return int(session_of(env).last_insert_id)


_BIG = always(types.UNSIGNED)


def _password_strength(env: Env, password: str) -> int:
    session = session_of(env)
    user, _ = getattr(session, "account_name", (session.user, ""))
    settings = getattr(env, "global_variable", session.settings.get)
    return password_policy.strength(settings, (session.user, user), password)


FUNCTIONS = {
    "connection_id": Function(0, 0, "", _BIG, lambda env: session_of(env).connection_id, env=True),
    "current_role": Function(0, 0, "", _TEXT, _role, env=True),
    "current_resource_group": Function(0, 0, "", _TEXT, _resource_group, env=True),
    "current_user": Function(0, 0, "", _TEXT, _account, env=True),
    "database": Function(0, 0, "", _TEXT, _database, env=True),
    "found_rows": Function(0, 0, "", _BIG, lambda env: session_of(env).found_rows, env=True),
    "last_insert_id": Function(0, 1, "i", _BIG, _last_insert_id, env=True, volatile=True),
    "row_count": Function(
        0, 0, "", always(types.BIGINT), lambda env: session_of(env).row_count, env=True
    ),
    "schema": Function(0, 0, "", _TEXT, _database, env=True),
    "session_user": Function(0, 0, "", _TEXT, _user, env=True),
    "sleep": Function(1, 1, "f", always(types.BIGINT), _sleep, nulls=True, env=True, volatile=True),
    "system_user": Function(0, 0, "", _TEXT, _user, env=True),
    "user": Function(0, 0, "", _TEXT, _user, env=True),
    "uuid": Function(0, 0, "", always(types.text(36)), _unique, env=True, volatile=True),
    "validate_password_strength": Function(
        1, 1, "s", always(types.BIGINT), _password_strength, env=True, volatile=True
    ),
    "version": Function(0, 0, "", _TEXT, _version, env=True),
}


# -- lock functions --------------------------------------------------------------------------------

_NUMBER = always(types.integer(20))


def _get(env: Env, name: str | None, timeout_s: float | None) -> int:
    if timeout_s is not None and timeout_s < 0:
        env.note(
            ErrTruncatedWrongValue.code, f"Truncated incorrect get_lock value: '{timeout_s:g}'"
        )
    return int(session_of(env).named_locks.get(name, timeout_s or 0.0))


def _release(env: Env, name: str | None) -> int:
    return int(session_of(env).named_locks.release(name))


def _release_all(env: Env) -> int:
    return int(session_of(env).named_locks.release_all())


def _is_free(env: Env, name: str | None) -> int:
    return int(session_of(env).named_locks.user_of(name) is None)


def _lock_user(env: Env, name: str | None) -> int | None:
    user: int | None = session_of(env).named_locks.user_of(name)
    return user


def _entry(count: int, kinds: str, run: Callable[..., Value]) -> Function:
    return Function(count, count, kinds, _NUMBER, run, nulls=True, env=True, volatile=True)


LOCKS = {
    "get_lock": _entry(2, "sf", _get),
    "is_free_lock": _entry(1, "s", _is_free),
    "is_used_lock": _entry(1, "s", _lock_user),
    "release_all_locks": _entry(0, "", _release_all),
    "release_lock": _entry(1, "s", _release),
}


# -- sequence functions ----------------------------------------------------------------------------


def _sequence(env: Env, database: str, name: str) -> int:
    """The sequence's id in this statement's snapshot. Raises 1146, 1347."""
    table = env.table(database, name)
    if table.info.sequence is None:
        raise ErrWrongObject(table.database.db_name.O, name, "SEQUENCE")
    return int(table.info.id)


def _nextval(env: Env, database: str, name: str) -> int:
    table_id = _sequence(env, database, name)
    env.admit(True)
    value = int(env.session.services.ids.sequences.next(table_id))
    env.session.sequence_values[table_id] = value
    return value


def _lastval(env: Env, database: str, name: str) -> int | None:
    value: int | None = env.session.sequence_values.get(_sequence(env, database, name))
    return value


def _setval(env: Env, database: str, name: str, value: int) -> int | None:
    table_id = _sequence(env, database, name)
    env.admit(True)
    new_value: int | None = env.session.services.ids.sequences.set(table_id, value)
    return new_value


_SEQUENCE_VALUE = always(types.BIGINT)

SEQUENCES = {
    "lastval": Function(2, 2, "s", _SEQUENCE_VALUE, _lastval, env=True, volatile=True),
    "nextval": Function(2, 2, "s", _SEQUENCE_VALUE, _nextval, env=True, volatile=True),
    "setval": Function(3, 3, "ssi", _SEQUENCE_VALUE, _setval, env=True, volatile=True),
}
