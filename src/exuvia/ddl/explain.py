"""What a schema change would do, printed before anything is done: the same decisions, in memory.

add index d.t
  1  none -> delete only                     version +1
  2  delete only -> write only               version +1
  3  write only -> write reorganization      reorg begins, version +1
  4  write reorganization -> public          reorg ends, version +1, event add index
  5  into history: synced
"""

from collections.abc import Iterator

from exuvia.catalog.model import evolve
from exuvia.catalog.state import STATE_TEXT
from exuvia.ddl.actions import ACTIONS
from exuvia.ddl.codes import JOB_STATE_TEXT
from exuvia.ddl.decide import decide
from exuvia.ddl.job import Job
from exuvia.ddl.world import Decision, DeleteRange, ReorgOrder, World

_REORG_TEXT = {ReorgOrder.START: "reorg begins", ReorgOrder.LEAVE: "reorg ends"}


def decisions(job: Job, world: World) -> Iterator[Decision]:
    """Every step until history, as if each reorg succeeded. Raises Broken for a bad action."""
    while True:
        decision = decide(job, world)
        if decision.reorg == ReorgOrder.RUN:
            world = evolve(world, filled=True)
            continue
        yield decision
        if decision.archive or not decision.moves:
            return
        job, world = decision.job, evolve(decision.after, filled=False)


def explain(job: Job, world: World) -> list[str]:
    """The lines of EXPLAIN for a schema change; a refused one has its error as the only step."""
    place = ".".join(name for name in (job.schema_name, job.table_name) if name)
    lines = [f"{job.action_text} {place}"]
    before = None
    for number, decision in enumerate(decisions(job, evolve(world, now=1)), 1):
        lines.append(f"  {number}  {_line(before, decision)}".rstrip())
        before = decision
    return lines


def _line(before: Decision | None, decision: Decision) -> str:
    if decision.archive:
        error = f", {decision.job.err.message}" if decision.job.err else ""
        return f"into history: {JOB_STATE_TEXT[decision.job.state]}{error}"
    left = STATE_TEXT[before.job.schema_state] if before else _origin(decision)
    effects = [_REORG_TEXT.get(decision.reorg, ""), "version +1" if decision.moves else ""]
    effects += [_left(decision.ranges)]
    effects += [f"event {decision.event.type}" if decision.event else ""]
    walk = f"{left} -> {STATE_TEXT[decision.job.schema_state]}"
    return f"{walk:<40}{', '.join(effect for effect in effects if effect)}"


def _left(ranges: tuple[DeleteRange, ...]) -> str:
    if not ranges:
        return ""
    what = "tombstones to purge" if ranges[0].tombstones_only else "to empty"
    return f"{len(ranges)} range(s) {what}"


def _origin(decision: Decision) -> str:
    """Where the first step came from: elements that stood were public."""
    return STATE_TEXT[ACTIONS[decision.job.type].path[0].source]
