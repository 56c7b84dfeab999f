"""A packet as one call of commit_packet (server.sql), and its outcome after a lost connection.

A connection that commits has a row of its own, its slot, and numbers its commits there. To learn
the outcome of a commit, a process closes its slot on another connection. Closing waits for a
running commit and prevents later ones in that slot, so the number in the slot is final. Closing is
a commit itself, so its answer is as durable as the commits that it has seen.

    requirement or write                          list
    Equal, AtMost                                 equal, most; gate shared
    Unchanged, Standing; key not written          same; row locked FOR SHARE, or held if absent
    ...; key written                              new if absent, else same and old; row locked alone
    plain write of a key not required             any; once for the header of lock marks
    AllAbsent, of keys a bulk puts                same; rows it requires locked alone
    DELETE, REMOVE                                gone
    CLAIM, RELEASE of a key written once          claim, release
    other judged writes                           judged
    records of a change log                       log
    write of a fence (kv/keys.py)                 gate alone, too

If the server has no reliable advisory locks, the rows of fences are locked instead.
"""

import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from zlib import crc32

import numpy as np
from psycopg.pq.abc import PGresult

from exuvia.base.errors import (
    Broken,
    Conflict,
    Deposed,
    Duplicate,
    ExuviaError,
    OutcomeUnknown,
    RowLocked,
    SchemaChanged,
    Unavailable,
)
from exuvia.kv import keys as k
from exuvia.kv.packet import (
    STAMP_BYTES,
    AllAbsent,
    AtMost,
    Bulk,
    BulkResult,
    Equal,
    Packet,
    Requirement,
    Standing,
    Unchanged,
    Unlocked,
    Write,
)
from exuvia.kv.postgres.advisory import lock_number, salt_of
from exuvia.kv.postgres.connection import (
    BOOL,
    BOOLS,
    BYTEA,
    BYTEAS,
    FALSE,
    INT4S,
    INT8,
    INT8S,
    TEXTS,
    TRUE,
    UUID,
    Call,
    Lost,
    PgConnection,
    PgPool,
    Query,
    ServerRefusal,
    bools,
    byteas,
    int4s,
    int8,
    int8s,
    read_int8,
    texts,
)
from exuvia.kv.postgres.server import Server
from exuvia.kv.postgres.snapshot import SnapshotView
from exuvia.kv.validate import arrange, require_short

Resolve = Callable[[Packet, Sequence[int]], Packet]
GATES = 1024
"""Maximum number; fences with the same number wait for each other's commits."""
_GATE = 0x65787576 << 32
LARGE = 20_000
"""Keys of a call; larger packets need several calls."""
SETTLE_S = 30.0
SETTLE_PAUSE_S = 0.1
UNKNOWN = "its outcome is unknown; read the data to see whether it was applied"

log = logging.getLogger(__name__)
_never = threading.Event()

_FIELDS: tuple[tuple[str, int], ...] = (
    ("slot_id", UUID),
    ("slot_n", INT8),
    ("base", INT8),
    ("gates", INT8S),
    ("gates_alone", BOOLS),
    ("equal_keys", BYTEAS),
    ("equal_values", BYTEAS),
    ("most_keys", BYTEAS),
    ("most_values", BYTEAS),
    ("lock_keys", BYTEAS),
    ("lock_alone", BOOLS),
    ("hold_keys", BYTEAS),
    ("same_keys", BYTEAS),
    ("same_stamps", BYTEAS),
    ("mark_headers", BYTEAS),
    ("mark_keys", BYTEAS),
    ("mark_of", BYTEAS),
    ("mark_since", INT4S),
    ("views", TEXTS),
    ("horizons", INT8S),
    ("floor_key", BYTEA),
    ("new_keys", BYTEAS),
    ("new_values", BYTEAS),
    ("old_keys", BYTEAS),
    ("old_values", BYTEAS),
    ("claim_keys", BYTEAS),
    ("claim_values", BYTEAS),
    ("gone_keys", BYTEAS),
    ("release_keys", BYTEAS),
    ("release_values", BYTEAS),
    ("any_keys", BYTEAS),
    ("any_values", BYTEAS),
    ("once_keys", BYTEAS),
    ("judged_keys", BYTEAS),
    ("judged_kinds", INT4S),
    ("judged_values", BYTEAS),
    ("log_heads", BYTEAS),
    ("log_values", BYTEAS),
    ("log_first", INT8),
    ("channels", BYTEAS),
    ("free_locks", INT8S),
)
_BULK_FIELDS: tuple[tuple[str, int], ...] = (
    *_FIELDS[:11],
    ("same_keys", BYTEAS),
    ("same_stamps", BYTEAS),
    ("keys", BYTEAS),
    ("payloads", BYTEAS),
    ("payload", BYTEA),
    ("overwrite", BOOL),
    ("put_keys", BYTEAS),
    ("put_values", BYTEAS),
)


