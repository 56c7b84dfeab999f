"""Plans by the shape of their statement, shared by the sessions of a node.

    (text, letters) -> what plans of the shape depend on: names of facts (bind/binding.py)
      answers to them -> a plan     bind the literals, if its tables are the same
                      -> AsWritten  some literals decide more than a value, as in NOW(3) or SELECT
                                    1: look under the shape that has them as they are written
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
from typing import Final, NamedTuple, Protocol

from exuvia.base.types import Value
from exuvia.sql.bind.binding import Answers, Binding, FactNames


class StatementShape(NamedTuple):
    """A statement without its literals, and the kinds of these."""

    text: str
    letters: str


class Refusal:
    """Marks a shape that has no plan of its own."""


REFUSED: Final = Refusal()


class AsWritten(NamedTuple):
    """Marks a shape whose literals `numbers` (from 0) belong into it as they are written."""

    numbers: frozenset[int]


class FactSource(Protocol):
    """A session."""

    def answers(self, fact_names: FactNames, values: Sequence[Value]) -> Answers:
        """The values of these facts, for these literals."""


class PlansOfShape:
    """The plans of one shape, by the answers to `fact_names`. Only `plans` changes."""

    __slots__ = ("fact_names", "plans")

    def __init__(self, fact_names: FactNames) -> None:
        self.fact_names = fact_names
        self.plans: dict[Answers, object] = {}


class ShapedStatement(NamedTuple):
    """A statement as its shape, the values for its `?`, and what was kept for them when it was
    looked for: once a statement. The plan proves itself fresh when it runs."""

    shape: StatementShape
    values: Sequence[Value]
    kept: object  # a KeptPlan, AsWritten, Refusal, or None


MOST_CHARACTERS = 1 << 18
"""Of the shapes of all plans: a plan takes 350 to 900 bytes a character."""
LONGEST_SHARE = 8
MOST_OF_SHAPE = 64
"""Plans of one shape: by scales of literals, types of variables, settings."""


class PlanCache:
    """Thread-safe. Emptied when it is full, which costs each shape one planning; a shape that would
    take an eighth of it is planned each time."""

    def __init__(self, most: int = 4096, most_characters: int = MOST_CHARACTERS) -> None:
        self._lock = threading.Lock()  # of who changes it
        self._shapes: dict[StatementShape, PlansOfShape] = {}
        self._lasting: set[tuple[StatementShape, Answers]] = set()
        self._most = most
        self._most_characters = most_characters
        self._characters = 0
        self._count = 0
        self.of_shape = self._shapes.get

    def find(self, shape: StatementShape, session: FactSource, values: Sequence[Value]) -> object:
        """The plan of a shape for that session; AsWritten, REFUSED, or None."""
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
        """Keep a plan, AsWritten or REFUSED, that was made with this binding. `lasting`: no
        statistics would make it another one."""
        weight = _weight(shape, plan)
        if weight * LONGEST_SHARE > self._most_characters:
            return
        with self._lock:
            cached = self._shapes.get(shape)
            fact_names = binding.fact_names
            wider = fact_names if cached is None else cached.fact_names.with_these(fact_names)
            answers = session.answers(wider, values)
            if not binding.agrees(wider, answers):
                return  # a global variable has changed since
            if cached is not None:
                if wider != cached.fact_names or (
                    len(cached.plans) >= MOST_OF_SHAPE and answers not in cached.plans
                ):
                    self._remove_shape(shape)
                else:
                    self._remove(shape, answers)
            if self._count >= self._most or self._characters + weight > self._most_characters:
                self._shapes.clear()
                self._lasting.clear()
                self._characters = self._count = 0
            cached = self._shapes.get(shape)
            if cached is None:
                cached = self._shapes[shape] = PlansOfShape(wider)
            self._characters += weight
            self._count += 1
            cached.plans[answers] = plan
            if lasting:
                self._lasting.add((shape, answers))

    def replace(
        self, shape: StatementShape, session: FactSource, values: Sequence[Value], plan: object
    ) -> None:
        """Keep the plan for another revision of its table, if there still is one."""
        with self._lock:
            cached = self._shapes.get(shape)
            answers = () if cached is None else session.answers(cached.fact_names, values)
            if cached is not None and answers in cached.plans:
                cached.plans[answers] = plan

    def forget(self) -> None:
        """Plan shapes anew: statistics may choose otherwise now."""
        with self._lock:
            for shape, cached in self._shapes.items():
                for answers in [e for e in cached.plans if (shape, e) not in self._lasting]:
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
            self._characters -= _weight(shape, plan)
            self._count -= 1

    def __len__(self) -> int:
        return self._count


def _weight(shape: StatementShape, plan: object) -> int:
    """In characters of a plan's shape: a mark is not much more than its text."""
    length = len(shape.text)
    return length // 256 if isinstance(plan, AsWritten | Refusal) else length
