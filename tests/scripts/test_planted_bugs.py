"""The scripts are able to fail: each rule that is taken away is noticed by one of them."""

import pytest

from exuvia.catalog import table as tables
from exuvia.catalog import writer
from exuvia.catalog.model import DUTIES, PartitionInfo, SchemaState
from exuvia.ddl import apply
from exuvia.ddl.effects import ReorgOrder
from exuvia.ddl.job import JobState
from exuvia.kv.memory import MemoryStore
from exuvia.kv.packet import Standing
from exuvia.kv.transaction import Transaction
from exuvia.pipeline.kernels import rewrite
from exuvia.sql.write.rows import SiblingWrites
from support.scripts import Play, check, scripts


def noticed():
    """The first script that fails, or None."""
    for seed in range(6):
        for script in scripts():
            if script.label.startswith("add index"):
                play = Play(script, seed)
                try:
                    check(play, play.run())
                except AssertionError:
                    return script
    return None


def fence_is_off_by_one(patch):
    require = Transaction.require_at_most
    patch.setattr(
        Transaction, "require_at_most", lambda self, key, limit: require(self, key, limit + 1)
    )


def an_undo_keeps_the_epoch(patch):
    move = apply._move_epoch

    def without_leaving(txn, job_id, order):
        move(txn, job_id, ReorgOrder.NONE if order == ReorgOrder.LEAVE else order)

    patch.setattr(apply, "_move_epoch", without_leaving)


def the_fill_overwrites(patch):
    bulk = MemoryStore.bulk

    def overwriting(self, keys, payloads, requirements=(), puts=(), report=False, overwrite=True):
        return bulk(self, keys, payloads, requirements, puts, report, True)

    patch.setattr(MemoryStore, "bulk", overwriting)


def removals_leave_no_tombstone(patch):
    for state in (SchemaState.WRITE_ONLY, SchemaState.WRITE_REORG):
        patch.setitem(DUTIES, state, DUTIES[state]._replace(entombs=False))


@pytest.mark.parametrize(
    "plant",
    [
        fence_is_off_by_one,
        an_undo_keeps_the_epoch,
        the_fill_overwrites,
        removals_leave_no_tombstone,
    ],
    ids=lambda plant: plant.__name__,
)
def test_a_planted_bug_is_found(plant, monkeypatch):
    plant(monkeypatch)
    assert noticed() is not None


# -- of global indexes while rows move -------------------------------------------------------------


def twins_are_left(patch):
    patch.setattr(SiblingWrites, "leaving", lambda self, part, handle, row: [])


def the_new_index_has_no_tombstones(patch):
    of_writers = tables.state_for_writers

    def public(index, table):
        cut = table.partition
        is_new = cut is not None and cut.paired_with(index.id) and index.idx_name.O.startswith("_")
        return SchemaState.PUBLIC if is_new else of_writers(index, table)

    patch.setattr(tables, "state_for_writers", public)


def both_indexes_hold_all_rows(patch):
    patch.setattr(PartitionInfo, "without_rows_of", lambda self, physical_id: frozenset())


@pytest.mark.parametrize(
    "plant",
    [twins_are_left, the_new_index_has_no_tombstones, both_indexes_hold_all_rows],
    ids=lambda plant: plant.__name__,
)
def test_a_planted_bug_of_a_move_is_found(plant, monkeypatch):
    plant(monkeypatch)
    assert noticed_of("alter table reorganize partition, global") is not None


# -- of MODIFY COLUMN ------------------------------------------------------------------------------


def noticed_of(label):
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
    bulk = MemoryStore.bulk

    def without_stamps(self, keys, payloads, requirements=(), puts=(), report=False, overwrite=0):
        kept = [each for each in requirements if not isinstance(each, Standing)]
        return bulk(self, keys, payloads, kept, puts, report, overwrite)

    patch.setattr(MemoryStore, "bulk", without_stamps)


def writers_do_not_convert(patch):
    patch.setattr(writer, "_changed", lambda table, row: row)


def nothing_is_rewritten(patch):
    patch.setattr(rewrite.Rewrite, "_prepared", lambda self, *_: rewrite.NOTHING)


def entries_are_kept_of_rows_that_were_refused(patch):
    prepared = rewrite.Rewrite._prepared

    def at_once(self, *rows):
        found = prepared(self, *rows)
        self.keep(found.entries)
        return found

    patch.setattr(rewrite.Rewrite, "_prepared", at_once)


@pytest.mark.parametrize(
    "plant",
    [
        entries_are_kept_of_rows_that_were_refused,
        the_rewrite_overwrites,
        writers_do_not_convert,
        nothing_is_rewritten,
    ],
    ids=lambda plant: plant.__name__,
)
def test_a_planted_bug_of_a_rewrite_is_found(plant, monkeypatch):
    plant(monkeypatch)
    assert noticed_of("modify column, rows") is not None
