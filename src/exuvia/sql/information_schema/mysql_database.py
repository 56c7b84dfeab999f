"""Computed tables of the database `mysql`: they are there when they are named and listed nowhere.

mysql.tidb_mdl_view: which open transaction which schema change waits for (the metadata lock).

    JOB_ID  DB_NAME  TABLE_NAME  QUERY   SESSION_ID  START_TIME   SQL_DIGESTS
    57      test     t           ALTER.. 12          09:30:01     ["INSERT INTO t VALUES (1)"]

A row for each transaction that a front has named, at most a second old. TiDB's columns; the last
one has the statement with which the transaction wrote the table.

Those without rows are what dumps and tools read: logs of statements, functions, plugins, help
(manual, "The mysql System Schema").
"""

import json
from collections.abc import Iterable

from exuvia.cluster import versions
from exuvia.ddl import queue
from exuvia.ddl.job import packed_time, timestamp
from exuvia.sql.result import Row
from exuvia.sql.statement.context import Context

MDL_VIEW = "tidb_mdl_view"
MDL_VIEW_COLUMNS = (
    "JOB_ID# DB_NAME TABLE_NAME QUERY:65535 SESSION_ID# START_TIME@ SQL_DIGESTS:65535"
)
_NS = 1_000_000_000


def mdl_view_rows(context: Context) -> Iterable[Row]:
    """A row for each transaction that a job waits for."""
    now_ns = context.session.services.clock.wall_ns()
    for job in queue.unfinished(context.txn):
        for each in versions.blockers(context.txn, job.id):
            began = packed_time(timestamp(now_ns - int(each.age_s * _NS)))
            digests = json.dumps([each.query])
            place = [job.schema_name, job.table_name]
            yield [job.id, *place, job.query, each.session, began, digests]


WITHOUT_ROWS = {
    "general_log": "event_time@ user_host:65535 thread_id# server_id# command_type argument:65535",
    "slow_log": "start_time@ user_host:65535 query_time lock_time rows_sent# rows_examined# db:512"
    " last_insert_id# insert_id# server_id# sql_text:65535 thread_id#",
    "func": "name ret# dl:128 type",
    "plugin": "name dl:128",
    "proc": "db name type specific_name language sql_data_access is_deterministic security_type"
    " param_list:65535 returns:65535 body:65535 definer:93 created@ modified@ sql_mode:8192"
    " comment:65535",
    "help_topic": "help_topic_id# name help_category_id# description:65535 example:65535 url:65535",
    "help_category": "help_category_id# name parent_category_id# url:65535",
    "help_keyword": "help_keyword_id# name",
    "help_relation": "help_topic_id# help_keyword_id#",
}
