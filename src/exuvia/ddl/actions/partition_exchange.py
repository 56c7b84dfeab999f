"""EXCHANGE PARTITION p WITH TABLE t: two ids are swapped, and no row moves.

    absent -> write only                 either side refuses rows that do not fit the other (1737):
                                         its bounds, and the CHECKs of the other side
    write only -> write reorganization   (barrier) all writers do so
        =validate: every row of both sides fits=>
    write reorganization -> delete reorganization   (barrier) older writers are waited for
    delete reorganization -> public      the ids of the two physical tables are swapped

Both tables keep their own ids. The partition's definition gets the id of the table's rows, and the
table has the partition's former id (`exuvia_physical`). The last step fences the writers of both
(law 1). It copies the id counters to the other side, because rows have ids of the other table. Two
revisions, two schema versions; everything can be undone until the last step.
"""

from collections.abc import Iterable

import msgspec

from exuvia.base.errors import Broken, Refused
from exuvia.base.mysql_errors import (
    ErrNoSuchTable,
    ErrPartitionExchangeDifferentOption,
    ErrPartitionExchangePartTable,
    ErrTablesDifferentMetadata,
    ErrUnknownPartition,
)
from exuvia.base.types import INTEGER_BITS, FieldType, Flag
from exuvia.catalog.convert.values import origin_default_of
from exuvia.catalog.meta import closing, opened
from exuvia.catalog.model import (
    ColumnInfo,
    ConstraintInfo,
    DatabaseInfo,
    ExchangeInfo,
    IndexInfo,
    Layout,
    PartitionDefinition,
    SchemaState,
    TableInfo,
    evolve,
)
from exuvia.ddl.action import Action, Step, always, fences, load, moves_counters
from exuvia.ddl.actions.partition import PARTITION, partition_of, table_is_not_partitioned
from exuvia.ddl.actions.shared import table_is_missing
from exuvia.ddl.decision import StepWait
from exuvia.ddl.effects import JobEvent
from exuvia.ddl.elements import the_table
from exuvia.ddl.job import ActionCode, Job, arguments, job_for
from exuvia.ddl.snapshot import CatalogSnapshot, ReadSet
from exuvia.pipeline import reorg

ABSENT, PUBLIC = SchemaState.ABSENT, SchemaState.PUBLIC
WRITE_ONLY, WRITE_REORG = SchemaState.WRITE_ONLY, SchemaState.WRITE_REORG
DELETE_REORG = SchemaState.DELETE_REORG
_OF_NO_ROW = (
    Flag.PRI_KEY | Flag.UNIQUE_KEY | Flag.MULTIPLE_KEY | Flag.NO_DEFAULT_VALUE | Flag.ON_UPDATE_NOW
)


class Exchanging(msgspec.Struct, frozen=True):
    """The job's argument. `checks`: rows must satisfy CHECKs, too."""

    partition: str
    table_id: int
    validate: bool
    router: str
    checks: bool = True


def exchange_partition(
    database: DatabaseInfo,
    table: TableInfo,
    args: Exchanging,
    schema_id: int,
    *,
    query: str = "",
) -> Job:
    """EXCHANGE PARTITION; `schema_id`: the database of the other table."""
    job = job_for(ActionCode.EXCHANGE_PARTITION, database, table, (args,), query)
    schemas = (schema_id,) if schema_id != database.id else ()
    return evolve(job, exuvia_tables=(args.table_id,), exuvia_schemas=schemas)


def exchange_of(job: Job) -> Exchanging:
    """The job's argument."""
    return arguments(job, tuple[Exchanging])[0]


def reads_other_table(job: Job) -> ReadSet:
    """Reads the table that is exchanged with the partition."""
    return ReadSet(tables=(exchange_of(job).table_id,))


