"""IS NULL and <=> are equalities of a key: answers are those of a table without indexes, and only
what they name is read."""

import random
from itertools import product

import pytest

from exuvia.sql.session.session import Session
from support.few import one_in
from support.world import rows, run

COLUMNS = (
    "id INT PRIMARY KEY, a INT, b VARCHAR(9), c TIMESTAMP NULL, d DECIMAL(6,2), n INT NOT NULL"
)
INDEXES = "KEY ka (a), UNIQUE KEY ub (b), KEY kab (a, b), KEY kc (c, a), KEY kd (d, id), KEY kn (n)"
CUTS = (
    "", "PARTITION BY HASH (a) PARTITIONS 3", "PARTITION BY KEY (b) PARTITIONS 3",
    "PARTITION BY RANGE COLUMNS (a) (PARTITION p VALUES LESS THAN (2), PARTITION q VALUES LESS"
    " THAN (MAXVALUE))",
    "PARTITION BY RANGE (a) (PARTITION p VALUES LESS THAN (2), PARTITION q VALUES LESS THAN"
    " MAXVALUE)",
    "PARTITION BY LIST (a) (PARTITION p VALUES IN (NULL, 1), PARTITION q VALUES IN (0, 2, 3, 4))",
    "PARTITION BY LIST COLUMNS (a) (PARTITION p VALUES IN (NULL, 1), PARTITION q VALUES IN (0, 2,"
    " 3, 4))",
)  # fmt: skip
TERMS = (
    "{t}a IS NULL", "{t}b IS NULL", "{t}c IS NULL", "{t}d IS NULL", "{t}n IS NULL",
    "{t}a <=> {k}", "{t}a <=> NULL", "{t}b <=> 's{k}'", "NULL <=> {t}b", "{t}d <=> {k}.50",
    "{t}c <=> '2024-01-0{p}'", "{t}n <=> {k}", "{t}n <=> NULL", "{t}a = {k}", "{t}a > {k}",
    "{t}b IN ('s{k}', 's2')", "{t}b >= 's{k}'", "{t}a IS NOT NULL", "{t}id < {m}", "{t}a <=> 'x'",
    "({t}a IS NULL OR {t}b IS NULL)", "NOT {t}a <=> {k}", "{t}a <=> {t}n",
)  # fmt: skip


def made(session: Session, cut: str) -> None:
    key = "id INT NOT NULL" if cut else "id INT PRIMARY KEY"
    columns = COLUMNS.replace("id INT PRIMARY KEY", key)
    indexes = INDEXES.replace("UNIQUE KEY", "KEY") if cut else INDEXES
    run(session, f"CREATE TABLE t ({columns}, {indexes}) {cut}")
    run(session, f"CREATE TABLE plain ({columns})")
    chance = random.Random(cut)

    def cell(text: str) -> str:
        return "NULL" if chance.random() < 0.4 else text

    for table in ("t", "plain"):
        chance.seed(cut)
        lines = []
        for n in range(120):
            texts = (str(n % 5), f"'s{n}'", f"'2024-01-0{n % 6 + 1}'", f"{n % 5}.5")
            lines.append(f"({n}, {', '.join(map(cell, texts))}, {n % 5})")
        run(session, f"INSERT INTO {table} VALUES {', '.join(lines)}")


@pytest.mark.parametrize(("cut", "analyzed"), one_in(9, product(CUTS, [False, True])))
def test_answers_are_those_without_indexes(session: Session, cut: str, analyzed: bool) -> None:
    made(session, cut)
    if analyzed:
        run(session, "ANALYZE TABLE t")
    chance = random.Random(f"{cut}{analyzed}")
    for _ in range(150):
        some = [chance.choice(TERMS) for _ in range(chance.randrange(1, 4))]
        facts = {"k": chance.randrange(6), "p": chance.randrange(1, 8), "m": chance.randrange(130)}
        alone = " AND ".join(some).format(t="", **facts)
        rest = chance.choice(("", "ORDER BY id", "ORDER BY id DESC LIMIT 7", "ORDER BY id LIMIT 3"))
        for asked in (
            f"SELECT * FROM {{}} WHERE {alone} {rest or 'ORDER BY id'}",
            f"SELECT COUNT(*), SUM(id), MAX(b) FROM {{}} WHERE {alone}",
            f"SELECT x.id, y.id FROM plain x LEFT JOIN {{}} y ON x.id = y.id AND y.n < 3"
            f" WHERE {' AND '.join(some).format(t='y.', **facts)} ORDER BY 1",
        ):
            found, wanted = (rows(session, asked.format(table)) for table in ("t", "plain"))
            assert found == wanted, asked
    for table in ("t", "plain"):
        run(session, f"UPDATE {table} SET n = 77 WHERE a IS NULL AND b <=> NULL")
        run(session, f"DELETE FROM {table} WHERE c IS NULL AND a <=> 3")
    assert rows(session, "SELECT * FROM t ORDER BY id") == rows(
        session, "SELECT * FROM plain ORDER BY id"
    )
    run(session, "ADMIN CHECK TABLE t")


def plan(session: Session, where: str) -> str:
    found = rows(session, f"EXPLAIN SELECT * FROM t WHERE {where}")
    return "\n".join(" ".join(map(str, line)) for line in found)


def test_only_what_is_named_is_read(session: Session) -> None:
    made(session, "")
    assert "range:[NULL,NULL]" in plan(session, "a IS NULL AND id > 3")
    assert "range:[NULL,NULL]" in plan(session, "b <=> NULL")  # a unique key may have many of it
    assert "range:[1 NULL,1 NULL]" in plan(session, "a = 1 AND b IS NULL")
    assert 'range:[NULL "s3",NULL +inf]' in plan(session, "a IS NULL AND b >= 's3'")
    assert "Point_Get" in plan(session, "id <=> 3")
    assert "range:" not in plan(session, "n IS NULL") or rows(
        session, "SELECT COUNT(*) FROM t WHERE n IS NULL"
    ) == [[0]]
    run(session, "ANALYZE TABLE t")
    assert "range:" not in plan(session, "d IS NULL")  # four rows of ten
    run(session, "UPDATE t SET d = 1 WHERE id > 2")
    run(session, "ANALYZE TABLE t")
    assert "index:kd" in plan(session, "d IS NULL")


@pytest.mark.parametrize("cut", [each for each in CUTS if each])
def test_one_partition_has_null(session: Session, cut: str) -> None:
    made(session, cut)
    column = "b" if "KEY (b)" in cut else "a"
    for where in (f"{column} IS NULL", f"{column} <=> NULL"):
        found = plan(session, where)
        assert "partition:p" in found and "partition:all" not in found, found
