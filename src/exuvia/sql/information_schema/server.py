"""information_schema: what the server is and does. The nodes of the cluster, system variables, jobs
and analyses, privileges and roles.

Columns as in TiDB 8.5; nodes are the members that live. A back is listed with its front's address.
What one node alone knows of itself (its status port, its program's version) is shown for the node
that is asked and empty for the others. Other accounts' privileges are seen with SELECT on mysql.

Analyses ran (ANALYZE_STATUS) or wait (AUTO_ANALYZE_QUEUE):

    SCORE = CHANGE_SCORE + SIZE_SCORE + AGE_SCORE + EVENT_SCORE          stats/priority.py

The queue lives on the stats owner; it is asked for (cluster/questions.py), so a query waits for its
answer, a few milliseconds; an owner that does not answer is a warning, and no rows. A job that is
to be retried has no score until it is queued again.

Change logs (EXUVIA_CHANGE_LOGS): moments from OLDEST_MOMENT on can be read AS OF TIMESTAMP, and
changes read on from; RECORDS and BYTES are estimates.

Drops that are kept (EXUVIA_UNDO): what ADMIN UNDO DDL JOB can take back, until when, at which cost.
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
    """All with PROCESS, else those of the same user."""
    return [each for _, each in _seen(context, context.session.services.processes.here())]


def _seen(context: Context, told: Everywhere) -> list[tuple[str, ProcessInfo]]:
    """Those that the user may see; who has not answered is a warning."""
    return _visible(context, told)


OfUser = TypeVar("OfUser", ProcessInfo, SlowStatement)


def _visible(
    context: Context, told: tuple[list[tuple[str, OfUser]], list[str]]
) -> list[tuple[str, OfUser]]:
    session, (found, silent) = context.session, told
    for reason in silent:
        context.note(ErrUnknown.code, reason)
    sees_all = "PROCESS" in session.rights.everywhere
    return [(at, each) for at, each in found if sees_all or each.user == session.user]


def process_row(each: ProcessInfo) -> Row:
    """The columns of PROCESSLIST."""
    about = [each.command, each.time_s, each.state, each.info or None]
    return [each.id, each.user, each.host, each.database or None, *about]


def _processlist(context: Context) -> Iterable[Row]:
    return map(process_row, processes_seen(context))


def _cluster_processlist(context: Context) -> Iterable[Row]:
    """With the address of each one's node."""
    found = _seen(context, context.session.services.processes.everywhere())
    return [[at, *process_row(each)] for at, each in found]


def _jobs(context: Context) -> Iterator[Job]:
    """Unfinished jobs by id, then history, newest first, read as far as they are looked at."""
    services, wanted = context.session.services, context.about.job_id
    unfinished = admin.unfinished(context.txn, services.owner, services.clock.monotonic())
    if wanted is None:
        yield from unfinished
        yield from queue.newest(context.txn, None)
        return
    yield from (job for job in unfinished if job.id == wanted)
    finished = queue.finished(context.txn, wanted)
    if finished is not None:
        yield finished


def _ddl_jobs(context: Context) -> Iterable[Row]:
    for job in _jobs(context):
        place = job.schema_name, job.table_name
        if not sees(context, *place):
            continue
        # The text names columns, and why a job failed may be a value of one
        query = job.query if context.session.rights.whole_table(*place) else None
        is_told = reads(context, *place)
        for row in (job.row(), *sub_rows(job)):
            yield [*row[:12], query, row[12] if is_told else None, *row[13:]]


def slow_seen(context: Context, told: SlowEverywhere) -> list[tuple[str, SlowStatement]]:
    """Those that the user may see, as of connections; who has not answered is a warning."""
    return _visible(context, told)


def _slow_row(context: Context, each: SlowStatement) -> Row:
    moment = shift_zone(packed_moment(each.ended_ns), None, context.zone)
    about: Row = [moment, each.user, each.host, each.connection, each.took_s]
    return [*about, each.database or None, int(each.succeeded), each.plan or None, each.query]


def _slow_query(context: Context) -> Iterable[Row]:
    """The oldest first."""
    told = context.session.services.slow.here()
    return [_slow_row(context, each) for _, each in slow_seen(context, told)]


def _cluster_slow_query(context: Context) -> Iterable[Row]:
    """With the address of each one's node."""
    told = context.session.services.slow.everywhere()
    return [[at, *_slow_row(context, each)] for at, each in slow_seen(context, told)]


_SLOW = "TIME! USER HOST CONN_ID# QUERY_TIME% DB SUCC# PLAN:65535 QUERY:65535"


def _ddl_groups(context: Context) -> Iterable[Row]:
    """A row a job of each group; one with NULLs for a group without any."""
    if not context.session.rights.everything:
        return
    for status in groups.all_groups(context.txn):
        group, said = status.group, status.broken or status.group.trouble
        for job in status.members:
            yield [
                *(group.name, status.state, job.id, job.schema_name, job.table_name),
                *(job.action_text, job.row()[-3], group.by, said),
            ]
        if not status.members:
            yield [group.name, status.state, *[None] * 5, group.by, said]


