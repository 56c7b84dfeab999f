"""information_schema: the state of the server. Nodes, system variables, jobs, analyses, privileges,
roles.

The columns are those of TiDB 8.5. Nodes are the live members; a back is listed with its front's
address. Some values are known to one node only (status port, version of its program): they are
empty for other nodes. Other accounts' privileges are visible with SELECT on mysql.

Analyses that ran are in ANALYZE_STATUS, waiting ones in AUTO_ANALYZE_QUEUE:

    SCORE = CHANGE_SCORE + SIZE_SCORE + AGE_SCORE + EVENT_SCORE          stats/priority.py

The stats owner has the queue and is asked for it (cluster/questions.py), so a query waits some
milliseconds for the answer. If the owner does not answer, there is a warning and no rows. A job
that is to be retried has no score until it is queued again.

Change logs (EXUVIA_CHANGE_LOGS): moments from OLDEST_MOMENT on are readable AS OF TIMESTAMP, and
changes are readable from there on. RECORDS and BYTES are estimates.

Retained drops (EXUVIA_UNDO): the drops that ADMIN UNDO DDL JOB can undo, until when, and their
cost.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TypeVar

from exuvia.base.errors import Unavailable
from exuvia.base.mysql_errors import ErrUnknown
from exuvia.base.types import packed_moment
from exuvia.catalog import meta
from exuvia.catalog.model import SchemaState
from exuvia.catalog.sysvar import variables
from exuvia.catalog.sysvar.definition import VariableKind
from exuvia.catalog.temporal import shift_zone
from exuvia.cluster import member as members
from exuvia.cluster.member import MemberInfo
from exuvia.cluster.questions import Asking
from exuvia.ddl import admin, groups, inspection, kept, queue
from exuvia.ddl.actions.undo import is_hidden, stands_again
from exuvia.ddl.job import Job, packed_time, sub_rows
from exuvia.events import change_log as logs_kept
from exuvia.events.change_log import Log, Moment
from exuvia.kv import keys
from exuvia.kv.store import Store
from exuvia.sql.charsets import (
    CHARSETS,
    CHARSETS_OF_MYSQL,
    COLLATIONS,
    DEFAULTS,
    OF_MYSQL,
    Defaults,
    default_collations,
)
from exuvia.sql.information_schema.tables import all_tables, nothing, reads, row_count, sees
from exuvia.sql.privileges.accounts import Account, Book, read
from exuvia.sql.privileges.rights import COLUMN, COLUMNS, GRANT, USAGE
from exuvia.sql.result import Row
from exuvia.sql.statement.context import Context
from exuvia.sql.statement.services import (
    Everywhere,
    ProcessInfo,
    SlowEverywhere,
    SlowStatement,
)
from exuvia.sql.statement.settings import all_globals
from exuvia.stats import analyze_jobs
from exuvia.stats import queue as stats_queue
from exuvia.stats.priority import AnalysisJob, parts

ENGINE_COMMENT = "Exuvia's store: transactions, online schema change"


def engines(context: Context) -> Iterable[Row]:
    """ENGINE, SUPPORT, COMMENT, TRANSACTIONS, XA, SAVEPOINTS."""
    yield ["InnoDB", "DEFAULT", ENGINE_COMMENT, "YES", "NO", "YES"]


def character_sets(context: Context) -> Iterable[Row]:
    """CHARACTER_SET_NAME, DEFAULT_COLLATE_NAME, DESCRIPTION, MAXLEN."""
    has_all = context.session.variable("exuvia_compatibility") == "mysql"
    defaults = _defaults(context)
    for charset, (_, description, width) in sorted(CHARSETS.items()):
        if has_all or charset not in CHARSETS_OF_MYSQL:
            yield [charset, defaults[charset], description, width]


def _defaults(context: Context) -> Defaults:
    variable = context.session.variable
    is_mysql = variable("exuvia_compatibility") == "mysql"
    return default_collations(variable) if is_mysql else DEFAULTS


def collations(context: Context) -> Iterable[Row]:
    """COLLATION_NAME, CHARACTER_SET_NAME, ID, IS_DEFAULT, IS_COMPILED, SORTLEN, PAD_ATTRIBUTE."""
    defaults = _defaults(context)
    for collate, (charset, number) in _usable_collations(context):
        default = "Yes" if defaults[charset] == collate else ""
        pad = "NO PAD" if "_0900_" in collate or collate == "binary" else "PAD SPACE"
        length = _SORT_LENGTHS.get(collate.partition("_")[2], 1)
        yield [collate, charset, number, default, "Yes", length, pad]


def _usable_collations(context: Context) -> Iterable[tuple[str, tuple[str, int]]]:
    """The collations that columns may have."""
    has_all = context.session.variable("exuvia_compatibility") == "mysql"
    return [
        collation for collation in COLLATIONS.items() if has_all or collation[0] not in OF_MYSQL
    ]


_SORT_LENGTHS = {"unicode_ci": 8, "unicode_520_ci": 8, "0900_ai_ci": 0}


def _applicability(context: Context) -> Iterable[Row]:
    for collate, (charset, _) in _usable_collations(context):
        yield [collate, charset]


def processes_seen(context: Context) -> list[ProcessInfo]:
    """All processes of this node with PROCESS, else those of the same user."""
    return [
        process
        for _, process in _visible_processes(context, context.session.services.processes.here())
    ]


def _visible_processes(context: Context, answers: Everywhere) -> list[tuple[str, ProcessInfo]]:
    """The processes that the user may see. A front that does not answer causes a warning."""
    return _visible(context, answers)


OfUser = TypeVar("OfUser", ProcessInfo, SlowStatement)


def _visible(
    context: Context, answers: tuple[list[tuple[str, OfUser]], list[str]]
) -> list[tuple[str, OfUser]]:
    session, (listed, silent) = context.session, answers
    for reason in silent:
        context.note(ErrUnknown.code, reason)
    sees_all = "PROCESS" in session.rights.everywhere
    return [(at, item) for at, item in listed if sees_all or item.user == session.user]


def process_row(process: ProcessInfo) -> Row:
    """A row of PROCESSLIST."""
    about = [process.command, process.time_s, process.state, process.info or None]
    return [process.id, process.user, process.host, process.database or None, *about]


def _processlist(context: Context) -> Iterable[Row]:
    return map(process_row, processes_seen(context))


def _cluster_processlist(context: Context) -> Iterable[Row]:
    """The processes of all nodes, each with its node's address."""
    visible = _visible_processes(context, context.session.services.processes.everywhere())
    return [[at, *process_row(process)] for at, process in visible]


