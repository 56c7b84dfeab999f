"""VIRTUAL columns: never stored, computed whenever a row is read (decision 009).

    row as stored   (1, None, 5)          the evaluator's steps, in the columns' order:
    row as read     (1, 2, 5)             position 1 from what stands at 0:  a + 1

The catalog knows no SQL. Who wires a process names an *evaluator*, "module:function", that makes
the steps of a table. It is a name and no object, so that it crosses to Spark's workers as it is.
"""

from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

from exuvia.base.errors import Broken
from exuvia.catalog.model import TableInfo

Value = Any
Row = list[Value]


class VirtualStep(NamedTuple):
    """One column: where it stands, which positions its expression reads, its value for a row.

    `strict`: as `value`, but it raises what a strict write would. Set while an index on the
    expression is filled; only the fill's vectors use it."""

    position: int
    reads: tuple[int, ...]
    value: Callable[[Sequence[Value]], Value]
    strict: Callable[[Sequence[Value]], Value] | None = None


Evaluator = Callable[[TableInfo], tuple[VirtualStep, ...]]


@cache
def evaluator_named(name: str) -> Evaluator:
    """The function of that name. Raises Broken where none was wired."""
    module, _, function = name.partition(":")
    if not function:
        raise Broken("a table with virtual columns is read where no evaluator is wired")
    found: Evaluator = getattr(import_module(module), function)
    return found


class VirtualColumns:
    """The virtual columns of one table."""

    def __init__(self, info: TableInfo, evaluator: str) -> None:
        self.steps = evaluator_named(evaluator)(info)
        self.positions = frozenset(step.position for step in self.steps)

    def fill(self, row: Row) -> Row:
        """The row itself, its virtual columns computed."""
        for step in self.steps:
            row[step.position] = step.value(row)
        return row

    def needed(self, positions: Sequence[int]) -> set[int]:
        """These positions and all that their expressions read."""
        wanted = set(positions)
        for step in reversed(self.steps):
            if step.position in wanted:
                wanted.update(step.reads)
        return wanted
