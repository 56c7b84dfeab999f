"""A schema change as one frozen record: what was asked, how far it is, and why it waits.

The JSON of this record is `job_meta` in `mysql.tidb_ddl_job` and `mysql.tidb_ddl_history`. Its
field names are those of seed 001 and of TiDB's today; what is our own begins with `exuvia_`. A job
is replaced to change (`evolve`).

    raw_args by action
    create schema    [DatabaseInfo]                      drop schema   []
    create table     [TableInfo]                         drop table    []
    add column       [ColumnInfo, {"after": name|null}]  drop column   [name]
    add index        [IndexInfo, ...]                    drop index    [name, ...]
    add primary key  [IndexInfo]                         drop primary key [name]
"""

from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec.structs import replace as evolve

from exuvia.base.errors import Refused
from exuvia.base.types import pack_date, pack_datetime
from exuvia.catalog.model import DatabaseInfo
from exuvia.catalog.model import TableInfo as Table
from exuvia.catalog.state import STATE_TEXT, SchemaState
from exuvia.ddl.codes import ACTION_TEXT, IN_HISTORY, JOB_STATE_TEXT, ActionCode, JobState

ROW_COLUMNS = (
    "JOB_ID",
    "DB_NAME",
    "TABLE_NAME",
    "JOB_TYPE",
    "SCHEMA_STATE",
    "SCHEMA_ID",
    "TABLE_ID",
    "ROW_COUNT",
    "CREATE_TIME",
    "START_TIME",
    "END_TIME",
    "STATE",
    "COMMENTS",
)


class JobError(msgspec.Struct, frozen=True):
    """The error a job ended with or met last: MySQL's code, SQLSTATE and text."""

    code: int
    state: str
    message: str


class Binlog(msgspec.Struct, frozen=True, kw_only=True):
    """What the finished job left behind (names of seed 001)."""

    SchemaVersion: int = 0
    DBInfo: DatabaseInfo | None = None
    TableInfo: Table | None = None
    FinishedTS: int = 0


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A schema change, fields in the order of seed 001. Timestamps: see `timestamp`."""

    id: int = 0
    type: ActionCode
    schema_id: int = 0
    table_id: int = 0
    schema_name: str = ""
    table_name: str = ""
    state: JobState = JobState.QUEUEING
    err: JobError | None = None
    err_count: int = 0
    row_count: int = 0
    raw_args: tuple[Any, ...] = ()
    schema_state: SchemaState = SchemaState.ABSENT
    snapshot_ver: int = 0
    real_start_ts: int = 0
    start_ts: int = 0
    dependency_id: int = 0
    query: str = ""
    binlog: Binlog = Binlog()
    version: int = 1
    reorg_meta: dict[str, Any] | None = None
    multi_schema_info: dict[str, Any] | None = None
    priority: int = 0
    seq_num: int = 0
    charset: str = "utf8mb4"
    collate: str = "utf8mb4_bin"
    involving_schema_info: tuple[dict[str, Any], ...] = ()
    admin_operator: int = 0
    last_schema_version: int = 0
    exuvia_elements: tuple[int, ...] = ()
    exuvia_wait: str = ""
    exuvia_note: str = ""

    @property
    def in_history(self) -> bool:
        """True once nothing will change any more."""
        return self.state in IN_HISTORY

    @property
    def begun(self) -> bool:
        """True once its first step was taken."""
        return self.real_start_ts != 0

    @property
    def action_text(self) -> str:
        """JOB_TYPE, as in "add index"."""
        return ACTION_TEXT[self.type]

    def error(self) -> Refused | None:
        """What the statement that asked for this job raises, or None when it succeeded."""
        if self.state == JobState.SYNCED:
            return None
        if self.err is None:
            return Refused(8214, "HY000", "Cancelled DDL job")
        return Refused(self.err.code, self.err.state, self.err.message)

    def describe(self) -> str:
        """The job as ADMIN SHOW DDL prints it in RUNNING_JOBS."""
        error = self.err.message if self.err else "<nil>"
        return (
            f"ID:{self.id}, Type:{self.action_text}, State:{JOB_STATE_TEXT[self.state]}, "
            f"SchemaState:{STATE_TEXT[self.schema_state]}, SchemaID:{self.schema_id}, "
            f"TableID:{self.table_id}, RowCount:{self.row_count}, ArgLen:{len(self.raw_args)}, "
            f"start time: {timestamp_text(self.start_ts)}, Err:{error}, "
            f"ErrCount:{self.err_count}, SnapshotVersion:{self.snapshot_ver}, "
            f"Version: v{self.version}"
        )

    def row(self) -> tuple[Any, ...]:
        """The row of ADMIN SHOW DDL JOBS (`ROW_COLUMNS`); times: packed DATETIME in UTC or None."""
        return (
            self.id,
            self.schema_name,
            self.table_name,
            self.action_text,
            STATE_TEXT[self.schema_state],
            self.schema_id,
            self.table_id,
            self.row_count,
            packed_time(self.start_ts),
            packed_time(self.real_start_ts),
            packed_time(self.binlog.FinishedTS) if self.in_history else None,
            JOB_STATE_TEXT[self.state],
            ", ".join(part for part in (self.exuvia_note, self.exuvia_wait) if part),
        )


def timestamp(wall_ns: int) -> int:
    """A TSO-like u64 of wall time: milliseconds << 18. For display only (law 3)."""
    return wall_ns // 1_000_000 << 18


def _moment(stamp: int) -> datetime:
    return datetime.fromtimestamp((stamp >> 18) / 1000, UTC)


def packed_time(stamp: int) -> int | None:
    """A `timestamp` as a packed DATETIME in UTC; None for 0."""
    if not stamp:
        return None
    at = _moment(stamp)
    date = pack_date(at.year, at.month, at.day)
    return pack_datetime(date, at.hour, at.minute, at.second, at.microsecond)


def timestamp_text(stamp: int) -> str:
    """A `timestamp` as "2026-01-31 12:00:00.000 +0000 UTC"; the zero stamp is 1970."""
    return f"{_moment(stamp).isoformat(' ', 'milliseconds')[:-6]} +0000 UTC"


def encode(job: Job) -> bytes:
    """`job_meta`: the record as JSON."""
    return msgspec.json.encode(job)


_DECODER = msgspec.json.Decoder(Job)


def decode(job_meta: bytes) -> Job:
    """Inverse of `encode`; unknown fields are ignored, missing ones have their defaults."""
    return _DECODER.decode(job_meta)


def failed(job: Job, error: Refused) -> Job:
    """The job with that error noted."""
    return evolve(job, err=JobError(error.code, error.state, error.message))


__all__ = [
    "ROW_COLUMNS",
    "ActionCode",
    "Binlog",
    "Job",
    "JobError",
    "JobState",
    "decode",
    "encode",
    "evolve",
    "failed",
    "packed_time",
    "timestamp",
    "timestamp_text",
]
