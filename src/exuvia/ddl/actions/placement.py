"""Placement policies and resource groups, and their assignment: one step, one version each.

    CREATE, ALTER, DROP PLACEMENT POLICY          absent -> public; DROP refuses a used one (8241)
    CREATE, ALTER, DROP RESOURCE GROUP            the same; DROP refuses a group with accounts
    PLACEMENT POLICY = p of a database, a table, a partition
    ATTRIBUTES of a table, a partition; AFFINITY of a table

They are stored and shown, and do not change how rows are stored (catalog/placement.py).

A job about a policy or a group has its number in the field of the database's, as in TiDB. Jobs of
one name run in order.

A job that assigns a policy has it in `exuvia_policies`. Its first step refuses a dropped policy
(8239). Every two steps that publish conflict, so neither misses the other.
"""

from collections.abc import Callable
from typing import ClassVar, NamedTuple

from exuvia.base.errors import Broken, Refused
from exuvia.base.mysql_errors import (
    ErrPlacementPolicyExists,
    ErrPlacementPolicyInUse,
    ErrPlacementPolicyNotExists,
    ErrResourceGroupExists,
    ErrResourceGroupNotExists,
    ErrUnknown,
    ErrUnknownPartition,
)
from exuvia.catalog import account_attributes, placement
from exuvia.catalog.model import (
    DatabaseInfo,
    PolicyRef,
    SchemaState,
    TableInfo,
    evolve,
    name,
)
from exuvia.catalog.placement import PolicyInfo, PolicySettings, ResourceGroupInfo
from exuvia.ddl.action import Action, Edit, Element, GetsId, JobGuard, Refuse, Step, load
from exuvia.ddl.actions.shared import database_is_missing, table_is_missing
from exuvia.ddl.elements import DATABASE_IN_PLACE, TABLE_IN_PLACE, stay, the_table
from exuvia.ddl.job import ActionCode, Job, arguments, job_for, raw
from exuvia.ddl.snapshot import CatalogSnapshot, Fact, FactReader, ReadSet, RecordKind

ABSENT, PUBLIC = SchemaState.ABSENT, SchemaState.PUBLIC
POLICY = Element("placement policy", follows_rows=False, move=stay)
GROUP = Element("resource group", follows_rows=False, move=stay)
POLICY_RECORD = RecordKind(
    "placement policy", placement.find_policy, placement.put_policy, placement.drop_policy
)
GROUP_RECORD = RecordKind(
    "resource group", placement.find_group, placement.put_group, placement.drop_group
)


class PolicyIsUsed(Fact[bool], frozen=True):
    """Whether a database or a table has the policy of that name."""

    assumed: ClassVar[bool] = False
    name: str

    def read(self, source: FactReader) -> bool:
        policy = placement.find_policy(source.txn, self.name)
        return policy is not None and placement.is_used(source.txn, policy)


class GroupUsers(Fact[tuple[str, ...]], frozen=True):
    """The accounts in the resource group of that name."""

    assumed: ClassVar[tuple[str, ...]] = ()
    name: str

    def read(self, source: FactReader) -> tuple[str, ...]:
        return tuple(account_attributes.users_in(source.txn, self.name))


# -- arguments -------------------------------------------------------------------------------------


class Placement(NamedTuple):
    """Arguments of PLACEMENT POLICY = p; None: DEFAULT. `partition`: its name, "" for the table."""

    policy: PolicyRef | None
    partition: str = ""


class Attributes(NamedTuple):
    """Arguments of ATTRIBUTES; "" removes them. `partition`: its name, "" for the table."""

    text: str
    partition: str = ""


class Affinity(NamedTuple):
    """Argument of AFFINITY; "" removes it."""

    level: str


def _of_cluster(code: ActionCode, called: str, number: int, argument: object, query: str) -> Job:
    arguments = () if argument is None else raw((argument,))
    return Job(type=code, schema_id=number, schema_name=called, raw_args=arguments, query=query)


def create_policy(called: str, settings: PolicySettings, *, query: str = "") -> Job:
    """CREATE PLACEMENT POLICY."""
    policy = PolicyInfo(id=0, name=name(called), settings=settings)
    return _of_cluster(ActionCode.CREATE_POLICY, called, 0, policy, query)


def alter_policy(policy: PolicyInfo, settings: PolicySettings, *, query: str = "") -> Job:
    """ALTER PLACEMENT POLICY: replaces all settings."""
    changed = evolve(policy, settings=settings)
    return _of_cluster(ActionCode.ALTER_POLICY, policy.name.O, policy.id, changed, query)


def drop_policy(policy: PolicyInfo, *, query: str = "") -> Job:
    """DROP PLACEMENT POLICY."""
    return _of_cluster(ActionCode.DROP_POLICY, policy.name.O, policy.id, None, query)


def create_group(group: ResourceGroupInfo, *, query: str = "") -> Job:
    """CREATE RESOURCE GROUP."""
    return _of_cluster(ActionCode.CREATE_RESOURCE_GROUP, group.name.O, 0, group, query)


