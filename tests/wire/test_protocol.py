"""The protocol with a session that answers from a script: framing, answers, bad peers.

Only the protocol is served, on a real socket.
"""

import asyncio
import contextlib
import datetime
import socket
import struct
import threading
import zlib
from collections.abc import Callable, Sequence
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import mysql.connector
import pymysql
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mysql.connector.constants import ClientFlag

from exuvia.base.clock import SystemClock
from exuvia.base.errors import (
    Broken,
    Conflict,
    Deposed,
    OutcomeUnknown,
    OutOfSpace,
    Refused,
    SchemaChanged,
    StorageFailed,
    Unavailable,
)
from exuvia.base.interruption import Interruption
from exuvia.base.mysql_errors import (
    ErrBadDB,
    ErrHandshake,
    ErrMalformedPacket,
    ErrNetPacketTooLarge,
    ErrNoSuchTable,
    ErrUnknown,
)
from exuvia.base.types import FieldType, TypeCode, pack_date, pack_datetime
from exuvia.pipeline.throttle import p99_of
from exuvia.server import connection, packets
from exuvia.server.connection import HANDSHAKE_BYTES, Pool
from exuvia.server.fronts import listen
from exuvia.server.metrics import Metrics
from exuvia.server.packets import (
    Capability,
    Incoming,
    Login,
    Outgoing,
    read_change_user,
    read_login,
)
from exuvia.server.prepared import LongData, Statement
from exuvia.server.processes import Connections
from exuvia.server.results import (
    Agreed,
    answer,
    binary_encoder,
    payload_encoder,
    row_encoder,
    text_encoder,
)
from exuvia.server.slow_log import SlowLog
from exuvia.server.statements import split
from exuvia.server.transport import CompressedFrame
from exuvia.sql import types
from exuvia.sql.parse.literals import TypedValue
from exuvia.sql.result import (
    BIGINT,
    OK,
    Note,
    OutputColumn,
    PlanColumns,
    Result,
    text_columns,
    text_type,
)
from exuvia.sql.statement.context import Course
from support.node_processes import RawConnection, until

Answer = Result | Exception | Callable[[], Result]


class ScriptedSession:
    """Answers texts from its script. Prepared statements return their parameters."""

    def __init__(self, script: dict[str, Answer], course: Course, log: list[str]) -> None:
        self.settings = SimpleNamespace(autocommit=True, plain_quotes="", at_start=lambda name: "")
        self.memory = Interruption().memory
        self.current: Any = None
        self.database = ""
        self.changed_schema = False
        self.waits = SimpleNamespace(reason="")
        self.is_released = False
        self.interrupted = threading.Event()
        self._script = script
        self._course = course
        self._log = log

    def execute(self, text: str) -> Result:
        self._log.append(text)
        answer = self._script.get(text.strip(), OK)
        if isinstance(answer, Exception):
            raise answer
        return answer() if callable(answer) else answer

    def prepare(self, text: str) -> Any:
        count = text.count("?")
        columns = text_columns(*(f"p{n}" for n in range(count)))
        return SimpleNamespace(text=text, parameters=count, columns=columns)

    def execute_prepared(self, prepared: Any, parameters: Sequence[Any]) -> Result:
        self._log.append(repr(list(parameters)))
        texts = [None if value is None else str(value) for value in parameters]
        return Result(prepared.columns, [texts])

    def course(self, statement: Any) -> Course:
        return self._course

    def variable(self, name: str) -> str:
        return "utf8mb4"

    def begin_command(self) -> None:
        self._log.append("begun")

    def interrupt(self, lost: bool = False) -> None:
        self.interrupted.set()
        self._log.append("interrupted")

    def reap(self, now: float, idle_s: float) -> bool:
        return False

    def close(self) -> None:
        self._log.append("closed")


class WireServer:
    """Serves from `with` to its end. `log` has every text and every close."""

    def __init__(
        self,
        script: dict[str, Answer] | None = None,
        course: Course = Course.POOL,
        most: int = 16,
    ) -> None:
        self.log: list[str] = []
        self.sessions: list[ScriptedSession] = []
        self.metrics = Metrics()
        self._script = script or {}
        self._course = course
        self._most = most
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)

    def _session(self, connection_id: int, host: str, login: Any) -> ScriptedSession:
        if login.database == "missing":
            raise ErrBadDB("missing")
        session = ScriptedSession(self._script, self._course, self.log)
        self.sessions.append(session)
        return session

    async def _serve(self) -> None:
        clock = SystemClock()
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        self.connections = Connections(clock, self._most)
        parts = connection.ServerParts(
            self._session,
            self.connections,
            Pool(self._most),
            self.metrics,
            clock,
            "8.0.11-test",
            SlowLog(clock),
        )
        listeners = listen("127.0.0.1", 0)
        server = connection.Acceptor(parts, listeners)
        server.start()
        self.port = listeners[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        server.stop()
        for client in self.connections.all():
            client.kill()
        await asyncio.sleep(0.01)

    def __enter__(self) -> "WireServer":
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)


