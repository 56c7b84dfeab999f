"""SHOW CREATE PLACEMENT POLICY and RESOURCE GROUP, SHOW PLACEMENT, SHOW AFFINITY.

Rows of a cluster are in one store, so nothing is ever placed; Scheduling_State is PENDING."""

from collections.abc import Iterator

from exuvia.base.mysql_errors import (
    ErrPlacementPolicyNotExists,
    ErrResourceGroupNotExists,
    ErrUnknownPartition,
)
from exuvia.catalog.model import PolicyRef
from exuvia.catalog.placement import find_group, find_policy, policies
from exuvia.sql.information_schema.tables import all_tables
from exuvia.sql.nodes import Show
from exuvia.sql.result import Result, Row
from exuvia.sql.show.listing import columns_of, listing
from exuvia.sql.statement.context import Context
from exuvia.sql.type_text import identifier

_PENDING = "PENDING"
_COLUMNS = "Target:256 Placement:1024 Scheduling_State"


def create_policy(context: Context, node: Show) -> Result:
    """SHOW CREATE PLACEMENT POLICY. Raises 8239."""
    policy = find_policy(context.txn, node.database or "")
    if policy is None:
        raise ErrPlacementPolicyNotExists(node.database)
    text = f"CREATE PLACEMENT POLICY {identifier(policy.name.O)} {policy.settings.text()}"
    return Result(columns_of("Policy ~Create_Policy:65535"), [[policy.name.O, text]])


def create_group(context: Context, node: Show) -> Result:
    """SHOW CREATE RESOURCE GROUP. Raises 8249."""
    group = find_group(context.txn, node.database or "")
    if group is None:
        raise ErrResourceGroupNotExists(node.database)
    text = f"CREATE RESOURCE GROUP {identifier(group.name.O)} {group.text()}"
    columns = columns_of("Resource_Group ~Create_Resource_Group:65535")
    return Result(columns, [[group.name.O, text]])


def placement(context: Context, node: Show) -> Result:
    """SHOW PLACEMENT [LIKE], SHOW PLACEMENT FOR DATABASE d | TABLE t [PARTITION p]."""
    columns = columns_of(_COLUMNS)
    if node.table is not None:
        return Result(columns, list(_for_table(context, node)))
    if node.database is not None:
        return Result(columns, list(_for_database(context, node.database)))
    rows: list[Row] = [
        [f"POLICY {identifier(policy.name.O)}", policy.settings.text(), None]
        for policy in policies(context.txn)
    ]
    schemas, rights = context.session.services.schemas, context.session.rights
    for database in schemas.databases(context.txn):
        if rights.lists_database(database.db_name.O):
            target = f"DATABASE {identifier(database.db_name.O)}"
            rows += _row(context, target, database.policy_ref_info)
    for database, table in all_tables(context):
        place = f"TABLE {identifier(database.db_name.O)}.{identifier(table.name.O)}"
        rows += _row(context, place, table.policy_ref_info)
        for part in table.partition.definitions if table.partition is not None else ():
            policy = part.policy_ref_info or table.policy_ref_info
            rows += _row(context, f"{place} PARTITION {identifier(part.name.O)}", policy)
    return listing(context, columns, rows, node.like, node.where)


def _for_database(context: Context, name: str) -> Iterator[Row]:
    error = context.session.rights.database_refusal(name)
    if error is not None:
        raise error
    database = context.session.services.schemas.database(context.txn, name)
    target = f"DATABASE {identifier(database.db_name.O)}"
    yield from _row(context, target, database.policy_ref_info)


def _for_table(context: Context, node: Show) -> Iterator[Row]:
    assert node.table is not None
    database = context.database_of(node.table.db or "")
    info = context.definition(database, node.table.name).info
    place = f"TABLE {identifier(database)}.{identifier(info.name.O)}"
    if node.like is None:
        yield from _row(context, place, info.policy_ref_info)
        return
    part = None if info.partition is None else info.partition.definition(node.like)
    if part is None:
        raise ErrUnknownPartition(node.like, info.name.O)
    policy = part.policy_ref_info or info.policy_ref_info
    yield from _row(context, f"{place} PARTITION {identifier(part.name.O)}", policy)


def _row(context: Context, target: str, policy: PolicyRef | None) -> Iterator[Row]:
    current = None if policy is None else find_policy(context.txn, policy.name.L)
    if current is not None and policy is not None and current.id == policy.id:
        yield [target, current.settings.text(), _PENDING]


def affinity(context: Context, node: Show) -> Result:
    """SHOW AFFINITY: tables have no stores or regions, so all rows are pending."""
    columns = columns_of(
        "Db_name Table_name Partition_name Leader_store_id# Voter_store_ids Status"
        " Region_count# Affinity_region_count#"
    )
    rows: list[Row] = []
    for database, table in all_tables(context):
        if not table.exuvia_affinity:
            continue
        names: list[str | None] = [None]
        if table.partition is not None:
            names = [definition.name.O for definition in table.partition.definitions]
        head = [database.db_name.O, table.name.O]
        rows += [[*head, part, None, None, "Pending", 0, 0] for part in names]
    return listing(context, columns, rows, node.like, node.where)
