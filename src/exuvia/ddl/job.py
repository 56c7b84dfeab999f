"""A schema change as one frozen record: the request, its progress, and why it waits.

The JSON of this record is `job_meta` in `mysql.tidb_ddl_job` and `mysql.tidb_ddl_history`. Its
field names are those of seed 001 and of today's TiDB; our own begin with `exuvia_`. A job is
replaced to change (`evolve`).

The content of `raw_args` is defined by each action (ddl/actions/), as a typed tuple.

Numbers and texts are those of TiDB 8.5. A job's states:

    queueing -> running (one or more steps) -> done -> synced            into history
    queueing -> running -> rollingback (steps of the opposite action) -> rollback done
    queueing | running -> cancelling -> cancelled (nothing had changed) or rollingback

History has jobs in `synced`, `rollback done` and `cancelled` only.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from enum import IntEnum
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace as evolve

from exuvia.base.decoding import from_builtins, json_decoder
from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import ErrCancelledDDLJob
from exuvia.base.types import pack_date, pack_datetime
from exuvia.base.waits import TRIED_AGAIN
from exuvia.catalog.model import STATE_TEXT, DatabaseInfo, PolicyRef, SchemaState
from exuvia.catalog.model import TableInfo as Table
from exuvia.cluster.assent import Assent


class JobState(IntEnum):
    """The state of a job; the numbers are those of its JSON."""

    NONE = 0
    RUNNING = 1
    ROLLINGBACK = 2
    ROLLBACK_DONE = 3
    DONE = 4
    CANCELLED = 5
    SYNCED = 6
    CANCELLING = 7
    QUEUEING = 8
    PAUSED = 9
    PAUSING = 10


JOB_STATE_TEXT = {
    JobState.NONE: "none",
    JobState.RUNNING: "running",
    JobState.ROLLINGBACK: "rollingback",
    JobState.ROLLBACK_DONE: "rollback done",
    JobState.DONE: "done",
    JobState.CANCELLED: "cancelled",
    JobState.SYNCED: "synced",
    JobState.CANCELLING: "cancelling",
    JobState.QUEUEING: "queueing",
    JobState.PAUSED: "paused",
    JobState.PAUSING: "pausing",
}

FINISHED = frozenset({JobState.DONE, JobState.ROLLBACK_DONE, JobState.CANCELLED})
IN_HISTORY = frozenset({JobState.SYNCED, JobState.ROLLBACK_DONE, JobState.CANCELLED})


class ActionCode(IntEnum):
    """`type` of a job; the names are printed as JOB_TYPE."""

    CREATE_SCHEMA = 1
    DROP_SCHEMA = 2
    CREATE_TABLE = 3
    DROP_TABLE = 4
    ADD_COLUMN = 5
    DROP_COLUMN = 6
    ADD_INDEX = 7
    DROP_INDEX = 8
    ADD_FOREIGN_KEY = 9
    DROP_FOREIGN_KEY = 10
    TRUNCATE_TABLE = 11
    MODIFY_COLUMN = 12
    REBASE_AUTO_ID = 13
    RENAME_TABLE = 14
    SET_DEFAULT = 15
    SHARD_ROW_ID = 16
    TABLE_COMMENT = 17
    RENAME_INDEX = 18
    ADD_PARTITION = 19
    DROP_PARTITION = 20
    CREATE_VIEW = 21
    TABLE_CHARSET = 22
    TRUNCATE_PARTITION = 23
    DROP_VIEW = 24
    RECOVER_TABLE = 25
    SCHEMA_CHARSET = 26
    ADD_PRIMARY_KEY = 32
    DROP_PRIMARY_KEY = 33
    CREATE_SEQUENCE = 34
    ALTER_SEQUENCE = 35
    DROP_SEQUENCE = 36
    AUTO_ID_CACHE = 39
    INDEX_VISIBILITY = 41
    EXCHANGE_PARTITION = 42
    ADD_CHECK = 43
    DROP_CHECK = 44
    ALTER_CHECK = 45
    RENAME_TABLES = 47
    TABLE_ATTRIBUTES = 49
    PARTITION_ATTRIBUTES = 50
    CREATE_POLICY = 51
    ALTER_POLICY = 52
    DROP_POLICY = 53
    PARTITION_PLACEMENT = 54
    SCHEMA_PLACEMENT = 55
    TABLE_PLACEMENT = 56
    CACHE_TABLE = 57
    NO_CACHE_TABLE = 59
    CREATE_TABLES = 60
    MULTI_SCHEMA_CHANGE = 61
    FLASHBACK_SCHEMA = 63
    REORGANIZE_PARTITION = 64
    ALTER_TTL = 65
    REMOVE_TTL = 66
    CREATE_RESOURCE_GROUP = 68
    ALTER_RESOURCE_GROUP = 69
    DROP_RESOURCE_GROUP = 70
    PARTITION_BY = 71
    REMOVE_PARTITIONING = 72
    TABLE_AFFINITY = 78
    EXUVIA_SCHEMA_LOCKED = 1001  # from 1001 on: ours, beyond TiDB's
    EXUVIA_CHANGE_LOG = 1002
    EXUVIA_UNDO = 1003
    EXUVIA_END_UNDO = 1004
    EXUVIA_IMPORT_INTO = 1005
    EXUVIA_CHANGE_PRIMARY_KEY = 1006
    EXUVIA_FULLTEXT = 1007


ACTION_TEXT = {
    ActionCode.CREATE_SCHEMA: "create schema",
    ActionCode.DROP_SCHEMA: "drop schema",
    ActionCode.CREATE_TABLE: "create table",
    ActionCode.DROP_TABLE: "drop table",
    ActionCode.ADD_COLUMN: "add column",
    ActionCode.DROP_COLUMN: "drop column",
    ActionCode.ADD_INDEX: "add index",
    ActionCode.DROP_INDEX: "drop index",
    ActionCode.ADD_FOREIGN_KEY: "add foreign key",
    ActionCode.DROP_FOREIGN_KEY: "drop foreign key",
    ActionCode.TRUNCATE_TABLE: "truncate table",
    ActionCode.MODIFY_COLUMN: "modify column",
    ActionCode.REBASE_AUTO_ID: "rebase auto_increment ID",
    ActionCode.RENAME_TABLE: "rename table",
    ActionCode.SET_DEFAULT: "set default value",
    ActionCode.SHARD_ROW_ID: "shard row ID",
    ActionCode.TABLE_COMMENT: "modify table comment",
    ActionCode.RENAME_INDEX: "rename index",
    ActionCode.ADD_PARTITION: "add partition",
    ActionCode.DROP_PARTITION: "drop partition",
    ActionCode.CREATE_VIEW: "create view",
    ActionCode.TABLE_CHARSET: "modify table charset and collate",
    ActionCode.TRUNCATE_PARTITION: "truncate partition",
    ActionCode.DROP_VIEW: "drop view",
    ActionCode.RECOVER_TABLE: "recover table",
    ActionCode.SCHEMA_CHARSET: "modify schema charset and collate",
    ActionCode.ADD_PRIMARY_KEY: "add primary key",
    ActionCode.DROP_PRIMARY_KEY: "drop primary key",
    ActionCode.CREATE_SEQUENCE: "create sequence",
    ActionCode.ALTER_SEQUENCE: "alter sequence",
    ActionCode.DROP_SEQUENCE: "drop sequence",
    ActionCode.AUTO_ID_CACHE: "modify auto id cache",
    ActionCode.INDEX_VISIBILITY: "alter index visibility",
    ActionCode.EXCHANGE_PARTITION: "exchange partition",
    ActionCode.ADD_CHECK: "add check constraint",
    ActionCode.DROP_CHECK: "drop check constraint",
    ActionCode.ALTER_CHECK: "alter check constraint",
    ActionCode.RENAME_TABLES: "rename tables",
    ActionCode.TABLE_ATTRIBUTES: "alter table attributes",
    ActionCode.PARTITION_ATTRIBUTES: "alter table partition attributes",
    ActionCode.CREATE_POLICY: "create placement policy",
    ActionCode.ALTER_POLICY: "alter placement policy",
    ActionCode.DROP_POLICY: "drop placement policy",
    ActionCode.PARTITION_PLACEMENT: "alter table partition placement",
    ActionCode.SCHEMA_PLACEMENT: "modify schema default placement",
    ActionCode.TABLE_PLACEMENT: "alter table placement",
    ActionCode.CACHE_TABLE: "alter table cache",
    ActionCode.NO_CACHE_TABLE: "alter table nocache",
    ActionCode.CREATE_TABLES: "create tables",
    ActionCode.MULTI_SCHEMA_CHANGE: "alter table multi-schema change",
    ActionCode.FLASHBACK_SCHEMA: "flashback schema",
    ActionCode.REORGANIZE_PARTITION: "alter table reorganize partition",
    ActionCode.ALTER_TTL: "alter table ttl",
    ActionCode.REMOVE_TTL: "alter table no_ttl",
    ActionCode.CREATE_RESOURCE_GROUP: "create resource group",
    ActionCode.ALTER_RESOURCE_GROUP: "alter resource group",
    ActionCode.DROP_RESOURCE_GROUP: "drop resource group",
    ActionCode.PARTITION_BY: "alter table partition by",
    ActionCode.REMOVE_PARTITIONING: "alter table remove partitioning",
    ActionCode.TABLE_AFFINITY: "alter table affinity",
    ActionCode.EXUVIA_SCHEMA_LOCKED: "exuvia schema locked",
    ActionCode.EXUVIA_CHANGE_LOG: "exuvia change log",
    ActionCode.EXUVIA_UNDO: "exuvia undo",
    ActionCode.EXUVIA_END_UNDO: "exuvia end undo",
    ActionCode.EXUVIA_IMPORT_INTO: "exuvia import into",
    ActionCode.EXUVIA_CHANGE_PRIMARY_KEY: "exuvia change primary key",
    ActionCode.EXUVIA_FULLTEXT: "exuvia fulltext",
}


def text_of(code: ActionCode, raw_args: tuple[Any, ...]) -> str:
    """The job's type as it is shown.

    A change of a clustered key has TiDB's words if it only adds or drops a key; see RekeyArgs in
    ddl/actions/rekey.py.
    """
    if code == ActionCode.EXUVIA_CHANGE_PRIMARY_KEY and len(raw_args) > 2:
        key, drops, stays = raw_args[:3]
        if key is None and not stays:
            return ACTION_TEXT[ActionCode.DROP_PRIMARY_KEY]
        if not drops:
            return ACTION_TEXT[ActionCode.ADD_PRIMARY_KEY]
    return ACTION_TEXT[code]


# -- the record ------------------------------------------------------------------------------------

_Arguments = TypeVar("_Arguments")

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
    "USER",
)


_DIALS = (
    ("concurrency", "thread"),
    ("batch_size", "batch_size"),
    ("max_write_speed", "max_write_speed"),
    ("scope", "service_scope"),
)


BEFORE_START, BEFORE_PUBLIC = "start", "public"
"""The points at which a job may wait for ADMIN COMPLETE DDL JOBS."""


MOST_REACHED = 100
"""At most this many stages of a job are stored: a job that is paused and resumed for ever stays
small."""
_GOES_ON = frozenset((JobState.RUNNING, JobState.DONE))
_ENDS = frozenset(
    JOB_STATE_TEXT[state] for state in (JobState.SYNCED, JobState.CANCELLED, JobState.ROLLBACK_DONE)
)


class JobError(msgspec.Struct, frozen=True, omit_defaults=True):
    """The error that ended a job, or its last one: MySQL's code, SQLSTATE, text, and a listing."""

    code: int
    state: str
    message: str
    exuvia_listing: str = ""

    def raised(self, before: str = "") -> Refused:
        """The error again; `before` is put before its text."""
        return Refused(self.code, self.state, f"{before}{self.message}", self.exuvia_listing)


