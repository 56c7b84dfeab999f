"""EXPLAIN of reads and writes is true: what it names is what is read, what ANALYZE counts is so.

Its words are in the transcripts (explain_*.txt). Here the store is listened to while statements
run, and rows are counted in Python.
"""

import json
import random
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest

from exuvia.kv.keys import HANDLE_AT
from exuvia.kv.memory import MemorySnapshot
from exuvia.kv.packet import Span
from exuvia.sql.access.filtering import Filter, WatchedFilter
from exuvia.sql.session.session import Session
from support.world import World, error, rows, run

ROWS = 400
INDEXES = {"ka": ("a",), "kab": ("a", "b"), "kc": ("c",), "u": ("u",)}


class Row(NamedTuple):
    id: int
    a: int | None
    b: int
    c: str
    u: int


def made() -> list[Row]:
    chance = random.Random(7)
    return [
        Row(
            n,
            None if n % 17 == 0 else chance.randrange(20),
            chance.randrange(10),
            chance.choice("abcdef") * chance.randrange(1, 3),
            n * 3,
        )
        for n in range(ROWS)
    ]


DATA = made()


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with World() as world:
        session = world.session()
        keys = "KEY ka (a), KEY kab (a, b), KEY kc (c), UNIQUE KEY u (u)"
        columns = "id INT PRIMARY KEY, a INT, b INT NOT NULL, c VARCHAR(9) NOT NULL, u INT NOT NULL"
        run(session, f"CREATE TABLE t ({columns}, {keys})")
        values = ", ".join(
            f"({r.id}, {'NULL' if r.a is None else r.a}, {r.b}, '{r.c}', {r.u})" for r in DATA
        )
        run(session, f"INSERT INTO t VALUES {values}")
        yield world


@pytest.fixture
def session(world: World) -> Session:
    return world.session()


class Conditions(NamedTuple):
    text: str
    holds: Callable[[Row], bool]


def condition(chance: random.Random) -> Conditions:
    n, m = chance.randrange(22), chance.randrange(22)
    low, high = sorted((chance.randrange(ROWS), chance.randrange(ROWS)))
    word = chance.choice("abcdef")
    few = sorted({chance.randrange(22) for _ in range(3)})
    listed = ", ".join(map(str, few))
    return chance.choice(
        [
            Conditions(f"a = {n}", lambda r: r.a == n),
            Conditions(f"a > {n}", lambda r: r.a is not None and r.a > n),
            Conditions(f"a <= {n}", lambda r: r.a is not None and r.a <= n),
            Conditions(f"a IN ({listed})", lambda r: r.a in few),
            Conditions(f"a = {n} AND b = {m % 10}", lambda r: r.a == n and r.b == m % 10),
            Conditions(f"a = {n} AND b > {m % 10}", lambda r: r.a == n and r.b > m % 10),
            Conditions(f"b < {m % 10}", lambda r: r.b < m % 10),
            Conditions(f"c = '{word}'", lambda r: r.c == word),
            Conditions(f"c >= '{word}'", lambda r: r.c >= word),
            Conditions(f"id = {low}", lambda r: r.id == low),
            Conditions(f"id IN ({low}, {high}, 9999)", lambda r: r.id in (low, high)),
            Conditions(f"id BETWEEN {low} AND {high}", lambda r: low <= r.id <= high),
            Conditions(f"id < {low}", lambda r: r.id < low),
            Conditions(f"u = {low}", lambda r: r.u == low),
            Conditions(f"u IN ({low * 3}, {high})", lambda r: r.u in (low * 3, high)),
            Conditions("a IS NULL", lambda r: r.a is None),
        ]
    )


class Read(NamedTuple):
    """One call of the store: a key that is got, or a range."""

    kind: str  # "r" of rows, "i" of entries
    index: int
    is_scan: bool
    whole: bool


