"""The form of a schema change at rest: known to its publisher and to change.py, to nobody else."""

from enum import StrEnum

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
    ADD_INDEX = "add index"
    ADD_PARTITION = "add partition"
    DROP_PARTITION = "drop partition"
    TRUNCATE_PARTITION = "truncate partition"
    EXCHANGE_PARTITION = "exchange partition"
    REORGANIZE_PARTITION = "reorganize partition"
    PARTITION_BY = "alter table partitioning"
    REMOVE_PARTITIONING = "remove partitioning"
    DROP_SCHEMA = "drop schema"


class Partition(msgspec.Struct, frozen=True):
    """A partition by its physical id."""

    id: int
    name: str


class DroppedTable(msgspec.Struct, frozen=True):
    """A table of a dropped database: ids are all that is left. A partition without a name is where
    the rows of a table without partitions lay, if not under its own id."""

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
