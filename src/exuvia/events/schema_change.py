"""A finished schema change as its subscribers see it: a kind, and a getter for each kind.

    publisher     add_index(table, indexes, analyzed) -> SchemaChange        one constructor a kind
    subscriber    change.kind; change.get_add_index() -> AddedIndexes      the wrong getter raises
    at rest       to_json, from_json                                       nobody else knows it

A subscriber learns from this file alone what it can ask; what stands in the JSON may change (seed
004). Tables come whole, as they were when the change was done.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

import msgspec

from exuvia.catalog.model import ColumnInfo, DatabaseInfo, IndexInfo, TableInfo


class Kind(StrEnum):
    """What happened; the names are those of the job types."""

    CREATE_TABLE = "create table"
    TRUNCATE_TABLE = "truncate table"
    DROP_TABLE = "drop table"
    ADD_COLUMN = "add column"
    MODIFY_COLUMN = "modify column"
    DROP_COLUMN = "drop column"
    UNDO_DROP_COLUMN = "undo drop column"
    ADD_INDEX = "add index"
    ADD_PARTITION = "add partition"
    DROP_PARTITION = "drop partition"
    TRUNCATE_PARTITION = "truncate partition"
    EXCHANGE_PARTITION = "exchange partition"
    REORGANIZE_PARTITION = "reorganize partition"
    PARTITION_BY = "alter table partitioning"
    REMOVE_PARTITIONING = "remove partitioning"
    UNDO_TRUNCATE_TABLE = "undo truncate table"
    CHANGE_PRIMARY_KEY = "change primary key"
    DROP_SCHEMA = "drop schema"


class Partition(msgspec.Struct, frozen=True):
    """A partition by its physical id."""

    id: int
    name: str


class DroppedTable(msgspec.Struct, frozen=True):
    """A table of a dropped database, of which only ids are left. A partition without a name is the
    id of the whole table's statistics, if that differs from the table's id."""

    id: int
    name: str
    partitions: tuple[Partition, ...] = ()


class Stored(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What a row of mysql.ddl_notifier holds as JSON; what a kind does not need is left out."""

    type: Kind
    table_info: TableInfo | None = None
    old_table_info: TableInfo | None = None
    database_info: DatabaseInfo | None = None
    columns: tuple[ColumnInfo, ...] = ()
    indexes: tuple[IndexInfo, ...] = ()
    added_partitions: tuple[Partition, ...] = ()
    dropped_partitions: tuple[Partition, ...] = ()
    tables: tuple[DroppedTable, ...] = ()
    old_table_id: int = 0
    analyzed: bool = False
    kept_until_s: int = 0


# -- change ----------------------------------------------------------------------------------------

__all__ = ["DroppedTable", "Kind", "Partition", "SchemaChange", "WrongKind"]


class Truncated(NamedTuple):
    """The table that stands now, and the one whose rows are gone; until when (wall time) an UNDO
    may bring them back, 0: not."""

    table: TableInfo
    dropped: TableInfo
    kept_until_s: int = 0


class ChangedColumns(NamedTuple):
    """Columns that came, changed or went. `analyzed`: their statistics are made."""

    table: TableInfo
    columns: tuple[ColumnInfo, ...]
    analyzed: bool = False


class AddedIndexes(NamedTuple):
    """Indexes that came. `analyzed`: their statistics are made."""

    table: TableInfo
    indexes: tuple[IndexInfo, ...]
    analyzed: bool = False


class ChangedPartitions(NamedTuple):
    """The table as it is now, partitions that came, partitions that went."""

    table: TableInfo
    added: tuple[Partition, ...]
    dropped: tuple[Partition, ...]


class Exchanged(NamedTuple):
    """`partition` has the rows of what was `plain`, and `plain` those of the partition: they lie
    under `plain.physical_ids`, while its own id is what it was."""

    table: TableInfo
    partition: Partition
    plain: TableInfo


class Repartitioned(NamedTuple):
    """A change of a table's partitioning.

    Has the table, the former id of the whole table's statistics, and the new and old partitions.
    A table without partitions has one unnamed partition in `added` or `dropped`."""

    table: TableInfo
    old_table_id: int
    added: tuple[Partition, ...]
    dropped: tuple[Partition, ...]


class DroppedSchema(NamedTuple):
    """The database and the ids of all that was in it."""

    database: DatabaseInfo
    tables: tuple[DroppedTable, ...]


class WrongKind(TypeError):
    """A getter was asked for another kind than the change has: a subscriber's mistake."""


_decoder = msgspec.json.Decoder(Stored)


