"""Computed tables of MySQL 8 in information_schema, mysql and performance_schema.

Tables of information_schema about features that do not exist here (InnoDB's internals, spatial
types, profiles) are empty, because clients SELECT from them. KEYWORDS, USER_ATTRIBUTES,
VIEW_TABLE_USAGE and the *_EXTENSIONS have rows.

Computed tables of the database `mysql` can be named in queries, but are not listed.

mysql.tidb_mdl_view shows which open transaction a schema change waits for (the metadata lock).

    JOB_ID  DB_NAME  TABLE_NAME  QUERY   SESSION_ID  START_TIME   SQL_DIGESTS
    57      test     t           ALTER.. 12          09:30:01     ["INSERT INTO t VALUES (1)"]

It has a row for each transaction that a front has reported, at most a second old. The columns are
TiDB's; the last one has the statement with which the transaction wrote to the table.

The tables without rows are read by dumps and tools: logs of statements, functions, plugins, help
(manual, "The mysql System Schema").

SHOW STATUS and the tables of performance_schema show those of MySQL's hundreds of counters that
this node has.
"""

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from sqlglot import exp

from exuvia.base.types import packed_moment
from exuvia.catalog import account_attributes, jsontext, login_failures, meta, reader
from exuvia.catalog.account_attributes import AccountAttributes
from exuvia.catalog.login_failures import LoginFailures
from exuvia.catalog.system_tables import planned
from exuvia.catalog.sysvar import variables
from exuvia.cluster import versions
from exuvia.ddl import queue
from exuvia.ddl.job import packed_time, timestamp
from exuvia.sql import walks
from exuvia.sql.information_schema.server import processes_seen
from exuvia.sql.information_schema.tables import all_tables, nothing, privileges_of
from exuvia.sql.parse.text import parse_one
from exuvia.sql.parse.tokens import RESERVED
from exuvia.sql.privileges.accounts import read
from exuvia.sql.result import Row
from exuvia.sql.statement.context import Context

_ATTRIBUTES = "ENGINE_ATTRIBUTE:65535 SECONDARY_ENGINE_ATTRIBUTE:65535"
_PLACE = "TABLE_CATALOG TABLE_SCHEMA TABLE_NAME"


def _tables(context: Context) -> Iterator[Row]:
    for database, table in all_tables(context):
        yield ["def", database.db_name.O, table.name.O, None, None]


def _columns(context: Context) -> Iterator[Row]:
    for database, table in all_tables(context):
        for column in table.public_columns:
            if privileges_of(context, database.db_name.L, table, column) is not None:
                yield ["def", database.db_name.O, table.name.O, column.name.O, None, None]


def _constraints(context: Context) -> Iterator[Row]:
    for database, table in all_tables(context):
        for index in table.indexes:
            if index.is_unique:
                row: Row = ["def", database.db_name.O, index.idx_name.O, table.name.O]
                yield [*row, None, None]


def _databases(context: Context) -> Iterator[Row]:
    rights = context.session.rights
    for database in context.session.services.schemas.databases(context.txn):
        if rights.lists_database(database.db_name.O):
            yield ["def", database.db_name.O, ""]


def _keywords(context: Context) -> Iterable[Row]:
    return ([word, 1] for word in sorted(RESERVED))


def _accounts(context: Context) -> Iterator[Row]:
    session = context.session
    all_of_them = "SELECT" in session.rights.on_database("mysql")
    for account in read(context.txn).accounts:
        if all_of_them or account[:2] == session.account_name:
            yield [account.user, account.host, None]


def _view_tables(context: Context) -> Iterator[Row]:
    for database, table in all_tables(context):
        if table.view is None:
            continue
        tree = parse_one(table.view.view_select)
        assert isinstance(tree, exp.Expression)
        references = {
            (reference.db, reference.name)
            for reference in walks.find_all(tree, exp.Table)
            if reference.db
        }
        for place in sorted(references):
            yield ["def", database.db_name.O, table.name.O, "def", *place]


