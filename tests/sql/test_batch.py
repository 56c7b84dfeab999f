"""BATCH ... LIMIT n: every row in exactly one job, refusals of TiDB, and what is left half way."""

import threading
from collections.abc import Iterator

import pytest

from exuvia.base.errors import Refused
from exuvia.sql.session.session import Session
from support.world import World, error, rows, run


@pytest.fixture
def session(world: World) -> Iterator[Session]:
    found = world.session("")
    run(found, "CREATE DATABASE b")
    run(found, "USE b")
    run(found, "CREATE TABLE t (id INT PRIMARY KEY, v INT, c VARCHAR(9), KEY (v), KEY (c))")
    run(found, "CREATE TABLE n (a INT)")
    run(found, "INSERT INTO n VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9)")
    yield found
    run(found, "DROP DATABASE b")
    found.close()


def fill(session: Session, text: str = "x.a, CONCAT('c', y.a)") -> None:
    """A hundred rows: id 0 to 99."""
    run(session, f"INSERT INTO t SELECT x.a * 10 + y.a, {text} FROM n x, n y")


def message(session: Session, text: str) -> str:
    with pytest.raises(Refused) as refused:
        session.execute(text)
    assert (refused.value.code, refused.value.state) == (1105, "HY000")
    return refused.value.message


def test_jobs_are_counted_and_all_rows_written_once(session: Session) -> None:
    fill(session)
    result = run(session, "BATCH ON id LIMIT 7 UPDATE t SET c = CONCAT(c, '!') WHERE v < 5")
    assert [column.name for column in result.columns] == ["number of jobs", "job status"]
    assert [list(row) for row in result.rows] == [[8, "all succeeded"]]
    assert rows(session, "SELECT COUNT(*) FROM t WHERE c LIKE 'c_!'") == [[50]]
    assert rows(session, "SELECT COUNT(*) FROM t WHERE c LIKE 'c_'") == [[50]]
    assert rows(session, "BATCH LIMIT 10 DELETE FROM t WHERE v >= 5") == [[5, "all succeeded"]]
    assert rows(session, "BATCH LIMIT 10 DELETE FROM t WHERE v >= 5") == [[0, "all succeeded"]]
    assert rows(session, "SELECT COUNT(*), MAX(id) FROM t") == [[50, 49]]
    run(session, "ADMIN CHECK TABLE t")


def test_equal_shard_values_stay_in_one_job(session: Session) -> None:
    fill(session)
    assert rows(session, "BATCH ON v LIMIT 3 UPDATE t SET c = CONCAT(c, '!')") == [
        [10, "all succeeded"]
    ]
    assert rows(session, "SELECT COUNT(*) FROM t WHERE c LIKE 'c_!'") == [[100]]


def test_values_that_a_collation_holds_for_equal_stay_together(session: Session) -> None:
    run(
        session,
        "CREATE TABLE w (c VARCHAR(9) COLLATE utf8mb4_general_ci, n INT DEFAULT 0, KEY (c))",
    )
    run(
        session,
        "INSERT INTO w (c) VALUES ('a'), ('A'), ('a '), ('b'), ('B'), ('c'), (NULL), (NULL)",
    )
    run(session, "BATCH ON c LIMIT 1 UPDATE w SET n = n + 1")
    assert rows(session, "SELECT n, COUNT(*) FROM w GROUP BY n") == [[1, 8]]


SHARDS = [
    ("BIGINT UNSIGNED", "18446744073709551610 + x.a"),
    ("DECIMAL(30, 10)", "1234567890123456789.0123456789 + x.a"),
    ("DOUBLE", "1e20 / 3 + x.a * 1e19"),
    ("VARCHAR(30)", "CONCAT('it''s \\\\ ', x.a)"),
    ("VARBINARY(30)", "UNHEX(CONCAT('ff0027', HEX(x.a)))"),
    ("DATE", "DATE_ADD('2020-02-25', INTERVAL x.a DAY)"),
    ("DATETIME(6)", "DATE_ADD('2020-02-25 01:02:03.000004', INTERVAL x.a MICROSECOND)"),
    ("TIMESTAMP", "DATE_ADD('2020-02-25 01:02:03', INTERVAL x.a HOUR)"),
    ("TIME(3)", "SEC_TO_TIME(x.a + 0.125)"),
    ("YEAR", "2000 + x.a"),
]


