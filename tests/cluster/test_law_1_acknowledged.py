"""The metadata lock: a step waits until no open writer has a plan of an older revision (law 1)."""

import pytest

from exuvia.cluster.versions import BUSY_S, MOST_TAKEN, PACE_S, Acknowledger, ack_key
from exuvia.kv import keys
from exuvia.kv.packet import SnapshotUse, WriteKind
from exuvia.kv.store import ForwardingStore
from support.cluster_nodes import Node, acks, read, sequence


class Late(ForwardingStore):
    """Shows the snapshot of its creation until its delay is over."""

    def __init__(self, shared):
        super().__init__(shared)
        self.view = shared.snapshot()

    def snapshot(self, use=SnapshotUse.SYSTEM):
        return self.view or self.shared.snapshot()


@pytest.fixture
def nodes(store, clock):
    """An owner that is a front too, and another front; job 7 announced version 1 of table 55."""
    owner, front = Node(store, "owner", clock), Node(store, "front", clock)
    assert owner.campaigns()
    owner.announces(7, 1, {55: 6})
    return owner, front


def test_a_step_waits_for_every_front_and_for_no_back(nodes, store, clock):
    owner, front = nodes
    Node(store, "back", clock, kind="back")
    assert {lag.member for lag in owner.waits_for(7)} == {"owner", "front"}
    owner.acknowledges()
    assert {lag.member for lag in owner.waits_for(7)} == {"front"}
    front.acknowledges()
    assert owner.waits_for(7) == []


def test_an_open_writer_with_the_older_plan_blocks_until_it_ends(nodes):
    owner, front = nodes
    owner.acknowledges()
    front.locks.hold("t1", 55, 5, "open transaction of connection 12 wrote t")
    assert front.acknowledges() < 0.1
    assert [lag.member for lag in owner.waits_for(7)] == ["front"]
    front.locks.release("t1")
    front.acknowledges()
    assert owner.waits_for(7) == []


def test_writers_with_the_new_plan_and_writers_of_other_tables_block_nothing(nodes):
    owner, front = nodes
    owner.acknowledges()
    front.locks.hold("new plan", 55, 6)
    front.locks.hold("other table", 56, 1)
    front.acknowledges()
    assert owner.waits_for(7) == []


def test_a_transaction_counts_with_the_oldest_plan_it_wrote_the_table_with(nodes):
    owner, front = nodes
    owner.acknowledges()
    front.locks.hold("t1", 55, 5)
    front.locks.hold("t1", 55, 6)
    front.acknowledges()
    assert [lag.member for lag in owner.waits_for(7)] == ["front"]


def test_each_step_needs_its_own_acknowledgement(nodes):
    owner, front = nodes
    owner.acknowledges()
    front.acknowledges()
    owner.announces(7, 2, {55: 7})
    assert {lag.member for lag in owner.waits_for(7)} == {"owner", "front"}
    owner.acknowledges()
    front.acknowledges()
    assert owner.waits_for(7) == []


def test_a_silent_step_needs_an_acknowledgement_although_the_version_is_unchanged(nodes):
    owner, front = nodes
    owner.acknowledges()
    front.acknowledges()
    front.locks.hold("t1", 55, 6)
    owner.announces(7, 1, {55: 7})
    assert {lag.member for lag in owner.waits_for(7)} == {"owner", "front"}
    owner.acknowledges()
    front.acknowledges()
    assert [lag.member for lag in owner.waits_for(7)] == ["front"]
    front.locks.release("t1")
    front.acknowledges()
    assert owner.waits_for(7) == []


def test_a_front_of_an_older_build_acknowledges_versions_alone(nodes, store):
    owner, _ = nodes
    owner.acknowledges()
    txn = store.begin()
    txn.write(WriteKind.PLACE, ack_key(7, "front"), keys.number(1) + b"[]")
    txn.commit()
    assert owner.waits_for(7) == []
    owner.announces(7, 1, {55: 7})
    owner.acknowledges()
    assert owner.waits_for(7) == []


