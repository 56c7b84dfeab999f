"""Ownership of a role ("ddl", "stats", "gc"): the store accepts one member's writes (law 2).

    m/owner/{role}  Owner(member, term, since)     the owner
    m/term/{role}   term                           every write of the owner requires it: `guard`
    m/passed/{role} a member                       the former owner, which lets others seize first

    no owner, or its row is gone      -> seize; the former owner waits for its lease first
    its process ended                 -> fence it and seize, in one transaction
    no new beat for its lease         -> the same, measured on the candidate's clock (law 3)
    it lives                          -> look again later; an operator may take the role from it
                                         (`hand_over`), and one that stops gives it back

A front cannot own a role. It watches the owner of schema changes, to report why jobs do not proceed
(`OwnerWatch`).

A term is never used twice. An owner that wakes up late no longer has its term in the store,
whatever its clock shows. Two candidates that seize at once write the same keys: one gets a
Conflict.
"""

from contextlib import suppress
from functools import lru_cache, partial

import msgspec

from exuvia.base.decoding import json_decoder
from exuvia.base.errors import Conflict, Deposed
from exuvia.base.mysql_errors import ErrUnknown
from exuvia.base.waits import NO_OWNER, NO_OWNER_YET, OWNER_ENDED, OWNER_SILENT
from exuvia.cluster import member as members
from exuvia.cluster.member import Member, MemberInfo, Silence
from exuvia.kv import keys
from exuvia.kv.store import Store
from exuvia.kv.transaction import ONCE, Transaction

POLL_S = 0.25
KEEP_S = 1.0
"""Interval of an owner's looks: each transaction that takes a role notifies the channel."""


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """The owner of a role. `since` is wall time, for display. Unit: ns."""

    member: str
    term: int
    since: int


_owner = json_decoder(Owner)


@lru_cache(maxsize=16)
def _decoded(payload: bytes) -> Owner:
    """Cached, because every candidate looks four times a second."""
    return _owner.decode(payload)


def owner_of(txn: Transaction, role: str) -> Owner | None:
    """The owner of the role in this snapshot, or None."""
    payload = txn.get(keys.meta("owner", role))
    return None if payload is None else _decoded(payload)


def candidates(txn: Transaction, but: str) -> list[MemberInfo]:
    """The members that can take a role: all backs except the member `but`."""
    return [info for info in members.live(txn) if info.kind == "back" and info.id != but]


def hand_over(txn: Transaction, role: str) -> Owner:
    """Take the role from its owner, so that another member gets it. Returns the former owner.

    The owner's present work does not matter. Raises 1105 if the role has no owner or no other
    candidate."""
    former = owner_of(txn, role)
    if former is None:
        raise ErrUnknown(f"no node owns {role}")
    if not candidates(txn, former.member):
        raise ErrUnknown(f"no other node could own {role}")
    _give_back(txn, role, former)
    return former


def _give_back(txn: Transaction, role: str, former: Owner) -> None:
    txn.put(keys.meta("term", role), keys.number(former.term + 1))
    txn.put(keys.meta("passed", role), former.member.encode())
    txn.delete(keys.meta("owner", role))
    txn.notify("owner")


