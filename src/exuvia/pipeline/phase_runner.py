"""Walks a reorg's phases (reorg.py), in this process or on Spark. The object that a job's worker
steps.

    the table, or its partitions one after another      a partition that an earlier driver finished,
      each of the reorg's phases in order               verification too, is passed over
        writes    spans finished before  <- mysql.tidb_ddl_reorg
                  loop   missing spans, cut anew -> a wave of tasks -> outcomes
        imports   likewise, of units of files; then the counters of ids, and a count of all rows
        reads     all spans -> one wave of tasks -> outcomes added up -> a refusal, or none
        compare   verification's waves -> faults, or none
      statistics of what was filled, and "all of it is finished"
    -> Done

Small tables (Reorg.inline_rows; more while Spark is not started) are done in this process, a
transaction a step; others on Spark, where a step only looks. The walk is a generator that can be
begun anew at any time: what was finished is in the store, and which phase is under way is all that
is kept beside it.
"""

import time
from collections import deque
from collections.abc import Callable, Generator
from contextlib import closing
from typing import NamedTuple

from msgspec.structs import replace

from exuvia.base.errors import Broken, Conflict, Deposed, OutOfSpace, Refused, Unavailable
from exuvia.base.limits import COLD_INLINE
from exuvia.base.mysql_errors import ErrDupEntry, ErrLoadDataPreCheckFailed
from exuvia.base.waits import DISK_RESERVE
from exuvia.catalog.table import Table
from exuvia.kv import keys
from exuvia.kv.packet import Span
from exuvia.kv.store import Store
from exuvia.kv.transaction import Transaction
from exuvia.pipeline import checkpoint, source_files, task
from exuvia.pipeline.checkpoint import cut
from exuvia.pipeline.executor import Executor, Others
from exuvia.pipeline.kernels import move, rekey, rewrite
from exuvia.pipeline.kernels.entries import LEAST_SPAN_ROWS, run_rows
from exuvia.pipeline.kernels.summary import LEAST_ROWS, Gathered, Keep, MergedSummary
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
from exuvia.pipeline.task import MOST_DUPLICATES, Outcome, Task, TaskOrder, all_parts, order_for
from exuvia.pipeline.throttle import NiceStore, ShareController
from exuvia.pipeline.verify import rules
from exuvia.pipeline.verify.compare import sample, verification
from exuvia.pipeline.verify.judge import duplicates_refusal
from exuvia.pipeline.worker_process import WorkerProcess

_WAVE_TASKS = 64
PACED_ROWS = 10_000  # fewer are done before clients could have noticed
_RETRY_S = ROOM_S = 1.0
_COUNT_S = 0.05

Walk = Generator[Progress, None, None]
Ended = Generator[Progress, None, Progress | None]
"""One part of the walk: returns what ends the reorg, None where it goes on."""

REFUSALS: dict[str, Callable[[Store, TaskOrder, list[Outcome]], Refused | None]] = {
    "check rows": rules.refusal_of,
    "check column": rewrite.refusal_of,
    "verify column": lambda store, order, outcomes: None,  # its tasks refuse by themselves
    "renumber": lambda store, order, outcomes: None,  # it refuses nothing
    "check moved": move.fault_of,
    "check rekeyed": rekey.fault_of,
    "check fits": lambda store, order, outcomes: None,  # its tasks refuse by themselves
    "check apart": lambda store, order, outcomes: None,  # likewise
}
"""What the outcomes of a phase amount to that remembers nothing of what it has finished."""


class Stage(NamedTuple):
    """What goes through all its phases together. `is_part`: one partition of a table of several."""

    table: Table
    is_part: bool
    phases: tuple[Phase, ...]


class RowsOf(NamedTuple):
    """Rows of one physical table, and the order of the tasks on them."""

    order: TaskOrder
    span: Span
    rows: int


def stages_of(reorg: Reorg, table: Table) -> tuple[Stage, ...]:
    """The partitions, where each is done by itself; else the table as it is."""
    if reorg.by_partition and table.is_partitioned:
        return tuple(Stage(part, True, reorg.phases) for part in table.parts)
    return (Stage(table, False, reorg.phases),)


def whole_stage(reorg: Reorg, table: Table) -> tuple[Stage, ...]:
    """What is done of all partitions together, behind them."""
    table = _switched(table) if reorg.switched else table
    return (Stage(table, False, reorg.whole),) if reorg.whole else ()


