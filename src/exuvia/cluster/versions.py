"""At most two schema versions: every front acknowledges a step before the next one may run.

    worker, in its step's transaction   announce(job, version, {table: revision})   m/sync/..
    each front, woken by "version"      Acknowledger: acks the version, if no open writer has
                                        an older plan; else lists the writers       m/ack/..
    worker, woken by "ack"              lagging(job) is empty -> next step; else shows the reasons
    worker, in the last transaction     finish(job)

A front that does not answer is fenced after its lease, measured on the waiter's clock
(cluster/member.py). One whose process has ended is fenced at once. A front that joins after the
announcement already plans with the new version; its acknowledgement is harmless. A new owner reads
the announcements from the store and waits for them before it steps (law 4).

A silent step changes revisions but not the version: its announcement has the same version and the
next number. A front of an older build acknowledges without numbers; that counts for all numbers.

Acknowledgements are written without validation: each key has one writer, and they must not conflict
with the steps of other jobs. A front removes its own acknowledgements once a job's announcement is
gone.

The metadata lock records which open transactions of this front wrote which table, and with which
revision. A table that gave evidence for a write elsewhere counts as written.

    hold(transaction, table, revision)    at the first write to the table. Also at the first read in
                                          an explicit transaction, for the first second of the
                                          transaction: a short one can then write what it read
    release(transaction)                  at its end
    enter, leave(transaction)             an explicit one begins, before it reads; it ends
    reserve(table)                        if it is not held and no explicit transaction is open:
                                          later ones withdraw the assent first
    blockers(table, below)                transactions that planned with an older revision

It lets transactions survive a schema change: a front acknowledges a step only when no transaction
blocks it. Correctness does not depend on it: the store's fence decides at commit (law 1).
Readers are safe in their snapshot, so an idle BEGIN or a dump blocks only for its first second.

The Acknowledger is a front's part. It acknowledges a step once none of its open transactions wrote
the table with an older plan, and lists those that did. It also sends the front's heartbeat, in the
same transaction. A front with a renewed lease has therefore answered every job, with an
acknowledgement or with its blockers. A front that does not answer delays a job for at most a lease.
A front whose clients block a job for an hour keeps its lease.

A job with a deadline can request in its announcement that fronts end its blockers (`end_blockers`).
Each front ends its own, and names them in its acknowledgements of that job.

For EXPLAIN, the other fronts report their blockers of a change (`blockers_elsewhere`).
"""

import sys
import threading
from collections.abc import Callable, Hashable, Iterator, Mapping
from functools import partial
from itertools import count
from typing import NamedTuple

import msgspec

from exuvia.base.clock import Clock, SystemClock
from exuvia.base.decoding import json_decoder
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
"""How long an explicit transaction holds a table that it has only read."""
BUSY_S = 0.1
"""If two transactions took a table within this time, it is busy: another one will follow soon."""
MOST_TAKEN = 1024
"""Tables whose times are remembered; above that, those that are not busy are forgotten."""
_NEVER = (float("-inf"), float("-inf"))


End = Callable[[Refused], None]
"""Roll that transaction back; its client gets the error."""


class Hold(NamedTuple):
    """A table that an open transaction wrote, or only read.

    `since`: on this front's monotonic clock; for a reader the begin of its transaction. Unit: s.
    `session`: the connection's number, or 0. `end`: rolls it back; any thread."""

    about: str
    revision: int
    since: float
    session: int = 0
    reads: bool = False
    end: End | None = None

    def reason(self, now: float) -> str:
        """The reason for waiting, as shown to the submitter of the change (law 10)."""
        whose = f"open transaction of connection {self.session}: " if self.session else ""
        return TRANSACTION(f"{whose}{self.about}", self.revision, now - self.since)


