"""information_schema: databases, tables, columns, indexes, constraints, partitions, views,
sequences.

The columns are those of TiDB 8.5.

Sizes are estimates. A column of numbers, times, ENUM or SET counts 8 bytes a row. A DECIMAL counts
the bytes of its digits. Texts and similar types count the total of the last ANALYZE. An index
counts the bytes of its columns.

Indexes and constraints have their present names.
"""

from collections.abc import Iterable, Iterator

from exuvia.base.types import INTEGER_BITS, Family, FieldType, Flag, TypeCode
from exuvia.catalog.model import (
    RULE_TEXT,
    ColumnInfo,
    DatabaseInfo,
    FkInfo,
    PartitionDefinition,
    PartitionInfo,
    PartitionType,
    PolicyRef,
    SchemaState,
    TableInfo,
)
from exuvia.catalog.placement import find_policy
from exuvia.catalog.system_tables import SHOWN_USER
from exuvia.kv import keys
from exuvia.sql.access.choose import shown_indexes
from exuvia.sql.bind.scope import column_in
from exuvia.sql.charsets import CHARSETS
from exuvia.sql.privileges.rights import EVERYBODY_READS
from exuvia.sql.result import Row
from exuvia.sql.statement.context import Context
from exuvia.sql.type_text import (
    default_text,
    expression_of,
    extra_text,
    identifier,
    is_text,
    key_text,
    predicate_text,
    type_name,
    type_text,
)
from exuvia.sql.write.foreign_keys import index_over, names_of, parent_table, ref_ids
from exuvia.stats import records

PRIVILEGES = "select,insert,update,references"


def all_tables(context: Context) -> Iterator[tuple[DatabaseInfo, TableInfo]]:
    """Every visible table of every database, by name, limited to the names in the query's WHERE."""
    schemas, rights = context.session.services.schemas, context.session.rights
    about = context.about
    for database in schemas.databases(context.txn):
        if about.table_schema not in (None, database.db_name.L):
            continue
        for table in schemas.tables(context.txn, database.db_name.O, about.table_name):
            if rights.everything or rights.sees_table(database.db_name.O, table.name.O):
                yield database, SHOWN_USER if table.id == SHOWN_USER.id else table


def sees(context: Context, database: str | None, table: str | None) -> bool:
    """Whether the account may see a listed table. NULL names a dropped table."""
    rights = context.session.rights
    if database is None or table is None:
        return rights.everything
    return rights.everything or rights.sees_table(database, table)


def reads(context: Context, database: str, table: str) -> bool:
    """Whether the account may SELECT the whole table. For lists that contain values of rows."""
    rights = context.session.rights
    return rights.everything or "SELECT" in rights.on_table(database, table)


def privileges_of(
    context: Context, database: str, table: TableInfo, column: ColumnInfo
) -> str | None:
    """PRIVILEGES of a column, or None if the account may not see the column, as in MySQL 8."""
    rights = context.session.rights
    if rights.everything or database in EVERYBODY_READS or table.is_local_temporary:
        return PRIVILEGES
    return ",".join(rights.of_column(database, table.name.O, column.name.L)).lower() or None


def _schemata(context: Context) -> Iterable[Row]:
    rights = context.session.rights
    for database in context.session.services.schemas.databases(context.txn):
        if not rights.lists_database(database.db_name.O):
            continue
        policy = policy_name(context, database.policy_ref_info)
        yield ["def", database.db_name.O, database.charset, database.collate, None, policy, "NO"]


def policy_name(context: Context, policy: PolicyRef | None) -> str | None:
    """The value of TIDB_PLACEMENT_POLICY_NAME."""
    if policy is None:
        return None
    current = find_policy(context.txn, policy.name.L)
    return current.name.O if current is not None and current.id == policy.id else None


def kind_of(database: DatabaseInfo, table: TableInfo) -> str:
    """The value of TABLE_TYPE."""
    if not table.is_stored:
        return "SEQUENCE" if table.view is None else "VIEW"
    return "SYSTEM VIEW" if database.db_name.L == "information_schema" else "BASE TABLE"


