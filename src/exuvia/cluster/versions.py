"""Two versions at most: a step is announced, every front acknowledges, then the next step may run.

    worker, in its step's transaction   announce(job, version, {table: revision})   m/sync/..
    each front, woken by "version"      Acknowledger: ack the version, if no open writer has
                                        an older plan; else say who has             m/ack/..
    worker, woken by "ack"              lagging(job) is empty -> next step; else it says why
    worker, in the last transaction     finish(job)

A front that does not answer is waited for as long as its lease, on the waiter's clock, and then
fenced (cluster/member.py); one whose process has ended is fenced at once. A front that joins after
the announcement plans with the new version anyway; its acknowledgement is harmless. A new owner
finds the announcements in the store and waits for them before it steps (law 4).

A silent step moves revisions and no version: its announcement has the version of the one before,
and the next number. A front of an older build acknowledges without numbers, and is believed.

Acknowledgements are placed unvalidated: each key has one writer, and they must not conflict with
the steps of other jobs. A front removes its own leftovers once a job's announcement is gone.

The metadata lock: which open transactions of this front wrote which table, planned with what.
A table that gave evidence for a write elsewhere counts as written.

    hold(transaction, table, revision)    when it first writes the table; when an explicit one that
                                          may yet write first reads it, for the transaction's first
                                          second: what short ones read they can write
    release(transaction)                  when it ends, however it ends
    enter, leave(transaction)             an explicit one begins, before it reads; it ends
    reserve(table)                        nobody holds it, none is open: who comes withdraws first
    blockers(table, below)                who planned with a revision older than `below`

It lets transactions live through a schema change: a front acknowledges a step only when nobody
blocks it. Nothing becomes wrong without it, the store's fence decides at commit (law 1). Readers
are safe in their snapshot, so an idle BEGIN or a dump blocks nothing after its first second.

A front's side of it (`Acknowledger`), and its heartbeat (cluster/member.py): it acknowledges a step
once none of its open transactions wrote the table with an older plan, and says which do. Its lease
is renewed here and nowhere else, in the transaction of a look: a front that beats has answered
every job, with an acknowledgement or with who holds it back. So nobody waits longer than a lease
for a front that does not answer, and one that is held back by a client for an hour keeps its lease.

A change that waits no longer asks fronts, in its announcement, to end who is in its way
(`end_blockers`): each front ends its own, and names them in its acknowledgements of that job.

What a change would wait for at other fronts, EXPLAIN asks them (`told_elsewhere`).
"""

import sys
import threading
from collections.abc import Callable, Hashable, Iterator, Mapping
from functools import partial
from itertools import count
from typing import NamedTuple

import msgspec

from exuvia.base.clock import Clock, SystemClock
from exuvia.base.errors import Conflict, Deposed, Refused
from exuvia.base.mysql_errors import ErrQueryInterrupted
from exuvia.base.waits import NO_ANSWER, TRANSACTION
from exuvia.cluster import assent
from exuvia.cluster import member as members
from exuvia.cluster.assent import Assent
from exuvia.cluster.member import Member, MemberInfo, Silence
from exuvia.cluster.owner import OwnerWatch
from exuvia.cluster.questions import Asking, Check, Handler, Topic
from exuvia.kv import keys
from exuvia.kv.packet import WriteKind
from exuvia.kv.store import Store
from exuvia.kv.transaction import ONCE, Transaction

READ_HOLD_S = 1.0
"""For how long an explicit transaction holds what it has only read."""
BUSY_S = 0.1
"""A table that two transactions took within that time is busy: another one will come soon."""
MOST_TAKEN = 1024
"""Tables of which it is known when they were taken; those that are not busy are forgotten."""
_NEVER = (float("-inf"), float("-inf"))


End = Callable[[Refused], None]
"""Roll that transaction back; its client is told by that error."""


