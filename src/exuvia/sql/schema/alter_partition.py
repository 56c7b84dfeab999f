"""ALTER TABLE ADD, DROP, TRUNCATE, EXCHANGE, REORGANIZE, COALESCE PARTITION, PARTITION BY, REMOVE
PARTITIONING, as jobs.

Names and values are checked here against the current table. The owner checks them again when the
job runs, because another job may have changed the table.
"""

from collections.abc import Mapping, Sequence

from exuvia.base.errors import Refused
from exuvia.base.limits import PARTITIONS
from exuvia.base.mysql_errors import (
    ErrCheckNoSuchTable,
    ErrCoalesceOnlyOnHashPartition,
    ErrCoalescePartitionNoPartition,
    ErrDropLastPartition,
    ErrDropPartitionNonExistent,
    ErrForeignKeyOnPartitioned,
    ErrNoParts,
    ErrOnlyOnRangeListPartition,
    ErrPartitionExchangeDifferentOption,
    ErrPartitionExchangeForeignKey,
    ErrPartitionExchangePartTable,
    ErrPartitionExchangeTempTable,
    ErrPartitionMaxvalue,
    ErrPartitionMgmtOnNonpartitioned,
    ErrPartitionsMustBeDefined,
    ErrRangeNotIncreasing,
    ErrTablesDifferentMetadata,
    ErrTooManyPartitions,
    ErrUnknown,
    ErrUnknownPartition,
    ErrUnsupportedDDLOperation,
    ErrUnsupportedOnGeneratedColumn,
    ErrWrongPartitionName,
)
from exuvia.catalog.model import (
    DEFAULT,
    MAXVALUE,
    PartitionDefinition,
    PartitionInfo,
    PartitionType,
    evolve,
    name,
)
from exuvia.ddl import requests
from exuvia.ddl.actions.partition_exchange import (
    Exchanging,
    misfit,
    policies_differ,
    virtual_columns_differ,
)
from exuvia.ddl.actions.partition_move import WHOLE_TABLE
from exuvia.ddl.job import ActionCode, Job
from exuvia.sql.access.partitions import MOVER, Route, cut_of
from exuvia.sql.nodes import PartitionChange
from exuvia.sql.schema.change import AlterContext
from exuvia.sql.schema.foreign_key import referring
from exuvia.sql.schema.partition_definition import (
    added_definitions,
    added_until,
    check_definitions,
    check_function_places,
    check_names,
    check_pair_nodes,
    dropped_before,
    end_of,
    key_algorithm,
    numbered,
    partition_info,
    shape_like,
    with_updated_indexes,
)
from exuvia.sql.schema.placement import placed

_LISTED = (PartitionType.RANGE, PartitionType.LIST)
NO_KINDS: Mapping[str, bool] = {}


def change(at: AlterContext, spec: PartitionChange) -> Job | None:
    """The job of one change of partitions. Raises Refused."""
    if at.table.exuvia_affinity and spec.kind != "truncate":
        titles = {"by": "PARTITION BY", "remove": "REMOVE PARTITIONING"}
        named = titles.get(spec.kind, f"{spec.kind.upper()} PARTITION")
        raise ErrUnsupportedDDLOperation(f"{named} of a table with AFFINITY option")
    return _CHANGES[spec.kind](at, spec)


def partition_of(at: AlterContext) -> PartitionInfo:
    """The table's partitioning. Raises 1505."""
    partitioning = at.table.partition
    if partitioning is None:
        raise ErrPartitionMgmtOnNonpartitioned()
    return partitioning


def checked(at: AlterContext, partitioning: PartitionInfo) -> None:
    """Check all definitions together. Raises 1499, 1517, 1481, 1493, 1495."""
    if len(partitioning.definitions) > PARTITIONS:
        raise ErrTooManyPartitions()
    check_definitions(Route(at.table.cols, cut_of(partitioning)))


# -- ADD -------------------------------------------------------------------------------------------