def row_count(context: Context, table: TableInfo) -> int:
    """The estimated number of rows; 1 for a sequence."""
    if table.sequence is not None:
        return 1
    count = context.session.services.store.count
    return sum(count(keys.span_of(keys.row_prefix(table_id))) for table_id in table.physical_ids)


def next_auto(context: Context, table: TableInfo) -> int | None:
    """The next value of AUTO_INCREMENT, or None for a table without it."""
    if not any(column.auto_increment for column in table.public_columns):
        return None
    return context.session.services.ids.peek(context.txn, table.id)


def next_random(context: Context, table: TableInfo) -> int:
    """The next value of AUTO_RANDOM's counter, or 0 for a table without it."""
    if not table.auto_random_bits:
        return 0
    return context.session.services.ids.peek(context.txn, table.id)


def table_row(context: Context, database: DatabaseInfo, table: TableInfo) -> Row:
    """A row of TABLES. Most columns of a view are NULL."""
    if table.view is not None:
        head: Row = ["def", database.db_name.O, table.name.O, "VIEW", *[None] * 16]
        return [*head, "VIEW", table.id, None, "NONCLUSTERED", None, None]
    rows = row_count(context, table)
    clustered = table.pk_is_handle or table.is_common_handle
    facts: Row = ["def", database.db_name.O, table.name.O, kind_of(database, table), "InnoDB", 10]
    size = Sizes(context, table, rows)
    facts += ["Compact", rows, size.of_a_row, size.of_rows, 0, size.of_indexes, 0]
    facts += [next_auto(context, table), None, None, None, table.collate, None]
    facts += [options_text(table), table.comment, table.id]
    facts += [_sharding(table), "CLUSTERED" if clustered else "NONCLUSTERED"]
    return [*facts, policy_name(context, table.policy_ref_info), table.exuvia_affinity or None]


def computed_table_row(database: DatabaseInfo, table: TableInfo) -> Row:
    """A row of TABLES for a computed table."""
    facts: Row = ["def", database.db_name.O, table.name.O, kind_of(database, table), "InnoDB", 10]
    facts += ["Compact", 0, 0, 0, 0, 0, 0, None, None, None, None, table.collate, None]
    return [*facts, "", table.comment, table.id, None, "NONCLUSTERED", None, None]


def options_text(table: TableInfo) -> str:
    """The value of CREATE_OPTIONS."""
    if table.partition is not None:
        return "partitioned"
    return "cached=on" if table.cache_table_status else ""


def _sharding(table: TableInfo) -> str:
    """The value of TIDB_ROW_ID_SHARDING_INFO."""
    if table.auto_random_bits:
        return f"PK_AUTO_RANDOM_BITS={table.auto_random_bits}"
    if table.pk_is_handle:
        return "NOT_SHARDED(PK_IS_HANDLE)"
    bits = table.ShardRowIDBits
    return f"SHARD_BITS={bits}" if bits else "NOT_SHARDED"


def _tables(context: Context) -> Iterable[Row]:
    for database, table in all_tables(context):
        yield table_row(context, database, table)


def column_row(
    database: DatabaseInfo, table: TableInfo, column: ColumnInfo, n: int, privileges: str
) -> Row:
    """A row of COLUMNS; `n` counts from 1."""
    kind = column.type
    row: Row = ["def", database.db_name.O, table.name.O, column.name.O, n, default_text(column)]
    row += ["NO" if column.not_null else "YES", type_name(kind), *_lengths(kind)]
    row += [kind.Charset, kind.Collate] if is_text(kind) else [None, None]
    row += [type_text(kind), key_text(column), extra_text(column), privileges]
    return [*row, column.comment, column.generated_expr_string, None]


