"""CREATE TABLE's JSON is TiDB's: the example of seed 001, and the flags of other types.

CREATE TABLE LIKE copies what a table is, not where its rows lie or what is being done to it.
"""

import msgspec
import pytest

from exuvia.base.types import Flag
from exuvia.catalog.model import TableInfo
from exuvia.ddl import queue
from exuvia.sql.session.session import Session
from support.world import World, rows, run

SEED = {
    "id": (3, 4131, 10, 0, "binary", "binary"),
    "notes": (15, 0, 255, 0, "utf8mb4", "utf8mb4_bin"),
}


def info_of(session: Session, table: str) -> TableInfo:
    """The table as the catalog has it."""
    txn = session.services.store.begin()
    try:
        return session.services.schemas.table(txn, session.database, table).info
    finally:
        txn.rollback()


def test_the_example_of_seed_001(session: Session) -> None:
    statement = "CREATE TABLE t (id int unsigned NOT NULL PRIMARY KEY, notes varchar(255))"
    run(session, statement)
    txn = session.services.store.begin()
    (job,) = (job for job in queue.history(txn, 1))
    txn.rollback()
    asked = job.raw_args[0]
    assert job.query == statement
    assert (job.type, job.schema_name, job.table_name) == (3, session.database, "t")
    assert (asked["pk_is_handle"], asked["index_info"], asked["max_col_id"]) == (True, None, 2)
    assert (asked["charset"], asked["collate"], asked["version"]) == ("utf8mb4", "utf8mb4_bin", 4)
    for offset, column in enumerate(asked["cols"]):
        kind = column["type"]
        found = tuple(
            kind[part] for part in ("Tp", "Flag", "Flen", "Decimal", "Charset", "Collate")
        )
        assert found == SEED[column["name"]["L"]]
        assert (column["id"], column["offset"], column["state"]) == (offset + 1, offset, 5)
        assert column["default"] is None and column["origin_default"] is None
    assert msgspec.convert(asked, TableInfo).name.O == "t"


@pytest.mark.parametrize(
    ("definition", "code", "flag", "length", "decimal"),
    [
        ("a int", 3, 0, 11, 0),
        ("a int NOT NULL", 3, Flag.NOT_NULL | Flag.NO_DEFAULT_VALUE, 11, 0),
        ("a int NOT NULL DEFAULT 1", 3, Flag.NOT_NULL, 11, 0),
        ("a bigint unsigned", 8, Flag.UNSIGNED, 20, 0),
        ("a tinyint zerofill", 1, Flag.UNSIGNED | Flag.ZEROFILL, 3, 0),
        ("a bool", 1, 0, 1, 0),
        ("a int UNIQUE", 3, Flag.UNIQUE_KEY, 11, 0),
        ("a int, KEY (a)", 3, Flag.MULTIPLE_KEY, 11, 0),
        ("a int AUTO_INCREMENT, KEY (a)", 3, 521, 11, 0),
        ("a decimal(12,2)", 246, 0, 12, 2),
        ("a decimal", 246, 0, 10, 0),
        ("a double", 5, 0, 22, -1),
        ("a float(30)", 5, 0, 22, -1),
        ("a datetime(3)", 12, Flag.BINARY, 23, 3),
        ("a char", 254, 0, 1, 0),
        ("a text(100)", 252, Flag.BLOB, 65535, 0),
        ("a text(60)", 249, Flag.BLOB, 255, 0),
        ("a enum('a','bcd')", 247, 0, 3, 0),
        ("a set('a','bcd')", 248, 0, 5, 0),
        ("a bit(5)", 16, Flag.UNSIGNED, 5, 0),
        ("a varbinary(5)", 15, Flag.BINARY, 5, 0),
    ],
)
def test_types_as_tidb_writes_them(
    session: Session, definition: str, code: int, flag: int, length: int, decimal: int
) -> None:
    run(session, f"CREATE TABLE x ({definition})")
    kind = info_of(session, "x").cols[0].type
    assert (kind.Tp, kind.Flag, kind.Flen, kind.Decimal) == (code, int(flag), length, decimal)


def test_composite_and_string_keys_are_common_handles(session: Session) -> None:
    run(session, "CREATE TABLE c (a varchar(9), b int, PRIMARY KEY (b, a), KEY k (a(3)))")
    info = info_of(session, "c")
    assert (info.pk_is_handle, info.is_common_handle, info.common_handle_version) == (0, 1, 1)
    primary, other = info.indexes
    assert primary.exuvia_clustered and primary.is_primary and primary.id == 1
    assert [part.length for part in other.idx_cols] == [3]
    assert all(column.not_null for column in info.cols)


# -- CREATE TABLE LIKE -----------------------------------------------------------------------------


def test_a_copy_of_a_table_that_was_exchanged_has_rows_of_its_own():
    with World() as world:
        session = world.session()
        run(session, "CREATE DATABASE d")
        run(session, "USE d")
        run(session, "CREATE TABLE t (id INT PRIMARY KEY, a INT)")
        cut = "PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (100))"
        run(session, f"CREATE TABLE p (id INT PRIMARY KEY, a INT) {cut}")
        run(session, "INSERT INTO t VALUES (1, 2)")
        run(session, "ALTER TABLE p EXCHANGE PARTITION p0 WITH TABLE t")
        run(session, "INSERT INTO t VALUES (3, 4)")
        run(session, "CREATE TABLE v LIKE t")
        assert rows(session, "SELECT * FROM v") == []
        run(session, "INSERT INTO v VALUES (5, 6)")
        assert rows(session, "SELECT * FROM t") == [[3, 4]]
