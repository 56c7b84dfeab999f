"""A finished schema change for subscribers: a kind, and one getter for each kind.

    publisher     add_index(table, indexes, analyzed) -> SchemaChange      one constructor a kind
    subscriber    change.kind; change.get_add_index() -> AddedIndexes      a wrong getter raises
    stored        to_json, from_json                                       private to this module

The getters are the whole interface; the JSON may change (seed 004). Tables are complete
definitions, as they were when the change finished.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

import msgspec

from exuvia.base.decoding import json_decoder
from exuvia.catalog.model import ColumnInfo, DatabaseInfo, IndexInfo, TableInfo


class Kind(StrEnum):
    """The kind of a change; names are those of the job types."""

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
    """A table of a dropped database, by ids. A partition without a name is the id of the whole
    table's statistics, if that differs from the table's id."""

    id: int
    name: str
    partitions: tuple[Partition, ...] = ()


class Stored(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The JSON in a row of mysql.ddl_notifier; omits the fields that a kind does not use."""

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
    """The current table, and the one whose rows were removed. `kept_until_s`: wall time until which
    UNDO can restore them; 0 if it cannot."""

    table: TableInfo
    dropped: TableInfo
    kept_until_s: int = 0


class ChangedColumns(NamedTuple):
    """Columns that were added, changed or dropped. `analyzed`: they already have statistics."""

    table: TableInfo
    columns: tuple[ColumnInfo, ...]
    analyzed: bool = False


class AddedIndexes(NamedTuple):
    """Indexes that were added. `analyzed`: they already have statistics."""

    table: TableInfo
    indexes: tuple[IndexInfo, ...]
    analyzed: bool = False


class ChangedPartitions(NamedTuple):
    """The current table, the added partitions and the dropped partitions."""

    table: TableInfo
    added: tuple[Partition, ...]
    dropped: tuple[Partition, ...]


class Exchanged(NamedTuple):
    """`partition` has the former rows of `plain`, and `plain` has those of the partition. The
    latter are stored under `plain.physical_ids`; the table's own id does not change."""

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
    """The database, and the ids of all tables in it."""

    database: DatabaseInfo
    tables: tuple[DroppedTable, ...]


class WrongKind(TypeError):
    """A getter was called for another kind than the change has: an error of the subscriber."""


_decoder = json_decoder(Stored)


def _without_layouts(info: TableInfo | None) -> TableInfo | None:
    """The table without its row layouts: they are long, and subscribers do not need them."""
    return None if info is None else msgspec.structs.replace(info, exuvia_layouts=())


