"""Row locks as PostgreSQL's advisory locks: see kv/lock_server.py.

    holder      a connection of its own, from the first key to the last
    take        pg_try_advisory_lock of each key, one round trip
    wait        pg_advisory_lock: the server's queue is fair, its deadlock detector sees all hosts
    release     pg_advisory_unlock

Advisory locks are numbers valid in the whole database, so the store's schema is mixed in. The
server has room for max_locks_per_transaction x max_connections locks of all kinds; commits need
some of it. One process therefore takes at most SHARE of it, and further locks are not taken.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from hashlib import blake2b

from psycopg.pq.abc import PGresult

from exuvia.base.errors import ExuviaError
from exuvia.base.mysql_errors import ErrLockDeadlock
from exuvia.kv.lock_server import HeldKey, LockHolder, Looks
from exuvia.kv.lock_table import hash_of
from exuvia.kv.postgres.connection import (
    INT4,
    INT8,
    INT8S,
    TEXT,
    Call,
    Declined,
    Lost,
    PgConnection,
    PgPool,
    Query,
    ServerRefusal,
    int4,
    int8,
    int8s,
    read_int8,
)

SHARE = 1 / 8
_ALL_BITS = (1 << 64) - 1
GRACE_S = 10.0
"""Time that the server has for its answer in addition to the timeout of the lock."""
NAME = "exuvia lock"
_NO_LOCK, _CANCELLED, _NO_ROOM = "55P03", "57014", "53200"

_NAMED = Query(b"named", b"SELECT set_config('application_name', $1, false)", (TEXT,))
_TRY = Query(
    b"try_locks",
    b"SELECT u.n FROM unnest($1) WITH ORDINALITY u(h, n) WHERE NOT pg_try_advisory_lock(u.h)",
    (INT8S,),
)
_TRY_SHARED = Query(
    b"try_locks_shared",
    b"SELECT u.n FROM unnest($1) WITH ORDINALITY u(h, n) "
    b"WHERE NOT pg_try_advisory_lock_shared(u.h)",
    (INT8S,),
)
_WITHIN = Query(b"lock_timeout", b"SELECT set_config('lock_timeout', $1, true)", (TEXT,))
_LOCK = Query(b"lock", b"SELECT pg_advisory_lock($1)::text", (INT8,))
_LOCK_SHARED = Query(b"lock_shared", b"SELECT pg_advisory_lock_shared($1)::text", (INT8,))
_UNLOCK = Query(b"unlock", b"SELECT count(pg_advisory_unlock(u.h)) FROM unnest($1) u(h)", (INT8S,))
_UNLOCK_SHARED = Query(
    b"unlock_shared",
    b"SELECT count(pg_advisory_unlock_shared(u.h)) FROM unnest($1) u(h)",
    (INT8S,),
)
_UNLOCK_ALL = Query(b"unlock_all", b"SELECT pg_advisory_unlock_all()::text")
_HELD = Query(
    b"held_keys",
    b"SELECT h, alone, pid, application_name FROM ("
    b"SELECT classid::bigint << 32 | objid::bigint AS h, mode = 'ExclusiveLock' AS alone, pid "
    b"FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND granted "
    b"AND database = (SELECT oid FROM pg_database WHERE datname = current_database())) l "
    b"JOIN pg_stat_activity USING (pid) "
    b"WHERE application_name LIKE 'exuvia lock %' AND ($1::bigint[] IS NULL OR h = ANY ($1))",
    (INT8S,),
)
_WAITS = Query(b"waits", b"SELECT count(*) FROM pg_locks WHERE pid = $1 AND NOT granted", (INT4,))
_END = Query(
    b"end_session",
    b"SELECT pg_terminate_backend(pid)::text FROM pg_stat_activity "
    b"WHERE pid = $1 AND application_name LIKE 'exuvia lock %'",
    (INT4,),
)
_ROOM = Query(
    b"room",
    b"SELECT current_setting('max_locks_per_transaction')::bigint "
    b"* (current_setting('max_connections')::bigint "
    b"+ current_setting('max_prepared_transactions')::bigint)",
)

log = logging.getLogger(__name__)


def salt_of(schema: str) -> int:
    """The number that distinguishes the locks of two stores in one database."""
    return int.from_bytes(blake2b(schema.encode(), digest_size=8).digest(), "big")


def lock_number(salt: int, key: bytes) -> int:
    """The server's number for a key's lock."""
    return _signed(hash_of(key) ^ salt)


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number


class AdvisoryLocks:
    """The locks of one process. `pool`: connections for holders; `questions`: for queries."""

    def __init__(self, schema: str, pool: PgPool, questions: PgPool, answer_s: float) -> None:
        self.pool = pool
        self.answer_s = answer_s
        self._questions = questions
        self._salt = salt_of(schema)
        self._mutex = threading.Lock()
        self._room = 0
        self._reserved = 0

    def number(self, key: int) -> int:
        """The server's number for the key."""
        return _signed(key ^ self._salt)

    def reserve(self, count: int) -> bool:
        """Reserve room for `count` more locks. False if there is no room: do not take them."""
        if not self._room:
            (result,) = self._ask(_ROOM)
            self._room = max(64, int(read_int8(result.get_value(0, 0)) * SHARE))
        with self._mutex:
            if self._reserved + count > self._room:
                return False
            self._reserved += count
            return True

    def forgo(self, count: int) -> None:
        """Release reserved room."""
        with self._mutex:
            self._reserved -= count

    def _ask(self, statement: Query, *values: bytes | None) -> list[PGresult]:
        connection = self._questions.take()
        try:
            return connection.run([(statement, values)], self.answer_s)
        finally:
            self._questions.give(connection)

    def holder(self, tag: int, epoch: int) -> LockHolder | None:
        try:
            connection = self.pool.take(0.0)
        except ExuviaError:
            return None
        return AdvisoryHolder(self, connection, f"{NAME} {tag} {epoch}".encode())

    def held(self, keys: Sequence[int] | None) -> list[HeldKey]:
        numbers = None if keys is None else int8s([self.number(key) for key in keys])
        (result,) = self._ask(_HELD, numbers)
        answer = []
        for n in range(result.ntuples):
            key = (read_int8(result.get_value(n, 0)) ^ self._salt) & _ALL_BITS
            exclusive = result.get_value(n, 1) == b"\x01"
            session = read_int8(result.get_value(n, 2))
            tag, epoch = map(int, (result.get_value(n, 3) or b"").split()[2:])
            answer.append(HeldKey(key, exclusive, tag, session, epoch))
        return answer

    def waits(self, session: int) -> bool:
        (result,) = self._ask(_WAITS, int4(session))
        return bool(read_int8(result.get_value(0, 0)))

    def end(self, session: int) -> None:
        self._ask(_END, int4(session))


