"""A window of the day, in which something may begin.

    00:00 +0000 .. 06:00 +0000        between them, both minutes included
    22:00 +0100 .. 04:00 +0000        over midnight

Both ends are turned into minutes of the day in UTC, whatever their zones; so is now.
"""

import re

DAY_MINUTES = 24 * 60
DAY_S = DAY_MINUTES * 60
_TIME = re.compile(r"\s*(\d{1,2}):(\d{2})(?:\s*([+-])(\d{2})(\d{2}))?\s*")


def minute_of(text: str) -> int:
    """The minute of the day in UTC. Raises ValueError."""
    match = _TIME.fullmatch(text)
    if match is None or int(match[1]) > 23 or int(match[2]) > 59:
        raise ValueError(f"no time of day: {text!r}")
    minute = int(match[1]) * 60 + int(match[2])
    if match[3]:
        offset = int(match[4]) * 60 + int(match[5])
        minute += -offset if match[3] == "+" else offset
    return minute % DAY_MINUTES


def is_open(start: str, end: str, wall_s: float) -> bool:
    """Whether that moment, in seconds since 1970, is in the window; a window that cannot be read
    is open all day."""
    try:
        first, last = minute_of(start), minute_of(end)
    except ValueError:
        return True
    now = int(wall_s // 60) % DAY_MINUTES
    if first <= last:
        return first <= now <= last
    return now >= first or now <= last


def ends_of(window: str) -> tuple[str, str]:
    """The two ends of "22:00-06:00 +0100", each with the zone; UTC without one. Raises
    ValueError."""
    times, _, zone = window.strip().partition(" ")
    first, dash, last = times.partition("-")
    ends = f"{first} {zone}".strip(), f"{last} {zone}".strip()
    if not dash:
        raise ValueError(f"no window of the day: {window!r}")
    for end in ends:
        minute_of(end)
    return ends


def opens_at(window: str, wall_s: float) -> float:
    """When the window of `ends_of` opens next, or now if it is open, in seconds since 1970."""
    start, end = ends_of(window)
    if is_open(start, end, wall_s):
        return wall_s
    began = wall_s // DAY_S * DAY_S + minute_of(start) * 60
    return began if began > wall_s else began + DAY_S
