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
from exuvia.ddl.actions import action_of
from exuvia.ddl.codes import JOB_STATE_TEXT
from exuvia.ddl.decision import CatalogSnapshot, Decision, DeleteRange, ReorgOrder
from exuvia.ddl.job import Job
from exuvia.ddl.multi_schema_change import is_several, sub_job, sub_jobs
from exuvia.ddl.state_machine import decide

_REORG_TEXT = {ReorgOrder.START: "reorg begins", ReorgOrder.LEAVE: "reorg ends"}


def decisions(
    job: Job, snapshot: CatalogSnapshot, runs: list[Decision] | None = None
) -> Iterator[Decision]:
    """Every step until history, as if each reorg succeeded. Raises Broken for a bad action.

    `runs` is given the decisions that would run a reorg."""
    while True:
        decision = decide(job, snapshot)
        if decision.reorg == ReorgOrder.RUN:
            if runs is not None:
                runs.append(decision)
            snapshot = evolve(snapshot, filled=True)
            continue
        yield decision
        if decision.archive or not (decision.moves or decision.keeps):
            return
        job, snapshot = decision.job, evolve(decision.after, filled=False)


def explain(job: Job, snapshot: CatalogSnapshot) -> list[str]:
    """The lines of EXPLAIN for a schema change; a refused one has its error as the only step."""
    place = ".".join(name for name in (job.schema_name, job.table_name) if name)
    lines = [f"{job.action_text} {place}"]
    before = None
    for number, decision in enumerate(decisions(job, evolve(snapshot, now=1)), 1):
        lines.append(f"  {number}  {_line(before, decision)}".rstrip())
        before = decision
    return lines


def step_text(before: Decision | None, decision: Decision) -> str:
    """One step in words, without columns."""
    return ", ".join(part for part in _parts(before, decision) if part)


def _line(before: Decision | None, decision: Decision) -> str:
    walk, *effects = _parts(before, decision)
    told = ", ".join(effect for effect in effects if effect)
    return f"{walk:<39} {told}" if not decision.archive else walk


def _parts(before: Decision | None, decision: Decision) -> list[str]:
    """From where to where, and each effect; an end is one part."""
    if decision.archive:
        error = f", {decision.job.err.message}" if decision.job.err else ""
        return [f"into history: {JOB_STATE_TEXT[decision.job.state]}{error}"]
    return [
        "; ".join(_walks(before, decision)),
        _REORG_TEXT.get(decision.reorg, ""),
        _version_text(decision),
        _left(decision.ranges),
        *(f"event {each.type}" for each in decision.events[:1]),
    ]


def _version_text(decision: Decision) -> str:
    if decision.barrier:
        return "no version, older writers are waited for"
    return "version +1" if decision.moves else ""


def _walks(before: Decision | None, decision: Decision) -> Iterator[str]:
    """From where to where; for each sub-job that moves, where there are several."""
    if not is_several(decision.job):
        left = STATE_TEXT[before.job.schema_state] if before else _origin(decision.job)
        yield f"{left} -> {STATE_TEXT[decision.job.schema_state]}"
        return
    for at, sub in enumerate(sub_jobs(decision.job)):
        was = sub_job(before.job, at) if before else None
        left = STATE_TEXT[was.schema_state] if was and was.begun else _origin(sub)
        if sub.begun and (was is None or sub.schema_state != was.schema_state):
            yield f"{sub.action_text}: {left} -> {STATE_TEXT[sub.schema_state]}"


def _left(ranges: tuple[DeleteRange, ...]) -> str:
    if not ranges:
        return ""
    what = "tombstones to purge" if ranges[0].tombstones_only else "to empty"
    return f"{len(ranges)} range(s) {what}"


def _origin(job: Job) -> str:
    """Where the first step came from: elements that stood were public."""
    return STATE_TEXT[action_of(job).path[0].source]
