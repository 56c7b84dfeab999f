"""Transaction control, USE, KILL, PREPARE ... EXECUTE, and what is accepted and does nothing."""

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
    """BEGIN, START TRANSACTION: commits what is open. The snapshot is taken by the first read, or
    now WITH CONSISTENT SNAPSHOT (mysqldump reads many tables as they stand when it asks for it).
    READ ONLY AS OF TIMESTAMP: raises 8135, 1105, 1292, 8055."""
    time, as_of = None, node.as_of
    if as_of is not None:
        time = session.look(lambda context: time_of(as_of, context))
    begun = session.begin(node.read_only, node.pessimistic, time)
    if node.consistent_snapshot:
        try:
            begun.txn.open()
        except (Refused, Unavailable):
            session.rollback()
            raise
        begun.answered = True
    return Result()


def commit(session: SessionApi, node: Commit, text: str) -> Result:
    """COMMIT [AND CHAIN] [RELEASE]."""
    _complete(session, node, session.commit)
    return Result()


def _complete(session: SessionApi, node: Commit | Rollback, end: Callable[[], None]) -> None:
    """End the transaction, and what SET TRANSACTION set for the next one.

    AND CHAIN begins another with the same characteristics, RELEASE ends the connection. A statement
    with neither follows completion_type."""
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
    """SET RESOURCE GROUP, which CURRENT_RESOURCE_GROUP() tells. Raises 8249, 8250."""
    if session.variable("tidb_enable_resource_control") != "ON":
        raise ErrResourceGroupSupportDisabled()
    with session.services.store.read() as txn:
        found = find_group(txn, node.name)
    if found is None:
        raise ErrResourceGroupNotExists(node.name)
    session.resource_group = found.name.O
    return Result()


def savepoint(session: SessionApi, node: SetSavepoint, text: str) -> Result:
    """SAVEPOINT; outside a transaction it does nothing, as in MySQL."""
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
    """USE. Raises 1049, 1046 (no name at all)."""
    if not node.database:
        raise ErrNoDB()
    hidden = session.rights.database_refusal(node.database)
    if hidden is not None:
        raise hidden
    with session.services.store.read() as txn:
        found = session.services.schemas.database(txn, node.database)
    session.database = found.db_name.O
    session.settings.put("character_set_database", found.charset)
    session.settings.put("collation_database", found.collate)
    return Result()


def kill(session: SessionApi, node: Kill, text: str) -> Result:
    """KILL [CONNECTION | QUERY] id, of any node. Raises 1094, 1095, 1105."""

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
        said = "NULL" if value is None else text_of(value, kind, LENIENT)
    else:
        said = source.name
    session.prepared.pop(node.name.lower(), None)
    session.prepared[node.name.lower()] = describe(session, said)
    return Result()


def execute(session: SessionApi, node: ExecuteStatement, text: str) -> Result:
    """EXECUTE name USING @a, @b. Raises 1243, 1210."""
    prepared = _prepared(session, node.name, "EXECUTE")
    given = [session.user_variable(each) for each in node.variables]
    collation = session.settings.get("collation_connection")
    letters = "".join([letter_of(value, kind, collation) for value, kind in given])
    return prepared.run(session, [value for value, _ in given], letters)


def deallocate(session: SessionApi, node: DeallocateStatement, text: str) -> Result:
    """DEALLOCATE PREPARE name. Raises 1243."""
    _prepared(session, node.name, "DEALLOCATE PREPARE")
    del session.prepared[node.name.lower()]
    return Result()


def _prepared(session: SessionApi, name: str, what: str) -> Ready:
    found = session.prepared.get(name.lower())
    if found is None:
        raise ErrUnknownStmtHandler(name, what)
    return found


def lock_tables(session: SessionApi, node: LockTables, text: str) -> Result:
    """LOCK TABLES ends what is open and locks nothing: a dump reads one snapshot instead. Raises
    1792."""
    session.commit()
    if session.settings.read_only and any(mode == "write" for _, mode in node.locks):
        raise ErrCantExecuteInReadOnlyTransaction()
    return Result()


def unlock_tables(session: SessionApi, node: UnlockTables, text: str) -> Result:
    return Result()


def flush(session: SessionApi, node: Flush, text: str) -> Result:
    """FLUSH STATS_DELTA writes row counts; nothing else is held back. A lock is refused: as TiDB
    does (1105), in mysql mode 1235."""
    if node.lock:
        if node.lock == "WITH READ LOCK" and session.variable("exuvia_compatibility") != "mysql":
            words = "FLUSH TABLES WITH READ LOCK is not supported.  Please use @@tidb_snapshot"
            raise ErrUnknown(words)
        said = (
            f"FLUSH TABLES {node.lock} is not supported: read one snapshot by START TRANSACTION "
            "WITH CONSISTENT SNAPSHOT (mysqldump --single-transaction, mydumper --no-locks), or "
            "refuse writes by SET GLOBAL super_read_only = ON"
        )
        raise ErrNotSupportedYet.with_text(said)
    if "STATS_DELTA" in node.options and session.services.deltas is not None:
        session.services.deltas.flush()
    if "PRIVILEGES" in node.options:
        change(session, lambda txn, book: None, writes=False)
    return Result()


def unsupported(session: SessionApi, node: Unsupported, text: str) -> Result:
    """A statement that is known and not done."""
    raise ErrNotSupportedYet(node.what)