def _without_layouts(info: TableInfo | None) -> TableInfo | None:
    """How its rows are stored is nobody's affair who hears of a change, and long."""
    return None if info is None else msgspec.structs.replace(info, exuvia_layouts=())


class SchemaChange:
    """See the module. Equal by what they say. `origin`: (job id, part), part -1 for a whole job;
    no two changes have the same one."""

    __slots__ = ("_stored", "origin")

    def __init__(self, stored: Stored, origin: tuple[int, int] = (0, -1)) -> None:
        own, old = _without_layouts(stored.table_info), _without_layouts(stored.old_table_info)
        self._stored = msgspec.structs.replace(stored, table_info=own, old_table_info=old)
        self.origin = origin

    @property
    def kind(self) -> Kind:
        return self._stored.type

    @property
    def table_ids(self) -> tuple[int, ...]:
        """Tables that it is of, by their own ids; none of a database."""
        tables = self._stored.table_info, self._stored.old_table_info
        return tuple(table.id for table in tables if table is not None)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SchemaChange) and other._stored == self._stored

    def __hash__(self) -> int:
        return hash(self.to_json())

    def __repr__(self) -> str:
        table = self._stored.table_info or self._stored.old_table_info
        return f"SchemaChange({self.kind.value}{f' {table.name.O}' if table else ''})"

    def to_json(self) -> str:
        """The change at rest."""
        return msgspec.json.encode(self._stored).decode()

    @classmethod
    def from_json(cls, text: str | bytes, origin: tuple[int, int] = (0, -1)) -> "SchemaChange":
        """Inverse of `to_json`. Raises msgspec.DecodeError."""
        return cls(_decoder.decode(text), origin)

    def _of(self, *kinds: Kind) -> Stored:
        if self.kind not in kinds:
            asked = " or ".join(f"'{kind.value}'" for kind in kinds)
            raise WrongKind(f"a change of kind '{self.kind.value}' was asked as {asked}")
        return self._stored

    def _table(self, *kinds: Kind) -> TableInfo:
        table = self._of(*kinds).table_info
        if table is None:
            raise WrongKind(f"a change of kind '{self.kind.value}' came without its table")
        return table

    def _gone(self, *kinds: Kind) -> TableInfo:
        table = self._of(*kinds).old_table_info
        if table is None:
            raise WrongKind(f"a change of kind '{self.kind.value}' came without its old table")
        return table

    # -- getters -----------------------------------------------------------------------------------

    def get_create_table(self) -> TableInfo:
        """The table that came."""
        return self._table(Kind.CREATE_TABLE)

    def get_truncate_table(self) -> Truncated:
        """The table that stands now, and the one that is gone."""
        kind = Kind.TRUNCATE_TABLE
        return Truncated(self._table(kind), self._gone(kind), self._stored.kept_until_s)

    def get_drop_table(self) -> TableInfo:
        """The table that is gone."""
        return self._gone(Kind.DROP_TABLE)

    def get_columns(self, kind: Kind) -> ChangedColumns:
        """Columns that came (ADD_COLUMN), changed (MODIFY_COLUMN), went (DROP_COLUMN) or are there
        again with what they held (UNDO_DROP_COLUMN)."""
        if kind not in _CHANGES_OF_COLUMNS:
            raise WrongKind(f"'{kind.value}' is no change of columns")
        return ChangedColumns(self._table(kind), self._stored.columns, self._stored.analyzed)

    def get_add_index(self) -> AddedIndexes:
        table = self._table(Kind.ADD_INDEX)
        return AddedIndexes(table, self._stored.indexes, self._stored.analyzed)

    def get_partitions(self, kind: Kind) -> ChangedPartitions:
        """Partitions that came or went: ADD_, DROP_, TRUNCATE_ or REORGANIZE_PARTITION. Of
        UNDO_TRUNCATE_TABLE: where the rows of before and since lie, and where those since lay, in
        the same order; of a table without partitions one that stands for the whole."""
        if kind not in _CHANGES_OF_PARTITIONS:
            raise WrongKind(f"'{kind.value}' is no change of partitions")
        table, stored = self._table(kind), self._stored
        return ChangedPartitions(table, stored.added_partitions, stored.dropped_partitions)

    def get_exchange_partition(self) -> Exchanged:
        """The partition and the table that changed places."""
        table = self._table(Kind.EXCHANGE_PARTITION)
        (partition,) = self._stored.added_partitions
        return Exchanged(table, partition, self._gone(Kind.EXCHANGE_PARTITION))

    def get_repartition(self, kind: Kind) -> Repartitioned:
        """A table that got partitions (PARTITION_BY) or lost them (REMOVE_PARTITIONING), or whose
        rows lie elsewhere (CHANGE_PRIMARY_KEY)."""
        kinds = Kind.PARTITION_BY, Kind.REMOVE_PARTITIONING, Kind.CHANGE_PRIMARY_KEY
        if kind not in kinds:
            raise WrongKind(f"'{kind.value}' is no repartitioning")
        table, stored = self._table(kind), self._stored
        added, dropped = stored.added_partitions, stored.dropped_partitions
        return Repartitioned(table, stored.old_table_id, added, dropped)

    def get_drop_schema(self) -> DroppedSchema:
        """The database that is gone."""
        stored = self._of(Kind.DROP_SCHEMA)
        if stored.database_info is None:
            raise WrongKind("a change of kind 'drop schema' came without its database")
        return DroppedSchema(stored.database_info, stored.tables)


