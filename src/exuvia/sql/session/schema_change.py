"""Running statements that change the schema: the only place where a session submits jobs.

    commit the open transaction -> a snapshot -> build (sql/schema) -> Change
        -> the session's temporary tables -> submit each job and wait -> OK, notes or an error

If a job waited long for other transactions, a note names them (statement/job_waits.py).

With exuvia_ddl_async = ON, or in a group, the session does not wait. The result is a row for each
job, and ADMIN WAIT DDL JOBS waits. CREATE TABLE ... AS SELECT loads its rows and always waits.

A job may be refused at its first step because of jobs before it in the queue. The statement is then
built again, and submitted again if it builds another job, or if only a revision had changed (1412).
CREATE TABLE ... AS SELECT is built again, too, if its query has other columns once rows are read.

As in TiDB a schema change commits the open transaction, unless it is about temporary tables only.
"""

from collections.abc import Sequence
from contextlib import suppress

import msgspec

from exuvia.base.errors import Refused, Unavailable
from exuvia.base.mysql_errors import (
    ErrCancelledDDLJob,
    ErrQueryInterrupted,
    ErrSpecificAccessDenied,
    ErrTableDefChanged,
    ErrUnknown,
)
from exuvia.catalog.model import evolve
from exuvia.catalog.sysvar import variables
from exuvia.ddl import admin, queue
from exuvia.ddl.actions.table import is_batch
from exuvia.ddl.job import BEFORE_PUBLIC, Job
from exuvia.ddl.submit import failed_with_others
from exuvia.sql import planner
from exuvia.sql.nodes import CreateTable, DropTable, TableName
from exuvia.sql.parse.secrets import without_secrets
from exuvia.sql.parse.syntax_error import unmarked
from exuvia.sql.result import Note, Result, Row
from exuvia.sql.schema.change import (
    Absent,
    Build,
    Change,
    CreateTemporary,
    DropTemporary,
    JobRequest,
    Local,
    SchemaReader,
    SelectedRows,
)
from exuvia.sql.session import create_select
from exuvia.sql.show.listing import columns_of
from exuvia.sql.statement.context import Context, SessionApi
from exuvia.sql.statement.temporary import new_id
from exuvia.stats.meta import Delta

ATTEMPTS = 64
_ACTION = "exuvia_ddl_wait_timeout_action"


class NothingDone(Refused):
    """The error of a job that was refused at its first step, before any change."""


def change_schema(session: SessionApi, build: Build, node: object, text: str) -> Result:
    """Runs the Change that `build` returns for the statement. Raises its errors and its job's."""
    session.changed_schema = True
    session.waits.begin()
    if not stays_in_transaction(session, node):
        session.commit()
    text = unmarked(text)
    change = _built(session, build, node, text)
    group = session.variable("exuvia_ddl_group")
    if change.rows is not None and group:
        raise ErrUnknown("CREATE TABLE ... AS SELECT cannot be one of a group")
    for attempt in range(1, ATTEMPTS + 1):
        try:
            filled = _filled(session, change)
            break
        except Refused as error:  # no table is left
            if error.code != ErrTableDefChanged.code or attempt == ATTEMPTS:
                raise
        change = _built(session, build, node, text)
    if filled is not None:
        return filled
    if group or session.variable("exuvia_ddl_async") == "ON":
        return _submitted(session, change)
    ended: list[Note] = []
    for attempt in range(1, ATTEMPTS + 1):
        absent, refused = _run_all(session, change, ended)
        if refused is None or len(change.jobs) > 1 or attempt == ATTEMPTS:
            break
        former_jobs, change = change.jobs, _built(session, build, node, text)
        # an unchanged table has changed twice meanwhile
        if change.jobs == former_jobs and refused.code != ErrTableDefChanged.code:
            break
    if refused is not None and refused.code not in change.existence.codes:
        raise refused
    notes = (*change.told(absent), *ended, *session.waits.notes())
    if absent:
        return Result(warnings=notes)
    if change.leaves_database:
        session.database = ""
    return Result(affected=change.affected, warnings=notes)


def _filled(session: SessionApi, change: Change) -> Result | None:
    """Applies a change of temporary tables, and loads the rows of a new table. None if no rows are
    loaded. Raises 1412 if the query has other columns now than when the change was built."""
    for local_change in change.local:
        filled = _change_locally(session, local_change)
        if filled is not None:
            return filled
    return None if change.rows is None else _create_filled(session, change, change.rows)


def stays_in_transaction(session: SessionApi, node: object) -> bool:
    """Whether the statement is only about temporary tables."""
    if isinstance(node, CreateTable):
        return node.temporary
    if isinstance(node, DropTable) and node.kind == "table":
        return node.temporary or all(
            _is_temporary(session, table_name) for table_name in node.tables
        )
    return False


