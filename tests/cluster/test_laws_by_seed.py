"""Laws 2 and 3 in random worlds: safety under faults, then convergence without faults.

Nodes beat, campaign, acknowledge, open a step and commit it much later, pause, die and restart.
Each has a clock of its own with a random speed. One seed replays one world.
"""

import random

import pytest

from exuvia.base.clock import ManualClock
from exuvia.base.errors import Conflict, Deposed
from exuvia.cluster.owner import owner_of
from exuvia.cluster.versions import announce
from exuvia.kv.memory import MemoryStore
from support.cluster_nodes import LEASE_S, Node, live_ids, read

SEEDS = 300
TURNS = 200


class World:
    """Four nodes. `history`: the terms of the steps that the store accepted, in order."""

    def __init__(self, seed):
        self.chance = random.Random(seed)
        self.store = MemoryStore()
        self.history = []
        self.refused = 0
        self.nodes = [self.joins(n) for n in range(4)]
        self.steps = {}
        self.born = 4

    def joins(self, n):
        return Node(self.store, f"node{n}", ManualClock(self.chance.uniform(0, 1e6)))

    def turn(self):
        node = self.chance.choice(self.nodes)
        actions = (self.beats, self.campaigns, self.opens, self.closes, self.waits, self.sleeps)
        self.chance.choices((*actions, self.is_replaced), (6, 6, 9, 6, 2, 1.5, 0.4))[0](node)

    def beats(self, node):
        node.beats()
        node.acknowledges()

    def campaigns(self, node):
        node.campaigns()

    def opens(self, node):
        """A step begins: its guard is read now, its commit may follow at any time."""
        if node.campaign.is_owner and node not in self.steps:
            txn = self.store.begin()
            node.campaign.guard(txn)
            announce(txn, 7, len(self.history) + 1, {55: 2})
            self.steps[node] = (txn, node.campaign.term)

    def closes(self, node):
        if node not in self.steps:
            return
        txn, term = self.steps.pop(node)
        look = self.store.begin()
        owner = owner_of(look, "ddl")
        look.rollback()
        is_owner = owner is not None and (owner.member, owner.term) == (node.member.id, term)
        try:
            txn.commit()
        except (Deposed, Conflict) as error:
            self.refused += isinstance(error, Deposed)
            return
        assert is_owner, "a step was accepted from one who is not the owner"
        assert node.member.id in live_ids(self.store), "a step was accepted from a fenced member"
        self.history.append(term)

    def waits(self, node):
        try:
            node.waits_for(7)
        except Deposed:
            node.campaign.deposed()

    def sleeps(self, node):
        node.clock.advance(self.chance.choice((1, LEASE_S / 2, LEASE_S, 3 * LEASE_S)))

    def is_replaced(self, node):
        """Its process ends with its open transactions; another one starts."""
        self.steps.pop(node, None)
        node.dies()
        self.born += 1
        self.nodes[self.nodes.index(node)] = self.joins(self.born)


@pytest.mark.parametrize("part", range(4))
def test_only_the_owner_s_steps_are_accepted_and_then_one_owner_serves(part):
    accepted = refused = terms = 0
    for seed in range(part, SEEDS, 4):
        world = World(seed)
        for _ in range(TURNS):
            world.turn()
        assert world.history == sorted(world.history), f"a term came back, seed {seed}"
        accepted, refused = accepted + len(world.history), refused + world.refused
        terms += len(set(world.history))
        converges(world, seed)
    assert accepted > 200
    assert refused > 20
    assert terms > SEEDS / 4


def converges(world, seed):
    """Without faults: all nodes beat, one owns, all acknowledge, dead members are removed."""
    for _ in range(12):
        for node in world.nodes:
            node.clock.advance(LEASE_S / 5)
            node.beats()
            node.campaigns()
            node.acknowledges()
    owners = [node for node in world.nodes if node.campaign.is_owner]
    assert len(owners) == 1, f"{len(owners)} owners, seed {seed}"
    owners[0].announces(7, 10**6, {55: 3})
    for node in world.nodes:
        node.acknowledges()
    assert owners[0].waits_for(7) == [], f"seed {seed}"
    assert set(live_ids(world.store)) == {node.member.id for node in world.nodes}
    assert read(world.store, b"m/epoch") is not None
