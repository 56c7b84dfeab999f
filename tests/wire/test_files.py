"""LOAD DATA [LOCAL] INFILE and SELECT ... INTO OUTFILE with real clients."""

import csv
import struct
import subprocess
import threading
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from time import monotonic

import pymysql
import pytest

from exuvia.base.errors import Refused
from exuvia.sql.files import write_file
from support.node_processes import NodeProcess, RawConnection, running_nodes, until

ROWS = 12_345


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


@pytest.fixture(scope="module")
def node(folder: Path) -> Iterator[NodeProcess]:
    (folder / "open").mkdir()
    with running_nodes(folder, options=("--secure-file-priv", str(folder / "open"))) as [started]:
        with connected(started) as client:
            client.query("CREATE DATABASE files")
        yield started


def connected(node: NodeProcess, **more: object) -> RawConnection:
    return RawConnection(
        host="127.0.0.1", port=node.port, user="root", autocommit=True, local_infile=True, **more
    )  # type: ignore[call-overload, no-any-return]


def rows(client: RawConnection, text: str) -> list[tuple[object, ...]]:
    with client.cursor() as cursor:
        cursor.execute(text)
        return list(cursor.fetchall())


def refused(client: RawConnection, text: str) -> int:
    with pytest.raises(pymysql.MySQLError) as caught:
        client.cursor().execute(text)
    return int(caught.value.args[0])


@pytest.fixture
def client(node: NodeProcess) -> Iterator[RawConnection]:
    with connected(node, database="files") as opened:
        opened.query("DROP TABLE IF EXISTS t")
        opened.query("CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(40), amount DECIMAL(8, 2))")
        yield opened


def test_a_clients_file_in_batches(client: RawConnection, folder: Path) -> None:
    path = folder / "many.csv"
    with path.open("w", newline="") as file:
        for n in range(ROWS):
            csv.writer(file, lineterminator="\n").writerow([n, f'a "quoted", name\n{n}', n / 4])
    with client.cursor() as cursor:
        affected = cursor.execute(
            f"LOAD DATA LOCAL INFILE '{path}' INTO TABLE t FIELDS TERMINATED BY ','"
            " OPTIONALLY ENCLOSED BY '\"' ESCAPED BY ''"
        )
    assert affected == ROWS
    sums = rows(client, "SELECT count(*), sum(id), sum(amount) FROM t")[0]
    total = ROWS * (ROWS - 1) // 2
    assert [float(total_of) for total_of in sums] == [ROWS, total, total / 4]  # type: ignore[arg-type]
    assert rows(client, "SELECT name FROM t WHERE id = 7") == [('a "quoted", name\n7',)]
    assert rows(client, "SELECT 1 + 1") == [(2,)]  # the protocol goes on


def test_auto_id_cache_1_takes_ids_by_batch(
    node: NodeProcess, client: RawConnection, folder: Path
) -> None:
    """While others take ids one by one, the ids of one batch are consecutive."""
    path = folder / "values.csv"
    path.write_text("".join(f"{n}\n" for n in range(1000)))
    client.query("DROP TABLE IF EXISTS ids")
    client.query("CREATE TABLE ids (id INT AUTO_INCREMENT PRIMARY KEY, v INT) AUTO_ID_CACHE 1")
    over, started = threading.Event(), threading.Event()

    def take() -> None:
        with connected(node, database="files") as other:
            while not over.is_set():
                other.query("INSERT INTO ids (v) VALUES (-1)")
                started.set()

    taking = threading.Thread(target=take)
    taking.start()
    try:
        assert started.wait(30)
        client.query(f"LOAD DATA LOCAL INFILE '{path}' INTO TABLE ids (v)")
    finally:
        over.set()
        taking.join()
    shape = "SELECT COUNT(*), MAX(id) - MIN(id), MIN(v), MAX(v) FROM ids WHERE v >= 0"
    assert rows(client, shape) == [(1000, 999, 0, 999)]


def test_fields_variables_and_set(client: RawConnection, folder: Path) -> None:
    path = folder / "some.txt"
    path.write_text("head\nid\tn\n1\tone\\ttab\n2\t\\N\n3\tthree\textra\n4\n1\tagain\nx\ty\n")
    with client.cursor() as cursor:
        cursor.execute(
            f"LOAD DATA LOCAL INFILE '{path}' INTO TABLE t IGNORE 2 LINES (id, @name)"
            " SET name = concat('<', @name, '>'), amount = id * 2"
        )
        cursor.execute("SHOW WARNINGS")
        codes = [code for _, code, _ in cursor.fetchall()]
    assert codes == [1262, 1261, 1062, 1366]
    assert [(i, n) for i, n, _ in rows(client, "SELECT * FROM t ORDER BY id")] == [
        (0, "<y>"), (1, "<one\ttab>"), (2, None), (3, "<three>"), (4, None),
    ]  # fmt: skip