def _is_temporary(session: SessionApi, name: TableName) -> bool:
    temporary = session.temporary
    return (
        temporary is not None and temporary.find(name.db or session.database, name.name) is not None
    )


def _built(session: SessionApi, build: Build, node: object, text: str) -> Change:
    """The change, built in a separate snapshot.

    A query for the rows of a temporary table is part of the open transaction, so that change is
    built in it."""
    if not (isinstance(node, CreateTable) and node.temporary and node.query is not None):
        return session.look(lambda context: build(SchemaReader(context), node, text))
    changes: list[Change] = []

    def work(context: Context) -> Result:
        changes[:] = [build(SchemaReader(context), node, text)]
        return Result()

    session.run(work)
    return changes[0]


# -- jobs ------------------------------------------------------------------------------------------


def _run_all(
    session: SessionApi, change: Change, ended: list[Note]
) -> tuple[list[tuple[str, Refused | None]], NothingDone | None]:
    """Runs the jobs to their ends.

    Returns the names of absent objects, and the error of a job refused at its first step. Raises
    other errors of jobs. Adds notes about ended transactions to `ended`."""
    absent: list[tuple[str, Refused | None]] = []
    refused = None
    for request in change.jobs:
        if isinstance(request, Absent):
            absent.append((request.name, None))
            continue
        try:
            finished = submit(session, request.job)
            ended += [_note_of_ended(who) for who in finished.exuvia_ended]
        except NothingDone as error:
            refused = error
            if error.code not in change.existence.codes:
                break
            absent.append((request.name, error))
    return absent, refused


def _submitted(session: SessionApi, change: Change) -> Result:
    """Submits the jobs without waiting; the result lists them."""
    rows: list[Row] = []
    absent: list[tuple[str, Refused | None]] = []
    notes: list[Note] = []
    for request in change.jobs:
        if isinstance(request, Absent):
            absent.append((request.name, None))
            continue
        job = with_client_settings(session, request.job)
        group, admit = session.variable("exuvia_ddl_group"), session.admit_change
        submitter, held_before = session.services.submitter, job.exuvia_hold or None
        if group:
            submitted, held_before = submitter.submit_to_group(job, group, admit), BEFORE_PUBLIC
            notes += _notes_of_other_settings(job, submitted)
        else:
            submitted = evolve(job, id=submitter.submit_alone(job, admit))
        rows.append([submitted.id, submitted.action_text, job.query, held_before])
    if change.leaves_database:
        session.database = ""
    columns = columns_of("JOB_ID# JOB_TYPE QUERY:1024 HELD_BEFORE")
    return Result(columns, rows, warnings=(*change.told(absent), *notes))


_WAITS = {
    "exuvia_wait_timeout_s": "exuvia_ddl_wait_timeout_s",
    "exuvia_wait_kills": _ACTION,
    "exuvia_window": "exuvia_ddl_window",
}


def _notes_of_other_settings(own: Job, joined: Job) -> Sequence[Note]:
    """Warns about settings of the statement that differ from those of the job that it joined."""
    names = [
        name for field, name in _WAITS.items() if getattr(own, field) != getattr(joined, field)
    ]
    if not names:
        return ()
    text = f"joined job {joined.id}, which keeps its own {', '.join(names)}"
    return (Note("Warning", ErrUnknown.code, text),)


def submit(session: SessionApi, job: Job) -> Job:
    """Runs a job to its end. Raises its error."""
    job = with_client_settings(session, job)
    submitter = session.services.submitter
    is_plain = not (job.exuvia_hold or job.exuvia_window or job.exuvia_wait_timeout_s)
    ask = submitter.submit_nowait if is_plain else submitter.submit_alone
    finished = _waited(session, ask(job, session.admit_change), not job.exuvia_wait_timeout_s)
    if failed_with_others(job, finished):
        finished = _waited(session, submitter.submit_alone(job, session.admit_change))
    return _ended(session, finished)


def with_client_settings(session: SessionApi, job: Job) -> Job:
    """The job with the client's name, and with the session's settings for waiting and holding.

    Raises 1227 if the job would end transactions and the client may not KILL others."""
    hold, window = _hold_and_window(session)
    timeout_s = int(session.variable("exuvia_ddl_wait_timeout_s"))
    kills = timeout_s > 0 and session.variable(_ACTION).lower() == "kill"
    if kills and not {"SUPER", "CONNECTION_ADMIN"} & session.rights.everywhere:
        with session.services.store.read() as txn:
            # the global setting applies to all clients
            if variables.get_global(txn, _ACTION).lower() != "kill":
                raise ErrSpecificAccessDenied("SUPER or CONNECTION_ADMIN")
    return evolve(
        job,
        query=without_secrets(job.query, is_parsed=True),
        exuvia_by=f"{session.user}@{session.host}",
        exuvia_hold="" if hold == "off" else hold,
        exuvia_wait_timeout_s=timeout_s,
        exuvia_wait_kills=kills,
        exuvia_window=window,
    )


