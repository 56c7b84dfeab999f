"""SHOW and DESCRIBE: lists of objects in the snapshot and the session, in MySQL's columns.

    KINDS   words of the statement -> the function that executes it

SHOW STATS_META, STATS_HISTOGRAMS and the similar statements have TiDB's columns. A partitioned
table has a row for the whole, with Partition_name `global`, and one for each partition. Update_time
is that of the last analysis, because row counts have a version and no time.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from exuvia.base.mysql_errors import (
    ErrEventDoesNotExist,
    ErrNoDB,
    ErrNotSupportedYet,
    ErrSpDoesNotExist,
    ErrTrgDoesNotExist,
    MySQLError,
)
from exuvia.base.types import TypeCode, packed_moment
from exuvia.catalog.model import ColumnInfo, DatabaseInfo, TableInfo, evolve
from exuvia.catalog.placement import living
from exuvia.catalog.temporal import shift_zone
from exuvia.sql.access.choose import shown_indexes
from exuvia.sql.bind.scope import column_in, table_in
from exuvia.sql.charsets import DEFAULTS, default_collations
from exuvia.sql.information_schema.mysql_tables import status_rows
from exuvia.sql.information_schema.registry import computed_tables
from exuvia.sql.information_schema.server import (
    ANALYZE_STATUS_COLUMNS,
    analyze_status,
    character_sets,
    collations,
    engines,
    processes_seen,
)
from exuvia.sql.information_schema.tables import (
    PRIVILEGES,
    Sizes,
    all_tables,
    computed_table_row,
    kind_of,
    next_auto,
    next_random,
    options_text,
    privileges_of,
    row_count,
)
from exuvia.sql.matching import only_text
from exuvia.sql.nodes import Describe, Show, TableName
from exuvia.sql.result import BIGINT, OutputColumn, Result, Row
from exuvia.sql.show import bindings as show_bindings
from exuvia.sql.show import create as show_objects
from exuvia.sql.show import placement as show_placement
from exuvia.sql.show.create import (
    constraint_lines,
    create_database_text,
    create_table_text,
    created_sequence,
    created_view,
    quote_of,
)
from exuvia.sql.show.grants import privilege_rows
from exuvia.sql.show.listing import columns_of, listing
from exuvia.sql.statement.context import Context, VirtualTable
from exuvia.sql.statement.settings import all_globals
from exuvia.sql.type_text import (
    default_text,
    expression_of,
    extra_text,
    is_text,
    key_text,
    type_text,
)
from exuvia.stats import meta, records
from exuvia.stats.meta import Meta
from exuvia.stats.records import Statistics

_PLACE = "Db_name Table_name Partition_name"


# -- statistics of tables --------------------------------------------------------------------------


class StatisticsSubject(NamedTuple):
    """Something that may have statistics: a table, a partition, or a partitioned table whole."""

    database: str
    table: TableInfo
    partition: str
    physical_id: int

    @property
    def head(self) -> Row:
        """The first three columns."""
        return [self.database, self.table.name.O, self.partition]


def places(context: Context) -> Iterator[StatisticsSubject]:
    """All subjects, by name."""
    for database, table in all_tables(context):
        if not table.is_stored:
            continue
        name, partition = database.db_name.O, table.partition
        if partition is None:
            yield StatisticsSubject(name, table, "", table.statistics_id)
            continue
        yield StatisticsSubject(name, table, "global", table.statistics_id)
        for definition in partition.definitions:
            yield StatisticsSubject(name, table, definition.name.O, definition.id)


def _with_meta(context: Context) -> Iterator[tuple[StatisticsSubject, Meta]]:
    for place in places(context):
        counts = meta.get(context.txn, place.physical_id)
        if counts is not None:
            yield place, counts


def _moment(context: Context, seconds: int | None) -> int | None:
    if seconds is None:
        return None
    return shift_zone(packed_moment(seconds * 1_000_000_000), None, context.zone)


def _meta(context: Context) -> Iterable[Row]:
    for place, counts in _with_meta(context):
        when = _moment(context, counts.analyzed_at)
        yield [*place.head, when, counts.modified, counts.rows, when]


def _healthy(context: Context) -> Iterable[Row]:
    for place, counts in _with_meta(context):
        yield [*place.head, health(counts)]


def health(counts: Meta) -> int:
    """The health of statistics, 0 to 100; 0 for a table that was never analyzed."""
    if counts.analyzed_count is None:
        return 0
    if not counts.modified:
        return 100
    if counts.modified >= counts.analyzed_count:
        return 0
    return int((1 - counts.modified / counts.analyzed_count) * 100)


def _locked(context: Context) -> Iterable[Row]:
    ids = meta.locked_ids(context.txn)
    for place in places(context):
        if place.physical_id in ids:
            yield [*place.head, "locked"]


# -- statistics of columns and indexes -------------------------------------------------------------


def _statistics_rows(
    context: Context, whole: bool
) -> Iterator[tuple[StatisticsSubject, Statistics, Row]]:
    """Subject, statistics, and the first columns of their row.

    Only columns that the account may SELECT are included, because statistics contain values."""
    records_of, rights = records.read if whole else records.heads, context.session.rights
    for place in places(context):
        for record in records_of(context.txn, place.physical_id):
            name, columns = _subject(place.table, record)
            if name and rights.reads(place.database, place.table.name.O, columns):
                yield place, record, [*place.head, name, int(record.is_index)]


def _subject(table: TableInfo, record: Statistics) -> tuple[str, list[str]]:
    """The name of the index or column, and its columns; "" if it was dropped."""
    if not record.is_index:
        names = [column.name.O for column in table.cols if column.id == record.hist_id]
        return (names[0] if names else ""), names
    for index in table.indexes:
        if index.id == record.hist_id:
            return index.idx_name.O, [part.name.O for part in index.idx_cols]
    return "", []


def _histograms(context: Context) -> Iterable[Row]:
    for place, record, head in _statistics_rows(context, whole=False):
        counts = meta.get(context.txn, place.physical_id)
        if not record.is_analyzed or counts is None:
            continue
        rows = counts.analyzed_count or counts.rows
        size = 0.0 if not rows or record.is_index else round(record.size / rows, 2)
        when = _moment(context, counts.analyzed_at)
        line = [*head, when, record.distinct, record.nulls, f"{size:g}", f"{record.correlation:g}"]
        yield [*line, "allLoaded", 0, 0, 0, 0]


def _buckets(context: Context) -> Iterable[Row]:
    for place, record, head in _statistics_rows(context, whole=True):
        several = _parts(place.table, record) > 1
        total = 0
        for number, bucket in enumerate(record.buckets):
            total += bucket.rows
            lower, upper = (
                _value_text(place, record, v, several) for v in (bucket.lower, bucket.upper)
            )
            yield [*head, number, total, bucket.repeats, lower, upper, 0]


def _top_n(context: Context) -> Iterable[Row]:
    for place, record, head in _statistics_rows(context, whole=True):
        several = _parts(place.table, record) > 1
        for value, rows in record.top:
            yield [*head, _value_text(place, record, value, several), rows]


def _parts(table: TableInfo, record: Statistics) -> int:
    if not record.is_index:
        return 1
    (index,) = (index for index in table.indexes if index.id == record.hist_id)
    return len(index.idx_cols)


def _value_text(place: StatisticsSubject, record: Statistics, value: bytes, several: bool) -> str:
    if several:
        return records.display_text(value, is_index=True)
    if not record.is_index:
        kinds = (column.type for column in place.table.cols if column.id == record.hist_id)
        if any(kind.Tp == TypeCode.BIT for kind in kinds):
            return str(int.from_bytes(value, "big"))
    return records.display_text(value, is_index=False)


# -- SHOW ------------------------------------------------------------------------------------------


def _shower(
    columns: str, rows: Callable[[Context], Iterable[Row]]
) -> Callable[[Context, Show], Result]:
    def shower(context: Context, node: Show) -> Result:
        return listing(context, columns_of(columns), rows(context), node.like, node.where)

    return shower


_OF = f"{_PLACE} Column_name Is_index#"
STATISTICS: dict[str, Callable[[Context, Show], Result]] = {
    "stats_meta": _shower(
        f"{_PLACE} Update_time@ Modify_count# Row_count# Last_analyze_time@", _meta
    ),
    "stats_healthy": _shower(f"{_PLACE} Healthy#", _healthy),
    "stats_locked": _shower(f"{_PLACE} Status", _locked),
    "stats_histograms": _shower(
        f"{_OF} Update_time@ Distinct_count# Null_count# Avg_col_size Correlation Load_status"
        " Total_mem_usage# Hist_mem_usage# Topn_mem_usage# Cms_mem_usage#",
        _histograms,
    ),
    "stats_buckets": _shower(
        f"{_OF} Bucket_id# Count# Repeats# Lower_Bound:65535 Upper_Bound:65535 Ndv#", _buckets
    ),
    "stats_topn": _shower(f"{_OF} Value:65535 Count#", _top_n),
    "stats_extended": _shower(
        f"{_PLACE} Stats_name Column_names Stats_type Stats_val Last_update_version#",
        lambda context: (),
    ),
    "analyze status": _shower(ANALYZE_STATUS_COLUMNS, analyze_status),
}


# -- tables, their columns and indexes -------------------------------------------------------------


class Named(NamedTuple):
    """A name in a list of tables, its kind, and the table."""

    name: str
    kind: str
    table: TableInfo


def _database(context: Context, name: str | None) -> DatabaseInfo:
    requested = context.database_of(name or "")
    error = context.session.rights.database_refusal(requested)
    if error is not None:
        raise error
    return context.session.services.schemas.database(context.txn, requested)


def _named(context: Context, database: DatabaseInfo, like: str | None) -> Iterator[Named]:
    """The tables that may match LIKE. The caller filters them."""
    if database.db_name.L == "information_schema":
        for computed in computed_tables():
            yield Named(computed.name.O, kind_of(database, computed), computed)
    rights = context.session.rights
    name = None if like is None else only_text(like)
    for table in context.session.services.schemas.tables(context.txn, database.db_name.O, name):
        if not rights.everything and not rights.sees_table(database.db_name.O, table.name.O):
            continue
        yield Named(table.name.O, kind_of(database, table), table)


def tables(context: Context, node: Show) -> Result:
    """SHOW [FULL] TABLES."""
    database = _database(context, node.database)
    title = f"Tables_in_{database.db_name.O}"
    if node.like is not None:
        title += f" ({node.like})"
    columns = [OutputColumn(title, columns_of("x")[0].type)]
    rows: list[Row] = [[row.name, row.kind] for row in _named(context, database, node.like)]
    if node.full:
        columns += columns_of("Table_type")
    else:
        rows = [row[:1] for row in rows]
    return listing(context, columns, sorted(rows), node.like, node.where)


_STATUS = (
    "Name Engine Version# Row_format Rows# Avg_row_length# Data_length# Max_data_length#"
    " Index_length# Data_free# Auto_increment# Create_time@ Update_time@ Check_time@ Collation"
    " Checksum# Create_options Comment:2048"
)


def table_status(context: Context, node: Show) -> Result:
    """SHOW TABLE STATUS."""
    database = _database(context, node.database)
    rows = []
    for named in _named(context, database, node.like):
        if named.kind == "SYSTEM VIEW":
            facts = computed_table_row(database, named.table)
            rows.append([named.name, *facts[4:21]])
            continue
        if named.table.view is not None:
            rows.append([named.name, *[None] * 16, "VIEW"])
            continue
        facts = [named.name, "InnoDB", 10, "Compact", row_count(context, named.table)]
        size = Sizes(context, named.table, facts[4])
        facts += [size.of_a_row, size.of_rows, 0, size.of_indexes, 0]
        facts += [next_auto(context, named.table), None, None, None, named.table.collate, None]
        rows.append([*facts, options_text(named.table), named.table.comment])
    return listing(context, columns_of(_STATUS), rows, node.like, node.where)


def _table(context: Context, name: TableName | None) -> TableInfo | VirtualTable:
    definition = _named_table(context, name)
    if isinstance(definition, VirtualTable) or definition.view is None or name is None:
        return definition
    # A view with the columns its query has now. Raises 1356
    table = context.table(name.db or "", name.name)
    from exuvia.sql.select.from_clause import bound_view, plain_type
    from exuvia.sql.select.query import bind_query
    from exuvia.sql.select.tree import Build

    query = bound_view(table, definition.view, Build(context, bind_query))
    pairs = zip(table.info.cols, query.columns, strict=True)
    columns = tuple(evolve(own, type=plain_type(column.definition_type)) for own, column in pairs)
    return evolve(table.info, cols=columns)


def _named_table(context: Context, name: TableName | None) -> TableInfo | VirtualTable:
    """Like `_table`, but a view with the columns of its creation."""
    if name is None:
        raise ErrNoDB()
    database = context.database_of(name.db or "")
    virtual = context.virtual(database, name.name)
    if virtual is None:
        return context.definition(database, name.name).info
    return virtual.info or virtual


def columns(context: Context, node: Show) -> Result:
    """SHOW [FULL] COLUMNS, DESCRIBE."""
    definition = _table(context, node.table)
    database = context.database_of(node.table.db or "") if node.table else ""
    infos: list[tuple[ColumnInfo, str]] = []
    if isinstance(definition, VirtualTable):
        infos += [(column, PRIVILEGES) for column in definition.columns]
    else:
        for column in definition.public_columns:
            privileges = privileges_of(context, database.lower(), definition, column)
            if privileges is not None:
                infos.append((column_in(column, None, context.zone), privileges))
    line = "Field Type:65535 Null Key Default:65535 Extra"
    if node.full:
        line = "Field Type:65535 Collation Null Key Default:65535 Extra Privileges Comment:1024"
    rows: list[Row] = []
    for info, privileges in infos:
        row: Row = [info.name.O, type_text(info.type)]
        if node.full:
            row.append(info.type.Collate if is_text(info.type) else None)
        row += ["NO" if info.not_null else "YES", key_text(info)]
        row += [default_text(info), extra_text(info)]
        rows.append([*row, privileges, info.comment] if node.full else row)
    return listing(context, columns_of(line), rows, node.like, node.where)


_INDEX = (
    "Table Non_unique# Key_name Seq_in_index# Column_name Collation Cardinality# Sub_part#"
    " Packed Null Index_type Comment Index_comment:1024 Visible Expression Clustered Global"
)


def indexes(context: Context, node: Show) -> Result:
    """SHOW INDEX."""
    definition = _table(context, node.table)
    rows: list[Row] = []
    for index in () if isinstance(definition, VirtualTable) else shown_indexes(definition):
        clustered = "YES" if index.exuvia_clustered else "NO"
        for n, part in enumerate(index.idx_cols):
            column = definition.cols[part.offset] if isinstance(definition, TableInfo) else None
            null = "" if column is not None and column.not_null else "YES"
            row: Row = [definition.name.O if isinstance(definition, TableInfo) else definition.name]
            text = expression_of(definition, part) if isinstance(definition, TableInfo) else None
            row += [0 if index.is_unique else 1, index.idx_name.O, n + 1]
            row += [part.name.O if text is None else None, "A", 0]
            row += [part.length if part.length > 0 else None, None, null, "BTREE", ""]
            row += [index.comment, "NO" if index.is_invisible else "YES", text, clustered]
            row.append("YES" if index.is_global else "NO")
            rows.append(row)
    return listing(context, columns_of(_INDEX), rows, node.like, node.where)


def create_table(context: Context, node: Show) -> Result:
    """SHOW CREATE TABLE."""
    definition, quote = _named_table(context, node.table), quote_of(context)
    if isinstance(definition, TableInfo) and not definition.is_local_temporary:
        assert node.table is not None
        show_objects.demand_shown(context, context.database_of(node.table.db or ""), definition)
    if isinstance(definition, TableInfo) and not definition.is_stored:
        created = created_sequence if definition.view is None else created_view
        return created(context, definition)
    if isinstance(definition, VirtualTable):
        body = ",\n".join(
            f"  {quote(c.name.O)} {type_text(c.type)} DEFAULT NULL" for c in definition.columns
        )
        options = "ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin"
        name, text = (
            definition.name,
            f"CREATE TABLE {quote(definition.name)} (\n{body}\n) {options}",
        )
    else:
        name = definition.name.O
        definition = living(context.txn, definition)
        text = create_table_text(
            table_in(definition, None, context.zone),
            next_auto(context, definition) or next_random(context, definition),
            constraint_lines(context, definition),
            quote,
        )
    return Result(columns_of("Table ~Create_Table:65535"), [[name, text]])


# -- server and session ----------------------------------------------------------------------------

Shower = Callable[[Context, Show], Result]


def show(context: Context, node: Show) -> Result:
    """Run a SHOW statement. Raises 1235 for an unsupported kind."""
    shower = KINDS.get(node.kind)
    if shower is None:
        raise ErrNotSupportedYet(f"SHOW {node.kind.upper()}")
    result = shower(context, node)
    if node.limit is not None:
        offset, count = node.limit
        result.rows = result.rows[offset : offset + count]
    return result


def describe(context: Context, node: Describe) -> Result:
    """DESCRIBE table [column or pattern]."""
    return columns(context, Show(kind="columns", table=node.table, like=node.pattern))


def _databases(context: Context, node: Show) -> Result:
    databases = context.session.services.schemas.databases(context.txn)
    rights = context.session.rights
    visible = [database for database in databases if rights.lists_database(database.db_name.O)]
    names = sorted(database.db_name.O for database in visible)
    title = f"Database ({node.like})" if node.like is not None else "Database"
    columns = [OutputColumn(title, columns_of("x")[0].type)]
    return listing(
        context, columns, [[database_name] for database_name in names], node.like, node.where
    )


def _create_database(context: Context, node: Show) -> Result:
    info = context.session.services.schemas.database(context.txn, node.database or "")
    columns = columns_of("Database ~Create_Database:1024")
    usual = default_collations(context.session.variable)
    # mysql mode has other default collations: the text must be the same for sessions without it
    defaults = usual if usual is DEFAULTS else {}
    text = create_database_text(info, node.if_not_exists, quote_of(context), defaults)
    return Result(columns, [[info.db_name.O, text]])


def _variables(context: Context, node: Show) -> Result:
    if node.scope == "global":
        texts = all_globals(context.txn, context.session.services)
    else:
        texts = context.session.texts()
    rows = [[name, texts[name]] for name in sorted(texts)]
    return listing(context, columns_of("Variable_name Value:1024"), rows, node.like, node.where)


def _status(context: Context, node: Show) -> Result:
    rows = status_rows(context)
    return listing(context, columns_of("Variable_name Value:1024"), rows, node.like, node.where)


def _warnings(context: Context, node: Show) -> Result:
    notes = context.session.warnings
    if node.kind == "errors":
        notes = [note for note in notes if note.level == "Error"]
    if node.count:
        title = "@@session.error_count" if node.kind == "errors" else "@@session.warning_count"
        result = Result([OutputColumn(title, BIGINT)], [[len(notes)]])
    else:
        result = Result(columns_of("Level Code# Message:1024"), [list(note) for note in notes])
    result.warnings = context.session.warnings
    result.lists_warnings = True
    # drivers run this statement unasked: it must not change FOUND_ROWS()
    result.found_rows = context.session.found_rows
    return result


def _processlist(context: Context, node: Show) -> Result:
    columns = columns_of("Id# User Host db Command Time# State Info:65535")
    most = None if node.full else 100
    rows: list[Row] = [
        [*process[:3], process.database or None, *process[4:7], process.info[:most] or None]
        for process in processes_seen(context)
    ]
    return Result(columns, rows)


def _engines(context: Context, node: Show) -> Result:
    columns = columns_of("Engine Support Comment:80 Transactions XA Savepoints")
    return listing(context, columns, engines(context), node.like, node.where)


def _charsets(context: Context, node: Show) -> Result:
    mine = context.variable("default_collation_for_utf8mb4")
    rows = [
        [name, text, mine if name == "utf8mb4" else collate, n]
        for name, collate, text, n in character_sets(context)
    ]
    columns = columns_of("Charset Description ~Default_collation Maxlen#")
    return listing(context, columns, rows, node.like, node.where)


def _collations(context: Context, node: Show) -> Result:
    columns = columns_of("Collation Charset Id# Default Compiled Sortlen# Pad_attribute")
    mine = context.variable("default_collation_for_utf8mb4")
    rows: list[Row] = []
    for row in collations(context):
        if row[1] == "utf8mb4":
            row = [*row[:3], "Yes" if row[0] == mine else "", *row[4:]]
        rows.append(list(row))
    return listing(context, columns, rows, node.like, node.where)


def _in_flight(context: Context, node: Show) -> Result:
    return Result([OutputColumn("HistogramsInFlight", BIGINT)], [[0]])


def _empty(line: str) -> Shower:
    def shower(context: Context, node: Show) -> Result:
        rows: Iterable[Row] = ()
        return listing(context, columns_of(line), rows, node.like, node.where)

    return shower


def _missing(unknown: MySQLError, *words: str) -> Shower:
    """A SHOW for objects that do not exist in this system: it raises the error of an unknown
    name."""

    def shower(context: Context, node: Show) -> Result:
        assert node.table is not None
        title = node.table.name if node.table.db is None else f"{node.table.db}.{node.table.name}"
        raise unknown(*words, title) if unknown is not ErrTrgDoesNotExist else unknown()

    return shower


def _privileges(context: Context, node: Show) -> Result:
    columns = columns_of("Privilege Context Comment:255")
    return listing(context, columns, privilege_rows(), node.like, node.where)


_ROUTINES = (
    "Db Name Type Definer Modified@ Created@ Security_type Comment:1024 character_set_client"
    " collation_connection ~Database_Collation"
)

KINDS: dict[str, Shower] = {
    "databases": _databases,
    "histograms_in_flight": _in_flight,
    "create sequence": show_objects.create_sequence,
    "create view": show_objects.create_view,
    "create database": _create_database,
    "create placement policy": show_placement.create_policy,
    "create resource group": show_placement.create_group,
    "placement": show_placement.placement,
    "placement labels": _empty("Key Values:1024"),
    "affinity": show_placement.affinity,
    "variables": _variables,
    "status": _status,
    "warnings": _warnings,
    "errors": _warnings,
    "processlist": _processlist,
    "engines": _engines,
    "character set": _charsets,
    "collation": _collations,
    "tables": tables,
    "table status": table_status,
    "columns": columns,
    "index": indexes,
    "create table": create_table,
    "open tables": _empty("Database Table In_use# Name_locked#"),
    "plugins": _empty("Name Status Type Library License"),
    "privileges": _privileges,
    "procedure status": _empty(_ROUTINES),
    "function status": _empty(_ROUTINES),
    "triggers": _empty(
        "Trigger Event Table Statement:65535 Timing Created@ sql_mode:8192 Definer"
        " character_set_client collation_connection ~Database_Collation"
    ),
    "events": _empty(
        "Db Name Definer ~Time_zone Type ~Execute_At@ ~Interval_Value ~Interval_Field Starts@"
        " Ends@ Status Originator# character_set_client collation_connection"
        " ~Database_Collation"
    ),
    "profiles": _empty("Query_ID# Duration Query:1024"),
    "bindings": show_bindings.bindings,
    "master status": _empty("File Position# Binlog_Do_DB Binlog_Ignore_DB Executed_Gtid_Set:1024"),
    "binary log": _empty("File Position# Binlog_Do_DB Binlog_Ignore_DB Executed_Gtid_Set:1024"),
    "binary logs": _empty("Log_name File_size# Encrypted"),
    "master logs": _empty("Log_name File_size# Encrypted"),
    "binary log status": _empty(
        "File Position# Binlog_Do_DB Binlog_Ignore_DB Executed_Gtid_Set:1024"
    ),
    "binlog events": _empty("Log_name Pos# Event_type Server_id# End_log_pos# Info:1024"),
    "relaylog events": _empty("Log_name Pos# Event_type Server_id# End_log_pos# Info:1024"),
    "replicas": _empty("Server_Id# Host Port# Source_Id# Replica_UUID"),
    "slave hosts": _empty("Server_id# Host Port# Master_id# Slave_UUID"),
    "profile": _empty("Status Duration%"),
    "create procedure": _missing(ErrSpDoesNotExist, "PROCEDURE"),
    "create function": _missing(ErrSpDoesNotExist, "FUNCTION"),
    "create trigger": _missing(ErrTrgDoesNotExist),
    "create event": _missing(ErrEventDoesNotExist),
    "replica status": _empty("Replica_IO_State"),
    "slave status": _empty("Slave_IO_State"),
    "engine innodb": _empty("Type Name Status:65535"),
    **STATISTICS,
}
