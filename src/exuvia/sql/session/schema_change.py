"""A statement that changes the schema, run: the one place where a session submits jobs.

    commit what is open -> a snapshot -> build (sql/schema) -> Change
        -> the session's own tables -> each job submitted and waited for -> OK, notes or an error

What a job waited for, if it was long, is a note (statement/job_waits.py).

With exuvia_ddl_async = ON, or in a group, nothing is waited for: the answer is a row for each job,
and ADMIN WAIT DDL JOBS waits. CREATE TABLE ... AS SELECT loads its rows itself, and is waited for.

What a job is refused with at its first look may come of others that stood before it in the queue:
the statement is built anew, as one outside of a transaction is planned anew. If it still can be
done, and is another job now, or the table was another one only meanwhile (1412), it is submitted.

As in TiDB a schema change ends the open transaction, unless it is about temporary tables alone.
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
    """What a job was refused with at its first look."""


def change_schema(session: SessionApi, build: Build, node: object, text: str) -> Result:
    """Run the change that `build` makes of the statement. Raises what it refuses, or ends with."""
    session.changed_schema = True
    session.waits.begin()
    if not stays_in_transaction(session, node):
        session.commit()
    text = unmarked(text)
    change = _built(session, build, node, text)
    for each in change.local:
        filled = _change_locally(session, each)
        if filled is not None:
            return filled
    group = session.variable("exuvia_ddl_group")
    if change.rows is not None:
        if group:
            raise ErrUnknown("CREATE TABLE ... AS SELECT cannot be one of a group")
        return _create_filled(session, change, change.rows)
    if group or session.variable("exuvia_ddl_async") == "ON":
        return _submitted(session, change)
    ended: list[Note] = []
    for attempt in range(1, ATTEMPTS + 1):
        absent, refused = _run_all(session, change, ended)
        if refused is None or len(change.jobs) > 1 or attempt == ATTEMPTS:
            break
        asked, change = change.jobs, _built(session, build, node, text)
        # a table that is again as it was seen has changed twice
        if change.jobs == asked and refused.code != ErrTableDefChanged.code:
            break
    if refused is not None and refused.code not in change.existence.codes:
        raise refused
    notes = (*change.told(absent), *ended, *session.waits.notes())
    if absent:
        return Result(warnings=notes)
    if change.leaves_database:
        session.database = ""
    return Result(affected=change.affected, warnings=notes)


def stays_in_transaction(session: SessionApi, node: object) -> bool:
    """Whether it is about temporary tables alone."""
    if isinstance(node, CreateTable):
        return node.temporary
    if isinstance(node, DropTable) and node.kind == "table":
        return node.temporary or all(_is_temporary(session, each) for each in node.tables)
    return False


def _is_temporary(session: SessionApi, name: TableName) -> bool:
    held = session.temporary
    return held is not None and held.find(name.db or session.database, name.name) is not None


def _built(session: SessionApi, build: Build, node: object, text: str) -> Change:
    """The change, in a snapshot of its own; of a query whose rows are for a temporary table, in the
    open transaction, which the query is part of."""
    if not (isinstance(node, CreateTable) and node.temporary and node.query is not None):
        return session.look(lambda context: build(SchemaReader(context), node, text))
    found: list[Change] = []

    def work(context: Context) -> Result:
        found[:] = [build(SchemaReader(context), node, text)]
        return Result()

    session.run(work)
    return found[0]


# -- jobs ------------------------------------------------------------------------------------------


def _run_all(
    session: SessionApi, change: Change, ended: list[Note]
) -> tuple[list[tuple[str, Refused | None]], NothingDone | None]:
    """Run the jobs to their ends: what turns out to be absent, and what a job was refused with at
    its first look. Raises what else one ends with. `ended`: it adds the transactions that were
    ended for their sake."""
    absent: list[tuple[str, Refused | None]] = []
    refused = None
    for wanted in change.jobs:
        if isinstance(wanted, Absent):
            absent.append((wanted.name, None))
            continue
        try:
            finished = submit(session, wanted.job)
            ended += [_of_ended(who) for who in finished.exuvia_ended]
        except NothingDone as error:
            refused = error
            if error.code not in change.existence.codes:
                break
            absent.append((wanted.name, error))
    return absent, refused


def _submitted(session: SessionApi, change: Change) -> Result:
    """Ask for the jobs, and say which they are."""
    found: list[Row] = []
    absent: list[tuple[str, Refused | None]] = []
    notes: list[Note] = []
    for wanted in change.jobs:
        if isinstance(wanted, Absent):
            absent.append((wanted.name, None))
            continue
        job = asked_by(session, wanted.job)
        group, admit = session.variable("exuvia_ddl_group"), session.admit_change
        submitter, held_before = session.services.submitter, job.exuvia_hold or None
        if group:
            made, held_before = submitter.submit_to_group(job, group, admit), BEFORE_PUBLIC
            notes += _of_unheeded(job, made)
        else:
            made = evolve(job, id=submitter.submit_alone(job, admit))
        found.append([made.id, made.action_text, job.query, held_before])
    if change.leaves_database:
        session.database = ""
    columns = columns_of("JOB_ID# JOB_TYPE QUERY:1024 HELD_BEFORE")
    return Result(columns, found, warnings=(*change.told(absent), *notes))


_WAITS = {
    "exuvia_wait_timeout_s": "exuvia_ddl_wait_timeout_s",
    "exuvia_wait_kills": _ACTION,
    "exuvia_window": "exuvia_ddl_window",
}


def _of_unheeded(asked: Job, made: Job) -> Sequence[Note]:
    """Settings of the statement that are not those of the job that it joined."""
    names = [
        name for field, name in _WAITS.items() if getattr(asked, field) != getattr(made, field)
    ]
    if not names:
        return ()
    text = f"it joined job {made.id}, whose {', '.join(names)} stand"
    return (Note("Warning", ErrUnknown.code, text),)


def submit(session: SessionApi, job: Job) -> Job:
    """Run a job to its end. Raises what it ended with."""
    job = asked_by(session, job)
    submitter = session.services.submitter
    is_plain = not (job.exuvia_hold or job.exuvia_window or job.exuvia_wait_timeout_s)
    ask = submitter.submit_nowait if is_plain else submitter.submit_alone
    finished = _waited(session, ask(job, session.admit_change), not job.exuvia_wait_timeout_s)
    if failed_with_others(job, finished):
        finished = _waited(session, submitter.submit_alone(job, session.admit_change))
    return _ended(session, finished)


def asked_by(session: SessionApi, job: Job) -> Job:
    """The job with the client's name in it, and where and for how long the client wants it to wait.
    Raises 1227: who may not KILL others ends none of theirs."""
    hold, window = _hold_and_window(session)
    timeout_s = int(session.variable("exuvia_ddl_wait_timeout_s"))
    kills = timeout_s > 0 and session.variable(_ACTION).lower() == "kill"
    if kills and not {"SUPER", "CONNECTION_ADMIN"} & session.rights.everywhere:
        with session.services.store.read() as txn:
            if variables.get_global(txn, _ACTION).lower() != "kill":  # then it is wanted of all
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
    """exuvia_ddl_hold and exuvia_ddl_window for a job of the session. The GLOBAL values apply to
    all accounts without SUPER, which ADMIN COMPLETE DDL JOBS requires."""
    found = {name: session.variable(name) for name in ("exuvia_ddl_hold", "exuvia_ddl_window")}
    if "SUPER" not in session.rights.everywhere:
        with session.services.store.read() as txn:
            for name in found:
                set_for_all = variables.get_global(txn, name)
                if set_for_all != variables.find(name).default:
                    found[name] = set_for_all
    return found["exuvia_ddl_hold"].lower(), found["exuvia_ddl_window"]


def _of_ended(who: str) -> Note:
    text = f"{ErrQueryInterrupted().message}: the transaction of {who} was in the way"
    return Note("Warning", ErrQueryInterrupted.code, text)


def _waited(session: SessionApi, job_id: int, to_end: bool = True) -> Job:
    """A submitted job at its end; without `to_end` one that is overdue as soon as it turns back.

    A kill ends the wait (1317) and cancels the job, unless other sessions' tables are made by it
    too; without its client the job goes on."""
    services = session.services
    try:
        with session.waits.watch(job_id, session.check_interrupt) as look:
            return services.submitter.wait(job_id, look=look, to_end=to_end)
    except Refused:
        if not session.client_is_gone and not _is_shared(session, job_id):
            with suppress(Unavailable):  # a job that steps all the time has soon ended
                guard = services.member.guard
                admin.command_now(services.store, "cancel", (job_id,), admin.SYSTEM, guard)
        raise


def _is_shared(session: SessionApi, job_id: int) -> bool:
    with session.services.store.read() as txn:
        job = queue.get(txn, job_id)
    return job is not None and is_batch(job)


def _ended(session: SessionApi, finished: Job) -> Job:
    """A finished job. Raises what it ended with."""
    if finished.seq_num:
        told = {"query": finished.query, "seq_num": finished.seq_num}
        session.settings.put("tidb_last_ddl_info", msgspec.json.encode(told).decode())
    error = finished.error()
    if error is None:
        return finished
    turned_back = finished.exuvia_overdue or error.code == ErrCancelledDDLJob.code
    if finished.begun or turned_back:
        raise error
    raise NothingDone(error.code, error.state, error.message, error.listing)


def _create_filled(session: SessionApi, change: Change, selected: SelectedRows) -> Result:
    """CREATE TABLE ... AS SELECT: the job waits while the rows are put where nobody sees them.

    It leaves no transaction open, also where autocommit is off and the query has read."""
    (wanted,) = change.jobs
    assert isinstance(wanted, JobRequest)
    try:
        job = create_select.with_loader(session, wanted.job)
        job_id = session.services.submitter.submit_nowait(
            asked_by(session, job), session.admit_change
        )
        loaded = create_select.load(session, job_id, selected)
        made = _ended(session, _waited(session, job_id))
    except Refused as error:
        if error.code not in change.existence.codes:
            raise
        return Result(warnings=change.told([(wanted.name, error)]))
    finally:
        session.rollback()
    rows, warnings = loaded.affected, (*loaded.warnings, *session.waits.notes())
    if session.services.deltas is not None:
        session.services.deltas.merge({made.table_id: Delta(rows, rows)})
    told = f"Records: {rows}  Duplicates: 0  Warnings: {len(warnings)}"
    return Result(affected=rows, warnings=warnings, info=told)


# -- the session's own tables ----------------------------------------------------------------------


def _change_locally(session: SessionApi, wanted: Local) -> Result | None:
    """Done at once; of a table that is filled, what came of its rows."""
    if isinstance(wanted, CreateTemporary):
        return _create_temporary(session, wanted)
    held = session.temporary_tables()
    if isinstance(wanted, DropTemporary):
        for table in wanted.tables:
            held.drop(table)
        session.settle_temporary()
    else:
        table = wanted.table
        held.drop(table)
        held.add(evolve(table.info, id=new_id(), auto_inc_id=0), table.database)
    return None


def _create_temporary(session: SessionApi, new: CreateTemporary) -> Result | None:
    found = None
    if new.rows is not None:
        query = new.rows.query
        found = session.run(lambda context: planner.plan(query, context, stored=True).run(context))
        if tuple(found.columns) != tuple(new.rows.columns):
            raise ErrTableDefChanged()
    held = session.temporary_tables()
    held.add(new.info, new.database)
    if found is None:
        return None
    table = held.by_id(new.info.id)
    assert table is not None
    try:
        return create_select.fill_temporary(session, table, new, found)
    except Refused:
        held.drop(table)
        raise
