"""What a change of partitions asks for, as a job that nobody has picked yet.

add        [[PartitionDefinition, ..]]     ids: one each
drop       [[name, ..]]
truncate   [[name, ..]]                    ids: one each
move       [[name, ..] or [] for all, PartitionInfo of the new ones, router]    ids: one each
"""

from collections.abc import Sequence

import msgspec

from exuvia.catalog.model import DatabaseInfo, TableInfo
from exuvia.catalog.partition_info import PartitionDefinition, PartitionInfo
from exuvia.ddl.actions.partition_exchange import Exchanging
from exuvia.ddl.codes import ActionCode
from exuvia.ddl.job import Job, evolve
from exuvia.ddl.requests import job_for


def add_partition(
    database: DatabaseInfo,
    table: TableInfo,
    definitions: Sequence[PartitionDefinition],
    *,
    query: str = "",
) -> Job:
    """ADD PARTITION (definitions) of RANGE and LIST."""
    wanted = [msgspec.to_builtins(each) for each in definitions]
    job = job_for(ActionCode.ADD_PARTITION, database, table, (wanted,), query)
    return evolve(job, exuvia_ids=(0,) * len(wanted))


def drop_partition(
    database: DatabaseInfo, table: TableInfo, names: Sequence[str], *, query: str = ""
) -> Job:
    """DROP PARTITION."""
    return job_for(ActionCode.DROP_PARTITION, database, table, (list(names),), query)


def truncate_partition(
    database: DatabaseInfo, table: TableInfo, names: Sequence[str], *, query: str = ""
) -> Job:
    """TRUNCATE PARTITION."""
    job = job_for(ActionCode.TRUNCATE_PARTITION, database, table, (list(names),), query)
    return evolve(job, exuvia_ids=(0,) * len(names))


def move_rows(
    code: ActionCode,
    database: DatabaseInfo,
    table: TableInfo,
    names: Sequence[str],
    target: PartitionInfo,
    router: str,
    *,
    query: str = "",
) -> Job:
    """REORGANIZE PARTITION, PARTITION BY, REMOVE PARTITIONING. `router`: pipeline/routing.py."""
    arguments = (list(names), msgspec.to_builtins(target), router)
    job = job_for(code, database, table, arguments, query)
    return evolve(job, exuvia_ids=(0,) * len(target.definitions))


def exchange_partition(
    database: DatabaseInfo,
    table: TableInfo,
    asked: Exchanging,
    schema_id: int,
    *,
    query: str = "",
) -> Job:
    """EXCHANGE PARTITION; `schema_id`: the database of the other table."""
    arguments = (msgspec.to_builtins(asked),)
    job = job_for(ActionCode.EXCHANGE_PARTITION, database, table, arguments, query)
    schemas = (schema_id,) if schema_id != database.id else ()
    return evolve(job, exuvia_tables=(asked.table_id,), exuvia_schemas=schemas)
