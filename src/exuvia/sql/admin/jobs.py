"""ADMIN statements about schema changes: show jobs and control them.

    ADMIN SHOW DDL JOBS [n] [WHERE ...]             a row a job, one more for each of its sub-jobs
    ADMIN SHOW DDL JOB QUERIES ids | LIMIT m ...    the statements of the jobs
    ADMIN CANCEL | PAUSE | RESUME DDL JOBS ids      JOB_ID, RESULT: "successful" or "error: ..."
    ADMIN CREATE | COMPLETE | CANCEL DDL GROUP g    the same, a row for each of its jobs
    ADMIN ALTER DDL JOBS id THREAD = n, ...         no rows; 1105 for what cannot be set
    ADMIN SHOW | SET | UNSET BDR ROLE               which changes are accepted: ddl/actions/bdr.py
    ADMIN SHOW DDL NOTIFIER                         a row for each handler of finished changes
    ADMIN SKIP DDL EVENT job [PART n] FOR HANDLER id    the handler skips the event that it refuses

Columns of a handler:

    LAG                     number of events that it has not handled
    WAITS_FOR               the event that it refuses, as job or job/part
    ATTEMPTS, LAST_ERROR    of that event
    SKIPPED                 the newest skipped events, and the users who skipped them
"""

from collections.abc import Iterable

from exuvia.base import limits
from exuvia.base.decoding import from_builtins
from exuvia.base.errors import Conflict, Refused, Unavailable
from exuvia.base.mysql_errors import ErrDDLJobNotFound, ErrUnknown
from exuvia.base.types import Value
from exuvia.cluster import owner
from exuvia.ddl import admin, groups, queue
from exuvia.ddl.actions import bdr
from exuvia.ddl.job import ROW_COLUMNS, Job, sub_rows
from exuvia.events import notifier
from exuvia.events.notifier import skip, skipped, troubles
from exuvia.kv.transaction import Transaction
from exuvia.pipeline.settings import Own
from exuvia.sql.nodes import (
    AdminAlterJob,
    AdminBdrRole,
    AdminGroup,
    AdminJobs,
    AdminShowDdlJobQueries,
    AdminShowDdlJobs,
    AdminShowDdlNotifier,
    AdminSkipEvent,
    AdminWaitJobs,
)
from exuvia.sql.result import Result, Row
from exuvia.sql.select import relational
from exuvia.sql.show.listing import columns_of, listing
from exuvia.sql.statement.context import Context, SessionApi

_JOBS = "{}# {} {} {} {} {}# {}# {}# {}@ {}@ {}@ {} {}:1024 {}:320".format(*ROW_COLUMNS)
_SIZES = {"": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40, "pib": 1 << 50}
_MOST_SPEED = 1 << 50
_OPTIONS = {
    "thread": ("concurrency", limits.REORG_WORKERS),
    "batch_size": ("batch_size", limits.REORG_BATCH_ROWS),
    "max_write_speed": ("max_write_speed", (0, 0, _MOST_SPEED)),
}


# -- show ------------------------------------------------------------------------------------------


def rows_of(jobs: Iterable[Job]) -> list[Row]:
    """The rows of jobs, each followed by those of its sub-jobs."""
    return [list(row) for job in jobs for row in (job.row(), *sub_rows(job))]


def show_ddl_jobs(context: Context, node: AdminShowDdlJobs) -> Result:
    """ADMIN SHOW DDL JOBS [n] [WHERE ...]: unfinished jobs by id, then the newest n of history.

    The default of n is `exuvia_history_shown`."""
    count = node.limit
    if count is None:
        count = int(context.session.variable("exuvia_history_shown"))
    services = context.session.services
    unfinished = admin.unfinished(context.txn, services.owner, services.clock.monotonic())
    jobs = [*unfinished, *queue.history(context.txn, count)]
    return listing(context, columns_of(_JOBS), rows_of(jobs), None, node.where)


def show_ddl_job_queries(context: Context, node: AdminShowDdlJobQueries) -> Result:
    """ADMIN SHOW DDL JOB QUERIES ids | LIMIT m OFFSET n."""
    txn = context.txn
    if node.limit is None:
        jobs = [queue.get(txn, job_id) or queue.finished(txn, job_id) for job_id in node.ids]
        return Result(columns_of("QUERY:1024"), [[job.query] for job in jobs if job is not None])
    offset, count = node.limit
    every: list[Job] = [*reversed(queue.unfinished(txn)), *queue.history(txn, offset + count)]
    rows = [[str(job.id), job.query] for job in every[offset : offset + count]]
    return Result(columns_of("JOB_ID QUERY:1024"), rows)


# -- control ---------------------------------------------------------------------------------------


def command(session: SessionApi, node: AdminJobs, text: str) -> Result:
    """ADMIN CANCEL | PAUSE | RESUME | HOLD | COMPLETE DDL JOBS. Commits the open transaction."""
    session.commit()
    services = session.services
    guard = services.member.guard
    answers = admin.command_now(services.store, node.kind, node.ids, guard=guard)
    rows: list[Row] = [[str(job_id), _result(error)] for job_id, error in answers]
    return Result(columns_of("JOB_ID RESULT:128"), rows)


def group(session: SessionApi, node: AdminGroup, text: str) -> Result:
    """ADMIN CREATE | COMPLETE | CANCEL DDL GROUP. Raises 1105."""
    session.commit()
    services, by = session.services, f"{session.user}@{session.host}"

    def work(txn: Transaction) -> list[tuple[int, Refused | None]]:
        services.member.guard(txn)
        if node.kind == "create":
            groups.create(txn, node.name, by)
            return []
        if node.kind == "complete":
            return [(job_id, None) for job_id in groups.ask_to_complete(txn, node.name)]
        return admin.command(txn, "cancel", groups.remove(txn, node.name) or (0,))

    try:
        answers = services.store.transact(work)
    except Conflict:
        raise Unavailable("the jobs change too fast: try again") from None
    rows: list[Row] = [[str(job_id), _result(error)] for job_id, error in answers if job_id]
    return Result() if node.kind == "create" else Result(columns_of("JOB_ID RESULT:128"), rows)


