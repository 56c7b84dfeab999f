"""Elements of the catalog as frozen values; JSON in the store has the field names of seed 001.

    DatabaseInfo
    TableInfo --< ColumnInfo         public columns first, by `offset`; hidden ones (being added,
              --< IndexInfo          being dropped) after them
              --< Layout             the format of rows; a row names its layout, so a change of
                                     layout rewrites no row

Values are changed by replacement (`evolve`). Fields that are not in seed 001 begin with `exuvia_`.

Identifiers are stored as written, and in lower case for comparison.

The duty table defines what writers and readers do with an element in each state:

                    removes entries  adds entries  is read
    ABSENT               no              no          no
    DELETE_ONLY          yes             no          no
    WRITE_ONLY           yes *           yes         no     * leaves a tombstone
    WRITE_REORG          yes *           yes         no
    DELETE_REORG         yes             no          no
    PUBLIC               yes             yes         yes

WRITE_REORG has the duties of WRITE_ONLY. When it is reached, every writer has left DELETE_ONLY, so
a backfill that reads now misses no row (F1, section 4). REPLICA_ONLY, of partitions being added, is
ABSENT under TiDB's name. The compatible pairs of states are derived from this table by tests/laws,
not listed here.

CHECK and FOREIGN KEY in the store have the JSON names of TiDB; own fields begin with `exuvia_`.

    child.fk_info            names as written, and ids of columns, which survive renames
    parent.exuvia_referred   the same key in the parent: the duties of the parent's writers

One step changes both, so the writers of each table have their duty under a revision of their own
table. Both have the key's link, a unique number. `m/fkchild` and `m/fkparent` of catalog/meta.py
have the tables that a link joins now, after renames, truncations, and drops with a new table of the
name.

The partitioning of a table, with the JSON names of TiDB:

    TableInfo.partition = PartitionInfo
        definitions            the set that is read; each is a physical table: t{definition id}r..
        adding_definitions     of a running change: the new ones
        dropping_definitions   of a running change: the old ones

`ddl_state` decides who reads and writes which of them; see `moving` and `others`.

A global index has the rows of all partitions under one id, `exuvia_home`, which is not a
partition's. Handles in its entries begin with the partition's id. While rows move to other
partitions there are two indexes, a pair of `exuvia_index_pairs`. The old one has no rows of
`adding_definitions`, the new one no rows of `dropping_definitions`.

A table whose primary key changes has two sets of rows, with different ids and handles.
`exuvia_rekey` is the set that is not read.

A value in `less_than` and `in_values` is SQL text: `10`, `'abc'`, `NULL`, `MAXVALUE`, `DEFAULT`.
The logical table has no rows of its own; its revision fences all of its partitions (law 1).
"""

import re
from collections.abc import Sequence
from enum import IntEnum
from itertools import islice
from typing import NamedTuple

import msgspec
from msgspec.structs import replace as evolve

from exuvia.base.types import FieldType, Flag

# -- states and their duties -----------------------------------------------------------------------


class SchemaState(IntEnum):
    """State of an element; the numbers are those of the table's JSON (seed 001)."""

    ABSENT = 0
    DELETE_ONLY = 1
    WRITE_ONLY = 2
    WRITE_REORG = 3
    DELETE_REORG = 4
    PUBLIC = 5
    REPLICA_ONLY = 6


class Duty(NamedTuple):
    """The effect of statements on an element in one state."""

    removes: bool
    adds: bool
    reads: bool
    entombs: bool


DUTIES = {
    SchemaState.ABSENT: Duty(removes=False, adds=False, reads=False, entombs=False),
    SchemaState.DELETE_ONLY: Duty(removes=True, adds=False, reads=False, entombs=False),
    SchemaState.WRITE_ONLY: Duty(removes=True, adds=True, reads=False, entombs=True),
    SchemaState.WRITE_REORG: Duty(removes=True, adds=True, reads=False, entombs=True),
    SchemaState.DELETE_REORG: Duty(removes=True, adds=False, reads=False, entombs=False),
    SchemaState.PUBLIC: Duty(removes=True, adds=True, reads=True, entombs=False),
    SchemaState.REPLICA_ONLY: Duty(removes=False, adds=False, reads=False, entombs=False),
}

