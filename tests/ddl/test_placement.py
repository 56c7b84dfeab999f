"""Placement policies, attributes and affinity: with TiDB's checks; no row moves."""

import pytest

from exuvia.base.errors import Refused
from exuvia.catalog import meta, placement
from exuvia.catalog.model import evolve
from exuvia.cluster import member
from exuvia.ddl.actions import bdr
from support.world import World, rows, run

POLICIES = (
    "SELECT policy_name, primary_region, regions, followers"
    " FROM information_schema.placement_policies"
)
CREATE = "CREATE PLACEMENT POLICY p PRIMARY_REGION='us' REGIONS='us,eu' FOLLOWERS=3"


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


def job_types(session, count):
    found = rows(session, f"ADMIN SHOW DDL JOBS {count}")
    return [each[3] for each in found][:count]


def test_a_policy_is_made_changed_shown_and_dropped_by_jobs(session):
    run(session, CREATE)
    assert rows(session, POLICIES) == [["p", "us", "us,eu", 3]]
    wanted = 'CREATE PLACEMENT POLICY `p` PRIMARY_REGION="us" REGIONS="us,eu" FOLLOWERS=3'
    assert rows(session, "SHOW CREATE PLACEMENT POLICY P") == [["p", wanted]]
    assert error(session, CREATE) == (8238, "Placement policy 'p' already exists")
    run(session, CREATE.replace("POLICY p", "POLICY IF NOT EXISTS p"))
    assert session.warnings[0].code == 8238
    run(session, "ALTER PLACEMENT POLICY p FOLLOWERS=2")  # what is not said is not there
    assert rows(session, POLICIES) == [["p", "", "", 2]]
    run(session, "CREATE OR REPLACE PLACEMENT POLICY p LEARNERS=1 LEARNER_CONSTRAINTS='[+a=b]'")
    assert rows(session, "SHOW CREATE PLACEMENT POLICY p")[0][1].endswith(
        'LEARNERS=1 LEARNER_CONSTRAINTS="[+a=b]"'
    )
    run(session, "DROP PLACEMENT POLICY p")
    assert error(session, "DROP PLACEMENT POLICY p") == (8239, "Unknown placement policy 'p'")
    run(session, "DROP PLACEMENT POLICY IF EXISTS p")
    assert session.warnings[0].code == 8239
    assert error(session, "ALTER PLACEMENT POLICY p FOLLOWERS=2")[0] == 8239
    run(session, "ALTER PLACEMENT POLICY IF EXISTS p FOLLOWERS=2")
    assert job_types(session, 4) == [
        "drop placement policy",
        "alter placement policy",
        "alter placement policy",
        "create placement policy",
    ]


@pytest.mark.parametrize(
    ("said", "code", "text"),
    [
        ("p FOLLOWERS=9", 1105, "followers should be less than or equal to 8: 9"),
        ("p FOLLOWERS=0", 1105, "FOLLOWERS must be positive"),
        ("p PRIMARY_REGION='a' REGIONS='b,c'", 1105, "primary region must be included in regions"),
        ("p REGIONS='b,c'", 1105, "primary region must be included in regions"),
        ("p PRIMARY_REGION='a' REGIONS='a' SCHEDULE='x'", 1105, "unsupported schedule x"),
        ("p PRIMARY_REGION='a' REGIONS='a' CONSTRAINTS='[+a=b]'", 1105, "mixed other sugar"),
        ("p CONSTRAINTS='[a=b]'", 1105, "label constraint should be in format '{+|-}key=value'"),
        ("p CONSTRAINTS='+a=b'", 1105, "yaml compatible"),
        ("p FOLLOWERS=1 FOLLOWER_CONSTRAINTS='{\"+a=b\": 2}'", 1105, "2 replicas of 1"),
        ("default FOLLOWERS=1", 1382, "reserved"),
        ("p", 1064, "syntax"),
        ("p NONSENSE=1", 1064, "syntax"),
    ],
)
def test_what_a_policy_cannot_say(session, said, code, text):
    found = error(session, f"CREATE PLACEMENT POLICY {said}")
    assert found[0] == code and text in found[1], found
    assert rows(session, POLICIES) == []


def test_or_replace_and_if_not_exists_exclude_each_other(session):
    said = "CREATE OR REPLACE PLACEMENT POLICY IF NOT EXISTS p FOLLOWERS=1"
    assert error(session, said)[0] == 1221