def _lengths(kind: FieldType) -> Row:
    """Characters, octets, precision, scale, digits of seconds."""
    if is_text(kind):
        width = CHARSETS.get(kind.Charset, ("", "", 4))[2]
        octets = kind.Flen if kind.Flag & Flag.BLOB else kind.Flen * width
        return [kind.Flen, octets, None, None, None]
    if kind.family == Family.BYTES:
        return [kind.Flen, kind.Flen, None, None, None]
    if kind.Tp in (TypeCode.DATETIME, TypeCode.TIMESTAMP, TypeCode.TIME):
        return [None, None, None, None, max(kind.Decimal, 0)]
    if kind.Tp in INTEGER_BITS:
        return [None, None, _PRECISION[kind.Tp] + (kind.Tp == 8 and kind.unsigned), 0, None]
    if kind.Tp == TypeCode.NEWDECIMAL:
        return [None, None, kind.Flen, kind.Decimal, None]
    if kind.Tp in (TypeCode.FLOAT, TypeCode.DOUBLE, TypeCode.BIT):
        return [None, None, kind.Flen, kind.Decimal if kind.Decimal >= 0 else None, None]
    return [None, None, None, None, None]


_PRECISION = {1: 3, 2: 5, 9: 7, 3: 10, 8: 19}


def _columns(context: Context) -> Iterable[Row]:
    for database, table in all_tables(context):
        for n, column in enumerate(table.public_columns):
            privileges = privileges_of(context, database.db_name.L, table, column)
            if privileges is not None:
                visible = column_in(column, None, context.zone)
                yield column_row(database, table, visible, n + 1, privileges)


def nothing(context: Context) -> Iterable[Row]:
    """No rows, for kinds of objects that do not exist here."""
    return ()


# -- sizes -----------------------------------------------------------------------------------------


_EIGHT = {
    *INTEGER_BITS,
    *(TypeCode.DOUBLE, TypeCode.FLOAT, TypeCode.YEAR, TypeCode.TIME, TypeCode.DATE),
    *(TypeCode.DATETIME, TypeCode.TIMESTAMP, TypeCode.ENUM, TypeCode.SET, TypeCode.BIT),
}
_DIGITS_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)


class Sizes:
    """The sizes of a table or partition with `rows` rows. A partition excludes global indexes."""

    def __init__(
        self, context: Context, table: TableInfo, rows: int, partition: int | None = None
    ) -> None:
        ids = table.physical_ids if partition is None else (partition,)
        analyzed = _analyzed(context, ids) if rows else {}
        columns = [column for column in table.cols if column.state == SchemaState.PUBLIC]
        self._rows = rows
        self._bytes = {column.id: _bytes(column, rows, analyzed) for column in columns}
        self.of_rows = sum(self._bytes.values())
        self.of_a_row = self.of_rows // rows if rows else 0
        self.of_indexes = sum(self._indexes(table, partition is None))

    def _indexes(self, table: TableInfo, is_whole: bool) -> Iterator[int]:
        for index in table.indexes:
            if index.state != SchemaState.PUBLIC or (index.is_global and not is_whole):
                continue
            for part in index.idx_cols:
                whole = self._bytes.get(part.exuvia_column, 0)
                yield self._rows * part.length if part.length > 0 else whole


def _analyzed(context: Context, ids: Iterable[int]) -> dict[int, int]:
    """Total bytes of each column, by column id."""
    sizes: dict[int, int] = {}
    for physical_id in ids:
        for head in records.heads(context.txn, physical_id, 0):
            sizes[head.hist_id] = sizes.get(head.hist_id, 0) + head.size
    return sizes


def _bytes(column: ColumnInfo, rows: int, analyzed: dict[int, int]) -> int:
    kind = column.type
    if kind.Tp in _EIGHT:
        return 8 * rows
    if kind.Tp == TypeCode.NEWDECIMAL:
        return rows * sum(
            digits // 9 * 4 + _DIGITS_BYTES[digits % 9]
            for digits in (kind.Flen - kind.Decimal, kind.Decimal)
        )
    return analyzed.get(column.id, 0)


SHOWS_VIEW = frozenset(("SELECT", "SHOW VIEW"))

ALGORITHMS = ("UNDEFINED", "MERGE", "TEMPTABLE")


