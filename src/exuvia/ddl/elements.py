"""What moves through the states: databases, tables, indexes. A move gives a new snapshot.

Columns move in actions/column.py.

    table.cols      public ones in `offset` order, then hidden ones: a column takes its place when
                    it becomes public and goes behind the others when it stops being so
    table.layouts   a new one whenever the set of columns that are written changes
    flags           PRI_KEY, UNIQUE_KEY and MULTIPLE_KEY of a column follow from the public indexes

`job.exuvia_elements` holds the ids of the columns or indexes a job is about once it has begun.
"""

from collections.abc import Iterator, Mapping, Sequence

from exuvia.base.errors import Broken
from exuvia.base.types import Flag
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
from exuvia.ddl.decision import CatalogSnapshot, DeleteRange
from exuvia.ddl.job import Job
from exuvia.kv import keys
from exuvia.kv.packet import Span

_INDEX_BITS = 16
# As integers: a set of Python's flags takes 5 us to make, for each column at each step of a job
_PRI_KEY, _UNIQUE_KEY, _MULTIPLE_KEY = map(int, (Flag.PRI_KEY, Flag.UNIQUE_KEY, Flag.MULTIPLE_KEY))
_KEY_FLAGS = _PRI_KEY | _UNIQUE_KEY | _MULTIPLE_KEY


def the_table(snapshot: CatalogSnapshot) -> TableInfo:
    """The job's table, which the refusals have made sure of. Raises Broken."""
    if snapshot.table is None:
        raise Broken("the table of a running job is gone")
    return snapshot.table


def table_with_children(snapshot: CatalogSnapshot) -> TableInfo:
    """The job's table, referred to by those who are there (catalog/meta.py): to be judged, not to
    be written."""
    return the_table(snapshot).without_keys(snapshot.gone_links)


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
    """The job's indexes in that state, and the hidden columns of those on expressions; ABSENT
    removes them."""
    table = the_table(snapshot)
    hidden = hidden_columns_of(table, job.exuvia_elements)
    table = indexes_in(table, job.exuvia_elements, state)
    if hidden:
        kept = tuple(
            evolve(column, state=state) if column.id in hidden else column
            for column in table.cols
            if column.id not in hidden or state != SchemaState.ABSENT
        )
        table = renumber(evolve(table, cols=kept))
    return evolve(snapshot, table=reflag(table))


def stay(job: Job, snapshot: CatalogSnapshot, state: SchemaState) -> CatalogSnapshot:
    """The snapshot as the step's edit left it: the job has states, its element does not."""
    return snapshot


DATABASE = Element("database", follows_rows=False, move=move_database)
TABLE = Element("table", follows_rows=False, move=move_table)
TABLE_IN_PLACE = Element("table that stays", follows_rows=False, move=stay)
DATABASE_IN_PLACE = Element("database that stays", follows_rows=False, move=stay)
INDEX = Element("index", follows_rows=True, move=move_indexes)


def coming_name(text: Name) -> Name:
    """The name of a new element while another one still has its name."""
    return name(f"_New$_{text.O}_0")


def going_name(text: Name) -> Name:
    """The temporary name of an element that is replaced by another one of its name."""
    return name(f"_Tombstone$_{text.O}_0")


def successor_of(table: TableInfo, column: ColumnInfo) -> ColumnInfo | None:
    """The hidden column that will get the column's name: by MODIFY, or by an ADD COLUMN of the same
    name."""
    for each in table.cols:
        if (each.change_state_info or {}).get(OLD_COLUMN) == column.id:
            return each
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
    """The index with its predicate's columns found by their names."""
    ids = {each.name.L: each.id for each in columns}
    terms = tuple(evolve(term, exuvia_column=ids[term.name.L]) for term in index.exuvia_predicate)
    return evolve(index, exuvia_predicate=terms) if terms else index


def index_with_predicate_on(table: TableInfo, column_id: int) -> IndexInfo | None:
    """A partial index that looks at the column."""
    for index in table.indexes:
        if any(term.exuvia_column == column_id for term in index.exuvia_predicate):
            return index
    return None


