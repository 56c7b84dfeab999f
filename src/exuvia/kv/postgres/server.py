"""Choice of the serving host, its durability settings, and the store's schema.

The serving host is the primary with the highest timeline among the URL's hosts. A host with a lower
timeline than one seen before is an old primary that was restarted, and is refused.
"""

import logging
import secrets
import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from importlib.resources import files
from typing import NamedTuple

from psycopg import OperationalError
from psycopg import pq as libpq
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.errors import Error
from psycopg.pq import ConnStatus, ExecStatus, PollingStatus
from psycopg.pq.abc import PGconn, PGresult

from exuvia.base.errors import Unavailable
from exuvia.kv.postgres.connection import (
    EVENTS_OF,
    INT8,
    TEXTS,
    Call,
    Lost,
    PgConnection,
    Query,
    ServerRefusal,
    error_of,
    int8,
    read_int8,
    texts,
)
from exuvia.kv.postgres.settings import PostgresSettings, parse, without_secrets

LAYOUT = 2
OLDEST_LAYOUT = 2  # the oldest layout that was released
LEAST_VERSION = 140000
REPLACED = 1 << 48
"""Added to the stamps' base when the rows were moved to another server, whose transaction numbers
begin again: more than any server has had."""

log = logging.getLogger(__name__)


class Host(NamedTuple):
    """A host of the URL."""

    name: str
    port: str


class TableUpkeep(NamedTuple):
    """Maintenance of the table of all rows. Units: bytes, rows, s.

    `vacuumed_s`: since the last autovacuum; None before the first one. `held_back`: sessions and
    slots that prevent the removal of dead rows, and for how long (None: unknown)."""

    table_bytes: int
    index_bytes: int
    live: int
    dead: int
    autovacuum: bool
    vacuumed_s: int | None
    held_back: list[tuple[str, int | None]]


class HostState(NamedTuple):
    """The state of a connection's server."""

    is_standby: bool
    timeline: int
    identifier: int


_ASK = (
    "SELECT pg_is_in_recovery(), CASE WHEN pg_is_in_recovery() THEN '0' "
    "ELSE substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) END, "
    "(SELECT system_identifier FROM pg_control_system())"
)
_PROMISES = Query(
    b"promises",
    b"SELECT name, setting FROM pg_settings WHERE name = ANY ($1) ORDER BY name",
    (TEXTS,),
)
PROMISES = ("fsync", "full_page_writes", "synchronous_commit", "synchronous_standby_names")
_TABLE = Query(
    b"table",
    b"""SELECT pg_table_size(relid)::text, pg_indexes_size(relid)::text, n_live_tup::text,
       n_dead_tup::text, current_setting('autovacuum'),
       coalesce(extract(epoch FROM now() - last_autovacuum)::bigint::text, '')
FROM pg_stat_user_tables WHERE relid = 'kv'::regclass""",
)
_HELD_BACK = Query(
    b"held_back",
    b"""SELECT format('session %s (%s, %s)', pid, application_name, state),
       extract(epoch FROM now() - xact_start)::bigint::text
FROM pg_stat_activity WHERE (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL)
 AND xact_start < now() - interval '5 minutes'
UNION ALL SELECT 'replication slot ' || slot_name, '' FROM pg_replication_slots
 WHERE NOT active AND (xmin IS NOT NULL OR catalog_xmin IS NOT NULL)
UNION ALL SELECT 'prepared transaction ' || gid, extract(epoch FROM now() - prepared)::bigint::text
FROM pg_prepared_xacts""",
)
DEAD_SHARE, DEAD_ROWS = 0.2, 10_000
"""Above this, autovacuum with the table's settings would have removed the dead rows long before."""
_LOCK_ALONE = Query(b"probe_alone", b"SELECT pg_advisory_xact_lock($1)::text", (INT8,))
_LOCK_SHARED = Query(b"probe_shared", b"SELECT pg_try_advisory_xact_lock_shared($1)::int", (INT8,))
BEGIN = Query(b"begin", b"BEGIN")
ROLLBACK = Query(b"rollback", b"ROLLBACK")


