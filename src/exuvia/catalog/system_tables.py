"""The system tables as static DDL (seed 002): their ids are fixed.

    mysql.tidb_ddl_job, tidb_ddl_reorg, tidb_ddl_history   jobs (columns of seed 000 first)
    mysql.tidb_mdl_info                                     versions not acknowledged by all yet
    mysql.ddl_notifier                                      events not yet processed (seed 004)
    mysql.exuvia_ddl_events                                 past events, for external readers
    mysql.gc_delete_range, gc_delete_range_done             data of dropped elements (seed 002)
    mysql.stats_*, analyze_jobs                             statistics
    mysql.global_variables, tidb, user, db, tables_priv     settings, bootstrap facts, accounts
    mysql.role_edges, default_roles, columns_priv, global_grants   roles and privileges
    mysql.exuvia_user_attributes                            other attributes of accounts
    mysql.password_history, exuvia_login_failures           former passwords, failed logins
    mysql.bind_info                                         plans that statements are bound to
    mysql.tidb_ttl_*                                        jobs that delete expired rows

They are ordinary tables in the ordinary encoding; only their writers differ. Ids 1 to 9 are
databases, 10 to 54 tables; the first id of a user's element is 55. `tidb_ddl_reorg` has no key, as
in seed 000. It has one row per (job, element, physical table, finished span) of running
reorganisations only, and is read by scanning.

The notation is one line a column, read without parser or job:

    "job_id bigint not null -- DDL job ID"
     name   type   [not null] [auto_increment] [default value] [-- comment]

A single integer primary key is the handle; others are clustered by their encoded values. Errors in
the notation raise KeyError or ValueError when the module is imported.

The bootstrap writes its rows without a fence, since the revisions for the fence are written in the
same transaction. All others write through catalog/writer.py, or with `fence` first.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache

from exuvia import __version__
from exuvia.base.types import FieldType, Flag, TypeCode
from exuvia.catalog import meta
from exuvia.catalog.codec import key_codec
from exuvia.catalog.codec.row_codec import Row
from exuvia.catalog.model import (
    ColumnInfo,
    DatabaseInfo,
    IndexColumn,
    IndexInfo,
    Layout,
    LayoutColumn,
    Name,
    TableInfo,
    evolve,
    name,
)
from exuvia.catalog.table import Table
from exuvia.kv import keys
from exuvia.kv.transaction import Transaction

_COLUMN = re.compile(
    r"(?P<name>\w+) (?P<type>\w+)(?:\((?P<size>[^)]*)\))?(?P<unsigned> unsigned)?"
    r"(?P<null> not null)?(?P<auto> auto_increment)?"
    r"(?: default (?P<default>'[^']*'|\S+))?(?: -- (?P<comment>.*))?"
)
_NUMBERS = {
    "tinyint": (TypeCode.TINY, 4),
    "int": (TypeCode.LONG, 11),
    "bigint": (TypeCode.LONGLONG, 20),
}
_TEXTS = {
    "char": (TypeCode.STRING, 1),
    "varchar": (TypeCode.VARCHAR, 255),
    "text": (TypeCode.BLOB, 65535),
    "longtext": (TypeCode.LONG_BLOB, 4294967295),
}
_BLOBS = {
    "blob": (TypeCode.BLOB, 65535),
    "longblob": (TypeCode.LONG_BLOB, 4294967295),
    "json": (TypeCode.JSON, 4294967295),
}
_TIMES = {"datetime": TypeCode.DATETIME, "timestamp": TypeCode.TIMESTAMP}


def table(
    table_id: int,
    table_name: str,
    *lines: str,
    primary: str = "",
    unique: Mapping[str, str] | None = None,
    plain: Mapping[str, str] | None = None,
    database_id: int = 3,
) -> TableInfo:
    """A public table. `primary`, `unique` and `plain` name columns, separated by commas."""
    columns = tuple(_column(n, line) for n, line in enumerate(lines))
    columns = _with_key_flags(columns, _names(primary), Flag.PRI_KEY | Flag.NOT_NULL)
    for parts in (unique or {}).values():
        flag = Flag.MULTIPLE_KEY if "," in parts else Flag.UNIQUE_KEY
        columns = _with_key_flags(columns, _names(parts)[:1], flag)
    for parts in (plain or {}).values():
        columns = _with_key_flags(columns, _names(parts)[:1], Flag.MULTIPLE_KEY)
    kinds = [column.type.Tp for column in columns if column.name.L in _names(primary)]
    single = len(kinds) == 1 and kinds[0] in {code for code, _ in _NUMBERS.values()}
    indexes = tuple(_indexes(name(table_name), columns, primary, unique or {}, plain or {}))
    layout = Layout(id=1, columns=tuple(LayoutColumn(c.id, c.type) for c in columns))
    return TableInfo(
        id=table_id,
        name=name(table_name),
        cols=columns,
        index_info=indexes or None,
        pk_is_handle=single,
        is_common_handle=bool(primary) and not single,
        common_handle_version=1 if primary and not single else 0,
        max_col_id=len(columns),
        max_idx_id=len(indexes),
        exuvia_db=database_id,
        exuvia_layouts=(layout,),
    )


def _column(offset: int, line: str) -> ColumnInfo:
    match = _COLUMN.fullmatch(line)
    if match is None:
        raise ValueError(line)
    flag = Flag.NOT_NULL if match["null"] else Flag(0)
    flag |= Flag.UNSIGNED if match["unsigned"] else Flag(0)
    flag |= Flag.AUTO_INCREMENT if match["auto"] else Flag(0)
    default = match["default"]
    if default is None and match["null"] and not match["auto"]:
        flag |= Flag.NO_DEFAULT_VALUE
    field = _type(match["type"], match["size"] or "", flag)
    return ColumnInfo(
        id=offset + 1,
        name=name(match["name"]),
        offset=offset,
        default=_default(default, field),
        type=field,
        comment=match["comment"] or "",
    )


def _default(text: str | None, field: FieldType) -> str | None:
    if text == "current_timestamp":
        digits = f"({field.Decimal})" if field.Decimal > 0 else ""
        return f"CURRENT_TIMESTAMP{digits}"
    return None if text is None else text.strip("'")


def _type(word: str, size: str, flag: Flag) -> FieldType:
    if word in _NUMBERS:
        code, width = _NUMBERS[word]
        return FieldType(Tp=code, Flag=flag, Flen=int(size or width), Decimal=0)
    if word in _TEXTS:
        code, width = _TEXTS[word]
        flag |= Flag.BLOB if word.endswith("text") else Flag(0)
        return _utf8(code, flag, int(size or width))
    if word in _BLOBS:
        code, width = _BLOBS[word]
        return FieldType(Tp=code, Flag=flag | Flag.BLOB | Flag.BINARY, Flen=width)
    if word in _TIMES:
        digits = int(size or 0)
        width = 19 + (digits + 1 if digits else 0)
        return FieldType(Tp=_TIMES[word], Flag=flag, Flen=width, Decimal=digits)
    if word == "date":
        return FieldType(Tp=TypeCode.DATE, Flag=flag, Flen=10)
    if word == "double":
        return FieldType(Tp=TypeCode.DOUBLE, Flag=flag, Flen=22)
    elements = tuple(part.strip("'") for part in size.split(","))
    field = _utf8({"enum": TypeCode.ENUM, "set": TypeCode.SET}[word], flag, max(map(len, elements)))
    return evolve(field, Elems=elements)


def _utf8(code: TypeCode, flag: Flag, width: int) -> FieldType:
    return FieldType(Tp=code, Flag=flag, Flen=width, Charset="utf8mb4", Collate="utf8mb4_bin")


def _names(parts: str) -> list[str]:
    return [part.strip().lower() for part in parts.split(",") if part]


def _with_key_flags(
    columns: tuple[ColumnInfo, ...], names: list[str], flag: Flag
) -> tuple[ColumnInfo, ...]:
    return tuple(
        evolve(c, type=evolve(c.type, Flag=c.type.Flag | flag)) if c.name.L in names else c
        for c in columns
    )


def _indexes(
    table_name: Name,
    columns: tuple[ColumnInfo, ...],
    primary: str,
    unique: Mapping[str, str],
    plain: Mapping[str, str],
) -> Iterator[IndexInfo]:
    named_parts = [("PRIMARY", primary)] if primary else []
    named_parts += [*unique.items(), *plain.items()]
    by_name = {c.name.L: c for c in columns}
    for n, (index_name, parts) in enumerate(named_parts):
        parts_found = [by_name[part] for part in _names(parts)]
        yield IndexInfo(
            id=n + 1,
            idx_name=name(index_name),
            tbl_name=table_name,
            idx_cols=tuple(
                IndexColumn(name=c.name, offset=c.offset, exuvia_column=c.id) for c in parts_found
            ),
            is_unique=index_name == "PRIMARY" or index_name in unique,
            is_primary=index_name == "PRIMARY",
            exuvia_clustered=index_name == "PRIMARY",
        )


# -- system tables ---------------------------------------------------------------------------------

ROLES = (
    table(
        40,
        "role_edges",
        "FROM_HOST char(255) not null",
        "FROM_USER char(32) not null",
        "TO_HOST char(255) not null",
        "TO_USER char(32) not null",
        "WITH_ADMIN_OPTION enum('N','Y') not null default 'N'",
        primary="FROM_HOST, FROM_USER, TO_HOST, TO_USER",
    ),
    table(
        41,
        "default_roles",
        "HOST char(255) not null",
        "USER char(32) not null",
        "DEFAULT_ROLE_HOST char(255) not null",
        "DEFAULT_ROLE_USER char(32) not null",
        primary="HOST, USER, DEFAULT_ROLE_HOST, DEFAULT_ROLE_USER",
    ),
    table(
        42,
        "columns_priv",
        "Host char(255) not null",
        "DB char(64) not null",
        "User char(32) not null",
        "Table_name char(64) not null",
        "Column_name char(64) not null",
        "Timestamp timestamp default current_timestamp",
        "Column_priv set('Select','Insert','Update','References')",
        primary="Host, DB, User, Table_name, Column_name",
    ),
    table(
        43,
        "global_grants",
        "USER char(32) not null",
        "HOST char(255) not null",
        "PRIV char(32) not null",
        "WITH_GRANT_OPTION enum('N','Y') not null default 'N'",
        primary="USER, HOST, PRIV",
    ),
)


# -- system tables ---------------------------------------------------------------------------------

TEST_ID = 1
INFORMATION_SCHEMA_ID = 2
MYSQL_ID = 3
LAST_SYSTEM_ID = 54

DATABASES = (
    DatabaseInfo(id=TEST_ID, db_name=name("test")),
    DatabaseInfo(id=INFORMATION_SCHEMA_ID, db_name=name("information_schema")),
    DatabaseInfo(id=MYSQL_ID, db_name=name("mysql")),
)

_JOBS = (
    table(
        10,
        "tidb_ddl_job",
        "job_id bigint not null -- DDL job ID",
        "reorg int -- True if this DDL need reorg",
        "schema_id bigint -- The schema ID relate to this DDL",
        "table_id bigint -- The table ID relate to this DDL",
        "job_meta longblob -- The arguments of this DDL job",
        "is_drop_schema int -- True if the DDL is a drop schema",
        "schema_ids text -- Every schema the job involves",
        "table_ids text -- Every table the job involves",
        "type int -- Action code",
        "processing int -- 1 once a worker took it",
        primary="job_id",
    ),
    table(
        11,
        "tidb_ddl_reorg",
        "job_id bigint not null -- DDL Job ID",
        "curr_ele_id bigint -- Current processing element ID",
        "curr_ele_type blob -- Current processing element type",
        "ele_id bigint -- Element ID for processing",
        "start_key blob -- The start key for the certain element",
        "end_key blob -- The end key for the certain element",
        "physical_id bigint -- The physical ID for the certain element",
        "reorg_meta longblob -- reserved for add index",
        "ele_type blob -- Element type for processing",
    ),
    table(
        12,
        "tidb_ddl_history",
        "job_id bigint not null -- DDL job ID",
        "job_meta longblob -- The arguments of this DDL job",
        "db_name char(64)",
        "table_name char(64)",
        "schema_ids text",
        "table_ids text",
        "create_time datetime",
        primary="job_id",
    ),
    table(
        13,
        "tidb_mdl_info",
        "job_id bigint not null",
        "version bigint not null",
        "table_ids text",
        "owner_id varchar(64) not null default ''",
        primary="job_id",
    ),
    table(
        14,
        "ddl_notifier",
        "ddl_job_id bigint not null",
        "multi_schema_change_id bigint not null -- -1 if the schema change does not belong to a "
        "multi-schema change DDL, else the sub-job's index",
        "schema_change json -- SchemaChange at rest",
        "processed_by_flag bigint unsigned default 0 -- which subscribers have processed it",
        primary="ddl_job_id, multi_schema_change_id",
    ),
)

_DELETE_RANGE = (
    "job_id bigint not null -- the DDL job ID",
    "element_id bigint not null -- the schema element ID",
    "start_key varchar(255) not null -- encoded in hex",
    "end_key varchar(255) not null -- encoded in hex",
    "ts bigint not null -- commit sequence of the job's end",
)
_DEFERRED = (
    table(
        15, "gc_delete_range", *_DELETE_RANGE, unique={"delete_range_index": "job_id, element_id"}
    ),
    table(
        16,
        "gc_delete_range_done",
        *_DELETE_RANGE,
        unique={"delete_range_done_index": "job_id, element_id"},
    ),
)

_STATISTICS = (
    table(
        17,
        "stats_meta",
        "version bigint unsigned not null",
        "table_id bigint not null",
        "modify_count bigint not null default 0",
        "count bigint unsigned not null default 0",
        "snapshot bigint unsigned not null default 0",
        "last_stats_histograms_version bigint unsigned",
        "exuvia_analyzed_count bigint -- rows at the last analysis; NULL: never analyzed",
        "exuvia_analyzed_at bigint -- when it ended, in seconds since 1970",
        "exuvia_analyzed_indexes text -- ids of the indexes that have statistics",
        unique={"tbl": "table_id"},
        plain={"idx_ver": "version"},
    ),
    table(
        18,
        "stats_histograms",
        "table_id bigint not null",
        "is_index tinyint(2) not null",
        "hist_id bigint not null",
        "distinct_count bigint not null",
        "null_count bigint not null default 0",
        "tot_col_size bigint not null default 0",
        "modify_count bigint not null default 0",
        "version bigint unsigned not null default 0",
        "cm_sketch blob",
        "stats_ver bigint not null default 0",
        "flag bigint not null default 0",
        "correlation double not null default 0",
        "last_analyze_pos blob",
        unique={"tbl": "table_id, is_index, hist_id"},
    ),
    table(
        19,
        "stats_buckets",
        "table_id bigint not null",
        "is_index tinyint(2) not null",
        "hist_id bigint not null",
        "bucket_id bigint not null",
        "count bigint not null",
        "repeats bigint not null",
        "upper_bound longblob not null",
        "lower_bound longblob",
        "ndv bigint not null default 0",
        unique={"tbl": "table_id, is_index, hist_id, bucket_id"},
    ),
    table(
        20,
        "stats_top_n",
        "table_id bigint not null",
        "is_index tinyint(2) not null",
        "hist_id bigint not null",
        "value longblob",
        "count bigint unsigned not null",
        plain={"tbl": "table_id, is_index, hist_id"},
    ),
    table(
        21,
        "stats_table_locked",
        "table_id bigint not null",
        "modify_count bigint not null default 0",
        "count bigint not null default 0",
        "version bigint unsigned not null default 0",
        primary="table_id",
    ),
    table(
        22,
        "analyze_jobs",
        "id bigint unsigned not null auto_increment",
        "update_time timestamp(6) not null default current_timestamp",
        "table_schema char(64) not null default ''",
        "table_name char(64) not null default ''",
        "partition_name char(64) not null default ''",
        "job_info text not null",
        "processed_rows bigint unsigned not null default 0",
        "start_time timestamp(6)",
        "end_time timestamp(6)",
        "state enum('pending','running','finished','failed') not null",
        "fail_reason text",
        "instance varchar(512) not null",
        "process_id bigint unsigned",
        primary="id",
        plain={"update_time": "update_time"},
    ),
)

_PRIVILEGES = (
    *("Select", "Insert", "Update", "Delete", "Create", "Drop", "Process", "Grant", "References"),
    *("Alter", "Show_db", "Super", "Create_tmp_table", "Lock_tables", "Execute", "Create_view"),
    *("Show_view", "Create_routine", "Alter_routine", "Index", "Create_user", "Event", "Trigger"),
    *("Repl_slave", "Repl_client", "Create_role", "Drop_role", "Reload", "Shutdown", "File"),
)
_USER = (
    "Host char(255) not null",
    "User char(32) not null",
    "authentication_string text",
    "plugin char(64)",
    *(f"{privilege}_priv enum('N','Y') not null default 'N'" for privilege in _PRIVILEGES),
    "Account_locked enum('N','Y') not null default 'N'",
)
_SETTINGS = (
    table(
        23,
        "global_variables",
        "VARIABLE_NAME varchar(64) not null",
        "VARIABLE_VALUE varchar(16383)",
        primary="VARIABLE_NAME",
    ),
    table(
        24,
        "tidb",
        "VARIABLE_NAME varchar(64) not null",
        "VARIABLE_VALUE varchar(1024)",
        "COMMENT varchar(1024)",
        primary="VARIABLE_NAME",
    ),
    table(25, "user", *_USER, primary="Host, User"),
)
SHOWN_USER = table(
    25,
    "user",
    *_USER,
    "Password_reuse_history int",
    "Password_reuse_time int",
    "User_attributes json",
    "Password_expired enum('N','Y') not null default 'N'",
    "Password_last_changed timestamp",
    "Password_lifetime int",
    primary="Host, User",
)
"""mysql.user for clients: with TiDB's columns that account_attributes.py stores elsewhere."""

