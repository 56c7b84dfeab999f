"""What a session wants kept, so that it can be taken back for a while.

exuvia_undo_s > 0     a DROP INDEX, DROP COLUMN, MODIFY COLUMN or change of a clustered key that is
                      a statement of its own, and a TRUNCATE TABLE, are kept for so long
                      (ddl/actions/undo.py, modify_column.py, rekey.py, undo_truncate.py); where it
                      cannot be, a warning says why
"""

from exuvia.base.mysql_errors import ErrUnknown
from exuvia.catalog.model import evolve
from exuvia.cluster.member import before_0_4
from exuvia.ddl.job import Job, UndoAsked
from exuvia.sql.schema.change import AlterContext


def _seconds(at: AlterContext) -> int:
    return int(at.reader.variable("exuvia_undo_s"))


def _older(at: AlterContext) -> str:
    """Who does not know the jobs that end what is kept."""
    older = [each.title for each in before_0_4(at.txn)]
    return f"{', '.join(older)} of an older release serves" if older else ""


def kept_for_undo(
    at: AlterContext, job: Job, what: str, why_not: str, *, hides: bool = True
) -> Job:
    """The job as the session wants it kept. `what` it drops, in words; `why_not`: what is against
    it, "" if nothing."""
    seconds = _seconds(at)
    if not seconds:
        return job
    temporary = "a temporary table has no rows that could come back"
    reason = temporary if at.table.is_temporary else _older(at) or why_not
    if reason:
        _warn(at, f"{what} is not kept for UNDO: {reason}")
        return job
    return evolve(job, exuvia_undo=UndoAsked(seconds, hides))


def warn_of_several(at: AlterContext, jobs: list[Job]) -> None:
    """Drops among several changes of one statement are not kept."""
    if len(jobs) > 1 and any(job.exuvia_undo for job in jobs):
        _warn(at, "what a statement of several changes drops is not kept for UNDO")


def _warn(at: AlterContext, said: str) -> None:
    at.warn(ErrUnknown.code, said)
