"""Every action x every accident at every step x a statement at every step, against a model.

There are many thousands; `make test` plays a sample by seed that has every action with every
accident and every statement, `make scripts` plays them all (SEED=n another time).
"""

import os
from collections import Counter

import pytest

from exuvia.catalog.model import DUTIES, SchemaState
from exuvia.ddl.actions import ACTIONS
from exuvia.ddl.job import JobState
from support.few import one_in
from support.scripts import (
    ACCIDENTS,
    ASKED,
    STATEMENTS,
    UNIQUE,
    InjectedPlay,
    cases,
    check,
    expected,
    sample,
)

SEED = int(os.environ.get("SEED", "1"))
PLAYED = cases() if os.environ.get("SCRIPTS") == "all" else sample(1000, SEED)


@pytest.mark.parametrize("label", one_in(6, ASKED, first=1))
def test_a_statement_at_a_step_of_an_action_under_an_accident(label):
    for case in (each for each in PLAYED if each.script.label == label):
        play = InjectedPlay(case, SEED)
        job = play.run()
        assert job.state in ends(case.script), f"{case}: {job.describe()}"
        check(play, job)


def ends(script):
    """As without the statement; who pauses a job loses nothing of it."""
    if script.accident == "pause":
        unique = {JobState.ROLLBACK_DONE} if script.label in UNIQUE else set()
        return {JobState.SYNCED} | unique
    return expected(script)


def test_how_many_cases_there_are_and_that_every_kind_is_played():
    every = cases()
    assert len(every) == len(set(every)) > 10_000
    kinds = Counter((c.script.label, c.script.accident, c.statement) for c in PLAYED)
    assert len(kinds) == len(ASKED) * (len(ACCIDENTS) + 1) * len(STATEMENTS)
    assert {label.split(",")[0] for label in ASKED} == {a.label for a in ACTIONS.values()}
    print(f"{len(every)} cases, {len(PLAYED)} of them played with seed {SEED}")


def writers_add_nothing_to_what_is_filled(patch):
    for state in (SchemaState.WRITE_ONLY, SchemaState.WRITE_REORG):
        patch.setitem(DUTIES, state, DUTIES[state]._replace(adds=False))


def removals_leave_entries(patch):
    patch.setitem(DUTIES, SchemaState.PUBLIC, DUTIES[SchemaState.PUBLIC]._replace(removes=False))


@pytest.mark.parametrize(
    "plant",
    [writers_add_nothing_to_what_is_filled, removals_leave_entries],
    ids=lambda p: p.__name__,
)
def test_a_planted_bug_is_found_by_one_statement(plant, monkeypatch):
    plant(monkeypatch)
    assert any(fails(case) for case in cases() if case.script.label == "add index")


def fails(case):
    play = InjectedPlay(case, SEED)
    try:
        check(play, play.run())
    except AssertionError:
        return True
    return False
