"""Many sessions' commits, one fsync; one session's commit, no hop to another thread.

The first caller who finds nobody committing becomes the leader: it passes the gate, then takes
every packet that has queued up meanwhile into *one* LMDB transaction, one after another, each
validated against what stands then, and each with a sequence of its own. A refused packet has
written nothing, so it leaves nothing. After the commit the leader wakes every follower with its
own result and hands the lead to the first who came since; nobody leads twice in a row, so
nobody's latency is more than two transactions. Callers that step aside (base/aside.py) have no
thread to lead with: one of the committer's own leads for them.

Work that raises an ExuviaError has written nothing (see work); whatever else it raises, MemoryError
for one, may have come in the middle of its writes. Then, and if the transaction itself fails (map
full, disk full), the whole transaction is aborted and its packets are tried again one by one: each
stands as a whole or not at all, and only those that cannot be done are refused. An interrupt
(KeyboardInterrupt, SystemExit) ends the leader alone: its followers go back into the queue. What
happens after the last packet, while LMDB commits, has an outcome that nobody knows, unless it is
LMDB's own error. After an error of the disk nothing is tried again: all are told what is known.

One group takes at most `MOST_IN_ONE` packets and, besides the leader's, `MOST_KEYS` keys: whoever
waits for the gate waits for one large packet at a time.

One commit:

    before the gate     a large one: arrange (kv/validate.py), touch: its pages are read in
    with the gate held  validate, judge | write in key order, a mark of progress every stride
                        a small one: settle (kv/validate.py) | write

An ExuviaError is raised left of the bar only: who is refused has written nothing. Any other error
may come from anywhere; the transaction it comes from must be aborted as a whole (see committer).

A stored value is `[u64 little-endian commit sequence][payload]`.

Full leaves. LMDB fills a leaf completely only if each new key is the last one of the leaf. All
tables share one tree, so keys of other tables follow in the same leaf. Then each split leaves half
a leaf or less, and an index of integers took 2.5 times its pages. So a run of keys is put between
two fences, keys of half a leaf, which leave no room for others (decision 121):

    .. i7 r1 r2 ..      put a, b       .. i7 a | b r1 ..       or    .. i7 | a b | r1 ..
                        put i8 ..      .. a i8 .. | .. | .. i900 | b ..
                        remove a, b
"""

import gc
import threading
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice, repeat
from mmap import PAGESIZE
from queue import SimpleQueue
from typing import Any

from exuvia.base.aside import waiting
from exuvia.base.errors import ExuviaError, OutcomeUnknown, StorageFailed, Unavailable
from exuvia.kv import keys as k
from exuvia.kv.chain import resolved
from exuvia.kv.change_log import placed
from exuvia.kv.lmdb.environment import SEQUENCE_KEY, Environment
from exuvia.kv.lmdb.native import Cursor, Reading, Writing
from exuvia.kv.packet import (
    LONGEST_KEY,
    STAMP_BYTES,
    Bulk,
    BulkResult,
    Packet,
    Requirement,
    Standing,
)
from exuvia.kv.validate import (
    FEW,
    STRIDE,
    Arranged,
    arrange,
    check,
    is_current,
    outcomes,
    require_short,
    settle,
    validate,
)

