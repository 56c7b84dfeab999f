"""What the move puts, as columns: rows and index entries, each because of one row as it was read.

    keys      values     because of             required when it is put
    a row's   its bytes  the row it is copied   that one still is of `sequences`
    an entry's  handle   from, by its handle    likewise

`at` names the ones that are meant, in the order in which they are put; parts share the arrays.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from exuvia.catalog.columns import Array, Keys
from exuvia.kv.packet import Standing
from exuvia.pipeline.entries import payloads
from exuvia.pipeline.order import as_bytes, joined, positions, take


class Copies(NamedTuple):
    """See the module. `values`: payloads of rows; suffixes of entries, None in a plain index.
    `index_id`: the entries', 0 for rows."""

    keys: Keys
    values: Keys | None
    handles: Keys
    sequences: Array
    at: Array
    index_id: int = 0

    def __bool__(self) -> bool:
        return len(self.at) > 0

    def split(self, rows: int) -> "tuple[Copies, Copies]":
        """The first so many, and the rest."""
        return self._replace(at=self.at[:rows]), self._replace(at=self.at[rows:])

    def key_list(self) -> list[bytes]:
        """Where they are put."""
        return as_bytes(take(self.keys, self.at))

    def payloads(self) -> bytes | list[bytes]:
        """What is put there."""
        found = None if self.values is None else take(self.values, self.at)
        return as_bytes(found) if found is not None and not self.index_id else payloads(found)

    def sources(self, prefix: bytes) -> list[bytes]:
        """Keys of the rows they are because of."""
        return [prefix + handle for handle in as_bytes(take(self.handles, self.at))]

    def required(self, prefix: bytes) -> Standing:
        """That those rows are the ones that were read."""
        stamps = self.sequences[self.at].astype("<u8").tobytes()
        return Standing(self.sources(prefix), stamps, "lost update")


def sorted_copies(parts: Sequence[Copies]) -> Copies:
    """Copies of one index, or rows, as one run in key order."""
    keys = joined([part.keys for part in parts])
    held = [part.values for part in parts if part.values is not None]
    return Copies(
        keys,
        joined(held) if held else None,
        joined([part.handles for part in parts]),
        np.concatenate([part.sequences for part in parts]),
        positions(keys),
        parts[0].index_id,
    )