def test_replace_and_transactions(client: RawConnection, folder: Path) -> None:
    client.query("INSERT INTO t VALUES (1, 'old', 1), (9, 'nine', 9)")
    path = folder / "replace.txt"
    path.write_text("1\tnew\t2\r\n2\ttwo\t3\r\n")
    load = f"LOAD DATA LOCAL INFILE '{path}' REPLACE INTO TABLE t LINES TERMINATED BY '\\r\\n'"
    client.begin()
    client.query(load)
    assert b"Records: 2  Deleted: 1  Skipped: 0  Warnings: 0" in client.result.message  # type: ignore[union-attr]
    client.rollback()
    assert rows(client, "SELECT id, name FROM t ORDER BY id") == [(1, "old"), (9, "nine")]
    client.query(load)
    names = rows(client, "SELECT name FROM t ORDER BY id")
    assert names == [("new",), ("two",), ("nine",)]


def test_a_binary_file_has_the_bytes_of_each_column(client: RawConnection, folder: Path) -> None:
    """Dumps are loaded so: by mydumper, and by mysqlimport of a dump in several character sets."""
    path = folder / "binary.txt"
    path.write_bytes("1\tä€😀\té\tb\n".encode() + b"2\tx\xe4y\t\xe9\ta\n")
    client.query("DROP TABLE IF EXISTS texts")
    client.query(
        "CREATE TABLE texts (id INT, u VARCHAR(9), l VARCHAR(9) CHARSET latin1,"
        " e ENUM('a', 'b'), v VARCHAR(9))"
    )
    client.query(
        f"LOAD DATA LOCAL INFILE '{path}' INTO TABLE texts CHARACTER SET binary"
        " (id, @u, l, e) SET u = @u, v = CONCAT(@u, l)"
    )
    assert [code for _, code, _ in rows(client, "SHOW WARNINGS")] == [1300]
    client.query(
        f"LOAD DATA LOCAL INFILE '{path}' INTO TABLE texts CHARACTER SET binary (id, u, l, e)"
    )
    assert [code for _, code, _ in rows(client, "SHOW WARNINGS")] == [1366]
    assert rows(client, "SELECT * FROM texts") == [
        (1, "ä€😀", "é", "b", "ä€😀é"), (2, "x?y", "é", "a", "x?yé"),
        (1, "ä€😀", "é", "b", None), (2, "x?y", "é", "a", None),
    ]  # fmt: skip


@pytest.mark.parametrize("charset", ["gbk", "gb18030"])
def test_a_character_may_end_in_the_byte_of_a_sign(
    client: RawConnection, folder: Path, charset: str
) -> None:
    path = folder / "open" / "wide.txt"
    last = "é" if charset == "gbk" else "😀"
    texts = ["誠", "誠n", "a\\tb", "誠\\\tq", last]
    lines = [f"{n}\t{text}\tz\n" for n, text in enumerate(texts, 1)]
    path.write_bytes("".join(lines).encode(charset) + b"9\t\xff\xfe\tz\n")
    assert b"\\\t" in path.read_bytes()
    client.query("DROP TABLE IF EXISTS texts")
    client.query("CREATE TABLE texts (id INT, v VARCHAR(9), w VARCHAR(9), b VARBINARY(9))")
    load = f"INFILE '{path}' INTO TABLE texts CHARACTER SET {charset}"
    client.query(f"LOAD DATA LOCAL {load} (id, v, w)")
    stored = ["誠", "誠n", "a\tb", "誠\tq", last, "??"]
    assert rows(client, "SELECT v, w FROM texts") == [(text, "z") for text in stored]
    client.query("DELETE FROM texts")
    client.query(f"LOAD DATA {load} (id, b, w)")
    read = [text.encode(charset) for text in stored[:5]] + [b"\xff\xfe"]
    assert rows(client, "SELECT b, w FROM texts") == [(raw, "z") for raw in read]


def test_every_byte_of_latin1_is_a_character(client: RawConnection, folder: Path) -> None:
    path = folder / "open" / "narrow.txt"
    path.write_bytes(b"1\t\x80\x81\x8d\x8f\x90\x9d\xff\n")
    client.query(f"LOAD DATA INFILE '{path}' INTO TABLE t CHARACTER SET latin1 (id, name)")
    assert rows(client, "SELECT name FROM t") == [("€\x81\x8d\x8f\x90\x9dÿ",)]


