"""How the job of a script may end."""

from exuvia.ddl.codes import JobState
from support.scripts import Script, edge_of, is_undoable

UNIQUE = ("add index, unique", "add index, two")


def expected(script: Script) -> set[JobState]:
    """States the job may end in."""
    undoable = is_undoable(script.label)
    if script.accident != "undo" or (not undoable and script.at):
        ends = {JobState.SYNCED}
    elif script.at == 0:
        ends = {JobState.CANCELLED}
    elif script.at >= edge_of(script.label):
        ends = {JobState.SYNCED}  # past the point of no return
    else:
        ends = {JobState.ROLLBACK_DONE}
    if script.label == "exchange partition" and script.at == edge_of(script.label) - 1:
        ends |= {JobState.SYNCED}  # the step before the last only waits, for nobody here
    if script.label in UNIQUE:
        ends |= {JobState.ROLLBACK_DONE}  # writes made a duplicate before anybody judged it
    return ends
