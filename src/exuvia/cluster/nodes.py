"""What the members of a cluster say of themselves, for who looks after it (ADMIN SHOW DDL NODES).

Fronts and backs are asked (cluster/questions.py): how fresh its lease is only a member's own clock
can tell. Who does not answer is a row too, with the reason; the roles, and what waits for a front,
stand in the store.
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
    """A member's answer. `version`: the schema version it has loaded; `lease_left_s`: negative
    after its end. Unit: s."""

    version: int
    lease_left_s: float
    doing: str


class MemberRow(NamedTuple):
    """`state` None: it did not answer, for the reason in `doing`. `behind`: versions that it has
    not loaded; `awaited`: jobs that wait for it, with its reasons."""

    info: MemberInfo
    roles: list[str]
    state: MemberState | None
    behind: int | None
    doing: str
    awaited: list[str]


MEMBER: Topic[None, MemberState] = Topic("member", None, MemberState)


def state_of(member: Member, clock: Clock) -> MemberState:
    """What a member says of itself."""
    now = clock.monotonic()
    doing = DRAINS if member.draining else SERVES if member.serving(now) else EXPIRED
    return MemberState(member.version, member.lease_left(now), doing)


def handler(member: Member, clock: Clock) -> Handler[None, MemberState]:
    """What a front or a back answers."""
    return Handler(MEMBER, lambda _: state_of(member, clock))


def everybody(
    store: Store, asker: Member, clock: Clock, check: Check, version: Callable[[Transaction], int]
) -> list[MemberRow]:
    """Every member of the cluster; nodes by their address, fronts first. `version`: the schema's.
    Raises what `check` raises."""
    with store.read() as txn:
        found = members.live(txn)
    others = [each for each in found if each.id != asker.id]
    answers = Asking(store, asker, clock).ask_members(MEMBER, None, others, ANSWER_S, check)
    given = answers.given | {asker.id: state_of(asker, clock)}
    with store.read() as txn:  # after the answers: nobody is ahead of it by being slower
        newest = version(txn)
        owners = {role: owner_of(txn, role) for role in ROLES}
        awaited: dict[str, list[str]] = {}
        for job_id in announced(txn):
            for lag in lagging(txn, job_id):
                awaited.setdefault(lag.member, []).append(f"job {job_id}: {lag.reason}")
    rows = []
    for info in sorted(found, key=lambda each: (each.address, each.kind != "front", each.started)):
        state = given.get(info.id)
        rows.append(
            MemberRow(
                info,
                [role for role in ROLES if (held := owners[role]) and held.member == info.id],
                state,
                None if state is None else max(0, newest - state.version),
                answers.silent.get(info.id, "") if state is None else state.doing,
                awaited.get(info.id, []),
            )
        )
    return rows
