"""Transaction control, USE, KILL, PREPARE and EXECUTE, and statements without effect."""

from collections.abc import Callable

from sqlglot import exp

from exuvia.base.errors import Refused, Unavailable
from exuvia.base.mysql_errors import (
    ErrCantExecuteInReadOnlyTransaction,
    ErrKillDenied,
    ErrNoDB,
    ErrNoSuchThread,
    ErrNotSupportedYet,
    ErrResourceGroupNotExists,
    ErrResourceGroupSupportDisabled,
    ErrSpDoesNotExist,
    ErrUnknown,
    ErrUnknownStmtHandler,
)
from exuvia.catalog.convert.values import LENIENT, text_of
from exuvia.catalog.placement import find_group
from exuvia.sql import types
from exuvia.sql.accounts.users import change
from exuvia.sql.evaluate.cast import caster
from exuvia.sql.nodes import (
    Begin,
    Commit,
    DeallocateStatement,
    ExecuteStatement,
    Flush,
    Kill,
    LockTables,
    PrepareStatement,
    ReleaseSavepoint,
    Rollback,
    SetResourceGroup,
    SetSavepoint,
    UnlockTables,
    Unsupported,
    Use,
)
from exuvia.sql.parse.literals import letter_of
from exuvia.sql.result import Result
from exuvia.sql.select import relational
from exuvia.sql.session.prepared import describe
from exuvia.sql.session.stale_read import time_of
from exuvia.sql.statement.context import Context, Ready, SessionApi


def begin(session: SessionApi, node: Begin, text: str) -> Result:
    """BEGIN, START TRANSACTION. Commits an open transaction.

    The first read takes the snapshot. WITH CONSISTENT SNAPSHOT takes it now: mysqldump needs this
    to read many tables of one moment. READ ONLY AS OF TIMESTAMP raises 8135, 1105, 1292, 8055."""
    time, as_of = None, node.as_of
    if as_of is not None:
        time = session.look(lambda context: time_of(as_of, context))
    transaction = session.begin(node.read_only, node.pessimistic, time)
    if node.consistent_snapshot:
        try:
            transaction.txn.open()
        except (Refused, Unavailable):
            session.rollback()
            raise
        transaction.answered = True
    return Result()


def commit(session: SessionApi, node: Commit, text: str) -> Result:
    """COMMIT [AND CHAIN] [RELEASE]."""
    _complete(session, node, session.commit)
    return Result()


def _complete(session: SessionApi, node: Commit | Rollback, end: Callable[[], None]) -> None:
    """Ends the transaction and drops the settings of SET TRANSACTION.

    AND CHAIN begins a transaction with the same characteristics, RELEASE ends the connection.
    Without either, completion_type applies."""
    chain, release = node.chain, node.release
    if chain is None and release is None:
        completion = session.settings.completion
        chain, release = completion == "CHAIN", completion == "RELEASE"
    former = session.current
    end()
    session.forget_next_transaction()
    if release:
        session.is_released = True
    elif chain and former is None:
        session.begin()
    elif chain and former is not None:
        session.begin(former.read_only, former.pessimistic).read_committed = former.read_committed


def rollback(session: SessionApi, node: Rollback, text: str) -> Result:
    """ROLLBACK [TO savepoint | AND CHAIN | RELEASE]. Raises 1305."""
    if node.savepoint is None:
        _complete(session, node, session.rollback)
    elif session.current is None:
        raise ErrSpDoesNotExist("SAVEPOINT", node.savepoint)
    else:
        session.current.back_to(node.savepoint)
    return Result()


def set_resource_group(session: SessionApi, node: SetResourceGroup, text: str) -> Result:
    """SET RESOURCE GROUP, the value of CURRENT_RESOURCE_GROUP(). Raises 8249, 8250."""
    if session.variable("tidb_enable_resource_control") != "ON":
        raise ErrResourceGroupSupportDisabled()
    with session.services.store.read() as txn:
        group = find_group(txn, node.name)
    if group is None:
        raise ErrResourceGroupNotExists(node.name)
    session.resource_group = group.name.O
    return Result()


def savepoint(session: SessionApi, node: SetSavepoint, text: str) -> Result:
    """SAVEPOINT. Does nothing outside a transaction, as in MySQL."""
    if session.current is None and not session.settings.autocommit:
        session.begin()
    if session.current is not None:
        session.current.savepoint(node.name)
    return Result()


def release(session: SessionApi, node: ReleaseSavepoint, text: str) -> Result:
    """RELEASE SAVEPOINT. Raises 1305."""
    if session.current is None:
        raise ErrSpDoesNotExist("SAVEPOINT", node.name)
    session.current.release(node.name)
    return Result()


