"""Tables whose rows or entries are exchanged, with the reorgs of their jobs.

fill      a plain and a unique index are to be filled
rewrite   the column k of both becomes a text
move      two partitions by HASH (id) become three by RANGE (k)
rekey     the primary key becomes (n), in another order of the rows
to ids    the primary key is dropped
"""

from exuvia.base.types import FieldType, TypeCode
from exuvia.catalog.convert.type_change import ChangeKind
from exuvia.catalog.model import (
    IndexInfo,
    PartitionDefinition,
    PartitionInfo,
    PartitionType,
    SchemaState,
    TableInfo,
    evolve,
    name,
)
from exuvia.catalog.table import Table
from exuvia.ddl.actions import modify_column
from exuvia.ddl.actions.modify_column import Modification
from exuvia.ddl.actions.rekey import with_hidden_id_rows, with_keyed_rows
from exuvia.kv.store import Store
from exuvia.pipeline import bulk
from exuvia.pipeline.kernels.move import indexes_of
from exuvia.pipeline.reorg import Reorg, change_column, fill_indexes, move_rows, rekey_rows
from exuvia.sql.access.partitions import MOVER
from support.tables import begin_reorg, publish, table_info, with_states

KINDS = ("fill", "rewrite", "move", "rekey", "to ids")
ROWS = 4_000
LINES = ("id int not null", "k int", "u varchar(20)", "n int not null")
TEXT = FieldType(Tp=TypeCode.VARCHAR, Flen=9, Decimal=0, Charset="utf8mb4", Collate="utf8mb4_bin")
WRITE_REORG = SchemaState.WRITE_REORG
Rows = list[list[object]]


def rows_of(count: int = ROWS) -> Rows:
    """Rows with NULLs, repeated numbers and texts of several widths. Their last columns are in
    another order."""
    return [
        [
            n,
            n * 7919 % 1000 if n % 11 else None,
            f"u{n * 31 % count}" if n % 5 else None,
            n * 1_277 % count,
        ]
        for n in range(count)
    ]


def make(store: Store, table_id: int, rows: Rows, kind: str = "fill") -> Table:
    """A loaded table with the state in which the job of its id runs the reorg."""
    unique = {"fill": "u", "rewrite": "u,k", "move": "u,id,k"}.get(kind, "u")
    info = table_info(
        *LINES, table_id=table_id, primary="id", plain={"ik": "k"}, unique={"iu": unique}
    )
    begin_reorg(store, 1, table_id)
    if kind == "move":
        return _with_new_partitions(store, info, rows)
    before, after = {
        "fill": _with_absent_indexes,
        "rewrite": _with_changing_column,
        "rekey": _with_another_key,
        "to ids": _with_hidden_ids,
    }[kind](info)
    bulk.load(store, publish(store, before, 1), [rows])
    return publish(store, after, 2)


def _with_absent_indexes(info: TableInfo) -> tuple[TableInfo, TableInfo]:
    names = ("ik", "iu")
    absent = with_states(info, **dict.fromkeys(names, SchemaState.ABSENT))
    return absent, with_states(info, **dict.fromkeys(names, WRITE_REORG))


def _with_changing_column(info: TableInfo) -> tuple[TableInfo, TableInfo]:
    old = info.column("k")
    assert old is not None
    change = Modification(
        column=evolve(old, type=TEXT), old_column_name="k", old_type=old.type, kind=ChangeKind.ROWS
    )
    placed, change = modify_column.with_hidden_elements(info, change)
    return info, modify_column.hidden_in_state(placed, change, WRITE_REORG)


def _with_another_key(info: TableInfo) -> tuple[TableInfo, TableInfo]:
    [key] = (i for i in table_info(*LINES, primary="", unique={"pk": "n"}).indexes)
    placed = with_keyed_rows(info, key, (_physical(info, 1),))
    assert placed.exuvia_rekey is not None
    guard = placed.exuvia_rekey.guard
    guarded = tuple(
        evolve(i, state=SchemaState.PUBLIC) if i.id == guard else i for i in placed.indexes
    )
    public = evolve(placed, index_info=guarded)
    moving = evolve(placed.exuvia_rekey, state=WRITE_REORG)
    return evolve(public, exuvia_rekey=None), evolve(public, exuvia_rekey=moving)


def _with_hidden_ids(info: TableInfo) -> tuple[TableInfo, TableInfo]:
    placed = with_hidden_id_rows(info, (_physical(info, 1),))
    assert placed.exuvia_rekey is not None
    return info, evolve(placed, exuvia_rekey=evolve(placed.exuvia_rekey, state=WRITE_REORG))


def _with_new_partitions(store: Store, info: TableInfo, rows: Rows) -> Table:
    def definitions(first: int, *bounds: str) -> tuple[PartitionDefinition, ...]:
        ids = (_physical(info, first + n) for n in range(len(bounds)))
        return tuple(
            PartitionDefinition(id=n, name=name(f"p{n}"), less_than=(bound,) if bound else ())
            for n, bound in zip(ids, bounds, strict=True)
        )

    old, new = definitions(1, "", ""), definitions(3, "300", "600", "MAXVALUE")
    cut = PartitionInfo(type=PartitionType.HASH, expr="`id`", definitions=old, num=len(old))
    table = publish(store, evolve(info, partition=cut), 1)
    for n, definition in enumerate(old):
        bulk.load(store, table.part(definition.id), [[row for row in rows if row[0] % 2 == n]])  # type: ignore[operator]
    moving = evolve(
        cut,
        adding_definitions=new,
        dropping_definitions=old,
        ddl_type=PartitionType.RANGE,
        ddl_expr="`k`",
        ddl_state=WRITE_REORG,
        ddl_action=71,
    )
    return publish(store, evolve(info, partition=moving), 2)


def _physical(info: TableInfo, n: int) -> int:
    return 100_000 + 10 * info.id + n


def work_of(table: Table) -> Reorg:
    """The reorg of the table's job."""
    partitions, rekey = table.info.partition, table.info.exuvia_rekey
    if partitions is not None:
        old, new = partitions.dropping_definitions, partitions.adding_definitions
        return move_rows(MOVER, tuple(d.id for d in old or ()), tuple(d.id for d in new or ()))
    if rekey is not None:
        to_ids = not rekey.key_columns
        index_ids = tuple(index.id for index in indexes_of(table.rekeyed))
        return rekey_rows(rekey.guard, index_ids, to_ids=to_ids)
    index_ids = tuple(index.id for index in _filled(table))
    for change in table.changes:
        ids = [table.info.cols[at].id for at in (change.source, change.position)]
        return change_column(ids[0], ids[1], index_ids)
    return fill_indexes(index_ids)


def targets_of(table: Table) -> list[tuple[Table, list[IndexInfo]]]:
    """The physical tables that the job fills, with the indexes that it fills there."""
    partitions = table.info.partition
    if partitions is not None:
        parts = [table.part(d.id) for d in partitions.adding_definitions or ()]
        return [(part, indexes_of(part)) for part in parts]
    if table.info.exuvia_rekey is not None:
        return [(table.rekeyed, indexes_of(table.rekeyed))]
    return [(table, _filled(table))]


def _filled(table: Table) -> list[IndexInfo]:
    return [index for index in table.info.indexes if index.state == WRITE_REORG]
