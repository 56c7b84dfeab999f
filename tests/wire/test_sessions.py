"""Session features of MySQL's protocol: cursors, resets, time-outs, limits."""

import struct
from collections.abc import Iterator

import pymysql
import pytest

from exuvia.base.errors import Refused
from exuvia.server.prepared import LongData, Statement
from support.node_processes import NodeProcess, until

CURSOR_EXISTS, LAST_ROW_SENT = 0x40, 0x80


@pytest.fixture
def client(node: NodeProcess) -> Iterator[pymysql.Connection]:
    with node.connect("test", autocommit=True) as opened:
        yield opened


def run(connection: pymysql.Connection, *texts: str) -> list[tuple[object, ...]]:
    with connection.cursor() as cursor:
        for text in texts:
            cursor.execute(text)
        return list(cursor.fetchall())


def command(connection: pymysql.Connection, number: int, payload: bytes) -> None:
    connection.send_command(number, payload)


def packets_to_end(connection: pymysql.Connection) -> tuple[list[bytes], int]:
    """The rows up to the packet that ends them, and its status."""
    rows = []
    while True:
        packet = connection.read_packet()
        if packet.is_eof_packet():
            return rows, struct.unpack_from("<H", packet.get_all_data(), 3)[0]
        rows.append(packet.get_all_data())


def prepared(connection: pymysql.Connection, text: str) -> int:
    command(connection, 0x16, text.encode())
    head = connection.read_packet().get_all_data()
    number, columns, parameters = struct.unpack_from("<IHH", head, 1)
    for count in (parameters, columns):
        if count:
            packets_to_end(connection)
    return int(number)


def test_a_cursor_gives_its_rows_in_parts(client: pymysql.Connection) -> None:
    run(client, "CREATE TABLE parts (id INT PRIMARY KEY)")
    run(client, "INSERT INTO parts VALUES (1), (2), (3), (4), (5)")
    statement = prepared(client, "SELECT id FROM parts ORDER BY id")

    def execute(flags: int) -> tuple[list[bytes], int]:
        command(client, 0x17, struct.pack("<IBI", statement, flags, 1))
        assert client.read_packet().get_all_data() == b"\x01"
        return packets_to_end(client)

    def fetch(count: int) -> tuple[list[int], int]:
        command(client, 0x1C, struct.pack("<II", statement, count))
        rows, status = packets_to_end(client)
        return [struct.unpack_from("<i", row, 2)[0] for row in rows], status & 0xC0

    definitions, status = execute(1)
    assert (len(definitions), status & CURSOR_EXISTS) == (1, CURSOR_EXISTS)
    assert fetch(2) == ([1, 2], CURSOR_EXISTS)
    run(client, "DELETE FROM parts WHERE id > 3")  # the cursor has what it was opened with
    assert fetch(2) == ([3, 4], CURSOR_EXISTS)
    assert fetch(2) == ([5], LAST_ROW_SENT)
    command(client, 0x1A, struct.pack("<I", statement))
    client.read_packet()
    with pytest.raises(pymysql.err.OperationalError) as caught:
        fetch(1)
    assert caught.value.args[0] == 1421
    execute(0)
    assert len(packets_to_end(client)[0]) == 3
    run(client, "DROP TABLE parts")


def test_a_reset_forgets_the_session_and_stays_in_its_database(
    client: pymysql.Connection,
) -> None:
    run(client, "CREATE DATABASE IF NOT EXISTS elsewhere", "USE elsewhere")
    run(client, "SET @a = 1, time_zone = '+05:00'", "CREATE TEMPORARY TABLE gone (id INT)")
    number = run(client, "SELECT CONNECTION_ID()")
    statement = prepared(client, "SELECT 1")
    command(client, 0x1F, b"")
    client.read_packet()
    state = run(client, "SELECT DATABASE(), @a, @@time_zone, CONNECTION_ID()")
    assert state == [("elsewhere", None, "SYSTEM", number[0][0])]
    with pytest.raises(pymysql.err.ProgrammingError):
        run(client, "SELECT * FROM gone")
    command(client, 0x17, struct.pack("<IBI", statement, 0, 1))
    with pytest.raises(pymysql.MySQLError) as caught:
        client.read_packet()
    assert caught.value.args[0] == 1243


def test_a_silent_client_is_sent_away_after_wait_timeout(node: NodeProcess) -> None:
    with node.connect(autocommit=True) as silent, node.connect(autocommit=True) as watcher:
        number = silent.thread_id()
        run(silent, "SET wait_timeout = 1")
        listed = f"SELECT 1 FROM information_schema.processlist WHERE ID = {number}"
        assert run(watcher, listed) == [(1,)]
        until(lambda: not run(watcher, listed))
        with pytest.raises(pymysql.err.OperationalError) as caught:
            run(silent, "SELECT 1")
        assert caught.value.args[0] in (4031, 2006, 2013)


