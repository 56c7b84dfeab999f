"""The scripts of MODIFY COLUMN are able to fail: each rule that is taken away is noticed."""

import pytest

from exuvia.catalog import writer
from exuvia.ddl.codes import JobState
from exuvia.kv.packet import Unchanged
from exuvia.pipeline.kernels import rewrite
from support.scripts import Play, check, scripts


def noticed(label):
    """The first script of that label that fails, or None."""
    for seed in range(8):
        for script in scripts():
            if script.label == label:
                play = Play(script, seed)
                try:
                    job = play.run()
                    assert script.accident == "undo" or job.state == JobState.SYNCED
                    check(play, job)
                except (AssertionError, ValueError):
                    return script
    return None


def the_rewrite_overwrites(patch):
    packet = rewrite.Packet

    def without_sequences(writes, requirements, channels):
        kept = [each for each in requirements if not isinstance(each, Unchanged)]
        return packet(writes, kept, channels)

    patch.setattr(rewrite, "Packet", without_sequences)


def writers_do_not_convert(patch):
    patch.setattr(writer, "_changed", lambda table, row: row)


def nothing_is_rewritten(patch):
    patch.setattr(rewrite.Rewrite, "_prepared", lambda self, found, raws: [])


@pytest.mark.parametrize(
    "plant",
    [
        the_rewrite_overwrites,
        writers_do_not_convert,
        nothing_is_rewritten,
    ],
    ids=lambda plant: plant.__name__,
)
def test_a_planted_bug_is_found(plant, monkeypatch):
    plant(monkeypatch)
    assert noticed("modify column, rows") is not None