# -- what holds ------------------------------------------------------------------------------------


def connect(server: WireServer, **settings):
    return RawConnection(host="127.0.0.1", port=server.port, user="root", **settings)


def read_packet(peer: socket.socket) -> bytes:
    header = peer.recv(4, socket.MSG_WAITALL)
    return peer.recv(int.from_bytes(header[:3], "little"), socket.MSG_WAITALL)


# -- framing ---------------------------------------------------------------------------------------


@given(st.lists(st.binary(max_size=300), min_size=1, max_size=5), st.integers(1, 40))
def test_payloads_arrive_whole_however_the_stream_is_cut(payloads: list[bytes], step: int) -> None:
    stream = b"".join(len(payload).to_bytes(3, "little") + b"\0" + payload for payload in payloads)
    incoming = Incoming(1000)
    payloads_read = []
    for start in range(0, len(stream), step):
        incoming.put(stream[start : start + step])
        while (packet := incoming.take()) is not None:
            payloads_read.append(packet[1])
    assert (payloads_read, incoming.waiting) == (payloads, 0)


@pytest.mark.parametrize("size", [0xFFFFFE, 0xFFFFFF, 0x1000000, 0x2000001])
def test_payloads_of_16_mb_are_continued_in_the_next_packet(size: int) -> None:
    outgoing = Outgoing(0)
    outgoing.add(bytes(size))
    incoming = Incoming(1 << 26)
    incoming.put(bytes(outgoing.take()))
    packet = incoming.take()
    assert packet is not None and isinstance(packet[1], packets.Payload)
    assert (packet[1].command, packet[1].size) == (0, size - 1)


@given(
    st.lists(st.sampled_from([0, 1, 70_000, 0xFFFFFE, 0xFFFFFF, 0x1000000]), max_size=4),
    st.sampled_from([65_536, 1_000_003, 1 << 24]),
)
@settings(max_examples=10)
def test_large_payloads_arrive_in_their_parts(sizes: list[int], step: int) -> None:
    outgoing, incoming = Outgoing(0), Incoming(1 << 26)
    for size in sizes:
        outgoing.sequence = 0
        outgoing.add(b"q" * size)
    stream, parts = bytes(outgoing.take()), []
    for start in range(0, len(stream), step):
        incoming.put(stream[start : start + step])
        while (packet := incoming.take()) is not None:
            payload = packet[1]
            parts.append(payload.size + 1 if isinstance(payload, packets.Payload) else len(payload))
    assert (parts, incoming.waiting) == (sizes, 0)


@pytest.mark.parametrize("binary", [False, True], ids=["text", "binary"])
@pytest.mark.parametrize("more", [-1, 0, 1, packets.CONTINUED])
def test_a_row_with_a_large_value_is_framed_piece_by_piece(more: int, binary: bool) -> None:
    columns = [OutputColumn("a", types.text(65535)), OutputColumn("b", types.BIGINT)] * 2
    columns.append(OutputColumn("n", types.NULL))
    row = ["é" * 1_000_000, 7, None, 8, None]
    encode = payload_encoder(columns, "utf8", binary)
    size = len(row_encoder(columns, "utf8", binary)(row)) + 1  # with a length of 8 bytes
    row[0] += "a" * (packets.CONTINUED - size + more)
    rows = [["b", *row[1:]], row, ["c", *row[1:]]]
    whole, pieces = Outgoing(3), Outgoing(3)
    for row_of_answer in rows:
        whole.add(row_encoder(columns, "utf8", binary)(row_of_answer))
    chunks = []
    payloads = map(encode, rows)
    while pieces.fill(payloads, 1 << 16):
        chunks.append(pieces.take())
    assert max(map(len, chunks)) < 1 << 17
    assert b"".join([*chunks, pieces.take()]) == whole.take()
    assert pieces.sequence == whole.sequence


def test_texts_are_split_at_semicolons_outside_of_strings_names_and_comments() -> None:
    assert split("SELECT 1") == ["SELECT 1"]
    assert split("SELECT ';'; SELECT `;` -- ;\n; /* ; */ # ;\n") == [
        "SELECT ';'",
        " SELECT `;` -- ;\n",
    ]
    assert split(r"SELECT '\';';SELECT ''';'") == [r"SELECT '\';'", "SELECT ''';'"]
    assert split("/*!40101 SET x */; SELECT 2;") == ["/*!40101 SET x */", " SELECT 2"]


