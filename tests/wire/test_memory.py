"""No statement takes more memory than its quota, and none holds up others: resident memory of a
real node's processes, and the waits of twenty clients that ask SELECT 1 meanwhile."""

import contextlib
import socket
import struct
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import pymysql
import pytest

from exuvia.sql.functions import FUNCTIONS
from support.memory import Peak
from support.node_processes import NodeProcess, running_nodes
from support.pingers import Pingers, log_in, packet

MB = 1 << 20
QUOTA = 1 << 30  # the default
SHARE = 1.2
"""Resident memory is at most this multiple of the quota."""


@pytest.fixture(scope="module")
def roomy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """A node of its own: what other tests leave in its memory is not counted."""
    with running_nodes(tmp_path_factory.mktemp("memory")) as [node]:
        with node.connect() as client:
            client.autocommit(True)
            client.query("CREATE DATABASE m")
            client.select_db("m")
            client.query("CREATE TABLE big (id INT PRIMARY KEY, v VARCHAR(20), t LONGTEXT)")
            rows = ",".join(f"({n}, 'x', NULL)" for n in range(2000))
            client.query(f"INSERT INTO big VALUES {rows}")
            client.query("SELECT COUNT(*) FROM big a JOIN big b ON a.v = b.id")  # loads DuckDB
        yield node


def ended(client: Any, statement: str) -> int:
    """The code of the error that ends the statement; 0 where it succeeds."""
    try:
        client.query(statement)
    except pymysql.MySQLError as error:
        return int(error.args[0])
    return 0


BEYOND = {
    "rows": "SELECT REPEAT(v, 4000000) FROM big",
    "one row": "SELECT " + ", ".join(["REPEAT('x', 60000000)"] * 60),
}


@pytest.mark.parametrize("statement", BEYOND.values(), ids=BEYOND.keys())
def test_a_statement_stays_within_its_quota(roomy: NodeProcess, statement: str) -> None:
    with roomy.connect("m") as client, Peak(roomy) as peak:
        assert ended(client, statement) == 8175
        assert QUOTA / 2 < peak.most < peak.before + SHARE * QUOTA
        assert ended(client, "SELECT 1") == 0
    peak.settle(150 * MB, 10.0)


JOIN = "big a JOIN big b ON a.id < 30 AND b.id < 100"
LARGE_ROWS = {
    "a join": f"SELECT a.t FROM {JOIN}",
    "joined texts": f"SELECT MAX(CONCAT({', '.join(['a.t'] * 40)}, b.id)) FROM {JOIN}",
    "a function": f"SELECT MAX(REPEAT(a.t, 40)) FROM {JOIN}",
    "a key": f"SELECT COUNT(DISTINCT a.t, b.id) FROM {JOIN}",
    "GROUP_CONCAT": f"SELECT GROUP_CONCAT(a.t) FROM {JOIN}",
    "JSON_ARRAYAGG": f"SELECT JSON_ARRAYAGG(a.t) FROM {JOIN}",
    "a recursion": "WITH RECURSIVE c AS (SELECT CAST('x' AS CHAR(100000000)) AS s, 1 AS n"
    " UNION ALL SELECT CONCAT(s, s), n + 1 FROM c WHERE n < 28) SELECT COUNT(*) FROM c",
}


@pytest.mark.parametrize("statement", LARGE_ROWS.values(), ids=LARGE_ROWS.keys())
def test_rows_that_are_joined_stay_within_the_quota(roomy: NodeProcess, statement: str) -> None:
    quota = 100 * MB
    with roomy.connect("m") as client:
        client.autocommit(True)
        client.query("UPDATE big SET t = REPEAT(CHAR(97 + id), 100000) WHERE id < 30")
        client.query("SELECT COUNT(DISTINCT UPPER(t)) FROM big")
        client.query(f"SET tidb_mem_quota_query = {quota}")
        with Peak(roomy) as peak:
            assert ended(client, statement) == 8175
            assert peak.grown < SHARE * quota + 96 * MB  # DuckDB has 64 for itself
        assert ended(client, "SELECT SUM(LENGTH(t)) FROM big") == 0


