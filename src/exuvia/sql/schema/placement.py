"""Placement policies, resource groups, and who has a policy: statement to job.

Policies and groups are kept and shown and have no effect here. What a policy says is judged as in
TiDB: either regions and a schedule, or constraints.
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


def check_members(txn: Transaction, what: str) -> None:
    """Raises 8200 while a node serves that would lose what is to be kept."""
    older = [each.title for each in member.before_0_4(txn)]
    if older:
        raise ErrUnsupportedDDLOperation(
            f"{what} while {', '.join(older)} of an older release serves"
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
    found = placement.find_policy(reader.txn, node.name)
    if found is not None and node.or_replace:
        return Change((JobRequest(requests.alter_policy(found, settings, query=text)),))
    if found is not None:
        return unneeded(ErrPlacementPolicyExists(node.name), node.if_not_exists)
    job = requests.create_policy(node.name, settings, query=text)
    codes = {ErrPlacementPolicyExists.code} if node.if_not_exists else set()
    return Change((JobRequest(job, node.name),), existence=Existence(frozenset(codes)))


def alter_policy(reader: SchemaReader, node: nodes.AlterPlacementPolicy, text: str) -> Change:
    """ALTER PLACEMENT POLICY [IF EXISTS]: what is not said is not there. Raises 8239, 1105."""
    check_members(reader.txn, "placement policies")
    settings = checked(node.options)
    found = placement.find_policy(reader.txn, node.name)
    if found is None:
        return unneeded(ErrPlacementPolicyNotExists(node.name), node.if_exists)
    return _gone_is_noted(
        requests.alter_policy(found, settings, query=text), ErrPlacementPolicyNotExists.code, node
    )


def drop_policy(reader: SchemaReader, node: nodes.DropPlacementPolicy, text: str) -> Change:
    """DROP PLACEMENT POLICY [IF EXISTS]. Raises 8239, 8241."""
    found = placement.find_policy(reader.txn, node.name)
    if found is None:
        return unneeded(ErrPlacementPolicyNotExists(node.name), node.if_exists)
    if placement.is_used(reader.txn, found):
        raise ErrPlacementPolicyInUse(node.name)
    return _gone_is_noted(
        requests.drop_policy(found, query=text), ErrPlacementPolicyNotExists.code, node
    )


def _gone_is_noted(
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
    """What a policy says. Raises 1105 in TiDB's words."""
    found = PolicySettings(**dict(written))  # type: ignore[arg-type]
    if found.followers > MOST_FOLLOWERS:
        most = f"followers should be less than or equal to {MOST_FOLLOWERS}"
        raise _invalid(f"{most}: {found.followers}")
    constrained = (
        found.constraints,
        found.leader_constraints,
        found.voter_constraints,
        found.follower_constraints,
        found.learner_constraints,
        found.learners,
        found.voters,
    )
    if any(constrained):
        _check_constrained(found)
    else:
        _check_regions(found)
    return found


def _check_regions(said: PolicySettings) -> None:
    regions = [each.strip() for each in said.regions.split(",") if each.strip()]
    if (regions or said.primary_region) and said.primary_region.strip() not in regions:
        raise _invalid("primary region must be included in regions")
    if said.schedule.lower() not in ("", "even", "majority_in_primary"):
        raise _invalid(f"unsupported schedule {said.schedule}")


def _check_constrained(said: PolicySettings) -> None:
    if said.primary_region or said.regions or said.schedule:
        wanted = "[LEADER/VOTER/LEARNER/FOLLOWER]_CONSTRAINTS=.. [VOTERS/FOLLOWERS/LEARNERS]=.."
        raise _invalid(f"should be {wanted}, mixed other sugar options {said.text()}")
    for title, text, most in (
        ("Constraints", said.constraints, 0),
        ("LeaderConstraints", said.leader_constraints, 0),
        ("VoterConstraints", said.voter_constraints, said.voters),
        ("FollowerConstraints", said.follower_constraints, said.followers),
        ("LearnerConstraints", said.learner_constraints, said.learners),
    ):
        if text:
            _check_constraints(title, text.strip(), most)


def _check_constraints(title: str, text: str, most: int) -> None:
    """A list `[+a=b, -c=d]`, or of replicas `{"+a=b": 2}`, of which there are `most` (0: any)."""
    if text[:1] == "[" and text[-1:] == "]":
        _check_labels(title, _split(text))
        return
    if text[:1] != "{" or text[-1:] != "}" or title in ("Constraints", "LeaderConstraints"):
        wanted = "[constraint1, ...] or any yaml compatible array representation"
        raise _invalid(f"'{title}' should be {wanted}")
    total = 0
    for part in _split(text):
        labels, _, count = part.rpartition(":")
        if not count.strip().isdigit() or not int(count):
            raise _invalid(f"'{title}' needs a positive count of replicas for each constraint")
        total += int(count)
        _check_labels(title, [each.strip() for each in labels.strip(" \"'").split(",")])
    if most and total > most:
        raise _invalid(f"'{title}' has {total} replicas of {most}")


def _split(text: str) -> list[str]:
    """The parts between the brackets; a comma in quotes belongs to its part."""
    found, quote = [""], ""
    for letter in text[1:-1]:
        if letter in "\"'":
            quote = "" if quote == letter else quote or letter
        if letter == "," and not quote:
            found.append("")
        else:
            found[-1] += letter
    return [each.strip() for each in found if each.strip()]


def _check_labels(title: str, labels: Iterable[str]) -> None:
    for label in labels:
        plain = label.strip("\"'")
        key, equals, value = plain[1:].partition("=")
        if plain[:1] not in ("+", "-") or not (equals and key.strip() and value.strip()):
            wanted = "label constraint should be in format '{+|-}key=value'"
            raise _invalid(f"'{title}': {wanted}, but got '{plain}'")