def _add(at: AlterContext, spec: PartitionChange) -> Job | None:
    partitioning = partition_of(at)
    if partitioning.type not in _LISTED:
        return _add_numbered(at, spec, partitioning)
    if not spec.definitions:
        raise ErrPartitionsMustBeDefined(partitioning.type.name)
    names = [partition.name.O for partition in partitioning.definitions]
    try:
        check_names([*names, *(partition.name for partition in spec.definitions)])
    except Refused as error:
        if not spec.unless:
            raise
        return at.skip(error)
    last = partitioning.definitions[-1]
    if partitioning.type == PartitionType.RANGE and MAXVALUE in last.less_than[:1]:
        raise ErrPartitionMaxvalue()
    added = _placed(at, spec, partitioning)
    if partitioning.type == PartitionType.LIST and _has_default(partitioning.definitions):
        raise ErrUnsupportedDDLOperation(
            "ADD List partition, already contains DEFAULT partition. "
            "Please use REORGANIZE PARTITION instead",
        )
    checked(at, evolve(partitioning, definitions=(*partitioning.definitions, *added)))
    return requests.add_partition(at.database, at.table, added, query=at.text)


def _placed(
    at: AlterContext, spec: PartitionChange, partitioning: PartitionInfo
) -> tuple[PartitionDefinition, ...]:
    """The new partitions with their policies. Raises 8239."""
    added = added_definitions(at.table, partitioning, spec.definitions, at.modes)
    return placed(at.txn, added, spec.definitions)


def _has_default(definitions: Sequence[PartitionDefinition]) -> bool:
    return any((DEFAULT,) in partition.in_values for partition in definitions)


def _add_numbered(
    at: AlterContext, spec: PartitionChange, partitioning: PartitionInfo
) -> Job | None:
    number = len(partitioning.definitions)
    if spec.definitions:
        added = _placed(at, spec, partitioning)
    elif spec.number is None:
        added = numbered(number, number + 1)
    elif spec.number == 0:
        raise ErrNoParts("partitions")
    else:
        added = numbered(number, number + spec.number)
    return _rehashed(at, partitioning, (*partitioning.definitions, *added))


def _rehashed(
    at: AlterContext, partitioning: PartitionInfo, definitions: tuple[PartitionDefinition, ...]
) -> Job:
    """The job for another number of partitions, which moves every row."""
    target = evolve(partitioning, definitions=definitions, num=len(definitions))
    target = evolve(target, exuvia_key_algorithm=key_algorithm(partitioning.type, at.modes))
    checked(at, target)
    return _moved(at, ActionCode.REORGANIZE_PARTITION, (), target)


def _moved(
    at: AlterContext,
    code: ActionCode,
    names: Sequence[str],
    target: PartitionInfo,
    kinds: Mapping[str, bool] = NO_KINDS,
    which: str = "related",
) -> Job:
    database, table = at.database, at.table
    if table.global_indexes or any(kinds.values()):
        check_pair_nodes(at.txn)
    else:
        kinds = NO_KINDS  # all indexes stay local: older nodes know such a job
    job = requests.move_rows(code, database, table, names, target, MOVER, kinds, query=at.text)
    at.warn(
        ErrUnknown.code,
        f"The statistics of {which} partitions will be outdated after reorganizing partitions. "
        "Please use 'ANALYZE TABLE' statement if you want to update it now",
    )
    return job


# -- DROP, TRUNCATE --------------------------------------------------------------------------------


def _drop(at: AlterContext, spec: PartitionChange) -> Job | None:
    partitioning = partition_of(at)
    if partitioning.type not in _LISTED:
        raise ErrOnlyOnRangeListPartition("DROP")
    existing = {text.lower() for text in spec.names if partitioning.definition(text) is not None}
    if spec.unless and len(existing) < len(spec.names):
        return at.skip(ErrDropPartitionNonExistent("DROP"))
    if spec.everything or len(spec.names) >= len(partitioning.definitions):
        raise ErrDropLastPartition()
    if len(existing) < len(spec.names):
        raise ErrDropPartitionNonExistent("DROP")
    return requests.drop_partition(at.database, at.table, sorted(existing), query=at.text)


