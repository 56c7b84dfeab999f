"""Where an INSERT puts its values: the columns named, and what the others get."""

from exuvia.base.mysql_errors import ErrBadField, ErrFieldSpecifiedTwice
from exuvia.catalog.auto_random import random_column
from exuvia.catalog.convert import values
from exuvia.catalog.model import ColumnInfo
from exuvia.catalog.table import Table
from exuvia.sql.result import Row
from exuvia.sql.statement.context import Context
from exuvia.sql.write.column_sources import Source, constant_default, source_of


class Target:
    """Planned once. `named`: (position, column) in the order of the statement's values."""

    def __init__(
        self, table: Table, names: tuple[str, ...] | None, partitions: tuple[str, ...] = ()
    ) -> None:
        self.partitions = partitions
        self.table = table
        public = {column.name.L: column for column in table.columns}
        wanted = tuple(public) if names is None else tuple(name.lower() for name in names)
        self.named: list[tuple[int, ColumnInfo]] = []
        for shown, lower in zip(names or wanted, wanted, strict=True):
            if lower not in public:
                raise ErrBadField(shown, "field list")
            self.named.append((table.position(lower), public[lower]))
        positions = [position for position, _ in self.named]
        if len(set(positions)) < len(positions):
            raise ErrFieldSpecifiedTwice(_twice(wanted))
        self.random = random_column(table.info)
        mine = 0 if self.random is None else self.random.id
        taking = (c for c in public.values() if c.auto_increment or c.id == mine)
        self.auto = next((table.position(c.name.L) for c in taking), -1)
        self.auto_is_named = self.auto in positions
        self.is_hidden_id = not table.handle_positions
        self._template, self._sources = _others(table, frozenset(positions), self.auto)

    def row(self, context: Context) -> Row:
        """A row with what is not named: defaults, the time, NULL. Raises 1364."""
        row = self._template.copy()
        for position, source in self._sources:
            row[position] = source(context)
        return row


def _twice(names: tuple[str, ...]) -> str:
    return next(name for n, name in enumerate(names) if name in names[:n])


def _others(table: Table, named: frozenset[int], auto: int) -> tuple[Row, list[tuple[int, Source]]]:
    template: Row = [None] * len(table.info.cols)
    sources = []
    for column in table.columns:
        position = table.position(column.name.L)
        template[position] = constant_default(column)
        if position == auto:
            continue
        if position in named:  # until it has its value, expressions read its default or zero
            if column.not_null and template[position] is None:
                template[position] = values.zero_of(column.type)
            continue
        source = source_of(column)
        if source is not None:
            sources.append((position, source))
    return template, sources
