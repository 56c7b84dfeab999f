"""A front's side of the two versions (versions.py), and its heartbeat (member.py).

It acknowledges a step once none of its open transactions wrote the table with an older plan, and
says which do. Its lease is renewed here and nowhere else, in the transaction of a look: a front
that beats has answered every job, with an acknowledgement or with who holds it back. So nobody
waits longer than a lease for a front that does not answer, and one that is held back by a client
for an hour keeps its lease."""

from collections.abc import Mapping

from exuvia.base.errors import Conflict, Deposed
from exuvia.cluster.locks import Hold, MetadataLocks
from exuvia.cluster.member import Member
from exuvia.cluster.versions import (
    NOTHING,
    Announcement,
    Blocker,
    Place,
    ack,
    ack_key,
    announced,
)
from exuvia.kv import keys
from exuvia.kv.entry import WriteKind
from exuvia.kv.store import Store
from exuvia.kv.transaction import Transaction

IDLE_S = 1.0
BLOCKED_S = 0.02
REASON_S = 1.0
SHOWN = 10
LOCK_VARIABLE = keys.meta("var", "tidb_enable_metadata_lock")


def _blocker(hold: Hold, now: float) -> Blocker:
    return Blocker(hold.reason(now), hold.session, now - hold.since, hold.about)


class Acknowledger:
    """A front's side. One small transaction answers every job that waits."""

    channel = "version"

    def __init__(self, store: Store, member: Member, locks: MetadataLocks) -> None:
        self._store = store
        self._member = member
        self._locks = locks
        self._answered: dict[int, Place] = {}
        self._explained: dict[int, float] = {}

    def step(self, now: float) -> float:
        """Acknowledge what can be, explain what cannot, beat if it is time; or join again if
        fenced. Seconds until the next look."""
        member = self._member
        if member.fenced:
            member.step(now)
            return IDLE_S if member.fenced else 0.0  # it has left, or joined again: look
        txn = self._store.begin()
        try:
            wanted = announced(txn)
            self._tidy(txn, wanted)
            fresh = {j: a for j, a in wanted.items() if self._answered.get(j, NOTHING) < a.place}
            blocked = self._blocked(txn, fresh)
            done = {j: a.place for j, a in fresh.items() if j not in blocked}
            for job_id, place in done.items():
                self._write(txn, job_id, place, [])
            beats = member.due_in(now) == 0.0
            self._explain(txn, blocked, now, beats)
            if beats:
                member.beat(txn)
            if txn.has_writes:
                member.guard(txn)
                txn.commit()
        except Conflict:
            return 0.0  # a fencing is under way: the next look tells
        except Deposed:
            member.deposed()
            return 0.0
        finally:
            txn.rollback()
        if beats:
            member.renewed(now)
        self._answered.update(done)
        return min(BLOCKED_S if blocked else IDLE_S, member.due_in(now))

    def _blocked(
        self, txn: Transaction, wanted: Mapping[int, Announcement]
    ) -> dict[int, list[Hold]]:
        if not wanted or txn.get(LOCK_VARIABLE) == b"OFF":
            return {}
        found = {
            job_id: [
                hold
                for table_id, revision in each.tables.items()
                for hold in self._locks.blockers(table_id, revision)
            ]
            for job_id, each in wanted.items()
        }
        return {job_id: holds for job_id, holds in found.items() if holds}

    def _explain(
        self, txn: Transaction, blocked: Mapping[int, list[Hold]], now: float, beats: bool
    ) -> None:
        for job_id, holds in blocked.items():
            if beats or now - self._explained.get(job_id, float("-inf")) >= REASON_S:
                self._explained[job_id] = now
                told = [_blocker(hold, now) for hold in holds[:SHOWN]]
                self._write(txn, job_id, self._answered.get(job_id, NOTHING), told)

    def _write(self, txn: Transaction, job_id: int, place: Place, told: list[Blocker]) -> None:
        txn.write(WriteKind.PLACE, ack_key(job_id, self._member.id), ack(place, told))
        txn.notify("ack")

    def _tidy(self, txn: Transaction, wanted: Mapping[int, Announcement]) -> None:
        for job_id in [j for j in (*self._answered, *self._explained) if j not in wanted]:
            self._answered.pop(job_id, None)
            self._explained.pop(job_id, None)
            if txn.get(ack_key(job_id, self._member.id)) is not None:
                txn.write(WriteKind.REMOVE, ack_key(job_id, self._member.id), b"")