def test_databases_tables_and_partitions_have_policies_and_keep_them_from_being_dropped(session):
    for name in "pqr":
        run(session, f"CREATE PLACEMENT POLICY {name} FOLLOWERS=2")
    assert error(session, "CREATE TABLE t (a INT) PLACEMENT POLICY = x")[0] == 8239
    run(session, "ALTER DATABASE d PLACEMENT POLICY = p")
    assert (
        "/*T![placement] PLACEMENT POLICY=`p` */" in rows(session, "SHOW CREATE DATABASE d")[0][1]
    )
    cut = "PARTITION BY RANGE (a) (PARTITION p0 VALUES LESS THAN (5) PLACEMENT POLICY=q,"
    run(session, f"CREATE TABLE t (a INT) {cut} PARTITION p1 VALUES LESS THAN (9))")
    text = shown(session)
    assert "/*T![placement] PLACEMENT POLICY=`p` */\nPARTITION BY" in text  # its database's
    assert "VALUES LESS THAN (5) /*T![placement] PLACEMENT POLICY=`q` */" in text
    for name in "pq":
        wanted = (8241, f"Placement policy '{name}' is still in use")
        assert error(session, f"DROP PLACEMENT POLICY {name}") == wanted
    run(session, "ALTER TABLE t PARTITION p1 PLACEMENT POLICY = r")
    assert error(session, "ALTER TABLE t PARTITION p9 PLACEMENT POLICY = r")[0] == 1735
    listed = rows(
        session,
        "SELECT partition_name, tidb_placement_policy_name FROM information_schema.partitions"
        " WHERE table_name = 't' ORDER BY 1",
    )
    assert listed == [["p0", "q"], ["p1", "r"]]
    placed = rows(session, "SHOW PLACEMENT")
    assert [each[0] for each in placed] == [
        *("POLICY `p`", "POLICY `q`", "POLICY `r`", "DATABASE `d`", "TABLE `d`.`t`"),
        *("TABLE `d`.`t` PARTITION `p0`", "TABLE `d`.`t` PARTITION `p1`"),
    ]
    assert [each[2] for each in placed] == [None] * 3 + ["PENDING"] * 4
    assert len(rows(session, "SHOW PLACEMENT LIKE 'TABLE%'")) == 3
    assert len(rows(session, "SHOW PLACEMENT FOR TABLE t PARTITION p0")) == 1
    assert len(rows(session, "SHOW PLACEMENT FOR DATABASE d")) == 1
    # one after the other is let go
    run(session, "ALTER TABLE t PARTITION p1 PLACEMENT POLICY = DEFAULT")
    run(session, "DROP PLACEMENT POLICY r")
    run(session, "ALTER TABLE t DROP PARTITION p0")
    run(session, "DROP PLACEMENT POLICY q")
    run(session, "ALTER DATABASE d PLACEMENT POLICY DEFAULT")
    assert error(session, "DROP PLACEMENT POLICY p")[0] == 8241
    run(session, "DROP TABLE t")
    run(session, "DROP PLACEMENT POLICY p")


def test_what_show_create_says_makes_the_same_table(session):
    run(session, CREATE)
    run(session, "CREATE TABLE t (a INT) PLACEMENT POLICY=p PARTITION BY HASH (a) PARTITIONS 2")
    run(session, "ALTER TABLE t PARTITION p1 PLACEMENT POLICY=p")
    text = shown(session)
    run(session, text.replace("TABLE `t`", "TABLE `u`"))
    run(session, "CREATE TABLE v LIKE t")
    assert text.count("PLACEMENT POLICY=`p`") == 2
    assert shown(session, "u") == text.replace("TABLE `t`", "TABLE `u`")
    assert shown(session, "v") == text.replace("TABLE `t`", "TABLE `v`")
    run(session, "RENAME TABLE u TO w")
    run(session, "TRUNCATE TABLE w")
    assert shown(session, "w") == text.replace("TABLE `t`", "TABLE `w`")


def test_the_tables_of_a_dropped_database_hold_no_policy_and_come_back_without_it(session):
    run(session, "SET GLOBAL tidb_gc_life_time = '10m'")
    run(session, CREATE)
    run(session, "CREATE DATABASE e PLACEMENT POLICY = p")
    run(session, "CREATE TABLE e.t (a INT)")
    run(session, "CREATE TABLE s (a INT) PLACEMENT POLICY = p")
    run(session, "DROP TABLE s")
    run(session, "DROP DATABASE e")
    run(session, "DROP PLACEMENT POLICY p")
    run(session, "FLASHBACK DATABASE e")
    run(session, "FLASHBACK TABLE s")
    assert "PLACEMENT" not in rows(session, "SHOW CREATE TABLE e.t")[0][1]
    assert "PLACEMENT" not in rows(session, "SHOW CREATE DATABASE e")[0][1]
    assert "PLACEMENT" not in shown(session, "s")
    assert rows(session, "SHOW PLACEMENT") == []
    run(session, "CREATE TABLE e.u LIKE e.t")


