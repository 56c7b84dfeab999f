"""What a job's first step refuses: MySQL's codes and texts, and nothing has changed."""

import pytest

from exuvia.base.errors import OutcomeUnknown, OutOfSpace, StorageFailed, Unavailable
from exuvia.catalog import meta
from exuvia.ddl import queue, requests
from exuvia.ddl.job import JobState, evolve
from exuvia.pipeline.reorg import Done
from support.script_actions import virtual
from support.small_cluster import SmallCluster
from support.tables import PRIMARY, abc, column, index, table

PRIMARY_KEY = index("PRIMARY", "b", primary=True)


@pytest.fixture(scope="module")
def cluster():
    """t(id primary key, a, b; iab(a, b), ub(b)), u(a, b not null; primary key (b)), one(a),
    g(a, b, v as (a + 1); ia(a), ie((b + 1)))."""
    cluster = SmallCluster()
    database = cluster.database()
    indexes = (index("iab", "a", "b"), index("ub", "b", unique=True))
    cluster.run(requests.create_table(database, abc(indexes=indexes)))
    cluster.run(requests.create_table(database, table("u", column("a"), column("b", 1))))
    cluster.run(requests.create_table(database, table("one", column("a"))))
    cluster.run(requests.add_primary_key(database, cluster.table("u").info, PRIMARY_KEY))
    columns = column("a"), column("b"), virtual("v", "`a` + 1", "a")
    cluster.run(requests.create_table(database, table("g", *columns, indexes=(index("ia", "a"),))))
    hidden = virtual("_V$_ie_0", "`b` + 1", "b", hidden=True)
    g = cluster.table("g").info
    cluster.run(requests.add_index(database, g, index("ie", "_V$_ie_0"), hidden=[hidden]))
    return cluster


def on(name, make, *arguments):
    return lambda cluster: make(cluster.database(), cluster.table(name).info, *arguments)


def gone(name):
    """A table that is in the statement and no more in the store."""
    return evolve(abc(name), id=9999)


REFUSED = {
    "1007 Can't create database 'test'; database exists": lambda cluster: requests.create_database(
        "test"
    ),
    "1008 Can't drop database 'd'; database doesn't exist": lambda cluster: requests.drop_database(
        evolve(cluster.database(), id=9999, db_name=evolve(cluster.database().db_name, O="d"))
    ),
    "1049 Unknown database 'd'": lambda cluster: requests.create_table(
        evolve(cluster.database(), id=9999, db_name=evolve(cluster.database().db_name, O="d")),
        abc("x"),
    ),
    "1050 Table 'test.T' already exists": lambda cluster: requests.create_table(
        cluster.database(), abc("T")
    ),
    "1051 Unknown table 'test.x'": lambda cluster: requests.drop_table(
        cluster.database(), gone("x")
    ),
    "1146 Table 'test.x' doesn't exist": lambda cluster: requests.add_index(
        cluster.database(), gone("x"), index("i", "a")
    ),
    "1060 Duplicate column name 'A'": on("t", requests.add_column, column("A")),
    "1054 Unknown column 'z' in 't'": on("t", requests.add_column, column("c"), "z"),
    "1091 Can't DROP 'z'; check that column/key exists": on("t", requests.drop_column, "z"),
    "1090 You can't delete all columns with ALTER TABLE; use DROP TABLE instead": on(
        "one", requests.drop_column, "a"
    ),
    "8200 can't drop column a with composite index covered or Primary Key covered now": on(
        "t", requests.drop_column, "a"
    ),
    "8200 can't drop column b with composite index covered or Primary Key covered now": on(
        "u", requests.drop_column, "b"
    ),
    "1061 Duplicate key name 'UB'": on("t", requests.add_index, index("UB", "a")),
    "1061 Duplicate key name 'i'": on("t", requests.add_index, [index("i", "a"), index("i", "b")]),
    "1069 Too many keys specified; max 64 keys allowed": on(
        "t", requests.add_index, [index(f"i{n}", "a") for n in range(63)]
    ),
    "1070 Too many key parts specified; max 16 parts allowed": on(
        "t", requests.add_index, index("i", *["a"] * 17)
    ),
    "1072 Key column 'z' doesn't exist in table": on("t", requests.add_index, index("i", "z")),
    "1068 Multiple primary key defined": on("t", requests.add_primary_key, PRIMARY_KEY),
    "3108 Column 'a' has a generated column dependency.": on("g", requests.drop_column, "a"),
    "3837 Column 'b' has an expression index dependency and cannot be dropped or renamed": on(
        "g", requests.drop_column, "b"
    ),
    "1054 Unknown column 'z' in 'generated column function'": on(
        "g", requests.add_column, virtual("w", "`z` + 1", "z")
    ),
    "1176 Key 'nix' doesn't exist in table 'g'": on("g", requests.rename_index, "nix", "i"),
    "1061 Duplicate key name 'IA'": on("g", requests.rename_index, "ie", "IA"),
    "1176 Key 'nix' doesn't exist in table 't'": on("t", requests.set_visibility, "nix", False),
    "1091 Can't DROP 'nix'; check that column/key exists": on("t", requests.drop_index, "nix"),
    "1091 Can't DROP 'PRIMARY'; check that column/key exists": on("one", requests.drop_primary_key),
    "8200 Unsupported drop primary key when the table is using clustered index": on(
        "t", requests.drop_primary_key
    ),
}