def _statement(name: str, function: str, fields: Sequence[tuple[str, int]], of: str) -> Query:
    places = ", ".join(f"${n + 1}" for n in range(len(fields)))
    text = f"SELECT {of} FROM {function}({places}) answer"
    return Query(name.encode(), text.encode(), tuple(kind for _, kind in fields))


_COMMIT = _statement("commit", "commit_packet", _FIELDS, "answer")
_BULK = _statement("bulk", "bulk", _BULK_FIELDS, "answer.stamp_, answer.placed")
_NEW_SLOT = Query(b"new_slot", b"INSERT INTO slot (id) VALUES ($1) RETURNING 1", (UUID,))
_CLOSE_SLOT = Query(b"close_slot", b"SELECT last, stamp_ FROM close_slot($1)", (UUID,))
_UNSYNCED = Query(b"unsynced", b"SELECT set_config('synchronous_commit', 'off', true)")
_STANDING = Query(
    b"standing",
    b"SELECT u.n, kv.v FROM unnest($1::bytea[]) WITH ORDINALITY u(k, n) JOIN kv USING (k) "
    b"WHERE substr(kv.v, 1, 8) <> le($2 + pg_current_xact_id()::text::bigint) ORDER BY u.n",
    (BYTEAS, INT8),
)
_SYNC = Query(b"sync", b"SELECT advance($1, $2, 0)::text", (UUID, INT8))
_SAVEPOINT = Query(b"savepoint", b"SAVEPOINT chain")
_BACK = Query(b"back_to", b"ROLLBACK TO SAVEPOINT chain")
_BEGIN = Query(b"begin", b"BEGIN")
_END = Query(b"end", b"COMMIT")


@dataclass(slots=True)
class CommitSlot:
    """The slot of one connection, and the number of its last commit."""

    id: bytes
    n: int = 0


def gate_of(key: bytes) -> int:
    """The number of the advisory lock of a fence."""
    return _GATE + crc32(key) % GATES


@dataclass(slots=True)
class _Required:
    equal: list[Equal] = field(default_factory=list)
    most: list[AtMost] = field(default_factory=list)
    expected: dict[bytes, bytes] = field(default_factory=dict)
    anomalies: dict[bytes, str] = field(default_factory=dict)
    unlocked: list[Unlocked] = field(default_factory=list)

    def expect(self, key: bytes, stamp: bytes, anomaly: str) -> None:
        """Raises Conflict if the key is also expected to have another stamp."""
        if self.expected.setdefault(key, stamp) != stamp:
            raise Conflict(anomaly, key)
        self.anomalies[key] = anomaly


def _by_kind(requirements: Iterable[Requirement]) -> _Required:
    required = _Required()
    for requirement in requirements:
        if isinstance(requirement, Unchanged):
            stamp = requirement.stamp.to_bytes(STAMP_BYTES, "little") if requirement.stamp else b""
            required.expect(requirement.key, stamp, requirement.anomaly)
        elif isinstance(requirement, Standing):
            stamps = np.frombuffer(requirement.stamps, f"V{STAMP_BYTES}").tolist()
            for key, stamp in zip(requirement.keys, stamps, strict=True):
                required.expect(key, stamp, requirement.anomaly)
        elif isinstance(requirement, AllAbsent):
            for key in requirement.keys:
                required.expect(key, b"", requirement.anomaly)
        elif isinstance(requirement, Equal):
            required.equal.append(requirement)
        elif isinstance(requirement, AtMost):
            required.most.append(requirement)
        else:
            required.unlocked.append(requirement)
    return required


