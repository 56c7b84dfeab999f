"""EXPLAIN of a schema change: the steps it would take now, from the same decisions in memory.

Reads one snapshot and writes nothing.

    add index d.t
      1  none -> delete only                     version +1
      2  delete only -> write only               version +1
      3  write only -> write reorganization      reorg begins, version +1
      4  write reorganization -> public          reorg ends, version +1, event add index
      5  into history: synced

    work     each reorg of its steps, with estimated rows and bytes, and its stages (dataflow.py)
    pace     the speed of such jobs in history, and the error of this estimate for each of them
    waits    older jobs, workers, open transactions that wrote the table
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from statistics import median
from typing import NamedTuple

from exuvia.base.limits import EXCHANGED_ROWS
from exuvia.catalog import meta
from exuvia.catalog.model import STATE_TEXT, IndexInfo, TableInfo, evolve
from exuvia.catalog.sysvar import variables
from exuvia.cluster.versions import MetadataLocks
from exuvia.ddl import apply, queue, two_queues
from exuvia.ddl.actions import action_of, is_reorg, kind_of
from exuvia.ddl.dataflow import (
    ENTRY_BYTES,
    KEY_COLUMN_BYTES,
    ReorgRows,
    StageEstimate,
    bytes_written,
    engine_of,
    entry_bytes,
    stages_of,
)
from exuvia.ddl.decision import Decision
from exuvia.ddl.delete_ranges import DeleteRange
from exuvia.ddl.effects import Notify, OrderReorg, ReorgOrder, of_kind
from exuvia.ddl.job import JOB_STATE_TEXT, Job, JobState, table_ids, timestamp_text
from exuvia.ddl.kept import Kept
from exuvia.ddl.multi_schema_change import is_several, sub_job, sub_jobs
from exuvia.ddl.ready import Policy, ReadySet
from exuvia.ddl.snapshot import CatalogSnapshot
from exuvia.ddl.state_machine import decide, next_in_memory
from exuvia.ddl.two_queues import TwoQueues
from exuvia.kv import keys
from exuvia.kv.store import Store
from exuvia.kv.transaction import Transaction
from exuvia.pipeline.reorg import COMPARE, Phase

_REORG_TEXT = {ReorgOrder.START: "reorg begins", ReorgOrder.LEAVE: "reorg ends"}


def decisions(
    job: Job, snapshot: CatalogSnapshot, runs: list[Decision] | None = None
) -> Iterator[Decision]:
    """Every step until history, as if each reorg succeeded. Raises Broken for a bad action.

    Decisions that would run a reorg are appended to `runs`.
    """
    while True:
        decision = decide(job, snapshot)
        if decision.to_run is not None:
            if runs is not None:
                runs.append(decision)
            snapshot = evolve(snapshot, reorg=snapshot.reorg._replace(filled=True))
            continue
        yield decision
        if decision.archives or not decision.commits:
            return
        job, snapshot = decision.job, next_in_memory(decision)


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
        line = walk if decision.archives else f"{walk:<39} {text}"
        lines.append(f"  {number}  {line}".rstrip())
        before = decision
    return lines


def step_text(before: Decision | None, decision: Decision) -> str:
    """One step in words, without columns."""
    return ", ".join(filter(None, _parts(before, decision)))


def _parts(before: Decision | None, decision: Decision) -> list[str]:
    """The state change, then each effect of the step; an end is one part."""
    if decision.archives:
        error = f", {decision.job.err.message}" if decision.job.err else ""
        return [f"into history: {JOB_STATE_TEXT[decision.job.state]}{error}"]
    version = "version +1" if decision.moves else ""
    if decision.barrier:
        version = "no version, older writers are waited for"
    ranges = of_kind(decision.effects, DeleteRange)
    purged = sum(delete_range.tombstones_only for delete_range in ranges)
    emptied = len(ranges) - purged
    left = f"{emptied} range(s) to empty" if emptied else ""
    if purged:
        left += f"{', ' if left else ''}{purged} range(s) tombstones to purge"
    notified = of_kind(decision.effects, Notify)[:1]
    events = [f"event {event.type}" for event, sub_job in notified if sub_job is None]
    orders = [_REORG_TEXT.get(effect.order, "") for effect in of_kind(decision.effects, OrderReorg)]
    walks = "; ".join(_walks(before, decision))
    return [walks, *orders, version, left, *events]


def _walks(before: Decision | None, decision: Decision) -> Iterator[str]:
    """The change of state; with several sub-jobs, one text for each that moves."""
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
    """The state before the first step: existing elements were public."""
    return STATE_TEXT[action_of(job).path[0].source]


# -- work ------------------------------------------------------------------------------------------

SAMPLE_ROWS = 100
JOBS_LOOKED_AT = 200
ASSUMED_ROWS_A_SECOND = 60_000.0
_STAMP_MS_SHIFT = 18

Elsewhere = Callable[[Mapping[int, int]], Iterable[str]]


class Work(NamedTuple):
    """A reorg to run: its purpose, its size, and its dataflow on one engine."""

    what: str
    rows: int
    bytes_read: int
    bytes_written: int
    engine: str
    stages: tuple[StageEstimate, ...]


class FillRate(NamedTuple):
    """Rows a second of `jobs` finished jobs. `error`: the estimate's median relative error for
    them."""

    rows_a_second: float
    jobs: int
    error: float

    def describe(self, rows: int) -> str:
        """The expected time for this number of rows, with the basis of the estimate."""
        text = f"expected {rows / self.rows_a_second:.1f} s at {self.rows_a_second:.0f} rows/s"
        if not self.jobs:
            return f"{text}, assumed: no such job has finished yet"
        return f"{text}, as {self.jobs} finished job(s), +-{100 * self.error:.0f} %"


def work_of(store: Store, txn: Transaction, run: Decision) -> Work | None:
    """The work of the decision's reorg, or None if it runs none."""
    table, database, reorg = run.after.table, run.after.database, run.to_run
    if table is None or database is None or reorg is None:
        return None
    size, counts = 0, list[int]()
    for physical_id in reorg.over or table.physical_ids:
        span = keys.span_of(keys.row_prefix(physical_id))
        first, raws = next(iter(txn.snapshot.chunks(span, SAMPLE_ROWS)), ([], []))
        row_bytes = sum(map(len, [*first, *raws])) / max(len(first), 1)  # keys included
        counts.append(store.count(span))
        size += round(counts[-1] * row_bytes)
    rows, largest = sum(counts), max(counts, default=0)
    phases = (*reorg.phases, *reorg.whole)
    words = dict.fromkeys(_phase_words(phase, table) for phase in phases)
    written = sum(bytes_written(phase, table, rows, size) for phase in phases)
    what = ", ".join(filter(None, words))
    span_rows = variables.read_int(txn, "exuvia_ddl_reorg_span_rows")
    if store.folder is not None:
        spilled = sum(_spilled(phase, table, rows, largest, size, span_rows) for phase in phases)
        if spilled:
            what += f" through sorted runs on disk, about {spilled} bytes"
    subject = ReorgRows(table, database, tuple(counts), size, store.folder is not None)
    engine, at_once = engine_of(txn, subject, reorg)
    stages = tuple(stages_of(txn, subject, reorg, at_once))
    return Work(what, rows, size, written, engine, stages)