def plain_of(job: Job, snapshot: CatalogSnapshot) -> TableInfo:
    """The table that is exchanged with the partition. Raises Broken."""
    plain = snapshot.other(exchange_of(job).table_id)
    if plain is None:
        raise Broken("a table that is exchanged is gone")
    return plain


def _definition(job: Job, snapshot: CatalogSnapshot) -> PartitionDefinition:
    definition = partition_of(snapshot).definition(exchange_of(job).partition)
    if definition is None:
        raise Broken("a partition that is exchanged is gone")
    return definition


# -- refusals --------------------------------------------------------------------------------------


def tables_differ(one: TableInfo, other: TableInfo) -> bool:
    """Whether rows or entries of one table could not belong to the other."""
    same_definition = (
        _whole(one) == _whole(other)
        and [_column(column) for column in one.cols] == [_column(column) for column in other.cols]
        and {_index(index) for index in one.indexes} == {_index(index) for index in other.indexes}
    )
    layouts = joint_layouts(one, other)
    return not same_definition or layouts is None or not _filled_alike(one, other, layouts)


def misfit(one: TableInfo, other: TableInfo) -> Refused | None:
    """The error that refuses the exchange, or None.

    1736 if the definitions differ. 1731 names the first column or index with equal definitions and
    different ids: the tables have had different schema changes.
    """
    if not tables_differ(one, other):
        return None
    if _whole(one) == _whole(other) and len(one.cols) == len(other.cols):
        pairs: list[tuple[str, Identified, Identified | None]] = [
            (f"column: {own.name.O}", _column(own), _column(its))
            for own, its in zip(one.cols, other.cols, strict=True)
        ]
        named = {index.idx_name.L: _index(index) for index in other.indexes}
        pairs += [
            (f"index: {index.idx_name.O}", _index(index), named.get(index.idx_name.L))
            for index in one.indexes
        ]
        for element_name, own, its in pairs:
            if its is None or own[1:] != its[1:]:
                break
            if own != its:
                return ErrPartitionExchangeDifferentOption(element_name)
    return ErrTablesDifferentMetadata()


def _filled_alike(one: TableInfo, other: TableInfo, layouts: Iterable[Layout]) -> bool:
    """Whether rows older than a column have the same value in it, in both tables."""
    stored = [{column.column for column in layout.columns} for layout in layouts]
    return all(
        origin_default_of(own) == origin_default_of(its)
        for own, its in zip(one.cols, other.cols, strict=True)
        if any(own.id not in columns for columns in stored)
    )


def virtual_columns_differ(one: TableInfo, other: TableInfo) -> bool:
    """Whether a column is virtual in one of them only."""
    virtual = [[column.is_virtual for column in table.public_columns] for table in (one, other)]
    return len(virtual[0]) == len(virtual[1]) and virtual[0] != virtual[1]


def policies_differ(table: TableInfo, partition: str, plain: TableInfo) -> bool:
    """Whether the exchange would change the placement policy of rows."""
    definition = table.partition.definition(partition) if table.partition is not None else None
    own = definition.policy_ref_info if definition is not None else None
    own, other = own or table.policy_ref_info, plain.policy_ref_info
    return (own and own.id) != (other and other.id)


def _whole(table: TableInfo) -> tuple[object, ...]:
    """The options of a table that must be equal in both."""
    handles = table.pk_is_handle, table.is_common_handle, table.common_handle_version
    bits = table.auto_random_bits, table.auto_random_range_bits
    return (*handles, *bits, table.charset, table.collate)


def _bare(kind: FieldType) -> FieldType:
    """The type without the flags of keys and defaults, and without an integer's display width."""
    width = -1 if kind.Tp in INTEGER_BITS else kind.Flen
    return evolve(kind, Flag=kind.Flag & ~_OF_NO_ROW, Flen=width)


Identified = tuple[object, ...]
"""An id, and the properties that must be equal."""


def _column(column: ColumnInfo) -> Identified:
    kind = _bare(column.type)
    return (
        column.id,
        column.name.L,
        kind,
        column.state,
        column.hidden,
        column.generated_expr_string,
    )


