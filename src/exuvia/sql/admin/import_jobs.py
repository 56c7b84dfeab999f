"""SHOW IMPORT JOBS, SHOW IMPORT JOB n, CANCEL IMPORT JOB n: imports with TiDB's columns.

An import is a job of the queue, so ADMIN SHOW DDL JOBS, PAUSE, RESUME and CANCEL apply to it, too.
Accounts without SUPER see and cancel only their own imports.

    Phase     importing, validating (CHECKs, and indexes against rows), adding-index
    Status    pending, running, finished, failed, cancelled
"""

from collections.abc import Iterator
from datetime import tzinfo
from itertools import chain

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import (
    ErrCancelledDDLJob,
    ErrLoadDataInvalidOperation,
    ErrLoadDataJobNotFound,
)
from exuvia.catalog.temporal import shift_zone
from exuvia.ddl import admin, queue
from exuvia.ddl.actions.import_into import is_import, source_of
from exuvia.ddl.job import Job, packed_time
from exuvia.kv.transaction import Transaction
from exuvia.sql.nodes import CancelImportJob, ShowImportJobs
from exuvia.sql.result import Result, Row
from exuvia.sql.show.listing import columns_of, listing
from exuvia.sql.statement.context import Context, SessionApi

COLUMNS = columns_of(
    "Job_ID# Data_Source:4096 Target_Table:256 Table_ID# Phase Status Source_File_Size"
    " Imported_Rows# Result_Message:4096 Create_Time@ Start_Time@ End_Time@ Created_By:320"
)
HISTORY_LOOKED_AT = 10_000
_PHASES = {"import": "importing", "check": "validating", "verify": "validating"}
_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def show_import_jobs(context: Context, node: ShowImportJobs) -> Result:
    """SHOW IMPORT JOBS, the oldest first. Raises 8170."""
    if node.id is not None:
        return Result(COLUMNS, [row_of(_named(context, node.id), context.zone)])
    rows = [row_of(job, context.zone) for job in _every(context.txn) if _is_shown(context, job)]
    return listing(context, COLUMNS, sorted(rows), None, node.where)


def cancel(session: SessionApi, node: CancelImportJob, text: str) -> Result:
    """CANCEL IMPORT JOB. Raises 8170; 8171 if it has ended or is past its last step."""
    session.commit()
    job = session.look(lambda context: _named(context, node.id))
    services = session.services
    if job.in_history:
        raise ErrLoadDataInvalidOperation("CANCEL")
    guard = services.member.guard
    [(_, error)] = admin.command_now(services.store, "cancel", (node.id,), guard=guard)
    if error is not None:
        raise ErrLoadDataInvalidOperation(f"CANCEL: {error.message}")
    return Result()


def _every(txn: Transaction) -> Iterator[Job]:
    newest = queue.newest(txn, HISTORY_LOOKED_AT)
    return (job for job in chain(queue.unfinished(txn), newest) if is_import(job))


def _named(context: Context, job_id: int) -> Job:
    job = queue.get(context.txn, job_id) or queue.finished(context.txn, job_id)
    if job is None or not is_import(job) or not _is_shown(context, job):
        raise ErrLoadDataJobNotFound(job_id)
    return job


def _is_shown(context: Context, job: Job) -> bool:
    session = context.session
    own = job.exuvia_by == f"{session.user}@{session.host}"
    return own or session.rights.everything or "SUPER" in session.rights.everywhere


def row_of(job: Job, zone: tzinfo | None) -> Row:
    """A row of SHOW IMPORT JOBS."""
    source, error = source_of(job), job.error() if job.in_history else None
    paths = [file.path for file in source.files]
    more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
    moments = [
        None if stamp is None else shift_zone(stamp, None, zone) >> 20 << 20
        for stamp in (
            packed_time(job.start_ts),
            packed_time(job.real_start_ts),
            packed_time(job.binlog.FinishedTS) if job.in_history else None,
        )
    ]
    is_running = job.begun and not job.in_history
    word = job.exuvia_note.partition(",")[0] if is_running else ""
    return [
        job.id,
        ", ".join(paths[:3]) + more,
        f"`{job.schema_name}`.`{job.table_name}`",
        job.table_id,
        _PHASES.get(word, "adding-index" if word == "fill" else ""),
        _status(job, error),
        _size(source.size),
        job.row_count if job.begun else None,
        error.message if error is not None else job.exuvia_note or job.exuvia_wait,
        *moments,
        job.exuvia_by,
    ]


def _status(job: Job, error: Refused | None) -> str:
    if job.in_history:
        if error is None:
            return "finished"
        return "cancelled" if error.code == ErrCancelledDDLJob.code else "failed"
    return "running" if job.begun else "pending"


def _size(size: int) -> str:
    """A size as TiDB prints it, with 4 digits."""
    number, unit = float(size), 0
    while number >= 1000 and unit < len(_UNITS) - 1:
        number, unit = number / 1000, unit + 1
    return f"{number:.4g}{_UNITS[unit]}"
