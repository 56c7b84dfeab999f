"""Children that go or change with their parent: ON DELETE and ON UPDATE, CASCADE and SET NULL.

They are written as any statement would write them: their own generated columns, checks and keys
count, and what refers to them follows, one level deeper.
"""

from typing import Any, Protocol

from exuvia.catalog.constraint_info import Rule
from exuvia.sql.result import Row
from exuvia.sql.write.foreign_keys_sides import Downward

Values = tuple[Any, ...]


class Writer(Protocol):
    """The part of write/rows.py that is needed here."""

    def read(self, handle: bytes) -> Row | None:
        """The row as the transaction sees it now."""

    def update(self, handle: bytes, old: Row, new: Row) -> None:
        """Replace a row as it was read."""

    def delete(self, handle: bytes, row: Row) -> None:
        """Remove a row as it was read."""

    def finish(self) -> None:
        """Settle what the rows written owe."""


def follow(
    writer: Writer, handles: list[bytes], down: Downward, now: Values | None, rule: Rule
) -> None:
    """Every child does what its key says. `writer` is one of the children's table."""
    places = down.children.positions
    for handle in handles:
        row = writer.read(handle)
        if row is None:
            continue
        if rule == Rule.CASCADE and now is None:
            writer.delete(handle, row)
            continue
        values = now if rule == Rule.CASCADE and now is not None else (None,) * len(places)
        new = list(row)
        for place, value in zip(places, values, strict=True):
            new[place] = value
        writer.update(handle, row, new)
    writer.finish()