def _jobs(context: Context) -> Iterator[Job]:
    """Unfinished jobs by id, then history from the newest on, read only as far as needed."""
    services, job_id = context.session.services, context.about.job_id
    unfinished = admin.unfinished(context.txn, services.owner, services.clock.monotonic())
    if job_id is None:
        yield from unfinished
        yield from queue.newest(context.txn, None)
        return
    yield from (job for job in unfinished if job.id == job_id)
    finished = queue.finished(context.txn, job_id)
    if finished is not None:
        yield finished


def _ddl_jobs(context: Context) -> Iterable[Row]:
    for job in _jobs(context):
        place = job.schema_name, job.table_name
        if not sees(context, *place):
            continue
        # The query names columns, and the error of a failed job may quote their values
        query = job.query if context.session.rights.whole_table(*place) else None
        may_read = reads(context, *place)
        for row in (job.row(), *sub_rows(job)):
            yield [*row[:12], query, row[12] if may_read else None, *row[13:]]


def slow_seen(context: Context, answers: SlowEverywhere) -> list[tuple[str, SlowStatement]]:
    """The slow statements that the user may see. A front that does not answer causes a warning."""
    return _visible(context, answers)


def _slow_row(context: Context, slow: SlowStatement) -> Row:
    moment = shift_zone(packed_moment(slow.ended_ns), None, context.zone)
    about: Row = [moment, slow.user, slow.host, slow.connection, slow.took_s]
    return [*about, slow.database or None, int(slow.succeeded), slow.plan or None, slow.query]


def _slow_query(context: Context) -> Iterable[Row]:
    """The slow statements of this node, the oldest first."""
    answers = context.session.services.slow.here()
    return [_slow_row(context, slow) for _, slow in slow_seen(context, answers)]


def _cluster_slow_query(context: Context) -> Iterable[Row]:
    """The slow statements of all nodes, each with its node's address."""
    answers = context.session.services.slow.everywhere()
    return [[at, *_slow_row(context, slow)] for at, slow in slow_seen(context, answers)]


