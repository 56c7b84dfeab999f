"""Facts that several actions ask for (ddl/snapshot.py). Those of one action are in its file."""

import math
from typing import ClassVar, NamedTuple

from exuvia.catalog import meta, reader
from exuvia.catalog.model import ColumnInfo, SchemaState, TableInfo, evolve
from exuvia.catalog.table import Table
from exuvia.ddl.elements import renumber
from exuvia.ddl.snapshot import Fact, FactReader
from exuvia.kv import keys
from exuvia.kv.transaction import Transaction

# -- names -----------------------------------------------------------------------------------------


class TableNamed(Fact[int], frozen=True):
    """Id of the table of that name in a database, in any state; 0 if none has it."""

    assumed: ClassVar[int] = 0
    database_id: int
    name: str  # in lower case

    def read(self, source: FactReader) -> int:
        return meta.find_table(source.txn, self.database_id, self.name) or 0


class DatabaseNamed(Fact[int], frozen=True):
    """Id of the database of that name, in any state; 0 if none has it."""

    assumed: ClassVar[int] = 0
    name: str  # in lower case

    def read(self, source: FactReader) -> int:
        return meta.find_database(source.txn, self.name) or 0


class TablesOf(Fact[tuple[int, ...]], frozen=True):
    """Ids of all tables of a database."""

    assumed: ClassVar[tuple[int, ...]] = ()
    database_id: int

    def read(self, source: FactReader) -> tuple[int, ...]:
        return tuple(table_id for _, table_id in meta.table_names(source.txn, self.database_id))


# -- foreign keys ----------------------------------------------------------------------------------


class Referrer(NamedTuple):
    """An enforced foreign key with the names for errors: the parent, and the child's id."""

    parent: str
    child: int
    child_database: str
    child_table: str
    key: str


class Referrers(Fact[tuple[Referrer, ...]], frozen=True):
    """Foreign keys that refer to a table, or to any table of a database (`table_id` 0)."""

    assumed: ClassVar[tuple[Referrer, ...]] = ()
    database_id: int
    table_id: int

    def read(self, source: FactReader) -> tuple[Referrer, ...]:
        txn, referrers = source.txn, []
        for link, parent_id in meta.parents(txn):
            if self.table_id and parent_id != self.table_id:
                continue
            parent = meta.get_table(txn, parent_id)
            child = meta.get_table(txn, meta.child_of(txn, link))
            if parent is None or child is None:
                continue
            if not self.table_id and parent.exuvia_db != self.database_id:
                continue
            home = meta.get_database(txn, child.exuvia_db)
            for key in child.foreign_keys:
                if key.exuvia_link == link and key.version and home is not None:
                    names = home.db_name.O, child.name.O, key.fk_name.O
                    referrers.append(Referrer(parent.name.O, child.id, *names))
        return tuple(referrers)


# -- ids and values --------------------------------------------------------------------------------


class LastId(Fact[int], frozen=True):
    """The last AUTO_INCREMENT or AUTO_RANDOM id allocated for a table."""

    assumed: ClassVar[int] = 0
    table_id: int

    def read(self, source: FactReader) -> int:
        return keys.read_number(source.txn.get(keys.meta("auto", self.table_id)))


class GreatestValue(Fact[int], frozen=True):
    """The greatest value in a numeric column, rounded up; 0 if no value is greater than 0.

    Reads the end of an index that begins with the column, otherwise all rows.
    """

    assumed: ClassVar[int] = 0
    table_id: int
    column_id: int

    def read(self, source: FactReader) -> int:
        txn = source.txn
        info = meta.get_table(txn, self.table_id)
        column = info.column_by_id(self.column_id) if info is not None else None
        database = meta.get_database(txn, info.exuvia_db) if info is not None else None
        if info is None or column is None or database is None:
            return 0
        table = Table(_without_virtual(info), meta.revision(txn, info.id), database, 0)
        return max(0, *(_greatest_in(txn, part, column) for part in table.parts))


def _without_virtual(info: TableInfo) -> TableInfo:
    """The table without virtual columns and their indexes: nothing evaluates expressions here."""
    virtual = {column.id for column in info.cols if column.is_virtual}
    indexes = tuple(
        index
        for index in info.indexes
        if not any(part.exuvia_column in virtual for part in index.idx_cols)
    )
    cols = tuple(column for column in info.cols if column.id not in virtual)
    return renumber(evolve(info, cols=cols, index_info=indexes or None))


def _greatest_in(txn: Transaction, table: Table, column: ColumnInfo) -> int:
    info = table.info
    at = next(n for n, candidate in enumerate(info.cols) if candidate.id == column.id)
    if info.pk_is_handle and table.handle_positions == (at,):
        rows = reader.scan(txn, table, reverse=True, used=(at,))
        return next((math.ceil(row[at]) for _, row in rows), 0)
    for index in info.indexes:
        leads = index.idx_cols[0].exuvia_column == column.id and not index.is_global
        if leads and index.state == SchemaState.PUBLIC and index.holds_every_row:
            entry = next(reader.scan_index(txn, table, index, reverse=True), None)
            if entry is None:
                return 0
            if entry[0] is not None:
                return math.ceil(entry[0][0] or 0)
    rows = reader.scan(txn, table, used=(at,))
    return max((math.ceil(row[at]) for _, row in rows if row[at] is not None), default=0)
