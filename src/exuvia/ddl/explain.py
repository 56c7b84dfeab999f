"""What a schema change would do, and meet, if it were asked for now: the same decisions, in memory.
Reads one snapshot, writes nothing.

    add index d.t
      1  none -> delete only                     version +1
      2  delete only -> write only               version +1
      3  write only -> write reorganization      reorg begins, version +1
      4  write reorganization -> public          reorg ends, version +1, event add index
      5  into history: synced

    work     each reorg its steps would run: of how many rows and bytes (estimates)
    pace     how fast such jobs were, by history, and how far the same guess was off for each
    waits    older jobs, workers, open transactions that wrote the table
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from statistics import median
from typing import NamedTuple

from exuvia.catalog import meta
from exuvia.catalog.model import STATE_TEXT, IndexInfo, TableInfo, evolve
from exuvia.catalog.sysvar import variables
from exuvia.cluster.versions import MetadataLocks
from exuvia.ddl import apply, queue, two_queues
from exuvia.ddl.actions import action_of, is_reorg, kind_of
from exuvia.ddl.decision import CatalogSnapshot, Decision, Kept, ReorgOrder
from exuvia.ddl.job import JOB_STATE_TEXT, Job, JobState, table_ids, timestamp_text
from exuvia.ddl.multi_schema_change import is_several, sub_job, sub_jobs
from exuvia.ddl.ready import Policy, ReadySet
from exuvia.ddl.state_machine import decide
from exuvia.ddl.two_queues import TwoQueues
from exuvia.kv import keys
from exuvia.kv.store import Store
from exuvia.kv.transaction import Transaction
from exuvia.pipeline.reorg import COMPARE, Phase, Reorg

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


def suppose(txn: Transaction, jobs: list[Job], now: int) -> bool:
    """Apply the jobs to the catalog in a transaction that must never commit.

    Returns False and changes nothing if a job is refused, or if it rewrites rows: the present rows
    could not judge later jobs. `now` is a job's timestamp."""
    for job in queue.numbered(txn, jobs, now):
        runs: list[Decision] = []
        steps = list(decisions(job, apply.read_snapshot(txn, job, now), runs))
        if steps[-1].job.state != JobState.SYNCED or any(map(_writes_rows, runs)):
            return False
        for step in steps:
            apply.suppose(txn, step)
    return True


def _writes_rows(run: Decision) -> bool:
    phases = () if run.to_run is None else (*run.to_run.phases, *run.to_run.whole)
    return any(not phase.kernel.startswith(_LEAVE_ROWS) for phase in phases)


_LEAVE_ROWS = ("fill", "clean", "check", "verify", COMPARE)


def explain(job: Job, snapshot: CatalogSnapshot) -> list[str]:
    """The lines of EXPLAIN for a schema change; a refused one has its error as the only step."""
    place = ".".join(name for name in (job.schema_name, job.table_name) if name)
    lines = [f"{job.action_text} {place}"]
    before = None
    for number, decision in enumerate(decisions(job, evolve(snapshot, now=1)), 1):
        walk, *effects = _parts(before, decision)
        text = ", ".join(filter(None, effects))
        line = walk if decision.archive else f"{walk:<39} {text}"
        lines.append(f"  {number}  {line}".rstrip())
        before = decision
    return lines


def step_text(before: Decision | None, decision: Decision) -> str:
    """One step in words, without columns."""
    return ", ".join(filter(None, _parts(before, decision)))


def _parts(before: Decision | None, decision: Decision) -> list[str]:
    """From where to where, and each effect; an end is one part."""
    if decision.archive:
        error = f", {decision.job.err.message}" if decision.job.err else ""
        return [f"into history: {JOB_STATE_TEXT[decision.job.state]}{error}"]
    version = "version +1" if decision.moves else ""
    if decision.barrier:
        version = "no version, older writers are waited for"
    purged = sum(each.tombstones_only for each in decision.ranges)
    emptied = len(decision.ranges) - purged
    left = f"{emptied} range(s) to empty" if emptied else ""
    if purged:
        left += f"{', ' if left else ''}{purged} range(s) tombstones to purge"
    events = [f"event {event.type}" for event in decision.events[:1]]
    walks = "; ".join(_walks(before, decision))
    return [walks, _REORG_TEXT.get(decision.reorg, ""), version, left, *events]


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


def _origin(job: Job) -> str:
    """Where the first step came from: elements that stood were public."""
    return STATE_TEXT[action_of(job).path[0].source]


# -- work ------------------------------------------------------------------------------------------

SAMPLE_ROWS = 100
JOBS_LOOKED_AT = 200
ASSUMED_ROWS_A_SECOND = 60_000.0
ENTRY_BYTES = 14 + 8 + 8  # prefix, handle, commit sequence; each column of the key comes to it
KEY_COLUMN_BYTES = 9
_STAMP_MS_SHIFT = 18