_ON_DATABASE = (
    *("Select", "Insert", "Update", "Delete", "Create", "Drop", "Grant", "References", "Index"),
    *("Alter", "Create_tmp_table", "Lock_tables", "Create_view", "Show_view", "Create_routine"),
    *("Alter_routine", "Execute", "Event", "Trigger"),
)
_ON_TABLE = (
    *("Select", "Insert", "Update", "Delete", "Create", "Drop", "Grant", "References", "Index"),
    *("Alter", "Create View", "Show View", "Trigger"),
)
_GRANTS = (
    table(
        27,
        "db",
        "Host char(255) not null",
        "DB char(64) not null",
        "User char(32) not null",
        *(f"{privilege}_priv enum('N','Y') not null default 'N'" for privilege in _ON_DATABASE),
        primary="Host, DB, User",
    ),
    table(
        28,
        "tables_priv",
        "Host char(255) not null",
        "DB char(64) not null",
        "User char(32) not null",
        "Table_name char(64) not null",
        "Grantor char(77)",
        "Timestamp timestamp default current_timestamp",
        f"Table_priv set({','.join(repr(word) for word in _ON_TABLE)})",
        "Column_priv set('Select','Insert','Update')",
        primary="Host, DB, User, Table_name",
    ),
)

_ATTRIBUTES = (
    table(
        44,
        "exuvia_user_attributes",
        "Host char(255) not null",
        "User char(32) not null",
        "attributes text not null -- JSON: what is not in mysql.user",
        primary="Host, User",
    ),
    table(
        45,
        "password_history",
        "Host char(255) not null",
        "User char(32) not null",
        "Password_timestamp timestamp(6) not null default current_timestamp(6)",
        "Password text not null",
        primary="Host, User, Password_timestamp",
    ),
    table(
        46,
        "exuvia_login_failures",
        "Host char(255) not null",
        "User char(32) not null",
        "failures bigint not null -- logins in a row that failed",
        "locked_at bigint not null -- when that locked the account, in seconds since 1970; 0: not",
        primary="Host, User",
    ),
)

