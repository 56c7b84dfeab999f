"""Every action there is, by its code. Each file reads as the table of its path."""

from exuvia.ddl.action import Action
from exuvia.ddl.actions.check import ADD_CHECK, ALTER_CHECK, DROP_CHECK
from exuvia.ddl.actions.column import ADD_COLUMN, DROP_COLUMN
from exuvia.ddl.actions.database import ALTER_DATABASE, CREATE_DATABASE, DROP_DATABASE
from exuvia.ddl.actions.foreign_key import ADD_FOREIGN_KEY, DROP_FOREIGN_KEY
from exuvia.ddl.actions.index import (
    ADD_INDEX,
    ADD_PRIMARY_KEY,
    DROP_INDEX,
    DROP_PRIMARY_KEY,
    INDEX_VISIBILITY,
    RENAME_INDEX,
)
from exuvia.ddl.actions.load import way_of_creating
from exuvia.ddl.actions.modify_column import MODIFY_COLUMN, SET_DEFAULT
from exuvia.ddl.actions.options import (
    AUTO_ID_CACHE,
    CACHE_TABLE,
    NO_CACHE_TABLE,
    REBASE_AUTO_ID,
    SHARD_ROW_ID,
    TABLE_CHARSET,
    TABLE_COMMENT,
)
from exuvia.ddl.actions.partition import ADD_PARTITION, DROP_PARTITION, TRUNCATE_PARTITION
from exuvia.ddl.actions.partition_exchange import EXCHANGE_PARTITION
from exuvia.ddl.actions.partition_move import (
    PARTITION_BY,
    REMOVE_PARTITIONING,
    REORGANIZE_PARTITION,
)
from exuvia.ddl.actions.recover import FLASHBACK_DATABASE, RECOVER_TABLE
from exuvia.ddl.actions.rename import RENAME_TABLE, RENAME_TABLES
from exuvia.ddl.actions.sequence import ALTER_SEQUENCE, CREATE_SEQUENCE, DROP_SEQUENCE
from exuvia.ddl.actions.table import CREATE_TABLE, CREATE_TABLES, DROP_TABLE
from exuvia.ddl.actions.truncate import TRUNCATE_TABLE
from exuvia.ddl.actions.view import CREATE_VIEW, DROP_VIEW
from exuvia.ddl.codes import ActionCode
from exuvia.ddl.elements import TABLE_IN_PLACE
from exuvia.ddl.job import Job

ACTIONS: dict[ActionCode, Action] = {
    action.code: action
    for action in (
        CREATE_DATABASE,
        DROP_DATABASE,
        CREATE_TABLE._replace(choose=way_of_creating),
        CREATE_TABLES,
        DROP_TABLE,
        ALTER_DATABASE,
        TRUNCATE_TABLE,
        RENAME_TABLE,
        RENAME_TABLES,
        RECOVER_TABLE,
        FLASHBACK_DATABASE,
        TABLE_COMMENT,
        TABLE_CHARSET,
        REBASE_AUTO_ID,
        AUTO_ID_CACHE,
        SHARD_ROW_ID,
        CACHE_TABLE,
        NO_CACHE_TABLE,
        ADD_PARTITION,
        DROP_PARTITION,
        TRUNCATE_PARTITION,
        EXCHANGE_PARTITION,
        REORGANIZE_PARTITION,
        PARTITION_BY,
        REMOVE_PARTITIONING,
        ADD_COLUMN,
        DROP_COLUMN,
        ADD_INDEX,
        DROP_INDEX,
        ADD_PRIMARY_KEY,
        DROP_PRIMARY_KEY,
        RENAME_INDEX,
        INDEX_VISIBILITY,
        MODIFY_COLUMN,
        SET_DEFAULT,
        ADD_CHECK,
        DROP_CHECK,
        ALTER_CHECK,
        ADD_FOREIGN_KEY,
        DROP_FOREIGN_KEY,
        CREATE_VIEW,
        DROP_VIEW,
        CREATE_SEQUENCE,
        ALTER_SEQUENCE,
        DROP_SEQUENCE,
    )
}


SEVERAL = Action(
    "alter table multi-schema change",
    ActionCode.MULTI_SCHEMA_CHANGE,
    TABLE_IN_PLACE,
    path=(),
    alterable=True,
    mixes=True,
)


def kind_of(job: Job) -> Action:
    """The action of its code, for what is true of all its paths; SEVERAL for a job of sub-jobs."""
    return ACTIONS.get(job.type, SEVERAL)


def action_of(job: Job) -> Action:
    """The action a job walks: its code's, or the one of several paths that its arguments choose."""
    action = ACTIONS[job.type]
    return action.choose(job) if action.choose else action