SECURITIES = ("DEFINER", "INVOKER")


CHECK_OPTIONS = ("LOCAL", "CASCADED")


def _views(context: Context) -> Iterable[Row]:
    for database, info in all_tables(context):
        view = info.view
        if view is None:
            continue
        maker = view.view_definer.Username, view.view_definer.Hostname
        definer = "@".join(maker)
        rights = context.session.rights
        privileges = rights.on_table(database.db_name.O, info.name.O)
        is_shown = rights.everything or maker == rights.account or SHOWS_VIEW <= privileges
        row: Row = ["def", database.db_name.O, info.name.O, view.view_select if is_shown else ""]
        row += [CHECK_OPTIONS[view.view_checkoption], "NO", definer]
        yield [*row, SECURITIES[view.view_security], info.charset, info.collate]


def _sequences(context: Context) -> Iterable[Row]:
    for database, info in all_tables(context):
        sequence = info.sequence
        if sequence is None:
            continue
        row: Row = ["def", database.db_name.O, info.name.O, int(sequence.sequence_cache)]
        row += [
            sequence.sequence_cache_value,
            int(sequence.sequence_cycle),
            sequence.sequence_increment,
        ]
        row += [sequence.sequence_max_value, sequence.sequence_min_value, sequence.sequence_start]
        yield [*row, info.comment]


_TABLES_OF_OBJECTS = (
    (
        "VIEWS",
        "TABLE_CATALOG:512 TABLE_SCHEMA TABLE_NAME VIEW_DEFINITION:65535 CHECK_OPTION"
        " IS_UPDATABLE DEFINER:77 SECURITY_TYPE CHARACTER_SET_CLIENT COLLATION_CONNECTION",
        _views,
    ),
    (
        "SEQUENCES",
        "TABLE_CATALOG:512 SEQUENCE_SCHEMA SEQUENCE_NAME CACHE# CACHE_VALUE# CYCLE# INCREMENT#"
        " MAX_VALUE# MIN_VALUE# START# COMMENT",
        _sequences,
    ),
)

TABLES = (
    (
        "SCHEMATA",
        "CATALOG_NAME:512 SCHEMA_NAME DEFAULT_CHARACTER_SET_NAME DEFAULT_COLLATION_NAME"
        " SQL_PATH:512 TIDB_PLACEMENT_POLICY_NAME DEFAULT_ENCRYPTION:3",
        _schemata,
    ),
    (
        "TABLES",
        "TABLE_CATALOG:512 TABLE_SCHEMA TABLE_NAME TABLE_TYPE ENGINE VERSION# ROW_FORMAT"
        " TABLE_ROWS# AVG_ROW_LENGTH# DATA_LENGTH# MAX_DATA_LENGTH# INDEX_LENGTH# DATA_FREE#"
        " AUTO_INCREMENT# CREATE_TIME@ UPDATE_TIME@ CHECK_TIME@ TABLE_COLLATION CHECKSUM#"
        " CREATE_OPTIONS:255 TABLE_COMMENT:2048 TIDB_TABLE_ID# TIDB_ROW_ID_SHARDING_INFO:255"
        " TIDB_PK_TYPE TIDB_PLACEMENT_POLICY_NAME TIDB_AFFINITY",
        _tables,
    ),
    (
        "COLUMNS",
        "TABLE_CATALOG:512 TABLE_SCHEMA TABLE_NAME COLUMN_NAME ORDINAL_POSITION#"
        " COLUMN_DEFAULT:65535 IS_NULLABLE DATA_TYPE CHARACTER_MAXIMUM_LENGTH#"
        " CHARACTER_OCTET_LENGTH# NUMERIC_PRECISION# NUMERIC_SCALE# DATETIME_PRECISION#"
        " CHARACTER_SET_NAME COLLATION_NAME COLUMN_TYPE:65535 COLUMN_KEY EXTRA:256"
        " PRIVILEGES:80 COLUMN_COMMENT:1024 GENERATION_EXPRESSION:65535 SRS_ID#",
        _columns,
    ),
    *_TABLES_OF_OBJECTS,
)


