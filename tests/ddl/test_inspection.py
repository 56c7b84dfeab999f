"""ADMIN INSPECT TABLE: tables are held to their rows in the background, by request and by schedule,
beside writers and schema changes; what is wrong is listed with what would mend it."""

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from exuvia.catalog import meta, writer
from exuvia.catalog.infoschema import Schemas
from exuvia.catalog.table import Table
from exuvia.cluster.owner import Campaign
from exuvia.ddl import inspection
from exuvia.ddl.inspection import MOST_KEPT, Inspection, Inspector
from exuvia.kv import keys as k
from exuvia.kv.packet import LIVE
from exuvia.kv.transaction import Transaction
from exuvia.node.assemble import EVALUATOR
from exuvia.pipeline.reorg import Failed, Fault, Reorg
from exuvia.sql.session.session import Session
from support.node_processes import until
from support.tables import only_entry
from support.world import World, error, rows, run

JOBS = "SELECT * FROM information_schema.exuvia_inspect_jobs WHERE job_id = {}"
ERRORS = (
    "SELECT partition_name, element_name, error_type, row_id, repair"
    " FROM information_schema.exuvia_inspect_errors WHERE job_id = {} ORDER BY error_type, row_id"
)


@pytest.fixture
def world() -> Iterator[World]:
    with World() as found:
        session = found.session()
        run(session, "CREATE TABLE t (id INT PRIMARY KEY, a INT, KEY ia (a))")
        run(session, "INSERT INTO t VALUES (1, 1), (2, 2), (3, 3), (4, 4)")
        yield found


@pytest.fixture
def session(world: World) -> Session:
    return world.session()


def inspected(session: Session, table: str = "t") -> tuple[int, str, int]:
    """The number of an inspection that has ended, its state, and how many findings it has."""
    ((number, _, _, state),) = rows(session, f"ADMIN INSPECT TABLE {table}")
    assert state in ("pending", "running")
    return (number, *ended(session, number))


def ended(session: Session, number: int) -> tuple[str, int]:
    def is_ended() -> bool:
        return rows(session, JOBS.format(number))[0][3] not in ("pending", "running")

    until(is_ended)
    (found,) = rows(session, JOBS.format(number))
    return found[3], found[4]


def entry_key(world: World, n: int, name: str = "t", index_name: str = "ia") -> bytes:
    with world.store.read() as txn:
        table = world.services.schemas.table(txn, "test", name)
    index = table.info.index(index_name)
    assert index is not None
    part = table.parts[-1]
    return only_entry(part, index, [n, n], k.i64(n))[0]


def plant(world: World, name: str = "t") -> None:
    """Row 2 lacks its entry, and an entry stands for row 9, which is not there."""
    missing, orphan = entry_key(world, 2, name), entry_key(world, 9, name)

    def work(txn: Transaction) -> None:
        txn.delete(missing)
        txn.put(orphan, LIVE)

    world.store.transact(work)


def test_a_table_that_is_right(session: Session) -> None:
    number, state, findings = inspected(session)
    assert (state, findings) == ("finished", 0)
    (shown,) = rows(session, JOBS.format(number))
    assert shown[1:3] == ["test", "t"] and shown[5] == 4
    assert shown[9] == "root@%" or shown[9].startswith("root@")
    assert None not in shown[6:9]


def test_findings_are_listed_with_what_mends_them_and_are_gone_after_it(
    world: World, session: Session
) -> None:
    plant(world)
    number, state, findings = inspected(session)
    assert (state, findings) == ("finished", 2)
    found = rows(session, ERRORS.format(number))
    assert found == [
        [None, "ia", "missing", "2", "ADMIN RECOVER INDEX `test`.`t` `ia`"],
        [None, "ia", "orphan", "9", "ADMIN CLEANUP INDEX `test`.`t` `ia`"],
    ]
    for *_, mend in found:
        run(session, mend)
        with world.store.read() as txn:
            assert inspection.findings_open(txn) == 2
    assert inspected(session)[1:] == ("finished", 0)
    with world.store.read() as txn:
        assert inspection.findings_open(txn) == 0