_PROCESS = "ID# USER HOST:261 DB COMMAND TIME# STATE INFO:65535"
_GRANTEE = "GRANTEE:81 TABLE_CATALOG:512"


# -- nodes -----------------------------------------------------------------------------------------


_NS_PER_S = 1_000_000_000


def _fronts(context: Context) -> list[MemberInfo]:
    found = [each for each in members.live(context.txn) if each.kind == "front"]
    return sorted(found, key=lambda each: each.started)


def _cluster_info(context: Context) -> Iterable[Row]:
    now_ns = context.session.services.clock.wall_ns()
    for each in _fronts(context):
        up_s = max(0, now_ns - each.started) // _NS_PER_S
        hours, rest = divmod(up_s, 3600)
        uptime = f"{hours}h{rest // 60}m{rest % 60}s"
        host = each.address.rpartition(":")[0]
        status = f"{host}:{each.status_port}" if each.status_port else ""
        began = packed_moment(each.started)
        yield ["tidb", each.address, status, each.release, "", began, uptime, each.number]


def _servers(context: Context) -> Iterable[Row]:
    for each in _fronts(context):
        host, _, port = each.address.rpartition(":")
        number = int(port) if port.isdigit() else 0
        lease = f"{each.lease_s:g}s"
        yield [each.id, host, number, each.status_port, lease, each.release, "", "Off", ""]


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
    for name, each in sorted(variables.VARIABLES.items()):
        current = now[name] if "G" in each.scope else own[name]
        bounded = each.kind in _NUMBERS and bool(each.most)
        yield [
            name,
            "NONE" if each.read_only and "G" in each.scope else _SCOPES[each.scope],
            each.default,
            current,
            int(each.least) if bounded else None,
            int(each.most) if bounded else None,
            ",".join(each.choices) or None,
            "YES" if each.effect.kind in ("accepted", "refused") else "NO",
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
    """Accounts whose privileges may be seen: all with SELECT on mysql, else one's own."""
    book, session = read(context.txn), context.session
    if "SELECT" in session.rights.on_database("mysql"):
        return book, list(book.accounts)
    own = book.account(*session.account_name)
    return book, [own] if own is not None else []


def _shown(held: frozenset[str]) -> tuple[list[str], str]:
    words = [each for each in COLUMNS if each in held] or [USAGE]
    return words, "YES" if GRANT in held else "NO"


def _global(context: Context) -> Iterable[Row]:
    for account in books(context)[1]:
        words, option = _shown(account.privileges)
        for word in words:
            yield [account.shown, "def", word, option]


def _database(context: Context) -> Iterable[Row]:
    book, accounts = books(context)
    known = {account[:2]: account for account in accounts}
    for on in book.databases:
        if on[:2] in known:
            words, option = _shown(on.privileges)
            for word in words:
                yield [known[on[:2]].shown, "def", on.database, word, option]


def _table(context: Context) -> Iterable[Row]:
    book, accounts = books(context)
    known = {account[:2]: account for account in accounts}
    for row in book.tables:
        if row[:2] in known:
            words, option = _shown(row.privileges)
            for word in words:
                yield [known[row[:2]].shown, "def", row.database, row.table, word, option]


_GRANTEE_COLUMNS = "GRANTEE:292 TABLE_CATALOG:512"


def _column(context: Context) -> Iterable[Row]:
    book, accounts = books(context)
    known = {account[:2]: account for account in accounts}
    for row in book.columns:
        if row[:2] in known:
            for word in (each for each in COLUMN if each in row.privileges):
                place = ["def", row.database, row.table, row.column]
                yield [known[row[:2]].shown, *place, word, "NO"]


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
    found = parts(indicators, job.has_new_index)
    yield from indicators
    yield from found
    yield found.total
    yield len(job.partitions)
    yield len(job.indexes) + sum(len(indexes) for _, indexes in job.missing)


class _Names:
    """Names by ids, each table read once."""

    def __init__(self, context: Context) -> None:
        self._txn = context.txn
        self._databases: dict[int, str | None] = {}

    def of(self, table_id: int, key: int, partition: int) -> Row:
        """Schema, table, partition and the physical id; NULLs for what is gone."""
        table = meta.get_table(self._txn, table_id)
        if table is None:
            return [None, None, None, key]
        database_id = table.exuvia_db
        if database_id not in self._databases:
            found = meta.get_database(self._txn, database_id)
            self._databases[database_id] = None if found is None else found.db_name.O
        definitions = table.partition.definitions if table.partition is not None else ()
        name = next((each.name.O for each in definitions if each.id == partition), None)
        return [self._databases[database_id], table.name.O, name, key]


ANALYZE_STATUS_COLUMNS = (
    "Table_schema Table_name Partition_name Job_info:65535 Processed_rows# Start_time@ End_time@"
    " State Fail_reason:65535 Instance:512 Process_ID# Remaining_seconds Progress"
    " Estimated_total_rows#"
)


def analyze_status(context: Context) -> Iterable[Row]:
    """Analyses, the latest first: information_schema.analyze_status."""
    zone = context.zone
    for each in analyze_jobs.newest(context.txn):
        if not sees(context, each.schema, each.table):
            continue
        started, ended = (
            None if moment is None else shift_zone(moment, None, zone) & _WHOLE_SECONDS
            for moment in (each.started, each.ended)
        )
        line = [each.schema, each.table, each.partition, each.info, each.rows, started, ended]
        line += [analyze_jobs.STATES[each.state], each.reason, each.instance, each.process_id]
        yield [*line, *_progress(context, each)]


_WHOLE_SECONDS = ~((1 << 20) - 1)  # a packed moment without its microseconds


def _progress(context: Context, each: analyze_jobs.Logged) -> Row:
    """Seconds that remain, share done, and rows there are, while it runs."""
    if each.state != analyze_jobs.RUNNING or each.started is None or not each.rows:
        return [None, None, None]
    tables = (
        table
        for database, table in all_tables(context)
        if (database.db_name.O, table.name.O) == (each.schema, each.table)
    )
    table = next(tables, None)
    if table is None:
        return [None, None, None]
    total = max(row_count(context, table), each.rows)
    passed = seconds_between(each.started, context.utc_now)
    remaining = int(passed * (total - each.rows) / each.rows)
    return [str(remaining), f"{each.rows / total:.4f}", total]


def seconds_between(earlier: int, later: int) -> float:
    """Between two packed moments of the same day or neighbours."""

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
    """Logs of tables: what AS OF TIMESTAMP can read, and about how large each is."""
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
        shown = [
            None if oldest is None else _shown_moment(context, each) for each in (oldest, newest)
        ]
        size = logs_kept.size_of(store, txn, list(map(keys.span_of, log.prefixes)))
        yield [*line, *shown, size.records, size.bytes, log.floor or None]


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
    """Inspections that are kept, the oldest first."""
    for each in inspection.every(context.txn):
        if not sees(context, each.database, each.table):
            continue
        moments = [
            shift_zone(packed_moment(moment), None, context.zone) & _WHOLE_SECONDS
            if moment
            else None
            for moment in (each.asked, each.began, each.ended)
        ]
        line: Row = [each.id, each.database, each.table, each.state, len(each.findings), each.rows]
        yield [*line, *moments, each.user or ("schedule" if each.automatic else ""), each.note]


def inspect_errors(context: Context) -> Iterable[Row]:
    """Findings of inspections. They contain values of rows, so privileges apply."""
    for each in inspection.every(context.txn):
        if not reads(context, each.database, each.table):
            continue
        for found in each.findings:
            yield [each.id, each.database, each.table, *found_as_row(found)]


def found_as_row(found: inspection.InspectFinding) -> Row:
    """A finding, NULL where it says nothing."""
    said = (found.partition, found.element, found.kind, found.row, found.details, found.mend)
    return [each or None for each in said]


INSPECTIONS = (
    ("EXUVIA_INSPECT_JOBS", _INSPECT_JOB_COLUMNS, inspect_jobs),
    ("EXUVIA_INSPECT_ERRORS", _INSPECT_ERROR_COLUMNS, inspect_errors),
)


# -- drops that can be taken back ------------------------------------------------------------------

_UNDO_COLUMNS = "JOB_ID# TABLE_SCHEMA TABLE_NAME KIND NAME KEPT_UNTIL@ STATE COST:256"
_HIDDEN_COST = {
    "index": "writes keep the index; UNDO reads all rows to compare",
    "column": "rows written hold the column; UNDO compares indexes on it, if any",
    "modify": "rows written hold the former value, too; UNDO writes every row",
    "table": "the rows stay; UNDO copies those written since beside them, and compares indexes",
}
_AGAIN = {
    "index": "fills the index anew",
    "modify": "changes the column back",
    "key": "moves all rows to the handles of the former key",
}


def undo(context: Context) -> Iterable[Row]:
    """What ADMIN UNDO DDL JOB can take back: hidden elements, and definitions (ddl/kept.py)."""
    found = kept.every(context.txn)
    tables = all_tables(context) if found else ()
    places = {table.id: (database, table) for database, table in tables}
    for each in found:
        if each.table_id not in places:
            continue
        database, table = places[each.table_id]
        if stands_again(table, each):
            continue
        line: Row = [each.job_id, database.db_name.O, table.name.O, each.kind, each.name]
        state, cost = "hidden", _HIDDEN_COST.get(each.kind, "")
        if each.is_definition:
            state, cost = "definition", f"none; UNDO {_AGAIN[each.kind]}"
        elif each.ended_by or not is_hidden(table, each):
            state = "ending"
        elif each.kind == "table":
            state = "rows"
        until = packed_time(each.until)
        shown = None if until is None else shift_zone(until, None, context.zone) & _WHOLE_SECONDS
        yield [*line, shown, state, cost]


UNDO = (("EXUVIA_UNDO", _UNDO_COLUMNS, undo),)