@pytest.mark.parametrize("text", REFUSED)
def test_refused_in_the_first_step(cluster, text):
    before = cluster.read(meta.version)
    job = cluster.run(REFUSED[text](cluster))
    error = job.error()
    assert f"{error.code} {error.message}" == text
    assert job.state == JobState.CANCELLED and not job.begun
    assert cluster.read(meta.version) == before


def test_two_that_create_the_same_name_at_once_one_is_refused():
    cluster = SmallCluster()
    asked = [requests.create_table(cluster.database(), abc()) for _ in range(5)]
    ends = [cluster.finish(each) for each in [cluster.submit(job) for job in asked]]
    assert [job.state for job in ends].count(JobState.SYNCED) == 1
    assert {job.error().code for job in ends if job.error()} == {1050}


def test_a_table_dropped_meanwhile_is_refused_to_who_waited():
    cluster = SmallCluster()
    cluster.run(requests.create_table(cluster.database(), abc()))
    info, database = cluster.table("t").info, cluster.database()
    first = cluster.submit(requests.drop_table(database, info))
    second = cluster.submit(requests.add_index(database, info, index("i", "a")))
    third = cluster.submit(requests.drop_database(database))
    fourth = cluster.submit(requests.create_table(database, abc("new")))
    assert cluster.finish(fourth).error().code == 1049
    assert cluster.finish(third).error() is cluster.finish(first).error() is None
    assert cluster.finish(second).error().code == 1146


class Broken:
    """A reorg that meets an error, again and again, or only at first."""

    def __init__(self, times, error=Unavailable):
        self.times, self.error = times, error

    def __call__(self, *about):
        self.times -= 1
        if self.times >= 0:
            raise self.error("the disk is full")
        return self

    def step(self, now):
        return Done(1)

    def stop(self):
        pass


def add_index_with(reorg, limit):
    cluster, job = asked_with(reorg, limit)
    return cluster.run(job)


def asked_with(reorg, limit):
    from exuvia.catalog import writer
    from exuvia.catalog.sysvar import variables

    cluster = SmallCluster(reorgs=lambda store: reorg)
    cluster.run(requests.create_table(cluster.database(), abc()))
    txn = cluster.store.begin()
    writer.insert(txn, cluster.table("t"), [1, 1, 1])
    variables.set_global(txn, "tidb_ddl_error_count_limit", str(limit))
    txn.commit()
    info = cluster.table("t").info
    return cluster, requests.add_index(cluster.database(), info, index("i", "a"))


def test_an_error_is_counted_and_the_step_tried_again():
    job = add_index_with(Broken(3), 512)
    assert (job.state, job.err_count, job.err.message) == (JobState.SYNCED, 3, "the disk is full")
    assert job.error() is None


def test_people_see_why_a_job_is_tried_again(caplog):
    cluster, job = asked_with(Broken(6), 512)
    job_id, seen = cluster.submit(job), []
    while cluster.read(lambda txn: queue.finished(txn, job_id)) is None:
        cluster.step()
        found = cluster.read(lambda txn: queue.get(txn, job_id))
        if found is not None and found.err_count:
            seen.append(found.row()[-2])
    told = "tried again after {0} errors, the first: the disk is full"
    assert {told.format(n) for n in (1, 6)} <= set(seen)
    assert cluster.finish(job_id).row()[-2] == ""
    said = [each for each in caplog.records if each.msg.startswith("a job met an error")]
    assert [each.errors for each in said] == [1, 2, 4]
    assert {each.error for each in said} == {"the disk is full"}


def test_beyond_the_error_count_limit_the_job_rolls_back_with_its_first_error():
    job = add_index_with(Broken(1000), 4)
    assert (job.state, job.err_count) == (JobState.ROLLBACK_DONE, 5)
    assert (job.error().code, job.error().message) == (
        1105,
        "DDL job rollback, error msg: the disk is full",
    )


@pytest.mark.parametrize("error", [OutOfSpace, StorageFailed, OutcomeUnknown])
def test_a_job_waits_for_its_store_as_long_as_it_takes_and_is_not_to_blame(error):
    job = add_index_with(Broken(8, error), 4)
    assert (job.state, job.err_count, job.error()) == (JobState.SYNCED, 0, None)


def test_columns_take_their_place_and_carry_their_indexes():
    cluster = SmallCluster()
    database = cluster.database()
    cluster.run(requests.create_table(database, abc(indexes=(index("ib", "b"),))))
    for name, after in (("first", ""), ("behind_a", "a"), ("last", None)):
        info = cluster.table("t").info
        cluster.run(requests.add_column(database, info, column(name), after))
    info = cluster.table("t").info
    assert [c.name.O for c in info.cols] == ["first", "id", "a", "behind_a", "b", "last"]
    assert [c.offset for c in info.cols] == list(range(6))
    assert info.index("ib").idx_cols[0].offset == 4
    assert info.column("id").type.Flag & PRIMARY == PRIMARY
    cluster.run(requests.drop_column(database, info, "b"))
    info = cluster.table("t").info
    assert [c.name.O for c in info.cols] == ["first", "id", "a", "behind_a", "last"]
    assert info.index_info is None
