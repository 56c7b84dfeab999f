"""A question to the other fronts is nobody's job: it goes with its answer, or with who asked."""

import pytest

from exuvia.base.errors import Deposed
from exuvia.cluster import member as members
from exuvia.cluster.asking import told_elsewhere
from exuvia.kv import keys
from support.nodes import LEASE_S, Node

TABLES = {55: 6}


@pytest.fixture
def nodes(store, clock):
    """Who asks, and who answers: a writer's transaction is open there."""
    asker, other = Node(store, "asker", clock), Node(store, "other", clock)
    other.locks.hold("t1", 55, 5, "INSERT INTO t VALUES (1)", session=7)
    return asker, other


@pytest.fixture
def asking(nodes, store, clock, monkeypatch):
    """The answers as they come: the first one has, and the question stands."""
    asker, other = nodes
    monkeypatch.setattr(store, "wait", lambda *_: other.acknowledges())
    answers = told_elsewhere(store, asker.member, clock, TABLES)
    said = next(answers)
    assert said.startswith("open transaction of connection 7 of node other")
    assert left(store)
    return answers


def left(store):
    """Keys of questions and answers in the store."""
    txn = store.begin()
    try:
        spans = [keys.span_of(keys.meta(kind)) for kind in ("sync", "ack")]
        return [key for span in spans for key, _ in txn.scan(span)]
    finally:
        txn.rollback()


def test_who_has_its_answers_takes_the_question_back(nodes, asking, store):
    assert list(asking) == []
    assert left(store) == []


def leaves(asker, other, store, clock):
    asker.member.leave()


def is_killed(asker, other, store, clock):
    asker.dies()
    other.campaigns()
    other.waiter.step(clock.monotonic())


def falls_silent(asker, other, store, clock):
    other.campaigns()
    other.waiter.step(clock.monotonic())
    for _ in range(3):
        clock.advance(LEASE_S)
        other.beats()
        other.waiter.step(clock.monotonic())


def is_fenced_by_somebody(asker, other, store, clock):
    other.commits(lambda txn: members.fence(txn, asker.member.id))


@pytest.mark.parametrize("end", [leaves, is_killed, falls_silent, is_fenced_by_somebody])
def test_the_question_of_who_ended_is_taken_back_by_the_others(nodes, asking, store, clock, end):
    asker, other = nodes
    end(asker, other, store, clock)
    other.acknowledges()
    other.acknowledges()
    assert left(store) == []
    with pytest.raises(Deposed):
        asker.member.step(clock.monotonic())
        list(asking)
