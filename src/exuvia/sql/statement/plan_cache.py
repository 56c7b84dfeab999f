"""Plans by the shape of their statement, shared by the sessions of a node.

    (surroundings, shape, letters) -> a plan     bind the literals, if its tables are the same
                                   -> AsWritten  some literals decide more than a value, as in
                                                 NOW(3) or SELECT 1: look under the shape that has
                                                 them as they are written
                                   -> REFUSED    no shape is enough: plan each text

Surroundings are what else a plan depends on: current database, sql_mode, connection collation. A
plan holds the tables it was made for and proves itself fresh in each statement's own snapshot
(law 1); nothing invalidates it but new statistics, of which every front hears (stats/cache.py),
and those only plans that were chosen by some.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from exuvia.base.types import Value

Key = tuple[str, str, str]


class Refusal:
    """Marks a shape that has no plan of its own."""


REFUSED: Final = Refusal()


class AsWritten(NamedTuple):
    """Marks a shape whose literals `numbers` (from 0) belong into it as they are written."""

    numbers: frozenset[int]


class ShapedStatement(NamedTuple):
    """A statement as its shape, the values for its `?`, and what was kept for them when it was
    looked for: once a statement. The plan proves itself fresh when it runs."""

    key: Key
    values: Sequence[Value]
    kept: object  # a KeptPlan, AsWritten, Refusal, or None


class PlanCache:
    """Thread-safe by being one dict.

    Emptied when it is full, which costs each shape one planning."""

    def __init__(self, most: int = 4096, most_characters: int = 16 << 20) -> None:
        self._plans: dict[Key, object] = {}
        self._lasting: set[Key] = set()
        self._most = most
        self._most_characters = most_characters
        self._characters = 0
        self.find = self._plans.get

    def put(self, key: Key, plan: object, lasting: bool = False) -> None:
        """Keep a plan, AsWritten or REFUSED. `lasting`: no statistics would make it another one."""
        if key not in self._plans:
            self._characters += len(key[1])
        if len(self._plans) >= self._most or self._characters > self._most_characters:
            self._plans.clear()
            self._lasting.clear()
            self._characters = len(key[1])
        self._plans[key] = plan
        (self._lasting.add if lasting else self._lasting.discard)(key)

    def forget(self) -> None:
        """Plan shapes anew: statistics may choose otherwise now."""
        for key in list(self._plans):
            if key not in self._lasting and self._plans.pop(key, None) is not None:
                self._characters -= len(key[1])

    def __len__(self) -> int:
        return len(self._plans)
