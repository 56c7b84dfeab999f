"""The parts of a job of several changes: each a job like any other while it is looked at.

    job  --part(job, n)-->  a job of one change  --with_part(job, n, it)-->  job

A part's own fields (`OWN`) come from its sub-job, all others are the job's. What becomes of the
parts is decided in ddl/several.py.
"""

from exuvia.base.errors import Broken
from exuvia.catalog.model import evolve
from exuvia.ddl import queue
from exuvia.ddl.actions import action_of
from exuvia.ddl.codes import ActionCode
from exuvia.ddl.job import Job, MultiSchemaInfo, SubJob
from exuvia.ddl.world import Looks

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


def of(job: Job) -> tuple[SubJob, ...]:
    """The parts of a job of several changes, none of any other."""
    return job.multi_schema_info.sub_jobs if job.multi_schema_info else ()


def part(job: Job, at: int) -> Job:
    """That part as a job of its own."""
    subs = of(job)
    before = sum(len(sub.exuvia_ids) for sub in subs[:at])
    own = {field: getattr(subs[at], field) for field in OWN}
    ids = job.exuvia_ids[before : before + len(subs[at].exuvia_ids)]
    return evolve(job, multi_schema_info=None, exuvia_ids=ids, **own)


def all_of(job: Job) -> list[Job]:
    """Every part as a job; a job of one change is its only one."""
    return [part(job, at) for at in range(len(of(job)))] or [job]


def with_part(job: Job, at: int, moved: Job, **more: object) -> Job:
    """The job with that part as it stands now."""
    subs = list(of(job))
    own = {field: getattr(moved, field) for field in OWN}
    subs[at] = evolve(subs[at], **own, **more)
    return _with_parts(job, subs)


def _with_parts(job: Job, subs: list[SubJob]) -> Job:
    rows = sum(sub.row_count for sub in subs)
    info = evolve(info_of(job), sub_jobs=tuple(subs))
    return evolve(job, multi_schema_info=info, row_count=rows)


def info_of(job: Job) -> MultiSchemaInfo:
    """What a job of several changes knows of them. Raises Broken for any other."""
    if job.multi_schema_info is None:
        raise Broken(f"job {job.id} has one change only")
    return job.multi_schema_info


def joined(jobs: list[Job]) -> Job:
    """One job of the changes that several ask for. Indexes are added by one, with one scan."""
    jobs = [each for job in jobs for each in all_of(job)]
    adding = [job for job in jobs if job.type == ActionCode.ADD_INDEX]
    if len(adding) > 1:
        merged = evolve(adding[0], raw_args=tuple(each for job in adding for each in job.raw_args))
        jobs = [job for job in jobs if job.type != ActionCode.ADD_INDEX] + [merged]
    return evolve(
        jobs[0],
        type=ActionCode.MULTI_SCHEMA_CHANGE,
        raw_args=(),
        multi_schema_info=MultiSchemaInfo(sub_jobs=tuple(map(_asked, jobs))),
        reorg_meta={} if any(map(queue.is_reorg, jobs)) else None,
        exuvia_tables=tuple(dict.fromkeys(each for job in jobs for each in job.exuvia_tables)),
        exuvia_schemas=tuple(dict.fromkeys(each for job in jobs for each in job.exuvia_schemas)),
        exuvia_ids=tuple(each for job in jobs for each in job.exuvia_ids),
    )


def _asked(job: Job) -> SubJob:
    return SubJob(
        type=job.type,
        raw_args=job.raw_args,
        exuvia_tables=job.exuvia_tables,
        exuvia_schemas=job.exuvia_schemas,
        exuvia_ids=job.exuvia_ids,
    )


def looks(job: Job) -> Looks:
    """What all parts ask to see."""
    asked = [look(each) for each in all_of(job) if (look := action_of(each).looks)]
    return Looks(
        tables=tuple(dict.fromkeys(table for look in asked for table in look.tables)),
        databases=tuple(dict.fromkeys(each for look in asked for each in look.databases)),
        names=tuple(dict.fromkeys(name for look in asked for name in look.names)),
        left_by=max((look.left_by for look in asked), default=0),
        loader=max((look.loader for look in asked), default=""),
    )
