"""Runs a reorg's phases (reorg.py) in this process or on Spark. A job's worker steps it.

    the table, or one partition after another           a partition that an earlier driver finished,
      each of the reorg's phases in order               including verification, is skipped
        writes    spans finished before  <- mysql.tidb_ddl_reorg
                  loop   missing spans, cut again -> a wave of tasks -> outcomes
        large fill  the same through sorted runs on disk (kernels/exchange.py):
                  loop   unread spans -> a wave of spills, or missing key ranges -> a wave of merges
        large rewrite  its tasks spill the entries; the fill that follows merges them
        imports   the same with units of files; then the id counters, and a count of all rows
        reads     all spans -> one wave of tasks -> outcomes combined -> a refusal, or none
        compare   verification's waves -> faults, or none
      statistics of the filled indexes, and the mark of a finished partition
    -> Done

The engine is chosen by the size of the work (engine.py). Here a step runs one transaction; on Spark
it only polls. The runner is a generator that can
be restarted at any time. Finished spans are in the store; the runner only remembers the current
phase.
"""

import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace

from exuvia.base.errors import Broken, Conflict, Deposed, Refused, Unavailable
from exuvia.base.limits import COLD_INLINE
from exuvia.base.mysql_errors import ErrDupEntry, ErrLoadDataPreCheckFailed
from exuvia.catalog.table import Table
from exuvia.kv import keys
from exuvia.kv.packet import Span
from exuvia.kv.store import Store
from exuvia.kv.transaction import Transaction
from exuvia.pipeline import checkpoint, source_files, task
from exuvia.pipeline.checkpoint import cut
from exuvia.pipeline.engine import Workload, least_tasks
from exuvia.pipeline.executor import Executor, Others
from exuvia.pipeline.kernels import exchange, move, rekey, rewrite
from exuvia.pipeline.kernels.entries import LEAST_SPAN_ROWS, run_rows
from exuvia.pipeline.kernels.exchange import Exchange
from exuvia.pipeline.kernels.spilled_runs import require_room
from exuvia.pipeline.kernels.summary import LEAST_ROWS, Gathered, Keep, MergedSummary
from exuvia.pipeline.measures import cost_of
from exuvia.pipeline.reorg import (
    COMPARE,
    NOT_EMPTY,
    Done,
    Duplicates,
    Failed,
    ImportSource,
    Phase,
    Progress,
    Reorg,
    Running,
    Waiting,
)
from exuvia.pipeline.settings import ALONE_S, Dial, Variables
from exuvia.pipeline.spark import Spark
from exuvia.pipeline.task import (
    MOST_DUPLICATES,
    Outcome,
    Task,
    TaskCost,
    TaskOrder,
    all_parts,
    order_for,
)
from exuvia.pipeline.throttle import NiceStore, ShareController
from exuvia.pipeline.verify import rules
from exuvia.pipeline.verify.compare import sample, verification
from exuvia.pipeline.verify.judge import duplicates_refusal
from exuvia.pipeline.worker_process import WorkerProcess

WAVE_TASKS = 64
_SPILLS = 8  # spills of each core in one wave; if Spark loses a wave, all its tasks are repeated
_EXCHANGED = frozenset({"fill", "move", "rekey", "move to ids"})
_WHOLE_ROWS = 4
"""Divisor of a span's rows where tasks sort copies: whole rows, or entries with their sources."""
PACED_ROWS = 10_000  # fewer rows are finished before clients could notice
_SAMPLED_ROWS = 100
_RETRY_S = ROOM_S = 1.0
_COUNT_S = 0.05

Walk = Generator[Progress, None, None]
PhaseResult = Generator[Progress, None, Progress | None]
"""One part of the run: returns the progress that ends the reorg, or None to continue."""

REFUSALS: dict[str, Callable[[Store, TaskOrder, list[Outcome]], Refused | None]] = {
    "check rows": rules.refusal_of,
    "check column": rewrite.refusal_of,
    "verify column": lambda store, order, outcomes: None,  # its tasks raise the refusal
    "renumber": lambda store, order, outcomes: None,  # never refuses
    "check moved": move.fault_of,
    "check rekeyed": rekey.fault_of,
    "check fits": lambda store, order, outcomes: None,  # its tasks raise the refusal
    "check apart": lambda store, order, outcomes: None,  # its tasks raise the refusal
}
"""The refusal that follows from the outcomes of a phase without checkpoint."""


Keeping = Callable[[list[Outcome]], list[Outcome]]
"""Receives the outcomes of a wave, and returns those to continue with."""
_ALL: Keeping = list


class Stage(NamedTuple):
    """A table or partition that goes through its phases. `is_part`: one of several partitions."""

    table: Table
    is_part: bool
    phases: tuple[Phase, ...]


class RowsOf(NamedTuple):
    """Rows of one physical table, and the order of their tasks."""

    order: TaskOrder
    span: Span
    rows: int


