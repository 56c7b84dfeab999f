"""Elements that move through the states: databases, tables, indexes. A move returns a new snapshot.

Columns move in actions/column.py.

    table.cols      public ones in `offset` order, then hidden ones: a column takes its place when
                    it becomes public and moves to the end when it stops being public
    table.layouts   a new one whenever the set of written columns changes
    flags           PRI_KEY, UNIQUE_KEY and MULTIPLE_KEY of a column follow from the public indexes

`job.exuvia_elements` has the ids of the job's columns or indexes once it has begun.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from exuvia.base.errors import Broken
from exuvia.base.types import Flag
from exuvia.catalog import meta
from exuvia.catalog.convert.type_change import OLD_COLUMN
from exuvia.catalog.model import (
    ColumnInfo,
    IndexInfo,
    Name,
    PartitionInfo,
    SchemaState,
    TableInfo,
    evolve,
    name,
)
from exuvia.catalog.table import with_layout
from exuvia.ddl.action import Element
from exuvia.ddl.delete_ranges import DeleteRange
from exuvia.ddl.job import Job
from exuvia.ddl.snapshot import CatalogSnapshot, Fact, FactReader, ReadSet
from exuvia.kv import keys
from exuvia.kv.packet import Span

_INDEX_BITS = 16
# As integers: building a set of Python's flags takes 5 us, for each column at each step of a job
_PRI_KEY, _UNIQUE_KEY, _MULTIPLE_KEY = map(int, (Flag.PRI_KEY, Flag.UNIQUE_KEY, Flag.MULTIPLE_KEY))
_KEY_FLAGS = _PRI_KEY | _UNIQUE_KEY | _MULTIPLE_KEY


def the_table(snapshot: CatalogSnapshot) -> TableInfo:
    """The job's table, which the refusals have checked. Raises Broken."""
    if snapshot.table is None:
        raise Broken("the table of a running job is gone")
    return snapshot.table


class GoneLinks(Fact[frozenset[int]], frozen=True):
    """Foreign keys to a table whose child does not exist, though it may be recovered."""

    assumed: ClassVar[frozenset[int]] = frozenset()
    table_id: int

    def read(self, source: FactReader) -> frozenset[int]:
        table = meta.get_table(source.txn, self.table_id)
        return meta.gone_links(source.txn, () if table is None else (table,))


def reads_children(job: Job) -> ReadSet:
    """The reads of `table_with_children`."""
    return ReadSet(facts=(GoneLinks(job.table_id),))


def table_with_children(snapshot: CatalogSnapshot) -> TableInfo:
    """The job's table without foreign keys of missing children (catalog/meta.py).

    It is for checks, not to be written. The action declares `reads_children`.
    """
    table = the_table(snapshot)
    return table.without_keys(snapshot.fact(GoneLinks(table.id)))


def move_database(job: Job, snapshot: CatalogSnapshot, state: SchemaState) -> CatalogSnapshot:
    """The database in that state; ABSENT removes it."""
    if snapshot.database is None:
        raise Broken(f"the database of job {job.id} is gone")
    if state == SchemaState.ABSENT:
        return evolve(snapshot, database=None)
    return evolve(snapshot, database=evolve(snapshot.database, state=state))


def move_table(job: Job, snapshot: CatalogSnapshot, state: SchemaState) -> CatalogSnapshot:
    """The table in that state; ABSENT removes it."""
    if state == SchemaState.ABSENT:
        return evolve(snapshot, table=None)
    return evolve(snapshot, table=evolve(the_table(snapshot), state=state))


def move_indexes(job: Job, snapshot: CatalogSnapshot, state: SchemaState) -> CatalogSnapshot:
    """The job's indexes in that state, and the hidden columns of expression indexes; ABSENT removes
    them."""
    table = the_table(snapshot)
    hidden_columns = hidden_columns_of(table, job.exuvia_elements)
    table = indexes_in(table, job.exuvia_elements, state)
    if hidden_columns:
        columns = tuple(
            evolve(column, state=state) if column.id in hidden_columns else column
            for column in table.cols
            if column.id not in hidden_columns or state != SchemaState.ABSENT
        )
        table = renumber(evolve(table, cols=columns))
    return evolve(snapshot, table=reflag(table))