class Server:
    """Makes connections to the serving host. Thread-safe."""

    def __init__(self, url: str) -> None:
        self.url = without_secrets(url)
        conninfo, self.settings = parse(url)
        try:
            parameters = conninfo_to_dict(conninfo)
        except Error as error:
            raise Unavailable(f"the URL {self.url}: {str(error).strip()}") from error
        names = str(parameters.get("host", "") or "").split(",")
        ports = str(parameters.get("port", "") or "").split(",")
        if len(ports) == 1:
            ports *= len(names)
        if len(ports) != len(names):
            raise Unavailable(f"the URL {self.url} names {len(names)} hosts, {len(ports)} ports")
        self._hosts = [Host(*address) for address in zip(names, ports, strict=True)]
        self._parameters = parameters
        self._mutex = threading.Lock()
        self._serving: Host | None = None
        self._highest = 0
        self._identifier = 0

    # -- connecting ------------------------------------------------------------------------------

    def connect(self, use: str) -> PgConnection:
        """A connection to the serving host. Raises Unavailable with the reason."""
        with self._mutex:
            serving = self._serving
        if serving is not None:
            try:
                return self._checked(serving, use)
            except Unavailable as error:
                if len(self._hosts) == 1:
                    raise
                log.warning("the store's host serves no more", extra={"reason": str(error)})
        return self._search(use)

    def _search(self, use: str) -> PgConnection:
        """Try every host."""
        best: tuple[int, Host, PGconn] | None = None
        why = []
        for host in self._hosts:
            try:
                pq, state = self._open(host, use)
            except Unavailable as error:
                why.append(str(error))
                continue
            if state.is_standby:
                why.append(f"{_name(host)} is a standby")
                pq.finish()
            elif best is None or state.timeline > best[0]:
                if best is not None:
                    why.append(f"{_name(best[1])} is an old primary")
                    best[2].finish()
                best = state.timeline, host, pq
            else:
                why.append(f"{_name(host)} is an old primary")
                pq.finish()
        if best is None:
            raise Unavailable(f"no host of {self.url} serves: {'; '.join(why)}")
        timeline, host, pq = best
        with self._mutex:
            if timeline < self._highest:
                pq.finish()
                raise Unavailable(self._old(host, timeline))
            if self._serving != host:
                log.info("the store is served", extra={"host": _name(host), "timeline": timeline})
            self._highest, self._serving = timeline, host
        return PgConnection(pq)

    def _checked(self, host: Host, use: str) -> PgConnection:
        """A connection to this host, if it is still the primary."""
        pq, state = self._open(host, use)
        with self._mutex:
            if state.is_standby or state.timeline < self._highest:
                pq.finish()
                self._serving = None
                raise Unavailable(self._old(host, state.timeline))
            self._highest = state.timeline
        return PgConnection(pq)

    def _old(self, host: Host, timeline: int) -> str:
        return (
            f"{_name(host)} is an old primary or a standby: its timeline is {timeline}, and "
            f"{self._highest} has been seen"
        )

    def _open(self, host: Host, use: str) -> tuple[PGconn, HostState]:
        settings = self.settings
        silent_ms = int(settings.silent_s * 1000)
        every_s = max(1, int(settings.silent_s / 3))
        parameters = {
            "connect_timeout": max(2, round(settings.connect_s)),
            "application_name": f"exuvia {use}",
            **self._parameters,
            "keepalives": 1,
            "keepalives_idle": every_s,
            "keepalives_interval": every_s,
            "keepalives_count": 2,
            "tcp_user_timeout": silent_ms,
        }
        if host.name:
            parameters["host"] = host.name
        if host.port:
            parameters["port"] = host.port
        try:
            if address := _address(host):
                parameters["hostaddr"] = address
            pq = _connected(make_conninfo("", **parameters).encode(), settings.connect_s)
        except (Error, OSError) as error:
            raise Unavailable(f"no connection to {_name(host)}: {str(error).strip()}") from error
        try:
            if pq.status != ConnStatus.OK:
                about = pq.get_error_message().strip()
                raise Unavailable(f"no connection to {_name(host)}: {about}")
            if pq.server_version < LEAST_VERSION:
                raise Unavailable(
                    f"{_name(host)} is PostgreSQL {pq.server_version // 10000}: 14 or later is "
                    "needed"
                )
            _simple(pq, _session_of(settings))
            row = _simple(pq, _ASK)
            answer = [(row.get_value(0, n) or b"").decode() for n in range(3)]
            return pq, HostState(answer[0] == "t", int(answer[1], 16), int(answer[2]))
        except BaseException:
            pq.finish()
            raise

    # -- the schema ------------------------------------------------------------------------------

    def prepare(self) -> int:
        """Create the schema if it is missing. Raises Unavailable.

        Returns the base: the number to add to a transaction's number to get its stamp."""
        for attempt in range(10):
            pq = self._any()
            try:
                return self._prepared(pq)
            except Unavailable as error:
                if attempt == 9 or ("23505" not in str(error) and "42P0" not in str(error)):
                    raise  # otherwise another process created it at the same time
            finally:
                pq.finish()
        raise AssertionError

    def _any(self) -> PGconn:
        self.connect("set-up").close()
        serving = self._serving
        assert serving is not None
        return self._open(serving, "set-up")[0]

    def _prepared(self, pq: PGconn) -> int:
        schema = self.settings.schema
        if _simple(pq, "SELECT to_regclass('about') IS NULL").get_value(0, 0) == b"t":
            text = files("exuvia.kv.postgres").joinpath("server.sql").read_text()
            about = f"INSERT INTO about SELECT true, {LAYOUT}, system_identifier, 0"
            _simple(
                pq,
                f"BEGIN; CREATE SCHEMA IF NOT EXISTS {schema}; {text}; "
                f"{about} FROM pg_control_system(); COMMIT",
            )
        row = _simple(pq, "SELECT layout, server, base FROM about")
        layout, server, base = (int(row.get_value(0, n) or 0) for n in range(3))
        if layout > LAYOUT:
            raise Unavailable(
                f"{self.url} was written by a newer version: its layout is {layout}, this version "
                f"knows {LAYOUT}"
            )
        if layout < OLDEST_LAYOUT:
            raise Unavailable(
                f"{self.url} was written by a version that was never released: its layout is "
                f"{layout}, this version knows {OLDEST_LAYOUT} to {LAYOUT}"
            )
        identifier = _simple(pq, "SELECT system_identifier FROM pg_control_system()")
        if int(identifier.get_value(0, 0) or 0) != server:
            row = _simple(
                pq,
                f"UPDATE about SET server = system_identifier, base = base + {REPLACED} "
                "FROM pg_control_system() WHERE server <> system_identifier; "
                "SELECT base FROM about",
            )
            base = int(row.get_value(0, 0) or 0)
        _simple(pq, "DELETE FROM slot WHERE made < now() - interval '1 day'")
        return base

    def has_gates(self) -> bool:
        """Whether advisory locks work across two connections."""
        probe = int8(secrets.randbits(63))  # random: other processes may probe at the same time
        with closing(self.connect("set-up")) as one, closing(self.connect("set-up")) as other:
            within_s = self.settings.answer_s
            try:
                one.run([(BEGIN, ()), (_LOCK_ALONE, [probe])], within_s)
                (shared,) = other.run([(_LOCK_SHARED, [probe])], within_s)
                while_held = read_int8(shared.get_value(0, 0))
                one.run([(ROLLBACK, ())], within_s)
                (shared,) = other.run([(_LOCK_SHARED, [probe])], within_s)
                after = read_int8(shared.get_value(0, 0))
            except (ServerRefusal, Lost):
                raise
            except Unavailable as error:
                log.warning("no advisory locks here", extra={"reason": str(error)})
                return False
            if while_held or not after:
                log.warning("no advisory locks here", extra={"reason": "they lock nothing"})
                return False
            return True

    def promises(self) -> dict[str, str]:
        """The settings that determine the durability of an acknowledged commit."""
        with closing(self.connect("set-up")) as connection:
            (result,) = connection.run([(_PROMISES, [texts(PROMISES)])], self.settings.answer_s)
            return {
                (result.get_value(n, 0) or b"").decode(): (result.get_value(n, 1) or b"").decode()
                for n in range(result.ntuples)
            }

    def upkeep(self) -> TableUpkeep:
        """The state of the table of all rows."""
        with closing(self.connect("set-up")) as connection:
            calls: list[Call] = [(_TABLE, []), (_HELD_BACK, [])]
            table, holders = connection.run(calls, self.settings.answer_s)
            row = [(table.get_value(0, n) or b"").decode() for n in range(6)]
            bytes_, indexes, live, dead = map(int, row[:4])
            held_back = [
                (
                    (holders.get_value(n, 0) or b"").decode(),
                    int(age) if (age := holders.get_value(n, 1)) else None,
                )
                for n in range(holders.ntuples)
            ]
            vacuumed = int(row[5]) if row[5] else None
            is_on = row[4] == "on"
            return TableUpkeep(bytes_, indexes, live, dead, is_on, vacuumed, held_back)


