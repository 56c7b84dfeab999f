"""Refusals for global temporary tables.

    8006   shard_row_id_bits, pre split regions, auto_random, PLACEMENT; in ALTER TABLE also CACHE
           and SET TIFLASH REPLICA. CREATE TABLE ... LIKE one, ADMIN CHECK and CHECKSUM, SPLIT,
           ANALYZE and IMPORT INTO raise it in their own files
    1562   partitions          1215   foreign keys, of it and to it
    8200   ON COMMIT PRESERVE ROWS; while a node serves that would store its rows

Its definition is changed as any table's. A schema change finds no stored rows, so it starts no
reorg. sql/statement/temporary.py describes such tables.
"""

from collections.abc import Sequence

from exuvia.base.mysql_errors import (
    ErrNotSupportedYet,
    ErrOptOnTemporaryTable,
    ErrPartitionNoTemporary,
    ErrUnsupportedDDLOperation,
)
from exuvia.catalog.model import GLOBAL_TEMPORARY, TableInfo, evolve
from exuvia.ddl.actions.foreign_key import cannot_be_added
from exuvia.kv.transaction import Transaction
from exuvia.sql.nodes import (
    AddForeignKey,
    CreateTable,
    ModifyColumn,
    PartitionChange,
    SetTiFlashReplica,
    Spec,
    TableOptions,
)
from exuvia.sql.schema import placement

_OPTIONS = {
    "shard_row_id_bits": "shard_row_id_bits",
    "placement": "PLACEMENT",
    "cache": "alter temporary table cache",
}


def check_statement(txn: Transaction, node: CreateTable) -> None:
    """The first check, before the columns. Raises 8200, 1235, 1215."""
    if node.preserves_rows:
        text = "TiDB doesn't support ON COMMIT PRESERVE ROWS for now"
        raise ErrUnsupportedDDLOperation.with_text(text)
    if node.query is not None:
        raise ErrNotSupportedYet("CREATE GLOBAL TEMPORARY TABLE ... SELECT")
    check_definition(node)
    placement.check_members(txn, "GLOBAL TEMPORARY tables")


def check_definition(node: CreateTable) -> None:
    """Check the definition of any temporary table. Raises 1215."""
    if node.foreign_keys or any(column.references for column in node.columns):
        raise cannot_be_added("a temporary table has no foreign keys")


def check_table(info: TableInfo, node: CreateTable) -> None:
    """Check a new temporary table, local or global. Raises 1562, 8006, 8266."""
    if info.partition is not None:
        raise ErrPartitionNoTemporary()
    for option, there in (
        ("auto_random", info.auto_random_bits),
        ("pre split regions", info.pre_split_regions),
        ("shard_row_id_bits", info.ShardRowIDBits),
        ("PLACEMENT", node.options.get("placement")),
    ):
        if there:
            raise ErrOptOnTemporaryTable(option)
    placement.affinity(
        evolve(info, temp_table_type=GLOBAL_TEMPORARY), node.options.get("affinity", "")
    )


def check_specs(table: TableInfo, specs: Sequence[Spec]) -> None:
    """Check an ALTER TABLE if the table is global temporary. Raises 1215, 1562, 8006."""
    if not table.is_global_temporary:
        return
    for spec in specs:
        if isinstance(spec, AddForeignKey):
            raise cannot_be_added("a temporary table has no foreign keys")
        if isinstance(spec, PartitionChange) and spec.kind == "by":
            raise ErrPartitionNoTemporary()
        if isinstance(spec, SetTiFlashReplica):
            raise ErrOptOnTemporaryTable("set TiFlash replica")
        if isinstance(spec, ModifyColumn) and spec.column.auto_random is not None:
            raise ErrOptOnTemporaryTable("auto_random")
        if isinstance(spec, TableOptions):
            for option in _OPTIONS.keys() & spec.options.keys():
                raise ErrOptOnTemporaryTable(_OPTIONS[option])