_BINDINGS = (
    table(
        50,
        "bind_info",
        "original_sql longtext not null",
        "bind_sql longtext not null",
        "default_db text not null",
        "status text not null",
        "create_time timestamp(6) not null",
        "update_time timestamp(6) not null",
        "charset text not null",
        "collation text not null",
        "source varchar(10) not null default 'unknown'",
        "sql_digest varchar(64) not null",
        "plan_digest varchar(64)",
        "last_used_date date",
        primary="sql_digest",
    ),
)

_TTL = (
    table(
        51,
        "tidb_ttl_table_status",
        "table_id bigint not null -- of the partition, where there are some",
        "parent_table_id bigint",
        "table_statistics text",
        "last_job_id varchar(64)",
        "last_job_start_time timestamp",
        "last_job_finish_time timestamp",
        "last_job_ttl_expire timestamp",
        "last_job_summary text",
        "current_job_id varchar(64)",
        "current_job_owner_id varchar(64)",
        "current_job_owner_addr varchar(256)",
        "current_job_owner_hb_time timestamp",
        "current_job_start_time timestamp",
        "current_job_ttl_expire timestamp",
        "current_job_state text",
        "current_job_status varchar(64)",
        "current_job_status_update_time timestamp",
        primary="table_id",
    ),
    table(
        52,
        "tidb_ttl_task",
        "job_id varchar(64) not null",
        "table_id bigint not null",
        "scan_id int not null",
        "scan_range_start blob",
        "scan_range_end blob",
        "expire_time timestamp not null",
        "owner_id varchar(64)",
        "owner_addr varchar(64)",
        "owner_hb_time timestamp",
        "status varchar(64) default 'waiting'",
        "status_update_time timestamp",
        "state text",
        "created_time timestamp not null",
        primary="job_id, scan_id",
        plain={"created_time": "created_time"},
    ),
    table(
        53,
        "tidb_ttl_job_history",
        "job_id varchar(64) not null",
        "table_id bigint not null",
        "parent_table_id bigint not null",
        "table_schema varchar(64) not null",
        "table_name varchar(64) not null",
        "partition_name varchar(64)",
        "create_time timestamp not null",
        "finish_time timestamp not null",
        "ttl_expire timestamp not null",
        "summary_text text",
        "expired_rows bigint",
        "deleted_rows bigint",
        "error_delete_rows bigint",
        "status varchar(64) not null",
        primary="job_id",
        plain={
            "table_schema": "table_schema, table_name, create_time",
            "parent_table_id": "parent_table_id, create_time",
            "create_time": "create_time",
        },
    ),
)

