"""TTL of a table: with TiDB's words, codes and jobs. Who deletes: tests/node/test_ttl_jobs.py."""

import pytest

from exuvia.base.errors import Refused
from exuvia.catalog import meta
from exuvia.cluster import member
from support.world import World, rows, run

PLAIN = "CREATE TABLE t (id INT PRIMARY KEY, c DATETIME) TTL = `c` + INTERVAL 3 MONTH"
SHOWN = (
    "/*T![ttl] TTL=`c` + INTERVAL 3 MONTH */ /*T![ttl] TTL_ENABLE='ON' */"
    " /*T![ttl] TTL_JOB_INTERVAL='24h' */"
)


@pytest.fixture
def world():
    with World() as found:
        one = found.session()
        run(one, "CREATE DATABASE d")
        run(one, "USE d")
        found.one = one
        yield found


@pytest.fixture
def session(world):
    return world.one


def error(session, text):
    with pytest.raises(Refused) as found:
        run(session, text)
    return found.value.code, found.value.message


def shown(session, table="t"):
    return rows(session, f"SHOW CREATE TABLE {table}")[0][1]


def newest_job(session):
    return rows(session, "ADMIN SHOW DDL JOBS 1")[0][3]


def test_a_table_says_when_its_rows_expire_and_shows_it_as_tidb_does(session):
    run(session, PLAIN)
    assert shown(session).endswith(f"COLLATE=utf8mb4_bin {SHOWN}")
    again = shown(session).replace("`t`", "`u`", 1)
    run(session, again)  # what is shown can be run, here and, as a comment, in MySQL
    assert shown(session, "u") == again
    run(session, "CREATE TABLE v LIKE t")
    assert SHOWN in shown(session, "v")
    run(session, "CREATE TEMPORARY TABLE w LIKE t")
    assert "TTL" not in shown(session, "w")