STATE_TEXT = {
    SchemaState.ABSENT: "none",
    SchemaState.DELETE_ONLY: "delete only",
    SchemaState.WRITE_ONLY: "write only",
    SchemaState.WRITE_REORG: "write reorganization",
    SchemaState.DELETE_REORG: "delete reorganization",
    SchemaState.PUBLIC: "public",
    SchemaState.REPLICA_ONLY: "replica only",
}


# -- names -----------------------------------------------------------------------------------------


class Name(msgspec.Struct, frozen=True):
    """An identifier as written and in lower case; names compare by `L`."""

    O: str  # noqa: E741 - the seed's field name
    L: str


def name(text: str) -> Name:
    """An identifier from its text."""
    return Name(text, text.lower())


def final_name(text: str) -> str:
    """The final name of a hidden element: `i` for `_Idx$_i_0` and `_New$_i_0` (ddl/elements.py,
    ddl/actions/modify_column.py). Other names are returned unchanged."""
    match = re.fullmatch(r"_(?:Idx|New)\$_(.*)_0", text)
    return text if match is None else match[1]


# -- CHECK and FOREIGN KEY -------------------------------------------------------------------------

DUTY_STATES = frozenset({SchemaState.WRITE_ONLY, SchemaState.WRITE_REORG, SchemaState.PUBLIC})


class ConstraintInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A CHECK. `expr_string` is the condition with quoted names, and strings with introducers."""

    id: int = 0
    constraint_name: Name
    tbl_name: Name = Name("", "")
    constraint_cols: tuple[Name, ...] = ()
    enforced: bool = True
    in_column: bool = False
    expr_string: str = ""
    state: SchemaState = SchemaState.PUBLIC

    @property
    def binds(self) -> bool:
        """Whether written rows must satisfy it."""
        return self.enforced and self.state in DUTY_STATES


class ReferOption(IntEnum):
    """The effect on a child when its parent row is deleted or changed; TiDB's numbers."""

    NONE = 0
    RESTRICT = 1
    CASCADE = 2
    SET_NULL = 3
    NO_ACTION = 4
    SET_DEFAULT = 5


RULE_TEXT = {rule: rule.name.replace("_", " ") for rule in ReferOption if rule}
RULES = {text: rule for rule, text in RULE_TEXT.items()}


class FkInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A foreign key, in its child.

    Version 0: created while tidb_enable_foreign_key was OFF, and never enforced."""

    id: int = 0
    fk_name: Name
    ref_schema: Name
    ref_table: Name
    ref_cols: tuple[Name, ...]
    cols: tuple[Name, ...]
    on_delete: ReferOption = ReferOption.NONE
    on_update: ReferOption = ReferOption.NONE
    state: SchemaState = SchemaState.PUBLIC
    version: int = 1
    exuvia_link: int = 0
    exuvia_orphan: bool = False  # created before its parent table
    exuvia_cols: tuple[int, ...] = ()
    exuvia_ref_cols: tuple[int, ...] = ()

    @property
    def binds(self) -> bool:
        """Whether a written child row needs a parent, and marks it."""
        return self.version > 0 and self.state in DUTY_STATES | {SchemaState.DELETE_ONLY}


class Referred(msgspec.Struct, frozen=True):
    """A foreign key, in its parent. `columns`: ids of the referenced columns; `names`: their names
    while the key waits for a parent."""

    link: int
    state: SchemaState = SchemaState.PUBLIC
    columns: tuple[int, ...] = ()
    names: tuple[str, ...] = ()

    @property
    def binds(self) -> bool:
        """Whether removing a parent row must check for children.

        ABSENT while the key is being added and some writers of children do not mark parents yet."""
        return self.state in DUTY_STATES | {SchemaState.DELETE_ONLY}


# -- placement -------------------------------------------------------------------------------------


class PolicyRef(msgspec.Struct, frozen=True):
    """The placement policy of a database, a table or a partition (catalog/placement.py)."""

    id: int
    name: Name


# -- partitions ------------------------------------------------------------------------------------

MAXVALUE = "MAXVALUE"
DEFAULT = "DEFAULT"
DROPPING = 20  # the action code of DROP PARTITION
TRUNCATING = 23  # the action code of TRUNCATE PARTITION
JOINING = 1003  # the action code of UNDO of a TRUNCATE
MOVING = frozenset({64, 71, 72, JOINING})  # with REORGANIZE, PARTITION BY, REMOVE PARTITIONING


class KeyAlgorithm(IntEnum):
    """The bytes of values by which KEY places a row: see sql/access/partitions.py."""

    SORT_KEYS = 0
    WEIGHTS = 1


class PartitionType(IntEnum):
    """The numbers of TiDB's JSON."""

    NONE = 0
    RANGE = 1
    HASH = 2
    LIST = 3
    KEY = 4


class PartitionDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """A partition. `in_values`: a row of values each; [["DEFAULT"]] has the rows of no other
    partition."""

    id: int = 0
    name: Name
    less_than: tuple[str, ...] = ()
    in_values: tuple[tuple[str, ...], ...] = ()
    comment: str = ""
    policy_ref_info: PolicyRef | None = None
    exuvia_attributes: str = ""


class ExchangeInfo(msgspec.Struct, frozen=True, kw_only=True):
    """An EXCHANGE PARTITION that runs, in both tables: written rows must fit their future table
    (1737).

    `exuvia_partition`, in the plain table: the partitioning of the other. `exuvia_checks`: CHECKs
    of the other side. `exuvia_steps`: a counter that changes the revision."""

    exchange_partition_table_id: int
    exchange_partition_def_id: int
    exuvia_validate: bool = True
    exuvia_partition: "PartitionInfo | None" = None
    exuvia_checks: tuple[ConstraintInfo, ...] = ()
    exuvia_steps: int = 0


_DEAD_IN = {
    DROPPING: (SchemaState.DELETE_ONLY, SchemaState.DELETE_REORG),
    TRUNCATING: (SchemaState.DELETE_REORG,),
}
"""States two steps after the last use of the partitions."""


class PartitionInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The partitioning of a table, and a running change of it.

    `expr` is the function of RANGE, LIST and HASH; `columns` are those of KEY and of RANGE and LIST
    COLUMNS. `ddl_type`, `ddl_expr`, `ddl_columns`: the partitioning of the adding definitions, if
    different. `new_table_id`: the id of the logical table after the change."""

    type: PartitionType
    expr: str = ""
    columns: tuple[Name, ...] = ()
    enable: bool = True
    is_empty_columns: bool = False
    definitions: tuple[PartitionDefinition, ...] = ()
    adding_definitions: tuple[PartitionDefinition, ...] = ()
    dropping_definitions: tuple[PartitionDefinition, ...] = ()
    num: int = 0
    ddl_state: SchemaState = SchemaState.ABSENT
    ddl_action: int = 0
    new_table_id: int = 0
    ddl_type: PartitionType = PartitionType.NONE
    ddl_expr: str = ""
    ddl_columns: tuple[Name, ...] = ()
    exuvia_ddl_empty_columns: bool = False
    exuvia_key_algorithm: KeyAlgorithm = KeyAlgorithm.SORT_KEYS
    exuvia_ddl_key_algorithm: KeyAlgorithm = KeyAlgorithm.SORT_KEYS
    exuvia_home: int = 0  # the id of global indexes' entries; 0: never had any
    exuvia_index_pairs: tuple[tuple[int, int], ...] = ()
    """Ids of the old and the new index, for each index that is or was global, while rows move."""

    def definition(self, text: str) -> PartitionDefinition | None:
        """The partition of that name, or None."""
        lowered = text.lower()
        return next(
            (partition for partition in self.definitions if partition.name.L == lowered), None
        )

    def with_ids(self, ids: Sequence[int]) -> "PartitionInfo":
        """The definitions with these ids, in order."""
        pairs = zip(self.definitions, ids, strict=True)
        return evolve(
            self, definitions=tuple(evolve(partition, id=number) for partition, number in pairs)
        )

    def crossed(
        self, old: tuple[PartitionDefinition, ...], new: tuple[PartitionDefinition, ...]
    ) -> "PartitionInfo":
        """The partitioning with `new` in the place of `old`, and both partitionings exchanged."""
        old_ids = {partition.id for partition in old}
        at = next(n for n, partition in enumerate(self.definitions) if partition.id in old_ids)
        remaining = [partition for partition in self.definitions if partition.id not in old_ids]
        before = [partition for partition in self.definitions[:at] if partition.id not in old_ids]
        definitions = (*before, *new, *remaining[len(before) :])
        return evolve(
            self,
            definitions=definitions,
            num=len(definitions),
            type=self.ddl_type,
            expr=self.ddl_expr,
            columns=self.ddl_columns,
            is_empty_columns=self.exuvia_ddl_empty_columns,
            exuvia_key_algorithm=self.exuvia_ddl_key_algorithm,
            ddl_type=self.type,
            ddl_expr=self.expr,
            ddl_columns=self.columns,
            exuvia_ddl_empty_columns=self.is_empty_columns,
            exuvia_ddl_key_algorithm=self.exuvia_key_algorithm,
        )

    @property
    def switched(self) -> "PartitionInfo":
        """The partitioning after the switch to the other set."""
        return self.crossed(self.dropping_definitions, self.adding_definitions)

    @property
    def staying(self) -> tuple[PartitionDefinition, ...]:
        """The partitions whose rows do not move."""
        moving_ids = {
            partition.id for partition in (*self.dropping_definitions, *self.adding_definitions)
        }
        return tuple(partition for partition in self.definitions if partition.id not in moving_ids)

    def without_rows_of(self, physical_id: int) -> frozenset[int]:
        """Ids of the paired indexes without rows of that partition."""
        if not self.exuvia_index_pairs:
            return frozenset()
        if any(partition.id == physical_id for partition in self.adding_definitions):
            return frozenset(old for old, _ in self.exuvia_index_pairs)
        if any(partition.id == physical_id for partition in self.dropping_definitions):
            return frozenset(new for _, new in self.exuvia_index_pairs)
        return frozenset()

    def paired_with(self, index_id: int) -> int:
        """Id of the other index of its pair, or 0."""
        pairs = self.exuvia_index_pairs
        return next((old + new - index_id for old, new in pairs if index_id in (old, new)), 0)

    @property
    def moving(self) -> frozenset[int]:
        """Ids of the set that is read, and whose writes go to the other set too."""
        if self.ddl_action not in MOVING or self.ddl_state == SchemaState.ABSENT:
            return frozenset()
        switched = self.ddl_state == SchemaState.DELETE_REORG
        read = self.adding_definitions if switched else self.dropping_definitions
        return frozenset(partition.id for partition in read)

    @property
    def guarded(self) -> frozenset[int]:
        """Ids of the set that is read while the other has rows of its own; written rows must not
        conflict with those."""
        if self.ddl_action != JOINING or self.ddl_state == SchemaState.DELETE_REORG:
            return frozenset()
        return frozenset(partition.id for partition in self.dropping_definitions)

    @property
    def is_whole_in_undo(self) -> bool:
        """Whether it represents a table without partitions whose TRUNCATE is being undone."""
        return self.type == PartitionType.NONE and self.ddl_action == JOINING

    @property
    def others(self) -> tuple[PartitionDefinition, ...]:
        """The other set of a running move, partitioned by `ddl_type`, `ddl_expr` and
        `ddl_columns`."""
        switched = self.ddl_state == SchemaState.DELETE_REORG
        return self.dropping_definitions if switched else self.adding_definitions

    @property
    def unused(self) -> frozenset[int]:
        """Ids of partitions being dropped that are still listed, but neither read nor written."""
        is_dropping = self.ddl_action == DROPPING and self.ddl_state == SchemaState.WRITE_ONLY
        return (
            frozenset(partition.id for partition in self.dropping_definitions)
            if is_dropping
            else frozenset()
        )

    @property
    def dead(self) -> frozenset[int]:
        """Ids of partitions that no plan reads or writes any more.

        Their entries in global indexes count as absent until they are removed
        (ddl/actions/partition.py). Excludes unknown partitions, because an older plan may use
        them."""
        states = _DEAD_IN.get(self.ddl_action, ())
        dropped = self.dropping_definitions if self.ddl_state in states else ()
        return frozenset(partition.id for partition in dropped)

    @property
    def physical_ids(self) -> tuple[int, ...]:
        """Every id that may have rows, including those of a running change."""
        every = (*self.definitions, *self.adding_definitions, *self.dropping_definitions)
        return tuple(dict.fromkeys(partition.id for partition in every))


# -- sequences -------------------------------------------------------------------------------------


class SequenceInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of a sequence.

    A new generation begins at `exuvia_base`, the value before its first one: ALTER SEQUENCE ...
    RESTART sets the counter this way (catalog/autoid.py)."""

    sequence_start: int = 1
    sequence_cache: bool = True
    sequence_cycle: bool = False
    sequence_min_value: int = 1
    sequence_max_value: int = (1 << 63) - 2
    sequence_increment: int = 1
    sequence_cache_value: int = 1000
    sequence_comment: str = ""
    exuvia_generation: int = 0
    exuvia_base: int = 0


