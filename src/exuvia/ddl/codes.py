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
    ADD_PRIMARY_KEY = 32
    DROP_PRIMARY_KEY = 33


ACTION_TEXT = {
    ActionCode.CREATE_SCHEMA: "create schema",
    ActionCode.DROP_SCHEMA: "drop schema",
    ActionCode.CREATE_TABLE: "create table",
    ActionCode.DROP_TABLE: "drop table",
    ActionCode.ADD_COLUMN: "add column",
    ActionCode.DROP_COLUMN: "drop column",
    ActionCode.ADD_INDEX: "add index",
    ActionCode.DROP_INDEX: "drop index",
    ActionCode.ADD_PRIMARY_KEY: "add primary key",
    ActionCode.DROP_PRIMARY_KEY: "drop primary key",
}

REORG_ACTIONS = frozenset({ActionCode.ADD_INDEX, ActionCode.ADD_PRIMARY_KEY})
CREATES_ITS_ID = frozenset({ActionCode.CREATE_SCHEMA, ActionCode.CREATE_TABLE})