class Hold(NamedTuple):
    """A table written by an open transaction, or only read. `since` is this front's monotonic
    clock: of a reader when its transaction began. Unit: s.

    `session`: the connection's number, where it has one. `end`: any thread."""

    about: str
    revision: int
    since: float
    session: int = 0
    reads: bool = False
    end: End | None = None

    def reason(self, now: float) -> str:
        """Who waits must read what for (law 10)."""
        whose = f"open transaction of connection {self.session}: " if self.session else ""
        return TRANSACTION(f"{whose}{self.about}", self.revision, now - self.since)


class MetadataLocks:
    """Thread-safe. Tokens stand for transactions. `withdraw`: ends this front's assents."""

    def __init__(
        self, clock: Clock | None = None, withdraw: Callable[[], None] = lambda: None
    ) -> None:
        self.withdraw = withdraw
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._tables: dict[int, dict[Hashable, Hold]] = {}
        self._tokens: dict[Hashable, set[int]] = {}
        self._open: dict[Hashable, float] = {}
        self._reserved: dict[int, int] = {}
        self._serials = count(1)
        self._taken: dict[int, tuple[float, float]] = {}  # when the last two transactions took it

    def is_busy(self, table_id: int) -> bool:
        """Whether transactions follow one another on the table."""
        return self._clock.monotonic() - self._taken.get(table_id, _NEVER)[0] < BUSY_S

    def reserve(self, table_id: int) -> int:
        """A serial number from 1 if no transaction holds the table, otherwise 0.

        Also 0 if a transaction will hold it soon, or if an explicit transaction is open. The latter
        may write a table that it has read under the next version, not under a later one."""
        with self._lock:
            if self._open or self._tables.get(table_id) or self.is_busy(table_id):
                return 0
            self._reserved[table_id] = serial = next(self._serials)
            return serial

    def unreserve(self, table_id: int, serial: int) -> None:
        """That reservation is over; one made since stays."""
        with self._lock:
            if self._reserved.get(table_id) == serial:
                del self._reserved[table_id]

    def enter(self, token: Hashable) -> None:
        """An explicit transaction begins. Raises what `withdraw` raises: it has not begun then."""
        with self._lock:
            self._open[token] = self._clock.monotonic()
            reserved = list(self._reserved.items())
        if reserved:
            try:
                self.withdraw()
            except BaseException:
                self.leave(token)
                raise
            for table_id, serial in reserved:
                self.unreserve(table_id, serial)

    def leave(self, token: Hashable) -> None:
        """It has ended. Twice is harmless."""
        with self._lock:
            self._open.pop(token, None)

    def is_young(self, token: Hashable) -> bool:
        """Whether an explicit transaction began so lately that what it reads is held."""
        began = self._open.get(token)
        return began is not None and self._clock.monotonic() - began < READ_HOLD_S

    def hold(
        self,
        token: Hashable,
        table_id: int,
        revision: int,
        about: str = "",
        session: int = 0,
        reads: bool = False,
        end: End | None = None,
    ) -> None:
        """The transaction wrote the table with a plan of that revision; the oldest plan counts.
        `reads`: it is an explicit one and only reads it.

        `about` tells who and what: "open transaction of connection 12 wrote t". Raises what
        `withdraw` raises, where the table is reserved; it is held then, too."""
        with self._lock:
            holds = self._tables.setdefault(table_id, {})
            known = holds.get(token)
            if known is None:
                self._record_taken(table_id)
            writes_first = known is None or (known.reads and not reads)
            if known is None or writes_first or revision < known.revision:
                since = self._clock.monotonic() if writes_first or known is None else known.since
                since = self._open.get(token, since) if reads else since
                oldest = revision if known is None else min(revision, known.revision)
                told = about or f"open transaction {token!r} wrote"
                holds[token] = Hold(told, oldest, since, session, reads, end)
                self._tokens.setdefault(token, set()).add(table_id)
            reserved = self._reserved.get(table_id)
        if reserved is not None:
            self.withdraw()
            self.unreserve(table_id, reserved)

    def _record_taken(self, table_id: int) -> None:
        now = self._clock.monotonic()
        self._taken[table_id] = self._taken.get(table_id, _NEVER)[1], now
        if len(self._taken) > MOST_TAKEN:
            kept = {t: taken for t, taken in self._taken.items() if now - taken[1] < BUSY_S}
            self._taken = kept

    def release(self, token: Hashable) -> None:
        """The transaction has ended. Twice is harmless."""
        with self._lock:
            for table_id in self._tokens.pop(token, ()):
                holds = self._tables[table_id]
                del holds[token]
                if not holds:
                    del self._tables[table_id]

    def is_held(self, token: Hashable) -> bool:
        """Whether that transaction is open and holds any table."""
        with self._lock:
            return token in self._tokens

    def blockers(self, table_id: int, below_revision: int) -> list[Hold]:
        """Open transactions that wrote the table with an older plan, oldest first."""
        with self._lock:
            holds = list(self._tables.get(table_id, {}).values())
        old = self._clock.monotonic() - READ_HOLD_S
        stands = (
            h for h in holds if h.revision < below_revision and not (h.reads and h.since < old)
        )
        return sorted(stands, key=lambda h: h.since)