def stay(job: Job, snapshot: CatalogSnapshot, state: SchemaState) -> CatalogSnapshot:
    """The snapshot after the step's edit: the job has states, its element does not."""
    return snapshot


DATABASE = Element("database", follows_rows=False, move=move_database)
TABLE = Element("table", follows_rows=False, move=move_table)
TABLE_IN_PLACE = Element("table that stays", follows_rows=False, move=stay)
DATABASE_IN_PLACE = Element("database that stays", follows_rows=False, move=stay)
INDEX = Element("index", follows_rows=True, move=move_indexes)


def coming_name(text: Name) -> Name:
    """The temporary name of a new element while another one still has its name."""
    return name(f"_New$_{text.O}_0")


def going_name(text: Name) -> Name:
    """The temporary name of an element that is replaced by another one of its name."""
    return name(f"_Tombstone$_{text.O}_0")


def successor_of(table: TableInfo, column: ColumnInfo) -> ColumnInfo | None:
    """The hidden column that will get the column's name: by MODIFY, or by an ADD COLUMN of the same
    name."""
    for other in table.cols:
        if (other.change_state_info or {}).get(OLD_COLUMN) == column.id:
            return other
    return table.column(coming_name(column.name).L)


def with_column_names(table: TableInfo, names: Mapping[int, Name]) -> TableInfo:
    """The table with other names of some columns, by id, also in its indexes."""
    columns = tuple(
        evolve(column, name=names[column.id]) if column.id in names else column
        for column in table.cols
    )
    indexes = tuple(
        evolve(
            index,
            idx_cols=tuple(
                evolve(part, name=names.get(part.exuvia_column, part.name))
                for part in index.idx_cols
            ),
        )
        for index in table.indexes
    )
    return evolve(table, cols=columns, index_info=indexes or None)


def indexes_on_only(table: TableInfo, column_id: int) -> tuple[int, ...]:
    """Ids of the indexes whose only part is that column."""
    return tuple(
        index.id
        for index in table.indexes
        if [part.exuvia_column for part in index.idx_cols] == [column_id]
    )


def with_predicate_columns(index: IndexInfo, columns: Sequence[ColumnInfo]) -> IndexInfo:
    """The index with its predicate's columns resolved by their names."""
    ids = {column.name.L: column.id for column in columns}
    terms = tuple(evolve(term, exuvia_column=ids[term.name.L]) for term in index.exuvia_predicate)
    return evolve(index, exuvia_predicate=terms) if terms else index


def index_with_predicate_on(table: TableInfo, column_id: int) -> IndexInfo | None:
    """A partial index whose predicate reads the column, or None."""
    for index in table.indexes:
        if any(term.exuvia_column == column_id for term in index.exuvia_predicate):
            return index
    return None


def hidden_columns_of(table: TableInfo, indexes: tuple[int, ...]) -> tuple[int, ...]:
    """Ids of the hidden columns with the expressions of these indexes."""
    hidden_columns = {column.id for column in table.cols if column.hidden and column.is_virtual}
    parts = (part for index in table.indexes if index.id in indexes for part in index.idx_cols)
    return tuple(part.exuvia_column for part in parts if part.exuvia_column in hidden_columns)


def renumber(table: TableInfo) -> TableInfo:
    """The table with offsets of columns, and of index parts, by the order of `cols`."""
    columns = tuple(
        column if column.offset == at else evolve(column, offset=at)
        for at, column in enumerate(table.cols)
    )
    at = {column.id: column.offset for column in columns}
    indexes = tuple(
        evolve(
            index,
            idx_cols=tuple(evolve(part, offset=at[part.exuvia_column]) for part in index.idx_cols),
        )
        for index in table.indexes
    )
    return evolve(table, cols=columns, index_info=indexes or None)