def alter_group(group: ResourceGroupInfo, *, query: str = "") -> Job:
    """ALTER RESOURCE GROUP: the group with its new definition."""
    return _of_cluster(ActionCode.ALTER_RESOURCE_GROUP, group.name.O, group.id, group, query)


def drop_group(group: ResourceGroupInfo, *, query: str = "") -> Job:
    """DROP RESOURCE GROUP."""
    return _of_cluster(ActionCode.DROP_RESOURCE_GROUP, group.name.O, group.id, None, query)


def with_policies(job: Job, *refs: PolicyRef | None) -> Job:
    """The job with the policies that it assigns to its elements."""
    policies = tuple(dict.fromkeys(ref for ref in refs if ref is not None))
    return evolve(job, exuvia_policies=policies) if policies else job


def place_database(database: DatabaseInfo, policy: PolicyRef | None, *, query: str = "") -> Job:
    """ALTER DATABASE d PLACEMENT POLICY: for future tables."""
    args = (Placement(policy),)
    job = job_for(ActionCode.SCHEMA_PLACEMENT, database, None, tuple(args[0]), query)
    return with_policies(job, policy)


def place_table(
    database: DatabaseInfo, table: TableInfo, args: Placement, *, query: str = ""
) -> Job:
    """ALTER TABLE t [PARTITION p] PLACEMENT POLICY."""
    code = ActionCode.PARTITION_PLACEMENT if args.partition else ActionCode.TABLE_PLACEMENT
    return with_policies(job_for(code, database, table, tuple(args), query), args.policy)


def set_attributes(
    database: DatabaseInfo, table: TableInfo, args: Attributes, *, query: str = ""
) -> Job:
    """ALTER TABLE t [PARTITION p] ATTRIBUTES."""
    code = ActionCode.PARTITION_ATTRIBUTES if args.partition else ActionCode.TABLE_ATTRIBUTES
    return job_for(code, database, table, tuple(args), query)


def set_affinity(database: DatabaseInfo, table: TableInfo, level: str, *, query: str = "") -> Job:
    """ALTER TABLE t AFFINITY."""
    return job_for(ActionCode.TABLE_AFFINITY, database, table, (level,), query)


# -- refusals --------------------------------------------------------------------------------------