def test_a_row_is_sent_value_by_value(roomy: NodeProcess) -> None:
    with roomy.connect("m") as client, Peak(roomy) as peak:
        rows = client.cursor(pymysql.cursors.SSCursor)
        rows.execute("SELECT " + ", ".join(["REPEAT('x', 50000000)"] * 8))
        (row,) = rows.fetchall()
        assert [len(value) for value in row] == [50_000_000] * 8
        assert peak.grown < 600 * MB
    peak.settle(150 * MB, 10.0)


def test_a_node_ends_its_largest_statement(roomy: NodeProcess) -> None:
    with roomy.connect("m") as admin, roomy.connect("m") as small, roomy.connect("m") as large:
        base = Peak(roomy).before
        admin.query(f"SET GLOBAL tidb_server_memory_limit = {max(512 * MB, base + 300 * MB)}")
        try:
            with Peak(roomy) as peak:
                small.query("SET @v = REPEAT('v', 60000000), @w = REPEAT('w', 60000000)")
                assert ended(large, "SELECT REPEAT(v, 4000000), SLEEP(0.02) FROM big") == 8176
                assert peak.grown < 600 * MB
            assert ended(small, "SELECT LENGTH(@v)") == 0
        finally:
            admin.query("SET GLOBAL tidb_server_memory_limit = DEFAULT")
    assert "tidb_server_memory_limit ends the largest statement" in roomy.log.read_text()


# -- what others wait ------------------------------------------------------------------------------

PATIENCE_S = 0.3
ENDED_S = 0.2  # after a KILL
ATTEMPTS = 3
SIZE, FUZZ_QUOTA = 4_000_000, 200 * MB
COMPRESS = 0x20
_SPIN_S = 0.2


def crowd() -> float:
    """How much longer than its processor time a computation takes: 1.0 on a machine at rest."""
    began, used = time.monotonic(), time.thread_time()
    while time.thread_time() - used < _SPIN_S:
        pass
    return max(1.0, (time.monotonic() - began) / _SPIN_S)


def judge(node: NodeProcess, pingers: Pingers, work: Callable[[], object], most: int) -> None:
    """The work takes at most so many bytes, and nobody waits for long meanwhile."""
    seen = []
    for _ in range(ATTEMPTS):
        pingers.waits()
        with Peak(node) as peak:
            work()
        longest_s, own_delay_s = pingers.waits()
        assert peak.grown < most, f"{peak.grown >> 20} MB"
        if longest_s < PATIENCE_S + own_delay_s:
            return
        patience_s = PATIENCE_S * crowd()
        if longest_s < patience_s + own_delay_s:
            return
        seen.append(f"{longest_s:.2f} s of {patience_s:.2f} + {own_delay_s:.2f}")
    raise AssertionError(f"others waited {', '.join(seen)}")


@pytest.fixture(scope="module")
def pingers(roomy: NodeProcess) -> Iterator[Pingers]:
    with Pingers(roomy.port) as found:
        yield found


# -- every function and operator -------------------------------------------------------------------

