"""Law 2: the store refuses all writes of an owner or member whose epoch is gone."""

import pytest

from exuvia.base.errors import Conflict, Deposed
from exuvia.cluster import member as members
from exuvia.cluster.owner import Campaign, owner_of
from exuvia.kv.packet import SnapshotUse
from exuvia.kv.store import ForwardingStore
from support.cluster_nodes import Node, live_ids, put, read


def test_a_deposed_owner_s_write_is_refused_in_the_store(store, clock):
    old, new = Node(store, "old", clock), Node(store, "new", clock)
    assert old.campaigns()
    open_step = store.begin()
    old.campaign.guard(open_step)
    open_step.put(b"step", b"by the old owner")
    old.dies()
    assert new.campaigns()
    with pytest.raises(Deposed):
        open_step.commit()
    assert read(store, b"step") is None
    new.commits(put("step"), new.campaign.guard)
    assert read(store, b"step") == b"written"


def test_a_deposed_owner_notices_at_its_next_look_or_at_a_refused_write(store, clock):
    old, new = Node(store, "old", clock), Node(store, "new", clock)
    assert old.campaigns()
    old.dies()
    assert new.campaigns()
    assert old.campaign.is_owner  # it has not looked yet; only the store has the new owner
    assert not old.campaigns()
    with pytest.raises(Deposed):
        old.commits(put("step"), old.campaign.guard)
    assert new.campaign.is_owner
    new.campaign.deposed()
    assert not new.campaign.is_owner


def test_a_fenced_member_s_open_transaction_is_refused_even_after_it_has_joined_again(store, clock):
    paused, waiter = Node(store, "paused", clock), Node(store, "waiter", clock)
    open_write = store.begin()
    paused.member.guard(open_write)
    open_write.put(b"row", b"old epoch")
    waiter.commits(lambda txn: members.fence(txn, "paused"))
    paused.beats()
    assert paused.member.fenced
    paused.beats()
    assert not paused.member.fenced
    with pytest.raises(Deposed):
        open_write.commit()
    paused.commits(put("row"), paused.member.guard)
    assert read(store, b"row") == b"written"


def test_terms_and_epochs_are_never_reused(store, clock):
    first, second = Node(store, "first", clock), Node(store, "second", clock)
    terms, epochs = [], []
    for _ in range(3):
        for node in (first, second):
            assert node.campaigns()
            terms.append(node.campaign.term)
            node.campaign.resign()
            node.commits(lambda txn, node=node: members.fence(txn, node.member.id))
            node.beats()
            node.beats()
            epochs.append(read(store, members.keys.meta("fence", node.member.id)))
    assert terms == sorted(set(terms))
    assert epochs == sorted(set(epochs))


def test_two_candidates_that_seize_at_once_leave_one_owner(store, clock):
    class Interleaved(ForwardingStore):
        """Commits the other candidate's transaction just before this candidate's commit."""

        rival = None

        def snapshot(self, use=SnapshotUse.SYSTEM):
            view = self.shared.snapshot()
            if self.rival is not None:
                rival, self.rival = self.rival, None
                assert rival.campaigns()
            return view

    first, second = Node(store, "first", clock), Node(store, "second", clock)
    interleaved = Interleaved(store)
    second.campaign = Campaign(interleaved, second.member)
    interleaved.rival = first
    assert second.campaign.step(clock.monotonic()) == 0.0
    assert not second.campaign.is_owner
    assert not second.campaigns()
    txn = store.begin()
    assert owner_of(txn, "ddl").member == "first"
    txn.rollback()


def test_an_owner_that_resigns_is_replaced_at_once_and_its_term_ends(store, clock):
    old, new = Node(store, "old", clock), Node(store, "new", clock)
    assert old.campaigns()
    assert not new.campaigns()
    open_step = store.begin()
    old.campaign.guard(open_step)
    open_step.put(b"step", b"late")
    old.campaign.resign()
    with pytest.raises(Deposed):
        open_step.commit()
    assert new.campaigns()


def test_an_owner_whose_member_was_fenced_writes_nothing_even_without_a_successor(store, clock):
    owner, waiter = Node(store, "owner", clock), Node(store, "waiter", clock)
    assert owner.campaigns()
    open_step = store.begin()
    owner.campaign.guard(open_step)
    open_step.put(b"step", b"late")
    waiter.commits(lambda txn: members.fence(txn, "owner"))
    with pytest.raises(Deposed):
        open_step.commit()


def test_a_member_that_left_has_no_row_and_its_guard_refuses(store, clock):
    node, other = Node(store, "node", clock), Node(store, "other", clock)
    node.member.leave()
    assert live_ids(store) == ["other"]
    with pytest.raises(Deposed):
        node.commits(put("row"), node.member.guard)
    assert not store.held(members.presence_of("node"))
    assert other.campaigns()


def test_a_member_that_beats_while_it_is_being_fenced_stays(store, clock):
    alive, waiter = Node(store, "alive", clock), Node(store, "waiter", clock)
    fencing = store.begin()
    members.fence(fencing, "alive")
    alive.beats()
    with pytest.raises(Conflict):
        fencing.commit()
    assert not alive.member.fenced
    assert waiter.waits_for(1) == []
