"""EXCHANGE PARTITION p WITH TABLE t: no row moves, two ids change places.

    absent -> write only                 either side refuses rows that do not fit the other (1737):
                                         its bounds, and the CHECKs of where they are to go
    write only -> write reorganization   (barrier) no writer is left who does not
        =validate: every row of both sides fits=>
    write reorganization -> delete reorganization   (barrier) older writers are waited for
    delete reorganization -> public      the ids of the two physical tables change places

Both tables keep their own ids: the partition's definition gets the id that the table's rows lie
under, and the table remembers the partition's (`exuvia_physical`). The last step takes both away
from their writers (law 1), and carries the counters of ids over: rows that came bear ids of the
other table. Two revisions, two schema versions; until the last step all can be undone.
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
from exuvia.ddl.action import Action, Step, load
from exuvia.ddl.actions.partition import PARTITION, partition_of, table_is_not_partitioned
from exuvia.ddl.actions.shared import table_is_missing
from exuvia.ddl.decision import CatalogSnapshot, JobEvent, ReadSet, StepWait
from exuvia.ddl.elements import the_table
from exuvia.ddl.job import ActionCode, Job, arguments, job_for
from exuvia.pipeline import reorg

ABSENT, PUBLIC = SchemaState.ABSENT, SchemaState.PUBLIC
WRITE_ONLY, WRITE_REORG = SchemaState.WRITE_ONLY, SchemaState.WRITE_REORG
DELETE_REORG = SchemaState.DELETE_REORG
_OF_NO_ROW = (
    Flag.PRI_KEY | Flag.UNIQUE_KEY | Flag.MULTIPLE_KEY | Flag.NO_DEFAULT_VALUE | Flag.ON_UPDATE_NOW
)


class Exchanging(msgspec.Struct, frozen=True):
    """The job's argument. `checks`: CHECKs are to be obeyed, too."""

    partition: str
    table_id: int
    validate: bool
    router: str
    checks: bool = True


def exchange_partition(
    database: DatabaseInfo,
    table: TableInfo,
    asked: Exchanging,
    schema_id: int,
    *,
    query: str = "",
) -> Job:
    """EXCHANGE PARTITION; `schema_id`: the database of the other table."""
    job = job_for(ActionCode.EXCHANGE_PARTITION, database, table, (asked,), query)
    schemas = (schema_id,) if schema_id != database.id else ()
    return evolve(job, exuvia_tables=(asked.table_id,), exuvia_schemas=schemas)


def asked(job: Job) -> Exchanging:
    """What the job asks for."""
    return arguments(job, tuple[Exchanging])[0]


def looks_at_the_table(job: Job) -> ReadSet:
    """The table that is to change places with the partition."""
    return ReadSet(tables=(asked(job).table_id,))


def plain_of(job: Job, snapshot: CatalogSnapshot) -> TableInfo:
    """That table. Raises Broken."""
    found = snapshot.other(asked(job).table_id)
    if found is None:
        raise Broken("a table that is exchanged is gone")
    return found


def _definition(job: Job, snapshot: CatalogSnapshot) -> PartitionDefinition:
    found = partition_of(snapshot).definition(asked(job).partition)
    if found is None:
        raise Broken("a partition that is exchanged is gone")
    return found


# -- refusals --------------------------------------------------------------------------------------


def tables_differ(one: TableInfo, other: TableInfo) -> bool:
    """Whether rows or entries of one could not be those of the other."""
    alike = (
        _whole(one) == _whole(other)
        and [_column(each) for each in one.cols] == [_column(each) for each in other.cols]
        and {_index(each) for each in one.indexes} == {_index(each) for each in other.indexes}
    )
    layouts = joint_layouts(one, other)
    return not alike or layouts is None or not _filled_alike(one, other, layouts)


def misfit(one: TableInfo, other: TableInfo) -> Refused | None:
    """The error that forbids the exchange, or None.

    1736 if the definitions differ. 1731 names the first column or index with equal definitions and
    different ids: the tables have had different schema changes."""
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
        for named_as, own, its in pairs:
            if its is None or own[1:] != its[1:]:
                break
            if own != its:
                return ErrPartitionExchangeDifferentOption(named_as)
    return ErrTablesDifferentMetadata()