@contextmanager
def heard(world: World, name: str = "t") -> Iterator[list[Read]]:
    """What is asked of the store about the table, in the meantime."""
    table = world.services.schemas.table(world.store.begin(), "test", name)
    begins, whole, found = table.row_prefix[: HANDLE_AT - 1], table.row_span(), []
    get, get_many, scan = MemorySnapshot.get, MemorySnapshot.get_many, MemorySnapshot.scan

    def note(key: bytes, is_scan: bool, span: Span | None = None) -> None:
        if not key.startswith(begins):
            return
        kind = chr(key[HANDLE_AT - 1])
        index = int.from_bytes(key[HANDLE_AT : HANDLE_AT + 4], "big") if kind == "i" else 0
        found.append(Read(kind, index, is_scan, span == whole))

    def got(self: MemorySnapshot, key: bytes) -> bytes | None:
        note(key, is_scan=False)
        return get(self, key)

    def got_many(self: MemorySnapshot, keys: list[bytes]) -> dict[bytes, bytes]:
        for key in keys:
            note(key, is_scan=False)
        return get_many(self, keys)

    def scanned(self: MemorySnapshot, span: Span, reverse: bool = False) -> Any:
        note(span.start, is_scan=True, span=span)
        return scan(self, span, reverse)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MemorySnapshot, "get", got)
        patch.setattr(MemorySnapshot, "get_many", got_many)
        patch.setattr(MemorySnapshot, "scan", scanned)
        yield found


def index_names(world: World) -> dict[int, str]:
    table = world.services.schemas.table(world.store.begin(), "test", "t")
    return {
        int.from_bytes(table.form(index).prefix[HANDLE_AT : HANDLE_AT + 4], "big"): index.idx_name.O
        for index in table.info.indexes
    }


def names(lines: list[list[Any]]) -> list[str]:
    """Of the operators, without marks and numbers."""
    return [re.sub(r"^[│├└─ ]*|_\d+(\(\w+\))?$", "", line[0]) for line in lines]


TAILS = ["", "ORDER BY id", "ORDER BY a DESC, b", "ORDER BY c LIMIT 7", "LIMIT 3"]
HINTS = ["", "", "FORCE INDEX (ka)", "FORCE INDEX (kab)", "USE INDEX ()", "IGNORE INDEX (u, kab)"]


def query(chance: random.Random) -> tuple[str, Callable[[Row], bool]]:
    """A text with {} for the select list, and which rows its WHERE keeps."""
    parts = [condition(chance) for _ in range(chance.choice((1, 1, 2)))]
    where = " AND ".join(part.text for part in parts)
    text = f"SELECT {{}} FROM t {chance.choice(HINTS)} WHERE {where} {chance.choice(TAILS)}"
    return text, lambda row: all(part.holds(row) for part in parts)


def test_what_it_names_is_what_is_read(world: World, session: Session) -> None:
    chance, known = random.Random(1), index_names(world)
    met = set()
    for _ in range(250):
        text = query(chance)[0].format("*")
        lines = rows(session, f"EXPLAIN {text}")
        steps = set(names(lines))
        named = set(re.findall(r"index:(\w+)\(", " ".join(line[3] for line in lines)))
        with heard(world) as reads:
            rows(session, text)
        scans = [read for read in reads if read.is_scan and read.kind == "r"]
        entries = {known[read.index] for read in reads if read.kind == "i"}
        assert entries == named, (text, lines)
        assert bool(scans) == bool(steps & {"TableFullScan", "TableRangeScan"}), (text, lines)
        if scans:
            assert {read.whole for read in scans} == {"TableFullScan" in steps}, (text, lines)
            assert not any(read.kind == "r" and not read.is_scan for read in reads), text
        if "TableDual" in steps:
            assert not reads, text
        if steps & {"Point_Get", "Batch_Point_Get"}:
            assert reads and not any(read.is_scan for read in reads), text
        if "IndexLookUp" in steps:
            assert any(read.kind == "i" and read.is_scan for read in reads), text
        met |= steps
    assert met >= {
        *("Point_Get", "Batch_Point_Get", "TableRangeScan", "TableFullScan", "IndexLookUp"),
        *("IndexRangeScan", "TableRowIDScan", "Selection", "Sort", "TopN", "Limit", "TableReader"),
    }, met