class MetadataLocks:
    """Thread-safe. A token identifies a transaction. `withdraw`: ends this front's assents."""

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
        self._acquired_at: dict[int, tuple[float, float]] = {}  # times of the last two takers

    def is_busy(self, table_id: int) -> bool:
        """Whether transactions take the table in quick succession."""
        return self._clock.monotonic() - self._acquired_at.get(table_id, _NEVER)[0] < BUSY_S

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
        """End that reservation; a later one stays."""
        with self._lock:
            if self._reserved.get(table_id) == serial:
                del self._reserved[table_id]

    def enter(self, token: Hashable) -> None:
        """An explicit transaction begins. If `withdraw` raises, it has not begun."""
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
        """It has ended. A second call is harmless."""
        with self._lock:
            self._open.pop(token, None)

    def is_young(self, token: Hashable) -> bool:
        """Whether an explicit transaction is young enough that tables it reads are held."""
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
        """Record that the transaction wrote the table with a plan of that revision.

        The oldest plan counts. `reads`: it is explicit and only reads the table. `about`: session
        and statement, such as "open transaction of connection 12 wrote t". Raises what `withdraw`
        raises if the table is reserved; the table is held in this case, too."""
        with self._lock:
            holds = self._tables.setdefault(table_id, {})
            previous = holds.get(token)
            if previous is None:
                self._record_taken(table_id)
            writes_first = previous is None or (previous.reads and not reads)
            if previous is None or writes_first or revision < previous.revision:
                since = (
                    self._clock.monotonic() if writes_first or previous is None else previous.since
                )
                since = self._open.get(token, since) if reads else since
                oldest = revision if previous is None else min(revision, previous.revision)
                description = about or f"open transaction {token!r} wrote"
                holds[token] = Hold(description, oldest, since, session, reads, end)
                self._tokens.setdefault(token, set()).add(table_id)
            reserved = self._reserved.get(table_id)
        if reserved is not None:
            self.withdraw()
            self.unreserve(table_id, reserved)

    def _record_taken(self, table_id: int) -> None:
        now = self._clock.monotonic()
        self._acquired_at[table_id] = self._acquired_at.get(table_id, _NEVER)[1], now
        if len(self._acquired_at) > MOST_TAKEN:
            busy = {t: times for t, times in self._acquired_at.items() if now - times[1] < BUSY_S}
            self._acquired_at = busy

    def release(self, token: Hashable) -> None:
        """The transaction has ended. A second call is harmless."""
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
        blocking = (
            h for h in holds if h.revision < below_revision and not (h.reads and h.since < old)
        )
        return sorted(blocking, key=lambda h: h.since)


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
    """The tables published by a job's last step: table id -> revision.

    `number`: counts the announcements of one version, from 1. `assent`: of the front that answered
    in advance. `ends`: the reason for which fronts end blockers; "" if they do not."""

    version: int
    tables: dict[int, int]
    number: int = 0
    assent: Assent | None = None
    ends: str = ""

    @property
    def place(self) -> "Place":
        """The position among the announcements of its job."""
        return self.version, self.number


class Blocker(msgspec.Struct, frozen=True):
    """An open transaction that prevents a front's acknowledgement. Unit: s.

    `ended`: it was rolled back because of the job. An element with a `number` is not a transaction:
    it holds the number of the acknowledged announcement within its version."""

    reason: str
    session: int = 0
    age_s: float = 0.0
    query: str = ""
    number: int = 0
    ended: bool = False


class Lag(NamedTuple):
    """A front that has not acknowledged, and the reason."""

    member: str
    reason: str


Place = tuple[int, int]
NOTHING: Place = (0, 0)
UNNUMBERED = sys.maxsize

_announcement = json_decoder(Announcement)
_blockers = json_decoder(list[Blocker])


def ack_key(job_id: int, member_id: str) -> bytes:
    """The key of that front's acknowledgement for that job."""
    return keys.meta("ack", job_id, member_id)


def ack(place: Place, blocking: list[Blocker]) -> bytes:
    """Encodes an acknowledgement up to `place`, and the blockers of the next announcement."""
    version, number = place
    listed = [*blocking, Blocker("", number=number)] if number else blocking
    return keys.number(version) + msgspec.json.encode(listed)