def neglect(upkeep: TableUpkeep) -> Iterator[str]:
    """Descriptions of conditions that let the table grow."""
    if not upkeep.autovacuum:
        yield "autovacuum is off: what was replaced is never taken away, and the table only grows"
    if upkeep.dead > DEAD_ROWS and upkeep.dead > DEAD_SHARE * upkeep.live:
        yield (
            f"{upkeep.dead:,} rows of the table kv are dead beside {upkeep.live:,} that live: "
            "autovacuum does not keep up, or may not"
        )
    for who, age_s in upkeep.held_back:
        since = "" if age_s is None else f" for {age_s} s"
        yield f"{who} keeps what was replaced{since}: vacuum takes nothing away that it may read"


def weaknesses(promises: dict[str, str]) -> Iterator[str]:
    """Descriptions of settings that weaken durability."""
    if promises.get("fsync") == "off":
        yield "fsync is off: a power loss may destroy the store"
    if promises.get("full_page_writes") == "off":
        yield "full_page_writes is off: a power loss may destroy the store"
    commit = promises.get("synchronous_commit", "on")
    if commit == "off":
        yield "synchronous_commit is off: the last acknowledged commits may be lost in a crash"
    if not promises.get("synchronous_standby_names"):
        yield (
            "synchronous_standby_names is empty: a commit is acknowledged when one host has it, "
            "and may be lost with that host"
        )
    elif commit == "local":
        yield (
            "synchronous_commit is local: a commit is acknowledged when one host has it, and may "
            "be lost with that host"
        )


