"""information_schema: what the server is and does. Columns as in TiDB 8.5."""

from collections.abc import Iterable

from exuvia.base.mysql_errors import ErrUnknown
from exuvia.ddl import queue
from exuvia.ddl.job import Job, sub_rows
from exuvia.sql.charsets import CHARSETS, COLLATIONS
from exuvia.sql.context import Context
from exuvia.sql.result import Row
from exuvia.sql.session.services import Process
from exuvia.sql.show.schema_tables import nothing

ENGINE_COMMENT = "Exuvia's store: transactions, online schema change"


def engines(context: Context) -> Iterable[Row]:
    """ENGINE, SUPPORT, COMMENT, TRANSACTIONS, XA, SAVEPOINTS."""
    yield ["InnoDB", "DEFAULT", ENGINE_COMMENT, "YES", "NO", "YES"]


def character_sets(context: Context) -> Iterable[Row]:
    """CHARACTER_SET_NAME, DEFAULT_COLLATE_NAME, DESCRIPTION, MAXLEN."""
    for charset, (collate, description, width) in CHARSETS.items():
        yield [charset, collate, description, width]


def collations(context: Context) -> Iterable[Row]:
    """COLLATION_NAME, CHARACTER_SET_NAME, ID, IS_DEFAULT, IS_COMPILED, SORTLEN, PAD_ATTRIBUTE."""
    for collate, (charset, number) in COLLATIONS.items():
        default = "Yes" if CHARSETS[charset][0] == collate else ""
        pad = "NO PAD" if "0900" in collate or collate == "binary" else "PAD SPACE"
        length = _SORT_LENGTHS.get(collate.partition("_")[2], 1)
        yield [collate, charset, number, default, "Yes", length, pad]


_SORT_LENGTHS = {"unicode_ci": 8, "0900_ai_ci": 0}


def _applicability(context: Context) -> Iterable[Row]:
    for collate, (charset, _) in COLLATIONS.items():
        yield [collate, charset]


def processes_seen(context: Context) -> list[Process]:
    """All with PROCESS, else those of the same user."""
    session, found = context.session, context.session.services.processes.list()
    if "PROCESS" in session.rights.everywhere:
        return found
    return [each for each in found if each.user == session.user]


def process_row(each: Process) -> Row:
    """The columns of PROCESSLIST."""
    about = [each.command, each.time_s, each.state, each.info or None]
    return [each.id, each.user, each.host, each.database or None, *about]


def _processlist(context: Context) -> Iterable[Row]:
    return map(process_row, processes_seen(context))


def _cluster_processlist(context: Context) -> Iterable[Row]:
    """With the address of each one's node; a node that has not answered is a warning."""
    session = context.session
    found, silent = session.services.processes.everywhere()
    for reason in silent:
        context.note(ErrUnknown.code, reason)
    sees_all = "PROCESS" in session.rights.everywhere
    return [[at, *process_row(p)] for at, p in found if sees_all or p.user == session.user]


def all_jobs(context: Context) -> list[Job]:
    """Unfinished jobs by id, then history, newest first."""
    return [*queue.unfinished(context.txn), *queue.history(context.txn, None)]


def _ddl_jobs(context: Context) -> Iterable[Row]:
    rights = context.session.rights
    for job in all_jobs(context):
        if not rights.everything and not rights.sees_table(job.schema_name, job.table_name):
            continue
        for row in (job.row(), *sub_rows(job)):
            yield [*row[:12], job.query, row[12]]


_PROCESS = "ID# USER HOST:261 DB COMMAND TIME# STATE INFO:65535"
_GRANTEE = "GRANTEE:81 TABLE_CATALOG:512"

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
    ("CLUSTER_PROCESSLIST", f"INSTANCE {_PROCESS}", _cluster_processlist),
    (
        "DDL_JOBS",
        "JOB_ID# DB_NAME TABLE_NAME JOB_TYPE SCHEMA_STATE SCHEMA_ID# TABLE_ID# ROW_COUNT#"
        " CREATE_TIME@ START_TIME@ END_TIME@ STATE QUERY:65535 COMMENTS:1024",
        _ddl_jobs,
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
        " ACTION_STATEMENT:65535 ACTION_ORIENTATION ACTION_TIMING CREATED@ SQL_MODE:8192"
        " DEFINER:77",
        nothing,
    ),
    (
        "EVENTS",
        "EVENT_CATALOG EVENT_SCHEMA EVENT_NAME DEFINER:77 TIME_ZONE EVENT_BODY"
        " EVENT_DEFINITION:65535 EVENT_TYPE EXECUTE_AT@ STATUS",
        nothing,
    ),
    ("PLUGINS", "PLUGIN_NAME PLUGIN_VERSION PLUGIN_STATUS PLUGIN_TYPE PLUGIN_LIBRARY", nothing),
    (
        "FILES",
        "FILE_ID# FILE_NAME:4000 FILE_TYPE TABLESPACE_NAME LOGFILE_GROUP_NAME ENGINE"
        " TOTAL_EXTENTS# INITIAL_SIZE# EXTENT_SIZE# EXTRA:255",
        nothing,
    ),
    ("COLUMN_STATISTICS", "SCHEMA_NAME TABLE_NAME COLUMN_NAME HISTOGRAM:65535", nothing),
    ("TABLESPACES", "TABLESPACE_NAME ENGINE TABLESPACE_TYPE", nothing),
)
