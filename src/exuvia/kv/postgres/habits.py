"""Keys that a thread reads after the same first key, so that all are fetched together.

A loop begins each of its looks with the same key and mostly continues with the same ones. Two kinds
of looks may begin with the same key, so keys not read in the last look are still expected for some
more looks.
"""

import threading
from collections.abc import Mapping

Question = tuple[bytes] | tuple[bytes, bytes]
"""A key, or a scanned span."""


class Habits:
    """Thread-safe: the recorded keys of a first key are replaced and never modified.

    For a scanned span, the number of its rows is recorded."""

    MOST, LONGEST, MOST_ROWS = 1024, 128, 128
    PATIENCE = 8

    def __init__(self) -> None:
        self._after: dict[tuple[int, Question], dict[Question, tuple[int, int]]] = {}

    def after(self, first: Question) -> Mapping[Question, tuple[int, int]]:
        """Questions that this thread may ask after `first`: (rows, looks since)."""
        return self._after.get((threading.get_ident(), first), {})

    def keep(self, questions: Mapping[Question, int]) -> None:
        """Record the questions of one look in their order, with the number of rows of each scan."""
        first = next(iter(questions))
        earlier = {
            question: (rows, since + 1)
            for question, (rows, since) in self.after(first).items()
            if question not in questions and since < self.PATIENCE
        }
        fits = {q: rows for q, rows in questions.items() if q != first and rows <= self.MOST_ROWS}
        now = {question: (rows, 0) for question, rows in fits.items()}
        if len(self._after) >= self.MOST:
            self._after.clear()
        place = threading.get_ident(), first
        self._after[place] = dict(list((now | earlier).items())[: self.LONGEST])
