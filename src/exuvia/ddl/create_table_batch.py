"""Which CREATE TABLEs that are submitted together become one job (tidb_enable_fast_create_table).

    same database, no foreign key, no partition, nothing else looked at     up to MERGED a job
    a name twice among them                                                 none of that database
    anything else                                                           a job of its own

As TiDB does it: one step and one version for all of them.
"""

from collections.abc import Sequence
from typing import NamedTuple

from exuvia.ddl.actions.table import create_tables, may_be_batched
from exuvia.ddl.job import Job

MERGED = 8


class Share(NamedTuple):
    """A job to insert, and the places in the batch of those who asked for it."""

    job: Job
    members: tuple[int, ...]


def shares(batch: Sequence[tuple[Job, bool]]) -> list[Share]:
    """Jobs of the batch, in order of the first of each; `True`: it may be merged."""
    groups: dict[int, list[int]] = {}
    for at, (job, may_merge) in enumerate(batch):
        if may_merge and may_be_batched(job):
            groups.setdefault(job.schema_id, []).append(at)
    found: list[Share] = []
    merged: set[int] = set()
    for members in groups.values():
        names = {batch[at][0].table_name.lower() for at in members}
        if len(members) == 1 or len(names) < len(members):
            continue
        for first in range(0, len(members), MERGED):
            some = tuple(members[first : first + MERGED])
            merged.update(some)
            jobs = [batch[at][0] for at in some]
            found.append(Share(jobs[0] if len(jobs) == 1 else create_tables(jobs), some))
    alone = [Share(job, (at,)) for at, (job, _) in enumerate(batch) if at not in merged]
    return sorted([*found, *alone], key=lambda share: share.members[0])
