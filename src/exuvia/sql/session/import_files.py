"""IMPORT INTO, run: a job is submitted, and unless it is detached its end is waited for.

The answer is the job's row of SHOW IMPORT JOBS. KILL QUERY, and so ^C of most clients, cancels the
import; a client that is gone does not: the job goes on.
"""

from exuvia.base.mysql_errors import ErrUnknown
from exuvia.ddl import queue
from exuvia.sql.admin.import_jobs import COLUMNS, row_of
from exuvia.sql.nodes import ImportInto
from exuvia.sql.result import Result
from exuvia.sql.schema.change import SchemaReader
from exuvia.sql.schema.import_into import build
from exuvia.sql.session.schema_change import asked_by, submit
from exuvia.sql.statement.context import SessionApi


def import_into(session: SessionApi, node: ImportInto, text: str) -> Result:
    """Raises what the import is refused with, or ends with."""
    if session.current is not None:
        raise ErrUnknown("cannot run IMPORT INTO in explicit transaction")
    session.commit()
    asked = session.look(lambda context: build(SchemaReader(context), node, text))
    if not asked.detached:
        job = submit(session, asked.job)
        return Result(COLUMNS, [row_of(job, session.zone)])
    services = session.services
    job_id = services.submitter.submit_alone(asked_by(session, asked.job), session.admit_change)
    with services.store.read() as txn:
        known = queue.get(txn, job_id) or queue.finished(txn, job_id)
    assert known is not None
    return Result(COLUMNS, [row_of(known, session.zone)])
