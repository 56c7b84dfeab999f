"""NEXTVAL, LASTVAL and SETVAL of a sequence named `[db.]s` (TiDB's manual, "Sequence functions").

LASTVAL is what this session was given last, NULL before that; SETVAL is NULL where the sequence is
already there.
"""

from typing import Any

from exuvia.base.mysql_errors import ErrWrongObject
from exuvia.sql import types
from exuvia.sql.functions.table import Function, always


def _sequence(env: Any, database: str, name: str) -> int:
    """Its id in this statement's snapshot. Raises 1146, 1347."""
    table = env.table(database, name)
    if table.info.sequence is None:
        raise ErrWrongObject(table.database.db_name.O, name, "SEQUENCE")
    return int(table.info.id)


def _nextval(env: Any, database: str, name: str) -> int:
    table_id = _sequence(env, database, name)
    value = int(env.session.services.ids.sequences.next(table_id))
    env.session.sequence_values[table_id] = value
    return value


def _lastval(env: Any, database: str, name: str) -> int | None:
    found: int | None = env.session.sequence_values.get(_sequence(env, database, name))
    return found


def _setval(env: Any, database: str, name: str, value: int) -> int | None:
    table_id = _sequence(env, database, name)
    found: int | None = env.session.services.ids.sequences.set(table_id, value)
    return found


_BIG = always(types.BIGINT)

FUNCTIONS = {
    "lastval": Function(2, 2, "s", _BIG, _lastval, env=True, volatile=True),
    "nextval": Function(2, 2, "s", _BIG, _nextval, env=True, volatile=True),
    "setval": Function(3, 3, "ssi", _BIG, _setval, env=True, volatile=True),
}
