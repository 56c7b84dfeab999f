"""Membership: a process that joined, its heartbeat, its epoch and its fencing (laws 2, 3, 8).

    m/member/{id}   MemberInfo            id, kind, host, address, ..
    m/beat/{id}     a counter             grows while it lives; others watch it on their own clocks
    m/fence/{id}    its epoch             every commit of the member requires it: `guard`
    presence "member-{id}"                held as long as its process lives (store.hold)

    heartbeat of    a back: the loop of its member, `step`
                    a front: its acknowledger, in the transaction that answers all announcements.
                    A front that does not answer therefore loses its lease, even if its other
                    threads work. Otherwise a job could wait for it for ever.

    joined --beat--> joined --silent for a lease, or its process ended--> fenced by the waiter
      ^                                                                     |
      `---------- a new epoch under the same id, when it wakes up ----------'

Fencing deletes the epoch. The store then refuses all open transactions of the member, whenever they
commit (Deposed). Epochs come from one counter and are never reused, so transactions begun before a
fencing stay refused after the member has joined again. Safety does not depend on clocks: `lease_s`
limits only how long others wait, and when the member itself stops serving.

A waiter measures silence on its own clock (law 3):

    presence free                  the process has ended: fenced at once
    beat unchanged for its lease   silent, measured from when *this* process first saw that beat:
                                   fenced, then the waiter continues
    else                           it lives

A wrong clock can only fence too early or too late. That costs the member a restart of its
transactions, or the waiter some time. Writes of a fenced member are refused in both cases.
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
from exuvia.base.decoding import json_decoder
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
"""Bits of the beat counter; the bits above them are the epoch."""
MOST_NUMBERS = (1 << 11) - 1


class MemberInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A member's row. Units: `started` wall time in ns, for display; `lease_s` in s.

    `release`: the version of its program. `status_port`: 0 without a status page. `number`: part of
    the connection ids of a front, unique among living fronts."""

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
        """The member's name in messages."""
        return f"node {self.address or self.id}"


_row = json_decoder(MemberInfo)


@lru_cache(maxsize=256)
def _decoded(raw: bytes) -> MemberInfo:
    """Cached, because waiters read all fronts at each look."""
    return _row.decode(raw)


def presence_of(member_id: str) -> str:
    """The name of the presence that the member's process holds in the store."""
    return f"member-{member_id}"


def live(txn: Transaction) -> list[MemberInfo]:
    """Every member that has joined and was not fenced, by id."""
    return [_decoded(raw) for _, raw in txn.scan(keys.span_of(keys.meta("member")))]


def before_0_4(txn: Transaction) -> list[MemberInfo]:
    """Members of release 0.3.0 or older. They cannot join once the store has this format.

    These releases put every row into a partial index and complete one job of a group alone. They do
    not support jobs of UNDO, and read only whole table layouts."""
    return [info for info in live(txn) if _number(info.release) < _0_4]


def before_0_5(txn: Transaction) -> list[MemberInfo]:
    """Members of release 0.4.0 or older. They cannot join once the store has this format.

    These releases do not support a second index in addition to a global one. They write one entry
    per row in a multi-valued index, convert values differently in MODIFY COLUMN and lack the order
    of gbk and gb18030."""
    return [info for info in live(txn) if _number(info.release) < _0_5]


_0_4, _0_5 = (0, 4), (0, 5)


def _number(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split(".")[:2] if part.isdigit())


def without_change_logs(txn: Transaction) -> list[MemberInfo]:
    """Members of release 0.2.0 or older, which write no change logs.

    They cannot join once the store has this format."""
    return [info for info in live(txn) if not info.release]


def find(txn: Transaction, member_id: str) -> MemberInfo | None:
    """The member with that id, or None."""
    payload = txn.get(keys.meta("member", member_id))
    return None if payload is None else _decoded(payload)


def beat_key(member_id: str) -> bytes:
    """The key of its heartbeat counter."""
    return keys.meta("beat", member_id)


def beat_of(txn: Transaction, member_id: str) -> int:
    """The member's heartbeat counter."""
    return keys.read_number(txn.get(beat_key(member_id)))


def fence(txn: Transaction, member_id: str) -> None:
    """Remove a member's epoch, row, beat and assents. Conflict at commit if it beat meanwhile."""
    for kind in ("fence", "member", "beat", "assent"):
        if txn.get(keys.meta(kind, member_id)) is not None:
            txn.delete(keys.meta(kind, member_id))
    txn.notify("owner")
    txn.notify("ack")
    txn.notify("version")  # wakes the member, which joins again if it lives


