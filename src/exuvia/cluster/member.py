"""Membership: a process that joined, its heartbeat, its epoch, how others end it (laws 2, 3, 8).

    m/member/{id}   MemberInfo            who it is
    m/beat/{id}     a counter             grows while it lives; others watch it on their own clocks
    m/fence/{id}    its epoch             every commit of the member requires it: `guard`
    presence "member-{id}"                held as long as its process lives (store.hold)

    who beats    a back: the loop of its member, `step`
                 a front: its acknowledger, in the transaction in which it has looked at what is
                 announced and answered. Whoever would be waited for without end has no lease: one
                 that does not answer is silent, whatever else of it lives.

    joined --beat--> joined --silent for a lease, or its process ended--> fenced by whoever waits
      ^                                                                     |
      `---------- a new epoch under the same id, when it wakes up ----------'

Fencing deletes the epoch: whatever the member still has open is refused by the store, whenever it
wakes (Deposed). Epochs come from one counter and are never given twice, so what was begun before a
fencing stays refused after the member has joined again. No clock decides about safety: `lease_s`
says only how long others wait, and when the member itself stops serving.

Waiting for the silent, on one's own clock (law 3), and ending them.

    presence free                  the process has ended: fenced at once
    beat unchanged for its lease   silent, measured from when *this* process first saw that beat:
                                   fenced, then the waiter goes on
    else                           it lives

A clock that runs wrong can only make this fence too early or too late, which costs the member a
restart of its transactions or the waiter some time; what the member writes is refused either way.
"""

import os
import socket
import threading
import uuid
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from typing import Literal, NamedTuple

import msgspec

from exuvia import __version__
from exuvia.base.clock import Clock
from exuvia.base.errors import Conflict, Deposed
from exuvia.base.limits import DEFAULT_LEASE_S
from exuvia.base.waits import SILENT
from exuvia.kv import keys
from exuvia.kv.packet import Equal
from exuvia.kv.store import Presence, Store
from exuvia.kv.transaction import ONCE, UNBOUNDED, Transaction, require_here

Kind = Literal["front", "back"]
BEATS_PER_LEASE = 5
LIFE_BITS = 32
"""Beats of one epoch."""
MOST_NUMBERS = (1 << 11) - 1


class MemberInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A member's row. `started` is wall time, for display, in ns; `lease_s` its promise, in s;
    `release` its program's; `status_port` 0 where it has none.

    `number` is in the ids of a front's connections: no two living fronts have the same."""

    id: str
    kind: Kind
    host: str
    pid: int
    address: str
    lease_s: float
    started: int
    number: int = 0
    release: str = ""
    status_port: int = 0

    @property
    def title(self) -> str:
        """How people know it."""
        return f"node {self.address or self.id}"


_row = msgspec.json.Decoder(MemberInfo)


@lru_cache(maxsize=256)
def _decoded(raw: bytes) -> MemberInfo:
    """One for the same bytes: whoever waits for fronts reads them all at each look."""
    return _row.decode(raw)


def presence_of(member_id: str) -> str:
    """The name its process holds in the store."""
    return f"member-{member_id}"


def live(txn: Transaction) -> list[MemberInfo]:
    """Every member that has joined and was not fenced, by id."""
    return [_decoded(raw) for _, raw in txn.scan(keys.span_of(keys.meta("member")))]


def before_0_4(txn: Transaction) -> list[MemberInfo]:
    """Members of releases that would put every row into a partial index, complete one job of a
    group alone, know no jobs of UNDO and read whole layouts of tables only: 0.3.0 and before. None
    of them can join any more once the store has this release's format."""
    return [each for each in live(txn) if _number(each.release) < _0_4]


def before_0_5(txn: Transaction) -> list[MemberInfo]:
    """Members of releases that know no second index beside a global one, would give a row one entry
    in a multi-valued index, convert values otherwise in a MODIFY COLUMN, and do not know the order
    of gbk and gb18030: 0.4.0 and before. None of them can join any more once the store has this
    release's format."""
    return [each for each in live(txn) if _number(each.release) < _0_5]


_0_4, _0_5 = (0, 4), (0, 5)


def _number(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split(".")[:2] if part.isdigit())


def without_change_logs(txn: Transaction) -> list[MemberInfo]:
    """Members of releases that write none: 0.2.0 and before. None of them can join any more once
    the store has this release's format."""
    return [each for each in live(txn) if not each.release]


