"""Every action paused and resumed at each of its steps, with writes at every round.

A job that can be turned back is paused within a few rounds, and ends as if nothing had been; one
that cannot answers 8260 and goes on.
"""

import pytest

from exuvia.ddl.codes import JobState
from support.scripts import ASKED, Play, Script, check, edge_of, is_undoable, steps_of

UNIQUE = ("add index, unique", "add index, two")
CASES = [Script(label, "pause", at) for label in ASKED for at in range(steps_of(label))]


@pytest.mark.parametrize("script", CASES, ids=str)
def test_an_action_is_paused_and_resumed(script):
    play = Play(script, 0)
    job = play.run()
    ends = (
        {JobState.SYNCED, JobState.ROLLBACK_DONE} if script.label in UNIQUE else {JobState.SYNCED}
    )
    assert job.state in ends, job.describe()
    turns = script.at == 0 or (is_undoable(script.label) and script.at < edge_of(script.label))
    if script.label != "exchange partition" or script.at != edge_of(script.label) - 1:
        assert play.paused == (1 if turns else 0)  # that step only waits, and here for nobody
    check(play, job)
