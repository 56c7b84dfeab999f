"""Where KEY places rows: as TiDB does in new tables, as before in those that were made before."""

from zlib import crc32

import pytest
from msgspec.structs import replace as evolve

from exuvia.base.errors import Refused
from exuvia.catalog.model import KeyAlgorithm
from exuvia.cluster import member
from support.world import World, error, rows, run

N = 7


@pytest.fixture
def session(world: World):
    session = world.session("")
    run(session, "CREATE DATABASE keyed")
    run(session, "USE keyed")
    yield session
    run(session, "DROP DATABASE keyed")
    session.close()


@pytest.fixture
def older(monkeypatch):
    honest = member.live
    yield lambda: monkeypatch.setattr(
        member, "live", lambda txn: [evolve(each, release="0.4.0") for each in honest(txn)]
    )
    monkeypatch.setattr(member, "live", honest)


def cut(session, columns, key="a", number=N):
    run(session, f"CREATE TABLE t ({columns}) PARTITION BY KEY ({key}) PARTITIONS {number}")


def place(session, number=N):
    """Which partition has the only row."""
    found = [
        n for n in range(number) if rows(session, f"SELECT 1 FROM t PARTITION (p{n})") == [[1]]
    ]
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize(
    ("kind", "value", "hashed"),
    [
        ("INT", "-12", b"-12"),
        ("INT(9) ZEROFILL", "12", b"12"),
        ("YEAR", "0", b"0"),
        ("DECIMAL(9, 3)", "1.5", b"1.500"),
        ("DOUBLE", "1e20", b"100000000000000000000"),
        ("DOUBLE", "1e-7", b"0.0000001"),
        ("DOUBLE", "-0e0", b"0"),
        ("BIT(20)", "0x12EF", b"\x00\x12\xef"),
        ("VARBINARY(9)", "0xFF00AE", b"\xff\x00\xae"),
        ("VARCHAR(9) COLLATE utf8mb4_bin", "'a b '", b"a b"),
        ("VARCHAR(9) COLLATE utf8mb4_bin", "'\u4e2d'", b"\xe4\xb8\xad"),
        ("VARCHAR(9) COLLATE utf8mb4_0900_bin", "'a b '", b"a b "),
        ("VARCHAR(9) COLLATE utf8mb4_general_ci", "'a\u00df '", b"\x00A\x00S"),
        ("VARCHAR(9) COLLATE utf8mb4_general_ci", "'\U0001f600'", b"\xff\xfd"),
        ("VARCHAR(9) CHARSET gbk COLLATE gbk_bin", "'\u4e2d'", b"\xd6\xd0"),
        ("ENUM('x', 'y') COLLATE utf8mb4_bin", "'y'", b"y"),
        ("ENUM('x', 'y') COLLATE utf8mb4_general_ci", "'y'", b"\x00Y"),
        ("SET('x', 'y') COLLATE utf8mb4_bin", "'x,y'", b"x,y"),
        ("DATE", "'2024-02-29'", b"2024-02-29"),
        ("DATETIME(3)", "'2024-02-29 01:02:03.5'", b"2024-02-29 01:02:03.500"),
        ("TIME(1)", "'-01:02:03.5'", b"-01:02:03.5"),
        ("INT", "NULL", b"\0"),
    ],
)
def test_a_value_lies_where_tidb_puts_it(session, kind, value, hashed):
    cut(session, f"a {kind}")
    run(session, f"INSERT INTO t VALUES ({value})")
    assert place(session) == crc32(hashed) % N
    assert rows(session, f"SELECT COUNT(*) FROM t WHERE a <=> {value}") == [[1]]


def test_a_float_is_hashed_by_the_digits_that_it_has(session):
    cut(session, "a FLOAT")
    run(session, "INSERT INTO t VALUES (1.1)")
    assert place(session) == crc32(b"1.1") % N


def test_values_are_hashed_one_behind_the_other(session):
    cut(session, "a VARCHAR(9) COLLATE utf8mb4_bin, b INT", "a, b")
    run(session, "INSERT INTO t VALUES ('xy', 17)")
    assert place(session) == crc32(b"xy17") % N


TEXTS = [
    ("utf8mb4_unicode_ci", "'R\u00c9SUM\u00c9'", "'resume '"),
    ("utf8mb4_0900_ai_ci", "'R\u00c9SUM\u00c9'", "'resume'"),
    ("utf8mb4_unicode_ci", "'\uf900'", "'\u8c48'"),  # one is what the other is compatible with
    ("utf8mb4_general_ci", "'\U0001f600'", "'\ufffd'"),
]