def _read_ack(payload: bytes | None) -> tuple[Place, list[Blocker]]:
    if payload is None:
        return NOTHING, []
    recorded = _blockers.decode(payload[8:])
    number = max((blocker.number for blocker in recorded), default=0) or UNNUMBERED
    blocking = [blocker for blocker in recorded if not blocker.number and not blocker.ended]
    return (keys.read_number(payload[:8]), number), blocking


def announce(
    txn: Transaction,
    job_id: int,
    version: int,
    tables: Mapping[int, int],
    assent_given: Assent | None = None,
) -> None:
    """Request acknowledgements, in the transaction that publishes the version."""
    key = keys.meta("sync", job_id)
    before = txn.get(key)
    last = NOTHING if before is None else _announcement.decode(before).place
    number = last[1] + 1 if last[0] == version else 1
    txn.put(key, msgspec.json.encode(Announcement(version, dict(tables), number, assent_given)))
    txn.notify("version")


def announced(txn: Transaction) -> dict[int, Announcement]:
    """Announcements that need acknowledgement, by job id."""
    prefix = keys.meta("sync")
    rows = txn.scan(keys.span_of(prefix))
    return {keys.read_number(key[len(prefix) :]): _announcement.decode(raw) for key, raw in rows}


def end_blockers(txn: Transaction, job_id: int, why: str) -> bool:
    """Request that fronts end the transactions for which the job waits.

    Returns whether the request is new. `why`: the text of their clients' error."""
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
    """Descriptions of the transactions that fronts have ended because of a job."""
    rows = txn.scan(keys.span_of(keys.meta("ack", job_id)))
    recorded = [blocker for _, payload in rows for blocker in _blockers.decode(payload[8:])]
    return [blocker.reason for blocker in recorded if blocker.ended]


def finish(txn: Transaction, job_id: int) -> None:
    """The job has ended: remove its announcement and acknowledgements."""
    txn.write(WriteKind.REMOVE, keys.meta("sync", job_id), b"")
    for key, _ in list(txn.scan(keys.span_of(keys.meta("ack", job_id)))):
        txn.write(WriteKind.REMOVE, key, b"")


def is_answered_ahead(txn: Transaction, job_id: int) -> bool:
    """Whether the only front has answered the job's last step in advance."""
    payload = txn.get(keys.meta("sync", job_id))
    return payload is not None and _is_answered_ahead(txn, _announcement.decode(payload))


def _is_answered_ahead(txn: Transaction, announcement: Announcement) -> bool:
    return announcement.assent is not None and assent.rely_on(txn, announcement.assent)


def blockers(txn: Transaction, job_id: int) -> list[Blocker]:
    """The open transactions, on all fronts, for which the job's last version waits."""
    return [blocker for _, holds in _unacknowledged(txn, job_id) for blocker in holds]


def has_fronts(txn: Transaction) -> bool:
    """Whether a front exists that answers announcements."""
    return any(info.kind == "front" for info in members.live(txn))


def _unacknowledged(txn: Transaction, job_id: int) -> list[tuple[MemberInfo, list[Blocker]]]:
    payload = txn.get(keys.meta("sync", job_id))
    if payload is None:
        return []
    announcement = _announcement.decode(payload)
    if _is_answered_ahead(txn, announcement):
        return []
    current = announcement.place
    answers = dict(txn.scan(keys.span_of(keys.meta("ack", job_id))))
    missing = []
    for info in members.live(txn):
        if info.kind == "front":
            place, holds = _read_ack(answers.get(ack_key(job_id, info.id)))
            if place < current:
                missing.append((info, holds))
    return missing


def lagging(txn: Transaction, job_id: int) -> list[Lag]:
    """Live fronts that have not acknowledged the job's last version, with their reasons."""
    return [
        Lag(info.id, f"{info.title}: {_reasons(holds)}")
        for info, holds in _unacknowledged(txn, job_id)
    ]


def _reasons(holds: list[Blocker]) -> str:
    return "; ".join(blocker.reason for blocker in holds) or NO_ANSWER()