_SLOW = "TIME! USER HOST CONN_ID# QUERY_TIME% DB SUCC# PLAN:65535 QUERY:65535"


def _ddl_groups(context: Context) -> Iterable[Row]:
    """A row for each job of each group; a group without jobs has one row with NULLs."""
    if not context.session.rights.everything:
        return
    for status in groups.all_groups(context.txn):
        group, trouble = status.group, status.broken or status.group.trouble
        for job in status.members:
            yield [
                *(group.name, status.state, job.id, job.schema_name, job.table_name),
                *(job.action_text, job.row()[-3], group.by, trouble),
            ]
        if not status.members:
            yield [group.name, status.state, *[None] * 5, group.by, trouble]


_PROCESS = "ID# USER HOST:261 DB COMMAND TIME# STATE INFO:65535"


# -- nodes -----------------------------------------------------------------------------------------


_NS_PER_S = 1_000_000_000


def _fronts(context: Context) -> list[MemberInfo]:
    fronts = [member for member in members.live(context.txn) if member.kind == "front"]
    return sorted(fronts, key=lambda front: front.started)


def _cluster_info(context: Context) -> Iterable[Row]:
    now_ns = context.session.services.clock.wall_ns()
    for front in _fronts(context):
        up_s = max(0, now_ns - front.started) // _NS_PER_S
        hours, rest = divmod(up_s, 3600)
        uptime = f"{hours}h{rest // 60}m{rest % 60}s"
        host = front.address.rpartition(":")[0]
        status = f"{host}:{front.status_port}" if front.status_port else ""
        began = packed_moment(front.started)
        yield ["tidb", front.address, status, front.release, "", began, uptime, front.number]


def _servers(context: Context) -> Iterable[Row]:
    for front in _fronts(context):
        host, _, port = front.address.rpartition(":")
        number = int(port) if port.isdigit() else 0
        lease = f"{front.lease_s:g}s"
        yield [front.id, host, number, front.status_port, lease, front.release, "", "Off", ""]


_TABLES_OF_NODES = (
    (
        "CLUSTER_INFO",
        "TYPE INSTANCE STATUS_ADDRESS VERSION GIT_HASH START_TIME@ UPTIME SERVER_ID#",
        _cluster_info,
    ),
    (
        "TIDB_SERVERS_INFO",
        "DDL_ID IP PORT# STATUS_PORT# LEASE VERSION GIT_HASH BINLOG_STATUS LABELS:128",
        _servers,
    ),
)


# -- variables -------------------------------------------------------------------------------------


_NUMBERS = (VariableKind.INTEGER, VariableKind.REAL, VariableKind.SIZE)
_SCOPES = {"GS": "SESSION,GLOBAL", "G": "GLOBAL", "S": "SESSION"}


def _session(context: Context) -> Iterable[Row]:
    for name, text in sorted(context.session.texts().items()):
        yield [name, text]


def _info(context: Context) -> Iterator[Row]:
    now = all_globals(context.txn, context.session.services)
    own = context.session.texts()
    for name, variable in sorted(variables.VARIABLES.items()):
        current = now[name] if "G" in variable.scope else own[name]
        bounded = variable.kind in _NUMBERS and bool(variable.most)
        yield [
            name,
            "NONE" if variable.read_only and "G" in variable.scope else _SCOPES[variable.scope],
            variable.default,
            current,
            int(variable.least) if bounded else None,
            int(variable.most) if bounded else None,
            ",".join(variable.choices) or None,
            "YES" if variable.effect.kind in ("accepted", "refused") else "NO",
        ]


_TABLES_OF_VARIABLES = (
    ("SESSION_VARIABLES", "VARIABLE_NAME VARIABLE_VALUE:1024", _session),
    (
        "VARIABLES_INFO",
        "VARIABLE_NAME VARIABLE_SCOPE DEFAULT_VALUE CURRENT_VALUE MIN_VALUE# MAX_VALUE#"
        " POSSIBLE_VALUES:256 IS_NOOP",
        _info,
    ),
)