def find(txn: Transaction, member_id: str) -> MemberInfo | None:
    """The member with that id, or None."""
    payload = txn.get(keys.meta("member", member_id))
    return None if payload is None else _decoded(payload)


def beat_key(member_id: str) -> bytes:
    """Where its heartbeat is counted."""
    return keys.meta("beat", member_id)


def beat_of(txn: Transaction, member_id: str) -> int:
    """The member's heartbeat counter."""
    return keys.read_number(txn.get(beat_key(member_id)))


def fence(txn: Transaction, member_id: str) -> None:
    """End a member: its epoch, its row, its beat. Conflict at commit if it beat meanwhile."""
    for kind in ("fence", "member", "beat", "assent"):
        if txn.get(keys.meta(kind, member_id)) is not None:
            txn.delete(keys.meta(kind, member_id))
    txn.notify("owner")
    txn.notify("ack")
    txn.notify("version")  # it looks, and joins again if it lives


class Member:
    """This process in the cluster. `step` is called by one loop; the rest from any thread."""

    channel = ""  # it beats by the clock

    def __init__(self, store: Store, clock: Clock, info: MemberInfo, presence: Presence) -> None:
        self._store = store
        self.clock = clock
        self.presence = presence
        self._epoch = b""
        self._renewed_at = float("-inf")
        self._loaded_at = float("-inf")
        self._left = False
        self.draining = False
        """Its node stops: what is under way may end, nothing else begins."""
        self.info = info
        self._fence_key = keys.meta("fence", info.id)
        self._guarding = Equal(self._fence_key, b"")
        self._beat_key = keys.meta("beat", info.id)
        self.version = 0

    @classmethod
    def join(
        cls,
        store: Store,
        clock: Clock,
        kind: Kind = "front",
        address: str = "",
        lease_s: float = DEFAULT_LEASE_S,
        identity: Callable[[], str] = lambda: uuid.uuid4().hex,
        status_port: int = 0,
    ) -> "Member":
        """Hold a presence, take an epoch, write the row. Raises Unavailable if the name is held."""
        info = MemberInfo(
            id=identity(),
            kind=kind,
            host=socket.gethostname(),
            pid=os.getpid(),
            address=address,
            lease_s=lease_s,
            started=clock.wall_ns(),
            release=__version__,
            status_port=status_port,
        )
        member = cls(store, clock, info, store.hold(presence_of(info.id)))
        member._enter(clock.monotonic())
        return member

    def come_back(self) -> None:
        """After `leave`: hold the presence again, under a new epoch. Raises Unavailable."""
        self.presence = self._store.hold(presence_of(self.id))
        self._loaded_at = float("-inf")
        self._enter(self.clock.monotonic())
        self._left = False

    @property
    def id(self) -> str:
        """The member's name for ever."""
        return self.info.id

    @property
    def fenced(self) -> bool:
        """True once somebody ended it, until it has joined again."""
        return not self._epoch

    def _enter(self, now: float) -> None:
        def enter(txn: Transaction) -> tuple[bytes, MemberInfo]:
            require_here(txn)
            last = keys.read_number(txn.get(keys.LAST_EPOCH))
            epoch = keys.number(last + 1)
            info = msgspec.structs.replace(self.info, number=self._free_number(txn, last))
            txn.put(keys.LAST_EPOCH, epoch)
            if txn.get(keys.READ_ONLY) is None:  # a new store, or one of an older release
                txn.require(keys.READ_ONLY)
                txn.put(keys.READ_ONLY, keys.number(0))
            txn.put(keys.meta("fence", self.id), epoch)
            # none that it had in another life: who watches it would take it for silent since then
            txn.put(keys.meta("beat", self.id), keys.number((last + 1) << LIFE_BITS))
            txn.put(keys.meta("member", self.id), msgspec.json.encode(info))
            txn.notify("owner")
            if self.info.kind == "front":
                txn.notify("version")  # the only front until now has to answer itself, at once
            return epoch, info

        # unbounded: a process that has no epoch can do nothing else
        self._epoch, self.info = self._store.transact(enter, UNBOUNDED)
        self._renewed_at = now

    def _free_number(self, txn: Transaction, last_epoch: int) -> int:
        """Its own again, or one that nobody has; of the free ones not what was just given up."""
        taken = {each.number for each in live(txn) if each.id != self.id}
        if self.info.kind != "front" or (self.info.number and self.info.number not in taken):
            return self.info.number
        tries = (1 + (last_epoch + n) % MOST_NUMBERS for n in range(MOST_NUMBERS))
        return next(each for each in tries if each not in taken)

    @property
    def fence(self) -> tuple[bytes, bytes]:
        """Which key of the store this member's epoch is, and what it holds while it stands."""
        return self._fence_key, self._epoch

    def guarding(self) -> Equal:
        """What a transaction that begins now requires, to commit only while this member has its
        present epoch (law 2). Raises Deposed while the member is fenced."""
        epoch, known = self._epoch, self._guarding
        if not epoch:
            raise Deposed(f"member {self.id} was fenced")
        if known.payload != epoch:
            known = self._guarding = Equal(self._fence_key, epoch)
        return known

    def guard(self, txn: Transaction) -> None:
        """Have the transaction require it; to be called when it begins. Raises Deposed."""
        txn.require_this(self.guarding())

    def confirm(self, txn: Transaction) -> None:
        """Raises Deposed where the transaction sees that it was fenced."""
        if txn.get(self._fence_key) != self._epoch:
            raise Deposed(f"member {self.id} was fenced")

    def serving(self, now: float) -> bool:
        """Whether it renewed and loaded the schema within its lease on its own clock (law 8)."""
        return bool(self._epoch) and not self._left and self.lease_left(now) > 0

    def lease_left(self, now: float) -> float:
        """Seconds that it may serve without renewing its lease and looking at the schema; below 0
        once they are over. Unit: s."""
        return min(self._renewed_at, self._loaded_at) + self.info.lease_s - now

    def loaded(self, version: int, now: float) -> None:
        """The schema of `version` was loaded by a look that began at `now`."""
        self.version = version
        self._loaded_at = now

    def due_in(self, now: float) -> float:
        """Seconds until the next beat is due; 0 where it is."""
        return max(0.0, self._renewed_at + self.info.lease_s / BEATS_PER_LEASE - now)

    def beat(self, txn: Transaction) -> None:
        """Renew the lease in that transaction; Conflict at its commit during a fencing."""
        self.guard(txn)
        beat = keys.read_number(txn.get(self._beat_key))
        txn.put(self._beat_key, keys.number(beat + 1))

    def renewed(self, now: float) -> None:
        """A transaction with a beat was committed; its look began at `now`."""
        self._renewed_at = now

    def deposed(self) -> None:
        """A commit was refused: somebody fenced it. The next `step` joins again."""
        self._epoch = b""

    def step(self, now: float) -> float:
        """Beat once, or join again if fenced; seconds until the next beat."""
        if self._left:
            return self.info.lease_s
        if not self._epoch:
            self._enter(now)
            return self.info.lease_s / BEATS_PER_LEASE
        try:
            self._store.transact(self.beat, ONCE)
        except Conflict:
            return 0.0  # a fencing is under way: the next look tells
        except Deposed:
            self.deposed()
            return 0.0
        self.renewed(now)
        return self.info.lease_s / BEATS_PER_LEASE

    def leave(self) -> None:
        """Go in good order; nobody has to wait for a lease."""
        self._left = True

        def leave(txn: Transaction) -> None:
            self.guard(txn)
            fence(txn, self.id)

        with suppress(Conflict, Deposed):  # it was fenced already
            self._store.transact(leave)
        self._epoch = b""
        self.presence.release()


# -- lease -----------------------------------------------------------------------------------------


def silent_for(silent_s: float, info: MemberInfo) -> str:
    """How people are told of it."""
    return SILENT(silent_s, info.lease_s)


class _Seen(NamedTuple):
    beat: int
    since: float


class Silence:
    """How long each member's beat has stood still, as one process sees it. Thread-safe."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._seen: dict[str, _Seen] = {}

    def of(self, txn: Transaction, info: MemberInfo, now: float) -> float:
        """Seconds since the beat last changed, as seen from here. Unit: s."""
        beat = beat_of(txn, info.id)
        with self._lock:
            seen = self._seen.get(info.id)
            if seen is None or seen.beat != beat:
                seen = self._seen[info.id] = _Seen(beat, now)
            return now - seen.since

    def is_over(self, txn: Transaction, info: MemberInfo, now: float) -> bool:
        """Whether the member is dead, or silent for its whole lease."""
        silent_s = self.of(txn, info, now)
        return silent_s >= info.lease_s or not self._store.held(presence_of(info.id))

    def keep_only(self, known: list[MemberInfo]) -> None:
        """Forget members that are gone."""
        ids = {info.id for info in known}
        with self._lock:
            self._seen = {each: seen for each, seen in self._seen.items() if each in ids}