# Tables of MySQL 8's information_schema that are views. Results name their columns as the views do,
# in capitals, however a query writes them. Columns of the other tables are named as written.
_VIEW_NAMES = (
    "ADMINISTRABLE_ROLE_AUTHORIZATIONS APPLICABLE_ROLES CHARACTER_SETS CHECK_CONSTRAINTS"
    " COLLATIONS COLLATION_CHARACTER_SET_APPLICABILITY COLUMNS COLUMNS_EXTENSIONS"
    " COLUMN_STATISTICS ENABLED_ROLES EVENTS FILES INNODB_DATAFILES INNODB_FIELDS"
    " INNODB_FOREIGN INNODB_FOREIGN_COLS INNODB_TABLESPACES_BRIEF KEYWORDS KEY_COLUMN_USAGE"
    " PARAMETERS PARTITIONS REFERENTIAL_CONSTRAINTS RESOURCE_GROUPS ROLE_COLUMN_GRANTS"
    " ROLE_ROUTINE_GRANTS ROLE_TABLE_GRANTS ROUTINES SCHEMATA SCHEMATA_EXTENSIONS STATISTICS"
    " ST_GEOMETRY_COLUMNS ST_SPATIAL_REFERENCE_SYSTEMS ST_UNITS_OF_MEASURE TABLES"
    " TABLES_EXTENSIONS TABLESPACES_EXTENSIONS TABLE_CONSTRAINTS TABLE_CONSTRAINTS_EXTENSIONS"
    " TRIGGERS USER_ATTRIBUTES VIEWS VIEW_ROUTINE_USAGE VIEW_TABLE_USAGE"
)
VIEWS = frozenset(_VIEW_NAMES.split())
_EMPTY = {
    "ADMINISTRABLE_ROLE_AUTHORIZATIONS": "USER HOST GRANTEE GRANTEE_HOST ROLE_NAME ROLE_HOST"
    " IS_GRANTABLE IS_DEFAULT IS_MANDATORY",
    "ROLE_COLUMN_GRANTS": "GRANTOR GRANTOR_HOST GRANTEE GRANTEE_HOST TABLE_CATALOG TABLE_SCHEMA"
    " TABLE_NAME COLUMN_NAME PRIVILEGE_TYPE IS_GRANTABLE",
    "ROLE_ROUTINE_GRANTS": "GRANTOR GRANTOR_HOST GRANTEE GRANTEE_HOST SPECIFIC_CATALOG"
    " SPECIFIC_SCHEMA SPECIFIC_NAME ROUTINE_CATALOG ROUTINE_SCHEMA ROUTINE_NAME PRIVILEGE_TYPE"
    " IS_GRANTABLE",
    "ROLE_TABLE_GRANTS": "GRANTOR GRANTOR_HOST GRANTEE GRANTEE_HOST TABLE_CATALOG TABLE_SCHEMA"
    " TABLE_NAME PRIVILEGE_TYPE IS_GRANTABLE",
    "INNODB_BUFFER_PAGE": "POOL_ID# BLOCK_ID# SPACE# PAGE_NUMBER# PAGE_TYPE FLUSH_TYPE# FIX_COUNT#"
    " IS_HASHED NEWEST_MODIFICATION# OLDEST_MODIFICATION# ACCESS_TIME# TABLE_NAME:1024"
    " INDEX_NAME:1024 NUMBER_RECORDS# DATA_SIZE# COMPRESSED_SIZE# PAGE_STATE IO_FIX IS_OLD"
    " FREE_PAGE_CLOCK# IS_STALE",
    "INNODB_BUFFER_PAGE_LRU": "POOL_ID# LRU_POSITION# SPACE# PAGE_NUMBER# PAGE_TYPE FLUSH_TYPE#"
    " FIX_COUNT# IS_HASHED NEWEST_MODIFICATION# OLDEST_MODIFICATION# ACCESS_TIME# TABLE_NAME:1024"
    " INDEX_NAME:1024 NUMBER_RECORDS# DATA_SIZE# COMPRESSED_SIZE# COMPRESSED IO_FIX IS_OLD"
    " FREE_PAGE_CLOCK#",
    "INNODB_BUFFER_POOL_STATS": "POOL_ID# POOL_SIZE# FREE_BUFFERS# DATABASE_PAGES#"
    " OLD_DATABASE_PAGES# MODIFIED_DATABASE_PAGES# PENDING_DECOMPRESS# PENDING_READS#"
    " PENDING_FLUSH_LRU# PENDING_FLUSH_LIST# PAGES_MADE_YOUNG# PAGES_NOT_MADE_YOUNG#"
    " PAGES_MADE_YOUNG_RATE% PAGES_MADE_NOT_YOUNG_RATE% NUMBER_PAGES_READ# NUMBER_PAGES_CREATED#"
    " NUMBER_PAGES_WRITTEN# PAGES_READ_RATE% PAGES_CREATE_RATE% PAGES_WRITTEN_RATE%"
    " NUMBER_PAGES_GET# HIT_RATE# YOUNG_MAKE_PER_THOUSAND_GETS# NOT_YOUNG_MAKE_PER_THOUSAND_GETS#"
    " NUMBER_PAGES_READ_AHEAD# NUMBER_READ_AHEAD_EVICTED# READ_AHEAD_RATE%"
    " READ_AHEAD_EVICTED_RATE% LRU_IO_TOTAL# LRU_IO_CURRENT# UNCOMPRESS_TOTAL#"
    " UNCOMPRESS_CURRENT#",
    "INNODB_CACHED_INDEXES": "SPACE_ID# INDEX_ID# N_CACHED_PAGES#",
    "INNODB_COLUMNS": "TABLE_ID# NAME POS# MTYPE# PRTYPE# LEN# HAS_DEFAULT# DEFAULT_VALUE:65535",
    "INNODB_DATAFILES": "SPACE:256 PATH:4000",
    "INNODB_FIELDS": "INDEX_ID:256 NAME POS#",
    "INNODB_FOREIGN": "ID:193 FOR_NAME:193 REF_NAME:193 N_COLS# TYPE#",
    "INNODB_FOREIGN_COLS": "ID:193 FOR_COL_NAME REF_COL_NAME POS#",
    "INNODB_FT_BEING_DELETED": "DOC_ID#",
    "INNODB_FT_CONFIG": "KEY:193 VALUE:193",
    "INNODB_FT_DEFAULT_STOPWORD": "value:18",
    "INNODB_FT_DELETED": "DOC_ID#",
    "INNODB_FT_INDEX_CACHE": "WORD:337 FIRST_DOC_ID# LAST_DOC_ID# DOC_COUNT# DOC_ID# POSITION#",
    "INNODB_FT_INDEX_TABLE": "WORD:337 FIRST_DOC_ID# LAST_DOC_ID# DOC_COUNT# DOC_ID# POSITION#",
    "INNODB_INDEXES": "INDEX_ID# NAME TABLE_ID# TYPE# N_FIELDS# PAGE_NO# SPACE# MERGE_THRESHOLD#",
    "INNODB_METRICS": "NAME:193 SUBSYSTEM:193 COUNT# MAX_COUNT# MIN_COUNT# AVG_COUNT% COUNT_RESET#"
    " MAX_COUNT_RESET# MIN_COUNT_RESET# AVG_COUNT_RESET% TIME_ENABLED@ TIME_DISABLED@"
    " TIME_ELAPSED# TIME_RESET@ STATUS TYPE COMMENT:193",
    "INNODB_SESSION_TEMP_TABLESPACES": "ID# SPACE# PATH:4001 SIZE# STATE PURPOSE",
    "INNODB_TABLES": "TABLE_ID# NAME:655 FLAG# N_COLS# SPACE# ROW_FORMAT ZIP_PAGE_SIZE# SPACE_TYPE"
    " INSTANT_COLS# TOTAL_ROW_VERSIONS#",
    "INNODB_TABLESPACES": "SPACE# NAME:655 FLAG# ROW_FORMAT PAGE_SIZE# ZIP_PAGE_SIZE# SPACE_TYPE"
    " FS_BLOCK_SIZE# FILE_SIZE# ALLOCATED_SIZE# AUTOEXTEND_SIZE# SERVER_VERSION SPACE_VERSION#"
    " ENCRYPTION STATE",
    "INNODB_TABLESPACES_BRIEF": "SPACE:256 NAME:268 PATH:512 FLAG:256 SPACE_TYPE",
    "INNODB_TABLESTATS": "TABLE_ID# NAME:193 STATS_INITIALIZED NUM_ROWS# CLUST_INDEX_SIZE#"
    " OTHER_INDEX_SIZE# MODIFIED_COUNTER# AUTOINC# REF_COUNT#",
    "INNODB_TEMP_TABLE_INFO": "TABLE_ID# NAME N_COLS# SPACE#",
    "INNODB_TRX": "trx_id# trx_state trx_started@ trx_requested_lock_id trx_wait_started@"
    " trx_weight# trx_mysql_thread_id# trx_query:1024 trx_operation_state trx_tables_in_use#"
    " trx_tables_locked# trx_lock_structs# trx_lock_memory_bytes# trx_rows_locked#"
    " trx_rows_modified# trx_concurrency_tickets# trx_isolation_level trx_unique_checks#"
    " trx_foreign_key_checks# trx_last_foreign_key_error:256 trx_adaptive_hash_latched#"
    " trx_adaptive_hash_timeout# trx_is_read_only# trx_autocommit_non_locking#"
    " trx_schedule_weight#",
    "INNODB_VIRTUAL": "TABLE_ID# POS# BASE_POS#",
    "OPTIMIZER_TRACE": "QUERY:65535 TRACE:65535 MISSING_BYTES_BEYOND_MAX_MEM_SIZE#"
    " INSUFFICIENT_PRIVILEGES#",
    "PROFILING": "QUERY_ID# SEQ# STATE DURATION% CPU_USER% CPU_SYSTEM% CONTEXT_VOLUNTARY#"
    " CONTEXT_INVOLUNTARY# BLOCK_OPS_IN# BLOCK_OPS_OUT# MESSAGES_SENT# MESSAGES_RECEIVED#"
    " PAGE_FAULTS_MAJOR# PAGE_FAULTS_MINOR# SWAPS# SOURCE_FUNCTION SOURCE_FILE SOURCE_LINE#",
    "ST_GEOMETRY_COLUMNS": f"{_PLACE} COLUMN_NAME SRS_NAME:80 SRS_ID# GEOMETRY_TYPE_NAME:65535",
    "ST_SPATIAL_REFERENCE_SYSTEMS": "SRS_NAME:80 SRS_ID# ORGANIZATION:256"
    " ORGANIZATION_COORDSYS_ID# DEFINITION:4096 DESCRIPTION:2048",
    "ST_UNITS_OF_MEASURE": "UNIT_NAME:255 UNIT_TYPE CONVERSION_FACTOR% DESCRIPTION:255",
    "TABLESPACES_EXTENSIONS": "TABLESPACE_NAME:268 ENGINE_ATTRIBUTE:65535",
    "VIEW_ROUTINE_USAGE": f"{_PLACE} SPECIFIC_CATALOG SPECIFIC_SCHEMA SPECIFIC_NAME",
}
_COMPRESSION = "page_size# compress_ops# compress_ops_ok# compress_time# uncompress_ops#"
_COMPRESSED = "database_name:192 table_name:192 index_name:192 compress_ops# compress_ops_ok#"
_EMPTY |= {
    "INNODB_CMP": f"{_COMPRESSION} uncompress_time#",
    "INNODB_CMP_RESET": f"{_COMPRESSION} uncompress_time#",
    "INNODB_CMP_PER_INDEX": f"{_COMPRESSED} compress_time# uncompress_ops# uncompress_time#",
    "INNODB_CMP_PER_INDEX_RESET": f"{_COMPRESSED} compress_time# uncompress_ops# uncompress_time#",
    "INNODB_CMPMEM": "page_size# buffer_pool_instance# pages_used# pages_free# relocation_ops#"
    " relocation_time#",
    "INNODB_CMPMEM_RESET": "page_size# buffer_pool_instance# pages_used# pages_free#"
    " relocation_ops# relocation_time#",
}

