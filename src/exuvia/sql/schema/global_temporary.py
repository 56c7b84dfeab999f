"""What a global temporary table may not have or be asked, in one place.

    8006   shard_row_id_bits, pre split regions, auto_random, PLACEMENT; in ALTER TABLE also CACHE
           and SET TIFLASH REPLICA. CREATE TABLE ... LIKE one, ADMIN CHECK and CHECKSUM, SPLIT,
           ANALYZE and IMPORT INTO say it where they are
    1562   partitions          1215   foreign keys, of it and to it
    8200   ON COMMIT PRESERVE ROWS; while a node serves that would keep its rows

Its definition is changed as any table's; a schema change finds the store without a row of it, and
opens no reorg. What it is: sql/statement/temporary.py.
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
    """Before its columns are looked at. Raises 8200, 1235, 1215."""
    if node.preserves_rows:
        said = "TiDB doesn't support ON COMMIT PRESERVE ROWS for now"
        raise ErrUnsupportedDDLOperation.with_text(said)
    if node.query is not None:
        raise ErrNotSupportedYet("CREATE GLOBAL TEMPORARY TABLE ... SELECT")
    check_definition(node)
    placement.check_members(txn, "GLOBAL TEMPORARY tables")


def check_definition(node: CreateTable) -> None:
    """Of any temporary table. Raises 1215."""
    if node.foreign_keys or any(column.references for column in node.columns):
        raise cannot_be_added("a temporary table has no foreign keys")


def check_table(info: TableInfo, node: CreateTable) -> None:
    """A new temporary table, of a session or of all. Raises 1562, 8006, 8266."""
    if info.partition is not None:
        raise ErrPartitionNoTemporary()
    for what, there in (
        ("auto_random", info.auto_random_bits),
        ("pre split regions", info.pre_split_regions),
        ("shard_row_id_bits", info.ShardRowIDBits),
        ("PLACEMENT", node.options.get("placement")),
    ):
        if there:
            raise ErrOptOnTemporaryTable(what)
    placement.affinity(
        evolve(info, temp_table_type=GLOBAL_TEMPORARY), node.options.get("affinity", "")
    )


def check_specs(table: TableInfo, specs: Sequence[Spec]) -> None:
    """ALTER TABLE of a table that may be one. Raises 1215, 1562, 8006."""
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
