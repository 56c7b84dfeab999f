"""The plan cache: plans by the shapes of statements, shared by the sessions of a node.

    (text, letters) -> the names of the facts that plans of the shape depend on (bind/binding.py)
      their values    -> a plan     use it with the literals, if its tables are the same
                      -> AsWritten  some literals decide more than a value, as in NOW(3) or SELECT
                                    1: look up the shape that contains these literals
                      -> REFUSED    no shape is enough: plan each text

Planning records the facts that it reads. If no earlier plan of the shape has read a fact, the list
of names grows. Then the older plans are dropped, because their values are incomplete.
A session caches its values until its next SET or USE, so finding a plan takes two look-ups.

A plan refers to its tables and verifies their revisions in each statement's own snapshot (law 1).
Only new statistics invalidate plans, and only those that were chosen by statistics. Every front is
notified of them (stats/cache.py).
"""

import threading
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol, runtime_checkable

from exuvia.base.types import Value
from exuvia.sql.bind.binding import Answers, Binding, FactNames


class StatementShape(NamedTuple):
    """A statement without its literals, and the type letters of these."""

    text: str
    letters: str


class Refusal:
    """Marks a shape without a plan."""


REFUSED: Final = Refusal()


class AsWritten(NamedTuple):
    """Marks a shape that must contain the literals with these `numbers` (from 0)."""

    numbers: frozenset[int]


class FactSource(Protocol):
    """A session."""

    def answers(self, fact_names: FactNames, values: Sequence[Value]) -> Answers:
        """The values of these facts, for these literals."""


@runtime_checkable
class Weighed(Protocol):
    """A plan."""

    @property
    def columns_weight(self) -> int:
        """The memory of its columns, in characters of a shape."""


class PlansOfShape:
    """The plans of one shape, by the values of `fact_names`. Only `plans` changes."""

    __slots__ = ("fact_names", "plans")

    def __init__(self, fact_names: FactNames) -> None:
        self.fact_names = fact_names
        self.plans: dict[Answers, object] = {}


class ShapedStatement(NamedTuple):
    """A statement as its shape, the values for its `?`, and what the cache had for them.

    The cache is searched once per statement. The plan verifies itself when it runs."""

    shape: StatementShape
    values: Sequence[Value]
    cached: object  # a KeptPlan, AsWritten, Refusal, or None


MOST_CHARACTERS = 1 << 18
"""The limit for the shapes of all plans: a plan takes 350 to 900 bytes per character.

The columns that it refers to count, too: `t.*` in a short text may mean thousands."""
LONGEST_SHARE = 8
MOST_OF_SHAPE = 64
"""The most plans of a shape: for scales of literals, types of variables, settings."""


class PlanCache:
    """A thread-safe cache. It is cleared when it is full, so each shape is then planned once.

    A shape that would take an eighth of the cache is planned each time."""

    def __init__(self, most: int = 4096, most_characters: int = MOST_CHARACTERS) -> None:
        self._lock = threading.Lock()  # for changes
        self._shapes: dict[StatementShape, PlansOfShape] = {}
        self._lasting: set[tuple[StatementShape, Answers]] = set()
        self._most = most
        self._most_characters = most_characters
        self.characters = 0
        self._count = 0
        self.of_shape = self._shapes.get

    def find(self, shape: StatementShape, session: FactSource, values: Sequence[Value]) -> object:
        """The session's plan of a shape; AsWritten, REFUSED, or None."""
        cached = self.of_shape(shape)
        return (
            None if cached is None else cached.plans.get(session.answers(cached.fact_names, values))
        )

    def put(
        self,
        shape: StatementShape,
        session: FactSource,
        values: Sequence[Value],
        binding: Binding,
        plan: object,
        lasting: bool = False,
    ) -> None:
        """Caches a plan, AsWritten or REFUSED, made with this binding.

        `lasting`: it does not depend on statistics."""
        weight = _weight(shape, plan)
        if weight * LONGEST_SHARE > self._most_characters:
            return
        with self._lock:
            cached = self._shapes.get(shape)
            fact_names = binding.fact_names
            wider = fact_names if cached is None else cached.fact_names.with_these(fact_names)
            answers = session.answers(wider, values)
            if not binding.agrees(wider, answers):
                return  # a global variable has changed meanwhile
            if cached is not None:
                if wider != cached.fact_names or (
                    len(cached.plans) >= MOST_OF_SHAPE and answers not in cached.plans
                ):
                    self._remove_shape(shape)
                else:
                    self._remove(shape, answers)
            if self._count >= self._most or self.characters + weight > self._most_characters:
                self._shapes.clear()
                self._lasting.clear()
                self.characters = self._count = 0
            cached = self._shapes.get(shape)
            if cached is None:
                cached = self._shapes[shape] = PlansOfShape(wider)
            self.characters += weight
            self._count += 1
            cached.plans[answers] = plan
            if lasting:
                self._lasting.add((shape, answers))

    def replace(
        self, shape: StatementShape, session: FactSource, values: Sequence[Value], plan: object
    ) -> None:
        """Caches the plan for another revision of its table, if the old one is still cached."""
        with self._lock:
            cached = self._shapes.get(shape)
            answers = () if cached is None else session.answers(cached.fact_names, values)
            if cached is not None and answers in cached.plans:
                self.characters += _weight(shape, plan) - _weight(shape, cached.plans[answers])
                cached.plans[answers] = plan

    def forget(self) -> None:
        """Drops the plans that depend on statistics."""
        with self._lock:
            for shape, cached in self._shapes.items():
                for answers in [key for key in cached.plans if (shape, key) not in self._lasting]:
                    self._remove(shape, answers)

    def _remove_shape(self, shape: StatementShape) -> None:
        cached = self._shapes[shape]
        for answers in list(cached.plans):
            self._remove(shape, answers)
        del self._shapes[shape]

    def _remove(self, shape: StatementShape, answers: Answers) -> None:
        plan = self._shapes[shape].plans.pop(answers, None)
        self._lasting.discard((shape, answers))
        if plan is not None:
            self.characters -= _weight(shape, plan)
            self._count -= 1

    def __len__(self) -> int:
        return self._count


def _weight(shape: StatementShape, plan: object) -> int:
    """The weight in characters. A mark takes not much more memory than its text."""
    length = len(shape.text)
    if isinstance(plan, AsWritten | Refusal):
        return length // 256
    return length + plan.columns_weight if isinstance(plan, Weighed) else length