Elsewhere = Callable[[Mapping[int, int]], Iterable[str]]


class Work(NamedTuple):
    """A reorg to be run: what it does, to how much."""

    what: str
    rows: int
    bytes_read: int
    bytes_written: int
    reorg: Reorg


class FillRate(NamedTuple):
    """Rows a second, from `jobs` finished ones; `error`: the median share it was off for them."""

    rows_a_second: float
    jobs: int
    error: float

    def tell(self, rows: int) -> str:
        """The expected time of so many rows, and what that is worth."""
        text = f"expected {rows / self.rows_a_second:.1f} s at {self.rows_a_second:.0f} rows/s"
        if not self.jobs:
            return f"{text}, assumed: no such job has finished yet"
        return f"{text}, as {self.jobs} finished job(s), +-{100 * self.error:.0f} %"


def work_of(store: Store, txn: Transaction, run: Decision) -> Work | None:
    """What the reorg of that decision would do."""
    table, reorg = run.after.table, run.to_run
    if table is None or reorg is None:
        return None
    rows = size = 0
    for physical_id in reorg.over or table.physical_ids:
        span = keys.span_of(keys.row_prefix(physical_id))
        first, raws = next(iter(txn.snapshot.chunks(span, SAMPLE_ROWS)), ([], []))
        row_bytes = sum(map(len, [*first, *raws])) / max(len(first), 1)  # with its key
        count = store.count(span)
        rows += count
        size += round(count * row_bytes)
    phases = (*reorg.phases, *reorg.whole)
    words = dict.fromkeys(_phase_words(phase, table) for phase in phases)
    written = sum(_written(phase, table, rows, size) for phase in phases)
    return Work(", ".join(filter(None, words)), rows, size, written, reorg)


def _written(phase: Phase, table: TableInfo, rows: int, size: int) -> int:
    """Bytes; `size`: of all rows."""
    if phase.element is None or phase.kernel == "clean":
        return 0
    if not phase.index_ids or phase.changing:  # entries are counted with the fill behind it
        return size
    widths = [len(index.idx_cols) for index in table.indexes if index.id in phase.index_ids]
    return rows * sum(ENTRY_BYTES + KEY_COLUMN_BYTES * width for width in widths)


def _phase_words(phase: Phase, table: TableInfo) -> str:
    """What it does; nothing of a phase that only verifies another."""
    match phase.kernel:
        case "fill":
            filled = [index for index in table.indexes if index.id in phase.index_ids]
            names = [f"{_shown(i, table)}{' (unique)' if i.is_unique else ''}" for i in filled]
            return f"fill and verify index {', '.join(names)}"
        case "rewrite" | "check column":
            column = next((each.name.O for each in table.cols if each.id == phase.column), "")
            return f"{'rewrite' if phase.element else 'check'} column {column}"
        case "check rows" if phase.rule is not None and phase.rule.kind != "exchange":
            return f"check rows against the {phase.rule.kind}"
        case "check rows" | "check fits":
            return "check rows against the partition"
        case "clean":
            names = [index.idx_name.O for index in table.indexes if index.id in phase.index_ids]
            return f"remove entries of {len(phase.over)} partition(s) from {', '.join(names)}"
        case "import" if phase.source is not None:
            return f"import {len(phase.source.files)} file(s)"
        case "check apart":
            return "check rows against those that come back"
        case "rekey":
            return "move rows to another primary key"
        case "move to ids":
            return "move rows to hidden row ids"
        case "move":
            return f"move rows of {len(phase.sources)} to {len(phase.targets)} partition(s)"
    return ""


def _shown(index: IndexInfo, table: TableInfo) -> str:
    """Its name; of a hidden one beside a global one that of the other; the guard's is the key's."""
    rekey = table.exuvia_rekey
    if rekey is not None and index.id in (rekey.guard, rekey.key_guard):
        return "PRIMARY"
    cut = table.partition
    other = table.index_by_id(cut.paired_with(index.id)) if cut is not None else None
    return (other or index).idx_name.O


def runner(txn: Transaction, work: Work) -> str:
    """Where the reorg would run."""
    setting = variables.read_int(txn, "exuvia_pipeline_inline_rows")
    return "inline" if work.rows <= work.reorg.inline_rows(setting) else "spark"


# -- what a change that is kept costs -------------------------------------------------------------