class Campaign:
    """A member's candidature for a role. It lasts until `resign` with `for_good`."""

    channel = "owner"

    def __init__(self, store: Store, member: Member, role: str = "ddl") -> None:
        self._store = store
        self._member = member
        self._silence = Silence(store)
        self._term = 0
        self._is_candidate = True
        self._passed_at: float | None = None
        self.role = role

    @property
    def is_owner(self) -> bool:
        """Whether this member believes it has the role; the store decides at each commit."""
        return self._term > 0 and not self._member.fenced

    @property
    def term(self) -> int:
        """The number of this ownership; 0 without one."""
        return self._term

    def guard(self, txn: Transaction) -> None:
        """Require this ownership for the commit. Raises Deposed without an ownership."""
        if not self._term:
            raise Deposed(f"no longer owner of {self.role}")
        self._member.guard(txn)
        txn.require_equal(keys.meta("term", self.role), keys.number(self._term))

    def deposed(self) -> None:
        """To be called when a write was refused: this member is no longer the owner."""
        self._term = 0

    def step(self, now: float) -> float:
        """Keep or seize the role. Returns the seconds until the next look."""
        if self._member.fenced:
            self._term = 0
            return POLL_S
        try:
            self._term = self._store.transact(partial(self._keep_or_seize, now=now), ONCE)
        except Conflict:
            return 0.0  # another candidate was faster, or the owner sent a heartbeat
        except Deposed:
            pass  # fenced: the member joins again first
        return KEEP_S if self._term else POLL_S

    def _keep_or_seize(self, txn: Transaction, now: float) -> int:
        """Returns this member's term, or 0 if it is not the owner."""
        if self._still_mine(txn):
            return self._term
        self._term = 0  # also if the commit fails
        return self._seize(txn) if self._is_vacant(txn, now) else 0

    def demand(self) -> bool:
        """Take the role from a living owner. Returns whether that succeeded.

        For upgrades only. The owner is not fenced; its commits for the role are refused because of
        the new term."""
        try:
            self._term = self._store.transact(self._keep_or_demand, ONCE)
        except (Conflict, Deposed):
            return False
        return True

    def _keep_or_demand(self, txn: Transaction) -> int:
        if self._still_mine(txn):
            return self._term
        self._term = 0
        return self._seize(txn, fences=False)

    def _still_mine(self, txn: Transaction) -> bool:
        owner = owner_of(txn, self.role)
        return (
            owner is not None
            and self._term > 0
            and (owner.member, owner.term) == (self._member.id, self._term)
        )

    def _is_vacant(self, txn: Transaction, now: float) -> bool:
        if not self._is_candidate:
            return False
        owner = owner_of(txn, self.role)
        if owner is None:
            return self._is_its_turn(txn, now)
        if owner.member == self._member.id:
            return True
        holder = members.find(txn, owner.member)
        self._silence.keep_only([] if holder is None else [holder])
        return holder is None or self._silence.is_over(txn, holder, now)

    def _is_its_turn(self, txn: Transaction, now: float) -> bool:
        """Whether a former owner may seize again: after a lease in which no other member did."""
        passed_by = txn.get(keys.meta("passed", self.role))
        if passed_by != self._member.id.encode() or not candidates(txn, self._member.id):
            return True
        if self._passed_at is None:
            self._passed_at = now
        return now - self._passed_at >= self._member.info.lease_s

    def _seize(self, txn: Transaction, fences: bool = True) -> int:
        former = owner_of(txn, self.role)
        if fences and former is not None and former.member != self._member.id:
            members.fence(txn, former.member)
        term_key = keys.meta("term", self.role)
        term = keys.read_number(txn.get(term_key)) + 1
        owner = Owner(member=self._member.id, term=term, since=self._member.clock.wall_ns())
        self._member.guard(txn)
        txn.put(term_key, keys.number(term))
        txn.put(keys.meta("owner", self.role), msgspec.json.encode(owner))
        passed_key = keys.meta("passed", self.role)
        if txn.get(passed_key) is not None:
            txn.delete(passed_key)
        txn.notify("owner")
        self._passed_at = None
        return term

    def resign(self, for_good: bool = False) -> None:
        """Give the role back, so that another takes it at once.

        `for_good`: this member does not seize the role again."""
        self._is_candidate = self._is_candidate and not for_good
        if not self._term:
            return

        def give_back(txn: Transaction) -> None:
            self.guard(txn)
            former = owner_of(txn, self.role)
            if former is not None:
                _give_back(txn, self.role, former)

        with suppress(Conflict, Deposed):  # another member already has the role
            self._store.transact(give_back)
        self._term = 0


# -- watching the owner ----------------------------------------------------------------------------


class OwnerWatch:
    """Reports why a role's work does not proceed, for processes that are no candidates.

    It measures the owner's silence from the beats that it saw in earlier looks."""

    def __init__(self, store: Store, role: str = "ddl") -> None:
        self._store = store
        self._silence = Silence(store)
        self._role = role

    def look(self, txn: Transaction, now: float) -> None:
        """To be called at each beat of this process."""
        owner = owner_of(txn, self._role)
        holder = None if owner is None else members.find(txn, owner.member)
        if holder is not None:
            self._silence.of(txn, holder, now)
        self._silence.keep_only([] if holder is None else [holder])

    def trouble(self, txn: Transaction, now: float) -> str:
        """The reason for waiting, or "" while the owner lives."""
        owner = owner_of(txn, self._role)
        if owner is None:
            if candidates(txn, ""):
                return NO_OWNER_YET(self._role)
            return NO_OWNER(self._role)
        holder = members.find(txn, owner.member)
        if holder is None or not self._store.held(members.presence_of(holder.id)):
            whose = "the owner" if holder is None else f"the owner, {holder.title},"
            return OWNER_ENDED(whose, self._role)
        silent_s = self._silence.of(txn, holder, now)
        if silent_s <= 2 * holder.lease_s / members.BEATS_PER_LEASE:
            return ""
        return OWNER_SILENT(holder.title, members.silent_for(silent_s, holder))