# -- answers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("course", list(Course))
def test_counts_warnings_and_text_of_a_write_reach_the_client(course: Course) -> None:
    done = Result(affected=3, last_insert_id=7, warnings=[Note("Warning", 1, "w")], info="Rows: 3")
    with WireServer({"INSERT": done}, course) as server, connect(server) as connection:
        cursor = connection.cursor()
        assert (cursor.execute("INSERT"), cursor.lastrowid) == (3, 7)
        assert connection.result.message.endswith(b"Rows: 3")
        assert cursor.warning_count == 1


@pytest.mark.parametrize("course", list(Course))
def test_the_statements_of_a_transaction_are_counted_as_one(course: Course) -> None:
    """The latency of a transaction counts, because clients wait for all of its statements."""
    script: dict[str, Answer] = {"SELECT": OK}
    with WireServer(script, course) as server, connect(server) as connection:
        cursor, [session] = connection.cursor(), server.sessions

        # a statement is counted after its answer and before its connection's next one. So the
        # session's answers decide where a statement runs, as in a real one
        def answering(**changed: Any) -> Answer:
            def answer() -> Result:
                vars(session).update(changed)
                return OK

            return answer

        script["BEGIN"] = answering(current=session)
        script["COMMIT"] = lambda: threading.Event().wait(0.05) or answering(current=None)()
        script["ALTER"] = answering(changed_schema=True)
        cursor.execute("BEGIN")
        server.metrics.durations.take()
        for _ in range(4):
            cursor.execute("SELECT")
        cursor.execute("COMMIT")
        cursor.execute("ALTER")  # not a transaction; the earlier statements are counted by now
        p99_s, samples = p99_of([server.metrics.durations.take()])
        assert samples == 1
        assert p99_s >= 0.05


@pytest.mark.parametrize(
    ("error", "code", "state"),
    [
        (ErrNoSuchTable("a", "b"), 1146, "42S02"),
        (Conflict("lost update"), 1213, "40001"),
        (SchemaChanged(), 8028, "HY000"),
        (Deposed("gone"), 8027, "HY000"),
        (Unavailable("the disk is away"), 8022, "HY000"),
        (OutOfSpace("Disk full (data.mdb)"), 1021, "HY000"),
        (OutOfSpace("the store has reached its bound", 1114), 1114, "HY000"),
        (StorageFailed("Error writing file 'data.mdb' (errno: 5)"), 1026, "HY000"),
        (OutcomeUnknown("nobody knows; read and see"), 1180, "08007"),
        (Broken("two owners"), 1105, "HY000"),
        (ZeroDivisionError("inside"), 1105, "HY000"),
    ],
)
def test_every_class_of_error_has_its_code_and_the_connection_lives_on(error, code, state) -> None:
    with WireServer({"BAD": error, "SELECT": Result(text_columns("a"), [["fine"]])}) as server:
        driver = mysql.connector.connect(host="127.0.0.1", port=server.port, user="root")
        cursor = driver.cursor()
        with pytest.raises(mysql.connector.Error) as caught:
            cursor.execute("BAD")
        assert (caught.value.errno, caught.value.sqlstate) == (code, state)
        cursor.execute("SELECT")
        assert cursor.fetchall() == [("fine",)]
        driver.close()