class PacketCommitter:
    """Commits packets. Thread-safe. `base`: see server.sql. `gated`: advisory locks can be used."""

    def __init__(self, server: Server, pool: PgPool, base: int, gated: bool) -> None:
        self._server = server
        self._pool = pool
        self._base = base
        self._gated = gated
        self._salt = salt_of(server.settings.schema)
        self._slots: weakref.WeakKeyDictionary[PgConnection, CommitSlot] = (
            weakref.WeakKeyDictionary()
        )

    # -- arguments -------------------------------------------------------------------------------

    def _locks(
        self, required: _Required, written: Iterable[bytes], *, alone: bool = False
    ) -> dict[str, bytes]:
        """Gates, row locks, placeholders, and checks after them.

        `alone`: required rows are locked exclusively, as written ones are."""
        arguments: dict[str, bytes] = {}
        gates: dict[int, bool] = {}
        lock: dict[bytes, bool] = {}
        hold: list[bytes] = []
        for fence in chain([e.key for e in required.equal], [m.key for m in required.most]):
            if self._gated and k.is_fence(fence):
                gates[gate_of(fence)] = False
            else:
                lock[fence] = False
        written = set(written)
        for key in filter(k.is_fence, written):
            if self._gated:
                gates[gate_of(key)] = True
            else:
                lock[key] = True
        for key, stamp in required.expected.items():
            if key in written:
                if stamp:
                    lock[key] = True
            elif self._gated and k.is_fence(key):
                gates.setdefault(gate_of(key), False)
            elif stamp:
                lock.setdefault(key, alone)
            else:
                hold.append(key)
        if gates:
            order = sorted(gates)
            arguments["gates"] = int8s(order)
            arguments["gates_alone"] = bools(gates[gate] for gate in order)
        if required.equal:
            arguments["equal_keys"] = byteas([equal.key for equal in required.equal])
            arguments["equal_values"] = byteas([equal.payload for equal in required.equal])
        if required.most:
            arguments["most_keys"] = byteas([most.key for most in required.most])
            arguments["most_values"] = byteas([k.number(most.limit) for most in required.most])
        if lock:
            in_order = sorted(lock)
            arguments["lock_keys"] = byteas(in_order)
            if not all(lock.values()):
                arguments["lock_alone"] = bools(lock[key] for key in in_order)
        if hold:
            arguments["hold_keys"] = byteas(sorted(hold))
        return arguments

    def _marks(self, unlocked: Sequence[Unlocked]) -> dict[str, bytes]:
        """The arguments that check lock marks."""
        marks: list[bytes] = []
        of: list[bytes] = []
        since: list[int] = []
        views: list[str] = []
        horizons: list[int] = []
        for requirement in unlocked:
            for view, modes, keys in requirement.groups:
                if not isinstance(view, SnapshotView):
                    raise Broken("a view of another store")
                if view.base != self._base:
                    raise Conflict("lock marks removed", keys[0])
                views.append(view.text)
                horizons.append(view.horizon)
                for mode in modes:
                    marks += [k.lock_mark(mode, key) for key in keys]
                    of += keys
                    since += [len(views)] * len(keys)
        if not marks:
            return {}
        return {
            "mark_headers": byteas([table.header for table in unlocked]),
            "mark_keys": byteas(marks),
            "mark_of": byteas(of),
            "mark_since": int4s(since),
            "views": texts(views),
            "horizons": int8s(horizons),
            "floor_key": k.LOCK_FLOOR,
        }

    def _calls(self, packet: Packet) -> tuple[list[dict[str, bytes]], dict[bytes, str]]:
        """Arguments of the calls of a packet, and the anomalies by key. Raises Refused 1071."""
        arranged = arrange(packet)
        required = _by_kind(packet.requirements)
        expected, claimed = required.expected, arranged.claimed
        new: list[tuple[bytes, bytes]] = []
        old: list[tuple[bytes, bytes]] = []
        claims: list[tuple[bytes, bytes]] = []
        rest: list[tuple[bytes, bytes]] = []
        once: list[bytes] = []
        for pair in zip(arranged.puts, arranged.payloads, strict=True):
            key = pair[0]
            stamp = expected.get(key)
            if stamp == b"":
                new.append(pair)
            elif key in claimed:
                claims.append(pair)
            elif stamp is not None:
                old.append(pair)
            elif k.is_lock_header(key):
                once.append(key)
            else:
                rest.append(pair)
        judged_keys = [key for key, _ in arranged.judged]
        released = [(key, arranged.released[key]) for key in arranged.releases]
        inserted = {key for key, _ in new}
        first = self._locks(
            required, [*arranged.puts, *arranged.removed, *arranged.releases, *judged_keys]
        )
        same = {key: stamp for key, stamp in expected.items() if key not in inserted}
        if same:
            first["same_keys"] = byteas(list(same))
            first["same_stamps"] = byteas(list(same.values()))
        absent = [
            key
            for key in (*arranged.removed, *arranged.releases, *judged_keys)
            if expected.get(key) == b""
        ]
        if absent:  # required and written, but absent: there is no row to lock
            hold_keys = [key for key, stamp in same.items() if not stamp and not k.is_fence(key)]
            first["hold_keys"] = byteas(sorted({*hold_keys, *absent}))
        calls = _Calls(first, arranged.size)
        calls.pairs("new", new)
        calls.pairs("old", old)
        calls.pairs("claim", claims)
        for part in _whole_keys([write for _, writes in arranged.judged for write in writes]):
            calls.add(
                judged_keys=byteas([write.key for write in part]),
                judged_kinds=int4s([write.kind for write in part]),
                judged_values=byteas([write.payload for write in part]),
            )
        if required.unlocked:
            calls.add(**self._marks(required.unlocked))
        for at in range(0, len(arranged.removed), LARGE):
            calls.add(gone_keys=byteas(arranged.removed[at : at + LARGE]))
        calls.pairs("release", released)
        calls.pairs("any", rest)
        for at in range(0, len(packet.log), LARGE):
            records = packet.log[at : at + LARGE]
            calls.add(
                log_heads=byteas([prefix for prefix, _ in records]),
                log_values=byteas([payload for _, payload in records]),
                log_first=int8(at),
            )
        if once:
            calls.add(once_keys=byteas(once))
        if packet.channels:
            names = sorted({k.meta("channel", channel) for channel in packet.channels})
            calls.add(channels=byteas(names))
        if packet.free:
            first["free_locks"] = int8s([lock_number(self._salt, key) for key in packet.free])
        return calls.all, required.anomalies

    def _arguments(
        self,
        slot: CommitSlot | None,
        fields: Sequence[tuple[str, int]],
        arguments: dict[str, bytes],
    ) -> list[bytes | None]:
        values = dict(arguments)
        values["base"] = int8(self._base)
        if slot is not None:
            values["slot_id"], values["slot_n"] = slot.id, int8(slot.n)
        return [values.get(name) for name, _ in fields]

    # -- commits ---------------------------------------------------------------------------------

    def commit(self, packet: Packet) -> int:
        """Commit the packet. Returns its stamp. See Store.commit."""
        calls, anomalies = self._calls(packet)

        def of(slot: CommitSlot) -> list[Call]:
            return [
                (_COMMIT, self._arguments(None if n else slot, _FIELDS, arguments))
                for n, arguments in enumerate(calls)
            ]

        try:
            return read_int8(self._once(of, anomalies)[-1].get_value(0, 0))
        except CutOff as error:
            return error.stamp
        except RowLocked as held:
            numbers = (int8(lock_number(self._salt, key)) for key in packet.free)
            which = zip(packet.free, numbers, strict=True)
            raise RowLocked(next(key for key, number in which if number == held.key)) from None

    def _once(
        self, of: Callable[[CommitSlot], list[Call]], anomalies: dict[bytes, str]
    ) -> list[PGresult]:
        """Run and commit the calls; returns their answers.

        Repeated once if the connection was lost and the calls had no effect."""
        for attempt in range(2):
            connection, slot = self._take()
            try:
                slot.n += 1
                return connection.run(of(slot), self._server.settings.commit_s)
            except Lost as error:
                self._pool.suspect()
                stamp = self._settled(slot, error)
                if stamp:
                    raise CutOff(stamp) from error
                if attempt:
                    raise Unavailable(f"{error}; nothing was written") from error
            except ServerRefusal as error:
                raise refusal(error, anomalies) from error
            finally:
                self._give(connection)
        raise AssertionError

    def _take(self) -> tuple[PgConnection, CommitSlot]:
        for attempt in range(3):
            connection = self._pool.take()
            slot = self._slots.get(connection)
            if slot is not None:
                return connection, slot
            slot = CommitSlot(os.urandom(16))
            try:
                connection.run([(_NEW_SLOT, [slot.id])], self._server.settings.answer_s)
            except BaseException as error:
                self._give(connection)
                if isinstance(error, Lost) and attempt < 2:
                    continue
                raise
            self._slots[connection] = slot
            return connection, slot
        raise AssertionError

    def _give(self, connection: PgConnection) -> None:
        if connection.is_lost:
            self._slots.pop(connection, None)
        self._pool.give(connection)

    def _settled(self, slot: CommitSlot, error: Lost) -> int:
        """The stamp of the slot's last commit; 0 if it was not made and cannot be made any more."""
        deadline = time.monotonic() + SETTLE_S
        while True:
            try:
                connection = self._server.connect("settling")
                try:
                    (result,) = connection.run([(_CLOSE_SLOT, [slot.id])], SETTLE_S)
                finally:
                    connection.close()
                break
            except ExuviaError as again:
                if time.monotonic() > deadline:
                    log.warning("an outcome stays unknown", extra={"reason": str(again)})
                    raise OutcomeUnknown(f"{error}: {UNKNOWN}") from error
                _never.wait(SETTLE_PAUSE_S)
        if result.ntuples and read_int8(result.get_value(0, 0)) == slot.n:
            log.info("a commit that was cut off was made")
            return read_int8(result.get_value(0, 1))
        return 0

    def chained(self, packets: Sequence[Packet], resolve: Resolve) -> list[int]:
        """See Store.commit_chain. All packets are one transaction of the server, with one stamp."""
        stamps: list[int] = []
        refused: ExuviaError | None = None
        within_s = self._server.settings.commit_s
        connection, slot = self._take()
        try:
            slot.n += 1
            try:
                for packet in packets:
                    calls, anomalies = self._calls(resolve(packet, stamps))
                    sent: list[Call] = [] if stamps else [(_BEGIN, ())]
                    sent.append((_SAVEPOINT, ()))
                    for n, arguments in enumerate(calls):
                        own = None if n or stamps else slot
                        sent.append((_COMMIT, self._arguments(own, _FIELDS, arguments)))
                    try:
                        results = connection.run(sent, within_s)
                    except ServerRefusal as error:
                        refused = refusal(error, anomalies)
                        break
                    except Lost:
                        raise
                    except ExuviaError as error:
                        refused = error
                        break
                    stamps.append(read_int8(results[-1].get_value(0, 0)))
            except Lost as error:
                raise Unavailable(f"{error}; nothing was written") from error
            except BaseException:
                connection.later([(_BACK_TO_NOTHING, ())])
                raise
            end = [(_BACK, ()), (_END, ())] if refused is not None else [(_END, ())]
            try:
                connection.run(end if stamps else [(_BACK_TO_NOTHING, ())], within_s)
            except Lost as error:
                if stamps and not self._settled(slot, error):
                    raise Unavailable(f"{error}; nothing was written") from error
        finally:
            self._give(connection)
        if refused is not None:
            raise ChainRefused(stamps, refused)
        return stamps

    # -- bulk ------------------------------------------------------------------------------------

    def bulk(self, bulk: Bulk, synced: bool = True) -> BulkResult:
        """See Store.bulk. If it is not `synced`, the caller must call `sync` afterwards."""
        keys, payloads, requirements, puts, report, overwrite = bulk
        required = _by_kind(requirements)
        alone = any(isinstance(requirement, AllAbsent) for requirement in requirements)
        arguments = self._locks(required, [key for key, _ in puts], alone=alone)
        if required.expected:
            arguments["same_keys"] = byteas(list(required.expected))
            arguments["same_stamps"] = byteas(list(required.expected.values()))
        if len(keys):
            require_short(max(keys, key=len))
        arguments["keys"] = byteas(keys)
        arguments["overwrite"] = TRUE if overwrite else FALSE
        if isinstance(payloads, bytes):
            arguments["payload"] = payloads
        else:
            arguments["payloads"] = byteas(payloads)
        if puts:
            last = dict(sorted(puts))
            arguments["put_keys"] = byteas(list(last))
            arguments["put_values"] = byteas(list(last.values()))

        def of(slot: CommitSlot) -> list[Call]:
            calls: list[Call] = [(_BULK, self._arguments(slot, _BULK_FIELDS, arguments))]
            if report:
                calls.append((_STANDING, [arguments["keys"], int8(self._base)]))
            return calls if synced else [(_UNSYNCED, ()), *calls]

        try:
            results = self._once(of, required.anomalies)
        except CutOff as error:
            about = "a bulk was cut off: it was made, and what it met is not known"
            raise OutcomeUnknown(about) from error
        answer = results[-2] if report else results[-1]
        stamp, placed = (read_int8(answer.get_value(0, n)) for n in range(2))
        return BulkResult(stamp, placed, _present(keys, payloads, results[-1]) if report else [])

    def sync(self) -> None:
        """Return once all earlier commits are as durable as a synchronous one."""
        with suppress(CutOff):
            self._once(lambda slot: [(_SYNC, [slot.id, int8(slot.n)])], {})


