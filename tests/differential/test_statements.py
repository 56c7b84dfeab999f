"""Every recorded statement does here what it did in MariaDB, or what differences.txt says instead.

    [file]                 # why TiDB's answer is another one, or what is open
    > statement
    = the answer expected

An entry of differences.txt that is no difference (any more) fails too.
"""

from collections.abc import Iterator

import pytest

from support.answers import answer, comparable, differences, new_session, peer_answers
from support.world import World

RECORDED = peer_answers()
DIFFERENCES = differences()


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    """A node in this process."""
    with World() as world:
        yield world


@pytest.mark.parametrize("name", sorted(RECORDED))
def test_replay(name: str, world: World) -> None:
    session = new_session(world)
    instead = DIFFERENCES.get(name, {})
    wrong = []
    for statement, theirs in RECORDED[name]:
        expected = instead[statement][0] if statement in instead else theirs
        found = answer(session, statement)
        if comparable(statement, found) != comparable(statement, expected):
            wrong.append((statement, expected, found))
    session.close()
    assert not wrong


def test_differences_are_differences_and_say_why() -> None:
    assert sum(map(len, RECORDED.values())) >= 800
    for name, entries in DIFFERENCES.items():
        theirs = dict(RECORDED[name])
        asked = [statement for statement, _ in RECORDED[name]]
        for statement, (expected, reason) in entries.items():
            assert reason, statement
            assert asked.count(statement) == 1, statement
            assert comparable(statement, theirs[statement]) != comparable(statement, expected)
