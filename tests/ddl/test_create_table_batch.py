"""tidb_enable_fast_create_table: CREATE TABLEs that meet at the submitter become one job."""

import threading
from collections.abc import Callable, Iterator

import pytest

from exuvia.base.errors import Refused
from exuvia.catalog.model import evolve
from exuvia.catalog.sysvar import variables
from exuvia.ddl import queue, requests, submit
from exuvia.ddl.job import ActionCode, JobState
from exuvia.sql.session.session import Session
from support.node_processes import until
from support.small_cluster import SmallCluster
from support.tables import abc
from support.world import World, rows, run

SESSIONS = 20


@pytest.fixture
def cluster():
    made = SmallCluster()
    txn = made.store.begin()
    variables.set_global(txn, "tidb_enable_fast_create_table", "ON")
    txn.commit()
    return made


def create(cluster, name):
    return requests.create_table(cluster.database(), abc(name), query=f"create {name}")


def test_at_most_eight_of_one_database_become_one_job(cluster):
    jobs = [create(cluster, f"t{n}") for n in range(10)]
    other = evolve(create(cluster, "t0"), schema_id=77)
    found = submit.shares([(job, True) for job in (*jobs[:3], other, *jobs[3:])])
    assert [(share.job.type, share.members) for share in found] == [
        (ActionCode.CREATE_TABLES, (0, 1, 2, 4, 5, 6, 7, 8)),
        (ActionCode.CREATE_TABLE, (3,)),
        (ActionCode.CREATE_TABLES, (9, 10)),
    ]
    assert found[2].job.table_name == "t8,t9"


def test_a_name_twice_and_what_is_not_plain_stays_alone(cluster):
    twice = [create(cluster, name) for name in ("a", "b", "A")]
    like = evolve(create(cluster, "c"), exuvia_tables=(9,))
    dropped = requests.drop_database(cluster.database())
    found = submit.shares([(job, True) for job in (*twice, like, dropped)])
    assert [share.members for share in found] == [(0,), (1,), (2,), (3,), (4,)]
    assert submit.shares([(twice[0], False), (twice[1], True)])[0].job is twice[0]


def together(cluster, names):
    """Sessions that submit at one moment; the jobs as each of them was answered."""
    ended: dict[int, object] = {}
    leading = cluster.submitter.leading
    leading.acquire()

    def ask(at, name):
        ended[at] = cluster.submitter.submit(create(cluster, name))

    threads = [threading.Thread(target=ask, args=pair) for pair in enumerate(names)]
    for each in threads:
        each.start()
    while cluster.submitter.queued < len(names):
        pass
    leading.release()
    while cluster.submitter.waiting < len(names):
        pass
    while any(each.is_alive() for each in threads):
        cluster.step()
    return [ended[at] for at in range(len(names))]


def test_sessions_that_meet_share_jobs_and_versions(cluster):
    ended = together(cluster, [f"t{n}" for n in range(SESSIONS)])
    assert {job.state for job in ended} == {JobState.SYNCED}
    assert len({job.id for job in ended}) == -(-SESSIONS // submit.MERGED)
    ids = {cluster.table(f"t{n}").info.id for n in range(SESSIONS)}
    assert len(ids) == SESSIONS


def test_the_end_of_a_shared_job_is_read_once_for_all_of_them(cluster, monkeypatch):
    finished, read = queue.finished, []

    def counted(txn, job_id):
        job = finished(txn, job_id)
        read.extend([] if job is None else [job_id])
        return job

    monkeypatch.setattr(queue, "finished", counted)
    ended = together(cluster, [f"t{n}" for n in range(SESSIONS)])
    assert sorted(read) == sorted({job.id for job in ended})


def test_the_error_of_one_is_not_that_of_the_others(cluster):
    cluster.run(create(cluster, "t1"))
    ended = together(cluster, ["t0", "t1", "t2"])
    assert [job.error() and job.error().code for job in ended] == [None, 1050, None]
    kinds = [job.type for job in cluster.read(lambda txn: queue.history(txn, 4))]
    assert kinds.count(ActionCode.CREATE_TABLES) == 1


# -- by SQL ----------------------------------------------------------------------------------------

NAMES = ("t0", "t1", "t2")


@pytest.fixture
def fresh() -> Iterator[World]:
    with World() as made:
        run(made.session(""), "SET GLOBAL tidb_enable_fast_create_table = ON")
        yield made


def created_together(
    world: World, meanwhile: Callable[[list[Session]], object]
) -> list[int | None]:
    """The codes that sessions end with whose statements wait to be submitted at one moment, and
    `meanwhile` happens."""
    sessions = [world.session() for _ in NAMES]
    ends: dict[int, int | None] = {}

    def create(at: int) -> None:
        try:
            sessions[at].execute(f"CREATE TABLE {NAMES[at]} (a INT)")
            ends[at] = None
        except Refused as error:
            ends[at] = error.code

    submitter = world.services.submitter
    threads = [threading.Thread(target=create, args=(at,)) for at in range(len(NAMES))]
    with submitter.leading:
        for each in threads:
            each.start()
        until(lambda: submitter.queued == len(NAMES))
        meanwhile(sessions)
    for each in threads:
        each.join(30)
    return [ends[at] for at in range(len(NAMES))]


def test_a_name_that_is_taken_fails_its_own_statement_only(fresh: World) -> None:
    with World(fresh.store, owns=False) as other:
        session = other.session()
        ends = created_together(fresh, lambda _: run(session, "CREATE TABLE t1 (b INT)"))
    assert ends == [None, 1050, None]
    found = rows(fresh.session(), "SHOW TABLES")
    assert found == [["t0"], ["t1"], ["t2"]]


def test_a_kill_ends_its_own_statement_only(fresh: World) -> None:
    ends = created_together(fresh, lambda sessions: sessions[1].interrupt())
    assert ends == [None, 1317, None]
    assert [["t0"], ["t2"]] == [
        row for row in rows(fresh.session(), "SHOW TABLES") if row != ["t1"]
    ]
