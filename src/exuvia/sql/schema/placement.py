"""Statements about placement policies and resource groups, as jobs.

Policies and groups are stored and shown, but have no effect. The settings of a policy are checked
as in TiDB: either regions and a schedule, or constraints.
"""

from collections.abc import Iterable

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import (
    ErrInvalidAttributesSpec,
    ErrInvalidTableAffinity,
    ErrPartitionMgmtOnNonpartitioned,
    ErrPlacementPolicyExists,
    ErrPlacementPolicyInUse,
    ErrPlacementPolicyNotExists,
    ErrReservedSyntax,
    ErrResourceGroupExists,
    ErrResourceGroupNotExists,
    ErrResourceGroupSupportDisabled,
    ErrUnknown,
    ErrUnknownPartition,
    ErrUnsupportedDDLOperation,
    ErrWrongUsage,
)
from exuvia.catalog import account_attributes, placement
from exuvia.catalog.model import (
    DatabaseInfo,
    PartitionDefinition,
    PolicyRef,
    TableInfo,
    evolve,
    name,
)
from exuvia.catalog.placement import DEFAULT_GROUP, PolicySettings, ResourceGroupInfo
from exuvia.cluster import member
from exuvia.ddl import requests
from exuvia.ddl.actions.placement import Attributes, Placement
from exuvia.ddl.job import Job
from exuvia.kv.transaction import Transaction
from exuvia.sql import nodes
from exuvia.sql.nodes import PartitionOption, PartitionWritten, Settings
from exuvia.sql.schema.change import (
    AlterContext,
    Change,
    Existence,
    JobRequest,
    SchemaReader,
    unneeded,
)

MOST_FOLLOWERS = 8
GROUP_CHARS = 32


def check_members(txn: Transaction, feature: str) -> None:
    """Raises 8200 while a node serves that would lose the stored setting."""
    older = [node.title for node in member.before_0_4(txn)]
    if older:
        raise ErrUnsupportedDDLOperation(
            f"{feature} while {', '.join(older)} of an older release serves"
        )


# -- policies --------------------------------------------------------------------------------------


def create_policy(reader: SchemaReader, node: nodes.CreatePlacementPolicy, text: str) -> Change:
    """CREATE [OR REPLACE] PLACEMENT POLICY [IF NOT EXISTS]. Raises 8238, 1221, 1382, 1105, 8200."""
    if node.or_replace and node.if_not_exists:
        raise ErrWrongUsage("OR REPLACE", "IF NOT EXISTS")
    if node.name.lower() == "default":
        raise ErrReservedSyntax(node.name)
    check_members(reader.txn, "placement policies")
    settings = checked(node.options)
    policy = placement.find_policy(reader.txn, node.name)
    if policy is not None and node.or_replace:
        return Change((JobRequest(requests.alter_policy(policy, settings, query=text)),))
    if policy is not None:
        return unneeded(ErrPlacementPolicyExists(node.name), node.if_not_exists)
    job = requests.create_policy(node.name, settings, query=text)
    codes = {ErrPlacementPolicyExists.code} if node.if_not_exists else set()
    return Change((JobRequest(job, node.name),), existence=Existence(frozenset(codes)))


def alter_policy(reader: SchemaReader, node: nodes.AlterPlacementPolicy, text: str) -> Change:
    """ALTER PLACEMENT POLICY [IF EXISTS]: omitted settings are removed. Raises 8239, 1105."""
    check_members(reader.txn, "placement policies")
    settings = checked(node.options)
    policy = placement.find_policy(reader.txn, node.name)
    if policy is None:
        return unneeded(ErrPlacementPolicyNotExists(node.name), node.if_exists)
    return _change_if_exists(
        requests.alter_policy(policy, settings, query=text), ErrPlacementPolicyNotExists.code, node
    )


