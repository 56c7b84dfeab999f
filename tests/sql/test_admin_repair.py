"""ADMIN CHECKSUM TABLE, ADMIN RECOVER INDEX, ADMIN CLEANUP INDEX, against planted faults."""

import random
from typing import Any

import pytest

from exuvia.base.errors import Refused
from exuvia.kv import keys as k
from exuvia.kv.packet import LIVE, TOMBSTONE
from exuvia.pipeline.verify.scan import crc64
from exuvia.sql.session.session import Session
from support.tables import only_entry
from support.world import World, run

ROWS = 700


def rows(session: Session, text: str) -> list[list[Any]]:
    return [list(row) for row in run(session, text).rows]


@pytest.fixture
def table(session: Session) -> str:
    run(session, "CREATE TABLE t (id BIGINT PRIMARY KEY, a INT, u VARCHAR(20), KEY ia (a))")
    run(session, "ALTER TABLE t ADD UNIQUE iu (u)")
    for at in range(0, ROWS, 100):
        cells = [f"({n}, {n % 9}, {f'{chr(39)}u{n}{chr(39)}' if n % 5 else 'NULL'})"
                 for n in range(at, at + 100)]  # fmt: skip
        run(session, f"INSERT INTO t VALUES {', '.join(cells)}")
    return "t"


def plant(world: World, session: Session, index_name: str, faults: str) -> None:
    """missing: the entries of rows 100 to 399; orphan: 200 entries of rows that are not there;
    taken: row 501's entry says row 502."""
    store = world.store
    txn = store.begin()
    table = world.services.schemas.table(txn, session.database, "t")
    index = table.info.index(index_name)
    assert index is not None

    def key(n: int) -> bytes:
        row = [n, n % 9, f"u{n}" if n % 5 else None]
        return only_entry(table, index, row, k.i64(n))[0]

    for n in range(100, 400) if "missing" in faults else ():
        if n % 2:
            txn.delete(key(n))
        else:
            txn.put(key(n), TOMBSTONE)
    for n in range(ROWS, ROWS + 200) if "orphan" in faults else ():
        txn.put(key(n), LIVE + (k.i64(n) if index.is_unique and n % 5 else b""))
    if "taken" in faults:
        txn.put(key(501), LIVE + k.i64(502))
    txn.commit()


def test_entries_of_ranges_of_handles(session: Session, table: str) -> None:
    found = run(session, "ADMIN CHECK INDEX t ia (3, 5), (11, 12)")
    assert [each.name for each in found.columns] == ["a", "extra_handle"]
    assert [list(row) for row in found.rows] == [[2, 11], [3, 3], [4, 4]]
    found = run(session, "ADMIN CHECK INDEX t iu (10, 12)")
    assert [list(row) for row in found.rows] == [[None, 10], ["u11", 11]]
    assert rows(session, "ADMIN CHECK INDEX t ia (5, 5)") == []
    run(session, "CREATE TABLE named (n VARCHAR(9) PRIMARY KEY, a INT, KEY ia (a))")
    with pytest.raises(Refused) as caught:
        run(session, "ADMIN CHECK INDEX named ia (1, 2)")
    assert caught.value.code == 1235


def test_there_is_no_tiflash(session: Session, table: str) -> None:
    for what in ("TABLE t", f"DATABASE {session.database}"):
        run(session, f"ALTER {what} SET TIFLASH REPLICA 0")
        with pytest.raises(Refused) as caught:
            run(session, f"ALTER {what} SET TIFLASH REPLICA 1 LOCATION LABELS 'a', 'b'")
        assert caught.value.code == 1105
        assert caught.value.message == (
            "the tiflash replica count: 1 should be less than the total tiflash server count: 0"
        )


@pytest.mark.parametrize("name", ["ia", "iu"])
def test_missing_entries_are_put_and_orphans_removed(
    client: World, session: Session, table: str, name: str
) -> None:
    assert rows(session, f"ADMIN RECOVER INDEX t {name}") == [[0, ROWS]]
    assert rows(session, f"ADMIN CLEANUP INDEX t {name}") == [[0]]
    plant(client, session, name, "missing orphan taken")
    with pytest.raises(Refused) as caught:
        run(session, "ADMIN CHECK TABLE t")
    assert caught.value.code == 8223
    found = run(session, f"ADMIN CLEANUP INDEX t {name}")
    assert [each.name for each in found.columns] == ["REMOVED_COUNT"]
    assert [list(row) for row in found.rows] == [[201]]
    found = run(session, f"ADMIN RECOVER INDEX t {name}")
    assert [each.name for each in found.columns] == ["ADDED_COUNT", "SCAN_COUNT"]
    assert [list(row) for row in found.rows] == [[301, ROWS]]
    run(session, "ADMIN CHECK TABLE t")
    assert rows(session, f"ADMIN RECOVER INDEX t {name}") == [[0, ROWS]]