TABLES = (
    ("TABLES_EXTENSIONS", f"{_PLACE} {_ATTRIBUTES}", _tables),
    ("COLUMNS_EXTENSIONS", f"{_PLACE} COLUMN_NAME {_ATTRIBUTES}", _columns),
    (
        "TABLE_CONSTRAINTS_EXTENSIONS",
        f"CONSTRAINT_CATALOG CONSTRAINT_SCHEMA CONSTRAINT_NAME TABLE_NAME {_ATTRIBUTES}",
        _constraints,
    ),
    ("SCHEMATA_EXTENSIONS", "CATALOG_NAME SCHEMA_NAME OPTIONS:256", _databases),
    ("KEYWORDS", "WORD:128 RESERVED#", _keywords),
    ("USER_ATTRIBUTES", "USER:32 HOST:255 ATTRIBUTE:65535", _accounts),
    (
        "VIEW_TABLE_USAGE",
        f"VIEW_CATALOG VIEW_SCHEMA VIEW_NAME {_PLACE}",
        _view_tables,
    ),
    *((name, line, nothing) for name, line in _EMPTY.items()),
)


# -- mysql database --------------------------------------------------------------------------------

MDL_VIEW = "tidb_mdl_view"
MDL_VIEW_COLUMNS = (
    "JOB_ID# DB_NAME TABLE_NAME QUERY:65535 SESSION_ID# START_TIME@ SQL_DIGESTS:65535"
)
_NS = 1_000_000_000