@pytest.mark.parametrize(("collate", "one", "other"), TEXTS)
def test_equal_texts_lie_together(session, collate, one, other):
    cut(session, f"a VARCHAR(9) COLLATE {collate} PRIMARY KEY", number=97)
    run(session, f"INSERT INTO t VALUES ({one})")
    assert rows(session, f"SELECT COUNT(*) FROM t WHERE a = {other}") == [[1]]
    assert error(session, f"INSERT INTO t VALUES ({other})")[0] == 1062


def algorithms(world, session):
    txn = world.store.begin()
    found = world.services.schemas.table(txn, session.database, "t").info.partition
    txn.rollback()
    return found.exuvia_key_algorithm, found.exuvia_ddl_key_algorithm


OLD, NEW = KeyAlgorithm.SORT_KEYS, KeyAlgorithm.WEIGHTS
VALUES = ", ".join(f"('{'abcdefghij'[n % 10]}{n} x')" for n in range(40))


def filled_by_an_older_release(session, older, monkeypatch):
    older()
    cut(session, "a VARCHAR(9) PRIMARY KEY")
    monkeypatch.undo()
    run(session, f"INSERT INTO t VALUES {VALUES}")


def check_rows(session):
    assert rows(session, "SELECT COUNT(*) FROM t") == [[40]]
    for text in VALUES.strip("()").split("), ("):
        assert rows(session, f"SELECT COUNT(*) FROM t WHERE a = {text}") == [[1]]
    run(session, "ADMIN CHECK TABLE t")


def test_older_tables_stay_until_their_rows_move(world, session, older, monkeypatch):
    filled_by_an_older_release(session, older, monkeypatch)
    assert algorithms(world, session) == (OLD, OLD)
    check_rows(session)
    run(session, "CREATE TABLE u LIKE t")
    run(session, "ALTER TABLE t ADD PARTITION PARTITIONS 2")
    assert algorithms(world, session) == (NEW, OLD)
    check_rows(session)
    hashed = [t.strip("'").encode() for t in VALUES.strip("()").split("), (")]
    wanted = [sum(crc32(each) % 9 == n for each in hashed) for n in range(9)]
    lie = [rows(session, f"SELECT COUNT(*) FROM t PARTITION (p{n})")[0][0] for n in range(9)]
    assert lie == wanted


def test_rows_move_back_to_what_an_older_node_knows(world, session, older, monkeypatch):
    cut(session, "a VARCHAR(9) PRIMARY KEY")
    assert algorithms(world, session) == (NEW, OLD)
    run(session, f"INSERT INTO t VALUES {VALUES}")
    older()
    run(session, "ALTER TABLE t COALESCE PARTITION 3")
    assert algorithms(world, session) == (OLD, OLD)
    check_rows(session)


def test_exchange_judges_by_the_tables_own(session, older, monkeypatch):
    filled_by_an_older_release(session, older, monkeypatch)
    run(session, "CREATE TABLE u (a VARCHAR(9) PRIMARY KEY)")
    for n in range(N):
        run(session, f"ALTER TABLE t EXCHANGE PARTITION p{n} WITH TABLE u")
        run(session, f"ALTER TABLE t EXCHANGE PARTITION p{n} WITH TABLE u")
    check_rows(session)


def test_truncated_rows_of_another_algorithm_do_not_come_back(session, older, monkeypatch):
    filled_by_an_older_release(session, older, monkeypatch)
    run(session, "SET exuvia_undo_s = 3600")
    run(session, "TRUNCATE TABLE t")
    job = rows(session, "SELECT JOB_ID FROM information_schema.exuvia_undo")[0][0]
    run(session, "ALTER TABLE t ADD PARTITION PARTITIONS 1")
    run(session, "ALTER TABLE t COALESCE PARTITION 1")
    with pytest.raises(Refused, match="the partitions of its table have changed"):
        run(session, f"ADMIN UNDO DDL JOB {job}")


@pytest.mark.parametrize(
    ("old", "new"), [("BIT(8)", "BIT(16)"), ("INT(3) ZEROFILL", "INT(5) ZEROFILL")]
)
def test_a_type_whose_values_would_lie_elsewhere_is_refused(session, old, new, older):
    older()
    cut(session, f"a {old}")
    assert error(session, f"ALTER TABLE t MODIFY a {new}")[0] == 8200


def test_digits_lie_where_they_lay_with_more_zeros(session):
    cut(session, "a INT(3) ZEROFILL")
    run(session, "INSERT INTO t VALUES (7), (8), (9)")
    run(session, "ALTER TABLE t MODIFY a INT(5) ZEROFILL")
    assert rows(session, "SELECT COUNT(*) FROM t WHERE a = 8") == [[1]]