@pytest.mark.parametrize(("kind", "value"), SHARDS, ids=[kind for kind, _ in SHARDS])
def test_every_type_of_shard_column(session: Session, kind: str, value: str) -> None:
    """Each value's text finds its row again; NULLs are in the first job."""
    limit = " WHERE x.a < 6" if "UNSIGNED" in kind else ""
    run(session, f"CREATE TABLE s (k {kind} NULL, n INT DEFAULT 0, KEY (k))")
    run(session, f"INSERT INTO s (k) SELECT {value} FROM n x{limit}")
    run(session, "INSERT INTO s (k) VALUES (NULL), (NULL)")
    run(session, "SET time_zone = '+05:30'")
    [[jobs, said]] = rows(session, "BATCH ON k LIMIT 2 UPDATE s SET n = n + 1")
    assert jobs >= 4 and said == "all succeeded"
    assert rows(session, "SELECT n, COUNT(*) FROM s GROUP BY n") == [[1, 8 if limit else 12]]


@pytest.mark.parametrize("kind", ["FLOAT", "ENUM('a', 'b')", "SET('a', 'b')", "BIT(8)"])
def test_shard_columns_without_exact_texts_are_refused(session: Session, kind: str) -> None:
    run(session, f"CREATE TABLE s (k {kind} NULL, n INT, KEY (k))")
    assert "unsupported type" in message(session, "BATCH ON k LIMIT 2 DELETE FROM s")


def test_a_table_without_a_clustered_key_is_cut_by_its_row_id(session: Session) -> None:
    assert rows(session, "BATCH LIMIT 4 DELETE FROM n WHERE a > 1") == [[2, "all succeeded"]]
    assert rows(session, "SELECT a FROM n ORDER BY a") == [[0], [1]]


def test_row_ids_are_read_by_their_range(session: Session) -> None:
    run(session, "CREATE TABLE h (a INT) PARTITION BY HASH (a) PARTITIONS 3")
    run(session, "INSERT INTO h SELECT x.a * 10 + y.a FROM n x, n y")
    for table in ("n", "h"):
        ids = [each for [each] in rows(session, f"SELECT _tidb_rowid FROM {table} ORDER BY 1")]
        low, high = ids[2], ids[-2]
        of = f"SELECT COUNT(*) FROM {table} WHERE "
        between = len([each for each in ids if low <= each <= high])
        assert rows(session, f"{of} _tidb_rowid BETWEEN {low} AND {high}") == [[between]]
        assert rows(session, f"{of} {high} > _tidb_rowid AND _tidb_rowid > {low}") == [
            [between - 2]
        ]
        assert rows(session, f"{of} {table}._tidb_rowid = {low}") == [[1]]
        assert rows(session, f"{of} _tidb_rowid > {high} AND _tidb_rowid < {low}") == [[0]]
        assert rows(session, f"{of} _tidb_rowid > {low} OR a >= 0") == [[len(ids)]]
        run(session, "BEGIN")
        run(session, f"INSERT INTO {table} VALUES (1000)")
        assert rows(session, f"SELECT a FROM {table} WHERE _tidb_rowid > {ids[-1]}") == [[1000]]
        run(session, f"UPDATE {table} SET a = a + 3000 WHERE _tidb_rowid = {low}")
        assert rows(session, f"{of} a >= 3000 AND _tidb_rowid <= {low}") == [[1]]
        run(session, "ROLLBACK")


