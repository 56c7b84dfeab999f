"""EXPLAIN prints one tree for both engines, and ANALYZE counts what each of them did.

The texts of many shapes are in transcripts/explain_joins.txt.
"""

import json
import os
import re
from collections.abc import Iterator
from typing import Any

import pytest

from exuvia.base.errors import Refused
from exuvia.sql.access.paths import IndexRange, KeyRange, Path, Points, UniquePoints
from exuvia.sql.select import stream
from exuvia.sql.session.session import Session
from sql.test_two_engines import Draw, filled
from support.engines import leave_to_duckdb
from support.world import World, rows, run

SEEDS = int(os.environ.get("EXPLAIN_SEEDS", "120"))
STATEMENTS = (
    "CREATE TABLE a (id INT PRIMARY KEY, n INT, k INT, t VARCHAR(9), KEY k (k))",
    "CREATE TABLE b (id INT PRIMARY KEY, a INT, v INT, KEY a (a))",
    "INSERT INTO a VALUES (1, 1, 1, 'x'), (2, 1, 2, 'y'), (3, 2, 2, 'x'), (4, NULL, 3, NULL)",
    "INSERT INTO b VALUES (1, 1, 5), (2, 1, 6), (3, 2, 6), (4, 3, 7), (5, NULL, 5), (6, 9, 8)",
)
Lines = list[list[Any]]


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with World() as owner:
        for text in STATEMENTS:
            run(owner.session(), text)
        session = owner.session()
        run(session, "CREATE DATABASE drawn")
        run(session, "USE drawn")
        filled(session)
        yield owner


@pytest.fixture
def session(world: World) -> Session:
    return world.session()


def explained(session: Session, text: str) -> Lines:
    return rows(session, f"EXPLAIN FORMAT = 'brief' {text}")


def without_engine(lines: Lines) -> Lines:
    """The lines without the name of the engine, and without its remark in the first one."""
    return [
        [
            *(line[0], line[1], line[2].replace("duckdb", "root"), *line[3:-1]),
            re.sub(r"(, )?engine:.*", "", line[-1]),
        ]
        for line in lines
    ]


def names(lines: Lines) -> list[str]:
    return [re.sub(r"^[│├└─ ]*|_\d+(?=\(|$)|\([\w ]+\)$", "", line[0]) for line in lines]


ANY_ENGINE = (
    "SELECT * FROM a, b",
    "SELECT a.id FROM a JOIN b ON a.n = b.v WHERE a.t = 'x' AND b.v > 1",
    "SELECT a.id FROM a LEFT JOIN b ON a.n = b.v AND b.v > 5 WHERE a.n > 1",
    "SELECT a.id FROM a RIGHT JOIN b ON a.n = b.v",
    "SELECT n, COUNT(*), SUM(k + 1) FROM a GROUP BY n HAVING COUNT(*) > 1 ORDER BY 2 DESC LIMIT 3",
    "SELECT DISTINCT t FROM a JOIN b ON a.n = b.v - 5 ORDER BY t LIMIT 2",
    "SELECT MAX(id) + 1 FROM a WHERE n IS NOT NULL GROUP BY t",
    "SELECT id FROM a UNION SELECT a FROM b UNION ALL SELECT 9 ORDER BY 1 LIMIT 4",
    "SELECT n FROM a EXCEPT SELECT v FROM b",
    "SELECT t FROM a WHERE n IN (SELECT v FROM b WHERE v < 9)",
    "SELECT id, (SELECT MAX(v) FROM b WHERE b.v > a.n) FROM a ORDER BY id",
    "SELECT id FROM a WHERE n > (SELECT AVG(v) FROM b) OR EXISTS (SELECT 1 FROM b WHERE v = n)",
    "WITH w AS (SELECT n, COUNT(*) c FROM a GROUP BY n) SELECT x.c FROM w x JOIN w y ON x.n = y.c",
    "SELECT q.c FROM (SELECT v, COUNT(*) c FROM b GROUP BY v) q JOIN a ON a.n = q.v",
    "VALUES ROW(1, 2), ROW(3, 4)",
)