def drop_policy(reader: SchemaReader, node: nodes.DropPlacementPolicy, text: str) -> Change:
    """DROP PLACEMENT POLICY [IF EXISTS]. Raises 8239, 8241."""
    policy = placement.find_policy(reader.txn, node.name)
    if policy is None:
        return unneeded(ErrPlacementPolicyNotExists(node.name), node.if_exists)
    if placement.is_used(reader.txn, policy):
        raise ErrPlacementPolicyInUse(node.name)
    return _change_if_exists(
        requests.drop_policy(policy, query=text), ErrPlacementPolicyNotExists.code, node
    )


def _change_if_exists(
    job: Job,
    code: int,
    node: nodes.AlterPlacementPolicy
    | nodes.DropPlacementPolicy
    | nodes.AlterResourceGroup
    | nodes.DropResourceGroup,
) -> Change:
    codes = frozenset({code}) if node.if_exists else frozenset()
    return Change((JobRequest(job, node.name),), existence=Existence(codes))


def checked(written: Settings) -> PolicySettings:
    """The settings of a policy. Raises 1105 with TiDB's texts."""
    settings = PolicySettings(**dict(written))  # type: ignore[arg-type]
    if settings.followers > MOST_FOLLOWERS:
        most = f"followers should be less than or equal to {MOST_FOLLOWERS}"
        raise _invalid(f"{most}: {settings.followers}")
    constrained = (
        settings.constraints,
        settings.leader_constraints,
        settings.voter_constraints,
        settings.follower_constraints,
        settings.learner_constraints,
        settings.learners,
        settings.voters,
    )
    if any(constrained):
        _check_constrained(settings)
    else:
        _check_regions(settings)
    return settings


def _check_regions(settings: PolicySettings) -> None:
    regions = [region.strip() for region in settings.regions.split(",") if region.strip()]
    if (regions or settings.primary_region) and settings.primary_region.strip() not in regions:
        raise _invalid("primary region must be included in regions")
    if settings.schedule.lower() not in ("", "even", "majority_in_primary"):
        raise _invalid(f"unsupported schedule {settings.schedule}")


def _check_constrained(settings: PolicySettings) -> None:
    if settings.primary_region or settings.regions or settings.schedule:
        expected = "[LEADER/VOTER/LEARNER/FOLLOWER]_CONSTRAINTS=.. [VOTERS/FOLLOWERS/LEARNERS]=.."
        raise _invalid(f"should be {expected}, mixed other sugar options {settings.text()}")
    for title, text, most in (
        ("Constraints", settings.constraints, 0),
        ("LeaderConstraints", settings.leader_constraints, 0),
        ("VoterConstraints", settings.voter_constraints, settings.voters),
        ("FollowerConstraints", settings.follower_constraints, settings.followers),
        ("LearnerConstraints", settings.learner_constraints, settings.learners),
    ):
        if text:
            _check_constraints(title, text.strip(), most)


def _check_constraints(title: str, text: str, most: int) -> None:
    """Check a list `[+a=b, -c=d]`, or counts of replicas `{"+a=b": 2}`, in total at most `most`.

    `most`: 0 for any number."""
    if text[:1] == "[" and text[-1:] == "]":
        _check_labels(title, _split(text))
        return
    if text[:1] != "{" or text[-1:] != "}" or title in ("Constraints", "LeaderConstraints"):
        expected = "[constraint1, ...] or any yaml compatible array representation"
        raise _invalid(f"'{title}' should be {expected}")
    total = 0
    for part in _split(text):
        labels, _, count = part.rpartition(":")
        if not count.strip().isdigit() or not int(count):
            raise _invalid(f"'{title}' needs a positive count of replicas for each constraint")
        total += int(count)
        _check_labels(title, [label.strip() for label in labels.strip(" \"'").split(",")])
    if most and total > most:
        raise _invalid(f"'{title}' has {total} replicas of {most}")


def _split(text: str) -> list[str]:
    """The parts between the brackets, separated by commas outside quotes."""
    parts, quote = [""], ""
    for letter in text[1:-1]:
        if letter in "\"'":
            quote = "" if quote == letter else quote or letter
        if letter == "," and not quote:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]


