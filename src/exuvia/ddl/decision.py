"""The output of a decision; plain data, as its input is (ddl/snapshot.py).

job, snapshot --decide--> Decision --apply--> one transaction        (law 4)
"""

from functools import cached_property
from typing import NamedTuple

import msgspec

from exuvia.ddl.effects import Archive, Effect, Publish, applied, of_kind
from exuvia.ddl.job import Job
from exuvia.ddl.snapshot import CatalogSnapshot
from exuvia.pipeline.reorg import Reorg


class StepWait(NamedTuple):
    """The condition of a step does not hold yet. `reorg`: the reorg to run in the meantime."""

    reason: str
    reorg: Reorg | None = None


class Decision(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One step as data, or a wait: then `job.exuvia_wait` has the reason."""

    job: Job
    before: CatalogSnapshot
    effects: tuple[Effect, ...] = ()
    keeps: bool = False  # no version, but the job's row must be written now
    parks: bool = False  # the job stays in the queue and needs no worker
    rests_s: float = 0.0  # the job is looked at again after this time at the latest; 0: no limit
    to_run: Reorg | None = None  # the reorg to run while the job waits

    @cached_property
    def after(self) -> CatalogSnapshot:
        """The snapshot after the step."""
        return applied(self.before, self.effects)

    @property
    def moves(self) -> bool:
        """Whether revisions move: a schema version, or a barrier."""
        return bool(of_kind(self.effects, Publish))

    @property
    def barrier(self) -> bool:
        """Whether revisions move without a schema version."""
        return any(publish.barrier for publish in of_kind(self.effects, Publish))

    @property
    def archives(self) -> bool:
        """Whether the job goes to history."""
        return bool(of_kind(self.effects, Archive))

    @property
    def commits(self) -> bool:
        """Whether it is a step, not a wait."""
        return self.moves or self.archives or self.keeps