# -- keys ------------------------------------------------------------------------------------------


def _statistics(context: Context) -> Iterable[Row]:
    for database, table in all_tables(context):
        place = ["def", database.db_name.O, table.name.O]
        for index in shown_indexes(table):
            for n, part in enumerate(index.idx_cols):
                column = table.cols[part.offset]
                text = expression_of(table, part)
                yield [
                    *place,
                    0 if index.is_unique else 1,
                    database.db_name.O,
                    index.idx_name.O,
                    n + 1,
                    part.name.O if text is None else None,
                    "A",
                    0,
                    part.length if part.length > 0 else None,
                    None,
                    "" if column.not_null else "YES",
                    "BTREE",
                    "",
                    index.comment,
                    "NO" if index.is_invisible else "YES",
                    text,
                ]


def _tidb_indexes(context: Context) -> Iterable[Row]:
    for database, table in all_tables(context):
        for index in shown_indexes(table):
            kind = 0 if index.is_unique else 1
            for n, part in enumerate(index.idx_cols):
                row: Row = [database.db_name.O, table.name.O, kind, index.idx_name.O, n + 1]
                text = expression_of(table, part)
                row += [part.name.O if text is None else None]
                row += [part.length if part.length > 0 else None, index.comment, text, index.id]
                row += ["NO" if index.is_invisible else "YES"]
                row += ["YES" if index.exuvia_clustered else "NO", int(index.is_global)]
                yield [*row, predicate_text(index)]


def _key_column_usage(context: Context) -> Iterable[Row]:
    for database, table in all_tables(context):
        schema = database.db_name.O
        for index in shown_indexes(table):
            if not index.is_unique:
                continue
            for n, part in enumerate(index.idx_cols):
                if expression_of(table, part) is not None:
                    continue  # the hidden column of the expression is not shown
                if privileges_of(context, schema, table, table.cols[part.offset]) is None:
                    continue
                row: Row = ["def", schema, index.idx_name.O, "def", schema, table.name.O]
                place = 1 if index.is_primary and table.pk_is_handle else None
                yield [*row, part.name.O, n + 1, place, None, None, None]
    yield from key_usage(context)


def _table_constraints(context: Context) -> Iterable[Row]:
    for database, table in all_tables(context):
        schema = database.db_name.O
        for index in shown_indexes(table):
            if index.is_unique:
                kind = "PRIMARY KEY" if index.is_primary else "UNIQUE"
                yield ["def", schema, index.idx_name.O, schema, table.name.O, kind, "YES"]
    for database, table in all_tables(context):
        schema = database.db_name.O
        for key in shown_keys(context, table):
            yield ["def", schema, key.fk_name.O, schema, table.name.O, "FOREIGN KEY", "YES"]
        for check in table.checks:
            if check.state == SchemaState.PUBLIC:
                title, enforced = check.constraint_name.O, "YES" if check.enforced else "NO"
                yield ["def", schema, title, schema, table.name.O, "CHECK", enforced]


def shown_keys(context: Context, table: TableInfo) -> Iterator[FkInfo]:
    """The public foreign keys, with present names."""
    if not table.foreign_keys:
        return
    child = context.table_of_id(table.id)
    for key in table.foreign_keys:
        if key.state == SchemaState.PUBLIC and child is not None:
            yield names_of(key, child, parent_table(context, key))


def key_usage(context: Context) -> Iterable[Row]:
    """The rows of KEY_COLUMN_USAGE for foreign keys."""
    for database, table in all_tables(context):
        schema = database.db_name.O
        for key in shown_keys(context, table):
            pairs = zip(key.cols, key.ref_cols, strict=True)
            for n, (own, theirs) in enumerate(pairs, 1):
                column = next(
                    (candidate for candidate in table.cols if candidate.name.L == own.L), None
                )
                if column is not None and privileges_of(context, schema, table, column) is None:
                    continue
                row: Row = ["def", schema, key.fk_name.O, "def", schema, table.name.O, own.O, n, n]
                yield [*row, key.ref_schema.O, key.ref_table.O, theirs.O]