def in_ranges(text: str) -> Callable[[tuple[Any, ...]], bool]:
    """Whether values of a key are in the ranges that EXPLAIN shows."""
    ranges = re.findall(r"([\[(])([^,\[\]()]*),([^,\[\]()]*)([\])])", text)
    assert ranges, text

    def value(shown: str) -> Any:
        if shown == "NULL":
            return None
        return shown.strip('"') if shown.startswith('"') else int(shown)

    def holds(values: tuple[Any, ...]) -> bool:
        return any(_within(values, *each) for each in ranges)

    def _within(values: tuple[Any, ...], opening: str, low: str, high: str, closing: str) -> bool:
        for n, (least, most) in enumerate(zip(low.split(" "), high.split(" "), strict=True)):
            found = values[n]
            if least == most:
                if found != value(least):
                    return False
                continue
            if found is None:
                return False
            if least != "-inf" and (
                found < value(least) or (opening == "(" and found == value(least))
            ):
                return False
            if most != "+inf" and (
                found > value(most) or (closing == ")" and found == value(most))
            ):
                return False
        return True

    return holds


def test_ranges_and_rows_are_as_they_say(session: Session) -> None:
    chance, looked = random.Random(2), 0
    for _ in range(250):
        text, holds = query(chance)
        asked = text.format("*")
        lines = rows(session, f"EXPLAIN ANALYZE {asked}")
        by_name = dict(zip(names(lines), lines, strict=True))
        kept = [row for row in DATA if holds(row)]
        assert int(lines[0][2]) == len(rows(session, asked)), (asked, lines)
        is_cut = "LIMIT" in asked and "TopN" not in by_name
        for name in ("Selection", "Sort"):
            if name in by_name and not is_cut:
                assert int(by_name[name][2]) == len(kept), (asked, lines)
        for name in ("IndexRangeScan", "TableRangeScan"):
            if name not in by_name or is_cut:
                continue
            line = by_name[name]
            index = re.search(r"index:(\w+)", line[4])
            columns = INDEXES[index[1]] if index else ("id",)
            inside = in_ranges(re.search(r"range:(.*), keep order", line[6])[1])  # type: ignore[index]
            number = sum(inside(tuple(getattr(row, each) for each in columns)) for row in DATA)
            assert int(line[2]) == number, (asked, line)
            looked += 1
            if name == "IndexRangeScan":
                assert int(by_name["TableRowIDScan"][2]) == number, asked
        if "TableFullScan" in by_name and not is_cut:
            assert int(by_name["TableFullScan"][2]) == ROWS, asked
    assert looked > 60


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id FROM t WHERE {}",
        "SELECT a, COUNT(*) FROM t WHERE {} GROUP BY a HAVING COUNT(*) > 1",
        "SELECT t.id FROM t JOIN t AS o ON o.id = t.u WHERE {}",
    ],
)
def test_what_is_asked_twice_leaves_as_many_rows_as_once(session: Session, query: str) -> None:
    """As LEFT JOIN o ON o.c WHERE o.c, of which DuckDB makes an inner join that asks both."""
    once = rows(session, "EXPLAIN " + query.format("t.b + 1 > 3"))
    assert rows(session, "EXPLAIN " + query.format("t.b + 1 > 3 AND t.b + 1 > 3")) == once


def test_counts_of_groups_and_joins_are_so(session: Session) -> None:
    chance = random.Random(3)
    for _ in range(25):
        n, m = chance.randrange(20), chance.randrange(10)
        kept = [row for row in DATA if row.b > m or row.a == n]
        groups: dict[str, int] = {}
        for row in kept:
            groups[row.c] = groups.get(row.c, 0) + 1
        having = [c for c, number in groups.items() if number > 30]
        text = (
            f"SELECT c, COUNT(*), SUM(b + 1) FROM t WHERE b > {m} OR a = {n} GROUP BY c"
            " HAVING COUNT(*) > 30 ORDER BY 2 DESC LIMIT 3"
        )
        lines = rows(session, f"EXPLAIN ANALYZE {text}")
        assert names(lines) == [
            *("TopN", "Selection", "HashAgg", "Selection", "TableReader", "TableFullScan")
        ]
        counted = [int(line[2]) for line in lines]
        expected = [min(3, len(having)), len(having), len(groups), len(kept), ROWS, ROWS]
        assert counted == expected, text
    joined = f"SELECT x.id FROM t x JOIN t y ON x.u = y.id WHERE y.b = {4}"
    lines = rows(session, f"EXPLAIN ANALYZE {joined}")
    pairs = sum(y.b == 4 and x.u == y.id for x in DATA for y in DATA)
    assert names(lines)[0] == "IndexJoin" and int(lines[0][2]) == pairs
    assert int(lines[0][2]) == len(rows(session, joined))


