"""Assent: the acknowledgement a cluster's only front gives in advance, with the job it submits.

    the front, in the transaction    no open transaction of it wrote the table, and none that was
    that inserts the job             begun explicitly is open: `give`. From then on, who takes the
                                     table's metadata lock, or begins one, withdraws first
    the owner, in a step's           the assent stands: no other front, same epoch, nothing
    transaction                      withdrawn; the commit requires all three: `stands`

While it stands, whoever would acknowledge has: steps may follow one another in one transaction,
each a decision, a state, a version of its own. What takes the metadata lock either withdraws in
time, and is waited for as ever, or comes after the steps. A writer that planned before them is
refused by the store's fence as any that is two revisions late (law 1): nothing rests on an assent.

The front leaves unanswered what it has assented to, until it withdraws or another front joins.

    m/assent/{front}    how often that front has withdrawn; absent: never
"""

from collections.abc import Callable
from functools import partial

import msgspec

from exuvia.cluster import member as members
from exuvia.cluster.member import Member
from exuvia.kv import keys
from exuvia.kv.store import Store
from exuvia.kv.transaction import UNBOUNDED, Transaction


class Assent(msgspec.Struct, frozen=True, array_like=True):
    """Which front gave it, in which epoch, having withdrawn so often; `serial`: see
    MetadataLocks.reserve."""

    member: str
    epoch: int
    withdrawn: int
    serial: int


def give(txn: Transaction, member: Member, reserve: Callable[[], int]) -> Assent | None:
    """The assent of that member, if it is the only front. `reserve`: see MetadataLocks; 0: None.

    The commit is refused if the front withdraws meanwhile."""
    if not _is_alone(txn, member.id):
        return None
    key = _key(member.id)
    txn.require(key)
    withdrawn = keys.read_number(txn.get(key))
    serial = reserve()
    epoch = keys.read_number(member.fence[1])
    return Assent(member.id, epoch, withdrawn, serial) if serial else None


def stands(txn: Transaction, assent: Assent) -> bool:
    """Whether it holds in this snapshot; if so, the commit requires that it still does."""
    if not relied_on(txn, assent):
        return False
    # whoever joins takes an epoch
    for key in (keys.LAST_EPOCH, keys.meta("fence", assent.member), _key(assent.member)):
        txn.require(key)
    return True


def relied_on(txn: Transaction, assent: Assent) -> bool:
    """The same, of this snapshot only."""
    return (
        keys.read_number(txn.get(_key(assent.member))) == assent.withdrawn
        and keys.read_number(txn.get(keys.meta("fence", assent.member))) == assent.epoch
        and _is_alone(txn, assent.member)
    )


def withdraw(store: Store, member: Member) -> None:
    """End every assent of that front: no later commit relies on one. Raises Deposed."""
    store.transact(partial(_count, member=member), UNBOUNDED)


def _count(txn: Transaction, member: Member) -> None:
    member.guard(txn)
    key = _key(member.id)
    txn.put(key, keys.number(keys.read_number(txn.get(key)) + 1))
    txn.notify("version")  # this front has to answer itself now


def _key(member_id: str) -> bytes:
    return keys.meta("assent", member_id)


def _is_alone(txn: Transaction, member_id: str) -> bool:
    return [info.id for info in members.live(txn) if info.kind == "front"] == [member_id]