def referential_constraints(context: Context) -> Iterable[Row]:
    """The rows of REFERENTIAL_CONSTRAINTS."""
    for database, table in all_tables(context):
        schema = database.db_name.O
        for key in shown_keys(context, table):
            head: Row = ["def", schema, key.fk_name.O, "def", key.ref_schema.O]
            rules = [RULE_TEXT.get(rule, "NO ACTION") for rule in (key.on_update, key.on_delete)]
            # The index of the parent that serves the key
            parent = parent_table(context, key)
            index = None if parent is None else index_over(parent.info, ref_ids(key, parent))
            unique = "PRIMARY" if index is None else index.idx_name.O
            yield [*head, unique, "NONE", *rules, table.name.O, key.ref_table.O]


def check_constraints(context: Context) -> Iterable[Row]:
    """The rows of CHECK_CONSTRAINTS."""
    for database, table in all_tables(context):
        for check in table.checks:
            if check.state == SchemaState.PUBLIC:
                clause_text = f"({check.expr_string})"
                yield ["def", database.db_name.O, check.constraint_name.O, clause_text]


def tidb_check_constraints(context: Context) -> Iterable[Row]:
    """The rows of TIDB_CHECK_CONSTRAINTS, with the table's name and id."""
    for database, table in all_tables(context):
        for check in table.checks:
            if check.state == SchemaState.PUBLIC:
                row: Row = ["def", database.db_name.O, check.constraint_name.O]
                yield [*row, f"({check.expr_string})", table.name.O, table.id]


KEYS = (
    (
        "STATISTICS",
        "TABLE_CATALOG:512 TABLE_SCHEMA TABLE_NAME NON_UNIQUE# INDEX_SCHEMA INDEX_NAME"
        " SEQ_IN_INDEX# COLUMN_NAME COLLATION CARDINALITY# SUB_PART# PACKED NULLABLE INDEX_TYPE"
        " COMMENT INDEX_COMMENT:1024 IS_VISIBLE Expression",
        _statistics,
    ),
    (
        "TIDB_INDEXES",
        "TABLE_SCHEMA TABLE_NAME NON_UNIQUE# KEY_NAME SEQ_IN_INDEX# COLUMN_NAME SUB_PART#"
        " INDEX_COMMENT:2048 Expression INDEX_ID# IS_VISIBLE CLUSTERED IS_GLOBAL#"
        " PREDICATE",
        _tidb_indexes,
    ),
    (
        "KEY_COLUMN_USAGE",
        "CONSTRAINT_CATALOG:512 CONSTRAINT_SCHEMA CONSTRAINT_NAME TABLE_CATALOG:512 TABLE_SCHEMA"
        " TABLE_NAME COLUMN_NAME ORDINAL_POSITION# POSITION_IN_UNIQUE_CONSTRAINT#"
        " REFERENCED_TABLE_SCHEMA REFERENCED_TABLE_NAME REFERENCED_COLUMN_NAME",
        _key_column_usage,
    ),
    (
        "TABLE_CONSTRAINTS",
        "CONSTRAINT_CATALOG:512 CONSTRAINT_SCHEMA CONSTRAINT_NAME TABLE_SCHEMA TABLE_NAME"
        " CONSTRAINT_TYPE ENFORCED:3",
        _table_constraints,
    ),
    (
        "REFERENTIAL_CONSTRAINTS",
        "CONSTRAINT_CATALOG:512 CONSTRAINT_SCHEMA CONSTRAINT_NAME UNIQUE_CONSTRAINT_CATALOG:512"
        " UNIQUE_CONSTRAINT_SCHEMA UNIQUE_CONSTRAINT_NAME MATCH_OPTION UPDATE_RULE DELETE_RULE"
        " TABLE_NAME REFERENCED_TABLE_NAME",
        referential_constraints,
    ),
    (
        "CHECK_CONSTRAINTS",
        "CONSTRAINT_CATALOG CONSTRAINT_SCHEMA CONSTRAINT_NAME CHECK_CLAUSE:65535",
        check_constraints,
    ),
    (
        "TIDB_CHECK_CONSTRAINTS",
        "CONSTRAINT_CATALOG CONSTRAINT_SCHEMA CONSTRAINT_NAME CHECK_CLAUSE:65535 TABLE_NAME"
        " TABLE_ID#",
        tidb_check_constraints,
    ),
)