class Waiter:
    """Waits for fronts on behalf of an owner; `guard` makes its writes require its epoch.

    A job's worker calls `lagging`; one loop calls `step`, which needs no wake-up."""

    channel = ""  # silence sends no notification

    def __init__(
        self, store: Store, guard: Callable[[Transaction], None] = lambda txn: None
    ) -> None:
        self._store = store
        self._guard = guard
        self._silence = Silence(store)

    def step(self, now: float) -> float:
        """Fence members that are dead or silent for their lease. Returns seconds to the next."""

        def fence(txn: Transaction) -> None:
            self._guard(txn)  # without the role: Deposed, before any presence is checked
            infos = members.live(txn)
            self._silence.keep_only(infos)
            self._fence(txn, self._ended(txn, infos, now))

        try:
            self._store.transact(fence, ONCE)
        except Conflict:
            return 0.0  # one of them sent a heartbeat meanwhile
        except Deposed:
            pass
        return IDLE_S

    def lagging(self, job_id: int, now: float) -> list[Lag]:
        """Like the function `lagging`, but fences dead and silent members first. Raises Deposed."""

        def look(txn: Transaction) -> list[Lag]:
            behind = _unacknowledged(txn, job_id)
            txn.snapshot.ahead([members.beat_key(info.id) for info, _ in behind])
            ended = self._ended(txn, [info for info, _ in behind], now)
            lags = [self._lag(txn, front, now) for front in behind if front[0].id not in ended]
            self._fence(txn, ended)
            return lags

        return self._store.transact(look)  # repeated if a member sent a heartbeat meanwhile

    def _ended(self, txn: Transaction, infos: list[MemberInfo], now: float) -> set[str]:
        return {info.id for info in infos if self._silence.is_over(txn, info, now)}

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
    """A front's loop that acknowledges. One small transaction answers all waiting jobs.

    `watch`: observes the owner of schema changes at each beat."""

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
        self._held_back: dict[int, Announcement] = {}  # jobs that blockers delay
        self._ended: dict[int, dict[str, Blocker]] = {}  # transactions it has ended, by job
        self._look_by = 0.0
        self._seen_counter = -1

    def step(self, now: float) -> float:
        """Acknowledge, or list the blockers; send a due heartbeat, or join again if fenced.

        Returns the seconds until the next look."""
        member = self._member
        if member.fenced:
            member.step(now)
            return IDLE_S if member.fenced else 0.0  # it has left; or it joined again: look
        beats = member.due_in(now) == 0.0
        counter = self._store.counter(self.channel)
        if (
            counter == self._seen_counter
            and not beats
            and now < self._look_by
            and self._is_held_back()
        ):
            self._end_blockers()
            return BLOCKED_S
        try:
            done, is_blocked = self._store.transact(partial(self._look, now=now, beats=beats), ONCE)
        except Conflict:
            return 0.0  # a fencing is running: the next step sees its outcome
        except Deposed:
            member.deposed()
            return 0.0
        if beats:
            member.renewed(now)
        self._answered.update(done)
        self._seen_counter, self._look_by = counter, now + REASON_S
        self._end_blockers()
        return min(
            BLOCKED_S if is_blocked else IDLE_S, member.due_in(now), self._until_next_version(now)
        )

    def _until_next_version(self, now: float) -> float:
        """Seconds until the first table may have its next version."""
        self._paces = {table: at for table, at in self._paces.items() if at > now}
        return min(self._paces.values(), default=now + IDLE_S) - now

    def _is_held_back(self) -> bool:
        """Whether all delayed jobs still have blockers. Needs no read of the store."""
        return bool(self._held_back) and all(
            any(self._locks.blockers(*table) for table in announcement.tables.items())
            for announcement in self._held_back.values()
        )

    def _end_blockers(self) -> None:
        """End the blockers of jobs that request it.

        A transaction with a running statement ends with the statement. The caller repeats this
        until the blockers are gone."""
        for job_id, announcement in self._held_back.items():
            if not announcement.ends:
                continue
            error = ErrQueryInterrupted.with_text(f"{_INTERRUPTED}: {announcement.ends}")
            for table in announcement.tables.items():
                for hold in self._locks.blockers(*table):
                    if hold.end is not None and not hold.reads:  # a reader soon stops blocking
                        description = f"connection {hold.session} ({hold.about[:TOLD_LETTERS]})"
                        ended = Blocker(description, hold.session, ended=True)
                        self._ended.setdefault(job_id, {})[description] = ended
                        hold.end(error)

    def _look(self, txn: Transaction, now: float, beats: bool) -> tuple[dict[int, Place], bool]:
        """Returns the acknowledged places by job id, and whether some job is delayed."""
        self._member.confirm(txn)
        announcements = announced(txn)
        self._tidy(txn, announcements)
        fresh = {
            j: a
            for j, a in announcements.items()
            if self._answered.get(j, NOTHING) < a.place
            and not (a.assent is not None and assent.is_valid(txn, a.assent))
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
        self, txn: Transaction, announcements: Mapping[int, Announcement]
    ) -> dict[int, list[Hold]]:
        if not announcements or txn.get(LOCK_VARIABLE) == b"OFF":
            return {}
        holds_by_job = {
            job_id: [
                hold
                for table_id, revision in announcement.tables.items()
                for hold in self._locks.blockers(table_id, revision)
            ]
            for job_id, announcement in announcements.items()
        }
        return {job_id: holds for job_id, holds in holds_by_job.items() if holds}

    def _explain(
        self, txn: Transaction, blocked: Mapping[int, list[Hold]], now: float, beats: bool
    ) -> None:
        for job_id, holds in blocked.items():
            if beats or now - self._explained.get(job_id, float("-inf")) >= REASON_S:
                self._explained[job_id] = now
                blocking = [
                    Blocker(hold.reason(now), hold.session, now - hold.since, hold.about)
                    for hold in holds[:SHOWN]
                ]
                self._write(txn, job_id, self._answered.get(job_id, NOTHING), blocking)

    def _write(self, txn: Transaction, job_id: int, place: Place, blocking: list[Blocker]) -> None:
        blocking = [*blocking, *list(self._ended.get(job_id, {}).values())[:SHOWN]]
        txn.write(WriteKind.PLACE, ack_key(job_id, self._member.id), ack(place, blocking))
        txn.notify("ack")

    def _tidy(self, txn: Transaction, announcements: Mapping[int, Announcement]) -> None:
        for job_id in [j for j in self._ended if j not in announcements]:
            del self._ended[job_id]
        for job_id in [j for j in (*self._answered, *self._explained) if j not in announcements]:
            self._answered.pop(job_id, None)
            self._explained.pop(job_id, None)
            if txn.get(ack_key(job_id, self._member.id)) is not None:
                txn.write(WriteKind.REMOVE, ack_key(job_id, self._member.id), b"")


