"""Who holds and who waits for which key, of all processes on one store: a table in shared memory.

    header    tickets given, waits under way, releases by commit
    seats     SEATS x (instance, fence key, its payload, where wake-ups go)     one for each user
    waits     WAITS x (waiter, hash, ticket, tag)                               0: free
    buckets   BUCKETS x (8 hashes, 8 holders, 8 tags)                           0: free

A key is its 64-bit hash, a holder `seat << 56 | instance << 32 | number`, a tag what the holder
says of itself. Granted without a commit and without touching a disk; a lock that finds no room is
not taken, and the commit decides (decision 039). So nothing here is for safety, and whatever goes
wrong ends in a lock that is lost, never in one that stays:

    a process dies            its seat is free at once (the kernel's record lock on it goes); who
                              finds a key held by it takes the key over
    its member is fenced      who waits for it long compares the fence in the store with the seat's
                              and ends the seat's instance: all it held is free
    it is stopped in here     the guard is waited for briefly, then locks are not taken
    it is killed in here      an entry is written with its hash last; the guard goes with it

A key goes to its waiters in their order, whichever process they are of: who lets go of it writes
the first of them in as holder and wakes it; if that one shares it, those behind it who share it
too. Who waits has an edge to each who stands in its way in the graph of who waits for whom; the
wait that would close a circle is refused, in whatever processes its edges lie.

    wants the key     stands in its way
    alone             whoever else holds it
    shared            who holds it alone, and who waits before it to have it alone

So writers are not starved by those who share. Who shares a key and wants it alone goes first as
soon as nobody else holds it; of two who want that, the second would close a circle. A key that is
shared has an entry for each who holds it, in one bucket, so no more than WAYS hold it together:
the next one waits.

`_SHARED` in the number of a holder or waiter tells that it shares, so the table is laid out as
before there were shared locks. A process of that time takes every holder for one that is alone,
waits for the first it finds, and hands on to one waiter only; the others look by themselves within
LOOK_S. What it may lose are locks, and the commit decides.
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
"""In a holder's number, and in a waiter's: it shares the key."""
_WHO = (1 << 64) - 1 - _SHARED
Words = NDArray[np.uint64]
_HAS, _BLOCKED = -2, -3
MANY = 32
"""Keys from which they are looked up together."""
AT_ONCE = 1_000
"""Keys taken or let go with the guard held: about a millisecond."""


def hash_of(key: bytes) -> int:
    """What stands for a key; never 0, the same in every process."""
    return int.from_bytes(blake2b(key, digest_size=8).digest(), "little") or 1


class Guard(Protocol):
    """What keeps processes apart, and tells which of them live."""

    def enter(self) -> bool:
        """Keep the other processes out; False if one of them does not come out in time."""

    def leave(self) -> None: ...

    def sit(self, seat: int) -> bool:
        """Take a seat that no living process has. It is given up when this process ends."""

    def stand_up(self, seat: int) -> None: ...

    def is_taken(self, seat: int) -> bool:
        """Whether another living process has it."""

    def is_empty(self, seats: int) -> bool:
        """Whether no other living process has one of the first so many."""

    def send(self, address: bytes, message: bytes) -> None:
        """Tell another process to look; may be lost."""


class Alone:
    """The guard of a table that one process has."""

    def enter(self) -> bool:
        """Nobody else is there."""
        return True

    def leave(self) -> None: ...

    def sit(self, seat: int) -> bool:
        """Whoever asks is told by LockTable which are free."""
        return True

    def stand_up(self, seat: int) -> None: ...

    def is_taken(self, seat: int) -> bool:
        """There is no other process."""
        return False

    def is_empty(self, seats: int) -> bool:
        """There is no other process."""
        return True

    def send(self, address: bytes, message: bytes) -> None:
        """There is nobody to tell."""


class WaitOutcome(Enum):
    """What became of the wish to wait for a key."""

    FREE = "free"
    WAITS = "waits"
    CIRCLE = "circle"


Fence = tuple[bytes, bytes]


class LockTable:
    """See the module. `buffer` has TABLE_BYTES; `read` gives what a key of the store holds now."""

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
        """The table for this thread alone; False: it cannot be had now."""
        is_in = self.enter()
        try:
            yield is_in
        finally:
            if is_in:
                self.exit()

    def enter(self) -> bool:
        """The same without a block: if True, `exit` must follow."""
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
        """Let the next one in."""
        try:
            self._guard.leave()
        finally:
            self._mutex.release()

    def join(self, woken: Callable[[int, int], None], fence: Callable[[], Fence]) -> "Seat | None":
        """A seat; None if all are taken. `woken(number, key)` is called from any thread; `fence`
        tells which key of the store ends what the seat holds once its payload is another."""
        with self.entered() as is_in:
            if not is_in:
                return None
            if not self._seats and self._guard.is_empty(SEATS):  # instances go on for ever
                self._buffer[_WAITS_AT:_BUCKETS_AT] = bytes(_BUCKETS_AT - _WAITS_AT)
                self.put_word(_WAITING, 0)
            for number in range(SEATS):
                if number not in self._seats and self._guard.sit(number):
                    seat = self._seats[number] = Seat(self, number, woken, fence)
                    seat.begin()
                    return seat
        return None

    def leave(self, number: int) -> None:
        """A seat is given back: what it held is free."""
        with self._mutex:
            if self._seats.pop(number, None) is not None:
                self.put_word(_SEATS_AT + number * _SEAT.size, self._next_instance(number))
                self._guard.stand_up(number)

    def close(self) -> None:
        """All seats of this process are given back."""
        for number in list(self._seats):
            self.leave(number)

    # -- words and seats -------------------------------------------------------------------------

    def word(self, offset: int) -> int:
        """A number of the table; `offset` in bytes, as everywhere but in `cells`."""
        return self.cells[offset >> 3]

    def put_word(self, offset: int, value: int) -> None:
        self.cells[offset >> 3] = value

    @property
    def commits(self) -> int:
        """Releases by commit so far, of all processes."""
        return self.cells[_COMMITS >> 3]

    def instance_of(self, seat: int) -> int:
        """The instance that sits there now."""
        return self.cells[_SEATS_AT + seat * _SEAT.size >> 3]

    def _next_instance(self, seat: int) -> int:
        return self.instance_of(seat) % _INSTANCES + 1

    def begin_instance(self, seat: int, fence: Fence) -> int:
        """A new instance: nothing that was held there before is."""
        instance = self._next_instance(seat)
        _SEAT.pack_into(
            self._buffer, _SEATS_AT + seat * _SEAT.size, instance, 0, *fence, self._address()
        )
        return instance

    def lives(self, holder: int) -> bool:
        """Whether a holder may still commit, as far as one can see without the store."""
        seat = holder >> 56
        if self.instance_of(seat) != holder >> 32 & _INSTANCES:
            return False
        return seat in self._seats or self._guard.is_taken(seat)

    def end_if_fenced(self, holder: int) -> None:
        """Free what a holder's seat holds if its member was fenced. Not for the guarded."""
        seat = holder >> 56
        instance, _, key, payload, _ = _SEAT.unpack_from(
            self._buffer, _SEATS_AT + seat * _SEAT.size
        )
        key, payload = key.rstrip(b"\0"), payload.rstrip(b"\0")
        if instance != holder >> 32 & _INSTANCES or not key:
            return
        stands = self._read(key)
        if stands is None or stands.rstrip(b"\0") != payload:
            with self.entered() as is_in:
                if is_in and self.instance_of(seat) == instance:
                    self.put_word(_SEATS_AT + seat * _SEAT.size, self._next_instance(seat))

    # -- buckets: with the guard held ------------------------------------------------------------

    def slot(self, key: int) -> int:
        """Where the hash stands; -1 if nowhere. May be asked without the guard too."""
        at = _BUCKETS_AT + key % BUCKETS * _BUCKET_BYTES
        hashes = _WAYS.unpack_from(self._buffer, at)
        return at + 8 * hashes.index(key) if key in hashes else -1

    def place(self, key: int) -> tuple[int, bool]:
        """(where the hash stands or may be put, whether it stands there); -1: there is no room."""
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
        """Everywhere the hash stands: a key that is shared has several holders."""
        at = _BUCKETS_AT + key % BUCKETS * _BUCKET_BYTES
        hashes = _WAYS.unpack_from(self._buffer, at)
        return [at + 8 * way for way, each in enumerate(hashes) if each == key]

    def holders(self, key: int) -> list[tuple[int, int]]:
        """(holder, slot) of each who lives."""
        found = [(self.holder_at(slot), slot) for slot in self.slots(key)]
        return [each for each in found if self.lives(each[0])]

    def free_slot(self, key: int) -> int:
        """Where another holder of the key may be put; -1: there is no room."""
        at = _BUCKETS_AT + key % BUCKETS * _BUCKET_BYTES
        hashes = _WAYS.unpack_from(self._buffer, at)
        for way in range(WAYS):
            if not hashes[way] or not self.lives(self.word(at + _PLANE + 8 * way)):
                return at + 8 * way
        return -1

    def holder_at(self, slot: int) -> int:
        """Who holds what stands there."""
        return self.cells[slot + _PLANE >> 3]

    def tag_at(self, slot: int) -> int:
        """What it says of itself."""
        return self.cells[slot + 2 * _PLANE >> 3]

    def _rows(self, keys: Words) -> tuple[Words, Words]:
        """For many hashes: where their buckets begin, in words, and the hashes that stand there."""
        at = keys % np.uint64(BUCKETS) * np.uint64(_BUCKET_BYTES // 8) + np.uint64(_BUCKETS_AT // 8)
        return at, self._words[at[:, None] + np.arange(WAYS, dtype=np.uint64)]

    def fill_many(self, keys: Words, holder: int, tag: int) -> tuple[list[int], list[int]]:
        """Write many that stand nowhere, each where there is room: (positions written, positions
        to be looked at singly: what stands there already, or wants the same place as another)."""
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
        """Free those of many that the holder has, alone or shared."""
        at, hashes = self._rows(keys)
        rows, ways = (hashes == keys[:, None]).nonzero()
        slots = at[rows] + ways.astype(np.uint64)
        holders = self._words[slots + np.uint64(WAYS)] & np.uint64(_WHO)
        self._words[slots[holders == np.uint64(holder)]] = 0

    def fill(self, slot: int, key: int, holder: int, tag: int) -> None:
        """Write an entry, its hash last."""
        cells, at = self.cells, slot >> 3
        cells[at + WAYS] = holder
        cells[at + 2 * WAYS] = tag
        cells[at] = key

    # -- waits: with the guard held --------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """How many wait, or died waiting."""
        return self.cells[_WAITING >> 3]

    def waits(self) -> list[tuple[int, int, int, int, int]]:
        """(ticket, waiter, hash, tag, offset) of each, in their order."""
        words = _ALL_WAITS.unpack_from(self._buffer, _WAITS_AT)
        found = []
        for n in range(0, len(words), 4):
            if words[n]:
                waiter, key, ticket, tag = words[n : n + 4]
                found.append((ticket, waiter, key, tag, _WAITS_AT + 8 * n))
        return sorted(found)

    def add_wait(self, waiter: int, key: int, tag: int) -> bool:
        """Whether there was room."""
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
        """It waits no more."""
        self.put_word(offset, 0)
        self.put_word(_WAITING, max(0, self.waiting - 1))

    def count_commit(self) -> None:
        """A release by commit."""
        self.cells[_COMMITS >> 3] += 1

    # -- waking ----------------------------------------------------------------------------------

    def wake(self, holder: int, key: int) -> None:
        """Tell a waiter that it was given its key."""
        seat = self._seats.get(holder >> 56)
        if seat is not None:
            seat.woken(holder & _NUMBERS & _WHO, key)
            return
        found = _SEAT.unpack_from(self._buffer, _SEATS_AT + (holder >> 56) * _SEAT.size)
        self._guard.send(found[4].rstrip(b"\0"), _MESSAGE.pack(holder, key))

    def message(self, data: bytes) -> None:
        """Another process has sent this."""
        if len(data) == _MESSAGE.size:
            holder, key = _MESSAGE.unpack(data)
            seat = self._seats.get(holder >> 56)
            if seat is not None:
                seat.woken(holder & _NUMBERS & _WHO, key)


class Seat:
    """One user of a table: its lockers have numbers below 2**31. Thread-safe."""

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
        self._owed: list[tuple[int, Sequence[int]]] = []  # let go, but the table was not to be had
        self._unwanted: list[tuple[int, int]] = []  # waits given up in such a moment
        self.woken = woken
        self.own_commits = 0

    def begin(self) -> None:
        """Sit down: a new instance."""
        self._held_by = self._fence()
        self._instance = self._table.begin_instance(self._number, self._held_by)
        self._base = self._number << 56 | self._instance << 32

    def leave(self) -> None:
        """Give the seat back; all it holds is free."""
        self._table.leave(self._number)

    def is_queued(self, number: int) -> bool:
        """Whether the table has one of its lockers among those who wait. For who looks on."""
        me = self._id(number)
        return any(waiter & _WHO == me for _, waiter, _, _, _ in self._table.waits())

    def _id(self, number: int) -> int:
        return self._base | number

    def _settle(self) -> None:
        """With the guard held: what this seat owes, and whether it was ended meanwhile."""
        table = self._table
        if table.cells[self._at] != self._instance or self._fence() != self._held_by:
            self.begin()
        while self._unwanted:
            number, key = self._unwanted.pop()
            if not self._drop_wait(number):
                self._owed.append((number, [key]))
        while self._owed:  # their heirs look by themselves, a little later
            self._let_go(*self._owed.pop(), table.waits() if table.waiting else [])

    @property
    def others_commits(self) -> int:
        """Releases by commit of other seats: while it stands still they changed nothing."""
        return self._table.cells[_COMMITS >> 3] - self.own_commits

    def take(
        self, number: int, keys: Sequence[int], tag: int, shared: bool = False
    ) -> tuple[int, list[int]]:
        """(position of the first key that another holds or -1, positions newly taken).

        None is taken if one is another's, and none where the table cannot be had."""
        table = self._table
        if not table.enter():
            return -1, []
        try:
            self._settle()
            me = self._id(number)
            if len(keys) < MANY:
                return self._take_each(me, keys, range(len(keys)), tag, shared)
            as_held = me | _SHARED if shared else me
            done, left = table.fill_many(np.array(keys, np.uint64), as_held, tag)
            blocked, taken = self._take_each(me, keys, left, tag, shared)
            if blocked >= 0:
                table.clear_many(np.array([keys[n] for n in done], np.uint64), me)
                return blocked, []
        finally:
            table.exit()
        return -1, sorted(done + taken) if taken else done

    def _take_each(
        self, me: int, keys: Sequence[int], positions: Iterable[int], tag: int, shared: bool
    ) -> tuple[int, list[int]]:
        table = self._table
        as_held = me | _SHARED if shared else me
        taken: list[int] = []
        slots: list[int] = []
        raised: list[int] = []
        for position in positions:
            key = keys[position]
            slot, stands = table.place(key)
            if stands:
                slot, is_mine = self._among(me, key, shared)
                if slot == _HAS:
                    continue
                if slot == _BLOCKED:
                    for each in slots:
                        table.put_word(each, 0)
                    for each in raised:
                        table.put_word(each + _PLANE, me | _SHARED)
                    return position, []
                if is_mine:
                    table.put_word(slot + _PLANE, me)
                    raised.append(slot)
                    continue
            elif slot < 0:
                continue
            table.fill(slot, key, as_held, tag)
            slots.append(slot)
            taken.append(position)
        return -1, taken

    def _among(self, me: int, key: int, shared: bool) -> tuple[int, bool]:
        """(where an entry of its own goes beside those that stand there, whether it is its own that
        becomes exclusive); _HAS, _BLOCKED."""
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
        """(waiter, tag) of the first who waits to have the key alone, before `me` if that waits."""
        table = self._table
        for _, waiter, wanted, tag, _ in table.waits() if table.waiting else ():
            if wanted != key:
                continue
            if waiter & _WHO == me:
                return None
            if not waiter & _SHARED and table.lives(waiter):
                return waiter, tag
        return None

    def release(self, number: int, keys: Sequence[int], committed: bool) -> None:
        """Let go: each key is its first waiter's, or free."""
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
        """Give the key to whom it fits now, in their order; who shares it and wants it alone comes
        first. Those to be woken."""
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
                return [self._given(heir, waits)]
        woken: list[tuple[int, int]] = []
        for heir in queue:
            if holders and not (heir[1] & holders[0][0] & _SHARED):
                break
            slot = table.free_slot(key)
            if slot < 0:
                break
            table.fill(slot, key, heir[1], heir[3])
            holders = [(heir[1], slot)]
            woken.append(self._given(heir, waits))
        return woken

    def _given(
        self,
        heir: tuple[int, int, int, int, int],
        waits: list[tuple[int, int, int, int, int]],
    ) -> tuple[int, int]:
        waits.remove(heir)
        self._table.drop_wait(heir[4])
        return heir[1], heir[2]

    def other(self, number: int, key: int, shared: bool = False) -> tuple[int, int] | None:
        """(holder, tag) of another who stands in the way of who wants the key alone, or shared;
        None if nobody does. Asked without the guard."""
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
        """Queue up for the key. FREE: look again instead; CIRCLE: it would never end."""
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
        """Who must let go of the key, or have had it, before `me` can; see the module."""
        table = self._table
        holders = table.holders(key)
        others = [each & _WHO for each, _ in holders if each & _WHO != me]
        if not shared:
            return [] if any(each == me for each, _ in holders) else others
        if len(others) < len(holders):
            return []  # it has it
        alone = [each for each, _ in holders if not each & _SHARED]
        for _, waiter, wanted, _, _ in waits:
            if wanted == key and waiter & _WHO == me:
                break
            if wanted == key and not waiter & _SHARED and table.lives(waiter):
                alone.append(waiter)
        if not alone and others and table.free_slot(key) < 0:
            return others
        return alone

    def _closes_a_circle(self, me: int, in_the_way: list[int]) -> bool:
        """Whether somebody in the way waits, through whomever, for `me`."""
        table = self._table
        waits = table.waits() if table.waiting else []
        wants = {waiter & _WHO: (key, bool(waiter & _SHARED)) for _, waiter, key, _, _ in waits}
        seen: set[int] = set()
        left = list(in_the_way)
        while left:
            each = left.pop()
            if each == me:
                return True
            if each in seen or each not in wants:
                continue
            seen.add(each)
            left += self._in_the_way(each, *wants[each], waits)
        return False

    def has(self, number: int, key: int, shared: bool = False) -> bool:
        """Whether the key is its own, alone or at least shared."""
        table, me = self._table, self._id(number)
        held = [table.holder_at(slot) for slot in table.slots(key)]
        return me in held or (shared and me | _SHARED in held)

    def is_over(self, number: int, key: int, shared: bool = False) -> bool:
        """Whether a wait has an end: it has the key, or the holder's process or epoch is gone."""
        other = self.other(number, key, shared)
        if other is None:
            return True
        self._table.end_if_fenced(other[0])
        return self.other(number, key, shared) is None

    def stop_waiting(self, number: int, key: int, shared: bool = False) -> bool:
        """Leave the queue; True if the key was handed over meanwhile. Who waited behind it to share
        the key may have it now."""
        table = self._table
        woken: list[tuple[int, int]] = []
        with table.entered() as is_in:
            if is_in:
                stood = self._drop_wait(number) and not shared and table.waiting
                if stood and table.holders(key):  # who shares it may be joined now
                    woken = self._hand_on(key, table.waits())
            elif not self.has(number, key, shared):
                self._unwanted.append((number, key))
                return False
        for holder, given in woken:
            table.wake(holder, given)
        return self.has(number, key, shared)

    def _drop_wait(self, number: int) -> bool:
        table, me = self._table, self._id(number)
        for _, waiter, _, _, offset in table.waits() if table.waiting else ():
            if waiter & _WHO == me:
                table.drop_wait(offset)
                return True
        return False