def order_of(base: TaskOrder, phase: Phase) -> TaskOrder:
    """The order of a phase's tasks. `base`: the job, its epoch, the table."""
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
    """The table as it will be once its rows lie under that id."""
    info = replace(table.info, exuvia_physical=physical_id)
    facts = table.revision, table.database, table.database_revision, table.evaluator
    return Table(info, *facts)


def _switched(table: Table) -> Table:
    """The table as it will be once readers read the other set, of partitions or of rows."""
    if table.info.exuvia_rekey is not None:
        return table.rekeyed
    cut = table.info.partition
    if cut is None:
        raise Broken("a table without partitions has no other set of them")
    facts = table.revision, table.database, table.database_revision, table.evaluator
    return Table(replace(table.info, partition=cut.switched), *facts)


class PhaseRunner:
    """See the module. `spark` None: always in this process; `judge`: who makes rules, see
    verify/rules.py; `keep`: who is given new indexes' statistics; `rows_came`: who is told how many
    rows an import has put; `others`: nodes that may do tasks too; `worker`: a process that
    may. One thread steps it."""

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
        self._stage = self._phase = 0  # under way
        self._finished: int | None = None  # spans of the phase under way; None: nobody has looked
        self._earlier = Done(0)  # of the stages before
        self._rows = 0
        self._imported: int | None = None
        self._total = 0  # of the phase under way
        self._table_rows = 0
        self._counts: dict[int, int] = {}  # by physical id: a count reads thousands of keys
        self._rate = Rate()
        self._now = 0.0
        self._counted_at = -_COUNT_S
        self._again_at = self._room_at = 0.0
        self._reason = ""
        self._apart = False  # whether each task of a comparison has a snapshot of its own
        self._ended: Progress | None = None
        self._walk = self._walked()
        self.spans_done = 0
        self.spans_skipped = 0
        self.order = self._order(reorg.phases[0])

    def step(self, now: float) -> Progress:
        """Go on a little. Raises Deposed."""
        self._now = now
        if self._ended is not None:
            return self._ended
        if now < self._again_at:
            return Waiting(self._reason, self._rows_done, self._again_at - now)
        with self._store.niced():
            return self._step(now)

    def _step(self, now: float) -> Progress:
        try:
            if now >= self._room_at:
                self._room_at = now + ROOM_S
                self._require_room()
            if self._controller is not None:
                self._controller.step(now, not self._under_way.writes)
            reached = next(self._walk)
        except (Unavailable, Conflict) as error:
            self._apart = True  # it may have been a snapshot that was open for too long
            self.stop()
            self._check_epoch()  # what stopped it may be that it was left long ago
            self._reason, self._again_at = str(error), self._now + _RETRY_S
            return Waiting(self._reason, self._rows_done, _RETRY_S)
        except Refused as error:
            reached = Failed(error)
        if isinstance(reached, (Done, Duplicates, Failed)):
            self._ended = reached
        return reached

    def stop(self) -> None:
        """Let everything go, tasks too. A later step goes on from what is finished."""
        self._executor.cancel()
        self._walk.close()
        self._walk = self._walked()

    def _require_room(self) -> None:
        """Raises OutOfSpace while the store's disk has less room than reorgs leave to clients: what
        fills a disk to its end stops them all."""
        least, free = self._dial.read().disk_free_min, self._store.free_bytes()
        if free is not None and free < least:
            raise OutOfSpace(DISK_RESERVE(free >> 20, least >> 20))

    def _check_epoch(self) -> None:
        """Raises Deposed: while it only reads nobody would tell it, and it would wait for ever."""
        with self._store.read() as txn:
            if any(txn.get(key) != payload for key, payload in self._base.fences):
                raise Deposed("the reorg was left")

    @property
    def kernel(self) -> str:
        """The kernel of the phase under way, or of the last one."""
        return self._under_way.kernel

    @property
    def _under_way(self) -> Phase:
        phases = self._stages[min(self._stage, len(self._stages) - 1)].phases
        return phases[min(self._phase, len(phases) - 1)]

    # -- stages and phases -------------------------------------------------------------------------

    def _walked(self) -> Walk:
        self._check_epoch()
        settings = self._dial.read()
        physical = self._reorg.over or self._table.info.physical_ids
        self._counts.clear()
        self._table_rows = sum(map(self._count_of, physical))
        for phase in self._reorg.phases:
            if phase.source is not None:
                self._table_rows = max(self._table_rows, source_files.about(phase.source))
        most = self._reorg.inline_rows(settings.inline_rows)
        self._executor.choose(self._table_rows, most, COLD_INLINE * settings.inline_rows)
        if self._table_rows >= PACED_ROWS and self._controller is None:
            self._controller = ShareController(self._store, self._base)
            self._controller.step(
                self._now, not self._under_way.writes
            )  # who steps back for a reorg hears of it before it reads
        while self._stage < len(self._stages):
            stage = self._stages[self._stage]
            done = self._done_before(stage)
            if done is None:
                while self._phase < len(stage.phases):
                    ended = yield from self._phase_done(stage.phases[self._phase])
                    if ended is not None:
                        yield ended
                        return
                    self._phase, self._finished = self._phase + 1, None
                done = self._stage_done(stage)
            else:
                self._merged.take(None)
            self._go_on_behind(done)
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

    def _done_before(self, stage: Stage) -> Done | None:
        """What an earlier driver did, if it finished all phases of the partition."""
        if not stage.is_part or self._phase:
            return None
        with self._store.read() as txn:
            return checkpoint.whole(txn, self._order_of_all())

    def _stage_done(self, stage: Stage) -> Done:
        """Statistics go where they are kept; a later driver is let know of a partition. Raises
        Conflict, Deposed."""
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

    def _go_on_behind(self, done: Done) -> None:
        self._earlier = Done(*(one + other for one, other in zip(self._earlier, done, strict=True)))
        self._stage, self._phase, self._gathered = self._stage + 1, 0, None
        self._rows = self.spans_done = self.spans_skipped = 0

    def _phase_done(self, phase: Phase) -> Ended:
        if phase.verifies and self._dial.read().verify == "off":
            return None
        self.order, self._rate = self._order(phase), Rate()
        rows = self._rows_of(phase)
        self._total = sum(part.rows for part in rows)
        if phase.source is not None:
            return (yield from self._loaded(phase, phase.source))
        if phase.element is not None:
            return (yield from self._written(phase, rows))
        if phase.kernel == COMPARE:
            return (yield from self._compared(phase, rows))
        return (yield from self._read(phase, rows))

    def _order_of_all(self) -> TaskOrder:
        """The order that stands for all phases of a partition."""
        order = self._order(self._reorg.phases[0])
        return replace(order, element=self._reorg.by_partition)

    def _order(self, phase: Phase) -> TaskOrder:
        table = self._stages[self._stage].table
        order = order_of(self._base, phase)
        return replace(order, info=table.info, physical_id=table.physical_id)

    def _rows_of(self, phase: Phase) -> list[RowsOf]:
        """Of each physical table that the phase is about."""
        table = self._stages[self._stage].table
        own = table.info.physical_ids if table.is_partitioned else (table.physical_id,)
        rows = []
        for physical_id in phase.over or own:
            apart = phase.over or table.is_partitioned
            order = replace(self.order, physical_id=physical_id) if apart else self.order
            rows.append(RowsOf(order, _row_span(physical_id), self._count_of(physical_id)))
        return rows

    def _count_of(self, physical_id: int) -> int:
        """Rows of a physical table, about: as many as there were when the walk was begun."""
        if physical_id not in self._counts:
            self._counts[physical_id] = self._store.count(_row_span(physical_id))
        return self._counts[physical_id]

    def _at_once(self, phase: Phase) -> int:
        """How many of its tasks run side by side. A fill is one run a node: two cost more (061)."""
        at_once = self._executor.at_once
        return at_once // 2 if self._executor.shares and phase.kernel == "fill" else at_once

    def _span_rows(self, phase: Phase, index_ids: tuple[int, ...]) -> int:
        """Of one task: less where it keeps the entries of several indexes, for memory's sake, and
        where two processes share the rows."""
        rows = phase.most_rows or self._dial.read().span_rows
        if index_ids and phase.kernel in ("fill", "rewrite", COMPARE):
            rows = run_rows(self._stages[self._stage].table, index_ids, rows)
        elif phase.router or phase.kernel in ("rekey", "move to ids"):
            rows = max(1, rows // max(1, len(move.copied_indexes(self._table))))
        if self._executor.shares:
            rows = min(rows, -(-self._table_rows // self._at_once(phase)))
        return rows

    # -- a phase that writes -----------------------------------------------------------------------

    def _written(self, phase: Phase, rows: list[RowsOf]) -> Ended:
        """Waves of tasks until no span is missing, or one of them met what cannot be."""
        settings = self._dial.read()
        gathers = phase.gathers and self._keep is not None and settings.statistics
        if gathers and self._gathered is None and self._table_rows >= LEAST_ROWS:
            self._gathered = Gathered(self.order, self._table_rows)
        while True:
            base, missing = self._missing(phase, rows)
            if not missing:
                self._rows = base
                return None
            tasks = missing[:_WAVE_TASKS]
            if self._gathered is not None:
                tasks = self._gathered.asking(tasks)
            try:
                outcomes = yield from self._run(tasks, phase, base)
            except Refused as refusal:
                if phase.explained_by is None:
                    raise
                self.order = self._order(phase.explained_by)
                explained = yield from self._read(phase.explained_by, self._rows_of(phase))
                return explained or Failed(refusal)
            if self._gathered is not None:
                self._gathered.take(tasks, outcomes)
            self.spans_done += sum(outcome.kind == task.DONE for outcome in outcomes)
            duplicates = [twice for outcome in outcomes for twice in outcome.duplicates]
            if duplicates:
                full = any(len(outcome.duplicates) >= MOST_DUPLICATES for outcome in outcomes)
                error = duplicates_refusal(
                    self._stages[self._stage].table,
                    duplicates,
                    len(duplicates),
                    at_least=full or len(tasks) < len(missing),  # some were not searched to the end
                )
                return Duplicates([twice.text for twice in duplicates[:MOST_DUPLICATES]], error)

    def _missing(self, phase: Phase, rows: list[RowsOf]) -> tuple[int, list[Task]]:
        """Rows finished so far, and tasks for spans that are missing: for one wave at least, if
        there are so many."""
        at_once = self._at_once(phase)
        with self._store.read() as txn:
            known = checkpoint.rows_of(txn, self.order.job_id)
            run = txn.sequence
        self.order = replace(self.order, run=run, at_once=at_once)
        span_rows = self._span_rows(phase, phase.index_ids)
        staggered = phase.kernel == "fill" and span_rows >= LEAST_SPAN_ROWS
        done = number = 0
        tasks: list[Task] = []
        for part in rows:
            order = replace(part.order, run=run, at_once=at_once)
            finished = checkpoint.finished_among(known, order, self._store.count)
            done, number = done + finished.rows, number + finished.number
            if len(tasks) < _WAVE_TASKS:
                missing = finished.spans.missing(part.span)
                count = part.rows if missing == [part.span] else None
                spans = cut(self._store, missing, span_rows, count, at_once, staggered)
                tasks += _tasks(phase.kernel, order, spans, len(tasks))
        if self._finished is None:
            self.spans_skipped += number
        elif number > self._finished:
            self._executor.moved()
        self._finished = max(number, self._finished or 0)
        return done, tasks

    # -- rows of files -----------------------------------------------------------------------------

    def _loaded(self, phase: Phase, source: ImportSource) -> Ended:
        """Waves of tasks until no unit of a file is missing. Raises 8173 for a table with rows."""
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
                known = checkpoint.rows_of(txn, self.order.job_id)
                run = txn.sequence
            self.order = replace(self.order, run=run, at_once=self._executor.at_once)
            finished = checkpoint.finished_among(known, self.order, lambda span: 0)
            self._see(finished.number)
            missing = [unit for unit in units if unit.span not in finished.spans]
            if not missing:
                break
            tasks = [
                Task(kind="import", order=self.order, span=u.span, ordinal=n, first=u.first)
                for n, u in enumerate(missing[:_WAVE_TASKS])
            ]
            outcomes = yield from self._run(tasks, phase, finished.rows)
            self.spans_done += sum(outcome.kind == task.DONE for outcome in outcomes)
            found = [twice for outcome in outcomes for twice in outcome.duplicates]
            if found:
                return _twice([twice.text for twice in found])
        self._rows = self._imported = finished.rows
        yield from self._counted(phase, finished.rows)
        self._raise_ids(checkpoint.most_id(known))
        self._counts.clear()
        return None

    def _see(self, number: int) -> None:
        if self._finished is None:
            self.spans_skipped += number
        elif number > self._finished:
            self._executor.moved()
        self._finished = max(number, self._finished or 0)

    def _counted(self, phase: Phase, rows: int) -> Walk:
        """Raises 1062 where rows had the keys of others, and nobody is left who saw which: whoever
        met them was killed before it could tell."""
        table = self.order.table
        if not table.handle_positions:
            return
        seen = 0
        with closing(self._store.snapshot()) as snapshot:
            for found, _ in snapshot.chunks(table.row_span()):
                seen += len(found)
                yield self._running(phase, 0.0)
        if seen < rows:
            raise ErrDupEntry.with_text(
                f"Duplicate entries for key '{table.info.name.O}.PRIMARY': {rows - seen:,} rows of"
                " the files have the key of another one"
            )

    def _raise_ids(self, most_id: int) -> None:
        """Ids go on behind those that came. Raises Conflict, Deposed."""
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

    def _read(self, phase: Phase, rows: list[RowsOf]) -> Ended:
        """Every row looked at; what is wrong with them, all of them counted."""
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

    def _compared(self, phase: Phase, rows: list[RowsOf]) -> Ended:
        """Indexes that hold something else than their rows say end the reorg (law 9)."""
        kept = tuple(index.id for index in move.copied_indexes(self._table))
        index_ids = phase.index_ids or kept
        if not index_ids:
            return None
        if phase.changing and self._dial.read().verify == "sample":
            column = replace(phase, kernel="verify column", index_ids=())
            ended = yield from self._phase_done(column)
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
                together = not self._apart and (at_once == 1 or self._dial.read().batch_s < ALONE_S)
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
        self, tasks: list[Task], phase: Phase, base: int
    ) -> Generator[Progress, None, list[Outcome]]:
        """Have tasks done; their outcomes in the tasks' order. Raises what stopped them."""
        self._executor.start(f"exuvia-job-{self.order.job_id}", tasks)
        while not self._executor.done():
            wake_s = self._executor.step()
            if phase.writes and self._now >= self._counted_at + _COUNT_S:
                self._count(base)
            if not self._executor.done():
                yield self._running(phase, wake_s)
        outcomes = self._executor.outcomes()
        if phase.writes:
            self._count(base)
        return outcomes

    def _count(self, base: int) -> None:
        """Rows done: those of finished spans, and what running tasks say."""
        self._counted_at = self._now
        with self._store.read() as txn:
            self._rows = base + sum(p.rows for p in checkpoint.read_progress(txn, self.order))
        self._rate.seen(self._now, self._rows)

    @property
    def _rows_done(self) -> int:
        return self._earlier.rows + self._rows

    def _running(self, phase: Phase, wake_s: float) -> Running:
        before = f", {self.spans_skipped} before a restart" if self.spans_skipped else ""
        note = f"spans done: {self.spans_done}{before}"
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


def _twice(texts: list[str]) -> Duplicates:
    more = f" (and {len(texts) - 1} more)" if len(texts) > 1 else ""
    listing = "\n".join(texts[1:])
    return Duplicates(texts[:MOST_DUPLICATES], ErrDupEntry.with_text(f"{texts[0]}{more}", listing))


def _tasks(kernel: str, order: TaskOrder, spans: list[Span], first: int) -> list[Task]:
    return [
        Task(kind=kernel, order=order, span=span, ordinal=first + n) for n, span in enumerate(spans)
    ]


# -- rows per second, the time that is left, and silence -------------------------------------------

_WINDOW_S = 5.0
_SILENCE_S = 10.0


class Rate:
    """A sliding window over (time, rows done)."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()
        self._moved_at: float | None = None

    def seen(self, now: float, rows: int) -> None:
        """So many rows are done at this time. Unit: s."""
        if self._moved_at is None or (self._seen and rows != self._seen[-1][1]):
            self._moved_at = now
        self._seen.append((now, rows))
        while len(self._seen) > 2 and self._seen[1][0] <= now - _WINDOW_S:
            self._seen.popleft()

    def rows_per_s(self) -> float:
        """Over the window; 0 until two moments are known."""
        if len(self._seen) < 2:
            return 0.0
        (start, before), (end, after) = self._seen[0], self._seen[-1]
        return (after - before) / (end - start) if end > start else 0.0

    def eta_s(self, missing: int) -> float | None:
        """Seconds for the missing rows at this rate; None while nothing moves."""
        rate = self.rows_per_s()
        return missing / rate if rate > 0 else None

    def silence_s(self, now: float) -> float:
        """For how long nothing has moved, 0 while that is not worth a word."""
        silent = now - self._moved_at if self._moved_at is not None else 0.0
        return silent if silent >= _SILENCE_S else 0.0
