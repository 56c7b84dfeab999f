"""Assent: the acknowledgement that a cluster's only front gives in advance, with the job.

    the front, in the transaction    gives the assent (`give`) if none of its open transactions
    that inserts the job             wrote the table and none was begun explicitly. It withdraws the
                                     assent before a transaction takes the table's metadata lock or
                                     is begun explicitly
    the owner, in a step's           checks that the front is still the only one, has the same epoch
    transaction                      and has not withdrawn; the commit requires all three: `rely_on`

A valid assent replaces the acknowledgement of a version. Several steps can then run in one
transaction; each still has its own decision, state and version. A transaction that takes the
metadata lock in time withdraws the assent, and the job waits for it as usual. A later one plans
after the steps. A writer that planned before the steps is refused by the store's fence, as is any
writer with a plan two revisions old (law 1). Correctness therefore does not depend on assents.

The front does not acknowledge a version for which its assent is valid.

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
    """The front, its epoch, its number of withdrawals at that moment, and the reservation.

    `serial`: from MetadataLocks.reserve."""

    member: str
    epoch: int
    withdrawn: int
    serial: int


def give(txn: Transaction, member: Member, reserve: Callable[[], int]) -> Assent | None:
    """Returns the assent of `member`, or None if it is not the only front or cannot reserve.

    `reserve`: MetadataLocks.reserve of the table. The commit is refused if the front withdraws
    before it."""
    if not _is_alone(txn, member.id):
        return None
    key = _key(member.id)
    txn.require(key)
    withdrawn = keys.read_number(txn.get(key))
    serial = reserve()
    epoch = keys.read_number(member.fence[1])
    return Assent(member.id, epoch, withdrawn, serial) if serial else None


def rely_on(txn: Transaction, assent: Assent) -> bool:
    """Whether the assent is valid in this snapshot. If so, the commit requires that it still is."""
    if not is_valid(txn, assent):
        return False
    # a front that joins takes an epoch
    for key in (keys.LAST_EPOCH, keys.meta("fence", assent.member), _key(assent.member)):
        txn.require(key)
    return True


def is_valid(txn: Transaction, assent: Assent) -> bool:
    """Whether the assent is valid in this snapshot; the commit requires nothing."""
    return (
        keys.read_number(txn.get(_key(assent.member))) == assent.withdrawn
        and keys.read_number(txn.get(keys.meta("fence", assent.member))) == assent.epoch
        and _is_alone(txn, assent.member)
    )


def withdraw(store: Store, member: Member) -> None:
    """End all assents of this front; later commits cannot rely on them. Raises Deposed."""
    store.transact(partial(_count, member=member), UNBOUNDED)


def _count(txn: Transaction, member: Member) -> None:
    member.guard(txn)
    key = _key(member.id)
    txn.put(key, keys.number(keys.read_number(txn.get(key)) + 1))
    txn.notify("version")  # without the assent this front has to acknowledge


def _key(member_id: str) -> bytes:
    return keys.meta("assent", member_id)


def _is_alone(txn: Transaction, member_id: str) -> bool:
    return [info.id for info in members.live(txn) if info.kind == "front"] == [member_id]
