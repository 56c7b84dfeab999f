"""One front assents to every job, even for tables with writers: the store keeps the laws."""

from collections import Counter

import pytest

from exuvia.cluster import assent, versions
from exuvia.cluster.assent import Assent
from exuvia.ddl.job import evolve
from exuvia.kv import keys
from exuvia.sim.change import ChangeSubmitter
from exuvia.sim.world import World, play


class AssentingSubmitter(ChangeSubmitter):
    """Assents although the table may have writers: the worst possible assent."""

    def _with_assent(self, txn, job):
        fronts = [info.id for info in assent.members.live(txn) if info.kind == "front"]
        if len(fronts) != 1:
            return job
        epoch = keys.read_number(txn.get(keys.meta("fence", fronts[0])))
        withdrawn = keys.read_number(txn.get(keys.meta("assent", fronts[0])))
        return evolve(job, exuvia_assent=Assent(fronts[0], epoch, withdrawn, 1))


class LoneFront(World):
    titles = "front1", "back1", "back2"

    def _submitters(self):
        return [AssentingSubmitter(self.people, self.plan, self.table_id, self.random)]


def lone_front(seed):
    return play(LoneFront(seed), seed)


@pytest.mark.parametrize("seeds", [100, pytest.param(300, marks=pytest.mark.long)])
def test_every_seed_keeps_the_laws(seeds):
    endings = Counter()
    for verdict in map(lone_front, range(seeds)):
        assert verdict.broken is None, verdict.report()
        endings[verdict.change, verdict.ending] += 1
    assert len({change for change, _ in endings}) == 10
    assert endings["add index", "synced"] and endings["add column", "synced"]


def test_steps_of_one_job_share_commits(monkeypatch):
    followed = Counter()
    rely_on = versions.assent.rely_on

    def counted(txn, assent):
        is_valid = rely_on(txn, assent)
        followed[is_valid] += 1
        return is_valid

    monkeypatch.setattr(versions.assent, "rely_on", counted)
    for seed in range(20):
        play(LoneFront(seed), seed)
    assert followed[True] > 20