def reflag(table: TableInfo) -> TableInfo:
    """The table with key flags of every column by its public indexes and the row's handle."""
    flags: dict[int, int] = {}
    for index in table.indexes:
        if index.state == SchemaState.PUBLIC:
            for column_id, flag in _key_flags(index):
                flags[column_id] = flags.get(column_id, 0) | flag
    handle = _PRI_KEY if table.pk_is_handle else 0
    columns = []
    for column in table.cols:
        before = int(column.type.Flag)
        after = before & ~_KEY_FLAGS | before & handle | flags.get(column.id, 0)
        if after != before:
            column = evolve(column, type=evolve(column.type, Flag=after))
        columns.append(column)
    return evolve(table, cols=tuple(columns))


def _key_flags(index: IndexInfo) -> Iterator[tuple[int, int]]:
    """(Column id, its flags by this index) pairs."""
    parts = [part.exuvia_column for part in index.idx_cols]
    if index.is_primary:
        for column_id in parts:
            yield column_id, _PRI_KEY
    else:
        single = index.is_unique and len(parts) == 1
        yield parts[0], _UNIQUE_KEY if single else _MULTIPLE_KEY


def indexes_in(table: TableInfo, ids: tuple[int, ...], state: SchemaState) -> TableInfo:
    """The table with those indexes in that state; ABSENT removes them."""
    indexes = [
        evolve(index, state=state) if index.id in ids else index
        for index in table.indexes
        if index.id not in ids or state != SchemaState.ABSENT
    ]
    return evolve(table, index_info=tuple(indexes) or None)


def without_hidden(table: TableInfo) -> TableInfo:
    """The table without the elements retained for UNDO, for a copy that does not maintain them."""
    public = SchemaState.PUBLIC
    indexes = tuple(index for index in table.indexes if index.state == public)
    columns = tuple(column for column in table.cols if column.state == public)
    if len(indexes) == len(table.indexes) and len(columns) == len(table.cols):
        return table
    return with_layout(renumber(evolve(table, cols=columns, index_info=indexes or None)))


def at_home(table: TableInfo, home: int) -> PartitionInfo | None:
    """The table's partitions, with that id as the home of global indexes, if there are any."""
    partition = table.partition
    if partition is None:
        return None
    return evolve(partition, exuvia_home=home if table.global_indexes else 0)


# -- what an element leaves to be emptied ----------------------------------------------------------


def ranges_of_table(info: TableInfo) -> tuple[DeleteRange, ...]:
    """Rows and entries of a table, as ranges to empty.

    There is one range for each physical table, one for its global indexes, and one for the table
    itself with its id counters.
    """
    # a table with a physical id may have another table's partition under its own id
    own = () if info.exuvia_physical else (info.id,)
    spread = (info.home,) if info.partition is not None and info.partition.exuvia_home else ()
    physical_ids = dict.fromkeys((*own, *info.physical_ids, *spread))
    return tuple(
        DeleteRange(physical_id, keys.table_span(physical_id)) for physical_id in physical_ids
    )


def ranges_of_index(info: TableInfo, index_id: int) -> Iterator[DeleteRange]:
    """All entries of an index, in each partition. Element ids differ within a job."""
    index = info.index_by_id(index_id)
    for physical_id in (info.home,) if index is not None and index.is_global else info.physical_ids:
        element = index_id if physical_id == info.id else physical_id << _INDEX_BITS | index_id
        yield DeleteRange(element, keys.span_of(keys.index_prefix(physical_id, index_id)))


def range_of_physical(physical_id: int) -> DeleteRange:
    """Rows and entries under an id whose table still exists.

    They cannot be recovered, so they are not retained, and no id counters are removed.
    """
    entries, rows = keys.entries_prefix(physical_id), keys.row_prefix(physical_id)
    return DeleteRange(physical_id, Span(entries, keys.after(rows)))


def ranges_of_database(database_id: int) -> tuple[DeleteRange, ...]:
    """Everything in a database: its names lead to its tables."""
    return (DeleteRange(database_id, keys.span_of(keys.meta("name", database_id))),)
