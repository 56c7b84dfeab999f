"""Who refers to the tables that a DROP or a TRUNCATE takes away, judged in the job's first step.

The statement looked a queue ago: a child may have come since. From the first step on none can, for
who makes one involves its parent, and waits for this job.

    raw_args   [{"fk_check": true, "going": [ids]}]   going: tables that the same statement drops
               []                                     foreign_key_checks was OFF: nobody asks
"""

from collections.abc import Iterator

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import ErrForeignKeyCannotDropParent, ErrTruncateIllegalForeignKey
from exuvia.ddl.elements import the_table
from exuvia.ddl.job import Job
from exuvia.ddl.world import Referrer, World


def asks(job: Job) -> bool:
    """Whether the job's first step must see who refers to its tables."""
    return not job.begun and bool(job.raw_args)


def _children(job: Job, world: World) -> Iterator[Referrer]:
    """Keys of tables that stay."""
    if not asks(job):
        return
    going = {job.table_id, *world.tables, *job.raw_args[0].get("going", ())}
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