def test_who_stops_within_a_packet_is_sent_away(node: NodeProcess) -> None:
    with node.connect(autocommit=True) as half, node.connect(autocommit=True) as watcher:
        number = half.thread_id()
        run(half, "SET net_read_timeout = 1")
        listed = f"SELECT 1 FROM information_schema.processlist WHERE ID = {number}"
        assert run(watcher, listed) == [(1,)]
        half.write_bytes(b"\xff\xff\xff\0\x03SELECT")
        until(lambda: not run(watcher, listed))


def test_max_connections_is_obeyed(node: NodeProcess) -> None:
    with node.connect(autocommit=True) as one:
        there = len(run(one, "SHOW PROCESSLIST"))
        run(one, f"SET GLOBAL max_connections = {there}")

        def is_full() -> bool:
            try:
                node.connect().close()
            except pymysql.err.OperationalError as error:
                return bool(error.args[0] == 1040)
            return False

        until(is_full)
        run(one, "SET GLOBAL max_connections = 0")

        def has_room() -> bool:
            try:
                node.connect().close()
            except pymysql.err.OperationalError:
                return False
            return True

        until(has_room)


def send_long(client: pymysql.Connection, statement: int, position: int, part: bytes) -> None:
    body = b"\x18" + struct.pack("<IH", statement, position) + part
    client.write_bytes(struct.pack("<I", len(body))[:3] + b"\0" + body)


def test_long_data_of_an_unknown_parameter_fails_at_execute_and_is_not_stored(
    client: pymysql.Connection,
) -> None:
    statement = prepared(client, "SELECT LENGTH(?)")
    for position in range(1, 200):
        send_long(client, statement, position, bytes(1000))
    values = struct.pack("<IBI", statement, 0, 1) + b"\0\x01" + bytes((253, 0)) + b"\x01x"
    for _ in range(2):  # until it is reset, as in MySQL
        command(client, 0x17, values)
        with pytest.raises(pymysql.err.MySQLError) as caught:
            client.read_packet()
        message = "Incorrect arguments to mysqld_stmt_send_long_data"
        assert caught.value.args == (1210, message)
    command(client, 0x1A, struct.pack("<I", statement))
    client.read_packet()
    command(client, 0x17, values)
    client.read_packet()
    packets_to_end(client)
    [row] = packets_to_end(client)[0]
    assert row[2:10] == struct.pack("<q", 1)


def test_a_connection_holds_one_packet_of_long_data_at_most() -> None:
    """The limit is for all statements and parameters. Executing, resetting or closing frees their
    bytes."""
    stored = LongData()
    first, second = Statement(None, 2, stored), Statement(None, 1, stored)
    first.append(0, bytes(600), 1000)
    second.append(0, bytes(400), 1000)
    assert stored.bytes == 1000 and second.refused is None
    first.append(1, bytes(1), 1000)
    assert first.refused is not None and first.refused.code == 1105
    assert stored.bytes == 400 and not first.long_data
    first.append(0, bytes(1), 1000)
    assert stored.bytes == 400
    first.clear()
    first.append(0, bytes(600), 1000)
    assert first.refused is None and stored.bytes == 1000
    with pytest.raises(Refused):
        second.read(b"", "utf-8")
    assert stored.bytes == 600


def test_long_data_is_the_value_until_it_is_reset(client: pymysql.Connection) -> None:
    statement = prepared(client, "SELECT LENGTH(?), ?")
    for part in (b"abc", b"def"):
        client.write_bytes(
            struct.pack("<I", 7 + len(part))[:3]
            + b"\0\x18"
            + struct.pack("<IH", statement, 0)
            + part
        )

    def execute() -> bytes:
        types = bytes((253, 0, 253, 0))
        command(
            client, 0x17, struct.pack("<IBI", statement, 0, 1) + b"\0\x01" + types + b"\x01x\x01y"
        )
        client.read_packet()
        packets_to_end(client)
        return packets_to_end(client)[0][0]

    payload = struct.pack("<IBI", statement, 0, 1) + b"\0\x01" + bytes((253, 0, 253, 0)) + b"\x01y"
    command(client, 0x17, payload)
    client.read_packet()
    packets_to_end(client)
    [row] = packets_to_end(client)[0]
    assert row[2:10] == struct.pack("<q", 6)
    assert execute()[2:10] == struct.pack("<q", 1)