class SchemaChange:
    """A finished change, compared by its content.

    `origin`: (job id, part), unique for each change; part -1 is a whole job."""

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
        """The ids of the tables that changed; empty for a database."""
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
        """The change as JSON, for storage."""
        return msgspec.json.encode(self._stored).decode()

    @classmethod
    def from_json(cls, text: str | bytes, origin: tuple[int, int] = (0, -1)) -> "SchemaChange":
        """Inverse of `to_json`. Raises msgspec.DecodeError."""
        return cls(_decoder.decode(text), origin)

    def _of(self, *kinds: Kind) -> Stored:
        if self.kind not in kinds:
            requested = " or ".join(f"'{kind.value}'" for kind in kinds)
            raise WrongKind(f"a change of kind '{self.kind.value}' was read as {requested}")
        return self._stored

    def _table(self, *kinds: Kind) -> TableInfo:
        table = self._of(*kinds).table_info
        if table is None:
            raise WrongKind(f"a change of kind '{self.kind.value}' has no table")
        return table

    def _old_table(self, *kinds: Kind) -> TableInfo:
        table = self._of(*kinds).old_table_info
        if table is None:
            raise WrongKind(f"a change of kind '{self.kind.value}' has no old table")
        return table

    # -- getters -----------------------------------------------------------------------------------

    def get_create_table(self) -> TableInfo:
        """The new table."""
        return self._table(Kind.CREATE_TABLE)

    def get_truncate_table(self) -> Truncated:
        """The current table, and the one whose rows were removed."""
        kind = Kind.TRUNCATE_TABLE
        return Truncated(self._table(kind), self._old_table(kind), self._stored.kept_until_s)

    def get_drop_table(self) -> TableInfo:
        """The dropped table."""
        return self._old_table(Kind.DROP_TABLE)

    def get_columns(self, kind: Kind) -> ChangedColumns:
        """Columns that were added (ADD_COLUMN), changed (MODIFY_COLUMN), dropped (DROP_COLUMN) or
        restored with their values (UNDO_DROP_COLUMN)."""
        if kind not in _CHANGES_OF_COLUMNS:
            raise WrongKind(f"'{kind.value}' is not a change of columns")
        return ChangedColumns(self._table(kind), self._stored.columns, self._stored.analyzed)

    def get_add_index(self) -> AddedIndexes:
        table = self._table(Kind.ADD_INDEX)
        return AddedIndexes(table, self._stored.indexes, self._stored.analyzed)

    def get_partitions(self, kind: Kind) -> ChangedPartitions:
        """Partitions that were added or dropped: ADD_, DROP_, TRUNCATE_ or REORGANIZE_PARTITION.

        For UNDO_TRUNCATE_TABLE, `added` holds the restored rows and those written since the
        truncation. `dropped` is where the latter were stored, in the same order. A table without
        partitions is one partition."""
        if kind not in _CHANGES_OF_PARTITIONS:
            raise WrongKind(f"'{kind.value}' is not a change of partitions")
        table, stored = self._table(kind), self._stored
        return ChangedPartitions(table, stored.added_partitions, stored.dropped_partitions)

    def get_exchange_partition(self) -> Exchanged:
        """The partition and the table that were exchanged."""
        table = self._table(Kind.EXCHANGE_PARTITION)
        (partition,) = self._stored.added_partitions
        return Exchanged(table, partition, self._old_table(Kind.EXCHANGE_PARTITION))

    def get_repartition(self, kind: Kind) -> Repartitioned:
        """A table that was partitioned (PARTITION_BY), that lost its partitions
        (REMOVE_PARTITIONING), or whose rows moved to another physical id (CHANGE_PRIMARY_KEY)."""
        kinds = Kind.PARTITION_BY, Kind.REMOVE_PARTITIONING, Kind.CHANGE_PRIMARY_KEY
        if kind not in kinds:
            raise WrongKind(f"'{kind.value}' is not a repartitioning")
        table, stored = self._table(kind), self._stored
        added, dropped = stored.added_partitions, stored.dropped_partitions
        return Repartitioned(table, stored.old_table_id, added, dropped)

    def get_drop_schema(self) -> DroppedSchema:
        """The dropped database."""
        stored = self._of(Kind.DROP_SCHEMA)
        if stored.database_info is None:
            raise WrongKind("a change of kind 'drop schema' has no database")
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
    """A table was created, under a new id or a recovered one."""
    return SchemaChange(Stored(type=Kind.CREATE_TABLE, table_info=table))


def truncate_table(table: TableInfo, dropped: TableInfo, kept_until_s: int = 0) -> SchemaChange:
    """A table was truncated: it continues under the new id of `table`."""
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
    """Columns were added, changed, dropped or restored: the kinds of `get_columns`."""
    return SchemaChange(
        Stored(type=kind, table_info=table, columns=tuple(changed), analyzed=analyzed)
    )


def add_index(
    table: TableInfo, indexes: Iterable[IndexInfo], analyzed: bool = False
) -> SchemaChange:
    """Indexes were added and backfilled. `analyzed`: they already have statistics."""
    return SchemaChange(
        Stored(type=Kind.ADD_INDEX, table_info=table, indexes=tuple(indexes), analyzed=analyzed)
    )


def partitions(
    kind: Kind,
    table: TableInfo,
    added: Iterable[Partition] = (),
    dropped: Iterable[Partition] = (),
) -> SchemaChange:
    """Partitions were added or dropped: the kinds of `get_partitions`."""
    stored = Stored(
        type=kind,
        table_info=table,
        added_partitions=tuple(added),
        dropped_partitions=tuple(dropped),
    )
    return SchemaChange(stored)


def exchange_partition(table: TableInfo, partition: Partition, plain: TableInfo) -> SchemaChange:
    """`partition` now has the rows of the former table `plain`, which has the partition's."""
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
    """A table was partitioned (PARTITION_BY) or lost its partitions (REMOVE_PARTITIONING), and has
    a new id."""
    stored = Stored(
        type=kind,
        table_info=table,
        old_table_id=old_table_id,
        added_partitions=tuple(added),
        dropped_partitions=tuple(dropped),
    )
    return SchemaChange(stored)


def drop_schema(database: DatabaseInfo, tables: Iterable[DroppedTable]) -> SchemaChange:
    """A database was dropped, with all its tables."""
    return SchemaChange(Stored(type=Kind.DROP_SCHEMA, database_info=database, tables=tuple(tables)))
