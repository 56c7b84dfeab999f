"""What a thread asks a snapshot for after the same first question, so that it comes with that.

A loop begins each of its looks with the same key and goes on with much the same ones. Looks of two
kinds may begin alike, so what was not asked for the last time is expected for some more."""

import threading
from collections.abc import Mapping

Question = tuple[bytes] | tuple[bytes, bytes]
"""A key, or a span that is scanned."""


class Habits:
    """Thread-safe: what is known of one beginning is replaced and never changed.

    Of a span that was scanned it is known how many rows there were."""

    MOST, LONGEST, MOST_ROWS = 1024, 128, 128
    PATIENCE = 8

    def __init__(self) -> None:
        self._after: dict[tuple[int, Question], dict[Question, tuple[int, int]]] = {}

    def after(self, first: Question) -> Mapping[Question, tuple[int, int]]:
        """Questions that this thread may ask after that one: (rows, looks since)."""
        return self._after.get((threading.get_ident(), first), {})

    def keep(self, asked: Mapping[Question, int]) -> None:
        """The questions of one look in their order, and how many rows each scan gave."""
        first = next(iter(asked))
        known = {
            question: (rows, since + 1)
            for question, (rows, since) in self.after(first).items()
            if question not in asked and since < self.PATIENCE
        }
        now = {q: (rows, 0) for q, rows in asked.items() if q != first and rows <= self.MOST_ROWS}
        if len(self._after) >= self.MOST:
            self._after.clear()
        place = threading.get_ident(), first
        self._after[place] = dict(list((now | known).items())[: self.LONGEST])