_CHANGES_OF_COLUMNS = (
    Kind.ADD_COLUMN,
    Kind.MODIFY_COLUMN,
    Kind.DROP_COLUMN,
    Kind.UNDO_DROP_COLUMN,
)
_CHANGES_OF_PARTITIONS = (
    Kind.ADD_PARTITION,
    Kind.DROP_PARTITION,
    Kind.TRUNCATE_PARTITION,
    Kind.REORGANIZE_PARTITION,
    Kind.UNDO_TRUNCATE_TABLE,
)


# -- publish ---------------------------------------------------------------------------------------


def create_table(table: TableInfo) -> SchemaChange:
    """A table came, under a new id or a recovered one."""
    return SchemaChange(Stored(type=Kind.CREATE_TABLE, table_info=table))


def truncate_table(table: TableInfo, dropped: TableInfo, kept_until_s: int = 0) -> SchemaChange:
    """A table lost its rows: it goes on under the new id of `table`."""
    stored = Stored(
        type=Kind.TRUNCATE_TABLE,
        table_info=table,
        old_table_info=dropped,
        kept_until_s=kept_until_s,
    )
    return SchemaChange(stored)


def drop_table(dropped: TableInfo) -> SchemaChange:
    return SchemaChange(Stored(type=Kind.DROP_TABLE, old_table_info=dropped))


def columns(
    kind: Kind, table: TableInfo, changed: Iterable[ColumnInfo], analyzed: bool = False
) -> SchemaChange:
    """Columns came, changed, went or came back: the kinds of `get_columns`."""
    return SchemaChange(
        Stored(type=kind, table_info=table, columns=tuple(changed), analyzed=analyzed)
    )


def add_index(
    table: TableInfo, indexes: Iterable[IndexInfo], analyzed: bool = False
) -> SchemaChange:
    """Indexes came, full; `analyzed`: their statistics were made with them."""
    return SchemaChange(
        Stored(type=Kind.ADD_INDEX, table_info=table, indexes=tuple(indexes), analyzed=analyzed)
    )


def partitions(
    kind: Kind,
    table: TableInfo,
    added: Iterable[Partition] = (),
    dropped: Iterable[Partition] = (),
) -> SchemaChange:
    """Partitions came or went: the kinds of `get_partitions`."""
    stored = Stored(
        type=kind,
        table_info=table,
        added_partitions=tuple(added),
        dropped_partitions=tuple(dropped),
    )
    return SchemaChange(stored)


def exchange_partition(table: TableInfo, partition: Partition, plain: TableInfo) -> SchemaChange:
    """`partition` now has the rows of what was the table `plain`, which has the partition's."""
    stored = Stored(
        type=Kind.EXCHANGE_PARTITION,
        table_info=table,
        added_partitions=(partition,),
        old_table_info=plain,
    )
    return SchemaChange(stored)


def repartition(
    kind: Kind,
    table: TableInfo,
    old_table_id: int,
    added: Iterable[Partition] = (),
    dropped: Iterable[Partition] = (),
) -> SchemaChange:
    """A table got partitions (PARTITION_BY) or lost them (REMOVE_PARTITIONING), and a new id."""
    stored = Stored(
        type=kind,
        table_info=table,
        old_table_id=old_table_id,
        added_partitions=tuple(added),
        dropped_partitions=tuple(dropped),
    )
    return SchemaChange(stored)


def drop_schema(database: DatabaseInfo, tables: Iterable[DroppedTable]) -> SchemaChange:
    """A database went, with all its tables."""
    return SchemaChange(Stored(type=Kind.DROP_SCHEMA, database_info=database, tables=tuple(tables)))
