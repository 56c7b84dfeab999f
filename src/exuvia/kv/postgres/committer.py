"""A packet as one call of commit_packet (server.sql), and what became of one that was cut off.

A connection that commits has a row of its own, its slot, and numbers its commits there. Whoever
must know what became of one closes the slot on another connection: that waits for the commit if it
is under way, and no later one is made in that slot, so what stands there is final. It is a commit
itself: what it has seen survives whatever its own answer survives.

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

Where the server has no advisory locks that can be relied on, the rows of fences are locked instead.
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
"""So many at most; keys of fences that share one wait for each other's commits."""
_GATE = 0x65787576 << 32
LARGE = 20_000
"""Keys of a call; what a packet has more goes into calls behind it."""
SETTLE_S = 30.0
SETTLE_PAUSE_S = 0.1
UNKNOWN = "nobody knows whether it was applied; read and see"

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
    """Of one connection."""

    id: bytes
    n: int = 0


def gate_of(key: bytes) -> int:
    """The number of the advisory lock that guards a fence."""
    return _GATE + crc32(key) % GATES


@dataclass(slots=True)
class _Required:
    equal: list[Equal] = field(default_factory=list)
    most: list[AtMost] = field(default_factory=list)
    expected: dict[bytes, bytes] = field(default_factory=dict)
    anomalies: dict[bytes, str] = field(default_factory=dict)
    unlocked: list[Unlocked] = field(default_factory=list)

    def expect(self, key: bytes, stamp: bytes, anomaly: str) -> None:
        """Raises Conflict where the key is expected to be something else too."""
        if self.expected.setdefault(key, stamp) != stamp:
            raise Conflict(anomaly, key)
        self.anomalies[key] = anomaly


def _sorted_out(requirements: Iterable[Requirement]) -> _Required:
    found = _Required()
    for each in requirements:
        if isinstance(each, Unchanged):
            stamp = each.stamp.to_bytes(STAMP_BYTES, "little") if each.stamp else b""
            found.expect(each.key, stamp, each.anomaly)
        elif isinstance(each, Standing):
            stamps = np.frombuffer(each.stamps, f"V{STAMP_BYTES}").tolist()
            for key, stamp in zip(each.keys, stamps, strict=True):
                found.expect(key, stamp, each.anomaly)
        elif isinstance(each, AllAbsent):
            for key in each.keys:
                found.expect(key, b"", each.anomaly)
        elif isinstance(each, Equal):
            found.equal.append(each)
        elif isinstance(each, AtMost):
            found.most.append(each)
        else:
            found.unlocked.append(each)
    return found