# -- databases, tables, columns, indexes -----------------------------------------------------------

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
    dependences: dict[str, object] | None = None
    type: FieldType
    state: SchemaState = SchemaState.PUBLIC
    comment: str = ""
    hidden: bool = False
    change_state_info: dict[str, object] | None = None
    exuvia_changing_type: FieldType | None = (
        None  # enforced together with `type` (catalog/convert/type_change.py)
    )
    version: int = 2

    @property
    def not_null(self) -> bool:
        """True if NULL is refused."""
        return self.type.not_null

    @property
    def is_generated(self) -> bool:
        """True for a generated column."""
        return bool(self.generated_expr_string)

    @property
    def is_virtual(self) -> bool:
        """True for a generated column that is not stored: catalog/table.py."""
        return bool(self.generated_expr_string) and not self.generated_stored

    @property
    def auto_increment(self) -> bool:
        """True for the AUTO_INCREMENT column."""
        return self.type.auto_increment


class IndexColumn(msgspec.Struct, frozen=True, kw_only=True):
    """A part of an index. `length`: a prefix in characters (bytes columns: bytes), -1 for the whole
    value."""

    name: Name
    offset: int
    length: int = -1
    exuvia_column: int = 0  # column id: survives renames and moves
    exuvia_using_changing_type: bool = False  # keys are of the column's `exuvia_changing_type`
    exuvia_array: FieldType | None = None  # for an array part: the type of its elements