@pytest.mark.parametrize("text", ANY_ENGINE)
def test_a_plan_is_the_same_for_both_engines(
    session: Session, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = explained(session, text)
    assert here[0][-1].endswith("engine:row, duckdb after 3000 rows")
    assert "duckdb" not in {line[2] for line in here}
    leave_to_duckdb(monkeypatch)
    there = explained(session, text)
    assert there[0][-1].endswith("engine:duckdb, reason:the test")
    assert there[0][2] == "duckdb"
    assert without_engine(here) == without_engine(there)


BY_KEY = (
    ("SELECT a.id FROM a JOIN b {} ON b.a = a.id WHERE a.n = 1", "IGNORE INDEX (a)"),
    ("SELECT a.id FROM a LEFT JOIN b {} ON b.a = a.id AND b.v > 5", "IGNORE INDEX (a)"),
    ("SELECT id FROM a {} WHERE k IN (SELECT v FROM b)", "IGNORE INDEX (k)"),
    ("SELECT id FROM a WHERE NOT EXISTS (SELECT 1 FROM b {} WHERE b.a = a.n)", "IGNORE INDEX (a)"),
)


@pytest.mark.parametrize(("text", "hint"), BY_KEY)
def test_only_the_row_engine_reads_by_a_key_of_other_rows(
    session: Session, text: str, hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the index its plan is DuckDB's."""
    here, without = explained(session, text.format("")), explained(session, text.format(hint))
    decided = [line[-1] for line in here if "range: decided by [eq(" in line[-1]]
    assert len(decided) == 1 and not any("decided by" in line[-1] for line in without)
    if "EXISTS" not in text:
        assert names(here)[0] == "IndexJoin" and names(without)[0] == "HashJoin"
    leave_to_duckdb(monkeypatch)
    assert without_engine(explained(session, text.format(""))) == without_engine(without)


@pytest.mark.parametrize("text", [*ANY_ENGINE, *(text.format("") for text, _ in BY_KEY)])
def test_explain_reads_nothing_and_analyze_prints_the_same_plan(
    session: Session, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = rows(session, f"EXPLAIN {text}")
    with monkeypatch.context() as patch:
        for kind in (Path, Points, UniquePoints, KeyRange, IndexRange):
            patch.setattr(kind, "open", None)
        assert rows(session, f"EXPLAIN {text}") == plan
    measured = [[*line[:2], line[3], line[4], line[6]] for line in _analyzed(session, text)]
    assert without_engine(measured) == without_engine(plan)


def _analyzed(session: Session, text: str) -> Lines:
    return rows(session, f"EXPLAIN ANALYZE {text}")


COUNTED = (
    (
        "SELECT a.id FROM a JOIN b ON b.a = a.id WHERE a.n = 1",
        {"IndexJoin": 3, "Selection": 2, "TableFullScan": 4, "IndexRangeScan": 3},
        {"DuckDB": 3, "HASH_JOIN": 3, "TableFullScan": [4, 6]},
    ),
    (
        "SELECT t, COUNT(*) FROM a WHERE n < 3 GROUP BY t HAVING COUNT(*) > 1",
        {"Selection": [1, 3], "HashAgg": 2, "TableFullScan": 4},
        {"DuckDB": 1, "HASH_GROUP_BY": 2, "TableFullScan": 4},
    ),
    (
        "SELECT a.id FROM a JOIN b ON a.n = b.v - 5 AND b.v > 5 WHERE a.t = 'x' ORDER BY 1 LIMIT 1",
        {"TopN": 1, "HashJoin": 3, "Selection": [4, 2], "TableFullScan": [6, 4]},
        {"DuckDB": 1, "HASH_JOIN": 3, "TableFullScan": [4, 6]},
    ),
    (
        "SELECT id FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.a = a.id)",
        {"Apply": 3, "IndexRangeScan": 4},
        {"DuckDB": 3, "TableFullScan": [4, 6]},
    ),
    (
        "SELECT id FROM a UNION SELECT a FROM b",
        {"HashAgg": 6, "Union": 10, "TableFullScan": [4, 6]},
        {"DuckDB": 6, "TableFullScan": [4, 6]},
    ),
)


def counts(lines: Lines, name: str) -> int | list[int]:
    """actRows of the operators with this name, from the top."""
    numbers = [int(line[2]) for line, own in zip(lines, names(lines), strict=True) if own == name]
    return numbers[0] if len(numbers) == 1 else numbers


@pytest.mark.parametrize(("text", "by_row", "by_duck"), COUNTED)
def test_both_engines_count_what_they_did(
    session: Session,
    text: str,
    by_row: dict[str, Any],
    by_duck: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = _analyzed(session, text)
    assert {name: counts(here, name) for name in by_row} == by_row, here
    assert re.search(r"engine:row, \d+ of 3000 rows$", here[0][6])
    leave_to_duckdb(monkeypatch)
    there = _analyzed(session, text)
    assert {name: counts(there, name) for name in by_duck} == by_duck, there
    assert there[0][6] == "engine:duckdb, reason:the test"


def test_analyze_says_when_the_row_engine_gave_up(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "SELECT a.id FROM a JOIN b ON b.a = a.id"
    monkeypatch.setattr(stream, "MOST_STEPS", 6)
    assert explained(session, text)[0][-1].endswith("engine:row, duckdb after 6 rows")
    lines = _analyzed(session, text)
    assert lines[0][6] == "engine:duckdb, reason:more than 6 rows were read or combined"
    assert lines[0][2] == "4" and names(lines)[0] == "DuckDB"
    monkeypatch.setattr(stream, "MOST_STEPS", 3)
    reason = "engine:duckdb, reason:a has more than 3 rows"
    assert explained(session, text)[0][-1].endswith(reason)
    assert _analyzed(session, text)[0][6] == reason
    monkeypatch.setattr(stream, "MOST_STEPS", 3000)
    for query, reason in (
        ("SELECT id, RANK() OVER (ORDER BY n) FROM a", "a window function"),
        ("SELECT n, COUNT(*) FROM a GROUP BY n WITH ROLLUP", "ROLLUP"),
        ("SELECT COUNT(GET_LOCK('x', 0)) FROM a GROUP BY n", "a function with an effect"),
    ):
        assert explained(session, query)[0][-1].endswith(f"engine:duckdb, reason:{reason}")


def test_statistics_tell_that_the_row_engine_will_give_up(world: World) -> None:
    session = world.session()
    run(session, "CREATE TABLE many (id INT PRIMARY KEY, v INT, KEY v (v))")
    for start in range(0, 2000, 1000):
        values = ", ".join(f"({n}, {n % 2})" for n in range(start, start + 1000))
        run(session, f"INSERT INTO many VALUES {values}")
    text = "SELECT x.id FROM many x JOIN many y ON x.v = y.v WHERE x.id < 900"
    assert "engine:row" in explained(session, text)[0][-1]
    world.deltas.flush()
    run(session, "ANALYZE TABLE many")
    lines = explained(session, text)
    reason = re.search(r"reason:about (\d+) rows to read and combine$", lines[0][-1])
    assert reason is not None and int(reason[1]) > 800_000
    assert names(lines)[0] == "HashJoin" and lines[0][2] == "duckdb"


def test_common_tables_are_trees_of_their_own(session: Session) -> None:
    text = "WITH w AS (SELECT id FROM a WHERE n = 1) SELECT * FROM w x JOIN w y ON x.id = y.id"
    lines = explained(session, text)
    assert names(lines)[:4] == ["HashJoin", "CTEFullScan", "CTEFullScan", "CTE"]
    ((nested,),) = rows(session, f"EXPLAIN FORMAT = 'tidb_json' {text}")
    assert [line[0] for line in lines if line[0].startswith("CTE")] == ["CTE_0"]
    join, common = json.loads(nested)
    assert [child["accessObject"] for child in join["subOperators"]] == ["CTE:y", "CTE:x"]
    assert common["id"] == "CTE_0" and common["subOperators"][0]["id"].startswith("Selection_")
    measured = _analyzed(session, text)
    assert [line[2] for line in measured if line[0] == "CTE_0"] == ["2"]
    assert counts(measured, "Selection") == 2


def test_duckdbs_profile_has_the_names_of_the_query(session: Session) -> None:
    text = "SELECT q.id, RANK() OVER (ORDER BY q.n) FROM a AS q JOIN b ON b.a = q.id"
    infos = " ".join(line[6] for line in _analyzed(session, text))
    assert "Projections:q.id, q.n" in infos and "Conditions:q.id = b.a" in infos, infos
    odd = 'SELECT `x"y`.id, RANK() OVER () FROM a AS `x"y`'
    assert 'Projections:x"y.id' in " ".join(line[6] for line in _analyzed(session, odd))
    twice = _analyzed(session, "SELECT a.n, SUM(n) OVER () FROM a WHERE n IN (SELECT n FROM a)")
    assert counts(twice, "TableFullScan") == [4, 4], twice


@pytest.mark.parametrize("most", [1 << 30, -1])
def test_drawn_queries_are_explained(
    world: World, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ANALYZE prints EXPLAIN's plan where the row engine ran it, and counts the rows of the
    answer."""
    session = world.session()
    run(session, "USE drawn")
    monkeypatch.setattr(stream, "MOST_STEPS", most)
    by_row = 0
    for seed in range(SEEDS):
        text = Draw(seed).query()
        try:
            answer = rows(session, text)
        except Refused:
            continue
        plan, lines = rows(session, f"EXPLAIN {text}"), _analyzed(session, text)
        assert lines[0][2] == str(len(answer)), (seed, text, lines)
        if "engine:row" in lines[0][6]:
            by_row += 1
            if any("semi join" in line[-1] for line in plan):
                continue  # IN of a query without rows needs no key
            measured = [[*line[:2], line[3], line[4], line[6]] for line in lines]
            assert without_engine(measured) == without_engine(plan), (seed, text)
    assert (by_row > SEEDS / 2) == (most > 0)