def _index(index: IndexInfo) -> Identified:
    parts = tuple((part.exuvia_column, part.length) for part in index.idx_cols)
    kind = index.is_unique, index.is_primary, index.exuvia_clustered, index.state
    return (index.id, index.idx_name.L, parts, kind, index.exuvia_predicate)


def joint_layouts(one: TableInfo, other: TableInfo) -> tuple[Layout, ...] | None:
    """The layouts of both; None if a number has different layouts, apart from key flags."""
    layouts = {layout.id: layout for layout in one.exuvia_layouts}
    for layout in other.exuvia_layouts:
        if _without_keys(layouts.setdefault(layout.id, layout)) != _without_keys(layout):
            return None
    return tuple(layouts[number] for number in sorted(layouts))


def _without_keys(layout: Layout) -> Layout:
    plain = tuple(evolve(column, type=_bare(column.type)) for column in layout.columns)
    return evolve(layout, columns=plain)


def exchange_is_impossible(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    table, args = the_table(snapshot), exchange_of(job)
    if partition_of(snapshot).definition(args.partition) is None:
        return ErrUnknownPartition(args.partition, table.name.O)
    plain = snapshot.other(args.table_id)
    if plain is None or plain.state != PUBLIC:
        return ErrNoSuchTable(job.schema_name, "the table to exchange")
    if plain.partition is not None:
        return ErrPartitionExchangePartTable(plain.name.O)
    for index in table.global_indexes:
        return ErrPartitionExchangeDifferentOption(f"global index: {index.idx_name.O}")
    if policies_differ(table, args.partition, plain):
        return ErrTablesDifferentMetadata()
    return misfit(table, plain)


# -- steps -----------------------------------------------------------------------------------------


def _replaced(snapshot: CatalogSnapshot, table: TableInfo, plain: TableInfo) -> CatalogSnapshot:
    others = tuple(plain if other.id == plain.id else other for other in snapshot.others)
    return evolve(snapshot, table=table, others=others)


def refuse_misfits(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """Rows of either side must fit the other one; both tables can read the rows of either."""
    table, plain = the_table(snapshot), plain_of(job, snapshot)
    layouts = joint_layouts(table, plain) or ()
    theirs = ExchangeInfo(
        exchange_partition_table_id=plain.id,
        exchange_partition_def_id=_definition(job, snapshot).id,
        exuvia_validate=exchange_of(job).validate,
        exuvia_checks=_obeyed(job, plain),
    )
    own = evolve(
        theirs,
        exchange_partition_table_id=table.id,
        exuvia_partition=table.partition,
        exuvia_checks=_obeyed(job, table),
    )
    plain = evolve(plain, exuvia_exchange=own, exuvia_layouts=layouts)
    return job, _replaced(
        snapshot, evolve(table, exuvia_exchange=theirs, exuvia_layouts=layouts), plain
    )


def _obeyed(job: Job, table: TableInfo) -> tuple[ConstraintInfo, ...]:
    """The CHECKs that rows must obey to move into that table."""
    if not (exchange_of(job).validate and exchange_of(job).checks):
        return ()
    return tuple(check for check in table.checks if check.binds)


def touch(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """The other table's revision moves with that of the partitioned one."""
    table, plain = the_table(snapshot), plain_of(job, snapshot)
    rule = plain.exuvia_exchange
    if rule is None:
        raise Broken("a table that is exchanged has lost its rule")
    rule = evolve(rule, exuvia_steps=rule.exuvia_steps + 1)
    return job, _replaced(snapshot, table, evolve(plain, exuvia_exchange=rule))


def close_both(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """Like `touch`; and no new transaction can write either table."""
    job, snapshot = touch(job, snapshot)
    return job, _replaced(snapshot, closing(the_table(snapshot)), closing(plain_of(job, snapshot)))


def every_row_fits(job: Job, snapshot: CatalogSnapshot) -> Refused | StepWait | None:
    """1737, unless WITHOUT VALIDATION."""
    if snapshot.reorg.filled or not exchange_of(job).validate:
        return None
    table, plain = the_table(snapshot), plain_of(job, snapshot)
    sides = plain.physical_ids[0], _definition(job, snapshot).id
    checks = bool(_obeyed(job, table) or _obeyed(job, plain))
    return StepWait("", reorg.exchange_rows(exchange_of(job).router, *sides, checks=checks))


def exchange(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """Swap the two ids, and the ATTRIBUTES, which belong to the rows as in TiDB.

    New row ids are greater than those of both.
    """
    table, plain, former = the_table(snapshot), plain_of(job, snapshot), _definition(job, snapshot)
    attributes = plain.exuvia_attributes
    came = evolve(former, id=plain.physical_ids[0], exuvia_attributes=attributes)
    partition = partition_of(snapshot)
    definitions = tuple(
        came if definition == former else definition for definition in partition.definitions
    )
    table = evolve(
        table,
        partition=evolve(partition, definitions=definitions),
        exuvia_exchange=None,
        exuvia_ids_epoch=table.exuvia_ids_epoch + 1,
    )
    plain = evolve(
        plain,
        exuvia_exchange=None,
        exuvia_physical=0 if former.id == plain.id else former.id,
        exuvia_attributes=former.exuvia_attributes,
        exuvia_ids_epoch=plain.exuvia_ids_epoch + 1,
    )
    return job, _replaced(snapshot, opened(table), opened(plain))


def _both_ways(job: Job, before: CatalogSnapshot) -> tuple[tuple[int, int], ...]:
    """New row ids of each table follow those of the other one."""
    one, other = job.table_id, exchange_of(job).table_id
    return (one, other), (other, one)


def forget_rule(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """The tables without the exchange, after a rollback."""
    table, plain = (
        evolve(opened(table), exuvia_exchange=None)
        for table in (the_table(snapshot), plain_of(job, snapshot))
    )
    return job, _replaced(snapshot, table, plain)


def both_tables(job: Job, snapshot: CatalogSnapshot) -> tuple[int, ...]:
    """Ids of the tables whose writers must plan again."""
    return (job.table_id, exchange_of(job).table_id)


def partition_exchanged(job: Job, before: CatalogSnapshot, after: CatalogSnapshot) -> JobEvent:
    """The event once they are exchanged."""
    came = _definition(job, after)
    table, plain = after.table, plain_of(job, after)
    return JobEvent(type="exchange partition", table=table, added=(came,), dropped=plain)


KEEP_PLACES = Action(
    ActionCode.EXCHANGE_PARTITION,
    PARTITION,
    path=(
        Step(DELETE_REORG, WRITE_ONLY, edit=touch, barrier=True),
        Step(WRITE_ONLY, ABSENT, edit=forget_rule),
    ),
    reads=reads_other_table,
)
EXCHANGE_PARTITION = load(
    Action(
        ActionCode.EXCHANGE_PARTITION,
        PARTITION,
        refuses=(table_is_missing, table_is_not_partitioned, exchange_is_impossible),
        path=(
            Step(ABSENT, WRITE_ONLY, edit=refuse_misfits),
            Step(WRITE_ONLY, WRITE_REORG, edit=touch, barrier=True),
            Step(WRITE_REORG, DELETE_REORG, edit=close_both, after=every_row_fits, barrier=True),
            Step(
                DELETE_REORG,
                PUBLIC,
                edit=exchange,
                causes=(fences(both_tables), moves_counters(_both_ways)),
                event=partition_exchanged,
            ),
        ),
        undo=KEEP_PLACES,
        reads=reads_other_table,
        reorg=True,
        unlogged=always,
    )
)

ACTIONS = (EXCHANGE_PARTITION,)