def _invalid(said: str) -> Refused:
    return ErrUnknown(f"invalid placement option: {said}")


# -- who has one -----------------------------------------------------------------------------------


def policy_named(txn: Transaction, called: str) -> PolicyRef | None:
    """The policy of that name, None for "". Raises 8239, 8200."""
    if not called:
        return None
    found = placement.find_policy(txn, called)
    if found is None:
        raise ErrPlacementPolicyNotExists(called)
    check_members(txn, "placement policies")
    return found.ref


def placed(
    txn: Transaction,
    definitions: tuple[PartitionDefinition, ...],
    written: Iterable[PartitionWritten],
) -> tuple[PartitionDefinition, ...]:
    """The definitions with the policies that were written. Raises 8239."""
    said = {name(each.name).L: each.placement for each in written if each.placement}
    if not said:
        return definitions
    return tuple(
        evolve(each, policy_ref_info=policy_named(txn, said[each.name.L]))
        if each.name.L in said
        else each
        for each in definitions
    )


def with_placement(
    reader: SchemaReader, database: DatabaseInfo, node: nodes.CreateTable, info: TableInfo
) -> TableInfo:
    """A new table with its placement policies, and its affinity. Raises 8239, 8266, 8200."""
    said = node.options.get("placement")
    policy = database.policy_ref_info if said is None else policy_named(reader.txn, said)
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
    asked = Placement(policy_named(at.txn, value))
    return requests.place_table(at.database, at.table, asked, query=at.text)


def partition_option(at: AlterContext, spec: PartitionOption) -> Job:
    """PARTITION p PLACEMENT POLICY, PARTITION p ATTRIBUTES. Raises 1735, 1505, 8239, 8237."""
    if at.table.partition is None:
        raise ErrPartitionMgmtOnNonpartitioned()
    found = at.table.partition.definition(spec.partition)
    if found is None:
        raise ErrUnknownPartition(spec.partition, at.table.name.O)
    if spec.option == "placement":
        asked = Placement(policy_named(at.txn, spec.value), found.name.O)
        return requests.place_table(at.database, at.table, asked, query=at.text)
    check_members(at.txn, "ATTRIBUTES")
    attributes = Attributes(attributes_text(spec.value), found.name.O)
    return requests.set_attributes(at.database, at.table, attributes, query=at.text)


def set_attributes(at: AlterContext, value: str) -> Job:
    """ALTER TABLE t ATTRIBUTES. Raises 8237, 8200."""
    check_members(at.txn, "ATTRIBUTES")
    asked = Attributes(attributes_text(value))
    return requests.set_attributes(at.database, at.table, asked, query=at.text)


def attributes_text(value: str) -> str:
    """key=value,key=value. Raises 8237."""
    found: dict[str, str] = {}
    for part in value.split(","):
        if not part.strip():
            continue
        key, equals, said = (each.strip() for each in part.partition("="))
        if not (key and equals and said):
            wanted = "attributes should be in format 'key=value'"
            raise ErrInvalidAttributesSpec(f"{wanted}: {part.strip()}")
        if found.setdefault(key, said) != said:
            raise ErrInvalidAttributesSpec(
                f"'{key}={found[key]}' and '{key}={said}' are conflicted"
            )
    return ",".join(f"{key}={said}" for key, said in found.items())


def set_affinity(at: AlterContext, value: str) -> Job | None:
    """ALTER TABLE t AFFINITY. Raises 8266, 8200."""
    check_members(at.txn, "AFFINITY")
    level = affinity(at.table, value)
    if level == at.table.exuvia_affinity:
        return None
    return requests.set_affinity(at.database, at.table, level, query=at.text)


def affinity(table: TableInfo, value: str) -> str:
    """What AFFINITY says of a table; "" for none. Raises 8266."""
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
    wanted = ResourceGroupInfo(id=0, name=name(node.name), **fields)  # type: ignore[arg-type]
    codes = {ErrResourceGroupExists.code} if node.if_not_exists else set()
    job = requests.create_group(wanted, query=text)
    return Change((JobRequest(job, node.name),), existence=Existence(frozenset(codes)))


def alter_group(reader: SchemaReader, node: nodes.AlterResourceGroup, text: str) -> Change:
    """ALTER RESOURCE GROUP [IF EXISTS]. Raises 8249, 8250, 1105, 8200."""
    _check_groups(reader)
    found = placement.find_group(reader.txn, node.name)
    if found is None:
        return unneeded(ErrResourceGroupNotExists(node.name), node.if_exists)
    wanted = evolve(found, **dict(node.options))
    if not wanted.ru_per_sec:
        raise ErrUnknown("unknown resource group mode")
    job = requests.alter_group(wanted, query=text)
    return _gone_is_noted(job, ErrResourceGroupNotExists.code, node)


def drop_group(reader: SchemaReader, node: nodes.DropResourceGroup, text: str) -> Change:
    """DROP RESOURCE GROUP [IF EXISTS]. Raises 8249, 8250, 1105."""
    _check_groups(reader)
    if node.name.lower() == DEFAULT_GROUP:
        raise ErrUnknown("can't drop reserved resource group")
    found = placement.find_group(reader.txn, node.name)
    if found is None:
        return unneeded(ErrResourceGroupNotExists(node.name), node.if_exists)
    users = account_attributes.users_in(reader.txn, node.name)
    if users:
        raise ErrUnknown(f"user [{','.join(users)}] depends on the resource group to drop")
    job = requests.drop_group(found, query=text)
    return _gone_is_noted(job, ErrResourceGroupNotExists.code, node)
