"""Clients that ask get the compressed protocol; what cannot be inflated is refused."""

import subprocess
import zlib
from typing import Any

import mysql.connector
import pytest

from exuvia.base.errors import Refused
from exuvia.server.transport import Compressed, CompressedFrame
from support.node_processes import NodeProcess


def test_mysql_connector(node: NodeProcess) -> None:
    connection: Any = mysql.connector.connect(
        host="127.0.0.1", port=node.port, user="root", database="test", compress=True, use_pure=True
    )
    cursor = connection.cursor()
    cursor.execute("SELECT 1")
    assert cursor.fetchall() == [(1,)]
    cursor.execute("CREATE TABLE packed (id int PRIMARY KEY, v mediumtext)")
    text = "compress me " * 50_000
    cursor.execute("INSERT INTO packed VALUES (1, %s), (2, 'x')", (text,))
    connection.commit()
    cursor.execute("SELECT v FROM packed ORDER BY id")
    assert cursor.fetchall() == [(text,), ("x",)]
    cursor.execute("DROP TABLE packed")
    connection.close()


def test_command_line(node: NodeProcess) -> None:
    command = ["mysql", "--compress", "-h127.0.0.1", f"-P{node.port}", "-uroot", "-N"]
    text = "SELECT REPEAT('ab', 5000); SELECT 7"
    done = subprocess.run([*command, "-e", text], capture_output=True, text=True, timeout=20)
    assert done.stdout.split() == ["ab" * 5000, "7"], done.stderr


class Recorded:
    """A transport that records written bytes."""

    def __init__(self) -> None:
        self.sent = bytearray()

    def write(self, data: bytes) -> None:
        self.sent += data


@pytest.mark.parametrize("size", [0, 1, 149, 150, 10_000, (1 << 24) + 5])
def test_what_is_written_can_be_fed(size: int) -> None:
    below: Any = Recorded()
    data = bytes(n * n % 251 for n in range(1000)) * (size // 1000 + 1)
    Compressed(below).write(data[:size])
    reader, plain = Compressed(below), bytearray()
    for start in range(0, len(below.sent), 65_521):
        reader.put(bytes(below.sent[start : start + 65_521]))
        while (frame := reader.frame()) is not None:
            plain += b"".join(frame.inflated())
    assert (plain, reader.waiting) == (data[:size], 0)


@pytest.mark.parametrize("before", [9, 10, 1 << 20])
def test_what_cannot_be_inflated_is_1157(before: int) -> None:
    bomb = zlib.compress(bytes(1 << 19))
    for part in (b"garbage", bomb, bomb[:9]):
        with pytest.raises(Refused, match="uncompress"):
            CompressedFrame(part, before).inflated()