class Binlog(msgspec.Struct, frozen=True, kw_only=True):
    """The catalog after the finished job (names of seed 001). See ddl/apply.py.

    It has the job's table and database, other tables of the job, and ids of removed tables and
    databases. Layouts of tables are as at rest (row_codec.whole_layouts).
    """

    SchemaVersion: int = 0
    DBInfo: DatabaseInfo | None = None
    TableInfo: Table | None = None
    FinishedTS: int = 0
    MultipleTableInfos: tuple[Table, ...] | msgspec.UnsetType = msgspec.UNSET
    exuvia_gone: tuple[int, ...] | msgspec.UnsetType = msgspec.UNSET


class UndoRequest(msgspec.Struct, frozen=True):
    """A request to retain dropped data for UNDO: hidden, or only its definition."""

    seconds: int
    hides: bool


class SubJob(msgspec.Struct, frozen=True, kw_only=True):
    """One change of a job of several: its own fields, the others are the job's.

    `exuvia_filled`: its reorg has written and verified everything and need not run again.
    """

    type: ActionCode
    raw_args: tuple[Any, ...] = ()
    schema_state: SchemaState = SchemaState.ABSENT
    state: JobState = JobState.NONE
    revertible: bool = True
    row_count: int = 0
    warning: JobError | None = None
    real_start_ts: int = 0
    exuvia_elements: tuple[int, ...] = ()
    exuvia_tables: tuple[int, ...] = ()
    exuvia_schemas: tuple[int, ...] = ()
    exuvia_ids: tuple[int, ...] = ()
    exuvia_tail: bool = False
    exuvia_note: str = ""
    exuvia_filled: bool = False


class MultiSchemaInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The changes of one ALTER TABLE. `revertible`: it can still be undone."""

    sub_jobs: tuple[SubJob, ...]
    revertible: bool = True


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A schema change, fields in the order of seed 001. For timestamps see `timestamp`."""

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
    multi_schema_info: MultiSchemaInfo | None = None
    priority: int = 0
    seq_num: int = 0
    charset: str = "utf8mb4"
    collate: str = "utf8mb4_bin"
    involving_schema_info: tuple[dict[str, object], ...] = ()
    admin_operator: int = 0
    last_schema_version: int = 0
    exuvia_elements: tuple[int, ...] = ()
    exuvia_tables: tuple[int, ...] = ()  # other tables it involves: no other job may change them
    exuvia_schemas: tuple[int, ...] = ()  # other databases it involves
    exuvia_ids: tuple[int, ...] = ()  # zeros at first: ids of new tables or partitions
    exuvia_dropped: Table | None = None  # the table that another table replaced
    exuvia_tail: bool = False  # in the action's post-commit phase
    exuvia_wait: str = ""
    exuvia_note: str = ""
    exuvia_by: str = ""  # user@host of the submitter
    exuvia_hold: str = ""  # the point at which it waits until it is completed
    exuvia_held: bool = False  # it waits at that point
    exuvia_filled: bool = False  # for a job with a single change that is held: as in SubJob
    exuvia_group: str = ""  # name of the group of jobs that are completed together
    exuvia_verified: int = 0  # when its backfill was verified, if it has been held since then
    exuvia_wait_timeout_s: int = 0  # how long a step waits for open transactions; 0: for ever
    # it then ends those transactions, and is not rolled back itself
    exuvia_wait_kills: bool = False
    exuvia_overdue: bool = False  # it is rolled back because a step waited too long
    exuvia_ended: tuple[str, ...] = ()  # the transactions that were ended for this job
    exuvia_window: str = ""  # the window in which it may start
    exuvia_undo: UndoRequest | None = None  # for a single drop
    exuvia_policies: tuple[PolicyRef, ...] = ()  # policies that it assigns to its elements
    exuvia_reached: tuple[tuple[str, int], ...] = ()  # visible states, with the time of each
    # the elements its statement was planned with (ddl/seen.py)
    exuvia_seen: tuple[tuple[str, int], ...] = ()
    exuvia_assent: Assent | None = None  # the submitting front's, if it is the only one

    @property
    def in_history(self) -> bool:
        """True once the job can no longer change."""
        return self.state in IN_HISTORY

    @property
    def begun(self) -> bool:
        """True once its first step was taken."""
        return self.real_start_ts != 0

    @property
    def state_text(self) -> str:
        """STATE: the job's state, or "held"."""
        return "held" if self.exuvia_held else JOB_STATE_TEXT[self.state]

    @property
    def stage(self) -> str:
        """The stage of the job: a schema state, or the job's state while it is rolled back or
        waits."""
        if self.exuvia_held or self.state not in _GOES_ON:
            return self.state_text
        return STATE_TEXT[self.schema_state]

    def at(self, now: int) -> "Job":
        """The job, with its stage appended if that is new. `now`: a `timestamp`."""
        last = (
            self.exuvia_reached[-1][0] if self.exuvia_reached else JOB_STATE_TEXT[JobState.QUEUEING]
        )
        if self.stage == last or len(self.exuvia_reached) >= MOST_REACHED:
            return self
        return evolve(self, exuvia_reached=(*self.exuvia_reached, (self.stage, now)))

    def stays(self) -> "list[tuple[str, int, int]]":
        """(stage, since, until) of an ended job, the queue first."""
        stages = [(JOB_STATE_TEXT[JobState.QUEUEING], self.start_ts), *self.exuvia_reached]
        ends = [since for _, since in stages[1:]]
        spans = zip(stages, [*ends, self.binlog.FinishedTS], strict=True)
        return [(name, since, until) for (name, since), until in spans if name not in _ENDS]

    @property
    def action_text(self) -> str:
        """JOB_TYPE, as in "add index"."""
        return text_of(self.type, self.raw_args)

    def error(self) -> Refused | None:
        """The error for the statement that submitted this job, or None if it succeeded."""
        if self.state == JobState.SYNCED:
            return None
        if self.err is None:
            return ErrCancelledDDLJob()
        return self.err.raised()

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

    def _comments(self) -> Iterator[str]:
        """The parts of COMMENTS.

        They are the settings of its reorg (ddl/admin.py), the reorg's progress, the reason to wait,
        the last error, and the transactions it has ended.
        """
        for name, label in _DIALS:
            value = (self.reorg_meta or {}).get(name)
            if value is not None:
                yield f"{label}={value}"
        if self.exuvia_group:
            yield f"group {self.exuvia_group}"
        yield self.exuvia_note
        yield self.exuvia_wait
        if self.err is not None and self.err_count and not self.in_history:
            yield TRIED_AGAIN(self.err_count, self.err.message)
        if self.exuvia_ended:
            yield "ended: " + "; ".join(self.exuvia_ended)

    def row(self) -> tuple[object, ...]:
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
            self.state_text,
            ", ".join(filter(None, self._comments())),
            self.exuvia_by,
        )