class AdvisoryHolder:
    """A LockHolder. `name`: its application_name, visible to others."""

    def __init__(self, locks: AdvisoryLocks, connection: PgConnection, name: bytes) -> None:
        self.session = connection.number
        self._locks = locks
        self._connection = connection
        self._full_name = name
        self._name: bytes | None = name  # None once the server has it
        self._modes: dict[int, bool] = {}  # number -> exclusive

    def has(self, key: int, shared: bool = False) -> bool:
        exclusive = self._modes.get(self._locks.number(key))
        return exclusive is not None and (exclusive or shared)

    def take(self, keys: Sequence[int], shared: bool) -> int:
        numbers = [self._locks.number(key) for key in keys]
        requested = [n for n in dict.fromkeys(numbers) if not self._has_number(n, shared)]
        if not requested or not self._locks.reserve(len(requested)):
            return -1
        call: Call = (_TRY_SHARED if shared else _TRY, [int8s(requested)])
        try:
            try:
                result = self._run(call)
            except Lost as error:
                self._renew(str(error))
                result = self._run(call)
        except BaseException as error:
            self._locks.forgo(len(requested))
            if isinstance(error, Declined) and error.code == _NO_ROOM:
                self._drop("the server has no room for more locks")
                return -1
            raise
        blocked = {requested[read_int8(result.get_value(n, 0)) - 1] for n in range(result.ntuples)}
        granted = [number for number in requested if number not in blocked]
        raised = sum(number in self._modes for number in granted)  # shared before: reserved twice
        self._locks.forgo(len(blocked) + raised)
        self._modes.update(dict.fromkeys(granted, not shared))
        return next((n for n, number in enumerate(numbers) if number in blocked), -1)

    def _run(self, call: Call) -> PGresult:
        result = self._connection.run([*self._naming(), call], self._locks.answer_s)[-1]
        self._name = None
        return result

    def _naming(self) -> list[Call]:
        return [] if self._name is None else [(_NAMED, [self._name])]

    def _greet(self) -> None:
        hello: Call = (_NAMED, [self._full_name])
        try:
            self._connection.run([hello], self._locks.answer_s)
        except Lost as error:
            self._renew(str(error))
            self._connection.run([hello], self._locks.answer_s)
        self._name = None

    def _renew(self, why: str) -> None:
        """Replace a lost session. Raises Unavailable."""
        self._drop(why)
        pool = self._locks.pool
        pool.suspect()
        self._connection = pool.instead_of(self._connection)
        self.session, self._name = self._connection.number, self._full_name

    def _has_number(self, number: int, shared: bool) -> bool:
        exclusive = self._modes.get(number)
        return exclusive is not None and (exclusive or shared)

    def _drop(self, why: str) -> None:
        """All locks are lost: the commit decides."""
        log.warning("row locks were lost", extra={"count": len(self._modes), "reason": why})
        self._locks.forgo(len(self._modes))
        self._modes.clear()
        if not self._connection.is_lost:
            self._connection.later([(_UNLOCK_ALL, ())])

    def wait(self, key: int, shared: bool, timeout_s: float, looks: Looks) -> bool:
        number = self._locks.number(key)
        if not self._locks.reserve(1):
            return False
        within = b"%d" % max(1, int(timeout_s * 1000))
        lock = _LOCK_SHARED if shared else _LOCK
        calls: list[Call] = [(_WITHIN, [within]), (lock, [int8(number)])]
        if not self._modes:  # a session from the pool may have ended
            self._greet()
        granted, ended = False, _Ended(self._connection, looks.look)
        try:
            self._connection.send(calls)
            self._connection.answers(timeout_s + GRACE_S, looks._replace(look=ended))
            granted = True
        except ServerRefusal:  # a cycle
            raise ErrLockDeadlock() from None
        except Declined as error:
            if error.code not in (_NO_LOCK, _CANCELLED, _NO_ROOM):
                raise
        finally:
            if not granted or number in self._modes:
                self._locks.forgo(1)
            if granted:
                self._modes[number] = self._modes.get(number, False) or not shared
        if ended.why is not None:
            raise ended.why
        return granted

    def release(self, keys: Sequence[int]) -> None:
        modes: dict[bool, list[int]] = {True: [], False: []}
        for number in map(self._locks.number, keys):
            exclusive = self._modes.pop(number, None)
            if exclusive is not None:
                modes[exclusive].append(number)
        self._locks.forgo(len(modes[True]) + len(modes[False]))
        queries = ((True, _UNLOCK), (False, _UNLOCK_SHARED))
        calls: list[Call] = [(query, [int8s(modes[e])]) for e, query in queries if modes[e]]
        if calls:
            self._unlock(calls)

    def release_all(self) -> None:
        self._locks.forgo(len(self._modes))
        if self._modes:
            self._modes.clear()
            self._unlock([(_UNLOCK_ALL, ())])
        self._locks.pool.give(self._connection)

    def _unlock(self, calls: Sequence[Call]) -> None:
        """Synchronous: when others see the end of a transaction, its locks must be free."""
        if not self._connection.is_lost:
            with suppress(ExuviaError):  # the locks ended with the connection
                self._connection.run(calls, self._locks.answer_s)


class _Ended:
    """Calls `look` at each wake-up; its error cancels the wait."""

    def __init__(self, connection: PgConnection, look: Callable[[], None]) -> None:
        self._connection = connection
        self._look = look
        self.why: Exception | None = None

    def __call__(self) -> None:
        if self.why is not None:
            return
        try:
            self._look()
        except Exception as error:
            self.why = error
            self._connection.cancel()