TABLES = (
    ("ENGINES", "ENGINE SUPPORT COMMENT:80 TRANSACTIONS XA SAVEPOINTS", engines),
    (
        "CHARACTER_SETS",
        "CHARACTER_SET_NAME DEFAULT_COLLATE_NAME DESCRIPTION MAXLEN#",
        character_sets,
    ),
    (
        "COLLATIONS",
        "COLLATION_NAME CHARACTER_SET_NAME ID# IS_DEFAULT IS_COMPILED SORTLEN# PAD_ATTRIBUTE",
        collations,
    ),
    (
        "COLLATION_CHARACTER_SET_APPLICABILITY",
        "COLLATION_NAME CHARACTER_SET_NAME",
        _applicability,
    ),
    ("PROCESSLIST", _PROCESS, _processlist),
    ("SLOW_QUERY", _SLOW, _slow_query),
    ("CLUSTER_SLOW_QUERY", f"INSTANCE {_SLOW}", _cluster_slow_query),
    ("CLUSTER_PROCESSLIST", f"INSTANCE {_PROCESS}", _cluster_processlist),
    (
        "DDL_JOBS",
        "JOB_ID# DB_NAME TABLE_NAME JOB_TYPE SCHEMA_STATE SCHEMA_ID# TABLE_ID# ROW_COUNT#"
        " CREATE_TIME@ START_TIME@ END_TIME@ STATE QUERY:65535 COMMENTS:1024 USER:320",
        _ddl_jobs,
    ),
    (
        "EXUVIA_DDL_GROUPS",
        "GROUP_NAME STATE JOB_ID# DB_NAME TABLE_NAME JOB_TYPE JOB_STATE CREATED_BY:320"
        " COMMENTS:1024",
        _ddl_groups,
    ),
    (
        "ROUTINES",
        "SPECIFIC_NAME ROUTINE_CATALOG ROUTINE_SCHEMA ROUTINE_NAME ROUTINE_TYPE DATA_TYPE"
        " CHARACTER_MAXIMUM_LENGTH# CHARACTER_OCTET_LENGTH# NUMERIC_PRECISION# NUMERIC_SCALE#"
        " DATETIME_PRECISION# CHARACTER_SET_NAME COLLATION_NAME DTD_IDENTIFIER:65535 ROUTINE_BODY"
        " ROUTINE_DEFINITION:65535 EXTERNAL_NAME EXTERNAL_LANGUAGE PARAMETER_STYLE"
        " IS_DETERMINISTIC SQL_DATA_ACCESS SQL_PATH SECURITY_TYPE CREATED@ LAST_ALTERED@"
        " SQL_MODE:8192 ROUTINE_COMMENT:65535 DEFINER:93 CHARACTER_SET_CLIENT"
        " COLLATION_CONNECTION DATABASE_COLLATION",
        nothing,
    ),
    (
        "PARAMETERS",
        "SPECIFIC_CATALOG SPECIFIC_SCHEMA SPECIFIC_NAME ORDINAL_POSITION# PARAMETER_MODE"
        " PARAMETER_NAME DATA_TYPE CHARACTER_MAXIMUM_LENGTH# CHARACTER_OCTET_LENGTH#"
        " NUMERIC_PRECISION# NUMERIC_SCALE# DATETIME_PRECISION# CHARACTER_SET_NAME COLLATION_NAME"
        " DTD_IDENTIFIER:65535 ROUTINE_TYPE",
        nothing,
    ),
    (
        "TRIGGERS",
        "TRIGGER_CATALOG:512 TRIGGER_SCHEMA TRIGGER_NAME EVENT_MANIPULATION EVENT_OBJECT_CATALOG"
        " EVENT_OBJECT_SCHEMA EVENT_OBJECT_TABLE ACTION_ORDER# ACTION_CONDITION:65535"
        " ACTION_STATEMENT:65535 ACTION_ORIENTATION ACTION_TIMING ACTION_REFERENCE_OLD_TABLE"
        " ACTION_REFERENCE_NEW_TABLE ACTION_REFERENCE_OLD_ROW ACTION_REFERENCE_NEW_ROW CREATED@"
        " SQL_MODE:8192 DEFINER:288 CHARACTER_SET_CLIENT COLLATION_CONNECTION DATABASE_COLLATION",
        nothing,
    ),
    (
        "EVENTS",
        "EVENT_CATALOG EVENT_SCHEMA EVENT_NAME DEFINER:288 TIME_ZONE EVENT_BODY"
        " EVENT_DEFINITION:65535 EVENT_TYPE EXECUTE_AT@ INTERVAL_VALUE:256 INTERVAL_FIELD"
        " SQL_MODE:8192 STARTS@ ENDS@ STATUS ON_COMPLETION CREATED@ LAST_ALTERED@ LAST_EXECUTED@"
        " EVENT_COMMENT:2048 ORIGINATOR# CHARACTER_SET_CLIENT COLLATION_CONNECTION"
        " DATABASE_COLLATION",
        nothing,
    ),
    (
        "PLUGINS",
        "PLUGIN_NAME PLUGIN_VERSION PLUGIN_STATUS PLUGIN_TYPE PLUGIN_TYPE_VERSION PLUGIN_LIBRARY"
        " PLUGIN_LIBRARY_VERSION PLUGIN_AUTHOR PLUGIN_DESCRIPTION:65535 PLUGIN_LICENSE LOAD_OPTION",
        nothing,
    ),
    (
        "FILES",
        "FILE_ID# FILE_NAME:4000 FILE_TYPE TABLESPACE_NAME TABLE_CATALOG TABLE_SCHEMA TABLE_NAME"
        " LOGFILE_GROUP_NAME LOGFILE_GROUP_NUMBER# ENGINE FULLTEXT_KEYS DELETED_ROWS# UPDATE_COUNT#"
        " FREE_EXTENTS# TOTAL_EXTENTS# EXTENT_SIZE# INITIAL_SIZE# MAXIMUM_SIZE# AUTOEXTEND_SIZE#"
        " CREATION_TIME@ LAST_UPDATE_TIME@ LAST_ACCESS_TIME@ RECOVER_TIME# TRANSACTION_COUNTER#"
        " VERSION# ROW_FORMAT TABLE_ROWS# AVG_ROW_LENGTH# DATA_LENGTH# MAX_DATA_LENGTH#"
        " INDEX_LENGTH# DATA_FREE# CREATE_TIME@ UPDATE_TIME@ CHECK_TIME@ CHECKSUM# STATUS"
        " EXTRA:255",
        nothing,
    ),
    ("COLUMN_STATISTICS", "SCHEMA_NAME TABLE_NAME COLUMN_NAME HISTOGRAM:65535", nothing),
    (
        "TABLESPACES",
        "TABLESPACE_NAME ENGINE TABLESPACE_TYPE LOGFILE_GROUP_NAME EXTENT_SIZE# AUTOEXTEND_SIZE#"
        " MAXIMUM_SIZE# NODEGROUP_ID# TABLESPACE_COMMENT:2048",
        nothing,
    ),
    *_TABLES_OF_NODES,
    *_TABLES_OF_VARIABLES,
)


