"""Ownership of a role ("ddl", "stats", "gc"): at most one member's writes are accepted (law 2).

    m/owner/{role}  Owner(member, term, since)     who has it
    m/term/{role}   term                           every write of the owner requires it: `guard`
    m/passed/{role} a member                       it had the role and lets the others go first

    nobody, or one whose row is gone  -> seize; who let the others go first waits for its lease
    its process ended                 -> fence it and seize, in one transaction
    its beat stood still for a lease  -> likewise, on the candidate's own clock (law 3)
    it lives                          -> look again later; an operator may take the role from it
                                         (`hand_over`), and one that stops gives it back

Who only serves statements watches the owner of schema changes, to say what a job waits for that
nobody steps (`OwnerWatch`).

A term is never used twice. An owner that wakes up late finds its term gone in the store, whatever
its clock says. Two candidates that seize at once write the same keys: one of them gets a Conflict.
"""

from contextlib import suppress
from functools import lru_cache, partial

import msgspec

from exuvia.base.errors import Conflict, Deposed
from exuvia.base.mysql_errors import ErrUnknown
from exuvia.base.waits import NO_OWNER, NO_OWNER_YET, OWNER_ENDED, OWNER_SILENT
from exuvia.cluster import member as members
from exuvia.cluster.member import Member, MemberInfo, Silence
from exuvia.kv import keys
from exuvia.kv.store import Store
from exuvia.kv.transaction import ONCE, Transaction

POLL_S = 0.25


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """Who has a role. `since` is wall time, for display. Unit: ns."""

    member: str
    term: int
    since: int


_owner = msgspec.json.Decoder(Owner)


@lru_cache(maxsize=16)
def _decoded(payload: bytes) -> Owner:
    """One for the same bytes: every candidate looks four times a second."""
    return _owner.decode(payload)


def owner_of(txn: Transaction, role: str) -> Owner | None:
    """Who has the role in this snapshot; None while nobody has."""
    payload = txn.get(keys.meta("owner", role))
    return None if payload is None else _decoded(payload)


def candidates(txn: Transaction, but: str) -> list[MemberInfo]:
    """Who else may take a role: every back but that member."""
    return [each for each in members.live(txn) if each.kind == "back" and each.id != but]


def hand_over(txn: Transaction, role: str) -> Owner:
    """Take the role from its owner, whatever that does now, so that another gets it; the former
    owner. Raises 1105 where nobody has it, or nobody else could take it."""
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
    """A member's standing candidature for a role."""

    channel = "owner"

    def __init__(self, store: Store, member: Member, role: str = "ddl") -> None:
        self._store = store
        self._member = member
        self._silence = Silence(store)
        self._term = 0
        self._stands = True
        self._passed_at: float | None = None
        self.role = role

    @property
    def is_owner(self) -> bool:
        """Whether this member believes it has the role; the store decides at each commit."""
        return self._term > 0 and not self._member.fenced

    @property
    def term(self) -> int:
        """The epoch of this ownership; 0 while it has none."""
        return self._term

    def guard(self, txn: Transaction) -> None:
        """The transaction commits only while this ownership stands. Raises Deposed after it."""
        if not self._term:
            raise Deposed(f"no longer owner of {self.role}")
        self._member.guard(txn)
        txn.require_equal(keys.meta("term", self.role), keys.number(self._term))

    def deposed(self) -> None:
        """A write was refused: stop at once."""
        self._term = 0

    def step(self, now: float) -> float:
        """Keep or seize the role; seconds until the next look."""
        if self._member.fenced:
            self._term = 0
            return POLL_S
        try:
            self._term = self._store.transact(partial(self._keep_or_seize, now=now), ONCE)
        except Conflict:
            return 0.0  # another candidate was faster, or the owner beat after all
        except Deposed:
            pass  # fenced: joining again comes first
        return POLL_S

    def _keep_or_seize(self, txn: Transaction, now: float) -> int:
        """The term that is this member's then."""
        if self._still_mine(txn):
            return self._term
        self._term = 0  # whatever becomes of the rest
        return self._seize(txn) if self._is_vacant(txn, now) else 0

    def demand(self) -> bool:
        """Take the role from a living owner; whether it is ours. For an upgrade only (seed 000).

        Its member lives on: the term alone refuses what it still commits for the role."""
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
        if not self._stands:
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
        """Who let the others go first takes the role again when none of them has, in a lease."""
        passed = txn.get(keys.meta("passed", self.role))
        if passed != self._member.id.encode() or not candidates(txn, self._member.id):
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
        passed = keys.meta("passed", self.role)
        if txn.get(passed) is not None:
            txn.delete(passed)
        txn.notify("owner")
        self._passed_at = None
        return term

    def resign(self, for_good: bool = False) -> None:
        """Give the role back, so that another takes it at once. `for_good`: whether or not it has
        it, it stands for it no more."""
        self._stands = self._stands and not for_good
        if not self._term:
            return

        def give_back(txn: Transaction) -> None:
            self.guard(txn)
            former = owner_of(txn, self.role)
            if former is not None:
                _give_back(txn, self.role, former)

        with suppress(Conflict, Deposed):  # it was taken already
            self._store.transact(give_back)
        self._term = 0


# -- who watches -----------------------------------------------------------------------------------


class OwnerWatch:
    """Why a role is not looked after, as a process sees it that does not stand for it.

    It knows since when an owner is silent from the times that it looked before."""

    def __init__(self, store: Store, role: str = "ddl") -> None:
        self._store = store
        self._silence = Silence(store)
        self._role = role

    def look(self, txn: Transaction, now: float) -> None:
        """To be called at each beat of the process's own."""
        owner = owner_of(txn, self._role)
        holder = None if owner is None else members.find(txn, owner.member)
        if holder is not None:
            self._silence.of(txn, holder, now)
        self._silence.keep_only([] if holder is None else [holder])

    def trouble(self, txn: Transaction, now: float) -> str:
        """What is waited for, "" while the owner lives."""
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
