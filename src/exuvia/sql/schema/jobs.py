"""What a schema change does at its session: end the transaction, look, ask, wait for the answer.

    commit what is open -> read names in one snapshot -> a Job -> submit -> OK or its error

The look is for early and exact errors; the owner judges again when the job runs (decide).
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import msgspec

from exuvia.base.errors import Refused, Unavailable
from exuvia.base.mysql_errors import (
    ErrDBaccessDenied,
    ErrNoDB,
    ErrOptOnCacheTable,
    ErrUnsupportedDDLOperation,
)
from exuvia.catalog.model import DatabaseInfo, TableInfo
from exuvia.catalog.system_tables import is_system
from exuvia.ddl import admin
from exuvia.ddl.job import Job
from exuvia.kv.transaction import Transaction
from exuvia.sql.nodes import TableName
from exuvia.sql.result import Note, Result
from exuvia.sql.statement.context import SessionApi

COMPUTED = frozenset({"information_schema", "performance_schema"})


@contextmanager
def look(session: SessionApi) -> Iterator[Transaction]:
    """A snapshot to resolve names in, after what was open is committed."""
    session.commit()
    txn = session.services.store.begin()
    try:
        yield txn
    finally:
        txn.rollback()


def database_named(session: SessionApi, txn: Transaction, name: str | None) -> DatabaseInfo:
    """The database meant. Raises 1046, 1049, 1044 (a computed one)."""
    wanted = name or session.database
    if not wanted:
        raise ErrNoDB()
    if wanted.lower() in COMPUTED:
        raise ErrDBaccessDenied(session.user, session.host, wanted)
    return session.services.schemas.database(txn, wanted)


def table_named(
    session: SessionApi, txn: Transaction, table: TableName
) -> tuple[DatabaseInfo, TableInfo]:
    """A table that may be changed. Raises 1046, 1049, 1146, 8200 (a system table)."""
    database = database_named(session, txn, table.db)
    found = session.services.schemas.table(txn, database.db_name.O, table.name).info
    if is_system(found):
        raise ErrUnsupportedDDLOperation(f"schema change of system table '{table.name}'")
    if found.is_temporary:
        raise ErrUnsupportedDDLOperation("ALTER TABLE for local temporary table")
    return database, found


def refuse_cached(table: TableInfo, what: str) -> None:
    """8242: of a table that is CACHEd only NOCACHE may be asked."""
    if table.cache_table_status:
        raise ErrOptOnCacheTable(what)


def submit(session: SessionApi, job: Job) -> Job:
    """Run a job to its end. Raises what it ended with."""
    return ended(session, session.services.submitter.submit_nowait(job))


def ended(session: SessionApi, job_id: int) -> Job:
    """A submitted job at its end. Raises what it ended with.

    A kill ends the wait (1317) and cancels the job; without its client the job goes on."""
    services = session.services
    try:
        finished = services.submitter.wait(job_id, look=session.check_interrupt)
    except Refused:
        if not session.client_is_gone:
            with suppress(Unavailable):  # a job that steps all the time has soon ended
                guard = services.member.guard
                admin.command_now(services.store, "cancel", (job_id,), admin.SYSTEM, guard)
        raise
    told = {"query": finished.query, "seq_num": finished.seq_num}
    session.settings.put("tidb_last_ddl_info", msgspec.json.encode(told).decode())
    error = finished.error()
    if error is not None:
        raise error
    return finished


def noted(error: Refused) -> Result:
    """IF [NOT] EXISTS: nothing done, the error is a note."""
    return Result(warnings=[Note("Note", error.code, error.message)])
