"""Law 1 for MODIFY COLUMN: a writer that knows nothing of the change commits at every point of it.

    open: plans, writes a value that the new type has not --- n loops are stepped --- commits

Either it is refused, or it is early enough for the rows' check to see it, and the job turns back.
"""

import pytest

from exuvia.base.errors import Conflict
from exuvia.base.types import Flag, TypeCode
from exuvia.catalog import reader, writer
from exuvia.catalog.convert.type_change import ChangeKind
from exuvia.catalog.infoschema import Schemas
from exuvia.catalog.model import SchemaState
from exuvia.ddl import requests
from exuvia.ddl.actions import modify_column
from exuvia.ddl.job import JobState
from exuvia.pipeline.phase_runner import PhaseRunner
from support.script_actions import changed, modify
from support.small_cluster import SmallCluster
from support.tables import abc, index

ROUNDS = range(0, 90, 2)
OTHER = [2, 3, 4]
NOT_NULL, TINY, DOUBLE = (
    {"Flag": int(Flag.NOT_NULL)},
    {"Tp": TypeCode.TINY},
    {"Tp": TypeCode.DOUBLE, "Decimal": -1},
)


def reorgs(store):
    """As node/ wires them."""
    return lambda job_id, epoch, table, plan: PhaseRunner(store, job_id, epoch, table, plan, None)


def inch(cluster, number):
    """So many loops, each stepped once, in turn."""
    while True:
        cluster.clock.advance(0.01)
        now = cluster.clock.monotonic()
        owner = cluster.owner
        for loop in (*cluster.fronts, owner.member, owner.campaign, *owner.ddl.loops()):
            if not number:
                return
            number -= 1
            loop.step(now)


def play(rounds, kind, row):
    """The job's end and what the table holds, after a writer that commits so late."""
    cluster = SmallCluster(reorgs=reorgs)
    info = abc(indexes=(index("ia", "a"),))
    cluster.run(requests.create_table(cluster.database(), info))
    early = cluster.store.begin()
    planned = Schemas(cluster.store).table(early, "test", "t")
    writer.insert(early, planned, OTHER)
    early.commit()
    txn = cluster.store.begin()
    writer.insert(txn, planned, row)
    new = changed(cluster.table("t").info.column("a"), **kind)
    job_id = cluster.submit(modify(cluster, new))
    inch(cluster, rounds)
    committed = True
    try:
        txn.commit()
    except Conflict:
        committed = False
    job = cluster.finish(job_id)
    with_new = cluster.store.begin()
    rows = [row for _, row in reader.scan(with_new, cluster.table("t"))]
    with_new.rollback()
    return job, rows, committed


def broken(rounds, kind, row):
    """What does not hold at that moment, or None."""
    job, rows, committed = play(rounds, kind, row)
    if len(rows) != committed + 1:
        return "a row that was not committed, or one lost"
    if job.state == JobState.SYNCED and committed:
        return "it holds what its type has not"
    if job.state not in (JobState.SYNCED, JobState.ROLLBACK_DONE):
        return f"ended {job.state.name}"
    return None


@pytest.mark.parametrize(
    ("kind", "row"), [(NOT_NULL, [1, None, 5]), (TINY, [1, 300, 5])], ids=["null", "tiny"]
)
def test_no_value_slips_in(kind, row):
    assert not any(broken(rounds, kind, row) for rounds in ROUNDS)


def test_both_ends_are_reached():
    ends = {play(rounds, NOT_NULL, [1, None, 5])[0].state for rounds in ROUNDS}
    assert ends == {JobState.SYNCED, JobState.ROLLBACK_DONE}


def test_without_the_proof_one_does(monkeypatch):
    first, _, last = modify_column.CHECKED.path
    path = (first, last._replace(source=SchemaState.WRITE_ONLY))
    short = modify_column.CHECKED._replace(path=path)
    monkeypatch.setitem(modify_column.BY_KIND, ChangeKind.CHECKED, short)
    assert any(broken(rounds, NOT_NULL, [1, None, 5]) for rounds in range(ROUNDS.stop))


def test_a_row_of_an_old_plan_is_rewritten_or_refused():
    for rounds in ROUNDS:
        job, rows, committed = play(rounds, DOUBLE, [1, 7, 5])
        assert job.state == JobState.SYNCED
        assert rows == [[1, 7.0, 5]] * committed + [[2, 3.0, 4]]