_BLOCKING = ("sleep", "benchmark", "get_lock", "is_free_lock", "is_used_lock", "release_lock")
_SEQUENCES = ("nextval", "lastval", "setval")
_ARGUMENTS = {"i": str(SIZE), "n": "20.5", "f": "2.5", "t": "NOW()", "D": "NOW()", "m": "NOW()"}
OWN_ARGUMENTS = {
    "concat": "@b, @b, @b",
    "concat_ws": "@s, @b, @b, @b",
    "conv": "@b, 16, 10",
    "elt": "1, @b",
    "export_set": "5, @s, @s",
    "from_base64": "TO_BASE64(@b)",
    "insert": "@b, 1, 0, @b",
    "json_extract": "@j, '$[*]'",
    "json_search": "@j, 'all', '1%'",
    "lpad": f"'x', {SIZE}, 'yz'",
    "make_set": "3, @b, @b",
    "mid": f"@b, 2, {SIZE}",
    "repeat": f"'xy', {SIZE // 2}",
    "replace": "@b, 'x', 'yyy'",
    "rpad": f"'x', {SIZE}, 'yz'",
    "substr": "@b, 2",
    "substring": "@b, 2",
    "substring_index": "@b, 'q', 5",
    "translate": "@b, 'x', 'y'",
    "uncompress": "COMPRESS(@b)",
    "unhex": "@h",
}
OPERATIONS = {
    "=": "@b = CONCAT(@b, 'x')",
    "CASE": "CASE 1 WHEN 1 THEN @b END",
    "CAST AS BINARY": "CAST(@b AS BINARY)",
    "CAST AS BINARY(n)": f"CAST(@s AS BINARY({SIZE}))",
    "CAST AS JSON": "CAST(@j AS JSON)",
    "CONCAT of wide signs": "CONCAT(@w, @w)",
    "CONVERT USING": "CONVERT(@w USING gbk)",
    "IN": "@b IN (@h, @j)",
    "JSON_ARRAY": "JSON_ARRAY(@b, @b)",
    "JSON_ARRAY_APPEND": "JSON_ARRAY_APPEND(@j, '$', @b)",
    "JSON_OBJECT": "JSON_OBJECT('a', @b)",
    "JSON_SET": "JSON_SET(@j, '$[1]', @b)",
    "JSON_TABLE": "(SELECT COUNT(*) FROM JSON_TABLE(@j, '$[*]' COLUMNS(a INT PATH '$')) t)",
    "LIKE": "@b LIKE '%y'",
    "REGEXP_REPLACE": "REGEXP_REPLACE(@b, 'x', 'yy')",
    "REGEXP_SUBSTR": "REGEXP_SUBSTR(@b, 'x+')",
    "UPPER of wide signs": "UPPER(@w)",
    "WEIGHT_STRING": "WEIGHT_STRING(@b)",
}


def call_of(name: str) -> str:
    """A call of a function with arguments that make it long."""
    if name in OWN_ARGUMENTS:
        return f"{name}({OWN_ARGUMENTS[name]})"
    function, parts = FUNCTIONS[name], []
    for n in range(function.least):
        letter = function.kinds[min(n, len(function.kinds) - 1)]
        text = "@b" if n == 0 else "'a'"
        parts.append("@j" if letter == "j" else _ARGUMENTS.get(letter, text))
    return f"{name}({', '.join(parts)})"


CALLS = {
    name: call_of(name) for name in FUNCTIONS if name not in (*_BLOCKING, *_SEQUENCES)
} | OPERATIONS
SAMPLE = ("hex", "replace", "upper", "JSON_OBJECT", "CONCAT of wide signs", "CAST AS BINARY(n)")


@pytest.fixture(scope="module")
def variables(roomy: NodeProcess) -> Iterator[Any]:
    with roomy.connect("m", autocommit=True) as client:
        for text in (
            f"SET @b = REPEAT('x', {SIZE}), @w = REPEAT('\u00e9', {SIZE // 2})",
            f"SET @h = REPEAT('78', {SIZE // 2}), @s = REPEAT('s', 100000)",
            f"SET @j = CONCAT('[1', REPEAT(',1', {SIZE // 8}), ']')",
            f"SET tidb_mem_quota_query = {FUZZ_QUOTA}, max_execution_time = 20000",
        ):
            client.query(text)
        yield client


def run_calls(client: Any, call: str, count: int) -> None:
    rows = client.cursor(pymysql.cursors.SSCursor)
    with contextlib.suppress(pymysql.err.ProgrammingError, pymysql.err.OperationalError):
        rows.execute(f"SELECT {', '.join([call] * count)}")
        for _ in rows:
            pass
    with contextlib.suppress(pymysql.MySQLError):
        rows.close()
    client.ping(reconnect=False)