def _session_of(settings: PostgresSettings) -> str:
    """The SQL that each connection executes first.

    All reads are by key, and nothing waits for a dead client."""
    silent_s = max(1, int(settings.silent_s))
    return "; ".join(
        (
            f"SET search_path = {settings.schema}, pg_catalog",
            "SET enable_seqscan = off",
            "SET enable_hashjoin = off",
            "SET enable_mergejoin = off",
            "SET plan_cache_mode = force_generic_plan",
            "SET jit = off",
            "SET default_transaction_isolation = 'read committed'",
            "SET default_transaction_deferrable = off",
            "SET statement_timeout = 0",
            "SET lock_timeout = 0",
            "SET idle_in_transaction_session_timeout = '1h'",  # for a process that was stopped
            "SET client_min_messages = error",
            f"SET tcp_keepalives_idle = {max(1, silent_s // 3)}",
            f"SET tcp_keepalives_interval = {max(1, silent_s // 3)}",
            "SET tcp_keepalives_count = 2",
            f"SET tcp_user_timeout = '{silent_s}s'",
            f"SET client_connection_check_interval = '{silent_s}s'",
        )
    )


# libpq's blocking calls keep the interpreter's lock, so all waiting here is in Python.


def _address(host: Host) -> str:
    """The numeric address of a host that has a name."""
    if not host.name or host.name.startswith("/"):
        return ""
    return str(socket.getaddrinfo(host.name, None, type=socket.SOCK_STREAM)[0][4][0])


def _connected(conninfo: bytes, within_s: float) -> PGconn:
    """A connection; check its status, which may be bad."""
    pq = libpq.PGconn.connect_start(conninfo)
    deadline = time.monotonic() + within_s
    status: int = PollingStatus.WRITING
    while pq.status != ConnStatus.BAD and status in EVENTS_OF:
        poll = select.poll()
        poll.register(pq.socket, EVENTS_OF[status])
        if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            pq.finish()
            raise TimeoutError(f"no answer within {within_s:g} s")
        status = pq.connect_poll()
    return pq


def _simple(pq: PGconn, text: str) -> PGresult:
    """The last result of several statements."""
    answer: PGresult | None = None
    failed: PGresult | None = None
    poll = select.poll()
    poll.register(pq.socket, select.POLLIN)
    try:
        pq.send_query(text.encode())
        while True:
            while pq.is_busy():
                poll.poll()
                pq.consume_input()
            result = pq.get_result()
            if result is None:
                break
            if result.status in (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK):
                answer = result
            else:
                failed = result
    except OperationalError as error:
        raise Lost(f"the store's server: {str(error).strip()}") from error
    if failed is not None or answer is None:
        failure = Lost("the store's server: no answer") if failed is None else error_of(failed)
        raise Unavailable(str(failure)) if isinstance(failure, ServerRefusal) else failure
    return answer


def _name(host: Host) -> str:
    return f"{host.name or 'the local socket'}{':' if host.port else ''}{host.port}"
