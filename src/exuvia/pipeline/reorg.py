"""A reorg: indexes filled from their table's rows, then verified. The object that a job's worker
steps.

    spans finished before  <- mysql.tidb_ddl_reorg
    loop    missing spans, cut anew -> a wave of fill tasks -> outcomes, until none is missing
    then    verification's waves -> no fault -> Done

Small tables (exuvia_pipeline_inline_rows) are done in this process, a transaction a step; others
on Spark, where a step only looks. The life of a reorg is a generator that can be begun anew at any
time: all it knows is in the store.
"""

import time
from collections.abc import Callable, Generator

import msgspec

from exuvia.base.errors import Conflict, Deposed, Refused, Unavailable
from exuvia.catalog.table import Table
from exuvia.kv.store import Store
from exuvia.pipeline import checkpoint, task
from exuvia.pipeline.executor import Executor
from exuvia.pipeline.kernels.entries import LEAST_SPAN_ROWS, run_rows
from exuvia.pipeline.kernels.summary import LEAST_ROWS, Gathered, Keep, Summary
from exuvia.pipeline.progress import Done, Duplicates, Failed, Progress, Rate, Running, Waiting
from exuvia.pipeline.settings import Dial, PipelineSettings, Variables
from exuvia.pipeline.spans import cut
from exuvia.pipeline.spark import Spark
from exuvia.pipeline.task import MOST_DUPLICATES, FoundDuplicate, Outcome, Task, TaskOrder
from exuvia.pipeline.verify import judge
from exuvia.pipeline.verify.compare import sample, verification
from exuvia.pipeline.verify.judge import Fault

_WAVE_TASKS = 64
_RETRY_S = 1.0

Life = Generator[Progress, None, None]


