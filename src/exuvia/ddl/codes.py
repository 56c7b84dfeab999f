"""Numbers and words of a job's record, as users of TiDB know them (its 8.5 source).

    queueing -> running (one or more steps) -> done -> synced            into history
    queueing -> running -> rollingback (steps of the opposite action) -> rollback done
    queueing | running -> cancelling -> cancelled (nothing had changed) or rollingback

`synced`, `rollback done` and `cancelled` are the only states history holds.
"""

from enum import IntEnum


class JobState(IntEnum):
    """Where a job stands; the numbers are those of its JSON."""

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
    CACHE_TABLE = 57
    NO_CACHE_TABLE = 59
    CREATE_TABLES = 60
    MULTI_SCHEMA_CHANGE = 61
    FLASHBACK_SCHEMA = 63
    REORGANIZE_PARTITION = 64
    PARTITION_BY = 71
    REMOVE_PARTITIONING = 72
    EXUVIA_SCHEMA_LOCKED = 1001  # from 1001 on: ours, beyond TiDB's


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
    ActionCode.CACHE_TABLE: "alter table cache",
    ActionCode.NO_CACHE_TABLE: "alter table nocache",
    ActionCode.CREATE_TABLES: "create tables",
    ActionCode.MULTI_SCHEMA_CHANGE: "alter table multi-schema change",
    ActionCode.FLASHBACK_SCHEMA: "flashback schema",
    ActionCode.REORGANIZE_PARTITION: "alter table reorganize partition",
    ActionCode.PARTITION_BY: "alter table partition by",
    ActionCode.REMOVE_PARTITIONING: "alter table remove partitioning",
    ActionCode.EXUVIA_SCHEMA_LOCKED: "exuvia schema locked",
}