_FEED = (
    table(
        26,
        "exuvia_ddl_events",
        "position bigint not null -- a commit sequence: where a reader goes on",
        "ddl_job_id bigint not null",
        "sub_job_id bigint not null -- -1, or the ordinal of a part of a multi-schema change",
        "kind varchar(64) not null",
        "schema_change json not null",
        "logged_at timestamp(6) not null",
        primary="position",
    ),
)

SYSTEM: dict[str, TableInfo] = {
    info.name.L: info
    for info in (
        *_JOBS,
        *_DEFERRED,
        *_STATISTICS,
        *_SETTINGS,
        *_GRANTS,
        *ROLES,
        *_ATTRIBUTES,
        *_BINDINGS,
        *_TTL,
        *_FEED,
    )
}


def is_system(info: TableInfo) -> bool:
    """True for a table of this list: clients may read it and not write it."""
    return info.id <= LAST_SYSTEM_ID


# -- system rows -----------------------------------------------------------------------------------

_NO, _YES = 1, 2  # positions in enum('N','Y')
ROOT = ("%", "root", "", "mysql_native_password")


def planned(txn: Transaction, name: str) -> Table:
    """A system table at the revision of the transaction's snapshot (0 before the bootstrap)."""
    info = SYSTEM[name]
    return _planned(name, meta.revision(txn, info.id), meta.database_revision(txn, MYSQL_ID))