def test_insert_and_replace_of_a_query(session: Session) -> None:
    fill(session)
    run(session, "CREATE TABLE u LIKE t")
    into = "INSERT INTO u SELECT * FROM t WHERE id < 50 ON DUPLICATE KEY UPDATE v = -1"
    assert rows(session, f"BATCH ON id LIMIT 20 {into}") == [[3, "all succeeded"]]
    assert rows(session, f"BATCH ON b.t.id LIMIT 20 {into}") == [[3, "all succeeded"]]
    assert rows(session, "SELECT COUNT(*), MAX(v) FROM u") == [[50, -1]]
    replace = "REPLACE INTO u (id, v) SELECT id, 7 FROM t AS x WHERE x.v = 1 OR x.v = 9"
    assert rows(session, f"BATCH ON id LIMIT 5 {replace}") == [[4, "all succeeded"]]
    assert rows(session, "SELECT COUNT(*) FROM u WHERE v = 7") == [[20]]


def test_joins_name_their_column_whole(session: Session) -> None:
    fill(session)
    joined = "UPDATE t JOIN n ON t.v = n.a SET t.c = 'joined' WHERE n.a < 3"
    assert "fully specified" in message(session, f"BATCH ON id LIMIT 7 {joined}")
    assert "not in the tables" in message(session, f"BATCH ON b.u.id LIMIT 7 {joined}")
    assert rows(session, f"BATCH ON b.t.id LIMIT 7 {joined}") == [[5, "all succeeded"]]
    assert rows(session, "SELECT COUNT(*) FROM t WHERE c = 'joined'") == [[30]]


def test_dry_runs_change_nothing(session: Session) -> None:
    fill(session)
    of = "DELETE FROM t WHERE v < 5 OR v = 7"
    result = run(session, f"BATCH ON id LIMIT 25 DRY RUN {of}")
    assert [column.name for column in result.columns] == ["split statement examples"]
    assert [list(row) for row in result.rows] == [
        ["DELETE FROM t WHERE (`id` BETWEEN 0 AND 24) AND (v < 5 OR v = 7)"],
        ["DELETE FROM t WHERE (`id` BETWEEN 70 AND 79) AND (v < 5 OR v = 7)"],
    ]
    result = run(session, f"BATCH ON id LIMIT 25 DRY RUN QUERY {of}")
    assert [column.name for column in result.columns] == ["query statement"]
    assert [list(row) for row in result.rows] == [
        ["SELECT `id` FROM t WHERE (v < 5 OR v = 7) ORDER BY IF(ISNULL(`id`),0,1),`id`"]
    ]
    assert rows(session, "SELECT COUNT(*) FROM t") == [[100]]


REFUSED = [
    ("BATCH ON id LIMIT 0 DELETE FROM t", "batch size should be positive"),
    ("BATCH ON id LIMIT 5 DELETE FROM t LIMIT 9", "don't support limit"),
    ("BATCH ON id LIMIT 5 UPDATE t SET v = 1 ORDER BY v", "don't support order by"),
    ("BATCH ON id LIMIT 5 INSERT INTO t SELECT * FROM t x ORDER BY id", "don't support order by"),
    ("BATCH ON id LIMIT 5 INSERT INTO t VALUES (1, 1, '')", "insert select stmt only"),
    ("BATCH LIMIT 5 INSERT INTO t SELECT * FROM t UNION SELECT 1, 1, 1", "non-select source"),
    ("BATCH ON a LIMIT 5 DELETE FROM n", "shard column a is not indexed"),
    ("BATCH ON nope LIMIT 5 DELETE FROM t", "shard column nope not found"),
    ("BATCH ON id LIMIT 5 UPDATE t SET id = id + 1", "shard column cannot be updated"),
    ("BATCH ON id LIMIT 5 UPDATE t AS x SET x.id = 1", "shard column cannot be updated"),
    ("BATCH LIMIT 5 DELETE FROM two", "clustered index contains multiple columns"),
]


@pytest.mark.parametrize(("text", "said"), REFUSED, ids=[text for text, _ in REFUSED])
def test_what_is_refused(session: Session, text: str, said: str) -> None:
    fill(session)
    run(session, "CREATE TABLE two (a INT, b INT, PRIMARY KEY (a, b))")
    assert said in message(session, text)
    assert rows(session, "SELECT COUNT(*), SUM(id) FROM t") == [[100, 4950]]