def _spilled(
    phase: Phase, table: TableInfo, rows: int, largest: int, size: int, span_rows: int
) -> int:
    """Estimated bytes of a phase's sorted runs on disk. `rows`, `size`: those of all rows;
    `largest`: rows of the largest partition, which is filled alone."""
    if phase.kernel == "fill" and largest > max(EXCHANGED_ROWS, span_rows):
        return entry_bytes(table, phase.index_ids, largest)
    copied = tuple(index.id for index in table.indexes if not index.exuvia_clustered)
    if phase.kernel == "rekey" and rows > EXCHANGED_ROWS:
        return size + entry_bytes(table, copied, rows)
    is_move = phase.kernel in ("move", "move to ids")
    if is_move and rows > max(EXCHANGED_ROWS, span_rows // max(1, len(copied))):
        return entry_bytes(table, copied, rows)
    return 0


def _phase_words(phase: Phase, table: TableInfo) -> str:
    """The purpose of a phase; "" if it only verifies another."""
    match phase.kernel:
        case "fill":
            filled = [index for index in table.indexes if index.id in phase.index_ids]
            names = [
                f"{_client_name(i, table)}{' (unique)' if i.is_unique else ''}" for i in filled
            ]
            return f"fill and verify index {', '.join(names)}"
        case "rewrite" | "check column":
            column = next((column.name.O for column in table.cols if column.id == phase.column), "")
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


def _client_name(index: IndexInfo, table: TableInfo) -> str:
    """The name of an index for clients.

    A hidden index paired with a global one has that one's name; a guard index has the primary
    key's.
    """
    rekey = table.exuvia_rekey
    if rekey is not None and index.id in (rekey.guard, rekey.key_guard):
        return "PRIMARY"
    cut = table.partition
    other = table.index_by_id(cut.paired_with(index.id)) if cut is not None else None
    return (other or index).idx_name.O


# -- what a change that is kept costs -------------------------------------------------------------


def cost_of_undo(store: Store, txn: Transaction, retained: Kept, table: TableInfo | None) -> str:
    """The cost of retained data until its retention ends, and the cost of UNDO."""
    assert table is not None
    spans = [keys.span_of(keys.row_prefix(physical_id)) for physical_id in table.physical_ids]
    rows = sum(map(store.count, spans))
    if retained.kind == "table":
        return (
            f"{rows} row(s) and their index entries stay until {timestamp_text(retained.until)}, no"
            " extra write meanwhile; UNDO adds the rows written since then, and reads all to"
            " compare"
        )
    if retained.kind == "key":
        return (
            f"no extra write meanwhile; UNDO moves {rows} row(s) to the handles of the former key"
        )
    if retained.definition is not None:
        return f"no extra write meanwhile; UNDO backfills the index again from {rows} row(s)"
    if retained.is_definition:
        return f"no extra write meanwhile; UNDO changes the column back, and may read {rows} row(s)"
    until = f"until {timestamp_text(retained.until)}"
    if retained.kind == "modify":
        return (
            f"every row written also keeps the former value {until}, unless the new value"
            f" is changed; UNDO writes {rows} row(s): it restores former values that are still"
            " there, and converts new ones"
        )
    indexes = [index for index in table.indexes if index.id in dict(retained.index_names)]
    entry = sum(ENTRY_BYTES + KEY_COLUMN_BYTES * len(index.idx_cols) for index in indexes)
    if retained.kind == "index":
        return (
            f"writes still maintain the index (about {entry} bytes an entry, {rows * entry} in all)"
            f" {until}; UNDO reads {rows} row(s) to compare"
        )
    index_text = f", and {len(indexes)} index(es) on it alone" if indexes else ""
    reads = f"reads {rows} row(s) to compare" if indexes else "touches no row"
    return (
        f"every row written keeps the column{index_text} {until}; rows inserted meanwhile get"
        f" its constant default, else NULL or zero; UNDO {reads}"
    )


# -- pace ------------------------------------------------------------------------------------------


def pace_of(txn: Transaction, example: Job) -> FillRate:
    """The speed of finished jobs like this one."""
    speeds = [speed for job in queue.newest(txn, JOBS_LOOKED_AT) if (speed := _speed(job, example))]
    if not speeds:
        return FillRate(ASSUMED_ROWS_A_SECOND, 0, 0.0)
    errors = [abs(_guess(speeds, n) - speed) / speed for n, speed in enumerate(speeds)]
    return FillRate(median(speeds), len(speeds), median(errors))


def _guess(speeds: list[float], n: int) -> float:
    """The estimate for one job from the others."""
    others = speeds[:n] + speeds[n + 1 :]
    return median(others) if others else ASSUMED_ROWS_A_SECOND


def _manner(job: Job) -> object:
    manner = kind_of(job).manner
    return manner(job) if manner and job.raw_args else None


def _speed(job: Job, example: Job) -> float:
    took_ms = (job.binlog.FinishedTS >> _STAMP_MS_SHIFT) - (job.real_start_ts >> _STAMP_MS_SHIFT)
    is_similar = job.type == example.type and _manner(job) == _manner(example)
    if not is_similar or job.state != JobState.SYNCED or not job.row_count or took_ms <= 0:
        return 0.0
    return 1000 * job.row_count / took_ms


# -- waits -----------------------------------------------------------------------------------------


def waits_of(
    txn: Transaction, job: Job, locks: MetadataLocks, elsewhere: Elsewhere
) -> Iterator[str]:
    """The reasons for which the job would wait if it were submitted now.

    `locks` are those of this front; `elsewhere` returns the reasons of all others, by table and
    revision.
    """
    unfinished = queue.unfinished(txn)
    policy: Policy = TwoQueues() if two_queues.in_use(txn) else ReadySet()
    for queued in (*unfinished, job):
        policy.add(queued)
    blocker = policy.blocker(job.id)
    if blocker:
        older = policy.job(blocker)
        place = f"{older.schema_name}.{older.table_name}".rstrip(".")
        yield f"job {blocker} ({older.action_text} {place})"
    reorg = is_reorg(job)
    kind = "reorg" if reorg else "general"
    variable = f"exuvia_ddl_{kind}_workers"
    workers = min(variables.read_int(txn, variable), policy.most_workers)
    busy = sum(
        queued.state == JobState.RUNNING and is_reorg(queued) == reorg for queued in unfinished
    )
    if busy >= workers:
        yield f"{kind} worker ({busy} of {workers} busy)"
    tables = {table_id: meta.revision(txn, table_id) + 1 for table_id in table_ids(job)}
    for table_id, newest in tables.items():
        for hold in locks.blockers(table_id, newest):
            yield f"open transaction of connection {hold.session}: {hold.about}"
    yield from elsewhere(tables)


def refusals_of(job: Job) -> list[str]:
    """The names of the rules that may refuse it at its first step, as text."""
    rules = (rule.__name__ for sub in sub_jobs(job) for rule in action_of(sub).refuses)
    return [text.strip("_").replace("_", " ") for text in dict.fromkeys(rules)]