def schema_ids(job: Job) -> tuple[int, ...]:
    """Ids of the databases that a job involves."""
    return tuple(dict.fromkeys((job.schema_id, *job.exuvia_schemas)))


def table_ids(job: Job) -> tuple[int, ...]:
    """Ids of the tables that a job involves; empty for a change of a whole database."""
    own = (job.table_id,) if job.table_id else ()
    return tuple(dict.fromkeys((*own, *job.exuvia_tables)))


def sub_rows(job: Job) -> list[tuple[object, ...]]:
    """The rows of ADMIN SHOW DDL JOBS after a job's own: one for each sub-job."""
    if job.multi_schema_info is None:
        return []
    whole = job.row()
    return [
        (
            *whole[:3],
            f"{text_of(sub.type, sub.raw_args)} /* subjob */",
            STATE_TEXT[sub.schema_state],
            *whole[5:7],
            sub.row_count,
            whole[8],
            packed_time(sub.real_start_ts),
            whole[10],
            JOB_STATE_TEXT[sub.state],
            sub.exuvia_note,
            whole[13],
        )
        for sub in job.multi_schema_info.sub_jobs
    ]


def timestamp(wall_ns: int) -> int:
    """A TSO-like u64 of wall time: milliseconds << 18. For display only (law 3)."""
    return wall_ns // 1_000_000 << 18