def use(session: SessionApi, node: Use, text: str) -> Result:
    """USE. Raises 1049, or 1046 for an empty name."""
    if not node.database:
        raise ErrNoDB()
    refusal = session.rights.database_refusal(node.database)
    if refusal is not None:
        raise refusal
    with session.services.store.read() as txn:
        database = session.services.schemas.database(txn, node.database)
    session.database = database.db_name.O
    session.settings.put("character_set_database", database.charset)
    session.settings.put("collation_database", database.collate)
    return Result()


def kill(session: SessionApi, node: Kill, text: str) -> Result:
    """KILL [CONNECTION | QUERY] id, on any node. Raises 1094, 1095, 1105."""

    def work(context: Context) -> Result:
        value, kind = relational.scalar_value(node.connection, context)
        to_integer = caster(kind, types.BIGINT)
        number = 0 if value is None else to_integer(value, context) if to_integer else value
        may_all = {"SUPER", "CONNECTION_ADMIN"} & session.rights.everywhere
        only_of = None if may_all else session.user
        done = session.services.processes.kill(number, node.query_only, only_of)
        if done != "killed":
            raise ErrNoSuchThread(number) if done == "unknown" else ErrKillDenied(number)
        return Result()

    return session.run(work)


def prepare(session: SessionApi, node: PrepareStatement, text: str) -> Result:
    """PREPARE name FROM 'text' or @variable."""
    source = node.source
    if isinstance(source, exp.Parameter):
        value, kind = session.user_variable(source.name)
        statement_text = "NULL" if value is None else text_of(value, kind, LENIENT)
    else:
        statement_text = source.name
    session.prepared.pop(node.name.lower(), None)
    session.prepared[node.name.lower()] = describe(session, statement_text)
    return Result()


def execute(session: SessionApi, node: ExecuteStatement, text: str) -> Result:
    """EXECUTE name USING @a, @b. Raises 1243, 1210."""
    prepared = _prepared(session, node.name, "EXECUTE")
    variables_given = [session.user_variable(variable) for variable in node.variables]
    collation = session.settings.get("collation_connection")
    letters = "".join([letter_of(value, kind, collation) for value, kind in variables_given])
    return prepared.run(session, [value for value, _ in variables_given], letters)


def deallocate(session: SessionApi, node: DeallocateStatement, text: str) -> Result:
    """DEALLOCATE PREPARE name. Raises 1243."""
    _prepared(session, node.name, "DEALLOCATE PREPARE")
    del session.prepared[node.name.lower()]
    return Result()


def _prepared(session: SessionApi, name: str, what: str) -> Ready:
    prepared = session.prepared.get(name.lower())
    if prepared is None:
        raise ErrUnknownStmtHandler(name, what)
    return prepared


def lock_tables(session: SessionApi, node: LockTables, text: str) -> Result:
    """LOCK TABLES commits the open transaction and locks nothing: dumps read one snapshot instead.

    Raises 1792 for a WRITE lock in a READ ONLY session."""
    session.commit()
    if session.settings.read_only and any(mode == "write" for _, mode in node.locks):
        raise ErrCantExecuteInReadOnlyTransaction()
    return Result()


def unlock_tables(session: SessionApi, node: UnlockTables, text: str) -> Result:
    return Result()


def flush(session: SessionApi, node: Flush, text: str) -> Result:
    """FLUSH. STATS_DELTA writes row counts, PRIVILEGES reloads accounts; other options do nothing.

    A lock is refused: 1105 as in TiDB, or 1235 in mysql mode."""
    if node.lock:
        if node.lock == "WITH READ LOCK" and session.variable("exuvia_compatibility") != "mysql":
            words = "FLUSH TABLES WITH READ LOCK is not supported.  Please use @@tidb_snapshot"
            raise ErrUnknown(words)
        message = (
            f"FLUSH TABLES {node.lock} is not supported: read one snapshot by START TRANSACTION "
            "WITH CONSISTENT SNAPSHOT (mysqldump --single-transaction, mydumper --no-locks), or "
            "refuse writes by SET GLOBAL super_read_only = ON"
        )
        raise ErrNotSupportedYet.with_text(message)
    if "STATS_DELTA" in node.options and session.services.deltas is not None:
        session.services.deltas.flush()
    if "PRIVILEGES" in node.options:
        change(session, lambda txn, book: None, writes=False)
    return Result()


def unsupported(session: SessionApi, node: Unsupported, text: str) -> Result:
    """Refuses a known statement that is not implemented."""
    raise ErrNotSupportedYet(node.what)
