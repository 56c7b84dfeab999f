"""The lock table in shared memory: holders and waiters of keys, of all processes on one store.

    header    number of tickets, of waits, of releases by commit
    seats     SEATS x (instance, fence key, its payload, address for wake-ups)  one for each user
    waits     WAITS x (waiter, hash, ticket, tag)                               0: free
    buckets   BUCKETS x (8 hashes, 8 holders, 8 tags)                           0: free

A key is represented by its 64-bit hash, a holder by `seat << 56 | instance << 32 | number`. A tag
describes the holder to others. Locks are granted without a commit or disk access. If there is no
room, a lock is not taken, and the commit detects conflicts (decision 039). Safety therefore does
not depend on the table. Every failure loses locks; no failure leaves a lock for ever:

    a process dies            the kernel releases its record lock on the seat; other processes take
                              over the keys that it held
    its member is fenced      a waiter compares the fence in the store with that of the seat after a
                              while and ends the seat's instance: all its locks are free
    it is stopped in here     others wait for the guard briefly, then work without locks
    it is killed in here      an entry's hash is written last; the guard ends with the process

Keys are granted to waiters in their order, in all processes. The releasing process writes the first
waiter in as holder and wakes it; if that one shares the key, the following sharing waiters, too. In
the waits-for graph a waiter has an edge to every locker in its way. A wait that would close a cycle
is refused, even if the cycle spans several processes.

    wants the key     in its way
    exclusively       all other holders
    shared            an exclusive holder, and earlier waiters for an exclusive lock

Writers are therefore not starved by sharers. A sharer that wants the key exclusively goes first, as
soon as it is the only holder; a second such request would close a cycle. A shared key has one entry
per holder, all in one bucket, so at most WAYS sessions can hold it; others wait.

`_SHARED` in the number of a holder or waiter marks a shared lock, so the layout is the same as
before shared locks existed. Older programs treat all holders as exclusive, wait for the first one
and grant to one waiter only; other waiters check by themselves within LOOK_S. This may lose locks,
and the commit then detects conflicts.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from hashlib import blake2b
from struct import Struct
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

SEATS, WAITS, BUCKETS = 128, 512, 1 << 15
WAYS = 8
_WAYS = Struct(f"<{WAYS}Q")
_WAIT = Struct("<4Q")
_SEAT = Struct("<QQ112s48s48s")  # instance, spare, fence key, its payload, address: NUL-padded
_HEADER_BYTES = 64
_TICKETS, _WAITING, _COMMITS = 0, 8, 16
_SEATS_AT = _HEADER_BYTES
_WAITS_AT = _SEATS_AT + SEATS * _SEAT.size
_BUCKETS_AT = -(-(_WAITS_AT + WAITS * _WAIT.size) // 4096) * 4096
_PLANE = _WAYS.size
_BUCKET_BYTES = 3 * _PLANE
TABLE_BYTES = _BUCKETS_AT + BUCKETS * _BUCKET_BYTES
_MESSAGE = Struct("<QQ")
_NUMBERS = 0xFFFFFFFF
_ALL_WAITS = Struct(f"<{4 * WAITS}Q")
_INSTANCES = (1 << 24) - 1
_SHARED = 1 << 31
"""In the number of a holder or waiter: the key is shared."""
_WHO = (1 << 64) - 1 - _SHARED
Words = NDArray[np.uint64]
_HAS, _BLOCKED = -2, -3
MANY = 32
"""From this number on, keys are looked up together."""
AT_ONCE = 1_000
"""Keys taken or released while holding the guard: about a millisecond."""


def hash_of(key: bytes) -> int:
    """The hash that represents a key: never 0, the same in every process."""
    return int.from_bytes(blake2b(key, digest_size=8).digest(), "little") or 1


class Guard(Protocol):
    """Mutual exclusion of processes, and detection of dead ones."""

    def enter(self) -> bool:
        """Exclude the other processes. False if one of them does not leave in time."""

    def leave(self) -> None: ...

    def sit(self, seat: int) -> bool:
        """Occupy a seat that is free or whose process has ended. Ends with this process."""

    def stand_up(self, seat: int) -> None: ...

    def is_taken(self, seat: int) -> bool:
        """Whether another living process occupies the seat."""

    def is_empty(self, seats: int) -> bool:
        """Whether no other living process occupies one of the first `seats` seats."""

    def send(self, address: bytes, message: bytes) -> None:
        """Send a wake-up to another process; it may be lost."""


class Alone:
    """The guard of a table that only one process uses."""

    def enter(self) -> bool:
        """Always succeeds."""
        return True

    def leave(self) -> None: ...

    def sit(self, seat: int) -> bool:
        """Always succeeds; LockTable passes free seats only."""
        return True

    def stand_up(self, seat: int) -> None: ...

    def is_taken(self, seat: int) -> bool:
        """Always false: there is no other process."""
        return False

    def is_empty(self, seats: int) -> bool:
        """Always true: there is no other process."""
        return True

    def send(self, address: bytes, message: bytes) -> None:
        """Does nothing: there is no other process."""


class WaitOutcome(Enum):
    """The outcome of a request to wait for a key."""

    FREE = "free"
    WAITS = "waits"
    CIRCLE = "circle"


Fence = tuple[bytes, bytes]


class LockTable:
    """The table in a buffer of TABLE_BYTES. `read`: the present value of a key of the store."""

    def __init__(
        self,
        buffer: bytearray | memoryview,
        guard: Guard,
        read: Callable[[bytes], bytes | None],
        address: Callable[[], bytes] = bytes,
    ) -> None:
        self._buffer = buffer
        self.cells = memoryview(buffer).cast("B").cast("Q")
        self._words: Words = np.frombuffer(buffer, np.uint64)
        self._guard = guard
        self._read = read
        self._address = address
        self._mutex = threading.Lock()
        self._seats: dict[int, Seat] = {}

    @contextmanager
    def entered(self) -> Iterator[bool]:
        """Exclusive access for this thread; False if it is not available now."""
        is_in = self.enter()
        try:
            yield is_in
        finally:
            if is_in:
                self.exit()

    def enter(self) -> bool:
        """As `entered`, without a block: if it returns True, `exit` must follow."""
        self._mutex.acquire()
        try:
            is_in = self._guard.enter()
        except BaseException:
            self._mutex.release()
            raise
        if not is_in:
            self._mutex.release()
        return is_in

    def exit(self) -> None:
        """End the exclusive access."""
        try:
            self._guard.leave()
        finally:
            self._mutex.release()

    def join(self, woken: Callable[[int, int], None], fence: Callable[[], Fence]) -> "Seat | None":
        """Returns a seat, or None if all are occupied.

        `woken(number, key)` is called from any thread. `fence`: a key of the store and its payload;
        all locks of the seat end when the payload changes."""
        with self.entered() as is_in:
            if not is_in:
                return None
            if not self._seats and self._guard.is_empty(SEATS):  # instances keep counting
                self._buffer[_WAITS_AT:_BUCKETS_AT] = bytes(_BUCKETS_AT - _WAITS_AT)
                self.put_word(_WAITING, 0)
            for number in range(SEATS):
                if number not in self._seats and self._guard.sit(number):
                    seat = self._seats[number] = Seat(self, number, woken, fence)
                    seat.begin()
                    return seat
        return None

    def leave(self, number: int) -> None:
        """Give a seat back: its locks become free."""
        with self._mutex:
            if self._seats.pop(number, None) is not None:
                self.put_word(_SEATS_AT + number * _SEAT.size, self._next_instance(number))
                self._guard.stand_up(number)

    def close(self) -> None:
        """Give back all seats of this process."""
        for number in list(self._seats):
            self.leave(number)

    # -- words and seats -------------------------------------------------------------------------

    def word(self, offset: int) -> int:
        """A word of the table. `offset` is in bytes, as everywhere except in `cells`."""
        return self.cells[offset >> 3]

    def put_word(self, offset: int, value: int) -> None:
        self.cells[offset >> 3] = value

    @property
    def commits(self) -> int:
        """Total number of releases by commit, in all processes."""
        return self.cells[_COMMITS >> 3]

    def instance_of(self, seat: int) -> int:
        """The seat's present instance."""
        return self.cells[_SEATS_AT + seat * _SEAT.size >> 3]

    def _next_instance(self, seat: int) -> int:
        return self.instance_of(seat) % _INSTANCES + 1

    def begin_instance(self, seat: int, fence: Fence) -> int:
        """Begin a new instance: all earlier locks of the seat end."""
        instance = self._next_instance(seat)
        _SEAT.pack_into(
            self._buffer, _SEATS_AT + seat * _SEAT.size, instance, 0, *fence, self._address()
        )
        return instance

    def lives(self, holder: int) -> bool:
        """Whether a holder may still commit, as far as the table shows."""
        seat = holder >> 56
        if self.instance_of(seat) != holder >> 32 & _INSTANCES:
            return False
        return seat in self._seats or self._guard.is_taken(seat)

    def end_if_fenced(self, holder: int) -> None:
        """End the locks of a holder's seat if its member was fenced. Call without the guard."""
        seat = holder >> 56
        instance, _, key, payload, _ = _SEAT.unpack_from(
            self._buffer, _SEATS_AT + seat * _SEAT.size
        )
        key, payload = key.rstrip(b"\0"), payload.rstrip(b"\0")
        if instance != holder >> 32 & _INSTANCES or not key:
            return
        current = self._read(key)
        if current is None or current.rstrip(b"\0") != payload:
            with self.entered() as is_in:
                if is_in and self.instance_of(seat) == instance:
                    self.put_word(_SEATS_AT + seat * _SEAT.size, self._next_instance(seat))

    # -- buckets: with the guard held ------------------------------------------------------------

    def slot(self, key: int) -> int:
        """Where the hash is, or -1. Allowed without the guard."""
        at = _BUCKETS_AT + key % BUCKETS * _BUCKET_BYTES
        hashes = _WAYS.unpack_from(self._buffer, at)
        return at + 8 * hashes.index(key) if key in hashes else -1

    def place(self, key: int) -> tuple[int, bool]:
        """(slot that has or may get the hash, whether it has it); slot -1 if there is no room."""
        at = _BUCKETS_AT + key % BUCKETS * _BUCKET_BYTES
        hashes = _WAYS.unpack_from(self._buffer, at)
        if key in hashes:
            return at + 8 * hashes.index(key), True
        if 0 in hashes:
            return at + 8 * hashes.index(0), False
        for way in range(WAYS):
            if not self.lives(self.word(at + _PLANE + 8 * way)):
                return at + 8 * way, False
        return -1, False

    def slots(self, key: int) -> list[int]:
        """All slots with the hash: a shared key has several holders."""
        at = _BUCKETS_AT + key % BUCKETS * _BUCKET_BYTES
        hashes = _WAYS.unpack_from(self._buffer, at)
        return [at + 8 * way for way, hashed in enumerate(hashes) if hashed == key]

    def holders(self, key: int) -> list[tuple[int, int]]:
        """(holder, slot) of each living holder."""
        entries = [(self.holder_at(slot), slot) for slot in self.slots(key)]
        return [entry for entry in entries if self.lives(entry[0])]

    def free_slot(self, key: int) -> int:
        """A slot for another holder of the key, or -1 if there is no room."""
        at = _BUCKETS_AT + key % BUCKETS * _BUCKET_BYTES
        hashes = _WAYS.unpack_from(self._buffer, at)
        for way in range(WAYS):
            if not hashes[way] or not self.lives(self.word(at + _PLANE + 8 * way)):
                return at + 8 * way
        return -1

    def holder_at(self, slot: int) -> int:
        """The holder in that slot."""
        return self.cells[slot + _PLANE >> 3]

    def tag_at(self, slot: int) -> int:
        """The tag in that slot."""
        return self.cells[slot + 2 * _PLANE >> 3]

    def _rows(self, keys: Words) -> tuple[Words, Words]:
        """For many hashes: the first words of their buckets, and the hashes in these buckets."""
        at = keys % np.uint64(BUCKETS) * np.uint64(_BUCKET_BYTES // 8) + np.uint64(_BUCKETS_AT // 8)
        return at, self._words[at[:, None] + np.arange(WAYS, dtype=np.uint64)]

    def fill_many(self, keys: Words, holder: int, tag: int) -> tuple[list[int], list[int]]:
        """Write many keys where there is room, if the table does not have them.

        Returns (positions written, other positions). The others must be handled one by one: the key
        is present, its bucket is full, or two keys need the same slot."""
        at, hashes = self._rows(keys)
        slots = at + (hashes == 0).argmax(axis=1).astype(np.uint64)
        is_free = (hashes == 0).any(axis=1) & ~(hashes == keys[:, None]).any(axis=1)
        first = np.zeros(len(keys), bool)
        first[np.unique(slots, return_index=True)[1]] = True
        written = is_free & first
        places = slots[written]
        self._words[places + np.uint64(WAYS)] = holder
        self._words[places + np.uint64(2 * WAYS)] = tag
        self._words[places] = keys[written]
        return np.flatnonzero(written).tolist(), np.flatnonzero(~written).tolist()

    def clear_many(self, keys: Words, holder: int) -> None:
        """Free those of the keys that the holder has, exclusively or shared."""
        at, hashes = self._rows(keys)
        rows, ways = (hashes == keys[:, None]).nonzero()
        slots = at[rows] + ways.astype(np.uint64)
        holders = self._words[slots + np.uint64(WAYS)] & np.uint64(_WHO)
        self._words[slots[holders == np.uint64(holder)]] = 0

    def fill(self, slot: int, key: int, holder: int, tag: int) -> None:
        """Write an entry; its hash last."""
        cells, at = self.cells, slot >> 3
        cells[at + WAYS] = holder
        cells[at + 2 * WAYS] = tag
        cells[at] = key

    # -- waits: with the guard held --------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """Number of waiters, including dead ones."""
        return self.cells[_WAITING >> 3]

    def waits(self) -> list[tuple[int, int, int, int, int]]:
        """(ticket, waiter, hash, tag, offset) of each waiter, in their order."""
        words = _ALL_WAITS.unpack_from(self._buffer, _WAITS_AT)
        queued = []
        for n in range(0, len(words), 4):
            if words[n]:
                waiter, key, ticket, tag = words[n : n + 4]
                queued.append((ticket, waiter, key, tag, _WAITS_AT + 8 * n))
        return sorted(queued)

    def add_wait(self, waiter: int, key: int, tag: int) -> bool:
        """Add a waiter. Returns whether there was room."""
        words = _ALL_WAITS.unpack_from(self._buffer, _WAITS_AT)
        for n in range(0, len(words), 4):
            if not words[n] or not self.lives(words[n]):
                if not words[n]:
                    self.put_word(_WAITING, self.waiting + 1)
                ticket = self.word(_TICKETS) + 1
                self.put_word(_TICKETS, ticket)
                _WAIT.pack_into(self._buffer, _WAITS_AT + 8 * n, waiter, key, ticket, tag)
                return True
        return False

    def drop_wait(self, offset: int) -> None:
        """Remove the waiter at that offset."""
        self.put_word(offset, 0)
        self.put_word(_WAITING, max(0, self.waiting - 1))

    def count_commit(self) -> None:
        """Count a release by commit."""
        self.cells[_COMMITS >> 3] += 1

    # -- waking ----------------------------------------------------------------------------------

    def wake(self, holder: int, key: int) -> None:
        """Notify a waiter that its key was granted."""
        seat = self._seats.get(holder >> 56)
        if seat is not None:
            seat.woken(holder & _NUMBERS & _WHO, key)
            return
        seat_row = _SEAT.unpack_from(self._buffer, _SEATS_AT + (holder >> 56) * _SEAT.size)
        self._guard.send(seat_row[4].rstrip(b"\0"), _MESSAGE.pack(holder, key))

    def message(self, data: bytes) -> None:
        """Handle a wake-up from another process."""
        if len(data) == _MESSAGE.size:
            holder, key = _MESSAGE.unpack(data)
            seat = self._seats.get(holder >> 56)
            if seat is not None:
                seat.woken(holder & _NUMBERS & _WHO, key)


class Seat:
    """One user of a table. The numbers of its lockers are below 2**31. Thread-safe."""

    def __init__(
        self,
        table: LockTable,
        number: int,
        woken: Callable[[int, int], None],
        fence: Callable[[], Fence],
    ) -> None:
        self._table = table
        self._number = number
        self._at = _SEATS_AT + number * _SEAT.size >> 3
        self._fence = fence
        self._held_by = fence()
        self._instance = self._base = 0
        self._owed: list[tuple[int, Sequence[int]]] = []  # releases while the table was unavailable
        self._unwanted: list[tuple[int, int]] = []  # waits given up while it was unavailable
        self.woken = woken
        self.own_commits = 0

    def begin(self) -> None:
        """Begin a new instance on the seat."""
        self._held_by = self._fence()
        self._instance = self._table.begin_instance(self._number, self._held_by)
        self._base = self._number << 56 | self._instance << 32

    def leave(self) -> None:
        """Give the seat back; its locks become free."""
        self._table.leave(self._number)

    def is_queued(self, number: int) -> bool:
        """Whether one of its lockers is in the table's queue. For observers."""
        me = self._id(number)
        return any(waiter & _WHO == me for _, waiter, _, _, _ in self._table.waits())

    def _id(self, number: int) -> int:
        return self._base | number

    def _settle(self) -> None:
        """With the guard: do delayed releases, and begin again if the seat was ended."""
        table = self._table
        if table.cells[self._at] != self._instance or self._fence() != self._held_by:
            self.begin()
        while self._unwanted:
            number, key = self._unwanted.pop()
            if not self._drop_wait(number):
                self._owed.append((number, [key]))
        while self._owed:  # the next holders notice by themselves, a little later
            self._let_go(*self._owed.pop(), table.waits() if table.waiting else [])

    @property
    def others_commits(self) -> int:
        """A number that changes whenever another seat releases locks by a commit."""
        return self._table.cells[_COMMITS >> 3] - self.own_commits

    def take(
        self, number: int, keys: Sequence[int], tag: int, shared: bool = False
    ) -> tuple[int, list[int]]:
        """(position of the first key that another locker holds or -1, positions newly taken).

        Takes all or nothing: nothing if a key is held, or if the table is not available."""
        table = self._table
        if not table.enter():
            return -1, []
        try:
            self._settle()
            me = self._id(number)
            if len(keys) < MANY:
                return self._take_each(me, keys, range(len(keys)), tag, shared)
            as_held = me | _SHARED if shared else me
            done, singles = table.fill_many(np.array(keys, np.uint64), as_held, tag)
            blocked, more = self._take_each(me, keys, singles, tag, shared)
            if blocked >= 0:
                table.clear_many(np.array([keys[n] for n in done], np.uint64), me)
                return blocked, []
        finally:
            table.exit()
        return -1, sorted(done + more) if more else done

    def _take_each(
        self, me: int, keys: Sequence[int], positions: Iterable[int], tag: int, shared: bool
    ) -> tuple[int, list[int]]:
        table = self._table
        as_held = me | _SHARED if shared else me
        positions_taken: list[int] = []
        slots: list[int] = []
        raised: list[int] = []
        for position in positions:
            key = keys[position]
            slot, is_present = table.place(key)
            if is_present:
                slot, is_mine = self._among(me, key, shared)
                if slot == _HAS:
                    continue
                if slot == _BLOCKED:
                    for taken_slot in slots:
                        table.put_word(taken_slot, 0)
                    for taken_slot in raised:
                        table.put_word(taken_slot + _PLANE, me | _SHARED)
                    return position, []
                if is_mine:
                    table.put_word(slot + _PLANE, me)
                    raised.append(slot)
                    continue
            elif slot < 0:
                continue
            table.fill(slot, key, as_held, tag)
            slots.append(slot)
            positions_taken.append(position)
        return -1, positions_taken

    def _among(self, me: int, key: int, shared: bool) -> tuple[int, bool]:
        """The slot for an own entry, or _HAS, _BLOCKED; and whether the slot already has an own
        shared entry, which becomes exclusive."""
        table, mine, in_the_way = self._table, -1, False
        for slot in table.slots(key):
            holder = table.holder_at(slot)
            if holder & _WHO == me:
                if shared or not holder & _SHARED:
                    return _HAS, True
                mine = slot
            elif not table.lives(holder):
                table.put_word(slot, 0)
            elif not shared or not holder & _SHARED:
                in_the_way = True
        if in_the_way:
            return _BLOCKED, False
        if mine >= 0:
            return mine, True
        if shared and self._writer_waits(me, key) is not None:
            return _BLOCKED, False
        slot = table.free_slot(key)
        return (_BLOCKED if slot < 0 else slot), False

    def _writer_waits(self, me: int, key: int) -> tuple[int, int] | None:
        """(waiter, tag) of the first waiter for an exclusive lock; only those before `me`."""
        table = self._table
        for _, waiter, waited_key, tag, _ in table.waits() if table.waiting else ():
            if waited_key != key:
                continue
            if waiter & _WHO == me:
                return None
            if not waiter & _SHARED and table.lives(waiter):
                return waiter, tag
        return None

    def release(self, number: int, keys: Sequence[int], committed: bool) -> None:
        """Release the keys: each is granted to its first waiter, or is free."""
        table = self._table
        woken: list[tuple[int, int]] = []
        if not table.enter():
            self._owed.append((number, keys))
            return
        try:
            self._settle()
            if committed:
                table.count_commit()
                self.own_commits += 1
            woken = self._let_go(number, keys, table.waits() if table.waiting else [])
        finally:
            table.exit()
        for holder, key in woken:
            table.wake(holder, key)

    def _let_go(
        self, number: int, keys: Sequence[int], waits: list[tuple[int, int, int, int, int]]
    ) -> list[tuple[int, int]]:
        table, me = self._table, self._id(number)
        if not waits and len(keys) >= MANY:
            table.clear_many(np.array(keys, np.uint64), me)
            return []
        woken: list[tuple[int, int]] = []
        for key in keys:
            for slot in table.slots(key):
                if table.holder_at(slot) & _WHO == me:
                    table.cells[slot >> 3] = 0
            if waits:
                woken += self._hand_on(key, waits)
        return woken

    def _hand_on(
        self, key: int, waits: list[tuple[int, int, int, int, int]]
    ) -> list[tuple[int, int]]:
        """Grant the key to its waiters in their order. Returns those to be woken.

        A sharer that waits for an exclusive lock goes first."""
        table = self._table
        queue = [wait for wait in waits if wait[2] == key and table.lives(wait[1])]
        if not queue:
            return []
        holders = table.holders(key)
        if len(holders) == 1 and holders[0][0] & _SHARED:
            only, slot = holders[0]
            heir = next((wait for wait in queue if wait[1] == only & _WHO), None)
            if heir is not None:
                table.put_word(slot + _PLANE, heir[1])
                return [self._remove_wait(heir, waits)]
        woken: list[tuple[int, int]] = []
        for heir in queue:
            if holders and not (heir[1] & holders[0][0] & _SHARED):
                break
            slot = table.free_slot(key)
            if slot < 0:
                break
            table.fill(slot, key, heir[1], heir[3])
            holders = [(heir[1], slot)]
            woken.append(self._remove_wait(heir, waits))
        return woken

    def _remove_wait(
        self,
        heir: tuple[int, int, int, int, int],
        waits: list[tuple[int, int, int, int, int]],
    ) -> tuple[int, int]:
        waits.remove(heir)
        self._table.drop_wait(heir[4])
        return heir[1], heir[2]

    def other(self, number: int, key: int, shared: bool = False) -> tuple[int, int] | None:
        """(holder, tag) of a locker in the way of an exclusive or shared lock, or None.

        Call without the guard."""
        table, me = self._table, self._id(number)
        if table.slot(key) < 0:
            return None
        for slot in table.slots(key):
            holder, tag = table.holder_at(slot), table.tag_at(slot)
            if holder & _WHO == me:
                if shared:
                    return None
                continue
            if shared and holder & _SHARED:
                continue
            if table.cells[slot >> 3] == key and table.lives(holder):
                return holder, tag
        return self._writer_waits(me, key) if shared else None

    # -- waiting ---------------------------------------------------------------------------------

    def wait(self, number: int, key: int, tag: int, shared: bool = False) -> WaitOutcome:
        """Wait in the key's queue. FREE: check again instead; CIRCLE: the wait would never end."""
        table = self._table
        with table.entered() as is_in:
            if not is_in:
                return WaitOutcome.FREE
            self._settle()
            me = self._id(number)
            in_the_way = self._in_the_way(me, key, shared, table.waits() if table.waiting else [])
            if not in_the_way:
                return WaitOutcome.FREE
            if self._closes_a_circle(me, in_the_way):
                return WaitOutcome.CIRCLE
            table.add_wait(me | _SHARED if shared else me, key, tag)
            return WaitOutcome.WAITS

    def _in_the_way(
        self, me: int, key: int, shared: bool, waits: list[tuple[int, int, int, int, int]]
    ) -> list[int]:
        """The lockers that must release the key, or get it, before `me` can have it."""
        table = self._table
        holders = table.holders(key)
        others = [holder & _WHO for holder, _ in holders if holder & _WHO != me]
        if not shared:
            return [] if any(holder == me for holder, _ in holders) else others
        if len(others) < len(holders):
            return []  # it has the key
        alone = [holder for holder, _ in holders if not holder & _SHARED]
        for _, waiter, waited_key, _, _ in waits:
            if waited_key == key and waiter & _WHO == me:
                break
            if waited_key == key and not waiter & _SHARED and table.lives(waiter):
                alone.append(waiter)
        if not alone and others and table.free_slot(key) < 0:
            return others
        return alone

    def _closes_a_circle(self, me: int, in_the_way: list[int]) -> bool:
        """Whether a locker in the way waits for `me`, directly or through others."""
        table = self._table
        waits = table.waits() if table.waiting else []
        wants = {waiter & _WHO: (key, bool(waiter & _SHARED)) for _, waiter, key, _, _ in waits}
        visited: set[int] = set()
        pending = list(in_the_way)
        while pending:
            holder = pending.pop()
            if holder == me:
                return True
            if holder in visited or holder not in wants:
                continue
            visited.add(holder)
            pending += self._in_the_way(holder, *wants[holder], waits)
        return False

    def has(self, number: int, key: int, shared: bool = False) -> bool:
        """Whether it holds the key, exclusively or (with `shared`) shared."""
        table, me = self._table, self._id(number)
        holders = [table.holder_at(slot) for slot in table.slots(key)]
        return me in holders or (shared and me | _SHARED in holders)

    def is_over(self, number: int, key: int, shared: bool = False) -> bool:
        """Whether a wait can end: the key is granted, or the holder's process or epoch is gone."""
        other = self.other(number, key, shared)
        if other is None:
            return True
        self._table.end_if_fenced(other[0])
        return self.other(number, key, shared) is None

    def stop_waiting(self, number: int, key: int, shared: bool = False) -> bool:
        """Leave the queue. Returns whether the key was granted meanwhile.

        Later waiters that share the key may get it now."""
        table = self._table
        woken: list[tuple[int, int]] = []
        with table.entered() as is_in:
            if is_in:
                may_hand_on = self._drop_wait(number) and not shared and table.waiting
                if may_hand_on and table.holders(key):  # sharing waiters may join the holders
                    woken = self._hand_on(key, table.waits())
            elif not self.has(number, key, shared):
                self._unwanted.append((number, key))
                return False
        for holder, waited_key in woken:
            table.wake(holder, waited_key)
        return self.has(number, key, shared)

    def _drop_wait(self, number: int) -> bool:
        table, me = self._table, self._id(number)
        for _, waiter, _, _, offset in table.waits() if table.waiting else ():
            if waiter & _WHO == me:
                table.drop_wait(offset)
                return True
        return False