Moved = Callable[[], None]
SMALL = 256
"""Writes and requirements below which sorting them first is no gain."""
LARGE = 10_000
TOUCHED = 256
"""Keys from which a commit's pages are worth a look beforehand."""
RUN = 128
"""Keys in order, with nothing between them, from which they are worth fences."""
_FENCE_BYTES = 511  # of a key in engine 0.9
_NODE = ((PAGESIZE - 24) // 2 & ~1) - 2  # the largest that lies in a leaf (lmdb.c, engine 1.0)


def read_sequence(transaction: Reading) -> int:
    """The last commit sequence that the transaction sees."""
    return int.from_bytes(transaction.get(SEQUENCE_KEY) or b"", "little")


def _next_sequence(transaction: Writing) -> tuple[int, bytes]:
    sequence = read_sequence(transaction) + 1
    return sequence, sequence.to_bytes(STAMP_BYTES, "little")


def recover(_transaction: Writing) -> None:
    """Nothing: that a write transaction began is what puts a killed writer's commit in order."""


def touch(transaction: Reading, arranged: Arranged) -> None:
    """Read what a large commit will look at and write beside, so that nobody waits for the disk
    with the gate held."""
    with transaction.cursor() as cursor:
        for run in arranged.runs():
            for start in range(0, len(run), STRIDE):
                _found(cursor, run[start : start + STRIDE])


def apply_packet(transaction: Writing, packet: Packet, moved: Moved) -> int:
    """Validate and write a small packet; its sequence. Raises what kv/validate.py raises."""
    after = settle(packet, transaction.get, partial(_read_many, transaction, moved))
    for channel in packet.channels:
        after[k.meta("channel", channel)] = _counted(transaction, channel)
    sequence = int.from_bytes(transaction.get(SEQUENCE_KEY) or b"", "little") + 1
    stamp = sequence.to_bytes(STAMP_BYTES, "little")
    puts = [(key, stamp + payload) for key, payload in after.items() if payload is not None]
    if len(puts) < len(after):
        for key, payload in after.items():
            if payload is None:
                transaction.delete(key)
    puts += [(key, stamp + payload) for key, payload in placed(packet.log, sequence)]
    puts.append((SEQUENCE_KEY, stamp))
    with transaction.cursor() as cursor:
        cursor.putmulti(puts)
    return sequence


def _counted(transaction: Writing, channel: str) -> bytes:
    """What the channel's counter becomes."""
    raw = transaction.get(k.meta("channel", channel))
    return k.number(k.read_number(raw and raw[STAMP_BYTES:]) + 1)


@contextmanager
def uncollected(size: int) -> Iterator[None]:
    """A large commit makes and holds millions of objects: a full collection looks at each of them,
    again and again, and finds none to free."""
    if size < LARGE or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def apply_arranged(transaction: Writing, arranged: Arranged, moved: Moved) -> int:
    """The same for a large one. Nothing is done key by key here that LMDB does for a stride."""
    with uncollected(arranged.size):
        read_many = partial(_read_many, transaction, moved)
        validate(arranged, transaction.get, read_many)
        judged, gone = outcomes(arranged, read_many)
        for channel in arranged.channels:
            judged.append((k.meta("channel", channel), _counted(transaction, channel)))
        sequence, stamp = _next_sequence(transaction)
        judged.append((SEQUENCE_KEY, b""))
        _remove(transaction, arranged.gone, moved)
        _remove(transaction, gone, moved)
        with transaction.cursor() as cursor:
            values = map(stamp.__add__, arranged.payloads)
            fences = _Fences(transaction, cursor)
            fences.stand_around(arranged.puts)
            _put(cursor, zip(arranged.puts, values, strict=True), moved)
            fences.remove()
            _put(cursor, ((key, stamp + payload) for key, payload in judged), moved)
            records = placed(arranged.log, sequence)
            _put(cursor, ((key, stamp + payload) for key, payload in records), moved)
        return sequence


def is_small(packet: Packet) -> bool:
    """Whether it is settled key by key."""
    return len(packet.writes) + len(packet.requirements) + len(packet.log) < SMALL


def apply_either(transaction: Writing, packet: Packet, moved: Moved) -> int:
    """Validate and write a packet of any size, all of it with the gate held."""
    if is_small(packet):
        return apply_packet(transaction, packet, moved)
    return apply_arranged(transaction, arrange(packet), moved)


def _read_many(transaction: Reading, moved: Moved, keys: Sequence[bytes]) -> dict[bytes, bytes]:
    if len(keys) < FEW:
        get = transaction.get
        return {key: raw for key in keys if (raw := get(key)) is not None}
    moved()
    with transaction.cursor() as cursor:
        return _found(cursor, keys)


def _found(cursor: Cursor, keys: Sequence[bytes]) -> dict[bytes, bytes]:
    """What stands at these keys. New rows mostly lie where nothing is, which one look tells."""
    if not cursor.set_range(min(keys)) or (first := cursor.key()) > max(keys):
        return {}
    if first == keys[0]:  # neighbours, as a rewrite's rows: read as a run, in a third of the time
        run = list(islice(cursor.iternext(keys=True, values=False), len(keys)))
        if run == keys:
            cursor.set_range(first)
            values = islice(cursor.iternext(keys=False, values=True), len(keys))
            return dict(zip(run, values, strict=True))
    return dict(cursor.getmulti(keys))


def _remove(transaction: Writing, keys: Sequence[bytes], moved: Moved) -> None:
    for start in range(0, len(keys), STRIDE):
        deque(map(transaction.delete, keys[start : start + STRIDE]), maxlen=0)
        moved()


class _Fences:
    """Between which a run is put, so that it fills its leaves; see the module. They are gone before
    anything is looked at."""

    def __init__(self, transaction: Writing, cursor: Cursor) -> None:
        self._transaction = transaction
        self._cursor = cursor
        self._keys: list[bytes] = []

    def stand_around(self, run: Sequence[bytes]) -> None:
        """Where it, or its end, comes to lie in empty space that does not end with the store.

        `run`: sorted. No fence is one of its keys: that would go with the fence."""
        if run and self._keys and self._keys[0] < run[0] and run[-1] < self._keys[1]:
            return
        self.remove()
        if len(run) < RUN or not self._cursor.set_range(run[-RUN]):
            return
        following = self._cursor.key()
        behind = key_before(following)
        if not run[-1] < behind or len(behind) > _FENCE_BYTES:
            return
        for first in (run[0], run[-RUN]):
            ahead = key_before(first)
            if not 0 < len(ahead) <= _FENCE_BYTES or not self._cursor.set_range(ahead):
                return
            if self._cursor.key() == following and run[bisect_left(run, ahead)] != ahead:
                self._keys = [ahead, behind]
                self._cursor.putmulti([(key, _half_with(key)) for key in self._keys])
                return

    def are_at(self, key: bytes) -> bool:
        """Whether the key is one of the fences."""
        return key in self._keys

    def remove(self) -> None:
        """Twice is harmless."""
        for key in self._keys:
            self._transaction.delete(key)
        self._keys = []


def key_before(key: bytes) -> bytes:
    """Less than it, and more than what is less than it and as long; empty where that is nothing."""
    stem = key.rstrip(b"\0")
    if not stem:
        return b""
    return stem[:-1] + bytes([stem[-1] - 1]) + b"\xff" * (len(key) - len(stem) + 1)


def _half_with(key: bytes) -> bytes:
    """A value that makes half a leaf with it."""
    return bytes(_NODE - 8 - len(key) - len(key) % 2)


def _put(
    cursor: Cursor, pairs: Iterator[tuple[bytes, bytes]], moved: Moved, overwrite: bool = True
) -> tuple[int, int]:
    """How many pairs there were, and how many of them were put."""
    seen = added = 0
    while True:
        some_seen, some_added = cursor.putmulti(islice(pairs, STRIDE), overwrite=overwrite)
        seen, added = seen + some_seen, added + some_added
        moved()
        if some_seen < STRIDE:
            return seen, added


def apply_chain(
    transaction: Writing, packets: Sequence[Packet], moved: Moved
) -> tuple[list[int], ExuviaError | None]:
    """Packets of a chain up to the first that is refused: sequences, and why it was."""
    sequences: list[int] = []
    for packet in packets:
        try:
            sequences.append(apply_either(transaction, resolved(packet, sequences), moved))
        except ExuviaError as refusal:  # it has written nothing; those before it have
            return sequences, refusal
    return sequences, None


def apply_bulk(transaction: Writing, bulk: Bulk, moved: Moved) -> BulkResult:
    """Put sorted keys where nothing stands; see Store.bulk."""
    return apply_bulks(transaction, [bulk], moved, lambda: True)[0]


def apply_bulks(
    transaction: Writing, bulks: Iterable[Bulk], moved: Moved, is_enough: Callable[[], bool]
) -> list[BulkResult]:
    """Bulks one after another, until it is enough or one is refused; the first of all raises.

    Nobody else writes meanwhile, so the same requirements are looked at once."""
    results: list[BulkResult] = []
    sequence, stamp = read_sequence(transaction), b""
    among, others = b"", sequence  # the last commit that was not among them
    read_many = partial(_read_many, transaction, moved)
    kept: Sequence[Requirement] | None = None
    with transaction.cursor() as cursor:
        fences = _Fences(transaction, cursor)
        for bulk in bulks:
            try:
                if bulk.requirements is not kept:
                    fences.remove()
                    for requirement in bulk.requirements:
                        if isinstance(requirement, Standing) and not among and requirement.among:
                            among, others = requirement.among, _others(transaction, requirement)
                        last = others if among else sequence
                        if not (is_current(requirement, last) or _stands(requirement, cursor)):
                            check(requirement, transaction.get, read_many)
                    kept = bulk.requirements
                if bulk.keys and max(map(len, bulk.keys)) > LONGEST_KEY:
                    require_short(max(bulk.keys, key=len))
            except ExuviaError:  # it has written nothing; those before it have
                if not results:
                    raise
                break
            sequence += 1
            stamp = sequence.to_bytes(STAMP_BYTES, "little")
            if isinstance(bulk.payloads, bytes):
                pairs = zip(bulk.keys, repeat(stamp + bulk.payloads))
            else:
                pairs = zip(bulk.keys, map(stamp.__add__, bulk.payloads), strict=True)
            fences.stand_around(bulk.keys)
            seen, added = _put(cursor, pairs, moved, bulk.overwrite)
            placed = seen if bulk.overwrite else added
            report = bulk.report and placed < seen
            present = _present(transaction, bulk.keys, stamp) if report else []
            if bulk.puts:
                if any(fences.are_at(key) for key, _ in bulk.puts):
                    fences.remove()
                cursor.putmulti([(key, stamp + put) for key, put in bulk.puts])
            results.append(BulkResult(sequence, placed, present))
            if is_enough():
                break
        fences.remove()
        if among and stamp:
            cursor.putmulti([(among, stamp + k.number(others))])
        if stamp:
            cursor.putmulti([(SEQUENCE_KEY, stamp)])
    return results


def _others(transaction: Writing, requirement: Standing) -> int:
    """The last commit that does not name the same `among`; the last one that does left its stamp
    there."""
    last, kept = read_sequence(transaction), transaction.get(requirement.among)
    if kept is None or int.from_bytes(kept[:STAMP_BYTES], "little") != last:
        return last
    return k.read_number(kept[STAMP_BYTES:])


def _stands(requirement: Requirement, cursor: Cursor) -> bool:
    """Whether rows in key order are what they were, as far as one pass over them tells."""
    if not isinstance(requirement, Standing):
        return False
    keys, stamps = requirement.keys, []
    if not keys or not cursor.set_range(keys[0]):
        return False
    for (key, raw), wanted in zip(cursor.iternext(), keys, strict=False):
        if key != wanted:
            return False
        stamps.append(raw[:STAMP_BYTES])
    return b"".join(stamps) == requirement.stamps


def _present(transaction: Writing, keys: Sequence[bytes], stamp: bytes) -> list[tuple[int, bytes]]:
    """What is not ours bears another stamp, or stands twice in the list."""
    found = []
    before = None
    for position, key in enumerate(keys):
        raw = transaction.get(key) or b""
        if raw[:STAMP_BYTES] != stamp or key == before:
            found.append((position, raw[STAMP_BYTES:]))
        before = key
    return found


# -- committer -------------------------------------------------------------------------------------

Work = Callable[[Writing], Any]
MOST_IN_ONE = 256
MOST_KEYS = 50_000
UNKNOWN = "the commit was interrupted; nobody knows whether it was applied; read and see"


class _Ticket:
    """One caller's work and, later, its outcome.

    The gate is a bare lock: released when there is something to do. Who steps aside has none, and
    is called."""

    __slots__ = ("alone", "call", "error", "gate", "leads", "result", "settled", "size", "work")

    def __init__(self, work: Work, alone: bool, size: int = 1) -> None:
        self.work = work
        self.alone = alone
        self.size = size
        self.settled = False
        self.result: Any = None
        self.error: BaseException | None = None
        self.leads = False
        self.gate: threading.Lock | None = None
        self.call: Callable[[], None] | None = None

    def tell(self) -> None:
        """It has its outcome."""
        if self.gate is not None:
            self.gate.release()
        elif self.call is not None:
            self.call()

    def outcome(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.result


class GroupCommitter:
    """`run(work)` calls work(transaction) and returns what it returned, once it is durable."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._mutex = threading.Lock()
        self._idle = threading.Condition(self._mutex)
        self._busy = False
        self._queue: deque[_Ticket] = deque()
        self._under_way: list[_Ticket] = []  # in LMDB's transaction; only its leader looks
        self._committing = False  # LMDB has been asked to commit it
        self._closed = ""
        self._to_lead: SimpleQueue[_Ticket | None] = SimpleQueue()
        self._leader: threading.Thread | None = None

    @property
    def waiting(self) -> int:
        """Commits that wait for the one under way."""
        return len(self._queue)

    def run(self, work: Work, alone: bool = False, size: int = 1) -> Any:
        """`size`: how many keys it writes. Work may be run more than once, and stands once.

        Work that raises an ExuviaError must have written nothing, unless it is `alone`: in a
        transaction of its own."""
        ticket = _Ticket(work, alone, size)
        here = waiting()
        if here is not None:
            here.until(partial(self._begin, ticket))
            return ticket.outcome()
        with self._mutex:
            if self._busy:
                ticket.gate = threading.Lock()
                ticket.gate.acquire()
                self._queue.append(ticket)
            else:
                self._busy = True
        if ticket.gate is not None:
            self._follow(ticket, ticket.gate)
            if not ticket.leads:
                return ticket.outcome()
        self._lead(ticket)
        return ticket.outcome()

    def _begin(self, ticket: _Ticket, call: Callable[[], None]) -> None:
        """Have it done; `call` when it has its outcome. Raises Unavailable."""
        ticket.call = call
        with self._mutex:
            if self._closed:
                raise Unavailable(self._closed)
            if self._busy:
                self._queue.append(ticket)
                return
            self._busy = True
        self._have_led(ticket)

    def _have_led(self, ticket: _Ticket) -> None:
        if self._leader is None:
            self._leader = threading.Thread(target=self._serve, name="commits", daemon=True)
            self._leader.start()
        self._to_lead.put(ticket)

    def _serve(self) -> None:
        """Lead for those who have no thread."""
        while (ticket := self._to_lead.get()) is not None:
            try:
                self._lead(ticket)
            except BaseException as error:  # it is for who waits
                ticket.error = ticket.error or error
            ticket.tell()

    def _lead(self, ticket: _Ticket) -> None:
        """Do it, and whatever queues up meanwhile."""
        batch = self._under_way = [ticket]
        self._committing = False
        try:
            if self._closed:
                raise Unavailable(self._closed)
            self._together(batch, joins=not ticket.alone)
        except Exception as error:
            if len(batch) == 1 or self._is_final(error):
                self._fail(error)
            else:
                self._singly(batch)
        except BaseException:
            self._give_up(batch)
            raise
        finally:
            self._hand_over(batch)

    def _follow(self, ticket: _Ticket, gate: threading.Lock) -> None:
        try:
            gate.acquire()
        except BaseException:  # an interrupt must not leave a lead that nobody takes
            with self._mutex:
                if ticket in self._queue:
                    self._queue.remove(ticket)
            if ticket.leads:
                self._hand_over([ticket])
            raise

    def _together(self, batch: list[_Ticket], joins: bool) -> None:
        """One transaction for these tickets and, if it `joins`, all that queued up."""
        self._under_way, self._committing = batch, False
        with self._environment.write() as transaction:
            done = 0
            while done < len(batch):
                self._do(batch[done], transaction)
                done += 1
                if done == len(batch) and joins:
                    self._join(batch)
            self._committing = True
        for ticket in batch:
            ticket.settled = True

    def _join(self, batch: list[_Ticket]) -> None:
        """Take what has queued up, in order, up to the first that wants to be alone."""
        if not self._queue:
            return
        room = MOST_KEYS - sum(ticket.size for ticket in batch[1:])
        with self._mutex:
            while self._queue and len(batch) < MOST_IN_ONE:
                room -= self._queue[0].size
                if self._queue[0].alone or room < 0:
                    return
                batch.append(self._queue[0])
                self._queue.popleft()

    def _singly(self, batch: list[_Ticket]) -> None:
        for ticket in batch:
            try:
                self._together([ticket], joins=False)
            except Exception as error:
                self._fail(error)

    def _is_final(self, error: Exception) -> bool:
        """Whether nothing must be tried again."""
        if isinstance(error, ExuviaError):
            return isinstance(error, StorageFailed | OutcomeUnknown)
        return self._committing

    def _fail(self, error: Exception) -> None:
        """The transaction under way has failed: nothing of it stands, or nobody knows."""
        for ticket in self._under_way:
            ticket.settled = True
            if isinstance(error, StorageFailed | OutcomeUnknown):
                ticket.error = type(error)(str(error))
            elif self._committing and not isinstance(error, ExuviaError):
                ticket.error = OutcomeUnknown(UNKNOWN)
                ticket.error.__cause__ = error
            else:
                ticket.error = error

    def _give_up(self, batch: list[_Ticket]) -> None:
        """The leader ends: what has no outcome yet goes back to the head of the queue."""
        if self._committing:
            for ticket in self._under_way:
                ticket.settled = True
                ticket.error = OutcomeUnknown(UNKNOWN)
        again = [ticket for ticket in batch[1:] if not ticket.settled]
        batch[1:] = [ticket for ticket in batch[1:] if ticket.settled]
        with self._mutex:
            self._queue.extendleft(reversed(again))

    def _do(self, ticket: _Ticket, transaction: Writing) -> None:
        ticket.error = None
        try:
            ticket.result = ticket.work(transaction)
        except ExuviaError as error:  # it is this caller's, not its neighbours'
            if ticket.alone:
                raise
            ticket.error = error

    def _hand_over(self, batch: list[_Ticket]) -> None:
        """Wake everybody of the batch, and the next leader."""
        with self._mutex:
            following = self._queue.popleft() if self._queue else None
            if following is not None:
                following.leads = True
            else:
                self._busy = False
                self._idle.notify_all()
        if following is not None and following.gate is not None:
            following.gate.release()
        elif following is not None:
            self._have_led(following)
        for ticket in batch[1:]:
            ticket.tell()

    def close(self, why: str) -> None:
        """Wait for the commit under way; later ones raise Unavailable."""
        with self._mutex:
            self._closed = why
            self._idle.wait_for(lambda: not self._busy)
        self._to_lead.put(None)
