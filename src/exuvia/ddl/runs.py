"""Steps of one job that follow one another in one transaction: where nobody has to answer them.

    assent stands        the only front has acknowledged in advance (cluster/assent.py)
    a plain path         no barrier, nothing taken away from writers, nothing left to be emptied but
                         tombstones, no tail: nothing that needs older writers to have ended
    the job's own table  is the only one whose writers a step asks for

    absent -> delete only -> write only -> write reorg | =rows read=> public -> history
              one transaction, four versions           | another

What reads rows begins a transaction (`may_follow`): its snapshot holds every row of those who wrote
before the steps, and the store refuses those who planned then and commit later (law 1). So an index
on an empty table takes two transactions, a column one.

Versions, diffs and events are as ever; a crash shows all of a transaction or nothing of it.
"""

from collections.abc import Iterable
from functools import cache

from exuvia.cluster.assent import Assent
from exuvia.ddl.action import Action
from exuvia.ddl.actions import action_of
from exuvia.ddl.job import Job, JobState
from exuvia.ddl.multi_schema_change import is_several


def assent_to(job: Job, tables: Iterable[int]) -> Assent | None:
    """The assent that answers the step with which the job came to stand where it does, in advance.

    `tables`: those whose writers the step asks for."""
    is_forward = job.state in (JobState.RUNNING, JobState.DONE)
    if not is_forward or is_several(job) or not is_plain(action_of(job)):
        return None
    return job.exuvia_assent if set(tables) <= {job.table_id} else None


def may_follow(job: Job) -> bool:
    """Whether its next step may be in the transaction of the last: it reads no rows."""
    if job.state == JobState.DONE:
        return True
    return not action_of(job).waits_in(job.schema_state, job.exuvia_tail)


@cache
def is_plain(action: Action) -> bool:
    """Whether its path is one, see the module."""
    return not action.post_commit and not any(
        step.barrier
        or (step.leaves and not step.after)
        or step.fences_tables
        or step.restores_ranges_of
        for step in action.path
    )
