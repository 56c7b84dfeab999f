"""A node's service scope, and whose tasks it does (source: TiDB manual, tidb_service_scope).

    m/scope/{host address}    the scope of that node; absent: none

A job has the scope of the node that it was asked for on. Its tasks go to the nodes of that scope;
those of a job without one to the nodes of scope `background`, if there are any, else to the nodes
without one. Where no such node lives it is the owner that does them.
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
    """Of the member's node."""
    payload = txn.get(_key(info))
    return "" if payload is None else payload.decode()


def put_scope(txn: Transaction, info: MemberInfo, scope: str) -> None:
    """Give the member's node a scope. Raises 1231."""
    if not _SCOPE.fullmatch(scope):
        raise ErrWrongValueForVar(SERVICE_SCOPE, scope)
    scope = scope.lower()
    if scope != scope_of(txn, info):
        if scope:
            txn.put(_key(info), scope.encode())
        else:
            txn.delete(_key(info))


def does_tasks_of(txn: Transaction, scope: str) -> list[MemberInfo]:
    """The backs of the nodes that do the tasks of jobs with that scope, by id."""
    backs = [each for each in members.live(txn) if each.kind == "back"]
    by_scope: dict[str, list[MemberInfo]] = {}
    for each in backs:
        by_scope.setdefault(scope_of(txn, each), []).append(each)
    return by_scope.get(scope or BACKGROUND) or ([] if scope else by_scope.get("", []))