class PredicateTerm(msgspec.Struct, frozen=True, kw_only=True):
    """One condition of a partial index: a column against constants; see catalog/predicate.py.

    `written`: the constants for display. `keys`: the constants as keys of the column's family,
    hexadecimal; the session's time zone and the words of ENUMs are resolved."""

    name: Name
    operator: str  # = != < <= > >= in, is null, is not null
    written: str = ""
    keys: tuple[str, ...] = ()
    exuvia_column: int = 0


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
    exuvia_predicate: tuple[PredicateTerm, ...] = ()  # all must be true for the rows in the index
    exuvia_generated: bool = False
    """Created for a foreign key that had no index (mysql mode): removed when another index serves
    the key. Nodes before 0.5.0 lose the mark, and the index then stays."""

    @property
    def is_partial(self) -> bool:
        """Whether it has only the rows of its predicate."""
        return bool(self.exuvia_predicate)

    @property
    def is_multi_valued(self) -> bool:
        """Whether a row has an entry for each element of an array; see catalog/multi_valued.py."""
        return any(part.exuvia_array is not None for part in self.idx_cols)

    @property
    def holds_every_row(self) -> bool:
        """Whether each row has exactly one entry, as reads by ranges and orders require."""
        return not self.is_partial and not self.is_multi_valued


