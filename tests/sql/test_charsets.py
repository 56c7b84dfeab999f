"""Columns of gbk and gb18030 beside a model: order, equality, length and bytes are those of the
charset, through indexes and without, row by row and in whole tables."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace as evolve

from exuvia.base.errors import Refused
from exuvia.cluster import member
from support.world import World, rows, run

SIGNS = "ab Bz\u4e2d\u6587\u4e00\u963f\u4e01\u9f98\uff01"
CHARSETS = ["gbk", "gb18030"]


@pytest.fixture
def session(world: World):
    session = world.session("")
    run(session, "CREATE DATABASE cs")
    run(session, "USE cs")
    yield session
    run(session, "DROP DATABASE cs")
    session.close()


@pytest.mark.parametrize("charset", CHARSETS)
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_table_is_as_the_bytes_of_its_texts(session, charset, data):
    more = SIGNS + "\U0001f600\u3400" if charset == "gb18030" else SIGNS
    texts = data.draw(st.lists(st.text(more, max_size=5), min_size=1, max_size=25))
    run(session, "DROP TABLE IF EXISTS t")
    run(
        session,
        f"CREATE TABLE t (id int PRIMARY KEY, a varchar(9), KEY (a), n int) CHARSET {charset}",
    )
    for n, each in enumerate(texts):
        run(session, f"INSERT INTO t VALUES ({n}, '{each}', {n})")

    def key(each: str) -> bytes:
        return each.encode(charset).rstrip(b" ").ljust(40, b" ")

    wanted = [texts[n] for n in sorted(range(len(texts)), key=lambda n: (key(texts[n]), n))]
    for hint in ("FORCE INDEX (a)", "IGNORE INDEX (a)"):
        asked = f"SELECT a FROM t {hint} ORDER BY a, id"
        assert [row[0] for row in rows(session, asked)] == wanted
        limit = f"SELECT a FROM t {hint} ORDER BY a DESC, id DESC LIMIT 3"
        assert [row[0] for row in rows(session, limit)] == wanted[::-1][:3]
        pivot = texts[0]
        above = sum(key(each) > key(pivot) for each in texts)
        equal = sum(key(each) == key(pivot) for each in texts)
        for sign, count in ((">", above), ("=", equal), ("<", len(texts) - above - equal)):
            asked = f"SELECT COUNT(*) FROM t {hint} WHERE a {sign} '{pivot}'"
            assert rows(session, asked) == [[count]], (sign, pivot)
    groups = rows(session, "SELECT COUNT(DISTINCT a), MIN(LENGTH(a)), MAX(LENGTH(a)) FROM t")
    lengths = [len(each.encode(charset)) for each in texts]
    assert groups == [[len({key(each) for each in texts}), min(lengths), max(lengths)]]
    shown = rows(session, "SELECT HEX(a), CHAR_LENGTH(a) FROM t ORDER BY id")
    assert shown == [[each.encode(charset).hex().upper(), len(each)] for each in texts]
    run(session, "ADMIN CHECK TABLE t")


@pytest.mark.parametrize("charset", CHARSETS)
def test_a_unique_key_and_a_rewrite_of_it(session, charset):
    """An index that is filled, entries that writers put, and a MODIFY that builds it anew agree."""
    run(session, f"CREATE TABLE t (id int PRIMARY KEY, a varchar(20) CHARSET {charset}, n int)")
    values = ", ".join(f"({n}, '\u4e2d{n}\u6587', {n})" for n in range(300))
    run(session, f"INSERT INTO t VALUES {values}")
    run(session, "ALTER TABLE t ADD UNIQUE u (a), ADD INDEX (a(2), n)")
    run(session, "INSERT INTO t VALUES (1000, '\u963f', 1)")
    with pytest.raises(Refused) as refused:
        session.execute("INSERT INTO t VALUES (1001, '\u963f ', 1)")
    assert refused.value.code == 1062
    run(session, "ADMIN CHECK TABLE t")
    run(session, f"ALTER TABLE t MODIFY n varchar(9) CHARSET {charset}")
    assert rows(session, "SELECT id FROM t WHERE a = '\u4e2d17\u6587' AND n = '17'") == [[17]]
    run(session, "ADMIN CHECK TABLE t")
    run(session, "ANALYZE TABLE t")
    run(session, "DELETE FROM t WHERE a >= '\u4e2d2'")
    run(session, "ADMIN CHECK TABLE t")


def test_an_older_node_is_waited_for(session, monkeypatch):
    run(session, "CREATE TABLE old (a varchar(9))")
    honest = member.live
    monkeypatch.setattr(
        member, "live", lambda txn: [evolve(each, release="0.4.0") for each in honest(txn)]
    )
    for statement in (
        "CREATE TABLE t (a varchar(9) CHARSET gbk)",
        "CREATE TABLE t (a varchar(9)) CHARSET gb18030",
        "CREATE TABLE t CHARSET gbk SELECT 1 AS a",
        "CREATE DATABASE d CHARSET gbk",
        "ALTER DATABASE cs CHARSET gbk",
        "ALTER TABLE old ADD COLUMN b varchar(9) CHARSET gbk",
        "ALTER TABLE old MODIFY a varchar(9) CHARSET gb18030",
    ):
        with pytest.raises(Refused, match="of an older release serves") as refused:
            session.execute(statement)
        assert refused.value.code == 8200
    run(session, "ALTER TABLE old ADD COLUMN b varchar(9) CHARSET utf8")


# -- MySQL's charsets of one byte a character ------------------------------------------------------


def test_charsets_of_mysql_are_there_in_mysql_mode_alone(session):
    asked = (
        "CREATE TABLE t (a varchar(9) CHARSET latin2)",
        "CREATE TABLE t (a int) CHARSET koi8u",
        "CREATE TABLE t (a varchar(9) COLLATE cp1251_bin)",
        "CREATE DATABASE d CHARSET cp1250",
        "SET NAMES greek",
        "SET CHARACTER SET hebrew",
        "SELECT CONVERT('a' USING latin5)",
        "SELECT _cp866'a'",
    )
    for statement in asked:
        with pytest.raises(Refused) as refused:
            session.execute(statement)
        assert refused.value.code == 1115
    listed = [row[0] for row in rows(session, "SHOW CHARACTER SET")]
    run(session, "SET exuvia_compatibility = 'mysql'")
    for n, statement in enumerate(asked):
        run(session, statement.replace("TABLE t", f"TABLE t{n}"))
    run(session, "SET NAMES utf8mb4")
    run(session, "DROP DATABASE d")
    assert {"latin2", "macce"} <= {row[0] for row in rows(session, "SHOW CHARACTER SET")}
    assert "latin2" not in listed
    with pytest.raises(Refused) as refused:
        session.execute("CREATE TABLE t (a varchar(9) COLLATE latin2_czech_cs)")
    assert refused.value.code == 1273


def test_a_column_of_latin2_has_its_bytes_and_its_order(session):
    run(session, "SET exuvia_compatibility = 'mysql'")
    run(session, "CREATE TABLE t (id int PRIMARY KEY, a varchar(9) CHARSET latin2, UNIQUE (a))")
    run(
        session,
        "INSERT INTO t VALUES (1, 'Łódź'), (2, 'lodz'), (3, 'Ľa'), (4, 'zebra'), (5, x'a3')",
    )
    for wrong, code in (("'日'", 1366), ("'ŁÓDŹ'", 1062), ("'ĽA '", 1062)):
        with pytest.raises(Refused) as refused:
            session.execute(f"INSERT INTO t VALUES (9, {wrong})")
        assert refused.value.code == code
    assert rows(session, "SELECT id, LENGTH(a), HEX(a) FROM t ORDER BY a") == [
        [3, 2, "A561"],
        [2, 4, "6C6F647A"],
        [5, 1, "A3"],
        [1, 4, "A3F364BC"],
        [4, 5, "7A65627261"],
    ]
    grouped = "SELECT MIN(id) FROM t GROUP BY a ORDER BY a"
    assert [row[0] for row in rows(session, grouped)] == [3, 2, 5, 1, 4]
    assert rows(session, "SELECT id FROM t WHERE a = 'łódź'") == [[1]]
    assert rows(session, "SELECT id FROM t WHERE a LIKE 'łÓ%'") == [[1]]
    joined = "SELECT x.id FROM t x JOIN t y ON x.a = y.a AND y.a > 'ĽZ' ORDER BY 1"
    assert rows(session, joined) == [[1], [4], [5]]
    run(session, "ADMIN CHECK TABLE t")
    for kind in ("utf8mb4", "cp1250 COLLATE cp1250_polish_ci", "cp852 COLLATE cp852_bin"):
        run(
            session, f"ALTER TABLE t MODIFY a varchar(9) CHARSET {kind.replace('cp852', 'utf8mb4')}"
        )
        run(session, "ADMIN CHECK TABLE t")
        assert rows(session, "SELECT id FROM t WHERE a = 'Łódź'") == [[1]]


SIGNS_OF_CHARSETS = {  # a byte, and its character where Python has another one
    "koi8u": (0x95, "\u2022"),
    "cp866": (0xFD, "\u00b2"),
    "hebrew": (0xAF, "\u203e"),
    "greek": (0xA1, "\u02bd"),
    "latin7": (0xF6, "\u00f6"),
}


@pytest.mark.parametrize("charset", SIGNS_OF_CHARSETS)
def test_bytes_of_a_charset_are_mysqls(session, charset):
    byte, sign = SIGNS_OF_CHARSETS[charset]
    run(session, "SET exuvia_compatibility = 'mysql'")
    asked = f"SELECT _{charset} x'{byte:02x}', HEX(CONVERT('{sign}日' USING {charset}))"
    assert rows(session, asked) == [[sign, f"{byte:02X}3F"]]


def test_bytes_that_are_no_text(session):
    """A column of latin1 takes them as latin1, as dumps of MySQL under SET NAMES binary have them;
    in others a question mark stands for each where the mode is not strict."""
    run(session, "CREATE TABLE t (a varchar(9) CHARSET latin1, u varchar(9))")
    run(session, "INSERT INTO t (a) VALUES (x'8081e9'), (x'c3a9')")
    with pytest.raises(Refused) as refused:
        session.execute("INSERT INTO t (u) VALUES (x'61e962')")
    assert refused.value.code == 1366
    run(session, "SET sql_mode = ''")
    run(session, "INSERT INTO t VALUES (x'e9', x'61e962')")
    assert rows(session, "SELECT a, u FROM t") == [["€\x81é", None], ["é", None], ["é", "a?b"]]