def _present(
    keys: Sequence[bytes], payloads: Sequence[bytes] | bytes, result: PGresult
) -> list[tuple[int, bytes]]:
    """Keys that existed before, and those that are repeated in the list."""
    value = result.get_value
    present = {
        read_int8(value(n, 0)) - 1: (value(n, 1) or b"")[STAMP_BYTES:]
        for n in range(result.ntuples)
    }
    for n in range(1, len(keys)):
        if keys[n] == keys[n - 1] and n not in present:
            present[n] = payloads if isinstance(payloads, bytes) else payloads[_run_start(keys, n)]
    return sorted(present.items())


def _run_start(keys: Sequence[bytes], n: int) -> int:
    while n and keys[n - 1] == keys[n]:
        n -= 1
    return n


_BACK_TO_NOTHING = Query(b"rollback", b"ROLLBACK")


class CutOff(ExuviaError):
    """The connection was lost, but the commit was made."""

    def __init__(self, stamp: int) -> None:
        super().__init__("a commit was made, its answer lost")
        self.stamp = stamp


class ChainRefused(ExuviaError):
    """A packet of a chain was refused; the earlier ones are committed."""

    def __init__(self, stamps: list[int], refusal: ExuviaError) -> None:
        super().__init__(str(refusal))
        self.stamps = stamps
        self.refusal = refusal


