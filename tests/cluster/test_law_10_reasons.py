"""Law 10: a job that waits shows the reason."""

from exuvia.cluster.owner import OwnerWatch
from exuvia.cluster.versions import SHOWN, Acknowledger
from support.cluster_nodes import Node, sequence


def reasons(owner):
    return [lag.reason for lag in owner.waits_for(7)]


def blocked_job(store, clock):
    owner, front = Node(store, "10.0.0.1:4000", clock), Node(store, "10.0.0.2:4000", clock)
    assert owner.campaigns()
    owner.announces(7, 1, {55: 6})
    owner.acknowledges()
    return owner, front


def test_an_open_transaction_is_named_with_its_age(store, clock):
    owner, front = blocked_job(store, clock)
    front.locks.hold("t1", 55, 5, "open transaction of connection 12 wrote t")
    clock.advance(3)
    front.acknowledges()
    assert reasons(owner) == [
        "node 10.0.0.2:4000: open transaction of connection 12 wrote t (revision 5) 3 s ago"
    ]
    clock.advance(4)
    front.acknowledges()
    assert reasons(owner) == [
        "node 10.0.0.2:4000: open transaction of connection 12 wrote t (revision 5) 7 s ago"
    ]


def test_several_blockers_are_named_oldest_first_and_not_without_end(store, clock):
    owner, front = blocked_job(store, clock)
    for n in range(SHOWN + 5):
        front.locks.hold(n, 55, 5, f"connection {n} wrote t")
        clock.advance(1)
    front.acknowledges()
    (text,) = reasons(owner)
    assert text.startswith("node 10.0.0.2:4000: connection 0 wrote t (revision 5) 15 s ago; conn")
    assert text.count("wrote t") == SHOWN


def test_a_reason_is_written_once_a_second_not_at_every_look(store, clock):
    _, front = blocked_job(store, clock)
    front.locks.hold("t1", 55, 5)
    front.acknowledges()
    before = sequence(store)
    for _ in range(9):
        clock.advance(0.1)
        front.acknowledges()
    assert sequence(store) == before
    clock.advance(0.2)
    front.acknowledges()
    assert sequence(store) == before + 1


def test_a_silent_member_is_named_with_its_silence_and_its_lease(store, clock):
    owner, _ = blocked_job(store, clock)
    assert reasons(owner) == ["node 10.0.0.2:4000: has not answered yet"]
    clock.advance(30)
    owner.beats()
    assert reasons(owner) == ["node 10.0.0.2:4000: silent 30 s of 45 s lease"]


def test_an_acknowledged_job_has_no_reason(store, clock):
    owner, front = blocked_job(store, clock)
    front.locks.hold("t1", 55, 5)
    front.acknowledges()
    front.locks.release("t1")
    front.acknowledges()
    assert reasons(owner) == []


def test_a_front_reports_why_the_owner_does_not_work(store, clock):
    watch = OwnerWatch(store)

    def trouble():
        with store.read() as txn:
            return watch.trouble(txn, clock.monotonic())

    assert trouble() == "no node owns ddl, and no back process that could take it has joined"
    back = Node(store, "10.0.0.1:4000", clock, kind="back")
    assert trouble() == "no node owns ddl yet, one takes it at its next look"
    assert back.campaigns()
    assert trouble() == ""
    clock.advance(18)
    assert trouble() == "", "two beats late is not silent"
    clock.advance(12)
    assert trouble() == "the owner, node 10.0.0.1:4000, silent 30 s of 45 s lease"
    back.beats()
    assert trouble() == ""
    back.dies()
    assert trouble() == (
        "the owner, node 10.0.0.1:4000, has ended, another takes ddl at its next look"
    )


def test_a_front_looks_at_the_owner_at_each_of_its_beats(store, clock):
    back = Node(store, "10.0.0.1:4000", clock, kind="back")
    assert back.campaigns()
    front = Node(store, "10.0.0.2:4000", clock)
    front.acknowledger = Acknowledger(store, front.member, front.locks, watch := OwnerWatch(store))
    for _ in range(3):
        clock.advance(10)
        front.acknowledges()
    with store.read() as txn:
        reason = watch.trouble(txn, clock.monotonic())
    assert reason == "the owner, node 10.0.0.1:4000, silent 20 s of 45 s lease"
