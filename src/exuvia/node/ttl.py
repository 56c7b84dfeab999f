"""Jobs that delete expired rows (catalog/ttl.py), as TiDB's TTL jobs do.

    mysql.tidb_ttl_table_status   a row for each table, or partition, whose rows expire
    mysql.tidb_ttl_task           the work and the progress of a job
    mysql.tidb_ttl_job_history    jobs that run and jobs that ended, for 90 days

    due, a slot is free      its last job began TTL_JOB_INTERVAL ago, and a second at least, or it
                             never had one -> a job
    running                  reads rows piece by piece; deletes those that expired before the job
                             began, some rows a transaction
    the end of the rows, or TTL_ENABLE='OFF', REMOVE TTL, a drop, tidb_ttl_job_enable=OFF, outside
    the window, six hours    the job ends: history shows its progress

The owner of `gc` schedules and runs all jobs, in one loop. It looks for due and finished jobs when
a schema version or a variable has changed, and when a job is due or has ended. Its writes require
its term, so a deposed owner deletes nothing. Its successor continues from the last transaction,
because the rows deleted and the task's progress are one transaction.

Only expired rows are deleted. A scan only proposes rows. The deleting transaction reads each row
again on the newest snapshot, as a client's DELETE does, with the TTL that the table has then. Rows
changed in the meantime are retained, and so are all rows if TTL was switched off.

Deletes use the same code as clients' DELETE (node/ttl_rows.py). Rows of a table that a foreign key
refers to are not deleted, so nothing cascades. Statements refuse to combine the two. But a foreign
key to a table that did not exist may find it after a RENAME.

A row locked by a client is retried later, alone. After TRIES it is counted as an error; the next
job tries again.

Under concurrent load a TTL job yields to clients as a reorg does: the same controller limits its
share of the time (pipeline/throttle.py). TiDB runs its workers on every node. Here at most
tidb_ttl_scan_worker_count jobs take turns, or tidb_ttl_running_tasks if it is set and lower.
tidb_ttl_delete_worker_count has no effect.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from datetime import tzinfo
from typing import NamedTuple, Protocol

import msgspec

from exuvia.base.clock import Clock
from exuvia.base.daily_window import is_open
from exuvia.base.decoding import json_decoder
from exuvia.base.errors import Conflict, Deposed, Refused, Unavailable
from exuvia.base.types import Family, TypeCode, packed_moment
from exuvia.catalog import meta, reader, writer
from exuvia.catalog.codec.key_codec import handle_from
from exuvia.catalog.codec.row_codec import Row
from exuvia.catalog.infoschema import Schemas
from exuvia.catalog.model import ColumnInfo, SchemaState, TableInfo
from exuvia.catalog.system_tables import SYSTEM, planned
from exuvia.catalog.sysvar import variables
from exuvia.catalog.table import Table
from exuvia.catalog.temporal import shift_zone, to_moment, zone_of
from exuvia.catalog.ttl import amount_of, column_of, duration_s
from exuvia.cluster.member import Member
from exuvia.cluster.owner import Campaign
from exuvia.kv import keys
from exuvia.kv.packet import Equal, Span
from exuvia.kv.store import Store
from exuvia.kv.transaction import Transaction
from exuvia.pipeline.settings import Variables
from exuvia.pipeline.throttle import ShareController, TaskPace
from exuvia.sql.functions.moment import add

STATUS, TASK, HISTORY = "tidb_ttl_table_status", "tidb_ttl_task", "tidb_ttl_job_history"
RUNNING, FINISHED = "running", "finished"
IDLE_S = 10.0
LOOK_S = 10.0  # notices a window that closes, a job that is too old
SAVE_PROGRESS_S = 1.0
LEAST_S = 1.0  # between two jobs of a table: the interval may be '0h'
RETRY_S = 1.0
SCANNED_ROWS = 5_000
TRIES = 3
MOST_S = 6 * 3600
KEPT_S = 90 * 86400
FORGOTTEN = 100  # rows of history in the transaction that ends a job
SHARE_ID = SYSTEM[TASK].id  # no job's number: jobs and tables are numbered together

_log = logging.getLogger(__name__)


# -- rows of the system tables ---------------------------------------------------------------------


class TtlStatus(NamedTuple):
    """A row of mysql.tidb_ttl_table_status. Moments are packed, in UTC."""

    table_id: int
    parent_table_id: int
    table_statistics: str | None = None
    last_job_id: str | None = None
    last_job_start_time: int | None = None
    last_job_finish_time: int | None = None
    last_job_ttl_expire: int | None = None
    last_job_summary: str | None = None
    current_job_id: str | None = None
    current_job_owner_id: str | None = None
    current_job_owner_addr: str | None = None
    current_job_owner_hb_time: int | None = None
    current_job_start_time: int | None = None
    current_job_ttl_expire: int | None = None
    current_job_state: str | None = None
    current_job_status: str | None = None
    current_job_status_update_time: int | None = None


class TtlTask(NamedTuple):
    """A row of mysql.tidb_ttl_task. A job has one task for all of its rows."""

    job_id: str
    table_id: int
    scan_id: int
    scan_range_start: bytes | None
    scan_range_end: bytes | None
    expire_time: int
    owner_id: str
    owner_addr: str
    owner_hb_time: int
    status: str
    status_update_time: int
    state: str
    created_time: int


class TtlHistory(NamedTuple):
    """A row of mysql.tidb_ttl_job_history."""

    job_id: str
    table_id: int
    parent_table_id: int
    table_schema: str
    table_name: str
    partition_name: str | None
    create_time: int
    finish_time: int
    ttl_expire: int
    summary_text: str | None = None
    expired_rows: int | None = None
    deleted_rows: int | None = None
    error_delete_rows: int | None = None
    status: str = RUNNING


class TtlProgress(msgspec.Struct, frozen=True):
    """`state` of a task. `exuvia_reached`: rows below this key are done; in hex."""

    total_rows: int = 0
    success_rows: int = 0
    error_rows: int = 0
    scan_task_err: str = ""
    exuvia_reached: str = ""

    def counted(self, total: int, success: int, error: int) -> "TtlProgress":
        """The progress after these additional rows."""
        return msgspec.structs.replace(
            self,
            total_rows=self.total_rows + total,
            success_rows=self.success_rows + success,
            error_rows=self.error_rows + error,
        )


class TtlSummary(msgspec.Struct, frozen=True, omit_defaults=True):
    """The summary as TiDB writes it into the status and the history."""

    total_rows: int
    success_rows: int
    error_rows: int
    total_scan_task: int
    scheduled_scan_task: int
    finished_scan_task: int
    scan_task_err: str = ""


_progress = json_decoder(TtlProgress)


def _put(txn: Transaction, table_name: str, row: Row, key: tuple[object, ...]) -> None:
    """Write the row, replacing the row with the same primary key."""
    table = planned(txn, table_name)
    handle = handle_from(table, key)
    before = reader.get(txn, table, handle)
    if before is None:
        writer.insert(txn, table, row)
    else:
        writer.update(txn, table, handle, before, row)


def _get(txn: Transaction, table_name: str, key: tuple[object, ...]) -> Row | None:
    table = planned(txn, table_name)
    return reader.get(txn, table, handle_from(table, key))


def _delete(txn: Transaction, table_name: str, key: tuple[object, ...]) -> None:
    table = planned(txn, table_name)
    handle = handle_from(table, key)
    before = reader.get(txn, table, handle)
    if before is not None:
        writer.delete(txn, table, handle, before)


def statuses(txn: Transaction) -> Iterator[TtlStatus]:
    """Every row of mysql.tidb_ttl_table_status, by table id."""
    for _, row in reader.scan(txn, planned(txn, STATUS)):
        yield TtlStatus._make(row)


def _seconds(packed: int) -> int:
    """The packed moment in whole seconds, as the columns store it."""
    return packed >> 20 << 20


def _elapsed_s(since: int, until: int) -> float:
    return (to_moment(until) - to_moment(since)).total_seconds()


# -- what has expired ------------------------------------------------------------------------------


def expire_time(info: TableInfo, now: int, zone: tzinfo | None) -> int:
    """The moment before which a row has expired. Packed, in UTC, as `now` is. Raises Refused."""
    ttl = info.exuvia_ttl
    assert ttl is not None, info.name.O
    local = add(shift_zone(now, None, zone), amount_of(ttl), ttl.unit, -1)
    return 0 if local is None else _seconds(shift_zone(local, zone, None))


def expiry_limit(column: ColumnInfo, expire: int, zone: tzinfo | None) -> int:
    """The exclusive upper limit of expired values, in the form stored in rows."""
    if column.type.Tp == TypeCode.TIMESTAMP:
        return expire
    local = shift_zone(expire, None, zone) if expire else 0
    return ((local - 1) >> 37) + 1 if column.type.family == Family.DATE else local


class TtlSettings(NamedTuple):
    """The settings of TTL jobs. `per_s`: deletes a second; 0 means no limit."""

    may_run: bool
    scan_rows: int
    delete_rows: int
    per_s: int
    at_once: int
    zone: tzinfo | None

    @staticmethod
    def read(txn: Transaction, wall_s: float) -> "TtlSettings":
        begins = variables.get_global(txn, "tidb_ttl_job_schedule_window_start_time")
        ends = variables.get_global(txn, "tidb_ttl_job_schedule_window_end_time")
        at_once = variables.read_int(txn, "tidb_ttl_scan_worker_count")
        tasks = variables.read_int(txn, "tidb_ttl_running_tasks")
        return TtlSettings(
            jobs_are_enabled(txn) and is_open(begins, ends, wall_s),
            variables.read_int(txn, "tidb_ttl_scan_batch_size"),
            variables.read_int(txn, "tidb_ttl_delete_batch_size"),
            variables.read_int(txn, "tidb_ttl_delete_rate_limit"),
            at_once if tasks < 1 else min(at_once, tasks),
            zone_of(variables.get_global(txn, "time_zone")),
        )


def jobs_are_enabled(txn: Transaction) -> bool:
    return variables.read_flag(txn, "tidb_ttl_job_enable")


def _is_barred(txn: Transaction, info: TableInfo) -> bool:
    """Whether an import or a foreign key forbids to delete the table's rows now."""
    return bool(info.exuvia_import_id or meta.with_children(txn, info).exuvia_referred)