class Member:
    """This process in the cluster. `step` is called by one loop; the rest from any thread."""

    channel = ""  # it beats by the clock, without wake-ups

    def __init__(self, store: Store, clock: Clock, info: MemberInfo, presence: Presence) -> None:
        self._store = store
        self.clock = clock
        self.presence = presence
        self._epoch = b""
        self._renewed_at = float("-inf")
        self._loaded_at = float("-inf")
        self._has_left = False
        self.draining = False
        """Its node shuts down: running work may end, no new work begins."""
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
        self._has_left = False

    @property
    def id(self) -> str:
        """The member's permanent id."""
        return self.info.id

    @property
    def fenced(self) -> bool:
        """True after a fencing, until the member has joined again."""
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
            # a new beat: with one of an earlier epoch, waiters would count the silence since then
            txn.put(keys.meta("beat", self.id), keys.number((last + 1) << LIFE_BITS))
            txn.put(keys.meta("member", self.id), msgspec.json.encode(info))
            txn.notify("owner")
            if self.info.kind == "front":
                txn.notify("version")  # a front that gave an assent now has to acknowledge
            return epoch, info

        # unbounded: a process without an epoch cannot do anything else
        self._epoch, self.info = self._store.transact(enter, UNBOUNDED)
        self._renewed_at = now

    def _free_number(self, txn: Transaction, last_epoch: int) -> int:
        """Keeps the own number if it is free, else chooses the one released longest ago."""
        used = {info.number for info in live(txn) if info.id != self.id}
        if self.info.kind != "front" or (self.info.number and self.info.number not in used):
            return self.info.number
        tries = (1 + (last_epoch + n) % MOST_NUMBERS for n in range(MOST_NUMBERS))
        return next(number for number in tries if number not in used)

    @property
    def fence(self) -> tuple[bytes, bytes]:
        """The key of this member's epoch, and its value while the epoch is valid."""
        return self._fence_key, self._epoch

    def guarding(self) -> Equal:
        """The requirement that lets a transaction commit only under the present epoch (law 2).

        Raises Deposed while the member is fenced."""
        epoch, guard = self._epoch, self._guarding
        if not epoch:
            raise Deposed(f"member {self.id} was fenced")
        if guard.payload != epoch:
            guard = self._guarding = Equal(self._fence_key, epoch)
        return guard

    def guard(self, txn: Transaction) -> None:
        """Make the transaction require the epoch; call it when it begins. Raises Deposed."""
        txn.require_this(self.guarding())

    def confirm(self, txn: Transaction) -> None:
        """Raises Deposed if the member is fenced in the transaction's snapshot."""
        if txn.get(self._fence_key) != self._epoch:
            raise Deposed(f"member {self.id} was fenced")

    def serving(self, now: float) -> bool:
        """Whether it renewed and loaded the schema within its lease on its own clock (law 8)."""
        return bool(self._epoch) and not self._has_left and self.lease_left(now) > 0

    def lease_left(self, now: float) -> float:
        """Seconds until the lease or the loaded schema expires; negative afterwards. Unit: s."""
        return min(self._renewed_at, self._loaded_at) + self.info.lease_s - now

    def loaded(self, version: int, now: float) -> None:
        """The schema of `version` was loaded by a look that began at `now`."""
        self.version = version
        self._loaded_at = now

    def due_in(self, now: float) -> float:
        """Seconds until the next beat is due; 0 if it is due now."""
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
        """To be called when a commit was refused by a fencing. The next `step` joins again."""
        self._epoch = b""

    def step(self, now: float) -> float:
        """Beat once, or join again if fenced; seconds until the next beat."""
        if self._has_left:
            return self.info.lease_s
        if not self._epoch:
            self._enter(now)
            return self.info.lease_s / BEATS_PER_LEASE
        try:
            self._store.transact(self.beat, ONCE)
        except Conflict:
            return 0.0  # a fencing is running: the next step sees its outcome
        except Deposed:
            self.deposed()
            return 0.0
        self.renewed(now)
        return self.info.lease_s / BEATS_PER_LEASE

    def leave(self) -> None:
        """Leave the cluster, so that others need not wait for the lease."""
        self._has_left = True

        def leave(txn: Transaction) -> None:
            self.guard(txn)
            fence(txn, self.id)

        with suppress(Conflict, Deposed):  # it was fenced already
            self._store.transact(leave)
        self._epoch = b""
        self.presence.release()


# -- lease -----------------------------------------------------------------------------------------


def silent_for(silent_s: float, info: MemberInfo) -> str:
    """The message for a member without a heartbeat."""
    return SILENT(silent_s, info.lease_s)


class _LastBeat(NamedTuple):
    beat: int
    since: float


class Silence:
    """For how long each member's beat is unchanged, as seen by one process. Thread-safe."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._last_beats: dict[str, _LastBeat] = {}

    def of(self, txn: Transaction, info: MemberInfo, now: float) -> float:
        """Seconds since this process first saw the member's present beat. Unit: s."""
        beat = beat_of(txn, info.id)
        with self._lock:
            last = self._last_beats.get(info.id)
            if last is None or last.beat != beat:
                last = self._last_beats[info.id] = _LastBeat(beat, now)
            return now - last.since

    def is_over(self, txn: Transaction, info: MemberInfo, now: float) -> bool:
        """Whether the member is dead, or silent for its whole lease."""
        silent_s = self.of(txn, info, now)
        return silent_s >= info.lease_s or not self._store.held(presence_of(info.id))

    def keep_only(self, infos: list[MemberInfo]) -> None:
        """Forget all other members."""
        ids = {info.id for info in infos}
        with self._lock:
            self._last_beats = {i: beat for i, beat in self._last_beats.items() if i in ids}
