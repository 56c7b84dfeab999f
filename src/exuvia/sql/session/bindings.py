"""CREATE, DROP and SET BINDING: bindings of the session, or global ones in mysql.bind_info.

As in TiDB an open transaction stays open, and a global binding is visible at once, even if the
transaction is rolled back. There is no history of plans, so FROM HISTORY never finds a plan. ADMIN
... BINDINGS works as in TiDB.
"""

from collections.abc import Callable

import msgspec

from exuvia.base.errors import Conflict
from exuvia.base.mysql_errors import ErrLockDeadlock, ErrUnknown
from exuvia.base.types import packed_moment
from exuvia.kv.transaction import Transaction
from exuvia.sql.nodes import (
    AdminBindings,
    CreateBinding,
    DropBinding,
    Insert,
    SetBinding,
    Statement,
)
from exuvia.sql.parse import normalized
from exuvia.sql.parse.text import parse_one
from exuvia.sql.result import Note, Result
from exuvia.sql.statement import bindings
from exuvia.sql.statement.bindings import DISABLED, ENABLED, MANUAL, PlanBinding
from exuvia.sql.statement.context import Context, SessionApi

_UNSUPPORTED = "create binding doesn't support this type of query"
_KINDS_DIFFER = "hinted sql and original sql have different query types"
_NO_SELECT = "create binding only supports INSERT / REPLACE INTO SELECT"
_DIFFERENT = (
    "hinted sql and origin sql don't match when hinted sql erase the hint info, after erase hint "
    "info, originSQL:{}, hintedSQL:{}"
)
# TiDB's text
_NONE_TO_SET = "There are no bindings can be set the status. Please check the SQL text"
_UNCHECKED = ("information_schema", "performance_schema", "metrics_schema")


def create_binding(session: SessionApi, node: CreateBinding, text: str) -> Result:
    """CREATE BINDING. Raises 1105 in TiDB's words if the query cannot be bound, 1146, 8200."""
    if node.plan_digest is not None:
        raise ErrUnknown(f"can't find any plans for '{node.plan_digest}'")
    if max(len(node.original), len(node.hinted)) > bindings.LONGEST:
        raise ErrUnknown(_UNSUPPORTED)
    original, hinted = parse_one(node.original), parse_one(node.hinted)
    if normalized.kind(original) != normalized.kind(hinted):
        raise ErrUnknown(_KINDS_DIFFER)
    for statement in (original, hinted):
        if isinstance(statement, Insert) and statement.query is None:
            raise ErrUnknown(_NO_SELECT)
    database = session.database
    before = _normalized(original, database)
    after = _normalized(hinted, database)
    if before != after:
        raise ErrUnknown(_DIFFERENT.format(before, after))
    session.look(lambda context: _check_tables(context, hinted))
    binding = _new_binding(session, before, _text(hinted, node.hinted, database))
    if node.is_global:
        _change(session, lambda txn: bindings.put(txn, binding))
    else:
        session.settings.bindings.own[binding.sql_digest] = binding
        session.settings.rebind()
    return Result()


def drop_binding(session: SessionApi, node: DropBinding, text: str) -> Result:
    """DROP BINDING. A missing binding is no error."""
    name = _digest(session, node)
    removed: list[bool] = []
    if node.is_global:
        _change(session, lambda txn: removed.append(bindings.remove(txn, name)))
    else:
        removed.append(session.settings.bindings.own.pop(name, None) is not None)
        session.settings.rebind()
    return Result(affected=int(removed[-1]))


def set_binding(session: SessionApi, node: SetBinding, text: str) -> Result:
    """SET BINDING ENABLED | DISABLED for a global binding; a warning if it does not exist."""
    name, status = _digest(session, node), ENABLED if node.enabled else DISABLED
    exists: list[bool] = []

    def work(txn: Transaction) -> None:
        before = bindings.find(txn, name)
        exists.append(before is not None)
        if before is not None and before.status != status:
            now = packed_moment(session.services.clock.wall_ns())
            bindings.put(txn, msgspec.structs.replace(before, status=status, update_time=now))

    _change(session, work)
    if exists[-1]:
        return Result()
    return Result(warnings=[Note("Warning", ErrUnknown.code, _NONE_TO_SET)])


_NEVER = {
    "capture": "Auto Capture is not supported",
    "evolve": "Cannot enable baseline evolution feature, it is not generally available now",
}


def admin_bindings(session: SessionApi, node: AdminBindings, text: str) -> Result:
    """ADMIN ... BINDINGS: RELOAD reads the global bindings again, FLUSH does nothing, else 1105."""
    if node.kind in _NEVER:
        raise ErrUnknown(_NEVER[node.kind])
    if node.kind == "reload":
        session.services.bindings.load(session.services.store)
        session.settings.rebind()
    return Result()


def _change(session: SessionApi, work: Callable[[Transaction], object]) -> None:
    """Writes mysql.bind_info in a separate transaction and reloads the bindings."""
    services = session.services

    def write(txn: Transaction) -> None:
        services.member.guard(txn)
        work(txn)

    try:
        services.store.transact(write)
    except Conflict:
        raise ErrLockDeadlock() from None
    services.bindings.load(services.store)
    session.settings.rebind()


def _digest(session: SessionApi, node: DropBinding | SetBinding) -> str:
    if node.sql_digest is not None:
        return node.sql_digest.lower()
    return normalized.digest(_normalized(parse_one(node.original), session.database))


def _normalized(node: Statement, database: str) -> str:
    text = normalized.normalized(node, database)
    if text is None:
        raise ErrUnknown(_UNSUPPORTED)
    return text


def _new_binding(session: SessionApi, original: str, hinted: str) -> PlanBinding:
    now = packed_moment(session.services.clock.wall_ns())
    return PlanBinding(
        original_sql=original,
        bind_sql=hinted,
        default_db=session.database,
        status=ENABLED,
        create_time=now,
        update_time=now,
        charset=session.variable("character_set_connection"),
        collation=session.variable("collation_connection"),
        source=MANUAL,
        sql_digest=normalized.digest(original),
    )


def _text(node: Statement, written: str, database: str) -> str:
    """The text to store: the restored statement if it means the same, else the text as written."""
    text = normalized.restored(node, database)
    if text is None:
        return written
    again = parse_one(text)
    same = normalized.normalized(again, "") == normalized.normalized(node, database)
    return text if same else written


def _check_tables(context: Context, node: Statement) -> None:
    """Raises 1046, 1049, 1146 for tables that do not exist."""
    for table in normalized.named_tables(node):
        if table.db.lower() not in _UNCHECKED:
            context.table(table.db, table.name)