def _first(at: AlterContext, spec: PartitionChange) -> Job | None:
    partitioning, shape = partition_of(at), shape_like(at.table, partition_of(at))
    assert spec.bound is not None
    first = end_of(spec.bound, at.zone)
    names = dropped_before(partitioning, shape, first)
    return requests.drop_partition(at.database, at.table, names, query=at.text)


def _last(at: AlterContext, spec: PartitionChange) -> Job | None:
    partitioning = partition_of(at)
    if partitioning.type == PartitionType.LIST:
        raise ErrPartitionsMustBeDefined("LIST")
    if partitioning.type not in _LISTED:
        raise ErrUnsupportedDDLOperation("LAST PARTITION of HASH/KEY partitioned table")
    assert spec.bound is not None
    last = end_of(spec.bound, at.zone)
    written = added_until(partitioning, shape_like(at.table, partitioning), last)
    return _add(at, PartitionChange(kind="add", definitions=written))


def _unsupported(at: AlterContext, spec: PartitionChange) -> Job | None:
    raise ErrUnsupportedDDLOperation(_UNSUPPORTED.get(spec.kind, f"{spec.kind} partition"))


_UNSUPPORTED = {
    "merge": "MERGE FIRST PARTITION",
    "split": "SPLIT LAST PARTITION",
    "import": "Unsupported/unknown ALTER TABLE specification",
    "discard": "Unsupported/unknown ALTER TABLE specification",
}


def _truncate(at: AlterContext, spec: PartitionChange) -> Job | None:
    partitioning = partition_of(at)
    names = [partition.name.L for partition in partitioning.definitions]
    if not spec.everything:
        names = list(dict.fromkeys(text.lower() for text in spec.names))
    for text in names:
        if partitioning.definition(text) is None:
            written = next(spelling for spelling in spec.names if spelling.lower() == text)
            raise ErrUnknownPartition(written, at.table.name.O)
    return requests.truncate_partition(at.database, at.table, names, query=at.text)


# -- moves -----------------------------------------------------------------------------------------


def _coalesce(at: AlterContext, spec: PartitionChange) -> Job | None:
    partitioning = partition_of(at)
    if partitioning.type in _LISTED:
        raise ErrCoalesceOnlyOnHashPartition()
    number = spec.number or 0
    if number == 0:
        raise ErrCoalescePartitionNoPartition()
    if number >= len(partitioning.definitions):
        raise ErrDropLastPartition()
    return _rehashed(at, partitioning, partitioning.definitions[:-number])


def _reorganize(at: AlterContext, spec: PartitionChange) -> Job | None:
    partitioning = partition_of(at)
    if partitioning.type not in _LISTED:
        raise ErrUnsupportedDDLOperation("reorganize partition")
    names = list(dict.fromkeys(text.lower() for text in spec.names))
    places = [
        n for n, partition in enumerate(partitioning.definitions) if partition.name.L in names
    ]
    if len(places) < len(names) or not names:
        raise ErrWrongPartitionName()
    if partitioning.type == PartitionType.RANGE and places != list(
        range(places[0], places[-1] + 1)
    ):
        raise ErrUnsupportedDDLOperation("REORGANIZE PARTITION of RANGE; not adjacent partitions")
    added = _placed(at, spec, partitioning)
    remaining = [
        partition for partition in partitioning.definitions if partition.name.L not in names
    ]
    before = sum(
        n < places[0]
        for n, partition in enumerate(partitioning.definitions)
        if partition in remaining
    )
    whole = evolve(partitioning, definitions=(*remaining[:before], *added, *remaining[before:]))
    checked(at, whole)
    if partitioning.type == PartitionType.RANGE:
        _check_range_kept(at, partitioning, whole, places[-1], before + len(added) - 1)
    target = evolve(partitioning, definitions=added, num=len(added))
    return _moved(at, ActionCode.REORGANIZE_PARTITION, names, target)


