"""Elements of the catalog as frozen values; JSON at rest with the field names of seed 001.

    DatabaseInfo
    TableInfo --< ColumnInfo         public columns first, by `offset`; hidden ones (being added,
              --< IndexInfo          being dropped) behind them
              --< Layout             how rows are laid out; a row names its layout: nothing rewrites

A value is replaced to change (`evolve`). What is not in seed 001 begins with `exuvia_`.
"""

from typing import Any

import msgspec
from msgspec.structs import replace as evolve

from exuvia.base.types import FieldType, Flag
from exuvia.catalog.constraint_info import ConstraintInfo, FkInfo, Referred
from exuvia.catalog.names import Name, name
from exuvia.catalog.partition_info import (
    ExchangeInfo,
    PartitionDefinition,
    PartitionInfo,
    PartitionType,
)
from exuvia.catalog.sequence_info import SequenceInfo
from exuvia.catalog.state import SchemaState

JsonValue = str | int | float | bool | None


class ColumnInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A column. Defaults are MySQL text (bytes: hex text in `default_bit`), or an expression."""

    id: int
    name: Name
    offset: int
    origin_default: JsonValue = None
    origin_default_bit: str | None = None
    default: JsonValue = None
    default_bit: str | None = None
    default_is_expr: bool = False
    generated_expr_string: str = ""
    generated_stored: bool = False
    dependences: dict[str, Any] | None = None
    type: FieldType
    state: SchemaState = SchemaState.PUBLIC
    comment: str = ""
    hidden: bool = False
    change_state_info: dict[str, Any] | None = None
    exuvia_changing_type: FieldType | None = (
        None  # obeyed beside `type` (catalog/convert/type_change.py)
    )
    version: int = 2

    @property
    def not_null(self) -> bool:
        """True where NULL is refused."""
        return self.type.not_null

    @property
    def is_generated(self) -> bool:
        """True for a column whose value follows from others'."""
        return bool(self.generated_expr_string)

    @property
    def is_virtual(self) -> bool:
        """True for a generated column that is not stored: catalog/virtual.py."""
        return bool(self.generated_expr_string) and not self.generated_stored

    @property
    def auto_increment(self) -> bool:
        """True for the AUTO_INCREMENT column."""
        return bool(self.type.Flag & Flag.AUTO_INCREMENT)


class IndexColumn(msgspec.Struct, frozen=True, kw_only=True):
    """A part of an index. `length`: a prefix in characters (bytes columns: bytes), -1 for all."""

    name: Name
    offset: int
    length: int = -1
    exuvia_column: int = 0  # column id: survives renames and moves
    exuvia_using_changing_type: bool = False  # keys are of the column's `exuvia_changing_type`


class IndexInfo(msgspec.Struct, frozen=True, kw_only=True):
    """An index. A clustered primary key is listed too (`exuvia_clustered`); it has no entries."""

    id: int
    idx_name: Name
    tbl_name: Name = Name("", "")
    idx_cols: tuple[IndexColumn, ...]
    is_unique: bool = False
    is_primary: bool = False
    is_invisible: bool = False
    is_global: bool = False
    index_type: int = 1
    comment: str = ""
    state: SchemaState = SchemaState.PUBLIC
    exuvia_clustered: bool = False


class LayoutColumn(msgspec.Struct, frozen=True):
    """A column inside a layout, with the type it had when the layout was made."""

    column: int
    type: FieldType


class Layout(msgspec.Struct, frozen=True):
    """An immutable list of columns; see catalog/codec/row_codec.py for the bytes."""

    id: int
    columns: tuple[LayoutColumn, ...]


class Definer(msgspec.Struct, frozen=True, kw_only=True):
    """Who made a view (names of TiDB's user identity)."""

    Username: str = ""
    Hostname: str = ""
    CurrentUser: bool = False
    AuthUsername: str = ""
    AuthHostname: str = ""


class ViewInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What makes a table a view. `view_select`: a query whose names need no current database.

    algorithm 0 UNDEFINED 1 MERGE 2 TEMPTABLE; security 0 DEFINER 1 INVOKER; check option 0 LOCAL
    1 CASCADED. `view_cols` are the query's own column names; clients see those of `cols`."""

    view_algorithm: int = 0
    view_definer: Definer = Definer()
    view_security: int = 0
    view_select: str = ""
    view_checkoption: int = 1
    view_cols: tuple[Name, ...] | None = None


LOCAL_TEMPORARY = 2
"""`temp_table_type` of one session's table, as in TiDB."""


class TableInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A table, view or sequence (names and order of seed 001)."""

    id: int
    name: Name
    charset: str = "utf8mb4"
    collate: str = "utf8mb4_bin"
    cols: tuple[ColumnInfo, ...] = ()
    index_info: tuple[IndexInfo, ...] | None = None
    constraint_info: tuple[ConstraintInfo, ...] | None = None
    fk_info: tuple[FkInfo, ...] | None = None
    state: SchemaState = SchemaState.PUBLIC
    pk_is_handle: bool = False
    is_common_handle: bool = False
    common_handle_version: int = 0
    comment: str = ""
    auto_inc_id: int = 0
    auto_id_cache: int = 0
    auto_rand_id: int = 0
    max_col_id: int = 0
    max_idx_id: int = 0
    max_cst_id: int = 0
    max_fk_id: int = 0
    update_timestamp: int = 0
    ShardRowIDBits: int = 0
    max_shard_row_id_bits: int = 0
    auto_random_bits: int = 0
    auto_random_range_bits: int = 0
    pre_split_regions: int = 0
    partition: PartitionInfo | None = None
    compression: str = ""
    view: ViewInfo | None = None
    sequence: SequenceInfo | None = None
    Lock: dict[str, Any] | None = None
    version: int = 4
    tiflash_replica: dict[str, Any] | None = None
    is_columnar: bool = False
    temp_table_type: int = 0
    cache_table_status: int = 0
    policy_ref_info: dict[str, Any] | None = None
    placement_settings: dict[str, Any] | None = None
    exuvia_db: int = 0
    exuvia_ids_epoch: int = 0  # blocks of ids taken under another one are void
    exuvia_ids_forced: bool = False  # `auto_inc_id` counts even if greater ids were given
    exuvia_layouts: tuple[Layout, ...] = ()
    exuvia_exchange: ExchangeInfo | None = None
    exuvia_physical: int = 0  # the id its rows lie under, where that is not its own
    exuvia_referred: tuple[Referred, ...] = ()

    @property
    def indexes(self) -> tuple[IndexInfo, ...]:
        """`index_info`, never None."""
        return self.index_info or ()

    @property
    def checks(self) -> tuple[ConstraintInfo, ...]:
        """`constraint_info`, never None."""
        return self.constraint_info or ()

    @property
    def foreign_keys(self) -> tuple[FkInfo, ...]:
        """`fk_info`, never None."""
        return self.fk_info or ()

    def column(self, text: str) -> ColumnInfo | None:
        """The column of that name in any state, or None."""
        wanted = text.lower()
        return next((c for c in self.cols if c.name.L == wanted), None)

    def column_by_id(self, column_id: int) -> ColumnInfo | None:
        """The column with that id, or None."""
        return next((c for c in self.cols if c.id == column_id), None)

    def index(self, text: str) -> IndexInfo | None:
        """The index of that name in any state, or None."""
        wanted = text.lower()
        return next((i for i in self.indexes if i.idx_name.L == wanted), None)

    def index_by_id(self, index_id: int) -> IndexInfo | None:
        """The index with that id, or None."""
        return next((i for i in self.indexes if i.id == index_id), None)

    @property
    def physical_ids(self) -> tuple[int, ...]:
        """Ids under which rows and entries lie: its partitions', else its own."""
        own = (self.exuvia_physical or self.id,)
        return own if self.partition is None else self.partition.physical_ids

    @property
    def is_stored(self) -> bool:
        """Whether it has rows: neither a view nor a sequence."""
        return self.view is None and self.sequence is None

    @property
    def is_temporary(self) -> bool:
        """Whether it is one session's (sql/statement/temporary.py)."""
        return self.temp_table_type == LOCAL_TEMPORARY

    @property
    def public_columns(self) -> tuple[ColumnInfo, ...]:
        """What clients see, in order."""
        return tuple(c for c in self.cols if c.state == SchemaState.PUBLIC and not c.hidden)


class DatabaseInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A database."""

    id: int
    db_name: Name
    charset: str = "utf8mb4"
    collate: str = "utf8mb4_bin"
    state: SchemaState = SchemaState.PUBLIC


class SchemaDiff(msgspec.Struct, frozen=True, kw_only=True):
    """What one schema version changed. `type` is the job's action code."""

    version: int
    type: int
    schema_id: int
    table_id: int = 0
    old_table_id: int = 0
    affected: tuple[int, ...] = ()


def to_json(value: msgspec.Struct) -> bytes:
    """JSON at rest."""
    return msgspec.json.encode(value)


__all__ = [
    "ColumnInfo",
    "ConstraintInfo",
    "DatabaseInfo",
    "Definer",
    "FkInfo",
    "IndexColumn",
    "IndexInfo",
    "Layout",
    "LayoutColumn",
    "Name",
    "PartitionDefinition",
    "PartitionInfo",
    "PartitionType",
    "Referred",
    "SchemaDiff",
    "TableInfo",
    "ViewInfo",
    "evolve",
    "name",
    "to_json",
]
