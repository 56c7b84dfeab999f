"""CONVERT_TZ: a moment of one zone as another's clock shows it.

A zone is a name of the zone database (that of the Python installation, so it is always loaded), an
offset from -13:59 to +14:00, or SYSTEM; of a zone that is none of these the answer is NULL. Django
asks for this before it lets queries truncate dates.
"""

import re
from datetime import UTC, timedelta, timezone, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

from exuvia.catalog import temporal
from exuvia.sql import types
from exuvia.sql.functions.table import Function

_OFFSET = re.compile(r"([-+])(?:(0?\d|1[0-3]):([0-5]?\d)|(14):(00?))")


@lru_cache(256)
def _zone(text: str) -> tzinfo | None:
    """The zone of that name, None for none."""
    if text.upper() in ("SYSTEM", "UTC"):
        return UTC
    found = _OFFSET.fullmatch(text)
    if found:
        hours, minutes = int(found[2] or found[4]), int(found[3] or found[5])
        ahead = timedelta(hours=hours, minutes=minutes)
        if found[1] == "-" and found[4]:
            return None
        return timezone(-ahead if found[1] == "-" else ahead)
    try:
        return ZoneInfo(text)
    except (KeyError, ValueError, OSError):
        return None


def _convert(packed: int, source: str, target: str) -> int | None:
    from_zone, to_zone = _zone(source), _zone(target)
    if from_zone is None or to_zone is None:
        return None
    return temporal.shift_zone(packed, from_zone, to_zone)


FUNCTIONS = {
    "convert_tz": Function(
        3,
        3,
        "tss",
        lambda a: types.datetime(types.fraction_digits(a[0].type)),
        _convert,
    ),
}
