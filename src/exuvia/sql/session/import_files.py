"""Running IMPORT INTO: submits a job and, unless DETACHED, waits until it has ended.

The result is the job's row of SHOW IMPORT JOBS. KILL QUERY, which is also ^C in most clients,
cancels the import. If the client disconnects, the job continues.
"""

from exuvia.base.mysql_errors import ErrUnknown
from exuvia.ddl import queue
from exuvia.sql.admin.import_jobs import COLUMNS, row_of
from exuvia.sql.nodes import ImportInto
from exuvia.sql.result import Result
from exuvia.sql.schema.change import SchemaReader
from exuvia.sql.schema.import_into import build
from exuvia.sql.session.schema_change import submit, with_client_settings
from exuvia.sql.statement.context import SessionApi


def import_into(session: SessionApi, node: ImportInto, text: str) -> Result:
    """Raises the errors of the request and of the job."""
    if session.current is not None:
        raise ErrUnknown("cannot run IMPORT INTO in explicit transaction")
    session.commit()
    request = session.look(lambda context: build(SchemaReader(context), node, text))
    if not request.detached:
        job = submit(session, request.job)
        return Result(COLUMNS, [row_of(job, session.zone)])
    services = session.services
    job_id = services.submitter.submit_alone(
        with_client_settings(session, request.job), session.admit_change
    )
    with services.store.read() as txn:
        submitted = queue.get(txn, job_id) or queue.finished(txn, job_id)
    assert submitted is not None
    return Result(COLUMNS, [row_of(submitted, session.zone)])
