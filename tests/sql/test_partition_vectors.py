"""Many rows find the partitions that each of them finds alone, whatever the table is cut by."""

import random

import pytest

from exuvia.catalog.codec import row_batch
from exuvia.catalog.table import Table
from exuvia.kv.packet import STAMP_BYTES
from exuvia.sql.access.partition_mover import RouteWay
from exuvia.sql.access.partitions import NOWHERE, route_of
from support.world import run

ROWS = 400
COLUMNS = (
    "n INT PRIMARY KEY, a INT, b BIGINT UNSIGNED, s VARCHAR(9) COLLATE utf8mb4_general_ci, d DATE,"
    " t DATETIME(3)"
)
CUTS = {
    "range": "RANGE (a) (PARTITION p0 VALUES LESS THAN (-3), PARTITION p1 VALUES LESS THAN (5))",
    "range, unsigned": "RANGE (b) (PARTITION p0 VALUES LESS THAN (3), PARTITION p1 VALUES LESS"
    " THAN (18446744073709551615))",
    "range, all": "RANGE (a) (PARTITION p0 VALUES LESS THAN (0), PARTITION p1 VALUES LESS THAN"
    " MAXVALUE)",
    "range of": "RANGE (YEAR(d)) (PARTITION p0 VALUES LESS THAN (2001), PARTITION p1 VALUES LESS"
    " THAN (2005))",
    "range columns": "RANGE COLUMNS (t) (PARTITION p0 VALUES LESS THAN ('2001-05-05 01:02:03'),"
    " PARTITION p1 VALUES LESS THAN (MAXVALUE))",
    "range columns, text": "RANGE COLUMNS (s) (PARTITION p0 VALUES LESS THAN ('c'), PARTITION p1"
    " VALUES LESS THAN ('n'))",
    "range columns, two": "RANGE COLUMNS (a, s) (PARTITION p0 VALUES LESS THAN (4, 'c'), PARTITION"
    " p1 VALUES LESS THAN (4, MAXVALUE))",
    "list": "LIST (a) (PARTITION p0 VALUES IN (1, 3, NULL), PARTITION p1 VALUES IN (2, 4, -6))",
    "list columns": "LIST COLUMNS (s) (PARTITION p0 VALUES IN ('a', 'b'), PARTITION p1 DEFAULT)",
    "hash": "HASH (a) PARTITIONS 7",
    "hash, unsigned": "HASH (b) PARTITIONS 5",
    "hash of": "HASH (a DIV 3) PARTITIONS 3",
    "key": "KEY (a, s) PARTITIONS 4",
}
EXTREMES = {"a": (-(1 << 31), (1 << 31) - 1), "b": (0, (1 << 64) - 1), "s": ("", "A ")}


def value_of(chance, column):
    if chance.random() < 0.15:
        return None
    if column in EXTREMES and chance.random() < 0.1:
        return chance.choice(EXTREMES[column])
    if column == "s":
        return chance.choice("aAbBcmnz")
    if column in "dt":
        days = chance.randrange(1999, 2008) << 9 | chance.randrange(1, 12) << 5 | 15
        return days if column == "d" else days << 37 | chance.randrange(24) << 32
    return chance.randrange(0 if column == "b" else -9, 9)


@pytest.mark.parametrize("cut", CUTS)
def test_many_rows_go_where_each_goes(session, world, cut):
    columns = COLUMNS.replace(" PRIMARY KEY", "")
    run(session, f"CREATE TABLE t ({columns}) PARTITION BY {CUTS[cut]}")
    txn = world.store.begin()
    table: Table = world.services.schemas.table(txn, session.database, "t")
    txn.rollback()
    chance = random.Random(cut)
    rows = [[n, *(value_of(chance, each) for each in "absdt")] for n in range(ROWS)]
    raws = [bytes(STAMP_BYTES) + table.encoder.encode(row) for row in rows]
    keys = [table.row_prefix + n.to_bytes(8, "big") for n in range(ROWS)]
    route = route_of(table)
    ids = [each.id for each in route.cut.definitions]
    way = RouteWay(route, ids, len(table.info.cols))
    found = way.places(row_batch.decode(table, keys, raws, STAMP_BYTES, way.positions)).tolist()
    alone = [route.place(row) for row in rows]
    assert found == [0 if place == NOWHERE else ids[place] for place in alone]
    assert len(set(found)) > 1
    if 0 in found:
        n = found.index(0)
        lost = way.refusal(row_batch.decode(table, keys, raws, STAMP_BYTES, way.positions), n)
        assert lost.message == route.refusal(rows[n]).message