def policy_is_gone(_: Action, job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """8239 for a job that assigns a dropped policy. Checked for all actions."""
    for ref in job.exuvia_policies:
        policy = snapshot.record(POLICY_RECORD, ref.name.L)
        if policy is None or policy.id != ref.id:
            return ErrPlacementPolicyNotExists(ref.name.O)
    return None


def _policy(job: Job, snapshot: CatalogSnapshot) -> PolicyInfo | None:
    return snapshot.record(POLICY_RECORD, job.schema_name)


def policy_is_there(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    there = _policy(job, snapshot)
    return ErrPlacementPolicyExists(job.schema_name) if there is not None else None


def policy_is_another(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    own = _policy(job, snapshot)
    if own is None or own.id != job.schema_id:
        return ErrPlacementPolicyNotExists(job.schema_name)
    return None


def policy_is_in_use(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    is_used = snapshot.fact(PolicyIsUsed(job.schema_name.lower()))
    return ErrPlacementPolicyInUse(job.schema_name) if is_used else None


def _group(job: Job, snapshot: CatalogSnapshot) -> ResourceGroupInfo | None:
    return snapshot.record(GROUP_RECORD, job.schema_name)


def group_is_there(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    there = _group(job, snapshot)
    return ErrResourceGroupExists(job.schema_name) if there is not None else None


def group_is_another(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    own = _group(job, snapshot)
    if own is None or own.id != job.schema_id:
        return ErrResourceGroupNotExists(job.schema_name)
    return None


def accounts_are_in_group(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    names = snapshot.fact(GroupUsers(job.schema_name))
    if not names:
        return None
    users = ",".join(names)
    return ErrUnknown(f"user [{users}] depends on the resource group to drop")


def partition_is_missing(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    table, partition_name = the_table(snapshot), str(job.raw_args[1])
    if table.partition is None or table.partition.definition(partition_name) is None:
        return ErrUnknownPartition(partition_name, table.name.O)
    return None


# -- steps -----------------------------------------------------------------------------------------


def put_policy(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """The policy of the statement."""
    (policy,) = arguments(job, tuple[PolicyInfo])
    placed = evolve(policy, id=job.schema_id)
    return job, snapshot.with_record(POLICY_RECORD, job.schema_name, placed)


def remove_policy(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    return job, snapshot.with_record(POLICY_RECORD, job.schema_name, None)


def put_group(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """The group of the statement."""
    (group,) = arguments(job, tuple[ResourceGroupInfo])
    placed = evolve(group, id=job.schema_id)
    return job, snapshot.with_record(GROUP_RECORD, job.schema_name, placed)


def remove_group(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    return job, snapshot.with_record(GROUP_RECORD, job.schema_name, None)


def change_database(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """The database with the policy of the statement."""
    if snapshot.database is None:
        raise Broken(f"the database of job {job.id} is gone")
    policy = arguments(job, Placement).policy
    return job, evolve(snapshot, database=evolve(snapshot.database, policy_ref_info=policy))


def change_placement(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """The table, or its partition, with the policy of the statement."""
    args = arguments(job, Placement)
    return job, _changed(snapshot, args.partition, policy_ref_info=args.policy)


def change_attributes(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """The table, or its partition, with the attributes of the statement."""
    args = arguments(job, Attributes)
    return job, _changed(snapshot, args.partition, exuvia_attributes=args.text)


def change_affinity(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    level = arguments(job, Affinity).level
    return job, _changed(snapshot, "", exuvia_affinity=level)


def _changed(snapshot: CatalogSnapshot, partition: str, **fields: object) -> CatalogSnapshot:
    table = the_table(snapshot)
    cut = table.partition
    if not partition or cut is None:
        return evolve(snapshot, table=evolve(table, **fields))
    definitions = tuple(
        evolve(definition, **fields) if definition.name.L == partition.lower() else definition
        for definition in cut.definitions
    )
    return evolve(snapshot, table=evolve(table, partition=evolve(cut, definitions=definitions)))


# -- the actions -----------------------------------------------------------------------------------


def _reads_policy(job: Job) -> ReadSet:
    name = job.schema_name.lower()
    return ReadSet(records=((POLICY_RECORD, name),), facts=(PolicyIsUsed(name),))


def _reads_group(job: Job) -> ReadSet:
    name = job.schema_name.lower()
    return ReadSet(records=((GROUP_RECORD, name),), facts=(GroupUsers(job.schema_name),))


class _Kind(NamedTuple):
    """A kind of element of the cluster that has a name."""

    noun: str
    element: Element
    reads: Callable[[Job], ReadSet]


_POLICIES = _Kind("policy", POLICY, _reads_policy)
_GROUPS = _Kind("resource group", GROUP, _reads_group)


def _about(kind: _Kind, code: ActionCode, edit: Edit, *refuses: Refuse) -> Action:
    makes = code in (ActionCode.CREATE_POLICY, ActionCode.CREATE_RESOURCE_GROUP)
    return load(
        Action(
            code,
            kind.element,
            path=(Step(ABSENT, PUBLIC, edit=edit),),
            refuses=refuses,
            reads=kind.reads,
            gets_id=GetsId.DATABASE if makes else GetsId.NOTHING,
            names=lambda job: [(0, f"{kind.noun} {job.schema_name.lower()}")],
        )
    )


def _of_table(code: ActionCode, edit: Edit, *refuses: Refuse) -> Action:
    steps = (Step(ABSENT, PUBLIC, edit=edit),)
    return load(Action(code, TABLE_IN_PLACE, steps, refuses=(table_is_missing, *refuses)))


CREATE_POLICY = _about(_POLICIES, ActionCode.CREATE_POLICY, put_policy, policy_is_there)
ALTER_POLICY = _about(_POLICIES, ActionCode.ALTER_POLICY, put_policy, policy_is_another)
DROP_POLICY = _about(
    _POLICIES,
    ActionCode.DROP_POLICY,
    remove_policy,
    policy_is_another,
    policy_is_in_use,
)
CREATE_GROUP = _about(_GROUPS, ActionCode.CREATE_RESOURCE_GROUP, put_group, group_is_there)
ALTER_GROUP = _about(_GROUPS, ActionCode.ALTER_RESOURCE_GROUP, put_group, group_is_another)
DROP_GROUP = _about(
    _GROUPS,
    ActionCode.DROP_RESOURCE_GROUP,
    remove_group,
    group_is_another,
    accounts_are_in_group,
)
PLACE_DATABASE = load(
    Action(
        ActionCode.SCHEMA_PLACEMENT,
        DATABASE_IN_PLACE,
        path=(Step(ABSENT, PUBLIC, edit=change_database),),
        refuses=(database_is_missing,),
    )
)
PLACE_TABLE = _of_table(ActionCode.TABLE_PLACEMENT, change_placement)
PLACE_PARTITION = _of_table(
    ActionCode.PARTITION_PLACEMENT,
    change_placement,
    partition_is_missing,
)
TABLE_ATTRIBUTES = _of_table(ActionCode.TABLE_ATTRIBUTES, change_attributes)
PARTITION_ATTRIBUTES = _of_table(
    ActionCode.PARTITION_ATTRIBUTES,
    change_attributes,
    partition_is_missing,
)
TABLE_AFFINITY = _of_table(ActionCode.TABLE_AFFINITY, change_affinity)


def _reads_assigned(job: Job) -> ReadSet:
    return ReadSet(records=tuple((POLICY_RECORD, ref.name.L) for ref in job.exuvia_policies))


GUARDS = (JobGuard(policy_is_gone, _reads_assigned, rank=3),)
ACTIONS = (
    CREATE_POLICY,
    ALTER_POLICY,
    DROP_POLICY,
    CREATE_GROUP,
    ALTER_GROUP,
    DROP_GROUP,
    PLACE_DATABASE,
    PLACE_TABLE,
    PLACE_PARTITION,
    TABLE_ATTRIBUTES,
    PARTITION_ATTRIBUTES,
    TABLE_AFFINITY,
)
