"""The state of all members, for ADMIN SHOW DDL NODES and the status page.

Fronts and backs are asked (cluster/questions.py), because only a member's own clock measures the
rest of its lease. A member that does not answer gets a row with the reason. The roles, and the jobs
that wait for a front, come from the store.
"""

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from exuvia.base.clock import Clock
from exuvia.cluster import member as members
from exuvia.cluster.member import Member, MemberInfo
from exuvia.cluster.owner import owner_of
from exuvia.cluster.questions import Asking, Check, Handler, Topic
from exuvia.cluster.versions import announced, lagging
from exuvia.kv.store import Store
from exuvia.kv.transaction import Transaction

ROLES = ("ddl", "gc", "stats")
ANSWER_S = 1.0
SERVES, DRAINS, EXPIRED = "serves", "drains", "its lease is over (8027)"


class MemberState(msgspec.Struct, frozen=True, array_like=True):
    """A member's answer. `version`: the schema version it has loaded.

    `lease_left_s`: negative after its end. Unit: s."""

    version: int
    lease_left_s: float
    doing: str


class MemberRow(NamedTuple):
    """A member's row. `state`: None if it did not answer; `doing` then has the reason.

    `behind`: number of versions that it has not loaded. `awaited`: jobs that wait for it, with its
    reasons."""

    info: MemberInfo
    roles: list[str]
    state: MemberState | None
    behind: int | None
    doing: str
    awaited: list[str]


MEMBER: Topic[None, MemberState] = Topic("member", None, MemberState)


def state_of(member: Member, clock: Clock) -> MemberState:
    """The state of this process's member."""
    now = clock.monotonic()
    doing = DRAINS if member.draining else SERVES if member.serving(now) else EXPIRED
    return MemberState(member.version, member.lease_left(now), doing)


def handler(member: Member, clock: Clock) -> Handler[None, MemberState]:
    """Answers the question of another node for the state of `member`."""
    return Handler(MEMBER, lambda _: state_of(member, clock))


def all_members(
    store: Store, asker: Member, clock: Clock, check: Check, version: Callable[[Transaction], int]
) -> list[MemberRow]:
    """All members of the cluster, by the address of their node, fronts first.

    `version`: reads the schema version. Raises what `check` raises."""
    with store.read() as txn:
        infos = members.live(txn)
    others = [info for info in infos if info.id != asker.id]
    answers = Asking(store, asker, clock).ask_members(MEMBER, None, others, ANSWER_S, check)
    states = answers.replies | {asker.id: state_of(asker, clock)}
    with store.read() as txn:  # after the answers: no member can have a newer version than this
        newest = version(txn)
        owners = {role: owner_of(txn, role) for role in ROLES}
        awaited: dict[str, list[str]] = {}
        for job_id in announced(txn):
            for lag in lagging(txn, job_id):
                awaited.setdefault(lag.member, []).append(f"job {job_id}: {lag.reason}")
    rows = []
    for info in sorted(infos, key=lambda info: (info.address, info.kind != "front", info.started)):
        state = states.get(info.id)
        rows.append(
            MemberRow(
                info,
                [role for role in ROLES if (owner := owners[role]) and owner.member == info.id],
                state,
                None if state is None else max(0, newest - state.version),
                answers.silent.get(info.id, "") if state is None else state.doing,
                awaited.get(info.id, []),
            )
        )
    return rows