@pytest.mark.parametrize("name", SAMPLE)
def test_a_function_stays_in_its_quota_and_holds_up_nobody(
    roomy: NodeProcess, pingers: Pingers, variables: Any, name: str
) -> None:
    most = int(SHARE * FUZZ_QUOTA) + 64 * MB
    judge(roomy, pingers, lambda: run_calls(variables, CALLS[name], 60), most)


@pytest.mark.long
@pytest.mark.parametrize("count", [1, 60])
@pytest.mark.parametrize("name", CALLS)
def test_every_function_stays_in_its_quota_and_holds_up_nobody(
    roomy: NodeProcess, pingers: Pingers, variables: Any, name: str, count: int
) -> None:
    most = int(SHARE * FUZZ_QUOTA) + 64 * MB
    judge(roomy, pingers, lambda: run_calls(variables, CALLS[name], count), most)


# -- what clients send -----------------------------------------------------------------------------


def packets_of(payload: bytes) -> bytes:
    """A payload as packets."""
    found, most = [], 0xFFFFFF
    for n, start in enumerate(range(0, len(payload) + 1, most)):
        part = payload[start : start + most]
        found.append(struct.pack("<I", len(part) | n << 24) + part)
    return b"".join(found)


def frames_of(stream: bytes) -> bytes:
    """A stream as compressed frames."""
    found, most = b"", 0xFFFFFF
    for n, start in enumerate(range(0, len(stream), most)):
        part = stream[start : start + most]
        deflated = zlib.compress(part, 9)
        found += struct.pack("<I", len(deflated) | n << 24) + len(part).to_bytes(3, "little")
        found += deflated
    return found