def _check_labels(title: str, labels: Iterable[str]) -> None:
    for label in labels:
        plain = label.strip("\"'")
        key, equals, value = plain[1:].partition("=")
        if plain[:1] not in ("+", "-") or not (equals and key.strip() and value.strip()):
            expected = "label constraint should be in format '{+|-}key=value'"
            raise _invalid(f"'{title}': {expected}, but got '{plain}'")


def _invalid(text: str) -> Refused:
    return ErrUnknown(f"invalid placement option: {text}")


# -- policies of tables and partitions -------------------------------------------------------------


def policy_named(txn: Transaction, called: str) -> PolicyRef | None:
    """The policy of that name, None for "". Raises 8239, 8200."""
    if not called:
        return None
    policy = placement.find_policy(txn, called)
    if policy is None:
        raise ErrPlacementPolicyNotExists(called)
    check_members(txn, "placement policies")
    return policy.ref


def placed(
    txn: Transaction,
    definitions: tuple[PartitionDefinition, ...],
    written: Iterable[PartitionWritten],
) -> tuple[PartitionDefinition, ...]:
    """The definitions with their policies from the statement. Raises 8239."""
    policies = {
        name(partition.name).L: partition.placement for partition in written if partition.placement
    }
    if not policies:
        return definitions
    return tuple(
        evolve(definition, policy_ref_info=policy_named(txn, policies[definition.name.L]))
        if definition.name.L in policies
        else definition
        for definition in definitions
    )


def with_placement(
    reader: SchemaReader, database: DatabaseInfo, node: nodes.CreateTable, info: TableInfo
) -> TableInfo:
    """A new table with its placement policies, and its affinity. Raises 8239, 8266, 8200."""
    policy_name = node.options.get("placement")
    policy = (
        database.policy_ref_info if policy_name is None else policy_named(reader.txn, policy_name)
    )
    level = affinity(info, node.options.get("affinity", ""))
    if level:
        check_members(reader.txn, "AFFINITY")
    info = evolve(info, policy_ref_info=policy, exuvia_affinity=level)
    cut, written = info.partition, node.partitioning
    if cut is None or written is None:
        return info
    definitions = placed(reader.txn, cut.definitions, written.definitions)
    return evolve(info, partition=evolve(cut, definitions=definitions))


def place_table(at: AlterContext, value: str) -> Job:
    """ALTER TABLE t PLACEMENT POLICY. Raises 8239."""
    change = Placement(policy_named(at.txn, value))
    return requests.place_table(at.database, at.table, change, query=at.text)


def partition_option(at: AlterContext, spec: PartitionOption) -> Job:
    """PARTITION p PLACEMENT POLICY, PARTITION p ATTRIBUTES. Raises 1735, 1505, 8239, 8237."""
    if at.table.partition is None:
        raise ErrPartitionMgmtOnNonpartitioned()
    partition = at.table.partition.definition(spec.partition)
    if partition is None:
        raise ErrUnknownPartition(spec.partition, at.table.name.O)
    if spec.option == "placement":
        change = Placement(policy_named(at.txn, spec.value), partition.name.O)
        return requests.place_table(at.database, at.table, change, query=at.text)
    check_members(at.txn, "ATTRIBUTES")
    attributes = Attributes(attributes_text(spec.value), partition.name.O)
    return requests.set_attributes(at.database, at.table, attributes, query=at.text)


def set_attributes(at: AlterContext, value: str) -> Job:
    """ALTER TABLE t ATTRIBUTES. Raises 8237, 8200."""
    check_members(at.txn, "ATTRIBUTES")
    change = Attributes(attributes_text(value))
    return requests.set_attributes(at.database, at.table, change, query=at.text)


def attributes_text(value: str) -> str:
    """The attributes as stored: key=value,key=value. Raises 8237."""
    attributes: dict[str, str] = {}
    for part in value.split(","):
        if not part.strip():
            continue
        key, equals, assigned = (text.strip() for text in part.partition("="))
        if not (key and equals and assigned):
            expected = "attributes should be in format 'key=value'"
            raise ErrInvalidAttributesSpec(f"{expected}: {part.strip()}")
        if attributes.setdefault(key, assigned) != assigned:
            raise ErrInvalidAttributesSpec(
                f"'{key}={attributes[key]}' and '{key}={assigned}' are conflicted"
            )
    return ",".join(f"{key}={assigned}" for key, assigned in attributes.items())