def stages_of(reorg: Reorg, table: Table) -> tuple[Stage, ...]:
    """Returns a stage per partition if the reorg is done by partition, otherwise one stage."""
    if reorg.by_partition and table.is_partitioned:
        return tuple(Stage(part, True, reorg.phases) for part in table.parts)
    return (Stage(table, False, reorg.phases),)


def whole_stage(reorg: Reorg, table: Table) -> tuple[Stage, ...]:
    """Returns the stage that follows for all partitions together, if any."""
    table = _switched(table) if reorg.switched else table
    return (Stage(table, False, reorg.whole),) if reorg.whole else ()


def order_of(base: TaskOrder, phase: Phase) -> TaskOrder:
    """Returns the order of a phase's tasks. `base`: the job, its epoch, the table."""
    return replace(
        base,
        element=phase.element,
        index_ids=phase.index_ids,
        changing=phase.changing,
        router=phase.router,
        sources=phase.sources,
        rule=phase.rule,
        source=phase.source,
    )


def _under(table: Table, physical_id: int) -> Table:
    """Returns the table with its rows under another id, as it will be after the reorg."""
    info = replace(table.info, exuvia_physical=physical_id)
    facts = table.revision, table.database, table.database_revision, table.evaluator
    return Table(info, *facts)


def _switched(table: Table) -> Table:
    """Returns the table with its new set of partitions or rows, as readers will see it."""
    if table.info.exuvia_rekey is not None:
        return table.rekeyed
    cut = table.info.partition
    if cut is None:
        raise Broken("a table without partitions has no other set of them")
    facts = table.revision, table.database, table.database_revision, table.evaluator
    return Table(replace(table.info, partition=cut.switched), *facts)


