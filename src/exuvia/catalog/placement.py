"""Placement policies and resource groups.

    m/policy/{name}               a PolicyInfo
    m/policyuse/{id}/{user id}    a database or a table that has the policy, or had it
    m/resourcegroup/{name}        a ResourceGroupInfo

Both are stored and shown only: all rows of a cluster are in one store, and no statement is slowed.
JSON names are TiDB's.

Users of a policy store its number and name (`PolicyRef`). A policy in use cannot be dropped. Tables
of a dropped database do not count as users, so FLASHBACK DATABASE may restore a reference to a
dropped policy: `living` removes it.
"""

from collections.abc import Iterable

import msgspec

from exuvia.base.decoding import json_decoder
from exuvia.catalog.model import (
    DatabaseInfo,
    Name,
    PartitionDefinition,
    PolicyRef,
    SchemaState,
    TableInfo,
    evolve,
    to_json,
)
from exuvia.kv import keys
from exuvia.kv.transaction import Transaction

# -- policies --------------------------------------------------------------------------------------


class PolicySettings(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a policy as written; "" and 0: not set."""

    primary_region: str = ""
    regions: str = ""
    schedule: str = ""
    constraints: str = ""
    leader_constraints: str = ""
    voters: int = 0
    voter_constraints: str = ""
    followers: int = 0
    follower_constraints: str = ""
    learners: int = 0
    learner_constraints: str = ""
    survival_preferences: str = ""

    def text(self) -> str:
        """The options of SHOW CREATE PLACEMENT POLICY, without those not set."""
        return " ".join(
            f"{field.upper()}={_written(value)}"
            for field in self.__struct_fields__
            if (value := getattr(self, field))
        )


def _written(value: str | int) -> str:
    if isinstance(value, int):
        return str(value)
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


class PolicyInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A placement policy."""

    id: int
    name: Name
    settings: PolicySettings
    state: SchemaState = SchemaState.PUBLIC

    @property
    def ref(self) -> PolicyRef:
        """The reference that users of the policy store."""
        return PolicyRef(self.id, self.name)


_policy = json_decoder(PolicyInfo)


def find_policy(txn: Transaction, name: str) -> PolicyInfo | None:
    """The policy of that name, or None."""
    payload = txn.get(keys.meta("policy", name))
    return None if payload is None else _policy.decode(payload)


def read_policy(payload: bytes) -> PolicyInfo:
    """The policy stored under a key."""
    return _policy.decode(payload)


def policies(txn: Transaction) -> list[PolicyInfo]:
    """Every policy, by name."""
    return [_policy.decode(raw) for _, raw in txn.scan(keys.span_of(keys.meta("policy")))]


def put_policy(txn: Transaction, info: PolicyInfo) -> None:
    txn.put(keys.meta("policy", info.name.L), to_json(info))


def drop_policy(txn: Transaction, info: PolicyInfo) -> None:
    """Remove a policy without users."""
    txn.delete(keys.meta("policy", info.name.L))
    for key, _ in list(txn.scan(keys.span_of(keys.meta("policyuse", info.id)))):
        txn.delete(key)


# -- who has one -----------------------------------------------------------------------------------


def refs_of(info: TableInfo | DatabaseInfo) -> tuple[PolicyRef, ...]:
    """The policies of the element and of its partitions, each once."""
    own = () if info.policy_ref_info is None else (info.policy_ref_info,)
    if isinstance(info, DatabaseInfo) or info.partition is None:
        return own
    cut = info.partition
    parts = (*refs_in(cut.definitions), *refs_in(cut.adding_definitions))
    return tuple(dict.fromkeys((*own, *parts)))


def refs_in(definitions: Iterable[PartitionDefinition]) -> tuple[PolicyRef, ...]:
    """The policies of partitions, each once."""
    refs = (definition.policy_ref_info for definition in definitions)
    return tuple(dict.fromkeys(ref for ref in refs if ref is not None))


def note_uses(
    txn: Transaction,
    before: TableInfo | DatabaseInfo | None,
    after: TableInfo | DatabaseInfo | None,
) -> None:
    """Record the policies of an element that is written or dropped."""
    had = {ref.id for ref in refs_of(before)} if before is not None else set()
    has = {ref.id for ref in refs_of(after)} if after is not None else set()
    if had == has:
        return
    user = before or after
    assert user is not None
    for policy in had - has:
        key = keys.meta("policyuse", policy, user.id)
        if txn.get(key) is not None:
            txn.delete(key)
    for policy in has - had:
        txn.put(keys.meta("policyuse", policy, user.id), b"")


def is_used(txn: Transaction, policy: PolicyInfo) -> bool:
    """Whether a database has it, or a table of an existing database."""
    prefix = keys.meta("policyuse", policy.id)
    for key, _ in txn.scan(keys.span_of(prefix)):
        user = int.from_bytes(key[len(prefix) :], "big")
        if txn.get(keys.meta("db", user)) is not None:
            return True
        payload = txn.get(keys.meta("table", user))
        if payload is not None:
            home = _home.decode(payload).exuvia_db
            if txn.get(keys.meta("db", home)) is not None:
                return True
    return False


class _Home(msgspec.Struct):
    exuvia_db: int


_home = json_decoder(_Home)


def without_policies(info: TableInfo) -> TableInfo:
    """The table and its partitions without policies, for a recovered table whose policies may be
    dropped."""
    return _with_only(info, frozenset()) if refs_of(info) else info


def living(txn: Transaction, info: TableInfo) -> TableInfo:
    """The table with its existing policies only."""
    refs = refs_of(info)
    if not refs:
        return info
    there = {ref.id for ref in refs if _is_there(txn, ref)}
    return info if len(there) == len(refs) else _with_only(info, frozenset(there))


def _is_there(txn: Transaction, ref: PolicyRef) -> bool:
    policy = find_policy(txn, ref.name.L)
    return policy is not None and policy.id == ref.id


def _with_only(info: TableInfo, there: frozenset[int]) -> TableInfo:
    def existing(ref: PolicyRef | None) -> PolicyRef | None:
        return ref if ref is not None and ref.id in there else None

    cut = info.partition
    if cut is not None:
        definitions = tuple(
            evolve(definition, policy_ref_info=existing(definition.policy_ref_info))
            for definition in cut.definitions
        )
        cut = evolve(cut, definitions=definitions)
    return evolve(info, policy_ref_info=existing(info.policy_ref_info), partition=cut)


# -- resource groups -------------------------------------------------------------------------------

DEFAULT_GROUP = "default"
UNLIMITED = (1 << 31) - 1
"""RU_PER_SEC of the group `default`, as in TiDB."""


class ResourceGroupInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A resource group. Words are those of the statement; `query_limit`, `background`: text for
    display, "" if not set."""

    id: int
    name: Name
    ru_per_sec: int = 0
    priority: str = "MEDIUM"
    burstable: str = ""  # MODERATED, UNLIMITED; "": off
    query_limit: str = ""
    background: str = ""

    @property
    def rate(self) -> str:
        """RU_PER_SEC for display."""
        return "UNLIMITED" if self.ru_per_sec == UNLIMITED else str(self.ru_per_sec)

    def text(self) -> str:
        """The options of SHOW CREATE RESOURCE GROUP."""
        parts = [f"RU_PER_SEC={self.rate}", f"PRIORITY={self.priority}"]
        if self.burstable:
            parts.append(f"BURSTABLE({self.burstable})")
        if self.query_limit:
            parts.append(f"QUERY_LIMIT=({self.query_limit})")
        if self.background:
            parts.append(f"BACKGROUND=({self.background})")
        return ", ".join(parts)


_DEFAULT = ResourceGroupInfo(
    id=0,
    name=Name(DEFAULT_GROUP, DEFAULT_GROUP),
    ru_per_sec=UNLIMITED,
    burstable="UNLIMITED",
)
_group = json_decoder(ResourceGroupInfo)


def find_group(txn: Transaction, name: str) -> ResourceGroupInfo | None:
    """The group of that name, or None; `default` always exists."""
    payload = txn.get(keys.meta("resourcegroup", name))
    if payload is not None:
        return _group.decode(payload)
    return _DEFAULT if name.lower() == DEFAULT_GROUP else None


def groups(txn: Transaction) -> list[ResourceGroupInfo]:
    """Every group, by name."""
    stored = txn.scan(keys.span_of(keys.meta("resourcegroup")))
    by_name = {group.name.L: group for _, raw in stored for group in (_group.decode(raw),)}
    return [group_ for _, group_ in sorted({DEFAULT_GROUP: _DEFAULT, **by_name}.items())]


def put_group(txn: Transaction, info: ResourceGroupInfo) -> None:
    txn.put(keys.meta("resourcegroup", info.name.L), to_json(info))


def drop_group(txn: Transaction, info: ResourceGroupInfo) -> None:
    txn.delete(keys.meta("resourcegroup", info.name.L))
