"""Law 1: which two schema states may live side by side, found by trying everything.

Two rows, two values, one index, plain and unique: every database, every statement, every pair.
"""

from functools import cache
from itertools import pairwise, product

import pytest

from exuvia.base.errors import Broken
from exuvia.catalog.state import SchemaState
from exuvia.ddl.action import Action, Step, compatible, load
from exuvia.ddl.actions import ACTIONS
from exuvia.ddl.codes import ActionCode
from exuvia.ddl.elements import INDEX
from support import production_worlds
from support.state_worlds import can_meet, execute

ABSENT, DELETE_ONLY, WRITE_ONLY = (
    SchemaState.ABSENT,
    SchemaState.DELETE_ONLY,
    SchemaState.WRITE_ONLY,
)
WRITE_REORG, DELETE_REORG, PUBLIC = (
    SchemaState.WRITE_REORG,
    SchemaState.DELETE_REORG,
    SchemaState.PUBLIC,
)
OF_ROWS = [state for state in SchemaState if state != SchemaState.REPLICA_ONLY]  # not partitions
PAIRS = list(product(OF_ROWS, repeat=2))


@pytest.mark.parametrize("unique", [False, True], ids=["plain", "unique"])
def test_the_relation_is_the_one_that_trying_everything_finds(unique):
    found = {pair: can_meet(*pair, unique)[0] for pair in PAIRS}
    assert found == {pair: compatible(*pair) for pair in PAIRS}


@pytest.mark.parametrize("unique", [False, True], ids=["plain", "unique"])
def test_the_writer_and_the_store_do_what_the_relation_needs(unique):
    """The same search, each statement done by production code; what it made is the model's too."""
    compared = 0

    @cache
    def run(world, statement, state, unique):
        nonlocal compared
        compared += 1
        after = production_worlds.execute(world, statement, state, unique)
        assert after == execute(world, statement, state, unique), (world, statement, state.name)
        return after

    found = {pair: can_meet(*pair, unique, run)[0] for pair in PAIRS}
    assert found == {pair: compatible(*pair) for pair in PAIRS}
    assert compared > 500


def test_the_search_is_not_trivial():
    visited = [can_meet(*pair, unique)[1] for pair in PAIRS for unique in (False, True)]
    apart = [pair for pair in PAIRS if not compatible(*pair)]
    assert len(visited) == 72 and sum(visited) > 3_000
    assert len(apart) == 10


@pytest.mark.parametrize("action", ACTIONS.values(), ids=lambda action: action.label)
def test_every_action_walks_through_neighbours_that_may_meet(action):
    steps = [(step.source, step.target) for step in action.path]
    if action.undo:
        steps += [
            (reached, action.undo.step_from(reached).target)
            for reached in (step.target for step in action.path[:-1])
        ]
    if action.element.follows_rows:
        for unique in (False, True):
            assert [pair for pair in steps if not can_meet(*pair, unique)[0]] == []


def path(*states):
    return tuple(Step(a, b) for a, b in pairwise(states))


@pytest.mark.parametrize(
    "bad",
    [
        path(ABSENT, WRITE_ONLY, WRITE_REORG, PUBLIC),
        path(ABSENT, DELETE_ONLY, PUBLIC),
        path(ABSENT, DELETE_ONLY, WRITE_ONLY, PUBLIC),
        path(PUBLIC, DELETE_ONLY, ABSENT),
        path(PUBLIC, WRITE_ONLY, ABSENT),
        path(ABSENT, DELETE_ONLY, WRITE_ONLY),
        (Step(ABSENT, DELETE_ONLY), Step(WRITE_ONLY, WRITE_REORG), Step(WRITE_REORG, PUBLIC)),
    ],
    ids=lambda bad: ">".join(step.target.name for step in bad),
)
def test_a_bad_table_of_steps_is_rejected_when_it_is_loaded(bad):
    with pytest.raises(Broken):
        load(Action("bad", ActionCode.ADD_INDEX, INDEX, bad))


def test_an_undo_that_cannot_be_entered_is_rejected():
    add = path(ABSENT, DELETE_ONLY, WRITE_ONLY, WRITE_REORG, PUBLIC)
    undo = Action("undo", ActionCode.DROP_INDEX, INDEX, path(PUBLIC, WRITE_ONLY))
    with pytest.raises(Broken):
        load(Action("bad", ActionCode.ADD_INDEX, INDEX, add, undo=undo))
