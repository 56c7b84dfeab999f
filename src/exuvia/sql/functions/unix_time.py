"""UNIX_TIMESTAMP, FROM_UNIXTIME: seconds since 1970 in UTC, moments in the session's zone."""

from decimal import Decimal
from typing import Any

from exuvia.base.types import pack_date
from exuvia.catalog import temporal
from exuvia.sql import types
from exuvia.sql.expr import Expr
from exuvia.sql.functions import date_format, moment
from exuvia.sql.functions.table import Function, always

_BIG = always(types.integer(20))
_TOO_LATE = 32_536_771_200  # seconds; the year 3001, as in MySQL 8
EPOCH_DAY = moment.day_number(pack_date(1970, 1, 1))


def _unix_now(env: Any) -> int:
    return moment.microseconds(env.utc_now) // 1_000_000 - EPOCH_DAY * 86400


def _unix_timestamp(env: Any, packed: int) -> int:
    packed = temporal.shift_zone(packed, env.zone, None)
    return max(0, moment.microseconds(packed) // 1_000_000 - EPOCH_DAY * 86400)


def _unix_exactly(env: Any, packed: int) -> Decimal:
    return _unix_timestamp(env, packed) + Decimal(packed & 0xFFFFF).scaleb(-6)


def _from_unix(env: Any, seconds: Any) -> int | None:
    if not 0 <= seconds < _TOO_LATE:
        return None
    micros = round(seconds * 1_000_000)
    found = moment.of_microseconds(EPOCH_DAY * moment.DAY_US + micros)
    return None if found is None else temporal.shift_zone(found, None, env.zone)


def _from_unix_formatted(env: Any, seconds: Any, form: str | None = None) -> Any:
    found = _from_unix(env, seconds)
    if form is None or found is None:
        return found
    return date_format.format_moment(found, form)


def _scale(argument: Expr) -> int:
    kind = types.numeric_form(argument.type)
    if kind.Tp == types.DOUBLE.Tp:
        return 6
    return max(0, min(6, kind.Decimal))


FUNCTIONS = {
    "from_unixtime": Function(
        1,
        2,
        "ns",
        lambda a: types.text(255) if len(a) > 1 else types.datetime(_scale(a[0])),
        _from_unix_formatted,
        env=True,
    ),
    "unix_timestamp": Function(1, 1, "t", _BIG, _unix_timestamp, env=True),
    "unix_timestamp_exactly": Function(
        1, 1, "t", always(types.decimal(18, 6)), _unix_exactly, env=True
    ),
    "unix_timestamp_now": Function(0, 0, "", _BIG, _unix_now, env=True),
}