def hidden_columns_of(table: TableInfo, indexes: tuple[int, ...]) -> tuple[int, ...]:
    """Ids of the hidden columns that expressions of these indexes stand in."""
    hidden = {column.id for column in table.cols if column.hidden and column.is_virtual}
    parts = (part for index in table.indexes if index.id in indexes for part in index.idx_cols)
    return tuple(part.exuvia_column for part in parts if part.exuvia_column in hidden)


def renumber(table: TableInfo) -> TableInfo:
    """Offsets of columns, and of the index parts that name them, as the order of `cols` says."""
    columns = tuple(evolve(each, offset=at) for at, each in enumerate(table.cols))
    at = {each.id: each.offset for each in columns}
    indexes = tuple(
        evolve(
            index,
            idx_cols=tuple(evolve(part, offset=at[part.exuvia_column]) for part in index.idx_cols),
        )
        for index in table.indexes
    )
    return evolve(table, cols=columns, index_info=indexes or None)


def reflag(table: TableInfo) -> TableInfo:
    """Key flags of every column as its public indexes and the row's handle say."""
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
    """(Id of a column, its flags by this index.)"""
    parts = [part.exuvia_column for part in index.idx_cols]
    if index.is_primary:
        for column_id in parts:
            yield column_id, _PRI_KEY
    else:
        single = index.is_unique and len(parts) == 1
        yield parts[0], _UNIQUE_KEY if single else _MULTIPLE_KEY


def indexes_in(table: TableInfo, ids: tuple[int, ...], state: SchemaState) -> TableInfo:
    """The table with those indexes in that state; ABSENT removes them."""
    kept = [
        evolve(index, state=state) if index.id in ids else index
        for index in table.indexes
        if index.id not in ids or state != SchemaState.ABSENT
    ]
    return evolve(table, index_info=tuple(kept) or None)


def without_hidden(table: TableInfo) -> TableInfo:
    """The table without the elements that are kept for UNDO: for a life of it in which nobody has
    written them."""
    public = SchemaState.PUBLIC
    indexes = tuple(each for each in table.indexes if each.state == public)
    columns = tuple(each for each in table.cols if each.state == public)
    if len(indexes) == len(table.indexes) and len(columns) == len(table.cols):
        return table
    return with_layout(renumber(evolve(table, cols=columns, index_info=indexes or None)))


def at_home(table: TableInfo, home: int) -> PartitionInfo | None:
    """Its partitions; entries of its global indexes, if there are any, lie under that id."""
    found = table.partition
    if found is None:
        return None
    return evolve(found, exuvia_home=home if table.global_indexes else 0)


# -- what an element leaves to be emptied ----------------------------------------------------------


def ranges_of_table(info: TableInfo) -> tuple[DeleteRange, ...]:
    """Rows and entries of a table: one range for each physical table, one for its global indexes,
    and one for the table itself, whose counters of ids go with it."""
    own = () if info.exuvia_physical else (info.id,)  # else another table's partition, it may be
    spread = (info.home,) if info.partition is not None and info.partition.exuvia_home else ()
    wanted = dict.fromkeys((*own, *info.physical_ids, *spread))
    return tuple(DeleteRange(each, keys.table_span(each)) for each in wanted)


def ranges_of_index(info: TableInfo, index_id: int) -> Iterator[DeleteRange]:
    """All entries of an index, in each partition. Element ids differ within a job."""
    index = info.index_by_id(index_id)
    for each in (info.home,) if index is not None and index.is_global else info.physical_ids:
        element = index_id if each == info.id else each << _INDEX_BITS | index_id
        yield DeleteRange(element, keys.span_of(keys.index_prefix(each, index_id)))


def range_of_physical(physical_id: int) -> DeleteRange:
    """Rows and entries under an id whose table lives on: not kept, since nobody brings them back,
    and no counters of ids go along."""
    entries, rows = keys.entries_prefix(physical_id), keys.row_prefix(physical_id)
    return DeleteRange(physical_id, Span(entries, keys.after(rows)))


def ranges_of_database(database_id: int) -> tuple[DeleteRange, ...]:
    """Whatever a database holds: its names lead to its tables."""
    return (DeleteRange(database_id, keys.span_of(keys.meta("name", database_id))),)