# -- privileges ------------------------------------------------------------------------------------


def books(context: Context) -> tuple[Book, list[Account]]:
    """The accounts whose privileges are visible: all with SELECT on mysql, else the own one."""
    book, session = read(context.txn), context.session
    if "SELECT" in session.rights.on_database("mysql"):
        return book, list(book.accounts)
    own = book.account(*session.account_name)
    return book, [own] if own is not None else []


def _words_of(privileges: frozenset[str]) -> tuple[list[str], str]:
    words = [word for word in COLUMNS if word in privileges] or [USAGE]
    return words, "YES" if GRANT in privileges else "NO"


def _global(context: Context) -> Iterable[Row]:
    for account in books(context)[1]:
        words, option = _words_of(account.privileges)
        for word in words:
            yield [account.title, "def", word, option]


def _database(context: Context) -> Iterable[Row]:
    book, accounts = books(context)
    visible = {account[:2]: account for account in accounts}
    for on in book.databases:
        if on[:2] in visible:
            words, option = _words_of(on.privileges)
            for word in words:
                yield [visible[on[:2]].title, "def", on.database, word, option]


def _table(context: Context) -> Iterable[Row]:
    book, accounts = books(context)
    visible = {account[:2]: account for account in accounts}
    for row in book.tables:
        if row[:2] in visible:
            words, option = _words_of(row.privileges)
            for word in words:
                yield [visible[row[:2]].title, "def", row.database, row.table, word, option]


_GRANTEE_COLUMNS = "GRANTEE:292 TABLE_CATALOG:512"


def _column(context: Context) -> Iterable[Row]:
    book, accounts = books(context)
    visible = {account[:2]: account for account in accounts}
    for row in book.columns:
        if row[:2] in visible:
            for word in (privilege for privilege in COLUMN if privilege in row.privileges):
                place = ["def", row.database, row.table, row.column]
                yield [visible[row[:2]].title, *place, word, "NO"]