class _Calls:
    """Arguments of commit_packet, in the order in which it uses them.

    All in one call; if they are too many for that, each `add` makes a call of its own."""

    def __init__(self, first: dict[str, bytes], size: int) -> None:
        self.all = [first]
        self._in_one = size <= LARGE

    def add(self, **arguments: bytes) -> None:
        """Add the next arguments."""
        if self._in_one:
            self.all[0].update(arguments)
        elif arguments:
            self.all.append(arguments)

    def pairs(self, name: str, pairs: Sequence[tuple[bytes, bytes]]) -> None:
        """Add keys and payloads."""
        for at in range(0, len(pairs), LARGE):
            part = pairs[at : at + LARGE]
            keys, payloads = [key for key, _ in part], [payload for _, payload in part]
            self.add(**{f"{name}_keys": byteas(keys), f"{name}_values": byteas(payloads)})


def _whole_keys(writes: Sequence[Write]) -> Iterable[Sequence[Write]]:
    """Parts of a call's size; all writes of a key are in one part."""
    at = 0
    while at < len(writes):
        end = min(len(writes), at + LARGE)
        while end < len(writes) and writes[end].key == writes[end - 1].key:
            end += 1
        yield writes[at:end]
        at = end


def refusal(error: ServerRefusal, anomalies: dict[bytes, str]) -> ExuviaError:
    """The error to raise for the server's refusal."""
    key = bytes.fromhex(error.detail) if error.code[:2] == "EX" else b""
    if error.code == "EX001":
        return Deposed(f"epoch at {key!r} is no longer ours")
    if error.code == "EX002":
        return SchemaChanged(key)
    if error.code == "EX003":
        return Conflict(error.hint or anomalies.get(key, "lost update"), key)
    if error.code == "EX004":
        return Duplicate(key, bytes.fromhex(error.hint))
    if error.code == "EX007":
        return RowLocked(key)
    if error.code == "EX006":
        return Unavailable("the commit came too late: its outcome was settled; nothing was written")
    return Conflict("deadlock", key)