def _check_range_kept(
    at: AlterContext, partitioning: PartitionInfo, whole: PartitionInfo, last: int, new_last: int
) -> None:
    """Raises 1493 if the range ends elsewhere, unless the table's last partition is reorganized."""
    if last == len(partitioning.definitions) - 1:
        return
    old, new = Route(at.table.cols, cut_of(partitioning)), Route(at.table.cols, cut_of(whole))
    if old.bounds[last] != new.bounds[new_last]:
        raise ErrRangeNotIncreasing()


def _by(at: AlterContext, spec: PartitionChange) -> Job | None:
    assert spec.partitioning is not None
    if at.table.foreign_keys or any(referring(at.reader, at.table)):
        raise ErrForeignKeyOnPartitioned()
    check_function_places(spec.partitioning, at.database.db_name.O, at.table.name.O)
    plain = with_updated_indexes(evolve(at.table, partition=None), spec.partitioning)
    kinds = {text.lower(): is_global for text, is_global in spec.partitioning.indexes}
    target = partition_info(plain, spec.partitioning, at.warn, at.modes)
    written = spec.partitioning.definitions
    target = evolve(target, definitions=placed(at.txn, target.definitions, written))
    return _moved(at, ActionCode.PARTITION_BY, (), target, kinds, "new")


def _remove(at: AlterContext, spec: PartitionChange) -> Job | None:
    partition_of(at)
    whole = PartitionDefinition(name=name(WHOLE_TABLE))
    target = PartitionInfo(type=PartitionType.NONE, definitions=(whole,), num=1)
    database, table = at.database, at.table
    code = ActionCode.REMOVE_PARTITIONING
    if table.global_indexes:
        check_pair_nodes(at.txn)
    return requests.move_rows(code, database, table, (), target, MOVER, query=at.text)


def _exchange(at: AlterContext, spec: PartitionChange) -> Job | None:
    assert spec.table is not None
    if at.reader.temporary(spec.table) is not None:
        raise ErrPartitionExchangeTempTable(spec.table.name)
    database, plain = at.reader.table_named(spec.table)
    if not plain.is_stored:
        raise ErrCheckNoSuchTable()
    partitioning = partition_of(at)
    if plain.is_temporary:
        raise ErrPartitionExchangeTempTable(plain.name.O)
    if plain.partition is not None:
        raise ErrPartitionExchangePartTable(plain.name.O)
    if plain.foreign_keys or any(referring(at.reader, plain)):
        raise ErrPartitionExchangeForeignKey(plain.name.O)
    if partitioning.definition(spec.names[0]) is None:
        raise ErrUnknownPartition(spec.names[0], at.table.name.O)
    for index in at.table.global_indexes:
        raise ErrPartitionExchangeDifferentOption(f"global index: {index.idx_name.O}")
    if plain.exuvia_affinity:
        reason = "EXCHANGE PARTITION of a table with AFFINITY option"
        raise ErrUnsupportedDDLOperation(reason)
    if virtual_columns_differ(at.table, plain):
        raise ErrUnsupportedOnGeneratedColumn("Exchanging partitions for non-generated columns")
    if policies_differ(at.table, spec.names[0], plain):
        raise ErrTablesDifferentMetadata()
    refusal = misfit(at.table, plain)
    if refusal is not None:
        raise refusal
    text = "after the exchange, please analyze related table of the exchange to update statistics"
    at.warn(ErrUnknown.code, text)
    checks = at.reader.variable("tidb_enable_check_constraint") == "ON"
    exchange = Exchanging(spec.names[0], plain.id, spec.validate, MOVER, checks)
    return requests.exchange_partition(at.database, at.table, exchange, database.id, query=at.text)


_CHANGES = {
    "add": _add,
    "by": _by,
    "coalesce": _coalesce,
    "drop": _drop,
    "exchange": _exchange,
    "first": _first,
    "last": _last,
    "remove": _remove,
    "reorganize": _reorganize,
    "truncate": _truncate,
    **dict.fromkeys(("check", "discard", "import", "merge"), _unsupported),
    **dict.fromkeys(("optimize", "rebuild", "repair", "split"), _unsupported),
}