# -- jobs ------------------------------------------------------------------------------------------


class _Unwanted(Exception):
    """Rows of the table are no longer to be deleted."""


class TtlJob:
    """A running job in its owner's memory.

    `pending`: rows to delete, and the number of attempts. Rows below `reached` are done once it is
    empty."""

    def __init__(self, status: TtlStatus, task: TtlTask) -> None:
        self.number = task.job_id
        self.table_id = status.parent_table_id
        self.physical_id = status.table_id
        self.expire = task.expire_time
        self.began = status.current_job_start_time or task.created_time
        self.progress = _progress.decode(task.state or "{}")
        self.reached = bytes.fromhex(self.progress.exuvia_reached)
        self.pending: deque[tuple[list[bytes], int]] = deque()
        self.saved_at = 0.0


class TtlTarget(NamedTuple):
    """A table or partition whose rows expire by jobs."""

    table: Table
    part: Table

    @property
    def partition(self) -> str | None:
        cut = self.table.info.partition
        ids = (
            {} if cut is None else {partition.id: partition.name.O for partition in cut.definitions}
        )
        return ids.get(self.part.physical_id)


class RowDeleter(Protocol):
    """Deletes rows (node/ttl_rows.py)."""

    def delete(
        self,
        table_id: int,
        handles: Sequence[bytes],
        judge: Callable[[Transaction, Table | None], tuple[Table, int, int]],
        note: Callable[[Transaction, int], None],
    ) -> int:
        """Delete those of the rows that have expired, in one transaction. Returns their number."""