def _filled_alike(one: TableInfo, other: TableInfo, layouts: Iterable[Layout]) -> bool:
    """Whether rows older than a column show the same in it, whichever table they are read from."""
    stored = [{each.column for each in layout.columns} for layout in layouts]
    return all(
        origin_default_of(own) == origin_default_of(its)
        for own, its in zip(one.cols, other.cols, strict=True)
        if any(own.id not in columns for columns in stored)
    )


def virtual_columns_differ(one: TableInfo, other: TableInfo) -> bool:
    """Whether a column is computed as it is read in one of them alone."""
    virtual = [[each.is_virtual for each in table.public_columns] for table in (one, other)]
    return len(virtual[0]) == len(virtual[1]) and virtual[0] != virtual[1]


def policies_differ(table: TableInfo, partition: str, plain: TableInfo) -> bool:
    """Whether rows that change places would change their placement policy too."""
    found = table.partition.definition(partition) if table.partition is not None else None
    own = found.policy_ref_info if found is not None else None
    own, other = own or table.policy_ref_info, plain.policy_ref_info
    return (own and own.id) != (other and other.id)


def _whole(table: TableInfo) -> tuple[object, ...]:
    """The options of a table that must be equal in both."""
    handles = table.pk_is_handle, table.is_common_handle, table.common_handle_version
    bits = table.auto_random_bits, table.auto_random_range_bits
    return (*handles, *bits, table.charset, table.collate)


def _bare(kind: FieldType) -> FieldType:
    """The type without what keys and defaults say of it, and an integer's without how wide it is
    shown."""
    width = -1 if kind.Tp in INTEGER_BITS else kind.Flen
    return evolve(kind, Flag=kind.Flag & ~_OF_NO_ROW, Flen=width)


Identified = tuple[object, ...]
"""An id, and the properties that must be equal."""


def _column(each: ColumnInfo) -> Identified:
    kind = _bare(each.type)
    return (each.id, each.name.L, kind, each.state, each.hidden, each.generated_expr_string)


def _index(each: IndexInfo) -> Identified:
    parts = tuple((part.exuvia_column, part.length) for part in each.idx_cols)
    kind = each.is_unique, each.is_primary, each.exuvia_clustered, each.state
    return (each.id, each.idx_name.L, parts, kind, each.exuvia_predicate)


def joint_layouts(one: TableInfo, other: TableInfo) -> tuple[Layout, ...] | None:
    """Layouts of both; None where a number means two of them, whatever the keys were then."""
    found = {each.id: each for each in one.exuvia_layouts}
    for each in other.exuvia_layouts:
        if _without_keys(found.setdefault(each.id, each)) != _without_keys(each):
            return None
    return tuple(found[number] for number in sorted(found))


def _without_keys(layout: Layout) -> Layout:
    plain = tuple(evolve(each, type=_bare(each.type)) for each in layout.columns)
    return evolve(layout, columns=plain)