# -- versions --------------------------------------------------------------------------------------

IDLE_S = 1.0
BLOCKED_S = 0.01
REASON_S = 1.0
PACE_S = 0.05
"""The minimum time between two acknowledgements of a busy table by a front. Each version costs the
next statements some time, and one transaction should not pay for all versions of a change."""
SHOWN = 10
TOLD_LETTERS = 80
_INTERRUPTED = ErrQueryInterrupted().message
LOCK_VARIABLE = keys.meta("var", "tidb_enable_metadata_lock")


class Announcement(msgspec.Struct, frozen=True):
    """What a job's last step published: table id -> revision. `number` counts the announcements
    of one version, from 1; `assent`: which front has answered in advance; `ends`: why fronts end
    who blocks it, "" while they do not."""

    version: int
    tables: dict[int, int]
    number: int = 0
    assent: Assent | None = None
    ends: str = ""

    @property
    def place(self) -> "Place":
        """Where it stands among those of its job."""
        return self.version, self.number


class Blocker(msgspec.Struct, frozen=True):
    """An open transaction that a front cannot acknowledge for. Unit: s.

    One with a `number` is none: it tells which announcement of its version a front means. One that
    is `ended` was rolled back for the job's sake."""

    reason: str
    session: int = 0
    age_s: float = 0.0
    query: str = ""
    number: int = 0
    ended: bool = False


class Lag(NamedTuple):
    """A front that has not acknowledged, and why."""

    member: str
    reason: str


Place = tuple[int, int]
NOTHING: Place = (0, 0)
UNNUMBERED = sys.maxsize

_announcement = msgspec.json.Decoder(Announcement)
_blockers = msgspec.json.Decoder(list[Blocker])


def ack_key(job_id: int, member_id: str) -> bytes:
    """Where that front acknowledges for that job."""
    return keys.meta("ack", job_id, member_id)


def ack(place: Place, told: list[Blocker]) -> bytes:
    """An acknowledgement up to that announcement, and what keeps the front from the next."""
    version, number = place
    marked = [*told, Blocker("", number=number)] if number else told
    return keys.number(version) + msgspec.json.encode(marked)


def _read_ack(payload: bytes | None) -> tuple[Place, list[Blocker]]:
    if payload is None:
        return NOTHING, []
    told = _blockers.decode(payload[8:])
    number = max((each.number for each in told), default=0) or UNNUMBERED
    blocking = [each for each in told if not each.number and not each.ended]
    return (keys.read_number(payload[:8]), number), blocking


def announce(
    txn: Transaction,
    job_id: int,
    version: int,
    tables: Mapping[int, int],
    given: Assent | None = None,
) -> None:
    """Ask every front to acknowledge, in the transaction that publishes the version."""
    key = keys.meta("sync", job_id)
    before = txn.get(key)
    last = NOTHING if before is None else _announcement.decode(before).place
    number = last[1] + 1 if last[0] == version else 1
    txn.put(key, msgspec.json.encode(Announcement(version, dict(tables), number, given)))
    txn.notify("version")


