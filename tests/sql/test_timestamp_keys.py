"""Keys on TIMESTAMP columns serve sessions of every time zone, also where an hour comes twice or
never: a table without keys answers alike."""

import random

import pytest

from support.world import rows, run

ZONES = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "+05:30", "UTC")
CHANGES = ("2024-10-27 02", "2024-03-31 02", "2024-11-03 01", "2024-03-10 02", "2024-04-07 01")


def moment(rng: random.Random) -> str:
    hour = rng.choice(
        (*CHANGES, "2024-10-27 01", "2024-10-27 03", "2024-03-31 03", "2024-07-01 12")
    )
    return f"{hour}:{rng.randrange(0, 60, 15):02}:00"


def condition(rng: random.Random) -> str:
    one, other = sorted((moment(rng), moment(rng)))
    return rng.choice(
        (
            f"ts = '{one}'",
            f"ts IN ('{one}', '{other}')",
            f"ts > '{one}'",
            f"ts >= '{one}' AND ts < '{other}'",
            f"ts BETWEEN '{one}' AND '{other}'",
            f"ts <= '{one}' AND n = {rng.randrange(3)}",
            f"n = {rng.randrange(3)} AND ts > '{one}'",
            f"ts = '{one}+02:00'",
            f"'{one}' < ts AND '{other}' > ts",
        )
    )


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("key", ["KEY k (ts)", "UNIQUE KEY k (n, ts, id)", "KEY k (ts, n)"])
def test_keyed_and_bare_tables_answer_alike(session, zone, key):
    rng = random.Random(f"{zone} {key}")
    run(session, f"CREATE TABLE t (id int PRIMARY KEY, n int, ts timestamp NULL, {key})")
    run(session, "CREATE TABLE bare (id int, n int, ts timestamp NULL)")
    hours = (
        f"2024-{day} {hour:02}"
        for day in ("10-26", "10-27", "03-31", "11-03")
        for hour in range(24)
    )
    moments = [f"{hour}:{minute:02}:00" for hour in hours for minute in (0, 15, 30, 45)]
    values = ", ".join(f"({n}, {n % 3}, '{each}')" for n, each in enumerate(moments))
    for table in ("t", "bare"):
        run(session, f"INSERT INTO {table} VALUES {values}, (-1, 1, NULL)")
    run(session, f"SET time_zone = '{zone}'")
    found = 0
    for _ in range(25):
        where = condition(rng)
        text = f"SELECT id FROM {{}} WHERE {where} ORDER BY id"
        keyed, bare = (rows(session, text.format(table)) for table in ("t", "bare"))
        assert keyed == bare, (zone, where)
        found += len(keyed)
    assert found
    run(session, "UPDATE t SET n = n + 10 WHERE ts > '2024-10-27 02:30:00' AND n < 3")
    run(session, "UPDATE bare SET n = n + 10 WHERE ts > '2024-10-27 02:30:00' AND n < 3")
    sums = [rows(session, f"SELECT SUM(n) FROM {table}") for table in ("t", "bare")]
    assert sums[0] == sums[1]


@pytest.mark.parametrize("zone", ZONES)
def test_the_plan_reads_by_the_key(session, zone):
    run(session, "CREATE TABLE t (id int PRIMARY KEY, ts timestamp NULL, KEY k (ts))")
    run(session, "CREATE TABLE c (ts timestamp PRIMARY KEY CLUSTERED, n int)")
    run(session, "SET time_zone = 'UTC'")
    run(session, "INSERT INTO c VALUES ('2024-07-01 10:00:00', 1), ('2024-07-01 12:00:00', 2)")
    run(session, f"SET time_zone = '{zone}'")
    seen = rows(session, "SELECT ts FROM c WHERE n = 1")[0][0]
    plan = rows(session, "EXPLAIN SELECT * FROM t WHERE ts > '2024-07-01 12:00:00'")
    assert any("index:k(ts)" in row[3] for row in plan), plan
    ((shown,),) = rows(session, "SELECT CAST(ts AS CHAR) FROM c WHERE n = 1")
    assert rows(session, f"SELECT n FROM c WHERE ts = '{shown}'") == [[1]]
    plan = rows(session, f"EXPLAIN SELECT n FROM c WHERE ts = '{shown}'")
    assert plan[0][0].endswith("Point_Get_1") or any("Point_Get" in row[0] for row in plan), seen


def test_partitions_by_a_moment_are_pruned_as_before(session):
    parts = "PARTITION a VALUES LESS THAN (UNIX_TIMESTAMP('2024-07-01 00:00:00'))"
    parts += ", PARTITION b VALUES LESS THAN (MAXVALUE)"
    columns = "ts timestamp NOT NULL, n int, KEY (ts)"
    run(session, "SET time_zone = 'UTC'")
    run(session, f"CREATE TABLE p ({columns}) PARTITION BY RANGE (UNIX_TIMESTAMP(ts)) ({parts})")
    run(session, "INSERT INTO p VALUES ('2024-06-30 23:30:00', 1), ('2024-07-01 00:30:00', 2)")
    run(session, "SET time_zone = 'Europe/Berlin'")
    assert rows(session, "SELECT n FROM p WHERE ts >= '2024-07-01 00:00:00' ORDER BY n") == [
        [1],
        [2],
    ]
    assert rows(session, "SELECT n FROM p WHERE ts = '2024-07-01 02:30:00'") == [[2]]
