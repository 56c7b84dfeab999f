"""The cluster's role in bidirectional replication restricts schema changes.

    none         all are allowed
    primary      changes that a secondary can take over without loss: new elements, defaults
    secondary    none is allowed: changes come from the primary
    both         placement policies and resource groups, which belong to each cluster

`m/bdrrole` has the role. It is checked in the transaction that inserts a job into the queue, so the
role cannot change in between. A change of several is allowed if each of its changes is.

Source: TiDB's `ADMIN SET BDR ROLE`.
"""

from exuvia.base.mysql_errors import ErrBDRRestrictedDDL
from exuvia.catalog.model import ColumnInfo
from exuvia.ddl.actions.column import AddColumnArgs
from exuvia.ddl.actions.index import indexes_of
from exuvia.ddl.actions.modify_column import modification_of
from exuvia.ddl.job import ActionCode, Job, arguments
from exuvia.ddl.multi_schema_change import sub_jobs
from exuvia.kv import keys
from exuvia.kv.transaction import Transaction

PRIMARY, SECONDARY = "primary", "secondary"
_KEY = keys.meta("bdrrole")
_ALWAYS = frozenset(
    (
        ActionCode.CREATE_SCHEMA,
        ActionCode.CREATE_TABLE,
        ActionCode.CREATE_TABLES,
        ActionCode.CREATE_VIEW,
        ActionCode.DROP_VIEW,
        ActionCode.DROP_INDEX,
        ActionCode.DROP_PRIMARY_KEY,
        ActionCode.RENAME_INDEX,
        ActionCode.INDEX_VISIBILITY,
        ActionCode.SET_DEFAULT,
        ActionCode.TABLE_COMMENT,
        ActionCode.ADD_PARTITION,
        ActionCode.TABLE_AFFINITY,
        ActionCode.ALTER_TTL,
        ActionCode.REMOVE_TTL,
    )
)
_IN_BOTH_ROLES = frozenset(
    (
        ActionCode.CREATE_POLICY,
        ActionCode.ALTER_POLICY,
        ActionCode.DROP_POLICY,
        ActionCode.CREATE_RESOURCE_GROUP,
        ActionCode.ALTER_RESOURCE_GROUP,
        ActionCode.DROP_RESOURCE_GROUP,
    )
)


def role_of(txn: Transaction) -> str:
    """The role, or "" for no role."""
    return (txn.get(_KEY) or b"").decode()


def put_role(txn: Transaction, role: str) -> None:
    txn.put(_KEY, role.encode())


def check(txn: Transaction, job: Job) -> None:
    """Raises 8263 for a job that is not allowed in the role."""
    role = role_of(txn)
    if not role or job.type in _IN_BOTH_ROLES or job.schema_name.lower() in ("mysql", "sys"):
        return
    if role == SECONDARY or not all(map(_may_be_replicated, sub_jobs(job))):
        raise ErrBDRRestrictedDDL(role)


def _may_be_replicated(job: Job) -> bool:
    match job.type:
        case ActionCode.ADD_COLUMN:
            return _fits_old_rows(arguments(job, AddColumnArgs).column)
        case ActionCode.ADD_INDEX:
            return not any(index.is_unique for index in indexes_of(job))
        case ActionCode.MODIFY_COLUMN:
            change = modification_of(job)
            same_name = change.column.name.L == change.old_column_name.lower()
            same = same_name and change.column.type == change.old_type
            return same and _has_default(change.column)
    return job.type in _ALWAYS


def _fits_old_rows(column: ColumnInfo) -> bool:
    return column.is_generated or not column.not_null or _has_default(column)


def _has_default(column: ColumnInfo) -> bool:
    return column.default is not None or column.default_bit is not None