def test_an_internal_error_is_logged_once_with_its_places_and_without_its_text(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The text may quote a password."""

    def fails() -> Result:
        text = "open" + "sesame"
        try:
            raise KeyError(text)
        except KeyError as error:
            raise ValueError(text) from error

    with WireServer({"X": fails}) as server, connect(server) as client:
        for _ in range(3):
            with pytest.raises(pymysql.MySQLError, match="opensesame"):
                client.query("X")
    lines = [record.__dict__ for record in caplog.records if record.name == packets.__name__]
    assert [line["so_far"] for line in lines] == [1, 2, 3]
    assert [("traceback" in line, line["exc_info"]) for line in lines] == [
        (True, None),
        (False, None),
        (False, None),
    ]
    assert {"KeyError", "ValueError"} <= set(lines[0]["traceback"].split())
    assert "opensesame" not in str(lines)


def test_several_statements_are_answered_one_by_one_up_to_the_first_error() -> None:
    script = {"SELECT 1": Result(text_columns("a"), [["1"]]), "BAD": ErrUnknown("no")}
    flag = pymysql.constants.CLIENT.MULTI_STATEMENTS
    with WireServer(script) as server, connect(server, client_flag=flag) as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT 1; UPDATE x; BAD; NEVER")
        assert cursor.fetchall() == (("1",),)
        assert cursor.nextset()
        with pytest.raises(pymysql.err.MySQLError):
            cursor.nextset()
        assert [text.strip() for text in server.log[-3:]] == ["SELECT 1", "UPDATE x", "BAD"]


def test_several_statements_are_refused_to_a_client_that_did_not_ask_for_them() -> None:
    with WireServer() as server:
        driver = mysql.connector.connect(
            host="127.0.0.1",
            port=server.port,
            user="root",
            client_flags=[-ClientFlag.MULTI_STATEMENTS],
        )
        with pytest.raises(mysql.connector.Error) as caught:
            driver.cmd_query("DELETE 1; DELETE 2")
        assert caught.value.errno == 1064
        assert not any("DELETE" in text for text in server.log)
        driver.close()


def test_answers_larger_than_a_packet_and_many_rows_arrive() -> None:
    script = {
        "BIG": Result(text_columns("a"), [["x" * 17_000_000]]),
        "MANY": Result([OutputColumn("n", BIGINT)], [[n] for n in range(50_000)]),
    }
    with WireServer(script) as server, connect(server) as connection:
        cursor = connection.cursor()
        cursor.execute("BIG")
        assert len(cursor.fetchone()[0]) == 17_000_000
        cursor.execute("MANY")
        assert cursor.fetchall() == tuple((n,) for n in range(50_000))
        cursor.execute("INSERT " + "y" * 17_000_000)
        assert len(server.log[-1]) == 17_000_007


def test_a_slow_reader_holds_up_only_itself() -> None:
    rows = [["z" * 1000] for _ in range(60_000)]
    with WireServer({"HUGE": Result(text_columns("a"), rows)}) as server:
        slow = connect(server)
        slow.send_command(3, "HUGE")  # asked, not read
        with connect(server) as other:
            other.ping()
        slow.break_off()
        until(lambda: server.log.count("closed") == 2)


# -- prepared statements ---------------------------------------------------------------------------


def test_parameters_of_every_kind_arrive_as_values() -> None:
    with WireServer() as server:
        driver = mysql.connector.connect(host="127.0.0.1", port=server.port, user="root")
        cursor = driver.cursor(prepared=True)
        moment = datetime.datetime(2026, 1, 2, 3, 4, 5, 60)
        sent = (
            1,
            -(2**40),
            "it's ü",
            None,
            1.5,
            Decimal("12.30"),
            moment,
            datetime.date(1999, 1, 2),
        )
        for _ in range(2):
            cursor.execute("SELECT ?,?,?,?,?,?,?,?", sent)
            assert cursor.fetchall()[0][2:4] == ("it's ü", None)
        expected = [1, -(2**40), "it's ü", None, 1.5, Decimal("12.30")]
        typed = (
            TypedValue(pack_datetime(pack_date(2026, 1, 2), 3, 4, 5, 60), types.datetime(6)),
            TypedValue(pack_date(1999, 1, 2), types.DATE),
        )
        logged = server.log[-1]
        assert logged.startswith(repr(expected)[:-1])
        assert logged.endswith(repr(list(typed))[1:])
        driver.close()


def test_an_execution_without_types_uses_those_of_the_first() -> None:
    statement = Statement(None, 1, LongData())
    head = struct.pack("<IBI", 1, 0, 1)
    first = statement.read(head + b"\0" + b"\1" + b"\x08\x00" + struct.pack("<q", -5), "utf8")
    second = statement.read(head + b"\0" + b"\0" + struct.pack("<q", 77), "utf8")
    assert (first, second) == ([-5], [77])


def test_integers_are_read_at_once_and_all_else_as_before() -> None:
    statement = Statement(None, 3, LongData())
    head = struct.pack("<IBI", 1, 0, 1)
    integers = b"\x01\x00\x03\x80\x08\x00"  # tiny, unsigned int, bigint
    values = struct.pack("<bIq", -1, 4_000_000_000, -5)
    assert statement.read(head + b"\0\1" + integers + values, "utf8") == [-1, 4_000_000_000, -5]
    assert statement.read(head + b"\0\0" + values, "utf8") == [-1, 4_000_000_000, -5]
    one = struct.pack("<bq", -1, -5)
    assert statement.read(head + b"\2\0" + one, "utf8") == [-1, None, -5]
    mixed = b"\x01\x00\xfd\x00\x08\x00"
    text = struct.pack("<b", -1) + b"\2ab" + struct.pack("<q", -5)
    assert statement.read(head + b"\0\1" + mixed + text, "utf8") == [-1, "ab", -5]
    assert statement.read(head + b"\0\0" + text, "utf8") == [-1, "ab", -5]
    assert statement.read(head + b"\0\1" + integers + values, "utf8") == [-1, 4_000_000_000, -5]
    statement.append(1, b"12", 100)
    assert statement.read(head + b"\0\0" + one, "utf8") == [-1, "12", -5]


MOMENTS = [
    ("0a", "04e8070102", TypedValue(pack_date(2024, 1, 2), types.DATE)),
    ("0a", "00", TypedValue(0, types.DATE)),
    ("0a", "04e8070d02", "2024-13-02"),
    ("0c", "04e8070102", TypedValue(pack_date(2024, 1, 2) << 37, types.datetime())),
    (
        "07",
        "0be807010203040501000000",
        TypedValue(pack_datetime(pack_date(2024, 1, 2), 3, 4, 5, 1), types.datetime(6)),
    ),
    ("0c", "07e8070102183b3b", "2024-01-02 24:59:59"),
    ("0b", "080122000000163b3b", TypedValue(-(838 * 3600 + 3599) * 10**6, types.time())),
    ("0b", "0c000000000000000001000000", TypedValue(1, types.time(6))),
    ("0b", "00", TypedValue(0, types.time())),
    ("0b", "080022000000170000", "839:00:00"),
]


@pytest.mark.parametrize(("code", "sent", "expected"), MOMENTS)
def test_dates_and_times_arrive_with_their_types(code: str, sent: str, expected: object) -> None:
    """Dates and times that do not exist become texts, which columns refuse."""
    head = struct.pack("<IBI", 1, 0, 1) + b"\0\1"
    payload = head + bytes.fromhex(code) + b"\0" + bytes.fromhex(sent)
    assert Statement(None, 1, LongData()).read(payload, "utf8") == [expected]


@pytest.mark.parametrize("cut", range(9, 20))
def test_a_truncated_execution_is_malformed_and_harmless(cut: int) -> None:
    whole = struct.pack("<IBI", 1, 0, 1) + b"\0\1\x08\x00" + struct.pack("<q", -5)
    with pytest.raises(type(ErrMalformedPacket())) as caught:
        Statement(None, 1, LongData()).read(whole[:cut], "utf8")
    assert caught.value.code == 1835


DATE = pack_date(2010, 10, 17)
TIME = ((120 * 24 + 19) * 3600 + 27 * 60 + 30) * 10**6  # microseconds
BINARY = [
    (TypeCode.YEAR, 2155, "6b08"),
    (TypeCode.INT24, -2, "feffffff"),
    (TypeCode.DATE, DATE, "04da070a11"),
    (TypeCode.DATE, 0, "00"),
    (TypeCode.DATETIME, pack_datetime(DATE, 19, 27, 30, 1), "0bda070a11131b1e01000000"),
    (TypeCode.DATETIME, pack_datetime(DATE, 19, 27, 30), "07da070a11131b1e"),
    (TypeCode.DATETIME, pack_datetime(DATE, 0, 0, 0), "04da070a11"),
    (
        TypeCode.TIME,
        -((120 * 24 + 19) * 3600 + 27 * 60 + 30) * 10**6 - 1,
        "0c0178000000131b1e01000000",
    ),
    (TypeCode.TIME, ((120 * 24 + 19) * 3600 + 27 * 60 + 30) * 10**6, "080078000000131b1e"),
    (TypeCode.TIME, 0, "00"),
    (TypeCode.BIT, 513, "020201"),
]


@pytest.mark.parametrize(("code", "value", "expected"), BINARY)
def test_binary_values_are_those_of_the_manual(code: TypeCode, value: int, expected: str) -> None:
    """Source: MySQL protocol, "Binary Protocol Value", with its example values."""
    kind = FieldType(Tp=code, Flen=10)
    assert binary_encoder(kind)(value).hex() == expected


@pytest.mark.parametrize("size", [0, 1, 250, 251, 65_535, 65_536])
@pytest.mark.parametrize("codec", ["utf8", "latin-1"])
def test_a_binary_string_is_that_of_the_text_protocol_with_its_length(
    size: int, codec: str
) -> None:
    value, kind = "\xe9" * size, text_type(size)
    encoded = text_encoder(kind, codec)(value)
    assert encoded == value.encode(codec)
    assert binary_encoder(kind, codec)(value) == packets.text(encoded)


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("first", [1, 2, 254, 255])
@pytest.mark.parametrize("ends_with_ok", [False, True])
def test_an_answer_of_cached_columns_equals_that_of_new_columns(
    binary: bool, first: int, ends_with_ok: bool
) -> None:
    columns = [OutputColumn("a", BIGINT), OutputColumn("b", text_type(20))]
    plan_columns = PlanColumns(columns)
    agreed = Agreed(ends_with_ok, "utf8")
    rows = [(1, "x"), (None, "y"), (2, None), (None, None)]
    for sequence in (1, first, first):  # kept for one sequence, asked for another
        anew = Outgoing(sequence)
        expected = b"".join(answer(Result(columns, rows), anew, agreed, 2, binary))
        outgoing = Outgoing(sequence)
        assert b"".join(answer(Result(plan_columns, rows), outgoing, agreed, 2, binary)) == expected
        assert outgoing.sequence == anew.sequence
        assert [sequence for sequence, _ in framed(expected)] == [
            sequence + n & 255 for n in range(len(framed(expected)))
        ]


def framed(answered: bytes) -> list[tuple[int, bytes]]:
    """The packets as (sequence, payload)."""
    frames, at = [], 0
    while at < len(answered):
        size = int.from_bytes(answered[at : at + 3], "little")
        frames.append((answered[at + 3], answered[at + 4 : at + 4 + size]))
        at += 4 + size
    return frames


def test_a_binary_row_has_a_bit_for_each_null() -> None:
    columns = [OutputColumn(f"c{n}", BIGINT) for n in range(7)]
    rows = [(1,) * 7, (None,) * 7, (None, 1, 1, 1, 1, 1, None)]
    sent = b"".join(answer(Result(columns, rows), Outgoing(1), Agreed(True, "utf8"), 2, True))
    one = struct.pack("<q", 1)
    assert [payload for _, payload in framed(sent)][8:11] == [
        bytes(3) + one * 7,
        bytes([0, 0xFC, 1]),
        bytes([0, 0x04, 1]) + one * 5,
    ]


# -- bad peers -------------------------------------------------------------------------------------

LOGIN_HEAD = struct.pack("<IIB23x", 0x200 | 0x8000, 1 << 24, 45)  # capabilities, packet, collation


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x00" * 64,
        b"\xff" * 4096,
        b"\x05\0\0\1abcde",
        b"\x20\0\0\1" + b"\xff" * 32,
        b"\x26\0\0\1" + LOGIN_HEAD + b"nobody",  # the name has no end
        b"\x28\0\0\1" + LOGIN_HEAD + b"nobody\0\x40",  # the proof ends beyond the packet
    ],
)
def test_garbage_ends_its_connection_and_nothing_else(garbage: bytes) -> None:
    with WireServer() as server, connect(server) as good:
        with socket.create_connection(("127.0.0.1", server.port), timeout=5) as peer:
            read_packet(peer)
            peer.sendall(garbage)
            peer.shutdown(socket.SHUT_WR)
            while peer.recv(4096):
                pass
        good.ping()
        until(lambda: len(server.connections.all()) == 1)


@given(st.binary(max_size=60), st.integers(0, 0xFFFFFFFF))
def test_whatever_follows_the_head_of_a_login_it_is_read_or_refused(
    rest: bytes, capabilities: int
) -> None:
    payload = capabilities.to_bytes(4, "little") + LOGIN_HEAD[4:] + rest
    login = Login("root", "", "utf8", capabilities)
    for read, code in (
        (lambda: read_login(payload), ErrHandshake.code),
        (lambda: read_change_user(rest, login), ErrMalformedPacket.code),
    ):
        try:
            read()
        except Refused as refused:
            assert refused.code == code


def test_a_change_of_user_whose_name_has_no_end_is_1835_and_holds_up_nobody() -> None:
    with WireServer() as server, connect(server) as connection:
        connection.send_command(0x11, b"another")
        with pytest.raises(pymysql.err.MySQLError) as caught:
            connection.read_ok()
        assert caught.value.args[0] == ErrMalformedPacket.code
        connection.ping()


@pytest.mark.parametrize(
    ("collation", "name", "codec"),
    [
        (8, b"Ren\xe9", "latin1"),
        (7, b"\xf2\xc5\xce\xe5", "exuvia_koi8r"),
        (63, "René".encode(), "utf8"),  # binary
        (0, "René".encode(), "utf8"),  # none that MySQL knows
    ],
)
def test_the_name_of_a_user_is_in_the_character_set_that_the_login_names(
    collation: int, name: bytes, codec: str
) -> None:
    payload = LOGIN_HEAD[:8] + bytes([collation]) + LOGIN_HEAD[9:] + name + b"\0\0"
    login = read_login(payload)
    assert (login.codec, login.user) == (codec, name.decode(codec))


def test_a_client_that_disconnects_has_its_session_closed_even_during_a_statement() -> None:
    release = threading.Event()
    slow = lambda: (release.wait(10), Result())[1]  # noqa: E731
    with WireServer({"SLOW": slow}) as server:
        client = connect(server)
        client.send_command(3, "SLOW")
        until(lambda: "SLOW" in server.log)
        client.break_off()
        until(lambda: "interrupted" in server.log)
        assert "closed" not in server.log
        release.set()
        until(lambda: "closed" in server.log)


def test_a_kill_before_its_statement_has_begun_ends_it_and_an_idle_one_ends_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waiting_runs: list[Callable[[], None]] = []
    with WireServer({"Q": lambda: OK}) as server, connect(server) as client:
        monkeypatch.setattr(Pool, "run", lambda pool, work: waiting_runs.append(work))
        server.log.clear()
        server.connections.kill(client.thread_id(), query_only=True)
        assert server.log == []
        client.send_command(3, "Q")
        until(lambda: waiting_runs)  # no thread runs it yet
        server.connections.kill(client.thread_id(), query_only=True)
        assert server.log == ["begun", "interrupted"]
        waiting_runs.pop()()
        client.read_result()
        server.connections.kill(client.thread_id(), query_only=True)
        assert server.log == ["begun", "interrupted", "Q"]


def test_statements_that_wait_hold_up_no_other_connection() -> None:
    release = threading.Event()
    script = {"SLOW": lambda: (release.wait(20), Result())[1]}
    with WireServer(script, most=64) as server, contextlib.ExitStack() as opened:
        waiting = [opened.enter_context(connect(server)) for _ in range(40)]
        for client in waiting:
            client.send_command(3, "SLOW")
        until(lambda: server.log.count("SLOW") == 40)
        with connect(server) as other:
            other.query("SELECT 1")
        release.set()
        for client in waiting:
            client.read_result()


def test_commands_sent_ahead_are_answered_in_order() -> None:
    script = {f"Q{n}": Result(text_columns("a"), [[str(n)]]) for n in range(200)}
    with WireServer(script) as server, connect(server) as connection:
        stream = b"".join(
            struct.pack("<I", len(f"Q{n}") + 1) + b"\x03" + f"Q{n}".encode() for n in range(200)
        )
        connection.socket.sendall(stream)
        for n in range(200):
            connection.expect(1)
            connection.read_result()
            assert connection.result.rows == ((str(n),),)


def sent_ahead(text: str, count: int) -> bytes:
    command = struct.pack("<I", len(text) + 1) + b"\x03" + text.encode()
    return command * count


@pytest.mark.parametrize("course", [Course.AT_ONCE, Course.POOL])
def test_a_client_that_does_not_read_its_answers_gets_no_more_computed(course: Course) -> None:
    """Without a limit each command of 30 bytes would occupy a megabyte here."""
    large = Result(text_columns("a"), [["x" * (1 << 20)]])
    with WireServer({"LARGE": large}, course) as server, connect(server) as client:
        client.socket.sendall(sent_ahead("LARGE", 200))
        with connect(server) as other:
            for _ in range(50):
                other.query("SELECT 1")
        assert server.log.count("LARGE") < 20
        for _ in range(200):
            client.expect(1)
            client.read_result()
        assert server.log.count("LARGE") == 200


def test_commands_sent_ahead_leave_others_their_turn() -> None:
    with WireServer(course=Course.AT_ONCE) as server, connect(server) as client:
        with connect(server) as other:
            client.socket.sendall(sent_ahead("Q", 20_000))
            other.query("SELECT 1")
            before = server.log.count("Q")
        until(lambda: server.log.count("Q") == 20_000)
        assert before < 20_000


def test_large_frames_are_inflated_in_another_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """As much as 64 MB in 64 KB; one frame is inflated at a time."""
    inflate, threads = CompressedFrame.inflated, list[str]()

    def inflated(frame: CompressedFrame) -> list[bytes]:
        threads.append(threading.current_thread().name)
        return inflate(frame)

    monkeypatch.setattr(CompressedFrame, "inflated", inflated)
    text = "SELECT 1 /*" + " " * (20 << 20) + "*/"
    outgoing = Outgoing(0)
    outgoing.add(b"\x03" + text.encode())
    packets, stream = bytes(outgoing.take()), b""
    for start in range(0, len(packets), 0xFFFFFF):
        part = packets[start : start + 0xFFFFFF]
        deflated = zlib.compress(part, 9)
        stream += struct.pack("<I", len(deflated)) + len(part).to_bytes(3, "little") + deflated
    flags = Capability.COMPRESS | Capability.PROTOCOL_41 | Capability.SECURE_CONNECTION
    login = int(flags).to_bytes(4, "little") + LOGIN_HEAD[4:] + b"root\0\0"
    with (
        WireServer() as server,
        socket.create_connection(("127.0.0.1", server.port), timeout=5) as client,
    ):
        read_packet(client)
        client.sendall(struct.pack("<I", len(login) | 1 << 24) + login)
        assert read_packet(client)[0] == 0
        client.sendall(stream + b"\x05\0\0\0\0\0\0" + sent_ahead("", 1))
        until(lambda: text in server.log and "" in server.log)
        assert len(threads) == 3
        assert all(name.startswith("statement") for name in threads[:2])


def test_a_packet_that_has_just_come_is_not_unfinished(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reaper may run at any moment. It once ended connections whose packet was complete but not
    processed."""
    take, looks = Incoming.take, list[float]()
    with WireServer(course=Course.AT_ONCE) as server, connect(server) as client:

        def looked_at(incoming: Incoming) -> tuple[int, bytes | packets.Payload] | None:
            now = SystemClock().monotonic()
            looks.extend(client.unfinished_s(now) for client in server.connections.all())
            return take(incoming)

        monkeypatch.setattr(Incoming, "take", looked_at)
        for _ in range(3):
            client.query("SELECT 1")
        assert looks and max(looks) == 0.0
        client.write_bytes(b"\x09\0\0\0\x03SEL")
        [one] = server.connections.all()
        until(lambda: one.unfinished_s(SystemClock().monotonic()) > 0)
        client.write_bytes(b"ECT 1")
        until(lambda: one.unfinished_s(SystemClock().monotonic()) == 0)


def test_before_its_login_a_client_has_a_few_kilobytes() -> None:
    with (
        WireServer() as server,
        socket.create_connection(("127.0.0.1", server.port), timeout=5) as peer,
    ):
        read_packet(peer)
        peer.sendall((HANDSHAKE_BYTES + 1).to_bytes(3, "little") + b"\1")
        refused = read_packet(peer)
        assert int.from_bytes(refused[1:3], "little") == ErrNetPacketTooLarge.code


def test_more_placeholders_than_can_be_counted_are_1390() -> None:
    with WireServer() as server, connect(server) as client:
        for count in (65_536, 70_000):
            client.send_command(0x16, "?" * count)
            with pytest.raises(pymysql.MySQLError) as caught:
                client.read_packet()
            assert caught.value.args[0] == 1390
        client.query("SELECT 1")


def test_too_many_connections_get_1040() -> None:
    with WireServer(most=2) as server, connect(server), connect(server):
        with pytest.raises(pymysql.err.OperationalError) as caught:
            connect(server)
        assert caught.value.args[0] == 1040


def test_a_login_to_a_database_that_is_not_there_is_refused() -> None:
    with WireServer() as server:
        with pytest.raises(pymysql.err.OperationalError) as caught:
            connect(server, database="missing")
        assert caught.value.args[0] == 1049


def test_an_unknown_command_is_1047_and_bytes_that_are_no_text_are_1300() -> None:
    with WireServer() as server, connect(server) as connection:
        for command, body, code in ((0x55, b"", 1047), (3, b"SELECT `\xff`", 1300)):
            connection.send_command(command, body)
            with pytest.raises(pymysql.err.MySQLError) as caught:
                connection.read_ok()
            assert caught.value.args[0] == code
        connection.ping()


def test_reset_and_change_user_begin_a_new_session() -> None:
    with WireServer() as server:
        driver = mysql.connector.connect(host="127.0.0.1", port=server.port, user="root")
        driver.cmd_reset_connection()
        driver.cmd_change_user("another", "", "test")
        assert (len(server.sessions), server.log.count("closed")) == (3, 2)
        driver.close()


def test_kill_ends_a_connection_and_kill_query_interrupts_it() -> None:
    with WireServer() as server:
        victim = connect(server)
        [process] = server.connections.list()
        assert (process.user, process.command) == ("root", "Sleep")
        assert server.connections.kill(process.id, query_only=False) == "killed"
        until(lambda: not server.connections.all())
        with pytest.raises(pymysql.err.OperationalError):
            victim.query("SELECT 1")
        assert server.connections.kill(process.id, query_only=True) == "unknown"
