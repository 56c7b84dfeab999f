"""Law 3: clocks decide how long to wait, never whose writes are accepted."""

import pytest

from exuvia.base.clock import ManualClock
from exuvia.base.errors import Deposed
from exuvia.cluster import member as members
from support.cluster_nodes import LEASE_S, Node, live_ids, put


def test_a_silent_member_is_fenced_after_its_lease_on_the_waiter_s_clock(store, clock):
    owner, silent = Node(store, "owner", clock), Node(store, "silent", clock)
    assert owner.campaigns()
    owner.announces(7, 1, {55: 3})
    owner.acknowledges()
    assert [lag.member for lag in owner.waits_for(7)] == ["silent"]
    clock.advance(LEASE_S - 1)
    owner.beats()
    assert [lag.member for lag in owner.waits_for(7)] == ["silent"]
    clock.advance(1)
    assert owner.waits_for(7) == []
    assert live_ids(store) == ["owner"]
    with pytest.raises(Deposed):
        silent.commits(put("row"), silent.member.guard)


def test_silence_counts_from_the_waiter_s_first_look_not_from_the_member_s_last_beat(store, clock):
    owner, silent = Node(store, "owner", clock), Node(store, "silent", clock)
    assert owner.campaigns()
    owner.announces(7, 1, {55: 3})
    owner.acknowledges()
    clock.advance(10 * LEASE_S)
    assert [lag.member for lag in owner.waits_for(7)] == ["silent"]
    clock.advance(LEASE_S / 2)
    silent.beats()
    assert [lag.member for lag in owner.waits_for(7)] == ["silent"]
    clock.advance(LEASE_S - 1)
    assert [lag.member for lag in owner.waits_for(7)] == ["silent"]
    clock.advance(1)
    assert owner.waits_for(7) == []


def test_a_member_whose_process_has_ended_is_fenced_at_once(store, clock):
    owner, dead = Node(store, "owner", clock), Node(store, "dead", clock)
    assert owner.campaigns()
    owner.announces(7, 1, {55: 3})
    owner.acknowledges()
    dead.dies()
    assert owner.waits_for(7) == []
    assert live_ids(store) == ["owner"]


def test_the_waiter_s_loop_fences_dead_members_even_if_no_job_waits(store, clock):
    owner, dead = Node(store, "owner", clock), Node(store, "dead", clock, kind="back")
    assert owner.campaigns()
    dead.dies()
    owner.waiter.step(clock.monotonic())
    assert live_ids(store) == ["owner"]


def test_a_waiter_that_is_no_longer_owner_fences_nobody(store, clock):
    old, new, dead = (Node(store, name, clock) for name in ("old", "new", "dead"))
    assert old.campaigns()
    old.announces(7, 1, {55: 3})
    new.commits(lambda txn: members.fence(txn, "old"))
    assert new.campaigns()
    dead.dies()
    with pytest.raises(Deposed):
        old.waits_for(7)
    old.waiter.step(clock.monotonic())
    assert live_ids(store) == ["dead", "new"]


def test_a_silent_owner_keeps_its_role_for_a_lease_and_a_dead_one_loses_it_at_once(store, clock):
    silent, next_one = Node(store, "silent", clock), Node(store, "next", clock)
    assert silent.campaigns()
    assert not next_one.campaigns()
    clock.advance(LEASE_S - 1)
    assert not next_one.campaigns()
    clock.advance(1)
    assert next_one.campaigns()
    assert "silent" not in live_ids(store)
    third = Node(store, "third", clock)
    assert not third.campaigns()
    next_one.dies()
    assert third.campaigns()


def test_an_owner_that_beats_is_never_deposed_whatever_the_candidate_s_clock_shows(store, clock):
    fast = ManualClock()
    owner, candidate = Node(store, "owner", clock), Node(store, "candidate", fast)
    assert owner.campaigns()
    for _ in range(20):
        owner.beats()
        assert not candidate.campaigns()
        fast.advance(LEASE_S - 1)
    assert owner.campaign.is_owner


def test_a_wrong_clock_makes_the_member_join_again_and_causes_no_wrong_write(store, clock):
    wild = ManualClock()
    waiter, member = Node(store, "waiter", wild), Node(store, "member", clock)
    assert waiter.campaigns()
    open_write = store.begin()
    member.member.guard(open_write)
    open_write.put(b"row", b"written")
    waiter.waiter.step(wild.monotonic())
    wild.advance(1e9)
    waiter.beats()
    waiter.waiter.step(wild.monotonic())
    with pytest.raises(Deposed):
        open_write.commit()
    member.beats()
    member.beats()
    member.commits(put("row"), member.member.guard)
