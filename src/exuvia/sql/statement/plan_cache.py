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

import threading
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


MOST_CHARACTERS = 1 << 18
"""Of the shapes of all plans: a plan takes 350 to 900 bytes a character."""
LONGEST_SHARE = 8


class PlanCache:
    """Thread-safe. Emptied when it is full, which costs each shape one planning; a shape that would
    take an eighth of it is planned each time."""

    def __init__(self, most: int = 4096, most_characters: int = MOST_CHARACTERS) -> None:
        self._lock = threading.Lock()  # of who changes it
        self._plans: dict[Key, object] = {}
        self._lasting: set[Key] = set()
        self._most = most
        self._most_characters = most_characters
        self._characters = 0
        self.find = self._plans.get

    def put(self, key: Key, plan: object, lasting: bool = False) -> None:
        """Keep a plan, AsWritten or REFUSED. `lasting`: no statistics would make it another one."""
        weight = _weight(key, plan)
        if weight * LONGEST_SHARE > self._most_characters:
            return
        with self._lock:
            self._remove(key)
            if len(self._plans) >= self._most or self._characters + weight > self._most_characters:
                self._plans.clear()
                self._lasting.clear()
                self._characters = 0
            self._characters += weight
            self._plans[key] = plan
            if lasting:
                self._lasting.add(key)

    def forget(self) -> None:
        """Plan shapes anew: statistics may choose otherwise now."""
        with self._lock:
            for key in [each for each in self._plans if each not in self._lasting]:
                self._remove(key)

    def _remove(self, key: Key) -> None:
        plan = self._plans.pop(key, None)
        self._lasting.discard(key)
        if plan is not None:
            self._characters -= _weight(key, plan)

    def __len__(self) -> int:
        return len(self._plans)


def _weight(key: Key, plan: object) -> int:
    """In characters of a plan's shape: a mark is not much more than its text."""
    length = len(key[1])
    return length // 256 if isinstance(plan, AsWritten | Refusal) else length