def send_all(port: int, data: bytes, clients: int, capabilities: int = 0) -> None:
    """Each of the clients sends it, and reads the beginning of an answer."""
    connections = [log_in(port, capabilities) for _ in range(clients)]

    def ask(connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            connection.sendall(data)
            connection.recv(1)

    asking = [threading.Thread(target=ask, args=(each,)) for each in connections]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join(120.0)
    for connection in connections:
        connection.close()


LARGE_TEXT = packets_of(b"\x03SELECT 1 /*" + b" " * (63 * MB) + b"*/")


@pytest.mark.alone
def test_a_statement_of_many_packets_holds_up_nobody(roomy: NodeProcess, pingers: Pingers) -> None:
    judge(roomy, pingers, lambda: send_all(roomy.port, LARGE_TEXT, 1), 300 * MB)


@pytest.mark.alone
@pytest.mark.long
@pytest.mark.parametrize("clients", [1, 20])
@pytest.mark.parametrize("is_packed", [False, True], ids=["plain", "compressed"])
def test_statements_of_many_packets_hold_up_nobody(
    roomy: NodeProcess, pingers: Pingers, clients: int, is_packed: bool
) -> None:
    data = frames_of(LARGE_TEXT) if is_packed else LARGE_TEXT
    capabilities = COMPRESS if is_packed else 0
    judge(roomy, pingers, lambda: send_all(roomy.port, data, clients, capabilities), 800 * MB)


def test_unfinished_packets_have_a_bound_together(roomy: NodeProcess) -> None:
    data = struct.pack("<I", 0xFFFFFF) + b"\x03" + b"x" * (15 * MB)
    connections = [log_in(roomy.port) for _ in range(30)]
    for connection in connections:
        connection.settimeout(0.2)

    def send(connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            connection.sendall(data)

    with Peak(roomy) as peak:
        sending = [threading.Thread(target=send, args=(each,)) for each in connections]
        for thread in sending:
            thread.start()
        for thread in sending:
            thread.join()
        with roomy.connect("m") as other:  # what is small has its room
            assert other.query("SELECT 1") == 1
        assert peak.grown < 250 * MB
    whole = threading.Thread(target=send_all, args=(roomy.port, packets_of(b"\x03" + b" " * MB), 1))
    whole.start()
    for connection in connections:
        connection.close()
    whole.join(30.0)
    assert not whole.is_alive(), "nobody else may send"


TEXTS = {
    "a comment": "SELECT 1 /*" + "x" * (40 * MB) + "*/",
    "a comment before": "/*" + "x" * (40 * MB) + "*/ SELECT 1",
    "a line comment": "-- " + "x" * (40 * MB) + "\nSELECT 1",
    "a hint": "/*! SELECT " + " " * (40 * MB) + " 1 */",
    "a literal": "SELECT '" + "a" * (40 * MB) + "' = 1",
    "a literal of wide signs": "SELECT '" + "\u00e9" * (20 * MB) + "'",
    "a name": "SELECT `" + "`" * (20 * MB),
    "semicolons": ";" * (20 * MB),
    "zero bytes": "\0" * (30 * MB),
    "IN": "SELECT v FROM big WHERE id IN (" + ",".join(map(str, range(1_100_000))) + ")",
    "a recursion": "WITH RECURSIVE c AS (SELECT CAST('x' AS CHAR(100000000)) AS s, 1 AS n UNION ALL"
    " SELECT CONCAT(s, s), n + 1 FROM c WHERE n < 28) SELECT COUNT(*) FROM c",
    "a result": "SELECT REPEAT('xyz', 20000000)",
}


@pytest.mark.alone
@pytest.mark.long
@pytest.mark.parametrize("name", TEXTS)
def test_texts_hold_up_nobody(roomy: NodeProcess, pingers: Pingers, name: str) -> None:
    data = packets_of(b"\x03" + TEXTS[name].encode())

    def work() -> None:
        connection = log_in(roomy.port)
        connection.settimeout(60.0)
        connection.sendall(data)
        packet(connection)
        connection.close()

    judge(roomy, pingers, work, int(SHARE * QUOTA))


@pytest.mark.long
def test_user_variables_stay_in_the_quota(roomy: NodeProcess, pingers: Pingers) -> None:
    def work() -> None:
        with roomy.connect("m") as client:
            for n in range(1000):
                if code := ended(client, f"SET @v{n} = REPEAT('x', 60000000)"):
                    assert code == 8175
                    return
            raise AssertionError("60 GB")

    judge(roomy, pingers, work, int(SHARE * QUOTA) + 64 * MB)


# -- within one call -------------------------------------------------------------------------------

WORKING = {
    "HEX": "HEX(@v)",
    "QUOTE": "QUOTE(@q)",
    "REPLACE": "REPLACE(@v, 'x', 'yy')",
    "TO_BASE64": "TO_BASE64(@v)",
    "UPPER": "UPPER(@v)",
    "COMPRESS": "COMPRESS(@v)",
    "REVERSE": "REVERSE(@v)",
}


@pytest.mark.long
@pytest.mark.parametrize("call", WORKING.values(), ids=WORKING.keys())
def test_a_statement_ends_within_one_call(roomy: NodeProcess, call: str) -> None:
    with roomy.connect("m", autocommit=True) as victim, roomy.connect("m") as killer:
        victim.query("SET @v = REPEAT('x', 30000000), @q = REPEAT('\\'', 30000000)")
        victim.query("SET tidb_mem_quota_query = 4294967296")
        took_s, codes = list[float](), list[int]()
        text = f"SELECT {', '.join(f'LENGTH({call})' for _ in range(40))}"
        for _ in range(ATTEMPTS):
            limit_s = ENDED_S * crowd()
            codes.clear()
            running = threading.Thread(target=lambda: codes.append(ended(victim, text)))
            running.start()
            running.join(0.15)
            killed = time.monotonic()
            killer.query(f"KILL QUERY {victim.thread_id()}")
            running.join()
            took_s.append(time.monotonic() - killed)
            assert codes == [1317]
            if took_s[-1] < limit_s:
                return
        raise AssertionError(f"ended {took_s} s after the KILL")
