"""Several steps of one job in one transaction, when no front has to answer them.

    assent is given      the only front has acknowledged in advance (cluster/assent.py)
    a plain path         no barrier, no fenced writers, no ranges to empty except tombstones, no
                         tail: nothing that needs older writers to have ended
    the job's own table  is the only one whose writers a step waits for

    absent -> delete only -> write only -> write reorg | =rows read=> public -> history
              one transaction, four versions           | another

A step that reads rows begins a new transaction (`may_follow`). Its snapshot has every row that was
committed before the steps. The store refuses writers that planned before them and commit later (law
1). So an index on an empty table takes two transactions, a column one.

Versions, diffs and events are as usual; after a crash, all of a transaction is stored or nothing.
"""

from collections.abc import Iterable
from functools import cache

from exuvia.cluster.assent import Assent
from exuvia.ddl.action import Action
from exuvia.ddl.actions import action_of
from exuvia.ddl.delete_ranges import DeleteRange
from exuvia.ddl.effects import FenceWriters, RestoreRanges
from exuvia.ddl.job import Job, JobState
from exuvia.ddl.multi_schema_change import is_several


def assent_to(job: Job, tables: Iterable[int]) -> Assent | None:
    """The assent that acknowledges the job's last step in advance, or None.

    `tables`: those whose writers the step waits for.
    """
    is_forward = job.state in (JobState.RUNNING, JobState.DONE)
    if not is_forward or is_several(job) or not is_plain(action_of(job)):
        return None
    return job.exuvia_assent if set(tables) <= {job.table_id} else None


def may_follow(job: Job) -> bool:
    """Whether the next step may be in the same transaction as the last one: it reads no rows."""
    if job.state == JobState.DONE:
        return True
    return not action_of(job).waits_in(job.schema_state, job.exuvia_tail)


@cache
def is_plain(action: Action) -> bool:
    """Whether several steps of its path may be in one transaction."""
    return not action.post_commit and not any(
        step.barrier
        or (step.has(DeleteRange) and not step.after)
        or step.has(FenceWriters, RestoreRanges)
        for step in action.path
    )