def _hold_and_window(session: SessionApi) -> tuple[str, str]:
    """The values of exuvia_ddl_hold and exuvia_ddl_window for a job of the session.

    GLOBAL values apply to all accounts without SUPER, which ADMIN COMPLETE DDL JOBS requires."""
    in_effect = {name: session.variable(name) for name in ("exuvia_ddl_hold", "exuvia_ddl_window")}
    if "SUPER" not in session.rights.everywhere:
        with session.services.store.read() as txn:
            for name in in_effect:
                set_for_all = variables.get_global(txn, name)
                if set_for_all != variables.find(name).default:
                    in_effect[name] = set_for_all
    return in_effect["exuvia_ddl_hold"].lower(), in_effect["exuvia_ddl_window"]


def _note_of_ended(who: str) -> Note:
    text = f"{ErrQueryInterrupted().message}: the transaction of {who} was in the way"
    return Note("Warning", ErrQueryInterrupted.code, text)


def _waited(session: SessionApi, job_id: int, to_end: bool = True) -> Job:
    """Waits for a submitted job. Without `to_end`, also returns when an overdue job turns back.

    A kill ends the wait (1317) and cancels the job, unless it also creates tables of other
    sessions. If the client disconnects, the job continues."""
    services = session.services
    try:
        with session.waits.watch(job_id, session.check_interrupt) as look:
            return services.submitter.wait(job_id, look=look, to_end=to_end)
    except Refused:
        if not session.client_is_gone and not _is_shared(session, job_id):
            with suppress(Unavailable):  # a job that changes all the time has soon ended
                guard = services.member.guard
                admin.command_now(services.store, "cancel", (job_id,), admin.SYSTEM, guard)
        raise


def _is_shared(session: SessionApi, job_id: int) -> bool:
    with session.services.store.read() as txn:
        job = queue.get(txn, job_id)
    return job is not None and is_batch(job)


def _ended(session: SessionApi, finished: Job) -> Job:
    """Returns a finished job, or raises its error."""
    if finished.seq_num:
        info = {"query": finished.query, "seq_num": finished.seq_num}
        session.settings.put("tidb_last_ddl_info", msgspec.json.encode(info).decode())
    error = finished.error()
    if error is None:
        return finished
    turned_back = finished.exuvia_overdue or error.code == ErrCancelledDDLJob.code
    if finished.begun or turned_back:
        raise error
    raise NothingDone(error.code, error.state, error.message, error.listing)


def _create_filled(session: SessionApi, change: Change, selected: SelectedRows) -> Result:
    """CREATE TABLE ... AS SELECT: the job waits while the session loads the rows.

    Leaves no transaction open, even if autocommit is off and the query has read."""
    (request,) = change.jobs
    assert isinstance(request, JobRequest)
    try:
        job = create_select.with_loader(session, request.job)
        job_id = session.services.submitter.submit_nowait(
            with_client_settings(session, job), session.admit_change
        )
        loaded = create_select.load(session, job_id, selected)
        finished = _ended(session, _waited(session, job_id))
    except Refused as error:
        if error.code not in change.existence.codes:
            raise
        return Result(warnings=change.told([(request.name, error)]))
    finally:
        session.rollback()
    rows, warnings = loaded.affected, (*loaded.warnings, *session.waits.notes())
    if session.services.deltas is not None:
        session.services.deltas.merge({finished.table_id: Delta(rows, rows)})
    info = f"Records: {rows}  Duplicates: 0  Warnings: {len(warnings)}"
    return Result(affected=rows, warnings=warnings, info=info)


# -- the session's temporary tables ----------------------------------------------------------------


def _change_locally(session: SessionApi, change: Local) -> Result | None:
    """Applies a change of temporary tables; returns the result of loading a new table's rows."""
    if isinstance(change, CreateTemporary):
        return _create_temporary(session, change)
    temporary = session.temporary_tables()
    if isinstance(change, DropTemporary):
        for table in change.tables:
            temporary.drop(table)
        session.settle_temporary()
    else:
        table = change.table
        temporary.drop(table)
        temporary.add(evolve(table.info, id=new_id(), auto_inc_id=0), table.database)
    return None


def _create_temporary(session: SessionApi, new: CreateTemporary) -> Result | None:
    selected = None
    if new.rows is not None:
        query = new.rows.query
        selected = session.run(
            lambda context: planner.plan(query, context, stored=True).run(context)
        )
        if tuple(selected.columns) != tuple(new.rows.columns):
            raise ErrTableDefChanged()
    temporary = session.temporary_tables()
    temporary.add(new.info, new.database)
    if selected is None:
        return None
    table = temporary.by_id(new.info.id)
    assert table is not None
    try:
        return create_select.fill_temporary(session, table, new, selected)
    except Refused:
        temporary.drop(table)
        raise
