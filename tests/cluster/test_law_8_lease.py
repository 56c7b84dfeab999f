"""Law 8: a member that has not renewed and loaded within its lease does not serve."""

from exuvia.cluster import member as members
from support.cluster_nodes import LEASE_S, Node, live_ids, sequence


def test_a_member_serves_only_after_it_has_loaded_the_schema(store, clock):
    node = Node(store, "node", clock)
    assert not node.member.serving(clock.monotonic())
    node.member.loaded(1, clock.monotonic())
    assert node.member.serving(clock.monotonic())


def test_a_member_that_renews_but_does_not_load_stops_serving_after_its_lease(store, clock):
    node = Node(store, "node", clock)
    node.member.loaded(1, clock.monotonic())
    for _ in range(9):
        clock.advance(LEASE_S / 10)
        node.member.step(clock.monotonic())
        assert node.member.serving(clock.monotonic())
    clock.advance(LEASE_S / 10)
    node.member.step(clock.monotonic())
    assert not node.member.serving(clock.monotonic())
    node.member.loaded(2, clock.monotonic())
    assert node.member.serving(clock.monotonic())


def test_a_member_that_loads_but_does_not_renew_stops_serving_after_its_lease(store, clock):
    node = Node(store, "node", clock)
    for _ in range(9):
        clock.advance(LEASE_S / 10)
        node.member.loaded(1, clock.monotonic())
        assert node.member.serving(clock.monotonic())
    clock.advance(LEASE_S / 10)
    node.member.loaded(1, clock.monotonic())
    assert not node.member.serving(clock.monotonic())


def test_a_member_stops_serving_before_anybody_may_fence_it(store, clock):
    node, waiter = Node(store, "node", clock), Node(store, "waiter", clock)
    assert waiter.campaigns()
    waiter.announces(7, 1, {55: 3})
    waiter.acknowledges()
    node.beats()
    assert node.member.serving(clock.monotonic())
    waiter.waits_for(7)
    looks = 0
    while waiter.waits_for(7):
        looks += 1
        clock.advance(1)
        waiter.beats()
    assert looks == LEASE_S
    assert not node.member.serving(clock.monotonic())  # by its own clock, without any message


def test_a_fenced_member_serves_again_when_it_has_joined_and_loaded(store, clock):
    node, waiter = Node(store, "node", clock), Node(store, "waiter", clock)
    node.beats()
    waiter.commits(lambda txn: members.fence(txn, "node"))
    node.member.step(clock.monotonic())
    assert not node.member.serving(clock.monotonic())
    node.member.step(clock.monotonic())
    assert node.member.serving(clock.monotonic())
    assert live_ids(store) == ["node", "waiter"]


def test_a_member_that_left_does_not_serve_and_does_not_join_again(store, clock):
    node = Node(store, "node", clock)
    node.beats()
    node.member.leave()
    node.member.step(clock.monotonic())
    assert not node.member.serving(clock.monotonic())
    assert live_ids(store) == []


def test_a_front_renews_its_lease_in_the_transaction_of_its_answer(store, clock):
    owner, front = Node(store, "owner", clock), Node(store, "front", clock)
    assert owner.campaigns()
    owner.announces(7, 1, {55: 3})
    clock.advance(LEASE_S / 5)
    before, at = sequence(store), beat(store, "front")
    front.acknowledges()
    assert sequence(store) == before + 1
    assert beat(store, "front") == at + 1
    assert [lag.member for lag in owner.waits_for(7)] == ["owner"]
    front.acknowledges()
    assert sequence(store) == before + 1, "it beats when it is time, not with every look"


def test_a_front_whose_client_blocks_a_job_for_an_hour_keeps_its_lease(store, clock):
    owner, front = Node(store, "owner", clock), Node(store, "front", clock)
    assert owner.campaigns()
    front.locks.hold("t1", 55, 2, "open transaction of connection 12 wrote t")
    owner.announces(7, 1, {55: 3})
    for _ in range(3600):
        clock.advance(1)
        for node in (owner, front):
            node.acknowledges()
            node.member.loaded(1, clock.monotonic())
        [lag] = owner.waits_for(7)
        assert lag.member == "front" and "connection 12" in lag.reason
        assert front.member.serving(clock.monotonic())
    front.locks.release("t1")
    front.acknowledges()
    assert owner.waits_for(7) == []


def test_a_front_whose_acknowledger_is_dead_is_fenced_even_if_its_other_threads_work(store, clock):
    owner, front = Node(store, "owner", clock), Node(store, "front", clock)
    assert owner.campaigns()
    owner.announces(7, 1, {55: 3})
    looks = 0
    while owner.waits_for(7):
        looks += 1
        clock.advance(1)
        owner.acknowledges()
        front.member.loaded(1, clock.monotonic())
    assert looks == LEASE_S
    assert not front.member.serving(clock.monotonic())
    assert live_ids(store) == ["owner"]
    front.acknowledges()  # it works again: it notices the fencing, joins and looks
    front.acknowledges()
    front.acknowledges()
    assert live_ids(store) == ["front", "owner"]
    assert front.member.serving(clock.monotonic())
    assert owner.waits_for(7) == []


def beat(store, name):
    """The member's heartbeat counter."""
    txn = store.begin()
    try:
        return members.beat_of(txn, name)
    finally:
        txn.rollback()