class LayoutColumn(msgspec.Struct, frozen=True):
    """A column in a layout, with its type at the time of the layout's creation."""

    column: int
    type: FieldType


class Layout(msgspec.Struct, frozen=True, omit_defaults=True):
    """An immutable list of columns; see catalog/codec/row_codec.py for the bytes.

    Stored briefly, it is the difference from an earlier layout of its table (`brief_layouts`
    there). `columns` are new or have another type, and `gone` are the ids of removed columns."""

    id: int
    columns: tuple[LayoutColumn, ...] = ()
    since: int = 0
    gone: tuple[int, ...] = ()


class Definer(msgspec.Struct, frozen=True, kw_only=True):
    """The creator of a view (names of TiDB's user identity)."""

    Username: str = ""
    Hostname: str = ""
    CurrentUser: bool = False
    AuthUsername: str = ""
    AuthHostname: str = ""


class ViewInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The definition of a view. `view_select`: a query whose names need no current database.

    algorithm 0 UNDEFINED 1 MERGE 2 TEMPTABLE. security 0 DEFINER 1 INVOKER. check option 0 LOCAL 1
    CASCADED. `view_cols` are the query's own column names; clients see those of `cols`."""

    view_algorithm: int = 0
    view_definer: Definer = Definer()
    view_security: int = 0
    view_select: str = ""
    view_checkoption: int = 1
    view_cols: tuple[Name, ...] | None = None