def _enabled_roles(context: Context) -> Iterable[Row]:
    session = context.session
    defaults = read(context.txn).roles.defaults_of(session.account_name)
    for role in session.active_roles:
        yield [*role, "YES" if role in defaults else "NO", "NO"]


def _applicable_roles(context: Context) -> Iterable[Row]:
    session, roles = context.session, read(context.txn).roles
    name = session.account_name
    for role in roles.granted(name):
        passes = "YES" if roles.may_pass_on(name, role) else "NO"
        default = "YES" if role in roles.defaults_of(name) else "NO"
        must = "YES" if role in roles.mandatory else "NO"
        yield [*name, *name, *role, passes, default, must]


PRIVILEGES = (
    (
        "COLUMN_PRIVILEGES",
        f"{_GRANTEE_COLUMNS} TABLE_SCHEMA TABLE_NAME COLUMN_NAME PRIVILEGE_TYPE IS_GRANTABLE",
        _column,
    ),
    ("ENABLED_ROLES", "ROLE_NAME:255 ROLE_HOST:255 IS_DEFAULT IS_MANDATORY", _enabled_roles),
    (
        "APPLICABLE_ROLES",
        "USER:97 HOST:256 GRANTEE:97 GRANTEE_HOST:256 ROLE_NAME:255 ROLE_HOST:255"
        " IS_GRANTABLE IS_DEFAULT IS_MANDATORY",
        _applicable_roles,
    ),
    ("USER_PRIVILEGES", f"{_GRANTEE_COLUMNS} PRIVILEGE_TYPE IS_GRANTABLE", _global),
    (
        "SCHEMA_PRIVILEGES",
        f"{_GRANTEE_COLUMNS} TABLE_SCHEMA PRIVILEGE_TYPE IS_GRANTABLE",
        _database,
    ),
    (
        "TABLE_PRIVILEGES",
        f"{_GRANTEE_COLUMNS} TABLE_SCHEMA TABLE_NAME PRIVILEGE_TYPE IS_GRANTABLE",
        _table,
    ),
)


# -- analyses --------------------------------------------------------------------------------------

_QUEUE_COLUMNS = (
    "TABLE_SCHEMA TABLE_NAME PARTITION_NAME TABLE_ID# STATE CHANGE_PERCENT% TABLE_SIZE%"
    " AGE_SECONDS% CHANGE_SCORE% SIZE_SCORE% AGE_SCORE% EVENT_SCORE% SCORE% PARTITIONS#"
    " NEW_INDEXES#"
)
_UNSCORED = 10


def analyze_queue(context: Context) -> Iterable[Row]:
    """Running jobs, waiting ones by their score, and those to be retried."""
    session = context.session
    asking = Asking(session.services.store, session.services.member, session.services.clock)
    try:
        answer = stats_queue.ask(asking, session.check_interrupt)
    except Unavailable as error:
        context.note(ErrUnknown.code, str(error))
        return
    names = _Names(context)
    for state, jobs in (("running", answer.running), ("waiting", answer.waiting)):
        for job in jobs:
            place = names.of(job.table_id, job.key, job.partition)
            if sees(context, place[0], place[1]):
                yield [*place, state, *_scored(job, answer.at_s)]
    for key, table_id in answer.must_retry.items():
        place = names.of(table_id, key, key)
        if sees(context, place[0], place[1]):
            yield [*place, "must retry", *[None] * _UNSCORED]


def _scored(job: AnalysisJob, at_s: float) -> Iterator[object]:
    indicators = job.indicators(at_s)
    scores = parts(indicators, job.has_new_index)
    yield from indicators
    yield from scores
    yield scores.total
    yield len(job.partitions)
    yield len(job.indexes) + sum(len(indexes) for _, indexes in job.missing)


class _Names:
    """Names by ids; each database is read once."""

    def __init__(self, context: Context) -> None:
        self._txn = context.txn
        self._databases: dict[int, str | None] = {}

    def of(self, table_id: int, key: int, partition: int) -> Row:
        """Schema, table, partition and the physical id; NULLs for dropped objects."""
        table = meta.get_table(self._txn, table_id)
        if table is None:
            return [None, None, None, key]
        database_id = table.exuvia_db
        if database_id not in self._databases:
            database = meta.get_database(self._txn, database_id)
            self._databases[database_id] = None if database is None else database.db_name.O
        definitions = table.partition.definitions if table.partition is not None else ()
        name = next(
            (definition.name.O for definition in definitions if definition.id == partition), None
        )
        return [self._databases[database_id], table.name.O, name, key]


