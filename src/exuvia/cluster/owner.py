"""Ownership of a role ("ddl", "stats", "gc"): at most one member's writes are accepted (law 2).

    m/owner/{role}  Owner(member, term, since)     who has it
    m/term/{role}   term                           every write of the owner requires it: `guard`

    nobody, or one whose row is gone  -> seize
    its process ended                 -> fence it and seize, in one transaction
    its beat stood still for a lease  -> likewise, on the candidate's own clock (law 3)
    it lives                          -> look again later

A term is never used twice. An owner that wakes up late finds its term gone in the store, whatever
its clock says. Two candidates that seize at once write the same keys: one of them gets a Conflict.
"""

from contextlib import suppress
from functools import lru_cache, partial

import msgspec

from exuvia.base.errors import Conflict, Deposed
from exuvia.cluster import member as members
from exuvia.cluster.member import Member, Silence
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


class Campaign:
    """A member's standing candidature for a role."""

    channel = "owner"

    def __init__(self, store: Store, member: Member, role: str = "ddl") -> None:
        self._store = store
        self._member = member
        self._silence = Silence(store)
        self._term = 0
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
        owner = owner_of(txn, self.role)
        if owner is None or owner.member == self._member.id:
            return True
        holder = members.find(txn, owner.member)
        self._silence.keep_only([] if holder is None else [holder])
        return holder is None or self._silence.is_over(txn, holder, now)

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
        txn.notify("owner")
        return term

    def resign(self) -> None:
        """Give the role back, so that another takes it at once."""
        if not self._term:
            return

        def give_back(txn: Transaction) -> None:
            self.guard(txn)
            txn.put(keys.meta("term", self.role), keys.number(self._term + 1))
            txn.delete(keys.meta("owner", self.role))
            txn.notify("owner")

        with suppress(Conflict, Deposed):  # it was taken already
            self._store.transact(give_back)
        self._term = 0