def test_options_are_changed_together_by_one_job_and_what_is_not_said_stays(session):
    run(session, "CREATE TABLE t (id INT PRIMARY KEY, c DATE, d TIMESTAMP)")
    run(session, "ALTER TABLE t TTL=c + INTERVAL '1:30' HOUR_MINUTE TTL_ENABLE='off'")
    assert newest_job(session) == "alter table ttl"
    interval = "TTL=`c` + INTERVAL _utf8mb4'1:30' HOUR_MINUTE"
    assert f"{interval} */ /*T![ttl] TTL_ENABLE='OFF'" in shown(session)
    run(session, f"ALTER TABLE t {interval}")  # what is shown can be run
    run(session, "ALTER TABLE t TTL_JOB_INTERVAL='1d12h'")
    run(session, "ALTER TABLE t TTL = `d` + INTERVAL 2 WEEK")
    assert shown(session).endswith(
        "/*T![ttl] TTL=`d` + INTERVAL 2 WEEK */ /*T![ttl] TTL_ENABLE='OFF' */"
        " /*T![ttl] TTL_JOB_INTERVAL='1d12h' */"
    )
    run(session, "ALTER TABLE t /*T![ttl] TTL_ENABLE='ON' */")
    assert "TTL_ENABLE='ON'" in shown(session)
    run(session, "ALTER TABLE t REMOVE TTL")
    assert newest_job(session) == "alter table no_ttl"
    assert "TTL" not in shown(session)
    run(session, "ALTER TABLE t COMMENT 'c'")
    run(session, "ALTER TABLE t REMOVE TTL")  # there is none: no job
    assert newest_job(session) == "modify table comment"


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("(id INT, c INT) TTL=c+INTERVAL 1 DAY", 8148, "Field 'c' is of a not supported type"),
        ("(id INT, c TIME) TTL=c+INTERVAL 1 DAY", 8148, "expect DATETIME, DATE or TIMESTAMP"),
        ("(id INT) TTL=c+INTERVAL 1 DAY", 1054, "Unknown column 'c' in 'TTL config'"),
        ("(id INT) TTL_ENABLE='ON'", 8150, "Cannot set TTL_ENABLE on a table without TTL config"),
        ("(c DATE) TTL_JOB_INTERVAL='1h'", 8150, "Cannot set TTL_JOB_INTERVAL on a table without"),
        (
            "(a FLOAT, c DATE, PRIMARY KEY (a)) TTL=c+INTERVAL 1 DAY",
            8153,
            "Unsupported clustered primary key type FLOAT/DOUBLE for TTL",
        ),
        ("(c DATE) TTL=c+INTERVAL 99999 YEAR", 1525, "Incorrect YEAR value: '99999'"),
        ("(c DATE) TTL=c+INTERVAL 1", 1064, ""),
        ("(c DATE) TTL=c-INTERVAL 1 DAY", 1064, ""),
        ("(c DATE) TTL=c+INTERVAL -1 DAY", 1064, ""),
        ("(c DATE) TTL=c+INTERVAL 1 FORTNIGHT", 1064, ""),
        ("(c DATE) TTL=c+INTERVAL 1 DAY TTL_ENABLE='YES'", 1064, ""),
        ("(c DATE) TTL=c+INTERVAL 1 DAY TTL_JOB_INTERVAL='soon'", 1064, ""),
        (
            "(id INT PRIMARY KEY, p INT, c DATE, FOREIGN KEY (p) REFERENCES t (id))"
            " TTL=c+INTERVAL 1 DAY",
            8152,
            "Set TTL for a table referenced by foreign key is not allowed",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_tidbs_code(session, text, code, said):
    found = error(session, f"CREATE TABLE t {text}")
    assert found[0] == code
    assert said in found[1]


def test_a_floating_key_that_is_no_handle_is_in_nobodys_way(session):
    run(
        session,
        "CREATE TABLE t (a FLOAT, c DATE, PRIMARY KEY (a) NONCLUSTERED) TTL=c+INTERVAL 1 DAY",
    )
    assert "TTL=`c` + INTERVAL 1 DAY" in shown(session)


def test_a_temporary_table_has_none(session):
    text = "CREATE TEMPORARY TABLE t (c DATE) TTL=c+INTERVAL 1 DAY"
    assert error(session, text) == (8151, "Set TTL for temporary table is not allowed")


def test_the_column_stays_and_the_ttl_follows_its_name(session):
    run(session, PLAIN)
    assert error(session, "ALTER TABLE t DROP COLUMN c") == (
        8149,
        "Cannot drop column 'c': needed in TTL config",
    )
    assert error(session, "ALTER TABLE t MODIFY COLUMN c BIGINT")[0] == 8148
    run(session, "ALTER TABLE t MODIFY COLUMN c TIMESTAMP")  # its rows are rewritten
    run(session, "ALTER TABLE t RENAME COLUMN c TO made")
    assert "TTL=`made` + INTERVAL 3 MONTH" in shown(session)
    run(session, "ALTER TABLE t CHANGE COLUMN made c2 DATE")
    assert "TTL=`c2` + INTERVAL 3 MONTH" in shown(session)
    run(session, "ALTER TABLE t REMOVE TTL")
    run(session, "ALTER TABLE t DROP COLUMN c2")


def test_no_foreign_key_refers_to_a_table_whose_rows_expire(session):
    refused = (8152, "Set TTL for a table referenced by foreign key is not allowed")
    run(session, PLAIN)
    child = "(id INT PRIMARY KEY, p INT, c DATE, {})"
    key = "FOREIGN KEY (p) REFERENCES t (id)"
    assert error(session, f"CREATE TABLE k {child.format(key)}") == refused
    run(session, f"CREATE TABLE k {child.format('KEY (p)')}")
    assert error(session, f"ALTER TABLE k ADD {key}") == refused
    run(session, "ALTER TABLE t REMOVE TTL")
    run(session, f"ALTER TABLE k ADD {key}")
    assert error(session, "ALTER TABLE t TTL=c+INTERVAL 1 DAY") == refused
    run(session, "ALTER TABLE k TTL=c+INTERVAL 1 DAY")  # a child may


def test_nor_does_one_that_waits_for_a_table_of_that_name(session):
    run(session, "SET foreign_key_checks = 0")
    for child in "kl":
        run(session, f"CREATE TABLE {child} (p INT, FOREIGN KEY (p) REFERENCES t (id))")
    run(session, "SET foreign_key_checks = 1")
    run(session, "DROP TABLE k")
    refused = (8152, "Set TTL for a table referenced by foreign key is not allowed")
    assert error(session, PLAIN) == refused
    run(session, PLAIN.replace("t (", "u ("))
    assert error(session, "CREATE TABLE t LIKE u") == refused
    run(session, "DROP TABLE l")
    run(session, PLAIN)


def test_what_comes_back_does_not_expire_by_itself(session):
    run(session, PLAIN)
    run(session, "DROP TABLE t")
    run(session, "FLASHBACK TABLE t TO u")
    assert "TTL_ENABLE='OFF'" in shown(session, "u")
    run(session, "ALTER TABLE u TTL_ENABLE='ON'")
    run(session, "CREATE TABLE v (c DATE)")
    run(session, "INSERT INTO v VALUES ('2020-01-01')")
    run(session, "DROP DATABASE d")
    run(session, "FLASHBACK DATABASE d TO e")
    run(session, "USE e")
    assert "TTL_ENABLE='OFF'" in shown(session, "u")
    assert rows(session, "SELECT COUNT(*) FROM v") == [[1]]
    run(session, "INSERT INTO u VALUES (1, NULL)")
    run(session, "ALTER TABLE u TTL_ENABLE='ON'")


def test_the_list_of_tables_that_expire_follows_what_they_say(world):
    session = world.one

    def listed():
        with world.store.read() as txn:
            return [meta.get_table(txn, each).name.O for each in meta.ttl_tables(txn)]

    run(session, "CREATE TABLE u (c DATE)")
    run(session, PLAIN)
    assert listed() == ["t"]
    run(session, "ALTER TABLE u TTL=c+INTERVAL 1 DAY TTL_ENABLE='OFF'")
    assert listed() == ["u", "t"]
    run(session, "TRUNCATE TABLE u")
    assert listed() == ["t", "u"]
    run(session, "ALTER TABLE t REMOVE TTL")
    run(session, "DROP TABLE u")
    assert listed() == []


def test_a_declared_table_says_what_its_ttl_is_to_be(session):
    def asked(wanted):
        found = rows(session, f"EXPLAIN APPLY '{wanted}'")
        return [row[4] for row in found if row[0].startswith("Apply")]

    plain = "CREATE TABLE t (id INT PRIMARY KEY, c DATETIME)"
    expiring = f"{plain} TTL = c + INTERVAL 1 DAY"
    run(session, plain)
    [made] = asked(expiring)
    assert made.startswith("ALTER TABLE `t` TTL=`c` + INTERVAL 1 DAY TTL_ENABLE='ON'")
    run(session, made)
    assert asked(expiring) == []
    assert asked(plain) == ["ALTER TABLE `t` REMOVE TTL"]


def test_a_primary_may_set_it_and_a_secondary_not(session):
    run(session, PLAIN)
    run(session, "ADMIN SET BDR ROLE PRIMARY")
    run(session, "ALTER TABLE t TTL_ENABLE='OFF'")
    run(session, "ALTER TABLE t REMOVE TTL")
    run(session, "ADMIN SET BDR ROLE SECONDARY")
    assert error(session, "ALTER TABLE t TTL=c+INTERVAL 1 DAY")[0] == 8263
    run(session, "ADMIN UNSET BDR ROLE")


def test_nothing_says_so_while_an_older_member_would_forget_it(world, monkeypatch):
    older = type("Older", (), {"title": "n1 (0.3.0)"})()
    run(world.one, "CREATE TABLE t (c DATE)")
    monkeypatch.setattr(member, "before_0_4", lambda txn: [older])
    assert error(world.one, "ALTER TABLE t TTL=c+INTERVAL 1 DAY")[0] == 8200
    assert error(world.one, PLAIN.replace("t (", "u ("))[0] == 8200
