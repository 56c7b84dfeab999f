"""Why a job cannot be done, judged in its first step: the statement's check is older by a queue.

Each takes (job, world) and returns MySQL's error or None.

Who refers to the tables that a DROP or a TRUNCATE takes away, judged in the job's first step.

The statement looked a queue ago: a child may have come since. From the first step on none can, for
who makes one involves its parent, and waits for this job.

    raw_args   [{"fk_check": true, "going": [ids]}]   going: tables that the same statement drops
               []                                     foreign_key_checks was OFF: nobody asks
"""

from collections.abc import Iterator

import msgspec

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import (
    ErrBadDB,
    ErrBadTable,
    ErrDBCreateExists,
    ErrDBDropExists,
    ErrForeignKeyCannotDropParent,
    ErrNoSuchTable,
    ErrTableExists,
    ErrTruncateIllegalForeignKey,
)
from exuvia.catalog.model import ColumnInfo, TableInfo
from exuvia.catalog.state import SchemaState
from exuvia.ddl.elements import the_table
from exuvia.ddl.job import Job, arguments
from exuvia.ddl.world import Referrer, World


def database_name_is_taken(job: Job, world: World) -> Refused | None:
    """1007."""
    return ErrDBCreateExists(job.schema_name) if world.name_is_taken else None


def database_to_drop_is_missing(job: Job, world: World) -> Refused | None:
    """1008."""
    there = world.database is not None and world.database.state == SchemaState.PUBLIC
    return None if there else ErrDBDropExists(job.schema_name)


def database_is_missing(job: Job, world: World) -> Refused | None:
    """1049."""
    there = world.database is not None and world.database.state == SchemaState.PUBLIC
    return None if there else ErrBadDB(job.schema_name)


def table_name_is_taken(job: Job, world: World) -> Refused | None:
    """1050."""
    taken = world.name_is_taken
    return ErrTableExists(f"{job.schema_name}.{job.table_name}") if taken else None


def table_to_drop_is_missing(job: Job, world: World) -> Refused | None:
    """1051."""
    there = world.table is not None and world.table.state == SchemaState.PUBLIC
    return None if there else ErrBadTable(f"{job.schema_name}.{job.table_name}")


def table_is_missing(job: Job, world: World) -> Refused | None:
    """1146."""
    there = world.table is not None and world.table.state == SchemaState.PUBLIC
    return None if there else ErrNoSuchTable(job.schema_name, job.table_name)


def computed_from(table: TableInfo, name: str) -> list[ColumnInfo]:
    """The columns whose expressions name that one."""
    wanted = name.lower()
    return [
        column
        for column in table.cols
        if column.name.L != wanted and wanted in (column.dependences or {})
    ]


class Children(msgspec.Struct, frozen=True):
    """What a DROP or a TRUNCATE is asked where foreign_key_checks is ON; without it nobody asks.

    `going`: ids of tables that the same statement drops."""

    fk_check: bool = True
    going: tuple[int, ...] | msgspec.UnsetType = msgspec.UNSET


def children_are_asked_for(job: Job) -> bool:
    """Whether the job's first step must see who refers to its tables."""
    return not job.begun and bool(job.raw_args)


def _children(job: Job, world: World) -> Iterator[Referrer]:
    """Keys of tables that stay."""
    if not children_are_asked_for(job):
        return
    (asked,) = arguments(job, tuple[Children])
    going = {job.table_id, *world.tables, *(asked.going or ())}
    yield from (each for each in world.referrers if each.child not in going)


def table_is_referred_to(job: Job, world: World) -> Refused | None:
    """3730, for DROP TABLE and DROP DATABASE."""
    for each in _children(job, world):
        return ErrForeignKeyCannotDropParent(each.parent, each.key, each.child_table)
    return None


def truncated_table_is_referred_to(job: Job, world: World) -> Refused | None:
    """1701."""
    the_table(world)
    for each in _children(job, world):
        text = f"`{each.child_database}`.`{each.child_table}` CONSTRAINT `{each.key}`"
        return ErrTruncateIllegalForeignKey(text)
    return None