class Reorg:
    """See the module. `spark` None: always in this process. One thread steps it."""

    whole_rows = 0  # of the table that this is a partition of
    _missing = 0  # spans that are not finished
    keep: Keep | None = None  # who is given the statistics of what is filled, where they are wanted
    summary: Summary | None = None  # of all rows, once it is done
    _gathered: Gathered | None = None
    _at_least = False  # some spans were not searched for duplicates to the end

    def __init__(
        self,
        store: Store,
        job_id: int,
        epoch: int,
        table: Table,
        index_ids: list[int],
        spark: Spark | None = None,
        dial: Dial | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._table = table
        self.order = TaskOrder(
            job_id=job_id,
            epoch=epoch,
            info=table.info,
            revision=table.revision,
            database=table.database,
            database_revision=table.database_revision,
            index_ids=tuple(index_ids),
            evaluator=table.evaluator,
            physical_id=table.physical_id,
        )
        self._own = self.order  # what it is about, while `order` is what tasks are about
        self._dial = dial or Variables(store, monotonic, job_id=job_id)
        self._crew = Executor(store, spark, self._dial, monotonic)
        self._rate = Rate()
        self._now = 0.0
        self._again_at = 0.0
        self._reason = ""
        self._rows = 0
        self._total = 0
        self._known = False
        self._kernel = "fill"
        self._finished = 0
        self._ended: Progress | None = None
        self._life = self._live()
        self.spans_done = 0
        self.spans_skipped = 0

    def step(self, now: float) -> Progress:
        """Go on a little. Raises Deposed."""
        self._now = now
        if self._ended is not None:
            return self._ended
        if now < self._again_at:
            return Waiting(self._reason, self._rows, self._again_at - now)
        try:
            reached = next(self._life)
        except (Unavailable, Conflict) as error:
            return self._pause(str(error))
        except Refused as error:
            reached = Failed(error)
        if isinstance(reached, (Done, Duplicates, Failed)):
            self._ended = reached
        return reached

    def stop(self) -> None:
        """Let everything go, tasks too. A later step begins anew from what is finished."""
        self._crew.cancel()
        self._life.close()
        self._life = self._live()

    def _pause(self, reason: str) -> Waiting:
        """What stopped it may be that it was left long ago. Raises Deposed."""
        self.stop()
        self._check_epoch()
        self._reason, self._again_at = reason, self._now + _RETRY_S
        return Waiting(reason, self._rows, _RETRY_S)

    # -- as one of many ------------------------------------------------------------------------

    def found_whole(self) -> Done | None:
        """What an earlier driver did, if it finished everything, verification too."""
        txn = self._store.begin()
        try:
            return checkpoint.whole(txn, self._own)
        finally:
            txn.rollback()

    def keep_whole(self, rows: int) -> None:
        """Let a later driver know that everything is finished. Raises Conflict, Deposed."""
        txn = self._store.begin()
        try:
            for fence in self._own.fences:
                txn.require_equal(*fence)
            checkpoint.put_whole(txn, self._own, self._table.row_span(), rows)
            txn.commit()
        finally:
            txn.rollback()

    # -- the life of a reorg ---------------------------------------------------------------------

    def _check_epoch(self) -> None:
        """Raises Deposed: while it only reads nobody would tell it, and it would wait for ever."""
        txn = self._store.begin()
        try:
            if any(txn.get(key) != payload for key, payload in self.order.fences):
                raise Deposed("the reorg was left")
        finally:
            txn.rollback()

    def _live(self) -> Life:
        self._check_epoch()
        settings = self._dial.read()
        self._total = self._store.count(self._table.row_span())
        self._choose(settings)
        rows = max(self._total, self.whole_rows)
        wants = self.keep is not None and settings.statistics and rows >= LEAST_ROWS
        if wants and self._gathered is None:
            self._gathered = Gathered(self.order, rows)
        duplicates = yield from self._fill()
        if duplicates:
            yield self._refusal(duplicates)
            return
        faults = yield from self._verify(settings.verify)
        if faults:
            name = self._table.info.name.O
            yield Failed(faults[0].refusal(name))
            return
        if self.keep is not None and self._gathered is not None:
            self.summary = self._gathered.whole(self._table.row_span())
            if self.summary is not None:
                self.keep(self.order, self._table, self.summary)
        yield Done(self._rows, self.spans_done, self.spans_skipped)

    def _choose(self, settings: PipelineSettings) -> None:
        """Who does it, by the rows of the whole table."""
        self._crew.choose(max(self._total, self.whole_rows) <= settings.inline_rows)

    def _fill(self) -> Generator[Progress, None, list[FoundDuplicate]]:
        """Waves of fill tasks until no span is missing, or duplicates were found."""
        while True:
            base, tasks = self._plan()
            if not tasks:
                self._rows = base
                return []
            if self._gathered is not None:
                tasks = self._gathered.asking(tasks)
            outcomes = yield from self._run(tasks, "fill", base)
            if self._gathered is not None:
                self._gathered.take(tasks, outcomes)
            self.spans_done += sum(outcome.kind == task.DONE for outcome in outcomes)
            duplicates = [found for outcome in outcomes for found in outcome.duplicates]
            if duplicates:
                full = any(len(each.duplicates) >= MOST_DUPLICATES for each in outcomes)
                self._at_least = full or len(tasks) < self._missing
                return duplicates

    def _plan(self) -> tuple[int, list[Task]]:
        """Rows finished so far, and a wave of tasks for what is missing."""
        txn = self._store.begin()
        try:
            finished = checkpoint.finished(txn, self.order, self._store.count)
            self.order = msgspec.structs.replace(
                self.order, run=txn.sequence, at_once=self._crew.at_once
            )
        finally:
            txn.rollback()
        if not self._known:
            self._known, self.spans_skipped = True, finished.number
        if finished.number > self._finished:
            self._finished = finished.number
            self._crew.moved()
        missing = finished.spans.missing(self._table.row_span())
        whole = self._total if missing == [self._table.row_span()] else None
        at_once = self._crew.at_once
        rows = self._span_rows()
        uneven = self._kernel == "fill" and rows >= LEAST_SPAN_ROWS
        spans = cut(self._store, missing, rows, whole, at_once, uneven)
        self._missing = len(spans)
        tasks = [
            Task(kind=self._kernel, order=self.order, span=span, ordinal=n)
            for n, span in enumerate(spans[:_WAVE_TASKS])
        ]
        return finished.rows, tasks

    def _span_rows(self) -> int:
        wanted = self._dial.read().span_rows
        return run_rows(self._table, self.order.index_ids, wanted, self._kernel == "fill")

    def _verify(self, mode: str) -> Generator[Progress, None, list[Fault]]:
        if mode == "off":
            return []
        if mode == "sample":
            return [
                fault
                for index in self._table.info.indexes
                if index.id in self.order.index_ids
                for fault in sample(self._store, self._table, index)
            ]
        yield self._running("verify", 0.0)
        facts = self._store, self.order, self._span_rows(), self._total, self._crew.at_once
        waves = verification(*facts)
        outcomes: list[Outcome] | None = None
        while True:
            try:
                tasks = waves.send(outcomes) if outcomes is not None else next(waves)
            except StopIteration as end:
                faults: list[Fault] = end.value
                return faults
            outcomes = yield from self._run(tasks, "verify", self._rows)

    def _run(
        self, tasks: list[Task], phase: str, base: int
    ) -> Generator[Progress, None, list[Outcome]]:
        """Have tasks done; their outcomes in the tasks' order. Raises what stopped them."""
        self._crew.start(f"exuvia-job-{self.order.job_id}", tasks)
        while not self._crew.done():
            wake_s = self._crew.step()
            if phase == "fill":
                self._look(base)
            if not self._crew.done():
                yield self._running(phase, wake_s)
        outcomes = self._crew.outcomes()
        if phase == "fill":
            self._look(base)
        return outcomes

    def _look(self, base: int) -> None:
        """Count rows: those of finished spans, and what running tasks say."""
        txn = self._store.begin()
        try:
            self._rows = base + sum(p.rows for p in checkpoint.read_progress(txn, self.order))
        finally:
            txn.rollback()
        self._rate.seen(self._now, self._rows)

    def _running(self, phase: str, wake_s: float) -> Running:
        missing = max(0, self._total - self._rows)
        eta_s = self._rate.eta_s(missing) if phase == "fill" else None
        settings = self._dial.read()
        note = self._note()
        silent_s = self._rate.silence_s(self._now) if phase == "fill" else 0.0
        if silent_s or not (self._rows or self._crew.is_started):
            note = f"{self._crew.excuse(settings)}: no row for {silent_s:.0f} s; {note}"
        rate = self._rate.rows_per_s() if phase == "fill" else 0.0
        return Running(self._rows, rate, eta_s, phase, note, wake_s)

    def _note(self) -> str:
        """Spans so far, those of earlier drivers apart."""
        before = f", {self.spans_skipped} before a restart" if self.spans_skipped else ""
        return f"spans done: {self.spans_done}{before}"

    def _refusal(self, found: list[FoundDuplicate]) -> Duplicates:
        """All of them in words, and as 1062 with their number."""
        error = judge.duplicates_refusal(self._table, found, len(found), at_least=self._at_least)
        return Duplicates([each.text for each in found[:MOST_DUPLICATES]], error)
