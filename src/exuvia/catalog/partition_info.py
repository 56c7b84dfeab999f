"""How a table is cut into partitions, at rest; JSON names of TiDB.

    TableInfo.partition = PartitionInfo
        definitions            what is read; each is a physical table: t{definition id}r..
        adding_definitions     of a running change: the new ones       (catalog/partition_state.py
        dropping_definitions   of a running change: the old ones        says who reads and writes)

A value in `less_than` and `in_values` is SQL text: `10`, `'abc'`, `NULL`, `MAXVALUE`, `DEFAULT`.
The logical table has no rows of its own; its revision fences all of its partitions (law 1).
"""

from collections.abc import Sequence
from enum import IntEnum

import msgspec
from msgspec.structs import replace as evolve

from exuvia.catalog.constraint_info import ConstraintInfo
from exuvia.catalog.names import Name
from exuvia.catalog.state import SchemaState

MAXVALUE = "MAXVALUE"
DEFAULT = "DEFAULT"
DROPPING = 20  # the action code of DROP PARTITION
MOVING = frozenset({64, 71, 72})  # of REORGANIZE, PARTITION BY, REMOVE PARTITIONING


class PartitionType(IntEnum):
    """The numbers of TiDB's JSON."""

    NONE = 0
    RANGE = 1
    HASH = 2
    LIST = 3
    KEY = 4


class PartitionDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """A partition. `in_values`: a row of values each; [["DEFAULT"]] takes what no other takes."""

    id: int = 0
    name: Name
    less_than: tuple[str, ...] = ()
    in_values: tuple[tuple[str, ...], ...] = ()
    comment: str = ""


class ExchangeInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Of two tables, a partition of one of which changes places with the other: rows that come to
    either must fit where they go (1737).

    `exuvia_partition`, of the plain one: how the other is cut; `exuvia_checks`: the other side's
    CHECKs; `exuvia_steps` counts, so that the revision moves."""

    exchange_partition_table_id: int
    exchange_partition_def_id: int
    exuvia_validate: bool = True
    exuvia_partition: "PartitionInfo | None" = None
    exuvia_checks: tuple[ConstraintInfo, ...] = ()
    exuvia_steps: int = 0


class PartitionInfo(msgspec.Struct, frozen=True, kw_only=True):
    """See the module. `expr` is the function of RANGE, LIST and HASH, `columns` those of KEY and
    of RANGE and LIST COLUMNS. `ddl_type`, `ddl_expr`, `ddl_columns`: how the adding ones are cut
    where that differs; `new_table_id`: the id the logical table takes when it is over."""

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

    def definition(self, text: str) -> PartitionDefinition | None:
        """The partition of that name, or None."""
        wanted = text.lower()
        return next((each for each in self.definitions if each.name.L == wanted), None)

    def with_ids(self, ids: Sequence[int]) -> "PartitionInfo":
        """The definitions under these ids, in order."""
        pairs = zip(self.definitions, ids, strict=True)
        return evolve(self, definitions=tuple(evolve(each, id=number) for each, number in pairs))

    @property
    def moving(self) -> frozenset[int]:
        """Ids of the set that is read and whose rows are written to the other set too."""
        if self.ddl_action not in MOVING or self.ddl_state == SchemaState.ABSENT:
            return frozenset()
        switched = self.ddl_state == SchemaState.DELETE_REORG
        read = self.adding_definitions if switched else self.dropping_definitions
        return frozenset(each.id for each in read)

    @property
    def others(self) -> tuple[PartitionDefinition, ...]:
        """The other set of a running move, cut by `ddl_type`, `ddl_expr` and `ddl_columns`."""
        switched = self.ddl_state == SchemaState.DELETE_REORG
        return self.dropping_definitions if switched else self.adding_definitions

    @property
    def unused(self) -> frozenset[int]:
        """Ids of partitions being dropped: listed yet, and neither read nor written."""
        hidden = self.ddl_action == DROPPING and self.ddl_state == SchemaState.WRITE_ONLY
        return frozenset(each.id for each in self.dropping_definitions) if hidden else frozenset()

    @property
    def physical_ids(self) -> tuple[int, ...]:
        """Every id that may have keys: also those of a running change."""
        every = (*self.definitions, *self.adding_definitions, *self.dropping_definitions)
        return tuple(dict.fromkeys(each.id for each in every))
