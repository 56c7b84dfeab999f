"""USING and NATURAL: which columns are common, and in which order `*` shows the join's.

a JOIN b USING (x)         x, the rest of a, the rest of b
a RIGHT JOIN b USING (x)   x (that of b), the rest of b, the rest of a
"""

from collections.abc import Sequence
from typing import NamedTuple

from exuvia.sql.select.build import Frame


class Mark(NamedTuple):
    """Where a part of a FROM begins: among its columns, and among those that `*` shows."""

    fields: int = 0
    shown: int = 0

    @classmethod
    def of(cls, frame: Frame) -> "Mark":
        """What comes next begins here."""
        return cls(len(frame.fields), len(frame.order))


def common_names(frame: Frame, left: Sequence[int], right: Sequence[int]) -> list[str]:
    """The names of NATURAL: those that both sides show."""
    known = {frame.fields[position].name.lower() for position in right}
    names = (frame.fields[position].name for position in left)
    return [name for name in names if name.lower() in known]


def shown_order(
    frame: Frame, left: Sequence[int], right: Sequence[int], using: Sequence[str], side: str
) -> list[int]:
    """The columns of a join in the order of `*`; `side` RIGHT begins with those of the right."""
    common = {name.lower() for name in using}
    first, second = (right, left) if side == "RIGHT" and common else (left, right)

    def is_common(position: int) -> bool:
        return frame.fields[position].name.lower() in common

    shared = [position for position in first if is_common(position)]
    rest = [position for part in (first, second) for position in part if not is_common(position)]
    return shared + rest