def announced(txn: Transaction) -> dict[int, Announcement]:
    """What is to be acknowledged, by job id."""
    prefix = keys.meta("sync")
    found = txn.scan(keys.span_of(prefix))
    return {keys.read_number(key[len(prefix) :]): _announcement.decode(raw) for key, raw in found}


def end_blockers(txn: Transaction, job_id: int, why: str) -> bool:
    """Ask every front to end the transactions that a job's last version waits for; whether that is
    new. `why`: what their clients are told."""
    key = keys.meta("sync", job_id)
    payload = txn.get(key)
    if payload is None:
        return False
    announcement = _announcement.decode(payload)
    if announcement.ends:
        return False
    txn.put(key, msgspec.json.encode(msgspec.structs.replace(announcement, ends=why)))
    txn.notify("version")
    return True


def ended_for(txn: Transaction, job_id: int) -> list[str]:
    """The transactions that fronts have ended for a job's sake."""
    found = txn.scan(keys.span_of(keys.meta("ack", job_id)))
    told = [each for _, payload in found for each in _blockers.decode(payload[8:])]
    return [each.reason for each in told if each.ended]


def finish(txn: Transaction, job_id: int) -> None:
    """The job has ended: nothing is waited for any more."""
    txn.write(WriteKind.REMOVE, keys.meta("sync", job_id), b"")
    for key, _ in list(txn.scan(keys.span_of(keys.meta("ack", job_id)))):
        txn.write(WriteKind.REMOVE, key, b"")


def is_answered_ahead(txn: Transaction, job_id: int) -> bool:
    """Whether the only front has answered the job's last step in advance."""
    payload = txn.get(keys.meta("sync", job_id))
    return payload is not None and _is_answered_ahead(txn, _announcement.decode(payload))


def _is_answered_ahead(txn: Transaction, announcement: Announcement) -> bool:
    return announcement.assent is not None and assent.stands(txn, announcement.assent)


def blockers(txn: Transaction, job_id: int) -> list[Blocker]:
    """The open transactions that a job's last version waits for, on every front."""
    return [each for _, found in _behind(txn, job_id) for each in found]


def has_fronts(txn: Transaction) -> bool:
    """Whether anybody answers announcements."""
    return any(info.kind == "front" for info in members.live(txn))


def _behind(txn: Transaction, job_id: int) -> list[tuple[MemberInfo, list[Blocker]]]:
    payload = txn.get(keys.meta("sync", job_id))
    if payload is None:
        return []
    announcement = _announcement.decode(payload)
    if _is_answered_ahead(txn, announcement):
        return []
    wanted = announcement.place
    answers = dict(txn.scan(keys.span_of(keys.meta("ack", job_id))))
    found = []
    for info in members.live(txn):
        if info.kind == "front":
            place, holds = _read_ack(answers.get(ack_key(job_id, info.id)))
            if place < wanted:
                found.append((info, holds))
    return found


def lagging(txn: Transaction, job_id: int) -> list[Lag]:
    """Live fronts that have not acknowledged the job's last version, with their own reasons."""
    return [
        Lag(info.id, f"{info.title}: {_reasons(holds)}") for info, holds in _behind(txn, job_id)
    ]


def _reasons(holds: list[Blocker]) -> str:
    return "; ".join(each.reason for each in holds) or NO_ANSWER()


