"""Many sessions' commits, one fsync; one session's commit, no hop to another thread.

The first caller that finds no commit running becomes the leader. It passes the gate, then applies
all packets that have queued up meanwhile in *one* LMDB transaction, one after another. Each packet
is validated against the state left by the earlier ones, and has its own sequence. A refused packet
has written nothing. After the commit the leader wakes every follower with its result, and passes
the lead to the first later caller. No caller leads twice in a row, so a caller waits for at most
two transactions. Callers that step aside (base/aside.py) have no thread to lead with: a thread of
the committer leads for them.

Work that raises an ExuviaError has written nothing. Other errors, such as MemoryError, may occur
between its writes. Then, and if the transaction itself fails (map full, disk full), the whole
transaction is aborted and its packets are retried one by one. Each is applied completely or not at
all, and only those that fail again are refused. An interrupt (KeyboardInterrupt, SystemExit) ends
the leader alone: its followers return to the queue. If LMDB's commit is interrupted, its outcome is
unknown, except after LMDB's own errors. After a disk error nothing is retried: all callers get the
error.

One group has at most `MOST_IN_ONE` packets and, in addition to the leader's, `MOST_KEYS` keys. A
waiter at the gate therefore waits for one large packet at a time.

One commit:

    before the gate     a large packet: arrange (kv/validate.py), touch: its pages are read
    with the gate held  validate, judge | write in key order, a sign of progress every stride
                        a small packet: settle (kv/validate.py) | write

Before the bar only ExuviaErrors occur: a refused packet has written nothing. Other errors may occur
anywhere; then the whole transaction must be aborted.

A stored value is `[u64 little-endian commit sequence][payload]`.

Full leaves. LMDB fills a leaf completely only if each new key is the last one of the leaf. All
tables share one tree, so keys of other tables follow in the same leaf. Each split then leaves half
a leaf or less, and an index of integers took 2.5 times the necessary pages. A run of keys is
therefore put between two fences, keys of half a leaf, which leave no room for others (decision
121):

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
"""Up to this number of writes and requirements, sorting them first is not worthwhile."""
LARGE = 10_000
TOUCHED = 256
"""From this number of keys, reading a commit's pages in advance is worthwhile."""
RUN = 128
"""From this number of keys in order, without other keys between them, fences are worthwhile."""
_FENCE_BYTES = 511  # limit of a key in engine 0.9
_NODE = ((PAGESIZE - 24) // 2 & ~1) - 2  # the largest node in a leaf (lmdb.c, engine 1.0)


def read_sequence(transaction: Reading) -> int:
    """The last commit sequence that the transaction sees."""
    return int.from_bytes(transaction.get(SEQUENCE_KEY) or b"", "little")


def _next_sequence(transaction: Writing) -> tuple[int, bytes]:
    sequence = read_sequence(transaction) + 1
    return sequence, sequence.to_bytes(STAMP_BYTES, "little")


def recover(_transaction: Writing) -> None:
    """Does nothing: beginning a write transaction already repairs a killed writer's commit."""


def touch(transaction: Reading, arranged: Arranged) -> None:
    """Read the pages that a large commit will read and write, before the gate.

    Other writers then do not wait for the disk."""
    with transaction.cursor() as cursor:
        for run in arranged.runs():
            for start in range(0, len(run), STRIDE):
                _values_at(cursor, run[start : start + STRIDE])


def apply_packet(transaction: Writing, packet: Packet, moved: Moved) -> int:
    """Validate and write a small packet. Returns its sequence. Raises errors of validation."""
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
    """The next value of the channel's counter."""
    raw = transaction.get(k.meta("channel", channel))
    return k.number(k.read_number(raw and raw[STAMP_BYTES:]) + 1)


@contextmanager
def uncollected(size: int) -> Iterator[None]:
    """Disable garbage collection during a large commit.

    It holds millions of objects, which each full collection would scan without freeing any."""
    if size < LARGE or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def apply_arranged(transaction: Writing, arranged: Arranged, moved: Moved) -> int:
    """Validate and write a large packet, with LMDB's calls for whole strides."""
    with uncollected(arranged.size):
        read_many = partial(_read_many, transaction, moved)
        validate(arranged, transaction.get, read_many)
        judged, removed = outcomes(arranged, read_many)
        for channel in arranged.channels:
            judged.append((k.meta("channel", channel), _counted(transaction, channel)))
        sequence, stamp = _next_sequence(transaction)
        judged.append((SEQUENCE_KEY, b""))
        _remove(transaction, arranged.removed, moved)
        _remove(transaction, removed, moved)
        with transaction.cursor() as cursor:
            values = map(stamp.__add__, arranged.payloads)
            fences = _Fences(transaction, cursor)
            fences.place_around(arranged.puts)
            _put(cursor, zip(arranged.puts, values, strict=True), moved)
            fences.remove()
            _put(cursor, ((key, stamp + payload) for key, payload in judged), moved)
            records = placed(arranged.log, sequence)
            _put(cursor, ((key, stamp + payload) for key, payload in records), moved)
        return sequence


def is_small(packet: Packet) -> bool:
    """Whether the packet is settled key by key."""
    return len(packet.writes) + len(packet.requirements) + len(packet.log) < SMALL


def apply_either(transaction: Writing, packet: Packet, moved: Moved) -> int:
    """Validate and write a packet of any size, all with the gate held."""
    if is_small(packet):
        return apply_packet(transaction, packet, moved)
    return apply_arranged(transaction, arrange(packet), moved)


def _read_many(transaction: Reading, moved: Moved, keys: Sequence[bytes]) -> dict[bytes, bytes]:
    if len(keys) < FEW:
        get = transaction.get
        return {key: raw for key in keys if (raw := get(key)) is not None}
    moved()
    with transaction.cursor() as cursor:
        return _values_at(cursor, keys)


def _values_at(cursor: Cursor, keys: Sequence[bytes]) -> dict[bytes, bytes]:
    """The present values of these keys. New rows mostly lie in empty space: one read shows that."""
    if not cursor.set_range(min(keys)) or (first := cursor.key()) > max(keys):
        return {}
    if first == keys[0]:  # neighbours, as in a rewrite: read as a run, in a third of the time
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
    """Fences around a run of keys, which then fills its leaves; see the module's text.

    They are removed before anything is read."""

    def __init__(self, transaction: Writing, cursor: Cursor) -> None:
        self._transaction = transaction
        self._cursor = cursor
        self._keys: list[bytes] = []

    def place_around(self, run: Sequence[bytes]) -> None:
        """Place fences if the run, or its end, lies in empty space before another key.

        `run`: sorted. No fence is one of its keys, which would be removed with the fence."""
        if run and self._keys and self._keys[0] < run[0] and run[-1] < self._keys[1]:
            return
        self.remove()
        if len(run) < RUN or not self._cursor.set_range(run[-RUN]):
            return
        following = self._cursor.key()
        following_fence = key_before(following)
        if not run[-1] < following_fence or len(following_fence) > _FENCE_BYTES:
            return
        for first in (run[0], run[-RUN]):
            ahead = key_before(first)
            if not 0 < len(ahead) <= _FENCE_BYTES or not self._cursor.set_range(ahead):
                return
            if self._cursor.key() == following and run[bisect_left(run, ahead)] != ahead:
                self._keys = [ahead, following_fence]
                self._cursor.putmulti([(key, _half_with(key)) for key in self._keys])
                return

    def are_at(self, key: bytes) -> bool:
        """Whether a fence has this key."""
        return key in self._keys

    def remove(self) -> None:
        """Remove the fences. A second call is harmless."""
        for key in self._keys:
            self._transaction.delete(key)
        self._keys = []


def key_before(key: bytes) -> bytes:
    """A key just before `key`, with no key of the same length between; b"" if there is no such."""
    stem = key.rstrip(b"\0")
    if not stem:
        return b""
    return stem[:-1] + bytes([stem[-1] - 1]) + b"\xff" * (len(key) - len(stem) + 1)


def _half_with(key: bytes) -> bytes:
    """A value that fills half a leaf together with the key."""
    return bytes(_NODE - 8 - len(key) - len(key) % 2)


def _put(
    cursor: Cursor, pairs: Iterator[tuple[bytes, bytes]], moved: Moved, overwrite: bool = True
) -> tuple[int, int]:
    """Returns (number of pairs, number of pairs that were put)."""
    count = added = 0
    while True:
        some_seen, some_added = cursor.putmulti(islice(pairs, STRIDE), overwrite=overwrite)
        count, added = count + some_seen, added + some_added
        moved()
        if some_seen < STRIDE:
            return count, added


def apply_chain(
    transaction: Writing, packets: Sequence[Packet], moved: Moved
) -> tuple[list[int], ExuviaError | None]:
    """Apply packets of a chain up to the first refusal. Returns sequences and the refusal."""
    sequences: list[int] = []
    for packet in packets:
        try:
            sequences.append(apply_either(transaction, resolved(packet, sequences), moved))
        except ExuviaError as refusal:  # it has written nothing; the earlier ones have
            return sequences, refusal
    return sequences, None


def apply_bulk(transaction: Writing, bulk: Bulk, moved: Moved) -> BulkResult:
    """Put sorted keys that are absent; see Store.bulk."""
    return apply_bulks(transaction, [bulk], moved, lambda: True)[0]


def apply_bulks(
    transaction: Writing, bulks: Iterable[Bulk], moved: Moved, is_enough: Callable[[], bool]
) -> list[BulkResult]:
    """Apply bulks until `is_enough` or a refusal; raises only the refusal of the first.

    No other commit comes between them, so equal requirements are checked once."""
    results: list[BulkResult] = []
    sequence, stamp = read_sequence(transaction), b""
    among, others = b"", sequence  # `others`: the last commit with another `among`
    read_many = partial(_read_many, transaction, moved)
    checked: Sequence[Requirement] | None = None
    with transaction.cursor() as cursor:
        fences = _Fences(transaction, cursor)
        for bulk in bulks:
            try:
                if bulk.requirements is not checked:
                    fences.remove()
                    for requirement in bulk.requirements:
                        if isinstance(requirement, Standing) and not among and requirement.among:
                            among, others = requirement.among, _others(transaction, requirement)
                        last = others if among else sequence
                        is_known = is_current(requirement, last)
                        if not (is_known or _is_unchanged(requirement, cursor)):
                            check(requirement, transaction.get, read_many)
                    checked = bulk.requirements
                if bulk.keys and max(map(len, bulk.keys)) > LONGEST_KEY:
                    require_short(max(bulk.keys, key=len))
            except ExuviaError:  # it has written nothing; the earlier ones have
                if not results:
                    raise
                break
            sequence += 1
            stamp = sequence.to_bytes(STAMP_BYTES, "little")
            if isinstance(bulk.payloads, bytes):
                pairs = zip(bulk.keys, repeat(stamp + bulk.payloads))
            else:
                pairs = zip(bulk.keys, map(stamp.__add__, bulk.payloads), strict=True)
            fences.place_around(bulk.keys)
            count, added = _put(cursor, pairs, moved, bulk.overwrite)
            placed = count if bulk.overwrite else added
            report = bulk.report and placed < count
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
    """The last commit with another `among`; the last one with this `among` has recorded it."""
    last, recorded = read_sequence(transaction), transaction.get(requirement.among)
    if recorded is None or int.from_bytes(recorded[:STAMP_BYTES], "little") != last:
        return last
    return k.read_number(recorded[STAMP_BYTES:])


def _is_unchanged(requirement: Requirement, cursor: Cursor) -> bool:
    """Whether one pass over rows in key order proves that they are unchanged."""
    if not isinstance(requirement, Standing):
        return False
    keys, stamps = requirement.keys, []
    if not keys or not cursor.set_range(keys[0]):
        return False
    for (key, raw), expected_key in zip(cursor.iternext(), keys, strict=False):
        if key != expected_key:
            return False
        stamps.append(raw[:STAMP_BYTES])
    return b"".join(stamps) == requirement.stamps


def _present(transaction: Writing, keys: Sequence[bytes], stamp: bytes) -> list[tuple[int, bytes]]:
    """Keys that existed before this bulk: with another stamp, or repeated in the list."""
    present = []
    before = None
    for position, key in enumerate(keys):
        raw = transaction.get(key) or b""
        if raw[:STAMP_BYTES] != stamp or key == before:
            present.append((position, raw[STAMP_BYTES:]))
        before = key
    return present


# -- committer -------------------------------------------------------------------------------------

Work = Callable[[Writing], Any]
MOST_IN_ONE = 256
MOST_KEYS = 50_000
UNKNOWN = "the commit was interrupted; read the data to see whether it was applied"


class _Ticket:
    """A caller's work and its outcome.

    The gate is a lock that is released when the caller has something to do. A caller that stepped
    aside has no gate; its `call` is called."""

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
        """Notify the caller that the outcome is known."""
        if self.gate is not None:
            self.gate.release()
        elif self.call is not None:
            self.call()

    def outcome(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.result


class GroupCommitter:
    """`run(work)` calls work(transaction) and returns its result once it is durable."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._mutex = threading.Lock()
        self._idle = threading.Condition(self._mutex)
        self._busy = False
        self._queue: deque[_Ticket] = deque()
        self._running: list[_Ticket] = []  # in LMDB's transaction; only its leader reads this
        self._committing = False  # LMDB's commit was called
        self._closed = ""
        self._to_lead: SimpleQueue[_Ticket | None] = SimpleQueue()
        self._leader: threading.Thread | None = None

    @property
    def waiting(self) -> int:
        """Number of commits that wait for the running one."""
        return len(self._queue)

    def run(self, work: Work, alone: bool = False, size: int = 1) -> Any:
        """Run `work` in a transaction. `size`: the number of keys it writes.

        Work may be called more than once, but takes effect once. Work that raises an ExuviaError
        must have written nothing, unless it is `alone`: in a transaction of its own."""
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
        """Have the work done; `call` is called after its outcome. Raises Unavailable."""
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
        """Lead for callers without a thread."""
        while (ticket := self._to_lead.get()) is not None:
            try:
                self._lead(ticket)
            except BaseException as error:  # the caller that waits raises it
                ticket.error = ticket.error or error
            ticket.tell()

    def _lead(self, ticket: _Ticket) -> None:
        """Do the ticket's work, and all work that queues up meanwhile."""
        batch = self._running = [ticket]
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
        except BaseException:  # an interrupt must not leave a lead without a leader
            with self._mutex:
                if ticket in self._queue:
                    self._queue.remove(ticket)
            if ticket.leads:
                self._hand_over([ticket])
            raise

    def _together(self, batch: list[_Ticket], joins: bool) -> None:
        """One transaction for these tickets and, if it `joins`, for all that queued up."""
        self._running, self._committing = batch, False
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
        """Take the queued tickets in order, up to the first one that must be alone."""
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
        """Whether a retry is forbidden."""
        if isinstance(error, ExuviaError):
            return isinstance(error, StorageFailed | OutcomeUnknown)
        return self._committing

    def _fail(self, error: Exception) -> None:
        """The running transaction has failed: nothing of it is applied, or that is unknown."""
        for ticket in self._running:
            ticket.settled = True
            if isinstance(error, StorageFailed | OutcomeUnknown):
                ticket.error = type(error)(str(error))
            elif self._committing and not isinstance(error, ExuviaError):
                ticket.error = OutcomeUnknown(UNKNOWN)
                ticket.error.__cause__ = error
            else:
                ticket.error = error

    def _give_up(self, batch: list[_Ticket]) -> None:
        """The leader ends: tickets without an outcome return to the head of the queue."""
        if self._committing:
            for ticket in self._running:
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
        except ExuviaError as error:  # an error of this caller, not of the others
            if ticket.alone:
                raise
            ticket.error = error

    def _hand_over(self, batch: list[_Ticket]) -> None:
        """Wake all callers of the batch, and the next leader."""
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
        """Wait for the running commit; later ones raise Unavailable with this reason."""
        with self._mutex:
            self._closed = why
            self._idle.wait_for(lambda: not self._busy)
        self._to_lead.put(None)