def cost_of_undo(store: Store, txn: Transaction, kept: Kept, table: TableInfo | None) -> str:
    """What a kept change costs until its time is over, and what UNDO would."""
    assert table is not None
    spans = [keys.span_of(keys.row_prefix(each)) for each in table.physical_ids]
    rows = sum(map(store.count, spans))
    if kept.kind == "table":
        return (
            f"{rows} row(s) and their index entries stay until {timestamp_text(kept.until)}, no"
            " write meanwhile; UNDO copies the rows written since beside them, and reads all to"
            " compare"
        )
    if kept.kind == "key":
        return f"no write meanwhile; UNDO moves {rows} row(s) to the handles of the former key"
    if kept.definition is not None:
        return f"no write meanwhile; UNDO fills the index anew from {rows} row(s)"
    if kept.is_definition:
        return f"no write meanwhile; UNDO changes the column back, and may read {rows} row(s)"
    until = f"until {timestamp_text(kept.until)}"
    if kept.kind == "modify":
        return (
            f"every row written goes on holding the former value {until}, and none once the new one"
            f" is changed; UNDO writes {rows} row(s), and takes back what still has its former"
            " value, or can be converted"
        )
    indexes = [index for index in table.indexes if index.id in dict(kept.index_names)]
    entry = sum(ENTRY_BYTES + KEY_COLUMN_BYTES * len(index.idx_cols) for index in indexes)
    if kept.kind == "index":
        return (
            f"writes go on keeping the index (about {entry} bytes an entry, {rows * entry} in all)"
            f" {until}; UNDO reads {rows} row(s) to compare"
        )
    beside = f", and {len(indexes)} index(es) on it alone" if indexes else ""
    reads = f"reads {rows} row(s) to compare" if indexes else "touches no row"
    return (
        f"every row written goes on holding the column{beside} {until}; rows inserted meanwhile get"
        f" its constant default, else NULL or zero; UNDO {reads}"
    )


# -- pace ------------------------------------------------------------------------------------------


def pace_of(txn: Transaction, asked: Job) -> FillRate:
    """How fast jobs like that one were."""
    speeds = [speed for job in queue.newest(txn, JOBS_LOOKED_AT) if (speed := _speed(job, asked))]
    if not speeds:
        return FillRate(ASSUMED_ROWS_A_SECOND, 0, 0.0)
    errors = [abs(_guess(speeds, n) - each) / each for n, each in enumerate(speeds)]
    return FillRate(median(speeds), len(speeds), median(errors))


def _guess(speeds: list[float], n: int) -> float:
    """What the others would have said of one."""
    others = speeds[:n] + speeds[n + 1 :]
    return median(others) if others else ASSUMED_ROWS_A_SECOND


def _manner(job: Job) -> object:
    manner = kind_of(job).manner
    return manner(job) if manner and job.raw_args else None


def _speed(job: Job, asked: Job) -> float:
    took_ms = (job.binlog.FinishedTS >> _STAMP_MS_SHIFT) - (job.real_start_ts >> _STAMP_MS_SHIFT)
    alike = job.type == asked.type and _manner(job) == _manner(asked)
    if not alike or job.state != JobState.SYNCED or not job.row_count or took_ms <= 0:
        return 0.0
    return 1000 * job.row_count / took_ms


# -- waits -----------------------------------------------------------------------------------------


def waits_of(
    txn: Transaction, job: Job, locks: MetadataLocks, elsewhere: Elsewhere
) -> Iterator[str]:
    """For what the job, submitted now, would have to wait. `locks`: those of the asked front;
    `elsewhere` asks all others, by table and revision."""
    unfinished = queue.unfinished(txn)
    policy: Policy = TwoQueues() if two_queues.in_use(txn) else ReadySet()
    for each in (*unfinished, job):
        policy.add(each)
    blocker = policy.blocker(job.id)
    if blocker:
        older = policy.job(blocker)
        place = f"{older.schema_name}.{older.table_name}".rstrip(".")
        yield f"job {blocker} ({older.action_text} {place})"
    reorg = is_reorg(job)
    kind = "reorg" if reorg else "general"
    variable = f"exuvia_ddl_{kind}_workers"
    workers = min(variables.read_int(txn, variable), policy.most_workers)
    busy = sum(each.state == JobState.RUNNING and is_reorg(each) == reorg for each in unfinished)
    if busy >= workers:
        yield f"{kind} worker ({busy} of {workers} busy)"
    tables = {each: meta.revision(txn, each) + 1 for each in table_ids(job)}
    for table_id, newest in tables.items():
        for hold in locks.blockers(table_id, newest):
            yield f"open transaction of connection {hold.session}: {hold.about}"
    yield from elsewhere(tables)


def refusals_of(job: Job) -> list[str]:
    """What would refuse it at its first step, in the words of the rules."""
    rules = (rule.__name__ for sub in sub_jobs(job) for rule in action_of(sub).refuses)
    return [text.strip("_").replace("_", " ") for text in dict.fromkeys(rules)]