class Waiter:
    """Waits for others on behalf of an owner; `guard` puts its epoch into what it writes.

    A job's worker asks `lagging`; one loop calls `step`, which needs no wake-up."""

    channel = ""  # silence is told by nobody

    def __init__(
        self, store: Store, guard: Callable[[Transaction], None] = lambda txn: None
    ) -> None:
        self._store = store
        self._guard = guard
        self._silence = Silence(store)

    def step(self, now: float) -> float:
        """Fence every member that is dead or silent for its lease; seconds until the next look."""

        def fence(txn: Transaction) -> None:
            self._guard(txn)  # who does not own the role looks after nobody, and asks nothing
            known = members.live(txn)
            self._silence.keep_only(known)
            self._fence(txn, self._ended(txn, known, now))

        try:
            self._store.transact(fence, ONCE)
        except Conflict:
            return 0.0  # one of them beat after all
        except Deposed:
            pass
        return IDLE_S

    def lagging(self, job_id: int, now: float) -> list[Lag]:
        """As the function, after fencing those of them that are dead or silent. Raises Deposed."""

        def look(txn: Transaction) -> list[Lag]:
            behind = _behind(txn, job_id)
            txn.snapshot.ahead([members.beat_key(info.id) for info, _ in behind])
            ended = self._ended(txn, [info for info, _ in behind], now)
            lags = [self._lag(txn, each, now) for each in behind if each[0].id not in ended]
            self._fence(txn, ended)
            return lags

        return self._store.transact(look)  # one that beat after all is looked at again

    def _ended(self, txn: Transaction, known: list[MemberInfo], now: float) -> set[str]:
        return {info.id for info in known if self._silence.is_over(txn, info, now)}

    def _fence(self, txn: Transaction, ended: set[str]) -> None:
        if ended:
            self._guard(txn)
            for member_id in sorted(ended):
                members.fence(txn, member_id)

    def _lag(self, txn: Transaction, behind: tuple[MemberInfo, list[Blocker]], now: float) -> Lag:
        info, holds = behind
        silent_s = self._silence.of(txn, info, now)
        if silent_s > 2 * info.lease_s / members.BEATS_PER_LEASE:
            text = members.silent_for(silent_s, info)
        else:
            text = _reasons(holds)
        return Lag(info.id, f"{info.title}: {text}")


# -- acknowledger ----------------------------------------------------------------------------------