# -- blockers of other fronts ----------------------------------------------------------------------

WRITERS_ANSWER_S = 1.0
WRITERS: Topic[list[tuple[int, int]], list[tuple[int, str]]] = Topic(
    "writers", list[tuple[int, int]], list[tuple[int, str]]
)


def blockers_elsewhere(asking: Asking, check: Check, tables: Mapping[int, int]) -> Iterator[str]:
    """Messages about transactions of other fronts that planned with older revisions."""
    others = asking.other_fronts() if tables else []
    answers = asking.ask_members(WRITERS, list(tables.items()), others, WRITERS_ANSWER_S, check)
    for front in others:
        if front.id in answers.silent:
            yield f"{front.title} {answers.silent[front.id]}"
        for session, query in answers.replies.get(front.id, ()):
            yield f"open transaction of connection {session} of {front.title}: {query}"


def writers(locks: MetadataLocks) -> Handler[list[tuple[int, int]], list[tuple[int, str]]]:
    """Answers with this front's blockers, for `blockers_elsewhere`."""

    def answer(tables: list[tuple[int, int]]) -> list[tuple[int, str]]:
        blockers = (hold for table, revision in tables for hold in locks.blockers(table, revision))
        return [(hold.session, hold.about) for hold in blockers]

    return Handler(WRITERS, answer)