def exchange_is_impossible(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    table, wanted = the_table(snapshot), asked(job)
    if partition_of(snapshot).definition(wanted.partition) is None:
        return ErrUnknownPartition(wanted.partition, table.name.O)
    plain = snapshot.other(wanted.table_id)
    if plain is None or plain.state != PUBLIC:
        return ErrNoSuchTable(job.schema_name, "the table to exchange")
    if plain.partition is not None:
        return ErrPartitionExchangePartTable(plain.name.O)
    for index in table.global_indexes:
        return ErrPartitionExchangeDifferentOption(f"global index: {index.idx_name.O}")
    if policies_differ(table, wanted.partition, plain):
        return ErrTablesDifferentMetadata()
    return misfit(table, plain)


# -- steps -----------------------------------------------------------------------------------------


def _replaced(snapshot: CatalogSnapshot, table: TableInfo, plain: TableInfo) -> CatalogSnapshot:
    others = tuple(plain if each.id == plain.id else each for each in snapshot.others)
    return evolve(snapshot, table=table, others=others)


def refuse_misfits(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """Rows of either must fit where they are to go; both read the rows of either."""
    table, plain = the_table(snapshot), plain_of(job, snapshot)
    layouts = joint_layouts(table, plain) or ()
    theirs = ExchangeInfo(
        exchange_partition_table_id=plain.id,
        exchange_partition_def_id=_definition(job, snapshot).id,
        exuvia_validate=asked(job).validate,
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
    """The CHECKs that rows must obey to come to that table."""
    if not (asked(job).validate and asked(job).checks):
        return ()
    return tuple(each for each in table.checks if each.binds)


def touch(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """The table's revision moves on along with that of the partitioned one."""
    table, plain = the_table(snapshot), plain_of(job, snapshot)
    rule = plain.exuvia_exchange
    if rule is None:
        raise Broken("a table that is exchanged has lost its rule")
    rule = evolve(rule, exuvia_steps=rule.exuvia_steps + 1)
    return job, _replaced(snapshot, table, evolve(plain, exuvia_exchange=rule))


def close_both(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """As `touch`; and no transaction begins to write either from here."""
    job, snapshot = touch(job, snapshot)
    return job, _replaced(snapshot, closing(the_table(snapshot)), closing(plain_of(job, snapshot)))


def every_row_fits(job: Job, snapshot: CatalogSnapshot) -> Refused | StepWait | None:
    """1737, unless WITHOUT VALIDATION."""
    if snapshot.failure is not None:
        return snapshot.failure
    if snapshot.filled or not asked(job).validate:
        return None
    table, plain = the_table(snapshot), plain_of(job, snapshot)
    sides = plain.physical_ids[0], _definition(job, snapshot).id
    checks = bool(_obeyed(job, table) or _obeyed(job, plain))
    return StepWait("", reorg.exchange_rows(asked(job).router, *sides, checks=checks))


def exchange(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """Swap the two ids, and the ATTRIBUTES, which belong to the rows as in TiDB. New row ids are
    greater than those of both."""
    table, plain, gone = the_table(snapshot), plain_of(job, snapshot), _definition(job, snapshot)
    attributes = plain.exuvia_attributes
    came = evolve(gone, id=plain.physical_ids[0], exuvia_attributes=attributes)
    partition = partition_of(snapshot)
    definitions = tuple(came if each == gone else each for each in partition.definitions)
    table = evolve(
        table,
        partition=evolve(partition, definitions=definitions),
        exuvia_exchange=None,
        exuvia_ids_epoch=table.exuvia_ids_epoch + 1,
    )
    plain = evolve(
        plain,
        exuvia_exchange=None,
        exuvia_physical=0 if gone.id == plain.id else gone.id,
        exuvia_attributes=gone.exuvia_attributes,
        exuvia_ids_epoch=plain.exuvia_ids_epoch + 1,
    )
    carried = evolve(snapshot, carries=((table.id, plain.id), (plain.id, table.id)))
    return job, _replaced(carried, opened(table), opened(plain))


def forget_rule(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """As if nothing had begun."""
    table, plain = (
        evolve(opened(each), exuvia_exchange=None)
        for each in (the_table(snapshot), plain_of(job, snapshot))
    )
    return job, _replaced(snapshot, table, plain)


def both_tables(job: Job, snapshot: CatalogSnapshot) -> tuple[int, ...]:
    """Ids whose writers must plan anew."""
    return (job.table_id, asked(job).table_id)


def partition_exchanged(job: Job, before: CatalogSnapshot, after: CatalogSnapshot) -> JobEvent:
    """They have changed places."""
    came = _definition(job, after)
    table, plain = after.table, plain_of(job, after)
    return JobEvent(type="exchange partition", table=table, added=(came,), dropped=plain)


KEEP_PLACES = Action(
    "keep places",
    ActionCode.EXCHANGE_PARTITION,
    PARTITION,
    path=(
        Step(DELETE_REORG, WRITE_ONLY, edit=touch, barrier=True),
        Step(WRITE_ONLY, ABSENT, edit=forget_rule),
    ),
    reads=looks_at_the_table,
)
EXCHANGE_PARTITION = load(
    Action(
        "exchange partition",
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
                fences_tables=both_tables,
                event=partition_exchanged,
            ),
        ),
        undo=KEEP_PLACES,
        reads=looks_at_the_table,
        reorg=True,
    )
)

ACTIONS = (EXCHANGE_PARTITION,)