class Acknowledger:
    """A front's side. One small transaction answers every job that waits. `watch` looks at the
    owner of schema changes with each beat."""

    channel = "version"

    def __init__(
        self,
        store: Store,
        member: Member,
        locks: MetadataLocks,
        watch: OwnerWatch | None = None,
    ) -> None:
        self._store = store
        self._watch = watch
        self._paces: dict[int, float] = {}  # when a table's next version may be answered
        self._member = member
        self._locks = locks
        self._answered: dict[int, Place] = {}
        self._explained: dict[int, float] = {}
        self._held_back: dict[int, Announcement] = {}  # of jobs that nobody can answer yet
        self._ended: dict[int, dict[str, Blocker]] = {}  # whom it has ended, by job
        self._look_by = 0.0
        self._seen = -1

    def step(self, now: float) -> float:
        """Acknowledge what can be, explain what cannot, beat if it is time; or join again if
        fenced. Seconds until the next look."""
        member = self._member
        if member.fenced:
            member.step(now)
            return IDLE_S if member.fenced else 0.0  # it has left, or joined again: look
        beats = member.due_in(now) == 0.0
        seen = self._store.counter(self.channel)
        if seen == self._seen and not beats and now < self._look_by and self._is_held_back():
            self._end_blockers()
            return BLOCKED_S
        try:
            done, is_blocked = self._store.transact(partial(self._look, now=now, beats=beats), ONCE)
        except Conflict:
            return 0.0  # a fencing is under way: the next look tells
        except Deposed:
            member.deposed()
            return 0.0
        if beats:
            member.renewed(now)
        self._answered.update(done)
        self._seen, self._look_by = seen, now + REASON_S
        self._end_blockers()
        return min(
            BLOCKED_S if is_blocked else IDLE_S, member.due_in(now), self._until_next_version(now)
        )

    def _until_next_version(self, now: float) -> float:
        """Seconds until the first table may have its next version."""
        self._paces = {table: at for table, at in self._paces.items() if at > now}
        return min(self._paces.values(), default=now + IDLE_S) - now

    def _is_held_back(self) -> bool:
        """Whether each job that was held back still is: that needs no look at the store."""
        return bool(self._held_back) and all(
            any(self._locks.blockers(*each) for each in announcement.tables.items())
            for announcement in self._held_back.values()
        )

    def _end_blockers(self) -> None:
        """End the transactions in the way of jobs that wait no longer. One in which a statement
        runs ends with it, so this is done again until they are gone."""
        for job_id, announcement in self._held_back.items():
            if not announcement.ends:
                continue
            error = ErrQueryInterrupted.with_text(f"{_INTERRUPTED}: {announcement.ends}")
            for table in announcement.tables.items():
                for hold in self._locks.blockers(*table):
                    if hold.end is not None and not hold.reads:  # a reader blocks no longer soon
                        told = f"connection {hold.session} ({hold.about[:TOLD_LETTERS]})"
                        ended = Blocker(told, hold.session, ended=True)
                        self._ended.setdefault(job_id, {})[told] = ended
                        hold.end(error)

    def _look(self, txn: Transaction, now: float, beats: bool) -> tuple[dict[int, Place], bool]:
        """What is acknowledged in it, by job id, and whether some job is held back."""
        self._member.confirm(txn)
        wanted = announced(txn)
        self._tidy(txn, wanted)
        fresh = {
            j: a
            for j, a in wanted.items()
            if self._answered.get(j, NOTHING) < a.place
            and not (a.assent is not None and assent.relied_on(txn, a.assent))
            and all(self._paces.get(table, 0.0) <= now for table in a.tables)
        }
        blocked = self._blocked(txn, fresh)
        self._held_back = {job_id: fresh[job_id] for job_id in blocked}
        done = {j: a.place for j, a in fresh.items() if j not in blocked}
        for job_id, place in done.items():
            self._write(txn, job_id, place, [])
        tables = (table for job_id in done for table in fresh[job_id].tables)
        self._paces |= {table: now + PACE_S for table in tables if self._locks.is_busy(table)}
        self._explain(txn, blocked, now, beats)
        if beats:
            self._member.beat(txn)
            if self._watch is not None:
                self._watch.look(txn, now)
        if txn.has_writes:
            self._member.guard(txn)
        return done, bool(blocked)

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
                told = [
                    Blocker(hold.reason(now), hold.session, now - hold.since, hold.about)
                    for hold in holds[:SHOWN]
                ]
                self._write(txn, job_id, self._answered.get(job_id, NOTHING), told)

    def _write(self, txn: Transaction, job_id: int, place: Place, told: list[Blocker]) -> None:
        told = [*told, *list(self._ended.get(job_id, {}).values())[:SHOWN]]
        txn.write(WriteKind.PLACE, ack_key(job_id, self._member.id), ack(place, told))
        txn.notify("ack")

    def _tidy(self, txn: Transaction, wanted: Mapping[int, Announcement]) -> None:
        for job_id in [j for j in self._ended if j not in wanted]:
            del self._ended[job_id]
        for job_id in [j for j in (*self._answered, *self._explained) if j not in wanted]:
            self._answered.pop(job_id, None)
            self._explained.pop(job_id, None)
            if txn.get(ack_key(job_id, self._member.id)) is not None:
                txn.write(WriteKind.REMOVE, ack_key(job_id, self._member.id), b"")


# -- blockers of other fronts ----------------------------------------------------------------------

WRITERS_ANSWER_S = 1.0
WRITERS: Topic[list[tuple[int, int]], list[tuple[int, str]]] = Topic(
    "writers", list[tuple[int, int]], list[tuple[int, str]]
)


def told_elsewhere(asking: Asking, check: Check, tables: Mapping[int, int]) -> Iterator[str]:
    """What each other front says of transactions that planned with less than these revisions."""
    others = asking.other_fronts() if tables else []
    answers = asking.ask_members(WRITERS, list(tables.items()), others, WRITERS_ANSWER_S, check)
    for front in others:
        if front.id in answers.silent:
            yield f"{front.title} {answers.silent[front.id]}"
        for session, query in answers.given.get(front.id, ()):
            yield f"open transaction of connection {session} of {front.title}: {query}"


def writers(locks: MetadataLocks) -> Handler[list[tuple[int, int]], list[tuple[int, str]]]:
    """What a front answers."""

    def answer(asked: list[tuple[int, int]]) -> list[tuple[int, str]]:
        blockers = (hold for table, revision in asked for hold in locks.blockers(table, revision))
        return [(hold.session, hold.about) for hold in blockers]

    return Handler(WRITERS, answer)