# -- partitions ------------------------------------------------------------------------------------


def description(definition: PartitionDefinition) -> str | None:
    """PARTITION_DESCRIPTION: the bound, or the list of values."""
    if definition.less_than:
        return ",".join(definition.less_than)
    if definition.in_values:
        rows = (row[0] if len(row) == 1 else f"({','.join(row)})" for row in definition.in_values)
        return ",".join(rows)
    return None


def method(partitioning: PartitionInfo) -> str:
    """The value of PARTITION_METHOD."""
    by_columns = partitioning.columns and partitioning.type != PartitionType.KEY
    return f"{partitioning.type.name} COLUMNS" if by_columns else partitioning.type.name


def partition_rows(context: Context, database: DatabaseInfo, table: TableInfo) -> Iterable[Row]:
    """The rows of PARTITIONS: one for each partition, or one for a table without partitions."""
    partitioning = table.partition
    names: Row = ["def", database.db_name.O, table.name.O]
    count = context.session.services.store.count
    tail: Row = [None] * 4
    if partitioning is None:
        rows = sum(
            count(keys.span_of(keys.row_prefix(table_id))) for table_id in table.physical_ids
        )
        blank: Row = [None] * 9
        size = Sizes(context, table, rows)
        facts: Row = [rows, size.of_a_row, size.of_rows, 0, size.of_indexes, 0]
        policy = policy_name(context, table.policy_ref_info)
        yield [*names, *blank, *facts, *tail, None, None, None, None, policy, None]
        return
    expr = partitioning.expr or ",".join(identifier(column.O) for column in partitioning.columns)
    for n, definition in enumerate(partitioning.definitions):
        rows = count(keys.span_of(keys.row_prefix(definition.id)))
        row: Row = [
            *names,
            definition.name.O,
            None,
            n + 1,
            None,
            method(partitioning),
            None,
            expr,
            None,
        ]
        size = Sizes(context, table, rows, definition.id)
        row += [description(definition), rows, size.of_a_row, size.of_rows, 0, size.of_indexes, 0]
        row += [*tail, definition.comment, None, None]
        policy = policy_name(context, definition.policy_ref_info or table.policy_ref_info)
        yield [*row, definition.id, policy, table.exuvia_affinity or None]


_COLUMNS = (
    "TABLE_CATALOG:512 TABLE_SCHEMA TABLE_NAME PARTITION_NAME SUBPARTITION_NAME"
    " PARTITION_ORDINAL_POSITION# SUBPARTITION_ORDINAL_POSITION# PARTITION_METHOD:18"
    " SUBPARTITION_METHOD:12 PARTITION_EXPRESSION:65535 SUBPARTITION_EXPRESSION:65535"
    " PARTITION_DESCRIPTION:65535 TABLE_ROWS# AVG_ROW_LENGTH# DATA_LENGTH# MAX_DATA_LENGTH#"
    " INDEX_LENGTH# DATA_FREE# CREATE_TIME@ UPDATE_TIME@ CHECK_TIME@ CHECKSUM#"
    " PARTITION_COMMENT:80 NODEGROUP:12 TABLESPACE_NAME TIDB_PARTITION_ID#"
    " TIDB_PLACEMENT_POLICY_NAME TIDB_AFFINITY"
)


def _partitions(context: Context) -> Iterable[Row]:
    for database, table in all_tables(context):
        yield from partition_rows(context, database, table)


PARTITIONS = (("PARTITIONS", _COLUMNS, _partitions),)