def mdl_view_rows(context: Context) -> Iterable[Row]:
    """A row for each transaction that a job waits for."""
    now_ns = context.session.services.clock.wall_ns()
    for job in queue.unfinished(context.txn):
        for blocker in versions.blockers(context.txn, job.id):
            began = packed_time(timestamp(now_ns - int(blocker.age_s * _NS)))
            digests = json.dumps([blocker.query])
            place = [job.schema_name, job.table_name]
            yield [job.id, *place, job.query, blocker.session, began, digests]


def user_rows(context: Context) -> Iterable[Row]:
    """The rows of mysql.user, with the columns of SHOWN_USER."""
    txn = context.txn
    table = planned(txn, "user")
    for _, row in reader.scan(txn, table):
        host, user = str(row[0]), str(row[1])
        attributes = account_attributes.get(txn, user, host.lower())
        changed = None
        if attributes.changed_s:
            changed = packed_moment(attributes.changed_s * 10**9)
        yield [
            *row,
            attributes.history,
            attributes.reuse_days,
            _locking_of(attributes, login_failures.get(txn, user, host.lower())),
            2 if attributes.expired else 1,
            changed,
            attributes.lifetime_days,
        ]


def _locking_of(attributes: AccountAttributes, failures: LoginFailures) -> str | None:
    """Password_locking of User_attributes, in TiDB's format."""
    if not attributes.failed_attempts and not attributes.lock_days:
        return None
    words: dict[str, object] = {
        "failed_login_attempts": attributes.failed_attempts,
        "password_lock_time_days": attributes.lock_days,
    }
    if failures.failures:
        words["failed_login_count"] = failures.failures
        words["auto_account_locked"] = "Y" if failures.locked_at_s else "N"
    if failures.locked_at_s:
        moment = datetime.fromtimestamp(failures.locked_at_s, UTC)
        words["auto_locked_last_changed"] = moment.strftime("%a %b %e %H:%M:%S UTC %Y")
    return jsontext.normalise(json.dumps({"Password_locking": words}))


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