TIME_UNITS = (
    *("", "MICROSECOND", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR"),
    *("SECOND_MICROSECOND", "MINUTE_MICROSECOND", "MINUTE_SECOND", "HOUR_MICROSECOND"),
    *("HOUR_SECOND", "HOUR_MINUTE", "DAY_MICROSECOND", "DAY_SECOND", "DAY_MINUTE", "DAY_HOUR"),
    "YEAR_MONTH",
)
"""Units of intervals in the order of TiDB's numbers."""


class TtlInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The expiry of a table's rows: a time column, and the interval after it (catalog/ttl.py).

    `interval_expr`: a literal as written; `job_interval`: as 24h, 1d12h."""

    column: Name
    interval_expr: str
    interval_time_unit: int
    enable: bool = True
    job_interval: str = "24h"

    @property
    def unit(self) -> str:
        """The word of its unit."""
        return TIME_UNITS[self.interval_time_unit]


GLOBAL_TEMPORARY, LOCAL_TEMPORARY = 1, 2
"""TiDB's `temp_table_type`: rows of a transaction, or of a session."""


class Rekey(msgspec.Struct, frozen=True, kw_only=True):
    """The set of rows that is not read, of a table whose primary key changes
    (ddl/actions/rekey.py).

    `physical`: the id of its rows. `partitions`: the ids of its partitions, in the order of the
    ones that are read. Key and indexes are as in TableInfo. `key_columns`: ids of the key's
    columns, () for hidden row ids.

    `guard`: the hidden unique index on the new key in the old set. If the key is dropped, it is on
    the old key in the new set. `key_guard`: if the dropped key is replaced by a nonclustered one,
    the hidden unique index on that key in the old set."""

    physical: int
    guard: int
    key_guard: int = 0
    partitions: tuple[int, ...] = ()
    state: SchemaState = SchemaState.ABSENT
    pk_is_handle: bool = False
    is_common_handle: bool = False
    common_handle_version: int = 0
    key_columns: tuple[int, ...] = ()
    index_info: tuple["IndexInfo", ...] | None = None


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
    Lock: dict[str, object] | None = None
    version: int = 4
    tiflash_replica: dict[str, object] | None = None
    is_columnar: bool = False
    temp_table_type: int = 0
    cache_table_status: int = 0
    policy_ref_info: PolicyRef | None = None
    placement_settings: dict[str, object] | None = None
    exuvia_db: int = 0
    exuvia_ids_epoch: int = 0  # blocks of ids reserved in another epoch are void
    exuvia_ids_forced: bool = False  # `auto_inc_id` applies even if greater ids are in use
    exuvia_layouts: tuple[Layout, ...] = ()
    exuvia_exchange: ExchangeInfo | None = None
    exuvia_physical: int = 0
    """The id of its rows, if different from its own.

    For a table with partitions, the id of its rows before. By then its own id may belong to another
    table's partition (EXCHANGE)."""
    exuvia_import_id: int = 0  # the id of an import's rows: no other writer of the table
    exuvia_referred: tuple[Referred, ...] = ()
    exuvia_change_log: SchemaState = SchemaState.ABSENT
    """WRITE_ONLY: writers with this definition write the log; PUBLIC: all writers do
    (kv/change_log.py)."""
    exuvia_change_log_id: int = 0  # number of the current one of its logs
    exuvia_attributes: str = ""  # in the form of ATTRIBUTES: a=b,c
    exuvia_affinity: str = ""  # "table", "partition", or none
    exuvia_ttl: TtlInfo | None = None
    exuvia_rekey: Rekey | None = None
    exuvia_fulltext: tuple[str, ...] = ()  # names of requested indexes that were not created (1214)

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

    def without_keys(self, links: frozenset[int]) -> "TableInfo":
        """The table without these keys' references to it."""
        if not any(reference.link in links for reference in self.exuvia_referred):
            return self
        remaining = tuple(
            reference for reference in self.exuvia_referred if reference.link not in links
        )
        return evolve(self, exuvia_referred=remaining)

    def column(self, text: str) -> ColumnInfo | None:
        """The column of that name in any state, or None."""
        lowered = text.lower()
        return next((c for c in self.cols if c.name.L == lowered), None)

    def column_by_id(self, column_id: int) -> ColumnInfo | None:
        """The column with that id, or None."""
        return next((c for c in self.cols if c.id == column_id), None)

    def index(self, text: str) -> IndexInfo | None:
        """The index of that name in any state, or None."""
        lowered = text.lower()
        return next((i for i in self.indexes if i.idx_name.L == lowered), None)

    def index_by_id(self, index_id: int) -> IndexInfo | None:
        """The index with that id, or None."""
        return next((i for i in self.indexes if i.id == index_id), None)

    @property
    def physical_ids(self) -> tuple[int, ...]:
        """Ids of its physical tables: those of its partitions, or its own."""
        own = (self.statistics_id,)
        return own if self.partition is None else self.partition.physical_ids

    @property
    def statistics_id(self) -> int:
        """The unique id of the statistics of the whole table; no partition has the same."""
        return self.exuvia_physical or self.id

    @property
    def home(self) -> int:
        """The id of its global indexes' entries."""
        return (self.partition.exuvia_home if self.partition is not None else 0) or self.id

    @property
    def global_indexes(self) -> tuple[IndexInfo, ...]:
        """Its global indexes, in any state."""
        return tuple(index for index in self.indexes if index.is_global)

    @property
    def key_columns(self) -> tuple[int, ...]:
        """Ids of the columns of its primary key."""
        if self.pk_is_handle:
            ids = (c.id for c in self.cols if c.type.Flag & Flag.PRI_KEY)
            return tuple(islice(ids, 1))
        primary = self.index("PRIMARY")
        return () if primary is None else tuple(part.exuvia_column for part in primary.idx_cols)

    @property
    def rekeyed(self) -> "TableInfo":
        """The other set of rows as a table, while the primary key changes; that table's other set
        is this one.

        Key flags are those of the primary key only."""
        other, cut = self.exuvia_rekey, self.partition
        assert other is not None
        mirror = evolve(
            other,
            physical=0 if cut is not None else self.physical_ids[0],
            partitions=tuple(element.id for element in cut.definitions) if cut is not None else (),
            pk_is_handle=self.pk_is_handle,
            is_common_handle=self.is_common_handle,
            common_handle_version=self.common_handle_version,
            key_columns=self.key_columns,
            index_info=self.index_info,
        )
        return evolve(
            self,
            cols=tuple(_with_key_flag(element, other.key_columns) for element in self.cols),
            pk_is_handle=other.pk_is_handle,
            is_common_handle=other.is_common_handle,
            common_handle_version=other.common_handle_version,
            index_info=other.index_info,
            exuvia_physical=other.physical if cut is None else self.exuvia_physical,
            partition=cut.with_ids(other.partitions) if cut is not None else None,
            exuvia_rekey=mirror,
        )

    def rekeyed_id(self, physical_id: int) -> int:
        """The id in the other set for rows under this id."""
        other, cut = self.exuvia_rekey, self.partition
        assert other is not None
        if cut is None:
            return other.physical
        ids = [partition.id for partition in cut.definitions]
        return other.partitions[ids.index(physical_id)]

    @property
    def is_stored(self) -> bool:
        """Whether it has rows: neither a view nor a sequence."""
        return self.view is None and self.sequence is None

    @property
    def is_in_store(self) -> bool:
        """Whether the store may have rows of it."""
        return self.is_stored and not self.is_temporary

    @property
    def is_temporary(self) -> bool:
        """Whether its rows are never in the store (sql/statement/temporary.py)."""
        return self.temp_table_type != 0

    @property
    def is_local_temporary(self) -> bool:
        """Whether it belongs to one session and to no catalog."""
        return self.temp_table_type == LOCAL_TEMPORARY

    @property
    def is_global_temporary(self) -> bool:
        """Whether it is shared by all sessions, with separate rows for each transaction."""
        return self.temp_table_type == GLOBAL_TEMPORARY

    @property
    def public_columns(self) -> tuple[ColumnInfo, ...]:
        """The columns that clients see, in order."""
        return tuple(c for c in self.cols if c.state == SchemaState.PUBLIC and not c.hidden)


def _with_key_flag(column: ColumnInfo, key: tuple[int, ...]) -> ColumnInfo:
    others = column.type.Flag & ~Flag.PRI_KEY
    flags = int(others | Flag.PRI_KEY) if column.id in key else int(others)
    return evolve(column, type=evolve(column.type, Flag=flags))


class DatabaseInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A database."""

    id: int
    db_name: Name
    charset: str = "utf8mb4"
    collate: str = "utf8mb4_bin"
    state: SchemaState = SchemaState.PUBLIC
    policy_ref_info: PolicyRef | None = None


class SchemaDiff(msgspec.Struct, frozen=True, kw_only=True):
    """The changes of one schema version. `type` is the job's action code."""

    version: int
    type: int
    schema_id: int
    table_id: int = 0
    old_table_id: int = 0
    affected: tuple[int, ...] = ()


def to_json(value: msgspec.Struct) -> bytes:
    """The stored JSON."""
    return msgspec.json.encode(value)


__all__ = [
    "ColumnInfo",
    "ConstraintInfo",
    "DatabaseInfo",
    "Definer",
    "FkInfo",
    "IndexColumn",
    "IndexInfo",
    "KeyAlgorithm",
    "Layout",
    "LayoutColumn",
    "Name",
    "PartitionDefinition",
    "PartitionInfo",
    "PartitionType",
    "PolicyRef",
    "Referred",
    "Rekey",
    "SchemaDiff",
    "TableInfo",
    "TtlInfo",
    "ViewInfo",
    "evolve",
    "name",
    "to_json",
]