def test_each_partition_each_key_and_each_check_is_looked_at(
    world: World, session: Session
) -> None:
    run(
        session,
        "CREATE TABLE p (id INT PRIMARY KEY, a INT, KEY ia (a)) PARTITION BY RANGE (id)"
        " (PARTITION p0 VALUES LESS THAN (2), PARTITION p1 VALUES LESS THAN MAXVALUE)",
    )
    run(session, "INSERT INTO p VALUES (1, 1), (2, 2)")
    plant(world, "p")
    number, state, findings = inspected(session, "p")
    assert (state, findings) == ("finished", 2)
    assert {row[0] for row in rows(session, ERRORS.format(number))} == {"p1"}

    run(session, "SET foreign_key_checks = OFF")
    run(
        session,
        "CREATE TABLE c (id INT PRIMARY KEY, a INT, CONSTRAINT h CHECK (a < 100),"
        " CONSTRAINT f FOREIGN KEY (a) REFERENCES t (id))",
    )
    run(session, "INSERT INTO c VALUES (1, 77)")

    def breach(txn: Transaction) -> None:
        writer.insert(txn, world.services.schemas.table(txn, "test", "c"), [2, 4711])

    world.store.transact(breach)
    number, state, findings = inspected(session, "c")
    assert (state, findings) == ("finished", 2)
    found = [row[1:] for row in rows(session, ERRORS.format(number))]
    assert found == [["h", "check", None, None], ["f", "foreign key", None, None]]


def test_who_asks_again_is_told_of_the_one_that_waits(world: World, session: Session) -> None:
    with World(world.store, owns=False) as other:
        first = rows(session, "ADMIN INSPECT TABLE t, t")
        assert first[0][0] == first[1][0]
        again = rows(other.session(), "ADMIN INSPECT TABLE t")
        assert again[0][0] == first[0][0] or ended(session, first[0][0])[0] == "finished"


def test_refusals(session: Session) -> None:
    run(session, "CREATE VIEW v AS SELECT * FROM t")
    assert error(session, "ADMIN INSPECT TABLE v")[0] == 1347
    assert error(session, "ADMIN INSPECT TABLE missing")[0] == 1146
    ((number, said),) = rows(session, "ADMIN CANCEL INSPECT JOBS 4711")
    assert number == "4711" and "8224" in said
    number, *_ = inspected(session)
    ((_, said),) = rows(session, f"ADMIN CANCEL INSPECT JOBS {number}")
    assert "has ended" in said


def test_one_that_is_cancelled_before_its_turn_never_begins(world: World, session: Session) -> None:
    def ask(txn: Transaction) -> Inspection:
        table = world.services.schemas.table(txn, "test", "t")
        asked = inspection.ask(txn, table, 1)
        inspection.cancel(txn, asked.id)
        return asked

    number = world.store.transact(ask).id
    assert ended(session, number) == ("cancelled", 0)
    ((*_, began, _, _, _),) = rows(session, JOBS.format(number))
    assert began is None


def test_a_table_that_is_dropped_meanwhile(world: World, session: Session) -> None:
    def ask(txn: Transaction) -> int:
        table = world.services.schemas.table(txn, "test", "t")
        asked = inspection.ask(txn, table, 1)
        inspection.put(txn, replace(asked, table_id=1 << 40))
        return asked.id

    number = world.store.transact(ask)
    assert ended(session, number)[0] == "failed"
    assert rows(session, JOBS.format(number))[0][-1] == "the table is gone"


def test_one_that_its_owner_left_is_begun_anew_by_the_next() -> None:
    with World(owns=False) as front:
        session = front.session()

        def leave(txn: Transaction) -> int:
            table = front.services.schemas.table(txn, "mysql", "stats_meta")
            asked = inspection.ask(txn, table, 1)
            txn.put(k.meta("reorg", asked.id), k.number(0))
            half = inspection.InspectFinding("", "i", "missing", "1", "", "")
            inspection.put(txn, replace(asked, state="running", findings=(half,)))
            return asked.id

        number = front.store.transact(leave)
        with World(front.store):
            assert ended(session, number) == ("finished", 0)
        with front.store.read() as txn:
            assert txn.get(k.meta("reorg", number)) is None
            assert txn.get(k.meta("share", number)) is None