class PacketCommitter:
    """Thread-safe. `base`: see server.sql; `gated`: whether advisory locks can be relied on."""

    def __init__(self, server: Server, pool: PgPool, base: int, gated: bool) -> None:
        self._server = server
        self._pool = pool
        self._base = base
        self._gated = gated
        self._salt = salt_of(server.settings.schema)
        self._slots: weakref.WeakKeyDictionary[PgConnection, CommitSlot] = (
            weakref.WeakKeyDictionary()
        )

    # -- what is sent ----------------------------------------------------------------------------

    def _locks(
        self, required: _Required, written: Iterable[bytes], *, alone: bool = False
    ) -> dict[str, bytes]:
        """Gates, row locks, placeholders, and what is checked behind them. `alone`: rows that are
        only required are locked as those that are written."""
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
            arguments["equal_keys"] = byteas([each.key for each in required.equal])
            arguments["equal_values"] = byteas([each.payload for each in required.equal])
        if required.most:
            arguments["most_keys"] = byteas([each.key for each in required.most])
            arguments["most_values"] = byteas([k.number(each.limit) for each in required.most])
        if lock:
            in_order = sorted(lock)
            arguments["lock_keys"] = byteas(in_order)
            if not all(lock.values()):
                arguments["lock_alone"] = bools(lock[key] for key in in_order)
        if hold:
            arguments["hold_keys"] = byteas(sorted(hold))
        return arguments

    def _marks(self, unlocked: Sequence[Unlocked]) -> dict[str, bytes]:
        """What looks for lock marks."""
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
            "mark_headers": byteas([each.header for each in unlocked]),
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
        required = _sorted_out(packet.requirements)
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
            required, [*arranged.puts, *arranged.gone, *arranged.releases, *judged_keys]
        )
        same = {key: stamp for key, stamp in expected.items() if key not in inserted}
        if same:
            first["same_keys"] = byteas(list(same))
            first["same_stamps"] = byteas(list(same.values()))
        absent = [
            key
            for key in (*arranged.gone, *arranged.releases, *judged_keys)
            if expected.get(key) == b""
        ]
        if absent:  # required, and written, but as nothing stands there it is no row to lock
            held = [key for key, stamp in same.items() if not stamp and not k.is_fence(key)]
            first["hold_keys"] = byteas(sorted({*held, *absent}))
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
        for at in range(0, len(arranged.gone), LARGE):
            calls.add(gone_keys=byteas(arranged.gone[at : at + LARGE]))
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
        self, slot: CommitSlot | None, fields: Sequence[tuple[str, int]], given: dict[str, bytes]
    ) -> list[bytes | None]:
        values = dict(given)
        values["base"] = int8(self._base)
        if slot is not None:
            values["slot_id"], values["slot_n"] = slot.id, int8(slot.n)
        return [values.get(name) for name, _ in fields]

    # -- commits ---------------------------------------------------------------------------------

    def commit(self, packet: Packet) -> int:
        """Its stamp. See Store.commit."""
        calls, anomalies = self._calls(packet)

        def of(slot: CommitSlot) -> list[Call]:
            return [
                (_COMMIT, self._arguments(None if n else slot, _FIELDS, given))
                for n, given in enumerate(calls)
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
        """What the calls answer, committed. Done again, once, where the connection turned out to be
        lost and nothing was done by it."""
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
        """The stamp of the slot's last commit; 0 if it was not made, and will not be."""
        deadline = time.monotonic() + SETTLE_S
        while True:
            try:
                connection = self._server.connect("settling")
                try:
                    (found,) = connection.run([(_CLOSE_SLOT, [slot.id])], SETTLE_S)
                finally:
                    connection.close()
                break
            except ExuviaError as again:
                if time.monotonic() > deadline:
                    log.warning("an outcome stays unknown", extra={"reason": str(again)})
                    raise OutcomeUnknown(f"{error}: {UNKNOWN}") from error
                _never.wait(SETTLE_PAUSE_S)
        if found.ntuples and read_int8(found.get_value(0, 0)) == slot.n:
            log.info("a commit that was cut off was made")
            return read_int8(found.get_value(0, 1))
        return 0

    def chained(self, packets: Sequence[Packet], resolve: Resolve) -> list[int]:
        """See Store.commit_chain. They are one transaction of the server's: one stamp for all."""
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
                    for n, given in enumerate(calls):
                        own = None if n or stamps else slot
                        sent.append((_COMMIT, self._arguments(own, _FIELDS, given)))
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
        """See Store.bulk. Where it is not `synced`, `sync` follows."""
        keys, payloads, requirements, puts, report, overwrite = bulk
        required = _sorted_out(requirements)
        alone = any(isinstance(each, AllAbsent) for each in requirements)
        given = self._locks(required, [key for key, _ in puts], alone=alone)
        if required.expected:
            given["same_keys"] = byteas(list(required.expected))
            given["same_stamps"] = byteas(list(required.expected.values()))
        if len(keys):
            require_short(max(keys, key=len))
        given["keys"] = byteas(keys)
        given["overwrite"] = TRUE if overwrite else FALSE
        if isinstance(payloads, bytes):
            given["payload"] = payloads
        else:
            given["payloads"] = byteas(payloads)
        if puts:
            last = dict(sorted(puts))
            given["put_keys"] = byteas(list(last))
            given["put_values"] = byteas(list(last.values()))

        def of(slot: CommitSlot) -> list[Call]:
            calls: list[Call] = [(_BULK, self._arguments(slot, _BULK_FIELDS, given))]
            if report:
                calls.append((_STANDING, [given["keys"], int8(self._base)]))
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
        """Return once all that is committed is as durable as a commit."""
        with suppress(CutOff):
            self._once(lambda slot: [(_SYNC, [slot.id, int8(slot.n)])], {})


def _present(
    keys: Sequence[bytes], payloads: Sequence[bytes] | bytes, found: PGresult
) -> list[tuple[int, bytes]]:
    """What others had put, and what was twice in the list."""
    value = found.get_value
    there = {
        read_int8(value(n, 0)) - 1: (value(n, 1) or b"")[STAMP_BYTES:] for n in range(found.ntuples)
    }
    for n in range(1, len(keys)):
        if keys[n] == keys[n - 1] and n not in there:
            there[n] = payloads if isinstance(payloads, bytes) else payloads[_run_start(keys, n)]
    return sorted(there.items())


def _run_start(keys: Sequence[bytes], n: int) -> int:
    while n and keys[n - 1] == keys[n]:
        n -= 1
    return n


_BACK_TO_NOTHING = Query(b"rollback", b"ROLLBACK")


class CutOff(ExuviaError):
    """The connection was lost, and the commit was made."""

    def __init__(self, stamp: int) -> None:
        super().__init__("a commit was made, its answer lost")
        self.stamp = stamp


class ChainRefused(ExuviaError):
    """A packet of a chain was refused; those before it stand."""

    def __init__(self, stamps: list[int], refusal: ExuviaError) -> None:
        super().__init__(str(refusal))
        self.stamps = stamps
        self.refusal = refusal


class _Calls:
    """Arguments in the order in which commit_packet uses them: of one call, or each of one more
    where there are too many for one."""

    def __init__(self, first: dict[str, bytes], size: int) -> None:
        self.all = [first]
        self._in_one = size <= LARGE

    def add(self, **arguments: bytes) -> None:
        """What comes next."""
        if self._in_one:
            self.all[0].update(arguments)
        elif arguments:
            self.all.append(arguments)

    def pairs(self, name: str, found: Sequence[tuple[bytes, bytes]]) -> None:
        """Keys and payloads."""
        for at in range(0, len(found), LARGE):
            part = found[at : at + LARGE]
            keys, payloads = [key for key, _ in part], [payload for _, payload in part]
            self.add(**{f"{name}_keys": byteas(keys), f"{name}_values": byteas(payloads)})


def _whole_keys(writes: Sequence[Write]) -> Iterable[Sequence[Write]]:
    """Parts of a call's size; all writes of a key in one."""
    at = 0
    while at < len(writes):
        end = min(len(writes), at + LARGE)
        while end < len(writes) and writes[end].key == writes[end - 1].key:
            end += 1
        yield writes[at:end]
        at = end


def refusal(error: ServerRefusal, anomalies: dict[bytes, str]) -> ExuviaError:
    """What the server's refusal is raised as."""
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
