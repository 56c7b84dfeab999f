"""How urgent it is to analyze a table: four indicators, one number (seed 004, "Calculate the
score").

    score = 0.6 * log10(1 + change)               change     rows changed since the last analysis,
                                                             in percent; 100 if never analyzed
          + 0.1 * (1 - log10(1 + size))           size       rows x columns subject to analysis
          + 0.3 * log10(1 + sqrt(age))            age        seconds since the last analysis
          + 2.0   where an index has no statistics

Pure. `scores` is the same for arrays, for a rebuild of a million tables.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

CHANGE_WEIGHT = 0.6
SIZE_WEIGHT = 0.1
AGE_WEIGHT = 0.3
NEW_INDEX_EVENT = 2.0
NEVER_ANALYZED_CHANGE = 100.0
NEVER_ANALYZED_AGE_S = 1800.0  # as long as a table without an analysis is taken to have waited

Numbers = NDArray[np.float64]


class Indicators(NamedTuple):
    """What a score is made of. `change` in percent, `size` in cells, `age_s` in seconds."""

    change: float
    size: float
    age_s: float


class Parts(NamedTuple):
    """A score, taken apart."""

    change: float
    size: float
    age: float
    event: float

    @property
    def total(self) -> float:
        """The score."""
        return self.change + self.size + self.age + self.event


def parts(indicators: Indicators, has_new_index: bool = False) -> Parts:
    """The four summands. Raises ValueError for a negative indicator."""
    if min(indicators) < 0:
        raise ValueError(f"an indicator is negative: {indicators}")
    return Parts(
        CHANGE_WEIGHT * math.log10(1 + indicators.change),
        SIZE_WEIGHT * (1 - math.log10(1 + indicators.size)),
        AGE_WEIGHT * math.log10(1 + math.sqrt(indicators.age_s)),
        NEW_INDEX_EVENT if has_new_index else 0.0,
    )


def score(indicators: Indicators, has_new_index: bool = False) -> float:
    """The number itself."""
    return parts(indicators, has_new_index).total


def scores(
    change: Numbers, size: Numbers, age_s: Numbers, has_new_index: NDArray[np.bool_]
) -> Numbers:
    """`score` for arrays of equal shape."""
    found: Numbers = (
        CHANGE_WEIGHT * np.log10(1 + change)
        + SIZE_WEIGHT * (1 - np.log10(1 + size))
        + AGE_WEIGHT * np.log10(1 + np.sqrt(age_s))
        + NEW_INDEX_EVENT * has_new_index
    )
    return found