def test_one_transaction_answers_every_job_that_waits(nodes, store):
    owner, front = nodes
    for job in range(8, 28):
        owner.announces(job, job, {job + 100: 2})
    before = sequence(store)
    front.acknowledges()
    assert sequence(store) == before + 1
    assert all(len(acks(store, job)) == 1 for job in range(7, 28))
    front.acknowledges()
    assert sequence(store) == before + 1


def test_a_blocked_job_does_not_hold_up_another(nodes):
    owner, front = nodes
    owner.announces(8, 2, {56: 2})
    owner.acknowledges()
    front.locks.hold("t1", 55, 5)
    front.acknowledges()
    assert [lag.member for lag in owner.waits_for(7)] == ["front"]
    assert owner.waits_for(8) == []


def two_transactions_take(locks, table_id):
    for token in ("one", "two"):
        locks.hold(token, table_id, 6)
        locks.release(token)


def test_a_front_answers_for_a_busy_table_at_its_pace(nodes, clock):
    owner, front = nodes
    two_transactions_take(front.locks, 55)
    owner.acknowledges()
    front.acknowledges()
    owner.announces(7, 2, {55: 7})
    owner.announces(8, 3, {56: 2})
    owner.acknowledges()
    rests_s = front.acknowledges()
    assert [lag.member for lag in owner.waits_for(7)] == ["front"]
    assert owner.waits_for(8) == [], "another table, which nobody takes"
    assert 0 < rests_s <= PACE_S
    clock.advance(rests_s)
    front.acknowledges()
    assert owner.waits_for(7) == []
    clock.advance(BUSY_S)
    for revision in (8, 9):  # no transaction takes the table any more
        owner.announces(7, revision, {55: revision})
        owner.acknowledges()
        front.acknowledges()
        assert owner.waits_for(7) == []


def test_a_table_is_busy_while_transactions_take_it_in_quick_succession(nodes, clock):
    locks = nodes[1].locks
    locks.hold("one", 55, 6)
    locks.hold("one", 55, 7)
    locks.release("one")
    assert not locks.is_busy(55), "one transaction, however often it takes the table"
    assert locks.reserve(55)
    two_transactions_take(locks, 55)
    assert locks.is_busy(55) and not locks.is_busy(56)
    assert not locks.reserve(55), "who comes next would have to withdraw it"
    clock.advance(BUSY_S)
    assert not locks.is_busy(55) and locks.reserve(55)
    for table_id in range(100, 100 + 2 * MOST_TAKEN):
        clock.advance(BUSY_S / 100)
        locks.hold("many", table_id, 1)
    two_transactions_take(locks, 99)
    assert locks.is_busy(99)


def test_a_new_owner_waits_for_the_announcements_of_the_former_one(nodes, store, clock):
    owner, front = nodes
    front.acknowledges()
    owner.dies()
    assert front.campaigns()
    assert front.waits_for(7) == []
    front.announces(7, 2, {55: 7})
    assert [lag.member for lag in front.waits_for(7)] == ["front"]


def test_a_front_that_joins_after_the_announcement_answers_and_harms_nothing(nodes, store, clock):
    owner, front = nodes
    for node in (owner, front):
        node.acknowledges()
    late = Node(store, "late", clock)
    assert [lag.member for lag in owner.waits_for(7)] == ["late"]
    late.acknowledges()
    assert owner.waits_for(7) == []


def test_a_finished_job_leaves_no_keys(nodes, store):
    owner, front = nodes
    owner.acknowledges()
    late = Late(store)
    front.acknowledger = Acknowledger(late, front.member, front.locks)
    owner.finishes(7)
    front.acknowledges()  # while the job finishes
    assert len(acks(store, 7)) == 1
    late.view = None
    front.acknowledges()
    assert acks(store, 7) == []
    assert read(store, keys.meta("sync", 7)) is None
    assert owner.waits_for(7) == []


def test_with_the_metadata_lock_off_open_writers_block_nothing(nodes, store):
    owner, front = nodes
    owner.acknowledges()
    front.locks.hold("t1", 55, 5)
    name = keys.meta("var", "tidb_enable_metadata_lock")
    owner.commits(lambda txn: txn.put(name, b"OFF"))
    front.acknowledges()
    assert owner.waits_for(7) == []