def test_an_entry_that_another_row_holds_is_left(
    client: World, session: Session, table: str
) -> None:
    plant(client, session, "iu", "taken")
    assert rows(session, "ADMIN RECOVER INDEX t iu") == [[0, ROWS]]
    assert rows(session, "ADMIN CLEANUP INDEX t iu") == [[1]]
    assert rows(session, "ADMIN RECOVER INDEX t iu") == [[1, ROWS]]
    run(session, "ADMIN CHECK TABLE t")


def test_partitions_are_repaired_one_by_one(client: World, session: Session) -> None:
    run(session, "CREATE TABLE p (id INT, a INT, KEY ia (a)) PARTITION BY HASH (id) PARTITIONS 3")
    run(session, "INSERT INTO p VALUES (1, 1), (2, 2), (3, 3), (4, 4), (5, 5)")
    txn = client.store.begin()
    found = client.services.schemas.table(txn, session.database, "p")
    index = found.info.index("ia")
    assert index is not None
    for part in found.parts:
        for key, _ in list(txn.scan(part.index_span(index))):
            txn.delete(key)
    txn.commit()
    assert rows(session, "ADMIN RECOVER INDEX p ia") == [[5, 5]]
    run(session, "ADMIN CHECK TABLE p")


def test_what_is_not_there_is_refused(session: Session, table: str) -> None:
    for text, code in (
        ("ADMIN RECOVER INDEX t nothing", 1176), ("ADMIN CLEANUP INDEX nothing ia", 1146),
        ("ADMIN CHECKSUM TABLE nothing", 1146),
    ):  # fmt: skip
        with pytest.raises(Refused) as caught:
            run(session, text)
        assert caught.value.code == code


def test_the_checksum_is_of_what_stands(client: World, session: Session, table: str) -> None:
    found = run(session, "ADMIN CHECKSUM TABLE t")
    names = [each.name for each in found.columns]
    assert names == ["Db_name", "Table_name", "Checksum_crc64_xor", "Total_kvs", "Total_bytes"]
    [before] = [list(row) for row in found.rows]
    assert before[:2] == [session.database, "t"]
    assert before[3] == 3 * ROWS
    assert before == one_by_one(client, session)
    run(session, "UPDATE t SET a = a + 1 WHERE id = 3")
    assert rows(session, "ADMIN CHECKSUM TABLE t")[0] != before
    run(session, "UPDATE t SET a = a - 1 WHERE id = 3")
    assert rows(session, "ADMIN CHECKSUM TABLE t") == [before]
    run(session, "CREATE TABLE empty (id INT)")
    both = rows(session, "ADMIN CHECKSUM TABLE t, empty")
    assert both == [before, [session.database, "empty", "0", 0, 0]]


def one_by_one(client: World, session: Session) -> list[Any]:
    """The same, a pair at a time."""
    txn = client.store.begin()
    table = client.services.schemas.table(txn, session.database, "t")
    spans = [table.row_span(), *(table.index_span(each) for each in table.info.indexes)]
    texts = [key + value for span in spans for key, value in txn.scan(span)]
    total = 0
    for each in texts:
        total ^= plain_crc(each)
    return [session.database, "t", str(total), len(texts), sum(map(len, texts))]


def plain_crc(text: bytes) -> int:
    """CRC-64/ECMA bit by bit."""
    crc = (1 << 64) - 1
    for byte in text:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0xC96C5795D7870F42 if crc & 1 else 0)
    return crc ^ (1 << 64) - 1


def test_the_crc_is_that_of_the_standard() -> None:
    assert plain_crc(b"123456789") == 0x995DC9BBDF1939FA  # CRC-64/XZ's check value
    chance = random.Random(4)
    texts = [chance.randbytes(chance.choice((0, 1, 8, 30, 31, 300))) for _ in range(300)]
    assert crc64(texts).tolist() == [plain_crc(each) for each in texts]
    assert crc64([]).tolist() == []