def test_a_policy_that_went_before_the_job_ran_is_refused_by_the_job(world, session):
    """The statement looks before it queues: here the policy goes in between."""
    from exuvia.ddl import requests
    from exuvia.ddl.actions.placement import Placement

    run(session, CREATE)
    run(session, "CREATE TABLE t (a INT)")
    with session.services.store.read() as txn:
        found = placement.find_policy(txn, "p")
        database = meta.get_database(txn, meta.find_database(txn, "d"))
        table = meta.get_table(txn, meta.find_table(txn, database.id, "t"))
    run(session, "DROP PLACEMENT POLICY p")
    run(session, CREATE)  # another one of that name is not meant
    job = requests.place_table(database, table, Placement(found.ref))
    ended = session.services.submitter.submit(job)
    assert ended.error().code == 8239
    assert "PLACEMENT" not in shown(session)


def test_partitions_and_tables_of_different_policies_are_not_exchanged(session):
    run(session, CREATE)
    run(
        session, "CREATE TABLE t (a INT) PARTITION BY RANGE (a) (PARTITION p0 VALUES LESS THAN (5))"
    )
    run(session, "CREATE TABLE u (a INT) PLACEMENT POLICY = p")
    assert error(session, "ALTER TABLE t EXCHANGE PARTITION p0 WITH TABLE u")[0] == 1736
    run(session, "ALTER TABLE t PLACEMENT POLICY = p")
    run(session, "ALTER TABLE t EXCHANGE PARTITION p0 WITH TABLE u")


def test_reorganized_partitions_bring_their_policies(session):
    run(session, CREATE)
    run(
        session, "CREATE TABLE t (a INT) PARTITION BY RANGE (a) (PARTITION p0 VALUES LESS THAN (5))"
    )
    run(session, "INSERT INTO t VALUES (1)")
    into = "PARTITION x VALUES LESS THAN (3) PLACEMENT POLICY=p, PARTITION y VALUES LESS THAN (5)"
    run(session, f"ALTER TABLE t REORGANIZE PARTITION p0 INTO ({into})")
    assert shown(session).count("PLACEMENT POLICY=`p`") == 1
    assert error(session, "DROP PLACEMENT POLICY p")[0] == 8241
    more = "PARTITION z VALUES LESS THAN (9) PLACEMENT POLICY=nobody"
    assert error(session, f"ALTER TABLE t ADD PARTITION ({more})")[0] == 8239


def test_attributes_are_kept_for_tables_and_partitions(session):
    cut = "PARTITION BY RANGE (a) (PARTITION p0 VALUES LESS THAN (5))"
    run(session, f"CREATE TABLE t (a INT) {cut}")
    run(session, "ALTER TABLE t ATTRIBUTES 'merge_option=deny'")
    run(session, "ALTER TABLE t PARTITION p0 ATTRIBUTES = 'merge_option=allow,a=b'")
    found = rows(session, "SELECT * FROM information_schema.attributes ORDER BY id")
    assert [each[:3] for each in found] == [
        ["schema/d/t", "key-range", '"merge_option=deny"'],
        ["schema/d/t/p0", "key-range", '"merge_option=allow","a=b"'],
    ]
    assert all(each[3].startswith("[74") for each in found)
    assert error(session, "ALTER TABLE t ATTRIBUTES 'deny'") == (
        8237,
        "Invalid attributes: attributes should be in format 'key=value': deny",
    )
    assert error(session, "ALTER TABLE t ATTRIBUTES 'a=b,a=c'")[0] == 8237
    run(session, "ALTER TABLE t ATTRIBUTES DEFAULT")
    assert len(rows(session, "SELECT * FROM information_schema.attributes")) == 1
    assert job_types(session, 3)[0] == "alter table attributes"


def test_affinity_of_tables_and_partitions(session):
    run(session, "CREATE TABLE t (a INT) AFFINITY = 'table'")
    assert "/*T![affinity] AFFINITY='table' */" in shown(session)
    listed = "SELECT tidb_affinity FROM information_schema.tables WHERE table_name = 't'"
    assert rows(session, listed) == [["table"]]
    assert rows(session, "SHOW AFFINITY")[0][:3] == ["d", "t", None]
    run(session, shown(session).replace("TABLE `t`", "TABLE `u`"))
    assert error(session, "ALTER TABLE t AFFINITY = 'x'") == (8266, "Invalid AFFINITY 'x'")
    assert error(session, "ALTER TABLE t AFFINITY = 'partition'") == (
        8266,
        "Can not set AFFINITY='partition' on a non-partition table.",
    )
    said = "CREATE TABLE v (a INT) AFFINITY='table' PARTITION BY HASH (a) PARTITIONS 2"
    assert error(session, said) == (
        8266,
        "Can not set AFFINITY='table' on a partition table.",
    )
    assert error(session, "ALTER TABLE t PARTITION BY HASH (a) PARTITIONS 2")[0] == 8200
    run(session, "ALTER TABLE t AFFINITY = ''")
    assert "AFFINITY" not in shown(session)
    assert error(session, "CREATE TEMPORARY TABLE w (a INT) AFFINITY = 'table'")[0] == 8266
    assert error(session, "CREATE TEMPORARY TABLE w (a INT) PLACEMENT POLICY = p")[0] == 8006