ANALYZE_STATUS_COLUMNS = (
    "Table_schema Table_name Partition_name Job_info:65535 Processed_rows# Start_time@ End_time@"
    " State Fail_reason:65535 Instance:512 Process_ID# Remaining_seconds Progress"
    " Estimated_total_rows#"
)


def analyze_status(context: Context) -> Iterable[Row]:
    """Rows of ANALYZE_STATUS, the latest first."""
    zone = context.zone
    for analysis in analyze_jobs.newest(context.txn):
        if not sees(context, analysis.schema, analysis.table):
            continue
        started, ended = (
            None if moment is None else shift_zone(moment, None, zone) & _WHOLE_SECONDS
            for moment in (analysis.started, analysis.ended)
        )
        line = [
            analysis.schema,
            analysis.table,
            analysis.partition,
            analysis.info,
            analysis.rows,
            started,
            ended,
        ]
        line += [
            analyze_jobs.STATES[analysis.state],
            analysis.reason,
            analysis.instance,
            analysis.process_id,
        ]
        yield [*line, *_progress(context, analysis)]


_WHOLE_SECONDS = ~((1 << 20) - 1)  # a packed moment without its microseconds


def _progress(context: Context, analysis: analyze_jobs.Logged) -> Row:
    """Remaining seconds, the share done, and the table's rows, for a running analysis."""
    if analysis.state != analyze_jobs.RUNNING or analysis.started is None or not analysis.rows:
        return [None, None, None]
    tables = (
        table
        for database, table in all_tables(context)
        if (database.db_name.O, table.name.O) == (analysis.schema, analysis.table)
    )
    table = next(tables, None)
    if table is None:
        return [None, None, None]
    total = max(row_count(context, table), analysis.rows)
    elapsed_s = seconds_between(analysis.started, context.utc_now)
    remaining = int(elapsed_s * (total - analysis.rows) / analysis.rows)
    return [str(remaining), f"{analysis.rows / total:.4f}", total]


def seconds_between(earlier: int, later: int) -> float:
    """Seconds between two packed moments that are less than a day apart."""

    def seconds(packed: int) -> float:
        clock = (packed >> 32 & 31) * 3600 + (packed >> 26 & 63) * 60 + (packed >> 20 & 63)
        return clock + (packed & 0xFFFFF) / 1e6

    return (seconds(later) - seconds(earlier)) % 86400


_ANALYSES = (("ANALYZE_STATUS", ANALYZE_STATUS_COLUMNS.upper(), analyze_status),)

ANALYSES = (("AUTO_ANALYZE_QUEUE", _QUEUE_COLUMNS, analyze_queue), *_ANALYSES)


# -- change logs -----------------------------------------------------------------------------------

_CHANGE_LOG_COLUMNS = (
    "TABLE_SCHEMA TABLE_NAME STATE OLDEST_MOMENT! NEWEST_MOMENT! RECORDS# BYTES# REMOVED_UP_TO#"
)


def change_logs(context: Context) -> Iterable[Row]:
    """Change logs of tables: the moments that AS OF TIMESTAMP can read, and estimated sizes."""
    store, txn = context.session.services.store, context.txn
    txn.open()
    newest = logs_kept.newest_moment(txn)
    for database, table in all_tables(context):
        if table.exuvia_change_log == SchemaState.ABSENT:
            continue
        line: Row = [database.db_name.O, table.name.O, table.exuvia_change_log.name.lower()]
        log = logs_kept.log_of(txn, table)
        if log is None:
            yield [*line, *[None] * 5]
            continue
        oldest = logs_kept.first_moment(txn, partial(_is_readable, store, log))
        moments = [
            None if oldest is None else _shown_moment(context, moment)
            for moment in (oldest, newest)
        ]
        size = logs_kept.size_of(store, txn, list(map(keys.span_of, log.prefixes)))
        yield [*line, *moments, size.records, size.bytes, log.floor or None]


def _is_readable(store: Store, log: Log, moment: Moment) -> bool:
    view = store.view_at(moment.position)
    return view is not None and log.has(view)