@pytest.mark.parametrize("charset", ["utf8mb4", "ascii"])
@pytest.mark.parametrize("field", ["name", "@name"])
def test_bytes_that_are_no_character(
    client: RawConnection, folder: Path, charset: str, field: str
) -> None:
    path = folder / "open" / "invalid.txt"
    path.write_bytes(b"1\tgood\n2\tx\xffy\n")
    load = f"INFILE '{path}' INTO TABLE t CHARACTER SET {charset} (id, {field})"
    load += " SET name = @name" if field == "@name" else ""
    assert refused(client, "LOAD DATA " + load) == 1300
    assert rows(client, "SELECT id FROM t") == []
    client.query("LOAD DATA LOCAL " + load)
    assert rows(client, "SHOW WARNINGS") == [
        ("Warning", 1300, f"Invalid {charset} character string: '\\xFFy'")
    ]
    assert rows(client, "SELECT id, name FROM t") == [(1, "good"), (2, "x?y")]


def test_a_file_that_is_refused_leaves_the_protocol_whole(
    client: RawConnection, folder: Path
) -> None:
    path = folder / "large.txt"
    path.write_text("".join(f"{n}\tname\t1\n" for n in range(400_000)))
    assert refused(client, f"LOAD DATA LOCAL INFILE '{path}' INTO TABLE nope") == 1146
    assert rows(client, "SELECT count(*) FROM t") == [(0,)]
    assert refused(client, "LOAD DATA LOCAL INFILE '/no/such/file' INTO TABLE t") == 1017
    client.query("SET GLOBAL local_infile = OFF")
    assert refused(client, f"LOAD DATA LOCAL INFILE '{path}' INTO TABLE t") == 3948
    client.query("SET GLOBAL local_infile = ON")


def sent(client: RawConnection, statement: str, parts: Iterable[bytes]) -> bytes:
    """The answer to LOAD DATA LOCAL with the file sent in these packets."""
    client.send_command(3, statement)
    assert client.read_packet().get_all_data()[:1] == b"\xfb"
    number = 2
    for part in chain(filter(None, parts), (b"",)):
        client.write_bytes(struct.pack("<I", len(part) | number << 24) + part)
        number = number + 1 & 255
    client.expect(number)
    return bytes(client.read_packet().get_all_data())


@pytest.mark.parametrize(
    ("form", "first", "part"),
    [
        ("", b"", b"x" * 1024),
        ("FIELDS ENCLOSED BY '\"'", b'"', b"x" * 1024),
        ("LINES STARTING BY 'zz'", b"", b"x" * 1024),
        ("IGNORE 1 LINES", b"", b"x" * 1024),
        ("", b"", b"\t" * 1024),
    ],
)
def test_lines_without_end_take_linear_time(
    client: RawConnection, form: str, first: bytes, part: bytes
) -> None:
    """Long lines in small packets: some of these took minutes, and stalled other clients."""
    client.query("CREATE TABLE IF NOT EXISTS long_lines (v LONGTEXT)")
    began = monotonic()
    load = f"LOAD DATA LOCAL INFILE 'x' INTO TABLE long_lines {form}"
    assert sent(client, load, [first, *[part] * (128 if part[:1] == b"\t" else 2048)])[0] == 0
    assert monotonic() - began < 10
    client.query("DROP TABLE long_lines")


def test_a_line_larger_than_a_packet_is_refused(client: RawConnection) -> None:
    def parts() -> Iterator[bytes]:
        for _ in range(80):
            yield b"x" * (1 << 20)

    with pytest.raises(pymysql.MySQLError) as caught:
        sent(client, "LOAD DATA LOCAL INFILE 'x' INTO TABLE t", parts())
    assert caught.value.args[0] == 1153
    assert rows(client, "SELECT 1") == [(1,)]


def test_a_client_that_stops_within_its_file_is_ended_by_kill(
    node: NodeProcess, client: RawConnection
) -> None:
    """KILL QUERY releases what the statement holds, although the client sends nothing."""
    client.query("INSERT INTO t VALUES (1, 'a', 1)")
    client.query("SET SESSION autocommit = 0")
    client.query("UPDATE t SET name = 'b' WHERE id = 1")
    client.send_command(3, "LOAD DATA LOCAL INFILE 'x' INTO TABLE t")
    assert client.read_packet().get_all_data()[:1] == b"\xfb"
    part = b"2\tb\t1\n3\tc"
    client.write_bytes(struct.pack("<I", len(part) | 2 << 24) + part)
    with connected(node, database="files") as other:
        listed = f"SELECT info FROM information_schema.processlist WHERE id = {client.thread_id()}"
        until(lambda: "LOAD DATA" in str(rows(other, listed)))
        other.query(f"KILL QUERY {client.thread_id()}")
        client.write_bytes(struct.pack("<I", 3 << 24))
        client.expect(4)
        with pytest.raises(pymysql.MySQLError) as caught:
            client.read_packet()
        assert caught.value.args[0] == 1317
        client.rollback()
        assert rows(other, "SELECT id, name FROM t") == [(1, "a")]
        client.send_command(3, "LOAD DATA LOCAL INFILE 'x' INTO TABLE t")
        assert client.read_packet().get_all_data()[:1] == b"\xfb"
        other.query(f"KILL {client.thread_id()}")
        until(lambda: rows(other, listed) == [])


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), MemoryError()])
def test_a_file_that_is_not_written_whole_is_removed(tmp_path: Path, error: Exception) -> None:
    def chunks() -> Iterator[bytes]:
        yield b"secret\n"
        raise error

    with pytest.raises((Refused, MemoryError)) as caught:
        write_file(tmp_path / "out.txt", chunks())
    if isinstance(error, OSError):
        message = f"Can't create/write to file '{tmp_path}/out.txt' (No space left on device)"
        assert str(caught.value) == message
    assert not (tmp_path / "out.txt").exists()