def wait(session: SessionApi, node: AdminWaitJobs, text: str) -> Result:
    """ADMIN WAIT DDL JOBS: the result of each job, or its state when the time is up.

    A KILL ends the wait, not the jobs."""
    session.commit()
    services = session.services
    until = None if node.timeout is None else services.clock.monotonic() + node.timeout
    rows: list[Row] = []
    for job_id in node.ids:
        with services.store.read() as txn:
            before = queue.get(txn, job_id) or queue.finished(txn, job_id)
        if before is None:
            rows.append([str(job_id), None, _result(ErrDDLJobNotFound(job_id))])
            continue
        remaining_s = None if until is None else max(0.0, until - services.clock.monotonic())
        try:
            job = services.submitter.wait(job_id, remaining_s, session.check_interrupt)
        except Unavailable:  # time is up
            with services.store.read() as txn:
                job = queue.get(txn, job_id) or queue.finished(txn, job_id) or before
        text_of_job = _result(job.error()) if job.in_history else job.row()[-2]
        rows.append([str(job_id), job.row()[-3], text_of_job])
    return Result(columns_of("JOB_ID STATE RESULT:1024"), rows)


def _result(error: Refused | None) -> str:
    return "successful" if error is None else f"error: [ddl:{error.code}]{error.message}"


def alter(session: SessionApi, node: AdminAlterJob, text: str) -> Result:
    """ADMIN ALTER DDL JOBS id THREAD | BATCH_SIZE | MAX_WRITE_SPEED = n. Raises 1105."""

    def work(context: Context) -> Result:
        own: dict[str, int] = {}
        for name, tree in node.options.items():
            if name not in _OPTIONS:
                raise _wrong(f"unsupported admin alter ddl jobs config: {name}")
            field, (least, _, most) = _OPTIONS[name]
            value, _ = relational.scalar_value(tree, context)
            own[field] = _number(name, value)
            if not least <= own[field] <= most:
                raise _wrong(f"the value {value} for {name} is out of range [{least}, {most}]")
        admin.alter(context.txn, node.id, from_builtins(own, Own))
        return Result()

    session.commit()
    return session.run(work)


def bdr_role(session: SessionApi, node: AdminBdrRole, text: str) -> Result:
    """ADMIN SHOW | SET | UNSET BDR ROLE."""
    session.commit()
    services = session.services
    if node.kind == "show":
        with services.store.read() as txn:
            return Result(columns_of("BDR_ROLE"), [[bdr.role_of(txn)]])

    def put(txn: Transaction) -> None:
        services.member.guard(txn)
        bdr.put_role(txn, node.role)

    services.store.transact(put)
    return Result()


def _number(name: str, value: Value) -> int:
    """The value of an option. A speed may be written as '10MiB'."""
    if isinstance(value, int):
        return value
    text = value.decode() if isinstance(value, bytes) else str(value)
    digits = text.strip().rstrip("BKMGTPibkmgtp ")
    unit = text.strip()[len(digits) :].strip().lower()
    factor = _SIZES.get(unit.removesuffix("b") + "b" if "i" in unit else unit.removesuffix("b"))
    if name != "max_write_speed" or factor is None or not digits.replace(".", "", 1).isdigit():
        raise _wrong(f"the value for {name} is invalid, only integer is allowed")
    return int(float(digits) * factor)


def _wrong(message: str) -> Refused:
    return ErrUnknown(message)


# -- handlers of finished changes ------------------------------------------------------------------


_COLUMNS = "HANDLER_ID# HANDLER LAG# WAITS_FOR ATTEMPTS# LAST_ERROR:1024 OWNER_ID SKIPPED:1024"
SHOWN_SKIPPED = 5


def show_ddl_notifier(context: Context, node: AdminShowDdlNotifier) -> Result:
    """ADMIN SHOW DDL NOTIFIER: one row a handler, by id."""
    stats_owner = owner.owner_of(context.txn, "stats")
    refused = troubles(context.txn)
    flags = [event.flag for event in notifier.pending(context.txn)]
    rows: list[Row] = []
    for number, name in sorted(notifier.NAMES.items()):
        trouble = refused.get(number)
        passed_over = skipped(context.txn, number)[-SHOWN_SKIPPED:]
        rows.append(
            [
                number,
                name,
                sum(not flag & 1 << number for flag in flags),
                "" if trouble is None else trouble.event,
                0 if trouble is None else trouble.attempts,
                "" if trouble is None else trouble.error,
                "" if stats_owner is None else stats_owner.member,
                ", ".join(
                    f"{skip_record.trouble.event} by {skip_record.by}"
                    for skip_record in passed_over
                ),
            ]
        )
    return Result(columns_of(_COLUMNS), rows)


def skip_event(session: SessionApi, node: AdminSkipEvent, text: str) -> Result:
    """ADMIN SKIP DDL EVENT. Commits the open transaction. Raises 1105."""

    def work(context: Context) -> Result:
        part = notifier.WHOLE_JOB if node.part is None else node.part
        by = f"{context.session.user}@{context.session.host}"
        now_ns = context.session.services.clock.wall_ns()
        skip(context.txn, node.handler, (node.job, part), by, now_ns)
        return Result()

    session.commit()
    return session.run(work)