@lru_cache(maxsize=64)
def _planned(name: str, revision: int, database_revision: int) -> Table:
    return Table(SYSTEM[name], revision, DATABASES[-1], database_revision)


def system_table(txn: Transaction, name: str) -> Table:
    """A system table as the snapshot has it: a newer program may have added columns to it."""
    stored, *revisions = map(txn.get, _places(name))
    return _as_stored(name, stored, *map(keys.read_number, revisions))


@cache
def _places(name: str) -> tuple[bytes, bytes, bytes]:
    """Keys of a system table, of its revision and of its database's revision."""
    table_id = SYSTEM[name].id
    return keys.meta("table", table_id), keys.revision(table_id), keys.database_revision(MYSQL_ID)


@lru_cache(maxsize=64)
def _as_stored(name: str, stored: bytes | None, revision: int, database_revision: int) -> Table:
    info = SYSTEM[name] if stored is None else meta.table_at_rest(stored)
    return Table(info, revision, DATABASES[-1], database_revision)


def place(txn: Transaction, table: Table, row: Row) -> None:
    """Write a row over an existing one with its key. The table has no index except its handle."""
    key = table.row_prefix + key_codec.handle_of(table, row)
    txn.put(key, table.encoder.encode(row))


def fill(txn: Transaction, format_version: int) -> None:
    """The first rows of a store: root without a password, and facts of the bootstrap."""
    users, facts = planned(txn, "user"), planned(txn, "tidb")
    privileges = [_YES] * (len(users.info.cols) - len(ROOT) - 1)
    place(txn, users, [*ROOT, *privileges, _NO])
    for row in (
        ["bootstrapped", "True", "Bootstrap flag. Do not delete."],
        ["tidb_server_version", str(format_version), "Bootstrap version. Do not delete."],
        ["exuvia_version", __version__, "The version that filled this store."],
    ):
        place(txn, facts, row)