def test_the_mysql_client_loads(node: NodeProcess, client: RawConnection) -> None:
    command = ["mysql", "-h", "127.0.0.1", "-P", str(node.port), "-u", "root", "--local-infile=1"]
    load = "LOAD DATA LOCAL INFILE '/dev/stdin' INTO TABLE files.t"
    subprocess.run([*command, "-e", load], input="5\tfive\t5\n", text=True, check=True)
    assert rows(client, "SELECT name FROM t") == [("five",)]


def test_files_of_the_host_only_where_they_may_be(
    node: NodeProcess, client: RawConnection, folder: Path
) -> None:
    client.query("INSERT INTO t VALUES (1, 'a\\tb\\n\\\\', 1.5), (2, NULL, NULL)")
    outside = folder / "outside.txt"
    outside.write_text("7\tseven\t7\n")
    for path in (str(outside), "../outside.txt", "/etc/hostname"):
        assert refused(client, f"LOAD DATA INFILE '{path}' INTO TABLE t") == 1290
        assert refused(client, f"SELECT 1 INTO OUTFILE '{path}'") == 1290
    assert refused(client, "LOAD DATA INFILE 'nope.txt' INTO TABLE t") == 29
    client.query("SELECT * FROM t ORDER BY id INTO OUTFILE 'out.txt'")
    written = (folder / "open" / "out.txt").read_text()
    assert written == "1\ta\\\tb\\\n\\\\\t1.50\n2\t\\N\t\\N\n"
    assert refused(client, "SELECT 1 INTO OUTFILE 'out.txt'") == 1086
    directory = f"{(folder / 'open').resolve()}/"
    assert rows(client, "SELECT @@secure_file_priv, @@global.secure_file_priv") == [
        (directory, directory)
    ]
    links = {
        "link": outside,
        "folder": folder,
        "round": folder / "open" / "round",
        "dangling": folder / "new.txt",
    }
    for name, to in links.items():
        (folder / "open" / name).symlink_to(to)
    client.query("CREATE TABLE IF NOT EXISTS empty LIKE t")
    for path in ("link", "folder/outside.txt", "folder/store/data.mdb", "link/../out.txt/../../x"):
        assert refused(client, f"LOAD DATA INFILE '{path}' INTO TABLE t") == 1290
        assert refused(client, f"IMPORT INTO empty FROM '{path}'") == 1290
        assert refused(client, f"SELECT 1 INTO OUTFILE '{path}'") == 1290
    for path in ("dangling", "folder/new.txt"):
        assert refused(client, f"SELECT 1 INTO DUMPFILE '{path}'") == 1290
        assert not (folder / "new.txt").exists()
    assert refused(client, "LOAD DATA INFILE 'round' INTO TABLE t") == 29
    for pattern in ("l*", "folder/*", "../*", "f*/o*", "**/outside.txt", "[.][.]/outside.txt"):
        code = refused(client, f"IMPORT INTO empty FROM '{pattern}'")
        assert code in (1290, 8173), pattern
        assert rows(client, "SELECT COUNT(*) FROM empty") == [(0,)]
    before = rows(client, "SELECT * FROM t ORDER BY id")
    client.query("TRUNCATE TABLE t")
    client.query("LOAD DATA INFILE 'out.txt' INTO TABLE t")
    assert rows(client, "SELECT * FROM t ORDER BY id") == before
    assert refused(client, "LOAD DATA INFILE 'out.txt' INTO TABLE t") == 1062
    client.query("CREATE USER reader")
    client.query("GRANT ALL ON files.* TO reader")
    with pymysql.connect(host="127.0.0.1", port=node.port, user="reader") as reader:
        assert refused(reader, "LOAD DATA INFILE 'out.txt' INTO TABLE files.t") == 1227
        assert refused(reader, "SELECT 1 INTO OUTFILE 'x.txt'") == 1227