def test_a_column_of_another_table_is_none(session: Session) -> None:
    fill(session)
    here = session.database
    for column in ("t.id", f"{here}.t.id", "nowhere.x.id", "u.id"):
        assert error(session, f"BATCH ON {column} LIMIT 50 DELETE FROM t AS x") == (1054, "42S22")
    assert rows(session, "SELECT COUNT(*) FROM t") == [[100]]
    run(session, f"BATCH ON {here.upper()}.X.id LIMIT 50 DELETE FROM t AS x WHERE id < 60")
    run(session, f"BATCH ON {here}.t.id LIMIT 50 DELETE FROM t")
    assert rows(session, "SELECT COUNT(*) FROM t") == [[0]]


def test_what_is_no_batch(session: Session) -> None:
    for text in (
        "BATCH LIMIT 5 SELECT 1",
        "BATCH ON id DELETE FROM t",
        "BATCH LIMIT x DELETE FROM t",
    ):
        assert error(session, text) == (1064, "42000")
    assert error(session, "BATCH LIMIT 5 DELETE FROM nope")[0] == 1146
    assert error(session, "BATCH LIMIT 5 DELETE FROM t WHERE nope = 1")[0] == 1054


def test_only_outside_a_transaction(session: Session) -> None:
    run(session, "BEGIN")
    said = "non-transactional DML can only run in auto-commit mode. auto-commit:true, inTxn:true"
    assert message(session, "BATCH LIMIT 5 DELETE FROM t") == said
    run(session, "ROLLBACK")
    run(session, "SET autocommit = 0")
    assert "auto-commit:false, inTxn:false" in message(session, "BATCH LIMIT 5 DELETE FROM t")
    run(session, "SET autocommit = 1")


def test_a_job_that_fails_ends_the_rest(session: Session) -> None:
    fill(session)
    run(session, "CREATE TABLE u LIKE t")
    run(session, "INSERT INTO u VALUES (55, 0, '')")
    into = "BATCH ON id LIMIT 10 INSERT INTO u SELECT * FROM t"
    with pytest.raises(Refused) as refused:
        session.execute(into)
    assert refused.value.code == 8143
    assert "job id: 6, total jobs: 10. job range: [50, 59]" in refused.value.message
    assert "Duplicate entry '55'" in refused.value.message
    assert rows(session, "SELECT COUNT(*) FROM u") == [[51]]
    run(session, "DELETE FROM u WHERE id <> 55")
    run(session, "SET tidb_nontransactional_ignore_error = ON")
    assert message(session, into).startswith("1/10 jobs failed in the non-transactional DML: job")
    assert rows(session, "SELECT COUNT(*) FROM u") == [[91]]
    run(session, "INSERT INTO u VALUES (5, 0, '') ON DUPLICATE KEY UPDATE v = 1")
    with pytest.raises(Refused) as refused:
        session.execute(into)
    assert refused.value.code == 1062
    assert refused.value.message.startswith("Early return: error occurred in the first job")
    run(session, "SET tidb_nontransactional_ignore_error = OFF")


def test_a_killed_batch_says_how_far_it_came(session: Session, world: World) -> None:
    fill(session)
    watcher = world.session("b")
    said: list[object] = []

    def work() -> None:
        try:
            run(session, "BATCH ON id LIMIT 1 UPDATE t SET v = 1000 + SLEEP(0.05)")
        except Refused as refused:
            said.append((refused.code, refused.listing))

    thread = threading.Thread(target=work)
    thread.start()
    done = "SELECT COUNT(*) FROM t WHERE v = 1000"
    while rows(watcher, done)[0][0] < 3:
        pass
    session.interrupt()
    thread.join()
    [[reached]] = rows(watcher, done)
    assert 3 <= reached < 100
    assert said == [(1317, f"{reached} of 100 jobs of the statement were done before")]
    watcher.close()
