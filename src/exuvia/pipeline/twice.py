"""Keys that a unique index would hold twice, told to people; and a look at a snapshot for them.

    Duplicate entry '7' for key 't.ua' (2 duplicates: '7' of id 3 and id 9, '8' of id 4 and id 5)

A key that n rows have counts n - 1 times. The look is taken before there is a job, of small tables;
what comes later, and large tables, are judged by the fill (pipeline/judge.py).
"""

from collections.abc import Callable, Sequence

from exuvia.base.counted import MOST_LISTED, counted
from exuvia.base.errors import Duplicate, Refused
from exuvia.base.mysql_errors import ErrDupEntry, ErrInvalidUseOfNull
from exuvia.catalog import writer
from exuvia.catalog.codec import row_batch
from exuvia.catalog.model import IndexInfo
from exuvia.catalog.table import Table
from exuvia.kv.keys import HANDLE_AT
from exuvia.kv.packet import Snapshot
from exuvia.pipeline.entries import CHUNK_ROWS, positions_of
from exuvia.pipeline.faults import row_name
from exuvia.pipeline.order import as_bytes
from exuvia.pipeline.task import MOST_DUPLICATES, Found


def refusal(
    table: Table, found: Sequence[Found], number: int, *, at_least: bool = False
) -> Refused:
    """1062 with MySQL's text for the first, how many there are, and the others as notes."""
    first = found[0].text
    pairs = [_pair(table, each) for each in found[:MOST_LISTED]]
    listing = "\n".join(each.text for each in found if each.text != first)
    error = ErrDupEntry.with_text(first)
    noun = "duplicate" if number == 1 else "duplicates"
    return counted(error, number, pairs, listing, noun, at_least=at_least)


def _pair(table: Table, found: Found) -> str:
    """'7' of id 3 and id 9."""
    value = found.text.removeprefix("Duplicate entry ").rsplit(" for key ", 1)[0]
    rows = sorted((found.other, found.handle))
    return f"{value} of {' and '.join(row_name(table, each) for each in rows)}"


class Look:
    """One unique index and the rows of a snapshot. Raises nothing until it is asked."""

    def __init__(self, table: Table, index: IndexInfo) -> None:
        self._table = table
        self._index = index
        self._holders: dict[bytes, bytes] = {}
        self.found: list[Found] = []
        self.number = 0
        self.nulls: list[str] = []
        self.null_number = 0

    def rows(self, snapshot: Snapshot, interrupt: Callable[[], None]) -> None:
        """All rows of the table or partition. `interrupt` is called now and then, and may raise."""
        wanted = positions_of(self._table, [self._index])
        for keys, raws in snapshot.chunks(self._table.row_span(), CHUNK_ROWS):
            interrupt()
            columns = row_batch.decode(self._table, keys, raws, wanted)
            made, nulls = row_batch.index_keys(self._table, self._index, columns)
            empty = [False] * len(keys) if nulls is None else nulls.tolist()
            for key, row_key, is_null in zip(as_bytes(made), keys, empty, strict=True):
                if is_null:
                    self._null(row_key[HANDLE_AT:])
                else:
                    self._key(key, row_key[HANDLE_AT:])

    def _null(self, handle: bytes) -> None:
        self.null_number += 1
        if len(self.nulls) < MOST_LISTED:
            self.nulls.append(row_name(self._table, handle))

    def _key(self, key: bytes, handle: bytes) -> None:
        other = self._holders.setdefault(key, handle)
        if other is handle:
            return
        self.number += 1
        if len(self.found) < MOST_DUPLICATES:
            text = writer.explain_duplicate(self._table, Duplicate(key, other)).message
            self.found.append(Found(self._index.id, key, handle, other, text))

    def refusal(self) -> Refused | None:
        """1138 for a primary key with a NULL, 1062 for keys that are there twice."""
        if self._index.is_primary and self.null_number:
            return counted(ErrInvalidUseOfNull(), self.null_number, self.nulls)
        if self.number:
            return refusal(self._table, self.found, self.number)
        return None