class PhaseRunner:
    """Runs one reorg. One thread steps it.

    spark        None to run in this process only
    judge        name of the compiler of rules, see verify/rules.py
    keep         receives new indexes' statistics
    rows_came    receives the number of imported rows
    others       nodes that may run tasks
    worker       a process that may run tasks
    """

    def __init__(
        self,
        store: Store,
        job_id: int,
        epoch: int,
        table: Table,
        reorg: Reorg,
        spark: Spark | None = None,
        judge: str = "",
        keep: Keep | None = None,
        rows_came: Callable[[Table, int], None] | None = None,
        dial: Dial | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        others: Others | None = None,
        worker: WorkerProcess | None = None,
    ) -> None:
        self._store = store = NiceStore(store)
        self._replaced = table.info.physical_ids
        self._table = table = _under(table, reorg.under) if reorg.under else table
        self._reorg = reorg
        self._keep = keep
        self._rows_came = rows_came
        self._base = replace(order_for(table, (), job_id, epoch), judge=judge)
        self._dial = dial or Variables(store, monotonic, job_id=job_id)
        self._executor = Executor(store, spark, self._dial, monotonic, others, worker)
        self._controller: ShareController | None = None
        self._parts = stages_of(reorg, table)
        self._stages = (*self._parts, *whole_stage(reorg, table))
        self._merged = MergedSummary()
        self._gathered: Gathered | None = None
        self._stage = self._phase = 0  # the current ones
        self._finished: int | None = None  # finished spans of the current phase; None: not read yet
        self._earlier = Done(0)  # sum of the earlier stages
        self._rows = 0
        self._imported: int | None = None
        self._total = 0  # rows of the current phase
        self._table_rows = 0
        self._counts: dict[int, int] = {}  # by physical id; cached because a count reads many keys
        self._rate = Rate()
        self._cost = TaskCost()  # sum over ended waves of the phase
        self._now = 0.0
        self._counted_at = -_COUNT_S
        self._again_at = self._room_at = 0.0
        self._reason = ""
        self._separate_snapshots = False  # whether each task of a comparison opens its own snapshot
        self._ended: Progress | None = None
        self._exchange: Exchange | None = None  # kept while the walk is restarted after an error
        self._walk = self._walk_stages()
        self.spans_done = 0
        self.spans_skipped = 0
        self._spans_ended = 0  # in the running wave
        self.order = self._order(reorg.phases[0])

    def step(self, now: float) -> Progress:
        """Makes some progress. Raises Deposed."""
        self._now = now
        if self._ended is not None:
            return self._ended
        if now < self._again_at:
            return Waiting(self._reason, self._rows_done, self._again_at - now)
        try:
            with self._store.niced():
                return self._step(now)
        except Deposed:
            self.stop()
            raise

    def _step(self, now: float) -> Progress:
        try:
            if now >= self._room_at:
                self._room_at = now + ROOM_S
                require_room(self._store, self._dial)
            if self._controller is not None:
                self._controller.step(now, not self._current_phase.writes)
            reached = next(self._walk)
        except (Unavailable, Conflict) as error:
            self._separate_snapshots = True  # perhaps a snapshot was open for too long
            self._restart()
            self._check_epoch()  # the error may be an effect of a lost epoch
            self._reason, self._again_at = str(error), self._now + _RETRY_S
            return Waiting(self._reason, self._rows_done, _RETRY_S)
        except Refused as error:
            reached = Failed(error)
        if isinstance(reached, (Done, Duplicates, Failed)):
            self._ended = reached
            self._drop_exchange()
        return reached

    def stop(self) -> None:
        """Stops all tasks and removes spilled runs. A later step continues from the checkpoint."""
        self._restart()
        self._drop_exchange()

    def _restart(self) -> None:
        self._executor.cancel()
        self._walk.close()
        self._walk = self._walk_stages()

    def _check_epoch(self) -> None:
        """Raises Deposed. Without this check, a phase that only reads would wait for ever."""
        with self._store.read() as txn:
            if any(txn.get(key) != payload for key, payload in self._base.fences):
                raise Deposed("the reorg was left")

    @property
    def kernel(self) -> str:
        """The kernel of the current phase, or of the last one."""
        return self._current_phase.kernel

    @property
    def _current_phase(self) -> Phase:
        phases = self._stages[min(self._stage, len(self._stages) - 1)].phases
        return phases[min(self._phase, len(phases) - 1)]

    # -- stages and phases -------------------------------------------------------------------------

    def _walk_stages(self) -> Walk:
        self._check_epoch()
        settings = self._dial.read()
        physical = self._reorg.over or self._table.info.physical_ids
        self._counts.clear()
        self._table_rows = sum(map(self._count_of, physical))
        for phase in self._reorg.phases:
            if phase.source is not None:
                self._table_rows = max(self._table_rows, source_files.about(phase.source))
        self._executor.choose(self._work(physical, settings.inline_rows))
        if self._table_rows >= PACED_ROWS and self._controller is None:
            self._controller = ShareController(self._store, self._base)
            # nodes that lower their priority for a reorg are notified before it reads
            self._controller.step(self._now, not self._current_phase.writes)
        while self._stage < len(self._stages):
            stage = self._stages[self._stage]
            done = self._done_before(stage)
            if done is None:
                while self._phase < len(stage.phases):
                    ended = yield from self._run_phase(stage.phases[self._phase])
                    if ended is not None:
                        yield ended
                        return
                    self._phase, self._finished = self._phase + 1, None
                done = self._finish_stage(stage)
            else:
                self._merged.take(None)
            self._next_stage(done)
            if self._stage < len(self._parts):
                note = f"partition {self._stage + 1} of {len(self._parts)}"
                label = self._reorg.phases[0].label
                yield Running(self._rows_done, 0.0, None, label, note, 0.0)
        summary = self._merged.summary
        if self._keep is not None and self._parts[0].is_part and summary is not None:
            self._keep(self.order, self.order.logical, summary)
        if self._rows_came is not None and self._imported is not None:
            self._rows_came(self._table, self._imported)
        yield self._earlier

    def _work(self, physical: Sequence[int], inline_rows: int) -> Workload:
        """Returns the size of the reorg, by which its engine is chosen."""
        rows, limit = self._table_rows, self._reorg.inline_rows(inline_rows)
        size = 0
        if rows > limit > 0:
            largest = max(physical, key=self._count_of)
            with closing(self._store.snapshot()) as snapshot:
                few = snapshot.first(_row_span(largest), _SAMPLED_ROWS)
            size = rows * sum(map(len, few)) // max(1, len(few))
        is_light = limit > inline_rows
        return Workload(rows, size, limit, COLD_INLINE * inline_rows, is_light)

    def _done_before(self, stage: Stage) -> Done | None:
        """Returns the earlier work, if another driver finished all phases of the partition."""
        if not stage.is_part or self._phase:
            return None
        with self._store.read() as txn:
            return checkpoint.whole(txn, self._order_of_all())

    def _finish_stage(self, stage: Stage) -> Done:
        """Stores statistics, and records a finished partition for later drivers. Raises Conflict,
        Deposed."""
        span = stage.table.row_span()
        summary = self._gathered.whole(span) if self._gathered is not None else None
        if self._keep is not None and summary is not None:
            self._keep(self.order, stage.table, summary)
        if stage.is_part:
            order, rows = self._order_of_all(), self._rows
            self._store.transact(lambda txn: checkpoint.put_whole(txn, order, span, rows))
        if self._stage < len(self._parts):
            self._merged.take(summary)
        rows = self._rows if self._imported is None else self._imported
        return Done(rows, self.spans_done, self.spans_skipped)

    def _next_stage(self, done: Done) -> None:
        self._earlier = Done(*(one + other for one, other in zip(self._earlier, done, strict=True)))
        self._stage, self._phase, self._gathered = self._stage + 1, 0, None
        self._rows = self.spans_done = self.spans_skipped = 0

    def _run_phase(self, phase: Phase) -> PhaseResult:
        if phase.verifies and self._dial.read().verify == "off":
            return None
        self.order, self._rate, self._cost = self._order(phase), Rate(), TaskCost()
        rows = self._rows_of(phase)
        self._total = sum(part.rows for part in rows)
        if phase.source is not None:
            return (yield from self._run_import(phase, phase.source))
        if phase.element is not None:
            return (yield from self._run_writing(phase, rows))
        if phase.kernel == COMPARE:
            return (yield from self._run_compare(phase, rows))
        return (yield from self._run_reading(phase, rows))

    def _order_of_all(self) -> TaskOrder:
        """Returns the order that represents all phases of a partition."""
        order = self._order(self._reorg.phases[0])
        return replace(order, element=self._reorg.by_partition)

    def _order(self, phase: Phase) -> TaskOrder:
        table = self._stages[self._stage].table
        order = order_of(self._base, phase)
        return replace(order, info=table.info, physical_id=table.physical_id)

    def _rows_of(self, phase: Phase) -> list[RowsOf]:
        """Returns the rows of each physical table that the phase covers."""
        table = self._stages[self._stage].table
        own = table.info.physical_ids if table.is_partitioned else (table.physical_id,)
        rows = []
        for physical_id in phase.over or own:
            apart = phase.over or table.is_partitioned
            order = replace(self.order, physical_id=physical_id) if apart else self.order
            rows.append(RowsOf(order, _row_span(physical_id), self._count_of(physical_id)))
        return rows

    def _count_of(self, physical_id: int) -> int:
        """Returns the approximate rows of a physical table, counted once per run."""
        if physical_id not in self._counts:
            self._counts[physical_id] = self._store.count(_row_span(physical_id))
        return self._counts[physical_id]

    def _at_once(self, phase: Phase) -> int:
        """Returns how many tasks run concurrently. A fill is one run a node: two cost more
        (061)."""
        at_once = self._executor.at_once
        return at_once // 2 if self._executor.shares and phase.kernel == "fill" else at_once

    def _span_rows(self, phase: Phase, index_ids: tuple[int, ...]) -> int:
        """Returns the rows of one task: fewer if it keeps the entries of several indexes in memory,
        or if two processes share the rows."""
        rows = phase.most_rows or self._dial.read().span_rows
        if index_ids and phase.kernel in ("fill", "rewrite", COMPARE):
            rows = run_rows(self._stages[self._stage].table, index_ids, rows)
        elif phase.router or phase.kernel in ("rekey", "move to ids"):
            rows = max(1, rows // max(1, len(move.copied_indexes(self._table))))
        if self._executor.shares:
            rows = min(rows, -(-self._table_rows // self._at_once(phase)))
        if phase.kernel == "fill":
            least = least_tasks(self._table_rows, self._executor.at_once)
            rows = min(rows, -(-self._table_rows // least)) or rows
        return rows

    # -- a phase that writes -----------------------------------------------------------------------

    def _run_writing(self, phase: Phase, rows: list[RowsOf]) -> PhaseResult:
        """Runs waves of tasks until no span is missing or a task finds a violation."""
        settings = self._dial.read()
        gathers = phase.gathers and self._keep is not None and settings.statistics
        if gathers and self._gathered is None and self._table_rows >= LEAST_ROWS:
            self._gathered = Gathered(self.order, self._table_rows)
        if phase.kernel in _EXCHANGED:
            ended = yield from self._run_exchanges(phase, rows)
            if ended is not None:
                return ended
        while True:
            base, missing = self._missing(phase, rows)
            if not missing:
                self._rows = base
                return None
            tasks = missing[:WAVE_TASKS]
            if self._gathered is not None:
                tasks = self._gathered.asking(tasks)
            runs, keep = self._runs_of_rewrite(phase, rows), _ALL
            if runs is not None:
                tasks = runs.keeping(tasks[: _SPILLS * self._executor.at_once_here])
                keep = partial(runs.take, tasks)
            try:
                outcomes = yield from self._run(tasks, phase, base, keep)
            except Refused as refusal:
                if phase.explained_by is None:
                    raise
                self.order = self._order(phase.explained_by)
                explained = yield from self._run_reading(phase.explained_by, self._rows_of(phase))
                return explained or Failed(refusal)
            if self._gathered is not None:
                self._gathered.take(tasks, outcomes)
            self.spans_done += sum(outcome.kind == task.DONE for outcome in outcomes)
            refused = self._duplicates_of(outcomes, are_all=len(tasks) == len(missing))
            if refused is not None:
                return refused

    def _duplicates_of(self, outcomes: list[Outcome], are_all: bool) -> Duplicates | None:
        """Returns the duplicates that tasks have found, or None. `are_all`: no span is missing."""
        duplicates = [duplicate for outcome in outcomes for duplicate in outcome.duplicates]
        if not duplicates:
            return None
        full = any(len(outcome.duplicates) >= MOST_DUPLICATES for outcome in outcomes)
        table, number = self._stages[self._stage].table, len(duplicates)
        error = duplicates_refusal(table, duplicates, number, at_least=full or not are_all)
        return Duplicates([duplicate.text for duplicate in duplicates[:MOST_DUPLICATES]], error)

    def _missing(self, phase: Phase, rows: list[RowsOf]) -> tuple[int, list[Task]]:
        """Returns the number of finished rows, and tasks for missing spans: up to at least one
        wave."""
        at_once = self._at_once(phase)
        with self._store.read() as txn:
            finished_spans = checkpoint.rows_of(txn, self.order.job_id)
            run = txn.sequence
        self.order = replace(self.order, run=run, at_once=at_once)
        span_rows = self._span_rows(phase, phase.index_ids)
        staggered = phase.kernel == "fill" and self._dial.read().span_rows >= LEAST_SPAN_ROWS
        done = number = 0
        tasks: list[Task] = []
        for part in rows:
            order = replace(part.order, run=run, at_once=at_once)
            finished = checkpoint.finished_among(finished_spans, order, self._store.count)
            done, number = done + finished.rows, number + finished.number
            if len(tasks) < WAVE_TASKS:
                missing = finished.spans.missing(part.span)
                count = part.rows if missing == [part.span] else None
                spans = cut(self._store, missing, span_rows, count, at_once, staggered)
                tasks += _tasks(phase.kernel, order, spans, len(tasks))
        self._note_finished(number)
        return done, tasks

    # -- a large fill or move, through sorted runs on disk -----------------------------------------

    def _run_exchanges(self, phase: Phase, rows: list[RowsOf]) -> PhaseResult:
        """Fills, or moves, tables of more rows than fit in one run. Others are left to
        `_run_writing`. Each table is filled alone; a move puts entries of all in the same
        partitions."""
        groups = [[part] for part in rows] if phase.kernel == "fill" else [rows]
        for parts in groups:
            if self._is_exchanged(phase, parts):
                ended = yield from self._run_exchange(phase, rows, parts)
                self._drop_exchange()
                if ended is not None:
                    return ended
        return None

    def _is_exchanged(self, phase: Phase, parts: list[RowsOf]) -> bool:
        """Whether the phase puts entries of these rows through sorted runs on disk."""
        if self._store.folder is None or not self._executor.runs_here:
            return False
        rows = sum(part.rows for part in parts)
        if rows <= exchange.LEAST_ROWS or not self._ranges_of(phase, parts[0].order):
            return False
        return phase.kernel == "rekey" or rows > self._run_rows(phase)

    def _run_rows(self, phase: Phase) -> int:
        """Returns the rows whose entries are sorted in memory at once."""
        span_rows, indexes = self._dial.read().span_rows, phase.index_ids
        if phase.kernel == "rekey":
            return max(1, span_rows // _WHOLE_ROWS)
        if not indexes:
            return self._span_rows(phase, ())
        return min(span_rows, run_rows(self._stages[self._stage].table, indexes, span_rows))

    def _ranges_of(self, phase: Phase, order: TaskOrder) -> list[tuple[int, Span]]:
        """Returns the index ids and whole key ranges of what the phase exchanges; 0 for rows."""
        if phase.kernel == "move":
            return move.exchanged_ranges(order, phase.targets)
        if phase.kernel in ("rekey", "move to ids"):
            return rekey.exchanged_ranges(order, phase.kernel == "move to ids")
        indexes = (index for index in order.info.indexes if index.id in phase.index_ids)
        return [(index.id, order.table.index_span(index)) for index in indexes]

    def _runs_of(self, order: TaskOrder) -> Exchange:
        """Returns the spilled runs of the order's table and indexes: those of earlier waves, or
        none yet."""
        if self._exchange is None or not self._exchange.serves(order):
            folder = self._dial.read().spill_folder or self._store.folder
            assert folder is not None
            self._exchange = Exchange(folder, order)
        return self._exchange

    def _runs_of_rewrite(self, phase: Phase, rows: list[RowsOf]) -> Exchange | None:
        """Returns the runs that tasks of a rewrite add to, or None if they put their entries."""
        if phase.kernel != "rewrite" or len(rows) > 1 or not self._is_exchanged(phase, rows):
            return None
        return self._runs_of(rows[0].order)

    def _run_exchange(self, phase: Phase, rows: list[RowsOf], parts: list[RowsOf]) -> PhaseResult:
        """Runs waves of spills until every row is read, then waves of merges until no key range is
        missing. Moved rows are put before their entries."""
        span_rows = self._dial.read().span_rows
        maps, puts = ("spill", "merge") if phase.kernel == "fill" else (phase.kernel,) * 2
        while True:
            with self._store.read() as txn:
                stored, run = checkpoint.rows_of(txn, self.order.job_id), txn.sequence
            at_once = self._executor.at_once_here
            self.order = replace(self.order, run=run, at_once=at_once)
            orders = [replace(part.order, run=run, at_once=at_once) for part in parts]
            count = self._store.count
            finished = [checkpoint.finished_among(stored, order, count) for order in orders]
            unfinished = [
                done.spans.missing(part.span) for done, part in zip(finished, parts, strict=True)
            ]
            if not any(unfinished):
                return None
            order = orders[0]
            runs = self._runs_of(order)
            ranges, missing = list[checkpoint.Finished](), list[tuple[int, Span]]()
            for index_id, whole in self._ranges_of(phase, order):
                of_index = replace(order, element=exchange.range_element(order, index_id))
                ranges.append(checkpoint.finished_among(stored, of_index, lambda span: 0))
                missing += [(index_id, gap) for gap in ranges[-1].spans.missing(whole)]
            self._note_finished(sum(one.number for one in [*finished, *ranges]))
            written = sum(one.rows for one in ranges)
            if not missing:
                self._finish_spans(orders, unfinished, runs.rows or 2 * written)
                continue
            base = sum(checkpoint.finished_among(stored, one.order, count).rows for one in rows)
            unread = [runs.unread(spans) for spans in unfinished]
            base += runs.rows // 2 + written
            if any(unread):
                tasks = list[Task]()
                for of_part, gaps, part in zip(orders, unread, parts, strict=True):
                    least = max(at_once, least_tasks(part.rows, at_once))
                    most = min(self._run_rows(phase), part.rows // least)
                    spans = cut(self._store, gaps, max(1, most), at_once=at_once)
                    tasks += runs.spills(of_part, spans, missing, maps, len(tasks))
                tasks = tasks[: min(WAVE_TASKS, _SPILLS * at_once)]
                if self._gathered is not None:
                    tasks = self._gathered.asking(tasks)
                keep = partial(self._take_spilled, runs, tasks)
                self.spans_done += len((yield from self._run(tasks, phase, base, keep)))
                continue
            of_rows = [one for one in missing if not one[0]]
            due = max(0, runs.rows - runs.rows // 2 - written)
            if of_rows and len(of_rows) < len(missing):
                missing, due = of_rows, due // 2
            most = max(1, span_rows // _WHOLE_ROWS)
            if phase.kernel == "fill":
                most = min(run_rows(order.table, (n,), span_rows) for n, _ in missing)
            tasks = runs.merges(order, missing, most, due, puts)
            outcomes = yield from self._run(tasks[:WAVE_TASKS], phase, base)
            self.spans_done += sum(outcome.kind == task.DONE for outcome in outcomes)
            refused = self._duplicates_of(outcomes, are_all=len(tasks) <= WAVE_TASKS)
            if refused is not None:
                return refused

    def _take_spilled(
        self, runs: Exchange, tasks: list[Task], outcomes: list[Outcome]
    ) -> list[Outcome]:
        outcomes = runs.take(tasks, outcomes)
        if self._gathered is not None:
            self._gathered.take(tasks, outcomes)
        return outcomes

    def _finish_spans(
        self, orders: list[TaskOrder], unfinished: list[list[Span]], rows: int
    ) -> None:
        """Marks spans of tables as finished, after all key ranges of their indexes. `rows`: sum of
        all tables. Raises Conflict, Deposed."""
        pairs = list[tuple[bytes, bytes]]()
        for order, spans in zip(orders, unfinished, strict=True):
            for span in spans:
                of_span = min(rows, self._store.count(span)) if len(orders) > 1 else rows
                pairs += checkpoint.pairs(order, span, of_span)
                rows -= of_span

        def work(txn: Transaction) -> None:
            for fence in orders[0].fences:
                txn.require_equal(*fence)
            for key, payload in pairs:
                txn.put(key, payload)

        self._store.transact(work)

    def _drop_exchange(self) -> None:
        runs, self._exchange = self._exchange, None
        if runs is not None:
            runs.close()

    # -- rows of files -----------------------------------------------------------------------------

    def _run_import(self, phase: Phase, source: ImportSource) -> PhaseResult:
        """Runs waves of tasks until no unit of a file is missing. Raises 8173 for a table with
        rows."""
        with self._store.read() as txn:
            for physical_id in self._replaced:
                if next(iter(txn.scan(_row_span(physical_id), limit=1)), None) is not None:
                    raise ErrLoadDataPreCheckFailed(NOT_EMPTY)
        units: list[source_files.Unit] = []
        for unit in source_files.units_of(source):
            units.append(unit)
            if len(units) % 100 == 0:
                yield self._running(phase, 0.0)
        if source.format == source_files.PARQUET:
            places = (map(source_files.place_of, unit.span) for unit in units)
            self._total = sum(end - start for (_, start), (_, end) in places)
        while True:
            with self._store.read() as txn:
                finished_spans = checkpoint.rows_of(txn, self.order.job_id)
                run = txn.sequence
            self.order = replace(self.order, run=run, at_once=self._executor.at_once)
            finished = checkpoint.finished_among(finished_spans, self.order, lambda span: 0)
            self._note_finished(finished.number)
            missing = [unit for unit in units if unit.span not in finished.spans]
            if not missing:
                break
            tasks = [
                Task(kind="import", order=self.order, span=u.span, ordinal=n, first=u.first)
                for n, u in enumerate(missing[:WAVE_TASKS])
            ]
            outcomes = yield from self._run(tasks, phase, finished.rows)
            self.spans_done += sum(outcome.kind == task.DONE for outcome in outcomes)
            duplicates = [duplicate for outcome in outcomes for duplicate in outcome.duplicates]
            if duplicates:
                return _duplicates([duplicate.text for duplicate in duplicates])
        self._rows = self._imported = finished.rows
        yield from self._require_distinct(phase, finished.rows)
        self._raise_ids(checkpoint.most_id(finished_spans))
        self._counts.clear()
        return None

    def _note_finished(self, number: int) -> None:
        if self._finished is None:
            self.spans_skipped += number
        elif number > self._finished:
            self._executor.moved()
        self._finished = max(number, self._finished or 0)

    def _require_distinct(self, phase: Phase, rows: int) -> Walk:
        """Raises 1062 if rows replaced others with the same key and the task that knew which was
        killed before it could report them."""
        table = self.order.table
        if not table.handle_positions:
            return
        present = 0
        with closing(self._store.snapshot()) as snapshot:
            for row_keys, _ in snapshot.chunks(table.row_span()):
                present += len(row_keys)
                yield self._running(phase, 0.0)
        if present < rows:
            raise ErrDupEntry.with_text(
                f"Duplicate entries for key '{table.info.name.O}.PRIMARY': {rows - present:,} rows"
                " of the files have the key of another one"
            )

    def _raise_ids(self, most_id: int) -> None:
        """Raises id counters above the imported ids. Raises Conflict, Deposed."""
        table = self.order.table
        with self._store.read() as txn:
            last = next(iter(txn.scan(table.row_span(), reverse=True, limit=1)), None)
        raised = {"auto": most_id}
        if last is not None and not table.handle_positions:
            raised["rowid"] = keys.read_i64(last[0][-8:])

        def work(txn: Transaction) -> None:
            for fence in self.order.fences:
                txn.require_equal(*fence)
            for kind, reached in raised.items():
                key = keys.meta(kind, table.info.id)
                if reached > keys.read_number(txn.get(key)):
                    txn.put(key, keys.number(reached))

        self._store.transact(work)

    # -- phases that read --------------------------------------------------------------------------

    def _run_reading(self, phase: Phase, rows: list[RowsOf]) -> PhaseResult:
        """Reads every row and combines all violations into one refusal."""
        if phase.kernel == "check column" and rewrite.fits_by_index(self._store, self.order):
            self._rows += self._total
            return None
        span_rows, at_once = self._span_rows(phase, ()), self._executor.at_once
        tasks: list[Task] = []
        for part in rows:
            spans = cut(self._store, [part.span], span_rows, part.rows, at_once)
            tasks += _tasks(phase.kernel, part.order, spans, len(tasks))
        outcomes = yield from self._run(tasks, phase, self._rows)
        if not phase.verifies:
            self._rows += sum(outcome.rows for outcome in outcomes)
            self.spans_done += len(outcomes)
        refusal = REFUSALS[phase.kernel](self._store, self.order, outcomes)
        return None if refusal is None else Failed(refusal)

    def _run_compare(self, phase: Phase, rows: list[RowsOf]) -> PhaseResult:
        """Compares indexes with their rows; a difference ends the reorg (law 9)."""
        copied = tuple(index.id for index in move.copied_indexes(self._table))
        index_ids = phase.index_ids or copied
        if not index_ids:
            return None
        if phase.changing and self._dial.read().verify == "sample":
            column = replace(phase, kernel="verify column", index_ids=())
            ended = yield from self._run_phase(column)
            if ended is not None:
                return ended
        if phase.is_whole:
            rows = [RowsOf(all_parts(self.order), rows[0].span, sum(part.rows for part in rows))]
        for part in rows:
            order = replace(part.order, index_ids=index_ids)
            if phase.verifies and self._dial.read().verify == "sample":
                indexes = [index for index in order.info.indexes if index.id in index_ids]
                table = order.table
                faults = [fault for index in indexes for fault in sample(self._store, table, index)]
            else:
                yield self._running(phase, 0.0)
                span_rows, at_once = self._span_rows(phase, index_ids), self._executor.at_once
                together = not self._separate_snapshots and (
                    at_once == 1 or self._dial.read().batch_s < ALONE_S
                )
                waves = verification(self._store, order, span_rows, part.rows, at_once, together)
                outcomes: list[Outcome] | None = None
                while True:
                    try:
                        tasks = waves.send(outcomes) if outcomes is not None else next(waves)
                    except StopIteration as end:
                        faults = end.value
                        break
                    outcomes = yield from self._run(tasks, phase, self._rows)
            if faults:
                return Failed(faults[0].refusal(order.info.name.O), faults)
            if not phase.verifies:
                self._rows += part.rows
        return None

    # -- one wave ----------------------------------------------------------------------------------

    def _run(
        self,
        tasks: list[Task],
        phase: Phase,
        base: int,
        keep: Keeping = _ALL,
    ) -> Generator[Progress, None, list[Outcome]]:
        """Runs a wave of tasks and returns their outcomes in order. Raises the error that stopped
        one, after `keep` has seen all outcomes. Returns what `keep` returns."""
        self._spans_ended = 0
        self._executor.start(f"exuvia-job-{self.order.job_id}", tasks, phase.label)
        while not self._executor.done():
            wake_s = self._executor.step()
            if phase.writes and self._now >= self._counted_at + _COUNT_S:
                self._count(base)
            if not self._executor.done():
                yield self._running(phase, wake_s)
        outcomes = self._executor.results()
        self._cost = self._cost.plus(cost_of(outcomes))
        outcomes = self._executor.require_all(keep(outcomes))
        if phase.writes:
            self._count(base)
        self._spans_ended = 0  # the caller adds them to those of earlier waves
        return outcomes

    def _count(self, base: int) -> None:
        """Updates the rows done: finished spans plus the progress of running tasks."""
        self._counted_at = self._now
        with self._store.read() as txn:
            progress = checkpoint.read_progress(txn, self.order)
        self._rows = base + sum(p.rows for p in progress)
        self._spans_ended = sum(p.finished for p in progress)
        self._rate.observe(self._now, self._rows)

    @property
    def _rows_done(self) -> int:
        return self._earlier.rows + self._rows

    def _running(self, phase: Phase, wake_s: float) -> Running:
        before = f", {self.spans_skipped} before a restart" if self.spans_skipped else ""
        note = f"spans done: {self.spans_done + self._spans_ended}{before}"
        report = self._executor.report()
        if report is not None:
            note = f"{note}; {report.after(self._cost).text()}"
        if self._controller is not None and self._controller.reason:
            note = f"{self._controller.reason}; {note}"
        silent_s = self._rate.silence_s(self._now) if phase.writes else 0.0
        if silent_s or not (self._rows or self._executor.is_started):
            excuse = self._executor.excuse(self._dial.read())
            note = f"{excuse}: no row for {silent_s:.0f} s; {note}"
        rate = self._rate.rows_per_s() if phase.writes else 0.0
        eta_s = self._rate.eta_s(max(0, self._total - self._rows)) if phase.writes else None
        return Running(self._rows_done, rate, eta_s, phase.label, note, wake_s)


def _row_span(physical_id: int) -> Span:
    return keys.span_of(keys.row_prefix(physical_id))


def _duplicates(texts: list[str]) -> Duplicates:
    more = f" (and {len(texts) - 1} more)" if len(texts) > 1 else ""
    listing = "\n".join(texts[1:])
    return Duplicates(texts[:MOST_DUPLICATES], ErrDupEntry.with_text(f"{texts[0]}{more}", listing))


def _tasks(kernel: str, order: TaskOrder, spans: list[Span], first: int) -> list[Task]:
    return [
        Task(kind=kernel, order=order, span=span, ordinal=first + n) for n, span in enumerate(spans)
    ]


# -- rows per second, remaining time, and time without progress ------------------------------------

_WINDOW_S = 5.0
_SILENCE_S = 10.0


class Rate:
    """Rate of progress, from a sliding window of (time, rows done)."""

    def __init__(self) -> None:
        self._window: deque[tuple[float, int]] = deque()
        self._moved_at: float | None = None

    def observe(self, now: float, rows: int) -> None:
        """Adds an observation: `rows` are done at `now`. Unit: s."""
        if self._moved_at is None or (self._window and rows != self._window[-1][1]):
            self._moved_at = now
        if self._window and rows < self._window[-1][1]:
            self._window.clear()  # a task was started again
        self._window.append((now, rows))
        while len(self._window) > 2 and self._window[1][0] <= now - _WINDOW_S:
            self._window.popleft()

    def rows_per_s(self) -> float:
        """Returns the rate over the window; 0 with fewer than two observations."""
        if len(self._window) < 2:
            return 0.0
        (start, before), (end, after) = self._window[0], self._window[-1]
        return (after - before) / (end - start) if end > start else 0.0

    def eta_s(self, missing: int) -> float | None:
        """Returns seconds for the missing rows at this rate, or None without progress."""
        rate = self.rows_per_s()
        return missing / rate if rate > 0 else None

    def silence_s(self, now: float) -> float:
        """Returns the time without progress, or 0 if it is shorter than _SILENCE_S."""
        silent = now - self._moved_at if self._moved_at is not None else 0.0
        return silent if silent >= _SILENCE_S else 0.0
