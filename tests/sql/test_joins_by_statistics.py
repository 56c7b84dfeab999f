"""Tables of a join are read by the key that statistics prefer, and EXPLAIN says how many rows come
of them."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from support.engines import leave_to_duckdb
from support.world import World, rows

ITEMS, BUYERS = 4000, 200


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    """items: kind one of 2, day one of 400, buyer one of 200."""
    with World() as made:
        s = made.session()
        rows(s, "SET GLOBAL tidb_enable_auto_analyze = OFF")
        columns = "id INT PRIMARY KEY, kind INT, day INT, buyer INT, note INT"
        rows(s, f"CREATE TABLE items ({columns}, KEY by_kind (kind), KEY by_day (day))")
        rows(s, "CREATE TABLE buyers (id INT PRIMARY KEY, name VARCHAR(9))")
        for start in range(0, ITEMS, 1000):
            values = (
                f"({n},{n % 2},{n % 400},{n % 200},{n % 50})" for n in range(start, start + 1000)
            )
            rows(s, f"INSERT INTO items VALUES {','.join(values)}")
        rows(s, f"INSERT INTO buyers VALUES {','.join(f'({n}, {n % 20})' for n in range(BUYERS))}")
        made.deltas.flush()
        rows(s, "CREATE TABLE unknown (id INT PRIMARY KEY, day INT, KEY by_day (day))")
        rows(s, "INSERT INTO unknown VALUES (1, 1), (2, 1), (3, 2)")
        rows(s, "ANALYZE TABLE items, buyers")
        yield made


def explained(world: World, query: str) -> tuple[str, list[tuple[str, str, str]]]:
    """Rows of all, and (operator, rows, object) of each table that is read, by their names."""
    lines = rows(world.session(), f"EXPLAIN FORMAT = 'brief' {query}")
    scans = [line for line in lines if re.search("(Full|Range)Scan|Point_Get", line[0])]
    found = [(re.sub(r"\(.*|[│├└─ ]", "", line[0]), line[1], line[3]) for line in scans]
    return lines[0][1], sorted(found, key=lambda scan: scan[2])


JOIN = "SELECT COUNT(*), MIN(b.name) FROM items i JOIN buyers b ON i.buyer = b.id WHERE "


def test_the_more_selective_of_two_indexes_is_read(world: World) -> None:
    _, scans = explained(world, JOIN + "i.kind = 1 AND i.day = 7")
    assert scans[1] == ("IndexRangeScan", "10.00", "table:i, index:by_day(day)")
    assert rows(world.session(), JOIN + "i.kind = 1 AND i.day = 7") == [[10, "7"]]


def test_an_index_that_keeps_half_of_the_rows_is_not(world: World) -> None:
    _, scans = explained(world, JOIN + "i.kind = 1")
    assert scans[1] == ("TableFullScan", "4000.00", "table:i")
    _, scans = explained(world, JOIN.replace("items i", "items i USE INDEX (by_kind)") + "kind = 1")
    assert rows(world.session(), JOIN + "i.kind = 1") == [[2000, "1"]]


def test_a_narrow_range_is_read_by_key_and_a_wide_one_is_not(world: World) -> None:
    _, scans = explained(world, JOIN + "i.id < 100")
    assert scans[1][0] == "TableRangeScan" and float(scans[1][1]) == pytest.approx(100, rel=0.2)
    _, scans = explained(world, JOIN + "i.id < 3000")
    assert scans[1][0] == "TableFullScan"
    for below in (100, 3000):
        (found,) = rows(world.session(), JOIN + f"i.id < {below}")
        assert found[0] == below


def test_without_statistics_an_equality_counts_as_selective(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For DuckDB. The row engine reads a range, too: it gives up if it finds many rows."""
    query = "SELECT u.id FROM unknown u JOIN buyers b ON u.id = b.id WHERE u.day "
    assert explained(world, query + "= 1")[1][1][0] == "IndexRangeScan"
    assert explained(world, query + "> 1")[1][1][0] == "IndexRangeScan"
    leave_to_duckdb(monkeypatch)
    assert explained(world, query + "= 1")[1][1][0] == "IndexRangeScan"
    assert explained(world, query + "> 1")[1][1][0] == "TableFullScan"


@pytest.mark.parametrize(
    ("query", "exact"),
    [
        ("SELECT i.id FROM items i JOIN buyers b ON i.buyer = b.id", 4000),
        ("SELECT i.id FROM items i, buyers b WHERE i.buyer = b.id AND i.kind = 1", 2000),
        ("SELECT i.id FROM items i JOIN items j ON i.day = j.day", 40_000),
        ("SELECT i.id FROM items i JOIN items j USING (day) WHERE i.day = 3", 100),
        ("SELECT i.id FROM items i CROSS JOIN buyers b", 800_000),
        ("SELECT i.id FROM items i JOIN buyers b ON i.buyer = b.id LIMIT 5", 5),
        ("SELECT COUNT(*) FROM items i JOIN buyers b ON i.buyer = b.id", 1),
    ],
)
def test_rows_of_joins_are_estimated(world: World, query: str, exact: int) -> None:
    said, _ = explained(world, query)
    assert float(said) == pytest.approx(exact, rel=0.15)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM (SELECT day FROM items GROUP BY day) x JOIN buyers b ON x.day = b.id",
        "WITH c AS (SELECT id FROM buyers) SELECT * FROM c JOIN items i ON i.buyer = c.id",
    ],
)
def test_derived_and_common_tables_are_estimated_too(world: World, query: str) -> None:
    said, scans = explained(world, query)
    found: list[Any] = rows(world.session(), query)
    assert float(said) == pytest.approx(len(found), rel=1)
    assert {scan[1] for scan in scans} == {"4000.00", "200.00"}