def wall_s(stamp: int) -> float:
    """Inverse of `timestamp`, in seconds since 1970."""
    return (stamp >> 18) / 1000


def _moment(stamp: int) -> datetime:
    return datetime.fromtimestamp(wall_s(stamp), UTC)


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


_DECODER = json_decoder(Job)


def decode(job_meta: bytes) -> Job:
    """Inverse of `encode`; unknown fields are ignored, missing ones have their defaults."""
    return _DECODER.decode(job_meta)


def arguments(job: Job, kind: type[_Arguments]) -> _Arguments:
    """`raw_args` as the action's own type: a named tuple or a tuple."""
    return from_builtins(job.raw_args, kind)


def raw(arguments: tuple[object, ...]) -> tuple[object, ...]:
    """Inverse of `arguments`: the stored form."""
    return tuple(msgspec.to_builtins(argument) for argument in arguments)


def job_for(
    action: ActionCode,
    database: DatabaseInfo,
    table: Table | None,
    arguments: tuple[object, ...] = (),
    query: str = "",
) -> Job:
    """A new job about a table, or about a whole database.

    The caller has resolved names and types. Ids of new elements are 0 until they are allocated. The
    submitter allocates ids of tables and databases; the step that places a column or an index
    allocates its id. `query` is the statement's text.
    """
    return Job(
        type=action,
        schema_id=database.id,
        table_id=table.id if table else 0,
        schema_name=database.db_name.O,
        table_name=table.name.O if table else "",
        raw_args=raw(arguments),
        query=query,
    )


def failed(job: Job, error: Refused) -> Job:
    """The job with that error."""
    return evolve(job, err=JobError(error.code, error.state, error.message, error.listing))


__all__ = [
    "ROW_COLUMNS",
    "ActionCode",
    "Binlog",
    "Job",
    "JobError",
    "JobState",
    "MultiSchemaInfo",
    "SubJob",
    "arguments",
    "decode",
    "encode",
    "evolve",
    "failed",
    "job_for",
    "packed_time",
    "raw",
    "sub_rows",
    "timestamp",
    "timestamp_text",
]