def _shown_moment(context: Context, moment: Moment | None) -> int | None:
    if moment is None:
        return None
    return shift_zone(packed_moment(moment.wall_us * 1_000), None, context.zone)


CHANGE_LOGS = (("EXUVIA_CHANGE_LOGS", _CHANGE_LOG_COLUMNS, change_logs),)


# -- inspections -----------------------------------------------------------------------------------

_INSPECT_JOB_COLUMNS = (
    "JOB_ID# TABLE_SCHEMA TABLE_NAME STATE FINDINGS# ROW_COUNT# CREATE_TIME@ START_TIME@ END_TIME@"
    " USER:320 COMMENTS:1024"
)
_INSPECT_ERROR_COLUMNS = (
    "JOB_ID# TABLE_SCHEMA TABLE_NAME PARTITION_NAME ELEMENT_NAME ERROR_TYPE ROW_ID:1024"
    " DETAILS:4096 REPAIR:512"
)


def inspect_jobs(context: Context) -> Iterable[Row]:
    """The retained inspections, the oldest first."""
    for job in inspection.every(context.txn):
        if not sees(context, job.database, job.table):
            continue
        moments = [
            shift_zone(packed_moment(moment), None, context.zone) & _WHOLE_SECONDS
            if moment
            else None
            for moment in (job.asked, job.began, job.ended)
        ]
        line: Row = [job.id, job.database, job.table, job.state, len(job.findings), job.rows]
        yield [*line, *moments, job.user or ("schedule" if job.automatic else ""), job.note]


def inspect_errors(context: Context) -> Iterable[Row]:
    """Findings of inspections. They contain values of rows, so privileges apply."""
    for job in inspection.every(context.txn):
        if not reads(context, job.database, job.table):
            continue
        for finding in job.findings:
            yield [job.id, job.database, job.table, *finding_row(finding)]


def finding_row(finding: inspection.InspectFinding) -> Row:
    """A finding as a row, with NULL for empty texts."""
    texts = (
        finding.partition,
        finding.element,
        finding.kind,
        finding.row,
        finding.details,
        finding.mend,
    )
    return [text or None for text in texts]


INSPECTIONS = (
    ("EXUVIA_INSPECT_JOBS", _INSPECT_JOB_COLUMNS, inspect_jobs),
    ("EXUVIA_INSPECT_ERRORS", _INSPECT_ERROR_COLUMNS, inspect_errors),
)


# -- drops that can be undone ----------------------------------------------------------------------

_UNDO_COLUMNS = "JOB_ID# TABLE_SCHEMA TABLE_NAME KIND NAME KEPT_UNTIL@ STATE COST:256"
_HIDDEN_COST = {
    "index": "writes update the index; UNDO compares it with all rows",
    "column": "new rows contain the column; UNDO compares its indexes",
    "modify": "new rows contain the former value, too; UNDO writes every row",
    "table": "rows are retained; UNDO copies rows written since, and compares indexes",
}
_AGAIN = {
    "index": "backfills the index again",
    "modify": "changes the column back",
    "key": "moves all rows to the handles of the former key",
}


def undo(context: Context) -> Iterable[Row]:
    """The drops that ADMIN UNDO DDL JOB can undo: hidden elements, and definitions
    (ddl/kept.py)."""
    retained = kept.every(context.txn)
    tables = all_tables(context) if retained else ()
    places = {table.id: (database, table) for database, table in tables}
    for drop in retained:
        if drop.table_id not in places:
            continue
        database, table = places[drop.table_id]
        if stands_again(table, drop):
            continue
        line: Row = [drop.job_id, database.db_name.O, table.name.O, drop.kind, drop.name]
        state, cost = "hidden", _HIDDEN_COST.get(drop.kind, "")
        if drop.is_definition:
            state, cost = "definition", f"none; UNDO {_AGAIN[drop.kind]}"
        elif drop.ended_by or not is_hidden(table, drop):
            state = "ending"
        elif drop.kind == "table":
            state = "rows"
        until = packed_time(drop.until)
        until_local = (
            None if until is None else shift_zone(until, None, context.zone) & _WHOLE_SECONDS
        )
        yield [*line, until_local, state, cost]


UNDO = (("EXUVIA_UNDO", _UNDO_COLUMNS, undo),)