def test_by_the_schedule_every_table_is_inspected_once_a_round(
    world: World, session: Session
) -> None:
    plant(world)
    run(session, "SET GLOBAL exuvia_inspect_interval_s = 31536000")
    found = (
        "SELECT COUNT(*), SUM(findings), MAX(user) FROM information_schema.exuvia_inspect_jobs"
        " WHERE table_schema = 'test' AND state = 'finished'"
    )
    until(lambda: rows(session, found)[0][0] == 1, 60.0)
    ((_, findings, by),) = rows(session, found)
    assert (int(findings), by) == (2, "schedule")
    # the round is over: nothing is inspected again until the interval has passed
    each = (
        "SELECT MAX(n) FROM (SELECT COUNT(*) AS n FROM information_schema.exuvia_inspect_jobs"
        " GROUP BY table_schema, table_name) AS counts"
    )
    assert rows(session, each) == [[1]]


def test_what_ended_is_kept_for_a_while_and_findings_longer(world: World) -> None:
    def fill(txn: Transaction) -> int:
        first = meta.next_ids(txn, MOST_KEPT + 5)
        for n in range(MOST_KEPT + 5):
            found = (inspection.InspectFinding("", "i", "missing", "1", "", ""),) if n == 2 else ()
            each = Inspection(
                id=first + n,
                table_id=1,
                database="d",
                table="t",
                state=inspection.FINISHED,
                findings=found,
            )
            inspection.put(txn, each)
        return first

    first = world.store.transact(fill)
    inspected(world.session())
    with world.store.read() as txn:
        kept = inspection.every(txn)
    assert len(kept) == MOST_KEPT
    assert [each.id for each in kept[:2]] == [first + 2, first + 7]


def test_schema_changes_and_writers_go_on_and_are_no_fault(world: World) -> None:
    session = world.session()
    run(session, "INSERT INTO t SELECT id + 10, a FROM t")
    for n in range(12):
        ((number, *_),) = rows(session, "ADMIN INSPECT TABLE t")
        run(session, f"ALTER TABLE t ADD INDEX i{n} (a, id)")
        run(session, f"UPDATE t SET a = a + {n}")
        run(session, f"ALTER TABLE t DROP INDEX i{n}")
        state, findings = ended(session, number)
        assert (state, findings) == ("finished", 0), rows(session, ERRORS.format(number))


class FaultyReorg:
    """Finds a fault, after the table has got another revision if it is told to change it."""

    def __init__(self, world: World, table: Table, changes: bool) -> None:
        self._world, self._table, self._changes = world, table, changes

    def step(self, now: float) -> Failed:
        if self._changes:
            key = k.revision(self._table.info.id)
            later = k.number(self._table.revision + 1)
            self._world.store.transact(lambda txn: txn.put(key, later))
        fault = Fault("missing", "PRIMARY", "1", "", "[1]")
        return Failed(fault.refusal("user"), [fault])

    def stop(self) -> None:
        """Nothing runs."""


@pytest.mark.parametrize(("changes", "state"), [(0, "finished"), (3, "finished"), (99, "failed")])
def test_what_looks_wrong_while_the_table_changes_is_read_again(changes: int, state: str) -> None:
    with World(owns=False) as front:
        table = front.store.transact(
            lambda txn: front.services.schemas.table(txn, "mysql", "stats_meta")
        )
        asked = front.store.transact(lambda txn: inspection.ask(txn, table, 1))
        campaign = Campaign(front.store, front.member, "inspections")
        campaign.step(0.0)
        assert campaign.is_owner
        read: list[int] = []

        def reorg(job_id: int, epoch: int, table: Table, work: Reorg) -> FaultyReorg:
            read.append(table.revision)
            return FaultyReorg(front, table, len(read) <= changes)

        schemas = Schemas(front.store, evaluator=EVALUATOR)
        inspector = Inspector(front.store, schemas, campaign, front.clock, reorg)
        for now in range(20):
            inspector.step(float(now))
        with front.store.read() as txn:
            (found,) = inspection.every(txn)
        assert (found.id, found.state) == (asked.id, state)
        assert len(found.findings) == (state == "finished")
        assert len(set(read)) == len(read) == min(changes + 1, 5)
