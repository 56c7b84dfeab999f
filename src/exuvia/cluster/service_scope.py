"""A node's service scope, and the nodes that run a job's tasks (TiDB: tidb_service_scope).

    m/scope/{host address}    the scope of that node; absent: no scope

A job has the scope of the node on which it was submitted. Its tasks run on the nodes of that scope.
Tasks of a job without a scope run on the nodes of scope `background`. If no such node exists, they
run on the nodes without a scope. If no node qualifies, the owner runs them.
"""

import re

from exuvia.base.mysql_errors import ErrWrongValueForVar
from exuvia.cluster import member as members
from exuvia.cluster.member import MemberInfo
from exuvia.kv import keys
from exuvia.kv.transaction import Transaction

SERVICE_SCOPE = "tidb_service_scope"
BACKGROUND = "background"
_SCOPE = re.compile(r"[A-Za-z0-9_-]{0,64}")


def _key(info: MemberInfo) -> bytes:
    return keys.meta("scope", f"{info.host} {info.address}")


def scope_of(txn: Transaction, info: MemberInfo) -> str:
    """The scope of the member's node; "" without one."""
    payload = txn.get(_key(info))
    return "" if payload is None else payload.decode()


def put_scope(txn: Transaction, info: MemberInfo, scope: str) -> None:
    """Set the scope of the member's node. Raises 1231."""
    if not _SCOPE.fullmatch(scope):
        raise ErrWrongValueForVar(SERVICE_SCOPE, scope)
    scope = scope.lower()
    if scope != scope_of(txn, info):
        if scope:
            txn.put(_key(info), scope.encode())
        else:
            txn.delete(_key(info))


def does_tasks_of(txn: Transaction, scope: str) -> list[MemberInfo]:
    """The backs of the nodes that run tasks of jobs with that scope, by id."""
    backs = [info for info in members.live(txn) if info.kind == "back"]
    by_scope: dict[str, list[MemberInfo]] = {}
    for info in backs:
        by_scope.setdefault(scope_of(txn, info), []).append(info)
    return by_scope.get(scope or BACKGROUND) or ([] if scope else by_scope.get("", []))
