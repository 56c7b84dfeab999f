"""mysql.tidb_mdl_view: which open transaction which schema change waits for (the metadata lock).

    JOB_ID  DB_NAME  TABLE_NAME  QUERY   SESSION_ID  START_TIME   SQL_DIGESTS
    57      test     t           ALTER.. 12          09:30:01     ["INSERT INTO t VALUES (1)"]

A row for each transaction that a front has named, at most a second old. TiDB's columns; the last
one has the statement with which the transaction wrote the table.
"""

import json
from collections.abc import Iterable

from exuvia.cluster import versions
from exuvia.ddl import queue
from exuvia.ddl.job import packed_time, timestamp
from exuvia.sql.context import Context
from exuvia.sql.result import Row

NAME = "tidb_mdl_view"
COLUMNS = "JOB_ID# DB_NAME TABLE_NAME QUERY:65535 SESSION_ID# START_TIME@ SQL_DIGESTS:65535"
_NS = 1_000_000_000


def rows(context: Context) -> Iterable[Row]:
    """See the module."""
    now_ns = context.session.services.clock.wall_ns()
    for job in queue.unfinished(context.txn):
        for each in versions.blockers(context.txn, job.id):
            began = packed_time(timestamp(now_ns - int(each.age_s * _NS)))
            digests = json.dumps([each.query])
            place = [job.schema_name, job.table_name]
            yield [job.id, *place, job.query, each.session, began, digests]