def set_affinity(at: AlterContext, value: str) -> Job | None:
    """ALTER TABLE t AFFINITY. Raises 8266, 8200."""
    check_members(at.txn, "AFFINITY")
    level = affinity(at.table, value)
    if level == at.table.exuvia_affinity:
        return None
    return requests.set_affinity(at.database, at.table, level, query=at.text)


def affinity(table: TableInfo, value: str) -> str:
    """The AFFINITY of a table: "table", "partition" or "". Raises 8266."""
    level = value.lower()
    if level in ("", "none"):
        return ""
    if level not in ("table", "partition"):
        raise ErrInvalidTableAffinity(f"Invalid AFFINITY '{value}'")
    if table.is_temporary:
        raise ErrInvalidTableAffinity("Can not set AFFINITY on a temporary table.")
    cut = table.partition is not None
    if cut != (level == "partition"):
        kind = "partition" if cut else "non-partition"
        raise ErrInvalidTableAffinity(f"Can not set AFFINITY='{level}' on a {kind} table.")
    return level


# -- resource groups -------------------------------------------------------------------------------


def _check_groups(reader: SchemaReader) -> None:
    if reader.variable("tidb_enable_resource_control") != "ON":
        raise ErrResourceGroupSupportDisabled()
    check_members(reader.txn, "resource groups")


def create_group(reader: SchemaReader, node: nodes.CreateResourceGroup, text: str) -> Change:
    """CREATE RESOURCE GROUP [IF NOT EXISTS]. Raises 8248, 8250, 1105, 8200."""
    _check_groups(reader)
    if len(node.name) > GROUP_CHARS:
        raise ErrUnknown("resource group name too long")
    if placement.find_group(reader.txn, node.name) is not None:
        return unneeded(ErrResourceGroupExists(node.name), node.if_not_exists)
    fields = dict(node.options)
    if not fields.get("ru_per_sec"):
        raise ErrUnknown("unknown resource group mode")
    group = ResourceGroupInfo(id=0, name=name(node.name), **fields)  # type: ignore[arg-type]
    codes = {ErrResourceGroupExists.code} if node.if_not_exists else set()
    job = requests.create_group(group, query=text)
    return Change((JobRequest(job, node.name),), existence=Existence(frozenset(codes)))


def alter_group(reader: SchemaReader, node: nodes.AlterResourceGroup, text: str) -> Change:
    """ALTER RESOURCE GROUP [IF EXISTS]. Raises 8249, 8250, 1105, 8200."""
    _check_groups(reader)
    group = placement.find_group(reader.txn, node.name)
    if group is None:
        return unneeded(ErrResourceGroupNotExists(node.name), node.if_exists)
    changed = evolve(group, **dict(node.options))
    if not changed.ru_per_sec:
        raise ErrUnknown("unknown resource group mode")
    job = requests.alter_group(changed, query=text)
    return _change_if_exists(job, ErrResourceGroupNotExists.code, node)


def drop_group(reader: SchemaReader, node: nodes.DropResourceGroup, text: str) -> Change:
    """DROP RESOURCE GROUP [IF EXISTS]. Raises 8249, 8250, 1105."""
    _check_groups(reader)
    if node.name.lower() == DEFAULT_GROUP:
        raise ErrUnknown("can't drop reserved resource group")
    group = placement.find_group(reader.txn, node.name)
    if group is None:
        return unneeded(ErrResourceGroupNotExists(node.name), node.if_exists)
    users = account_attributes.users_in(reader.txn, node.name)
    if users:
        raise ErrUnknown(f"user [{','.join(users)}] depends on the resource group to drop")
    job = requests.drop_group(group, query=text)
    return _change_if_exists(job, ErrResourceGroupNotExists.code, node)
