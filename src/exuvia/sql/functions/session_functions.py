"""Functions of the session: who, where, which (manual, "Information Functions").

Without a session they are refused with 1105.
"""

import uuid
from typing import Any

from exuvia.base.mysql_errors import ErrUnknown, ErrWrongArguments
from exuvia.sql import types
from exuvia.sql.functions.table import Function, always

_TEXT = always(types.text(255))
SERVER_VERSION = "version"


def session_of(env: Any) -> Any:
    """The session of a statement. Raises 1105 without one."""
    found = getattr(env, "session", None)
    if found is None:
        raise ErrUnknown("no session here")
    return found


def _user(env: Any) -> str:
    session = session_of(env)
    return f"{session.user}@{session.host}"


def _account(env: Any) -> str:
    session = session_of(env)
    user, host = getattr(session, "account_name", (session.user, session.host))
    return f"{user}@{host}"


def _role(env: Any) -> str:
    return str(getattr(session_of(env), "current_role", "NONE"))


def _database(env: Any) -> str | None:
    return getattr(env, "database", "") or None


def _version(env: Any) -> str:
    return str(env.variable(SERVER_VERSION))


def _unique(env: Any) -> str:
    return str(uuid.uuid1())


def _sleep(env: Any, seconds: float | None) -> int:
    """SLEEP; a KILL ends it."""
    if seconds is None or seconds < 0:
        env.raise_or_note(ErrWrongArguments("sleep"))
        return 0
    if seconds > 0:
        session_of(env).named_locks.sleep(seconds)
    return 0


def _last_insert_id(env: Any, value: int | None = None) -> int:
    if value is not None:
        session_of(env).last_insert_id = value
        return value
    return int(session_of(env).last_insert_id)


_BIG = always(types.UNSIGNED)


FUNCTIONS = {
    "connection_id": Function(0, 0, "", _BIG, lambda env: session_of(env).connection_id, env=True),
    "current_role": Function(0, 0, "", _TEXT, _role, env=True),
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
    "version": Function(0, 0, "", _TEXT, _version, env=True),
}