# -- performance schema ----------------------------------------------------------------------------

_VARIABLES = "VARIABLE_NAME VARIABLE_VALUE:1024"


def status_rows(context: Context) -> list[Row]:
    """(name, value) of each counter, by name."""
    services = context.session.services
    clients, _ = services.processes.here()
    running = sum(process.command != "Sleep" for _, process in clients)
    return [
        ["Ssl_cipher", ""],
        ["Ssl_version", ""],
        ["Threads_connected", str(len(clients))],
        ["Threads_running", str(running)],
        ["Uptime", str(services.processes.uptime_s)],
        ["ddl_schema_version", str(meta.version(context.txn))],
        ["server_id", services.member.id],
    ]


def _status(context: Context) -> Iterable[Row]:
    return status_rows(context)


def _session_variables(context: Context) -> Iterable[Row]:
    return ([name, text] for name, text in sorted(context.session.texts().items()))


def _global_variables(context: Context) -> Iterable[Row]:
    return ([name, text] for name, text in sorted(variables.all_globals(context.txn).items()))


def _processlist(context: Context) -> Iterable[Row]:
    for process in processes_seen(context):
        yield [*process[:3], process.database or None, *process[4:7], process.info or None]


def _attributes(context: Context) -> Iterable[Row]:
    for process in processes_seen(context):
        for place, (name, value) in enumerate(process.attributes):
            yield [process.id, name, value, place]


def _own_attributes(context: Context) -> Iterable[Row]:
    own = context.session.connection_id
    return (row for row in _attributes(context) if row[0] == own)


_CONNECT_ATTRIBUTES = "PROCESSLIST_ID# ATTR_NAME:32 ATTR_VALUE:1024 ORDINAL_POSITION#"
PERFORMANCE_SCHEMA = (
    ("session_account_connect_attrs", _CONNECT_ATTRIBUTES, _own_attributes),
    ("session_connect_attrs", _CONNECT_ATTRIBUTES, _attributes),
    ("global_status", _VARIABLES, _status),
    ("session_status", _VARIABLES, _status),
    ("global_variables", _VARIABLES, _global_variables),
    ("session_variables", _VARIABLES, _session_variables),
    ("processlist", "ID# USER HOST:261 DB COMMAND TIME# STATE INFO:65535", _processlist),
)
