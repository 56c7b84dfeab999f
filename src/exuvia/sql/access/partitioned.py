"""A path of a partitioned table: the same path in each partition that the WHERE leaves.

    Everywhere(path, choice).open -> one partition: its rows in the path's order
                                     several: one after another, in no order

Rows of a partitioned table are known above the catalog by handles that begin with their partition's
id (catalog/table.py, `row_key`).
"""

from collections.abc import Iterator, Sequence
from copy import copy

from exuvia.base.mysql_errors import ErrPartitionClauseOnNonpartitioned
from exuvia.catalog.table import Table
from exuvia.kv import keys
from exuvia.sql.access.paths import Path, PathRows, Rows
from exuvia.sql.access.pruning import PartitionChoice
from exuvia.sql.access.ranger import Terms
from exuvia.sql.statement.context import Context

MOST_SHORT = 16


class Everywhere(Path):
    """See the module. `path` is that of the logical table: it says how, and is never opened."""

    def __init__(self, path: Path, choice: PartitionChoice) -> None:
        super().__init__(path.table, path.covers)
        self.path = path
        self.choice = choice
        self.name = path.name
        self.index = path.index
        self.short = path.short and choice.route.number <= MOST_SHORT
        self._paths: dict[int, Path] = {}

    @property
    def order(self) -> tuple[int, ...]:
        """The path's."""
        return self.path.order

    @property
    def fixed(self) -> frozenset[int]:
        """The path's."""
        return self.path.fixed

    def open(self, context: Context, reverse: bool = False) -> PathRows:
        """The rows of every partition left."""
        parts = self.choice.parts(context)
        opened = [self._in(part).open(context, reverse) for part in parts]
        asked = tuple(key for found in opened for key in found.keys)
        covered = all(found.covered for found in opened)
        ordered = len(opened) == 1 and opened[0].ordered
        return PathRows(_chained(parts, opened), covered, asked, ordered)

    def _in(self, part: Table) -> Path:
        found = self._paths.get(part.physical_id)
        if found is None:
            found = copy(self.path)
            found.table = part
            self._paths[part.physical_id] = found
        return found


def _chained(parts: Sequence[Table], opened: Sequence[PathRows]) -> Rows:
    for part, found in zip(parts, opened, strict=True):
        yield from _qualified(keys.u64(part.physical_id), found.rows)


def _qualified(physical: bytes, rows: Rows) -> Iterator[tuple[bytes, list[object]]]:
    for handle, row in rows:
        yield physical + handle, row


def in_partitions(path: Path, terms: Terms, named: Sequence[str]) -> Path:
    """The path as it is for an ordinary table. Raises 1735, 1747."""
    if not path.table.is_partitioned:
        if named:
            raise ErrPartitionClauseOnNonpartitioned()
        return path
    return Everywhere(path, PartitionChoice(path.table, terms, named))


def has_equality(path: Path) -> bool:
    """Whether a key narrows the rows by a value."""
    inner = path.path if isinstance(path, Everywhere) else path
    match = getattr(inner, "match", None)
    return match is not None and bool(match.equal)
