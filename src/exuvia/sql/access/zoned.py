"""Bounds on TIMESTAMP columns: kept in UTC, compared as local time of the session's zone.

    local time             UTC                                   bound
    any other              one moment                            exact
    twice, in autumn       two, an hour apart                    =  INEXACT    < >  the outer one
    never, in spring       two guesses around the change         likewise
    names its own zone     left to the evaluator                 INEXACT

A bound never leaves a row out; the condition is evaluated again in any case.
"""

from datetime import UTC, tzinfo
from typing import NamedTuple

from exuvia.base.types import FieldType
from exuvia.catalog.temporal import from_moment, to_moment
from exuvia.sql.access.bounds import INEXACT, NOTHING, Bounder, bounder
from exuvia.sql.functions.moment import names_zone
from exuvia.sql.result import Value


class Doubtful(NamedTuple):
    """A local time that is not exactly one moment: the first and the last it may be, packed."""

    first: int
    last: int


def zoned_bounder(kind: FieldType, equality: bool, zone: tzinfo | None) -> Bounder:
    """As `bounder`, of local times of that zone; a range's bound may be Doubtful."""
    plain = bounder(kind, equality)
    if zone is None:
        return plain

    def bound(value: Value) -> Value:
        if isinstance(value, str) and names_zone(value):
            return INEXACT
        local = plain(value)
        if local is INEXACT or local is NOTHING:
            return local
        found = _moments(local, zone)
        if found is None or (equality and found.first != found.last):
            return INEXACT
        return found.first if found.first == found.last else found

    return bound


def _moments(local: int, zone: tzinfo) -> Doubtful | None:
    """None for what no calendar has."""
    try:
        moment = to_moment(local).replace(tzinfo=zone)
        both = [from_moment(moment.replace(fold=fold).astimezone(UTC)) for fold in (0, 1)]
    except (OverflowError, ValueError):
        return None
    return Doubtful(min(both), max(both))