def test_more_rows_than_are_sorted_here_are_left_to_duckdb(world: World) -> None:
    """EXPLAIN knows of a whole table, ANALYZE of a range too."""
    session = world.session()
    run(session, "CREATE TABLE big (id INT PRIMARY KEY, a INT, KEY ka (a))")
    for start in range(0, 22_000, 2_000):
        values = ", ".join(f"({n}, {n % 3})" for n in range(start, start + 2_000))
        run(session, f"INSERT INTO big VALUES {values}")
    whole = rows(session, "EXPLAIN SELECT * FROM big WHERE a = 7 ORDER BY a DESC, id LIMIT 3")
    assert names(whole)[0] == "TopN" and "duckdb" not in {line[2] for line in whole}
    whole = rows(session, "EXPLAIN SELECT id, a + 1 FROM big IGNORE INDEX (ka) WHERE a >= 0")
    assert {line[2] for line in whole} == {"duckdb", "root", "cop[kv]"}
    ranged = "SELECT * FROM big FORCE INDEX (ka) WHERE a >= 0 ORDER BY a, id"
    assert "duckdb" not in {line[2] for line in rows(session, f"EXPLAIN {ranged}")}
    lines = rows(session, f"EXPLAIN ANALYZE {ranged}")
    assert "duckdb" in {line[3] for line in lines} and int(lines[0][2]) == 22_000


def test_a_steps_time_has_that_of_those_below(session: Session) -> None:
    text = (
        "EXPLAIN ANALYZE FORMAT = 'tidb_json' SELECT a, b + 1 FROM t WHERE a > 3 ORDER BY c LIMIT 9"
    )
    ((found,),) = rows(session, text)
    units = {"s": 1.0, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}
    (step,) = json.loads(found)
    before, met = float("inf"), []
    while step is not None:
        met.append(step["id"])
        shown = re.fullmatch(r"time:([\d.]+)([a-zµ]+), loops:(\d+)", step["executeInfo"])
        assert shown, step
        seconds = float(shown[1]) * units[shown[2]]
        assert 0 < seconds <= before * 1.02, met
        before = seconds
        step = step["subOperators"][0] if "subOperators" in step else None
    assert len(met) == 4, met


def test_writes_are_done_by_analyze_alone(session: Session) -> None:
    run(session, "CREATE TABLE w (id INT PRIMARY KEY, v INT)")
    for text in (
        "INSERT INTO w VALUES (1, 1), (2, 2), (3, 3)",
        "UPDATE w SET v = v + 1 WHERE id > 1",
        "DELETE FROM w WHERE v = 4",
        "INSERT INTO w SELECT id + 10, v FROM w WHERE id = 1",
        "UPDATE w JOIN w x ON w.id = x.id SET w.v = 9 WHERE x.id = 2",
        "DELETE FROM w WHERE id IN (SELECT id FROM (SELECT id FROM w WHERE id > 10) q)",
    ):
        before = rows(session, "SELECT * FROM w ORDER BY id")
        rows(session, f"EXPLAIN {text}")
        assert rows(session, "SELECT * FROM w ORDER BY id") == before
        lines = rows(session, f"EXPLAIN ANALYZE {text}")
        assert lines[0][1:3] == ["N/A", "0"], lines
        assert rows(session, "SELECT * FROM w ORDER BY id") != before
    assert rows(session, "SELECT * FROM w ORDER BY id") == [[1, 1], [2, 9]]


