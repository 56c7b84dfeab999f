"""Retention of changed or dropped data for UNDO, as the session's exuvia_undo_s requests.

exuvia_undo_s > 0     the former state of a DROP INDEX, DROP COLUMN, MODIFY COLUMN or change of a
                      clustered key, each the only change of its statement, and of a TRUNCATE TABLE
                      is retained for this number of seconds (ddl/actions/undo.py, modify_column.py,
                      rekey.py, undo_truncate.py); otherwise a warning has the reason
"""

from exuvia.base.mysql_errors import ErrUnknown
from exuvia.catalog.model import evolve
from exuvia.cluster.member import before_0_4
from exuvia.ddl.job import Job, UndoRequest
from exuvia.sql.schema.change import AlterContext


def _seconds(at: AlterContext) -> int:
    return int(at.reader.variable("exuvia_undo_s"))


def _older(at: AlterContext) -> str:
    """The reason if a serving node does not support the jobs that end the retention, or ""."""
    older = [member.title for member in before_0_4(at.txn)]
    return f"{', '.join(older)} of an older release serves" if older else ""


def kept_for_undo(
    at: AlterContext, job: Job, subject: str, why_not: str, *, hides: bool = True
) -> Job:
    """The job with the session's retention for UNDO, or without it and with a warning.

    `subject`: the retained data, in words. `why_not`: the reason against it, or ""."""
    seconds = _seconds(at)
    if not seconds:
        return job
    temporary = "a temporary table has no stored rows"
    reason = temporary if at.table.is_temporary else _older(at) or why_not
    if reason:
        _warn(at, f"{subject} is not kept for UNDO: {reason}")
        return job
    return evolve(job, exuvia_undo=UndoRequest(seconds, hides))


def warn_of_several(at: AlterContext, jobs: list[Job]) -> None:
    """Warn that drops among several changes of one statement are not retained."""
    if len(jobs) > 1 and any(job.exuvia_undo for job in jobs):
        _warn(at, "data dropped by a statement of several changes is not kept for UNDO")


def _warn(at: AlterContext, text: str) -> None:
    at.warn(ErrUnknown.code, text)