def test_both_bdr_roles_change_policies_and_none_places_tables(session):
    run(session, "CREATE TABLE t (a INT)")
    run(session, CREATE)
    for role in (bdr.PRIMARY, bdr.SECONDARY):
        run(session, f"ADMIN SET BDR ROLE {role.upper()}")
        run(session, "ALTER PLACEMENT POLICY p FOLLOWERS=2")
        assert error(session, "ALTER TABLE t PLACEMENT POLICY = p")[0] == 8263
        assert error(session, "ALTER TABLE t ATTRIBUTES 'a=b'")[0] == 8263
    run(session, "ADMIN UNSET BDR ROLE")


def test_what_explain_says_of_a_policy(session):
    text = "\n".join(str(each) for each in rows(session, f"EXPLAIN {CREATE}"))
    assert "create placement policy" in text


def apply_steps(session, text):
    written = text.replace("\\", "\\\\").replace("'", "''")
    return rows(session, f"EXPLAIN FORMAT = 'json' APPLY '{written}'")[0][0]


def test_a_declared_table_gets_its_policies_and_no_row_is_moved_for_them(session):
    run(session, CREATE)
    parts = "PARTITION p0 VALUES LESS THAN (5), PARTITION p1 VALUES LESS THAN (9)"
    cut = f"PARTITION BY RANGE (a) ({parts})"
    run(session, f"CREATE TABLE t (a INT) {cut}")
    plain = shown(session)
    run(session, "ALTER TABLE t PLACEMENT POLICY = p")
    run(session, "ALTER TABLE t PARTITION p1 PLACEMENT POLICY = p")
    run(session, "ALTER TABLE t PARTITION p1 ATTRIBUTES 'a=b'")
    placed = shown(session)
    assert '"statement"' not in apply_steps(session, placed)
    away = apply_steps(session, plain)
    assert "PLACEMENT POLICY = DEFAULT" in away and "PARTITION BY" not in away
    run(session, "ALTER TABLE t PLACEMENT POLICY = DEFAULT")
    run(session, "ALTER TABLE t PARTITION p1 PLACEMENT POLICY = DEFAULT")
    back = apply_steps(session, placed)
    assert "PLACEMENT POLICY = `p`" in back and "PARTITION `p1` PLACEMENT POLICY = `p`" in back
    assert "PARTITION BY" not in back


def test_a_node_that_would_lose_them_is_waited_for(session, monkeypatch):
    run(session, CREATE)
    run(session, "CREATE TABLE t (a INT)")
    run(session, "CREATE RESOURCE GROUP g RU_PER_SEC = 1")
    honest = member.live
    monkeypatch.setattr(
        member, "live", lambda txn: [evolve(each, release="0.3.0") for each in honest(txn)]
    )
    for text in (
        "CREATE PLACEMENT POLICY q FOLLOWERS = 2",
        "ALTER PLACEMENT POLICY p FOLLOWERS = 2",
        "CREATE TABLE u (a INT) PLACEMENT POLICY = p",
        "CREATE DATABASE e PLACEMENT POLICY = p",
        "ALTER TABLE t PLACEMENT POLICY = p",
        "ALTER TABLE t ATTRIBUTES 'a=b'",
        "ALTER TABLE t AFFINITY = 'table'",
        "CREATE RESOURCE GROUP h RU_PER_SEC = 1",
        "CREATE USER u RESOURCE GROUP g",
    ):
        code, said = error(session, text)
        assert code == 8200 and "of an older release serves" in said, text


def test_attributes_go_where_exchanged_rows_go(session):
    run(session, "CREATE TABLE x (a INT)")
    run(session, "CREATE TABLE y (a INT) PARTITION BY HASH (a) PARTITIONS 1")
    run(session, "ALTER TABLE x ATTRIBUTES 'of=x'")
    run(session, "ALTER TABLE y PARTITION p0 ATTRIBUTES 'of=p0'")
    run(session, "ALTER TABLE y EXCHANGE PARTITION p0 WITH TABLE x")
    text = "SELECT id, attributes, ranges FROM information_schema.attributes ORDER BY id"
    exchanged = rows(session, text)
    assert [row[1] for row in exchanged] == ['"of=p0"', '"of=x"']
    run(session, "ALTER TABLE x ATTRIBUTES DEFAULT")
    run(session, "ALTER TABLE y EXCHANGE PARTITION p0 WITH TABLE x")
    assert [row[:2] for row in rows(session, text)] == [[exchanged[0][0], '"of=x"']]