def test_a_written_statement_is_one_of_its_transaction(session: Session) -> None:
    run(session, "CREATE TABLE ai (id INT PRIMARY KEY AUTO_INCREMENT, v INT)")
    run(session, "BEGIN")
    for n in (1, 2):
        rows(session, "EXPLAIN ANALYZE INSERT INTO ai (v) VALUES (5)")
        assert rows(session, "SELECT LAST_INSERT_ID(), COUNT(*) FROM ai") == [[n, n]]
    run(session, "ROLLBACK")
    assert rows(session, "SELECT * FROM ai") == []
    run(session, "START TRANSACTION READ ONLY")
    assert error(session, "EXPLAIN ANALYZE INSERT INTO ai (v) VALUES (5)") == (1792, "25006")
    run(session, "ROLLBACK")


def test_own_writes_over_an_older_snapshot_are_counted(world: World) -> None:
    mine, other = world.session(), world.session()
    run(mine, "CREATE TABLE own (id INT PRIMARY KEY, a INT, KEY ka (a))")
    run(mine, "INSERT INTO own VALUES (1, 5), (2, 5), (3, 6)")
    run(mine, "BEGIN")
    rows(mine, "SELECT * FROM own")
    run(other, "INSERT INTO own VALUES (4, 5)")
    run(mine, "UPDATE own SET a = 5 WHERE id = 3")
    found = rows(mine, "SELECT id FROM own FORCE INDEX (ka) WHERE a = 5")
    lines = rows(mine, "EXPLAIN ANALYZE SELECT id FROM own FORCE INDEX (ka) WHERE a = 5")
    assert {line[2] for line in lines} == {str(len(found))}, lines
    run(mine, "ROLLBACK")


def test_plans_that_others_use_are_left_alone(session: Session) -> None:
    text, met, plain = "SELECT b FROM t WHERE a = 3 ORDER BY c", list[type](), Filter.rows

    def noted(self: Filter, *args: Any) -> Any:
        met.append(type(self))
        return plain(self, *args)

    rows(session, text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Filter, "rows", noted)
        rows(session, f"EXPLAIN ANALYZE {text}")
        rows(session, text)
        rows(session, text.replace("3", "4"))
    assert met == [WatchedFilter, Filter, Filter]


def test_formats(session: Session) -> None:
    text = "SELECT COUNT(*) FROM t WHERE a = 3"
    plain = rows(session, f"EXPLAIN {text}")
    for form in ("row", "'traditional'", "'ROW'"):
        assert rows(session, f"EXPLAIN FORMAT = {form} {text}") == plain
    brief = rows(session, f"EXPLAIN FORMAT = brief {text}")
    assert [line[1:4] for line in brief] == [line[1:4] for line in plain]
    assert brief[0][0] == "StreamAgg" and not any("_" in line[0] for line in brief)
    tree = run(session, f"EXPLAIN FORMAT = 'plan_tree' {text}")
    assert [column.name for column in tree.columns] == [
        *("id", "task", "access object", "operator info")
    ]
    assert tree.rows[0][3] == "funcs:count(1)->Column"
    measured = run(session, f"EXPLAIN ANALYZE {text}")
    assert [column.name for column in measured.columns] == [
        *("id", "estRows", "actRows", "task", "access object"),
        *("execution info", "operator info", "memory", "disk"),
    ]
    assert error(session, f"EXPLAIN FORMAT = 'nothing' {text}") == (1791, "HY000")
    ((nested,),) = rows(session, f"EXPLAIN FORMAT = 'json' {text}")
    (top,) = json.loads(nested)
    assert top["id"] == plain[0][0] and top["subOperators"][0]["id"] == "IndexLookUp_3"


def test_parameters_are_shown_by_their_values(session: Session) -> None:
    run(session, "PREPARE p FROM 'EXPLAIN SELECT * FROM t WHERE a = ? AND c LIKE ?'")
    run(session, "SET @a = 7, @c = 'x%'")
    shown = " ".join(line[4] for line in rows(session, "EXECUTE p USING @a, @c"))
    assert "range:[7,7]" in shown and 'like(test.t.c, "x%", 92)' in shown


def test_the_slow_logs_plan_is_the_same(session: Session) -> None:
    text = "SELECT * FROM t WHERE a = 3 AND b = 4"
    assert session.plan_of(text) == rows(session, f"EXPLAIN {text}")
