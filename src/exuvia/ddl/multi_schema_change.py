"""The sub-jobs of a job: one ALTER TABLE may ask for several changes.

    job  --sub_job(job, n)-->  a job of one change  --with_sub_job(job, n, it)-->  job

While it is looked at, a sub-job is a job like any other: its own fields (`OWN`) come from the
stored `SubJob`, all others are the whole job's. A plain job is its own only sub-job, and is stored
as what it is. What becomes of them is decided in ddl/state_machine.py.
"""

from exuvia.catalog.model import evolve
from exuvia.ddl.actions import SEVERAL, action_of, is_reorg, kind_of
from exuvia.ddl.decision import ReadSet
from exuvia.ddl.job import ActionCode, Job, MultiSchemaInfo, SubJob

OWN = (
    "type",
    "raw_args",
    "schema_state",
    "state",
    "row_count",
    "real_start_ts",
    "exuvia_elements",
    "exuvia_tables",
    "exuvia_schemas",
    "exuvia_tail",
    "exuvia_note",
)


def is_several(job: Job) -> bool:
    """Whether it is stored with sub-jobs."""
    return job.multi_schema_info is not None


def stored(job: Job) -> tuple[SubJob, ...]:
    """The sub-jobs as they are stored; none of a plain job."""
    return job.multi_schema_info.sub_jobs if job.multi_schema_info else ()


def sub_job(job: Job, at: int) -> Job:
    """That sub-job as a job; a plain job is its own."""
    if job.multi_schema_info is None:
        return job
    subs = job.multi_schema_info.sub_jobs
    before = sum(len(sub.exuvia_ids) for sub in subs[:at])
    own = {field: getattr(subs[at], field) for field in OWN}
    ids = job.exuvia_ids[before : before + len(subs[at].exuvia_ids)]
    return evolve(job, multi_schema_info=None, exuvia_ids=ids, **own)


def sub_jobs(job: Job) -> list[Job]:
    """Every sub-job as a job, one at least."""
    if job.multi_schema_info is None:
        return [job]
    return [sub_job(job, at) for at in range(len(job.multi_schema_info.sub_jobs))]


def fill_is_noted(job: Job, at: int) -> bool:
    """Whether that sub-job's reorg has written and verified everything and need not run again."""
    return stored(job)[at].exuvia_filled if is_several(job) else job.exuvia_filled


def unnoted(job: Job) -> Job:
    """The job as if no reorg of it had ended: they run again."""
    if job.multi_schema_info is None:
        return evolve(job, exuvia_filled=False)
    subs = tuple(evolve(sub, exuvia_filled=False) for sub in job.multi_schema_info.sub_jobs)
    return evolve(job, multi_schema_info=evolve(job.multi_schema_info, sub_jobs=subs))


def with_sub_job(job: Job, at: int, moved: Job, **more: object) -> Job:
    """The job with that sub-job as it stands now. `more`: fields that only a SubJob has."""
    if job.multi_schema_info is None:
        return moved
    subs = list(job.multi_schema_info.sub_jobs)
    subs[at] = evolve(subs[at], **{field: getattr(moved, field) for field in OWN}, **more)
    return evolve(
        job,
        multi_schema_info=evolve(job.multi_schema_info, sub_jobs=tuple(subs)),
        row_count=sum(sub.row_count for sub in subs),
    )


def combined(jobs: list[Job]) -> Job:
    """One job of the changes that several ask for. Those that merge become one: indexes are added
    with one scan."""
    jobs = [sub for job in jobs for sub in sub_jobs(job)]
    alike: dict[ActionCode, list[Job]] = {}
    for job in jobs:
        if kind_of(job).merges:
            alike.setdefault(job.type, []).append(job)
    for group in alike.values():
        if len(group) > 1:
            asked = tuple(each for job in group for each in job.raw_args)
            others = [job for job in jobs if not any(job is one for one in group)]
            ids = max((job.exuvia_ids for job in group), key=len)  # what one asks for serves all
            jobs = [*others, evolve(group[0], raw_args=asked, exuvia_ids=ids)]
    return evolve(
        jobs[0],
        type=SEVERAL.code,
        raw_args=(),
        exuvia_undo=None,
        multi_schema_info=MultiSchemaInfo(sub_jobs=tuple(map(_as_asked, jobs))),
        reorg_meta={} if any(map(is_reorg, jobs)) else None,
        exuvia_tables=tuple(dict.fromkeys(each for job in jobs for each in job.exuvia_tables)),
        exuvia_schemas=tuple(dict.fromkeys(each for job in jobs for each in job.exuvia_schemas)),
        exuvia_ids=tuple(each for job in jobs for each in job.exuvia_ids),
        exuvia_policies=tuple(dict.fromkeys(each for job in jobs for each in job.exuvia_policies)),
    )


def _as_asked(job: Job) -> SubJob:
    return SubJob(
        type=job.type,
        raw_args=job.raw_args,
        exuvia_tables=job.exuvia_tables,
        exuvia_schemas=job.exuvia_schemas,
        exuvia_ids=job.exuvia_ids,
    )


def read_set(job: Job) -> ReadSet:
    """What all sub-jobs ask to see."""
    asked = [reads(sub) for sub in sub_jobs(job) if (reads := action_of(sub).reads)]
    return ReadSet(
        tables=tuple(dict.fromkeys(table for one in asked for table in one.tables)),
        databases=tuple(dict.fromkeys(each for one in asked for each in one.databases)),
        names=tuple(dict.fromkeys(name for one in asked for name in one.names)),
        left_by=max((each.left_by for each in asked), default=0),
        own_name=max((each.own_name for each in asked), default=""),
        database_tables=any(each.database_tables for each in asked),
        referrers=any(each.referrers for each in asked),
        policies=(
            *dict.fromkeys(name for one in asked for name in one.policies),
            *(ref.name.L for ref in job.exuvia_policies),
        ),
        policy_uses=any(each.policy_uses for each in asked),
        group=max((each.group for each in asked), default=""),
        loader=max((each.loader for each in asked), default=""),
    )