class _Driver(NamedTuple):
    """The attributes that ShareController needs of its client."""

    job_id: int
    fences: list[Equal]


class TtlWorker:
    """A loop of every back; only the owner of `gc` runs jobs.

    `deleter` opens a RowDeleter. It is called once there are rows to delete."""

    channel = "version"

    def __init__(
        self,
        store: Store,
        schemas: Schemas,
        member: Member,
        campaign: Campaign,
        clock: Clock,
        deleter: Callable[[], RowDeleter],
    ) -> None:
        self._store = store
        self._schemas = schemas
        self._member = member
        self._campaign = campaign
        self._clock = clock
        self._open_deleter = deleter
        self._deleter: RowDeleter | None = None
        self._dial = Variables(store, clock.monotonic, job_id=SHARE_ID)
        self._pace = TaskPace(clock.monotonic)
        self._reset()

    def _reset(self) -> None:
        """Forget all jobs: another owner may have taken them over."""
        self._term = 0
        self._jobs: deque[TtlJob] = deque()
        self._settings: TtlSettings | None = None
        self._last_counters: tuple[int, ...] = ()
        self._look_at = 0.0
        self._delete_at = 0.0
        self._share: ShareController | None = None

    @property
    def running(self) -> int:
        """Number of jobs that run here."""
        return len(self._jobs)

    def step(self, now: float) -> float:
        """Look for jobs, or do a piece of one. Returns the seconds until the next step."""
        if not self._campaign.is_owner:
            if self._term:
                self._reset()
            return IDLE_S
        if self._campaign.term != self._term:
            self._reset()
            self._term = self._campaign.term
        try:
            counters = tuple(map(self._store.counter, ("version", "variable")))
            if counters != self._last_counters or now >= self._look_at:
                self._look(now)
                self._last_counters = counters
            if not self._jobs:
                return max(0.0, self._look_at - now)
            return self._work(now)
        except Deposed:
            self._campaign.deposed()
            self._reset()
        except (Conflict, Unavailable):
            self._reset()  # the next look takes the jobs over again
        except Exception:
            self._reset()
            raise
        return RETRY_S

    def _now(self) -> int:
        return packed_moment(self._clock.wall_ns())

    # -- which jobs there are to be ----------------------------------------------------------------

    def _look(self, now: float) -> None:
        """End jobs that must end, forget dropped tables, start jobs that are due."""
        with self._store.read() as txn:
            last_statuses = {row.table_id: row for row in statuses(txn)}
            targets, with_ttl = self._targets(txn)
            if last_statuses or with_ttl:
                self._settings = TtlSettings.read(txn, self._clock.wall_ns() / 1e9)
        here = {job.physical_id for job in self._jobs}
        for status in last_statuses.values():
            if status.current_job_id is not None:
                why = self._why_not(status, targets)
                if why:
                    self._end(status, why)
                elif status.table_id not in here:
                    self._take_over(status)
        for table_id in last_statuses.keys() - with_ttl:
            self._forget(table_id)
        self._look_at = now + self._begin(targets, last_statuses)
        if not self._jobs:
            self._give_back_share()

    def _targets(self, txn: Transaction) -> tuple[dict[int, TtlTarget], set[int]]:
        """Targets by physical id, and the physical ids of all tables with TTL, enabled or not."""
        targets, with_ttl = {}, set()
        for table_id in meta.ttl_tables(txn):
            table = self._schemas.table_by_id(txn, table_id)
            if table is None or table.info.state != SchemaState.PUBLIC or not table.info.exuvia_ttl:
                continue
            enabled = table.info.exuvia_ttl.enable and not _is_barred(txn, table.info)
            cut = table.info.partition
            unused = cut.unused if cut is not None else frozenset()
            for part in table.parts:
                with_ttl.add(part.physical_id)
                if enabled and part.physical_id not in unused:
                    targets[part.physical_id] = TtlTarget(table, part)
        return targets, with_ttl

    def _why_not(self, status: TtlStatus, targets: dict[int, TtlTarget]) -> str:
        """The reason why the job must end, or ""."""
        assert self._settings is not None
        began = status.current_job_start_time
        target = targets.get(status.table_id)
        if target is None:
            return "its rows do not expire any more, or an import or a foreign key forbids it"
        if target.table.info.id != status.parent_table_id:
            return "its partition belongs to another table now"  # EXCHANGE PARTITION
        if not self._settings.may_run:
            return "tidb_ttl_job_enable is OFF, or the schedule's window has closed"
        if began is None or _elapsed_s(began, self._now()) >= MOST_S:
            return "it has run for six hours"
        return ""

    def _begin(self, targets: dict[int, TtlTarget], last_statuses: dict[int, TtlStatus]) -> float:
        """Start jobs that are due, up to the limit. Returns the seconds until the next look."""
        if not targets:
            return LOOK_S
        assert self._settings is not None
        if not self._settings.may_run:
            return LOOK_S
        here = {job.physical_id for job in self._jobs}
        now, due = self._now(), []
        for physical_id, target in targets.items():
            last = last_statuses.get(physical_id)
            began = None if last is None else last.last_job_start_time
            ttl = target.table.info.exuvia_ttl
            assert ttl is not None, physical_id
            if physical_id not in here:
                left_s = 0.0 if began is None else max(LEAST_S, duration_s(ttl.job_interval))
                due.append((left_s - (_elapsed_s(began, now) if began else 0.0), physical_id))
        for left_s, physical_id in sorted(due):
            if left_s > 0:
                return min(LOOK_S, left_s)
            if len(self._jobs) >= self._settings.at_once:
                break
            self._start(targets[physical_id], last_statuses.get(physical_id))
        return LOOK_S

    def _start(self, target: TtlTarget, last: TtlStatus | None) -> None:
        assert self._settings is not None
        zone, info, now = self._settings.zone, target.table.info, _seconds(self._now())
        expire = expire_time(info, self._now(), zone)

        def start(txn: Transaction) -> TtlJob:
            self._campaign.guard(txn)
            number = f"{meta.next_ids(txn):020d}"
            status = (last or TtlStatus(target.part.physical_id, info.id))._replace(
                parent_table_id=info.id,
                current_job_id=number,
                current_job_start_time=now,
                current_job_ttl_expire=expire,
                current_job_state=None,
                current_job_status=RUNNING,
                current_job_status_update_time=now,
            )
            task = TtlTask(
                number,
                status.table_id,
                0,
                None,
                None,
                expire,
                *("", "", now),
                RUNNING,
                now,
                msgspec.json.encode(TtlProgress()).decode(),
                now,
            )
            names = target.table.database.db_name.O, info.name.O, target.partition
            history = TtlHistory(
                number, status.table_id, info.id, *names, now, now, expire, status=RUNNING
            )
            _put(txn, HISTORY, list(history), (number,))
            return self._own(txn, status, task)

        self._jobs.append(self._store.transact(start))

    def _own(self, txn: Transaction, status: TtlStatus, task: TtlTask) -> TtlJob:
        """Make this member the job's owner."""
        now, own = _seconds(self._now()), (self._member.id, self._member.info.address)
        status = status._replace(
            current_job_owner_id=own[0],
            current_job_owner_addr=own[1],
            current_job_owner_hb_time=now,
        )
        task = task._replace(owner_id=own[0], owner_addr=own[1][:64], owner_hb_time=now)
        _put(txn, STATUS, list(status), (status.table_id,))
        _put(txn, TASK, list(task), (task.job_id, task.scan_id))
        return TtlJob(status, task)

    def _take_over(self, status: TtlStatus) -> None:
        """Take over a job of another owner, or of this one in a former term."""

        def take(txn: Transaction) -> TtlJob | None:
            self._campaign.guard(txn)
            row = _get(txn, TASK, (status.current_job_id, 0))
            return None if row is None else self._own(txn, status, TtlTask._make(row))

        job = self._store.transact(take)
        if job is None:
            self._end(status, "the row of its task is missing")
        else:
            self._jobs.append(job)

    def _forget(self, table_id: int) -> None:
        """Delete the status of a dropped table, or of one without TTL, once its job has ended."""

        def forget(txn: Transaction) -> None:
            self._campaign.guard(txn)
            row = _get(txn, STATUS, (table_id,))
            if row is not None and TtlStatus._make(row).current_job_id is None:
                _delete(txn, STATUS, (table_id,))

        self._store.transact(forget)

    def _end(self, status: TtlStatus, why: str = "") -> None:
        """End the job. `why`: the reason if it has not reached the end of the rows."""

        def end(txn: Transaction) -> TtlSummary | None:
            self._campaign.guard(txn)
            row = _get(txn, STATUS, (status.table_id,))
            if row is None or TtlStatus._make(row).current_job_id != status.current_job_id:
                return None
            return self._ended(txn, TtlStatus._make(row), why)

        summary = self._store.transact(end)
        ended = [job for job in self._jobs if job.number == status.current_job_id]
        for job in ended:
            self._jobs.remove(job)
        if summary is not None:
            about = {"job": status.current_job_id, "table": status.table_id}
            _log.info("a TTL job has ended", extra={**about, **msgspec.structs.asdict(summary)})

    def _ended(self, txn: Transaction, status: TtlStatus, why: str) -> TtlSummary:
        number, now = status.current_job_id, _seconds(self._now())
        row = _get(txn, TASK, (number, 0))
        done = TtlProgress() if row is None else _progress.decode(TtlTask._make(row).state)
        counts = done.total_rows, done.success_rows, done.error_rows
        summary = TtlSummary(*counts, 1, 1, int(not why), why or done.scan_task_err)
        text = msgspec.json.encode(summary).decode()
        _delete(txn, TASK, (number, 0))
        row = _get(txn, HISTORY, (number,))
        if row is not None:
            history = TtlHistory._make(row)._replace(
                finish_time=now,
                summary_text=text,
                expired_rows=done.total_rows,
                deleted_rows=done.success_rows,
                error_delete_rows=done.error_rows,
                status=FINISHED,
            )
            _put(txn, HISTORY, list(history), (number,))
        last = TtlStatus(
            status.table_id,
            status.parent_table_id,
            status.table_statistics,
            last_job_id=number,
            last_job_start_time=status.current_job_start_time,
            last_job_finish_time=now,
            last_job_ttl_expire=status.current_job_ttl_expire,
            last_job_summary=text,
        )
        _put(txn, STATUS, list(last), (status.table_id,))
        self._forget_history(txn, now)
        return summary

    def _forget_history(self, txn: Transaction, now: int) -> None:
        """Delete the oldest rows of the history. Job numbers ascend, so the scan is by age."""
        table = planned(txn, HISTORY)
        old: list[tuple[bytes, Row]] = []
        for handle, row in reader.scan(txn, table):
            ended = TtlHistory._make(row)
            is_old = _elapsed_s(ended.create_time, now) > KEPT_S
            if not is_old or len(old) == FORGOTTEN:
                break
            if ended.status != RUNNING:
                old.append((handle, row))
        for handle, row in old:
            writer.delete(txn, table, handle, row)

    # -- what a job does ---------------------------------------------------------------------------

    def _work(self, now: float) -> float:
        """Do a piece of the next job. Returns the seconds to pause."""
        assert self._settings is not None
        if self._share is None:
            term = Equal(keys.meta("term", self._campaign.role), keys.number(self._term))
            self._share = ShareController(self._store, _Driver(SHARE_ID, [term]))
        self._share.step(now)
        self._pace.begin()
        job = self._jobs[0]
        self._jobs.rotate(-1)
        try:
            job.saved_at = job.saved_at or now
            if now >= job.saved_at + SAVE_PROGRESS_S:
                job.saved_at = now
                self._save_progress(job, job.progress)
            if not job.pending:
                self._scan(job)
            elif self._settings.per_s and now < self._delete_at:
                return self._delete_at - now
            else:
                self._delete(job)
                self._delete_at = now + (1 / self._settings.per_s if self._settings.per_s else 0.0)
        except _Unwanted:
            if job in self._jobs:
                self._jobs.remove(job)
            self._last_counters = ()  # the next look ends it or takes it over
            return 0.0
        return self._pace.rest_s(self._dial.read().share)

    def _scan(self, job: TtlJob) -> None:
        """Find expired rows in the next piece. The job ends after the last piece."""
        assert self._settings is not None
        with self._store.read() as txn:
            table = self._schemas.table_by_id(txn, job.table_id)
            part, column = self._judged_by(txn, table, job)
            span = part.row_span()
            span = Span(max(span.start, job.reached), span.end)
            limit = self._limit(part.info, column, job)
            expired, reached = expired_rows(
                txn, part, column, limit, span, self._settings.scan_rows
            )
        size = self._settings.delete_rows
        job.pending.extend((expired[at : at + size], 0) for at in range(0, len(expired), size))
        if reached is None and not expired:
            self._end(self._status_of(job))
            self._last_counters = ()  # another job may wait for this slot
            return
        job.reached = span.end if reached is None else reached

    def _judged_by(
        self, txn: Transaction, table: Table | None, job: TtlJob
    ) -> tuple[Table, ColumnInfo]:
        """The partition and its TTL column. Raises _Unwanted if its rows must not be deleted
        now."""
        info = None if table is None else table.info
        if table is None or info is None or info.exuvia_ttl is None or not info.exuvia_ttl.enable:
            raise _Unwanted
        part = next(
            (partition for partition in table.parts if partition.physical_id == job.physical_id),
            None,
        )
        column = column_of(info)
        cut = info.partition
        is_unused = cut is not None and job.physical_id in cut.unused
        if part is None or is_unused or column is None or info.state != SchemaState.PUBLIC:
            raise _Unwanted
        if _is_barred(txn, info) or not jobs_are_enabled(txn):
            raise _Unwanted
        return part, column

    def _limit(self, info: TableInfo, column: ColumnInfo, job: TtlJob) -> int:
        """The limit for rows that had expired at the job's start and still have: the TTL may be
        longer now."""
        assert self._settings is not None
        zone = self._settings.zone
        return expiry_limit(column, min(job.expire, expire_time(info, self._now(), zone)), zone)

    def _delete(self, job: TtlJob) -> None:
        """Delete some rows in one transaction. If it is refused, each row is retried alone."""
        handles, tries = job.pending.popleft()
        deleter = self._deleter = self._deleter or self._open_deleter()
        done = job.progress

        def judge(txn: Transaction, table: Table | None) -> tuple[Table, int, int]:
            self._campaign.guard(txn)
            part, column = self._judged_by(txn, table, job)
            return part, part.info.cols.index(column), self._limit(part.info, column, job)

        def note(txn: Transaction, deleted: int) -> None:
            nonlocal done
            done = self._put_progress(txn, job, job.progress.counted(len(handles), deleted, 0))

        try:
            deleter.delete(job.table_id, handles, judge, note)
        except Refused as refused:
            self._retry_later(job, handles, tries + 1, refused)
        else:
            job.progress = done

    def _retry_later(self, job: TtlJob, handles: list[bytes], tries: int, refused: Refused) -> None:
        """Schedule rows that were not deleted for a retry, or count one as an error."""
        if tries < TRIES or len(handles) > 1:
            job.pending.extend(([handle], tries) for handle in handles)
            return
        counted = job.progress.counted(len(handles), 0, len(handles))
        self._save_progress(job, msgspec.structs.replace(counted, scan_task_err=refused.message))

    def _save_progress(self, job: TtlJob, done: TtlProgress) -> None:
        """Save the progress and the owner's heartbeat in a transaction without deletes."""

        def write(txn: Transaction) -> TtlProgress:
            self._campaign.guard(txn)
            row = _get(txn, STATUS, (job.physical_id,))
            if row is not None:
                beat = _seconds(self._now())
                status = TtlStatus._make(row)._replace(current_job_owner_hb_time=beat)
                _put(txn, STATUS, list(status), (job.physical_id,))
            return self._put_progress(txn, job, done)

        job.progress = self._store.transact(write)

    def _put_progress(self, txn: Transaction, job: TtlJob, done: TtlProgress) -> TtlProgress:
        """Write the job's progress into the row of its task. Raises _Unwanted if the row is
        gone."""
        row = _get(txn, TASK, (job.number, 0))
        if row is None:
            raise _Unwanted
        if not job.pending:
            done = msgspec.structs.replace(done, exuvia_reached=job.reached.hex())
        state = msgspec.json.encode(done).decode()
        task = TtlTask._make(row)._replace(state=state, owner_hb_time=_seconds(self._now()))
        _put(txn, TASK, list(task), (job.number, 0))
        return done

    def _status_of(self, job: TtlJob) -> TtlStatus:
        with self._store.read() as txn:
            row = _get(txn, STATUS, (job.physical_id,))
        if row is None:
            raise _Unwanted
        return TtlStatus._make(row)

    def _give_back_share(self) -> None:
        if self._share is None:
            return
        self._share = None

        def give(txn: Transaction) -> None:
            self._campaign.guard(txn)
            if txn.get(keys.meta("share", SHARE_ID)) is not None:
                txn.delete(keys.meta("share", SHARE_ID))

        self._store.transact(give)


def expired_rows(
    txn: Transaction, part: Table, column: ColumnInfo, limit: int, span: Span, most: int
) -> tuple[list[bytes], bytes | None]:
    """Handles of at most `most` expired rows among the first SCANNED_ROWS of the span.

    The second value is the key to continue from, or None at the end of the span."""
    from exuvia.catalog.codec import row_batch  # imports Arrow

    position = part.info.cols.index(column)
    for row_keys, raws in txn.snapshot.chunks(span, SCANNED_ROWS):
        columns = row_batch.decode(part, row_keys, raws, txn.snapshot.skip, [position])
        vector = columns.column(position)
        is_old = vector.values < limit
        if vector.nulls is not None:
            is_old &= ~vector.nulls
        places = is_old.nonzero()[0].tolist()
        handles = [row_keys[at][keys.HANDLE_AT :] for at in places[:most]]
        if len(places) > most:
            return handles, row_keys[places[most - 1]] + b"\0"
        return handles, None if len(row_keys) < SCANNED_ROWS else row_keys[-1] + b"\0"
    return [], None
